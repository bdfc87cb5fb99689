"""The same source gives the same program: a table of functions traced by xjax and by JAX, compared as text."""

import numpy as np
import pytest

import xjax
import xjax.numpy
from tests.oracle import current, only, real_jax

jax = real_jax()
from tests.core.test_printing_as_jax import Rebuild  # noqa: E402  (needs jax)

X = np.linspace(0.1, 0.9, 3, dtype=np.float32)
M = np.arange(6, dtype=np.float32).reshape(2, 3)
INTS = np.arange(3, dtype=np.int32)


def scaled(lib, np_):
    @lib.custom_jvp
    def f(x):
        return np_.sin(x)
    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * 3))
    return f


def clipped(lib, np_):
    @lib.custom_vjp
    def f(x):
        return np_.sin(x)
    f.defvjp(lambda x: (f(x), x), lambda residual, ct: (residual * ct,))
    return f


# name -> (function of (library, its numpy) giving the traced function, its arguments)
PROGRAMS = current({
    "scalar product": (lambda j, n: lambda x: x * 2, X),
    "weak scalars": (lambda j, n: lambda x: x * 2.0 + 1, 1.0),
    "arithmetic": (lambda j, n: lambda x, y: (x + y) * (x - y) / y, X, X),
    "negation and absolute value": (lambda j, n: lambda x: abs(-x), X),
    "integers": (lambda j, n: lambda x: x * 3 + x, INTS),
    "mixed dtypes": (lambda j, n: lambda x, i: x + i, X, INTS),
    "powers": (lambda j, n: lambda x: x ** 2 + x ** 3 + x ** 0.5, X),
    "comparison": (lambda j, n: lambda x, y: (x < y) & (x == y), X, X),
    "transcendental": (lambda j, n: lambda x: n.exp(n.sin(x)) + n.log(n.cos(x)) + n.tanh(x), X),
    "sqrt": (lambda j, n: lambda x: n.sqrt(x), X),
    "extremes": (lambda j, n: lambda x: n.minimum(x, 1) + n.maximum(x, 0.5), X),
    "broadcast of ranks": (lambda j, n: lambda x, m: x + m, X, M),
    "broadcast of an axis": (lambda j, n: lambda x, m: x[:, None] + m, X[:2], M),
    "scalar operand": (lambda j, n: lambda x, s: x * s, X, np.float32(2)),
    "sum": (lambda j, n: lambda x: n.sum(x), M),
    "sum with axis": (lambda j, n: lambda x: n.exp(x).sum(axis=1, keepdims=True), M),
    "mean": (lambda j, n: lambda x: n.mean(x, axis=0), M),
    "max": (lambda j, n: lambda x: n.max(x), X),
    "argmax": (lambda j, n: lambda x: n.argmax(x), X),
    "matmul": (lambda j, n: lambda x: n.matmul(x, x.T), M),
    "vector product": (lambda j, n: lambda x: x @ x, X),
    "reshape and transpose": (lambda j, n: lambda x: x.reshape(3, 2).T, M),
    "broadcast_to": (lambda j, n: lambda x: n.broadcast_to(x, (2, 3)), X),
    "concatenate": (lambda j, n: lambda x: n.concatenate([x, x]), X),
    "stack": (lambda j, n: lambda x: n.stack([x, x]), X),
    "astype": (lambda j, n: lambda x: x.astype(int), X),
    "arange": (lambda j, n: lambda x: x + n.arange(3), X),
    "zeros": (lambda j, n: lambda x: n.zeros(3) + x, X),
    "eye": (lambda j, n: lambda x: n.eye(3) @ x, X),
    "index": (lambda j, n: lambda x: x[0], X),
    "slice": (lambda j, n: lambda x: x[1:], X),
    "last": (lambda j, n: lambda x: x[-1], X),
    "block": (lambda j, n: lambda x: x[1:3, 0], M.T),
    "every second": (lambda j, n: lambda x: x[::2], X),
    "reversed": (lambda j, n: lambda x: x[::-1, 1:], M),
    "traced position": (lambda j, n: lambda x, i: x[i], X, np.int32(1)),
    "traced positions": (lambda j, n: lambda x, i: x[i], X, INTS),
    "traced positions, whole axis": (lambda j, n: lambda x, i: x[i, :], M, INTS[:2]),
    "positions and new axis": (lambda j, n: lambda x, i: x[:, None, i], M, INTS),
    "positions of uint8": (lambda j, n: lambda x, i: x[i], X, INTS.astype(np.uint8)),
    "set": (lambda j, n: lambda x: x.at[0].set(1.), X),
    "set a span": (lambda j, n: lambda x: x.at[1:3].set(2), X),
    "set every second": (lambda j, n: lambda x: x.at[::2].set(2.), X),
    "add at positions": (lambda j, n: lambda x, i, y: x.at[i].add(y), X, INTS, X),
    "get with a fill value": (lambda j, n: lambda x, i: x.at[i].get(mode="fill", fill_value=0.), X, INTS),
    "captured array": (lambda j, n: lambda x: x + X, X),
    "tree result": (lambda j, n: lambda x: {"a": x, "b": [x + 1]}, 1.0),
    "jit": (lambda j, n: lambda x: j.jit(lambda y: y * 2)(x) + 1, X),
    "jit with a name": (lambda j, n: lambda x: j.jit(n.tanh)(x), X),
    "nested jit": (lambda j, n: j.jit(lambda x: j.jit(lambda y: n.sin(y) * y)(x)), X),
    "grad": (lambda j, n: j.grad(lambda x: n.sum(n.sin(x) * x)), X),
    "grad of grad": (lambda j, n: j.grad(j.grad(n.sin)), 1.0),
    "grad of jit": (lambda j, n: j.grad(j.jit(lambda x: n.sin(x) * x)), 1.0),
    "jit of grad of jit": (lambda j, n: j.jit(j.grad(j.jit(lambda x: n.sin(x) * x))), 1.0),
    # A division by x is left out: its slope has another formula, see tests/accuracy.
    "grad of arithmetic": (lambda j, n: j.grad(lambda x: x / 2 + 2 * x + x ** 3 + n.sqrt(x) + n.exp(x) + n.log(x)),
                           1.0),
    "grad of tanh": only((lambda j, n: j.grad(n.tanh), 1.0), since="0.12"),     # it uses one_minus_square
    "grad of matmul": (lambda j, n: j.grad(lambda w: n.sum(M @ w)), np.ones((3, 4), np.float32)),
    "grad of a broadcast": (lambda j, n: j.grad(lambda x: n.sum(x + M)), X),
    "value_and_grad": (lambda j, n: j.value_and_grad(lambda x: n.sum(x ** 2)), X),
    "jvp": (lambda j, n: lambda x, t: j.jvp(n.sin, (x,), (t,)), 1.0, 1.0),
    "vmap": (lambda j, n: j.vmap(lambda x: x * 2), X),
    "vmap of dot": (lambda j, n: j.vmap(lambda x, y: x @ y), M, M),
    "vmap of a scalar": (lambda j, n: j.vmap(lambda x, s: x * s), M, X[:2]),
    "vmap of grad": (lambda j, n: j.vmap(j.grad(n.sin)), X),
    "cond": (lambda j, n: lambda x: j.lax.cond(x > 0, lambda x: x * 2, lambda x: -x, x), 1.0),
    "scan": (lambda j, n: lambda x: j.lax.scan(lambda c, x: (c * x, c + x), np.float32(1), x), X),
    "while": (lambda j, n: lambda x: j.lax.while_loop(lambda x: x < 10, lambda x: x * 2, x), 1.0),
    "fori_loop": (lambda j, n: lambda x: j.lax.fori_loop(0, 10, lambda i, x: x * 2, x), 1.0),
    "custom_jvp": (lambda j, n: scaled(j, n), 1.0),
    "custom_vjp": (lambda j, n: clipped(j, n), 1.0),
})


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_program(name):
    make, *args = PROGRAMS[name]
    ours = str(xjax.make_jaxpr(make(xjax, xjax.numpy))(*args))
    rebuilt = Rebuild().bare(jax.make_jaxpr(make(jax, jax.numpy))(*args).jaxpr)
    assert ours == str(rebuilt)


def test_table_is_long_enough():
    assert len(PROGRAMS) >= 40
