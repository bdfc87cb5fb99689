"""From JAX's programs to ours: each equation is replayed as the operation of the same name.

Names and parameters of operations are JAX's (programs print alike), so nearly all of it is one rule: look up the
primitive, drop what only JAX's sharding machinery has, translate the few classes that occur in parameters. The
exceptions stand in `RULES`, filled by `higher_order` and `keys`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xjax import lax
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.primitive import all_primitives
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.types import ShapedArray, typeof
from xjax.interop.real_jax import real_jax
from xjax.lax.linear_solve import LinearSolveTuple
from xjax.ops import cumulative, prng, sort
from xjax.transforms.vmap import vmap

# Modules that are imported for the primitives they define.
_DEFINING = (cumulative, prng, sort)

# rule(eqn, args) -> list of results, for primitives that are not replayed by name.
RULES: dict[str, Callable[[Any, Sequence[Any]], Sequence[Any]]] = {}

# Parameters that ours do not have. Every one must be at its default.
_DROPPED = {"sharding": (None,), "out_sharding": (None,), "accuracy": (None,), "out_dtype": (None,),
            "memory_space": (None,), "linear": None, "_split_transpose": None, "branches_platforms": None}

_ENUMS = {kind.__name__: kind for kind in (lax.Precision, lax.GatherScatterMode, lax.RoundingMethod)}
_DIMENSIONS = {kind.__name__: kind for kind in (lax.ConvDimensionNumbers, lax.GatherDimensionNumbers,
                                                lax.ScatterDimensionNumbers, LinearSolveTuple)}


def translate(closed: Any, where: str) -> tuple[ClosedJaxpr, list[Any]]:
    """JAX's ClosedJaxpr as a program of ours without constants, and those constants, which are its first arguments."""
    def run(*args: Any) -> list[Any]:
        try:
            return replay(closed.jaxpr, closed.consts, args)
        except Unsupported as error:
            raise error.explained(where) from None

    program, consts = hoist_consts(trace_to_jaxpr(run, [aval_of(v.aval) for v in closed.jaxpr.invars], where))
    return program, list(consts)


def subprogram(closed: Any) -> ClosedJaxpr:
    """A program among the parameters of an equation (a branch, a loop's body), which has no constants."""
    avals = [aval_of(v.aval) for v in closed.jaxpr.invars]
    return trace_to_jaxpr(lambda *args: replay(closed.jaxpr, closed.consts, args), avals, "a program of JAX")


def replay(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Apply the operations of a JAX program to values of ours, in the current trace."""
    env = {v: constant(c) for v, c in zip(jaxpr.constvars, consts, strict=True)}
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        outs = apply(eqn, [_read(env, v) for v in eqn.invars])
        env.update((v, as_type(y, aval_of(v.aval))) for v, y in zip(eqn.outvars, outs, strict=True))
    return [as_type(_read(env, v), aval_of(v.aval)) for v in jaxpr.outvars]


def _read(env: dict[Any, Any], atom: Any) -> Any:
    return literal(atom) if hasattr(atom, "val") else env[atom]


def literal(atom: Any) -> Any:
    """The scalar written in a program: a Python number where its type is the one of a Python number."""
    value = np.asarray(atom.val, atom.aval.dtype)[()]
    aval = aval_of(atom.aval)
    if aval.weak_type and typeof(value.item()) is aval:
        return value.item()
    return value


def constant(x: Any) -> Any:
    """A value that JAX captured, as an array on the host."""
    return np.asarray(key_words(x) if is_key(x) else x)


def as_type(x: Any, aval: ShapedArray) -> Any:
    """`x` with the type JAX gave it: promotion of weak types may have been decided elsewhere."""
    found = typeof(x)
    if found is aval or found.dtype.itemsize == 0 or aval.dtype.itemsize == 0:
        return x
    return lax.convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


def aval_of(aval: Any) -> ShapedArray:
    """Our type of a value of JAX; a random key is its words."""
    if is_key(aval):
        return ShapedArray((*aval.shape, *aval.dtype._impl.key_shape), np.uint32)
    return ShapedArray(tuple(aval.shape), aval.dtype, bool(aval.weak_type))


def is_key(x: Any) -> bool:
    """Whether an array or type of JAX is one of typed random keys."""
    return not isinstance(x.dtype, np.dtype)


def key_words(x: Any) -> Any:
    """The words of a concrete array of typed random keys."""
    return x._base_array


# -- one equation -------------------------------------------------------------------------------------------------

def apply(eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Results of one equation."""
    name = eqn.primitive.name
    rule = RULES.get(name)
    if rule is not None:
        return rule(eqn, args)
    p = all_primitives().get(name)
    if p is None:
        raise Unsupported(eqn, f"the JAX operation `{name}` has no counterpart in xjax")
    params = {k: parameter(v) for k, v in eqn.params.items() if not _dropped(eqn, k, v)}

    def call(*xs: Any) -> list[Any]:
        outs = p.bind(*xs, **params)
        return list(outs) if p.multiple_results else [outs]

    keys = [is_key(v.aval) for v in eqn.invars]
    if any(keys) and not any(_is_program(v) for v in eqn.params.values()):
        # Operations on arrays of keys only move them: apply the operation to each word, the last axis.
        return vmap(call, in_axes=tuple(-1 if k else None for k in keys), out_axes=-1)(*args)
    return call(*args)


def _dropped(eqn: Any, name: str, value: Any) -> bool:
    if name not in _DROPPED:
        return False
    allowed = _DROPPED[name]
    if allowed is not None and value not in allowed:
        raise Unsupported(eqn, f"the JAX operation `{eqn.primitive.name}` has {name}={value!r}, unknown to xjax")
    return True


def _is_program(value: Any) -> bool:
    items = value if isinstance(value, (tuple, list)) else (value,)
    return any(hasattr(item, "eqns") for item in items)


def parameter(value: Any) -> Any:
    """A parameter in our classes."""
    kind = type(value).__name__
    if isinstance(value, tuple) and kind == "tuple":
        return tuple(map(parameter, value))
    if isinstance(value, np.integer):       # XLA's text needs plain integers
        return int(value)
    if kind in _ENUMS:
        return _ENUMS[kind][value.name]
    if kind in _DIMENSIONS:
        ours = _DIMENSIONS[kind]
        return ours(*(parameter(getattr(value, field)) for field in ours._fields))
    if kind == "Primitive":                 # how a window chooses
        return all_primitives()[value.name]
    if kind == "ClosedJaxpr":
        return subprogram(value)
    if kind == "Jaxpr":
        return trace_to_jaxpr(lambda *args: replay(value, (), args), [aval_of(v.aval) for v in value.invars]).jaxpr
    return value


class Unsupported(Exception):
    """An equation that cannot be replayed; `explained` makes the error that a user sees."""

    def __init__(self, eqn: Any, why: str, fix: str = ""):
        super().__init__(why)
        self.eqn, self.why, self.fix = eqn, why, fix

    def explained(self, where: str) -> Exception:
        ins = ", ".join(v.aval.str_short() for v in self.eqn.invars)
        given = {"operation": f"{self.eqn.primitive.name}({ins})"}
        traceback = self.eqn.source_info.traceback
        frames = [f for f in traceback.frames if not _is_internal(f.file_name)] if traceback else []
        if frames:
            given["called at"] = f"{Path(frames[0].file_name).name}:{frames[0].line_num}"
        fix = self.fix or ("write this part with xjax.numpy, or compute it outside the bridged function (with JAX, "
                           "on values from xjax.interop.to_jax_array).")
        return bad(where, self.why, given=given, fix=fix, exc=NotImplementedError)


def _is_internal(file: str) -> bool:
    """Whether a frame belongs to JAX or to this package."""
    return file.startswith((_HERE, str(Path(real_jax().__file__).parent)))


_HERE = str(Path(__file__).resolve().parent)
