"""Kernels of neural-tangents 0.6.5, for tests/xnn/kernels/test_peer.py; run in an environment of its own:

    python3.11 -m venv peer
    peer/bin/pip install neural-tangents==0.6.5 jax==0.4.25 jaxlib==0.4.25 'numpy<2' 'scipy<1.13'
    peer/bin/python tests/xnn/peers/kernels.py

It writes kernels.npz. The models of `MODELS` are lists of layers with arguments, which both sides read; the weights
have the standard deviation `W`, the biases `B`. Its `ImageResize` is not among them: its kernels differ by 3 % from
those of its own finite networks.
"""

import os
from pathlib import Path

import numpy as np

W, B, WIDTH = 1.3, 0.2, 16

INPUTS = {"rows": (5, 4), "others": (3, 4), "images": (3, 6, 5, 2), "other images": (2, 6, 5, 2), "series": (3, 7, 2),
          "other series": (2, 7, 2), "padded": (3, 7, 2), "other padded": (2, 7, 2),
          "volumes": (2, 4, 3, 5, 2), "other volumes": (1, 4, 3, 5, 2)}

_FUNCTIONS = [
    ("relu",), ("abs",), ("sign",), ("leaky", 0.01), ("abrelu", -0.3, 1.2), ("erf", 0.7, 1.3, 0.4), ("gelu",),
    ("sin", 1.1, 0.8, 0.3), ("cos", 1.1, 0.8, 0.3), ("rbf", 0.4), ("exp", 0.5, 0.4), ("gaussian", 0.5, 1.2),
    ("monomial", 3), ("polynomial", (0.3, -1.0, 0.5, 0.2)), ("hermite", 3), ("rectified", 0), ("rectified", 2),
    ("rectified", 3), ("sigmoid_like",)]
_DENSE = ("dense", WIDTH)


def _after(layer):
    """Three models with a nonlinear function: in one layer, in two, and with another branch."""
    # The kernel of `hermite` of neural-tangents is that of inputs of variance 1.
    layers = [("norm", (-1,)), layer] if layer[0] == "hermite" else [layer]
    return {"one": [_DENSE, *layers, ("dense", 1)], "two": [_DENSE, *layers, _DENSE, *layers, ("dense", 1)],
            "residual": [_DENSE, ("residual", [*layers, _DENSE]), *layers, ("dense", 1)]}


def _convolutions():
    conv = [("conv", (3, 2), {"padding": padding, "strides": strides}) for padding, strides in (
        ("SAME", (1, 1)), ("VALID", (2, 1)), ("CIRCULAR", (1, 1)))]
    transposed = ("transposed", (3, 2), {"padding": "SAME", "strides": (2, 1)})
    local = ("local", (3, 2), {"padding": "VALID", "strides": (1, 1)})
    for name, first in (("same", conv[0]), ("strided", conv[1]), ("circular", conv[2]), ("transposed", transposed),
                        ("local", local)):
        yield name + " flat", [first, ("relu",), ("flatten",), ("dense", 1)]
        yield name + " pooled", [first, ("relu",), ("global_average",), ("dense", 1)]
        yield name + " deep", [first, ("erf", 1.0, 1.0, 0.0), conv[0], ("relu",), ("average", (2, 2)), conv[0],
                               ("relu",), ("global_sum",), ("dense", 1)]


def _models():
    for layer in _FUNCTIONS:
        for name, model in _after(layer).items():
            if layer[0] == "rectified" and name != "one":
                continue                # its kernel is NaN after two of them: the arccosine of 1 + 2e-16
            yield f"{'_'.join(map(str, layer))} {name}", "rows", model
    for name, model in _convolutions():
        yield name, "images", model
    for name in ("series", "volumes"):
        window = (3,) * (1 if name == "series" else 3)
        conv = ("conv", window, {"padding": "SAME", "strides": (1,) * len(window)})
        for end in ("flatten", "global_average"):
            yield f"{name} {end}", name, [conv, ("relu",), conv, ("relu",), (end,), ("dense", 1)]
    conv = ("conv", (3, 3), {"padding": "SAME", "strides": (1, 1)})
    for name, layer in (("average", ("average", (2, 2))), ("sum", ("sum", (2, 2)))):
        for end in ("flatten", "global_average", "global_sum"):
            yield f"{name} {end}", "images", [conv, ("relu",), layer, conv, ("relu",), (end,), ("dense", 1)]
    norm, everywhere = ("norm", (-1,)), ("norm", (1, 2, -1))
    yield "norm rows", "rows", [_DENSE, norm, ("relu",), _DENSE, norm, ("erf", 1.0, 1.0, 0.0), ("dense", 1)]
    yield "norm flat", "images", [conv, norm, ("relu",), conv, norm, ("relu",), ("flatten",), ("dense", 1)]
    yield "norm pooled", "images", [conv, norm, ("relu",), ("global_average",), ("dense", 1)]
    yield "norm everywhere", "images", [conv, everywhere, ("relu",), ("global_average",), ("dense", 1)]
    for name in ("sum", "product", "concat"):
        for end in ([_DENSE, ("relu",), ("dense", 1)], [("dense", 1)]):
            yield f"branches {name} {len(end)}", "rows", [
                _DENSE, ("branches", name, [[("relu",), _DENSE], [("erf", 1.0, 1.0, 0.0), _DENSE]]), *end]
        yield f"branches {name} images", "images", [
            conv, ("branches", name, [[("relu",), conv], [("abs",), conv]]), conv, ("relu",), ("global_average",)]
    for scaling, weights in (("linear", "softmax"), ("linear", "identity"), ("linear", "relu"), ("linear", "abs"),
                             ("root", "identity")):
        attention = ("attention", scaling, weights)
        for name, model in (("flat", [attention, ("relu",), ("flatten",), ("dense", 1)]),
                            ("pooled", [attention, ("global_average",), ("dense", 1)]),
                            ("deep", [_DENSE, attention, ("relu",), attention, ("relu",), ("global_average",)])):
            yield f"attention {scaling} {weights} {name}", "series", model
    one = ("conv", (3,), {"padding": "SAME", "strides": (1,)})
    mask = ("mask",)
    for end in ("flatten", "global_average", "global_sum"):
        yield f"masked {end}", "padded", [mask, one, mask, ("cos", 1.0, 1.0, 0.0), mask, one, mask, ("relu",), (end,),
                                          ("dense", 1)]
    yield "masked rows", "padded", [mask, _DENSE, mask, ("relu",), _DENSE, ("global_average",)]
    yield "masked attention", "padded", [mask, ("attention", "linear", "softmax"), mask, ("relu",),
                                         ("global_average",), ("dense", 1)]
    for name, end in (("rows", []), ("two", [("relu",), _DENSE])):
        yield f"dropout {name}", "rows", [_DENSE, ("relu",), ("dropout", 0.3), _DENSE, *end]
    yield "dropout images", "images", [conv, ("relu",), ("dropout", 0.3), conv, ("relu",), ("global_average",)]


MODELS = {name: (inputs, model) for name, inputs, model in _models()}
LENGTHS = {"padded": (7, 3, 4), "other padded": (2, 5)}             # of the series, which are padded to 7 positions
PADDING = 99.0
OTHER = {"padded": "other padded", "rows": "others", "images": "other images", "series": "other series",
         "volumes": "other volumes"}


def arrays() -> dict[str, np.ndarray]:
    """The inputs."""
    values = {}
    for i, (name, shape) in enumerate(INPUTS.items()):
        values[name] = np.random.default_rng(i).normal(size=shape)
        if name in LENGTHS:
            values[name][~mask(name)] = PADDING
    return values


def mask(name: str) -> np.ndarray:
    """The positions [n, time] of a padded input that are not padding."""
    return np.arange(INPUTS[name][1]) < np.array(LENGTHS[name])[:, None]


def parameterizations(name: str) -> tuple[str, ...]:
    """Its attention has one of the two."""
    return ("ntk",) if "attention" in name else ("ntk", "standard")


def _built(stax, model, parameterization):
    width = {"W_std": W, "b_std": B, "parameterization": parameterization}

    def made(layer):
        name, *args = layer
        if name in ("conv", "transposed", "local"):
            window, options = args
            kind = {"conv": stax.Conv, "transposed": stax.ConvTranspose, "local": stax.ConvLocal}[name]
            return kind(WIDTH, window, options["strides"], options["padding"], **width)
        if name == "attention":
            scaling, weights = args
            return stax.GlobalSelfAttention(
                WIDTH, 4, 4, 4, linear_scaling=scaling == "linear", W_key_std=W, W_value_std=W, W_query_std=W,
                W_out_std=W, b_std=B, attention_mechanism=weights.upper())
        if name == "residual":
            return stax.serial(stax.FanOut(2), stax.parallel(stax.Identity(), _built(stax, args[0], parameterization)),
                               stax.FanInSum())
        if name == "branches":
            how, branches = args
            end = {"sum": stax.FanInSum(), "product": stax.FanInProd(), "concat": stax.FanInConcat(-1)}[how]
            made = [_built(stax, branch, parameterization) for branch in branches]
            return stax.serial(stax.FanOut(len(made)), stax.parallel(*made), end)
        if name in ("average", "sum"):
            return {"average": stax.AvgPool, "sum": stax.SumPool}[name](args[0], args[0], "VALID")
        return {
            "dense": lambda n: stax.Dense(n, **width),
            "relu": stax.Relu, "abs": stax.Abs, "sign": stax.Sign, "leaky": stax.LeakyRelu, "abrelu": stax.ABRelu,
            "erf": lambda scale, factor, shift: stax.Erf(factor, scale, shift), "gelu": stax.Gelu,
            "sin": lambda scale, factor, shift: stax.Sin(factor, scale, shift),
            "cos": lambda scale, factor, shift: stax.Cos(factor, scale, shift), "rbf": stax.Rbf,
            "exp": lambda scale, factor: stax.Exp(factor, scale),
            "gaussian": lambda scale, factor: stax.Gaussian(factor, -scale), "monomial": stax.Monomial,
            "polynomial": stax.Polynomial, "hermite": stax.Hermite, "rectified": stax.RectifiedMonomial,
            "sigmoid_like": stax.Sigmoid_like, "flatten": stax.Flatten, "global_average": stax.GlobalAvgPool,
            "global_sum": stax.GlobalSumPool, "mask": stax.Identity,         # its layers apply masks themselves
            "norm": lambda axis: stax.LayerNorm(axis, 1e-12), "dropout": lambda rate: stax.Dropout(1 - rate),
        }[name](*args)

    return stax.serial(*map(made, model))


# The model of the predictions, their times, learning rate, momentum and regularization.
PREDICTED = [_DENSE, ("erf", 1.0, 1.0, 0.0), _DENSE, ("relu",), ("dense", 2)]
TIMES, RATE, MOMENTUM, REGULARIZATION = (0.0, 0.7, 30.0, 4000.0), 0.3, 0.8, 1e-3


def targets() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets, and outputs before training for training and test inputs."""
    rng = np.random.default_rng(1)
    rows, others = INPUTS["rows"][0], INPUTS["others"][0]
    return rng.normal(size=(rows, 2)), rng.normal(size=(rows, 2)), rng.normal(size=(others, 2))


def predictions() -> dict[str, np.ndarray]:
    """Posteriors and training by gradient flow."""
    import jax.numpy as jnp
    from neural_tangents import predict, stax

    kernel = _built(stax, PREDICTED, "ntk")[2]
    x, others = arrays()["rows"], arrays()["others"]
    y, start, start_test = targets()
    train, across, test = (kernel(*pair, ("nngp", "ntk")) for pair in ((x, None), (others, x), (others, None)))
    results = {}
    posterior = predict.gp_inference(train, y, REGULARIZATION)
    for get in ("nngp", "ntk", "ntkgp"):
        mean, covariance = posterior(get, across, test)
        results |= {f"posterior mean {get}": mean, f"posterior covariance {get}": covariance}
    flow = predict.gradient_descent_mse(train.ntk, y, RATE, REGULARIZATION)
    for t in (np.array(TIMES), None):
        one, other = flow(t, start, start_test, across.ntk)
        results |= {f"flow {t is None} train": one, f"flow {t is None} test": other}
    ensemble = predict.gradient_descent_mse_ensemble(kernel, x, y, RATE, REGULARIZATION)
    for get in ("nngp", "ntk"):
        for t in (np.array(TIMES), None):
            mean, covariance = ensemble(t, others, get, True)
            results |= {f"ensemble {get} {t is None} mean": mean, f"ensemble {get} {t is None} covariance": covariance}

    def loss(f, y):
        return jnp.mean(jnp.logaddexp(0, -f * y))

    for momentum in (None, MOMENTUM):
        flow = predict.gradient_descent(loss, train.ntk, y, RATE, momentum)
        one, other = flow(np.array(TIMES[:3]), start, start_test, across.ntk)
        results |= {f"any loss {momentum} train": one, f"any loss {momentum} test": other}
    results["rate"] = np.array([predict.max_learning_rate(train.ntk, y.size, m) for m in (0.0, MOMENTUM)])
    return {name: np.asarray(value) for name, value in results.items()}


def main() -> None:
    """Write kernels.npz."""
    os.environ["JAX_ENABLE_X64"] = "1"
    from neural_tangents import stax

    given, results = arrays(), {}
    for name, (inputs, model) in MODELS.items():
        for parameterization in parameterizations(name):
            kernel = _built(stax, model, parameterization)[2]
            for x2 in (None, given[OTHER[inputs]]):
                padding = PADDING if inputs == "padded" else None
                result = kernel(given[inputs], x2, ("nngp", "ntk"), mask_constant=padding)
                key = f"{name} {parameterization} {'same' if x2 is None else 'other'}"
                results[key] = np.stack([result.nngp, result.ntk])
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **results, **predictions())


if __name__ == "__main__":
    main()
