"""`minimize`: the methods by name, and their result as SciPy gives it."""

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

_NAME = "scipy.optimize.minimize"
_LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


class OptimizeResults(NamedTuple):
    """What `minimize` found.

    x: the place. success: whether the gradient vanishes there. fun, jac: value and gradient.
    status: 0 if so, else what ended the search. BFGS: 1 too many steps, 3 or 5 no step that descends enough, -1
      anything else; L-BFGS: 1 too many steps, 2 values, 3 gradients, 4 no progress, 5 no step.
    hess_inv: estimated inverse of the Hessian, None for L-BFGS.
    nfev, njev, nit: evaluations of value and gradient, and steps.
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


def minimize(fun: Callable, x0: Any, args: tuple = (), *, method: str, tol: float | None = None,
             options: Mapping[str, Any] | None = None) -> OptimizeResults:
    """A local minimum of ``fun(x, *args)``, which must be differentiable; works under `jit` and `vmap`.

    Args:
      fun: function of float[n] to a real scalar.
      x0: float[n], where to start (complex[n] for L-BFGS).
      method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", as JAX calls it.
      tol: shorthand for the option `gtol`.
      options: gtol (the search ends where a norm of the gradient is less: 1e-5), norm (which: inf), maxiter (200 n);
        BFGS: line_search_maxiter (10); L-BFGS: maxcor (10, steps remembered), ftol (2.2e-9, least decrease), maxfun,
        maxgrad, maxls (20).
    Raises: ValueError for an unknown method or a shape other than [n], TypeError for unknown options.

    >>> found = minimize(lambda x, a: ((x - a) ** 2).sum(), jnp.zeros(2), (3.0,), method="BFGS")
    >>> found.x.tolist(), bool(found.success)
    ([3.0, 3.0], True)
    """
    (x0,) = promote_inexact(_NAME, x0)
    if not isinstance(args, tuple):
        raise bad(_NAME, "`args` must be a tuple", given={"args": type(args).__name__}, fix="write args=(a,).")
    if x0.ndim != 1:
        raise bad(_NAME, "`x0` must be an array [n]", given={"x0": typeof(x0)},
                  fix="reshape it with x0.reshape(-1), and back in the function.", exc=ValueError)
    methods = {"bfgs": _bfgs, _LBFGS: _lbfgs}
    run = methods.get(method.lower())
    if run is None:
        raise bad(_NAME, f"unknown method {method!r}", fix="pass method='BFGS'.", exc=ValueError)
    given = dict(options or {})
    if tol is not None:
        given.setdefault("gtol", tol)
    return run(lambda x: fun(x, *args), x0, given)


def _limits(x0: Any, options: dict[str, Any], names: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Options under the names of `Limits` (or of the method)."""
    unknown = [name for name in options if name not in names]
    if unknown:
        raise bad(_NAME, f"unknown option {unknown[0]!r}", given={"options": ", ".join(names)},
                  fix="pass options of the method.")
    found = {**defaults, **{names[name]: value for name, value in options.items()}}
    if all(found.get(name) is None for name in ("maxiter", "maxfun", "maxgrad")):
        found["maxiter"] = 200 * x0.size
    return found


_COMMON = {name: name for name in ("maxiter", "norm", "gtol")}


def _bfgs(fun: Callable, x0: Any, options: dict[str, Any]) -> OptimizeResults:
    if is_complex(x0.dtype):
        raise bad(_NAME, "BFGS is for real numbers", given={"x0": typeof(x0)},
                  fix="minimize over the real and the imaginary part, stacked.")
    limits = Limits(**_limits(x0, options, {**_COMMON, "line_search_maxiter": "line_search"}, {}))
    end = descend(fun, x0, bfgs(x0), limits)
    status = where(end.stopped == NO_STEP, 2 + end.line_search, where(end.stopped == 1, 1, -1))
    return _result(end, where(end.converged, 0, status), end.memory)


def _lbfgs(fun: Callable, x0: Any, options: dict[str, Any]) -> OptimizeResults:
    names = {**_COMMON, "ftol": "ftol", "maxfun": "maxfun", "maxgrad": "maxgrad", "maxls": "line_search",
             "maxcor": "length"}
    found = _limits(x0, options, names, {"ftol": float(np.finfo(float).eps) * 1e7, "line_search": 20, "length": 10})
    length = found.pop("length")
    if not is_complex(x0.dtype):
        end = descend(fun, x0, lbfgs(x0, length), Limits(**found))
        return _result(end, where(end.converged, 0, end.stopped), None)
    n = x0.size

    def of_parts(v: Any) -> Any:
        return fun(v[:n] + 1j * v[n:])

    parts = concatenate([x0.real, x0.imag])
    end = descend(of_parts, parts, lbfgs(parts, length), Limits(**found))
    result = _result(end, where(end.converged, 0, end.stopped), None)
    # The gradient of a real function of complex numbers has, as `grad` has it, the imaginary part with a minus.
    return result._replace(x=end.x[:n] + 1j * end.x[n:], jac=end.gradient[:n] - 1j * end.gradient[n:])


def _result(end: Descent, status: Any, hess_inv: Any) -> OptimizeResults:
    return OptimizeResults(end.x, end.converged, status, end.value, end.gradient, hess_inv, end.evaluations,
                           end.evaluations, end.steps)
