"""The layers and combinators of `jax.example_libraries.stax`, with the same names, arguments and meaning.

A program written for that module runs with only its import changed, starts from bit-identical parameters, and computes
the same numbers. For this purpose, some things differ from the rest of `xnn`:

- `Dropout` takes the probability to *keep* a value, and its mode, training or evaluation, is an argument of the
  constructor;
- `BatchNorm` always normalises by the current batch;
- combinators *split* the key, so an added layer changes the random streams of the others. Parameters are tuples, but a
  list in `serial`. `FanOut` and `parallel` return lists;
- every `apply` accepts any keyword, and combinators pass all keywords to their children.

A layer of this module is an `xnn.Layer`, and can be used in `xnn.serial` and other combinators of `xnn`. Layers of
`xnn` with one input can be used in the combinators of this module.

    init_random_params, predict = stax.serial(stax.Dense(1024), stax.Relu, stax.Dense(10), stax.LogSoftmax)
    _, params = init_random_params(random.PRNGKey(0), (-1, 784))
"""

from xjax.nn import elu, gelu, leaky_relu, log_softmax, relu, selu, sigmoid, softmax, softplus, standardize
from xjax.nn.initializers import glorot_normal, normal, ones, zeros
from xnn.public import public_names
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

public_names(__name__)
