"""`composite`: a layer written as a function that calls other layers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad, did_you_mean
from xjax.typing import PyTree
from xnn.composites import combine, dict_of
from xnn.inputs import ROW_MASK, Input, IntegerShape, bind, inputs_of, is_shape, is_slot, joined, map_shapes
from xnn.layer import Layer, LayerLike, as_layer, out_shape
from xnn.rng import Rng


def composite(fun: Callable[..., PyTree], name: str | None = None, settings: Mapping[str, Any] | None = None,
              **layers: LayerLike) -> Layer:
    """A layer from a function that calls its children, for models that are not a chain.

    ``fun(layers, x, *extra)`` gets the children bound to their parameters, state and random keys. ``layers.norm(x)``
    applies the child `norm`, with its extra inputs by name. The parameters of `fun` after x are the composite's extra
    inputs::

        def block(layers, x, mask=None):
            x = x + layers.attention(layers.norm(x), mask=mask)
            return x + layers.mlp(x)

        Block = composite(block, norm=LayerNorm(), attention=SelfAttention(8), mlp=mlp)

    A parameter ``row_mask=None`` of `fun` is an input only if a child has the input `row_mask`, such as `BatchNorm`.

    `layers.rng` and `layers.train` are the values of the current call. A child that is called twice has one set of
    parameters; its second call starts from the state that the first returned.

    Args:
      fun: the function; it calls every child at least once.
      name: for messages; None: the name of the function.
      settings: as in `Layer`.
      layers: the children by name.
    Params: dict with the names of the children.
    Shape: `init` evaluates `fun` on shapes to infer the input shape of each child. The input is float32 there, or int32
      if `init` gets a `ShapeDtypeStruct` or an array of integers. A child's result has the dtype of its input if that
      is a float, else float32.
    Raises: TypeError from `init` for a child that `fun` does not call.

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
    of_children = joined(name, [child.inputs for child in children.values()])
    has_rows = any(one.name == ROW_MASK.name for one in of_children)
    own = tuple(one for one in inputs_of(fun) if one.name != ROW_MASK.name or has_rows)
    slots = [one for one in of_children if is_slot(one.name)]

    def walk(visit, in_shape, shapes):
        calls, shape = _infer_shapes(name, fun, children, own, in_shape, shapes)
        for key in children:
            if key not in calls:
                raise bad(name, f"the function does not call its layer {key!r}", {"calls": ", ".join(calls) or "none"},
                          fix=f"call layers.{key}(...), or do not pass the layer to composite.")
            child_shape, sizes = calls[key]
            visit(key, child_shape, **sizes)
        return shape

    def forward(call, x, values):
        call.values = {key: value for key, value in values.items() if is_slot(key)}
        return fun(_Bound(name, call, call.rng, call.train), x, **{one.name: values[one.name] for one in own})

    def rebuild(some):
        return composite(fun, name, settings, **some)

    return combine(name, children, walk, forward, dict_of(children), rebuild=rebuild, inputs=(*own, *slots),
                   settings=settings, sized_by=[one.name for one in own])


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
        return _infer_shapes(name, lambda _, x, **values: fun(x, **values), {}, inputs, in_shape, shapes)[1], ()

    def apply(params, x, *extra, rng=None, train=False, **named):
        return fun(x, **bind(name, inputs, extra, named))

    return Layer(init, apply, name, inputs, sized_by=[one.name for one in inputs], positionwise=positionwise)


class _Bound:
    """The argument `layers` of a composite's function: its children as functions, by name."""

    def __init__(self, name: str, call: Callable, rng: Rng, train: bool) -> None:
        self._name, self._call, self.rng, self.train = name, call, rng, train

    def __getattr__(self, key: str) -> Callable:
        return self[key]

    def __getitem__(self, key: str) -> Callable:
        if key not in self._call.children:
            hint = did_you_mean(key, self._call.children)
            raise bad(self._name, f"there is no layer {key!r}", {"layers": ", ".join(self._call.children)},
                      fix=hint or "call one of these layers, or pass composite a layer of this name.",
                      exc=AttributeError)

        def apply_layer(x: PyTree, /, *extra: object, **inputs: object) -> PyTree:
            if extra:
                raise bad(f"{self._name}[{key!r}]", "extra inputs must be passed by name",
                          {"by position": len(extra), "inputs": ", ".join(self._call.children[key].extra_inputs)},
                          fix=f"layers.{key}(x, name=value).")
            return self._call(key, x, **inputs)

        return apply_layer


# -- shapes -------------------------------------------------------------------------------------------------------


class _ShapeCalls:
    """Replaces `Calls` in shape inference: records the input shapes of each child, and returns zeros.

    It records the shape of x, and the shapes of the extra inputs that the child's parameters depend on.
    """

    def __init__(self, name: str, children: Mapping[str, Layer]) -> None:
        self.name, self.children, self.in_shapes = name, children, {}

    def __call__(self, key: str, x: PyTree, /, **inputs: PyTree) -> PyTree:
        child, shape = self.children[key], tree_util.tree_map(jnp.shape, x)
        sizes = {name: tree_util.tree_map(jnp.shape, inputs[name]) for name in child.sized_by
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


def _infer_shapes(name: str, fun: Callable, children: Mapping[str, Layer], inputs: tuple[Input, ...], in_shape: PyTree,
                 shapes: Mapping[str, PyTree]) -> tuple[dict[str, tuple[PyTree, dict[str, PyTree]]], PyTree]:
    """(Shapes of each child's inputs, output shape); a size is unknown (-1) if it depends on an unknown input size."""

    def probe(size: int) -> tuple[dict[str, tuple[PyTree, dict[str, PyTree]]], PyTree]:
        def closed(shape):
            return map_shapes(lambda s: jnp.zeros([size if n < 0 else n for n in s], _dtype(s)), shape)

        def run():
            values = {one.name: closed(shapes[one.name]) if one.name in shapes else
                      InputOfUnknownShape(name, one.name) if one.is_required else one.default for one in inputs}
            calls = _ShapeCalls(name, children)
            y = fun(_Bound(name, calls, None, False), closed(in_shape), **values)
            results.append((calls.in_shapes, tree_util.tree_map(jnp.shape, y)))
            return y

        results: list = []
        try:
            xjax.eval_shape(run)
        except Exception as err:
            tried = f", with {size} for unknown sizes" if is_open else ""
            err.add_note(f"in the function of {name} (init for shape {in_shape}{tried})")
            raise
        return results[-1]

    is_open = "-1" in str((in_shape, dict(shapes)))
    if not is_open:
        return probe(1)
    (calls, shape), (other_calls, other_shape) = probe(2), probe(3)
    return {key: _opened(calls[key], other_calls[key]) for key in calls}, _opened(shape, other_shape)


def _dtype(shape: object) -> type[np.generic]:
    return np.int32 if isinstance(shape, IntegerShape) else np.float32


def _opened(one: PyTree, other: PyTree) -> PyTree:
    """The shape inferred from two trial values of the unknown sizes: -1 where the two results differ."""
    if is_shape(one):
        return tuple(n if n == m else -1 for n, m in zip(one, other, strict=True))
    if isinstance(one, dict):
        return {key: _opened(one[key], other[key]) for key in one}
    return tuple(_opened(a, b) for a, b in zip(one, other, strict=True))
