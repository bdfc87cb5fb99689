"""xnn.optimizers: the numbers of JAX's module, under jit, scan and pmap; states as trees; errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import lax, tree_util
from xnn import optimizers

RULES = {
    "sgd": (0.1,),
    "momentum": (0.1, 0.9),
    "nesterov": (0.1, 0.9),
    "adagrad": (0.1,),
    "rmsprop": (0.1,),
    "rmsprop_momentum": (0.1,),
    "adam": (0.1,),
    "adamax": (0.1,),
    "sm3": (0.1,),
}
SCHEDULES = {
    "constant": (0.3,),
    "exponential_decay": (0.5, 3, 0.7),
    "inverse_time_decay": (0.5, 3, 0.7),
    "inverse_time_decay staircase": (0.5, 3, 0.7, True),
    "polynomial_decay": (0.5, 4, 0.1),
    "polynomial_decay power": (0.5, 4, 0.1, 2.0),
    "piecewise_constant": ([1, 3], [0.5, 0.25, 0.125]),
}
N_STEPS = 5


def _tree(seed):
    npr = np.random.default_rng(seed)
    return {"w": npr.normal(size=(3, 4)).astype(np.float32),
            "b": [npr.normal(size=4).astype(np.float32), np.asarray(npr.normal(), np.float32)]}


PARAMS, GRADS = _tree(0), [_tree(step + 1) for step in range(N_STEPS)]
# An entry whose gradient is 0 in all steps: sums of squares stay 0 there.
for _tree_of_grads in GRADS:
    _tree_of_grads["w"][0, 0] = 0


def _run(lib, module, name, wrap=lambda lib, update: update):
    """Parameters after 5 steps of a rule, by JAX's module or xnn's."""
    init, update, get_params = getattr(module, name)(*RULES[name])
    update = wrap(lib, update)
    state = init(tree_util.tree_map(lib.numpy.asarray, PARAMS))
    for step, grads in enumerate(GRADS):
        state = update(step, tree_util.tree_map(lib.numpy.asarray, grads), state)
    return get_params(state)


def _reference():
    real_jax()
    return real_jax("example_libraries.optimizers").example_libraries.optimizers


@pytest.mark.parametrize("name", one_in(3, RULES))
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_parameters_are_those_of_jax_bit_for_bit(name, mode):
    """The operations are the same in the same order, and XLA compiles both."""
    jax, reference = real_jax(), _reference()
    wrap = (lambda lib, update: lib.jit(update)) if mode == "jit" else (lambda lib, update: update)
    ours, theirs = _run(xjax, optimizers, name, wrap), _run(jax, reference, name, wrap)
    assert str(tree_util.tree_structure(ours)) == str(jax.tree_util.tree_structure(theirs))
    assert_same(ours, theirs, tol=0)


@pytest.mark.parametrize("name", one_in(3, RULES))
def test_a_scan_over_steps_is_the_loop(name):
    init, update, get_params = getattr(optimizers, name)(*RULES[name])

    @xjax.jit
    def run(params, grads):
        def step(state, row):
            return update(*row, state), None

        state, _ = lax.scan(step, init(params), (jnp.arange(N_STEPS), grads))
        return get_params(state)

    stacked = tree_util.tree_map(lambda *leaves: np.stack(leaves), *GRADS)
    got = run(PARAMS, stacked)
    # The loop is compiled too: an eager Adam expands b2 ** (i + 1), which changes 1 - b2 ** (i + 1) by 1e-4.
    loop = _run(xjax, optimizers, name, lambda lib, update: lib.jit(update))
    assert_same(got, loop, tol=0.05)


def test_schedules_are_those_of_jax():
    jax, reference = real_jax(), _reference()
    steps = np.arange(8, dtype=np.int32)
    for name, args in SCHEDULES.items():
        function = name.split()[0]
        ours, theirs = getattr(optimizers, function)(*args), getattr(reference, function)(*args)
        eager = np.asarray([ours(int(i)) for i in steps], np.float32)
        # Python computes in double precision: rounded once, the result is within an ulp of XLA's in float32.
        np.testing.assert_allclose(eager, [np.float32(theirs(int(i))) for i in steps], rtol=3e-7, err_msg=name)
        if name != "constant":
            traced = xjax.jit(xjax.vmap(ours))(steps)       # under the strict promotion of these tests
            np.testing.assert_array_equal(traced, jax.jit(jax.vmap(theirs))(steps), err_msg=name)
    assert optimizers.make_schedule(ours) is ours and optimizers.make_schedule(0.5)(7) == 0.5


def test_a_schedule_in_the_place_of_a_step_size():
    init, update, get_params = optimizers.sgd(optimizers.piecewise_constant([1], [1.0, 10.0]))
    state = init(jnp.zeros(()))
    for step in range(4):
        state = update(step, jnp.ones(()), state)
    assert float(get_params(state)) == -(1 + 1 + 10 + 10)


def test_norm_and_clipping():
    grads = {"a": jnp.array([3.0, 0.0]), "b": [jnp.array([[4.0]])]}
    assert float(optimizers.l2_norm(grads)) == 5.0
    kept = optimizers.clip_grads(grads, 5.5)
    np.testing.assert_array_equal(kept["a"], grads["a"])
    clipped = xjax.jit(optimizers.clip_grads)(grads, 0.5)
    np.testing.assert_allclose(clipped["a"], [0.3, 0.0], rtol=1e-6)
    np.testing.assert_allclose(optimizers.l2_norm(clipped), 0.5, rtol=1e-6)
    np.testing.assert_allclose(xjax.grad(optimizers.l2_norm)(grads)["b"][0], [[0.8]], rtol=1e-6)
    assert np.isnan(optimizers.clip_grads({"a": jnp.array([np.nan, 1.0])}, 1.0)["a"]).all()


def test_the_derivative_through_an_update_is_finite_where_a_gradient_is_zero():
    def after(rate, g, name):
        init, update, get_params = getattr(optimizers, name)(rate)
        return jnp.sum(get_params(update(0, g, init(jnp.ones(2)))))

    for name in ("adagrad", "sm3"):
        by_rate, by_grad = xjax.grad(after, (0, 1))(0.1, jnp.array([0.0, 2.0]), name)
        np.testing.assert_allclose(by_rate, -0.1, rtol=1e-6)    # (1 - momentum) g / |g|, once
        assert np.isfinite(by_grad).all(), name


# -- states ---------------------------------------------------------------------------------------------------------

def test_a_state_is_a_tree_of_arrays_only():
    for name, args in RULES.items():
        state = getattr(optimizers, name)(*args).init_fn(tree_util.tree_map(jnp.asarray, PARAMS))
        assert isinstance(state, optimizers.OptimizerState)
        assert {type(leaf) for leaf in tree_util.tree_leaves(state)} == {type(jnp.ones(1))}, name
        copy = tree_util.tree_map(lambda x: x + 0, state)
        assert type(copy) is type(state) and copy.tree_def == state.tree_def
    paths = [tree_util.keystr(path) for path, _ in tree_util.tree_leaves_with_path(state)]
    assert paths[0] == ".packed_state[0][0]"


def test_parameters_of_sm3_keep_their_shapes_under_jit():
    init, update, get_params = optimizers.sm3(0.1)
    state = xjax.jit(update)(0, tree_util.tree_map(jnp.ones_like, PARAMS), init(PARAMS))
    assert tree_util.tree_map(jnp.shape, xjax.jit(get_params)(state)) == tree_util.tree_map(np.shape, PARAMS)


@pytest.mark.parametrize("name", ["sgd", "adam", "sm3"])
def test_unpacked_states_go_through_pickle(name):
    init, update, get_params = getattr(optimizers, name)(*RULES[name])
    state = update(0, GRADS[0], init(PARAMS))
    marked = optimizers.unpack_optimizer_state(state)
    assert isinstance(marked["b"][1], optimizers.JoinPoint)
    as_arrays = tree_util.tree_map(lambda join: optimizers.JoinPoint(xjax.device_get(join.subtree)), marked)
    back = optimizers.pack_optimizer_state(pickle.loads(pickle.dumps(as_arrays)))
    assert tree_util.tree_structure(back) == tree_util.tree_structure(state)
    after, expected = (get_params(update(1, GRADS[1], s)) for s in (back, state))
    np.testing.assert_array_equal(after["w"], expected["w"])
    (subtree,) = marked["w"]
    assert subtree is marked["w"].subtree


def test_pmap_with_summed_gradients_is_one_device_with_the_whole_batch():
    init, update, get_params = optimizers.momentum(0.1, 0.9)
    inputs = np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32)

    def loss(w, x):
        return jnp.mean((x @ w - 1) ** 2)

    def step(i, state, x, mean=lambda grads: grads):
        return update(i, mean(xjax.grad(loss)(get_params(state), x)), state)

    def on_each(i, state, x):
        return step(i, state, x, lambda grads: lax.pmean(grads, "batch"))

    state = init(jnp.zeros(3))
    states = tree_util.tree_map(lambda leaf: jnp.stack([leaf] * 4), state)
    parallel = xjax.pmap(on_each, axis_name="batch", in_axes=(None, 0, 0))
    for i in range(3):
        state, states = step(i, state, inputs.reshape(8, 3)), parallel(i, states, inputs)
    every = np.asarray(xjax.pmap(get_params)(states))
    np.testing.assert_array_equal(every, every[:1].repeat(4, 0))
    np.testing.assert_allclose(every[0], get_params(state), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_goes_downhill(name):
    init, update, get_params = getattr(optimizers, name)(*RULES[name])

    @xjax.jit
    def run(x):
        def step(state, i):
            x = get_params(state)
            return update(i, x * jnp.array([1.0, 4.0]), state), None     # gradient of (x0**2 + 4 x1**2) / 2

        return get_params(lax.scan(step, init(x), jnp.arange(100))[0])

    assert np.abs(run(jnp.array([1.0, -1.0]))).max() < 0.25


# -- custom rules, and errors ----------------------------------------------------------------------------------------

@optimizers.optimizer
def averaging(rate):
    """Descent that also keeps the mean of the parameters, in a dict."""
    def init(x):
        return {"x": x, "mean": x}

    def update(i, g, state):
        x = state["x"] - rate * g
        return {"x": x, "mean": state["mean"] + (x - state["mean"]) / (i + 2)}

    return init, update, lambda state: state["mean"]


@optimizers.optimizer
def growing():
    return lambda x: [x], lambda i, g, state: [*state, g], lambda state: state[0]


def test_a_rule_of_ones_own():
    assert averaging.__name__ == "averaging" and averaging.__doc__.startswith("Descent")
    init, update, get_params = averaging(1.0)
    state = init([jnp.zeros(())])
    for i in range(2):
        state = update(i, [jnp.ones(())], state)
    assert float(get_params(state)[0]) == -1.0      # mean of 0, -1, -2


WRONG = {
    "tree of gradients": (
        lambda: optimizers.sgd(0.1).update_fn(0, {"w": PARAMS["w"], "b": ()}, optimizers.sgd(0.1).init_fn(PARAMS)),
        TypeError, ["optimizers.sgd update", "structure of the parameters", "grads['b']", "list of 2", "tuple of 0"]),
    "no state": (
        lambda: optimizers.adam(0.1).update_fn(0, PARAMS, PARAMS),
        TypeError, ["optimizers.adam update", "the state that init", "dict", "update(step, grads, opt_state)"]),
    "parameters of no state": (
        lambda: optimizers.adam(0.1).params_fn(PARAMS), TypeError, ["optimizers.adam get_params", "dict"]),
    "rule that changes its state": (
        lambda: growing().update_fn(0, PARAMS, growing().init_fn(PARAMS)),
        TypeError, ["optimizers.growing update", "changed the structure", "params['b'][1]: ", "list of 1"]),
    "step size": (
        lambda: optimizers.sgd(np.ones(3, np.float32)),
        TypeError, ["optimizers.make_schedule", "number or a function"]),
    "boundaries": (
        lambda: optimizers.piecewise_constant([1, 2], [0.1, 0.2]),
        ValueError, ["optimizers.piecewise_constant", "one more", "i32[2]", "f32[2]"]),
    "boundaries of two axes": (
        lambda: optimizers.piecewise_constant([[1]], [0.1, 0.2]), ValueError, ["i32[1,1]"]),
    "pack": (
        lambda: optimizers.pack_optimizer_state({"w": [optimizers.JoinPoint(1), 2.0]}),
        TypeError, ["optimizers.pack_optimizer_state", "tree['w'][1]", "float 2.0", "unpack_optimizer_state"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name):
    assert_refused(*WRONG[name])
