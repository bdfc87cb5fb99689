"""Names from NumPy, PyTorch or older versions of JAX, and their names here; for messages of errors."""

from __future__ import annotations

import sys

# module -> name -> its replacement
_MODULES: dict[str, dict[str, str]] = {
    "xjax": {
        "tree_map": "tree.map", "tree_multimap": "tree.map", "tree_leaves": "tree.leaves",
        "tree_flatten": "tree.flatten", "tree_unflatten": "tree.unflatten", "tree_structure": "tree.structure",
        "no_grad": "lax.stop_gradient", "xmap": "shard_map",
    },
    "xjax.numpy": {
        "random": "xjax.random, whose functions take a key", "cosine": "cos", "sine": "sin", "tangent": "tan",
        "int": "int32, or Python's int", "float": "float32, or Python's float", "bool8": "bool_", "long": "int64",
        "complex": "complex64, or Python's complex", "double": "float64", "product": "prod", "cumproduct": "cumprod",
        "row_stack": "vstack", "trapz": "trapezoid", "in1d": "isin", "msort": "sort", "alltrue": "all",
        "sometrue": "any", "asscalar": "x.item()", "matrix": "array", "Matrix": "array", "mat": "array",
        "tensor": "array", "cat": "concatenate", "clamp": "clip", "unsqueeze": "expand_dims", "permute": "transpose",
        "scatter": "x.at[index].set(y)", "gather": "take_along_axis", "stop_gradient": "xjax.lax.stop_gradient",
        "reduce_sum": "sum", "reduce_mean": "mean", "reduce_max": "max", "rsqrt": "xjax.lax.rsqrt",
        "copyto": "y = x.copy(), or x.at[index].set(y)", "float128": "float64", "infty": "inf", "Inf": "inf",
        **{name: f"xjax.nn.{name}" for name in (
            "relu", "sigmoid", "softmax", "log_softmax", "softplus", "gelu", "silu", "elu", "leaky_relu", "one_hot",
            "logsumexp")},
        "NaN": "nan", "NAN": "nan", "PINF": "inf", "NINF": "-inf", "object_": "a number type: arrays hold numbers only",
    },
    "xjax.random": {
        "rand": "uniform(key, shape)", "randn": "normal(key, shape)", "seed": "key(seed), and pass the key explicitly",
        "random": "uniform(key, shape)", "shuffle": "permutation", "RandomState": "key", "default_rng": "key",
        "standard_normal": "normal(key, shape)", "random_sample": "uniform(key, shape)", "integers": "randint",
        "prng_key": "key", "generator": "key",
    },
    "xjax.nn": {
        "Module": "xnn, or flax", "Linear": "xnn", "Dense": "xnn", "dropout": "random.bernoulli and numpy.where",
        "cross_entropy": "log_softmax and numpy.sum", "batch_norm": "standardize", "layer_norm": "standardize",
        "sequential": "xnn",
    },
    "xjax.tree": {"tree_map": "map", "stack": "map(lambda *xs: numpy.stack(xs), *trees)"},
    "xjax.experimental": {"optimizers": "optax", "stax": "xnn"},
}
_SEARCHED = ("xjax", "xjax.numpy", "xjax.lax", "xjax.nn", "xjax.random", "xjax.numpy.linalg", "xjax.numpy.fft",
             "xjax.tree", "xjax.scipy.special")

# Attributes of arrays of other libraries.
_ATTRIBUTES = {
    "append": "xjax.numpy.append(x, values)", "extend": "xjax.numpy.concatenate([x, y])",
    "unsqueeze": "x[:, None], or xjax.numpy.expand_dims(x, axis)", "permute": "x.transpose(*axes)",
    "detach": "xjax.lax.stop_gradient(x)", "cpu": 'xjax.device_put(x, xjax.devices("cpu")[0])',
    "cuda": 'xjax.device_put(x, xjax.devices("gpu")[0])', "numpy": "numpy.asarray(x), outside of jit",
    "to": "xjax.device_put(x, device), or x.astype(dtype)", "backward": "xjax.grad of the function",
    "requires_grad": "xjax.grad of the function", "grad": "xjax.grad of the function",
    "fill": "xjax.numpy.full_like(x, value)", "put": "x.at[index].set(values)", "itemset": "x.at[index].set(value)",
    "resize": "xjax.numpy.resize(x, shape)", "norm": "xjax.numpy.linalg.norm(x)", "add_": "y = x + 1",
    "length": "len(x), or x.size", "dim": "x.ndim", "float": "x.astype('float32')", "int": "x.astype('int32')",
    "long": "x.astype('int32')", "double": "x.astype('float64')", "half": "x.astype('float16')", "mm": "x @ y",
    "numel": "x.size", "block_until_ready": "it outside of jit",
}


def name_elsewhere(module: str, name: str) -> str | None:
    """The replacement for a name that a module of xjax does not have: its new name, or its name in another module."""
    renamed = _MODULES.get(module, {}).get(name)
    if renamed is not None:
        return f"{module}.{renamed}" if renamed.split("(")[0].split(".")[0] in sys.modules[module].__all__ else renamed
    holder = next((m for m in _SEARCHED if m != module and name in getattr(sys.modules.get(m), "__all__", ())), None)
    return holder and f"{holder}.{name}"


def aliases(module: str) -> dict[str, str]:
    """Names from other libraries, candidates for a misspelt name, and their replacements in the module."""
    return _MODULES.get(module, {})


def attribute_elsewhere(name: str) -> str | None:
    """The replacement for an attribute that arrays do not have: for one of other libraries, or by `xjax.numpy`."""
    known = _ATTRIBUTES.get(name)
    if known is not None or name.startswith("_"):
        return known
    value = vars(sys.modules.get("xjax.numpy", sys)).get(name)
    is_function = callable(value) and not isinstance(value, type) and name in sys.modules["xjax.numpy"].__all__
    return f"xjax.numpy.{name}(x)" if is_function else None
