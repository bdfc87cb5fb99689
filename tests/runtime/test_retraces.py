"""Repeated traces: the warning names the change and the remedy, once for each line; normal programs get none."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from xjax.errors import RetraceWarning


def retraces(run):
    """The texts of the warnings that a program gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    assert all(w.category is RetraceWarning and w.filename == __file__ for w in caught), [*map(str, caught)]
    return [str(w.message) for w in caught]


class Settings:
    """A static value that is compared by identity."""


class Model:
    def step(self, x):
        return x + 1


def new_lambda(n):
    for _ in range(n):
        xjax.jit(lambda x: x + 1)(1.0)


def new_function(n):
    for _ in range(n):
        @xjax.jit
        def step(x):
            return x + 1
        step(1.0)


def shapes(n):
    f = xjax.jit(lambda params, x: params["w"].sum() + x)
    for i in range(n):
        f({"w": np.ones(i + 1)}, 1)


def weak_types(n):
    f = xjax.jit(lambda a, b, c: a + b + c)
    for i in range(n):
        f(*[1.0 if i >> bit & 1 else np.float32(1) for bit in range(3)])


def dtypes(n):
    f = xjax.jit(lambda a, b: a + b)
    kinds = ("int8", "int16", "float16", "float32")
    for i in range(n):
        f(np.ones(2, kinds[i % 4]), np.ones(2, kinds[i // 4]))


def static_values(n):
    f = xjax.jit(lambda x, n: x * n, static_argnums=1)
    for i in range(n):
        f(1.0, i)


def static_objects(n):
    f = xjax.jit(lambda x, settings: x, static_argnames="settings")
    for _ in range(n):
        f(1.0, settings=Settings())


def closures(n):
    for lr in range(n):
        xjax.jit(lambda x: x * lr)(1.0)


def closures_of_gradients(n):
    for lr in range(n):
        xjax.jit(xjax.grad(lambda x: x * lr))(1.0)


def eager_gradients(n):
    for lr in range(n):
        xjax.grad(xjax.jit(lambda x: x * lr))(1.0)


def defaults(n):
    for lr in range(n):
        xjax.jit(lambda x, lr=lr: x * lr)(1.0)


def closures_of_closures(n):
    for lr in range(n):
        def loss(w):
            return w * lr

        def step(w):
            return w - xjax.grad(loss)(w)
        xjax.jit(step)(1.0)


def partials(n):
    for lr in range(n):
        xjax.jit(functools.partial(lambda x, lr: x * lr, lr=jnp.ones(lr)))(1.0)


def structures(n):
    f = xjax.jit(lambda batch: sum(batch["x"]))
    for i in range(n):
        f({"x": [1.0] * (i + 1)})


def keywords(n):
    f = xjax.jit(lambda **named: sum(named.values()))
    for i in range(n):
        f(**{f"x{j}": 1.0 for j in range(i + 1)})


def methods(n):
    model = Model()
    for _ in range(n):
        xjax.jit(model.step)(1.0)


def new_jits(n):
    here = xjax.sharding.SingleDeviceSharding(xjax.devices()[0])
    for _ in range(n):
        xjax.jit(plus_one, out_shardings=here)(1.0)


def plus_one(x):
    return x + 1


def options(n):
    f = xjax.jit(lambda x: x + 1)
    for name in ("default", "high", "highest", "bfloat16", "float32", "tensorfloat32")[:n]:
        with xjax.default_matmul_precision(name):
            f(1.0)


def new_pmaps(n):
    for _ in range(n):
        xjax.pmap(lambda x: x + 1)(np.ones((1, 2)))


ONCE = "define the function once, outside the loop or function that calls it"
LOOPS = {
    # the loop: (what changed, the remedy)
    new_lambda: (r"function  a new object, made by the same code at test_retraces.py:\d+", ONCE + "."),
    new_function: (r"function  a new object", ONCE + "."),
    shapes: (r"argument `params\['w'\]`  f32\[5\] -> f32\[6\]", "pad `params['w']` to one shape"),
    weak_types: (r"argument `a`  f32\[\] -> f32\[\] weakly typed", "always pass `a` as an array, numpy.asarray(a"),
    dtypes: (r"argument `[ab]`  \w+\[2\] -> \w+\[2\]", "to one dtype before the call"),
    static_values: (r"static argument `n`  4 -> 5", "if `n` is a number to compute with, pass it as an array"),
    static_objects: (r"static argument `settings`  <tests.runtime.test_retraces.Settings object> -> another one",
                     "create the value of `settings` once, outside the loop: objects of type Settings are compared by"),
    closures: (r"closure `lr`  4 -> 5", f"{ONCE}; pass `lr` as an argument."),
    closures_of_gradients: (r"closure `lr`  4 -> 5", f"{ONCE}; pass `lr` as an argument."),
    eager_gradients: (r"closure `lr`  4 -> 5", f"{ONCE}; pass `lr` as an argument."),
    closures_of_closures: (r"closure `lr` of `loss`  4 -> 5", f"{ONCE}; pass `lr` of `loss` as an argument."),
    defaults: (r"default of `lr`  4 -> 5", f"{ONCE}; pass `lr` as an argument."),
    partials: (r"bound argument `lr`  f32\[4\] -> f32\[5\]", f"{ONCE}; pass `lr` as an argument."),
    structures: (r"argument `batch\['x'\]`  a list of 5 -> a list of 6", "pass arguments of one structure"),
    keywords: (r"keyword arguments  a dict with keys .*'x4' -> a dict with keys .*'x5'", "the same keys"),
    methods: (r"function  a new object, made by the same code", ONCE + "."),
    new_jits: (r"jit  a new jit of the same function", "call jit once, outside the loop, and keep its result."),
    options: (r"option default_matmul_precision  'float32' -> 'tensorfloat32'", "set options once, at start-up."),
    new_pmaps: (r"function  a new object, made by the same code", ONCE + "."),
}


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_the_fifth_repeated_trace_gives_one_warning(loop):
    change, remedy = LOOPS[loop]
    assert not retraces(lambda: loop(5))
    xjax.clear_caches()
    texts = retraces(lambda: loop(6 if loop in (weak_types, options) else 9))
    assert len(texts) == 1, texts
    assert re.match(r"(jit|pmap of) `[<>\w]+` at test_retraces.py:\d+: traced again, 5 times so far; ", texts[0])
    assert re.search(change, texts[0]), texts[0]
    assert remedy in texts[0].partition("\n  fix: ")[2], texts[0]
    assert 'filterwarnings("ignore", category=xjax.errors.RetraceWarning)' in texts[0]


def test_each_line_gets_one_warning():
    f = xjax.jit(lambda x: x + 1)

    def twice():
        for i in range(20):
            f(np.ones(i + 1))
        for i in range(20, 40):
            f(np.ones(i + 1))
        for i in range(40):
            f(np.ones(i + 1))
    assert len(retraces(twice)) == 2


def test_the_warning_can_be_turned_off():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=RetraceWarning)
        shapes(9)
    assert not caught


# -- normal programs ----------------------------------------------------------------------------------------------

def four_shapes_in_a_loop():
    f = xjax.jit(xjax.vmap(lambda x: x + 1))
    for epoch in range(3):
        for size in (1, 2, 3, 4):
            f(np.ones(size) * epoch)


def training_and_evaluation():
    step = xjax.jit(lambda x, train: x * 2 if train else x, static_argnames="train")
    for _ in range(4):
        for train in (True, False):
            for size in (8, 8, 3):
                step(np.ones(size), train=train)


def functions_that_are_kept():
    scaled = [xjax.jit(lambda x, by=by: x * by) for by in range(12)]
    for _ in range(2):
        for f in scaled:
            f(1.0)


def functions_of_different_functions():
    for f in (jnp.sin, jnp.cos, jnp.tan, jnp.exp, jnp.log1p, jnp.abs, jnp.sqrt, lambda x: x, lambda x: 2 * x):
        xjax.jit(lambda x: f(x).sum())(1.0)
        xjax.jit(functools.partial(lambda g, x: g(x), f))(1.0)
        xjax.jit(xjax.grad(lambda x: f(x) + 1))(1.0)


def a_function_of_each_leaf():
    norm = xjax.jit(lambda x: (x ** 2).sum())
    xjax.tree.map(norm, [np.ones(n) for n in range(1, 12)])


def functions_of_the_library():
    for n in range(1, 12):
        jnp.linalg.norm(jnp.ones((n, n)))
        jnp.median(np.ones(n))


def functions_inside_a_program():
    relu = xjax.jit(lambda x: jnp.maximum(x, 0))

    @xjax.jit
    def network(x):
        for n in range(12, 1, -1):
            x = relu(x[:n])
            x = xjax.jit(lambda x: x + n)(x)
        return x
    network(np.ones(12))


def programs_for_several_shapes():
    f = xjax.jit(lambda x: x + 1)
    for n in range(12):
        f.lower(np.ones(n)).compile()
        f.eval_shape(np.ones(n + 20))
        xjax.make_jaxpr(f)(np.ones(n + 40))


def a_cache_that_is_cleared():
    f = xjax.jit(lambda x: x + 1)
    for _ in range(12):
        f(1.0)
        f.clear_cache()


def a_line_for_each_shape():
    f = xjax.jit(lambda x: x + 1)
    f(np.ones(1)), f(np.ones(2)), f(np.ones(3)), f(np.ones(4))
    f(np.ones(5)), f(np.ones(6)), f(np.ones(7)), f(np.ones(8))


@pytest.mark.parametrize("program", [
    four_shapes_in_a_loop, training_and_evaluation, functions_that_are_kept, functions_of_different_functions,
    a_function_of_each_leaf, functions_of_the_library, functions_inside_a_program, programs_for_several_shapes,
    a_cache_that_is_cleared, a_line_for_each_shape], ids=lambda program: program.__name__)
def test_a_normal_program_gives_no_warning(program):
    assert not retraces(program)


shared = xjax.jit(lambda x: x - 1)


@pytest.mark.parametrize("size", range(1, 12))
def test_each_test_is_counted_as_a_program_of_its_own(size):
    assert not retraces(lambda: (shared(np.ones(size)), xjax.jit(lambda x: x + size)(1.0)))


def test_records_keep_nothing_of_the_user_alive():
    code = ("import weakref, xjax\n"
            "class Big: pass\n"
            "refs = []\n"
            "for i in range(3):\n"
            "    big = Big(); refs.append(weakref.ref(big))\n"
            "    xjax.jit(lambda x, big=big: x + 1)(1.0)\n"
            "    xjax.jit(lambda x, s: x, static_argnums=1)(1.0, big)\n"
            "del big\n"
            "import gc; gc.collect()\n"
            "assert not any(ref() for ref in refs), refs\n")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_global_variables_are_named():
    code = ("import warnings, xjax, xjax.numpy as jnp\n"
            "warnings.simplefilter('error')\n"
            "for f in (abs, jnp.sin, jnp.cos, lambda x: x, lambda x: -x, jnp.exp, jnp.tan, jnp.tanh):\n"
            "    xjax.jit(lambda x: f(x))(1.0)\n"
            "for rate in range(10):\n"
            "    xjax.jit(lambda x: x * rate)(1.0)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "global `rate`  4 -> 5" in done.stderr and "pass `rate` as an argument" in done.stderr, done.stderr


# -- no_retrace ---------------------------------------------------------------------------------------------------

def test_no_retrace_raises_with_the_explanation():
    f, g = xjax.jit(lambda x: x + 1), xjax.jit(lambda x: x - 1)
    f(1.0)
    with xjax.no_retrace():
        f(2.0)
        assert_refused(lambda: f(np.ones(2)), RuntimeError,
                       ["would be traced again", "argument `x`  f32[] weakly typed -> f32[2]", "pad `x`"])
        assert_refused(lambda: g(1.0), RuntimeError, ["jit `<lambda>`: would be traced", "allow_first=True"])
    g(1.0)


def test_no_retrace_may_allow_first_traces():
    @xjax.no_retrace(allow_first=True)
    def train(steps):
        step = xjax.jit(lambda x: x + 1)
        for i in range(steps):
            step(np.ones(2))
            if i == 1:
                xjax.jit(lambda x: x * 2)(np.ones(2))
            if i == 2:
                step(np.ones(3))

    train(2)
    xjax.clear_caches()
    assert_refused(lambda: train(3), RuntimeError, ["argument `x`  f32[2] -> f32[3]"])

    def again():
        for _ in range(2):
            xjax.jit(lambda x: x + 1)(1.0)
    with xjax.no_retrace(allow_first=True):
        assert_refused(again, RuntimeError, ["would be traced again", "function  a new object"])


# -- cache_info ---------------------------------------------------------------------------------------------------

def test_cache_info():
    f = xjax.jit(lambda x, y=None, *, n=1: x * n, static_argnames="n")
    assert f.cache_info() == (0, 0, 0, ())
    f(np.ones(3), {"a": 1.0}, n=2)
    f(np.ones(3), {"a": 1.0}, n=2)
    f(1, n=3)
    info = f.cache_info()
    assert (info.traces, info.programs, info.executables) == (2, 2, 2)
    assert info.signatures == ("(x: f32[3], y['a']: f32[] weakly typed, n=2)", "(x: i32[] weakly typed, n=3)")
    f.clear_cache()
    assert f.cache_info() == (2, 0, 0, ())
