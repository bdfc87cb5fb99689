"""How programs run: the adapter to XLA, devices, shardings, arrays, compilation and dispatch."""
