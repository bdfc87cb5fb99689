"""Makes programs of the kind "draws" from seeds: only random numbers, joined in many ways; compiled but not run.

The rounds of the generator of random bits are long chains of cheap operations, which a compiler may follow along every
path. So keys come from splits of splits, draws are joined, and all of it is put under vmap, scan and grad.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from tests.compilers.program import Source

# {k} a key, {s} a shape.
DRAWS = (
    "normal({k}, {s})", "normal({k}, {s})", "uniform({k}, {s})", "uniform({k}, {s}, minval=-1.0, maxval=2.0)",
    "bernoulli({k}, 0.4, {s}).astype('float32')", "randint({k}, {s}, 0, 10).astype('float32')",
    "truncated_normal({k}, -2.0, 2.0, {s})", "gumbel({k}, {s})", "exponential({k}, {s})", "laplace({k}, {s})",
    "categorical({k}, jnp.zeros((4,)), shape={s}).astype('float32')", "permutation({k}, 8).astype('float32')",
)
INITIALIZERS = (
    "glorot_normal()", "glorot_uniform()", "lecun_normal()", "lecun_uniform()", "he_normal()", "he_uniform()",
    "orthogonal()", "normal(0.02)", "uniform(0.1)", "truncated_normal(0.02)",
    "variance_scaling(2.0, 'fan_avg', 'truncated_normal')", "variance_scaling(1.0, 'fan_out', 'uniform')",
)
_DROPOUT = "jnp.where(jax.random.bernoulli({k}, 0.9, {v}.shape), {v} / 0.9, 0.0)"
_SIZES = ((4,), (16,), (3, 4), (8, 8), (5, 16), (33,), (64, 32), (2, 3, 4), (1000,), (128, 128))
_AROUND = (("body", 50), ("vmap", 15), ("scan", 15), ("grad", 15), ("old", 10))
_ARGUMENT = "jax.random.key(0)"


def program(seed: int, small: bool = False) -> Source:
    """The program of this seed; small: with one group of draws."""
    rng = random.Random(f"draws {seed}")
    around = rng.choices(*zip(*_AROUND, strict=True))[0]
    lines, groups, names = [], [], count()
    for _ in range(1 if small else rng.randint(1, 3)):
        groups.append(_group(rng, lines, names, 2 if small else 4))
    lines.append(f"return {_result(rng, groups, scalar=around in ('grad', 'scan'))}")
    body = "def body(key, w=1.0):\n" + "\n".join(f"    {line}" for line in lines)
    return Source(f"draws, seed {seed}", f"# draws, seed {seed}\n{body}\n{_transformed(rng, around)}\n")


def _group(rng: random.Random, lines: list[str], names: Iterator[int], most: int) -> list[str]:
    """Write lines with one to `most` draws; returns the names of their values, or of one value joined from them."""
    n = rng.randint(1, most)
    keys = _keys(rng, lines, names, n)
    shape = rng.choice(_SIZES)
    flat, drawn = rng.random() < 0.5, []
    for key in keys:
        v = f"v{next(names)}"
        if rng.random() < 0.3 and len(shape) == 2:
            lines.append(f"{v} = nn.initializers.{rng.choice(INITIALIZERS)}({key}, {shape}, 'float32')")
        else:
            lines.append(f"{v} = jax.random.{rng.choice(DRAWS).format(k=key, s=shape)}")
        drawn.append(v)
        if not flat:
            shape = rng.choice(_SIZES)
    return [_join(rng, lines, names, drawn)] if rng.random() < 0.7 else drawn


def _keys(rng: random.Random, lines: list[str], names: Iterator[int], n: int) -> list[str]:
    """Write lines that derive n keys from `key`, by splits and folds up to three levels deep; returns their names."""
    key = "key"
    for _ in range(rng.randint(0, 2)):
        text = rng.choice((f"jax.random.fold_in({key}, {rng.randrange(9)})", f"jax.random.split({key})[1]",
                           f"jax.random.split({key}, 5)[{rng.randrange(5)}]"))
        key = f"k{next(names)}"
        lines.append(f"{key} = {text}")
    method = rng.choice(("split", "split", "fold", "chain"))
    if method == "fold":
        return [f"jax.random.fold_in({key}, {k})" for k in range(n)]
    keys = [f"k{next(names)}" for _ in range(n)]
    if method == "split":
        lines.append(f"{', '.join(keys)}, = jax.random.split({key}, {n})")
        return keys
    for k in keys:                                       # a split for each draw, as in training loops
        rest = f"k{next(names)}"
        lines.append(f"{rest}, {k} = jax.random.split({key})")
        key = rest
    return keys


def _join(rng: random.Random, lines: list[str], names: Iterator[int], drawn: list[str]) -> str:
    """Write a line that makes one value of several draws; returns its name."""
    ravelled = [f"{v}.ravel()" for v in drawn]
    text = rng.choice((f"jnp.concatenate([{', '.join(ravelled)}])", " + ".join(f"jnp.sum({v})" for v in drawn),
                       f"jnp.stack([{', '.join(f'{v}[:4]' for v in ravelled)}])",
                       " * ".join(f"jnp.tanh({v}[:4])" for v in ravelled)))
    out = f"v{next(names)}"
    lines.append(f"{out} = {text}")
    if rng.random() < 0.3:
        dropped = f"v{next(names)}"
        lines.append(f"{dropped} = {_DROPOUT.format(k=f'jax.random.fold_in(key, {rng.randrange(9)})', v=out)}")
        return dropped
    return out


def _result(rng: random.Random, groups: list[list[str]], scalar: bool) -> str:
    values = [v for group in groups for v in group]
    if scalar:
        return " + ".join(f"jnp.sum(jnp.sin(w * {v}))" for v in values)
    form = rng.choice(("tuple", "tuple", "concatenate", "sum", "dict"))
    if form == "concatenate":
        return f"jnp.concatenate([{', '.join(f'jnp.ravel({v})' for v in values)}])"
    if form == "sum":
        return " + ".join(f"jnp.sum({v})" for v in values)
    if form == "dict":
        return "{" + ", ".join(f"'{v}': {v} * 0.1" for v in values) + "}"
    return f"({', '.join(values)},)"


def _transformed(rng: random.Random, around: str) -> str:
    """The lines that define `program` and `arguments`."""
    n = rng.choice((2, 5, 16))
    keys = f"jax.random.split({_ARGUMENT}, {n})"
    if around == "vmap":
        return f"program, arguments = jax.vmap(body), ({keys},)"
    if around == "scan":
        step = rng.choice(("lambda c, k: (c + body(k), c)",
                           "lambda c, k: (c + body(jax.random.fold_in(k, 1)), body(k))"))
        return (f"program = lambda key: lax.scan({step}, 0.0, jax.random.split(key, {n}))\n"
                f"arguments = ({_ARGUMENT},)")
    if around == "grad":
        return f"program, arguments = jax.grad(body, argnums=1), ({_ARGUMENT}, 0.5)"
    return f"program, arguments = body, ({'jax.random.PRNGKey(0)' if around == 'old' else _ARGUMENT},)"
