"""The option check_tracer_leaks: at the end of each transform, nested ones too, find leaked traced values and holders.

A traced value is invalid after its function has ended. If an object of the user (a global, an attribute, a list, a
closure) still refers to one, its later use is an error, perhaps far from the cause; this check raises the error
immediately and names the holder. It searches all objects of the process, so it is for debugging only.
"""

from __future__ import annotations

import gc
import re
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xjax.core.config import config
from xjax.core.errors import UnexpectedTracerError, bad
from xjax.core.trace import Tag, Tracer

_DEPTH = 8                      # maximum number of containers between a traced value and a named holder
_OURS = __name__.partition(".")[0] + "."


def check_leaks(tags: Sequence[Tag]) -> None:
    """Raise UnexpectedTracerError if a traced value of the ended interpretations `tags` is held by the user's code."""
    leaked = _held(tags)
    if leaked:
        gc.collect()                                # values that only garbage refers to are not leaks
        leaked = _held(tags)
    if not leaked:
        return
    given = [f"{x.aval.str_short()}, {x.origin()}: held by {holder}" for x, holder in leaked[:5]]
    raise bad(f"check_tracer_leaks: {leaked[0][0].tag.caller}",
              f"Leaked {len(leaked)} traced value{'s' * (len(leaked) > 1)}", given,
              "return the value from the function instead of storing it.", UnexpectedTracerError)


def _held(tags: Sequence[Tag]) -> list[tuple[Tracer, str]]:
    """(traced value of `tags`, text of a named holder), for each value that has one.

    The search starts at the values and follows references backward, one level of containers at a time.
    """
    level = [(x, x, "") for x in gc.get_referrers(*tags) if isinstance(x, Tracer)]     # (object, traced value, path)
    leaked: dict[int, tuple[Tracer, str]] = {}
    locals_of = _locals_on_the_stack()
    seen: set[int] = set()
    for _ in range(_DEPTH):
        level = [step for step in level if id(step[1]) not in leaked]
        seen.update(id(step[0]) for step in level)
        seen.update(map(id, level))                 # the tuples of this search refer to the values too
        for value, x, path in level:
            if id(value) in locals_of and not isinstance(value, types.ModuleType):
                name, frame = locals_of[id(value)]
                leaked[id(x)] = x, f"{name}{path}, a variable of `{frame.f_code.co_name}` ({_line(frame.f_code)})"
        values = [value for value, _, _ in level]
        seen |= {id(values), id(level), id(leaked)}
        owners = [o for o in gc.get_referrers(*values) if id(o) not in seen and not _is_internal(o)]
        above = []
        for owner in owners:
            inside = {id(o) for o in gc.get_referents(owner)}
            for value, x, path in level:
                if id(value) not in inside:
                    continue
                if text := _named(owner, value, path):
                    leaked.setdefault(id(x), (x, text))
                else:
                    above.append((owner, x, _path(owner, value, path)))
        level = above
    return list(leaked.values())


def _locals_on_the_stack() -> dict[int, tuple[str, types.FrameType]]:
    """id of a value -> (name, frame) of a local variable of a running function of the user."""
    variables: dict[int, tuple[str, types.FrameType]] = {}
    frame = sys._getframe(3)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(_OURS) and frame.f_locals is not frame.f_globals:
            for name, value in frame.f_locals.items():
                variables.setdefault(id(value), (name, frame))
        frame = frame.f_back
    return variables


def _is_internal(owner: object) -> bool:
    """Whether an owner is a frame (the stack is searched separately) or an internal object of this library."""
    if isinstance(owner, types.FrameType):
        return True
    # `functools.wraps` gives a function the name of another module.
    is_function = isinstance(owner, types.FunctionType)
    module = owner.__globals__.get("__name__") if is_function else type(owner).__module__   # type: ignore[attr-defined]
    return isinstance(module, str) and module.startswith(_OURS)


def _named(owner: object, value: object, path: str) -> str:
    """Text for an owner that the user can find in the source, else ''."""
    if isinstance(owner, dict):
        name = owner.get("__name__")
        if isinstance(name, str) and getattr(sys.modules.get(name), "__dict__", None) is owner:
            key = next((k for k, v in owner.items() if v is value), "?")
            return f"{key}{path}, a global of module {name}"
    if isinstance(owner, types.FunctionType):
        part = "a default argument" if value is owner.__defaults__ or value is owner.__kwdefaults__ else "the closure"
        return f"{part} of `{owner.__name__}` ({_line(owner.__code__)})"
    if isinstance(owner, types.GeneratorType | types.CoroutineType):
        code = owner.gi_code if isinstance(owner, types.GeneratorType) else owner.cr_code
        return f"a variable of the suspended `{code.co_name}` ({_line(code)})"
    if isinstance(owner, type):
        return f"{owner.__name__}{_path(owner, value, path)}, an attribute of a class"
    if isinstance(owner, BaseException):
        return f"an exception of type {type(owner).__name__}: {_attribute(owner, value)}{path}"
    return ""


def _path(owner: object, value: object, path: str) -> str:
    """The path from `owner` through `value`: `path`, with ``[0]``, ``['k']`` or ``.name`` in front."""
    if getattr(owner, "__dict__", None) is value or (isinstance(owner, type) and isinstance(value, dict)):
        # an item ['name'] of the dictionary is the attribute .name of its owner
        return re.sub(r"^\['(\w+)'\]", r".\1", path)
    if isinstance(owner, dict):
        return next((f"[{k!r}]" for k, v in owner.items() if v is value), "") + path
    if isinstance(owner, (list, tuple)):
        return next((f"[{i}]" for i, v in enumerate(owner) if v is value), "") + path
    name = "" if isinstance(owner, types.CellType) else _attribute(owner, value)
    return (f".{name}" if name else "") + path


def _attribute(owner: object, value: object) -> str:
    """The attribute of `owner` that is `value`; '' if `value` is its dictionary or cannot be named."""
    return next((name for name, v in _attributes(owner) if v is value), "")


def _attributes(owner: object) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(owner, "__dict__", {}).items())
    for kind in type(owner).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(owner, name):
                yield name, getattr(owner, name)
    if isinstance(owner, BaseException):
        yield "args", owner.args


def _line(code: types.CodeType) -> str:
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def _check_closed(tag: Tag) -> None:
    # While an error propagates, its traceback refers to the local variables of the function.
    if config.check_tracer_leaks and sys.exc_info()[0] is None:
        check_leaks((tag,))


def _install() -> None:
    Tag.on_close = _check_closed


config.on_first_use("check_tracer_leaks", _install)
