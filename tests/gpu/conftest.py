"""Tests on an NVIDIA GPU: ``XJAX_PLATFORMS=cuda,cpu python -m pytest tests/gpu``; ``--on-cpu`` runs them on the CPU."""

import pytest

import xjax


def pytest_addoption(parser):
    parser.addoption("--on-cpu", action="store_true", help="run the GPU tests on the CPU, to check the tests")


@pytest.fixture(autouse=True)
def _needs_gpu(request):
    if xjax.default_backend() != "gpu" and not request.config.getoption("--on-cpu", False):
        pytest.skip("the default device is not a GPU: set XJAX_PLATFORMS=cuda,cpu on a machine with a GPU")
