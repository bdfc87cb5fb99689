"""`xjax.image` against real JAX in double precision: values, vmap, gradients; dtypes; misuse."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.ops.harness import check_as_jax
from tests.ops.row import OpRow, r
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import image

jax = real_jax()

METHODS = ["nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"]
X = r(5, 3, 2)


def moved(L, x, scale, translation):
    return [L.scale_and_translate(x, (4, 4, 2), (0, -2), scale, translation, m, antialias)
            for m in METHODS[1:] for antialias in (True, False)]


FAST = [
    OpRow("resize", lambda L, x: [L.resize(x, (2, 7, 2), m, antialias)
                                  for m, antialias in (("cubic", True), ("cubic-pytorch", False))], (X,)),
    OpRow("nearest", lambda L, x: [L.resize(x, shape, L.ResizeMethod.NEAREST) for shape in ((9, 2, 2), (1, 0, 3))],
          (X,)),
]
SLOW = [
    *[OpRow(f"resize {m}", lambda L, x, m=m: [L.resize(x, shape, m, antialias) for antialias in (True, False)
                                              for shape in ((8, 2, 2), (1, 12, 2), (1, 1, 2), (5, 3, 2), (9, 0, 2))],
            (X,)) for m in METHODS],
    # With these scales the corner of a kernel never coincides with a pixel, where the derivative jumps.
    OpRow("scale_and_translate", moved, (X, np.array([1.7, 0.4]), np.array([-1.2, 0.3]))),
    OpRow("scale_and_translate down and up", moved, (X, np.array([0.3, 2.3]), np.array([0.8, -1.1]))),
]


@pytest.mark.parametrize("row", [*FAST, *[pytest.param(row, marks=pytest.mark.slow) for row in SLOW]],
                         ids=[row.name for row in (*FAST, *SLOW)])
def test_as_jax(row: OpRow) -> None:
    check_as_jax(row, image, jax.image)


@pytest.mark.parametrize("dtype", ["bool", "bfloat16"])
def test_dtypes(dtype):
    x, y = (m.numpy.asarray(np.arange(12).reshape(3, 4) % 5).astype(dtype) for m in (xjax, jax))
    for method in ("nearest", "linear"):
        assert_same(image.resize(x, (5, 2), method), jax.image.resize(y, (5, 2), method))


def test_corners_stay_aligned():
    """The documented scale and translation that align the outermost pixels of both images."""
    x = np.float32([1, 3, 7])
    scale = np.float32([4 / 2])
    got = image.scale_and_translate(x, (5,), (0,), scale, 0.5 * (1 - scale), "linear", False)
    np.testing.assert_allclose(got, [1, 2, 3, 5, 7], rtol=1e-6)


@pytest.mark.parametrize("call, kind, text", [
    (lambda: image.resize(X, (2, 2), "linear"), ValueError, "fix: pass a size for each axis"),
    (lambda: image.resize(X, (2, 2, 2), "linnear"), ValueError, "unknown method 'linnear'"),
    (lambda: image.resize(X, (2, 2, 2), None), TypeError, "fix: pass a name"),
    (lambda: image.resize(X[:0], (2, 2, 2), "area"), ValueError, "does not fit"),
    (lambda: image.resize([1.0], (2,), "linear"), TypeError, "convert it with xjax.numpy.array"),
    (lambda: image.scale_and_translate(X, X.shape, (0,), np.ones(1), np.ones(1), "nearest"), ValueError, "fix: "),
    (lambda: image.scale_and_translate(X, X.shape, (0, 1), np.ones(1), np.ones(1), "cubic"), ValueError, "2 axes"),
    (lambda: image.scale_and_translate(X, X.shape, (0, 0), np.ones(2), np.ones(2), "cubic"), ValueError, "twice"),
])
def test_misuse(call, kind, text):
    assert_refused(call, kind, text)
