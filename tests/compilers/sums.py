"""Rows for operations that combine many elements: reductions, scans along an axis, sorts, dots, windows."""

from __future__ import annotations

import math

from tests.compilers.writer import Op, Writer, without

# {x} operand; {r} arguments axis and keepdims; {n} number of terms.
_REDUCTIONS = (
    ("jnp.sum({x}, {r})", "f"), ("jnp.sum({x}, {r})", "f"), ("jnp.mean({x}, {r})", "f"), ("jnp.max({x}, {r})", "f"),
    ("jnp.min({x}, {r})", "f"), ("jnp.prod(1 + jnp.tanh({x}) / {n}, {r})", "f"), ("jnp.var({x}, {r})", "f"),
    ("jnp.std({x}, {r})", "f"), ("nn.logsumexp({x}, {r})", "f"), ("jnp.sum(jnp.square({x}), {r})", "f"),
    ("jnp.any({x}, {r})", "b"), ("jnp.all({x}, {r})", "b"), ("jnp.sum({x}, {r}, dtype='int32')", "b"),
    ("jnp.sum({x}, {r}, dtype='int32')", "i"), ("jnp.max({x}, {r})", "i"), ("jnp.min({x}, {r})", "i"),
    ("jnp.sqrt(jnp.sum({x} * {x}, {r}))", "f"),
)


def _reduction(text: str, kind: str) -> Op:
    def write(w: Writer) -> bool:
        x = w.some(kind)
        axes, keep = w.axes(x), w.rng.random() < 0.4
        n = math.prod(x.shape[k] for k in axes)
        all_axes = len(axes) == len(x.shape) and not keep
        axis = f"axis={None if all_axes else axes[0] if len(axes) == 1 else axes}"
        dtype = "int32" if "int32" in text or kind == "i" else "bool" if kind == "b" else ""
        exact = kind != "f" or (x.exact and text.startswith(("jnp.max", "jnp.min")))
        return w.add(text.format(x=x.name, r=axis + ", keepdims=True" * keep, n=n), without(x.shape, axes, keep), dtype,
                     exact=exact, terms=n * (4 if "prod" in text else 1))
    return Op(f"{text} of {kind}", write)


def _sum_of_products(w: Writer) -> bool:
    """A reduction of a product of two arrays, one of which is sometimes broadcast."""
    x = w.some()
    y, axes = w.arg(x.shape) if w.rng.random() < 0.5 else w.like(x.shape), w.axes(x)
    name = w.rng.choice(("sum", "sum", "max"))
    w.add(f"{x.name} * {y.name}", x.shape)
    axis = axes[0] if len(axes) == 1 else axes
    return w.add(f"jnp.{name}({w.vars[-1].name}, axis={axis})", without(x.shape, axes, False),
                 terms=math.prod(x.shape[k] for k in axes))


def _normalise(w: Writer) -> bool:
    """A reduction that is broadcast against its own operand."""
    x = w.some(ranks=range(1, 9))
    k = w.axis(x)
    text = w.rng.choice(("({0} - jnp.mean({0}, {1})) / (jnp.std({0}, {1}) + 0.1)", "nn.softmax({0}, axis={2})",
                         "nn.log_softmax({0}, axis={2})", "{0} / (1 + jnp.sum(jnp.abs({0}), {1}))"))
    return w.add(text.format(x.name, f"axis={k}, keepdims=True", k), x.shape, terms=x.shape[k])


def _cumulative(w: Writer) -> bool:
    x = w.some(ranks=range(1, 9))
    if w.dtype in ("bfloat16", "float16"):
        return False                                     # cumulative sums accumulate in the precision of the array
    k = w.axis(x)
    text = w.rng.choice(("jnp.cumsum({0}, axis={1})", "jnp.cumsum({0}, axis={1}) / {2}",
                         "jnp.cumprod(1 + jnp.tanh({0}) / {2}, axis={1})", "lax.cummax({0}, {1})"))
    # Each factor is rounded four times before the product: by tanh, the quotient, the sum and the product.
    return w.add(text.format(x.name, k, x.shape[k]), x.shape, terms=x.shape[k] * (4 if "cumprod" in text else 1))


def _sort(w: Writer) -> bool:
    x = w.some(w.rng.choice("ffi"), range(1, 9))
    return w.add(f"jnp.sort({x.name}, axis={w.axis(x)})", x.shape, x.dtype, exact=x.exact)


def _argsort(w: Writer) -> bool:
    x = w.some(exact=True, ranks=range(1, 9))
    k = w.axis(x)
    return w.add(f"jnp.argsort({x.name}, axis={k}, stable=True).astype('int32')", x.shape, "int32", exact=True)


def _argmax(w: Writer) -> bool:
    """The index of a maximum of exact values; otherwise its value, since rounding may decide between close values."""
    x = w.some(ranks=range(1, 9))
    k, name = w.axis(x), w.rng.choice(("argmax", "argmin"))
    if x.exact:
        return w.add(f"jnp.{name}({x.name}, axis={k}).astype('int32')", without(x.shape, (k,), False), "int32",
                     exact=True)
    return w.add(f"jnp.take_along_axis({x.name}, jnp.{name}({x.name}, axis={k}, keepdims=True), axis={k})",
                 without(x.shape, (k,), True))


def _top_k(w: Writer) -> bool:
    x = w.some(ranks=range(1, 9))
    n = min(x.shape[-1], w.rng.choice((1, 2, 5)))
    return w.add(f"lax.top_k({x.name}, {n})[0]", (*x.shape[:-1], n), exact=x.exact)


# -- dots ---------------------------------------------------------------------------------------------------------

def _dot(w: Writer, text: str, shape: tuple[int, ...], k: int, numpy: str = "") -> bool:
    """A line with a product over k terms, usually divided by its size for random numbers."""
    if not w.fits(shape, math.prod(shape) * k):
        return False
    scale = f" / {round(k**0.5, 2)}" if w.rng.random() < 0.8 else ""
    return w.add(text + scale, shape, terms=k, numpy=(numpy or text) + scale)


def _columns(w: Writer) -> int:
    return w.rng.choice((1, 2, 3, 4, 5, 8, 16, 17, 31, 64, 65))


def _matmul(w: Writer) -> bool:
    x = w.some(ranks=range(1, 7))
    k, n = x.shape[-1], _columns(w)
    if not w.fits((k, n)):
        return False
    y = w.pick(ranks=range(1, 3), accept=lambda v: v.shape[0] == k) or w.arg((k, n) if w.rng.random() < 0.8 else (k,))
    return _dot(w, f"jnp.matmul({x.name}, {y.name})", (*x.shape[:-1], *y.shape[1:]), k)


def _matmul_left(w: Writer) -> bool:
    """A small matrix times the columns of an array."""
    x = w.some(ranks=range(2, 7))
    k, n = x.shape[-2], _columns(w)
    return w.fits((n, k)) and _dot(w, f"jnp.matmul({w.arg((n, k)).name}, {x.name})", (*x.shape[:-2], n, x.shape[-1]), k)


def _matmul_batched(w: Writer) -> bool:
    x = w.some(ranks=range(3, 7))
    shape = (*x.shape[:-2], x.shape[-1], _columns(w))
    return w.fits(shape) and _dot(w, f"jnp.matmul({x.name}, {w.arg(shape).name})", (*x.shape[:-1], shape[-1]),
                                  x.shape[-1])


def _gram(w: Writer) -> bool:
    x = w.some(ranks=range(2, 3))
    m, n = x.shape
    if w.rng.random() < 0.5:
        return _dot(w, f"{x.name} @ {x.name}.T", (m, m), n)
    return _dot(w, f"{x.name}.T @ {x.name}", (n, n), m)


def _einsum(w: Writer) -> bool:
    """Each axis of x is contracted, kept as a batch axis, or free; y has some of these axes and one more."""
    x = w.some(ranks=range(1, 6))
    letters = "abcde"[:len(x.shape)]
    size = dict(zip(letters, x.shape, strict=True), z=_columns(w))
    shared = w.rng.sample(letters, w.rng.randint(1, len(letters)))
    second = [*shared, "z"] if w.rng.random() < 0.7 else shared
    w.rng.shuffle(second)
    contracted = w.rng.sample(shared, w.rng.randint(1, len(shared)))
    out = [c for c in {*letters, *second} if c not in contracted]
    out.sort()
    w.rng.shuffle(out)
    shape_y = tuple(size[c] for c in second)
    if not w.fits(shape_y):
        return False
    y = w.pick(accept=lambda v: v.shape == shape_y) or w.arg(shape_y)
    return _dot(w, f"jnp.einsum('{letters},{''.join(second)}->{''.join(out)}', {x.name}, {y.name})",
                tuple(size[c] for c in out), math.prod(size[c] for c in contracted))


def _tensordot(w: Writer) -> bool:
    x = w.some(ranks=range(1, 6))
    n = w.rng.randint(1, min(2, len(x.shape)))
    shape = (*x.shape[-n:], _columns(w))
    return w.fits(shape) and _dot(w, f"jnp.tensordot({x.name}, {w.arg(shape).name}, {n})", (*x.shape[:-n], shape[-1]),
                                  math.prod(x.shape[-n:]))


def _inner(w: Writer) -> bool:
    x = w.some(ranks=range(1, 2))
    return _dot(w, f"jnp.dot({x.name}, {w.like(x.shape).name} * jnp.ones({x.shape}, '{w.dtype}'))", (), x.size)


def _matvec_mapped(w: Writer) -> bool:
    """vmap of a matrix times a vector."""
    x = w.some(ranks=range(2, 3))
    b, k = x.shape
    n = _columns(w)
    if not w.fits((b, n, k)):
        return False
    m = w.arg((b, n, k))
    return _dot(w, f"jax.vmap(lambda m, v: m @ v)({m.name}, {x.name})", (b, n), k,
                f"jnp.einsum('bnk,bk->bn', {m.name}, {x.name})")


def _dot_reduced(w: Writer) -> bool:
    """A dot, of all rows at once or row by row, then an activation, then a reduction."""
    left = w.rng.random() < 0.5                          # whether the small matrix is on the left
    rows, columns = 2**w.rng.choice((13, 14, 15, 15, 16)) + w.rng.choice((-1, 0, 1)), w.rng.choice((1, 2, 3, 8))
    x = w.some(ranks=range(2, 5))
    if w.rng.random() < 0.5 and w.fits((rows, columns)):
        x = w.arg((columns, rows) if left else (rows, columns))
    k, n = x.shape[-2 if left else -1], w.rng.choice((2, 3, 4, 8, 16))
    shape = (*x.shape[:-2], n, x.shape[-1]) if left else (*x.shape[:-1], n)
    if not w.fits(shape, x.size * n):
        return False
    y, activation = w.arg((n, k) if left else (k, n)), w.rng.choice(("jnp.tanh({})", "({}) ** 2", "nn.relu({})"))
    numpy = activation.format(f"{y.name} @ {x.name}" if left else f"{x.name} @ {y.name}")
    mapped = f"jax.vmap(lambda v: v @ {y.name})({x.name})"
    text = activation.format(mapped) if len(shape) == 2 and not left and w.rng.random() < 0.5 else numpy
    w.add(text, shape, terms=k, numpy=numpy)
    axis = w.rng.choice((-2 if left else -1,) * 3 + (-1, -2, None))
    out = () if axis is None else without(shape, (len(shape) + axis,), False)
    return w.add(f"jnp.{w.rng.choice(('sum', 'sum', 'max', 'mean'))}({w.vars[-1].name}, axis={axis})", out,
                 terms=math.prod(shape) if axis is None else shape[axis])


# -- windows ------------------------------------------------------------------------------------------------------

def _reduce_window(w: Writer) -> bool:
    x = w.some(ranks=range(1, 5))
    window = tuple(min(n, w.rng.choice((1, 2, 3))) for n in x.shape)
    strides = tuple(w.rng.choice((1, 1, 2)) for _ in x.shape)
    pads = tuple(w.rng.choice(((0, 0), (1, 0), (1, 1))) for _ in x.shape)
    base = tuple(w.rng.choice((1, 1, 1, 2)) for _ in x.shape)
    dilation = tuple(w.rng.choice((1, 1, 1, 2)) for _ in x.shape)
    shape = _windows(x.shape, window, strides, pads, base, dilation)
    init, op = w.rng.choice((("0.0", "lax.add"), ("0.0", "lax.add"), ("-jnp.inf", "lax.max"), ("jnp.inf", "lax.min")))
    if op != "lax.add":                                 # windows that contain only padding are infinite
        base, dilation, pads = (1,) * len(base), (1,) * len(base), ((0, 0),) * len(base)
        shape = _windows(x.shape, window, strides, pads, base, dilation)
    if min(shape) < 1 or not w.fits(shape):
        return False
    init = init if w.rng.random() < 0.5 else f"jnp.array({init}, '{w.dtype}')"
    return w.add(f"lax.reduce_window({x.name}, {init}, {op}, {window}, {strides}, {pads}, {base}, {dilation})", shape,
                 terms=math.prod(window))


def _convolution(w: Writer) -> bool:
    """A convolution over one or two spatial axes, with strides, paddings, both dilations and groups."""
    d = w.rng.choice((1, 1, 2))
    groups = w.rng.choice((1, 1, 2))
    c, o = groups * w.rng.choice((1, 2, 3)), groups * w.rng.choice((1, 2, 4))
    operand = w.pick(ranks=range(d + 2, d + 3), accept=lambda v: v.shape[1] % groups == 0 and v.shape[1] <= 16)
    size = [w.dim()] + [w.small()] * (d - 1)
    w.rng.shuffle(size)
    shape = (w.rng.choice((1, 2, 5)), c, *size)
    if not operand and not w.fits(shape):
        return False
    x = operand or w.arg(shape)
    kernel = tuple(w.rng.choice((1, 2, 3)) for _ in range(d))
    strides = tuple(w.rng.choice((1, 1, 2)) for _ in range(d))
    pads = tuple(w.rng.choice(((0, 0), (1, 1), (2, 1))) for _ in range(d))
    base = tuple(w.rng.choice((1, 1, 1, 2)) for _ in range(d))
    dilation = tuple(w.rng.choice((1, 1, 1, 2)) for _ in range(d))
    out = (x.shape[0], o, *_windows(x.shape[2:], kernel, strides, pads, base, dilation))
    terms = x.shape[1] // groups * math.prod(kernel)
    if min(out) < 1 or not w.fits(out, math.prod(out) * terms):
        return False
    k = w.arg((o, x.shape[1] // groups, *kernel))
    return w.add(f"lax.conv_general_dilated({x.name}, {k.name}, {strides}, {pads}, {base}, {dilation}, "
                 f"feature_group_count={groups})", out, terms=terms)


def _windows(shape, window, strides, pads, base, dilation) -> tuple[int, ...]:
    """Numbers of windows along each axis."""
    return tuple(((n - 1) * b + 1 + sum(p) - ((k - 1) * d + 1)) // s + 1 for n, k, s, p, b, d in zip(
        shape, window, strides, pads, base, dilation, strict=True))


def _named(*functions) -> tuple[Op, ...]:
    return tuple(Op(f.__name__[1:], f) for f in functions)


REDUCTIONS = (*(_reduction(*row) for row in _REDUCTIONS),
              *_named(_normalise, _normalise, _sum_of_products, _sum_of_products))
ORDERS = _named(_cumulative, _cumulative, _sort, _argsort, _argmax, _argmax, _top_k)
DOTS = _named(_matmul, _matmul_left, _matmul_batched, _gram, _einsum, _tensordot, _inner, _matvec_mapped,
              _dot_reduced, _dot_reduced)
WINDOWS = _named(_reduce_window, _convolution)
