"""Names of JAX's public modules that xjax does not have, on purpose: one table, for errors, the docs and the tests."""

from __future__ import annotations

_MUTABLE = "mutable arrays are not in scope: pass arrays in and return them"
_SHARDED_TYPES = ("types do not carry shardings here: the compiler chooses them, from those of the arguments and "
                  "with_sharding_constraint; manual code is shard_map's")
_INTERNAL = "part of JAX's private extension surface"
_TOKENS = "tokens order effects inside JAX; here the order of callbacks is kept by `ordered=True`"
_PRIMITIVE = "an object of JAX's implementation, under another name here or fused into another operation"
_TPU = "for TPU kernels only"

# module -> reason -> names
LEFT_OUT: dict[str, dict[str, tuple[str, ...]]] = {
    "xjax": {
        _MUTABLE: ("Ref", "ref", "new_ref", "empty_ref", "free_ref", "freeze", "ds"),
        "programs are not saved and loaded: `jit(f).lower(x).as_text()` is the program as text": ("export",),
        "what xjax does, it tells the logger `xjax`: see the options log_compiles and explain_cache_misses":
            ("monitoring",),
        "`shard_map` maps over all axes of a mesh at once": ("smap",),
        _INTERNAL: ("ad", "api_util", "ffi", "interpreters", "lib", "make_user_context"),
        "there is no converter to TensorFlow": ("jax2tf_associative_scan_reductions",),
    },
    "xjax.errors": {
        "shapes are not symbolic": ("InconclusiveDimensionOperation",),
        _PRIMITIVE: ("JaxprTypeError",),
    },
    "xjax.debug": {
        "the compiler chooses it after tracing: look at x.sharding of a result, or at output_shardings of a compiled "
        "function": ("inspect_array_sharding",),
        _PRIMITIVE: ("DebugEffect", "OrderedDebugEffect"),
    },
    "xjax.lax": {
        _MUTABLE: ("dce_sink", "dce_sink_p"),
        _SHARDED_TYPES: ("pcast",),
        _TOKENS: ("after_all", "after_all_p", "create_token", "create_token_p"),
        _TPU: ("psend", "precv"),
        "it chooses among approximations that only TPUs have": ("AccuracyMode", "Tolerance"),
        "XLA has it for GPUs and TPUs only: all_gather the rows, and scatter those meant for this device":
            ("ragged_all_to_all", "ragged_all_to_all_p"),
        _PRIMITIVE: ("eq_to_p", "le_to_p", "lt_to_p", "device_put_p", "select_and_scatter_p"),
    },
    "xjax.nn": {
        "it needs cuDNN's kernels for Blackwell GPUs: lax.scaled_dot has the arithmetic":
            ("get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"),
    },
    "xjax.custom_derivatives": {_PRIMITIVE: ("remat_opt_p",)},
}


def reason(module: str, name: str) -> str | None:
    """Why a module has no such name, None where nothing is known of it."""
    return next((why for why, names in LEFT_OUT.get(module, {}).items() if name in names), None)


def as_markdown() -> str:
    """The table for docs/left_out.md."""
    lines = ["# Names that are left out", "",
             "Every public name of JAX 0.10.2 in the modules that xjax has is there, but for these.", "",
             "| module | names | reason |", "|---|---|---|"]
    lines += [f"| `{module}` | {', '.join(f'`{name}`' for name in names)} | {why}. |"
              for module, groups in LEFT_OUT.items() for why, names in groups.items()]
    return "\n".join(lines) + "\n"
