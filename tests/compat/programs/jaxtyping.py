"""jaxtyping: annotated shapes are checked at calls, eagerly and while functions are traced."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree, jaxtyped

# A checker of annotations that needs no other library.


def checked(f):
    import inspect

    def call(*args):
        for value, annotation in zip(args, inspect.get_annotations(f).values(), strict=False):
            if not isinstance(value, annotation):
                raise TypeError(f"{value} is no {annotation}")
        return f(*args)

    return call


@jaxtyped(typechecker=checked)
def product(x: Float[Array, "a b"], y: Float[Array, "b"]):  # noqa: F722, F821 - jaxtyping reads them
    return x @ y


def matching():
    yield from product(jnp.ones((2, 3)), jnp.arange(3.0))
    yield from jax.jit(product)(jnp.ones((2, 3)), jnp.arange(3.0))
    yield from jax.grad(lambda y: jax.jit(product)(jnp.ones((2, 3)), y).sum())(jnp.arange(3.0))


def failing():
    for args in ((jnp.ones((2, 3)), jnp.ones(2)), (jnp.ones((2, 3)), jnp.arange(3))):
        try:
            product(*args)
        except TypeError:
            yield 1


def instances():
    x = jnp.ones((2, 3))
    yield isinstance(x, Float[Array, "2 3"])
    yield isinstance(x, Int[Array, "..."])
    yield isinstance({"a": x}, PyTree[Float[Array, "a b"]])
    yield from jax.vmap(lambda row: jnp.asarray(isinstance(row, Float[Array, "3"]), float))(x)


PROGRAMS = [matching, failing, instances]
