"""Folders of transformers (`tests/xnn/peers/pretrained.py`): equal outputs, writing them, and errors."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.refusals import assert_refused
from xjax import tree_util
from xnn import Dense, pretrained, safetensors
from xnn.models import GPT2Config, ResNet, ResNetConfig

FOLDERS = Path(__file__).parent / "peers" / "pretrained"
NAMES = ["gpt2", "llama", "llama_tied", "bert", "t5", "t5_tied", "vit", "resnet", "resnet_basic"]


def arrays(name):
    return np.load(FOLDERS / name / "arrays.npz")


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_transformers(name):
    model, params, state, _ = pretrained.load(FOLDERS / name)
    x = arrays(name)["x"]
    x = np.moveaxis(x, 1, -1) if x.ndim == 4 else x.astype(np.int32)
    inputs = (arrays(name)["decoder_input_ids"].astype(np.int32), x) if name.startswith("t5") else (x,)
    y, _ = xjax.jit(model.apply_with_state)(params, state, *inputs)
    np.testing.assert_allclose(y[0] if name == "bert" else y, arrays(name)["y"], atol=2e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_greedy_generation_token_for_token_with_padding(name):
    """A compiled step with a cache; the first row has two positions of padding on the left."""
    model, params, *_ = pretrained.load(FOLDERS / name)
    x, want = arrays(name)["x"].astype(np.int32), arrays(name)["greedy"]
    step = xjax.jit(lambda cache, tokens, mask: model.apply_with_cache(params, cache, tokens, mask=mask))
    logits, cache = step(model.init_cache(2, 14), x, np.array([[False] * 2 + [True] * 4, [True] * 6]))
    got = [x]
    for _ in range(8):
        got.append(jnp.argmax(logits[:, -1:], -1))
        logits, cache = step(cache, got[-1], np.ones((2, 1), bool))
    np.testing.assert_array_equal(np.concatenate(got, 1), want)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_is_what_was_loaded(name, tmp_path):
    model, params, state, config = pretrained.load(FOLDERS / name)
    pretrained.save(tmp_path, config, params, state)
    again = pretrained.load(tmp_path)
    assert again.config == config and repr(again.model) == repr(model)
    assert_same((again.params, again.state), (params, state), tol=0)
    files = [*(FOLDERS / name).glob("*.safetensors")]
    theirs = {key: tensor for file in files for key, tensor in safetensors.read(file).tensors.items()}
    ours = safetensors.read(tmp_path / "model.safetensors").tensors
    assert sorted(ours) == sorted(theirs)
    for key in theirs:
        np.testing.assert_array_equal(ours[key], theirs[key])


def test_half_precision_is_kept(tmp_path):
    _, params, _, config = pretrained.load(FOLDERS / "gpt2")
    half = tree_util.tree_map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    pretrained.save(tmp_path, config, half)
    again = pretrained.load(tmp_path).params
    assert {str(leaf.dtype) for leaf in tree_util.tree_leaves(again)} == {"bfloat16"}


def changed(tmp_path, tensors=None, **settings):
    """The folder of GPT-2 with other settings, or with tensors that `tensors` changes."""
    shutil.copytree(FOLDERS / "gpt2", tmp_path, dirs_exist_ok=True)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    if tensors:
        stored = safetensors.read(tmp_path / "model.safetensors").tensors
        weights = {key: np.array(tensor) for key, tensor in stored.items()}
        tensors(weights)
        (tmp_path / "model.safetensors").unlink()
        safetensors.write(tmp_path / "model.safetensors", weights)
    return tmp_path


def test_all_wrong_tensors_are_named_at_once(tmp_path):
    def spoil(weights):
        del weights["transformer.ln_f.bias"]
        weights["transformer.h.1.mlp.c_fc.weight"] = np.zeros((3, 4), np.float32)
        weights["transformer.h.2.ln_1.weight"] = np.zeros(8, np.float32)

    assert_refused(lambda: pretrained.load(changed(tmp_path, spoil)), ValueError, [
        "3 faults", "ln_f.bias: missing, expected [8]", "h.1.mlp.c_fc.weight: f32[3,4], expected [8, 32]",
        "h.2.ln_1.weight: f32[8], not in the model"])


def test_an_output_layer_that_should_be_tied_and_is_not_is_refused(tmp_path):
    def untied(weights, by=0):
        weights["lm_head.weight"] = weights["transformer.wte.weight"] + by

    pretrained.load(changed(tmp_path / "equal", untied))
    with pytest.raises(ValueError, match=r"lm_head.weight: f32\[11,8\], not in the model"):
        pretrained.load(changed(tmp_path / "other", lambda weights: untied(weights, 1)))


def test_the_first_files_of_bert_are_read(tmp_path):
    """They have heads of pretraining, and other names for the parameters of norms."""
    _, params, *_ = pretrained.load(FOLDERS / "bert")
    tensors = {"bert." + key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"):
               tensor for key, tensor in safetensors.read(FOLDERS / "bert" / "model.safetensors").tensors.items()}
    tensors["cls.predictions.bias"] = np.zeros(11, np.float32)
    shutil.copy(FOLDERS / "bert" / "config.json", tmp_path)
    safetensors.write(tmp_path / "model.safetensors", tensors)
    with pytest.warns(UserWarning, match="unused tensors  cls.predictions.bias"):
        assert_same(pretrained.load(tmp_path).params, params, tol=0)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "3"])
def test_a_config_that_is_no_json_is_refused(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match="does not contain a JSON object"):
        pretrained.load(tmp_path)


@pytest.mark.parametrize(("settings", "text"), [
    ({"scale_attn_weights": False}, "scale_attn_weights  False, supported is True"),
    ({"model_type": "mamba"}, "the model type 'mamba' is not supported"),
    ({"activation_function": "relu"}, "activation_function  'relu', supported is 'gelu_new'"),
])
def test_models_that_are_not_known_are_refused(settings, text, tmp_path):
    assert_refused(lambda: pretrained.load(changed(tmp_path, **settings)), ValueError, text)


def test_missing_and_broken_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file config.json"):
        pretrained.load(tmp_path)
    file = changed(tmp_path) / "model.safetensors"
    data = file.read_bytes()
    for broken in (b"", data[:100], data[:-8], b"\xff" * 8 + data[8:], b"\x02" + bytes(7) + b"[]"):
        file.unlink()
        file.write_bytes(broken)
        with pytest.raises(ValueError, match="not in the safetensors format"):
            pretrained.load(tmp_path)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"no file model.safetensors"):
        pretrained.load(tmp_path)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F4"])
def test_dtypes_that_are_not_read(tmp_path, dtype):
    """The file is in the format; the message names the dtype and a tensor."""
    file = changed(tmp_path) / "model.safetensors"
    header = json.dumps({"a.weight": {"dtype": dtype, "shape": [2], "data_offsets": [0, 2]}}).encode()
    file.unlink()
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
    assert_refused(lambda: pretrained.load(tmp_path), ValueError, (f"of the dtype {dtype} are not read", "a.weight"))


def test_only_parameters_of_the_config_are_saved(tmp_path, key):
    with pytest.raises(TypeError, match="do not match the config"):
        pretrained.save(tmp_path, GPT2Config(), Dense(2).init(key, (1, 3))[1])
    _, params, _, config = pretrained.load(FOLDERS / "resnet")
    with pytest.raises(TypeError, match="stem/norm/mean"):
        pretrained.save(tmp_path, config, params)
    with pytest.raises(ValueError, match="must be that of a supported model"):
        pretrained.save(tmp_path, {"vocab_size": 3}, {})


@pytest.mark.parametrize("settings", [{"layer_type": "dense"}, {"embedding_size": 4}, {"hidden_sizes": [8, 15]},
                                      {"depths": [1]}, {"downsample_in_bottleneck": True}])
def test_forms_of_resnet_that_are_not_known_are_refused(tmp_path, settings):
    shutil.copytree(FOLDERS / "resnet", tmp_path, dirs_exist_ok=True)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    with pytest.raises(ValueError, match="(?s)not supported.*fix:"):
        pretrained.load(tmp_path)


def test_a_resnet_for_small_images_has_no_layout(tmp_path):
    config = ResNetConfig(stages=((1, 4),), small_images=True)
    model = ResNet(config)
    _, params = model.init(xjax.random.key(0), (1, 8, 8, 3))
    with pytest.raises(ValueError, match="(?s)does not support a ResNet for small images.*fix:"):
        pretrained.save(tmp_path / "new", config, params, model.init_state((1, 8, 8, 3)))
    assert not (tmp_path / "new").exists()
