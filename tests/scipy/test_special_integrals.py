"""Special functions that are integrals, series or recurrences: against SciPy, their derivatives against differences.

Tolerances are in units of the dtype's epsilon: about ten for the roundings of a sum, times the cancellation of its
terms. SciPy itself has errors of about 1e-13 in places (wofz, dawsn, expi beyond 40), which sets the tolerance in
double precision.
"""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax.scipy import special

oracle = pytest.importorskip("scipy.special")


def grid(*ends: float, count: int = 40) -> np.ndarray:
    """Numbers from ends[0] to ends[1], evenly spaced in their logarithm; of both signs if there is a third end."""
    x = np.geomspace(*ends[:2], count)
    return np.concatenate([-x[::-1], [0], x]) if ends[2:] else x


def mesh(*axes):
    return [x.ravel() for x in np.meshgrid(*axes)]


def plane(count: int) -> list[np.ndarray]:
    x, y = mesh(grid(1e-3, 30, 2, count=count), grid(1e-3, 30, count=count))
    return [x + 1j * y]


def parameters(count: int, *ends: tuple[float, float]) -> list[np.ndarray]:
    """Random numbers, half of them whole."""
    rng = np.random.default_rng(0)
    xs = [rng.uniform(*end, count) for end in ends]
    return [*[np.where(np.arange(count) % 2, x, np.ceil(x)) for x in xs[:-1]], xs[-1]]


def whole(x):
    """An order for SciPy, which takes integers."""
    return np.asarray(x).astype(int)


# name: (function, SciPy's, arguments for a count, relative tolerance, absolute tolerance); tolerances in epsilons.
VALUES = {
    "dawsn": (special.dawsn, oracle.dawsn, lambda n: [grid(1e-6, 1e10, 2, count=n)], 100, 0),
    "wofz": (special.wofz, oracle.wofz, plane, 500, 20),
    "wofz below": (special.wofz, oracle.wofz, lambda n: [np.conj(plane(n)[0] / 30)], 100, 20),
    "erfcx": (special.erfcx, oracle.erfcx, lambda n: [grid(1e-3, 5, count=n) * (1 + 2j)], 500, 20),
    # The complex error function gives the difference from 1/2.
    "fresnel": (special.fresnel, oracle.fresnel, lambda n: [grid(1e-3, 1e3, 2, count=n)], 20, 20),
    "expi": (special.expi, oracle.expi, lambda n: [grid(1e-6, 80, 2, count=n)], 300, 10),
    "exp1": (special.exp1, oracle.exp1, lambda n: [grid(1e-6, 80, count=n)], 40, 0),
    "expn": (special.expn, lambda n, x: oracle.expn(whole(n), x),
             lambda n: mesh(np.array([0, 1, 2, 3, 8, 20, 21, 50, 6000.0]), grid(1e-6, 80, count=n)), 60, 0),
    "sici": (special.sici, oracle.sici, lambda n: [grid(1e-6, 1e4, count=n)], 20, 20),
    # XLA's log1p loses 7 bits around -0.41.
    "spence": (special.spence, oracle.spence, lambda n: [grid(1e-6, 1e6, count=n)], 300, 0),
    "owens_t": (special.owens_t, oracle.owens_t, lambda n: mesh(grid(1e-2, 12, count=n), grid(1e-2, 1e3, 2, count=n)),
                400, 0),
    # Sums whose terms are up to ten (1F1) and a hundred (2F1) times as large as the result.
    "hyp1f1": (special.hyp1f1, oracle.hyp1f1, lambda n: parameters(n * n, (0.2, 6), (0.2, 6), (-80, 80)), 1e4, 100),
    "hyp2f1": (special.hyp2f1, oracle.hyp2f1, lambda n: parameters(n * n, (-3, 4), (-3, 4), (0.2, 6), (0.01, 0.999)),
               2e4, 2e3),
    # SciPy loses 5 digits if a - b is close to a whole number.
    "hyp2f1 below": (special.hyp2f1, oracle.hyp2f1, lambda n: parameters(n * n, (-3, 4), (-3, 4), (0.2, 6), (-9, 0)),
                     2e5, 2e3),
    "gamma": (special.gamma, oracle.gamma, lambda n: [0.2 * plane(n)[0] - 0.4], 300, 0),
    "loggamma": (special.loggamma, oracle.loggamma, plane, 100, 100),
    "bessel_jn": (lambda z: special.bessel_jn(z, v=5, n_iter=70),
                  lambda z: np.stack([oracle.jv(k, z) for k in range(6)]),
                  lambda n: [grid(1e-5, 30, 2, count=n)], 0, 40),
    "sph_harm_y": (lambda n, m, t, p: special.sph_harm_y(n, m, t, p, n_max=9),
                   lambda n, m, t, p: oracle.sph_harm_y(whole(n), whole(m), t, p),
                   lambda n: mesh(np.arange(10), np.arange(-3, 4), np.linspace(0, np.pi, n // 4), [0.3, 4.0]), 0, 100),
}
UNDEFINED = {"sph_harm_y": lambda n, m, t, p: np.abs(m) > n}


def check_values(names, count, dtype):
    kinds = {"float32": np.complex64, "float64": np.complex128}
    args = {}
    for name in names:
        args[name] = [x.astype(kinds[dtype] if x.dtype.kind == "c" else x.dtype if x.dtype.kind == "i" else dtype)
                      for x in VALUES[name][2](count)]
    with xjax.enable_x64(dtype == "float64"):
        result = {name: xjax.jit(VALUES[name][0])(*xs) for name, xs in args.items()}
    info = np.finfo(dtype)
    for name, xs in args.items():
        wide = [x.astype(complex if x.dtype.kind == "c" else int if x.dtype.kind == "i" else float) for x in xs]
        with np.errstate(all="ignore"):
            wants = VALUES[name][1](*wide)
        results = result[name] if isinstance(result[name], tuple) else (result[name],)
        for got, want in zip(map(np.asarray, results), wants if isinstance(wants, tuple) else (wants,), strict=True):
            size = np.abs(want)
            inside = (size == 0) | (size > 100 * info.tiny) & (size < info.max / 100)
            if name in UNDEFINED:
                inside &= ~UNDEFINED[name](*xs)
            assert inside.mean() > 0.5 and got.dtype in (dtype, kinds[dtype])
            rtol, atol = VALUES[name][3:]
            np.testing.assert_allclose(got[inside], want[inside], rtol=rtol * info.eps, atol=atol * info.eps,
                                       err_msg=name)


def test_values():
    check_values(VALUES, 12, "float64")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", VALUES)
def test_values_on_wide_grids(name, dtype):
    check_values([name], 60, dtype)


# function of real numbers: points. First derivatives in every argument.
SLOPES = [
    (special.dawsn, [[-0.3], [2.0]]), (lambda x: jnp.imag(special.wofz(x + 0.5j)), [[0.3], [-1.0]]),
    (lambda x: special.fresnel(x)[0], [[0.7], [-2.0]]), (lambda x: special.fresnel(x)[1], [[0.7], [2.0]]),
    (special.expi, [[-0.5], [0.7], [50.0]]),
    (special.exp1, [[0.5], [3.0]]), (lambda x: special.expn(3, x), [[0.5], [3.0]]),
    (lambda x: special.sici(x)[0], [[-0.5], [5.0]]), (lambda x: special.sici(x)[1], [[0.5], [5.0]]),
    (special.spence, [[0.2], [0.9], [1.0], [7.0]]), (special.owens_t, [[0.5, 0.7], [1.0, -2.0]]),
    (lambda x: jnp.real(special.loggamma(x + 0.3j)), [[-1.6], [2.0]]),
    (special.zeta, [[2.3, 1.7], [9.0, 0.4]]),
    (lambda z: special.bessel_jn(z, v=1)[1], [[0.0], [3.0]]),
    # Second derivatives.
    (xjax.grad(lambda x: special.expn(2, x)), [[1.7]]), (xjax.grad(special.spence), [[1.7]]),
    (lambda t, p: jnp.real(special.sph_harm_y(3, -2, t, p, n_max=3)), [[0.4, 0.9], [0.0, 0.9]]),
]
# The same for functions that take long to compile.
HEAVY = [
    (special.hyp1f1, [[1.3, 2.4, 3.5], [0.0, 2.4, 3.5], [1.3, 2.4, -3.5]]),
    (special.hyp2f1, [[1.3, 2.4, 3.5, 0.4], [1.3, -0.4, 3.5, 0.97], [1.3, -2.0, 3.5, -4.0]]),
    (xjax.grad(lambda x: special.hyp2f1(1.0, 1.0, 2.0, x)), [[0.3]]), (xjax.grad(special.zeta), [[2.3, 1.7]]),
]


@pytest.mark.parametrize("table", [SLOPES, pytest.param(HEAVY, marks=pytest.mark.slow)], ids=["fast", "heavy"])
def test_derivatives(table):
    """Reverse mode against central differences with errors of about 1e-9. (One program of all takes longer.)"""
    step = 1e-5
    for f, points in table:
        def program(points, f=f):
            numbers = range(points.shape[1])
            exact = jnp.stack(xjax.vmap(xjax.grad(f, tuple(numbers)))(*points.T))
            near = [points + sign * step * np.eye(len(numbers))[i] for i in numbers for sign in (1, -1)]
            values = xjax.vmap(f)(*jnp.concatenate(near).T).reshape(len(numbers), 2, len(points))
            return exact, (values[:, 0] - values[:, 1]) / (2 * step)

        with xjax.enable_x64(True):
            exact, differences = xjax.jit(program)(np.array(points))
            np.testing.assert_allclose(exact, differences, rtol=2e-7, atol=2e-9, err_msg=str(f))


EDGES = {
    "dawsn": ([0.0, -0.0, np.inf, -np.inf, np.nan],), "fresnel": ([0.0, np.inf, -np.inf, np.nan],),
    "expi": ([0, np.inf, -np.inf, np.nan],), "exp1": ([0, np.inf, -1, np.nan],),
    "sici": ([0, np.inf, -np.inf, np.nan],),
    "expn": ([0, 1, 2, 5, 2, 2], [0, 0, 0, 0, -1, np.inf]), "spence": ([0, 1, -1, np.nan],),
    "owens_t": ([0, 0, 2, np.inf, np.nan, 1, -1], [0, np.inf, -np.inf, 1, 1, np.nan, 2]),
    "hyp1f1": ([0, 1, 2, -2], [2, 0, 2, 3], [1, 1, 1, 4]),
    "hyp2f1": ([1, 2, 2, -2, 1, 1, 0, 1, 1], [1, 3, 3, 3, 1, 1, 2, 1, 2], [2, 5, 6, 2, 2, 0, 3, 3, 2],
               [0, 1, 1, 2, 2, 0.5, 0.5, np.nan, -3]),
}


def test_edges_are_those_of_scipy():
    args = {name: [np.array(x, np.float32) for x in xs] for name, xs in EDGES.items()}
    result = {name: xjax.jit(getattr(special, name))(*xs) for name, xs in args.items()}
    for name, xs in args.items():
        with np.errstate(all="ignore"):
            want = oracle.expn(whole(xs[0]), xs[1]) if name == "expn" else getattr(oracle, name)(*xs)
        np.testing.assert_allclose(np.stack(result[name]), np.stack(want), rtol=1e-5, err_msg=name)


def test_dtypes_and_shapes():
    assert special.dawsn(jnp.float16(1)).dtype == jnp.float16 and special.wofz(jnp.float32(1)).dtype == jnp.complex64
    assert special.expn(np.int32(2), 1).dtype == jnp.float32
    assert special.hyp1f1(np.ones(3), np.ones((2, 1)), 0.5).shape == (2, 3)
    assert special.bessel_jn(np.ones((2, 3)), v=4).shape == (5, 2, 3)
    np.testing.assert_allclose(xjax.vmap(special.expn, (0, None))(np.array([1, 2]), 2.0), oracle.expn([1, 2], 2.0),
                               rtol=1e-6)
    cut = special.sph_harm_y(np.array([10]), np.array([2]), 0.3, 0.4, n_max=6)
    np.testing.assert_allclose(cut, oracle.sph_harm_y([6], [2], 0.3, 0.4), rtol=1e-5)


REFUSED = {
    "complex": (lambda: special.dawsn(1j), ValueError), "complex sici": (lambda: special.sici(1j), ValueError),
    "half": (lambda: special.spence(jnp.float16(1)), TypeError),
    "slope in n": (lambda: xjax.grad(special.expn)(2.0, 0.5), ValueError),
    "float order": (lambda: special.bessel_jn(1.0, v=1.5), TypeError),
    "low start": (lambda: special.bessel_jn(1.0, v=5, n_iter=3), ValueError),
    "diff_n": (lambda: special.sph_harm_y(1, 1, 0.1, 0.1, diff_n=1), NotImplementedError),
    "traced degree": (lambda: xjax.jit(special.sph_harm_y)(1, 1, 0.1, 0.1), TypeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, exc = REFUSED[name]
    with pytest.raises(exc, match="fix:"):
        call()
