"""Compiled programs as bytes, for the same machine and version of jaxlib: `serialize` and `deserialize_and_load`."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from xjax.core.primitive import Missing, Primitive
from xjax.core.public import attributes_of
from xjax.core.tree import PyTreeDef
from xjax.runtime import xla
from xjax.runtime.arrays.array import from_numpy
from xjax.runtime.devices import backend as backends
from xjax.runtime.placement.places import default_place, on, sharding_of
from xjax.runtime.programs.launch import Executable
from xjax.runtime.stages import Argument, Compiled, Program

__all__ = ["deserialize_and_load", "serialize"]

_MAGIC = b"xjax-compiled-1\n"


def serialize(compiled: Compiled) -> tuple[bytes, PyTreeDef, PyTreeDef]:
    """A compiled program as bytes, and the structures of its arguments and of its result.

    Args: compiled: the result of ``jit(f).lower(...).compile()``, for one device.
    Raises: ValueError if it calls Python functions; NotImplementedError if it is for several devices.

    >>> compiled = xjax.jit(lambda x: x + 1).lower(1.0).compile()
    >>> loaded = deserialize_and_load(*serialize(compiled))
    >>> float(loaded(2.0))
    3.0
    """
    parts = compiled.parts()
    executable, caller = parts.executable, "serialize_executable.serialize"
    shardings = [sharding_of(p) for p in (*executable.in_places, *executable.out_places)]
    if any(len(s.devices) > 1 for s in shardings) or any(s.other_memory for s in shardings):
        raise bad(caller, "the program is for several devices, or for another kind of memory", None,
                  "save a program for one device, or the function with xjax.export.", NotImplementedError)
    if executable.listeners:
        raise bad(caller, "the program calls Python functions or has effects, which bytes cannot hold", None,
                  "leave out callbacks and debug.print.", ValueError)
    fields = {
        "jaxlib": xla.jaxlib_version, "name": compiled.fun_name,
        "arguments": [(a.aval, a.donated) for a in parts.arguments], "results": executable.out_avals,
        "consts": [np.asarray(c) for c in parts.consts], "executable": xla.serialize(executable.loaded),
    }
    data = pickle.dumps(fields)
    return _MAGIC + hashlib.sha256(data).digest() + data, compiled.in_tree, compiled.out_tree


def deserialize_and_load(serialized: bytes, in_tree: PyTreeDef, out_tree: PyTreeDef, backend: str | None = None,
                         execution_devices: Sequence[xla.Device] | None = None) -> Compiled:
    """The compiled program in the result of `serialize`.

    Only load bytes that you trust: they contain native code.

    Args:
      backend: the platform on which it runs; None: the default platform.
      execution_devices: the device on which it runs; None: the default device.
    Raises: ValueError for damaged bytes, those of another version of jaxlib, or other structures.
    """
    caller = "serialize_executable.deserialize_and_load"
    start = len(_MAGIC) + hashlib.sha256().digest_size
    data = serialized[start:]
    if serialized[:start] != _MAGIC + hashlib.sha256(data).digest():
        raise bad(caller, "the bytes are damaged, or not those of a compiled program", {"bytes": len(serialized)},
                  "pass the result of serialize, unchanged.", ValueError)
    fields = pickle.loads(data)
    if fields["jaxlib"] != xla.jaxlib_version:
        raise bad(caller, "the program was compiled by another version of jaxlib",
                  {"compiled by": fields["jaxlib"], "installed": xla.jaxlib_version}, "compile it again.", ValueError)
    arguments, results = fields["arguments"], fields["results"]
    if in_tree.num_leaves != len(arguments) or out_tree.num_leaves != len(results):
        raise bad(caller, "the structures are not those of this program",
                  {"arguments": len(arguments), "results": len(results)}, "pass all results of serialize.", ValueError)
    place = default_place() if backend is None else on(backends.devices(backend)[0])
    if execution_devices is not None:
        if len(execution_devices) != 1:
            raise bad(caller, "the program is for one device", {"execution_devices": len(execution_devices)},
                      "pass a list of one device.", ValueError)
        place = on(execution_devices[0])
    device = sharding_of(place).devices[0]
    blob = fields["executable"]
    loaded = xla.deserialize(device.client, blob, [device], xla.compile_options([device]))
    consts = [from_numpy(c) for c in fields["consts"]]
    in_avals = [*[c.aval for c in consts], *[aval for aval, _ in arguments]]
    executable = Executable(loaded, results, [place] * len(in_avals), [place] * len(results), len(blob))
    program = Program(_program(in_avals, results), consts, out_tree)
    return Compiled(program, [Argument(aval, place, donated) for aval, donated in arguments], in_tree, fields["name"],
                    executable=executable)


def _program(in_avals: Sequence[Any], out_avals: Sequence[Any]) -> ClosedJaxpr:
    """A program of these types, which reads all its arguments; its operations are not known."""
    invars, outvars = [Var(a) for a in in_avals], [Var(a) for a in out_avals]
    return ClosedJaxpr(Jaxpr((), invars, [Eqn(invars, outvars, loaded_executable_p, {})], outvars))


_UNKNOWN = Missing("a loaded executable is machine code, so its operations are not known",
                   "use the function, or xjax.export.")
loaded_executable_p = Primitive(
    "loaded_executable", type_rule=_UNKNOWN, lower=_UNKNOWN, jvp=_UNKNOWN, transpose=_UNKNOWN, batch=_UNKNOWN,
    multiple_results=True, cacheable=False)

__getattr__ = attributes_of(__name__)
