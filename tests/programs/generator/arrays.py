"""Operations that change shapes, reduce, contract, index or draw numbers, as rows like those of `elementwise`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from tests.programs.generator.elementwise import SMALL, Op
from tests.programs.generator.program import Leaf, Tree, promote
from tests.programs.generator.writer import Var, Writer

Written = tuple[str, Tree] | None


def _one(kinds: str, write: Callable[[Writer, Var], Written], min_rank: int = 0, filled: bool = False):
    """The `write` of a row with one operand, of at least this rank, without empty axes if `filled`."""
    def row(w):
        x = w.operand(kinds, lambda t: len(t.shape) >= min_rank and (t.size or not filled))
        return x and write(w, x)
    return row


def _axis(rng: random.Random, shape: tuple[int, ...]) -> int:
    """An axis, written from either end."""
    k = rng.randrange(len(shape))
    return k if rng.random() < 0.6 else k - len(shape)


# ---------------------------------------------------------------- reductions

def reduction(name: str, kinds: str = "fi", guard: str = "{}", dtype: Callable[[str], str] = lambda d: d,
              filled: bool = False, min_rank: int = 0, call: str = "jnp.{}") -> Op:
    """``name(x, axis=..., keepdims=...)`` over no, one, several or all axes."""
    def write(w, x):
        shape = x[1].shape
        axes = w.rng.choice((None, None, *range(-len(shape), len(shape))))
        if len(shape) > 1 and w.rng.random() < 0.2 and not name.startswith("arg"):
            axes = tuple(w.rng.sample(range(len(shape)), 2))
        gone = set(range(len(shape))) if axes is None else {a % len(shape) for a in (axes if isinstance(axes, tuple)
                                                                                     else (axes,))}
        keep = w.rng.random() < 0.3
        out = tuple(1 if i in gone else n for i, n in enumerate(shape) if keep or i not in gone)
        inner = x[0] if w.settings.wild else guard.format(x[0])
        text = f"{call.format(name)}({inner}, axis={axes}{', keepdims=True' if keep else ''})"
        return text, Leaf(dtype(x[1].dtype), out)
    return Op(call.format(name), _one(kinds, write, min_rank, filled))


def _widened(dtype: str) -> str:
    """dtype of a sum: bools and small integers are summed in int64."""
    return "int64" if dtype in ("bool", "int32") else dtype


def _position(dtype: str) -> str:
    return "int64"


def _floating(dtype: str) -> str:
    return "float64" if dtype in ("bool", "int32", "int64") else dtype


def along(name: str, kinds: str = "f", call: str = "jnp.{}", keyword: str = "axis", dtype: str | None = None,
          filled: bool = False, extra: tuple[str, ...] = ("",)) -> Op:
    """``name(x, axis=k)``, of the shape of x."""
    def write(w, x):
        text = f"{call.format(name)}({x[0]}, {keyword}={_axis(w.rng, x[1].shape)}{w.rng.choice(extra)})"
        return text, Leaf(dtype or x[1].dtype, x[1].shape)
    return Op(call.format(name), _one(kinds, write, 1, filled))


def lax_along(name: str, guard: str = "{}") -> Op:
    """``lax.name(x, axis, reverse)``: axes from the front only."""
    def write(w, x):
        return (f"lax.{name}({guard.format(x[0])}, axis={w.rng.randrange(len(x[1].shape))}, "
                f"reverse={w.rng.random() < 0.5})", x[1])
    return Op(f"lax.{name}", _one("f", write, 1))


def _top_k(w: Writer, x: Var) -> Written:
    *head, n = x[1].shape
    k = w.rng.randint(1, n) if n else 0
    return f"lax.top_k({x[0]}, {k})", [Leaf(x[1].dtype, (*head, k)), Leaf("int32", (*head, k))]


# ---------------------------------------------------------------- shapes

def _reshape(w: Writer, x: Var) -> Written:
    size, shape = x[1].size, []
    rest = size
    for _ in range(w.rng.randint(0, 2)):
        divisors = [d for d in range(1, 5) if rest % d == 0]
        shape.append(w.rng.choice(divisors))
        rest //= shape[-1]
    shape.insert(w.rng.randint(0, len(shape)), rest)
    if rest == 1 and w.rng.random() < 0.5:
        shape.remove(1)
    written = [-1 if n == rest and rest > 1 and shape.count(n) == 1 else n for n in shape]
    return f"jnp.reshape({x[0]}, {tuple(written)})", Leaf(x[1].dtype, tuple(shape))


def _transpose(w: Writer, x: Var) -> Written:
    order = w.rng.sample(range(len(x[1].shape)), len(x[1].shape))
    return f"jnp.transpose({x[0]}, {tuple(order)})", Leaf(x[1].dtype, tuple(x[1].shape[i] for i in order))


def _moveaxis(w: Writer, x: Var) -> Written:
    a, b = (_axis(w.rng, x[1].shape) for _ in range(2))
    shape = list(x[1].shape)
    n = shape.pop(a)
    shape.insert(b % len(x[1].shape), n)
    return f"jnp.moveaxis({x[0]}, {a}, {b})", Leaf(x[1].dtype, tuple(shape))


def _expand_dims(w: Writer, x: Var) -> Written:
    k = w.rng.randint(0, len(x[1].shape))
    return f"jnp.expand_dims({x[0]}, {k})", Leaf(x[1].dtype, (*x[1].shape[:k], 1, *x[1].shape[k:]))


def _squeeze(w: Writer) -> Written:
    x = w.operand("fi", lambda t: 1 in t.shape)
    if x is None:
        x, t = w.operand("fi")
        return f"jnp.squeeze({x}[..., None], -1)", t
    k = w.rng.choice([i for i, n in enumerate(x[1].shape) if n == 1])
    return f"jnp.squeeze({x[0]}, {k})", Leaf(x[1].dtype, (*x[1].shape[:k], *x[1].shape[k + 1:]))


def _broadcast(w: Writer, x: Var) -> Written:
    shape = (w.rng.randint(1, 3), *(n if n != 1 else w.rng.randint(1, 3) for n in x[1].shape))
    return f"jnp.broadcast_to({x[0]}, {shape})", Leaf(x[1].dtype, shape)


def _roll(w: Writer, x: Var) -> Written:
    return f"jnp.roll({x[0]}, {w.rng.randint(-2, 3)}, axis={w.rng.choice((None, _axis(w.rng, x[1].shape)))})", x[1]


def _tile(w: Writer, x: Var) -> Written:
    *head, n = x[1].shape
    return f"jnp.tile({x[0]}, 2)", Leaf(x[1].dtype, (*head, 2 * n))


def _repeat(w: Writer, x: Var) -> Written:
    k = w.rng.randrange(len(x[1].shape))
    shape = tuple(2 * n if i == k else n for i, n in enumerate(x[1].shape))
    return f"jnp.repeat({x[0]}, 2, axis={k})", Leaf(x[1].dtype, shape)


def _join(stack: bool):
    def write(w, x):
        y = w.pick(lambda t: t.shape == x[1].shape and t.dtype != "bool")
        y = y if y and w.rng.random() < 0.8 else (f"jnp.ones_like({x[0]})", x[1])
        shape = list(x[1].shape)
        k = w.rng.randint(0, len(shape)) if stack else w.rng.randrange(len(shape))
        if stack:
            shape.insert(k, 2)
        else:
            shape[k] *= 2
        out = Leaf(promote(x[1].dtype, y[1].dtype), tuple(shape))
        return f"jnp.{'stack' if stack else 'concatenate'}([{x[0]}, {y[0]}], axis={k})", out
    return write


def _pad(w: Writer, x: Var) -> Written:
    widths = [(w.rng.randint(0, 2), w.rng.randint(0, 1)) for _ in x[1].shape]
    shape = tuple(n + a + b for n, (a, b) in zip(x[1].shape, widths, strict=True))
    mode = w.rng.choice(("constant", "constant", "edge", "wrap", "symmetric"))
    if mode != "constant" and 0 in x[1].shape:
        return None
    value = ", constant_values=0.5" if mode == "constant" and x[1].dtype != "int32" else ""
    return f"jnp.pad({x[0]}, {tuple(widths)}, mode='{mode}'{value})", Leaf(x[1].dtype, shape)


def _lax_pad(w: Writer, x: Var) -> Written:
    config, shape = [], []
    for n in x[1].shape:
        low, high, inner = w.rng.randint(-1, 2), w.rng.randint(-1, 2), w.rng.randint(0, 1)
        size = low + high + n + max(n - 1, 0) * inner
        if size < 0:
            low, high, inner, size = 0, 0, 0, n
        config.append((low, high, inner))
        shape.append(size)
    fill = f"jnp.asarray(0.25, {x[0]}.dtype)"
    return f"lax.pad({x[0]}, {fill}, {tuple(config)})", Leaf(x[1].dtype, tuple(shape))


def _triangle(w: Writer, x: Var) -> Written:
    return f"jnp.{w.rng.choice(('tril', 'triu'))}({x[0]}, {w.rng.randint(-1, 1)})", x[1]


def _diagonal(w: Writer, x: Var) -> Written:
    a, b, *rest = x[1].shape
    return f"jnp.diagonal({x[0]})", Leaf(x[1].dtype, (*rest, min(a, b)))


def _split(w: Writer, x: Var) -> Written:
    k = w.rng.randrange(len(x[1].shape))
    n = x[1].shape[k]
    cut = w.rng.randint(0, n)
    made = [Leaf(x[1].dtype, (*x[1].shape[:k], m, *x[1].shape[k + 1:])) for m in (cut, n - cut)]
    return f"jnp.split({x[0]}, [{cut}], axis={k})", made


# ---------------------------------------------------------------- contractions

def _ones(shape: tuple[int, ...]) -> Var:
    """A constant matrix, for a contraction without a second operand in scope."""
    return f"np.linspace(0.3, 0.9, {math.prod(shape)}).reshape({shape})", Leaf("float64", shape)


def _partner(w: Writer, accept: Callable[[Leaf], bool], otherwise: tuple[int, ...]) -> Var:
    variable = w.pick(lambda t: t.dtype in ("float32", "float64", "complex128", "int32") and accept(t))
    return variable if variable is not None and w.rng.random() < 0.8 else _ones(otherwise)


def _matmul(spell: str):
    def write(w, x):
        n = x[1].shape[-1]
        y = _partner(w, lambda t: len(t.shape) == 2 and t.shape[0] == n, (n, w.rng.randint(1, 3)))
        if w.rng.random() < 0.3:
            y = _partner(w, lambda t: t.shape == (n,), (n,))
        shape = x[1].shape[:-1] + y[1].shape[1:]
        return spell.format(x[0], y[0]), Leaf(promote(x[1].dtype, y[1].dtype), shape)
    return write


def _batched_matmul(w: Writer, x: Var) -> Written:
    n = x[1].shape[-1]
    y = _partner(w, lambda t: len(t.shape) == 2 and t.shape[0] == n, (n, 2))
    made = Leaf(promote(x[1].dtype, y[1].dtype), (2, *x[1].shape[:-1], y[1].shape[-1]))
    if len(x[1].shape) == 2 and w.rng.random() < 0.5:
        return f"jnp.matmul(jnp.stack([{x[0]}, 2 * {x[0]}]), jnp.broadcast_to({y[0]}, {(2, n, y[1].shape[-1])}))", made
    return f"jnp.matmul(jnp.stack([{x[0]}, 2 * {x[0]}]), {y[0]})", made


def _einsum(w: Writer, x: Var) -> Written:
    a, b = x[1].shape
    y = _partner(w, lambda t: len(t.shape) == 2 and t.shape[1] == b, (2, b))
    c = y[1].shape[0]
    spec, shape = w.rng.choice((
        ("ij,kj->ik", (a, c)), ("ij,kj->ki", (c, a)), ("ij,kj->j", (b,)), ("ij,kj->ikj", (a, c, b)), ("ij,kj", (a, c)),
        ("ij,kj->", ()), ("...j,kj->...", (a,))))
    return f"jnp.einsum('{spec}', {x[0]}, {y[0]})", Leaf(promote(x[1].dtype, y[1].dtype), shape)


def _dot_general(w: Writer, x: Var) -> Written:
    a, b = x[1].shape
    text = f"lax.dot_general({x[0]}, jnp.cos({x[0]}), {{}})"
    return w.rng.choice((
        (text.format("(((1,), (1,)), ((), ()))"), Leaf(x[1].dtype, (a, a))),
        (text.format("(((0,), (0,)), ((), ()))"), Leaf(x[1].dtype, (b, b))),
        (text.format("(((1,), (1,)), ((0,), (0,)))"), Leaf(x[1].dtype, (a,))),
        (text.format("(((), ()), ((0, 1), (0, 1)))"), x[1])))


def _outer(w: Writer, x: Var) -> Written:
    n = x[1].shape[0]
    return f"jnp.outer({x[0]}, jnp.sin({x[0]}))", Leaf(x[1].dtype, (n, n))


def _tensordot(w: Writer, x: Var) -> Written:
    return f"jnp.tensordot({x[0]}, {x[0]}, {len(x[1].shape)})", Leaf(x[1].dtype, ())


# ---------------------------------------------------------------- indexing

def _static_index(w: Writer, x: Var) -> Written:
    parts, shape = [], []
    for n in x[1].shape:
        kind = w.rng.choice(("int", "slice", "step", "all", "none"))
        if kind == "int" and n:
            parts.append(str(w.rng.randint(-n, n - 1)))
            continue
        if kind == "none":
            parts.append("None")
            shape.append(1)
        a, b, step = w.rng.randint(0, 1), w.rng.randint(1, 4), w.rng.choice((1, 2, -1))
        text = {"slice": f"{a}:{b}", "step": f"::{step}"}.get(kind, ":")
        parts.append(text)
        picked = {"slice": slice(a, b), "step": slice(None, None, step)}.get(kind, slice(None))
        shape.append(len(range(n)[picked]))
    if w.rng.random() < 0.2:
        parts.append("...")
    return f"{x[0]}[{', '.join(parts)}]", Leaf(x[1].dtype, tuple(shape))


def _where_to(w: Writer, n: int) -> Var:
    """An integer array that indexes an axis of size n; sometimes out of range."""
    variable = w.pick(lambda t: t.dtype in ("int32", "int64") and len(t.shape) <= 1)
    if variable is not None and w.rng.random() < 0.8:
        return (variable[0] if w.rng.random() < 0.3 else f"({variable[0]} % {n})"), variable[1]
    picks = [w.rng.randint(-n, n - 1) for _ in range(w.rng.randint(1, 3))]
    return f"np.array({picks})", Leaf("int64", (len(picks),))


def _array_index(w: Writer, x: Var) -> Written:
    k = w.rng.randrange(len(x[1].shape))
    i, i_type = _where_to(w, x[1].shape[k])
    out = Leaf(x[1].dtype, (*x[1].shape[:k], *i_type.shape, *x[1].shape[k + 1:]))
    return f"{x[0]}[{':, ' * k}{i}]", out


def _two_arrays_index(w: Writer, x: Var) -> Written:
    (a, b), rest = x[1].shape[:2], x[1].shape[2:]
    i = [w.rng.randrange(a) for _ in range(2)]
    j = [w.rng.randrange(b) for _ in range(2)]
    return f"{x[0]}[jnp.array({i}), jnp.array({j})]", Leaf(x[1].dtype, (2, *rest))


def _take(w: Writer, x: Var) -> Written:
    k = w.rng.randrange(len(x[1].shape))
    i, i_type = _where_to(w, x[1].shape[k])
    mode = w.rng.choice(("", ", mode='clip'", ", mode='wrap'", ", mode='fill'"))
    out = Leaf(x[1].dtype, (*x[1].shape[:k], *i_type.shape, *x[1].shape[k + 1:]))
    return f"jnp.take({x[0]}, {i}, axis={k}{mode})", out


def _take_along(w: Writer, x: Var) -> Written:
    k = _axis(w.rng, x[1].shape)
    return f"jnp.take_along_axis({x[0]}, jnp.argsort({x[0]}, axis={k}), axis={k})", x[1]


def _at(w: Writer, x: Var) -> Written:
    method = w.rng.choice(("set", "add", "add", "multiply", "max", "min", "apply"))
    n = x[1].shape[0]
    i, i_type = _where_to(w, n) if w.rng.random() < 0.6 else (str(w.rng.randint(-n, n - 1)), Leaf("int64", ()))
    if method == "set" and i_type.shape:        # which of two writes to one element wins is undefined
        i, i_type = f"jnp.array({w.rng.sample(range(n), min(n, 2))})", Leaf("int64", (min(n, 2),))
    piece = i_type.shape + x[1].shape[1:]
    y = w.pick(lambda t: t.dtype == x[1].dtype and t.shape in ((), piece))
    value = "jnp.sin" if method == "apply" else y[0] if y is not None else "2"
    if method == "apply" and x[1].dtype not in ("float32", "float64"):
        return None
    mode = w.rng.choice(("", "", ", mode='drop'")) if method != "apply" else ""
    return f"{x[0]}.at[{i}].{method}({value}{mode})", x[1]


def _window(w: Writer, leaf: Leaf) -> tuple[tuple[int, ...], str]:
    """Sizes and text of the starts; all are int32, because with x64 JAX refuses a Python number next to an int32."""
    sizes = tuple(w.rng.randint(1, n) if n else 0 for n in leaf.shape)
    i = w.pick(lambda t: t.dtype == "int32" and t.shape == ())
    return sizes, ", ".join(i[0] if i and w.rng.random() < 0.6 else f"np.int32({w.rng.randint(0, n)})" for n in sizes)


def _dynamic_slice(w: Writer, x: Var) -> Written:
    sizes, starts = _window(w, x[1])
    return f"lax.dynamic_slice({x[0]}, ({starts},), {sizes})", Leaf(x[1].dtype, sizes)


def _dynamic_update(w: Writer, x: Var) -> Written:
    sizes, starts = _window(w, x[1])
    part = w.pick(lambda t: t == Leaf(x[1].dtype, sizes))
    part = part[0] if part else f"jnp.full({sizes}, 0.75, {x[0]}.dtype)"
    return f"lax.dynamic_update_slice({x[0]}, {part}, ({starts},))", x[1]


def _dynamic_index(w: Writer, x: Var) -> Written:
    i = w.pick(lambda t: t.dtype in ("int32", "int64") and t.shape == ())
    k = w.rng.randrange(len(x[1].shape))
    shape = (*x[1].shape[:k], *x[1].shape[k + 1:])
    return (f"lax.dynamic_index_in_dim({x[0]}, {i[0] if i else 1}, axis={k}, keepdims=False)", Leaf(x[1].dtype, shape))


def _searchsorted(w: Writer, x: Var) -> Written:
    return f"jnp.searchsorted(np.array([-1.0, 0.2, 0.8]), {x[0]})", Leaf("int32", x[1].shape)


def _one_hot(w: Writer, x: Var) -> Written:
    return f"nn.one_hot({x[0]}, 3)", Leaf("float64", (*x[1].shape, 3))


# ---------------------------------------------------------------- random numbers

def draw(name: str, dtype: str = "float64", arguments: str = "") -> Op:
    """Random numbers from a fixed key, from a folded key, or from a key for each row under vmap."""
    def write(w):
        shape = tuple(w.rng.randint(1, 3) for _ in range(w.rng.randint(0, 2)))
        i = w.pick(lambda t: t.dtype == "int32" and t.shape == ())
        seed = w.rng.randrange(100)
        form = w.rng.random()
        if form < 0.3 and i is not None:
            key = f"jax.random.fold_in(jax.random.key({seed}), {i[0]})"
        elif form < 0.5:
            keys = f"jax.random.split(jax.random.key({seed}), 2)"
            call = f"jax.vmap(lambda k: jax.random.{name}(k, {arguments}shape={shape}))({keys})"
            return call, Leaf(dtype, (2, *shape))
        else:
            key = f"jax.random.{w.rng.choice(('key', 'PRNGKey'))}({seed})"
        return f"jax.random.{name}({key}, {arguments}shape={shape})", Leaf(dtype, shape)
    return Op(f"random.{name}", write)


def _permutation(w: Writer, x: Var) -> Written:
    return f"jax.random.permutation(jax.random.key(5), {x[0]})", x[1]


# ---------------------------------------------------------------- collectives

def collective(name: str, text: str, type_of: Callable[[Leaf, int], Leaf]) -> Op:
    """An operation over the mapped axis of the program, if it has one."""
    def write(w):
        x = w.operand("f") if w.settings.axis else None
        if x is None:
            return None
        axis, size = w.settings.axis
        shift = [(i, (i + 1) % size) for i in range(size)]
        return text.format(x=x[0], axis=axis, shift=shift), type_of(x[1], size)
    return Op(f"lax.{name}", write)


def _same(leaf: Leaf, size: int) -> Leaf:
    return leaf


COLLECTIVES = [
    *(collective(name, f"lax.{name}({{x}}, '{{axis}}')", _same) for name in ("psum", "pmean")),
    collective("ppermute", "lax.ppermute({x}, '{axis}', {shift})", _same),
    collective("all_gather", "lax.all_gather({x}, '{axis}')", lambda t, n: Leaf(t.dtype, (n, *t.shape))),
    collective("axis_index", "lax.axis_index('{axis}') * {x}", _same),
]

ARRAYS = [
    reduction("sum", "fic", dtype=_widened), reduction("sum", "b", dtype=_widened), reduction("prod", dtype=_widened),
    reduction("mean", "fic", dtype=_floating), reduction("max", filled=True), reduction("min", filled=True),
    reduction("var", "f"), reduction("std", "f", SMALL), reduction("any", "b"), reduction("all", "b"),
    reduction("argmax", filled=True, dtype=_position), reduction("argmin", filled=True, dtype=_position),
    reduction("count_nonzero", "fib", dtype=_position), reduction("ptp", "f", filled=True),
    # median with keepdims of a 0-d array: JAX's result has one axis; NumPy's and xjax's has none.
    reduction("nansum", "f"), reduction("median", "f", filled=True, min_rank=1),
    reduction("logsumexp", "f", call="nn.{}"),
    along("cumsum"), along("cumprod"), along("sort"), along("argsort", dtype="int64"), along("flip", "fibc"),
    along("softmax", call="nn.{}", filled=True), along("log_softmax", call="nn.{}", filled=True),
    along("standardize", call="nn.{}", filled=True), lax_along("cummax"), lax_along("cummin"),
    lax_along("cumlogsumexp"), lax_along("cumsum"), lax_along("cumprod"),
    Op("lax.top_k", _one("f", _top_k, 1)),
    Op("jnp.reshape", _one("fibc", _reshape)), Op("jnp.transpose", _one("fibc", _transpose)),
    Op("jnp.moveaxis", _one("fic", _moveaxis, 1)), Op("jnp.expand_dims", _one("fib", _expand_dims)),
    Op("jnp.squeeze", _squeeze), Op("jnp.broadcast_to", _one("fibc", _broadcast)),
    Op("jnp.roll", _one("fi", _roll, 1)), Op("jnp.tile", _one("f", _tile, 1)), Op("jnp.repeat", _one("f", _repeat, 1)),
    Op("jnp.concatenate", _one("fic", _join(False), 1)), Op("jnp.stack", _one("fic", _join(True))),
    Op("jnp.pad", _one("fi", _pad, 1)), Op("lax.pad", _one("fc", _lax_pad, 1)), Op("jnp.tril", _one("f", _triangle, 2)),
    Op("jnp.diagonal", _one("f", _diagonal, 2)), Op("jnp.split", _one("fi", _split, 1)),
    Op("operator @", _one("fc", _matmul("{} @ {}"), 1)), Op("jnp.dot", _one("fi", _matmul("jnp.dot({}, {})"), 1)),
    Op("jnp.matmul", _one("f", _batched_matmul, 2)), Op("jnp.tensordot", _one("f", _tensordot)),
    Op("jnp.outer", _one("f", _outer, 1)),
    Op("index static", _one("fibc", _static_index, 1)), Op("index array", _one("fic", _array_index, 1, True)),
    Op("index arrays", _one("f", _two_arrays_index, 2, True)), Op("jnp.take", _one("fi", _take, 1, True)),
    Op("jnp.take_along_axis", _one("f", _take_along, 1)), Op(".at", _one("fi", _at, 1, True)),
    Op("lax.dynamic_slice", _one("fi", _dynamic_slice, 1)),
    Op("lax.dynamic_update_slice", _one("f", _dynamic_update, 1)),
    Op("lax.dynamic_index_in_dim", _one("fi", _dynamic_index, 1, True)),
    Op("jnp.searchsorted", _one("f", _searchsorted)), Op("nn.one_hot", _one("i", _one_hot)),
    draw("normal"), draw("uniform"), draw("bernoulli", "bool", "0.4, "), draw("gumbel"),
    Op("random.permutation", _one("f", _permutation, 1)),
]


def _rank_two(write: Callable[[Writer, Var], Written]):
    def row(w):
        x = w.operand("f", lambda t: len(t.shape) == 2)
        return x and write(w, x)
    return row


ARRAYS += [Op("jnp.einsum", _rank_two(_einsum)), Op("lax.dot_general", _rank_two(_dot_general))]
