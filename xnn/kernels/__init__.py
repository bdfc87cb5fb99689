"""Kernels of neural networks: those of infinite width, of finite networks, and predictions with them.

`Layer.kernel` is the kernel of a model of infinite width. This package has what is built on it.
"""

from xnn.covariance.evaluation import Kernels
from xnn.covariance.hermite import expansion_error
from xnn.covariance.kernel import Kernel
from xnn.kernels.empirical import empirical_kernel, empirical_nngp, empirical_ntk, ntk_product
from xnn.kernels.expand import linearize, taylor_expand
from xnn.public import public_names

__all__ = ["Kernel", "Kernels", "empirical_kernel", "empirical_nngp", "empirical_ntk", "expansion_error", "linearize",
           "ntk_product", "taylor_expand"]

public_names(__name__)
