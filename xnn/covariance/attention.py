"""The kernels of self-attention in two limits of infinite width (Hron et al., 2020), for one position axis."""

from __future__ import annotations

from collections.abc import Callable

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array
from xnn.covariance.kernel import Kernel, NeedsPairs, Pair


def weighted(kernel: Kernel, products: Kernel, weights: Callable[[Array, Array | None], Array], mask: Pair) -> Kernel:
    """The kernel of values that are summed with weights, which are functions of products that have a limit.

    Args:
      kernel: that of the values.
      products: that of queries, which are also the keys; its variances are the limits of the products.
      weights: ``(products, mask) -> weights``, for products [n, time, time] and a mask [n, time] or None.
    """
    _check(kernel)
    first = weights(products.var1, mask.of1)                        # type: ignore[arg-type]
    second = first if products.var2 is None else weights(products.var2, mask.of2)

    def change(values: Array) -> Array:
        return jnp.einsum("isa,ijab,jtb->ijst", first, values, second, precision="highest")

    def variance(values: Array | None, one: Array) -> Array | None:
        return None if values is None else jnp.einsum("isa,iab,itb->ist", one, values, one, precision="highest")

    return kernel.replace(nngp=change(kernel.nngp), ntk=None if kernel.ntk is None else change(kernel.ntk),
                          var1=variance(kernel.var1, first), var2=variance(kernel.var2, second))


def with_gaussian_products(query: Kernel, key: Kernel, value: Kernel, mask: Pair) -> Kernel:
    """The kernel of values that are summed with the products themselves, which are Gaussian in the limit of many heads.

    A product of independent queries, keys and values has the product of their kernels, and an NTK by the product rule.
    """
    _check(value)
    assert query.var1 is not None and key.var1 is not None and value.var1 is not None
    seen1, seen2 = (None if one is None else jnp.asarray(one).astype(value.nngp.dtype) for one in mask)
    seen2 = seen1 if value.var2 is None else seen2

    def total(values: Array, one: Array | None, other: Array | None) -> Array:
        if one is not None:
            values = values * (one[:, None, :, None] if values.ndim == 4 else one[:, :, None])
        if other is not None:
            values = values * (other[None, :, None, :] if values.ndim == 4 else other[:, None, :])
        return jnp.sum(values, (-2, -1), keepdims=True)

    nngp = query.nngp * total(key.nngp * value.nngp, seen1, seen2)
    ntk = None
    if query.ntk is not None and key.ntk is not None and value.ntk is not None:
        of_rest = total(key.ntk * value.nngp + key.nngp * value.ntk, seen1, seen2)
        ntk = query.ntk * total(key.nngp * value.nngp, seen1, seen2) + query.nngp * of_rest
    var1 = query.var1 * total(key.var1 * value.var1, seen1, seen1)
    var2 = None
    if query.var2 is not None and key.var2 is not None and value.var2 is not None:
        var2 = query.var2 * total(key.var2 * value.var2, seen2, seen2)
    return value.replace(nngp=nngp, ntk=ntk, var1=var1, var2=var2, gaussian=False)


def _check(kernel: Kernel) -> None:
    if kernel.positions != 1:
        raise bad("LimitAttention.kernel", "the values need one position axis", {"position axes": kernel.positions},
                  "pass inputs [batch, time, features].", ValueError)
    if not kernel.variance_pairs or kernel.var1 is None:
        raise NeedsPairs("variances")
