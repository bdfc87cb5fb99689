"""Recurrent layers beyond the table: PyTorch's values, carries, caches, initial weights, precision, long sequences."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close
from tests.xnn.drawn_params import drawn_params
from tests.xnn.peers import recurrent as peer
from tests.xnn.rows.recurrent import normalised
from xjax import lax, nn, random, tree_util
from xnn import GRU, LSTM, RNN, Dense, Dropout, GRUCell, LSTMCell, RNNCell, bidirectional, init_carry, scan_over_time

TORCH = np.load(peer.FILE)
OPTIONS = {"num_layers": "layers", "proj_size": "projection", "bidirectional": "bidirectional"}


@pytest.fixture(scope="module")
def sequence():
    return jnp.asarray(np.random.default_rng(1).normal(size=(2, 6, 3)), jnp.float32)


def made(layer, in_shape=(-1, -1, 3)):
    return drawn_params(layer, in_shape)


def initial(layer, in_shape):
    return layer.init(random.key(0), in_shape)[1]


# -- PyTorch ----------------------------------------------------------------------------------------------------------


def ours_of(name, of=""):
    """Parameters of xnn from PyTorch's, or gradients with ``of="d_"``."""
    kind, options = peer.CASES[name]
    at = lambda weight: TORCH[f"{name}/{of}{weight}"]

    def cell(end):
        w_in, w_rec, b_in, b_rec = (at(f"{what}_{end}") for what in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        params = {"w_in": w_in.T, "w_rec": w_rec.T, "b": b_in if of else b_in + b_rec}   # one gradient for both biases
        if kind == "GRU":       # the bias of h in the new state is multiplied by the reset gate
            params |= {"b": np.concatenate([params["b"][:8], b_in[8:]]), "b_rec": b_rec[8:]}
        return params | ({"w_proj": at(f"weight_hr_{end}").T} if "proj_size" in options else {})

    layers = range(options.get("num_layers", 1))
    if "bidirectional" in options:
        return {f"layer_{i}": {"forward": cell(f"l{i}"), "backward": cell(f"l{i}_reverse")} for i in layers}
    return {f"layer_{i}": cell(f"l{i}") for i in layers}


@pytest.mark.parametrize("name", peer.CASES)
def test_values_and_gradients_of_pytorch(name):
    kind, options = peer.CASES[name]
    settings = {OPTIONS[key]: value for key, value in options.items() if key in OPTIONS}
    layer = getattr(xnn, kind)(4, return_carry=True, **settings, **({"activation": nn.relu} if kind == "RNN" else {}))
    lengths = jnp.array(peer.LENGTHS)

    def total(params, x):
        y, carry = layer.apply(params, x, lengths=lengths)
        return jnp.sum(jnp.sin(y)), (y, carry)

    grads, (y, carry) = xjax.jit(xjax.grad(total, (0, 1), has_aux=True))(ours_of(name), TORCH[f"{name}/x"])
    assert_close(y, TORCH[f"{name}/y"], tol=0.25)
    assert_close(grads[1], TORCH[f"{name}/dx"], tol=0.25)       # sums over at most 15 positions, of terms of size 1
    assert_close(grads[0], ours_of(name, "d_"), tol=0.25)
    leaves = [leaf for layer_carry in carry for leaf in tree_util.tree_leaves(layer_carry)]
    kept = 2 if kind == "LSTM" else 1
    for i in range(kept):                                      # PyTorch stacks layers and directions in one array
        assert_close(np.stack(leaves[i::kept]), TORCH[f"{name}/carry_{i}"], tol=0.25)


# -- carries and caches ------------------------------------------------------------------------------------------------


STACKS = {"RNN": RNN(4), "LSTM": LSTM(4, layers=2), "GRU": GRU(4, layers=2, dropout=0.5)}


@pytest.mark.parametrize("name", STACKS)
def test_a_sequence_in_parts_is_the_whole(name, sequence):
    layer = STACKS[name]
    params = made(layer)
    whole = xjax.jit(layer.apply)(params, sequence)
    cache, step = layer.init_cache(2, 6), xjax.jit(layer.apply_with_cache)
    start, cache = step(params, cache, sequence[:, :4])
    rest = []
    for t in (4, 5):
        y, cache = step(params, cache, sequence[:, t:t + 1])
        rest.append(y)
    assert_close(np.concatenate([start, *rest], 1), whole, tol=0.25)


def test_the_carry_continues_a_sequence(sequence):
    layer = LSTM(4, layers=2, return_carry=True)
    params = made(layer)

    @xjax.jit
    def computed(params, x):
        start, carry = layer.apply(params, x[:, :4])
        return layer.apply(params, x), start, layer.apply(params, x[:, 4:], carry=carry)

    (whole, last), start, (end, carry) = computed(params, sequence)
    assert_close(np.concatenate([start, end], 1), whole, tol=0.25)
    assert_close(carry, last, tol=0.25)


def test_a_scan_is_the_cell_step_by_step(sequence):
    cell = LSTMCell(4)
    params = made(cell, (-1, 3))
    carry, ys = init_carry(cell, params, sequence[:, 0]), []
    assert_close(carry, (jnp.zeros((2, 4)), jnp.zeros((2, 4))), tol=0.25)
    for t in range(6):
        y, carry = cell.apply(params, sequence[:, t], carry)
        ys.append(y)
    y, last = scan_over_time(cell, return_carry=True).apply(params, sequence)
    assert_close((y, last), (jnp.stack(ys, 1), carry), tol=0.25)


def test_padding_does_not_reach_values_or_gradients(sequence):
    layer = bidirectional(GRUCell(4), GRUCell(4))
    params, lengths = made(layer), jnp.array([6, 2])

    @xjax.jit
    def gradients(x):
        def total(params, x):
            y = layer.apply(params, x, lengths=lengths)
            return jnp.sum(jnp.sin(y)), y
        return xjax.grad(total, (0, 1), has_aux=True)(params, x)

    far = np.array(sequence)
    far[1, 2:] = np.nan
    (grads, _), (other_grads, y) = gradients(sequence), gradients(far)
    assert_close(grads, other_grads, tol=0.06)
    assert not np.any(np.asarray(other_grads[1])[1, 2:])
    assert_close(np.asarray(y)[1:, :2], xjax.jit(layer.apply)(params, far[1:, :2]), tol=0.25)


def test_a_sequence_of_length_0_and_time_of_size_0(sequence):
    layer = LSTM(4, return_carry=True)
    params = made(layer)
    y, carry = xjax.jit(lambda x: layer.apply(params, x, lengths=jnp.array([0, 6])))(sequence)
    y, h = np.asarray(y), np.asarray(carry[0][0])
    assert not np.any(y[0]) and not np.any(h[0])
    y, carry = layer.apply(params, sequence[:, :0])
    assert y.shape == (2, 0, 4) and not np.any(carry[0][1])


def test_a_cell_of_layers_draws_other_numbers_at_each_position():
    cell = xnn.composite(lambda layers, x, carry=None: (layers.drop(x), jnp.zeros_like(x)), drop=Dropout(0.5))
    y = scan_over_time(cell).apply({"drop": ()}, jnp.ones((1, 8, 16)), rng=random.key(0), train=True)
    assert len({row.tobytes() for row in np.asarray(y[0])}) == 8


def test_generation_in_one_loop():
    model = xnn.serial(xnn.Embedding(5, 3), LSTM(4), Dense(5))
    params = drawn_params(model, (-1, -1))

    def next_token(state, _):
        tokens, cache = state
        logits, cache = model.apply_with_cache(params, cache, tokens[:, None])
        tokens = jnp.argmax(logits[:, 0], -1).astype(tokens.dtype)
        return (tokens, cache), tokens

    first = np.array([1, 3], np.int32)
    _, tokens = xjax.jit(lambda first: lax.scan(next_token, (first, model.init_cache(2, 4)), None, length=4))(first)
    sequence = np.concatenate([first[:, None], np.asarray(tokens).T], 1)
    logits = xjax.jit(model.apply)(params, sequence[:, :-1])
    np.testing.assert_array_equal(np.argmax(logits, -1), sequence[:, 1:])


# -- weights, precision, remat -----------------------------------------------------------------------------------------


def test_initial_weights_of_each_gate():
    params = initial(LSTMCell(6), (-1, 3))
    for gate in np.split(np.asarray(params["w_rec"]), 4, 1):
        assert_close(gate @ gate.T, np.eye(6), tol=0.25)
    assert np.abs(params["w_in"]).max() <= (6 / (3 + 6)) ** 0.5          # glorot uniform of one gate
    np.testing.assert_array_equal(params["b"], np.repeat([0.0, 1, 0, 0], 6))
    uniform = lambda key, shape: random.uniform(key, shape, minval=-0.5, maxval=0.5)
    other = initial(LSTMCell(4, forget_bias=0.0, w_init=uniform, recurrent_init=uniform, b_init=uniform), (-1, 3))
    assert all(0.3 < np.abs(leaf).max() <= 0.5 for leaf in other.values())


@pytest.mark.parametrize("cell", [LSTMCell(4), normalised()], ids=["one piece", "composite"])
def test_mixed_precision(cell, sequence):
    layer = xnn.with_precision(xnn.serial(scan_over_time(cell), Dense(2)), "bfloat16")
    params = made(layer)
    wide = xnn.serial(scan_over_time(cell), Dense(2))
    y, exact = xjax.jit(lambda params, x: [made.apply(params, x, lengths=jnp.array([6, 3])) for made in (layer, wide)])(
        params, sequence)
    assert y.dtype == np.float32 and tree_util.tree_leaves(params)[0].dtype == np.float32
    np.testing.assert_allclose(y, exact, atol=0.06)                   # about 10 roundings of 2^-9, of numbers below 2


def test_mixed_precision_of_a_cache(sequence):
    layer = xnn.with_precision(LSTM(4), "bfloat16")
    params, cache = made(layer), layer.init_cache(2, 6)
    (y, after), want = xjax.jit(lambda params, cache, x: (
        layer.apply_with_cache(params, cache, x), layer.apply(params, x)))(params, cache, sequence)
    assert all(leaf.dtype == jnp.bfloat16 for leaf in tree_util.tree_leaves((cache, after)))
    assert_close(y, want, tol=0.25)


@pytest.mark.parametrize("layer", [xnn.with_remat(scan_over_time(LSTMCell(4))),
                                   scan_over_time(xnn.with_remat(LSTMCell(4)))], ids=["of the scan", "of the cell"])
def test_remat_keeps_values_and_gradients(layer, sequence):
    plain = scan_over_time(LSTMCell(4))
    params = made(layer)
    gradient = lambda layer: xjax.jit(xjax.grad(lambda params: jnp.sum(jnp.sin(layer.apply(params, sequence)))))(params)
    assert_close(gradient(layer), gradient(plain), tol=0.25)


def test_inputs_are_projected_before_the_loop(sequence):
    layer = scan_over_time(LSTMCell(4))
    jaxpr = xjax.make_jaxpr(layer.apply)(made(layer), sequence)
    outside = [eqn.primitive.name for eqn in jaxpr.jaxpr.eqns]
    inside = [str(eqn) for eqn in jaxpr.jaxpr.eqns if eqn.primitive.name == "scan"]
    assert outside.count("dot_general") == 1 and inside[0].count("dot_general") == 1


def test_further_inputs_of_a_cell_are_the_same_at_each_position(sequence):
    def step(layers, x, context, carry=None):
        return layers.cell(jnp.concatenate([x, context], -1), carry=carry)

    layer = scan_over_time(xnn.composite(step, "Conditioned", cell=RNNCell(4)))
    params = drawn_params(layer, (2, 6, 3), context=(2, 2))
    repeated = np.concatenate([sequence, np.ones((2, 6, 2), np.float32)], -1)
    got, want = xjax.jit(lambda params: (layer.apply(params, sequence, context=jnp.ones((2, 2))),
                                         RNN(4).apply({"layer_0": params["cell"]}, repeated)))(params)
    assert_close(got, want, tol=0.25)


@pytest.mark.slow
def test_a_long_memory_is_learned():
    """The target at the end is the first of 50 inputs: an LSTM with initially open forget gates learns it."""
    model, head, x = LSTM(16), Dense(1), random.normal(random.key(0), (256, 50, 1))
    first = x[:, 0, 0] > 0
    params = (initial(model, (-1, -1, 1)), initial(head, (-1, 16)))

    def loss(params):
        logits = head.apply(params[1], model.apply(params[0], x)[:, -1])[:, 0]
        return jnp.mean(jnp.logaddexp(0.0, jnp.where(first, -logits, logits)))

    tx = xnn.optim.adam(1e-2)

    def step(state, _):
        params, opt = state
        value, grads = xjax.value_and_grad(loss)(params)
        updates, opt = tx.update(grads, opt, params)
        return (xnn.optim.apply_updates(params, updates), opt), value

    _, values = xjax.jit(lambda state: lax.scan(step, state, None, length=300))((params, tx.init(params)))
    assert values[0] > 0.6 and values[-1] < 0.05
