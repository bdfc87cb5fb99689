"""`load` and `save`: folders with config.json and safetensors, in one file or in several files with an index."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax.errors import bad, check_choice
from xjax.typing import Array, PRNGKey, PyTree
from xnn import safetensors
from xnn.checks import counted, type_text
from xnn.layer import Layer, Params, init_types
from xnn.params.patterns import listing, paths, with_leaves
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


def load(folder: str | Path, architecture: str | None = None, *, key: PRNGKey | None = None, **changes: object,
         ) -> Pretrained:
    """The model of a folder in the layout of Hugging Face.

    ``model, params, state, config = load("gpt2")``. Parameters are NumPy arrays with the dtypes of the files. No code
    in the folder is run, and no pickle is read. Only one of the dropout rates, which affect training only, is read.

    Models: GPT-2; Llama, Mistral, Qwen 2 and 3, and Gemma 1, 2 and 3 (text), which are all a `Llama` with options;
    BERT, RoBERTa, XLM-RoBERTa and DistilBERT, which are all a `BERT`; T5, ViT and ResNet. Rotary positions may have the
    scalings linear, dynamic, yarn, llama3 and longrope. The outputs are those of the class that config.json names, such
    as `BertForMaskedLM`.

    To fine-tune a model, choose another output layer, whose parameters are new::

        load("bert", head="sequence", classes=5, key=random.key(0))

    A warning lists the new parameters, and the tensors of the files that the model does not use.

    Args:
      architecture: a class of `transformers` with other outputs, such as "LlamaModel"; None: the class of the folder.
      key: draws parameters of the output layer that the files do not have, or have with another shape; None: they are
        an error. They have the dtype of the others.
      changes: fields of the config, such as `head`, that replace those of the folder.
    Raises: ValueError for an unsupported model or setting, for quantised weights, and one error for all tensors that
      are missing, unknown or of another shape. FileNotFoundError for a missing file.
    """
    folder = Path(folder)
    settings = _read_json(folder / "config.json")
    family = _family(settings.get("model_type"))
    if settings.get("quantization_config"):
        raise _quantised({"quantization_config": settings["quantization_config"]})
    tensors = _with_known_names(family, _tensors(folder))
    config = _config(family, settings, tensors, architecture, changes)
    model = family.model(config)
    return Pretrained(model, *_weights(model, family, config, tensors, key), config)


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


def _config(family: Family, settings: Mapping[str, Any], tensors: Mapping[str, np.ndarray], architecture: str | None,
            changes: Mapping[str, object]) -> Any:
    """Our config from their settings; a missing setting has Hugging Face's default, which is also our default."""
    other = {name: settings[name] for name, value in family.fixed.items()
             if settings.get(name) is not None and settings[name] != value}
    if other:
        raise bad("pretrained.load", "the model has settings that are not supported",
                  {name: f"{value!r}, supported is {family.fixed[name]!r}" for name, value in other.items()},
                  "load a model with the supported settings.", ValueError)
    names = [field.name for field in dataclasses.fields(family.config_type)]
    for name in changes:
        check_choice("pretrained.load", f"field of {family.config_type.__name__}", name, names)
    fields = {ours: settings[theirs] for ours, theirs in family.settings.items() if theirs in settings}
    implied = _implied(family, settings, architecture, changes)
    config = family.config_type(**{**fields, **family.read(settings), **implied, **changes})
    if family.without_head is None or implied != family.architectures[family.base] or implied.keys() & changes.keys():
        return config
    head = _names(family, config) - _names(family, family.base_of(config))
    return family.base_of(config) if head.isdisjoint(tensors) else config


def _implied(family: Family, settings: Mapping[str, Any], architecture: str | None, changes: Mapping[str, object],
             ) -> Mapping[str, object]:
    """The fields of our config that the class implies; None: the class in the settings, unless `changes` has them."""
    name = architecture or next(iter(settings.get("architectures") or family.architectures))
    needed = {field for fields in family.architectures.values() for field in fields}
    if name in family.architectures:
        return family.architectures[name]
    if architecture is None and needed and needed <= changes.keys():
        return {}
    choice = f", or choose the outputs: load(folder, {'=..., '.join(sorted(needed))}=...)" if needed else ""
    raise bad("pretrained.load", f"the architecture {name!r} is not supported",
              {"model type": family.kind, "supported": ", ".join(family.architectures)},
              f"load a model of one of these architectures{choice}.", ValueError)


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


class _Unmatched(NamedTuple):
    """Differences between the files and a model: descriptions of faults, paths of new parameters, unused tensors."""

    faults: list[str]
    new: list[str]
    unused: list[str]


def _weights(model: Layer, family: Family, config: Any, tensors: Mapping[str, np.ndarray], key: PRNGKey | None,
             ) -> tuple[Params, Any]:
    """(Parameters, state) from the tensors, with new parameters of the head, drawn with the key."""
    types = _types(family, config, model)
    wanted = _leaves(*types)
    tensors = _without_copies(family, config, tensors)
    values, differs = _matched(family, config, wanted, tensors, may_draw=key is not None)
    if differs.faults:
        is_head = key is None and not _matched(family, config, wanted, tensors, may_draw=True)[1].faults
        raise bad("pretrained.load", "the tensors do not match the model",
                  {counted(len(differs.faults), "fault"): "\n    ".join(["", *differs.faults])},
                  "pass key=random.key(0) to draw new parameters of the output layer." if is_head else
                  "load the files that belong to config.json.", ValueError)
    if differs.new:
        dtype = next(iter(values.values())).dtype
        values |= {path: np.asarray(leaf).astype(dtype) for path, leaf in _drawn(
            model, family, config, key, differs.new).items()}
    if differs.new or differs.unused:
        lines = [f"  {text}  {listing(names)}" for text, names in (
            ("new parameters", differs.new), ("unused tensors", differs.unused)) if names]
        warnings.warn("\n".join(["pretrained.load: the files have other parts than the model.", *lines]), stacklevel=3)
    return with_leaves(types, [values[path] for path in wanted])


def _matched(family: Family, config: Any, wanted: Mapping[str, Any], tensors: Mapping[str, np.ndarray],
             may_draw: bool) -> tuple[dict[str, np.ndarray], _Unmatched]:
    """The arrays of ours by path, and the differences; only parameters of the head may be new."""
    base = {one.theirs for one in _described(family, family.base_of(config))}
    values: dict[str, np.ndarray] = {}
    faults, new, read = [], [], set()
    for one in _described(family, config):
        names = [name for name, _ in _places(one, config)]
        shapes = [wanted[path].shape["{i}" in one.theirs:] for path in one.ours]
        wrong = _faults(one, names, shapes, tensors) if one.ours else []
        if wrong and may_draw and one.theirs not in base:
            new += one.ours
            continue
        read |= {*names}
        faults += wrong
        if one.ours and not wrong:
            parts = zip(*(one.form.to_ours(tensors[name]) for name in names), strict=True)
            values |= {path: np.stack(arrays) if "{i}" in one.theirs else arrays[0]
                       for path, arrays in zip(one.ours, parts, strict=True)}
    left = [name for name in tensors if name not in read and not name.endswith(family.ignored)]
    known = {name for fields in family.architectures.values()
             for name in _names(family, dataclasses.replace(config, **fields))}
    unused = [name for name in left if name in known or name.startswith(family.unread)]
    faults += [f"{name}: {type_text(tensors[name])}, not in the model" for name in left if name not in unused]
    return values, _Unmatched(faults, new, unused)


def _faults(one: Tensor, names: Sequence[str], shapes: Sequence[tuple[int, ...]], tensors: Mapping[str, np.ndarray],
            ) -> list[str]:
    """Descriptions of the faults of the tensors of these names, for arrays of these shapes of ours."""
    expected = one.form.to_theirs([np.broadcast_to(False, shape) for shape in shapes]).shape
    given = {name: type_text(tensors[name]) if name in tensors else "missing" for name in names
             if name not in tensors or tensors[name].shape != expected}
    return [f"{name}: {text}, expected {list(expected)}" for name, text in given.items()]


def _drawn(model: Layer, family: Family, config: object, key: PRNGKey | None, new: Sequence[str],
           ) -> dict[str, Array]:
    """New values of some parameters, by path."""
    shape, further = family.shapes(config)

    def draw(key: PRNGKey | None) -> dict[str, Array]:
        leaves = _leaves(model.init(key, shape, **further)[1], ())
        return {path: leaves[path] for path in new}

    return xjax.jit(draw)(key)                          # compiled, because then the other parameters are not drawn


def _with_known_names(family: Family, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors by their names in the tables."""
    names = {name: _known_name(family, name) for name in tensors}
    known = {ours: tensors[name] for name, ours in names.items()}
    if len(known) < len(tensors):
        twice = sorted(name for name, ours in names.items() if list(names.values()).count(ours) > 1)
        raise bad("pretrained.load", "the files have several tensors for one of the model, under different prefixes",
                  {"tensors": ", ".join(twice)}, "keep one of each of them in the files.", ValueError)
    return known


def _known_name(family: Family, name: str) -> str:
    """The name without prefixes, and with gamma and beta, names in early BERT files, as weight and bias."""
    prefixes = tuple(prefix for prefix in (family.prefix, *_WRAPPERS) if prefix)
    while start := next((prefix for prefix in prefixes if name.startswith(prefix)), ""):
        name = name.removeprefix(start)
    start, _, last = name.rpartition(".")
    last = {"gamma": "weight", "beta": "bias"}.get(last, last) if start.lower().endswith("norm") else last
    return f"{start}.{last}" if start else last


_WRAPPERS = ("model.", "module.", "_orig_mod.")         # of own classes with a model, DataParallel, and torch.compile


def _without_copies(family: Family, config: object, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors without copies of others, which some files contain; a copy stands for an original that is missing."""
    rest, names = dict(tensors), _names(family, config)
    originals = {path: one.theirs for one in _described(family, config) for path in one.ours}
    for copy, path in family.copies.items():
        if copy not in names and copy in rest and path in originals:
            original = rest.setdefault(originals[path], rest[copy])
            if original is rest[copy] or np.array_equal(original, rest[copy]):
                del rest[copy]
    return rest


def _described(family: Family, config: object) -> list[Tensor]:
    return [*family.tensors(config), *family.head(config)]


def _names(family: Family, config: object) -> set[str]:
    """The names of all tensors of a model."""
    return {name for one in _described(family, config) for name, _ in _places(one, config)}


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
