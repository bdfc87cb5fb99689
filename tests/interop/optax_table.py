"""Every public function of optax, with a call: rows of a table for `test_optax`.

A transformation has a row `m -> transformation`, where `m` is optax or `xnn.optim`; 20 of its steps are compared. Other
functions have a row `m -> result`. Functions that are passed to optax are functions of JAX.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS = 20
RNG = np.random.default_rng(0)


def tree(*, scalar: bool = True) -> dict[str, Any]:
    """Random parameters, or gradients of them."""
    def draw(*shape):
        return np.asarray(RNG.normal(size=shape), np.float32)
    return {"dense": {"w": draw(4, 3), "b": draw(3)}, **({"scale": draw()} if scalar else {})}


def vector(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


PARAMS, GRADS = tree(), [tree() for _ in range(STEPS)]
A, B, C = tree(), tree(), tree()
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)
SPD = (X.T @ X + np.eye(3)).astype(np.float32)
EXAMPLES = jax.tree.map(lambda x: np.stack([x, 2 * x, -x]), A)                 # one gradient for each of three examples
LABELS = {"dense": {"w": "fast", "b": "slow"}, "scale": "slow"}
MASK = {"dense": {"w": True, "b": False}, "scale": True}


def loss(params):
    """A convex function of the parameters, for transformations that need values."""
    return sum(jnp.sum((x - 0.3) ** 2 + 0.05 * x**4) for x in jax.tree.leaves(params))


def nll(params, inputs, targets):
    return jnp.sum((jnp.tanh(inputs @ params) - targets) ** 2)


def with_rate(names: str, rate: float = 0.1, module: str = "", **options: Any) -> dict[str, Any]:
    """Rows of optimizers with the same arguments."""
    return {module + name: lambda m, name=module + name: find(m, name)(rate, **options) for name in names.split()}


def plain(names: str, module: str = "") -> dict[str, Any]:
    """Rows of transformations without required arguments."""
    return {module + name: lambda m, name=module + name: find(m, name)() for name in names.split()}


def find(m: Any, name: str) -> Any:
    for part in name.split("."):
        m = getattr(m, part)
    return m


OPTIMIZERS = {
    **with_rate("adabelief adadelta adagrad adam adamax adamaxw adamw adan amsgrad lamb lars lion nadam nadamw "
                "novograd optimistic_adam_v2 optimistic_gradient_descent radam rmsprop rprop sign_sgd signum yogi"),
    **with_rate("fromage", 0.01), **with_rate("sgd", momentum=0.9, nesterov=True),
    **with_rate("adafactor", 0.01, min_dim_size_to_factor=2), **with_rate("noisy_sgd", key=7),
    **with_rate("optimistic_adam", optimism=0.1), **with_rate("polyak_sgd", 0.5), **with_rate("sm3", momentum=0.5),
    **with_rate("acprop ademamix adopt dadapt_adamw dog dowg madgrad muon prodigy schedule_free_adamw "
                "schedule_free_sgd simplified_ademamix momo momo_adam cocob sophia", module="contrib."),
    **with_rate("galore", module="contrib.", rank=2, update_proj_gap=4),
    "lbfgs": lambda m: m.lbfgs(memory_size=3),
    "contrib.dpsgd": lambda m: m.contrib.dpsgd(0.1, 1.0, 0.1, 3, momentum=0.9),
    "contrib.mechanize": lambda m: m.contrib.mechanize(m.sgd(0.1), weight_decay=0.01),
    "contrib.sam": lambda m: m.contrib.sam(m.sgd(0.1), m.chain(m.contrib.normalize(), m.sgd(0.05))),
    "contrib.schedule_free": lambda m: m.contrib.schedule_free(m.sgd(0.1), 0.1),
    "contrib.split_real_and_imaginary": lambda m: m.contrib.split_real_and_imaginary(m.adam(0.1)),
    "contrib.reduce_on_plateau": lambda m: m.contrib.reduce_on_plateau(0.5, 2),
    "contrib.differentially_private_aggregate":
        lambda m: m.contrib.differentially_private_aggregate(1.0, 0.1, key=3),
    "contrib.hutchinson_estimator_diag_hessian":
        lambda m: m.contrib.hutchinson_estimator_diag_hessian(np.array([0, 5], np.uint32)),
}

TRANSFORMS = {
    **plain("centralize identity keep_params_nonnegative normalize_by_update_norm scale_by_adadelta scale_by_adam "
            "scale_by_adamax scale_by_adan scale_by_amsgrad scale_by_belief scale_by_distance_over_gradients "
            "scale_by_lbfgs scale_by_lion scale_by_novograd scale_by_optimistic_gradient scale_by_param_block_norm "
            "scale_by_param_block_rms scale_by_polyak scale_by_radam scale_by_rms scale_by_rss scale_by_sign "
            "scale_by_sm3 scale_by_stddev scale_by_trust_ratio scale_by_yogi set_to_zero zero_nans"),
    **plain("normalize scale_by_acprop scale_by_ademamix scale_by_adopt scale_by_cocob "
            "scale_by_simplified_ademamix", "contrib."),
    **with_rate("adaptive_grad_clip add_decayed_weights clip clip_by_block_rms clip_by_global_norm scale "
                "scale_by_rprop scale_by_learning_rate"),
    **with_rate("scale_by_madgrad", module="contrib."),
    "add_noise": lambda m: m.add_noise(0.1, 0.5, key=3),
    "apply_every": lambda m: m.apply_every(3),
    "contrib.scale_by_galore": lambda m: m.contrib.scale_by_galore(rank=2, update_proj_gap=4),
    "contrib.scale_by_muon": lambda m: m.contrib.scale_by_muon(
        weight_dimension_numbers={"w": optax.contrib.MuonDimensionNumbers()}),
    "ema": lambda m: m.ema(0.9),
    "scale_by_backtracking_linesearch": lambda m: m.scale_by_backtracking_linesearch(15, store_grad=True),
    "scale_by_factored_rms": lambda m: m.scale_by_factored_rms(min_dim_size_to_factor=2),
    "scale_by_schedule": lambda m: m.scale_by_schedule(m.cosine_decay_schedule(0.1, 10)),
    "scale_by_zoom_linesearch": lambda m: m.scale_by_zoom_linesearch(15),
    "stateless": lambda m: m.stateless(lambda updates, params: jax.tree.map(lambda u, p: u - 0.1 * p, updates, params)),
    "stateless_with_tree_map": lambda m: m.stateless_with_tree_map(lambda u, p: u - 0.1 * p),
    "trace": lambda m: m.trace(0.9, nesterov=True),
    "snapshot": lambda m: m.snapshot("norm", lambda updates, *_, **__: optax.global_norm(updates)),
    "measure_with_ema": lambda m: m.measure_with_ema(lambda updates, *_, **__: updates, 0.9),
    "monitor": lambda m: m.monitor({"norm": lambda updates, *_, **__: optax.global_norm(updates)}),
}

WRAPPERS = {
    "apply_if_finite": lambda m: m.apply_if_finite(m.adam(0.1), 3),
    "chain": lambda m: m.chain(m.clip_by_global_norm(1.0), m.scale_by_adam(), m.add_decayed_weights(1e-2),
                               m.scale_by_schedule(m.cosine_decay_schedule(0.1, 10)), m.scale(-1.0)),
    "conditionally_mask": lambda m: m.conditionally_mask(m.adam(0.1), lambda step, *_, **__: step % 3 == 0),
    "conditionally_transform": lambda m: m.conditionally_transform(m.adam(0.1), lambda step, *_, **__: step % 3 == 0),
    "flatten": lambda m: m.flatten(m.adam(0.1)),
    "freeze": lambda m: m.chain(m.adam(0.1), m.freeze(MASK)),
    "inject_hyperparams": lambda m: m.inject_hyperparams(m.adam)(learning_rate=m.linear_schedule(0.1, 0.0, 10)),
    "inject_stateful_hyperparams":
        lambda m: m.inject_stateful_hyperparams(m.adam)(learning_rate=m.linear_schedule(0.1, 0.0, 10)),
    "lookahead": lambda m: m.lookahead(m.sgd(0.1), 5, 0.5),
    "masked": lambda m: m.masked(m.adam(0.1), MASK),
    "MultiSteps": lambda m: m.MultiSteps(m.adam(0.1), every_k_schedule=3),
    "MultiSteps-as a transformation": lambda m: m.MultiSteps(m.adam(0.1), 2).gradient_transformation(),
    "MultiSteps-skipping": lambda m: m.MultiSteps(m.sgd(0.1), 2, should_skip_update_fn=optax.skip_not_finite),
    "named_chain": lambda m: m.named_chain(("clip", m.clip(0.5)), ("adam", m.adam(0.1))),
    "partition": lambda m: m.partition({"fast": m.adam(0.1), "slow": m.sgd(0.01)}, LABELS),
    "selective_transform": lambda m: m.selective_transform(m.adam(0.1), freeze_mask=MASK),
    "with_extra_args_support": lambda m: m.with_extra_args_support(m.adam(0.1)),
    "a schedule as learning rate": lambda m: m.adamw(m.warmup_cosine_decay_schedule(0.0, 0.1, 2, 6), weight_decay=0.1),
    "a mask made by a function": lambda m: m.adamw(0.1, mask=lambda p: jax.tree.map(lambda x: x.ndim > 1, p)),
}

# Transformations whose update has more arguments: their names. Their gradients are those of `loss`.
EXTRA = {
    **dict.fromkeys(("polyak_sgd", "scale_by_polyak", "contrib.momo", "contrib.momo_adam", "contrib.reduce_on_plateau"),
                    ("value",)),
    **dict.fromkeys(("lbfgs", "scale_by_backtracking_linesearch", "scale_by_zoom_linesearch"),
                    ("value", "grad", "value_fn")),
    **dict.fromkeys(("contrib.sophia", "contrib.hutchinson_estimator_diag_hessian"), ("obj_fn",)),
}
PER_EXAMPLE = {"contrib.dpsgd", "contrib.differentially_private_aggregate"}     # have a gradient for each example

# Parts of the parameters and gradients for transformations that require another structure.
PARTS = {
    **dict.fromkeys(("sm3", "scale_by_sm3"), lambda tree: {"dense": tree["dense"]}),                # no scalars
    "contrib.scale_by_muon": lambda tree: {"w": tree["dense"]["w"]},
}
STARTS = {"lookahead": lambda params: optax.LookaheadParams(params, params)}    # initial parameters

SCHEDULES = {
    "constant_schedule": lambda m: m.constant_schedule(0.1),
    "cosine_decay_schedule": lambda m: m.cosine_decay_schedule(0.1, 10, alpha=0.1),
    "cosine_onecycle_schedule": lambda m: m.cosine_onecycle_schedule(10, 0.1),
    "exponential_decay": lambda m: m.exponential_decay(0.1, 3, 0.5, staircase=True, end_value=0.01),
    "join_schedules": lambda m: m.join_schedules([m.constant_schedule(0.1), m.linear_schedule(0.1, 0.0, 5)], [4]),
    "linear_schedule": lambda m: m.linear_schedule(0.1, 0.01, 10, transition_begin=2),
    "linear_onecycle_schedule": lambda m: m.linear_onecycle_schedule(10, 0.1),
    "piecewise_constant_schedule": lambda m: m.piecewise_constant_schedule(0.1, {3: 0.5, 6: 0.1}),
    "piecewise_interpolate_schedule": lambda m: m.piecewise_interpolate_schedule("linear", 0.1, {3: 0.5, 6: 0.1}),
    "polynomial_schedule": lambda m: m.polynomial_schedule(0.1, 0.01, 2, 10),
    "sgdr_schedule": lambda m: m.sgdr_schedule([{"init_value": 0.0, "peak_value": 0.1, "decay_steps": 6,
                                                 "warmup_steps": 2, "end_value": 0.01}] * 2),
    "warmup_constant_schedule": lambda m: m.warmup_constant_schedule(0.0, 0.1, 4),
    "warmup_cosine_decay_schedule": lambda m: m.warmup_cosine_decay_schedule(0.0, 0.1, 4, 10),
    "warmup_exponential_decay_schedule": lambda m: m.warmup_exponential_decay_schedule(0.0, 0.1, 4, 2, 0.5),
}

ADAM_STATE = optax.adam(0.1).init(A)
KEY = np.array([0, 5], np.uint32)

FUNCTIONS = {
    "apply_updates": lambda m: m.apply_updates(A, B),
    "assignment.hungarian_algorithm": lambda m: m.assignment.hungarian_algorithm(jnp.asarray(X)),
    "assignment.base_hungarian_algorithm": lambda m: m.assignment.base_hungarian_algorithm(jnp.asarray(X)),
    "bias_correction": lambda m: m.bias_correction(A, 0.9, np.int32(3)),
    "contrib.schedule_free_eval_params": lambda m: m.contrib.schedule_free_eval_params(
        m.contrib.schedule_free_sgd(0.1).init(A), B),
    "ctc_loss_with_forward_probs": lambda m: m.ctc_loss_with_forward_probs(
        vector(48).reshape(2, 6, 4), np.zeros((2, 6), np.float32), np.array([[1, 2, 0], [3, 1, 2]], np.int32),
        np.array([[0, 0, 1], [0, 0, 0]], np.float32)),
    "global_norm": lambda m: m.global_norm(A),
    "incremental_update": lambda m: m.incremental_update(A, B, 0.1),
    "init_empty_state": lambda m: m.init_empty_state(A),
    "losses.make_fenchel_young_loss": lambda m: m.losses.make_fenchel_young_loss(jax.nn.logsumexp)(X, X * 0.5),
    "matrix_inverse_pth_root": lambda m: m.matrix_inverse_pth_root(SPD, 4),
    "microbatch": lambda m: m.microbatch(lambda x: jnp.sum(x**2, 0), 0, 2)(X),
    "microbatching.micro_grad": lambda m: m.microbatching.micro_grad(
        lambda p, x: jnp.sum((x @ p) ** 2), microbatch_size=2)(vector(3), X),
    "microbatching.micro_vmap": lambda m: m.microbatching.micro_vmap(jnp.sin, microbatch_size=2)(X),
    "microbatching.reshape_batch_axis": lambda m: m.microbatching.reshape_batch_axis(X, 2),
    "nnls": lambda m: m.nnls(SPD, vector(3), 30),
    "per_example_global_norm_clip": lambda m: m.per_example_global_norm_clip(EXAMPLES, 1.0),
    "per_example_layer_norm_clip": lambda m: m.per_example_layer_norm_clip(EXAMPLES, 1.0),
    "periodic_update": lambda m: m.periodic_update(A, B, np.int32(6), 3),
    "perturbations.make_perturbed_fun": lambda m: m.perturbations.make_perturbed_fun(jnp.sum, 8)(KEY, vector(3)),
    "power_iteration": lambda m: m.power_iteration(SPD, v0=vector(3)),
    "safe_increment": lambda m: (m.safe_increment(np.int32(3)), m.safe_increment(np.int32(2**31 - 1))),
    "safe_norm": lambda m: m.safe_norm(X, 0.1, axis=0),
    "safe_root_mean_squares": lambda m: m.safe_root_mean_squares(X, 0.1),
    "scale_gradient": lambda m: m.scale_gradient(A, 0.5),
    "second_order.fisher_diag": lambda m: m.second_order.fisher_diag(nll, vector(3), X, vector(4)),
    "second_order.hessian_diag": lambda m: m.second_order.hessian_diag(nll, vector(3), X, vector(4)),
    "second_order.hvp": lambda m: m.second_order.hvp(nll, vector(3, 1), vector(3), X, vector(4)),
    "skip_large_updates": lambda m: m.skip_large_updates(A, np.int32(1), B, 2.0),
    "skip_not_finite": lambda m: m.skip_not_finite(A, np.int32(1), B),
    "transforms.unitwise_clip": lambda m: m.transforms.unitwise_clip(
        vector(3) ** 2, np.full(3, 0.1, np.float32), vector(3)),
    "transforms.unitwise_norm": lambda m: m.transforms.unitwise_norm(X),
    "update_infinity_moment": lambda m: m.update_infinity_moment(A, B, 0.9, 1e-8),
    "update_moment": lambda m: m.update_moment(A, B, 0.9, 2),
    "update_moment_per_elem_norm": lambda m: m.update_moment_per_elem_norm(A, B, 0.9, 2),
    "value_and_grad_from_state": lambda m: m.value_and_grad_from_state(loss)(A, state=m.lbfgs().init(A)),
    **{f"projections.projection_{name}": lambda m, name=name: find(m, f"projections.projection_{name}")(A)
       for name in ("l1_ball", "l1_sphere", "l2_ball", "l2_sphere", "linf_ball", "non_negative", "simplex")},
    "projections.projection_hypercube": lambda m: m.projections.projection_hypercube(X),
    "projections.projection_box": lambda m: m.projections.projection_box(A, B, jax.tree.map(lambda x: x + 1, B)),
    "projections.projection_halfspace": lambda m: m.projections.projection_halfspace(A, B, 0.5),
    "projections.projection_hyperplane": lambda m: m.projections.projection_hyperplane(A, B, 0.5),
    "projections.projection_vector": lambda m: m.projections.projection_vector(A, B),
    **{f"tree.{name}": lambda m, name=name: find(m, f"tree.{name}")(A)
       for name in ("batch_shape", "conj", "max", "min", "norm", "ones_like", "real", "size", "sum", "zeros_like",
                    "unwrap_random_key_data")},
    **{f"tree.{name}": lambda m, name=name: find(m, f"tree.{name}")(A, B)
       for name in ("add", "allclose", "cast_like", "div", "mul", "sub", "vdot")},
    "tree.add_scale": lambda m: m.tree.add_scale(A, 0.5, B),
    "tree.cast": lambda m: m.tree.cast(A, jnp.bfloat16),
    "tree.clip": lambda m: m.tree.clip(A, -0.5, 0.5),
    "tree.dtype": lambda m: m.tree.dtype(A, "promote"),
    "tree.full_like": lambda m: m.tree.full_like(A, 2.0),
    "tree.get": lambda m: m.tree.get(ADAM_STATE, "mu"),
    "tree.get_all_with_path": lambda m: [value for _, value in m.tree.get_all_with_path(ADAM_STATE, "count")],
    "tree.map_params": lambda m: m.tree.map_params(optax.adam(0.1), lambda x: x + 1.0, ADAM_STATE),
    "tree.random_like": lambda m: m.tree.random_like(KEY, A),
    "tree.scale": lambda m: m.tree.scale(0.5, A),
    "tree.set": lambda m: m.tree.set(ADAM_STATE, count=np.int32(7)),
    "tree.split_key_like": lambda m: m.tree.split_key_like(KEY, A),
    "tree.where": lambda m: m.tree.where(np.bool_(True), A, B),
}

# Functions without a row, with the reason.
LEFT_OUT = {
    "multi_normal": "returns an object of optax that contains arrays of JAX and is not a pytree",
}


def public_functions() -> Iterator[str]:
    """Public functions of optax, each once under its shortest name; collected by walking all public modules."""
    names_by_id: dict[int, list[str]] = {}
    seen: set[str] = set()

    def walk(module: types.ModuleType, path: str) -> None:
        seen.add(module.__name__)
        for name in sorted(n for n in dir(module) if not n.startswith("_")):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                public = value.__name__.startswith("optax") and "._" not in value.__name__
                if public and value.__name__ not in seen:
                    walk(value, f"{path}{name}.")
            elif _is_function(value):
                names_by_id.setdefault(id(value), []).append(path + name)

    walk(optax, "")
    yield from sorted(min(names, key=len) for names in names_by_id.values())


def _is_function(value: Any) -> bool:
    return (callable(value) and not inspect.isclass(value)
            and str(getattr(value, "__module__", "")).startswith("optax"))
