"""`check` and `check_error`: checks that the user writes, and their operation.

    check[debug=False kinds=... sites=...] a b

The operands are the state of an `Error`. Eagerly, the operation raises an error. A checked program records its state; a
program that is not checked cannot be compiled with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.checks.errors import NO_FAILURE, Error, FailedCheckError, Kind, Site, raised, set_throw
from xjax.checks.programs import one_of
from xjax.checks.recorder import Recorder, states
from xjax.core.context import context
from xjax.core.errors import bad, location_text, user_location
from xjax.core.jaxpr import Eqn
from xjax.core.primitive import Primitive
from xjax.core.tree import flatten
from xjax.core.types import typeof
from xjax.core.varying import vary_apart
from xjax.ops.bitwise import bitwise_not
from xjax.ops.compare import select_n
from xjax.transforms.batching import place_axis
from xjax.typing import Array, ArrayLike, PyTree


def check(pred: ArrayLike, msg: str, *fmt_args: PyTree, debug: bool = False, **fmt_kwargs: PyTree) -> None:
    """Check that `pred` is true when the program runs.

    Called eagerly, it raises the error itself. In a program that is compiled (`jit`, `scan`, `pmap`), it must be
    inside of `checkify`.

    Args:
      pred: bool[].
      msg: the message, with fields for the values: ``"x is {}, y is {y}"``.
      fmt_args, fmt_kwargs: trees of arrays, the values in the message.
      debug: outside of `checkify`, do nothing.

    Raises: TypeError if `pred` is not a bool scalar, or a value is not an array; JaxRuntimeError, eagerly, if `pred` is
      False; ValueError if it is compiled outside of `checkify`.

    >>> def f(x):
    ...     check(x > 0, "{x} is not positive", x=x)
    ...     return xjax.numpy.log(x)
    >>> error, y = xjax.jit(xjax.experimental.checkify.checkify(f))(-3.0)
    >>> error.get()
    '-3.0 is not positive (`check` failed)'
    """
    _check("checkify.debug_check" if debug else "checkify.check", pred, msg, debug, fmt_args, fmt_kwargs)


def debug_check(pred: ArrayLike, msg: str, *fmt_args: PyTree, **fmt_kwargs: PyTree) -> None:
    """As `check`, but it does nothing outside of `checkify`."""
    _check("checkify.debug_check", pred, msg, True, fmt_args, fmt_kwargs)


def _check(caller: str, pred: ArrayLike, msg: str, debug: bool, args: tuple, kwargs: dict) -> None:
    if not (isinstance(pred, (bool, np.bool_)) or (
            isinstance(pred, Array) and pred.shape == () and pred.dtype == np.dtype(bool))):
        raise bad(caller, "takes a scalar pred as argument", {"pred": pred},
                  "compare, and reduce arrays with .all(), as in check((x > 0).all(), ...).")
    payload, tree = flatten((args, kwargs))
    for x in payload:
        if not isinstance(x, (Array, np.ndarray)):
            raise bad(caller, "Formatting arguments to checkify.check need to be PyTrees of arrays",
                      {"value": f"{x!r:.80} of type {type(x).__name__}"},
                      "write a Python value into the message by an f-string; convert numbers with numpy.asarray.")
    kind = Kind(FailedCheckError, tuple([typeof(x).strong() for x in payload]))
    site = Site(kind, context.source or user_location(), (msg, tree))
    failed = bitwise_not(pred) if isinstance(pred, Array) else np.bool_(not pred)
    code = select_n(failed, np.int32(NO_FAILURE), np.int32(0))
    check_p.bind(code, *payload, kinds=(kind,), sites=(site,), debug=debug)


def check_error(error: Error) -> None:
    """Raise an error if a check of `error` failed: the inverse of `checkify`, which may be applied again around it.

    Raises: TypeError if `error` is not an Error, else as `check`.

    >>> from xjax.experimental.checkify import checkify
    >>> error, _ = xjax.jit(checkify(lambda x: check(x < 1, "too large")))(0.5)
    >>> check_error(error)
    """
    if not isinstance(error, Error):
        raise bad("checkify.check_error", "check_error takes an Error as argument", {"got": type(error).__name__},
                  "pass the first result of a checked function.")
    kinds, sites = error._kinds, error._sites
    leaves = flatten([(code, *payload) for code, payload in error._state])[0]
    if not leaves:
        return
    for axes in range(max(typeof(code).ndim for code, _ in error._state), 0, -1):
        leaves = [x for code, payload in states(kinds, leaves) for x in (
            one_of(code, payload) if typeof(code).ndim == axes else (code, *payload))]
    check_p.bind(*leaves, kinds=kinds, sites=sites, debug=False)


set_throw(check_error)


# -- the operation ------------------------------------------------------------------------------------------------

def _evaluate(*args, kinds, sites, debug):
    if not debug and (error := Error(kinds, sites, states(kinds, args)).get_exception()) is not None:
        raise raised(error)
    return []


def _lower(b, outs, *args, kinds, sites, debug):
    if not debug:
        lines = [location_text(site.source) for site in sites if site.source is not None]
        raise bad("checkify.check", "Cannot abstractly evaluate a checkify.check which was not functionalized: a check "
                  "was compiled (jit, scan, pmap, ...) outside of checkify", {"line": ", ".join(lines) or "unknown"},
                  "compile the checked function: error, y = jax.jit(checkify.checkify(f))(x), then error.throw(); or "
                  "use checkify.debug_check.", ValueError)
    return []


def _batch(axis, args, bdims, *, kinds, sites, debug):
    rows = [place_axis(x, d, 0, axis.size) for x, d in zip(args, bdims, strict=True)]
    leaves = itertools.chain.from_iterable(one_of(code, payload) for code, payload in states(kinds, rows))
    check_p.bind(*leaves, kinds=kinds, sites=sites, debug=debug)
    return [], []


check_p = Primitive(
    "check", type_rule=lambda *avals, **params: (), lower=_lower, evaluate=_evaluate, batch=_batch,
    jvp=lambda primals, tangents, **params: (check_p.bind(*primals, **params), []),
    transpose=lambda cts, *args, **params: [None] * len(args),          # it has no output
    effects=lambda **params: frozenset(("debug",)), multiple_results=True, vary=vary_apart, cacheable=False)


def record_check(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
    """The rule of `check` in a checked program; checks of other categories than those of the plan are dropped."""
    kinds, sites = eqn.params["kinds"], eqn.params["sites"]
    chosen = [i for i, kind in enumerate(kinds) if kind.category in recorder.plan.categories]
    state = states(kinds, args)
    recorder.include([kinds[i] for i in chosen], sites, [x for i in chosen for x in (state[i][0], *state[i][1])])
    return []
