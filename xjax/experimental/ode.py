"""`odeint`: the solution of ``dy/dt = func(y, t)`` with step lengths that adapt to the error.

The method is that of Dormand and Prince (1980), of order 5 with an error estimate of order 4 and Shampine's continuous
extension, as in SciPy's RK45. Reverse mode integrates the adjoint equation backwards (Pontryagin; Chen et al., 2018),
so it stores the solution at the requested times only, not at the steps between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.dtypes import is_inexact
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.tree import flatten, leaf_paths, tree_map, tree_mismatch, tree_structure, tree_unflatten
from xjax.core.types import typeof
from xjax.lax.control import check_callable, flat_arrays
from xjax.numpy.promote import library_rules, promote_inexact
from xjax.numpy.ravel_pytree import ravel_pytree
from xjax.ops.dot import Precision
from xjax.transforms.autodiff import vjp
from xjax.transforms.closure_convert import closure_convert
from xjax.transforms.custom_vjp import custom_vjp
from xjax.transforms.vmap import vmap
from xjax.typing import Array, ArrayLike, PyTree

__all__ = ["odeint"]

_CALLER = "odeint"

# A step evaluates the slope at y + size * (row of _STAGES . previous slopes), at these fractions of the step. The last
# stage is the result, and its slope is the first slope of the next step.
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_STAGES = np.array([
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0]])
_ERROR = np.array([-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40])
# Weights of the slopes at the fraction s of a step, as coefficients of s, s^2, s^3, s^4.
_INSIDE = np.array([
    [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
    [0, 0, 0, 0],
    [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
    [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
    [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
    [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
    [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423]])
_ORDER, _SAFETY, _SHRINK, _GROW = 5, 0.9, 0.2, 10.0


def odeint(func: Callable, y0: PyTree, t: ArrayLike, *args: PyTree, rtol: float = 1.4e-8, atol: float = 1.4e-8,
           mxstep: float = np.inf, hmax: float = np.inf) -> PyTree:
    """The solution of ``dy/dt = func(y, t, *args)`` with ``y(t[0]) = y0``, at the times `t`.

    Args:
      func: `func(y, t, *args)` returns a tree like `y0`. Reverse-mode derivatives exist with respect to `y0`, `t`,
        `args` and the arrays that `func` closes over.
      y0: tree of float or complex arrays.
      t: real[n], increasing.
      args: trees of arrays.
      rtol, atol: the root mean square over y of the error of a step, relative to ``atol + rtol * |y|``, is at most 1.
      mxstep: maximum number of steps between two times; hmax: maximum length of a step.
    Returns: tree like `y0` with a leading axis for the times; NaN where more steps were needed, or t decreases.
    Raises: TypeError unless `func` returns the structure and shapes of y0; ValueError unless t is [n], n > 0.

    >>> y = odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0]))
    >>> round(float(y[1]), 5)
    0.36788
    """
    check_callable(_CALLER, "func", func)
    (t,) = promote_inexact(_CALLER, jnp.asarray(t))
    if t.ndim != 1 or not t.size:
        raise bad(_CALLER, "`t` must be an array [n] of times", given={"t": typeof(t)}, exc=ValueError,
                  fix="pass the first time and the times of the solution.")
    leaves, tree, avals = flat_arrays(_CALLER, "y0", y0)
    if not leaves or not all(is_inexact(a.dtype) for a in avals):
        raise bad(_CALLER, "`y0` must be of floating-point or complex numbers",
                  given=dict(zip(leaf_paths("y0", tree), avals, strict=True)), fix="convert it with astype(float).")
    start, unravel = ravel_pytree(y0)

    def of_vectors(y: Array, t: Array, *args: PyTree) -> Array:
        slope = func(unravel(y), t, *args)
        _check_slope(slope, tree, avals)
        return ravel_pytree(slope)[0].astype(y.dtype)

    converted, captured = closure_convert(of_vectors, start, t[0], *args)
    options = _Options(rtol, atol, mxstep, hmax)
    return vmap(unravel)(_solution(converted, options, start, t, (*args, *captured)))


def _check_slope(slope: PyTree, tree: PyTree, avals: Sequence[Any]) -> None:
    if tree_structure(slope) != tree:
        raise bad(_CALLER, "`func` must return the structure of `y0`",
                  given=tree_mismatch("result", tree, tree_structure(slope)), fix="return a tree like y0.")
    results = [typeof(x) for x in flatten(slope)[0]]
    wrong = {path: f"{a.str_short()}, expected {b.str_short()}"
             for path, a, b in zip(leaf_paths("result", tree), results, avals, strict=True) if a.shape != b.shape}
    if wrong:
        raise bad(_CALLER, "`func` must return the shapes of `y0`", given=wrong, fix="return dy/dt, like y.")


class _Options(NamedTuple):
    rtol: float
    atol: float
    mxstep: float
    hmax: float


# -- forward ------------------------------------------------------------------------------------------------------

class _State(NamedTuple):
    """The point that the integration has reached, and the last step, for solutions at times inside of it."""

    y: Any
    slope: Any
    t: Any
    size: Any                           # size of the next step
    steps: Any
    y_before: Any
    t_before: Any
    slopes: Any                         # slopes at the stages of the last step, [7, n]


def _solve(func: Callable, options: _Options, y0: Array, ts: Array, args: tuple) -> Array:
    """The solution at `ts`, [len(ts), n]."""
    def slope(y: Array, t: Array) -> Array:
        return func(y, t, *args)

    def advance(s: _State, target: Array) -> tuple[_State, Any]:
        def cond(s: _State) -> Array:                     # the second condition ends the loop at NaN or a pole
            return (s.t < target) & (s.t + s.size > s.t) & library_rules(jnp.less)(s.steps, options.mxstep)

        s = lax.while_loop(cond, lambda s: _step(slope, options, s), s._replace(steps=np.int32(0)))
        inside = (s.t_before <= target) & (target <= s.t)
        return s, jnp.where(inside, _between(s, target), np.nan)

    first = slope(y0, ts[0])
    start = _State(y0, first, ts[0], _first_size(slope, options, y0, first, ts[0]), np.int32(0), y0, ts[0],
                   jnp.zeros((7, y0.size), y0.dtype))
    return jnp.concatenate([y0[None], lax.scan(advance, start, ts[1:])[1]])


def _step(slope: Callable, options: _Options, s: _State) -> _State:
    """The state after one more step; or, if its error is too large, the old state with a smaller step size."""
    size = jnp.minimum(s.size, options.hmax)
    h = _like(size, s.y)
    stages, times = _like(_STAGES, s.y), _TIMES.astype(s.t.dtype)

    def stage(i: Array, slopes: Array) -> Array:
        return slopes.at[i].set(slope(s.y + h * _dot(stages[i - 1], slopes), s.t + size * jnp.asarray(times)[i - 1]))

    slopes = lax.fori_loop(1, 7, stage, jnp.zeros((7, s.y.size), s.y.dtype).at[0].set(s.slope))
    y = s.y + h * _dot(stages[-1], slopes)
    ratio = _error(h * _dot(_like(_ERROR, s.y), slopes), s.y, y, options)
    next_size = size * _growth(ratio).astype(size.dtype)
    good = _State(y, slopes[-1], s.t + size, next_size, s.steps + 1, s.y, s.t, slopes)
    again = s._replace(size=next_size, steps=s.steps + 1)
    return tree_map(lambda a, b: jnp.where(ratio <= 1, a, b), good, again)


def _between(s: _State, t: Array) -> Array:
    """The solution at a time inside of the last step."""
    whole = s.t - s.t_before
    share = jnp.where(whole > 0, (t - s.t_before) / jnp.where(whole > 0, whole, 1), 0)
    weights = _dot(_like(_INSIDE, s.y), _like(share ** np.arange(1, 5, dtype=share.dtype), s.y))
    return s.y_before + _like(whole, s.y) * _dot(weights, s.slopes)


def _error(error: Array, y: Array, y_next: Array, options: _Options) -> Array:
    """Root mean square of an error relative to the tolerance."""
    tolerated = options.atol + options.rtol * jnp.maximum(jnp.abs(y), jnp.abs(y_next))
    return jnp.sqrt(jnp.mean(jnp.square(jnp.abs(error) / tolerated)))


def _growth(ratio: Array) -> Array:
    """The factor of the step size after a step whose error was `ratio` times the tolerance."""
    best = _SAFETY * jnp.where(ratio > 0, ratio, 1) ** (-1 / _ORDER)
    factor = jnp.clip(best, jnp.where(ratio < 1, 1.0, _SHRINK), _GROW)
    return jnp.where(ratio == 0, _GROW, jnp.where(jnp.isfinite(ratio), factor, _SHRINK))


def _first_size(slope: Callable, options: _Options, y: Array, first: Array, t: Array) -> Array:
    """Size of the first step, from the change of the slope over a tiny step (Hairer, Norsett and Wanner, II.4)."""
    scale = options.atol + options.rtol * jnp.abs(y)

    def size_of(x: Array) -> Array:
        return jnp.sqrt(jnp.mean(jnp.square(jnp.abs(x) / scale)))

    d0, d1 = size_of(y), size_of(first)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = jnp.where(small, 1e-6, 0.01 * d0 / jnp.where(small, 1, d1))
    d2 = size_of(slope(y + h0 * first, t + h0.astype(t.dtype)) - first) / h0
    largest = jnp.maximum(d1, d2)
    flat = largest <= 1e-15
    h1 = jnp.where(flat, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / jnp.where(flat, 1, largest)) ** (1 / _ORDER))
    return jnp.minimum(100 * h0, h1).astype(t.dtype)


def _like(x: ArrayLike, y: Array) -> Array:
    """Real numbers x in the precision of `y`."""
    return jnp.asarray(x, y.real.dtype)


def _dot(a: Array, b: Array) -> Array:
    return jnp.dot(a, b, precision=Precision.HIGHEST)


# -- backward -----------------------------------------------------------------------------------------------------

def _forward(func: Callable, options: _Options, y0: Array, ts: Array, args: tuple) -> tuple[Any, tuple]:
    ys = _solution(func, options, y0, ts, args)
    return ys, (options, ys, ts, args)


def _backward(func: Callable, saved: tuple, cts: Array) -> tuple[None, Any, Any, Any]:
    """Cotangents of start, times and arguments, by the adjoint equation from each time to the previous one.

    Its state is (y, cotangent of y, of the time, of the arguments); its time is s = -t.
    """
    options, ys, ts, args = saved
    leaves, tree = flatten(args)
    smooth = [is_inexact(typeof(x).dtype) for x in leaves]
    moving = [x for x, flag in zip(leaves, smooth, strict=True) if flag]

    def at(y: ArrayLike, t: ArrayLike, *values: ArrayLike) -> Array:
        new = iter(values)
        return func(y, t, *tree_unflatten(tree, [next(new) if f else x for x, f in zip(leaves, smooth, strict=True)]))

    state, unravel = ravel_pytree((ys[0], ys[0], ts[0], moving))

    def adjoint(flat: ArrayLike, s: ArrayLike, *values: ArrayLike) -> Any:
        y, ct, _, _ = unravel(flat)
        slope, pull = vjp(at, y, -s, *values)
        d_y, d_t, *d_values = pull(ct)
        return ravel_pytree((-slope, d_y, d_t, d_values))[0].astype(flat.dtype)

    adjoint, captured = closure_convert(adjoint, state, -ts[0], *moving)

    def to_previous(carry: tuple, row: tuple) -> tuple[tuple, Any]:
        ct, ct_start, ct_values = carry
        y, t, t_before, ct_y, ct_before = row
        ct_t = jnp.real(_dot(at(y, t, *moving), ct_y)).astype(t.dtype)
        state = ravel_pytree((y, ct, ct_start - ct_t, ct_values))[0]
        end = _solution(adjoint, options, state, jnp.stack([-t, -t_before]), (*moving, *captured))[1]
        _, ct, ct_start, ct_values = unravel(end)
        return (ct + ct_before, ct_start, ct_values), ct_t

    start = (cts[-1], jnp.zeros((), ts.dtype), [jnp.zeros_like(x) for x in moving])
    (ct, ct_start, ct_values), ct_ts = lax.scan(to_previous, start, (ys[1:], ts[1:], ts[:-1], cts[1:], cts[:-1]),
                                                reverse=True)
    cotangents = iter(ct_values)
    ct_args = tree_unflatten(tree, [next(cotangents) if flag else None for flag in smooth])
    return None, ct, jnp.concatenate([ct_start[None], ct_ts]), ct_args


_solution = custom_vjp(_solve, nondiff_argnums=0)
_solution.defvjp(_forward, _backward)

__getattr__ = attributes_of(__name__)
