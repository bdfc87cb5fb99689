"""The real JAX, where a program imports it: it shares jaxlib with xjax."""

import sys
from types import ModuleType


def imported_jax() -> ModuleType | None:
    """The module `jax` if it is the real JAX, not xjax under its name (`xjax.compat`); None if it is not imported."""
    module = sys.modules.get("jax")
    return None if module is None or "__xjax_sources__" in vars(module) else module
