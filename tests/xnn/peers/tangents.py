"""The programs of docs/kernels_from_neural_tangents.md in neural-tangents 0.6.5, for test_tangents.py in ../kernels.

    python3.11 -m venv peer
    peer/bin/pip install neural-tangents==0.6.5 jax==0.4.25 jaxlib==0.4.25 'numpy<2' 'scipy<1.13' 'scikit-learn<1.5'
    peer/bin/python tests/xnn/peers/tangents.py

It writes tangents.json: for each section of the page, the lines that the same program prints. Random numbers are those
of later versions of JAX; the initial parameters are drawn by the rule of `xnn.serial`.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import neural_tangents as nt
import numpy as np
from jax import nn, random
from jax.example_libraries import optimizers
from neural_tangents import stax
from sklearn.datasets import load_digits

jax.config.update("jax_threefry_partitionable", True)


def listed(values):
    return " ".join(f"{value:.4f}" for value in values)


def introduction():
    kernel_fn = stax.serial(stax.Dense(512), stax.Relu(), stax.Dense(512), stax.Relu(), stax.Dense(1))[2]
    key1, key2 = random.split(random.PRNGKey(1))
    x1, x2 = random.normal(key1, (10, 100)), random.normal(key2, (20, 100))
    kernels = kernel_fn(x1, x2, ("nngp", "ntk"))
    for kind in ("nngp", "ntk"):
        yield f"{kind} {getattr(kernels, kind).shape} {listed(getattr(kernels, kind)[0, :4])}"
    twice = kernel_fn(kernel_fn(x1, x2))
    yield f"twice {listed(twice.nngp[0, :4])}"
    y = random.uniform(key1, (10, 1))
    predict = nt.predict.gradient_descent_mse_ensemble(kernel_fn, x1, y)
    for get in ("nngp", "ntk"):
        yield f"{get} {listed(predict(x_test=x2, get=get)[:4, 0])}"


def residual_network():
    def conv(channels, strides=1):
        return stax.Conv(channels, (3, 3), (strides, strides), padding="SAME")

    def block(channels, strides=1, mismatch=False):
        main = stax.serial(stax.Relu(), conv(channels, strides), stax.Relu(), conv(channels))
        shortcut = conv(channels, strides) if mismatch else stax.Identity()
        return stax.serial(stax.FanOut(2), stax.parallel(main, shortcut), stax.FanInSum())

    def group(n, channels, strides=1):
        return stax.serial(block(channels, strides, True), *(block(channels) for _ in range(n - 1)))

    kernel_fn = stax.serial(
        conv(16), group(2, 16), group(2, 32, 2), group(2, 64, 2), stax.AvgPool((2, 2)), stax.Flatten(),
        stax.Dense(10, 1.0, 0.0))[2]
    x = random.normal(random.PRNGKey(0), (3, 8, 8, 3))
    for kind in ("nngp", "ntk"):
        yield f"{kind} {listed(kernel_fn(x, None, kind)[0])}"


def affine(params, x):
    w, b = params
    return jnp.dot(x, w) + b


START = (np.eye(2, dtype=np.float32), np.zeros(2, np.float32))


def linearized():
    linear = nt.linearize(affine, START)
    w, b = jnp.array([[1.5, 0.2], [0.1, 0.9]]), START[1] + 0.2
    yield from map(listed, linear((w, b), jnp.array([[0.3, 0.2], [0.4, 0.5], [1.2, 0.2]])))


def in_function_space():
    key1, key2 = random.split(random.PRNGKey(1))
    x_train, x_test = random.normal(key1, (3, 2)), random.normal(key2, (4, 2))
    y_train = random.uniform(key1, (3, 2))
    kernel_fn = nt.empirical_ntk_fn(affine)
    predict = nt.predict.gradient_descent_mse(kernel_fn(x_train, None, START), y_train)
    fx_train, fx_test = predict(5.0, affine(START, x_train), affine(START, x_test), kernel_fn(x_test, x_train, START))
    yield from map(listed, [*fx_train, *fx_test])


def digits():
    """Standardized images, and one-hot labels with mean 0, in a random order."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x = images[order].astype(np.float32)
    return (x - x.mean()) / x.std(), np.eye(10, dtype=np.float32)[labels[order]] - np.float32(0.1)


def squared(fx, y):
    return 0.5 * jnp.mean((fx - y) ** 2)


def accuracy(fx, y):
    return jnp.mean(jnp.argmax(fx, 1) == jnp.argmax(y, 1))


def rmse(fx, y):
    return jnp.sqrt(jnp.mean((fx - y) ** 2))


def infinite_fcn():
    x, y = digits()
    kernel_fn = stax.serial(stax.Dense(1, 2.0, 0.05), stax.Relu(), stax.Dense(1, 2.0, 0.05))[2]
    predict = nt.predict.gradient_descent_mse_ensemble(kernel_fn, x[:500], y[:500], diag_reg=1e-3)
    for get, fx in zip(("nngp", "ntk"), predict(x_test=x[500:1000])):
        yield f"{get} {accuracy(fx, y[500:1000]):.3f} {squared(fx, y[500:1000]):.5f}"


def drawn(key, sizes):
    """Parameters of variance 1, (w, b) for each Dense at the even places of a network, in the order of `xnn.serial`."""
    params = []
    for i in range(2 * len(sizes) - 3):
        if i % 2:
            params.append(())
            continue
        w_key, b_key = random.split(random.fold_in(key, i))
        n_in, n_out = sizes[i // 2:i // 2 + 2]
        params.append((random.normal(w_key, (n_in, n_out)), random.normal(b_key, (n_out,))))
    return params


def finite_network():
    f = stax.serial(stax.Dense(512, 1.0, 0.05), stax.Erf(), stax.Dense(10, 1.0, 0.05))[1]
    return f, drawn(random.PRNGKey(0), (64, 512, 10))


def function_space():
    x, y = digits()
    f, params = finite_network()
    x_train, y_train, x_test, y_test = x[:128], y[:128], x[128:256], y[128:256]
    kernel_fn = nt.empirical_ntk_fn(f)
    predict = nt.predict.gradient_descent_mse(kernel_fn(x_train, None, params), y_train)
    start = f(params, x_train), f(params, x_test)
    across = kernel_fn(x_test, x_train, params)
    init, update, get_params = optimizers.sgd(1.0)
    gradient = jax.grad(lambda p: squared(f(p, x_train), y_train))
    step = jax.jit(lambda i, state: update(i, gradient(get_params(state)), state))
    state = init(params)
    for i in range(1000):
        state = step(i, state)
    predicted = predict(1000.0, *start, across)
    for name, x, y, fx in zip(("train", "test"), (x_train, x_test), (y_train, y_test), predicted):
        trained = f(get_params(state), x)
        yield (f"{name} {accuracy(trained, y):.3f} {accuracy(fx, y):.3f} {squared(trained, y):.5f} "
               f"{squared(fx, y):.5f} {rmse(trained, fx):.4f}")


def weight_space():
    x, y = digits()
    y = y + np.float32(0.1)
    f, params = finite_network()
    init, update, get_params = optimizers.momentum(1.0, 0.9)
    networks = f, nt.linearize(f, params)

    def loss(fx, y):
        return -jnp.mean(nn.log_softmax(fx) * y)

    def stepped(network):
        gradient = jax.grad(lambda p, x, y: loss(network(p, x), y))
        return jax.jit(lambda i, state, x, y: update(i, gradient(get_params(state), x, y), state))

    steps, states = [stepped(network) for network in networks], [init(params) for _ in networks]
    for i in range(100):
        batch = slice(i % 10 * 128, i % 10 * 128 + 128)
        states = [step(i, state, x[batch], y[batch]) for step, state in zip(steps, states)]
        if i % 20 == 0:
            losses = [loss(one(get_params(state), x[batch]), y[batch]) for one, state in zip(networks, states)]
            yield f"{i // 10} {losses[0]:.3f} {losses[1]:.3f}"
    fx, linear = [one(get_params(state), x[1280:]) for one, state in zip(networks, states)]
    yield f"test {accuracy(fx, y[1280:]):.3f} {accuracy(linear, y[1280:]):.3f} {rmse(fx, linear):.3f}"


def implementations():
    key1, key2, key3 = random.split(random.PRNGKey(1), 3)
    x1, x2 = random.normal(key1, (2, 8, 8, 3)), random.normal(key2, (3, 8, 8, 3))
    f = stax.serial(stax.Conv(8, (3, 3)), stax.Relu(), stax.Conv(8, (3, 3)), stax.Relu(), stax.Conv(8, (3, 3)),
                    stax.Flatten(), stax.Dense(10))[1]
    shapes = {0: (3, 3, 3, 8), 2: (3, 3, 8, 8), 4: (3, 3, 8, 8), 6: (32, 10)}
    params = [() if i not in shapes else (random.normal(random.split(random.fold_in(key3, i))[0], shapes[i]), None)
              for i in range(7)]
    for name in ("JACOBIAN_CONTRACTION", "NTK_VECTOR_PRODUCTS", "STRUCTURED_DERIVATIVES", "AUTO"):
        kernel_fn = nt.empirical_ntk_fn(f, trace_axes=(), vmap_axes=0,
                                        implementation=getattr(nt.NtkImplementation, name))
        ntk = kernel_fn(x2, x1, params)
        yield f"{ntk.shape} {listed(ntk[0, 0, 0, :4])}"


SECTIONS = {
    "An introduction in five minutes": introduction, "An infinitely wide residual network": residual_network,
    "Linearization": linearized, "Function space": in_function_space, "`infinite_fcn.py`": infinite_fcn,
    "`function_space.py`": function_space, "`weight_space.py`": weight_space, "`empirical_ntk.py`": implementations}


def main() -> None:
    """Write tangents.json."""
    lines = {}
    for title, program in SECTIONS.items():
        lines[title] = list(program())
        print(title, *lines[title], sep="\n  ")
    Path(__file__).with_suffix(".json").write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
