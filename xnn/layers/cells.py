"""Recurrent cells: one step of a recurrence, which `scan_over_time` applies along a sequence.

A cell is a layer ``apply(params, x, carry=None) -> (y, carry)`` for the input x of one step. Without a carry it starts
from zeros, which `xnn.init_carry` returns. Any layer of this form is a cell, including a `composite` of cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import xjax
import xjax.numpy as jnp
from xjax import ShapeDtypeStruct, lax, nn, random, tree_util
from xjax.errors import bad
from xjax.forms import limits
from xjax.nn import initializers
from xjax.typing import Array, ArrayLike, Params, PyTree
from xnn.checks import check_float, check_params, check_shape, type_text
from xnn.layer import Layer, recorded
from xnn.rng import Rng

Init = Callable | None


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The `apply` of a cell in two parts: `scan_over_time` calls `project` once, on the inputs of all steps together.

    Attributes:
      name: name of the cell, for messages.
      carry: number of features of each array of the carry, such as ``(8, 8)`` for the (h, c) of an LSTM.
      shapes: ``n_in -> shapes of the parameters``; None for a parameter that the cell does not have.
      project: ``(params, x) -> z``, the part that does not depend on the carry; x may have further leading axes.
      advance: ``(params, z, carry) -> (y, carry)``.
      spatial: number of axes between the batch and the features.
    """

    name: str
    carry: Any
    shapes: Callable[[int], Mapping[str, Any]]
    project: Callable[[Any, Any], Any]
    advance: Callable[[Any, Any, Any], tuple[Any, Any]]
    spatial: int = 0

    def __call__(self, params: Params, x: ArrayLike, carry: Any = None, *, rng: Rng = None,
                 train: bool = False) -> PyTree:
        x = self.check(params, x)
        first = self.first(x)
        carry = first if carry is None else check_carry(self.name, carry, first)
        return self.advance(params, self.project(params, x), carry)

    def check(self, params: Params, x: ArrayLike, min_rank: int = 1) -> Array:
        """x as an array of floats.  Raises: TypeError for wrong axes of x or wrong parameters."""
        x = check_float(self.name, x, min_rank + self.spatial)
        check_params(self.name, params, x, **self.shapes(x.shape[-1]))
        return x

    def first(self, x: Array | ShapeDtypeStruct) -> PyTree:
        """The carry before the first step, zeros, for inputs with the shape and dtype of x."""
        return tree_util.tree_map(lambda features: jnp.zeros((*x.shape[:-1], features), x.dtype), self.carry)


def check_carry(caller: str, carry: PyTree, expected: PyTree) -> PyTree:
    """The carry, as arrays.  Raises: TypeError unless it has the form, shapes and dtypes of `expected`."""
    is_same = tree_util.tree_structure(carry) == tree_util.tree_structure(expected)
    carry = tree_util.tree_map(jnp.asarray, carry)
    pairs = zip(*map(tree_util.tree_leaves, (carry, expected)), strict=True) if is_same else ()
    if not is_same or any(one.shape != other.shape or one.dtype != other.dtype for one, other in pairs):
        raise bad(caller, "the carry does not have the form that the cell and its input need",
                  {"carry": type_text(carry), "expected": type_text(expected)},
                  fix="pass a carry that this layer returned for the same batch, init_carry(...), or None for zeros.")
    return carry


@recorded()
def RNNCell(features: int, *, activation: Callable = jnp.tanh, bias: bool = True, w_init: Init = None,
            recurrent_init: Init = None, b_init: Init = None) -> Layer:
    """One step of Elman's network (1990): ``y = h' = activation(x w_in + h w_rec + b)``, with the carry h.

    Shape: [..., n_in] -> ([..., features], h [..., features]).
    Args:
      activation: a function of arrays, such as ``nn.relu``.
      bias: False leaves b out.
      w_init, recurrent_init, b_init: initializers ``(key, shape) -> array``. The defaults are Keras's: glorot uniform;
        orthogonal, which keeps the norm of h over many steps (Saxe et al., 2014); and zeros. PyTorch's default for all
        is uniform on ±1/sqrt(features).
    Params: ``{"w_in": [n_in, features], "w_rec": [features, features], "b": [features]}``.
    """

    def shapes(n_in):
        return {"w_in": (n_in, features), "w_rec": (features, features), "b": (features,) if bias else None}

    def advance(params, z, h):
        h = activation(z + h @ params["w_rec"])
        return h, h

    return _cell(Recurrence("RNNCell", features, shapes, _affine, advance), features,
                 _drawn(features, w_init, recurrent_init, b_init))


@recorded()
def LSTMCell(features: int, *, projection: int | None = None, bias: bool = True, forget_bias: float = 1.0,
             w_init: Init = None, recurrent_init: Init = None, b_init: Init = None) -> Layer:
    """One step of a long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000).

    ``i, f, g, o = x w_in + h w_rec + b``, ``c' = sigmoid(f) c + sigmoid(i) tanh(g)``, ``y = h' = sigmoid(o) tanh(c')``,
    with the carry (h, c). The gates have PyTorch's order.

    Shape: [..., n_in] -> ([..., features], (h [..., features], c [..., features])).
    Args:
      projection: number of features of y and h, which are then multiplied by w_proj (Sak et al., 2014).
      forget_bias: added to the initial bias of f. 1 preserves c in the first steps of training (Jozefowicz et al.,
        2015), as in Keras; PyTorch and Flax use 0.
      bias, w_init, recurrent_init, b_init: as in `RNNCell`, applied to each gate separately.
    Params: ``{"w_in": [n_in, 4 features], "w_rec": [features, 4 features], "b": [4 features]}``; with a projection
      ``w_rec`` is [projection, 4 features], and there is also ``"w_proj": [features, projection]``.
    Raises: ValueError for a forget_bias without a bias.
    """
    if not bias and forget_bias != 1.0:
        raise bad("LSTMCell", "forget_bias needs a bias", {"bias": "False", "forget_bias": forget_bias},
                  fix="leave out one of the two.", exc=ValueError)
    n_out = features if projection is None else projection

    def shapes(n_in):
        return {"w_in": (n_in, 4 * features), "w_rec": (n_out, 4 * features), "b": (4 * features,) if bias else None,
                "w_proj": None if projection is None else (features, projection)}

    def advance(params, z, carry):
        h, c = carry
        h, c = _lstm(_apart(z + h @ params["w_rec"]), c)
        h = h if projection is None else h @ params["w_proj"]
        return h, (h, c)

    return _cell(Recurrence("LSTMCell", (n_out, features), shapes, _affine, advance), n_out,
                 _drawn(features, w_init, recurrent_init, b_init, forget_bias))


@recorded()
def GRUCell(features: int, *, reset_after: bool = True, bias: bool = True, w_init: Init = None,
            recurrent_init: Init = None, b_init: Init = None) -> Layer:
    """One step of a gated recurrent unit (Cho et al., 2014), with the carry h.

    ``r, u, n = x w_in + h w_rec + b``, ``y = h' = (1 - sigmoid(u)) tanh(n) + sigmoid(u) h``, where the reset gate
    ``sigmoid(r)`` multiplies the part of n that comes from h. The gates have PyTorch's order.

    Shape: [..., n_in] -> ([..., features], h [..., features]).
    Args:
      reset_after: whether the reset gate multiplies h w_rec plus a separate bias b_rec, as in PyTorch and Flax, or h
        before the product, as in the paper.
      bias, w_init, recurrent_init, b_init: as in `RNNCell`, applied to each gate separately.
    Params: ``{"w_in": [n_in, 3 features], "w_rec": [features, 3 features], "b": [3 features], "b_rec": [features]}``;
      b_rec only with reset_after.
    """

    def shapes(n_in):
        return {"w_in": (n_in, 3 * features), "w_rec": (features, 3 * features),
                "b": (3 * features,) if bias else None, "b_rec": (features,) if bias and reset_after else None}

    def advance(params, z, h):
        z_gates, z_new = jnp.split(z, [2 * features], -1)
        if reset_after:
            from_gates, from_new = jnp.split(h @ params["w_rec"], [2 * features], -1)
            r, u = jnp.split(nn.sigmoid(_apart(z_gates + from_gates)), 2, -1)
            new = jnp.tanh(z_new + r * _plus(from_new, params, "b_rec"))
        else:
            w_gates, w_new = jnp.split(params["w_rec"], [2 * features], -1)
            r, u = jnp.split(nn.sigmoid(_apart(z_gates + h @ w_gates)), 2, -1)
            new = jnp.tanh(z_new + (r * h) @ w_new)
        h = new + u * (h - new)
        return h, h

    return _cell(Recurrence("GRUCell", features, shapes, _affine, advance), features,
                 _drawn(features, w_init, recurrent_init, b_init))


@recorded()
def ConvLSTMCell(features: int, window: int | tuple[int, ...], *, bias: bool = True, forget_bias: float = 1.0,
                 w_init: Init = None, recurrent_init: Init = None, b_init: Init = None) -> Layer:
    """One step of a convolutional LSTM (Shi et al., 2015): `LSTMCell` with convolutions instead of matrix products.

    The convolutions have stride 1 and keep the spatial sizes ("SAME"). As in Keras and Flax there are no peepholes
    (the paper's products of c with the gates).

    Shape: [batch, *positions, n_in] -> ([batch, *positions, features], (h, c)); h and c have the shape of the output.
    Args: window: sizes of the kernels, one for each of 1 to 3 spatial axes. The other arguments are as in `LSTMCell`.
    Params: ``{"w_in": [*window, n_in, 4 features], "w_rec": [*window, features, 4 features], "b": [4 features]}``.
    """
    window = (window,) if isinstance(window, int) else tuple(window)
    if not 1 <= len(window) <= 3:
        raise bad("ConvLSTMCell", "window must have one size for each of 1 to 3 spatial axes", {"window": repr(window)},
                  fix="pass (3, 3) for images.", exc=ValueError)
    if not bias and forget_bias != 1.0:
        raise bad("ConvLSTMCell", "forget_bias needs a bias",
                  {"bias": "False", "forget_bias": forget_bias}, fix="leave out one of the two.", exc=ValueError)

    def shapes(n_in):
        return {"w_in": (*window, n_in, 4 * features), "w_rec": (*window, features, 4 * features),
                "b": (4 * features,) if bias else None}

    def project(params, x):
        return _plus(_conv(x, params["w_in"]), params, "b")

    def advance(params, z, carry):
        h, c = carry
        h, c = _lstm(z + _conv(h, params["w_rec"]), c)
        return h, (h, c)

    return _cell(Recurrence("ConvLSTMCell", (features, features), shapes, project, advance, len(window)), features,
                 _drawn(features, w_init, recurrent_init, b_init, forget_bias), window=window)


def _cell(recurrence: Recurrence, n_out: int, draw: Callable, **settings: object) -> Layer:
    """The layer of a recurrence; ``draw(rng, shapes) -> params``."""

    def init(rng, in_shape):
        *lead, n_in = check_shape(recurrence.name, in_shape, 1 + recurrence.spatial)
        carry = tree_util.tree_map(lambda features: (*lead, features), recurrence.carry)
        wanted = {name: shape for name, shape in recurrence.shapes(n_in).items() if shape is not None}
        return ((*lead, n_out), carry), draw(rng, wanted)

    return Layer(init, recurrence, recurrence.name, settings=settings)


def _drawn(features: int, w_init: Init, recurrent_init: Init, b_init: Init, forget_bias: float = 0.0) -> Callable:
    """The function `draw` of a cell. Gates are drawn separately, because initializers must use the size of one gate."""
    inits = {"w_in": w_init or initializers.glorot_uniform(), "w_rec": recurrent_init or initializers.orthogonal(),
             "w_proj": w_init or initializers.glorot_uniform()}

    def draw(rng, shapes):
        params = {}
        for key, (name, shape) in zip(random.split(rng, len(shapes)), shapes.items(), strict=True):
            gates = 1 if name == "w_proj" else shape[-1] // features
            init, size = inits.get(name, b_init or initializers.zeros), (*shape[:-1], shape[-1] // gates)
            params[name] = jnp.concatenate([init(one, size) for one in random.split(key, gates)], -1)
        if forget_bias and "b" in params:
            params["b"] = params["b"].at[features:2 * features].add(forget_bias)
        return params

    return draw


def _affine(params: Params, x: Array) -> Array:
    return _plus(x @ params["w_in"], params, "b")


def _plus(x: Array, params: Params, name: str) -> Array:
    return x + jnp.broadcast_to(params[name], x.shape) if name in params else x


def _apart(gates: Array) -> Array:
    """The gates, which on some platforms are not fused with the operations on each gate."""
    is_apart = limits("gates apart", xjax.default_backend()) is not None
    return lax.optimization_barrier(gates) if is_apart else gates


def _lstm(gates: Array, c: Array) -> tuple[Any, Any]:
    i, f, g, o = jnp.split(gates, 4, -1)
    c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
    return nn.sigmoid(o) * jnp.tanh(c), c


def _conv(x: Array, w: Array) -> Array:
    """Convolution over the spatial axes before the last axis, for any leading axes."""
    spatial = w.ndim - 2
    at = x.ndim - spatial - 1
    axes = "DHW"[-spatial:]
    flat = jnp.reshape(x, (math.prod(x.shape[:at]), *x.shape[at:]))
    y = lax.conv_general_dilated(flat, w, (1,) * spatial, "SAME",
                                 dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"))
    return jnp.reshape(y, (*x.shape[:-1], w.shape[-1]))
