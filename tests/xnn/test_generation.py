"""Generation: tokens equal those recomputed from the whole sequence, for every batch, padding and method."""

from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.refusals import assert_refused
from tests.sampling import each_once, one_in
from tests.xnn.drawn_params import drawn_params
from xjax import nn, random, tree_util
from xnn import (
    GRU,
    CacheFns,
    CrossAttention,
    Dense,
    Embedding,
    GRUCell,
    Layer,
    MultiHeadAttention,
    RowKey,
    composite,
    filter_logits,
    generate,
    pretrained,
    renamed,
    sample,
    scan_over_time,
    serial,
    whole,
    with_precision,
)
from xnn.models import T5, T5Config

N = 11


def Past():
    """The sum of x over the positions so far, each weighted by its number; a mask excludes positions."""

    def weighted(x, mask, count, total):
        kept = jnp.ones(x.shape[:2], bool) if mask is None else mask
        counts = count[:, None] + jnp.cumsum(kept.astype("int32"), 1)
        weights = jnp.where(kept, jnp.sin(counts.astype(x.dtype)), 0)[..., None]
        total = total[:, None] + jnp.cumsum(x * jnp.broadcast_to(weights, x.shape), 1)
        return total, {"count": counts[:, -1], "total": total[:, -1]}

    def apply(params, x, mask=None, *, rng=None, train=False):
        return weighted(x, mask, jnp.zeros(len(x), "int32"), jnp.zeros((len(x), 8)))[0]

    def init_cache(batch, length):
        return {"count": jnp.zeros(batch, "int32"), "total": jnp.zeros((batch, 8))}

    def apply_with_cache(params, cache, x, mask=None):
        return weighted(x, mask, cache["count"], cache["total"])

    return Layer(lambda rng, in_shape: (in_shape, ()), apply, "Past", cache=CacheFns(init_cache, apply_with_cache))


MODEL = serial(Embedding(N, 8), Past(), Dense(N))
PROMPT = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [0, 9, 10, 3]], np.int32)


@pytest.fixture(scope="module")
def params():
    return drawn_params(MODEL, (-1, -1), seed=3)


def by_hand(params, prompt, steps, choose):
    """Every token from the whole sequence; the zeros after it do not affect a causal model."""
    n = prompt.shape[1]
    tokens = np.pad(prompt, [(0, 0), (0, steps)])
    run, choose = xjax.jit(MODEL.apply), xjax.jit(choose)
    for i in range(steps):
        tokens[:, n + i] = choose(i, np.asarray(run(params, tokens))[:, n + i - 1])
    return tokens[:, n:]


def test_the_most_likely_tokens_are_those_of_the_whole_sequence(params):
    got = generate(MODEL, params, PROMPT, steps=6, temperature=0)
    np.testing.assert_array_equal(got.tokens, by_hand(params, PROMPT, 6, lambda i, logits: jnp.argmax(logits, -1)))
    assert got.tokens.dtype == np.int32
    np.testing.assert_array_equal(got.lengths, [6, 6, 6])


def test_drawn_tokens_are_those_of_the_whole_sequence(params, key):
    options = {"temperature": 0.8, "top_k": 6, "top_p": 0.9}
    got = generate(MODEL, params, PROMPT, steps=6, rng=key, **options)
    want = by_hand(params, PROMPT, 6, lambda i, logits: sample(random.fold_in(key, i), logits, **options))
    np.testing.assert_array_equal(got.tokens, want)
    assert len(np.unique(np.asarray(got.tokens), axis=0)) == 3
    other = generate(MODEL, params, PROMPT, steps=6, rng=random.fold_in(key, 1), **options)
    assert np.any(other.tokens != got.tokens)


def test_a_row_draws_the_same_tokens_alone(params, key):
    together = generate(MODEL, params, PROMPT, steps=5, rng=key)
    for i, prompt in enumerate(PROMPT):
        alone = generate(MODEL, params, prompt[None], steps=5, rng=RowKey(key, i))
        np.testing.assert_array_equal(alone.tokens[0], together.tokens[i])


@pytest.mark.parametrize("side", ["before", "after"])
def test_padding_changes_nothing(params, side, key):
    lengths = [2, 4, 3]
    padded, mask = np.full((3, 4), 9, np.int32), np.zeros((3, 4), bool)
    for i, n in enumerate(lengths):
        place = slice(4 - n, None) if side == "before" else slice(n)
        padded[i, place], mask[i, place] = PROMPT[i, :n], True
    got = generate(MODEL, params, padded, steps=5, rng=key, mask=mask)
    for i, n in enumerate(lengths):
        alone = generate(MODEL, params, PROMPT[i:i + 1, :n], steps=5, rng=RowKey(key, i))
        np.testing.assert_array_equal(alone.tokens[0], got.tokens[i])


def test_rows_end_at_a_stop_token(params, key):
    free = np.asarray(generate(MODEL, params, PROMPT, steps=8, rng=key).tokens)
    stop = (int(free[0, 2]), int(free[1, 0]))
    got = generate(MODEL, params, PROMPT, steps=8, rng=key, stop=stop)
    for row, length, unstopped in zip(np.asarray(got.tokens), np.asarray(got.lengths), free, strict=True):
        ends = np.flatnonzero(np.isin(unstopped, stop))
        assert length == (ends[0] + 1 if len(ends) else 8)
        np.testing.assert_array_equal(row, np.where(np.arange(8) < length, unstopped, unstopped[length - 1]))
    assert got.lengths[1] == 1


def test_tokens_are_reported_as_they_come(params, key):
    seen = []
    got = generate(MODEL, params, PROMPT, steps=5, rng=key, on_token=seen.append)
    np.testing.assert_array_equal(np.stack(seen, 1), got.tokens)
    np.testing.assert_array_equal(got.tokens, generate(MODEL, params, PROMPT, steps=5, rng=key).tokens)
    all_tokens, seen = tuple(range(N)), []
    stopped = generate(MODEL, params, PROMPT, steps=5, rng=key, on_token=seen.append, stop=all_tokens)
    assert len(seen) == 1 and stopped.tokens.shape == (3, 5) and np.all(stopped.lengths == 1)


def test_generation_is_a_function_that_compiles_and_maps(params, key):
    whole = generate(MODEL, params, PROMPT, steps=4, rng=key)
    jitted = xjax.jit(lambda params, prompt: generate(MODEL, params, prompt, steps=4, rng=key))(params, PROMPT)
    np.testing.assert_array_equal(jitted.tokens, whole.tokens)
    rows = xjax.jit(xjax.vmap(lambda i, prompt: generate(
        MODEL, params, prompt[None], steps=4, rng=RowKey(key, i)).tokens[0]))
    np.testing.assert_array_equal(rows(jnp.arange(3), PROMPT), whole.tokens)
    devices = xjax.pmap(lambda i, prompt: generate(MODEL, params, prompt[None], steps=4, rng=RowKey(key, i)).tokens[0])
    np.testing.assert_array_equal(devices(jnp.arange(3), PROMPT), whole.tokens)


FOLDERS = Path(__file__).parent / "peers" / "pretrained"


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_most_likely_tokens_are_those_of_transformers(name):
    model, params, *_ = pretrained.load(FOLDERS / name)
    arrays = np.load(FOLDERS / name / "arrays.npz")
    prompt, mask = arrays["x"], np.array([[False] * 2 + [True] * 4, [True] * 6])       # the first row is padded
    got = generate(model, params, prompt, steps=8, temperature=0, mask=mask).tokens
    np.testing.assert_array_equal(got, arrays["greedy"][:, 6:])
    after = generate(model, params, np.roll(prompt, -2, 1), steps=8, temperature=0, mask=np.roll(mask, -2, 1)).tokens
    np.testing.assert_array_equal(after[0], got[0])


@pytest.mark.slow                                    # a T5 takes long to compile
def test_a_context_is_read_once(key):
    model = T5(T5Config(vocabulary=N, features=8, hidden=16, layers=1, heads=2, head_size=4))
    source, start = PROMPT, np.zeros((3, 1), np.int32)
    params = xjax.jit(lambda key: model.init(key, start, source=source)[1])(key)
    got = generate(model, params, start, steps=4, temperature=0, source=source).tokens
    tokens = np.concatenate([start, got], 1)
    logits = xjax.jit(model.apply)(params, tokens, source=source)
    np.testing.assert_array_equal(jnp.argmax(logits, -1)[:, :-1], got)


# -- an encoder and a decoder ------------------------------------------------------------------------------------------

SOURCE = np.array([[1, 2, 3, 4, 5, 6, 7], [3, 9, 9, 1, 0, 0, 0]], np.int32)
SOURCE_MASK = np.arange(7) < np.array([[7], [4]])
START = np.zeros((2, 1), np.int32)


def reading(layers, source, mask=None):
    return layers.scan(layers.embed(source), mask=mask)


def Encoder(**options):
    return composite(reading, embed=Embedding(N, 8), scan=GRU(8, **options))


def attending(layers, tokens, source, source_mask=None):
    y = layers.body(layers.embed(tokens))
    context = layers.encoder(source, mask=source_mask)
    return layers.logits(y + layers.attend(y, context=context, context_mask=source_mask))


def continuing(layers, tokens, source, source_mask=None):
    context, carry = layers.encoder(source, mask=source_mask)
    y = layers.body(layers.embed(tokens), carry=carry)
    return layers.logits(y + layers.attend(y, context=context, context_mask=source_mask))


def reading_with_mask(layers, source, mask=None):
    return layers.scan(layers.embed(source), mask=mask), mask


def looking_up(layers, tokens, source, source_mask=None):
    """A decoder that computes with the context and its mask in each step."""
    context, mask = layers.encoder(source, mask=source_mask)
    y = layers.body(layers.embed(tokens))
    scores = y @ context.swapaxes(1, 2)
    scores = scores if mask is None else jnp.where(mask[:, None], scores, -1e9)
    return layers.logits(y + nn.softmax(scores) @ context)


def attending_cell(layers, x, context, carry=None, mask=None):
    """One step of a decoder that reads the context before it changes its carry (Bahdanau et al., 2015)."""
    scores = jnp.einsum("bstf,bf->bst", context[:, None], layers.query(x))[:, 0]
    weights = nn.softmax(scores if mask is None else jnp.where(mask, scores, -1e9))
    return layers.cell(jnp.concatenate([x, jnp.einsum("bt,btf->bf", weights, context)], -1), carry=carry)


def stepping(layers, tokens, source, source_mask=None):
    context, mask = layers.encoder(source, mask=source_mask)
    return layers.logits(layers.body(layers.embed(tokens), context=context, context_mask=mask))


def AttendingScan():
    cell = renamed(composite(attending_cell, query=Dense(8), cell=GRUCell(8)), mask="context_mask")
    return scan_over_time(cell)


def SequenceModel(forward, encoder, body=None):
    attend = {"attend": CrossAttention(8, 2)} if forward in (attending, continuing) else {}
    return composite(forward, encoder=encoder, embed=Embedding(N, 8), body=body or GRU(8), logits=Dense(N), **attend)


SEQUENCE_MODELS = {
    "recurrent encoder of both directions": lambda: SequenceModel(attending, whole(Encoder(bidirectional=True))),
    "causal decoder": lambda: SequenceModel(attending, whole(Encoder()), MultiHeadAttention(8, 2, causal=True)),
    "encoder by attention": lambda: SequenceModel(attending, whole(composite(
        lambda layers, source, mask=None: layers.mix(layers.embed(source), mask=mask), "Mixing", embed=Embedding(N, 8),
        mix=MultiHeadAttention(8, 2)))),
    "carry of the encoder": lambda: SequenceModel(continuing, whole(Encoder(return_carry=True))),
    "carry in half precision": lambda: with_precision(SequenceModel(
        continuing, whole(Encoder(return_carry=True))), "bfloat16"),
    "result kept": lambda: SequenceModel(looking_up, whole(composite(
        reading_with_mask, embed=Embedding(N, 8), scan=GRU(8)), keep=True)),
    "attention in the cell": lambda: SequenceModel(stepping, whole(composite(
        reading_with_mask, embed=Embedding(N, 8), scan=GRU(8)), keep=True), AttendingScan()),
}


@pytest.mark.parametrize("name", one_in(2, SEQUENCE_MODELS))
def test_a_decoder_generates_from_an_encoder(name):
    """In one loop and in single steps, with padding and without: each token follows from all tokens before it."""
    model = SEQUENCE_MODELS[name]()
    params, inputs = drawn_params(model, (2, 1), source=SOURCE.shape), {"source": SOURCE, "source_mask": SOURCE_MASK}
    got = generate(model, params, START, steps=5, temperature=0, **inputs).tokens
    logits = xjax.jit(model.apply)(params, np.concatenate([START, got], 1), **inputs)
    np.testing.assert_array_equal(jnp.argmax(logits, -1)[:, :-1], got)
    alone = generate(model, params, START[:1], steps=5, temperature=0, source=SOURCE[1:, :4],
                     on_token=lambda tokens: None).tokens
    np.testing.assert_array_equal(alone[0], got[1])


def test_a_whole_layer_is_applied_once(key):
    layer = whole(Encoder(return_carry=True))
    _, params = layer.init(key, (2, 7))
    first, cache = layer.apply_with_cache(params, layer.init_cache(2, 3), SOURCE, mask=SOURCE_MASK)
    want = layer.apply(params, SOURCE, mask=SOURCE_MASK)
    assert tree_util.tree_all(tree_util.tree_map(np.array_equal, first, want))
    assert tree_util.tree_leaves(cache) == [] and layer.apply(params, None) is None
    assert layer.apply_with_cache(params, cache, None) == ((None, (None,)), cache)
    kept = whole(Encoder(), keep=True)
    first, cache = kept.apply_with_cache(params, kept.init_cache(2, 3), SOURCE)
    assert kept.apply_with_cache(params, cache, None)[0] is first
    assert repr(kept).splitlines()[0] == "whole(keep=True) of (x, mask)"


def test_nothing_to_generate(params):
    got = generate(MODEL, params, PROMPT, steps=0, temperature=0)
    assert got.tokens.shape == (3, 0) and np.all(got.lengths == 0)
    assert generate(MODEL, params, PROMPT[:0], steps=2, temperature=0).tokens.shape == (0, 2)


# -- from logits to a token ------------------------------------------------------------------------------------------


def kept(logits, top_k=None, top_p=None):
    """The tokens that are kept, one row at a time."""
    out = []
    for row in logits:
        order = np.argsort(-row, kind="stable")
        order = order if top_k is None else order[:top_k]
        odds = np.exp(row[order] - row.max())
        odds, total, chosen = odds / odds.sum(), 0.0, []
        for token, p in zip(order, odds, strict=True):
            if top_p is not None and total >= top_p:
                break
            chosen.append(token)
            total += p
        out.append(set(chosen))
    return out


@pytest.mark.parametrize("options", [{}, {"top_k": 1}, {"top_k": 3}, {"top_k": 50}, {"top_p": 0.01}, {"top_p": 0.5},
                                     {"top_p": 0.95}, {"top_p": 1.0}, {"top_k": 4, "top_p": 0.7}], ids=str)
def test_the_odds_that_are_left(options, npr):
    logits = npr.normal(size=(20, N)).astype(np.float32) * 2
    got = np.asarray(xjax.jit(lambda logits: filter_logits(logits, 0.7, **options))(logits))
    for row, before, tokens in zip(got, logits / np.float32(0.7), kept(logits / 0.7, **options), strict=True):
        assert set(np.flatnonzero(np.isfinite(row))) == tokens
        np.testing.assert_allclose(row[list(tokens)], before[list(tokens)], rtol=1e-6)


def test_equal_logits_are_all_kept():
    one, other = xjax.jit(lambda x, y: (filter_logits(x, top_k=1), filter_logits(y, top_p=0.1)))(
        jnp.array([1.0, 2.0, 2.0, 0.0]), jnp.zeros((2, 5)))
    assert np.isfinite(one).tolist() == [False, True, True, False]
    assert np.all(np.isfinite(other))


def test_samples_have_the_odds(key):
    logits = np.log(np.array([[0.5, 0.3, 0.2]], np.float32))
    draws = xjax.jit(lambda key: xjax.vmap(lambda key: sample(key, logits)[0])(random.split(key, 20_000)))(key)
    # 20,000 draws: three standard deviations of a share are 0.011.
    np.testing.assert_allclose(np.bincount(np.asarray(draws)) / 20_000, [0.5, 0.3, 0.2], atol=0.011)


def test_a_low_temperature_of_logits_in_half_precision(key):
    logits = jnp.array([[1.0, 20.0, 80.0, 79.0]], "float16")
    assert [sample(key, logits, 10.0 ** -n).tolist() for n in (3, 5, 20)] == [[2]] * 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_logits_of_any_float(dtype):
    got = xjax.eval_shape(lambda x: filter_logits(x, 0.5, top_k=2, top_p=0.9), jnp.array([[1.0, 3.0, 2.0]], dtype))
    assert got.dtype == jnp.dtype(dtype)


MODELS = {"Llama": lambda: xnn.models.Llama(xnn.models.LlamaConfig(
              vocabulary=30, features=16, hidden=16, layers=1, heads=2, kv_heads=1, scaling=None)),
          "GPT2": lambda: xnn.models.GPT2(xnn.models.GPT2Config(30, 16, features=16, layers=1, heads=2)),
          "T5": lambda: T5(T5Config(vocabulary=30, features=16, hidden=16, layers=1, heads=2, head_size=8)),
          "LSTM": lambda: xnn.models.LSTMLanguageModel(xnn.models.LSTMLanguageModelConfig(vocabulary=30, features=8))}


@pytest.mark.parametrize("dtype, name", each_once(["bfloat16", "float16"], MODELS))
def test_weights_in_half_precision(dtype, name, key):
    """The cache follows the weights; each token is the most likely one after the whole sequence before it."""
    model, inputs = MODELS[name](), {"source": jnp.array([[3, 1]])} if name == "T5" else {}
    _, params = model.init(key, (1, 3), **{name: (1, 2) for name in inputs})
    params = xnn.params.cast(params, dtype)
    prompt = jnp.array([[1, 2, 3]])
    made = generate(model, params, prompt, steps=3, temperature=0, **inputs).tokens
    logits = xjax.jit(model.apply)(params, jnp.concatenate([prompt, made], 1), **inputs)
    assert logits.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(made, jnp.argmax(logits[:, 2:-1].astype("float32"), -1))


KEY = random.PRNGKey(0)
WRONG = {
    "float prompt": (lambda: generate(MODEL, (), np.ones((1, 2), np.float32), steps=1, temperature=0), TypeError,
                     ["generate: the prompt must be tokens", "f32[1,2]"]),
    "prompt of one axis": (lambda: generate(MODEL, (), PROMPT[0], steps=1, temperature=0), TypeError,
                           ["i32[4]", "prompt[None]"]),
    "no prompt": (lambda: generate(MODEL, (), PROMPT[:, :0], steps=1, temperature=0), TypeError, ["start token"]),
    "mask": (lambda: generate(MODEL, (), PROMPT, steps=1, temperature=0, mask=PROMPT), TypeError,
             ["generate: the mask", "i32[3,4]"]),
    "empty row": (lambda: generate(MODEL, (), PROMPT, steps=1, temperature=0, mask=PROMPT > 8), ValueError,
                  ["a row of the prompt has no tokens"]),
    "no rng": (lambda: generate(MODEL, (), PROMPT, steps=1), TypeError, ["random bits", "temperature=0"]),
    "steps": (lambda: generate(MODEL, (), PROMPT, steps=-1, temperature=0), ValueError, ["steps", "-1"]),
    "short cache": (lambda: generate(MODEL, (), PROMPT, steps=3, temperature=0, length=5), ValueError,
                    ["the cache is too short", "length=6"]),
    "temperature": (lambda: generate(MODEL, (), PROMPT, steps=1, temperature=-1.0, rng=KEY), ValueError,
                    ["`temperature` must be at least 0"]),
    "temperature of logits": (lambda: filter_logits(jnp.ones(3), 0.0), ValueError, ["`temperature` must be above"]),
    "top_k": (lambda: generate(MODEL, (), PROMPT, steps=1, top_k=0, rng=KEY), ValueError,
              ["`top_k` must be at least 1"]),
    "top_p": (lambda: sample(KEY, jnp.ones((1, 3)), top_p=0.0), ValueError, ["sample: `top_p`", "(0, 1]"]),
    "greedy top_k": (lambda: generate(MODEL, (), PROMPT, steps=1, temperature=0, top_k=2), ValueError,
                     ["top_k and top_p have no effect"]),
    "a token that is not there": (
        lambda: generate(MODEL, MODEL.init(KEY, (-1, -1))[1], PROMPT + 5, steps=2, temperature=0), ValueError,
        ["generate: the model's logits are NaN", "rows", "embedding"]),
    "no cache": (lambda: generate(serial(Embedding(N, 8), xnn.elementwise(nn.softmax, axis=1)),
                                  Embedding(N, 8).init(KEY, (1, 1)), PROMPT, steps=1, temperature=0), TypeError,
                 ["the layer has no cache of earlier positions", "whole(encoder)"]),
    "encoder that is not whole": (lambda: of_source(attending, Encoder()), TypeError, []),
    "encoder without a cache": (lambda: of_source(attending, Encoder(bidirectional=True)), TypeError,
                                ["the layer has no cache", "whole(encoder)"]),
    "whole for the generated tokens": (lambda: of_tokens(whole(MultiHeadAttention(8, 2))), TypeError,
                                       ["whole: the layer has its whole input", "MultiHeadAttention", "f32[2,1,8]"]),
    "whole without its input": (lambda: whole(Dense(2)).apply_with_cache((), {}, None), TypeError,
                                ["whole: there is no input", "Dense(n_out=2)"]),
    "context kept for attention": (lambda: of_source(attending, whole(Encoder(), keep=True), source_mask=SOURCE_MASK),
                                   TypeError, ["generate: the cache of the model changes", "without keep=True"]),
}


def of_source(forward, encoder, **inputs):
    model = SequenceModel(forward, encoder)
    return generate(model, drawn_params(model, (2, 1), source=SOURCE.shape), START, steps=2, temperature=0,
                    source=SOURCE, **inputs)


def of_tokens(layer):
    model = serial(Embedding(N, 8), layer, Dense(N))
    return generate(model, drawn_params(model, (2, 1)), START, steps=2, temperature=0)


def test_an_error_after_the_prompt_names_the_inputs_that_are_none():
    with pytest.raises(AttributeError) as caught:
        of_source(looking_up, whole(composite(reading_with_mask, embed=Embedding(N, 8), scan=GRU(8))))
    assert "the inputs source are None" in caught.value.__notes__[-1]
    assert "whole(layer, keep=True)" in caught.value.__notes__[-1]


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name):
    assert_refused(*WRONG[name])
