"""Make a failing program smaller: leave out transforms and lines while it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.programs.generator.program import Function, Line, Program, Signature, rename, tree_text
from tests.programs.generator.transforms import apply

_MOST_TRIALS = 80


def minimise(p: Program, fails: Callable[[Program], bool], trials: int = _MOST_TRIALS) -> Program:
    """The smallest program with `fails(p)`, after at most `trials` trials."""
    shrunk = True
    while shrunk and trials > 0:
        shrunk = False
        for smaller in _smaller(p):
            trials -= 1
            if fails(smaller):
                p, shrunk = smaller, True
                break
            if trials <= 0:
                break
    return p


def _smaller(p: Program) -> Iterator[Program]:
    """The program without one transform, then without one line, the later lines first."""
    for k in range(len(p.steps)):
        steps = p.steps[:k] + p.steps[k + 1:]
        signature = Signature(tuple(t for _, t in p.body.params), p.body.type)
        try:
            for step in steps:
                signature = apply(step, signature)
        except (ValueError, IndexError, KeyError):      # the types no longer fit the drawn settings
            continue
        yield replace(p, steps=steps, args=signature.args)
    for _, line in reversed(list(p.body.walk())):
        yield replace(p, body=without(p.body, line))


def without(f: Function, gone: Line) -> Function:
    """The function without this line, whose result becomes constants of the same type."""
    constants = tree_text(gone.type, lambda t: f"jnp.full({t.shape}, 0.7, '{t.dtype}')")

    def edit(text: str) -> str:
        return rename(text, gone.name, constants)

    def walk(f: Function) -> Function:
        lines = [replace(line, text=edit(line.text),
                         defs=tuple(edit(d) if isinstance(d, str) else walk(d) for d in line.defs))
                 for line in f.lines if line.name != gone.name]
        return replace(f, lines=tuple(lines), result=edit(f.result))
    return walk(f)
