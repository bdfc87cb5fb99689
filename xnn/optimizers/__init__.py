"""Optimizers as triples of pure functions, with the API of `jax.example_libraries.optimizers`.

    opt_init, opt_update, get_params = optimizers.adam(1e-3)
    opt_state = opt_init(params)
    for i in range(n_steps):
        grads = xjax.grad(loss)(get_params(opt_state), batch)
        opt_state = opt_update(i, grads, opt_state)

A program written for JAX's module runs with only its import changed, and computes the same numbers. `optimizer` makes
a new optimizer from a rule for one array. For more optimizers, and for transformations that can be chained, use
`xnn.optim`, which is optax.
"""

from xnn.optimizers.gradients import clip_grads, l2_norm
from xnn.optimizers.rules import (
    adagrad,
    adam,
    adamax,
    momentum,
    nesterov,
    rmsprop,
    rmsprop_momentum,
    sgd,
    sm3,
)
from xnn.optimizers.schedules import (
    Schedule,
    Step,
    constant,
    exponential_decay,
    inverse_time_decay,
    make_schedule,
    piecewise_constant,
    polynomial_decay,
)
from xnn.optimizers.trees import (
    InitFn,
    JoinPoint,
    Optimizer,
    OptimizerState,
    Params,
    ParamsFn,
    State,
    UpdateFn,
    Updates,
    optimizer,
    pack_optimizer_state,
    unpack_optimizer_state,
)
from xnn.public import public_names

__all__ = [
    "InitFn", "JoinPoint", "Optimizer", "OptimizerState", "Params", "ParamsFn", "Schedule", "State", "Step", "UpdateFn",
    "Updates", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay", "inverse_time_decay",
    "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state", "piecewise_constant",
    "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state"]

public_names(__name__)
