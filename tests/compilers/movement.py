"""Rows for operations that move elements: transposes, reshapes, slices, joins, paddings, gathers, scatters."""

from __future__ import annotations

import math

from tests.compilers.program import Var
from tests.compilers.writer import Op, Writer, without


def _any(w: Writer, least: int = 1) -> Var:
    """A value of any kind with a rank of at least `least`."""
    return w.some(w.rng.choice("fffffib"), range(least, 9))


def _kind(x: Var) -> str:
    return {"int32": "i", "bool": "b"}.get(x.dtype, "f")


def _moved(w: Writer, x: Var, text: str, shape: tuple[int, ...], **more) -> bool:
    return w.fits(shape) and math.prod(shape) > 0 and w.add(text, shape, x.dtype, exact=x.exact, **more)


def _transpose(w: Writer) -> bool:
    x = _any(w, 2)
    perm = tuple(w.rng.sample(range(len(x.shape)), len(x.shape)))
    return _moved(w, x, f"jnp.transpose({x.name}, {perm})", tuple(x.shape[k] for k in perm))


def _reshape(w: Writer) -> bool:
    """Axes are merged, or one is split, or axes of size 1 are inserted or removed."""
    x = _any(w)
    dims = list(x.shape)
    for _ in range(w.rng.choice((1, 1, 2))):
        k = w.rng.randrange(len(dims))
        factors = [d for d in (2, 3, 4, 5, 8, 16, 32, 64, 128, 256) if dims[k] % d == 0]
        what = w.rng.choice(("merge", "split", "one", "flat"))
        if what == "merge" and k + 1 < len(dims):
            dims[k:k + 2] = [dims[k] * dims[k + 1]]
        elif what == "split" and factors and len(dims) < 8:
            d = w.rng.choice(factors)
            dims[k:k + 1] = w.rng.choice(([d, dims[k] // d], [dims[k] // d, d]))
        elif what == "one" and len(dims) < 8:
            dims.insert(k, 1)
        elif what == "flat":
            dims = [math.prod(dims)]
    return _moved(w, x, f"jnp.reshape({x.name}, {tuple(dims)})", tuple(dims))


def _slice(w: Writer) -> bool:
    x = _any(w)
    text, shape = [], []
    for n in x.shape:
        a, b, s = w.rng.choice(((0, n, 1), (0, n, 1), (1, n, 1), (0, n - 1, 1), (0, n, 2), (1, n, 3), (n // 2, n, 1)))
        if b <= a:
            a, b, s = 0, n, 1
        text.append(f"{a}:{b}:{s}")
        shape.append(len(range(a, b, s)))
    return _moved(w, x, f"{x.name}[{', '.join(text)}]", tuple(shape))


def _concatenate(w: Writer) -> bool:
    x = _any(w)
    k = w.axis(x)
    rest = without(x.shape, (k,), keepdims=True)
    y = w.pick(_kind(x), range(len(x.shape), len(x.shape) + 1),
               accept=lambda v: without(v.shape, (k,), keepdims=True) == rest) or x
    shape = (*x.shape[:k], x.shape[k] + y.shape[k], *x.shape[k + 1:])
    return w.fits(shape) and w.add(f"jnp.concatenate([{x.name}, {y.name}], axis={k})", shape, x.dtype,
                                   exact=x.exact and y.exact)


def _stack(w: Writer) -> bool:
    x = _any(w)
    y = w.like(x.shape, _kind(x))
    k = w.rng.randrange(len(x.shape) + 1)
    shape = (*x.shape[:k], 2, *x.shape[k:])
    return w.fits(shape) and w.add(f"jnp.stack([{x.name}, jnp.broadcast_to({y.name}, {x.shape})], axis={k})", shape,
                                   x.dtype, exact=x.exact and y.exact)


def _pad(w: Writer) -> bool:
    x = w.some(ranks=range(1, 9))
    widths = tuple(w.rng.choice(((0, 0), (1, 0), (0, 1), (2, 3))) for _ in x.shape)
    mode = w.rng.choice(("", "", ", mode='edge'", ", constant_values=0.5"))
    return _moved(w, x, f"jnp.pad({x.name}, {widths}{mode})",
                  tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)))


def _lax_pad(w: Writer) -> bool:
    """Padding between elements too, and negative widths, which remove elements."""
    x = w.some(ranks=range(1, 9))
    widths = tuple(w.rng.choice(((0, 0, 0), (1, 2, 0), (0, 1, 1), (-1, 0, 0), (0, 0, 2), (-1, 1, 1)))
                   if n > 3 else (0, 1, 0) for n in x.shape)
    shape = tuple(n + (n - 1) * c + a + b for n, (a, b, c) in zip(x.shape, widths, strict=True))
    return _moved(w, x, f"lax.pad({x.name}, jnp.array(0.5, {x.name}.dtype), {widths})", shape)


def _reverse(w: Writer) -> bool:
    x = _any(w)
    return _moved(w, x, f"jnp.flip({x.name}, {w.axes(x)})", x.shape)


def _roll(w: Writer) -> bool:
    x = _any(w)
    return _moved(w, x, f"jnp.roll({x.name}, {w.rng.choice((1, -1, 5))}, {w.axis(x)})", x.shape)


def _broadcast(w: Writer) -> bool:
    x = _any(w)
    shape = tuple(w.small() if n == 1 else n for n in x.shape)
    shape = (w.small(), *shape) if w.rng.random() < 0.5 else shape
    return _moved(w, x, f"jnp.broadcast_to({x.name}, {shape})", shape)


def _tile(w: Writer) -> bool:
    x = _any(w)
    reps = tuple(w.rng.choice((1, 1, 2, 3)) for _ in x.shape)
    return _moved(w, x, f"jnp.tile({x.name}, {reps})", tuple(n * r for n, r in zip(x.shape, reps, strict=True)))


def _repeat(w: Writer) -> bool:
    x = _any(w)
    k, n = w.axis(x), w.rng.choice((2, 3))
    shape = (*x.shape[:k], n * x.shape[k], *x.shape[k + 1:])
    return _moved(w, x, f"jnp.repeat({x.name}, {n}, axis={k})", shape)


def _squeeze(w: Writer) -> bool:
    x = _any(w)
    ones = tuple(k for k, n in enumerate(x.shape) if n == 1)
    if not ones or len(ones) == len(x.shape):
        return False
    return _moved(w, x, f"jnp.squeeze({x.name}, {ones})", tuple(n for n in x.shape if n != 1))


def _triangle(w: Writer) -> bool:
    x = w.some(ranks=range(2, 9))
    return _moved(w, x, f"jnp.{w.rng.choice(('tril', 'triu'))}({x.name}, {w.rng.choice((0, 1, -1))})", x.shape)


# -- gathers and scatters -----------------------------------------------------------------------------------------

def _index(w: Writer) -> bool:
    x = _any(w)
    i = w.index(w.rng.choice(((w.small(),), (w.dim(),), (2, w.small()))), x.shape[0])
    return _moved(w, x, f"{x.name}[{i.name}]", (*i.shape, *x.shape[1:]))


def _take(w: Writer) -> bool:
    x = _any(w)
    k = w.axis(x)
    i = w.index(w.rng.choice(((w.small(),), (w.dim(),))), x.shape[k])
    return _moved(w, x, f"jnp.take({x.name}, {i.name}, axis={k})", (*x.shape[:k], *i.shape, *x.shape[k + 1:]))


def _take_along(w: Writer) -> bool:
    x = _any(w)
    k = w.axis(x)
    i = w.index((*x.shape[:k], w.small(), *x.shape[k + 1:]), x.shape[k])
    return _moved(w, x, f"jnp.take_along_axis({x.name}, {i.name}, axis={k})", i.shape)


def _dynamic_slice(w: Writer) -> bool:
    x = w.some(ranks=range(1, 9))
    k = w.axis(x)
    n = max(1, x.shape[k] - w.rng.choice((0, 1, 3)))
    i = w.index((), x.shape[k] - n + 1)
    return _moved(w, x, f"lax.dynamic_slice_in_dim({x.name}, {i.name}, {n}, {k})",
                  (*x.shape[:k], n, *x.shape[k + 1:]))


def _dynamic_update(w: Writer) -> bool:
    x = w.some(ranks=range(1, 9))
    k = w.axis(x)
    n = max(1, x.shape[k] // 2)
    y, i = w.arg((*x.shape[:k], n, *x.shape[k + 1:])), w.index((), x.shape[k] - n + 1)
    return _moved(w, x, f"lax.dynamic_update_slice_in_dim({x.name}, {y.name}, {i.name}, {k})", x.shape)


def _scatter(w: Writer) -> bool:
    """x.at[i].op(y) with repeated indices, so only with operations that are independent of the order."""
    x = w.some(ranks=range(1, 6))
    i = w.index((w.rng.choice((w.small(), w.dim())),), x.shape[0])
    y = w.like((*i.shape, *x.shape[1:]))
    if not w.fits((*i.shape, *x.shape[1:])):
        return False
    op = w.rng.choice(("add", "add", "max", "min"))
    return w.add(f"{x.name}.at[{i.name}].{op}({y.name})", x.shape, terms=i.size,
                 numpy=f"scatter({x.name}, {i.name}, {y.name}, '{op}')")


def _segment_sum(w: Writer) -> bool:
    x = w.some(ranks=range(1, 5))
    n = w.rng.choice((1, 5, 16, 33))
    i = w.index(x.shape[:1], n)
    return w.fits((n, *x.shape[1:])) and w.add(
        f"jax.ops.segment_sum({x.name}, {i.name}, num_segments={n})", (n, *x.shape[1:]), terms=x.shape[0],
        numpy=f"scatter(jnp.zeros({(n, *x.shape[1:])}), {i.name}, {x.name}, 'add')")


MOVEMENT = tuple(Op(f.__name__[1:], f) for f in (
    _transpose, _transpose, _reshape, _reshape, _slice, _concatenate, _stack, _pad, _lax_pad, _reverse, _roll,
    _broadcast, _tile, _repeat, _squeeze, _triangle))
INDEXING = tuple(Op(f.__name__[1:], f) for f in (
    _index, _take, _take_along, _dynamic_slice, _dynamic_update, _scatter, _segment_sum))
