"""Writes names.json: the public names of flax.linen, haiku, equinox.nn and torch.nn, with their versions.

Run as ``python -m tests.xnn.peers.names`` with the four libraries installed. Modules are left out.
"""

import importlib
import inspect
import json
from pathlib import Path

NAMES = Path(__file__).with_name("names.json")
MODULES = {"flax.linen": "flax", "haiku": "haiku", "equinox.nn": "equinox", "torch.nn": "torch"}


def public_names(module):
    return sorted(name for name, value in vars(module).items()
                  if not name.startswith("_") and not inspect.ismodule(value))


def main():
    names = {}
    for module, package in MODULES.items():
        version = importlib.import_module(package).__version__.partition("+")[0]
        names[module] = {"version": version, "names": public_names(importlib.import_module(module))}
    NAMES.write_text(json.dumps(names, indent=1) + "\n")


if __name__ == "__main__":
    main()
