"""Arrays made from equal numbers are different arrays: deleting or donating one leaves the others as they are."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import lax

SQUARED = xjax.jit(lambda tree: xjax.tree.map(lambda x: x * x, tree), donate_argnums=0)
BOTH = xjax.jit(lambda x, y: (x + 1, y + 2), donate_argnums=(0, 1))
# Each makes an array from numbers alone, whose value is the last entry.
MADE = {
    "array": (lambda: jnp.array(2.0), 2), "asarray": (lambda: jnp.asarray(2.0), 2), "int": (lambda: jnp.asarray(2), 2),
    "bool": (lambda: jnp.asarray(True), 1), "complex": (lambda: jnp.asarray(2j), 2j),
    "dtype": (lambda: jnp.asarray(2.0, jnp.float32), 2), "float32": (lambda: jnp.float32(2.0), 2),
    "NumPy scalar": (lambda: jnp.asarray(np.float32(2)), 2), "64 bits": (lambda: jnp.asarray(np.int64(2)), 2),
    "device_put": (lambda: xjax.device_put(2.0), 2), "in a tree": (lambda: xjax.device_put({"a": np.int32(2)})["a"], 2),
    "zeros": (lambda: jnp.zeros(()), 0), "full": (lambda: jnp.full((), 2.0), 2),
    "zeros_like": (lambda: jnp.zeros_like(2.0), 0), "copy": (lambda: jnp.copy(2.0), 2),
    "squeeze": (lambda: jnp.squeeze(2.0), 2), "clip": (lambda: jnp.clip(2.0), 2), "real": (lambda: jnp.real(2.0), 2),
    "floor": (lambda: jnp.floor(2), 2), "positive": (lambda: jnp.positive(2.0), 2), "sum": (lambda: jnp.sum(2.0), 2),
    "grad": (lambda: xjax.grad(lambda x: x)(2.0), 1), "vjp": (lambda: xjax.vjp(lambda x: x, 2.0)[0], 2),
    "jvp": (lambda: xjax.jvp(lambda x: x, (2.0,), (1.0,))[1], 1), "jit": (lambda: xjax.jit(lambda x: x)(2.0), 2),
    "linearize": (lambda: xjax.linearize(lambda x: x, 2.0)[0], 2), "constant": (lambda: xjax.jit(lambda: 2.0)(), 2),
    "cond": (lambda: lax.cond(True, lambda x: x, lambda x: -x, 2.0), 2),
    "while_loop": (lambda: lax.while_loop(lambda x: x < 0, lambda x: x, 2.0), 2),
    "scan": (lambda: lax.scan(lambda c, x: (c, x), 2.0, jnp.ones(0))[0], 2),
    "stop_gradient": (lambda: lax.stop_gradient(jnp.asarray(2.0)), 2),
    "new_ref": (lambda: xjax.freeze(xjax.new_ref(2.0)), 2),
}


@pytest.mark.parametrize("how", MADE)
def test_deleting_or_donating_one_array_leaves_the_next(how):
    make, value = MADE[how]
    make(), make()                          # a number that occurs again may be cached
    one, other = make(), make()
    one.delete()
    np.testing.assert_array_equal(other, value)
    one = make()
    SQUARED(one)
    assert one.is_deleted()
    np.testing.assert_array_equal(other, value)
    np.testing.assert_array_equal(make(), value)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("number", [2.0, 2, True, 2 + 1j, 1 << 20])
def test_numbers_are_donated(number, x64):
    """A number is not an array: nothing is deleted, and one number may be donated for two arguments."""
    with xjax.enable_x64(x64):
        kept = jnp.asarray(number)
        for _ in range(4):
            assert BOTH(number, number) == (number + 1, number + 2)
            assert BOTH(number, y=number) == (number + 1, number + 2)
            assert kept * 1 == number


def test_a_tree_of_equal_numbers_is_donated():
    params = {"scale": jnp.asarray(3.0), "shift": jnp.asarray(3.0)}
    assert xjax.tree.map(float, SQUARED(params)) == {"scale": 9.0, "shift": 9.0}
