"""Typed keys: their numbers, the operations on them, and the errors where they are refused, all as in JAX."""

import copy
import pickle

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.oracle import real_jax
from tests.random.rows import ROWS
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import lax, random
from xjax.core.key_types import KEY_TYPES

jax = real_jax()
IMPLS = list(KEY_TYPES)


# -- streams ------------------------------------------------------------------------------------------------------

# One for each way in which samplers use a key; tests with raw keys cover their use of the bits.
DRAWN = ("uniform(2, 3)", "bits uint8(3, 5)", "bits uint16(7,)", "split(2, 3)", "split(0, 2)", "randint int32",
         "fold_in", "fold_in array", "permutation")


@pytest.mark.parametrize(("impl", "partitionable"), [
    *((impl, True) for impl in IMPLS), pytest.param("rbg", False, marks=pytest.mark.slow)])
def test_streams_equal_those_of_jax(impl, partitionable):
    def draw(library):
        def all_of_them(key):
            return [ROWS[name](library.random, key) for name in DRAWN]
        with library.threefry_partitionable(partitionable):
            return library.jit(all_of_them)(library.random.key(42, impl=impl))

    for name, ours, theirs in zip(DRAWN, draw(xjax), draw(jax), strict=True):
        assert_same(ours, theirs, tol=0.25, what=name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "impl"), [
    (name, impl) for name in ROWS if name not in DRAWN for impl in IMPLS
    if impl == "threefry2x32" or not name.startswith("poisson")])  # JAX draws poisson from no other kind of key
def test_every_stream_equals_that_of_jax(name, impl):
    ours, theirs = (ROWS[name](library.random, library.random.key(7, impl=impl)) for library in (xjax, jax))
    assert_same(ours, theirs)


@pytest.mark.slow                           # JAX takes long to compile it
@pytest.mark.parametrize("impl", IMPLS)
def test_gamma(impl):
    a = np.float32([0.3, 1, 9])
    ours, theirs = (library.random.gamma(library.random.key(3, impl=impl), a, (2, 3)) for library in (xjax, jax))
    assert_same(ours, theirs)


@pytest.mark.parametrize("impl", one_in(3, IMPLS))
def test_mapped_streams(impl):
    """If numbers depend on the mapping (rbg), they do so in JAX's way."""
    def results(library):
        r, vmap = library.random, library.vmap
        keys = r.split(r.key(5, impl=impl), (2, 3))
        return library.jit(lambda keys: [
            vmap(vmap(lambda k: r.bits(k, (2,))))(keys), vmap(vmap(r.bits), in_axes=1)(keys),
            vmap(vmap(r.split, 0, 1), 1)(keys), vmap(r.fold_in, (0, None))(keys[0], 7),
            vmap(r.fold_in, (None, 0))(keys[0, 0], np.arange(3)), vmap(lambda i: r.normal(keys[0, i]))(np.arange(3)),
            vmap(lambda s: r.key(s, impl=impl))(np.arange(3))])(keys)

    ours, theirs = results(xjax), results(jax)
    assert_same(ours, theirs)


@pytest.mark.parametrize("impl", one_in(3, IMPLS))
def test_raw_keys_belong_to_the_default_generator(impl):
    def results(library):
        with library.default_prng_impl(impl):
            raw = library.random.PRNGKey(9)
            return [raw, library.random.split(raw, 3), library.random.fold_in(raw, 4), library.random.bits(raw, (3,)),
                    library.random.key(9), library.random.wrap_key_data(raw), library.random.clone(raw),
                    library.jit(lambda key: library.random.split(key))(raw)]

    assert_same(results(xjax), results(jax))
    assert random.PRNGKey(9, impl=impl).shape == (KEY_TYPES[impl].kind.words,)


# -- operations ---------------------------------------------------------------------------------------------------

def _structural(lib, k, ks):
    """Operations on keys as elements of arrays."""
    np_ = lib.numpy
    mask = np.array([True, False, True])
    return {
        "index": [ks[0], ks[-1], ks[1:], ks[::-1], ks[None], ks[..., 0], ks[np.array([2, 0])], ks[mask]],
        "traced index": lib.vmap(lambda i: ks[i])(np.arange(3)),
        "shape": [ks.reshape(3, 1), ks.reshape(1, 3).T, ks.ravel(), np_.squeeze(ks[None]), np_.expand_dims(ks, 0),
                  np_.swapaxes(ks[None], 0, 1), np_.broadcast_to(k, (2, 2)), np_.tile(ks, 2), np_.repeat(ks, 2),
                  np_.flip(ks), np_.roll(ks, 1), np_.moveaxis(ks[None], 0, 1)],
        "join": [np_.concatenate([ks, ks]), np_.stack([ks, ks], 1), np_.array([k, ks[1]]), np_.append(ks, k),
                 np_.hstack([ks, ks]), np_.split(ks, 3)],
        "choose": [np_.where(mask, ks, k), np_.where(True, ks, k), lib.lax.select(mask, ks, ks[::-1]),
                   lib.lax.select_n(np.int32([0, 1, 2]), ks, ks[::-1], ks), np_.take(ks, np.array([0, 9])),
                   np_.take(ks, 1), lib.lax.dynamic_slice(ks, (1,), (2,)), lib.random.choice(k, ks)],
        "write": [ks.at[0].set(k), ks.at[1:].set(ks[:-1]), ks.at[np.array([2, 9])].set(k, mode="drop"),
                  ks.at[0].get(), lib.lax.dynamic_update_slice(ks, ks[:1], (2,))],
        "compare": [k == k, ks == k, ks != k, ks[None] == ks[:, None], lib.lax.eq(ks, ks)],
        "close": [np_.isclose(k, ks), np_.allclose(ks, ks)],
        "made": [np_.zeros_like(ks), np_.ones_like(ks), np_.empty_like(ks), np_.zeros((2,), k.dtype), np_.full((2,), k),
                 np_.full_like(ks, k), lib.lax.full_like(ks, 0), lib.lax.full((2,), 1, k.dtype),
                 np_.asarray(ks, k.dtype), np_.copy(ks)],
        "barrier": lib.lax.optimization_barrier((k, ks)), "stop": lib.lax.stop_gradient(ks),
    }


@pytest.mark.parametrize("impl", one_in(2, ["threefry2x32", "unsafe_rbg"]))
def test_structural_operations(impl):
    def results(lib):
        k = lib.random.key(3, impl=impl)
        return lib.jit(lambda k, ks: _structural(lib, k, ks))(k, lib.random.split(k, 3))

    assert_same(results(xjax), results(jax))


@pytest.mark.slow
def test_structural_operations_without_jit():
    k = random.key(3)
    ks = random.split(k, 3)
    assert_same(_structural(xjax, k, ks), xjax.jit(lambda k, ks: _structural(xjax, k, ks))(k, ks))


def _loops(lib, k, ks):
    """Keys as carries, operands and constants of control flow."""
    r, lx = lib.random, lib.lax

    def step(k, x):
        k, sub = r.split(k)
        return k, (sub, r.bits(sub), r.bits(x))

    def draws(p, k):
        return lx.cond(p, lambda k: r.fold_in(k, 1), lambda k: k, k)

    return {
        "scan": lx.scan(step, k, ks), "reverse": lx.scan(step, k, ks, reverse=True, unroll=2),
        "while": lx.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, r.fold_in(s[1], s[0])), (0, k)),
        "until": lx.while_loop(lambda k: r.bits(k) > np.uint32(2**30), lambda k: r.split(k)[0], k),
        "for": lx.fori_loop(0, 3, lambda i, k: r.fold_in(k, i), k), "map": lx.map(r.bits, ks),
        "cond": draws(True, k), "switch": lx.switch(1, [lambda: k, lambda: ks[1]]),
        "mapped cond": lib.vmap(draws)(np.array([True, False, True]), ks),
        "mapped while": lib.vmap(lambda n, k: lx.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, r.split(s[1])[0]), (0, k)))(np.arange(3), ks),
        "mapped scan": lib.vmap(lambda k: lx.scan(lambda k, _: (r.split(k)[0], r.bits(k)), k, None, length=2))(ks),
        "remat": lib.checkpoint(lambda k: r.bits(k))(k), "jit": lib.jit(lambda k: {"k": r.split(k)})(k),
    }


@pytest.mark.parametrize("impl", one_in(2, ["threefry2x32", "rbg"]))
def test_control_flow(impl):
    def results(lib):
        k = lib.random.key(8, impl=impl)
        return lib.jit(lambda k, ks: _loops(lib, k, ks))(k, lib.random.split(k, 3))

    assert_same(results(xjax), results(jax))


def test_derivatives():
    """Keys have derivatives of dtype float0; a function of numbers and keys is differentiated in the numbers."""
    def loss(lib, key, x):
        def step(c, k):
            return c * lib.random.uniform(k) + x, None
        held = lib.lax.cond(x > 0, lambda k: lib.random.normal(k), lambda k: 0.0 * lib.random.normal(k), key)
        return lib.lax.scan(lib.checkpoint(step), x, lib.random.split(key, 3))[0] * held * x

    ours, theirs = (lib.jit(lib.grad(lambda x, lib=lib: loss(lib, lib.random.key(1), x)))(2.0) for lib in (xjax, jax))
    assert_same(ours, theirs)
    k = random.key(1)
    g = xjax.jit(xjax.grad(lambda k, x: loss(xjax, k, x), (0, 1), allow_int=True))(k, 2.0)
    assert g[0].dtype == xjax.float0 and g[0].shape == ()
    np.testing.assert_allclose(g[1], theirs, rtol=1e-6)
    y, dy = xjax.jvp(lambda k: (k, random.normal(k)), (k,), (np.zeros((), xjax.float0),))
    assert bool(y[0] == k) and dy[0].dtype == xjax.float0 and float(dy[1]) == 0
    assert xjax.vjp(lambda k, x: x * random.normal(k), k, 2.0)[1](1.0)[0].dtype == xjax.float0
    hessians = [lib.jit(lib.jacfwd(lib.grad(lambda x, lib=lib: loss(lib, lib.random.key(1), x))))(2.0)
                for lib in (xjax, jax)]
    np.testing.assert_allclose(*hessians, rtol=1e-5)


def test_devices():
    """Keys over several devices: pmap, shardings, moves, and jit of sharded keys."""
    ks = random.split(random.key(2), 2)
    out = xjax.pmap(lambda k: (random.split(k, 3), random.bits(k)))(ks)
    assert_same(out, xjax.vmap(lambda k: (random.split(k, 3), random.bits(k)))(ks))
    mesh = xjax.make_mesh((2,), ("x",))
    cut = xjax.device_put(ks, xjax.NamedSharding(mesh, xjax.P("x")))
    assert [s.data.shape for s in cut.addressable_shards] == [(1,), (1,)]
    done = xjax.jit(lambda ks: xjax.vmap(lambda k: random.fold_in(k, 1))(ks))(cut)
    assert_same([cut, done, cut[::-1]], [ks, xjax.vmap(lambda k: random.fold_in(k, 1))(ks), ks[::-1]])
    assert random.key_data(cut).sharding.shard_shape((2, 2)) == (1, 2)
    assert_same(random.wrap_key_data(random.key_data(cut)), ks)
    elsewhere = xjax.device_put(ks, xjax.devices()[1])
    assert elsewhere.devices() == {xjax.devices()[1]} and random.split(elsewhere[0]).devices() == elsewhere.devices()
    assert_same(xjax.device_put(elsewhere, xjax.devices()[0]), ks)


# -- the type -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("impl", IMPLS)
def test_type(impl):
    ours, theirs = random.key(1, impl=impl), jax.random.key(1, impl=impl)
    assert repr(ours) == repr(theirs) == str(ours) and repr(ours.aval) == repr(theirs.aval)
    assert repr(random.split(ours, (2, 1))) == repr(jax.random.split(theirs, (2, 1)))
    for name in ("name", "itemsize"):
        assert getattr(ours.dtype, name) == getattr(theirs.dtype, name)
    assert (ours.nbytes, ours.size, ours.shape, ours.ndim) == (theirs.nbytes, theirs.size, theirs.shape, theirs.ndim)
    assert ours.dtype is random.key_dtype(impl) and random.key_impl(ours) == jax.random.key_impl(theirs) == impl
    for scalar in ("prng_key", "extended"):
        assert jnp.issubdtype(ours.dtype, getattr(xjax.dtypes, scalar))
    assert not jnp.issubdtype(ours.dtype, np.integer) and not jnp.issubdtype(np.uint32, xjax.dtypes.prng_key)
    assert repr(xjax.ShapeDtypeStruct((2,), ours.dtype)) == repr(jax.ShapeDtypeStruct((2,), theirs.dtype))
    assert repr(xjax.eval_shape(random.split, ours)) == repr(jax.eval_shape(jax.random.split, theirs))
    assert jnp.result_type(ours) is jnp.result_type(ours, ours) is ours.dtype
    assert_same([random.key(0, impl=ours.dtype)], [jax.random.key(0, impl=theirs.dtype)])


def test_programs_are_those_of_jax():
    def programs(lib):
        r, trace = lib.random, lib.make_jaxpr
        return [str(program) for program in (
            trace(lambda w: r.key_data(lib.lax.rev(r.wrap_key_data(w), (0,))))(np.zeros((3, 2), np.uint32)),
            trace(lambda k: r.bits(r.fold_in(k, np.uint32(7)), (2,)))(r.key(0)),
            trace(lambda k: r.split(k, (2, 3)))(r.key(0)))]

    assert programs(xjax) == programs(jax)


def test_keys_live_on():
    """Pickled, copied, in trees, through the host."""
    ks = random.split(random.key(4, impl="rbg"), 2)
    for made in (pickle.loads(pickle.dumps(ks)), copy.deepcopy(ks), ks.copy(), xjax.device_get({"a": ks})["a"]):
        assert bool((made == ks).all()) and made.dtype is ks.dtype
    state = {"key": random.key(0), "step": jnp.zeros(3)}
    out = xjax.jit(lambda s: {**s, "key": random.split(s["key"])[0]}, donate_argnums=0)(state)
    assert bool(out["key"] == random.split(random.key(0))[0])


def test_bits_of_the_generators_of_xla():
    def results(lib):
        key = np.arange(4, dtype=np.uint32)
        algorithms = lib.lax.RandomAlgorithm
        out = [lib.lax.rng_bit_generator(key, (3, 2), dtype, algorithm)
               for dtype, algorithm in (("uint8", algorithms.RNG_DEFAULT), ("uint16", algorithms.RNG_PHILOX),
                                        ("uint32", algorithms.RNG_THREE_FRY), ("uint64", algorithms.RNG_DEFAULT))]
        many = lib.vmap(lambda k: lib.lax.rng_bit_generator(k, (2,)), 1)(np.arange(8, dtype=np.uint32).reshape(4, 2))
        return [*out, lib.lax.rng_bit_generator(np.arange(2, dtype=np.uint64), (3,)), many]

    with xjax.enable_x64(True), jax.enable_x64(True):
        ours, theirs = (lib.jit(lambda lib=lib: results(lib))() for lib in (xjax, jax))
    for x, y in zip(ours, theirs, strict=True):
        assert_same(tuple(x), tuple(y))
    low, high = np.float32(-2), np.float32(5)
    drawn = [np.asarray(xjax.jit(lambda a, b: lax.rng_uniform(a, b, (50,)))(low, high)) for _ in range(2)]
    assert all(((low <= x) & (x < high)).all() for x in drawn) and drawn[0].std() > 1


REFUSED = {
    "add": lambda lib, k: k + k, "negate": lambda lib, k: -k, "less": lambda lib, k: k < k,
    "times": lambda lib, k: k * 2, "sin": lambda lib, k: lib.numpy.sin(k), "sum": lambda lib, k: lib.numpy.sum(k[None]),
    "sort": lambda lib, k: lib.numpy.sort(k[None]), "numpy": lambda lib, k: np.asarray(k),
    "int": lambda lib, k: int(k), "bool": lambda lib, k: bool(k), "compare with a number": lambda lib, k: k == 0,
    "other keys": lambda lib, k: k == lib.random.key(0, impl="rbg"),
    "canonical": lambda lib, k: lib.dtypes.canonicalize_dtype(k.dtype), "at add": lambda lib, k: k[None].at[0].add(k),
    "grad": lambda lib, k: lib.grad(lib.random.normal)(k), "several": lambda lib, k: lib.random.normal(k[None]),
    "split several": lambda lib, k: lib.random.split(k[None]),
    "generator": lambda lib, k: lib.random.key(0, impl="rgb"),
    "words": lambda lib, k: lib.random.wrap_key_data(np.zeros(4, np.uint32)),
    "int words": lambda lib, k: lib.random.wrap_key_data(np.zeros(2, np.int32)),
    "wrapped": lambda lib, k: lib.random.wrap_key_data(k),
    "where": lambda lib, k: lib.numpy.where(True, k, lib.random.key(0, impl="rbg")),
    "hash": lambda lib, k: hash(k), "set number": lambda lib, k: k[None].at[0].set(1),
    "rng dtype": lambda lib, k: lib.lax.rng_bit_generator(np.zeros(4, np.uint32), (2,), "int8"),
    "rng_uniform rank": lambda lib, k: lib.lax.rng_uniform(np.zeros(2), np.zeros(2), (2,)),
}
WITHOUT_FIX = {"hash"}                      # Python's own


@pytest.mark.parametrize("name", REFUSED)
def test_errors_say_what_to_do(name):
    with pytest.raises((TypeError, ValueError)):
        REFUSED[name](jax, jax.random.key(0))
    assert_refused(lambda: REFUSED[name](xjax, random.key(0)), (TypeError, ValueError), [], fix=name not in WITHOUT_FIX)


def test_key_is_a_type_for_annotations():
    def draw(key: random.Key) -> xjax.Array:
        return random.normal(key)
    assert draw.__annotations__["key"] is random.Key and random.Key.__name__ == "Key"
    key = random.key(0)
    assert random.Key(key) is key
