"""Commands and manifests in docs/guides: they run, or are compared with the launcher if they need a cluster."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.jobs import clean_environment, free_address
from tests.test_docs import BLOCKS, DOCS, WITH_COMMANDS
from xjax.runtime.process import clusters

NEEDS = {"recipes": ("pydantic", "yaml", "networkx", "optax"), "yaml": ("yaml",)}


def blocks_of(page, kind):
    """(Text of a block of this kind, the output that is shown for it) of a page."""
    pattern = rf"^```{kind}\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?"
    return re.findall(pattern, (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def needs(*names):
    if missing := [name for name in names if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")


def pythons(script):
    """The commands `python ...` of a script, without the launchers and variables before them."""
    lines = [shlex.split(line.rstrip("&"), comments=True) for line in script.splitlines()]
    return [line[line.index("python"):] for line in lines if "python" in line]


SCRIPTS = [(page, script, shown) for page in WITH_COMMANDS for script, shown in blocks_of(page, "bash")]
MANIFESTS = [(page, manifest) for page in WITH_COMMANDS for manifest, _ in blocks_of(page, "yaml")]
# Scripts of a cluster's scheduler, which has no counterpart here: their commands are checked as text.
IS_FOR_A_CLUSTER = re.compile(r"^(#SBATCH|srun|torchrun|mpirun)\b", re.MULTILINE)
RUN_HERE = [row for row in SCRIPTS if not IS_FOR_A_CLUSTER.search(row[1])]


def check_command(argv):
    """The command exists: a program of the page, or a module of recipes whose config and overrides are accepted."""
    programs = {block.program for page in WITH_COMMANDS for block in BLOCKS[page]}
    assert argv[0] == "python"
    if argv[1] in programs:
        return
    assert argv[1:3] == ["-m", "recipes.launch"] or argv[1:3] == ["-m", "recipes.train"], argv
    needs(*NEEDS["recipes"])
    done = subprocess.run([sys.executable, "-m", "recipes.train", *argv[3:], "--print-config"], capture_output=True,
                          text=True, cwd=DOCS.parent, env=clean_environment(), timeout=120)
    assert done.returncode == 0, done.stderr


def first_line(text):
    """The name of a case of a test."""
    return text.partition("\n")[0]


def files_of(page, folder):
    for block in BLOCKS[page]:
        if block.program:
            (folder / block.program).write_text(block.code)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "script", "shown"), RUN_HERE, ids=first_line)
def test_a_script_prints_what_it_shows(page, script, shown, tmp_path):
    needs(*(NEEDS["recipes"] if "recipes" in script else ()))
    files_of(page, tmp_path)
    address = free_address()
    script = re.sub(r"127\.0\.0\.1:\d+", address, script)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "python"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    command.chmod(0o755)
    env = clean_environment(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                          env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = "".join(line for line in done.stdout.splitlines(True) if not line.startswith("[Gloo]"))
    assert not shown or printed == shown


@pytest.mark.parametrize(("page", "script"), [row[:2] for row in SCRIPTS if IS_FOR_A_CLUSTER.search(row[1])],
                         ids=first_line)
def test_the_commands_for_a_scheduler_exist(page, script):
    subprocess.run(["bash", "-n", "-c", script], check=True)
    commands = pythons(script)
    assert commands
    for argv in commands:
        check_command(argv)


def job_of(manifest):
    """(Container, the Job, the names of the services) of a manifest."""
    import yaml

    documents = list(yaml.safe_load_all(manifest))
    (job,) = [each for each in documents if each["kind"] == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return container, job, {each["metadata"]["name"]: each for each in documents if each["kind"] == "Service"}


INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@pytest.mark.parametrize(("page", "manifest"), MANIFESTS)
def test_a_manifest_starts_a_job_whose_processes_find_each_other(page, manifest):
    """Its command exists, its variables are those of `xjax.distributed`, and its names are those of its service."""
    needs(*NEEDS["yaml"])
    container, job, services = job_of(manifest)
    check_command(container["command"])
    name, spec = job["metadata"]["name"], job["spec"]
    pods = spec["template"]["spec"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"]
    service = services[pods["subdomain"]]["spec"]
    assert service["clusterIP"] == "None" and service["selector"] == {"job-name": name}
    volumes = {volume["name"] for volume in pods["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    variables = {each["name"]: each for each in container["env"]}
    env = {key: each["value"] for key, each in variables.items() if "value" in each}
    (index,) = [key for key, each in variables.items() if "valueFrom" in each]
    assert variables[index]["valueFrom"]["fieldRef"]["fieldPath"] == INDEX
    for rank in range(spec["completions"]):
        address, count, own = clusters.detect({**env, index: str(rank)})
        assert clusters.split_address(address)[0] == f"{name}-0.{pods['subdomain']}"
        assert (count, own) == (spec["completions"], rank)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "manifest"), MANIFESTS)
def test_the_command_of_a_manifest_trains(page, manifest, tmp_path):
    """In processes of this machine, with the variables of the manifest, on a graph that comes with the package."""
    needs(*NEEDS["recipes"], *NEEDS["yaml"])
    container, job, _ = job_of(manifest)
    count, address = job["spec"]["completions"], free_address()
    argv = [text.replace("gcn_cora", "gcn").replace("/runs/", f"{tmp_path}/") for text in container["command"]]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    running = []
    for rank in range(count):
        env = {name: address if name == "JAX_COORDINATOR_ADDRESS" else str(rank) if value is None else value
               for name, value in variables.items()}
        running.append(subprocess.Popen([sys.executable, *argv[1:], "steps=20"], cwd=tmp_path, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=clean_environment(**env)))
    outputs = [process.communicate(timeout=240)[0] for process in running]
    assert [process.returncode for process in running] == [0] * count, outputs
    assert f"{count} in {count} processes" in outputs[0] and "test accuracy" in outputs[0]
