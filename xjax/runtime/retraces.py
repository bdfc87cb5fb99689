"""Repeated traces of a function: the reason, the warning, and the options that refuse or log traces.

`Call.note` runs before each trace of a jitted or mapped function. Traces are counted for each line of the user's code
that calls the function. After `MOST` repeated traces in one line, one warning names the last change and its remedy.
Functions made by one piece of code, such as a lambda in a loop, count as one function. A line's record keeps no value
of the user alive: closed-over values are stored as short texts.

Not counted are traces inside other programs, by `lower`, `trace` and `eval_shape`, and of functions that xjax or xnn
call for purposes of their own. Several functions made by one piece of code are not counted together if all are alive,
or if they call different functions.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from xjax.core.calls import argument_names, leaf_names
from xjax.core.config import TRACED, config
from xjax.core.context import context
from xjax.core.errors import RetraceWarning, advise, bad, calling_frame, location_text
from xjax.core.staging import StagingTrace
from xjax.core.tree import PyTreeDef, keystr, skeleton, tree_differences
from xjax.core.types import ShapedArray
from xjax.runtime.programs.compile_log import logger
from xjax.runtime.static_args import StaticArguments

MOST = 5                                    # repeated traces in one line before the warning

Reason = tuple[Mapping[str, str], str]      # differences, as old -> new, and the fix


class Call(NamedTuple):
    """A call that must be traced.

    Attributes:
      caller: "jit `f`", for messages.
      key: (tree, types, static values, static parameters, trace key, named axes).
      known: a function that returns the keys of the existing traces of `fun`.
      is_first: this `jit` or `pmap` has not traced anything so far.
    """

    caller: str
    fun: Callable
    static: StaticArguments
    key: tuple
    known: Callable[[], Sequence[tuple]]
    is_first: bool

    def note(self, is_counted: bool) -> None:
        """Refuse, log or count the trace.

        Args: is_counted: False for traces that the user requests, such as `jit(f).lower(x)`, and of library functions.
        Raises: RuntimeError under the options no_tracing and only_first_traces.
        """
        refused = config.no_tracing or config.only_first_traces
        if not refused and not config.explain_cache_misses and (not is_counted or _is_inside_program()):
            return
        frame = calling_frame()
        line = None if frame is None else _record(frame, self.fun)
        made = None if line is None or line.fun() is self.fun else _closure(self.fun)
        reason = self._reason(line, made)
        if refused and (reason is not None or config.no_tracing):
            raise self._refusal(reason and reason())
        if config.explain_cache_misses:
            self._log(frame, reason and reason())
        if line is None:
            return
        is_counted = is_counted and not _is_inside_program()
        if line.add(self, made, is_counted, reason is not None) == MOST and reason is not None:
            advise(str(self._warning(frame, reason())), RetraceWarning)

    def _reason(self, line: _Line | None, made: Closure | None) -> Callable[[], Reason] | None:
        """A function that explains a repeated trace; None for the first one.

        Args: made: the closure of the function, if the line called another function before.
        """
        if known := self.known():
            return lambda: self._differences(max(reversed(known), key=lambda other: _likeness(self.key, other)))
        if line is None or not line.seen:
            return None
        if made is not None:
            of_new = functools.partial(_of_new_function, self.fun, line.closure, made)
            return of_new if line.is_made_again(self.fun, made) else None
        transform = self.caller.partition(" ")[0]
        return lambda: _of_new_transform(transform) if self.is_first else _DROPPED

    def _refusal(self, reason: Reason | None) -> RuntimeError:
        option = "no_tracing" if config.no_tracing else "only_first_traces"
        if reason is not None:
            return bad(self.caller, f"would be traced again, in a block of no_retrace (option jax_{option})", *reason,
                       RuntimeError)
        types = ", ".join(a.str_short() for a in self.key[1])
        return bad(self.caller, f"would be traced, in a block of no_retrace (option jax_{option})",
                   {"arguments": types},
                   "call it with arguments of these types before the block, or allow first traces: "
                   "xjax.no_retrace(allow_first=True).", RuntimeError)

    def _log(self, frame: FrameType | None, reason: Reason | None) -> None:
        what = "for the first time" if reason is None else "again; differences from the closest earlier trace:"
        given, fix = reason or ({}, None)
        logger.warning("%s", bad(f"{self.caller} at {_line_of(frame)}", f"is traced {what}", given, fix))

    def _warning(self, frame: FrameType | None, reason: Reason) -> Exception:
        given, fix = reason
        return bad(f"{self.caller} at {_line_of(frame)}",
                   f"traced again, {MOST} times so far; each trace compiles a program. The last change:", given,
                   f"{fix} If each program is needed, turn this warning off: "
                   'warnings.filterwarnings("ignore", category=xjax.errors.RetraceWarning).')

    # -- differences from an earlier trace ------------------------------------------------------------------------

    def _differences(self, old: tuple) -> Reason:
        """The differences, as old -> new, and how to avoid the first of them."""
        tree, avals, static, _, options, axes = self.key
        given, fixes = {}, []
        if tree != old[0]:
            given |= self._changes_of_structure(old[0])
            fixes.append("pass arguments of one structure: the same keys, lengths and keywords, None in the same "
                         "places.")
        else:
            names = _leaf_names(self.fun, tree, self.static)
            changed = {name: (a, b) for name, a, b in zip(names, old[1], avals, strict=True) if a is not b}
            given |= {f"argument `{name}`": f"{_type_text(a)} -> {_type_text(b)}" for name, (a, b) in changed.items()}
            if changed:
                fixes.append(_fix_of_types(list(changed.items())))
        if static != old[2]:
            changed = {self._static_name(which): pair for which, pair in _static_changes(old[2], static).items()}
            given |= {f"static argument {name}": _change_of_static(a, b) for name, (a, b) in changed.items()}
            fixes += [_fix_of_static(name, a, b) for name, (a, b) in changed.items()]
        if options is not old[4]:
            changed = {n: (a, b) for n, a, b in zip(TRACED, old[4].values, options.values, strict=True) if a != b}
            given |= {n if n == "mesh" else f"option {n}": f"{a!r} -> {b!r}" for n, (a, b) in changed.items()}
            fixes.append("always call the function under the same current mesh." if "mesh" in changed else
                         "set options once, at start-up.")
        if axes != old[5]:
            given["named axes"] = f"{old[5]} -> {axes}"
            fixes.append("always call the function under the same named axes.")
        return given, fixes[0] if fixes else ""

    def _changes_of_structure(self, old: PyTreeDef) -> dict[str, str]:
        args, _ = skeleton(self.key[0])
        names = argument_names(self.fun, args, {}, self.static.nums)
        changes = {}
        for path, before, now in tree_differences(old, self.key[0]):
            if len(path) < 2:
                name = ("positional arguments", "keyword arguments")[path[0].idx] if path else "arguments"
            else:
                of_argument = path[0].idx == 0
                name = names[path[1].idx] if of_argument else path[1].key
                name = f"argument `{name}{keystr(path[2:])}`"
            changes[name] = f"{before} -> {now}"
        return changes

    def _static_name(self, which: int | str) -> str:
        if isinstance(which, str):
            return f"`{which}`"
        parameters = [] if self.static.signature is None else list(self.static.signature.parameters)
        return f"`{parameters[which]}`" if which < len(parameters) else str(which)


def _of_new_transform(transform: str) -> Reason:
    return ({transform: f"a new {transform} of the same function"},
            f"call {transform} once, outside the loop, and keep its result.")


_DROPPED: Reason = ({"program": "it was dropped from the cache"},
                    "raise the bound of compiled programs: xjax.config.update('jax_compiled_memory_limit', bytes).")


def _likeness(key: tuple, other: tuple) -> tuple:
    same = [a == b for a, b in zip(key, other, strict=True)]
    alike = -1
    if same[0]:
        alike = sum((a.shape == b.shape) + (a.dtype == b.dtype) + (a.weak_type == b.weak_type)
                    for a, b in zip(key[1], other[1], strict=True))
    options = sum(a == b for a, b in zip(key[4].values, other[4].values, strict=True))
    return sum(same), alike, options


def _leaf_names(fun: Callable, tree: PyTreeDef, static: StaticArguments) -> list[str]:
    return leaf_names(fun, *skeleton(tree), static.nums)


def _type_text(aval: ShapedArray) -> str:
    return aval.str_short() + (" weakly typed" if aval.weak_type else "")


def _fix_of_types(changed: Sequence[tuple[str, tuple[ShapedArray, ShapedArray]]]) -> str:
    for name, (a, b) in changed:
        if a.shape != b.shape:
            return f"pad `{name}` to one shape (numpy.pad, and a mask), or to one of a few sizes."
    for name, (a, b) in changed:
        if a.dtype != b.dtype:
            return f"convert `{name}` to one dtype before the call: {name}.astype(...)."
    name = changed[0][0]
    return f"always pass `{name}` as an array, numpy.asarray({name}, dtype), or always as a Python number."


_NOT_PASSED = type("NotPassed", (), {"__repr__": lambda self: "not passed"})()


def _static_changes(old: tuple | None, new: tuple | None) -> dict[int | str, tuple[Any, Any]]:
    """(old, new) values of each static argument that changed, by its position or name."""
    before, now = (dict(zip(key[1], key[2], strict=True)) if key else {} for key in (old, new))
    both = {which: (before.get(which, _NOT_PASSED), now.get(which, _NOT_PASSED)) for which in {**before, **now}}
    return {which: (a, b) for which, (a, b) in both.items() if type(a) is not type(b) or a != b}


def _first_difference(a: object, b: object) -> tuple[object, object]:
    """The first items that differ, of two tuples; the values themselves if they are not tuples of one length."""
    while type(a) is tuple and type(b) is tuple and len(a) == len(b):
        a, b = next(((x, y) for x, y in zip(a, b, strict=True) if type(x) is not type(y) or x != y), (None, None))
    return a, b


def _change_of_static(old: object, new: object) -> str:
    texts = _text(old), _text(new)
    if texts[0] == texts[1] or any(text.endswith("...") for text in texts):
        old, new = _first_difference(old, new)
    return _change(_text(old), _text(new))


def _fix_of_static(name: str, old: object, new: object) -> str:
    if isinstance(new, (bool, int, float, complex, np.generic)):
        return f"if {name} is a number to compute with, pass it as an array: drop it from static_argnums."
    old, new = _first_difference(old, new)
    if type(old) is type(new) and type(new).__eq__ is object.__eq__:
        return (f"create the value of {name} once, outside the loop: objects of type {type(new).__name__} are compared "
                "by identity.")
    return f"each value of {name} is a program of its own: pass few different values, or arrays that are not static."


def _text(value: object) -> str:
    """A short text of a value; of an array, its type."""
    kind = type(value)
    if isinstance(aval := getattr(value, "aval", None), ShapedArray):
        return _type_text(aval)
    if isinstance(value, np.ndarray):
        return f"ndarray {value.dtype}{list(value.shape)}"
    if kind in (list, dict, set, tuple) and len(value) > 8:
        return f"{kind.__name__} of {len(value)}"
    try:
        text = repr(value)
    except Exception:                       # the user's __repr__
        return kind.__name__
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _change(old: str, new: str) -> str:
    return f"{old} -> {new}" if old != new else f"{old} -> another one"


# -- functions made again by the same code ------------------------------------------------------------------------

Closure = dict[str, tuple[Any, str]]        # name, as it is shown -> identity of the value, short text of it
_MOST_FUNCTIONS = 8                         # functions whose closures are read for one trace


def _wrapped(fun: object) -> Iterator[Any]:
    """The function, and the functions that it wraps, from the outside to the inside."""
    for _ in range(16):                     # an object may claim to wrap itself
        yield fun
        if isinstance(fun, functools.partial):
            fun = fun.func
        elif isinstance(fun, MethodType):
            fun = fun.__func__
        else:
            fun = getattr(fun, "__wrapped__", None)
        if fun is None:
            return


def _codes(fun: object) -> tuple[CodeType, ...]:
    """The code of a function (of an object, that of its method `__call__`), and of the functions that it wraps."""
    functions = [f if hasattr(f, "__code__") else type(f).__call__ for f in _wrapped(fun) if callable(f)]
    return tuple([f.__code__ for f in functions if isinstance(getattr(f, "__code__", None), CodeType)])


def _closure(fun: Callable) -> Closure:
    """The values that a function reads besides its arguments, and the values that functions among these read.

    These are its closure, defaults, bound arguments and global variables. Nothing is kept alive. Functions made by one
    piece of code have one identity.
    """
    values: Closure = {}
    functions = [(fun, "")]
    for f, owner in functions:
        for name, x in _held_by(f).items():
            is_function = isinstance(x, _FUNCTIONS) or (callable(x) and hasattr(x, "__wrapped__"))
            values.setdefault(name + owner, (_identity(x, is_function), _brief(x)))
            if is_function and name[:6] != "global" and len(functions) < _MOST_FUNCTIONS:
                functions.append((x, f" of {_plain(name)}"))
    return values


_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, functools.partial, type, np.ufunc)


def _identity(x: object, is_function: bool) -> object:
    if is_function:
        return _Codes(map(id, _codes(x) or (x,)))
    if isinstance(x, (bool, int, float, complex, str)):
        return x
    try:
        return weakref.ref(x)               # not id(x), which may be that of an earlier value
    except TypeError:
        return id(x)


def _is_same(a: object, b: object) -> bool:
    """Whether two identities are those of one value; a living object has one reference."""
    return a is b or (type(a) is type(b) and not isinstance(a, weakref.ref) and a == b)


class _Codes(tuple[int, ...]):
    """The identity of a function: the ids of its codes."""


def _held_by(fun: object) -> dict[str, Any]:
    """The values that one function holds, by the name that is shown."""
    held: dict[str, Any] = {}
    last = fun
    for last in _wrapped(fun):
        if isinstance(last, functools.partial):
            held |= {f"bound argument {i}": x for i, x in enumerate(last.args)}
            held |= {f"bound argument `{name}`": x for name, x in last.keywords.items()}
        elif isinstance(last, MethodType):
            held["object"] = last.__self__
    if not isinstance(last, FunctionType):
        return held
    code, defaults = last.__code__, last.__defaults__ or ()
    for name in code.co_names:
        x = last.__globals__.get(name)
        if x is not None and not isinstance(x, ModuleType):
            held[f"global `{name}`"] = x
    for name, cell in zip(code.co_freevars, last.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):           # a variable without a value so far
            held[f"closure `{name}`"] = cell.cell_contents
    parameters = code.co_varnames[:code.co_argcount][-len(defaults):] if defaults else ()
    named = {**dict(zip(parameters, defaults, strict=True)), **(last.__kwdefaults__ or {})}
    return held | {f"default of `{name}`": x for name, x in named.items()}


def _plain(name: str) -> str:
    """The name without the kind of the value: "`x`" for "closure `x`"."""
    return name[name.find("`"):] if "`" in name else f"the {name}"


def _brief(value: object) -> str:
    """As `_text`, but without the user's `__repr__`, which may be slow."""
    plain = isinstance(value, (bool, int, float, complex, str, np.generic, np.ndarray, type(None)))
    if plain or isinstance(getattr(value, "aval", None), ShapedArray):
        return _text(value)
    name = getattr(value, "__name__", None)
    return f"{type(value).__name__} {name}" if isinstance(name, str) else f"a {type(value).__name__}"


def _of_new_function(fun: Callable, old: Closure, new: Closure) -> Reason:
    code = _codes(fun)[-1]
    given = {"function": f"a new object, made by the same code at {Path(code.co_filename).name}:{code.co_firstlineno} "
                         "as a function that was traced before"}
    changed = {name: _change(old[name][1], text) for name, (identity, text) in new.items()
               if name in old and not _is_same(old[name][0], identity)}
    fix = "define the function once, outside the loop or function that calls it"
    if changed:
        passed = " and ".join(map(_plain, changed))
        fix += f"; pass {passed} as {'an argument' if len(changed) == 1 else 'arguments'}"
    return given | changed, f"{fix}."


# -- the records --------------------------------------------------------------------------------------------------

class _Line:
    """The traces of one function (or of functions made by one piece of code) that one line of the user's code caused.

    Attributes:
      fun: a reference to the function that was traced last.
      owner: a reference to its object, if it is a bound method; else the same.
      closure: see `_closure`.
      seen: hashes of the keys of its traces.
      repeated: the number of counted traces except the first; -1 before it.
      test: the test of pytest that runs; each test is counted as a program of its own.
    """

    __slots__ = ("fun", "owner", "closure", "seen", "repeated", "test")

    def __init__(self, test: str | None) -> None:
        self.fun: Callable[[], Any] = _nothing
        self.owner: Callable[[], Any] = _nothing
        self.closure: Closure = {}
        self.seen: set[int] = set()
        self.repeated, self.test = -1, test

    def is_made_again(self, fun: Callable, made: Closure) -> bool:
        """Whether `fun` replaces the function traced last: that one is gone, or is a method of the same object.

        False if the two call different functions: they are two programs.
        """
        before = self.owner()
        if before is not None and before is not _owner(fun):
            return False
        pairs = [(self.closure[name][0], identity) for name, (identity, _) in made.items() if name in self.closure]
        return all(_is_same(a, b) for a, b in pairs if isinstance(a, _Codes) or isinstance(b, _Codes))

    def add(self, call: Call, made: Closure | None, is_counted: bool, is_repeated: bool) -> int:
        """Record a trace.  Returns: the number of repeated traces; 0 if this one is not counted."""
        fun, token = call.fun, hash(call.key)
        if made is None:
            is_counted = is_counted and (call.is_first or token not in self.seen)   # else dropped from the cache
        else:
            self.fun, self.owner = _reference(fun), _reference(_owner(fun))
            self.closure, self.seen = made, set()
        self.seen.add(token)
        if not is_counted or not (is_repeated or self.repeated < 0):
            return 0
        self.repeated += 1
        return self.repeated


# Code of the calling function -> (instruction, codes of the function and the functions that it wraps) -> record.
_lines: weakref.WeakKeyDictionary[CodeType, dict[tuple, _Line]] = weakref.WeakKeyDictionary()


def _record(frame: FrameType, fun: Callable) -> _Line | None:
    """The record of the line that a frame executes; None for a function without Python code."""
    codes = _codes(fun)
    if not codes:
        return None
    lines, test = _lines.setdefault(frame.f_code, {}), os.environ.get("PYTEST_CURRENT_TEST")
    line = lines.get((frame.f_lasti, *codes))
    if line is None or line.test != test:
        line = lines[frame.f_lasti, *codes] = _Line(test)
    return line


def forget_traces() -> None:
    """Drop all records: the next trace of each function is its first one again."""
    _lines.clear()


def _owner(fun: Callable) -> object:
    """The object of a bound method, else the function."""
    *_, last = [f for f in _wrapped(fun) if isinstance(f, MethodType)] or [None]
    return fun if last is None else last.__self__


def _reference(x: object) -> Callable[[], Any]:
    try:
        return weakref.ref(x)
    except TypeError:
        return _nothing


def _nothing() -> None:
    return None


def _is_inside_program() -> bool:
    """Whether a program is being recorded: then a trace only adds to it."""
    trace: Any = context.trace
    while trace is not None:
        if isinstance(trace, StagingTrace):
            return True
        trace = getattr(trace, "parent", None)
    return False


def _line_of(frame: FrameType | None) -> str:
    return "an unknown line" if frame is None else location_text((frame.f_code, frame.f_lasti))


# -- inspection ---------------------------------------------------------------------------------------------------

class CacheInfo(NamedTuple):
    """The traces and programs of a jitted function; see `jit(f).cache_info()`.

    Attributes:
      traces: how often this `jit` traced the function.
      programs: the number of cached traced programs; all `jit`s of a function share them.
      executables: the number of cached executables: one for each program and placement of the arguments.
      signatures: the argument types and static values of each cached program, as text.
    """

    traces: int
    programs: int
    executables: int
    signatures: tuple[str, ...]


def signature_text(fun: Callable, key: tuple, static: StaticArguments) -> str:
    """The argument types and static values of a traced program: ``(x: f32[3], n=2)``."""
    tree, avals, values = key[:3]
    parts = [f"{name}: {_type_text(a)}" for name, a in zip(_leaf_names(fun, tree, static), avals, strict=True)]
    names = list(inspect.signature(fun).parameters) if static.signature is not None else []
    for which, value in zip(values[1], values[2], strict=True) if values else ():
        name = names[which] if isinstance(which, int) and which < len(names) else which
        parts.append(f"{name}={_text(value)}")
    return f"({', '.join(parts)})"
