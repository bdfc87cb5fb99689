"""The models of tests/xnn/peers/kernels.py as layers of xnn."""

import functools

import xnn
from tests.xnn.peers.kernels import WIDTH, B, W
from xjax.nn.initializers import normal, variance_scaling
from xnn.covariance.elementwise import exponential

WEIGHTS = {"w_init": variance_scaling(W * W, "fan_in", "normal"), "b_init": normal(B)}
SIMPLE = {"relu": xnn.Relu, "abs": xnn.Abs, "sign": xnn.Sign, "gelu": xnn.ExactGelu, "flatten": xnn.Flatten,
          "mask": xnn.MaskRows(), "global_average": xnn.GlobalAvgPool(), "global_sum": xnn.GlobalSumPool(),
          "sigmoid_like": xnn.Erf(1 / 2.4020563531719796, 0.5, 0.5)}
MADE = {"dense": functools.partial(xnn.Dense, **WEIGHTS), "leaky": lambda slope: xnn.ABRelu(slope, 1.0),
        "abrelu": xnn.ABRelu, "erf": xnn.Erf, "sin": xnn.Sin, "cos": xnn.Cos,
        "rbf": lambda gamma: xnn.Sin((2 * gamma) ** 0.5, 2**0.5, 0.25 * 3.141592653589793),
        "exp": lambda scale, factor: xnn.elementwise(
            lambda x: factor * xnn.Exp.apply((), scale * x), "Exp",
            moments=exponential(scale, factor)),
        "gaussian": xnn.Gaussian, "monomial": xnn.Monomial, "polynomial": xnn.Polynomial, "hermite": xnn.Hermite,
        "rectified": xnn.RectifiedMonomial, "average": xnn.AvgPool, "sum": xnn.SumPool, "dropout": xnn.Dropout,
        "norm": lambda axis: xnn.LayerNorm(axis, epsilon=1e-12, scale=False, bias=False)}


def built(model: list) -> xnn.Layer:
    """The layer of a list of layers with arguments."""
    return xnn.serial(*map(_made, model))


def _made(layer):
    name, *args = layer
    if name in ("conv", "transposed", "local"):
        kind = {"conv": xnn.Conv, "transposed": xnn.ConvTranspose, "local": xnn.ConvLocal}[name]
        return kind(WIDTH, args[0], **args[1], **WEIGHTS)
    if name == "attention":
        return xnn.renamed(xnn.LimitAttention(WIDTH, 4, scaling=args[0], weights=args[1], **WEIGHTS), mask="row_mask")
    if name == "residual":
        return xnn.residual(built(args[0]))
    if name == "branches":
        end = {"sum": xnn.FanInSum, "product": xnn.FanInProd, "concat": xnn.FanInConcat()}[args[0]]
        return xnn.serial(xnn.FanOut(len(args[1])), xnn.parallel(*map(built, args[1])), end)
    return MADE[name](*args) if name in MADE else SIMPLE[name]
