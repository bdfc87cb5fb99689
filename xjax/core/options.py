"""The table of options: every name of `jax.config`, with its type, default and meaning.

There are three kinds of rows. Most options have an effect. A few configure a feature that this library does not have:
they accept only their default, and the error for any other value contains the reason (`only_default`). The other
options tune parts of JAX without a counterpart here; they can be read and set, so that scripts run, but have no effect
(`unused`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xjax.core.errors import bad, did_you_mean


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table: name without prefix, kind of value, default, meaning."""

    name: str
    kind: str  # "bool", "int", "float", "str", "choice", "parts" (some of `choices`), "device", "any"
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    optional: bool = False  # None is allowed and means "not set"
    block: bool = False  # there is a context manager `xjax.<name>(value)`
    traced: bool = False  # changes traced programs: part of every cache key
    start_up: bool = False  # fixed once a backend runs
    parts: tuple[str, ...] = ()  # options that are set together with this option
    only_default: str = ""  # the reason why no other value is accepted
    unused: str = ""  # the reason why the option has no effect

    @property
    def env(self) -> tuple[str, str]:
        """The environment variables that set this option; the first variable that is set has priority."""
        return f"XJAX_{self.name.upper()}", f"JAX_{self.name.upper()}"

    def check(self, value: object, caller: str) -> object:
        """The value to store. Raises: TypeError or ValueError that names the option."""
        if self.kind == "any" or (value is None and self.optional):
            return value
        if not self._fits(value):
            raise bad(caller, f"jax_{self.name} cannot be set to a {type(value).__name__}", {"value": repr(value)},
                      f"pass {self._allowed()}.")
        if self.kind == "parts":
            return self._parts(str(value), caller)
        if self.choices and value not in self.choices:
            raise bad(caller, f"jax_{self.name} has no choice {value!r}", {"choices": ", ".join(self.choices)},
                      did_you_mean(value, self.choices) or f"pass {self._allowed()}.", ValueError)
        if self.only_default and value != self.default:
            raise bad(caller, f"jax_{self.name} cannot be {value!r}: {self.only_default}",
                      fix=f"leave it at {self.default!r}.", exc=ValueError)
        return value

    def _parts(self, text: str, caller: str) -> str:
        """The chosen parts in the order of the table: "index,nan"; all for "1" or "all", none for "0" or ""."""
        names = [name.strip() for name in text.split(",")]
        if len(names) == 1 and names[0].lower() in (*_TRUE, *_FALSE, "all", ""):
            return ",".join(self.choices) if names[0].lower() in (*_TRUE, "all") else ""
        for name in names:
            if name not in self.choices:
                raise bad(caller, f"jax_{self.name} has no part {name!r}", {"parts": ", ".join(self.choices)},
                          did_you_mean(name, self.choices) or "pass some of them, separated by commas; 1 for all.",
                          ValueError)
        return ",".join(name for name in self.choices if name in names)

    def _fits(self, value: object) -> bool:
        if self.kind == "device":
            return isinstance(value, str) or hasattr(value, "platform")
        if self.kind in ("int", "float"):
            numbers = (int,) if self.kind == "int" else (int, float)
            return isinstance(value, numbers) and not isinstance(value, bool)
        return isinstance(value, bool if self.kind == "bool" else str)

    def parse(self, text: str, variable: str) -> object:
        """The value of an environment variable. Raises: ValueError that names the variable."""
        text, where = text.strip(), f"environment variable {variable}"
        if self.kind == "any":
            return _literal(text)
        if self.kind == "bool":
            if text.lower() in _TRUE or text.lower() in _FALSE:
                return self.check(text.lower() in _TRUE, where)
        elif self.kind in ("int", "float"):
            if re.fullmatch(r"[+-]?\d+" if self.kind == "int" else r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text):
                return self.check(int(text) if self.kind == "int" else float(text), where)
        else:
            return None if self.optional and text.lower() in ("", "none") else self.check(text, where)
        raise bad(where, f"{text!r} is not {_KIND_TEXT[self.kind]}",
                  fix=f"set it to {'1 or 0' if self.kind == 'bool' else 'digits only'}, or unset it.", exc=ValueError)

    def _allowed(self) -> str:
        text = "one of " + ", ".join(map(repr, self.choices)) if self.choices else ""
        return (text or _KIND_TEXT[self.kind]) + (" or None" if self.optional else "")


_TRUE = frozenset({"y", "yes", "t", "true", "on", "1"})
_FALSE = frozenset({"n", "no", "f", "false", "off", "0"})
_KIND_TEXT = {"bool": "True or False", "int": "an integer", "float": "a number", "str": "a string",
              "choice": "a string", "parts": "names separated by commas",
              "device": "a device or the name of a platform", "any": "any value"}


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


# The names of lax.Precision and of lax.DotAlgorithmPreset.
_PRECISIONS = (
    "default", "high", "highest", "bfloat16", "tensorfloat32", "float32", "ANY_F8_ANY_F8_F32",
    "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32",
    "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "TF32_TF32_F32",
    "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64")
_GUARDS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
_DIRECTIONS = ("transfer_guard_host_to_device", "transfer_guard_device_to_device", "transfer_guard_device_to_host")

_TABLE = (
    # Numbers and types
    Option("enable_x64", "bool", False, "keep 64-bit types; off: they become 32-bit", block=True, traced=True),
    Option("explicit_x64_dtypes", "choice", "warn", "a 64-bit dtype is named while enable_x64 is off: 32 bits and a "
           "warning, an error, or 64 bits",
           choices=("warn", "error", "allow"), traced=True),
    Option("allow_f16_reductions", "bool", True, "sums of float16 and bfloat16 in their own dtype (lax.reduce_sum, and "
           "derivatives of broadcasting); False: an error", block=True, traced=True),
    Option("numpy_rank_promotion", "choice", "allow", "broadcasting of arrays of different rank",
           choices=("allow", "warn", "raise"), block=True, traced=True),
    Option("numpy_dtype_promotion", "choice", "standard", "'strict': operations on different dtypes are errors",
           choices=("standard", "strict"), block=True, traced=True),
    Option("default_matmul_precision", "choice", None, "precision of products and convolutions without `precision=`",
           choices=_PRECISIONS, optional=True, block=True, traced=True),
    # Random numbers
    Option("default_prng_impl", "choice", "threefry2x32", "generator of new keys",
           choices=("threefry2x32", "rbg", "unsafe_rbg"), block=True, traced=True),
    Option("threefry_partitionable", "bool", True, "each random bit depends only on its key and position", block=True,
           traced=True),
    Option("high_dynamic_range_gumbel", "bool", False, "random.gumbel draws two numbers per sample, as with "
           "mode='high'", traced=True),
    Option("random_seed_offset", "int", 0, "added to every seed of random.key and random.PRNGKey", traced=True),
    Option("enable_custom_prng", "bool", False, "random.PRNGKey returns typed keys", block=True, traced=True),
    Option("legacy_prng_key", "choice", "allow", "use of the raw words of keys, uint32[..., n], as keys",
           choices=("allow", "warn", "error"), block=True, traced=True),
    Option("debug_key_reuse", "bool", False, "raise where a key is used twice", block=True,
           only_default="xjax.checking('keys') does it"),
    # Devices and programs
    Option("platforms", "str", None, "platforms to start, comma-separated; the first is the default",
           optional=True, start_up=True),
    Option("num_cpu_devices", "int", -1, "number of CPU devices to create; -1: as in XLA_FLAGS, else 1", start_up=True),
    Option("cpu_enable_async_dispatch", "bool", True, "a CPU program may still run when its call returns",
           start_up=True),
    Option("default_device", "device", None, "device of new arrays, and of computations on uncommitted arrays",
           optional=True, block=True, traced=True),
    Option("disable_jit", "bool", False, "run jitted functions and control flow operation by operation", block=True,
           traced=True),
    Option("disable_most_optimizations", "bool", False, "compile faster, but to slower programs", traced=True),
    Option("no_tracing", "bool", False, "a jitted function that must be traced raises RuntimeError", block=True),
    Option("only_first_traces", "bool", False, "a jitted function that must be traced again raises RuntimeError"),
    Option("no_execution", "bool", False, "running an operation or a program raises RuntimeError", block=True,
           traced=True),
    Option("compiled_memory_limit", "int", 256 << 20,
           "estimated bytes of memory that compiled programs may use; the least recently used are dropped. "
           "-1: no bound"),
    # Debugging
    Option("debug_nans", "bool", False, "raise where a NaN is computed, with the operation and the line", block=True,
           traced=True),
    Option("debug_infs", "bool", False, "raise where an infinity is computed, with the operation and the line",
           block=True, traced=True),
    Option("check", "parts", "", "checked mode: raise at an index out of bounds, a NaN or infinity, a key used twice, "
           "an integer that overflows; see `xjax.checking`", choices=("index", "nan", "keys", "ints"), traced=True),
    Option("check_tracer_leaks", "bool", False, "a traced value that outlives its function is an error that names "
           "its holder", block=True),
    Option("enable_checks", "bool", False, "check that every traced program is well formed", block=True),
    Option("traceback_filtering", "choice", "auto", "'off' keeps this library's frames in the tracebacks of errors",
           choices=("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto")),
    Option("transfer_guard", "choice", None, "all three kinds of transfers together", choices=_GUARDS, optional=True,
           block=True, parts=_DIRECTIONS),
    Option(_DIRECTIONS[0], "choice", None, "NumPy arrays and numbers that become arrays on a device", choices=_GUARDS,
           optional=True, block=True),
    Option(_DIRECTIONS[1], "choice", None, "arrays that move between devices", choices=_GUARDS, optional=True,
           block=True),
    Option(_DIRECTIONS[2], "choice", None, "arrays that are read by Python: float(x), numpy.asarray(x), print(x)",
           choices=_GUARDS, optional=True, block=True),
    Option("captured_constants_warn_bytes", "int", 2_000_000_000,
           "warn if a jitted function captures arrays of more bytes than this; -1: never"),
    # Logging
    Option("log_compiles", "bool", False, "log each trace and compilation as a warning: function, types, time",
           block=True),
    Option("explain_cache_misses", "bool", False, "log why a jitted function was traced again", block=True),
    Option("log_checkpoint_residuals", "bool", False, "log the saved residuals of each checkpoint as a warning"),
    Option("logging_level", "choice", "NOTSET", "level of the logger 'xjax'",
           choices=("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    Option("dump_ir_to", "str", "", "folder in which every compiled program is saved as StableHLO text"),
    # Programs kept on disk
    Option("enable_compilation_cache", "bool", True, "keep compiled programs on disk"),
    Option("cache_compiled_functions", "bool", False,
           "keep jitted and mapped functions on disk too, not only single operations"),
    Option("compilation_cache_dir", "str", None, "folder of the cache on disk", optional=True),
    Option("compilation_cache_max_size", "int", -1, "bytes that the folder may hold; -1: 512 MiB"),
    Option("persistent_cache_min_compile_time_secs", "float", 0.0, "programs that compile faster are not kept"),
    Option("persistent_cache_min_entry_size_bytes", "int", 0, "smaller programs are not kept"),
    Option("raise_persistent_cache_errors", "bool", False, "errors of the cache are raised instead of warned about"),
)

# JAX's options without effect here, by reason: name -> JAX's default.
_UNUSED: dict[str, dict[str, Any]] = {
    "softmax always has its own derivative rule": {"softmax_custom_jvp": False},
    "programs are printed without colours": {"pprint_use_color": True},
    "linearize, scan and custom derivatives have one implementation": {
        "use_direct_linearize": True, "custom_jvp3": False, "custom_vjp3": False, "remat3": False, "scan3": False,
        "remat_barrier_no_cotangents": False, "use_rgv3": True,
        "disable_bwd_checks": False, "auto_pcast": True, "refs_to_pins": False, "mutable_array_checks": True,
        "disable_vmap_shmap_error": False, "disallow_mesh_context_manager": False,
        "remove_size_one_mesh_axis_from_type": False, "use_simplified_jaxpr_constants": False,
        "check_static_indices": False, "thread_guard": False},
    "locations in programs are the user's file and line": {
        "include_full_tracebacks_in_locations": True, "traceback_in_locations_limit": 100,
        "tracer_error_num_traceback_frames": 5, "hlo_source_file_canonicalization_regex": None,
        "source_url_schema": None, "captured_constants_report_frames": 0, "include_debug_info_in_dumps": True,
        "dump_ir_modes": "stablehlo", "send_traceback_to_runtime": "off", "debug_log_modules": "",
        "compiler_detailed_logging_min_ops": 10},
    "compiled code is chosen by disable_most_optimizations, XLA_FLAGS and jit(compiler_options=)": {
        "optimization_level": "UNKNOWN", "memory_fitting_level": "O2", "memory_fitting_effort": 0.0,
        "exec_time_optimization_effort": 0.0, "compiler_enable_remat_pass": True, "embedded_constants_max_bytes": 32,
        "use_shardy_partitioner": True, "xla_profile_version": 0,
        "threefry_gpu_kernel_lowering": False, "bcoo_cusparse_lowering": False, "use_magma": "auto",
        "ragged_dot_use_ragged_dot_instruction": True, "ragged_dot_use_gpu_pallas_triton_lowering": False,
        "experimental_unsafe_xla_runtime_errors": False, "accurate_erf_inv": False, "use_hlo_logistic_lowering": None},
    "entries of the cache on disk depend on the program text alone": {
        "compilation_cache_include_metadata_in_key": False, "compilation_cache_check_contents": False,
        "compilation_cache_expect_pgle": False, "remove_custom_partitioning_ptr_from_cache_key": False,
        "persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir"},
    "programs are not recompiled from profiles": {
        "enable_pgle": False, "pgle_aggregation_percentile": 90, "pgle_profiling_runs": 3},
    "arrays hold no reference cycles": {"array_garbage_collection_guard": None},
    "errors inside compiled programs are not collected": {
        "error_checking_behavior_nan": "ignore", "error_checking_behavior_oob": "ignore",
        "error_checking_behavior_divide": "ignore"},
    "there are no Pallas kernels": {
        "mosaic_allow_hlo": False, "pallas_use_mosaic_gpu": True, "pallas_enable_debug_checks": False,
        "pallas_poison_buffers": False, "pallas_verbose_errors": False, "use_emit_pipeline_primitive": False,
        "mosaic_unzip_debug_locations": True, "pallas_auto_assign_collective_ids": "no",
        "pallas_auto_assign_collective_ids_limit": 25},
    "ppermute accepts its pairs in any order": {"raise_on_ppermute_sort_diff": True},
    "programs are not exported in JAX's format": {
        "export_calling_convention_version": 10, "export_ignore_forward_compatibility": False,
        "export_deserialize_expired_versions": False,
        "serialization_version": 0},
    "the option platforms selects clients; distributed.initialize configures runs of several processes": {
        "backend_target": "", "xla_backend": "", "check_proxy_envs": True, "cuda_visible_devices": "all",
        "rocm_visible_devices": "all", "oneapi_visible_devices": "all", "mock_gpu_topology": "",
        "pjrt_client_create_options": None, "cpu_collectives_implementation": "gloo",
        "cpu_get_global_topology_timeout_minutes": 5, "cpu_get_local_topology_timeout_minutes": 2,
        "cross_host_transfer_socket_address": "", "cross_host_transfer_timeout_seconds": None,
        "cross_host_transfer_transfer_size": None, "cross_host_transport_addresses": "",
        "debug_leaked_clients_on_clear_backends": False, "distributed_debug": False,
        "distributed_verify_secure_credentials": False, "mtls_ca_file": None, "mtls_cert_file": None,
        "mtls_key_file": None, "mtls_peer_uri_prefix": None, "use_cpp_shard_args": False,
        "enable_preemption_service": True, "enable_recoverability": False, "force_dcn_cross_host_transfers": False,
        "share_binary_between_hosts": False, "share_binary_between_hosts_timeout_ms": 1200000,
        "sort_devices_by_process_index": True},
}


# The options without effect for which JAX has a context manager.
_UNUSED_BLOCKS = frozenset({"array_garbage_collection_guard", "auto_pcast",
                            "remove_size_one_mesh_axis_from_type", "softmax_custom_jvp", "thread_guard"})


def _rows() -> Iterator[Option]:
    yield from _TABLE
    for reason, names in _UNUSED.items():
        for name, default in names.items():
            yield Option(name, "any", default, f"no effect here: {reason}", block=name in _UNUSED_BLOCKS,
                         unused=reason)


OPTIONS: Mapping[str, Option] = {option.name: option for option in _rows()}


def as_markdown() -> str:
    """The table for docs/options.md."""
    head = (
        "# Options\n\nRead an option as `xjax.config.<name>`; set it for the process with "
        "`xjax.config.update(name, value)` or by an\nenvironment variable (`XJAX_<NAME>`, else `JAX_<NAME>`). "
        "If the third column is yes, set it for a block in one thread\nby `with xjax.<name>(value):`. Every name may "
        "have the prefix `jax_`.\n")
    lines = [head, "| option | default | block | values | meaning |", "|---|---|---|---|---|"]
    for o in _TABLE:
        values = " ".join(f"`{c}`" for c in o.choices[:6]) + (" ..." if len(o.choices) > 6 else "")
        note = f" Fixed: {o.only_default}." if o.only_default else " Before the first use of a device." * o.start_up
        lines.append(f"| `{o.name}` | `{o.default!r}` | {'yes' if o.block else ''} | {values or o.kind} "
                     f"| {o.doc}.{note} |")
    lines += ["", "## Without effect", "",
              "These options of JAX can be read and set, so that scripts run, but have no effect.", "",
              "| reason | options |", "|---|---|"]
    lines += [f"| {reason} | {', '.join(f'`{n}`' for n in names)} |" for reason, names in _UNUSED.items()]
    return "\n".join(lines) + "\n"
