"""The two forms of sparse products: equal numbers, derivatives and transforms; the form chosen for a matrix."""

import functools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import tree_util
from xnn import CSR
from xnn.graph.structure.adjacency import as_edges
from xnn.precision import cast_floats
from xnn.sparse import rows as sparse_rows
from xnn.sparse.product import best_form

sp = pytest.importorskip("scipy.sparse")
FORMS = ["unrolled", "segments"]


@pytest.fixture
def narrow(monkeypatch):
    """Blocks of at most 4 columns in place of 16: programs with a third of the terms and the same branches."""
    monkeypatch.setattr(sparse_rows, "WIDTHS", (1, 2, 4))


def power_law(n, m, seed=0):
    """Rows of 0 to m values: a few longer than the widest block, and one longer than a narrow block of its chunks."""
    npr = np.random.default_rng(seed)
    lengths = np.minimum((npr.pareto(0.6, n) * 2).astype(int), m)
    lengths[:2] = 0, m
    rows = np.repeat(np.arange(n), lengths)
    cols = np.concatenate([npr.choice(m, k, replace=False) for k in lengths])
    return sp.csr_matrix((npr.normal(size=len(rows)), (rows, cols)), (n, m))


MATRICES = {
    "square": sp.random(40, 40, 0.1, random_state=0, format="csr"),
    "power law": power_law(30, 40),
    "wide": sp.random(7, 90, 0.2, random_state=1, format="csr"),
    "tall": sp.random(90, 7, 0.3, random_state=2, format="csr"),
    "one long row": sp.csr_matrix(np.ones((1, 40))),
    "no values": sp.csr_matrix((4, 3)),
    "no rows": sp.csr_matrix((0, 3)),
}


def operand(matrix, columns, dtype=np.float64):
    return np.random.default_rng(3).normal(size=(matrix.shape[1], columns)).astype(dtype)


def products(name, form=None):
    """The matrix, and its product as a function of (values, x): with CSR, with known values, dense."""
    csr = CSR.from_scipy(MATRICES[name]).tune(form=form)
    dense = lambda values, x: jnp.zeros(csr.shape).at[csr.rows, csr.indices].add(values) @ x
    return csr, {"csr": lambda values, x: csr.with_data(values) @ x, "known": lambda values, x: csr @ x, "dense": dense}


def arguments(name, csr):
    """((values, x), tangents of both)."""
    x = operand(MATRICES[name], 3)
    return (csr.data, x), (np.cos(csr.data), x[::-1])


def total(product, values, x):
    return jnp.sum(jnp.sin(product(values, x)))


def outcomes(product, at, along, by):
    """Value and derivatives of a product, with respect to the arguments numbered in `by`, as one program."""
    def compute(at, along):
        only = lambda *args: product(*[args[by.index(i)] if i in by else at[i] for i in range(2)])
        squares = lambda *at: sum(jnp.sum(g**2) for g in xjax.grad(functools.partial(total, product), by)(*at))
        return {"gradient": xjax.grad(functools.partial(total, product), by)(*at),
                "again": xjax.grad(squares, by)(*at),
                "forward": xjax.jvp(only, tuple(at[i] for i in by), tuple(along[i] for i in by))}
    return xjax.jit(compute)(at, along)


@functools.cache
def dense_outcomes(name, by):
    csr, made = products(name, "segments")
    return outcomes(made["dense"], *arguments(name, csr), by)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("square", "wide", "tall")))
                                  for name in MATRICES])
def test_products_and_all_derivatives_are_those_of_the_dense_matrix(name, form):
    with xjax.enable_x64(True):
        csr, made = products(name, form)
        at, along = arguments(name, csr)
        for way, by in (("csr", (0, 1)), ("known", (1,))):
            want = dense_outcomes(name, by)
            # Sums of about 100 terms, of size 1000.
            assert_close(outcomes(made[way], at, along, by), want, tol=4, what=way)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("form", FORMS)
def test_products_one_by_one_are_those_of_the_dense_matrix(form):
    with xjax.enable_x64(True):
        csr, made = products("power law", form)
        at, along = arguments("power law", csr)
        for way, by in (("csr", (0, 1)), ("known", (1,))):
            want = dense_outcomes("power law", by)
            assert_close(made[way](*at), want["forward"][0], tol=4, what=way)
            assert_close(xjax.grad(functools.partial(total, made[way]), by)(*at), want["gradient"], tol=4, what=way)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("form", FORMS)
def test_maps_over_operands_over_values_and_over_matrices(form):
    csr = CSR.from_scipy(MATRICES["power law"]).tune(form=form)
    x = operand(csr, 2, np.float32)
    xs, values = np.stack([x, 2 * x]), np.stack([csr.data, np.square(csr.data)])
    both = tree_util.tree_map(lambda a: np.stack([a, a]), csr)
    slope = xjax.grad(lambda v: jnp.sum(jnp.sin(csr.with_data(v) @ x)))

    @xjax.jit
    def mapped(xs, values, both):
        return (xjax.vmap(lambda x: csr @ x)(xs), xjax.vmap(lambda v: csr.with_data(v) @ x)(values),
                xjax.vmap(lambda csr: csr @ x)(both), xjax.vmap(slope)(values)[1])

    @xjax.jit
    def each(xs, values):
        return ([csr @ x for x in xs], [csr.with_data(v) @ x for v in values], [csr @ x] * 2, slope(values[1]))

    *got, slopes = mapped(xs, values, both)
    *want, slopes_of_each = each(list(xs), list(values))
    for of_map, of_each in zip(got, want, strict=True):
        np.testing.assert_allclose(of_map, np.stack(of_each), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(slopes, slopes_of_each, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [
    pytest.param("float32", marks=pytest.mark.slow), "bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_dtypes(form, dtype):
    matrix = MATRICES["power law"]
    csr, x = CSR.from_scipy(matrix).tune(form=form).astype(dtype), operand(matrix, 4).astype(jnp.dtype(dtype))
    ones = np.ones((matrix.shape[0], 2), x.dtype)
    y, part, transposed = xjax.jit(lambda csr, x: (csr @ x, csr @ x[:, :3], csr.T @ ones))(csr, x)
    assert y.dtype == jnp.dtype(dtype) and csr.dtype == jnp.dtype(dtype)
    exact = matrix @ operand(matrix, 4)
    # One rounding of each factor and of the result; sums are in float32 at least.
    scale = np.abs(matrix) @ np.abs(operand(matrix, 4)) + 1e-30
    assert np.max(np.abs(np.asarray(y, np.float64) - exact) / scale) < 2 * float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(part, np.asarray(y)[:, :3], rtol=4 * float(jnp.finfo(dtype).eps), atol=1e-6)
    assert transposed.dtype == jnp.dtype(dtype)


@pytest.mark.parametrize("columns", [0, 3, 4])
def test_bfloat16_holds_nan_infinity_and_the_nearest_number(columns):
    csr = CSR.from_dense(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]], np.float32)).tune(form="unrolled")
    x = np.array([[np.inf, np.nan, 3e38, -1], [1, 2, 3e38, 2.0**-8], [-np.inf, 0, 1, 257]])[:, :columns]
    x = jnp.asarray(x, jnp.bfloat16)
    want = (csr @ x.astype(np.float32)).astype(x.dtype).astype(np.float32)
    for got in (csr.astype(x.dtype) @ x, as_edges(csr, x, "test").neighbour_sum(x)):
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got.astype(np.float32), want)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("reduce", one_in(2, ["max", "mean", "min"]))
def test_other_reductions(reduce):
    matrix = MATRICES["power law"]
    csr, x = CSR.from_scipy(matrix.astype(np.float32)), operand(matrix, 3, np.float32)
    terms = [[v * x[j] for j, v in zip(row.indices, row.data, strict=True)] for row in matrix]
    want = np.array([getattr(np, reduce)(row, axis=0) if row else np.zeros(3) for row in terms])

    @xjax.jit
    def computed(csr, x):
        return (csr.product(x, reduce), csr.product(x[:, 0], reduce),
                xjax.grad(lambda x: jnp.sum(jnp.sin(csr.product(x, reduce))))(x),
                xjax.grad(lambda x: jnp.sum(jnp.sin(csr.with_data(csr.data * x[0, 0]).softmax() @ x)))(x))

    both = [computed(csr.tune(form=form), x) for form in FORMS]
    for product, column, *_ in both:
        np.testing.assert_allclose(product, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(column, want[:, 0], rtol=1e-4, atol=1e-5)
    for one, two in zip(*(gradients for _, _, *gradients in both), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="unknown reduction"):
        csr.product(x, "median")


def rounded(seed, dtype=np.float64):
    """[40, 3] with many equal numbers."""
    return np.random.default_rng(seed).normal(size=(40, 3)).round().astype(dtype)


def edges_by_form(dtype=np.float64):
    """The edges of a graph whose first node has no neighbour and whose second has all: unrolled, in segments."""
    csr = CSR.from_scipy(power_law(40, 40)).astype(dtype)
    return [as_edges(csr.tune(form=form), np.empty(40), "test") for form in FORMS]


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("dtype", one_in(3, ["float32", "bfloat16", "int32"]))
def test_the_largest_neighbour(dtype):
    with xjax.enable_x64(True):
        x = (rounded(0) * 10).astype(jnp.dtype(dtype))

        @xjax.jit
        def computed(edges):
            masked = edges.replace(mask=np.arange(len(edges)) % 3 > 0)
            return (edges.neighbour_max(x), edges.neighbour_max(x[:, 0]), xjax.vmap(edges.neighbour_max, 1, 1)(x),
                    masked.neighbour_max(x))

        one, other = (list(map(np.asarray, computed(edges))) for edges in edges_by_form())
        for got, column, mapped, _ in (one, other):
            assert got.dtype == x.dtype and not np.any(got[0])
            np.testing.assert_array_equal(got[1], np.max(x, 0))
            np.testing.assert_array_equal(column, got[:, 0])
            np.testing.assert_array_equal(mapped, got)
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[3], other[3])
        np.testing.assert_array_equal(edges_by_form()[0].neighbour_max(jnp.asarray(x)), one[0])


@pytest.mark.usefixtures("narrow")
def test_equal_neighbours_share_the_gradient():
    """Infinite and NaN neighbours have no gradient."""
    with xjax.enable_x64(True):
        x, dx = rounded(0), rounded(1)
        x[[3, 16, 24]] = np.array([[np.inf], [-np.inf], [np.nan]])

        def outcomes(edges):
            f = lambda x: jnp.nan_to_num(edges.neighbour_max(x), nan=2.0, posinf=3.0, neginf=4.0)
            slope = lambda x: jnp.sum(xjax.grad(lambda x: jnp.sum(jnp.sin(f(x) * x[:, :1])))(x) * dx)
            finite = np.where(np.isfinite(x), x, 1)
            return {"forward": xjax.jvp(f, (x,), (dx,)), "gradient": xjax.vjp(f, x)[1](dx),
                    "mapped": xjax.vmap(lambda ct: xjax.vjp(f, x)[1](ct))(jnp.stack([dx, 2 * dx])),
                    "again": xjax.grad(slope)(finite), "forward over reverse": xjax.jvp(slope, (finite,), (dx,))}

        got, want = (xjax.jit(lambda edges: outcomes(edges))(edges) for edges in edges_by_form())
        assert_close(got, want)
        assert np.isfinite(got["gradient"]).all() and np.any(got["gradient"])


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("form", FORMS)
def test_softmax_by_rows(form):
    csr = CSR.from_scipy(MATRICES["square"].astype(np.float32)).tune(form=form)
    dense = MATRICES["square"].toarray().astype(np.float32)
    dense = np.where(dense == 0, -np.inf, dense)
    with np.errstate(invalid="ignore"):
        want = np.exp(dense) / np.exp(dense).sum(1, keepdims=True)
    np.testing.assert_allclose(xjax.jit(lambda csr: csr.softmax().todense())(csr), np.nan_to_num(want), rtol=1e-5)


def test_a_tuned_matrix_is_the_same_matrix():
    matrix = MATRICES["power law"].astype(np.float32)
    csr = CSR.from_scipy(matrix)
    tuned = csr.tune(form="unrolled")
    assert tuned.form == "unrolled" and csr.form == tuned.tune(form="segments").form == "segments"
    np.testing.assert_array_equal(tuned.todense(), matrix.todense())
    np.testing.assert_allclose(tuned.T.todense(), matrix.T.todense())
    y, x = operand(matrix, 3, np.float32), operand(matrix.T, 3, np.float32)
    np.testing.assert_allclose(tuned.T @ x, matrix.T @ x, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(xjax.jit(lambda csr: csr @ y)(tuned), matrix @ y, rtol=1e-4, atol=1e-5)
    # The copy of the values that an unrolled product reads follows every change of them.
    doubled = 2 * csr.data
    for changed in (tuned.with_data(doubled), tuned.with_data(doubled).tune(form="unrolled"),
                    tuned.with_data(doubled).astype(np.float32)):
        np.testing.assert_allclose(changed @ y, 2 * (matrix @ y), rtol=1e-4, atol=1e-4)
    for changed in (cast_floats(tuned, jnp.bfloat16), tree_util.tree_map(
            lambda leaf: -leaf if leaf.dtype == np.float32 else leaf, tuned)):
        np.testing.assert_allclose(np.asarray(changed @ y.astype(changed.dtype), np.float32),
                                   np.asarray(changed.todense(), np.float32) @ y, rtol=0.1, atol=0.3)
    np.testing.assert_allclose(tuned.astype(jnp.bfloat16).astype(np.float32) @ y,
                               tuned.astype(jnp.bfloat16).astype(np.float32).todense() @ y, rtol=1e-4, atol=1e-4)


def test_the_form_is_a_function_of_structure_and_of_the_work_ahead():
    small, large = CSR.from_scipy(MATRICES["square"]), CSR.from_scipy(sp.random(1000, 1000, 0.08, format="csr"))
    assert small.form == "segments" and large.form == "unrolled"
    assert large.tune(columns=1, steps=1).form == "segments"
    assert small.tune(columns=128, steps=10**6).form == "unrolled"
    assert best_form(10**6, 16, 1000) == "unrolled" and best_form(10**6, 16, 1) == "segments"
    assert_refused(lambda: small.tune(form="rows"), ValueError, ["unknown form", "'unrolled'"])
    with pytest.raises(TypeError, match="must be concrete"):
        xjax.jit(lambda csr: csr.tune(form="unrolled") @ jnp.ones(40))(small)


@pytest.mark.usefixtures("narrow")
def test_an_unrolled_matrix_with_traced_values():
    csr = CSR.from_scipy(MATRICES["square"])
    x = operand(csr, 2, np.float32)

    @xjax.jit
    def f(values):
        made = CSR.from_edges(np.asarray(csr.rows), np.asarray(csr.indices), values, shape=csr.shape)
        return made.tune(form="unrolled") @ x

    np.testing.assert_allclose(f(csr.data), csr @ x, rtol=1e-5, atol=1e-5)


def test_a_row_that_meets_nan_does_not_touch_the_others():
    csr = CSR.from_scipy(MATRICES["power law"].astype(np.float32)).tune(form="unrolled")
    x = operand(csr, 2, np.float32)
    x[5] = np.nan
    np.testing.assert_array_equal(np.isnan(csr @ x)[:, 0], np.isnan(MATRICES["power law"].toarray() @ x)[:, 0] &
                                  (np.abs(MATRICES["power law"].toarray())[:, 5] > 0))
