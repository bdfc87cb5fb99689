"""The core: dtypes, trees, options, types, traces, primitives and programs.

Public here are only the names that JAX has in `jax.core`: `isinstance(x, xjax.core.Tracer)`.
"""

from xjax.core.public import attributes_of

# Public name -> (module, name in it), imported on first access.
_LAZY = {
    "Atom": ("xjax.core.jaxpr", "Atom"),
    "ShapedArray": ("xjax.core.types", "ShapedArray"),
    "Trace": ("xjax.core.trace", "Trace"),
    "Tracer": ("xjax.core.trace", "Tracer"),
    "ensure_compile_time_eval": ("xjax.runtime.api", "ensure_compile_time_eval"),
    "eval_jaxpr": ("xjax.core.jaxpr", "eval_jaxpr"),
    "max_dim": ("xjax.core.symbolic.dims", "max_dim"),
    "min_dim": ("xjax.core.symbolic.dims", "min_dim"),
}

__all__ = []

__getattr__ = attributes_of(__name__, _LAZY)
