"""xnn: layers as pairs of pure functions, on xjax.

A layer unpacks as ``init, apply``. `serial` and `parallel` combine layers into a layer. `GCN` is a whole model;
`models` has more. `stax` and `optimizers` have the API of JAX's example libraries; `optim` is optax for xjax arrays.

Each module is loaded when one of its names is first used, so configs of `models` can be read without jaxlib.
"""

import importlib
from typing import TYPE_CHECKING, Any

# Loaded without xnn.api: few programs use all of the first ones, and modules that xnn.api loads use the others.
_MODULES = ("models", "optim", "optimizers", "pretrained", "stax",
            "graph", "layers", "losses", "metrics", "params", "rng", "sparse")

if TYPE_CHECKING:                                                        # no `__getattr__`: another name is an error
    from xnn import models as models
    from xnn import optim as optim
    from xnn import optimizers as optimizers
    from xnn import pretrained as pretrained
    from xnn import stax as stax
    from xnn.api import *
    from xnn.layers import *
else:
    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"xnn.{name}")
        if name.startswith("__") and name != "__all__":                  # attributes that the import system reads
            raise AttributeError(f"module 'xnn' has no attribute {name!r}")
        api = importlib.import_module("xnn.api")
        names = [*api.layers.__all__, *api.__all__]
        globals().update({"__all__": names}, **{each: getattr(api, each) for each in names})
        if name not in globals():
            raise AttributeError(f"module 'xnn' has no attribute {name!r}")
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*importlib.import_module(__name__).__all__, *_MODULES})
