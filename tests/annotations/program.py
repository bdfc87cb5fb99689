"""A user's program, as type checkers read it: `test_program.py` checks it with pyright and mypy, and runs it.

`assert_type` states the inferred type. Each line that ends with ``# mistake`` must be an error to both checkers, and no
other line may be one. No function with mistakes is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_type

import xjax
import xjax.numpy as jnp
import xnn
from xjax import lax, random
from xjax.typing import Array, ArrayLike, DTypeLike, Params, PRNGKey


def standardize(x: ArrayLike, axis: int = -1, epsilon: float = 1e-6) -> Array:
    """Rows of mean 0 and variance 1."""
    x = jnp.asarray(x)
    centered = x - x.mean(axis, keepdims=True)
    return centered / jnp.sqrt(centered.var(axis, keepdims=True) + epsilon)


def arrays() -> Array:
    """Arithmetic, methods and indexing of arrays give arrays."""
    x = jnp.ones(3)
    assert_type(x, Array)
    assert_type(x.sum(), Array)
    assert_type(x + 1, Array)
    assert_type(2.0 * x, Array)
    assert_type(-x[1:], Array)
    assert_type(x.at[0].set(5.0), Array)
    assert_type(x > 0, Array)
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.ndim, int)
    assert_type(float(x[0]), float)
    assert_type(jnp.where(x > 0, x, 0), Array)
    assert_type(jnp.concatenate([x, x]).reshape(2, 3).T, Array)
    assert_type(jnp.linalg.norm(x), Array)
    assert_type(lax.cumsum(x), Array)
    return standardize(x)


def draws(key: PRNGKey, dtype: DTypeLike = jnp.float32) -> tuple[Array, Array]:
    """Random numbers of two shapes."""
    keys = random.split(key, 2)
    assert_type(random.normal(keys[0], (2, 3)), Array)
    return random.normal(keys[0], (2, 3), dtype), random.uniform(keys[1], (4,), dtype=dtype)


def network() -> tuple[xnn.Layer, Params]:
    """A layer of layers, and its parameters."""
    layer = xnn.serial(xnn.Dense(16), xnn.Relu, xnn.Dense(2))
    assert_type(layer, xnn.Layer)
    assert_type(xnn.GCN(16, 7), xnn.Layer)
    init, apply = layer
    shape, params = init(random.key(0), (-1, 3))
    assert len(shape) == 2
    apply(params, jnp.ones((5, 3)))
    return layer, params


@xjax.jit
def squares(x: Array, scale: float = 1.0) -> Array:
    """Decorated by name."""
    return scale * (x**2).sum()


def train(layer: xnn.Layer, params: Params, steps: int = 3, rate: float = 0.1) -> float:
    """Gradient descent with a compiled step."""
    x, y = jnp.ones((5, 3)), jnp.zeros((5, 2))

    def loss(params: Params) -> Array:
        return ((layer.apply(params, x) - y)**2).mean()

    @xjax.jit
    def step(params: Params) -> tuple[Params, Array]:
        value, gradient = xjax.value_and_grad(loss)(params)
        return xjax.tree.map(lambda p, g: p - rate * g, params, gradient), value

    value = jnp.zeros(())
    for _ in range(steps):
        params, value = step(params)
    return float(value)


def transformed() -> tuple[Array, Array]:
    """Functions of functions."""
    slope: Callable[[Array], Array] = xjax.grad(squares)
    return slope(jnp.ones(3)), xjax.vmap(jnp.sin)(jnp.arange(3.0))


def mistakes() -> None:
    """Faults that a checker must report."""
    x = jnp.ones(3)
    xnn.Dense("16")  # mistake
    xnn.Dense(16, bais=False)  # mistake
    xnn.Dropout("half")  # mistake
    x.summ()  # mistake
    x.sum(axis="rows")  # mistake
    x.sum(axes=0)  # mistake
    jnp.concatenate(axis=0)  # mistake
    jnp.zeros("3")  # mistake
    jnp.linspace(0, 1, num="10")  # mistake
    random.normal(0, "3")  # mistake
    name: str = x.mean()  # mistake
    lax.cumsum(x, reverse=True).size()  # mistake
    print(name)


def main() -> None:
    arrays()
    draws(random.key(0))
    layer, params = network()
    print(train(layer, params), transformed())


if __name__ == "__main__":
    main()
