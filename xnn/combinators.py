"""Layers made of layers: serial, named, parallel, residual, whole, repeat.

Child i draws from ``fold_in(rng, i)``, so a layer appended at the end changes no earlier stream.
An error in a child gets a note with its place in the model: "in serial[3] -> Dropout".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax, tree_util
from xjax.errors import bad
from xjax.typing import PyTree
from xnn.checks import counted, type_text
from xnn.composites import Pack, check_kept, combine, dict_of, extra_values, init_child, only
from xnn.covariance.evaluation import kernel_after
from xnn.covariance.kernel import Pair, of_points
from xnn.inputs import bind
from xnn.layer import CacheFns, Layer, LayerLike, Parts, StateFns, as_layer, call_text, note_path, recorded
from xnn.rng import fold_in
from xnn.wrapping import wrapped

T = TypeVar("T")


def serial(*layers: LayerLike) -> Layer:
    """One layer after another: ``y = layer_n(... layer_1(x))``.

    Params: tuple, one entry for each layer; ``()`` for a layer without parameters.
    Extra inputs: the inputs that the children declare, in order of first appearance. The `row_mask` of `BatchNorm`
    and `MixtureOfExperts` comes after all others. Each child gets the inputs that it declares:
    ``serial(GraphConvolution(16), Relu, GraphConvolution(7))`` is called as ``apply(params, x, adj)``.
    Raises: TypeError if an argument is not a layer; ValueError if two layers use one input name with different
    meanings (see `renamed`).
    """
    children = {i: as_layer(layer, f"serial[{i}]") for i, layer in enumerate(layers)}
    return _chain("serial", children, tuple, lambda some: serial(*some.values()))


def named(**layers: LayerLike) -> Layer:
    """`serial` with params in a dict: ``named(body=Dense(64), head=Dense(10))``.

    Params: ``{"body": ..., "head": ...}``. The layers run in the order of the arguments.
    """
    children = {key: as_layer(layer, f"named[{key!r}]") for key, layer in layers.items()}
    return _chain("named", children, dict_of(layers), lambda some: named(**some))


def _chain(name: str, children: Mapping[Any, Layer], pack: Pack, rebuild: Callable[..., Layer]) -> Layer:
    """A composite that applies its children one after another."""

    def walk(visit, shape, shapes):
        for key in children:
            shape = visit(key, shape)
        return shape

    def forward(call, x, values):
        for key in children:
            x = call(key, x)
        return x

    return combine(name, children, walk, forward, pack, rebuild=rebuild)


def parallel(*layers: LayerLike, **by_name: LayerLike) -> Layer:
    """Layer i works on input i: a sequence of inputs in, a tuple of outputs out.

    Params: tuple, one entry for each layer; a dict for ``parallel(image=..., text=...)``, whose inputs
    and outputs may be dicts with these names. `init` takes a sequence (or a dict) of shapes and
    returns a tuple (or a dict) of shapes. Branches are made by `FanOut` before it and `FanInSum` or
    `FanInConcat` after it.
    Raises: TypeError if the number of inputs or shapes differs from the number of layers, or if only
    some layers have names.
    """
    check_names("parallel", layers, by_name)
    by_key = by_name or dict(enumerate(layers))
    children = {key: as_layer(layer, f"parallel[{key!r}]") for key, layer in by_key.items()}
    keys = tuple(children)

    def walk(visit, in_shapes, shapes):
        outs = {key: visit(key, shape) for key, shape in _by_key("parallel", keys, in_shapes, "shapes").items()}
        return outs if isinstance(in_shapes, Mapping) else tuple(outs.values())

    def forward(call, xs, values):
        outs = {key: call(key, x) for key, x in _by_key("parallel", keys, xs, "inputs").items()}
        return outs if isinstance(xs, Mapping) else tuple(outs.values())

    def rebuild(some):
        return parallel(**some) if by_name else parallel(*some.values())

    return combine("parallel", children, walk, forward, dict_of(keys) if by_name else tuple, rebuild=rebuild)


def _by_key(caller: str, keys: Sequence[Any], values: PyTree, what: str) -> dict[Any, PyTree]:
    if isinstance(values, Mapping):
        if set(values) != set(keys):
            raise bad(caller, f"the names of the {what} differ from those of the layers",
                      {what: ", ".join(map(repr, values))},
                      fix=f"pass one for each of {', '.join(map(repr, keys))}.")
        return {key: values[key] for key in keys}
    check_count(caller, len(keys), values, what)
    return dict(zip(keys, values, strict=True))


def residual(*layers: LayerLike, **by_name: LayerLike) -> Layer:
    """``y = x + f(x)``, where f applies the layers one after another and must keep the shape.

    Params: those of the layer if there is only one, else those of ``serial(*layers)`` or ``named(**by_name)``.
    Raises: TypeError from `init` if f changes the shape, or if only some layers have names.
    """
    check_names("residual", layers, by_name)
    body = named(**by_name) if by_name else as_layer(layers[0], "residual") if len(layers) == 1 else serial(*layers)

    def walk(visit, in_shape, shapes):
        check_kept("residual", body, in_shape, shape := visit(None, in_shape))
        return shape

    return combine("residual", {None: body}, walk, lambda call, x, values: x + call(None, x), only,
                   rebuild=lambda some: residual(some[None]))


@recorded("layer")
def whole(layer: LayerLike, *, keep: bool = False) -> Layer:
    """A layer that is applied to a whole input once, also in generation: the encoder of an encoder-decoder model.

    Generation passes the inputs of a model with the prompt, and None for each of them in later steps. `whole` then
    returns None, with which `CrossAttention` reuses the keys and values that it computed from the first result::

        def translator(layers, tokens, source, source_mask=None):
            context = layers.encoder(source, mask=source_mask)
            return layers.decoder(tokens, context=context, context_mask=source_mask)

        model = composite(translator, encoder=whole(encoder), decoder=decoder)
        generate(model, params, start, steps=20, temperature=0, source=source)

    Args:
      layer: any layer; it needs no cache. If its result is a pytree, later results have None in place of each array.
      keep: whether a later call with None returns the first result again, for a decoder that reads it in each step.
        If the decoder also reads a mask, let the layer return it with the result.
    Params, state: those of the layer.  Cache: empty at first, then the result, or its structure without `keep`.
    Raises: TypeError in a call with a cache, if the first call passes None, or if a later call passes an input.
    """
    child = as_layer(layer, "whole")
    made = combine("whole", {None: child}, lambda visit, shape, shapes: visit(None, shape),
                   lambda call, x, values: None if x is None else call(None, x), only,
                   rebuild=lambda some: whole(some[None], keep=keep))

    def apply_with_cache(params, cache, x, *extra, state=(), **named_values):
        if x is None and not cache:
            raise bad("whole", "there is no input, neither in this call nor in an earlier one",
                      {"layer": call_text(child)}, fix="pass the whole input in the first call with a cache.")
        if x is not None and cache:
            raise bad("whole", "the layer has its whole input from an earlier call with this cache",
                      {"layer": call_text(child), "x": type_text(x)},
                      fix="pass None in later calls. A layer of the generated positions needs a cache, not `whole`.")
        if cache:
            return cache["result"], cache
        y, _ = made.apply_with_state(params, state, x, *extra, **named_values)
        return y, {"result": y if keep else tree_util.tree_map(lambda leaf: None, y)}

    return dataclasses.replace(made, cache=CacheFns(lambda batch, length: {}, apply_with_cache))


def check_names(caller: str, layers: Sequence[LayerLike], by_name: Mapping[str, LayerLike]) -> None:
    """Raises: TypeError if only some layers have names."""
    if layers and by_name:
        raise bad(caller, "only some of the layers have names", {"names": ", ".join(by_name)},
                  fix="give all layers a name, or none.")


@recorded("layer")
def repeat(layer: LayerLike, n: int, *, each: Mapping[str, Sequence] | None = None,
           unroll: int | bool | None = None) -> Layer:
    """n copies of a layer one after another, each with its own parameters and state; the layer is traced once.

    Values and gradients are those of ``serial(*[layer] * n)`` with the parameters of the layers stacked.
    Params, state, cache: those of `layer` with a new first axis of size n.

    Args:
      each: values of inputs of the layer that differ from copy to copy, one for each: in
        ``repeat(block, 4, each={"local": [True, False, True, False]})`` the first and the third block are local. Such
        an input is not an input of the result.
      unroll: number of layers in one iteration of the compiled loop, as in `xjax.lax.scan`; True means no loop. A loop
        compiles as fast for 100 layers as for one. But it stores the residuals of the gradient in stacked arrays and
        reads them from there, so a training step takes an eighth longer. None: no loop for up to 12 layers.
    Raises: ValueError for n < 1, for a negative `unroll`, and for an entry of `each` that is not an input of the layer
      or has not n values; TypeError from `init` if the layer changes the shape.
    """
    child = as_layer(layer, "repeat")
    if n < 1:
        raise bad("repeat", "n must be at least 1", {"n": repr(n)}, "repeat(layer, 3).", ValueError)
    if unroll is not None and (not isinstance(unroll, int) or unroll < 0):
        raise bad("repeat", "`unroll` must be a number of layers", {"unroll": repr(unroll)},
                  "unroll=1 for a loop, True for none.", ValueError)
    unrolled = n <= _WITHOUT_LOOP if unroll is None else unroll
    own = {name: np.asarray(values) for name, values in (each or {}).items()}
    wrong = [name for name, values in own.items() if name not in child.extra_inputs or values.shape[:1] != (n,)]
    if wrong:
        raise bad("repeat", f"`each` needs {n} values for an input of {child.name}",
                  {wrong[0]: repr(own[wrong[0]]), "inputs": ", ".join(child.extra_inputs) or "none"},
                  f"each={{name: {n} values}}.", ValueError)
    inputs = tuple(one for one in child.inputs if one.name not in own)
    own_shapes = {name: values.shape[1:] for name, values in own.items() if name in child.sized_by}

    def init(rng, in_shape, **shapes):
        made = []

        def init_one(i):
            shape, params = init_child("repeat", child, fold_in(rng, i), in_shape, {**shapes, **own_shapes})
            made.append(shape)
            return params

        # vmap, because a Python loop would trace and compile the same random numbers n times.
        params = _stacked([init_one(0)] * n) if rng is None else xjax.vmap(init_one)(jnp.arange(n))
        check_kept("repeat", child, in_shape, made[0])
        return in_shape, params

    def loop(x, step, *trees):
        """``step(x, i, entry of each tree) -> (y, new entry)`` for each layer; returns (y, stacked new entries)."""
        return lax.scan(lambda x, entries: noting("repeat", child, x, lambda: step(x, *entries)), x,
                        (jnp.arange(n), *trees), unroll=unrolled)

    def inputs_of_copy(extra, named_values):
        """A function from the number of a copy to the extra inputs of the layer."""
        values = bind("repeat", inputs, extra, named_values)
        chosen = {name: jnp.asarray(array) for name, array in own.items()}
        return lambda i: extra_values(child, {**values, **{name: array[i] for name, array in chosen.items()}})

    def apply(params, x, *extra, rng=None, train=False, **named_values):
        at = inputs_of_copy(extra, named_values)

        def step(x, i, layer_params):
            return child.apply(layer_params, x, *at(i), rng=fold_in(rng, i), train=train), None

        return loop(x, step, params)[0]

    def apply_with_state(params, state, x, *extra, rng=None, train=False, **named_values):
        at = inputs_of_copy(extra, named_values)

        def step(x, i, layer_params, layer_state):
            return child.apply_with_state(layer_params, layer_state, x, *at(i), rng=fold_in(rng, i), train=train)

        return loop(x, step, params, state)

    def apply_with_cache(params, cache, x, *extra, state=(), **named_values):
        at = inputs_of_copy(extra, named_values)

        def step(x, i, layer_params, layer_cache, layer_state):
            return child.apply_with_cache(layer_params, layer_cache, x, *at(i), state=layer_state)

        return loop(x, step, params, cache, state)

    def init_state(in_shape, rng=None, **shapes):
        return _stacked([child.init_state(in_shape, fold_in(rng, i), **shapes, **own_shapes) for i in range(n)])

    def init_cache(batch, length):
        return _stacked([child.init_cache(batch, length)] * n)

    @of_points
    def kernel_rule(kernel, **values):
        for i in range(n):
            chosen = {name: Pair(array[i], array[i]) for name, array in own.items()}
            kernel = kernel_after(child, kernel, {**values, **chosen})
        return kernel

    return Layer(
        init, None if child.state else apply, "repeat", inputs,
        state=StateFns(init_state, apply_with_state) if child.state else None,
        cache=CacheFns(init_cache, apply_with_cache) if child.cache else None,
        parts=Parts({None: child}, lambda visit, shape, shapes: visit(None, shape, **own_shapes),
              lambda some: repeat(some[None], n, each=each, unroll=unroll), n),
        sized_by=tuple(name for name in child.sized_by if name not in own), positionwise=child.positionwise,
        kernel_rule=kernel_rule)


_WITHOUT_LOOP = 12      # layers. 12 GPT-2 blocks compile in 7 s without a loop, 3 s with one; a step takes 1/8 less.


def _stacked(trees: list[PyTree]) -> PyTree:
    return tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *trees)


def noting(caller: str, child: Layer, x: PyTree, step: Callable[[], T]) -> T:
    """``step()``, which applies the child to x; an error gets a note that names the child."""
    try:
        return step()
    except Exception as err:
        note_path(err, caller, child, x)
        raise


def renamed(layer: LayerLike, **names: str) -> Layer:
    """The layer with other names for its inputs: ``renamed(attention, mask="source_mask")``.

    Composites pass inputs by name. If two layers of a composite use one name with different meanings, rename one.
    Raises: ValueError if the layer has no input of an old name, or if two inputs would get the same name.
    """
    child = as_layer(layer, "renamed")
    wrong = [old for old in names if old not in child.extra_inputs]
    new = {one.name: names.get(one.name, one.name) for one in child.inputs}
    if wrong or len(set(new.values())) < len(new):
        raise bad("renamed", f"{child.name} has no input {wrong[0]!r}" if wrong else "two inputs would have one name",
                  {"inputs": ", ".join(child.extra_inputs) or "none", "names": repr(names)},
                  fix="name an existing input of the layer, and give it an unused name.", exc=ValueError)
    old_names = {outer: inner for inner, outer in new.items()}

    def translated(values):
        return {old_names.get(name, name): value for name, value in values.items()}

    @of_points
    def kernel_rule(kernel, **values):
        return kernel_after(child, kernel, translated(values))

    def renamed_again(part: Layer) -> Layer:
        return renamed(part, **{old: name for old, name in names.items() if old in part.extra_inputs})

    return wrapped(
        child,
        lambda call, params, x, *extra, **values: call(params, x, *extra, **translated(values)),
        init=lambda rng, in_shape, *shapes, **values: child.init(rng, in_shape, *shapes, **translated(values)),
        inputs=tuple(one._replace(name=new[one.name]) for one in child.inputs),
        parts=child.parts and child.parts.then(renamed_again),
        sized_by=tuple(new[name] for name in child.sized_by),
        kernel_rule=kernel_rule,
    )


def check_count(caller: str, n: int, values: object, what: str) -> None:
    """Raises: TypeError if `values` is not a sequence with one entry for each of n layers."""
    if not isinstance(values, tuple | list) or len(values) != n:
        count = len(values) if isinstance(values, tuple | list) else type(values).__name__
        raise bad(
            caller,
            f"{counted(n, 'layer')} need a sequence of {n} {what}",
            {what: str(count)},
            fix=f"pass a tuple of {what}, one for each layer, or a dict by name; FanOut({n}) makes copies of an input.",
        )
