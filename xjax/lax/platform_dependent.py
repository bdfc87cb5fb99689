"""`platform_dependent`: one function per kind of device; the choice is made when the program is compiled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Known, Value
from xjax.core.primitive import ZERO, Missing, Primitive
from xjax.core.types import ShapedArray
from xjax.lax.cond import choose
from xjax.lax.control import check_callable, is_known
from xjax.typing import ArrayLike, PyTree

_INDEX = ShapedArray((), np.dtype(np.int32))
_AS_JAX_SAYS = {"gpu": "cuda"}                  # the runtime's name of a platform -> the keyword of its branch


def platform_dependent(*args: PyTree, default: Callable | None = None, **per_platform: Callable) -> ArrayLike:
    """``per_platform[platform of the device](*args)``, or ``default(*args)`` if there is no function for the platform.

    Args:
      args: trees of arrays.
      per_platform: functions by platform, ``cpu=f, cuda=g``. All are traced, and must return the same structure and
        types; only the selected function is compiled.
    Raises: NotImplementedError on a platform without a function, if there is no default.

    >>> float(platform_dependent(3.0, cpu=lambda x: x + 1.0, default=lambda x: x + 1.0))
    4.0
    """
    caller = "lax.platform_dependent"
    platforms: list[tuple[str, ...]] = []
    branches: list[Callable] = []
    for name, branch in per_platform.items():
        check_callable(caller, name, branch)
        if name == "gpu":
            raise bad(caller, "'gpu' is not one platform, but a family", fix="use cuda=... or rocm=...",
                      exc=ValueError)
        if branch in branches:
            k = branches.index(branch)
            platforms[k] = (*platforms[k], name)
        else:
            branches.append(branch)
            platforms.append((name,))
    if default is not None:
        check_callable(caller, "default", default)
        branches.append(default)
    index = platform_index_p.bind(platforms=(*platforms, None) if default is not None else tuple(platforms))
    if is_known(index):
        return branches[int(index)](*args)
    return choose(caller, index, branches, [*map(str, platforms), "default"][:len(branches)], args)


def _lower(b: Builder, out: ShapedArray, *, platforms) -> Value:
    own = _AS_JAX_SAYS.get(b.module.platform, b.module.platform)
    matches = [k for k, names in enumerate(platforms) if names is None or own in names]
    if not matches:
        known = ", ".join(name for names in platforms for name in names)
        raise bad("lax.platform_dependent", f"there is no function for the platform {own!r}",
                  given={"platforms": known or "none"}, fix=f"pass {own}=... or default=...", exc=NotImplementedError)
    return Known(b.constant(matches[0], out).name, out, matches[0])


platform_index_p = Primitive(
    "platform_index", type_rule=lambda *, platforms: _INDEX, lower=_lower, jvp=ZERO,
    transpose=Missing("a choice of code has no derivative"),
    batch=lambda axis, args, bdims, *, platforms: (platform_index_p.bind(platforms=platforms), None))
