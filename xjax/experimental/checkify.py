"""Checks of values at run time, as results of pure functions: `jax.experimental.checkify`.

    def f(x, i):
        checkify.check(i >= 0, "the index {i} is negative", i=i)
        return jnp.log(x[i])

    error, y = jit(checkify.checkify(f, errors=checkify.all_checks))(x, i)
    error.throw()
"""

from xjax.checks.checkify import checkify
from xjax.checks.errors import (
    Error,
    ErrorCategory,
    JaxRuntimeError,
    all_checks,
    automatic_checks,
    div_checks,
    float_checks,
    index_checks,
    init_error,
    nan_checks,
    user_checks,
)
from xjax.checks.user_checks import check, check_error, debug_check
from xjax.core.public import attributes_of

__all__ = ["Error", "ErrorCategory", "JaxRuntimeError", "all_checks", "automatic_checks", "check", "check_error",
           "checkify", "debug_check", "div_checks", "float_checks", "index_checks", "init_error", "nan_checks",
           "user_checks"]

__getattr__ = attributes_of(__name__)
