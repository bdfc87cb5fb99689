"""Forked processes: the operations that work after a fork with a running backend; nothing waits for ever."""

import pytest

from tests.isolated import run

FORK = """
import os, sys, time
import numpy as np
import xjax, xjax.numpy as jnp

def in_child(work):
    '''The first line of the error that `work()` raises in a forked process, or the repr of its result.'''
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = repr(work())
        except RuntimeError as error:
            text = str(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = os.read(read, 10_000).decode()
    os.close(read)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, (status, text)
    return text
"""


def test_work_is_refused_and_ready_arrays_are_read():
    out = run(FORK + """
x = jnp.arange(4.0)
rows = xjax.pmap(lambda x: x * 2)(np.arange(4, dtype=np.float32).reshape(2, 2))
half = jnp.arange(3.0, dtype=jnp.bfloat16)
double = xjax.jit(lambda x: x * 2)
plus = xjax.jit(lambda x: x + 1)
of_sum = xjax.pmap(lambda x: xjax.lax.psum(x, "i"), axis_name="i")
for _ in range(2):
    double(x), double(np.ones(4, np.float32)), plus(rows), of_sum(rows)
compiled = double.lower(x).compile()
product = xjax.jit(lambda m: (m @ m @ m @ m @ m).sum())
m = jnp.eye(1000)
float(product(m))
refused = dict(
    operation=lambda: x + 1, number=lambda: x + 2.5, jit=lambda: double(x),
    host_values=lambda: double(np.ones(4, "f4")), sharded=lambda: plus(rows), pmap=lambda: of_sum(rows),
    compiled=lambda: compiled(x),
    new_program=lambda: xjax.jit(lambda x: x - 5)(x), new_array=lambda: jnp.asarray(np.ones(3)), index=lambda: x[1],
    move=lambda: xjax.device_put(x, xjax.devices()[1]), random=lambda: xjax.random.normal(xjax.random.key(0)),
    pending=lambda: pending.block_until_ready(), pending_tree=lambda: xjax.block_until_ready([pending]),
    pending_read=lambda: np.asarray(pending))
for name, work in refused.items():
    if name.startswith("pending"):
        pending = product(m)
    text = in_child(work)
    assert 'get_context("spawn")' in text and text.startswith("fork: this process was forked"), (name, text)
    assert len(text.splitlines()) <= 6
print(text)
assert in_child(lambda: np.asarray(x).tolist()) == "[0.0, 1.0, 2.0, 3.0]"
assert in_child(lambda: np.asarray(rows).tolist()) == "[[0.0, 2.0], [4.0, 6.0]]"
assert in_child(lambda: np.asarray(half).astype(float).tolist()) == "[0.0, 1.0, 2.0]"
assert in_child(lambda: repr(rows)[:6]) == "'Array('"
assert in_child(lambda: xjax.effects_barrier()) == "None"
assert (double(x) + 1).tolist() == [1, 3, 5, 7] and of_sum(rows).shape == (2, 2) and float(pending) == 1000
assert xjax.jit(lambda x: x - 3)(x).tolist() == [-3, -2, -1, 0]
""", devices=2)
    assert "forked from" in out and "fix: start processes" in out


def test_a_forked_process_ends_as_any_other():
    run(FORK + """
f = xjax.jit(lambda x: x * 2)
f(np.ones(3, np.float32)), jnp.ones(3) + 1
for end, status in ((lambda: None, 0), (xjax.clear_caches, 0), (lambda: sys.exit(3), 3 << 8)):
    pid = os.fork()
    if pid == 0:
        end()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == status
""", timeout=30, stacks=False)


def test_a_fork_before_the_backend_starts():
    run(FORK + """
def work():
    return float(xjax.jit(lambda x: x * 2)(jnp.ones(3)).sum()), float(xjax.pmap(jnp.sum)(np.ones((2, 3))).sum())
assert in_child(work) == "(6.0, 6.0)"
assert in_child(lambda: in_child(work)) == repr("(6.0, 6.0)")
assert work() == (6.0, 6.0)
assert "forked" in in_child(work)
""", devices=2)


@pytest.mark.parametrize("method, expected", [("fork", "[0, 1, 4, 9]"), ("spawn", "[0.0, 1.0, 4.0, 9.0]")])
def test_pools_of_multiprocessing(tmp_path, method, expected):
    (tmp_path / "squares.py").write_text("""
import numpy as np
import xjax.numpy as jnp

def with_numpy(n):
    return int(np.square(n))

def with_xjax(n):
    return float(jnp.square(float(n)))
""")
    out = run("""
import multiprocessing, sys
sys.path.insert(0, sys.argv[1])
import squares
import xjax.numpy as jnp

if __name__ == "__main__":
    assert float((jnp.ones(3) + 1).sum()) == 6
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        print(pool.map(squares.with_numpy if sys.argv[2] == "fork" else squares.with_xjax, range(4)))
        if sys.argv[2] == "fork":
            try:
                pool.map(squares.with_xjax, range(4))
            except RuntimeError as error:
                assert 'get_context("spawn")' in str(error)
            else:
                raise AssertionError("not refused")
    assert float((jnp.ones(3) + 1).sum()) == 6
""", tmp_path, method)
    assert out.strip() == expected
