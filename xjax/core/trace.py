"""`Trace`, an interpreter of operations, and `Tracer`, a value inside one.

Invariants: a rule runs with the parent trace as the current trace; a trace treats a tracer with another `tag` as a
constant, which rules out perturbation confusion; a closed trace raises errors.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex

import numpy as np

from xjax.core import errors
from xjax.core.array_type import Array
from xjax.core.other_names import attribute_elsewhere
from xjax.core.types import ShapedArray

if TYPE_CHECKING:
    from xjax.core.primitive import Primitive


class Tag:
    """Identity of an interpretation. Tracers refer to the tag, not to the trace, so that a trace may be re-entered."""

    __slots__ = ("caller", "closed", "source", "trace")

    on_close: ClassVar[Callable[[Tag], None] | None] = None     # called when a tag is closed; set by `core.leaks`

    def __init__(self, caller: str):
        self.caller = caller          # "jit `loss`", "grad": for error messages
        self.closed = False
        self.trace: weakref.ref[Trace] | None = None        # the first trace of this tag
        self.source = errors.user_location()

    def __str__(self) -> str:
        line = errors.location_text(self.source)
        return f"{self.caller} called at {line}" if line else self.caller

    def close(self) -> None:
        """End the interpretation; tracers that outlive it have escaped."""
        if not self.closed:
            self.closed = True
            if Tag.on_close is not None:
                Tag.on_close(self)


class Trace:
    """An interpreter. `parent` interprets the operations that its rules bind; its own tracers have its `tag`.

    A transform that must re-enter a function under the same interpretation (custom rules under vmap) creates a second
    trace with the same tag.
    """

    __slots__ = ("parent", "tag", "__weakref__")

    def __init__(self, parent: Trace | None, tag: Tag):
        self.parent = parent
        self.tag = tag
        if tag.trace is None:
            tag.trace = weakref.ref(self)

    @property
    def main(self) -> Tag:
        """The tag (JAX's name)."""
        return self.tag

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        """Interpret one operation: `args` are arrays, tracers or scalars, `params` static data."""
        raise TypeError(f"{type(self).__name__} does not interpret operations")

    def close(self) -> None:
        """End the transform; tracers that outlive it have escaped."""
        self.tag.close()


class Tracer(Array):
    """A value inside a trace. Array methods and operators are attached by `xjax.numpy.methods`."""

    __slots__ = ("tag", "aval", "__weakref__")

    # `ndarray * tracer` calls our operator; functions of NumPy call `__array__`, whose error has the advice.
    __array_priority__ = 1000

    tag: Tag
    aval: ShapedArray

    @property
    def _trace(self) -> Trace:
        """The trace that this value belongs to (JAX's name).  Raises: AttributeError if it has ended."""
        trace = self.tag.trace and self.tag.trace()
        if trace is None or self.tag.closed:
            raise errors.no_attribute("a traced value whose trace has ended", self, "_trace", None)
        return trace

    def concrete(self) -> None:
        """The concrete value if it is known now (eager grad), else None."""
        return None

    def origin(self) -> str:
        """The origin of this value, for error messages."""
        return f"in {self.tag}"

    def __len__(self) -> int:
        return len(self.aval)

    def __repr__(self) -> str:
        return f"Tracer<{self.aval.str_short()}>"

    def __format__(self, spec: str) -> str:
        """The type for an empty `spec`, as with `str`; any other `spec` needs the value."""
        return format(self._known("a formatted text of", errors.ConcretizationTypeError), spec) if spec else str(self)

    def __hash__(self):
        raise errors.bad("hash()", "a traced value is unhashable: it is not known yet",
                         given={"value": f"{self.aval.str_short()} {self.origin()}"},
                         fix="choose with lax.switch, or by indexing an array, instead of looking up in a dict or set.")

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: dict) -> Tracer:
        return self                         # a copy would belong to no trace

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise abstract_value_error("a pickle of", self, errors.ConcretizationTypeError)

    # -- conversions to Python: possible only if the value is known --------------------------------

    def _known(self, what: str, error: type[Exception]) -> float:
        value = self.concrete()
        if value is None:
            raise abstract_value_error(what, self, error)
        return value

    def __bool__(self) -> bool:
        return bool(self._known("bool() of", errors.TracerBoolConversionError))

    def __int__(self) -> int:
        return int(self._known("int() of", errors.ConcretizationTypeError))

    def __float__(self) -> float:
        return float(self._known("float() of", errors.ConcretizationTypeError))

    def __complex__(self) -> complex:
        return complex(self._known("complex() of", errors.ConcretizationTypeError))

    def __index__(self) -> int:
        return operator.index(self._known("an index from", errors.TracerIntegerConversionError))

    def item(self, *args: int) -> bool | int | float | complex:
        return self._known("item() of", errors.ConcretizationTypeError).item(*args)

    def tolist(self) -> Any:
        return self._known("tolist() of", errors.ConcretizationTypeError).tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return self._known("tobytes() of", errors.ConcretizationTypeError).tobytes(order)

    def __getattr__(self, name: str) -> Any:
        """Called for a missing attribute, usually by hasattr, so it does not search for similar names."""
        if name in _OF_A_PLACE:
            raise errors.bad("traced value", f"it has no `{name}`: its placement is decided at compile time",
                             given={"value": f"{self.aval.str_short()} {self.origin()}".rstrip()},
                             fix="read it from an array outside the function; here, use lax.with_sharding_constraint.",
                             exc=_UnknownPlace)
        what = "a traced value" if name == "aval" else f"a traced value ({self.aval.str_short()})"
        raise errors.no_attribute(what, self, name, attribute_elsewhere(name))

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        # An error even if the value is known: NumPy would silently drop the derivative.
        raise abstract_value_error("a NumPy array from", self, errors.TracerArrayConversionError)

    @property
    def __jax_array__(self) -> NoReturn:
        """An error for the real JAX, which cannot use a value traced here."""
        raise refuse_real_jax("a value traced by xjax was passed", f"{self.aval.str_short()} {self.origin()}",
                              "bridge the function with xjax.interop.from_jax(f), or with xnn.optim for optax.")


def known_value(x: object) -> Any:
    """`x`, or the concrete value behind a tracer; None if there is none."""
    return x.concrete() if isinstance(x, Tracer) else x


def refuse_real_jax(what: str, value: str, fix: str) -> Exception:
    """The error of the property `__jax_array__`: a helpful error if the real JAX reads it, else an AttributeError.

    Other callers only test whether the attribute exists; JAX's own arrays do not have it.
    """
    caller = sys._getframe(2).f_globals.get("__name__", "")
    if caller.partition(".")[0] not in ("jax", "jaxlib"):
        return AttributeError("xjax arrays have no attribute '__jax_array__'", name="__jax_array__")
    return errors.bad("xjax", f"{what} to a function of the real JAX", given={"value": value}, fix=fix, exc=ValueError)


class _UnknownPlace(errors.ConcretizationTypeError, AttributeError):
    """A traced value has no placement: an error of JAX's class for this; `hasattr` is False."""


_OF_A_PLACE = frozenset([
    "addressable_data", "addressable_shards", "committed", "delete", "device", "devices", "global_shards", "is_deleted",
    "is_fully_addressable", "is_fully_replicated", "on_device_size_in_bytes", "sharding", "unsafe_buffer_pointer"])

_FIXES = {
    "bool() of": "use lax.cond or numpy.where instead of `if`, lax.while_loop instead of `while`, & and | instead of "
                 "`and` and `or`",
    "an index from": "use lax.dynamic_slice or indexing of an array in place of a list, lax.fori_loop in place of "
                     "range()",
    "a NumPy array from": "use xjax.numpy functions instead of numpy's on traced values; or compute this outside "
                          "the transformed function.",
    "a formatted text of": 'print it with jax.debug.print("x = {x:.2f}", x=x), which prints when the program runs.',
}


def abstract_value_error(what: str, x: Tracer, error: type[Exception]) -> Exception:
    """The error for an operation that needs the Python value of a tracer."""
    origin = x.origin()
    fix = _FIXES.get(what, "keep the computation in xjax.numpy, return the value and convert it outside")
    if not fix.endswith("."):
        fix += "; or mark the argument with static_argnums." if "jit `" in origin else "."
    made = f" ({origin})" if origin else ""
    line = errors.location_text(errors.user_location())
    return errors.bad("", f"{what} a traced value {x.aval.str_short()}{made}",
                      given=[f"used at {line}"] if line else None, fix=fix, exc=error)


def static_value_error(caller: str, name: str, x: Tracer) -> Exception:
    """The error for a traced value where shapes depend on the argument `name` of the function `caller`."""
    origin = x.origin()
    fix = "mark the argument with static_argnums or static_argnames, or compute it from x.shape."
    if "jit" not in origin:
        fix = "pass a Python int, such as a part of x.shape."
    return errors.bad(caller, f"`{name}` must be known while tracing: shapes and axes are static",
                      given={name: f"{x.aval.str_short()}, {origin or 'traced'}"}, fix=fix,
                      exc=errors.ConcretizationTypeError)


def escaped(x: Tracer) -> Exception:
    """The error for a tracer used after its transform has ended."""
    origin = x.origin()
    if not x.tag.closed:
        return errors.bad(
            "EscapedTracerError", "a traced value is used outside the transformation that it belongs to",
            given={"value": f"{x.aval.str_short()}{', ' + origin if origin else ''}"},
            fix="use it in the function, and in the thread, that is being transformed.",
            exc=errors.UnexpectedTracerError)
    return errors.bad(
        "EscapedTracerError", "a traced value is used after the end of the transformation that created it",
        given={"value": f"{x.aval.str_short()}{', ' + origin if origin else ''}"},
        fix="return it from the function instead of storing it in a global, an attribute or a closure.",
        exc=errors.UnexpectedTracerError)
