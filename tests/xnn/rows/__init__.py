"""The table of all layers, which `tests/xnn/test_every_layer.py` runs: a file of rows for each family.

A new layer gets a row in the file of its family, and its wrong calls there. The fast set runs every check on a row
named after its layer alone ("Conv"). For variants ("Conv, strided") it checks values; their other checks are in the
slow set.
"""

from tests.xnn.rows import (
    activations,
    attention,
    conditioning,
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

FAMILIES = (activations, attention, conditioning, conv, elementwise, experts, linear, norm, pool, recurrent,
            regularisation)
ROWS: dict[str, LayerRow] = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
WRONG = {name: row for family in FAMILIES for name, row in family.WRONG.items()}
