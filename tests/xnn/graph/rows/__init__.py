"""One table of all layers on graphs, which `tests/xnn/graph/test_every_graph_layer.py` runs: a file for each family.

Each file has ROWS (name -> `Row`) and WRONG (name -> a wrong call, see `tests/xnn/wrong.py`). A row named after its
layer alone ("GAT") is run through every check in the fast set; variants ("GAT, heads summed") through values there, and
through the other checks in the slow set.
"""

import importlib
import pkgutil

from tests.xnn.graph.row import Row

FAMILIES = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
ROWS: dict[str, Row] = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
WRONG = {name: row for family in FAMILIES for name, row in family.WRONG.items()}
