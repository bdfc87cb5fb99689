"""The flags of XLA with which a program is compiled: the user's flags, and flags that xjax sets.

xjax sets a flag for one of two reasons: to avoid a fault of the compiler (`compiler_faults.py`), or because XLA's
default is slow for the program: the table below. A flag that the user set is never replaced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xjax.runtime.xla.compiler_faults import flags_of_environment, with_workarounds


class Choice(NamedTuple):
    """A flag that makes programs faster.

    Attributes:
      platform: platform of the devices.
      concerns: whether the flag is set for a program, given as text.
      why: the measurement.
    """

    flag: str
    value: str | bool
    platform: str
    concerns: Callable[[str], bool]
    why: str


# The layouts and types of a convolution in StableHLO's text.
_CONVOLUTION = re.compile(r"stablehlo\.convolution\(.*?= \[[^\]]*\]x\[([^\]]*)\]->\[([^\]]*)\].*?"
                          r": \(tensor<[^>]*>, tensor<([^>]*)>\) -> tensor<([^>]*)>")


def _has_convolutions_of_small_windows(text: str) -> bool:
    """Whether a convolution has at least as many positions in its result as in its window.

    The gradient of a kernel has fewer: its window is the image.
    """
    def spatial_size(layout: str, shape: str) -> int:
        """Args: layout: such as "0, 1, i, o"; shape: such as "3x3x16x16xf32"."""
        axes = zip(layout.split(", "), shape.split("x"), strict=False)         # the last part of shape is the dtype
        return math.prod(int(size) for axis, size in axes if axis.isdigit())

    for match in _CONVOLUTION.finditer(text):
        window, result, window_shape, result_shape = match.groups()
        if spatial_size(result, result_shape) >= spatial_size(window, window_shape):
            return True
    return False


CHOICES = (
    Choice("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE",
           "cpu", _has_convolutions_of_small_windows,
           "Convolutions by Eigen instead of YNN; two cores, float32: a step of ResNet-18 takes 0.75 of the time, "
           "convolutions of 64 to 512 features with gradients 0.4 to 0.9. The gradient of a kernel alone takes 1.25."),
)


def compiler_flags(platform: str, text: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` with the flags that xjax sets for the program `text`.

    A flag that the user set, in `options` or in XLA_FLAGS, is kept.
    """
    flags, environment = with_workarounds(platform, text, options), flags_of_environment()
    for choice in CHOICES:
        if choice.platform == platform and choice.flag not in environment and choice.concerns(text):
            flags.setdefault(choice.flag, choice.value)
    return flags
