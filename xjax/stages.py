"""The classes of the results of `jit(f).trace(...)`, `.lower(...)` and `.compile()`."""

from xjax.core.public import attributes_of
from xjax.runtime.jit import Jitted as Wrapped
from xjax.runtime.stages import ArgInfo, Compiled, Lowered, Traced

# The argument of `Lowered.compile`: names and values of XLA's options.
CompilerOptions = dict[str, str | bool]

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]

__getattr__ = attributes_of(__name__)
