"""The table of a model, and what `import xnn` brings with it."""

import subprocess
import sys

import xnn
from xnn import GCN, Dense, Relu, describe, parallel, repeat, residual, serial


def cells(text):
    return [line.split("  ") for line in text.splitlines()]


def test_one_line_for_each_layer_and_the_total():
    text = describe(serial(Dense(32), Relu, Dense(10)), (-1, 784))
    lines = text.splitlines()
    assert [line.split()[0] for line in lines] == ["layer", "serial", "[0]", "[1]", "[2]", "total"]
    assert "b f32[32], w f32[784,32]" in lines[2] and lines[2].endswith("25,120")
    assert "(-1, 32)" in lines[3] and lines[3].endswith(" 0")
    assert lines[-1].endswith("25,450")
    assert len({line.index("(-1") for line in lines[1:5]}) == 1  # columns are aligned


def test_nested_models():
    model = serial(
        residual(Dense(4), Relu), repeat(Dense(4), 3), xnn.FanOut(2), parallel(Relu, Relu)
    )
    text = describe(model, (2, 4))
    assert "      [0] Dense" in text  # serial > residual > serial > Dense
    assert "repeat(n=3)" in text and "((2, 4), (2, 4))" in text
    assert text.splitlines()[-1].split() == ["total", "80"]


def test_gcn():
    lines = describe(GCN(16, 7), (-1, 1433)).splitlines()
    assert lines[1].startswith("GCN") and "[1] GraphConvolution" in lines[3]
    assert lines[-1].split() == ["total", "23,063"]


def test_all_names_exist():
    assert sorted(xnn.__all__) == sorted(set(xnn.__all__))
    for name in xnn.__all__:
        assert getattr(xnn, name) is not None


def test_import_brings_no_scipy_and_no_optax():
    code = (
        "import sys, xjax; before = set(sys.modules); import xnn;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new & {'scipy', 'optax', 'jax', 'pandas', 'networkx'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
