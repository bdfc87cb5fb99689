"""Symbolic dimensions: arithmetic, bounds, constraints, text; programs with them; errors."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from xjax import core, export
from xjax.errors import InconclusiveDimensionOperation

B, C = export.symbolic_shape("b, c")


def test_arithmetic_and_bounds_agree_with_integers():
    """Random expressions: their value, their bounds, and the text, which can be read again."""
    on_sizes = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x // y, lambda x, y: x % y,
                core.max_dim, core.min_dim]
    on_ints = [*on_sizes[:5], max, min]
    rng = random.Random(0)
    for _ in range(300):
        made = [(B, lambda b, c: b), (C, lambda b, c: c), (3, lambda b, c: 3), (2, lambda b, c: 2)]
        for _ in range(4):
            (x, f), (y, g) = rng.choice(made), rng.choice(made)
            i = rng.choice([0, 1, 2, 5, 6, *([3, 4] if y in (2, 3) else [])])
            made.append((on_sizes[i](x, y), lambda b, c, i=i, f=f, g=g: on_ints[i](f(b, c), g(b, c))))
        size, value = made[-1]
        low, high = export.symbolic_dim_bounds(size)
        if export.is_symbolic_dim(size):
            assert export.symbolic_shape(str(size), scope=B.scope) == (size,)
        for b, c in itertools.product((1, 2, 5), repeat=2):
            known = size.evaluate({"b": b, "c": c}) if export.is_symbolic_dim(size) else size
            assert known == value(b, c) and low <= known <= high, (size, b, c)


TEXTS = ["b", "2*b", "b*b + 1", "b - c", "b + -2", "floordiv(b, 2)", "mod(b, 3)", "max(b, c)", "min(b, 2)",
         "b^2*c - 4*b + 3",
         "3", "-1*b + 9", "max(b, 0)", "a*d + b*c + a + b*floordiv(a, 2)"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_and_bounds_are_those_of_jax(text):
    theirs, = real_jax().export.symbolic_shape(text)
    ours, = export.symbolic_shape(text)
    assert str(ours) == str(theirs)
    if hasattr(real_jax().export, "symbolic_dim_bounds"):
        assert export.symbolic_dim_bounds(ours) == real_jax().export.symbolic_dim_bounds(theirs)


@pytest.mark.parametrize(("text", "like"), [("b, ...", (8, 3, 4)), ("(b, _)", (None, 3)), (None, (2, 3)),
                                            ("b, 4,", (8, 4))])
def test_placeholders_are_filled_as_in_jax(text, like):
    assert str(export.symbolic_shape(text, like=like)) == str(real_jax().export.symbolic_shape(text, like=like))


@pytest.mark.parametrize("text", ["b,,3", "b +", "2 b", "floordiv(b)", "b, ...", "(b", "b)", "1.5", "b, _", "*b", "é*"])
def test_text_that_is_no_shape(text):
    with pytest.raises(ValueError, match=r"symbolic_shape") as caught:
        export.symbolic_shape(text)
    assert "fix:" in str(caught.value)


def test_comparisons_are_decided_or_refused():
    assert B >= 1 and 2 * B > B and B + 1 != B and B != 3 and B == B + C - C and bool(B)
    with pytest.raises(InconclusiveDimensionOperation, match=r"b >= c"):
        assert B >= C
    with pytest.raises(TypeError, match="no fixed value"):
        int(B)
    with pytest.raises(TypeError, match="no fixed value"):
        range(B)
    other, = export.symbolic_shape("b")
    assert other != B
    with pytest.raises(ValueError, match="different scopes"):
        other + B


def test_constraints():
    scope = export.SymbolicScope(["a >= b", "b <= 16", "mod(b, 8) == 0", "d == 2*b"])
    a, b, d = export.symbolic_shape("a, b, d", scope=scope)
    assert a >= b and a - b >= 0 and b <= 16 and b % 8 == 0 and b // 8 * 8 == b and d == 2 * b and d <= 32
    for wrong in (["b < 3"], ["2 >= 3"], ["b + c == 4"], "b >= 3"):
        with pytest.raises(ValueError, match="SymbolicScope"):
            export.SymbolicScope(wrong)


def exported(f, *texts, constraints=(), dtype=np.float32, **options):
    scope = export.SymbolicScope(constraints)
    structs = [xjax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), dtype) for text in texts]
    return export.deserialize(export.export(xjax.jit(f), **options)(*structs).serialize())


ONES = np.ones((6, 4), np.float32)


def test_result_types_are_symbolic():
    f = exported(lambda x: (x.T, x.reshape(-1), jnp.concatenate([x, x[:1]])), "b, 4")
    assert [a.str_short() for a in f.out_avals] == ["f32[4,b]", "f32[4*b]", "f32[b + 1,4]"]
    assert [y.shape for y in f.call(ONES)] == [(4, 6), (24,), (7, 4)]


def test_a_size_is_a_number_in_the_program():
    f = exported(lambda x: (x.sum() / x.shape[0], jnp.array(x.shape[0]), x.shape[0] * jnp.ones(2), x.mean()), "2*b, 4")
    sums, size, product, mean = f.call(ONES)
    assert (float(sums), int(size), product.tolist(), float(mean)) == (4.0, 6, [6.0, 6.0], 1.0)


@pytest.mark.parametrize("index", [np.array([0, -1]), np.array([[-6], [5]]), np.array([2, 3], np.uint8)], ids=repr)
def test_positions_along_an_axis_of_symbolic_size(index):
    """Known positions and computed ones, for reading and writing; negative ones count from the end."""
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    known = exported(lambda x: (x[index], x.at[index].add(1)), "b, 4", constraints=["b >= 6"])
    written = x.copy()
    np.add.at(written, index, 1)
    for got, expected in zip(known.call(x), (x[index], written)):
        np.testing.assert_array_equal(got, expected)
    b, k = export.symbolic_shape("b, k", constraints=["b >= 6"])
    specs = xjax.ShapeDtypeStruct((b, 4), np.float32), xjax.ShapeDtypeStruct((k,), index.dtype)
    computed = export.export(xjax.jit(lambda x, i: (x[i], x.at[i].add(1))))(*specs)
    for got, expected in zip(computed.call(x, index.ravel()), (x[index.ravel()], written)):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("texts", "shapes", "words"), [
    (("2*b, 4",), ((5, 4),), "b is not an integer"), (("b, 4",), ((0, 4),), "b >= 1"),
    (("b, b",), ((3, 4),), "has another shape"), (("b, 4", "b, 4"), ((3, 4), (2, 4)), "has another shape"),
    (("b, 4",), ((3, 5),), "another type"), (("b, 4",), ((3,),), "another type")])
def test_shapes_that_do_not_fit(texts, shapes, words):
    f = exported(lambda *xs: xs[0] + 1, *texts)
    with pytest.raises(ValueError, match=words):
        f.call(*[np.ones(shape, np.float32) for shape in shapes])


def test_constraints_are_checked_before_saving_and_after():
    scope = export.SymbolicScope(["b <= 4"])
    spec = xjax.ShapeDtypeStruct(export.symbolic_shape("b", scope=scope), np.float32)
    f = export.export(xjax.jit(lambda x: x + 1))(spec)
    with pytest.raises(ValueError, match="b <= 4"):
        f.call(np.ones(5, np.float32))
    with pytest.raises(ValueError, match=r"b <= 4|do not fit|does not fit"):        # by the module itself
        export.deserialize(f.serialize()).call(np.ones(5, np.float32))


def test_programs_that_are_refused():
    with pytest.raises(ValueError, match="do not follow from the shapes"):
        exported(lambda x: x, "a*b")
    with pytest.raises(InconclusiveDimensionOperation, match="not decided"):
        exported(lambda x: x if x.shape[0] > 4 else -x, "b")
    with pytest.raises((TypeError, ValueError), match=r"shape|broadcast"):
        exported(lambda x, y: x + y, "a", "c")
    one, other = (xjax.ShapeDtypeStruct(export.symbolic_shape("b"), np.float32) for _ in range(2))
    with pytest.raises(ValueError, match="different scopes"):
        export.export(xjax.jit(lambda x, y: x))(one, other)
    with pytest.raises(ValueError, match="symbolic shapes"):
        xjax.jit(lambda x: x).lower(one)


def test_symbolic_args_specs():
    args = {"x": np.ones((8, 3), np.float32), "i": np.zeros(8, np.int32)}
    specs = export.symbolic_args_specs(args, {"x": "b, ...", "i": "b"}, constraints=["b >= 2"])
    assert specs["x"].shape[0] is not None and str(specs["x"]) == "ShapeDtypeStruct(shape=(b, 3), dtype=float32)"
    assert specs["i"].dtype == np.int32 and specs["x"].shape[0] >= 2
    assert export.symbolic_args_specs((args["x"],), None)[0].shape == (8, 3)
    with pytest.raises(ValueError, match="differs"):
        export.symbolic_args_specs((args["x"],), "b, 4")


def test_nan_is_kept():
    """XLA's reductions for CPUs lose NaN in arrays of more than 4,096 elements."""
    def f(x):
        pools = xjax.lax.reduce_window(x, -np.inf, xjax.lax.max, (1, 4), (1, 4), "VALID")
        return x.max(), x.min(), x.max(0)[3], x.max(1)[1], jnp.linalg.norm(x.ravel(), np.inf), pools.sum()

    x = np.ones((2, 8192), np.float32)
    x[1, 3] = np.nan
    for texts in ("b, 8192", "2, c", "b, c"):
        assert np.isnan(exported(f, texts).call(x)).all(), texts


def test_a_multiple():
    f = exported(lambda x: x.reshape(x.shape[0] // 8, 8, 4).sum(1), "b, 4", constraints=["mod(b, 8) == 0"])
    assert f.out_avals[0].str_short() == "f32[floordiv(b, 8),4]"
    np.testing.assert_array_equal(f.call(np.ones((16, 4), np.float32)), np.full((2, 4), 8))


def test_eval_shape_has_symbolic_results():
    spec = xjax.ShapeDtypeStruct((B, 4), np.float32)
    assert xjax.eval_shape(lambda x: x.reshape(-1, 2), spec).shape == (2 * B, 2)


def test_reads_out_of_range_of_an_axis_of_symbolic_size():
    """Indices beyond the size of the call are filled; dropped and clamped ones in writes, also along two axes."""
    x, i = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([1, 3, 7], np.int32)
    f = exported(lambda x: (x.at[i].get(mode="fill", fill_value=-1), x.at[i, i].get(mode="fill", fill_value=-1),
                            x.at[i].add(1, mode="drop"), x.at[i].add(1, mode="clip")), "b, 3")
    filled, pairs, dropped, clamped = map(np.asarray, f.call(x))
    np.testing.assert_array_equal(filled, [x[1], x[3], [-1] * 3])
    np.testing.assert_array_equal(pairs, [x[1, 1], -1, -1])
    np.testing.assert_array_equal(dropped - x, np.array([0, 1, 0, 1])[:, None] + np.zeros((4, 3)))
    np.testing.assert_array_equal(clamped - x, np.array([0, 1, 0, 2])[:, None] + np.zeros((4, 3)))
