"""Random numbers of every kind: keys, streams, distributions."""

from functools import partial


def splitting_and_folding(jax):
    random = jax.random
    key = random.PRNGKey(42)
    a, b = random.split(key)
    return (key, a, b, random.split(key, 3), random.split(key, (2, 2)).shape, random.fold_in(key, 7),
            random.fold_in(a, jax.numpy.uint32(3)), random.split(key, num=1))


def typed_keys(jax):
    random = jax.random
    key = random.key(0)
    keys = random.split(key, 4)
    return (str(key.dtype), key.shape, keys.shape, keys[1], random.key_data(keys),
            random.wrap_key_data(random.key_data(key)), str(random.key_impl(key)),
            jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key), keys.reshape(2, 2).T[0], random.clone(key),
            key == keys[0], keys.at[0].set(key)[0])


def keys_under_vmap_scan_and_jit(jax):
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    keys = random.split(random.key(1), 3)
    walk = lambda k: lax.scan(lambda c, k: (c + random.normal(k), c), 0., random.split(k, 4))
    carried = lax.fori_loop(0, 2, lambda i, k: random.fold_in(k, i), random.key(5))
    return (jax.vmap(walk)(keys), carried, jax.jit(random.split)(keys[0]),
            jax.vmap(random.fold_in, (None, 0))(keys[0], jnp.arange(2)),
            lax.cond(True, lambda: keys[0], lambda: keys[1]))


def stream_class(jax):
    class Stream:
        def __init__(self, seed):
            self.key, self.count = jax.random.PRNGKey(seed), 0

        def __next__(self):
            self.count += 1
            return jax.random.fold_in(self.key, self.count)
    rng = Stream(7)
    return [jax.random.normal(next(rng), (2,)) for _ in range(2)], rng.count


def key_per_name_in_a_tree(jax):
    random, tree = jax.random, jax.tree
    shapes = {"dense": {"w": (2, 3), "b": (3,)}, "head": (3,)}
    leaves, structure = tree.flatten(shapes, is_leaf=lambda x: isinstance(x, tuple))
    keys = tree.unflatten(structure, list(random.split(random.key(0), len(leaves))))
    return tree.map(lambda k, s: random.truncated_normal(k, -2., 2., s) * .1, keys, tree.unflatten(structure, leaves),
                    is_leaf=lambda x: False)


def continuous_distributions(jax):
    random, key = jax.random, jax.random.PRNGKey(3)
    return (random.uniform(key, (2,), minval=-1., maxval=1.), random.normal(key, (2,), dtype="bfloat16"),
            random.exponential(key, (2,)), random.laplace(key, (2,)), random.logistic(key), random.cauchy(key, (2,)),
            random.gumbel(key, (2,), mode="low"), random.pareto(key, 3., (2,)), random.weibull_min(key, 2., 1.5, (2,)),
            random.rayleigh(key, 1., (2,)), random.lognormal(key, .5, (2,)), random.triangular(key, 0., .5, 1., (2,)),
            random.maxwell(key, (2,)),
            random.double_sided_maxwell(key, 0., 1., (2,)), random.loggamma(key, 2., (2,)),
            random.chisquare(key, 3., (2,)), random.f(key, 3., 4., (2,)), random.wald(key, 1., (2,)),
            random.generalized_normal(key, 2., (2,)))


def discrete_distributions(jax):
    jnp, random, key = jax.numpy, jax.random, jax.random.key(4)
    return (random.randint(key, (5,), -3, 10), random.randint(key, (3,), 0, jnp.array([1, 5, 100])),
            random.bernoulli(key, jnp.array([.1, .9])), random.poisson(key, 4., (4,)), random.geometric(key, .3, (3,)),
            random.binomial(key, 10, .3, (3,)),
            random.rademacher(key, (4,)), random.categorical(key, jnp.zeros((2, 3))), random.bits(key, (3,)),
            random.bits(key, (2,), "uint8"), random.randint(key, (2,), 0, 255, dtype=jnp.uint8),
            random.categorical(key, jnp.zeros(3), shape=(2,), replace=False))


def geometric_distributions(jax):
    jnp, random, key = jax.numpy, jax.random, jax.random.key(6)
    ball = random.ball(key, 3, shape=(2,))
    q = random.orthogonal(key, 3)
    return (ball, jnp.linalg.norm(ball, axis=1) <= 1, jnp.abs(q @ q.T - jnp.eye(3)).max() < 1e-5,
            random.multivariate_normal(key, jnp.zeros(2), jnp.eye(2), method="svd").shape)


def implementations(jax):
    random = jax.random
    rbg = random.key(1, impl="rbg")
    threefry = random.PRNGKey(1, impl="threefry2x32")
    return (threefry, str(random.key_impl(rbg)), random.key_data(rbg), random.uniform(threefry, (2,)),
            random.key_data(random.split(rbg)).shape)


def reparameterised_gradients(jax):
    jnp, random = jax.numpy, jax.random
    key = random.PRNGKey(0)
    gamma = lambda a: random.gamma(key, a, (3,)).mean()
    location = lambda mu, s: (mu + s * random.normal(key, (4,))).var()
    relaxed = lambda logits: jax.nn.softmax((logits + random.gumbel(key, (3,))) / 0.5)[0]
    return (jax.grad(gamma)(2.), jax.grad(location, (0, 1))(1., 2.), jax.grad(relaxed)(jnp.zeros(3)),
            jax.grad(lambda a: random.dirichlet(key, a)[0])(jnp.ones(3)))


def shuffled_batches(jax):
    jnp, random = jax.numpy, jax.random
    x = jnp.arange(10)
    batches = []
    for epoch in range(2):
        order = random.permutation(random.fold_in(random.key(0), epoch), len(x))
        batches += [x[order[i:i + 4]] for i in range(0, len(x), 4)]
    return batches, random.permutation(random.key(1), jnp.eye(3), axis=0, independent=False)


def random_augmentation(jax):
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    images = jnp.arange(2 * 5 * 5.).reshape(2, 5, 5, 1)

    @jax.vmap
    def augment(key, image):
        k1, k2, k3 = random.split(key, 3)
        image = lax.cond(random.bernoulli(k1), lambda x: x[:, ::-1], lambda x: x, image)
        corner = random.randint(k2, (2,), 0, 3)
        crop = lax.dynamic_slice(image, (corner[0], corner[1], 0), (3, 3, 1))
        return jnp.rot90(crop, k=1) + random.uniform(k3)
    return augment(random.split(random.key(2), 2), images)


def masked_language_corruption(jax):
    jnp, random = jax.numpy, jax.random
    tokens = jnp.arange(5, 17)
    k1, k2, k3 = random.split(random.PRNGKey(11), 3)
    chosen = random.bernoulli(k1, 0.5, tokens.shape)
    action = random.choice(k2, 3, tokens.shape, p=jnp.array([.8, .1, .1]))
    replaced = jnp.select([action == 0, action == 1], [jnp.full_like(tokens, 103),
                                                       random.randint(k3, tokens.shape, 0, 30)], tokens)
    return jnp.where(chosen, replaced, tokens), jnp.where(chosen, tokens, -100), action


def sampling_with_temperature_top_k_and_top_p(jax):
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    logits = jnp.array([[3., 1., 2., 0., -1.], [0., 0., 5., 1., 1.]])

    def top_p(logits, p=0.9):
        order = jnp.argsort(-logits, axis=-1)
        sorted_probs = jnp.take_along_axis(jax.nn.softmax(logits), order, -1)
        keep = jnp.cumsum(sorted_probs, -1) - sorted_probs < p
        ranks = jnp.argsort(order, axis=-1)
        return jnp.where(jnp.take_along_axis(keep, ranks, axis=-1), logits, -jnp.inf)
    kth = lax.top_k(logits, 2)[0][..., -1:]
    return (random.categorical(random.key(0), top_p(logits / .7), axis=-1), jnp.where(logits < kth, -jnp.inf, logits),
            random.categorical(random.key(1), logits.T, axis=0))


def default_dtype_of_random_under_x64(jax):
    with jax.enable_x64(True):
        key = jax.random.PRNGKey(0)
        return (jax.random.normal(key, (2,)), jax.random.randint(key, (2,), 0, 5),
                jax.random.uniform(key, dtype=jax.numpy.float32), jax.random.bits(key, (1,), "uint64"),
                jax.random.permutation(key, 3))


def large_seeds(jax):
    jnp, random = jax.numpy, jax.random
    return (random.PRNGKey(2**31 - 1), random.PRNGKey(-1), random.key_data(random.key(jnp.uint32(5))),
            jax.jit(random.PRNGKey)(3), jax.vmap(random.PRNGKey)(jnp.arange(2)))


def thompson_sampling(jax):
    jnp, random = jax.numpy, jax.random
    true = jnp.array([.2, .8])

    def play(counts, key):
        k1, k2 = random.split(key)
        arm = jnp.argmax(random.normal(k1, (2,)) / jnp.sqrt(counts.sum(1)) + counts[:, 0] / counts.sum(1))
        reward = random.bernoulli(k2, true[arm]).astype(jnp.int32)
        return counts.at[arm, 1 - reward].add(1), (arm, reward)
    return jax.lax.scan(play, jnp.ones((2, 2)), random.split(random.key(8), 12))


def monte_carlo_pi_in_batches(jax):
    jnp, random = jax.numpy, jax.random

    @partial(jax.jit, static_argnums=(1,), donate_argnums=())
    def inside(key, n):
        xy = random.uniform(key, (n, 2))
        return jnp.sum(jnp.hypot(*xy.T) < 1)
    counts = jax.lax.map(lambda k: inside(k, 100), random.split(random.PRNGKey(5), 4), batch_size=2)
    return counts, 4 * counts.sum() / 400, counts.dtype
