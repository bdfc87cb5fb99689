"""Functions of single elements or slices applied to arrays: `vectorize`, `apply_along_axis`, `apply_over_axes`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from xjax.core.calls import function_name
from xjax.core.errors import bad
from xjax.numpy.manipulate import expand_dims, squeeze
from xjax.numpy.promote import broadcast_shapes, check_ranks
from xjax.numpy.selection import operand
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.checks import canonical_axis
from xjax.transforms.vmap import vmap
from xjax.typing import Array, ArrayLike

_CORE = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE = re.compile(f"{_CORE}(?:,{_CORE})*->{_CORE}(?:,{_CORE})*")

# Names of the core axes of an argument or a result: the axes that the function itself handles.
CoreAxes = tuple[str, ...]


# -- signatures ---------------------------------------------------------------------------------------------------

class Signature(NamedTuple):
    """The core axes of the arguments and the results of a function: "(n,m),(m)->(n)"."""

    inputs: list[CoreAxes]
    outputs: list[CoreAxes]


def parse_signature(caller: str, text: str) -> Signature:
    """Parse a signature.

    Raises: ValueError for a text that is not a signature.
    """
    compact = re.sub(r"\s", "", text)
    if not _SIGNATURE.fullmatch(compact):
        raise bad(caller, f"{text!r} is not a signature", fix="write it like '(n,m),(m)->(n)'.", exc=ValueError)
    return Signature(*([tuple(re.findall(r"\w+", core)) for core in re.findall(_CORE, side)]
                       for side in compact.split("->")))


def _match(caller: str, sizes: dict[str, int], shape: tuple[int, ...], core: CoreAxes, what: str) -> None:
    """Record the sizes of an array's core axes; sizes that are already known must agree."""
    for name, n in zip(core, shape[len(shape) - len(core):], strict=True):
        if sizes.setdefault(name, n) != n:
            raise bad(caller, f"axis {name!r} of {what} has size {n}, elsewhere {sizes[name]}",
                      given={what: str(shape)}, fix="axes of one name must be equal in size.", exc=ValueError)


# -- vectorize ----------------------------------------------------------------------------------------------------

def vectorize(pyfunc: Callable, *, excluded: Collection[int | str] = frozenset(),
              signature: str | None = None) -> Callable:
    """Make a function of single elements, or of arrays with few axes, broadcast: by `vmap`, not by a loop.

    Args:
      pyfunc: the function; it is called with each argument without the axes that broadcast.
      excluded: positions and names of arguments that are passed unchanged.
      signature: the axes that belong to the function, like "(n,m),(m)->(n)"; default: none.
    Returns: a function with the same arguments, whose further leading axes broadcast together.
    Raises: (the function) ValueError if axes do not fit the signature or each other; TypeError if the number of
      arguments is not that of the signature.

    >>> rowwise = vectorize(lambda a, b: a @ b, signature="(n),(n)->()")
    >>> rowwise(np.ones((4, 1, 3)), np.ones((2, 3))).shape
    (4, 2)
    """
    caller = f"numpy.vectorize of `{function_name(pyfunc)}`"
    for x in excluded:
        if not isinstance(x, (int, str)):
            raise bad(caller, "`excluded` must name positions and keywords", given={"excluded": repr(excluded)},
                      fix="pass integers and strings.")
        if isinstance(x, int) and x < 0:
            raise bad(caller, "`excluded` has a negative position", given={"excluded": repr(excluded)},
                      fix="count from 0.", exc=ValueError)
    parsed = None if signature is None else parse_signature(caller, signature)

    @functools.wraps(pyfunc)
    def vectorized(*args: ArrayLike | None, **kwargs: Any) -> Any:
        places = [i for i, x in enumerate(args) if i not in excluded]
        inputs = [()] * len(places) if parsed is None else parsed.inputs
        if len(places) != len(inputs):
            raise bad(caller, f"called with {len(places)} arguments",
                      given={"signature": signature, "excluded": str(set(excluded))},
                      fix=f"pass {len(inputs)}, besides the excluded ones.")
        cores: dict[int | str, CoreAxes] = dict(zip(places, inputs, strict=True))
        cores |= {name: () for name in kwargs if name not in excluded}
        values = dict(enumerate(args)) | kwargs
        if any(values[k] is None and core for k, core in cores.items()):
            raise bad(caller, "None was passed for an argument that has axes", given={"signature": signature},
                      fix="pass an array, or exclude the argument.", exc=ValueError)
        cores = {k: core for k, core in cores.items() if values[k] is not None}

        def call(*mapped: Any) -> Any:
            full = values | dict(zip(cores, mapped, strict=True))
            return pyfunc(*(full[i] for i in range(len(args))), **{name: full[name] for name in kwargs})

        arrays = [operand(caller, values[k]) for k in cores]
        return _mapped(caller, call, arrays, list(cores.values()), parsed and parsed.outputs)

    return vectorized


def _mapped(caller: str, call: Callable, arrays: Sequence[Any], cores: Sequence[CoreAxes],
            outputs: Sequence[CoreAxes] | None) -> Any:
    """`call` mapped over the leading axes of the arrays; axes of size 1 are not mapped."""
    sizes: dict[str, int] = {}
    for i, (x, core) in enumerate(zip(arrays, cores, strict=True)):
        if x.ndim < len(core):
            raise bad(caller, f"argument {i} lacks core axes",
                      given={f"argument {i}": x.aval, "needs": str(core)},
                      fix="pass an array with these axes last.", exc=ValueError)
        _match(caller, sizes, x.shape, core, f"argument {i}")
    shapes = [x.shape[:x.ndim - len(core)] for x, core in zip(arrays, cores, strict=True)]
    check_ranks(caller, [s for s, x in zip(shapes, arrays, strict=True) if x.ndim])
    rank = len(broadcast_shapes(*shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    f = call if outputs is None else _checked(caller, call, sizes, outputs)
    for axis in reversed(range(rank)):
        in_axes = tuple(None if s[axis] == 1 else 0 for s in padded)
        if any(a is not None for a in in_axes):
            f = vmap(f, in_axes)
    out = f(*(squeeze(x, [d for d, n in enumerate(s) if n == 1]) for x, s in zip(arrays, shapes, strict=True)))
    single = [axis for axis in range(rank) if all(s[axis] == 1 for s in padded)]
    if not single:
        return out
    return tuple(expand_dims(y, single) for y in out) if isinstance(out, tuple) else expand_dims(out, single)


def _checked(caller: str, call: Callable, sizes: dict[str, int], outputs: Sequence[CoreAxes]) -> Callable:
    """`call` with a check that the number of its results, and their axes, match the signature."""
    def checked(*args: Any) -> Any:
        out = call(*args)
        results = out if isinstance(out, tuple) else (out,)
        if isinstance(out, tuple) != (len(outputs) > 1) or len(results) != len(outputs):
            raise bad(caller, f"the function returned {len(results)} results in a {type(out).__name__}",
                      fix=f"the signature promises {len(outputs)}; return a tuple if there is more than one.",
                      exc=TypeError)
        known = dict(sizes)
        for i, (y, core) in enumerate(zip(results, outputs, strict=True)):
            shape = operand(caller, y).shape
            if len(shape) != len(core):
                raise bad(caller, f"result {i} has {len(shape)} axes", given={f"result {i}": str(shape)},
                          fix=f"the signature promises {core}.", exc=ValueError)
            _match(caller, known, shape, core, f"result {i}")
        return out
    return checked


# -- along and over axes ------------------------------------------------------------------------------------------

def apply_along_axis(func1d: Callable, axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """`func1d` applied to every vector along an axis; the axes of its result replace this axis.

    Args: func1d: (vector, *args, **kwargs) -> array[...]; arr: any[..., n, ...].

    >>> apply_along_axis(lambda x: x[::2], 0, np.ones((4, 3))).shape
    (2, 3)
    """
    caller = "numpy.apply_along_axis"
    arr = to_array_like(caller, arr)
    axis = canonical_axis(axis, arr.ndim, caller)

    def f(x: Array) -> Array:
        return func1d(x, *args, **kwargs)

    for d in range(1, arr.ndim - axis):         # the outermost map is over the last axis, and puts it last
        f = vmap(f, in_axes=d, out_axes=-1)
    for _ in range(axis):
        f = vmap(f, in_axes=0, out_axes=0)
    return f(arr)


def apply_over_axes(func: Callable[[Any, int], Any], a: ArrayLike, axes: Iterable[int]) -> Array:
    """``func(a, axis)`` for one axis after the other; an axis that the function removes is put back with size 1.

    Raises: ValueError if the function removes more than one axis.

    >>> apply_over_axes(lambda a, axis: a.sum(axis), xjax.numpy.ones((2, 3, 4)), (0, 2)).shape
    (1, 3, 1)
    """
    caller = "numpy.apply_over_axes"
    a = to_array_like(caller, a)
    for axis in axes:
        out = to_array_like(caller, func(a, axis))
        if out.ndim == a.ndim - 1:
            out = expand_dims(out, axis)
        if out.ndim != a.ndim:
            raise bad(caller, f"the function turned {a.ndim} axes into {out.ndim}", given={"axis": axis},
                      fix="keep the axis, or remove this one only.", exc=ValueError)
        a = out
    return a


__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]
