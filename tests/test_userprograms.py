"""Whole small programs, as users write them, give in xjax what they give in JAX.

The programs are all public functions of the files of `tests/userprograms`; each takes the library, `jax` or `xjax`.
Value, dtype, weak type and containers of the results are compared, or the class of the error.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import xjax
from tests.compare import assert_same_outcome, outcome
from tests.oracle import current, only, real_jax
from tests.sampling import one_in

jax = real_jax("flatten_util", "image", "ops", "nn.initializers", "experimental.ode", "experimental.jet",
               "ad_checkpoint", "scipy.fft", "scipy.integrate", "scipy.interpolate", "scipy.linalg",
               "scipy.ndimage", "scipy.optimize", "scipy.signal", "scipy.sparse.linalg", "scipy.spatial.transform",
               "scipy.special", "scipy.stats")


def programs() -> dict[str, object]:
    """The function of each "file.function", in the order of the files."""
    files = sorted(p.stem for p in (Path(__file__).parent / "userprograms").glob("*.py"))
    modules = {name: importlib.import_module(f"tests.userprograms.{name}") for name in files}
    return {f"{name}.{f.__name__}": f for name, module in modules.items()
            for f in vars(module).values()
            if inspect.isfunction(f) and f.__module__ == module.__name__ and not f.__name__.startswith("_")}


PROGRAMS = programs()

# Deliberate differences from JAX: reason -> programs.
OTHERWISE = {
    "scan returns arrays, also for a Python number that the carry keeps": ["samplers.langevin_with_named_state"],
    "the gradient of a Python number is weakly typed":
        ["derivatives.gradients_at_edges", "algebra_and_probability.black_scholes_and_greeks"],
    "distributions at integers with Python numbers as parameters are weakly typed":
        ["algebra_and_probability.distributions_of_statistics"],
    "tangents are arrays, also where a rule computes them from Python numbers":
        ["derivatives.custom_jvp_with_static_argument"],
    "scipy.signal.correlate of weakly typed arrays is strongly typed": ["images_and_signals.spectral_peaks"],
    "types print in the short form of programs": ["devices_and_stages.ahead_of_time"],
    "the error has another class: ValueError for a wrong value and TypeError for a wrong type or structure":
        ["mistakes.custom_vjp_with_cotangent_of_wrong_shape", "mistakes.arithmetic_on_typed_keys"],
    "grids are a tuple, as in NumPy and newer versions":
        [only("graphs_and_indices.grids_and_ranges", until="0.12")],
}
DIFFERENT = {name for names in OTHERWISE.values() for name in current(names)}


@pytest.mark.parametrize("name", one_in(60, PROGRAMS))
@pytest.mark.filterwarnings("ignore")
def test_a_program_gives_what_it_gives_in_jax(name):
    ours, theirs = outcome(PROGRAMS[name], xjax), outcome(PROGRAMS[name], jax)
    assert (theirs.error is not None) == name.startswith("mistakes."), theirs.error
    if name not in DIFFERENT:
        assert_same_outcome(ours, theirs, what=name)
        return
    with pytest.raises(AssertionError):
        assert_same_outcome(ours, theirs, what=name)


def test_there_are_hundreds_of_programs():
    assert len(PROGRAMS) >= 300


def test_the_table_of_differences_is_of_these_programs():
    assert set(PROGRAMS) >= {getattr(name, "value", name) for names in OTHERWISE.values() for name in names}
