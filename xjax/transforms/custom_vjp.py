"""`custom_vjp`: a function with a custom reverse-mode derivative rule.

Differentiation runs `fwd` in the parent, and records one equation, `custom_lin`, in the tangent program. Its operands
include the residuals, and it holds `bwd`. Its only rule is the transpose, which calls `bwd`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xjax.core import dtypes
from xjax.core.calls import function_name, merge_args, split_args
from xjax.core.context import context
from xjax.core.errors import UnexpectedTracerError, bad
from xjax.core.lowering import lower_call
from xjax.core.primitive import Calls, Missing, Primitive
from xjax.core.staging import StagingTrace, hoist_consts, trace_to_jaxpr
from xjax.core.trace import Tracer
from xjax.core.tree import (
    PyTreeDef,
    flatten,
    flatten_axes,
    leaf_paths,
    tree_map,
    tree_mismatch,
    tree_unflatten,
    treedef_children,
)
from xjax.core.types import Zero, typeof
from xjax.ops.zeros import instantiate
from xjax.transforms.batching import BatchAxis, batch_flat, without_axis
from xjax.transforms.refs import Ref, can_use, has_refs, refuse_aliases
from xjax.transforms.rule_functions import (
    FunctionWithRule,
    PrimalFunction,
    as_arrays,
    batched_call,
    call_rule,
    check_closure,
    check_like,
    closed_over,
    fit_cotangent,
    fit_vma,
    open_axis,
    positional_arguments,
    symbolic,
    unsymbolic,
    wide_cotangent,
)
from xjax.typing import ArrayLike, PyTree


class custom_vjp(FunctionWithRule):
    """A function whose reverse-mode derivative is defined by `defvjp(fwd, bwd)`.

    Args:
      nondiff_argnums, nondiff_argnames: arguments that are passed unchanged: to `fwd` at their positions, to `bwd`
        before the others. They must be known values, such as functions.

    >>> @xjax.custom_vjp
    ... def f(x):
    ...     return x * 2.0
    >>> f.defvjp(lambda x: (f(x), None), lambda residuals, ct: (10.0 * ct,))
    >>> float(xjax.grad(f)(3.0))
    10.0
    """

    transform = "custom_vjp"

    def __init__(self, fun: Callable, nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd, self.bwd, self.symbolic_zeros, self.optimize_remat = None, None, False, False

    def defvjp(self, fwd: Callable, bwd: Callable, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Set the rule: `fwd(*args) -> (value, residuals)`, `bwd(*nondiff, residuals, ct) -> tuple of cotangents`.

        `bwd` returns one cotangent (or None for zero) for each differentiable argument; None for a ref. A ref among
        the residuals is one of the arguments, so that `bwd` can write to it.

        Args:
          symbolic_zeros: `fwd` receives a `CustomVJPPrimal` (value, perturbed) for each leaf of its arguments. `bwd`
            receives a `SymbolicZero` for each cotangent that is zero, and may return them.
          optimize_remat: under `checkpoint`, run the function itself in the forward pass, and `fwd` only in the
            backward pass. This is always done here; the option has no effect.
        Raises: NotImplementedError for symbolic_zeros and optimize_remat together, as in JAX.
        """
        if symbolic_zeros and optimize_remat:
            raise bad(f"{self._caller}.defvjp", "symbolic_zeros and optimize_remat cannot be combined",
                      fix="leave optimize_remat out: `checkpoint` always runs the function itself in the forward pass.",
                      exc=NotImplementedError)
        self.fwd, self.bwd, self.symbolic_zeros, self.optimize_remat = fwd, bwd, symbolic_zeros, optimize_remat

    def __call__(self, *args: object, **kwargs: object) -> PyTree:
        rule, back = self.fwd, self.bwd
        if rule is None or back is None:
            raise bad(self._caller, "has no derivative rule", fix="define one with f.defvjp(fwd, bwd).",
                      exc=AttributeError)
        args = positional_arguments(self.fun, args, kwargs, self._caller)
        static = self._static_positions(len(args))
        nums = tuple(i for i in range(len(args)) if i not in static)
        chosen, rest = split_args(args, nums)
        self._check_static(rest)
        leaves, tree = flatten(chosen)
        count = len(args)
        flat = PrimalFunction(lambda *xs: self.fun(*merge_args(xs, rest, nums, count)), tree, self._caller)
        fwd = _Forward(lambda *xs: rule(*merge_args(xs, rest, nums, count)), flat, tree, self.symbolic_zeros,
                       function_name(rule))
        given = {i: x for i, x in enumerate(leaves) if type(x) is Ref} if has_refs(leaves) else {}
        avals = [given[i].ref_type.inner_aval if i in given else typeof(x) for i, x in enumerate(leaves)]
        bwd = _Backward(functools.partial(back, *rest), flat, tree, avals, self.symbolic_zeros, function_name(back))
        primal = flat
        if given:
            refuse_aliases(self._caller, leaves)
            primal, fwd, bwd = _without_refs(given, len(leaves), flat, fwd, bwd)
            leaves = [x for i, x in enumerate(leaves) if i not in given]
        outs = custom_vjp_call_p.bind(*leaves, name=function_name(self.fun), call_jaxpr=primal, fwd=fwd, bwd=bwd,
                                      symbolic_zeros=self.symbolic_zeros)
        return tree_unflatten(flat.out_tree, outs)

    def _check_static(self, values: Sequence[Any]) -> None:
        for x in flatten(values)[0]:
            if isinstance(x, Tracer):
                raise bad(self._caller, "a traced value was passed in a position of nondiff_argnums",
                          given={"value": f"{x.aval.str_short()}, {x.origin()}"},
                          fix="remove the position from nondiff_argnums and return None as its cotangent; "
                              "nondiff_argnums is for functions and other known values.", exc=UnexpectedTracerError)


@dataclasses.dataclass(slots=True)
class CustomVJPPrimal:
    """An argument of `fwd` under `symbolic_zeros`: its value, and whether it is being differentiated."""

    value: Any
    perturbed: bool


def custom_vjp_primal_tree_values(tree: PyTree) -> PyTree:
    """The arguments of `fwd` under `symbolic_zeros`, with each `CustomVJPPrimal` replaced by its value."""
    def value(leaf: CustomVJPPrimal) -> ArrayLike:
        if type(leaf) is not CustomVJPPrimal:
            raise bad("custom_vjp_primal_tree_values", f"a leaf of type {type(leaf).__name__} is not a CustomVJPPrimal",
                      fix="pass arguments of a `fwd` that was set with symbolic_zeros=True.")
        return leaf.value
    return tree_map(value, tree)


class _Forward:
    """`fwd` on flat lists: (result leaves, residual leaves, structure of the residuals)."""

    def __init__(self, fwd: Callable, flat: PrimalFunction, in_tree: PyTreeDef, symbolic_zeros: bool, name: str):
        self.fwd, self.flat, self.in_tree, self.symbolic_zeros = fwd, flat, in_tree, symbolic_zeros
        self.__name__ = name

    def __call__(self, perturbed: Sequence[bool], *leaves: ArrayLike) -> tuple[list[Any], list[Any], Any]:
        primals = leaves if not self.symbolic_zeros else [
            CustomVJPPrimal(x, flag) for x, flag in zip(leaves, perturbed, strict=True)]
        out = call_rule(self.flat.caller, self.fwd, *tree_unflatten(self.in_tree, primals))
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise bad(self.flat.caller, "`fwd` must return a pair (value, residuals)",
                      given={"returned": f"{type(out).__name__} {out!r:.60}"}, fix="return f(x), residuals.")
        outs, out_tree = flatten(out[0])
        self.flat.take_value(self.__name__, outs, out_tree)
        residuals, tree = flatten(out[1])
        for x in residuals:
            if type(x) is Ref and x not in leaves:
                raise bad(self.flat.caller, "`fwd` returned a ref that is not one of its arguments",
                          given={"ref": x.ref_type.str_short()}, fix="pass the ref as an argument of the function.",
                          exc=ValueError)
        structure = ResidualTree(tree, tuple(x if type(x) in _UNCHANGED else _ARRAY for x in residuals))
        return outs, [x for x in residuals if type(x) not in _UNCHANGED], structure


def _without_refs(given: dict[int, Ref], count: int, flat: Callable, fwd: _Forward,
                  bwd: _Backward) -> tuple[Callable, Callable, Callable]:
    """Function and rules of `count` leaves, of which `given` are refs, as functions of the other leaves."""
    def merged(arrays: Sequence[Any], fill: Any = None) -> list[Any]:
        rest = iter(arrays)
        return [(given[i] if fill is None else fill) if i in given else next(rest) for i in range(count)]

    def primal(*arrays: ArrayLike) -> list[Any]:
        return flat(*merged(arrays))

    def forward(perturbed: Sequence[bool], *arrays: ArrayLike) -> tuple[list[Any], list[Any], Any]:
        for ref in given.values():
            if not can_use(ref):
                raise bad(fwd.flat.caller, "its rules use a ref, but the function is part of a jitted function, loop "
                          "or branch that is differentiated from outside", given={"ref": ref.ref_type.str_short()},
                          fix="differentiate inside: jit(grad(f)) instead of grad(jit(f)).", exc=NotImplementedError)
        return fwd(merged(perturbed, False), *merged(arrays))

    def backward(tree: ResidualTree, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        in_cts = bwd(tree, residuals, cts)
        return [ct for i, ct in enumerate(in_cts) if i not in given]

    return primal, _named(forward, fwd), _named(backward, bwd)


_UNCHANGED = (bool, int, float, complex, Ref)
_ARRAY = object()


class ResidualTree(NamedTuple):
    """Structure of the residuals. It contains Python numbers (`x.perturbed`) and refs, which `bwd` gets unchanged."""

    tree: Any
    leaves: tuple                   # for each leaf, a Python number, a ref or _ARRAY

    @property
    def num_leaves(self) -> int:
        return sum(x is _ARRAY for x in self.leaves)

    def unflatten(self, arrays: Sequence[Any]) -> PyTree:
        remaining = iter(arrays)
        return tree_unflatten(self.tree, [next(remaining) if x is _ARRAY else x for x in self.leaves])


class _Backward:
    """`bwd` on flat lists; it checks the result of `bwd` against the arguments."""

    def __init__(self, bwd: Callable, flat: PrimalFunction, in_tree: PyTreeDef, in_avals: Sequence[Any],
                 symbolic_zeros: bool, name: str):
        self.bwd, self.flat, self.in_tree, self.in_avals = bwd, flat, in_tree, in_avals
        self.symbolic_zeros, self.__name__ = symbolic_zeros, name

    def __call__(self, residual_tree: ResidualTree, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        caller = self.flat.caller
        cts = as_arrays([symbolic(ct) if self.symbolic_zeros else instantiate(ct) for ct in cts])
        out = call_rule(caller, self.bwd, residual_tree.unflatten(residuals), tree_unflatten(self.flat.out_tree, cts))
        trees, avals = treedef_children(self.in_tree), iter(self.in_avals)
        if not isinstance(out, (tuple, list)) or len(out) != len(trees):
            raise bad(caller, f"the backward rule must return a tuple of {len(trees)} cotangents, one for each "
                      "argument", given={"returned": f"{type(out).__name__} of {len(out)}"
                                         if isinstance(out, (tuple, list)) else type(out).__name__},
                      fix=f"return ({', '.join(f'ct{k}' for k in range(len(trees)))}"
                          f"{',' * (len(trees) == 1)}); None means zero.")
        in_cts = []
        for k, (ct_arg, tree) in enumerate(zip(out, trees, strict=True)):
            in_cts += self._argument(k, ct_arg, tree, [next(avals).tangent() for _ in range(tree.num_leaves)])
        return in_cts

    def _argument(self, k: int, ct: PyTree, tree: PyTreeDef, avals: Sequence[Any]) -> list[Any]:
        """Cotangents of the leaves of argument `k`, which have these types."""
        caller = self.flat.caller
        leaves, given = flatten(ct)
        if given != tree:                       # None is allowed for a whole subtree
            try:
                leaves = flatten_axes(caller, tree, ct)
            except ValueError:
                raise bad(caller, f"the structure of the cotangent for argument {k} from the backward rule differs "
                          "from that of the argument", given=tree_mismatch("cotangent", tree, ct),
                          fix="return a tree with the argument's structure; None means zero.") from None
        cts = [Zero(a) if x is None or a.dtype == dtypes.float0 else x for x, a in zip(leaves, avals, strict=True)]
        cts = [wide_cotangent(x, a) for x, a in zip(cts, avals, strict=True)]
        check_like(caller, "cotangent", lambda: leaf_paths(f" of argument {k}", tree), cts, avals,
                   fix="return cotangents with the shape and dtype of the arguments.")
        cts = [unsymbolic(x) for x in cts]
        if context.axes:
            cts = [fit_vma(caller, "cotangent", x, a.vma, total=True) for x, a in zip(cts, avals, strict=True)]
        return cts


# -- the primitive of the call ------------------------------------------------------------------------------------
# `call_jaxpr` is a flat function: the user's function in a call from Python, a ClosedJaxpr after staging.

def _evaluate(*args, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    outs = call_jaxpr(*args)
    check_closure(f"custom_vjp `{name}`", outs)
    return outs


def _type(*avals, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    return call_jaxpr.out_avals


def _stage(trace: StagingTrace, args, params):
    caller = f"custom_vjp `{params['name']}`"
    closed, consts = hoist_consts(trace_to_jaxpr(params["call_jaxpr"], [typeof(x) for x in args], caller))
    check_closure(caller, consts)
    fwd, bwd = params["fwd"], params["bwd"]
    if consts:
        fwd, bwd = _without_consts(fwd, bwd, len(consts), caller)
    params = {**params, "call_jaxpr": closed, "fwd": _on_arrays(fwd), "bwd": bwd}
    return trace.record(custom_vjp_call_p, [*consts, *args], params)


def _on_arrays(fwd: Callable) -> Callable:
    return _named(lambda perturbed, *xs: fwd(perturbed, *as_arrays(xs)), fwd)


def _without_consts(fwd: Callable, bwd: Callable, count: int, caller: str) -> tuple[Callable, Callable]:
    """The rules for a staged call whose first `count` arguments are values that the function captured."""
    def forward(perturbed: Sequence[bool], *xs: ArrayLike) -> tuple[list[Any], list[Any], Any]:
        if any(perturbed[:count]):
            raise closed_over(caller)
        return fwd(perturbed[count:], *xs[count:])

    def backward(tree: PyTree, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        return [None] * count + list(bwd(tree, residuals, cts))

    return _named(forward, fwd), _named(backward, bwd)


def _named(f: Callable, like: Callable) -> Callable:
    f.__name__ = getattr(like, "__name__", "rule")
    return f


def _jvp(primals, tangents, *, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    active = tuple(type(dx) is not Zero for dx in tangents)
    outs, residuals, tree = fwd(active, *primals)
    out_avals = tuple(typeof(y).tangent() for y in outs)
    douts = custom_lin_p.bind(*residuals, *[dx for dx in tangents if type(dx) is not Zero], name=name, bwd=bwd,
                              residual_tree=tree, active=active, out_avals=out_avals)
    return outs, [Zero(a) if a.dtype == dtypes.float0 else dy for dy, a in zip(douts, out_avals, strict=True)]


def _batch(axis, args, bdims, *, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    def batched_fwd(perturbed: Sequence[bool], *xs: ArrayLike) -> tuple[list[Any], list[Any], Any]:
        tree, count = None, 0

        def run(*inner: ArrayLike) -> list[Any]:
            nonlocal tree, count
            outs, residuals, tree = fwd(perturbed, *inner)
            count = len(outs)
            return [*outs, *residuals]

        flat = batched_call(run, axis, bdims)(*xs)
        return flat[:count], flat[count:], tree

    outs = custom_vjp_call_p.bind(*args, name=name, call_jaxpr=batched_call(call_jaxpr, axis, bdims),
                                  fwd=_named(batched_fwd, fwd), bwd=_named(_batched_backward(bwd, axis, bdims), bwd),
                                  symbolic_zeros=symbolic_zeros)
    return outs, [0] * len(outs)


def _batched_backward(bwd: Callable, axis: BatchAxis, bdims: Sequence[int | None]) -> Callable:
    """`bwd` on residuals and cotangents that are mapped at axis 0; arguments are mapped at `bdims`."""
    def batched(tree: PyTree, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        n, zero_cts, zeros = len(residuals), [type(ct) is Zero for ct in cts], []

        def run(*inner: ArrayLike) -> list[Any]:
            nonzeros = iter(inner[n:])
            element = [Zero(without_axis(ct.aval, 0)) if zero else next(nonzeros)
                       for ct, zero in zip(cts, zero_cts, strict=True)]
            in_cts = bwd(tree, inner[:n], element)
            zeros[:] = [type(ct) is Zero or ct is None for ct in in_cts]
            return [ct for ct, zero in zip(in_cts, zeros, strict=True) if not zero]

        flat = [*residuals, *[ct for ct, zero in zip(cts, zero_cts, strict=True) if not zero]]
        values, dims = batch_flat(run, open_axis(axis), flat, [0] * len(flat))
        wanted = [b for b, zero in zip(bdims, zeros, strict=True) if not zero]
        nonzeros = iter([fit_cotangent(ct, d, b, axis.size) for ct, d, b in zip(values, dims, wanted, strict=True)])
        return [None if zero else next(nonzeros) for zero in zeros]

    return batched


def _lower(b, outs, *args, name, call_jaxpr, fwd, bwd, symbolic_zeros):
    return lower_call(b, call_jaxpr, args, name)


custom_vjp_call_p = Primitive(
    "custom_vjp_call", type_rule=_type, lower=_lower, jvp=_jvp, batch=_batch, evaluate=_evaluate, stage=_stage,
    transpose=Missing("a derivative rule applied a function with a custom_vjp rule to a tangent; only linear "
                      "operations can be applied to tangents"), multiple_results=True, calls=Calls("call_jaxpr"),
    vary=None, cacheable=False)


# -- its derivative, which exists only to be transposed -----------------------------------------------------------

_FORWARD_MODE = Missing("forward-mode differentiation (jvp, jacfwd, hessian) of a function with a custom_vjp rule",
                        fix="use reverse mode (grad, vjp, jacrev), or give the function a custom_jvp rule.",
                        exc=TypeError)


def _lin_type(*avals, name, bwd, residual_tree, active, out_avals):
    return out_avals


def _lin_evaluate(*args, name, **params):
    raise bad(f"custom_vjp `{name}`", _FORWARD_MODE.why, fix=_FORWARD_MODE.fix)


def _lin_transpose(cts, *args, name, bwd, residual_tree, active, out_avals):
    n = residual_tree.num_leaves
    in_cts = bwd(residual_tree, args[:n], cts)
    return [None] * n + [ct for ct, flag in zip(in_cts, active, strict=True) if flag]


custom_lin_p = Primitive("custom_lin", type_rule=_lin_type, lower=_FORWARD_MODE, jvp=_FORWARD_MODE,
                         batch=_FORWARD_MODE, transpose=_lin_transpose, evaluate=_lin_evaluate, multiple_results=True,
                         vary=None, cacheable=False, transposes_zeros=True)
