"""`Layer`: a pair of pure functions, and what a combinator needs to know about it.

A layer keeps nothing. `init` makes its parameters from a key and the shape of the input, `apply`
maps parameters and input to the output; a model is a layer made of layers (`xnn.combinators`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import xjax
from xjax import random
from xjax.errors import bad

Shape = tuple[int, ...]
Params = Any  # a pytree of arrays: a dict for one layer, a tuple or a dict for a composite
InitFn = Callable[[Any, Any], tuple[Any, Params]]
ApplyFn = Callable[..., Any]
OutlineFn = Callable[[Any], "list[tuple[str, Layer, Any]]"]


@dataclass(frozen=True, slots=True, repr=False)
class Layer:
    """A pure pair; ``init_fun, apply_fun = Dense(10)`` works as in stax.

    Attributes:
      init: ``(rng, in_shape) -> (out_shape, params)``. A size that does not matter to the
        parameters (batch, nodes) may be -1. rng is a key; only a layer without random
        parameters takes None.
      apply: ``(params, x, *extra, rng=None, train=False) -> y``. `train` is static: under `jit`
        name it in `static_argnames`. rng is a key, an `xnn.RowKey`, or None.
      name: how messages and `xnn.describe` call it.
      extra_inputs: names of the positional inputs after x, such as ``("adj",)``. A combinator
        takes each name once and hands it to every child that declares it.
      outline: for a composite, ``in_shape -> [(key, child, child_in_shape), ...]`` in the order
        in which the children run; None for a layer without children.
    """

    init: InitFn
    apply: ApplyFn
    name: str = "Layer"
    extra_inputs: tuple[str, ...] = ()
    outline: OutlineFn | None = None

    def __iter__(self) -> Iterator[Callable]:
        """Exactly two: the classic pair."""
        return iter((self.init, self.apply))

    def __getitem__(self, i: int) -> Callable:
        """``layer[0]`` is init, ``layer[1]`` is apply, as of a stax pair."""
        return (self.init, self.apply)[i]

    def __repr__(self) -> str:
        extra = "".join(f", {name}" for name in self.extra_inputs)
        return f"<Layer {self.name}(x{extra})>"


def as_layer(value: Any, where: str) -> Layer:
    """`value` itself, or a Layer made of a stax-style pair ``(init_fun, apply_fun)``.

    Raises: TypeError for anything else, a layer constructor that was not called included.
    """
    if isinstance(value, Layer):
        return value
    if isinstance(value, tuple) and len(value) == 2 and all(callable(fun) for fun in value):
        return Layer(*value, name=getattr(value[1], "__name__", "pair"))
    called = callable(value) and hasattr(value, "__name__")
    raise bad(
        where,
        "a child is not a layer",
        {"given": getattr(value, "__qualname__", None) or repr(value)},
        fix=f"call it: {value.__name__}(...)."
        if called
        else "pass xnn layers or pairs (init_fun, apply_fun), each as its own argument.",
    )


def bind_extras(where: str, names: Sequence[str], values: Sequence[Any]) -> Mapping[str, Any]:
    """Extra positional inputs by name. Raises: TypeError if their number is wrong."""
    if len(names) == len(values):
        return dict(zip(names, values, strict=True))
    signature = ", ".join(("params", "x", *names, "rng=None", "train=False"))
    raise bad(
        where,
        f"takes {len(names)} extra inputs, {len(values)} given",
        {"extra inputs": ", ".join(names) or "none"},
        fix=f"call apply({signature}).",
    )


def check_params(where: str, params: Any, keys: Sequence[Any]) -> None:
    """Raises: TypeError if a composite's parameters do not have one entry for each child."""
    if isinstance(params, Mapping):
        found, text = set(params), f"dict with keys {sorted(params, key=str)}"
    elif isinstance(params, tuple | list):
        found, text = set(range(len(params))), f"{type(params).__name__} of {len(params)}"
    else:
        found, text = None, type_text(params)
    if found != set(keys):
        raise bad(
            where,
            f"needs parameters for {len(keys)} layers",
            {"params": text, "keys": ", ".join(map(repr, keys))},
            fix="pass the params that this layer's own init returned.",
        )


def check_features(where: str, x: Any, n_in: int) -> None:
    """Raises: TypeError if the last axis of x does not have n_in features."""
    shape = np.shape(x) if not hasattr(x, "shape") else x.shape
    if not shape or shape[-1] != n_in:
        raise bad(
            where,
            f"the weights take {n_in} features, the input has {shape[-1] if shape else 'no axis'}",
            {"x": type_text(x), "w": f"for {n_in} features"},
            fix="pass params made by init for this input shape, or an input of that many features.",
        )


def check_shape(where: str, shape: Any, min_rank: int = 1) -> Shape:
    """An input shape as a tuple of ints, the last one (features) at least 0.

    Raises: TypeError if it is not one, is too short, or leaves the features open.
    """
    ints = isinstance(shape, tuple | list) and all(isinstance(n, int | np.integer) for n in shape)
    if not ints or len(shape) < min_rank or shape[-1] < 0:
        raise bad(
            where,
            "init needs the shape of the input, with the number of features last",
            {"in_shape": repr(shape)},
            fix="pass a tuple such as (-1, 1433); only the leading sizes may be -1.",
        )
    return tuple(int(n) for n in shape)


def out_shape(layer: Layer, in_shape: Any) -> Any:
    """Shape of the layer's output; the parameters are not made, only their types."""
    return init_types(layer, in_shape)[0]


def init_types(layer: Layer, in_shape: Any) -> tuple[Any, Params]:
    """What ``layer.init`` returns, with parameters as types (`.shape`, `.dtype`) without values."""
    shapes = []

    def traced_init(key):
        shape, params = layer.init(key, in_shape)
        shapes.append(shape)  # a shape is static: it leaves the trace by the side door
        return params

    params = xjax.eval_shape(traced_init, random.PRNGKey(0))
    return shapes[-1], params


def note_path(err: Exception, path: str, layer: Layer, x: Any) -> None:
    """Add the place in the model to an error on its way up: "in serial[3] -> Dropout"."""
    err.add_note(f"in {path} -> {layer.name} (input {type_text(x)})")


_KINDS = {"f": "f", "i": "i", "u": "u", "c": "c"}


def type_text(x: Any) -> str:
    """Type of a value as messages show it: ``f32[8,16]``; a sequence is shown by its parts.

    >>> type_text(np.zeros((2, 3), np.float32))
    'f32[2,3]'
    """
    if isinstance(x, tuple | list):
        return f"({', '.join(type_text(part) for part in x)})"
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        return type(x).__name__
    dtype, dims = x.dtype, ",".join(str(n) for n in x.shape)
    kind = _KINDS.get(getattr(dtype, "kind", ""))
    text = f"{kind}{dtype.itemsize * 8}" if kind else str(dtype)
    nnz = getattr(x, "nnz", None)
    return f"{text}[{dims}]" if nnz is None else f"sparse {text}[{dims}] with {nnz} stored"
