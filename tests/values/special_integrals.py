"""Special functions that are integrals."""

from __future__ import annotations

from tests.values.row import rows

REAL = ("f4[2,3]", "f8[3]", "f4[3]:-40..40")
POSITIVE = ("f4[2,3]:positive", "f8[3]:positive", "f4[3]:0.5..40")
D, P = ("f8[3]",), ("f8[3]:positive",)
COMPLEX = ("c8[2,3]", "c16[3]")


def special(names, *signatures, **options):
    return rows("scipy.special", names, *signatures, **options)


INTEGRALS = [
    *special("dawsn erfcx", *REAL, "f4[]:edges", grad=D, id="real"),
    *special("wofz", *COMPLEX, grad=("c16[3]",), tol=4),                # JAX's is good for 4e-14
    *special("fresnel", *REAL, grad=("f8[3]:small",)),
    *special("sici", *POSITIVE, grad=P),
    *special("exp1 expi", *POSITIVE, grad=P),
]
ROWS = [*INTEGRALS]
