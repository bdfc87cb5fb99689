"""Expansions of a function in its parameters: the network that a wide network is close to while it is trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import xjax
from xjax import tree_util
from xjax.errors import bad
from xjax.experimental.jet import jet
from xjax.typing import Params, PyTree


def linearize(apply: Callable[..., PyTree], params: Params) -> Callable[..., PyTree]:
    """``(params, x, ...) -> y``, the function `apply` to first order in its parameters at `params`.

    A network of infinite width is equal to its linearization during training (Lee et al., 2019).

    >>> f = linearize(lambda w, x: xjax.numpy.sin(w * x), 0.0)
    >>> float(f(0.5, 2.0))
    1.0
    """
    return taylor_expand(apply, params, 1)


def taylor_expand(apply: Callable[..., PyTree], params: Params, degree: int) -> Callable[..., PyTree]:
    """``(params, x, ...) -> y``, the Taylor polynomial of `apply` in its parameters at `params`.

    Args: degree: the degree of the polynomial, at least 0.
    """
    if not isinstance(degree, int) or degree < 0:
        raise bad("taylor_expand", "the degree must be a whole number of at least 0", {"degree": repr(degree)},
                  "taylor_expand(apply, params, 2).", ValueError)

    def expanded(new_params: Params, *args: Any, **named: Any) -> PyTree:
        step = tree_util.tree_map(lambda new, old: new - old, new_params, params)

        def along(t: Any) -> PyTree:
            return apply(tree_util.tree_map(lambda old, by: old + t * by, params, step), *args, **named)

        if degree == 0:
            return along(0.0)
        if degree == 1:
            value, slope = xjax.jvp(lambda p: apply(p, *args, **named), (params,), (step,))
            return tree_util.tree_map(lambda y, by: y + by, value, slope)
        value, terms = jet(along, (0.0,), ([1.0, *(0.0,) * (degree - 1)],))
        for k, term in enumerate(terms, 1):
            value = tree_util.tree_map(lambda y, by, k=k: y + by / math.factorial(k), value, term)
        return value

    return expanded
