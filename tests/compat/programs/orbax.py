"""Orbax: a training state that is saved and restored every few steps, by a manager, sharded, and with keys."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (32, 4))
Y = jnp.sin(X @ jnp.arange(1.0, 5.0))
OPTIMIZER = optax.adam(0.05)


def new_state():
    w = {"a": jax.random.normal(jax.random.fold_in(KEY, 1), (4, 8)), "b": jnp.ones(8) / 8}
    return {"w": w, "optimizer": OPTIMIZER.init(w), "step": jnp.array(0)}


@jax.jit
def step(state):
    value, g = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(X @ w["a"]) @ w["b"] - Y) ** 2))(state["w"])
    updates, optimizer = OPTIMIZER.update(g, state["optimizer"], state["w"])
    return {"w": optax.apply_updates(state["w"], updates), "optimizer": optimizer, "step": state["step"] + 1}, value


def restored():
    state = new_state()
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as checkpointer:
        for i in range(20):
            if i % 5 == 4:
                path = Path(folder) / str(i)
                checkpointer.save(path, state)
                checkpointer.wait_until_finished()
                state = checkpointer.restore(path, jax.tree.map(ocp.utils.to_shape_dtype_struct, state))
            state, value = step(state)
            yield value


def managed():
    options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=4)
    with tempfile.TemporaryDirectory() as folder:
        with ocp.CheckpointManager(Path(folder), options=options) as manager:
            state = new_state()
            for i in range(20):
                state, value = step(state)
                manager.save(i, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
            yield from manager.all_steps()
        with ocp.CheckpointManager(Path(folder), options=options) as manager:
            template = jax.tree.map(ocp.utils.to_shape_dtype_struct, new_state())
            state = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(template))
            yield state["step"]
            for _ in range(4):
                state, value = step(state)
                yield value


def sharded():
    mesh = Mesh(jax.devices(), ("x",))
    rows, whole = NamedSharding(mesh, PartitionSpec("x")), NamedSharding(mesh, PartitionSpec())
    state = {"rows": jax.device_put(jnp.arange(12.0).reshape(4, 3), rows), "whole": jax.device_put(X, whole),
             "half": jnp.linspace(0, 1, 5, dtype=jnp.bfloat16), "number": 3}
    with tempfile.TemporaryDirectory() as folder, ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(Path(folder) / "state", state)
        targets = jax.tree.map(lambda _: None, state) | {
            "rows": ocp.ArrayRestoreArgs(sharding=whole), "whole": ocp.ArrayRestoreArgs(sharding=rows),
            "half": ocp.ArrayRestoreArgs(dtype=jnp.float32), "number": ocp.RestoreArgs(restore_type=int)}
        new = checkpointer.restore(Path(folder) / "state", restore_args=targets)
    assert new["rows"].sharding.is_equivalent_to(whole, 2) and new["whole"].sharding.is_equivalent_to(rows, 2)
    assert new["half"].dtype == jnp.float32 and type(new["number"]) is int
    yield from (jnp.sum(new["rows"] ** 2), jnp.sum(jnp.sin(new["whole"])), new["half"].sum(), new["number"])


PROGRAMS = [restored, managed, sharded]
