"""The table of compiler faults: each fault is avoided on the installed jaxlib, in every way of compiling."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.isolated import done_together
from xjax import lax
from xjax.runtime import xla
from xjax.runtime.programs import compile_cache
from xjax.runtime.xla import compiler_faults
from xjax.runtime.xla.compiler_faults import FAULTS, Fault, Option, as_markdown, with_workarounds
from xjax.sharding import NamedSharding, PartitionSpec

ROOT = Path(__file__).parents[2]
WITH_PROGRAMS = {name: fault for name, fault in FAULTS.items() if fault.program}
IMPORTS = "import numpy as np, xjax as jax, xjax.numpy as jnp\n"


def run(program, flags=""):
    """Run a program in a process of its own, which it may terminate; no cache is used."""
    env = {**os.environ, "XLA_FLAGS": flags, "XJAX_ENABLE_COMPILATION_CACHE": "false", "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", IMPORTS + program], env=env, capture_output=True, text=True,
                          timeout=60)


def is_avoided(fault):
    return bool(fault.option or fault.form) or not fault.is_in(xla.jaxlib_version)


@pytest.fixture(scope="module")
def right_together():
    return done_together({name: fault.program for name, fault in WITH_PROGRAMS.items() if is_avoided(fault)}, run)


@pytest.mark.parametrize("name", WITH_PROGRAMS)
def test_the_program_of_each_fault_is_right(name, right_together):
    if not is_avoided(WITH_PROGRAMS[name]):
        pytest.skip(f"nothing avoids it on jaxlib {xla.jaxlib_version}")
    if name not in right_together:
        done = run(WITH_PROGRAMS[name].program)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, fault in WITH_PROGRAMS.items() if fault.option])
def test_the_fault_is_there_without_the_option(name):
    """If this fails, the fault is fixed, and its row can be removed."""
    fault = WITH_PROGRAMS[name]
    if not fault.is_in(xla.jaxlib_version):
        pytest.skip(f"jaxlib {xla.jaxlib_version} does not have it")
    done = run(fault.program, f"--{fault.option.flag}=+reduce")
    assert done.returncode != 0


@pytest.mark.slow
def test_barriers_of_barriers_are_wrong_if_they_are_written_as_they_stand():
    fault = FAULTS["barriers of barriers"]
    if not fault.is_in(xla.jaxlib_version):
        pytest.skip(f"jaxlib {xla.jaxlib_version} does not have it")
    unguarded = ("from xjax.core import hlo, lowering\n"
                     "lowering.Held = lambda name, before, together: hlo.Value(name, before.aval)\n")
    done = run(unguarded + fault.program)
    assert done.returncode != 0 and "AssertionError" in done.stderr


@pytest.mark.parametrize("versions, version, included", [
    ([("0.10.2", "0.11")], "0.10.2", True), ([("0.10.2", "0.11")], "0.11.0", False),
    ([("0.11.2", "")], "0.12.0.1", True), ([("0.11.0", "0.11.1"), ("0.11.2", "")], "0.11.1", False),
    ([("0.11.0", "0.11.1"), ("0.11.2", "")], "0.11.0", True)])
def test_ranges_of_versions(versions, version, included):
    assert Fault("", versions).is_in(version) == included


def test_the_page_is_the_table():
    page = ROOT / "docs" / "compiler_faults.md"
    assert page.read_text() == as_markdown(), (
        "write it again: python -c \"from xjax.runtime.xla.compiler_faults import *; "
        "open('docs/compiler_faults.md', 'w').write(as_markdown())\"")


FLAG = "xla_cpu_prefer_vector_width"                # any flag that does not change results


@pytest.fixture
def table(monkeypatch):
    """A table of one fault, present in every version and avoided by an option."""
    fault = Fault("Wrong.", (("0.1", ""),), option=Option(FLAG, "7", lambda value: str(value) != "7",
                                                             lambda text: text != "right"))
    monkeypatch.setattr(compiler_faults, "FAULTS", {"wrong": fault})
    for cached in (compiler_faults._avoided_by_options, compiler_faults._say):
        cached.cache_clear()
    yield
    for cached in (compiler_faults._avoided_by_options, compiler_faults._say):
        cached.cache_clear()


@pytest.fixture
def compiled(table, monkeypatch):
    """The flags of each compilation during the test."""
    flags = []
    options = xla.programs.compile_options

    def recorded(*args, **kwargs):
        chosen = options(*args, **kwargs)
        flags.append(dict(chosen.env_option_overrides))
        return chosen

    monkeypatch.setattr(xla.programs, "compile_options", recorded)
    monkeypatch.setattr(xla, "compile_options", recorded)
    xjax.clear_caches()
    return flags


def _shard_map(x):
    mesh = xjax.make_mesh((2,), ("i",))
    return xjax.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=PartitionSpec("i"),
                          out_specs=PartitionSpec())(x)


def _sharded(x):
    rows = NamedSharding(xjax.make_mesh((2,), ("i",)), PartitionSpec("i"))
    return xjax.jit(lambda x: x * 3, in_shardings=rows)(x)


@pytest.mark.parametrize("compile_one", [
    lambda x: x * 5, xjax.jit(lambda x: x * 7), xjax.pmap(lambda x: x * 9), _shard_map, _sharded,
    lambda x: xjax.jit(lambda x: x * 11).lower(x).compile(),
    xjax.jit(lambda x: xjax.pure_callback(np.sin, x, x)),
], ids=["eager", "jit", "pmap", "shard_map", "sharded jit", "compiled ahead", "callback"])
def test_every_compilation_has_the_option(compiled, compile_one):
    compile_one(jnp.ones((2, 3)))
    assert compiled and all(flags[FLAG] == "7" for flags in compiled)


def test_the_key_of_the_disk_cache_has_the_option(table, monkeypatch):
    device = xjax.devices()[0]
    key = lambda: compile_cache.program_key(device.client, "text", [device], {})
    avoided = key()
    monkeypatch.setattr(compiler_faults, "FAULTS", {})
    compiler_faults._avoided_by_options.cache_clear()
    assert key() != avoided


def test_a_value_of_the_user_stays_and_is_warned_of_once(table, monkeypatch, recwarn):
    assert with_workarounds("cpu", "text", {}) == {FLAG: "7"}
    assert with_workarounds("cpu", "right", {}) == with_workarounds("gpu", "text", {}) == {}
    assert with_workarounds("cpu", "text", {FLAG: 7}) == {FLAG: 7}
    assert with_workarounds("cpu", "right", {FLAG: 2}) == {FLAG: 2}
    assert not recwarn
    for _ in range(2):
        assert with_workarounds("cpu", "text", {FLAG: 2}) == {FLAG: 2}
    assert ["compiler_options" in str(w.message) and "fix:" in str(w.message) for w in recwarn] == [True]
    monkeypatch.setenv("XLA_FLAGS", f"--xla_a=b --{FLAG}=3 --xla_c")
    for _ in range(2):
        assert with_workarounds("cpu", "text", {}) == {}
    assert ["XLA_FLAGS" in str(w.message) for w in recwarn] == [False, True]


@pytest.mark.parametrize("f, shapes, concerns", [
    (lambda a, b: ((a @ b) ** 2).sum(0), [(9, 3), (3, 50)], True),
    (lambda a, b: ((a @ b) ** 2).sum(0), [(9, 8), (8, 50)], False),
    (lambda a, b: jnp.einsum("bij,bkj->bik", a, b).sum(1), [(2, 9, 3), (2, 8, 3)], True),
    (lambda a, b: jnp.einsum("bijk,blj->bil", a, b).sum(1), [(2, 9, 3, 4), (2, 8, 3)], True),
    (lambda a, b: jnp.einsum("ijk,jkl->il", a, b).sum(1), [(9, 3, 4), (3, 4, 5)], False),
    (lambda a, b: a @ b, [(9, 3), (3, 50)], False),
    (lambda a, b: (a + b).sum(0), [(9, 3), (9, 3)], False),
    (lambda a, b: (a * b).sum(3), [(3, 1, 2, 2, 8, 8, 8)] * 2, True),
    (lambda a, b: (a * b).sum(3), [(3, 2, 2, 8, 8, 8)] * 2, False)])
def test_which_programs_take_no_reductions_by_ynn(f, shapes, concerns):
    text = xjax.jit(f).lower(*[np.ones(shape, np.float32) for shape in shapes]).as_text()
    assert FAULTS["reductions by YNN"].option.concerns(text) == concerns


def test_a_product_that_xla_splits_may_be_shorter_than_its_text():
    concerns = FAULTS["reductions by YNN"].option.concerns
    columns = NamedSharding(xjax.make_mesh((4,), ("i",)), PartitionSpec(None, "i"))
    f, x = lambda x: ((x @ x.T) ** 2).sum(0), np.ones((9, 28), np.float32)
    assert concerns(xjax.jit(f, in_shardings=columns).lower(x).as_text())
    for rows in (x[None], np.stack([x] * 4)):
        assert not concerns(xjax.pmap(f).lower(rows).as_text())
    assert not concerns(xjax.jit(f).lower(x).as_text())


def test_the_ynn_flag_of_the_user():
    """Its items may be a list, or changes of the default list, with and without a prefix."""
    brings_back = FAULTS["reductions by YNN"].option.brings_back
    assert not brings_back("") and not brings_back("-reduce") and not brings_back("individual_dot")
    assert not brings_back(FAULTS["reductions by YNN"].option.value)
    assert brings_back("+eltwise,-reduce") and brings_back("LIBRARY_FUSION_TYPE_REDUCE") and brings_back("+eltwise")
    assert brings_back("dot") and brings_back("-individual_dot")
