"""Custom derivative rules, and helper functions for them."""

from xjax.core.public import attributes_of
from xjax.transforms.closure_convert import closure_convert
from xjax.transforms.custom_gradient import custom_gradient
from xjax.transforms.custom_jvp import custom_jvp, custom_jvp_call_p
from xjax.transforms.custom_vjp import CustomVJPPrimal, custom_vjp, custom_vjp_call_p, custom_vjp_primal_tree_values
from xjax.transforms.linear_call import linear_call
from xjax.transforms.rule_functions import SymbolicZero, zero_from_primal

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p",
    "custom_vjp", "custom_vjp_call_p", "custom_vjp_primal_tree_values", "linear_call", "zero_from_primal"]

__getattr__ = attributes_of(__name__)
