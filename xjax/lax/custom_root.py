"""`custom_root`: a zero of a function by the user's solver, differentiated by the implicit function theorem.

With ``f(p, x(p)) = 0`` for all p near the given one, ``dx = -(df/dx)^-1 (df/dp) dp``. The solver itself is not
differentiated.
"""

from __future__ import annotations

from collections.abc import Callable

from xjax.core.tree import tree_unflatten
from xjax.core.types import Zero, typeof
from xjax.lax.control import check_callable, flat_arrays
from xjax.lax.linear_solve import trace_map
from xjax.ops.elementwise import neg
from xjax.ops.zeros import instantiate
from xjax.transforms.autodiff import linearize
from xjax.transforms.custom_jvp import custom_jvp
from xjax.transforms.jvp import jvp_flat
from xjax.transforms.rule_functions import symbolic, unsymbolic
from xjax.transforms.trace_cache import TracedFunction
from xjax.typing import Array, ArrayLike, PyTree

_WHERE = "custom_root"


def custom_root(f: Callable, initial_guess: ArrayLike, solve: Callable, tangent_solve: Callable,
                has_aux: bool = False) -> PyTree:
    """``solve(f, initial_guess)``, with derivatives that follow from ``f(x) == 0`` (not checked).

    Args:
      f: function from trees like `initial_guess` to trees like it; derivatives flow to the values it closes over.
      initial_guess: tree of float arrays. For derivatives, the result does not depend on it.
      solve: `solve(f, initial_guess) -> x`. It need not be differentiable: `while_loop` is allowed.
      tangent_solve: `tangent_solve(g, y) -> x` with ``g(x) == y`` for a linear `g`, which is `f` linearized at the
        zero; for scalars ``lambda g, y: y / g(1.0)``. It must be linear in `y`.
      has_aux: `solve` returns (x, aux), where aux is any tree; aux has no derivative.

    Returns: x, or (x, aux).
    Raises: TypeError if the structure or the types of a result differ from those of the guess.

    >>> def newton(f, x):
    ...     return xjax.lax.fori_loop(0, 20, lambda i, x: x - f(x) / xjax.grad(f)(x), x)
    >>> root = lambda a: custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> round(float(root(4.0)), 4), round(float(xjax.grad(root)(4.0)), 4)
    (2.0, 0.25)
    """
    for name, g in (("f", f), ("solve", solve), ("tangent_solve", tangent_solve)):
        check_callable(_WHERE, name, g)
    guess, tree, avals = flat_arrays(_WHERE, "initial_guess", initial_guess)

    def solve_linearized(x: Array, y: Array) -> Array:
        return tangent_solve(linearize(f, x)[1], y)

    residual = trace_map(_WHERE, "f", f, tree, avals)
    solver = trace_map(_WHERE, "solve", lambda x: solve(f, x), tree, avals, has_aux)
    linear_solver = trace_map(_WHERE, "tangent_solve", solve_linearized, tree, avals, arguments=2)
    root = _with_implicit_rule(residual, solver, linear_solver, len(guess))
    return tree_unflatten(solver.out_tree, root(residual.consts, solver.consts, linear_solver.consts, guess))


def _with_implicit_rule(residual: TracedFunction, solver: TracedFunction, linear_solver: TracedFunction,
                        count: int) -> Callable:
    """The solver of traced functions, as a function of all values that they captured; `count`: leaves of a solution."""

    @custom_jvp
    def root(f_consts: list, solve_consts: list, tangent_consts: list, guess: list) -> list:
        return solver.program(*solve_consts, *guess)

    def rule(primals: tuple, tangents: tuple) -> tuple[list, list]:
        f_consts, _, tangent_consts, _ = primals
        outs = root(*primals)
        x = outs[:count]
        d_outs = [Zero(typeof(y).tangent()) for y in outs]
        _, moved = jvp_flat(residual.program, [*f_consts, *x], [*map(unsymbolic, tangents[0]), *d_outs[:count]])
        if any(type(m) is not Zero for m in moved):
            moved = linear_solver.program(*tangent_consts, *x, *map(instantiate, moved))
            d_outs[:count] = [neg(m) for m in moved]
        return outs, [symbolic(d) for d in d_outs]

    root.defjvp(rule, symbolic_zeros=True)
    return root
