"""xjax under the name `jax`: programs and libraries written for JAX run on it unmodified.

    import xjax
    xjax.install_as_jax()

    import jax                          # a module whose attributes are those of xjax
    import optax                        # traces and runs on xjax

or, without a change of the program, ``python -m xjax program.py`` and ``python -m xjax -m pytest tests``. Nothing in
xjax imports this package.
"""

from xjax.compat.finder import Installed, install_as_jax, installed
from xjax.core.public import attributes_of

__all__ = ["Installed", "install_as_jax", "installed"]


__getattr__ = attributes_of(__name__)
