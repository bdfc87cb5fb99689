"""e3nn-jax: irreducible representations, tensor products and spherical harmonics."""

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp

KEY = jax.random.key(0)


def harmonics():
    x = jax.random.normal(KEY, (4, 3))
    yield from e3nn.spherical_harmonics("0e + 1o + 2e", x, True).array.sum(0)
    yield from jax.grad(lambda x: e3nn.spherical_harmonics("2e", x, True).array.sum())(x).ravel()


def products():
    a, b = e3nn.normal("2x0e + 1o", KEY, (3,)), e3nn.normal("1o + 2e", KEY, (3,))
    yield from e3nn.tensor_product(a, b).array.sum(0)
    yield from e3nn.norm(a).array.sum(0)


def trained():
    layer = e3nn.FunctionalLinear(e3nn.Irreps("2x0e + 1o"), e3nn.Irreps("0e + 1o"))
    w = [jax.random.normal(KEY, i.path_shape) for i in layer.instructions]
    x = e3nn.normal("2x0e + 1o", KEY, (5,))

    @jax.jit
    def loss(w):
        return jnp.mean(e3nn.gate(jax.vmap(lambda x: layer(w, x))(x)).array ** 2)

    for _ in range(20):
        value, g = jax.value_and_grad(loss)(w)
        w = [w - 0.1 * g for w, g in zip(w, g, strict=True)]
        yield value


PROGRAMS = [harmonics, products, trained]
