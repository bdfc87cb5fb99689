"""A process that runs programs sent by its parent over a connection, and answers with a Verdict for each::

    worker FILE_DESCRIPTOR LIBRARY

The parent sends the program, XLA's options, whether to run it eagerly too, and the number of seconds after which the
worker writes the stacks of its threads.
"""

from __future__ import annotations

import faulthandler
import importlib
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from tests.compilers.check import Verdict, check
from tests.compilers.program import Program, Source

_PROGRAMS_KEPT = 40


def main(descriptor: int, library: str) -> None:
    """Answer until the connection is closed."""
    lib = importlib.import_module(library)
    # The public modules of real JAX that are named in programs.
    for name in ("numpy", "lax", "nn", "random", "nn.initializers"):
        importlib.import_module(f"{library}.{name}")
    connection = Connection(descriptor)
    lib.numpy.zeros(3).block_until_ready()
    connection.send("ready")
    for n in range(sys.maxsize):
        try:
            program, options, eager, seconds = connection.recv()
        except EOFError:
            return
        faulthandler.dump_traceback_later(seconds)
        connection.send(_verdict(program, lib, options, eager))
        faulthandler.cancel_dump_traceback_later()
        if n % _PROGRAMS_KEPT == _PROGRAMS_KEPT - 1:
            lib.clear_caches()


def _verdict(program: Program | Source, lib: Any, options: dict[str, Any] | None, eager: bool) -> Verdict:
    try:
        if isinstance(program, Program):
            return check(program, lib, options, eager)
        return _compiled(program, lib, options)
    except Exception as error:
        return Verdict("raises", f"{type(error).__name__}: {str(error)[:1500]}\n{traceback.format_exc(limit=-4)}")


def _compiled(program: Source, lib: Any, options: dict[str, Any] | None) -> Verdict:
    """The verdict on a program that is compiled but not run."""
    names = {"jax": lib, "jnp": lib.numpy, "lax": lib.lax, "nn": lib.nn}
    exec(compile(program.text, f"<{program.name}>", "exec"), names)
    start = time.process_time()
    lib.jit(names["program"], compiler_options=options or None).lower(*names["arguments"]).compile()
    return Verdict("same", seconds=time.process_time() - start)


if __name__ == "__main__":
    faulthandler.enable()
    main(int(sys.argv[1]), sys.argv[2])
