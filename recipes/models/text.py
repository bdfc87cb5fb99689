"""Models of text as sections of a config, and pretrained ones from a folder in the layout of Hugging Face."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from recipes.config import Count, Frozen, check_numbers, fault, section_of
from recipes.data.vocabulary import train_tokenizer
from recipes.errors import DataError
from recipes.lazy import jnp, random, tree_util, xnn
from xnn import scaling
from xnn.models.configs import BERTConfig, GPT2Config, LlamaConfig, LSTMLanguageModelConfig

GPT2 = section_of("gpt2", GPT2Config, without=("vocabulary", "length", "head", "classes", "padding"))
LLAMA = section_of("llama", LlamaConfig, without=(
    "vocabulary", "scaling", "local", "local_base", "norm_out", "norm_offset", "embedding_scale", "query_size",
    "attention_cap", "logit_cap", "head", "classes", "padding"), features=768, hidden=2048, layers=12, heads=12,
    kv_heads=12, base=10_000.0, tied=True)
LSTM = section_of("lstm", LSTMLanguageModelConfig, without=("vocabulary", "return_carry"))
BERT = section_of("bert", BERTConfig, without=("vocabulary", "types", "length", "padding", "head", "classes",
                                                     "pooler"))
LanguageModelSection = Annotated[GPT2 | LLAMA | LSTM, Field(discriminator="name")]

BERTSection = Annotated[BERT, Field()]

_CONFIGS = {"gpt2": GPT2Config, "llama": LlamaConfig, "lstm": LSTMLanguageModelConfig, "bert": BERTConfig}
_MODELS = {"gpt2": "GPT2", "llama": "Llama", "lstm": "LSTMLanguageModel", "bert": "BERT"}


class BPE(Frozen):
    """A tokenizer trained on the training text: byte pair encoding."""

    size: Annotated[Count, Field(ge=256)]
    """Size of the vocabulary, including 256 tokens for the bytes."""


def check_model(config: Any) -> None:
    """Raises: a fault of the config unless exactly one of ``model`` and ``pretrained`` is given, and sizes fit."""
    if config.pretrained is not None:
        for key in ("model", "tokenizer"):
            if getattr(config, key) is not None:
                raise fault(f"task.{key}", "is for a model from scratch, but this model is read from "
                                           "task.pretrained")
        return
    model = config.model
    if model is None:
        raise fault("task.model", "is needed, or task.pretrained")
    check_numbers(model)
    heads, size = getattr(model, "heads", 1), getattr(model, "head_size", None)
    if size is None and model.features % heads:
        raise fault("task.model.heads", f"must divide the {model.features} features, got {heads}")
    if heads % getattr(model, "kv_heads", 1):
        raise fault("task.model.kv_heads", f"must divide the {heads} heads, got {model.kv_heads}")
    if model.name == "llama" and (size or model.features // heads) % 2:
        raise fault("task.model.heads" if size is None else "task.model.head_size",
                    f"the size of a head must be even, got {size or model.features // heads}")


def make_model(config: Any, artifacts: dict[str, Any], tokens: int, **sizes: int) -> xnn.Layer:
    """The layer, pretrained or from scratch.  Raises: DataError if a pretrained model is too small.

    Args:
      artifacts: those of `artifacts_of`.
      tokens: size of the tokenizer.
      sizes: fields of the config of a model from scratch; names of other fields are ignored.
    """
    if (saved := artifacts["pretrained"]) is not None:
        model = _pretrained(saved, tokens, config.length)
        return getattr(xnn.models, _MODELS[saved["name"]])(model)
    known = {field.name for field in dataclasses.fields(_CONFIGS[config.model.name])}
    filled_in = {"vocabulary": tokens, "length": config.length, "scaling": None, **sizes}
    model = config.model.make(**{key: value for key, value in filled_in.items() if key in known})
    return getattr(xnn.models, _MODELS[config.model.name])(model)


def artifacts_of(config: Any, kinds: tuple[str, ...], texts: Sequence[str]) -> dict[str, Any]:
    """The artifacts of a pretrained model; else "tokenizer", trained on ``texts`` or None, and "pretrained", None."""
    if config.pretrained is not None:
        return load_folder(config.pretrained, kinds).artifacts
    saved = train_tokenizer(texts, config.tokenizer.size) if config.tokenizer else None
    return {"tokenizer": saved, "pretrained": None}


# ---- pretrained --------------------------------------------------------------------------------------------------


class Folder(NamedTuple):
    """A pretrained model.

    Attributes:
      params: float32.
      artifacts: "tokenizer", JSON text; "pretrained", the config for `make_model`; "positions", their greatest number,
        or None; "stop", tokens that end a text.
    """

    params: Any
    artifacts: dict[str, Any]


def load_folder(folder: Path, kinds: tuple[str, ...]) -> Folder:
    """Reads weights, config and tokenizer.  Raises: DataError, also for a model that is not one of ``kinds``."""
    try:
        _, params, _, config = xnn.pretrained.load(folder, **_outputs(folder))
        settings = json.loads((folder / "config.json").read_text("utf-8"))
    except (ValueError, TypeError, FileNotFoundError) as err:
        raise DataError("pretrained", "the folder cannot be read.",
                        {"task.pretrained": folder, "why": str(err).replace("\n", "\n    ")},
                        fix="a folder with config.json, *.safetensors and tokenizer.json.") from err
    name = next((name for name in kinds if _CONFIGS[name] is type(config)), None)
    if name is None:
        raise DataError("pretrained", "the task needs another kind of model.",
                        {"task.pretrained": folder, "model": settings["model_type"], "needed": " or ".join(kinds)},
                        fix="the folder of such a model.")
    if isinstance(config, LlamaConfig) and config.head != "next_token":
        raise DataError("pretrained", "the model does not predict tokens.",
                        {"task.pretrained": folder, "architecture": settings["architectures"][0]},
                        fix="the folder of a language model, such as one whose architecture ends in ForCausalLM.")
    if not (folder / "tokenizer.json").is_file():
        raise DataError("pretrained", "the folder has no tokenizer.json.", {"task.pretrained": folder},
                        fix="save it with the tokenizer (transformers: a fast one).")
    stop = settings.get("eos_token_id")
    artifacts = {"tokenizer": (folder / "tokenizer.json").read_text("utf-8"),
                 "pretrained": _saved(name, config),
                 "positions": _positions(config) or settings.get("max_position_embeddings"),
                 "stop": [] if stop is None else [stop] if isinstance(stop, int) else list(stop)}
    return Folder(tree_util.tree_map(lambda leaf: jnp.asarray(leaf, "float32"), params), artifacts)


def _outputs(folder: Path) -> dict[str, Any]:
    """The options of `xnn.pretrained.load` for the outputs that the tasks use, whatever those of the folder are.

    An encoder has a pooled vector, which is new in a folder without it.
    """
    try:
        kind = json.loads((folder / "config.json").read_text("utf-8"))["model_type"]
    except (OSError, ValueError, TypeError, LookupError):
        return {}                                       # `xnn.pretrained.load` says what is wrong
    if kind in ("bert", "roberta", "xlm-roberta", "distilbert"):
        return {"head": "pooler", "key": random.key(0)}
    return {"head": "next_token"} if kind == "gpt2" else {}


def _positions(config: object) -> int | None:
    """The greatest number of positions; None: no limit."""
    return config.positions if isinstance(config, BERTConfig) else getattr(config, "length", None)


def _saved(name: str, config: BERTConfig | GPT2Config | LlamaConfig | LSTMLanguageModelConfig) -> dict[str, object]:
    """The config as JSON, which `_pretrained` reads."""
    fields: dict[str, object] = {"name": name, **dataclasses.asdict(config)}
    if isinstance(config, LlamaConfig) and config.scaling is not None:
        fields["scaling"] = {"kind": type(config.scaling).__name__, **dataclasses.asdict(config.scaling)}
    return fields


def _tupled(value: object) -> object:
    """The value with a tuple for a list, because JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value


def _pretrained(saved: dict[str, Any], tokens: int, length: int) -> Any:
    """The dataclass of ``artifacts["pretrained"]``.  Raises: DataError if it is too small."""
    fields = {name: _tupled(value) for name, value in saved.items() if name != "name"}
    if fields.get("scaling") is not None:
        numbers = dict(fields["scaling"])
        # Runs of versions with one kind of scaling do not name it.
        kind = getattr(scaling, numbers.pop("kind", "Llama3Scaling"))
        fields["scaling"] = kind(**{name: _tupled(value) for name, value in numbers.items()})
    config = _CONFIGS[saved["name"]](**fields)
    if config.vocabulary < tokens:
        raise DataError("pretrained", "the tokenizer does not belong to the model.",
                        {"tokens of tokenizer.json": tokens, "of the model": config.vocabulary},
                        fix="the tokenizer.json that was saved with the model.")
    if length > (limit := _positions(config) or length):
        raise DataError("pretrained", "the model has too few positions.",
                        {"task.length": length, "positions of the model": limit},
                        fix=f"task.length={limit}, or less.")
    return config
