"""Names of JAX that xjax does not have, and deliberate differences from JAX: tables for errors, docs and tests."""

from __future__ import annotations

from collections.abc import Iterable

_MUTABLE = "programs have the values of refs as inputs and results, not the refs"
_SHARDED_TYPES = ("types do not contain shardings here: the compiler chooses them, from the shardings of the arguments "
                  "and with_sharding_constraint; for manual code use shard_map")
_INTERNAL = "part of JAX's private extension surface"
_TOKENS = "tokens order effects inside JAX; here `ordered=True` keeps the order of callbacks"
_PRIMITIVE = "an object of JAX's implementation; here it has another name or is part of another operation"
_TPU = "for TPU kernels only"
_ASYNC = "asynchronous collectives are for GPUs and TPUs: the compiler overlaps collectives with other work itself"
_KERNELS = "kernels for GPUs and TPUs are not in scope: operations are lowered to XLA"
_METADATA = "hints to the compiler's scheduler have no effect on CPUs"
_BCOO = "the only sparse format is BCOO, for any number of dimensions; xnn.CSR is a matrix by rows"
_PRESENT = "here it is a detail of the implementation"

# Whole modules -> reason. Their submodules are left out too.
MODULES_LEFT_OUT: dict[str, str] = {
    "xjax.api_util": _INTERNAL,
    "xjax.cloud_tpu_init": _TPU,
    "xjax.collect_profile": "a program that needs TensorBoard's profiler: xjax.profiler.trace writes the files for it",
    "xjax.example_libraries": "`xnn.stax` and `xnn.optimizers` are these modules",
    "xjax.experimental.array_serialization": "arrays are saved by orbax or numpy.save",
    "xjax.experimental.buffer_callback": "XLA's buffers are not accessible: pure_callback passes arrays",
    "xjax.experimental.colocated_python": "for Pathways, a runtime for many hosts with TPUs",
    "xjax.experimental.control_deps": _METADATA,
    "xjax.experimental.custom_partitioning": "the compiler's partitioner cannot be extended: use shard_map",
    "xjax.experimental.fused": _PRIMITIVE,
    "xjax.experimental.jax2tf": "there is no converter to TensorFlow",
    "xjax.experimental.key_reuse": "the option debug_key_reuse and checks of keys are not part of types",
    "xjax.experimental.mosaic": _KERNELS,
    "xjax.experimental.overlap": _METADATA,
    "xjax.experimental.pallas": _KERNELS,
    "xjax.experimental.profiler": "it reads profiles of GPUs for the compiler",
    "xjax.experimental.random": "keys are passed explicitly: random.split",
    "xjax.experimental.rnn": "it needs cuDNN: use lax.scan over a cell",
    "xjax.experimental.roofline": "jit(f).lower(x).compile().cost_analysis() counts operations and bytes",
    "xjax.experimental.scheduling_groups": _METADATA,
    "xjax.experimental.shard_alike": "the compiler chooses shardings: set them by with_sharding_constraint",
    "xjax.experimental.source_mapper": _INTERNAL,
    **{f"xjax.experimental.sparse.{name}": "a file of JAX's implementation: its public names are in "
       "xjax.experimental.sparse" for name in ("ad", "api", "bcoo", "random", "test_util", "transform", "util")},
    **{f"xjax.experimental.sparse.{name}": _BCOO for name in ("bcsr", "coo", "csr")},
    "xjax.experimental.sparse.linalg": "scipy.sparse.linalg has solvers for functions, such as lambda x: m @ x",
    "xjax.experimental.thunky": _KERNELS,
    "xjax.experimental.topologies": "programs are compiled for existing devices only",
    "xjax.experimental.transfer": "collectives pass arrays between processes",
    "xjax.extend": _INTERNAL,
    "xjax.interpreters": _INTERNAL,
    "xjax.lib": _INTERNAL,
    "xjax.tools": "jit(f).lower(x).as_text() is the program as text",
}

# module -> reason -> names
LEFT_OUT: dict[str, dict[str, tuple[str, ...]]] = {
    "xjax": {
        "`shard_map(f, axis_names={axis})` with specs is the same": ("smap",),
        "XLA's flag sets it: compiler_options={'xla_backend_optimization_level': 1}": ("CompilerEffortLevel",),
        _INTERNAL: ("ad", "make_user_context"),
        "there is no converter to TensorFlow": ("jax2tf_associative_scan_reductions",),
    },
    "xjax.core": {
        _PRIMITIVE: ("AbstractValue", "ParamDict", "Value", "eval_context"),
    },
    "xjax.errors": {
        _PRIMITIVE: ("JaxprTypeError",),
    },
    "xjax.experimental": {
        _INTERNAL: ("EArray", "cur_qdd", "primal_tangent_dtype"),
    },
    "xjax.experimental.hijax": {
        "values of hijax types are not traced: register a pytree": (
            "AvalMutableQDD", "AvalQDD", "GradAccum", "NullAccum", "RefAccum", "ValAccum", "bdims_at_front",
            "jvp_from_lin", "linearize_from_jvp", "unmap_avals", "vjp_from_jvp", "vjp_from_lin", "vmap_rule"),
    },
    "xjax.experimental.jet": {
        _PRESENT: ("jet_fun", "jet_subtrace", "traceable"),
    },
    "xjax.experimental.layout": {
        "types do not contain layouts: with_layout_constraint sets the layout of a value": ("explicit_layout",),
    },
    "xjax.experimental.mesh_utils": {
        "meshes over slices of TPUs": ("create_hybrid_device_mesh", "device_kind_handler_dict"),
    },
    "xjax.experimental.multihost_utils": {
        "a job whose processes fail is started again by its launcher": ("live_devices", "ProcessFailureError"),
        "values are moved between processes outside programs": (
            "global_array_to_host_local_array_p", "host_local_array_to_global_array_p"),
        _PRESENT: ("global_array_to_host_local_array_impl", "gtl_abstract_eval",
                   "host_local_array_to_global_array_impl", "ltg_abstract_eval", "ltg_batcher"),
    },
    "xjax.experimental.ode": {
        _PRESENT: ("abs2", "fit_4th_order_polynomial", "initial_step_size", "interp_fit_dopri", "map",
                   "mean_error_ratio", "optimal_step_size", "ravel_first_arg", "ravel_first_arg_", "runge_kutta_step",
                   "zip"),
    },
    "xjax.experimental.sparse": {
        _BCOO: ("BCSR", "COO", "CSC", "CSR", "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general",
                "bcsr_extract", "bcsr_fromdense", "bcsr_sum_duplicates", "bcsr_todense", "coo_fromdense", "coo_matmat",
                "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense"),
        _PRIMITIVE: tuple(f"{name}_p" for name in (
            "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_extract", "bcoo_fromdense", "bcoo_sort_indices",
            "bcoo_spdot_general", "bcoo_sum_duplicates", "bcoo_todense", "bcoo_transpose", "bcsr_dot_general",
            "bcsr_extract", "bcsr_fromdense", "bcsr_todense", "coo_fromdense", "coo_matmat", "coo_matvec",
            "coo_todense", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense")),
        "functions of the dense array, or of m.data, have these derivatives": ("jacfwd", "jacobian", "jacrev"),
        "functions of the entries compute it: see m.data and m.indices": (
            "bcoo_conv_general_dilated", "bcoo_dot_general_sampled", "bcoo_extract", "bcoo_gather", "random_bcoo"),
    },
    "xjax.experimental.xla_metadata": {
        "hints for TPUs: xla_metadata_call attaches any attribute": (
            "fuse_limit", "must_fuse_call", "xla_metadata_call2"),
    },
    "xjax.debug": {
        _PRIMITIVE: ("DebugEffect", "OrderedDebugEffect"),
    },
    "xjax.ffi": {
        "rules written with MLIR's bindings are for JAX's extension surface: they are in jax.ffi under install_as_jax":
            ("build_ffi_lowering_function", "ffi_lowering"),
        _TOKENS: ("abstract_token",),
        "jaxlib does not have it any more: register_ffi_type": ("register_ffi_type_id",),
    },
    "xjax.lax": {
        _MUTABLE: ("dce_sink", "dce_sink_p"),
        _TOKENS: ("after_all", "after_all_p", "create_token", "create_token_p"),
        _TPU: ("psend", "precv"),
        _ASYNC: ("psum_scatter_start",),
        "it selects an approximation; only TPUs have several": ("AccuracyMode", "Tolerance"),
        "XLA has it for GPUs and TPUs only: all_gather the rows, and scatter the rows for this device":
            ("ragged_all_to_all", "ragged_all_to_all_p"),
        _PRIMITIVE: ("eq_to_p", "le_to_p", "lt_to_p", "device_put_p", "select_and_scatter_p"),
    },
    "xjax.nn": {
        "it needs cuDNN's kernels for Blackwell GPUs: lax.scaled_dot has the arithmetic":
            ("get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"),
    },
    "xjax.sharding": {
        _SHARDED_TYPES: ("ManualAxisType", "auto_axes", "explicit_axes", "no_collectives"),
    },
    "xjax.custom_derivatives": {_PRIMITIVE: ("remat_opt_p",)},
}

# Names in these tables that only some versions of JAX have -> (since, until): version >= `since` and < `until`.
VERSIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("xjax.CompilerEffortLevel", "xjax.experimental.layout.explicit_layout", "xjax.ffi.abstract_token",
                     "xjax.experimental.xla_metadata.fuse_limit", "xjax.experimental.xla_metadata.must_fuse_call",
                     "xjax.experimental.xla_metadata.xla_metadata_call2",
                     "xjax.lax.psum_scatter_start", "xjax.sharding.no_collectives", "xjax.experimental.overlap",
                     "xjax.experimental.thunky",
                     *[f"xjax.experimental.hijax.{name}" for name in (
                         "GradAccum", "NullAccum", "RefAccum", "ValAccum", "bdims_at_front", "jvp_from_lin",
                         "linearize_from_jvp", "unmap_avals", "vjp_from_jvp", "vjp_from_lin", "vmap_rule")]),
                    ("0.12", "")),
    **dict.fromkeys(("xjax.lax.dce_sink_p", "xjax.lax.precv", "xjax.lax.psend", "xjax.experimental.cur_qdd",
                     "xjax.experimental.hijax.AvalMutableQDD", "xjax.experimental.hijax.AvalQDD",
                     "xjax.experimental.ode.ravel_first_arg_", "xjax.experimental.control_deps",
                     "xjax.experimental.shard_alike", "xjax.cloud_tpu_init"), ("", "0.12")),
}

# Names and arguments that JAX removed in a version, and xjax keeps.
KEPT: dict[str, str] = {
    "`make_mesh(axis_shapes=)`": "0.12: the name is `axis_sizes`",
    "`numpy.cross` of vectors of size 2": "0.12: an error",
}

# Deliberate differences between xjax and the newest JAX that are visible to programs.
DIFFERENCES: dict[str, str] = {
    "`make_mesh`, `Mesh`, `AbstractMesh`": "axes are automatic: the compiler places operations. In JAX 0.12 the "
        "axes of `make_mesh` and `AbstractMesh` are explicit: each operation's sharding is part of its type.",
    "`out_sharding=`": "the result is constrained to it, along any axes, and moved in eager execution; JAX accepts "
        "only explicit axes.",
    "`experimental.layout.Format` with a layout that is not row-major": "an error: arrays are always row-major; a "
        "value of a program can have another layout, by `with_layout_constraint`.",
    "`vmap` of `experimental.layout.with_layout_constraint`": "the mapped axis is the slowest, at any position; JAX "
        "orders the axes as if it were axis 0.",
    "operations of `experimental.sparse` on arrays with batch or dense dimensions": "these dimensions get indices; JAX "
        "has fewer operations, whose results keep them.",
    "`with mesh:`": "every PartitionSpec refers to this mesh, and `shard_map` maps over it; in JAX, only the "
        "PartitionSpec of `with_sharding_constraint`.",
    "`shard_map` without `mesh=`": "each call uses its current mesh; JAX keeps the mesh of the first call.",
    "`pmap` inside `with set_mesh(mesh):`": "runs; an error in JAX.",
    "a program under `set_mesh` whose arguments are committed to other devices": "runs on these devices; an error in "
        "JAX.",
    "`reshard` along automatic axes, `with_sharding_constraint(x, P(...))` of an array on one device": "the array is "
        "moved; both are errors in JAX.",
    "a sharding constraint over an abstract mesh in a program without known devices": "a ValueError; JAX ignores the "
        "constraint.",
    "a collective along the axis of `vmap(axis_name=, spmd_axis_name=)` in a `shard_map`": "an error; JAX combines "
        "only the elements of each device.",
    "`debug.print(ordered=True)` in a `jit` of arrays on several devices": "prints in order; an error in JAX.",
    "`make_jaxpr(f)(x)` of functions such as `numpy.where`, `numpy.var` and `numpy.take`": "their operations are in "
        "the program itself, so programs are smaller and traced faster; JAX puts them into a `jit` equation.",
    "`str(make_jaxpr(f)(x))` of `scan`, `map`, `fori_loop`": "the equation shows `num_carry` and `num_consts`, as in "
        "JAX 0.10; JAX 0.12 shows trees of its implementation, `ft_in` and `ft_out`.",
    "`jit(inline=Inline.XLA_EARLY)`, `XLA_LATE`": "an error: hints are not passed to XLA's inliner.",
    "`custom_gradient(with_logs=, remat=, with_accums=)`": "an error: the backward pass returns cotangents, and "
        "`checkpoint` recomputes a custom rule as a whole.",
    "`random.gamma`, `loggamma`, `beta`, `chisquare`, `poisson` with `method=\"approximate\"`": "an error: the exact "
        "samplers have no bias.",
    "`random.poisson` where rounding decides whether a number of a rate from 10 on is drawn again": "JAX's algorithm "
        "and bits, but a more exact `lgamma`: this number and others of its array may be other draws than JAX's.",
    "`numpy.power` of integers, with a negative number in a known exponent": "a TypeError, as in NumPy; JAX returns "
        "integers.",
    "`numpy.top_k(x, k, mode=\"smallest\")` of NaN": "NaN counts as the largest, whatever its sign bit.",
    "derivatives of `erf` and `erfc`": "one exponential of -x²; JAX 0.12 corrects it for the rounding of x², which "
        "matters where the derivative is below 1e-6.",
    "the gradients of norms and of `numpy.hypot` at the origin": "0; in JAX NaN, in JAX 0.10 0.5 for `hypot`.",
    "derivatives of `eigh` and `svd` where eigenvalues or singular values are equal or zero": "finite, and correct for "
        "functions that need no derivative of f within a block of equal values: see `lax.linalg.eigh`; NaN in JAX.",
    "derivatives of `scipy.linalg.polar`, `numpy.linalg.lstsq` at equal singular values": "correct; NaN in JAX.",
    "derivatives of `scipy.linalg.sqrtm` and `solve_sylvester`": "the derivatives of the equations that they "
        "solve; JAX has none.",
    "the gradient of `scipy.stats.cauchy.ppf` and `isf` at the median": "pi times the scale; JAX 0.12 has 0.",
    "NumPy scalars of 64 bits under `explicit_x64_dtypes=\"allow\"`": "`lax`, `jit` keep their 64 bits; JAX does not.",
    "a 64-bit array outside the `enable_x64` block that created it": "it keeps its 64 bits in more functions than in "
        "JAX (`numpy.linalg`, `fft`, `median` ...), its gradient has 64 bits too, and operations such as "
        "`x.at[i].set(1.0)` and `x @ x` do not round it; JAX rounds it to 32 bits there, or fails.",
    "`str(make_jaxpr(f)(x))` where a jitted function in a loop, a branch or `vmap` closed over an array": "the array "
        "is a constant of the whole program; in JAX it is a constant of the function's program.",
    "`memoryview(x)` before Python 3.12": "a TypeError: classes written in Python cannot export buffers there; "
        "`memoryview(numpy.asarray(x))` has the same memory.",
    "`str(make_jaxpr(f)(x))` of `lax.composite`": "the equation shows `jaxpr`, as in JAX 0.10; in JAX 0.12, "
        "`call_jaxpr`.",
    "gradient of `numpy.minmax` at ties": "equal elements share it equally, as in `min` and `max`.",
    "a donated or deleted array over several devices, used again": "a RuntimeError before the launch; JAX aborts the "
        "process if the array was donated to the same function.",
    "an array that a compiled function captured, and that is donated or deleted": "the next call is an error; JAX has "
        "copied the value into the program.",
    "a captured array on several devices": "it decides where a compiled function runs, if no argument does; JAX "
        "gathers it on one device.",
    "`device_put`, `numpy.zeros(device=)` and similar functions with a sharding, inside `jit`": "a constraint, which "
        "results keep; in JAX, results may lose it, and functions that create arrays ignore it.",
    "`vmap` of `device_put` with a sharding": "the sharding applies to each row; in JAX, to all rows together.",
    "`numpy.array(x, device=)`, `linspace(x, ..., device=)` of an array committed to another device": "the result is "
        "moved; an error in JAX.",
    "`numpy.from_dlpack(x)` of an array of the library itself": "the same memory, on its device; JAX copies it to "
        "device 0.",
    "NaN in `max`, `min` and functions built on them": "never lost; XLA on CPUs drops NaN for 4,096 or more elements.",
    "exceptions of functions on the host (`pure_callback`, `io_callback`, `debug.callback`)": "raised to the caller "
        "unchanged; in JAX a JaxRuntimeError with their text. In programs of several devices they end the launch; JAX "
        "hangs.",
    "host integers beyond 32 bits without jax_enable_x64": "an OverflowError; JAX wraps them.",
    "a constant index out of range": "an IndexError, as in NumPy; JAX clips it.",
}


def reason(module: str, name: str) -> str | None:
    """The reason why a module does not have this name; None if the name is not in the tables."""
    whole = MODULES_LEFT_OUT.get(f"{module}.{name}")
    return whole or next((why for why, names in LEFT_OUT.get(module, {}).items() if name in names), None)


def as_markdown() -> str:
    """The tables for docs/left_out.md."""
    lines = ["# Names of JAX that xjax lacks", "",
             'Every public name of JAX 0.12 and of JAX 0.10.2 exists here, except the names below. "(0.12)" marks new '
             'names of JAX 0.12, "(before 0.12)" names that were removed in 0.12.', "",
             *_table(("module", "names", "reason"), _rows()), "",
             "## Whole modules", "", *_table(("module", "reason"), _module_rows()), "",
             "## Names that JAX has removed", "",
             "xjax keeps these names; the version is the first version of JAX without them.", "",
             *_table(("name", "since"), KEPT.items()), "",
             "## Deliberate differences", "",
             "Results of programs that differ on purpose from the results of the newest JAX.", "",
             *_table(("program", "behaviour of xjax"), DIFFERENCES.items())]
    return "\n".join(lines) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]


def _rows() -> list[tuple[str, ...]]:
    return [(f"`{module}`", ", ".join(f"`{name}`{_version(f'{module}.{name}')}" for name in names), f"{why}.")
            for module, groups in LEFT_OUT.items() for why, names in groups.items()]


def _module_rows() -> list[tuple[str, ...]]:
    return [(f"`{module}`{_version(module)}", f"{why}.") for module, why in MODULES_LEFT_OUT.items()]


def _version(name: str) -> str:
    since, until = VERSIONS.get(name, ("", ""))
    return f" ({since})" if since else f" (before {until})" if until else ""
