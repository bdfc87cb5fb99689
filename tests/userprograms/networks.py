"""Networks written by hand: attention with caches, recurrent cells, normalisation, losses."""

from functools import partial
from typing import Any, NamedTuple


class _Cache(NamedTuple):
    k: Any
    v: Any
    length: Any


def decode_with_kv_cache(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.sin(jnp.arange(12.)).reshape(4, 3)
    wq, wk, wv = (jnp.cos(jnp.arange(9.) + s).reshape(3, 3) for s in range(3))

    def step(cache, token):
        q, k, v = token @ wq, token @ wk, token @ wv
        cache = _Cache(lax.dynamic_update_slice(cache.k, k[None], (cache.length, 0)),
                       lax.dynamic_update_slice_in_dim(cache.v, v[None], cache.length, axis=0), cache.length + 1)
        scores = cache.k @ q / jnp.sqrt(3)
        scores = jnp.where(jnp.arange(4) < cache.length, scores, jnp.finfo(scores.dtype).min)
        return cache, jax.nn.softmax(scores) @ cache.v
    cache, out = lax.scan(step, _Cache(jnp.zeros((4, 3)), jnp.zeros((4, 3)), 0), x)
    return out, cache


def causal_self_attention(jax):
    jnp = jax.numpy
    q, k, v = jnp.moveaxis(jnp.sin(jnp.arange(48.)).reshape(2, 4, 3, 2), 2, 0)

    def attend(q, k, v):
        s = jnp.einsum("btd,bsd->bts", q, k) * q.shape[-1]**-0.5
        s = jnp.where(jnp.tril(jnp.ones((4, 4), bool)), s, -1e9)
        return jnp.einsum("bts,bsd->btd", jax.nn.softmax(s, axis=-1), v)
    return attend(q, k, v), jax.grad(lambda *a: attend(*a).sum(), argnums=(0, 2))(q, k, v)


def library_attention(jax):
    jnp = jax.numpy
    q = jnp.sin(jnp.arange(48.)).reshape(1, 4, 3, 4)
    mask = jnp.tri(4, dtype=bool)[None, None]
    attention = partial(jax.nn.dot_product_attention, q, q[..., ::-1, :], q)
    return (attention(), attention(is_causal=True), attention(mask=mask, scale=1.),
            attention(bias=jnp.ones((1, 3, 4, 4))))


def rotary_embedding(jax):
    jnp = jax.numpy
    x = jnp.arange(24.).reshape(3, 2, 4)
    freq = 1. / (10000 ** (jnp.arange(0, 4, 2) / 4))
    angle = jnp.outer(jnp.arange(3), freq)[:, None]
    a, b = jnp.split(x, 2, axis=-1)
    rotated = jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1)
    pairs = jax.lax.complex(x[..., ::2], x[..., 1::2]) * jnp.exp(1j * angle)
    return rotated, jnp.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)


def alibi_and_sliding_window(jax):
    jnp = jax.numpy
    i, j = jnp.ogrid[:5, :5]
    slopes = 2. ** -jnp.arange(1, 3)
    bias = -slopes[:, None, None] * jnp.abs(i - j)
    window = (i >= j) & (i - j < 3)
    return jax.nn.softmax(bias, where=window), jnp.where(window, 0., -jnp.inf).dtype, jax.nn.standardize(bias)


def grouped_query_attention(jax):
    jnp = jax.numpy
    q = jnp.linspace(-1, 1, 32).reshape(2, 4, 4)
    k = jnp.linspace(0, 1, 16).reshape(2, 2, 4)
    k = jnp.repeat(k, 2, axis=1)
    s = jnp.einsum("qhd,khd->hqk", q, k, preferred_element_type=jnp.float32)
    return jax.nn.softmax(s, axis=(-1,)), jax.lax.dot_general(q, k, (((2,), (2,)), ((1,), (1,))))


def flash_style_online_softmax(jax):
    jnp = jax.numpy
    q = jnp.array([.3, -.2])
    k, v = jnp.sin(jnp.arange(16.)).reshape(8, 2), jnp.cos(jnp.arange(16.)).reshape(8, 2)

    def block(carry, kv):
        m, total, o = carry
        kb, vb = kv
        s = kb @ q
        m1 = jnp.maximum(m, s.max())
        p, scale = jnp.exp(s - m1), jnp.exp(m - m1)
        return (m1, total * scale + p.sum(), o * scale + p @ vb), None
    blocks = jax.tree.map(lambda a: a.reshape(4, 2, 2), (k, v))
    (m, total, o), _ = jax.lax.scan(block, (-jnp.inf, 0., jnp.zeros(2)), blocks)
    return o / total, jax.nn.softmax(k @ q) @ v


def linear_attention_state(jax):
    jnp = jax.numpy
    phi = lambda x: jax.nn.elu(x) + 1
    q, k, v = jnp.sin(jnp.arange(24.)).reshape(3, 4, 2)

    def step(S, qkv):
        q, k, v = qkv
        S = S + jnp.outer(phi(k), v)
        return S, phi(q) @ S
    return jax.lax.scan(step, jnp.zeros((2, 2)), (q, k, v), unroll=2)


def lstm_over_a_sequence(jax):
    jnp, nn = jax.numpy, jax.nn
    W = nn.initializers.glorot_uniform()(jax.random.key(0), (5, 8))

    def cell(W, carry, x):
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ W, 4, axis=-1)
        c = nn.sigmoid(f + 1) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def loss(W, xs):
        zero = jnp.zeros((2, 2))
        _, hs = jax.lax.scan(partial(cell, W), (zero, zero), xs)
        return jnp.mean(hs**2)
    return jax.value_and_grad(loss)(W, jnp.ones((4, 2, 3)))


def gru_with_masked_steps(jax):
    jnp, nn = jax.numpy, jax.nn
    weights = {"z": [[.1, .2]], "r": [[.3, -.1]], "n": [[.5, .5]]}
    p = jax.tree.map(jnp.asarray, weights, is_leaf=lambda x: isinstance(x, list))

    def cell(h, inputs):
        x, valid = inputs
        xh = jnp.stack([x, h[0]])
        z, r = nn.sigmoid(p["z"] @ xh), nn.sigmoid(p["r"] @ xh)
        n = jnp.tanh(p["n"] @ jnp.hstack([x, r * h]))
        new = (1 - z) * n + z * h
        return jnp.where(valid, new, h), new
    return jax.lax.scan(cell, jnp.zeros(1), (jnp.array([1., 2., 3.]), jnp.array([True, True, False])))


def bidirectional_rnn(jax):
    jnp = jax.numpy
    xs = jnp.arange(6.).reshape(3, 2) / 5
    cell = lambda h, x: (jnp.tanh(0.5 * h + x),) * 2
    forward = jax.lax.scan(cell, jnp.zeros(2), xs)[1]
    backward = jax.lax.scan(cell, jnp.zeros(2), xs, reverse=True)[1]
    return jnp.concatenate((forward, backward), axis=1), jnp.flip(backward, 0)


def state_space_model_by_associative_scan(jax):
    jnp = jax.numpy
    A = jnp.exp(-jnp.array([.1, .5]))
    Bu = jnp.arange(8.).reshape(4, 2)
    combine = lambda a, b: (b[0] * a[0], b[0] * a[1] + b[1])
    f = lambda A: jax.lax.associative_scan(combine, (jnp.broadcast_to(A, Bu.shape), Bu))[1]
    return f(A), jax.jacfwd(lambda A: f(A)[-1])(A), jax.grad(lambda A: f(A).sum())(A)


def normalisations(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.arange(12.).reshape(2, 6)

    def layer_norm(x, eps=1e-5):
        mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + eps)
    rms = lambda x: x * lax.rsqrt(jnp.mean(lax.square(x), axis=-1, keepdims=True) + 1e-6)
    group = layer_norm(x.reshape(2, 2, 3)).reshape(x.shape)
    return layer_norm(x), rms(x.astype(jnp.bfloat16)), group, jax.jacrev(lambda x: rms(x)[0, 0])(x)


def mlp_with_list_of_layers(jax):
    jnp, random = jax.numpy, jax.random
    sizes = [3, 4, 2]
    keys = random.split(random.PRNGKey(0), len(sizes))
    params = [(0.1 * random.normal(k, (m, n)), jnp.zeros((n,))) for m, n, k in zip(sizes[:-1], sizes[1:], keys)]

    def predict(params, x):
        for w, b in params[:-1]:
            x = jax.nn.swish(x @ w + b)
        w, b = params[-1]
        logits = jnp.dot(x, w) + b
        return logits - jax.scipy.special.logsumexp(logits)
    batched = jax.vmap(predict, in_axes=(None, 0))
    loss = lambda p, x, y: -jnp.mean(batched(p, x) * y)
    return jax.jit(jax.grad(loss))(params, jnp.ones((2, 3)), jax.nn.one_hot(jnp.array([0, 1]), 2))


def activations_and_their_slopes(jax):
    jnp, nn = jax.numpy, jax.nn
    x = jnp.array([-2., -.5, 0., .5, 7.])
    fs = [nn.relu, nn.relu6, nn.gelu, partial(nn.gelu, approximate=False), nn.celu, nn.selu, nn.hard_swish, nn.mish,
          nn.log_sigmoid, nn.soft_sign, nn.softplus, nn.squareplus, nn.hard_tanh,
          partial(nn.leaky_relu, negative_slope=.2),
          nn.sparse_plus, nn.sparse_sigmoid, nn.identity, nn.silu]
    return [jax.vmap(jax.value_and_grad(f))(x) for f in fs], nn.glu(x[:4]), nn.relu(jnp.array([-1, 2]))


def losses(jax):
    jnp, nn = jax.numpy, jax.nn
    logits, labels = jnp.array([[2., 1., -1.], [0., 3., 0.]]), jnp.array([0, 2])
    xent = -jnp.take_along_axis(nn.log_softmax(logits), labels[:, None], axis=-1)[:, 0]
    huber = lambda e, d=1.0: jnp.where(jnp.abs(e) <= d, 0.5 * e**2, d * (jnp.abs(e) - 0.5 * d))
    focal = jnp.mean((1 - jnp.exp(-xent))**2 * xent)
    kl = jnp.sum(jax.scipy.special.rel_entr(nn.softmax(logits), 1 / 3), axis=-1)
    smooth = jnp.mean(nn.logsumexp(logits, axis=1) - jnp.sum(logits * (0.9 * nn.one_hot(labels, 3) + 0.1 / 3), 1))
    return xent, huber(logits), focal, kl, smooth, nn.softmax(logits, axis=0), nn.logmeanexp(logits, axis=1)


def convolutional_block(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.sin(jnp.arange(2 * 6 * 6 * 2.)).reshape(2, 6, 6, 2)
    w = jnp.cos(jnp.arange(3 * 3 * 2 * 3.)).reshape(3, 3, 2, 3)
    y = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    pooled = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")
    average = lax.reduce_window(y, 0., lax.add, (1, 3, 3, 1), (1, 3, 3, 1), "SAME") / 9
    up = lax.conv_transpose(pooled, w.swapaxes(2, 3), (2, 2), "SAME")
    return y, pooled, average, up


def depthwise_and_dilated_convolutions(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.arange(32.).reshape(1, 4, 8) / 10
    w = jnp.array([[[1., -1.]], [[.5, .5]], [[0., 1.]], [[2., 1.]]])
    depthwise = lax.conv_general_dilated(x, w, (1,), [(1, 0)], feature_group_count=4)
    dilated = lax.conv_general_dilated(x, jnp.ones((2, 4, 2)), (1,), "VALID", rhs_dilation=(3,))
    return depthwise, dilated, jax.grad(lambda w: lax.conv(x, w, (1,), "SAME").sum())(jnp.ones((1, 4, 3)))


def dropout_with_and_without_key(jax):
    jnp, random = jax.numpy, jax.random

    def dropout(x, rate, key=None):
        if key is None:
            return x
        keep = random.bernoulli(key, p=1 - rate, shape=x.shape)
        return jnp.where(keep, x / (1 - rate), 0)
    x = jnp.ones((3, 4), jnp.bfloat16)
    return dropout(x, .5), dropout(x, .5, random.key(0)), jax.jit(dropout)(x, .25, random.PRNGKey(1))


def mixture_of_experts(jax):
    jnp, nn = jax.numpy, jax.nn
    x = jnp.sin(jnp.arange(12.)).reshape(4, 3)
    gates = nn.softmax(x @ jnp.ones((3, 4)).at[1].set(jnp.arange(4.)))
    weight, expert = jax.lax.top_k(gates, 2)
    experts = jnp.arange(4 * 9.).reshape(4, 3, 3) / 10
    y = jnp.einsum("td,tkde,tk->te", x, experts[expert], weight)
    load = jnp.zeros(4).at[expert.ravel()].add(1.)
    order = jnp.argsort(expert[:, 0])
    sizes = jnp.bincount(expert[:, 0], length=4).astype(jnp.int32)
    return y, load, jax.lax.ragged_dot(x[order], experts, sizes), nn.one_hot(expert, 4, axis=0).shape


def embedding_and_tied_logits(jax):
    jnp = jax.numpy
    table = jnp.arange(12.).reshape(4, 3)

    def loss(table, ids):
        h = table.at[ids].get(mode="fill", fill_value=0)
        return jnp.sum(jnp.tanh(h @ table.T / 10))
    ids = jnp.array([0, 3, 3, 9])
    return jax.grad(loss)(table, ids), jnp.take(table, ids, axis=0), jnp.take(table, ids, axis=0, mode="clip")


def layers_stacked_for_scan(jax):
    jnp, random = jax.numpy, jax.random
    init = jax.vmap(lambda k: {"w": random.orthogonal(k, 3), "b": random.normal(k, (3,))})
    params = init(random.split(random.PRNGKey(0), 4))

    @jax.remat
    def layer(x, p):
        return jax.nn.gelu(x @ p["w"] + p["b"]), None
    f = lambda params, x: jax.lax.scan(layer, x, params)[0].sum()
    g = jax.grad(f)(params, jnp.ones(3))
    return jax.tree.map(jnp.shape, g), jax.tree.map(lambda g: jnp.round(jnp.linalg.norm(g), 3), g)


def batch_norm_with_running_statistics(jax):
    jnp, lax = jax.numpy, jax.lax
    state = {"mean": jnp.zeros(2), "var": jnp.ones(2)}

    def apply(x, state):
        mean, mean2 = lax.pmean((x.mean(0), (x**2).mean(0)), "batch")
        var = mean2 - mean**2
        new = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state, {"mean": mean, "var": var})
        return (x - mean) / jnp.sqrt(var + 1e-5), new
    return jax.vmap(apply, axis_name="batch", in_axes=(0, None))(jnp.arange(12.).reshape(2, 3, 2), state)


def initializers(jax):
    init, key = jax.nn.initializers, jax.random.key(3)
    makers = [init.normal(0.1), init.he_normal(), init.lecun_uniform(), init.truncated_normal(), init.constant(2),
              init.variance_scaling(2.0, "fan_out", "uniform"), init.uniform(), init.ones, init.kaiming_uniform()]
    return [m(key, (3, 4), jax.numpy.bfloat16) for m in makers], init.delta_orthogonal()(key, (3, 2, 2)).shape, \
        init.zeros(key, (2,), "int32")
