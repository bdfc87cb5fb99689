"""Private names of JAX that its libraries use: `jax._src...`, each with the libraries that need it.

Modules that xjax leaves out, and that a library imports but does not use here, are in the table too. A name that is
not in the table does not exist: libraries test for private names before they use them.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from xjax.core import errors
from xjax.core.context import at_root
from xjax.core.errors import bad
from xjax.core.jaxpr import SourceInfo
from xjax.core.tree import PyTreeDef, flatten, is_tree_node, keystr, prefix_differences
from xjax.runtime.devices import backend
from xjax.runtime.devices.backend import process_index
from xjax.runtime.xla import Client
from xjax.runtime.xla.programs import before_compile
from xjax.runtime.xla.real_jax import xjax_is_jax
from xjax.typing import DTypeLike, PyTree

HERE, COMPILER = __name__, "jax._src.compiler"

# module -> name -> (module and name of its value, the libraries)
NAMES: dict[str, dict[str, tuple[str, str]]] = {
    "_src.ad_util": {"stop_gradient_p": ("xjax.ops.identity:stop_gradient_p", "lineax")},
    "_src.api_util": {"infer_argnums_and_argnames": (f"{HERE}:infer_argnums_and_argnames", "e3nn_jax")},
    "_src.checkify": {"Error": ("xjax.experimental.checkify:Error", "flax"),
                      "checkify": ("xjax.experimental.checkify:checkify", "flax"),
                      "user_checks": ("xjax.experimental.checkify:user_checks", "flax"),
                      "Out": ("typing:Any", "flax"),
                      "JaxException": ("xjax.experimental.checkify:JaxRuntimeError", "flax")},
    "_src.compiler": {"backend_compile_and_load": (f"{HERE}:backend_compile_and_load", "chex")},
    "_src.core": {"ShapedArray": ("xjax.core.types:ShapedArray", "flax"),
                  "trace_state_clean": (f"{HERE}:trace_state_clean", "numpyro")},
    "_src.dispatch": {"wait_for_tokens": ("xjax:effects_barrier", "equinox")},
    "_src.distributed": {"global_state": (f"{HERE}:global_state", "orbax")},
    "_src.dtypes": {"DType": ("numpy:dtype", "flax"),
                    "TypePromotionError": ("xjax.errors:TypePromotionError", "equinox"),
                    "ExtendedDType": ("xjax.core.dtypes:ExtendedDType", "flax"),
                    "extended": ("xjax.dtypes:extended", "flax"),
                    "finfo": ("xjax.numpy:finfo", "flax"),
                    "supports_inf": (f"{HERE}:supports_inf", "flax")},
    "_src.flatten_util": {"ravel_pytree": ("xjax.flatten_util:ravel_pytree", "blackjax")},
    "_src.state.types": {"AbstractRef": ("xjax.ref:AbstractRef", "flax")},
    "_src.traceback_util": {"_exclude_paths": (f"{HERE}:exclude_paths", "flax"),
                            "api_boundary": ("xjax.core.calls:api_boundary", "flax"),
                            "include_frame": (f"{HERE}:include_frame", "equinox"),
                            "register_exclusion": (f"{HERE}:register_exclusion", "equinox, flax, jaxtyping")},
    "_src.tree_util": {"_registry": (f"{HERE}:node_types", "flax"),
                       "flatten_one_level": (f"{HERE}:flatten_one_level", "orbax"),
                       "prefix_errors": (f"{HERE}:prefix_errors", "flax")},
    "_src.xla_bridge": {"_backends": (f"{HERE}:backends", "chex")},
    "experimental.array_serialization.serialization": {
        "GlobalAsyncCheckpointManagerBase": (f"{HERE}:GlobalAsyncCheckpointManagerBase", "orbax"),
        "GlobalAsyncCheckpointManager": (f"{HERE}:GlobalAsyncCheckpointManager", "flax"),
        "get_tensorstore_spec": (f"{HERE}:get_tensorstore_spec", "flax")},
    "experimental.colocated_python.func": {},
    "experimental.colocated_python.serialization": {"DeviceList": ("xjax.runtime.xla:DeviceList", "orbax")},
    "extend.ifrt_programs": {"ifrt_programs": (f"{HERE}:ifrt_programs", "orbax")},
    "extend.source_info_util": {"register_exclusion": (f"{HERE}:register_exclusion", "flax"),
                                "summarize": (f"{HERE}:summarize", "interpreters of programs")},
    "interpreters.pxla": {},
}


class _GlobalState:
    """The state of the processes of a job, without a client: orbax then uses the functions of `multihost_utils`."""

    client = None
    process_id = property(lambda self: process_index())


class GlobalAsyncCheckpointManagerBase:
    """The base class of asynchronous checkpointers that a user of orbax writes."""


class GlobalAsyncCheckpointManager(GlobalAsyncCheckpointManagerBase):
    """JAX's own checkpointer of arrays of several processes, which does not exist here."""

    def __init__(self, *args: object, **kwargs: object):
        raise _no_checkpointer("GlobalAsyncCheckpointManager")


def get_tensorstore_spec(path: str, *args: object, **kwargs: object) -> dict[str, Any]:
    """A part of JAX's own checkpointer; an error here."""
    raise _no_checkpointer("get_tensorstore_spec")


def _no_checkpointer(name: str) -> Exception:
    return bad(f"array_serialization.{name}", "there is no checkpointer of arrays of several processes",
               fix="save them with orbax.", exc=NotImplementedError)


class _NodeTypes:
    """The set of types that are nodes of pytrees: ``type(x) in node_types``."""

    def __contains__(self, kind: type) -> bool:
        return is_tree_node(kind)


class _Started(Mapping):
    """The clients that run, by platform; empty before the first operation."""

    def __getitem__(self, platform: str) -> Client:
        return backend.started()[platform]

    def __iter__(self) -> Iterator[str]:
        return iter(backend.started())

    def __len__(self) -> int:
        return len(backend.started())


node_types, global_state = _NodeTypes(), _GlobalState()
trace_state_clean = at_root
exclude_paths: list[str] = []
backends = _Started()
ifrt_programs = ModuleType("ifrt_programs", "Programs for plugins of Pathways: there are none here.")


def private_module(path: str) -> ModuleType | None:
    """The module ``jax.<path>`` of private names; None if no library uses it."""
    names = NAMES.get(path)
    if names is None and not any(known.startswith(f"{path}.") for known in NAMES):
        return None
    module = ModuleType(f"{HERE}.{path}", "Private names of JAX that its libraries use.")
    for name, (value, _) in (names or {}).items():
        holder, _, attribute = value.partition(":")
        with contextlib.suppress(AttributeError):       # this version of jaxlib does not have it
            setattr(module, name, getattr(importlib.import_module(holder), attribute))
    return module


def backend_compile_and_load(backend: object, *args: object, **kwargs: object) -> None:
    """Called before each compilation.  A library that forbids compilation replaces it in ``jax._src.compiler``."""


def _call_replacement(client: object) -> None:
    if xjax_is_jax() and COMPILER in sys.modules:
        sys.modules[COMPILER].backend_compile_and_load(client)


before_compile.append(_call_replacement)


def register_exclusion(path: str) -> None:
    """Lines of this file of a library are not the user's."""
    exclude_paths.append(path)
    errors.exclude_file(path)


def summarize(source_info: SourceInfo) -> str:
    """The position of an equation: ``/home/model.py:31:4 (loss)``."""
    return "unknown" if source_info.source is None else errors.position_text(source_info.source)


def include_frame(frame: FrameType) -> bool:
    """Whether a frame of a traceback is shown."""
    return frame.f_code.co_filename not in exclude_paths


def supports_inf(dtype: DTypeLike) -> bool:
    """Whether the dtype has infinities."""
    with np.errstate(all="ignore"):
        return bool(np.isinf(np.asarray(np.inf).astype(dtype)))


def flatten_one_level(tree: PyTree) -> tuple[list[Any], PyTreeDef]:
    """The children of a node of a tree, and its type and static part.  Raises: ValueError for a leaf."""
    children, structure = flatten(tree, is_leaf=lambda x: x is not tree)
    if len(children) == 1 and children[0] is tree:
        raise bad("flatten_one_level", "a leaf has no children", {"leaf": type(tree)}, "test for leaves first.",
                  exc=ValueError)
    return children, structure


def prefix_errors(prefix: PyTree, full: PyTree,
                  is_leaf: Callable[[Any], bool] | None = None) -> list[Callable[[str], ValueError]]:
    """For each place where `prefix` does not match `full`, a function that makes the error from a name of `prefix`."""
    def error(path: tuple, expected: str, got: str) -> Callable[[str], ValueError]:
        return lambda name: errors.bad(f"{name}{keystr(path)}", f"a prefix has {expected}, the full tree {got}",
                                       fix="use the same containers in both, down to the leaves of the prefix.",
                                       exc=ValueError)

    return [error(*difference) for difference in prefix_differences(prefix, full, is_leaf)]


def infer_argnums_and_argnames(signature: inspect.Signature, argnums: int | Sequence[int] | None,
                               argnames: str | Sequence[str] | None) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of arguments, each completed from the other if it is None."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [name for name, p in signature.parameters.items() if p.kind in kinds]
    nums = () if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = () if argnames is None else (argnames,) if isinstance(argnames, str) else tuple(argnames)
    if argnums is None:
        nums = tuple(positional.index(name) for name in names if name in positional)
    if argnames is None:
        names = tuple(positional[n] for n in nums if -len(positional) <= n < len(positional))
    return nums, names
