"""Graphs by segment operations, einsum, and indexing of every kind."""

import numpy as np


def message_passing(jax):
    jnp, ops = jax.numpy, jax.ops
    senders, receivers = jnp.array([0, 1, 2, 2]), jnp.array([1, 2, 0, 1])
    nodes = jnp.arange(6.).reshape(3, 2)
    total = ops.segment_sum(nodes[senders], receivers, num_segments=3)
    degree = ops.segment_sum(jnp.ones(4), receivers, 3)
    largest = ops.segment_max(nodes[senders], receivers, num_segments=4)
    return (total / degree[:, None], largest, ops.segment_min(senders, receivers, 4),
            ops.segment_prod(nodes[senders], receivers))


def graph_attention_softmax(jax):
    jnp, ops = jax.numpy, jax.ops
    segments = jnp.array([0, 0, 1, 2, 2, 2])

    def segment_softmax(logits):
        top = ops.segment_max(logits, segments, 3, indices_are_sorted=True)
        e = jnp.exp(logits - top[segments])
        return e / ops.segment_sum(e, segments, 3, indices_are_sorted=True)[segments]
    x = jnp.array([1., 2., 3., .5, .5, 9.])
    return segment_softmax(x), jax.jacrev(segment_softmax)(x)


def page_rank(jax):
    jnp = jax.numpy
    A = jnp.array([[0, 1, 1], [1, 0, 0], [1, 1, 0]], dtype=bool)
    P = (A / A.sum(1, keepdims=True)).T

    def step(state):
        r, _, n = state
        new = 0.85 * P @ r + 0.05
        return new, jnp.abs(new - r).max(), n + 1
    return jax.lax.while_loop(lambda s: (s[1] > 1e-4) & (s[2] < 50), step, (jnp.full(3, 1 / 3), jnp.inf, 0))


def breadth_first_search(jax):
    jnp = jax.numpy
    adjacency = jnp.zeros((5, 5), bool).at[jnp.array([0, 1, 1, 3]), jnp.array([1, 2, 3, 4])].set(True)
    adjacency |= adjacency.T

    def level(state, d):
        distance, frontier = state
        frontier = (frontier @ adjacency) & (distance < 0)
        return (jnp.where(frontier, d, distance), frontier), frontier.sum()
    start = jnp.zeros(5, bool).at[0].set(True)
    return jax.lax.scan(level, (jnp.where(start, 0, -1), start), jnp.arange(1, 5))


def connected_components_and_triangles(jax):
    jnp = jax.numpy
    A = jnp.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    label = jnp.arange(4)
    for _ in range(3):
        label = jnp.minimum(label, jnp.min(jnp.where(A == 1, label[None], 99), axis=1))
    laplacian = jnp.diag(A.sum(0)) - A
    return (label, jnp.trace(jnp.linalg.matrix_power(A, 3)) // 6, jnp.round(jnp.linalg.eigvalsh(laplacian), 3),
            laplacian.dtype)


def minimum_spanning_tree(jax):
    jnp = jax.numpy
    w = jnp.array([[jnp.inf, 2, 3, jnp.inf], [2, jnp.inf, 1, 5], [3, 1, jnp.inf, 4], [jnp.inf, 5, 4, jnp.inf]])

    def add(state, _):
        seen, total = state
        candidates = jnp.where(seen[:, None] & ~seen[None, :], w, jnp.inf)
        i, j = jnp.unravel_index(jnp.argmin(candidates), w.shape)
        return (seen.at[j].set(True), total + w[i, j]), (i, j)
    return jax.lax.scan(add, (jnp.arange(4) == 0, 0.), length=3)


def batched_graphs_with_padding(jax):
    jnp = jax.numpy
    n_node = jnp.array([2, 3, 1])
    graph = jnp.repeat(jnp.arange(3), n_node, total_repeat_length=8)
    offsets = jnp.cumsum(n_node) - n_node
    mask = jnp.arange(8) < n_node.sum()
    x = jnp.where(mask, jnp.arange(8.), 0)
    return graph, offsets, jax.ops.segment_sum(x * mask, graph, 3) / n_node, jnp.repeat(jnp.eye(2), 2, axis=1)


def union_find_with_while(jax):
    jnp, lax = jax.numpy, jax.lax
    edges = jnp.array([[0, 1], [2, 3], [1, 3]])
    find = lambda parent, i: lax.while_loop(lambda i: parent[i] != i, lambda i: parent[i], i)

    def union(parent, edge):
        a, b = find(parent, edge[0]), find(parent, edge[1])
        return parent.at[jnp.maximum(a, b)].set(jnp.minimum(a, b)), a == b
    return lax.scan(union, jnp.arange(5), edges)


def einsum_zoo(jax):
    jnp = jax.numpy
    a, b, c = jnp.arange(6.).reshape(2, 3), jnp.arange(12.).reshape(3, 4), jnp.arange(8).reshape(2, 2, 2)
    return (jnp.einsum("ij,jk->ik", a, b), jnp.einsum("ij->ji", a), jnp.einsum("ij->", a), jnp.einsum("iij->j", c),
            jnp.einsum("ij,ij->i", a, a),
            jnp.einsum("...j,jk", a, b), jnp.einsum("ij,jk,lk->il", a, b, b[:2], optimize="optimal"),
            jnp.einsum("i...->...", c),
            jnp.einsum(a, [0, 1], b, [1, 2], [2, 0]), jnp.einsum("bij,bjk->bik", c, c), jnp.einsum("iii->i", c),
            jnp.einsum("i,j->ij", a[0], b[0]),
            jnp.einsum("ij,kj->ik", a.astype(jnp.bfloat16), a, preferred_element_type=jnp.float32),
            jnp.einsum("ii", c[0]), jnp.einsum("a b, b c -> a c", a, b))


def tensor_products(jax):
    jnp = jax.numpy
    a, b = jnp.arange(8.).reshape(2, 2, 2), jnp.arange(4).reshape(2, 2)
    return (jnp.tensordot(a, b, axes=([1, 2], [0, 1])), jnp.tensordot(a, b, 1), jnp.kron(b, b), jnp.outer(b, b[0]),
            jnp.inner(a, b), a @ b,
            jnp.vdot(a, a), jnp.matmul(a[0], b[0]), jnp.dot(a, b), jnp.linalg.outer(b[0], b[1]), jnp.vecdot(a, a),
            jnp.linalg.tensordot(a, a, axes=0).shape,
            jnp.matvec(a, b[0]), jnp.vecmat(b[0], a), jnp.einsum_path("ij,jk,kl", b, b, b)[0],
            jnp.linalg.vecdot(a, a, axis=0), jnp.multiply.outer(b[0], b))


def reading_by_every_index(jax):
    jnp = jax.numpy
    x = jnp.arange(24).reshape(2, 3, 4)
    i = jnp.array([0, 2])
    return (x[0], x[-1, 1:], x[..., 0], x[:, None, 1], x[:, i], x[:, i, i], x[i[:1], :, i], x[x > 20], x[:, ::-1, ::2],
            x[jnp.array([[0], [1]]), i],
            x[True], x[1][i[None]], x[np.array([1, 0]), ..., 2], x[:, [True, False, True]], x[jnp.array(1)],
            x[jnp.uint8(1), jnp.int8(-1)], x[()].shape,
            x[:, 1:1].shape, x[slice(None, 1), slice(1, None)], x[0, jnp.s_[1:3]], x[jnp.ix_(jnp.array([0, 1]), i)])


def updating_by_every_index(jax):
    jnp = jax.numpy
    x = jnp.zeros((3, 4))
    i = jnp.array([0, 0, 2])
    return (x.at[0].set(1), x.at[:, 1].add(2), x.at[i].add(1), x.at[i, i].max(3), x.at[1:, ::2].set(jnp.arange(2)),
            x.at[x == 0].set(7), x.at[..., -1].min(-1),
            x.at[i].multiply(2), x.at[i, 1].apply(jnp.cos), x.at[1, 1].divide(2.), x.at[0, 0].power(2),
            x.at[-1].set(jnp.arange(4), mode="drop"), x.at[jnp.array(7)].add(1, mode="clip"), x.at[1].subtract(1),
            x.astype(int).at[0].set(3.9), x.at[0].mul(2),
            x.at[jnp.array([9])].get(mode="fill", fill_value=-1), x.at[i].get(unique_indices=False), x.at[0, 0].get())


def taking_and_putting_along_axes(jax):
    jnp = jax.numpy
    x = jnp.array([[3, 1, 2], [9, 7, 8]])
    order = jnp.argsort(x, axis=1)
    return (jnp.take_along_axis(x, order, axis=1), jnp.take_along_axis(x, order[:, :1], -1),
            jnp.put_along_axis(x, order[:, :1], 0, axis=1, inplace=False),
            jnp.take(x, jnp.array([1, 5, -1])), jnp.take(x, 2, axis=1), jnp.take(x, jnp.array([0, 7]), axis=1,
                                                                                 mode="wrap"),
            jnp.fill_diagonal(x, 0, inplace=False),
            jnp.take(x.astype(float), jnp.array([7]), fill_value=-1., mode="fill"), jnp.diag_indices(2),
            jnp.unravel_index(jnp.array([4, 1]), (2, 3)),
            jnp.ravel_multi_index((jnp.array([1]), jnp.array([2])), (2, 3)), jnp.tril_indices_from(x[:, :2]),
            jnp.mask_indices(3, jnp.triu))


def dynamic_slices_and_windows(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.arange(20).reshape(4, 5)
    i = jnp.int32(3)
    return (lax.dynamic_slice(x, (i, 1), (2, 2)), lax.dynamic_index_in_dim(x, -1, keepdims=False),
            lax.dynamic_slice_in_dim(x, i, 3, axis=1), x[i],
            lax.dynamic_update_index_in_dim(x, jnp.zeros(5, int), 2, 0), lax.slice(x, (0, 1), (4, 5), (2, 3)),
            lax.index_in_dim(x, 1, axis=1), lax.pad(x, 0, ((1, -1, 0), (0, 0, 1))),
            jax.vmap(lambda s: lax.dynamic_slice(x, (s, 0), (1, 5)))(jnp.array([0, 9, -2])),
            lax.slice_in_dim(x, 1, None, 2, axis=1), lax.dynamic_slice(x, [0, 4], [1, 1]))


def ring_buffer(jax):
    jnp, lax = jax.numpy, jax.lax

    @jax.jit
    def push(buffer, item):
        data, head, count = buffer["data"], buffer["head"], buffer["count"]
        data = lax.dynamic_update_slice(data, item[None], (head, 0))
        return dict(data=data, head=(head + 1) % data.shape[0], count=jnp.minimum(count + 1, data.shape[0]))
    buffer = {"data": jnp.full((3, 2), jnp.nan), "head": jnp.int32(0), "count": 0}
    for i in range(4):
        buffer = push(buffer, jnp.full(2, i, float))
    return buffer, jnp.roll(buffer["data"], -buffer["head"], axis=0)


def replay_buffer_sampling(jax):
    jnp, random = jax.numpy, jax.random
    replay = {"obs": jnp.arange(20.).reshape(10, 2), "action": jnp.arange(10) % 3, "done": jnp.arange(10) % 4 == 3}
    index = random.randint(random.key(0), (4,), 0, 10)
    batch = jax.tree.map(lambda x: x[index], replay)
    priority = jnp.arange(1, 11) / 55
    return (batch, random.choice(random.key(1), 10, (3,), p=priority), jax.tree.map(lambda x: jnp.take(x, index, 0),
                                                                                    replay))


def stacking_splitting_and_padding(jax):
    jnp = jax.numpy
    x = jnp.arange(6).reshape(2, 3)
    return (jnp.stack([x, x], axis=-1), jnp.block([[x, x], [x, x]]), jnp.split(jnp.arange(7), [2, 5]),
            jnp.array_split(jnp.arange(7), 3), jnp.hsplit(x, 3), jnp.column_stack([x[0], x[1]]),
            jnp.dstack([x, x]).shape, jnp.tile(x, (2, 1, 2)), jnp.pad(x, ((1, 0), (0, 2)), constant_values=9),
            jnp.pad(x, 1, mode="reflect"), jnp.pad(x, (0, 2), mode="symmetric"),
            jnp.pad(x, 2, "linear_ramp"), jnp.pad(x, 1, "mean"), jnp.insert(x, 1, 5, axis=1), jnp.delete(x, 0, axis=1),
            jnp.append(x, x[:1], axis=0), jnp.resize(x, (2, 2)), jnp.trim_zeros(jnp.array([0, 1, 0])),
            jnp.unstack(x), jnp.concat([x, x]), jnp.vstack((1, 2)), jnp.pad(x, 1, mode="wrap"),
            jnp.pad(x, 1, "maximum", stat_length=1))


def moving_and_reshaping_axes(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.arange(24).reshape(2, 3, 4)
    return (jnp.moveaxis(x, 0, -1).shape, jnp.swapaxes(x, 0, 1).shape, x.transpose(2, 0, 1).shape, x.T.shape,
            x.mT.shape, jnp.rollaxis(x, 2).shape, jnp.rot90(x[0]), jnp.flip(x[0], (0, 1)), x.reshape(-1, 4).shape,
            x.reshape((6, 4), order="F"), x.ravel(order="F")[:5], jnp.squeeze(x[:, :1], 1).shape,
            jnp.atleast_3d(x[0]).shape, jnp.broadcast_arrays(x[0], x[0, 0])[1], jnp.permute_dims(x, (1, 0, 2)).shape,
            lax.collapse(x, 0, 2).shape, lax.broadcast_in_dim(x[0, 0], (2, 4), (1,)), lax.rev(x[0], (1,)),
            lax.expand_dims(x, (0, -1)).shape, jnp.matrix_transpose(x).shape, x.flatten().shape,
            lax.split(x[0, 0], (1, 3)))


def grids_and_ranges(jax):
    jnp = jax.numpy
    return (jnp.meshgrid(jnp.arange(2), jnp.arange(3.), indexing="ij"), jnp.mgrid[0:2, 0:3], jnp.ogrid[0:1:3j],
            jnp.linspace(0, 1, 3, endpoint=False, retstep=True), jnp.arange(5, 0, -2), jnp.arange(0, 1, .25),
            jnp.logspace(0, 2, 3, base=2),
            jnp.indices((2, 2), sparse=True), jnp.tri(2, 3, 1), jnp.vander(jnp.arange(3), increasing=True),
            jnp.eye(2, 3, k=1), jnp.diag(jnp.arange(2), -1), jnp.diagflat(jnp.ones(2)),
            jnp.fromfunction(lambda i, j: i + j, (2, 2)), jnp.c_[jnp.arange(2), jnp.ones(2)],
            jnp.linspace(jnp.array([0, 1]), 5, 3, axis=1), jnp.arange(3, dtype=jnp.bfloat16),
            jnp.linspace(0, 10, 5, dtype=int), jnp.hamming(4), jnp.geomspace(1, 8, 4), jnp.triu(jnp.ones((2, 2)), -1),
            jnp.arange(3.).astype("int8"), jnp.identity(2, int))


def reductions_with_every_option(jax):
    jnp = jax.numpy
    x = jnp.array([[1., jnp.nan, 3.], [4., 5., -6.]])
    m = ~jnp.isnan(x)
    return (jnp.sum(x, where=m), jnp.mean(x, axis=0, where=m), jnp.max(x, axis=1, where=m, initial=-9.),
            jnp.nanargmax(x, axis=1), jnp.nanstd(x, ddof=1), jnp.std(x[1], correction=1),
            jnp.prod(x, axis=(0, 1), where=m, keepdims=True),
            jnp.any(m, axis=-1), jnp.nancumsum(x, axis=1), jnp.argmin(x, axis=0, keepdims=True),
            jnp.count_nonzero(m, keepdims=True), jnp.nanpercentile(x, 50, axis=0), jnp.min(x, initial=0., where=m),
            jnp.var(x, axis=1, where=m), jnp.all(m, where=m), jnp.nanmax(x), jnp.nanvar(x, axis=0),
            jnp.average(x[1], weights=jnp.arange(3)), jnp.cumulative_sum(x[1], include_initial=True),
            jnp.cumulative_prod(x[1]), jnp.quantile(x[1], jnp.array([.1, .9]), method="midpoint"))


def ufunc_methods_and_vectorize(jax):
    jnp = jax.numpy
    from functools import partial
    x = jnp.arange(1, 7).reshape(2, 3)
    scaled = jnp.vectorize(lambda v, s: v / jnp.sum(v) * s, signature="(n),()->(n)")
    power = jnp.vectorize(pow, excluded=(1,))
    mine = jnp.frompyfunc(lambda a, b: a + 2 * b, nin=2, nout=1, identity=0)
    return (jnp.add.reduce(x, axis=1), jnp.multiply.accumulate(x, axis=1), jnp.add.at(x, jnp.array([0, 0]), 1,
                                                                                      inplace=False),
            jnp.maximum.reduce(x), jnp.subtract.outer(x[0], x[1]), jnp.add.reduceat(jnp.arange(6), jnp.array([0, 3])),
            scaled(x, jnp.array([1, 2])), power(x, 2), mine(x, 1), mine.reduce(x, axis=0),
            jnp.piecewise(x, [x < 3, x >= 5], [-1, lambda v: v * 10, 0]), jnp.apply_along_axis(lambda r: r[::-1], 1,
                                                                                               x),
            jnp.apply_over_axes(jnp.sum, x, [0, 1]),
            partial(jnp.vectorize, signature="(n)->()")(jnp.linalg.norm)(x), jnp.logical_and.reduce(x > 0))
