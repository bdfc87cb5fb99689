"""Losses: functions of predictions, targets and weights.

All take `weights` and `reduction`. Weights are bools or numbers with the shape of the losses or of its leading axes; a
loss of weight 0, such as padding or a missing target, is left out with its gradient, also if it is NaN. The reduction
is "mean" (the sum divided by the sum of the weights), "sum", or None for the unreduced losses.
"""

from xnn.losses.classification import binary_cross_entropy, cross_entropy, focal, hinge, kl_divergence
from xnn.losses.contrastive import cosine_distance, info_nce, nt_xent, triplet
from xnn.losses.ctc import ctc
from xnn.losses.regression import huber, log_cosh, mae, mse
from xnn.losses.variational import gaussian_kl, negative_elbo
from xnn.public import public_names

__all__ = [
    "binary_cross_entropy", "cosine_distance", "cross_entropy", "ctc", "focal", "gaussian_kl", "hinge", "huber",
    "info_nce", "kl_divergence", "log_cosh", "mae", "mse", "negative_elbo", "nt_xent", "triplet"]

public_names(__name__)
