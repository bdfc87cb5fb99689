"""serial and parallel, which split the key among their children, and shape_dependent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xjax.numpy as jnp
from xjax.errors import bad
from xnn.checks import check_entries
from xnn.combinators import check_count
from xnn.composites import apply_child, init_child
from xnn.layer import Layer, Parts, as_layer
from xnn.rng import split


def serial(*layers: Any) -> Layer:
    """One layer after another.

    Args: layers: layers or pairs ``(init_fun, apply_fun)``.
    Params: list, one entry for each layer.
    Raises: TypeError if an argument is not a layer, or is a layer of `xnn` with more than one input.

    >>> from xnn import stax
    >>> init, apply = serial(stax.Dense(3), stax.Relu)
    >>> init(random.PRNGKey(0), (-1, 2))[0]
    (-1, 3)
    """
    children = _children("stax.serial", layers)
    n = len(children)

    def walk(visit, shape, shapes):
        for i in range(n):
            shape = visit(i, shape)
        return shape

    def init(rng, in_shape):
        params = []
        for i, child in enumerate(children):
            rng, layer_rng = split(rng, 2)
            in_shape, layer_params = init_child(f"stax.serial[{i}]", child, layer_rng, in_shape)
            params.append(layer_params)
        return in_shape, params

    def apply(params, x, *, rng=None, **kwargs):
        check_entries("stax.serial", "params", params, range(n))
        for i, (child, layer_params, layer_rng) in enumerate(zip(children, params, split(rng, n), strict=True)):
            x = apply_child(f"stax.serial[{i}]", child, layer_params, x, {}, rng=layer_rng, **kwargs)
        return x

    return Layer(init, apply, "serial", (),
                 parts=Parts(dict(enumerate(children)), walk, lambda some: serial(*some.values())))


def parallel(*layers: Any) -> Layer:
    """Layer i works on input i: a sequence of inputs in, a list of outputs out.

    Args: layers: layers or pairs ``(init_fun, apply_fun)``.
    Params: tuple, one entry for each layer. `init` takes a sequence of shapes and returns a tuple of shapes.
    Raises: as in `serial`; TypeError if the number of inputs or shapes differs from the number of layers.
    """
    children = _children("stax.parallel", layers)
    n = len(children)

    def walk(visit, in_shapes, shapes):
        check_count("stax.parallel", n, in_shapes, "shapes")
        return tuple(visit(i, shape) for i, shape in enumerate(in_shapes))

    def init(rng, in_shapes):
        check_count("stax.parallel", n, in_shapes, "shapes")
        rows = zip(children, split(rng, n), in_shapes, strict=True)
        pairs = [init_child(f"stax.parallel[{i}]", child, layer_rng, shape)
                 for i, (child, layer_rng, shape) in enumerate(rows)]
        return tuple(shape for shape, _ in pairs), tuple(params for _, params in pairs)

    def apply(params, xs, *, rng=None, **kwargs):
        check_entries("stax.parallel", "params", params, range(n))
        xs = list(xs)
        check_count("stax.parallel", n, xs, "inputs")
        rows = zip(children, params, xs, split(rng, n), strict=True)
        return [apply_child(f"stax.parallel[{i}]", child, layer_params, x, {}, rng=layer_rng, **kwargs)
                for i, (child, layer_params, x, layer_rng) in enumerate(rows)]

    return Layer(init, apply, "parallel", (),
                 parts=Parts(dict(enumerate(children)), walk, lambda some: parallel(*some.values())))


def shape_dependent(make_layer: Callable[[Any], Any]) -> Layer:
    """The layer ``make_layer(shape of the input)``, which is constructed in each call of `init` and `apply`.

    >>> from xnn import stax
    >>> narrow = shape_dependent(lambda shape: stax.Dense(shape[-1] // 2))
    >>> narrow.init(random.PRNGKey(0), (-1, 8))[0]
    (-1, 4)
    """
    def layer_for(shape):
        return as_layer(make_layer(shape), "stax.shape_dependent")

    def init(rng, in_shape):
        return layer_for(in_shape).init(rng, in_shape)

    def apply(params, x, **kwargs):
        return layer_for(jnp.shape(x)).apply(params, x, **kwargs)

    return Layer(init, apply, "shape_dependent", ())


def _children(caller: str, layers: Sequence[Any]) -> list[Layer]:
    children = [as_layer(layer, f"{caller}[{i}]") for i, layer in enumerate(layers)]
    for i, child in enumerate(children):
        if child.extra_inputs:
            raise bad(f"{caller}[{i}]", f"{child.name} takes more than one input", {"inputs": repr(child)},
                      f"put it in {caller.replace('stax', 'xnn')}, which passes extra inputs.")
    return children
