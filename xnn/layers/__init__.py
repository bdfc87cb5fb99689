"""Layers; each file holds one family."""

from xnn.layers.activations import (
    GLU,
    ABRelu,
    Abs,
    Celu,
    Cos,
    Elu,
    Erf,
    ExactGelu,
    Exp,
    Gaussian,
    GeGLU,
    Gelu,
    HardShrink,
    HardSigmoid,
    HardSwish,
    HardTanh,
    Hermite,
    LeakyRelu,
    LogSigmoid,
    LogSoftmax,
    Maxout,
    Mish,
    Monomial,
    Polynomial,
    PReLU,
    QuickGelu,
    RectifiedMonomial,
    ReGLU,
    Relu,
    Relu6,
    RReLU,
    Selu,
    Sigmoid,
    Sign,
    Silu,
    Sin,
    Softmax,
    Softmin,
    Softplus,
    SoftShrink,
    SoftSign,
    SparsePlus,
    SparseSigmoid,
    Squareplus,
    SwiGLU,
    Tanh,
    TanhShrink,
    Threshold,
)
from xnn.layers.attention import CrossAttention, LimitAttention, MultiHeadAttention
from xnn.layers.cells import ConvLSTMCell, GRUCell, LSTMCell, RNNCell
from xnn.layers.conditioning import AdaLN, AdaLNZero, FiLM, FourierFeatures, LabelEmbedding, SinusoidalFeatures
from xnn.layers.conv import Conv, ConvLocal, ConvTranspose, DepthwiseConv
from xnn.layers.dense import Dense
from xnn.layers.dot_product import ContextAttention, DotProductAttention
from xnn.layers.dropout import AlphaDropout, Dropout, StochasticDepth
from xnn.layers.elementwise import elementwise
from xnn.layers.embed import Attend, Embedding
from xnn.layers.experts import MixtureOfExperts
from xnn.layers.fan import FanInConcat, FanInProd, FanInSum, FanOut
from xnn.layers.linear import Bias, Bilinear, DenseGeneral, Einsum, LayerScale, Scale
from xnn.layers.noise import GaussianDropout, GaussianNoise
from xnn.layers.norm import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from xnn.layers.pool import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    GlobalSumPool,
    MaxPool,
    SumPool,
)
from xnn.layers.positions import LearnedPositions, SinusoidalPositions
from xnn.layers.recurrent import GRU, LSTM, RNN, bidirectional
from xnn.layers.relative import ALiBi, RelativeBias, Rotary
from xnn.layers.resize import Pad, PixelShuffle, PixelUnshuffle, Upsample
from xnn.layers.scan import scan_over_time
from xnn.layers.shapes import Flatten, Identity, MaskRows, Reshape
from xnn.layers.squeeze_excite import SqueezeExcite
from xnn.layers.transformer import DecoderBlock, EncoderBlock, FeedForward
from xnn.public import public_names
from xnn.scaling import DynamicScaling, LinearScaling, Llama3Scaling, LongScaling, YarnScaling

__all__ = [
    "ABRelu", "ALiBi", "Abs", "AdaLN", "AdaLNZero", "AdaptiveAvgPool", "AdaptiveMaxPool", "AlphaDropout", "Attend",
    "AvgPool", "BatchNorm", "Bias", "Bilinear", "Celu", "ContextAttention", "Conv", "ConvLSTMCell", "ConvLocal",
    "ConvTranspose", "Cos", "CrossAttention", "DecoderBlock", "Dense", "DenseGeneral", "DepthwiseConv",
    "DotProductAttention", "Dropout", "DynamicScaling", "Einsum", "Elu", "Embedding", "EncoderBlock", "Erf",
    "ExactGelu", "Exp", "FanInConcat", "FanInProd", "FanInSum", "FanOut", "FeedForward", "FiLM", "Flatten",
    "FourierFeatures", "GLU", "GRU", "GRUCell", "Gaussian", "GaussianDropout", "GaussianNoise", "GeGLU", "Gelu",
    "GlobalAvgPool", "GlobalMaxPool", "GlobalSumPool", "GroupNorm", "HardShrink", "HardSigmoid", "HardSwish",
    "HardTanh", "Hermite", "Identity", "InstanceNorm", "LSTM", "LSTMCell", "LabelEmbedding", "LayerNorm",
    "LayerScale", "LeakyRelu", "LearnedPositions", "LimitAttention", "LinearScaling", "Llama3Scaling", "LogSigmoid",
    "LogSoftmax", "LongScaling", "MaskRows", "MaxPool", "Maxout", "Mish", "MixtureOfExperts", "Monomial",
    "MultiHeadAttention", "PReLU", "Pad", "PixelShuffle", "PixelUnshuffle", "Polynomial", "QuickGelu", "RMSNorm",
    "RNN", "RNNCell", "RReLU", "ReGLU", "RectifiedMonomial", "RelativeBias", "Relu", "Relu6", "Reshape", "Rotary",
    "Scale", "Selu", "Sigmoid", "Sign", "Silu", "Sin", "SinusoidalFeatures", "SinusoidalPositions", "SoftShrink",
    "SoftSign", "Softmax", "Softmin", "Softplus", "SparsePlus", "SparseSigmoid", "Squareplus", "SqueezeExcite",
    "StochasticDepth", "SumPool", "SwiGLU", "Tanh", "TanhShrink", "Threshold", "Upsample", "YarnScaling",
    "bidirectional", "elementwise", "scan_over_time"]

public_names(__name__)
