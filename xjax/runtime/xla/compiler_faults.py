"""Faults of the compilers below xjax, in one table: the versions that have them, and how xjax avoids them.

Elsewhere features of jaxlib are probed. A miscompilation cannot be probed: the table lists the versions that have it.
A fault is avoided in one of two ways: by a compiler option, which `with_workarounds` adds when a program that may have
the fault is compiled; or by another form of an operation, in the file that the row names. `tests/compilers` runs the
program of each row.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xjax.core.errors import warn
from xjax.core.versions import version_numbers
from xjax.runtime.xla.names import jaxlib_version

_YNN = "xla_cpu_experimental_ynn_fusion_type"
_SINGLE_PRODUCTS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"


def _is_more_than_single_products(value: str) -> bool:
    """Whether a value of the YNN flag fuses more than one product or convolution at a time.

    >>> [_is_more_than_single_products(value) for value in ("individual_dot", "-reduce", "", "+eltwise", "dot")]
    [False, False, False, True, True]
    """
    items = [item.strip().lower().replace("library_fusion_type_", "") for item in str(value).split(",")]
    kinds = {"reduce"} if any(item[:1] in ("+", "-") for item in items) else set()     # relative to XLA's default
    for item in items:
        (kinds.discard if item.startswith("-") else kinds.add)(item.lstrip("+-"))
    return bool(kinds - {"", "individual_dot", "individual_convolution"})


_PRODUCT = re.compile(r"stablehlo\.dot_general .*?contracting_dims = \[([\d, ]*)\] x .*: \(tensor<([\dx]*)")
_SEVEN_AXES = re.compile(r"tensor<(?:\d+x){7}")
_FEW_TERMS = 8


def _reduces_many_axes_or_short_products(text: str) -> bool:
    """Whether a program has a reduction, and also arrays of 7 axes or products over fewer than 8 terms.

    If XLA partitions a program over devices, a product may have fewer terms on each device than in the text.
    """
    if "stablehlo.reduce" not in text:
        return False
    few = _FEW_TERMS
    if "sdy.manual_computation" not in text and (mesh := re.search("sdy.mesh .*", text)):
        few *= math.prod(map(int, re.findall(r"=(\d+)", mesh[0])))
    return bool(_SEVEN_AXES.search(text)) or any(_terms(*match) < few for match in _PRODUCT.findall(text))


def _terms(contracted: str, shape: str) -> int:
    """The number of terms of each element of a product."""
    sizes = [int(n) for n in shape.split("x") if n]
    return math.prod(sizes[int(axis)] for axis in contracted.split(",") if axis)


_TO_FLOAT8 = re.compile(r"stablehlo\.convert .* -> tensor<[\dx]*f8E")
_FROM_FLOAT8 = re.compile(r"stablehlo\.convert .* : \(tensor<[\dx]*f8E")


def _casts_to_float8_and_back(text: str) -> bool:
    """Whether a program converts numbers to a float8 type and also from one."""
    return "f8E" in text and bool(_TO_FLOAT8.search(text) and _FROM_FLOAT8.search(text))


def _is_on(value: object) -> bool:
    """Whether the value of a boolean flag is true."""
    return str(value).lower() in ("true", "1")


class Option(NamedTuple):
    """An XLA flag with the value that avoids a fault.

    Attributes:
      brings_back: whether another value of the flag restores the fault.
      concerns: whether a program, as text, may have the fault. The flag is set only for such programs.
    """

    flag: str
    value: str | bool
    brings_back: Callable[[Any], bool]
    concerns: Callable[[str], bool] = lambda text: True


class Fault(NamedTuple):
    """A fault of a compiler.

    Attributes:
      what: description of the fault.
      versions: pairs of jaxlib versions, one for each range: the first with the fault, and the first without it ("" if
        there is none yet). Only tested versions count.
      program: a program that shows the fault: Python with `jax`, `jnp` and `np`, which raises AssertionError.
      option: the option that avoids the fault; None if `form` does.
      form: the file and the form of the operation that avoids the fault; "" if an option does, or if nothing does.
      platform: platform of the devices.
      report: where the fault is reported.
    """

    what: str
    versions: tuple[tuple[str, str], ...]
    program: str = ""
    option: Option | None = None
    form: str = ""
    platform: str = "cpu"
    report: str = ""

    def is_in(self, version: str) -> bool:
        """Whether a jaxlib version has the fault."""
        number = version_numbers(version)
        return any(version_numbers(first) <= number and not (fixed and number >= version_numbers(fixed))
                   for first, fixed in self.versions)


_ALL = (("0.10.2", ""),)

FAULTS: dict[str, Fault] = {
    "reductions by YNN": Fault(
        what="A product over 3 terms that is fused with a reduction is wrong for rows from 2**15 (2**14 in float64); a "
             "sum of products of rank 7 with an axis of size 1 ends the process.",
        versions=(("0.10.2", "0.11"),),
        program="x = np.arange(120_000, dtype=np.float32).reshape(40_000, 3) / 120_000\n"
                "f = lambda x: jax.vmap(lambda row: jnp.sum((np.eye(3, dtype=np.float32) @ row) ** 2))(x)\n"
                "assert np.allclose(jax.jit(f)(x), (x ** 2).sum(1), rtol=1e-5)\n"
                "a = np.ones((3, 1, 2, 2, 8, 8, 8), np.float32)\n"
                "assert jax.jit(lambda a, b: jnp.sum(a * b, axis=3))(a, a).sum() == 6144\n",
        option=Option(_YNN, _SINGLE_PRODUCTS, _is_more_than_single_products,
                      _reduces_many_axes_or_short_products),
        report="jax-ml/jax#39103, #40412"),
    "draws that never finish compiling": Fault(
        what="LLVM's loop vectoriser (`onlyFirstLaneUsed`) follows every path through the rounds of ciphers that are "
             "fused with each other or with a concatenation: 2**40 of them for two.",
        versions=(("0.11.0", "0.11.1"), ("0.11.2", "")),
        program="def draws(key):\n"
                "    return jnp.concatenate([jax.random.normal(k, (8, 8)) for k in jax.random.split(key, 3)])\n"
                "jax.jit(draws).lower(jax.random.key(0)).compile()\n",
        form="ops/prng.py: programs that draw are separate functions, which are not fused with their callers"),
    "numbers at the end of long chains": Fault(
        what="If a number is computed by a chain of operations, each of which reads the previous one twice, it is "
             "fused into the loops that read it. Each operation doubles the compile time, to hours for a hash of 8 "
             "rounds.",
        versions=_ALL,
        program="def hashed(h):\n"
                "    for _ in range(8):\n"
                "        h = h ^ (h << 13); h = h ^ (h >> 17); h = h ^ (h << 5)\n"
                "    return h\n"
                "f = lambda s, x: jnp.concatenate([jnp.full(70, hashed(s), x.dtype), x * hashed(s)])\n"
                "jax.jit(f).lower(np.uint32(7), np.arange(200, dtype=np.uint32)).compile()\n",
        form="core/lowering.py: a number with very many paths to it is computed in a separate function"),
    "loops inside pmap": Fault(
        what="The compiler ends the process with a segmentation fault for some programs with loops inside pmap.",
        versions=(("0.11.2", "0.12"),),
        form="jaxlib_versions.py: the requirements exclude the version, and its use causes a warning"),
    "many nested functions": Fault(
        what="A module of 200 functions that call each other ends the process.",
        versions=(("0.10.2", "0.11"),),
        form="core/lowering.py: a program that occurs once is inlined"),
    "NaN in extrema by YNN": Fault(
        what="Maxima and minima of 4,096 float elements or more drop NaN.",
        versions=_ALL,
        program="x = np.ones((64, 128), np.float32)\n"
                "x[3, 5] = np.nan\n"
                "assert np.isnan(jax.jit(jnp.max)(x)) and np.isnan(jax.jit(lambda x: x.min(0))(x)[5])\n",
        form="ops/cpu/extrema.py: extrema of slices, element by element"),
    "dilated operands of windows": Fault(
        what="reduce_window of 4,096 elements or more ignores the holes of base_dilation along an axis whose window "
             "and stride are 1.",
        versions=_ALL,
        program="x = np.ones((16383, 2), np.float32)\n"
                "f = lambda x: jax.lax.reduce_window(jnp.pad(x, ((0, 1), (0, 0)), constant_values=1), jnp.zeros(()),\n"
                "    jax.lax.add, (1, 1), (2, 1), 'VALID', base_dilation=(1, 2))\n"
                "assert np.array_equal(jax.jit(f)(x)[1], [1, 0, 1])\n",
        form="ops/cpu/windows.py: the operand is first padded between its elements",
        report="openxla/xla#48714"),
    "rounding of operands that are computed again": Fault(
        what="An operand that several loops read is computed in each, and may be rounded differently there: the "
             "element that is the maximum is not equal to the maximum.",
        versions=_ALL,
        form="ops/identity.py: computed_once"),
    "barriers on CPUs": Fault(
        what="`optimization_barrier` is removed before operations are fused.",
        versions=_ALL,
        form="core/lowering.py: lower_barrier is a call that is not inlined"),
    "barriers of barriers": Fault(
        what="A function that is not inlined and returns its argument, called with the result of another such call, "
             "may read it in the wrong order: the call gets the layout of the windows that a nearby gather makes, but "
             "its argument has another layout.",
        versions=(("0.12", ""),),
        program="x = np.arange(20, dtype=np.float32).reshape(4, 5)\n"
                "d = np.arange(8, dtype=np.float32).reshape(4, 2)\n"
                "hold = jax.lax.optimization_barrier\n"
                "windows = lambda x, i: x.at[:, i].get(mode='fill', fill_value=0)\n"
                "f = lambda x, d, i: (jnp.exp(hold(d) - hold(windows(x, i))), hold(hold(d)))\n"
                "assert np.array_equal(jax.jit(f)(x, d, np.array([1, 3]))[1], d)\n",
        form="core/lowering.py: a barrier takes the operands of the barriers that made its operands"),
    "inverse pairs": Fault(
        what="Under jit log(exp(x)) is x and sqrt(x * x) is |x|, also where exp(x) or x * x overflows; operation by "
             "operation they give inf.",
        versions=(("0.10.2", "0.11"),),
        program="x = np.array([89, 200], np.float32)\n"
                "assert np.all(np.isinf(jax.jit(lambda x: jnp.log(jnp.exp(x)))(x)))\n",
        report="openxla/xla#42732"),
    "exponentials of constant NaN": Fault(
        what="Under jit the exponential of a float32 array is uninitialised memory if LLVM can prove that the operand "
             "is NaN: exp(x * nan).",
        versions=(("0.10.2", "0.12"),),
        program="x = np.linspace(-3, 3, 50, dtype=np.float32)\n"
                "assert np.isnan(jax.jit(lambda x: jnp.exp(x * np.float32(np.nan)))(x)).all()\n",
        report="jax-ml/jax#29537"),
    "regrouped products": Fault(
        what="Under jit constants of a chain of products are multiplied first, for scalars also the constants of both "
             "factors: (x * a) * (x * b) is (x * x) * (a * b), which overflows or becomes 0 where x * a does not. "
             "square(x / 16) of a float16 scalar is inf for x >= 256. Likewise exp(x) * exp(y) is exp(x + y).",
        versions=(("0.10.2", "0.12"),),
        program="x = np.float32(2.0**80)\n"
                "assert jax.jit(lambda x: jnp.square(x * np.float32(2.0**-60)))(x) == 2.0**40\n"),
    "products with a common factor": Fault(
        what="Under jit x * y - x * z is x * (y - z), so it is not NaN where both products overflow.",
        versions=_ALL,
        program="x = np.float32(1e30)\n"
                "assert np.isnan(jax.jit(lambda x, y, z: x * y - x * z)(x, x, x))\n"),
    "casts to float8 and back": Fault(
        what="On GPUs x.astype(float8).astype(float32) in one program is x: neither rounded, nor NaN or infinite where "
             "it is out of range.",
        versions=_ALL,
        option=Option("xla_allow_excess_precision", False, _is_on, _casts_to_float8_and_back),
        platform="gpu"),
}


def with_workarounds(platform: str, text: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The flags with which a program is compiled: `options`, and flags that avoid faults of the installed jaxlib.

    A flag that the user set, in `options` or in XLA_FLAGS, is kept; if it restores a fault, there is a warning.
    """
    flags, environment = dict(options), flags_of_environment()
    for fault, (flag, value, brings_back, concerns) in _avoided_by_options(platform):
        if not concerns(text):
            continue
        users = options.get(flag, environment.get(flag))
        if users is None:
            flags[flag] = value
        elif brings_back(users):
            _say("compiler_options" if flag in options else "XLA_FLAGS", flag, str(users), fault.what, value)
    return flags


@functools.cache
def _avoided_by_options(platform: str) -> list[tuple[Fault, Option]]:
    return [(fault, fault.option) for fault in FAULTS.values()
            if fault.option and fault.platform == platform and fault.is_in(jaxlib_version)]


def flags_of_environment() -> dict[str, str]:
    """The flags in XLA_FLAGS, by name."""
    return _parsed(os.environ.get("XLA_FLAGS", ""))


@functools.lru_cache(8)
def _parsed(text: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+)=(\S*)", text))


@functools.cache
def _say(caller: str, flag: str, users: str, fault: str, value: object) -> None:
    """Warn once for each value of a flag."""
    warn(f"{caller}: {flag}={users!r} brings back a fault of jaxlib {jaxlib_version}.\n  fault  {fault}\n"
         f"  fix: drop the flag; xjax sets it to {value!r}.")


def as_markdown() -> str:
    """The text of docs/compiler_faults.md."""
    lines = ["# Faults of the compilers", "",
             "Faults of the compilers below xjax, by version of jaxlib, and how xjax avoids them. An option is added "
             "whenever a program",
             "that may have the fault is compiled. Your own value, in `compiler_options` or `XLA_FLAGS`, is kept; "
             "there is a warning if it",
             "restores a fault.", "",
             "| fault | jaxlib | description | avoided by |", "|---|---|---|---|"]
    for name, fault in FAULTS.items():
        ranges = ", ".join(f"from {first}" + (f", before {fixed}" if fixed else "") for first, fixed in fault.versions)
        by = f"`{fault.option.flag}={fault.option.value}`" if fault.option else fault.form or "nothing"
        lines.append(f"| {name} | {ranges} | {fault.what.replace('|', chr(92) + '|')} | {by} |")
    return "\n".join(lines) + "\n"
