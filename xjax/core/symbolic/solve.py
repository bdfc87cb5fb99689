"""The values of dimension variables, from the sizes of arguments: linear equations, solved one variable at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xjax.core.symbolic.dims import Dim, Size, evaluate, is_symbolic_dim, variables_of


class Solution(NamedTuple):
    """A variable, as ``(size - rest) / factor``: the size of an axis of an argument, and known variables in `rest`."""

    name: str
    argument: int
    axis: int
    rest: Size
    factor: int


def solve(shapes: Sequence[Sequence[Size]]) -> list[Solution]:
    """How to compute each variable in the shapes of arguments, in an order in which the `rest`s are known.

    Raises: ValueError with the names of variables that cannot be computed.
    """
    sizes = [(i, axis, n) for i, shape in enumerate(shapes) for axis, n in enumerate(shape) if is_symbolic_dim(n)]
    unknown = sorted(set().union(*[n.variables() for _, _, n in sizes]))
    solutions: list[Solution] = []
    while unknown:
        step = next((s for i, axis, n in sizes if (s := _solved(n, unknown, i, axis)) is not None), None)
        if step is None:
            raise ValueError(", ".join(unknown))
        solutions.append(step)
        unknown.remove(step.name)
    return solutions


def _solved(size: Dim, unknown: Sequence[str], argument: int, axis: int) -> Solution | None:
    """The equation of a size for its only unknown variable, if it is linear in it."""
    names = size.variables() & {*unknown}
    if len(names) != 1:
        return None
    name, = names
    own = [(term, n) for term, n in size.terms if any(name in variables_of(Dim({((f, 1),): 1}, size.scope))
                                                      for f, _ in term)]
    (term, factor), *more = own
    if more or len(term) != 1 or term[0][1] != 1 or term[0][0].operands:
        return None
    rest = size - Dim({term: factor}, size.scope)
    return Solution(name, argument, axis, rest, factor)


def values_of(solutions: Iterable[Solution], shapes: Sequence[Sequence[Size]]) -> dict[str, Any]:
    """The values of variables for arguments of these shapes: ints, or symbolic in a symbolic program.

    Raises: ValueError with a reason if a size does not have the form of the dimension.
    """
    values: dict[str, Any] = {}
    for s in solutions:
        difference = shapes[s.argument][s.axis] - evaluate(s.rest, values)
        if difference % s.factor != 0:
            raise ValueError(f"{s.name} is not an integer for the size {shapes[s.argument][s.axis]}")
        values[s.name] = difference // s.factor
    return values


def check(dims: Iterable[Dim], values: Mapping[str, Any]) -> str:
    """The first condition on variables that is not met, as text; "" if all are."""
    for name, value in values.items():
        if not value >= 1:
            return f"{name} >= 1, but it is {value}"
    for scope in {d.scope for d in dims}:
        for text, sign, difference in scope.constraints:
            if variables_of(difference) <= set(values):
                x = evaluate(difference, values)
                if not (x == 0 if sign == "==" else x >= 0):
                    return text
    return ""
