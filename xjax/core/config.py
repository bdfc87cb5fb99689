"""Options: one table, one object `config`, and context managers for a block or a function.

An option is read as ``config.enable_x64`` or ``config.jax_enable_x64``. It is set for the process by
``config.update("jax_enable_x64", True)`` or by the environment (``JAX_ENABLE_X64``, or ``XJAX_ENABLE_X64``, which has
priority), and for one thread in one block by ``with enable_x64():``.

`Config` derives from `threading.local`, which provides both levels: class attributes are the values of the process, and
instance attributes are the values of the current thread, which hide them. So reading an option is one attribute access.
Each option is an attribute under both names.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from xjax.core.context import Context, context, in_scope
from xjax.core.errors import bad, did_you_mean
from xjax.core.options import OPTIONS, Option

Hook = Callable[[Any, Any], None]
# The names of the values of a `TraceKey`, in its order.
TRACED = (*(option.name for option in OPTIONS.values() if option.traced), "mesh", "context_mesh")
_ALIASES = {"platform_name": "platforms"}  # JAX's older name, still common in scripts


class TraceKey:
    """The values of the options that change traced programs; equal keys are one object, hashed by its identity."""

    __slots__ = ("values", "disable_jit")

    def __init__(self, values: tuple) -> None:
        self.values = values
        self.disable_jit = values[TRACED.index("disable_jit")]      # the option, for hot paths

    def __repr__(self) -> str:
        return f"TraceKey{self.values}"


class Config(threading.local):
    """The options. Class attributes are the values of the process, instance attributes this thread's overrides."""

    # The trace key of a thread that overrides a traced option: (number of updates at that time, key).
    _own_key: tuple[int, TraceKey | None] = (-1, None)
    # The mesh of `with mesh:`, and the mesh of `set_mesh` and `use_abstract_mesh`: `runtime.placement.current_mesh`.
    # They are not options, but part of the trace key too: a PartitionSpec in a function names axes of these meshes.
    mesh: Any = None
    context_mesh: Any = None

    def __setattr__(self, name: str, value: object) -> None:
        raise bad(
            "config",
            f"an option cannot be assigned (config.{name} = ...)",
            fix=f"call config.update({name!r}, {value!r}).",
            exc=AttributeError,
        )

    def __getattr__(self, name: str) -> Any:
        raise _unknown(name, "config")

    def __repr__(self) -> str:
        lines = [f"  jax_{name} = {getattr(self, name)!r}" for name in OPTIONS]
        return "\n".join(["xjax options:", *lines])

    @property
    def x64_enabled(self) -> bool:
        """JAX's older name for `enable_x64`."""
        return self.enable_x64

    @property
    def values(self) -> dict[str, Any]:
        """The values of all options in this thread, by their full names."""
        return {f"jax_{name}": getattr(self, name) for name in OPTIONS}

    def read(self, name: str) -> Any:
        """The value of an option, by its name with or without ``jax_``.

        >>> config.read("jax_numpy_rank_promotion")
        'allow'
        """
        return getattr(self, _option(name, "config.read").name)

    def update(self, name: str, value: object) -> None:
        """Set an option for the process; a block that overrides the option keeps its own value.

        Raises: AttributeError for an unknown name, TypeError or ValueError for a wrong value, and the errors of
          registered hooks, for example if the backend is already running.
        """
        option = _option(name, "config.update")
        value = option.check(value, "config.update")
        old = getattr(Config, option.name)
        if value != old:
            for hook in _hooks.get(option.name, ()):
                hook(old, value)
        _set_global(option, value)
        Context.trace_key = _key_of(Config)

    def on_update(self, name: str, hook: Hook) -> None:
        """Call ``hook(old, new)`` before an update changes the option; if the hook raises, the option is unchanged."""
        _hooks.setdefault(_option(name, "config.on_update").name, []).append(hook)

    def on_first_use(self, name: str, install: Callable[[], None]) -> None:
        """Call `install()` once, before the option or `context_mesh` gets another value than its default in any thread.

        An option that acts on a hot path is installed this way, so that it has no cost until it is first used.
        """
        name = name if name in TRACED else _option(name, "config.on_first_use").name
        _installers.setdefault(name, []).append(install)
        _prepare(name, getattr(self, name))

    def trace_key(self) -> TraceKey:
        """The values of the options that change traced programs, for cache keys; equal keys are one object."""
        return context.trace_key or self._overridden_key()

    def config_with_absl(self) -> None:
        """Define a flag of absl for each option, such as ``--jax_enable_x64``; ``absl.app.run`` sets the options."""
        flags = _define_absl_flags()
        importlib.import_module("absl.app").call_after_init(lambda: self._take_absl_flags(flags))

    def parse_flags_with_absl(self) -> None:
        """Set options from the arguments ``--jax_...`` of the command line, up to ``--``, without `absl.app.run`.

        Raises: TypeError or ValueError for a wrong value.
        """
        flags = _define_absl_flags()
        arguments = itertools.takewhile(lambda argument: argument != "--", sys.argv)
        ours = [argument for argument in arguments if argument.startswith(("--jax_", "--nojax_"))]
        flags(["", *ours], known_only=True)
        self._take_absl_flags(flags)

    def _take_absl_flags(self, flags: Any) -> None:
        for name, option in OPTIONS.items():
            flag = flags[f"jax_{name}"]
            if flag.present:
                self.update(name, flag.value if option.kind == "bool" else option.parse(flag.value, f"--jax_{name}"))

    def _overridden_key(self) -> TraceKey:
        seen, key = self._own_key
        if key is None or seen != _updates:
            seen = _updates  # read first: an update during the next line makes this key stale again
            key = _key_of(self)
            self.__dict__["_own_key"] = seen, key
        return key

    def _push(self, name: str, value: object) -> dict[str, Any]:
        """Override an option in this thread; returns the old values, for `_pop`."""
        _prepare(name, value)
        own = self.__dict__
        new = {name: value, "jax_" + name: value}
        saved = {slot: own.get(slot, _ABSENT) for slot in new}
        if name in TRACED:
            new["_own_key"] = _STALE
            context.trace_key = None
        own.update(new)
        return saved

    def _pop(self, saved: dict[str, Any]) -> None:
        own = self.__dict__
        for slot, old in saved.items():
            if old is _ABSENT:
                own.pop(slot, None)
            else:
                own[slot] = old
        if not saved.keys().isdisjoint(TRACED):
            own["_own_key"] = _STALE
            if own.keys().isdisjoint(TRACED):
                vars(context).pop("trace_key", None)            # the key of the process is visible again


_updates = 0  # number of process-wide updates so far
_hooks: dict[str, list[Hook]] = {}


_installers: dict[str, list[Callable[[], None]]] = {}


def _prepare(name: str, value: object) -> None:
    if name in _installers and value != (OPTIONS[name].default if name in OPTIONS else None):
        for install in _installers.pop(name, ()):
            install()


def _set_global(option: Option, value: object) -> None:
    global _updates
    for name in (option.name, *option.parts):
        _prepare(name, value)
        setattr(Config, name, value)
        setattr(Config, "jax_" + name, value)
    _updates += 1


def _key_of(options: Any) -> TraceKey:
    values = tuple([getattr(options, name) for name in TRACED])
    return _KEYS.setdefault(values, TraceKey(values))


_KEYS: dict[tuple, TraceKey] = {}
_ABSENT = object()
_STALE = (-1, None)


class Override:
    """An option set for a ``with`` block or, as a decorator, for each call of a function.

    It affects the current thread only, can be nested, and restores the old value on exceptions too.
    """

    __slots__ = ("_names", "_saved", "_value")

    def __init__(self, name: str, value: object):
        option = OPTIONS[name]
        self._value = option.check(value, name)
        self._names = (name, *option.parts)
        self._saved: list[Any] = []

    def __enter__(self) -> None:
        for name in self._names:
            self._saved.append(config._push(name, self._value))

    def __exit__(self, *_exc_info: object) -> None:
        for _ in self._names:
            config._pop(self._saved.pop())

    def __call__(self, fun: Callable) -> Callable:
        name, value = self._names[0], self._value

        @functools.wraps(fun)
        def overridden(*args, **kwargs):
            with Override(name, value):  # one object per call: calls may nest or run in several threads
                return fun(*args, **kwargs)

        return overridden


def _manager(name: str) -> Callable[..., Override]:
    """The public context manager ``name(value)`` of an option; for a boolean option, ``name()`` sets True."""
    option = OPTIONS[name]

    def switch(value: bool = True) -> Override:
        return Override(name, value)

    def choice(value: object) -> Override:
        return Override(name, value)

    made = switch if isinstance(option.default, bool) else choice
    made.__name__ = made.__qualname__ = name
    made.__doc__ = (f"For a ``with`` block, or as a decorator, in this thread: {option.doc}.\n\n"
                    "Raises: TypeError or ValueError for a wrong value.")
    return made


def disable_jit(disable: bool = True) -> Override:
    """Run jitted functions operation by operation in this block, so that `print` shows values.

    >>> with disable_jit():
    ...     config.disable_jit
    True
    >>> config.disable_jit
    False
    """
    return Override("disable_jit", disable)


def checking(*checks: str) -> Override:
    """Checked mode, for a ``with`` block or as a decorator: stop at the line where a value goes wrong.

    It applies to eager operations and to compiled programs (`jit`, `pmap`), under all transforms, in this thread. The
    variable ``XJAX_CHECK=1`` (or ``XJAX_CHECK=index,nan``) is the same for a whole process. Programs are compiled with
    their checks, so they run slower; other programs have no cost. docs/checked_mode.md has the details.

    Args:
      checks: some of these; none: all.
        "index": an index outside of the array (IndexError): ``x[i]``, ``x.at[i]``, `take`, gathers, scatters, slices
          at computed positions. Not where the user chose a `mode`.
        "nan": an operation that returns NaN from arguments without NaN, or an infinity from finite arguments
          (FloatingPointError), also in derivatives. Not where `where` drops the value.
        "keys": a random key that is used twice, by `split` or to draw numbers (`xjax.errors.KeyReuseError`).
        "ints": an integer result that does not fit its dtype (OverflowError). Not for uint32 and uint64, whose
          arithmetic is modular on purpose in hashes and random bits.

    Raises: ValueError for an unknown name.

    >>> with checking("ints"):
    ...     jnp.int8(100) + jnp.int8(100)
    Traceback (most recent call last):
        ...
    OverflowError: add: the result of an operation on int8 does not fit the dtype...
    """
    return Override("check", ",".join(checks) or "all")


# Parts of the scope of operations, which checked mode reads: the user did not choose the meaning of indices outside of
# the array; values inside of an implementation, such as a sampler, are not checked.
DEFAULT_MODE, UNCHECKED = "xjax.default_mode", "xjax.unchecked"
_NO_MARK = contextlib.nullcontext()


def marked(mark: str) -> contextlib.AbstractContextManager:
    """In checked mode, the operations in a block of it have this mark in their scope."""
    return in_scope(mark) if config.check and mark else _NO_MARK


allow_f16_reductions = _manager("allow_f16_reductions")
array_garbage_collection_guard = _manager("array_garbage_collection_guard")
auto_pcast = _manager("auto_pcast")
check_tracer_leaks = checking_leaks = _manager("check_tracer_leaks")
debug_infs = _manager("debug_infs")
debug_key_reuse = _manager("debug_key_reuse")
debug_nans = _manager("debug_nans")
default_device = _manager("default_device")
default_matmul_precision = _manager("default_matmul_precision")
default_prng_impl = _manager("default_prng_impl")
enable_checks = _manager("enable_checks")
enable_custom_prng = _manager("enable_custom_prng")
enable_x64 = _manager("enable_x64")
explain_cache_misses = _manager("explain_cache_misses")
legacy_prng_key = _manager("legacy_prng_key")
log_compiles = _manager("log_compiles")
no_execution = _manager("no_execution")
no_tracing = _manager("no_tracing")
numpy_dtype_promotion = _manager("numpy_dtype_promotion")
numpy_rank_promotion = _manager("numpy_rank_promotion")
remove_size_one_mesh_axis_from_type = _manager("remove_size_one_mesh_axis_from_type")
softmax_custom_jvp = _manager("softmax_custom_jvp")
thread_guard = _manager("thread_guard")
threefry_partitionable = _manager("threefry_partitionable")
transfer_guard = _manager("transfer_guard")
transfer_guard_device_to_device = _manager("transfer_guard_device_to_device")
transfer_guard_device_to_host = _manager("transfer_guard_device_to_host")
transfer_guard_host_to_device = _manager("transfer_guard_host_to_device")


def no_retrace(*, allow_first: bool = False) -> Override:
    """For a ``with`` block, or as a decorator, in this thread: a jitted function that must be traced raises an error.

    The error is the explanation of a `RetraceWarning`: the argument that changed, old -> new, and the remedy. So a
    training loop after its first step is certain to compile nothing.

    Args:
      allow_first: functions that were not traced before may be traced, such as an evaluation after the first epoch.

    Raises: RuntimeError, from calls in the block.

    >>> step = xjax.jit(lambda x: x * 2)
    >>> with xjax.no_retrace(allow_first=True):
    ...     print(step(1.0))
    2.0
    """
    return Override("only_first_traces" if allow_first else "no_tracing", True)


def cpu_device_count(environ: Mapping[str, str] = os.environ) -> int:
    """The number of CPU devices to create: the option, else ``XLA_FLAGS``, else 1.

    Raises: ValueError if the number is not positive.

    >>> cpu_device_count({"XLA_FLAGS": "--xla_force_host_platform_device_count=8"})
    8
    """
    count, source = config.num_cpu_devices, "jax_num_cpu_devices"
    if count == -1:
        counts = re.findall(_COUNT_FLAG, environ.get("XLA_FLAGS", ""))
        count, source = (int(counts[-1]) if counts else 1), "XLA_FLAGS"
    if count < 1:
        raise bad(source, f"requests {count} CPU devices", fix="request at least 1.",
                  exc=ValueError)  # fmt: skip
    return count


_COUNT_FLAG = r"(?:^|\s)--xla_force_host_platform_device_count=(-?\d+)(?=\s|$)"


def _define_absl_flags() -> Any:
    """The flags of absl, with one for each option."""
    absl = importlib.import_module("absl.flags")
    for name, option in OPTIONS.items():
        if f"jax_{name}" not in absl.FLAGS:
            define = absl.DEFINE_bool if option.kind == "bool" else absl.DEFINE_string
            define(f"jax_{name}", None, option.doc)
    return absl.FLAGS


def _option(name: str, caller: str) -> Option:
    bare = name.removeprefix("jax_")
    option = OPTIONS.get(_ALIASES.get(bare, bare))
    if option is None:
        raise _unknown(name, caller)
    return option


def _unknown(name: str, caller: str) -> Exception:
    prefix = "jax_" if name.startswith("jax_") else ""
    hint = did_you_mean(name, [prefix + known for known in OPTIONS])
    return bad(
        caller,
        f"there is no option {name!r}",
        fix=hint or "print(config) lists all options.",
        exc=AttributeError,
    )


def _from_environment(option: Option, environ: Mapping[str, str]) -> object:
    for variable in option.env:
        if variable in environ:
            return option.parse(environ[variable], variable)
    return option.default


def _load(environ: Mapping[str, str]) -> None:
    parts = {part for option in OPTIONS.values() for part in option.parts}      # set with the option they are part of
    for option in OPTIONS.values():
        if option.name not in parts or any(variable in environ for variable in option.env):
            _set_global(option, _from_environment(option, environ))
    Context.trace_key = _key_of(Config)


_load(os.environ)
config = Config()
