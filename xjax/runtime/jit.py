"""`jit`: trace a function once for each type of its arguments, compile it with XLA, run the compiled program.

A call flattens its arguments and looks up (tree, argument types, static values) in a dictionary. At the root it finds
an executable and launches it; inside another transform it finds a program, which becomes one operation (`jit_p`).
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.calls import argument_names, flatten_function, function_name
from xjax.core.config import config
from xjax.core.context import context
from xjax.core.errors import bad
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, keystr, tree_flatten_with_path, tree_unflatten, treedef_is_leaf
from xjax.core.types import ShapedArray, typeof
from xjax.runtime.array import Array, check_nans, put, to_array
from xjax.runtime.dispatch import eval_trace
from xjax.runtime.executable import Executable, launch_error, program_executable
from xjax.runtime.jit_primitive import jit_p
from xjax.runtime.stages import Lowered, ShapeDtypeStruct, Traced, abstract
from xjax.runtime.static_args import StaticArguments
from xjax.runtime.xla import XlaRuntimeError

_type_and_place = operator.attrgetter("aval", "sharding")
_buffer = operator.attrgetter("_buf")


class _Launch:
    """What a call at the root needs: executable, constants on the device, structure of the result."""

    __slots__ = ("executable", "consts", "unflatten", "plain")

    def __init__(self, executable: Executable, consts: list[Array], out_tree: Any):
        self.executable, self.unflatten = executable, out_tree.unflatten
        self.consts = [put(c, s) for c, s in zip(consts, executable.in_shardings, strict=False)]
        # For programs of one device without constants: all that the shortest way of a call needs.
        one = out_tree.num_leaves == 1 and treedef_is_leaf(out_tree)
        self.plain = None
        if not self.consts and not executable.is_sharded:
            self.plain = executable.execute, executable.handlers, None if one else self.unflatten

    def run(self, args: Sequence[Array]) -> Any:
        """The result; arguments that lie elsewhere than the program wants them are moved."""
        return self.unflatten(self.executable([*self.consts, *args]))


class Jitted:
    """A compiled function, made by `jit`; called like the function it wraps."""

    def __init__(self, fun: Callable, static: StaticArguments, inline: bool):
        functools.update_wrapper(self, fun)
        self._fun, self._static, self._inline = fun, static, inline
        self._name = function_name(fun)
        self._launches: dict[tuple, _Launch] = {}
        self._plain: dict[tuple, tuple] = {}
        self._traces = _traces_of(fun)
        _all_jitted.add(self)

    def __get__(self, instance: Any, owner: type) -> Callable:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {self._fun!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # The shortest way, for plain arrays on one device: what `_call` remembered for their types.
        if not kwargs and context.trace is eval_trace:
            try:
                plain = self._plain.get((config.trace_key(), *map(_type_and_place, args)))
            except AttributeError:          # an argument that is no array yet
                plain = None
            if plain is not None:
                execute, handlers, unflatten = plain
                try:
                    out = execute(list(map(_buffer, args))).consume_with_handlers(handlers)
                except XlaRuntimeError as error:
                    raise launch_error(error, args) from None
                return out[0] if unflatten is None else unflatten(out)
        return self._call(args, kwargs)

    def _call(self, args: Sequence[Any], kwargs: dict) -> Any:
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        static = None
        if self._static.given:
            args, kwargs, static = self._static.take_out(args, kwargs)
        leaves, tree = flatten((args, kwargs))
        if context.trace is not eval_trace:
            return self._call_traced(leaves, tree, static)
        home = leaves[0].sharding if leaves and type(leaves[0]) is Array else None
        avals = []
        for x in leaves:
            if type(x) is not Array or x.sharding is not home:
                return self._call_general(leaves, tree, static)
            avals.append(x.aval)
        key = (tree, static, config.trace_key(), home, *avals)
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launches[key] = self._compile(leaves, tree, static)
            flat = static is None and not kwargs and len(args) == len(leaves) and all(map(operator.is_, args, leaves))
            if flat and launch.plain is not None and not config.debug_nans:
                self._plain[config.trace_key(), *map(_type_and_place, args)] = launch.plain
        out = launch.run(leaves)
        if config.debug_nans:
            check_nans(f"jit `{self._name}`", [x for x in flatten(out)[0] if type(x) is Array])
        return out

    def _call_general(self, leaves: Sequence[Any], tree: Any, static: Any) -> Any:
        """Call with arguments that are no arrays yet, or do not all lie on one device."""
        leaves = [x if type(x) is Array else self._argument(x, i, tree) for i, x in enumerate(leaves)]
        key = (tree, static, config.trace_key(), tuple([x.sharding for x in leaves]), tuple([x.aval for x in leaves]))
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launches[key] = self._compile(leaves, tree, static)
        return launch.run(leaves)

    def _argument(self, x: Any, i: int, tree: Any) -> Array:
        try:
            return to_array(x)
        except TypeError as error:
            path = keystr(tree_flatten_with_path(tree_unflatten(tree, range(tree.num_leaves)))[0][i][0][1:])
            error.add_note(f"in the arguments of jit `{self._name}`: args{path}")
            raise

    def _compile(self, leaves: Sequence[Array], tree: Any, static: Any) -> _Launch:
        traced = self._trace([x.aval for x in leaves], tree, static)
        consts = [to_array(c) for c in traced.consts]
        donated = [False] * len(consts) + self._static.donated_leaves(tree)
        executable = program_executable(traced.program, self._name, [*consts, *leaves], tuple(donated))
        return _Launch(executable, consts, traced.out_tree)

    def _call_traced(self, leaves: Sequence[Any], tree: Any, static: Any) -> Any:
        traced = self._trace([typeof(x) for x in leaves], tree, static)
        if self._inline:
            out = traced.program(*traced.consts, *leaves)
        else:
            out = jit_p.bind(*traced.consts, *leaves, name=self._name, jaxpr=traced.program)
        return tree_unflatten(traced.out_tree, out)

    def _trace(self, avals: Sequence[ShapedArray], tree: Any, static: Any) -> Traced:
        key = (tree, tuple(avals), static, self._static.key, config.trace_key(), context.axes)
        found = self._traces.get(key)
        if found is None:
            found = self._trace_now(avals, tree, static)
            if found.cacheable:
                self._traces[key] = found
        return found

    def _trace_now(self, avals: Sequence[ShapedArray], tree: Any, static: Any) -> Traced:
        fun = self._static.put_back(self._fun, static)
        where = f"jit `{self._name}`"
        args, kwargs = tree_unflatten(tree, range(tree.num_leaves))
        flat = flatten_function(fun, tree, keywords=True, where=where)
        closed = trace_to_jaxpr(flat, avals, where, _describe_arguments(self._fun, args, kwargs, self._static))
        program, consts = hoist_consts(closed)
        return Traced(program, list(consts), flat.out_tree)

    # -- looking inside -------------------------------------------------------------------------------------------

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for arguments of these types (arrays or `ShapeDtypeStruct`s), before compilation."""
        traced, tree, avals = self._trace_for(args, kwargs)
        donated = [False] * len(traced.consts) + self._static.donated_leaves(tree)
        return Lowered(traced, avals, tree, self._name, tuple(donated))

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the result, without computing it."""
        traced, _, _ = self._trace_for(args, kwargs)
        return tree_unflatten(traced.out_tree, [ShapeDtypeStruct.of(a) for a in traced.program.out_avals])

    def _trace_for(self, args: Sequence[Any], kwargs: dict) -> tuple[Traced, Any, list[ShapedArray]]:
        static = None
        if self._static.given:
            args, kwargs, static = self._static.take_out(args, kwargs)
        leaves, tree = flatten((args, kwargs))
        avals = [abstract(x) for x in leaves]
        return self._trace(avals, tree, static), tree, avals

    def clear_cache(self) -> None:
        """Forget programs and executables of this function."""
        self._plain.clear()
        self._launches.clear()
        self._traces.clear()


_all_traces: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_all_jitted: weakref.WeakSet = weakref.WeakSet()


def clear_jit_caches() -> None:
    """Forget the programs and executables of every jitted function."""
    for jitted in list(_all_jitted):
        jitted.clear_cache()


def _traces_of(fun: Callable) -> dict:
    """Traces are shared by all `jit`s of one function, and die with it."""
    try:
        return _all_traces.setdefault(fun, {})
    except TypeError:                       # not hashable, or takes no weak references
        return {}


def _describe_arguments(fun: Callable, args: Sequence[Any], kwargs: dict, static: StaticArguments) -> list[str]:
    """``argument `x['w']` `` for each leaf, in the order of the leaves."""
    names = argument_names(fun, args, kwargs) if not static.given else [f"args[{i}]" for i in range(len(args))]
    names = iter([*names[:len(args)], *sorted(kwargs)])
    out = []
    for arg in (*args, *(kwargs[k] for k in sorted(kwargs))):
        name = next(names, "args")
        out += [f"argument `{name}{keystr(path)}`" for path, _ in tree_flatten_with_path(arg)[0]]
    return out


def jit(fun: Callable | None = None, *, static_argnums: int | Sequence[int] | None = None,
        static_argnames: str | Sequence[str] | None = None, donate_argnums: int | Sequence[int] | None = None,
        donate_argnames: str | Sequence[str] | None = None, keep_unused: bool = False, inline: bool = False,
        device: Any = None, backend: str | None = None) -> Any:
    """Compiled version of a function; also a decorator, with or without arguments.

    The function is traced once for each combination of argument structure, shapes, dtypes and static values.

    Args:
      static_argnums, static_argnames: arguments used as Python values; they must be hashable, and each new value
        traces the function again. Naming them one way implies the other.
      donate_argnums, donate_argnames: arguments whose memory the results may take over; they are deleted by the call.
      inline: inside another jit, write the operations instead of a call.
      keep_unused, device, backend: accepted as JAX does; arguments choose the device.

    Raises: TypeError if an argument is no array (and not static) or a static argument is not hashable.

    >>> f = xjax.jit(lambda x: x * 2)
    >>> float(f(3.0))
    6.0
    """
    if fun is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames,
                                 donate_argnums=donate_argnums, donate_argnames=donate_argnames,
                                 keep_unused=keep_unused, inline=inline, device=device, backend=backend)
    if not callable(fun):
        raise bad("jit", "needs a function", given={"fun": repr(fun)[:80]}, fix="write jit(f), not jit(f(x)).")
    static = StaticArguments(fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return Jitted(fun, static, inline)
