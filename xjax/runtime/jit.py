"""`jit`: trace a function once for each type of its arguments, compile it with XLA, run the compiled program.

`Jitted.__call__` handles calls whose arguments are plain arrays and numbers: it launches the executable cached for
their types. `Jitted._call` handles all calls: it separates static arguments, flattens the others and looks up their
types. In eager execution it looks up a `Launcher`, or compiles one. Inside another transform it looks up a program,
which becomes one operation (`jit_p`).
"""

from __future__ import annotations

import contextlib
import enum
import functools
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

import numpy as np

from xjax.core.cache import Cache
from xjax.core.calls import (
    PickledByName,
    api_boundary,
    argument_error,
    argument_types,
    check_callable,
    flatten_function,
    function_name,
    leaf_names,
    leave_boundary,
)
from xjax.core.config import config, default_device
from xjax.core.context import at_root, context
from xjax.core.errors import bad
from xjax.core.tree import flatten, skeleton, tree_map, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.runtime.arrays import donation
from xjax.runtime.arrays.array import Array, put
from xjax.runtime.arrays.host_values import DONATED, OPERANDS, add_operands
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.arrays.number_cache import NUMBERS
from xjax.runtime.call_shardings import CallShardings
from xjax.runtime.device_put import put_one
from xjax.runtime.devices.backend import devices
from xjax.runtime.jit_primitive import jit_p
from xjax.runtime.placement.current_mesh import placing_mesh
from xjax.runtime.placement.places import on
from xjax.runtime.placement.sharding import Sharding
from xjax.runtime.programs import events
from xjax.runtime.programs.compile_log import log_step, warn_of_large
from xjax.runtime.programs.executable import Options, as_options, program_executable
from xjax.runtime.programs.launch import Launcher, LaunchErrors, launch_error, types_and_places
from xjax.runtime.retraces import CacheInfo, Call, signature_text
from xjax.runtime.stages import Argument, Lowered, Program, Traced, abstract, place_of
from xjax.runtime.static_args import StaticArguments
from xjax.runtime.watch import checker, is_watching, watch_call
from xjax.runtime.xla import Device
from xjax.transforms import refs
from xjax.typing import ArrayLike, PyTree

_NEVER_STATIC = frozenset((list, dict, np.ndarray))         # not hashable, so no need to check

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Jitted(PickledByName):
    """A compiled function, made by `jit`; called like the function it wraps."""

    def __init__(self, fun: Callable, static: StaticArguments, inline: bool, device: Device | Sharding | None = None,
                 shardings: CallShardings | None = None, options: Options = ()):
        functools.update_wrapper(self, fun)
        self._fun, self._static, self._inline = fun, static, inline
        self._has_static = static.given
        self._readers = DONATED if static.donates else OPERANDS
        if static.signature is not None:
            self.__signature__ = static.signature
        self.of_library = False             # set by `library_jit`
        self.is_unchecked = False           # set by `xjax.random`: checked mode does not check its arithmetic
        self._traces = 0
        self._device = device               # where to run; None: on the devices of the arguments
        self._shardings, self._options = shardings, options
        self._name = function_name(fun)
        # Programs by tree, types and static values; launchers by these and the placements of the arguments.
        self._programs: Cache[Program] = _programs_of(fun) if shardings is None else Cache()
        self._by_types: Cache[Launcher] = Cache(f"jit `{self._name}`")
        # Launchers of calls that need only a launch, by the keys that `__call__` and `add_operands` build.
        self._fast: Cache[Launcher] = Cache()
        self._hot = self._fast.young

    def __get__(self, instance: object, owner: type) -> Callable:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {self._fun!r}>"

    def __call__(self, *args: object, **kwargs: object) -> PyTree:
        try:
            if not at_root():
                return self._call_traced(args, kwargs)
            key, bufs, has_host_values = [context.trace_key or config.trace_key(), *kwargs], [], False
            for x in (*args, *kwargs.values()) if kwargs else args:     # calling `add_operands` costs 3 % of a call
                if type(x) is Array:
                    key += x.aval, x._place
                    bufs.append(x._buf)
                elif self._has_static and type(x) not in _NEVER_STATIC:
                    key += type(x), x
                else:
                    take = None if kwargs else self._readers.get(type(x))
                    on_host = None if take is None else take(x, key, bufs)
                    if on_host is None:
                        return self._call(args, kwargs)
                    has_host_values = has_host_values or on_host
            try:
                launcher = self._hot.get(tuple(key))
            except TypeError:                   # a value that is not hashable
                return self._call(args, kwargs)
            if launcher is None:
                return self._call(args, kwargs, key)
            if has_host_values and launcher.host_call is None:
                return launcher.launch_with_host_values(bufs, args)
            try:                                # both ways to launch, inlined: method calls cost 3 to 5 %
                if has_host_values:
                    bufs = launcher.host_call(*bufs)
                else:
                    bufs = launcher.execute(bufs).consume_with_handlers(launcher.handlers)
            except LaunchErrors as error:
                raise launch_error(error, (*args, *kwargs.values())) from None
            if launcher.unflatten is None:
                return Array(bufs[0], launcher.aval, launcher.place)
            return launcher.unflatten([*map(Array, bufs, launcher.out_avals, launcher.out_places)])
        except Exception as error:
            leave_boundary(error)
            raise

    def _call(self, args: tuple, kwargs: dict, written: Sequence[Any] | None = None) -> PyTree:
        """An eager call, in the general case.

        Args:
          written: the key of the call in `__call__`, under which the launcher is cached for the next such call.
        """
        trace_key = context.trace_key or config.trace_key()
        if trace_key.disable_jit:
            return self._call_python(args, kwargs)
        static = None
        if self._has_static:
            args, kwargs, static = self._static.take_out(args, kwargs)
        leaves, tree = flatten((args, kwargs))
        if self._device is not None:
            return self._call_on_device(leaves, tree, static)
        key, operands = [trace_key, static, tree], []
        has_host_values = None if self._shardings is not None else add_operands(leaves, key, operands, self._readers)
        launcher = None if has_host_values is None else self._fast.of_parts(key)
        if launcher is None:
            if has_host_values is None and refs.has_refs(leaves):
                return self._call_with_refs(leaves, tree, static)
            arrays = [x if type(x) is Array else self._argument(x, leaves, tree) for x in leaves]
            if self._shardings is not None:
                arrays = self._shardings.put_arguments(arrays, tree, leaves)
            launcher = self._launcher(arrays, tree, static)
            if launcher.execute is None or self._shardings is not None:
                return launcher(arrays)
            if leaves and has_host_values is not None:
                self._fast[tuple(key)] = launcher
                if written is not None:
                    self._remember_as_written(written, launcher, args, kwargs)
            operands, has_host_values = [x._buf for x in arrays], False
        launch = launcher.launch_with_host_values if has_host_values else launcher.launch
        return launch(operands, leaves)

    def _remember_as_written(self, key: Sequence[Any], launcher: Launcher, args: tuple, kwargs: dict) -> None:
        """Cache the launcher for `__call__`, unless a dynamic argument may be part of the key as a static value."""
        if self._has_static and not all([type(x) in (Array, np.ndarray) for x in (*args, *kwargs.values())]):
            return
        names = [*kwargs]                   # in the order of the call; leaves are ordered by name
        order = [*range(len(args)), *[len(args) + names.index(name) for name in sorted(names)]]
        self._fast[tuple(key)] = launcher.reordered(order)

    def _call_python(self, args: tuple, kwargs: dict) -> PyTree:
        """The call under `disable_jit`."""
        if self.of_library:
            args = tuple([x if i in self._static.nums else _as_array(x) for i, x in enumerate(args)])
            kwargs = {k: x if k in self._static.names else _as_array(x) for k, x in kwargs.items()}
        return self._fun(*args, **kwargs)

    def _call_on_device(self, leaves: Sequence[Any], tree: PyTree, static: tuple | None) -> PyTree:
        if placing_mesh() is not None:
            raise bad(f"jit `{self._name}`", "has its own device, but a mesh is set by set_mesh",
                      {"device": repr(self._device), "mesh": repr(placing_mesh())},
                      "drop device= and backend=, or call it outside `with xjax.set_mesh(mesh):`.",
                      exc=ValueError)
        with default_device(self._device):
            arrays = [put(self._argument(x, leaves, tree), on(self._device)) for x in leaves]
            out = self._launcher(arrays, tree, static)(arrays)
            return out if leaves else tree_map(lambda x: put(x, on(self._device)), out)

    def _launcher(self, arrays: Sequence[Array], tree: PyTree, static: tuple | None) -> Launcher:
        key = (tree, static, config.trace_key(), *(types_and_places(arrays) if arrays else [config.default_device]))
        launcher = self._by_types.get(key)
        if launcher is None:
            launcher = self._by_types[key] = self._compile(arrays, tree, static)
        return launcher

    def _argument(self, x: ArrayLike, leaves: Sequence[Any], tree: PyTree) -> Array:
        try:
            return to_array(x)
        except TypeError as error:
            caller = f"jit `{self._name}`"
            leaves = [0 if type(x) is refs.Ref else x for x in leaves]
            raise argument_error(caller, self._fun, leaves, tree, self._static.nums) or error from None

    def _compile(self, leaves: Sequence[Array], tree: PyTree, static: tuple | None) -> Launcher:
        traced = self._trace([x.aval for x in leaves], tree, static)
        if traced.uses is not None:
            return _LauncherWithRefs(functools.partial(self._call_with_refs, tree=tree, static=static))  # type: ignore
        consts = [to_array(c) for c in traced.consts]
        watching = is_watching()            # no donation then: the call may be repeated to find a NaN
        donated = [False] * len(leaves) if watching else self._static.donated_leaves(tree)
        donated = [False] * len(consts) + donated

        def names() -> list[str]:
            return _describe_arguments(self._fun, *skeleton(tree), self._static)

        if any(donated):
            donation.warn_of_useless(f"jit `{self._name}`", traced.program, donated, names)
        program, outs = traced.program, traced.out_shardings
        watch = watch_call(f"jit `{self._name}`", lambda leaves: self._run_python(leaves, tree, static))
        if config.check:
            program, watch, count = checker().of_program(program, self.of_library)
            outs = (*outs, *[None] * count) if outs else outs
        executable = program_executable(program, self._name, [x._place for x in (*consts, *leaves)], tuple(donated),
                                        self._options, outs, len(consts), f"jit `{self._name}`", names)
        return Launcher(executable, consts, traced.out_tree, like=leaves,
                        watch=watch if watching else None)

    def _call_with_refs(self, leaves: Sequence[Any], tree: PyTree, static: tuple | None) -> PyTree:
        """An eager call of a function that uses refs; the memory of the values that it replaces is donated."""
        caller = f"jit `{self._name}`"
        leaves = [x if type(x) in (Array, refs.Ref) else self._argument(x, leaves, tree) for x in leaves]
        traced = self._trace([refs.typeof(x) for x in leaves], tree, static)    # type: ignore[misc]
        uses, consts = traced.uses, [to_array(c) for c in traced.consts]
        assert uses is not None
        donate = not is_watching()
        operands = uses.values(caller, leaves, donate)
        first = len(uses.outer)
        if self._shardings is not None:
            operands[first:] = self._shardings.put_arguments(operands[first:], tree, operands[first:])
        if not donate:
            out = jit_p.bind(*consts, *operands, name=self._name, jaxpr=traced.program)
            return tree_unflatten(traced.out_tree, uses.store(out, leaves))
        asked = [*[False] * first, *self._static.donated_leaves(tree)]
        donated = [a or b for a, b in zip(asked, uses.donated(leaves), strict=True)]
        none = (None,)
        wanted = traced.out_shardings and (*none * uses.written, *traced.out_shardings, *none * len(uses.arguments))
        executable = program_executable(
            traced.program, self._name, [x._place for x in (*consts, *operands)],
            (*[False] * len(consts), *donated), self._options, wanted, len(consts) + first, caller)
        out = executable([*consts, *operands])
        return tree_unflatten(traced.out_tree, uses.store(out, leaves, owned=True))

    def _run_python(self, leaves: Sequence[Any], tree: PyTree, static: tuple | None) -> PyTree:
        args, kwargs = tree_unflatten(tree, leaves)
        return self._static.put_back(self._fun, static)(*args, **kwargs)

    def _call_traced(self, args: tuple, kwargs: dict) -> PyTree:
        """The call inside a transform: one operation, or the inlined operations of the program."""
        # In checked mode the lines of a library are the user's, so that no two calls have the same program.
        is_of_line = config.check and self.of_library
        if config.disable_jit or (is_of_line and not self.is_unchecked):
            return self._call_python(args, kwargs)
        args, kwargs, static = self._static.take_out(args, kwargs)
        leaves, tree = flatten((args, kwargs))
        if self._options:
            raise bad(f"jit `{self._name}`", "compiler_options apply to a whole program, but this call is part of one",
                      given={"compiler_options": dict(self._options)},
                      fix="pass them to the outermost jit: jit(grad(f), compiler_options=...).", exc=ValueError)
        with_refs = refs.has_refs(leaves)
        if self._shardings is not None and not with_refs:
            leaves = self._shardings.constrain_arguments(leaves, tree)
        avals = argument_types(f"jit `{self._name}`", self._fun, leaves, tree, self._static.nums,
                               refs.typeof if with_refs else typeof)        # type: ignore[arg-type]
        traced = (self._trace_now if is_of_line else self._trace)(avals, tree, static)
        uses, operands = traced.uses, leaves
        if uses is not None:
            operands = uses.values(f"jit `{self._name}`", leaves)
            if self._shardings is not None and with_refs:
                first = len(uses.outer)
                operands[first:] = self._shardings.constrain_arguments(operands[first:], tree)
        if self._inline:
            out = traced.program(*traced.consts, *operands)
        else:
            out = jit_p.bind(*traced.consts, *operands, name=self._name, jaxpr=traced.program)
        if uses is not None:
            out = uses.store(out, leaves)
        if any([s is not None and s.other_memory for s in traced.out_shardings]):
            out = [put_one(x, s) if s is not None and s.other_memory else x
                   for x, s in zip(out, traced.out_shardings, strict=True)]
        return tree_unflatten(traced.out_tree, out)

    def _trace(self, avals: Sequence[ShapedArray], tree: PyTree, static: tuple | None, is_call: bool = True) -> Program:
        key = (tree, tuple(avals), static, self._static.key, config.trace_key(), context.axes)
        program = self._programs.get(key)
        if program is None:
            Call(f"jit `{self._name}`", self._fun, self._static, key, self._known, not self._traces).note(
                is_call and not self.of_library)
            self._traces += 1
            program = self._trace_now(avals, tree, static)
            if program.cacheable:
                self._programs[key] = program
        return program

    def _known(self) -> list[Any]:
        """The keys of the existing traces."""
        return [key for key in self._programs if key[3] == self._static.key]

    def _trace_now(self, avals: Sequence[ShapedArray], tree: PyTree, static: tuple | None) -> Program:
        fun = self._static.put_back(self._fun, static)
        if self._shardings is not None:
            fun = self._shardings.constraining_results(fun)
        caller = f"jit `{self._name}`"
        args, kwargs = skeleton(tree)
        names = _describe_arguments(self._fun, args, kwargs, self._static)
        start = time.perf_counter()
        flat = flatten_function(fun, tree, keywords=True, caller=caller)
        with events.span(events.TRACE, fun_name=self._name) if at_root() else contextlib.nullcontext():
            program, consts, uses = refs.trace_with_refs(flat, avals, caller, names)
        log_step("traced", caller, avals, time.perf_counter() - start)
        warn_of_large(caller, consts)
        outs = () if self._shardings is None else self._shardings.of_results(flat.out_tree)
        return Program(program, consts, flat.out_tree, outs, uses)

    # -- inspection -----------------------------------------------------------------------------------------------

    @api_boundary
    def trace(self, *args: object, **kwargs: object) -> Traced:
        """The traced program for arguments of these types (arrays or `ShapeDtypeStruct`s)."""
        program, tree, avals, leaves = self._trace_for(args, kwargs)
        if program.uses is not None:
            raise bad(f"jit `{self._name}`", "uses refs, so it cannot be compiled ahead of its calls",
                      fix="call it; or let it take the value of the ref and return the new one.",
                      exc=NotImplementedError)
        wanted = [None] * len(leaves) if self._shardings is None else self._shardings.of_arguments(tree)
        if self._shardings is not None:
            self._shardings.check_arguments(leaves, tree)
        arguments = [Argument(a, place_of(x if s is None else s), d)
                     for a, x, s, d in zip(avals, leaves, wanted, self._static.donated_leaves(tree), strict=True)]
        return Traced(program, arguments, tree, self._name, self._options)

    @api_boundary
    def lower(self, *args: object, **kwargs: object) -> Lowered:
        """The program as StableHLO for arguments of these types, before compilation."""
        return self.trace(*args, **kwargs).lower()

    @api_boundary
    def eval_shape(self, *args: object, **kwargs: object) -> PyTree:
        """Shapes, dtypes and `out_shardings` of the result, without computing it."""
        traced, *_ = self._trace_for(args, kwargs)
        return traced.out_info()

    def _trace_for(self, args: tuple, kwargs: dict) -> tuple[Program, Any, list[ShapedArray], list[Any]]:
        args, kwargs, static = self._static.take_out(args, kwargs)
        leaves, tree = flatten((args, kwargs))
        avals = argument_types(f"jit `{self._name}`", self._fun, leaves, tree, self._static.nums, abstract)
        return self._trace(avals, tree, static, is_call=False), tree, avals, leaves

    def cache_info(self) -> CacheInfo:
        """How often the function was traced, and for which arguments.

        Hits are not counted: this would take time in each call.

        >>> f = xjax.jit(lambda x, n: x * n, static_argnames="n")
        >>> for size in (2, 3, 2):
        ...     _ = f(xjax.numpy.ones(size), n=2)
        >>> f.cache_info()
        CacheInfo(traces=2, programs=2, executables=2, signatures=('(x: f32[2], n=2)', '(x: f32[3], n=2)'))
        """
        known = self._known()
        return CacheInfo(self._traces, len(known), self._cache_size(),
                         tuple([signature_text(self._fun, key, self._static) for key in known]))

    def _cache_size(self) -> int:
        """The number of cached executables (JAX's name)."""
        return len(self._by_types.values())

    def clear_cache(self) -> None:
        """Delete the cached programs and executables of this function."""
        for cache in (self._fast, self._by_types, self._programs):
            cache.clear()


PjitFunction = Jitted       # the name of this type in JAX: libraries see it, and pickle finds it


class _LauncherWithRefs:
    """The entry in the cache of launchers for a function that uses refs; `call(arrays)` is the whole call."""

    execute = host_call = None
    weight = 0

    def __init__(self, call: Callable[[Sequence[Any]], Any]):
        self._call = call

    def __call__(self, arrays: Sequence[Any]) -> PyTree:
        return self._call(arrays)


_programs_by_function: weakref.WeakKeyDictionary[Callable, Cache[Program]] = weakref.WeakKeyDictionary()


def _programs_of(fun: Callable) -> Cache[Program]:
    """Programs of a function, shared by all its `jit`s and freed with it."""
    try:
        return _programs_by_function.get(fun) or _programs_by_function.setdefault(fun, Cache())
    except TypeError:                       # not hashable, or without support for weak references
        return Cache()


def _describe_arguments(fun: Callable, args: Sequence[Any], kwargs: dict, static: StaticArguments) -> list[str]:
    """``argument `x['w']` `` for each leaf, in the order of the leaves."""
    return [f"argument `{name}`" for name in leaf_names(fun, args, kwargs, static.nums)]


class Inline(enum.Enum):
    """How the call of a jitted function inside another one is represented.

    JAX_EARLY: by its operations in the outer program, without the call.
    JAX_LATE, AUTO: by a call in the program. For XLA, a call that occurs once is inlined; XLA inlines the others.
    XLA_EARLY, XLA_LATE: hints to XLA's inliner, which are not supported and raise NotImplementedError.
    """

    JAX_EARLY, JAX_LATE = "jax_early", "jax_late"
    XLA_EARLY, XLA_LATE = "xla_early", "xla_late"
    AUTO = "auto"


def _inlined(caller: str, inline: bool | Inline) -> bool:
    """Whether a call is replaced by its operations."""
    if inline in (Inline.XLA_EARLY, Inline.XLA_LATE):
        raise bad(caller, "hints to XLA's inliner are not supported", {"inline": str(inline)},
                  "use Inline.AUTO, or Inline.JAX_EARLY.", exc=NotImplementedError)
    if not isinstance(inline, (bool, Inline)):
        raise bad(caller, "`inline` must be a bool or an Inline", {"inline": repr(inline)},
                  "pass True, False or a member of xjax.Inline.", exc=ValueError)
    return inline is Inline.JAX_EARLY


class JitOptions(TypedDict, total=False):
    """The keyword arguments of `jit`."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Sequence[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Sequence[str] | None
    keep_unused: bool
    inline: bool | Inline
    device: Device | Sharding | None
    backend: str | None
    in_shardings: PyTree
    out_shardings: PyTree
    compiler_options: Mapping[str, Any] | None


@overload
def jit(fun: Callable, **options: Unpack[JitOptions]) -> Jitted: ...
@overload
def jit(fun: None = None, **options: Unpack[JitOptions]) -> Callable[[Callable], Jitted]: ...
def jit(fun: Callable | None = None, *, static_argnums: int | Sequence[int] | None = None,
        static_argnames: str | Sequence[str] | None = None, donate_argnums: int | Sequence[int] | None = None,
        donate_argnames: str | Sequence[str] | None = None, keep_unused: bool = False, inline: bool | Inline = False,
        device: Device | Sharding | None = None, backend: str | None = None, in_shardings: PyTree = None,
        out_shardings: PyTree = None,
        compiler_options: Mapping[str, Any] | None = None) -> Jitted | Callable[[Callable], Jitted]:
    """Compile a function; also a decorator, with or without arguments.

    The function is traced once for each combination of argument structure, shapes, dtypes and static values. A line
    of a program that traces it again and again gets one `errors.RetraceWarning`; see docs/recompiles.md.

    Args:
      static_argnums, static_argnames: arguments used as Python values. They must be hashable, and each new value
        traces the function again. Giving positions implies the names, and the reverse.
      donate_argnums, donate_argnames: arguments whose memory may be reused for results; the call deletes them.
      inline: how a call inside another jit is represented; see `Inline`. True is `JAX_LATE`, False is `AUTO`.
      keep_unused: accepted as in JAX; arguments that the program does not use are always kept.
      device, backend: where to run, as a device or the name of a platform; arguments on other devices are copied. JAX
        deprecates both: place the arguments with `device_put` instead.
      in_shardings, out_shardings: how arguments and results are sharded: a `NamedSharding`, a `PartitionSpec` over
        the mesh of `with mesh:`, or a tree of them. The tree is a prefix of the positional arguments without the
        static ones, or of the result. None: taken from the arguments, or chosen by XLA for results. Uncommitted
        arguments are moved.
      compiler_options: XLA flags of this program, such as `{"xla_cpu_enable_fast_math": False}`; only for the
        outermost jit.

    Raises:
      TypeError: if an argument is neither an array nor static, or a static argument is not hashable.
      ValueError: if shardings do not match the arguments or cannot split them evenly, or if committed arguments are on
        different devices or not sharded as in `in_shardings`.

    >>> f = xjax.jit(lambda x: x * 2)
    >>> float(f(3.0))
    6.0
    """
    if fun is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames,
                                 donate_argnums=donate_argnums, donate_argnames=donate_argnames,
                                 keep_unused=keep_unused, inline=inline, device=device, backend=backend,
                                 in_shardings=in_shardings, out_shardings=out_shardings,
                                 compiler_options=compiler_options)
    check_callable("jit", fun)
    if device is not None and backend is not None:
        raise bad("jit", "takes a device or a backend, not both", given={"device": device, "backend": backend},
                  fix="pass the device alone.", exc=ValueError)
    caller = f"jit `{function_name(fun)}`"
    if device is not None and not isinstance(device, (Device, Sharding)):
        raise bad(caller, f"`device` must be a device, not a {type(device).__name__}", given={"device": repr(device)},
                  fix="pass one of xjax.devices(), or the name of a platform as `backend`.")
    shardings = None
    if in_shardings is not None or out_shardings is not None:
        if device is not None or backend is not None:
            raise bad(caller, "takes a device or shardings, not both", given={"device": device, "backend": backend},
                      fix="leave the device out.", exc=ValueError)
        shardings = CallShardings(caller, in_shardings, out_shardings)
    inline = _inlined(caller, inline)
    static = StaticArguments(fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return Jitted(fun, static, inline, device if backend is None else devices(backend)[0], shardings,
                  as_options(caller, compiler_options))


def _as_array(x: Any) -> Any:
    return to_array(x) if type(x) in NUMBERS else x


@overload
def library_jit(fun: Callable[_P, _R], **options: Unpack[JitOptions]) -> Callable[_P, _R]: ...
@overload
def library_jit(fun: None = None,
                **options: Unpack[JitOptions]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def library_jit(fun: Callable | None = None, **options: Unpack[JitOptions]) -> Any:
    """`jit` for functions of the library: under `disable_jit`, they still get numbers as arrays.

    Their repeated traces are not counted: see `runtime.retraces`.
    """
    if fun is None:
        return functools.partial(library_jit, **options)
    jitted = jit(fun, **options)
    jitted.of_library = True
    return jitted
