"""Prints the numbers that programs of a library yield: ``python -m tests.compat.programs optax jitted``.

It runs with xjax as jax (``python -m xjax -m tests.compat.programs ...``) and on the real JAX.
"""

import importlib
import json
import sys

library, *names = sys.argv[1:]
module = importlib.import_module(f"tests.compat.programs.{library}")
print(json.dumps(["jit is of", sys.modules["jax"].jit.__module__.partition(".")[0]]))
for program in module.PROGRAMS:
    if not names or program.__name__ in names:
        print(json.dumps([program.__name__, [float(x) for x in program()]]), flush=True)
