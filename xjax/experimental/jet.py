"""Taylor mode: all derivatives along a curve up to a given order, at a cost that is polynomial in the order.

`JetTrace` carries Taylor coefficients with each value. For an operation without a rule in `jet_rules`, the coefficients
are computed from its derivative, `v' = jvp(u; u')`, evaluated in Taylor mode of one order less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core import dtypes
from xjax.core.calls import flatten_function, function_name
from xjax.core.context import context, current_trace
from xjax.core.errors import bad
from xjax.core.primitive import Missing, Primitive
from xjax.core.public import attributes_of
from xjax.core.trace import Tag, Trace, Tracer, known_value
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.types import Zero, is_array_like, typeof
from xjax.experimental.jet_rules import Coefficients, rule_of, scaled
from xjax.ops.convert import convert_element_type
from xjax.ops.zeros import instantiate
from xjax.typing import ArrayLike

__all__ = ["jet"]


def jet(fun: Callable, primals: Sequence[Any], series: Sequence[Sequence[Any]], factorial_scaled: bool = True,
        **_: object) -> tuple[Any, Any]:
    """Derivatives of `fun` along a curve through `primals`: Taylor-mode differentiation.

    Args:
      fun: function of arrays, returns a tree of arrays.
      primals: one array for each argument: the value of the curve.
      series: for each argument its derivatives along the curve, first, second, ...: arrays like the argument. Their
        number, which must be the same for all arguments, is the order.
      factorial_scaled: False: terms, of arguments and results, are Taylor coefficients: the k-th derivative over k!.

    Returns: (value, terms): the value of `fun`, and the same tree with a list of terms in place of each array.
    Raises: ValueError for primals that are not float arrays, or terms that do not fit the primals.

    >>> value, terms = jet(lambda x: x ** 3, (2.0,), ((1.0, 0.0, 0.0),))
    >>> [float(t) for t in terms]
    [12.0, 12.0, 6.0]
    """
    caller = f"jet of `{function_name(fun)}`"
    order = _check_arguments(caller, primals, series)
    factors = [math.factorial(k) if factorial_scaled else 1 for k in range(1, order + 1)]
    us = [[x, *[scaled(_like(caller, i, t, x), 1 / f) for t, f in zip(terms, factors, strict=True)]]
          for i, (x, terms) in enumerate(zip(primals, series, strict=True))]
    flat = flatten_function(fun, flatten(tuple(primals))[1], caller=caller)
    trace = JetTrace(context.trace, order, caller)
    with current_trace(trace):
        outs = [trace.split(y) for y in flat(*[trace.join(u) for u in us])]
    trace.close()
    terms = [[scaled(_term(v[0], c), f) for c, f in zip(v[1:], factors, strict=True)] for v in outs]
    return tree_unflatten(flat.out_tree, [v[0] for v in outs]), tree_unflatten(flat.out_tree, terms)


def _check_arguments(caller: str, primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> int:
    """The order: the common number of terms of all arguments."""
    if len(primals) != len(series):
        raise bad(caller, "primals and series must have one entry for each argument",
                  given={"primals": str(len(primals)), "series": str(len(series))},
                  fix="write jet(f, (x, y), ((dx, ddx), (dy, ddy))).", exc=ValueError)
    for i, x in enumerate(primals):
        if not is_array_like(x) or not dtypes.is_inexact(typeof(x).dtype):
            raise bad(caller, f"primal value at position {i} is not an array of floating-point numbers",
                      given={"value": f"{type(x).__name__} {x!r:.60}"},
                      fix="pass one float array for each argument; close over constants.", exc=ValueError)
    orders = {len(terms) for terms in series}
    if len(orders) != 1:
        raise bad(caller, "jet terms have inconsistent lengths for different arguments",
                  given={f"argument {i}": f"{len(terms)} terms" for i, terms in enumerate(series)},
                  fix="pass the same number of terms for each argument, zeros for a constant one.", exc=ValueError)
    return orders.pop()


def _like(caller: str, i: int, term: ArrayLike, x: ArrayLike) -> ArrayLike:
    """`term` with the dtype of its argument, whose shape it must have."""
    aval = typeof(x)
    if not is_array_like(term) or typeof(term).shape != aval.shape:
        raise bad(caller, f"a term of argument {i} is not an array like the argument",
                  given={"argument": aval.str_short(),
                         "term": typeof(term).str_short() if is_array_like(term) else type(term).__name__},
                  fix="pass every term with the shape of its argument.", exc=ValueError)
    return term if typeof(term).dtype == aval.dtype else convert_element_type(term, aval.dtype)


def _term(value: ArrayLike, coefficient: ArrayLike | Zero) -> ArrayLike:
    """A term of the result as an array, zeros if it is Zero."""
    return instantiate(Zero(typeof(value))) if type(coefficient) is Zero else coefficient


# -- the interpreter ------------------------------------------------------------------------------------------------

class JetTracer(Tracer):
    """A value and its Taylor coefficients of order 1 and higher, at least one of which is not Zero."""

    __slots__ = ("coefficients",)

    def __init__(self, tag: Tag, coefficients: Coefficients):
        self.tag, self.coefficients = tag, coefficients
        self.aval = typeof(coefficients[0])

    def concrete(self) -> float:
        return known_value(self.coefficients[0])

    def origin(self) -> str:
        value = self.coefficients[0]
        return value.origin() if isinstance(value, Tracer) else super().origin()


class JetTrace(Trace):
    """Trace whose tracers carry Taylor coefficients up to `order`."""

    __slots__ = ("order",)

    parent: Trace

    def __init__(self, parent: Trace, order: int, caller: str):
        super().__init__(parent, Tag(caller))
        self.order = order

    def split(self, x: ArrayLike) -> Coefficients:
        if type(x) is JetTracer and x.tag is self.tag:
            return x.coefficients
        return [x, *[Zero(typeof(x).tangent())] * self.order]

    def join(self, coefficients: Coefficients) -> ArrayLike:
        value, *others = coefficients
        if all(type(c) is Zero for c in others):
            return value
        zero = Zero(typeof(value).tangent())            # rules may return a Zero of another shape
        return JetTracer(self.tag, [value, *(zero if type(c) is Zero else c for c in others)])

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        if not any(type(x) is JetTracer and x.tag is self.tag for x in args):
            return self.parent.process(p, args, params)
        if p.calls is not None:
            with current_trace(self):
                return params[p.calls.param](*args)
        us, rule = [self.split(x) for x in args], rule_of(p)
        with current_trace(self.parent):
            outs = rule(p, us, params) if rule is not None else self._by_derivative(p, us, params)
        return [self.join(v) for v in outs] if p.multiple_results else self.join(outs)

    def _by_derivative(self, p: Primitive, us: Sequence[Coefficients],
                       params: dict) -> Coefficients | list[Coefficients]:
        """Coefficients of the result from those of its derivative along the curve: `v_k = (v')_(k-1) / k`."""
        if isinstance(p.jvp, Missing):
            raise bad("jet", f"the operation `{p.name}` has no derivative: {p.jvp.why}", fix=p.jvp.fix,
                      exc=NotImplementedError)
        lower = JetTrace(self.parent, self.order - 1, self.tag.caller)
        primals = [lower.join(u[:-1]) for u in us]
        tangents = [_velocity(lower, u) for u in us]
        with current_trace(lower):
            outs, douts = p.jvp(primals, tangents, **params)
        if not p.multiple_results:
            outs, douts = [outs], [douts]
        results = []
        for y, dy in zip(outs, douts, strict=True):
            slope = [dy] * self.order if type(dy) is Zero else lower.split(dy)
            results.append([lower.split(y)[0], *[scaled(c, 1 / k) for k, c in enumerate(slope, start=1)]])
        lower.close()
        return results if p.multiple_results else results[0]


def _velocity(trace: JetTrace, u: Coefficients) -> ArrayLike | Zero:
    """The derivative of a curve with respect to its parameter, as a value in the trace of one order less."""
    if all(type(c) is Zero for c in u[1:]):
        return Zero(typeof(u[0]).tangent())
    first, *others = [scaled(c, k) for k, c in enumerate(u[1:], start=1)]
    return trace.join([instantiate(first), *others])

# The names for rules of other operations, imported on first access.
__getattr__ = attributes_of(__name__, {name: ("xjax.experimental.jet_extensions", name) for name in (
    "ZeroSeries", "ZeroTerm", "def_comp", "def_deriv", "deflinear", "defzero", "deriv_prop", "fact", "jet2",
    "jet_rules", "linear_prop", "zero_prop", "zero_series", "zero_term")})
