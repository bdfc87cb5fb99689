"""The state while a program is written: names, variables in scope, and the choice of operands."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.programs.generator.program import FLOATS, Function, Leaf, Line, Tree, leaves, parts, promote

Var = tuple[str, Leaf]
# Letters for kinds of dtypes in the tables: f float, i integer, b bool, c complex.
KINDS = {"bool": "b", "int32": "i", "int64": "i", "float32": "f", "float64": "f", "complex128": "c"}
_SIZE_LIMIT = 64
_RANK_LIMIT = 4


@dataclass
class Settings:
    """Settings of a whole program.

    axis: (name, size) of the mapped axis that collectives may use, in the body of the program alone. wild: operands may
    leave the domains. concrete: Python control flow on values may be written. reverse: avoid while loops. forward:
    avoid rules for reverse mode alone.
    """

    wild: bool = False
    concrete: bool = False
    reverse: bool = False
    forward: bool = False
    axis: tuple[str, int] | None = None


@dataclass
class Writer:
    """Writes one function; `inner` gives the writer of a function inside it."""

    rng: random.Random
    settings: Settings
    numbers: Iterator[int]
    depth: int = 0
    env: list[Var] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def name(self, letter: str = "v") -> str:
        return f"{letter}{next(self.numbers)}"

    def inner(self, closure: bool = True) -> Writer:
        """The writer of a nested function; with `closure`, it may use the variables of this one."""
        seen = [v for v in self.env if self.rng.random() < 0.6] if closure else []
        return Writer(self.rng, self.settings, self.numbers, self.depth + 1, seen)

    def add(self, expression: str, tree: Tree) -> None:
        """Add a value to the scope."""
        self.env.extend(parts(expression, tree))

    def line(self, op: str, text: str, tree: Tree, defs: tuple = (), stack: tuple = ()) -> str:
        """Write one line; returns the name of its result."""
        name = self.name()
        self.lines.append(Line(name, tree, op, text, defs, stack))
        self.add(name, tree)
        return name

    def function(self, params: tuple[tuple[str, Tree], ...], result: str, tree: Tree, name: str = "") -> Function:
        return Function(name or self.name("f"), params, tuple(self.lines), result, tree)

    # ---------------------------------------------------------------- operands

    def pick(self, accept: Callable[[Leaf], bool]) -> Var | None:
        """A variable whose type `accept` allows; later ones are more likely."""
        good = [v for v in self.env if accept(v[1])]
        if not good:
            return None
        return good[max(self.rng.randrange(len(good)), self.rng.randrange(len(good)))]

    def operand(self, kinds: str, accept: Callable[[Leaf], bool] = lambda leaf: True) -> Var | None:
        """A variable of one of these kinds; without one, a float variable is converted."""
        kind = self.rng.choice(kinds)
        variable = self.pick(lambda leaf: KINDS[leaf.dtype] == kind and accept(leaf))
        if variable is not None:
            return variable
        variable = self.pick(lambda leaf: leaf.dtype in FLOATS and accept(leaf))
        if variable is None:
            return None
        x, leaf = variable
        if kind == "f":
            return variable
        text, dtype = {
            "b": (f"({x} > 0.4)", "bool"), "i": (f"jnp.floor(2.4 * jnp.tanh({x})).astype('int32')", "int32"),
            "c": (f"lax.complex({x}, 0.5 * {x}).astype('complex128')", "complex128")}[kind]
        return text, Leaf(dtype, leaf.shape)

    def like(self, x: Var, kinds: str) -> Var:
        """An operand that broadcasts against x without enlarging it: a variable, or a number."""
        shape = x[1].shape

        def fits(leaf):
            return KINDS[leaf.dtype] in kinds and broadcasts_into(leaf.shape, shape)
        variable = self.pick(fits) if self.rng.random() < 0.85 else None
        if variable is None:
            number = self.rng.choice(("2", "3")) if "f" not in kinds else self.rng.choice(("0.7", "1.3", "2"))
            return number, Leaf("bool", ())     # a Python number does not change the dtype
        return variable

    def fitted(self, accept: Leaf, smooth: bool = True) -> str:
        """An expression of exactly this type, made from a variable; floats are bounded if `smooth`."""
        same = self.pick(lambda leaf: leaf == accept)
        if same is not None and self.rng.random() < 0.8:
            return f"jnp.tanh({same[0]})" if smooth and accept.dtype in FLOATS else same[0]
        x, leaf = self.pick(lambda leaf: True)
        x = f"jnp.sum({x})"
        x = f"jnp.tanh(jnp.real({x}))" if leaf.dtype == "complex128" else f"jnp.tanh({x})"
        if KINDS[accept.dtype] == "i":
            x = f"(2.5 * {x})"
        if accept.dtype == "bool":
            return f"jnp.full({accept.shape}, {x} > 0.1)"
        return f"jnp.full({accept.shape}, {x}, '{accept.dtype}')"


def broadcasts_into(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether an array of shape `small` can be broadcast to `large`."""
    tail = large[len(large) - len(small):] if small else ()
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small, tail, strict=True))


def result(x: Leaf, *others: Leaf, dtype: str | None = None) -> Leaf:
    """The type of an element-wise operation whose first operand has the shape of the result."""
    return Leaf(dtype or promote(x.dtype, *(o.dtype for o in others)), x.shape)


def allowed(leaf: Leaf) -> bool:
    """Whether a result is small enough to be used further."""
    return leaf.size <= _SIZE_LIMIT and len(leaf.shape) <= _RANK_LIMIT


def all_allowed(tree: Tree) -> bool:
    return all(map(allowed, leaves(tree)))
