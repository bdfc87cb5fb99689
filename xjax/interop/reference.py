"""The form of programs in each version of JAX: their parts, and the names, defaults and classes of parameters.

All differences between versions are in this file. It tests objects for attributes and never compares version numbers,
so a version without such changes needs no change here.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from xjax import lax, random
from xjax.core.key_types import KEY_TYPES, KeyType
from xjax.core.primitive import RULES, Primitive, all_primitives
from xjax.core.types import ShapedArray
from xjax.interop.real_jax import real_jax
from xjax.lax import linalg
from xjax.lax.linear_solve import LinearSolveTuple
from xjax.typing import Array

# The versions of JAX with which this package is tested; error messages name them.
TESTED_VERSIONS = ("0.10.2", "0.12.0.1")


class UnknownFeature(Exception):
    """A part of a JAX program that is not supported here."""


def versions() -> str:
    """The installed version of JAX and the tested versions, for error messages."""
    return f"JAX {real_jax().__version__}; xjax.interop is tested with JAX {' and '.join(TESTED_VERSIONS)}"


# -- programs -----------------------------------------------------------------------------------------------------

class JaxEqn(Protocol):
    """An equation of a program of JAX, as far as it is read here."""

    primitive: Any
    params: dict[str, Any]
    invars: list[Any]
    outvars: list[Any]
    source_info: Any


class Program(NamedTuple):
    """The parts of a program of JAX."""

    constvars: Sequence[Any]
    consts: Sequence[Any]
    invars: Sequence[Any]
    eqns: Sequence[Any]
    outvars: Sequence[Any]
    name: str


def is_program(x: object) -> bool:
    """Whether a parameter is a program: a `Jaxpr` or, in versions that have them, a `ClosedJaxpr`."""
    return hasattr(x, "eqns") and hasattr(x, "outvars")


def is_closed(x: Any) -> bool:
    """Whether a program has the values of its constants; a plain `Jaxpr` of 0.10 does not."""
    return hasattr(x, "consts")


def parts(program: Any) -> Program:
    """The parts of a program; if it is not closed, its constants are its first arguments."""
    jaxpr = getattr(program, "jaxpr", program)
    name = getattr(jaxpr.debug_info, "func_name", None) or ""
    if is_closed(program):
        return Program(jaxpr.constvars, program.consts, jaxpr.invars, jaxpr.eqns, jaxpr.outvars, name)
    return Program((), (), (*jaxpr.constvars, *jaxpr.invars), jaxpr.eqns, jaxpr.outvars, name)


def primitives(program: Any) -> dict[str, Any]:
    """The operations of a program and of the programs within it, by name."""
    by_name: dict[str, Any] = {}
    for eqn in parts(program).eqns:
        by_name[eqn.primitive.name] = eqn.primitive
        for value in eqn.params.values():
            for x in value if isinstance(value, (tuple, list)) else (value,):
                if is_program(x):
                    by_name.update(primitives(x))
    return by_name


def is_saved(verdict: bool) -> bool | None:
    """The answer of a policy of `jax.checkpoint`: whether a value is saved; None if it is moved to other memory."""
    answers = {"SaveableType": True, "RecomputeType": False, "Offloadable": None}
    return answers.get(type(verdict).__name__, bool(verdict))


def bind_again(eqn: JaxEqn, args: Sequence[Any]) -> Sequence[Any]:
    """Apply the operation of an equation, with its custom rules, to JAX values."""
    p = eqn.primitive
    bind_params = getattr(p, "get_bind_params", dict)
    return p.bind(*args, **bind_params(eqn.params))


def has_jvp_rule(primitive: Any) -> bool:
    """Whether an operation of JAX 0.12 that is defined by a Python class has a jvp rule."""
    base = type(primitive).__mro__[-2]
    return type(primitive).jvp is not base.jvp


# -- types --------------------------------------------------------------------------------------------------------

_KEY_TYPES = {kind.name: kind for kind in KEY_TYPES.values()}


def aval_of(aval: Any) -> ShapedArray:
    """The xjax type of a JAX value."""
    if not hasattr(aval, "shape") or not hasattr(aval, "dtype"):
        raise UnknownFeature(f"the type {aval} is not an array type")
    if is_key(aval):
        return ShapedArray(tuple(aval.shape), key_type(aval))
    return ShapedArray(tuple(aval.shape), aval.dtype, bool(getattr(aval, "weak_type", False)))


def spec_of(aval: ShapedArray) -> Any:
    """The JAX type of an xjax value, for tracing."""
    jax = real_jax()
    dtype = _jax_key_type(aval.dtype.kind.name) if isinstance(aval.dtype, KeyType) else aval.dtype
    return jax.ShapeDtypeStruct(aval.shape, dtype, weak_type=aval.weak_type)


@functools.cache
def _jax_key_type(generator: str) -> Any:
    return real_jax().random.key(0, impl=generator).dtype


def is_key(x: object) -> bool:
    """Whether an array or type of JAX has typed random keys."""
    return not isinstance(x.dtype, np.dtype)


def key_type(x: object) -> KeyType:
    """The xjax dtype of an array or type of typed keys in JAX. Raises: UnknownFeature for an unknown generator."""
    kind = _KEY_TYPES.get(str(x.dtype))
    if kind is None:
        raise UnknownFeature(f"the dtype {x.dtype} has no counterpart in xjax")
    return kind


def host_value(x: Any) -> np.ndarray | Array:
    """A concrete JAX array as a NumPy array; an array of typed random keys as an xjax array."""
    if not is_key(x):
        return np.asarray(x)
    return random.wrap_key_data(np.asarray(real_jax().random.key_data(x)), impl=key_type(x))


# -- parameters ---------------------------------------------------------------------------------------------------

# Parameters that xjax operations do not have -> the allowed values; None: any value, because the parameter selects an
# algorithm and not the result (results here have the highest accuracy, and sorting is stable).
_DROPPED: dict[str, tuple | None] = {
    "sharding": (None,), "out_sharding": (None,), "out_dtype": (None,), "memory_space": (None,), "accuracy": None,
    "linear": None, "_split_transpose": None, "branches_platforms": None, "is_stable": None}

# Programs whose constants are in a separate parameter: operation -> (name of the program, name of the constants).
_APART = {"reduce_window": ("jaxpr", "consts"), **dict.fromkeys(
    ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
    ("update_jaxpr", "update_consts"))}


def parameters(eqn: JaxEqn, subprogram: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of an equation, in the form of the xjax operation of the same name.

    Args: subprogram: `subprogram(program, values of its first arguments)` returns an xjax `ClosedJaxpr`.
    Raises: UnknownFeature for a parameter, or a class of a parameter, that xjax does not have.
    """
    params = _named_parameters(eqn)
    program, values = _APART.get(eqn.primitive.name, ("", ""))
    if params.get(program) is None:
        return {k: parameter(v, subprogram) for k, v in params.items()}
    closed = subprogram(params.pop(program), params.pop(values))
    return {**{k: parameter(v, subprogram) for k, v in params.items()},
            program: closed.jaxpr, values: tuple(closed.consts)}


def _named_parameters(eqn: JaxEqn) -> dict[str, Any]:
    """The parameters that the xjax operation has, under its names, but with values in classes of JAX."""
    p, reader = all_primitives()[eqn.primitive.name], _READERS.get(eqn.primitive.name)
    params = dict(eqn.params) if reader is None else reader(eqn.params)
    known = parameter_names(p)
    unknown = {k: v for k, v in params.items() if k not in known and not _may_drop(k, v)}
    if unknown:
        raise UnknownFeature("it has parameters that xjax does not have: "
                             + ", ".join(f"{k}={v!r:.60}" for k, v in unknown.items()))
    return {k: v for k, v in params.items() if k in known}


def _may_drop(name: str, value: object) -> bool:
    allowed = _DROPPED.get(name, ())
    no_mesh = "sharding" in name and getattr(getattr(value, "mesh", None), "empty", False)
    return allowed is None or no_mesh or any(value is x for x in allowed)


def _lengths_of_scan(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the numbers of operands; in JAX 0.12 a scan has trees of (constants, carry, rows) instead."""
    if "ft_in" not in params:
        return params
    consts, carry, _ = map(len, params["ft_in"].unpack())
    rest = {k: v for k, v in params.items() if k not in ("ft_in", "ft_out")}
    return {**rest, "num_consts": consts, "num_carry": carry}


def _dtype_of_product(params: dict[str, Any]) -> dict[str, Any]:
    return {} if params.get("out_dtype") is None else {"out_dtype": np.dtype(params["out_dtype"])}


_READERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"scan": _lengths_of_scan, "mul": _dtype_of_product}


@functools.cache
def parameter_names(p: Primitive) -> frozenset[str]:
    """The names of the parameters of an xjax operation: declared by its rules, or listed in `_UNDECLARED`."""
    names = _UNDECLARED.get(p.name, "").split()
    for function in (*[getattr(p, rule) for rule in RULES], *p.lower_on.values()):
        if inspect.isroutine(function) or isinstance(function, functools.partial):
            declared = inspect.signature(function).parameters.values()
            names += [x.name for x in declared if x.kind is x.KEYWORD_ONLY]
    return frozenset(names)


_WINDOW = "window_dimensions window_strides padding base_dilation window_dilation"

# Parameters that no rule of an operation declares by name, because its rules accept any keywords.
_UNDECLARED = {
    "name": "name", "integer_pow": "y", "round": "rounding_method", "reduce_precision": "exponent_bits mantissa_bits",
    "eigh": "lower sort_eigenvalues subset_by_index algorithm",
    "svd": "full_matrices compute_uv subset_by_index algorithm",
    "schur": "compute_schur_vectors sort_eig_vals select_callable",
    "select_and_scatter_add": "select_prim window_dimensions window_strides padding",
    "reduce_window": f"jaxpr consts {_WINDOW}",
    **dict.fromkeys(("reduce_window_sum", "reduce_window_max", "reduce_window_min"), _WINDOW)}


# Classes of parameters that xjax has under the same name.
_CLASSES: dict[str, Any] = {kind.__name__: kind for kind in (
    lax.Precision, lax.GatherScatterMode, lax.RoundingMethod, lax.DotAlgorithm, lax.DotAlgorithmPreset, lax.FftType,
    lax.RandomAlgorithm, lax.ConvDimensionNumbers, lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers,
    lax.RaggedDotDimensionNumbers, linalg.EigImplementation, linalg.EighImplementation, linalg.SvdAlgorithm,
    LinearSolveTuple)}


def parameter(value: Any, subprogram: Callable[..., Any]) -> Any:
    """The value of a parameter in xjax classes; `subprogram` converts programs."""
    kind = type(value)
    if kind in (tuple, list):
        return tuple([parameter(x, subprogram) for x in value])
    if isinstance(value, np.integer):       # XLA's text needs plain integers
        return int(value)
    if is_program(value):
        return subprogram(value)
    if not kind.__module__.startswith(("jax.", "jaxlib.")):
        return value
    if kind.__name__ == "Primitive":        # the comparison of a window operation
        return all_primitives()[value.name]
    ours = _CLASSES.get(kind.__name__)
    if ours is None:
        raise UnknownFeature(f"a parameter has class {kind.__module__}.{kind.__name__}, which xjax does not have")
    if isinstance(value, enum.Enum) or not hasattr(ours, "_fields") and hasattr(value, "name"):
        return ours[value.name]
    fields = getattr(ours, "_fields", None) or tuple(vars(value))
    return ours(**{field: parameter(getattr(value, field), subprogram) for field in fields})
