"""Layers made of layers: serial, parallel, named, residual, repeat.

Child i draws from ``fold_in(rng, i)``, so a layer appended at the end changes no earlier stream.
An error that leaves a child says where it comes from: "in serial[3] -> Dropout".
"""

from collections.abc import Mapping, Sequence
from typing import Any

import xjax.numpy as jnp
from xjax import lax, tree_util
from xjax.errors import bad
from xnn.layer import Layer, OutlineFn, as_layer, bind_extras, check_params, note_path, out_shape
from xnn.rng import fold_in


def serial(*layers: Layer) -> Layer:
    """One layer after another: ``y = layer_n(... layer_1(x))``.

    Params: tuple, one entry for each layer, ``()`` for those without.
    Extra inputs: the names that the children declare, in order of first appearance; a child gets
    those that it declares: ``serial(GraphConvolution(16), Relu, GraphConvolution(7))`` is called
    as ``apply(params, x, adj)``.
    Raises: TypeError if an argument is no layer.
    """
    children = [as_layer(layer, f"serial[{i}]") for i, layer in enumerate(layers)]
    return _chain("serial", children, range(len(children)), tuple)


def named(**layers: Layer) -> Layer:
    """`serial` whose params are a dict: ``named(body=Dense(64), head=Dense(10))``.

    Params: ``{"body": ..., "head": ...}``. The layers run in the order in which they are written.
    """
    children = [as_layer(layer, f"named[{key!r}]") for key, layer in layers.items()]

    def pack(entries):
        return dict(zip(layers, entries, strict=True))

    return _chain("named", children, tuple(layers), pack)


def _chain(kind: str, children: Sequence[Layer], keys: Sequence[Any], pack: Any) -> Layer:
    """Children one after another; `pack` makes the container of their parameters."""
    extra_names = _extra_names(children)
    paths = [f"{kind}[{key!r}]" for key in keys]

    def init(rng, in_shape):
        shape, entries = in_shape, []
        for i, (path, child) in enumerate(zip(paths, children, strict=True)):
            shape, params = init_child(path, child, fold_in(rng, i), shape)
            entries.append(params)
        return shape, pack(entries)

    def apply(params, x, *extras, rng=None, train=False):
        given = bind_extras(kind, extra_names, extras)
        check_params(kind, params, keys)
        for i, (path, child) in enumerate(zip(paths, children, strict=True)):
            x = apply_child(path, child, params[keys[i]], x, given, rng=fold_in(rng, i), train=train)
        return x

    return Layer(init, apply, kind, extra_names, chain_outline(keys, children))


def chain_outline(keys: Sequence[Any], children: Sequence[Layer]) -> OutlineFn:
    """The outline of children that run one after another."""

    def outline(in_shape):
        steps = []
        for key, child in zip(keys, children, strict=True):
            steps.append((f"[{key!r}]", child, in_shape))
            in_shape = out_shape(child, in_shape)
        return steps

    return outline


def branch_outline(where: str, children: Sequence[Layer]) -> OutlineFn:
    """The outline of children that run side by side, each with its own shape."""

    def outline(in_shapes):
        check_count(where, len(children), in_shapes, "shapes")
        return [
            (f"[{i}]", child, shape)
            for i, (child, shape) in enumerate(zip(children, in_shapes, strict=True))
        ]

    return outline


def parallel(*layers: Layer) -> Layer:
    """Layer i works on input i: a sequence of inputs in, a tuple of outputs out.

    Params: tuple, one entry for each layer. `init` takes a sequence of shapes and returns a tuple
    of shapes. With `FanOut` before it and `FanInSum` or `FanInConcat` after it makes branches.
    Raises: TypeError if the number of inputs or shapes is not that of the layers.
    """
    children = [as_layer(layer, f"parallel[{i}]") for i, layer in enumerate(layers)]
    extra_names = _extra_names(children)
    outline = branch_outline("parallel", children)

    def init(rng, in_shapes):
        pairs = [
            init_child(f"parallel{key}", child, fold_in(rng, i), shape)
            for i, (key, child, shape) in enumerate(outline(in_shapes))
        ]
        return tuple(shape for shape, _ in pairs), tuple(params for _, params in pairs)

    def apply(params, xs, *extras, rng=None, train=False):
        given = bind_extras("parallel", extra_names, extras)
        check_params("parallel", params, range(len(children)))
        check_count("parallel", len(children), xs, "inputs")
        return tuple(
            apply_child(
                f"parallel[{i}]", child, params[i], x, given, rng=fold_in(rng, i), train=train
            )
            for i, (child, x) in enumerate(zip(children, xs, strict=True))
        )

    return Layer(init, apply, "parallel", extra_names, outline)


def residual(*layers: Layer) -> Layer:
    """``y = x + f(x)`` with f the layers one after another, which must keep the shape.

    Params: those of the one layer, or of ``serial(*layers)`` if there are several.
    Raises: TypeError from `init` if f changes the shape.
    """
    body = as_layer(layers[0], "residual") if len(layers) == 1 else serial(*layers)

    def init(rng, in_shape):
        shape, params = init_child("residual", body, rng, in_shape)
        _check_kept("residual", body, in_shape, shape)
        return shape, params

    def apply(params, x, *extras, rng=None, train=False):
        given = bind_extras("residual", body.extra_inputs, extras)
        return x + apply_child("residual", body, params, x, given, rng=rng, train=train)

    return Layer(init, apply, "residual", body.extra_inputs, lambda shape: [("", body, shape)])


def repeat(layer: Layer, n: int) -> Layer:
    """The same kind of layer n times, each with its own parameters, as one loop.

    The loop body is compiled once, so compile time does not grow with n. Values and gradients
    are those of ``serial(*[layer] * n)`` with the parameters of the layers stacked.
    Params: those of `layer` with a new first axis of size n.
    Raises: ValueError for n < 1; TypeError from `init` if the layer changes the shape.
    """
    child = as_layer(layer, "repeat")
    if n < 1:
        raise bad("repeat", "n must be at least 1", {"n": repr(n)}, "repeat(layer, 3).", ValueError)

    def init(rng, in_shape):
        shapes, entries = zip(
            *(init_child("repeat", child, fold_in(rng, i), in_shape) for i in range(n)),
            strict=True,
        )
        _check_kept("repeat", child, in_shape, shapes[0])
        return shapes[0], tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *entries)

    def apply(params, x, *extras, rng=None, train=False):
        given = bind_extras("repeat", child.extra_inputs, extras)

        def body(carry, step):
            i, layer_params = step
            layer_rng = fold_in(rng, i)
            return apply_child(
                "repeat", child, layer_params, carry, given, rng=layer_rng, train=train
            ), None

        y, _ = lax.scan(body, x, (jnp.arange(n), params))
        return y

    return Layer(
        init, apply, "repeat", child.extra_inputs, lambda shape: [(f" x {n}", child, shape)]
    )


def _extra_names(children: Sequence[Layer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for child in children for name in child.extra_inputs))


def init_child(path: str, child: Layer, rng: Any, shape: Any) -> tuple[Any, Any]:
    """``child.init``; an error on its way up is told where the child is."""
    try:
        return child.init(rng, shape)
    except Exception as err:
        err.add_note(f"in {path} -> {child.name} (init for shape {shape})")
        raise


def apply_child(path: str, child: Layer, params: Any, x: Any, given: Mapping[str, Any], **settings: Any) -> Any:
    """``child.apply`` with its extra inputs out of `given`; an error is told where the child is.

    Args: settings: keywords for the child: rng, train, and with stax what the caller passed.
    """
    try:
        extras = (given[name] for name in child.extra_inputs)
        return child.apply(params, x, *extras, **settings)
    except Exception as err:
        note_path(err, path, child, x)
        raise


def check_count(where: str, n: int, values: Any, what: str) -> None:
    """Raises: TypeError if `values` is not a sequence with one entry for each of n layers."""
    if not isinstance(values, tuple | list) or len(values) != n:
        count = len(values) if isinstance(values, tuple | list) else type(values).__name__
        raise bad(
            where,
            f"{n} layers need a sequence of {n} {what}",
            {what: str(count)},
            fix=f"pass one of the {what} for each layer, in a tuple; FanOut({n}) makes copies.",
        )


def _check_kept(where: str, body: Layer, in_shape: Any, shape: Any) -> None:
    if tuple(in_shape) != tuple(shape):
        raise bad(
            where,
            f"{body.name} changes the shape",
            {"in_shape": repr(in_shape), "out_shape": repr(shape)},
            fix="choose layers whose output has the shape of their input.",
        )
