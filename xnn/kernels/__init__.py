"""Kernels of neural networks: those of infinite width, of finite networks, and predictions with them.

`Layer.kernel` is the kernel of a model of infinite width. This package has what is built on it.
"""

from xnn.covariance.evaluation import Kernels
from xnn.covariance.hermite import expansion_error
from xnn.covariance.kernel import Kernel
from xnn.kernels.empirical import empirical_kernel, empirical_nngp, empirical_ntk, ntk_product
from xnn.kernels.expand import linearize, taylor_expand
from xnn.kernels.predict import (
    Gaussian,
    gp_inference,
    gradient_descent,
    gradient_descent_mse,
    gradient_descent_mse_ensemble,
    max_learning_rate,
)
from xnn.kernels.sketch import Features, sketched_features
from xnn.kernels.solve import IllConditioned
from xnn.kernels.tiles import tiled_kernel
from xnn.kernels.weights import normal_weights
from xnn.public import public_names

__all__ = [
    "Features", "Gaussian", "IllConditioned", "Kernel", "Kernels", "empirical_kernel", "empirical_nngp",
    "empirical_ntk", "expansion_error", "gp_inference", "gradient_descent", "gradient_descent_mse",
    "gradient_descent_mse_ensemble", "linearize", "max_learning_rate", "normal_weights", "ntk_product",
    "sketched_features", "taylor_expand", "tiled_kernel"]

public_names(__name__)
