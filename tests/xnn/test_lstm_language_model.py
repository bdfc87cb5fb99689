"""The LSTM language model: parameters, generation, text in parts, training."""

import dataclasses

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close
from tests.refusals import assert_refused
from tests.xnn.drawn_params import drawn_params
from xjax import lax, random
from xnn import losses, metrics
from xnn.models import LSTMLanguageModel, LSTMLanguageModelConfig

CONFIG = LSTMLanguageModelConfig(vocabulary=7, features=8)
TOKENS = jnp.asarray(np.random.default_rng(1).integers(0, 7, (2, 6)), "int32")


def made(config, **changes):
    model = LSTMLanguageModel(dataclasses.replace(config, **changes))
    return model, drawn_params(model, TOKENS)


def test_number_of_parameters():
    """The small model of Zaremba et al., tied; a layer has one bias of 4 * 200 numbers in place of two."""
    tied, apart = LSTMLanguageModelConfig(), LSTMLanguageModelConfig(tied=False)
    count = lambda config: xnn.params.count(xjax.eval_shape(
        lambda: LSTMLanguageModel(config).init(random.key(0), TOKENS)[1]))
    table, lstm = 10_000 * 200, 2 * (200 + 200 + 1) * 4 * 200
    assert count(tied) == table + lstm and count(apart) == 2 * table + 10_000 + lstm
    assert " at 0x" not in repr(LSTMLanguageModel(CONFIG))


@pytest.mark.parametrize("tied", [True, False])
def test_greedy_generation_with_a_cache_is_that_without(tied):
    model, params = made(CONFIG, tied=tied)
    def step(state, _):
        logits, cache = state
        token = jnp.argmax(logits[:, -1:], -1).astype(TOKENS.dtype)
        return model.apply_with_cache(params, cache, token), token[:, 0]

    @xjax.jit
    def generate(prompt):
        logits, cache = model.apply_with_cache(params, model.init_cache(2, 11), prompt)
        return lax.scan(step, (logits[:, -1:], cache), None, length=5)[1]

    generated = np.asarray(generate(TOKENS)).T
    tokens = np.concatenate([TOKENS, generated], 1)
    logits = xjax.jit(model.apply)(params, tokens[:, :-1])
    np.testing.assert_array_equal(np.argmax(logits, -1)[:, 5:], generated)


def test_a_text_in_parts_is_the_whole():
    model, params = made(CONFIG, return_carry=True)
    @xjax.jit
    def computed(params, tokens):
        start, carry = model.apply(params, tokens[:, :4])
        return model.apply(params, tokens), start, model.apply(params, tokens[:, 4:], carry=carry)

    (whole, last), start, (end, carry) = computed(params, TOKENS)
    assert_close((np.concatenate([start, end], 1), carry), (whole, last), tol=0.125)


def test_padding_does_not_reach_the_loss():
    model, params = made(CONFIG)
    lengths, counts = np.array([6, 3]), np.arange(6)[None] < np.array([[6], [3]])
    loss = xjax.jit(lambda tokens: losses.cross_entropy(model.apply(params, tokens, lengths=lengths), TOKENS,
                                                        weights=counts))
    other = np.array(TOKENS)
    other[1, 3:] = 0
    assert loss(TOKENS) == loss(other)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [None, "bfloat16"])
def test_training_learns_a_text(precision):
    model = LSTMLanguageModel(dataclasses.replace(CONFIG, features=16, dropout=0.1))
    model = xnn.with_precision(model, precision) if precision else model
    text = jnp.asarray([[0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 6, 5, 4, 3]] * 4)
    _, params = model.init(random.key(0), text[:, :-1])
    tx = xnn.optim.adam(2e-2)

    def step(state, key):
        params, opt = state
        loss = lambda params: losses.cross_entropy(model.apply(params, text[:, :-1], rng=key, train=True), text[:, 1:])
        value, grads = xjax.value_and_grad(loss)(params)
        updates, opt = tx.update(grads, opt, params)
        return (xnn.optim.apply_updates(params, updates), opt), value

    (params, _), values = xjax.jit(lambda state: lax.scan(step, state, random.split(random.key(1), 150)))(
        (params, tx.init(params)))
    assert values[0] > 1.9                                                        # log 7 = 1.95
    assert metrics.perplexity(model.apply(params, text[:, :-1]), text[:, 1:]) < 1.2


WRONG = {
    "layers": (lambda: LSTMLanguageModel(LSTMLanguageModelConfig(layers=0)), ValueError,
               ["LSTMLanguageModel: layers must be at least 1", "0"]),
    "floats": (lambda: made(CONFIG)[0].apply(made(CONFIG)[1], jnp.ones((2, 6))), TypeError,
               ["Embedding: the input must be integers", "f32[2,6]"]),
    "dropout": (lambda: LSTMLanguageModel(LSTMLanguageModelConfig(dropout=1.0)), ValueError, ["rate", "1.0"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    assert_refused(*WRONG[name])
