"""`Dim`: an integer expression of dimension variables, which may be the size of an axis.

An expression is a sum of terms; a term is an integer times a product of powers of factors; a factor is a variable or an
operation (floordiv, mod, max, min) on expressions. Expressions are kept in this normal form, and an expression without
variables is an int. So two expressions are equal if they have the same terms.

Comparisons other than equality are decided by bounds (`bounds.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeGuard

from xjax.core.errors import InconclusiveDimensionOperation, bad

if TYPE_CHECKING:
    from xjax.core.symbolic.scope import SymbolicScope
    from xjax.typing import Array, ArrayLike

Size = Any                                      # int | Dim


class Factor(NamedTuple):
    """A variable, with `name` and no operands; or an operation, with its name and its operands."""

    name: str
    operands: tuple[Size, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.operands))})" if self.operands else self.name

    @property
    def order(self) -> tuple:
        """The key by which factors are sorted: variables first."""
        return self.size, str(self)

    @property
    def size(self) -> int:
        """The number of operations and variables."""
        return 1 + sum([x.size if type(x) is Dim else 1 for x in self.operands])


Term = tuple[tuple[Factor, int], ...]           # factors with their powers, sorted; () for the constant term


def _term_order(term: Term) -> tuple:
    """The key by which terms are sorted: large ones first, as in JAX."""
    return sum(f.size * power for f, power in term), [(f.order, power) for f, power in reversed(term)]


class Dim:
    """A symbolic dimension: made by `symbolic_shape`, and by arithmetic on symbolic dimensions.

    Operators are those of integers. ``a == b`` is False if the expressions differ, even if they could have the same
    value. ``a >= b`` raises InconclusiveDimensionOperation if it is not true or false for all values of the variables;
    each variable is at least 1. Used as a number in a program, it becomes an array of the default integer type.

    Attributes:
      terms: the terms with their coefficients, sorted.
      scope: the `SymbolicScope` with the constraints that hold for the variables.
    """

    __slots__ = ("terms", "scope", "_hash")

    def __init__(self, terms: Mapping[Term, int], scope: SymbolicScope):
        self.terms = tuple(sorted(terms.items(), key=lambda item: _term_order(item[0]), reverse=True))
        self.scope = scope
        self._hash = hash(self.terms)

    # -- arithmetic ------------------------------------------------------------------------------------------------

    def __add__(self, other: Size) -> Size:
        return _sum(self, other, 1)

    def __radd__(self, other: Size) -> Size:
        return _sum(self, other, 1)

    def __sub__(self, other: Size) -> Size:
        return _sum(self, other, -1)

    def __rsub__(self, other: Size) -> Size:
        return _sum(-self, other, 1)

    def __neg__(self) -> Size:
        return self * -1

    def __pos__(self) -> Size:
        return self

    def __mul__(self, other: Size) -> Size:
        if (right := _terms(other)) is None:
            return _as_value(operator.mul, self, other)
        product: dict[Term, int] = {}
        for a, m in self.terms:
            for b, n in right:
                powers = dict(a)
                for factor, power in b:
                    powers[factor] = powers.get(factor, 0) + power
                term = tuple(sorted(powers.items(), key=lambda item: item[0].order))
                product[term] = product.get(term, 0) + m * n
        return _normal(product, _common_scope(self, other))

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Size:
        if not isinstance(power, int) or power < 0:
            return NotImplemented
        result: Size = 1
        for _ in range(power):
            result = self * result
        return result

    def __floordiv__(self, other: Size) -> Size:
        return _divided("floordiv", self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return _divided("floordiv", other, self)

    def __mod__(self, other: Size) -> Size:
        return _divided("mod", self, other)

    def __rmod__(self, other: Size) -> Size:
        return _divided("mod", other, self)

    def __divmod__(self, other: Size) -> tuple[Size, Size]:
        return self // other, self % other

    def __rdivmod__(self, other: Size) -> tuple[Size, Size]:
        return other // self, other % self

    def __truediv__(self, other: Size | ArrayLike) -> Array:
        return self.__jax_array__() / (other.__jax_array__() if isinstance(other, Dim) else other)

    def __rtruediv__(self, other: Array | float) -> Array:
        return other / self.__jax_array__()

    # -- comparison ------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms and self.scope is other.scope

    def __hash__(self) -> int:
        return self._hash

    def __ge__(self, other: Size) -> bool:
        return _decided(self, other, ">=", self - other)

    def __gt__(self, other: Size) -> bool:
        return _decided(self, other, ">", self - other - 1)

    def __le__(self, other: Size) -> bool:
        return _decided(self, other, "<=", other - self)

    def __lt__(self, other: Size) -> bool:
        return _decided(self, other, "<", other - self - 1)

    # -- conversion ------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return self >= 1 if self.bounds()[0] >= 0 else not _decided(self, 0, "<=", -self)

    def __int__(self) -> NoReturn:
        raise bad("symbolic dimension", "a symbolic dimension has no fixed value", {"dimension": str(self)},
                  "use it in shapes and arithmetic; convert it to an array with numpy.array.", exc=TypeError)

    __index__ = __float__ = __int__

    def __str__(self) -> str:
        text = ""
        for term, n in self.terms:
            factors = "*".join(str(f) if power == 1 else f"{f}^{power}" for f, power in term)
            size = factors if factors and abs(n) == 1 else f"{abs(n)}*{factors}" if factors else str(abs(n))
            text += f" {'-' if n < 0 else '+'} {size}"
        return text[3:] if text.startswith(" + ") else text[1:]

    __repr__ = __str__

    def __jax_array__(self) -> Array:
        return self.scope.as_array(self)

    def __deepcopy__(self, memo: dict) -> Dim:
        return self

    def __copy__(self) -> Dim:
        return self

    @property
    def size(self) -> int:
        """The number of operations and variables."""
        return sum([1 + sum([f.size * power for f, power in term]) for term, _ in self.terms])

    # -- values ----------------------------------------------------------------------------------------------------

    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value that can be shown; infinite where none can."""
        return self.scope.bounds(self)

    def variables(self) -> set[str]:
        """The names of its variables."""
        return {name for term, _ in self.terms for factor, _ in term for name in (
            {factor.name} if not factor.operands else set().union(*map(variables_of, factor.operands)))}

    def evaluate(self, values: Mapping[str, Any],
                 operations: Mapping[str, Callable[[Any, Any], Any]] | None = None) -> Any:
        """The value, from those of its variables: ints, Dims, or others with + and *.

        Args: operations: floordiv, mod, max and min of these values.
        """
        operations = OPERATIONS if operations is None else operations
        total: Any = 0
        for term, n in self.terms:
            product: Any = n
            for factor, power in term:
                value = (operations[factor.name](*[evaluate(x, values, operations) for x in factor.operands])
                         if factor.operands else values[factor.name])
                for _ in range(power):
                    product = value * product
            total = product + total
        return total


def is_symbolic_dim(p: object) -> TypeGuard[Dim]:
    """Whether `p` is a symbolic dimension, not an integer."""
    return type(p) is Dim


def variable(name: str, scope: SymbolicScope) -> Dim:
    """The dimension variable `name`."""
    return _normal({((Factor(name), 1),): 1}, scope)


def operation(name: str, x: Size, y: Size) -> Size:
    """floordiv, mod, max or min of two sizes; an int if both are."""
    if not is_symbolic_dim(x) and not is_symbolic_dim(y):
        return OPERATIONS[name](x, y)
    if name in ("max", "min"):
        low, high = (x - y).bounds() if is_symbolic_dim(x - y) else (x - y, x - y)
        if low >= 0 or high <= 0:
            return x if (low >= 0) == (name == "max") else y
    else:
        return x // y if name == "floordiv" else x % y
    return _normal({((Factor(name, (x, y)), 1),): 1}, _common_scope(x, y))


def max_dim(d1: Size, d2: Size) -> Size:
    """The larger of two sizes, without a comparison that may be inconclusive."""
    return operation("max", d1, d2)


def min_dim(d1: Size, d2: Size) -> Size:
    """The smaller of two sizes, without a comparison that may be inconclusive."""
    return operation("min", d1, d2)


# Operations on sizes.
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": operator.floordiv, "mod": operator.mod,
    "max": lambda x, y: max_dim(x, y) if Dim in (type(x), type(y)) else max(x, y),
    "min": lambda x, y: min_dim(x, y) if Dim in (type(x), type(y)) else min(x, y)}


def variables_of(x: Size) -> set[str]:
    return x.variables() if is_symbolic_dim(x) else set()


def evaluate(x: Size, values: Mapping[str, Any], operations: Mapping[str, Callable] | None = None) -> Any:
    """The value of a size, from the values of dimension variables; see `Dim.evaluate`."""
    return x.evaluate(values, operations) if is_symbolic_dim(x) else x


def evaluate_shape(shape: Iterable[Size], values: Mapping[str, Any]) -> tuple:
    return tuple([evaluate(n, values) for n in shape])


def is_at_most(x: Size, y: Size) -> bool:
    """Whether ``x <= y`` for all values of dimension variables."""
    difference = y - x
    return difference.bounds()[0] >= 0 if type(difference) is Dim else difference >= 0


def is_above(size: Size, limit: int) -> bool:
    """Whether a size is known to be above a limit of the implementation; symbolic sizes are below such limits."""
    return type(size) is int and size > limit


def is_empty(shape: Iterable[Size]) -> bool:
    """Whether a size is the number 0; symbolic sizes are treated as positive."""
    return any([type(n) is int and n == 0 for n in shape])


def is_static(shape: Iterable[Size]) -> bool:
    """Whether all sizes are integers."""
    return not any([type(n) is Dim for n in shape])


def _terms(x: Size) -> tuple[tuple[Term, int], ...] | None:
    """The terms of a size; None for a value that is not a size."""
    if type(x) is Dim:
        return x.terms
    try:
        n = operator.index(x)
    except TypeError:
        return None
    return (((), n),) if n else ()


def _sum(x: Dim, y: Size, sign: int) -> Size:
    if (right := _terms(y)) is None:
        return _as_value(operator.add if sign > 0 else operator.sub, x, y)
    total = dict(x.terms)
    for term, n in right:
        total[term] = total.get(term, 0) + sign * n
    return _normal(total, _common_scope(x, y))


def _as_value(f: Callable, x: Dim, y: object) -> Any:
    """The operation on a dimension and an array or a float: the dimension becomes an array."""
    if isinstance(y, (float, complex)) or hasattr(y, "dtype"):
        return f(x.__jax_array__(), y)
    return NotImplemented


def _normal(terms: Mapping[Term, int], scope: SymbolicScope) -> Size:
    """The expression of these terms, with the equalities of the scope applied; an int if it is constant."""
    kept = {term: n for term, n in terms.items() if n}
    for term, n in list(kept.items()):
        rule = scope.rules.get(term)
        if rule is not None and n % rule[0] == 0:
            del kept[term]
            rest = _normal(kept, scope) if kept else 0
            return rule[1] * (n // rule[0]) + rest
    if not kept:
        return 0
    if set(kept) == {()}:
        return kept[()]
    return Dim(kept, scope)


def _common_scope(x: Size, y: Size) -> SymbolicScope:
    scopes = [d.scope for d in (x, y) if type(d) is Dim]
    if scopes[0] is not scopes[-1]:
        raise bad("symbolic dimension", "the dimensions belong to different scopes", {"dimensions": [str(x), str(y)]},
                  "make all symbolic shapes of a function with one `scope`: symbolic_shape(..., scope=scope).",
                  ValueError)
    return scopes[0]


def _divided(name: str, x: Size, y: Size) -> Size:
    """Quotient or remainder. An exact division of terms is carried out; otherwise the operation is a factor."""
    if _terms(x) is None or _terms(y) is None:
        return NotImplemented
    if type(y) is not Dim and y == 0:
        raise ZeroDivisionError("division of a symbolic dimension by zero")
    exact = _exact(x, y)
    if exact is not None:
        return exact[0 if name == "floordiv" else 1]
    return _normal({((Factor(name, (x, y)), 1),): 1}, _common_scope(x, y))


def _exact(x: Size, y: Size) -> tuple[Size, Size] | None:
    """(quotient, remainder), if polynomial division has no remainder but a constant one for a constant divisor."""
    scope = _common_scope(x, y)
    quotient: Size = 0
    first, n = _terms(y)[0]                                     # type: ignore[index]
    while is_symbolic_dim(x):
        term, m = x.terms[0]
        powers = dict(term)
        for factor, power in first:
            powers[factor] = powers.get(factor, 0) - power
        if m % n or any(power < 0 for power in powers.values()):
            return None
        step = _normal({tuple((f, p) for f, p in powers.items() if p): m // n}, scope)
        quotient, x = quotient + step, x - step * y
    if type(y) is Dim:
        return (quotient, 0) if x == 0 else None
    return quotient + x // y, x % y


def _decided(x: Size, y: Size, sign: str, difference: Size) -> bool:
    """Whether ``difference >= 0``, which is the comparison `x sign y`."""
    if difference is NotImplemented:
        return NotImplemented
    if not is_symbolic_dim(difference):
        return difference >= 0
    low, high = difference.bounds()
    if low >= 0:
        return True
    if high < 0:
        return False
    raise bad("symbolic dimension", f"the comparison {x} {sign} {y} is not decided for all values", {
        "smallest difference": low, "largest difference": high},
        "add a constraint: symbolic_shape(..., constraints=['a >= b']), or use numpy.where on arrays.",
        exc=InconclusiveDimensionOperation)
