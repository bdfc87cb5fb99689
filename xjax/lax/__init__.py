"""Operations on arrays as XLA has them, control flow and collectives: the public namespace `xjax.lax`.

Strict where `xjax.numpy` is generous: dtypes and shapes must agree. A name stands here, its text in the file that it is
imported from (first-order operations in `xjax.ops`, what needs transforms in this package).
"""

from xjax.ops.arrange import (
    broadcasted_iota, concatenate, concatenate_p, empty, iota, iota_p, rev, rev_p, split, split_p, stack, stack_p,
    tile, tile_p, unstack, unstack_p)
from xjax.ops.bitwise import (
    and_p, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, clz, clz_p, mulhi, mulhi_p, not_p, or_p,
    population_count, population_count_p, shift_left, shift_left_p, shift_right_arithmetic, shift_right_arithmetic_p,
    shift_right_logical, shift_right_logical_p, xor_p)
from xjax.ops.compare import (
    clamp, clamp_p, eq, eq_p, ge, ge_p, gt, gt_p, le, le_p, lt, lt_p, ne, ne_p, select, select_n, select_n_p)
from xjax.ops.complex_numbers import complex, complex_p, conj, conj_p, imag, imag_p, real, real_p
from xjax.ops.convert import (
    bitcast_convert_type, bitcast_convert_type_p, convert_element_type, convert_element_type_p, reduce_precision,
    reduce_precision_p)
from xjax.ops.dot import (
    DotAlgorithm, DotAlgorithmPreset, DotDimensionNumbers, Precision, PrecisionLike, batch_matmul, dot, dot_general,
    dot_general_p)
from xjax.ops.elementwise import (
    RoundingMethod, add, add_p, ceil, ceil_p, div, div_p, floor, floor_p, integer_pow, integer_pow_p, is_finite,
    is_finite_p, mul, mul_p, neg, neg_p, nextafter, nextafter_p, reciprocal, round, round_p, square, square_p, sub,
    sub_p)
from xjax.ops.gather import gather, gather_p, scatter_add, scatter_add_p
from xjax.ops.identity import (
    copy_p, optimization_barrier, optimization_barrier_p, stop_gradient, stop_gradient_p)
from xjax.ops.index_numbers import (
    GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers)
from xjax.ops.piecewise import abs, abs_p, max, max_p, min, min_p, rem, rem_p, sign, sign_p
from xjax.ops.reduce import (
    argmax, argmax_p, argmin, argmin_p, reduce_and, reduce_and_p, reduce_max, reduce_max_p, reduce_min, reduce_min_p,
    reduce_or, reduce_or_p, reduce_prod, reduce_prod_p, reduce_xor, reduce_xor_p)
from xjax.ops.scatter import (
    scatter, scatter_apply, scatter_max, scatter_max_p, scatter_min, scatter_min_p, scatter_mul, scatter_mul_p,
    scatter_p, scatter_sub)
from xjax.ops.shape import (
    broadcast, broadcast_in_dim, broadcast_in_dim_p, expand_dims, reduce_sum, reduce_sum_p, reshape, reshape_p,
    squeeze, squeeze_p, transpose, transpose_p)
from xjax.ops.slice import (
    dynamic_index_in_dim, dynamic_slice, dynamic_slice_in_dim, dynamic_slice_p, dynamic_update_index_in_dim,
    dynamic_update_slice, dynamic_update_slice_in_dim, dynamic_update_slice_p, index_in_dim, pad, pad_p, slice,
    slice_in_dim, slice_p)
from xjax.ops.special import (
    digamma, digamma_p, erf, erf_inv, erf_inv_p, erf_p, erfc, erfc_p, lgamma, lgamma_p, polygamma, polygamma_p, zeta,
    zeta_p)
from xjax.ops.transcendental import (
    acos, acos_p, acosh, acosh_p, asin, asin_p, asinh, asinh_p, atan, atan2, atan2_p, atan_p, atanh, atanh_p, cbrt,
    cbrt_p, cos, cos_p, cosh, cosh_p, exp, exp2, exp2_p, exp_p, expm1, expm1_p, log, log1p, log1p_p, log_p, logistic,
    logistic_p, pow, pow_p, rsqrt, rsqrt_p, sin, sin_p, sinh, sinh_p, sqrt, sqrt_p, tan, tan_p, tanh, tanh_p)
from xjax.lax.shapes import broadcast_shapes, broadcast_to_rank, collapse, full, full_like

__all__ = [
    "DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers", "GatherDimensionNumbers", "GatherScatterMode",
    "Precision", "PrecisionLike", "RoundingMethod", "ScatterDimensionNumbers", "abs", "abs_p", "acos", "acos_p",
    "acosh", "acosh_p", "add", "add_p", "and_p", "argmax", "argmax_p", "argmin", "argmin_p", "asin", "asin_p",
    "asinh", "asinh_p", "atan", "atan2", "atan2_p", "atan_p", "atanh", "atanh_p", "batch_matmul",
    "bitcast_convert_type", "bitcast_convert_type_p", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
    "broadcast", "broadcast_in_dim", "broadcast_in_dim_p", "broadcast_shapes", "broadcast_to_rank",
    "broadcasted_iota", "cbrt", "cbrt_p", "ceil", "ceil_p", "clamp", "clamp_p", "clz", "clz_p", "collapse", "complex",
    "complex_p", "concatenate", "concatenate_p", "conj", "conj_p", "convert_element_type", "convert_element_type_p",
    "copy_p", "cos", "cos_p", "cosh", "cosh_p", "digamma", "digamma_p", "div", "div_p", "dot", "dot_general",
    "dot_general_p", "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_slice_p",
    "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim", "dynamic_update_slice_p",
    "empty", "eq", "eq_p", "erf", "erf_inv", "erf_inv_p", "erf_p", "erfc", "erfc_p", "exp", "exp2", "exp2_p", "exp_p",
    "expand_dims", "expm1", "expm1_p", "floor", "floor_p", "full", "full_like", "gather", "gather_p", "ge", "ge_p",
    "gt", "gt_p", "imag", "imag_p", "index_in_dim", "integer_pow", "integer_pow_p", "iota", "iota_p", "is_finite",
    "is_finite_p", "le", "le_p", "lgamma", "lgamma_p", "log", "log1p", "log1p_p", "log_p", "logistic", "logistic_p",
    "lt", "lt_p", "max", "max_p", "min", "min_p", "mul", "mul_p", "mulhi", "mulhi_p", "ne", "ne_p", "neg", "neg_p",
    "nextafter", "nextafter_p", "not_p", "optimization_barrier", "optimization_barrier_p", "or_p", "pad", "pad_p",
    "polygamma", "polygamma_p", "population_count", "population_count_p", "pow", "pow_p", "real", "real_p",
    "reciprocal", "reduce_and", "reduce_and_p", "reduce_max", "reduce_max_p", "reduce_min", "reduce_min_p",
    "reduce_or", "reduce_or_p", "reduce_precision", "reduce_precision_p", "reduce_prod", "reduce_prod_p",
    "reduce_sum", "reduce_sum_p", "reduce_xor", "reduce_xor_p", "rem", "rem_p", "reshape", "reshape_p", "rev",
    "rev_p", "round", "round_p", "rsqrt", "rsqrt_p", "scatter", "scatter_add", "scatter_add_p", "scatter_apply",
    "scatter_max", "scatter_max_p", "scatter_min", "scatter_min_p", "scatter_mul", "scatter_mul_p", "scatter_p",
    "scatter_sub", "select", "select_n", "select_n_p", "shift_left", "shift_left_p", "shift_right_arithmetic",
    "shift_right_arithmetic_p", "shift_right_logical", "shift_right_logical_p", "sign", "sign_p", "sin", "sin_p",
    "sinh", "sinh_p", "slice", "slice_in_dim", "slice_p", "split", "split_p", "sqrt", "sqrt_p", "square", "square_p",
    "squeeze", "squeeze_p", "stack", "stack_p", "stop_gradient", "stop_gradient_p", "sub", "sub_p", "tan", "tan_p",
    "tanh", "tanh_p", "tile", "tile_p", "transpose", "transpose_p", "unstack", "unstack_p", "xor_p", "zeta", "zeta_p"]
