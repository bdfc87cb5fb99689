"""Types of xnn for type checkers: its names, which are loaded when they are used, and the types of layers."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

import xnn
from tests.rooms import ROOT

PROGRAM = '''
import xnn
from xjax import random

init, apply = xnn.Dense(3)
layer = xnn.serial(xnn.Dense(16, bias=False), xnn.Relu, (init, apply))
shape, params = layer.init(random.key(0), (-1, 4))
y = layer.apply(params, 1.0, train=True, rng=xnn.RowKey(random.key(0), 0))
reveal_type(init)                            # InitFn
reveal_type(layer[1])                        # ApplyFn
reveal_type(layer.layers[0])                 # Layer
reveal_type(xnn.Relu)                        # Layer
reveal_type(xnn.graph.GAT(3, 2))             # AttentionLayer
reveal_type(xnn.models.MLP())                # Layer
xnn.Dense("16")                              # error
xnn.Dense(16, bais=False)                    # error
xnn.serial(xnn.Dense)                        # error
xnn.Densee(16)                               # error
xnn.graph.GATT(3)                            # error
layer.apply(params)                          # error
layer.apply(params, 1.0, train="yes")        # error
init, apply, third = layer                   # error
'''


def listed(module: str) -> set[str]:
    """The names in `__all__` of a file, which must be literals: mypy reads nothing else."""
    for node in ast.parse((ROOT / module).read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{module} has no list of its names")


def test_the_names_are_literals():
    assert listed("xnn/api.py") | listed("xnn/layers/__init__.py") == set(xnn.__all__)
    assert listed("xnn/graph/api.py") == set(xnn.graph.__all__)
    assert listed("xnn/models/__init__.py") == set(xnn.models.__all__)


@pytest.mark.slow                            # pyright takes about ten seconds
def test_a_program(tmp_path):
    pytest.importorskip("pyright")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"include": ["program.py"], "extraPaths": [str(ROOT)]}))
    run = subprocess.run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"],
                         cwd=tmp_path, capture_output=True, text=True)
    message = {}
    for each in json.loads(run.stdout)["generalDiagnostics"]:
        is_error = each["severity"] == "error"
        message[each["range"]["start"]["line"]] = "error" if is_error else each["message"].split('"')[-2]
    lines = PROGRAM.splitlines()
    assert message == {i: line.partition("# ")[2] for i, line in enumerate(lines) if "# " in line}
