"""`without_jax`: a block in which ``import jax`` fails, for jaxlib functions that would run it.

A few methods of jaxlib import jax, where it is installed, to build the object that they return. They also work without
it. The import would load JAX unexpectedly, which takes half a second. Hiding it through ``sys.modules`` would break an
``import jax`` in another thread (a checkpoint writer, for instance); an import hook with a thread-local counter does
not.
"""

import sys
import threading


class JaxBlocker:
    """Import hook and context manager; it acts only on the thread that entered it."""

    def __init__(self) -> None:
        self._local = threading.local()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if getattr(self._local, "depth", 0) and (name == "jax" or name.startswith("jax.")):
            raise ModuleNotFoundError(f"{name} is hidden from jaxlib", name=name)

    def __enter__(self) -> None:
        self._local.depth = getattr(self._local, "depth", 0) + 1

    def __exit__(self, *exc_info: object) -> None:
        self._local.depth -= 1


without_jax = JaxBlocker()
sys.meta_path.insert(0, without_jax)  # never removed, which would race with other imports
