"""Prints the numbers that the programs of one library yield: ``python -m tests.compat.programs optax``.

It is run with xjax as jax and on the real JAX.
"""

import importlib
import json
import sys

import jax

assert sys.argv[2:] != ["xjax"] or jax.jit.__module__.startswith("xjax"), jax.__file__
module = importlib.import_module(f"tests.compat.programs.{sys.argv[1]}")
for program in module.PROGRAMS:
    print(json.dumps([program.__name__, [float(x) for x in program()]]), flush=True)
