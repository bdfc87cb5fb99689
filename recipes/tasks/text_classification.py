"""Classify passages of text with BERT and an output layer on its pooled vector (Devlin et al., 2019)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import model_validator

from recipes.batches import Rows
from recipes.classification import ClassesConfig, Classifier, class_artifacts
from recipes.config import AbsolutePath, Count, Fraction, Index, StratifiedSplit, ValFraction, fault
from recipes.data.facts import Table, listed, ranges, shortened
from recipes.data.passages import Passages, module_passages, read_passages, table_passages
from recipes.data.recorded import classes_as_recorded
from recipes.data.splits import class_counts, class_facts, repeated_fact, sizes_of
from recipes.data.vocabulary import Vocabulary
from recipes.lazy import jnp, nn, xnn
from recipes.models import text as models
from recipes.results.numbers import number
from recipes.task import Artifacts, Bound, Data, Inputs, Preview, Sums

if TYPE_CHECKING:
    from xjax.typing import Array, PRNGKey, PyTree

KINDS = ("bert",)


class Config(ClassesConfig, StratifiedSplit):
    """BERT on passages of text, each of one class."""

    file: AbsolutePath | None = None
    """csv, tsv or parquet; none: passages of Python's standard library, whose class is their module."""
    text: str = "text"
    """The column of texts, in file and in files for prediction."""
    label: str = "label"
    """The column of classes in file."""
    passage: Count = 200
    """Characters of a passage of the standard library."""
    tokenizer: models.BPE | None = None
    """Tokenizer to train; none: each byte is a token, or the tokenizer of pretrained."""
    model: models.BERTSection | None = None
    """A model trained from scratch; the task sets its vocabulary and length."""
    pretrained: AbsolutePath | None = None
    """A folder with config.json, *.safetensors and tokenizer.json of a BERT, instead of model."""
    length: Count = 128
    """Greatest number of tokens that are read of a passage, including a start token."""
    dropout: Fraction = 0.1
    """Dropout rate of the pooled vector, before the output layer."""
    batch_size: Count = 32
    """Number of passages in a batch, of all devices together."""
    val_fraction: ValFraction = 0.1
    test_fraction: Fraction = 0.1
    """Share for the test: by position in each module of the standard library, at random in a file."""
    split_seed: Index = 0
    """Seed of the split of a file."""

    @model_validator(mode="after")
    def _check(self) -> Config:
        models.check_model(self)
        for key in ("label", "split_seed") if self.file is None else ("passage",):
            if self.is_changed(key):
                raise fault(f"task.{key}", f"is for {'task.file' if self.file is None else 'the standard library'}")
        if self.length < 3:
            raise fault("task.length", f"must be at least 3, got {self.length}: tokens around a passage are included")
        return self


def load(config: Config) -> Data:
    return load_again(config, None)


def load_again(config: Config, recorded: Artifacts | None) -> Data:
    """The data of a run that has begun, with its classes.  Args: recorded: its artifacts; None: a new run."""
    data = _passages(config)
    if config.file is not None and recorded is not None:
        classes, labels = classes_as_recorded(data.classes, data.labels, recorded["classes"])
        data = data._replace(classes=classes, labels=labels)
    return _data(config, data)


def preview(config: Config) -> Preview:
    passages = _passages(config)
    data = _data(config, passages)
    characters = {split: np.array([len(passages.texts[i]) for i in ids]) for split, ids in passages.rows.items()}
    tokens = {split: rows.arrays["lengths"] for split, rows in data.splits.items()}
    return Preview(data, {"Classes": class_counts(passages.labels_of_splits, passages.classes),
                          "Characters of a text": ranges(characters),
                          f"Tokens of a text, at most {config.length} are read": ranges(tokens),
                          "Samples": _samples(passages)})


def _samples(passages: Passages, most: int = 20, characters: int = 200) -> Table:
    """A text of each class; of the training split first."""
    order = np.concatenate([*passages.rows.values()])
    rows = []
    for label, name in enumerate(passages.classes[:most]):
        first = order[passages.labels[order] == label][:1]
        rows += [(name, shortened(" ".join(passages.texts[i].split()), characters)) for i in first]
    return Table(("class", "text"), rows)


def _passages(config: Config) -> Passages:
    if config.file is None:
        return module_passages(config.passage, config.fractions)
    return table_passages(config.file, config.text, config.label, config.fractions, config.split_seed, config.stratify)


def _data(config: Config, data: Passages) -> Data:
    all_artifacts = models.artifacts_of(config, KINDS, [data.texts[i] for i in data.rows["train"]])
    artifacts = {key: all_artifacts[key] for key in ("tokenizer", "pretrained")}
    artifacts |= class_artifacts(data.classes, data.labels[data.rows["train"]], config)
    rows = encoded(data.texts, artifacts, config.length)
    splits = {split: Rows(**rows.take(ids), y=data.labels[ids]) for split, ids in data.rows.items() if len(ids)}
    return Data(splits, artifacts, _summary(config, data, artifacts, rows))


class TextClassification(Classifier):
    """See `recipes.task.Task`."""

    independent_examples = True

    def __init__(self, config: Config, artifacts: dict[str, Any]) -> None:
        super().__init__(config, artifacts)
        size = Vocabulary(artifacts["tokenizer"]).size
        bert = models.make_model(config, artifacts, size, vocabulary=size + 1, types=1)

        def forward(layers: Any, tokens: Array, mask: Array | None = None) -> Array:
            return layers.head(layers.dropout(layers.encoder(tokens, mask=mask)[1]))

        self.model = xnn.composite(forward, "text_classifier", encoder=bert,
                                   dropout=xnn.Dropout(config.dropout), head=xnn.Dense(len(artifacts["classes"])))
        self.inputs = (np.zeros((1, config.length), np.int32),)

    def init(self, rng: PRNGKey) -> tuple[Any, Any]:
        params, state = super().init(rng)
        if self.artifacts["pretrained"] is not None:
            params = {**params, "encoder": models.load_folder(self.config.pretrained, KINDS).params}
        return params, state

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        return self.sums_of(model, _logits(model, batch), batch["y"], batch["weight"])

    # -- after training --------------------------------------------------------------------------------------------

    def read(self, file: Path) -> Inputs:
        texts = read_passages(file, self.config.text)
        return Inputs(encoded([*texts.values()], self.artifacts, self.config.length), {"row": np.array([*texts])})

    def outputs(self, model: Bound, batch: PyTree) -> Array:
        return nn.softmax(_logits(model, batch), axis=-1)


make = TextClassification


def encoded(texts: list[str], artifacts: dict[str, Any], length: int) -> Rows:
    """ "x": i32[n, length], padded; "lengths": i32[n], the numbers of tokens before the padding.

    The model pools the first token: an additional token after those of the vocabulary, or that of a pretrained
    tokenizer.
    """
    vocabulary = Vocabulary(artifacts["tokenizer"])
    if artifacts["pretrained"] is not None:
        tokens = vocabulary.encode_all(texts, length, special=True)
    else:
        tokens = [np.concatenate([[vocabulary.size], one]) for one in vocabulary.encode_all(texts, length - 1, False)]
    lengths = np.array([len(one) for one in tokens], np.int32)
    x = np.zeros((len(texts), length), np.int32)
    x[np.arange(length) < lengths[:, None]] = np.concatenate(tokens)
    return Rows(x=x, lengths=lengths)


def _logits(model: Bound, batch: PyTree) -> Array:
    mask = jnp.arange(batch["x"].shape[1])[None] < batch["lengths"][:, None]
    return model(batch["x"], mask=mask)


def _summary(config: Config, data: Passages, artifacts: dict[str, Any], rows: Rows) -> dict[str, str]:
    lengths = rows.arrays["lengths"]
    full = (lengths == config.length).mean()
    kind = "tokens" if artifacts["tokenizer"] else "bytes"
    if config.file is None:
        source = {"text": "modules of the standard library"}
    else:
        source = {"file": str(config.file), **data.layout, "rows": number(len(data.texts)),
                  "columns": f"texts: {config.text}\nclasses: {config.label}"}
    return {**source, **class_facts(data.labels_of_splits, data.classes),
            "vocabulary": f"{Vocabulary(artifacts['tokenizer']).size} {kind}",
            "length": f"{lengths.mean():.0f} of {config.length} tokens on average; "
                      f"{100 * full:.0f} % have the full length",
            **listed("left out", data.left_out),
            **repeated_fact({split: [data.texts[i] for i in ids] for split, ids in data.rows.items()}),
            "split": sizes_of(data.rows)}
