"""Classify images with a network of xnn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import model_validator

from recipes.batches import Rows
from recipes.classification import ClassesConfig, Classifier, class_artifacts
from recipes.config import Count, Index, fault
from recipes.data.images import Digits, ImageSet, LabelledImages, load_images, moments, read_files, samples
from recipes.data.points import RowPoints
from recipes.data.splits import class_counts, class_facts
from recipes.errors import DataError
from recipes.lazy import jnp, lax, nn, random, xjax, xnn
from recipes.models.images import Network, check_network, make_network
from recipes.names import on_plot
from recipes.results.drawing import Drawing, Gallery
from recipes.results.image_plots import image_grid
from recipes.task import Bound, Data, Inputs, Preview, Sums

if TYPE_CHECKING:
    from recipes.trained import Trained
    from xjax.typing import Array, PRNGKey, PyTree

AUGMENTATION = 0x617567                                       # a stream of the key that no layer uses
MISTAKES = 20                                                 # number shown in a report


class Config(ClassesConfig):
    """A network for images: digits, a folder or a public set."""

    training_only: ClassVar = ("class_weights", "shift", "flip", "batch_size")

    data: ImageSet = Digits()
    """The set of images."""
    model: Network
    """The network."""
    shift: Index = 0
    """Greatest random shift of training images along both axes, in pixels; new pixels are black."""
    flip: bool = False
    """Whether to mirror each training image left to right with probability 1/2."""
    batch_size: Count = 128
    """Number of images in a batch, of all devices together."""

    @model_validator(mode="after")
    def _check_sizes(self) -> Config:
        image = self.data.image
        check_network(self.model, image)
        if self.shift >= image:
            raise fault("task.shift", f"must be less than task.data.image, which is {image}, got {self.shift}")
        return self


def load(config: Config) -> Data:
    return _data(config, load_images(config.data))


def preview(config: Config) -> Preview:
    images = load_images(config.data)
    return Preview(_data(config, images), {"Classes": class_counts(images.labels, images.classes),
                                           "Samples, as the model reads them": Gallery(samples(images))})


def _data(config: Config, images: LabelledImages) -> Data:
    if len(images.classes) < 2:
        raise DataError("images", "the set has one class.", {"class": images.classes[0]},
                        fix="a folder for each class, two or more, in the folder of task.data.path.")
    splits = {split: Rows(x=part.x, y=part.y) for split, part in images.splits.items()}
    train = images.splits["train"]
    artifacts = class_artifacts(images.classes, train.y, config)
    artifacts |= {"image": train.x.shape[1], "channels": train.x.shape[3], **moments(train.x)}
    return Data(splits, artifacts, images.summary | class_facts(images.labels, images.classes))


class ImageClassifier(Classifier):
    """See `recipes.task.Task`. A batch has "x" u8[rows, image, image, channels] and "y" i32[rows]."""

    independent_examples = True

    def __init__(self, config: Config, artifacts: dict[str, Any]) -> None:
        super().__init__(config, artifacts)
        image = artifacts["image"]
        self.model = make_network(config.model, image, len(artifacts["classes"]))
        self.inputs = ((-1, image, image, artifacts["channels"]),)

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        pixels = batch["x"]
        if model.train:
            assert model.rng is not None                      # each training step has a key
            pixels = augmented(pixels, model.rng.fold_in(AUGMENTATION), self.config.shift, self.config.flip)
        return self.sums_of(model, model(self._standardised(pixels)), batch["y"], batch["weight"])

    def _standardised(self, pixels: Array) -> Array:
        mean, deviation = (jnp.asarray(self.artifacts[name], float) for name in ("mean", "deviation"))
        return (pixels.astype(float) / 255 - mean) / deviation

    # -- kernel regression -----------------------------------------------------------------------------------------

    def points(self, split: Rows) -> RowPoints:
        return RowPoints(np.asarray(self._standardised(split.arrays["x"])))

    def targets(self, split: Rows) -> np.ndarray:
        return split.arrays["y"]

    def outputs_of(self, split: Rows, values: np.ndarray) -> PyTree:
        return {"probabilities": super().outputs_of(split, values), **split.arrays}

    # -- after training --------------------------------------------------------------------------------------------

    def read(self, file: Path) -> Inputs:
        """One image, or all images in a folder, of any size."""
        rows = read_files(file, self.artifacts["image"], self.artifacts["channels"])
        return Inputs(rows, {"file": np.array(rows.names)}, rows.notes)

    def outputs(self, model: Bound, batch: PyTree) -> PyTree:
        """"probabilities" [rows, classes], with "x" and, if known, "y" of the batch."""
        probabilities = nn.softmax(model(self._standardised(batch["x"])).astype(float))
        return {"probabilities": probabilities, **{key: batch[key] for key in ("x", "y") if key in batch}}

    def columns(self, outputs: PyTree) -> dict[str, np.ndarray]:
        return super().columns(outputs["probabilities"])

    def draw(self, trained: Trained) -> dict[str, Drawing]:
        """The confusion matrix of the test split, and its most certain mistakes."""
        figures = super().draw(trained)
        if not figures:
            return {}
        outputs, classes = trained.outputs("test"), self.artifacts["classes"]
        probabilities, y = outputs["probabilities"], outputs["y"]
        guesses, certainty = probabilities.argmax(axis=1), probabilities.max(axis=1)
        wrong = np.flatnonzero(guesses != y)
        shown = wrong[np.argsort(-certainty[wrong], kind="stable")][:MISTAKES]
        if len(shown):
            names = [on_plot(name, 16) for name in classes]
            captions = [f"is {names[y[i]]}\n{names[guesses[i]]}: {100 * certainty[i]:.0f} %" for i in shown]
            figures["Most certain mistakes, test"] = image_grid(outputs["x"][shown], captions, columns=5)
        return figures


make = ImageClassifier


def augmented(pixels: Array, rng: xnn.RowKey, shift: int, flip: bool) -> Array:
    """Each image shifted at random by up to ``shift`` pixels along both axes, and mirrored at random if ``flip``.

    Args: pixels: [rows, height, width, channels]; rng: a `RowKey`: random numbers depend on the number of the row only.
    """

    def one(key: PRNGKey, image: Array) -> Array:
        for_shift, for_flip = random.split(key)
        if shift:
            row, column = random.randint(for_shift, (2,), 0, 2 * shift + 1)
            padded = jnp.pad(image, ((shift, shift), (shift, shift), (0, 0)))
            image = lax.dynamic_slice(padded, (row, column, 0), image.shape)
        if flip:
            image = jnp.where(random.bernoulli(for_flip), image[:, ::-1], image)
        return image

    return xjax.vmap(one)(xnn.rng.row_keys(rng, len(pixels)), pixels) if shift or flip else pixels
