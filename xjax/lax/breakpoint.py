"""`debug.breakpoint`: stop a running program and inspect the variables of the functions that were traced.

Values that exist only when the program runs are arguments of a callback; everything else in a frame is shown as it was
when the function was traced.
"""

from __future__ import annotations

import cmd
import linecache
import os
import pprint
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import IO, Any, NamedTuple

from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.types import typeof
from xjax.lax.callbacks import pure_callback
from xjax.lax.debug_callbacks import Arguments, HostFunction, debug_callback_p
from xjax.ops.identity import stop_gradient
from xjax.typing import PyTree

_XJAX = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_one_at_a_time = threading.Lock()


def breakpoint(*, backend: str | None = None, filter_frames: bool = True, num_frames: int | None = None,
               ordered: bool = False, token: Any = None, **kwargs: Any) -> Any:
    """Open a prompt when the program reaches this point, with the variables of the function and of its callers.

    An expression prints its value; `pp x` pretty-prints it; `u` and `d` move up to the caller and down again; `w` shows
    the current position, `l` the lines around it; `c` continues, `q` ends the program with an error.

    Args:
      backend: "cli" or None.
      filter_frames: leave out functions of xjax.
      num_frames: number of frames to show; None: all.
      ordered: run after all earlier ordered effects.
      token: a tree of arrays, to be used instead of `ordered`; it is returned. The prompt opens when the tree is
        computed, if the result is used.
      kwargs: `stdin` and `stdout`, the files to read commands from and to write to.

    Returns: `token`. Raises: ValueError for another backend, or for `ordered` with a `token`.
    """
    if backend not in (None, "cli"):
        raise bad("debug.breakpoint", "there is no such debugger", given={"backend": repr(backend)},
                  fix='pass backend="cli", or leave it out.', exc=ValueError)
    if ordered and token is not None:
        raise bad("debug.breakpoint", "takes `ordered` or a `token`, not both", fix="leave out ordered=True.",
                  exc=ValueError)
    frames = [f for f in _callers(sys._getframe(1)) if not (filter_frames and f.f_code.co_filename.startswith(_XJAX))]
    frames = frames[:num_frames]
    places = [Place(f.f_code.co_filename, f.f_lineno, f.f_code.co_name, f.f_globals) for f in frames]
    arrays, rest = Arguments.of(tuple(map(_variables, frames)), {}, _is_running)
    hook = HostFunction(lambda *variables: _talk(places, variables, **kwargs), rest)
    if token is None:
        debug_callback_p.bind(*arrays, callback=hook, effect="OrderedDebug" if ordered else "Debug", partitioned=False)
        return None
    leaves, tree = flatten(token)

    def forward(*values: Any) -> Sequence[Any]:
        hook(*values[len(leaves):])
        return values[:len(leaves)]

    values = map(stop_gradient, [*leaves, *arrays])
    return tree_unflatten(tree, pure_callback(forward, [typeof(x) for x in leaves], *values, vmap_method="sequential"))


class Place(NamedTuple):
    """The position of a frame in the source."""

    file: str
    line: int
    function: str
    variables: dict[str, Any]               # of its module


class _Known:
    """The value of a variable that is known while tracing."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _variables(frame: FrameType) -> dict[str, Any]:
    """Local variables of a frame; the frame of a module has only global ones."""
    if frame.f_locals is frame.f_globals:
        return {}
    return {name: value if _is_traced(value) else _Known(value) for name, value in frame.f_locals.items()}


def _is_traced(tree: PyTree) -> bool:
    try:
        leaves, _ = flatten(tree, is_leaf=lambda x: isinstance(x, Iterator))
    except (TypeError, ValueError):         # not a tree: keys that cannot be sorted
        return False
    return any(map(_is_running, leaves))


def _is_running(x: Any) -> bool:
    """Whether a value exists only when the program runs; tracers of transforms that have ended never get one."""
    return isinstance(x, Tracer) and not x.tag.closed


class _Console(cmd.Cmd):
    """The prompt: one command or expression per line."""

    prompt = "(xdb) "

    def __init__(self, places: Sequence[Place], variables: Sequence[dict[str, Any]], stdin: IO[str] | None = None,
                 stdout: IO[str] | None = None):
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self._places, self._variables, self._at = places, variables, 0
        self.intro = f"Stopped in {self._line(0)}"

    def _say(self, text: str) -> None:
        self.stdout.write(f"{text}\n")

    def _line(self, i: int) -> str:
        file, line, function, _ = self._places[i]
        return f"{function} ({file}:{line}): {linecache.getline(file, line).strip()}"

    def _show(self, expression: str, text: Callable[..., Any] = repr) -> None:
        place, local = self._places[self._at], self._variables[self._at]
        try:
            self._say(text(eval(expression, {**place.variables, **local})))
        except Exception as error:
            self._say("*** " + traceback.format_exception_only(error)[-1].strip())

    def _go(self, to: int) -> None:
        self._at = min(max(to, 0), len(self._places) - 1)
        self._say(f"> {self._line(self._at)}")

    def default(self, line: str) -> bool | None:
        return True if line == "EOF" else self._show(line)

    def emptyline(self) -> bool:
        return False

    def do_p(self, arg: str) -> None:
        """p expression: its value."""
        self._show(arg)

    def do_pp(self, arg: str) -> None:
        """pp expression: its value, on several lines if it is long."""
        self._show(arg, pprint.pformat)

    def do_u(self, _: str) -> None:
        """u: up, to the caller."""
        self._go(self._at + 1)

    def do_d(self, _: str) -> None:
        """d: down, to the function that was called."""
        self._go(self._at - 1)

    def do_w(self, _: str) -> None:
        """w: the current position, the caller first."""
        for i in reversed(range(len(self._places))):
            self._say(f"{'>' if i == self._at else ' '} {self._line(i)}")

    def do_l(self, _: str) -> None:
        """l: the lines around the current one."""
        file, line = self._places[self._at][:2]
        for n in range(max(line - 5, 1), line + 6):
            if text := linecache.getline(file, n):
                self._say(f"{n:5} {'->' if n == line else '  '} {text.rstrip()}")

    def do_c(self, _: str) -> bool:
        """c: continue."""
        return True

    def do_q(self, _: str) -> None:
        """q: end the program with an error."""
        raise SystemExit("debug.breakpoint: quit")

    do_up, do_down, do_where, do_bt, do_list = do_u, do_d, do_w, do_w, do_l
    do_continue, do_cont, do_quit, do_exit = do_c, do_c, do_q, do_q


def _talk(places: Sequence[Place], variables: Sequence[dict[str, Any]], **files: Any) -> None:
    shown = [{name: x.value if type(x) is _Known else x for name, x in v.items()} for v in variables]
    with _one_at_a_time:
        _Console(places, shown, **files).cmdloop()
