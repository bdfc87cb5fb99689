"""The table of all layers on graphs, which `tests/xnn/graph/test_every_graph_layer.py` runs: a file for each family.

Each file has ROWS (name -> `GraphRow`) and WRONG (name -> the arguments of `assert_refused`). The fast set checks the
values of rows named after their layer alone ("GAT"), and some of their other properties. The slow set runs all checks
of all rows, including variants ("GAT, heads summed").
"""

import importlib
import pkgutil

from tests.xnn.graph.row import GraphRow

FAMILIES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
ROWS: dict[str, GraphRow] = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
WRONG = {name: row for family in FAMILIES for name, row in family.WRONG.items()}
