"""`shard_map`: run a function on the parts of arrays that each device of a mesh holds; its primitive and its rules.

The body is a program of local shapes in which the mesh axes are named, so collectives work. Derivatives and batching
are again shard_maps, of the body's derivative and batched programs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from xjax.core.calls import flatten_function, function_name
from xjax.core.context import Axis, axes_in_scope, current_trace
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, return_text, tensor_type
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from xjax.core.lowering import lower_closed
from xjax.core.primitive import Primitive
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, flatten_axes, tree_unflatten
from xjax.core.types import ShapedArray, Zero, is_linear, typeof
from xjax.ops.collectives import MeshAxes, psum_p
from xjax.ops.elementwise import div
from xjax.ops.shape import reshape
from xjax.runtime.array import to_array
from xjax.runtime.executable import compile_sharded
from xjax.runtime.launch import Executable
from xjax.runtime.mesh import Mesh, PartitionSpec, current_mesh
from xjax.runtime.sharding import NamedSharding
from xjax.transforms.batching import batch_program
from xjax.transforms.jvp import jvp_program
from xjax.transforms.linearize import linearize_program
from xjax.transforms.transpose import transpose_program

Specs = tuple[PartitionSpec, ...]


def shard_map(f: Callable | None = None, /, *, out_specs: Any, in_specs: Any, mesh: Mesh | None = None,
              axis_names: Collection[Any] = (), check_vma: bool = True) -> Callable:
    """Map `f` over the parts of its arguments on the devices of `mesh`.

    Args:
      in_specs, out_specs: a `PartitionSpec` for each argument and result, or tree prefixes of them. A result whose spec
        leaves an axis out must be equal on all devices along it, which is not checked, with `check_vma` or without.
      mesh: by default that of `with mesh:` or `set_mesh`.
      axis_names: all axes of the mesh, or none, which means all.

    Raises: ValueError if a dimension is not divisible by the devices that cut it, or there is no mesh.
    """
    if f is None:
        return functools.partial(shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_vma,
                                 axis_names=axis_names)
    name = f"shard_map of `{function_name(f)}`"
    mesh = mesh or current_mesh()
    if mesh is None:
        raise bad(name, "there is no mesh", fix="pass mesh=, or call it inside `with mesh:`.", exc=ValueError)
    if axis_names and set(axis_names) != set(mesh.axis_names):
        raise bad(name, "the function is mapped over all axes of the mesh or none",
                  given={"axis_names": sorted(map(str, axis_names)), "mesh": repr(mesh)},
                  fix="name all axes; a spec that leaves one out keeps an array whole along it.",
                  exc=NotImplementedError)

    @functools.wraps(f)
    def mapped(*args: Any) -> Any:
        leaves, tree = flatten(args)
        specs = tuple(flatten_axes(f"{name}: in_specs", tree, tuple(in_specs) if isinstance(in_specs, list)
                                   else in_specs))
        flat = flatten_function(f, tree, where=name)
        local = [local_type(typeof(x), s, mesh, name) for x, s in zip(leaves, specs, strict=True)]
        closed = trace_body(flat, local, mesh, name)
        outs = tuple(flatten_axes(f"{name}: out_specs", flat.out_tree, out_specs))
        return tree_unflatten(flat.out_tree, bind_shard_map(closed, leaves, mesh, specs, outs))

    return mapped


def local_type(aval: ShapedArray, spec: PartitionSpec, mesh: Mesh, where: str) -> ShapedArray:
    """Type of the part that one device holds."""
    shape = []
    for i, n in enumerate(aval.shape):
        parts = math.prod(mesh.shape[a] for a in spec.axes(i))
        if n % parts:
            raise bad(where, f"axis {i} of size {n} cannot be cut into {parts} equal parts",
                      given={"array": aval.str_short(), "spec": repr(spec), "mesh": repr(mesh)},
                      fix=f"pad the axis to a multiple of {parts}.", exc=ValueError)
        shape.append(n // parts)
    return ShapedArray(tuple(shape), aval.dtype, aval.weak_type)


def global_type(aval: ShapedArray, spec: PartitionSpec, mesh: Mesh) -> ShapedArray:
    """Type of the whole array from the type of a part."""
    shape = tuple(n * math.prod(mesh.shape[a] for a in spec.axes(i)) for i, n in enumerate(aval.shape))
    return ShapedArray(shape, aval.dtype, aval.weak_type)


def mesh_scope(mesh: Mesh) -> axes_in_scope:
    return axes_in_scope(*[Axis(name, size, "mesh") for name, size in mesh.shape.items()])


def trace_body(flat: Callable, local: Sequence[ShapedArray], mesh: Mesh, where: str) -> ClosedJaxpr:
    """The body as a program, with the mesh axes named."""
    with mesh_scope(mesh):
        return trace_to_jaxpr(flat, local, where)


def bind_shard_map(closed: ClosedJaxpr, args: Sequence[Any], mesh: Mesh, in_specs: Sequence[PartitionSpec],
                   out_specs: Sequence[PartitionSpec]) -> list[Any]:
    """Apply a body; its constants become arguments that every device holds whole."""
    closed, consts = hoist_consts(closed)
    specs = (PartitionSpec(),) * len(consts) + tuple(in_specs)
    return shard_map_p.bind(*consts, *args, mesh=mesh, in_specs=specs, out_specs=tuple(out_specs), jaxpr=closed,
                            check_vma=False)


# -- type, lowering, execution ------------------------------------------------------------------------------------

def _type(*avals, mesh, in_specs, out_specs, jaxpr, check_vma):
    return tuple(global_type(a, s, mesh) for a, s in zip(jaxpr.out_avals, out_specs, strict=True))


def _lower(b: Builder, outs, *xs: Value, mesh: Mesh, in_specs: Specs, out_specs: Specs, jaxpr, check_vma):
    if b.axes is not None:
        raise bad("shard_map", "a pmap or shard_map inside another one", given={"inner mesh": repr(mesh)},
                  fix="use vmap for the inner map, or one shard_map over a mesh with both axes.",
                  exc=NotImplementedError)
    name = b.module.mesh(mesh)
    inner = Builder(b.module, MeshAxes(mesh.axis_names, mesh.axis_sizes), b.level + 1)
    params = [Value(f"%{b.module.number()}", a) for a in jaxpr.in_avals]
    results = lower_closed(inner, jaxpr, params)

    def texts(specs: Specs, values: Sequence[Any]) -> str:
        return ", ".join(NamedSharding(mesh, s).sdy_text(v.aval.ndim, name).removeprefix("#sdy.sharding")
                         for s, v in zip(specs, values, strict=True))

    axes = ", ".join(f'"{mesh.sdy_names[a]}"' for a in mesh.axis_names)
    head = ", ".join(f"{p.name}: {p.type}" for p in params)
    body = "\n".join([*inner.lines, return_text("sdy.return", results)])
    types = ", ".join(tensor_type(a) for a in outs)
    return b.ops(f"sdy.manual_computation({', '.join(x.name for x in xs)}) in_shardings=[{texts(in_specs, params)}] "
                 f"out_shardings=[{texts(out_specs, results)}] manual_axes={{{axes}}} ({head}) {{\n{body}\n}} : "
                 f"({', '.join(x.type for x in xs)}) -> ({types})", outs)


def executable_of(closed: ClosedJaxpr, mesh: Mesh, in_specs: Specs, out_specs: Specs, name: str = "shard_map",
                  donated: tuple[bool, ...] = ()) -> Executable:
    """Executable of one shard_map, its arguments and results cut as the specs say; remembered on the body."""
    key = ("shard_map executable", mesh, in_specs, out_specs, donated)
    found = closed.memo.get(key)
    if found is None:
        params = {"mesh": mesh, "in_specs": in_specs, "out_specs": out_specs, "jaxpr": closed, "check_vma": False}
        invars = [Var(global_type(a, s, mesh)) for a, s in zip(closed.in_avals, in_specs, strict=True)]
        outvars = [Var(a) for a in _type(**params)]
        program = ClosedJaxpr(Jaxpr((), invars, [Eqn(invars, outvars, shard_map_p, params)], outvars))
        found = closed.memo[key] = compile_sharded(
            program, name, mesh, [NamedSharding(mesh, s) for s in in_specs],
            [NamedSharding(mesh, s) for s in out_specs], donated)
    return found


def _evaluate(*args, mesh, in_specs, out_specs, jaxpr, check_vma):
    return executable_of(jaxpr, mesh, in_specs, out_specs)([to_array(x) for x in args])


# -- derivatives --------------------------------------------------------------------------------------------------

def _jvp(primals, tangents, *, mesh, in_specs, out_specs, jaxpr, check_vma):
    nonzero = tuple(type(dx) is not Zero for dx in tangents)
    with mesh_scope(mesh):
        program, has_tangent = jvp_program(jaxpr, nonzero, (False,) * len(out_specs))
    tangent_in = tuple(s for s, flag in zip(in_specs, nonzero, strict=True) if flag)
    tangent_out = tuple(s for s, flag in zip(out_specs, has_tangent, strict=True) if flag)
    outs = bind_shard_map(program, [*primals, *(dx for dx in tangents if type(dx) is not Zero)], mesh,
                          (*in_specs, *tangent_in), (*out_specs, *tangent_out))
    given = iter(outs[len(out_specs):])
    ys = outs[:len(out_specs)]
    return ys, [next(given) if flag else Zero(typeof(y).tangent()) for y, flag in zip(ys, has_tangent, strict=True)]


def _linearize(trace, primals, tangents, *, mesh, in_specs, out_specs, jaxpr, check_vma):
    active = tuple(type(dx) is not Zero for dx in tangents)
    with mesh_scope(mesh):
        lin = linearize_program(jaxpr, active)
    n = len(out_specs)
    every = PartitionSpec(tuple(mesh.axis_names))
    # A residual is local to its device: it leaves the body with a new leading axis that is cut over all devices.
    forward = _wrap_outputs(lin.forward, n, mesh)
    out = bind_shard_map(forward, primals, mesh, in_specs, (*out_specs, *[every] * (len(lin.forward.out_avals) - n)))
    computed = iter(out[n:])
    residuals = [next(computed) if k is None else primals[k] for k in lin.forwarded]
    residual_specs = [every if k is None else in_specs[k] for k in lin.forwarded]
    tangent = _wrap_inputs(lin.tangent, [k is None for k in lin.forwarded], mesh)
    specs = tuple(s for s, flag in zip(in_specs, active, strict=True) if flag)
    with current_trace(trace.tangent):
        given = iter(bind_shard_map(tangent, [*residuals, *(dx for dx in tangents if type(dx) is not Zero)], mesh,
                                    (*residual_specs, *specs),
                                    [s for s, flag in zip(out_specs, lin.nonzero, strict=True) if flag]))
    ys = out[:n]
    return ys, [next(given) if flag else Zero(typeof(y).tangent()) for y, flag in zip(ys, lin.nonzero, strict=True)]


def _wrap_outputs(closed: ClosedJaxpr, first: int, mesh: Mesh) -> ClosedJaxpr:
    """The program with a leading axis of size 1 added to its results from position `first` on."""
    found = closed.memo.get(("residuals out", first))
    if found is None:
        def run(*args: Any) -> list[Any]:
            outs = closed(*args)
            return [*outs[:first], *[reshape(x, (1, *typeof(x).shape)) for x in outs[first:]]]
        with mesh_scope(mesh):
            found = closed.memo["residuals out", first] = trace_to_jaxpr(run, closed.in_avals, "linearize")
    return found


def _wrap_inputs(closed: ClosedJaxpr, stacked: Sequence[bool], mesh: Mesh) -> ClosedJaxpr:
    """The program with the leading axis of size 1 dropped from its flagged leading inputs."""
    key = ("residuals in", tuple(stacked))
    found = closed.memo.get(key)
    if found is None:
        flags = [*stacked, *[False] * (len(closed.in_avals) - len(stacked))]

        def run(*args: Any) -> list[Any]:
            return closed(*[reshape(x, typeof(x).shape[1:]) if flag else x
                            for x, flag in zip(args, flags, strict=True)])

        avals = [ShapedArray((1, *a.shape), a.dtype) if flag else a
                 for a, flag in zip(closed.in_avals, flags, strict=True)]
        with mesh_scope(mesh):
            found = closed.memo[key] = trace_to_jaxpr(run, avals, "linearize")
    return found


def _transpose(cts, *args, mesh, in_specs, out_specs, jaxpr, check_vma):
    linear = tuple(is_linear(x) for x in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    with mesh_scope(mesh):
        program, specs_in, specs_out = _transposed_body(jaxpr, linear, nonzero, mesh, in_specs, out_specs)
    given = iter(bind_shard_map(program, [*(x for x in args if not is_linear(x)),
                                          *(ct for ct in cts if type(ct) is not Zero)], mesh, specs_in, specs_out))
    return [next(given) if lin else None for lin in linear]


def _transposed_body(jaxpr, linear, nonzero, mesh, in_specs, out_specs):
    """The transposed body: a result that devices share splits its cotangent among them, an argument sums it."""
    key = ("transposed", linear, nonzero, mesh, in_specs, out_specs)
    found = jaxpr.memo.get(key)
    if found is not None:
        return found
    transposed, _ = transpose_program(jaxpr, linear, nonzero, True)
    residual_specs = tuple(s for s, lin in zip(in_specs, linear, strict=True) if not lin)
    ct_specs = tuple(s for s, flag in zip(out_specs, nonzero, strict=True) if flag)
    specs_out = tuple(s for s, lin in zip(in_specs, linear, strict=True) if lin)

    def run(*args: Any) -> list[Any]:
        k = len(residual_specs)
        shares = [_share(ct, mesh, s) for ct, s in zip(args[k:], ct_specs, strict=True)]
        return [_total(ct, mesh, s) for ct, s in zip(transposed(*args[:k], *shares), specs_out, strict=True)]

    program = trace_to_jaxpr(run, transposed.in_avals, "transpose")
    found = jaxpr.memo[key] = program, (*residual_specs, *ct_specs), specs_out
    return found


def _unused_axes(mesh: Mesh, spec: PartitionSpec) -> tuple:
    used = spec.all_axes()
    return tuple(a for a in mesh.axis_names if a not in used and mesh.shape[a] > 1)


def _share(ct: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    n = math.prod(mesh.shape[a] for a in _unused_axes(mesh, spec))
    return ct if n == 1 else div(ct, typeof(ct).dtype.type(n))


def _total(ct: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    axes = _unused_axes(mesh, spec)
    return psum_p.bind(ct, axes=axes, axis_index_groups=None)[0] if axes else ct


# -- batching -----------------------------------------------------------------------------------------------------

def _batch(axis, args, bdims, *, mesh, in_specs, out_specs, jaxpr, check_vma):
    with mesh_scope(mesh):
        program, out_dims = batch_program(jaxpr, axis.size, axis.name, tuple(bdims))
    outs = bind_shard_map(program, args, mesh,
                          [_insert(s, b) for s, b in zip(in_specs, bdims, strict=True)],
                          [_insert(s, b) for s, b in zip(out_specs, out_dims, strict=True)])
    return outs, out_dims


def _insert(spec: PartitionSpec, bdim: int | None) -> PartitionSpec:
    """The spec of an array that has one more axis, not cut, at `bdim`."""
    if bdim is None or bdim >= len(spec):
        return spec
    parts = list(spec)
    return PartitionSpec(*parts[:bdim], None, *parts[bdim:])


shard_map_p = Primitive("shard_map", type_rule=_type, lower=_lower, jvp=_jvp, linearize=_linearize,
                        transpose=_transpose, batch=_batch, evaluate=_evaluate, multiple_results=True, cacheable=False)
