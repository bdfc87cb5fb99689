"""optax for xjax: `from xnn import optim as optax`.

This module has every public name of optax: optimizers, schedules, losses, `apply_updates`, `global_norm`, and the
submodules (`optim.losses`, `optim.contrib`, ...). A name is bridged when it is first used. An update is one compiled
program, and can be used under `jit`, `vmap` and `grad`.

    tx = optim.adam(1e-3)
    state = tx.init(params)
    updates, state = tx.update(grads, state, params)
    params = optim.apply_updates(params, updates)

Importing this module imports optax, which imports the real JAX (about half a second).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from xjax import interop
from xjax.errors import bad, missing_name

_optax = interop.import_library("optax")


def from_optax(tx: Any) -> Any:
    """An optax transformation (or anything with `init` and `update`) for xjax arrays.

    Returns: a NamedTuple of optax's type with both functions bridged. The functions of this module (`chain`,
    `masked`, ...) accept it.
    Raises: TypeError unless `tx` has `init` and `update`.

    >>> import optax
    >>> tx = xnn.optim.from_optax(optax.sgd(0.1))
    """
    init, update = getattr(tx, "init", None), getattr(tx, "update", None)
    if not callable(init) or not callable(update):
        raise bad("optim.from_optax", "needs an optax transformation", given={"tx": f"{type(tx).__name__} {tx!r:.60}"},
                  fix="pass the result of optax.adam(...) or of another optimizer.")
    kind = _optax.GradientTransformationExtraArgs
    if not isinstance(tx, kind):
        kind = _optax.GradientTransformation
    return kind(interop.from_jax(init), interop.from_jax(update))


class MultiSteps:
    """Update at every k-th step only, with the mean of the gradients since the last update: `optax.MultiSteps`.

    Args: as for optax.MultiSteps; `opt` may be a transformation of this module or of optax.
    """

    def __init__(self, opt: Any, every_k_schedule: int | Callable, use_grad_mean: bool = True,
                 should_skip_update_fn: Callable | None = None) -> None:
        inner = _optax.MultiSteps(opt, every_k_schedule, use_grad_mean, should_skip_update_fn)
        self.init, self.update = interop.from_jax(inner.init), interop.from_jax(inner.update)
        self.has_updated = interop.from_jax(inner.has_updated)

    def gradient_transformation(self) -> Any:
        """The pair (init, update)."""
        return _optax.GradientTransformation(self.init, self.update)


class _Namespace(ModuleType):
    """A submodule of optax with its functions bridged."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(f"xnn.optim.{module.__name__.partition('.')[2]}", module.__doc__)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = _bridged(self._module, self.__name__, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return _public_names(self._module)


def _bridged(module: ModuleType, caller: str, name: str) -> Any:
    """An attribute of an optax module: functions and modules are bridged, classes and constants are not."""
    if name.startswith("_") or not hasattr(module, name):
        raise missing_name(caller, name, _public_names(module))
    value = getattr(module, name)
    if isinstance(value, ModuleType):
        return _Namespace(value)
    if isinstance(value, functools.partial) or (callable(value) and hasattr(value, "__qualname__")
                                                and not isinstance(value, type)):
        return interop.from_jax(value)
    return value


def _public_names(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_")]


def __getattr__(name: str) -> Any:
    value = globals()[name] = _bridged(_optax, __name__, name)
    return value


def __dir__() -> list[str]:
    return sorted({*_public_names(_optax), "from_optax"})
