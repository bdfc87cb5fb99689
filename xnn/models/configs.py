"""The configs of all models: sizes and options, as frozen dataclasses with the defaults of the papers.

They are separate from the models so that a program can read and check configs without loading jaxlib.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from xnn.scaling import Llama3Scaling, RotaryScaling


@dataclass(frozen=True, slots=True)
class MLPConfig:
    """Sizes of an `MLP`.

    Attributes:
      hidden: numbers of features of the hidden layers; empty for a linear model.
      features: number of outputs.
      activation: activation after each hidden layer: a function of arrays, or the name of a function in `xjax.nn`.
      dropout: dropout rate after each activation, in training.
    """

    hidden: tuple[int, ...] = (64, 64)
    features: int = 1
    activation: str | Callable = "relu"
    dropout: float = 0.0


@dataclass(frozen=True, slots=True)
class LeNetConfig:
    """Sizes and options of a `LeNet`.

    Attributes:
      classes: number of outputs.
      features: numbers of output features of the two convolutions.
      hidden: sizes of the two hidden layers.
      activation: the paper's "tanh", or "relu".
      pool: "avg" as in the paper, but without parameters, or "max".
    """

    classes: int = 10
    features: tuple[int, int] = (6, 16)
    hidden: tuple[int, int] = (120, 84)
    activation: Literal["tanh", "relu"] = "tanh"
    pool: Literal["avg", "max"] = "avg"


@dataclass(frozen=True, slots=True)
class ResNetConfig:
    """Sizes and options of a residual network; the defaults are those of ResNet-18.

    Attributes:
      stages: (number of blocks, features) of each stage; each stage after the first halves the image.
      bottleneck: whether a block has 1 x 1, 3 x 3 and 1 x 1 convolutions, the last with four times the features. If
        False, a block has two 3 x 3 convolutions.
      classes: number of outputs.
      small_images: whether the stem is one 3 x 3 convolution that keeps the size, for images such as CIFAR's. If False,
        it is a 7 x 7 convolution with stride 2, and a pool.
      zero_init: whether the last scale of each block is initially 0, so that the block initially equals its shortcut
        (Goyal et al., 2017).
      axis_name: axis of a `pmap` whose devices share one batch, as in `BatchNorm`.
      head: "image" for logits of the classes of an image; "none" for the features of the last stage.
    """

    stages: tuple[tuple[int, int], ...] = ((2, 64), (2, 128), (2, 256), (2, 512))
    bottleneck: bool = False
    classes: int = 1000
    small_images: bool = False
    zero_init: bool = False
    axis_name: str | None = None
    head: Literal["image", "none"] = "image"


@dataclass(frozen=True, slots=True)
class ConvNeXtConfig:
    """Sizes of a ConvNeXt; the defaults are those of ConvNeXt-T.

    Attributes:
      stages: (number of blocks, features) of each stage; each stage after the first halves the image.
      classes: number of outputs.
      patch: size and stride of the first convolution.
      layer_scale: initial value of the parameters of `LayerScale`.
      drop_path: rate of `StochasticDepth` in the last block; the rate grows linearly from 0 in the first block. The
        paper trains ConvNeXt-T with 0.1.
    """

    stages: tuple[tuple[int, int], ...] = ((3, 96), (3, 192), (9, 384), (3, 768))
    classes: int = 1000
    patch: int = 4
    layer_scale: float = 1e-6
    drop_path: float = 0.0


@dataclass(frozen=True, slots=True)
class UNetConfig:
    """Sizes and options of a U-Net; the features are the paper's.

    Attributes:
      classes: number of features of the output.
      features: number of features at each resolution, highest resolution first; each next resolution is half of it.
      norm: the norm after each 3 x 3 convolution, which then has no bias: True or "batch" for `BatchNorm`, "group" for
        `GroupNorm`, which diffusion models use, or False. The paper has no norm.
      axis_name: axis of a `pmap` whose devices share one batch, as in `BatchNorm`.
      groups: number of groups of `GroupNorm`.
      attention: numbers of the resolutions with self-attention over all pixels, 0 for the highest; Ho et al. (2020)
        have it at 16 x 16.
      heads: number of heads of the attention.
      time: features of the input `time`: "sinusoidal" for steps 0, 1, 2, ..., "fourier" for real numbers of size 1,
        such as log noise levels; None: the model has no such input.
      labels: number of labels of the input `label`; 0: the model has no such input. It is unrelated to `classes`.
      label_dropout: how often training replaces a label by "no label", as in `LabelEmbedding`.
    """

    classes: int
    features: tuple[int, ...] = (64, 128, 256, 512, 1024)
    norm: bool | Literal["batch", "group"] = True
    axis_name: str | None = None
    groups: int = 32
    attention: tuple[int, ...] = ()
    heads: int = 1
    time: Literal["sinusoidal", "fourier"] | None = None
    labels: int = 0
    label_dropout: float = 0.1


@dataclass(frozen=True, slots=True)
class ViTConfig:
    """Sizes of a `ViT`; the defaults are ViT-B/16.

    Attributes:
      classes: number of outputs.
      image, patch: height and width of an image, and of the squares that it is split into.
      features, hidden, layers, heads: sizes of the blocks and of their feed-forward networks.
      dropout: rate for embeddings and the outputs of attention and feed-forward networks.
      epsilon: epsilon of `LayerNorm`.
      head: "image" for logits of the classes of an image; "pooler" for a vector of each patch, and one of the image;
        "none" for the vectors of the patches only.
    """

    classes: int = 1000
    image: int = 224
    patch: int = 16
    features: int = 768
    hidden: int = 3072
    layers: int = 12
    heads: int = 12
    dropout: float = 0.0
    epsilon: float = 1e-12
    head: Literal["image", "pooler", "none"] = "image"


@dataclass(frozen=True, slots=True)
class DiTConfig:
    """Sizes of a `DiT`; the defaults are DiT-XL/2 for latent images of 32 x 32 x 4 and the labels of ImageNet.

    Attributes:
      image, patch: height and width of an image, and of the squares that it is split into.
      outputs: number of features of each output pixel; 8 for the noise of 4 channels and its variances.
      features, hidden, layers, heads: sizes of the blocks and of their feed-forward networks.
      labels: number of labels of the input `label`; 0: the model has no such input.
      label_dropout: how often training replaces a label by "no label", as in `LabelEmbedding`.
    """

    image: int = 32
    patch: int = 2
    outputs: int = 8
    features: int = 1152
    hidden: int = 4608
    layers: int = 28
    heads: int = 16
    labels: int = 1000
    label_dropout: float = 0.1


@dataclass(frozen=True, slots=True)
class LSTMLanguageModelConfig:
    """Sizes of an `LSTMLanguageModel`; the defaults are the small model of the paper, with a tied output layer.

    Attributes:
      vocabulary: number of tokens.
      features: number of features of the embedding and of each layer.
      layers: number of LSTM layers.
      dropout: dropout rate of the inputs of each layer, and of the outputs of the last layer.
      tied: whether the output layer has the weights of the embedding, and no bias (Press and Wolf, 2017).
      unroll: number of positions in one iteration of the loop.
      return_carry: whether to return (logits, carry), to continue a text in the next batch.
    """

    vocabulary: int = 10_000
    features: int = 200
    layers: int = 2
    dropout: float = 0.0
    tied: bool = True
    unroll: int = 1
    return_carry: bool = False


@dataclass(frozen=True, slots=True)
class VAEConfig:
    """Sizes of a `VAE`; the defaults are common for MNIST.

    Attributes:
      shape: shape of one example.
      code: number of features of the code z.
      hidden: numbers of features of the encoder's hidden layers; the decoder has them in reverse order.
    """

    shape: tuple[int, ...] = (28, 28, 1)
    code: int = 20
    hidden: tuple[int, ...] = (400,)


@dataclass(frozen=True, slots=True)
class GPT2Config:
    """Sizes of a `GPT2`; the defaults are the small model.

    Attributes:
      vocabulary: number of tokens.
      length: maximum number of positions.
      features, layers, heads: sizes of the blocks; their feed-forward networks have 4 * features hidden features.
      dropout: rate for embeddings, attention weights, and the outputs of attention and feed-forward networks.
      head: "next_token" for logits of the next token; "sequence" for logits of the classes of a text; "none" for
        vectors.
      classes: number of outputs of "sequence".
      padding: token of padding, with which a classification of texts without a mask finds their last token; None: there
        is no padding.
    """

    vocabulary: int = 50_257
    length: int = 1024
    features: int = 768
    layers: int = 12
    heads: int = 12
    dropout: float = 0.1
    head: Literal["next_token", "sequence", "none"] = "next_token"
    classes: int = 2
    padding: int | None = None


@dataclass(frozen=True, slots=True)
class BERTConfig:
    """Sizes and options of a `BERT`; the defaults are the base model for uncased English.

    Options make it another encoder of the same form: RoBERTa and XLM-R have ``padding=1``, DistilBERT has ``types=0``
    and ``pooler="relu"``.

    Attributes:
      vocabulary, types: number of tokens, and of token types; without types, there is no embedding of them.
      length: number of rows of the table of positions.
      features, hidden, layers, heads: sizes of the blocks and of their feed-forward networks.
      dropout: rate for embeddings, attention weights, and the outputs of attention and feed-forward networks.
      epsilon: epsilon of `LayerNorm`.
      padding: token of padding. It has the row of its own number in the table of positions; other tokens have the rows
        after that one, in order. None: positions are those of `LearnedPositions`.
      head: outputs, as in `BERT`.
      classes: number of outputs of "sequence" and "token".
      pooler: activation of the pooled vector.
    """

    vocabulary: int = 30_522
    types: int = 2
    length: int = 512
    features: int = 768
    hidden: int = 3072
    layers: int = 12
    heads: int = 12
    dropout: float = 0.1
    epsilon: float = 1e-12
    padding: int | None = None
    head: Literal["pooler", "masked_token", "sequence", "token", "answer", "none"] = "pooler"
    classes: int = 2
    pooler: Literal["tanh", "relu"] = "tanh"

    @property
    def positions(self) -> int:
        """Maximum number of tokens of a text."""
        return self.length if self.padding is None else self.length - self.padding - 1


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Sizes and options of a `Llama`; the defaults are Llama 3.1 8B.

    Other options give Mistral, Qwen 2 and 3, and Gemma 1, 2 and 3 (text): see `xnn.pretrained.load`.

    Attributes:
      vocabulary: number of tokens.
      features, hidden, layers: sizes of the blocks and of their feed-forward networks.
      heads, kv_heads: number of heads of queries, and of keys and values.
      head_size: features of a head; None: features // heads.
      base, scaling: options of `Rotary`.
      epsilon: epsilon of `RMSNorm`.
      tied: whether the output layer uses the table of the embedding, as in the small models of Llama 3.2.
      bias: projections of attention that add a vector: none, the inputs (query, key and value, as in Qwen 2) or all.
      feed_forward_bias: whether the projections of the feed-forward networks add a vector.
      activation: activation of the gates; "gelu" is the tanh approximation, as in Gemma.
      window: if not None, a position attends only to positions at a distance less than `window`, as in Mistral.
      local: for each layer, whether it has the window; None: all have it.
      local_base: base of `Rotary` in the layers with the window, which then have no scaling; None: as in the others.
      head_norm: whether the features of each head of query and key are normalised, as in Qwen 3.
      norm_out: option of `EncoderBlock`; norm_offset: offset of `RMSNorm`.
      embedding_scale: whether embeddings are multiplied by features^1/2, as in Gemma.
      query_size: products of queries and keys are multiplied by query_size^-1/2; None: the features of a head.
      attention_cap, logit_cap: limits of the products and of the logits, ``cap * tanh(x / cap)``; None: no limit.
      head: the output: "next_token" has logits of the vocabulary, "sequence" and "token" have those of `classes` for a
        sequence (at its last position that the mask keeps) and for each token, "none" has the features.
      classes: number of outputs of "sequence" and "token".
      padding: as in `GPT2Config`.
    """

    vocabulary: int = 128_256
    features: int = 4096
    hidden: int = 14_336
    layers: int = 32
    heads: int = 32
    kv_heads: int = 8
    head_size: int | None = None
    base: float = 500_000.0
    scaling: RotaryScaling | None = Llama3Scaling()
    epsilon: float = 1e-5
    tied: bool = False
    bias: Literal["none", "inputs", "all"] = "none"
    feed_forward_bias: bool = False
    activation: Literal["silu", "gelu"] = "silu"
    window: int | None = None
    local: tuple[bool, ...] | None = None
    local_base: float | None = None
    head_norm: bool = False
    norm_out: bool = False
    norm_offset: float = 0.0
    embedding_scale: bool = False
    query_size: int | None = None
    attention_cap: float | None = None
    logit_cap: float | None = None
    head: Literal["next_token", "sequence", "token", "none"] = "next_token"
    classes: int = 2
    padding: int | None = None


@dataclass(frozen=True, slots=True)
class T5Config:
    """Sizes of a `T5`; the defaults are T5 small.

    Attributes:
      vocabulary: number of tokens.
      features, hidden, layers, heads, head_size: sizes of the blocks in encoder and decoder.
      gated: whether the feed-forward networks are gated by gelu, as in T5 1.1; if False they use relu.
      tied: whether the output layer uses the table of the embedding; False in T5 1.1.
      scaled: whether the input of the output layer is multiplied by features^-1/2; None: only if tied.
      buckets, max_distance: options of `RelativeBias`.
      dropout: rate for embeddings, attention weights, hidden features, and the outputs of attention and feed-forward
        networks.
      epsilon: epsilon of `RMSNorm`.
      decoder: False for the encoder alone.
    """

    vocabulary: int = 32_128
    features: int = 512
    hidden: int = 2048
    layers: int = 6
    heads: int = 8
    head_size: int = 64
    gated: bool = False
    tied: bool = True
    scaled: bool | None = None
    buckets: int = 32
    max_distance: int = 128
    dropout: float = 0.1
    epsilon: float = 1e-6
    decoder: bool = True
