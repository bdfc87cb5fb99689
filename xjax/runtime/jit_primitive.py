"""`jit_p`: a call of a traced program.

Derivatives and batched forms of a jitted function are again calls of programs, made once and cached on the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import lower_call
from xjax.core.primitive import Calls, Primitive
from xjax.core.pruning import prune_call
from xjax.core.staging import hoist_consts
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.programs.executable import program_executable
from xjax.transforms.call_rules import CallRules
from xjax.typing import Array, ArrayLike


class _JitRules(CallRules):
    def bind(self, program: ClosedJaxpr, args: Sequence[Any], params: dict) -> list[Any]:
        return jit_p.bind(*args, name=params["name"], jaxpr=program)


def _type(*avals, name, jaxpr):
    return jaxpr.out_avals


def _lower(b, outs, *args, name, jaxpr):
    return lower_call(b, jaxpr, args, name)


def _evaluate(*args, name, jaxpr):
    args = [to_array(x) for x in args]
    return program_executable(jaxpr, name, [x._place for x in args], caller=f"jit `{name}`")(args)


class _Jit(Primitive):
    def bind(self, *args: ArrayLike, name: str, jaxpr: ClosedJaxpr) -> list[Array]:
        """The call; constants of the program (those from `make_jaxpr` have some) become its first arguments."""
        if jaxpr.consts:
            jaxpr, consts = hoist_consts(jaxpr)
            args = (*consts, *args)
        return super().bind(*args, name=name, jaxpr=jaxpr)


jit_p = _Jit("jit", type_rule=_type, lower=_lower, evaluate=_evaluate, calls=Calls("jaxpr", plain=True),
                  prune=prune_call,
                  **_JitRules().fields())
