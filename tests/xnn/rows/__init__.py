"""One table of all layers, which `tests/xnn/test_every_layer.py` runs: a file of rows for each family.

A new layer gets a row in the file of its family, and its wrong calls there. A row named after its layer alone
("Conv") is run through every check in the fast set; variants ("Conv, strided") through values, and through the other
checks in the slow set.
"""

from tests.xnn.rows import (
    activations,
    attention,
    conv,
    elementwise,
    experts,
    linear,
    norm,
    pool,
    recurrent,
    regularisation,
)
from tests.xnn.rows.row import LayerRow

FAMILIES = (activations, attention, conv, elementwise, experts, linear, norm, pool, recurrent, regularisation)
ROWS: dict[str, LayerRow] = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
WRONG = {name: row for family in FAMILIES for name, row in family.WRONG.items()}
