"""The mutants themselves; whether the tests catch them takes hours: `python -m tests.mutations.run`."""

import ast
import shutil
from pathlib import Path

from tests.mutations.mutants import KINDS, all_mutants, draw
from tests.mutations.run import AREAS

ROOT = Path(__file__).resolve().parents[2]


def test_a_seed_draws_faults_of_each_kind_that_are_python(tmp_path):
    mutants = draw(ROOT, 0, 40)
    assert mutants == draw(ROOT, 0, 40) != draw(ROOT, 1, 40)
    assert [sum(m.kind == kind for m in mutants) for kind in KINDS] == [10] * 4
    for mutant in mutants:
        before = (ROOT / mutant.file).read_text()
        (tmp_path / mutant.file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / mutant.file, tmp_path / mutant.file)
        line = mutant.apply(tmp_path)
        after = (tmp_path / mutant.file).read_text()
        assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(after)), mutant
        assert line in after


def test_each_file_has_tests():
    files = {mutant.file for mutants in all_mutants(ROOT).values() for mutant in mutants}
    assert [file for file in files if not file.startswith(tuple(AREAS))] == []
    assert all((ROOT / "tests" / area).exists() for areas in AREAS.values() for area in areas)
