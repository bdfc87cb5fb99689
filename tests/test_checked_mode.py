"""Checked mode: 40 programs with a bug, each of which stops at its line; values and programs that give no alarm."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from xjax import lax, random
from xjax.checks.keys import KeyTable
from xjax.errors import KeyReuseError

X, POSITIVE = np.arange(4, dtype=np.float32), np.arange(1, 5, dtype=np.float32)
I8 = np.int8


# -- indices ------------------------------------------------------------------------------------------------------

def index_eager():
    x, i = jnp.asarray(X), jnp.array(4)
    return x[i] * 2                                                                                     # bug


def index_in_jit():
    @xjax.jit
    def last(x, n):
        total = x.sum()
        return total + x[n]                                                                             # bug
    return last(X, 4)


def index_take():
    table = jnp.ones((5, 2))
    return jnp.take(table, jnp.array([0, 5]), axis=0)                                                   # bug


def index_set_in_jit():
    def write(x, i):
        return x.at[i].set(0.0)                                                                         # bug
    return xjax.jit(write)(jnp.asarray(X), np.array([3, 4]))


def index_in_scan():
    x = jnp.asarray(X)

    def body(i, _):
        return i + 1, x[i]                                                                              # bug
    return lax.scan(body, 0, length=5)


def index_in_vmap_of_grad():
    def loss(w, i):
        return w[i] ** 2                                                                                # bug
    return xjax.vmap(xjax.grad(loss), (None, 0))(jnp.asarray(X), jnp.array([0, 7]))


def index_in_while():
    x = jnp.asarray(X)
    return lax.while_loop(
        lambda c: c[1] < 10,
        lambda c: (c[0] + 1, c[1] + x[c[0]]),                                                           # bug
        (0, 0.0))


def index_in_cond():
    def far(i):
        return jnp.asarray(X)[i + 2]                                                                    # bug
    return xjax.jit(lambda i: lax.cond(i > 1, far, lambda i: 0.0, i))(3)


def index_slice_in_fori():
    x = jnp.asarray(X)

    def body(i, total):
        return total + lax.dynamic_slice(x, (i,), (2,)).sum()                                           # bug
    return xjax.jit(lambda: lax.fori_loop(0, 4, body, 0.0))()


def index_in_pmap():
    def shift(x, i):
        return x[i]                                                                                     # bug
    return xjax.pmap(shift)(np.ones((2, 3), np.float32), np.array([0, 3]))


# -- NaNs and infinities ------------------------------------------------------------------------------------------

def nan_eager():
    x = jnp.asarray(X)
    return jnp.sqrt(x - 1)                                                                              # bug


def nan_in_jit():
    @xjax.jit
    def entropy(p):
        logs = jnp.log(p)                                                                               # bug
        return -(p * logs).sum()
    return entropy(X)


def nan_backward_norm():
    def norm(x):
        return jnp.sqrt((x ** 2).sum())                                                                 # bug
    return xjax.grad(norm)(jnp.zeros(3))


def nan_backward_in_jit():
    @xjax.jit
    @xjax.grad
    def slope(x):
        safe = jnp.where(x > 0, jnp.sqrt(x), 0.0)                                                       # bug
        return safe.sum()
    return slope(jnp.zeros(2))


def nan_in_scan():
    def body(c, x):
        return c - 1, x / c                                                                             # bug
    return lax.scan(body, 2.0, POSITIVE)


def nan_in_backward_rule_under_vmap():
    @xjax.custom_vjp
    def soft(x):
        return jnp.tanh(x)

    def backward(y, ct):
        return (ct / (1 - y ** 2),)                                                                     # bug
    soft.defvjp(lambda x: (soft(x), soft(x)), backward)
    return xjax.jit(xjax.vmap(xjax.grad(soft)))(X * 30)


def nan_in_while():
    def body(c):
        return c[0] + 1, jnp.log(c[1])                                                                  # bug
    return lax.while_loop(lambda c: c[0] < 5, body, (0, 2.0))


def nan_in_second_derivative():
    def f(x):
        return jnp.abs(x) ** 1.5                                                                        # bug
    return xjax.jit(xjax.grad(xjax.grad(f)))(0.0)


def nan_backward_in_scan():
    def loss(c):
        def body(c, x):
            return jnp.sqrt(c) * x, None                                                                # bug
        return lax.scan(body, c, POSITIVE)[0]
    return xjax.grad(loss)(0.0)


def nan_in_checkpoint_in_pmap():
    @xjax.checkpoint
    def layer(x):
        return jnp.log(x - 1)                                                                           # bug
    return xjax.pmap(xjax.grad(lambda x: layer(x).sum()))(np.ones((2, 3), np.float32))


# -- keys ---------------------------------------------------------------------------------------------------------

def key_eager():
    key = random.key(0)
    w = random.normal(key, (3,))
    return w, random.uniform(key, (3,))                                                                 # bug


def key_of_words():
    key = random.PRNGKey(1)
    a, _ = random.split(key)
    return random.normal(a), random.bernoulli(key)                                                      # bug


def key_in_jit():
    @xjax.jit
    def noise(key, x):
        first = random.normal(key, x.shape)
        return first + random.normal(key, x.shape)                                                      # bug
    return noise(random.key(2), X)


def key_in_scan():
    def body(key, x):
        return key, x + random.normal(key)                                                              # bug
    return lax.scan(body, random.key(3), X)


def key_closed_over_in_fori():
    key = random.key(4)

    def body(i, total):
        return total + random.uniform(key)                                                              # bug
    return xjax.jit(lambda: lax.fori_loop(0, 3, body, 0.0))()


def key_split_twice():
    key = random.key(5)
    a = random.split(key)
    b = random.split(key, 3)                                                                            # bug
    return a, b


def key_in_grad():
    def loss(x, key):
        mask = random.bernoulli(key, 0.5, x.shape)
        return (x * mask + random.normal(key, x.shape)).sum()                                           # bug
    return xjax.jit(xjax.grad(loss))(X, random.key(6))


def key_in_vmap():
    def draw(key):
        return random.normal(key) + random.gumbel(key)                                                  # bug
    return xjax.vmap(draw)(random.split(random.key(7), 3))


def key_over_calls_of_jit():
    step = xjax.jit(lambda key: random.normal(key))
    key = random.key(8)
    step(key)
    for _ in range(2):
        out = step(key)                                                                                 # bug or above
    return out


def key_in_cond_in_pmap():
    def step(key, x):
        def noisy(x):
            return x + random.normal(key)                                                               # bug
        return lax.cond(random.uniform(key) < 2, noisy, lambda x: x, x)
    return xjax.pmap(step)(random.split(random.key(9), 2), X[:2])


# -- integers -----------------------------------------------------------------------------------------------------

def int_add():
    counts = jnp.array([100, 27], I8)
    return counts + counts                                                                              # bug


def int_mul_in_jit():
    @xjax.jit
    def area(n):
        return n * n                                                                                    # bug
    return area(50_000)


def int_convert():
    pixels = jnp.array([0.0, 255.0, 256.0])
    return pixels.astype(jnp.uint8)                                                                     # bug


def int_sum_in_vmap():
    def total(x):
        return x.sum()                                                                                  # bug
    return xjax.jit(xjax.vmap(total))(np.full((2, 3), 2 ** 30, np.int32))


def int_cumsum():
    steps = jnp.full(4, 2 ** 29, jnp.int32)
    return jnp.cumsum(steps)                                                                            # bug


def int_in_scan():
    def factorial(c, n):
        return c * n, None                                                                              # bug
    return lax.scan(factorial, np.int32(1), np.arange(1, 15, dtype=np.int32))


def int_abs():
    lowest = jnp.array([-128, 3], I8)
    return jnp.abs(lowest)                                                                              # bug


def int_power_in_while():
    def body(c):
        return c[0] + 1, 10 ** c[0]                                                                     # bug
    return lax.while_loop(lambda c: c[0] < 12, body, (jnp.int32(0), jnp.int32(1)))


def int_shift_in_fori():
    return xjax.jit(lambda: lax.fori_loop(
        0, 40, lambda i, c: c << 1,                                                                     # bug
        np.int32(1)))()


def int_sub_in_pmap():
    def difference(a, b):
        return a - b                                                                                    # bug
    return xjax.pmap(difference)(np.array([3, 5], np.uint8), np.array([2, 6], np.uint8))


BUGS = {f.__name__: f for f in list(globals().values())
        if inspect.isfunction(f) and f.__name__.split("_")[0] in ("index", "nan", "key", "int")}
ERRORS = {"index": IndexError, "nan": FloatingPointError, "key": KeyReuseError, "int": OverflowError}


def marked_line(f):
    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if "# bug" in line)


def test_there_are_ten_bugs_of_each_kind():
    kinds = [name.split("_")[0] for name in BUGS]
    assert {kind: kinds.count(kind) for kind in ERRORS} == dict.fromkeys(ERRORS, 10)


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_stops_at_its_line(name):
    f = BUGS[name]
    lines = [marked_line(f)]
    if name == "key_over_calls_of_jit":
        lines = [lines[0] - 4]                                  # the function whose second call draws again
    with xjax.checking(), pytest.raises(ERRORS[name.split("_")[0]]) as caught:
        xjax.block_until_ready(f())
    message = str(caught.value)
    assert any(f"line  {__file__}:{line}:" in message.replace("line       ", "line  ").replace("line    ", "line  ")
               .replace("line   ", "line  ") for line in lines), message


@pytest.mark.parametrize("name", BUGS)
def test_without_checked_mode_it_runs(name):
    xjax.block_until_ready(BUGS[name]())


def test_parts_select_the_checks():
    with xjax.checking("index", "ints"):
        assert np.isnan(jnp.log(jnp.float32(-1)))
        with pytest.raises(OverflowError):
            jnp.int8(100) + jnp.int8(100)
    with xjax.checking("nan"):
        assert (jnp.int8(100) + jnp.int8(100)) == -56
    with pytest.raises(ValueError, match="no part 'indexes'"):
        xjax.checking("indexes")


def test_the_environment_variable():
    program = "import xjax.numpy as jnp; print(jnp.log(jnp.float32(0)))"
    for value, code in (("1", 1), ("index,nan", 1), ("keys", 0), ("0", 0)):
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "XJAX_CHECK": value},
                              capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert ("FloatingPointError: log: made an infinity" in done.stderr) == bool(code)


# -- no alarm -----------------------------------------------------------------------------------------------------

KEY = random.key(0)
MASK = np.array([True, False, True, True])


def log_if_positive(x):
    return lax.cond(x > 0, jnp.log, lambda x: x, x)


# Programs with values that look wrong but are meant.
MEANT = {
    "masked softmax": lambda: xjax.nn.softmax(jnp.where(MASK, X, -jnp.inf)),
    "softmax with where": lambda: xjax.nn.softmax(X, where=MASK),
    "softmax of large scores": lambda: [f(np.float32([3e38, -3e38])) for f in (
        xjax.nn.softmax, xjax.nn.logsumexp, xjax.jit(xjax.grad(lambda x: (xjax.nn.softmax(x) ** 2).sum())))],
    "limits at infinity": lambda: [xjax.jit(lambda x, f=f: f(x * 3e38))(X) for f in (
        jnp.tanh, jnp.arctan, xjax.nn.sigmoid, xjax.scipy.special.erf, xjax.scipy.special.erfc)],
    "logsumexp of -inf": lambda: xjax.nn.logsumexp(jnp.array([-jnp.inf, 0.0])),
    "log under where": lambda: xjax.jit(lambda x: jnp.where(x > 0, jnp.log(x), 0.0))(X),
    "division under where": lambda: xjax.jit(lambda x: jnp.where(x != 0, 1 / x, 0.0).sum())(X),
    "overflow under where": lambda: xjax.jit(lambda n: jnp.where(n < 1000, n * n, -1))(np.int32(50_000)),
    "infinity of the user": lambda: jnp.minimum(jnp.inf, X) + jnp.inf,
    "nan of the user": lambda: jnp.nanmean(jnp.array([1.0, jnp.nan])) + jnp.nan,
    "isnan": lambda: xjax.jit(lambda x: jnp.where(jnp.isnan(jnp.log(x - 1)), 0.0, x))(X),
    "xlogy": lambda: xjax.scipy.special.xlogy(0.0, X), "entr": lambda: xjax.scipy.special.entr(X),
    "sinc": lambda: jnp.sinc(X), "logaddexp": lambda: jnp.logaddexp(-jnp.inf, X),
    "softplus": lambda: xjax.nn.softplus(X * 100), "sigmoid": lambda: xjax.nn.sigmoid(-X * 100),
    "gelu": lambda: xjax.grad(lambda x: xjax.nn.gelu(x).sum())(X * 10),
    "max of nothing": lambda: jnp.max(jnp.zeros(0), initial=-jnp.inf),
    "hash": lambda: (jnp.uint32(2654435761) * jnp.arange(5, dtype=jnp.uint32)) ^ jnp.uint32(1 << 31),
    "randint": lambda: random.randint(random.key(1), (100,), -2 ** 31, 2 ** 31 - 1),
    "random numbers": lambda: [f(k) for f, k in zip(
        (random.normal, random.uniform, random.gumbel, random.exponential, random.cauchy, random.laplace,
         functools.partial(random.gamma, a=0.5), functools.partial(random.poisson, lam=3.0)),
        random.split(random.key(2), 8), strict=True)],
    "permutation": lambda: random.permutation(random.key(3), 10), "fold_in": lambda: [
        random.normal(random.fold_in(random.key(4), i)) for i in range(3)],
    "one seed twice": lambda: [random.normal(random.key(5)) for _ in range(2)],
    "keys in a scan": lambda: lax.scan(lambda k, x: (random.split(k)[0], random.normal(random.split(
        random.fold_in(k, 1))[1])), random.key(6), X)[1],
    "dropout in checkpoint": lambda: xjax.jit(xjax.grad(xjax.checkpoint(
        lambda x, k: (x * random.bernoulli(k, 0.5, x.shape)).sum())))(X, random.key(7)),
    "modes": lambda: (jnp.asarray(X).at[9].get(mode="fill"), jnp.asarray(X).at[np.array([9])].set(0, mode="drop"),
                      jnp.take(X, jnp.array([9]), mode="clip"), jnp.asarray(X).at[jnp.array(9)].get(mode="clip"),
                      jnp.take(X, jnp.array([-9]), mode="wrap"), jnp.take(X, jnp.array([9]), mode="fill")),
    "derivatives of modes": lambda: [xjax.grad(lambda x, f=f: (f(x.at[np.array([9, 1])]) ** 2).sum())(jnp.asarray(X))
                                     for f in (lambda at: at.set(7, mode="drop"), lambda at: at.max(7, mode="drop"))],
    "clipped gradients of 0": lambda: xnn.optimizers.clip_grads([jnp.zeros(2)], 0.0),
    "average of nothing": lambda: xnn.metrics.Average.empty().value,
    "no positive example": lambda: xnn.metrics.roc_auc(X, np.zeros(4, int)),
    "segment_sum": lambda: xjax.ops.segment_sum(X, jnp.array([0, 1, 2, 7]), 3),
    "negative index": lambda: (jnp.asarray(X)[jnp.array([-1, -4])], jnp.asarray(X)[jnp.array(-1)]),
    "nonzero with size": lambda: jnp.nonzero(MASK, size=6, fill_value=-1),
    "searching": lambda: (jnp.searchsorted(X, 9.0), jnp.interp(9.0, X, X), jnp.digitize(X, X), jnp.unique(X, size=6)),
    "power": lambda: (jnp.power(jnp.int32(7), jnp.arange(11)), jnp.int32(2) ** 30),
    "order": lambda: (jnp.sort(X), jnp.argsort(-X), jnp.median(X), jnp.percentile(X, 30.0), lax.top_k(X, 2)),
    "integers at their ends": lambda: [f(np.array([-2 ** 15, 7], np.int16), np.array([1, -4], np.int16))
                                       for f in (jnp.floor_divide, jnp.remainder)],
    "floor_divide": lambda: (jnp.arange(-5, 5) // 3, jnp.arange(-5, 5) % 3, jnp.divmod(-7.5, 2.0)),
    "linalg": lambda: [f(jnp.eye(3) * 2.0) for f in (jnp.linalg.inv, jnp.linalg.det, jnp.linalg.qr, jnp.linalg.svd,
                                                     jnp.linalg.eigh, jnp.linalg.cholesky, jnp.linalg.slogdet)],
    "slogdet of singular": lambda: [f(np.ones((2, 2), np.float32)) for f in (
        jnp.linalg.slogdet, xjax.jit(lambda x: jnp.linalg.slogdet(x, method="qr")), jnp.linalg.det)],
    "norm at zero": lambda: xjax.grad(lambda x: jnp.linalg.norm(x))(jnp.zeros(3)),
    "fft": lambda: jnp.fft.ifft(jnp.fft.fft(X)), "special": lambda: (
        xjax.scipy.special.gammaln(X + 0.5), xjax.scipy.special.digamma(POSITIVE), xjax.scipy.special.erfinv(X / 9),
        xjax.scipy.special.betainc(2.0, 3.0, X / 9), xjax.scipy.special.i0e(X)),
    "conv": lambda: jnp.convolve(X, X), "cumulative": lambda: (jnp.cumsum(X), jnp.cumprod(X), lax.cummax(X)),
    "image": lambda: xjax.image.resize(jnp.ones((4, 4)), (7, 3), "bilinear"),
    "unequal loops under vmap": lambda: xjax.jit(xjax.vmap(lambda n: lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + jnp.asarray(X)[c[0]]), (0, 0.0))))(jnp.array([4, 0, 2])),
    "branches under vmap": lambda: [f(X) for f in (xjax.vmap(log_if_positive), xjax.vmap(xjax.grad(log_if_positive)),
                                                    xjax.grad(lambda x: xjax.vmap(log_if_positive)(x).sum()))],
    "one_hot": lambda: xjax.nn.one_hot(jnp.array([0, 7]), 3),
}


@pytest.mark.parametrize("name", MEANT)
def test_no_alarm(name):
    want = MEANT[name]()
    with xjax.checking():
        got = MEANT[name]()
    for x, y in zip(xjax.tree.leaves(got), xjax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5)


def test_training_gives_no_alarm():
    """A network with attention, dropout, normalisation and a mask, trained for some steps."""
    init, apply = xnn.serial(xnn.Dense(8), xnn.LayerNorm(), xnn.Relu, xnn.Dropout(0.5), xnn.Dense(3))

    def loss(params, x, y, key):
        logits = apply(params, x, rng=key, train=True)
        return -jnp.take_along_axis(xjax.nn.log_softmax(logits), y[:, None], 1).mean()

    with xjax.checking():
        _, params = init(random.key(0), (-1, 4))
        step = xjax.jit(lambda p, k: xjax.tree.map(lambda w, g: w - 0.1 * g, p, xjax.grad(loss)(
            p, np.ones((6, 4), np.float32), np.array([0, 1, 2, 0, 1, 2]), k)))
        for key in random.split(random.key(1), 5):
            params = step(params, key)
    assert all(np.isfinite(w).all() for w in xjax.tree.leaves(params))


@pytest.mark.parametrize("order", itertools.permutations(("create", "use", "create", "use")))
def test_reports_of_a_launch_arrive_in_any_order(order):
    """Callbacks of a program wait for nothing but their arguments."""
    table, words = KeyTable(), np.uint32([[1, 2]])
    report = {"create": lambda: table.create((), words), "use": lambda: table.use((), words, None)}
    for _ in range(2):
        table.begin(None, True)
        for name in order:
            report[name]()
        assert table.take_reuse() is None
    table.begin(None, True)
    report["use"]()
    assert table.take_reuse() is not None


def test_draws_are_functions_of_a_program():
    """On jaxlib 0.12, a program in which many draws are written out compiles for minutes."""
    def draw(key):
        return [random.normal(key, (3,)) for key in random.split(key, 20)]

    with xjax.checking():
        assert xjax.jit(draw).lower(KEY).as_text().count("func.func") > 20
        for x, y in zip(xjax.jit(draw)(random.key(8)), draw(random.key(8)), strict=True):
            np.testing.assert_array_equal(x, y)
