"""The output of `print_environment_info` in a new process: versions, machine, devices, variables, options."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys

import xjax

PROGRAM = "import sys, xjax; xjax.print_environment_info(); assert 'jax' not in sys.modules"


def printed(**variables: str) -> dict[str, list[str]]:
    """The report of a new process with these environment variables: name -> lines."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XJAX_", "XLA_"))}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env={**kept, **variables}, capture_output=True, text=True,
                         timeout=120)
    assert run.returncode == 0, run.stderr
    sections: dict[str, list[str]] = {}
    for line in run.stdout.splitlines():
        name, value = line[:11].strip(), line[12:]
        sections.setdefault(name or list(sections)[-1], []).append(value)
    return sections


def test_versions_machine_and_devices():
    sections = printed(JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert sections["xjax"] == [xjax.__version__]
    for package in ("jaxlib", "numpy", "scipy", "ml_dtypes", "opt_einsum"):
        assert sections[package] == [importlib.metadata.version(package)], package
    assert len(sections["jax"]) == 1                               # its version, or "not installed"
    assert sections["python"][0].startswith(sys.version.split()[0])
    assert sections["processors"][0].startswith(f"{os.cpu_count()} (") and "quota" in sections["processors"][0]
    assert sections["backend"] == ["cpu, process 0 of 1"]
    assert [line.split()[0] for line in sections["devices"]] == ["cpu:0", "cpu:1"]


def test_variables_and_options_that_are_set():
    flags = "--xla_cpu_enable_fast_math=false"
    sections = printed(XJAX_ENABLE_X64="1", JAX_PLATFORMS="cpu", XLA_FLAGS=flags)
    assert {"XJAX_ENABLE_X64=1", "JAX_PLATFORMS=cpu", f"XLA_FLAGS={flags}"} <= set(sections["environment"])
    assert sections["options"] == ["jax_enable_x64 = True (default False)", "jax_platforms = 'cpu' (default None)"]
    assert printed()["options"] == ["defaults"]


def test_a_backend_that_cannot_start_is_part_of_the_report():
    sections = printed(JAX_PLATFORMS="abacus")
    assert sections["backend"][0].startswith("cannot start: RuntimeError: ") and "abacus" in sections["backend"][0]
    assert "devices" not in sections and sections["options"] == ["jax_platforms = 'abacus' (default None)"]


def test_the_text_may_be_returned(capsys):
    text = xjax.print_environment_info(return_string=True)
    assert text.startswith(f"xjax        {xjax.__version__}\n") and not capsys.readouterr().out
    assert xjax.print_environment_info() is None
    assert capsys.readouterr().out == text + "\n"
