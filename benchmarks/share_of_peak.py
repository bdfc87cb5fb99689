"""Training steps of the networks of `networks.py`: shares of the peak of the processor, and costliest operations.

The peak is the speed of a product of two matrices [2048, 2048], measured before and after each network. The share is
the time that the products and convolutions of a step would take at the peak, divided by the time of the step.
Operations may run at the same time, so the times of all operations may exceed the time of the step.

    python benchmarks/share_of_peak.py --only ResNet --operations 10
"""

from __future__ import annotations

import argparse
import collections
import re
import statistics
from collections.abc import Callable

import numpy as np
from networks import cases, descending, descent, xnn_program
from pairs import best

import xjax
from xjax import profiler
from xnn.cost import flops

STEPS = 5


def seconds_of(call: Callable[[], object]) -> float:
    call()
    return statistics.median(best(call, 1, 1) for _ in range(12))


def peak() -> float:
    """Floating-point operations per second of a large product."""
    x = xjax.numpy.asarray(np.random.default_rng(0).standard_normal((2048, 2048), dtype=np.float32))
    _square(x).block_until_ready()
    return 2 * 2048**3 / best(lambda: _square(x).block_until_ready(), 1, 12)


@xjax.jit
def _square(x):
    return x @ x


def share(program: tuple, step: Callable[[], object]) -> tuple[float, float]:
    """(Seconds of a step, share of the peak).  Args: program: from `xnn_program`; step: runs a step of it."""
    jax, loss, *arguments = program
    count = flops(jax.make_jaxpr(descent(jax, loss))(*arguments))
    before, seconds, after = peak(), seconds_of(step), peak()
    return seconds, count / max(before, after) / seconds


def operations(kinds: dict[str, str], step: Callable[[], object]) -> list[tuple[float, int, str]]:
    """(Seconds in a step, calls in a step, description) of all operations with one description, the costliest first."""
    with profiler.ProfileSession() as session:
        for _ in range(STEPS):
            step()
    seconds, calls = collections.Counter(), collections.Counter()
    for event in (e for plane in session.profile_data.planes for line in plane.lines for e in line.events):
        if "hlo_op" in dict(event.stats):
            kind = kinds.get(event.name, event.name)
            seconds[kind] += event.duration_ns / 1e9 / STEPS
            calls[kind] += 1
    return [(time, calls[kind] // STEPS, kind) for kind, time in seconds.most_common()]


def kinds_of(text: str) -> dict[str, str]:
    """For each operation of an optimised HLO module: its type, what it is made of, and the types of its operands."""
    bodies: dict[str, list[tuple[str, str]]] = {}
    parts_of, body = {}, ""
    for line in text.splitlines():
        if match := re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            body = match[1]
        elif match := re.match(r"\s*(?:ROOT )?%([\w.\-]+) = (\([^)]*\)|\S+) ([\w\-]+)\((.*)", line):
            name, type_, operation, rest = match.groups()
            parts_of[name] = (re.sub(r"\{[\d,]*\}", "", type_), operation, rest)
            bodies.setdefault(body, []).append((operation, parts_of[name][0]))

    def kind(type_: str, operation: str, rest: str) -> str:
        called = re.search(r"calls=%([\w.\-]+)", rest)
        if called is None:
            names = re.findall(r"%([\w.\-]+)", rest.split(")")[0])
            operands = [parts_of[name][0] for name in names if name in parts_of]
        else:
            parts = bodies.get(called[1], [])
            operands = [type_ for name, type_ in parts if name == "parameter"]
            inner = [name for name, _ in parts if name not in ("parameter", "constant", "broadcast")]
            operation = ", ".join(inner[-5:])
        return f"{type_} {operation} of {' '.join(operands[:4])}"

    return {name: kind(*parts) for name, parts in parts_of.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run only networks whose names contain this")
    parser.add_argument("--operations", type=int, default=0, help="also print this number of the costliest operations")
    args = parser.parse_args()
    print(f"{'network':<14}{'step':>10}{'of the peak':>14}")
    for name, case in cases().items():
        if args.only in name:
            jax, loss, *arguments = program = xnn_program(case)
            lowered, step = jax.jit(descent(jax, loss), donate_argnums=(0, 1)).lower(*arguments), descending(*program)
            seconds, part = share(program, step)
            print(f"{name:<14}{1e3 * seconds:>7.1f} ms{part:>13.0%}", flush=True)
            if args.operations:
                kinds = kinds_of(lowered.compile().as_text())
                for time, calls, kind in operations(kinds, step)[:args.operations]:
                    print(f"  {1e3 * time:>7.2f} ms {calls:>4} x {kind[:110]}")


if __name__ == "__main__":
    main()
