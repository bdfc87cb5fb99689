"""Calls of the user's functions by transforms: functions of pytrees as functions of leaves (`Flat`), argument names."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ParamSpec, SupportsIndex, TypeVar

from xjax.core import dtypes
from xjax.core.config import config
from xjax.core.errors import bad, drop_internal_frames
from xjax.core.trace import Tracer
from xjax.core.tree import PyTreeDef, flatten, keystr, skeleton, tree_flatten_with_path, tree_unflatten
from xjax.core.types import ShapedArray, how_to_convert, is_array_like, is_of_other_library, type_name, typeof
from xjax.typing import ArrayLike, PyTree


def function_name(f: object) -> str:
    """A readable name for any callable."""
    if isinstance(f, functools.partial):
        return function_name(f.func)
    name = getattr(f, "__name__", None)
    return name if isinstance(name, str) else type(f).__name__


def check_callable(caller: str, fun: object) -> None:
    """Raise TypeError unless `fun` can be called."""
    if not callable(fun):
        raise bad(caller, "needs a function", given={"fun": f"{type(fun).__name__} {fun!r:.60}"},
                  fix=f"pass the function itself: {caller}(f)(x), not {caller}(f(x)).")


def name_function(f: Callable[..., Any], name: str, module: str = "") -> None:
    """Name a function that another function returned, and the functions that it wraps: Python's errors show the name.

    Args: module: the module that has the function under this name, if its code is in another one; used by pickle.
    """
    named: Callable[..., Any] | None = f
    while named is not None:
        named.__name__ = named.__qualname__ = name
        named.__module__ = module or named.__module__
        named = getattr(named, "__wrapped__", None)


class PickledByName:
    """A wrapper of a function; pickled by name, as functions are, if its module has the wrapper under this name."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple:
        name, named = getattr(self, "__qualname__", ""), sys.modules.get(self.__module__)
        for part in name.split("."):
            named = getattr(named, part, None)
        return name if named is self else super().__reduce_ex__(protocol)


def leaf_of_arguments(tree: PyTree, i: int) -> str:
    """The path of the i-th leaf of (args, kwargs), for messages: ``args[0]['w']``, ``kwargs['x']``."""
    path, _ = tree_flatten_with_path(skeleton(tree))[0][i]
    return ("args", "kwargs")[path[0].idx] + keystr(path[1:])


def as_argnums(argnums: int | Sequence[int], caller: str, name: str = "argnums",
               fix: str = "pass positions such as 0 or (0, 2).") -> tuple[int, ...]:
    """A tuple of positions from an int or a sequence of ints; negative positions are kept.

    Raises: TypeError for anything else.
    """
    several = isinstance(argnums, Iterable) and getattr(argnums, "shape", None) != ()
    try:
        return tuple(map(operator.index, argnums if several else (argnums,)))
    except TypeError:
        raise bad(caller, f"{name} must be an int or a sequence of ints", given={name: repr(argnums)},
                  fix=fix) from None


def canonical_argnums(argnums: int | Sequence[int], count: int, caller: str, name: str = "argnums",
                      missing: type[Exception] = ValueError) -> tuple[int, ...]:
    """Positions in [0, count) from an int or a sequence of ints; negative ints count from the end.

    Args: missing: the class of the error for a call with too few arguments.
    Raises: `missing`; ValueError for positions below -count and for duplicates.
    """
    nums = as_argnums(argnums, caller, name)
    for n in nums:
        if not -count <= n < count:
            raise bad(caller, f"argument {n} is chosen, but only {count} positional arguments were given",
                      given={name: repr(argnums)},
                      fix=f"pass the argument by position, or choose another with {name}.",
                      exc=missing if n >= count else ValueError)
    if len({n % count for n in nums}) != len(nums):
        raise bad(caller, f"{name} names an argument twice", given={name: repr(argnums)},
                  fix="name each argument once.", exc=ValueError)
    return tuple([n % count for n in nums])


def split_args(args: Sequence[Any], nums: Sequence[int]) -> tuple[tuple, tuple]:
    """(chosen arguments in the order of `nums`, other arguments in their own order)."""
    return tuple(args[n] for n in nums), tuple(x for i, x in enumerate(args) if i not in nums)


def merge_args(chosen: Sequence[Any], rest: Sequence[Any], nums: Sequence[int], count: int) -> list[Any]:
    """Inverse of `split_args`."""
    out, others = [None] * count, iter(rest)
    for n, x in zip(nums, chosen, strict=True):
        out[n] = x
    return [out[i] if i in nums else next(others) for i in range(count)]


_F = TypeVar("_F", bound=Callable)
_P = ParamSpec("_P")
_T = TypeVar("_T")


def api_boundary(f: _F) -> _F:
    """Decorator of a public function that runs user's functions: removes the frames of xjax from their tracebacks.

    The option `traceback_filtering` keeps them.
    """
    call = bounded(f)
    functools.update_wrapper(call, f)
    return call


def bounded(f: _F) -> _F:
    """`api_boundary` for a function that gets its name and docstring elsewhere: copying them takes a microsecond."""
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            leave_boundary(error)
            raise

    return call  # type: ignore[return-value]


def leave_boundary(error: Exception) -> None:
    """Filter the traceback of an error that leaves a public function, unless the option keeps it whole."""
    if config.traceback_filtering != "off":
        drop_internal_frames(error)


def old_keywords(**renamed: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Decorator: arguments may have their old names too, old="new", with a DeprecationWarning."""
    def decorate(f: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(f)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            for old in kwargs.keys() & renamed:
                warnings.warn(f"{f.__qualname__}: the argument {old} is {renamed[old]} now", DeprecationWarning,
                              stacklevel=2)
                if renamed[old] not in kwargs:                      # else Python reports the old name as unexpected
                    kwargs[renamed[old]] = kwargs.pop(old)
            return f(*args, **kwargs)

        return call

    return decorate


class Flat:
    """A function of pytrees as a function of leaves, `flat(*leaves) -> list of result leaves`.

    After a call, `out_tree` is the structure of the result. With `has_aux`, `aux` is the second result.
    """

    __slots__ = ("fun", "in_tree", "keywords", "has_aux", "caller", "out_tree", "_aux")

    def __init__(self, fun: Callable, in_tree: PyTreeDef, keywords: bool, has_aux: bool, caller: str):
        self.fun, self.in_tree, self.keywords = fun, in_tree, keywords
        self.has_aux, self.caller = has_aux, caller
        self.out_tree: Any = None               # a PyTreeDef, after a call
        self._aux: tuple[list[Any], PyTreeDef] | None = None

    def __call__(self, *leaves: ArrayLike) -> list[Any]:
        args = tree_unflatten(self.in_tree, leaves)
        try:
            out = self.fun(*args[0], **args[1]) if self.keywords else self.fun(*args)
        except Exception as error:
            leave_boundary(error)
            raise
        if self.has_aux:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise bad(self.caller, "with has_aux=True the function must return a pair (value, aux)",
                          given={"result": type(out).__name__}, fix="return (value, aux), or drop has_aux.")
            out, aux = out
            self._aux = flatten(aux)
        outs, self.out_tree = flatten(out)
        for y in outs:
            if not isinstance(y, Tracer) and not is_array_like(y):
                if hasattr(y, "refused_as_result"):
                    raise y.refused_as_result(self.caller)
                raise bad(self.caller, f"the function returned a value of type {type(y).__name__}, which is not an "
                          "array", given={"value": repr(y)[:80]},
                          fix="return arrays, numbers, or pytrees of them; register your own containers with "
                              "register_pytree_node.")
        return outs

    def leave_trace(self, split: Callable[[Any], tuple]) -> None:
        """Replace the tracers in `aux` by their primal values, when a derivative trace ends."""
        if self._aux is not None:
            leaves, tree = self._aux
            self._aux = [split(x)[0] if isinstance(x, Tracer) else x for x in leaves], tree

    @property
    def aux(self) -> PyTree:
        assert self._aux is not None            # it is read after a call, with has_aux
        leaves, tree = self._aux
        return tree_unflatten(tree, leaves)


def flatten_function(fun: Callable, in_tree: PyTreeDef, *, keywords: bool = False, has_aux: bool = False,
                     caller: str = "") -> Flat:
    """`fun` as a function of the leaves of its arguments; these are a tuple, or (tuple, dict) with `keywords`."""
    return Flat(fun, in_tree, keywords, has_aux, caller or function_name(fun))


def argument_names(f: Callable, args: Sequence[Any], kwargs: dict, static: Sequence[int] = ()) -> list[str]:
    """The name of each positional and keyword argument, for messages: ``x``, ``args[2]``.

    Args: static: positions of static arguments, which are not in `args`.
    """
    full = list(args)
    for i in sorted(static):
        full.insert(i, None)
    positions = [i for i in range(len(full)) if i not in static][:len(args)]
    try:
        signature = inspect.signature(f)
        bound = signature.bind_partial(*full, **kwargs)
    except (TypeError, ValueError):         # no signature, or the call does not fit it
        return [f"args[{i}]" for i in positions] + list(kwargs)
    names: list[str] = []
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}[{i}]" for i in range(len(value))]
        elif kind is not inspect.Parameter.VAR_KEYWORD and name not in kwargs:
            names.append(name)
    return [names[i] for i in positions] + list(kwargs)


def leaf_names(f: Callable, args: Sequence[Any], kwargs: dict, static: Sequence[int] = ()) -> list[str]:
    """``x['w']`` for each leaf of the arguments, in the order of the leaves."""
    names = argument_names(f, args, kwargs, static)
    names = [*names[:len(args)], *sorted(kwargs)]
    arguments = (*args, *(kwargs[k] for k in sorted(kwargs)))
    return [f"{name}{keystr(path)}" for name, arg in zip(names, arguments, strict=True)
            for path, _ in tree_flatten_with_path(arg)[0]]


def argument_types(caller: str, fun: Callable, leaves: Sequence[Any], tree: PyTree, static: Sequence[int] | None = None,
                   type_of: Callable[[Any], ShapedArray] = typeof) -> list[ShapedArray]:
    """Types of the leaves of a call's (args, kwargs).

    Raises: TypeError for an argument that has no type, OverflowError for an integer that does not fit its dtype; the
      message names the argument.
    """
    try:
        return [type_of(x) for x in leaves]
    except (TypeError, OverflowError) as error:
        raise argument_error(caller, fun, leaves, tree, static) or error from None


def argument_error(caller: str, fun: Callable, leaves: Sequence[Any], tree: PyTree,
                   static: Sequence[int] | None) -> Exception | None:
    """The error for the first argument that is not an array or is too large an integer; None if all are valid.

    Args:
      leaves: the leaves of (args, kwargs), without static arguments.
      tree: the structure of (args, kwargs).
      static: positions of static arguments; None if the transform does not accept static arguments.
    """
    args, kwargs = skeleton(tree)
    for x, name in zip(leaves, leaf_names(fun, args, kwargs, static or ()), strict=True):
        if not is_array_like(x):
            return bad(caller, f"argument `{name}` of type {type_name(x)} is not an array",
                       given={name: repr(x)[:80]}, fix=_fix_for_argument(fun, x, name, static is not None))
        if isinstance(x, int):
            dtypes.check_int_range(int(x), dtypes.canonicalize_dtype(int), f"{caller}: argument `{name}`")
    return None


def _fix_for_argument(fun: Callable, x: object, name: str, takes_static: bool) -> str:
    static = "with static_argnums=0"
    if name != "self":
        static = f"with static_argnames={name!r}, or its position in static_argnums"
    if name == "self" or dataclasses.is_dataclass(x):
        register = "register the class with tree_util.register_dataclass or register_pytree_node_class"
        return f"{register}, or mark `{name}` as static {static}." if takes_static else f"{register}."
    is_ours = (getattr(fun, "__module__", "") or "").startswith("xjax.")
    if is_ours or not is_hashable(x) or is_of_other_library(x) or isinstance(x, Iterator):
        return how_to_convert(x, name)
    if not takes_static:
        return f"pass arrays and numbers; bind `{name}` beforehand with a lambda or functools.partial."
    if not name.isidentifier():
        return "pass it as an argument of its own, marked with static_argnums or static_argnames, or in a closure."
    return f"mark it as static {static}."


def is_hashable(x: object) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


# -- the sharding of results --------------------------------------------------------------------------------------

_constrain: Callable | None = None


def constrain_with(function: Callable) -> None:
    """From now on, ``function(caller, x, sharding)`` constrains results; only the runtime knows meshes."""
    global _constrain
    _constrain = function


def constrained(caller: str, y: PyTree, out_sharding: object) -> PyTree:
    """The result of a function with `out_sharding=`, constrained as by `lax.with_sharding_constraint`.

    Args:
      out_sharding: a NamedSharding, or a PartitionSpec over the current mesh. That of a type outside of meshes
        (`typeof(x).sharding`), which has an empty mesh, does not constrain the result.
    """
    if getattr(getattr(out_sharding, "mesh", None), "empty", False):
        return y
    assert _constrain is not None
    return _constrain(f"{caller}: out_sharding", y, out_sharding)
