"""The table of values: the rows of all modules, and the functions that other tests cover."""

from __future__ import annotations

from tests.values import (
    fft,
    lax_combining,
    lax_control,
    lax_elementwise,
    lax_linalg,
    lax_structural,
    linalg,
    nn,
    numpy_creation,
    numpy_elementwise,
    numpy_indexing,
    numpy_order,
    numpy_poly,
    numpy_products,
    numpy_reductions,
    numpy_shapes,
    random,
    scipy_linalg,
    scipy_numeric,
    signal,
    small_modules,
    special,
    special_integrals,
    stats,
    stats_others,
    top_level,
)
from tests.values.row import FunctionRow

FILES = (numpy_elementwise, numpy_reductions, numpy_order, numpy_creation, numpy_shapes, numpy_indexing, numpy_products,
         numpy_poly, linalg, fft, lax_elementwise, lax_structural, lax_combining, lax_control, lax_linalg, nn, random,
         special, special_integrals, stats, stats_others, scipy_linalg, scipy_numeric, signal, small_modules, top_level)
ROWS: list[FunctionRow] = [row for file in FILES for row in file.ROWS]

# Functions without a row: some have no values to compare (the state of the process, files, printing); others have tests
# of their own against JAX and SciPy on fixed arrays. The test file -> their names.
_ELSEWHERE: dict[str, str] = {
    "tests/core/test_config.py": """array_garbage_collection_guard check_tracer_leaks debug_key_reuse default_device
        enable_custom_prng legacy_prng_key softmax_custom_jvp transfer_guard_device_to_device
        transfer_guard_device_to_host transfer_guard_host_to_device""",
    "tests/core/test_option_effects.py": """checking_leaks debug_infs debug_nans default_matmul_precision
        default_prng_impl disable_jit enable_checks enable_x64 explain_cache_misses log_compiles no_execution no_tracing
        numpy_dtype_promotion numpy_rank_promotion transfer_guard""",
    "tests/core/test_tree.py": """tree_util.is_tree_node tree_util.keystr tree_util.register_dataclass
        tree_util.register_pytree_node tree_util.register_pytree_node_class tree_util.register_pytree_with_keys
        tree_util.register_pytree_with_keys_class tree_util.register_static""",
    "tests/core/test_tree_misuse.py": "tree.static",
    "tests/experimental/test_checkify.py": """experimental.checkify.check experimental.checkify.check_error
        experimental.checkify.checkify experimental.checkify.debug_check""",
    "tests/numpy/test_files.py": "numpy.save numpy.savez numpy.load numpy.fromfile numpy.fromiter",
    "tests/random/test_streams.py": "threefry_partitionable",
    "tests/random/test_typed_keys.py": "random.Key",
    "tests/runtime/test_backend.py": """default_backend device_count devices local_device_count local_devices
        process_count process_index""",
    "tests/everyday/contexts.py": "ensure_compile_time_eval",
    "tests/runtime/test_breakpoint.py": "debug.breakpoint",
    "tests/runtime/test_callbacks.py": """debug.callback debug.log debug.print debug.visualize_array_sharding
        debug.visualize_sharding effects_barrier experimental.io_callback""",
    "tests/runtime/test_inspect_sharding.py": "debug.inspect_array_sharding",
    "tests/runtime/test_jit.py": "make_jaxpr",
    "tests/runtime/test_refs.py": "ds empty_ref free_ref freeze new_ref",
    "tests/runtime/test_retraces.py": "no_retrace",
    "tests/runtime/test_mesh_context.py": "get_abstract_mesh get_mesh",
    "tests/runtime/test_pmap.py": "lax.pbroadcast",                    # JAX cannot map it
    "tests/runtime/test_placement.py": """copy_to_host_async host_count host_id host_ids live_arrays
        make_array_from_callback make_array_from_process_local_data make_array_from_single_device_arrays make_mesh
        print_environment_info process_indices lax.with_sharding_constraint
        experimental.mesh_utils.create_device_mesh""",
    "tests/test_left_out.py": "lax.DotDimensionNumbers stages.CompilerOptions tree_util.KeyPath",
    "tests/test_namespaces.py": "clear_caches",
    "tests/transforms/test_remat.py": "ad_checkpoint.Offloadable ad_checkpoint.print_saved_residuals",
}
ELSEWHERE = {name for names in _ELSEWHERE.values() for name in names.split()}
