"""`composite`: a layer written as a function that calls other layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad, did_you_mean
from xjax.typing import ArrayLike, DTypeLike, PyTree
from xnn.composites import combine, dict_of, passing_fix, visible
from xnn.inputs import (
    ROW_MASK,
    Input,
    TypedShape,
    bind,
    inputs_of,
    is_shape,
    is_slot,
    joined,
    map_shapes,
    resized,
    shape_of,
)
from xnn.layer import Layer, LayerLike, as_layer, out_shape
from xnn.rng import Rng


def composite(fun: Callable[..., PyTree], name: str | None = None, settings: Mapping[str, Any] | None = None,
              **layers: LayerLike) -> Layer:
    """A layer from a function that calls its children, for models that are not a chain.

    ``fun(layers, x, *extra)`` gets the children bound to their parameters, state and random keys. ``layers.norm(x)``
    applies the child `norm`, with its extra inputs by name. The parameters of `fun` after x are the composite's extra
    inputs; with a parameter ``**inputs``, those of the children are too (see below)::

        def block(layers, x, mask=None):
            x = x + layers.attention(layers.norm(x), mask=mask)
            return x + layers.mlp(x)

        Block = composite(block, norm=LayerNorm(), attention=SelfAttention(8), mlp=mlp)

    A parameter ``row_mask=None`` of `fun` is an input only if a child has the input `row_mask`, such as `BatchNorm`.

    A combinator for children with any inputs takes and passes them as ``**inputs``. Each child gets the inputs that it
    has, and a call that drops one of them is refused::

        def highway(layer):
            def forward(layers, x, **inputs):
                return x + layers.gate(x) * layers.body(x, **inputs)

            return composite(forward, "highway", gate=serial(Dense(1), Sigmoid), body=layer)

    `layers.rng` and `layers.train` are the values of the current call. A child that is called twice has one set of
    parameters; its second call starts from the state that the first returned.

    Args:
      fun: the function; it calls every child at least once.
      name: for messages; None: the name of the function.
      settings: as in `Layer`.
      layers: the children by name.
    Params: dict with the names of the children.
    Shape: `init` evaluates `fun` on shapes to infer the input shape of each child. The input is float32 there, or of
      integers or bools if `init` gets a `ShapeDtypeStruct` or an array of such a dtype. A child's result has the dtype
      of its input if that is a float, else float32.
    Raises: TypeError if `fun` calls a child without an input that the child requires, or with ``**inputs`` without any
      of its inputs: at once if a call with unknown values shows it, else from `init`; TypeError from `init` for a child
      that `fun` does not call.

    >>> from xnn import Dense, Tanh, composite
    >>> gated = composite(lambda layers, x: layers.gate(x) * layers.value(x), "gated", gate=Dense(3), value=Dense(3))
    >>> shape, params = gated.init(random.PRNGKey(0), (-1, 2))
    >>> shape, sorted(params)
    ((-1, 3), ['gate', 'value'])
    """
    name = name or getattr(fun, "__name__", "composite").strip("<>")
    reserved = [key for key in layers if key in ("rng", "train") or key.startswith("_")]
    if reserved:
        raise bad(name, f"a layer cannot have the name {reserved[0]!r}: layers.{reserved[0]} has another meaning",
                  fix="choose another name.", exc=ValueError)
    children = {key: as_layer(layer, f"{name}[{key!r}]") for key, layer in layers.items()}
    scope, inputs = _scope_of(name, fun, children)
    trial = scope._replace(unsure={one.name for one in inputs if not one.is_required})
    of_children = [one for child in children.values() for one in child.inputs]
    if scope.passed or any(one.is_required and not is_slot(one.name) for one in of_children):
        _check_calls(trial, fun, children, inputs)

    def walk(visit, in_shape, shapes):
        calls, shape = _infer_shapes(trial, fun, children, inputs, in_shape, shapes)
        for key in children:
            if key not in calls:
                raise bad(name, f"the function does not call its layer {key!r}", {"calls": ", ".join(calls) or "none"},
                          fix=f"call layers.{key}(...), or do not pass the layer to composite.")
            child_shape, sizes = calls[key]
            visit(key, child_shape, **sizes)
        return shape

    def forward(call, x, values):
        call.values = {key: value for key, value in values.items() if is_slot(key)}
        return fun(_Bound(scope, call, call.rng, call.train), x, **{one.name: values[one.name] for one in inputs})

    def rebuild(some):
        return composite(fun, name, settings, **some)

    return combine(name, children, walk, forward, dict_of(children), rebuild=rebuild, inputs=inputs,
                   passes=[one.name for one in of_children], settings=settings,
                   sized_by=[one.name for one in inputs])


def _takes_all(fun: Callable) -> bool:
    """Whether the function of a composite has a parameter ``**inputs``."""
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(fun).parameters.values())


def lambda_(fun: Callable[..., PyTree], out_shape: Callable[[PyTree], PyTree] | None = None, name: str | None = None, *,
            positionwise: bool = False) -> Layer:
    """A layer without parameters from any function: ``lambda_(lambda x: x[:, 0])``.

    Args:
      fun: ``fun(x, *extra) -> y``; its parameters after x are the layer's extra inputs.
      out_shape: ``in_shape -> shape of y``. If None, `init` evaluates `fun` on shapes, as `composite` does. The input
        is float32 there unless `init` gets an integer type. Unknown sizes (-1) are inferred from two trial sizes. The
        shapes of extra inputs with which `fun` computes must be passed to `init`.
      name: for messages; None: the name of the function.
      positionwise: as in `Layer`; True lets a model with this layer generate with a cache.
    Params: ``()``.

    >>> lambda_(lambda x, scale: (x * scale).sum(1)).init(None, (-1, 5, 3), scale=())[0]
    (-1, 3)
    """
    name = name or getattr(fun, "__name__", "lambda_").strip("<>")
    inputs = inputs_of(fun, leading=1)

    def init(rng, in_shape, **shapes):
        if out_shape is not None:
            return out_shape(in_shape), ()
        scope = _Scope(name)
        return _infer_shapes(scope, lambda _, x, **values: fun(x, **values), {}, inputs, in_shape, shapes)[1], ()

    def apply(params, x, *extra, rng=None, train=False, **named):
        return fun(x, **bind(name, inputs, extra, named))

    return Layer(init, apply, name, inputs, sized_by=[one.name for one in inputs], positionwise=positionwise)


class _Scope(NamedTuple):
    """A composite as its function sees it.

    Attributes:
      name: its name in messages.
      collected: the inputs that it has because children have them, those of ``**inputs``.
      passed: names that each call passes to a child with such an input: with ``**inputs``, all of its inputs.
      unsure: names of inputs without a value in a trial call, which the function may pass in other calls only.
    """

    name: str
    collected: Set[str] = frozenset()
    passed: Set[str] = frozenset()
    unsure: Set[str] = frozenset()


def _scope_of(name: str, fun: Callable, children: Mapping[str, Layer]) -> tuple[_Scope, tuple[Input, ...]]:
    """The scope of a composite's function, and the inputs after x: its own, then with ``**inputs`` the children's."""
    others = [one for one in joined(name, [child.inputs for child in children.values()]) if not is_slot(one.name)]
    has_rows = any(one.name == ROW_MASK.name for one in others)
    own = tuple(one for one in inputs_of(fun) if one.name != ROW_MASK.name or has_rows)
    if not (others and _takes_all(fun)):
        return _Scope(name), own
    declared = {one.name for one in own}
    collected = [one for one in others if one.name not in declared]
    names = {one.name for one in collected}
    return _Scope(name, names, names | declared), (*own, *collected)


class _Bound:
    """The argument `layers` of a composite's function: its children as functions, by name."""

    def __init__(self, scope: _Scope, call: Callable, rng: Rng, train: bool) -> None:
        self._scope, self._call, self.rng, self.train = scope, call, rng, train
        self._refusal: Exception | None = None           # the error of an input that is not passed

    def __getattr__(self, key: str) -> Callable:
        return self[key]

    def __getitem__(self, key: str) -> Callable:
        name, collected, passed, unsure = self._scope
        if key not in self._call.children:
            hint = did_you_mean(key, self._call.children)
            raise bad(name, f"there is no layer {key!r}", {"layers": ", ".join(self._call.children)},
                      fix=hint or "call one of these layers, or pass composite a layer of this name.",
                      exc=AttributeError)
        child = self._call.children[key]

        def apply_layer(x: PyTree, /, *extra: object, **inputs: object) -> PyTree:
            if extra:
                raise bad(f"{name}[{key!r}]", "extra inputs must be passed by name",
                          {"by position": len(extra), "inputs": ", ".join(child.extra_inputs)},
                          fix=f"layers.{key}(x, name=value).")
            if collected:
                inputs = {one: value for one, value in inputs.items()
                          if one in child.extra_inputs or one not in collected}
            for one in child.inputs:
                needed = one.name in passed or (one.is_required and one.name not in unsure and not is_slot(one.name))
                if needed and one.name not in inputs:
                    self._refusal = _not_passed(self._scope, key, child, one)
                    raise self._refusal
            return self._call(key, x, **inputs)

        return apply_layer


def _not_passed(scope: _Scope, key: str, child: Layer, one: Input) -> Exception:
    """The error of a call of a child without an input that it needs, or that a combinator must not drop."""
    if one.name in scope.passed:
        line = "**inputs" if one.name in scope.collected else f"{one.name}={one.name}, **inputs"
        leaving_out = "" if one.is_required else f", or {one.name}={one.default!r} to leave it out"
        fix = f"layers.{key}(..., {line}){leaving_out}."
    else:
        fix = f"{passing_fix(scope.name, key, one.name, one.name)} `**inputs` at both places passes all inputs."
    verb = "needs" if one.is_required else "has"
    return bad(f"{scope.name}[{key!r}]",
               f"{child.name} {verb} the input `{one.name}`, which the function of {scope.name} does not pass",
               {"inputs": ", ".join(("x", *visible(child)))}, fix)


class _Unknown:
    """An array of unknown type: operators and methods give another one; a function of arrays refuses it."""

    def _unknown(self, *_: object, **__: object) -> _Unknown:
        return self

    def __getattr__(self, attribute: str) -> _Unknown:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return self

    def _refuse(self, *_: object) -> Any:
        raise TypeError("an unknown value")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = _unknown
    __rmatmul__ = __getitem__ = __neg__ = __pow__ = __call__ = _unknown
    __bool__ = __iter__ = __len__ = __array__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__


class _UnknownCalls:
    """Replaces `Calls` where nothing is known: each child returns an unknown value."""

    def __init__(self, children: Mapping[str, Layer]) -> None:
        self.children = children

    def __call__(self, key: str, x: PyTree, /, **inputs: PyTree) -> _Unknown:
        return _Unknown()


def _check_calls(scope: _Scope, fun: Callable, children: Mapping[str, Layer], inputs: tuple[Input, ...]) -> None:
    """Raises: TypeError if the function, called with unknown values, does not pass an input to a child that needs it.

    Each call up to the first one that needs to know a value also happens with values, so the error is never false.
    """
    values = {one.name: _Unknown() if one.is_required else one.default for one in inputs}
    layers = _Bound(scope, _UnknownCalls(children), None, False)
    try:
        fun(layers, _Unknown(), **values)
    except Exception as err:            # of the function itself if it needs shapes or values: `init` has the shapes
        if err is layers._refusal:
            raise


# -- shapes -------------------------------------------------------------------------------------------------------


class _ShapeCalls:
    """Replaces `Calls` in shape inference: records the input shapes of each child, and returns zeros.

    It records the shape of x, and the shapes of the extra inputs that the child's parameters depend on.
    """

    def __init__(self, name: str, children: Mapping[str, Layer]) -> None:
        self.name, self.children, self.in_shapes = name, children, {}

    def __call__(self, key: str, x: PyTree, /, **inputs: PyTree) -> PyTree:
        child, shape = self.children[key], tree_util.tree_map(_shape, x)
        sizes = {name: tree_util.tree_map(_shape, inputs[name]) for name in child.sized_by
                 if inputs.get(name) is not None}
        self.in_shapes.setdefault(key, (shape, sizes))
        leaves = tree_util.tree_leaves(x)
        dtype = next((leaf.dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, np.inexact)), np.float32)
        return map_shapes(lambda s: jnp.zeros(s, dtype), out_shape(child, shape, **sizes))


class InputOfUnknownShape:
    """An input of unknown shape in `init`: it can be passed to children, but not used in a computation."""

    def __init__(self, caller: str, name: str) -> None:
        self._caller, self._name = caller, name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise self._unknown()

    def _unknown(self, *_: object) -> Exception:
        raise bad(self._caller, f"init needs the shape of `{self._name}`, with which the function computes",
                  fix=f"call init(rng, in_shape, {self._name}=shape).")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = _unknown
    __rmatmul__ = __getitem__ = __neg__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __array__ = _unknown


def _infer_shapes(scope: _Scope, fun: Callable, children: Mapping[str, Layer], inputs: tuple[Input, ...],
                  in_shape: PyTree, shapes: Mapping[str, PyTree],
                  ) -> tuple[dict[str, tuple[PyTree, dict[str, PyTree]]], PyTree]:
    """(Shapes of each child's inputs, output shape); a size is unknown (-1) if it depends on an unknown input size."""

    def probe(size: int) -> tuple[dict[str, tuple[PyTree, dict[str, PyTree]]], PyTree]:
        def closed(shape):
            return map_shapes(lambda s: jnp.zeros([size if n < 0 else n for n in s], _dtype(s)), shape)

        def run():
            values = {one.name: closed(shapes[one.name]) if one.name in shapes else
                      InputOfUnknownShape(scope.name, one.name) if one.is_required else one.default for one in inputs}
            calls = _ShapeCalls(scope.name, children)
            y = fun(_Bound(scope, calls, None, False), closed(in_shape), **values)
            results.append((calls.in_shapes, tree_util.tree_map(jnp.shape, y)))
            return y

        results: list = []
        try:
            xjax.eval_shape(run)
        except Exception as err:
            tried = f", with {size} for unknown sizes" if is_open else ""
            err.add_note(f"in the function of {scope.name} (init for shape {in_shape}{tried})")
            raise
        return results[-1]

    is_open = "-1" in str((in_shape, dict(shapes)))
    if not is_open:
        return probe(1)
    (calls, shape), (other_calls, other_shape) = probe(2), probe(3)
    return {key: _opened(calls[key], other_calls[key]) for key in calls}, _opened(shape, other_shape)


def _shape(leaf: ArrayLike) -> tuple[int, ...]:
    return shape_of(leaf) if hasattr(leaf, "shape") else jnp.shape(leaf)


def _dtype(shape: object) -> DTypeLike:
    return shape.dtype if isinstance(shape, TypedShape) else np.float32


def _opened(one: PyTree, other: PyTree) -> PyTree:
    """The shape inferred from two trial values of the unknown sizes: -1 where the two results differ."""
    if is_shape(one):
        return resized(one, (n if n == m else -1 for n, m in zip(one, other, strict=True)))
    if isinstance(one, dict):
        return {key: _opened(one[key], other[key]) for key in one}
    return tuple(_opened(a, b) for a, b in zip(one, other, strict=True))
