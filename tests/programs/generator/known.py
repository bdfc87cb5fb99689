"""Differences that are JAX's own faults or choices of xjax: each with a narrow condition and the reason."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.programs.generator.program import Program


def _forward_over_reverse_rule(text: str, detail: str) -> bool:
    return "forward-mode differentiation" in detail and ("custom_vjp" in text or "custom_gradient" in text)


def _map_in_map(text: str, detail: str) -> bool:
    return "a pmap or shard_map inside another one" in detail and text.count("jax.pmap") > 1


def _empty_rows_in_batches(text: str, detail: str) -> bool:
    return "ZeroDivisionError: integer modulo by zero" in detail and "batch_size=" in text


def _sign_of_nan(text: str, detail: str) -> bool:
    return "lax.top_k" in text and "nan" in detail


def _unread_window(text: str, detail: str) -> bool:
    return "Linearization failed to produce known values" in detail and "lax.reduce_window" in text


def _slope_of_spence(text: str, detail: str) -> bool:
    return "special.spence" in text and "nan" in detail


def _slope_of_slope_of_exp1(text: str, detail: str) -> bool:
    return "special.exp1" in text and "No constant handler for type" in detail


def _constant_bools_in_remat(text: str, detail: str) -> bool:
    return "remat_of" in text and "'bool' object has no attribute 'dtype'" in detail


def _product_with_logarithm_of_an_integer(text: str, detail: str) -> bool:
    return "special.xlog" in text and "does not accept dtype int" in detail


def _exp1_of_infinity(text: str, detail: str) -> bool:
    return "wild" in text and "special.exp1" in text and "nan" in detail


def _slope_outside_of_erf_inv(text: str, detail: str) -> bool:
    return "wild" in text and "lax.erf_inv" in text and "jacfwd_of" in text and "nan" in detail


def _empty_integral(text: str, detail: str) -> bool:
    return "jnp.trapezoid" in text and "index is out of bounds for axis 0 with size 0" in detail


def _complex_residuals_of_remat(text: str, detail: str) -> bool:
    return "remat_of" in text and "reduce_precision does not accept dtype complex" in detail


def _extremum_of_one_nan(text: str, detail: str) -> bool:
    return "wild" in text and "nan" in detail and re.search(r"jnp\.(max|min)\(\w+, axis=None", text) is not None


# (condition on the program's text and on the text of the difference, reason)
KNOWN: tuple[tuple[Callable[[str, str], bool], str], ...] = (
    (_forward_over_reverse_rule,
     "forward mode of a custom_vjp function whose value is not used: JAX drops the call before it looks for a rule"),
    (_empty_rows_in_batches, "lax.map with batch_size over a leaf without elements: JAX divides by zero"),
    (_sign_of_nan, "lax.top_k of NaN: JAX takes one with a sign bit (0 / 0 on x86) for the smallest, xjax any for the "
     "largest, as sort does"),
    (_unread_window, "reverse mode of a reduce_window whose result is not used: JAX refuses its operation of pairs"),
    (_slope_of_spence, "the derivative of spence is NaN in JAX between 1 and 1.5"),
    (_slope_of_slope_of_exp1, "JAX's series of exp1 keeps a tracer of the inner derivative under two jvp and jit"),
    (_constant_bools_in_remat, "JAX computes isfinite of integers while it traces, and remat then refuses the bool"),
    (_product_with_logarithm_of_an_integer, "the derivative of xlogy and xlog1py beside an integer: JAX refuses it"),
    (_exp1_of_infinity, "exp1 of inf is 0, in JAX NaN"),
    (_slope_outside_of_erf_inv, "a NaN slope times the zeros of a basis vector: XLA makes JAX's product a selection"),
    (_empty_integral, "trapezoid of no samples is 0, as in NumPy; JAX raises an IndexError"),
    (_complex_residuals_of_remat, "remat that saves a complex value: JAX marks it with an operation of floats alone"),
    (_extremum_of_one_nan, "the derivative of the maximum of one number is 1; JAX's is 0 / 0 where the number is NaN"),
    (_map_in_map, "pmap in pmap: JAX raises a ValueError on its internal mesh, xjax a NotImplementedError by name"),
)


def known_difference(p: Program, detail: str) -> str | None:
    """The reason why this difference is expected, None if it is not."""
    text = p.text()
    return next((reason for holds, reason in KNOWN if holds(text, detail)), None)
