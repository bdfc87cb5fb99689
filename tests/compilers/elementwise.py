"""Rows for elementwise operations, and for random draws with the shape of a value.

Functions are written with a guard that keeps them smooth and in range. Discontinuous functions (comparisons, floor,
sign) are applied to exact values only: rounding must not decide a result.
"""

from __future__ import annotations

from tests.compilers.program import NO_MEANING
from tests.compilers.writer import Op, Writer

_UNARY = (
    "jnp.sin({})", "jnp.cos({})", "jnp.tanh({})", "jnp.arctan({})", "jnp.abs({})", "jnp.square({})", "-{}",
    "jnp.exp(-jnp.abs({}))", "jnp.exp(jnp.minimum({}, 3.0))", "jnp.expm1(jnp.tanh({}))", "jnp.sinh(jnp.tanh({}))",
    "jnp.log(jnp.abs({}) + 0.5)", "jnp.log1p(jnp.abs({}))", "jnp.sqrt(jnp.abs({}) + 0.1)",
    "jnp.log(jnp.exp(jnp.tanh({})))", "lax.rsqrt(jnp.square({}) + 0.1)", "jnp.power(jnp.abs({}) + 0.5, 1.3)",
    "1 / (1 + {} ** 2)", "jnp.clip({}, -0.7, 0.9)", "jnp.where({0} > 0.25, {0} - 0.25, 0.0)", "0.5 * {}", "{} + 1.0",
    "nn.relu({})", "nn.gelu({})", "nn.softplus({})", "nn.silu({})", "lax.logistic({})", "lax.erf({})",
    "lax.erf_inv(0.9 * jnp.tanh({}))", "lax.lgamma(jnp.abs({}) + 0.5)", "lax.digamma(jnp.abs({}) + 0.5)",
)
_BINARY = (
    "{} + {}", "{} - {}", "{} * {}", "{} / (jnp.abs({}) + 0.5)", "jnp.maximum({}, {})", "jnp.minimum({}, {})",
    "jnp.logaddexp({}, {})", "jnp.arctan2({}, jnp.abs({}) + 0.5)", "jnp.hypot({}, {} + 0.1)",
    "{0} * {0} + {1} * {1}", "{0} * jnp.sin({1}) + jnp.cos({1})",
)
_COMPARE = ("{} > {}", "{} <= {}", "{} == {}", "{} != {}")
_ROUND = ("jnp.floor({})", "jnp.sign({})", "jnp.round({})", "jnp.trunc({})")
_BITS = ("{} ^ {}", "{} & {}", "{} | {}", "{} + {}", "{} - {}", "{} * {}", "jnp.maximum({}, {})")
_INTEGER = ("{} % 7", "{} // 3", "~{}", "{} << 3", "{} >> 2", "{} ^ ({} >> 5)", "{} * 5 + 1")
_LOGICAL = ("{} & {}", "{} | {}", "{} ^ {}", "jnp.logical_not({0}) | {1}")
# Draws whose bits are the same in every compilation, and draws that are rounded.
_EXACT_DRAWS = (("uniform({}, {})", "f"), ("bernoulli({}, 0.3, {})", "b"), ("randint({}, {}, 0, 1000)", "i"))
_ROUNDED_DRAWS = ("normal({}, {})", "uniform({}, {}, minval=-2.0, maxval=3.0)", "exponential({}, {})",
                  "truncated_normal({}, -1.0, 2.0, {})", "gumbel({}, {})")


def _unary(text: str) -> Op:
    def write(w: Writer) -> bool:
        x = w.some()
        return w.add(text.format(x.name), x.shape)
    return Op(text, write)


def _binary(text: str, kind: str = "f", dtype: str = "", exact: bool = False) -> Op:
    """x op y with y broadcast into x, or with both exchanged; exact operands give an exact result."""
    def write(w: Writer) -> bool:
        x = w.some(kind, exact=exact)
        y = w.like(x.shape, kind, exact=exact)
        a, b = (x, y) if w.rng.random() < 0.7 else (y, x)
        return w.add(text.format(a.name, b.name), x.shape, dtype, exact=exact)
    return Op(f"{text} of {kind}", write)


def _apart(w: Writer) -> bool:
    """x[..., None] * y: both operands are broadcast."""
    x, y = w.some(ranks=range(1, 4)), w.some(ranks=range(1, 2))
    shape = (*x.shape, *y.shape)
    return w.fits(shape) and w.add(f"{x.name}[..., None] * {y.name}", shape)


def _round(text: str) -> Op:
    def write(w: Writer) -> bool:
        x = w.some(exact=True)
        return w.add(text.format(x.name), x.shape, exact=True)
    return Op(text, write)


def _integer(text: str) -> Op:
    def write(w: Writer) -> bool:
        x = w.pick("i") or w.arg(w.shape(), "int32", "bits")
        return w.add(text.replace("{}", x.name), x.shape, "int32", exact=True)
    return Op(text, write)


def _where(w: Writer) -> bool:
    x = w.some()
    mask, y = w.like(x.shape, "b"), w.like(x.shape)
    a, b = w.rng.choice(((x, y), (y, x)))
    exact = x.exact and y.exact
    return w.add(f"jnp.where({mask.name}, {a.name}, {b.name})", x.shape, exact=exact)


def _to_float(w: Writer) -> bool:
    x = w.some(w.rng.choice("ib"))
    exact = x.dtype == "bool"
    text = x.name if exact else f"({x.name} % 101)"
    # Integers up to 100 have no rounding error in any dtype.
    return w.add(f"{text}.astype('{w.dtype}')", x.shape, exact=True)


def _to_integer(w: Writer) -> bool:
    x = w.some(exact=True)
    return w.add(f"jnp.clip(4 * {x.name}, -99, 99).astype('int32')", x.shape, "int32", exact=True)


def _through_half(w: Writer) -> bool:
    """A value that is rounded to half precision: the whole program then has the tolerance of half precision."""
    if w.dtype not in ("float32", "bfloat16", "float16") or (w.rounding == "float32" and w.rng.random() < 0.8):
        return False
    x = w.some()
    w.rounding = "bfloat16"
    return w.add(f"{x.name}.astype('bfloat16').astype('{w.dtype}')", x.shape)


def _exact_draw(text: str, kind: str) -> Op:
    def write(w: Writer) -> bool:
        x = w.some()
        shape = str(x.shape) if kind == "b" or w.rng.random() < 0.5 else f"{x.name}.shape"
        more = f", '{w.dtype}'" * (kind == "f")
        call = "jax.random." + text.format(w.key(), shape + more)
        return w.add(call, x.shape, {"f": "", "i": "int32", "b": "bool"}[kind], exact=True, numpy=NO_MEANING)
    return Op(f"random {text}", write)


def _rounded_draw(text: str) -> Op:
    def write(w: Writer) -> bool:
        x = w.some()
        call = "jax.random." + text.format(w.key(), f"{x.shape}, '{w.dtype}'")
        return w.add(call if w.rng.random() < 0.5 else f"{x.name} + {call}", x.shape, numpy=NO_MEANING)
    return Op(f"random {text}", write)


def _permutation(w: Writer) -> bool:
    x = w.pick(ranks=range(1, 4), accept=lambda v: v.shape[0] <= 1025)
    return bool(x) and w.add(f"jax.random.permutation({w.key()}, {x.name})", x.shape, exact=x.exact, numpy=NO_MEANING)


ELEMENTWISE = (
    *map(_unary, _UNARY), *map(_binary, _BINARY), *(_binary(t, "f", "bool", exact=True) for t in _COMPARE),
    *(_binary(t, "i", "int32", exact=True) for t in _BITS), *(_binary(t, "b", "bool", exact=True) for t in _LOGICAL),
    *map(_round, _ROUND), *map(_integer, _INTEGER), Op("x[..., None] * y", _apart), Op("where", _where),
    Op("where ", _where), Op("to float", _to_float), Op("to integer", _to_integer), Op("through half", _through_half))
DRAWS = (*(_exact_draw(*row) for row in _EXACT_DRAWS), *map(_rounded_draw, _ROUNDED_DRAWS),
         Op("permutation", _permutation))
