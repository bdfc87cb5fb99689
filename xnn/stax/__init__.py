"""The layers and combinators of `jax.example_libraries.stax`, with their names, arguments and meaning.

A program written for that module runs with its import changed, starts from the same parameters, bit for bit, and
computes the same numbers. What differs from the rest of `xnn`, to keep that promise:

- `Dropout` takes the probability to *keep* a value, and is for training or not from its construction on;
- `BatchNorm` always normalises by the batch at hand;
- combinators *split* the key, so a layer that is added changes the streams of the others; parameters are tuples, those
  of `serial` a list; `FanOut` and `parallel` give lists;
- every `apply` takes any keyword, and combinators hand all to their children.

A layer here is an `xnn.Layer` and may stand in `xnn.serial` and its like; layers of `xnn` with one input may stand
here.

    init_random_params, predict = stax.serial(stax.Dense(1024), stax.Relu, stax.Dense(10), stax.LogSoftmax)
    _, params = init_random_params(random.PRNGKey(0), (-1, 784))
"""

from xjax.nn import elu, gelu, leaky_relu, log_softmax, relu, selu, sigmoid, softmax, softplus, standardize
from xjax.nn.initializers import glorot_normal, normal, ones, zeros
from xnn.stax.affine import (
    Conv,
    Conv1DTranspose,
    ConvTranspose,
    Dense,
    GeneralConv,
    GeneralConvTranspose,
)
from xnn.stax.combinators import parallel, serial, shape_dependent
from xnn.stax.pooling import AvgPool, MaxPool, SumPool
from xnn.stax.simple import (
    BatchNorm,
    Dropout,
    Elu,
    Exp,
    FanInConcat,
    FanInSum,
    FanOut,
    Flatten,
    Gelu,
    Identity,
    LeakyRelu,
    LogSoftmax,
    Relu,
    Selu,
    Sigmoid,
    Softmax,
    Softplus,
    Tanh,
    elementwise,
)

glorot, randn, logsoftmax = glorot_normal, normal, log_softmax

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp", "FanInConcat",
    "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity", "LeakyRelu",
    "LogSoftmax", "MaxPool", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "elu",
    "gelu", "glorot", "glorot_normal", "leaky_relu", "log_softmax", "logsoftmax", "normal", "ones", "parallel", "randn",
    "relu", "selu", "serial", "shape_dependent", "sigmoid", "softmax", "softplus", "standardize", "zeros"]
