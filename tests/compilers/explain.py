"""Causes of a fault: the smallest program that shows it, XLA options that avoid it, and the result of real JAX."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from tests.compilers.check import Verdict
from tests.compilers.pool import Worker
from tests.compilers.program import Arg, Program, Source, live

_YNN = "LIBRARY_FUSION_TYPE_"
OPTIONS = (
    {"xla_cpu_experimental_ynn_fusion_type": ""}, {"xla_cpu_experimental_ynn_fusion_type": f"{_YNN}REDUCE"},
    {"xla_cpu_experimental_ynn_fusion_type": f"{_YNN}INDIVIDUAL_DOT,{_YNN}INDIVIDUAL_CONVOLUTION"},
    {"xla_backend_optimization_level": 1}, {"xla_backend_optimization_level": 0},
    {"xla_cpu_use_fusion_emitters": False}, {"xla_cpu_enable_fast_min_max": False},
    {"xla_disable_hlo_passes": "algsimp"}, {"xla_disable_hlo_passes": "fusion"},
)


def explain(p: Program | Source, verdict: Verdict, worker: Worker, limit: float) -> str:
    """Lines to print after a fault."""
    if isinstance(p, Program):
        p = minimise(p, verdict, worker, limit)
    lines = [f"smallest:\n{p.text()}{worker.run(p, limit).detail}"] if isinstance(p, Program) else []
    lines += [f"  {options}: {_short(worker.run(p, limit, options))}" for options in OPTIONS]
    if importlib.util.find_spec("jax"):
        with Worker("jax") as other:
            lines.append(f"  real JAX: {_short(other.run(p, limit))}")
    return "\n" + "\n".join(lines)


def _short(verdict: Verdict) -> str:
    """A verdict in one line."""
    if verdict.kind == "raises":
        return f"raises {verdict.detail.splitlines()[0][:120]}"
    return verdict.kind + f", compiled in {verdict.seconds:.1f} s" * bool(verdict.seconds)


def minimise(p: Program, verdict: Verdict, worker: Worker, limit: float) -> Program:
    """A smaller program with a verdict of the same kind; each candidate is tried once."""
    smaller = True
    while smaller:
        smaller = next((q for q in _smaller(p) if worker.run(q, limit).kind == verdict.kind), None)
        p = smaller or p
    return p


def _smaller(p: Program) -> Iterator[Program]:
    """Candidates: the program with one result, without a line, and with an argument in place of a line."""
    scalar = "grad" in p.around
    if not scalar and len(p.results) > 1:
        for k, name in enumerate(p.results):
            yield live(p._replace(results=(name,), exact=(p.exact[k],)))
    if not scalar:
        for line in p.lines[::-1]:
            if line.var.name not in p.results:
                yield live(p._replace(results=(line.var.name,), exact=(line.var.exact,)))
    if "vmap" in p.around:
        return
    for k, line in enumerate(p.lines):
        if line.var.name in p.results:
            continue
        # New arguments are last, because gradients are taken by the first ones.
        values = "normal" if line.var.dtype != "int32" else "bits"
        arg = Arg(line.var.name, line.var.dtype, line.var.shape, values)
        q = live(p._replace(lines=p.lines[:k] + p.lines[k + 1:], args=(*p.args, arg)))
        if len(q.lines) < len(p.lines):
            yield q
