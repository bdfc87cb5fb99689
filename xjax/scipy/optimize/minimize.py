"""`minimize`: chooses the method by name and returns its result in SciPy's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from xjax.core.dtypes import is_complex
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy import concatenate, where
from xjax.numpy.promote import promote_inexact
from xjax.scipy.optimize.quasi_newton import NO_STEP, Descent, Limits, bfgs, descend, lbfgs
from xjax.typing import Array, ArrayLike

_NAME = "scipy.optimize.minimize"
_LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


class OptimizeResults(NamedTuple):
    """Result of `minimize`.

    Attributes:
      x: the final point. success: whether the norm of the gradient at x is below `gtol`. fun, jac: value and gradient.
      status: 0 for success, else why the search ended. BFGS: 1 too many steps, 3 or 5 no step that descends enough, -1
        any other reason; L-BFGS: 1 too many steps, 2 values, 3 gradients, 4 no progress, 5 no step.
      hess_inv: estimated inverse of the Hessian, None for L-BFGS.
      nfev, njev, nit: numbers of evaluations of the value and of the gradient, and of steps.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(fun: Callable, x0: ArrayLike, args: tuple = (), *, method: str, tol: float | None = None,
             options: Mapping[str, Any] | None = None) -> OptimizeResults:
    """A local minimum of ``fun(x, *args)``, which must be differentiable; works under `jit` and `vmap`.

    Args:
      fun: function of float[n] to a real scalar.
      x0: float[n], the initial x (for L-BFGS also complex[n]).
      method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", as JAX calls it.
      tol: shorthand for the option `gtol`.
      options: gtol (1e-5: norm of the gradient below which the search ends), norm (inf: order of this norm), maxiter
        (200 n); BFGS: line_search_maxiter (10); L-BFGS: maxcor (10: steps remembered), ftol (2.2e-9: least decrease of
        the value), maxfun, maxgrad, maxls (20: trials of a line search). Defaults are in parentheses.
    Raises: ValueError for an unknown method or a shape other than [n], TypeError for unknown options.

    >>> result = minimize(lambda x, a: ((x - a) ** 2).sum(), jnp.zeros(2), (3.0,), method="BFGS")
    >>> result.x.tolist(), bool(result.success)
    ([3.0, 3.0], True)
    """
    (x0,) = promote_inexact(_NAME, x0)
    if not isinstance(args, tuple):
        raise bad(_NAME, "`args` must be a tuple", given={"args": type(args).__name__}, fix="write args=(a,).")
    if x0.ndim != 1:
        raise bad(_NAME, "`x0` must be an array [n]", given={"x0": typeof(x0)},
                  fix="pass x0.reshape(-1), and reshape x inside the function.", exc=ValueError)
    methods = {"bfgs": _bfgs, _LBFGS: _lbfgs}
    run = methods.get(method.lower())
    if run is None:
        raise bad(_NAME, f"unknown method {method!r}", fix="pass method='BFGS'.", exc=ValueError)
    method_options = dict(options or {})
    if tol is not None:
        method_options.setdefault("gtol", tol)
    return run(lambda x: fun(x, *args), x0, method_options)


def _limits(x0: ArrayLike, options: dict[str, Any], names: Mapping[str, str],
            defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Options under the names of the fields of `Limits`, or of the parameters of the method."""
    unknown = [name for name in options if name not in names]
    if unknown:
        raise bad(_NAME, f"unknown option {unknown[0]!r}", given={"options": ", ".join(names)},
                  fix="pass options of the method.")
    limits = {**defaults, **{names[name]: value for name, value in options.items()}}
    if all(limits.get(name) is None for name in ("maxiter", "maxfun", "maxgrad")):
        limits["maxiter"] = 200 * x0.size
    return limits


_COMMON = {name: name for name in ("maxiter", "norm", "gtol")}


def _bfgs(fun: Callable, x0: ArrayLike, options: dict[str, Any]) -> OptimizeResults:
    if is_complex(x0.dtype):
        raise bad(_NAME, "BFGS is for real numbers", given={"x0": typeof(x0)},
                  fix="minimize over the stacked real and imaginary parts.")
    limits = Limits(**_limits(x0, options, {**_COMMON, "line_search_maxiter": "line_search"}, {}))
    end = descend(fun, x0, bfgs(x0), limits)
    status = where(end.stopped == NO_STEP, 2 + end.line_search, where(end.stopped == 1, 1, -1))
    return _result(end, where(end.converged, 0, status), end.memory)


def _lbfgs(fun: Callable, x0: ArrayLike, options: dict[str, Any]) -> OptimizeResults:
    names = {**_COMMON, "ftol": "ftol", "maxfun": "maxfun", "maxgrad": "maxgrad", "maxls": "line_search",
             "maxcor": "length"}
    limits = _limits(x0, options, names, {"ftol": float(np.finfo(float).eps) * 1e7, "line_search": 20, "length": 10})
    length = limits.pop("length")
    if not is_complex(x0.dtype):
        end = descend(fun, x0, lbfgs(x0, length), Limits(**limits))
        return _result(end, where(end.converged, 0, end.stopped), None)
    n = x0.size

    def of_parts(v: Array) -> Array:
        return fun(v[:n] + 1j * v[n:])

    parts = concatenate([x0.real, x0.imag])
    end = descend(of_parts, parts, lbfgs(parts, length), Limits(**limits))
    result = _result(end, where(end.converged, 0, end.stopped), None)
    # As by `grad`, the gradient of a real function of complex numbers has a negated imaginary part.
    return result._replace(x=end.x[:n] + 1j * end.x[n:], jac=end.gradient[:n] - 1j * end.gradient[n:])


def _result(end: Descent, status: Array, hess_inv: Array | None) -> OptimizeResults:
    return OptimizeResults(end.x, end.converged, status, end.value, end.gradient, hess_inv, end.evaluations,
                           end.evaluations, end.steps)
