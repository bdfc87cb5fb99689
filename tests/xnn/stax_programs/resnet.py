"""Residual blocks on images in the HWCN layout: FanOut, parallel and FanInSum, and widths that follow the input."""

import jax.numpy as jnp
from jax import jit, random, value_and_grad
from jax.example_libraries import optimizers, stax
from jax.example_libraries.stax import (
    AvgPool,
    BatchNorm,
    Conv,
    Dense,
    FanInSum,
    FanOut,
    Flatten,
    GeneralConv,
    Identity,
    LogSoftmax,
    MaxPool,
    Relu,
)


def conv_block(kernel_size, filters, strides=(2, 2)):
    narrow, wide = filters
    main = stax.serial(Conv(narrow, (1, 1), strides), BatchNorm(), Relu,
                       Conv(narrow, (kernel_size, kernel_size), padding="SAME"), BatchNorm(), Relu,
                       Conv(wide, (1, 1)), BatchNorm())
    shortcut = stax.serial(Conv(wide, (1, 1), strides), BatchNorm())
    return stax.serial(FanOut(2), stax.parallel(main, shortcut), FanInSum, Relu)


def identity_block(kernel_size, narrow):
    def make_main(input_shape):
        return stax.serial(Conv(narrow, (1, 1)), BatchNorm(), Relu,
                           Conv(narrow, (kernel_size, kernel_size), padding="SAME"), BatchNorm(), Relu,
                           Conv(input_shape[3], (1, 1)), BatchNorm())

    main = stax.shape_dependent(make_main)
    return stax.serial(FanOut(2), stax.parallel(main, Identity), FanInSum, Relu)


def resnet(num_classes):
    return stax.serial(
        GeneralConv(("HWCN", "OIHW", "NHWC"), 8, (3, 3), (1, 1), "SAME"), BatchNorm(), Relu,
        MaxPool((2, 2), strides=(2, 2)),
        conv_block(3, (4, 12), strides=(1, 1)), identity_block(3, 4), conv_block(3, (8, 16)),
        AvgPool((2, 2)), Flatten, Dense(num_classes), LogSoftmax)


def main():
    batch_size, num_classes = 4, 5
    rng_key = random.PRNGKey(0)
    input_shape = (8, 8, 3, batch_size)
    init_fun, predict_fun = resnet(num_classes)
    _, init_params = init_fun(rng_key, input_shape)
    images = random.normal(random.PRNGKey(1), input_shape)
    targets = jnp.eye(num_classes)[jnp.arange(batch_size) % num_classes]

    def loss(params, batch):
        inputs, targets = batch
        return -jnp.sum(predict_fun(params, inputs) * targets)

    opt_init, opt_update, get_params = optimizers.momentum(0.02, mass=0.9)

    @jit
    def update(i, opt_state, batch):
        value, grads = value_and_grad(loss)(get_params(opt_state), batch)
        return value, opt_update(i, optimizers.clip_grads(grads, 10.0), opt_state)

    opt_state, losses = opt_init(init_params), []
    for i in range(5):
        value, opt_state = update(i, opt_state, (images, targets))
        losses.append(float(value))
    return losses
