"""`without_jax`: a block in which ``import jax`` fails, for the calls of jaxlib that would run it.

A few methods of jaxlib import jax, where it is installed, to build the object that they return,
and go on without it where it is not. That would load half a second of JAX behind the user's back.
Hiding it through ``sys.modules`` would break an ``import jax`` in another thread (a checkpoint
writer, say); an import hook that looks at a thread-local counter does not.
"""

import sys
import threading


class JaxBlocker:
    """Import hook and context manager in one; it acts on the thread that entered it only."""

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
sys.meta_path.insert(0, without_jax)  # stays: adding and removing it would race with other imports
