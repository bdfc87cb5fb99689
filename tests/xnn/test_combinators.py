"""serial, named, parallel, residual, repeat: composition, rng, extra inputs, locations of errors."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_same
from tests.refusals import assert_refused
from tests.sampling import each_once, one_in
from tests.xnn.drawn_params import drawn_params
from xjax import nn, random, tree_util
from xnn import (
    BatchNorm,
    Dense,
    Dropout,
    GraphConvolution,
    Layer,
    MultiHeadAttention,
    Relu,
    Tanh,
    combine,
    composite,
    named,
    parallel,
    renamed,
    repeat,
    serial,
)
from xnn.graph import EdgeConv


def scaled(name="scale"):
    """A layer that multiplies by the extra input `name`."""
    return Layer(
        lambda rng, shape: (shape, ()),
        lambda params, x, scale, *, rng=None, train=False: x * scale,
        "scaled",
        (name,),
    )


def test_serial_is_one_layer_after_another(key, npr):
    layers = (Dense(4), Tanh, Dense(2))
    model = serial(*layers)
    x = jnp.asarray(npr.normal(size=(3, 5)), jnp.float32)
    shape, params = model.init(key, (3, 5))
    y = x
    for layer, layer_params in zip(layers, params, strict=True):
        y = layer.apply(layer_params, y)
    assert shape == y.shape == (3, 2)
    np.testing.assert_array_equal(model.apply(params, x), y)
    assert [sorted(entry) for entry in params] == [["b", "w"], [], ["b", "w"]]


def test_empty_serial_is_the_identity(key):
    shape, params = serial().init(key, (3, 2))
    assert (shape, params) == ((3, 2), ())
    assert serial().apply(params, 5) == 5


def test_child_i_draws_from_fold_in_i(key):
    x = jnp.ones((10, 10))
    _, (_, params) = serial(Relu, Dense(3)).init(key, (10, 10))
    expected = Dense(3).init(random.fold_in(key, 1), (10, 10))[1]
    np.testing.assert_array_equal(params["w"], expected["w"])
    y = serial(Relu, Dropout(0.5)).apply(((), ()), x, rng=key, train=True)
    alone = Dropout(0.5).apply((), x, rng=random.fold_in(key, 1), train=True)
    np.testing.assert_array_equal(y, alone)


def test_appending_a_layer_changes_no_earlier_weight(key):
    _, short = serial(Dense(3), Dense(4)).init(key, (-1, 5))
    _, long = serial(Dense(3), Dense(4), Dense(6)).init(key, (-1, 5))
    assert_same(short, long[:2], tol=0)


def test_named_has_a_dict_of_parameters(key, npr):
    model = named(body=Dense(4), act=Relu, head=Dense(2))
    shape, params = model.init(key, (-1, 5))
    assert shape == (-1, 2) and list(params) == ["body", "act", "head"]
    x = jnp.asarray(npr.normal(size=(3, 5)), jnp.float32)
    as_serial = tuple(params[name] for name in ("body", "act", "head"))
    expected = serial(Dense(4), Relu, Dense(2)).apply(as_serial, x)
    np.testing.assert_array_equal(model.apply(params, x), expected)


def test_extra_inputs_go_to_the_layers_that_declare_them():
    model = serial(scaled("a"), Relu, scaled("b"), serial(scaled("a")))
    assert model.extra_inputs == ("a", "b")
    assert model.apply(((), (), (), ((),)), 1.0, 2.0, 3.0) == 12.0
    net = serial(GraphConvolution(4), Relu, GraphConvolution(2))
    assert net.extra_inputs == ("graph",)


def test_the_mask_of_batch_norm_takes_no_place_of_another_input(npr):
    x, graph = npr.normal(size=(5, 3)).astype(np.float32), np.eye(5, k=1, dtype=np.float32)
    for model, n_extra in ((serial(BatchNorm(), GraphConvolution(2)), 1), (serial(BatchNorm(), EdgeConv(Relu, k=2)), 1),
                           (serial(serial(BatchNorm(), GraphConvolution(2)), scaled("a")), 2),
                           (parallel(BatchNorm(), scaled("a")), 1)):
        assert len(model.extra_inputs) == n_extra + 1 and model.extra_inputs[-1] == "row_mask"
    model = serial(BatchNorm(), scaled("a"), serial(BatchNorm(), GraphConvolution(2)))
    params = drawn_params(model, x.shape)
    state, mask = model.init_state(x.shape), np.arange(5) < 3
    one, other, (_, by_place) = xjax.jit(lambda params, x: (
        model.apply(params, x, 2.0, graph, state=state),
        model.apply(params, x, a=2.0, graph=graph, row_mask=None, state=state),
        model.apply_with_state(params, state, x, 2.0, graph, mask, train=True)))(params, x)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(by_place[0]["mean"], 0.1 * np.mean(x[:3], 0), rtol=1e-5)
    taken = serial(renamed(BatchNorm(), row_mask="a"), scaled("b"), scaled("a"))
    assert taken.extra_inputs == ("b", "a") and [one.comes_last for one in taken.inputs] == [False, False]


def test_a_mask_of_attention_is_none_of_batch_norm(npr):
    model, x = serial(BatchNorm(), MultiHeadAttention(4, 2)), npr.normal(size=(2, 2, 4)).astype(np.float32)
    params = drawn_params(model, x.shape)
    state, causal = model.init_state(x.shape), np.tril(np.ones((2, 2), bool))
    _, moved = xjax.jit(lambda params, x: model.apply_with_state(params, state, x, causal, train=True))(params, x)
    np.testing.assert_allclose(moved[0]["mean"], 0.1 * np.mean(x, (0, 1)), rtol=1e-5)


def test_parallel_branches(key, npr):
    model = serial(
        xnn.FanOut(2), parallel(Dense(3), serial(Dense(2), Tanh)), xnn.FanInConcat(), Relu
    )
    x = jnp.asarray(npr.normal(size=(4, 5)), jnp.float32)
    shape, params = model.init(key, (4, 5))
    left, right = params[1]
    joined = np.concatenate(
        [Dense(3).apply(left, x), jnp.tanh(Dense(2).apply(right[0], x))], axis=-1
    )
    assert shape == (4, 5)
    np.testing.assert_allclose(model.apply(params, x), np.maximum(joined, 0), rtol=1e-6)


def test_fan_in_sum(key):
    model = serial(xnn.FanOut(3), parallel(Relu, Tanh, Relu), xnn.FanInSum)
    shape, params = model.init(key, (2, 2))
    assert shape == (2, 2)
    np.testing.assert_allclose(model.apply(params, jnp.ones((2, 2))), 2 + np.tanh(1), rtol=1e-6)


def test_residual_of_several_layers(key, npr):
    model = xnn.residual(Dense(7), Tanh, Dense(5))
    x = jnp.asarray(npr.normal(size=(3, 5)), jnp.float32)
    shape, params = model.init(key, (3, 5))
    inner = serial(Dense(7), Tanh, Dense(5))
    assert shape == (3, 5)
    np.testing.assert_allclose(model.apply(params, x), x + inner.apply(params, x), rtol=1e-6)


@pytest.mark.parametrize("unroll", one_in(3, [None, False, 2, 1, True]))
def test_repeat_is_serial_with_stacked_parameters(key, npr, unroll):
    layer = serial(Dense(5), Tanh, Dropout(0.5))
    looped, unrolled = xnn.repeat(layer, 3, unroll=unroll), serial(layer, layer, layer)
    shape, stacked = looped.init(key, (4, 5))
    _, separate = unrolled.init(key, (4, 5))
    assert shape == (4, 5) and stacked[0]["w"].shape == (3, 5, 5)
    x = jnp.asarray(npr.normal(size=(4, 5)), jnp.float32)

    def computed(params, model):
        loss = lambda params: jnp.sum(jnp.square(model.apply(params, x)))
        return ([model.apply(params, x, **mode) for mode in ({}, {"rng": key, "train": True})], xjax.grad(loss)(params))

    (ys, grads), (wanted, expected) = xjax.jit(lambda stacked, separate: (
        computed(stacked, looped), computed(separate, unrolled)))(stacked, separate)
    for y, want in zip(ys, wanted, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    for i in range(3):
        np.testing.assert_allclose(np.asarray(grads[0]["w"])[i], expected[i][0]["w"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("layer", "n", "unroll", "loops"), [
    (Tanh, 12, None, False), (Tanh, 13, None, True), (Tanh, 13, True, False), (Tanh, 12, 1, True), (Tanh, 12, 6, True)])
def test_what_repeat_compiles_as_a_loop(layer, n, unroll, loops):
    model = xnn.repeat(layer, n, unroll=unroll)
    _, params = model.init(xjax.random.key(0), (3,))
    text = xjax.jit(model.apply).lower(params, jnp.ones(3)).as_text()
    assert ("stablehlo.while" in text) == loops


def test_repeat_refuses_what_is_no_number_of_layers():
    with pytest.raises(ValueError, match="(?s)repeat: `unroll` must be a number of layers.*-2.*fix:"):
        xnn.repeat(Tanh, 3, unroll=-2)


def test_inputs_of_repeat_that_differ_from_copy_to_copy():
    layer = xnn.lambda_(lambda x, factor, shift=0.0: x * factor + shift, positionwise=True)
    for unroll in (True, 1):
        model = xnn.repeat(layer, 3, each={"factor": [2.0, 3.0, 4.0]}, unroll=unroll)
        assert [one.name for one in model.inputs] == ["shift"]
        assert_same(model.apply(model.init(None, (2,))[1], jnp.ones(2), shift=1.0), np.array([41.0, 41.0], np.float32))


@pytest.mark.parametrize("each", [{"factor": [1.0, 2.0]}, {"other": [1.0] * 3}])
def test_repeat_needs_an_input_and_one_value_for_each_copy(each):
    assert_refused(lambda: xnn.repeat(xnn.lambda_(lambda x, factor: x * factor), 3, each=each), ValueError,
                   ["`each` needs 3 values for an input of", "inputs  factor"])


def test_repeat_without_parameters(key):
    shape, params = xnn.repeat(Tanh, 2).init(key, (3,))
    y = xnn.repeat(Tanh, 2).apply(params, jnp.ones(3))
    np.testing.assert_allclose(y, np.tanh(np.tanh(np.ones(3))), rtol=1e-6)
    assert shape == (3,)


def test_pairs_of_old_programs_are_layers(key):
    def init_fun(rng, shape):
        return shape, (jnp.ones(shape[-1]),)

    def apply_fun(params, inputs, **kwargs):
        assert set(kwargs) == {"rng", "train"}
        return inputs + jnp.broadcast_to(params[0], inputs.shape)

    model = serial((init_fun, apply_fun), Relu)
    _, params = model.init(key, (2, 3))
    np.testing.assert_array_equal(model.apply(params, jnp.ones((2, 3))), 2 * np.ones((2, 3)))


def test_an_error_says_where_in_the_model(key):
    model = serial(Dense(4), Relu, named(body=serial(Tanh, Dropout(0.5))))
    _, params = model.init(key, (3, 5))
    with pytest.raises(TypeError, match="Dropout: training needs random bits") as caught:
        model.apply(params, jnp.ones((3, 5)), train=True)
    assert caught.value.__notes__ == [
        "in serial[1] -> Dropout (input f32[3,4])",
        "in named['body'] -> serial (input f32[3,4])",
        "in serial[2] -> named (input f32[3,4])",
    ]


def test_an_error_of_init_says_where_in_the_model(key):
    with pytest.raises(TypeError) as caught:
        serial(Relu, xnn.residual(Dense(4))).init(key, (3, 5))
    assert "Dense changes the shape" in str(caught.value)
    assert caught.value.__notes__ == ["in serial[1] -> residual (init for shape (3, 5))"]


X = jnp.ones((2, 3))
KEY = random.PRNGKey(0)
WRONG = {
    "not called": (lambda: serial(Dense), TypeError, ["serial[0]", "Dense", "call it"]),
    "a function": (lambda: serial(xjax.nn.relu), TypeError, ["serial[0]", "xnn.elementwise(relu)"]),
    "Linear": (lambda: xnn.Linear, AttributeError, ["xnn: it has no `Linear`", "use xnn.Dense."]),
    "ReLU": (lambda: xnn.ReLU, AttributeError, ["use xnn.Relu."]),
    "Conv2d": (lambda: xnn.Conv2d, AttributeError, ["use xnn.Conv."]),
    "MSELoss": (lambda: xnn.MSELoss, AttributeError, ["use xnn.losses.mse."]),
    "parameters": (lambda: Dense(3).parameters(), AttributeError, ["no attribute 'parameters'", "init returned"]),
    "train": (lambda: Dense(3).train(), AttributeError, ["use apply(params, x, rng=rng, train=True)"]),
    "only an input": (lambda: serial(Dense(3))(X), TypeError, ["serial: ", "given  f32[2,3]", "apply(params, x)"]),
    "an unknown argument": (lambda: Dense(3, use_bias=False), TypeError, ["'use_bias'", "bias=True", "mean 'bias'?"]),
    "a missing argument": (lambda: Dense(bias=False), TypeError, ["'n_out'", "signature  Dense(n_out, "]),
    "input first": (lambda: Dense(3).apply(X, {"w": X}), TypeError, ["Dense: the input", "layer.apply(params, x)"]),
    "shape first": (lambda: Dense(3).init((2, 3), random.key(0)), TypeError, ["layer.init(rng, (-1, 1433))"]),
    "pair of init": (lambda: Dense(3).apply(Dense(3).init(KEY, (2, 3)), X), TypeError,
                     ["params    ((int, int), dict)", "out_shape, params = "]),
    "pair of init in serial": (lambda: serial(Dense(3), Relu).apply(serial(Dense(3), Relu).init(KEY, (2, 3)), X),
                               TypeError, ["params    (int, int)", "out_shape, params = "]),
    "pair of init, three layers": (
        lambda: serial(Relu, Dense(3), Relu).apply(serial(Relu, Dense(3), Relu).init(KEY, (2, 3)), X), TypeError,
        ["needs params for 3 layers", "out_shape, params = "]),
    "a list": (lambda: serial([Relu]), TypeError, ["serial[0]", "its own argument"]),
    "named not a layer": (lambda: named(head=3), TypeError, ["named['head']", "3"]),
    "params": (
        lambda: serial(Relu, Relu).apply(((),), X),
        TypeError,
        ["serial: needs params for 2 layers", "tuple of 1"],
    ),
    "params of another kind": (
        lambda: named(a=Relu, b=Relu).apply({"a": (), "c": ()}, X),
        TypeError,
        ["named: needs params for 2 layers", "keys ['a', 'c']", "'a', 'b'"],
    ),
    "params not a container": (
        lambda: serial(Relu).apply(X, X),
        TypeError,
        ["serial: needs params for 1 layer", "f32[2,3]"],
    ),
    "missing extra": (
        lambda: serial(scaled("adj")).apply(((),), X),
        TypeError,
        ["serial: takes 1 extra input, 0 given", "adj", "apply(params, x, adj, rng=None"],
    ),
    "too many extras": (
        lambda: serial(Relu).apply(((),), X, X),
        TypeError,
        ["takes 0 extra inputs, 1 given", "none"],
    ),
    "parallel inputs": (
        lambda: parallel(Relu, Relu).apply(((), ()), X),
        TypeError,
        ["parallel: 2 layers need a sequence of 2 inputs", "FanOut(2)"],
    ),
    "parallel shapes": (
        lambda: parallel(Relu, Relu).init(KEY, ((2, 3),)),
        TypeError,
        ["2 layers need a sequence of 2 shapes", "1"],
    ),
    "fan in sum": (
        lambda: xnn.FanInSum.init(KEY, ((2, 3), (2, 4))),
        ValueError,
        ["FanInSum: the shapes of the inputs differ", "(2, 4)"],
    ),
    "fan in concat": (
        lambda: xnn.FanInConcat().init(KEY, ((2, 3), (4, 3))),
        ValueError,
        ["FanInConcat", "outside axis -1"],
    ),
    "fan in one": (lambda: xnn.FanInSum.init(KEY, (2, 3)), TypeError, ["parallel(...)"]),
    "repeat zero": (lambda: xnn.repeat(Relu, 0), ValueError, ["repeat: n must be", "0"]),
    "repeat shape": (
        lambda: xnn.repeat(Dense(4), 2).init(KEY, (2, 3)),
        TypeError,
        ["repeat: Dense changes the shape", "(2, 4)"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name):
    assert_refused(*WRONG[name])


def test_layers_of_repeat_draw_from_keys_of_their_own(key):
    layer = serial(Dense(4), Tanh, Dense(4))
    _, stacked = repeat(layer, 3).init(key, (-1, 4))
    alone = [layer.init(random.fold_in(key, i), (-1, 4))[1] for i in range(3)]
    tree_util.tree_map(lambda whole, *parts: np.testing.assert_array_equal(whole, np.stack(parts)), stacked, *alone)
    traced = []
    counted = Layer(lambda rng, in_shape: (traced.append(1), layer.init(rng, in_shape))[1], layer.apply, "counted")
    repeat(counted, 50).init(key, (-1, 4))
    assert len(traced) == 1


# -- own combinators ---------------------------------------------------------------------------------------------------


def summed(*layers):
    children = dict(enumerate(layers))
    return combine("summed", children, lambda visit, shape, shapes: [visit(key, shape) for key in children][0],
                   lambda call, x, values: sum(call(key, x) for key in children))


def of_layers(forward):
    """A combinator of one layer, whose function takes and passes all inputs."""
    return lambda layer: composite(forward, body=layer, gate=Dense(1))


def stochastic_depth(layers, x, **inputs):
    y = layers.gate(layers.body(x, **inputs), **inputs)
    return x + (jnp.where(random.bernoulli(layers.rng, 0.5, (len(x), 1)), y, 0) if layers.train else y)


OWN = {
    "residual": of_layers(lambda layers, x, **inputs: x + layers.body(x, **inputs) + layers.gate(x)),
    "sum": lambda layer: summed(layer, Dense(4)),
    "mixture": of_layers(lambda layers, x, **inputs: nn.sigmoid(layers.gate(x)) * layers.body(x, **inputs)),
    "stochastic depth": of_layers(stochastic_depth),
    "shared tower": of_layers(lambda layers, x, **inputs: layers.body(layers.body(x, **inputs), **inputs)
                              + layers.gate(x)),
    "skip": of_layers(lambda layers, x, **inputs: jnp.concatenate(
        [x, layers.body(x, **inputs), layers.gate(x, **inputs)], -1)),
    "own input": of_layers(lambda layers, x, time=1.0, **inputs: layers.body(x, **inputs) * time + layers.gate(x)),
}
INNER = {
    "optional input": lambda: Layer(
        lambda rng, shape: (shape, ()),
        lambda params, x, mask=None, *, rng=None, train=False: x if mask is None else jnp.where(mask[:, None], x, 0),
        "Masked"),
    "required input": lambda: scaled(),
    "statistics": lambda: serial(BatchNorm(), Dropout(0.5)),
}


@pytest.mark.parametrize("name, inner", each_once(OWN, INNER))
def test_own_combinators_pass_on_inputs_state_and_keys(name, inner, key):
    model = serial(OWN[name](INNER[inner]()), Dense(2))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)), jnp.float32)
    value = {"optional input": {"mask": jnp.arange(6) < 3}, "required input": {"scale": jnp.float32(3)},
             "statistics": {"row_mask": jnp.arange(6) < 3}}[inner]
    shape, params = model.init(key, x.shape)
    assert set(value) <= set(model.extra_inputs)

    @xjax.jit
    def outputs(value):
        y, after = model.apply_with_state(params, model.init_state(x.shape), x, rng=key, train=True, **value)
        return y, after

    y, after = outputs(value)
    other, _ = outputs({name: one + 1 if one.dtype != bool else ~one for name, one in value.items()})
    assert y.shape == shape and np.all(np.isfinite(y)) and np.any(y != other)
    assert bool(tree_util.tree_leaves(after)) == (inner == "statistics")


def test_parts_of_an_own_combinator(key):
    model = summed(scaled(), scaled("other"))
    assert model.extra_inputs == ("scale", "other") and repr(model.layers[1]) == "scaled of (x, other)"
    assert repr(model.layers[:1]) == "summed of (x, scale)\n  [0] scaled of (x, scale)"
    half = xnn.with_precision(summed(Dense(3), Dense(3)), "bfloat16")
    _, params = half.init(key, (2, 4))
    assert half.layers[0].apply(params[0], jnp.ones((2, 4))).dtype == jnp.bfloat16
    wrapper = combine("wrapper", {None: Dense(3)}, lambda visit, shape, shapes: visit(None, shape),
                      lambda call, x, values: call(None, x) * values["factor"], inputs=["factor"])
    _, params = wrapper.init(key, (2, 4))
    assert sorted(params) == ["b", "w"] and wrapper.extra_inputs == ("factor",)
    shared = combine("pair", {"a": xnn.shared("w", Dense(4))}, lambda visit, shape, shapes: visit("a", shape),
                     lambda call, x, values: call("a", x), inputs=())
    assert xnn.with_shared(shared).init(key, (2, 4))[0] == (2, 4)


def test_an_input_that_a_function_may_pass_is_not_refused(key):
    """Functions that compute with values before the call, or pass an input only if they have it."""
    def by_value(layers, x, context):
        return layers.scaled(x, scale=jnp.mean(context) + x.shape[0])

    def if_given(layers, x, scale=None):
        return layers.scaled(x, **({} if scale is None else {"scale": scale}))

    model = composite(by_value, scaled=scaled())
    assert model.init(key, (2, 3), context=(5,))[0] == (2, 3)
    model = composite(if_given, scaled=scaled())
    assert model.apply({"scaled": ()}, jnp.ones((2, 3)), scale=2.0)[0, 0] == 2
    assert_refused(lambda: model.apply({"scaled": ()}, jnp.ones((2, 3))), TypeError, ["if_given['scaled']", "`scale`"])


def late(layers, x):
    return layers.scaled(jnp.tanh(x))


NOT_PASSED = {
    "composite": (lambda: composite(lambda layers, x: x + layers.a(x), "net", a=scaled()), TypeError,
                  ["net['a']: scaled needs the input `scale`", "**inputs",
                   "`def f(layers, x, scale)`, `layers.a(..., scale=scale)`"]),
    "composite, second layer": (lambda: composite(lambda layers, x: layers.b(layers.a(x)[:, :2].T), "net", a=Dense(3),
                                                  b=scaled()), TypeError, ["net['b']"]),
    "composite, after a computation": (lambda: composite(late, scaled=scaled()).init(random.PRNGKey(0), (2, 3)),
                                       TypeError, ["late['scaled']: scaled needs the input `scale`"]),
    "**inputs": (lambda: composite(lambda layers, x, **inputs: layers.body(layers.norm(x), **inputs), "net",
                                   norm=BatchNorm(), body=Dense(3)), TypeError,
                 ["net['norm']: BatchNorm has the input `row_mask`", "layers.norm(..., **inputs)", "row_mask=None"]),
    "**inputs and an input": (lambda: composite(lambda layers, x, scale, **inputs: layers.a(x, **inputs) * scale,
                                                   "net", a=scaled()), TypeError,
                                 ["net['a']: scaled needs the input `scale`", "layers.a(..., scale=scale, **inputs)"]),
    "combine": (lambda: combine("net", {"a": MultiHeadAttention(4, 2)}, None, None, inputs=["bias"]), ValueError,
                ["net['a']: MultiHeadAttention has the input `mask`, which net does not have", "add 'mask'"]),
    "graph layer": (lambda: EdgeConv(scaled()), ValueError, ["EdgeConv['network']: scaled has the input `scale`"]),
    "not a layer": (lambda: combine("net", {"a": Dense}, None, None), TypeError, ["net['a']: a child is not a layer"]),
    "a call": (lambda: serial(composite(lambda layers, x: layers.a(x), "net", a=MultiHeadAttention(4, 2))).apply(
        ({},), jnp.ones((1, 2, 4)), mask=None), TypeError,
        ["serial: has no input `mask`", "net['a'] has such an input", "`layers.a(..., mask=mask)`"]),
}


@pytest.mark.parametrize("name", NOT_PASSED)
def test_inputs_that_are_not_passed_on(name):
    assert_refused(*NOT_PASSED[name])
