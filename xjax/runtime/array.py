"""Where pickles of arrays that were written before `xjax.runtime` had rooms look for how to read them."""

from xjax.runtime.arrays.array import _rebuild, _rebuild_keys

__all__ = ["_rebuild", "_rebuild_keys"]
