"""Programs: `Jaxpr` (variables and equations) and `ClosedJaxpr` (a program with the values of its constants).

Programs are immutable once built, and hashed by identity. `program_cache` stores the results of functions from programs
to programs (derivative, batched, transposed program) on the program itself, so they are freed with it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from xjax.core.context import context
from xjax.core.depth import deep
from xjax.core.errors import Source, bad, location_text, scope_of
from xjax.core.primitive import NO_EFFECTS, Effects, Primitive
from xjax.core.types import ShapedArray, typed_number, typeof
from xjax.typing import ArrayLike


class Var:
    """A variable, compared by identity; `aval` is its type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval})"


class Literal:
    """A scalar written into the program."""

    __slots__ = ("val", "aval")

    def __init__(self, val: ArrayLike, aval: ShapedArray | None = None):
        self.aval = typeof(val) if aval is None else aval
        self.val = typed_number(val, self.aval)

    def __repr__(self) -> str:
        return f"Literal({self.val})"


Atom = Var | Literal


class DebugInfo(NamedTuple):
    """Names for messages about a traced function, as in JAX; programs of xjax do not record them."""

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...] | None = None
    result_paths: Any = None

    @classmethod
    def unknown(cls, jaxpr: Jaxpr) -> DebugInfo:
        return cls("", "", ("",) * len(jaxpr.invars), ("",) * len(jaxpr.outvars))


class SourceInfo(NamedTuple):
    """The position of an equation in the user's code, and the `named_scope`s around it: ``encoder/layer``."""

    source: Source | None
    name_stack: str

    def __str__(self) -> str:
        return location_text(self.source)


class Eqn:
    """`outvars = primitive[params] invars`; `source` is the user's line, from `user_location`."""

    __slots__ = ("invars", "outvars", "primitive", "params", "source")

    def __init__(self, invars: list[Atom], outvars: list[Var], primitive: Primitive, params: dict,
                 source: Source | None = None):
        self.invars, self.outvars, self.primitive, self.params, self.source = (
            invars, outvars, primitive, params, source)

    @property
    def effects(self) -> Effects:
        """The effects of the primitive and of the programs among its parameters."""
        own = NO_EFFECTS if self.primitive.effects is None else self.primitive.effects(**self.params)
        return own.union(*[sub.effects for sub in subjaxprs(self.params)])

    @property
    def source_info(self) -> SourceInfo:
        return SourceInfo(self.source, scope_of(self.source))

    def replace(self, **changed: object) -> Eqn:
        """The equation with other `invars`, `outvars`, `primitive` or `params`."""
        return _changed(self, ("invars", "outvars", "primitive", "params", "source"), changed)

    def __repr__(self) -> str:
        return _print_eqn(self)


class Jaxpr:
    """A program: `constvars` (values fixed when it was traced), `invars`, equations, `outvars`."""

    __slots__ = ("constvars", "invars", "eqns", "outvars", "_effects", "__weakref__")

    def __init__(self, constvars: Sequence[Var], invars: Sequence[Var], eqns: Sequence[Eqn], outvars: Sequence[Atom]):
        self.constvars, self.invars = list(constvars), list(invars)
        self.eqns, self.outvars = list(eqns), list(outvars)
        self._effects: Effects | None = None

    @property
    def effects(self) -> Effects:
        """The effects of the equations."""
        if self._effects is None:
            self._effects = _effects_of(self)
        return self._effects

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        return tuple([v.aval for v in self.invars])

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        return tuple([v.aval for v in self.outvars])

    @property
    def debug_info(self) -> DebugInfo:
        return DebugInfo.unknown(self)

    # JAX 0.12 has one class for programs with and without constants, so both classes here have the same attributes.

    @property
    def jaxpr(self) -> Jaxpr:
        """The program itself."""
        return self

    @property
    def consts(self) -> list[Any]:
        """Always empty: an open jaxpr carries no constants."""
        return []

    literals = consts

    @property
    def all_invars(self) -> list[Var]:
        """`constvars` and `invars`."""
        return [*self.constvars, *self.invars]

    @property
    def num_consts(self) -> int:
        """The number of `constvars`."""
        return len(self.constvars)

    def with_consts(self, consts: Sequence[Any]) -> ClosedJaxpr:
        """The program with its first inputs fixed to these values."""
        return _with_consts(self, consts)

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> Jaxpr:
        """`f(self)`."""
        return f(self)

    def replace(self, **changed: object) -> Jaxpr:
        """The program with other `constvars`, `invars`, `eqns` or `outvars`."""
        return _changed(self, ("constvars", "invars", "eqns", "outvars"), changed)

    def pretty_print(self, **options: object) -> str:
        """Text of the program; the options are those of `core.printing.pretty_print`."""
        return _pretty_print(self, **options)

    def __str__(self) -> str:
        return _print(self)

    __repr__ = __str__


class ClosedJaxpr:
    """A program with its constants. A call evaluates it: `closed(*args) -> list of results`."""

    __slots__ = ("jaxpr", "consts", "in_avals", "out_avals", "memo", "serial", "__weakref__")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()):
        self.jaxpr, self.consts = jaxpr, list(consts)
        self.in_avals, self.out_avals = jaxpr.in_avals, jaxpr.out_avals
        self.memo: dict = {}                # used by program_cache
        self.serial = next(_serial)

    eqns = property(lambda self: self.jaxpr.eqns)
    effects = property(lambda self: self.jaxpr.effects)
    constvars = property(lambda self: self.jaxpr.constvars)
    invars = property(lambda self: self.jaxpr.invars)
    outvars = property(lambda self: self.jaxpr.outvars)
    all_invars = property(lambda self: self.jaxpr.all_invars)
    num_consts = property(lambda self: len(self.consts))
    literals = property(lambda self: self.consts)
    debug_info = property(lambda self: self.jaxpr.debug_info)

    def with_consts(self, consts: Sequence[Any]) -> ClosedJaxpr:
        """The program with its first inputs fixed to these values."""
        return _with_consts(self.jaxpr, consts)

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """The program `f(self.jaxpr)`, with the same constants."""
        return self.replace(jaxpr=f(self.jaxpr))

    def replace(self, **changed: object) -> ClosedJaxpr:
        """The program with another `jaxpr` or other `consts`."""
        return _changed(self, ("jaxpr", "consts"), changed)

    def __call__(self, *args: ArrayLike) -> list[Any]:
        return eval_jaxpr(self.jaxpr, self.consts, *args)

    def pretty_print(self, **options: object) -> str:
        """Text of the program; the options are those of `core.printing.pretty_print`."""
        return _pretty_print(self, **options)

    def __str__(self) -> str:
        return _print(self)

    __repr__ = __str__


def _with_consts(jaxpr: Jaxpr, consts: Sequence[Any]) -> ClosedJaxpr:
    variables, n = jaxpr.all_invars, len(consts)
    if n > len(variables):
        raise bad("with_consts", "there are more values than inputs", {"values": n, "inputs": len(variables)},
                  "pass at most one value for each input.", exc=ValueError)
    return ClosedJaxpr(jaxpr.replace(constvars=variables[:n], invars=variables[n:]), consts)


@deep
def _effects_of(jaxpr: Jaxpr) -> Effects:
    return NO_EFFECTS.union(*[eqn.effects for eqn in jaxpr.eqns])


Changed = TypeVar("Changed")


def _changed(x: Changed, fields: Sequence[str], changed: dict) -> Changed:
    """A copy of `x` with the fields in `changed` replaced."""
    unknown = sorted(set(changed) - set(fields))
    if unknown:
        raise bad(f"{type(x).__name__}.replace", "there is no such field", {"given": ", ".join(unknown)},
                  f"fields are {', '.join(fields)}.")
    return type(x)(**{name: changed.get(name, getattr(x, name)) for name in fields})


_serial = itertools.count()


def newest(programs: Iterable[ClosedJaxpr]) -> ClosedJaxpr:
    """The newest program. Caches keyed on several programs live on the newest, which is usually freed first."""
    return max(programs, key=lambda closed: closed.serial)


def program_cache(f: Callable) -> Callable:
    """Decorator: cache `f(program, *hashable)` on the program."""
    make = deep(f)

    @functools.wraps(f)
    def cached(program: ClosedJaxpr, *key: Hashable) -> Any:
        full = (f, *key)
        result = program.memo.get(full)
        if result is None:
            result = program.memo[full] = make(program, *key)
        return result

    return cached


def eval_jaxpr(jaxpr: Jaxpr, consts: Iterable[Any], *args: ArrayLike) -> list[Any]:
    """Run a program: bind each operation in the current trace, with the source position of its equation."""
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    saved = context.source
    try:
        for eqn in jaxpr.eqns:
            ins = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            context.source = eqn.source
            out = eqn.primitive.bind(*ins, **eqn.params)
            if eqn.primitive.multiple_results:
                env.update(zip(eqn.outvars, out, strict=True))
            else:
                env[eqn.outvars[0]] = out
    finally:
        context.source = saved
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def dce(jaxpr: Jaxpr, used_outputs: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """Drop unused outputs, and equations that have no effects and no used results.

    Returns: the program, and for each input whether it is still used.
    """
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live = {v for v in outvars if type(v) is Var}
    eqns = []
    for eqn in reversed(jaxpr.eqns):
        if not live.isdisjoint(eqn.outvars) or eqn.effects:
            eqns.append(eqn)
            live.update(v for v in eqn.invars if type(v) is Var)
    kept = Jaxpr(jaxpr.constvars, jaxpr.invars, eqns[::-1], outvars)
    return kept, [v in live for v in jaxpr.invars]


def called_by(eqn: Eqn) -> str:
    """The parameter of a call that holds its program."""
    calls = eqn.primitive.calls
    assert calls is not None, f"{eqn.primitive} is not a call"
    return calls.param


def is_plain_call(eqn: Eqn) -> bool:
    calls = eqn.primitive.calls
    return calls is not None and calls.plain and not eqn.params[calls.param].consts


@program_cache
def inlined(closed: ClosedJaxpr, is_call: Callable[[Eqn], bool] = is_plain_call) -> ClosedJaxpr:
    """The program with calls of jitted functions written out, for callers that inspect individual equations.

    Args: is_call: selects the equations to write out; each must compute the results of the program in its parameters.
    """
    if not any(is_call(eqn) for eqn in closed.jaxpr.eqns):
        return closed
    new: dict[Var, Any] = {}
    eqns: list = []

    def atom(v: Atom) -> Atom:
        return v if type(v) is Literal else new.get(v, v)

    def write(j: Jaxpr) -> None:
        for eqn in j.eqns:
            ins = [atom(v) for v in eqn.invars]
            if not is_call(eqn):
                outs = [Var(v.aval) for v in eqn.outvars]
                eqns.append(Eqn(ins, outs, eqn.primitive, eqn.params, eqn.source))
                new.update(zip(eqn.outvars, outs, strict=True))
                continue
            inner = eqn.params[called_by(eqn)].jaxpr
            new.update(zip(inner.invars, ins, strict=True))
            write(inner)
            new.update(zip(eqn.outvars, [atom(v) for v in inner.outvars], strict=True))

    j = closed.jaxpr
    write(j)
    return ClosedJaxpr(Jaxpr(j.constvars, j.invars, eqns, [atom(v) for v in j.outvars]), closed.consts)


def subjaxprs(params: dict) -> list[Jaxpr]:
    """The programs among the parameters of an equation."""
    programs = []
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, ClosedJaxpr):
                programs.append(item.jaxpr)
            elif isinstance(item, Jaxpr):
                programs.append(item)
    return programs


def programs_in(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """A program and all programs inside it, each once."""
    todo, seen = [jaxpr], {jaxpr}
    while todo:
        program = todo.pop()
        yield program
        inside = [sub for eqn in program.eqns for sub in subjaxprs(eqn.params) if sub not in seen]
        todo += inside
        seen.update(inside)


@deep
def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Assert that a program is well formed: variables are defined once, before use, and typed by the type rules."""
    defined = {*jaxpr.constvars, *jaxpr.invars}
    assert len(defined) == len(jaxpr.constvars) + len(jaxpr.invars), "an input variable occurs twice"
    for eqn in jaxpr.eqns:
        for v in eqn.invars:
            assert type(v) is Literal or v in defined, f"{eqn.primitive} reads an undefined variable"
        out = eqn.primitive.out_type(tuple(v.aval for v in eqn.invars), eqn.params)
        outs = out if eqn.primitive.multiple_results else (out,)
        for v, aval in zip(eqn.outvars, outs, strict=True):
            assert v not in defined, f"{eqn.primitive} defines a variable twice"
            assert v.aval.strong() is aval.strong(), f"{eqn.primitive}: {v.aval} recorded, {aval} by its rule"
            defined.add(v)
        for sub in subjaxprs(eqn.params):
            check_jaxpr(sub)
    for v in jaxpr.outvars:
        assert type(v) is Literal or v in defined, "an output variable is undefined"


_print: Callable[[Any], str] = object.__repr__
_print_eqn: Callable[[Eqn], str] = object.__repr__
_pretty_print: Callable[..., str] = object.__repr__


def set_printer(printer: Callable[[Any], str], eqn_printer: Callable[[Eqn], str], pretty: Callable[..., str]) -> None:
    """Set the functions that print programs and equations; called by `core.printing`."""
    global _print, _print_eqn, _pretty_print
    _print, _print_eqn, _pretty_print = printer, eqn_printer, pretty
