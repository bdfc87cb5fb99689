"""Rules of Taylor mode, in one table: operation -> the Taylor coefficients of its result.

A rule is `rule(p, us, params) -> coefficients`. `us` has the coefficients `[u0, u1, ...]` of each operand, all of one
length. Coefficients from `u1` on, also of the result, may be Zero. With `u(t) = sum of u_k t^k` and `v = f(u)`, the
rules of smooth functions compare coefficients in `v' = f'(u) u'`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.jaxpr import eval_jaxpr
from xjax.core.primitive import Primitive
from xjax.core.types import Zero, typeof
from xjax.ops.elementwise import add, div, mul, neg, sub
from xjax.ops.makers import scalar_like
from xjax.ops.transcendental import cos, cosh, log, sin, sinh
from xjax.ops.zeros import instantiate
from xjax.transforms.linearize import linearize_flat
from xjax.typing import Array, ArrayLike

Coefficients = list[Any]
Rule = Callable[[Primitive, Sequence[Coefficients], dict], Any]


# -- arithmetic of coefficients, any of which may be Zero -----------------------------------------------------------

def plus(a: ArrayLike | Zero, b: ArrayLike | Zero) -> ArrayLike | Zero:
    if type(a) is Zero:
        return b
    return a if type(b) is Zero else add(a, b)


def minus(a: ArrayLike | Zero, b: ArrayLike | Zero) -> ArrayLike | Zero:
    if type(b) is Zero:
        return a
    return neg(b) if type(a) is Zero else sub(a, b)


def times(a: ArrayLike | Zero, b: ArrayLike | Zero, product: Callable = mul) -> ArrayLike | Zero:
    if type(a) is Zero or type(b) is Zero:
        return a if type(a) is Zero else b
    return product(a, b)


def over(a: ArrayLike | Zero, b: ArrayLike) -> ArrayLike | Zero:
    return a if type(a) is Zero else div(a, b)


def scaled(a: ArrayLike | Zero, factor: float) -> ArrayLike | Zero:
    return a if type(a) is Zero or factor == 1 else mul(a, scalar_like(a, factor))


def cauchy(a: Sequence[Any], b: Sequence[Any], k: int, start: int = 0, stop: int | None = None,
           product: Callable = mul) -> ArrayLike | Zero:
    """Coefficient `k` of the product of two series: the sum of a_j b_(k-j) for j in [start, stop], stop = k if None."""
    total: Any = Zero(typeof(a[0]).tangent())
    for j in range(start, (k if stop is None else stop) + 1):
        total = plus(total, times(a[j], b[k - j], product))
    return total


def integral(c: Sequence[Any], u: Sequence[Any], k: int) -> Array:
    """Coefficient `k` of v where `v' = c u'`: the sum of (j/k) u_j c_(k-j) for j in [1, k]."""
    total: Any = Zero(typeof(u[0]).tangent())
    for j in range(1, k + 1):
        total = plus(total, times(scaled(u[j], j / k), c[k - j]))
    return total


# -- linear and piecewise linear operations -------------------------------------------------------------------------

def constant(p: Primitive, us: Sequence[Coefficients], params: dict) -> Any:
    """The result is locally constant: all its coefficients after the value are Zero."""
    outs = p.bind(*[u[0] for u in us], **params)
    order = len(us[0]) - 1
    series = [[y, *[Zero(typeof(y).tangent())] * order] for y in (outs if p.multiple_results else [outs])]
    return series if p.multiple_results else series[0]


def piecewise_linear(p: Primitive, us: Sequence[Coefficients], params: dict) -> Any:
    """Each coefficient of the result is the derivative at the value, applied to the coefficients of the operands."""
    moving = [not all(type(c) is Zero for c in u[1:]) for u in us]
    lin = linearize_flat(lambda *xs: _listed(p.bind(*xs, **params)), [u[0] for u in us], moving, "jet")
    series = [[y] for y in lin.outs]
    for k in range(1, len(us[0])):
        terms = [instantiate(u[k]) for u, flag in zip(us, moving, strict=True) if flag]
        results = iter(eval_jaxpr(lin.program.jaxpr, lin.program.consts, *terms))
        for coefficients, has in zip(series, lin.nonzero, strict=True):
            coefficients.append(next(results) if has else Zero(typeof(coefficients[0]).tangent()))
    return series if p.multiple_results else series[0]


def _listed(out: Array | list[Array] | tuple[Array, ...]) -> list[Array]:
    return [*out] if isinstance(out, (tuple, list)) else [out]


def bilinear(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    """A bilinear operation of two operands."""
    u, w = us

    def product(x: ArrayLike, y: ArrayLike) -> Array:
        return p.bind(x, y, **params)

    return [cauchy(u, w, k, product=product) for k in range(len(u))]


# -- quotients and powers -------------------------------------------------------------------------------------------

def quotient(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    u, w = us
    v: Coefficients = []
    for k in range(len(u)):
        v.append(over(minus(u[k], cauchy(v, w, k, stop=k - 1) if k else Zero(typeof(u[0]))), w[0]))
    return v


def square(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    return _product(us[0], us[0])


def integer_power(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    """Powers by repeated products, which are valid at zero too."""
    (u,), n = us, params["y"]
    if n == 0:
        return constant(p, us, params)
    result = _positive_power(u, abs(n))
    if n > 0:
        return [p.bind(u[0], y=n), *result[1:]]
    one = scalar_like(u[0], 1)
    return quotient(p, [[one, *[Zero(typeof(u[0]).tangent())] * (len(u) - 1)], result], {})


def _positive_power(u: Coefficients, n: int) -> Coefficients:
    if n == 1:
        return u
    half = _positive_power(u, n // 2)
    squared = _product(half, half)
    return _product(squared, u) if n % 2 else squared


def _product(u: Sequence[Any], w: Sequence[Any]) -> Coefficients:
    return [cauchy(u, w, k) for k in range(len(u))]


def square_root(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    """The coefficients of v follow from v v = u."""
    (u,) = us
    v = [p.bind(u[0], **params)]
    for k in range(1, len(u)):
        v.append(over(minus(u[k], cauchy(v, v, k, 1, k - 1)), scaled(v[0], 2)))
    return v


def inverse_square_root(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    """The coefficients of v follow from u v' = -1/2 u' v."""
    (u,) = us
    v = [p.bind(u[0], **params)]
    for k in range(1, len(u)):
        total: Any = Zero(typeof(u[0]).tangent())
        for j in range(1, k + 1):
            total = plus(total, scaled(times(u[j], v[k - j]), (j / 2 - k) / k))
        v.append(over(total, u[0]))
    return v


def power(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    """`v = exp(y log x)`."""
    x, y = us
    w = _product(y, _logarithm(x, log(x[0])))
    v = [p.bind(x[0], y[0], **params)]
    for k in range(1, len(x)):
        v.append(integral(v, w, k))
    return v


# -- functions that satisfy a differential equation -----------------------------------------------------------------

def exponential(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    (u,) = us
    v = [p.bind(u[0], **params)]
    for k in range(1, len(u)):
        v.append(integral(v, u, k))
    return v


def logarithm(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    return _logarithm(us[0], p.bind(us[0][0], **params))


def _logarithm(u: Coefficients, value: Array) -> Coefficients:
    """The coefficients of v follow from u v' = u'."""
    v = [value]
    for k in range(1, len(u)):
        total: Any = Zero(typeof(u[0]).tangent())
        for j in range(1, k):
            total = plus(total, scaled(times(v[j], u[k - j]), j / k))
        v.append(over(minus(u[k], total), u[0]))
    return v


def _pair(first: Callable, second: Callable, sign: int, index: int) -> Rule:
    """The rule of one of two functions with first' = second and second' = sign first, the one with this index."""
    def rule(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
        (u,) = us
        s, c = [first(u[0])], [second(u[0])]
        for k in range(1, len(u)):
            s.append(integral(c, u, k))
            c.append(scaled(integral(s, u, k), sign))
        return (s, c)[index]
    return rule


def hyperbolic_tangent(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    """v' = (1 - v v) u'."""
    (u,) = us
    v = [p.bind(u[0], **params)]
    slope = [sub(scalar_like(v[0], 1), mul(v[0], v[0]))]
    for k in range(1, len(u)):
        v.append(integral(slope, u, k))
        slope.append(scaled(cauchy(v, v, k), -1))
    return v


def logistic(p: Primitive, us: Sequence[Coefficients], params: dict) -> Coefficients:
    """v' = (v - v v) u'."""
    (u,) = us
    v = [p.bind(u[0], **params)]
    slope = [mul(v[0], sub(scalar_like(v[0], 1), v[0]))]
    for k in range(1, len(u)):
        v.append(integral(slope, u, k))
        slope.append(minus(v[k], cauchy(v, v, k)))
    return v


# -- the table ------------------------------------------------------------------------------------------------------

# Linear in the differentiable operands, or piecewise linear. Operations with `jvp=LINEAR` need no entry.
_PIECEWISE_LINEAR = """
add add_any all_gather clamp complex concatenate convert_element_type cummax cummin dynamic_update_slice gather
linear_call max min optimization_barrier pad psum reduce_max reduce_min reduce_window_max reduce_window_min rem
scatter scatter-add scatter-max scatter-min scatter-sub select_n sort split stack sub top_k unstack
""".split()  # noqa: SIM905

RULES: dict[str, Rule] = {
    **dict.fromkeys(_PIECEWISE_LINEAR, piecewise_linear),
    **dict.fromkeys(("mul", "dot_general", "conv_general_dilated"), bilinear),
    "div": quotient, "square": square, "integer_pow": integer_power, "pow": power,
    "sqrt": square_root, "rsqrt": inverse_square_root,
    "exp": exponential, "log": logarithm, "tanh": hyperbolic_tangent, "logistic": logistic,
    "sin": _pair(sin, cos, -1, 0), "cos": _pair(sin, cos, -1, 1),
    "sinh": _pair(sinh, cosh, 1, 0), "cosh": _pair(sinh, cosh, 1, 1),
}


OWN: dict[Primitive, Rule] = {}         # rules that programs set; see `jet_extensions`


def rule_of(p: Primitive) -> Rule | None:
    """The rule of an operation; None if its derivative is to be used instead."""
    if p in OWN:
        return OWN[p]
    by_name = RULES.get(p.name)
    if by_name is not None:
        return by_name
    kind = getattr(p.jvp, "__func__", None)
    return {Primitive._zero_jvp: constant, Primitive._linear_jvp: piecewise_linear}.get(kind)
