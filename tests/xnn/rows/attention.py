"""Rows of attention layers, positions and blocks of transformers."""

import math

import numpy as np

import xnn
from tests.xnn.rows.norm import standard
from tests.xnn.rows.row import KEY, LayerRow
from xjax import nn
from xnn import (
    ALiBi,
    ContextAttention,
    CrossAttention,
    DecoderBlock,
    DotProductAttention,
    EncoderBlock,
    FeedForward,
    LearnedPositions,
    LimitAttention,
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    MultiHeadAttention,
    RelativeBias,
    RMSNorm,
    Rotary,
    SinusoidalPositions,
)

X = np.ones((2, 4, 6), np.float32)
KEPT = np.array([[True, True, True, False], [False, True, True, True]])       # padding on the right, on the left


# -- transcriptions ------------------------------------------------------------------------------------------------


def attention(query, key, value, heads, kv_heads, mask=None, bias=None, causal=False, window=None, rotary=None,
              alibi=False, at=None, scale=None, cap=None):
    """One query of one head at a time. `at`: positions [batch, time]."""
    batch, queries, keys = len(query), query.shape[1], key.shape[1]
    size = query.shape[-1] // heads
    at = np.broadcast_to(np.arange(queries), (batch, queries)) if at is None else at
    y = np.zeros_like(query)
    for b, h in np.ndindex(batch, heads):
        group, columns = h // (heads // kv_heads), slice(h * size, (h + 1) * size)
        shared = slice(group * size, (group + 1) * size)
        for t in range(queries):
            seen = [s for s in range(keys) if sees(b, h, t, s, mask, causal, window, at)]
            if not seen:
                continue
            products = []
            for s in seen:
                q, k = query[b, t, columns], key[b, s, shared]
                if rotary:
                    q, k = rotary(q, at[b, t]), rotary(k, at[b, s])
                product = q @ k * (size**-0.5 if scale is None else scale)
                product = product if cap is None else cap * np.tanh(product / cap)
                product += 0 if bias is None else bias[b, h, t, s]
                products.append(product - (2.0 ** (-8 * (h + 1) / heads) * abs(at[b, t] - at[b, s]) if alibi else 0))
            weights = np.exp(np.array(products) - max(products))
            y[b, t, columns] = weights / weights.sum() @ value[b, seen, shared]
    return y


def sees(b, h, t, s, mask, causal, window, at):
    allowed = True if mask is None else mask[b, s] if mask.ndim == 2 else mask[b, min(h, mask.shape[1] - 1), t, s]
    return allowed and (not causal or s <= t) and (window is None or abs(at[b, t] - at[b, s]) < window)


def rotate(pairs, frequencies):
    """The rotation of one head's features at a position, as complex numbers: `pairs` are (first, second) features."""
    def rotated(v, position):
        v = v.copy()
        for (i, j), frequency in zip(pairs, frequencies, strict=True):
            turned = complex(v[i], v[j]) * np.exp(1j * position * frequency)
            v[i], v[j] = turned.real, turned.imag
        return v
    return rotated


def dense(p, x):
    return x @ p["w"] + p.get("b", 0)


def multi_head(heads, kv_heads=None, **options):
    def value(p, x, positions=None, **inputs):
        mask = inputs.get("mask")
        at = np.maximum(np.cumsum(mask, 1) - 1, 0) if mask is not None and mask.ndim == 2 else positions
        heads_out = attention(dense(p["query"], x), dense(p["key"], x), dense(p["value"], x), heads, kv_heads or heads,
                              at=at, **inputs, **options)
        return dense(p["out"], heads_out)
    return value


def rms(p, x):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6) * p["scale"]


def normed_heads(p, x):
    """Two heads, whose queries and keys are normalised; the last projection adds no vector."""
    query, key = (rms(p[f"{name}_norm"], dense(p[name], x).reshape(*x.shape[:2], 2, 3)).reshape(x.shape)
                  for name in ("query", "key"))
    return attention(query, key, dense(p["value"], x), 2, 2, cap=0.5) @ p["out"]["w"]


def locally(p, x, local):
    options = {"window": 2 if local else None, "rotary": rotate([(0, 1)], [0.5 if local else 1])}
    return multi_head(3, causal=True, **options)(p, x)


def cross(p, x, context, context_mask=None):
    heads_out = attention(dense(p["query"], x), dense(p["key"], context), dense(p["value"], context), 2, 2,
                          mask=context_mask)
    return dense(p["out"], heads_out)


def norm(p, x):
    return standard(x, -1) * p["scale"] + p["bias"]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def feed_forward(p, x):
    return dense(p["down"], gelu(dense(p["up"], x)))


def encoder(attend):
    def value(p, x, **inputs):
        x = x + attend(p["attention"], norm(p["attention_norm"], x), **inputs)
        return x + feed_forward(p["feed_forward"], norm(p["feed_forward_norm"], x))
    return value


def encoder_of_gemma(p, x):
    x = x + norm(p["attention_out_norm"], multi_head(2)(p["attention"], norm(p["attention_norm"], x)))
    return x + norm(p["feed_forward_out_norm"], feed_forward(p["feed_forward"], norm(p["feed_forward_norm"], x)))


def encoder_of_2017(p, x, mask):
    x = norm(p["attention_norm"], x + multi_head(2)(p["attention"], x, mask=mask))
    return norm(p["feed_forward_norm"], x + feed_forward(p["feed_forward"], x))


def decoder(p, x, context):
    x = x + multi_head(2, causal=True)(p["attention"], norm(p["attention_norm"], x))
    x = x + cross(p["cross_attention"], norm(p["cross_attention_norm"], x), context)
    return x + feed_forward(p["feed_forward"], norm(p["feed_forward_norm"], x))


def sines(p, x):
    t, i = np.arange(x.shape[1])[:, None], np.arange(x.shape[2]) // 2 * 2
    angles = t / 10_000 ** (i / x.shape[2])
    return x + np.where(np.arange(x.shape[2]) % 2, np.cos(angles), np.sin(angles))


def t5_bucket(distance, buckets=8, max_distance=20):
    n = buckets // 2
    first, distance = n * (distance > 0), abs(distance)
    if distance < n // 2:
        return first + distance
    growth = math.log(distance / (n // 2)) / math.log(max_distance / (n // 2))
    return first + min(n - 1, n // 2 + int(growth * (n // 2)))


def t5_bias(p, x):
    time = range(x.shape[1])
    table = np.array([[p["table"][t5_bucket(s - t)] for s in time] for t in time])
    return np.broadcast_to(np.moveaxis(table, -1, 0), (len(x), 3, *table.shape[:2]))


def swiglu(p, x):
    gate = dense(p["gate"], x)
    return dense(p["down"], gate / (1 + np.exp(-gate)) * dense(p["up"], x))


# -- rows ----------------------------------------------------------------------------------------------------------


def kept(npr):
    return KEPT


def pairs(npr):
    """Pairs that may attend to each other; query 2 of the first example may attend to no key."""
    seen = np.random.default_rng(1).random((2, 2, 4, 4)) < 0.6
    seen[0, :, 2] = False
    return seen


def restarted(npr):
    return np.array([[0, 1, 0, 1], [0, 0, 1, 2]], np.int32)


def normal(*shape):
    return lambda npr: npr.normal(size=shape)


CONTEXT = normal(2, 5, 3)
def limit_attention(heads, weights, factor):
    """The values of `LimitAttention`; `weights` is a function of products and mask."""
    def oracle(p, x, mask=None):
        names = [name for name in p if name not in ("out", "attend")]
        split = {name: np.reshape(x @ p[name]["w"], (*x.shape[:2], heads, -1)) for name in names}
        size = split["query"].shape[-1]
        products = np.einsum("bshc,bthc->bhst", split["query"], split.get("key", split["query"])) / size**factor
        y = np.einsum("bhst,bthc->bshc", weights(products, mask), split["value"])
        return np.reshape(y, (*x.shape[:2], -1)) @ p["out"]["w"] + p["out"]["b"]

    return oracle


def _softmax_of_seen(products, mask):
    e = np.exp(products - products.max(-1, keepdims=True)) * mask[:, None, None, :]
    return e / e.sum(-1, keepdims=True)


ATTEND = MultiHeadAttention(6, 2)
MLP = FeedForward(6, 8)
# A block has several sums of about 6 products in sequence, in half precision too.
ROWS = {
    "LimitAttention": LayerRow(
        LimitAttention(6, 2), (2, 4, 5), limit_attention(2, _softmax_of_seen, 1), tol=2,
        extra={"mask": lambda npr: np.array([[True, True, False, True], [True, True, True, True]])}),
    "LimitAttention, products": LayerRow(
        LimitAttention(6, 2, scaling="root", weights="identity"), (2, 4, 5),
        limit_attention(2, lambda products, mask: products, 0.5), tol=2),
    "MultiHeadAttention": LayerRow(ATTEND, (2, 4, 6), multi_head(2), tol=2),
    "MultiHeadAttention, grouped": LayerRow(
        MultiHeadAttention(5, 4, head_size=2, kv_heads=2, causal=True, window=2, scale=0.3, bias=False), (2, 4, 6),
        multi_head(4, 2, causal=True, window=2, scale=0.3), tol=2),
    "MultiHeadAttention, bias": LayerRow(MultiHeadAttention(6, 2, kv_heads=1), (2, 4, 6), multi_head(2, 1),
                                         {"mask": pairs, "bias": normal(2, 2, 4, 4)}, tol=2),
    "MultiHeadAttention, rotary": LayerRow(
        MultiHeadAttention(8, 2, positions=Rotary()), (2, 4, 8),
        multi_head(2, rotary=rotate([(0, 2), (1, 3)], [1, 0.01])), {"mask": kept}, tol=2),
    "MultiHeadAttention, rotary interleaved": LayerRow(
        MultiHeadAttention(12, 2, positions=Rotary(100.0, 0.7, True)), (2, 4, 6),
        multi_head(2, rotary=rotate([(0, 1), (2, 3)], [1, 0.1])), {"positions": restarted}, tol=2),
    "MultiHeadAttention, ALiBi": LayerRow(MultiHeadAttention(6, 2, positions=ALiBi(), window=3), (2, 4, 6), multi_head(
        2, window=3, alibi=True), {"mask": kept}, tol=2),
    "MultiHeadAttention, head norm": LayerRow(MultiHeadAttention(6, 2, out_bias=False, head_norm=RMSNorm(), cap=0.5),
                                              (2, 4, 6), normed_heads, tol=4),
    **{f"MultiHeadAttention, local {local}": LayerRow(
        MultiHeadAttention(6, 3, causal=True, window=2, positions=Rotary(),
                           local_positions=Rotary(scaling=LinearScaling(2.0))), (2, 4, 6), locally,
        {"local": lambda npr, local=local: np.array(local)}, tol=2) for local in (True, False)},
    "MultiHeadAttention, dropout": LayerRow(MultiHeadAttention(6, 2, dropout=0.5), (2, 4, 6), multi_head(2),
                                            random=True, tol=2),
    "DotProductAttention": LayerRow(
        DotProductAttention(2, 3), (2, 4, 6), lambda p, x, key, value: attention(x, key, value, 2, 2),
        {"key": normal(2, 4, 6), "value": normal(2, 4, 6)}),
    "ContextAttention": LayerRow(
        ContextAttention(2, 3), (2, 4, 6), lambda p, x, key, value: attention(x, key, value, 2, 2),
        {"key": normal(2, 5, 6), "value": normal(2, 5, 6)}),
    "CrossAttention": LayerRow(CrossAttention(6, 2), (2, 4, 6), cross, {"context": CONTEXT}, tol=2),
    "CrossAttention, mask": LayerRow(CrossAttention(4, 2), (2, 3, 6), cross, {
        "context": CONTEXT, "context_mask": lambda npr: np.array([[True] * 3 + [False] * 2, [False] * 5])}, tol=2),
    "LearnedPositions": LayerRow(LearnedPositions(5), (2, 4, 3), lambda p, x: x + p["table"][:4]),
    "LearnedPositions, mask": LayerRow(LearnedPositions(3), (2, 3, 3), lambda p, x, mask: x + p["table"][[
        [0, 1, 1], [0, 0, 1]]], {"mask": lambda npr: np.array([[True, True, False], [False, True, True]])}),
    "SinusoidalPositions": LayerRow(SinusoidalPositions(), (2, 4, 6), sines),
    "RelativeBias": LayerRow(RelativeBias(3, buckets=8, max_distance=20), (2, 17, 2), t5_bias),
    "FeedForward": LayerRow(MLP, (2, 4, 5), feed_forward, tol=2),
    "FeedForward, gated": LayerRow(FeedForward(
        6, 8, activation=nn.silu, gated=True, bias=False, dropout=0.5), (4, 5), swiglu, random=True, tol=4),
    "EncoderBlock": LayerRow(EncoderBlock(ATTEND, MLP), (2, 4, 6), encoder(multi_head(2)), tol=4),
    "EncoderBlock, norm last": LayerRow(EncoderBlock(ATTEND, MLP, norm_first=False), (2, 4, 6), encoder_of_2017,
                                        {"mask": kept}, tol=4),
    "EncoderBlock, norm out": LayerRow(EncoderBlock(ATTEND, MLP, norm_out=True), (2, 4, 6), encoder_of_gemma, tol=8),
    "EncoderBlock, dropout": LayerRow(EncoderBlock(ATTEND, MLP, dropout=0.2), (2, 4, 6), encoder(multi_head(2)),
                                      random=True, tol=4),
    "DecoderBlock": LayerRow(DecoderBlock(MultiHeadAttention(6, 2, causal=True), CrossAttention(6, 2), MLP), (2, 4, 6),
                             decoder, {"context": CONTEXT}, tol=4),
}


def applied(layer, *inputs, **named):
    """The call of a layer with parameters for X."""
    return lambda: layer.apply(layer.init(KEY, X.shape)[1], *inputs, **named)


def with_cache(layer, length, x, *inputs):
    return lambda: layer.apply_with_cache(layer.init(KEY, X.shape)[1], layer.init_cache(2, length), x, *inputs)


CAUSAL = MultiHeadAttention(6, 2, causal=True)
WRONG = {
    "MultiHeadAttention, heads": (lambda: MultiHeadAttention(6, 4), ValueError,
                                  ["MultiHeadAttention: the features do not divide into heads", "heads     4"]),
    "MultiHeadAttention, groups": (lambda: MultiHeadAttention(8, 4, kv_heads=3), ValueError,
                                   ["the heads do not divide into groups", "kv_heads  3", "a divisor of 4"]),
    "MultiHeadAttention, window": (lambda: MultiHeadAttention(6, 2, window=0), ValueError,
                                   ["a window must be at least 1", "window  0"]),
    "MultiHeadAttention, positions": (lambda: MultiHeadAttention(6, 2, positions=LearnedPositions(3)), TypeError,
                                      ["Rotary(...), ALiBi() or None", "LearnedPositions"]),
    "MultiHeadAttention, rotary": (lambda: MultiHeadAttention(6, 2, positions=Rotary()), ValueError,
                                   ["Rotary: the number of rotated features must be even", "head_size  3"]),
    "MultiHeadAttention, rank": (applied(ATTEND, X[0]), TypeError, [
        "MultiHeadAttention", "at least 3 axes", "f32[4,6]"]),
    "MultiHeadAttention, features": (applied(ATTEND, X[..., :5]), TypeError, ["Dense", "f32[2,4,5]", "[5,6]"]),
    "MultiHeadAttention, mask of floats": (applied(ATTEND, X, KEPT.astype("float32")), TypeError, [
        "DotProductAttention: the mask does not have", "f32[2,4]", "bool[2,4], True for keys", "bool[2,2,4,4]"]),
    "MultiHeadAttention, mask of three axes": (applied(ATTEND, X, KEPT[:, None]), TypeError,
                                               ["the mask does not have the type", "bool[2,1,4]", "mask[:, None]"]),
    "MultiHeadAttention, mask of others": (applied(ATTEND, X, KEPT[:, :3]), TypeError, ["bool[2,3]", "bool[2,4]"]),
    "MultiHeadAttention, bias": (applied(ATTEND, X, bias=X), TypeError, ["the bias does not broadcast", "[2,2,4,4]"]),
    "MultiHeadAttention, positions of floats": (applied(ATTEND, X, positions=X[..., 0]), TypeError,
                                                ["positions must be integers", "f32[2,4]", "i32[2,4]"]),
    "MultiHeadAttention, no rng": (lambda: MultiHeadAttention(6, 2, dropout=0.1).apply(
        ATTEND.init(KEY, X.shape)[1], X, train=True), TypeError, ["Dropout: training needs random bits"]),
    "MultiHeadAttention, rate": (lambda: MultiHeadAttention(6, 2, dropout=1.0), ValueError, ["Dropout: rate"]),
    "MultiHeadAttention, no cache": (with_cache(ATTEND, 4, X), TypeError, ["the layer has no cache"]),
    "MultiHeadAttention, full cache": (with_cache(CAUSAL, 3, X), ValueError,
                                       ["the cache has 3 positions, the input 4", "init_cache(batch, 4)"]),
    "MultiHeadAttention, pairs in a cache": (with_cache(CAUSAL, 4, X, KEPT[:, None, :, None]), TypeError,
                                             ["one bool for each new position", "bool[2,1,4,1]", "bools [2, 4]"]),
    "DotProductAttention, features": (lambda: DotProductAttention(2, 3).apply((), X, X[..., :4], X), TypeError,
                                      ["`key` must have 2 heads of 3 features", "f32[2,4,4]", "[batch, time, 6]"]),
    "CrossAttention, no context": (lambda: CrossAttention(6, 2).init(KEY, X.shape), TypeError,
                                   ["init needs the shape of `context`"]),
    "CrossAttention, context": (lambda: CrossAttention(6, 2).apply(
        CrossAttention(6, 2).init(KEY, X.shape, X.shape)[1], X, None), TypeError, ["`key` is None", "context"]),
    "CrossAttention, empty cache": (lambda: CrossAttention(6, 2).apply_with_cache(CrossAttention(6, 2).init(
        KEY, X.shape, X.shape)[1], {"query": (), "key": (), "value": (), "out": (), "attend": {}}, X, None),
        TypeError, ["there is no context, neither in the call nor in the cache"]),
    "LearnedPositions, length": (lambda: LearnedPositions(3).apply({"table": X[0, :3]}, X), ValueError,
                                 ["more than 3 positions", "LearnedPositions(4)"]),
    "SinusoidalPositions, odd": (lambda: SinusoidalPositions().init(KEY, (2, 4, 5)), ValueError,
                                 ["an even number of features", "(2, 4, 5)"]),
    "RelativeBias, table": (lambda: RelativeBias(3).apply({"table": X[0]}, X), TypeError,
                            ["RelativeBias: params['table'] has another shape", "[32,3]"]),
    "EncoderBlock, inputs": (lambda: EncoderBlock(xnn.Dense(6), MLP), ValueError,
                             ["`attention` has no input `mask`", "Dense(n_out=6)"]),
    "DecoderBlock, not causal": (lambda: DecoderBlock(ATTEND, CrossAttention(6, 2), MLP), ValueError,
                                 ["the attention of a decoder must be causal", "causal=True"]),
    "MultiHeadAttention, local positions": (
        lambda: MultiHeadAttention(6, 3, positions=ALiBi(), local_positions=Rotary()), TypeError,
        ["local_positions is another rotation", "positions        ALiBi()"]),
    "Rotary, divisors": (lambda: Rotary(scaling=LongScaling((1.0,), (2.0,), 8)).frequencies(4), ValueError,
                         ["2 pairs of features need as many divisors", "LongScaling"]),
    "Rotary, fraction": (lambda: Rotary(fraction=1.5, scaling=Llama3Scaling()).frequencies(8), ValueError,
                         ["Rotary", "fraction", "1.5"]),
}
