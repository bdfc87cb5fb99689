"""Exceptions of host functions keep their class, in programs of one device and of several, without a hang."""

import threading
import traceback

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.isolated import run
from xjax import lax
from xjax.errors import JaxRuntimeError
from xjax.experimental import io_callback
from xjax.runtime.devices import host_errors

X = np.arange(4, dtype=np.float32)
SCALAR = xjax.ShapeDtypeStruct((), np.float32)
P = xjax.sharding.PartitionSpec


class Broken(Exception):
    """An exception whose constructor has its own signature."""

    def __init__(self, code, *, text):
        super().__init__(code, text)
        self.code = code


def fail(v):
    raise Broken(7, text="broken")


def fail_on_two(v):
    if float(v) == 2:
        raise KeyError("two")
    return np.float32(v)


def call(function):
    return lambda x: xjax.pure_callback(function, xjax.ShapeDtypeStruct(x.shape, x.dtype), x)


# -- programs of one device ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("program", [
    lambda f: xjax.jit(call(f))(X),
    lambda f: xjax.jit(call(f)).lower(X).compile()(X),
    lambda f: call(f)(X),
    lambda f: xjax.jit(lambda x: io_callback(f, x, x, ordered=True))(X),
    lambda f: xjax.jit(lambda x: xjax.debug.callback(f, x))(X),
    lambda f: xjax.jit(lambda x: lax.scan(lambda c, y: (c, call(f)(y)), 0, x))(X),
    lambda f: xjax.jit(lambda x: lax.cond(x[1] > 0, call(f), lambda x: x, x))(X),
    lambda f: lax.map(call(f), X),
    lambda f: xjax.jit(lambda m: call(f)((m @ m @ m @ m)[0]))(np.eye(300, dtype=np.float32)),  # not ready at the call
    lambda f: xjax.jit(lambda x: xjax.jit(call(lambda v: xjax.jit(call(f))(v)))(x))(X),
    lambda f: xjax.jit(call(f), donate_argnums=0)(jnp.ones(4)),
], ids=lambda f: "")
def test_an_exception_arrives_as_itself(program):
    with pytest.raises(Broken) as caught:
        program(fail)
    assert caught.value.code == 7 and caught.value.args == (7, "broken")
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[0] == "test_an_exception_arrives_as_itself" and names[-1] == "fail"
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert xjax.jit(call(np.negative))(X).tolist() == [0, -1, -2, -3]


def test_causes_stay_as_they_were():
    def with_cause(v):
        try:
            {}["absent"]
        except KeyError as error:
            raise ValueError("caused") from error

    def with_context(v):
        try:
            {}["absent"]
        except KeyError:
            raise ValueError("in a handler")                    # noqa: B904

    for function, cause in ((with_cause, True), (with_context, False)):
        with pytest.raises(ValueError) as caught:
            xjax.jit(call(function))(X)
        assert isinstance(caught.value.__context__, KeyError)
        assert isinstance(caught.value.__cause__, KeyError) == cause


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, StopIteration, MemoryError, JaxRuntimeError])
def test_exceptions_of_all_kinds(kind):
    def raise_it(v):
        raise kind("of the user")

    with pytest.raises(kind, match="of the user"):
        xjax.jit(call(raise_it))(X)


def test_the_note_says_who_called():
    with pytest.raises(Broken) as caught:
        xjax.jit(call(fail))(X)
    assert caught.value.__notes__ == ["raised in pure_callback of `fail`, called by a compiled program"]
    with pytest.raises(JaxRuntimeError) as caught:
        xjax.jit(call(lambda v: np.zeros(2, np.float32)))(X)
    assert not hasattr(caught.value, "__notes__")               # the message names the function


def test_the_second_to_ask_gets_the_text():
    error = ValueError("first")
    to_xla = JaxRuntimeError(f"INTERNAL: HostFunctionError: {host_errors.relayed(error)}")
    assert host_errors.original(to_xla) is error
    second = host_errors.original(to_xla)
    assert type(second) is JaxRuntimeError and "ValueError: first" in str(second) and "fix:" in str(second)
    assert host_errors.original(JaxRuntimeError("INTERNAL: something else")) is None
    for i in range(100):
        host_errors.relayed(ValueError(str(i)))
    assert len(host_errors._kept) <= 16


# -- programs of several devices ----------------------------------------------------------------------------------

SEVERAL = """
import sys, time
import numpy as np
import xjax, xjax.numpy as jnp
from xjax import lax
from xjax.experimental import io_callback
X = np.arange(4, dtype=np.float32)
SCALAR = xjax.ShapeDtypeStruct((), np.float32)
P = xjax.sharding.PartitionSpec
mesh = xjax.make_mesh((4,), ("i",))
cut = xjax.device_put(X, xjax.sharding.NamedSharding(mesh, P("i")))

def on_two(v):
    if np.any(np.asarray(v) == 2):
        raise KeyError("two")
    return np.asarray(v)
def on_all(v):
    raise KeyError("all")
def pure(f):
    return lambda x: xjax.pure_callback(f, xjax.ShapeDtypeStruct(x.shape, x.dtype), x)
def total(f):
    return lambda x: lax.psum(f(x), "i")
def printing(x):
    xjax.debug.callback(on_two, x)
    return x
def loop(x):            # which zeros keep going
    return lax.while_loop(lambda s: s < 9, lambda s: s + lax.pmax(pure(on_two)(x + 0 * s), "i"), lax.psum(x, "i") - 6)
def loop_down(x):
    return lax.while_loop(lambda s: s > -9, lambda s: s + lax.pmin(pure(on_two)(x + 0 * s), "i"), lax.psum(x, "i"))
def flagged(x):         # until the function says so
    flag = lambda x: xjax.pure_callback(lambda v: on_two(v) < 0, xjax.ShapeDtypeStruct((), np.bool_), x)
    return lax.while_loop(lambda s: lax.pmax(flag(s).astype(int), "i") < 1, lambda s: s + 0.01, x)
all_sums = xjax.pmap(total(lambda x: x), axis_name="i")
plus = xjax.jit(lambda x: x + 1)

def error_of(program, *args):
    start = time.monotonic()
    try:
        program(*args)
    except Exception as error:
        assert time.monotonic() - start < 15
        return error
    raise AssertionError("no error")
"""


@pytest.mark.parametrize("calls_of_loops", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_one_device_fails_before_a_collective(calls_of_loops):
    """Each program is called twice; a loop takes seconds to end."""
    run(SEVERAL + """
shard_map = lambda f: xjax.jit(xjax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P(), check_vma=False))
programs = [
    (xjax.pmap(total(pure(on_two)), axis_name="i"), X), (xjax.pmap(total(pure(on_all)), axis_name="i"), X),
    (xjax.pmap(total(printing), axis_name="i"), X), (shard_map(total(pure(on_two))), X),
    (xjax.pmap(total(lambda x: io_callback(on_two, x, x)), axis_name="i"), X),
    (xjax.pmap(lambda x: lax.all_gather(pure(on_two)(lax.psum(x, "i") - 4), "i"), axis_name="i"), X),
    (xjax.jit(lambda x: pure(on_two)(x) + x.sum()), cut), (xjax.pmap(pure(on_two)), X),
    (xjax.pmap(lambda x: lax.scan(lambda c, _: (total(pure(on_two))(c), 0), x, None, 5), axis_name="i"), X),
]
loops = [(xjax.pmap(f, axis_name="i"), X) for f in (loop, loop_down, flagged)]
for i, (program, x) in enumerate(2 * programs + int(sys.argv[1]) * loops):
    error = error_of(program, x)
    assert type(error) is KeyError and error.args[0] in ("two", "all"), (i, error)
    assert error.__context__ is None and "called by a compiled program" in error.__notes__[0]
    assert all_sums(X).tolist() == [6] * 4
assert float(xjax.pmap(total(pure(on_two)), axis_name="i")(X + 3)[0]) == 18
""", calls_of_loops, devices=4)


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint32", "bfloat16", "float8_e4m3fn", "float32", "complex64"])
def test_failed_calls_have_values_of_every_dtype(dtype, monkeypatch):
    calls, values = host_errors.SharedCalls(), set()
    for second in range(6):
        monkeypatch.setattr(host_errors.time, "monotonic", lambda second=second: second + 0.5)
        values.add(str(np.full((), calls.filler(jnp.dtype(dtype)), jnp.dtype(dtype))))
    assert len(values) == (3 if dtype in ("int4", "bfloat16", "float32", "complex64") else 2)


def test_functions_on_the_host_that_launch_programs():
    run(SEVERAL + """
plus(cut), plus(cut), all_sums(X)
inner = dict(pmap=lambda v: np.asarray(all_sums(X))[0], sharded=lambda v: np.asarray(plus(cut))[0],
             new=lambda v: np.asarray(xjax.pmap(lambda x: x - 1)(X))[0])
for name, f in inner.items():
    for program, x in ((xjax.pmap(total(pure(f)), axis_name="i"), X), (xjax.pmap(pure(f)), X)):
        error = error_of(program, x)
        assert type(error) is RuntimeError and "cannot launch another" in str(error) and "fix:" in str(error), name
    assert xjax.jit(pure(f))(X[3]).shape == ()                  # a program of one device may be launched from it
one = xjax.jit(lambda v: v * 2)
assert xjax.pmap(total(pure(lambda v: np.asarray(one(v)))), axis_name="i")(X).tolist() == [12] * 4
assert all_sums(X).tolist() == [6] * 4
""", devices=4)


def test_launches_from_several_threads_get_their_own_errors():
    program = xjax.pmap(lambda x: lax.psum(call(fail_on_two)(x), "i"), axis_name="i")
    outcomes = [None] * 4

    def work(i):
        outcomes[i] = []
        for k in range(6):
            try:
                outcomes[i].append(float(program(X + (0 if (i + k) % 2 else 3))[0]))
            except KeyError as error:
                outcomes[i].append(error.args[0])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [["two" if (i + k) % 2 else 18.0 for k in range(6)] for i in range(4)]
