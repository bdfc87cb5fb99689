"""`model.kernel(x1, x2)`: the kernel of a model on arrays, from the rules of its layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import xjax
import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad, check_choice
from xjax.typing import Array, ArrayLike
from xnn.covariance.kernel import Kernel, NeedsPairs, Options, Pair, Parameterization, Points, kernel_of_inputs
from xnn.sparse import CSR, is_scipy_sparse

if TYPE_CHECKING:
    from xnn.layer import Layer

KINDS = ("nngp", "ntk")


class Kernels(NamedTuple):
    """The two kernels of a model: arrays [n1, n2, *positions of x1, *positions of x2]."""

    nngp: Any
    ntk: Any


def kinds_of(caller: str, get: str | Sequence[str] | None) -> tuple[str, ...]:
    """The kernels that an argument `get` names; None names both. Raises: ValueError for another name."""
    kinds = (get,) if isinstance(get, str) else KINDS if get is None else tuple(get)
    for kind in kinds:
        check_choice(caller, "get", kind, KINDS)
    return kinds


def as_requested(get: str | Sequence[str] | None, results: Sequence[Any]) -> Any:
    """The results for the kernels that `get` names: one alone, `Kernels` for both in this order, else a tuple."""
    if isinstance(get, str):
        return results[0]
    return Kernels(*results) if get is None or tuple(get) == KINDS else tuple(results)


def kernel_on_arrays(layer: Layer, x1: ArrayLike, x2: ArrayLike | None, get: str | Sequence[str] | None,
                     parameterization: Parameterization, train: bool, inputs: Mapping[str, Any]) -> Any:
    """The kernel of a layer between the rows of x1 and x2, as `Layer.kernel` documents it."""
    caller = f"{layer.name}.kernel"
    kinds = kinds_of(caller, get)
    check_choice(caller, "parameterization", parameterization, ("standard", "ntk"))
    x1, x2 = jnp.asarray(x1), None if x2 is None else jnp.asarray(x2)
    _check_points(caller, x1, x2)
    pairs = _pairs(caller, layer, inputs, x2 is not None)
    result = _compiled(layer, Options(parameterization, "ntk" in kinds, train), x1, x2, pairs)
    return result if get is None else as_requested(get, [getattr(result, kind) for kind in kinds])


def kernel_on_kernel(layer: Layer, kernel: Kernel, inputs: Mapping[str, Any]) -> Any:
    """The kernel that a layer maps a kernel to. Raises: ValueError if the kernel lacks covariances that it needs."""
    try:
        return kernel_after(layer, kernel, {name: value if isinstance(value, Pair) else Pair(value, value)
                                            for name, value in inputs.items()})
    except NeedsPairs as need:
        raise bad(f"{layer.name}.kernel", f"the layer needs {need.kind} between different positions, which the kernel "
                  "does not have", fix="compute the kernel of the whole model: serial(first, second).kernel(x).",
                  exc=ValueError) from None


def _check_points(caller: str, x1: Array, x2: Array | None) -> None:
    if x1.ndim < 1 or (x2 is not None and (x2.ndim != x1.ndim or x2.shape[-1:] != x1.shape[-1:]) and x1.ndim > 1):
        raise bad(caller, "x1 and x2 must be batches of inputs with the same features",
                  {"x1": str(x1.shape), "x2": str(None if x2 is None else x2.shape)},
                  "the first axis of each is the batch, the last axis has the features.", ValueError)


def _pairs(caller: str, layer: Layer, inputs: Mapping[str, Any], has_x2: bool) -> dict[str, Pair]:
    """The extra inputs for x1 and x2: a value for x1 alone, else a pair."""
    pairs = {}
    for name, value in inputs.items():
        if name not in layer.extra_inputs:
            raise bad(caller, f"the model has no input {name!r}", {"inputs": ", ".join(layer.extra_inputs) or "none"},
                      "leave it out.")
        if has_x2 and not (isinstance(value, tuple) and len(value) == 2):
            raise bad(caller, f"`{name}` must be a pair, for x1 and for x2", {name: type(value).__name__},
                      f"{name}=(value of x1, value of x2).")
        one, other = map(_as_arrays, value if has_x2 else (value, value))
        pairs[name] = Pair(one, other)
    return pairs


def _as_arrays(value: Any) -> Any:
    return CSR.from_scipy(value) if is_scipy_sparse(value) else value


def _compiled(layer: Layer, options: Options, x1: Array, x2: Array | None, inputs: dict[str, Pair]) -> Kernel:
    """The kernel by one compiled program, with the covariances that the layers need."""
    known = layer._kernels
    start: Options | None = known.get((options, x1.ndim), options)
    while start is not None:
        if start not in known:
            known[start] = xjax.jit(_evaluation(layer, start))
        try:
            return known[start](x1, x2, inputs)
        except NeedsPairs as need:
            start = known[options, x1.ndim] = start.wider(need)
    del known[options, x1.ndim]
    raise bad(f"{layer.name}.kernel", "a layer needs covariances between positions that an earlier layer does not keep",
              fix="pool the positions once only, or apply Flatten before.", exc=ValueError)


def _evaluation(layer: Layer, options: Options) -> Any:
    def evaluate(x1: Array, x2: Array | None, inputs: dict[str, Pair]) -> Kernel:
        if options.rows:
            x1, x2 = x1[None], None if x2 is None else x2[None]
        result = kernel_after(layer, Points(x1, x2, options), inputs)
        if isinstance(result, Points):
            result = kernel_of_inputs(result)
        if not isinstance(result, Kernel):
            raise bad(f"{layer.name}.kernel", "the model has several outputs, so it has several kernels",
                      {"outputs": str(type(result).__name__)}, "end it with FanInSum or FanInConcat.", ValueError)
        if result.positions and not result.pairs:
            raise NeedsPairs("covariances")
        result = result.replace(weights=frozenset())
        if options.rows:
            result = result.each(lambda values, batch, pairs: jnp.reshape(values, values.shape[batch:]))
        return result

    return evaluate


def kernel_after(layer: Layer, x: Any, inputs: Mapping[str, Any]) -> Any:
    """The kernel after a layer, given the kernel before it. Raises: TypeError if the layer has no kernel."""
    rule = layer.kernel_rule
    if rule is None:
        raise bad(f"{layer.name}.kernel", "the layer has no kernel of infinite width", {"layer": repr(layer)},
                  "replace the layer, or compute the kernel of the finite network: xnn.kernels.empirical_ntk.")
    if not getattr(rule, "takes_points", False):
        x = tree_util.tree_map(lambda one: kernel_of_inputs(one) if isinstance(one, Points) else one, x,
                               is_leaf=lambda one: isinstance(one, Points | Kernel))
    return rule(x, **{name: value for name, value in inputs.items() if name in layer.extra_inputs})
