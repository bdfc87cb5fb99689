"""Random keys that are used twice, for checked mode.

A program reports the words of each key that it uses, by a callback, and a table of this process remembers them. A key
is used by `split` and by drawing numbers. Creating a key, also by `split` or `fold_in`, makes it unused: a seed may be
chosen twice.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.checks.recorder import Recorder, Rule, apply
from xjax.core.context import context
from xjax.core.errors import Source
from xjax.core.jaxpr import Eqn
from xjax.core.primitive import Primitive
from xjax.core.types import typeof
from xjax.lax.debug_callbacks import debug_callback
from xjax.ops.collectives import axis_index
from xjax.ops.keys import random_unwrap
from xjax.random.gamma import random_gamma_p
from xjax.random.generators import random_bits_p, random_fold_in_p, random_split_p
from xjax.typing import ArrayLike

REMEMBERED = 1_000_000          # the number of used keys in the table; older ones are forgotten


class Reuse(NamedTuple):
    """A second use of a key: the line of this use and that of the first one; None: the line of the current call."""

    source: Source | None
    first: Source | None


class _Reports:
    """The reports of a launch on one key: the number of creations, and the line of each use."""

    __slots__ = ("created", "used")

    def __init__(self) -> None:
        self.created = 0
        self.used: list[Source | None] = []


class KeyTable:
    """The keys used so far, by device of the program and words.

    The reports of one launch arrive in any order, since a callback waits for nothing but its arguments. So they are
    counted, and judged when the launch has ended.
    """

    def __init__(self) -> None:
        self._used: dict[tuple, Source | None] = {}
        self._reports: dict[tuple, _Reports] = {}
        self._reuse: Reuse | None = None
        self._lock = threading.Lock()
        self._line: Source | None = None
        self._own_lines = True

    def begin(self, line: Source | None, own_lines: bool) -> None:
        """Before a launch: its line, which is that of uses without a line of their own, or of all uses."""
        with self._lock:
            self._judge()               # of keys that were created eagerly
        self._line, self._own_lines = line, own_lines

    def use(self, place: tuple, words: np.ndarray, source: Source | None) -> None:
        """Note a use of keys, uint32[..., n]."""
        source = source if source and self._own_lines else self._line
        with self._lock:
            for reports in self._of(place, words):
                reports.used.append(source)

    def create(self, place: tuple, words: np.ndarray) -> None:
        """Note that these keys were created."""
        with self._lock:
            for reports in self._of(place, words):
                reports.created += 1

    def take_reuse(self) -> Reuse | None:
        """After a launch: the first use of a key that was used before, if there is one."""
        with self._lock:
            self._judge()
            reuse, self._reuse = self._reuse, None
        return reuse

    def _of(self, place: tuple, words: np.ndarray) -> list[_Reports]:
        if len(self._reports) > REMEMBERED:
            self._judge()
        return [self._reports.setdefault((*place, row.tobytes()), _Reports())
                for row in words.reshape(-1, words.shape[-1])]

    def _judge(self) -> None:
        """Each creation allows one use. A key that was made elsewhere may be used once, unless it was used before."""
        for key, reports in self._reports.items():
            created, used = reports.created, reports.used
            allowed = created or (0 if key in self._used else 1)
            if len(used) > allowed:
                first = used[allowed - 1] if allowed else self._used[key]
                self._reuse = self._reuse or Reuse(used[allowed], first)
            if created:
                self._used.pop(key, None)
            if used and len(used) >= created:
                self._used[key] = used[-1]
        self._reports.clear()
        while len(self._used) > REMEMBERED:
            del self._used[next(iter(self._used))]


TABLE = KeyTable()


def report_created(words: ArrayLike) -> None:
    """Report keys that the program creates, by their words."""
    debug_callback(_created, words, *_place())


def _created(words: ArrayLike, *place: ArrayLike) -> None:
    TABLE.create(tuple(map(int, place)), np.asarray(words))


def _used(source: Source | None, words: ArrayLike, *place: ArrayLike) -> None:
    TABLE.use(tuple(map(int, place)), np.asarray(words), source)


def _place() -> list[Any]:
    """The position of the device along the mapped axes in scope: each device has keys of its own."""
    return [axis_index(axis.name) for axis in context.axes if axis.owner is not None]


def _using(creates: bool, uses: bool = True) -> Rule:
    def rule(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
        recorder.observes = True
        if uses and typeof(args[0]).size:
            debug_callback(functools.partial(_used, context.source), random_unwrap(args[0]), *_place())
        outs = apply(eqn, args)
        if creates and typeof(outs[0]).size:
            report_created(random_unwrap(outs[0]))
        return outs
    return rule


KEY_RULES: dict[Primitive, Rule] = {
    random_bits_p: _using(creates=False), random_gamma_p: _using(creates=False), random_split_p: _using(creates=True),
    random_fold_in_p: _using(creates=True, uses=False)}
