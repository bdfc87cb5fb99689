"""`export`: trace a jitted function and write its module, and that of its derivative when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjax.core.calls import api_boundary
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.symbolic.dims import is_static
from xjax.core.symbolic.scope import check_one_scope
from xjax.core.tree import keystr, tree_flatten_with_path
from xjax.core.types import ShapedArray
from xjax.export.calling import NAME_IN_FILES
from xjax.export.checks import DisabledSafetyCheck, check_foreign_calls
from xjax.export.exported import Exported, maximum_supported_calling_convention_version
from xjax.export.module import module_text
from xjax.runtime.devices import backend
from xjax.runtime.jit import Jitted, jit
from xjax.runtime.stages import ShapeDtypeStruct, Traced
from xjax.runtime.xla.artifacts import artifact
from xjax.transforms.autodiff import vjp
from xjax.typing import ArrayLike, PyTree


def default_export_platform() -> str:
    """The name of the default platform in files: "cpu" or "cuda"."""
    return NAME_IN_FILES[backend.default_backend()]


def export(fun_jit: Callable, *, platforms: Sequence[str] | None = None,
           disabled_checks: Sequence[DisabledSafetyCheck] = ()) -> Callable[..., Exported]:
    """A function that exports `fun_jit` for arguments of given types.

    Args:
      fun_jit: the result of `jit`.
      platforms: "cpu", "cuda" or both; the module has the program of each. None: the default platform.
      disabled_checks: checks to omit.
    Returns: ``f(*args, **kwargs) -> Exported``; arguments are arrays or `ShapeDtypeStruct`s, whose shapes may have
      symbolic dimensions.
    Raises: ValueError if `fun_jit` is not jitted, or a module cannot be read by other versions; NotImplementedError for
      callbacks, several devices and other memories.

    >>> exported = export(xjax.jit(xjax.numpy.sin))(xjax.ShapeDtypeStruct((2,), "float32"))
    >>> loaded = xjax.export.deserialize(exported.serialize())
    >>> loaded.in_avals, loaded.call(xjax.numpy.zeros(2))
    ((ShapedArray(float32[2]),), Array([0., 0.], dtype=float32))
    """
    if not isinstance(fun_jit, Jitted):
        raise bad("export", "the function is not the result of `jit`", {"function": repr(fun_jit)},
                  "pass export.export(xjax.jit(f)).", ValueError)
    names = (default_export_platform(),) if platforms is None else _checked(platforms)
    disabled = tuple(disabled_checks)

    @api_boundary
    def do_export(*args: PyTree, **kwargs: PyTree) -> Exported:
        leaves = tree_flatten_with_path((args, kwargs))[0]
        shapes = [(keystr(path), x.shape) for path, x in leaves if hasattr(x, "shape")]
        check_one_scope("export", shapes)
        return _exported(fun_jit.trace(*args, **kwargs), names, disabled)

    return do_export


def _checked(platforms: Sequence[str]) -> tuple[str, ...]:
    names = (platforms,) if isinstance(platforms, str) else tuple(platforms)
    unknown = [name for name in names if name not in NAME_IN_FILES.values()]
    if unknown or not names:
        raise bad("export", "unknown platforms" if unknown else "there are no platforms", {"platforms": names},
                  f"choose among {', '.join(NAME_IN_FILES.values())}.", ValueError)
    return names


def _exported(traced: Traced, platforms: tuple[str, ...], disabled: tuple[DisabledSafetyCheck, ...]) -> Exported:
    caller = f"export of `{traced.fun_name}`"
    if any(len(s.devices) > 1 for s in traced.shardings()):
        raise bad(caller, "the arguments are on several devices", None,
                  "export the function of one device, and call it inside shard_map or jit.", NotImplementedError)
    closed = traced.closed()
    own = [backend.platform_named(caller, name) for name in platforms]
    text = module_text(caller, closed, traced.fun_name, own)
    check_foreign_calls(caller, text, disabled)
    try:
        module = artifact(text)
    except ValueError as error:
        raise bad(caller, "the program has no portable form", {"reason": str(error).splitlines()[0]},
                  "report it with the program.", NotImplementedError) from None
    in_avals, out_avals = closed.in_avals, closed.out_avals
    none_in, none_out = (None,) * len(in_avals), (None,) * len(out_avals)
    return Exported(
        fun_name=traced.fun_name, in_tree=traced.in_tree, in_avals=in_avals, out_tree=traced.out_tree,
        out_avals=out_avals, _in_named_shardings=none_in, _out_named_shardings=none_out, in_shardings_hlo=none_in,
        out_shardings_hlo=none_out, nr_devices=1, platforms=platforms, ordered_effects=(), unordered_effects=(),
        disabled_safety_checks=disabled, mlir_module_serialized=module,
        calling_convention_version=maximum_supported_calling_convention_version,
        module_kept_var_idx=tuple(range(len(in_avals))),
        uses_global_constants=len(platforms) > 1 or not all(is_static(a.shape) for a in in_avals),
        _get_vjp=lambda exported: _exported_vjp(exported, closed))


def _exported_vjp(exported: Exported, closed: ClosedJaxpr) -> Exported:
    """The derivative: (leaves of arguments, cotangents of results) -> cotangents of arguments."""
    count = len(exported.in_avals)

    def derivative(*args_and_cotangents: ArrayLike) -> tuple:
        args, cotangents = args_and_cotangents[:count], args_and_cotangents[count:]
        _, backward = vjp(lambda *args: tuple(closed(*args)), *args)
        return tuple(backward(tuple(cotangents)))

    derivative.__name__ = f"{exported.fun_name}_vjp"
    avals: list[ShapedArray] = [*exported.in_avals, *[a.tangent() for a in exported.out_avals]]
    traced = jit(derivative).trace(*[ShapeDtypeStruct.of(a) for a in avals])
    return _exported(traced, exported.platforms, exported.disabled_safety_checks)
