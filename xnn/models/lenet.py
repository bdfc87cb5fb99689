"""LeNet-5, a convolutional network for images of handwritten digits (LeCun et al., 1998)."""

from xjax.errors import check_choice
from xnn.combinators import named
from xnn.layer import Layer
from xnn.layers import AvgPool, Conv, Dense, Flatten, MaxPool, Relu, Tanh
from xnn.models.configs import LeNetConfig

_ACTIVATIONS = {"tanh": Tanh, "relu": Relu}
_POOLS = {"avg": AvgPool, "max": MaxPool}


def LeNet(config: LeNetConfig = LeNetConfig()) -> Layer:
    """Two convolutions with pools, and three dense layers.  Shape: [batch, 28, 28, features] -> [batch, classes].

    The first convolution keeps the size of the image, like the paper's padding of the images to 32 x 32 by zeros.
    Params: dict with "conv1", "conv2", "dense1", "dense2" and "dense3": 61,706 parameters for 28 x 28 images with one
    feature.

    >>> from xjax import random
    >>> shape, params = LeNet().init(random.PRNGKey(0), (-1, 28, 28, 1))
    >>> shape, params["conv2"]["w"].shape
    ((-1, 10), (5, 5, 6, 16))
    """
    for name, table in (("activation", _ACTIVATIONS), ("pool", _POOLS)):
        check_choice("LeNet", name, getattr(config, name), table)
    activation, pool = _ACTIVATIONS[config.activation], _POOLS[config.pool]
    return named(
        conv1=Conv(config.features[0], (5, 5)), activation1=activation, pool1=pool((2, 2)),
        conv2=Conv(config.features[1], (5, 5), padding="VALID"), activation2=activation, pool2=pool((2, 2)),
        flat=Flatten,
        dense1=Dense(config.hidden[0]), activation3=activation,
        dense2=Dense(config.hidden[1]), activation4=activation,
        dense3=Dense(config.classes))
