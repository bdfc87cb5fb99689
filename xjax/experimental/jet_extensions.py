"""Rules of Taylor mode for operations of other libraries, in JAX's form: `jet_rules[p] = rule`, and helpers.

A rule of this form is ``rule(primals, series, **params) -> (primal, series)``. `series` has a list of Taylor
coefficients, of order 1 and higher, for each operand: derivatives divided by factorials.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, MutableMapping, Sequence

from xjax.core.primitive import Primitive
from xjax.core.tree_nodes import register_static
from xjax.core.types import Zero, typeof
from xjax.experimental.jet import jet
from xjax.experimental.jet_rules import OWN, Coefficients, rule_of, scaled
from xjax.ops.elementwise import add, mul
from xjax.ops.zeros import instantiate
from xjax.typing import Array, ArrayLike

Series = Sequence[Sequence[ArrayLike]]
JaxRule = Callable[..., tuple]


@register_static
class ZeroTerm:
    """The type of `zero_term`, a coefficient that is zero."""


@register_static
class ZeroSeries:
    """The type of `zero_series`, coefficients that are all zero."""


zero_term, zero_series = ZeroTerm(), ZeroSeries()


def fact(n: int) -> int:
    """The factorial of n."""
    return math.factorial(n)


class JetRules(MutableMapping):
    """The rules, by operation. A rule that is set replaces the library's; `del` gives it back.

    Other operations have Taylor coefficients too, from their derivative rules, but are not keys.
    """

    def __getitem__(self, p: Primitive) -> JaxRule:
        own = rule_of(p)
        if own is None:
            raise KeyError(p)
        return functools.partial(_in_form_of_jax, p, own)

    def __setitem__(self, p: Primitive, rule: JaxRule) -> None:
        OWN[p] = functools.partial(_by_rule_of_jax, rule)

    def __delitem__(self, p: Primitive) -> None:
        del OWN[p]

    def __iter__(self) -> Iterator[Primitive]:
        return iter(OWN)

    def __len__(self) -> int:
        return len(OWN)

    def __contains__(self, p: object) -> bool:
        return isinstance(p, Primitive) and rule_of(p) is not None


def _by_rule_of_jax(rule: JaxRule, p: Primitive, us: Sequence[Coefficients],
                    params: dict) -> Coefficients | list[Coefficients]:
    order = len(us[0]) - 1
    primal, series = rule([u[0] for u in us], [[instantiate(c) for c in u[1:]] for u in us], **params)
    if not p.multiple_results:
        return _coefficients(primal, series, order)
    series = [zero_series] * len(primal) if isinstance(series, ZeroSeries) else series
    return [_coefficients(y, s, order) for y, s in zip(primal, series, strict=True)]


def _coefficients(y: Array, series: Sequence[Array | ZeroTerm] | ZeroSeries, order: int) -> Coefficients:
    zero = Zero(typeof(y).tangent())
    terms = [zero] * order if isinstance(series, ZeroSeries) else series
    return [y, *[zero if isinstance(c, ZeroTerm) else c for c in terms]]


def _in_form_of_jax(p: Primitive, rule: Callable, primals: Sequence[ArrayLike], series: Series,
                    **params: object) -> tuple:
    out = rule(p, [[x, *terms] for x, terms in zip(primals, series, strict=True)], params)
    outs = [[v[0], [instantiate(c) for c in v[1:]]] for v in (out if p.multiple_results else [out])]
    return ([v for v, _ in outs], [s for _, s in outs]) if p.multiple_results else tuple(outs[0])


jet_rules = JetRules()
# `jet` with Taylor coefficients in place of derivatives.
jet2 = functools.partial(jet, factorial_scaled=False)


# -- helpers --------------------------------------------------------------------------------------------------------

def zero_prop(prim: Primitive, primals_in: Sequence[ArrayLike], series_in: Series, **params: object) -> tuple:
    """The rule of a locally constant operation."""
    return prim.bind(*primals_in, **params), zero_series


def defzero(prim: Primitive) -> None:
    """The operation is locally constant."""
    jet_rules[prim] = functools.partial(zero_prop, prim)


def linear_prop(prim: Primitive, primals_in: Sequence[ArrayLike], series_in: Series, **params: object) -> tuple:
    """The rule of an operation that is linear in all operands together."""
    series = [prim.bind(*terms, **params) for terms in zip(*series_in, strict=True)]
    if prim.multiple_results:
        series = [list(s) for s in zip(*series, strict=True)]
    return prim.bind(*primals_in, **params), series


def deflinear(prim: Primitive) -> None:
    """The operation is linear in all operands together.

    >>> from xjax.experimental.jet import jet, deflinear
    >>> deflinear(lax.neg_p)
    """
    jet_rules[prim] = functools.partial(linear_prop, prim)


def deriv_prop(prim: Primitive, deriv: Callable, primals_in: Sequence[ArrayLike], series_in: Series) -> tuple:
    """The rule of an operation of one operand, from the function that is its first derivative."""
    (x,), (series,) = primals_in, series_in
    slope, slopes = jet2(deriv, [x], [series])
    c, u, out = [slope, *slopes], [x, *series], []
    for k in range(1, len(u)):
        terms = [scaled(mul(c[k - j], u[j]), j / k) for j in range(1, k + 1)]
        out.append(functools.reduce(add, terms))
    return prim.bind(x), out


def def_deriv(prim: Primitive, deriv: Callable) -> None:
    """The operation, of one operand, has the first derivative `deriv`, a function."""
    jet_rules[prim] = functools.partial(deriv_prop, prim, deriv)


def def_comp(prim: Primitive, comp: Callable, **kwargs: object) -> None:
    """The operation equals the function ``comp(*operands, **kwargs)`` of other operations."""
    jet_rules[prim] = functools.partial(_by_composition, comp, kwargs)


def _by_composition(comp: Callable, options: dict, primals_in: Sequence[ArrayLike], series_in: Series,
                    **params: object) -> tuple:
    return jet2(functools.partial(comp, **options, **params), primals_in, series_in)
