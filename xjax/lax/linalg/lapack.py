"""Calls of LAPACK from programs for the CPU: the text of the call, and what a failure gives.

LAPACK wants matrices column by column and batch axes in front, and reports failure in an integer for each matrix. The
routines are SciPy's; they are made known to XLA when the first program that needs one is lowered, which takes 0.3 s.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.types import ShapedArray
from xjax.runtime.xla import register_lapack

INT32 = np.dtype(np.int32)
_PREFIX = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def letter(name: str, value: str) -> str:
    """An option of LAPACK, as the call wants it: ``uplo = 76 : ui8`` for "L"."""
    return f"{name} = {ord(value)} : ui8"


def routine(real: str, complex_: str, dtype: np.dtype) -> str:
    """The name of a routine that is called differently for complex matrices: orgqr and ungqr."""
    return complex_ if dtypes.is_complex(dtype) else real


def info_type(matrix: ShapedArray) -> ShapedArray:
    """Type of the reports: int32, one for each matrix of a batch."""
    return ShapedArray(matrix.shape[:-2], INT32)


def call(b: Builder, name: str, operands: Sequence[Value], outs: Sequence[ShapedArray], *attributes: str,
         in_place: Sequence[tuple[int, int]] = (), batch_rank: int | None = None) -> list[Value]:
    """Write a call of a LAPACK routine.

    Args:
      name: of the routine without its type, "potrf", or jaxlib's name of a routine of its own, which ends with "_ffi".
      outs: types of all its results.
      in_place: pairs (operand, result) that share memory.
      batch_rank: number of leading batch axes; None: the first operand is a matrix.
    Raises: NotImplementedError where the program is not for the CPU.
    """
    if b.module.platform != "cpu":
        raise bad("lax.linalg", f"LAPACK's {name} runs on the CPU only", given={"platform": b.module.platform},
                  fix="put the matrix on jax.devices('cpu')[0] with device_put, and the result back.",
                  exc=NotImplementedError)
    register_lapack()
    batch = operands[0].aval.ndim - 2 if batch_rank is None else batch_rank
    target = name if name.endswith("_ffi") else f"lapack_{_PREFIX[operands[0].aval.dtype.name]}{name}_ffi"
    several = len(outs) > 1
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if several else ''}], operand_index = {i}, "
        "operand_tuple_indices = []>" for i, o in in_place)
    text = (f'call_target_name = "{target}", api_version = 4 : i32, backend_config = {{{", ".join(attributes)}}}, '
            f"operand_layouts = [{_layouts([x.aval for x in operands], batch)}], "
            f"result_layouts = [{_layouts(outs, batch)}], output_operand_aliases = [{aliases}]")
    if b.module.partitioned and batch:
        text += ", " + _split_by_batch([x.aval for x in operands], outs, batch)
    return b.generic("stablehlo.custom_call", operands, outs, text)


def _split_by_batch(operands: Sequence[ShapedArray], outs: Sequence[ShapedArray], batch: int) -> str:
    """The attributes by which the partitioner gives each device the call for its own matrices of a batch.

    Without them it gathers the operands. The rule names every axis of every array: batch axes alike, others apart.
    """
    names, sizes = _factor_names(), []
    shared = [next(names) for _ in range(batch)]
    sizes += zip(shared, operands[0].shape, strict=False)

    def axes(aval: ShapedArray) -> str:
        own = [next(names) for _ in aval.shape[batch:]]
        sizes.extend(zip(own, aval.shape[batch:], strict=True))
        return f"[{', '.join([*shared, *own])}]"

    ins, results = (", ".join(map(axes, avals)) for avals in (operands, outs))
    factors = ", ".join(f"{name}={size}" for name, size in sizes)
    return (f'mhlo.frontend_attributes = {{num_batch_dims = "{batch}"}}, '
            f"sdy.sharding_rule = #sdy.op_sharding_rule<({ins})->({results}) {{{factors}}}, custom>")


def _factor_names() -> Iterator[str]:
    """i to z, then z_1, z_2 and so on: the names of Shardy."""
    yield from "ijklmnopqrstuvwxyz"
    yield from map("z_{}".format, itertools.count(1))


def _layouts(avals: Sequence[ShapedArray], batch: int) -> str:
    """Axes from the fastest to the slowest: of a matrix the rows first, of all else the last axis."""
    found = []
    for aval in avals:
        order = list(range(aval.ndim))[::-1]
        if aval.ndim - batch == 2:
            order[:2] = order[1], order[0]
        found.append(f"dense<{order}> : tensor<{aval.ndim}xindex>" if order else "dense<> : tensor<0xindex>")
    return ", ".join(found)


def nan_where_failed(b: Builder, info: Value, *values: Value, allowed: str = "EQ") -> list[Value]:
    """The values, NaN for the matrices of which LAPACK reports a failure: ``info`` not `allowed` compared with 0."""
    fine = b.compare(allowed, info, b.constant(0, info.aval))
    found = []
    for x in values:
        mask = ShapedArray(x.aval.shape, np.dtype(np.bool_))
        nan = complex(math.nan, math.nan) if dtypes.is_complex(x.aval.dtype) else math.nan
        which = b.op(f"stablehlo.broadcast_in_dim {fine}, dims = {list(range(fine.aval.ndim))} : ({fine.type}) -> "
                     f"{tensor_type(mask)}", mask)
        found.append(b.select(which, x, b.constant(nan, x.aval)))
    return found


def identities(b: Builder, out: ShapedArray) -> Value:
    """What an empty matrix has as its orthogonal factor: the identity, for each matrix of the batch."""
    return b.constant(np.broadcast_to(np.eye(*out.shape[-2:], dtype=out.dtype), out.shape), out)
