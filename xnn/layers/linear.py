"""Linear maps beyond `Dense`: of several axes, by an einsum equation, of two inputs; and a bias or scales alone."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import xjax.numpy as jnp
from xjax import random
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import PyTree
from xnn.checks import as_axes, check_float, check_params, check_shape, type_text
from xnn.covariance.affine import after_matrix, variance_of
from xnn.covariance.fixed import flattened, with_bias, with_scale
from xnn.covariance.kernel import Rule
from xnn.inputs import Input
from xnn.layer import Layer, recorded


@recorded("w_init", "b_init")
def DenseGeneral(features: int | Sequence[int], axis: int | Sequence[int] = -1, *, bias: bool = True,
                 w_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """Affine map from several axes to several axes: it sums over the input axes; the output axes come last.

    Shape: [batch, time, heads, size] -> [batch, time, n_out] for ``DenseGeneral(n_out, axis=(-2, -1))``.

    Args:
      features: size of the output axis, or sizes of several output axes.
      axis: the input axes, in their order in w; their sizes must be known.
      bias: False leaves b out.
      w_init, b_init: initializers ``(key, shape) -> array``; None: glorot uniform and zeros, as in `Dense`. They make a
        matrix [product of input sizes, product of features] and a vector, so the fans are those of the whole map.
    Params: ``{"w": [*input sizes, *features], "b": [*features]}``, without "b" if bias is False.
    Raises: TypeError from `init` for an input without these axes, or with an unknown size of one of them.
    """
    sizes, in_axes = as_axes(features), as_axes(axis)
    w_init, b_init = w_init or initializers.glorot_uniform(), b_init or initializers.zeros
    n_out = math.prod(sizes)

    def init(rng, in_shape):
        axes = _axes("DenseGeneral", in_shape, in_axes)
        in_sizes = tuple(in_shape[a] for a in axes)
        w_rng, b_rng = random.split(rng)
        params = {"w": jnp.reshape(w_init(w_rng, (math.prod(in_sizes), n_out)), (*in_sizes, *sizes))}
        if bias:
            params["b"] = jnp.reshape(b_init(b_rng, (n_out,)), sizes)
        return (*(n for a, n in enumerate(in_shape) if a not in axes), *sizes), params

    def apply(params, x, *, rng=None, train=False):
        x = check_float("DenseGeneral", x)
        axes = _axes("DenseGeneral", x.shape, in_axes)
        in_sizes = tuple(x.shape[a] for a in axes)
        check_params("DenseGeneral", params, x, w=(*in_sizes, *sizes), b=sizes if bias else None)
        y = jnp.tensordot(x, params["w"], (axes, tuple(range(len(axes)))))
        return y + jnp.broadcast_to(params["b"], y.shape) if bias else y

    def kernel_rule(kernel):
        axes = _axes("DenseGeneral", (*kernel.rows.of1, kernel.features), in_axes)
        if len(sizes) > 1 or axes not in ((kernel.positions + 1,), tuple(range(1, kernel.positions + 2))):
            raise bad("DenseGeneral.kernel", "there is a kernel only for maps of the features, or of all axes but the "
                      "first, to one axis", {"features": str(features), "axis": str(axis)},
                      "DenseGeneral(n_out) or Flatten and Dense(n_out).", ValueError)
        kernel = flattened(kernel) if len(axes) > 1 else kernel
        return after_matrix("DenseGeneral", kernel, n_out, w_init, b_init if bias else None)

    return Layer(init, apply, "DenseGeneral", positionwise=all(a < 0 for a in in_axes), kernel_rule=kernel_rule)


def _axes(caller: str, shape: PyTree, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes as indices from 0. Raises: TypeError for an axis that does not exist, is repeated, or has size -1."""
    rank = len(shape)
    start = tuple(a + rank if a < 0 else a for a in axes)
    if len(set(start)) < len(start) or not all(0 <= a < rank and shape[a] >= 0 for a in start):
        raise bad(caller, "the axes must be different axes of the input, with known sizes",
                  {"in_shape": str(tuple(shape)), "axis": str(tuple(axes))},
                  fix="pass axes of this shape; only sizes that do not affect the parameters may be -1.")
    return start


@recorded("w_init", "b_init")
def Einsum(equation: str, shape: Sequence[int], *, bias: bool = True, w_init: Callable | None = None,
           b_init: Callable | None = None) -> Layer:
    """``y = einsum(equation, x, w) + b``, such as ``Einsum("btd,dhk->bthk", (512, 8, 64))``.

    Args:
      equation: an einsum equation of two operands, x and w, with "->". "..." stands for any other axes of x.
      shape: shape of w.
      bias: False leaves b out; b has the axes of the result that are also axes of w.
      w_init, b_init: initializers ``(key, shape) -> array``. The default is zeros for b and glorot uniform for w:
        fan_in is the product of the sizes that are summed over, fan_out the product of the sizes that are only in w.
        Axes of w that are also in x and in the result are independent maps.
    Params: ``{"w": shape, "b": [sizes of its axes]}``, without "b" if bias is False.
    Raises: ValueError for an equation that is not of this form; TypeError from `init` for an input that does not match.

    >>> Einsum("...td,dhk->...htk", (6, 2, 3)).init(random.key(0), (-1, 5, 6))[0]
    (-1, 2, 5, 3)
    """
    shape = tuple(shape)
    terms = _Equation(equation, shape)
    w_init, b_init = w_init or terms.glorot(), b_init or initializers.zeros

    def init(rng, in_shape):
        w_rng, b_rng = random.split(rng)
        params = {"w": w_init(w_rng, shape)}
        if bias:
            params["b"] = b_init(b_rng, terms.bias_shape)
        return terms.out_shape(in_shape), params

    def apply(params, x, *, rng=None, train=False):
        x = check_float("Einsum", x, 0)
        out_shape = terms.out_shape(x.shape)
        check_params("Einsum", params, x, w=shape, b=terms.bias_shape if bias else None)
        y = jnp.einsum(equation, x, params["w"])
        if not bias:
            return y
        along = [n if label in terms.sizes else 1 for label, n in zip(terms.result(x.ndim), out_shape, strict=True)]
        return y + jnp.broadcast_to(jnp.reshape(params["b"], along), y.shape)

    return Layer(init, apply, "Einsum", settings={"shape": shape}, positionwise=terms.is_positionwise)


class _Equation:
    """The axis labels of an equation ``x,w->y``; `sizes` maps the labels of w to sizes."""

    def __init__(self, equation: str, shape: tuple[int, ...]) -> None:
        operands, arrow, self.y = equation.replace(" ", "").partition("->")
        self.equation, (self.x, comma, self.w) = equation, operands.partition(",")
        self.sizes = dict(zip(self.w, shape, strict=False))
        letters = self.x.replace("...", "", 1)
        known = self.y.replace("...", "", 1 if "..." in self.x else 0)
        valid = (arrow and comma and self.w and all(map(str.isalpha, letters + known + self.w))
                 and all(len(set(part)) == len(part) for part in (letters, known, self.w))
                 and set(known) <= set(letters + self.w) and ("..." in self.x) == ("..." in self.y))
        if not valid or len(self.w) != len(shape):
            raise bad("Einsum", "the equation must name each axis of x, w and the result once",
                      {"equation": repr(equation), "shape": f"{shape}, of w"},
                      fix='write "x,w->y", one letter for an axis: Einsum("btd,dhk->bthk", (512, 8, 64)).',
                      exc=ValueError)
        self.bias_shape = tuple(self.sizes[label] for label in known if label in self.sizes)

    @property
    def is_positionwise(self) -> bool:
        """Whether the axes that are only in x come first in x and in the result, so that they are mapped over."""
        own = "".join(label for label in self.x if label not in self.sizes)
        return self.x.startswith(own) and self.y.startswith(own)

    def _labels(self, part: str, n_further: int) -> list[Any]:
        """One label for each axis; the labels of the axes of "..." are numbers."""
        before, dots, after = part.partition("...")
        return [*before, *(range(n_further) if dots else ()), *after]

    def result(self, rank: int) -> list[Any]:
        """The labels of the result, for x of this rank."""
        return self._labels(self.y, rank - len(self.x.replace("...", "")))

    def out_shape(self, in_shape: Sequence[int]) -> tuple[int, ...]:
        n_further = len(in_shape) - len(self.x.replace("...", ""))
        if n_further < 0 or (n_further and "..." not in self.x):
            raise self._unfit(in_shape, f"x has {len(in_shape)} axes")
        of_x = dict(zip(self._labels(self.x, n_further), in_shape, strict=True))
        for label in of_x.keys() & self.sizes.keys():
            if of_x[label] != self.sizes[label]:
                raise self._unfit(in_shape, f"axis {label!r} has size {of_x[label]} in x, {self.sizes[label]} in w")
        return tuple({**of_x, **self.sizes}[label] for label in self.result(len(in_shape)))

    def _unfit(self, in_shape: Sequence[int], what: str) -> Exception:
        return bad("Einsum", f"the input does not match the equation: {what}",
                   {"in_shape": str(tuple(in_shape)), "equation": repr(self.equation),
                    "w": str(tuple(self.sizes.values()))},
                   fix="change the equation or the shape of w; axes of x that are also in w must have known sizes.")

    def glorot(self) -> Callable:
        """Glorot uniform, with the fans of the equation."""
        at = {role: [i for i, label in enumerate(self.w) if (label in self.x, label in self.y) == role]
              for role in ((True, False), (False, True), (True, True))}
        return initializers.glorot_uniform(at[True, False], at[False, True], at[True, True])


@recorded("w_init", "b_init")
def Bilinear(features: int, *, bias: bool = True, w_init: Callable | None = None,
             b_init: Callable | None = None) -> Layer:
    """Bilinear map of two inputs: ``y[k] = b[k] + sum over i, j of x[i] w[i, j, k] other[j]``.

    Shape: [..., n_in], [..., n_other] -> [..., features].

    Args:
      features: number of output features.
      bias: False leaves b out.
      w_init, b_init: initializers ``(key, shape) -> array``. By default, w is uniform in ±1 / sqrt(n_in), as in
        PyTorch, and b is zeros.
    Inputs: other: the second factor, with the leading sizes of x; `init` needs its shape.
    Params: ``{"w": [n_in, n_other, features], "b": [features]}``, without "b" if bias is False.
    """
    w_init = w_init or initializers.variance_scaling(1 / 3, "fan_in", "uniform", 0, 2, 1)
    b_init = b_init or initializers.zeros

    def init(rng, in_shape, other):
        in_shape, other = check_shape("Bilinear", in_shape), check_shape("Bilinear", other)
        w_rng, b_rng = random.split(rng)
        params = {"w": w_init(w_rng, (in_shape[-1], other[-1], features))}
        if bias:
            params["b"] = b_init(b_rng, (features,))
        return (*in_shape[:-1], features), params

    def apply(params, x, other, *, rng=None, train=False):
        x, other = check_float("Bilinear", x), check_float("Bilinear", other)
        if x.shape[:-1] != other.shape[:-1]:
            raise bad("Bilinear", "the leading sizes of the inputs differ",
                      {"x": type_text(x), "other": type_text(other)}, "broadcast one of them: jnp.broadcast_to.")
        sizes = (x.shape[-1], other.shape[-1], features)
        check_params("Bilinear", params, x, w=sizes, b=(features,) if bias else None)
        y = jnp.einsum("...i,ijk,...j->...k", x, params["w"], other)
        return y + jnp.broadcast_to(params["b"], y.shape) if bias else y

    return Layer(init, apply, "Bilinear", (Input("other", meaning="[..., n_other], the second factor"),),
                 positionwise=True)


@recorded("init")
def Bias(axis: int | Sequence[int] = -1, *, init: Callable | None = None) -> Layer:
    """``y = x + b``, with b along some axes.  Shape: any -> the same.

    Args: axis: the axes of b, of known size; init: initializer ``(key, shape) -> array``; None: zeros.
    Params: ``{"b": [sizes of axis]}``.
    """
    make = init or initializers.zeros
    return _along_axes("Bias", "b", jnp.add, make, axis,
                       lambda kernel: with_bias(kernel, variance_of("Bias", "init", make, (kernel.features,))))


@recorded("init")
def Scale(axis: int | Sequence[int] = -1, *, init: Callable | None = None) -> Layer:
    """``y = x * scale``, with a scale for each index of some axes.  Shape: any -> the same.

    Args: axis: the axes of the scale, of known size; init: initializer ``(key, shape) -> array``; None: ones.
      See also `LayerScale`.
    Params: ``{"scale": [sizes of axis]}``.
    """
    return _along_axes("Scale", "scale", jnp.multiply, init or initializers.ones, axis,
                       None if init else lambda kernel: with_scale(kernel, 1.0))


@recorded()
def LayerScale(value: float = 1e-6) -> Layer:
    """Multiplies each feature by a small parameter, at the end of a residual branch (Touvron et al., 2021).

    Shape: [..., features] -> the same.
    Args: value: initial value of the parameters; the default is that of ConvNeXt.
    Params: ``{"scale": [features]}``.
    """

    def init(rng, in_shape):
        in_shape = check_shape("LayerScale", in_shape)
        return in_shape, {"scale": jnp.full(in_shape[-1:], value, float)}

    def apply(params, x, *, rng=None, train=False):
        x = check_float("LayerScale", x)
        check_params("LayerScale", params, x, scale=x.shape[-1:])
        return x * jnp.broadcast_to(params["scale"], x.shape)

    return Layer(init, apply, "LayerScale", positionwise=True, kernel_rule=lambda kernel: with_scale(kernel, value))


def _along_axes(name: str, key: str, combine: Callable, make: Callable, axis: int | Sequence[int],
                kernel_rule: Rule | None) -> Layer:
    param_axes = as_axes(axis)

    def sizes_of(shape):
        return tuple(shape[a] for a in sorted(_axes(name, shape, param_axes)))

    def init(rng, in_shape):
        return in_shape, {key: make(rng, sizes_of(in_shape))}

    def apply(params, x, *, rng=None, train=False):
        x = check_float(name, x)
        check_params(name, params, x, **{key: sizes_of(x.shape)})
        others = [a for a in range(x.ndim) if a not in _axes(name, x.shape, param_axes)]
        return combine(x, jnp.broadcast_to(jnp.expand_dims(params[key], others), x.shape))

    return Layer(init, apply, name, positionwise=param_axes == (-1,),
                 kernel_rule=kernel_rule if param_axes == (-1,) else None)
