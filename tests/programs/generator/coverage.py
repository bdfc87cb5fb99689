"""Counts of drawn operations, transforms, nested pairs of transforms, and constructs inside transforms."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.programs.generator.control import CONSTRUCTS, REVERSE_ONLY
from tests.programs.generator.draw import ROWS
from tests.programs.generator.program import Function, Program
from tests.programs.generator.transforms import TRANSFORMS

# Both libraries refuse these, so they are drawn rarely: pmap inside pmap, reverse mode of a while loop, forward
# mode of a function that has a rule for reverse mode alone.
REFUSED = {("pmap", "pmap"), *((t, "while_loop") for t in ("grad", "vjp", "jacrev")),
           *((t, c) for t in ("jvp", "linearize", "jacfwd") for c in REVERSE_ONLY)}
LEAST = 20                      # required occurrences of everything in 5,000 programs


@dataclass
class Coverage:
    """Counters over many programs; `pairs` counts (outer, inner)."""

    operations: Counter = field(default_factory=Counter)
    transforms: Counter = field(default_factory=Counter)
    pairs: Counter = field(default_factory=Counter)
    constructs: Counter = field(default_factory=Counter)
    inside: Counter = field(default_factory=Counter)
    outcomes: Counter = field(default_factory=Counter)
    reasons: Counter = field(default_factory=Counter)

    def add(self, p: Program, outcome: str, reason: str = "") -> None:
        """Count one program."""
        self.outcomes[outcome] += 1
        if reason:
            self.reasons[f"{outcome}: {reason.splitlines()[0]}"] += 1
        around = tuple(reversed([s.name for s in p.steps]))
        self._stack(around, ())
        self._function(p.body, around)

    def _stack(self, names: tuple[str, ...], around: tuple[str, ...]) -> None:
        """Count transforms, outermost first, inside the transforms `around`."""
        for k, name in enumerate(names):
            self.transforms[name] += 1
            self.pairs.update({(outer, name) for outer in around + names[:k]})

    def _function(self, f: Function, around: tuple[str, ...]) -> None:
        for line in f.lines:
            (self.constructs if line.op in CONSTRUCTS else self.operations)[line.op] += 1
            if line.op in CONSTRUCTS:
                self.inside.update({(outer, line.op) for outer in around})
            here = tuple(reversed([s.name for s in line.stack]))
            self._stack(here, around)
            for item in line.defs:
                if isinstance(item, Function):
                    self._function(item, around + here)

    def rare(self, least: int) -> list[str]:
        """Everything that occurred less often than `least`."""
        pairs = [(a, b) for a in TRANSFORMS for b in TRANSFORMS if (a, b) not in REFUSED]
        inside = [(a, c) for a in TRANSFORMS for c in CONSTRUCTS if (a, c) not in REFUSED]
        groups = ((sorted({row.name for row in ROWS}), self.operations), (TRANSFORMS, self.transforms),
                  (pairs, self.pairs), (CONSTRUCTS, self.constructs), (inside, self.inside))
        return [f"{_named(what)}: {counter[what]}" for wanted, counter in groups for what in wanted
                if counter[what] < least]

    def report(self) -> str:
        """Tables of all counts."""
        out = ["outcomes: " + _listed(self.outcomes), *(f"  {n} {why}" for why, n in self.reasons.most_common()),
               "transforms: " + _listed(self.transforms),
               "constructs: " + _listed(self.constructs), "operations: " + _listed(self.operations),
               "pairs, outer (rows) around inner (columns):", _table(TRANSFORMS, TRANSFORMS, self.pairs),
               "constructs (columns) inside transforms (rows):", _table(TRANSFORMS, CONSTRUCTS, self.inside)]
        return "\n".join(out)


def _named(what: str | tuple[str, str]) -> str:
    return what if isinstance(what, str) else " around ".join(what)


def _listed(counter: Counter) -> str:
    return ", ".join(f"{k} {n}" for k, n in counter.most_common())


def _table(rows, columns, counter: Counter) -> str:
    width = max(map(len, columns)) + 2
    lines = [" " * 12 + "".join(f"{c:>{width}}" for c in columns)]
    lines += [f"{r:12}" + "".join(f"{counter[r, c]:>{width}}" for c in columns) for r in rows]
    return "\n".join(lines)
