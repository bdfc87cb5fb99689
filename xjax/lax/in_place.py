"""Rewriting of loop bodies, so that XLA updates carried arrays in place.

A loop that reads and writes single rows of an array in its carry should cost a row in each step, not the whole array.
Gradients of such loops cost the whole array for two reasons, which the lowering of loops removes from their bodies:

- The cotangent of a read row is a row in an array of zeros, and adding this array to a cotangent adds all rows. Only
  the row is added instead.
- XLA copies the whole array if one of its old rows may be read after the write: either nothing orders the two, or the
  read was fused into a later loop. A barrier before the write, through which the old rows pass, orders them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from xjax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, dce, inlined, program_cache
from xjax.core.symbolic.dims import is_at_most
from xjax.ops.gather import scatter_add_p
from xjax.ops.identity import optimization_barrier_p
from xjax.ops.makers import accumulate_p
from xjax.ops.pvary import pvary_p
from xjax.ops.scatter import scatter_max_p, scatter_min_p, scatter_p, scatter_sub_p
from xjax.ops.scatter_product import scatter_mul_p
from xjax.ops.shape import broadcast_in_dim_p
from xjax.ops.slice import dynamic_slice_p, dynamic_update_slice_p, pad_p

_SPREADS = frozenset({broadcast_in_dim_p, pvary_p})
_WRITES = frozenset({dynamic_update_slice_p, scatter_add_p, scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p,
                     scatter_sub_p})


@program_cache
def updating_in_place(body: ClosedJaxpr, first: int, count: int) -> ClosedJaxpr:
    """A program with the same results for the body of a loop; its carry is `count` inputs, starting at `first`."""
    flat = inlined(body)
    j = _adding_blocks(flat.jaxpr)
    j = _reading_before_writing(j, j.invars[first:first + count])
    return body if j is flat.jaxpr else ClosedJaxpr(j, flat.consts)


# -- sums with blocks in zeros ------------------------------------------------------------------------------------

def _adding_blocks(j: Jaxpr) -> Jaxpr:
    """The program with ``x + (zeros with a block)`` as an update of the block in `x`."""
    made = {eqn.outvars[0]: eqn for eqn in j.eqns if len(eqn.outvars) == 1}
    uses = Counter(v for v in (*_read_by(j.eqns), *j.outvars) if type(v) is Var)

    def blocks(v: Atom) -> list[Eqn]:
        """Equations that put blocks into zeros and whose sum is `v`; none if `v` has other terms or other readers."""
        eqn = made.get(v) if uses[v] == 1 else None
        if eqn is not None and eqn.primitive is accumulate_p:
            x, y = map(blocks, eqn.invars)
            return [*x, *y] if x and y else []
        return [eqn] if eqn is not None and _is_block(made, eqn) else []

    eqns: list[Eqn] = []
    for eqn in j.eqns:
        x, added = None, []
        if eqn.primitive is accumulate_p:
            x, y = eqn.invars
            added = blocks(y)
            if not added:
                x, added = y, blocks(x)
            # A term without a batch axis has an axis of size 1 for it: its sum with a block is larger than it.
            if any(v.aval.shape != eqn.outvars[0].aval.shape for v in (x, *(block.outvars[0] for block in added))):
                added = []
        outs = [*(Var(eqn.outvars[0].aval) for _ in added[1:]), *eqn.outvars]
        for block, out in zip(added, outs, strict=False):
            eqns += _added(x, block, out)
            x = out
        if not added:
            eqns.append(eqn)
    if eqns == j.eqns:
        return j
    return dce(Jaxpr(j.constvars, j.invars, eqns, j.outvars), (True,) * len(j.outvars))[0]


def _read_by(eqns: Iterable[Eqn]) -> Iterator[Atom]:
    return (v for eqn in eqns for v in eqn.invars)


def _is_block(made: Mapping[Atom, Eqn], eqn: Eqn) -> bool:
    """Whether the result is zero outside a block."""
    if eqn.primitive is pad_p:
        inside = all(low >= 0 and high >= 0 and not between for low, high, between in eqn.params["padding_config"])
        return inside and _is_zero(made, eqn.invars[1])
    writes = eqn.primitive is scatter_add_p or (eqn.primitive is dynamic_update_slice_p and len(eqn.invars) > 2)
    return writes and _is_zero(made, eqn.invars[0])


def _is_zero(made: Mapping[Atom, Eqn], x: Atom) -> bool:
    while type(x) is Var:
        eqn = made.get(x)
        if eqn is None or eqn.primitive not in _SPREADS:
            return False
        x = eqn.invars[0]
    return not x.val


def _added(x: Atom, block: Eqn, out: Var) -> list[Eqn]:
    """Equations that compute ``out = x + (the result of block)``."""
    if block.primitive is scatter_add_p:
        return [block.replace(invars=[x, *block.invars[1:]], outvars=[out])]
    if block.primitive is pad_p:
        update, starts = block.invars[0], [Literal(np.int32(low)) for low, _, _ in block.params["padding_config"]]
    else:
        _, update, *starts = block.invars
    old, new = Var(update.aval), Var(update.aval)
    return [Eqn([x, *starts], [old], dynamic_slice_p, {"slice_sizes": update.aval.shape}, block.source),
            Eqn([old, update], [new], accumulate_p, {}, block.source),
            Eqn([x, new, *starts], [out], dynamic_update_slice_p, {}, block.source)]


# -- reads before writes ------------------------------------------------------------------------------------------

def _reading_before_writing(j: Jaxpr, carried: Sequence[Var]) -> Jaxpr:
    """The program with barriers, so that a carried array is read before the writes that replace it."""
    arrays: set[Atom] = set(carried)
    for eqn in j.eqns:
        if eqn.primitive in _WRITES and eqn.invars[0] in arrays:
            arrays.update(eqn.outvars)
    for out in [eqn.outvars for eqn in j.eqns if eqn.primitive in _WRITES and eqn.outvars[0] in arrays]:
        write = next(eqn for eqn in j.eqns if eqn.outvars == out)           # the last step may have renamed its inputs
        reads = _reads_to_order(j, write)
        if reads:
            j = _without_fusion(_with_reads_first(j, write, reads), write.invars[0])
    return j


def _reads_to_order(j: Jaxpr, write: Eqn) -> set[Eqn]:
    """The equations that read a part, or a sum, of the array that `write` replaces; none if XLA must copy it anyway."""
    array = write.invars[0]
    readers = {eqn for eqn in j.eqns if eqn is not write and array in eqn.invars}
    replaced_twice = any(eqn.primitive in _WRITES and eqn.invars[0] is array for eqn in readers)
    if replaced_twice or array in j.outvars or not readers.isdisjoint(_dependent(j.eqns, {write})):
        return set()
    return {eqn for eqn in readers if all(is_at_most(v.aval.size + 1, array.aval.size) for v in eqn.outvars)}


def _with_reads_first(j: Jaxpr, write: Eqn, reads: set[Eqn]) -> Jaxpr:
    """The program with `reads` before `write`, and a barrier for the values computed from them and used elsewhere."""
    before = _needed(j.eqns, {write, *reads}) - {write}
    rows = {v for eqn in _dependent(j.eqns, reads) & before for v in eqn.outvars}
    elsewhere = {*_read_by(eqn for eqn in j.eqns if eqn not in before and eqn is not write), *j.outvars}
    held = [v for eqn in j.eqns for v in eqn.outvars if v in rows and v in elsewhere]
    # XLA copies an array that passes a barrier together with other values, so a smaller operand of the write passes it.
    tied = min((v for v in write.invars[1:] if type(v) is Var), key=lambda v: v.aval.size, default=None)
    if not held or tied is None:
        return j
    at = j.eqns.index(write)
    later = _dependent(j.eqns, {eqn for eqn in j.eqns if eqn not in before and not rows.isdisjoint(eqn.invars)})
    delayed = [eqn for eqn in j.eqns[:at] if eqn in later]
    advanced = [eqn for eqn in j.eqns[at:] if eqn in before]
    if any(eqn.effects for eqn in (*delayed, *advanced)):                   # effects keep their order
        return j
    first = [*(eqn for eqn in j.eqns[:at] if eqn not in later), *advanced]
    rest = [write, *delayed, *(eqn for eqn in j.eqns[at + 1:] if eqn not in before)]
    return _with_barrier(j, [tied, *held], first, rest)


def _without_fusion(j: Jaxpr, array: Atom) -> Jaxpr:
    """The program with a barrier after the write that computed the array, if any, so that no read is fused with it."""
    for k, eqn in enumerate(j.eqns, 1):
        if eqn.primitive in _WRITES and array in eqn.outvars:
            return _with_barrier(j, [array], j.eqns[:k], j.eqns[k:])
    return j


def _with_barrier(j: Jaxpr, values: Sequence[Atom], first: Sequence[Eqn], rest: Sequence[Eqn]) -> Jaxpr:
    """The program of `first`, a barrier for `values`, and `rest`, which reads the values after the barrier."""
    names: dict[Atom, Atom] = {v: Var(v.aval) for v in values}

    def renamed(atoms: Sequence[Atom]) -> list[Atom]:
        return [names.get(v, v) for v in atoms]

    barrier = Eqn([*names], [*names.values()], optimization_barrier_p, {}, rest[0].source)
    eqns = [*first, barrier, *(eqn.replace(invars=renamed(eqn.invars)) for eqn in rest)]
    return j.replace(eqns=eqns, outvars=renamed(j.outvars))


def _dependent(eqns: Iterable[Eqn], first: set[Eqn]) -> set[Eqn]:
    """The equations `first`, and all equations that depend on them."""
    dependent = {*first}
    values = {v for eqn in dependent for v in eqn.outvars}
    for eqn in eqns:
        if not values.isdisjoint(eqn.invars):
            dependent.add(eqn)
            values.update(eqn.outvars)
    return dependent


def _needed(eqns: Sequence[Eqn], last: set[Eqn]) -> set[Eqn]:
    """The equations `last`, and all equations on which they depend."""
    needed = {*last}
    values = {*_read_by(needed)}
    for eqn in reversed(eqns):
        if eqn in needed or not values.isdisjoint(eqn.outvars):
            needed.add(eqn)
            values.update(eqn.invars)
    return needed
