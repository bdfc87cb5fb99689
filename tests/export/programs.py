"""Programs that are exported by one library and run by another: each works with real JAX and with xjax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Program(NamedTuple):
    """A function of arrays; its arguments as shapes with a dtype: ``"b,4 f4"``; whether gradients are compared."""

    function: Callable
    arguments: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    grad: bool = True


def programs(jax: Any) -> dict[str, Program]:
    """The table; `jax` is the module of the library."""
    np_, lax, nn, random = jax.numpy, jax.lax, jax.nn, jax.random
    w = np_.asarray(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
    kernel = np_.asarray(np.sin(np.arange(72, dtype=np.float32)).reshape(3, 3, 2, 4))

    def layer_norm(x):
        return (x - x.mean(-1, keepdims=True)) / np_.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def attention(q, k, v):
        scores = np_.einsum("bid,bjd->bij", q, k) / np.sqrt(q.shape[-1])
        mask = np_.tril(np_.ones(scores.shape[1:], bool))
        return nn.softmax(np_.where(mask, scores, -1e9)) @ v

    def image_network(x):
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = lax.reduce_window(nn.relu(x), -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(x.shape[0], -1).mean(0)

    def recurrent(x, h):
        def step(h, x):
            h = np_.tanh(h @ w[:, :4] + x)
            return h, h.sum(-1)
        return lax.scan(step, h, np_.moveaxis(x, 1, 0))

    def cross_entropy(x, label):
        return -np_.take_along_axis(nn.log_softmax(x @ w), label[:, None], 1).mean()

    @jax.custom_vjp
    def clipped(x):
        return x * 2

    clipped.defvjp(lambda x: (clipped(x), None), lambda _, ct: (np_.clip(ct, -1, 1),))

    return {
        # -- static shapes
        "dense": Program(lambda x: np_.tanh(x @ w + w[0]), ("3,4 f4",)),
        "tree": Program(lambda p, x: {"y": x @ p["w"] + p["b"][0], "n": None}, ("w: 4,3 f4; b: 3 f4", "2,4 f4")),
        "cholesky": Program(lambda x: np_.linalg.cholesky(x @ x.T + 3 * np_.eye(4)), ("4,4 f4",)),
        "eigh": Program(lambda x: np_.linalg.eigvalsh(x + x.T), ("4,4 f4",)),
        "sort": Program(lambda x: np_.sort(x) + np_.argsort(x), ("9 f4",)),
        "special": Program(lambda x: jax.scipy.special.erf(x) + jax.scipy.special.gammaln(x * x + 1), ("5 f4",)),
        "random": Program(lambda x: x + random.normal(random.key(0), x.shape), ("3,4 f4",)),
        "while": Program(lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.5), (0, x)),
                         ("3 f4",), grad=False),
        "cond": Program(lambda x: lax.cond(x.sum() > 0, np_.sin, np_.cos, x), ("3 f4",)),
        "custom rule": Program(clipped, ("3 f4",)),
        "half": Program(lambda x: (x.astype(np_.bfloat16) * 3).astype(np.float32), ("4 f4",)),
        "integers": Program(lambda i: (i * 3 // 2, i % 3, i << 1), ("6 i4",)),
        "complex": Program(lambda x: np_.abs(np_.fft.fft(x)), ("8 f4",)),
        "graph": Program(lambda x, i, j: jax.ops.segment_sum(x[i], j, 5), ("5,3 f4", "9 i4", "9 i4")),
        "scatter": Program(lambda x, i: np_.zeros(5).at[i].add(x), ("9 f4", "9 i4")),
        "keywords": Program(lambda x, *, y: x - y, ("3 f4", "y= 3 f4")),
        # -- symbolic shapes
        "batch": Program(lambda x: nn.relu(x @ w), ("b,4 f4",)),
        "softmax": Program(lambda x: nn.softmax(x) + nn.gelu(x), ("b,4 f4",)),
        "normalised": Program(layer_norm, ("b,4 f4",)),
        "statistics": Program(lambda x: (x - x.mean(0)) / np_.sqrt(x.var(0) + 1e-3), ("b,4 f4",)),
        "attention": Program(attention, ("b,t,4 f4", "b,t,4 f4", "b,t,4 f4")),
        "image network": Program(image_network, ("b,8,8,2 f4",)),
        "recurrent": Program(recurrent, ("b,5,4 f4", "b,4 f4")),
        "loss": Program(cross_entropy, ("b,4 f4", "b i4")),
        "embedding": Program(lambda e, i: e[i], ("7,3 f4", "b,t i4")),
        "halves": Program(lambda x: x.reshape(x.shape[0] // 2, 2, 4).sum(1), ("2*b,4 f4",)),
        "padded": Program(lambda x: np_.pad(x, ((0, x.shape[0]), (1, 1))).max(1), ("b,2 f4",), ("b <= 64",)),
        "slices": Program(lambda x: np_.concatenate([x[1:], x[:1]]) * np_.arange(x.shape[0])[:, None] / x.shape[0],
                          ("b+1,4 f4",)),
        "outer": Program(lambda x, y: x[:, None] * y[None] + x.shape[0], ("a f4", "c f4"), ("a >= c",)),
        "steps": Program(lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c), np_.zeros(4), x), ("t,4 f4",)),
    }


# Values of dimension variables in the runs.
SIZES = {"a": 6, "b": 8, "c": 5, "t": 3}


def specs(jax: Any, export: Any, program: Program) -> tuple[list, dict]:
    """The types of the arguments, as (args, kwargs)."""
    scope = export.SymbolicScope(program.constraints)

    def struct(text: str) -> Any:
        shape, dtype = text.split()
        return jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), np.dtype(dtype))

    return _arguments(program, struct)


def values(program: Program) -> tuple[list, dict]:
    """Arguments for a run, as (args, kwargs)."""
    rng = np.random.RandomState(0)

    def value(text: str) -> np.ndarray:
        shape, dtype = text.split()
        sizes = [int(eval(n, {}, dict(SIZES))) for n in shape.split(",")]
        return (rng.randn(*sizes) if dtype == "f4" else rng.randint(0, 3, sizes)).astype(dtype)

    return _arguments(program, value)


def _arguments(program: Program, make: Callable[[str], Any]) -> tuple[list, dict]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in program.arguments:
        if "=" in text:
            name, _, rest = text.partition("= ")
            kwargs[name] = make(rest)
        elif ":" in text:
            args.append({name: make(rest) for name, _, rest in (part.partition(": ") for part in text.split("; "))})
        else:
            args.append(make(text))
    return args, kwargs


def run(jax: Any, call: Callable, program: Program) -> list[np.ndarray]:
    """The results of a call, and the gradient of their sum of squares."""
    args, kwargs = values(program)
    out = jax.tree.leaves(call(*args, **kwargs))
    if not program.grad or not any(np.asarray(y).dtype == np.float32 for y in out):
        return [np.asarray(y) for y in out]
    leaves, tree = jax.tree.flatten((args, kwargs))
    active = [i for i, x in enumerate(leaves) if x.dtype == np.float32]

    def total(*floats: Any) -> Any:
        full = list(leaves)
        for i, x in zip(active, floats, strict=True):
            full[i] = x
        args, kwargs = jax.tree.unflatten(tree, full)
        return sum((y * y).sum() for y in jax.tree.leaves(call(*args, **kwargs)) if y.dtype == np.float32)

    grads = jax.grad(total, tuple(range(len(active))))(*[leaves[i] for i in active])
    return [np.asarray(y) for y in (*out, *grads)]
