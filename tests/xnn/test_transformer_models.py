"""Transformer models: published parameter counts, generation with caches, padding."""

import numpy as np
import pytest

import xjax
import xnn
from tests.sampling import one_in
from tests.xnn.drawn_params import drawn_params
from xjax import random, tree_util
from xnn.layer import init_types
from xnn.models import BERT, GPT2, T5, BERTConfig, GPT2Config, Llama, LlamaConfig, T5Config, ViT, ViTConfig

SMALL = {
    "GPT2": GPT2(GPT2Config(vocabulary=11, length=9, features=8, layers=2, heads=2)),
    "Llama": Llama(LlamaConfig(vocabulary=11, features=8, hidden=12, layers=2, heads=4, kv_heads=2)),
    "Llama, tied": Llama(LlamaConfig(vocabulary=11, features=8, hidden=12, layers=2, heads=2, kv_heads=1, tied=True)),
}


def drawn_tokens(batch, length, seed=1):
    return np.random.default_rng(seed).integers(0, 11, (batch, length)).astype(np.int32)


@pytest.mark.parametrize(("model", "shape", "count"), [
    (GPT2(), (1, 8), 124_439_808),
    (GPT2(GPT2Config(features=1600, layers=48, heads=25)), (1, 8), 1_557_611_200),
    (BERT(), (1, 8), 109_482_240),
    (ViT(), (1, 224, 224, 3), 86_567_656),
    (Llama(), (1, 8), 8_030_261_248),
], ids=["GPT-2", "GPT-2 XL", "BERT base", "ViT-B/16", "Llama 3.1 8B"])
def test_parameter_counts_are_those_published(model, shape, count):
    _, params = init_types(model, shape)
    assert sum(leaf.size for leaf in tree_util.tree_leaves(params)) == count


@pytest.mark.parametrize("name", one_in(2, SMALL))
def test_generation_with_a_cache_and_padding(name):
    model = SMALL[name]
    shape, params = init_types(model, (2, 6))[0], drawn_params(model, (2, 6))
    tokens = drawn_tokens(1, 6)
    whole = np.asarray(xjax.jit(model.apply)(params, tokens))
    assert shape == (2, 6, 11)
    prompt, padding = tokens[:, :3], np.zeros((1, 2), np.int32)
    batch = np.concatenate([np.concatenate([padding, prompt], 1), np.concatenate([prompt, padding], 1)])
    mask = np.array([[False] * 2 + [True] * 3, [True] * 3 + [False] * 2])
    step = xjax.jit(model.apply_with_cache)
    y, cache = step(params, model.init_cache(2, 8), batch, mask=mask)
    np.testing.assert_allclose(np.asarray(y)[mask].reshape(2, 3, 11), np.repeat(whole[:, :3], 2, 0), atol=2e-5)
    for t in range(3, 6):
        y, cache = step(params, cache, np.concatenate([tokens[:, t:t + 1]] * 2))
        np.testing.assert_allclose(y, np.repeat(whole[:, t:t + 1], 2, 0), atol=2e-5)


def test_t5_generates_from_one_encoding():
    model = T5(T5Config(vocabulary=11, features=8, hidden=12, layers=2, heads=2, head_size=3, gated=True))
    params = drawn_params(model, (2, 6), source=(2, 5))
    source, tokens = drawn_tokens(2, 5), drawn_tokens(2, 6, seed=2)
    mask = np.array([[True] * 3 + [False] * 2, [True] * 5])
    whole = xjax.jit(model.apply)(params, tokens, source, source_mask=mask)
    step = xjax.jit(model.apply_with_cache)
    y, cache = step(params, model.init_cache(2, 6), tokens[:, :4], source, source_mask=mask)
    following, _ = step(params, cache, tokens[:, 4:], None)
    np.testing.assert_allclose(np.concatenate([y, following], 1), whole, atol=2e-4)     # logits up to 30


def test_t5_small_has_as_many_parameters_as_published():
    _, params = init_types(T5(), (1, 8), source=(1, 8))
    assert sum(leaf.size for leaf in tree_util.tree_leaves(params)) == 60_506_624


def test_bert_does_not_see_padding():
    model = BERT(BERTConfig(vocabulary=11, length=9, features=8, hidden=12, layers=2, heads=2))
    params = drawn_params(model, (2, 6))
    tokens = drawn_tokens(2, 6)
    mask = np.array([[True] * 4 + [False] * 2] * 2)
    (y, pooled), (alone, alone_pooled) = xjax.jit(lambda params, tokens: (
        model.apply(params, tokens, mask=mask), model.apply(params, tokens[:, :4])))(params, tokens)
    np.testing.assert_allclose(np.asarray(y)[:, :4], alone, atol=2e-5)
    np.testing.assert_allclose(pooled, alone_pooled, atol=2e-5)


def test_vit_sees_patches_row_by_row():
    config = ViTConfig(classes=3, image=4, patch=2, features=8, hidden=12, layers=1, heads=2)
    model = ViT(config)
    shape, params = init_types(model, (-1, 4, 4, 1))[0], drawn_params(model, (-1, 4, 4, 1))
    assert shape == (-1, 3)
    images = np.random.default_rng(1).normal(size=(2, 4, 4, 1)).astype(np.float32)
    run = xjax.jit(model.apply)
    swapped = np.concatenate([images[:, :, 2:], images[:, :, :2]], 2)          # columns of patches are exchanged
    moved = {**params, "positions": {"table": np.asarray(params["positions"]["table"])[[0, 2, 1, 4, 3]]}}
    np.testing.assert_allclose(run(moved, swapped), run(params, images), atol=2e-5)
    with pytest.raises(TypeError, match="the size in the config"):
        model.apply(params, images[:, :2])
    with pytest.raises(ValueError, match="multiple of the patch size"):
        ViT(ViTConfig(image=5, patch=2))


def test_initial_products_of_t5_have_variance_1():
    """Its products are not scaled, so the initial query is smaller by the root of the size of a head."""
    _, params = T5(T5Config(vocabulary=11, features=64, hidden=16, layers=2, heads=4, head_size=16)).init(
        random.key(0), (1, 8), source=(1, 8))
    for name in ("attention", "cross"):
        weights = {key: leaf for key, leaf in xnn.params.paths(params["body"]["blocks"]).items() if name in key}
        query, key = (next(w for path, w in weights.items() if f"/{part}/w" in path) for part in ("query", "key"))
        x = np.random.default_rng(0).normal(size=(50, 64))
        products = np.einsum("lth,lsh->lts", x @ query[:, :, :16], x @ key[:, :, :16])
        np.testing.assert_allclose(np.std(products), 1, 0.15)
