"""`SymbolicScope`: the constraints on dimension variables, and the bounds that follow from them; parsing of shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.symbolic.dims import Dim, Factor, Size, Term, is_symbolic_dim, operation, variable
from xjax.core.symbolic.value import dim_as_value_p

if TYPE_CHECKING:
    from xjax.typing import Array

_Bounds = tuple[float, float]


class SymbolicScope:
    """Dimension variables that may be used together, with the constraints that hold for them.

    Args:
      constraints_str: constraints: ``"a >= b"``, ``"a <= 16"``, ``"mod(b, 8) == 0"``, ``"b == 2*c"``. The left side of
        an equality is one term.

    Raises: ValueError for a constraint that cannot be read or that never holds.
    """

    def __init__(self, constraints_str: Sequence[str] = ()):
        if isinstance(constraints_str, str):
            raise bad("export.SymbolicScope", "constraints are a sequence of strings, not one string",
                      {"constraints": constraints_str}, "pass a list: ['a >= b'].", ValueError)
        self.rules: dict[Term, tuple[int, Size]] = {}           # n * term == size, by the term
        self.constraints: list[tuple[str, str, Size]] = []      # (text, ">=" or "==", a difference that is >= 0 or 0)
        self._known: dict[Dim, _Bounds] = {}
        self._facts: list[Dim] = []
        self._busy: set[Dim] = set()                            # whose bounds are computed now
        for text in constraints_str:
            self._add(text)
            self._known.clear()
        # Equalities also apply to the constraints before them.
        self._facts = [d for _, sign, difference in self.constraints if sign == ">="
                       if is_symbolic_dim(d := difference * 1)]

    def _add(self, text: str) -> None:
        match = re.fullmatch("(.*?)(>=|<=|==)(.*)", text) if isinstance(text, str) else None
        if match is None:
            raise bad("export.SymbolicScope", "a constraint is two expressions with >=, <= or ==",
                      {"constraint": repr(text)}, "write 'a >= b'.", ValueError)
        left, right = (_Parser(side, None, self).whole() for side in (match[1], match[3]))
        sign = match[2]
        difference = right - left if sign == "<=" else left - right
        if not is_symbolic_dim(difference):
            if difference < 0 or (sign == "==" and difference):
                raise bad("export.SymbolicScope", "a constraint never holds", {"constraint": text}, "remove it.",
                          ValueError)
            return
        if sign == "==":
            if not is_symbolic_dim(left) or len(left.terms) != 1:
                raise bad("export.SymbolicScope", "the left side of an equality must be one term",
                          {"constraint": text}, "write 'b == 2*c'.", ValueError)
            (term, n), = left.terms
            if term in self.rules:
                raise bad("export.SymbolicScope", "two equalities have the same left side", {"constraint": text},
                          "combine them.", NotImplementedError)
            self.rules[term] = n, right
            if right == 0 and n == 1 and len(term) == 1 and term[0][0].name == "mod":      # then k * (x // k) == x
                x, k = term[0][0].operands
                if not is_symbolic_dim(k):
                    self.rules[(Factor("floordiv", (x, k)), 1),] = k, x
        self.constraints.append((text, "==" if sign == "==" else ">=", difference))

    # -- bounds ----------------------------------------------------------------------------------------------------

    def bounds(self, x: Size) -> _Bounds:
        """The smallest and the largest value of a size that can be shown."""
        if not is_symbolic_dim(x):
            return x, x
        cached = self._known.get(x)
        if cached is not None:
            return cached
        if x in self._busy:                 # an equality may express a variable by itself: b == 8*floordiv(b, 8)
            return _interval(x)
        self._busy.add(x)
        try:
            facts = [*self._facts, *_facts_about(x)]
            result = self._known[x] = _lowest(x, facts, 2), -_lowest(-x, facts, 2)
        finally:
            self._busy.discard(x)
        return result

    def as_array(self, x: Dim) -> Array:
        """The size as an array of the default integer type, weakly typed, in the program that is traced now."""
        return dim_as_value_p.bind(dim=x, dtype=dtypes.canonicalize_dtype(int))

    def __repr__(self) -> str:
        return f"SymbolicScope({[text for text, _, _ in self.constraints]})"


def symbolic_dim_bounds(dimension: Size) -> _Bounds:
    """The smallest and the largest value of a dimension that can be shown; infinite where none can.

    >>> symbolic_dim_bounds(symbolic_shape("2*b + 1")[0])
    (3, inf)
    """
    if is_symbolic_dim(dimension):
        return dimension.bounds()
    if not isinstance(dimension, int):
        raise bad("export.symbolic_dim_bounds", "this is not a dimension", {"dimension": dimension},
                  "pass an int or a symbolic dimension.")
    return dimension, dimension


def _facts_about(x: Dim) -> list[Dim]:
    """Expressions that are never negative, about the operations in `x`."""
    facts: list[Any] = []
    for term, _ in x.terms:
        for factor, _ in term:
            if not factor.operands:
                continue
            a, b = factor.operands
            me = Dim({((factor, 1),): 1}, x.scope)
            if factor.name == "max":
                facts += [me - a, me - b]
            elif factor.name == "min":
                facts += [a - me, b - me]
            elif factor.name == "floordiv" and not is_symbolic_dim(b) and b > 0:
                facts += [a - me * b, me * b - a + (b - 1)]
            facts += [fact for y in (a, b) if is_symbolic_dim(y) for fact in _facts_about(y)]
    return [fact for fact in facts if is_symbolic_dim(fact)]


def _lowest(x: Size, facts: Sequence[Dim], depth: int) -> float:
    """The smallest value of `x` that can be shown, with multiples of expressions that are never negative."""
    if not is_symbolic_dim(x):
        return x
    low = _interval(x)[0]
    if depth == 0:
        return low
    for fact in facts:
        known = dict(fact.terms)
        for term, n in x.terms:
            m = known.get(term, 0)
            if term and m and (n > 0) == (m > 0):               # x - (n / m) fact has no such term
                scale, share = abs(m), abs(n)
                rest = x * scale - fact * share
                lowest = _lowest(rest, facts, depth - 1)
                if lowest > -math.inf:
                    low = max(low, math.ceil(Fraction(int(lowest), scale)))
    return low


def _interval(x: Size) -> _Bounds:
    """Bounds by interval arithmetic, if each variable is at least 1."""
    if not is_symbolic_dim(x):
        return x, x
    low = high = 0.0
    for term, n in x.terms:
        a: _Bounds = (1, 1)
        for factor, power in term:
            b = _factor_bounds(factor, x.scope)
            for _ in range(power):
                a = _times(a, b)
        a = _times(a, (n, n))
        low, high = low + a[0], high + a[1]
    return _whole(low), _whole(high)


def _factor_bounds(factor: Factor, scope: SymbolicScope) -> _Bounds:
    if not factor.operands:
        return 1, math.inf
    (a, b), (c, d) = (scope.bounds(y) for y in factor.operands)
    if factor.name == "max":
        return max(a, c), max(b, d)
    if factor.name == "min":
        return min(a, c), min(b, d)
    if c > 0 and factor.name == "mod":
        return 0, min(d - 1, b if a >= 0 else math.inf)
    if c > 0:
        corners = [_quotient(p, q) for p in (a, b) for q in (c, d)]
        return min(corners), max(corners)
    return -math.inf, math.inf


def _quotient(p: float, q: float) -> float:
    if math.isinf(p):
        return p if not math.isinf(q) else math.copysign(math.inf, p) if p < 0 else math.inf
    if math.isinf(q):
        return 0 if p >= 0 else -1
    return p // q


def _times(a: _Bounds, b: _Bounds) -> _Bounds:
    corners = [0 if 0 in (p, q) else p * q for p in a for q in b]
    return min(corners), max(corners)


def _whole(x: float) -> float:
    return x if math.isinf(x) else int(x)


# -- parsing -------------------------------------------------------------------------------------------------------

def symbolic_shape(shape_spec: str | None, *, constraints: Sequence[str] = (), scope: SymbolicScope | None = None,
                   like: Sequence[int | None] | None = None) -> tuple[Size, ...]:
    """A shape with symbolic dimensions, from text.

    Args:
      shape_spec: sizes with commas between them, such as ``"b, 2*h + 1, floordiv(w, 2), 3"``; with `like`, ``_`` is
        the size at this position, and ``...`` are all further sizes; None is ``"..."``.
      constraints: constraints on the variables; see `SymbolicScope`.
      scope: the scope of the variables; None: a new one with `constraints`.

    Raises: ValueError for text that is not a shape, or that does not fit `like`.

    >>> symbolic_shape("b, 2*b + 3, 4")
    (b, 2*b + 3, 4)
    """
    if shape_spec is not None and not isinstance(shape_spec, str):
        raise bad("export.symbolic_shape", "a symbolic shape is a string or None", {"shape_spec": shape_spec},
                  "write 'b, 3'.", ValueError)
    if scope is not None and constraints:
        raise bad("export.symbolic_shape", "takes a scope or constraints, not both", None,
                  "give the constraints to SymbolicScope.", ValueError)
    scope = SymbolicScope(constraints) if scope is None else scope
    return _Parser("..." if shape_spec is None else shape_spec, like, scope).shape()


class _Parser:
    """Reads expressions by recursive descent."""

    def __init__(self, text: str, like: Sequence[int | None] | None, scope: SymbolicScope):
        self._text, self._like, self._scope = text, like, scope
        self._tokens = re.findall(r"\.\.\.|[A-Za-z_]\w*|\d+|\S", text)
        self._next = 0

    def shape(self) -> tuple[Size, ...]:
        wrapped = self._take("(")
        sizes: list[Size] = []
        while self._peek() not in ("", ")"):
            if self._take("..."):
                sizes += [self._known(n) for n in range(len(sizes), len(self._like_shape()))]
                break
            sizes.append(self._known(len(sizes)) if self._take("_") else self._checked(self._sum(), len(sizes)))
            if not self._take(","):
                break
        if wrapped:
            self._expect(")")
        self._end()
        if self._like is not None and len(sizes) != len(self._like):
            raise self._error(f"it has {len(sizes)} sizes, but the shape has {len(self._like)}: {tuple(self._like)}")
        return tuple(sizes)

    def whole(self) -> Size:
        """One expression, which is the whole text."""
        x = self._sum()
        self._end()
        return x

    def _like_shape(self) -> Sequence[int | None]:
        if self._like is None:
            raise self._error("`_` and `...` need a shape to take sizes from: the argument `like`")
        return self._like

    def _known(self, i: int) -> Size:
        like = self._like_shape()
        if i >= len(like) or like[i] is None:
            raise self._error(f"the shape {tuple(like)} has no size at position {i}")
        return like[i]

    def _checked(self, x: Size, i: int) -> Size:
        if self._like is not None and not is_symbolic_dim(x) and i < len(self._like) and self._like[i] != x:
            raise self._error(f"the size {x} differs from that of the shape {tuple(self._like)}")
        return x

    def _sum(self) -> Size:
        negative = self._take("-") or (self._take("+") and False)
        total = self._product()
        total = -total if negative else total
        while self._peek() in ("+", "-"):
            sign = 1 if self._take("+") else -1
            self._next += sign < 0
            total = total + self._product() * sign
        return total

    def _product(self) -> Size:
        x = self._power()
        while self._take("*"):
            x = x * self._power()
        return x

    def _power(self) -> Size:
        x = self._factor()
        if self._take("^"):
            x = x ** self._integer()
        return x

    def _factor(self) -> Size:
        token = self._peek()
        if token == "-":
            self._next += 1
            return -self._integer()
        if token.isdigit():
            return self._integer()
        if not token.isidentifier():
            raise self._error(f"expected a size, not {token!r}" if token else "a size is missing")
        self._next += 1
        if token not in ("floordiv", "mod", "max", "min"):
            return variable(token, self._scope)
        self._expect("(")
        x = self._sum()
        self._expect(",")
        y = self._sum()
        self._expect(")")
        return operation(token, x, y)

    def _integer(self) -> int:
        token = self._peek()
        if not token.isdigit():
            raise self._error(f"expected an integer, not {token!r}")
        self._next += 1
        return int(token)

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        taken = self._peek() == token
        self._next += taken
        return taken

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._error(f"expected {token!r}, not {self._peek()!r}")

    def _end(self) -> None:
        if self._peek():
            raise self._error(f"expected a comma or the end, not {self._peek()!r}")

    def _error(self, what: str) -> ValueError:
        return bad("export.symbolic_shape", what, {"shape": repr(self._text)},
                   "write sizes with commas: 'b, 2*h + 1, floordiv(w, 2), 3'.", ValueError)


def check_one_scope(caller: str, shapes: Iterable[tuple[str, Sequence[Size]]]) -> None:
    """Raise ValueError if symbolic dimensions of arguments belong to different scopes.  Args: shapes: with names."""
    first: tuple[str, Any] | None = None
    for name, shape in shapes:
        for d in shape:
            if is_symbolic_dim(d):
                if first is not None and first[1] is not d.scope:
                    raise bad(caller, "symbolic dimensions of the arguments belong to different scopes",
                              {first[0]: str(first[1]), name: str(d.scope)},
                              "make all shapes with one scope: symbolic_shape(..., scope=scope).", ValueError)
                first = first or (name, d.scope)

