"""Python functions in programs: how often they run, in which order, with which values; prints as in JAX."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.runtime.callbacks_program import ANY_ORDER
from xjax import lax
from xjax.core import jaxpr as programs
from xjax.errors import JaxRuntimeError
from xjax.experimental import io_callback
from xjax.runtime.devices import in_flight
from xjax.sharding import Mesh, NamedSharding, PartitionSpec

ROOT = Path(__file__).resolve().parents[2]
F32 = xjax.ShapeDtypeStruct((), "float32")
X = np.arange(3, dtype=np.float32)


def sharded(x):
    return xjax.device_put(x, NamedSharding(Mesh(np.array(xjax.devices()), ("d",)), PartitionSpec("d")))


# -- printed texts ------------------------------------------------------------------------------------------------

def start(*args):
    """Start a run of `callbacks_program`."""
    return subprocess.Popen([sys.executable, "-m", "tests.runtime.callbacks_program", *args], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


@pytest.mark.parametrize("cases", ["common", pytest.param("rare", marks=pytest.mark.slow)])
def test_prints_what_jax_prints(cases):
    real_jax()
    runs = [start("xjax", cases), start("jax", cases)]
    printed = []
    for run in runs:
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0, err[-2000:]
        *cases, last = out.split("\n== ")
        assert last.splitlines() == ["at exit", "exit 7.0"], "a pending print is lost at the exit"
        printed.append({name: lines for name, *lines in map(str.splitlines, cases)})
    ours, theirs = printed
    assert ours.keys() == theirs.keys() and len(ours) > 30
    for name, lines in theirs.items():
        assert lines, name
        if name.removeprefix("== ") in ANY_ORDER:
            assert sorted(ours[name]) == sorted(lines), name
        else:
            assert ours[name] == lines, name


@pytest.mark.parametrize("call, error, match", [
    (lambda p: p("x {}"), IndexError, "field for value 0, but 0 were given"),
    (lambda p: p("{} {1}", 1, 2), ValueError, "mixes {} with numbered fields"),
    (lambda p: p("{0} {1}", 1), IndexError, "field for value 1, but 1 were given"),
    (lambda p: p("{y}", x=1), KeyError, "field for 'y', which was not given"),
    (lambda p: p("{x:{width}}", x=1), KeyError, "field for 'width'"),
    (lambda p: p("x", 3), ValueError, "no field for some values"),
    (lambda p: p("3.0", x=1), ValueError, "an f-string has been formatted already"),
    (lambda p: p("x {", 3), ValueError, "brace|'{'|'}'|expected"),
    (lambda p: p(3), TypeError, "the format must be a string"),
    (lambda p: p(x=3), TypeError, "values without a first argument"),
])
def test_a_wrong_format_is_found_while_tracing(call, error, match):
    with pytest.raises(error, match=match):
        xjax.eval_shape(lambda: call(xjax.debug.print))


def test_log(caplog):
    with caplog.at_level(logging.INFO, "xjax.debug"):
        xjax.jit(lambda x: xjax.debug.log("x is {}", x))(2.0)
        xjax.effects_barrier()
    record, = caplog.records
    assert (record.getMessage(), record.levelname, record.name) == ("x is 2.0", "INFO", "xjax.debug")
    assert record.filename == Path(__file__).name


def test_print_without_check_and_with_print_options(capsys):
    with np.printoptions(precision=2):
        f = xjax.jit(lambda x: (xjax.debug.print("a", x, skip_format_check=True), xjax.debug.print("{}", x))[0])
    with np.printoptions(precision=2):
        f(np.float32([1 / 3]))
    xjax.effects_barrier()
    assert capsys.readouterr().out == "a [0.33]\n[0.33]\n"


def test_random_keys(capsys):
    keys = xjax.random.split(xjax.random.key(0))
    xjax.jit(xjax.vmap(lambda k: xjax.debug.print("{k}", k=k)))(keys)
    xjax.effects_barrier()
    assert capsys.readouterr().out == "".join(f"{k}\n" for k in keys)
    draw = xjax.jit(lambda k: xjax.pure_callback(lambda k: xjax.random.bits(k), xjax.ShapeDtypeStruct((), "uint32"), k))
    assert int(draw(keys[0])) == int(xjax.random.bits(keys[0]))


# -- how often, in which order ------------------------------------------------------------------------------------

class Log:
    """Records the calls of functions on the host."""

    def __init__(self):
        self.calls = []

    def f(self, *args):
        self.calls.append(tuple(np.asarray(x).tolist() for x in args))
        return np.float32(10 * len(self.calls))

    def io(self, *args, ordered=False):
        return io_callback(self.f, F32, *args, ordered=ordered)

    def pure(self, *args, method="sequential"):
        return xjax.pure_callback(self.f, F32, *args, vmap_method=method)

    def take(self):
        xjax.effects_barrier()
        taken, self.calls = self.calls, []
        return taken


def _loop(log):
    def body(c, x):
        return log.io(c, x, ordered=True), x
    return lambda x: lax.scan(body, x, X)


def _branches(log):
    return lambda x: lax.cond(x > 0, lambda: log.io(x, 1), lambda: log.io(x, 2))


def _while(log):
    return lambda x: lax.while_loop(lambda x: x < 15, lambda x: x + log.io(x), x)


# name -> (function of the log, argument, the calls)
COUNTS = {
    "used": (lambda log: lambda x: log.io(x) + 1, 1.0, [(1.0,)]),
    "not used": (lambda log: lambda x: (log.io(x), x)[1], 1.0, [(1.0,)]),
    "pure, not used": (lambda log: lambda x: (log.pure(x), x)[1], 1.0, []),
    "no arguments": (lambda log: lambda x: log.io(), 1.0, [()]),
    "in order": (lambda log: lambda x: [log.io(x, i, ordered=True) for i in range(5)], 1.0,
                 [(1.0, i) for i in range(5)]),
    "scan": (_loop, 1.0, [(1.0, 0.0), (10.0, 1.0), (20.0, 2.0)]),
    "cond": (_branches, -1.0, [(-1.0, 2)]),
    "while": (_while, 0.0, [(0.0,), (10.0,)]),
    "vmap": (lambda log: xjax.vmap(log.io), X, [(0.0,), (1.0,), (2.0,)]),
    "vmap of an unmapped value": (lambda log: lambda x: xjax.vmap(lambda y: y + log.io(1.0))(x), X, [(1.0,)]),
    "vmap of scan": (lambda log: xjax.vmap(lambda x: lax.scan(lambda c, _: (log.io(c), None), x, None, 2)[0]), X[:2],
                     [(0.0,), (1.0,), (10.0,), (20.0,)]),
    "grad of a constant": (lambda log: xjax.grad(lambda x: log.io(2.0) * x), 1.0, [(2.0,)]),
    "grad of scan": (lambda log: xjax.grad(lambda x: lax.scan(lambda c, _: (c * log.io(2.0) * x, None), x, None, 3)[0]),
                     1.0, [(2.0,)] * 3),
    "grad of checkpoint": (lambda log: xjax.grad(xjax.checkpoint(lambda x: jnp.sin(log.io(2.0) * x))), 1.0, [(2.0,)]),
    "grad of checkpoint of jit": (lambda log: xjax.grad(xjax.checkpoint(xjax.jit(lambda x: jnp.sin(log.io(2.0) * x)))),
                                  1.0, [(2.0,)]),
    "twice the same jit": (lambda log: (lambda f: lambda x: f(x) + f(x))(xjax.jit(lambda x: log.io(2.0) * x)), 1.0,
                           [(2.0,)] * 2),
}


@pytest.mark.parametrize("name", COUNTS)
def test_called_as_often_as_the_program_says(name):
    make, x, expected = COUNTS[name]
    log = Log()
    eager = make(log)(x)
    assert log.take() == expected or name == "pure, not used"
    f = xjax.jit(make(log))
    for _ in range(2):
        compiled = f(x)
        assert log.take() == expected
    assert all(np.array_equal(a, b) for a, b in
               zip(xjax.tree.leaves(eager), xjax.tree.leaves(compiled), strict=True))


def test_ordered_effects_of_all_kinds_keep_their_order():
    log = []

    def say(what, x):
        xjax.debug.callback(lambda v: log.append((what, int(v))), x, ordered=True)

    def body(i, c):
        say("turn", i)
        return lax.switch(i % 3, [lambda c: (say("even", c), c)[1], lambda c: c,
                                  lambda c: (io_callback(lambda v: log.append(("io", int(v))), None, c, ordered=True),
                                             c)[1]], c) + 1

    inner = xjax.jit(lambda x: (say("inner", x), x + 1)[1])

    @xjax.jit
    def f(x):
        x = lax.fori_loop(0, 4, body, inner(inner(x)))
        x = lax.while_loop(lambda x: x < 8, lambda x: (say("while", x), x + 1)[1], x)
        xjax.vmap(lambda x: say("mapped", x))(jnp.arange(3))
        return inner(x)

    assert int(f(0)) == 9
    assert log == [("inner", 0), ("inner", 1), ("turn", 0), ("even", 2), ("turn", 1), ("turn", 2), ("io", 4),
                   ("turn", 3), ("even", 5), ("while", 6), ("while", 7), ("mapped", 0), ("mapped", 1), ("mapped", 2),
                   ("inner", 8)]


def test_ordered_calls_of_several_threads():
    log = []

    def work(name):
        f = xjax.jit(lambda x: (io_callback(lambda v: log.append((name, int(v))), None, x, ordered=True), x + 1)[1])
        x = 0
        for _ in range(10):
            x = f(x)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert all([v for name, v in log if name == i] == list(range(10)) for i in range(3))


def test_dead_code_elimination_keeps_effects():
    def f(x):
        lax.scan(lambda c, _: (xjax.debug.print("{}", c), (c + 1, None))[1], x, None, 2)
        xjax.jit(lambda x: xjax.debug.print("{}", x))(x)
        xjax.pure_callback(np.sin, x, x)
        return x * 2, x * 3

    closed = xjax.make_jaxpr(f)(1.0)
    kept, used = programs.dce(closed.jaxpr, (True, False))
    assert [eqn.primitive.name for eqn in kept.eqns] == ["scan", "jit", "mul"] and used == [True]
    assert kept.effects == closed.jaxpr.effects == {"debug"}
    assert xjax.make_jaxpr(lambda x: x * 2)(1.0).jaxpr.effects == frozenset()


# -- values -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("method, shapes", [
    ("sequential", [((), ())] * 3), ("sequential_unrolled", [((), ())] * 3), ("expand_dims", [((3,), (1,))]),
    ("broadcast_all", [((3,), (3,))]), ("legacy_vectorized", [((3,), ())])])
def test_vmap_methods(method, shapes):
    seen = []

    def add(x, y):
        seen.append((x.shape, y.shape))
        return x + y

    def f(x, y):
        return xjax.pure_callback(add, F32, x, y, vmap_method=method)

    for over in (xjax.vmap, lambda f, axes: xjax.jit(xjax.vmap(f, axes))):
        assert over(f, (0, None))(X, np.float32(1)).tolist() == [1, 2, 3]
        assert seen == shapes
        seen.clear()
    if method == "broadcast_all":
        nested = xjax.jit(xjax.vmap(xjax.vmap(f, (None, 0)), (0, None)))
        assert nested(X, X[:2]).tolist() == [[0, 1], [1, 2], [2, 3]]


def test_dtypes_layouts_and_trees():
    """Results arrive unchanged, for every dtype, strides and place in the tree, in one program."""
    values = [np.asarray(np.arange(6).reshape(2, 3) % 2, d) for d in
              ("bool", "int8", "uint32", "int32", "float16", "float32", "complex64", jnp.bfloat16)]
    values += [np.zeros((0, 3), np.float32), np.float32(3), np.int32([7])]

    def turn(tree):
        return {"turned": [np.asarray(x).T for x in tree["values"]], "again": (tree["values"][0],)}

    @xjax.jit
    def f(xs):
        turned = [xjax.ShapeDtypeStruct(x.T.shape, x.dtype) for x in xs]
        return xjax.pure_callback(turn, {"turned": turned, "again": (xs[0],)}, {"values": [x.T.T for x in xs]})

    results = f(values)
    for x, y in zip(values, results["turned"], strict=True):
        assert y.dtype == x.dtype and np.array_equal(y, np.asarray(x).T)
    assert np.array_equal(results["again"][0], values[0])
    assert f(values)["turned"][3].tolist() == values[3].T.tolist()


def test_64_bits():
    with xjax.enable_x64():
        x = jnp.asarray([1 / 3, 2 / 3])
        assert x.dtype == np.float64
        seen = []
        y = xjax.jit(lambda x: xjax.pure_callback(lambda v: (seen.append(v.dtype), np.cumsum(v))[1], x, x))(x)
        assert y.dtype == np.float64 and seen == [np.float64] and y[1] == 1.0
    with pytest.raises(ValueError, match="64-bit types are disabled"):
        xjax.pure_callback(np.sin, np.zeros(2), X)


def test_arguments_are_arrays_that_may_be_kept():
    kept = []
    f = xjax.jit(lambda x: xjax.debug.callback(kept.append, x))
    for i in range(20):
        f(np.float32([i, i]))
    xjax.effects_barrier()
    assert all(isinstance(x, xjax.Array) for x in kept) and [x.tolist() for x in kept] == [[i, i] for i in range(20)]


def test_a_derivative_by_custom_jvp():
    @xjax.custom_jvp
    def sin(x):
        return xjax.pure_callback(np.sin, x, x, vmap_method="expand_dims")

    @sin.defjvp
    def sin_jvp(primals, tangents):
        x, = primals
        return sin(x), xjax.pure_callback(np.cos, x, x, vmap_method="expand_dims") * tangents[0]

    np.testing.assert_allclose(xjax.jit(xjax.vmap(xjax.grad(sin)))(X), np.cos(X), rtol=1e-6)


def test_a_function_may_launch_programs():
    double = xjax.jit(lambda x: x @ x * 2)

    def host(x):
        return double(x) / (x.shape[0] * 2)

    f = xjax.jit(lambda x: xjax.pure_callback(host, x, x))
    x = jnp.ones((64, 64))
    for _ in range(40):                     # more than one queue of XLA holds
        x = f(double(x) / 128)
    assert x.tolist() == np.ones((64, 64)).tolist()


def test_eager_functions_run_outside_of_the_transform():
    """Inside, the transform that called the callback would trace its operations on arrays."""
    seen = []
    xjax.vmap(lambda x: (xjax.debug.callback(lambda: seen.append(jnp.arange(3).sum())), x)[1])(X)
    xjax.grad(lambda x: (xjax.debug.callback(lambda v: seen.append(jnp.sin(v) * 2), x), x)[1])(0.0)
    assert [float(x) for x in seen] == [3.0, 0.0]


# -- several devices ----------------------------------------------------------------------------------------------

def test_pmap_calls_on_each_device():
    log = []
    f = xjax.pmap(lambda x: (xjax.debug.callback(lambda v: log.append(float(v)), x),
                             lax.psum(xjax.pure_callback(lambda v: np.asarray(v) * 2, x, x), "i"))[1], axis_name="i")
    for _ in range(30):
        y = f(np.arange(4, dtype=np.float32))
    xjax.effects_barrier()
    assert y.tolist() == [12] * 4 and sorted(log) == sorted([0, 1, 2, 3] * 30)
    with pytest.raises(ValueError, match="(?s)in a program of several devices.*fix:"):
        xjax.pmap(lambda x: xjax.debug.print("{}", x, ordered=True))(X)


def test_a_program_over_sharded_arrays_calls_once(capfd):
    x = sharded(np.arange(8, dtype=np.float32))
    log = Log()
    f = xjax.jit(lambda x: (log.pure(x), log.io(x.sum(), ordered=True), xjax.pure_callback(np.cumsum, x, x)))
    pure, impure, sums = f(x)
    assert {float(pure), float(impure)} == {10.0, 20.0} and len(log.take()) == 2
    assert sums.tolist() == np.cumsum(np.arange(8)).tolist() and (sums + x).tolist()[1] == 2
    assert xjax.pure_callback(np.cumsum, x, x).tolist() == sums.tolist()
    parts = []
    total = xjax.jit(lambda x: (xjax.debug.callback(lambda v: parts.append(v.tolist()), x, partitioned=True), x.sum()))
    assert float(total(x)[1]) == 28 and sorted(parts) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert "rematerialization" not in capfd.readouterr().err


# -- errors -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, result, match", [
    ("shape", lambda x: np.zeros(2, np.float32), r"result 0  returned f32\[2\], declared f32\[3\]"),
    ("dtype", lambda x: np.zeros(3, np.int32), r"result 0  returned i32\[3\], declared f32\[3\]"),
    ("too few", lambda x: (), "returned 0 arrays, but 1 were declared"),
    ("too many", lambda x: (x, x), "returned 2 arrays, but 1 were declared"),
    ("nothing", lambda x: None, "returned 0 arrays, but 1 were declared"),
    ("no array", lambda x: "text", r"declared f32\[3\]"),
])
def test_wrong_results(name, result, match):
    with pytest.raises(JaxRuntimeError, match=match):
        xjax.pure_callback(result, X, X)
    with pytest.raises(JaxRuntimeError, match=match):
        xjax.jit(lambda x: io_callback(result, x, x))(X)


def test_an_exception_in_debug_callback():
    def fail(x):
        raise ZeroDivisionError(f"not {float(x)}")

    with pytest.raises(ZeroDivisionError, match=r"not 1\.0"):
        xjax.debug.callback(fail, 1.0)
    f = xjax.jit(lambda x: xjax.debug.callback(fail, x))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match=r"not 1\.0"):
            f(1.0)
    pending = xjax.jit(lambda m: (m @ m @ m @ m)[0, 0])(np.eye(300, dtype=np.float32))
    with pytest.raises(ZeroDivisionError, match=r"not 1\.0"):
        f(pending)
    xjax.effects_barrier()


@pytest.mark.parametrize("call, error, text", [
    (lambda: xjax.grad(lambda x: xjax.pure_callback(np.sin, x, x))(1.0), ValueError, "custom_jvp"),
    (lambda: xjax.jvp(lambda x: io_callback(np.sin, x, x), (1.0,), (1.0,)), ValueError, "stop_gradient"),
    (lambda: xjax.vmap(lambda x: xjax.pure_callback(np.sin, x, x))(X), NotImplementedError, "vmap_method='sequential'"),
    (lambda: xjax.vmap(lambda x: io_callback(np.sin, x, x, ordered=True))(X), ValueError, "the elements have no order"),
    (lambda: xjax.vmap(lambda x: lax.cond(x > 0, lambda: io_callback(np.sin, x, x), lambda: x))(X),
     NotImplementedError, "cond: io_callback in a conditional"),
    (lambda: xjax.vmap(lambda x: lax.while_loop(lambda x: x < 2, lambda x: x + io_callback(np.sin, x, x), x))(X),
     NotImplementedError, "while_loop: io_callback in a loop"),
    (lambda: xjax.linearize(lambda x: lax.while_loop(lambda x: x < 2, lambda x: x + io_callback(np.ones, F32, ()), x),
                            1.0), NotImplementedError, "while_loop: io_callback in a loop that is linearized"),
    (lambda: xjax.pure_callback(np.sin, X, X, vmap_method="loop"), ValueError, "there is no such vmap_method"),
    (lambda: xjax.pure_callback(np.sin, X, X, vectorized=True), TypeError, "vmap_method='legacy_vectorized'"),
    (lambda: xjax.pure_callback(X, X, X), TypeError, "needs a function"),
    (lambda: xjax.pure_callback(np.sin, {"a": 3}, X), TypeError, "result_shape_dtypes['a']"),
    (lambda: xjax.debug.callback(3), TypeError, "needs a function"),
    (lambda: xjax.debug.visualize_array_sharding(X), TypeError, "only a concrete array has a sharding"),
    (lambda: xjax.jit(xjax.debug.visualize_array_sharding)(X), TypeError, "return the value from the compiled"),
    (lambda: xjax.debug.visualize_sharding((), jnp.ones(()).sharding), ValueError, "arrays of one or two axes"),
    (lambda: xjax.debug.visualize_array_sharding(jnp.ones((2, 0))), ValueError, "none of size 0"),
    (lambda: xjax.debug.DebugEffect, AttributeError, "on purpose"),
])
def test_refusals(call, error, text):
    assert_refused(call, error, text)


# -- executables --------------------------------------------------------------------------------------------------

def test_a_callback_lives_as_long_as_its_program():
    def make():
        def host(x):
            return np.asarray(x) + 1

        return xjax.jit(lambda x: xjax.pure_callback(host, F32, x)), weakref.ref(host)

    f, seen = make()
    g = f.lower(1.0).compile()
    assert float(f(1.0)) == float(g(1.0)) == 2.0
    gc.collect()
    assert float(f(2.0)) == float(g(2.0)) == 3.0
    f.clear_cache()
    del f, g
    gc.collect()
    gc.collect()                            # the first one also frees the memory that XLA held
    assert seen() is None


def test_programs_with_callbacks_are_not_kept_on_disk(tmp_path):
    tmp_path.chmod(0o700)
    saved = {name: getattr(xjax.config, name) for name in ("jax_compilation_cache_dir", "cache_compiled_functions")}
    try:
        xjax.config.update("jax_compilation_cache_dir", str(tmp_path))
        xjax.config.update("cache_compiled_functions", True)
        for factor in (2.25, 3.25):
            xjax.jit(lambda x, factor=factor: xjax.pure_callback(np.asarray, x, x) * factor)(X).block_until_ready()
            assert not list(tmp_path.glob("*.exe"))
        xjax.jit(lambda x: x * 4.25)(X)
        assert list(tmp_path.glob("*.exe"))
    finally:
        for name, value in saved.items():
            xjax.config.update(name, value)


def test_effects_barrier_tells_of_errors_that_nobody_saw():
    class Launch:
        def __init__(self, error=None):
            self.error, self.waited = error, 0

        def block_until_ready(self):
            self.waited += 1
            if self.error:
                raise self.error

    error = JaxRuntimeError("failed")
    launches = [Launch(error), *[Launch() for _ in range(20)]]
    for launch in launches:
        in_flight.effects.push(launch)
    assert launches[0].waited and not launches[-1].waited
    with pytest.raises(JaxRuntimeError, match="failed"):
        xjax.effects_barrier()
    assert all(launch.waited == 1 for launch in launches)
    xjax.effects_barrier()
