"""Kernels of infinitely wide networks against those of neural-tangents, which tests/xnn/peers/kernels.py wrote."""

from pathlib import Path

import numpy as np
import pytest

import xjax
from tests.sampling import one_in
from tests.xnn.kernels.built import built
from tests.xnn.peers import kernels as peer

EXPECTED = np.load(Path(peer.__file__).with_suffix(".npz"))
INPUTS = peer.arrays()


def _masks(inputs, is_pair):
    """The mask of padded inputs, for x1, or for x1 and x2."""
    if inputs not in peer.LENGTHS:
        return {}
    one, other = peer.mask(inputs), peer.mask(peer.OTHER[inputs])
    return {"row_mask": (one, other) if is_pair else one}


@pytest.mark.parametrize("name", one_in(8, peer.MODELS))
def test_values(name):
    inputs, model = peer.MODELS[name]
    layer, x1 = built(model), INPUTS[inputs]
    with xjax.enable_x64(True):
        for parameterization in peer.parameterizations(name):
            for which, x2 in (("same", None), ("other", INPUTS[peer.OTHER[inputs]])):
                kernels = layer.kernel(x1, x2, parameterization=parameterization, train=True,
                                       **_masks(inputs, x2 is not None))
                expected = EXPECTED[f"{name} {parameterization} {which}"]
                # Its kernels of `rectified` are NaN for equal inputs: the arccosine of 1 + 2e-16.
                known = np.isfinite(expected)
                assert known.all() or "rectified" in name and known.mean() > 0.7
                np.testing.assert_allclose(np.stack(kernels)[known], expected[known], 1e-5, 1e-12,
                                           err_msg=f"{parameterization} {which}")
