"""XLA's compilers handle random programs: correct values, no crash, no endless compilation.

The programs run in worker processes, so that a crash costs one program. `python -m tests.compilers.run` runs any range
of seeds and prints more details of failures.
"""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from tests.compilers import draws, numbers
from tests.compilers.chains import CHAINS
from tests.compilers.pool import LIMITS, Worker
from tests.compilers.program import Source, inputs
from tests.compilers.run import COUNTS, Run, program, source

_CHUNK = 100
_CHAINS_IN_FAST_SET = tuple(range(0, len(CHAINS), 32))


@pytest.fixture(scope="module")
def worker():
    """One worker for all tests, because starting it takes longer than most programs."""
    with Worker() as shared:
        yield shared


def _without_faults(programs, kind, worker, eager=True):
    worker.eager, reports = eager, []
    run = Run(programs, LIMITS[kind], lambda: contextlib.nullcontext(worker), say=reports.append)
    assert run.run() == 0, "\n".join(reports)


@pytest.mark.parametrize("seeds, eager", [
    (range(2), True), (range(10, 20), False), pytest.param(range(2, 10), True, marks=pytest.mark.slow),
    pytest.param(range(20, 100), False, marks=pytest.mark.slow)])
def test_small_programs(seeds, eager, worker):
    _without_faults([numbers.program(seed, small=True) for seed in seeds], "numbers", worker, eager)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNTS["numbers"], _CHUNK))
def test_programs(first, worker):
    _without_faults([numbers.program(seed) for seed in range(first, first + _CHUNK)], "numbers", worker)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 12), marks=pytest.mark.slow)])
def test_some_draws_compile(seeds, worker):
    _without_faults([draws.program(seed, small=True) for seed in seeds], "draws", worker)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNTS["draws"], _CHUNK))
def test_draws_compile(first, worker):
    _without_faults([draws.program(seed) for seed in range(first, first + _CHUNK)], "draws", worker)


def test_some_chains_compile(worker):
    _without_faults([CHAINS[k] for k in _CHAINS_IN_FAST_SET], "chains", worker)


@pytest.mark.slow
def test_chains_compile(worker):
    _without_faults([p for k, p in enumerate(CHAINS) if k not in _CHAINS_IN_FAST_SET], "chains", worker)


# -- the generator ------------------------------------------------------------------------------------------------

def test_a_seed_is_a_program():
    """The text and the inputs depend on the seed alone, and the text is valid Python."""
    for kind, count in (("numbers", 200), ("draws", 200), ("chains", len(CHAINS))):
        for seed in range(count):
            text = source(program(kind, seed))
            assert text == source(program(kind, seed))
            compile(text, "<program>", "exec")
    first, again = inputs(numbers.program(3)), inputs(numbers.program(3))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


def test_everything_is_drawn():
    """Every row of the tables, transform and float dtype occurs in 2,000 programs; every draw in 500."""
    programs = [numbers.program(seed) for seed in range(2000)]
    drawn = {line.op for p in programs for line in p.lines}
    assert {op.name for table, _ in numbers.TABLES for op in table} - drawn == set()
    assert {p.around.partition("(")[0] for p in programs} == {"body", "jax.vmap", "jax.value_and_grad"}
    assert {p.rounding for p in programs} == {"float32", "float64", "bfloat16", "float16"}
    text = "".join(draws.program(seed).text for seed in range(500))
    assert [name for name in draws.DRAWS if f"random.{name.partition('(')[0]}(" not in text] == []
    assert [name for name in draws.INITIALIZERS if f"initializers.{name}(" not in text] == []


# -- the runner ---------------------------------------------------------------------------------------------------

_GOOD = Source("good", "program, arguments = jnp.sin, (jnp.ones(3),)")
_CRASHING = Source("crashing", f"import os; os.kill(os.getpid(), {int(signal.SIGSEGV)})")
_HANGING = Source("hanging", "while True: pass")
_RAISING = Source("raising", "raise ValueError('no program')")


def test_a_program_that_dies_costs_itself_alone(worker):
    """Crashes, time-outs and exceptions are counted, and the next program runs; ending the worker ends its process."""
    reports = []
    with worker:
        run = Run([_GOOD, _CRASHING, _HANGING, _RAISING, _GOOD], 2, lambda: contextlib.nullcontext(worker),
                  say=reports.append)
        assert run.run() == 1
        pid = worker.process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert dict(run.kinds) == {"same": 2, "crash": 1, "time-out": 1, "raises": 1}
    assert [name for name, _ in run.faults] == ["crashing", "hanging", "raising"]
    assert any("no program" in text for text in reports)
