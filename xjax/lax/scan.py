"""`scan`: a loop with a carried state over the rows of arrays, differentiable in both modes.

    c:f32[] d:f32[5] = scan[jaxpr={...} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] consts, carry, xs

The body is a program (constants, carry, row of xs) -> (carry, row of ys). Linearizing splits it into two programs: the
first also returns the residuals of the second, which is linear. Residuals are stacked only if they differ from step to
step: one that is a constant, or computed from constants alone, is a constant of the second program; one that is a row
of xs is read from xs. The transpose of the linear scan runs from the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xjax.core.calls import api_boundary, function_name
from xjax.core.config import config
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.tree import flatten, is_pair, leaf_paths, tree_unflatten, treedef_children, treedef_tuple
from xjax.core.types import ShapedArray, typeof
from xjax.lax.control import (
    LoopWords,
    check_callable,
    check_carry,
    check_carry_structure,
    flat_arrays,
    promote,
    promoted_types,
    takes,
)
from xjax.lax.scan_rules import scan_p
from xjax.ops.arrange import concatenate
from xjax.ops.checks import static_int
from xjax.ops.pvary import cast_outputs
from xjax.ops.shape import expand_dims
from xjax.ops.slice import index_in_dim
from xjax.transforms.refs import Ref, Uses, row_type
from xjax.transforms.trace_cache import remember, trace_function
from xjax.typing import PyTree


@api_boundary
@takes(f=("carry", "x"))
def scan(f: Callable, init: PyTree, xs: PyTree = None, length: int | None = None, reverse: bool = False,
         unroll: int | bool = 1, _split_transpose: bool = False) -> tuple[PyTree, PyTree]:
    """``for x in xs: carry, y = f(carry, x); ys.append(y)``, compiled as one loop.

    Args:
      f: `f(carry, x) -> (carry, y)` on trees; the carry keeps its structure, shapes and dtypes. Traced once.
      init: the first carry.
      xs: tree of arrays [n, ...], whose rows are the `x`; None if `f` needs no input. For a ref, `x` is a ref of
        one row.
      length: number of steps; needed if `xs` is None.
      reverse: run from the last row to the first; `ys` keep the order of `xs`.
      unroll: number of steps in each iteration of the compiled loop; True or 0: no loop at all.

    Returns: (last carry, the `y` stacked along a new axis 0).
    Raises: TypeError if the body changes the type of the carry, ValueError if lengths differ.

    >>> total, sums = scan(lambda c, x: (c + x, c + x), 0.0, xjax.numpy.arange(4.0))
    >>> sums.tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    return bind_scan(LoopWords("scan", f, carry=(0, 2, "carry")), f, init, xs, length, reverse, unroll)


def bind_scan(words: LoopWords, f: Callable, init: PyTree, xs: PyTree, length: int | None, reverse: bool = False,
              unroll: int | bool = 1) -> tuple[PyTree, PyTree]:
    """The implementation of `scan`, and of other public loops that are scans."""
    caller = words.caller
    check_callable(caller, "f", f)
    init_leaves, init_tree, init_avals = flat_arrays(caller, "init", init)
    x_leaves, x_tree, x_avals = flat_arrays(caller, "xs", xs, refs=True)
    length = number_of_rows(caller, xs, x_avals, length)
    unroll = _unroll(caller, unroll, length)
    if config.disable_jit:
        return _python_loop(f, init, x_leaves, x_tree, length, reverse)
    rows = tuple([row_type(a) for a in x_avals])
    body = remember(f, (caller, init_tree, x_tree, tuple(init_avals), rows),
                    lambda: _trace_body(words, f, init_tree, x_tree, init_avals, rows))
    leaves, uses = [*promote(init_leaves, body.carry), *x_leaves], body.uses
    operands = leaves if uses is None else uses.values(caller, leaves)
    consts, carried = len(body.consts), len(init_leaves)
    if uses is not None:                    # values of refs that are only read are constants, others are carried
        consts, carried = consts + len(uses.read_only), carried + uses.written
    outs = scan_p.bind(*body.consts, *operands, jaxpr=body.program, length=length, num_carry=carried,
                       num_consts=consts, reverse=bool(reverse), unroll=unroll)
    if uses is not None:
        outs = uses.store(outs, leaves)
    n = len(init_leaves)
    return tree_unflatten(init_tree, outs[:n]), tree_unflatten(body.y_tree, outs[n:])


class Body(NamedTuple):
    """A traced body: program of (consts, carry, x), its constants, the structure of y, and the types of the carry."""

    program: ClosedJaxpr
    consts: list[Any]
    y_tree: Any
    carry: list[ShapedArray]
    uses: Uses | None


def _trace_body(words, f, init_tree, x_tree, init_avals, rows) -> tuple[Body, list[Any]]:
    in_tree = treedef_tuple((init_tree, x_tree))
    args = [f"argument `{path}`" for path in (*words.carry_paths(init_tree), *words.row_paths(x_tree))]
    carry = list(init_avals)
    while True:
        traced = trace_function(f, in_tree, [*carry, *rows], f"{words.caller} `{words.body_name}`", arg_names=args,
                                refs=True)
        carry_tree, y_tree = _pair(words.body_name, traced.out_tree, traced.results)
        check_carry_structure(words, init_tree, carry_tree)
        outs = traced.results[:len(carry)]
        wanted = promoted_types(carry, outs)
        if wanted == carry:
            break
        carry = wanted
    refs = traced.carried_types
    program = cast_outputs(traced.program, tuple([a.vma for a in (*refs, *carry)]))
    check_carry(words, init_tree, carry, program.out_avals[len(refs):len(refs) + len(carry)])
    return Body(program, traced.consts, y_tree, carry, traced.uses), traced.captured


def _pair(name: str, tree: PyTree, avals: Sequence[ShapedArray]) -> list[Any]:
    """(structure of the carry, structure of y)."""
    if not is_pair(tree):
        got = str(tree) if treedef_children(tree) or not avals else avals[0].str_short()
        raise bad("scan", f"`{name}` must return a pair (carry, y)", given={"returned": got},
                  fix="return (carry, None) if there is nothing to stack.")
    return treedef_children(tree)


def number_of_rows(caller: str, xs: PyTree, avals: Sequence[ShapedArray], length: int | None) -> int:
    """The number of steps, from `xs` and `length`."""
    if length is not None:
        length = static_int(length, "length", caller)
        if length < 0:
            raise bad(caller, "`length` is negative", given={"length": str(length)}, fix="pass 0 or more.",
                      exc=ValueError)
    if not avals:
        if length is None:
            raise bad(caller, "there are no arrays to iterate over, so the number of steps is unknown",
                      fix="pass xs, or length." if caller == "scan" else "pass an array, or a tree of arrays.",
                      exc=ValueError)
        return length
    sizes = {length} - {None}
    for a in avals:
        sizes.add(a.shape[0] if a.shape else None)
    if len(sizes) == 1 and (size := sizes.copy().pop()) is not None:
        return size
    paths = leaf_paths("xs", flatten(xs)[1])
    given = {path: f"{a.str_short()}   {f'{a.shape[0]} rows' if a.shape else 'no axis to iterate over'}"
             for path, a in zip(paths, avals, strict=True)}
    if length is not None:
        given = {"length": str(length), **given}
    raise bad(caller, "the arrays to iterate over differ in their number of rows" if None not in sizes else
              "a value to iterate over has no axis", given=given,
              fix="give all arrays the same size along axis 0; use a closure for a value that every step needs whole.",
              exc=ValueError)


def _unroll(caller: str, unroll: int | bool, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    unroll = static_int(unroll, "unroll", caller)
    if unroll < 0:
        raise bad(caller, "`unroll` is negative", given={"unroll": str(unroll)},
                  fix="pass 1 for a plain loop, or True to unroll all of it.", exc=ValueError)
    return unroll or max(length, 1)


def _python_loop(f, init, x_leaves, x_tree, length, reverse) -> tuple[Any, Any]:
    """`scan` in disable_jit mode, as a loop in Python."""
    if length == 0:
        raise bad("scan", "a scan of length 0 cannot run in disable_jit mode: the type of `ys` is unknown",
                  fix="turn disable_jit off, or scan over at least one row.", exc=ValueError)
    carry, rows, y_tree = init, [], None
    for i in reversed(range(length)) if reverse else range(length):
        out = f(carry, tree_unflatten(x_tree, [x.at[i] if type(x) is Ref else index_in_dim(x, i, keepdims=False)
                                               for x in x_leaves]))
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            _pair(function_name(f), flatten(out)[1], [typeof(y) for y in flatten(out)[0]])
        carry, y = out
        y_leaves, y_tree = flatten(y)
        rows.append(y_leaves)
    if reverse:
        rows.reverse()
    return carry, tree_unflatten(y_tree, [concatenate([expand_dims(y, (0,)) for y in column], 0)
                                          for column in zip(*rows, strict=True)])
