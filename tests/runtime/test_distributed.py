"""Processes on this machine find each other, compute together, and end; errors name the missing processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import xjax
from tests.jobs import HEADER, assert_all_ended_well, clean_environment, run_job
from xjax.runtime.process import clusters

PROGRAM = """
from xjax.runtime.devices import processes
from xjax.sharding import NamedSharding, PartitionSpec as P
assert xjax.distributed.is_initialized()
assert (xjax.device_count(), xjax.local_device_count(), xjax.process_count(), xjax.process_index()) == (4, 2, 2, rank)
if rank == 0:                       # listens on loopback, and on nothing else
    port = f"{int(address.rpartition(':')[2]):04X}"
    listening = [line.split()[1] for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}")
                 if line.split()[1].endswith(f":{port}") and line.split()[3] == "0A"]
    assert len(listening) == 1 and listening[0].endswith(f"0100007F:{port}"), listening
mesh = xjax.make_mesh((4,), ("x",))
x = xjax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.arange(4.0) + 4 * rank)
assert x.shape == (8,) and len(x.addressable_shards) == 2
assert "other processes" in repr(x) and "f32[8]" in str(x) == f"{x}"
grid = xjax.make_mesh((2, 2), ("process", "device"))      # rows are divided within a process, columns between them
tiles = xjax.make_array_from_process_local_data(NamedSharding(grid, P("device", "process")), np.full((4, 3), rank))
assert tiles.shape == (4, 6) and all(s.data.shape == (2, 3) for s in tiles.addressable_shards)
assert xjax.jit(lambda x: x.sum(0), out_shardings=NamedSharding(grid, P()))(tiles).tolist() == [0, 0, 0, 4, 4, 4]
again = xjax.make_array_from_single_device_arrays((8,), x.sharding, [s.data for s in x.addressable_shards][::-1])
assert float(xjax.jit(lambda x, y: (x - y).sum())(x, again)) == 0
assert float(xjax.jit(lambda x: x.sum())(x)) == 28
total = xjax.shard_map(lambda x: xjax.lax.psum(x.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
assert float(xjax.jit(total)(x)) == 28
assert xjax.pmap(lambda x: 2 * x, devices=xjax.local_devices())(np.ones(2)).tolist() == [2, 2]
try:
    np.asarray(x)
except RuntimeError as error:
    assert "other processes" in str(error)
try:
    xjax.distributed.initialize(address, num_processes=2, process_id=rank)
except RuntimeError as error:
    assert "already joined" in str(error)
connection = processes.connection
assert connection.barrier("a test", f"name {rank}") == {0: "name 0", 1: "name 1"}
assert connection.barrier("a test", "again") == {0: "again", 1: "again"}
if rank == 0:
    try:
        connection.barrier("a test", "alone", timeout=0.5)
    except RuntimeError as error:
        assert "a test: process 1 of 2 did not reach the barrier" in str(error) and "'alone'" in str(error)
    else:
        raise AssertionError
if rank == 1:                       # one ends with a call, the other without: both wait for each other
    xjax.distributed.shutdown()
    assert not xjax.distributed.is_initialized()
print("done", rank)
"""


def test_two_processes(tmp_path):
    job = run_job(PROGRAM, tmp_path=tmp_path)
    assert_all_ended_well(job)
    assert all(f"done {rank}" in process.output for rank, process in enumerate(job))


# All processes compute together without end, except the victim, which ends in one of several ways.
ENDLESS = """
from xjax.sharding import NamedSharding, PartitionSpec as P
mesh = xjax.make_mesh((xjax.device_count(),), ("x",))
x = xjax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.arange(4.0) + 4 * rank)
step = xjax.jit(lambda x: x / x.sum())
failure, victim = os.environ["HOW"], int(os.environ["VICTIM"])
for i in range(10**9):
    x = step(x)
    time.sleep(0.01)
    if i == 10:
        x.block_until_ready()
        if rank == victim:
            print(f"ends at {time.time()}", flush=True)
            if failure == "raise":
                raise ValueError("it broke")
            if failure == "exit":
                sys.exit(3)
            if failure == "kill":
                os.kill(os.getpid(), 9)
        if "idle" in os.environ:
            time.sleep(1000)
"""

ENDS = {"raise": (1, "ValueError: it broke"), "exit": (3, "sys.exit(3)"), "kill": (-9, "")}


def check_failure(failure, victim, tmp_path, count=2, **env):
    env = clean_environment(HOW=failure, VICTIM=str(victim), **env)
    job = run_job(ENDLESS, count, env=env, tmp_path=tmp_path, timeout=90)
    status, reason = ENDS[failure]
    assert job[victim].status == status, job[victim].output
    for rank, process in enumerate(job):
        assert process.status not in (0, None), process.output
        assert process.seconds < job[victim].seconds + 20, process.output
        if reason and rank != victim:
            assert f"process {rank} of {count} ends, because process {victim} has failed" in process.output
            assert reason in process.output
    if reason:
        assert f"process {victim} of {count} ends without waiting for the others" in job[victim].output


def test_an_exception_ends_all(tmp_path):
    check_failure("raise", 1, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("failure", list(ENDS))
def test_a_failure_ends_all(failure, victim, tmp_path):
    check_failure(failure, victim, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("failure", list(ENDS))
def test_a_failure_ends_those_that_compute_nothing(failure, tmp_path):
    check_failure(failure, 1, tmp_path, idle="1")


@pytest.mark.slow
@pytest.mark.parametrize("failure", list(ENDS))
def test_a_failure_ends_four_processes(failure, tmp_path):
    for repeat in range(10):
        folder = tmp_path / str(repeat)
        folder.mkdir()
        check_failure(failure, repeat % 4, folder, count=4)


def test_who_does_not_come_is_named(tmp_path):
    program = "xjax.distributed.initialize(address, count, rank, initialization_timeout=4)\n"
    for process in run_job(program, 4, header=HEADER, ranks=[0, 2], tmp_path=tmp_path):
        assert process.status == 1
        assert "distributed.initialize: processes 1, 3 of 4 did not connect within 4 s." in process.output
        assert "fix: start all processes with the same address" in process.output


def test_process_0_does_not_come(tmp_path):
    program = "xjax.distributed.initialize(address, count, rank, initialization_timeout=1)\n"
    process, = run_job(program, 2, header=HEADER, ranks=[1], tmp_path=tmp_path)
    assert process.status == 1 and re.search(r"process 0 at 127.0.0.1:\d+ did not answer within 1 s", process.output)


def test_processes_that_disagree(tmp_path):
    program = "xjax.distributed.initialize(address, 2 + rank, rank, initialization_timeout=60)\n"
    for process in run_job(program, header=HEADER, tmp_path=tmp_path):
        assert process.status == 1 and "counts 3 processes, process 0 counts 2" in process.output
    program = "xjax.distributed.initialize(address, 3, min(rank, 1), initialization_timeout=60)\n"
    for process in run_job(program, 3, header=HEADER, tmp_path=tmp_path):
        assert process.status == 1 and "two processes have process_id 1" in process.output


def test_a_process_that_does_not_finish_is_named(tmp_path):
    program = """
xjax.distributed.initialize(address, count, rank, initialization_timeout=60, shutdown_timeout_seconds=1)
if rank == 1:
    time.sleep(4)
"""
    job = run_job(program, header=HEADER, tmp_path=tmp_path)
    assert job[0].status == 1
    assert "distributed.shutdown: process 1 of 2 did not finish." in job[0].output


def test_a_taken_port(tmp_path):
    program = """
import socket
taken = socket.create_server(("127.0.0.1", 0))
xjax.distributed.initialize(f"127.0.0.1:{taken.getsockname()[1]}", 2, 0)
"""
    process, = run_job(program, ranks=[0], header=HEADER, tmp_path=tmp_path)
    assert process.status == 1 and "process 0 cannot listen on 127.0.0.1" in process.output


def test_wrong_calls(monkeypatch):
    for name in list(os.environ):
        if name.endswith(("_NTASKS", "_PROCID", "_SIZE", "_RANK", "NUM_PROCESSES", "PROCESS_ID")) or name == "RANK":
            monkeypatch.delenv(name)
    with pytest.raises(ValueError, match="(?s)cannot find each other.*fix:"):
        xjax.distributed.initialize("127.0.0.1:1")
    with pytest.raises(ValueError, match="must be from 0"):
        xjax.distributed.initialize("127.0.0.1:1", 2, 2)
    with pytest.raises(ValueError, match="(?s)is not host:port.*fix:"):
        xjax.distributed.initialize("127.0.0.1", 2, 1)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    xjax.devices()
    with pytest.raises(RuntimeError, match="(?s)too late.*fix:"):
        xjax.distributed.initialize("127.0.0.1:1")
    xjax.distributed.shutdown()                                 # not initialized: no effect


ENVIRONMENTS = [
    ({}, (None, None, None)),
    (dict(JAX_COORDINATOR_ADDRESS="a:1", JAX_NUM_PROCESSES="2", JAX_PROCESS_ID="1"), ("a:1", 2, 1)),
    (dict(SLURM_JOB_ID="5", SLURM_NTASKS="4", SLURM_PROCID="3", SLURM_STEP_NODELIST="gpu[07-09,12],x1",
          SLURM_STEP_NUM_NODES="5"), ("gpu07:61445", 4, 3)),
    (dict(SLURM_JOB_ID="5", SLURM_NTASKS="4", SLURM_PROCID="3", SLURM_STEP_NODELIST="one,two"), ("one:61445", 4, 3)),
    (dict(SLURM_JOB_ID="5", SLURM_NTASKS="4", SLURM_PROCID="3", SLURM_STEP_NODELIST="one", SLURM_STEP_NUM_NODES="1"),
     ("127.0.0.1:61445", 4, 3)),
    (dict(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_LOCAL_SIZE="1",
          OMPI_MCA_orte_hnp_uri="1531576320.0;tcp://10.96.0.1,10.148.0.1:34911"), ("10.96.0.1:62624", 2, 0)),
    (dict(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_LOCAL_SIZE="1",
          OMPI_MCA_orte_hnp_uri="1314521088.0;tcp6://[fe80::b9b,2620:10d::3]:43370"), ("[fe80::b9b]:62880", 2, 0)),
    (dict(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1"), (None, 2, 1)),
    (dict(PMI_SIZE="2", PMI_RANK="1"), (None, 2, 1)),
    (dict(MASTER_ADDR="10.0.0.1", MASTER_PORT="29500", WORLD_SIZE="8", RANK="7"), ("10.0.0.1:29500", 8, 7)),
    (dict(MASTER_ADDR="10.0.0.1", MASTER_PORT="29500", WORLD_SIZE="8", RANK="7", TORCHELASTIC_USE_AGENT_STORE="True"),
     ("10.0.0.1:29501", 8, 7)),
]


@pytest.mark.parametrize("env, detected", ENVIRONMENTS)
def test_what_launchers_say(env, detected):
    assert clusters.detect(env) == detected


def test_open_mpi_5_on_one_machine():
    env = dict(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_LOCAL_SIZE="2",
               PMIX_NAMESPACE="job.1")
    address, count, rank = clusters.detect(env)
    assert (count, rank) == (2, 1) and re.fullmatch(r"127\.0\.0\.1:6[1-5]\d\d\d", address)


def test_launchers_as_jax_reads_them():
    code = """
import os
from jax._src.clusters.slurm_cluster import SlurmCluster
from jax._src.clusters.ompi_cluster import OmpiCluster
from tests.runtime.test_distributed import ENVIRONMENTS
for env, detected in ENVIRONMENTS:
    cluster = {"SLURM_STEP_NODELIST": SlurmCluster, "OMPI_MCA_orte_hnp_uri": OmpiCluster}
    for name, kind in cluster.items():
        if name in env and env.get("SLURM_STEP_NUM_NODES") != "1":
            os.environ.update(env)
            address = kind.get_coordinator_address(60, None)
            assert address == detected[0].replace("[", "").replace("]", ""), (address, detected)
from xjax.runtime.process import clusters
for kind, count, local in ((SlurmCluster, "SLURM_NTASKS", "SLURM_LOCALID"),
                           (OmpiCluster, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")):
    os.environ[local] = "3"
    assert kind.get_local_process_id() == clusters.local_rank({count: "8", local: "3"}) == 3
"""
    pytest.importorskip("jax")
    ended = subprocess.run([sys.executable, "-c", code], cwd=clean_environment()["PYTHONPATH"], capture_output=True,
                           text=True, timeout=120, env=clean_environment())
    assert ended.returncode == 0, ended.stderr
