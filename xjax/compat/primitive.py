"""`Primitive` as libraries of JAX define it: an operation whose rules are set one by one, and the tables of rules.

    double_p = Primitive("double")
    double_p.def_impl(lambda x: x + x)
    double_p.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[double_p] = lambda primals, tangents: ...

The tables have no entries of their own: an entry of a table is the rule of the primitive, so the rules of xjax's own
operations are in them too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakSet

import xjax
from xjax.core import primitive as core
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_function
from xjax.core.primitive import Missing, all_primitives
from xjax.core.types import ShapedArray, typeof
from xjax.runtime.stages import abstract
from xjax.typing import Array, ArrayLike

# Results of an operation, their types, and its operations in a program; lists with `multiple_results`.
Results: TypeAlias = Array | Sequence[Array]
Outputs: TypeAlias = ShapedArray | Sequence[ShapedArray]
Lowered: TypeAlias = Value | Sequence[Value]

_of_libraries: WeakSet[Primitive] = WeakSet()


class Primitive(core.Primitive):
    """An operation of a library: `def_impl`, `def_abstract_eval` and the tables of `jax.interpreters` set its rules."""

    def __init__(self, name: str):
        def missing(rule: str, how: str) -> Missing:
            return Missing(f"the operation has no rule for {rule}", f"define it with {how}.")

        super().__init__(
            name, type_rule=missing("the type of its result", "def_abstract_eval"),
            lower=missing("compilation", "jax.interpreters.mlir.register_lowering"),
            jvp=missing("forward derivatives", "jax.interpreters.ad.primitive_jvps"),
            transpose=missing("transposition", "jax.interpreters.ad.primitive_transposes"),
            batch=missing("vmap", "jax.interpreters.batching.primitive_batchers"), cacheable=False)
        self.lower = self._lower
        self._general: Callable | None = None               # lower rules: for all platforms, for one
        self.impl: Callable = self._compiled
        self.abstract_eval: Callable | None = None

    def _register(self) -> None:
        _of_libraries.add(self)                             # names of libraries may be those of xjax's operations

    def def_impl(self, impl: Callable) -> Callable:
        """Set the function that computes the operation eagerly; returns it.  Without it, the operation is compiled."""
        self.impl = self.evaluate = impl
        return impl

    def def_abstract_eval(self, rule: Callable) -> Callable:
        """Set the type rule ``rule(*avals, **params) -> aval``, or a sequence with `multiple_results`; returns it."""
        self.abstract_eval = rule
        self.type_rule = lambda *avals, **params: self._checked(rule(*avals, **params))
        return rule

    def def_effectful_abstract_eval(self, rule: Callable) -> Callable:
        """As `def_abstract_eval`, for a rule that returns (types, effects); the operation runs once, used or not."""
        self.abstract_eval = rule
        self.type_rule = lambda *avals, **params: self._checked(rule(*avals, **params)[0])
        self.effects = lambda **params: frozenset({"io"})
        return rule

    def def_bind_with_trace(self, bind: Callable) -> Callable:
        """Set what `bind` does: ``bind(trace, args, avals, params)``; returns it."""
        self.bind_with_trace = bind
        self.bind = lambda *args, **params: bind(core.context.trace, args, [typeof(x) for x in args], params)
        return bind

    def _checked(self, out: Any) -> ShapedArray | tuple[ShapedArray, ...]:
        if not self.multiple_results:
            return _aval(self.name, out)
        return tuple([_aval(self.name, a) for a in out])

    def _compiled(self, *args: ArrayLike, **params: object) -> Results:
        return apply_primitive(self, *args, **params)

    def _lower(self, b: Builder, out: Outputs, *operands: Value, **params: object) -> Lowered:
        rule = self.lower_on.get(b.module.platform) or self._general
        if rule is None:
            if self.evaluate is None:
                raise bad(self.name, "the operation has no rule for compilation",
                          fix="define it with jax.interpreters.mlir.register_lowering.", exc=NotImplementedError)
            rule = by_function(self.evaluate, self.multiple_results)
        return rule(b, out, *operands, **params)

    def set_lowering(self, rule: Callable, platform: str | None) -> None:
        """Set the lower rule for a platform ("cpu", "gpu", "cuda"); None: for those without a rule of their own."""
        if platform is None:
            self._general = rule
        else:
            self.lower_on[{"cuda": "gpu", "rocm": "gpu"}.get(platform, platform)] = rule


def _aval(caller: str, x: object) -> ShapedArray:
    """A type that the rule of a library returned, as a type of this library."""
    if type(x) is ShapedArray:
        return x
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return abstract(x)
    raise bad(caller, "the type rule must return types", {"returned": repr(x)[:80]},
              "return jax.core.ShapedArray(shape, dtype), or a list of them with multiple_results.")


def write_operations(b: Builder, fun: Callable, multiple_results: bool, operands: Sequence[Value],
                     params: Mapping[str, object]) -> list[Value]:
    """Write the operations of ``fun(*operands, **params)``."""
    def flat(*args: ArrayLike) -> list[Any]:
        result = fun(*args, **params)
        return [*result] if multiple_results else [result]

    return lower_function(b, flat, operands)


def by_function(fun: Callable, multiple_results: bool) -> Callable:
    """The lower rule that writes the operations of ``fun(*args, **params)``."""
    def lower(b: Builder, out: Outputs, *operands: Value, **params: object) -> Lowered:
        written = write_operations(b, fun, multiple_results, operands, params)
        return written if multiple_results else written[0]

    return lower


def apply_primitive(p: core.Primitive, *args: ArrayLike, **params: object) -> Results:
    """The results of the operation, computed by a compiled program of its own."""
    try:
        return _program(p, tuple(params.items()))(*args)
    except TypeError:
        if all(map(xjax.core.calls.is_hashable, params.values())):
            raise
        return xjax.jit(functools.partial(p.bind, **params))(*args)


@functools.lru_cache(maxsize=4096)
def _program(p: core.Primitive, params: tuple) -> Callable:
    return xjax.jit(functools.partial(p.bind, **dict(params)))


class Rules(MutableMapping[core.Primitive, Callable]):
    """A table of rules of JAX: the rules `field` of all primitives.

    Args:
      field: the name of the attribute of a primitive.
      from_library: the rule as xjax calls it, for a rule as JAX calls it.
      to_library: the opposite.
    """

    def __init__(self, field: str, from_library: Callable[[Callable], Callable] = lambda rule: rule,
                 to_library: Callable[[Callable], Callable] = lambda rule: rule):
        self._field, self._from_library, self._to_library = field, from_library, to_library

    def __getitem__(self, p: core.Primitive) -> Callable:
        rule = getattr(p, self._field)
        if rule is None or isinstance(rule, Missing):
            raise KeyError(p)
        return getattr(rule, "of_library", None) or self._to_library(rule)

    def __setitem__(self, p: core.Primitive, rule: Callable) -> None:
        own = self._from_library(rule)
        if own is not rule:
            own.of_library = rule               # type: ignore[attr-defined]
        setattr(p, self._field, own)

    def __delitem__(self, p: core.Primitive) -> None:
        self[p]
        setattr(p, self._field, Missing("the rule was deleted", "define it again.", p.name))

    def __iter__(self) -> Iterator[core.Primitive]:
        return iter([p for p in (*all_primitives().values(), *_of_libraries) if p in self])

    def __len__(self) -> int:
        return sum(1 for _ in self)
