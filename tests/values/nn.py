"""`xjax.nn.initializers`: the draws from a key are JAX's own."""

from __future__ import annotations

import numpy as np

from tests.values.row import rows


def initializers(names, call, **options):
    """The draws from a key are JAX's own."""
    return rows("nn.initializers", names, "u4[2]:wide", call=call, **options)


INITIALIZERS = [
    *initializers("glorot_uniform glorot_normal lecun_uniform lecun_normal he_uniform he_normal kaiming_normal "
                  "kaiming_uniform xavier_normal xavier_uniform", lambda f, key: (
                      f()(key, (3, 4)), f(in_axis=0, out_axis=2, batch_axis=1, dtype=np.float32)(key, (3, 4, 2)))),
    *initializers("normal uniform", lambda f, key: (f()(key, (3, 4)), f(2.0, np.float32)(key, (5,)))),
    *initializers("truncated_normal", lambda f, key: (f()(key, (3, 4)), f(2.0, np.float32, -1.0, 3.0)(key, (5,)))),
    *initializers("zeros ones", lambda f, key: (f(key, (3, 4)), f(key, (0,), np.int8))),
    *initializers("constant", lambda f, key: (f(2)(key, (3, 4)), f(np.arange(3), np.int32)(key, (2, 3)))),
    *initializers("variance_scaling", lambda f, key: (
        f(2.0, "fan_avg", "normal")(key, (3, 4)), f(0.5, "fan_geo_avg", "uniform")(key, (2, 3, 4)),
        f(1.0, "fan_out", "truncated_normal", dtype=np.float32)(key, (3, 4)))),
    # Rounding is magnified by the condition of the matrix that is drawn and orthogonalised.
    *initializers("orthogonal", lambda f, key: (f()(key, (4, 3)), f(2.0, 0)(key, (2, 4))), tol=1e3),
    *initializers("delta_orthogonal", lambda f, key: (f()(key, (3, 2, 4)), f(0.5)(key, (3, 3, 2, 2))), tol=1e3),
]

ROWS = [*INITIALIZERS]
