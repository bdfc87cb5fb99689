"""Functions of `xjax.lax` that call functions: control flow, solvers, collectives over a mapped axis."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from tests.values.row import library_of, rows


def lax(name, call, *signatures, oracle=None, **options):
    """The one row of a function, with its equivalent in Python."""
    return rows("lax", name, *signatures, call=call, oracle=oracle, **options)


def _while(cond, body, state):
    while cond(state):
        state = body(state)
    return state


def _scan(f, init, xs=None, length=None, reverse=False, unroll=1):
    """A Python loop over rows of the arrays in xs: an array or a tuple of arrays."""
    tree = isinstance(xs, tuple)
    steps = [None] * length if xs is None else list(zip(*xs, strict=True)) if tree else list(xs)
    carry, ys = init, []
    for x in reversed(steps) if reverse else steps:
        carry, y = f(carry, x)
        ys.append(y)
    return carry, np.stack(ys[::-1] if reverse else ys)


def _accumulate(g, x, reverse=False, axis=0):
    steps = list(np.moveaxis(x, axis, 0))
    result = list(itertools.accumulate(reversed(steps) if reverse else steps, g))
    return np.stack(result[::-1] if reverse else result, axis)


BRANCHES = (lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - 3 * y)

BRANCHING = [
    *lax("cond", lambda f, p, x, y: (f(p, *BRANCHES[:2], x, y), f(p > 0, lambda: x, lambda: y),
                                     f(False, *BRANCHES[:2], x, y), f(p, lambda xy: xy[0], lambda xy: xy[1], (x, y))),
         "b1[] f4[2,3] f4[2,3]", "b1[] i4[3]:wide i4[3]:wide", "b1[] c8[2] c8[2]", grad=("b1[] f8[2,3] f8[2,3]",),
         oracle=lambda p, true, false, *args: true(*args) if p else false(*args)),
    # An index out of range selects the nearest branch.
    *lax("switch", lambda f, i, x, y: (f(i, BRANCHES, x, y), f(i, BRANCHES[:1], x, y), f(1, BRANCHES, x, y)),
         "i4[]:wide f4[2,3] f4[2,3]", "u1[]:0..2 i4[3]:wide i4[3]:wide", "i8[]:-1..3 c8[2] c8[2]",
         grad=("i4[]:0..2 f8[2,3] f8[2,3]",),
         oracle=lambda i, branches, *args: branches[np.clip(int(i), 0, len(branches) - 1)](*args)),
    *lax("platform_dependent", lambda f, x: (f(x, cpu=lambda y: y + 1, default=lambda y: y * 2),
                                             f(x, tpu=lambda y: y + 1, default=lambda y: y * 2)),
         "f4[2,3]", "i4[3]", grad=("f8[3]",)),
    *lax("composite", lambda f, x, y: f(lambda a, b, *, scale: a * b + scale, "my.op")(x, y, scale=2),
         "f4[2,3] f4[2,3]", "i4[3] i4[3]"),
]

LOOPS = [
    *lax("while_loop", lambda f, x, n: (
        f(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2 - 1), (0, x)),
        f(lambda s: (s > -100).all() & (s < 100).all(), lambda s: s * 2 + 1, x)),
         "f4[3]:positive i4[]:0..5", "i4[3]:0..9 i8[]:0..5", oracle=_while),
    *lax("fori_loop", lambda f, x, n: (f(0, 4, lambda i, s: s * 2 + i, x), f(-1, n, lambda i, s: s - i * s / 4, x),
                                       f(3, 1, lambda i, s: s + 1, x)),
         "f4[3] i4[]:-4..5", "c8[3] i8[]:0..5", "f8[2] i2[]:0..3",
         oracle=lambda low, high, body, x: functools.reduce(lambda s, i: body(i, s), range(low, int(high)), x)),
    *lax("fori_loop", lambda f, x: f(0, 4, lambda i, s: s * s / 4 + i, x), "f4[3]:small", grad=("f8[3]:small",),
         oracle=lambda low, high, body, x: functools.reduce(lambda s, i: body(i, s), range(low, high), x), id="static"),
    *lax("scan", lambda f, xs, x: (
        f(lambda c, y: (c * y - 1, c + y), x, xs), f(lambda c, y: (c * y / 2, c), x, xs, reverse=True),
        f(lambda c, y: (c * y[0] + y[1], c * c), x, (xs, xs), unroll=2), f(lambda c, _: (c - 1, c), x, None, length=3)),
         "f4[5,2]:small f4[2]:small", "c8[4,2]:small c8[2]:small", "f8[1] f8[]",
         oracle=_scan, grad=("f8[5,2]:small f8[2]:small",)),
    *lax("scan", lambda f, xs, x: (f(lambda c, y: (c * y - 1, c + y), x, xs), f(lambda c, y: (c ^ y, c | y), x, xs)),
         "i4[5,2]:wide i4[2]:wide", "u1[5,2]:wide u1[2]:wide", "i4[0,2] i4[2]", id="integers"),
    *lax("map", lambda f, x: (f(lambda y: y * y + y.sum(), x), f(lambda y: (y[0] * 2, y[1:]), x),
                              f(lambda y: y - y[0], x, batch_size=2)), "f4[5,2]", "i4[4,3]", "c8[2,2]",
         grad=("f8[5,2]",)),
    *lax("map", lambda f, x: f(lambda y: y * 2 - y[0], x), "f8[5,2]", "i4[1,3]:small", id="loop",
         oracle=lambda g, x: np.stack([g(y) for y in x])),
    *lax("associative_scan", lambda f, x: (f(lambda a, b: a * b, x), f(lambda a, b: a + b, x, axis=-1),
                                           f(lambda a, b: a + b, x, reverse=True)),
         "f4[5,2]:small", "i4[1,4]:wide", "bf[6,2]:small", "c8[7,2]:small", grad=("f8[5,2]:small",),
         oracle=_accumulate),
    *lax("associative_scan", lambda f, x, y: f(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, y)),
         "f4[6,2]:small f4[6,2]", grad=("f8[6,2]:small f8[6,2]",), id="linear"),
]


def _newton(g, x):
    """Ten steps towards the root of a growing, convex g."""
    for _ in range(10):
        x = x - g(x) / (1 + 3 * x * x)
    return x


def _divided(g, y):
    """The z with g(z) = y, for a g that multiplies each number by its own factor."""
    return y / g(np.ones(y.shape, y.dtype))


SOLVES = [
    # x + x ** 3 = y, and its derivative 1 / (1 + 3 x ** 2).
    *lax("custom_root", lambda f, y: f(lambda x: x + x * x * x - y, y * 0 + 2, _newton, _divided),
         "f8[3]:positive", "f4[3]:positive", grad=("f8[3]:positive",)),
    *lax("custom_root", lambda f, y: f(lambda x: x + x * x * x - y, y * 0 + 2, lambda g, x: (_newton(g, x), 7),
                                       _divided, has_aux=True), "f8[3]:positive", id="aux"),
    *lax("custom_linear_solve", lambda f, a, b: (
        f(lambda x: a * x, b, lambda _, y: y / a, symmetric=True),
        f(lambda x: a * x, b, lambda _, y: y / a, lambda _, y: y / a)),
         "f4[3]:positive f4[3]", "f8[2]:positive f8[2]", grad=("f8[3]:positive f8[3]",)),
    # The auxiliary output of a solver has derivative 0, whatever it contains.
    *lax("custom_linear_solve", lambda f, a, b: f(lambda x: a * x, b, lambda _, y: (y / a, y.sum()), lambda _, y: (
        y / a, y.sum()), has_aux=True), "f4[3]:positive f4[3]", id="aux"),
]


def over_axis(name, call, *signatures, **options):
    """A collective over an axis of vmap with the name "i"."""
    def mapped(f, x):
        return library_of(f).vmap(lambda y: call(f, y), axis_name="i")(x)
    return lax(name, mapped, *signatures, **options)


def in_region(name, call, *signatures, **options):
    """An operation on types of `shard_map`, over a mesh of two devices with the axis "i"; the argument is not split."""
    def mapped(f, x):
        lib = library_of(f)
        mesh = lib.sharding.Mesh(np.array(lib.devices()[:2]), ("i",))
        return lib.shard_map(lambda y: call(f, y), mesh=mesh, in_specs=lib.P(), out_specs=lib.P("i"))(x)
    return lax(name, mapped, *signatures, **options)


FOUR = ("f4[4,3]", "i4[4,3]:wide", "c8[4,3]")
D = ("f8[4,3]",)

COLLECTIVES = [
    *over_axis("psum", lambda f, x: (f(x, "i"), f((x, 2.0), "i"), f(x[0], ("i",))), *FOUR, grad=D),
    *over_axis("pmean", lambda f, x: (f(x, "i"), f({"a": x[1]}, "i")), *FOUR, grad=D),
    *over_axis("pmax", lambda f, x: (f(x, "i"), f(x[0], "i")), "f4[4,3]:edges", "i4[4,3]:wide"),
    *over_axis("pmin", lambda f, x: (f(x, "i"), f(x[0], "i")), "f4[4,3]:edges", "i4[4,3]:wide"),
    *over_axis("all_gather", lambda f, x: (f(x, "i"), f(x, "i", axis=1), f(x, "i", tiled=True)), *FOUR, grad=D),
    *over_axis("all_to_all", lambda f, x: (f(x, "i", 0, 0), f(x, "i", 0, 1), f(x, "i", 0, 1, tiled=True)), "f4[4,4,3]",
               "i4[4,4,3]", grad=("f8[4,4,3]",)),
    # JAX maps only complete permutations.
    *over_axis("ppermute", lambda f, x: (f(x, "i", [(0, 1), (1, 2), (2, 3), (3, 0)]),
                                         f(x, "i", [(3, 0), (0, 3), (1, 1), (2, 2)])), *FOUR, grad=D),
    *over_axis("pshuffle", lambda f, x: f(x, "i", [2, 0, 3, 1]), *FOUR, grad=D),
    *over_axis("pswapaxes", lambda f, x: f(x, "i", 0), "f4[4,4,3]", "i4[4,4,3]", grad=("f8[4,4,3]",)),
    *over_axis("psum_scatter", lambda f, x: (f(x, "i"), f(x, "i", tiled=True)), "f4[4,4,3]", "i4[4,4,3]",
               grad=("f8[4,4,3]",)),
    *over_axis("axis_index", lambda f, x: x + f("i"), "f4[4,3]", "i4[4]"),
    *over_axis("axis_size", lambda f, x: x * f("i"), "f4[4,3]", "i4[3]"),
    *in_region("pcast", lambda f, x: x * f({"a": x}, "i", to="varying")["a"], *FOUR, grad=D),
]

ROWS = [*BRANCHING, *LOOPS, *SOLVES, *COLLECTIVES]
