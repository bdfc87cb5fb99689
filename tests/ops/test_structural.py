"""Checks of every row of `structural_table` against real JAX: values and types, vmap over all choices of batched
arguments, jvp, vjp and second derivatives in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.compare import assert_close, assert_same
from tests.ops.harness import check_as_jax, check_value, rolled
from tests.ops.row import OpRow, double
from tests.ops.structural_table import TABLE
from tests.oracle import real_jax
from tests.quick_compiling import as_shipped
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import Array, jit, lax, vjp, vmap
from xjax.ops.prng import threefry2x32

jax = real_jax()


def _has_narrow_indices(row: OpRow) -> bool:
    """XLA's older emitters, with which the tests compile, bound 8-bit indices by 8-bit numbers."""
    return " by " in row.name


# Rotated by three rows, because test_vmap also compares values, for other rows of the fast set.
@pytest.mark.parametrize("row", one_in(6, TABLE[3:] + TABLE[:3], str))
def test_value(row: OpRow) -> None:
    """Run eagerly and compiled: value and dtype equal JAX's."""
    with as_shipped(_has_narrow_indices(row)):
        check_value(row, lax, jax.lax)


@pytest.mark.parametrize("row", one_in(6, TABLE, str))
def test_vmap(row: OpRow) -> None:
    """Every pattern of batched arguments, and vmap of vmap."""
    with as_shipped(_has_narrow_indices(row)):
        check_as_jax(replace(row, order=0), lax, jax.lax, every_batch=True, copy=rolled)


@pytest.mark.parametrize("row", one_in(8, [row for row in TABLE if row.smooth()], str))
def test_derivatives(row: OpRow) -> None:
    """jvp, and the jvp of a vjp with cotangents that depend on the result, in double precision."""
    with as_shipped(_has_narrow_indices(row)):
        check_as_jax(replace(row, args=tuple(map(double, row.arguments()))), lax, jax.lax, order=2)


# -- tests that do not fit into the table -------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
@pytest.mark.parametrize("shape, axes", [((4095,), (0,)), ((4096,), (0,)), ((64, 100), (0,)), ((64, 100), (1,)),
                                         ((3, 40, 50), (0, 2)), ((8, 8, 8), (0, 1, 2))])
def test_extrema_keep_nan(name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """XLA's library for large reductions drops NaN; ours keeps NaN of either sign, also where XLA fuses reductions."""
    x = np.ones(shape, np.float32)
    x[(-1,) * len(shape)], x[(0,) * len(shape)] = np.nan, -np.nan
    expected = getattr(np, name.removeprefix("reduce_"))(x, axes)
    np.testing.assert_array_equal(getattr(lax, name)(x, axes), expected)

    def in_steps(x):
        for axis in sorted(axes, reverse=True):
            x = getattr(lax, name)(x, (axis,))
        return x
    np.testing.assert_array_equal(jit(in_steps)(x), expected)
    np.testing.assert_array_equal(vmap(lambda x: getattr(lax, name)(x, axes))(np.stack([x, x])), [expected] * 2)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_extremum_of_large_arrays(name: str) -> None:
    """The first of equal elements and the first NaN, wherever XLA splits the reduction."""
    x = np.zeros(100_000, np.float32)
    assert int(getattr(lax, name)(x, 0, np.int32)) == 0
    x[[777, 50_000, 99_999]] = 1 if name == "argmax" else -1
    assert int(getattr(lax, name)(x, 0, np.int32)) == 777
    x[[60_001, 60_000]] = np.nan, -np.nan
    assert int(getattr(lax, name)(x, 0, np.int32)) == 60_000


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extrema_keep_nan(name: str) -> None:
    x = np.ones(20_000, np.float32)
    x[5_000] = np.nan
    running = np.asarray(getattr(lax, name)(x))
    assert not np.isnan(running[:5_000]).any() and np.isnan(running[5_000:]).all()


def test_cumsum_of_a_million() -> None:
    """The work is not quadratic, which would take minutes, and the error is that of a tree of sums."""
    x = np.random.default_rng(1).standard_normal(1_000_000).astype(np.float32)
    np.testing.assert_allclose(lax.cumsum(x), np.cumsum(x, dtype=np.float64), atol=5e-3)


@pytest.mark.parametrize("name", ["scatter_min", "scatter_max"])
def test_clipped_scatter_extremum_derivative(name: str) -> None:
    """A clipped index has the derivative of the index to which it is clipped."""
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    x, u = np.array([0.0, 1.0, 2.0], np.float32), np.array([5.0, -5.0], np.float32)

    def back(indices: np.ndarray) -> list[np.ndarray]:
        y, pull = vjp(lambda x, u: getattr(lax, name)(x, indices, u, numbers, mode="clip"), x, u)
        return [np.asarray(y), *map(np.asarray, pull(np.array([1.0, 2.0, 3.0], np.float32)))]

    assert_same(back(np.array([[9], [0]])), back(np.array([[2], [0]])), tol=0)


def test_start_indices_of_narrow_types_do_not_overflow() -> None:
    """The clamp to [0, 298] must not be computed in uint8."""
    x = np.arange(300, dtype=np.float32)
    block = jit(lambda x, k: lax.dynamic_slice(x, (k,), (2,)))(x, np.uint8(255))
    np.testing.assert_array_equal(block, [255, 256])


@pytest.mark.parametrize("shape", [(), (5,), (3, 1000)])
def test_threefry_bits(shape: tuple[int, ...]) -> None:
    """Bit for bit as in JAX, also vmapped over keys."""
    from jax.extend.random import threefry2x32_p
    rng = np.random.default_rng(2)
    words = [rng.integers(0, 2**32, shape, np.uint32) for _ in range(4)]
    assert_close(threefry2x32(*words), threefry2x32_p.bind(*words))
    keys = [rng.integers(0, 2**32, (2,), np.uint32) for _ in range(2)]
    mapped = vmap(lambda k1, k2: threefry2x32(k1, k2, *words[2:]))(*keys)
    for row in range(2):
        assert_close([x[row] for x in mapped], threefry2x32(keys[0][row], keys[1][row], *words[2:]))


ERRORS = {
    "dot": (lambda: lax.dot(np.ones((8, 16), np.float32), np.ones((32, 4), np.float32)),
            TypeError, ("lax.dot_general: contracting dimensions differ in size.",
                        "lhs  f32[8,16]   contracts axis 1, size 16", "rhs  f32[32,4]   contracts axis 0, size 32")),
    "dot transposed": (lambda: lax.dot(np.ones((8, 16), np.float32), np.ones((4, 16), np.float32)), TypeError,
                       ("fix: transpose rhs, or pass dimension_numbers=(((1,), (1,)), ((), ())).",)),
    "concatenate shape": (lambda: lax.concatenate([np.ones((2, 3)), np.ones((2, 4))], 0), TypeError,
                          ("lax.concatenate", "[2,3]", "[2,4]")),
    "concatenate dtype": (lambda: lax.concatenate([np.ones(2, np.float32), np.ones(2, np.int32)], 0), TypeError,
                          ("f32[2]", "i32[2]")),
    "concatenate nothing": (lambda: lax.concatenate([], 0), ValueError, ("lax.concatenate",)),
    "slice": (lambda: lax.slice(np.ones((3, 4)), (0, 0), (4, 4)), TypeError, ("lax.slice", "[3,4]")),
    "dynamic_slice": (lambda: lax.dynamic_slice(np.ones((3, 4)), (0, 0), (4, 3)), TypeError, ("(4, 3)",)),
    "dynamic_slice start": (lambda: lax.dynamic_slice(np.ones(3), (1.5,), (1,)), TypeError, ("integer",)),
    "update": (lambda: lax.dynamic_update_slice(np.ones(3), np.ones(4), (0,)), TypeError, ("[3]", "[4]")),
    "pad": (lambda: lax.pad(np.ones(3, np.float32), np.int32(0), ((1, 1, 0),)), TypeError, ("f32[3]", "i32[]")),
    "argmax of nothing": (lambda: lax.argmax(np.ones((2, 0)), 1, np.int32), ValueError, ("lax.argmax", "empty")),
    "argmax dtype": (lambda: lax.argmax(np.ones(2), 0, np.float32), TypeError, ("index_dtype",)),
    "gather": (lambda: lax.gather(np.ones((3, 4)), np.zeros((2, 1), int),
                                   lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 5)),
               TypeError, ("lax.gather", "larger", "[3,4]")),
    "gather mode": (lambda: lax.GatherScatterMode.from_any("wrap"), ValueError, ("wrap",)),
    "scatter": (lambda: lax.scatter(np.ones(3, np.float32), np.zeros((2, 1), int), np.ones(2, np.int32),
                                     lax.ScatterDimensionNumbers((), (0,), (0,))), TypeError, ("f32[3]", "i32[2]")),
    "top_k": (lambda: lax.top_k(np.ones(3), 4), ValueError, ("lax.top_k", "[3]")),
    "sort": (lambda: lax.sort((np.ones(3), np.ones(4))), TypeError, ("[3]", "[4]")),
    "cumsum": (lambda: lax.cumsum(np.ones(3), 1), ValueError, ("lax.cumsum", "axis")),
    "precision": (lambda: lax.dot(np.ones(3), np.ones(3), precision="highes"), ValueError, ("highest",)),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_errors(case: tuple) -> None:
    assert_refused(*case)


WITHOUT_AXES = {"squeeze": lambda lax: lax.squeeze(np.ones(3, np.float32), ()),
                "expand_dims": lambda lax: lax.expand_dims(np.ones(3, np.float32), ()),
                "axis_index": lambda lax: lax.axis_index(())}


@pytest.mark.parametrize("call", WITHOUT_AXES.values(), ids=WITHOUT_AXES)
def test_without_axes_the_result_is_an_array(call: Callable) -> None:
    """A NumPy array that would be returned unchanged becomes an array; the position along no axes is 0."""
    got = call(lax)
    assert isinstance(got, Array)
    assert_same(got, call(jax.lax))
