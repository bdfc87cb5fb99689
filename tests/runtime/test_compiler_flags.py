"""The flags that xjax sets for speed: on which programs, and never in place of a flag of the user."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from xjax import lax
from xjax.runtime.xla.compiler_flags import CHOICES, compiler_flags

YNN = "xla_cpu_experimental_ynn_fusion_type"
X, K = np.ones((1, 8, 8, 16), np.float32), np.ones((3, 3, 16, 16), np.float32)


def conv(x, k):
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def test_convolutions_are_not_computed_by_ynn():
    lowered = xjax.jit(conv).lower(X, K)
    assert "INDIVIDUAL_CONVOLUTION" not in compiler_flags("cpu", lowered.as_text(), {})[YNN]
    assert "ynn" not in lowered.compile().as_text()
    products = xjax.jit(lambda x: x @ x.T).lower(np.ones((64, 64), np.float32))
    assert compiler_flags("cpu", products.as_text(), {}) == {}
    assert "ynn" in products.compile().as_text()


def test_a_gradient_of_a_kernel_alone_is_computed_by_ynn():
    images, kernel = np.ones((32, 32, 32, 32), np.float32), np.ones((5, 5, 32, 32), np.float32)

    def gradient(x, y):
        return xjax.linear_transpose(lambda k: conv(x, k), kernel)(y)

    alone = xjax.jit(gradient).lower(images, images).as_text()
    assert "stablehlo.convolution" in alone and YNN not in compiler_flags("cpu", alone, {})
    both = xjax.jit(lambda x, y: (gradient(x, y), conv(x, kernel))).lower(images, images).as_text()
    assert YNN in compiler_flags("cpu", both, {})


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.flag)
def test_a_flag_of_the_user_is_kept(choice, monkeypatch):
    program = xjax.jit(conv).lower(X, K).as_text()
    assert choice.concerns(program) and choice.why
    assert compiler_flags(choice.platform, program, {})[choice.flag] == choice.value
    assert compiler_flags(choice.platform, program, {choice.flag: ""})[choice.flag] == ""
    monkeypatch.setenv("XLA_FLAGS", f"--{choice.flag}=")
    assert choice.flag not in compiler_flags(choice.platform, program, {})
    assert choice.flag not in compiler_flags("gpu", program, {})
