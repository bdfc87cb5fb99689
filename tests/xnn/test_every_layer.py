"""Every layer by table (`tests/xnn/rows`): shapes, values, gradients, transforms, devices, dtypes, training, errors."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close, assert_same
from tests.refusals import assert_refused
from tests.sampling import one_in
from tests.xnn.rows import FAMILIES, ROWS, WRONG
from tests.xnn.rows.row import draw, make_params, make_state, run, wide
from xjax import random, tree_util
from xnn.layer import init_types

VARIANTS = [name for name in ROWS if "," in name]
LAYERS = [name for name in ROWS if "," not in name]


def rows(fast):
    """Args: fast: the names of the rows in the fast set."""
    slow = set(ROWS) - set(fast)
    return pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in slow))
                                            for name in ROWS])


def in_halves(value):
    """The first and the second half of a batch along a new first axis; a value without axes twice."""
    return value.reshape(2, value.shape[0] // 2, *value.shape[1:]) if value.ndim else np.stack([value, value])


def run_jitted(row, params, x, extra):
    """`run` as one program, which compiles sooner than its operations one by one."""
    return xjax.jit(lambda params, x, extra: run(row, params, x, extra))(params, x, extra)


@rows([*LAYERS, *VARIANTS[::20]])
def test_shapes_and_values(name):
    row = ROWS[name]
    x, extra = draw(row)
    params = make_params(row)
    out_shape, _ = init_types(row.layer, x, **extra)
    y = run_jitted(row, params, x, extra)
    assert tree_util.tree_map(jnp.shape, y) == out_shape
    assert all(leaf.dtype == np.float32 for leaf in tree_util.tree_leaves(y))
    with np.errstate(all="ignore"):
        exact = [np.asarray(leaf, np.float64) for leaf in tree_util.tree_leaves(params)]
        want = row.oracle(tree_util.tree_unflatten(tree_util.tree_structure(params), exact), x.astype(
            x.dtype if row.below else np.float64), **extra)
    assert_close(y, want, tol=row.tol / 4)


@rows(LAYERS[::6])
def test_operations_one_by_one_give_the_same(name):
    """From `init` on; a layer that draws random numbers draws them."""
    row = ROWS[name]
    x, extra = draw(row)
    _, params = row.layer.init(random.key(0), x, **extra)
    assert tree_util.tree_map(jnp.shape, params) == tree_util.tree_map(jnp.shape, make_params(row))
    options = {"rng": random.key(4), "train": True} if row.random else {}
    y = run(row, params, jnp.asarray(x), extra, **options)
    assert_close(y, xjax.jit(lambda params, x, extra: run(row, params, x, extra, **options))(params, x, extra),
                 tol=row.tol / 4)


@rows(LAYERS[::8])
def test_gradients_are_those_of_differences_in_double_precision(name):
    row = ROWS[name]
    with wide():
        x, extra = draw(row, np.float64)
        params = make_params(row, np.float64)
        floats = params if row.below else (params, jnp.asarray(x))

        def total(floats):
            params, at = (floats, x) if row.below else floats
            y = run(row, params, at, extra)
            assert all(leaf.dtype == np.float64 for leaf in tree_util.tree_leaves(y))
            return sum(jnp.sum(jnp.sin(leaf)) for leaf in tree_util.tree_leaves(y))

        npr = np.random.default_rng(5)
        step = tree_util.tree_map(lambda leaf: npr.normal(size=leaf.shape), floats)
        total = xjax.jit(xjax.value_and_grad(total))
        along = lambda sign: total(tree_util.tree_map(lambda leaf, d: np.asarray(leaf) + sign * 1e-6 * d, floats,
                                                      step))[0]
        difference = (along(1) - along(-1)) / 2e-6
        _, grads = total(floats)
        slope = sum(np.sum(g * d) for g, d in zip(*map(tree_util.tree_leaves, (grads, step)), strict=True))
        # Rounding of total / 1e-6, and a second-order error of (1e-6)^2: about 1e-9 of the largest terms.
        np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-6 * row.tol)


@rows(LAYERS)
def test_an_open_batch_has_the_same_parameters(name):
    row = ROWS[name]
    _, extra = draw(row)
    shapes = {name: value.shape for name, value in extra.items()}
    open_x = (-1, *row.shape[1:])
    program, open_program = (xjax.make_jaxpr(lambda key, x=x: row.layer.init(key, x, **shapes)[1])(random.key(0))
                             for x in (row.shape, open_x))
    assert str(program) == str(open_program)
    assert_same(program.consts, open_program.consts, tol=0)
    is_shape = lambda shape: all(isinstance(n, int) for n in shape)
    flat, open_flat = (tree_util.tree_leaves(init_types(row.layer, x, **shapes)[0], is_leaf=is_shape)
                       for x in (row.shape, open_x))
    assert [shape[1:] for shape in flat] == [shape[1:] for shape in open_flat]
    if row.by_example:
        assert all(shape[0] == -1 for shape in open_flat)


@rows(LAYERS[1::8])
def test_vmap_over_batches_and_over_ensembles(name):
    row = ROWS[name]
    x, extra = draw(row, batch=2)
    x, extra = in_halves(x), {name: in_halves(value) for name, value in extra.items()}
    members = [make_params(row), make_params(row, seed=7)]
    ensemble = tree_util.tree_map(lambda *leaves: np.stack(leaves), *members)
    got = xjax.jit(xjax.vmap(lambda params, x, extra: run(row, params, x, extra)))(ensemble, x, extra)
    for i, member in enumerate(members):
        want = run_jitted(row, member, x[i], {name: value[i] for name, value in extra.items()})
        assert_close(tree_util.tree_map(lambda leaf, i=i: np.asarray(leaf)[i], got), want, tol=row.tol / 4)


@rows(LAYERS[2::8])
def test_two_devices_compute_their_examples(name):
    row = ROWS[name]
    if not row.by_example:
        return
    x, extra = draw(row)
    params = make_params(row)
    f = xjax.pmap(lambda x, extra: row.layer.apply(params, x, **extra))
    got = f(in_halves(x), {name: in_halves(value) for name, value in extra.items()})
    whole = run_jitted(row, params, x, extra)
    assert_close(tree_util.tree_map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:]), got), whole,
                 tol=row.tol / 4)


@rows(LAYERS[::8])
@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_half_precision_stays_half_precision(name, dtype):
    row = ROWS[name]
    x, extra = draw(row)
    params = make_params(row)
    half = lambda tree: tree_util.tree_map(lambda v: np.asarray(v).astype(jnp.dtype(dtype)) if v.dtype.kind == "f"
                                           else v, tree)
    y = run_jitted(row, half(params), half(x), half(extra))
    assert all(leaf.dtype == jnp.dtype(dtype) for leaf in tree_util.tree_leaves(y))
    assert_close(y, run_jitted(row, params, x, extra), tol=2.5 * row.tol)       # each layer rounds about ten times


@rows(LAYERS[1::8])
def test_training(name):
    row = ROWS[name]
    x, extra = draw(row)
    params = make_params(row)

    def step(params, rng):
        y = run(row, params, x, extra, rng=rng, train=True)
        return sum(jnp.sum(leaf) for leaf in tree_util.tree_leaves(y)), y

    step = xjax.jit(xjax.value_and_grad(step, has_aux=True))
    (_, trained), grads = step(params, random.key(4))
    (_, other), _ = step(params, random.key(5))
    same = all(np.array_equal(a, b) for a, b in zip(*map(tree_util.tree_leaves, (trained, other)), strict=True))
    assert same != row.random
    if not row.random and not row.layer.state:
        assert_close(trained, run_jitted(row, params, x, extra), tol=row.tol / 4)
    assert all(np.all(np.isfinite(leaf)) for leaf in tree_util.tree_leaves(grads))


STATEFUL = [name for name, row in ROWS.items() if row.layer.state]


@pytest.mark.parametrize("name", STATEFUL)
def test_state_of_two_steps(name):
    row = ROWS[name]
    x, extra = draw(row)
    params, state = make_params(row), make_state(row)
    step = xjax.jit(lambda state: row.layer.apply_with_state(
        params, state, x, **extra, rng=random.key(1), train=True)[1])
    first = step(state)
    second = step(first)
    assert tree_util.tree_structure(first) == tree_util.tree_structure(state)
    moved = zip(*map(tree_util.tree_leaves, (state, first, second)), strict=True)
    assert any(not np.array_equal(a, b) and not np.array_equal(b, c) for a, b, c in moved)
    y, kept = xjax.jit(lambda state: (row.layer.apply(params, x, **extra, state=state),
                                      row.layer.apply_with_state(params, state, x, **extra)))(second)
    assert_close(kept[0], y, tol=0.25)
    assert_same(kept[1], second, tol=0)


@pytest.mark.parametrize("name", one_in(3, sorted(STATEFUL)))
def test_state_of_a_step_one_by_one(name):
    row = ROWS[name]
    x, extra = draw(row)
    params, state = make_params(row), make_state(row)
    step = lambda state: row.layer.apply_with_state(params, state, x, **extra, rng=random.key(1), train=True)[1]
    assert_close(xjax.jit(step)(state), step(state), tol=0.25)


@rows(ROWS)
def test_repr_is_the_call(name):
    text = repr(ROWS[name].layer)
    assert text.startswith(ROWS[name].layer.name) and " at 0x" not in text
    assert name.partition(",")[0] in _names(ROWS[name].layer), "a row is named after its layer"


@rows(LAYERS)
def test_what_is_no_input_or_parameter_of_the_layer_is_refused(name):
    row = ROWS[name]
    layer, (x, extra), params = row.layer, draw(row), make_params(row)
    state = {"state": make_state(row)} if layer.state else {}
    wrong = {}
    if tree_util.tree_leaves(params):
        wrong |= {"no params": (None, x), "params of nothing": ((), x), "extra": ({**params, "more": x}, x),
                  "missing": (dict(list(params.items())[1:]), x) if isinstance(params, dict) else ((), x)}
    if row.below is None and wrong:
        wrong |= {"integers": (params, np.ones(x.shape, np.int32))}
    for what, (given, at) in wrong.items():
        with pytest.raises((TypeError, ValueError)) as caught:
            layer.apply(given, at, **extra, **state)
        text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
        assert layer.name in text and "fix:" in text, f"{what}: {text}"


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name):
    assert_refused(*WRONG[name])


def _names(layer):
    """The names of a layer and of all layers in it."""
    return {layer.name}.union(*map(_names, layer.layers))


def test_every_public_layer_has_a_row():
    made = set().union(*(_names(row.layer) for row in ROWS.values()))
    options = {"ALiBi", "DynamicScaling", "LinearScaling", "Llama3Scaling", "LongScaling", "Rotary", "YarnScaling"}
    others = {*options, "elementwise"}                                # "elementwise" makes layers of other names
    missing = set(xnn.layers.__all__) - made - others
    assert not missing, f"without a row in tests/xnn/rows: {sorted(missing)}"


def test_no_row_hides_another():
    for table in ("ROWS", "WRONG"):
        names = [name for family in FAMILIES for name in getattr(family, table)]
        assert len(names) == len(set(names))
