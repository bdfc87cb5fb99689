"""Operations on arrays as XLA has them, control flow and collectives: the public namespace `xjax.lax`.

Strict where `xjax.numpy` is generous: dtypes and shapes must agree. Each name is defined in the file that it is
imported from: first-order operations in `xjax.ops`, functions that need transforms in this package.
"""

from xjax.core.public import attributes_of
from xjax.lax import linalg as linalg
from xjax.lax.associative_scan import associative_scan
from xjax.lax.composite import composite
from xjax.lax.cond import cond, cond_p, switch
from xjax.lax.custom_root import custom_root
from xjax.lax.incomplete import (
    betainc,
    igamma,
    igamma_grad_a,
    igamma_grad_a_p,
    igamma_p,
    igammac,
    igammac_p,
    random_gamma_grad,
    regularized_incomplete_beta_p,
)
from xjax.lax.linear_solve import custom_linear_solve, linear_solve_p
from xjax.lax.loops import fori_loop, map
from xjax.lax.platform_dependent import platform_dependent
from xjax.lax.polynomial import polynomial, polynomial_p
from xjax.lax.ragged import RaggedDotDimensionNumbers, ragged_dot, ragged_dot_general
from xjax.lax.reductions import reduce, reduce_p, reduce_window, reduce_window_p
from xjax.lax.scaled_dot import scaled_dot
from xjax.lax.scan import scan
from xjax.lax.scan_rules import scan_p
from xjax.lax.shapes import (
    broadcast_like,
    broadcast_shapes,
    broadcast_to_rank,
    collapse,
    convert_element_type,
    dtype,
    full,
    full_like,
    shape_as_value,
)
from xjax.lax.while_loop import while_loop, while_p
from xjax.ops.approx_top_k import approx_max_k, approx_min_k, approx_top_k_p
from xjax.ops.arrange import (
    broadcasted_iota,
    concatenate,
    concatenate_p,
    empty,
    iota,
    iota_p,
    rev,
    rev_p,
    split,
    split_p,
    stack,
    stack_p,
    tile,
    tile_p,
    unstack,
    unstack_p,
)
from xjax.ops.bessel import bessel_i0e, bessel_i0e_p, bessel_i1e, bessel_i1e_p
from xjax.ops.bitwise import (
    and_p,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    clz,
    clz_p,
    mulhi,
    mulhi_p,
    not_p,
    or_p,
    population_count,
    population_count_p,
    shift_left,
    shift_left_p,
    shift_right_arithmetic,
    shift_right_arithmetic_p,
    shift_right_logical,
    shift_right_logical_p,
    xor_p,
)
from xjax.ops.collectives import (
    all_gather,
    all_gather_p,
    axis_index,
    axis_index_p,
    axis_size,
    pmax,
    pmax_p,
    pmean,
    pmin,
    pmin_p,
    ppermute,
    ppermute_p,
    pshuffle,
    psum,
    psum_p,
    psum_scatter,
)
from xjax.ops.compare import (
    clamp,
    clamp_p,
    eq,
    eq_p,
    ge,
    ge_p,
    gt,
    gt_p,
    le,
    le_p,
    lt,
    lt_p,
    ne,
    ne_p,
    select,
    select_n,
    select_n_p,
)
from xjax.ops.complex_numbers import complex, complex_p, conj, conj_p, imag, imag_p, real, real_p
from xjax.ops.conv import conv_general_dilated, conv_general_dilated_p
from xjax.ops.conv_forms import (
    conv,
    conv_general_dilated_local,
    conv_general_dilated_patches,
    conv_transpose,
    conv_with_general_padding,
)
from xjax.ops.conv_numbers import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    conv_dimension_numbers,
    conv_general_permutations,
    conv_general_shape_tuple,
    conv_shape_tuple,
    conv_transpose_shape_tuple,
    padtype_to_pads,
)
from xjax.ops.convert import (
    bitcast_convert_type,
    bitcast_convert_type_p,
    convert_element_type_p,
    reduce_precision,
    reduce_precision_p,
)
from xjax.ops.cumulative import (
    cumlogsumexp,
    cumlogsumexp_p,
    cummax,
    cummax_p,
    cummin,
    cummin_p,
    cumprod,
    cumprod_p,
    cumsum,
    cumsum_p,
)
from xjax.ops.dot import (
    DotAlgorithm,
    DotAlgorithmPreset,
    DotDimensionNumbers,
    Precision,
    PrecisionLike,
    batch_matmul,
    dot,
    dot_general,
    dot_general_p,
)
from xjax.ops.elementwise import (
    RoundingMethod,
    add,
    add_p,
    ceil,
    ceil_p,
    div,
    div_p,
    floor,
    floor_p,
    integer_pow,
    integer_pow_p,
    is_finite,
    is_finite_p,
    mul,
    mul_p,
    neg,
    neg_p,
    nextafter,
    nextafter_p,
    one_minus_square,
    one_minus_square_p,
    reciprocal,
    round,
    round_p,
    square,
    square_p,
    sub,
    sub_p,
)
from xjax.ops.exchange import all_to_all, all_to_all_p, pbroadcast, pswapaxes
from xjax.ops.fft import FftType, fft, fft_p
from xjax.ops.gather import gather, gather_p, scatter_add, scatter_add_p
from xjax.ops.identity import (
    copy_p,
    optimization_barrier,
    optimization_barrier_p,
    stage,
    stage_p,
    stop_gradient,
    stop_gradient_p,
)
from xjax.ops.index_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from xjax.ops.pcast import pcast
from xjax.ops.piecewise import abs, abs_p, max, max_p, min, min_p, rem, rem_p, sign, sign_p
from xjax.ops.reduce import (
    argmax,
    argmax_p,
    argmin,
    argmin_p,
    reduce_and,
    reduce_and_p,
    reduce_max,
    reduce_max_p,
    reduce_min,
    reduce_min_p,
    reduce_or,
    reduce_or_p,
    reduce_prod,
    reduce_prod_p,
    reduce_xor,
    reduce_xor_p,
)
from xjax.ops.rng import RandomAlgorithm, rng_bit_generator, rng_bit_generator_p, rng_uniform, rng_uniform_p
from xjax.ops.scatter import (
    scatter,
    scatter_apply,
    scatter_max,
    scatter_max_p,
    scatter_min,
    scatter_min_p,
    scatter_p,
    scatter_sub,
    scatter_sub_p,
)
from xjax.ops.scatter_product import scatter_mul, scatter_mul_p
from xjax.ops.shape import (
    broadcast,
    broadcast_in_dim,
    broadcast_in_dim_p,
    expand_dims,
    reduce_sum,
    reduce_sum_p,
    reshape,
    reshape_p,
    squeeze,
    squeeze_p,
    transpose,
    transpose_p,
)
from xjax.ops.slice import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_slice_p,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    dynamic_update_slice_p,
    index_in_dim,
    index_take,
    pad,
    pad_p,
    slice,
    slice_in_dim,
    slice_p,
)
from xjax.ops.sort import sort, sort_key_val, sort_p, top_k, top_k_p
from xjax.ops.special import (
    digamma,
    digamma_p,
    erf,
    erf_inv,
    erf_inv_p,
    erf_p,
    erfc,
    erfc_p,
    lgamma,
    lgamma_p,
    polygamma,
    polygamma_p,
    zeta,
    zeta_p,
)
from xjax.ops.transcendental import (
    acos,
    acos_p,
    acosh,
    acosh_p,
    asin,
    asin_p,
    asinh,
    asinh_p,
    atan,
    atan2,
    atan2_p,
    atan_p,
    atanh,
    atanh_p,
    cbrt,
    cbrt_p,
    cos,
    cos_p,
    cosh,
    cosh_p,
    exp,
    exp2,
    exp2_p,
    exp_p,
    expm1,
    expm1_p,
    log,
    log1p,
    log1p_p,
    log2,
    log2_p,
    log_p,
    logistic,
    logistic_p,
    pow,
    pow_p,
    rsqrt,
    rsqrt_p,
    sin,
    sin_p,
    sinh,
    sinh_p,
    sqrt,
    sqrt_p,
    tan,
    tan_p,
    tanh,
    tanh_p,
)
from xjax.ops.window import reduce_window_shape_tuple
from xjax.ops.window_reduce import reduce_window_max_p, reduce_window_min_p, reduce_window_sum_p
from xjax.ops.window_select import select_and_gather_add_p, select_and_scatter_add_p
from xjax.runtime.sharding_constraint import sharding_constraint_p, with_sharding_constraint

__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "DotAlgorithm", "DotAlgorithmPreset",
    "DotDimensionNumbers", "FftType", "GatherDimensionNumbers", "GatherScatterMode", "Precision", "PrecisionLike",
    "RaggedDotDimensionNumbers", "RandomAlgorithm", "RoundingMethod", "ScatterDimensionNumbers", "abs", "abs_p",
    "acos", "acos_p", "acosh", "acosh_p", "add", "add_p", "all_gather", "all_gather_p", "all_to_all", "all_to_all_p",
    "and_p", "approx_max_k", "approx_min_k", "approx_top_k_p", "argmax", "argmax_p", "argmin", "argmin_p", "asin",
    "asin_p", "asinh", "asinh_p", "associative_scan", "atan", "atan2", "atan2_p", "atan_p", "atanh", "atanh_p",
    "axis_index", "axis_index_p", "axis_size", "batch_matmul", "bessel_i0e", "bessel_i0e_p", "bessel_i1e",
    "bessel_i1e_p", "betainc", "bitcast_convert_type", "bitcast_convert_type_p", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "broadcast", "broadcast_in_dim", "broadcast_in_dim_p", "broadcast_like",
    "broadcast_shapes", "broadcast_to_rank", "broadcasted_iota", "cbrt", "cbrt_p", "ceil", "ceil_p", "clamp",
    "clamp_p", "clz", "clz_p", "collapse", "complex", "complex_p", "composite", "concatenate", "concatenate_p", "cond",
    "cond_p", "conj", "conj_p", "conv", "conv_dimension_numbers", "conv_general_dilated", "conv_general_dilated_local",
    "conv_general_dilated_p", "conv_general_dilated_patches", "conv_general_permutations", "conv_general_shape_tuple",
    "conv_shape_tuple", "conv_transpose", "conv_transpose_shape_tuple", "conv_with_general_padding",
    "convert_element_type", "convert_element_type_p", "copy_p", "cos", "cos_p", "cosh", "cosh_p", "cumlogsumexp",
    "cumlogsumexp_p", "cummax", "cummax_p", "cummin", "cummin_p", "cumprod", "cumprod_p", "cumsum", "cumsum_p",
    "custom_linear_solve", "custom_root", "digamma", "digamma_p", "div", "div_p", "dot", "dot_general",
    "dot_general_p", "dtype", "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_slice_p",
    "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim", "dynamic_update_slice_p",
    "empty", "eq", "eq_p", "erf", "erf_inv", "erf_inv_p", "erf_p", "erfc", "erfc_p", "exp", "exp2", "exp2_p", "exp_p",
    "expand_dims", "expm1", "expm1_p", "fft", "fft_p", "floor", "floor_p", "fori_loop", "full", "full_like", "gather",
    "gather_p", "ge", "ge_p", "gt", "gt_p", "igamma", "igamma_grad_a", "igamma_grad_a_p", "igamma_p", "igammac",
    "igammac_p", "imag", "imag_p", "index_in_dim", "index_take", "integer_pow", "integer_pow_p", "iota", "iota_p",
    "is_finite", "is_finite_p", "le", "le_p", "lgamma", "lgamma_p", "linear_solve_p", "log", "log1p", "log1p_p",
    "log2", "log2_p", "log_p", "logistic", "logistic_p", "lt", "lt_p", "map", "max", "max_p", "min", "min_p", "mul",
    "mul_p", "mulhi", "mulhi_p", "ne", "ne_p", "neg", "neg_p", "nextafter", "nextafter_p", "not_p", "one_minus_square",
    "one_minus_square_p", "optimization_barrier", "optimization_barrier_p", "or_p", "pad", "pad_p", "padtype_to_pads",
    "pbroadcast", "pcast", "platform_dependent", "pmax", "pmax_p", "pmean", "pmin", "pmin_p", "polygamma",
    "polygamma_p", "polynomial", "polynomial_p", "population_count", "population_count_p", "pow", "pow_p", "ppermute",
    "ppermute_p", "pshuffle", "psum", "psum_p", "psum_scatter", "pswapaxes", "ragged_dot", "ragged_dot_general",
    "random_gamma_grad", "real", "real_p", "reciprocal", "reduce", "reduce_and", "reduce_and_p", "reduce_max",
    "reduce_max_p", "reduce_min", "reduce_min_p", "reduce_or", "reduce_or_p", "reduce_p", "reduce_precision",
    "reduce_precision_p", "reduce_prod", "reduce_prod_p", "reduce_sum", "reduce_sum_p", "reduce_window",
    "reduce_window_max_p", "reduce_window_min_p", "reduce_window_p", "reduce_window_shape_tuple", "reduce_window_sum_p",
    "reduce_xor", "reduce_xor_p", "regularized_incomplete_beta_p", "rem", "rem_p", "reshape", "reshape_p", "rev",
    "rev_p", "rng_bit_generator", "rng_bit_generator_p", "rng_uniform", "rng_uniform_p", "round", "round_p", "rsqrt",
    "rsqrt_p", "scaled_dot", "scan", "scan_p", "scatter", "scatter_add", "scatter_add_p", "scatter_apply",
    "scatter_max", "scatter_max_p", "scatter_min", "scatter_min_p", "scatter_mul", "scatter_mul_p", "scatter_p",
    "scatter_sub", "scatter_sub_p", "select", "select_and_gather_add_p", "select_and_scatter_add_p", "select_n",
    "select_n_p", "shape_as_value", "sharding_constraint_p", "shift_left", "shift_left_p", "shift_right_arithmetic",
    "shift_right_arithmetic_p", "shift_right_logical", "shift_right_logical_p", "sign", "sign_p", "sin", "sin_p",
    "sinh", "sinh_p", "slice", "slice_in_dim", "slice_p", "sort", "sort_key_val", "sort_p", "split", "split_p", "sqrt",
    "sqrt_p", "square", "square_p", "squeeze", "squeeze_p", "stack", "stack_p", "stage", "stage_p", "stop_gradient",
    "stop_gradient_p", "sub", "sub_p", "switch", "tan", "tan_p", "tanh", "tanh_p", "tile", "tile_p", "top_k", "top_k_p",
    "transpose", "transpose_p", "unstack", "unstack_p", "while_loop", "while_p", "with_sharding_constraint", "xor_p",
    "zeta", "zeta_p"]

__getattr__ = attributes_of(__name__)
