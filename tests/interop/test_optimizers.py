"""Every optimizer of optax, bridged, against real optax on real JAX."""

import numpy as np
import pytest

import xjax
from tests.sampling import one_in
from xjax import interop

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

from xnn import optim  # noqa: E402  (needs optax)

ALIASES = ("adabelief", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamaxw", "adamw", "adan", "amsgrad",
           "fromage", "lamb", "lars", "lion", "nadam", "nadamw", "noisy_sgd", "novograd", "optimistic_adam",
           "optimistic_adam_v2", "optimistic_gradient_descent", "radam", "rmsprop", "rprop", "sgd", "sign_sgd",
           "signum", "sm3", "yogi")
OPTIONS = {"adadelta": {"learning_rate": 0.1}, "adafactor": {"learning_rate": 0.01, "min_dim_size_to_factor": 2},
           "fromage": {"learning_rate": 0.01}, "sgd": {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True},
           "noisy_sgd": {"learning_rate": 0.1, "key": 7},
           "optimistic_adam_v2": {"learning_rate": 0.1, "alpha": 1.0, "beta": 1.0}}


def params_and_grads(steps=5):
    rng = np.random.default_rng(0)
    shapes = {"dense": {"w": (4, 3), "b": (3,)}, "scale": ()}

    def tree():
        return jax.tree.map(lambda s: jax.numpy.float32(rng.normal(size=s)), shapes,
                            is_leaf=lambda s: isinstance(s, tuple))

    return tree(), [tree() for _ in range(steps)]


def run(module, tx, params, grads, **extra):
    update = jax.jit(tx.update) if module is optax else tx.update
    state = tx.init(params)
    for g in grads:
        updates, state = update(g, state, params, **extra)
        params = module.apply_updates(params, updates)
    return params, state


def to_host(leaf):
    if isinstance(leaf, jax.Array) and not isinstance(leaf.dtype, np.dtype):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def assert_same(ours, theirs, tol=1e-6):
    ours_leaves, ours_tree = jax.tree.flatten(ours)
    leaves, tree = jax.tree.flatten(theirs)
    assert ours_tree == tree
    for a, b in zip(ours_leaves, leaves, strict=True):
        assert not isinstance(a, jax.Array)
        a, b = to_host(a), to_host(b)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def on_device(tree):
    return xjax.tree_util.tree_map(interop.from_jax_array, tree)


@pytest.mark.parametrize("name", one_in(2, ALIASES))
def test_five_steps_equal_optax(name):
    options = OPTIONS.get(name, {"learning_rate": 0.1})
    params, grads = params_and_grads()
    if name == "sm3":                               # optax's cannot do scalars
        params, *grads = ({"dense": tree["dense"]} for tree in (params, *grads))
    theirs = run(optax, getattr(optax, name)(**options), params, grads)
    ours = run(optim, getattr(optim, name)(**options), on_device(params), on_device(grads))
    assert all(isinstance(x, xjax.Array) for x in jax.tree.leaves(ours))
    assert_same(ours, theirs)


def test_every_alias_is_tested():
    needs_more = {"lbfgs", "polyak_sgd"}            # tested below: their update needs the value
    found = {name for name in dir(optax._src.alias) if not name.startswith("_")}
    made = {name for name in found if getattr(getattr(optax._src.alias, name), "__annotations__", {}).get("return")
            in (optax.GradientTransformation, optax.GradientTransformationExtraArgs)}
    assert made & set(dir(optax)) - needs_more <= set(ALIASES)


def test_polyak_sgd_takes_the_value():
    params, grads = params_and_grads()
    theirs = run(optax, optax.polyak_sgd(0.5), params, grads, value=3.0)
    ours = run(optim, optim.polyak_sgd(0.5), on_device(params), on_device(grads), value=3.0)
    assert_same(ours, theirs)


def decayed(module):
    return module.chain(module.clip_by_global_norm(1.0), module.scale_by_adam(), module.add_decayed_weights(1e-2),
                        module.scale_by_schedule(module.cosine_decay_schedule(0.1, 10)), module.scale(-1.0))


def only_matrices(tree):
    return xjax.tree_util.tree_map(lambda x: x.ndim > 1, tree)


COMBINED = {
    "chain": decayed,
    "schedule as learning rate": lambda m: m.adamw(m.warmup_cosine_decay_schedule(0.0, 0.1, 2, 6), weight_decay=0.1),
    "masked by a function": lambda m: m.masked(m.scale(-0.1), only_matrices),
    "masked by a tree": lambda m: m.masked(m.scale(-0.1), {"dense": {"w": True, "b": False}, "scale": False}),
    "weight decay mask": lambda m: m.adamw(0.1, mask=only_matrices),
    "inject_hyperparams": lambda m: m.inject_hyperparams(m.adam)(learning_rate=m.linear_schedule(0.1, 0.0, 10)),
    "inject constant": lambda m: m.inject_hyperparams(m.sgd)(learning_rate=0.1, momentum=0.9),
    "multi_transform": lambda m: m.multi_transform(
        {"fast": m.adam(0.1), "slow": m.sgd(0.01)},
        {"dense": {"w": "fast", "b": "slow"}, "scale": "slow"}),
    "multi_transform by a function": lambda m: m.multi_transform(
        {True: m.adam(0.1), False: m.set_to_zero()}, only_matrices),
    "apply_if_finite": lambda m: m.apply_if_finite(m.adam(0.1), 3),
    "MultiSteps": lambda m: m.MultiSteps(m.adam(0.1), every_k_schedule=2),
    "MultiSteps as transformation": lambda m: m.MultiSteps(m.adam(0.1), 2).gradient_transformation(),
    "ema": lambda m: m.chain(m.sgd(0.1), m.ema(0.9)),
    "contrib": lambda m: m.contrib.schedule_free_adamw(0.1),
    "flatten": lambda m: m.flatten(m.adam(0.1)),
    "adaptive clip": lambda m: m.chain(m.adaptive_grad_clip(0.1), m.sgd(0.1)),
    "add_noise": lambda m: m.add_noise(0.1, 0.5, key=3),
    "centralize": lambda m: m.chain(m.centralize(), m.zero_nans(), m.sgd(0.1)),
}


@pytest.mark.parametrize("name", one_in(3, COMBINED))
def test_combinations_equal_optax(name):
    params, grads = params_and_grads()
    theirs = run(optax, COMBINED[name](optax), params, grads)
    ours = run(optim, COMBINED[name](optim), on_device(params), on_device(grads))
    assert_same(ours, theirs)


def test_apply_if_finite_skips_a_nan():
    params, (g, *_) = params_and_grads()
    bad = on_device({**g, "scale": jax.numpy.float32(np.nan)})
    tx = optim.apply_if_finite(optim.sgd(0.1), 3)
    updates, state = tx.update(bad, tx.init(on_device(params)), on_device(params))
    assert not any(np.any(np.asarray(u)) for u in jax.tree.leaves(updates))
    assert int(state.total_notfinite) == 1


def test_from_optax_takes_any_transformation():
    params, grads = params_and_grads()
    tx = optax.chain(optax.clip(0.5), optax.rmsprop(0.1))
    assert_same(run(optim, optim.from_optax(tx), on_device(params), on_device(grads)), run(optax, tx, params, grads))
    mixed = optim.chain(optim.from_optax(optax.clip(0.5)), optax.rmsprop(0.1))
    assert_same(run(optim, mixed, on_device(params), on_device(grads)), run(optax, tx, params, grads))


def test_from_optax_refuses_what_is_no_transformation():
    with pytest.raises(TypeError, match="(?s)needs an optax transformation.*fix:"):
        optim.from_optax(optax.adam)
