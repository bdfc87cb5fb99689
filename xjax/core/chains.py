"""Chains of elementwise operations on CPUs: a value that reads many arrays and has several readers is stored.

XLA computes a value again in each operation that it fuses it with. The layers of a residual network add their results
to one sum, and each of them reads this sum several times. So a reader in layer n would add the results of all n layers,
and the time of a network would grow with the square of its depth. The same holds for the sum of cotangents.

`Value.reads` has the names of the arrays that the loop of a fused value reads: those that its operands read, and the
names of operands that are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from xjax.core.forms import Limits, limits
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import Jaxpr, Var


class Chains:
    """The chains of a program that is being written."""

    def __init__(self, bounds: Limits):
        self._elements, self._most = bounds["elements"], bounds["arrays"]

    @classmethod
    def of(cls, b: Builder) -> Chains | None:
        """None on platforms where XLA stores such values, and if it divides the program over devices."""
        bounds = limits("long chains apart", b.module.platform)
        return None if bounds is None or b.is_cut else cls(bounds)

    def note(self, value: Value, operands: Sequence[Value], more: Iterable[str] = ()) -> None:
        """Note what a fused operation reads.  Args: value: its result; more: names of further arrays."""
        size = value.aval.size
        if size >= self._elements and value.reads is None:
            large = [x for x in operands if x.aval.size >= size]
            reads = frozenset(more).union(*[(x.name,) if x.reads is None else x.reads for x in large])
            value.reads = reads if len(reads) <= self._most else frozenset([*reads][:self._most + 1])

    def is_long(self, value: Value) -> bool:
        return value.reads is not None and len(value.reads) > self._most


def readers(jaxpr: Jaxpr) -> Counter[Var]:
    """The number of times that operations or results of a program read each of its variables."""
    read = [v for eqn in jaxpr.eqns for v in eqn.invars] + [*jaxpr.outvars]
    return Counter([v for v in read if type(v) is Var])
