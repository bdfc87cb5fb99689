"""`custom_linear_solve`: the solution of ``A x = b`` by the user's solver, with the derivatives of the exact solution.

    x:f32[2] = custom_linear_solve[const_lengths=... jaxprs=...] constants of four programs, b

The four programs are maps of vectors (trees of arrays): `matvec` is A, `solve` its inverse, `vecmat` and
`transpose_solve` the same for the transpose of A. The solvers are never differentiated, so they may contain any loop:
``dx = A^-1 (db - dA x)``, and the transpose of the operation is the operation with the programs of the transpose.

The results of the programs may be wider or narrower than b. x has the dtypes of `solve`; the other results are cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import lower_call
from xjax.core.primitive import Primitive
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import (
    flatten,
    is_pair,
    leaf_paths,
    tree_mismatch,
    tree_unflatten,
    treedef_children,
    treedef_tuple,
)
from xjax.core.types import ShapedArray, Zero, is_linear, typeof
from xjax.lax.control import Flags, check_callable, fixpoint, flat_arrays, front, same_type
from xjax.ops.checks import kind_of
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import neg
from xjax.ops.makers import accumulate
from xjax.ops.zeros import instantiate
from xjax.transforms.batching import batch_program, place_axis
from xjax.transforms.jvp import jvp_flat
from xjax.transforms.trace_cache import TracedFunction, trace_function
from xjax.transforms.transpose import transpose_program
from xjax.typing import PyTree

_WHERE = "custom_linear_solve"


def custom_linear_solve(matvec: Callable, b: PyTree, solve: Callable, transpose_solve: Callable | None = None,
                        symmetric: bool = False, has_aux: bool = False) -> PyTree:
    """``solve(matvec, b)``, differentiated by ``matvec(x) == b`` (not checked) instead of through `solve`.

    Args:
      matvec: linear function from trees like `b` to trees like `b`; derivatives flow to the values it closes over.
      b: tree of float or complex arrays.
      solve: `solve(matvec, b) -> x`. It need not be differentiable: `while_loop` is allowed.
      transpose_solve: `transpose_solve(vecmat, b) -> x` for the transpose of `matvec`; reverse mode needs it, unless
        `symmetric`.
      symmetric: `matvec` is its own transpose, so `solve` is used for both.
      has_aux: the solvers return (x, aux), where aux is any tree; aux has no derivative.

    Returns: x, with the dtypes that `solve` returns, or (x, aux).
    Raises: TypeError if a result of `matvec` or a solver differs from `b` in structure, shapes or kinds of numbers.

    >>> a = xjax.numpy.array([2.0, 4.0])
    >>> diagonal_solve = lambda matvec, b: b / matvec(xjax.numpy.ones(2))
    >>> f = lambda a: custom_linear_solve(lambda x: a * x, 8.0 * xjax.numpy.ones(2), diagonal_solve, symmetric=True)
    >>> f(a).tolist(), xjax.grad(lambda a: f(a).sum())(a).tolist()
    ([4.0, 2.0], [-2.0, -0.5])
    """
    for name, f in (("matvec", matvec), ("solve", solve), ("transpose_solve", transpose_solve or solve)):
        check_callable(_WHERE, name, f)
    if symmetric and transpose_solve is None:
        transpose_solve = solve
    leaves, tree, avals = flat_arrays(_WHERE, "b", b)

    def inverse(name: str, solver: Callable, of: Callable) -> TracedFunction:
        return trace_map(_WHERE, name, lambda x: solver(of, x), tree, avals, has_aux, agree=_same_kind)

    forward = trace_map(_WHERE, "matvec", matvec, tree, avals, agree=_same_kind)
    forward = forward._replace(program=_with_results(forward.program, avals))
    forward_inverse = inverse("solve", solve, matvec)
    backward = backward_inverse = TracedFunction(None, [], None)
    if transpose_solve is not None:
        backward, vecmat = (forward, matvec) if symmetric else _transposed(forward, tree)
        backward_inverse = inverse("transpose_solve", transpose_solve, vecmat)
    maps = LinearSolveTuple(forward, backward, forward_inverse, backward_inverse)
    outs = _bind([m.program for m in maps], [m.consts for m in maps], leaves)
    return tree_unflatten(forward_inverse.out_tree, outs)


class LinearSolveTuple(NamedTuple):
    """One value for each of the four maps."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> LinearSolveTuple:
        return LinearSolveTuple(self.vecmat, self.matvec, self.transpose_solve, self.solve)


LinearSolveTuple.__name__ = "_LinearSolveTuple"     # the name in JAX's printed programs


def trace_map(caller: str, name: str, f: Callable, tree: PyTree, avals: Sequence[ShapedArray], has_aux: bool = False,
              arguments: int = 1, agree: Callable[[ShapedArray, ShapedArray], bool] = same_type) -> TracedFunction:
    """`f` as a program from trees of one type to a tree of the same type; with `has_aux`, to a pair of that and aux.

    Args: agree: whether the type of a leaf of the result is accepted for the type of the argument.
    """
    in_tree = treedef_tuple((tree,) * arguments)
    traced = trace_function(f, in_tree, [*avals] * arguments, f"{caller} `{name}`")
    out_tree, outs = traced.out_tree, traced.program.out_avals
    if has_aux:
        if not is_pair(out_tree):
            raise bad(caller, f"with has_aux=True `{name}` must return a pair (x, aux)",
                      given={"returned": outs[0] if len(outs) == 1 else str(out_tree)},
                      fix="return (x, aux), or drop has_aux.")
        out_tree = treedef_children(out_tree)[0]
    if out_tree != tree:
        raise bad(caller, f"`{name}` returns a structure that differs from its argument's",
                  given=tree_mismatch("result", tree, out_tree), fix="return the containers of the argument.")
    wrong = {path: f"{out.str_short()}, expected {aval.str_short()}"
             for path, aval, out in zip(leaf_paths("result", tree), avals, outs[:len(avals)], strict=True)
             if not agree(aval, out)}
    if wrong:
        raise bad(caller, f"`{name}` returns types that differ from those of its argument", given=wrong,
                  fix="return arrays of the same shape and dtype; start from floats if the function computes floats.")
    return traced


def _same_kind(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether two types are equal apart from the width of the dtype."""
    return a.shape == b.shape and kind_of(a.dtype) == kind_of(b.dtype)


def _cast(values: Iterable[Any], avals: Iterable[ShapedArray]) -> list[Any]:
    """The values, converted to the dtypes of `avals`."""
    return [x if typeof(x).dtype == aval.dtype else convert_element_type(x, aval.dtype)
            for x, aval in zip(values, avals, strict=True)]


def _with_results(program: ClosedJaxpr, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The program with results converted to the dtypes of `avals`."""
    if all(out.dtype == aval.dtype for out, aval in zip(program.out_avals, avals, strict=True)):
        return program
    return trace_to_jaxpr(lambda *xs: _cast(program(*xs), avals), program.in_avals, _WHERE)


def _transposed(forward: TracedFunction, tree: PyTree) -> tuple[TracedFunction, Callable]:
    """The transpose of a traced linear map, as a program and as a function for the user's solver."""
    n = tree.num_leaves
    linear = (False,) * len(forward.consts) + (True,) * n
    try:
        program, own = hoist_consts(transpose_program(forward.program, linear, (True,) * n, True)[0])
    except (NotImplementedError, TypeError) as error:
        raise bad(_WHERE, "`matvec` is not linear", given=[str(error).partition("\n")[0]],
                  fix="pass a function x -> A x; for other functions use lax.custom_root.") from error
    consts = [*own, *forward.consts]

    def vecmat(x: PyTree) -> PyTree:
        leaves, x_tree = flatten(x)
        if x_tree != tree:
            raise bad(_WHERE, "`vecmat` is called with a structure that differs from that of `b`",
                      given=tree_mismatch("x", tree, x_tree), fix="pass a tree like `b`.")
        return tree_unflatten(tree, program(*consts, *_cast(leaves, program.in_avals[len(consts):])))

    return TracedFunction(program, consts, tree), vecmat


# -- rules --------------------------------------------------------------------------------------------------------

def _bind(programs: Sequence[ClosedJaxpr | None], consts: Sequence[Sequence[Any]], b: Sequence[Any]) -> list[Any]:
    """Bind programs that may have constants of their own, which come before `consts`."""
    hoisted = [(None, []) if p is None else hoist_consts(p) for p in programs]
    all_consts = [[*own, *others] for (_, own), others in zip(hoisted, consts, strict=True)]
    return linear_solve_p.bind(*[c for own in all_consts for c in own], *b,
                               const_lengths=LinearSolveTuple(*map(len, all_consts)),
                               jaxprs=LinearSolveTuple(*[p for p, _ in hoisted]))


def _split(args: Sequence[Any], const_lengths: LinearSolveTuple) -> tuple[LinearSolveTuple, list[Any]]:
    """Arguments as (constants of each program, b)."""
    parts, start = [], 0
    for count in const_lengths:
        parts.append(list(args[start:start + count]))
        start += count
    return LinearSolveTuple(*parts), list(args[start:])


def _type(*avals, const_lengths, jaxprs):
    return jaxprs.solve.out_avals


def _lower(b, outs, *args, const_lengths, jaxprs):
    consts, rhs = _split(args, const_lengths)
    return lower_call(b, jaxprs.solve, [*consts.solve, *rhs], "solve")


def _jvp(primals, tangents, *, const_lengths, jaxprs):
    outs = linear_solve_p.bind(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    consts, b = _split(primals, const_lengths)
    d_consts, rhs = _split(tangents, const_lengths)
    x, aux = outs[:len(b)], outs[len(b):]
    fixed = [Zero(typeof(v).tangent()) for v in x]
    _, moved = jvp_flat(jaxprs.matvec, [*consts.matvec, *_cast(x, map(typeof, b))], [*d_consts.matvec, *fixed])
    rhs = [db if type(m) is Zero else accumulate(db, neg(m)) for db, m in zip(rhs, moved, strict=True)]
    no_aux = [Zero(typeof(v).tangent()) for v in aux]
    if all(type(d) is Zero for d in rhs):
        return outs, [*fixed, *no_aux]
    return outs, [*_bind(jaxprs, consts, [instantiate(d) for d in rhs])[:len(b)], *no_aux]


def _transpose(cts, *args, const_lengths, jaxprs):
    consts, b = _split(args, const_lengths)
    if any(is_linear(c) for own in consts for c in own):
        raise bad(_WHERE, "the solution is not linear in values that `matvec` closes over, so it has no transpose with "
                  "respect to it", fix="transpose with respect to `b`, or use vjp.")
    if jaxprs.transpose_solve is None:
        raise bad(_WHERE, "reverse-mode differentiation needs a solver for the transposed system",
                  fix="pass transpose_solve=..., or symmetric=True if the matrix is symmetric.")
    avals = [x.aval if is_linear(x) else typeof(x) for x in b]
    solved = _bind(jaxprs.transposed(), consts.transposed(), _cast(map(instantiate, cts[:len(b)]), avals))
    return [None] * sum(const_lengths) + [ct if is_linear(x) else None
                                          for ct, x in zip(_cast(solved[:len(b)], avals), b, strict=True)]


def _batch(axis, args, bdims, *, const_lengths, jaxprs):
    """A leaf of b, and the same leaf of x, is mapped if b or a result of one of the four programs is."""
    consts, b = _split(args, const_lengths)
    const_dims, b_dims = _split(bdims, const_lengths)

    def programs(mapped: Flags) -> list[tuple | None]:
        return [p and batch_program(p, axis.mapped, (*dims, *front(mapped)),
                                    (*mapped, *[True] * (len(p.out_avals) - len(b))))
                for p, dims in zip(jaxprs, const_dims, strict=True)]

    def after(mapped: Flags) -> list[bool]:
        outs = [one[1][:len(b)] for one in programs(mapped) if one]
        return [any(d is not None for d in column) for column in zip(*outs, strict=True)]

    mapped = fixpoint([d is not None for d in b_dims], after)
    b = [place_axis(x, d, 0, axis.size) if m else x for x, d, m in zip(b, b_dims, mapped, strict=True)]
    outs = _bind([one and one[0] for one in programs(mapped)], consts, b)
    return outs, [*front(mapped), *[0] * (len(outs) - len(b))]


linear_solve_p = Primitive("custom_linear_solve", type_rule=_type, lower=_lower, jvp=_jvp, transpose=_transpose,
                           batch=_batch, multiple_results=True, vary=None, cacheable=False)
