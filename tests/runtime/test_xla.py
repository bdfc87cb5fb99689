"""The adapter: every call works on the installed jaxlib, and none imports jax."""

import ast
import importlib
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.runtime import xla
from xjax.runtime.process import cuda_wheels, jax_blocker
from xjax.runtime.xla import names

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

DTYPES = [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4,
    ml_dtypes.uint4,
]  # fmt: skip

# Every name of jaxlib that the adapter uses: a new jaxlib that lacks one fails here, by name.
JAXLIB_NAMES = {
    "_jax": {
        "ArrayImpl", "PjitFunctionCache", "ResultHandler", "buffer_to_dlpack_managed_tensor",
        "cuda_array_interface_to_buffer",
        "collect_garbage", "config", "dlpack_managed_tensor_to_buffer",
        "get_distributed_runtime_client", "get_distributed_runtime_service",
        "hlo_module_cost_analysis", "jax_jit", "make_gloo_tcp_collectives", "mlir", "pjit",
    },
    "utils": {"absl_set_min_log_level"},
    "version": {"__version__"},
    "xla_client": {
        "ArrayCopySemantics", "Client", "CompileOptions", "Device", "DeviceAssignment",
        "DeviceList", "GSPMDSharding", "HloSharding", "HostBufferSemantics", "LoadedExecutable",
        "OpSharding", "SingleDeviceSharding", "XlaRuntimeError", "_version",
        "array_result_handler", "batched_block_until_ready",
        "batched_copy_array_to_devices_with_sharding", "batched_device_put", "encode_inspect_sharding_callback",
        "generate_pjrt_gpu_plugin_options", "initialize_pjrt_plugin",
        "load_pjrt_plugin_dynamically", "make_c_api_client", "make_cpu_client",
        "pjrt_plugin_initialized", "pjrt_plugin_loaded",
        "register_custom_call_as_batch_partitionable", "register_custom_call_handler",
        "register_custom_call_target", "register_custom_type", "register_custom_type_handler",
    },
}  # fmt: skip

JAXLIB_METHODS = {
    "_jax.ArrayImpl": "aval block_until_ready delete is_deleted _sharding _arrays "
                      "_single_device_array_to_np_array_did_copy",
    "xla_client.Client": "compile_and_load deserialize_executable devices local_devices platform "
                         "process_index device_count local_device_count platform_version",
    "xla_client.Device": "id platform device_kind process_index local_hardware_id client "
                         "memory_stats",
    "xla_client.LoadedExecutable": "execute_sharded serialize cost_analysis get_hlo_text "
                                   "get_compiled_memory_stats get_output_shardings",
    "xla_client.HloSharding": "replicate from_proto is_replicated tile_assignment_dimensions "
                              "tile_assignment_devices",
    "_jax.ResultHandler": "wrap",
}  # fmt: skip


@dataclass
class Aval:
    shape: tuple
    dtype: np.dtype
    weak_type: bool = False


def aval_of(x):
    return Aval(x.shape, x.dtype)


@pytest.fixture(scope="module")
def devices():
    return xla.make_cpu_client(4).devices()


def put(x, device, **kwargs):
    return xla.device_put(aval_of(x), xla.on_device(device), [x], [device], **kwargs)


def put_tiled(x, devices, tiles, order, replicate_last=False):
    hlo = xla.hlo_sharding_tiled(tiles, order, replicate_last)
    pieces = [x[i] for i in xla.shard_indices(hlo, len(devices), x.shape)]
    return xla.device_put(aval_of(x), xla.on_devices(devices, hlo), pieces, devices)


def unary_program(op, shape="8xf32"):
    t = f"tensor<{shape}>"
    return f"func.func public @main(%a: {t}) -> {t} {{\n{op.format(t=t)}\nreturn %0 : {t}\n}}"


DOUBLE = unary_program("%0 = stablehlo.add %a, %a : {t}")
X = np.arange(8, dtype=np.float32)


def handler(device, x=X):
    return xla.result_handler(aval_of(x), xla.on_device(device))


def aligned(n):
    raw = np.zeros(4 * n + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + 4 * n].view(np.float32)


# --- jaxlib's surface ----------------------------------------------------------------------------


def used_names():
    """jaxlib attributes in the adapter's source, by module."""
    used = {}
    alias = {"xc": "xla_client", "_version": "version"}
    sources = [file.read_text() for file in Path(xla.__file__).parent.glob("*.py")]
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = alias.get(node.value.id, node.value.id)
            if name in JAXLIB_NAMES:
                used.setdefault(name, set()).add(node.attr)
    return used


def test_the_list_of_jaxlib_names_is_complete():
    assert used_names() == JAXLIB_NAMES


@pytest.mark.parametrize("module", JAXLIB_NAMES)
def test_jaxlib_has_every_name(module):
    extension = importlib.import_module(f"jaxlib.{module}")
    assert {n for n in JAXLIB_NAMES[module] if not hasattr(extension, n)} == set()


@pytest.mark.parametrize("path", JAXLIB_METHODS)
def test_jaxlib_classes_have_every_method(path):
    module, name = path.split(".")
    cls = getattr(importlib.import_module(f"jaxlib.{module}"), name)
    assert {m for m in JAXLIB_METHODS[path].split() if not hasattr(cls, m)} == set()


def test_only_the_adapter_and_tree_import_jaxlib():
    importers = set()
    for folder, _, files in os.walk(os.path.join(ROOT, "xjax")):
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith(".py"):
                with open(path) as file:
                    nodes = list(ast.walk(ast.parse(file.read())))
                names = [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
                names += [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)]
                if any(n.split(".")[0] == "jaxlib" for n in names):
                    importers.add(os.path.relpath(path, ROOT))
    assert {name for name in importers if os.path.dirname(name) != "xjax/runtime/xla"} <= {
        "xjax/core/tree.py", "xjax/jaxlib_versions.py"}


SPY = """
import sys, importlib.util
assert importlib.util.find_spec("jax") is not None
hits = []
class Spy:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "jax":
            hits.append(name)
import numpy as np, ml_dtypes
from tests.runtime import test_xla as t
from xjax.runtime import xla
sys.meta_path.insert(1, Spy())              # behind the blocker: what it lets pass is a hit
assert type(sys.meta_path[0]).__name__ == "JaxBlocker"
D = xla.make_cpu_client(4).devices()
c = D[0].client
for dtype in ("f4", ml_dtypes.bfloat16, ml_dtypes.int4):
    b = t.put(np.ones(8, dtype), D[0]); xla.to_numpy(b)
    b = t.put_tiled(np.ones((8, 4), dtype), D, (4, 1), (0, 1, 2, 3)); xla.to_numpy(b); xla.shards(b)
    b = t.put_tiled(np.ones((8, 4), dtype), D, (1, 2, 2), (0, 1, 2, 3), True); xla.to_numpy(b)
b = t.put(t.X, D[0], alias=True); xla.block_until_ready([b]); xla.shards(b)
capsule = xla.to_dlpack(b); xla.to_numpy(xla.from_dlpack(capsule, D[1]))
xla.to_numpy(xla.copy_to_device(b, D[1])); b._sharding, b.aval, b.is_ready()
e = xla.compile(c, t.DOUBLE, [D[0]], optimization_level=1); h = t.handler(D[0])
r, = xla.execute(e, [b], [h]); xla.to_numpy(r); xla.execute(e, [b], [h.wrap(id)])
(r,), token = xla.execute_with_token(e.execute_sharded, [b], [h]); token.block_until_ready()
xla.deserialize(c, xla.serialize(e), [D[0]], xla.compile_options([D[0]]))
xla.cost_analysis(e), xla.memory_stats(e), xla.hlo_text(e), xla.output_hlo_shardings(e)
assert not hits, hits
assert "jax" not in sys.modules
b.unsafe_buffer_pointer                       # the spy works: these calls do import jax
try: xla.execute(e, [b], [lambda buffer: buffer])
except Exception: pass
assert hits
"""


def test_no_call_imports_jax():
    real_jax()
    done = subprocess.run(
        [sys.executable, "-c", SPY], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_blocker_acts_on_its_own_thread_only():
    blocker, results = jax_blocker.JaxBlocker(), {}

    def look(name):
        try:
            results[name] = blocker.find_spec("jax.numpy")
        except ModuleNotFoundError:
            results[name] = "hidden"

    with blocker:
        look("inside")
        thread = threading.Thread(target=look, args=("other thread",))
        thread.start()
        thread.join()
        assert blocker.find_spec("jaxlib") is None
    look("after")
    assert results == {"inside": "hidden", "other thread": None, "after": None}


@pytest.mark.parametrize(("level", "lines"), [("0", True), ("1", False)])
def test_start_up_is_silent_unless_asked(level, lines):
    env = {**os.environ, "XJAX_LOG_LEVEL": level, "PYTHONPATH": ROOT}
    env.pop("TF_CPP_MIN_LOG_LEVEL", None)
    code = "from xjax.runtime import xla; xla.make_cpu_client(1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0 and bool(done.stderr) == lines


def test_a_bad_log_level_is_an_error(monkeypatch):
    monkeypatch.setenv("XJAX_LOG_LEVEL", "quiet")
    with pytest.raises(ValueError, match=r"XJAX_LOG_LEVEL(.|\n)*fix:"):
        names._set_log_level()


# --- Arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3, 4)])
def test_round_trip(devices, dtype, shape):
    x = np.ones(shape).astype(dtype)
    y = xla.to_numpy(put(x, devices[1]))
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    assert np.array_equal(x, y) and not y.flags.writeable


@pytest.mark.parametrize("dtype", ["f4", "c16", ml_dtypes.bfloat16, ml_dtypes.int4])
@pytest.mark.parametrize(
    ("tiles", "order", "replicate_last"),
    [
        ((4, 1), (0, 1, 2, 3), False),
        ((1, 4), (3, 1, 0, 2), False),
        ((2, 2), (0, 2, 1, 3), False),
        ((2, 1, 2), (0, 2, 1, 3), True),
        ((1, 1, 4), (0, 1, 2, 3), True),
    ],
)
def test_tiled_round_trip(devices, dtype, tiles, order, replicate_last):
    x = np.arange(32).reshape(4, 8).astype(dtype)
    buf = put_tiled(x, devices, tiles, order, replicate_last)
    assert np.array_equal(xla.to_numpy(buf), x)
    indices = xla.shard_indices(buf._sharding.hlo, 4, x.shape)
    for piece, index in zip(xla.shards(buf), indices, strict=True):
        assert np.array_equal(xla.to_numpy(piece), x[index])


def test_shard_indices_follow_the_device_order():
    hlo = xla.hlo_sharding_tiled((2, 1, 2), (0, 2, 1, 3), True)
    rows = [index[0] for index in xla.shard_indices(hlo, 4, (6, 5))]
    assert rows == [slice(0, 3), slice(3, 6), slice(0, 3), slice(3, 6)]


def test_empty_pieces_and_repeated_pieces(devices):
    empty = np.zeros((4, 0), np.float32)
    assert xla.to_numpy(put_tiled(empty, devices, (4, 1), (0, 1, 2, 3))).shape == (4, 0)
    sharding = xla.on_devices(devices, xla.hlo_sharding_replicated())
    buf = xla.device_put(aval_of(X), sharding, [X] * 4, devices)
    assert all(np.array_equal(xla.to_numpy(s), X) for s in xla.shards(buf))


def test_put_copies_unless_alias(devices):
    x = aligned(1024)
    copied, aliased = put(x, devices[0]), put(x, devices[0], alias=True)
    xla.block_until_ready([copied, aliased])
    x[:] = 7
    assert xla.to_numpy(copied)[0] == 0 and xla.to_numpy(aliased)[0] == 7


def test_a_view_outlives_its_buffer(devices):
    buf = put(X, devices[0])
    view = xla.to_numpy(buf)
    assert view.ctypes.data == xla.to_numpy(buf).ctypes.data  # no copy
    buf.delete()
    assert np.array_equal(view, X)
    with pytest.raises(RuntimeError, match="deleted"):
        xla.to_numpy(buf)


def test_to_numpy_raises_the_error_of_the_program(devices):
    def fail(x):
        raise ValueError("the cause")

    call = (
        '%0 = "stablehlo.custom_call"(%b) {{call_target_name = "xla_ffi_python_cpu_callback", '
        "api_version = 4 : i32, has_side_effect = true, backend_config = {{index = 0 : ui64}}}} "
        ": ({t}) -> {t}"
    )
    slow = "%b = stablehlo.dot %a, %a : ({t}, {t}) -> {t}\n"
    x = np.zeros((600, 600), np.float32)
    text = unary_program(slow + call, "600x600xf32")
    exe = xla.compile(devices[0].client, text, [devices[0]], host_callbacks=[fail])
    with pytest.raises(xla.XlaRuntimeError, match="the cause"):
        xla.to_numpy(xla.execute(exe, [put(x, devices[0])], [handler(devices[0], x)])[0])


def test_copy_to_device(devices):
    buf = put(X, devices[0])
    there = xla.copy_to_device(buf, devices[2])
    assert there._sharding.devices == (devices[2],) and np.array_equal(xla.to_numpy(there), X)
    copy = xla.copy_to_device(buf, devices[0], always_copy=True)
    assert xla.to_numpy(copy).ctypes.data != xla.to_numpy(buf).ctypes.data
    pinned = xla.copy_to_device(buf, devices[0], "pinned_host")
    assert pinned._sharding.memory_kind == "pinned_host" and np.array_equal(xla.to_numpy(pinned), X)


class _DLPack:
    def __init__(self, buf, device):
        self.buf, self.device = buf, device

    def __dlpack__(self, **_):
        return xla.to_dlpack(self.buf)

    def __dlpack_device__(self):
        return xla.dlpack_device(self.device)


def test_dlpack_both_ways(devices):
    buf = put(X, devices[0])
    shared = np.from_dlpack(_DLPack(buf, devices[0]))
    assert shared.ctypes.data == xla.to_numpy(buf).ctypes.data
    x = aligned(8)
    back = xla.from_dlpack(x.__dlpack__(), devices[0])
    assert xla.to_numpy(back).ctypes.data == x.ctypes.data


def test_an_unknown_memory_kind_is_an_error(devices):
    with pytest.raises(ValueError, match="no such memory"):
        xla.on_device(devices[0], "no such memory")


# --- Programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, 3])
def test_a_program_runs_on_its_device(devices, index):
    d = devices[index]
    exe = xla.compile(d.client, DOUBLE, [d], optimization_level=1)
    (out,) = xla.execute(exe, [put(X, d)], [handler(d)])
    assert np.array_equal(xla.to_numpy(out), 2 * X) and out._sharding.devices == (d,)
    again = xla.deserialize(d.client, xla.serialize(exe), [d], xla.compile_options([d]))
    (out,) = xla.execute(again, [put(X, d)], [handler(d).wrap(xla.to_numpy)])
    assert np.array_equal(out, 2 * X)


PARTITIONED = """sdy.mesh @m = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>})
    -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>}, tensor<4x8xf32>) {
%0 = stablehlo.add %a, %a : tensor<4x8xf32>
%1 = stablehlo.negate %a : tensor<4x8xf32>
return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32> }"""


@pytest.mark.parametrize("reload", [False, True])
def test_a_partitioned_program(devices, reload):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    options = {"num_partitions": 4, "propagate_outputs": [False, True]}
    exe = xla.compile(devices[0].client, PARTITIONED, devices, **options)
    if reload:
        chosen = xla.compile_options(devices, **options)
        exe = xla.deserialize(devices[0].client, xla.serialize(exe), devices, chosen)
    shardings = [xla.on_devices(devices, hlo) for hlo in xla.output_hlo_shardings(exe)]
    handlers = [xla.result_handler(aval_of(x), s) for s in shardings]
    arg = put_tiled(x, devices, (2, 2), (0, 1, 2, 3))
    doubled, negated = xla.execute(exe, [arg], handlers)
    assert np.array_equal(xla.to_numpy(doubled), 2 * x)
    assert np.array_equal(xla.to_numpy(negated), -x)
    rows = [index[0] for index in xla.shard_indices(shardings[0].hlo, 4, x.shape)]
    assert rows == [slice(0, 2), slice(2, 4)] * 2  # split along y, the fast axis


def test_tokens_wait_where_donated_buffers_cannot(devices):
    d = devices[0]
    t = "tensor<8xf32>"
    donate = DOUBLE.replace(f"%a: {t})", f"%a: {t} {{jax.buffer_donor = true}})")
    exe = xla.compile(d.client, donate, [d])
    (first,), token = xla.execute_with_token(exe.execute_sharded, [put(X, d)], [handler(d)])
    (second,), _ = xla.execute_with_token(exe.execute_sharded, [first], [handler(d)])
    with pytest.raises(RuntimeError, match="deleted"):
        first.block_until_ready()
    token.block_until_ready()
    assert np.array_equal(xla.to_numpy(second), 4 * X)


@pytest.mark.parametrize("callbacks", [(), (lambda x: (x,),)], ids=["text", "module"])
@pytest.mark.parametrize(
    ("op", "line", "message"),
    [
        ("%0 = stablehlo.add %a : {t}", "%0 = stablehlo.add %a : tensor<8xf32>", "expected ','"),
        ("%0 = stablehlo.nothing %a : {t}", "%0 = stablehlo.nothing", "nothing"),
        ("%0 = stablehlo.dot %a, %a : ({t}, {t}) -> {t}", "%0 = stablehlo.dot", "inferred shape"),
        ("%0 = stablehlo.sine %b : {t}", "%0 = stablehlo.sine %b", "undeclared"),
    ],
)
def test_a_bad_program_names_its_line(devices, op, line, message, callbacks):
    text = unary_program(op)
    error = assert_refused(lambda: xla.compile(devices[0].client, text, [devices[0]], host_callbacks=callbacks),
                           xla.CompileError, ["line 2", line, message])
    assert error.text == text and len(str(error)) < 900


def test_a_long_line_is_shown_around_the_fault(devices):
    text = unary_program("%0 = stablehlo.add %a : {t} " + " " * 10).replace("\n", " " * 2000, 1)
    with pytest.raises(xla.CompileError) as caught:
        xla.compile(devices[0].client, text, [devices[0]])
    assert "%0 = stablehlo.add %a" in str(caught.value) and len(str(caught.value)) < 900


def test_other_errors_pass(devices):
    client, where = devices[0].client, [devices[0]]
    with pytest.raises(ValueError, match="(?s)no such compile option: 'xla_no_such_flag'.*fix:"):
        xla.compile(client, DOUBLE, where, options={"xla_no_such_flag": 1})
    unknown = unary_program("%0 = stablehlo.custom_call @no_such(%a) : ({t}) -> {t}")
    with pytest.raises(xla.XlaRuntimeError, match="no_such"):
        xla.compile(client, unknown, where)
    with pytest.raises(xla.XlaRuntimeError):
        xla.deserialize(client, b"nonsense", where, xla.compile_options(where))


def test_what_an_executable_knows(devices):
    x = np.ones((64, 64), np.float32)
    text = unary_program("%0 = stablehlo.dot %a, %a : ({t}, {t}) -> {t}", "64x64xf32")
    exe = xla.compile(devices[0].client, text, [devices[0]])
    assert xla.cost_analysis(exe)["flops"] >= 2 * 64**3
    stats = xla.memory_stats(exe)
    assert stats.argument_size_in_bytes == stats.output_size_in_bytes == x.nbytes
    assert "ENTRY" in xla.hlo_text(exe) and xla.output_hlo_shardings(exe) is None


def test_options_reach_the_compiler(devices):
    chosen = xla.compile_options(devices[2:3], optimization_level=1, options={"xla_a": True})
    assert dict(chosen.env_option_overrides) == {"xla_a": True, "xla_backend_optimization_level": 1}
    assert dict(xla.compile_options(devices[:1]).env_option_overrides) == {}


def test_host_callbacks(devices):
    call = (
        '%0 = "stablehlo.custom_call"(%a) {{call_target_name = "xla_ffi_python_cpu_callback", '
        "api_version = 4 : i32, backend_config = {{index = 0 : ui64}}}} : ({t}) -> {t}"
    )
    exe = xla.compile(devices[0].client, unary_program(call), devices[:1],
                      host_callbacks=[lambda x: (x + 1,)])  # fmt: skip
    (out,) = xla.execute(exe, [put(X, devices[0])], [handler(devices[0])])
    assert np.array_equal(xla.to_numpy(out), X + 1)


def test_lapack_calls_run_after_registration(devices):
    pytest.importorskip("scipy")
    xla.register_lapack()
    text = """func.func public @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
%r:2 = "stablehlo.custom_call"(%a) {call_target_name = "lapack_spotrf_ffi", api_version = 4 : i32,
 backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
 result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]}
 : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
return %r#0 : tensor<2x2xf32> }"""
    a = np.array([[4, 2], [2, 5]], np.float32)
    exe = xla.compile(devices[0].client, text, devices[:1])
    (out,) = xla.execute(exe, [put(a, devices[0])], [handler(devices[0], a)])
    assert np.allclose(np.tril(xla.to_numpy(out)), np.linalg.cholesky(a))


def test_no_cuda_plugin_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(cuda_wheels, "find_plugin", lambda: None)
    with pytest.raises(RuntimeError, match=r"no CUDA plugin(.|\n)*fix: pip install"):
        xla.make_gpu_client()
