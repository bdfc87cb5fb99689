"""State, inputs, shared weights, parts, composites, precision, remat: guarantees for every layer."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_same
from tests.refusals import assert_refused
from tests.sampling import one_in
from tests.xnn.drawn_params import drawn_params
from tests.xnn.protocol_layers import Centered, Total, bias_like, masked, noted
from xjax import random, tree_util
from xnn import (
    Dense,
    Dropout,
    Layer,
    Relu,
    Tanh,
    composite,
    named,
    parallel,
    renamed,
    repeat,
    residual,
    serial,
    shared,
    with_precision,
    with_remat,
    with_shared,
)
from xnn.layer import init_types


@pytest.fixture
def x(npr):
    return jnp.asarray(npr.normal(size=(8, 3)), jnp.float32)


def types(tree):
    return tree_util.tree_map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)


# -- state --------------------------------------------------------------------------------------------------------

STATEFUL = {
    "alone": lambda: Centered(),
    "serial": lambda: serial(Dense(3), Centered(), Relu, Centered()),
    "named": lambda: named(body=serial(Dense(3), Centered()), act=Tanh),
    "parallel": lambda: serial(xnn.FanOut(2), parallel(Centered(), Relu), xnn.FanInSum),
    "residual": lambda: residual(Dense(3), Centered()),
    "repeat": lambda: repeat(serial(Dense(3), Centered(), Dropout(0.5)), 3),
    "composite": lambda: composite(lambda layers, x: layers.dense(layers.norm(x)), dense=Dense(3), norm=Centered()),
    "remat": lambda: with_remat(serial(Dense(3), Centered())),
    "precision": lambda: with_precision(serial(Dense(3), Centered()), "float32"),
    "shared": lambda: with_shared(serial(shared("w", Dense(3)), Centered(), shared("w", Dense(3)))),
    "renamed": lambda: renamed(serial(Centered(), masked()), mask="other"),
}


@pytest.fixture(params=STATEFUL)
def stateful(request):
    return STATEFUL[request.param]()


def test_state_is_threaded(stateful, key, x):
    """Training changes every statistic, evaluation none; twice in a row."""
    shape, params = init_types(stateful, x.shape)[0], drawn_params(stateful, x.shape)
    state = stateful.init_state((-1, 3))
    options = {"rng": key, "train": True}
    jitted = xjax.jit(lambda params, state, x: stateful.apply_with_state(params, state, x, **options))
    y, moved = jitted(params, state, x)
    assert y.shape == shape == x.shape
    assert types(moved) == types(state) and tree_util.tree_leaves(state)
    for before, after in zip(tree_util.tree_leaves(state), tree_util.tree_leaves(moved), strict=True):
        assert not np.array_equal(before, after)
    _, again = jitted(params, moved, x)
    assert types(again) == types(state)
    (evaluated, unmoved), alone = xjax.jit(lambda params, state, x: (
        stateful.apply_with_state(params, state, x), stateful.apply(params, x, state=state)))(params, moved, x)
    assert_same(unmoved, moved, tol=0)
    assert_same(alone, evaluated, tol=0.06)


@pytest.mark.parametrize("name", one_in(3, ["composite", *(name for name in STATEFUL if name != "composite")]))
def test_state_is_threaded_without_jit(name, key, x):
    layer, options = STATEFUL[name](), {"rng": key, "train": True}
    _, params = layer.init(key, x.shape)
    state = layer.init_state((-1, 3))
    got = layer.apply_with_state(params, state, x, **options)
    want = xjax.jit(lambda params, state, x: layer.apply_with_state(params, state, x, **options))(params, state, x)
    assert_same(got, want, tol=0.06)


def test_state_gets_no_gradient_and_vmaps(stateful, key, x):
    params = drawn_params(stateful, x.shape)
    state = stateful.init_state(x.shape)

    def loss(params, state, x):
        y, state = stateful.apply_with_state(params, state, x, rng=key, train=True)
        return jnp.sum(jnp.square(y)), state

    ensemble = tree_util.tree_map(lambda leaf: np.stack([leaf, leaf]), (params, state))
    ((_, moved), gradient), (_, states) = xjax.jit(lambda params, state, x, ensemble: (
        xjax.value_and_grad(loss, has_aux=True)(params, state, x),
        xjax.vmap(loss, in_axes=(0, 0, None))(*ensemble, x)))(params, state, x, ensemble)
    assert types(gradient) == types(params) and types(moved) == types(state)
    assert_same(tree_util.tree_map(lambda leaf: jnp.asarray(np.asarray(leaf)[1]), states), moved, tol=0.06)


def test_stateless_layers_have_an_empty_state(key, x):
    model = serial(Dense(3), Relu)
    assert model.init_state(x.shape) == () == model.init_cache(2, 5)
    _, params = model.init(key, x.shape)
    y, state = model.apply_with_state(params, (), x)
    np.testing.assert_array_equal(y, model.apply(params, x))
    assert state == ()


def test_repeated_state_is_that_of_the_layers_one_after_another(key, x):
    layer = serial(Dense(3), Centered())
    looped, unrolled = repeat(layer, 3), serial(layer, layer, layer)
    @xjax.jit
    def computed(key, x):
        (_, stacked), (_, separate) = looped.init(key, x.shape), unrolled.init(key, x.shape)
        y, state = looped.apply_with_state(stacked, looped.init_state(x.shape), x, train=True)
        each = [tree_util.tree_map(lambda leaf, i=i: leaf[i], state) for i in range(3)]
        return (y, each), unrolled.apply_with_state(separate, unrolled.init_state(x.shape), x, train=True)

    (y, each), (expected, states) = computed(key, x)
    assert_same(y, expected, tol=0.06)
    for i in range(3):
        assert_same(each[i], states[i], tol=0.06)


def test_statistics_are_those_of_all_devices(key, x):
    model, one = serial(Dense(3), Centered(axis_name="batch")), serial(Dense(3), Centered())
    params = drawn_params(model, x.shape)
    state = model.init_state(x.shape)
    expected = xjax.jit(lambda x: one.apply_with_state(params, state, x, train=True))(x)
    x = np.asarray(x)
    for n in (1, 2, 4):
        step = xjax.pmap(lambda x: model.apply_with_state(params, state, x, train=True), axis_name="batch",
                         devices=xjax.devices()[:n])
        y, states = step(x.reshape(n, 8 // n, 3))
        assert_same(np.asarray(y).reshape(8, 3), np.asarray(expected[0]), tol=0.06)
        first, wanted = (tree_util.tree_map(np.asarray, tree) for tree in (states, expected[1]))
        assert_same(tree_util.tree_map(lambda leaf: leaf[0], first), wanted, tol=0.06)


# -- cache --------------------------------------------------------------------------------------------------------

CACHED = {
    "serial": lambda: serial(Dense(3), Total(3), Relu, Total(3)),
    "repeat": lambda: repeat(serial(Dense(3), Total(3)), 2),
    "composite": lambda: composite(lambda layers, x: x + layers.total(layers.dense(x)), dense=Dense(3), total=Total(3)),
    "with state": lambda: named(norm=Centered(), total=residual(Total(3))),
    "shared": lambda: with_shared(serial(shared("w", Dense(3)), Total(3), shared("w", Dense(3)))),
    "precision": lambda: with_precision(serial(Dense(3), Total(3)), "float32"),
}


@pytest.mark.parametrize("name", CACHED)
def test_steps_with_a_cache_are_the_whole_sequence(name, key, npr):
    model = CACHED[name]()
    x = npr.normal(size=(2, 5, 3)).astype(np.float32)
    params = drawn_params(model, x.shape)
    state = model.init_state(x.shape)
    whole, _ = xjax.jit(model.apply_with_state)(params, state, x)
    cache, ys = model.init_cache(2, 5), []
    step = xjax.jit(lambda cache, x: model.apply_with_cache(params, cache, x, state=state))
    for piece in (x[:, :2], x[:, 2:4], x[:, 4:]):
        y, cache = step(cache, piece)
        ys.append(y)
    np.testing.assert_allclose(np.concatenate(ys, 1), whole, rtol=1e-5, atol=1e-5)


# -- inputs -------------------------------------------------------------------------------------------------------


def test_inputs_by_position_by_name_or_left_out(key, x):
    model = serial(Dense(3), masked(), named(again=masked()))
    _, params = model.init(key, x.shape)
    mask = jnp.arange(8) % 2 == 0
    plain = model.apply(params, x)
    np.testing.assert_array_equal(plain, model.apply(params, x, None))
    by_position, by_name = model.apply(params, x, mask), model.apply(params, x, mask=mask)
    np.testing.assert_array_equal(by_position, by_name)
    np.testing.assert_array_equal(by_position, plain * mask[:, None].astype("float32"))
    assert model.extra_inputs == ("mask",)
    assert repr(model).splitlines()[0] == "serial of (x, mask)"


def test_sizes_may_come_from_further_inputs(key, x):
    """Shapes, types and arrays are all accepted; a layer inside a model gets them by name."""
    context = jnp.ones((8, 5))
    for spec in ((-1, 5), [8, 5], xjax.ShapeDtypeStruct((8, 5), "float32"), context, np.ones((8, 5))):
        for model in (bias_like(), serial(Relu, residual(bias_like()))):
            shape, params = model.init(key, x, context=spec)
            assert_same(model.init(key, x.shape, spec)[1], params, tol=0.06)
            assert shape == (8, 3) == model.apply(params, x, context).shape
    assert tree_util.tree_leaves(params)[0].shape == (5, 3)
    _, params = repeat(bias_like(), 2).init(key, (-1, 3), (-1, 5))
    assert tree_util.tree_leaves(params)[0].shape == (2, 5, 3)


def test_renamed_inputs(key, x):
    model = serial(masked(), renamed(masked(), mask="second"), renamed(bias_like(), context="mask_source"))
    assert model.extra_inputs == ("mask", "second", "mask_source")
    shape, params = model.init(key, x.shape, mask_source=(8, 2))
    mask, second, source = jnp.arange(8) < 6, jnp.arange(8) > 2, jnp.ones((8, 2))
    y = model.apply(params, x, mask, mask_source=source, second=second)
    both = (mask & second)[:, None].astype("float32")
    np.testing.assert_allclose(y, x * both + source @ params[2]["w"], rtol=1e-6)
    alone = renamed(masked(), mask="second")
    np.testing.assert_array_equal(alone.apply((), x, second=second), alone.apply((), x, second))


# -- composites ---------------------------------------------------------------------------------------------------


def block(layers, x, mask=None):
    x = x + layers.inner(layers.norm(x), mask=mask)
    return layers.twice(layers.twice(x))


def test_composite_is_what_its_function_computes(key, x):
    model = composite(block, norm=Dense(4), inner=serial(Dense(3), masked()), twice=Dense(3))
    shape, params = model.init(key, (-1, 3))
    assert shape == (-1, 3) and list(params) == ["norm", "inner", "twice"]
    mask = jnp.arange(8) < 5
    y = model.apply(params, x, mask)
    dense = Dense(3).apply
    inner = dense(params["inner"][0], Dense(4).apply(params["norm"], x)) * mask[:, None].astype("float32")
    np.testing.assert_allclose(y, dense(params["twice"], dense(params["twice"], x + inner)), rtol=1e-5)
    assert model.name == "block" and model.extra_inputs == ("mask",)
    assert_same(params["norm"], Dense(4).init(random.fold_in(key, 0), (-1, 3))[1], tol=0.06)


def test_composites_within_composites_initialise_once(key):
    log = []
    inner = noted(log)
    for _ in range(6):
        inner = composite(lambda layers, x: layers.inner(x) + x, inner=inner)
    inner.init(key, (-1, 3))
    assert log.count("values") == 1 and len(log) <= 3 * 6        # types: a few times for each level, not 2 ** 6 times


def test_a_child_that_is_called_twice_draws_twice(key, x):
    model = composite(lambda layers, x: (layers.drop(x), layers.drop(x)), drop=Dropout(0.5))
    one, other = model.apply({"drop": ()}, x, rng=key, train=True)
    assert not np.array_equal(one, other)


def test_children_are_sized_by_what_they_are_given(key):
    """The function computes the context of the child, whose shape is not that of any input of the composite."""

    def read(layers, x, memory):
        return layers.read(x, context=layers.write(memory))

    model = serial(Centered(), composite(read, read=bias_like(), write=Dense(7)))
    shape, params = model.init(key, (-1, 3), memory=(-1, 5))
    assert shape == (-1, 3) and params[1]["write"]["w"].shape == (5, 7) and params[1]["read"]["w"].shape == (7, 3)
    state = model.init_state((-1, 3), memory=(-1, 5))
    y, _ = model.apply_with_state(params, state, jnp.ones((2, 3)), jnp.ones((2, 5)), train=True)
    assert y.shape == (2, 3)
    assert "w f32[7,3]" in xnn.describe(model, (2, 3), memory=(2, 5))
    with pytest.raises(TypeError, match="init needs the shape of `memory`"):
        model.init(key, (-1, 3))


def test_composites_of_integers(key):
    """The function itself indexes a table: `init` takes the dtype of an array or a type."""
    table = jnp.arange(12.0).reshape(4, 3)
    model = composite(lambda layers, tokens: layers.head(table[tokens]), "net", head=Dense(2))
    for spec in (xjax.ShapeDtypeStruct((-1,), "int32"), np.array([1, 2])):
        shape, params = model.init(key, spec)
        assert shape[-1] == 2 and model.apply(params, jnp.array([0, 3])).shape == (2, 2)
    with pytest.raises(TypeError) as caught:
        model.init(key, (-1,))
    assert caught.value.__notes__ == ["in the function of net (init for shape (-1,), with 2 for unknown sizes)"]


def test_open_sizes_of_a_composite(key):
    def outer(layers, x):
        left, right = x
        return jnp.concatenate([layers.left(left), layers.right(right)], 0), left.reshape(-1, 2)

    model = composite(outer, left=Dense(2), right=Dense(2))
    shape, params = model.init(key, ((-1, 4), (3, 5)))
    assert shape == ((-1, 2), (-1, 2)) and params["right"]["w"].shape == (5, 2)


# -- shared weights -----------------------------------------------------------------------------------------------


def test_shared_weights_are_there_once(key, x):
    tied = with_shared(serial(shared("w", Dense(3)), Tanh, repeat(shared("w", Dense(3)), 2)))
    shape, params = tied.init(key, x.shape)
    assert shape == (8, 3) and params["body"] == ((), (), ())
    dense = Dense(3)

    def by_hand(w, x):
        return dense.apply(w, dense.apply(w, jnp.tanh(dense.apply(w, x))))

    np.testing.assert_allclose(tied.apply(params, x), by_hand(params["shared"]["w"], x), rtol=1e-5)
    gradient, want = xjax.jit(lambda params: (xjax.grad(lambda params: tied.apply(params, x).sum())(params), xjax.grad(
        lambda w: by_hand(w, x).sum())(params["shared"]["w"])))(params)
    assert_same(gradient["shared"]["w"], want, tol=0.06)


# -- precision and remat ------------------------------------------------------------------------------------------


def test_precision_of_a_model(key, x):
    model = serial(Dense(4), residual(Centered()), Tanh, Dense(2))
    half = with_precision(model, xnn.Policy(compute="bfloat16", params="float32", output="float32"))
    _, params = half.init(key, x.shape)
    assert_same(params, model.init(key, x.shape)[1], tol=0)
    state = half.init_state(x.shape)
    y, state = xjax.jit(lambda p, s, x: half.apply_with_state(p, s, x, train=True))(params, state, x)
    assert y.dtype == np.float32 and {leaf.dtype.name for leaf in tree_util.tree_leaves(state)} == {"float32", "int32"}
    text = str(xjax.make_jaxpr(lambda p, s, x: half.apply_with_state(p, s, x, train=True))(params, state, x))
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert len(products) == 2 and all(":bf16[" in line for line in products)
    assert "f32[8,4] = sub" in text                                        # Centered computes in float32
    full = xjax.jit(lambda p, x: model.apply_with_state(p, model.init_state(x.shape), x, train=True)[0])(params, x)
    np.testing.assert_allclose(y, full, rtol=0.05, atol=0.05)              # of 8 bits, after three roundings


def test_precision_of_caches_and_parts(key, x):
    model = with_precision(serial(Dense(3), Total(3)), "bfloat16")
    assert tree_util.tree_leaves(model.init_cache(2, 4))[0].dtype == jnp.bfloat16
    _, params = model.init(key, x.shape)
    part = model.layers[:1]
    assert part.apply(params[:1], x).dtype == np.float32 and "bfloat16" in repr(part)


def test_an_inner_policy_wins(key, x):
    inner = with_precision(Dense(4), xnn.Policy("float32", "float16", "float32"))
    model = with_precision(serial(inner, Dense(2)), xnn.Policy("bfloat16", "bfloat16", "bfloat16"))
    _, params = model.init(key, x.shape)
    assert params[0]["w"].dtype == np.float16 and params[1]["w"].dtype == jnp.bfloat16
    y = model.apply(params, x)
    assert y.dtype == jnp.bfloat16
    assert "f32[8,4] = dot_general" in str(xjax.make_jaxpr(model.apply)(params, x))


def test_precision_of_a_graph_network(key, npr):
    """Through products with sparse matrices, which convert stored values and keep indices."""
    net = with_precision(xnn.GCN(4, 2), "bfloat16")
    features, dense = npr.normal(size=(6, 5)).astype(np.float32), np.eye(6, dtype=np.float32)
    adj = xnn.CSR.from_dense(dense)
    params = drawn_params(net, (-1, 5))
    y, want = xjax.jit(lambda params, x, adj: (net.apply(params, x, adj), xnn.GCN(4, 2).apply(params, x, adj)))(
        params, features, adj)
    assert y.dtype == np.float32
    assert "f32" not in str(xjax.make_jaxpr(net.layers[0].apply)(params[0], jnp.asarray(features, "bfloat16"),
                                                               adj)).split("dot_general", 1)[1].split("\n")[0]
    np.testing.assert_allclose(y, want, atol=0.05)


def test_remat_keeps_inputs_only(key, x):
    block = residual(Dense(16), Tanh, Dense(16), Tanh, Dense(3))
    params = drawn_params(repeat(block, 4), x.shape)

    def loss(model):
        return lambda params: jnp.sum(jnp.square(repeat(model, 4).apply(params, x, rng=key, train=True)))

    assert_same(*xjax.jit(lambda params: [xjax.grad(loss(layer))(params) for layer in (with_remat(block), block)])(
        params), tol=0.06)

    def kept(model):
        _, pullback = xjax.vjp(lambda params: model.apply(params, x), drawn_params(block, x.shape))
        return sum(leaf.size for leaf in tree_util.tree_leaves(pullback))

    assert kept(with_remat(block)) < kept(block)


# -- parts and their display ----------------------------------------------------------------------------------------


def test_parts_by_position_slice_and_path(key, x):
    model = serial(named(encoder=serial(Dense(4), Relu), head=Dense(2)), residual(Dense(2), Tanh))
    assert model.layers[0] is model.layers["0"] and len(model.layers) == 2
    assert list(model.layers) == [model.layers[0], model.layers[1]]
    assert model.layers["0/encoder/1"] is Relu and model.layers[-1] is model.layers[1]
    assert model.layers["1/1"] is Tanh                                     # through residual
    assert model.layers[0].layers.keys() == ("encoder", "head")
    _, params = model.init(key, x.shape)
    first = model.layers[:1]
    np.testing.assert_array_equal(first.apply(params[:1], x), model.layers[0].apply(params[0], x))
    rest = model.layers[0].layers[1:]
    assert list(rest.init(key, (-1, 4))[1]) == ["head"]
    assert model[0] is model.init and model[1] is model.apply
    assert repr(model) == """serial
  [0] named
    ['encoder'] serial
      [0] Dense(n_out=4)
      [1] Relu
    ['head'] Dense(n_out=2)
  [1] residual
    serial
      [0] Dense(n_out=2)
      [1] Tanh"""


def test_names_in_params(key):
    branches = parallel(image=Dense(2), text=Dense(3))
    model = serial(xnn.FanOut(2), branches, xnn.FanInConcat(), residual(a=Dense(5), b=Tanh))
    shape, params = model.init(key, (-1, 4))
    assert shape == (-1, 5)
    assert list(params[1]) == ["image", "text"] and list(params[3]) == ["a", "b"]
    shapes, params = branches.init(key, {"text": (1, 2), "image": (1, 7)})
    assert shapes == {"image": (1, 2), "text": (1, 3)}
    ys = branches.apply(params, {"text": jnp.ones((1, 2)), "image": jnp.ones((1, 7))})
    assert {name: y.shape for name, y in ys.items()} == shapes


X = np.ones((2, 3), np.float32)
KEY = random.PRNGKey(0)
WRONG = {
    "traced train": (lambda: xjax.jit(serial(Dense(2), Relu).apply)(
        serial(Dense(2), Relu).init(KEY, (-1, 3))[1], jnp.ones((2, 3)), train=True), TypeError,
        ["serial: `train` must be a Python bool", "bool[]", 'static_argnames="train"']),
    "train without state": (lambda: Centered().apply((), X, train=True), TypeError,
                            ["Centered: training changes the state", "apply_with_state(params, state, x"]),
    "evaluation without state": (lambda: serial(Centered()).apply(((),), X), TypeError,
                                 ["serial: evaluation needs the running statistics", "state=state"]),
    "state of another model": (lambda: serial(Centered(), Relu).apply_with_state(((), ()), ((),), X), TypeError,
                               ["serial: needs state for 2 layers", "tuple of 1"]),
    "unknown input": (lambda: serial(masked()).apply(((),), X, musk=1), TypeError,
                      ["serial: has no input `musk`", "did you mean 'mask'", "mask=None"]),
    "twice": (lambda: serial(masked()).apply(((),), X, None, mask=1), TypeError,
              ["got the input `mask` twice", "by position and by name"]),
    "missing shape": (lambda: serial(bias_like()).init(KEY, (2, 3)), TypeError,
                      ["bias_like.init", "the shape of `context`", "init(rng, in_shape, context="]),
    "clash of meanings": (lambda: serial(masked(), masked("keys that count")), ValueError,
                          ["serial: two layers use the input `mask` with different meanings", "keys that count",
                           'renamed(layer, mask="other_mask")']),
    "renamed unknown": (lambda: renamed(masked(), musk="other"), ValueError,
                        ["renamed: masked has no input 'musk'"]),
    "renamed twice": (lambda: renamed(serial(masked(), bias_like()), mask="context"), ValueError,
                      ["two inputs would have one name"]),
    "child not called": (lambda: composite(lambda layers, x: x, "net", a=Relu).init(KEY, (2, 3)), TypeError,
                         ["net: the function does not call its layer 'a'"]),
    "child unknown": (lambda: composite(lambda layers, x: layers.nrom(x), "net", norm=Relu).init(KEY, (2, 3)),
                      AttributeError, ["net: there is no layer 'nrom'", "did you mean 'norm'"]),
    "computes with an input": (
        lambda: composite(lambda layers, x, adj: layers.a(adj @ x), "net", a=Relu).init(KEY, (2, 3)), TypeError,
        ["net: init needs the shape of `adj`", "init(rng, in_shape, adj=shape)"]),
    "shared without owner": (
        lambda: serial(shared("w", Dense(3))).apply(((),), X), TypeError,
        ["uses shared weights that it does not own: w", "with_shared(model)"]),
    "shared of other sizes": (
        lambda: with_shared(serial(shared("w", Dense(3)), shared("w", Dense(4)))).init(KEY, (2, 3)), TypeError,
        ["layers of the slot 'w' have different parameters", "f32[3,4]"]),
    "nothing shared": (lambda: with_shared(Dense(3)), ValueError, ["no layer of the model is shared"]),
    "shared state": (lambda: shared("w", Centered()), ValueError, ["Centered has running statistics"]),
    "mixed names": (lambda: parallel(Relu, a=Relu), TypeError, ["only some of the layers have names"]),
    "names of inputs": (lambda: parallel(a=Relu).apply({"a": ()}, {"b": X}), TypeError,
                        ["the names of the inputs differ from those of the layers", "'b'"]),
    "misspelt input of a child": (
        lambda: composite(lambda layers, x: layers.a(x, musk=x), "net", a=masked()).apply({"a": ()}, X), TypeError,
        ["net['a']: masked has no input `musk`", "did you mean 'mask'"]),
    "input of a child by position": (
        lambda: composite(lambda layers, x: layers.a(x, x), "net", a=masked()).apply({"a": ()}, X), TypeError,
        ["net['a']: extra inputs must be passed by name", "layers.a(x, name=value)"]),
    "reserved name": (lambda: composite(lambda layers, x: x, "net", train=Relu), ValueError,
                      ["net: a layer cannot have the name 'train'"]),
    "apply without rng": (lambda: Layer(Relu.init, lambda params, x: x, "mine"), TypeError,
                          ["mine: apply does not take `rng`", "rng=None, train=False"]),
    "init without params": (
        lambda: serial(Layer(lambda rng, shape: shape, Relu.apply, "mine")).init(KEY, (2, 3, 4)), TypeError,
        ["mine.init: init must return (out_shape, params)"]),
    "no cache": (
        lambda: serial(Total(3), xnn.InstanceNorm()).apply_with_cache(((), {}), (jnp.zeros((1, 3)), ()), X[None]),
        TypeError, ["InstanceNorm: the layer has no cache of earlier positions", "positionwise=True"]),
    "slice of a loop": (lambda: repeat(serial(Relu, Tanh), 2).layers[:1], IndexError,
                        ["repeat.layers: a slice would compute something else", "repeat(n=2)"]),
    "dtype of a policy": (lambda: with_precision(Relu, "int8"), ValueError,
                          ["with_precision: `compute` must be a floating-point dtype"]),
    "no such layer": (lambda: named(body=Relu).layers["bdoy"], LookupError,
                      ["named.layers: no child 'bdoy'", "did you mean 'body'"]),
    "slice of a leaf": (lambda: Relu.layers[:1], IndexError, ["Relu.layers: a layer without children"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name):
    assert_refused(*WRONG[name])


def test_an_error_of_a_stateful_child_says_where_it_is(key):
    model = serial(Centered(), repeat(serial(Centered(), Dropout(0.5)), 2))
    _, params = model.init(key, (2, 3))
    with pytest.raises(TypeError, match="rng is None") as caught:
        model.apply_with_state(params, model.init_state((2, 3)), X, train=True)
    assert [note.split(" (")[0] for note in caught.value.__notes__] == [
        "in serial[1] -> Dropout", "in repeat -> serial", "in serial[1] -> repeat"]
