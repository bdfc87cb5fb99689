"""Options: one table, one object `config`, and context managers for a block or a function.

An option is read as ``config.enable_x64`` or ``config.jax_enable_x64``, set for the process by
``config.update("jax_enable_x64", True)``, by the environment (``JAX_ENABLE_X64``, or
``XJAX_ENABLE_X64``, which wins), and set for one thread in one block by ``with enable_x64():``.

`Config` derives from `threading.local`, which gives the two levels for nothing: class attributes
hold the values of the process, instance attributes are those of the current thread and hide
them. So reading an option is one attribute access. Each option stands there under both names.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xjax.core.errors import bad, did_you_mean

Hook = Callable[[Any, Any], None]


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table: name without prefix, kind of value, default, meaning."""

    name: str
    kind: str  # "bool", "int", "str", "choice", "device"
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    optional: bool = False  # None is allowed and means "not set"
    traced: bool = False  # changes the programs that tracing makes: part of every cache key
    start_up: bool = False  # fixed once a backend runs: no context manager

    @property
    def env(self) -> tuple[str, str]:
        """The environment variables that set this option; the first one found wins."""
        return f"XJAX_{self.name.upper()}", f"JAX_{self.name.upper()}"

    def check(self, value: Any, where: str) -> Any:
        """Return the value to store, or raise TypeError/ValueError that names the option."""
        if value is None and self.optional:
            return None
        if self.kind == "device":
            fits = isinstance(value, str) or hasattr(value, "platform")
        elif self.kind == "int":
            fits = isinstance(value, int) and not isinstance(value, bool)
        else:
            fits = isinstance(value, bool if self.kind == "bool" else str)
        if not fits:
            raise bad(
                where,
                f"jax_{self.name} cannot be set to a {type(value).__name__}",
                {"value": repr(value)},
                f"pass {self._allowed()}.",
            )
        if self.choices and value not in self.choices:
            hint = did_you_mean(value, self.choices)
            raise bad(
                where,
                f"jax_{self.name} has no choice {value!r}",
                {"choices": ", ".join(self.choices)},
                hint or f"pass {self._allowed()}.",
                ValueError,
            )
        return value

    def parse(self, text: str, variable: str) -> Any:
        """Read the value of an environment variable; ValueError names the variable."""
        text = text.strip()
        if self.kind == "bool":
            if text.lower() in _TRUE or text.lower() in _FALSE:
                return text.lower() in _TRUE
        elif self.kind == "int":
            if re.fullmatch(r"[+-]?\d+", text):
                return int(text)
        else:
            if self.optional and text.lower() in ("", "none"):
                return None
            return self.check(text, f"environment variable {variable}")
        raise bad(
            f"environment variable {variable}",
            f"{text!r} is not {_KIND_TEXT[self.kind]}",
            fix=f"set it to {'1 or 0' if self.kind == 'bool' else 'digits only'}, or unset it.",
            exc=ValueError,
        )

    def _allowed(self) -> str:
        text = "one of " + ", ".join(map(repr, self.choices)) if self.choices else ""
        return (text or _KIND_TEXT[self.kind]) + (" or None" if self.optional else "")


_TRUE = frozenset({"y", "yes", "t", "true", "on", "1"})
_FALSE = frozenset({"n", "no", "f", "false", "off", "0"})
_KIND_TEXT = {
    "bool": "True or False",
    "int": "an integer",
    "str": "a string",
    "choice": "a string",
    "device": "a device or the name of a platform",
}

# The names of lax.Precision and of lax.DotAlgorithmPreset.
_PRECISIONS = (
    "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY",
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16",
    "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9",
    "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)  # fmt: skip

_TABLE = (
    Option("enable_x64", "bool", False, "keep 64-bit types; off: they become 32-bit", traced=True),
    Option("platforms", "str", None, "comma list of platforms to start, first one is the default",
           optional=True, start_up=True),
    Option("num_cpu_devices", "int", -1, "CPU devices to make; -1: as XLA_FLAGS says, else 1",
           start_up=True),
    Option("threefry_partitionable", "bool", True,
           "each random bit depends on key and position only", traced=True),
    Option("default_matmul_precision", "choice", None,
           "precision of products and convolutions that do not name one",
           choices=_PRECISIONS, optional=True, traced=True),
    Option("numpy_rank_promotion", "choice", "allow",
           "broadcasting of arrays of different rank", choices=("allow", "warn", "raise"),
           traced=True),
    Option("numpy_dtype_promotion", "choice", "standard",
           "'strict': arrays of different dtype do not mix", choices=("standard", "strict"),
           traced=True),
    Option("disable_jit", "bool", False, "run jitted functions operation by operation", traced=True),
    Option("debug_nans", "bool", False, "stop where a NaN is made", traced=True),
    Option("default_prng_impl", "choice", "threefry2x32", "random bits of new keys",
           choices=("threefry2x32", "rbg", "unsafe_rbg"), traced=True),
    Option("default_device", "device", None, "where new arrays live", optional=True),
    Option("enable_compilation_cache", "bool", True, "keep compiled programs on disk"),
    Option("cache_compiled_functions", "bool", False,
           "keep jitted and mapped functions on disk too, not only single operations"),
    Option("compilation_cache_dir", "str", None, "folder of the cache on disk", optional=True),
)  # fmt: skip

OPTIONS: Mapping[str, Option] = {option.name: option for option in _TABLE}
_TRACED = tuple(option.name for option in _TABLE if option.traced)
_ALIASES = {"platform_name": "platforms"}  # JAX's older name, still common in scripts


class TraceKey:
    """The values of the options that change what tracing makes; equal ones are one object, so hashing is free."""

    __slots__ = ("values",)

    def __init__(self, values: tuple) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"TraceKey{self.values}"


class Config(threading.local):
    """The options. Class attributes: the process; instance attributes: this thread's overrides."""

    # (number of updates seen, key); a thread that overrides an option has a pair of its own.
    _key: tuple[int, tuple] = (-1, ())

    def __setattr__(self, name: str, value: Any) -> None:
        raise bad(
            "config",
            f"an option cannot be assigned (config.{name} = ...)",
            fix=f"call config.update({name!r}, {value!r}).",
            exc=AttributeError,
        )

    def __repr__(self) -> str:
        lines = [f"  jax_{name} = {getattr(self, name)!r}" for name in OPTIONS]
        return "\n".join(["xjax options:", *lines])

    @property
    def values(self) -> dict[str, Any]:
        """All options by their full names, as this thread sees them."""
        return {f"jax_{name}": getattr(self, name) for name in OPTIONS}

    def read(self, name: str) -> Any:
        """The value of an option, by its name with or without ``jax_``.

        >>> config.read("jax_numpy_rank_promotion")
        'allow'
        """
        return getattr(self, _option(name, "config.read").name)

    def update(self, name: str, value: Any) -> None:
        """Set an option for the process (a block that overrides it keeps its own value).

        Raises: AttributeError for an unknown name, TypeError or ValueError for a wrong value,
        and what the registered hooks raise, for example when the backend already runs.
        """
        option = _option(name, "config.update")
        value = option.check(value, "config.update")
        old = getattr(Config, option.name)
        if value != old:
            for hook in _hooks.get(option.name, ()):
                hook(old, value)
        _set_global(option, value)

    def on_update(self, name: str, hook: Hook) -> None:
        """Call ``hook(old, new)`` before an update changes the option; raising refuses it."""
        _hooks.setdefault(_option(name, "config.on_update").name, []).append(hook)

    def trace_key(self) -> TraceKey:
        """The values that change what tracing makes, for cache keys; equal keys are one object."""
        seen, key = self._key
        return key if seen == _updates else self._new_key()

    def _new_key(self) -> TraceKey:
        seen = _updates  # read first: an update that comes meanwhile makes this key stale again
        key = tuple(getattr(self, name) for name in _TRACED)
        key = _KEYS.setdefault(key, TraceKey(key))
        own = self.__dict__
        if any(name in own for name in _TRACED):
            own["_key"] = seen, key
        else:
            own.pop("_key", None)
            Config._key = seen, key
        return key

    def _push(self, name: str, value: Any) -> tuple[Any, Any]:
        """Override an option in this thread; returns what `_pop` needs to restore."""
        own = self.__dict__
        saved = own.get(name, _ABSENT), own.get("_key", _ABSENT)
        own[name] = own["jax_" + name] = value
        own["_key"] = _STALE
        return saved

    def _pop(self, name: str, saved: tuple[Any, Any]) -> None:
        value, key = saved
        own = self.__dict__
        for slot, old in ((name, value), ("jax_" + name, value), ("_key", key)):
            if old is _ABSENT:
                own.pop(slot, None)
            else:
                own[slot] = old


_updates = 0  # process-wide updates so far
_hooks: dict[str, list[Hook]] = {}


def _set_global(option: Option, value: Any) -> None:
    global _updates
    setattr(Config, option.name, value)
    setattr(Config, "jax_" + option.name, value)
    _updates += 1


_KEYS: dict[tuple, tuple] = {}
_ABSENT = object()
_STALE = (-1, ())


class Override:
    """An option set for a ``with`` block or, as a decorator, for each call of a function.

    It acts on the current thread only, nests, and restores the old value on exceptions too.
    """

    __slots__ = ("_option", "_saved", "_value")

    def __init__(self, name: str, value: Any):
        self._option = OPTIONS[name]
        self._value = self._option.check(value, name)
        self._saved: list[Any] = []

    def __enter__(self) -> None:
        self._saved.append(config._push(self._option.name, self._value))

    def __exit__(self, *_exc_info: object) -> None:
        config._pop(self._option.name, self._saved.pop())

    def __call__(self, fun: Callable) -> Callable:
        name, value = self._option.name, self._value

        @functools.wraps(fun)
        def overridden(*args, **kwargs):
            with Override(name, value):  # a fresh one: calls may nest or run in many threads
                return fun(*args, **kwargs)

        return overridden


def enable_x64(value: bool = True) -> Override:
    """Keep 64-bit types in this block.

    >>> with enable_x64():
    ...     config.enable_x64
    True
    >>> config.enable_x64
    False
    """
    return Override("enable_x64", value)


def disable_jit(disable: bool = True) -> Override:
    """Run jitted functions operation by operation in this block, so that prints show values."""
    return Override("disable_jit", disable)


def debug_nans(value: bool = True) -> Override:
    """Stop where a NaN is made."""
    return Override("debug_nans", value)


def numpy_dtype_promotion(mode: str) -> Override:
    """``"strict"``: arrays of different dtype do not mix; ``"standard"``: JAX's lattice."""
    return Override("numpy_dtype_promotion", mode)


def numpy_rank_promotion(mode: str) -> Override:
    """``"allow"``, ``"warn"`` or ``"raise"`` when arrays of different rank are broadcast."""
    return Override("numpy_rank_promotion", mode)


def default_matmul_precision(precision: str | None) -> Override:
    """Precision of products and convolutions that do not name one themselves."""
    return Override("default_matmul_precision", precision)


def threefry_partitionable(value: bool = True) -> Override:
    """Random bits that depend on key and position only (True), or JAX's older stream (False)."""
    return Override("threefry_partitionable", value)


def default_prng_impl(name: str) -> Override:
    """The generator behind keys made in this block."""
    return Override("default_prng_impl", name)


def default_device(device: Any) -> Override:
    """Device (or platform name) for arrays made in this block; None: the backend's first."""
    return Override("default_device", device)


def cpu_device_count(environ: Mapping[str, str] = os.environ) -> int:
    """How many CPU devices to make: the option, else ``XLA_FLAGS``, else 1.

    Raises: ValueError if the number is not positive.

    >>> cpu_device_count({"XLA_FLAGS": "--xla_force_host_platform_device_count=8"})
    8
    """
    count, source = config.num_cpu_devices, "jax_num_cpu_devices"
    if count == -1:
        found = re.findall(_COUNT_FLAG, environ.get("XLA_FLAGS", ""))
        count, source = (int(found[-1]) if found else 1), "XLA_FLAGS"
    if count < 1:
        raise bad(source, f"asks for {count} CPU devices", fix="ask for at least 1.",
                  exc=ValueError)  # fmt: skip
    return count


_COUNT_FLAG = r"(?:^|\s)--xla_force_host_platform_device_count=(-?\d+)(?=\s|$)"


def _option(name: str, where: str) -> Option:
    bare = name.removeprefix("jax_")
    option = OPTIONS.get(_ALIASES.get(bare, bare))
    if option is None:
        raise _unknown(name, where)
    return option


def _unknown(name: str, where: str) -> Exception:
    prefix = "jax_" if name.startswith("jax_") else ""
    hint = did_you_mean(name, [prefix + known for known in OPTIONS])
    return bad(
        where,
        f"there is no option {name!r}",
        fix=hint or "print(config) lists all options.",
        exc=AttributeError,
    )


def _from_environment(option: Option, environ: Mapping[str, str]) -> Any:
    for variable in option.env:
        if variable in environ:
            return option.parse(environ[variable], variable)
    return option.default


def _load(environ: Mapping[str, str]) -> None:
    for option in _TABLE:
        _set_global(option, _from_environment(option, environ))


_load(os.environ)
config = Config()
