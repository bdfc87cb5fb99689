"""Imported by Python at its start: ``import jax`` gives xjax, which is not imported before.

Then the `sitecustomize` runs that this module hides, if there is one.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _AtFirstUse:
    """An import hook that makes way for that of `xjax.compat` at the first import of jax."""

    def find_spec(self, name, path=None, target=None):
        if name != "jax":
            return None
        sys.meta_path.remove(self)
        try:
            from xjax.compat.launch import install_if_passed_on
        except ImportError:                             # another environment's Python
            return None
        install_if_passed_on()
        return importlib.util.find_spec(name)

    def find_distributions(self, context=None):
        """A program that asks for the version of jax, rather than importing it, needs the hook of `xjax.compat` too."""
        if getattr(context, "name", None) == "jax" and importlib.util.find_spec("jax") is not None:
            yield from sys.meta_path[0].find_distributions(context)


def _run_hidden():
    others = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, _AtFirstUse())
_run_hidden()
