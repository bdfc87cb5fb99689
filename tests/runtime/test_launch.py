"""Launches of programs: equal results and errors on every path; debugging options leave methods as they are."""

import subprocess
import sys

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from xjax.core.trace import Tag
from xjax.runtime import xla
from xjax.runtime.arrays import array, hooks, host_values, moves, number_cache
from xjax.runtime.arrays.array import Array
from xjax.runtime.dispatch import EvalTrace, eval_trace
from xjax.runtime.jit import Jitted
from xjax.runtime.programs.launch import Executable, Launcher

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def arrays_of_all_paths(f, *args):
    """`f(*args)` eagerly, and compiled: the first call, a call cached by types, and a call of a compiled stage."""
    jitted = xjax.jit(f)
    compiled = xjax.jit(f).lower(*args).compile()
    return [f(*args), jitted(*args), jitted(*args), compiled(*args)]


def test_captured_arrays_come_first_on_every_path():
    w, b = jnp.asarray(X), jnp.full((2, 3), 2.0)
    for result in arrays_of_all_paths(lambda x: {"a": w * x - b, "b": [x + b]}, jnp.asarray(X + 1)):
        np.testing.assert_array_equal(result["a"], X * (X + 1) - 2)
        np.testing.assert_array_equal(result["b"][0], X + 3)


def test_a_program_over_several_devices_takes_arrays_of_one_on_every_call():
    """Its arguments are moved on each call, also if types and placements repeat."""
    n = len(xjax.devices())
    mesh = xjax.make_mesh((n,), ("i",))
    spec = xjax.sharding.PartitionSpec("i")
    f = xjax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=spec, out_specs=spec)
    x = jnp.arange(4.0 * n)
    for result in arrays_of_all_paths(f, x):
        np.testing.assert_array_equal(result, np.arange(4.0 * n) * 2)


def test_results_without_arrays():
    for result in arrays_of_all_paths(lambda x: (), jnp.asarray(X)):
        assert result == ()
    for result in arrays_of_all_paths(lambda x: [None, {}], jnp.asarray(X)):
        assert result == [None, {}]


@pytest.mark.parametrize("path", ["eager", "method", "one launch", "jit", "static", "NumPy", "compiled", "pmap"])
def test_a_deleted_argument_is_named_on_every_path(path):
    x = jnp.asarray(X)
    static, two = xjax.jit(lambda x, n: x * n, static_argnums=1), xjax.jit(lambda x, y: x + y)
    run = {"eager": lambda x: x + x, "method": jnp.sin, "one launch": jnp.var, "jit": xjax.jit(lambda x: x + x),
           "static": lambda x: static(x, n=3), "NumPy": lambda x: two(x, X),
           "compiled": xjax.jit(lambda x: x + x).lower(x).compile(), "pmap": xjax.pmap(lambda x: x + x)}[path]
    if path == "pmap":
        x = x[:1]
    run(x)
    run(x)
    x.delete()
    with pytest.raises(RuntimeError, match="the array has been deleted"):
        run(x)


def test_debugging_options_replace_no_method():
    """After each option was used and reset, the methods and functions that it watches are the original ones."""
    places = [(EvalTrace, "process"), (EvalTrace, "_run"), (Tag, "close"), (Jitted, "__call__"), (Array, "numpy"),
              (Launcher, "__call__"), (Launcher, "launch"), (Executable, "__call__"), (Executable, "launch"),
              (xla, "device_put"), (xla, "to_numpy"), (moves, "device_put"), (moves, "device_get"), (array, "put"),
              (number_cache, "from_scalar"), (array, "from_numpy"), (moves, "to_array"), (array, "_move")]
    before = [getattr(owner, name) for owner, name in places]
    for block in (xjax.debug_nans(True), xjax.debug_infs(True), xjax.checking_leaks(), xjax.no_execution(),
                  xjax.transfer_guard("disallow")):
        with block:
            xjax.device_put(X)
            xjax.make_jaxpr(jnp.sin)(X)
    assert [getattr(owner, name) for owner, name in places] == before


def test_operations_are_watched_only_where_the_option_is_on():
    bad = jnp.asarray([-1.0])
    with xjax.debug_nans(True), pytest.raises(FloatingPointError, match="log: made a NaN"):
        jnp.log(bad)
    assert not eval_trace.ready                 # from here on each operation checks the options
    assert np.isnan(jnp.log(bad)).all()
    with xjax.debug_nans(True), pytest.raises(FloatingPointError, match="log: made a NaN"):
        jnp.log(bad)


def test_no_hook_is_set_before_its_option_is_used():
    code = ("import xjax, xjax.numpy as jnp\n"
            "from xjax.core.trace import Tag\n"
            "from xjax.runtime import dispatch; from xjax.runtime.arrays import hooks\n"
            "xjax.grad(lambda x: x * x)(2.0), xjax.jit(jnp.sin)(jnp.ones(3))\n"
            "print(hooks.guard, Tag.on_close, dispatch.eval_trace._watch, len(dispatch.eval_trace.ready) > 0)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["None", "None", "None", "True"]


# -- values of the host -------------------------------------------------------------------------------------------

VALUES = [2, -3, True, 0.5, 1e300, float("nan"), -0.0, 1 + 2j, np.float32(2), np.float64(2), np.int8(3), np.bool_(True),
          np.zeros((0, 3), np.float32), np.arange(3, dtype=np.int64), np.arange(3, dtype=np.uint16),
          np.array(2, np.float16), np.arange(6, dtype=np.complex64).reshape(2, 3)[:, ::2],
          np.asarray(jnp.arange(3, dtype=jnp.bfloat16)), np.ones((300, 300), np.float32), np.array([True, False])]


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{type(v).__name__} {getattr(v, 'dtype', v)}")
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_values_of_the_host_are_the_arrays_that_they_become(value, x64):
    """The second and third call take other paths than the first."""
    with xjax.enable_x64(x64):
        want = xjax.jit(lambda x, y: (x * 2, [y]))(jnp.asarray(value), jnp.ones(()))
        f = xjax.jit(lambda x, y: (x * 2, [y]))
        for result in [f(value, jnp.ones(())) for _ in range(3)]:
            assert_equal_results(result, want)
        for result in [f(y=jnp.ones(()), x=value) for _ in range(3)]:
            assert_equal_results(result, want)


def assert_equal_results(result, want):
    """Assert equal values, on the same devices."""
    assert_same(result, want, tol=0)
    assert [x.sharding for x in xjax.tree.leaves(result)] == [y.sharding for y in xjax.tree.leaves(want)]


def test_an_integer_that_does_not_fit_is_refused_on_every_call():
    f = xjax.jit(lambda n: n + 1)
    assert [int(f(n)) for n in (1, 2, -2 ** 31)] == [2, 3, 1 - 2 ** 31]
    for _ in range(2):
        for n in (2 ** 31, np.int64(2 ** 31), np.array([1, -2 ** 40])):
            with pytest.raises(OverflowError):
                f(n)


def take_values_of_the_host(monkeypatch):
    """Undo what a guard of another test did: it has each value checked separately."""
    monkeypatch.setattr(hooks, "guard", None)
    for table, readers in zip((host_values.OPERANDS, host_values.DONATED), host_values.readers(), strict=True):
        for kind, read in readers.items():
            monkeypatch.setitem(table, kind, read)


@pytest.mark.parametrize("value", [0.25, np.float64(2), np.int8(3), np.ones(3, np.float32), np.ones(3), np.arange(3),
                                   {"a": np.ones(3, np.uint64)[::2], "b": [1.5, np.complex128(1j)]}], ids=repr)
def test_values_of_the_host_go_along_with_the_launch(value, monkeypatch):
    f = xjax.jit(lambda x: xjax.tree_util.tree_map(lambda y: y * 2, x))
    take_values_of_the_host(monkeypatch)
    want = f(value)
    monkeypatch.setattr(Jitted, "_launcher", None)
    assert_equal_results(f(value), want)


@pytest.mark.parametrize("value", [X, jnp.asarray(X), 2.0, {"a": X}, (X, 1)],
                         ids=["NumPy", "array", "number", "dict", "tuple"])
def test_calls_with_static_arguments_and_values_of_the_host(value):
    """Every form of a call gives the same the second time; other static values select another program."""
    f = xjax.jit(lambda x, y, n: xjax.tree_util.tree_map(lambda leaf: leaf * n - y, x), static_argnames="n")
    want = {n: f.__wrapped__(xjax.tree_util.tree_map(jnp.asarray, value), jnp.ones(()), n) for n in (2, 3)}
    for n in (2, 3, 2, 3):
        for y in (jnp.ones(()), np.ones((), np.float32)):
            for result in (f(value, y, n), f(value, y, n=n), f(n=n, y=y, x=value), f(value, n=n, y=y)):
                assert_same(result, want[n])


@pytest.mark.parametrize("value", [0.25, np.int8(3), X[0], X[0].astype(np.float64)[::2]], ids=repr)
def test_a_value_of_the_host_among_many_arrays(value, monkeypatch):
    """It is put on the device separately, because jaxlib's own call would check each array."""
    f = xjax.jit(lambda tree, x: ([y + 1 for y in tree["many"]], x * 2), donate_argnums=0)
    many = [jnp.full(3, float(i)) for i in range(20)]
    take_values_of_the_host(monkeypatch)
    _, want = f({"many": many}, value)
    monkeypatch.setattr(Jitted, "_launcher", None)
    monkeypatch.setattr(Executable, "launch_with_host_values", None)
    for _ in range(2):
        many = [jnp.full(3, float(i)) for i in range(20)]
        assert_same(f({"many": many}, value), ([jnp.full(3, i + 1.0) for i in range(20)], want))
        assert many[0].is_deleted()


@pytest.mark.parametrize("offset", [0, 16])
@pytest.mark.parametrize("size", [1, 1024, 1 << 18])
def test_the_program_does_not_see_what_is_written_after_the_call(size, offset):
    """jaxlib may read the memory of an argument until the program ends, and shares aligned memory."""
    @xjax.jit
    def f(tree):
        wait = xjax.lax.fori_loop(0, 1000, lambda i, y: jnp.sin(y) @ jnp.cos(y) * 1e-3, jnp.ones((64, 64)))
        return tree["x"] + wait[0, 0] * 0

    memory = np.zeros(4 * size + 128, np.uint8)
    x = memory[-memory.ctypes.data % 64 + offset:][:4 * size].view(np.float32)
    for _ in range(3):
        x[:] = 1
        out = f({"x": x})
        x[:] = 7
        np.testing.assert_array_equal(out, np.ones(size))


def test_a_number_that_was_donated_comes_again():
    f = xjax.jit(lambda x, y: x + y, donate_argnums=1)
    for _ in range(4):
        assert float(f(jnp.ones(()), 0.375)) == 1.375


def test_new_numbers_of_each_kind():
    """A new number is passed as an operand as it is."""
    f = xjax.jit(lambda x, y: x * 2 + y)
    for i in range(1200):
        for y in (i, -i - 0.5, complex(i, 1), i > 600):
            result = f(3, y)
            assert result.item() == 6 + y and result.weak_type
    with pytest.raises(OverflowError):
        f(3, 2 ** 40)


def test_values_of_the_host_go_to_the_default_device():
    f = xjax.jit(lambda x: x + 1)
    for device in xjax.devices()[:2] * 2:
        with xjax.default_device(device):
            for _ in range(2):
                assert f(np.ones(3, np.float32)).device == device and f(1.0).device == device


def test_captured_arrays_and_values_of_the_host():
    w = jnp.asarray(X)
    f = xjax.jit(lambda x, s: {"y": x @ w * s})
    for _ in range(3):
        np.testing.assert_array_equal(f(np.ones(2, np.float32), 2)["y"], X.sum(0) * 2)


def test_static_arguments_by_name_and_place():
    calls = []

    @xjax.jit
    def plain(*, b, a):
        return a - b

    def f(x, n, *, scale=1.0, mode="add"):
        calls.append((n, mode))
        return x * scale + n if mode == "add" else x * scale * n

    jitted = xjax.jit(f, static_argnames=("n", "mode"))
    x = jnp.ones(3)
    for _ in range(3):
        assert float(jitted(x, 3)[0]) == float(jitted(x, n=3)[0]) == float(jitted(n=3, x=x)[0]) == 4
        assert float(jitted(x, n=3, mode="mul", scale=x)[0]) == float(jitted(x, scale=x, n=3, mode="mul")[0]) == 3
        assert float(jitted(x, 3, mode="mul", scale=2.0)[0]) == 6
        assert float(plain(a=x, b=2 * x)[0]) == float(plain(b=2 * x, a=x)[0]) == -1
        for wrong in ([3], jnp.ones(())):
            with pytest.raises(ValueError, match="static argument .* is not hashable"):
                jitted(x, n=wrong)
    assert set(calls) == {(3, "add"), (3, "mul")}
    assert jitted(x, True).dtype == jitted(x, 1).dtype and (True, "add") in calls       # 1 == True, but another program


def test_what_is_given_in_place_of_an_array_is_not_static():
    """None and containers select a program by their structure, also if other arguments are static."""
    f = xjax.jit(lambda x, y, n: x * n + sum(xjax.tree_util.tree_leaves(y)), static_argnames="n")
    x = jnp.ones(2)
    for _ in range(3):
        for y, more in ((None, 0), ((), 0), ((x, 2.0), 3), ({"a": np.float32([1, 1])}, 1), (x, 1), (5, 5)):
            assert f(x, y, n=3)[0] == f(x, y, 3)[0] == f(x, n=3, y=y)[0] == 3 + more


def test_keywords_in_any_order():
    f = xjax.jit(lambda x, *, c, b, a: x + 10 * a + 100 * b + 1000 * c)
    x = jnp.ones(())
    for _ in range(3):
        assert float(f(x, a=x, b=2 * x, c=3 * x)) == float(f(x, c=3 * x, a=x, b=2 * x)) == 3211
        assert float(f(c=3 * x, b=2 * x, a=x, x=x)) == float(f(x, c=3, b=np.float32(2), a=x)) == 3211


def test_jax_in_the_same_process_keeps_its_own_options():
    """jaxlib's calls read process-wide switches, which both libraries set: in either order, each has its own types."""
    pytest.importorskip("jax")
    ours = ("import numpy as np, xjax\n"
            "f = xjax.jit(lambda x, y: x + y)\n"
            "def run():\n"
            "    return [str(f(np.ones(2, np.float32), y).dtype) for y in (np.ones(2, np.float32), 2.0, np.ones(2))]\n"
            "assert [run() for _ in range(3)] == [['float32'] * 3] * 3\n")
    theirs = ("import jax\n"
              "assert str(jax.jit(lambda x: x)(np.ones(2)).dtype) == 'float32'\n"
              "with jax.enable_x64(True):\n"
              "    assert str(jax.jit(lambda x: x)(np.ones(2)).dtype) == 'float64'\n"
              "    assert [float(f(1.0, i + 0.25)) for i in range(9)] == [i + 1.25 for i in range(9)]\n"
              "    assert str(f(1.0, 2.125).dtype) == 'float32'\n"
              "    assert run() == [['float32'] * 3][0]\n"
              "with jax.disable_jit():\n"
              "    assert run() == [['float32'] * 3][0]\n"
              "with xjax.enable_x64(True):\n"
              "    assert str(f(np.ones(2), 2.0).dtype) == 'float64'\n"
              "    assert str(jax.jit(lambda x: x)(np.ones(2)).dtype) == 'float32'\n")
    for code in (ours + theirs, "import jax\n" + ours + theirs):
        subprocess.run([sys.executable, "-c", code], check=True)
