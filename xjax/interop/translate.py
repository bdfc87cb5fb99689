"""Translation of JAX programs to xjax programs: each equation is replayed as the operation of the same name.

Operations have the names and parameters of JAX (printed programs are equal), so one rule covers nearly all of them:
look up the primitive, convert its parameters (`reference`), and bind it. The exceptions are in `RULES`, filled by
`higher_order`, `callbacks`, `custom_rules` and `keys`.
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
from xjax.interop import reference
from xjax.interop.real_jax import real_jax
from xjax.interop.reference import JaxEqn, UnknownFeature, aval_of, host_value, parts
from xjax.ops import cumulative, prng, sort
from xjax.typing import ArrayLike

# Modules that are imported because they define primitives.
_DEFINING = (cumulative, prng, sort)

# rule(eqn, args) -> list of results, for primitives that are not replayed by name.
RULES: dict[str, Callable[[Any, Sequence[Any]], Sequence[Any]]] = {}


def translate(program: Any, caller: str) -> tuple[ClosedJaxpr, list[Any]]:
    """A JAX program as an xjax program whose first arguments are its constants.

    Returns: the program, and the values of its constants.
    Raises: NotImplementedError for an operation that cannot be translated.
    """
    def run(*args: ArrayLike) -> list[Any]:
        try:
            return replay(program, args)
        except Unsupported as error:
            raise error.explained(caller) from None

    translated, consts = hoist_consts(trace_to_jaxpr(run, [aval_of(v.aval) for v in parts(program).invars], caller))
    return translated, list(consts)


def subprogram(program: Any, consts: Sequence[Any] = ()) -> ClosedJaxpr:
    """A program among the parameters of an equation; `consts` are the values of its first arguments."""
    consts = [host_value(x) for x in consts]
    avals = [aval_of(v.aval) for v in parts(program).invars[len(consts):]]
    return trace_to_jaxpr(lambda *args: replay(program, (*consts, *args)), avals, "a program of JAX")


def replay(program: Any, args: Sequence[Any]) -> list[Any]:
    """Apply the operations of a JAX program to xjax values, in the current trace."""
    jaxpr = parts(program)
    env = {v: host_value(c) for v, c in zip(jaxpr.constvars, jaxpr.consts, strict=True)}
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        outs = apply(eqn, [_read(env, v) for v in eqn.invars])
        env.update((v, as_type(y, aval_of(v.aval))) for v, y in zip(eqn.outvars, outs, strict=True))
    return [as_type(_read(env, v), aval_of(v.aval)) for v in jaxpr.outvars]


def _read(env: dict[Any, Any], atom: Any) -> ArrayLike:
    return literal(atom) if hasattr(atom, "val") else env[atom]


def literal(atom: Any) -> ArrayLike:
    """A scalar in a program: a Python number if its type is that of a Python number."""
    value = np.asarray(atom.val, atom.aval.dtype)[()]
    aval = aval_of(atom.aval)
    if aval.weak_type and typeof(value.item()) is aval:
        return value.item()
    return value


def as_type(x: ArrayLike, aval: ShapedArray) -> ArrayLike:
    """`x` converted to its type in JAX, which may differ in the promotion of weak types."""
    own = typeof(x)
    if own is aval or own.dtype.itemsize == 0 or aval.dtype.itemsize == 0:
        return x
    return lax.convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


# -- one equation -------------------------------------------------------------------------------------------------

def apply(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation.

    Raises: Unsupported if it cannot be translated.
    """
    try:
        rule = RULES.get(eqn.primitive.name)
        return _by_name(eqn, args) if rule is None else rule(eqn, args)
    except UnknownFeature as error:
        raise Unsupported(eqn, f"the JAX operation `{eqn.primitive.name}` cannot be translated: {error}") from None


# Operations that exist here but cannot be replayed: they hold a mesh of JAX devices.
_NOT_REPLAYED = {"shard_map"}


def _by_name(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    """The results of the xjax operation of the same name."""
    name = eqn.primitive.name
    p = all_primitives().get(name)
    if p is None or name in _NOT_REPLAYED:
        raise Unsupported(eqn, f"the JAX operation `{name}` has no counterpart in xjax")
    params = reference.parameters(eqn, subprogram)
    outs = p.bind(*args, **params)
    return list(outs) if p.multiple_results else [outs]


class Unsupported(Exception):
    """An equation that cannot be replayed; `explained` returns the error for the user."""

    def __init__(self, eqn: JaxEqn, why: str, fix: str = ""):
        super().__init__(why)
        self.eqn, self.why, self.fix = eqn, why, fix

    def explained(self, caller: str) -> Exception:
        ins = ", ".join(str(v.aval) for v in self.eqn.invars)
        params = ", ".join(f"{k}={v!r:.60}".replace("\n", " ") for k, v in self.eqn.params.items())
        given = {"operation": f"{self.eqn.primitive.name}({ins})", "parameters": params or "none",
                 "versions": reference.versions()}
        traceback = self.eqn.source_info.traceback
        frames = [f for f in traceback.frames if not _is_internal(f.file_name)] if traceback else []
        if frames:
            given["called at"] = f"{Path(frames[0].file_name).name}:{frames[0].line_num}"
        fix = self.fix or ("write this part with xjax.numpy, or compute it outside the bridged function (with JAX, "
                           "on values from xjax.interop.to_jax_array).")
        return bad(caller, self.why, given=given, fix=fix, exc=NotImplementedError)


def _is_internal(file: str) -> bool:
    """Whether a frame belongs to JAX or to this package."""
    return file.startswith((_HERE, str(Path(real_jax().__file__).parent)))


_HERE = str(Path(__file__).resolve().parent)
