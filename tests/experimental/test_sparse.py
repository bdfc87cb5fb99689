"""Sparse arrays: each operation gives JAX's dense value, under every layout and transformation."""

from __future__ import annotations

import importlib
import pickle

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from tests.sampling import one_in
from xjax.experimental import sparse
from xjax.experimental.sparse import BCOO, SparseEfficiencyWarning, sparsify

jax = real_jax("experimental.sparse")
rng = np.random.default_rng(0)
M = np.where(rng.random((4, 5)) < 0.4, rng.normal(size=(4, 5)), 0).astype(np.float32)
N = np.where(rng.random((4, 5)) < 0.4, rng.normal(size=(4, 5)), 0).astype(np.float32)
CUBE = np.where(rng.random((3, 4, 5)) < 0.3, rng.normal(size=(3, 4, 5)), 0).astype(np.float32)
X = rng.normal(size=(5, 3)).astype(np.float32)
V = rng.normal(size=5).astype(np.float32)


def module(lib):
    return importlib.import_module(f"{lib.__name__}.experimental.sparse")


def dense(lib, x):
    """A result with its sparse arrays made dense, as NumPy arrays."""
    kind = module(lib).BCOO
    return lib.tree.map(lambda y: np.asarray(y.todense() if isinstance(y, kind) else y), x,
                        is_leaf=lambda y: isinstance(y, kind))


def compare(call, *arrays, kinds=True, tol=1e-5):
    """`call(lib, module, m, ...)` gives equal dense values, and sparse results where JAX has them."""
    def run(lib):
        m = module(lib)
        out = call(lib, m, *[m.BCOO.fromdense(lib.numpy.asarray(x)) for x in arrays])
        return out, dense(lib, out)

    (ours, a), (theirs, b) = run(xjax), run(jax)
    for x, y in zip(xjax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=tol, atol=tol)
    if kinds:
        def names(lib, out):
            return [type(y).__name__ for y in lib.tree.leaves(
                out, is_leaf=lambda y: isinstance(y, module(lib).BCOO)) if isinstance(y, module(lib).BCOO)]
        assert names(xjax, ours) == names(jax, theirs)


OPERATIONS = {
    "todense": lambda lib, s, m: m.todense(), "T": lambda lib, s, m: m.T, "transpose": lambda lib, s, m: m.transpose(),
    "transpose-axes": lambda lib, s, m: m.transpose((0, 1)), "matvec": lambda lib, s, m: m @ V,
    "matmat": lambda lib, s, m: m @ X, "matmat-of-batches": lambda lib, s, m: m @ np.stack([X, 2 * X]),
    "vecmat": lambda lib, s, m: lib.numpy.ones(4) @ m, "rmatmul": lambda lib, s, m: lib.numpy.asarray(X.T) @ m.T,
    "sparse-sparse": lambda lib, s, m: m.T @ m, "sparse-vector": lambda lib, s, m: m @ m[0],
    "scaled": lambda lib, s, m: 2 * m * 3, "divided": lambda lib, s, m: m / 2, "times-dense": lambda lib, s, m: m * N,
    "dense-times": lambda lib, s, m: lib.numpy.asarray(N) * m, "times-row": lambda lib, s, m: m * N[0],
    "times-column": lambda lib, s, m: m * N[:, :1], "times-itself": lambda lib, s, m: m * m,
    "negative": lambda lib, s, m: -m, "positive": lambda lib, s, m: +m, "abs": lambda lib, s, m: abs(m),
    "sum": lambda lib, s, m: m.sum(), "sum-0": lambda lib, s, m: m.sum(0), "sum-1": lambda lib, s, m: m.sum(1),
    "sum-keepdims": lambda lib, s, m: m.sum(axis=-1, keepdims=True), "plus": lambda lib, s, m: m + m.T.T,
    "plus-dense": lambda lib, s, m: m + N, "minus": lambda lib, s, m: m - 2 * m, "power": lambda lib, s, m: m ** 2,
    "row": lambda lib, s, m: m[1], "last-row": lambda lib, s, m: m[-1], "element": lambda lib, s, m: m[1, 2],
    "column": lambda lib, s, m: m[:, 2], "rows": lambda lib, s, m: m[1:3], "new-axis": lambda lib, s, m: m[..., None],
    "reversed": lambda lib, s, m: s.bcoo_rev(m, dimensions=(0,)), "iter": lambda lib, s, m: list(m),
    "reshape": lambda lib, s, m: m.reshape(2, 10), "reshape-flat": lambda lib, s, m: m.reshape(-1),
    "astype": lambda lib, s, m: m.astype("int32"), "sorted": lambda lib, s, m: m.T.sort_indices(),
    "duplicates": lambda lib, s, m: (m + m).sum_duplicates(), "slice": lambda lib, s, m: s.bcoo_slice(
        m, start_indices=(1, 0), limit_indices=(4, 4), strides=(2, 1)),
    "dynamic slice": lambda lib, s, m: s.bcoo_dynamic_slice(m, (lib.numpy.asarray(2), lib.numpy.asarray(9)), (2, 3)),
    "squeeze": lambda lib, s, m: s.bcoo_squeeze(m[:1], dimensions=(0,)),
    "broadcast": lambda lib, s, m: s.bcoo_broadcast_in_dim(m, shape=(2, 4, 1, 5), broadcast_dimensions=(1, 3)),
    "concatenate": lambda lib, s, m: s.bcoo_concatenate([m, 2 * m], dimension=1),
    "reduce": lambda lib, s, m: s.bcoo_reduce_sum(m, axes=(1,)), "todense-of": lambda lib, s, m: s.todense(m),
    "multiply-dense": lambda lib, s, m: s.bcoo_multiply_dense(m, lib.numpy.asarray(N)),
    "multiply-sparse": lambda lib, s, m: s.bcoo_multiply_sparse(m, s.BCOO.fromdense(lib.numpy.asarray(N))),
    "dot general outer": lambda lib, s, m: s.bcoo_dot_general(m, lib.numpy.asarray(V),
                                                              dimension_numbers=(([], []), ([], []))),
    "eye": lambda lib, s, m: [s.eye(4), s.eye(3, 5), s.eye(3, 4, k=-1, dtype="int32"), s.eye(2, 2, k=5)],
    "empty": lambda lib, s, m: [s.empty((3, 2)), s.empty((3, 2), "int32")],
    "block": lambda lib, s, m: m.block_until_ready(), "sum of rows": lambda lib, s, m: m.sum(0) @ V,
    "chain": lambda lib, s, m: (m @ X).T @ (m + m).todense(),
}


@pytest.mark.parametrize("name", one_in(2, OPERATIONS))
def test_operations(name):
    compare(OPERATIONS[name], M)


FUNCTIONS = {
    "einsum": lambda np_: lambda m: np_.einsum("ij,jk->ik", m, X), "sin": lambda np_: lambda m: np_.sin(m),
    "tanh of duplicates": lambda np_: lambda m: np_.tanh(m + m), "sqrt": lambda np_: lambda m: np_.sqrt(np_.abs(m)),
    "sign": lambda np_: lambda m: np_.sign(m), "tensordot": lambda np_: lambda m: np_.tensordot(m, X, 1),
    "dot": lambda np_: lambda m: np_.dot(m, V), "transpose": lambda np_: lambda m: np_.transpose(m) @ m,
    "concatenate": lambda np_: lambda m: np_.concatenate([m, m]), "stack": lambda np_: lambda m: np_.vstack([m, -m]),
    "ravel": lambda np_: lambda m: np_.ravel(m), "squeeze": lambda np_: lambda m: np_.squeeze(m[:, None]),
    "expand": lambda np_: lambda m: np_.expand_dims(m, 1), "swap": lambda np_: lambda m: np_.swapaxes(m, 0, 1),
    "residual": lambda np_: lambda m: ((m @ V - 1) ** 2).sum(),
    "tree": lambda np_: lambda m: {"a": m * 2, "b": (m.sum(), np_.ones(3))},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_under_sparsify(name):
    compare(lambda lib, s, m: s.sparsify(FUNCTIONS[name](lib.numpy))(m), M)
    compare(lambda lib, s, m: lib.jit(s.sparsify(lib.jit(FUNCTIONS[name](lib.numpy))))(m) if name != "tree"
            else s.sparsify(FUNCTIONS[name](lib.numpy))(m), M, kinds="duplicates" not in name)


EINSUMS = ["uvw,ijk,ui,vj->wk", "uv,ijk,ui,vj->uk", "ijk,ui,vj->uk", "uv,ijk,ui,vj->vk", "uw,ijk,ui,uj->wk",
           "ijk,ui,uj->k", "u,ijk,ui,uj->uk", "ijk,ui,uj->uk", "ijk,ui,vj->uvk", "w,ijk,wij->wk", "ijk,wij->wk"]
SIZES = dict(zip("ijkuvwq", (3, 4, 5, 2, 2, 2, 3), strict=True))


@pytest.mark.parametrize("subscripts", one_in(3, EINSUMS))
def test_einsums_of_tensor_products(subscripts):
    """Products of equivariant networks: a sparse tensor [i, j, k], weights and features, mapped and differentiated."""
    operands = subscripts.partition("->")[0].split(",")
    given = [CUBE if o == "ijk" else rng.normal(size=[SIZES[c] for c in o]).astype(np.float32) for o in operands]
    k = operands.index("ijk")

    def products(lib, s, m):
        def f(*xs):
            full = [*xs[:k], m, *xs[k:]]
            return s.sparsify(lambda *a: lib.numpy.einsum(subscripts, *a))(*full)

        xs = [lib.numpy.asarray(x) for i, x in enumerate(given) if i != k]
        mapped = lib.vmap(f, in_axes=(0, *[None] * (len(xs) - 1)))(lib.numpy.stack([xs[0], 2 * xs[0]]), *xs[1:])
        slopes = lib.grad(lambda *xs: (f(*xs) ** 2).sum(), argnums=tuple(range(len(xs))))(*xs)
        return f(*xs), lib.jit(f)(*xs), mapped, slopes

    compare(products, CUBE, tol=1e-4)


def test_a_sparse_precision_matrix():
    """The quadratic form of a conditional autoregressive model, whose adjacency is a matrix of SciPy."""
    scipy_sparse = pytest.importorskip("scipy.sparse")
    adjacency = scipy_sparse.csr_matrix((np.abs(M @ M.T) > 0.5).astype(np.float32) * (1 - np.eye(4, dtype=np.float32)))

    def model(lib, s):
        a = s.BCOO.from_scipy_sparse(adjacency)

        def logquad(phi, rho):
            return (phi * (phi - rho * (a @ phi[..., None]).squeeze(-1))).sum(-1)

        phi = lib.numpy.asarray(np.stack([V[:4], 2 * V[:4]]))
        return (a, logquad(phi, 0.5), lib.jit(logquad)(phi, 0.5), lib.vmap(logquad, (0, None))(phi, 0.5),
                lib.grad(lambda p, r: logquad(p, r).sum(), argnums=(0, 1))(phi, 0.5))

    compare(lambda lib, s, m: model(lib, s), M)


LAYOUTS = [{"n_batch": 1}, {"n_dense": 1}, {"n_batch": 1, "n_dense": 1}, {"n_batch": 3}, {"n_dense": 3}, {"n_batch": 2}]


@pytest.mark.parametrize("layout", one_in(3, LAYOUTS, str))
def test_batch_and_dense_dimensions(layout):
    def calls(lib, s, m):
        a = s.BCOO.fromdense(lib.numpy.asarray(CUBE), **layout)
        return a.todense(), a.data, a.indices, lib.jit(lambda a: 2 * a.todense())(a)

    compare(calls, M)
    a = BCOO.fromdense(CUBE, **layout)
    assert repr(a) == repr(module(jax).BCOO.fromdense(jax.numpy.asarray(CUBE), **layout))
    for other in LAYOUTS:
        np.testing.assert_array_equal(a.update_layout(**{"n_batch": 0, "n_dense": 0, **other}).todense(), CUBE)
    flat = a.update_layout(n_batch=0, n_dense=0)
    assert (flat.n_batch, flat.n_dense) == (0, 0)
    np.testing.assert_array_equal(flat.todense(), CUBE)
    for permutation in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)):
        np.testing.assert_array_equal(a.transpose(permutation).todense(), CUBE.transpose(permutation))
    for axis in (0, 1, 2, (0, 2), None):
        np.testing.assert_allclose(sparse.todense(a.sum(axis)), CUBE.sum(axis), rtol=1e-5, atol=1e-6)
    for f in (lambda x: 2 * x, lambda x: x * CUBE, lambda x: x + CUBE, lambda x: x @ V, lambda x: x[1],
              lambda x: x - CUBE, lambda x: x.reshape(6, 10), lambda x: x[:, ::2, 1], lambda x: x * CUBE[0],
              lambda x: CUBE - x):
        np.testing.assert_allclose(sparse.todense(f(a)), f(CUBE), rtol=1e-5, atol=1e-6)


# Products that JAX refuses: dimension_numbers -> the operands of einsum.
@pytest.mark.parametrize("numbers,subscripts", [
    ((([1], [2]), ([0], [1])), "ij,kij->ik"), ((([1], [2]), ([], [])), "ij,klj->ikl"),
    ((([0, 1], [1, 2]), ([], [])), "ij,kij->k"), ((([], []), ([0, 1], [1, 2])), "ij,kij->ijk")])
def test_products_along_any_dimensions(numbers, subscripts):
    m, c = BCOO.fromdense(M), BCOO.fromdense(CUBE)
    expected = np.einsum(subscripts, M, CUBE)
    flipped = tuple((b, a) for a, b in numbers)
    batch, of_m = len(numbers[1][0]), 2 - len(numbers[0][0]) - len(numbers[1][0])
    back = [*range(batch), *range(expected.ndim - of_m, expected.ndim), *range(batch, expected.ndim - of_m)]
    for left, right in ((m, CUBE), (M, c), (m, c)):
        out = sparse.bcoo_dot_general(left, right, dimension_numbers=numbers)
        np.testing.assert_allclose(sparse.todense(out), expected, rtol=1e-5, atol=1e-6)
        out = sparse.bcoo_dot_general(right, left, dimension_numbers=flipped)
        np.testing.assert_allclose(np.transpose(sparse.todense(out), back), expected, rtol=1e-5, atol=1e-6)


def test_a_batch_is_mapped():
    def calls(lib, s, m):
        a = lib.vmap(lambda x: s.BCOO.fromdense(x, nse=9))(lib.numpy.asarray(CUBE))
        b = lib.vmap(lambda m, x: 2 * m @ x, in_axes=(0, None))(a, V)
        c = lib.vmap(lambda x: a.todense() @ x)(lib.numpy.asarray(np.stack([V, V])))
        return [a, a.data, a.indices, b, c], [a.n_batch, a.nse]

    compare(calls, M)
    with pytest.raises(ValueError, match="(?s)mapped.*fix:.*n_batch"):
        xjax.vmap(lambda m: m.todense())(BCOO.fromdense(M))


@pytest.mark.parametrize("nse", one_in(3, [6, 2, 12]))
def test_a_given_number_of_entries(nse):
    compare(lambda lib, s, m: [lib.jit(lambda x: s.BCOO.fromdense(x, nse=nse))(m.todense()),
                               *vars_of(s.BCOO.fromdense(m.todense(), nse=nse))], M)
    compare(lambda lib, s, m: lib.grad(lambda x: (s.BCOO.fromdense(x, nse=nse).data ** 2).sum())(m.todense()), M)
    m = BCOO.fromdense(M, nse=nse)
    for f in (lambda m: m.sum(0), lambda m: m[1], lambda m: m.T @ m, lambda m: m.reshape(-1)[:7],
              lambda m: m[:, 0].sum(), lambda m: sparse.bcoo_concatenate([m, m], dimension=0),
              lambda m: m.reshape(20) * 2,
              lambda m: m.sum_duplicates(), lambda m: m + m, lambda m: m @ X, lambda m: sparse.bcoo_rev(m, (0, 1))):
        full = BCOO.fromdense(m.todense())
        np.testing.assert_allclose(sparse.todense(f(m)), sparse.todense(f(full)), rtol=1e-5, atol=1e-6)


def vars_of(m):
    return m.data, m.indices


def test_gradients_are_sparse():
    def calls(lib, s, m):
        def loss(m, x):
            return ((m @ x) ** 2).sum()

        x = lib.numpy.asarray(X)
        value, (dm, dx) = s.value_and_grad(loss, argnums=(0, 1))(m, x)
        with_aux = s.grad(lambda m, x: (loss(m, x), m.sum()), has_aux=True)(m, x)
        by_data = lib.grad(lambda d: loss(s.BCOO((d, m.indices), shape=m.shape), x))(m.data)
        return [s.grad(loss)(m, x), value, dm, dx, with_aux, by_data,
                lib.jit(s.grad(loss))(m, x), s.grad(loss, argnums=1)(m, x)]
    compare(calls, M)


def test_objects():
    m = BCOO.fromdense(M)
    theirs = module(jax).BCOO.fromdense(jax.numpy.asarray(M))
    for name in ("shape", "dtype", "nse", "ndim", "size", "n_batch", "n_sparse", "n_dense", "indices_sorted",
                 "unique_indices"):
        assert getattr(m, name) == getattr(theirs, name)
    missing = {n for n in dir(theirs) if not n.startswith("_")} - {n for n in dir(m)}
    assert not missing
    leaves, tree = xjax.tree.flatten(m)
    assert len(leaves) == 2 and repr(xjax.tree.unflatten(tree, leaves)) == repr(m) == repr(theirs)
    assert repr(xjax.tree.unflatten(tree, ["a", "b"])) == "BCOO('a', 'b')"
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(again.todense(), M)
    np.testing.assert_array_equal(xjax.jit(lambda m: m)(m).todense(), M)
    assert issubclass(sparse.CuSparseEfficiencyWarning, SparseEfficiencyWarning)
    assert isinstance(np.ones((3, 4), np.float32) @ m, xjax.Array)
    with pytest.raises(TypeError):
        hash(m)


MISTAKES = {
    "shapes": (ValueError, lambda s: s.BCOO((np.ones(2), np.ones((2, 1), int)), shape=(3, 3))),
    "floats": (ValueError, lambda s: s.BCOO((np.ones(2), np.ones((2, 1))), shape=(3,))),
    "one": (ValueError, lambda s: s.BCOO((np.ones(2),), shape=(3,))),
    "batch": (ValueError, lambda s: s.BCOO.fromdense(jnp.ones((2, 2)), n_batch=3)),
    "cos": (NotImplementedError, lambda s: s.sparsify(jnp.cos)(s.eye(2))),
    "plus one": (NotImplementedError, lambda s: s.eye(2) + 1),
    "by sparse": (NotImplementedError, lambda s: s.sparsify(lambda x: 1 / x)(s.eye(2))),
    "equal": (NotImplementedError, lambda s: s.eye(2) == s.eye(2)),
    "negative power": (NotImplementedError, lambda s: s.eye(2) ** -1),
    "mixed": (NotImplementedError, lambda s: s.sparsify(jnp.concatenate)([s.eye(2), jnp.ones((2, 2))])),
    "sizes": (TypeError, lambda s: s.bcoo_dot_general(s.eye(2), jnp.ones(3), dimension_numbers=(([1], [0]), ([], [])))),
    "permutation": (ValueError, lambda s: s.bcoo_transpose(s.eye(2), permutation=(0, 0))),
    "reshape": (ValueError, lambda s: s.bcoo_reshape(s.eye(2), new_sizes=(3,))),
    "squeeze": (ValueError, lambda s: s.bcoo_squeeze(s.eye(2), dimensions=(0,))),
    "concatenate": (ValueError, lambda s: s.bcoo_concatenate([s.eye(2), s.eye(3)], dimension=0)),
    "multiply": (ValueError, lambda s: s.bcoo_multiply_sparse(s.eye(2), s.eye(3))),
    "layout": (NotImplementedError, lambda s: s.bcoo_multiply_dense(s.BCOO.fromdense(M, n_batch=1), M)),
    "format": (ValueError, lambda s: s.eye(2, sparse_format="csr")),
    "keyword": (TypeError, lambda s: s.empty((2,), colour=1)),
    "argnums": (ValueError, lambda s: s.grad(lambda m: m.sum(), argnums=3)(s.eye(2))),
    "type": (TypeError, lambda s: s.todense("text")),
    "sharding": (NotImplementedError, lambda s: s.bcoo_reshape(s.eye(2), new_sizes=(4,), sharding=1)),
    "out_sharding": (NotImplementedError, lambda s: s.bcoo_dot_general(
        s.eye(2), jnp.ones(2), dimension_numbers=(([1], [0]), ([], [])), out_sharding=1)),
    "scipy": (NotImplementedError, lambda s: s.BCOO.from_scipy_sparse(None, n_batch=1)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    error, call = MISTAKES[name]
    with pytest.raises(error, match="fix:"):
        call(sparse)


def test_todense_inside_sparsify():
    m = BCOO.fromdense(M)
    for f in (lambda x: jnp.cos(sparse.todense(x)), xjax.jit(lambda x: jnp.cos(sparse.todense(x)))):
        np.testing.assert_allclose(sparsify(f)(m), np.cos(M), rtol=1e-6)
    np.testing.assert_array_equal(xjax.grad(lambda x: sparse.todense(x).sum())(M), np.ones_like(M))
    assert xjax.vmap(sparse.todense)(M).shape == M.shape
