"""The table of a model, and the modules that `import xnn` loads."""

import subprocess
import sys

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.xnn.protocol_layers import Centered
from xjax import ShapeDtypeStruct, lax
from xnn import (
    CSR,
    GCN,
    Dense,
    Embedding,
    GraphConvolution,
    MultiHeadAttention,
    Relu,
    composite,
    describe,
    parallel,
    repeat,
    residual,
    serial,
    shared,
    with_shared,
)
from xnn.cost import Cost, flops
from xnn.description import table
from xnn.graph import Graph


def cells(text):
    return [line.split("  ") for line in text.splitlines()]


def test_one_line_for_each_layer_and_the_total():
    text = describe(serial(Dense(32), Relu, Dense(10)), (-1, 784))
    lines = text.splitlines()
    assert [line.split()[0] for line in lines] == ["layer", "serial", "[0]", "[1]", "[2]", "total"]
    assert "b f32[32], w f32[784,32]" in lines[2] and "  25,120  " in lines[2]
    assert "(-1, 32)" in lines[3] and lines[3].split()[-3:] == ["0", "0", "128"]
    assert lines[-1].split() == ["total", "25,450", "50,816", "296"]
    assert len({line.index("(-1") for line in lines[1:5]}) == 1  # columns are aligned


def test_nested_models():
    model = serial(
        residual(Dense(4), Relu), repeat(Dense(4), 3), xnn.FanOut(2), parallel(Relu, Relu)
    )
    text = describe(model, (2, 4))
    assert "      [0] Dense" in text  # serial > residual > serial > Dense
    assert "repeat(n=3)" in text and "((2, 4), (2, 4))" in text
    assert text.splitlines()[-1].split() == ["total", "80", "256", "288"]


def test_gcn():
    lines = describe(GCN(16, 7), (-1, 1433)).splitlines()
    assert lines[1].startswith("GCN") and "[1] GraphConvolution" in lines[3]
    assert lines[-1].split()[:2] == ["total", "23,063"]


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


def test_costs_are_those_of_the_program():
    """By hand: 2 operations for each product of two numbers, times the iterations of loops."""
    dense = 2 * 6 * 4 * 5
    model = serial(Dense(5), Relu, residual(Dense(5)), repeat(Dense(5), 3))
    rows = {row.layer: row for row in table(model, (6, 4))}
    assert rows["Dense(n_out=5)"].cost is not None
    assert rows["serial"].cost.flops == dense + 4 * (2 * 6 * 5 * 5)
    assert rows["serial"].cost.out_bytes == 4 * 6 * 5 * 6                 # six outputs of 30 numbers
    assert table(Dense(5), (-1, 4))[0].cost == Cost(2 * 4 * 5, 20)


def test_flops_of_convolutions_branches_and_loops():
    x, weights = jnp.ones((2, 8, 8, 6)), jnp.ones((3, 3, 3, 4))

    def convolve(x):
        return lax.conv_general_dilated(x, weights, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                        feature_group_count=2)

    assert flops(xjax.make_jaxpr(convolve)(x)) == 2 * (2 * 4 * 4 * 4) * (3 * 3 * 3)
    m = jnp.ones((4, 4))
    loop = xjax.make_jaxpr(lambda m: lax.fori_loop(0, 5, lambda i, c: xjax.jit(jnp.matmul)(c, m), m))(m)
    assert flops(loop) == 5 * 2 * 64
    either = xjax.make_jaxpr(lambda p, m: lax.cond(p, lambda m: m @ m @ m, lambda m: m @ m, m))(True, m)
    assert flops(either) == 2 * 2 * 64
    batched = xjax.make_jaxpr(lambda m: jnp.einsum("bij,bjk->bik", m, m))(jnp.ones((3, 4, 4)))
    assert flops(batched) == 3 * 2 * 64


def test_costs_need_the_shapes_of_required_inputs():
    text = describe(GCN(16, 7), (-1, 1433))
    assert text.splitlines()[-1].split()[-2:] == ["?", "?"]
    rows = table(GCN(16, 7), (10, 30), adj=(10, 10))
    assert rows[0].cost.flops == 2 * 10 * (30 * 16 + 10 * 16 + 16 * 7 + 10 * 7)


def test_sums_over_edges_are_products_with_a_sparse_matrix():
    graph = Graph.from_edges([0, 1, 1, 3], [1, 2, 0, 1], np.zeros((5, 3), np.float32))
    csr = CSR.from_edges(graph.receivers, graph.senders, np.ones(4, np.float32), shape=(5, 5))
    for form in (graph, graph.tune(form="unrolled"), csr, csr.tune(form="unrolled"), graph.to_scipy()):
        assert table(GraphConvolution(7), (5, 3), graph=form)[0].cost.flops == 2 * 5 * 3 * 7 + 2 * 4 * 7
        rows = table(GCN(6, 2), (5, 3), adj=form)
        assert [row.cost.flops for row in rows] == [364, 2 * 5 * 3 * 6 + 2 * 4 * 6, 2 * 5 * 6 * 2 + 2 * 4 * 2]


def test_shared_weights_count_once():
    model = with_shared(serial(shared("w", Dense(3)), shared("w", Dense(3))))
    lines = describe(model, (2, 3)).splitlines()
    assert [line.split()[-3] for line in lines[1:]] == ["12", "12", "0", "0", "0", "12"]
    assert lines[2].split()[:2] == ["['w']", "Dense(n_out=3)"] and "those of 'w'" in lines[4]
    assert lines[-1].split()[-2:] == [str(2 * 2 * 2 * 9), str(2 * 24)]


def test_state_has_a_column_where_there_is_one():
    model = repeat(serial(Dense(4), Centered()), 3)
    lines = describe(model, (-1, 4)).splitlines()
    assert lines[0].split()[-3:] == ["state", "FLOPs", "bytes"]
    assert lines[-1].split() == ["total", "60", "15", str(3 * 2 * 16), str(3 * 32)]
    assert "state" not in describe(Dense(4), (-1, 4))


WORDS = serial(Embedding(7, 4), Dense(3))


@pytest.mark.parametrize("spec", [(2, 5), [2, 5], np.ones((2, 5), np.int64), jnp.ones((2, 5), int),
                                  ShapeDtypeStruct((2, 5), "uint8")], ids=lambda spec: type(spec).__name__)
def test_any_form_of_an_input_gives_the_same_table(spec):
    assert describe(WORDS, spec) == describe(WORDS, (2, 5))
    assert describe(WORDS, spec).splitlines()[-1].split() == ["total", "43", "240", "280"]


def test_inputs_of_several_dtypes():
    def forward(layers, tokens, source, scale, mask=None):
        return layers.words(tokens) * scale + layers.attend(layers.words(source), mask=mask).mean()

    model = composite(forward, words=WORDS, attend=MultiHeadAttention(4, 2))
    types = {"source": ShapeDtypeStruct((2, 6), "int32"), "scale": ShapeDtypeStruct((), "float32"),
             "mask": ShapeDtypeStruct((2, 6), bool)}
    arrays = {name: np.ones(one.shape, one.dtype) for name, one in types.items()}
    text = describe(model, ShapeDtypeStruct((2, 5), "int32"), **types)
    assert describe(model, np.ones((2, 5), np.int32), *arrays.values()) == text
    assert "?" not in "".join(line for line in text.splitlines() if "DotProduct" not in line)
    with pytest.raises(TypeError, match="describe: has no input `sauce`"):
        describe(model, (2, 5), sauce=(2, 6))


def test_trees_of_inputs():
    model = parallel(image=Dense(3), words=WORDS)
    shapes = {"image": ShapeDtypeStruct((2, 4), "float32"), "words": ShapeDtypeStruct((2, 5), "int32")}
    rows = table(model, shapes)
    assert rows[0].cost.out_bytes == 4 * (2 * 3 + 2 * 5 * 4 + 2 * 5 * 3)
    assert rows[0].in_shape == {"image": (2, 4), "words": (2, 5)}
    assert [row.cost for row in table(model, {name: np.ones(one.shape, one.dtype) for name, one in shapes.items()})
            ] == [row.cost for row in rows]
