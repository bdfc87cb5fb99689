"""First-order primitives, one block each: type, lowering, derivative, transpose and batch rules together.

This package imports only `xjax.core`; `xjax.lax` re-exports its functions.

Public under this name, as in `jax.ops`, are only the sums over segments: `segment_sum`, `segment_prod`, `segment_max`,
`segment_min`, and the indexed updates of older programs: `index`, `index_update`, `index_add`, `index_mul`,
`index_min`, `index_max`. They are written in `xjax.numpy`, a layer above, so they are imported on first access.
"""

from xjax.core.public import attributes_of

_WRITTEN_IN = {
    "segment": ("segment_max", "segment_min", "segment_prod", "segment_sum"),
    "index_update": ("index", "index_add", "index_max", "index_min", "index_mul", "index_update"),
}

__all__ = []

__getattr__ = attributes_of(__name__, {name: (f"xjax.numpy.{module}", name)
                                       for module, names in _WRITTEN_IN.items() for name in names})
