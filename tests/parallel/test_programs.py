"""Programs for 2, 4 and 8 devices agree with real JAX: value, type, the part on each device, error class.

Each library runs them in a process of its own, with this number of devices.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests import compare
from tests.oracle import current, real_jax
from tests.parallel.programs import PROGRAMS
from tests.parallel.run import Outcome

ROOT = Path(__file__).parents[2]
CHUNK = 40

# Deliberate differences from JAX: reason -> programs.
OTHERWISE = {
    "a carry or a branch that varies less than the others is cast": [
        "mistakes.carry_that_varies_only_after_a_step", "mistakes.branches_that_vary_differently"],
    "an unknown axis is a NameError, in place of a failed assertion": [
        "mistakes.cast_over_an_unknown_axis", "mistakes.sum_over_an_unknown_axis"],
    "a spec with an axis twice is a ValueError, not a bare Exception": ["mistakes.the_same_axis_twice_in_a_spec"],
    "permutations over several axes count as axis_index does; JAX sorts the axes": [
        "meshes.axes_joined_the_other_way"],
    "nested regions have derivatives; JAX's compiler refuses the program": ["meshes.nested_gradient"],
    "collectives over a mesh axis and one of vmap together; JAX 0.10 refuses some, and all under checks": [
        *(f"shard_map, vmapped axis too{way}" for way in (
            "", ", gradient outside", ", gradient inside", ", tangent inside", ", vmap outside")),
        "meshes.over_a_mesh_axis_and_one_of_vmap"],
}
ALIKE_ON_2 = {"meshes.axes_joined_the_other_way"}        # one of its two axes then has size 1
# Real JAX ends the process: XLA refuses the launch on some devices only. xjax raises an error; see test_messages.
ENDS_JAX = {"mistakes.donated_twice"}
DIFFERENT = {name for names in OTHERWISE.values() for name in current(names)}


def chunks() -> list:
    """(devices, names): every 25th program on 4 devices; in the slow set, all programs on 2, 4 and 8."""
    names = [name for name in PROGRAMS if name not in ENDS_JAX]
    fast = [n for k, n in enumerate(names) if k % 25 == 0]
    slow = [names[i:i + CHUNK] for i in range(0, len(names), CHUNK)]
    return [pytest.param(4, fast, id="4-some"), *(
        pytest.param(n, part, id=f"{n}-{k}", marks=pytest.mark.slow) for n in (2, 4, 8) for k, part in enumerate(slow))]


@pytest.mark.parametrize(("devices", "names"), chunks())
def test_programs_give_what_they_give_in_jax(devices, names, tmp_path):
    real_jax()
    running = {library: start(library, devices, names, tmp_path / library) for library in ("xjax", "jax")}
    ours, theirs = [finished(running[library], tmp_path / library) for library in ("xjax", "jax")]
    faults = {name: difference(ours[name], theirs[name]) for name in names}
    unexpected = [f"{name}: {text}" for name, text in faults.items() if text and name not in DIFFERENT]
    assert not unexpected, "\n".join(unexpected)
    alike = ALIKE_ON_2 if devices == 2 else set()
    same = [name for name in names if name in DIFFERENT - alike and not faults[name]]
    assert not same, f"no longer different: {same}"


def start(library: str, devices: int, names: list[str], path: Path) -> subprocess.Popen:
    started = subprocess.Popen([sys.executable, "-m", "tests.parallel.run", library, str(devices), str(path)],
                               cwd=ROOT, stdin=subprocess.PIPE, text=True)
    assert started.stdin is not None
    started.stdin.write("\n".join(names))
    started.stdin.close()
    return started


def finished(process: subprocess.Popen, path: Path) -> dict[str, Outcome]:
    try:
        assert process.wait(timeout=1500) == 0
    finally:
        process.kill()
    return {name: Outcome(*fields) for name, fields in pickle.loads(path.read_bytes()).items()}


def difference(ours: Outcome, theirs: Outcome) -> str:
    """The difference in words; "" without one."""
    if ours.error != theirs.error:
        return f"{ours.message or 'a value'}; JAX: {theirs.message or 'a value'}"
    if len(ours.leaves) != len(theirs.leaves):
        return f"{len(ours.leaves)} results; JAX has {len(theirs.leaves)}"
    for k, (a, b) in enumerate(zip(ours.leaves, theirs.leaves, strict=True)):
        if a[0] != b[0] or a[2] != b[2]:
            return f"leaf {k}: {a[0]} in parts {a[2]}; JAX has {b[0]} in parts {b[2]}"
        if not a[0]:
            if a[1] != b[1]:
                return f"leaf {k}: {a[1]}; JAX has {b[1]}"
        # Sums over devices add in another order.
        elif in_words := compare.difference(a[1], b[1], tol=4, like=a[0].partition("[")[0]):
            return f"leaf {k}: {in_words.text}"
    return ""


def test_there_are_hundreds_of_programs():
    assert len(PROGRAMS) >= 250


def test_the_table_of_differences_is_of_these_programs():
    assert set(PROGRAMS) >= {getattr(name, "value", name) for names in OTHERWISE.values() for name in names}
