"""Decoders of transformers (`tests/xnn/peers/pretrained_decoders.py`): Mistral, Qwen, Gemma, and scalings of positions.

The prompts are longer than the windows of the models, and the sequences longer than the original contexts.
"""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import xjax
import xnn
from tests.compare import assert_same
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import tree_util
from xnn import pretrained, safetensors
from xnn.models import Llama, LlamaConfig

FOLDERS = Path(__file__).parent / "peers" / "pretrained"
LANGUAGE = ["mistral", "llama_bias", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "rope"]
OTHERS = ["llama_sequence", "mistral_base", "gemma3_sequence", "qwen2_token"]
KINDS = ["dynamic", "linear", "llama3", "yarn, options", "yarn", "yarn, mscale", "longrope"]


def arrays(name):
    return np.load(FOLDERS / name / "arrays.npz")


def outputs(folder, x, **inputs):
    model, params, *_ = pretrained.load(folder)
    return xjax.jit(model.apply)(params, x.astype(np.int32), **inputs)


@pytest.mark.parametrize("name", one_in(2, LANGUAGE + OTHERS))
def test_outputs_are_those_of_transformers(name):
    """The tolerance is that of float32 sums in another order."""
    np.testing.assert_allclose(outputs(FOLDERS / name, arrays(name)["x"]), arrays(name)["y"], atol=2e-5)


@pytest.mark.parametrize("name", one_in(2, OTHERS))
def test_outputs_with_padding_on_the_right(name):
    x, want = arrays(name)["padded"], arrays(name)["padded_y"]
    got = np.asarray(outputs(FOLDERS / name, x, mask=x != 0))
    if name.endswith("sequence"):                        # the folder has the token of padding, which is on the right
        np.testing.assert_allclose(outputs(FOLDERS / name, x), want, atol=2e-5)
    kept = (x != 0) if got.ndim == 3 else np.ones(len(x), bool)
    np.testing.assert_allclose(got[kept], want[kept], atol=2e-5)


@pytest.mark.parametrize("name", one_in(6, LANGUAGE))
def test_greedy_generation_with_padding_on_the_left(name):
    model, params, *_ = pretrained.load(FOLDERS / name)
    x, mask = arrays(name)["x"].astype(np.int32), np.array([[False] * 2 + [True] * 7, [True] * 9])
    got = xnn.generate(model, params, x, steps=8, temperature=0, mask=mask).tokens
    np.testing.assert_array_equal(got, arrays(name)["greedy"][:, 9:])


@pytest.mark.parametrize("kind", one_in(3, KINDS))
def test_scaled_positions(kind, tmp_path):
    """Sequences within and beyond the original context, and generation with a cache."""
    wanted = np.load(FOLDERS / "rope" / "ropes.npz")
    settings = json.loads((FOLDERS / "rope" / "ropes.json").read_text())[kind]
    model, params, _, config = pretrained.load(changed("rope", tmp_path / "theirs", rope_parameters=settings))
    x = wanted["x"].astype(np.int32)
    np.testing.assert_allclose(model.apply(params, x), wanted[f"{kind} y"], atol=2e-5)
    np.testing.assert_allclose(model.apply(params, x[:, :5]), wanted[f"{kind} short"], atol=2e-5)
    got = xnn.generate(model, params, x, steps=8, temperature=0).tokens
    np.testing.assert_array_equal(got, wanted[f"{kind} greedy"][:, 12:])
    pretrained.save(tmp_path / "ours", config, params)
    assert pretrained.load(tmp_path / "ours").config.scaling == config.scaling


@pytest.mark.parametrize("name", one_in(3, LANGUAGE + OTHERS))
def test_what_is_saved_is_what_was_loaded(name, tmp_path):
    model, params, _, config = pretrained.load(FOLDERS / name)
    half = tree_util.tree_map(lambda leaf: leaf.astype(xjax.numpy.bfloat16), params)
    for dtype, weights in (("float32", params), ("bfloat16", half)):
        pretrained.save(tmp_path, config, weights)
        again = pretrained.load(tmp_path)
        assert dataclasses.replace(again.config, head_size=config.head_size) == config
        assert_same(again.params, weights, tol=0)
        written, theirs = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path, FOLDERS / name))
        assert written["model_type"] == theirs["model_type"] and written["architectures"] == theirs["architectures"]
        assert written["dtype"] == dtype
    assert sorted(safetensors.read(tmp_path / "model.safetensors").tensors) == sorted(
        safetensors.read(FOLDERS / name / "model.safetensors").tensors)


def changed(name, to, **settings):
    """A copy of a folder with other settings; None removes one."""
    shutil.copytree(FOLDERS / name, to)
    file = to / "config.json"
    all_settings = {**json.loads(file.read_text()), **settings}
    file.write_text(json.dumps({key: value for key, value in all_settings.items() if value is not None}))
    return to


def test_the_base_of_a_folder_with_an_output_layer():
    """The features that its output layer gets."""
    x = arrays("mistral")["x"].astype(np.int32)
    with pytest.warns(UserWarning, match="unused tensors  lm_head.weight"):
        base, params, *_ = pretrained.load(FOLDERS / "mistral", architecture="MistralModel")
    head = pretrained.load(FOLDERS / "mistral").params["logits"]["w"]
    np.testing.assert_allclose(base.apply(params, x) @ head, arrays("mistral")["y"], atol=2e-5)


WRONG = {
    "architecture": ("mistral", {"architectures": ["MistralForQuestionAnswering"]},
                     ["'MistralForQuestionAnswering' is not supported", "MistralForCausalLM, MistralModel"]),
    "model type": ("mistral", {"model_type": "mixtral"}, ["'mixtral' is not supported", "llama, mistral, qwen2"]),
    "activation": ("mistral", {"hidden_act": "relu"}, ["'relu' is not supported", "silu"]),
    "rope kind": ("rope", {"rope_parameters": {"rope_type": "su"}}, ["'su' of rotary", "linear, dynamic, yarn"]),
    "rope part": ("rope", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "of 1"),
    "rope number": ("rope", {"rope_parameters": {"rope_type": "llama3", "factor": 2.0}},
                    "needs low_freq_factor, high_freq_factor"),
    "divisors": ("rope", {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}},
                 "4 pairs of features need as many divisors"),
    "layer type": ("gemma2", {"layer_types": ["chunked_attention"] * 3}, ["chunked_attention", "sliding_attention"]),
    "both ways": ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention  True"),
    "quantised": ("llama_bias", {"quantization_config": {"quant_method": "gptq", "bits": 4}},
                  ["quantised", "gptq", "original weights"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_settings_that_are_not_supported(case, tmp_path):
    name, settings, texts = WRONG[case]
    folder = changed(name, tmp_path / "folder", **settings)
    assert_refused(lambda: pretrained.load(folder), ValueError, texts)


@pytest.mark.parametrize("name", ["self_attn.q_proj.qweight", "self_attn.q_proj.weight.absmax", "mlp.up_proj.SCB",
                                  "mlp.up_proj.weight_scale_inv"])
def test_quantised_tensors_are_refused_by_name(name, tmp_path):
    folder = changed("qwen3", tmp_path / "folder")
    tensors = dict(safetensors.read(folder / "model.safetensors").tensors)
    tensors[f"model.layers.0.{name}"] = np.zeros(3, np.uint8)
    (folder / "model.safetensors").unlink()
    safetensors.write(folder / "model.safetensors", tensors)
    assert_refused(lambda: pretrained.load(folder), ValueError, ["quantised", f"1 of {len(tensors)}", name])


OLD_SETTINGS = {      # of transformers 4: the same model, other settings; None removes one
    "rope": ("rope", {"rope_parameters": None, "rope_theta": 5e3, "rope_scaling": {"type": "linear", "factor": 2.0}},
             {"base": 5e3, "scaling": xnn.LinearScaling(2.0)}),
    "qwen": ("qwen2", {"layer_types": None, "max_window_layers": 1}, {"window": 3, "local": (False, True)}),
    "qwen without window": ("qwen2", {"layer_types": None, "use_sliding_window": False},
                            {"window": None, "local": None}),
    "gemma": ("gemma", {"hidden_act": "gelu", "hidden_activation": None}, {"activation": "gelu"}),
    "gemma2": ("gemma2", {"layer_types": None}, {"local": (True, False, True), "window": 3}),
    "gemma3": ("gemma3", {"layer_types": None, "sliding_window_pattern": 2, "rope_parameters": None, "rope_theta": 1e5,
                          "rope_local_base_freq": 100.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
               {"base": 1e5, "local_base": 100.0, "scaling": xnn.LinearScaling(4.0), "local": (True, False, True)}),
}


@pytest.mark.parametrize("case", OLD_SETTINGS)
def test_settings_of_earlier_versions(case, tmp_path):
    name, settings, wanted = OLD_SETTINGS[case]
    config = pretrained.load(changed(name, tmp_path / "folder", **settings)).config
    assert {field: getattr(config, field) for field in wanted} == wanted


def test_options_that_no_model_type_has(tmp_path):
    config = LlamaConfig(head_norm=True, embedding_scale=True)
    assert_refused(lambda: pretrained.save(tmp_path, config, {}), ValueError,
                   ["no model type of the format has these options", "llama, mistral"])


def test_one_local_flag_for_each_layer():
    config = LlamaConfig(layers=3, window=4, local=(True, False))
    assert_refused(lambda: Llama(config), ValueError, "one entry for each layer")
