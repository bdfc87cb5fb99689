"""Encoders and heads of transformers (`tests/xnn/peers/pretrained_encoders.py`), and new heads for fine-tuning."""

import dataclasses
import json
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_same
from tests.refusals import assert_refused
from xjax import random, tree_util
from xnn import pretrained, safetensors
from xnn.models import BERT, GPT2, BERTConfig, GPT2Config

FOLDERS = Path(__file__).parent / "peers" / "pretrained"
TEXTS = ["bert_vectors", "bert_masked", "bert_classes", "bert_token_classes", "bert_answers", "roberta",
         "roberta_vectors", "roberta_masked", "roberta_classes", "roberta_token_classes", "roberta_answers",
         "xlm_roberta_masked", "distilbert", "distilbert_masked", "distilbert_classes", "distilbert_token_classes",
         "distilbert_answers", "gpt2_vectors", "gpt2_classes", "t5_encoder"]
NAMES = [*TEXTS, "vit_pooler", "vit_vectors", "resnet_features"]


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def mostly_slow(values, *fast):
    return [value if value in fast else slow(value) for value in values]


def load(name, **options):
    """The model, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return pretrained.load(FOLDERS / name, **options)


def arrays(name):
    return np.load(FOLDERS / name / "arrays.npz")


@pytest.mark.parametrize("name", mostly_slow(
    NAMES, "bert_vectors", "bert_masked", "bert_classes", "roberta", "distilbert_answers", "gpt2_classes", "t5_encoder",
    "vit_pooler", "resnet_features"))
def test_outputs_are_those_of_transformers(name):
    """With padding and token types. Vectors of padding are not compared: their positions differ, nothing uses them."""
    model, params, state, _ = load(name)
    data = arrays(name)
    if "input_ids" in data:
        mask = data["attention_mask"].astype(bool)
        inputs = {"mask": mask, **({"token_types": data["token_type_ids"]} if "token_type_ids" in data else {})}
        x, kept = data["input_ids"].astype(np.int32), mask
    else:
        x, inputs, kept = np.moveaxis(data["pixel_values"], 1, -1), {}, None
    y, _ = xjax.jit(lambda params, state, x, inputs: model.apply_with_state(params, state, x, **inputs))(
        params, state, x, inputs)
    compare(y, data, "y", kept)


@pytest.mark.parametrize("name", mostly_slow(TEXTS, "roberta_classes", "gpt2_classes"))
def test_outputs_without_a_mask_and_token_types(name):
    """RoBERTa counts positions, and GPT-2 finds the last token, by the token of padding."""
    model, params, *_ = load(name)
    compare(xjax.jit(model.apply)(params, arrays(name)["input_ids"].astype(np.int32)), arrays(name), "alone", None)


def compare(y, data, key, kept):
    outputs = y if isinstance(y, tuple) else (y,)
    assert len(outputs) == sum(name.startswith(key) for name in data.files)
    for i, output in enumerate(outputs):
        want = np.moveaxis(data[f"{key}{i}"], 1, -1) if data[f"{key}{i}"].ndim == 4 else data[f"{key}{i}"]
        rows = kept if kept is not None and want.shape[:2] == kept.shape else ...
        np.testing.assert_allclose(np.asarray(output)[rows], want[rows], atol=2e-5)


@pytest.mark.parametrize("name", mostly_slow(
    NAMES, "bert_masked", "roberta_classes", "distilbert_masked", "gpt2_vectors", "t5_encoder", "vit_pooler"))
def test_what_is_saved_is_what_was_loaded(name, tmp_path):
    model, params, state, config = load(name)
    pretrained.save(tmp_path, config, params, state)
    again = pretrained.load(tmp_path)
    assert again.config == config and repr(again.model) == repr(model)
    assert_same((again.params, again.state), (params, state), tol=0)
    theirs, ours = ({key: np.asarray(tensor) for key, tensor in safetensors.read(
        folder / "model.safetensors").tensors.items()} for folder in (FOLDERS / name, tmp_path))
    assert_same(ours, theirs, tol=0)
    settings, written = (json.loads((folder / "config.json").read_text()) for folder in (FOLDERS / name, tmp_path))
    if name != "xlm_roberta_masked":                          # it is RoBERTa under another name
        assert (written["model_type"], written["architectures"]) == (settings["model_type"], settings["architectures"])


# -- another head ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "new", "unused"), [
    ("bert", ["logits/w", "logits/b"], []),
    ("bert_vectors", ["pooler/w", "pooler/b", "logits/w", "logits/b"], []),
    slow("bert_masked", ["pooler/w", "pooler/b", "logits/w", "logits/b"], [
        "cls.predictions.transform.dense.weight", "cls.predictions.bias"]),
    slow("bert_classes", ["logits/w", "logits/b"], ["classifier.weight", "classifier.bias"]),
    slow("roberta", ["pooler/w", "pooler/b", "logits/w", "logits/b"], ["pooler.dense.weight", "pooler.dense.bias"]),
    slow("distilbert", ["pooler/w", "pooler/b", "logits/w", "logits/b"], []),
    slow("gpt2", ["logits/w"], []),
    slow("mistral", ["logits/w"], ["lm_head.weight"]),
    slow("llama_tied", ["logits/w"], []),
])
def test_a_new_classification(name, new, unused):
    """The encoder keeps its weights; a warning names the new parameters and the unused tensors."""
    with pytest.warns(UserWarning, match="pretrained.load") as said:
        model, params, _, config = pretrained.load(FOLDERS / name, head="sequence", classes=5, key=random.key(1))
    (text,) = [str(one.message) for one in said]
    assert all(name in text for name in [*new, *unused]) and ("unused tensors" in text) == bool(unused)
    ours, base = by_path(params), by_path(load(name).params)
    assert {path for path in ours if path not in base or ours[path].shape != base[path].shape} <= {*new} <= ours.keys()
    assert all(np.std(ours[path]) > 0 for path in new if path.endswith("w"))
    for path in ours.keys() - {*new}:
        np.testing.assert_array_equal(ours[path], base[path])
    shape = xjax.eval_shape(model.apply, params, xjax.ShapeDtypeStruct((2, 4), "int32")).shape
    assert shape == (2, 5) and config.classes == 5


def by_path(params):
    """Leaves by path, without the parts that shared parameters add."""
    return {path.removeprefix("shared/").removeprefix("body/"): leaf for path, leaf in xnn.params.paths(params).items()}


def test_a_new_head_trains_and_is_saved(tmp_path):
    with pytest.warns(UserWarning, match="new parameters  logits/w, logits/b\n  unused tensors  pooler.dense.bias,"):
        model, params, _, config = pretrained.load(FOLDERS / "bert", head="token", classes=4,
                                                   key=random.key(0))
    tokens = np.array([[2, 3, 4, 5]])

    def loss(params):
        return -jnp.mean(xjax.nn.log_softmax(model.apply(params, tokens))[..., 1])

    value, slopes = xjax.jit(xjax.value_and_grad(loss))(params)
    moved = tree_util.tree_map(lambda leaf, slope: leaf - 0.1 * slope, params, slopes)
    assert loss(moved) < value
    pretrained.save(tmp_path, config, moved)
    again = pretrained.load(tmp_path)
    assert again.config == config
    assert_same(again.params, moved, tol=0)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BertForTokenClassification"]


def test_new_parameters_have_the_dtype_of_the_others(tmp_path):
    _, params, _, config = load("bert")
    pretrained.save(tmp_path, config, tree_util.tree_map(lambda leaf: leaf.astype(jnp.bfloat16), params))
    with pytest.warns(UserWarning, match="new parameters"):
        new = pretrained.load(tmp_path, head="answer", key=random.key(0)).params
    assert {str(leaf.dtype) for leaf in tree_util.tree_leaves(new)} == {"bfloat16"}


def test_parts_of_a_model():
    """The encoder of an encoder-decoder, the vectors below an output layer; a warning names the unused tensors."""
    with pytest.warns(UserWarning, match=r"unused tensors  decoder.*\(\d+ in all\)"):
        encoder, params, *_ = pretrained.load(FOLDERS / "t5", decoder=False)
    _, whole, *_ = load("t5")
    assert_same(params["blocks"], whole["body"]["encoder"]["blocks"], tol=0)
    assert_same(params["tokens"], whole["shared"]["tokens"], tol=0)
    assert xjax.eval_shape(encoder.apply, params, np.ones((1, 3), np.int32)).shape == (1, 3, 8)
    assert load("gpt2", head="none").config == dataclasses.replace(load("gpt2").config, head="none")
    with pytest.warns(UserWarning, match=r"unused tensors  classifier.1.bias, classifier.1.weight"):
        assert pretrained.load(FOLDERS / "resnet", head="none").config.head == "none"


@pytest.mark.parametrize(("name", "options", "error", "texts"), [
    ("bert", {"head": "sequence"}, ValueError, ["classifier.weight: missing, expected [2, 8]",
                                                      "fix: pass key=random.key(0) to draw new parameters"]),
    ("bert_classes", {"classes": 5}, ValueError, ["classifier.weight: f32[3,4], expected [5, 4]", "fix: pass key="]),
    ("bert", {"clases": 5}, ValueError, ["clases", "fix: did you mean 'classes'?"]),
    ("bert", {"head": "labels"}, ValueError, ["BERT: unknown head 'labels'", "'masked_token'"]),
    ("bert", {"features": 12, "key": random.key(0)}, ValueError, [
        "word_embeddings.weight: f32[11,8], expected [11, 12]", "fix: load the files that belong to config.json."]),
])
def test_what_cannot_be_loaded(name, options, error, texts):
    assert_refused(lambda: pretrained.load(FOLDERS / name, **options), error, texts)


# -- names in files ----------------------------------------------------------------------------------------------------


def changed(tmp_path, name, tensors=None, **settings):
    """The folder with other settings, and tensors that `tensors` changes; a setting None is left out."""
    shutil.copytree(FOLDERS / name, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "config.json"
    texts = {**json.loads(file.read_text()), **settings}
    file.write_text(json.dumps({key: value for key, value in texts.items() if value is not None}))
    if tensors:
        stored = {key: np.array(tensor) for key, tensor in safetensors.read(
            tmp_path / "model.safetensors").tensors.items()}
        (tmp_path / "model.safetensors").unlink()
        safetensors.write(tmp_path / "model.safetensors", tensors(stored))
    return tmp_path


@pytest.mark.parametrize("name", mostly_slow(["bert_vectors", "bert_classes", "roberta_masked", "distilbert",
                                              "gpt2_classes", "vit_pooler"], "roberta_masked"))
@pytest.mark.parametrize("prefix", mostly_slow(
    ["", "own.", "model.", "model.own.", "module.own.", "_orig_mod.module.own."], "", "model.own."))
def test_prefixes_of_names(tmp_path, name, prefix):
    """Files of a base and of a model with a head, of classes that hold a model, and of compiled or parallel models."""
    own = {"bert": "bert.", "robe": "roberta.", "dist": "distilbert.", "gpt2": "transformer.", "vit_": "vit."}[name[:4]]

    def renamed(tensors):
        return {prefix.replace("own.", own) + key.removeprefix(own): tensor for key, tensor in tensors.items()}

    assert_same(pretrained.load(changed(tmp_path, name, renamed)).params, load(name).params, tol=0)


@pytest.mark.parametrize("name", mostly_slow(["bert_masked", "roberta_masked", "distilbert_masked"], "bert_masked"))
def test_names_of_norms_in_early_files(tmp_path, name):
    def renamed(tensors):
        early = {"weight": "gamma", "bias": "beta"}
        return {re.sub(r"(?i)(?<=norm\.)(weight|bias)$", lambda match: early[match[1]], key): tensor
                for key, tensor in tensors.items()}

    folder = changed(tmp_path, name, renamed)
    assert any(key.endswith("gamma") for key in safetensors.read(folder / "model.safetensors").tensors)
    assert_same(pretrained.load(folder).params, load(name).params, tol=0)


@pytest.mark.parametrize(("name", "copies"), [
    ("bert_masked", {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
                     "cls.predictions.decoder.bias": "cls.predictions.bias"}),
    slow("roberta_masked", {"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
                            "lm_head.decoder.bias": "lm_head.bias"}),
    slow("distilbert_masked", {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"}),
    ("t5_encoder", {"encoder.embed_tokens.weight": "shared.weight"}),
])
def test_copies_of_tied_tensors(tmp_path, name, copies):
    """A copy is read if it is equal, and if the original is missing."""
    want = load(name).params

    def with_copies(tensors):
        return {**tensors, **{copy: tensors[original] for copy, original in copies.items()}}

    def only_copies(tensors):
        return {key: tensor for key, tensor in with_copies(tensors).items() if key not in copies.values()}

    def other(tensors):
        return {**tensors, **{copy: tensors[original] + 1 for copy, original in copies.items()}}

    assert_same(pretrained.load(changed(tmp_path / "both", name, with_copies)).params, want, tol=0)
    assert_same(pretrained.load(changed(tmp_path / "one", name, only_copies)).params, want, tol=0)
    with pytest.raises(ValueError, match=f"{next(iter(copies))}: f32.*not in the model"):
        pretrained.load(changed(tmp_path / "other", name, other))


def test_two_tensors_of_one_name_are_refused(tmp_path):
    def twice(tensors):
        return {**tensors, "model.score.weight": tensors["score.weight"]}

    assert_refused(lambda: pretrained.load(changed(tmp_path, "gpt2_classes", twice)), ValueError,
                   ["several tensors for one", "model.score.weight, score.weight", "fix:"])


def test_classes_of_models(tmp_path):
    """A class that is not known is refused unless the head is chosen; without a class, it is the first of the table."""
    folder = changed(tmp_path / "unknown", "bert", architectures=["BertForNextSentencePrediction"])
    assert_refused(lambda: pretrained.load(folder), ValueError, [
        "'BertForNextSentencePrediction' is not supported", "BertForMaskedLM",
        "choose the outputs: load(folder, head=...)"])
    assert_same(pretrained.load(folder, head="pooler").params, load("bert").params, tol=0)
    assert pretrained.load(changed(tmp_path / "none", "bert_vectors", architectures=None)).config.head == "none"
    folder = changed(tmp_path / "both", "bert", lambda tensors: {
        **tensors, "cls.seq_relationship.weight": np.zeros((2, 8), np.float32)}, architectures=["BertForPreTraining"])
    with pytest.warns(UserWarning, match="cls.seq_relationship.weight"):
        assert pretrained.load(folder).config.head == "pooler"


# -- models ------------------------------------------------------------------------------------------------------------


def test_options_of_bert(key, tmp_path):
    small = BERTConfig(vocabulary=11, length=9, features=4, hidden=6, layers=1, heads=2, types=0)
    model = BERT(small)
    _, params = xjax.jit(lambda key: model.init(key, (1, 3)))(key)
    assert "types" not in params
    with pytest.raises(TypeError, match=r"(?s)no token types.*fix:"):
        model.apply(params, np.ones((1, 3), np.int32), token_types=np.ones((1, 3), np.int32))
    assert_refused(lambda: pretrained.save(tmp_path, small, params), ValueError,
                   ["no model type", "distilbert", "fix:"])
    assert (BERTConfig(length=514, padding=1).positions, BERTConfig().positions) == (512, 512)


def test_a_classification_reads_the_last_token_that_the_mask_keeps(key):
    model = GPT2(GPT2Config(vocabulary=11, length=9, features=4, layers=1, heads=2, head="sequence"))
    _, params = xjax.jit(lambda key: model.init(key, (1, 3)))(key)
    apply = xjax.jit(model.apply)
    alone = apply(params, np.array([[3, 4, 5]]))
    tokens, mask = np.array([[3, 4, 5, 0], [0, 3, 4, 5]]), np.array([[1, 1, 1, 0], [0, 1, 1, 1]], bool)
    # float32: two orders of the same sums
    np.testing.assert_allclose(apply(params, tokens, mask=mask), np.repeat(alone, 2, 0), atol=1e-6)
