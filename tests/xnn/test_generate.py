"""`generate`: greedy tokens and probabilities as in transformers, draws, stop tokens, wrong calls."""

from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import random
from xnn import Dense, pretrained
from xnn.generate import Sampling, filtered, generate

FOLDERS = Path(__file__).parent / "peers" / "pretrained"
PADDED = np.array([[False] * 2 + [True] * 4, [True] * 6])
MODEL, PARAMS, _ = pretrained.load(FOLDERS / "gpt2")
ARRAYS = np.load(FOLDERS / "gpt2" / "arrays.npz")
PROMPT = ARRAYS["x"]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_greedy_is_that_of_transformers_token_for_token(name):
    model, params, _ = pretrained.load(FOLDERS / name)
    arrays = np.load(FOLDERS / name / "arrays.npz")
    seen = []
    tokens = generate(model, params, arrays["x"], steps=8, mask=PADDED, on_token=seen.append)
    np.testing.assert_array_equal(tokens, arrays["greedy"][:, 6:])
    np.testing.assert_array_equal(np.stack(seen, 1), tokens)


def test_padding_on_the_right_and_none_give_the_same():
    right = np.concatenate([PROMPT[:1, 2:], PROMPT[:1, :2]], 1)
    tokens = generate(MODEL, PARAMS, right, steps=8, mask=PADDED[:1, ::-1])
    np.testing.assert_array_equal(tokens, ARRAYS["greedy"][:1, 6:])
    np.testing.assert_array_equal(generate(MODEL, PARAMS, PROMPT[:1, 2:], steps=8), tokens)


def test_a_row_draws_the_same_alone_and_in_a_batch():
    keys = random.split(random.key(3), 2)
    together = generate(MODEL, PARAMS, PROMPT, steps=6, rng=keys, temperature=2.0)
    alone = generate(MODEL, PARAMS, PROMPT[1:], steps=6, rng=keys[1:], temperature=2.0)
    np.testing.assert_array_equal(together[1:], alone)
    same = generate(MODEL, PARAMS, np.repeat(PROMPT[:1], 2, 0), steps=6, rng=random.key(0), temperature=2.0)
    assert not np.array_equal(same[0], same[1])


def test_draws_with_a_cache_are_those_without():
    key = random.key(5)
    tokens = generate(MODEL, PARAMS, PROMPT[:1], steps=4, rng=random.split(key, 1), top_k=5)
    text, whole = PROMPT[:1], xjax.jit(MODEL.apply)
    for i in range(4):
        logits = filtered(whole(PARAMS, text)[0, -1], Sampling(True, top_k=5))
        token = random.categorical(random.fold_in(random.split(key, 1)[0], i), logits)
        assert token == tokens[0, i]
        text = np.concatenate([text, [[int(token)]]], 1)


def test_stop_tokens_end_a_row():
    greedy = ARRAYS["greedy"][:, 6:]
    tokens = generate(MODEL, PARAMS, PROMPT, steps=8, mask=PADDED, stop=[int(greedy[0, 2])], pad=-1)
    end = int(np.argmax(greedy[0] == greedy[0, 2])) + 1
    np.testing.assert_array_equal(tokens[0, :end], greedy[0, :end])
    assert np.all(tokens[0, end:] == -1)
    steps = []
    generate(MODEL, PARAMS, PROMPT[1:], steps=8, stop=range(11), on_token=steps.append)
    assert len(steps) == 1


def by_hand(logits, temperature, top_k, top_p):
    """Probabilities after the three rules, one token at a time."""
    logits = logits / temperature
    order = np.argsort(-logits)[:top_k]
    weights = np.exp(logits[order] - logits.max())
    weights /= weights.sum()
    kept, total = [], 0.0
    for token, weight in zip(order, weights, strict=True):
        if total < top_p:
            kept.append(token)
        total += weight
    out = np.zeros_like(logits)
    out[kept] = np.exp(logits[kept] - logits.max())
    return out / out.sum()


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), [
    (0.7, None, None), (1.0, 3, None), (1.0, None, 0.6), (1.3, 5, 0.8), (1.0, 50, 1.0), (1.0, 1, 0.1)])
def test_probabilities(temperature, top_k, top_p, npr):
    for logits in npr.normal(size=(20, 11)).astype(np.float32) * 2:
        got = xjax.nn.softmax(filtered(jnp.asarray(logits), Sampling(True, temperature, top_k, top_p)))
        np.testing.assert_allclose(got, by_hand(logits, temperature, top_k or 11, top_p or 1.0), atol=1e-6)


@pytest.mark.parametrize(("options", "exc", "text"), [
    ({"prompt": PROMPT[0]}, TypeError, r"integers \[batch, time\]"),
    ({"prompt": PROMPT.astype("float32")}, TypeError, r"integers \[batch, time\]"),
    ({"steps": 0}, ValueError, "steps must be at least 1"),
    ({"temperature": 0.5}, ValueError, "no key to draw with"),
    ({"temperature": 0.0, "rng": random.key(0)}, ValueError, "temperature must be above 0"),
    ({"top_k": 0, "rng": random.key(0)}, ValueError, "top_k must be at least 1"),
    ({"top_p": 1.5, "rng": random.key(0)}, ValueError, "top_p must be in"),
    ({"rng": random.split(random.key(0), 3)}, ValueError, "not one key for each row"),
    ({"steps": 12}, ValueError, "the logits of step 11 are NaN"),
    ({"mask": PADDED[:, :3]}, TypeError, "the mask has another type"),
    ({"mask": PADDED[:, None, None]}, TypeError, "two axes"),
], ids=lambda value: "" if not isinstance(value, dict) else ",".join(value))
def test_wrong_calls(options, exc, text):
    with pytest.raises(exc, match=text):
        generate(MODEL, PARAMS, **{"prompt": PROMPT, "steps": 2, **options})


def test_a_model_without_a_cache_is_refused(key):
    model = pretrained.load(FOLDERS / "bert").model
    with pytest.raises(TypeError, match="has no cache"):
        generate(model, model.init(key, (1, 4))[1], PROMPT, steps=2)
    with pytest.raises(TypeError, match="floating-point"):
        generate(Dense(3), Dense(3).init(key, (1, 4))[1], PROMPT, steps=2)
