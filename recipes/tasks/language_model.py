"""A language model: predict each token of a text from those before it; from scratch or from pretrained weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import model_validator

from recipes.config import AbsolutePath, Count, Fraction, SplitFractions, fault
from recipes.data.facts import Table, ranges, shortened
from recipes.data.splits import split_by_position
from recipes.data.text import STDLIB, Text, Windows, digest, encodings_fact, read_files, read_modules
from recipes.data.vocabulary import Vocabulary
from recipes.errors import DataError
from recipes.lazy import jnp, random, xnn
from recipes.models import text as models
from recipes.results.drawing import Drawing
from recipes.task import Bound, Data, Preview, Sums, Task

if TYPE_CHECKING:
    from recipes.trained import Trained
    from xjax.typing import Params, PRNGKey, PyTree

KINDS = ("gpt2", "llama")
PROMPTS, PROMPT = 3, 160                                  # number of samples in a report; characters of their prompts
SAMPLE, TOKENS = 200, 40                                  # characters and tokens of a sample in a preview


class Config(SplitFractions):
    """A language model on text files: GPT-2, Llama or an LSTM."""

    files: tuple[AbsolutePath, ...] | None = None
    """Text files, or folders of them; none: source code of Python's standard library."""
    pattern: str = "**/*.txt"
    """Pattern of the files that are read in a folder of files."""
    tokenizer: models.BPE | None = None
    """Tokenizer to train; none: each byte is a token, or the tokenizer of pretrained."""
    model: models.LanguageModelSection | None = None
    """A model trained from scratch; the task sets its vocabulary and length."""
    pretrained: AbsolutePath | None = None
    """A folder with config.json, *.safetensors and tokenizer.json of a GPT-2 or Llama, instead of model."""
    length: Count = 128
    """Tokens of a window, the longest context of a prediction."""
    stride: Count | None = None
    """Tokens between the starts of training windows; 1: windows start at every token; none: length."""
    batch_size: Count = 32
    """Number of windows in a batch, of all devices together."""
    val_fraction: Fraction = 0.05
    """Share of each file for validation, before the part for test."""
    test_fraction: Fraction = 0.05
    """Share of each file for the test, at its end."""

    @model_validator(mode="after")
    def _check(self) -> Config:
        models.check_model(self)
        if self.files == ():
            raise fault("task.files", "is empty: name a file, or leave it out for the standard library")
        if self.files is None and self.is_changed("pattern"):
            raise fault("task.pattern", "is for folders in task.files")
        return self


def load(config: Config) -> Data:
    return _data(config, _texts(config))


def preview(config: Config) -> Preview:
    texts = _texts(config)
    data, parts = _data(config, texts), _parts(texts, config)
    vocabulary = Vocabulary(data.artifacts["tokenizer"])
    splits = [(split, sum(map(len, part)), len(data.splits[split]) if split in data.splits else 0)
              for split, part in parts.items()]
    starts = {split: next((text for text in part if text.strip()), "").lstrip() for split, part in parts.items()}
    starts = {split: text for split, text in starts.items() if text}
    samples = [(split, shortened(text, SAMPLE)) for split, text in starts.items()]
    tokens = [(split, "|".join(vocabulary.decode([token]) for token in vocabulary.encode(text[:SAMPLE])[:TOKENS]))
              for split, text in starts.items()]
    return Preview(data, {
        "Characters of a file": ranges({"files": np.array([len(each.text) for each in texts])}),
        "Splits": Table(("split", "characters", "windows"), splits),
        "Samples": Table(("split", "text"), samples),
        "Their first tokens": Table(("split", "tokens, with | between them"), tokens)})


def _texts(config: Config) -> list[Text]:
    return read_modules(STDLIB) if config.files is None else read_files(config.files, config.pattern)


def _data(config: Config, texts: list[Text]) -> Data:
    parts = _parts(texts, config)
    artifacts = models.artifacts_of(config, KINDS, parts["train"])
    if config.pretrained is None:
        artifacts |= {"stop": [], "positions": None if config.model and config.model.name == "lstm" else config.length}
    vocabulary = Vocabulary(artifacts["tokenizer"])
    streams = {split: [np.concatenate(column) for column in zip(*map(vocabulary.encode_counted, part), strict=True)]
               for split, part in parts.items()}
    if len(streams["train"][0]) < 2:
        raise DataError("text", "there are too few tokens to train on.", {"train": len(streams["train"][0])},
                        fix="more text, or smaller fractions.")
    stride = config.stride or config.length
    splits = {split: Windows(tokens, sizes, config.length, stride if split == "train" else config.length,
                             only_whole=split == "train")
              for split, (tokens, sizes) in streams.items() if len(tokens) > 1}
    source = "the standard library, " if config.files is None else ""
    summary = {"text": f"{source}{len(texts):,} file{'s' * (len(texts) != 1)}, first {texts[0].name}, "
                       f"SHA-256 {digest(texts)}...",
               **encodings_fact(texts),
               "vocabulary": f"{vocabulary.size} {'tokens' if artifacts['tokenizer'] else 'bytes'}",
               "split": ", ".join(f"{split} {len(tokens):,} tokens" for split, (tokens, _) in streams.items())}
    return Data(splits, artifacts | {"prompts": _prompts(parts)}, summary)


class LanguageModel(Task):
    """See `recipes.task.Task`."""

    score = "bits_per_byte"

    def __init__(self, config: Config, artifacts: dict[str, Any]) -> None:
        super().__init__(config, artifacts)
        self._vocabulary = Vocabulary(artifacts["tokenizer"])
        self.model = models.make_model(config, artifacts, self._vocabulary.size)
        self.inputs = (np.zeros((1, config.length), np.int32),)

    def init(self, rng: PRNGKey) -> tuple[Any, Any]:
        if self.artifacts["pretrained"] is None:
            return super().init(rng)
        return models.load_folder(self.config.pretrained, KINDS).params, self.model.init_state(*self.inputs)

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        logits, counts = model(batch["x"]), batch["counts"] * batch["weight"][:, None]
        nats = jnp.sum(xnn.losses.cross_entropy(logits, batch["y"], reduction=None) * counts)
        right, total = jnp.argmax(logits, axis=-1) == batch["y"], jnp.sum(counts)
        return {"loss": (nats, total), "accuracy": (jnp.sum(right * counts), total),
                "bits_per_byte": (nats / math.log(2), jnp.sum(batch["bytes"] * batch["weight"]))}

    # -- after training --------------------------------------------------------------------------------------------

    def generate(self, params: Params, prompt: str, tokens: int, *, temperature: float = 1.0, top_k: int | None = None,
                 top_p: float | None = None, seed: int = 0) -> str:
        """The continuation of ``prompt``: up to ``tokens`` tokens; a token that ends a text ends it earlier.

        Args: temperature, top_k, top_p: as in `xnn.generate`; seed: of the sampling.
        Raises: DataError for an empty prompt.
        """
        before = self._vocabulary.encode(prompt, special=True).tolist()
        if not before:
            raise DataError("generate", "the prompt is empty.", {"prompt": repr(prompt)}, fix="at least one character.")
        after = self._following(params, before, tokens, random.PRNGKey(seed), temperature=temperature, top_k=top_k,
                                top_p=top_p)
        decode = self._vocabulary.decode                  # with the prompt: some tokenizers drop a space at the start
        return decode([*before, *after])[len(decode(before)):]

    def _following(self, params: Params, before: list[int], steps: int, rng: PRNGKey, **sampling: Any) -> list[int]:
        """Tokens that follow ``before``. When no positions are left, their later half becomes the context."""
        limit, stop, after = self.artifacts["positions"], self.artifacts["stop"], []
        while len(after) < steps and not (after and after[-1] in stop):
            context, wanted = [*before, *after], steps - len(after)
            if limit is not None:
                context = context if len(context) < limit else context[-max(limit // 2, 1):]
                wanted = min(wanted, limit - len(context) + 1)
            made = xnn.generate(self.model, params, np.array([context], np.int32), steps=wanted, length=limit,
                                rng=random.fold_in(rng, len(after)), stop=stop, **sampling)
            after += np.asarray(made.tokens)[0, :int(np.asarray(made.lengths)[0])].tolist()
        return after

    def draw(self, trained: Trained) -> dict[str, Drawing]:
        """Continuations of parts of the test split, or of the training text if there is none."""
        samples = [f"{prompt} ▸▸▸ {self.generate(trained.params, prompt, 200, top_p=0.95, seed=seed)}"
                   for seed, prompt in enumerate(self.artifacts["prompts"])]
        return {"Samples (the text of the model follows ▸▸▸)": "\n\n────\n\n".join(samples)}


make = LanguageModel


def _parts(texts: list[Text], config: Config) -> dict[str, list[str]]:
    """Split -> a part of each text."""
    cuts = [split_by_position(len(each.text), config.fractions) for each in texts]
    return {split: [each.text[cut[split]] for each, cut in zip(texts, cuts, strict=True)]
            for split in ("train", "val", "test")}


def _prompts(parts: dict[str, list[str]]) -> list[str]:
    """Beginnings of lines, evenly spaced in the text."""
    text = "".join(parts["test"]) or "".join(parts["train"])
    starts = [text.find("\n", i * len(text) // PROMPTS) + 1 for i in range(PROMPTS)]
    return [prompt for prompt in (text[start:start + PROMPT] for start in dict.fromkeys(starts)) if prompt]
