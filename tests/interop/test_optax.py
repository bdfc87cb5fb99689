"""Every public function of optax, bridged as `xnn.optim`, compared with optax on real JAX."""

import jax
import numpy as np
import pytest

import xjax
from tests.compare import assert_close, assert_same
from tests.oracle import real_jax
from tests.sampling import one_in
from xjax import interop

real_jax()
optax = pytest.importorskip("optax")

from tests.interop import optax_table as table  # noqa: E402  (needs optax)
from tests.interop import test_losses as losses  # noqa: E402
from xnn import optim  # noqa: E402

TRANSFORMATIONS = {**table.OPTIMIZERS, **table.TRANSFORMS, **table.WRAPPERS}


def assert_same_tree(ours, theirs, what, tol):
    """Assert the same tree, without arrays of JAX in ours. Functions are not compared, and weak types may differ."""
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(ours)), what
    plain = lambda x: None if callable(x) else np.asarray(x) if isinstance(getattr(x, "dtype", 0), np.dtype) else x
    assert_same(*(jax.tree.map(plain, tree) for tree in (ours, theirs)), tol=tol, what=what)


def steps(m, lib, name, make):
    """Parameters and state after each step."""
    extra = table.EXTRA.get(name, ())
    params, grads = table.PARAMS, table.GRADS
    if name in table.PARTS:
        params, *grads = map(table.PARTS[name], (params, *grads))
    params = table.STARTS.get(name, lambda params: params)(params)
    tx = make(m)
    loss, value_and_grad = table.loss, jax.jit(jax.value_and_grad(table.loss))
    update = tx.update
    if lib is xjax:
        loss, value_and_grad = interop.from_jax(loss), interop.from_jax(value_and_grad)
    else:
        update = jax.jit(lambda g, state, params, **options: tx.update(g, state, params, **options),
                         static_argnames=("value_fn", "obj_fn"))
    state = tx.init(params)
    for g in grads:
        options = {}
        if extra:
            value, g = value_and_grad(params)
            values = {"value": value, "grad": g, "value_fn": loss, "obj_fn": loss}
            options = {k: values[k] for k in extra}
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
    expected = np.array(jax.jit(lambda count: [theirs(step) for step in count])(list(count)))
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


# -- single cases -------------------------------------------------------------------------------------------------

def test_apply_if_finite_skips_a_nan():
    bad = {**table.GRADS[0], "scale": np.float32(np.nan)}
    tx = optim.apply_if_finite(optim.sgd(0.1), 3)
    updates, state = tx.update(bad, tx.init(table.PARAMS), table.PARAMS)
    assert not any(np.any(np.asarray(u)) for u in jax.tree.leaves(updates))
    assert int(state.total_notfinite) == 1


def test_from_optax_takes_any_transformation():
    tx = optax.chain(optax.clip(0.5), optax.rmsprop(0.1))
    theirs = list(steps(optax, jax, "", lambda m: tx))[-1]
    assert_same_tree(list(steps(optim, xjax, "", lambda m: m.from_optax(tx)))[-1], theirs, "from_optax", 80.0)
    mixed = optim.chain(optim.from_optax(optax.clip(0.5)), optax.rmsprop(0.1))
    assert_same_tree(list(steps(optim, xjax, "", lambda m: mixed))[-1], theirs, "mixed", 80.0)


def test_typed_keys_of_xjax_are_keys_for_optax():
    ours, theirs = (m.add_noise(0.1, 0.5, key=lib.random.key(3)) for m, lib in ((optim, xjax), (optax, jax)))
    got, _ = ours.update(table.GRADS[0], ours.init(table.PARAMS))
    expected, _ = theirs.update(table.GRADS[0], theirs.init(table.PARAMS))
    assert_same_tree(got, expected, "add_noise", 4.0)


def test_from_optax_refuses_what_is_no_transformation():
    with pytest.raises(TypeError, match="(?s)needs an optax transformation.*fix:"):
        optim.from_optax(optax.adam)


def test_a_number_stays_a_number():
    assert optim.constant_schedule(0.1)(3) == 0.1


def test_a_schedule_with_python_steps_is_traced_once():
    calls = []

    def schedule(step):
        calls.append(step)
        return 0.1 * jax.numpy.cos(step)

    bridged = interop.from_jax(schedule)
    for step in range(5):
        np.testing.assert_allclose(float(bridged(step)), 0.1 * np.cos(step), rtol=1e-6)
    assert len(calls) == 1
