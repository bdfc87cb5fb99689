"""The real JAX, where a program imports it: it shares jaxlib with xjax."""

import sys
from types import ModuleType


def imported_jax() -> ModuleType | None:
    """The module `jax` if it is the real JAX, not xjax under its name (`xjax.compat`); None if it is not imported."""
    module = sys.modules.get("jax")
    return None if module is None or xjax_is_jax() else module


def xjax_is_jax() -> bool:
    """Whether xjax is installed as jax in this process."""
    return "__xjax_sources__" in vars(sys.modules.get("jax", sys))
