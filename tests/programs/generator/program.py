"""A random program: types, lines, functions and transforms as plain data, and its text as Python source.

Both libraries execute the printed text, with `jax`, `jnp`, `lax` and `nn` bound to their own modules. So a failing
program can be read, and pasted into a file.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# From the narrowest to the widest: two dtypes promote to the later one.
DTYPES = ("bool", "int32", "int64", "float32", "float64", "complex128")
INEXACT = ("float32", "float64", "complex128")
FLOATS = ("float32", "float64")


class Leaf(NamedTuple):
    """Type of one array."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


Tree = Any  # a Leaf, or a dict, list or tuple of trees


def promote(*dtypes: str) -> str:
    return max(dtypes, key=DTYPES.index)


def map_tree(f: Callable[[Leaf], Any], tree: Tree) -> Any:
    """The tree with f applied to each Leaf."""
    if isinstance(tree, Leaf):
        return f(tree)
    if isinstance(tree, dict):
        return {k: map_tree(f, v) for k, v in tree.items()}
    return type(tree)(map_tree(f, v) for v in tree)


def parts(expression: str, tree: Tree) -> Iterator[tuple[str, Leaf]]:
    """(expression, type) of every leaf of the value of `expression`."""
    if isinstance(tree, Leaf):
        yield expression, tree
    else:
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for k, v in items:
            yield from parts(f"{expression}[{k!r}]", v)


def leaves(tree: Tree) -> list[Leaf]:
    return [leaf for _, leaf in parts("", tree)]


def tree_text(tree: Tree, text: Callable[[Leaf], str]) -> str:
    """Source of a value of this type; `text` writes the leaves, in order."""
    if isinstance(tree, Leaf):
        return text(tree)
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k!r}: {tree_text(v, text)}" for k, v in tree.items()) + "}"
    inside = ", ".join(tree_text(v, text) for v in tree)
    if isinstance(tree, list):
        return f"[{inside}]"
    return f"({inside},)" if len(tree) == 1 else f"({inside})"


@dataclass(frozen=True)
class Step:
    """One transform with its drawn settings."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """``name = text``, after the functions and raw lines in `defs`; `op` is the name of the row that drew it.

    `stack`: the transforms around the functions in `defs`, innermost first.
    """

    name: str
    type: Tree
    op: str
    text: str
    defs: tuple[Function | str, ...] = ()
    stack: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Function:
    name: str
    params: tuple[tuple[str, Tree], ...]
    lines: tuple[Line, ...]
    result: str
    type: Tree

    def text(self, depth: int = 0) -> str:
        """Source, indented by `depth` levels."""
        pad = "    " * depth
        out = [f"{pad}def {self.name}({', '.join(name for name, _ in self.params)}):"]
        for line in self.lines:
            for item in line.defs:
                out.append(f"{pad}    {item}" if isinstance(item, str) else item.text(depth + 1))
            out.append(f"{pad}    {line.name} = {line.text}")
        out.append(f"{pad}    return {self.result}")
        return "\n".join(out)

    def walk(self) -> Iterator[tuple[Function, Line]]:
        """Every line at any depth, with the function that contains it."""
        for line in self.lines:
            yield self, line
            for item in line.defs:
                if isinstance(item, Function):
                    yield from item.walk()


class Signature(NamedTuple):
    """Types of the positional arguments and of the result."""

    args: tuple[Tree, ...]
    out: Tree


@dataclass(frozen=True)
class Program:
    """A function, the transforms around it (innermost first), and how it is run.

    `eager`: xjax runs it without an outer jit. `concrete`: it has Python control flow on values, so real JAX
    must run it eagerly too. `wild`: operands are not kept inside the domains, and the inputs hold ties, NaN and inf.
    """

    seed: int
    body: Function
    steps: tuple[Step, ...]
    args: tuple[Tree, ...]
    eager: bool
    concrete: bool
    wild: bool

    def text(self) -> str:
        """The whole source; running it binds the name `program`."""
        out, inner = [self.body.text()], self.body.name
        for k, step in enumerate(self.steps):
            out.append(f"t{k} = {step_text(step, inner)}")
            inner = f"t{k}"
        out.append(f"program = {inner if self.eager else f'jax.jit({inner})'}")
        kinds = ", ".join(tree_text(a, lambda t: f"{t.dtype}{list(t.shape)}") for a in self.args)
        return f"# seed {self.seed}, arguments: {kinds}{', wild' if self.wild else ''}\n" + "\n".join(out) + "\n"


# Transforms that the text calls by their own names; all others are functions of `wrappers`.
_DIRECT = {"jit": "jax.jit", "vmap": "jax.vmap", "pmap": "jax.pmap"}


def step_text(step: Step, inner: str) -> str:
    """Source of the transformed function `inner`."""
    settings = "".join(f", {k}={v!r}" for k, v in step.settings.items() if k != "size")
    if step.name in _DIRECT:
        return f"{_DIRECT[step.name]}({inner}{settings})"
    return f"{step.name}_of(jax, {inner}{settings})"


def names() -> Iterator[int]:
    """Numbers for names, unique in a program."""
    return itertools.count()


def rename(program_text: str, name: str, replacement: str) -> str:
    """Text in which the variable `name` is replaced."""
    return re.sub(rf"\b{name}\b", lambda _: replacement, program_text)
