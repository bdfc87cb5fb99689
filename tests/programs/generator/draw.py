"""From a seed to a program: the body, the transforms around it, how it runs, and its inputs."""

from __future__ import annotations

import random

import numpy as np

from tests.programs.generator.arrays import ARRAYS, COLLECTIVES
from tests.programs.generator.control import CONSTRUCTS, REVERSE_ONLY, some_leaf, some_tree
from tests.programs.generator.elementwise import ELEMENTWISE
from tests.programs.generator.library import LIBRARY
from tests.programs.generator.program import INEXACT, Leaf, Program, Signature, Step, Tree, map_tree, names, tree_text
from tests.programs.generator.transforms import TRANSFORMS, apply, draw_step
from tests.programs.generator.writer import Settings, Writer, all_allowed

ROWS = [*ELEMENTWISE, *ARRAYS, *LIBRARY]
# Lines of a body, by the number of derivatives around it: each derivative multiplies the work.
_LINES = (6, 5, 3, 2, 1)
_EAGER, _WILD, _CONCRETE, _COLLECTIVES = 0.25, 0.12, 0.06, 0.12
_CONTROL = (0.25, 0.1, 0.0)         # chance of a construct, by depth


def program(seed: int) -> Program:
    """The program of this seed."""
    rng = random.Random(seed)
    stack = _stack(rng)
    settings = Settings(
        wild=rng.random() < _WILD, concrete=rng.random() < _CONCRETE,
        reverse=any(TRANSFORMS[name].reverse for name in stack) and rng.random() < 0.9,
        forward=any(name in ("jvp", "linearize", "jacfwd") for name in stack) and rng.random() < 0.95)
    if settings.concrete:
        stack = [n for n in stack if TRANSFORMS[n].derivative and not n.startswith("jac")] or ["grad"]
    elif rng.random() < _COLLECTIVES:
        mapped = rng.choice(("vmap", "vmap", "pmap"))
        stack = [mapped, *(n for n in stack[:3] if n != "pmap")]
        settings.axis = ("i", rng.choice((2, 4) if mapped == "pmap" else (1, 2, 3)))
    w = Writer(rng, settings, names())
    params = tuple((w.name("p"), t) for t in _argument_types(w))
    for name, tree in params:
        w.add(name, tree)
    compose(w, max(1, rng.randint(-2, 0) + _LINES[sum(TRANSFORMS[n].derivative for n in stack)]))
    out, text = _results(w)
    body = w.function(params, text, out)
    signature = Signature(tuple(t for _, t in params), out)
    steps, signature = _surround(rng, stack, signature, settings.axis)
    return Program(seed, body, steps, signature.args, settings.concrete or rng.random() < _EAGER, settings.concrete,
                   settings.wild)


def _stack(rng: random.Random) -> list[str]:
    """Names of one to four transforms, innermost first; at most three derivatives and mostly one pmap."""
    stack: list[str] = []
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4))):
        name = rng.choice(list(TRANSFORMS))
        if TRANSFORMS[name].derivative and sum(TRANSFORMS[n].derivative for n in stack) == 3:
            continue
        if name == "pmap" and "pmap" in stack and rng.random() < 0.7:
            continue
        stack.append(name)
    return stack


def _argument_types(w: Writer) -> list[Tree]:
    first = Leaf("float64", some_leaf(w).shape)
    rest = [some_leaf(w) if w.rng.random() < 0.75 else some_tree(w) for _ in range(w.rng.choice((0, 1, 1, 2)))]
    if w.rng.random() < 0.3:
        rest.append(Leaf("int32", ()))
    return [first, *rest]


def compose(w: Writer, count: int) -> None:
    """Write about `count` random lines."""
    for _ in range(count):
        if w.rng.random() < _CONTROL[min(w.depth, 2)]:
            _construct(w)
        else:
            _operation(w)


def _construct(w: Writer) -> None:
    name = w.rng.choice(list(CONSTRUCTS))
    while (w.settings.reverse and name == "while_loop") or (w.settings.forward and name in REVERSE_ONLY):
        name = w.rng.choice(list(CONSTRUCTS))
    CONSTRUCTS[name](w, compose)


def _operation(w: Writer) -> None:
    """One line with an operation that has operands in scope and no large result."""
    rows = COLLECTIVES if w.settings.axis and w.depth == 0 and w.rng.random() < 0.35 else ROWS
    for _ in range(20):
        row = w.rng.choice(rows)
        written = row.write(w)
        if written is not None and all_allowed(written[1]):
            w.line(row.name, *written)
            return


def _results(w: Writer) -> tuple[Tree, str]:
    """Type and text of the result of the body: some of its last values, one of them differentiable."""
    late = w.env[-8:]
    chosen = w.rng.sample(late, min(len(late), w.rng.randint(1, 3)))
    if not any(t.dtype in INEXACT for _, t in chosen):
        chosen.append(w.pick(lambda t: t.dtype in INEXACT))
    if len(chosen) == 1:
        return chosen[0][1], chosen[0][0]
    if w.rng.random() < 0.3:
        keys = w.rng.sample("xyzw", len(chosen))
        return ({k: t for k, (_, t) in zip(keys, chosen, strict=True)},
                "{" + ", ".join(f"{k!r}: {x}" for k, (x, _) in zip(keys, chosen, strict=True)) + "}")
    expressions = iter([x for x, _ in chosen])
    types = tuple(t for _, t in chosen)
    return types, tree_text(types, lambda _: next(expressions))


def _surround(rng: random.Random, stack: list[str], signature: Signature,
              axis: tuple[str, int] | None) -> tuple[tuple[Step, ...], Signature]:
    """Settings for the transforms; a transform that does not fit its function is left out."""
    steps = []
    for name in stack:
        step = draw_step(rng, name, signature, axis if not steps else None)
        if step is not None:
            steps.append(step)
            signature = apply(step, signature)
    return tuple(steps), signature


# ---------------------------------------------------------------- inputs

_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 0.5, 2.0, np.nan, np.inf, -np.inf)


def inputs(p: Program) -> list[Tree]:
    """Arrays for the arguments: away from ties and the borders of domains, except for wild programs."""
    rng = np.random.default_rng(p.seed)

    def value(leaf: Leaf) -> np.ndarray:
        if leaf.dtype == "int32":
            return rng.integers(-3 if p.wild else 0, 6 if p.wild else 3, leaf.shape).astype(leaf.dtype)
        x = rng.uniform(0.2, 1.6, leaf.shape) * rng.choice((-1, 1), leaf.shape)
        if p.wild:
            x = np.where(rng.random(leaf.shape) < 0.35, rng.choice(_SPECIAL, leaf.shape), x)
        return x.astype(leaf.dtype)
    return [map_tree(value, a) for a in p.args]
