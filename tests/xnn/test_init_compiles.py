"""`jit(layer.init)` of every layer and model compiles in seconds; on jaxlib 0.12 programs of many draws did not."""

import time

import numpy as np
import pytest

import xjax
from tests.sampling import one_in
from tests.xnn.graph.row import draw_graph, init_shapes
from tests.xnn.graph.rows import ROWS as GRAPH_ROWS
from tests.xnn.rows import ROWS
from tests.xnn.rows.row import draw
from xjax import random, tree_util
from xnn import models

pytestmark = pytest.mark.usefixtures("as_shipped")

_LIMIT = 10.0                   # seconds of all cores together; programs that do not finish take hours

# The smallest model of each kind, and the shape of its input.
_ON_GRAPHS = {"APPNP": {}, "GAT": {}, "GATv2": {}, "GCN": {}, "GCNII": {"hidden": 2, "layers": 2}, "GIN": {},
              "GraphSAGE": {}, "SGC": {}}
MODELS = {
    **{name: (getattr(models, f"{name}Stack")(getattr(models, f"{name}Config")(features=3, **sizes)), (5, 4))
       for name, sizes in _ON_GRAPHS.items()},
    "BERT": (models.BERT(models.BERTConfig(vocabulary=11, length=9, features=8, hidden=12, layers=1, heads=2)), (2, 5)),
    "ConvNeXt": (models.ConvNeXt(models.ConvNeXtConfig(((1, 3),), classes=5, patch=2)), (2, 8, 8, 3)),
    "DiT": (models.DiT(models.DiTConfig(image=4, patch=2, features=8, hidden=12, layers=1, heads=2, labels=3)),
            (2, 4, 4, 3)),
    "GPT2": (models.GPT2(models.GPT2Config(vocabulary=11, length=9, features=8, layers=1, heads=2)), (2, 5)),
    "LSTMLanguageModel": (models.LSTMLanguageModel(models.LSTMLanguageModelConfig(vocabulary=7, features=8)), (2, 5)),
    "LeNet": (models.LeNet(models.LeNetConfig(classes=4, features=(2, 3), hidden=(6, 5))), (2, 28, 28, 1)),
    "Llama": (models.Llama(models.LlamaConfig(vocabulary=11, features=8, hidden=12, layers=1, heads=2, kv_heads=1)),
              (2, 5)),
    "MLP": (models.MLP(models.MLPConfig((8, 8), 3)), (2, 8)),
    "ResNet": (models.ResNet(models.ResNetConfig(((1, 3),), classes=5)), (2, 32, 32, 3)),
    "T5": (models.T5(models.T5Config(vocabulary=11, features=8, hidden=16, layers=1, heads=2, head_size=4)), (2, 5),
           {"source": (2, 5)}),
    "UNet": (models.UNet(models.UNetConfig(2, (2, 3))), (2, 8, 8, 3)),
    "VAE": (models.VAE(models.VAEConfig(shape=(4, 4), code=2, hidden=(16,))), (2, 4, 4)),
    "ViT": (models.ViT(models.ViTConfig(classes=3, image=4, patch=2, features=8, hidden=12, layers=1, heads=2)),
            (2, 4, 4, 3)),
}


def _programs():
    """Name -> a function that lowers the init; some models have the names of layers."""
    def lowered(layer, shape, inputs=None):
        return xjax.jit(lambda key: layer.init(key, shape, **(inputs or {}))[1]).lower(random.key(0))

    def of_layer(row):
        x, extra = draw(row)
        return lowered(row.layer, x, extra)

    def of_graph_layer(row):
        graph = draw_graph(row)
        return lowered(row.layer, graph.nodes.shape, init_shapes(row, graph))

    return {**{name: lambda row=row: of_layer(row) for name, row in ROWS.items() if "," not in name},
            **{name: lambda row=row: of_graph_layer(row) for name, row in GRAPH_ROWS.items() if "," not in name},
            **{f"{name}, model": lambda case=case: lowered(*case) for name, case in MODELS.items()}}


_PROGRAMS = _programs()
_GRAPH_MODELS = [f"{name}, model" for name in _ON_GRAPHS]            # they differ in one layer
_OTHER_MODELS = [f"{name}, model" for name in MODELS if name not in _ON_GRAPHS]
_LAYERS = [name for name in _PROGRAMS if "," not in name]
_compiled = set()               # texts: many layers have the same parameters, and the test concerns the compiler


@pytest.mark.parametrize("name", [*one_in(12, _LAYERS), *one_in(8, _GRAPH_MODELS), *one_in(4, _OTHER_MODELS)])
def test_init_compiles(name):
    lowered = _PROGRAMS[name]()
    text = lowered.as_text()
    if text in _compiled:
        return
    _compiled.add(text)
    start = time.process_time()
    compiled = lowered.compile()
    assert time.process_time() - start < _LIMIT
    assert all(np.all(np.isfinite(leaf)) for leaf in tree_util.tree_leaves(compiled(random.key(0))))


def test_every_model_is_among_them():
    """All models but `GraphStackConfig`, the part that the configs of models on graphs share."""
    kinds = {name.removesuffix("Config") for name in dir(models) if name.endswith("Config")} - {"GraphStack"}
    assert kinds == set(MODELS)
