"""Events of the library: `monitoring.register_event_duration_secs_listener(f)` learns of each compilation.

Durations, in seconds, with the name of the function as `fun_name`:

- ``/jax/core/compile/jaxpr_trace_duration``: a function was traced;
- ``/jax/core/compile/jaxpr_to_mlir_module_duration``: its program was written as StableHLO;
- ``/jax/core/compile/backend_compile_duration``: the program was compiled, or loaded from disk;
- ``/jax/compilation_cache/cache_retrieval_time_sec``: a compiled program was read from disk.

Events: ``/jax/compilation_cache/compile_requests_use_cache``, ``cache_hits``, ``cache_misses``.
"""

from xjax.core.public import attributes_of
from xjax.runtime.programs.events import (
    clear_event_listeners,
    record_event,
    record_event_duration_secs,
    record_event_time_span,
    record_scalar,
    register_event_duration_secs_listener,
    register_event_listener,
    register_event_time_span_listener,
    register_scalar_listener,
    unregister_event_duration_listener,
    unregister_event_listener,
    unregister_event_time_span_listener,
    unregister_scalar_listener,
)

__all__ = ["clear_event_listeners", "record_event", "record_event_duration_secs", "record_event_time_span",
           "record_scalar", "register_event_duration_secs_listener", "register_event_listener",
           "register_event_time_span_listener", "register_scalar_listener", "unregister_event_duration_listener",
           "unregister_event_listener", "unregister_event_time_span_listener", "unregister_scalar_listener"]

__getattr__ = attributes_of(__name__)
