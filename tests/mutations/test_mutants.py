"""The generator of mutants; testing whether the tests catch them takes hours: `python -m tests.mutations.run`."""

import ast
import shutil
from pathlib import Path

from tests.mutations.mutants import KINDS, PACKAGES, draw
from tests.mutations.run import AREAS

ROOT = Path(__file__).resolve().parents[2]


def test_a_seed_draws_faults_of_each_kind_that_are_python(tmp_path):
    mutants, again, other = (draw(ROOT, seed, 40, ("xnn/layers",)) for seed in (0, 0, 1))
    assert mutants == again != other
    assert [sum(m.kind == kind for m in mutants) for kind in KINDS] == [10] * 4
    for mutant in mutants:
        before = (ROOT / mutant.file).read_text()
        (tmp_path / mutant.file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / mutant.file, tmp_path / mutant.file)
        line = mutant.apply(tmp_path)
        after = (tmp_path / mutant.file).read_text()
        assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(after)), mutant
        assert line in after


def test_each_package_has_tests():
    assert [package for package in PACKAGES if not package.startswith(tuple(AREAS))] == []
    assert all((ROOT / "tests" / area).exists() for areas in AREAS.values() for area in areas)
