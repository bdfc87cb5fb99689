"""Which arguments of a jitted (or pmapped) function are static or donated, by position and by name."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xjax.core.calls import as_argnums, function_name, is_hashable
from xjax.core.errors import bad, did_you_mean
from xjax.core.tree import flatten, skeleton
from xjax.typing import PyTree


def _positions(caller: str, option: str, x: int | Sequence[int] | None) -> tuple[int, ...]:
    """The positions in an option's value: an int, or several."""
    return () if x is None else as_argnums(x, caller, option, f"pass names as {option.replace('nums', 'names')}.")


def _names(caller: str, option: str, x: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names in an option's value: a string, or several."""
    names = () if x is None else (x,) if isinstance(x, str) or not isinstance(x, Iterable) else tuple(x)
    if not all(isinstance(name, str) for name in names):
        raise bad(caller, f"{option} must be a string or a sequence of strings", given={option: repr(x)},
                  fix=f"pass positions as {option.replace('names', 'nums')}.")
    return names


class _Form:
    """How to split the values of a call, for calls with a given number of positional arguments and given keywords.

    Attributes:
      args, static: functions from the tuple of all values to the tuple of dynamic positional values, of static values.
      names: keywords of the dynamic arguments.
      which: position or name of each static argument.
    """

    __slots__ = ("args", "names", "static", "which")

    def __init__(self, count: int, names: Sequence[str], static_nums: Sequence[int], static_names: Sequence[str]):
        nums = [i for i in static_nums if i < count]
        by_name = sorted(name for name in names if name in static_names)
        self.which = (*nums, *by_name)
        self.static = _selector([*nums, *[count + names.index(name) for name in by_name]])
        self.args = _selector([i for i in range(count) if i not in nums])
        self.names = [name for name in names if name not in static_names]


def _selector(places: list[int]) -> Callable[[tuple], tuple]:
    """A function from a tuple to the tuple of its items at some positions."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    start = places[0] if places else 0
    return operator.itemgetter(slice(start, start + len(places)))


class StaticArguments:
    """Separates the static arguments of a call, as a hashable key, and inserts them again for tracing."""

    __slots__ = ("nums", "names", "donate_nums", "donate_names", "donates", "given", "key", "signature", "_caller",
                 "_forms")

    def __init__(self, fun: Callable, nums: int | Sequence[int] | None, names: str | Sequence[str] | None,
                 donate_nums: int | Sequence[int] | None = None, donate_names: str | Sequence[str] | None = None,
                 transform: str = "jit"):
        self._caller = f"{transform} of `{function_name(fun)}`"
        self.signature = _signature(fun)
        parameters = None if self.signature is None else list(self.signature.parameters.values())
        self.nums, self.names = self._complete(nums, names, parameters, "static")
        self.donate_nums, self.donate_names = self._complete(donate_nums, donate_names, parameters, "donate")
        self.donates = bool(self.donate_nums or self.donate_names)
        both = set(self.nums) & set(self.donate_nums) | set(self.names) & set(self.donate_names)
        if both:
            raise bad(self._caller, "an argument cannot be both static and donated", given={"arguments": str(both)},
                      fix="donate arrays only.", exc=ValueError)
        self.given = bool(self.nums or self.names)
        self.key = (self.nums, self.names)
        self._forms: dict[tuple, _Form] = {}

    def _complete(self, nums, names, parameters, what):
        """Positions imply names, and names positions, through the function's signature, unless both are given."""
        both_given = nums is not None and names is not None
        nums = _positions(self._caller, f"{what}_argnums", nums)
        names = _names(self._caller, f"{what}_argnames", names)
        if parameters is None:
            return nums, names
        _check_names(self._caller, what, names, parameters)
        parameters = _positional(parameters)
        count = len(parameters)
        for n in nums:
            if not -count <= n < count and not _takes_any(parameters):
                raise bad(self._caller, f"{what}_argnums names argument {n}, but the function has {count} positional "
                          "parameters", fix=f"use positions from 0 to {count - 1}.", exc=ValueError)
        positive = tuple(sorted({n % count if -count <= n < 0 else n for n in nums}))
        if both_given:
            return positive, names
        from_names = {parameters.index(name) for name in names if name in parameters}
        from_nums = {parameters[n] for n in positive if n < count}
        return tuple(sorted({*positive, *from_names})), tuple(sorted({*names, *from_nums}))

    def take_out(self, args: tuple, kwargs: dict) -> tuple[tuple, dict, tuple | None]:
        """(dynamic args, dynamic kwargs in the order of the call, static key; None if nothing is static).

        Raises: ValueError if a static value is not hashable.
        """
        if not self.given:
            return args, kwargs, None
        form = self._forms.get((len(args), *kwargs))
        if form is None:
            form = self._forms[len(args), *kwargs] = _Form(len(args), [*kwargs], self.nums, self.names)
        call = (*args, *kwargs.values()) if kwargs else args
        values = form.static(call)
        try:
            hash(values)
        except TypeError:
            which, value = next(x for x in zip(form.which, values, strict=True) if not is_hashable(x[1]))
            raise bad(self._caller, f"static argument {which!r} is not hashable",
                      given={"value": f"{type(value).__name__} {value!r:.60}"},
                      fix="pass a hashable value (a tuple instead of a list), or drop it from static_argnums.",
                      exc=ValueError) from None
        # The types are part of the key: 1, 1.0 and True are equal and hash alike.
        key = len(args), form.which, values, (*map(type, values),)
        return form.args(call), {name: kwargs[name] for name in form.names} if form.names else {}, key

    def put_back(self, fun: Callable, key: tuple | None) -> Callable:
        """`fun` as a function of the dynamic arguments only."""
        if key is None:
            return fun
        count, which, values, _ = key
        fixed = dict(zip(which, values, strict=True))
        by_name = {name: value for name, value in fixed.items() if isinstance(name, str)}

        def with_static(*args: object, **kwargs: object) -> Any:
            dynamic = iter(args)
            return fun(*[fixed[i] if i in fixed else next(dynamic) for i in range(count)], **kwargs, **by_name)

        return with_static

    def donated_leaves(self, tree: PyTree) -> list[bool]:
        """For each leaf of the dynamic (args, kwargs), whether it is donated."""
        if not self.donates:
            return [False] * tree.num_leaves
        args, kwargs = skeleton(tree)
        positions = [i for i in range(len(args) + len(self.nums)) if i not in self.nums]
        flags: list[bool] = []
        for i, arg in zip(positions, args, strict=False):
            flags += [i in self.donate_nums] * len(flatten(arg)[0])
        for name in sorted(kwargs):
            flags += [name in self.donate_names] * len(flatten(kwargs[name])[0])
        return flags


def _signature(fun: Callable) -> inspect.Signature | None:
    """The signature of a function; None if it has none."""
    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


def _positional(parameters: Sequence[inspect.Parameter]) -> list[str]:
    """Names of the positional parameters ('*' at the end: any number)."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in kinds]
    return names + ["*"] if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters) else names


def _check_names(caller: str, what: str, names: Sequence[str], parameters: Sequence[inspect.Parameter]) -> None:
    """Raise ValueError for a name that no argument can have."""
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = [p.name for p in parameters if p.kind in kinds]
    for name in names:
        if name not in known:
            raise bad(caller, f"{what}_argnames names {name!r}, but the function has no such parameter",
                      given={"parameters": ", ".join(known) or "none that can be named"},
                      fix=did_you_mean(name, known) or "name parameters of the function.", exc=ValueError)


def _takes_any(parameters: Sequence[str]) -> bool:
    return bool(parameters) and parameters[-1] == "*"
