"""Tests on an NVIDIA GPU: ``XJAX_PLATFORMS=cuda,cpu python -m pytest tests/gpu``; ``--on-cpu`` rehearses them."""

import pytest

import xjax


def pytest_addoption(parser):
    parser.addoption("--on-cpu", action="store_true", help="run the tests of GPUs on the CPU, to see that they work")


@pytest.fixture(autouse=True)
def _needs_gpu(request):
    if xjax.default_backend() != "gpu" and not request.config.getoption("--on-cpu", False):
        pytest.skip("no GPU is the default device: set XJAX_PLATFORMS=cuda,cpu on a machine that has one")
