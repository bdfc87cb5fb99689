"""Makes programs of the kind "numbers" from seeds: arithmetic, reductions, dots, gathers, loops, at sizes near 2**k."""

from __future__ import annotations

import math
import random
import re

from tests.compilers.control import CONTROL
from tests.compilers.elementwise import DRAWS, ELEMENTWISE
from tests.compilers.movement import INDEXING, MOVEMENT
from tests.compilers.program import FLOATS, Program, Var
from tests.compilers.sums import DOTS, ORDERS, REDUCTIONS, WINDOWS
from tests.compilers.writer import Writer

# The tables of operations and their weights.
TABLES = ((ELEMENTWISE, 10), (REDUCTIONS, 8), (DOTS, 5), (MOVEMENT, 6), (INDEXING, 2), (ORDERS, 2), (WINDOWS, 1.5),
          (CONTROL, 2.5), (DRAWS, 0.7))
_DTYPES = ("float32",) * 8 + ("float64", "float64", "bfloat16", "float16")
_LIMITS = (10, 14, 16, 17, 18, 19, 20, 21)
_SMALL_LIMITS = (8, 10, 12, 16)
_AROUND = (("body", 65), ("grad", 20), ("vmap", 15))


def program(seed: int, small: bool = False) -> Program:
    """The program of this seed; small: with fewer lines and smaller arrays."""
    rng = random.Random(f"numbers {seed}")
    around = rng.choices(*zip(*_AROUND, strict=True))[0]
    batch = rng.choice((1, 2, 3, 8)) if around == "vmap" else 1
    w = Writer(rng, rng.choice(_DTYPES), 2**rng.choice(_SMALL_LIMITS if small else _LIMITS) // batch)
    w.arg(w.shape())
    count = rng.choice((1, 2, 2)) if small else rng.randint(2, 9)
    while len(w.lines) < count:
        _line(w, reverse=around == "grad")
    if around == "grad":
        return _gradient(seed, w)
    read = {word for line in w.lines for word in re.findall(r"\w+", line.text)}
    results = [v for v in w.vars if v.name.startswith("v") and v.name not in read][:4]
    args = tuple(a for a in w.args if a.name in read)           # a row may make an argument and then write no line
    p = Program(seed, args, tuple(w.lines), tuple(v.name for v in results), around,
                tuple(v.exact for v in results), w.rounding, w.terms)
    return _mapped(rng, p, batch) if around == "vmap" else p


def _line(w: Writer, reverse: bool) -> None:
    """Write one line of a random row, if operands for it exist. reverse: the line will be differentiated."""
    table = w.rng.choices(*zip(*TABLES, strict=True))[0]
    row = w.rng.choice(table)
    if row.name == "while_loop" and reverse:
        return
    w.op = row.name
    row.write(w)


def _gradient(seed: int, w: Writer) -> Program:
    """The value of a scalar function of all float results, and its gradient by one or two arguments."""
    read = {word for line in w.lines for word in re.findall(r"\w+", line.text)}
    ends = [v for v in w.vars if v.name not in read and v.dtype in FLOATS] or [_last_float(w)]
    w.op = "cost"
    text = " + ".join(f"jnp.mean(jnp.square({v.name}))" if k % 2 else f"jnp.mean(jnp.sin({v.name}))"
                      for k, v in enumerate(ends))
    w.add(text, (), terms=max(v.size for v in ends))
    floats = [k for k, a in enumerate(w.args) if a.dtype in FLOATS]
    numbers = tuple(floats[:1] if w.rng.random() < 0.5 else floats[:2])
    return Program(seed, tuple(w.args), tuple(w.lines), (w.lines[-1].var.name,), f"jax.value_and_grad(body, {numbers})",
                   (False,) * (1 + len(numbers)), w.rounding, w.terms)


def _last_float(w: Writer) -> Var:
    return [v for v in w.vars if v.dtype in FLOATS][-1]


def _mapped(rng: random.Random, p: Program, batch: int) -> Program:
    """The body mapped over a new first axis of some arguments."""
    axes = tuple(None if a.values == "key" or (k and rng.random() < 0.4) or batch * math.prod(a.shape) > 2**21 else 0
                 for k, a in enumerate(p.args))
    if not any(axis == 0 for axis in axes):
        return p._replace(around="body")
    args = tuple(a if axis is None else a._replace(shape=(batch, *a.shape))
                 for a, axis in zip(p.args, axes, strict=True))
    return p._replace(args=args, around=f"jax.vmap(body, in_axes={axes})")
