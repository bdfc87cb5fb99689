"""`Family`, the table of names for the settings and tensors of one model type of Hugging Face, and its parts.

Here "ours" are names and arrays of xnn, "theirs" those of Hugging Face.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Form(NamedTuple):
    """Conversion between one of their tensors and a list of ours, by `to_ours` and its inverse `to_theirs`."""

    to_ours: Callable[[np.ndarray], list[np.ndarray]]
    to_theirs: Callable[[list[np.ndarray]], np.ndarray]


SAME = Form(lambda w: [w], lambda ws: ws[0])
TRANSPOSED = Form(lambda w: [w.T], lambda ws: ws[0].T)
IN_THREE = Form(lambda w: np.split(w, 3, -1), lambda ws: np.concatenate(ws, -1))


STATE = "state: "                                             # prefix of paths in the state, such as running statistics


class Tensor(NamedTuple):
    """One of their tensors, with "{i}" for the number of the block in its name, and the paths of ours in it.

    A tensor without any of ours is a constant, which is written but not read.
    """

    theirs: str
    ours: tuple[str, ...]
    form: Form = SAME


class Family(NamedTuple):
    """One of their model types.

    Attributes:
      kind: their name of it, `model_type` in config.json.
      model, config_type: our constructor and the type of its config.
      architectures: names of their classes -> values of the fields of our config that a class implies, such as those
        for its output layer. The first class is that of files that name none.
      settings: names of our fields -> names of their settings.
      fixed: their settings with only one supported value, the default.
      tensors: config -> the tensors of the base model, except the ignored ones.
      shapes: config -> (shape for `init`, shapes of extra inputs by name).
      head: config -> the tensors of the output layer, whose names never have the prefix.
      prefix: prefix of names of tensors of the base model in files of models with a head.
      base: architecture without a head, in whose files names have no prefix.
      without_head: fields of our config for files of the base architecture that lack the tensors of its head, the
        pooled vector; None: there is no such head.
      ignored: suffixes of names of tensors that are constants.
      copies: names of tensors that are copies of others -> path of the original among ours.
      unread: prefixes of names of output layers that the model does not have, such as the one of BERT's pretraining for
        pairs of sentences.
      read, write: conversions beyond the tables: their settings -> our fields; config -> their settings.
      fits: config -> whether the family can express it, for families that share a type of config.
    """

    kind: str
    model: Callable
    config_type: type
    architectures: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, str]
    fixed: Mapping[str, Any]
    tensors: Callable[[Any], Sequence[Tensor]]
    shapes: Callable[[Any], tuple[tuple[int, ...], dict[str, tuple[int, ...]]]] = lambda config: ((1, 1), {})
    head: Callable[[Any], Sequence[Tensor]] = lambda config: ()
    prefix: str = ""
    base: str = ""
    without_head: Mapping[str, Any] | None = None
    ignored: tuple[str, ...] = ()
    copies: Mapping[str, str] = {"lm_head.weight": "tokens/table"}
    unread: tuple[str, ...] = ()
    read: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda settings: {}
    write: Callable[[Any], dict[str, Any]] = lambda config: {}
    fits: Callable[[Any], bool] = lambda config: True

    def architecture(self, config: Any) -> str | None:
        """The name of their class for the config; None if the config has the fields of none of them."""
        forms = [*self.architectures.items(), *([] if self.without_head is None else [(self.base, self.without_head)])]
        return next((name for name, fields in forms
                     if all(getattr(config, field) == value for field, value in fields.items())), None)

    def base_of(self, config: Any) -> Any:
        """The config of the same model without a head."""
        fields = self.architectures.get(self.base, {}) if self.without_head is None else self.without_head
        return dataclasses.replace(config, **fields)


def dense(theirs: str, ours: str, bias: bool = True) -> list[Tensor]:
    """The tensors of a `Dense`; theirs is stored as [out, in]."""
    return [Tensor(f"{theirs}.weight", (f"{ours}/w",), TRANSPOSED),
            *([Tensor(f"{theirs}.bias", (f"{ours}/b",))] if bias else [])]


def norms(pairs: Mapping[str, str]) -> list[Tensor]:
    """The tensors of `LayerNorm`s."""
    return [Tensor(f"{theirs}.{name}", (f"{ours}/{key}",)) for theirs, ours in pairs.items()
            for name, key in (("weight", "scale"), ("bias", "bias"))]


def encoder_block(attention: str) -> list[Tensor]:
    """The matrices of a block of BERT or ViT; the two differ in the name of the attention."""
    names = {f"{attention}.query": "attention/query", f"{attention}.key": "attention/key",
             f"{attention}.value": "attention/value", "attention.output.dense": "attention/out",
             "intermediate.dense": "feed_forward/up", "output.dense": "feed_forward/down"}
    return [tensor for theirs, ours in names.items() for tensor in dense(
        f"encoder.layer.{{i}}.{theirs}", f"blocks/{ours}")]


def read_classes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The field `classes` of a config from their settings."""
    return {"classes": len(settings["id2label"]) if "id2label" in settings else settings.get("num_labels", 2)}


def write_classes(classes: int) -> dict[str, Any]:
    """Their settings for a number of classes."""
    names = {i: f"LABEL_{i}" for i in range(classes)}
    return {"id2label": {str(i): name for i, name in names.items()}, "label2id": {name: i for i, name in names.items()}}


SIZES = {"features": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads"}
ENCODER = {"hidden": "intermediate_size", "epsilon": "layer_norm_eps", "dropout": "hidden_dropout_prob"}
