"""Alternative forms of operations on each platform: one table of the limits that select a form, with the reasons.

A form replaces the operation that XLA has, for speed or for correct results. It is written by a rule in the `lower_on`
of the primitive, under the platforms that have the form. The rule calls `limits` and declines outside the limits. A
rule for all platforms calls `limits` with the platform that the program is compiled for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Limits = Mapping[str, float]
_ALWAYS: Limits = {}


class Form(NamedTuple):
    """
    Attributes:
      what: the form, and the quantities that its limits count.
      cpu, gpu: the limits on this platform; None: the form is never used there.
      why: the measurement and its platform; for a form that ensures correct results, the bug that it avoids.
      where: the file with the rule that writes it.
    """

    what: str
    cpu: Limits | None
    gpu: Limits | None
    why: str
    where: str


FORMS: dict[str, Form] = {
    # -- reductions, searches, sorting ------------------------------------------------------------------------------
    "extrema by slices": Form(
        "maxima and minima of arrays with at least `elements` elements", {"elements": 4096}, None,
        "XLA's library for CPUs, which is used for such arrays, drops NaN", "ops/cpu/extrema.py"),
    "argmax by integers": Form(
        "positions of extrema in rows of at least `row` elements", {"row": 1024}, None,
        "CPU, 1e7 float32: 13 times as fast as a reduction of (element, position) pairs; shorter rows gain little",
        "ops/cpu/argmax.py"),
    "sums term by term": Form(
        "sums over rows of at most `row` elements, of arrays with at least `elements` elements",
        {"row": 16, "elements": 4096}, None,
        "CPU, [30000, n] and [300000, n] float32, relative to the time of XLA's library: 0.1 to 0.2 for n = 2, 0.4 to "
        "0.8 for 16, 0.6 to 1.5 for 32", "ops/cpu/sums.py"),
    "sums in two stages": Form(
        "sums of at least `elements` elements, over at most `last` positions of the last axes and over axes before a "
        "kept one", {"elements": 4096, "last": 32}, None,
        "CPU, groups of a group normalisation: 0.1 for 8 groups of 2 features, 0.4 for 8 of 4, 0.6 for 32 of 16",
        "ops/cpu/sums.py"),
    "sort by integers": Form(
        "sorts of rows of at least `row` elements, by unsigned integers", {"row": 64}, None,
        "CPU: XLA sorts shorter rows by insertion, so there is little to gain", "ops/cpu/sort.py"),
    "top_k by blocks": Form(
        "the largest elements of float32 rows of at least `row` elements", {"row": 1 << 13}, None,
        "CPU, 1e6 float32, k = 10: 6 times as fast as XLA's heap; shorter rows gain little", "ops/cpu/top_k.py"),
    "cumsum by loops": Form(
        "cumulative sums of arrays with at least `elements` elements", {"elements": 1 << 14}, None,
        "CPU: a loop has a fixed cost of 10 us", "ops/cpu/cumsum.py"),
    "roots of sums of squares": Form(
        "float32 arrays of fewer than `elements` elements: one sum in double precision; other arrays of this size, and "
        "rows of at most `row` elements: a plain sum and a scaled one; else a plain sum, with a branch if it is out of "
        "range",
        {"elements": 512, "row": 16}, None,
        "CPU, relative to the plain sum: double precision 1.0 for few elements, 1.1 to 2 for more in rows of up to 8, "
        "up to 10 in longer rows; the branch 1.0 for long rows, 2.0 if one is 0 or out of range, 1.6 to 3 for "
        "short rows; three sums 1.0 to 1.2 for few elements and rows of up to 4, 3 for long rows. GPU: three sums, "
        "since a branch waits for the host", "numpy/lengths.py"),
    "roots of sums of powers": Form(
        "float32 arrays of fewer than `elements` elements and at most `roots` roots: double precision; else a branch",
        {"elements": 4096, "roots": 32}, None,
        "CPU: up to 32 roots in double precision take less time than a branch. GPU: always scaled first, no branch",
        "numpy/linalg/power_norms.py"),
    # -- products and convolutions ----------------------------------------------------------------------------------
    "narrow products first": Form(
        "products x.T @ y of at least `rows` rows, one operand with at most `narrow` columns or a result of at most "
        "`results` elements", {"rows": 32, "narrow": 64, "results": 1 << 18}, None,
        "CPU, float32: x [n, 512], y [n, 10] in 0.1 to 0.2 of the time of the other order; x [n, 1024], y [n, 256] in "
        "0.7 to 0.95, x [n, 3072], y [n, 768] in 1.5; with fewer rows the transpose takes longer than the order saves",
        "ops/cpu/dot.py"),
    "products of few rows turned": Form(
        "products x @ w.T of a matrix x with at most `rows` rows, and w of at least `elements` elements",
        {"rows": 64, "elements": 4096}, None,
        "CPU, float32, w [5000, 768] and [256, 1024]: 0.1 of the time for one row, 0.6 for 8, 0.7 for 32, 0.85 for 64, "
        "1.0 for 128", "ops/cpu/dot.py"),
    "batched products turned": Form(
        "products with batch axes over the rows of an operand of at least `elements` elements", {"elements": 1 << 14},
        None, "CPU, float32, gradients of attention of 128 to 512 positions, 8 heads of 32 and 64: 0.78 to 0.95 of the "
        "time", "ops/cpu/dot.py"),
    "depthwise convolutions by taps": Form(
        "kernels of at most `taps` taps, one slice for each tap", {"taps": 64}, None,
        "CPU: XLA's own form is a loop over single elements", "ops/cpu/conv.py"),
    "convolutions by terms": Form(
        "at most `features` features, `terms` terms and `products` products per position (`products_last` if features "
        "are the last axis)",
        {"features": 4, "terms": 32, "products": 600, "products_last": 900}, None,
        "CPU: for larger ones XLA uses a fast matrix product", "ops/cpu/conv.py"),
    "convolutions by one product": Form(
        "kernels of one element, and results of one position", _ALWAYS, None,
        "CPU, 16 images of 8 x 8 to 32 x 32, 64 to 1024 features: 0.4 to 0.8 of the time", "ops/cpu/conv.py"),
    "convolutions by products of positions": Form(
        "gradients of the kernels of dilated operands, of at most `results` elements", {"results": 25}, None,
        "CPU, a transposed convolution of 2 x 2 with strides of 2, 32 to 64 features: 0.2 of the time",
        "ops/cpu/conv.py"),
    "convolutions by shifted products": Form(
        "gradients of operands, of kernels with at most `taps` elements: with at least `many` elements, or, if there "
        "are at least `features` features, with strides or at most `positions` positions for each feature",
        {"taps": 25, "many": 16, "features": 16, "positions": 4}, None,
        "CPU, float32: kernels of 5 x 5 take 0.3 to 0.9 of the time, strides of 2 0.6 to 0.9, 256 features at 8 x 8 "
        "positions 0.97, 512 at 4 x 4 0.65", "ops/cpu/conv.py"),
    "convolutions with features last": Form(
        "all other convolutions: operands and result are transposed", _ALWAYS, None,
        "CPU: XLA's library has this order of axes only", "ops/cpu/conv.py"),
    "transposes of convolutions apart": Form(
        "operands of at least `elements` elements are not fused with their transpose", {"elements": 4096}, None,
        "CPU, a step of ResNet-18: 0.87 of the time", "ops/cpu/conv.py"),
    "convolutions of integers by floats": Form(
        "all", None, _ALWAYS, "XLA has no convolutions of integers on GPUs", "ops/gpu/conv.py"),
    "attention in blocks": Form(
        "at least `queries` queries, of which some exclude keys by their position, or at least `recomputed` products: "
        "`blocks` blocks, or `blocks_recomputed` with the weights recomputed; each has at least `block` queries",
        {"queries": 256, "block": 128, "blocks": 4, "blocks_recomputed": 8, "recomputed": 1 << 26}, None,
        "CPU, float32, causal, 8 heads of 64, with gradients: 0.8 to 0.9 of the time for 256 to 1024 queries, 0.7 for "
        "2048, 0.5 for 4096; recomputed 0.65, with 0.1 of the memory. Other attention, recomputed: 1.2 to 1.4 of the "
        "time",
        "nn/attention_in_blocks.py"),
    # -- windows ----------------------------------------------------------------------------------------------------
    "windows by elements": Form(
        "windows of at most `elements` elements, one slice for each; up to `read_again` fused into every consumer",
        {"elements": 32, "read_again": 9}, {"elements": 32, "read_again": 9},
        "CPU: 2 to 8 times as fast as reduce_window, which loses NaN. GPU: not measured, as on CPUs", "ops/window.py"),
    "windows of pairs by reduction": Form(
        "larger windows, of value and tangent", _ALWAYS, None,
        "XLA has no window reduction of several arrays on GPUs", "ops/cpu/windows.py"),
    "windows that keep NaN": Form(
        "larger windows, with a second result: whether there is a NaN", _ALWAYS, None,
        "XLA's maxima and minima of windows lose NaN on CPUs", "ops/cpu/windows.py"),
    "windows over padded holes": Form(
        "base dilation", _ALWAYS, None, "XLA ignores the holes on CPUs", "ops/cpu/windows.py"),
    # -- programs ---------------------------------------------------------------------------------------------------
    "barriers as calls": Form(
        "optimization_barrier", _ALWAYS, None, "XLA for CPUs removes barriers before it fuses", "ops/identity.py"),
    "numbers apart": Form(
        "scalars with at least `paths` paths to them in the program", {"paths": 2**16}, None,
        "LLVM follows each path: a hash of 8 rounds has 2 ** 40", "core/lowering.py"),
    "long chains apart": Form(
        "values of at least `elements` elements with several readers, if their fused operations read more than "
        "`arrays` arrays", {"elements": 4096, "arrays": 6}, None,
        "CPU, a training step of a GPT-2 of 12 layers of 256: 0.94 of the time, and 0.67 of the compile time. With 4 "
        "arrays parts of GELU and attention are stored too, without gain", "core/lowering.py"),
    "rows of arguments apart": Form(
        "rows of at most `elements` elements, of arguments of the program, read by a scan without a loop",
        {"elements": 1 << 13}, None,
        "CPU: a row that is fused into a loop makes it differ from the loops of other steps, and XLA compiles equal "
        "loops once. A step of ViT-tiny compiles in 0.5 of the time, DistilBERT 0.63, GPT-2 0.88; they run as fast",
        "lax/scan_rules.py"),
    "rows before loops": Form(
        "rows of at least `elements` elements, of arrays that are constant in a loop, read by a scan without a loop",
        {"elements": 1 << 14}, None,
        "CPU, a token of a GPT-2 of 12 layers of 768: 0.6 of the time, without a copy of each row in each iteration",
        "lax/scan_rules.py"),
    "draws apart": Form(
        "random draws, as functions that are not inlined", _ALWAYS, None,
        "the compilation of fused ciphers does not end on jaxlib 0.12", "core/lowering.py"),
    "recomputation in a branch": Form(
        "the recomputation of checkpoint, up to `levels` nested branches", {"levels": 16}, None,
        "XLA for CPUs removes barriers before it searches for equal computations; more levels compile slowly, and at "
        "some hundreds XLA's stack overflows", "transforms/remat.py"),
    "cube roots of normal numbers": Form(
        "subnormal numbers are treated as zeros", _ALWAYS, None, "XLA's cbrt of subnormal numbers is wrong on CPUs",
        "ops/transcendental.py"),
    "eager operations": Form(
        "the `level` of XLA's optimizations for one operation", {"level": 1}, {"level": 1},
        "CPU: an operation compiles in 6 to 40 ms; level 1 saves a third and does not slow it down. GPU: not measured",
        "runtime/programs/executable.py"),
    "log1p of doubles": Form(
        "the logarithm of 1 + x, corrected by the rounding error of this sum", _ALWAYS, None,
        "XLA's is up to 121 ulp off near -0.4 on CPUs, and takes 1.6 times as long", "ops/transcendental.py"),
    "atan2 of doubles": Form(
        "subnormal ordinates are treated as zeros of the same sign", _ALWAYS, None,
        "XLA's loses the sign of such an ordinate on CPUs", "ops/transcendental.py"),
    # -- layers -----------------------------------------------------------------------------------------------------
    "sparse products unrolled": Form(
        "products that save at least `compiling` seconds, at `saved` seconds for each stored value and column",
        {"saved": 1.2e-9, "compiling": 0.5}, None,
        "CPU, two cores: benchmarks/graph.py. H200, segments: 0.93 of the time of JAX for 128 columns of a power law; "
        "unrolled, 100k nodes and 1M edges: 1.26 for 16 columns, 0.94 for 128", "xnn/sparse/product.py"),
    "sampled products": Form(
        "rows of all heads are read as one row up to `short` features; `at_once` features are computed together",
        {"short": 16, "at_once": 128}, {"short": 16, "at_once": 128},
        "CPU: a loop over 8 numbers takes twice as long for each. GPU: not measured, as on CPUs",
        "xnn/sparse/product.py"),
    "gates apart": Form(
        "the gates of recurrent cells, as an array before they are split", _ALWAYS, None,
        "CPU, 128 steps of 32 rows, 256 features, without gradients: 0.77 of the time for LSTM, 0.6 for GRU; with "
        "gradients 0.97 to 1.0. XLA adds the parts of the gates again in the loop of each gate, without vector "
        "instructions", "xnn/layers/cells.py"),
    "attention by cuDNN": Form(
        "heads of at most `features` features, a multiple of `step`, in half precision", None,
        {"features": 128, "step": 8}, "cuDNN supports these sizes on all GPUs; not measured",
        "xnn/layers/dot_product.py"),
}


def limits(form: str, platform: str) -> Limits | None:
    """The limits of a form in programs for a platform, "cpu" or "gpu"; None if the form is never used there.

    >>> limits("argmax by integers", "cpu"), limits("argmax by integers", "gpu")
    ({'row': 1024}, None)
    """
    return getattr(FORMS[form], platform, None)         # programs with symbolic dimensions are for any platform
