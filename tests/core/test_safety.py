"""Tracing is safe: values of different transforms never mix, uses of escaped values are reported with their location,
and an error does not change the state of the library."""

import asyncio
import copy
import functools
import pickle
import re
import threading
import time

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from xjax import lax
from xjax.core.config import config
from xjax.core.context import context
from xjax.runtime.dispatch import eval_trace

# -- closing over values of outer transforms ----------------------------------------------------------------------

# Each maps a function of a scalar to another function with the same value or derivative.
AROUND = {
    "jit": xjax.jit,
    "grad": lambda f: lambda x: xjax.value_and_grad(f)(x)[0],
    "vmap": lambda f: lambda x: jnp.sum(xjax.vmap(f)(jnp.stack([x, x]))) / 2,
    "jvp": lambda f: lambda x: xjax.jvp(f, (x,), (x * 0 + 1,))[0],
    "remat": xjax.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (c, f(c)), x, None, length=1)[1][0],
    "cond": lambda f: lambda x: lax.cond(x > -100.0, f, lambda y: y * 0, x),
    "while": lambda f: lambda x: lax.fori_loop(0, 1, lambda i, y: f(x), x * 0),
}
LOOPS = {"while"}       # without reverse mode


@pytest.mark.parametrize("outer", AROUND)
def test_a_function_may_close_over_values_of_every_outer_transform(outer):
    """outer(x -> inner(y -> x y^2 + sin x) at cos x): value and derivative are those of the composition."""
    def composed(inner, x):
        return AROUND[inner](lambda y: x * y * y + jnp.sin(x))(jnp.cos(x))

    x = 0.7
    c, s = np.cos(x), np.sin(x)
    value, slope = x * c * c + s, c * c - 2 * x * c * s + c
    for inner in AROUND:
        f = AROUND[outer](functools.partial(composed, inner))
        if LOOPS.isdisjoint((outer, inner)):
            result = xjax.value_and_grad(f)(x)
        else:
            result = xjax.jvp(f, (x,), (1.0,))
        np.testing.assert_allclose(result, (value, slope), rtol=1e-4, err_msg=inner)


def test_three_levels_each_see_the_values_of_the_others():
    def f(x):
        return xjax.grad(lambda y: xjax.jvp(lambda z: x * y * y * z ** 3, (y,), (x,))[1])(x)
    # d/dy [x y^2 3 y^2 x] = 12 x^2 y^3, at y = x
    np.testing.assert_allclose(xjax.jit(f)(1.5), 12 * 1.5**5, rtol=1e-5)
    np.testing.assert_allclose(xjax.vmap(xjax.grad(f))(np.array([1.0, 2.0])), 60 * np.array([1.0, 16.0]), rtol=1e-5)


# -- perturbation confusion ---------------------------------------------------------------------------------------

@xjax.custom_jvp
def product(a, b):
    return a * b


product.defjvp(lambda p, t: (p[0] * p[1], t[0] * p[1] + p[0] * t[1]))


@xjax.custom_vjp
def scaled(a, b):
    return a * b


scaled.defvjp(lambda a, b: (a * b, (a, b)), lambda r, ct: (ct * r[1], ct * r[0]))


def forward(f):
    return lambda x: xjax.jvp(f, (x,), (1.0,))[1]


MODES = {"grad": xjax.grad, "jvp": forward, "jit of grad": lambda f: xjax.jit(xjax.grad(f)),
         "grad of jit": lambda f: xjax.grad(xjax.jit(f)), "grad of remat": lambda f: xjax.grad(xjax.checkpoint(f))}
TIMES = {"*": lambda a, b: a * b, "custom_jvp": product, "custom_vjp": scaled,
         "vmap": lambda a, b: xjax.vmap(lambda u: u * b)(jnp.stack([a]))[0],
         "scan": lambda a, b: lax.scan(lambda c, _: (c * b, None), a, None, length=1)[0]}


@pytest.mark.parametrize("times", TIMES)
def test_no_perturbation_confusion(times):
    mul = TIMES[times]
    names = {"*": list(MODES), "custom_vjp": ["grad", "jit of grad"]}.get(times, ["grad", "jvp", "jit of grad"])
    modes = {name: MODES[name] for name in names}           # custom_vjp has no forward mode
    for a, outer in modes.items():
        for b, inner in modes.items():
            # Siskind and Pearlmutter's example: d/dx [x d/dy (x + y)] is 1; confused tangents give 2.
            assert float(outer(lambda x, d=inner: mul(x, d(lambda y: x + y)(1.0)))(1.0)) == 1.0, (a, b)
            # d/dx [x d/dy (x y) at 2] = 2 x
            assert float(outer(lambda x, d=inner: mul(x, d(lambda y: mul(x, y))(2.0)))(3.0)) == 6.0, (a, b)


def test_a_derivative_that_returns_a_function_of_the_outer_variable():
    """The curried form: a tangent of the first derivative persists into the second."""
    def shift(x):
        return lambda f: lambda y: f(x + y)
    g = xjax.grad(lambda x: shift(x)(jnp.exp)(0.0))
    np.testing.assert_allclose(xjax.grad(lambda x: shift(x)(g)(1.0))(0.0), np.e, rtol=1e-6)


def test_derivatives_of_many_orders():
    f, at = (lambda x: x ** 6), 1.5
    for order, factor in enumerate([6, 30, 120, 360], start=1):
        f = xjax.grad(f) if order % 2 else forward(f)
        np.testing.assert_allclose(f(at), factor * at ** (6 - order), rtol=1e-5)


# -- escaped values -----------------------------------------------------------------------------------------------

STORE = None


class Box:
    pass


def escapes():
    """name -> f(box, x) that stores a traced value, and g(box) that uses it later."""
    def to_global(box, x):
        global STORE
        STORE = x * 2

    def default_argument(box, x):
        def later(y=x * 2):
            return y
        box.f = later

    def generator(box, x):
        def steps():
            yield x * 2
        box.f = steps()

    def exception(box, x):
        try:
            raise ValueError(x * 2)
        except ValueError as error:
            box.error = error

    return {
        "global": (to_global, lambda box: STORE),
        "attribute": (lambda box, x: setattr(box, "x", x * 2), lambda box: box.x),
        "list": (lambda box, x: vars(box).setdefault("items", []).append(x * 2), lambda box: box.items[0]),
        "dict": (lambda box, x: vars(box).update(cache={"x": x * 2}), lambda box: box.cache["x"]),
        "closure": (lambda box, x: setattr(box, "f", lambda y=None, z=x * 2: z + 1), lambda box: box.f()),
        "default argument": (default_argument, lambda box: box.f()),
        "generator": (generator, lambda box: next(box.f)),
        "exception": (exception, lambda box: box.error.args[0]),
    }


TRANSFORMS = {
    "jit": lambda f: xjax.jit(f)(1.0), "grad": lambda f: xjax.grad(f)(1.0), "vmap": lambda f: xjax.vmap(f)(np.ones(2)),
    "jvp": lambda f: xjax.jvp(f, (1.0,), (1.0,)), "remat": lambda f: xjax.checkpoint(f)(1.0),
    "scan": lambda f: lax.scan(lambda c, _: (f(c), None), 1.0, None, length=2),
    "pmap": lambda f: xjax.pmap(f)(np.ones(2, np.float32)),
}
USES = {"at once": lambda x: x + 1, "in jit": lambda x: xjax.jit(lambda y: x + y)(1.0),
        "in grad": lambda x: xjax.grad(lambda y: x * y)(1.0)}


@pytest.mark.parametrize("shape", escapes())
def test_escaped_values_are_told_with_their_place(shape):
    leak, fetch = escapes()[shape]
    for name, transform in TRANSFORMS.items():
        box = Box()
        transform(lambda x, box=box: leak(box, x) or x)
        x = fetch(box) if shape not in ("closure", "generator") else None
        for use in USES.values():
            with pytest.raises(xjax.errors.UnexpectedTracerError) as caught:
                use(x if x is not None else fetch(box))
            text = str(caught.value)
            assert re.search(r"(made|called) at test_safety\.py:\d+", text), (name, text)
            assert "f32[]" in text and "fix: return it from the function" in text
            if shape == "generator":
                break                               # a generator can be resumed only once
    assert context.trace is eval_trace


# -- calls of itself, other shapes, generators --------------------------------------------------------------------

def test_a_jitted_function_calls_itself_with_other_shapes():
    @xjax.jit
    def total(x):
        if x.shape[0] == 1:
            return x[0]
        half = x.shape[0] // 2
        return total(x[:half]) + total(x[half:])
    x = np.arange(5.0, dtype=np.float32)
    assert float(total(x)) == 10.0
    assert xjax.grad(total)(x).tolist() == [1] * 5
    assert xjax.vmap(total)(np.stack([x, x + 1])).tolist() == [10, 15]


def test_recursion_with_a_static_argument_and_of_grad():
    @functools.partial(xjax.jit, static_argnums=1)
    def power(x, n):
        return jnp.ones_like(x) if n == 0 else x * power(x, n - 1)

    def derivative(f, order):
        return f if order == 0 else xjax.grad(derivative(f, order - 1))
    assert float(power(2.0, 5)) == 32.0
    assert float(xjax.grad(power)(2.0, 3)) == 12.0
    assert float(derivative(lambda x: power(x, 4), 3)(2.0)) == 48.0
    assert float(xjax.jit(derivative(jnp.sin, 4))(0.5)) == pytest.approx(np.sin(0.5))


def test_endless_recursion_is_an_error_that_leaves_no_trace():
    @xjax.jit
    def endless(x):
        return endless(jnp.stack([x, x]).sum(0) + (endless(x[None])[0] if x.ndim < 3 else endless(x[0])[None]))
    with pytest.raises(RecursionError):
        endless(1.0)
    assert context.trace is eval_trace and float(jnp.sin(0.0)) == 0.0


def test_transforms_inside_rules():
    @xjax.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        (x,), (dx,) = primals, tangents
        slope = xjax.jit(xjax.grad(lambda y: xjax.vmap(jnp.sin)(y[None])[0]))(x)
        return f(x), slope * dx
    for g in (f, xjax.jit(f), xjax.checkpoint(f)):
        np.testing.assert_allclose(xjax.grad(xjax.grad(g))(0.3), -np.sin(0.3), rtol=1e-6)


def test_generators_that_switch_between_traces():
    """Traced functions may call `next` on generators that were started outside: trace state is not tied to frames."""
    def running(values):
        total = 0.0
        for v in values:
            total = total + v
            yield total

    @xjax.jit
    def f(x):
        steps, others = running([x, x * x, x * x * x]), running([1.0, 2.0, 3.0])
        return sum(a * b for a, b in zip(steps, others, strict=True))
    np.testing.assert_allclose(f(2.0), 2 * 1 + 6 * 3 + 14 * 6)
    np.testing.assert_allclose(xjax.grad(f)(2.0), 1 + 5 * 3 + 17 * 6)

    def half(x):
        y = jnp.sin(x)
        yield y
        yield y * 2
    suspended = half(1.0)
    first = next(suspended)
    second = xjax.jit(lambda x: x + next(suspended))(1.0)
    np.testing.assert_allclose(second, 1 + 2 * first, rtol=1e-6)


def test_tasks_of_an_event_loop_interleave():
    async def learn(start, rate):
        x = jnp.float32(start)
        for _ in range(20):
            await asyncio.sleep(0)                  # another task runs here
            with xjax.numpy_rank_promotion("raise"):
                x = x - rate * xjax.jit(xjax.grad(lambda y: (y - 3.0) ** 2))(x)
        return float(x)

    async def both():
        return await asyncio.gather(learn(0.0, 0.4), learn(10.0, 0.3))
    np.testing.assert_allclose(asyncio.run(both()), [3.0, 3.0], atol=1e-3)
    assert config.numpy_rank_promotion == "allow"


# -- errors inside traced functions -------------------------------------------------------------------------------

@pytest.mark.parametrize("name", [*TRANSFORMS, "cond", "while", "custom_vjp", "named axis"])
def test_an_error_leaves_nothing_behind(name):
    fail = True

    def f(x):
        y = jnp.sin(x)
        with xjax.numpy_rank_promotion("raise"), xjax.disable_jit(False):
            if fail:
                raise KeyError("mine")
            return y * 2

    @xjax.custom_vjp
    def ruled(x):
        return x

    ruled.defvjp(lambda x: (x, x), lambda x, ct: (f(x) * ct,))
    run = {**TRANSFORMS, "cond": lambda f: lax.cond(xjax.jit(lambda: True)(), f, lambda x: x, 1.0),
           "while": lambda f: lax.while_loop(lambda x: x < 1.5, f, 1.0), "custom_vjp": lambda f: xjax.grad(ruled)(1.0),
           "named axis": lambda f: xjax.vmap(f, axis_name="rows")(np.ones(2))}[name]
    before = dict(config.values)
    with xjax.enable_x64(), pytest.raises(KeyError, match="mine"):
        run(f)
    assert context.trace is eval_trace and context.axes == () and context.source is None
    assert dict(config.values) == before
    fail = False
    out = xjax.tree.leaves(run(f))[0]               # the same function, traced again
    assert np.isfinite(out).all() and out.dtype == np.float32
    assert float(jnp.cos(0.0)) == 1.0


# -- threads ------------------------------------------------------------------------------------------------------

def work(seed, barrier, out):
    """Trace, compile, run and differentiate a function of this thread and a function shared by all threads."""
    rng = np.random.default_rng(seed)
    barrier.wait()
    for step in range(3):
        with xjax.enable_x64(seed % 2 == 0), xjax.numpy_rank_promotion("raise" if seed % 3 else "allow"):
            x = rng.normal(size=(4,))
            own = xjax.jit(lambda x, k=seed: jnp.sum(jnp.sin(x) * k))
            out.append((seed, "dtype", own(x).dtype == (np.float64 if seed % 2 == 0 else np.float32)))
            out.append((seed, "own", np.allclose(own(x), np.sin(x).sum() * seed, rtol=1e-4)))
            out.append((seed, "grad", np.allclose(xjax.grad(own)(x), np.cos(x) * seed, rtol=1e-4, atol=1e-5)))
            out.append((seed, "shared", np.allclose(shared(x, step), (x * step).sum(), rtol=1e-4, atol=1e-5)))
            out.append((seed, "nested", np.allclose(
                xjax.vmap(xjax.grad(lambda y: shared(y[None], 2)))(x), 2.0)))
            out.append((seed, "eager", np.allclose((jnp.asarray(x) + seed).sum(), x.sum() + 4 * seed, rtol=1e-4)))
            out.append((seed, "clean", context.trace is eval_trace))


@functools.partial(xjax.jit, static_argnums=1)
def shared(x, n):
    time.sleep(0.001)                               # lets another thread trace meanwhile
    return jnp.sum(x * n)


@pytest.mark.parametrize("count", [2, 8])
def test_threads_trace_compile_and_differentiate_at_once(count):
    barrier, out = threading.Barrier(count), []
    threads = [threading.Thread(target=work, args=(seed, barrier, out), daemon=True) for seed in range(1, count + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a thread hangs"
    assert not [entry for entry in out if not entry[2]]
    assert len(out) == 21 * count


# -- values that are not known yet --------------------------------------------------------------------------------

def x_items(x):
    return [10, 20, 30][x.astype(int)]


ERRORS = xjax.errors
ASKS = {
    # name: (f(x) with x a traced f32[], error, words of the message)
    "if": (lambda x: 1 if x > 0 else 2, ERRORS.TracerBoolConversionError, ["bool() of", "bool[]", "lax.cond", "where"]),
    "and": (lambda x: (x > 0) and (x < 1), ERRORS.TracerBoolConversionError, ["bool() of", "lax.cond"]),
    "int": (int, ERRORS.ConcretizationTypeError, ["int() of", "f32[]", "argument `x`", "static_argnums"]),
    "float": (float, ERRORS.ConcretizationTypeError, ["float() of", "static_argnums"]),
    "complex": (complex, ERRORS.ConcretizationTypeError, ["complex() of"]),
    "index": (x_items, ERRORS.TracerIntegerConversionError, ["an index from", "i32[]", "dynamic_slice"]),
    "range": (lambda x: list(range(x.astype(int))), ERRORS.TracerIntegerConversionError, ["fori_loop"]),
    "shape": (lambda x: jnp.zeros(x.astype(int)), TypeError, ["static"]),
    "asarray": (np.asarray, ERRORS.TracerArrayConversionError, ["a NumPy array from", "xjax.numpy"]),
    "numpy function": (lambda x: np.sin(x), ERRORS.TracerArrayConversionError, ["xjax.numpy functions"]),
    "in place": (lambda x: np.add(np.ones(2), x, out=np.ones(2)), ERRORS.TracerArrayConversionError, []),
    "iteration": (lambda x: list(x), TypeError, ["iteration over a 0-d array"]),
    "item": (lambda x: x.item(), ERRORS.ConcretizationTypeError, ["item() of"]),
    "tolist": (lambda x: x.tolist(), ERRORS.ConcretizationTypeError, ["tolist() of"]),
    "pickle": (pickle.dumps, ERRORS.ConcretizationTypeError, ["a pickle of"]),
    "tobytes": (lambda x: x.tobytes(), ERRORS.ConcretizationTypeError, ["tobytes() of"]),
    "place": (lambda x: x.sharding, AttributeError, ["has no `sharding`", "f32[]", "in jit", "fix: "]),
    "devices": (lambda x: x.devices(), AttributeError, ["has no `devices`"]),
    "misspelt": (lambda x: x.reshpe(1), AttributeError, ["a traced value (f32[]) has no attribute 'reshpe'"]),
    "hash": (hash, TypeError, ["unhashable"]),
    "mask": (lambda x: jnp.arange(3)[x > jnp.arange(3)], ERRORS.NonConcreteBooleanIndexError, ["where"]),
    "slice": (lambda x: jnp.arange(9)[:x.astype(int)], Exception, ["dynamic_slice"]),
    "format": (lambda x: float(f"{x:.3f}"), Exception, []),
}


@pytest.mark.parametrize("name", ASKS)
def test_asking_for_a_value_that_is_not_known(name):
    f, error, words = ASKS[name]
    explained = error in (ERRORS.TracerBoolConversionError, ERRORS.ConcretizationTypeError,
                          ERRORS.TracerIntegerConversionError, ERRORS.TracerArrayConversionError)
    text = str(assert_refused(lambda: xjax.jit(lambda x: f(x))(1.0), error, words, fix=explained))
    if explained:
        line = f.__code__.co_firstlineno + (f is x_items) if hasattr(f, "__code__") else None
        assert re.search(r"used at test_safety\.py:%s" % (line or r"\d+"), text), text
        assert "jit `<lambda>`" in text


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_traced_value_is_that_value(copied):
    f = lambda x: (copied({"x": x})["x"] ** 2).sum()
    x = jnp.array([1.0, 2.0])
    assert xjax.jit(f)(x) == 5.0 and xjax.jvp(f, (x,), (x,))[1] == 10.0 == xjax.linearize(f, x)[1](x)
    for gradient in (xjax.grad(f), xjax.jit(xjax.grad(f)), xjax.vmap(xjax.grad(f))):
        np.testing.assert_array_equal(gradient(x), 2 * x)


def test_known_values_inside_grad_may_be_asked_for():
    assert float(xjax.grad(lambda x: x * 2 if x > 0 else x * 3)(1.0)) == 2.0
    assert float(xjax.grad(lambda x: sum(x for _ in range(int(x))))(3.0)) == 3.0
    with pytest.raises(ERRORS.TracerArrayConversionError, match="a NumPy array from"):
        xjax.grad(lambda x: float(np.asarray(x)) * x)(1.0)
    with pytest.raises(ERRORS.TracerBoolConversionError, match=r"vmap of `<lambda>` called at test_safety\.py"):
        xjax.vmap(lambda x: x if x > 0 else -x)(np.ones(2))


# -- sizes that no memory has ------------------------------------------------------------------------------------

N = 2 ** 62
TOO_LARGE = {
    "numpy.zeros": lambda: jnp.zeros(N), "numpy.ones": lambda: jnp.ones((1, N)), "numpy.full": lambda: jnp.full(N, 2.0),
    "numpy.empty": lambda: jnp.empty((2 ** 40, 2 ** 40)), "numpy.broadcast_to": lambda: jnp.broadcast_to(1.0, (N,)),
    "numpy.eye": lambda: jnp.eye(2 ** 31), "numpy.identity": lambda: jnp.identity(2 ** 31),
    "lax.iota": lambda: lax.iota(np.int32, N), "lax.full": lambda: lax.full((N,), 1.0),
    "random.normal": lambda: xjax.random.normal(xjax.random.key(0), (N,)),
    "compile": xjax.jit(lambda: jnp.ones(N).sum()),
}


@pytest.mark.parametrize("where", TOO_LARGE)
def test_arrays_of_2_to_the_63_bytes_are_refused(where):
    """XLA would terminate the process."""
    assert_refused(TOO_LARGE[where], ValueError, f"{where}: the program has an array of 2**63 bytes or more")


def test_sizes_are_counted_without_overflow():
    assert xjax.eval_shape(lambda: jnp.zeros((2 ** 40, 2 ** 40))).size == 2 ** 80
    with xjax.enable_x64(True):
        assert_refused(lambda: jnp.arange(N), ValueError, ("numpy.arange", f"i64[{N}]", f"{8 * N:,}"))
