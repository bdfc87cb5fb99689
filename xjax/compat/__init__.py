"""xjax under the name `jax`: programs written for JAX run on it unmodified.

    import xjax
    xjax.install_as_jax()

From then on, ``import jax`` gives a module whose attributes are those of xjax. A program runs so without a change by
``python -m xjax program.py`` and ``python -m xjax -m pytest tests``. JAX's extension surface, such as `jax.core` and
`jax.interpreters`, exists only there: `adapters` has a file for each of its modules. Nothing in xjax imports this
package.
"""

from xjax.compat.finder import Installed, install_as_jax, installed
from xjax.core.public import attributes_of

__all__ = ["Installed", "install_as_jax", "installed"]


__getattr__ = attributes_of(__name__)
