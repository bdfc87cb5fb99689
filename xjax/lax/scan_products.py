"""Gradients of matrices that every step of a scan multiplies with, computed as one product after the loop.

The cotangent of such a constant is a sum over the steps, ``sum_t a[t].T @ b[t]``. In the loop, each step would add to
the whole matrix. Contracted over the steps too, the sum is one large product of stacked operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from xjax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, dce, inlined, program_cache
from xjax.core.symbolic.dims import is_at_most
from xjax.ops.convert import convert_element_type_p
from xjax.ops.dot import dot_general_p
from xjax.ops.makers import accumulate_p
from xjax.ops.shape import reshape_p, transpose_p
from xjax.typing import Array

_ARRANGE = frozenset({convert_element_type_p, reshape_p, transpose_p})


class Product(NamedTuple):
    """A sum over the steps that is computed after the loop instead.

    Attributes:
      operands: positions of the two operands among (xs, ys) of the scan.
      dot: the product in a step. arrange: operations applied to the product, in order.
    """

    operands: tuple[int, int]
    dot: Eqn
    arrange: tuple[Eqn, ...]

    def __call__(self, rows: Sequence[Any]) -> Array:
        (contract, batch), params = self.dot.params["dimension_numbers"], self.dot.params
        numbers = (tuple((0, *(a + 1 for a in axes)) for axes in contract),
                   tuple(tuple(a + 1 for a in axes) for axes in batch))
        x = dot_general_p.bind(*(rows[k] for k in self.operands), **{**params, "dimension_numbers": numbers})
        for eqn in self.arrange:
            x = eqn.primitive.bind(x, **eqn.params)
        return x


class WithoutProducts(NamedTuple):
    """A body without some of its sums. `products`: None for each sum that stays; `body`: has more ys after its own."""

    body: ClosedJaxpr
    products: tuple[Product | None, ...]


@program_cache
def without_products(body: ClosedJaxpr, num_consts: int, num_sums: int, num_carry: int) -> WithoutProducts:
    """A body without the sums, among the first `num_sums` carries, whose products are larger than their operands."""
    body = inlined(body)
    j, n = body.jaxpr, num_consts + num_carry
    sums, xs, ys = j.invars[num_consts:num_consts + num_sums], j.invars[n:], list(j.outvars[num_carry:])
    made = {v: eqn for eqn in j.eqns for v in eqn.outvars}
    products: list[Product | None] = []
    for before, after in zip(sums, j.outvars, strict=False):
        product = _product(made, before, after)
        new = [] if product is None else [v for v in dict.fromkeys(product[0].invars) if v not in xs and v not in ys]
        if product is None or not all(v in made for v in new) or not is_at_most(
                sum(v.aval.size for v in new), after.aval.size):
            products.append(None)
            continue
        ys += new
        rows: list[Atom] = [*xs, *ys]
        x, y = (rows.index(v) for v in product[0].invars)
        products.append(Product((x, y), *product))
    kept = [p is None for p in products]
    outvars = [*(v for v, keep in zip(j.outvars, kept, strict=False) if keep), *j.outvars[num_sums:num_carry], *ys]
    invars = [*j.invars[:num_consts], *(v for v, keep in zip(sums, kept, strict=True) if keep),
              *j.invars[num_consts + num_sums:]]
    reduced, _ = dce(Jaxpr(j.constvars, invars, j.eqns, outvars), [True] * len(outvars))
    return WithoutProducts(ClosedJaxpr(reduced, body.consts), tuple(products))


def _product(made: dict[Var, Eqn], before: Var, after: Atom) -> tuple[Eqn, tuple[Eqn, ...]] | None:
    """The product in ``after = before + arranged product`` and its arrangement; None for any other sum."""
    eqn = made.get(after)
    if eqn is None or eqn.primitive is not accumulate_p or before not in eqn.invars:
        return None
    added, arrange = eqn.invars[eqn.invars[0] is before], []
    while (eqn := made.get(added)) is not None and eqn.primitive in _ARRANGE:
        arrange.append(eqn)
        added = eqn.invars[0]
    if eqn is None or eqn.primitive is not dot_general_p or not all(type(v) is Var for v in eqn.invars):
        return None
    return eqn, tuple(reversed(arrange))


def with_products(products: Sequence[Product | None], sums: Sequence[Any], rows: Sequence[Any]) -> Iterator[Any]:
    """All sums in order: sums of the loop, and products of its rows (xs, ys) after it."""
    left = iter(sums)
    return (next(left) if product is None else product(rows) for product in products)
