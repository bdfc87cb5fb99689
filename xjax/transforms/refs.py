"""Mutable arrays: `Ref`, its type `AbstractRef`, and the programs of functions that read and write refs.

A ref is a cell with the current value of an array: an array, or a value of the trace in which the ref was created. Code
in an inner trace reads the value as a constant. A value that it writes must not be mapped or differentiated by the
inner trace.

A function that is traced to a program (`jit`, `scan`, `cond`, ...) is made functional. The trace has a `Frame`, which
notes the outer refs that the function uses: their values become inputs of the program, and new values become results.
The caller passes the values to the operation and stores the results in the refs afterwards (`Uses`). So programs are
pure, and all transforms apply to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from xjax.core.context import context, current_trace
from xjax.core.errors import UnexpectedTracerError, bad
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr
from xjax.core.memory_kinds import Space
from xjax.core.staging import StagingTrace, StagingTracer, hoist_consts, trace_to_jaxpr
from xjax.core.trace import Tag, Trace, Tracer
from xjax.core.types import ADVICE, ShapedArray
from xjax.core.types import typeof as type_of_array
from xjax.core.varying import typed_axes
from xjax.ops.identity import copy
from xjax.ops.pvary import vary_to
from xjax.transforms.batching import BatchTrace, without_axis
from xjax.typing import Array, ArrayLike


class AbstractRef:
    """The type of a `Ref`: `inner_aval` is the type of its value.

    >>> xjax.typeof(xjax.new_ref(jnp.zeros(3)))
    Ref{f32[3]}
    """

    __slots__ = ("inner_aval", "memory_space", "kind")

    def __init__(self, inner_aval: ShapedArray, memory_space: Space | None = None, kind: str | None = None):
        self.inner_aval, self.memory_space, self.kind = inner_aval, memory_space, kind

    shape: Any = property(lambda self: self.inner_aval.shape)
    dtype: Any = property(lambda self: self.inner_aval.dtype)
    ndim: Any = property(lambda self: self.inner_aval.ndim)
    size: Any = property(lambda self: self.inner_aval.size)
    weak_type: Any = property(lambda self: self.inner_aval.weak_type)

    def update(self, **changed: object) -> AbstractRef:
        """The type with another `inner_aval`, `memory_space` or `kind`."""
        fields = {"inner_aval": self.inner_aval, "memory_space": self.memory_space, "kind": self.kind}
        return AbstractRef(**{**fields, **changed})

    def str_short(self, short_dtypes: bool = True) -> str:
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __repr__(self) -> str:
        return self.str_short()

    def __eq__(self, other: object) -> bool:
        return (type(other) is AbstractRef and self.inner_aval is other.inner_aval
                and self.memory_space == other.memory_space)

    def __hash__(self) -> int:
        return hash((AbstractRef, self.inner_aval, self.memory_space))


class Ref:
    """A mutable array, made by `xjax.new_ref`. `ref[index]` reads it, `ref[index] = value` writes it.

    Attributes:
      ref_type: its type, an `AbstractRef`; `xjax.typeof(ref)` returns it. There is no `aval`: only arrays have one.

    A ref is not an array: read its value with `ref[...]`. The methods are attached by `xjax.ref`.
    """

    __slots__ = ("ref_type", "_value", "_tag", "_written", "_borrowed", "_owned", "_is_argument", "__weakref__")

    def __init__(self, aval: AbstractRef, value: Array, tag: Tag):
        self.ref_type, self._value, self._tag = aval, value, tag
        self._written = False                   # since it was created
        self._borrowed: Ref | None = None       # the ref of a mapped function that has this one as its argument
        self._is_argument = True                # set to False by `create`
        self._owned = False                     # whether nothing else uses the memory of an array that is the value

    shape: Any = property(lambda self: self.ref_type.shape)
    dtype: Any = property(lambda self: self.ref_type.dtype)
    ndim: Any = property(lambda self: self.ref_type.ndim)
    size: Any = property(lambda self: self.ref_type.size)

    if TYPE_CHECKING:
        at: Any
        sharding: Any
        committed: bool

        def __getitem__(self, index: object) -> Array: ...
        def __setitem__(self, index: object, value: ArrayLike) -> None: ...
        def get(self, idx: object = ()) -> Array: ...
        def set(self, value: ArrayLike, idx: object = ()) -> None: ...
        def swap(self, value: ArrayLike, idx: object = ()) -> Array: ...
        def addupdate(self, x: ArrayLike, idx: object = ()) -> None: ...

    def __len__(self) -> int:
        return len(self.ref_type.inner_aval)

    def __repr__(self) -> str:
        if isinstance(self._value, Tracer) or self._value is None or self._tag is not context.trace.tag:
            return repr(self.ref_type)
        return f"Ref{repr(self._value)[5:]}"

    def __bool__(self) -> NoReturn:
        raise bad("Ref", "bool() of a ref", {"ref": self.ref_type.str_short()}, "read its value first: ref[...].")

    def refused_as_result(self, caller: str) -> Exception:
        """The error for a function that returns this ref."""
        return bad(caller, "the function returned a mutable array reference (a ref), which cannot be returned",
                   {"result": self.ref_type.str_short()},
                   "return its value, ref[...]; or create the ref outside and pass it as an argument.", exc=ValueError)


ADVICE[Ref] = "read the value of the ref: {}[...]. Where a ref is meant, use it from the enclosing scope."


# Types that libraries define, by the class of the value; see `experimental.hijax`.
library_types: dict[type, Callable[[Any], Any]] = {}


def typeof(x: ArrayLike | Ref) -> Any:
    """The type of an array, a traced value, a NumPy value, a number or a ref: a `ShapedArray` or an `AbstractRef`.

    Raises: TypeError if `x` is none of these.

    >>> xjax.typeof(xjax.numpy.zeros(3))
    ShapedArray(float32[3])
    """
    if type(x) is Ref:
        return _type_here(x) if context.axes else x.ref_type
    rule = library_types.get(type(x))
    return type_of_array(x) if rule is None else rule(x)                # type: ignore[arg-type]


def _type_here(ref: Ref) -> AbstractRef:
    """The type of a ref, with the mesh axes along which its value varies."""
    return ref.ref_type.update(inner_aval=ref.ref_type.inner_aval.update(vma=type_of_array(read(ref)).vma))


def has_refs(leaves: Iterable[Any]) -> bool:
    return Ref in map(type, leaves)


def is_temporary(x: object) -> bool:
    """Whether a captured value belongs to a transform that runs now: a tracer, or a ref created in a trace."""
    return isinstance(x, Tracer) or (type(x) is Ref and x._tag is not _root().tag)


def _root() -> Trace:
    return type(context).trace


# -- reading and writing ------------------------------------------------------------------------------------------

def create(value: Array, aval: AbstractRef) -> Ref:
    """A ref of the current trace; its values vary along all axes of a `shard_map` around it."""
    ref = Ref(aval, vary_to(value, typed_axes()), context.trace.tag)
    ref._is_argument = False
    return ref


def read(ref: Ref) -> Array:
    """The current value.  Raises: UnexpectedTracerError if the ref was created in a trace that has ended."""
    trace = context.trace
    while trace.tag is not ref._tag:
        if isinstance(trace, StagingTrace):
            return _frame(trace, ref).cell(trace, ref).value
        trace = _parent(trace, ref)
    borrower = ref._borrowed
    if borrower is not None and borrower._written:
        raise _used_twice("vmap", ref)
    ref._owned = False
    return _value_now(ref)


def write(ref: Ref, value: Array) -> None:
    """Replace the value by one of exactly the same type.

    Raises:
      UnexpectedTracerError: if the ref was created in a trace that has ended.
      ValueError: if the ref was created outside a function that is mapped or differentiated, and the value depends on
        a mapped or differentiated argument.
    """
    trace = context.trace
    while trace.tag is not ref._tag:
        if isinstance(trace, StagingTrace):
            _frame(trace, ref).cell(trace, ref).write(value)
            return
        if isinstance(value, Tracer) and value.tag is trace.tag:
            raise _outside(trace, ref)
        trace = _parent(trace, ref)
    if ref._borrowed is not None:
        raise _used_twice("vmap", ref)
    value = _varying_like(value, _value_now(ref))
    ref._value, ref._written, ref._owned = value, True, False


def _value_now(ref: Ref) -> Array:
    if ref._value is None:
        raise bad("Ref", "a ref is used after free_ref", {"ref": ref.ref_type.str_short()}, "free it last.",
                  exc=ValueError)
    return ref._value


def _varying_like(value: Array, old: Array) -> Array:
    """The new value of a ref, cast so that it varies along the mesh axes along which the old value does."""
    return vary_to(value, type_of_array(old).vma) if context.axes else value


def free(ref: Ref) -> None:
    """Drop the value of a ref of the current trace."""
    if context.trace.tag is not ref._tag or ref._is_argument:
        raise bad("free_ref", "the ref was created outside of the function that frees it",
                  {"ref": ref.ref_type.str_short()}, "free it where it was created.", exc=ValueError)
    read(ref)                                   # raises for a ref that is freed already
    ref._value = None


def _parent(trace: Trace, ref: Ref) -> Trace:
    if trace.parent is None or ref._tag.closed:
        raise bad("EscapedTracerError", "a ref is used after the end of the transformation that created it",
                  {"ref": f"{ref.ref_type.str_short()}, created in {ref._tag}"},
                  "return its value, ref[...], instead of storing the ref in a global, an attribute or a closure.",
                  exc=UnexpectedTracerError)
    return trace.parent


def _outside(trace: Trace, ref: Ref) -> Exception:
    mapped = isinstance(trace, BatchTrace)
    fix = ("pass the ref as a mapped argument, or create it inside the function." if mapped else
           "write lax.stop_gradient(value), or create the ref inside the function.")
    return bad(trace.tag.caller, f"a {'vmapped' if mapped else 'differentiated'} value is written to a ref that was "
               "created outside of the function", {"ref": ref.ref_type.str_short()}, fix, exc=ValueError)


def _used_twice(caller: str, ref: Ref) -> Exception:
    return bad(caller, "a ref was both closed over and passed as an argument", {"ref": ref.ref_type.str_short()},
               "use one of the two.", exc=ValueError)


def refuse_aliases(caller: str, leaves: Sequence[Any], outer: Sequence[Ref] = ()) -> None:
    """Raise ValueError if a ref is among the arguments twice, or is also used from the enclosing scope."""
    seen: dict[Ref, int] = {}
    for i, x in enumerate(leaves):
        if type(x) is not Ref:
            continue
        if seen.setdefault(x, i) != i:
            raise bad(caller, "only one reference to a mutable array may be passed as an argument",
                      {"ref": x.ref_type.str_short(), "passed as": f"leaves {seen[x]} and {i} of the arguments"},
                      "pass it once.", exc=ValueError)
        if x in outer:
            raise _used_twice(caller, x)


# -- programs -----------------------------------------------------------------------------------------------------

class _Entry:
    """The value that an outer ref has when a program starts: a constant of the trace."""

    __slots__ = ("ref", "aval")

    def __init__(self, ref: Ref, aval: ShapedArray):
        self.ref, self.aval = ref, aval


class _Cell:
    """The value of an outer ref while a program is traced."""

    __slots__ = ("value", "written")

    def __init__(self, value: Array):
        self.value, self.written = value, False

    def write(self, value: Array) -> None:
        self.value, self.written = _varying_like(value, self.value), True


class Frame:
    """The outer refs that a function used while it was traced."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells: dict[Ref, _Cell] = {}

    def cell(self, trace: StagingTrace, ref: Ref) -> _Cell:
        cell = self.cells.get(ref)
        if cell is None:
            with current_trace(trace.parent):               # type: ignore[arg-type]  # never the root
                aval = type_of_array(read(ref))             # the enclosing frame notes the ref too
            variable = trace.atom(_Entry(ref, aval))        # type: ignore[arg-type]
            cell = self.cells[ref] = _Cell(StagingTracer(trace.tag, variable, "value of a ref"))  # type: ignore
        return cell

    def written(self) -> list[Ref]:
        return [ref for ref, cell in self.cells.items() if cell.written]

    def read_only(self) -> list[Ref]:
        return [ref for ref, cell in self.cells.items() if not cell.written]


def _frame(trace: StagingTrace, ref: Ref) -> Frame:
    if ref._tag.closed:
        _parent(trace, ref)
    if trace.refs is None:
        raise bad(trace.tag.caller, "a ref of the enclosing scope cannot be used here",
                  {"ref": ref.ref_type.str_short()},
                  "read it before and pass the value; or create the ref inside the function.", exc=NotImplementedError)
    return trace.refs


class Uses(NamedTuple):
    """The refs that a traced function uses, and the inputs and results of its program that are their values.

    Inputs: (captured values, values of `outer`, arguments). Results: (new values of the last `written` of `outer`,
    results of the function, new values of the arguments at the positions `arguments`).
    """

    outer: tuple[Ref, ...]
    written: int
    arguments: tuple[int, ...]

    @property
    def read_only(self) -> tuple[Ref, ...]:
        """The outer refs that are not written."""
        return self.outer[:len(self.outer) - self.written]

    @property
    def changed(self) -> tuple[Ref, ...]:
        """The outer refs that are written."""
        return self.outer[len(self.outer) - self.written:]

    def values(self, caller: str, leaves: Sequence[Any], donate: bool = False) -> list[Any]:
        """The inputs of the program after the captured values; with `donate`, those of `donated` have own memory."""
        refuse_aliases(caller, leaves, self.outer)
        if not donate:
            return [*map(read, self.outer), *map(value_of, leaves)]
        return [taken(x) if flag else value_of(x)
                for x, flag in zip((*self.outer, *leaves), self.donated(leaves), strict=True)]

    def donated(self, leaves: Sequence[Any]) -> list[bool]:
        """For each of these inputs, whether a result replaces it."""
        first = len(self.outer) - self.written
        return [*[i >= first for i in range(len(self.outer))], *[i in self.arguments for i in range(len(leaves))]]

    def store(self, outs: Sequence[Any], leaves: Sequence[Any], owned: bool = False) -> list[Any]:
        """Write new values to the refs; `owned`: nothing else uses their memory. Returns: the function's results."""
        end = len(outs) - len(self.arguments)
        for ref, value in zip(self.changed, outs, strict=False):
            write(ref, value)
        for i, value in zip(self.arguments, outs[end:], strict=True):
            write(leaves[i], value)
        for ref in (*self.changed, *[leaves[i] for i in self.arguments]) if owned else ():
            ref._owned = True
        return list(outs[self.written:end])


def taken(ref: Ref) -> Array:
    """The value of an eager ref, for a program that overwrites its memory; the caller stores a new value afterwards."""
    owned = ref._owned
    value = read(ref)
    return value if owned else copy(value)


NO_REFS = Uses((), 0, ())


def can_use(ref: Ref) -> bool:
    """Whether the current trace can read and write the ref."""
    trace: Trace | None = context.trace
    while trace is not None and not ref._tag.closed:
        if trace.tag is ref._tag:
            return True
        if isinstance(trace, StagingTrace):
            return trace.refs is not None
        trace = trace.parent
    return False


def value_of(x: Ref | ArrayLike) -> ArrayLike:
    """The value of a ref; another value unchanged."""
    return read(x) if isinstance(x, Ref) else x


def row_type(aval: ShapedArray | AbstractRef, axis: int = 0) -> ShapedArray | AbstractRef:
    """The type of one element along an axis."""
    if type(aval) is AbstractRef:
        return aval.update(inner_aval=without_axis(aval.inner_aval, axis))
    return without_axis(aval, axis)                                         # type: ignore[arg-type]


class RefArguments:
    """`f` as a function of values: `f` gets new refs with the values of the arguments at the positions of `avals`.

    The results are those of `f`, then the last values of the refs at the positions `written`.

    Args:
      lent: the refs of the caller that have these values; they are not used while `f` runs.
    """

    def __init__(self, f: Callable[..., Sequence[Any]], avals: dict[int, AbstractRef],
                 lent: dict[int, Ref] | None = None):
        self.f, self.avals, self.lent = f, avals, lent or {}
        self.written: tuple[int, ...] = ()

    def __call__(self, *args: Array) -> list[Any]:
        tag = context.trace.tag
        refs = {i: Ref(aval, args[i], tag) for i, aval in self.avals.items()}
        try:
            for i, ref in self.lent.items():
                ref._borrowed = refs[i]
            outs = self.f(*[refs.get(i, x) for i, x in enumerate(args)])
        finally:
            for ref in self.lent.values():
                ref._borrowed = None
        self.written = tuple(i for i, ref in refs.items() if ref._written)
        return [*outs, *[refs[i]._value for i in self.written]]


def stage_with_refs(f: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray | AbstractRef], caller: str,
                    arg_names: Sequence[str] | None = None) -> tuple[ClosedJaxpr, Uses | None]:
    """Trace `f(*leaves) -> list of results`, which may use refs: outer refs, and arguments of types `AbstractRef`.

    Returns: the program, whose first inputs are the values of the outer refs; None if no refs are used.
    """
    frame, arguments = Frame(), None
    refs = {i: a for i, a in enumerate(avals) if type(a) is AbstractRef}
    if refs:
        f = arguments = RefArguments(f, refs)
        avals = [a.inner_aval if type(a) is AbstractRef else a for a in avals]

    def run(*args: ArrayLike) -> list[Any]:
        trace = context.trace
        trace.refs = frame                      # type: ignore[attr-defined]
        outs = f(*args)
        return [*[frame.cells[ref].value for ref in frame.written()], *outs]

    closed = trace_to_jaxpr(run, avals, caller, arg_names)                  # type: ignore[arg-type]
    written = () if arguments is None else arguments.written
    if not frame.cells:
        return closed, None if arguments is None else Uses((), 0, written)
    j = closed.jaxpr
    outer = (*frame.read_only(), *frame.written())
    entries = {c.ref: v for v, c in zip(j.constvars, closed.consts, strict=True) if type(c) is _Entry}
    captured = [(v, c) for v, c in zip(j.constvars, closed.consts, strict=True) if type(c) is not _Entry]
    j = Jaxpr([v for v, _ in captured], [*[entries[ref] for ref in outer], *j.invars], j.eqns, j.outvars)
    return ClosedJaxpr(j, [c for _, c in captured]), Uses(outer, len(frame.written()), written)


def trace_with_refs(f: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray | AbstractRef], caller: str,
                    arg_names: Sequence[str] | None = None) -> tuple[ClosedJaxpr, list[Any], Uses | None]:
    """`stage_with_refs`, with captured values as the first inputs: (program, captured values, uses)."""
    closed, uses = stage_with_refs(f, avals, caller, arg_names)
    program, consts = hoist_consts(closed)
    return program, list(consts), uses
