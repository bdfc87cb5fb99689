"""Errors: the classes, the builder of messages, and the position in the user's code.

Every message has the same form (built by `bad`, raised by the caller)::

    lax.dot_general: contracting dimensions differ in size.
      lhs  f32[8,16]   contracts axis 1, size 16
      rhs  f32[32,4]   contracts axis 0, size 32
      fix: transpose rhs, or pass dimension_numbers=(((1,), (1,)), ((), ())).

The classes have the names of `jax.errors`, so that an `except` clause written for JAX catches the same errors.
"""

import difflib
import itertools
import logging
import os
import reprlib
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FrameType, TracebackType
from typing import TypeVar

import numpy as np

from xjax.core.context import context

# The position of a line of the user's code; see `user_location`.
Source = tuple[CodeType, int] | tuple[CodeType, int, str]


class JAXTypeError(TypeError):
    """A value was used in a way that its type does not allow."""


class JAXIndexError(IndexError):
    """An index is invalid."""


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where a concrete number is needed during tracing."""


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used in ``bool()``, ``if`` or ``while``."""


class TracerIntegerConversionError(JAXTypeError):
    """A traced value was used as a Python integer: ``range(x)``, ``items[x]``."""


class TracerArrayConversionError(JAXTypeError):
    """A traced value was passed to NumPy."""


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index: the result has no static shape."""


class UnexpectedTracerError(JAXTypeError):
    """A traced value was used after the end of the traced function that it belongs to."""


class KeyReuseError(JAXTypeError):
    """A random key was used twice."""


class TypePromotionError(ValueError):
    """The dtypes of the inputs have no common dtype without an explicit cast."""


class DeletedArrayError(RuntimeError, ValueError):
    """An array was used after it was donated or deleted: a RuntimeError in JAX, a ValueError in calls of JAX 0.10."""


class RetraceWarning(UserWarning):
    """A jitted function is traced and compiled again and again by one line of the program."""


EscapedTracerError = UnexpectedTracerError


Raised = TypeVar("Raised", bound=Exception)


class InconclusiveDimensionOperation(Exception):
    """A comparison of symbolic dimensions whose result depends on the values of their variables."""


def bad(
    caller: str,
    what: str,
    given: Mapping[str, object] | Iterable[str] | None = None,
    fix: str | None = None,
    exc: type[Raised] = TypeError,
) -> Raised:
    """Build (not raise) an error in the house form.

    Args:
      caller: the public function or argument, as the user writes it: ``"lax.dot_general"``.
      what: a description of the error in plain words; a missing final full stop is added.
      given: the values that were passed: a mapping (names are aligned) or formatted lines. A value
        other than a string is shown as its type (``f32[3]``) if it has one, else as a shortened repr.
      fix: an action that works.
      exc: class of the error; it must accept a single string.
    Returns: the exception, ready for ``raise bad(...)``.

    >>> print(bad("numpy.arange", "step is 0", {"start": 0, "step": "i32[]"}, "pass a step != 0."))
    numpy.arange: step is 0.
      start  0
      step   i32[]
      fix: pass a step != 0.
    """
    lines = [f"{caller}: {_sentence(what)}" if caller else _sentence(what)]
    if isinstance(given, Mapping):
        width = max((len(str(name)) for name in given), default=0)
        given = [f"{name!s:<{width}}  {_text(value)}" for name, value in given.items()]
    lines += [_indent(line) for line in given or ()]
    if fix:
        lines.append(_indent(f"fix: {fix}"))
    error = exc("\n".join(lines))
    error.explained = True                  # the message is complete: xjax's own frames would not help the user
    return error


def no_attribute(what: str, x: object, name: str, use: str | None) -> AttributeError:
    """The error for a missing attribute of `x`, with a fix; without one, Python suggests a similar name of `x`."""
    error = AttributeError(f"{what} has no attribute {name!r}" + (f"\n  fix: use {use}." if use else ""))
    error.name, error.obj = name, None if use else x
    error.explained = True
    return error


def did_you_mean(name: str, choices: Iterable[str]) -> str | None:
    """A question with the choice closest to a misspelt name, or None if none is close.

    >>> did_you_mean("enable_x46", ["enable_x64", "disable_jit"])
    "did you mean 'enable_x64'?"
    >>> did_you_mean("zebra", ["enable_x64", "disable_jit"]) is None
    True
    """
    close = closest(name, choices)
    return f"did you mean {close!r}?" if close else None


def check_choice(caller: str, name: str, value: object, choices: Iterable[object], fix: str = "pass one of these.",
                 exc: type[Exception] = ValueError) -> None:
    """Raise an error in the house form, with a list of the choices, unless the value of an argument is one of them.

    Args: name: name of the argument; fix: the advice if none of the choices is close; exc: class of the error.

    >>> check_choice("numpy.convolve", "mode", "ful", ("full", "same", "valid"))
    Traceback (most recent call last):
        ...
    ValueError: numpy.convolve: unknown mode 'ful'.
      choices  'full', 'same', 'valid'
      fix: did you mean 'full'?
    """
    choices = list(choices)
    if value not in choices:
        hint = did_you_mean(value, [one for one in choices if isinstance(one, str)]) if isinstance(value, str) else None
        raise bad(caller, f"unknown {name} {value!r}", {"choices": ", ".join(map(repr, choices))}, hint or fix, exc)


def closest(name: str, choices: Iterable[str]) -> str | None:
    """The choice closest to a misspelt name, or None if none is close."""
    return next(iter(difflib.get_close_matches(name, list(choices), n=1)), None)


def user_frame() -> tuple[str, int, str] | None:
    """(file, line, function) of the innermost frame of the user's code, None if there is none.

    Frames of xjax, xnn, recipes and the standard library do not count as the user's code. Frames of a third-party
    library built on xjax do.
    """
    frame = _user_frame()
    if frame is None:
        return None
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def exclude_file(path: str) -> None:
    """Lines of this file are no longer the user's: positions and warnings name the line that called it.

    Libraries exclude their own files.
    """
    _is_internal_file[path] = _is_of_xjax[path] = True
    _kinds[path] = "passed"


def called_function() -> str:
    """The function of xjax that the user's code called, as written there: `lax.sort`; "" if it is not a public name."""
    frame, called = sys._getframe(1), None
    while frame is not None and frame.f_code.co_filename.startswith(_OURS[0]):
        frame, called = frame.f_back, frame
    if called is None or not called.f_code.co_qualname.isidentifier() or called.f_code.co_name.startswith("_"):
        return ""
    package = called.f_globals["__name__"].split(".")[1]
    prefix = {"ops": "lax", "core": "", "runtime": "", "transforms": ""}.get(package, package)
    return f"{prefix}.{called.f_code.co_name}".lstrip(".")


def user_location() -> Source | None:
    """(code object, instruction) of the innermost frame outside xjax and NumPy; NumPy may call methods of our arrays.

    Inside `named_scope`, the third element is the names of the scopes. The tuple is cheap to create; the line is looked
    up only when it is shown.
    """
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        ours = _is_of_xjax.get(name)
        if ours is None:
            ours = _is_of_xjax[name] = name.startswith((_OURS[0], _NUMPY))
        if not ours:
            scope = context.scope
            return (frame.f_code, frame.f_lasti, scope) if scope else (frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


def is_of_xjax(file: str) -> bool:
    """Whether a source file is one of xjax."""
    return file.startswith(_OURS[0])


def calling_frame() -> FrameType | None:
    """The frame of the user's code that calls a function of xjax directly, such as a jitted one.

    None if other functions of xjax, xnn or recipes call it for purposes of their own, `tree.map` among them.
    In a program without code of the user, it is the innermost frame of a library.
    """
    of_library = None
    for frame in _frames(sys._getframe(1)):
        kind = _kinds.get(frame.f_code.co_filename) or _kind_of(frame.f_code.co_filename)
        if kind == "user":
            return frame
        if kind == "ours":
            return None
        if kind == "library" and of_library is None:
            of_library = frame
    return of_library


def _kind_of(file: str) -> str:
    """Whose code a file has: "user", "library", "ours", or "passed" for files between a caller and its callee."""
    if file.startswith(_OURS):
        kind = "passed" if file.startswith(_INTERPRETERS) and file != _TREE else "ours"
    elif _internal(file) or _is_internal_file.get(file):
        kind = "passed"
    else:
        kind = "library" if any(part in file for part in _LIBRARIES) else "user"
    return _kinds.setdefault(file, kind)


def scope_of(source: Source | None) -> str:
    """The names of the scopes in a result of `user_location`: ``encoder/layer``; "" outside all."""
    return "" if source is None or len(source) == 2 else source[2]


def location_text(source: Source | None) -> str:
    """A result of `user_location` as text: `model.py:31`."""
    if source is None:
        return ""
    code, instruction = source[:2]
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return f"{os.path.basename(code.co_filename)}:{line}"
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def position_text(source: Source) -> str:
    """A result of `user_location` with line, column and the enclosing function: `/home/model.py:31:4 (loss)`."""
    code, instruction = source[:2]
    line, _, column, _ = next(itertools.islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    return f"{code.co_filename}:{line or code.co_firstlineno}:{column or 0} ({code.co_qualname})"


class Advice:
    """Where advice about speed goes: to `warn`, or to Python's logging where a program does not know of xjax.

    JAX gives no such warnings, so a program that turns warnings into errors would fail only here.
    """

    def __init__(self) -> None:
        self.is_logged = False

    def __call__(self, message: str, category: type[Warning] = UserWarning) -> None:
        if self.is_logged:
            logging.getLogger("xjax").warning(message)
        else:
            warn(message, category)


advise = Advice()


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line, however deep inside xjax the warning is raised."""
    frame = _user_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    # With the frame's own registry, a warning is shown once per place, as with warnings.warn.
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__", "<unknown>"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def drop_internal_frames(error: BaseException) -> None:
    """Remove the frames of xjax and xnn from an error's traceback, so that it shows the user's lines.

    An error that `bad` did not build may be a bug of xjax: then the frames after the user's last frame are kept.
    """
    kept, last, entry = [], [], error.__traceback__
    while entry is not None:
        file = entry.tb_frame.f_code.co_filename
        if file.startswith(_OURS[:2]) or (last and file.startswith(_STDLIB)):
            last.append(entry)
        else:
            kept.append(entry)
            last = []
        entry = entry.tb_next
    if not getattr(error, "explained", False):
        kept += last
    traceback = None
    for entry in reversed(kept):
        traceback = TracebackType(traceback, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = traceback


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!", ":")) else f"{text}."


def _indent(line: str) -> str:
    return "  " + line.replace("\n", "\n  ")


def _text(value: object) -> str:
    """The text of a value: a string as it is, an array or aval as its type, anything else as a short repr."""
    if isinstance(value, str):
        return value
    aval = getattr(value, "aval", value)
    str_short: Callable[[], str] | None = getattr(aval, "str_short", None)
    return str_short() if callable(str_short) else _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = 120
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 16


_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OURS = tuple(os.path.join(_ROOT, name) + os.sep for name in ("xjax", "xnn", "recipes"))
_INTERPRETERS = tuple(os.path.join(_OURS[0], name) + os.sep for name in ("compat", "core", "runtime", "transforms"))
_TREE = os.path.join(_OURS[0], "core", "tree.py")
_NUMPY = os.path.dirname(np.__file__) + os.sep
_STDLIB = tuple({sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "platstdlib")})
_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_is_internal_file: dict[str, bool] = {}
_is_of_xjax: dict[str, bool] = {}
_kinds: dict[str, str] = {}


def _user_frame() -> FrameType | None:
    for frame in _frames(sys._getframe(1)):
        file = frame.f_code.co_filename
        internal = _is_internal_file.get(file)
        if internal is None:
            internal = _is_internal_file[file] = _internal(file)
        if not internal:
            return frame
    return None


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _internal(file: str) -> bool:
    if file.startswith("<frozen ") or file.startswith(_OURS):
        return True
    # A plain (not virtual) installation keeps site-packages inside the standard library.
    return file.startswith(_STDLIB) and not any(part in file for part in _LIBRARIES)
