"""Attention beyond the table: caches, padding and packing, rows without keys, precision, blocks in `repeat`."""

import functools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close
from tests.sampling import one_in
from tests.xnn.drawn_params import drawn_params
from xjax import random, tree_util
from xnn import (
    ALiBi,
    CrossAttention,
    DecoderBlock,
    Dense,
    EncoderBlock,
    FeedForward,
    LearnedPositions,
    Llama3Scaling,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
    SinusoidalPositions,
    composite,
    named,
    repeat,
    with_precision,
    with_remat,
)

TIME, FEATURES = 7, 8


def causal(**options):
    return MultiHeadAttention(FEATURES, 2, causal=True, **options)


def biased(layers, x, mask=None):
    return layers.attention(x, mask=mask, bias=layers.bias(x, mask=mask))


BLOCK = EncoderBlock(causal(positions=Rotary()), FeedForward(FEATURES, 12))
GENERATORS = {
    "plain": causal(),
    "grouped": causal(kv_heads=1, positions=Rotary()),
    "window": causal(window=3, positions=ALiBi()),
    "relative bias": composite(biased, attention=causal(), bias=RelativeBias(2, buckets=8, bidirectional=False)),
    "learned": named(positions=LearnedPositions(TIME), attention=causal()),
    "sinusoidal": named(positions=SinusoidalPositions(), attention=causal()),
    "repeat": repeat(with_remat(BLOCK), 2),
}


def sequences(n=TIME, batch=2):
    return np.random.default_rng(1).normal(size=(batch, n, FEATURES)).astype(np.float32)


def params_of(layer, **shapes):
    return drawn_params(layer, (-1, -1, FEATURES), **shapes)


def run(layer, params, x, *inputs, **named):
    """`apply` as one program, which compiles sooner than its operations one by one."""
    return xjax.jit(lambda params, x: layer.apply(params, x, *inputs, **named))(params, x)


@functools.cache
def stepper(layer):
    return xjax.jit(layer.apply_with_cache)


def in_chunks(layer, params, x, sizes, mask=None, length=TIME):
    """The output of calls with a cache, for chunks of these sizes."""
    step = stepper(layer)
    cache, parts, start = layer.init_cache(len(x), length), [], 0
    for size in sizes:
        part = slice(start, start + size)
        y, cache = step(params, cache, x[:, part], *([] if mask is None else [mask[:, part]]))
        parts.append(y)
        start += size
    return np.concatenate(parts, 1)


# -- caches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", one_in(3, GENERATORS))
def test_token_by_token_and_chunk_by_chunk_are_the_whole(name):
    layer, x = GENERATORS[name], sequences()
    params = params_of(layer)
    whole = run(layer, params, x)
    for sizes in ([1] * TIME, [3, 3, 1]):
        y = in_chunks(layer, params, x, sizes, length=TIME + 2 * (name != "learned"))
        assert_close(y, whole, tol=0.25)


@pytest.mark.parametrize("name", one_in(3, ["grouped", "window", "relative bias", "learned", "sinusoidal", "repeat"]))
def test_padding_of_a_prompt_does_not_matter(name):
    """A row of 3 of 5 positions, padded on either side, then 2 more: the outputs equal those without padding."""
    layer, x = GENERATORS[name], sequences()
    params = params_of(layer)
    alone = np.asarray(run(layer, params, x[:1, :5]))
    left, right = np.arange(5) >= 2, np.arange(5) < 3
    prompt = x[:1, :3]
    nothing = np.full((1, 2, FEATURES), np.nan, np.float32)
    rows = np.concatenate([np.concatenate([nothing, prompt], 1), np.concatenate([prompt, nothing], 1)])
    batch = np.concatenate([rows, np.broadcast_to(x[:1, 3:5], (2, 2, FEATURES))], 1)
    mask = np.concatenate([[left, right], np.ones((2, 2), bool)], 1)
    y = in_chunks(layer, params, batch, [5, 1, 1], mask)
    for row in range(2):
        assert_close(y[row][mask[row]], alone[0], tol=0.25)
    assert_close(np.asarray(run(layer, params, batch, mask))[mask], np.concatenate([alone[0]] * 2), tol=0.25)


def test_positions_beyond_the_cache_are_nan():
    layer, x = causal(), sequences()
    y = in_chunks(layer, params_of(layer), x, [4, 2, 1], length=5)
    assert np.all(np.isfinite(y[:, :4])) and np.all(np.isnan(y[:, 4:]))
    table = LearnedPositions(3)
    y = in_chunks(table, params_of(table), x, [2, 2])
    assert np.all(np.isfinite(y[:, :3])) and np.all(np.isnan(y[:, 3:]))


def test_keys_of_the_context_are_computed_once():
    layer, x, context = CrossAttention(FEATURES, 2, kv_heads=1), sequences(), sequences(5)[..., :3]
    mask = np.array([[True] * 3 + [False] * 2, [True] * 5])
    params = params_of(layer, context=context.shape)
    whole = run(layer, params, x, context, mask)
    step = xjax.jit(layer.apply_with_cache)
    first, cache = step(params, layer.init_cache(2, TIME), x[:, :2], context, mask)
    without = {**params, "key": {"w": np.full_like(params["key"]["w"], np.nan), "b": params["key"]["b"]}}
    second, cache = step(without, cache, x[:, 2:], None)
    assert_close(np.concatenate([first, second], 1), whole, tol=0.25)
    new = step(params, cache, x, 2 * context)[0]
    assert_close(new, run(layer, params, x, 2 * context), tol=0.25)
    with pytest.raises(TypeError, match="a mask needs a context"):
        layer.apply_with_cache(params, cache, x, None, mask)


def test_decoder_blocks_in_repeat_generate():
    layer = repeat(DecoderBlock(causal(), CrossAttention(FEATURES, 2), FeedForward(FEATURES, 12)), 2)
    x, context = sequences(), sequences(5)[..., :3]
    params = params_of(layer, context=context.shape)
    whole = run(layer, params, x, context)
    step = xjax.jit(layer.apply_with_cache)
    first, cache = step(params, layer.init_cache(2, TIME), x[:, :3], context)
    second, _ = step(params, cache, x[:, 3:], None)
    assert_close(np.concatenate([first, second], 1), whole, tol=0.25)


# -- masks ---------------------------------------------------------------------------------------------------------


def test_a_query_that_sees_nothing_has_zeros_and_a_gradient_of_zeros():
    layer, x = MultiHeadAttention(FEATURES, 2, bias=False), sequences(3)
    params, mask = params_of(layer), np.array([[True, True, False], [False] * 3])

    def total(params, x):
        y = layer.apply(params, x, mask)
        return jnp.sum(jnp.square(y)), y

    (grads, dx), y = xjax.jit(xjax.grad(total, (0, 1), has_aux=True))(params, x)
    dx = np.asarray(dx)
    assert not np.any(np.asarray(y)[1])
    assert not np.any(dx[1]) and all(np.all(np.isfinite(leaf)) for leaf in tree_util.tree_leaves((grads, dx)))


def test_packed_sequences_are_those_alone():
    layer, x = causal(positions=Rotary()), sequences()[:1]
    params = params_of(layer)
    segment = np.array([0, 0, 0, 1, 1, 1, 1])
    same = (segment[:, None] == segment)[None, None]
    packed = np.asarray(run(layer, params, x, mask=same, positions=np.array([[0, 1, 2, 0, 1, 2, 3]], np.int32)))
    assert_close(packed[:, :3], run(layer, params, x[:, :3]), tol=0.25)
    assert_close(packed[:, 3:], run(layer, params, x[:, 3:]), tol=0.25)


def test_a_window_of_a_causal_layer_has_as_many_positions():
    layer, x = causal(window=3), sequences()
    params = params_of(layer)
    moved = x.copy()
    moved[:, 3] += 1
    change = np.asarray(run(layer, params, moved)) - np.asarray(run(layer, params, x))
    changed = np.any(np.abs(change) > 1e-6, (0, 2))
    assert list(np.flatnonzero(changed)) == [3, 4, 5]


# -- positions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rotary", [Rotary(), Rotary(fraction=0.5, interleaved=True), Rotary(scaling=Llama3Scaling())])
def test_products_of_rotated_heads_depend_on_the_distance(rotary):
    x = np.random.default_rng(0).normal(size=(2, 1, 1, 8)).astype(np.float32)
    query, key = (np.broadcast_to(one, (1, 6, 1, 8)) for one in (x[:1], x[1:]))
    at = np.arange(6)[None]
    rotate = xjax.jit(lambda x, at: rotary.rotate(x, at))
    products = np.sum(np.asarray(rotate(query, at + 3)) * rotate(key, at), -1)
    assert_close(products, np.broadcast_to(products[:, :1], products.shape), tol=0.25)
    np.testing.assert_allclose(np.sum(np.square(rotate(query, at)), -1), np.sum(np.square(query), -1), 1e-5)


def test_scaling_of_llama_3_keeps_short_and_stretches_long_wavelengths():
    plain, scaled = Rotary(5e5).frequencies(128), Rotary(5e5, scaling=Llama3Scaling()).frequencies(128)
    wavelength = 2 * np.pi / plain
    np.testing.assert_array_equal(scaled[wavelength < 2048], plain[wavelength < 2048])
    np.testing.assert_allclose(scaled[wavelength > 8192], plain[wavelength > 8192] / 8)
    between = (wavelength > 2048) & (wavelength < 8192)
    assert np.all((scaled < plain)[between]) and np.all((scaled > plain / 8)[between])


def test_slopes_of_alibi_are_those_of_the_paper():
    np.testing.assert_allclose(ALiBi().slopes(8), [2.0**-i for i in range(1, 9)])
    np.testing.assert_allclose(ALiBi().slopes(6), [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])


# -- the protocol --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", one_in(2, ["repeat", "learned"]))
def test_bfloat16_with_a_cache_in_bfloat16(name):
    layer = with_precision(GENERATORS[name], "bfloat16")
    x, params = sequences(), params_of(layer)
    cache = layer.init_cache(2, TIME)
    assert {leaf.dtype.name for leaf in tree_util.tree_leaves(cache)} <= {"bfloat16", "int32"}
    y = in_chunks(layer, params, x, [4, 3])
    assert y.dtype == np.float32
    assert_close(y, run(GENERATORS[name], params, x), like="bfloat16", tol=0.5)      # 2 units of bfloat16


def test_dropout_differs_between_repeated_blocks_and_in_each_place():
    attend = MultiHeadAttention(FEATURES, 2, dropout=0.4)
    block = EncoderBlock(attend, FeedForward(FEATURES, 12, dropout=0.4), dropout=0.4)
    layer, x = repeat(with_remat(block), 2), sequences()
    params = params_of(layer)
    train = xjax.jit(lambda rng: layer.apply(params, x, rng=rng, train=True))
    assert not np.array_equal(train(random.key(2)), train(random.key(3)))
    apart = xnn.serial(block, block)
    as_two = tuple(tree_util.tree_map(lambda leaf, i=i: np.asarray(leaf)[i], params) for i in range(2))
    as_one = xjax.jit(lambda rng: apart.apply(as_two, x, rng=rng, train=True))
    assert_close(train(random.key(2)), as_one(random.key(2)), tol=0.25)


def test_rows_of_a_batch_drop_the_same_on_any_number_of_devices():
    layer, x = MultiHeadAttention(FEATURES, 2, dropout=0.4), sequences(batch=4)
    params = params_of(layer)
    train = xjax.jit(lambda start, x: layer.apply(params, x, rng=xnn.RowKey(random.key(2), start), train=True))
    assert_close(np.concatenate([train(0, x[:2]), train(2, x[2:])]), train(0, x), tol=0.25)


def test_repr_and_table():
    assert repr(BLOCK).splitlines()[:4] == [
        "EncoderBlock of (x, mask, bias, positions, local)", "  ['attention_norm'] LayerNorm",
        "  ['attention'] MultiHeadAttention(features=8, heads=2, causal=True, positions=Rotary(base=10000.0, "
        "fraction=1.0, interleaved=False, scaling=None)) of (x, mask, bias, positions, local)",
        "    ['attend'] DotProductAttention(heads=2, head_size=4, kv_heads=2, causal=True, positions=Rotary("
        "base=10000.0, fraction=1.0, interleaved=False, scaling=None)) of (x, key, value, mask, bias, positions, "
        "local)"]
    total = xnn.describe(BLOCK, (1, TIME, FEATURES)).splitlines()[-1].split()
    matrices = TIME * (4 * FEATURES**2 + 2 * FEATURES * 12)
    assert total[1] == str(4 * (FEATURES**2 + FEATURES) + 2 * 12 * FEATURES + 12 + FEATURES + 4 * FEATURES)
    assert total[2] == f"{2 * (matrices + 2 * TIME * TIME * FEATURES):,}"


def test_adapters_of_the_projections():
    layer = repeat(BLOCK, 2)
    adapters = xjax.eval_shape(lambda key: xnn.params.low_rank(key, params_of(layer), "attention/*/w", rank=2),
                               random.key(0))
    assert {path: value["a"].shape for path, value in adapters.items()} == {
        f"attention/{name}/w": (2, FEATURES, 2) for name in ("query", "key", "value", "out")}


def test_a_head_of_any_layer_can_follow():
    model = named(embed=Dense(FEATURES), body=repeat(BLOCK, 2), head=Dense(3))
    params = drawn_params(model, (-1, -1, 5))
    x = sequences()[..., :5]
    y, _ = xjax.jit(model.apply_with_cache)(params, model.init_cache(2, TIME), x)
    assert_close(y, run(model, params, x), tol=0.25)
