"""The public names: each name in `__all__` exists, also if lazy, and JAX's names exist under JAX's paths."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.reference import all_names, named
from xjax.core.left_out import MODULES_LEFT_OUT

ROOT = Path(__file__).resolve().parent.parent
MODULES = ["xjax", "xjax.numpy", "xjax.numpy.fft", "xjax.numpy.linalg", "xjax.lax",
           "xjax.lax.linalg", "xjax.scipy.linalg", "xjax.scipy.special", "xjax.random", "xjax.nn", "xjax.ops",
           "xjax.tree", "xjax.tree_util", "xjax.errors", "xjax.dtypes", "xjax.sharding", "xjax.stages", "xjax.typing",
           "xjax.ad_checkpoint", "xjax.custom_batching", "xjax.custom_derivatives", "xjax.experimental.jet",
           "xjax.experimental.checkify", "xjax.experimental.layout", "xjax.experimental.mesh_utils",
           "xjax.experimental.multihost_utils", "xjax.experimental.pjit", "xjax.experimental.serialize_executable",
           "xjax.experimental.shard_map", "xjax.experimental.sparse", "xjax.debug", "xjax.experimental", "xjax.export",
           "xjax.ffi", "xjax.flatten_util", "xjax.image", "xjax.monitoring", "xjax.ref", "xjax.experimental.compute_on",
           "xjax.scipy.signal", "xjax.scipy.ndimage", "xjax.scipy.fft", "xjax.scipy.interpolate",
           "xjax.scipy.optimize", "xjax.scipy.integrate", "xjax.scipy.sparse.linalg", "xjax.experimental.ode",
           "xjax.scipy.cluster.vq", "xjax.scipy.spatial.transform", "xjax.scipy.stats", "xjax.scipy.stats.norm",
           "xjax.scipy", "xjax.core", "xjax.interop", "xjax.scipy.stats.multivariate_normal",
           "xnn", "xnn.graph", "xnn.layers", "xnn.losses", "xnn.metrics", "xnn.models",
           "xnn.optimizers", "xnn.params", "xnn.pretrained", "xnn.rng", "xnn.sparse", "xnn.stax", "recipes"]

# Names that typical programs take from JAX's top level.
TOP = """
Array NamedSharding P ShapeDtypeStruct ad_checkpoint block_until_ready checkpoint checkpoint_policies clear_caches
closure_convert config custom_batching custom_derivatives custom_gradient fwd_and_bwd
custom_jvp custom_vjp debug_nans default_backend default_device default_matmul_precision device_count
device_get device_put devices disable_jit dtypes enable_x64 errors eval_shape float0 grad hessian jacfwd
jacobian jacrev jit jvp lax linear_transpose linearize local_device_count local_devices make_jaxpr make_mesh
named_call named_scope nn numpy ops pmap process_count process_index random remat scipy sharding stages tree
tree_util typeof value_and_grad vjp vmap
""".split()  # noqa: SIM905


def _has(package):
    return importlib.util.find_spec(package) is not None


@pytest.mark.parametrize("module", MODULES)
def test_names_exist(module):
    if module == "recipes" and not _has("yaml"):
        pytest.skip("recipes needs packages that are not installed")
    namespace = importlib.import_module(module)
    assert len(set(namespace.__all__)) == len(namespace.__all__)
    for name in namespace.__all__:
        assert getattr(namespace, name) is not None or name in ("newaxis", "None")
        assert name in dir(namespace)


def suggestion(module, name):
    """The last line that a user sees for a misspelt name, and Python's whole text."""
    with pytest.raises(AttributeError) as caught:
        getattr(importlib.import_module(module), name)
    shown = "".join(traceback.format_exception(caught.value))
    return str(caught.value).splitlines()[-1], shown


@pytest.mark.parametrize("module", MODULES)
def test_misspelt_names_get_one_suggestion(module):
    longest = max(importlib.import_module(module).__all__, key=len)
    last, shown = suggestion(module, f"{longest}q")
    assert last == f"  fix: did you mean {longest!r}?" and shown.rstrip().endswith(last)


@pytest.mark.skipif(not _has("optax"), reason="optax is not installed")
def test_misspelt_names_of_optax_get_one_suggestion():
    for module, name, right in (("xnn.optim", "adamm", "adam"), ("xnn.optim", "losess", "losses")):
        last, shown = suggestion(module, name)
        assert last == f"  fix: did you mean {right!r}?" and shown.rstrip().endswith(last)
    assert {"adam", "losses", "from_optax"} <= set(dir(importlib.import_module("xnn.optim")))


@pytest.mark.parametrize("module", ["xnn", "xnn.graph", "xnn.models", "xnn.losses", "xjax.scipy", "recipes"])
def test_dir_of_a_module_lists_what_was_not_used_yet(module):
    code = f"import {module} as m; print(*dir(m)); print(*m.__all__)"
    listed, public = subprocess.run([sys.executable, "-c", code], check=True, text=True, capture_output=True,
                                    cwd=ROOT).stdout.splitlines()
    assert set(public.split()) <= set(listed.split())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="older versions suggest nothing for `from xnn import Denes`")
def test_imports_of_misspelt_names_get_the_suggestion_of_python():
    result = subprocess.run([sys.executable, "-c", "from xnn import Denes"], text=True, capture_output=True, cwd=ROOT)
    assert "Did you mean: 'Dense'?" in result.stderr


def test_top_level_names():
    assert not [name for name in TOP if not hasattr(xjax, name)]
    with pytest.raises(AttributeError, match="did you mean 'value_and_grad'"):
        xjax.value_and_gradient


# Parameters of JAX that are left out: sharding, keywords of NumPy's ufunc protocol, internals, rare options.
LEFT_OUT = {
    "": {"out_sharding", "in_sharding", "sharding", "accuracy", "jaxpr_name"},
    "numpy": {"out", "where"},
    "numpy.einsum": {"_dot_general"},
    "numpy.issubdtype": {"arg1", "arg2"},
    # xjax has other names for these, which programs pass by position.
    "lax.nextafter": {"x1", "x2"}, "lax.polygamma": {"m"}, "lax.zeta": {"q"},
    "core.eval_jaxpr": {"propagate_source_info"}, "ref.swap": {"_function_name"},
    "export.export": {"_override_lowering_rules"},
    # For clusters of TPUs, and certificates for connections between processes.
    "distributed.initialize": {"cluster_detection_method", "slice_index", "partition_index", "mtls_cert_file",
                               "mtls_key_file", "mtls_ca_file", "mtls_peer_uri_prefix", "verify_secure_credentials"},
    # xjax's name is `value`.
    ".": {"new_val"},
    # For types with varying mesh axes.
    "lax.all_gather": {"to"}, "vmap": {"sum_match"},
    "dtypes.canonicalize_dtype": {"allow_extended_dtype"},
}


@pytest.mark.parametrize("module", sorted(all_names()))
def test_parameters_are_named_as_in_jax(module):
    """A call with keywords that runs in JAX has the same keywords here, except those in the table."""
    if named("xjax", module) in MODULES_LEFT_OUT:
        return
    ours, theirs = (importlib.import_module(named(library, module)) for library in ("xjax", "jax"))
    faults = []
    for name in getattr(ours, "__all__", ()):
        f, g = getattr(ours, name), getattr(theirs, name, None)
        if not (inspect.isfunction(f) and callable(g)) or inspect.isclass(g):
            continue
        try:
            have, want = inspect.signature(f).parameters, inspect.signature(g).parameters
        except ValueError:
            continue
        if any(p.kind is p.VAR_KEYWORD for p in have.values()):
            continue
        by_keyword = {n for n, p in want.items()
                      if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        lost = by_keyword - set(have)
        full = f"{module}.{name}".lstrip(".")
        for key in ("", module, full):
            lost -= LEFT_OUT.get(key, set())
        if lost:
            faults.append(f"{full}: {sorted(lost)}")
    assert not faults, "\n".join(faults)


def test_functions_have_the_names_of_jax():
    """`__name__` of every public function and class: an alias that is a separate function in JAX is one here too."""
    otherwise = {
        "lax.random_gamma_grad": "JAX's is that of its decorator", "stages.Wrapped": "a protocol in JAX",
        "..Array": "JAX's has a dot", "numpy.ndarray": "JAX's has a dot", "debug.log": "debug.callback in JAX's words",
        "profiler.TraceAnnotation": "jaxlib's own class",
        # Unions and Any, whose names differ between versions of Python.
        "core.Atom": "", "lax.ConvGeneralDilatedDimensionNumbers": "", "lax.PrecisionLike": "", "typing.ArrayLike": "",
        "typing.DTypeLike": "",
    }
    faults = {}
    for module, names in all_names().items():
        if named("xjax", module) in MODULES_LEFT_OUT:
            continue
        ours, theirs = (importlib.import_module(named(library, module)) for library in ("xjax", "jax"))
        for name in names:
            f, g = getattr(ours, name, None), getattr(theirs, name, None)
            if f is None or inspect.ismodule(g) or not callable(g) or f"{module}.{name}" in otherwise:
                continue
            want = getattr(g, "__name__", None)             # partials have none
            if want is not None and getattr(f, "__name__", None) != want:
                faults[f"{module}.{name}"] = getattr(f, "__name__", None), want
    assert not faults


def test_a_second_name_is_a_function_of_its_own():
    """It has the signature, text and values of the first and its own repr, and pickle restores it."""
    for first, second in ((jnp.arccos, jnp.acos), (jnp.concatenate, jnp.concat), (jnp.max, jnp.amax),
                          (xjax.tree_util.tree_map, xjax.tree.map), (xjax.checkpoint, xjax.remat),
                          (xjax.process_index, xjax.host_id)):
        assert first is not second and first.__name__ != second.__name__ and second.__name__ in repr(second)
        assert inspect.signature(first) == inspect.signature(second) and first.__doc__ == second.__doc__
        assert pickle.loads(pickle.dumps(second)) is second and pickle.loads(pickle.dumps(first)) is first
    assert jnp.amax(jnp.arange(6).reshape(2, 3), axis=1, keepdims=True).tolist() == [[2], [5]]
    assert xjax.remat(jnp.sin, prevent_cse=False)(0.0) == 0 and xjax.remat(policy=None)(jnp.cos)(0.0) == 1


def test_imports_as_programs_write_them():
    code = """
import xjax as jax
import xjax.numpy as jnp
from xjax import grad, jit, lax, random, vmap
from xjax.tree_util import tree_map

from xjax.sharding import Mesh, NamedSharding, PartitionSpec as P

import xjax.lax, xjax.ops, xjax.nn
from xjax.ops import segment_sum
assert jax.numpy is jnp and jax.lax is lax and lax.scan is not None and callable(lax.cond) and callable(jnp.take)
assert callable(xjax.lax.scan) and callable(xjax.lax.while_loop)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_device_put_and_get():
    tree = {"a": np.arange(3.0), "b": (1.5, jnp.ones(2))}
    there = xjax.device_put(tree, xjax.devices()[1])
    assert there["a"].devices() == {xjax.devices()[1]} == there["b"][1].devices()
    back = xjax.device_get(there)
    assert type(back["a"]) is np.ndarray and back["b"][0] == 1.5
    each = xjax.device_put((1.0, 2.0), (xjax.devices()[0], xjax.devices()[2]))
    assert [x.devices() for x in each] == [{xjax.devices()[0]}, {xjax.devices()[2]}]
    assert float(xjax.jit(lambda x: xjax.device_put(x) * 2)(3.0)) == 6.0
    with pytest.raises(xjax.errors.TracerArrayConversionError):
        xjax.jit(xjax.device_get)(1.0)
    with pytest.raises(TypeError, match="not an array"):
        xjax.device_put({"a": "text"})


def test_donated_arrays_are_gone():
    x = jnp.ones(3)
    y = xjax.device_put(x, xjax.devices()[1], donate=True)
    assert x.is_deleted() and y.tolist() == [1, 1, 1]


def test_isinstance_of_arrays():
    seen = []
    xjax.jit(lambda x: seen.append(isinstance(x, xjax.Array)) or x)(1.0)
    assert seen == [True] and isinstance(jnp.ones(2), jnp.ndarray)
    assert not isinstance(np.ones(2), xjax.Array) and not isinstance(1.0, xjax.Array)
    with pytest.raises(TypeError, match="numpy.array"):
        xjax.Array(3)


def test_small_functions():
    x = jnp.ones(3)
    assert xjax.block_until_ready({"x": x})["x"] is x
    xjax.clear_caches()
    assert (x + 1).tolist() == [2, 2, 2]

    @xjax.named_scope("part")
    def f(x):
        return x * 2
    assert float(f(2.0)) == 4.0 and float(xjax.jit(xjax.named_call(f, name="g"))(2.0)) == 4.0
    with pytest.raises(TypeError, match="must be a string"), xjax.named_scope(3):
        pass


def test_linear_transpose():
    back = xjax.linear_transpose(lambda x, y: 3 * x + jnp.sum(y), 1.0, np.ones(2, np.float32))
    x, y = back(2.0)
    assert float(x) == 6.0 and y.tolist() == [2, 2]
    with pytest.raises(NotImplementedError):
        xjax.linear_transpose(jnp.sin, 1.0)(1.0)
    with pytest.raises(TypeError, match="the type of a cotangent differs"):
        back(np.ones(2, np.float32))


def test_custom_gradient():
    @xjax.custom_gradient
    def f(x, y):
        s = jnp.sin(x)
        return x * y, lambda ct: (ct * s, 10 * ct)
    for wrap in (lambda f: f, xjax.jit):
        gx, gy = wrap(xjax.grad(f, (0, 1)))(2.0, 3.0)
        np.testing.assert_allclose([gx, gy], [np.sin(2.0), 10.0], rtol=1e-6)
    np.testing.assert_allclose(f(2.0, 3.0), 6.0)
    ones = np.ones(2, np.float32)
    np.testing.assert_allclose(xjax.vmap(xjax.grad(f))(ones, ones), np.sin(ones), rtol=1e-6)
