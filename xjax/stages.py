"""What `jit(f).trace(...)`, `.lower(...)` and `.compile()` return."""

from xjax.runtime.jit import Jitted as Wrapped
from xjax.runtime.stages import ArgInfo, Compiled, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced", "Wrapped"]
