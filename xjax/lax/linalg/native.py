"""Calls of a library's routines on matrices: the text of a call, and the result where a routine reports a failure.

The routines of LAPACK and cuSOLVER take column-major matrices with leading batch axes, and report failure in an integer
for each matrix.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from xjax.core import dtypes
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.types import ShapedArray

INT32 = np.dtype(np.int32)


def info_type(matrix: ShapedArray) -> ShapedArray:
    """Type of ``info``: int32, one for each matrix of a batch."""
    return ShapedArray(matrix.shape[:-2], INT32)


def call(b: Builder, target: str, operands: Sequence[Value], outs: Sequence[ShapedArray], *attributes: str,
         in_place: Sequence[tuple[int, int]] = (), batch_rank: int | None = None,
         by_columns: bool = True) -> list[Value]:
    """Write a call of a native function.

    Args:
      target: its name among XLA's custom calls.
      outs: types of all its results.
      attributes: its options, as ``name = value : type``.
      in_place: pairs (operand, result) that share memory.
      batch_rank: number of leading batch axes; None: the first operand is a matrix.
      by_columns: matrices are column-major, else row-major.
    """
    batch = operands[0].aval.ndim - 2 if batch_rank is None else batch_rank
    several = len(outs) > 1
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if several else ''}], operand_index = {i}, "
        "operand_tuple_indices = []>" for i, o in in_place)
    columns = batch if by_columns else None
    text = (f'call_target_name = "{target}", api_version = 4 : i32, backend_config = {{{", ".join(attributes)}}}, '
            f"operand_layouts = [{_layouts([x.aval for x in operands], columns)}], "
            f"result_layouts = [{_layouts(outs, columns)}], output_operand_aliases = [{aliases}]")
    if b.module.partitioned and batch:
        text += ", " + _split_by_batch([x.aval for x in operands], outs, batch)
    return b.generic("stablehlo.custom_call", operands, outs, text)


def flag(name: str, value: bool) -> str:
    """A boolean option: ``lower = true``."""
    return f"{name} = {'true' if value else 'false'}"


def _split_by_batch(operands: Sequence[ShapedArray], outs: Sequence[ShapedArray], batch: int) -> str:
    """The attributes by which the partitioner lets each device process its own matrices of a batch.

    Without them it gathers the operands. The rule names every axis of every array: batch axes by shared names, the
    others by names of their own.
    """
    names, sizes = _factor_names(), []
    shared = [next(names) for _ in range(batch)]
    sizes += zip(shared, operands[0].shape, strict=False)

    def axes(aval: ShapedArray) -> str:
        if not aval.ndim:                               # an unused result, which has no batch axes either
            return "[]"
        own = [next(names) for _ in aval.shape[batch:]]
        sizes.extend(zip(own, aval.shape[batch:], strict=True))
        return f"[{', '.join([*shared, *own])}]"

    ins, results = (", ".join(map(axes, avals)) for avals in (operands, outs))
    factors = ", ".join(f"{name}={size}" for name, size in sizes)
    return (f'mhlo.frontend_attributes = {{num_batch_dims = "{batch}"}}, '
            f"sdy.sharding_rule = #sdy.op_sharding_rule<({ins})->({results}) {{{factors}}}, custom>")


def _factor_names() -> Iterator[str]:
    """i to z, then z_1, z_2 and so on: the factor names of Shardy."""
    yield from "ijklmnopqrstuvwxyz"
    yield from map("z_{}".format, itertools.count(1))


def _layouts(avals: Sequence[ShapedArray], batch: int | None) -> str:
    """Axes from the fastest to the slowest: reversed, except that in matrices after `batch` axes rows come first."""
    layouts = []
    for aval in avals:
        order = list(range(aval.ndim))[::-1]
        if batch is not None and aval.ndim - batch == 2:
            order[:2] = order[1], order[0]
        layouts.append(f"dense<{order}> : tensor<{aval.ndim}xindex>" if order else "dense<> : tensor<0xindex>")
    return ", ".join(layouts)


def eigenvalue_types(x: Value, values: ShapedArray) -> list[ShapedArray]:
    """Types of complex eigenvalues in a routine: one result, or for real matrices their real and imaginary parts."""
    if dtypes.is_complex(x.aval.dtype):
        return [values]
    return [ShapedArray(values.shape, x.aval.dtype)] * 2


def as_complex(b: Builder, parts: Sequence[Value]) -> Value:
    """Complex numbers from one value, or from real and imaginary parts."""
    if len(parts) == 1:
        return parts[0]
    out = ShapedArray(parts[0].aval.shape, dtypes.to_complex_dtype(parts[0].aval.dtype))
    return b.op(f"stablehlo.complex {parts[0]}, {parts[1]} : {tensor_type(out)}", out)


def nan_where_failed(b: Builder, info: Value, *values: Value, allowed: str = "EQ") -> list[Value]:
    """The values, with NaN for matrices whose routine failed: `allowed` is the comparison of ``info`` with 0 that must
    hold."""
    fine = b.compare(allowed, info, b.constant(0, info.aval))
    selected = []
    for x in values:
        mask_type = ShapedArray(x.aval.shape, np.dtype(np.bool_))
        nan = complex(math.nan, math.nan) if dtypes.is_complex(x.aval.dtype) else math.nan
        mask = b.op(f"stablehlo.broadcast_in_dim {fine}, dims = {list(range(fine.aval.ndim))} : ({fine.type}) -> "
                    f"{tensor_type(mask_type)}", mask_type)
        selected.append(b.select(mask, x, b.constant(nan, x.aval)))
    return selected


def identities(b: Builder, out: ShapedArray) -> Value:
    """The orthogonal factor of empty matrices: the identity, for each matrix of the batch."""
    return b.constant(np.broadcast_to(np.eye(*out.shape[-2:], dtype=out.dtype), out.shape), out)
