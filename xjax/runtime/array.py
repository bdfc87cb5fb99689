"""Old module name that pickles of arrays refer to: the functions that rebuild them."""

from xjax.runtime.arrays.array import _rebuild, _rebuild_keys

__all__ = ["_rebuild", "_rebuild_keys"]
