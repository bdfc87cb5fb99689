"""Forms of convolutions on CPUs: milliseconds of each form, for the value and for both gradients.

A star marks the form that xjax chooses, by the limits in `xjax/core/forms.py`. A form that does not apply to a
convolution has no time. Operands are float32 with the features last; the forms of one part run in turn.

    python benchmarks/conv_forms.py --only "3 x 3"
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from pairs import best

import xjax
from xjax import Array, lax
from xjax.core.forms import FORMS

_NUMBERS = "NHWC", "HWIO", "NHWC"
ROUNDS = 12


class Case(NamedTuple):
    """Images [batch, size, size, features] and kernels [window, window, features / groups, outputs]."""

    window: int
    features: int
    outputs: int
    batch: int
    size: int
    strides: int = 1
    groups: int = 1

    def __str__(self) -> str:
        extra = f", strides {self.strides}" * (self.strides > 1) + f", {self.groups} groups" * (self.groups > 1)
        return (f"{self.window} x {self.window}, {self.features} -> {self.outputs}, "
                f"{self.batch} x {self.size} x {self.size}{extra}")


CASES = [
    Case(3, 3, 64, 16, 32), Case(3, 16, 16, 8, 64), Case(3, 32, 32, 8, 32), Case(3, 64, 64, 16, 32),
    Case(3, 128, 128, 16, 16), Case(3, 256, 256, 16, 8), Case(3, 512, 512, 16, 4),
    Case(3, 64, 128, 16, 32, strides=2), Case(3, 256, 512, 16, 8, strides=2),
    Case(1, 64, 256, 16, 32), Case(1, 64, 128, 16, 32, strides=2), Case(1, 256, 512, 16, 8, strides=2),
    Case(5, 1, 20, 64, 28), Case(5, 20, 50, 64, 12), Case(7, 3, 64, 8, 64, strides=2),
    Case(4, 3, 192, 16, 32, strides=4), Case(3, 64, 64, 16, 32, groups=64),
]

_EVERY = math.inf
OPEN: dict[str, Mapping[str, float]] = {           # wider limits, since a limit is where another form is as fast
    "convolutions by one product": {},
    "convolutions by shifted products": {"taps": _EVERY, "many": 0, "features": 0, "positions": _EVERY},
    "convolutions by products of positions": {"results": 49},
    "convolutions by terms": {"features": _EVERY, "terms": 64, "products": _EVERY, "products_last": _EVERY},
    "depthwise convolutions by taps": {"taps": _EVERY},
}
XLA = "XLA's"


@contextmanager
def only(form: str) -> Iterator[None]:
    """Convolutions are computed in this form where it can be written, else as XLA computes them."""
    before = dict(FORMS)
    FORMS.update({name: before[name]._replace(cpu=OPEN[name] if name == form else None) for name in OPEN})
    try:
        yield
    finally:
        FORMS.update(before)


def parts(case: Case) -> dict[str, tuple[Callable[..., Array], tuple[Array, Array]]]:
    """Functions of two arrays that compute the value and the two gradients, and their arguments."""
    npr = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        return xjax.numpy.asarray(npr.standard_normal(shape, dtype=np.float32))

    def conv(x: Array, kernel: Array) -> Array:
        return lax.conv_general_dilated(x, kernel, (case.strides,) * 2, "SAME", dimension_numbers=_NUMBERS,
                                        feature_group_count=case.groups)

    x = draw(case.batch, case.size, case.size, case.features)
    kernel = draw(case.window, case.window, case.features // case.groups, case.outputs)
    g = xjax.numpy.ones_like(conv(x, kernel))
    return {"value": (conv, (x, kernel)),
            "operand": (lambda g, kernel: xjax.linear_transpose(lambda x: conv(x, kernel), x)(g)[0], (g, kernel)),
            "kernel": (lambda x, g: xjax.linear_transpose(lambda kernel: conv(x, kernel), kernel)(g)[0], (x, g))}


def times(function: Callable[..., Array], arguments: tuple[Array, Array]) -> tuple[dict[str, float], str]:
    """({form: seconds} of the forms that apply, the form that xjax chooses)."""
    def program() -> tuple[str, Callable[..., Array]]:
        xjax.clear_caches()                                                 # of programs in another form
        lowered = xjax.jit(function).lower(*arguments)
        return lowered.as_text(), lowered.compile()

    (chosen, _), programs, texts = program(), {}, {}
    for form in (XLA, *OPEN):
        with only(form):
            text, run = program()
        if text not in texts.values():
            programs[form], texts[form] = run, text
    seconds = dict.fromkeys(programs, math.inf)
    for i in range(ROUNDS + 1):
        for form, run in programs.items():
            took = best(lambda run=run: run(*arguments).block_until_ready(), 1, 1)
            seconds[form] = min(seconds[form], took) if i else math.inf
    return seconds, next(form for form, text in texts.items() if text == chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run only convolutions whose descriptions contain this")
    args = parser.parse_args()
    columns = [XLA, *(form.removeprefix("convolutions ").removeprefix("depthwise convolutions ") for form in OPEN)]
    print(f"{'convolution':<44}{'part':<8}", *(f"{column:>24}" for column in columns))
    for case in CASES:
        if args.only in str(case):
            for part, (function, arguments) in parts(case).items():
                seconds, chosen = times(function, arguments)
                cells = [f"{1e3 * seconds[form]:.2f}{'*' if form == chosen else ' '}" if form in seconds else "- "
                         for form in (XLA, *OPEN)]
                print(f"{case!s:<44}{part:<8}", *(f"{cell:>24}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
