"""Rows of arrays that are constant in a loop, taken once before it.

A body applies layers with stacked parameters by a scan without a loop, as `xnn.repeat` does when it generates tokens.
Each step of that scan reads one row of the stack. XLA for CPUs copies the row in each iteration of the outer loop,
since its products need an array of their own: 34 of the 52 ms for a token of a GPT-2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import ClosedJaxpr
from xjax.ops.text import reshape_text, slice_text


class LoopRows(NamedTuple):
    """Rows of some constants of a loop, as further constants.

    Attributes: lengths: {position of a constant: number of its rows}; rows: those of all these constants, in order.
    """

    lengths: dict[int, int]
    rows: list[Value]

    def enter(self, inner: Builder, consts: Sequence[Value], rows: Sequence[Value]) -> None:
        """Lets `static_row` find the rows in the region of the loop.  Args: the values in that region."""
        left = iter(rows)
        for k, length in self.lengths.items():
            inner.rows[consts[k].name] = [next(left) for _ in range(length)]


def rows_before_loop(b: Builder, body: ClosedJaxpr, consts: Sequence[Value]) -> LoopRows:
    """The rows of the constants that scans without a loop read in the body of a loop; its first inputs are `consts`."""
    measured, lengths = limits("rows before loops", b.module.platform), {}
    if measured is None or b.is_cut:
        return LoopRows({}, [])
    positions = {v: k for k, v in enumerate(body.jaxpr.invars[:len(consts)])}
    for eqn in body.jaxpr.eqns:
        if eqn.primitive.name == "scan" and eqn.params["length"] <= eqn.params["unroll"]:
            for v in eqn.invars[eqn.params["num_consts"] + eqn.params["num_carry"]:]:
                if v in positions and math.prod(v.aval.shape[1:]) >= measured["elements"]:
                    lengths[positions[v]] = eqn.params["length"]
    return LoopRows(lengths, [static_row(b, consts[k], i) for k, length in lengths.items() for i in range(length)])


def static_row(b: Builder, x: Value, i: int) -> Value:
    """``x[i]`` for a static index."""
    if x.name in b.rows:
        return b.rows[x.name][i]
    shape = x.aval.shape
    return reshape_text(b, slice_text(b, x, (i, *[0] * (len(shape) - 1)), (i + 1, *shape[1:])), shape[1:])
