"""The versions of jaxlib that xjax is tested with; imported first, so that the error for another version is helpful.

jaxlib's Python interface is private: a newer version may lack or change any name that the adapter uses.
"""

import warnings

from xjax.core.errors import bad
from xjax.core.versions import version_numbers
from xjax.runtime.process import cuda_wheels

try:
    from jaxlib.version import __version__ as installed
except ImportError:
    installed = ""

# As in pyproject.toml: versions >= FIRST and < BEFORE, except CRASHES. Its compiler for CPUs ends the process with a
# segmentation fault for some programs with loops inside pmap; 0.11.0, 0.11.1 and 0.12 compile them. It is accepted with
# its CUDA plugin: programs for GPUs have another compiler, and tests/gpu passed there.
FIRST, BEFORE, CRASHES = "0.10.2", "0.13", "0.11.2"
REQUIREMENT = f"jaxlib>={FIRST},!={CRASHES},<{BEFORE}"


def is_tested(version: str) -> bool:
    """Whether xjax is tested with this version of jaxlib.

    >>> is_tested("0.12.0.1"), is_tested("0.13.0.dev20270101"), is_tested("0.11.2")
    (True, False, False)
    """
    return version != CRASHES and version_numbers(FIRST) <= version_numbers(version) < version_numbers(BEFORE)


def is_taken(version: str) -> bool:
    """Whether a version is accepted without a warning: a tested version, or CRASHES with its CUDA plugin."""
    return is_tested(version) or (version == CRASHES and cuda_wheels.find_plugin() is not None)


def _explained(error: Exception) -> Exception:
    """The exception to raise for an error in the import of the adapter."""
    if not installed:
        return bad("import xjax", "jaxlib is not installed", fix=f"pip install '{REQUIREMENT}'.", exc=ImportError)
    if is_tested(installed):
        return error
    return bad("import xjax", "the installed jaxlib lacks a name that xjax uses",
               given={"jaxlib": f"{installed} (tested: {REQUIREMENT})", "missing": str(error)},
               fix=f"pip install '{REQUIREMENT}', or install a newer xjax.", exc=ImportError)


try:
    from xjax.runtime import xla as _xla  # noqa: F401
except (AttributeError, ImportError) as _error:
    raise _explained(_error) from _error

if not is_taken(installed):
    warnings.warn(f"import xjax: jaxlib {installed} is not among the tested versions ({REQUIREMENT}); if calls fail or "
                  f"results differ, pip install '{REQUIREMENT}'.", stacklevel=2)
