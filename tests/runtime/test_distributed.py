"""Two processes on this machine: they find each other, compute together, and end; wrong calls say what is missing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import xjax

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
import numpy as np
import xjax
from xjax.sharding import NamedSharding, PartitionSpec as P

rank, address = int(sys.argv[1]), sys.argv[2]
xjax.config.update("jax_num_cpu_devices", 2)
assert not xjax.distributed.is_initialized()
xjax.distributed.initialize(address, num_processes=2, process_id=rank, initialization_timeout=60)
assert xjax.distributed.is_initialized()
assert (xjax.device_count(), xjax.local_device_count(), xjax.process_count(), xjax.process_index()) == (4, 2, 2, rank)
mesh = xjax.make_mesh((4,), ("x",))
x = xjax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.arange(4.0) + 4 * rank)
assert x.shape == (8,) and len(x.addressable_shards) == 2
assert "other processes" in repr(x) and "f32[8]" in str(x) == f"{x}"
again = xjax.make_array_from_single_device_arrays((8,), x.sharding, [s.data for s in x.addressable_shards][::-1])
assert float(xjax.jit(lambda x, y: (x - y).sum())(x, again)) == 0
assert float(xjax.jit(lambda x: x.sum())(x)) == 28
total = xjax.shard_map(lambda x: xjax.lax.psum(x.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
assert float(xjax.jit(total)(x)) == 28
try:
    xjax.pmap(lambda x: x)(np.ones(2))
except NotImplementedError as error:
    assert "devices=xjax.local_devices()" in str(error)
assert xjax.pmap(lambda x: 2 * x, devices=xjax.local_devices())(np.ones(2)).tolist() == [2, 2]
try:
    np.asarray(x)
except RuntimeError as error:
    assert "other processes" in str(error)
try:
    xjax.distributed.initialize(address, num_processes=2, process_id=rank)
except RuntimeError as error:
    assert "joined already" in str(error)
xjax.distributed.shutdown()
print("done", rank)
"""


def test_two_processes():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}
    started = [subprocess.Popen([sys.executable, "-c", PROGRAM, str(rank), address], env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(2)]
    try:
        for rank, process in enumerate(started):
            out = process.communicate(timeout=120)[0]
            assert process.returncode == 0 and f"done {rank}" in out, out
    finally:
        for process in started:
            process.kill()


def test_wrong_calls(monkeypatch):
    for name in list(os.environ):
        if name.endswith(("_NTASKS", "_PROCID", "_SIZE", "_RANK", "NUM_PROCESSES", "PROCESS_ID")) or name == "RANK":
            monkeypatch.delenv(name)
    with pytest.raises(ValueError, match="(?s)cannot find each other.*fix:"):
        xjax.distributed.initialize("127.0.0.1:1")
    with pytest.raises(ValueError, match="counts from 0"):
        xjax.distributed.initialize("127.0.0.1:1", 2, 2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    xjax.devices()
    with pytest.raises(RuntimeError, match="(?s)too late.*fix:"):
        xjax.distributed.initialize("127.0.0.1:1")
    xjax.distributed.shutdown()                                 # nothing to leave: no effect
