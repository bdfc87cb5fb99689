"""`platform_dependent`: one function for each kind of device, chosen when the program is compiled for one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Known, Value
from xjax.core.primitive import ZERO, Missing, Primitive
from xjax.core.types import ShapedArray
from xjax.lax.cond import choose
from xjax.lax.control import check_callable, is_known

_INDEX = ShapedArray((), np.dtype(np.int32))
_AS_JAX_SAYS = {"gpu": "cuda"}                  # the runtime's name of a platform -> the name that branches go by


def platform_dependent(*args: Any, default: Callable | None = None, **per_platform: Callable) -> Any:
    """``per_platform[name of the device's platform](*args)``, or ``default(*args)`` if it has no function of its own.

    Args:
      args: trees of arrays.
      per_platform: functions by platform, ``cpu=f, cuda=g``. All are traced, and must return the same structure and
        types; only the chosen one is compiled.
    Raises: NotImplementedError on a platform that has no function, if there is no default.

    >>> float(platform_dependent(3.0, cpu=lambda x: x + 1.0, default=lambda x: x + 1.0))
    4.0
    """
    caller = "lax.platform_dependent"
    platforms: list[tuple[str, ...]] = []
    branches: list[Callable] = []
    for name, branch in per_platform.items():
        check_callable(caller, name, branch)
        if name == "gpu":
            raise bad(caller, "'gpu' is no platform but a family of them", fix="use cuda=... or rocm=...",
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
    found = [k for k, names in enumerate(platforms) if names is None or own in names]
    if not found:
        known = ", ".join(name for names in platforms for name in names)
        raise bad("lax.platform_dependent", f"there is no function for the platform {own!r}",
                  given={"platforms": known or "none"}, fix=f"pass {own}=... or default=...", exc=NotImplementedError)
    return Known(b.constant(found[0], out).name, out, found[0])


platform_index_p = Primitive(
    "platform_index", type_rule=lambda *, platforms: _INDEX, lower=_lower, jvp=ZERO,
    transpose=Missing("a choice of code has no derivative"),
    batch=lambda axis, args, bdims, *, platforms: (platform_index_p.bind(platforms=platforms), None))
