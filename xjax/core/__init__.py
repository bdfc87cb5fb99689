"""The core: dtypes, trees, options, types, traces, primitives and programs."""
