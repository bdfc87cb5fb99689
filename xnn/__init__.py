"""xnn: layers as pairs of pure functions, on xjax.

A layer unpacks as ``init, apply``. `serial` and `parallel` combine layers into a layer. `GCN` is a whole model;
`models` has more. `stax` and `optimizers` have the API of JAX's example libraries; `optim` is optax for xjax arrays.

Each module is loaded when one of its names is first used, so configs of `models` can be read without jaxlib.
"""

from typing import TYPE_CHECKING

from xnn.public import public_names

if TYPE_CHECKING:
    from xnn import kernels as kernels
    from xnn import models as models
    from xnn import optim as optim
    from xnn import optimizers as optimizers
    from xnn import pretrained as pretrained
    from xnn import stax as stax
    from xnn.api import *
    from xnn.layers import *

# Loaded without xnn.api: few programs use all of the first ones, and modules that xnn.api loads use the others.
public_names(__name__, others="xnn.api", modules=(
    "kernels", "models", "optim", "optimizers", "pretrained", "stax",
    "graph", "layers", "losses", "metrics", "params", "rng", "sparse"))
