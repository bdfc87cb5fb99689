"""Rows of the numeric library: linear algebra, Fourier transforms, special functions, densities, windows, segments."""

from __future__ import annotations

from collections.abc import Callable

from tests.programs.generator.arrays import Written, _axis, _floating, _one, _rank_two, along, draw, reduction
from tests.programs.generator.elementwise import INSIDE, POSITIVE, SMALL, Op, binary, unary
from tests.programs.generator.program import Leaf
from tests.programs.generator.writer import Var, Writer

SHARE = "(0.5 + 0.4 * jnp.tanh({}))"        # between 0 and 1
_FINITE = "jnp.nan_to_num(jnp.tanh({x}))"
SPECIAL, NORM = "jax.scipy.special.{}", "jax.scipy.stats.norm.{}"


# ---------------------------------------------------------------- linear algebra

def _gram(x: Var) -> str:
    """A well-conditioned positive definite matrix of as many rows as x [a, b] has columns, in float64."""
    return f"(jnp.tanh({x[0]}).T @ jnp.tanh({x[0]}) + 2.0 * jnp.eye({x[1].shape[1]}))"


def of_matrix(name: str, text: str, shape: Callable[[int, int], tuple[int, ...]]) -> Op:
    """A function of the matrix `{g}` made of `{x}` [a, b]."""
    def write(w: Writer, x: Var) -> Written:
        a, b = x[1].shape
        if not a or not b:
            return None
        return text.format(g=_gram(x), x=x[0]), Leaf("float64", shape(a, b))
    return Op(name, _rank_two(write))


_LINALG = [
    of_matrix("linalg.inv", "jnp.linalg.inv({g})", lambda a, b: (b, b)),
    of_matrix("linalg.det", "jnp.linalg.det({g})", lambda a, b: ()),
    of_matrix("linalg.slogdet", "jnp.linalg.slogdet({g})[1]", lambda a, b: ()),
    of_matrix("linalg.cholesky", "jnp.linalg.cholesky({g})", lambda a, b: (b, b)),
    of_matrix("linalg.solve", "jnp.linalg.solve({g} + 0.3 * jnp.triu({g}), {x}.T)", lambda a, b: (b, a)),
    of_matrix("linalg.qr", "jnp.abs(jnp.diagonal(jnp.linalg.qr({g})[1]))", lambda a, b: (b,)),
    of_matrix("linalg.norm", "jnp.linalg.norm({g})", lambda a, b: ()),
    of_matrix("linalg.matrix_power", "jnp.linalg.matrix_power(0.3 * {g}, 3)", lambda a, b: (b, b)),
    of_matrix("linalg.triangular_solve",
              "lax.linalg.triangular_solve(jnp.tril({g}), {x}.T.astype('float64'), left_side=True, lower=True)",
              lambda a, b: (b, a)),
    of_matrix("linalg.cho_solve", "jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor({g}), {x}.T)",
              lambda a, b: (b, a)),
    of_matrix("linalg.lstsq", "jnp.linalg.lstsq({g}, {x}.T)[0]", lambda a, b: (b, a)),
    of_matrix("linalg.expm", "jax.scipy.linalg.expm(0.2 * {g})", lambda a, b: (b, b)),
    of_matrix("jnp.trace", "jnp.trace({g}, offset=1)", lambda a, b: ()),
    of_matrix("jnp.kron", "jnp.kron({g}, jnp.cos({x}))[:2, :2].sum()", lambda a, b: ()),
]


# ---------------------------------------------------------------- along an axis

def _in_one_dimension(text: str, size: Callable[[int], int], least: int = 1, dtype: str | None = None):
    """A function of a vector of at least this length."""
    def row(w: Writer) -> Written:
        x = w.operand("f", lambda t: len(t.shape) == 1 and t.shape[0] >= least)
        return x and (text.format(x=x[0], n=x[1].shape[0]), Leaf(dtype or x[1].dtype, (size(x[1].shape[0]),)))
    return row


def _diff(w: Writer, x: Var) -> Written:
    k = w.rng.randrange(len(x[1].shape))
    shape = tuple(max(n - 1, 0) if i == k else n for i, n in enumerate(x[1].shape))
    return f"jnp.diff({x[0]}, axis={k})", Leaf(x[1].dtype, shape)


def _quantile(w: Writer, x: Var) -> Written:
    k = w.rng.randrange(len(x[1].shape))
    method = w.rng.choice(("linear", "lower", "midpoint"))
    shape = (*x[1].shape[:k], *x[1].shape[k + 1:])
    return f"jnp.quantile({x[0]}, 0.3, axis={k}, method='{method}')", Leaf(x[1].dtype, shape)


def _fft(name: str, real: bool) -> Op:
    def write(w: Writer, x: Var) -> Written:
        axis = _axis(w.rng, x[1].shape)
        text = f"jnp.fft.{name}({x[0]}, axis={axis})"
        return (f"{text}.real", x[1]) if real else (f"{text}.astype('complex128')", Leaf("complex128", x[1].shape))
    return Op(f"fft.{name}", _one("f", write, 1, True))


def _segments(w: Writer, x: Var) -> Written:
    n = x[1].shape[0]
    ids = [w.rng.randint(-1, 2) for _ in range(n)]
    name = w.rng.choice(("sum", "sum", "prod"))
    return f"jax.ops.segment_{name}({x[0]}, np.array({ids}, int), 3)", Leaf(x[1].dtype, (3, *x[1].shape[1:]))


def _resize(w: Writer, x: Var) -> Written:
    shape = (w.rng.randint(1, 4), w.rng.randint(1, 4))
    method = w.rng.choice(("linear", "nearest", "cubic"))
    return f"jax.image.resize({x[0]}, {shape}, '{method}')", Leaf(x[1].dtype, shape)


def _convolve(w: Writer, x: Var) -> Written:
    a, b = x[1].shape
    if not a or not b:
        return None
    kernel = "np.array([[0.5, -1.0], [0.25, 2.0]])"
    # JAX refuses a kernel that is longer than the array along one axis only.
    return (f"jax.scipy.signal.convolve2d(jnp.pad({x[0]}, 1), {kernel}, 'valid')", Leaf("float64", (a + 1, b + 1)))


def _conv(w: Writer, x: Var) -> Written:
    a, b = x[1].shape
    if not a or not b:
        return None
    padding, stride = w.rng.choice(("SAME", "VALID")), w.rng.choice((1, 2))
    k = min(2, a, b)
    sizes = [-(-n // stride) if padding == "SAME" else (n - k) // stride + 1 for n in (a, b)]
    return (f"lax.conv_general_dilated({x[0]}[None, None], jnp.full((1, 1, {k}, {k}), 0.5, {x[0]}.dtype), "
            f"({stride}, {stride}), '{padding}')[0, 0]", Leaf(x[1].dtype, tuple(sizes)))


def _window_sum(w: Writer, x: Var) -> Written:
    a, b = x[1].shape
    if not a or not b:
        return None
    start, name = w.rng.choice((("0.0", "add"), ("-jnp.inf", "max")))
    return (f"lax.reduce_window({x[0]}, jnp.asarray({start}, {x[0]}.dtype), lax.{name}, (2, 1), (1, 1), 'SAME')", x[1])


def _scan_of_pairs(w: Writer, x: Var) -> Written:
    function, reverse = w.rng.choice(("jnp.add", "jnp.multiply")), w.rng.random() < 0.5
    return f"lax.associative_scan({function}, {x[0]}, reverse={reverse})", x[1]


def _sort_by_key(w: Writer, x: Var) -> Written:
    text = f"lax.sort(({x[0]}, jnp.sin({x[0]})), num_keys=1)"
    return text, [x[1], x[1]]


def _interp(w: Writer, x: Var) -> Written:
    return f"jnp.interp({x[0]}, np.array([-1.0, 0.1, 0.7, 2.0]), np.array([0.3, -0.5, 1.0, 0.2]))", \
        Leaf("float64", x[1].shape)


def _select(w: Writer, x: Var) -> Written:
    return f"jnp.select([{x[0]} > 0.7, {x[0]} > -0.2], [jnp.sin({x[0]}), 2 * {x[0]}], 0.5)", x[1]


def _piecewise(w: Writer, x: Var) -> Written:
    return f"jnp.piecewise({x[0]}, [{x[0]} < 0.3, {x[0]} >= 0.8], [jnp.cos, lambda v: v * v, 0.25])", x[1]


def _cross(w: Writer, x: Var) -> Written:
    return f"jnp.cross(jnp.stack([{x[0]}] * 3, -1), np.array([0.3, -1.0, 2.0]))", Leaf("float64", (*x[1].shape, 3))


def _two_positive(name: str, call: str = SPECIAL) -> Op:
    def write(w: Writer, x: Var) -> Written:
        a, b = (POSITIVE.format(v) for v in (x[0], f"jnp.cos({x[0]})"))
        return f"{call.format(name)}({a}, {b})", x[1]
    return Op(call.format(name), _one("f", write))


def _incomplete_gamma(name: str) -> Op:
    """A function with a constant parameter, in which JAX has no second derivative."""
    call = SPECIAL.format(name)
    return Op(call, _one("f", lambda w, x: (f"{call}(1.5, {POSITIVE.format(x[0])})", x[1])))


LIBRARY = [
    *_LINALG,
    # At 0 and 1 the slope of ndtri is infinite; JAX's is 0.
    *(unary(name, guard=guard, call=SPECIAL, always_guarded=name == "ndtri") for name, guard in (
        ("gammaln", POSITIVE), ("gamma", POSITIVE), ("digamma", POSITIVE), ("erf", "{}"), ("erfc", "{}"),
        ("erfinv", INSIDE), ("expit", "{}"), ("logit", SHARE), ("i0", SMALL), ("i0e", "{}"), ("i1", SMALL),
        ("i1e", "{}"), ("ndtr", "{}"), ("log_ndtr", "{}"), ("ndtri", SHARE), ("entr", POSITIVE), ("exp1", POSITIVE),
        ("spence", POSITIVE))),
    *(binary(name, guard=POSITIVE, call=SPECIAL) for name in ("xlogy", "xlog1py")),
    *map(_two_positive, ("betaln", "kl_div", "rel_entr")),
    *map(_incomplete_gamma, ("gammainc", "gammaincc")),
    reduction("logsumexp", "f", call=SPECIAL),
    *(unary(name, call=NORM) for name in ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf")),
    unary("ppf", guard=SHARE, call=NORM),
    *(unary("logpdf", call=f"jax.scipy.stats.{name}.{{}}") for name in ("logistic", "cauchy", "laplace")),
    _two_positive("logpdf", "jax.scipy.stats.gamma.{}"), _two_positive("logpdf", "jax.scipy.stats.expon.{}"),
    _fft("fft", False), _fft("ifft", False), _fft("fft", True), along("fftshift", call="jnp.fft.{}", keyword="axes"),
    reduction("nanmean", "f"), reduction("nanmax", "f", filled=True),
    reduction("average", "f", min_rank=1, dtype=_floating), along("unwrap", filled=True),
    along("nancumsum"), along("cumulative_sum"),
    Op("jnp.diff", _one("f", _diff, 1)), Op("jnp.quantile", _one("f", _quantile, 1, True)),
    Op("jnp.gradient", _in_one_dimension("jnp.gradient({x})", lambda n: n, 2)),
    # Finite numbers: XLA's algorithm decides whether it multiplies a NaN of the kernel with the zeros of the padding.
    Op("jnp.convolve", _in_one_dimension(f"jnp.convolve({_FINITE}, jnp.sin({_FINITE}))", lambda n: 2 * n - 1)),
    Op("jnp.correlate", _in_one_dimension(f"jnp.correlate({_FINITE}, jnp.sin({_FINITE}), 'same')", lambda n: n)),
    Op("jnp.vander", _in_one_dimension("jnp.vander({x}, 3).sum(1)", lambda n: n)),
    Op("jnp.ediff1d", _in_one_dimension("jnp.ediff1d({x})", lambda n: n - 1)),
    Op("jnp.bincount", _in_one_dimension("jnp.bincount(jnp.argsort({x}), {x}, length=4)", lambda n: 4)),
    Op("jnp.histogram", _in_one_dimension("jnp.histogram({x}, np.array([-1.0, 0.1, 0.6, 2.0]), weights={x})[0]",
                                          lambda n: 3)),
    Op("jnp.digitize", _in_one_dimension("jnp.digitize({x}, np.array([-0.5, 0.4, 1.0]))", lambda n: n, dtype="int64")),
    Op("jnp.polyval", _one("f", lambda w, x: (f"jnp.polyval(np.array([0.5, -1.0, 0.25]), {x[0]})",
                                              Leaf("float64", x[1].shape)))),
    # Finite numbers: the integral of inf is inf; JAX's is NaN.
    Op("jnp.trapezoid", _one("f", lambda w, x: (f"jnp.trapezoid(jnp.tanh({x[0]}), dx=0.5)",
                                                Leaf(x[1].dtype, x[1].shape[:-1])), 1)),
    Op("jnp.rot90", _rank_two(lambda w, x: (f"jnp.rot90({x[0]})", Leaf(x[1].dtype, x[1].shape[::-1])))),
    Op("jnp.append", _one("f", lambda w, x: (f"jnp.append({x[0]}, 0.5)", Leaf(x[1].dtype, (x[1].size + 1,))))),
    Op("jnp.interp", _one("f", _interp)), Op("jnp.select", _one("f", _select)),
    Op("jnp.piecewise", _one("f", _piecewise)), Op("jnp.cross", _one("f", _cross)),
    Op("ops.segment", _one("f", _segments, 1)),
    Op("image.resize", _rank_two(lambda w, x: _resize(w, x) if x[1].size else None)),
    Op("signal.convolve2d", _rank_two(_convolve)), Op("lax.conv", _rank_two(_conv)),
    Op("lax.reduce_window", _rank_two(_window_sum)), Op("lax.associative_scan", _one("f", _scan_of_pairs, 1, True)),
    Op("lax.sort of two", _one("f", _sort_by_key, 1)),
    draw("exponential"), draw("laplace"), draw("logistic"), draw("cauchy"), draw("rademacher", "int64"),
    draw("truncated_normal", arguments="-1.0, 2.0, "), draw("rayleigh", arguments="0.7, "),
]
