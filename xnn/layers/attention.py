"""`MultiHeadAttention` and `CrossAttention`: four `Dense` layers around attention without parameters.

The projections are matrices [features, heads * head_size], the heads one after another, and not arrays of three axes:
weights of Hugging Face are their transposes, `params.low_rank` adapts them, and a mesh axis over the last axis splits
them by heads.
"""

from collections.abc import Callable

from xjax.errors import bad
from xnn.compose import composite
from xnn.layer import Layer, recorded
from xnn.layers.dense import Dense
from xnn.layers.dot_product import ContextAttention, DotProductAttention
from xnn.layers.positions import check_sequence
from xnn.layers.relative import ALiBi, Rotary


@recorded()
def MultiHeadAttention(features: int, heads: int, *, head_size: int | None = None, kv_heads: int | None = None,
                       causal: bool = False, window: int | None = None, positions: Rotary | ALiBi | None = None,
                       bias: bool = True, dropout: float = 0.0, scale: float | None = None,
                       w_init: Callable | None = None) -> Layer:
    """Each position gets a mean of values of all positions, for several heads (Vaswani et al., 2017).

    Shape: [batch, time, n_in] -> [batch, time, features].

    Args:
      features: number of output features.
      heads: number of heads of the query.
      head_size: features of a head; ``features // heads`` if None.
      kv_heads: number of heads of keys and values, each shared by ``heads // kv_heads`` neighbouring heads of the query
        (grouped-query attention, Ainslie et al., 2023; 1: multi-query); `heads` if None.
      causal: whether a position sees no later ones; needed for generation.
      window: if not None, a position sees those that are less than `window` away.
      positions: `Rotary()` or `ALiBi()`; with None, attention does not depend on the order of positions.
      bias: whether the four projections add a vector.
      dropout: rate at which weights of the mean are dropped in training.
      scale: factor of the products; ``1 / sqrt(head_size)`` if None.
      w_init: initializer of the four matrices, as in `Dense`.
    Inputs:
      mask: bool [batch, time], False for padding; or [batch or 1, heads or 1, time, time], True where the query (third
        axis) sees the key. A query that sees no key gets zeros, before the last projection.
      bias: float, with four axes as the mask: is added to the products, see `RelativeBias`.
      positions: int [batch or 1, time]; if None positions are counted, without those that a mask [batch, time] leaves
        out: padding may be left or right.
    Params: ``{"query", "key", "value", "out"}``, each ``{"w", "b"}`` of a `Dense`, and ``"attend": ()``.
    Cache: of `DotProductAttention`.
    Raises: ValueError if `features` does not divide into heads, or `heads` into groups.
    """
    head_size, kv_heads = _head_sizes("MultiHeadAttention", features, heads, head_size, kv_heads)
    attend = DotProductAttention(heads, head_size, kv_heads=kv_heads, causal=causal, window=window,
                                 positions=positions, dropout=dropout, scale=scale)

    def attention(layers, x, mask=None, bias=None, positions=None):
        x = check_sequence("MultiHeadAttention", x)
        return layers.out(layers.attend(layers.query(x), key=layers.key(x), value=layers.value(x), mask=mask, bias=bias,
                                        positions=positions))

    return composite(attention, "MultiHeadAttention", attend=attend,
                     **_projections(features, heads, kv_heads, head_size, bias, w_init))


@recorded()
def CrossAttention(features: int, heads: int, *, head_size: int | None = None, kv_heads: int | None = None,
                   bias: bool = True, dropout: float = 0.0, scale: float | None = None,
                   w_init: Callable | None = None) -> Layer:
    """Each position gets a mean of values of a second sequence, the context: a decoder reads what an encoder made.

    Shape: [batch, time, n_in], context [batch, keys, n_context] -> [batch, time, features].

    Args: as of `MultiHeadAttention`.
    Inputs:
      context: the second sequence. In a call with a cache None takes the keys and values of the first call, so that
        they are computed once.
      context_mask: bool [batch, keys], False for padding; or [batch or 1, heads or 1, time, keys].
    Params: as of `MultiHeadAttention`.  Cache: empty at first, then keys, values and mask of the context.
    Raises: as `MultiHeadAttention`.
    """
    head_size, kv_heads = _head_sizes("CrossAttention", features, heads, head_size, kv_heads)

    def attention(layers, x, context, context_mask=None):
        x = check_sequence("CrossAttention", x)
        key, value = (None, None) if context is None else (layers.key(context), layers.value(context))
        return layers.out(layers.attend(layers.query(x), key=key, value=value, mask=context_mask))

    attend = ContextAttention(heads, head_size, kv_heads=kv_heads, dropout=dropout, scale=scale)
    return composite(attention, "CrossAttention", attend=attend,
                     **_projections(features, heads, kv_heads, head_size, bias, w_init))


def _head_sizes(caller: str, features: int, heads: int, head_size: int | None, kv_heads: int | None) -> tuple[int, int]:
    """(head_size, kv_heads) with defaults. Raises: ValueError if they do not divide."""
    if head_size is None and features % heads:
        raise bad(caller, "the features do not divide into heads of equal size",
                  {"features": features, "heads": heads}, "pass head_size=, or another number of heads.", ValueError)
    if kv_heads is not None and (kv_heads < 1 or heads % kv_heads):
        raise bad(caller, "the heads do not divide into groups that share keys and values",
                  {"heads": heads, "kv_heads": kv_heads}, f"pass a divisor of {heads}, such as kv_heads=1.", ValueError)
    return head_size or features // heads, kv_heads or heads


def _projections(features: int, heads: int, kv_heads: int, head_size: int, bias: bool,
                 w_init: Callable | None) -> dict[str, Layer]:
    sizes = {"query": heads * head_size, "key": kv_heads * head_size, "value": kv_heads * head_size, "out": features}
    return {name: Dense(n, bias=bias, w_init=w_init) for name, n in sizes.items()}
