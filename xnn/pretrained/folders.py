"""`load` and `save`: folders with config.json and safetensors, in one file or in several files with an index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import PyTree
from xnn import safetensors
from xnn.checks import counted, type_text
from xnn.layer import Layer, Params, init_types
from xnn.params.patterns import paths, with_leaves
from xnn.pretrained.families import FAMILIES
from xnn.pretrained.families.tables import STATE, Family, Tensor


class Pretrained(NamedTuple):
    """The result of `load`: the model, its parameters and state, and the config from which the model was made.

    The state has the structure of `Layer.init_state`: the running statistics of a ResNet; other models have no state.
    """

    model: Layer
    params: Params
    state: Any
    config: Any


def load(folder: str | Path, architecture: str | None = None) -> Pretrained:
    """The model of a folder in the layout of Hugging Face.

    ``model, params, state, config = load("gpt2")``. Parameters are NumPy arrays with the dtypes of the files. No code
    in the folder is run, and no pickle is read.

    Models: GPT-2; Llama, Mistral, Qwen 2 and 3, and Gemma 1, 2 and 3 (text), which are all a `Llama` with options: the
    language model, the base model without output layer, and the classifiers of sequences and of tokens; BERT, T5, ViT
    and ResNet. Rotary positions may have the scalings linear, dynamic, yarn, llama3 and longrope.
    The pretraining heads of BERT are not read. Only one of the dropout rates, which affect training only, is read.
    Args: architecture: a class of `transformers` that the folder's output layer is left out for, such as "LlamaModel";
      None: the class of the folder.
    Raises: ValueError for an unsupported model or setting, for quantised weights, and one error for all tensors that
      are missing, unknown or of another shape. FileNotFoundError for a missing file.
    """
    folder = Path(folder)
    settings = _read_json(folder / "config.json")
    family = _family(settings.get("model_type"))
    if settings.get("quantization_config"):
        raise _quantised({"quantization_config": settings["quantization_config"]})
    stored, config = _config(family, settings, None), _config(family, settings, architecture)
    model = family.model(config)
    left_out = {one.theirs for one in family.head(stored)} - {one.theirs for one in family.head(config)}
    tensors = {_known_name(family, name): tensor for name, tensor in _tensors(folder).items()}
    tensors = {name: tensor for name, tensor in tensors.items() if name not in left_out}
    return Pretrained(model, *_weights(model, family, config, tensors), config)


def save(folder: str | Path, config: Any, params: Params, state: PyTree = ()) -> None:
    """Writes config.json and model.safetensors, which `load` and `transformers` can read.

    The format cannot store `zero_init` and `axis_name` of a ResNet, which affect training only.

    Args: config: config of the model, such as a `GPT2Config`; params, state: its parameters and running statistics.
    Raises: ValueError for a config of an unsupported model; TypeError for parameters or a state that do not match the
      model.
    """
    family, ours = _family_of(config), _leaves(params, state)
    wanted = _leaves(*_types(family, config, family.model(config)))
    shapes, expected = ({path: np.shape(leaf) for path, leaf in leaves.items()} for leaves in (ours, wanted))
    wrong = [path for path in {**shapes, **expected} if shapes.get(path) != expected.get(path)]
    if wrong:
        raise bad("pretrained.save", "the parameters or the state do not match the config",
                  {"paths": ", ".join(wrong)}, "pass the config that made the model.")
    architecture = family.architecture(config)
    prefixes = (("" if architecture == family.base else family.prefix, family.tensors), ("", family.head))
    tensors = {prefix + name: np.asarray(one.form.to_theirs([
        np.asarray(ours[path] if i is None else ours[path][i]) for path in one.ours]))
        for prefix, part in prefixes for one in part(config) for name, i in _places(one, config)}
    fields = {theirs: getattr(config, ours_name) for ours_name, theirs in family.settings.items()}
    known = {name: value for name, value in {**family.fixed, **fields}.items() if value is not None}
    settings = {"model_type": family.kind, "architectures": [architecture], **_dtype(tensors.values()), **known,
                **family.write(config)}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings, indent=2))
    safetensors.write(folder / "model.safetensors", tensors)


def _dtype(tensors: Iterable[np.ndarray]) -> dict[str, str]:
    """Their setting for the one dtype of all floats; nothing if there are several."""
    dtypes = {str(tensor.dtype) for tensor in tensors if jnp.issubdtype(tensor.dtype, np.inexact)}
    return {"dtype": dtypes.pop()} if len(dtypes) == 1 else {}


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise bad("pretrained.load", f"there is no file {file.name}", {"folder": str(file.parent)},
                  "pass the folder of a model, with config.json and *.safetensors.", FileNotFoundError)
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except (ValueError, TypeError) as err:
        raise bad("pretrained.load", f"{file.name} does not contain a JSON object", {"file": str(file), "cause": err},
                  "download it again.", ValueError) from err


def _family(kind: str) -> Family:
    if kind not in FAMILIES:
        raise bad("pretrained.load", f"the model type {kind!r} is not supported", {"supported": ", ".join(FAMILIES)},
                  "load a model of one of these types.", ValueError)
    return FAMILIES[kind]


def _family_of(config: Any) -> Family:
    """The first family that can express the config."""
    families = [family for family in FAMILIES.values() if family.config_type is type(config)]
    if not families:
        models = dict.fromkeys(family.model.__name__ for family in FAMILIES.values())
        raise bad("pretrained.save", "the config must be that of a supported model", {"config": type(config).__name__},
                  f"pass a config of {', '.join(models)}.", ValueError)
    for family in families:
        if family.fits(config) and family.architecture(config):
            return family
    raise bad("pretrained.save", "no model type of the format has these options",
              {"config": repr(config), "model types": ", ".join(family.kind for family in families)},
              "write the parameters with xnn.safetensors.", ValueError)


def _config(family: Family, settings: Mapping[str, Any], architecture: str | None) -> Any:
    """Our config from their settings; a missing setting has Hugging Face's default, which is also our default."""
    other = {name: settings[name] for name, value in family.fixed.items()
             if settings.get(name) is not None and settings[name] != value}
    if other:
        raise bad("pretrained.load", "the model has settings that are not supported",
                  {name: f"{value!r}, supported is {family.fixed[name]!r}" for name, value in other.items()},
                  "load a model with the supported settings.", ValueError)
    fields = {ours: settings[theirs] for ours, theirs in family.settings.items() if theirs in settings}
    return family.config_type(**{**fields, **family.read(settings), **_implied(family, settings, architecture)})


def _implied(family: Family, settings: Mapping[str, Any], architecture: str | None) -> Mapping[str, Any]:
    """The fields of our config that the class implies; None: the class in the settings."""
    name = architecture or next(iter(settings.get("architectures") or family.architectures))
    if name not in family.architectures:
        raise bad("pretrained.load", f"the architecture {name!r} is not supported",
                  {"model type": family.kind, "supported": ", ".join(family.architectures)},
                  "load a model of one of these architectures.", ValueError)
    return family.architectures[name]


def _tensors(folder: Path) -> dict[str, np.ndarray]:
    index = folder / "model.safetensors.index.json"
    names = sorted(set(_read_json(index)["weight_map"].values())) if index.is_file() else ["model.safetensors"]
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise bad("pretrained.load", f"there is no file {name}", {"folder": str(folder)},
                      "download all files of the model; weights in other formats are not read.", FileNotFoundError)
    parts = [safetensors.read(folder / name, "pretrained.load", "download it again; other formats are not read.")
             for name in names]
    tensors = {key: tensor for part in parts for key, tensor in part.tensors.items()}
    if quantised := [name for name in tensors if name.endswith(_QUANTISED)]:
        raise _quantised({"tensors": f"{len(quantised)} of {len(tensors)}, first {quantised[0]}"})
    return tensors


# Ends of names in files of GPTQ and AWQ, of bitsandbytes, and of weights in 8 bits or less with scales.
_QUANTISED = (".qweight", ".qzeros", ".g_idx", ".scales", ".absmax", ".quant_map", ".nested_absmax", ".SCB",
              ".weight_scale", ".weight_scale_inv", ".input_scale", ".weight_packed", ".weight_zero_point")


def _quantised(shown: Mapping[str, Any]) -> Exception:
    return bad("pretrained.load", "the weights are quantised, which is not supported", shown,
               "load the folder of the original weights, in float32, float16 or bfloat16; `dequantize()` and "
               "`save_pretrained` of transformers make one.", ValueError)


def _weights(model: Layer, family: Family, config: Any, tensors: Mapping[str, np.ndarray]) -> tuple[Params, Any]:
    """(Parameters, state) from the tensors."""
    types = _types(family, config, model)
    wanted, known = _leaves(*types), [*family.tensors(config), *family.head(config)]
    values: dict[str, list] = {path: [] for path in wanted}
    faults, used = [], set()
    for one in known:
        for name, i in _places(one, config):
            used.add(name)
            if not one.ours:
                continue
            shapes = [wanted[path].shape[i is not None:] for path in one.ours]
            expected = one.form.to_theirs([np.broadcast_to(False, shape) for shape in shapes]).shape
            if name not in tensors:
                faults.append(f"{name}: missing, expected {list(expected)}")
            elif tensors[name].shape != expected:
                faults.append(f"{name}: {type_text(tensors[name])}, expected {list(expected)}")
            else:
                for path, array in zip(one.ours, one.form.to_ours(tensors[name]), strict=True):
                    values[path].append(array)
    table = next((one.theirs for one in known if "tokens/table" in one.ours), "")
    if np.array_equal(tensors.get("lm_head.weight"), tensors.get(table)):
        used.add("lm_head.weight")                      # tied: some files contain the table twice
    unknown = [name for name in tensors if not (
        name in used or name.endswith(family.ignored) or name.startswith(family.unread))]
    faults += [f"{name}: {type_text(tensors[name])}, not in the model" for name in unknown]
    if faults:
        raise bad("pretrained.load", "the tensors do not match the model",
                  {counted(len(faults), "fault"): "\n    ".join(["", *faults])},
                  "load the files that belong to config.json.", ValueError)
    stacked = {path for one in known if "{i}" in one.theirs for path in one.ours}
    return with_leaves(types, [np.stack(parts) if path in stacked else parts[0] for path, parts in values.items()])


def _known_name(family: Family, name: str) -> str:
    """The name without its prefix, and with gamma and beta, names in early BERT files, as weight and bias."""
    start, _, last = name.removeprefix(family.prefix).rpartition(".")
    last = {"gamma": "weight", "beta": "bias"}.get(last, last) if start.endswith("LayerNorm") else last
    return f"{start}.{last}" if start else last


def _types(family: Family, config: Any, model: Layer) -> tuple[Params, Any]:
    """(Parameters, state) as types without values."""
    shape, further = family.shapes(config)
    return init_types(model, shape, **further)[1], xjax.eval_shape(lambda: model.init_state(shape, **further))


def _places(one: Tensor, config: Any) -> list[tuple[str, int | None]]:
    """(Name, number of the block or None) of each Hugging Face tensor that `one` describes."""
    if "{i}" not in one.theirs:
        return [(one.theirs, None)]
    return [(one.theirs.format(i=i), i) for i in range(config.layers)]


def _leaves(params: Params, state: PyTree) -> dict[str, Any]:
    """Leaves by path, without the parts that `with_shared` adds; paths in the state start with `STATE`."""
    ours = {path.removeprefix("shared/").removeprefix("body/"): leaf for path, leaf in paths(params).items()}
    return ours | {f"{STATE}{path}": leaf for path, leaf in paths(state).items()}
