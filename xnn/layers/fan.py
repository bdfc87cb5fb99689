"""Split and join of branches around `parallel`: FanOut, FanInSum, FanInProd, FanInConcat."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Shape
from xnn.covariance.kernel import concatenated, of_points, product_of, sum_of
from xnn.layer import Layer
from xnn.layers.elementwise import stateless


def FanOut(n: int) -> Layer:
    """n copies of the input, for the n layers of a `parallel`.  Shape: s -> (s, ..., s)."""
    return stateless(lambda x: (x,) * n, lambda shape: (shape,) * n, "FanOut", {"n": n},
                     kernel_rule=of_points(lambda kernel: (kernel,) * n))


def FanInConcat(axis: int = -1) -> Layer:
    """The inputs concatenated along one axis.  Shape: ([..., a], [..., b]) -> [..., a + b]."""

    def out_shape(in_shapes):
        first, rest = _first("FanInConcat", in_shapes)
        at = range(len(first))[axis]
        others = {(*shape[:at], *shape[at + 1 :]) for shape in (first, *rest)}
        if len(others) != 1:
            raise _shapes_differ("FanInConcat", in_shapes, f"outside axis {axis}")
        joined = sum(shape[at] for shape in in_shapes)
        return (*first[:at], joined, *first[at + 1 :])

    return stateless(lambda xs: jnp.concatenate(xs, axis), out_shape, "FanInConcat", {"axis": axis}, axis == -1,
                     kernel_rule=lambda kernels: concatenated(kernels, axis))


def _same_shape(caller: str, in_shapes: Sequence[Shape]) -> Shape:
    first, rest = _first(caller, in_shapes)
    if any(shape != first for shape in rest):
        raise _shapes_differ(caller, in_shapes, "")
    return first


def _first(caller: str, in_shapes: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    if not in_shapes or not all(isinstance(shape, tuple) for shape in in_shapes):
        raise bad(caller, "needs the shapes of at least one input, in a tuple", {"in_shapes": repr(in_shapes)},
                  fix="apply it after a parallel(...), which returns a tuple.")
    return in_shapes[0], in_shapes[1:]


def _shapes_differ(caller: str, in_shapes: Any, place: str) -> Exception:
    return bad(caller, f"the shapes of the inputs differ {place}".rstrip(), {"in_shapes": repr(in_shapes)},
               fix="give the branches the same number of features.", exc=ValueError)


FanInSum = stateless(lambda xs: functools.reduce(operator.add, xs), functools.partial(_same_shape, "FanInSum"),
                     "FanInSum", kernel_rule=sum_of)
FanInProd = stateless(lambda xs: functools.reduce(operator.mul, xs), functools.partial(_same_shape, "FanInProd"),
                      "FanInProd", kernel_rule=product_of)
