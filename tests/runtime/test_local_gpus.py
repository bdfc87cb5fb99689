"""The choice of a GPU by each of several processes on a machine: from environment variables, without CUDA."""

import glob
import os

import pytest

from tests.refusals import assert_refused
from xjax.runtime.process import clusters, local_gpus

SLURM = dict(SLURM_NTASKS="4", SLURM_PROCID="2", SLURM_LOCALID="2")
OPEN_MPI = dict(OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_RANK="3", OMPI_COMM_WORLD_LOCAL_RANK="1")
TORCHRUN = dict(WORLD_SIZE="2", RANK="1", LOCAL_RANK="1")
MPICH = dict(PMI_SIZE="2", PMI_RANK="1", MPI_LOCALRANKID="0")


@pytest.fixture
def four_gpus(monkeypatch):
    """A machine with the device files of four GPUs."""
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/dev/nvidiactl")
    files = [f"/dev/nvidia{name}" for name in ("10", "2", "0", "1", "ctl", "-uvm", "-modeset")]
    monkeypatch.setattr(glob, "glob", lambda pattern: files)


@pytest.mark.parametrize("env, rank", [
    ({}, None), (SLURM, 2), (OPEN_MPI, 1), (TORCHRUN, 1), (MPICH, 0),
    (dict(SLURM_NTASKS="1", SLURM_LOCALID="0"), None),         # an interactive shell: it has all GPUs
    (dict(SLURM_LOCALID="0"), None)])
def test_the_number_of_a_process_on_its_machine(env, rank):
    assert clusters.local_rank(env) == rank


@pytest.mark.parametrize("env, seen", [
    ({}, ["0", "1", "2", "10"]), ({"CUDA_VISIBLE_DEVICES": "2, 0"}, ["2", "0"]), ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
    ({"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"}, ["MIG-a", "MIG-b"])])
def test_the_gpus_that_a_process_sees(four_gpus, env, seen):
    assert local_gpus.visible(env) == seen


@pytest.mark.parametrize("given, env, chosen", [
    (None, {}, None),
    (None, SLURM, "2"),
    (None, OPEN_MPI, "1"),
    (None, TORCHRUN, "1"),
    (None, {**SLURM, "CUDA_VISIBLE_DEVICES": "7,5,6"}, "6"),  # the k-th of its list
    (None, {**SLURM, "CUDA_VISIBLE_DEVICES": "3"}, None),      # Slurm has bound it
    (None, {**SLURM, "JAX_LOCAL_DEVICE_IDS": "0,1"}, "0,1"),
    (1, SLURM, "1"),
    ([1, 0], {**SLURM, "CUDA_VISIBLE_DEVICES": "7,5"}, "5,7"),
    ([], SLURM, None),
])
def test_what_a_process_takes(four_gpus, given, env, chosen):
    assert local_gpus.choice("distributed.initialize", given, env) == chosen


def test_fewer_gpus_than_processes(four_gpus):
    env = {**SLURM, "CUDA_VISIBLE_DEVICES": "0,1"}
    assert_refused(lambda: local_gpus.choice("distributed.initialize", None, env), ValueError,
                   "distributed.initialize: this process does not see a GPU of its own")
    assert_refused(lambda: local_gpus.choice("distributed.initialize", 9, {}), ValueError, "there is no such GPU")


def test_without_a_driver_numbers_are_kept(monkeypatch):
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    assert local_gpus.choice("", None, SLURM) is None and local_gpus.choice("", [1, 2], SLURM) == "1,2"
