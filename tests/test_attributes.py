"""The attributes of objects that functions return: each of JAX's exists here, or is in a table with its reason."""

from __future__ import annotations

import importlib
import pickle

import numpy as np
import pytest

import xjax
from tests.oracle import current, only, real_jax

jax = real_jax()
for name in ("scipy.optimize", "scipy.stats", "scipy.spatial.transform", "scipy.interpolate"):
    importlib.import_module(f"jax.{name}")


def traced_value(lib):
    seen = []
    lib.jit(lambda x: seen.append(x) or x)(np.ones((2, 2), np.float32))
    return seen[0]


def mesh(lib):
    return lib.sharding.Mesh(np.array(lib.devices()[:2]), "x")


def double(x):
    return x * 2


MAKE = {
    "traced value": traced_value,
    "x.at": lambda lib: lib.numpy.ones(3).at,
    "x.at[i]": lambda lib: lib.numpy.ones(3).at[0],
    "shard": lambda lib: lib.numpy.ones(3).addressable_shards[0],
    "device": lambda lib: lib.devices()[0],
    "Mesh": mesh,
    "AbstractMesh": lambda lib: mesh(lib).abstract_mesh,
    "PartitionSpec": lambda lib: lib.P("x"),
    "NamedSharding": lambda lib: lib.sharding.NamedSharding(mesh(lib), lib.P("x")),
    "SingleDeviceSharding": lambda lib: lib.numpy.ones(3).sharding,
    "ShapeDtypeStruct": lambda lib: lib.ShapeDtypeStruct((2,), np.float32),
    "jitted": lambda lib: lib.jit(double),
    "traced": lambda lib: lib.jit(double).trace(1.0),
    "lowered": lambda lib: lib.jit(double).lower(1.0),
    "compiled": lambda lib: lib.jit(double).lower(1.0).compile(),
    "custom_jvp": lambda lib: lib.custom_jvp(double),
    "custom_vjp": lambda lib: lib.custom_vjp(double),
    "custom_vmap": lambda lib: lib.custom_batching.custom_vmap(double),
    "Partial": lambda lib: lib.tree_util.Partial(double, 1.0),
    "treedef": lambda lib: lib.tree.structure([1, 2]),
    "ufunc": lambda lib: lib.numpy.add,
    "finfo": lambda lib: lib.numpy.finfo("float32"),
    "iinfo": lambda lib: lib.numpy.iinfo("int32"),
    "closed program": lambda lib: lib.make_jaxpr(double)(1.0),
    "program": lambda lib: lib.make_jaxpr(double)(1.0).jaxpr,
    "equation": lambda lib: lib.make_jaxpr(double)(1.0).eqns[0],
    "vjp": lambda lib: lib.vjp(double, 1.0)[1],
    "vjp with aux": lambda lib: lib.vjp(lambda x: (x, x), 1.0, has_aux=True)[1],
    "linearized": lambda lib: lib.linearize(double, 1.0)[1],
    "transposed": lambda lib: lib.linear_transpose(double, 1.0),
    "svd": lambda lib: lib.numpy.linalg.svd(np.eye(2)),
    "optimize": lambda lib: lib.scipy.optimize.minimize(lambda x: (x ** 2).sum(), np.ones(2, np.float32),
                                                        method="BFGS"),
    "statistics": lambda lib: lib.scipy.stats.gaussian_kde(np.arange(5.0)),
    "rotation": lambda lib: lib.scipy.spatial.transform.Rotation.identity(),
    "interpolator": lambda lib: lib.scipy.interpolate.RegularGridInterpolator((np.arange(3.0),), np.arange(3.0)),
}
PLACE = {"addressable_data", "addressable_shards", "committed", "delete", "device", "devices", "global_shards",
         "is_deleted", "is_fully_addressable", "is_fully_replicated", "on_device_size_in_bytes", "sharding",
         "unsafe_buffer_pointer"}
# Attributes of JAX's objects only: the placement of a traced value is unknown, and JAX's access raises an error too.
INTERNAL = {  # internal to JAX: mutable values, types with shardings, passes, layouts, positions
    "traced value": "dimension_as_value full_lower get_const get_referent parent to_concrete_value traceback val",
    "PartitionSpec": "to_ct_spec to_lo to_tangent_spec",
    "NamedSharding": "check_compatible_aval has_addressable_devices replicated_axes",
    "SingleDeviceSharding": "check_compatible_aval has_addressable_devices",
    "ShapeDtypeStruct": "is_ref manual_axis_type",
    "traced": "lojax out_avals",
    "compiled": "call",
    "closed program": "is_high",
    "program": "is_high",
    "equation": "ctx",
}
OF_ONE_VERSION = [current(table) for table in (
    {
        "traced value": only("aval_mutable_qdd cur_qdd mutable_qdd", until="0.12"),
        "closed program": only("final_aval_qdds in_aval_qdds", until="0.12"),
        "program": only("final_aval_qdds in_aval_qdds", until="0.12"),
    }, {
        "traced value": only("memory_space", since="0.12"),
        "traced": only("closure_convert effects physicalize with_consts_as_arg", since="0.12"),
        # Logs, accumulators and rematerialization of the backward pass: docs/left_out.md.
        "custom_vjp": only("defremat defremat_with_logs defvjp_with_accums defvjp_with_logs generic_batching "
                           "remat_rules with_accums with_logs", since="0.12"),
    })]
LEFT_OUT = {kind: set(names.split()) for kind, names in INTERNAL.items()}
for table in OF_ONE_VERSION:
    for kind, names in table.items():
        LEFT_OUT.setdefault(kind, set()).update(names.split())
LEFT_OUT["traced value"] |= PLACE | {"flat"}                            # arrays have no `flat` in JAX either


@pytest.mark.parametrize("kind", MAKE)
def test_attributes_are_those_of_jax(kind):
    ours, theirs = MAKE[kind](xjax), MAKE[kind](jax)
    missing = {n for n in dir(theirs) if not n.startswith("_")} - {n for n in dir(ours) if not n.startswith("_")}
    assert missing == LEFT_OUT.get(kind, set())


def pickles(f):
    try:
        return pickle.loads(pickle.dumps(f)) is f
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


@pytest.mark.parametrize("module", [
    "", "numpy", "numpy.linalg", "numpy.fft", "lax", "nn", "nn.initializers", "random", "tree_util", "image", "ops",
    "scipy.special", "scipy.linalg", "scipy.signal", "scipy.optimize", "scipy.sparse.linalg", "scipy.stats.norm"])
def test_public_functions_pickle_by_name_where_those_of_jax_do(module):
    ours, theirs = (importlib.import_module(f"{lib.__name__}.{module}".rstrip(".")) for lib in (xjax, jax))
    names = [n for n in dir(theirs) if not n.startswith("_") and hasattr(ours, n) and callable(getattr(theirs, n))]
    assert names
    assert not [n for n in names if pickles(getattr(theirs, n)) and not pickles(getattr(ours, n))]


@xjax.jit
def jitted_here(x):
    return x * 2


@xjax.custom_jvp
def ruled_here(x):
    return x * 2


def test_decorated_functions_pickle_by_name():
    assert pickles(jitted_here) and pickles(ruled_here)
