"""Rows with inner functions: loops, scans, branches, and transforms of a small function."""

from __future__ import annotations

from tests.compilers.program import NO_MEANING
from tests.compilers.writer import Op, Writer

# One step of a loop: carry {c}, and another value {b} that broadcasts into it. All steps keep the carry bounded.
_STEPS = ("jnp.tanh({c} + {b})", "0.9 * {c} + jnp.sin({b})", "jnp.cos({c}) * {b} / (1 + jnp.abs({b}))",
          "{c} - 0.1 * jnp.square(jnp.tanh({c})) * jnp.tanh({b})", "jnp.maximum(0.5 * {c}, jnp.tanh({b}))",
          "{c} / (1 + jnp.mean(jnp.abs({c}))) + 0.1 * {b}", "jnp.roll({c}, 1, 0) * 0.5 + jnp.tanh({b})")
# Scalar functions of an array {t} and another array {y}, for derivatives. No derivative may be 0 in exact arithmetic,
# because the computed one would be rounding errors alone. So softmax is squared: its plain sum is constant if {y} is
# constant along the axis.
_COSTS = ("jnp.sum(jnp.sin({t}) * {y})", "jnp.sum(nn.softplus({t} + {y}))", "jnp.mean(jnp.square({t} - {y}))",
          "nn.logsumexp({t} * jnp.tanh({y}))", "jnp.sum(jnp.max({t} * jnp.cos({y}), axis=-1))",
          "jnp.sum(jnp.tanh(jnp.cumsum({t}, axis=0) / {n}) * {y})", "jnp.var({t} * {y})",
          "jnp.sum(jnp.square(nn.softmax({t}, axis=-1)) * {y})", "jnp.sum(jnp.sort({t}, axis=-1) * {y})")


def _step(w: Writer, b: str, c: str = "c") -> str:
    return w.rng.choice(_STEPS).format(c=c, b=b)


def _fori_loop(w: Writer) -> bool:
    x = w.some(ranks=range(1, 9))
    b, n = w.like(x.shape), w.rng.choice((1, 2, 5, 17))
    return w.add(f"lax.fori_loop(0, {n}, lambda i, c: {_step(w, b.name)}, {x.name})", x.shape)


def _fori_update(w: Writer) -> bool:
    """A loop that updates one row in each step."""
    x = w.some(ranks=range(1, 5))
    n = min(x.shape[0], 33)
    y = w.like(x.shape[1:] or (1,))
    y = f"jnp.sum({y.name})" if len(x.shape) == 1 else y.name
    return w.add(f"lax.fori_loop(0, {n}, lambda i, c: c.at[i].set(jnp.sin(c[i - 1]) + 0.1 * {y}), {x.name})", x.shape,
                 numpy=f"lax.fori_loop(0, {n}, lambda i, c: put(c, i, jnp.sin(c[i - 1]) + 0.1 * {y}), {x.name})")


def _while_loop(w: Writer) -> bool:
    x = w.some(ranks=range(1, 9))
    b, n = w.like(x.shape), w.rng.choice((1, 3, 9))
    step = w.rng.choice(_STEPS)
    state, carry = step.format(c="s[1]", b=b.name), step.format(c="c", b=b.name)
    return w.add(f"lax.while_loop(lambda s: s[0] < {n}, lambda s: (s[0] + 1, {state}), (0, {x.name}))[1]", x.shape,
                 numpy=f"lax.fori_loop(0, {n}, lambda i, c: {carry}, {x.name})")


def _scan(w: Writer) -> bool:
    """A scan over the first axis; the carry has the shape of a row, or is a scalar."""
    x = w.some(ranks=range(1, 7))
    if x.shape[0] > 600:
        return False
    row = x.shape[1:]
    init = w.pick(accept=lambda v: v.shape == row) or w.arg(row)
    out, shape = w.rng.choice((("c", x.shape), ("jnp.sin(c) * x", x.shape), ("jnp.sum(jnp.abs(c * x))", x.shape[:1])))
    which = w.rng.choice((0, 1, 1))
    step = _step(w, "x") if row else "jnp.tanh(c + x)"
    reverse = w.rng.choice(("", ", reverse=True"))
    return w.add(f"lax.scan(lambda c, x: ({step}, {out}), {init.name}, {x.name}{reverse})[{which}]",
                 shape if which else row, terms=max(1, x.shape[0]))


def _scan_dot(w: Writer) -> bool:
    """A recurrent network: the carry is multiplied by a matrix."""
    x = w.some(ranks=range(2, 3))
    n = x.shape[-1]
    if x.shape[0] > 300 or n > 128:
        return False
    m, init = w.arg((n, n)), w.arg((n,))
    return w.add(f"lax.scan(lambda c, x: (jnp.tanh(c @ {m.name} / {n} + x),) * 2, {init.name}, {x.name})[1]", x.shape,
                 terms=n)


def _cond(w: Writer) -> bool:
    x = w.some(ranks=range(1, 9))
    b, p = w.like(x.shape), w.pick("b", range(1)) or w.arg((), "bool")
    return w.add(f"lax.cond({p.name}, lambda c: {_step(w, b.name)}, lambda c: {_step(w, b.name)}, {x.name})", x.shape)


def _map(w: Writer) -> bool:
    x = w.some(ranks=range(1, 5))
    return x.shape[0] <= 600 and w.add(f"lax.map(lambda r: jnp.mean(jnp.square(r)) + r, {x.name})", x.shape,
                                       terms=x.size // x.shape[0])


def _vmap(w: Writer) -> bool:
    """vmap, over a short axis, of a function with a reduction."""
    x = w.some(ranks=range(2, 5))
    k = min(range(len(x.shape)), key=lambda k: x.shape[k])
    if x.shape[k] > 64:
        return False
    row = x.shape[:k] + x.shape[k + 1:]
    text = w.rng.choice(("jnp.cumsum(r, axis=0) / {n}", "nn.softmax(r, axis=-1)", "r - jnp.max(r)",
                         "jnp.sort(r, axis=0)", "jnp.sin(r) * jnp.mean(r, axis=0)")).format(n=row[0])
    return w.add(f"jax.vmap(lambda r: {text}, in_axes={k})({x.name})", (x.shape[k], *row), terms=x.size)


def _grad(w: Writer) -> bool:
    x = w.some(ranks=range(1, 7))
    y = w.like(x.shape)
    cost = w.rng.choice(_COSTS).format(t="t", y=y.name, n=x.shape[0])
    return w.add(f"jax.grad(lambda t: {cost})({x.name})", x.shape, terms=x.size, numpy=NO_MEANING)


def _checkpoint(w: Writer) -> bool:
    x = w.some(ranks=range(1, 9))
    b = w.like(x.shape)
    return w.add(f"jax.checkpoint(lambda c: {_step(w, b.name)})({x.name})", x.shape)


CONTROL = tuple(Op(f.__name__[1:], f) for f in (
    _fori_loop, _fori_update, _while_loop, _scan, _scan_dot, _cond, _map, _vmap, _grad, _checkpoint))
