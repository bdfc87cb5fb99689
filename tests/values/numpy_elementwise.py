"""Element-wise functions of `xjax.numpy`: every number of a dtype, edges included, and broadcasting."""

from __future__ import annotations

from tests.values.row import rows

# "wide" draws from all the numbers of a dtype.
FLOATS = ("f4[2,3]:wide", "f8[3]:wide", "bf[3]:wide", "f2[3]:wide", "f4[]:edges")
COMPLEX = ("c8[3]", "c16[2]")
INTS = ("i4[3]:wide", "u1[4]:wide", "i8[2]:wide")
PAIRS = ("f4[2,3]:wide f4[3]:wide", "f8[3]:wide f8[]:wide", "bf[3]:edges f4[1]:edges", "f2[2]:wide f2[2]:wide",
         "f4[0,2] f4[2]")
INT_PAIRS = ("i4[3]:wide i4[2,1]:wide", "u1[4]:wide i1[4]:wide", "i8[2]:wide i4[2]:wide")
D = ("f8[2,3]",)
DD = ("f8[2,3]:positive f8[3]:positive",)

ROWS = [
    *rows("numpy", "negative positive square sign abs absolute", *FLOATS, *INTS, grad=D),
    *rows("numpy", "conj conjugate real imag", "f4[2,3]:wide", "i4[3]:wide", "b1[2]", *COMPLEX,
          grad=("f8[3]", "c16[3]")),
    *rows("numpy", "add subtract multiply", *PAIRS, *INT_PAIRS[:2], "c8[3] c8[3]", grad=DD),
]
