"""xnn.params: paths and patterns, masks for optimizers, frozen leaves, averages, merged checkpoints, adapters."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.refusals import assert_refused
from xjax import random, tree_util
from xnn import CSR, Dense, Relu, named, params, serial

F32 = np.float32


def tree(seed=0, dtype=F32):
    npr = np.random.default_rng(seed)

    def dense(n_in, n_out):
        return {"w": npr.normal(size=(n_in, n_out)).astype(dtype), "b": npr.normal(size=n_out).astype(dtype)}

    return {"encoder": (dense(3, 4), (), [dense(4, 2)]), "head": dense(2, 1), "scale": np.asarray(npr.normal(), dtype)}


ALL = ["encoder/0/b", "encoder/0/w", "encoder/2/0/b", "encoder/2/0/w", "head/b", "head/w", "scale"]


# -- paths and patterns -----------------------------------------------------------------------------------------------

PATTERNS = {
    "**": ALL,
    "encoder/**": ALL[:4],
    "**/w": ["encoder/0/w", "encoder/2/0/w", "head/w"],
    "*/w": ["head/w"],
    "encoder/*/w": ["encoder/0/w"],
    "encoder/**/w": ["encoder/0/w", "encoder/2/0/w"],
    "**/0/*": ["encoder/0/b", "encoder/0/w", "encoder/2/0/b", "encoder/2/0/w"],
    "*": ["scale"],
    "h*/[bw]": ["head/b", "head/w"],
    "**/head/**/b": ["head/b"],
    "head/?": ["head/b", "head/w"],
    ("scale", "**/b"): ["encoder/0/b", "encoder/2/0/b", "head/b", "scale"],
    (): [],
    lambda path, x: x.ndim == 0: ["scale"],
    (lambda path, x: x.shape == (2,), "scale"): ["encoder/2/0/b", "scale"],
}


@pytest.mark.parametrize("pattern", PATTERNS, ids=[f"{i} {type(p).__name__}" for i, p in enumerate(PATTERNS)])
def test_what_a_pattern_selects(pattern):
    weights = tree()
    expected = PATTERNS[pattern]
    pattern = list(pattern) if isinstance(pattern, tuple) else pattern
    assert list(params.select(weights, pattern)) == expected
    masked = params.mask(weights, pattern)
    assert tree_util.tree_structure(masked) == tree_util.tree_structure(weights)
    assert [path for path, hit in params.paths(masked).items() if hit is True] == expected
    assert params.count(weights, pattern) == sum(np.size(params.paths(weights)[path]) for path in expected)


def test_paths_of_other_trees():
    csr = CSR.from_dense(np.eye(2, dtype=F32))
    assert list(params.paths(named(body=Dense(2), act=Relu).init(random.key(0), (1, 2))[1])) == ["body/b", "body/w"]
    assert list(params.paths(np.ones(2))) == [""] and params.count(np.ones(2), "") == 2
    assert list(params.paths({"mlp/~/linear": {"w": 1}})) == ["mlp/~/linear/w"]
    assert list(params.select({"x[0]": 1, "x0": 2}, "x[0]")) == ["x0", "x[0]"]      # a path matches itself
    assert len(params.paths({"adj": csr})) == len(tree_util.tree_leaves(csr))
    for empty in ((), {}, None, [(), {}]):
        assert params.paths(empty) == {} and params.count(empty) == 0 and params.cast(empty, jnp.float16) == empty


def test_shapes_are_enough():
    model = serial(Dense(4), Relu, Dense(2))
    types = xjax.eval_shape(lambda key: model.init(key, (1, 3))[1], random.key(0))
    assert params.count(types) == 3 * 4 + 4 + 4 * 2 + 2 and params.count(types, "**/b") == 6
    assert params.size_in_bytes(types) == 4 * params.count(types)
    assert params.mask(types, lambda path, x: x.ndim == 2)[0] == {"b": False, "w": True}
    assert params.labels(types, {"a": "0/**"}, "z")[2] == {"b": "z", "w": "z"}
    assert params.select(types, "0/b")["0/b"].shape == (4,)


def test_sizes():
    weights = {"half": jnp.ones((3, 2), jnp.bfloat16), "none": np.ones((0, 5)), "one": 1.0, "key": random.key(0)}
    assert params.count(weights) == 6 + 0 + 1 + 1
    assert params.size_in_bytes(weights, ["half", "none", "one"]) == 12 + 0 + 4


def test_labels():
    weights = tree()
    labels = params.labels(weights, {"bias": "**/b", "first": "encoder/0/**"}, "rest")
    assert list(params.paths(labels).values()) == ["bias", "first", "bias", "rest", "bias", "rest", "rest"]
    texts = ["params.labels: 4 leaves", "encoder/0/w, encoder/2/0/w, head/w, scale"]
    assert_refused(lambda: params.labels(weights, {"bias": "**/b"}), ValueError, texts)


def test_update():
    weights = tree()
    new = params.update(weights, {"head/b": np.array([7]), "scale": 2.0, "encoder/0/b": np.ones(4, np.float64)})
    assert new["head"]["b"].dtype == F32 and float(new["head"]["b"][0]) == 7 and float(new["scale"]) == 2
    assert new["head"]["w"] is weights["head"]["w"] and isinstance(new["encoder"][2], list)
    assert new["encoder"][0]["b"].dtype == F32
    assert_same(params.update(weights, params.paths(weights)), weights, tol=0)
    traced = xjax.jit(lambda p, x: params.update(p, {"head/b": x}))(weights, jnp.ones(1, jnp.bfloat16))
    assert_same(traced, params.update(weights, {"head/b": np.ones(1, F32)}), tol=0)
    keys = {"key": random.key(0)}
    assert params.update(keys, {"key": random.key(1)})["key"].dtype == keys["key"].dtype


MISTAKES = {
    "misspelt": (lambda p: params.mask(p, "encodr/**/w"), ValueError, ["params.mask", "mean 'encoder/**/w'?"]),
    "a node": (lambda p: params.freeze(p, "encoder"), ValueError, ["params.freeze", "did you mean 'encoder/**'?"]),
    "a misspelt node": (lambda p: params.freeze(p, "encodr"), ValueError, ["did you mean 'encoder/**'?"]),
    "a name": (lambda p: params.count(p, "w"), ValueError, ["params.count", "did you mean '**/w'?"]),
    "nothing near": (lambda p: params.select(p, "zzz"), ValueError, ["'zzz'", "encoder/0/b, "]),
    "one of a list": (lambda p: params.cast(p, F32, ["scale", "hed/w"]), ValueError, ["params.cast", "'head/w'"]),
    "function": (lambda p: params.mask(p, lambda path, x: False), ValueError, ["matches no leaf"]),
    "no pattern": (lambda p: params.mask(p, 3), TypeError, ["params.mask: the argument is not a pattern"]),
    "twice": (lambda p: params.paths({"a/b": 1, "a": {"b": 2}}), ValueError, ["params.paths", "'a/b'"]),
    "update path": (lambda p: params.update(p, {"head/bb": 1}), ValueError, ["params.update", "fix: did", "'head/b'?"]),
    "update shape": (lambda p: params.update(p, {"head/b": np.ones(3)}), TypeError, ["f32[1]", "f64[3]"]),
    "update kind": (lambda p: params.update(p, {"scale": 1j}), TypeError, ["params.update", "'scale'"]),
    "update key": (lambda p: params.update(p, {"scale": random.key(0)}), TypeError, ["key<fry>"]),
    "cast": (lambda p: params.cast(p, jnp.int32), TypeError, ["params.cast", "int32"]),
    "decay": (lambda p: params.ema(p, p, 1.5), ValueError, ["params.ema", "1.5"]),
    "ema paths": (lambda p: params.ema(p, p["head"], 0.5), ValueError, ["params.ema: params has no such path"]),
    "ema shape": (lambda p: params.ema({"w": np.ones((3, 1))}, {"w": np.ones(3)}, 0.5), TypeError, ["f64[3,1]"]),
    "fresh path": (lambda p: params.reinitialize(p, {"head": 1}, "scale"), ValueError, ["fresh has no such"]),
    "fresh shape": (lambda p: params.reinitialize(p, {**p, "scale": np.ones(2)}, "scale"), TypeError, ["[2]"]),
    "rank": (lambda p: params.low_rank(random.key(0), p, "**/w", 0), ValueError, ["params.low_rank"]),
    "no matrix": (lambda p: params.low_rank(random.key(0), p, "**", 2), TypeError, ["scale f32[]", "fix:", "x.ndim"]),
    "adapter path": (lambda p: params.adapted(p, {"head/v": {}}), ValueError, ["params.adapted", "fix: did"]),
    "adapter": (lambda p: params.adapted(p, {"head/w": {"a": 1}}), TypeError, ["params.adapted", "head/w"]),
    "adapter shape": (lambda p: params.adapted(p, {"head/w": {"a": np.ones((3, 2)), "b": np.ones((2, 1))}}), TypeError,
                      ["f32[2,1]", "f64[3,2]"]),
    "adapter of a vector": (lambda p: params.adapted(p, {"head/b": {"a": np.ones((1, 1)), "b": np.ones((1, 1))}}),
                            TypeError, ["do not match"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    call, kind, texts = MISTAKES[name]
    assert_refused(lambda: call(tree()), kind, texts)


# -- frozen leaves and optimizers -------------------------------------------------------------------------------------

def loss(weights, x=1.5):
    return sum(jnp.sum(jnp.sin(x * leaf)) for leaf in tree_util.tree_leaves(weights))


def test_gradients_of_frozen_leaves_are_zero():
    weights = tree_util.tree_map(jnp.asarray, tree())
    plain = params.paths(xjax.tree.map(np.asarray, xjax.jit(xjax.grad(loss))(weights)))

    def frozen_loss(weights, x=1.5):
        return loss(params.freeze(weights, "encoder/**"), x)

    def second(grads):
        return tree_util.tree_map(lambda x: np.asarray(x)[1], grads)

    np.testing.assert_array_equal(*xjax.jit(lambda weights: (frozen_loss(weights), loss(weights)))(weights))
    batch = jnp.arange(0.5, 4.5)
    ways = {
        "eager": xjax.grad(frozen_loss)(weights),
        "jit": xjax.jit(xjax.grad(frozen_loss))(weights),
        "vmap": second(xjax.jit(xjax.vmap(xjax.grad(frozen_loss), (None, 0)))(weights, batch)),
        "pmap": second(xjax.pmap(xjax.grad(frozen_loss), in_axes=(None, 0))(weights, batch)),
    }
    for way, grads in ways.items():
        for path, grad in params.paths(grads).items():
            expected = 0 * plain[path] if path.startswith("encoder") else plain[path]
            np.testing.assert_allclose(grad, expected, rtol=1e-6, atol=1e-7, err_msg=f"{way} {path}")
    assert np.asarray(params.freeze({"w": np.ones(2), "n": 3}, "**")["n"]) == 3


def optimizers(optim, weights):
    """Every way to freeze the encoder, by optax."""
    frozen, trained = params.mask(weights, "encoder/**"), params.mask(weights, ["head/*", "scale"])
    labels = params.labels(weights, {"none": "encoder/**"}, "adam")
    tx = optim.adamw(0.1)
    return {"selective_transform": optim.selective_transform(tx, freeze_mask=frozen),
            "multi_transform": optim.multi_transform({"adam": tx, "none": optim.set_to_zero()}, labels),
            "masked": optim.chain(optim.masked(tx, trained), optim.masked(optim.set_to_zero(), frozen))}


@pytest.mark.parametrize("way", ["selective_transform", "multi_transform", "masked"])
def test_an_optimizer_leaves_masked_leaves_as_they_are(way):
    pytest.importorskip("optax")
    from xnn import optim

    def train(tx):
        @xjax.jit
        def step(weights, state):
            updates, state = tx.update(xjax.grad(loss)(weights), state, weights)
            return optim.apply_updates(weights, updates), state

        weights = tree_util.tree_map(jnp.asarray, tree())
        state = tx.init(weights)
        for _ in range(5):
            weights, state = step(weights, state)
        return params.paths(weights)

    start = params.paths(tree())
    moved, everything = train(optimizers(optim, tree())[way]), train(optim.adamw(0.1))
    for path, value in moved.items():
        if path.startswith("encoder"):
            np.testing.assert_array_equal(value, start[path], err_msg=path)
        else:
            np.testing.assert_allclose(value, everything[path], rtol=1e-6, err_msg=path)
            assert np.all(np.asarray(value) != start[path])


def test_weight_decay_by_mask():
    pytest.importorskip("optax")
    from xnn import optim

    weights = tree_util.tree_map(jnp.asarray, tree())
    tx = optim.add_decayed_weights(0.5, mask=params.mask(weights, "**/w"))
    zeros = tree_util.tree_map(np.zeros_like, weights)
    updates, _ = xjax.jit(lambda weights: tx.update(zeros, tx.init(weights), weights))(weights)
    for path, value in params.paths(updates).items():
        np.testing.assert_allclose(value, (0.5 if path.endswith("/w") else 0) * params.paths(weights)[path], rtol=1e-6)


# -- dtypes and averages ----------------------------------------------------------------------------------------------

def test_cast():
    weights = {"w": np.ones((2, 2), F32), "c": np.array([1 + 2j], np.complex64), "n": np.int32(3),
               "flag": np.array(True), "key": random.key(0), "empty": np.ones((0, 2), F32),
               "h": jnp.ones((), jnp.float16), "x": 1.5}
    half = params.cast(weights, jnp.bfloat16)
    dtypes = {path: str(leaf.dtype) for path, leaf in half.items()}
    assert dtypes == {"w": "bfloat16", "c": "complex64", "n": "int32", "flag": "bool", "key": "key<fry>",
                      "empty": "bfloat16", "h": "bfloat16", "x": "bfloat16"}
    assert half["n"] is weights["n"] and half["empty"].shape == (0, 2)
    assert params.cast(weights, np.float16, "w")["empty"].dtype == F32
    assert xjax.jit(lambda p: params.cast(p, "bfloat16"))(weights)["w"].dtype == jnp.bfloat16
    with xjax.enable_x64(True):
        wide = params.cast(weights, jnp.float64)
        assert wide["w"].dtype == np.float64 and wide["c"].dtype == np.complex128


@pytest.mark.parametrize("step", [None, 0, 3, 10_000])
@pytest.mark.parametrize("jitted", [False, True])
def test_ema_is_that_of_numpy(step, jitted):
    old = {**tree(1), "c": np.array([1 + 2j], np.complex64), "n": np.int32(1), "e": np.ones((0,), F32)}
    new = {**tree(2), "c": np.array([3 - 1j], np.complex64), "n": np.int32(5), "e": np.ones((0,), F32)}
    average = xjax.jit(params.ema) if jitted else params.ema
    got = average(old, new, 0.9) if step is None else average(old, new, 0.9, step=step)
    decay = 0.9 if step is None else min(0.9, (1 + step) / (10 + step))
    for path, value in params.paths(got).items():
        x, y = params.paths(old)[path], params.paths(new)[path]
        assert value.dtype == x.dtype
        np.testing.assert_allclose(value, y if path == "n" else decay * x + (1 - decay) * y, rtol=3e-6, atol=1e-7)


def test_ema_of_half_precision():
    weights = {"w": jnp.ones(3, jnp.bfloat16)}
    kept_wide = params.ema({"w": jnp.zeros(3)}, weights, 0.999)
    kept_half = params.ema({"w": jnp.zeros(3, jnp.bfloat16)}, weights, 0.999)
    assert kept_wide["w"].dtype == F32 and kept_half["w"].dtype == jnp.bfloat16
    np.testing.assert_allclose(kept_wide["w"], 1e-3, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(kept_half["w"], F32), 1e-3, rtol=4e-3)       # rounded to 8 bits
    start = {"w": jnp.full(3, 0.1)}
    np.testing.assert_array_equal(params.ema(start, start, 0.9)["w"], start["w"])  # equal values stay equal, exactly
    with xjax.enable_x64(True):
        got = params.ema({"w": np.zeros(2)}, {"w": np.ones(2)}, 0.9999, step=jnp.int32(10**6))
        np.testing.assert_allclose(got["w"], 1 - 0.9999, rtol=1e-12)


def test_ema_under_vmap_and_scan():
    steps = jnp.arange(4)
    got = xjax.jit(xjax.vmap(lambda step: params.ema(jnp.zeros(2), jnp.ones(2), 0.5, step=step)))(steps)
    np.testing.assert_allclose(np.asarray(got)[:, 0], np.maximum(0.5, 9 / (10 + np.arange(4))), rtol=1e-6)
    end, _ = xjax.lax.scan(lambda average, step: (params.ema(average, jnp.ones(2), 0.5), None), jnp.zeros(2), steps)
    np.testing.assert_allclose(end, 1 - 0.5**4, rtol=1e-6)


# -- checkpoints ------------------------------------------------------------------------------------------------------

def test_reinitialize():
    old, fresh = tree(1), tree(2)
    got = params.reinitialize(old, fresh, "head/**")
    assert_same(got["head"], fresh["head"], tol=0)
    assert_same(got["encoder"], old["encoder"], tol=0)


MERGES = {
    "all": (lambda p: p, {}, ALL, []),
    "flat": (lambda p: params.paths(p), {}, ALL, []),
    "a part": (lambda p: {"head": p["head"]}, {}, ALL[4:6], []),
    "under a prefix": (lambda p: p["head"], {"prefix": "head"}, ALL[4:6], []),
    "lists for tuples": (lambda p: {"encoder": list(p["encoder"])}, {}, ALL[:4], []),
    "renamed": (lambda p: {"net": {"top": p["head"]}}, {"rename": {"net/top": "head"}}, ALL[4:6], []),
    "renamed away": (lambda p: {"net": p, "opt": 1}, {"rename": {"net": ""}}, ALL, ["opt"]),
    "by a function": (lambda p: {"HEAD": p["head"], "opt": 1},
                      {"rename": lambda path: None if path == "opt" else path.lower()}, ALL[4:6], []),
    "extra": (lambda p: {"scale": p["scale"], "heads": 1}, {}, ["scale"], ["heads"]),
}


@pytest.mark.parametrize("name", MERGES)
def test_merge(name):
    make, options, taken, extra = MERGES[name]
    old, new = tree(1), tree(2)
    got, report = params.merge(old, make(new), **options)
    expected = params.update(old, {path: params.paths(new)[path] for path in taken})
    assert_same(got, expected, tol=0)
    missing = [path for path in ALL if path not in taken and path.startswith(options.get("prefix", ""))]
    assert report == params.Report(tuple(missing), tuple(extra), {})
    if any(report):
        texts = ["params.merge", *missing, *extra]
        assert_refused(lambda: params.merge(old, make(new), **options, strict=True), ValueError, texts)
    else:
        assert_same(params.merge(old, make(new), **options, strict=True)[0], expected, tol=0)


def test_merge_reports_and_refuses_all_at_once():
    old = tree()
    part = {"head": {"w": np.ones((2, 3)), "b": np.array([1j])}, "scale": np.ones((), jnp.bfloat16), "more": 1}
    got, report = params.merge(old, part)
    assert got["head"] == old["head"] and got["scale"].dtype == F32 and float(got["scale"]) == 1
    assert report.missing == tuple(ALL[:4]) and report.extra == ("more",)
    assert list(report.mismatched) == ["head/b", "head/w"]
    assert report.mismatched["head/w"] == "f32[2,1] in params, f64[2,3] in part"
    texts = [*ALL[:4], "extra       more", "mismatched  head/w  f32[2,1] in params, f64[2,3] in part", "head/b"]
    assert_refused(lambda: params.merge(old, part, strict=True), ValueError, texts)
    assert_refused(lambda: params.merge(old, old["head"], prefix="hed"), ValueError, ["hed/w", "fix: did", "'head/b'"])
    twice = {"a": 1.0, "scale": 2.0}
    assert_refused(lambda: params.merge(old, twice, rename={"a": "scale"}), ValueError, ["renamed to one path"])
    assert_same(params.merge(old, {})[0], old, tol=0)


def test_merge_into_types_and_under_jit():
    types = xjax.eval_shape(lambda: tree_util.tree_map(jnp.asarray, tree()))
    assert_same(params.merge(types, tree(1), strict=True)[0], tree(1), tol=0)
    traced = xjax.jit(lambda p, part: params.merge(p, part, prefix="head")[0])(tree(1), tree(2)["head"])
    assert_same(traced, params.merge(tree(1), tree(2)["head"], prefix="head")[0], tol=0)


# -- adapters ---------------------------------------------------------------------------------------------------------

def test_adapters_start_at_zero_and_are_trained_alone(key, npr):
    model = serial(Dense(5), Relu, Dense(2))
    weights = model.init(key, (-1, 3))[1]
    x, y = (jnp.asarray(npr.normal(size=(8, n)), jnp.float32) for n in (3, 2))
    adapters = params.low_rank(key, weights, "**/w", 2)
    shapes = {path: leaf.shape for path, leaf in params.paths(adapters).items()}
    assert shapes == {"0/w/a": (3, 2), "0/w/b": (2, 5), "2/w/a": (5, 2), "2/w/b": (2, 2)}
    assert_same(params.adapted(weights, adapters, 8.0), weights, tol=0)

    def cost(adapters):
        return jnp.mean(jnp.square(model.apply(params.adapted(weights, adapters, 8.0), x) - y))

    @xjax.jit
    def step(p):
        value, grads = xjax.value_and_grad(cost)(p)
        return tree_util.tree_map(lambda x, g: x - 0.02 * g, p, grads), value

    moved, costs = adapters, []
    for _ in range(31):
        trained = moved
        moved, value = step(trained)
        costs.append(float(value))
    assert costs[-1] < 0.9 * costs[0]
    merged = params.paths(params.adapted(weights, trained, 8.0))
    for path, w in params.paths(weights).items():
        change = 4 * np.dot(trained[path]["a"], trained[path]["b"]) if path in trained else F32(0)
        np.testing.assert_allclose(merged[path], w + change, rtol=1e-5, atol=1e-6)


def test_what_is_drawn_depends_on_the_path_only(key):
    weights = tree_util.tree_map(jnp.asarray, tree())
    one, more = params.low_rank(key, weights, "head/w", 3), params.low_rank(key, weights, "**/w", 3)
    np.testing.assert_array_equal(one["head/w"]["a"], more["head/w"]["a"])
    a = params.low_rank(key, {"w": np.ones((100, 200), F32)}, "w", 100)["w"]["a"]
    np.testing.assert_allclose(np.var(np.asarray(a)), 1 / 100, rtol=0.06)       # 4 standard errors of 10,000 draws


@pytest.mark.parametrize("dtype", [jnp.bfloat16, pytest.param(np.float16, marks=pytest.mark.slow), F32,
                                   pytest.param(np.float64, marks=pytest.mark.slow), np.complex64])
def test_dtypes_and_leading_axes_of_adapters(dtype, key, npr):
    with xjax.enable_x64(dtype == np.float64):
        w = npr.normal(size=(4, 3, 2)).astype(dtype)
        weights = {"w": jnp.asarray(w), "empty": np.zeros((0, 2), dtype)}
        adapters = params.low_rank(key, weights, "*", 1)
        assert adapters["w"]["a"].shape == (4, 3, 1) and adapters["w"]["a"].dtype == dtype
        adapters = tree_util.tree_map(np.ones_like, adapters)
        got = params.adapted(weights, adapters, jnp.asarray(2.0))
        assert got["w"].dtype == dtype and got["empty"].shape == (0, 2)
        np.testing.assert_array_equal(got["w"], w + np.asarray(2, dtype))


def test_dtypes_of_adapters_and_of_weights_may_differ(key):
    wide = params.adapted({"w": jnp.ones((2, 2), jnp.bfloat16)}, params.low_rank(key, {"w": jnp.ones((2, 2))}, "w", 1))
    assert wide["w"].dtype == jnp.bfloat16
    half = params.low_rank(key, {"w": np.ones((2, 2), F32)}, "w", 1, dtype=jnp.bfloat16)
    assert half["w"]["a"].dtype == jnp.bfloat16 and params.adapted({"w": np.ones((2, 2), F32)}, half)["w"].dtype == F32


def test_adapters_under_vmap_and_jit(key):
    weights = {"w": jnp.ones((3, 2))}
    many = xjax.jit(xjax.vmap(lambda key: params.low_rank(key, weights, "w", 2)))(random.split(key, 4))
    many = tree_util.tree_map(lambda x: np.asarray(x) + 1, many)
    got = np.asarray(xjax.jit(xjax.vmap(params.adapted, (None, 0)))(weights, many)["w"])
    for i in range(4):
        one = params.adapted(weights, tree_util.tree_map(lambda x, i=i: x[i], many))
        np.testing.assert_allclose(got[i], one["w"], rtol=1e-6)
