"""The stages between a Python function and its executable: traced, lowered and compiled programs; `make_jaxpr`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from xjax.core import dtypes
from xjax.core.calls import (
    api_boundary,
    argument_types,
    bounded,
    flatten_function,
    function_name,
    leaf_names,
    leaf_of_arguments,
)
from xjax.core.context import Axis, axes_in_scope
from xjax.core.errors import bad, check_choice
from xjax.core.hlo import without_locations
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.staging import with_inner_consts
from xjax.core.symbolic.dims import is_static
from xjax.core.tree import PyTreeDef, flatten, skeleton, tree_mismatch, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.ops.checks import check_sequence, static_int
from xjax.runtime import xla
from xjax.runtime.arrays import donation
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.call_shardings import on_devices
from xjax.runtime.devices import backend
from xjax.runtime.placement.current_mesh import current_mesh
from xjax.runtime.placement.layout import Format, Layout
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.mesh_axes import AxisName
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.placement.places import Place, default_place, home_of, inputs_read, sharding_of
from xjax.runtime.placement.sharding import NamedSharding, Sharding
from xjax.runtime.programs.executable import Options, as_options, program_executable, program_module, shardings_over
from xjax.runtime.programs.launch import Executable, Launcher
from xjax.runtime.programs.lowering import ModuleText
from xjax.runtime.static_args import StaticArguments
from xjax.runtime.xla import MemoryStats
from xjax.transforms.refs import AbstractRef, Ref, Uses, is_temporary, stage_with_refs
from xjax.typing import ArrayLike, DTypeLike, PyTree


class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist: argument of `eval_shape`, `make_jaxpr` and `jit(f).lower`.

    Args:
      sharding: the placement of the array: a sharding, or a PartitionSpec over the current mesh. `jit(f).lower`
        compiles for it.

    Raises:
      ValueError: for another `sharding`, or one with more axes than the array has.
      TypeError: for a PartitionSpec without a mesh.

    >>> xjax.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("_type", "sharding")

    def __init__(self, shape: Sequence[int], dtype: DTypeLike, *, weak_type: bool = False,
                 sharding: Sharding | PartitionSpec | Format | None = None):
        check_sequence("ShapeDtypeStruct", "shape", shape)
        self._type = ShapedArray(tuple(shape), dtypes.explicit_dtype(dtype), weak_type)
        self.sharding = _checked_sharding(sharding, self._type)

    @property
    def format(self) -> Format:
        """The sharding, with the default layout."""
        return Format(None, self.sharding)

    @classmethod
    def of(cls, aval: ShapedArray, sharding: Sharding | None = None) -> ShapeDtypeStruct:
        struct = cls(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)
        struct._type = aval.plain                # a 64-bit dtype stays, even with x64 mode off
        return struct

    @classmethod
    def like(cls, x: ArrayLike) -> ShapeDtypeStruct:
        """The type and sharding of an array, a number, or an object with `shape` and `dtype`."""
        return cls.of(abstract(x), getattr(x, "sharding", None))

    def update(self, **changed: object) -> ShapeDtypeStruct:
        """The same with another `shape`, `dtype`, `weak_type` or `sharding`."""
        fields = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type, "sharding": self.sharding}
        return ShapeDtypeStruct(**{**fields, **changed})

    shape = property(lambda self: self._type.shape)
    dtype = property(lambda self: self._type.dtype)
    ndim = property(lambda self: self._type.ndim)
    size = property(lambda self: self._type.size)
    weak_type = property(lambda self: self._type.weak_type)

    def __len__(self) -> int:
        return len(self._type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._type is other._type and self.sharding == other.sharding

    def __hash__(self) -> int:
        return hash(self._type)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        place = "" if self.sharding is None else f", sharding={self.sharding}"
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak}{place})"


def _checked_sharding(sharding: Sharding | PartitionSpec | Format | None, aval: ShapedArray) -> Sharding | None:
    if sharding is None:
        return None
    caller = "ShapeDtypeStruct"
    if isinstance(sharding, Format):
        return sharding.sharding_for(caller, aval)
    if not isinstance(sharding, Sharding | PartitionSpec):
        raise bad(caller, "this is not a sharding", {"sharding": repr(sharding)},
                  "pass a NamedSharding or a PartitionSpec.", exc=ValueError)
    if isinstance(sharding, PartitionSpec):
        if current_mesh() is None:
            raise bad(caller, "a PartitionSpec needs a mesh", {"sharding": repr(sharding)},
                      "pass NamedSharding(mesh, spec), or call it inside `with xjax.set_mesh(mesh):`.")
        sharding = NamedSharding(current_mesh(), sharding)
    sharding.hlo(aval.ndim)                 # raises an error if the spec has too many entries
    return sharding


def abstract(x: ArrayLike) -> ShapedArray:
    """Aval of an array, a number, a ref, or an object with `shape` and `dtype`."""
    if type(x) is ShapedArray or type(x) is AbstractRef:
        return x
    if type(x) is Ref:
        return x.ref_type                   # type: ignore[return-value]
    if isinstance(x, ShapeDtypeStruct):
        return x._type
    try:
        return typeof(x)
    except TypeError:
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            return ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype, allow_extended=True))
        raise


def place_of(x: ArrayLike | ShapeDtypeStruct | Sharding) -> Place:
    """The placement of an array, or the sharding of a `ShapeDtypeStruct`; the default device for other arguments."""
    if type(x) is Array:
        return x._place
    sharding = x if isinstance(x, Sharding) else getattr(x, "sharding", None)
    return sharding if isinstance(sharding, Sharding) else default_place()


class Program:
    """A function traced for one type of arguments: its program, captured constants and structure of the result.

    A program with `uses` also has inputs and results for values of refs.
    """

    __slots__ = ("program", "consts", "out_tree", "out_shardings", "uses", "cacheable")

    def __init__(self, program: ClosedJaxpr, consts: list[Any], out_tree: PyTreeDef,
                 out_shardings: tuple[Sharding | None, ...] = (), uses: Uses | None = None):
        self.program, self.consts, self.out_tree = program, consts, out_tree
        self.out_shardings = out_shardings          # constraints on the results; (): none
        self.uses = uses
        # A program that captured tracers, or refs of a trace, belongs to the transform that runs now.
        self.cacheable = not any(map(is_temporary, consts if uses is None else (*consts, *uses.outer)))

    def out_info(self) -> PyTree:
        """A `ShapeDtypeStruct` for each array of the result."""
        avals = _results(self.program, self.uses)
        shardings = self.out_shardings or (None,) * len(avals)
        return tree_unflatten(self.out_tree, [ShapeDtypeStruct.of(a, s) for a, s in zip(avals, shardings,
                                                                                       strict=True)])


class ArgInfo(NamedTuple):
    """Shape, dtype and donation of one argument."""

    shape: tuple[int, ...]
    dtype: Any
    donated: bool


class Argument(NamedTuple):
    """A leaf of the arguments of a stage."""

    aval: ShapedArray
    place: Place
    donated: bool


class CompiledParts(NamedTuple):
    """The parts of a compiled program: its first arguments are the captured arrays `consts`."""

    executable: Executable
    program: ClosedJaxpr
    arguments: tuple[Argument, ...]
    consts: list[Array]


class _Stage:
    """Common to all stages: the types of arguments and result, and their structure."""

    def __init__(self, traced: Program, arguments: Sequence[Argument], in_tree: PyTreeDef, name: str,
                 options: Options = ()):
        self._traced, self._arguments, self.in_tree, self.fun_name = traced, tuple(arguments), in_tree, name
        self._options = options

    @property
    def out_tree(self) -> PyTreeDef:
        return self._traced.out_tree

    @property
    def in_avals(self) -> tuple[tuple, dict]:
        """Types of the arguments, as (args, kwargs)."""
        return tree_unflatten(self.in_tree, [x.aval for x in self._arguments])

    @property
    def args_info(self) -> tuple[tuple, dict]:
        """An `ArgInfo` for each argument, as (args, kwargs)."""
        return tree_unflatten(self.in_tree, [ArgInfo(x.aval.shape, x.aval.dtype, x.donated)
                                             for x in self._arguments])

    @property
    def out_info(self) -> PyTree:
        """Shapes and dtypes of the result, with the shardings to which it is constrained."""
        return self._traced.out_info()

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Positions of the donated arguments, among the leaves of all arguments."""
        return tuple(i for i, x in enumerate(self._arguments) if x.donated)

    def _places(self) -> list[Place]:
        """Placements of the arguments of the program: of the captured arrays, then of the function's arguments."""
        places = [*[to_array(c)._place for c in self._traced.consts], *[x.place for x in self._arguments]]
        shardings = [sharding_of(p) for p in places]
        return [on_devices(f"jit `{self.fun_name}`", p, shardings) for p in places]

    def _donated_operands(self) -> tuple[bool, ...]:
        return (False,) * len(self._traced.consts) + tuple(x.donated for x in self._arguments)


class Traced(_Stage):
    """A function as a program: `jit(f).trace(*args)`."""

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program; captured arrays are its first arguments."""
        return self._traced.program

    def closed(self) -> ClosedJaxpr:
        """The program with the captured arrays as its constants."""
        j, consts = self._traced.program.jaxpr, self._traced.consts
        return ClosedJaxpr(j.replace(constvars=j.invars[:len(consts)], invars=j.invars[len(consts):]), consts)

    def shardings(self) -> list[Sharding]:
        """The shardings of the captured arrays and of the arguments."""
        return [sharding_of(p) for p in self._places()]

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Lower the program for devices: those of the arguments, or those of the current mesh.

        Args:
          lowering_platforms: ("cpu",) or ("cuda",): write the text for this platform. No such device need exist to
            read the text; compiling it needs one.
        """
        platform = None if lowering_platforms is None else _one_platform(self.fun_name, lowering_platforms)
        if not all(is_static(x.aval.shape) for x in self._arguments):
            raise bad(f"lower of `{self.fun_name}`", "the arguments have symbolic shapes", {
                "arguments": ", ".join(x.aval.str_short() for x in self._arguments)},
                "use export.export(jit(f))(...), or static shapes.", ValueError)
        program, places, arguments = self._traced.program, self._places(), self._arguments
        if any(x.donated for x in arguments):
            donation.warn_of_useless(f"jit `{self.fun_name}`", program, self._donated_operands(),
                                     lambda: donation.names_by_position(self.in_tree))
        consts = len(places) - len(arguments)
        home = home_of(f"jit `{self.fun_name}`", program, places, consts)
        if isinstance(home, Mesh):
            shardings = shardings_over(home, program, places)[consts:]
            arguments = [x._replace(place=s) for x, s in zip(arguments, shardings, strict=True)]
        return Lowered(self._traced, arguments, self.in_tree, self.fun_name, self._options, platform)


def _one_platform(name: str, platforms: Sequence[str]) -> str:
    """The internal name of the one platform in `lowering_platforms`."""
    names = [platforms] if isinstance(platforms, str) else list(platforms)
    if len(names) != 1:
        raise bad(f"lower of `{name}`", "a program is written for one platform", {"lowering_platforms": platforms},
                  "lower it once for each of them.", exc=NotImplementedError)
    return backend.platform_named("lowering_platforms", names[0])


class Lowered(_Stage):
    """A program as StableHLO text: `jit(f).lower(*args)`."""

    def __init__(self, traced: Program, arguments: Sequence[Argument], in_tree: PyTreeDef, name: str,
                 options: Options = (), platform: str | None = None):
        super().__init__(traced, arguments, in_tree, name, options)
        self._platform = platform                       # None: the platform of the arguments' devices

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The text of the program; captured arrays are its first arguments.

        Args:
          dialect: "stablehlo" or None for StableHLO, "hlo" for HLO.
          debug_info: with the names of `named_scope`s, for StableHLO.
        """
        text = self._module()[0].text
        if not self._is_stablehlo(dialect):
            return xla.unoptimised_hlo(text).as_hlo_text()
        return text if debug_info else without_locations(text)

    def _module(self) -> tuple[ModuleText, Any]:
        return program_module(self._traced.program, self.fun_name, self._places(), self._donated_operands(),
                              self._traced.out_shardings, len(self._traced.consts), self._platform)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The program as a jaxlib object: a module of its MLIR bindings, or for "hlo" an XlaComputation."""
        text = self.as_text(debug_info=True)
        return xla.parse_module(text) if self._is_stablehlo(dialect) else xla.unoptimised_hlo(text)

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of flops and bytes accessed, before optimisation."""
        module, device = self._module()
        return xla.unoptimised_cost(device.client, module.text)

    def _is_stablehlo(self, dialect: str | None) -> bool:
        check_choice("lowered program", "dialect", dialect, ("stablehlo", "hlo", None))
        return dialect != "hlo"

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> Compiled:
        """Compile; `compiler_options` are XLA flags, in addition to those of the `jit`."""
        caller = f"compile of `{self.fun_name}`"
        if self._platform is not None and self._platform != (devices := self._module()[1].platform):
            raise bad(caller, "the program was lowered for another platform than that of its devices",
                      {"lowered for": self._platform, "devices": devices},
                      "lower it again without lowering_platforms, or on a machine that has such devices.",
                      exc=ValueError)
        more = as_options(caller, compiler_options)
        return Compiled(self._traced, self._arguments, self.in_tree, self.fun_name,
                        tuple(sorted({**dict(self._options), **dict(more)}.items())))


class Compiled(_Stage):
    """An executable for one set of argument types; calling it never traces."""

    def __init__(self, *args: Any, executable: Executable | None = None):
        super().__init__(*args)
        self._executable = executable or program_executable(
            self._traced.program, self.fun_name, self._places(), self._donated_operands(), self._options,
            self._traced.out_shardings, len(self._traced.consts), f"jit `{self.fun_name}`")
        self._launcher = Launcher(self._executable, [to_array(c) for c in self._traced.consts], self.out_tree)

    def parts(self) -> CompiledParts:
        """The executable, the program, the arguments and the captured arrays."""
        consts = [to_array(c) for c in self._traced.consts]
        return CompiledParts(self._executable, self._traced.program, self._arguments, consts)

    def compiled_again(self) -> xla.Executable:
        """The loaded program, compiled by XLA: one that was loaded from bytes cannot be written to bytes again."""
        module, device = program_module(self._traced.program, self.fun_name, self._places(), self._donated_operands(),
                                        self._traced.out_shardings, len(self._traced.consts))
        return xla.compile(device.client, module.text, [device], options=dict(self._options))

    def __call__(self, *args: object, **kwargs: object) -> PyTree:
        leaves, tree = flatten((args, kwargs))
        caller = f"compiled `{self.fun_name}`"
        if tree != self.in_tree:
            raise bad(caller, "called with another structure of arguments than it was compiled for",
                      given=tree_mismatch("arguments", self.in_tree, tree), fix="compile it again for these arguments.")
        arrays = [to_array(x) for x in leaves]
        for x, (aval, *_) in zip(arrays, self._arguments, strict=True):
            if x.aval.strong() is not aval.strong():
                raise bad(caller, "called with an argument of another type than compiled for",
                          given={"compiled for": aval.str_short(), "given": x.aval.str_short()},
                          fix="compile it again for these arguments, or call the jitted function.")
        self._check_places(caller, arrays)
        return self._launcher(arrays)

    def _check_places(self, caller: str, arrays: Sequence[Array]) -> None:
        """Raise ValueError for an argument whose placement is not that for which the program was compiled."""
        places = self._launcher.argument_places()
        if all([x._place is p for x, p in zip(arrays, places, strict=True)]):
            return
        read = inputs_read(self._traced.program)[len(self._traced.consts):]
        for i, (x, sharding) in enumerate(zip(arrays, map(sharding_of, places), strict=True)):
            given = x.sharding.with_memory_kind(None)           # an argument in another memory is copied
            if x.committed and read[i] and not given.is_equivalent_to(sharding, x.aval.ndim):
                name = f"argument {leaf_of_arguments(self.in_tree, i)}"
                raise bad(caller, "an argument has another sharding than the program was compiled for",
                          given={name: x.aval.str_short(), "its sharding": x.sharding, "compiled for": sharding},
                          fix="move it with xjax.device_put(x, compiled.input_shardings...), or compile again for it.",
                          exc=ValueError)

    def runtime_executable(self) -> xla.Executable:
        """The jaxlib object of the executable."""
        return self._executable.loaded

    def as_text(self) -> str:
        """The optimised program in HLO text."""
        return self._executable.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of flops and bytes accessed."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> MemoryStats:
        """Bytes of arguments, outputs, temporaries and code: fields such as `temp_size_in_bytes`."""
        return self._executable.memory_analysis()

    @property
    def input_shardings(self) -> PyTree:
        """Shardings of the arguments, as (args, kwargs)."""
        return tree_unflatten(self.in_tree, self._launcher.argument_shardings())

    @property
    def output_shardings(self) -> PyTree:
        return tree_unflatten(self.out_tree, self._executable.out_shardings)

    @property
    def input_formats(self) -> PyTree:
        """Layouts, all row-major, and shardings of the arguments, as (args, kwargs)."""
        avals = [a for a, *_ in self._arguments]
        return tree_unflatten(self.in_tree, _formats(avals, self._launcher.argument_shardings()))

    @property
    def output_formats(self) -> PyTree:
        """Layouts, all row-major, and shardings of the results."""
        return tree_unflatten(self.out_tree, _formats(self._executable.out_avals, self._executable.out_shardings))


def _formats(avals: Sequence[ShapedArray], shardings: Sequence[Sharding]) -> list[Format]:
    return [Format(Layout.row_major(a.ndim), s) for a, s in zip(avals, shardings, strict=True)]


def _trace(fun: Callable, static_argnums: int | Sequence[int], args: tuple, kwargs: dict,
           caller: str, axes: Sequence[Axis] = ()) -> tuple[ClosedJaxpr, Any, Uses | None]:
    static = StaticArguments(fun, static_argnums, None, transform=caller)
    args, kwargs, key = static.take_out(args, kwargs)
    leaves, tree = flatten((args, kwargs))
    flat = flatten_function(static.put_back(fun, key), tree, keywords=True,
                            caller=f"{caller} of `{function_name(fun)}`")
    avals = argument_types(flat.caller, fun, leaves, tree, static.nums, abstract)
    names = [f"argument `{n}`" for n in leaf_names(fun, *skeleton(tree), static.nums)]
    with axes_in_scope(*axes):
        closed, uses = stage_with_refs(flat, avals, flat.caller, names)
    return closed, flat.out_tree, uses


def _results(closed: ClosedJaxpr, uses: Uses | None) -> tuple[ShapedArray, ...]:
    """The types of the results of the function."""
    avals = closed.out_avals
    return avals if uses is None else avals[uses.written:len(avals) - len(uses.arguments)]


def _named_axes(axis_env: Sequence[tuple[AxisName, int]] | None) -> list[Axis]:
    """The axes of `make_jaxpr(axis_env=)`. Raises: ValueError unless it is a sequence of pairs, TypeError for sizes."""
    try:
        pairs = [(name, size) for name, size in axis_env or ()]
    except (TypeError, ValueError):
        raise bad("make_jaxpr", "axis_env must be a sequence of (name, size) pairs",
                  {"axis_env": repr(axis_env)}, 'write axis_env=[("i", 4)].', exc=ValueError) from None
    return [Axis(name, static_int(size, "axis_env", "make_jaxpr"), None) for name, size in pairs]


def make_jaxpr(fun: Callable, static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[AxisName, int]] | None = None, return_shape: bool = False) -> Callable:
    """Return a function that returns the program of `fun` for its arguments (arrays or `ShapeDtypeStruct`s).

    Args:
      static_argnums: positions of static arguments.
      axis_env: pairs (name, size) of mapped axes that `fun` may name in collectives: ``[("i", 4)]``.
      return_shape: whether to also return a `ShapeDtypeStruct` for each array, in the structure of the result.

    The value of a ref that `fun` uses is an input of the program; a new value of it is a result.

    >>> print(xjax.make_jaxpr(lambda x: x * 2)(1.0))
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    """
    axes = _named_axes(axis_env)

    @functools.wraps(fun)
    @bounded
    def make_jaxpr_f(*args: object, **kwargs: object) -> ClosedJaxpr | tuple[ClosedJaxpr, PyTree]:
        closed, out_tree, uses = _trace(fun, static_argnums, args, kwargs, "make_jaxpr", axes)
        outs = _results(closed, uses)
        closed = with_inner_consts(closed)
        if return_shape:
            return closed, tree_unflatten(out_tree, [ShapeDtypeStruct.of(a) for a in outs])
        return closed

    return make_jaxpr_f


@api_boundary
def eval_shape(fun: Callable, *args: object, **kwargs: object) -> PyTree:
    """Shapes and dtypes of `fun(*args)` without computing it.

    >>> xjax.eval_shape(lambda x: x @ x.T, xjax.ShapeDtypeStruct((2, 3), "float32"))
    ShapeDtypeStruct(shape=(2, 2), dtype=float32)

    A `ShapeDtypeStruct` returned by `fun` is part of the result. So are the `out_shardings` of a jitted function.
    """
    if hasattr(fun, "eval_shape"):
        return fun.eval_shape(*args, **kwargs)
    structs, tree = [], None                    # None in place of an array: a traced value must not be kept

    @functools.wraps(fun)
    def arrays(*args: object, **kwargs: object) -> list[Any]:
        nonlocal structs, tree
        leaves, tree = flatten(fun(*args, **kwargs))
        structs = [x if isinstance(x, ShapeDtypeStruct) else None for x in leaves]
        return [x for x in leaves if not isinstance(x, ShapeDtypeStruct)]

    closed, _, uses = _trace(arrays, (), args, kwargs, "eval_shape")
    computed = iter(_results(closed, uses))
    return tree_unflatten(tree, [ShapeDtypeStruct.of(next(computed)) if x is None else x for x in structs])
