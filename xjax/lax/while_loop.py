"""`while_loop`: repeat a function while a condition holds.

    c:f32[] = while[body_jaxpr={...} body_nconsts=1 cond_jaxpr={...} cond_nconsts=1] cond consts, body consts, carry

The number of iterations is known only after the loop, so no memory can be allocated for residuals: forward mode works,
reverse mode does not. Under `vmap` with a condition that differs between elements, the condition is a vector. The loop
then continues while any entry is true, and finished elements keep their values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import api_boundary, function_name
from xjax.core.config import config
from xjax.core.context import current_trace
from xjax.core.errors import bad
from xjax.core.flags import Flags, flagged, merge, nonzero_flags, unflagged
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Var, program_cache
from xjax.core.lowering import lower_closed
from xjax.core.primitive import Primitive
from xjax.core.staging import hoist_consts
from xjax.core.tree import tree_map, tree_unflatten, treedef_tuple
from xjax.core.types import ShapedArray, typeof, with_zeros
from xjax.lax.control import (
    LoopWords,
    check_callable,
    check_carry,
    check_carry_structure,
    dependent_outputs,
    fixpoint,
    flat_arrays,
    independent_part,
    instantiated,
    is_known,
    promote,
    promoted_types,
    refuse_collectives,
    refuse_io,
    takes,
)
from xjax.lax.in_place import updating_in_place
from xjax.lax.scan_rules import rows_before_loop
from xjax.ops.pvary import cast_outputs
from xjax.runtime.arrays.moves import to_array
from xjax.transforms.batching import batch_program, place_axis
from xjax.transforms.jvp import jvp_program
from xjax.transforms.refs import NO_REFS, Ref, Uses, read
from xjax.transforms.trace_cache import TracedFunction, remember, trace_function
from xjax.typing import Array, ArrayLike, PyTree


@api_boundary
@takes(cond_fun=("val",), body_fun=("val",))
def while_loop(cond_fun: Callable, body_fun: Callable, init_val: PyTree) -> PyTree:
    """``val = init_val; while cond_fun(val): val = body_fun(val)``, compiled as one loop.

    Args:
      cond_fun: `cond_fun(val) -> bool[]`.
      body_fun: `body_fun(val) -> val`; the result has the structure, shapes and dtypes of `val`. Both functions are
        traced once.
      init_val: tree of arrays.

    Returns: the last `val`.
    Raises: TypeError if the condition is not a bool scalar, or the body changes the type of the carry; ValueError in
      reverse-mode differentiation: use `scan`, or `fori_loop` with bounds known while tracing. Forward-mode derivatives
      (jvp, jacfwd) work.

    >>> int(while_loop(lambda n: n < 100, lambda n: 2 * n, 1))
    128
    """
    check_callable("while_loop", "cond_fun", cond_fun)
    check_callable("while_loop", "body_fun", body_fun)
    leaves, tree, avals = flat_arrays("while_loop", "init_val", init_val)
    if config.disable_jit:
        val = tree_map(_as_array, init_val)
        while is_known(condition := cond_fun(val)):
            if not condition:
                return val
            val = tree_map(_as_array, body_fun(val))
        # A traced condition needs a staged loop.
    return bind_loop(LoopWords("while_loop", body_fun, carry=(0, 1, "val")), body_fun, cond_fun, leaves, tree, avals)


def _as_array(x: ArrayLike) -> Array:
    return x if hasattr(x, "aval") else to_array(x)             # pyright: ignore[reportReturnType]


def bind_loop(words: LoopWords, body_fun: Callable, cond_fun: Callable, leaves: Sequence[Any], tree: PyTree,
              avals: Sequence[ShapedArray]) -> PyTree:
    """Trace condition and body, cached on these functions, and bind the loop."""
    caller = words.caller
    while True:
        body = remember(body_fun, (caller, tree, tuple(avals)),
                        functools.partial(_trace_body, words, body_fun, tree, avals))
        leaves = promote(leaves, body.carry)
        avals = [typeof(x) for x in leaves]
        test = remember(cond_fun, (caller, "condition", tree, tuple(avals)),
                        functools.partial(_trace_condition, caller, cond_fun, tree, avals))
        condition = test.results[0]
        if all(condition.vma <= a.vma for a in avals):
            for program in (test.program, body.program) if condition.vma else ():
                refuse_collectives(caller, program, condition.vma, "the condition")
            break
        # Devices that leave the loop after different numbers of iterations have different values.
        avals = [a.update(vma=a.vma | condition.vma) for a in avals]
        leaves = promote(leaves, avals)
    if test.uses is not None or body.uses is not None:
        return tree_unflatten(tree, _bind_with_refs(caller, test, body, leaves))
    outs = while_p.bind(*test.consts, *body.consts, *leaves, cond_jaxpr=test.program, cond_nconsts=len(test.consts),
                        body_jaxpr=body.program, body_nconsts=len(body.consts))
    return tree_unflatten(tree, outs)


class _Body(NamedTuple):
    program: ClosedJaxpr
    consts: list[Any]
    carry: list[ShapedArray]
    uses: Uses | None


def _bind_with_refs(caller: str, test: TracedFunction, body: _Body, leaves: Sequence[Any]) -> list[Any]:
    """The loop, if condition or body use refs: values of refs that the body writes are part of the carry."""
    tests, uses = test.uses or NO_REFS, body.uses or NO_REFS
    if tests.written:
        raise bad(caller, "the condition writes a ref", {"ref": tests.changed[0].ref_type.str_short()},
                  "write it in the body.", exc=NotImplementedError)
    constant = [ref for ref in tests.outer if ref not in uses.changed]
    condition = _with_carried_refs(test.program, len(test.consts), tests.outer, uses.changed,
                                   body.program.out_avals[:uses.written])
    values = uses.values(caller, leaves)
    outs = while_p.bind(*test.consts, *map(read, constant), *body.consts, *values, cond_jaxpr=condition,
                        cond_nconsts=len(test.consts) + len(constant), body_jaxpr=body.program,
                        body_nconsts=len(body.consts) + len(uses.read_only))
    return uses.store(outs, leaves)


@program_cache
def _with_carried_refs(test: ClosedJaxpr, count: int, outer: tuple[Ref, ...], carried: tuple[Ref, ...],
                       avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """A condition on (`count` constants, `outer`, carry), on the refs in `carried` at the start of its carry."""
    j = test.jaxpr
    own = dict(zip(outer, j.invars[count:], strict=False))
    constant = [v for ref, v in own.items() if ref not in carried]
    moved = [own.get(ref) or Var(a) for ref, a in zip(carried, avals, strict=True)]
    return ClosedJaxpr(Jaxpr((), [*j.invars[:count], *constant, *moved, *j.invars[count + len(outer):]], j.eqns,
                             j.outvars))


def _trace_body(words: LoopWords, f: Callable, tree: PyTree, avals: Sequence[ShapedArray]) -> tuple[_Body, list[Any]]:
    names, carry = [f"argument `{path}`" for path in words.carry_paths(tree)], list(avals)
    while True:
        traced = trace_function(f, treedef_tuple((tree,)), carry, f"{words.caller} `{words.body_name}`",
                                arg_names=names, refs=True)
        check_carry_structure(words, tree, traced.out_tree)
        wanted = promoted_types(carry, traced.results)
        if wanted == carry:
            break
        carry = wanted
    refs = traced.carried_types
    program = cast_outputs(traced.program, tuple([a.vma for a in (*refs, *carry)]))
    check_carry(words, tree, carry, program.out_avals[len(refs):])
    return _Body(program, traced.consts, carry, traced.uses), traced.captured


def _trace_condition(caller: str, f: Callable, tree: PyTree,
                     avals: Sequence[ShapedArray]) -> tuple[TracedFunction, list]:
    name = function_name(f)
    traced = trace_function(f, treedef_tuple((tree,)), avals, f"{caller} `{name}`", refs=True)
    outs = traced.results
    single = traced.out_tree.num_nodes == len(outs) == 1
    if not single or outs[0].shape or not dtypes.is_bool(outs[0].dtype):
        raise bad(caller, f"`{name}` must return one bool scalar",
                  given={"returned": outs[0].str_short() if single else str(traced.out_tree)},
                  fix="compare, as in `x < limit`, and reduce arrays with .any() or .all().")
    return traced, traced.captured


# -- rules --------------------------------------------------------------------------------------------------------

def _split(args: Sequence[Any], cond_nconsts: int, body_nconsts: int) -> tuple[list, list, list]:
    """Arguments as (constants of the condition, constants of the body, carry)."""
    n = cond_nconsts + body_nconsts
    return list(args[:cond_nconsts]), list(args[cond_nconsts:n]), list(args[n:])


def _bind(test: ClosedJaxpr, test_consts: Sequence[Any], body: ClosedJaxpr, body_consts: Sequence[Any],
          carry: Sequence[Any]) -> list[Any]:
    test, own_test = hoist_consts(test)
    body, own_body = hoist_consts(body)
    return while_p.bind(*own_test, *test_consts, *own_body, *body_consts, *carry, cond_jaxpr=test, body_jaxpr=body,
                        cond_nconsts=len(own_test) + len(test_consts), body_nconsts=len(own_body) + len(body_consts))


def _type(*avals, cond_jaxpr, cond_nconsts, body_jaxpr, body_nconsts):
    return body_jaxpr.out_avals


def _lower(b: Builder, outs, *args, cond_jaxpr, cond_nconsts, body_jaxpr, body_nconsts):
    n = cond_nconsts + body_nconsts
    body_jaxpr = updating_in_place(body_jaxpr, body_nconsts, len(outs))
    taken = rows_before_loop(b, body_jaxpr, args[cond_nconsts:n])
    m = n + len(taken.rows)

    def test(inner: Builder, values: Sequence[Value]) -> Value:
        return lower_closed(inner, cond_jaxpr, [*values[:cond_nconsts], *values[m:]])[0]

    def cond(inner: Builder, *values: Value) -> list[Value]:
        return [_any(inner, test(inner, values))]

    def body(inner: Builder, *values: Value) -> list[Value]:
        taken.enter(inner, values[cond_nconsts:n], values[n:m])
        after = lower_closed(inner, body_jaxpr, [*values[cond_nconsts:n], *values[m:]])
        if cond_jaxpr.out_avals[0].shape:
            active = test(inner, values)
            after = [inner.select(_repeated(inner, active, new.aval), new, old)
                     for new, old in zip(after, values[m:], strict=True)]
        return [*values[:m], *after]

    return b.while_loop([*args[:n], *taken.rows, *args[n:]], cond, body)[m:]


def _any(b: Builder, flags: Value) -> Value:
    """Whether any entry of a bool array is true."""
    if not flags.aval.shape:
        return flags
    one = ShapedArray((), np.bool_)
    return b.op(f"stablehlo.reduce({flags} init: {b.constant(False, one)}) applies stablehlo.or across dimensions = "
                f"{list(range(flags.aval.ndim))} : ({flags.type}, {tensor_type(one)}) -> {tensor_type(one)}", one)


def _repeated(b: Builder, flags: Value, like: ShapedArray) -> Value:
    """A condition with one entry for each mapped element, repeated to the shape of a carried value."""
    return b.broadcast(flags, ShapedArray(like.shape, np.bool_), range(flags.aval.ndim))


def _jvp(primals, tangents, *, cond_jaxpr, cond_nconsts, body_jaxpr, body_nconsts):
    test_consts, consts, carry = _split(primals, cond_nconsts, body_nconsts)
    _, d_consts, d_carry = _split(tangents, cond_nconsts, body_nconsts)
    body, nonzero = _jvp_body(body_jaxpr, body_nconsts, nonzero_flags([*d_consts, *d_carry]))
    active = nonzero[body_nconsts:]
    test = _with_unused_inputs(cond_jaxpr, flagged(body_jaxpr.in_avals[body_nconsts:], active))
    results = _bind(test, test_consts, body, [*consts, *instantiated(d_consts, nonzero[:body_nconsts])],
                    [*carry, *instantiated(d_carry, active)])
    n = len(carry)
    return results[:n], with_zeros(active, results[n:], body_jaxpr.out_avals)


@program_cache
def _jvp_body(body: ClosedJaxpr, nconsts: int, nonzero: Flags) -> tuple[ClosedJaxpr, Flags]:
    """The body for (constants, their tangents, carry, its tangents), and which inputs have a tangent."""
    consts = nonzero[:nconsts]
    carry = fixpoint(nonzero[nconsts:], lambda c: jvp_program(body, (*consts, *c), c)[1])
    program, _ = jvp_program(body, (*consts, *carry), carry)
    j, n, m = program.jaxpr, len(body.in_avals), consts.count(True)
    order = [*j.invars[:nconsts], *j.invars[n:n + m], *j.invars[nconsts:n], *j.invars[n + m:]]
    return ClosedJaxpr(Jaxpr(j.constvars, order, j.eqns, j.outvars), program.consts), (*consts, *carry)


def _with_unused_inputs(test: ClosedJaxpr, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    return _widened(test, tuple(a.tangent() for a in avals))


@program_cache
def _widened(test: ClosedJaxpr, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    j = test.jaxpr
    return ClosedJaxpr(Jaxpr((), [*j.invars, *map(Var, avals)], j.eqns, j.outvars))


def _linearize(trace, primals, tangents, **params):
    """Run the loop; the tangent program gets a loop over values and tangents, which runs the loop again."""
    refuse_io("while_loop", (params["cond_jaxpr"], params["body_jaxpr"]), "a loop that is linearized",
              "use lax.scan, or lax.fori_loop with Python ints as bounds.")
    outs = while_p.bind(*primals, **params)
    with current_trace(trace.tangent):
        _, douts = _jvp(primals, tangents, **params)
    return outs, douts


def _split_by_tangents(trace, args, params):
    """A loop on tangents, from a derivative rule that calls `while_loop`.

    Carried values without tangents, such as a counter, are computed by the parent trace. The tangent program gets the
    whole loop, because it needs these values in every iteration.
    """
    body, test = params["body_jaxpr"], params["cond_jaxpr"]
    sizes = params["cond_nconsts"], params["body_nconsts"]
    test_consts, consts, carry = _split(args, *sizes)
    test_flags, flags, start = _split([trace.is_tangent(x) for x in args], *sizes)
    active = fixpoint(start, lambda c: dependent_outputs(body, (*flags, *c)))
    if any(dependent_outputs(test, (*test_flags, *active))):
        active = (True,) * len(carry)
    with current_trace(trace.tangent):
        outs = while_p.bind(*args, **params)
    if all(active):
        return outs
    known = _bind(independent_part(test, (*test_flags, *active), (False,)), unflagged(test_consts, test_flags),
                  independent_part(body, (*flags, *active), active), unflagged(consts, flags),
                  unflagged(carry, active))
    return merge(active, flagged(outs, active), known)


def _transpose(cts, *args, **params):
    raise bad("while_loop", "reverse-mode differentiation (grad, vjp, jacrev) of a loop whose number of iterations is "
              "not known while tracing", fix="use lax.scan, or lax.fori_loop with Python ints as bounds; or use "
              "forward mode (jvp, jacfwd).", exc=ValueError)


def _batch(axis, args, bdims, *, cond_jaxpr, cond_nconsts, body_jaxpr, body_nconsts):
    test_consts, consts, carry = _split(args, cond_nconsts, body_nconsts)
    test_dims, dims, carry_dims = _split(bdims, cond_nconsts, body_nconsts)

    # If a condition has axes, they are the first axes of all carried values. A condition that depends on the new axis
    # gets it as its first axis, and so do all carried values; else the new axis follows the axes of the condition.
    def positions(mapped: Flags, at: int) -> tuple[int | None, ...]:
        return tuple(at if m else None for m in mapped)

    def body(mapped: Flags, at: int) -> tuple[ClosedJaxpr, tuple]:
        return batch_program(body_jaxpr, axis.mapped, (*dims, *positions(mapped, at)), mapped, at)

    def test(mapped: Flags, at: int, force: bool) -> tuple[ClosedJaxpr, tuple]:
        return batch_program(cond_jaxpr, axis.mapped, (*test_dims, *positions(mapped, at)), force)

    at = len(cond_jaxpr.out_avals[0].shape)
    mapped = fixpoint([b is not None for b in carry_dims], lambda m: [b is not None for b in body(m, at)[1]])
    differs = test(mapped, at, False)[1][0] is not None
    if differs:
        refuse_io("while_loop", (cond_jaxpr, body_jaxpr), "a loop whose number of iterations differs under vmap",
                  "use lax.map in place of vmap.")
        mapped, at = (True,) * len(carry), 0
    carry = [place_axis(x, b, at, axis.size) if m else x for x, b, m in zip(carry, carry_dims, mapped, strict=True)]
    outs = _bind(test(mapped, at, differs)[0], test_consts, body(mapped, at)[0], consts, carry)
    return outs, list(positions(mapped, at))


while_p = Primitive("while", type_rule=_type, lower=_lower, jvp=_jvp, transpose=_transpose, batch=_batch,
                    linearize=_linearize, split=_split_by_tangents, multiple_results=True, vary=None, cacheable=False)
