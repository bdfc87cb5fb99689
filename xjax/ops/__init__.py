"""First-order primitives, one block each: type, lowering, derivative, transpose and batch rules together.

This package imports only `xjax.core`; `xjax.lax` re-exports its functions.

Public under this name, as in `jax.ops`, are only the sums over segments: `segment_sum`, `segment_prod`, `segment_max`,
`segment_min`. They are written in `xjax.numpy.segment`, a layer above, so they are imported on first access.
"""

import importlib
from typing import Any

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("xjax.numpy.segment"), name)
    raise AttributeError(f"module 'xjax.ops' has no attribute {name!r}")
