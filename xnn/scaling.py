"""Changes of the frequencies of `xnn.Rotary` for long contexts, in a separate module because configs import only this.

Here a frequency is in radians per position. A scaling is called with the frequencies [pairs] of the features of a head,
and with the lengths of the sequences if it needs them. Configs load neither jaxlib nor NumPy, so the functions of NumPy
come from the frequencies.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np

    from xjax.typing import Array


class RotaryScaling:
    """The base of all scalings.

    Attributes:
      by_length: whether the frequencies depend on the length of the sequence.
      amplitude: factor of rotated queries and keys.
      pairs: the number of pairs of features that it is made for; None: any number.
    """

    __slots__ = ()
    by_length: ClassVar[bool] = False

    @property
    def amplitude(self) -> float:
        return 1.0

    @property
    def pairs(self) -> int | None:
        return None

    def __call__(self, frequencies: "np.ndarray", lengths: "Array | None" = None) -> "np.ndarray | Array":
        """The changed frequencies, [pairs], or [batch, pairs] for lengths [batch] if `by_length`."""
        raise NotImplementedError(f"{type(self).__name__}: a scaling of Rotary needs a method __call__.")


@dataclass(frozen=True, slots=True)
class LinearScaling(RotaryScaling):
    """All positions divided by `factor` (Chen et al., 2023)."""

    factor: float

    def __call__(self, frequencies: "np.ndarray", lengths: "Array | None" = None) -> "np.ndarray":
        return frequencies / self.factor


@dataclass(frozen=True, slots=True)
class Llama3Scaling(RotaryScaling):
    """Lower frequencies of `Rotary`, for contexts longer than in training (Llama 3.1).

    Wavelengths above ``original_length / low`` are stretched by `factor`; wavelengths below ``original_length / high``
    are kept. Between the two the frequency is interpolated. The defaults are those of Llama 3.1.
    """

    factor: float = 8.0
    low: float = 1.0
    high: float = 4.0
    original_length: int = 8192

    def __call__(self, frequencies: "np.ndarray", lengths: "Array | None" = None) -> "np.ndarray":
        turns = self.original_length * frequencies / (2 * math.pi)       # rotations within the original context
        kept = ((turns - self.low) / (self.high - self.low)).clip(0, 1)
        return kept * frequencies + (1 - kept) * frequencies / self.factor


@dataclass(frozen=True, slots=True)
class YarnScaling(RotaryScaling):
    """YaRN (Peng et al., 2024): high frequencies are kept, low ones divided by `factor`, others interpolated.

    Attributes:
      factor: new length of the context divided by `original_length`.
      fast, slow: frequencies with more than `fast` turns within the original context are kept; frequencies with less
        than `slow` turns are divided by `factor`. Between the two, the weights are linear in the number of the pair.
      whole: whether the limits of this range are rounded to whole numbers of pairs.
      scale: factor of rotated queries and keys; None: ``0.1 log(factor) + 1``.
    """

    factor: float
    original_length: int
    fast: float = 32.0
    slow: float = 1.0
    whole: bool = True
    scale: float | None = None

    @property
    def amplitude(self) -> float:
        return 0.1 * math.log(max(self.factor, 1.0)) + 1 if self.scale is None else self.scale

    def __call__(self, frequencies: "np.ndarray", lengths: "Array | None" = None) -> "np.ndarray":
        pairs = frequencies.__array_namespace__().arange(len(frequencies))
        ratio = math.log(frequencies[0] / frequencies[1]) if len(frequencies) > 1 else 1.0
        # The number of the pair that turns so often, which is a fraction.
        first, last = (math.log(self.original_length / (2 * math.pi * turns)) / ratio
                       for turns in (self.fast, self.slow))
        if self.whole:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * len(frequencies) - 1)
        stretched = ((pairs - first) / (last - first if last != first else 0.001)).clip(0, 1)
        return frequencies * (1 - stretched) + frequencies / self.factor * stretched


@dataclass(frozen=True, slots=True)
class DynamicScaling(RotaryScaling):
    """A base that grows with the part of the sequence beyond `original_length` ("dynamic NTK").

    A length is the largest position so far, plus 1, of each sequence by itself. Keys in a cache keep the rotation that
    they got when they were written, as in `transformers`.
    """

    factor: float
    original_length: int
    by_length: ClassVar[bool] = True

    def __call__(self, frequencies: "np.ndarray", lengths: "Array | None" = None) -> "np.ndarray | Array":
        if lengths is None:
            return frequencies
        growth = self.factor * lengths.clip(self.original_length) / self.original_length - (self.factor - 1)
        # base * growth^(n / (n - 1)) for n pairs: the lowest frequency is divided by the growth.
        powers = -frequencies.__array_namespace__().arange(len(frequencies)) / max(len(frequencies) - 1, 1)
        return frequencies[None] * growth[:, None] ** powers[None]


@dataclass(frozen=True, slots=True)
class LongScaling(RotaryScaling):
    """LongRoPE (Ding et al., 2024): a divisor for each frequency, `long` if the sequence exceeds `original_length`.

    Attributes:
      short, long: divisors, one for each pair of features.
      original_length: the longest sequence for which `short` is used; lengths as in `DynamicScaling`.
      scale: factor of rotated queries and keys.
    """

    short: tuple[float, ...]
    long: tuple[float, ...]
    original_length: int
    scale: float = 1.0
    by_length: ClassVar[bool] = True

    @property
    def amplitude(self) -> float:
        return self.scale

    @property
    def pairs(self) -> int:
        return len(self.short) if len(self.short) == len(self.long) else 0

    def __call__(self, frequencies: "np.ndarray", lengths: "Array | None" = None) -> "np.ndarray | Array":
        array = frequencies.__array_namespace__().asarray
        short, long = array(self.short), array(self.long)
        if lengths is None:
            return frequencies / short
        is_long = (lengths > self.original_length).astype("float32")[:, None]
        return frequencies[None] / (short[None] + (long - short)[None] * is_long)
