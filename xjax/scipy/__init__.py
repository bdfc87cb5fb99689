"""Functions named as in SciPy: the public namespace `xjax.scipy`. Submodules are imported at their first use."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from xjax.core.public import attributes_of

if _TYPE_CHECKING:
    from xjax.scipy import (
        cluster,
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        spatial,
        special,
        stats,
    )

__all__ = ["cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse",
           "spatial", "special", "stats"]


__getattr__ = attributes_of(__name__, {name: (f"xjax.scipy.{name}", "") for name in __all__})
