"""Scatters that replace, subtract, take the extremum or apply a function at computed positions.

`scatter_add`, the adjoint of gather, and the common parts of all scatters are in `xjax.ops.gather`; `scatter_mul` is in
`xjax.ops.scatter_product`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core.config import UNCHECKED, marked
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import Atom, Jaxpr, Literal
from xjax.core.primitive import Missing, Primitive, primitive_called
from xjax.core.staging import trace_to_jaxpr
from xjax.core.types import ShapedArray, Zero, is_linear, number_of, typeof
from xjax.ops.arrange import iota
from xjax.ops.checks import static_int
from xjax.ops.compare import eq, ge, le, select_n
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, mul, neg, sub
from xjax.ops.gather import linear_scatter_jvp, read_windows, scatter_add, scatter_function, scatter_primitive
from xjax.ops.identity import computed_once
from xjax.ops.index_numbers import GatherScatterMode, ScatterDimensionNumbers, as_ints
from xjax.ops.piecewise import max, min
from xjax.ops.shape import reshape
from xjax.ops.zeros import full_of, instantiate, zeros_of
from xjax.typing import Array, ArrayLike

# -- scatter (set) ------------------------------------------------------------------------------------------------

def _scatter_jvp(primals, tangents, *, dimension_numbers, update_jaxpr, update_consts, **flags):
    """If several updates hit one element, its tangent must be that of the update that was written.

    With the promise of unique indices this is the scatter of the tangents. Otherwise every window gets a number; the
    numbers are scattered like the updates, and reading them back shows which update was written.
    """
    if update_jaxpr is not None:
        raise bad("lax.scatter_apply", "has no derivative",
                  fix="read with x.at[i].get(), apply the function, write back with x.at[i].set().",
                  exc=NotImplementedError)
    x, indices, updates = primals
    dx, _, du = tangents
    n = dimension_numbers
    params = {"dimension_numbers": n, "update_jaxpr": None, "update_consts": (), **flags}
    if type(dx) is Zero and type(du) is Zero:
        out = scatter_p.bind(*primals, **params)
        return out, Zero(out.aval.tangent())
    if flags["unique_indices"]:
        out = scatter_p.bind(*primals, **params)
        return out, scatter_p.bind(instantiate(dx), indices, instantiate(du), **params)
    ids = _window_ids(typeof(indices), typeof(updates), n)
    winners = scatter_p.bind(zeros_of(typeof(x).update(dtype=np.dtype(np.uint32), weak_type=False)), indices, ids,
                             **params)
    seen = _read_back(winners, indices, typeof(ids), n)
    untouched = eq(winners, zeros_of(winners.aval))
    won = eq(ids, seen)

    def combine(a: ArrayLike, u: ArrayLike) -> Array:
        kept = select_n(untouched, zeros_of(typeof(a)), a)
        written = select_n(won, zeros_of(typeof(u)), u)
        return scatter_add(kept, indices, written, n, **flags)

    return combine(x, updates), combine(instantiate(dx), instantiate(du))


def _read_back(x: Array, indices: ArrayLike, updates: ShapedArray, n: ScatterDimensionNumbers) -> Array | np.ndarray:
    """The windows that a scatter wrote; any value where it wrote none. Checked mode checks the scatter instead."""
    with marked(UNCHECKED):
        return read_windows(x, indices, updates, n, mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def _window_ids(indices: ShapedArray, updates: ShapedArray, n: ScatterDimensionNumbers) -> Array:
    """uint32 array in the shape of the updates: 1, 2, ... for each window."""
    outer = indices.shape[:-1]
    shape = tuple(1 if d in n.update_window_dims else size for d, size in enumerate(updates.shape))
    numbered = reshape(iota(np.uint32, int(np.prod(outer, dtype=np.int64))), shape)
    return add(numbered, full_of(ShapedArray(updates.shape, np.dtype(np.uint32)), 1))


def _scatter_transpose(ct, x, indices, updates, *, dimension_numbers, update_jaxpr, update_consts, **flags):
    """Used only with the promise of unique indices, so every update is written."""
    ct_x = ct_updates = None
    if is_linear(x):
        ct_x = scatter(ct, indices, zeros_of(typeof(updates)), dimension_numbers, **flags)
    if is_linear(updates):
        ct_updates = read_windows(ct, indices, updates.aval, dimension_numbers, mode=flags["mode"],
                                  fill_value=0)
    return [ct_x, None, ct_updates]


def _emit_update(b: Builder, old: Value, new: Value, update_jaxpr: Jaxpr | None) -> Value:
    """New value of an element: the update, or the result of `scatter_apply`'s function for the old value."""
    if update_jaxpr is None:
        return new
    env = dict(zip(update_jaxpr.invars, (old, new), strict=True))

    def value(atom: Atom) -> Value:
        return b.constant(atom.val, atom.aval) if type(atom) is Literal else env[atom]

    for eqn in update_jaxpr.eqns:
        outs = [v.aval for v in eqn.outvars]
        many = eqn.primitive.multiple_results
        results = eqn.primitive.lower(b, outs if many else outs[0], *map(value, eqn.invars), **eqn.params)
        env.update(zip(eqn.outvars, results if many else [results], strict=True))
    return value(update_jaxpr.outvars[0])


scatter_p = scatter_primitive("scatter", _emit_update, _scatter_jvp, _scatter_transpose, lambda: scatter_p)
scatter = scatter_function(
    scatter_p, None, """Write `updates` to `operand` at computed positions.

    If several updates hit one element, any of them may be written; `unique_indices` promises that none do.""")


def scatter_apply(operand: ArrayLike, scatter_indices: ArrayLike, func: Callable[[Any], Any],
                  dimension_numbers: ScatterDimensionNumbers, *, update_shape: Sequence[int] = (),
                  indices_are_sorted: bool = False, unique_indices: bool = False,
                  mode: str | GatherScatterMode | None = None) -> Array:
    """Apply `func` to the elements of `operand` at computed positions, once for each index vector.

    Args:
      func: scalar -> scalar of the same dtype, composed of element-wise operations.
      update_shape: shape of the updates of a `scatter_add` at these positions.
      Others: as for `scatter_add`.
    """
    aval = typeof(operand)
    scalar = ShapedArray((), aval.dtype)
    program = trace_to_jaxpr(lambda x, _: [func(x)], [scalar, scalar], "scatter_apply")
    if program.consts or program.out_avals[0].strong() is not scalar:
        raise bad("lax.scatter_apply", "`func` must map a scalar to one of its dtype, without captured arrays",
                  given={"operand": aval.str_short(), "func": f"{scalar} -> {program.out_avals[0]}"},
                  fix="convert the result with x.astype(...), and write captured values as Python numbers.")
    shape = tuple(static_int(n, "update_shape", "lax.scatter_apply") for n in update_shape)
    return scatter_p.bind(
        operand, scatter_indices, zeros_of(ShapedArray(shape, aval.dtype)),
        dimension_numbers=ScatterDimensionNumbers(*map(as_ints, dimension_numbers)), update_jaxpr=program.jaxpr,
        update_consts=(), indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode))


# -- scatter-sub --------------------------------------------------------------------------------------------------

def _scatter_sub_transpose(ct, x, indices, updates, *, dimension_numbers, mode, **params):
    read = None
    if is_linear(updates):
        read = neg(read_windows(ct, indices, updates.aval, dimension_numbers, mode=mode, fill_value=0))
    return [ct if is_linear(x) else None, None, read]


scatter_sub_p = scatter_primitive("scatter-sub", "stablehlo.subtract", linear_scatter_jvp(lambda: scatter_sub_p),
                                  _scatter_sub_transpose, lambda: scatter_sub_p)
scatter_sub = scatter_function(scatter_sub_p, sub, "Subtract `updates` from `operand` at computed positions.")


# -- scatter-min and scatter-max ----------------------------------------------------------------------------------

def _extremal_jvp(p: Callable[[], Primitive], attains: Callable) -> Callable:
    """The tangent of an extremum is shared equally by all values equal to it: the old value and the updates."""
    def rule(primals, tangents, *, dimension_numbers, update_jaxpr, update_consts, **flags):
        x, indices, updates = primals
        n = dimension_numbers
        smooth = not all(type(tangents[i]) is Zero for i in (0, 2))
        if smooth:
            x, updates = x if flags["unique_indices"] else computed_once(x), computed_once(updates)
        out = p().bind(x, indices, updates, dimension_numbers=n, update_jaxpr=update_jaxpr,
                       update_consts=update_consts, **flags)
        if not smooth:
            return out, Zero(out.aval.tangent())
        dx, du = instantiate(tangents[0]), instantiate(tangents[2])
        if flags["unique_indices"]:
            return out, _tangent_of_windows(dx, du, x, indices, updates, attains, n, flags)
        dtype = out.aval.dtype
        one = number_of(dtype, 1)
        won = convert_element_type(eq(updates, _read_back(out, indices, typeof(updates), n)), dtype)
        kept = convert_element_type(eq(x, out), dtype)
        winners = scatter_add(zeros_of(out.aval), indices, won, n, **flags)
        touched = scatter_add(zeros_of(out.aval), indices, full_of(typeof(updates), 1), n, **flags)
        # An element without updates keeps its whole tangent, also if the element is NaN.
        untouched = eq(touched, zeros_of(out.aval))
        kept = select_n(untouched, kept, full_of(out.aval, 1))
        share = div(one, max(add(winners, kept), one))
        total = add(mul(dx, kept), scatter_add(zeros_of(out.aval), indices, mul(du, won), n, **flags))
        return out, mul(total, share)
    return rule


def _tangent_of_windows(dx: Array, du: Array, x: Array, indices: Array, updates: Array, attains: Callable,
                        n: ScatterDimensionNumbers, flags: dict[str, Any]) -> Array:
    """The tangent if no element is hit twice: only the windows are read, so a step of a loop costs only these.

    The share of a value is 1, 1/2 at a tie, or 0. The windows that are read pass no barrier: if they do, jaxlib 0.12
    compiles gradients wrongly (seen on CPUs, in second derivatives of a scatter of columns).
    """
    old, dtype = read_windows(x, indices, typeof(updates), n, mode=flags["mode"], fill_value=0), typeof(x).dtype
    kept, won = (convert_element_type(c, dtype) for c in (attains(old, updates), attains(updates, old)))
    share = div(number_of(dtype, 1), max(add(kept, won), number_of(dtype, 1)))
    scaled = primitive_called("scatter-mul").bind(dx, indices, mul(kept, share), dimension_numbers=n, update_jaxpr=None,
                                                  update_consts=(), **flags)
    return scatter_add(scaled, indices, mul(du, mul(won, share)), n, **flags)


_EXTREMUM_NOT_LINEAR = Missing("an extremum is not linear, so it has no transpose")

scatter_min_p = scatter_primitive("scatter-min", "stablehlo.minimum", _extremal_jvp(lambda: scatter_min_p, le),
                                  _EXTREMUM_NOT_LINEAR, lambda: scatter_min_p)
scatter_min = scatter_function(scatter_min_p, min, "Minimum of `operand` and `updates` at computed positions.")

scatter_max_p = scatter_primitive("scatter-max", "stablehlo.maximum", _extremal_jvp(lambda: scatter_max_p, ge),
                                  _EXTREMUM_NOT_LINEAR, lambda: scatter_max_p)
scatter_max = scatter_function(scatter_max_p, max, "Maximum of `operand` and `updates` at computed positions.")
