"""Kernels of a finite network: inner products of its outputs, and of its gradients in the parameters.

The neural tangent kernel of outputs o and p is the sum over parameters of ``d o / d w * d p / d w``. There are three
ways to compute it (Novak et al., 2022), with the same result:

- "jacobian": both Jacobians, then their product;
- "products": for each output of x2, its gradient, then the derivative of all outputs of x1 along it. It stores no
  Jacobian;
- "structured": where a weight is used in one matrix product or convolution, its Jacobian is a product of two smaller
  arrays, the input and the derivative in the output of this operation. The four arrays of the two Jacobians are
  contracted in the cheapest order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import opt_einsum

import xjax
import xjax.numpy as jnp
from xjax import lax, tree_util
from xjax.errors import bad, check_choice
from xjax.typing import Array, ArrayLike, DTypeLike, Params, PyTree
from xnn.cost import flops
from xnn.covariance.evaluation import KINDS, as_requested, kinds_of

Method: TypeAlias = Literal["auto", "jacobian", "products", "structured"]
METHODS = ("auto", "jacobian", "products", "structured")
Apply: TypeAlias = Callable[..., Any]
Jaxpr: TypeAlias = Any                  # a traced program
Equation: TypeAlias = Any               # one of its equations
Atom: TypeAlias = Any                   # a variable or a number in it


def empirical_nngp(apply: Apply, *, trace_axes: int | Sequence[int] = -1,
                   diagonal_axes: int | Sequence[int] = ()) -> Callable[..., Array]:
    """``(params, x1, x2=None, **inputs) -> kernel``: inner products of outputs.

    Args, returns: as in `empirical_ntk`.
    """

    def kernel(params: Params, x1: ArrayLike, x2: ArrayLike | None = None, **inputs: object) -> Array:
        y1 = apply(params, x1, **inputs)
        y2 = y1 if x2 is None else apply(params, x2, **inputs)
        axes = _Axes.of("empirical_nngp", y1.shape[1:], trace_axes, diagonal_axes)
        one, other = (axes.grouped(y, 1) for y in (y1, y2))
        return axes.named(jnp.einsum("axdr,bxdq->abdrq", one, other, precision="highest") / axes.traced, other.shape[0])

    return xjax.jit(kernel)


def empirical_ntk(apply: Apply, *, method: Method = "auto", trace_axes: int | Sequence[int] = -1,
                  diagonal_axes: int | Sequence[int] = (), memory_limit: float = 4e9) -> Callable[..., Array]:
    """``(params, x1, x2=None, **inputs) -> kernel``: inner products of gradients of outputs in all parameters.

    The function treats rows of x separately, as layers do in evaluation.

    Args:
      apply: ``(params, x, **inputs) -> y``, with rows of x along its first axis: that of an xnn layer, or any function.
      method: "jacobian", "products" or "structured", see the module `xnn.kernels.empirical`; "auto": the one with the
        fewest operations among those within `memory_limit`.
      trace_axes: axes of y, without the rows, over which the kernel is averaged. Over the features this is the kernel
        that the infinite network has for each of them.
      diagonal_axes: axes of y of which only equal indices are compared.
      memory_limit: bytes of the largest arrays besides the result.
    Returns: arrays [n1, n2, *diagonal axes, *other axes of y1, *other axes of y2].

    >>> from xnn import Dense
    >>> model = Dense(3, bias=False)
    >>> params = model.init(xjax.random.key(0), (-1, 2))[1]
    >>> empirical_ntk(model.apply)(params, xjax.numpy.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_choice("empirical_ntk", "method", method, METHODS)

    def kernel(params: Params, x1: ArrayLike, x2: ArrayLike | None = None, **inputs: object) -> Array:
        x1 = jnp.asarray(x1)
        x2 = x1 if x2 is None else jnp.asarray(x2)
        task = _Task.of(apply, params, x1, x2, inputs, trace_axes, diagonal_axes)
        chosen = _cheapest(task, memory_limit) if method == "auto" else method
        return task.axes.named(_METHODS[chosen](task), x2.shape[0])

    return xjax.jit(kernel)


def empirical_kernel(apply: Apply, *, get: str | Sequence[str] = KINDS, **options: Any) -> Callable[..., PyTree]:
    """``(params, x1, x2=None, **inputs) -> kernels``: one of both kernels, or both as `Kernels`.

    Args: get: "nngp", "ntk", or a sequence of them; options: those of `empirical_ntk`.
    """
    kinds = kinds_of("empirical_kernel", get)
    of_outputs = {name: value for name, value in options.items() if name.endswith("_axes")}
    makers = {"nngp": empirical_nngp(apply, **of_outputs), "ntk": empirical_ntk(apply, **options)}

    def kernel(params: Params, x1: ArrayLike, x2: ArrayLike | None = None, **inputs: object) -> PyTree:
        return as_requested(get, [makers[kind](params, x1, x2, **inputs) for kind in kinds])

    return kernel


def ntk_product(apply: Apply, params: Params, x1: ArrayLike, x2: ArrayLike | None = None,
                **inputs: object) -> Callable[[ArrayLike], Array]:
    """``v -> kernel @ v`` without the matrix: v has the shape of the outputs of x2, the result that of x1.

    The kernel has all pairs of outputs; no axis is averaged.
    """
    first = x1 if x2 is None else x2
    _, pull = xjax.vjp(lambda p: apply(p, first, **inputs), params)

    def product(v: ArrayLike) -> Array:
        (direction,) = pull(v)
        return xjax.jvp(lambda p: apply(p, x1, **inputs), (params,), (direction,))[1]

    return product


# -- the axes of the result --------------------------------------------------------------------------------------------


class _Axes(NamedTuple):
    """The axes of an output, in three groups: averaged, of equal indices, and all pairs."""

    order: tuple[int, ...]
    traced: int
    diagonal: tuple[int, ...]
    rest: tuple[int, ...]

    @staticmethod
    def of(caller: str, shape: Sequence[int], trace: int | Sequence[int], diagonal: int | Sequence[int]) -> _Axes:
        """Args: shape: that of an output, without the rows; axes count from its end or from the axis after the rows."""
        n = len(shape)
        groups = []
        for name, axes in (("trace_axes", trace), ("diagonal_axes", diagonal)):
            axes = (axes,) if isinstance(axes, int) else tuple(axes)
            if not all(-n <= axis <= n and axis != 0 for axis in axes):
                raise bad(caller, f"`{name}` must be axes of the output after the rows",
                          {name: axes, "output": ("rows", *shape)}, f"{name}=-1 for the last axis.", ValueError)
            groups.append(tuple(axis % (n + 1) - 1 if axis > 0 else axis % n for axis in axes))
        if set(groups[0]) & set(groups[1]):
            raise bad(caller, "an axis is both averaged and kept", {"trace_axes": trace, "diagonal_axes": diagonal},
                      "name each axis once.", ValueError)
        rest = tuple(axis for axis in range(n) if axis not in groups[0] + groups[1])
        sizes = [[shape[axis] for axis in group] for group in (*groups, rest)]
        return _Axes((*groups[0], *groups[1], *rest), math.prod(sizes[0]), tuple(sizes[1]), tuple(sizes[2]))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The sizes of the three groups."""
        return self.traced, math.prod(self.diagonal), math.prod(self.rest)

    def grouped(self, y: Array, leading: int) -> Array:
        """[*leading, *output, *others] -> [*leading, traced, diagonal, rest, *others]."""
        n = len(self.order)
        moved = jnp.transpose(y, (*range(leading), *(axis + leading for axis in self.order),
                                  *range(leading + n, y.ndim)))
        return jnp.reshape(moved, (*y.shape[:leading], *self.sizes, *y.shape[leading + n:]))

    def named(self, kernel: Array, n2: int) -> Array:
        """[n1, n2, diagonal, rest, rest] with the sizes of the single axes."""
        return jnp.reshape(kernel, (kernel.shape[0], n2, *self.diagonal, *self.rest, *self.rest))


class _Task(NamedTuple):
    """A function of parameters and one row, and the rows of x1 and x2 at which its kernel is computed.

    Attributes: plan: the program of a row; out_shape: the shape of its result.
    """

    of_row: Callable[[list[Array], Array], Array]
    leaves: list[Array]
    x1: Array
    x2: Array
    plan: _Plan
    out_shape: tuple[int, ...]
    axes: _Axes

    @staticmethod
    def of(apply: Apply, params: Params, x1: Array, x2: Array, inputs: dict[str, Any], trace: int | Sequence[int],
           diagonal: int | Sequence[int]) -> _Task:
        leaves, tree = tree_util.tree_flatten(params)

        def of_row(leaves: list[Array], row: Array) -> Array:
            return apply(tree_util.tree_unflatten(tree, leaves), row[None], **inputs)[0]

        plan = _Plan.of(of_row, leaves, x1[0])
        shape = plan.closed.out_avals[0].shape
        return _Task(of_row, leaves, x1, x2, plan, shape, _Axes.of("empirical_ntk", shape, trace, diagonal))

    def cotangents(self, dtype: DTypeLike) -> Array:
        """One for each output: [traced, diagonal, rest, *output]."""
        basis = jnp.eye(math.prod(self.out_shape), dtype=dtype)
        return self.axes.grouped(jnp.reshape(basis, (*self.out_shape, *self.out_shape)), 0)


# -- the three methods -------------------------------------------------------------------------------------------------


def _contracted(one: Array, other: Array) -> Array:
    """The product of two Jacobians [n, traced, diagonal, rest, ...]."""
    one, other = (jnp.reshape(j, (*j.shape[:4], -1)) for j in (one, other))
    return jnp.einsum("axdrp,bxdqp->abdrq", one, other, precision="highest")


def _by_jacobians(task: _Task) -> Array:
    def jacobian(row: Array) -> list[Array]:
        y, pull = xjax.vjp(lambda leaves: task.of_row(leaves, row), task.leaves)
        pull_all = xjax.vmap(xjax.vmap(xjax.vmap(lambda ct: pull(ct)[0])))
        return pull_all(task.cotangents(y.dtype))

    one = xjax.vmap(jacobian)(task.x1)
    other = one if task.x2 is task.x1 else xjax.vmap(jacobian)(task.x2)
    return sum(map(_contracted, one, other)) / task.axes.traced            # type: ignore[return-value]


def _by_products(task: _Task) -> Array:
    def outputs(leaves: list[Array]) -> Array:
        return xjax.vmap(lambda row: task.of_row(leaves, row))(task.x1)

    def of_row(row: Array) -> Array:
        y, pull = xjax.vjp(lambda leaves: task.of_row(leaves, row), task.leaves)

        def of_output(cotangent: Array) -> Array:
            return xjax.jvp(outputs, (task.leaves,), (pull(cotangent)[0],))[1]

        # [traced, diagonal, rest of x2, n1, *output of x1]
        along = xjax.vmap(xjax.vmap(xjax.vmap(of_output)))(task.cotangents(y.dtype))
        along = task.axes.grouped(along, 4)
        return jnp.einsum("xdqaxdr->adrq", along) / task.axes.traced

    return jnp.moveaxis(lax.map(of_row, task.x2), 0, 1)


def _by_structure(task: _Task) -> Array:
    plan = task.plan

    def factors(row: Array) -> tuple[list[Array], list[Array], list[Array]]:
        """(inputs of the operations [place, k], derivatives in their outputs, derivatives in all other leaves)."""
        plain = [leaf for i, leaf in enumerate(task.leaves) if i not in plan.uses]
        shifts = [jnp.zeros(use.out_shape, use.dtype) for use in plan.uses.values()]

        def run(shifts: list[Array], plain: list[Array]) -> tuple[Array, list[Array]]:
            return plan.run(task, row, shifts, plain)

        y, pull, inputs = xjax.vjp(run, shifts, plain, has_aux=True)
        by_shift, by_plain = xjax.vmap(xjax.vmap(xjax.vmap(pull)))(task.cotangents(y.dtype))
        return inputs, [use.as_matrix(d, 3) for use, d in zip(plan.uses.values(), by_shift, strict=True)], by_plain

    one = xjax.vmap(factors)(task.x1)
    other = one if task.x2 is task.x1 else xjax.vmap(factors)(task.x2)
    total = sum(map(_contracted, one[2], other[2])) if one[2] else 0
    for a1, d1, a2, d2 in zip(*one[:2], *other[:2], strict=True):
        total += jnp.einsum(_STRUCTURE, a1, d1, a2, d2, optimize="optimal", precision="highest")
    return total / task.axes.traced                                         # type: ignore[return-value]


# Inputs [n, place, k] and derivatives [n, traced, diagonal, rest, place, m] of x1 and x2.
_STRUCTURE = "atk,axdrtm,bsk,bxdqsm->abdrq"

_METHODS = {"jacobian": _by_jacobians, "products": _by_products, "structured": _by_structure}


# -- the structure of a program ----------------------------------------------------------------------------------------


class _Use(NamedTuple):
    """The one operation that uses a weight, a product with it.

    Attributes:
      out_shape, dtype: those of its result.
      to_input: the other operand -> its values [place, k], which a place of the result multiplies with the weight.
      order, n_features: the order of the axes of the result with the features of the weight last, and their number.
    """

    out_shape: tuple[int, ...]
    dtype: Any
    to_input: Callable[[Array], Array]
    order: tuple[int, ...]
    n_features: int

    def as_matrix(self, derivative: Array, leading: int) -> Array:
        """[*leading, *result] -> [*leading, place, m]."""
        moved = jnp.transpose(derivative, (*range(leading), *(axis + leading for axis in self.order)))
        features = math.prod(moved.shape[moved.ndim - self.n_features:])
        return jnp.reshape(moved, (*moved.shape[:leading], -1, features))


class _Plan(NamedTuple):
    """The program of a row, and the leaves that one product uses."""

    closed: Jaxpr
    uses: dict[int, _Use]

    @staticmethod
    def of(of_row: Callable[[list[Array], Array], Array], leaves: list[Array], row: Array) -> _Plan:
        closed = xjax.make_jaxpr(of_row)(leaves, row)
        reads: dict[int, list[Any]] = {i: [] for i in range(len(leaves))}
        _collect(closed.jaxpr, {var: i for i, var in enumerate(closed.jaxpr.invars[:len(leaves)])}, reads)
        uses = {}
        for i, readers in reads.items():
            use = _use_of(*readers[0]) if len(readers) == 1 and readers[0] is not None else None
            if use is not None:
                uses[i] = use
        return _Plan(closed, uses)

    def run(self, task: _Task, row: Array, shifts: list[Array], plain: list[Array]) -> tuple[Array, list[Array]]:
        """The output, with a shift added to the result of each product; and the inputs of the products."""
        others, inputs = iter(plain), {}
        leaves = [leaf if i in self.uses else next(others) for i, leaf in enumerate(task.leaves)]
        by_leaf = dict(zip(self.uses, shifts, strict=True))
        marks = {var: i for i, var in enumerate(self.closed.jaxpr.invars[:len(task.leaves)]) if i in self.uses}

        def evaluate(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], marks: dict[Atom, int]) -> list[Any]:
            values = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))

            def read(atom: Atom) -> Array:
                return values[atom] if _is_var(atom) else atom.val

            for eqn in jaxpr.eqns:
                marked = [(at, marks[atom]) for at, atom in enumerate(eqn.invars) if _is_var(atom) and atom in marks]
                args = [read(atom) for atom in eqn.invars]
                if inner := _inner(eqn):
                    inner_marks = {inner.jaxpr.invars[at]: leaf for at, leaf in marked}
                    outs = evaluate(inner.jaxpr, inner.consts, args, inner_marks)
                else:
                    out = eqn.primitive.bind(*args, **eqn.params)
                    outs = out if eqn.primitive.multiple_results else [out]
                    for at, leaf in marked:
                        inputs[leaf] = self.uses[leaf].to_input(args[1 - at])
                        outs = [outs[0] + by_leaf[leaf]]
                values.update(zip(eqn.outvars, outs, strict=True))
            return [read(atom) for atom in jaxpr.outvars]

        (y,) = evaluate(self.closed.jaxpr, self.closed.consts, [*leaves, row], marks)
        return y, [inputs[leaf] for leaf in self.uses]


def _is_var(atom: Atom) -> bool:
    return not hasattr(atom, "val")


def _inner(eqn: Equation) -> Jaxpr | None:
    """The program of an equation that only applies it."""
    return eqn.params["jaxpr"] if eqn.primitive.name in ("jit", "pjit") else None


def _collect(jaxpr: Jaxpr, marks: dict[Atom, int], reads: dict[int, list[Any]]) -> None:
    """Append to `reads`, for each use of a marked variable, (equation, place among the operands), or None."""
    for eqn in jaxpr.eqns:
        marked = [(at, marks[atom]) for at, atom in enumerate(eqn.invars) if _is_var(atom) and atom in marks]
        if (inner := _inner(eqn)) and marked:
            _collect(inner.jaxpr, {inner.jaxpr.invars[at]: leaf for at, leaf in marked}, reads)
            continue
        for at, leaf in marked:
            reads[leaf].append((eqn, at))
    for atom in jaxpr.outvars:
        if _is_var(atom) and atom in marks:
            reads[marks[atom]].append(None)


def _use_of(eqn: Equation, at: int) -> _Use | None:
    """The structure of a product with a weight; None for any other operation."""
    rule = {"dot_general": _of_dot, "conv_general_dilated": _of_conv}.get(eqn.primitive.name)
    return rule(eqn, at) if rule else None


def _of_dot(eqn: Equation, at: int) -> _Use | None:
    contract, batch = eqn.params["dimension_numbers"]
    if any(len(axes) for axes in batch):
        return None
    other, out = eqn.invars[1 - at].aval, eqn.outvars[0].aval
    weight = eqn.invars[at].aval
    n_weight, n_other = weight.ndim - len(contract[at]), other.ndim - len(contract[1 - at])
    free = tuple(axis for axis in range(other.ndim) if axis not in contract[1 - at])
    order = (*free, *contract[1 - at])
    size = math.prod(other.shape[axis] for axis in free)

    def to_input(x: Array) -> Array:
        return jnp.reshape(jnp.transpose(x, order), (size, -1))

    axes = tuple(range(out.ndim))                      # the axes of the first operand come first
    return _Use(out.shape, out.dtype, to_input, axes if at == 1 else axes[n_weight:] + axes[:n_weight],
                n_weight) if n_weight + n_other == out.ndim else None


def _of_conv(eqn: Equation, at: int) -> _Use | None:
    params = eqn.params
    if at != 1 or params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    numbers, out, weight = params["dimension_numbers"], eqn.outvars[0].aval, eqn.invars[1].aval
    window = tuple(weight.shape[axis] for axis in numbers.rhs_spec[2:])
    batch, features, *spatial = numbers.out_spec

    def to_input(x: Array) -> Array:
        seen = lax.conv_general_dilated_patches(
            x, window, params["window_strides"], params["padding"], params["lhs_dilation"], params["rhs_dilation"],
            numbers)
        seen = jnp.transpose(seen, (batch, *spatial, features))
        return jnp.reshape(seen, (-1, seen.shape[-1]))

    return _Use(out.shape, out.dtype, to_input, (batch, *spatial, features), 1)


# -- the choice --------------------------------------------------------------------------------------------------------


def _cheapest(task: _Task, memory_limit: float) -> str:
    """The method with the fewest floating-point operations among those within the limit."""
    costs = {"jacobian": _of_jacobians(task), "products": _of_products(task), "structured": _of_structure(task)}
    within = {name: operations for name, (operations, size) in costs.items() if size <= memory_limit}
    return min(within, key=within.__getitem__) if within else "products"


def _forward_flops(task: _Task) -> float:
    """Operations of one row: those of products, and one for each parameter."""
    return flops(task.plan.closed) + sum(leaf.size for leaf in task.leaves)


def _features(use: _Use) -> int:
    return math.prod(use.out_shape[axis] for axis in use.order[len(use.order) - use.n_features:])


def _counts(task: _Task) -> tuple[int, int, int, int]:
    """(rows of x1, rows of x2, rows that are evaluated, outputs of a row)."""
    n1, n2 = task.x1.shape[0], task.x2.shape[0]
    return n1, n2, n1 if task.x1 is task.x2 else n1 + n2, math.prod(task.axes.sizes)


def _of_jacobians(task: _Task) -> tuple[float, float]:
    n1, n2, rows, outputs = _counts(task)
    size = sum(leaf.size for leaf in task.leaves)
    operations = rows * outputs * 2 * _forward_flops(task) + 2 * n1 * n2 * outputs * task.axes.sizes[2] * size
    return operations, rows * outputs * size * np.dtype(task.leaves[0].dtype).itemsize if task.leaves else 0


def _of_products(task: _Task) -> tuple[float, float]:
    n1, n2, _, outputs = _counts(task)
    forward = _forward_flops(task)
    size = sum(leaf.size for leaf in task.leaves)
    return n2 * outputs * (2 * forward + 3 * n1 * forward), outputs * (size + n1 * outputs) * 4


def _of_structure(task: _Task) -> tuple[float, float]:
    n1, n2, rows, outputs = _counts(task)
    plan = task.plan
    x, d, r = task.axes.sizes
    operations, memory = rows * outputs * 2 * _forward_flops(task), 0.0
    for i, leaf in enumerate(task.leaves):
        if i not in plan.uses:
            operations += 2 * n1 * n2 * outputs * r * leaf.size
            memory += rows * outputs * leaf.size * 4
            continue
        m = _features(plan.uses[i])
        places, k = math.prod(plan.uses[i].out_shape) // m, leaf.size // m
        shapes = [(n1, places, k), (n1, x, d, r, places, m), (n2, places, k), (n2, x, d, r, places, m)]
        info = opt_einsum.contract_path(_STRUCTURE, *shapes, shapes=True, optimize="optimal")[1]
        operations += float(info.opt_cost)
        memory += 4 * float(info.largest_intermediate) + rows * places * (k + outputs * m) * 4
    return operations, memory
