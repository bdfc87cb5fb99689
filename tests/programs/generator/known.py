"""Differences that are faults of JAX or choices of xjax: each with a narrow condition and the reason."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.programs.generator.program import Program


class Known(NamedTuple):
    """A difference: all patterns of `text` occur in the program, and all of `detail` in the reported difference."""

    reason: str
    text: tuple[str, ...]
    detail: tuple[str, ...]

    def explains(self, text: str, detail: str) -> bool:
        return (all(re.search(pattern, text, re.DOTALL) for pattern in self.text)
                and all(re.search(pattern, detail) for pattern in self.detail))


KNOWN = (
    Known("forward mode of a custom_vjp function whose value is not used: JAX drops the call before it looks for a "
          "rule",
          ("custom_vjp|custom_gradient",), ("forward-mode differentiation",)),
    Known("lax.map with batch_size over a leaf without elements: JAX divides by zero",
          ("batch_size=",), ("ZeroDivisionError: integer modulo by zero",)),
    Known("lax.top_k of NaN: in JAX one with a sign bit (0 / 0 on x86) is the smallest, in xjax any is the largest, "
          "as sort does", (r"lax\.top_k",), ("nan",)),
    Known("reverse mode of a reduce_window whose result is not used: JAX refuses its operation of pairs",
          (r"lax\.reduce_window",), ("Linearization failed to produce known values",)),
    Known("the derivative of spence is NaN in JAX between 1 and 1.5", (r"special\.spence",), ("nan",)),
    Known("JAX's series of exp1 keeps a tracer of the inner derivative under two jvp and jit",
          (r"special\.exp1",), ("No constant handler for type",)),
    Known("JAX computes isfinite of integers while it traces, and remat then refuses the bool",
          ("remat_of",), ("'bool' object has no attribute 'dtype'",)),
    Known("the derivative of xlogy and xlog1py with an integer operand: JAX refuses it",
          (r"special\.xlog",), ("does not accept dtype int",)),
    Known("exp1 of inf is 0, in JAX NaN", ("wild", r"special\.exp1"), ("nan",)),
    Known("a NaN slope times the zeros of a basis vector: XLA makes JAX's product a selection",
          ("wild", r"lax\.erf_inv", "jacfwd_of"), ("nan",)),
    Known("trapezoid of no samples is 0, as in NumPy; JAX raises an IndexError",
          (r"jnp\.trapezoid",), ("index is out of bounds for axis 0 with size 0",)),
    Known("remat that saves a complex value: JAX marks it with an operation of floats alone",
          ("remat_of",), ("reduce_precision does not accept dtype complex",)),
    Known("the derivative of the maximum of one number is 1; JAX's is 0 / 0 where the number is NaN",
          ("wild", r"jnp\.(max|min)\(\w+, axis=None"), ("nan",)),
    Known("the derivative of logaddexp and logaddexp2 of two equal infinities is finite, in JAX NaN",
          ("wild", r"jnp\.logaddexp2?"), ("nan",)),
    Known("gradients of scatter_mul with indices that may repeat: JAX refuses them",
          (r"segment_prod|\.(mul|multiply)\(",), ("scatter_mul gradients are only implemented",)),
    Known("pmap in pmap: JAX raises a ValueError on its internal mesh, xjax a NotImplementedError by name",
          (r"jax\.pmap.*jax\.pmap",), ("a pmap or shard_map inside another one",)),
)


def known_difference(p: Program, detail: str) -> str | None:
    """The reason why this difference is expected; None if it is not."""
    text = p.text()
    return next((known.reason for known in KNOWN if known.explains(text, detail)), None)
