"""One table of all layers on graphs, which `tests/xnn/graph/test_every_graph_layer.py` runs: a file for each family.

Each file has ROWS (name -> `GraphRow`) and WRONG (name -> the arguments of `assert_refused`). The values of a row named
after its layer alone ("GAT") are checked in the fast set, and some of the other checks run there; all checks of all
rows, variants ("GAT, heads summed") included, run in the slow set.
"""

import importlib
import pkgutil

from tests.xnn.graph.row import GraphRow

FAMILIES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
ROWS: dict[str, GraphRow] = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
WRONG = {name: row for family in FAMILIES for name, row in family.WRONG.items()}
