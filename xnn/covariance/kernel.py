"""`Kernel`: the covariances of the values of an infinitely wide network, which its layers map one after another.

In a network with random weights, the values of a layer at one position are, for all features, independent draws of one
Gaussian process. Its covariance between the inputs x1[i] and x2[j] is the NNGP kernel (Lee et al., 2018). The NTK is
the inner product of the gradients of an output in all parameters (Jacot et al., 2018).

A covariance of values with positions (pixels, tokens, nodes) has axes for two positions, one of x1 and one of x2, or,
where later layers need no more, for one position that both have.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad
from xjax.typing import Array, ArrayLike

Parameterization: TypeAlias = Literal["standard", "ntk"]


_FIX = ("compose layers that have a kernel, such as residual and FanInSum (docs/kernels.md), or compute the kernel of "
        "the finite network: xnn.kernels.empirical_ntk.")


def _no_array(self: object, *_: object, **options: object) -> NoReturn:
    raise bad("Layer.kernel", "a function of arrays was applied to a kernel or its inputs",
              {"type": type(self).__name__}, _FIX)


class Pair(NamedTuple):
    """An extra input of a layer: its value for x1 and its value for x2."""

    of1: Any
    of2: Any

    __jax_array__ = __array__ = _no_array


NONE = Pair(None, None)


class NeedsPairs(Exception):
    """A rule needs covariances between all pairs of positions, and has only those of equal positions.

    Attributes: kind: "covariances" between x1 and x2, "variances" within each of them, or "rows": all rows of an input
      are positions of one example, the nodes of a graph.
    """

    def __init__(self, kind: Literal["covariances", "variances", "rows"]) -> None:
        super().__init__(f"a layer needs {kind} between different positions")
        self.kind = kind


class NoArray:
    """A value that layers get in place of an array while a kernel is computed. A function of arrays refuses it."""

    __jax_array__ = __array__ = __getitem__ = _no_array

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(Array, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        raise bad("Layer.kernel", f"a kernel has no attribute `{name}` of arrays", {"type": type(self).__name__}, _FIX,
                  AttributeError)


@dataclass(frozen=True)
class Points(NoArray):
    """The inputs themselves, before a first layer whose kernel does not depend on inner products only.

    Attributes: x1, x2: arrays of one batch axis, then positions, then features; x2 is None where it equals x1. Tokens
      have no features.
    """

    x1: Array
    x2: Array | None
    options: Options

    def __add__(self, other: object) -> Kernel:
        return kernel_of_inputs(self) + other                           # type: ignore[operator]

    def __mul__(self, factor: object) -> Kernel:
        return kernel_of_inputs(self) * factor                          # type: ignore[operator]

    __radd__, __rmul__ = __add__, __mul__


class Options(NamedTuple):
    """Options of a computation of kernels: the parameterization, and the covariances that it keeps.

    Attributes:
      pairs, variance_pairs: as in `Kernel`.
      rows: whether all rows of an input are positions of one example.
      train: whether random layers such as Dropout are active.
    """

    parameterization: Parameterization = "standard"
    with_ntk: bool = True
    train: bool = False
    pairs: bool = False
    variance_pairs: bool = False
    rows: bool = False

    def wider(self, need: NeedsPairs) -> Options | None:
        """The options with the covariances that a rule needs; None if they have them already."""
        wanted = {"covariances": self._replace(pairs=True),
                  "variances": self._replace(pairs=True, variance_pairs=True),
                  "rows": self._replace(pairs=True, variance_pairs=True, rows=True)}[need.kind]
        return None if wanted == self else wanted


Rule: TypeAlias = Callable[..., Any]


def of_points(rule: Rule) -> Rule:
    """Marks the rule of a layer that takes the inputs themselves: `Points`, where it is the first layer."""
    rule.takes_points = True                                            # type: ignore[attr-defined]
    return rule


_marks = itertools.count()


def new_weights() -> frozenset[int]:
    """A mark of one set of random weights: values that depend linearly on different sets are uncorrelated."""
    return frozenset([next(_marks)])


@tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Kernel(NoArray):
    """Covariances of the values of a layer, averaged over its features.

    The value at position s of x1[i] and the value at position t of x2[j] have the covariance ``nngp[i, j, *s, *t]``;
    without `pairs` the array has only those of equal positions, ``nngp[i, j, *s]``.

    Attributes:
      nngp: covariances between x1 and x2: [n1, n2, *positions1, *positions2].
      ntk: inner products of gradients, of the same shape; None if they are not computed.
      var1, var2: covariances within each input: [n, *positions, *positions], or [n, *positions] without
        `variance_pairs`. var2 is None where x2 equals x1. Both are None after a layer that leaves them unknown.
      features: the number of features of the finite network.
      positions: the number of position axes.
      same: whether x2 equals x1.
      weights: marks of the random weights of the last layers; empty for the inputs.
      gaussian: whether the values are Gaussian with mean 0: those of a layer with random weights, or a sum of such.
      options: those of the computation.
    """

    nngp: Array
    ntk: Array | None
    var1: Array | None
    var2: Array | None
    features: int
    positions: int
    same: bool
    weights: frozenset[int]
    gaussian: bool
    options: Options

    @property
    def pairs(self) -> bool:
        """Whether `nngp` and `ntk` have axes for two positions."""
        return self.options.pairs

    @property
    def variance_pairs(self) -> bool:
        """Whether `var1` and `var2` have axes for two positions."""
        return self.options.variance_pairs

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The arrays, and everything else."""
        values = tuple(getattr(self, field.name) for field in dataclasses.fields(self))
        return values[:4], values[4:]

    @classmethod
    def tree_unflatten(cls, rest: tuple[Any, ...], arrays: Sequence[Any]) -> Kernel:
        """The kernel with other arrays."""
        return cls(*arrays, *rest)

    def replace(self, **fields: Any) -> Kernel:
        """The kernel with some fields changed."""
        return dataclasses.replace(self, **fields)

    def each(self, change: Callable[[Array, int, bool], Array | None], **fields: Any) -> Kernel:
        """Each covariance changed by ``change(values, batch axes, pairs)``.

        Args: fields: other fields of the result.
        """
        def changed(values: Array | None, batch: int, pairs: bool) -> Array | None:
            return None if values is None else change(values, batch, pairs)

        return self.replace(nngp=changed(self.nngp, 2, self.pairs), ntk=changed(self.ntk, 2, self.pairs),
                            var1=changed(self.var1, 1, self.variance_pairs),
                            var2=changed(self.var2, 1, self.variance_pairs), **fields)

    @property
    def rows(self) -> Pair:
        """The sizes of the batch and the positions of x1 and of x2: (n1, *positions1) and (n2, *positions2)."""
        n1, n2, *sizes = self.nngp.shape
        return Pair((n1, *sizes[:self.positions]), (n2, *sizes[len(sizes) - self.positions:]))

    def variances(self) -> tuple[Array, Array]:
        """The variance at each position: [n1, *positions1] and [n2, *positions2]."""
        if self.var1 is None:
            raise NeedsPairs("variances")
        var1 = self._at_equal(self.var1)
        return var1, (var1 if self.var2 is None else self._at_equal(self.var2))

    def _at_equal(self, variance: Array) -> Array:
        if not (self.variance_pairs and self.positions):
            return variance
        shape = variance.shape[:1 + self.positions]
        size = int(np.prod(shape[1:]))
        return jnp.reshape(jnp.diagonal(jnp.reshape(variance, (shape[0], size, size)), axis1=1, axis2=2), shape)

    # -- sums, for functions that compute with the values of layers ------------------------------------------------

    def __add__(self, other: object) -> Kernel:
        if not isinstance(other, Kernel):
            return NotImplemented
        return sum_of([self, other])

    def __mul__(self, factor: object) -> Kernel:
        if isinstance(factor, Kernel):
            return product_of([self, factor])
        if np.ndim(factor) != 0:                                        # type: ignore[arg-type]
            raise bad("Kernel", "a kernel can be multiplied by a number only", {"factor": repr(factor)},
                      "compute with arrays in a layer of its own that has a kernel.")
        return self.each(lambda values, batch, pairs: values * factor * factor)      # type: ignore[operator]

    __rmul__ = __mul__

    def __truediv__(self, divisor: ArrayLike) -> Kernel:
        return self * (1 / divisor)


def kernel_of_inputs(points: Points) -> Kernel:
    """The kernel of the inputs themselves: inner products divided by the number of features."""
    options, x1 = points.options, points.x1
    x2 = x1 if points.x2 is None else points.x2
    if not jnp.issubdtype(x1.dtype, np.floating):
        raise bad("kernel", "the inputs are not floating-point numbers", {"x1": str(x1.dtype)},
                  "pass floats; token ids need an Embedding as the first layer.")
    positions = x1.ndim - 2
    if not options.pairs and x1.shape[1:] != x2.shape[1:]:
        raise NeedsPairs("covariances")
    nngp = _inner_products(x1, x2, options.pairs)

    def variance(x: Array) -> Array:
        if not options.variance_pairs:
            return jnp.sum(x * x, -1) / x.shape[-1]
        flat = jnp.reshape(x, (x.shape[0], -1, x.shape[-1]))
        values = jnp.einsum("isc,itc->ist", flat, flat, precision="highest") / x.shape[-1]
        return jnp.reshape(values, (x.shape[0], *x.shape[1:-1], *x.shape[1:-1]))

    return Kernel(nngp, jnp.zeros_like(nngp) if options.with_ntk else None, variance(x1),
                  None if points.x2 is None else variance(x2), x1.shape[-1], positions, points.x2 is None,
                  frozenset(), False, options)


def _inner_products(x1: Array, x2: Array, pairs: bool) -> Array:
    n1, n2, features = x1.shape[0], x2.shape[0], x1.shape[-1]
    p1, p2 = x1.shape[1:-1], x2.shape[1:-1]
    flat1, flat2 = (jnp.reshape(x, (x.shape[0], -1, features)) for x in (x1, x2))
    if not p1 and not p2:
        return jnp.matmul(x1, x2.T, precision="highest") / features
    if not pairs:
        return jnp.reshape(jnp.einsum("isc,jsc->ijs", flat1, flat2, precision="highest") / features, (n1, n2, *p1))
    values = jnp.einsum("isc,jtc->ijst", flat1, flat2, precision="highest") / features
    return jnp.reshape(values, (n1, n2, *p1, *p2))


# -- operations on values ---------------------------------------------------------------------------------------------


def sum_of(kernels: Sequence[Kernel]) -> Kernel:
    """The kernel of a sum of uncorrelated values."""
    check_alike("a sum", kernels)
    _check_uncorrelated(kernels)
    return _total(kernels).replace(gaussian=all(kernel.gaussian for kernel in kernels))


def _total(kernels: Sequence[Kernel]) -> Kernel:
    """The sum of the covariances."""
    total = kernels[0]
    for other in kernels[1:]:
        total = total.replace(nngp=total.nngp + other.nngp, ntk=_combined(operator.add, total.ntk, other.ntk),
                              var1=_combined(operator.add, total.var1, other.var1),
                              var2=_combined(operator.add, total.var2, other.var2))
    return total.replace(weights=frozenset().union(*(kernel.weights for kernel in kernels)))


def _combined(function: Callable[[Array, Array], Array], one: Array | None, other: Array | None) -> Array | None:
    return None if one is None or other is None else function(one, other)


def _check_uncorrelated(kernels: Sequence[Kernel]) -> None:
    marks = [mark for kernel in kernels for mark in kernel.weights]
    if sum(not kernel.gaussian for kernel in kernels) > 1 or len(marks) > len(set(marks)):
        raise bad("kernel", "the values that are added or multiplied depend on each other",
                  fix="end all branches but one with a layer of random weights of its own, such as Dense.",
                  exc=ValueError)


def product_of(kernels: Sequence[Kernel]) -> Kernel:
    """The kernel of a product, feature by feature, of independent values."""
    check_alike("a product", kernels)
    _check_uncorrelated(kernels)
    total = kernels[0]
    for other in kernels[1:]:
        ntk = None
        if total.ntk is not None and other.ntk is not None:
            ntk = total.ntk * other.nngp + total.nngp * other.ntk
        total = total.replace(nngp=total.nngp * other.nngp, ntk=ntk,
                              var1=_combined(operator.mul, total.var1, other.var1),
                              var2=_combined(operator.mul, total.var2, other.var2))
    return total.replace(weights=frozenset().union(*(kernel.weights for kernel in kernels)), gaussian=False)


def concatenated(kernels: Sequence[Kernel], axis: int) -> Kernel:
    """The kernel of values that are concatenated along the features.

    Its covariances are means of those of the parts, weighted by their numbers of features.
    """
    if axis not in (-1, kernels[0].positions + 1):
        raise bad("FanInConcat.kernel", "values are concatenated along an axis that is not the features",
                  {"axis": axis}, "concatenate along axis -1.", ValueError)
    check_alike("a concatenation", kernels)
    features = sum(kernel.features for kernel in kernels)
    parts = [kernel.each(lambda values, batch, pairs, share=kernel.features / features: values * share)
             for kernel in kernels]
    return _total(parts).replace(features=features, gaussian=len(kernels) == 1 and kernels[0].gaussian)


def check_alike(what: str, kernels: Sequence[Kernel]) -> None:
    """Raises: ValueError if the covariances have different shapes."""
    shapes = {kernel.nngp.shape for kernel in kernels}
    if len(shapes) > 1:
        raise bad("kernel", f"the values of {what} have different positions",
                  {"covariances": ", ".join(map(str, sorted(shapes)))}, "give the branches the same shape.", ValueError)

