"""`with_layout_constraint`: in which order the compiler stores a value of a program."""

from __future__ import annotations

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.tree import flatten, flatten_axes, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.runtime.placement.layout import Layout
from xjax.typing import PyTree

_WHERE = "experimental.layout.with_layout_constraint"


def with_layout_constraint(x: PyTree, layouts: PyTree) -> PyTree:
    """`x`, stored by the compiled program in the memory order that `layouts` state; values do not change.

    Args:
      x: tree of arrays.
      layouts: a `Layout`, or a tree of them that is a prefix of `x`.

    Raises: ValueError for other types, and for a layout that is for another rank; NotImplementedError for tiles, and in
      eager execution for a layout that is not row-major, since arrays outside programs are row-major.

    >>> f = xjax.jit(lambda x: with_layout_constraint(x, Layout((1, 0))) * 2)
    >>> f(xjax.numpy.ones((2, 2)))[0]
    Array([2., 2.], dtype=float32)
    """
    leaves, tree = flatten(x)
    wanted = flatten_axes(_WHERE, tree, layouts)
    for leaf, layout in zip(leaves, wanted, strict=True):
        if not isinstance(layout, Layout):
            raise bad(_WHERE, f"a layout must be a Layout, not a {type(layout).__name__}", {"layout": repr(layout)},
                      "pass a layout such as Layout((1, 0)).", exc=ValueError)
        layout.check_compatible_aval(typeof(leaf).shape)
        if layout.tiling or layout.sub_byte_element_size_in_bits:
            raise bad(_WHERE, "memory has no tiles on CPUs and GPUs, and no packed elements", {"layout": layout},
                      "pass the order of the axes alone: Layout(major_to_minor).", exc=NotImplementedError)
    return tree_unflatten(tree, [layout_constraint_p.bind(leaf, layout=layout)
                                 for leaf, layout in zip(leaves, wanted, strict=True)])


def _type(x, *, layout):
    return x


def _evaluate(x, *, layout):
    if not layout.is_row_major:
        raise bad(_WHERE, "arrays outside compiled programs are always stored in row-major order", {"layout": layout},
                  "call it inside a function that is compiled with xjax.jit.", exc=NotImplementedError)
    return x


def _lower(b: Builder, out: ShapedArray, x: Value, *, layout: Layout) -> Value:
    order = f"dense<{[*reversed(layout.major_to_minor)]}> : tensor<{out.ndim}xindex>"
    if not out.ndim:
        return x
    return b.op(f"stablehlo.custom_call @LayoutConstraint({x}) {{operand_layouts = [{order}], "
                f"result_layouts = [{order}]}} : ({x.type}) -> {x.type}", out)


def _transpose(ct, x, *, layout):
    return [layout_constraint_p.bind(ct, layout=layout)]


def _batch(axis, args, bdims, *, layout):
    (x,), (bdim,) = args, bdims
    order = [bdim, *[k + (k >= bdim) for k in layout.major_to_minor]]       # the mapped axis moves slowest
    return layout_constraint_p.bind(x, layout=layout.update(major_to_minor=order)), bdim


layout_constraint_p = Primitive("layout_constraint", type_rule=_type, lower=_lower, jvp=LINEAR, transpose=_transpose,
                                batch=_batch, evaluate=_evaluate)
