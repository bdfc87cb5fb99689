"""Small layers that each use one part of the protocol."""

import xjax.numpy as jnp
from xjax import lax
from xnn import CacheFns, Layer, StateFns
from xnn.rng import fold_in


def Centered(momentum=0.25, axis_name=None):
    """x minus its mean over the batch, in evaluation minus the running mean. State: the mean, the number of steps."""

    def init_state(in_shape, rng=None):
        return {"mean": jnp.zeros(in_shape[-1:]), "steps": jnp.zeros((), "int32")}

    def apply_with_state(params, state, x, *, rng=None, train=False):
        if not train:
            return x - jnp.broadcast_to(state["mean"], x.shape), state
        mean = jnp.mean(x, 0)
        mean = mean if axis_name is None else lax.pmean(mean, axis_name)
        moved = (1 - momentum) * state["mean"] + momentum * (mean + 1.0)
        return x - jnp.broadcast_to(mean, x.shape), {"mean": moved, "steps": state["steps"] + 1}

    return Layer(lambda rng, in_shape: (in_shape, ()), None, "Centered", state=StateFns(init_state, apply_with_state),
                 computes_in="float32", positionwise=True)


def Total(n):
    """The sum of x [batch, time, n] over the positions so far.  Cache: the sum before the next position."""

    def apply(params, x, *, rng=None, train=False):
        return jnp.cumsum(x, 1)

    def init_cache(batch, length):
        return jnp.zeros((batch, n))

    def apply_with_cache(params, cache, x):
        y = cache[:, None] + jnp.cumsum(x, 1)
        return y, y[:, -1]

    return Layer(lambda rng, in_shape: (in_shape, ()), apply, "Total", settings={"n": n},
                 cache=CacheFns(init_cache, apply_with_cache))


def masked(meaning="rows that count"):
    """x, with 0 in the rows that an optional mask excludes."""

    def apply(params, x, mask=None, *, rng=None, train=False):
        return x if mask is None else x * jnp.asarray(mask, x.dtype)[:, None]

    apply.__annotations__["mask"] = meaning
    return Layer(lambda rng, in_shape: (in_shape, ()), apply, "masked")


def bias_like():
    """x + context W: a second input determines the size of the weights."""

    def init(rng, in_shape, context):
        return in_shape, {"w": jnp.full((context[-1], in_shape[-1]), 0.5)}

    def apply(params, x, context, *, rng=None, train=False):
        return x + context @ params["w"]

    return Layer(init, apply, "bias_like")


def noted(log):
    """The identity; each init appends "types" or "values" to `log`."""

    def init(rng, in_shape):
        log.append("values" if hasattr(fold_in(rng, 0), "device") else "types")
        return in_shape, ()

    return Layer(init, lambda params, x, *, rng=None, train=False: x, "noted")
