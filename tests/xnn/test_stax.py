"""xnn.stax: shapes, initial parameters, values and gradients of JAX's stax; use with the rest of xnn."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close, assert_same
from tests.oracle import holds, real_jax
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import random, tree_util
from xnn import stax

# Weights have few distinct shapes on purpose: JAX compiles its random functions for each.
IMAGE, ROWS = (2, 6, 6, 4), (6, 4)
ACTIVATIONS = ["Tanh", "Relu", "Exp", "LogSoftmax", "Softmax", "Softplus", "Sigmoid", "Elu", "LeakyRelu", "Selu",
               "Gelu", "Identity"]


def _residual_block(s):
    main = s.serial(s.Conv(4, (3, 3), padding="SAME"), s.BatchNorm(), s.Relu,
                    s.shape_dependent(lambda shape: s.Conv(shape[-1], (3, 3), padding="SAME")))
    return s.serial(s.FanOut(2), s.parallel(main, s.Identity), s.FanInSum, s.Relu)


# name: (layer of either module `s`, shape of its input)
ROW_NETS = {
    "mlp": (lambda s: s.serial(s.Dense(4), s.Relu, s.serial(s.Dense(4), s.Tanh), s.Dense(4), s.LogSoftmax), ROWS),
    "initializers": (lambda s: s.serial(s.Dense(4, W_init=s.randn(0.3), b_init=s.zeros),
                                        s.Dense(4, s.glorot(), s.ones)), ROWS),
    "rank 3": (lambda s: s.Dense(4), (2, 3, 4)),
    "branches": (lambda s: s.serial(s.FanOut(3), s.parallel(s.Dense(4), s.serial(s.Dense(4), s.Tanh), s.Identity),
                                    s.FanInSum), ROWS),
    "a list of results": (lambda s: s.serial(s.FanOut(2), s.parallel(s.Dense(4), s.Relu)), ROWS),
    "concat": (lambda s: s.serial(s.FanOut(2), s.parallel(s.Dense(4), s.Identity), s.FanInConcat()), ROWS),
    "concat of rows": (lambda s: s.serial(s.FanOut(2), s.FanInConcat(0)), ROWS),
    "activations": (lambda s: s.serial(s.FanOut(12), s.parallel(*(getattr(s, name) for name in ACTIVATIONS)),
                                       s.FanInConcat(-1)), ROWS),
    "elementwise": (lambda s: s.elementwise(s.leaky_relu, negative_slope=0.3), ROWS),
    "logsoftmax over rows": (lambda s: s.elementwise(s.logsoftmax, axis=0), ROWS),
    "dropout": (lambda s: s.serial(s.Dense(4), s.Dropout(0.7), s.serial(s.Dropout(0.5)), s.Dropout(0.5, "test")), ROWS),
    "dropout in branches": (lambda s: s.serial(s.FanOut(2), s.parallel(s.Dropout(0.5), s.Dropout(0.5)),
                                               s.FanInConcat()), ROWS),
    "batch norm of rows": (lambda s: s.BatchNorm(0, epsilon=1e-2, beta_init=s.ones), ROWS),
    "batch norm without scale": (lambda s: s.BatchNorm(axis=(0,), scale=False), ROWS),
    "batch norm without center": (lambda s: s.BatchNorm(axis=(0,), center=False), ROWS),
    "batch norm bare": (lambda s: s.BatchNorm(axis=(0,), center=False, scale=False), ROWS),
    "flatten": (lambda s: s.Flatten, (2, 3, 4)),
    "shape dependent": (lambda s: s.shape_dependent(lambda shape: s.Dense(shape[-1])), ROWS),
}
IMAGE_NETS = {
    "conv": (lambda s: s.Conv(4, (3, 3)), IMAGE),
    "conv with strides": (lambda s: s.serial(s.Conv(4, (3, 3), (2, 3), "SAME"), s.BatchNorm()), IMAGE),
    "conv with pads": (lambda s: s.Conv(4, (3, 3), padding=[(2, 0), (0, 1)]), IMAGE),
    "conv of channels first": (lambda s: s.GeneralConv(("NCHW", "OIHW", "NCHW"), 4, (3, 3), (1, 2)), (2, 4, 6, 6)),
    "conv that moves axes": (lambda s: s.serial(s.GeneralConv(("HWCN", "HWIO", "NHWC"), 4, (3, 3)), s.BatchNorm()),
                             (6, 6, 4, 2)),
    "conv of sequences": (lambda s: s.GeneralConv(("NHC", "HIO", "NHC"), 4, (3,)), (2, 6, 4)),
    "transposed": (lambda s: s.ConvTranspose(4, (3, 3), (2, 2)), IMAGE),
    "transposed same": (lambda s: s.ConvTranspose(4, (3, 3), strides=(2, 3), padding="SAME"), IMAGE),
    "transposed sequences": (lambda s: s.Conv1DTranspose(4, (3,), strides=(2,)), (2, 6, 4)),
    "transposed, channels first": (lambda s: s.GeneralConvTranspose(("NCHW", "HWIO", "NCHW"), 4, (3, 3), (1, 2)),
                                   (2, 4, 6, 6)),
    "residual block": (_residual_block, IMAGE),
}
POOL_NETS = {
    f"{kind} {name}": (lambda s, kind=kind, args=args: getattr(s, kind)(*args), shape)
    for kind in ("MaxPool", "SumPool", "AvgPool")
    for name, args, shape in [
        ("plain", ((2, 3),), IMAGE),
        ("with strides", ((3, 2), (2, 2), "SAME"), IMAGE),
        ("channels first", ((2, 2), (1, 2), "SAME", "NCHW"), (2, 4, 5, 6)),
        ("sequences", ((3,), (2,)), (2, 7, 4)),
    ]
}
GROUPS = {"rows": ROW_NETS, "images": IMAGE_NETS, "pools": POOL_NETS}
NETS = {name: row for group in GROUPS.values() for name, row in group.items()}


def _arrays(nets):
    npr = np.random.default_rng(0)
    return {name: npr.normal(size=shape).astype(np.float32) for name, (_, shape) in nets.items()}


def _evaluate(lib, s, nets):
    """For each net: shape and parameters from init, value and gradient; one compiled program gives the last two."""
    key = lib.random.PRNGKey(7)
    layers = {name: tuple(make(s)) for name, (make, _) in nets.items()}
    shapes, params = {}, {}
    for name, (init_fun, _) in layers.items():
        shapes[name], params[name] = init_fun(key, nets[name][1])

    def loss(params, xs):
        ys = {name: apply_fun(params[name], xs[name], rng=key) for name, (_, apply_fun) in layers.items()}
        # sin: its derivative differs between positions
        return sum(lib.numpy.sum(lib.numpy.sin(leaf)) for leaf in lib.tree_util.tree_leaves(ys)), ys

    xs = lib.tree_util.tree_map(lib.numpy.asarray, _arrays(nets))
    (_, ys), grads = lib.jit(lib.value_and_grad(loss, argnums=(0, 1), has_aux=True))(params, xs)
    return shapes, params, ys, grads


@pytest.mark.parametrize("group", one_in(3, GROUPS))
def test_all_is_as_in_jax(group):
    jax, reference = real_jax(), real_jax("example_libraries.stax").example_libraries.stax
    nets = GROUPS[group]
    shapes, params, *ours = _evaluate(xjax, stax, nets)
    their_shapes, their_params, *theirs = _evaluate(jax, reference, nets)
    assert shapes == {name: tuple(shape) if "list" in name else shape for name, shape in their_shapes.items()}
    assert str(tree_util.tree_structure(params)) == str(jax.tree_util.tree_structure(their_params))
    for (path, x), y in zip(tree_util.tree_leaves_with_path(params), jax.tree_util.tree_leaves(their_params),
                            strict=True):
        assert x.dtype == y.dtype
        # Normal weights are scaled as in JAX 0.12; older versions round once more.
        units = np.max(np.abs(np.asarray(x).view(np.int32) - np.asarray(y).view(np.int32)), initial=0)
        assert units <= holds(until="0.12"), tree_util.keystr(path)
    assert str(tree_util.tree_structure(ours)) == str(jax.tree_util.tree_structure(theirs))
    assert_close(ours, theirs, tol=0.25)  # sums of up to 400 terms, in the order that XLA chooses for each program


@pytest.mark.parametrize("name", NETS)
def test_shapes_are_those_of_results_and_the_batch_may_be_open(name, key):
    make, shape = NETS[name]
    layer = make(stax)
    out_shape, params = layer.init(key, shape)
    y = xjax.eval_shape(lambda params, x: layer.apply(params, x, rng=key), params, _arrays({name: (make, shape)})[name])
    if isinstance(y, list):
        assert tuple(leaf.shape for leaf in y) == out_shape
        return
    assert y.shape == out_shape
    if "rows" in name:
        return                                              # these depend on the number of rows
    batch = 3 if name == "conv that moves axes" else 0
    opened = tuple(-1 if axis == batch else n for axis, n in enumerate(shape))
    assert layer.init(key, opened)[0] == (-1, *out_shape[1:])


def test_initial_parameters_do_not_depend_on_the_batch(key):
    make, shape = NETS["residual block"]
    known, opened = (make(stax).init(key, (n, *shape[1:]))[1] for n in (2, -1))
    assert_same(known, opened, tol=0)


def test_a_pool_keeps_nan():
    x = jnp.ones((1, 2, 6, 1)).at[0, 1, 3, 0].set(np.nan)
    for layer in (stax.MaxPool((2, 2)), stax.AvgPool((2, 2))):
        np.testing.assert_array_equal(np.isnan(layer.apply((), x)).ravel(), [False, False, True, True, False])


# -- dropout ----------------------------------------------------------------------------------------------------------

def test_the_rate_of_dropout_is_to_keep(key):
    y = np.asarray(stax.Dropout(0.9).apply((), jnp.ones((400, 250)), rng=key))
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.9)}
    # 100,000 draws: three standard deviations of the share are 0.0028
    assert abs((y == 0).mean() - 0.1) < 0.003


def test_the_mode_of_dropout_is_fixed(key):
    x = jnp.ones((4, 4))
    assert stax.Dropout(0.5, mode="test").apply((), x, rng=key) is x
    model = xnn.serial(stax.Dropout(0.5))
    evaluated, trained = (model.apply(((),), x, rng=key, train=train) for train in (False, True))
    np.testing.assert_array_equal(evaluated, trained)


# -- with the rest of xnn ---------------------------------------------------------------------------------------------

def test_dense_is_the_dense_of_xnn(key, npr):
    x = jnp.asarray(npr.normal(size=(6, 4)), jnp.float32)
    _, (w, b) = stax.Dense(3).init(key, (-1, 4))
    np.testing.assert_array_equal(stax.Dense(3).apply((w, b), x), xnn.Dense(3).apply({"w": w, "b": b}, x))


def test_layers_of_stax_in_combinators_of_xnn(key, npr):
    x = jnp.asarray(npr.normal(size=(4, 6)), jnp.float32)
    model = xnn.serial(stax.serial(stax.Dense(6), stax.Dropout(0.5)), xnn.residual(stax.Dense(6)), stax.FanOut(2),
                       xnn.parallel(stax.Relu, xnn.Tanh), xnn.FanInSum)
    shape, params = model.init(key, (-1, 6))
    y = model.apply(params, x, rng=key, train=True)
    assert shape == (-1, 6) and y.shape == (4, 6)
    # A RowKey, which draws by the global number of the row, passes through the splits.
    whole = model.apply(params, x, rng=xnn.RowKey(key, 0))
    halves = [model.apply(params, x[k:k + 2], rng=xnn.RowKey(key, k)) for k in (0, 2)]
    np.testing.assert_allclose(jnp.concatenate(halves), whole, rtol=1e-5)


def test_layers_of_xnn_in_combinators_of_stax(key):
    x = jnp.ones((4, 6))
    model = stax.serial(xnn.Dense(6), stax.FanOut(2), stax.parallel(xnn.Dropout(0.5), xnn.Relu), stax.FanInConcat())
    shape, params = model.init(key, (-1, 6))
    assert shape == (-1, 12)
    trained, evaluated = (model.apply(params, x, rng=key, train=train) for train in (True, False))
    zeros = np.asarray(trained == 0).sum() - np.asarray(evaluated == 0).sum()
    assert 4 < zeros < 20                                   # half of 24
    np.testing.assert_array_equal(evaluated, model.apply(params, x))


def test_describe_shows_the_children():
    text = xnn.describe(NETS["residual block"][0](stax), (-1, 6, 6, 4))
    rows = [line.split()[:2] for line in text.splitlines()]
    assert ["[0]", "Conv"] in rows and ["[3]", "shape_dependent"] in rows
    # two convolutions and a batch norm; two operations for each product of the 36 positions
    total = text.splitlines()[-1].split()
    assert total[:3] == ["total", str(2 * (3 * 3 * 4 * 4 + 4) + 2 * 4), f"{2 * 2 * 36 * 3 * 3 * 4 * 4:,}"]


def test_a_layer_is_indexed_as_a_pair():
    layer = stax.Dense(3)
    assert layer[0] is layer.init and layer[1] is layer.apply
    with pytest.raises(IndexError):
        layer[2]


def test_keywords_reach_the_layers_that_want_them(key):
    def init_fun(rng, input_shape):
        return input_shape, ()

    def apply_fun(params, inputs, scale=1.0, **kwargs):
        return scale * inputs

    pair = (init_fun, apply_fun)
    model = stax.serial(pair, stax.FanOut(2), stax.parallel(pair, stax.shape_dependent(lambda shape: pair)),
                        stax.FanInSum, stax.Relu, stax.BatchNorm(0, center=False, scale=False, epsilon=1.0),
                        stax.MaxPool((1,)), pair)
    _, params = model.init(key, (2, 1, 1))
    x = jnp.array([[[-1.0]], [[1.0]]])
    # relu(2 * 9 x) is 0 and 18; the batch norm gives -9 and 9 over sqrt(81 + 1); the last layer multiplies by 3.
    expected = 3 * 9 / np.sqrt(82)
    np.testing.assert_allclose(model.apply(params, x, scale=3.0).ravel(), [-expected, expected], rtol=1e-6)


def test_names_are_those_of_jax():
    reference = real_jax("example_libraries.stax").example_libraries.stax
    public = {name for name in dir(reference) if not name.startswith("_")}
    assert public - set(stax.__all__) == {"functools", "jnp", "lax", "math", "random"}
    reference = real_jax("example_libraries.optimizers").example_libraries.optimizers
    public = {name for name in dir(reference) if not name.startswith("_")}
    assert public - set(xnn.optimizers.__all__) == {
        "Any", "Array", "Callable", "NamedTuple", "annotations", "functools", "jax", "jnp", "map", "namedtuple",
        "partial", "safe_map", "safe_zip", "unzip2", "zip"}


KEY = random.PRNGKey(0)
WRONG = {
    "dropout without rng": (
        lambda: stax.serial(stax.Relu, stax.Dropout(0.5)).apply([(), ()], jnp.ones(3)),
        ValueError, ["stax.Dropout: needs random bits", "rng=key"]),
    "dropout without rng in test mode": (
        lambda: stax.Dropout(0.5, mode="test").apply((), jnp.ones(3)), ValueError, ["mode", "'test'"]),
    "dropout rate": (lambda: stax.Dropout(0.0), ValueError, ["stax.Dropout: rate", "keep", "0.0"]),
    "no layer": (lambda: stax.serial(stax.Relu, stax.Flatten, stax.Dense), TypeError,
                 ["stax.serial[2]: a child is not a layer", "Dense(...)"]),
    "more inputs": (lambda: stax.parallel(xnn.GraphConvolution(3)), TypeError,
                    ["stax.parallel[0]: GraphConvolution takes more than one input", "xnn.parallel"]),
    "number of parameters": (
        lambda: stax.serial(stax.Relu, stax.Tanh).apply([()], jnp.ones(3)), TypeError,
        ["stax.serial: needs params for 2 layers", "list of 1"]),
    "number of inputs": (
        lambda: stax.parallel(stax.Relu, stax.Tanh).apply(((), ()), [jnp.ones(3)]), TypeError,
        ["stax.parallel: 2 layers need a sequence of 2 inputs"]),
    "number of shapes": (
        lambda: stax.parallel(stax.Relu, stax.Tanh).init(KEY, [(3,)]), TypeError,
        ["stax.parallel: 2 layers need a sequence of 2 shapes"]),
    "open size": (lambda: stax.Conv(4, (3, 3)).init(KEY, (2, -1, 6, 4)), TypeError,
                  ["stax.Conv: init needs the shape", "(2, -1, 6, 4)", "only axis 0 may be -1"]),
    "flat images": (lambda: stax.Conv(4, (3, 3)).init(KEY, (-1, 784)), TypeError,
                    ["stax.Conv: init needs the shape of an input with 4 axes", "(-1, 784)"]),
    "flat images to a pool": (lambda: stax.MaxPool((2, 2), spec="CHWN").init(KEY, (3, 7, -1)), TypeError,
                              ["stax.MaxPool: init needs the shape", "4 axes, where only axis 3 may be -1"]),
    "made by shape_dependent": (
        lambda: stax.shape_dependent(lambda shape: 3).init(KEY, (3,)), TypeError, ["stax.shape_dependent"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name):
    assert_refused(*WRONG[name])


def test_an_error_says_where_it_comes_from(key):
    model = stax.serial(stax.Relu, stax.FanOut(2), stax.parallel(stax.Tanh, stax.Dropout(0.5)))
    with pytest.raises(ValueError, match="needs random bits") as caught:
        model.apply([(), (), ((), ())], jnp.ones(3))
    assert [note.split(" (")[0] for note in caught.value.__notes__] == [
        "in stax.parallel[1] -> Dropout", "in stax.serial[2] -> parallel"]
