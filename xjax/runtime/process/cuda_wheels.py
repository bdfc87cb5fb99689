"""Location of the CUDA libraries in the wheels of NVIDIA and JAX, and whether there is a GPU.

This module only reads the file system: it neither loads CUDA nor imports a package of the wheels (the plugin's own
`__init__` would import jax).
"""

import glob
import importlib.util
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache

# (package, library), in the order of their dependencies.
_LIBRARIES = (
    ("cuda_runtime", "cudart"),
    ("cuda_nvrtc", "nvrtc"),
    ("cuda_cupti", "cupti"),
    ("nvjitlink", "nvJitLink"),
    ("cublas", "cublasLt"),
    ("cublas", "cublas"),
    ("cufft", "cufft"),
    ("cusparse", "cusparse"),
    ("cusolver", "cusolver"),
    ("cudnn", "cudnn"),
    ("nccl", "nccl"),
    ("nvshmem", "nvshmem_host"),
)
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg")  # Linux; Windows Subsystem for Linux


def find_plugin() -> tuple[str, str] | None:
    """``(CUDA version, path of the library)`` of the newest PJRT plugin; None without one."""
    for version in ("13", "12"):
        try:
            spec = importlib.util.find_spec(f"jax_plugins.xla_cuda{version}")
        except ModuleNotFoundError:
            continue
        if spec is not None and spec.origin is not None:
            return version, os.path.join(os.path.dirname(spec.origin), "xla_cuda_plugin.so")
    return None


def gpu_visible(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the driver is installed and ``CUDA_VISIBLE_DEVICES`` does not hide every GPU."""
    return not gpu_hidden(environ) and any(os.path.exists(path) for path in _DEVICE_FILES)


def gpu_hidden(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether ``CUDA_VISIBLE_DEVICES`` hides every GPU."""
    shown = environ.get("CUDA_VISIBLE_DEVICES")
    return shown is not None and shown.strip() in {"", "-1", "NoDevFiles"}


def libraries(version: str) -> Iterator[str]:
    """Libraries of the nvidia-* wheels; missing ones are left to the loader's search path."""
    for root in _nvidia_roots():
        for package, library in _LIBRARIES:
            for folder in (f"cu{version}", package):
                pattern = os.path.join(root, folder, "lib", f"lib{library}.so*")
                yield from sorted(glob.glob(pattern))[:1]


@lru_cache(maxsize=1)
def toolkit() -> str | None:
    """Folder with ptxas and libdevice in the nvidia-* wheels; None leaves the search to XLA."""
    for root in _nvidia_roots():
        for folder in ("cu13", "cuda_nvcc"):
            if os.path.exists(os.path.join(root, folder, "bin", "ptxas")):
                return os.path.join(root, folder)
    return None


def _nvidia_roots() -> list[str]:
    spec = importlib.util.find_spec("nvidia")  # a namespace package: it may have several folders
    return list(spec.submodule_search_locations or ()) if spec is not None else []
