"""Shared by cond, scan and while_loop: checks with tree paths, and functions that rewrite their programs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from xjax.core import dtypes
from xjax.core.calls import argument_names, function_name
from xjax.core.errors import bad
from xjax.core.flags import Flags, flagged, merge, unflagged
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Var, program_cache
from xjax.core.promotion import lattice_join
from xjax.core.trace import Tracer
from xjax.core.tree import (
    PyTreeDef,
    flatten,
    keystr,
    leaf_paths,
    tree_flatten_with_path,
    tree_mismatch,
    treedef_children,
)
from xjax.core.types import ShapedArray, Vma, typeof
from xjax.core.varying import axes_in_order
from xjax.ops.convert import convert_element_type
from xjax.ops.pvary import vary_to
from xjax.ops.zeros import instantiate
from xjax.transforms.batching import axes_used
from xjax.transforms.linearize import LinearizedProgram, split_program
from xjax.transforms.refs import Ref
from xjax.transforms.refs import typeof as type_of
from xjax.typing import ArrayLike, PyTree

_F = TypeVar("_F", bound=Callable)

# -- arguments ----------------------------------------------------------------------------------------------------

def flat_arrays(caller: str, name: str, tree: PyTree, refs: bool = False) -> tuple[list[Any], Any, list[Any]]:
    """Leaves, structure and types of a tree of arrays; an error names the path of a leaf that is not an array.

    Args: refs: whether leaves may be refs, whose types are `AbstractRef`s.
    """
    leaves, treedef = flatten(tree)
    avals: list[Any] = []
    for i, x in enumerate(leaves):
        try:
            avals.append(typeof(x))
        except TypeError as error:
            if type(x) is Ref and refs:
                avals.append(type_of(x))
                continue
            path = keystr(tree_flatten_with_path(tree)[0][i][0])
            if type(x) is Ref:
                raise bad(caller, f"{name}{path} is a ref, which cannot be passed from step to step, or returned",
                          given={f"{name}{path}": x.ref_type.str_short()}, fix="use the ref from the enclosing scope.",
                          exc=ValueError) from None
            raise bad(caller, f"{name}{path} is not an array", given={f"{name}{path}": f"{type(x).__name__} {x!r:.60}"},
                      fix="pass arrays, numbers, or trees of them; keep other values in a closure.") from error
    return leaves, treedef, avals


def check_callable(caller: str, name: str, f: object) -> None:
    if not callable(f):
        raise bad(caller, f"`{name}` must be a function", given={name: f"{type(f).__name__} {f!r:.60}"},
                  fix="pass the function itself, not its result.")


def takes(**arguments: tuple[str, ...]) -> Callable[[_F], _F]:
    """Decorator of a public function whose parameters are functions: names what they are called with.

    If a call ends with a TypeError, and one of the functions cannot be called with its arguments, this is the error.

    Args: arguments: parameter -> names of the arguments of the function; ("*operands",) for the operands of the call.
    """
    def decorate(f: _F) -> _F:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return f(*args, **kwargs)
            except TypeError:
                for error in _wrong_signatures(f, arguments, args, kwargs):
                    raise error from None
                raise

        return call  # type: ignore[return-value]

    return decorate


def _wrong_signatures(f: Callable, arguments: Mapping[str, tuple[str, ...]], args: Sequence[Any],
                      kwargs: Mapping[str, Any]) -> Iterator[Exception]:
    """The errors for functions among the arguments of `f` that cannot be called as `f` calls them."""
    try:
        passed = inspect.signature(f).bind(*args, **kwargs).arguments
    except TypeError:
        return
    count = len(passed.get("operands", ())) + ("operand" in passed)
    for parameter, names in arguments.items():
        called_with = tuple(f"operand{k}" for k in range(count)) if names == ("*operands",) else names
        functions = passed.get(parameter)
        several = isinstance(functions, list | tuple)
        for i, function in enumerate(functions if several else [functions]):
            if not callable(function):
                return
            try:
                signature = inspect.signature(function)
            except (TypeError, ValueError):     # a builtin without a signature
                continue
            try:
                signature.bind(*called_with)
            except TypeError as error:
                name = f"{parameter}[{i}]" if several else parameter
                yield bad(f.__name__, f"`{name}` does not take its arguments: {error}",
                          given={name: f"{function_name(function)}{signature}",
                                 "called with": ", ".join(called_with) or "no arguments"},
                          fix=f"give it these parameters: ({', '.join(called_with)}).")


def is_known(x: ArrayLike) -> bool:
    """Whether the value is known now, so that Python can branch on it."""
    return not isinstance(x, Tracer) or x.concrete() is not None


def parameter_name(f: Callable, position: int, count: int, default: str) -> str:
    """The user's name for a parameter of `f`, for messages."""
    names = argument_names(f, (None,) * count, {})
    return names[position] if len(names) > position and not names[position].startswith("args[") else default


# -- carries ------------------------------------------------------------------------------------------------------

def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether two types are equal apart from weak typing."""
    return a.strong() is b.strong()


def promoted_types(ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> list[ShapedArray]:
    """Types to which start values are converted, so that they agree with the results of the body.

    A weakly typed value takes the result's dtype, so ``scan(lambda c, x: (c + x, None), 0, floats)`` counts in floats.
    In `shard_map` each value varies along all mesh axes along which the result does.
    """
    def promoted(a: ShapedArray, b: ShapedArray) -> ShapedArray:
        if a.weak_type and a.dtype != b.dtype:
            a = a.update(dtype=lattice_join((a.dtype, True), (b.dtype, b.weak_type))[0], weak_type=False)
        return a if b.vma <= a.vma else a.update(vma=a.vma | b.vma)

    return [promoted(a, b) for a, b in zip(ins, outs, strict=True)]


def promote(values: Sequence[Any], types: Sequence[ShapedArray]) -> list[Any]:
    """Start values with the types of `promoted_types`."""
    return [vary_to(x if typeof(x).dtype == a.dtype else convert_element_type(x, a.dtype), a.vma)
            for x, a in zip(values, types, strict=True)]


class LoopWords(NamedTuple):
    """The words for a loop in messages: the user's names of the function and its parameters."""

    caller: str                             # the public function
    body: Callable                          # the user's function
    carry: tuple[int, int, str]             # its parameter: position, number of parameters, name if it has none
    row: tuple[int, int, str] = (1, 2, "x")
    counters: tuple[str, ...] = ()          # come before the user's carry; the first is a parameter of `body`

    @property
    def body_name(self) -> str:
        return function_name(self.body)

    @property
    def carry_name(self) -> str:
        return parameter_name(self.body, *self.carry)

    def users_part(self, treedef: PyTreeDef) -> PyTreeDef:
        """Structure of the part of a carry that the user's function gets."""
        return treedef_children(treedef)[-1] if self.counters else treedef

    def carry_paths(self, treedef: PyTreeDef) -> list[str]:
        counters = [parameter_name(self.body, 0, 2, name) if k == 0 else name for k, name in enumerate(self.counters)]
        return [*counters, *leaf_paths(self.carry_name, self.users_part(treedef))]

    def row_paths(self, treedef: PyTreeDef) -> list[str]:
        return leaf_paths(parameter_name(self.body, *self.row), treedef)


def check_carry_structure(words: LoopWords, expected: PyTreeDef, returned: PyTreeDef) -> None:
    """Raise unless the body returns a carry with the structure of its argument."""
    expected, returned = words.users_part(expected), words.users_part(returned)
    if expected != returned:
        raise bad(words.caller, f"the carry changes structure between input and output of `{words.body_name}`",
                  given=tree_mismatch(words.carry_name, expected, returned),
                  fix="return a carry with the containers of the start value.")


def check_carry(words: LoopWords, treedef: PyTreeDef, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> None:
    """Raise unless the body returns a carry with the types of its argument."""
    rows = [row for row in zip(words.carry_paths(treedef), ins, outs, strict=True) if not same_type(*row[1:])]
    if not rows:
        return
    path, a, b = rows[0]
    if a.shape == b.shape:
        short = dtypes.short_name(a.dtype)
        article = "an" if b.dtype.name[0] in "aeio" else "a"
        fix = f"return {path}.astype({short}), or start from {article} {b.dtype.name} value."
    else:
        fix = f"return {path} with the shape {a.shape}, or start from an array of shape {b.shape}."
    raise bad(words.caller, f"the carry changes type between input and output of `{words.body_name}`",
              given={path: f"in {a.str_short()}   out {b.str_short()}" for path, a, b in rows}, fix=fix)


def fixpoint(start: Sequence[bool], step: Callable[[Flags], Sequence[bool]]) -> Flags:
    """The smallest flags that include `start` and that `step`, the flags after one round, does not extend."""
    flags = tuple(start)
    while True:
        after = tuple(a or b for a, b in zip(flags, step(flags), strict=True))
        if after == flags:
            return flags
        flags = after


def refuse_io(caller: str, programs: Iterable[ClosedJaxpr], what: str, fix: str) -> None:
    """Raise if one of the programs has I/O effects, which must happen exactly as often as the program specifies."""
    if any("io" in closed.jaxpr.effects for closed in programs):
        raise bad(caller, f"io_callback in {what}, where it could run for an untaken branch, or more than once",
                  fix=fix, exc=NotImplementedError)


# -- lists by flags -----------------------------------------------------------------------------------------------

def front(mapped: Iterable[bool]) -> tuple[int | None, ...]:
    """Positions of mapped axes that come first: 0 for a mapped value, else None."""
    return tuple(0 if m else None for m in mapped)


def instantiated(tangents: Iterable[Any], flags: Iterable[bool]) -> list[Any]:
    """The flagged tangents as arrays."""
    return [instantiate(t) for t, flag in zip(tangents, flags, strict=True) if flag]


def refuse_collectives(caller: str, program: ClosedJaxpr, vma: Vma, what: str) -> None:
    """Raise if a program that only some devices run uses collectives along the mesh axes `vma` of the decision.

    Some devices would wait there for others that run another branch.
    """
    used = vma & set().union(*[axes_used(eqn.primitive, eqn.params) for eqn in program.eqns])
    if used:
        axis = axes_in_order(used)[0]
        raise bad(caller, f"{what} differs between the devices along {axis!r}, but the code that it controls "
                  "communicates along this axis: some devices would wait for ever",
                  fix=f"decide on a value that all devices share, such as lax.psum(x, {axis!r}) or lax.pmax; or "
                      "communicate before or after.", exc=ValueError)


# -- programs -----------------------------------------------------------------------------------------------------

def program_of(jaxpr: Jaxpr, invars: Sequence[Var], outvars: Sequence[Any], effects: bool = False) -> ClosedJaxpr:
    """A program of `invars` with the equations that `outvars` need; with `effects`, also all equations with effects."""
    live = {v for v in outvars if type(v) is Var}
    inputs, eqns = set(invars), []
    for eqn in reversed(jaxpr.eqns):
        if (not live.isdisjoint(eqn.outvars) and not inputs.issuperset(eqn.outvars)) or (effects and eqn.effects):
            eqns.append(eqn)
            live.update(v for v in eqn.invars if type(v) is Var)
    return ClosedJaxpr(Jaxpr((), invars, eqns[::-1], outvars))


def dependent_outputs(closed: ClosedJaxpr, flags: Sequence[bool]) -> Flags:
    """Which outputs of a program depend on the flagged inputs."""
    if any(eqn.primitive.split is not None for eqn in closed.jaxpr.eqns):
        return split_program(closed, tuple(flags))[2]       # only some outputs of control flow may depend on them
    dependent = set(flagged(closed.jaxpr.invars, flags))
    for eqn in closed.jaxpr.eqns:
        if any(type(v) is Var and v in dependent for v in eqn.invars):
            dependent.update(eqn.outvars)
    return tuple(type(v) is Var and v in dependent for v in closed.jaxpr.outvars)


@program_cache
def independent_part(closed: ClosedJaxpr, in_flags: Flags, out_flags: Flags) -> ClosedJaxpr:
    """The program from the unflagged inputs to the unflagged outputs, which depend on no other inputs."""
    first, _, dependent = split_program(closed, in_flags)
    j = first.jaxpr
    wanted = unflagged(j.outvars[:dependent.count(False)], unflagged(out_flags, dependent))
    needed = program_of(j, [*j.constvars, *j.invars], wanted)
    return ClosedJaxpr(Jaxpr(j.constvars, j.invars, needed.jaxpr.eqns, wanted), first.consts)


@program_cache
def split_with_forced(closed: ClosedJaxpr, tangent: Flags, forced: Flags) -> tuple[ClosedJaxpr, ClosedJaxpr, Flags]:
    """`split_program`, except that the outputs flagged in `forced` always belong to the second program."""
    first, second, dependent = split_program(closed, tangent)
    f, s = first.jaxpr, second.jaxpr
    wanted = tuple(d or force for d, force in zip(dependent, forced, strict=True))
    count = dependent.count(False)
    independent, residuals = f.outvars[:count], f.outvars[count:]
    moved = flagged(unflagged(wanted, dependent), [True] * count)
    passed = [Var(v.aval) for v in flagged(independent, moved)]
    known = ClosedJaxpr(Jaxpr(f.constvars, f.invars, f.eqns,
                              [*unflagged(independent, moved), *residuals, *flagged(independent, moved)]), first.consts)
    new = iter(passed)
    outs = merge(dependent, s.outvars, [next(new) if force else None for force in moved])
    invars = [*s.invars[:len(residuals)], *passed, *s.invars[len(residuals):]]
    unknown = ClosedJaxpr(Jaxpr(s.constvars, invars, s.eqns, [v for v in outs if v is not None]), second.consts)
    return known, unknown, wanted


def with_all_residuals(lin: LinearizedProgram, count: int) -> ClosedJaxpr:
    """The forward program of a linearization: its `count` outputs, then all residuals, including inputs."""
    j = lin.forward.jaxpr
    computed = iter(j.outvars[count:])
    residuals = [next(computed) if i is None else j.invars[i] for i in lin.forwarded]
    return ClosedJaxpr(Jaxpr(j.constvars, j.invars, j.eqns, [*j.outvars[:count], *residuals]), lin.forward.consts)
