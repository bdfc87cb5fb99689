"""MixtureOfExperts: a router chooses a few of n experts for each token."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax, nn, tree_util
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array, PyTree
from xnn import rng as rng_lib
from xnn.checks import as_row_mask, check_entries, check_float, check_shape, check_state
from xnn.composites import Calls, apply_child, init_child, place
from xnn.inputs import ROW_MASK
from xnn.layer import Layer, Parts, StateFns, as_layer, call_text, recorded
from xnn.layers.dense import Dense
from xnn.precision import at_least_float32
from xnn.rng import RowKey, check_rng, fold_in

_MOMENTUM = 0.1                                          # of the running load, the default of BatchNorm


@recorded("expert")
def MixtureOfExperts(expert: Layer, n: int, *, k: int = 2, capacity: float | None = 1.25,
                     eval_capacity: float | None = None, noisy: bool = False) -> Layer:
    """``y = sum of gate[e] * expert[e](x)`` over the k experts that a router chooses for each token x.

    The gates are the k largest values of the softmax of the router's logits, divided by their sum; a single gate (k =
    1, Switch Transformer) is not divided. An expert has ``capacity * k * tokens / n`` slots, rounded up, for the tokens
    of all examples together. Slots are assigned to first choices before second choices, and to earlier tokens before
    later ones. A token without a slot gets zero from the expert, so a `residual` around the layer returns it unchanged.

    Shape: [..., features] -> [..., n_out], where an expert maps [tokens, features] to [tokens, n_out].
    Inputs: row_mask: bool of the leading axes of x, False for padding, such as [n, length] for x [n, length, features].
      Padding has output zero, takes no slots, and does not count in the losses and in the number of tokens that
      determines the number of slots. None: all tokens count. `EncoderBlock` and layers on graphs pass it automatically;
      in a composite it is the last input.

    Args:
      expert: the layer for each expert; it must be `positionwise` and without state.
      n: number of experts.
      k: experts for each token.
      capacity: in training; 1.25 is Switch Transformer's. None: slots for all tokens, at n / k times the computation.
      eval_capacity: the same in evaluation. With None, the default, the output for a token depends on that token only.
      noisy: add normal noise of a learned scale to the logits in training (Shazeer et al., 2017).
    Params: ``{"router": {"w": [features, n]}, "experts": params of expert with a first axis n}``; with `noisy` also
      ``"noise": {"w": [features, n]}``, initially zeros.
    State: values of a training step: "balance_loss" and "z_loss", scalars; "load" [n], the running mean of each
      expert's share of tokens, before tokens are dropped. The losses are functions of the parameters: add them to the
      loss, by `auxiliary_loss`, inside the function whose gradient is taken::

          def loss(params):
              y, new_state = model.apply_with_state(params, state, x, rng=rng, train=True)
              return cross_entropy(y, labels) + auxiliary_loss(new_state), new_state

    Raises: ValueError for k > n, and for an expert with state or extra inputs, or that combines positions; TypeError
      for a mask of another shape or dtype.
    Sources: Fedus et al. (2021); the z-loss is that of Zoph et al. (2022). With an `xnn.RowKey` the noise does not
    depend on the blocks of rows, but slots are assigned within each block, and dropout in experts draws for slots
    instead of rows.
    """
    expert = _checked(as_layer(expert, "MixtureOfExperts"), n, k, capacity, eval_capacity)
    children = {"router": _router(n), "experts": _stacked(expert, n)}
    if noisy:
        children["noise"] = _router(n, initializers.zeros)
    return _mixture(children, _Routing(n, k, capacity, eval_capacity))


class _Routing(NamedTuple):
    """The sizes of a mixture: number of experts, experts for each token, and capacities."""

    n: int
    k: int
    capacity: float | None
    eval_capacity: float | None

    def per_token(self, train: bool) -> float | None:
        """Slots of each expert for each token; None: as many slots as tokens.

        It is a millionth smaller, so that rounding of ``capacity * k * tokens / n`` does not add a slot.
        """
        factor = self.capacity if train else self.eval_capacity
        return None if factor is None else factor * self.k / self.n * (1 - 1e-6)

    def slots(self, tokens: int, train: bool) -> int:
        """Number of slots of each expert for this number of tokens, padding included."""
        per_token = self.per_token(train)
        return tokens if per_token is None else min(tokens, math.ceil(per_token * tokens))


def auxiliary_loss(state: PyTree, *, balance: float = 0.01, z: float = 0.001) -> Array:
    """``balance * balance_loss + z * z_loss``, summed over all mixtures of experts in the state of a model.

    The weights are those of Switch Transformer and ST-MoE. 0 for a model without such layers.
    """
    weights, total = {"balance_loss": balance, "z_loss": z}, jnp.zeros(())
    for path, leaf in tree_util.tree_flatten_with_path(state)[0]:
        name = getattr(path[-1], "key", None) if path else None
        if name in weights:
            total += weights[name] * jnp.sum(leaf).astype(total.dtype)
    return total


def _mixture(children: Mapping[str, Layer], routing: _Routing) -> Layer:
    keys = tuple(children)

    def walk(visit, in_shape, shapes):
        *others, features = check_shape("MixtureOfExperts", in_shape)
        outs = {key: visit(key, (routing.n, -1, features) if key == "experts" else in_shape) for key in keys}
        return (*others, outs["experts"][-1])

    def init(rng, in_shape):
        params = {}

        def visit(key, shape):
            key_rng = fold_in(rng, keys.index(key))
            shape, params[key] = init_child(place("MixtureOfExperts", key), children[key], key_rng, shape)
            return shape

        return walk(visit, in_shape, {}), params

    def init_state(in_shape, rng=None):
        return {"balance_loss": jnp.zeros(()), "z_loss": jnp.zeros(()), "load": jnp.full((routing.n,), 1 / routing.n)}

    def apply_with_state(params, state, x, row_mask=None, *, rng=None, train=False):
        x = check_float("MixtureOfExperts", x)
        mask = None if row_mask is None else as_row_mask("MixtureOfExperts", x, row_mask)
        check_entries("MixtureOfExperts", "params", params, keys)
        check_state("MixtureOfExperts", state, x, balance_loss=(), z_loss=(), load=(routing.n,))
        call = Calls("MixtureOfExperts", children, dict(params), {}, None, rng, train)
        return _routed(call, state, x, mask, routing)

    def rebuild(some):
        if tuple(some) != keys:
            raise bad("MixtureOfExperts", "its layers cannot be sliced", {"layers": ", ".join(keys)},
                      fix="take single layers: model.layers['experts'].", exc=IndexError)
        return _mixture(some, routing)

    return Layer(init, None, "MixtureOfExperts", (ROW_MASK,), state=StateFns(init_state, apply_with_state),
                 parts=Parts(children, walk, rebuild), positionwise=routing.eval_capacity is None)


def _routed(call: Calls, state: PyTree, x: Array, mask: Array | None, routing: _Routing) -> tuple[Any, Any]:
    """(Output, new state). Args: call: applies router, experts and noise layer; mask: bool[...] or None."""
    x = x if mask is None else jnp.where(mask[..., None], x, 0)          # padding may be NaN
    logits = call("router", x)
    if "noise" in call.children and call.train:
        check_rng("MixtureOfExperts", call.rng, noisy=True)
        noise = rng_lib.normal(fold_in(call.rng, len(call.children)), logits.shape, logits.dtype)
        logits = logits + noise * nn.softplus(call("noise", x))
    tokens, logits = jnp.reshape(x, (-1, x.shape[-1])), jnp.reshape(logits, (-1, routing.n))
    counts = jnp.ones(len(tokens), bool) if mask is None else jnp.reshape(mask, (-1,))
    per_token = None if mask is None else routing.per_token(call.train)
    plan = _plan(logits, counts, routing, routing.slots(len(tokens), call.train), per_token)
    y = plan.combined(call("experts", plan.dispatched(tokens, routing)))
    return jnp.reshape(y, (*x.shape[:-1], y.shape[-1])), _new_state(state, logits, plan) if call.train else state


def _router(n: int, w_init: Callable[..., Any] | None = None) -> Layer:
    """The logits, computed in float32 (Fedus et al.); `with_precision` rounds them once. The softmax is in float32."""
    return dataclasses.replace(Dense(n, bias=False, w_init=w_init), computes_in="float32")


def _stacked(expert: Layer, n: int) -> Layer:
    """n copies of a layer; copy i is applied to x[i].  Params: those of the layer with a first axis n."""

    def init(rng, in_shape):
        pairs = [init_child("experts", expert, fold_in(rng, i), in_shape[1:]) for i in range(n)]
        params = tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *[params for _, params in pairs])
        return (n, *pairs[0][0]), params

    def apply(params, x, *, rng=None, train=False):
        key = rng.key if isinstance(rng, RowKey) else rng           # the rows here are slots, not examples

        def one(params, x, i):
            return apply_child("experts", expert, params, x, {}, rng=fold_in(key, i), train=train)

        return xjax.vmap(one)(params, x, jnp.arange(n))

    return Layer(init, apply, "experts", settings={"n": n}, positionwise=True,
                 parts=Parts({None: expert}, lambda visit, shape, shapes: (n, *visit(None, shape[1:])),
                             lambda some: _stacked(some[None], n), n))


class _Plan(NamedTuple):
    """The assignment of tokens: `experts`, `gates` and `slots` are [tokens, k], `probs` [tokens, n].

    `counts` is bool[tokens], False for padding. A slot is an index into the tokens of one expert; a token with a slot
    of n_slots or above is dropped.
    """

    counts: Any
    probs: Any
    experts: Any
    gates: Any
    slots: Any
    n_slots: int

    def dispatched(self, tokens: Array, routing: _Routing) -> Array:
        """[n, slots, features]: the tokens in their slots, zeros elsewhere."""
        empty = jnp.zeros((routing.n, self.n_slots, tokens.shape[-1]), tokens.dtype)
        each = jnp.broadcast_to(tokens[:, None], (*self.slots.shape, tokens.shape[-1]))
        return empty.at[self.experts, self.slots].set(each, mode="drop")

    def combined(self, outs: Array) -> Array:
        """[tokens, n_out]: the outputs of each token's experts, weighted by the gates; 0 for a token without a slot."""
        each = outs.at[self.experts, self.slots].get(mode="fill", fill_value=0)
        return jnp.einsum("tko,tk->to", each, self.gates.astype(outs.dtype))


def _plan(logits: Array, counts: Array, routing: _Routing, n_slots: int, per_token: float | None) -> _Plan:
    """The assignment. Args: per_token: slots of each expert for each token that counts; None: no limit but n_slots."""
    probs = nn.softmax(logits.astype(at_least_float32(logits.dtype)))
    gates, experts = lax.top_k(probs, routing.k)
    if routing.k > 1:
        gates = gates / jnp.broadcast_to(jnp.sum(gates, -1, keepdims=True), gates.shape)
    in_order = jnp.reshape(experts.T, (-1,))                             # first choices of all tokens, then second
    chosen = jnp.where(jnp.tile(counts, routing.k)[:, None], nn.one_hot(in_order, routing.n, dtype="int32"), 0)
    before = jnp.sum(chosen * (jnp.cumsum(chosen, 0) - chosen), 1)       # earlier tokens of the same expert
    before = jnp.reshape(before, (routing.k, -1)).T
    has_slot = jnp.broadcast_to(counts[:, None], before.shape)
    if per_token is not None:
        has_slot &= before.astype(np.float32) < per_token * jnp.sum(counts, dtype=np.float32)
    slots = jnp.where(has_slot, before, n_slots)
    return _Plan(counts, probs, experts, gates, slots, n_slots)


def _new_state(state: PyTree, logits: Array, plan: _Plan) -> dict[str, Any]:
    n, weights = plan.probs.shape[-1], plan.counts.astype(plan.probs.dtype)
    weights = weights / jnp.maximum(jnp.sum(weights), 1)
    share = weights @ jnp.mean(nn.one_hot(plan.experts, n, dtype=plan.probs.dtype), 1)
    balance = n * jnp.sum(share * (weights @ plan.probs))                # 1 for equal shares, n if one expert gets all
    z = weights @ jnp.square(nn.logsumexp(logits.astype(plan.probs.dtype), -1))
    load = (1 - _MOMENTUM) * state["load"] + _MOMENTUM * share.astype(state["load"].dtype)
    return {"balance_loss": balance.astype(state["balance_loss"].dtype), "z_loss": z.astype(state["z_loss"].dtype),
            "load": load}


def _checked(expert: Layer, n: int, k: int, *capacities: float | None) -> Layer:
    """The expert. Raises: ValueError for invalid numbers, and for an expert that tokens cannot be routed to."""
    if not 1 <= k <= n:
        raise bad("MixtureOfExperts", "k must be between 1 and the number of experts", {"n": n, "k": k},
                  fix=f"choose k from 1 to {n}.", exc=ValueError)
    if any(factor is not None and not factor > 0 for factor in capacities):
        raise bad("MixtureOfExperts", "a capacity must be positive", {"capacity": capacities[0],
                  "eval_capacity": capacities[1]}, "pass 1.25, or None for slots for all tokens.", ValueError)
    why = ("has running statistics, which would include empty slots" if expert.state else
           "is not positionwise: it would combine tokens of different examples" if not expert.positionwise else
           f"takes extra inputs: {', '.join(expert.extra_inputs)}" if expert.inputs else None)
    if why:
        raise bad("MixtureOfExperts", f"the expert {why}", {"expert": call_text(expert)},
                  fix="use a layer that maps each token separately, such as serial(Dense(4 * n), Gelu, Dense(n)).",
                  exc=ValueError)
    return expert
