"""`jax.interpreters.xla`: eager execution of an operation."""

from xjax.compat.primitive import apply_primitive

__all__ = ["apply_primitive"]
