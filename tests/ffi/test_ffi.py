"""Foreign functions: a C++ library, built here with the system's compiler, called by programs of xjax and of JAX."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import xjax
from tests.compat.test_install import installed
from tests.oracle import real_jax
from xjax.experimental.layout import Layout

jax = real_jax("ffi", "experimental.layout")
SOURCE = Path(__file__).with_name("handlers.cc")
NAMES = {"Scale": "xjax_test_scale", "Rows": "xjax_test_rows", "InMemory": "xjax_test_memory",
         "Attributes": "xjax_test_attributes"}
X = np.arange(6, dtype=np.float32).reshape(2, 3)
F32 = np.float32


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    path = tmp_path_factory.mktemp("ffi") / "handlers.so"
    done = subprocess.run([compiler, "-std=c++17", "-O0", "-fPIC", "-shared", f"-I{xjax.ffi.include_dir()}",
                           str(SOURCE), "-o", str(path)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the compiler cannot build the library: {done.stderr[-300:]}")
    loaded = ctypes.CDLL(str(path))
    for symbol, name in NAMES.items():
        xjax.ffi.register_ffi_target(name, xjax.ffi.pycapsule(getattr(loaded, symbol)))
    xjax.ffi.register_ffi_target("xjax_test_plain", xjax.ffi.pycapsule(loaded.Plain), api_version=0)
    return loaded


@pytest.fixture(params=[xjax, jax], ids=["xjax", "jax"])
def lib(request, library):
    """Both libraries share jaxlib's table of functions: each row holds in both."""
    return request.param


def scale(lib, shape=(2, 3), **options):
    call = lib.ffi.ffi_call("xjax_test_scale", lib.ShapeDtypeStruct(shape, F32), **options)
    return lambda x, factor=2.0, shift=1: call(x, factor=F32(factor), shift=shift)


def test_a_call_eagerly_and_compiled(lib):
    for f in (scale(lib), lib.jit(scale(lib)), lambda x: lib.jit(lambda x: scale(lib)(x * 1, 3.0, -2) * 2)(x) / 2 - 1):
        np.testing.assert_allclose(np.asarray(f(lib.numpy.asarray(X))), f(X))
    np.testing.assert_allclose(scale(lib)(X), 2 * X + 1)
    np.testing.assert_allclose(lib.jit(scale(lib), static_argnums=(1, 2))(X, 0.5, 4), 0.5 * X + 4)


def test_several_results(lib):
    results = [lib.ShapeDtypeStruct((2,), F32)] * 2
    for kind in (list, tuple):
        out = lib.ffi.ffi_call("xjax_test_rows", kind(results))(X, X)
        assert type(out) is kind
        np.testing.assert_allclose(out[0], (X * X).sum(1))
        np.testing.assert_allclose(out[1], X.max(1))


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
def test_vmap(lib, method):
    f = scale(lib, (3,), vmap_method=method)
    np.testing.assert_allclose(lib.vmap(f)(X), 2 * X + 1)
    np.testing.assert_allclose(lib.jit(lib.vmap(f, in_axes=1, out_axes=1))(X.T.copy()), 2 * X.T + 1)
    rows = lib.ffi.ffi_call("xjax_test_rows", [lib.ShapeDtypeStruct((), F32)] * 2, vmap_method=method)
    sums, largest = lib.vmap(rows, in_axes=(0, None))(X, X[1])
    np.testing.assert_allclose(sums, X @ X[1])
    np.testing.assert_allclose(largest, X.max(1))


def test_vmap_of_a_vectorized_function_and_of_none(lib):
    rows = lib.ffi.ffi_call("xjax_test_rows", [lib.ShapeDtypeStruct((), F32)] * 2, vmap_method="legacy_vectorized")
    np.testing.assert_allclose(lib.vmap(rows, in_axes=(0, None))(X, X[1])[0], X @ X[1])
    with pytest.raises(NotImplementedError, match="vmap_method"):
        lib.vmap(scale(lib, (3,)))(X)


def test_derivatives_by_custom_rules(lib):
    @lib.custom_vjp
    def f(x):
        return scale(lib)(x, 3.0, 0)

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (scale(lib)(ct, 3.0, 0),))
    np.testing.assert_allclose(lib.grad(lambda x: (f(x) ** 2).sum())(X), 18 * X)
    np.testing.assert_allclose(lib.jit(lib.grad(lambda x: (f(x) ** 2).sum()))(X), 18 * X)
    with pytest.raises(ValueError, match="custom_jvp"):
        lib.grad(lambda x: scale(lib)(x).sum())(X)


def test_layouts(lib):
    shape = lib.ShapeDtypeStruct((2, 3), F32)
    column = Layout((1, 0)) if lib is xjax else jax.experimental.layout.Layout((1, 0))
    for layout in ((1, 0), column):
        f = lib.ffi.ffi_call("xjax_test_memory", shape, input_layouts=[layout], output_layouts=None)
        np.testing.assert_allclose(f(X), X.T.reshape(2, 3))
        f = lib.ffi.ffi_call("xjax_test_memory", shape, output_layouts=layout)
        np.testing.assert_allclose(f(X), X.reshape(3, 2).T)
        f = lib.ffi.ffi_call("xjax_test_memory", shape, input_layouts=[layout], output_layouts=layout,
                             vmap_method="broadcast_all")
        np.testing.assert_allclose(lib.vmap(f)(np.stack([X, 2 * X])), np.stack([X, 2 * X]))


def test_an_argument_is_overwritten(lib):
    f = scale(lib, input_output_aliases={0: 0})
    x = lib.numpy.asarray(X) * 1
    np.testing.assert_allclose(lib.jit(f)(x), 2 * X + 1)
    np.testing.assert_allclose(x, X)                            # the compiler copied it
    assert "output_operand_alias" in lib.jit(f).lower(X).as_text()


def attributes(lib, text="abc"):
    call = lib.ffi.ffi_call("xjax_test_attributes", lib.ShapeDtypeStruct((1,), F32))
    return call(flag=True, i=np.int32(-3), d=0.5, text=text, values=np.array([1, 2], F32), fields={"k": 7})


def test_attributes(lib):
    assert float(attributes(lib)[0]) == 100 - 3 + 0.5 + 3 + 3 + 7
    assert float(lib.jit(lambda: attributes(lib, 'quoted "ü"\\\n'))()[0]) == 100 - 3 + 0.5 + 13 + 3 + 7
    with pytest.raises(Exception, match="the text is fail"):
        attributes(lib, "fail")


def test_the_text_of_attributes_is_that_of_jax(library):
    given = dict(a=1, b=1.5, c=True, s='hi"q', d=np.int32(2), e=F32(3.5), g=np.array([1, 2], np.int64),
                 h=np.array([1.5], F32), i={"k": np.int8(1)}, j=np.uint8(3), k=np.bool_(True),
                 l=np.float64(2.5), m=(1, 2), o=np.float16(1.5), n=-7)

    ir = pytest.importorskip("jaxlib.mlir.ir")

    def fields(lib):
        call = lib.ffi.ffi_call("xjax_unknown", lib.ShapeDtypeStruct((2, 3), F32))
        text = lib.jit(lambda x: call(x, **given)).lower(X).as_text()
        start = text.index("backend_config = {") + len("backend_config = ")
        return text[start:text.index("operand_layouts")].rpartition("}")[0] + "}"

    context = ir.Context()
    ours, theirs = (str(ir.Attribute.parse(fields(lib), context)) for lib in (xjax, jax))       # as MLIR prints them
    assert ours == theirs
    nested = xjax.ffi.ffi_call("xjax_unknown", xjax.ShapeDtypeStruct((2, 3), F32))
    assert "{m = {n = false}}" in xjax.jit(lambda x: nested(x, i={"m": {"n": False}})).lower(X).as_text()


def test_side_effects(lib, library):
    before = library.NumberOfCalls()
    f = lib.jit(lambda x: (scale(lib, has_side_effect=True)(x), x)[1])
    lib.block_until_ready(f(X))
    assert library.NumberOfCalls() == before + 1
    g = lib.jit(lambda x: (scale(lib)(x), x)[1])
    lib.block_until_ready(g(X))
    assert library.NumberOfCalls() == before + 1                # without an effect, the unused call is dropped


def test_a_plain_function(lib):
    call = lib.ffi.ffi_call("xjax_test_plain", lib.ShapeDtypeStruct((), F32), custom_call_api_version=3,
                            legacy_backend_config="four")
    assert float(call(F32(1.5))) == 5.5
    assert float(lib.jit(call)(F32(2.5))) == 6.5


def test_calls_in_loops_and_over_devices(lib):
    f = scale(lib, (3,))
    out = lib.jit(lambda x: lib.lax.fori_loop(0, 3, lambda i, y: f(y), x))(X[0])
    np.testing.assert_allclose(out, 8 * X[0] + 7)
    np.testing.assert_allclose(lib.pmap(f)(X), 2 * X + 1)
    mesh = lib.sharding.Mesh(np.array(lib.devices()[:2]), "x")
    x = lib.device_put(X, lib.sharding.NamedSharding(mesh, lib.P("x")))
    np.testing.assert_allclose(lib.jit(scale(lib))(x), 2 * X + 1)
    mapped = lib.shard_map(scale(lib, (1, 3)), mesh=mesh, in_specs=lib.P("x"), out_specs=lib.P("x"), check_vma=False)
    np.testing.assert_allclose(lib.jit(mapped)(X), 2 * X + 1)


MISTAKES = {
    "vmap_method": (ValueError, lambda lib, s: lib.ffi.ffi_call("f", s, vmap_method="each")),
    "legacy": (ValueError, lambda lib, s: lib.ffi.ffi_call("f", s, legacy_backend_config="x")),
    "result": (ValueError, lambda lib, s: lib.ffi.ffi_call("f", 3)),
    "layouts": (ValueError, lambda lib, s: lib.ffi.ffi_call("f", s, input_layouts=[])(X)),
    "output layouts": (ValueError, lambda lib, s: lib.ffi.ffi_call("f", [s], output_layouts=[None, None])(X)),
    "alias of nothing": (ValueError, lambda lib, s: lib.ffi.ffi_call("f", s, input_output_aliases={2: 0})(X)),
    "alias of no result": (ValueError, lambda lib, s: lib.ffi.ffi_call("f", s, input_output_aliases={0: 1})(X)),
    "alias of a type": (ValueError, lambda lib, s: lib.ffi.ffi_call("f", s, input_output_aliases={0: 0})(X[0])),
    "alias of a layout": (ValueError, lambda lib, s: lib.ffi.ffi_call(
        "f", s, input_layouts=[(1, 0)], input_output_aliases={0: 0})(X)),
    "list": (TypeError, lambda lib, s: lib.ffi.ffi_call("f", s)(X, a=[1])),
    "object": (TypeError, lambda lib, s: lib.jit(lambda x: lib.ffi.ffi_call("f", s)(x, a=object())).lower(X)),
    "attributes": (ValueError, lambda lib, s: lib.jit(
        lambda x: lib.ffi.ffi_call("f", s, custom_call_api_version=2)(x, a=1)).lower(X).as_text()),
    "unknown": (RuntimeError, lambda lib, s: lib.ffi.ffi_call("xjax_no_such_function", s)(X)),
    "tiles": (ValueError, lambda lib, s: lib.ffi.ffi_call("f", s, input_layouts=[(
        Layout if lib is xjax else jax.experimental.layout.Layout)((0, 1), ((8,),))])(X)),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("which", [xjax, jax], ids=["xjax", "jax"])
def test_mistakes(which, name):
    error, call = MISTAKES[name]
    with pytest.raises(error, match="fix:" if which is xjax and error is not RuntimeError else None):
        call(which, which.ShapeDtypeStruct((2, 3), F32))


def test_a_lowering_rule_under_the_name_of_jax(library):
    """The rule of a library's operation, made by `jax.ffi.ffi_lowering`."""
    printed = installed(f"""
        import ctypes, jax, numpy as np
        from jax.extend.core import Primitive
        from jax.interpreters import mlir
        lib = ctypes.CDLL({library._name!r})
        jax.ffi.register_ffi_target("my_scale", jax.ffi.pycapsule(lib.Scale))
        p = Primitive("my_scale")
        p.def_abstract_eval(lambda x, **_: jax.core.ShapedArray(x.shape, x.dtype))
        mlir.register_lowering(p, jax.ffi.ffi_lowering("my_scale", operand_layouts=[(1, 0)], result_layouts=[(1, 0)]))
        f = jax.jit(lambda x: p.bind(x, factor=np.float32(3), shift=2))
        print(f(np.ones((2, 2), np.float32)).tolist())
        try:
            jax.ffi.ffi_lowering("my_scale", unknown=1)
        except NotImplementedError as error:
            print("fix:" in str(error))
    """)
    assert printed.split("\n")[:2] == ["[[5.0, 5.0], [5.0, 5.0]]", "True"]


def test_headers():
    assert (Path(xjax.ffi.include_dir()) / "xla" / "ffi" / "api" / "ffi.h").is_file()
    assert xjax.ffi.include_dir() == jax.ffi.include_dir()
