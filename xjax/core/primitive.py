"""`Primitive`: an operation with all its rules as fields, and `bind`, the only way to apply it.

    sin_p = Primitive("sin", type_rule=..., lower=..., jvp=..., batch=...)

Rules; all receive arrays by position and static data by keyword:

- `type_rule(*avals, **params) -> aval`: a tuple of avals with `multiple_results`.
- `lower(b, out, *operands, **params) -> Value`: `b` is the `hlo.Builder`, `out` the aval of the result. With
  `multiple_results`, `out` and the return value are lists.
- `lower_on={"cpu": rule, "gpu": rule}`: as `lower`, for programs of these platforms only. A rule that returns None
  must not have written anything; `lower` is called instead.
- `jvp(primals, tangents, **params) -> (out, tangent)`: tangents and the result may be Zero.
- `transpose(ct, *args, **params) -> [ct or None, ...]`: linear arguments are LinearInput. `ct` is not Zero for a single
  result; with `multiple_results` it is a list, which may contain Zeros.
- `batch(axis, args, bdims, **params) -> (out, bdim)`: `axis` is a `batching.BatchAxis`; a bdim is an int or None.

Further rules, for operations that hold programs or Python functions and need more than these:

- `linearize(trace, primals, tangents, **params) -> (outs, tangents)`.
- `evaluate(*args, **params) -> outs`: runs at the root instead of the compiled operation.
- `stage(trace, args, params) -> outs`: records the operation in a StagingTrace.
- `effects(**params) -> frozenset of str`: see `Effects`.
- `prune(used, **params) -> Pruned`: the operation without its unused results.
- `save(split, used, **params) -> Saving or None`: the operation as two operations; values inside that a policy saves
  are results of the first and operands of the second.
- `vary(vmas, **params) -> (one vma for each operand, one for the result or each result)`: the mesh axes along which
  operands must vary, and results do vary.

A rule that cannot exist is `Missing("why")`. Two common derivatives have names: `jvp=ZERO` (zero on purpose) and
`jvp=LINEAR` (linear in the first argument: apply the operation to its tangent).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from xjax.core.context import context, current_trace
from xjax.core.errors import bad
from xjax.core.types import ShapedArray, Zero
from xjax.core.varying import infer_types, vary_together
from xjax.typing import ArrayLike

if TYPE_CHECKING:
    from xjax.core.trace import Trace

# The effects of an operation besides computing its results. "debug": may run again on recomputation;
# "io": runs exactly once for each execution; "ordered": keeps program order among ordered operations.
Effects = frozenset[str]
NO_EFFECTS: Effects = frozenset()


class Missing:
    """A rule that does not exist; a call raises an error of class `exc` with the reason `why` and the advice `fix`."""

    __slots__ = ("why", "fix", "caller", "exc")

    def __init__(self, why: str, fix: str = "rewrite the function without this operation.", caller: str = "",
                 exc: type[Exception] = NotImplementedError):
        self.why, self.fix, self.caller, self.exc = why, fix, caller, exc

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise bad(self.caller, self.why, fix=self.fix, exc=self.exc)


class ByProgram:
    """A `lower` rule for an operation on random keys: the program of `f(*args, **params)` is lowered instead."""

    __slots__ = ("f",)

    def __init__(self, f: Callable):
        self.f = f


class Calls(NamedTuple):
    """Marks a call primitive: its results are those of the program in `param`."""

    param: str              # the parameter that holds the program, or a function that computes the same
    plain: bool = False     # the call has no further meaning: the equations of the program may replace it


RULES = ("type_rule", "lower", "jvp", "transpose", "batch")
_ALL_PRIMITIVES: dict[str, Primitive] = {}


class _Zero:
    def __repr__(self) -> str:
        return "ZERO"


class _Linear:
    def __repr__(self) -> str:
        return "LINEAR"


ZERO, LINEAR = _Zero(), _Linear()
JVPRule = Callable | Missing | _Zero | _Linear


class Primitive:
    """An operation, which transforms interpret by its rules. The signatures are in the docstring of the module."""

    __slots__ = ("name", "multiple_results", "type_rule", "lower", "lower_on", "jvp", "transpose", "batch",
                 "linearize", "evaluate", "stage", "split", "prune", "save", "effects", "axis_param", "calls", "vary",
                 "cacheable", "fused_with_caller", "fusible", "transposes_zeros", "_types")

    # Attributes that libraries of JAX read or set.
    call_primitive = map_primitive = False

    def __init__(self, name: str, *, type_rule: Callable, lower: Callable | Missing | ByProgram,
                 jvp: JVPRule, transpose: Callable | Missing,
                 batch: Callable | Missing, lower_on: Mapping[str, Callable] | None = None,
                 multiple_results: bool = False, linearize: Callable | None = None,
                 evaluate: Callable | None = None, stage: Callable | None = None,
                 split: Callable | None = None, prune: Callable | None = None, save: Callable | None = None,
                 effects: Callable[..., Effects] | None = None,
                 axis_param: str | None = None, calls: Calls | None = None,
                 vary: Callable | None = vary_together, cacheable: bool = True,
                 fused_with_caller: bool = True, fusible: bool = False, transposes_zeros: bool = False):
        self.name = name
        self.multiple_results = multiple_results
        self.type_rule, self.lower = type_rule, lower
        self.jvp = {ZERO: self._zero_jvp, LINEAR: self._linear_jvp}.get(jvp, jvp)
        self.transpose, self.batch = transpose, batch
        self.linearize, self.evaluate, self.stage, self.split = linearize, evaluate, stage, split
        self.prune = prune                  # None: all results are computed if one is used
        self.save = save                    # None: policies of checkpoint treat it as one operation
        self.effects = effects              # None: it has only the effects of programs among its parameters
        self.axis_param = axis_param        # the parameter that names mapped axes, of a collective
        self.calls = calls
        self.vary = vary                    # None: its type rule infers this, from the types of its programs
        self.cacheable = cacheable          # False: parameters hold programs or functions; no cache keeps them alive
        self.fused_with_caller = fused_with_caller      # False: on CPUs, XLA does not inline programs with it
        self.fusible = fusible              # XLA fuses it into the loops that use its result
        self.transposes_zeros = transposes_zeros    # its transpose may return cotangents where it gets only zeros
        self._types: dict[tuple, Any] = {}
        for rule in RULES:
            if isinstance(missing := getattr(self, rule), Missing):         # one object may serve several primitives
                setattr(self, rule, Missing(missing.why, missing.fix, f"{name} ({rule})", missing.exc))
        self.lower_on = dict(lower_on or {})
        if lower_on:
            self.lower = _by_platform(self.lower, self.lower_on)
        self._register()

    def _register(self) -> None:
        _ALL_PRIMITIVES[self.name] = self

    def bind(self, *args: ArrayLike, **params: object) -> Any:
        """Apply the operation: the current trace interprets it."""
        return context.trace.process(self, args, params)

    def bind_with_trace(self, trace: Trace, args: Sequence[ArrayLike], avals: Sequence[ShapedArray],
                        params: Mapping[str, Any]) -> Any:
        """Apply the operation: `trace` interprets it.  Args: avals: the types of `args`, as in JAX; not needed here."""
        with current_trace(trace):
            return trace.process(self, tuple(args), dict(params))

    def get_bind_params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of `bind` for the parameters of an equation: the parameters themselves.

        In JAX they differ for some operations, so programs that evaluate equations call this method.
        """
        return dict(params)

    def out_type(self, avals: tuple[ShapedArray, ...], params: dict) -> Any:
        """Aval of the result (a tuple of avals with multiple_results), cached by argument types and parameters."""
        if not self.cacheable:
            return self._infer(avals, params)
        key = (avals, *params.items()) if self.axis_param is None else (avals, context.axes, *params.items())
        try:
            cached = self._types.get(key)
        except TypeError:                   # an unhashable parameter: not cached
            return self._infer(avals, params)
        if cached is None:
            cached = self._types[key] = self._infer(avals, params)
        return cached

    def _infer(self, avals: tuple[ShapedArray, ...], params: dict) -> Any:
        """The result of `type_rule`, with the mesh axes along which values vary, which the rule does not compute."""
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
    """The `lower` rule that first calls the rule of the program's platform, if there is one."""
    def lower(b: Any, out: Any, *operands: object, **params: object) -> Any:
        platform = b.module.platform
        if platform in own and (written := own[platform](b, out, *operands, **params)) is not None:
            return written
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
