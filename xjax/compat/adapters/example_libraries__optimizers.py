"""`jax.example_libraries.optimizers`: `xnn.optimizers`, imported with the first name."""

from xjax.core.public import attributes_of

__all__: list[str] = []

__getattr__ = attributes_of(__name__, {name: ("xnn.optimizers", name) for name in (
    "InitFn", "JoinPoint", "Optimizer", "OptimizerState", "Params", "ParamsFn", "Schedule", "State", "Step", "UpdateFn",
    "Updates", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay", "inverse_time_decay",
    "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state", "piecewise_constant",
    "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state")})
