"""`composite`: a function as a named operation, together with its definition for compilers without this operation.

    b:f32[] = composite[attributes=(('axis', (0,), *),) jaxpr={...} name=my.softmax version=1] constants, operands
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xjax.core.errors import UnexpectedTracerError, bad
from xjax.core.hlo import Builder, Value, dense, string, tensor_type, types_text
from xjax.core.lowering import lower_closed, symbol_name, write_function
from xjax.core.primitive import Calls, Missing, Primitive
from xjax.core.trace import Tracer
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.types import ShapedArray
from xjax.lax.control import check_callable, flat_arrays
from xjax.transforms.jvp import jvp_flat
from xjax.transforms.rule_functions import batched_call
from xjax.transforms.trace_cache import trace_function
from xjax.typing import PyTree


def composite(decomposition: Callable, name: str, version: int = 0) -> Callable:
    """`decomposition`, compiled as one named operation that a backend may replace with its own implementation.

    Args:
      decomposition: `decomposition(*arrays, **attributes)`; defines the meaning of the operation.
      name: name of the operation, with the backend's prefix: "my.softmax".
      version: version of its meaning.
    Returns: a function of arrays by position (trees are allowed) and attributes by keyword: numbers, strings, NumPy
      arrays, and tuples, lists and dicts of them. Derivatives and `vmap` are those of the decomposition.
    Raises: UnexpectedTracerError for a traced attribute.

    >>> tangent = composite(lambda x: jnp.sin(x) / jnp.cos(x), "my.tangent")
    >>> round(float(tangent(1.0)), 4)
    1.5574
    """
    check_callable("composite", "decomposition", decomposition)

    @functools.wraps(decomposition)
    def call(*args: PyTree, **attributes: PyTree) -> PyTree:
        caller = f"composite `{name}`"
        for key, value in attributes.items():
            if any(isinstance(leaf, Tracer) for leaf in flatten(value)[0]):
                raise bad(caller, f"the attribute `{key}` is a traced value", given={key: value},
                          fix="pass it by position, as an array.", exc=UnexpectedTracerError)
        leaves, tree, avals = flat_arrays(caller, "operands", args)
        traced = trace_function(functools.partial(decomposition, **attributes), tree, avals, caller)
        described = tuple((key, *_flat(value)) for key, value in attributes.items())
        outs = composite_p.bind(*traced.consts, *leaves, attributes=described, jaxpr=traced.program, name=name,
                                version=version)
        return tree_unflatten(traced.out_tree, outs)

    return call


def _flat(value: PyTree) -> tuple[tuple, Any]:
    leaves, tree = flatten(value)
    return tuple(leaves), tree


def _attribute(value: object) -> str:
    """An attribute as MLIR text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"0x{int.from_bytes(np.float64(value).tobytes(), 'little'):016X} : f64"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_attribute, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{string(str(key))} = {_attribute(v)}' for key, v in value.items())}}}"
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return f"{dense(array)} : {tensor_type(ShapedArray(array.shape, array.dtype))}"
    raise bad("composite", "an attribute of this type cannot be written as MLIR text", given={"attribute": repr(value)},
              fix="pass numbers, strings, NumPy arrays, or tuples, lists and dicts of them.")


# -- rules --------------------------------------------------------------------------------------------------------

def _lower(b: Builder, outs, *args: Value, attributes, jaxpr, name, version) -> list[Value]:
    if b.axes is not None or jaxpr.jaxpr.effects:       # a function cannot contain mesh regions or tokens
        return lower_closed(b, jaxpr, args)
    symbol = f"@{symbol_name(name)}_{b.module.number()}"
    write_function(b, symbol, lambda inner, *params: lower_closed(inner, jaxpr, params), [v.aval for v in args])
    values = _attribute({key: tree_unflatten(tree, leaves) for key, leaves, tree in attributes})
    return b.ops(f"stablehlo.composite {string(name)} {', '.join(v.name for v in args)} {{composite_attributes = "
                 f"{values}, decomposition = {symbol}, version = {version} : i32}} : "
                 f"({types_text(v.aval for v in args)}) -> ({types_text(outs)})", outs)


def _jvp(primals, tangents, *, jaxpr, **params):
    outs = composite_p.bind(*primals, jaxpr=jaxpr, **params)
    return outs, jvp_flat(jaxpr, primals, tangents)[1]


def _batch(axis, args, bdims, *, jaxpr, **_):
    return batched_call(jaxpr, axis, bdims)(*args), [0] * len(jaxpr.out_avals)


composite_p = Primitive(
    "composite", type_rule=lambda *avals, jaxpr, **_: jaxpr.out_avals, lower=_lower, jvp=_jvp, batch=_batch,
    transpose=Missing("tangents never pass through it: the derivative is that of the decomposition"),
    evaluate=lambda *args, jaxpr, **_: jaxpr(*args), multiple_results=True, calls=Calls("jaxpr"),
    vary=None, cacheable=False)
