"""In which form an operation is written for which platform: the one table of the limits that choose, and their reasons.

A form is an alternative to the operation that XLA has for a thing, for the sake of speed or of a right result. It is
written by a rule that stands in the `lower_on` of its operation, under the platforms that have the form; the rule asks
`limits`, and declines beyond them. A rule for all platforms asks with the one that the program is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Limits = Mapping[str, float]
_ALWAYS: Limits = {}


class Form(NamedTuple):
    """
    Attributes:
      what: the form, and what its limits count.
      cpu, gpu: the limits on this platform; None: the form is never taken there.
      why: what was measured, and on what; for a form that is there for right results, which fault it avoids.
      where: the file that writes it.
    """

    what: str
    cpu: Limits | None
    gpu: Limits | None
    why: str
    where: str


FORMS: dict[str, Form] = {
    # -- reductions, searches, sorting ------------------------------------------------------------------------------
    "extrema by slices": Form(
        "maxima and minima of arrays of so many `elements` or more", {"elements": 4096}, None,
        "XLA's library for CPUs, which takes such arrays, drops NaN", "ops/cpu/extrema.py"),
    "argmax by integers": Form(
        "positions of extrema in a `row` of so many or more", {"row": 1024}, None,
        "CPU, 1e7 float32: 13 times as fast as pairs of element and position; shorter rows gain little",
        "ops/cpu/argmax.py"),
    "sums term by term": Form(
        "sums over a `row` of so many or fewer, of arrays of so many `elements` or more",
        {"row": 16, "elements": 4096}, None,
        "CPU, [30000, n] and [300000, n] float32, of the time of XLA's library: 0.1 to 0.2 for n = 2, 0.4 to 0.8 for "
        "16, 0.6 to 1.5 for 32", "ops/cpu/sums.py"),
    "sort by integers": Form(
        "sorts of a `row` of so many or more by unsigned integers", {"row": 64}, None,
        "CPU: shorter rows are sorted by insertion, where there is little to gain", "ops/cpu/sort.py"),
    "top_k by blocks": Form(
        "the largest elements of a `row` of so many or more, float32", {"row": 1 << 13}, None,
        "CPU, 1e6 float32, k = 10: 6 times as fast as XLA's heap; shorter rows gain little", "ops/cpu/top_k.py"),
    "cumsum by loops": Form(
        "running sums of arrays of so many `elements` or more", {"elements": 1 << 14}, None,
        "CPU: a loop costs 10 us before it begins", "ops/cpu/cumsum.py"),
    "roots of sums of squares": Form(
        "float32 below so many `elements` summed in double precision; else in rows of up to `row`, or below so many "
        "elements, summed once more times what the sum needs; others plainly, with a branch for what is out of range",
        {"elements": 512, "row": 16}, None,
        "CPU, in times of the plain sum: double precision 1.0 for few elements, 1.1 to 2 for more in rows of up to 8, "
        "up to 10 in longer ones; the branch 1.0 for long rows, twice that if one is 0 or out of range, 1.6 to 3 for "
        "short ones; three sums 1.0 to 1.2 for few elements and rows of up to 4, 3 for long ones. GPU: three sums, "
        "since a branch waits for the host", "numpy/lengths.py"),
    "roots of sums of powers": Form(
        "float32 in double precision below so many `elements` with up to so many `roots`; others with a branch",
        {"elements": 4096, "roots": 32}, None,
        "CPU: so few roots in double precision take less time than a branch. GPU: always scaled first, no branch",
        "numpy/linalg/power_norms.py"),
    # -- products and convolutions ----------------------------------------------------------------------------------
    "narrow products first": Form(
        "products x.T @ y of so many `rows` or more, one operand at most so `narrow`", {"rows": 32, "narrow": 64}, None,
        "CPU, float32: x [n, 512], y [n, 10] in 0.1 to 0.2 of the time of the other order; of fewer rows the transpose "
        "takes longer than what the order saves", "ops/cpu/dot.py"),
    "depthwise convolutions by taps": Form(
        "kernels of so many `taps` or fewer, one slice for each", {"taps": 64}, None,
        "CPU: XLA's own is a loop over single elements", "ops/cpu/conv.py"),
    "convolutions by terms": Form(
        "so few `features` and `terms`, and `products` at a place (`products_last` if features are the last axis)",
        {"features": 4, "terms": 32, "products": 600, "products_last": 900}, None,
        "CPU: of more, XLA makes a fast matrix product", "ops/cpu/conv.py"),
    "gradients of kernels by products": Form(
        "so many `multiplications` or more in one matrix product; several, at most `products`, of so many `results` "
        "that sum over so many `positions`",
        {"multiplications": 1 << 17, "results": 1 << 12, "positions": 512, "products": 25}, None,
        "CPU, a step of ResNet-18: products over 16 to 256 positions took 1.4 times the time of XLA's own",
        "ops/cpu/conv.py"),
    "convolutions with features last": Form(
        "all others: operands and result are transposed", _ALWAYS, None, "CPU: XLA's library knows this order only",
        "ops/cpu/conv.py"),
    "convolutions of integers by floats": Form(
        "all", None, _ALWAYS, "XLA has none for integers on GPUs", "ops/gpu/conv.py"),
    # -- windows ----------------------------------------------------------------------------------------------------
    "windows by elements": Form(
        "windows of so many `elements` or fewer, one slice for each; of up to `read_again` fused with every reader",
        {"elements": 32, "read_again": 9}, {"elements": 32, "read_again": 9},
        "CPU: 2 to 8 times as fast as reduce_window, which loses NaN. GPU: not measured, as on CPUs", "ops/window.py"),
    "windows of pairs by reduction": Form(
        "windows of more elements, of value and tangent", _ALWAYS, None,
        "XLA has no reduction of several arrays on GPUs", "ops/cpu/windows.py"),
    "windows that keep NaN": Form(
        "windows of more elements, with a second result: is there a NaN?", _ALWAYS, None,
        "XLA's maxima and minima of windows lose NaN on CPUs", "ops/cpu/windows.py"),
    "windows over padded holes": Form(
        "base dilation", _ALWAYS, None, "XLA loses the holes on CPUs", "ops/cpu/windows.py"),
    # -- programs ---------------------------------------------------------------------------------------------------
    "barriers as calls": Form(
        "optimization_barrier", _ALWAYS, None, "XLA for CPUs removes barriers before it fuses", "ops/identity.py"),
    "numbers apart": Form(
        "numbers with so many `paths` to them", {"paths": 2**16}, None,
        "LLVM follows each path: of a hash of 8 rounds, 2 ** 40", "core/lowering.py"),
    "draws apart": Form(
        "random draws, as functions that are not inlined", _ALWAYS, None,
        "fused ciphers do not finish compiling on jaxlib 0.12", "core/lowering.py"),
    "recomputation in a branch": Form(
        "what checkpoint computes again, up to so many `levels` of branches", {"levels": 16}, None,
        "XLA for CPUs removes barriers before it looks for equal computations; for more levels it takes long, and its "
        "stack overflows at some hundreds", "transforms/remat.py"),
    "cube roots of normal numbers": Form(
        "numbers below the normal ones are zeros", _ALWAYS, None, "XLA's cbrt of these is nonsense on CPUs",
        "ops/transcendental.py"),
    "eager operations": Form(
        "the `level` of XLA's optimizations for one operation", {"level": 1}, {"level": 1},
        "CPU: one takes 6 to 40 ms to compile; level 1 saves a third and costs nothing at this size. GPU: not measured",
        "runtime/programs/executable.py"),
    "log1p of doubles": Form(
        "the logarithm of 1 + x, with what this sum has lost", _ALWAYS, None,
        "XLA's is up to 121 ulp off near -0.4 on CPUs, and takes 1.6 times as long", "ops/transcendental.py"),
    "atan2 of doubles": Form(
        "ordinates below the normal numbers are zeros of their sign", _ALWAYS, None,
        "XLA's loses the sign of such an ordinate on CPUs", "ops/transcendental.py"),
    # -- layers -----------------------------------------------------------------------------------------------------
    "sparse products unrolled": Form(
        "products for which a stored value and column save so many seconds (`saved`), if that is more than `compiling`",
        {"saved": 1.2e-9, "compiling": 0.5}, None,
        "CPU, two cores: benchmarks/graph.py. H200, segments: 0.93 of the time of JAX for 128 columns of a power law; "
        "unrolled, 100k nodes and 1M edges: 1.26 for 16 columns, 0.94 for 128", "xnn/sparse/product.py"),
    "sampled products": Form(
        "rows of all heads are read as one up to so many features (`short`), and all terms are made `at_once`",
        {"short": 16, "at_once": 128}, {"short": 16, "at_once": 128},
        "CPU: a loop over 8 numbers takes twice as long for each. GPU: not measured, as on CPUs",
        "xnn/sparse/product.py"),
    "attention by cuDNN": Form(
        "heads of so many `features` or fewer, a multiple of `step`, in half precision", None,
        {"features": 128, "step": 8}, "what cuDNN takes on all GPUs; not measured", "xnn/layers/dot_product.py"),
}


def limits(form: str, platform: str) -> Limits | None:
    """The limits of a form in programs for a platform, "cpu" or "gpu"; None where it is never taken.

    >>> limits("argmax by integers", "cpu"), limits("argmax by integers", "gpu")
    ({'row': 1024}, None)
    """
    return getattr(FORMS[form], platform)
