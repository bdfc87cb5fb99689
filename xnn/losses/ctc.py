"""`ctc`: a loss for a sequence of labels whose positions in the input are unknown."""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax, nn
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.checks import at_least_int32, type_text
from xnn.losses.reduction import reduced, wide

_NEVER = -1e30         # log of 0; finite, so that differences of such numbers, and gradients, are finite


def ctc(logits: ArrayLike, labels: ArrayLike, *, lengths: ArrayLike | None = None,
        label_lengths: ArrayLike | None = None, blank: int = 0, weights: ArrayLike | None = None,
        reduction: str | None = "mean") -> Array:
    """Connectionist temporal classification (Graves et al., 2006): -log of the probability of a sequence of labels.

    An output has one class for each position; it gives the labels if repetitions are merged and then blanks are
    removed. The probability is the sum over all outputs that give the labels. If there are too few positions for the
    labels, the loss is infinite and has no gradient.

    Args:
      logits: floats [batch, time, classes].
      labels: integers [batch, n], without blanks.
      lengths, label_lengths: integers [batch], numbers of positions and of labels that count; None: all.
      blank: the class that means no label.
      weights, reduction: as in all losses; the losses are [batch]. (PyTorch's mean first divides each loss by its
        number of labels.)

    >>> ctc(jnp.zeros((1, 2, 2)), jnp.array([[1]])).round(4)       # 3 of the 4 outputs of two positions: -log(3/4)
    Array(0.2877, dtype=float32)
    """
    logits, dtype = wide("ctc", logits, 3, weights)
    labels = _integers("ctc", "labels", labels, logits, 2)
    (batch, time), n = logits.shape[:2], labels.shape[1]
    lengths = jnp.full(batch, time) if lengths is None else _integers("ctc", "lengths", lengths, logits, 1)
    counts = label_lengths
    counts = jnp.full(batch, n) if counts is None else _integers("ctc", "label_lengths", counts, logits, 1)
    if not 0 <= blank < logits.shape[-1]:
        raise bad("ctc", "`blank` must be a class of the logits", {"logits": type_text(logits), "blank": blank},
                  f"pass a number in [0, {logits.shape[-1]}).", ValueError)

    # States of a sequence: blank, label 0, blank, label 1, ..., blank.
    counts_at = jnp.arange(n, dtype=counts.dtype)[None] < counts[:, None]
    states = jnp.full((batch, 2 * n + 1), blank, labels.dtype).at[:, 1::2].set(jnp.where(counts_at, labels, blank))
    can_skip = jnp.pad((states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2]), ((0, 0), (2, 0)))[:, :2 * n + 1]
    log_p = _at_states(nn.log_softmax(logits), states)

    def step(alpha, at):
        log_p, is_input = at
        skipped = jnp.where(can_skip, _moved(alpha, 2), _NEVER)
        arrived = log_p + jnp.logaddexp(jnp.logaddexp(alpha, _moved(alpha, 1)), skipped)
        return jnp.where(is_input[:, None], arrived, alpha), None

    start = jnp.full(states.shape, _NEVER, logits.dtype).at[:, 0].set(0)
    is_input = jnp.arange(time, dtype=lengths.dtype)[:, None] < lengths[None]
    alpha, _ = lax.scan(step, start, (jnp.swapaxes(log_p, 0, 1), is_input))
    last = jnp.take_along_axis(jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=_NEVER),
                               2 * counts[:, None] + jnp.arange(2, dtype=counts.dtype)[None], 1)
    losses = -jnp.logaddexp(last[:, 0], last[:, 1])
    return reduced("ctc", jnp.where(losses > -_NEVER / 2, np.inf, losses), weights, reduction, dtype)


def _moved(alpha: Array, n: int) -> Array:
    """Values of the states shifted by n: entry i is the value of state i - n."""
    return jnp.pad(alpha, ((0, 0), (n, 0)), constant_values=_NEVER)[:, :alpha.shape[1]]


def _at_states(log_p: Array, states: Array) -> Array:
    """Log-probabilities of the states: [batch, time, states]; NaN for a label that is not a class."""
    inside = (states >= 0) & (states < log_p.shape[-1])
    at = jnp.broadcast_to(jnp.where(inside, states, 0)[:, None], (*log_p.shape[:2], states.shape[1]))
    return jnp.where(inside[:, None], jnp.take_along_axis(log_p, at, -1), np.nan)


def _integers(caller: str, name: str, value: Array, logits: Array, rank: int) -> Array:
    value = jnp.asarray(value)
    if not jnp.issubdtype(value.dtype, np.integer) or value.ndim != rank or len(value) != len(logits):
        sizes = ",".join([str(len(logits)), "n"][:rank])
        raise bad(caller, f"the {name} do not match the logits",
                  {"logits": type_text(logits), name: type_text(value), "expected": f"integers [{sizes}]"},
                  fix="pass one row for each sequence of the batch.")
    return at_least_int32(value)
