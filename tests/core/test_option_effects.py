"""The effect of each option on programs: one section for each group of rows of the table of options."""

import functools
import gc
import logging
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from xjax.core.config import OPTIONS, Override, config
from xjax.runtime.programs import compile_cache


def log_of(x):
    return jnp.log(x) + 1.0


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.WARNING, "xjax")
    return lambda: [record.getMessage() for record in caplog.records]


# -- numbers and types --------------------------------------------------------------------------------------------

def test_x64_and_what_asks_for_it():
    with xjax.enable_x64():
        assert jnp.ones(1).dtype == np.float64 == jnp.asarray(1.5).dtype
    assert jnp.ones(1).dtype == np.float32
    with pytest.warns(UserWarning, match="float64 was requested, float32 is used"):
        jnp.ones(1, "float64")
    with Override("explicit_x64_dtypes", "error"):
        assert_refused(lambda: jnp.ones(1, "float64"), ValueError, "jax_enable_x64")
        assert_refused(lambda: jnp.ones(2).view("float64"), ValueError, ())
        assert_refused(lambda: jnp.sum(jnp.ones(2), None, "float64"), ValueError, ())
        assert_refused(lambda: xjax.lax.full((2,), 1, "int64"), ValueError, ())
        assert jnp.ones(1, float).dtype == np.float32


def test_sums_of_half_precision():
    x = jnp.ones(3, "bfloat16")
    with xjax.allow_f16_reductions(False):
        assert_refused(lambda: xjax.lax.reduce_sum(x, (0,)), ValueError, ["half precision", "fix: convert to float32"])
        assert_refused(lambda: xjax.jit(lambda x: xjax.lax.reduce_sum(x, (0,)))(x), ValueError, ())
        assert jnp.sum(x) == 3 and xjax.nn.softmax(x).dtype == x.dtype
    assert xjax.lax.reduce_sum(x, (0,)) == 3


def test_promotion():
    pair, row = jnp.ones((2, 2)), jnp.ones(2)
    with xjax.numpy_rank_promotion("raise"):
        assert_refused(lambda: jnp.add(pair, row), Exception, "rank")
    with xjax.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank"):
        pair + row
    with xjax.numpy_dtype_promotion("strict"):
        assert_refused(lambda: jnp.add(row, jnp.arange(2)), xjax.errors.TypePromotionError, ())
        assert (row + 1).dtype == np.float32


def test_precision_of_products():
    with xjax.default_matmul_precision("highest"):
        high = str(xjax.make_jaxpr(jnp.dot)(np.ones(2), np.ones(2)))
    assert "Precision.HIGHEST" in high and "HIGHEST" not in str(xjax.make_jaxpr(jnp.dot)(np.ones(2), np.ones(2)))


# -- random numbers -----------------------------------------------------------------------------------------------

def test_random_numbers():
    key = xjax.random.PRNGKey(3)
    with Override("random_seed_offset", 2):
        assert xjax.random.PRNGKey(1).tolist() == key.tolist() == xjax.random.PRNGKey(np.int32(1)).tolist()
    with Override("high_dynamic_range_gumbel", True):
        fine = xjax.random.gumbel(key, (3,))
    np.testing.assert_array_equal(fine, xjax.random.gumbel(key, (3,), mode="high"))
    assert not np.array_equal(fine, xjax.random.gumbel(key, (3,)))
    with xjax.threefry_partitionable(False):
        assert not np.array_equal(xjax.random.bits(key, (4,)), old := xjax.random.bits(xjax.random.split(key)[0], (4,)))
    assert not np.array_equal(old, xjax.random.bits(xjax.random.split(key)[0], (4,)))
    with xjax.default_prng_impl("rbg"):
        assert xjax.random.PRNGKey(3).tolist() == [0, 3, 0, 3] and str(xjax.random.key(3).dtype) == "key<rbg>"
        assert int(xjax.random.bits(xjax.random.PRNGKey(3))) == int(xjax.random.bits(xjax.random.key(3)))
        assert_refused(lambda: xjax.random.bits(key), TypeError, "u32[2]")
    with xjax.enable_custom_prng(True):
        assert xjax.random.PRNGKey(3).shape == () and bool(xjax.random.PRNGKey(3) == xjax.random.key(3))
    with xjax.legacy_prng_key("error"):
        assert_refused(lambda: xjax.random.normal(key), ValueError, "an array of words")
        xjax.random.normal(xjax.random.key(3))
    with xjax.legacy_prng_key("warn"), pytest.warns(UserWarning, match="an array of words"):
        xjax.random.normal(key)


# -- devices and programs -----------------------------------------------------------------------------------------

def test_devices():
    second = xjax.devices()[1]
    with xjax.default_device(second):
        assert (jnp.ones(2) + 1).devices() == {second}
    for name, value in [("num_cpu_devices", 3), ("platforms", "tpu"), ("cpu_enable_async_dispatch", False)]:
        assert_refused(lambda: config.update(name, value), RuntimeError, "too late: a backend is already running")


def test_disable_jit_runs_python():
    seen = []
    f = xjax.jit(lambda x: seen.append(x) or x + 1)
    with xjax.disable_jit():
        assert float(f(1.0)) == 2.0 and seen == [1.0]
        assert float(xjax.lax.scan(lambda c, x: (c + x, seen.append(float(c))), 0.0, jnp.ones(2))[0]) == 2.0
    assert seen[1:] == [0.0, 1.0]


def test_disable_most_optimizations_compiles_another_program():
    f = xjax.jit(lambda x: jnp.sin(x) * jnp.cos(x) + 1)
    x = jnp.ones(8)
    usual = f(x)
    with Override("disable_most_optimizations", True):
        plain = f(x)
        assert len(f._by_types.values()) == 2                # compiled as a separate program
    np.testing.assert_allclose(plain, usual, rtol=1e-6)


def test_no_tracing_and_no_execution():
    f = xjax.jit(log_of)
    x = f(jnp.ones(2))
    with xjax.no_tracing():
        f(x)
        assert_refused(lambda: f(jnp.ones(3)), RuntimeError, ["jit `log_of`: would be traced", "f32[2] -> f32[3]"])
        assert_refused(lambda: xjax.pmap(log_of)(np.ones((2, 1))), RuntimeError, "pmap of `log_of`: would be traced")
    with xjax.no_execution():
        assert_refused(lambda: x + x, RuntimeError, "add: would run")
        assert_refused(lambda: f(x), RuntimeError, "jit `log_of`: would run")
        assert_refused(lambda: xjax.pmap(log_of)(np.ones((2, 1))), RuntimeError, "would run")
        assert xjax.eval_shape(f, x).shape == (2,)
        assert float(xjax.make_jaxpr(f)(x).out_avals[0].size) == 2
    f(x)


# -- looking for faults -------------------------------------------------------------------------------------------

LOG_LINE = log_of.__code__.co_firstlineno + 1
BAD = {"debug_nans": (-1.0, "a NaN"), "debug_infs": (0.0, "an infinity")}


@pytest.mark.parametrize("option", BAD)
def test_bad_numbers_are_found_where_they_are_made(option):
    value, what = BAD[option]
    ways = {
        "eager": log_of,
        "jit": xjax.jit(log_of),
        "jit of jit": xjax.jit(lambda x: xjax.jit(log_of)(x) * 2),
        "grad of jit": xjax.grad(xjax.jit(log_of)),
        "donated": xjax.jit(log_of, donate_argnums=0),
        "static": xjax.jit(lambda n, x: log_of(x) * n, static_argnums=0),
    }
    for way, f in ways.items():
        args = (2, jnp.asarray(value)) if way == "static" else (jnp.asarray(value),)
        f(*args[:-1], jnp.asarray(1.0))             # compiled without the option
        with Override(option, True):
            text = str(assert_refused(lambda: f(*args), FloatingPointError, ()))
            f(*args[:-1], jnp.asarray(2.0))
        line = rf"line        test_option_effects.py:{LOG_LINE}"
        assert re.match(rf"log: made {what}\.\n  argument 0  f32\[\]\n  {line}\n  fix: ", text), (way, text)


def root_of_square(x):
    return jnp.sqrt(x * x)


@pytest.mark.parametrize("wrap", [lambda f: f, xjax.jit, xjax.checkpoint])
def test_bad_numbers_of_the_backward_pass_are_told_at_the_line_of_the_forward_one(wrap):
    line = f"test_option_effects.py:{root_of_square.__code__.co_firstlineno + 1}"
    with xjax.debug_nans():
        assert_refused(lambda: xjax.grad(wrap(root_of_square))(0.0), FloatingPointError, line)
        assert_refused(lambda: wrap(xjax.grad(root_of_square))(0.0), FloatingPointError, line)


def test_bad_numbers_elsewhere():
    with xjax.debug_nans():
        looped = xjax.jit(lambda x: xjax.lax.scan(lambda c, _: (log_of(c), None), x, None, 3)[0])
        assert_refused(lambda: looped(0.1), FloatingPointError, f"test_option_effects.py:{LOG_LINE}")    # in the loop
        assert_refused(lambda: jnp.negative(jnp.nan), FloatingPointError, "argument 0  f32[], already contains a NaN")
        assert_refused(lambda: xjax.pmap(log_of)(-np.ones(2, np.float32)), FloatingPointError, "made a NaN")
        assert_refused(lambda: xjax.lax.scan(lambda c, _: (jnp.log(c), None), -1.0, None, 3), FloatingPointError,
                       ["scan: made a NaN", "fix: run it under jax.disable_jit()"])
        assert jnp.isinf(jnp.log(0.0))              # an infinity is not a NaN
        assert (jnp.arange(3) // 2).tolist() == [0, 0, 1]
    assert bool(jnp.isnan(jnp.log(-1.0)))


def leaks():
    """name -> (function that leaks its argument into `box`, pattern for the holder in the message)."""
    def attribute(box, x):
        box.cache = {"h": [x + 1]}

    def closure(box, x):
        box.f = lambda: x

    def default(box, x):
        def f(y=x):
            return y
        box.f = f

    def generator(box, x):
        def steps():
            y = x * 2
            yield 1
            yield y
        box.f = steps()
        next(box.f)

    def exception(box, x):
        box.error = ValueError(x)

    def on_class(box, x):
        type(box).shared = x

    return {
        "attribute": (attribute, r"box\.cache\['h'\]\[0\], a variable of `test_leaks_are_found"),
        "closure": (closure, r"the closure of `<lambda>` \(test_option_effects.py:\d+\)"),
        "default": (default, r"a default argument of `f`"),
        "generator": (generator, r"a variable of the suspended `steps`"),
        "exception": (exception, r"an exception of type ValueError: args\[0\]"),
        "class": (on_class, r"Holder\.shared, an attribute of a class"),
    }


TRANSFORMS = {"jit": xjax.jit, "grad": xjax.grad, "vmap": lambda f: lambda x: xjax.vmap(f)(x * np.ones(2)),
              "jvp": lambda f: lambda x: xjax.jvp(f, (x,), (x,)), "remat": xjax.checkpoint}


@pytest.fixture
def small_heap():
    """Exclude the millions of objects of earlier tests from the search for leaks, which visits all objects."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("name", leaks())
def test_leaks_are_found_and_their_holders_named(name):
    class Holder:                                   # defined here, so that `small_heap` does not exclude it
        pass

    leak, holder = leaks()[name]
    for transform, apply in list(TRANSFORMS.items())[:3 if name == "attribute" else 1]:
        box = Holder()
        with xjax.checking_leaks():
            call = functools.partial(apply(lambda x, box=box: leak(box, x) or x * 1.0), 2.0)
            text = str(assert_refused(call, xjax.errors.UnexpectedTracerError, "Leaked"))
        assert re.search(holder, text), (transform, text)
        if "shared" in vars(Holder):
            del Holder.shared


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("inner", [xjax.jit, xjax.grad, xjax.vmap, xjax.checkpoint])
def test_leaks_of_an_inner_transform_are_found_when_it_ends(inner):
    def outer(x):
        kept = []
        inner(lambda y: kept.append(y) or y.sum())(x)
        return x

    argument = jnp.ones(2) if inner is xjax.vmap else 1.0
    with xjax.checking_leaks():
        assert_refused(lambda: xjax.jit(outer)(argument), xjax.errors.UnexpectedTracerError, "kept[0]")


@pytest.mark.usefixtures("small_heap")
def test_what_does_not_leak():
    with xjax.checking_leaks():
        f = xjax.jit(xjax.grad(lambda x: xjax.lax.scan(lambda c, y: (c * y + x, y), x, jnp.arange(3.0))[0]))
        assert float(f(2.0)) == 5.0                 # ((0 x + x) 1 + x) 2 + x
        y, back = xjax.vjp(lambda x: jnp.sin(x) * x, 2.0)
        assert np.isfinite(back(y)[0])
        assert xjax.eval_shape(lambda x: {"shifted": x + 1}, 1.0)["shifted"].shape == ()
        assert xjax.vmap(xjax.grad(jnp.sin))(np.zeros(2)).tolist() == [1, 1]
        with pytest.raises(ZeroDivisionError):      # the traceback refers to tracers: not a leak
            xjax.jit(lambda x: x + 1 // 0)(1.0)


def test_enable_checks_finds_a_wrong_rule():
    with xjax.enable_checks():
        assert float(xjax.jit(xjax.grad(lambda x: jnp.sin(x) * x))(0.0)) == 0.0
    wrong = xjax.core.jaxpr
    program = xjax.make_jaxpr(jnp.sin)(1.0)
    eqn = program.jaxpr.eqns[0]
    eqn.invars[0] = wrong.Var(eqn.invars[0].aval)   # a variable without a definition
    with pytest.raises(AssertionError, match="sin reads an undefined variable"):
        wrong.check_jaxpr(program.jaxpr)


def frames_of(error):
    entry, files = error.__traceback__, []
    while entry is not None:
        files.append(entry.tb_frame.f_code.co_filename)
        entry = entry.tb_next
    return files


def test_traceback_filtering(monkeypatch):
    def broken(x):
        return jnp.reshape(x, (3, 3))               # raised deep inside

    def inner_frames():
        with pytest.raises(TypeError) as caught:
            xjax.jit(xjax.grad(lambda x: xjax.vmap(broken)(x).sum()))(jnp.ones((2, 4)))
        files = frames_of(caught.value)
        first = files.index(__file__, 2)            # after this function and pytest
        return [f for f in files[first:] if "/xjax/" in f]
    assert not inner_frames()
    with Override("traceback_filtering", "off"):
        assert len(inner_frames()) >= 5
    monkeypatch.setattr("xjax.runtime.programs.executable.lower_program", [].pop)
    with pytest.raises(TypeError) as caught:            # not an error with an explanation: its location is shown
        xjax.jit(lambda x: x)(1.0)
    files = frames_of(caught.value)
    after = files[len(files) - files[::-1].index(__file__):]
    assert any("/xjax/" in file for file in after)


MOVES = {
    # name: (call, direction, explicit)
    "array into an operation": (lambda x, f: x + np.ones(2, np.float32), "host_to_device", False),
    "number into an operation": (lambda x, f: x + 1.25, "host_to_device", False),
    "array into jit": (lambda x, f: f(np.ones(2, np.float32)), "host_to_device", False),
    "numpy.array": (lambda x, f: jnp.array([1.0, 2.0]), "host_to_device", False),
    "device_put": (lambda x, f: xjax.device_put(np.ones(2)), "host_to_device", True),
    "float": (lambda x, f: float(f(x).sum()), "device_to_host", False),
    "np.asarray": (lambda x, f: np.asarray(x), "device_to_host", False),
    "repr": (lambda x, f: repr(x), "device_to_host", False),
    "item": (lambda x, f: x.tolist(), "device_to_host", False),
    "if": (lambda x, f: bool((x > x).any()), "device_to_host", False),
    "device_get": (lambda x, f: xjax.device_get(x), "device_to_host", True),
    "other device": (lambda x, f: x + f.there, "device_to_device", False),
    "device_put to a device": (lambda x, f: xjax.device_put(x, xjax.devices()[1]), "device_to_device", True),
}


@pytest.mark.parametrize("name", MOVES)
def test_transfer_guard(name, logged):
    move, direction, explicit = MOVES[name]
    x, f = jnp.ones(2), xjax.jit(lambda x: x * 2)
    f(x), (x > x).any(), x.sum()
    f.there = xjax.device_put(x, xjax.devices()[1])
    text = f"disallowed {'explicit' if explicit else 'implicit'} {direction.replace('_', '-')} transfer"
    with xjax.transfer_guard("disallow_explicit"), pytest.raises(xjax.errors.JaxRuntimeError, match="transfer"):
        move(x, f)
    guard = getattr(xjax, f"transfer_guard_{direction}")
    with guard("disallow_explicit"):
        assert_refused(lambda: move(x, f), RuntimeError, [text, "line   test_option_effects.py:"])
    with guard("disallow"):
        if explicit:
            move(x, f)
        else:
            assert_refused(lambda: move(x, f), RuntimeError, text)
    for other in OPTIONS["transfer_guard"].parts:
        if other.removeprefix("transfer_guard_") != direction:
            with guard("allow"), Override(other, "log"):
                move(x, f)
    assert not [m for m in logged() if direction.replace("_", "-") in m]
    with guard("log_explicit"):
        move(x, f)
    assert [m for m in logged() if direction.replace("_", "-") in m]


def test_each_argument_that_moves_is_logged_once(logged):
    f = xjax.jit(lambda x, y: x + y)
    f(2.0, np.ones(3))
    with xjax.transfer_guard("log"):
        f(2.0, np.ones(3))
    assert ["2.0" in message for message in logged()] == [True, False]


def test_transfer_guard_is_of_its_thread():
    x, out = jnp.ones(2), []
    with xjax.transfer_guard("disallow"):
        thread = threading.Thread(target=lambda: out.append(float((x + 1.0).sum())))
        thread.start()
        thread.join()
        (x * x).block_until_ready()                 # no transfer
    assert out == [4.0]


def test_large_captured_constants_are_told():
    big = np.ones(1000, np.float32)
    warning = pytest.warns(UserWarning, match="captures arrays of 4,000 bytes")
    with Override("captured_constants_warn_bytes", 1000), warning:
        xjax.jit(lambda x: x + big)(1.0)
    with Override("captured_constants_warn_bytes", -1), warnings.catch_warnings():
        warnings.simplefilter("error")
        xjax.jit(lambda x: x - big)(1.0)


# -- logging ------------------------------------------------------------------------------------------------------

def test_log_compiles(logged):
    def fresh(x, y):
        return x * 31.25 + y["w"]
    with xjax.log_compiles():
        xjax.jit(fresh)(1.0, {"w": np.ones(3, np.float32)})
    xjax.jit(lambda x: x - 17.125)(1.0)
    lines = "\n".join(logged())
    assert re.search(r"traced jit `fresh` for \(f32\[\], f32\[3\]\) in \d\.\d{3} s", lines)
    assert re.search(r"compiled jit `fresh` for \(f32\[\], f32\[3\]\) in \d\.\d{3} s", lines)
    assert "lambda" not in lines


CASES = {
    # name: (first call, second call, expected message)
    "shape": ((1.0, {"w": np.ones(2)}), (1.0, {"w": np.ones(3)}),
              r"argument `y\['w'\]`  f32\[2\] -> f32\[3\]\n  fix: pad"),
    "dtype": ((np.float32(1), 1), (np.int32(1), 1), r"argument `x`  f32\[\] -> i32\[\]\n  fix: convert"),
    "weak type": ((1.0, 1), (np.float32(1), 1), r"argument `x`  f32\[\] weakly typed -> f32\[\]\n  fix: always pass"),
    "structure": ((1.0, (1,)), (1.0, (1, 2)), r"argument `y`  a tuple of 1 -> a tuple of 2\n  fix: pass arguments"),
    "same": ((1.0, 2.0), (3.0, 4.0), None),
}


@pytest.mark.parametrize("name", CASES)
def test_explain_cache_misses(name, logged):
    first, second, expected = CASES[name]

    def f(x, y):
        return x
    jitted = xjax.jit(f)
    jitted(*first)
    with xjax.explain_cache_misses():
        jitted(*second)
        line = sys._getframe().f_lineno - 1
    if expected is None:
        assert not logged()
    else:
        (text,) = logged()
        assert text.startswith(f"jit `f` at test_option_effects.py:{line}: is traced again")
        assert re.search(expected, text), text


def test_explain_static_arguments_options_and_new_functions(logged):
    f = xjax.jit(lambda x, n: x, static_argnums=1)
    with xjax.explain_cache_misses():
        f(1.0, 2)
        f(1.0, 3)
        with xjax.numpy_rank_promotion("raise"):
            f(1.0, 3)
        with xjax.make_mesh((2,), ("x",)):
            f(1.0, 3)
        for _ in range(2):
            xjax.jit(lambda x: x)(1.0)
    first, static, option, mesh, new, again = logged()
    assert "is traced for the first time" in first and "is traced for the first time" in new
    assert "static argument `n`  2 -> 3" in static
    assert "option numpy_rank_promotion  'allow' -> 'raise'" in option
    assert "mesh  None -> Mesh('x': 2)" in mesh and "under the same current mesh" in mesh
    assert "a new object, made by the same code" in again and "define the function once" in again


def test_logging_level():
    logger = logging.getLogger("xjax")
    before = logger.level
    config.update("jax_logging_level", "ERROR")
    try:
        assert not logger.isEnabledFor(logging.WARNING)
    finally:
        config.update("jax_logging_level", "NOTSET")
    assert logger.level == before == logging.NOTSET


def test_programs_are_dumped(tmp_path):
    with Override("dump_ir_to", str(tmp_path / "ir")):
        xjax.jit(lambda x: x * 77.125)(1.0)
    (file,) = (tmp_path / "ir").iterdir()
    assert "stablehlo.multiply" in file.read_text()


# -- programs kept on disk ----------------------------------------------------------------------------------------

def test_cache_on_disk(tmp_path):
    def entries(number, **options):
        folder = tmp_path / str(number)
        overrides = [Override(k, v) for k, v in {"compilation_cache_dir": str(folder), **options}.items()]
        for o in overrides:
            o.__enter__()
        try:
            xjax.jit(lambda x: x * number)(1.0)
        finally:
            for o in reversed(overrides):
                o.__exit__()
        return len(list(folder.glob("*.exe")))
    on = {"cache_compiled_functions": True}
    assert entries(101.5, **on) == 1
    assert entries(102.5, cache_compiled_functions=False) == 0
    assert entries(103.5, **on, enable_compilation_cache=False) == 0
    assert entries(104.5, **on, persistent_cache_min_compile_time_secs=100.0) == 0
    assert entries(105.5, **on, persistent_cache_min_entry_size_bytes=10**9) == 0
    assert entries(106.5, **on, compilation_cache_max_size=10) == 0
    bad = tmp_path / "107.5"
    bad.mkdir(mode=0o755)
    bad.chmod(0o755)
    with pytest.raises(RuntimeError, match="chmod 700"):
        entries(107.5, **on, raise_persistent_cache_errors=True)
    compile_cache._open.cache_clear()
    with pytest.warns(UserWarning, match="chmod 700"):
        entries(108.5, **on, compilation_cache_dir=str(bad))


def test_synchronous_dispatch():
    program = ("import xjax, xjax.numpy as jnp\nxjax.config.update('jax_cpu_enable_async_dispatch', False)\n"
               "f = xjax.jit(lambda x: xjax.lax.fori_loop(0, 60, lambda i, y: jnp.tanh(y @ y), x))\n"
               "x = jnp.ones((300, 300))\nf(x).block_until_ready()\nprint(all(f(x).is_ready() for _ in range(5)))")
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)},
                          capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "True"
