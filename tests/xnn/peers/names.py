"""Writes names.json: the public names of the layers of other libraries, with their versions.

Run as ``python -m tests.xnn.peers.names``. Modules are left out. The list of a library that cannot be imported here
is not changed.
"""

import importlib
import importlib.metadata
import inspect
import json
from pathlib import Path

NAMES = Path(__file__).with_name("names.json")
MODULES = {"flax.linen": "flax", "haiku": "haiku", "equinox.nn": "equinox", "torch.nn": "torch", "objax.nn": "objax",
           "elegy.nn": "elegy", "trax.layers": "trax"}
SOURCES = {"elegy.nn": "treex.nn"}                      # where the layers are, if not in a module of this name


def public_names(module):
    source = importlib.import_module(SOURCES.get(module, module))
    return sorted(name for name, value in vars(source).items()
                  if not name.startswith("_") and not inspect.ismodule(value))


def version_of(package):
    module = importlib.import_module(package)
    version = module.__version__ if hasattr(module, "__version__") else importlib.metadata.version(package)
    return version.partition("+")[0]


def main():
    names = json.loads(NAMES.read_text())
    for module, package in MODULES.items():
        try:
            names[module] = {"version": version_of(package), "names": public_names(module)}
        except (AttributeError, ImportError) as error:
            print(f"{module}: {error}")
    NAMES.write_text(json.dumps(names, indent=1) + "\n")


if __name__ == "__main__":
    main()
