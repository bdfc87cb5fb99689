"""`fwd_and_bwd`: the two passes of reverse mode as two compiled functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjax.core.calls import canonical_argnums, check_callable, function_name, merge_args, split_args
from xjax.runtime.jit import jit
from xjax.transforms.autodiff import vjp
from xjax.typing import PyTree


def fwd_and_bwd(fun: Callable, argnums: int | Sequence[int], has_aux: bool = False,
                jitted: bool = True) -> tuple[Callable, Callable]:
    """(`fwd`, `bwd`): `fwd(*args) -> (value, residuals)`, `bwd(residuals, ct)` -> cotangents of the chosen arguments.

    Like `vjp`, but `bwd` is one function for all points. Unless both become part of one compiled function, each pass is
    compiled once.

    Args:
      argnums: positions of the arguments to differentiate; an int gives one tree of cotangents, a sequence a tuple.
      has_aux: `fun` returns (value, aux); `fwd` then returns (value, residuals, aux).
      jitted: whether the two functions are compiled.

    >>> fwd, bwd = xjax.fwd_and_bwd(lambda x, y: x * y, argnums=0)
    >>> value, residuals = fwd(2.0, 3.0)
    >>> float(bwd(residuals, 1.0))
    3.0
    """
    check_callable("fwd_and_bwd", fun)
    caller = f"fwd_and_bwd of `{function_name(fun)}`"

    def fwd(*args: object, **kwargs: object) -> tuple:
        nums = canonical_argnums(argnums, len(args), caller)
        chosen, rest = split_args(args, nums)
        return vjp(lambda *xs: fun(*merge_args(xs, rest, nums, len(args)), **kwargs), *chosen, has_aux=has_aux)

    def bwd(residuals: Callable, ct: PyTree) -> PyTree:
        cotangents = residuals(ct)
        return tuple(cotangents) if isinstance(argnums, (tuple, list)) else cotangents[0]

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
