"""Kernels in tiles: equal to whole ones, within their memory, in files that an interrupted computation continues."""

import json

import numpy as np
import pytest

import xjax
import xnn
from xjax.nn.initializers import variance_scaling
from xnn import Conv, Dense, Relu, serial
from xnn.kernels import Kernels, tiled_kernel

ROWS = serial(Dense(64), Relu, Dense(64), Relu, Dense(1))
IMAGES = serial(Conv(8, (3, 3)), Relu, Conv(8, (3, 3)), Relu, xnn.GlobalAvgPool(), Dense(1))
SERIES = serial(Conv(8, (3,)), Relu, Dense(1))


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("case", ["rows", "images", "positions"])
def test_values(case):
    model, x, budget = {"rows": (ROWS, drawn(23, 4), 2000), "images": (IMAGES, drawn(7, 6, 5, 2), 300_000),
                        "positions": (SERIES, drawn(7, 5, 2), 2500)}[case]
    steps = []
    tiled = tiled_kernel(model, x, memory_budget=budget, progress=lambda done, total: steps.append((done, total)))
    assert isinstance(tiled, Kernels) and isinstance(tiled.ntk, np.ndarray)
    assert len(steps) > 3 and [done for done, _ in steps] == list(range(1, steps[0][1] + 1))
    for one, whole in zip(tiled, model.kernel(x), strict=True):
        np.testing.assert_allclose(one, whole, 1e-5)
        mirror = np.swapaxes(one, 0, 1) if one.ndim == 2 else np.transpose(one, (1, 0, 3, 2))
        np.testing.assert_allclose(mirror, one, 1e-6)
    other = tiled_kernel(model, x, x[:3] + 1, get="ntk", memory_budget=budget, parameterization="ntk")
    np.testing.assert_allclose(other, model.kernel(x, x[:3] + 1, get="ntk", parameterization="ntk"), 1e-4)


def test_masks():
    model = serial(xnn.MaskRows(), Conv(8, (3,)), Relu, xnn.GlobalAvgPool(), Dense(1))
    x, mask = drawn(7, 5, 2), np.arange(5) < np.array([[1], [5], [3], [4], [2], [5], [1]])
    tiled = tiled_kernel(model, x, get="ntk", memory_budget=20_000, row_mask=mask)
    np.testing.assert_allclose(tiled, model.kernel(x, get="ntk", row_mask=mask), 1e-5)
    tiled = tiled_kernel(model, x, x[:3], get="ntk", memory_budget=20_000, row_mask=(mask, mask[:3]))
    np.testing.assert_allclose(tiled, model.kernel(x, x[:3], get="ntk", row_mask=(mask, mask[:3])), 1e-5)
    with pytest.raises(ValueError, match="`row_mask` must have a row for each example"):
        tiled_kernel(model, x, row_mask=mask[:3])
    with pytest.raises(TypeError, match="`row_mask` must be a pair"):
        tiled_kernel(model, x, x, row_mask=mask)


def test_several_devices():
    x = drawn(19, 4)
    devices = xjax.devices()
    tiled = tiled_kernel(ROWS, x, get="ntk", memory_budget=2000, devices=devices)
    np.testing.assert_allclose(tiled, ROWS.kernel(x, get="ntk"), 1e-5)


def test_an_interrupted_computation_continues(tmp_path):
    x, calls = drawn(23, 4), []

    def stop(done, total):
        calls.append((done, total))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiled_kernel(ROWS, x, memory_budget=2000, out=tmp_path / "kernel", progress=stop)
    assert len(json.loads((tmp_path / "kernel" / "tiles.json").read_text())["done"]) == 4
    rest = []
    tiled = tiled_kernel(ROWS, x, memory_budget=2000, out=tmp_path / "kernel",
                         progress=lambda done, total: rest.append((done, total)))
    assert rest[0][0] == 5 and rest[-1] == (calls[0][1], calls[0][1])
    np.testing.assert_allclose(np.load(tmp_path / "kernel" / "ntk.npy"), ROWS.kernel(x, get="ntk"), 1e-5)
    np.testing.assert_allclose(tiled.nngp, ROWS.kernel(x, get="nngp"), 1e-5)
    with pytest.raises(ValueError, match="another computation"):
        tiled_kernel(ROWS, x + 1, memory_budget=2000, out=tmp_path / "kernel")


def test_models_that_print_alike_are_not_confused(tmp_path):
    first, second = (serial(Dense(64, w_init=variance_scaling(scale, "fan_in", "normal")), Relu, Dense(1))
                     for scale in (1.0, 2.0))
    x = drawn(5, 4)
    assert repr(first) == repr(second)
    tiled_kernel(first, x, get="ntk", out=tmp_path)
    with pytest.raises(ValueError, match="another computation"):
        tiled_kernel(second, x, get="ntk", out=tmp_path)


def test_the_memory_does_not_grow_with_the_rows():
    sizes = []
    for n in (40, 120):
        steps = []
        tiled_kernel(IMAGES, drawn(n, 4, 4, 1), get="ntk", memory_budget="1MB", progress=lambda *at: steps.append(at))
        sizes.append(len(steps))
    assert sizes[1] > 5 * sizes[0]                  # nine times as many pairs in tiles of the same size


@pytest.mark.parametrize("budget", ["1e9 elephants", "", "GB"])
def test_a_budget_that_is_no_number(budget):
    with pytest.raises(ValueError, match="not a number of bytes"):
        tiled_kernel(ROWS, drawn(3, 4), memory_budget=budget)


def test_too_little_memory():
    with pytest.raises(ValueError, match="one row of each input needs more memory"):
        tiled_kernel(IMAGES, drawn(3, 6, 5, 2), memory_budget="1KB")
