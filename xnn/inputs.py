"""Extra inputs of a layer, after x, such as a mask or an adjacency: names, defaults, and their values in calls.

They are the parameters of `apply` after ``(params, x)``, except `rng`, `train` and `state`::

    def apply(params, x, mask: "bool[batch, keys]" = None, *, rng=None, train=False): ...

has one optional input, ``mask``. A string annotation is the meaning of the input: layers of a composite that share the
name of an input must agree on its meaning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax import dtypes
from xjax.errors import bad, did_you_mean
from xjax.typing import PyTree
from xnn.checks import counted

REQUIRED = inspect.Parameter.empty
_SETTINGS = frozenset({"rng", "train", "state"})
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Input(NamedTuple):
    """An input after x.

    Attributes:
      default: its value if a call leaves it out.
      meaning: text for messages; layers of a composite that share the name must agree on it.
      comes_last: whether a composite lists it after the inputs of all other layers. This is for an input that most
        calls leave out, so that it does not shift other inputs in a call by position.
    """

    name: str
    default: Any = REQUIRED
    meaning: str = ""
    comes_last: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    def __str__(self) -> str:
        return self.name if self.is_required else f"{self.name}={self.default!r}"


# For layers whose statistics exclude rows of padding.
ROW_MASK = Input("row_mask", None, comes_last=True)


def inputs_of(apply: Callable, leading: int = 2) -> tuple[Input, ...]:
    """The extra inputs that the signature of `apply` declares; none for a function without a signature.

    Args: leading: number of parameters before them: 2 for params and x.
    """
    try:
        parameters = list(inspect.signature(apply).parameters.values())[leading:]
    except (TypeError, ValueError):
        return ()
    return tuple(Input(p.name, p.default, p.annotation if isinstance(p.annotation, str) else "",
                       p.name == ROW_MASK.name)
                 for p in parameters if p.kind in _NAMED and p.name not in _SETTINGS)


def named_inputs(apply: Callable, names: Sequence[str]) -> tuple[Input, ...]:
    """Inputs with these names, and the defaults of the parameters of `apply` at the same positions."""
    declared = inputs_of(apply)
    return tuple(declared[i]._replace(name=name) if i < len(declared) else Input(name) for i, name in enumerate(names))


def joined(caller: str, groups: Iterable[Sequence[Input]]) -> tuple[Input, ...]:
    """The inputs of a composite: each name once, in order of first appearance, `comes_last` inputs after all others.

    Raises: ValueError if two children use one name with different meanings or defaults.
    """
    union: dict[str, Input] = {}
    for one in sorted((one for group in groups for one in group), key=lambda one: one.comes_last):
        union[one.name] = _agreed(caller, union[one.name], one) if one.name in union else one
    return tuple(union.values())


def _agreed(caller: str, one: Input, other: Input) -> Input:
    same_default = one.is_required or other.is_required or one.default is other.default or one.default == other.default
    if not same_default or (one.meaning and other.meaning and one.meaning != other.meaning):
        raise bad(caller, f"two layers use the input `{one.name}` with different meanings",
                  {"one": f"{one} {one.meaning}".strip(), "other": f"{other} {other.meaning}".strip()},
                  f'give one of them another name: renamed(layer, {one.name}="other_{one.name}").', ValueError)
    return (one if one.is_required else other)._replace(comes_last=one.comes_last)


def bind(caller: str, inputs: Sequence[Input], values: Sequence[Any], named: Mapping[str, Any],
         hint: Callable[[str], str | None] | None = None) -> dict[str, Any]:
    """Values of inputs by name, from the positional and named arguments of a call; defaults for the others.

    Args: hint: a fix for a name that is not among the inputs, for the message.
    Raises: TypeError for too many, unknown, repeated or missing inputs.
    """
    names = [one.name for one in inputs]
    if len(values) > len(names):
        raise _wrong_call(caller, inputs, f"takes {counted(len(names), 'extra input')}, {len(values)} given")
    bound = dict(zip(names, values, strict=False))
    for name, value in named.items():
        if name not in names:
            raise _wrong_call(caller, inputs, f"has no input `{name}`",
                              did_you_mean(name, names) or (hint and hint(name)))
        if name in bound:
            raise _wrong_call(caller, inputs, f"got the input `{name}` twice, by position and by name")
        bound[name] = value
    missing = [one.name for one in inputs if one.is_required and one.name not in bound]
    if missing:
        raise _missing(caller, inputs, missing, len(values) + len(named))
    return {one.name: bound.get(one.name, one.default) for one in inputs}


def _missing(caller: str, inputs: Sequence[Input], missing: Sequence[str], n_given: int) -> Exception:
    slots = [name for name in missing if is_slot(name)]
    if slots:
        return bad(caller, f"the model uses shared weights that it does not own: {', '.join(map(slot_name, slots))}",
                   fix="wrap the model, so that init makes these weights once: with_shared(model).")
    required = sum(one.is_required for one in inputs)
    return _wrong_call(caller, inputs, f"takes {counted(required, 'extra input')}, {n_given} given")


def _wrong_call(caller: str, inputs: Sequence[Input], what: str, hint: str | None = None) -> Exception:
    visible = [str(one) for one in inputs if not is_slot(one.name)]
    call = f"call apply({', '.join(('params', 'x', *visible, 'rng=None', 'train=False'))})."
    return bad(caller, what, {"extra inputs": ", ".join(visible) or "none"}, fix=f"{hint} {call}" if hint else call)


# -- shapes of inputs, for init -----------------------------------------------------------------------------------


def shape_of(spec: PyTree) -> PyTree:
    """Shape of an input: of an array, a `ShapeDtypeStruct` or a tuple of ints; for several inputs a tuple of shapes."""
    if hasattr(spec, "shape"):
        return TypedShape(spec.shape, spec.dtype) if _is_discrete(spec) else tuple(spec.shape)
    if isinstance(spec, Mapping):
        return {name: shape_of(part) for name, part in spec.items()}
    if not isinstance(spec, list | tuple):
        return spec
    has_parts = any(hasattr(part, "shape") or isinstance(part, list | tuple | Mapping) for part in spec)
    if has_parts:
        return tuple(shape_of(part) for part in spec)
    return spec if isinstance(spec, TypedShape) else tuple(spec)


class TypedShape(tuple):
    """The shape of an input of integers or bools, if `init` was called with an array or a type instead of a tuple."""

    dtype: np.dtype

    def __new__(cls, sizes: Iterable[int], dtype: np.dtype) -> TypedShape:
        made = super().__new__(cls, sizes)
        made.dtype = dtypes.canonicalize_dtype(dtype)
        return made


def resized(shape: tuple[int, ...], sizes: Iterable[int]) -> tuple[int, ...]:
    """A shape of other sizes, of the same dtype if the shape has one."""
    return TypedShape(sizes, shape.dtype) if isinstance(shape, TypedShape) else tuple(sizes)


def _is_discrete(spec: object) -> bool:
    dtype = getattr(spec, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "iub"


def is_shape(spec: object) -> bool:
    """Whether this is the shape of one array, a leaf in a tree of shapes."""
    return isinstance(spec, tuple) and not any(isinstance(part, tuple | dict) for part in spec)


def map_shapes(f: Callable, shape: PyTree) -> PyTree:
    """`f` of each shape in a tree whose leaves are shapes."""
    if is_shape(shape):
        return f(shape)
    if isinstance(shape, Mapping):
        return {key: map_shapes(f, part) for key, part in shape.items()}
    if not isinstance(shape, tuple | list):
        return shape                                       # an object that holds arrays, such as a graph
    return tuple(map_shapes(f, part) for part in shape)


# -- shared weights, which are passed as inputs ----------------------------------------------------------------------

_SLOT = "shared:"


def slot_input(name: str) -> Input:
    """The input through which a layer gets the parameters of the slot `name`."""
    return Input(_SLOT + name)


def is_slot(name: str) -> bool:
    return name.startswith(_SLOT)


def slot_name(name: str) -> str:
    return name.removeprefix(_SLOT)
