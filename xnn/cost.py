"""Cost of a layer: floating-point operations of products, convolutions and sums, and the size of its output."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import random, tree_util
from xjax.typing import DTypeLike, PyTree
from xnn.composites import taken_by
from xnn.inputs import TypedShape, is_shape, is_slot, map_shapes, resized
from xnn.layer import Layer, init_types
from xnn.sharing import SlotUses


class Cost(NamedTuple):
    """Cost of one call of a layer in evaluation.

    Attributes:
      flops: multiplications and additions of matrix products and convolutions, two for each product of two numbers.
        Products with sparse matrices, such as a sum over the edges of a graph, count two for each number summed.
        The body of a `scan` counts once for each step, the body of a `while_loop` once; a `cond` counts as its most
        expensive branch.
      out_bytes: size of the output in bytes.
    """

    flops: int
    out_bytes: int


def cost_of(layer: Layer, in_shape: PyTree, **shapes: PyTree) -> Cost | None:
    """The cost of `layer`; unknown sizes (-1) count as 1.

    Shapes with a dtype (`xnn.inputs.TypedShape`) stand for inputs of that dtype. Others are tried as float32 and as
    int32, those of further inputs also as bools.
    Returns: None if the layer cannot be applied to these inputs, for example if `shapes` lacks a required input.
    """
    has_shapes = any(name in layer.extra_inputs and is_shape(shape) and not isinstance(shape, TypedShape)
                     for name, shape in shapes.items())
    extra_dtypes = (np.float32, np.int32, np.bool_) if has_shapes else (np.float32,)
    for dtypes in itertools.product((np.float32, np.int32), extra_dtypes):
        try:
            program = xjax.make_jaxpr(_call(layer, in_shape, shapes, *dtypes))()
        except Exception:                               # the user gets the error when the layer is applied
            continue
        out = [v.aval for v in program.jaxpr.outvars]
        return Cost(flops(program), sum(aval.size * aval.dtype.itemsize for aval in out))
    return None


def _call(layer: Layer, in_shape: PyTree, shapes: Mapping[str, PyTree], dtype: DTypeLike,
          extra_dtype: DTypeLike) -> Callable[[], PyTree]:
    taken = taken_by(layer, shapes)
    uses = {name: SlotUses(name) for name in layer.extra_inputs if is_slot(name)}
    params = init_types(layer, in_shape, **taken, **uses)[1]
    extra = {name: _in_segments(_zeros(shape, extra_dtype)) for name, shape in shapes.items()
             if name in layer.extra_inputs}

    def call():
        values = _values(params)
        extra.update({name: _values(use.types) for name, use in uses.items()})
        state = layer.init_state(closed(in_shape), random.PRNGKey(0), **taken)
        return layer.apply_with_state(values, state, _zeros(in_shape, dtype), **extra)[0]

    return call


def _values(types: PyTree) -> PyTree:
    return tree_util.tree_map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), types)


def closed(shape: PyTree) -> PyTree:
    """The shape, or tree of shapes, with 1 for each unknown size."""
    return map_shapes(lambda one: resized(one, (1 if n < 0 else n for n in one)), shape)


def _zeros(shape: PyTree, dtype: DTypeLike) -> PyTree:
    """Zeros of a shape, or tree of shapes, in the dtype of the shape if it has one."""
    return map_shapes(lambda one: jnp.zeros(one, getattr(one, "dtype", dtype)), closed(shape))


def _in_segments(graph: PyTree) -> PyTree:
    """A graph or matrix in the form "segments", whose sums are scatter-adds that `flops` counts."""
    return graph.tune(form="segments") if hasattr(graph, "tune") else graph


def flops(program: Any) -> int:
    """Floating-point operations of the matrix products, convolutions and sums in a program: see `Cost`.

    Args: program: a result of `xjax.make_jaxpr`.

    >>> flops(xjax.make_jaxpr(jnp.matmul)(jnp.ones((2, 3)), jnp.ones((3, 4))))
    48
    """
    return sum(_flops_of(eqn) for eqn in program.eqns)


def _flops_of(eqn: Any) -> int:
    name, params = eqn.primitive.name, eqn.params
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return 2 * eqn.outvars[0].aval.size * math.prod(eqn.invars[0].aval.shape[d] for d in contracted)
    if name == "conv_general_dilated":
        weights, out_features = eqn.invars[1].aval, params["dimension_numbers"].rhs_spec[0]
        return 2 * eqn.outvars[0].aval.size * (weights.size // max(weights.shape[out_features], 1))
    if name == "scatter-add":
        return 2 * eqn.invars[2].aval.size
    if name == "cond":
        return max(flops(branch) for branch in params["branches"])
    times = params.get("length", 1) if name == "scan" else 1
    return times * sum(flops(inner) for inner in params.values() if hasattr(inner, "eqns"))
