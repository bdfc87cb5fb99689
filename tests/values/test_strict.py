"""The options `jax_numpy_dtype_promotion` and `jax_numpy_rank_promotion` apply to the user's expressions only.

Functions are traced and not run: promotion depends on types. Every row of the table of values must have the same types
with both options at their strictest as without, unless the row itself mixes; the tables below list these. The rows of
`WITHOUT_ROW` cover functions outside of the table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

import xjax
import xjax.experimental.ode
import xjax.numpy as jnp
import xnn.optimizers
from tests.compare import assert_same, outcome
from tests.oracle import real_jax
from tests.sampling import one_in
from tests.values.row import FunctionRow
from tests.values.signatures import words
from tests.values.table import ROWS
from xjax import lax, nn, random
from xjax.core.errors import TypePromotionError
from xjax.scipy import optimize, signal, special, stats
from xjax.scipy.interpolate import RegularGridInterpolator
from xjax.scipy.sparse import linalg as sparse
from xjax.scipy.spatial.transform import Rotation, Slerp

jax = real_jax()


@contextlib.contextmanager
def strict(library) -> Iterator[None]:
    with library.numpy_dtype_promotion("strict"), library.numpy_rank_promotion("raise"):
        yield


# -- the table of values --------------------------------------------------------------------------------------------

# Rows that mix dtypes or ranks themselves, in at least one of their signatures.
MIXING = {
    *(
        f"numpy.{name}"
        for name in [
            "quantile-nan",
            "nanquantile-nan",
            "diff",
            "gradient",
            "trapezoid",
            "promote_types",
            "result_type",
            "digitize",
            "bincount",
            "mask_indices",
            "trim_zeros",
            "polyint",
            "linalg.svd",
            "linalg.eigh",
            "linalg.eig",
            "linalg.matrix_rank",
            "linalg.pinv",
        ]
    ),
    "numpy.array-of lists",
    "numpy.asarray-of lists",
    "numpy.linalg.svd-of a symmetric matrix",
    "numpy.linalg.matrix_rank-of a symmetric matrix",
    "numpy.linalg.lstsq-of less rank",
    "lax.gather",
    "lax.map",
    "lax.axis_index",
    "lax.linalg.svd",
    "lax.linalg.eigh",
    "nn.logsumexp",
    "scipy.linalg.cho_factor",
    "scipy.linalg.eigh",
    "scipy.linalg.schur",
    "scipy.linalg.svd",
    "scipy.optimize.minimize",
    "scipy.optimize.minimize-l-bfgs",
    "scipy.spatial.transform.Rotation",
    "scipy.spatial.transform.Rotation-made",
    "scipy.spatial.transform.Slerp",
    "flatten_util.ravel_pytree",
    "eval_shape",
}
# Rows where JAX raises and xjax computes: operands that differ by nature (weights and counts, points and a mean), or
# constants of JAX itself.
JAX_TRIPS = set(
    [
        "lax.index_take",
        "numpy.cov-weights",
        "numpy.cross-in the plane",
        "numpy.trapezoid",
        "numpy.geomspace",
        "numpy.kaiser-single",
        "nn.leaky_relu",
        "nn.relu6",
        "nn.dot_product_attention",
        "nn.dot_product_attention-windows",
        "numpy.unwrap",
        "random.ball",
        "random.bernoulli",
        "random.double_sided_maxwell",
        "random.generalized_normal",
        "random.lognormal",
        "random.pareto",
        "random.t",
        "random.truncated_normal",
        "random.weibull_min",
        "random.rademacher",
        "scipy.integrate.trapezoid",
        "scipy.linalg.lu",
        "scipy.signal.csd",
        "scipy.special.hyp1f1",
        "scipy.special.log_softmax",
        "scipy.special.sph_harm_y",
        "scipy.stats.multivariate_normal.logpdf",
        "scipy.stats.multivariate_normal.pdf",
        "scipy.stats.poisson.entropy",
    ]
)
# Rows with mixed arrays that JAX computes: it has its own rules for them.
JAX_ALLOWS = {"numpy.array_equiv", "numpy.gcd", "numpy.heaviside", "numpy.logspace-in a dtype"}


def types(library, row: FunctionRow, signature: str):
    """Types of the results of a row."""
    arrays = [w.random(np.random.default_rng(0)) for w in words(signature)]
    function = row.function(library)
    if row.jit:
        return library.eval_shape(lambda *xs: function(*xs), *arrays)
    return function(*map(library.numpy.asarray, arrays))


def agree(signature: str) -> bool:
    parsed = words(signature)
    return len({w.dtype for w in parsed}) < 2 and len({len(w.shape) for w in parsed if w.shape}) < 2


@pytest.mark.parametrize(("x64", "every"), [
    (False, False),
    pytest.param(False, True, marks=pytest.mark.slow),
    pytest.param(True, True, marks=pytest.mark.slow),
])
def test_functions_of_arrays_that_agree(x64, every):
    """Args: every: all signatures of each row; else one: the first row's first, the second row's second, and so on."""
    wrong = []
    for i, row in enumerate(ROWS):
        signatures = list(filter(agree, row.signatures))
        for signature in signatures if every or not signatures else [signatures[i % len(signatures)]]:
            with xjax.enable_x64(x64):
                with strict(xjax):
                    ours = outcome(types, xjax, row, signature)
                if ours.error is None:
                    assert_same(ours.value, types(xjax, row, signature), what=f"{row} of {signature}")
                elif str(row) not in MIXING:
                    wrong.append(f"{row} of {signature}: {ours.error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("row", one_in(40, ROWS), ids=str)
def test_table_is_judged_as_in_jax(row):
    """The same types as without the options, and an error exactly where JAX has one, except in the tables above."""
    for signature in row.signatures:
        with xjax.enable_x64(True), jax.enable_x64(True):
            plain = outcome(types, xjax, row, signature)
            with strict(xjax), strict(jax):
                ours, theirs = outcome(types, xjax, row, signature), outcome(types, jax, row, signature)
        what = f"{row} of {signature}"
        if ours.error is None:
            assert_same(ours.value, plain.value, what=what)
        if str(row) not in JAX_TRIPS | JAX_ALLOWS:
            assert (ours.error is None) == (theirs.error is None), f"{what}: ours {ours.error}, JAX {theirs.error}"


# -- what users mix -------------------------------------------------------------------------------------------------

X, Y, INTS, K = np.ones((2, 3), np.float32), np.ones(3, np.float32), np.ones(3, np.int32), np.ones(3, np.complex64)
MIXED = (
    "J.add(Y, I)",
    "J.asarray(Y) * I",
    "J.add(X, Y)",
    "J.asarray(X) < Y",
    "J.power(Y, I)",
    "J.asarray(Y) ** I",
    "J.where(X > 0, X, Y)",
    "J.where(Y > 0, X, X)",
    "J.linspace(np.ones(2, np.float32), np.ones((3, 1), np.float32))",
    "J.concatenate([Y, I])",
    "J.append(Y, I)",
    "J.vectorize(lambda a, b: a + b)(X, Y)",
    "J.frompyfunc(lambda a, b: a + b, 2, 1)(X, Y)",
    "J.put(K, np.array([0]), Y[:1], inplace=False)",
    "J.put_along_axis(K, np.array([0]), Y[0], 0, inplace=False)",
    "J.place(K, I > 0, Y, inplace=False)",
    "J.asarray(K).at[0].set(Y[0])",
    "J.asarray(I).at[0].set(Y[0])",
    "J.vecdot(X, Y)",
    "J.linalg.solve(np.ones((2, 3, 3), np.float32), np.ones((3, 2), np.float32))",
    'J.einsum("ij,j", X, I)',
    "J.clip(X, Y)",
    "J.select([Y > 0], [X])",
    "J.isclose(X, Y)",
    "J.isin(X, I)",
    "J.kron(X, Y)",
    "J.cross(X, Y)",
    "J.convolve(Y, I)",
    "J.mean(X, where=Y > 0)",
    "J.array_equal(Y, I)",
    "J.polyval(Y, X)",
    "J.interp(Y, Y, I)",
    "J.hypot(Y, I)",
    "J.logaddexp(X, Y)",
    "J.true_divide(I, Y)",
    "jax.scipy.stats.norm.logpdf(X, Y)",
    "jax.scipy.special.xlogy(X, Y)",
    "jax.scipy.special.betaln(Y, I)",
    "jax.nn.softmax(X, where=Y > 0)",
    "jax.nn.leaky_relu(Y, np.float16(1))",
    "jax.nn.elu(I, Y[0])",
    "jax.nn.logsumexp(X, b=Y)",
    "jax.random.truncated_normal(jax.random.key(0), np.ones((2, 1), np.float32), Y)",
    "jax.grad(lambda y: (y * I).sum())(Y)",
    "jax.vmap(lambda a, b: a + b)(Y, I)",
    "jax.jit(lambda a, b: a * b)(X, Y)",
    "jax.lax.scan(lambda c, i: (c + i, c), np.float32(0), I)",
    "jax.lax.map(lambda a: a * I, X)",
    "jax.lax.fori_loop(0, 3, lambda i, c: c * i, Y)",
)
AGREEING = (
    "J.add(Y, 1)",
    "J.asarray(I) + 1",
    "J.asarray(Y) ** 2",
    "J.matmul(X, Y)",
    'J.einsum("ij,j", X, Y)',
    "J.outer(Y, Y)",
    "J.full((2, 3), Y)",
    "J.broadcast_arrays(X, Y)",
    "J.take(Y, I)",
    "J.average(X, axis=1, weights=Y)",
    "J.asarray(X).at[0].set(Y)",
    "J.array_equiv(X, Y)",
)


@pytest.mark.parametrize("line", [*MIXED, *AGREEING])
def test_what_users_mix_is_judged_as_in_jax(line):
    def run(library):
        with strict(library):
            names = {"jax": library, "J": library.numpy, "np": np, "X": X, "Y": Y, "I": INTS, "K": K}
            return library.eval_shape(lambda: library.tree.leaves(eval(line, names)))       # traced, not compiled

    ours, theirs = outcome(run, xjax), outcome(run, jax)
    assert (ours.error is None) == (theirs.error is None), f"ours {ours.error}, JAX {theirs.error}"


def test_functions_of_the_user_keep_the_options():
    """Functions that a library function calls keep the options; the library's own expressions need not."""

    def mixes(y, *_):
        return y * jnp.arange(3)

    calls = (
        lambda: xjax.experimental.ode.odeint(mixes, Y, Y.cumsum()),
        lambda: optimize.minimize(lambda y: mixes(y).sum(), jnp.asarray(Y), method="BFGS"),
        lambda: sparse.gmres(mixes, jnp.asarray(Y)),
        lambda: jnp.apply_along_axis(mixes, 0, Y),
        lambda: signal.welch(np.ones(12, np.float32), nperseg=3, detrend=mixes),
        lambda: lax.custom_root(mixes, Y, lambda f, y: f(y), lambda g, y: y),
    )
    for call in calls:
        with strict(xjax), pytest.raises(TypePromotionError):
            call()
        assert outcome(xjax.eval_shape, lambda call=call: xjax.tree.leaves(call())).error is None


def test_options_belong_to_the_cached_programs():
    """A function of the library that was compiled without the options still checks its arguments under them."""
    for call in (
        lambda: jnp.polyfit(Y, Y.astype(np.float16), 1),
        lambda: jnp.hypot(Y, INTS),
        lambda: nn.leaky_relu(Y, np.float16(1)),
        lambda: stats.norm.logpdf(X, Y),
    ):
        call()
        with strict(xjax), pytest.raises(ValueError, match="strict|rank"):
            call()
        call()


# -- functions without a row ----------------------------------------------------------------------------------------

V = np.linspace(0, 1, 7, dtype=np.float32)
SPD = np.eye(3, dtype=np.float32) * 2
Q = np.ones((1, 3, 4, 2), np.float32)


def step(name):
    """Two steps of an optimizer of xnn."""
    more = {"momentum": (0.9,), "nesterov": (0.9,)}.get(name, ())
    init, update, get = getattr(xnn.optimizers, name)(0.1, *more)
    state = init({"w": X, "b": Y})
    for i in range(2):
        state = xjax.jit(update)(i, {"w": X, "b": Y}, state)
    return get(state)


WITHOUT_ROW = {
    "Rotation": lambda: [
        r(np.ones((4, 3), np.float32))
        for r in (
            lambda v: Rotation.from_rotvec(v).apply(v),
            lambda v: Rotation.from_rotvec(v[0]).apply(v),
            lambda v: Rotation.from_rotvec(v).apply(v[0]),
            lambda v: (Rotation.from_rotvec(v) * Rotation.from_mrp(v[0])).inv(),
            lambda v: Rotation.from_euler("zyx", v, degrees=True).mean(),
            lambda v: Rotation.random(random.key(0), 4).as_euler("xyz"),
            lambda v: Slerp.init(range(4), Rotation.from_rotvec(v))(V),
        )
    ],
    "RegularGridInterpolator": lambda: [
        RegularGridInterpolator((V, V), np.ones((7, 7), np.float32), method)(Q[0, 0])
        for method in ("linear", "nearest")
    ],
    "gaussian_kde": lambda: (
        lambda k: (
            k(X.T),
            k.logpdf(X.T),
            k.integrate_gaussian(Y, SPD),
            k.integrate_kde(k),
            k.resample(random.key(0), (5,)),
        )
    )(stats.gaussian_kde(np.ones((3, 9), np.float32))),
    "gaussian_kde of weights": lambda: stats.gaussian_kde(V, weights=V + 1).integrate_box_1d(0.0, 1.0),
    "gradient of attention": lambda: xjax.grad(lambda q: nn.dot_product_attention(q, q, q, is_causal=True).sum())(Q),
    "attention of lengths": lambda: nn.dot_product_attention(
        Q, Q, Q, query_seq_lengths=INTS[:1], key_value_seq_lengths=INTS[:1]
    ),
    "attention of half precision": lambda: nn.dot_product_attention(
        *[Q.astype(np.float16)] * 3, bias=Q[:, :1, :3, :1].astype(np.float16)
    ),
    "activations of integers": lambda: [
        f(INTS)
        for f in (
            nn.relu,
            nn.relu6,
            nn.elu,
            nn.selu,
            nn.celu,
            nn.mish,
            nn.hard_sigmoid,
            nn.hard_swish,
            nn.softplus,
            nn.soft_sign,
            nn.squareplus,
            nn.sparse_plus,
            nn.sparse_sigmoid,
            nn.log_sigmoid,
            nn.gelu,
            nn.standardize,
            nn.log_softmax,
            nn.leaky_relu,
            nn.hard_tanh,
            jnp.unwrap,
            jnp.gradient,
        )
    ],
    "polyfit": lambda: [jnp.polyfit(V, V, 2, full=True), jnp.polyfit(V, V, 2, cov=True)],
    "histogramdd": lambda: [jnp.histogramdd(X.T, 3, density=True), jnp.histogramdd(X, [V, V, V]), jnp.histogram(INTS)],
    "interp of integers": lambda: jnp.interp(INTS, INTS, INTS),
    "solvers": lambda: [f(SPD, Y) for f in (sparse.cg, sparse.gmres, sparse.bicgstab)],
    "minimize": lambda: [
        optimize.minimize(lambda y: ((y - 1) ** 2).sum(), jnp.asarray(Y), method=method)
        for method in ("BFGS", "l-bfgs-experimental-do-not-rely-on-this")
    ],
    "odeint": lambda: xjax.grad(lambda s: xjax.experimental.ode.odeint(lambda y, t: -s * y, Y, V).sum())(2.0),
    "control flow": lambda: [
        lax.scan(lambda c, v: (c + v, c * v), jnp.float32(0), V),
        lax.map(lambda v: v * 2, X, batch_size=2),
        lax.associative_scan(jnp.add, V),
        lax.fori_loop(0, 3, lambda _, c: c * 2, Y),
        lax.cond(True, jnp.sin, jnp.cos, Y),
        lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, Y),
        lax.switch(1, [jnp.sin, jnp.cos], Y),
    ],
    "derivatives": lambda: [
        xjax.hessian(lambda y: (y**3).sum())(Y),
        xjax.grad(lambda x: jnp.linalg.pinv(x).sum())(X),
        xjax.jacfwd(jnp.linalg.eigh)(SPD),
        xjax.grad(lambda x: jnp.linalg.qr(x)[0].sum())(SPD),
        xjax.grad(lambda x: jnp.percentile(x, 30.0))(X),
        xjax.grad(lambda y: jnp.cumprod(y).sum())(Y),
        xjax.grad(lambda y: special.xlogy(y, y).sum())(Y),
        xjax.grad(lambda v: random.gamma(random.key(0), v).sum())(V + 1),
    ],
    "optimizers": lambda: [
        step(name)
        for name in ["sgd", "momentum", "nesterov", "adam", "adamax", "adagrad", "rmsprop", "rmsprop_momentum", "sm3"]
    ],
    "initializers": lambda: [
        getattr(nn.initializers, name)()(random.key(0), (3, 4, 6), jnp.float32)
        for name in [
            "normal",
            "uniform",
            "truncated_normal",
            "glorot_normal",
            "glorot_uniform",
            "he_normal",
            "he_uniform",
            "lecun_normal",
            "lecun_uniform",
            "orthogonal",
            "delta_orthogonal",
        ]
    ],
    "random": lambda: [
        getattr(random, name)(random.key(0), *parameters)
        for names, *parameters in (
            ("beta f weibull_min", V + 1, V + 1, (7,)),
            ("gamma t chisquare pareto lognormal rayleigh wald", V + 1, (2, 7)),
            ("poisson", 3.0, (3,)),
            ("binomial", 9.0, V),
            ("truncated_normal", V - 2, V),
            ("triangular", V, V + 1, V + 2),
            ("double_sided_maxwell", V, V + 1),
            ("geometric bernoulli", V / 2 + 0.1),
            ("randint", (3,), INTS, INTS + 4),
            ("multivariate_normal", Y, SPD),
            ("multivariate_normal", Y, SPD, (2,)),
            ("orthogonal", 3, (2,)),
            ("ball", 3, 2.0),
            ("generalized_normal", 2.0, (3,)),
            ("categorical", X),
            ("choice", X, (2,)),
        )
        for name in names.split()
    ],
}


@pytest.mark.parametrize("name", WITHOUT_ROW)
def test_what_has_no_row(name):
    """The traced results are the same with the options as without."""

    def run():
        return xjax.tree.leaves(WITHOUT_ROW[name]())

    with strict(xjax):
        ours = xjax.eval_shape(run)
    assert_same(ours, xjax.eval_shape(run))
