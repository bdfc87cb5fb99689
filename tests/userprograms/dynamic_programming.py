"""Dynamic programming, sorting, searching and binning."""

import numpy as np


def edit_distance(jax):
    jnp = jax.numpy
    a, b = (jnp.array([ord(c) for c in w]) for w in ("kitten", "sitting"))

    def row(previous, inputs):
        i, char = inputs

        def cell(left, x):
            above, diagonal, other = x
            value = jnp.minimum(jnp.minimum(left, above) + 1, diagonal + (char != other))
            return value, value
        first = i + 1
        _, rest = jax.lax.scan(cell, first, (previous[1:], previous[:-1], b))
        return jnp.concatenate([first[None], rest]), None
    last, _ = jax.lax.scan(row, jnp.arange(len(b) + 1), (jnp.arange(len(a)), a))
    return last, last[-1].item()


def dynamic_time_warping(jax):
    jnp, lax = jax.numpy, jax.lax
    x, y = jnp.array([1., 2., 3., 4.]), jnp.array([1., 1., 3., 5.])
    cost = jnp.abs(x[:, None] - y)

    def fill(k, D):
        i, j = jnp.divmod(k, 4)
        best = jnp.min(jnp.array([D[i, j + 1], D[i + 1, j], D[i, j]]))
        return D.at[i + 1, j + 1].set(cost[i, j] + best)
    D = jnp.full((5, 5), jnp.inf).at[0, 0].set(0)
    D = lax.fori_loop(0, 16, fill, D)
    return D[-1, -1], D


def soft_dtw_gradient(jax):
    jnp = jax.numpy
    softmin = lambda *v: -jax.nn.logsumexp(-jnp.stack(v))

    def distance(x, y):
        rows = [jnp.cumsum((x[0] - y)**2)]
        for i in range(1, 3):
            row = [rows[-1][0] + (x[i] - y[0])**2]
            for j in range(1, 3):
                row.append((x[i] - y[j])**2 + softmin(rows[-1][j], rows[-1][j - 1], row[-1]))
            rows.append(jnp.stack(row))
        return rows[-1][-1]
    return jax.jit(jax.value_and_grad(distance))(jnp.array([0., 1., 2.]), jnp.array([0., 2., 2.]))


def knapsack(jax):
    jnp = jax.numpy
    weights, values, capacity = jnp.array([1, 3, 4, 5]), jnp.array([1, 4, 5, 7]), 7
    w = jnp.arange(capacity + 1)

    def item(best, wv):
        weight, value = wv
        shifted = jnp.where(w >= weight, best[jnp.maximum(w - weight, 0)] + value, -1)
        new = jnp.maximum(best, shifted)
        return new, new > best
    best, taken = jax.lax.scan(item, jnp.zeros(capacity + 1, dtype=int), (weights, values))
    return best, taken


def longest_common_subsequence(jax):
    jnp = jax.numpy
    a, b = np.frombuffer(b"ABCBDAB", np.uint8), np.frombuffer(b"BDCABA", np.uint8)
    equal = jnp.asarray(a)[:, None] == jnp.asarray(b)

    def row(previous, eq):
        candidate = jnp.maximum(jnp.where(eq, previous[:-1] + 1, 0), previous[1:])
        new = jnp.append(0, jax.lax.cummax(candidate))
        return new, new[-1]
    return jax.lax.scan(row, jnp.zeros(len(b) + 1, jnp.int32), equal)


def coin_change_counts(jax):
    jnp = jax.numpy
    ways = jnp.zeros(11, jnp.int32).at[0].set(1)
    for coin in (1, 2, 5):
        def add(i, w, coin=coin):
            return jax.lax.cond(i >= coin, lambda w: w.at[i].add(w[i - coin]), lambda w: w, w)
        ways = jax.lax.fori_loop(1, 11, add, ways)
    return ways


def floyd_warshall(jax):
    jnp = jax.numpy
    inf = jnp.inf
    d = jnp.array([[0, 3, inf, 7], [8, 0, 2, inf], [5, inf, 0, 1], [2, inf, inf, 0]])
    relax = lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k, :])
    out = jax.lax.fori_loop(0, 4, relax, d)
    return out, jnp.isinf(d).sum(), out.astype(jnp.int16)


def matrix_chain_order(jax):
    jnp = jax.numpy
    dims = [10, 30, 5, 60]
    n = len(dims) - 1
    cost = jnp.zeros((n, n), dtype=jnp.int32)
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            options = jnp.array([cost[i, k] + cost[k + 1, j] + dims[i] * dims[k + 1] * dims[j + 1] for k in range(i,
                                                                                                                  j)])
            cost = cost.at[i, j].set(jnp.min(options))
    return cost


def maximum_subarray_by_associative_scan(jax):
    jnp = jax.numpy
    x = jnp.array([-2, 1, -3, 4, -1, 2, 1, -5, 4])

    def combine(a, b):
        return {"total": a["total"] + b["total"], "best": jnp.maximum(jnp.maximum(a["best"], b["best"]),
                                                                     a["suffix"] + b["prefix"]),
                "prefix": jnp.maximum(a["prefix"], a["total"] + b["prefix"]),
                "suffix": jnp.maximum(b["suffix"], b["total"] + a["suffix"])}
    out = jax.lax.associative_scan(combine, dict(total=x, best=x, prefix=x, suffix=x))
    return out["best"][-1], out


def ctc_like_forward(jax):
    jnp, nn = jax.numpy, jax.nn
    logits = jnp.sin(jnp.arange(15.)).reshape(1, 5, 3)
    logp = nn.log_softmax(logits)
    labels = jnp.array([[0, 1, 0]])
    skip = jnp.array([-jnp.inf, 0., 0.])

    def step(alpha, lp):
        shifted = jnp.pad(alpha[:-1], (1, 0), constant_values=-jnp.inf)
        alpha = jnp.logaddexp(alpha, shifted + skip) + lp[labels[0]]
        return alpha, alpha
    return jax.lax.scan(step, jnp.array([0., -jnp.inf, -jnp.inf]), logp[0])


def beam_search(jax):
    jnp, lax = jax.numpy, jax.lax
    table = jax.nn.log_softmax(jnp.cos(jnp.arange(16.)).reshape(4, 4))

    def step(state, t):
        scores, tokens = state
        last = tokens[:, t]
        total = (scores[:, None] + table[last]).reshape(-1)
        scores, flat = lax.top_k(total, 2)
        beam, token = flat // 4, flat % 4
        return (scores, tokens[beam].at[:, t + 1].set(token)), beam
    init = (jnp.array([0., -1e9]), jnp.zeros((2, 5), jnp.int32))
    return lax.scan(step, init, jnp.arange(4))


def longest_increasing_subsequence(jax):
    jnp = jax.numpy
    x = jnp.array([3, 1, 4, 1, 5, 9, 2, 6])

    def insert(tails, v):
        i = jnp.searchsorted(tails, v, side="left")
        return tails.at[i].set(v), i
    tails, where = jax.lax.scan(insert, jnp.full(8, jnp.iinfo(jnp.int32).max), x)
    return tails, where, jnp.sum(tails < jnp.iinfo("int32").max)


def bubble_sort_with_while(jax):
    jnp, lax = jax.numpy, jax.lax

    def one_pass(state):
        x, _ = state

        def swap(i, s):
            x, changed = s
            lo, hi = jnp.minimum(x[i], x[i + 1]), jnp.maximum(x[i], x[i + 1])
            changed |= x[i] > x[i + 1]
            return x.at[i:i + 2].set(jnp.array([lo, hi])) if isinstance(i, int) else \
                lax.dynamic_update_slice(x, jnp.stack([lo, hi]), (i,)), changed
        return lax.fori_loop(0, x.shape[0] - 1, swap, (x, False))
    return lax.while_loop(lambda s: s[1], one_pass, (jnp.array([3, 1, 2, 0]), True))


def radix_sort(jax):
    jnp = jax.numpy
    x = jnp.array([170, 45, 75, 90, 802, 24, 2, 66], dtype=jnp.uint32)
    for bit in range(10):
        zero = (x >> bit) & 1 == 0
        position = jnp.where(zero, jnp.cumsum(zero) - 1, zero.sum() + jnp.cumsum(~zero) - 1)
        x = jnp.zeros_like(x).at[position].set(x)
    return x


def sort_by_several_keys(jax):
    jnp, lax = jax.numpy, jax.lax
    name, age = jnp.array([2, 1, 2, 1]), jnp.array([30., 20., 10., 20.])
    return (jnp.lexsort((age, name)), lax.sort((name, age, jnp.arange(4)), num_keys=2), jnp.argsort(-age, stable=True),
            jnp.argsort(age, descending=True), lax.sort_key_val(age, name), jnp.sort(age)[::-1],
            jnp.argpartition(age, 1)[:1], jnp.partition(age, 2)[:2].max(), lax.sort([age, name], dimension=0))


def binary_search_written_out(jax):
    jnp, lax = jax.numpy, jax.lax
    table = jnp.array([1, 3, 5, 7, 9, 11])

    def find(v):
        def body(b):
            lo, hi = b
            mid = (lo + hi) // 2
            return lax.cond(table[mid] < v, lambda: (mid + 1, hi), lambda: (lo, mid))
        return lax.while_loop(lambda b: b[0] < b[1], body, (0, table.size))[0]
    v = jnp.array([0, 5, 6, 12])
    return jax.vmap(find)(v), jnp.searchsorted(table, v, method="scan"), jnp.searchsorted(table, v, method="sort")


def histograms_and_bins(jax):
    jnp = jax.numpy
    x = jnp.array([.1, .4, .4, .9, 1.5, -3.])
    h2, ex, ey = jnp.histogram2d(x, x**2, bins=[2, 3])
    return (jnp.histogram(x, bins=3), jnp.histogram(x, bins=4, range=(0, 1), density=True), h2, ex, ey,
            jnp.histogram(x, bins=jnp.array([-5, 0, 1, 2]), weights=x), jnp.digitize(x, jnp.array([0., .5, 1.])),
            jnp.histogram_bin_edges(x, 5), jnp.digitize(x, jnp.array([1., .5, 0.]), right=True))


def unique_and_sets(jax):
    jnp = jax.numpy
    x = jnp.array([3, 1, 2, 3, 1, 7])
    return (jnp.unique(x, return_index=True, return_inverse=True, return_counts=True),
            jnp.unique(x, size=6, fill_value=-1),
            jnp.union1d(x, jnp.arange(3)), jnp.intersect1d(x, jnp.array([1, 3, 9]), return_indices=True),
            jnp.setdiff1d(x, jnp.array([1])), jnp.isin(x, jnp.array([1, 7]), invert=True), jnp.unique_all(x),
            jnp.setxor1d(x, jnp.array([9, 1])), jnp.unique(jnp.array([[1, 2], [1, 2], [0, 1]]), axis=0))


def k_means(jax):
    jnp = jax.numpy
    x = jnp.concatenate([jnp.arange(5.)[:, None] * jnp.ones(2), 10 + jnp.arange(5.)[:, None] * jnp.array([1, -1])])

    def lloyd(centres, _):
        d = jnp.linalg.norm(x[:, None] - centres[None], axis=-1)
        label = jnp.argmin(d, axis=1)
        onehot = jax.nn.one_hot(label, 2, dtype=x.dtype)
        counts = jnp.maximum(onehot.sum(0), 1)
        return (onehot.T @ x) / counts[:, None], label
    return jax.lax.scan(lloyd, x[jnp.array([0, 1])], None, length=3)


def nearest_neighbours(jax):
    jnp, lax = jax.numpy, jax.lax
    base, query = jnp.eye(4, 3) + 0.1, jnp.array([[1., .2, .1], [0., 0., 2.]])
    d2 = jnp.sum(query**2, 1)[:, None] - 2 * query @ base.T + jnp.sum(base**2, 1)
    values, index = lax.top_k(-d2, k=2)
    return values, index, base[index].shape, lax.approx_min_k(d2, 2), lax.approx_max_k(-d2, 1)[1]


def compress_extract_and_place(jax):
    jnp = jax.numpy
    x = jnp.arange(6)
    m = x % 2 == 0
    return (jnp.compress(m, x), jnp.extract(m, x), jnp.place(x, m, jnp.array([9, 8]), inplace=False), x[m],
            jnp.compress(m, x, size=4, fill_value=-1), jnp.put(x, jnp.array([0, -1]), 7, inplace=False),
            jnp.where(m, size=2), jnp.choose(m.astype(int), [x, -x]))


def sum_over_subsets_and_bitmasks(jax):
    jnp = jax.numpy
    f = jnp.arange(8)
    for bit in range(3):
        f = f.reshape(-1, 2, 2**bit)
        f = f.at[:, 1].add(f[:, 0]).ravel()
    masks = jnp.arange(8, dtype=jnp.uint8)
    return f, jax.lax.population_count(masks), jnp.bitwise_count(masks), jnp.unpackbits(masks[:, None], axis=1)[:, 5:]
