"""A variational autoencoder of images (Kingma and Welling, 2014)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recipes.batches import Rows
from recipes.config import Count, NotNegative, TaskConfig
from recipes.data.images import Digits, ImageSet, LabelledImages, load_images, read_files, samples
from recipes.data.splits import class_counts
from recipes.lazy import jnp, nn, random, xnn
from recipes.process.parallel import weighted
from recipes.results.drawing import Drawing, Gallery
from recipes.results.image_plots import image_grid
from recipes.task import Bound, Data, Inputs, Preview, Sums, Task

if TYPE_CHECKING:
    from recipes.trained import Trained
    from xjax.typing import Array, PyTree

NOISE = 0x766165                                              # seed of the codes in evaluations
SHOWN = 5                                                     # in a report: reconstructions, and samples in a line


class Config(TaskConfig):
    """An autoencoder of images: digits, a folder, a public set."""

    data: ImageSet = Digits()
    """The set of images; its classes are not used."""
    code: Count = 20
    """Number of features of the code."""
    hidden: tuple[Count, ...] = (400,)
    """Numbers of units of the encoder's hidden layers; the decoder has the reverse order."""
    likelihood: Literal["bernoulli", "normal"] = "bernoulli"
    """Distribution of a pixel, a number in [0, 1]: the decoder gives its logit, or its mean for variance 1."""
    beta: NotNegative = 1.0
    """Weight of the divergence in the loss (Higgins et al., 2017); 1: the evidence lower bound."""
    batch_size: Count = 128
    """Number of images in a batch, of all devices together."""


def load(config: Config) -> Data:
    return _data(load_images(config.data))


def preview(config: Config) -> Preview:
    images = load_images(config.data)
    return Preview(_data(images), {"Classes, which are not used": class_counts(images.labels, images.classes),
                                   "Samples, as the model reads them": Gallery(samples(images))})


def _data(images: LabelledImages) -> Data:
    splits = {split: Rows(x=part.x, row=np.arange(len(part.x), dtype=np.int32))
              for split, part in images.splits.items()}
    return Data(splits, {"shape": list(images.splits["train"].x.shape[1:])}, images.summary)


class ImageVAE(Task):
    """See `recipes.task.Task`. A batch has "x" u8[rows, image, image, channels], and "row", their numbers in the split.

    Evaluations also compute the bound from drawn codes, not from their means. The code of an example is drawn from its
    number in the split, so it is the same in each evaluation, on any number of devices.
    """

    score = "negative_elbo"
    independent_examples = True

    def __init__(self, config: Config, artifacts: dict[str, Any]) -> None:
        super().__init__(config, artifacts)
        shape = tuple(artifacts["shape"])
        self.model = xnn.models.VAE(xnn.models.VAEConfig(shape, config.code, config.hidden))
        self.inputs = ((-1, *shape),)

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        x, weight = _unit(batch["x"]), batch["weight"]
        outputs, mean, log_variance = model(x) if model.train else self._drawn(model, x, batch["row"])
        divergence = jnp.asarray(xnn.losses.gaussian_kl(mean, log_variance, reduction=None))
        loss, bound = (self._losses(outputs, x, mean, log_variance, beta) for beta in (self.config.beta, 1.0))
        return {"loss": weighted(loss, weight), "negative_elbo": weighted(bound, weight),
                "reconstruction": weighted(bound - divergence, weight), "kl": weighted(divergence, weight)}

    def _drawn(self, model: Bound, x: Array, rows: Array) -> tuple[Array, Array, Array]:
        """The model's results for one drawn code of each example; ``rows`` are consecutive numbers."""
        rng = xnn.RowKey(random.key(NOISE), rows[0])
        return self.model.apply(model.params, x, rng=rng, train=True)

    def _losses(self, outputs: Array, x: Array, mean: Array, log_variance: Array, beta: float) -> Array:
        return jnp.asarray(xnn.losses.negative_elbo(outputs, x, mean, log_variance, beta=beta, reduction=None,
                                                    likelihood=self.config.likelihood))

    def _pixels(self, outputs: Array) -> Array:
        """The mean of the decoder's distribution."""
        return nn.sigmoid(outputs) if self.config.likelihood == "bernoulli" else outputs

    # -- after training --------------------------------------------------------------------------------------------

    def read(self, file: Path) -> Inputs:
        """One image, or all images in a folder, of any size."""
        rows = read_files(file, self.artifacts["shape"][0], self.artifacts["shape"][2])
        return Inputs(rows, {"file": np.array(rows.names)}, rows.notes)

    def outputs(self, model: Bound, batch: PyTree) -> PyTree:
        """The "reconstruction" from the mean code, with "x", "code" and "negative_elbo" of each image."""
        x = _unit(batch["x"])
        outputs, mean, log_variance = model(x)
        return {"x": x, "code": mean, "reconstruction": self._pixels(outputs),
                "negative_elbo": self._losses(outputs, x, mean, log_variance, 1.0)}

    def columns(self, outputs: PyTree) -> dict[str, np.ndarray]:
        """The mean code of each image, and the negative evidence lower bound of the image with this code."""
        codes = {f"code {i}": outputs["code"][:, i] for i in range(self.config.code)}
        return {"negative_elbo": outputs["negative_elbo"], **codes}

    def draw(self, trained: Trained) -> dict[str, Drawing]:
        """Reconstructions of the first test images, and images of codes that are drawn from the prior."""
        codes = np.random.default_rng(NOISE).normal(size=(3 * SHOWN, self.config.code)).astype(np.float32)
        decoded = self.model.layers["decoder"].apply(trained.params["decoder"], codes)
        samples = image_grid(np.asarray(self._pixels(decoded)), columns=SHOWN)
        figures: dict[str, Drawing] = {"Samples from the prior": samples}
        outputs = trained.outputs("test")
        if outputs is not None and len(outputs["x"]):
            pairs = np.concatenate([outputs[name][:SHOWN] for name in ("x", "reconstruction")])
            grid = image_grid(pairs, columns=len(pairs) // 2, rows=("original", "decoded"))
            figures = {"Reconstructions, test": grid, **figures}
        return figures


make = ImageVAE


def _unit(pixels: Array) -> Array:
    """Numbers in [0, 1]."""
    return pixels.astype(float) / 255
