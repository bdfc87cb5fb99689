"""Layouts: formats that place arrays, and constraints on values of programs."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax
from xjax.experimental.layout import Format, Layout, with_layout_constraint

jax = real_jax("experimental.layout")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def named(lib):
    mesh = lib.sharding.Mesh(np.array(lib.devices()[:2]), "x")
    return lib.sharding.NamedSharding(mesh, lib.P("x"))


def layouts(lib):
    return importlib.import_module(f"{lib.__name__}.experimental.layout")


def test_the_format_of_an_array_is_that_of_jax():
    for value in (X, np.float32(1), np.ones((2, 0, 3), np.int8)):
        ours, theirs = (lib.numpy.asarray(value).format.layout for lib in (xjax, jax))
        assert repr(ours) == repr(theirs)
    x = xjax.device_put(X, named(xjax))
    assert x.format == Format(Layout((0, 1), ()), x.sharding)
    assert hash(x.format) == hash(Format(Layout((0, 1), ()), x.sharding))


@pytest.mark.parametrize("make", [
    lambda m: m.Layout((1, 0)), lambda m: m.Layout([0, 1], [[8, 128]]), lambda m: m.Layout((0,), (), 4),
    lambda m: m.Layout((1, 0)).update(major_to_minor=(0, 1), tiling=()), lambda m: m.Format(),
    lambda m: m.Layout((1, 0)) == m.Layout((1, 0)), lambda m: m.Layout((1, 0)) == m.Layout((0, 1)),
    lambda m: {m.Layout((1, 0)): 1}[m.Layout((1, 0))], lambda m: m.Format() == m.Format(None, None),
    lambda m: m.Format(m.Layout((1, 0))), lambda m: m.Format((1, 0)), lambda m: m.Format(None, 1),
    lambda m: m.Layout((0, 1)).check_compatible_aval((2,)), lambda m: m.Layout((0, 1)).check_compatible_aval((2, 3)),
])
def test_objects_behave_as_in_jax(make):
    def result(lib):
        try:
            return repr(make(layouts(lib)))
        except Exception as error:
            return type(error)
    assert result(xjax) == result(jax)


@pytest.mark.parametrize("layout", [None, "auto", (0, 1)])
def test_a_format_of_the_default_layout_places_an_array(layout):
    def placed(lib, call):
        m = layouts(lib)
        chosen = m.Layout.AUTO if layout == "auto" else layout and m.Layout(layout)
        return call(lib, m.Format(chosen, named(lib)))

    calls = [lambda lib, f: lib.jit(lambda x: x * 2, out_shardings=f)(X),
             lambda lib, f: lib.jit(lib.jit(lambda x: x * 2, out_shardings=f))(X),
             lambda lib, f: lib.jit(lambda x, y: (x * 2, y), out_shardings=(f, None))(X, 1.0)[0]]
    if layout != "auto":
        calls += [lambda lib, f: lib.device_put(X, f), lambda lib, f: lib.device_put({"a": X}, f)["a"],
                  lambda lib, f: lib.device_put({"a": X, "b": X}, {"a": f, "b": None})["a"],
                  lambda lib, f: lib.jit(lambda x: x * 2, in_shardings=f)(X),
                  lambda lib, f: lib.jit(lambda x, y: x * 2, in_shardings=(f, None))(X, X)]
    for call in calls:
        ours, theirs = (placed(lib, call) for lib in (xjax, jax))
        np.testing.assert_array_equal(ours, theirs)
        assert ours.sharding.spec == xjax.P("x") and repr(ours.format.layout) == repr(theirs.format.layout)


def test_other_layouts_are_refused():
    other, wrong = (Format(Layout(order), named(xjax)) for order in ((1, 0), (0, 1, 2)))
    for call in (lambda f: xjax.device_put(X, f), lambda f: xjax.jit(lambda x: x, in_shardings=f)(X),
                 lambda f: xjax.jit(lambda x: x, out_shardings=f)(X),
                 lambda f: xjax.ShapeDtypeStruct((2, 3), "f4", sharding=f),
                 lambda f: xjax.jit(xjax.jit(lambda x: x, in_shardings=f))(X),
                 lambda f: xjax.jit(lambda x: x, in_shardings=f).lower(X)):
        with pytest.raises(NotImplementedError, match="(?s)row-major.*fix:"):
            call(other)
        with pytest.raises(ValueError, match="(?s)each axis.*fix:"):
            call(wrong)


def test_formats_of_compiled_programs():
    def formats(lib):
        compiled = lib.jit(lambda x, y: (x @ y, {"s": x.sum()})).lower(X, X.T).compile()
        return [repr(f.layout) for f in lib.tree.leaves((compiled.input_formats, compiled.output_formats))]
    assert formats(xjax) == formats(jax)
    struct = xjax.ShapeDtypeStruct((2, 3), "float32", sharding=Format(Layout((0, 1)), named(xjax)))
    assert struct.sharding == named(xjax) and struct.format.sharding == named(xjax)
    assert xjax.ShapeDtypeStruct((2,), "float32").format == Format()


def constrained(lib):
    m = layouts(lib)
    return lambda x: lib.numpy.sin(m.with_layout_constraint(x * 2, m.Layout((1, 0))))


def test_a_constraint_is_in_the_program():
    text = xjax.jit(constrained(xjax)).lower(X).as_text()
    assert "@LayoutConstraint" in text and "operand_layouts = [dense<[0, 1]> : tensor<2xindex>]" in text
    assert "{0,1}" in xjax.jit(constrained(xjax)).lower(X).compile().as_text()
    assert str(xjax.make_jaxpr(constrained(xjax))(X)) == str(jax.make_jaxpr(constrained(jax))(X))
    mapped = [str(lib.make_jaxpr(lib.vmap(constrained(lib)))(np.ones((4, 2, 3), np.float32)))
              for lib in (xjax, jax)]
    assert mapped[0] == mapped[1]
    program = str(xjax.make_jaxpr(xjax.vmap(constrained(xjax), in_axes=1))(np.ones((2, 4, 3), np.float32)))
    assert "major_to_minor=(1, 2, 0)" in program        # the mapped axis, then the others in the order of the layout


@pytest.mark.parametrize("transform", [
    lambda lib, f: f, lambda lib, f: lib.grad(lambda x: f(x).sum()),
    lambda lib, f: lambda x: lib.jvp(f, (x,), (x,))[1],
    lambda lib, f: lambda x: lib.vmap(f, in_axes=1)(lib.numpy.stack([x, x * 3], 1)),
    lambda lib, f: lambda x: lib.lax.scan(lambda c, _: (f(c), c.sum()), x, None, length=3)])
def test_a_constraint_changes_no_value(transform):
    ours, theirs = (lib.jit(transform(lib, constrained(lib)))(X) for lib in (xjax, jax))
    for x, y in zip(xjax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_a_constraint_is_refused_where_it_has_no_effect():
    np.testing.assert_array_equal(with_layout_constraint(X, Layout((0, 1))), X)
    with pytest.raises(NotImplementedError, match="(?s)row-major.*fix:.*jit"):
        with_layout_constraint(X, Layout((1, 0)))
    with pytest.raises(NotImplementedError, match="(?s)tiles.*fix:"):
        xjax.jit(lambda x: with_layout_constraint(x, Layout((1, 0), ((8, 128),))))(X)
    for layout in (None, Layout((0,)), Layout((0, 0)), Format()):
        with pytest.raises(ValueError, match="fix:"):
            with_layout_constraint(X, layout)
