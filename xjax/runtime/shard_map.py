"""`shard_map`: run a function on each device's shards of arrays; its primitive and the rules of transforms.

The body is a program on local shapes in which the manual axes of the mesh are named, so collectives work. Along the
other axes the body is an ordinary program on whole arrays, which the compiler shards; a shard_map inside the body can
make some of them manual. Derivatives and batched forms are again shard_maps, of the transformed body.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from xjax.core.calls import bounded, flatten_function, function_name
from xjax.core.context import Axis, axes_in_scope, context
from xjax.core.errors import bad
from xjax.core.flags import Flags, flagged, unflagged
from xjax.core.hlo import Builder, Value, return_text, tensor_type
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, program_cache
from xjax.core.lowering import lower_closed
from xjax.core.primitive import Primitive
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, flatten_axes, leaf_paths, tree_unflatten
from xjax.core.types import ShapedArray, Vma, number_of, typeof
from xjax.ops.collectives import MeshAxes, psum_p
from xjax.ops.elementwise import div
from xjax.ops.pvary import cast_outputs
from xjax.ops.shape import reshape
from xjax.runtime.arrays.array import Array, put
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.placement.abstract_mesh import AbstractMesh
from xjax.runtime.placement.current_mesh import devices_for, manual_around, mesh_to_map_over, region_mesh
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.placement.places import check_same_devices
from xjax.runtime.placement.sharding import NamedSharding
from xjax.runtime.programs.executable import compile_sharded, program_executable
from xjax.runtime.programs.launch import Executable
from xjax.runtime.sharding_constraint import refuse_mesh_axes
from xjax.transforms.batching import MappedAxis, axes_used, batch_program
from xjax.transforms.call_rules import CallRules
from xjax.transforms.linearize import linearize_program
from xjax.transforms.transpose import transpose_program
from xjax.typing import ArrayLike, PyTree

Specs = tuple[PartitionSpec, ...]


def shard_map(f: Callable | None = None, /, *, out_specs: PyTree, in_specs: PyTree,
              mesh: Mesh | AbstractMesh | None = None, axis_names: Collection[Any] = (),
              check_vma: bool = True) -> Callable:
    """Map `f` over the shards of its arguments on the devices of `mesh`.

    Args:
      in_specs, out_specs: a `PartitionSpec` of manual axes for each argument and result, or tree prefixes of them. If
        the spec of a result omits an axis, the result must be equal on all devices along it. None in in_specs is P():
        each device gets the whole argument.
      mesh: by default the mesh of the enclosing shard_map, else the current mesh of `set_mesh` or `with mesh:` at the
        time of the call. The devices of an `AbstractMesh` are those of the first argument over such a mesh, or those
        of the current mesh.
      axis_names: the mesh axes that are manual in `f`; by default all that are not manual already. Along the others
        `f` gets whole arrays, and the compiler shards them.
      check_vma: whether types inside `f` record the axes along which values vary (`xjax.typeof(x).vma`). Derivatives
        inside `f` are then those of the whole arrays, and a result that should be equal on devices but varies raises an
        error. Otherwise nothing is checked, and a derivative inside `f` is that of the device's own part of the sum.

    Raises:
      ValueError: if a dimension cannot be split evenly over its devices, or there is no mesh; if a spec has an axis
        that is not manual; if a result has no spec, or varies along a manual axis that its spec omits.
      TypeError: for a spec that is not a `PartitionSpec`.
    """
    if f is None:
        return functools.partial(shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_vma,
                                 axis_names=axis_names)
    name = f"shard_map of `{function_name(f)}`"

    @functools.wraps(f)
    @bounded
    def mapped(*args: object) -> PyTree:
        region = _region(name, mesh, axis_names, check_vma)
        leaves, tree = flatten(args)
        specs = _specs_of(f"{name}: in_specs", "argument", tree, tuple(in_specs) if isinstance(in_specs, list)
                          else in_specs, PartitionSpec())
        _check_axes(f"{name}: in_specs", specs, region, "argument", tree)
        avals = [typeof(x) for x in leaves]
        _check_ranks(f"{name}: in_specs", avals, specs, "argument", tree,
                     "use at most one entry for each axis of the array.")
        flat = flatten_function(f, tree, caller=name)
        local = [local_type(a, s, region, name) for a, s in zip(avals, specs, strict=True)]
        with region.scope():
            closed = trace_to_jaxpr(flat, local, name)
            outs = _specs_of(f"{name}: out_specs", "result", flat.out_tree, out_specs)
            _check_axes(f"{name}: out_specs", outs, region, "result", flat.out_tree)
            _check_ranks(f"{name}: out_specs", closed.out_avals, outs, "result", flat.out_tree,
                         "return x[None], which the spec then concatenates; or combine the values of the devices, for "
                         "instance with lax.psum, and use a shorter spec.")
            if check_vma:
                _check_results(name, closed.out_avals, outs, region, flat.out_tree)
                closed = cast_outputs(closed, tuple([_axes_of(s) | a.vma for s, a in zip(outs, closed.out_avals,
                                                                                        strict=True)]))
        return tree_unflatten(flat.out_tree, bind_shard_map(closed, leaves, region, specs, outs))

    return mapped


class Region(NamedTuple):
    """The scope of a shard_map's body: a mesh, the axes that it makes manual, and whether types are checked."""

    mesh: Mesh | AbstractMesh
    manual: frozenset
    check_vma: bool = False

    @classmethod
    def of(cls, params: dict) -> Region:
        return cls(params["mesh"], params["newly_manual_axes"], params["check_vma"])

    @classmethod
    def whole(cls, mesh: Mesh) -> Region:
        """All axes of the mesh, without checks, as in `pmap`."""
        return cls(mesh, frozenset(mesh.axis_names))

    def scope(self) -> axes_in_scope:
        return axes_in_scope(*[Axis(name, self.mesh.shape[name], self.mesh, self.check_vma) for name in self.in_order])

    @property
    def in_order(self) -> tuple:
        """The manual axes in the order of the mesh."""
        return tuple(a for a in self.mesh.axis_names if a in self.manual)


def _region(caller: str, mesh: Mesh | AbstractMesh | None, axis_names: Collection[Any], check_vma: bool) -> Region:
    around = manual_around()
    outer = region_mesh()
    if outer is None:
        mesh = mesh_to_map_over(caller, mesh)
    elif mesh is None or mesh == outer or (isinstance(mesh, AbstractMesh) and mesh.shape_tuple == outer.shape_tuple):
        mesh = outer
    else:
        raise bad(caller, "a shard_map inside another one, or inside a pmap, must use the same mesh",
                  given={"outer mesh": repr(outer), "inner mesh": repr(mesh)},
                  fix="drop mesh=, and use axis_names= with axes that are not manual in the outer one.", exc=ValueError)
    taken = {axis.name for axis in around}
    manual = frozenset(axis_names) or frozenset(mesh.axis_names) - taken
    unknown = manual.difference(mesh.axis_names)
    if unknown:
        raise bad(caller, f"axis_names has {', '.join(sorted(map(repr, unknown)))}, which the mesh does not have",
                  given={"mesh": repr(mesh)}, fix="use axes of the mesh.", exc=ValueError)
    if manual & taken or not manual:
        raise bad(caller, "the axes are already manual in the enclosing shard_map or pmap",
                  given={"axis_names": ", ".join(sorted(map(repr, manual))) or "all", "mesh": repr(mesh),
                         "already manual": ", ".join(map(repr, (a.name for a in around)))},
                  fix="call the function directly, use vmap for the inner map, or use fewer axes in the axis_names= of "
                      "the outer one.", exc=ValueError)
    return Region(mesh, manual, check_vma)


def _axes_of(spec: PartitionSpec) -> Vma:
    return frozenset(spec.all_axes())


def _specs_of(caller: str, what: str, tree: PyTree, specs: PyTree, default: PartitionSpec | None = None) -> Specs:
    """A spec for each leaf, `default` for None."""
    specs = [default if s is None else s for s in flatten_axes(caller, tree, specs)]
    if not all(isinstance(s, PartitionSpec) for s in specs):
        wrong = {path: repr(s) for path, s in zip(leaf_paths(what, tree), specs, strict=True)
                 if not isinstance(s, PartitionSpec)}
        raise bad(caller, "a spec is not a PartitionSpec", given=wrong,
                  fix="write P('i') for an array that is split along the mesh axis 'i', P() for one that is not.",
                  exc=ValueError if None in specs else TypeError)
    return tuple(specs)


def _check_axes(caller: str, specs: Specs, region: Region, what: str, tree: PyTree) -> None:
    """Raise if a spec has an axis that is not manual."""
    others = {a for s in specs for a in s.all_axes()} - region.manual
    if not others:
        return
    paths = [path for path, s in zip(leaf_paths(what, tree), specs, strict=True) if others & _axes_of(s)]
    given = {"for": ", ".join(paths), "manual": ", ".join(map(repr, region.in_order)), "mesh": repr(region.mesh)}
    unknown = others.difference(region.mesh.axis_names)
    axes = ", ".join(sorted(map(repr, unknown or others)))
    if unknown:
        raise bad(caller, f"a spec has an axis that the mesh does not have: {axes}", given=given,
                  fix="use axes of the mesh, or drop the axis: each device then gets the whole array.", exc=ValueError)
    raise bad(caller, f"a spec has an axis that is not manual: {axes}", given=given,
              fix=f"drop {axes} from the specs, since the compiler shards along it; or add it to axis_names.",
              exc=ValueError)


def _check_ranks(caller: str, avals: Sequence[ShapedArray], specs: Specs, what: str, tree: PyTree, fix: str) -> None:
    """Raise if a spec has more entries than its array has axes."""
    if all(len(s) <= a.ndim for a, s in zip(avals, specs, strict=True)):
        return
    wrong = {path: f"{a.str_short()}, spec {s!r}"
             for path, a, s in zip(leaf_paths(what, tree), avals, specs, strict=True) if len(s) > a.ndim}
    raise bad(caller, "a spec has more entries than its array has axes", given=wrong, fix=fix, exc=ValueError)


def _check_results(caller: str, avals: Sequence[ShapedArray], specs: Specs, region: Region, tree: PyTree) -> None:
    """Raise if a result varies along an axis that its spec omits, along which it must be equal on all devices."""
    wrong: dict[str, str] = {}
    first: Any = None
    for path, aval, spec in zip(leaf_paths("result", tree), avals, specs, strict=True):
        excess = [a for a in region.in_order if a in aval.vma - _axes_of(spec)]
        if excess:
            first = excess[0] if first is None else first
            wrong[path] = f"{aval.str_short()}, spec {spec!r}, varies along {', '.join(map(repr, excess))}"
    if wrong:
        raise bad(caller, "a result varies along a mesh axis that its spec in out_specs omits",
                  given=wrong,
                  fix=f"combine the values of the devices, for instance with lax.psum(x, {first!r}) or lax.pmean; or "
                      "add the axis to the spec, which concatenates the values.", exc=ValueError)


def local_type(aval: ShapedArray, spec: PartitionSpec, region: Region, caller: str) -> ShapedArray:
    """Type of the shard on one device."""
    mesh = region.mesh
    shape = []
    for i, n in enumerate(aval.shape):
        parts = math.prod(mesh.shape[a] for a in spec.axes(i))
        if n % parts:
            raise bad(caller, f"axis {i} of size {n} cannot be split evenly over {parts} devices",
                      given={"array": aval.str_short(), "spec": repr(spec), "mesh": repr(mesh)},
                      fix=f"pad axis {i} to {-(-n // parts) * parts}, or leave it unsharded with None in the spec.",
                      exc=ValueError)
        shape.append(n // parts)
    return aval.update(shape=tuple(shape), vma=aval.vma | _axes_of(spec) if region.check_vma else aval.vma)


def global_type(aval: ShapedArray, spec: PartitionSpec, region: Region) -> ShapedArray:
    """Type of the whole array, from the type of a shard."""
    shape = tuple(n * math.prod(region.mesh.shape[a] for a in spec.axes(i)) for i, n in enumerate(aval.shape))
    return aval.update(shape=shape, vma=aval.vma - region.manual)


def bind_shard_map(closed: ClosedJaxpr, args: Sequence[Any], region: Region, in_specs: Sequence[PartitionSpec],
                   out_specs: Sequence[PartitionSpec]) -> list[Any]:
    """Apply a body; its constants become arguments that are replicated on all devices."""
    closed, consts = hoist_consts(closed)
    specs = (PartitionSpec(),) * len(consts) + tuple(in_specs)
    return shard_map_p.bind(*consts, *args, **_params(closed, region, specs, tuple(out_specs)))


def _params(closed: ClosedJaxpr, region: Region, in_specs: Specs, out_specs: Specs) -> dict[str, Any]:
    return {"mesh": region.mesh, "in_specs": in_specs, "out_specs": out_specs, "jaxpr": closed,
            "check_vma": region.check_vma, "newly_manual_axes": region.manual}


# -- type, lowering, execution ------------------------------------------------------------------------------------

def _type(*avals, out_specs, jaxpr, **params):
    region = Region.of(params)
    return tuple(global_type(a, s, region) for a, s in zip(jaxpr.out_avals, out_specs, strict=True))


def _lower(b: Builder, outs, *xs: Value, mesh: Mesh, in_specs: Specs, out_specs: Specs, jaxpr, check_vma,
           newly_manual_axes):
    region = Region(mesh, newly_manual_axes)
    name = b.module.mesh(mesh)
    axes_inside = _axes_inside(b.axes, region, name)
    if mesh.size == 1 and b.axes is None:   # inlined; XLA would keep the region if it has effects
        b.axes = axes_inside
        try:
            return lower_closed(b, jaxpr, xs)
        finally:
            b.axes = None
    inner = Builder(b.module, axes_inside, b.level + 1)
    params = [Value(f"%{b.module.number()}", a.plain) for a in jaxpr.in_avals]
    token = b.token if "ordered" in jaxpr.effects else None
    if token is not None:                   # each device gets the token and returns one for its own calls
        xs, outs = (*xs, token), [*outs, token.aval]
        in_specs, out_specs = (*in_specs, PartitionSpec()), (*out_specs, PartitionSpec())
        inner.token = Value(f"%{b.module.number()}", token.aval)
        params.append(inner.token)
    results = lower_closed(inner, jaxpr, params[:len(jaxpr.in_avals)])
    if token is not None:
        results = [*results, inner.token]
    is_open = b.axes is not None or len(newly_manual_axes) < len(mesh.axis_names)

    def texts(specs: Specs, values: Sequence[Any]) -> str:
        return ", ".join(NamedSharding(mesh, s).sdy_text(v.aval.ndim, name, is_open).removeprefix("#sdy.sharding")
                         for s, v in zip(specs, values, strict=True))

    head = ", ".join(f"{p.name}: {p.type}" for p in params)
    body = "\n".join([*inner.lines, return_text("sdy.return", results)])
    types = ", ".join(tensor_type(a) for a in outs)
    axes = ", ".join(f'"{mesh.sdy_names[a]}"' for a in region.in_order)
    values = b.ops(f"sdy.manual_computation({', '.join(x.name for x in xs)}) in_shardings=[{texts(in_specs, params)}] "
                  f"out_shardings=[{texts(out_specs, results)}] manual_axes={{{axes}}} ({head}) {{\n{body}\n}} : "
                  f"({', '.join(x.type for x in xs)}) -> ({types})", outs)
    if token is not None:
        *values, b.token = values
    return values


def _axes_inside(around: MeshAxes | None, region: Region, mesh_name: str) -> MeshAxes:
    mesh = region.mesh
    manual = region.manual if around is None else region.manual | around.manual
    return MeshAxes(mesh.axis_names, mesh.axis_sizes, manual, mesh_name, tuple(mesh.sdy_names.values()))


def executable_of(closed: ClosedJaxpr, mesh: Mesh, in_specs: Specs, out_specs: Specs, name: str = "shard_map",
                  donated: tuple[bool, ...] = (), check_vma: bool = False,
                  check: Callable = check_same_devices) -> Executable:
    """Executable of a shard_map over all axes of a mesh; cached on the body.

    Its arguments and results are sharded as in the specs.

    Args:
      check: called as ``check(name, "argument", x, sharding)`` for an argument with another placement; may raise.
    """
    key = ("shard_map executable", mesh, in_specs, out_specs, donated, check)
    executable = closed.memo.get(key)
    if executable is None:
        program = program_of(closed, Region.whole(mesh)._replace(check_vma=check_vma), in_specs, out_specs)
        executable = closed.memo[key] = compile_sharded(
            program, name, mesh, [NamedSharding(mesh, s) for s in in_specs],
            [NamedSharding(mesh, s) for s in out_specs], donated)

        def admit(x: Array, sharding: NamedSharding) -> Array:
            check(name, "argument", x, sharding)
            return put(x, sharding)

        executable.admit = admit
    return executable


def program_of(closed: ClosedJaxpr, region: Region, in_specs: Specs, out_specs: Specs) -> ClosedJaxpr:
    """A program that is one shard_map of a body without constants, from whole arrays to whole arrays."""
    params = _params(closed, region, in_specs, out_specs)
    invars = [Var(global_type(a, s, region)) for a, s in zip(closed.in_avals, in_specs, strict=True)]
    outvars = [Var(a) for a in _type(**params)]
    return ClosedJaxpr(Jaxpr((), invars, [Eqn(invars, outvars, shard_map_p, params)], outvars))


def _evaluate(*args, mesh, in_specs, out_specs, jaxpr, check_vma, newly_manual_axes):
    arrays = [to_array(x) for x in args]
    mesh = devices_for("shard_map", mesh, [x.sharding for x in arrays])
    if len(newly_manual_axes) == len(mesh.axis_names):
        return executable_of(jaxpr, mesh, in_specs, out_specs, check_vma=check_vma)(arrays)
    key = ("shard_map program", mesh, in_specs, out_specs, newly_manual_axes)
    program = jaxpr.memo.get(key)
    if program is None:
        region = Region(mesh, newly_manual_axes, check_vma)
        program = jaxpr.memo[key] = program_of(jaxpr, region, in_specs, out_specs)
    # Along the axes that are not manual, the arguments keep their shardings.
    return program_executable(program, "shard_map", [x._place for x in arrays])(arrays)


# -- derivatives and batching -------------------------------------------------------------------------------------

class _ShardMapRules(CallRules):
    """A device-varying residual leaves the body with a new leading axis, sharded over the manual axes."""

    def scope(self, params):
        return Region.of(params).scope()

    def _bind(self, program, args, params, in_specs, out_specs):
        return bind_shard_map(program, args, Region.of(params), in_specs, out_specs)

    def bind_jvp(self, program, args, params, nonzero, has):
        ins, outs = params["in_specs"], params["out_specs"]
        return self._bind(program, args, params, [*ins, *flagged(ins, nonzero)], [*outs, *flagged(outs, has)])

    def linearized(self, program, active, params):
        lin = linearize_program(program, active)
        return lin._replace(forward=_wrap_outputs(lin.forward, len(program.out_avals)),
                            tangent=_wrap_inputs(lin.tangent, tuple(k is None for k in lin.forwarded)))

    def bind_forward(self, lin, args, params):
        outs = params["out_specs"]
        residuals = _residual_specs(lin.forward.out_avals[len(outs):], params)
        return self._bind(lin.forward, args, params, params["in_specs"], [*outs, *residuals])

    def bind_tangent(self, lin, args, params, active):
        ins = params["in_specs"]
        computed = _residual_specs(lin.tangent.in_avals, params)
        residuals = [computed[i] if k is None else ins[k] for i, k in enumerate(lin.forwarded)]
        return self._bind(lin.tangent, args, params, [*residuals, *flagged(ins, active)],
                          flagged(params["out_specs"], lin.nonzero))

    def split_of(self, program, tangent, params):
        split = super().split_of(program, tangent, params)
        n = split.from_tangent.count(False)
        return split._replace(known=_wrap_outputs(split.known, n),
                              unknown=_wrap_inputs(split.unknown, (True,) * (len(split.known.out_avals) - n)))

    def bind_known(self, cut, args, params, tangent):
        outs = unflagged(params["out_specs"], cut.from_tangent)
        residuals = _residual_specs(cut.known.out_avals[len(outs):], params)
        return self._bind(cut.known, args, params, unflagged(params["in_specs"], tangent), [*outs, *residuals])

    def bind_unknown(self, cut, args, params, tangent):
        residuals = _residual_specs(cut.unknown.in_avals[:len(args) - tangent.count(True)], params)
        return self._bind(cut.unknown, args, params, [*residuals, *flagged(params["in_specs"], tangent)],
                          flagged(params["out_specs"], cut.from_tangent))

    def transposed_of(self, program, linear, nonzero, params):
        if params["check_vma"]:             # by their types, shared values have shared cotangents
            return transpose_program(program, linear, nonzero)
        return _transposed_body(program, linear, nonzero, Region.of(params), params["in_specs"], params["out_specs"],
                                _set_apart(params))

    def bind_transposed(self, program, args, params, linear, nonzero, has):
        ins, outs = params["in_specs"], params["out_specs"]
        return self._bind(program, args, params, [*unflagged(ins, linear), *flagged(outs, nonzero)],
                          flagged(flagged(ins, linear), has))

    def batch(self, axis, args, bdims, **params):
        mesh_axes = tuple(a for a in axis.mesh_axes if a in params["newly_manual_axes"])
        mapped = axis.mapped if not mesh_axes else _mapped_on_device(axis.mapped, mesh_axes, params)
        with self.scope(params):
            program, out_dims = batch_program(params["jaxpr"], mapped, tuple(bdims))
        specs = [[_insert(s, b, mesh_axes) for s, b in zip(given, dims, strict=True)]
                 for given, dims in ((params["in_specs"], bdims), (params["out_specs"], out_dims))]
        return self._bind(program, args, params, *specs), out_dims


def _residual_specs(avals: Sequence[ShapedArray], params: dict) -> list[PartitionSpec]:
    """The specs of residuals: rows sharded over the axes along which they vary; over all manual axes, if unknown."""
    apart = _set_apart(params)
    axes = tuple(a for a in Region.of(params).in_order if a not in apart)
    return [PartitionSpec(tuple(a for a in axes if a in aval.vma) or None if params["check_vma"] else axes)
            for aval in avals]


@program_cache
def _wrap_outputs(closed: ClosedJaxpr, first: int) -> ClosedJaxpr:
    """The program with a leading axis of size 1 added to its results, from position `first` on."""
    def run(*args: ArrayLike) -> list[Any]:
        outs = closed(*args)
        return [*outs[:first], *[reshape(x, (1, *typeof(x).shape)) for x in outs[first:]]]
    return trace_to_jaxpr(run, closed.in_avals, "linearize")


@program_cache
def _wrap_inputs(closed: ClosedJaxpr, stacked: Flags) -> ClosedJaxpr:
    """The program with the leading axis of size 1 removed from its flagged leading inputs."""
    flags = [*stacked, *[False] * (len(closed.in_avals) - len(stacked))]

    def run(*args: ArrayLike) -> list[Any]:
        return closed(*[reshape(x, typeof(x).shape[1:]) if flag else x for x, flag in zip(args, flags, strict=True)])

    avals = [a.update(shape=(1, *a.shape)) if flag else a for a, flag in zip(closed.in_avals, flags, strict=True)]
    return trace_to_jaxpr(run, avals, "linearize")


@program_cache
def _transposed_body(jaxpr: ClosedJaxpr, linear: Flags, nonzero: Flags, region: Region, in_specs: Specs,
                     out_specs: Specs, apart: frozenset) -> tuple[ClosedJaxpr, Flags]:
    """The transposed body: the cotangent of a shared result is divided among the devices, that of an argument summed.

    Args: apart: mesh axes along which the devices compute independently.
    """
    region = region._replace(manual=region.manual - apart)
    transposed, has = transpose_program(jaxpr, linear, nonzero)
    ct_specs, specs_out = flagged(out_specs, nonzero), flagged(flagged(in_specs, linear), has)

    def run(*args: ArrayLike) -> list[Any]:
        k = linear.count(False)
        shares = [_share(ct, region, s) for ct, s in zip(args[k:], ct_specs, strict=True)]
        return [_total(ct, region, s) for ct, s in zip(transposed(*args[:k], *shares), specs_out, strict=True)]

    return trace_to_jaxpr(run, transposed.in_avals, "transpose"), has


def _set_apart(params: dict) -> frozenset:
    """Mesh axes over which enclosing `vmap`s shard mapped axes, and along which the body does not communicate."""
    spread = frozenset(a for axis in context.axes for a in axis.mesh_axes)
    return spread.difference(axes_used(shard_map_p, params)) if spread else spread


def _unused_axes(region: Region, spec: PartitionSpec) -> tuple:
    used = spec.all_axes()
    return tuple(a for a in region.in_order if a not in used and region.mesh.shape[a] > 1)


def _share(ct: Any, region: Region, spec: PartitionSpec) -> Any:
    n = math.prod(region.mesh.shape[a] for a in _unused_axes(region, spec))
    return ct if n == 1 else div(ct, number_of(typeof(ct).dtype, n))


def _total(ct: Any, region: Region, spec: PartitionSpec) -> Any:
    axes = _unused_axes(region, spec)
    return psum_p.bind(ct, axes=axes, axis_index_groups=None)[0] if axes else ct


def _mapped_on_device(mapped: MappedAxis, axes: tuple, params: dict) -> MappedAxis:
    """The part of a mapped axis on each device, if `spmd_axis_name` shards it over manual axes of the mesh.

    Raises: ValueError if the shard_map uses these axes in its specs or communicates along them; NotImplementedError if
      it communicates along the mapped axis.
    """
    mesh = params["mesh"]
    given = {"spmd_axis_name": ", ".join(map(repr, axes)), "mesh": repr(mesh)}
    refuse_mesh_axes("shard_map", axes, [*params["in_specs"], *params["out_specs"]])
    NamedSharding(mesh, PartitionSpec(axes)).check_even((mapped.size,), "shard_map", "mapped axis")
    used = axes_used(shard_map_p, params)
    if not used.isdisjoint(axes):
        raise bad("shard_map", "a function communicates along a mesh axis over which vmap shards the mapped axis",
                  given, "use another mesh axis in spmd_axis_name.", exc=ValueError)
    if mapped.name in used:
        raise bad("shard_map", f"a function communicates along the axis {mapped.name!r} of vmap, which is sharded over "
                  "the mesh", given, "drop spmd_axis_name.", exc=NotImplementedError)
    return mapped._replace(size=mapped.size // math.prod(mesh.shape[a] for a in axes))


def _insert(spec: PartitionSpec, bdim: int | None, mesh_axes: tuple = ()) -> PartitionSpec:
    """The spec of an array with an additional axis at `bdim`, sharded over `mesh_axes`."""
    if bdim is None or (bdim >= len(spec) and not mesh_axes):
        return spec
    parts = [*spec, *[None] * (bdim - len(spec))]
    return PartitionSpec(*parts[:bdim], mesh_axes, *parts[bdim:])


shard_map_p = Primitive("shard_map", type_rule=_type, lower=_lower, evaluate=_evaluate, **_ShardMapRules().fields())
