"""Real JAX as the oracle of a test, its version, and test data that are valid for some versions of JAX only.

xjax follows the newest reference. Where an older one differs, the test data say so::

    DIFFERENT = current({
        "jnp.sum(x)": "rounds once",                                     # in every version
        "jnp.max(x)": only("keeps NaN since 0.12", until="0.12"),        # when JAX is older than 0.12
    })
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from xjax.core.versions import version_numbers


def version_of(package: str) -> tuple[int, ...]:
    """The installed version as numbers, such as (0, 12, 0, 1); () if the package is not installed."""
    try:
        text = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ()
    return version_numbers(text)


VERSION = version_of("jax")


def real_jax(*modules: str) -> Any:
    """The module `jax`, with submodules ("scipy.stats") imported; skips the test or file if JAX is not installed."""
    jax = pytest.importorskip("jax", reason="compares with real JAX, which is not installed")
    for module in modules:
        importlib.import_module(f"jax.{module}")
    return jax


class Only(NamedTuple):
    """An item of test data that is valid for versions of JAX from `since` and before `until`."""

    value: Any
    since: str = ""
    until: str = ""

    @property
    def holds(self) -> bool:
        return holds(self.since, self.until)


def only(value: Any, *, since: str = "", until: str = "") -> Only:
    """`value`, if the installed JAX is at least `since` and older than `until`; for `current`."""
    return Only(value, since, until)


def holds(since: str = "", until: str = "") -> bool:
    """Whether the installed JAX is at least `since` and older than `until`; without JAX, the newest version counts."""
    version = VERSION or (1_000,)
    return version >= version_numbers(since) and not (until and version >= version_numbers(until))


def current(data: Any) -> Any:
    """A list, tuple, set or dict without the entries for other versions, and with `Only` values unwrapped."""
    if isinstance(data, dict):
        return {k: _value(v) for k, v in data.items() if _holds(v)}
    return type(data)(_kept(data))


def _kept(data: Iterable[Any]) -> Iterable[Any]:
    return (_value(x) for x in data if _holds(x))


def _holds(x: Any) -> bool:
    return x.holds if isinstance(x, Only) else True


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Only) else x
