"""`Llama3Scaling`, an option of `xnn.Rotary`, in a separate module because configs of models import only this."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Lower frequencies of `Rotary`, for contexts longer than in training (Llama 3.1).

    Wavelengths above ``original_length / low`` are stretched by `factor`; wavelengths below ``original_length / high``
    are kept. Between the two the frequency is interpolated. The defaults are those of Llama 3.1.
    """

    factor: float = 8.0
    low: float = 1.0
    high: float = 4.0
    original_length: int = 8192

    def __call__(self, frequencies: "np.ndarray") -> "np.ndarray":
        turns = self.original_length * frequencies / (2 * math.pi)       # rotations within the original context
        kept = ((turns - self.low) / (self.high - self.low)).clip(0, 1)
        return kept * frequencies + (1 - kept) * frequencies / self.factor
