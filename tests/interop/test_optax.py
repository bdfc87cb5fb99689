"""Every public function of optax, bridged as `xnn.optim`, against optax on real JAX."""

import jax
import numpy as np
import pytest

import xjax
from tests.compare import assert_close, type_text
from tests.oracle import real_jax
from tests.sampling import one_in
from xjax import interop

real_jax()
optax = pytest.importorskip("optax")

from tests.interop import optax_table as table  # noqa: E402  (needs optax)
from tests.interop import test_schedules_and_losses as losses  # noqa: E402
from xnn import optim  # noqa: E402

TRANSFORMATIONS = {**table.OPTIMIZERS, **table.TRANSFORMS, **table.WRAPPERS}


def assert_same_tree(ours, theirs, what, tol):
    """The same structure, and of each leaf shape, dtype and value."""
    ours_leaves, ours_tree = jax.tree.flatten(ours)
    leaves, tree = jax.tree.flatten(theirs)
    assert ours_tree == tree, what
    for a, b in zip(ours_leaves, leaves, strict=True):
        assert not isinstance(a, jax.Array), what
        if hasattr(b, "dtype"):
            assert type_text(a).removesuffix(" weak") == type_text(b).removesuffix(" weak"), what
            assert_close(a, b, tol=tol, what=what)
        else:
            assert a == b or callable(a), what


def steps(m, lib, name, make):
    """Parameters and state after each of the steps."""
    extra = table.EXTRA.get(name, ())
    params, grads = table.PARAMS, table.GRADS
    if name in table.NO_SCALARS:
        params, *grads = ({"dense": tree["dense"]} for tree in (params, *grads))
    tx = make(m)
    loss, value_and_grad = table.loss, jax.jit(jax.value_and_grad(table.loss))
    update = tx.update
    if lib is xjax:
        loss, value_and_grad = interop.from_jax(loss), interop.from_jax(value_and_grad)
    else:
        update = jax.jit(tx.update, static_argnames=("value_fn", "obj_fn"))
    state = tx.init(params)
    for g in grads:
        options = {}
        if extra:
            value, g = value_and_grad(params)
            given = {"value": value, "grad": g, "value_fn": loss, "obj_fn": loss}
            options = {k: given[k] for k in extra}
        if name in table.PER_EXAMPLE:
            g = jax.tree.map(lambda x: np.stack([x, 2 * x, -x]), g)
        updates, state = update(g, state, params, **options)
        params = m.apply_updates(params, updates)
        yield params, state


@pytest.mark.parametrize("name", one_in(12, TRANSFORMATIONS))
def test_steps_equal_optax(name):
    make = TRANSFORMATIONS[name]
    both = zip(steps(optim, xjax, name, make), steps(optax, jax, name, make), strict=True)
    for k, (ours, theirs) in enumerate(both):
        assert_same_tree(ours, theirs, f"{name}, step {k}", tol=4.0 * (k + 1))


@pytest.mark.parametrize("name", one_in(12, table.FUNCTIONS))
def test_functions_equal_optax(name):
    call = table.FUNCTIONS[name]
    assert_same_tree(call(optim), call(optax), name, tol=4.0)


@pytest.mark.parametrize("name", one_in(4, table.SCHEDULES))
def test_schedules_equal_optax(name):
    ours, theirs = table.SCHEDULES[name](optim), table.SCHEDULES[name](optax)
    count = np.arange(table.STEPS, dtype=np.int32)
    expected = np.array([theirs(jax.numpy.int32(step)) for step in count])
    assert_close([np.float32(ours(step)) for step in count], list(expected), what=name)
    assert_close([np.float32(ours(int(step))) for step in count[::7]], list(expected[::7]), what=f"{name} of int")
    mapped = xjax.jit(xjax.vmap(lambda step: ours(step) * np.ones((), np.float32)))(count)
    assert_close(mapped, expected, what=f"vmap of {name}")


def test_every_function_has_a_row():
    rows = {*TRANSFORMATIONS, *table.FUNCTIONS, *table.SCHEDULES, *table.LEFT_OUT}
    names = {row.partition("-")[0] for row in rows}
    covered = {id(table.find(optax, name)) for name in names if " " not in name}
    covered |= {id(getattr(optax.losses, name)) for name in losses.LOSSES}
    missing = [name for name in table.public_functions() if id(table.find(optax, name)) not in covered]
    assert not missing
