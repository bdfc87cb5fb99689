"""What `jit(f).lower(...)` and `.compile()` return."""

from xjax.runtime.stages import Compiled, Lowered, Traced

__all__ = ["Compiled", "Lowered", "Traced"]
