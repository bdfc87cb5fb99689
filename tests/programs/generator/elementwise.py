"""Element-wise operations as rows: name, text, kinds of operands, and a guard that keeps an operand in the domain.

A guard wraps the first operand of a unary operation and the second of a binary one. Wild programs leave it out: then
NaN, infinities and branch points appear, and are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.programs.generator.program import Leaf, Tree, promote
from tests.programs.generator.writer import KINDS, Writer, result

ANY = "{}"
POSITIVE = "(jnp.abs({}) + 0.5)"
INSIDE = "(0.9 * jnp.tanh({}))"         # between -1 and 1
ABOVE = "(jnp.abs({}) + 1.3)"           # above 1
SMALL = "(2.0 * jnp.tanh({}))"          # for functions that grow fast
COUNT = "(jnp.abs({}) % 3 + 1)"         # integers 1..3


@dataclass(frozen=True)
class Op:
    """One row. `write` gives (text, type) of a call on operands from the writer's scope, None if there are none."""

    name: str
    write: Callable[[Writer], tuple[str, Tree] | None]


def unary(name: str, kinds: str = "f", guard: str = ANY, dtype: str | None = None, call: str = "jnp.{}",
          always_guarded: bool = False) -> Op:
    """``jnp.name(x)``; `call` gives another module; `dtype` fixes that of the result.

    always_guarded: also in wild programs, for a function that deliberately differs from JAX at its edges.
    """
    def write(w):
        x = w.operand(kinds)
        if x is None:
            return None
        inner = x[0] if w.settings.wild and not always_guarded else guard.format(x[0])
        return f"{call.format(name)}({inner})", result(x[1], dtype=dtype)
    return Op(call.format(name), write)


def binary(name: str, kinds: str = "f", guard: str = ANY, dtype: str | None = None, call: str = "jnp.{}") -> Op:
    """``jnp.name(x, y)`` with y broadcast to x; the operands may be exchanged if there is no guard."""
    def write(w):
        x = w.operand(kinds)
        if x is None:
            return None
        kind = KINDS[x[1].dtype]
        y, y_type = w.like(x, {"f": "fi", "i": "i", "b": "b", "c": "fc"}[kind])
        if kind == "b" and y in ("2", "3"):
            y = "True"
        y = y if w.settings.wild else guard.format(y)
        a, b = (y, x[0]) if guard == ANY and w.rng.random() < 0.3 else (x[0], y)
        return f"{call.format(name)}({a}, {b})", result(x[1], y_type, dtype=dtype)
    return Op(call.format(name), write)


def operator(name: str, symbol: str, kinds: str = "fic", guard: str = ANY, dtype: str | None = None) -> Op:
    """``x symbol y``."""
    row = binary(name, kinds, guard, dtype)

    def write(w):
        written = row.write(w)
        if written is None:
            return None
        call, leaf = written
        a, b = _arguments(call)
        return f"{a} {symbol} {b}", leaf
    return Op(f"operator {symbol}", write)


def _arguments(call: str) -> tuple[str, str]:
    """The two arguments in ``name(a, b)``; commas inside brackets do not split."""
    inner, depth = call[call.index("(") + 1:-1], 0
    for k, c in enumerate(inner):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            return inner[:k], inner[k + 2:]
    raise AssertionError(call)


def _power(w: Writer) -> tuple[str, Tree] | None:
    x = w.operand("f")
    if x is None:
        return None
    y, y_type = w.like(x, "f")
    base = x[0] if w.settings.wild else POSITIVE.format(x[0])
    return f"jnp.power({base}, {SMALL.format(y)})", result(x[1], y_type)


def _int_power(w: Writer) -> tuple[str, Tree] | None:
    x = w.operand("fic")
    if x is None:
        return None
    n = w.rng.choice((0, 1, 2, 3)) if w.settings.wild or KINDS[x[1].dtype] == "i" else w.rng.choice((2, 3))
    return f"{x[0]} ** {n}", x[1]


def _where(w: Writer) -> tuple[str, Tree] | None:
    x = w.operand("fic")
    if x is None:
        return None
    y, y_type = w.like(x, {"f": "fi", "i": "i", "c": "fc"}[KINDS[x[1].dtype]])
    mask, _ = w.like(x, "b")
    if mask in ("2", "3"):
        mask = f"(jnp.real({x[0]}) > 0.3)"
    a, b = (x[0], y) if w.rng.random() < 0.5 else (y, x[0])
    return f"jnp.where({mask}, {a}, {b})", result(x[1], y_type)


def _select(w: Writer) -> tuple[str, Tree] | None:
    x = w.operand("fic")
    return x and (f"lax.select(jnp.real({x[0]}) < 0.6, {x[0]}, jnp.zeros_like({x[0]}))", x[1])


def _select_n(w: Writer) -> tuple[str, Tree] | None:
    x = w.operand("f")
    if x is None:
        return None
    which = f"jnp.clip(jnp.floor(jnp.abs({x[0]}) * 2), 0, 2).astype('int32')"
    return f"lax.select_n({which}, {x[0]}, jnp.cos({x[0]}), 2 * {x[0]})", x[1]


def _clip(w: Writer) -> tuple[str, Tree] | None:
    x = w.operand("f")
    return x and (f"jnp.clip({x[0]}, -0.6, {w.rng.choice(('0.9', 'None', 'jnp.abs(' + x[0] + ')'))})", x[1])


def _clamp(w: Writer) -> tuple[str, Tree] | None:
    x = w.operand("f")
    return x and (f"lax.clamp(jnp.zeros((), {x[0]}.dtype), {x[0]}, jnp.ones((), {x[0]}.dtype))", x[1])


def _astype(dtype: str) -> Op:
    def write(w):
        x = w.operand("f" if dtype.startswith("int") else "fib")
        if x is None:
            return None
        inner = f"(2.4 * jnp.tanh({x[0]}))" if dtype.startswith("int") else x[0]
        return f"{inner}.astype('{dtype}')", Leaf(dtype, x[1].shape)
    return Op(f"astype {dtype}", write)


def _complex(w: Writer) -> tuple[str, Tree] | None:
    x = w.pick(lambda leaf: leaf.dtype == "float64")
    return x and (f"lax.complex({x[0]}, jnp.sin({x[0]}))", Leaf("complex128", x[1].shape))


def _real_part(name: str) -> Op:
    def write(w):
        x = w.operand("c")
        inner = x and (f"({x[0]} + 0.3)" if name == "abs" else x[0])
        return x and (f"jnp.{name}({inner})", Leaf("float64", x[1].shape))
    return Op(f"jnp.{name} of complex", write)


def _integer_pow(w: Writer) -> tuple[str, Tree] | None:
    x = w.operand("f")
    if x is None:
        return None
    n = w.rng.choice((-2, -1, 2, 3, 5))
    return f"lax.integer_pow({(POSITIVE if n < 0 and not w.settings.wild else SMALL).format(x[0])}, {n})", x[1]


def _scalar_mix(w: Writer) -> tuple[str, Tree] | None:
    """Python numbers and NumPy scalars: weak and strong types."""
    x = w.operand("fi")
    if x is None:
        return None
    number, dtype = w.rng.choice((("2", "bool"), ("np.float32(1.5)", "float32"), ("np.int32(3)", "int32"),
                                  ("np.array(0.5)", "float64"), ("jnp.asarray(2)", "bool")))
    return f"{x[0]} * {number}", Leaf(promote(x[1].dtype, dtype), x[1].shape)


_FLOAT_UNARY = [
    *((name, ANY) for name in ("sin", "cos", "tanh", "arctan", "arcsinh", "square", "negative", "abs", "floor", "ceil",
                               "trunc", "rint", "sign", "positive", "cbrt", "sinc", "deg2rad", "nan_to_num")),
    *((name, SMALL) for name in ("sinh", "cosh", "exp", "exp2", "expm1")),
    *((name, INSIDE) for name in ("tan", "arcsin", "arccos", "arctanh")),
    *((name, POSITIVE) for name in ("log", "log2", "log10", "log1p", "sqrt", "reciprocal")),
    ("arccosh", ABOVE)]

_NN = ("relu", "relu6", "sigmoid", "softplus", "silu", "gelu", "elu", "selu", "celu", "leaky_relu", "log_sigmoid",
       "hard_tanh", "hard_sigmoid", "soft_sign", "mish", "squareplus")

ELEMENTWISE = [
    *(unary(name, guard=guard) for name, guard in _FLOAT_UNARY),
    *(unary(name, guard=guard, call="lax.{}") for name, guard in (
        ("rsqrt", POSITIVE), ("logistic", ANY), ("erf", ANY), ("erfc", ANY), ("erf_inv", INSIDE), ("lgamma", POSITIVE),
        ("digamma", POSITIVE), ("stop_gradient", ANY), ("square", ANY))),
    *(unary(name, call="nn.{}") for name in _NN),
    *(unary(name, "c", guard) for name, guard in (("conj", ANY), ("square", ANY), ("exp", SMALL), ("sin", SMALL))),
    *(unary(name, "fi", dtype="bool") for name in ("isnan", "isfinite", "signbit")),
    unary("logical_not", "b"), unary("bitwise_not", "i"),
    *map(_real_part, ("real", "imag", "abs")),
    operator("add", "+"), operator("subtract", "-"), operator("multiply", "*"), operator("divide", "/", "fc", POSITIVE),
    operator("floor_divide", "//", "i", COUNT), operator("remainder", "%", "f", POSITIVE),
    operator("remainder", "%", "i", COUNT),
    *(operator("compare", symbol, "fi", dtype="bool") for symbol in ("<", "<=", ">", ">=", "==", "!=")),
    *(operator("bits", symbol, "ib") for symbol in ("&", "|", "^")),
    *(binary(name) for name in ("add", "multiply", "maximum", "minimum", "fmax", "fmin", "logaddexp", "copysign",
                                "logaddexp2")),
    *(binary(name, guard=POSITIVE) for name in ("divide", "arctan2", "hypot", "mod", "fmod")),
    binary("heaviside", guard=ANY),
    *(binary(name, "b") for name in ("logical_and", "logical_or", "logical_xor")),
    *(binary(name, "i", COUNT) for name in ("left_shift", "right_shift")),
    Op("jnp.power", _power), Op("operator **", _int_power), Op("jnp.where", _where), Op("lax.select", _select),
    Op("lax.select_n", _select_n), Op("jnp.clip", _clip), Op("lax.clamp", _clamp), Op("lax.complex", _complex),
    Op("lax.integer_pow", _integer_pow), Op("scalars", _scalar_mix),
    *map(_astype, ("float32", "float64", "int32", "bool", "complex128")),
]
