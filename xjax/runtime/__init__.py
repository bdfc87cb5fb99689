"""Execution of programs: the adapter to XLA, devices, shardings, arrays, compilation and dispatch."""
