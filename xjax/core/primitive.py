"""`Primitive`: one operation with all its rules as fields, and `bind`, the only way to apply it.

    sin_p = Primitive("sin", type_rule=..., lower=..., jvp=..., batch=...)

Rules (all see arrays by position and static data by keyword):

    type_rule(*avals, **params) -> aval                     (a tuple of avals with multiple_results)
    lower(b, out, *operands, **params) -> Value             (b: hlo.Builder, out: result aval; lists if multiple)
    lower_on={"cpu": rule, "gpu": rule}                     (as `lower`, for programs of these platforms alone; a rule
                                                             that returns None, and has written nothing, leaves it to
                                                             `lower`)
    jvp(primals, tangents, **params) -> (out, tangent)      (tangents may be Zero; the result may be Zero)
    transpose(ct, *args, **params) -> [ct or None, ...]     (linear args come as LinearInput; ct never is Zero for
                                                             one result; a list with Zeros with multiple_results)
    batch(axis, args, bdims, **params) -> (out, bdim)       (axis: batching.BatchAxis; a bdim is int or None)

and for operations that hold programs or Python functions, where the plain rules do not suffice:

    linearize(trace, primals, tangents, **params) -> (outs, tangents)
    evaluate(*args, **params) -> outs                       (run at the root instead of compiling one operation)
    stage(trace, args, params) -> outs                      (how a StagingTrace records it)
    effects(**params) -> frozenset of str                   (what it does besides computing its results: see `Effects`)
    prune(used, **params) -> Pruned                         (the operation without results that nobody reads)
    save(split, used, **params) -> Saving or None           (the operation in two, what a policy saves inside between)
    vary(vmas, **params) -> (one vma for each operand, one for the result or each result)
                                                            (along which mesh axes operands must, and results do, vary)

A rule that cannot exist is `Missing("why")`. Two derivatives are so common that they have a name: `jvp=ZERO` (zero on
purpose) and `jvp=LINEAR` (linear in the first argument: apply the operation to its tangent).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xjax.core.context import context
from xjax.core.errors import bad
from xjax.core.types import ShapedArray, Zero
from xjax.core.varying import infer_types, vary_together

# What an operation does besides computing its results. "debug": may run again on recomputation;
# "io": runs exactly once for each execution; "ordered": keeps program order among ordered operations.
Effects = frozenset[str]
NO_EFFECTS: Effects = frozenset()


class Missing:
    """A rule that does not exist, and why; calling it raises an error of class `exc` that says what to do instead."""

    __slots__ = ("why", "fix", "caller", "exc")

    def __init__(self, why: str, fix: str = "rewrite the function without this operation.", caller: str = "",
                 exc: type[Exception] = NotImplementedError):
        self.why, self.fix, self.caller, self.exc = why, fix, caller, exc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise bad(self.caller, self.why, fix=self.fix, exc=self.exc)


class ByProgram:
    """A `lower` rule for an operation on random keys: the program of `f(*args, **params)` is what is lowered."""

    __slots__ = ("f",)

    def __init__(self, f: Callable):
        self.f = f


class Calls(NamedTuple):
    """Marks a call primitive: its results are those of the program in `param`."""

    param: str              # the parameter that holds the program, or a function that does the same
    plain: bool = False     # nothing else is known of the call: its equations may be written in its place


RULES = ("type_rule", "lower", "jvp", "transpose", "batch")
_ALL_PRIMITIVES: dict[str, Primitive] = {}


class _Zero:
    def __repr__(self) -> str:
        return "ZERO"


class _Linear:
    def __repr__(self) -> str:
        return "LINEAR"


ZERO, LINEAR = _Zero(), _Linear()


class Primitive:
    """An operation that transforms know by its rules. See the module's text for their signatures."""

    __slots__ = ("name", "multiple_results", "type_rule", "lower", "lower_on", "jvp", "transpose", "batch",
                 "linearize", "evaluate", "stage", "split", "prune", "save", "effects", "axis_param", "calls", "vary",
                 "cacheable", "fused_with_caller", "fusible", "_types")

    def __init__(self, name: str, *, type_rule: Callable, lower: Callable | Missing | ByProgram,
                 jvp: Callable | Missing | _Zero | _Linear, transpose: Callable | Missing,
                 batch: Callable | Missing, lower_on: Mapping[str, Callable] | None = None,
                 multiple_results: bool = False, linearize: Callable | None = None,
                 evaluate: Callable | None = None, stage: Callable | None = None,
                 split: Callable | None = None, prune: Callable | None = None, save: Callable | None = None,
                 effects: Callable[..., Effects] | None = None,
                 axis_param: str | None = None, calls: Calls | None = None,
                 vary: Callable | None = vary_together, cacheable: bool = True,
                 fused_with_caller: bool = True, fusible: bool = False):
        self.name = name
        self.multiple_results = multiple_results
        self.type_rule, self.lower = type_rule, lower
        self.jvp = {ZERO: self._zero_jvp, LINEAR: self._linear_jvp}.get(jvp, jvp)
        self.transpose, self.batch = transpose, batch
        self.linearize, self.evaluate, self.stage, self.split = linearize, evaluate, stage, split
        self.prune = prune                  # None: it is run for all results, if one is read
        self.save = save                    # None: policies of checkpoint see it as one operation
        self.effects = effects              # None: it has none, but those of programs among its parameters
        self.axis_param = axis_param        # the parameter that names mapped axes, of a collective
        self.calls = calls
        self.vary = vary                    # None: its type rule says it, from the types of the programs that it holds
        self.cacheable = cacheable          # False: parameters hold programs or functions; no cache keeps them alive
        self.fused_with_caller = fused_with_caller      # False: on CPUs, XLA does not inline programs with it
        self.fusible = fusible              # XLA computes it in the loops that read it, without an array in memory
        self._types: dict[tuple, Any] = {}
        for rule in RULES:
            if isinstance(missing := getattr(self, rule), Missing):         # one object may serve many primitives
                setattr(self, rule, Missing(missing.why, missing.fix, f"{name} ({rule})", missing.exc))
        self.lower_on = dict(lower_on or {})
        if lower_on:
            self.lower = _by_platform(self.lower, self.lower_on)
        _ALL_PRIMITIVES[name] = self

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation: the current trace decides what that means."""
        return context.trace.process(self, args, params)

    def out_type(self, avals: tuple[ShapedArray, ...], params: dict) -> Any:
        """Result aval (tuple of avals with multiple_results), remembered per argument types and parameters."""
        if not self.cacheable:
            return self._infer(avals, params)
        key = (avals, *params.items()) if self.axis_param is None else (avals, context.axes, *params.items())
        try:
            found = self._types.get(key)
        except TypeError:                   # an unhashable parameter: nothing to remember
            return self._infer(avals, params)
        if found is None:
            found = self._types[key] = self._infer(avals, params)
        return found

    def _infer(self, avals: tuple[ShapedArray, ...], params: dict) -> Any:
        """`type_rule`, with what it need not know: along which mesh axes values vary."""
        if self.vary is None or (self.vary is vary_together and not any([a.vma for a in avals])):
            return self.type_rule(*avals, **params)
        return infer_types(self, avals, params)

    def _zero_jvp(self, primals, tangents, **params):
        out = self.bind(*primals, **params)
        if self.multiple_results:
            return out, [Zero(o.aval.tangent()) for o in out]
        return out, Zero(out.aval.tangent())

    def _linear_jvp(self, primals, tangents, **params):
        out = self.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return out, Zero(out.aval.tangent())
        return out, self.bind(tangents[0], *primals[1:], **params)

    def __repr__(self) -> str:
        return self.name


def _by_platform(general: Callable, own: Mapping[str, Callable]) -> Callable:
    """The `lower` rule that asks the one of the program's platform first, if there is one."""
    def lower(b: Any, out: Any, *operands: Any, **params: Any) -> Any:
        platform = b.module.platform
        if platform in own and (found := own[platform](b, out, *operands, **params)) is not None:
            return found
        return general(b, out, *operands, **params)
    return lower


def all_primitives() -> dict[str, Primitive]:
    """Every primitive defined so far, by name."""
    return dict(_ALL_PRIMITIVES)


def primitive_called(name: str) -> Primitive:
    return _ALL_PRIMITIVES[name]


def clear_type_caches() -> None:
    for p in _ALL_PRIMITIVES.values():
        p._types.clear()
