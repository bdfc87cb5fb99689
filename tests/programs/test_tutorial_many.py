"""Programs after JAX's tutorials on vectorisation, random numbers and several devices; each runs in both libraries."""

import functools

import numpy as np

from tests.programs.tutorials import check, each

X = np.arange(5.0)
W = np.array([2.0, 3.0, 4.0])


def convolve(jax, x, w):
    return jax.numpy.stack([jax.numpy.dot(x[i - 1:i + 2], w) for i in range(1, len(x) - 1)])


def vectorised_convolution(jax):
    f = functools.partial(convolve, jax)
    xs, ws = np.stack([X, X ** 2]), np.stack([W, -W])
    both = jax.jit(jax.vmap(f))(xs, ws)
    columns = jax.vmap(f, in_axes=1, out_axes=1)(xs.T, ws.T)
    shared = jax.vmap(f, in_axes=(0, None))(xs, W)
    return both, columns, shared, jax.vmap(jax.vmap(f, (None, 0)), (0, None))(xs, ws)


def vmap_over_trees_and_keywords(jax):
    def f(params, x, *, scale):
        return {"y": params["w"] * x + params["b"], "n": scale * x}
    params = {"w": np.arange(3.0), "b": 1.0}
    return jax.vmap(lambda p, x: f(p, x, scale=2.0), in_axes=({"w": 0, "b": None}, None),
                    out_axes={"y": 0, "n": None})(params, 3.0)


def collectives_under_vmap(jax):
    lax = jax.lax
    def f(x):
        return (lax.psum(x, "i"), x / lax.pmean(x, "i"), lax.axis_index("i"), lax.pmax(x, "i"), lax.all_gather(x, "i"),
                lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]))
    return jax.vmap(f, axis_name="i")(np.array([1.0, 2.0, 4.0]))


def masks_in_place_of_shapes(jax):
    """Rows of different lengths, padded."""
    jnp = jax.numpy
    rows, lengths = np.array([[1.0, 2, 9, 9], [3, 9, 9, 9], [1, 2, 3, 4]]), np.array([2, 1, 4])

    def mean(row, length):
        mask = jnp.arange(4) < length
        return jnp.where(mask, row, 0).sum() / length
    return jax.jit(jax.vmap(mean))(rows, lengths), jax.vmap(jax.grad(mean))(rows, lengths)


def keys_are_used_once(jax):
    random = jax.random

    @jax.jit
    def draw(key):
        key, sub = random.split(key)
        same = (random.normal(sub, (3,)) == random.normal(sub, (3,))).all()
        parts = random.split(key, 3)
        return key, sub, same, random.uniform(sub), parts, random.fold_in(key, 7), random.bits(sub, (2,))
    return draw(random.PRNGKey(42))


def draws_do_not_depend_on_the_order(jax):
    random = jax.random

    @jax.jit
    def draw(key):
        k1, k2 = random.split(key)
        in_one_call = random.normal(k1, (6,))
        one_by_one = jax.vmap(lambda k: random.normal(k, ()))(random.split(k1, 6))
        return in_one_call, one_by_one, random.permutation(k2, 8)
    return draw(random.PRNGKey(0))


def distributions_under_jit_and_grad(jax):
    random = jax.random

    @functools.partial(jax.jit, static_argnums=1)
    def sample(key, n):
        kn, kc, ke = random.split(key, 3)
        return (random.normal(kn, (n,)), random.categorical(kc, jax.numpy.log(np.array([0.2, 0.5, 0.3])), shape=(n,)),
                random.exponential(ke, (n,)))

    def spread(scale):
        return jax.numpy.mean((scale * random.normal(random.PRNGKey(1), (16,))) ** 2)
    return sample(random.PRNGKey(3), 5), jax.jit(jax.grad(spread))(1.5)


def dropout_with_a_key_for_each_step(jax):
    random = jax.random

    def step(x, key):
        keep = random.bernoulli(key, 0.5, x.shape)
        return jax.numpy.where(keep, x * 2, 0.0) + 1, keep.sum()
    return jax.jit(lambda x: jax.lax.scan(step, x, random.split(random.PRNGKey(5), 4)))(np.arange(4.0))


def monte_carlo(jax):
    @jax.jit
    def area(key):
        points = jax.random.uniform(key, (200, 2), minval=-1.0)
        return 4 * ((points ** 2).sum(axis=1) < 1).mean()
    return jax.vmap(area)(jax.random.split(jax.random.PRNGKey(9), 3))


def pmap_is_vmap_over_devices(jax):
    f = functools.partial(convolve, jax)
    xs = np.stack([X + i for i in range(4)])
    return jax.pmap(f, in_axes=(0, None))(xs, W), jax.vmap(f, (0, None))(xs, W)


def normalised_over_devices(jax):
    @functools.partial(jax.pmap, axis_name="p")
    def f(x):
        return x / jax.lax.psum(x.sum(), "p"), jax.lax.axis_index("p"), jax.lax.pmax(x.max(), axis_name="p")
    return f(np.arange(8.0).reshape(4, 2))


def data_parallel_training(jax):
    jnp, n = jax.numpy, 4
    rng = np.random.default_rng(3)
    xs, noise = rng.normal(size=(n, 8)), rng.normal(size=(n, 8)) * 0.1
    ys = xs * 3 - 1 + noise

    def loss(params, x, y):
        return jnp.mean((params["w"] * x + params["b"] - y) ** 2)

    @functools.partial(jax.pmap, axis_name="devices")
    def update(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        grads = jax.lax.pmean(grads, axis_name="devices")
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), jax.lax.pmean(value, "devices")
    params = jax.tree.map(lambda p: np.stack([p] * n), {"w": 0.0, "b": 0.0})
    for _ in range(5):
        params, losses = update(params, xs, ys)
    return params, losses


def halves_talk_to_their_neighbours(jax):
    """A cellular rule on a ring that is sharded over devices: each sends its edge to the next."""
    n = 4

    @functools.partial(jax.pmap, axis_name="ring")
    def step(cells):
        left = jax.lax.ppermute(cells[-1:], "ring", [(i, (i + 1) % n) for i in range(n)])
        right = jax.lax.ppermute(cells[:1], "ring", [((i + 1) % n, i) for i in range(n)])
        wide = jax.numpy.concatenate([left, cells, right])
        return (wide[:-2] + wide[2:]) % 2
    cells = np.zeros((n, 3), int)
    cells[1, 1] = 1
    for _ in range(3):
        cells = step(cells)
    return cells


@each(vectorised_convolution, vmap_over_trees_and_keywords, collectives_under_vmap, masks_in_place_of_shapes,
      keys_are_used_once, draws_do_not_depend_on_the_order, distributions_under_jit_and_grad,
      dropout_with_a_key_for_each_step, monte_carlo, pmap_is_vmap_over_devices, normalised_over_devices,
      data_parallel_training, halves_talk_to_their_neighbours)
def test_program(program):
    check(program)
