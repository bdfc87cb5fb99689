"""xjax under the name `jax`: programs written for JAX run on it unmodified.

    import xjax
    xjax.install_as_jax()

From then on, ``import jax`` gives a module whose attributes are those of xjax. A program runs so without a change by
``python -m xjax program.py`` and ``python -m xjax -m pytest tests``. A library that needs JAX's extension surface, such
as `jax.core`, fails with the name of the missing module. Nothing in xjax imports this package.
"""

from xjax.compat.finder import Installed, install_as_jax, installed
from xjax.core.public import attributes_of

__all__ = ["Installed", "install_as_jax", "installed"]


__getattr__ = attributes_of(__name__)
