"""`checkify`: a function with the result of its checks as an additional result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from xjax.checks.automatic import AUTOMATIC_RULES
from xjax.checks.errors import Error, ErrorCategory, user_checks
from xjax.checks.programs import PROGRAM_RULES
from xjax.checks.recorder import Plan, Recorder, evaluate, states
from xjax.checks.user_checks import check_p, record_check
from xjax.core.calls import api_boundary, check_callable, function_name
from xjax.core.errors import bad
from xjax.core.staging import trace_to_jaxpr
from xjax.core.tree import flatten, tree_unflatten
from xjax.typing import PyTree


def checkify(f: Callable, errors: frozenset[ErrorCategory] = user_checks) -> Callable[..., tuple[Error, PyTree]]:
    """A function ``(*args) -> (error, f(*args))``, whose first result is the check that failed first, if any.

    It can be transformed further: ``jit(checkify(f))``, ``vmap(checkify(f))``. `error.get()` is the message or None,
    `error.throw()` raises JaxRuntimeError with the line of the check.

    Args:
      errors: the checks to make, a union of these sets.
        `user_checks`: calls of `check` and `debug_check`; `nan_checks`: operations that return a NaN; `div_checks`:
        divisions by zero; `index_checks`: indices outside of the array; `float_checks`, `automatic_checks`,
        `all_checks`: unions of these.

    Raises: TypeError if `f` is not callable, or `errors` is not a set of categories.

    >>> from xjax.experimental.checkify import div_checks
    >>> error, y = checkify(lambda x: 1 / x, errors=div_checks)(jnp.float32(0))
    >>> error.get()
    'division by zero'
    """
    check_callable("checkify", f)
    plan = plan_of(_categories(errors))

    @functools.wraps(f)
    @api_boundary
    def checked(*args: object, **kwargs: object) -> tuple[Error, PyTree]:
        tree: Any = None

        def flat() -> list[Any]:
            nonlocal tree
            leaves, tree = flatten(f(*args, **kwargs))
            return leaves

        # The arguments are constants of the program, so Python control flow on known values works.
        closed = trace_to_jaxpr(flat, (), f"checkify of `{function_name(f)}`")
        recorder = Recorder(plan)
        outs = evaluate(recorder, closed, ())
        state = states(recorder.kinds, recorder.leaves())
        return Error(recorder.kinds, tuple(recorder.sites), state), tree_unflatten(tree, outs)

    return checked


@functools.cache
def plan_of(categories: frozenset[ErrorCategory]) -> Plan:
    """The plan with the checks of these categories."""
    automatic = {p: rule for p, of in AUTOMATIC_RULES.items() if (rule := of(categories)) is not None}
    return Plan({**automatic, **PROGRAM_RULES, check_p: record_check}, categories)


def _categories(errors: Iterable[ErrorCategory]) -> frozenset[ErrorCategory]:
    try:
        return frozenset(errors)
    except TypeError:
        raise bad("checkify", "`errors` must be a set of categories", {"errors": repr(errors)[:80]},
                  "pass a set such as checkify.user_checks, or a union of sets.") from None
