"""Modules that are loaded when one of their names is first used: ``from recipes.lazy import jnp, xnn``.

A mistake in a config, an option or a file name then ends a command before jaxlib, orbax or matplotlib are loaded.
"""

import importlib
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

# datasets reads it at its import. Without it each load, even of a local file, uses the network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

if TYPE_CHECKING:
    import chex
    import datasets
    import matplotlib as mpl
    import matplotlib.cm as mpl_cm
    import matplotlib.collections as mpl_collections
    import matplotlib.colors as mpl_colors
    import matplotlib.figure as mpl_figure
    import matplotlib.legend as mpl_legend
    import matplotlib.lines as mpl_lines
    import matplotlib.ticker as mpl_ticker
    import networkx as nx
    import orbax.checkpoint as ocp
    import pandas as pd
    import PIL.Image as pil_image
    import PIL.ImageOps as pil_ops
    import pyarrow as pa
    import pyarrow.compute as arrow
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as parquet
    import safetensors.numpy as safetensors_numpy
    import scipy.sparse as sp
    import scipy.sparse.csgraph as csgraph
    import sklearn.datasets as sk_datasets
    import tokenizers

    import xjax
    import xjax.numpy as jnp
    import xnn
    import xnn.safetensors as tensor_files
    from xjax import lax, nn, random, tree_util
    from xnn import optim
else:
    class _Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self.__name__), name)

    chex, csgraph, datasets, nx, ocp, pd, sp, tokenizers = map(
        _Lazy, ("chex", "scipy.sparse.csgraph", "datasets", "networkx", "orbax.checkpoint", "pandas", "scipy.sparse",
                "tokenizers"))
    pa, arrow, arrow_csv, parquet, safetensors_numpy = map(
        _Lazy, ("pyarrow", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet", "safetensors.numpy"))
    mpl, mpl_cm, mpl_collections, mpl_colors = map(
        _Lazy, ("matplotlib", "matplotlib.cm", "matplotlib.collections", "matplotlib.colors"))
    mpl_figure, mpl_legend, mpl_lines, mpl_ticker = map(
        _Lazy, ("matplotlib.figure", "matplotlib.legend", "matplotlib.lines", "matplotlib.ticker"))
    pil_image, pil_ops, sk_datasets = map(_Lazy, ("PIL.Image", "PIL.ImageOps", "sklearn.datasets"))
    xjax, jnp, lax, nn, random, tree_util = map(
        _Lazy, ("xjax", "xjax.numpy", "xjax.lax", "xjax.nn", "xjax.random", "xjax.tree_util"))
    xnn, optim, tensor_files = map(_Lazy, ("xnn", "xnn.optim", "xnn.safetensors"))

__all__ = ["arrow", "arrow_csv", "chex", "csgraph", "datasets", "jnp", "lax", "mpl", "mpl_cm", "mpl_collections",
           "mpl_colors", "mpl_figure", "mpl_legend", "mpl_lines", "mpl_ticker", "nn", "nx", "ocp", "optim", "pa",
           "parquet", "pd", "pil_image", "pil_ops", "random", "safetensors_numpy", "sk_datasets", "sp", "tensor_files",
           "tokenizers", "tree_util", "xjax", "xnn"]
