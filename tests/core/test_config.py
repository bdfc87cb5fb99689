"""Options: reading, updating, environment, per-thread overrides, keys, hooks."""

import itertools
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import xjax
from tests.oracle import current, only, real_jax
from tests.refusals import assert_refused
from xjax.core import config as module
from xjax.core.config import OPTIONS, config
from xjax.core.options import as_markdown


@pytest.fixture(autouse=True)
def restored():
    """Restore the options and their hooks after every test."""
    before = dict(config.values)
    hooks = {name: list(functions) for name, functions in module._hooks.items()}
    yield
    module._hooks.clear()
    module._hooks.update(hooks)
    for name, value in before.items():
        if config.read(name) != value:
            config.update(name, value)


def in_thread(f):
    """The result of f() in a new thread."""
    out = []
    thread = threading.Thread(target=lambda: out.append(f()))
    thread.start()
    thread.join()
    return out[0]


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_reads_under_both_names_and_is_documented(name):
    assert getattr(config, name) == config.read(name) == config.read(f"jax_{name}")
    assert getattr(config, f"jax_{name}") == config.values[f"jax_{name}"]
    assert OPTIONS[name].doc
    assert f"jax_{name} = " in repr(config)


OWN = {"cache_compiled_functions", "check", "compiled_memory_limit", "only_first_traces"}
OTHER_DEFAULT = {"persistent_cache_min_compile_time_secs"}      # 0 here: quickly compiled operations are cached
# JAX's options without the prefix jax_, for parts that xjax does not have, and the alias.
LEFT_OUT = {"check_vma", "eager_constant_folding", "jax2tf_associative_scan_reductions",
            "jax2tf_default_native_serialization", "mock_num_gpu_processes", "jax_platform_name"}

# Options that some versions of JAX do not have.
SINCE_012 = """accurate_erf_inv custom_jvp3 distributed_verify_secure_credentials export_deserialize_expired_versions
    mosaic_unzip_debug_locations mtls_ca_file mtls_cert_file mtls_key_file mtls_peer_uri_prefix
    pallas_auto_assign_collective_ids pallas_auto_assign_collective_ids_limit raise_on_ppermute_sort_diff
    remat_barrier_no_cotangents use_cpp_shard_args use_hlo_logistic_lowering use_rgv3"""
UNTIL_012 = """exec_time_optimization_effort memory_fitting_effort pallas_use_mosaic_gpu
    ragged_dot_use_gpu_pallas_triton_lowering refs_to_pins"""
ABSENT = {name for names in current([only(SINCE_012, until="0.12"), only(UNTIL_012, since="0.12")])
          for name in names.split()}


def test_names_and_defaults_equal_jax():
    real_jax()
    program = (
        "import jax\n"
        "for name, value in jax.config.values.items():\n"
        "    print(name, value.name.lower() if hasattr(value, 'name') else repr(value))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    theirs = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert set(theirs) - LEFT_OUT == {f"jax_{name}" for name in OPTIONS if name not in OWN | ABSENT}
    for name, option in OPTIONS.items():
        if name not in OWN | OTHER_DEFAULT | ABSENT:
            assert theirs[f"jax_{name}"].strip("'") == str(option.default), name


def test_context_managers_are_those_of_jax():
    theirs = real_jax()
    for name, option in OPTIONS.items():
        assert option.block == (name in dir(theirs)), name
        assert option.block == hasattr(xjax, name) == (name in xjax.__all__)


def test_documentation_is_the_table():
    page = Path(__file__).parents[2] / "docs" / "options.md"
    assert page.read_text() == as_markdown(), (
        "write it again: python -c \"from xjax.core.options import *; "
        "open('docs/options.md', 'w').write(as_markdown())\"")


def test_update_sets_both_names_for_all_threads():
    config.update("jax_enable_x64", True)
    assert config.enable_x64 is True
    assert config.jax_enable_x64 is True
    assert in_thread(lambda: config.enable_x64) is True
    config.update("enable_x64", False)
    assert config.jax_enable_x64 is False


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("jax_enable_x46", True, AttributeError, "did you mean 'jax_enable_x64'"),
        ("enable_x46", True, AttributeError, "did you mean 'enable_x64'"),
        ("zebra", 1, AttributeError, "print(config)"),
        ("enable_x64", 1, TypeError, "pass True or False"),
        ("enable_x64", None, TypeError, "cannot be set to a NoneType"),
        ("num_cpu_devices", "8", TypeError, "pass an integer"),
        ("num_cpu_devices", True, TypeError, "pass an integer"),
        ("numpy_rank_promotion", "rais", ValueError, "did you mean 'raise'"),
        ("numpy_dtype_promotion", "x", ValueError, "choices  standard, strict"),
        ("default_matmul_precision", 3, TypeError, "or None"),
        ("default_device", 3, TypeError, "name of a platform"),
    ],
)
def test_wrong_updates_say_what_is_right(name, value, error, text):
    assert_refused(lambda: config.update(name, value), error, text)


def test_wrong_reads_and_assignment():
    with pytest.raises(AttributeError, match="did you mean"):
        config.read("jax_disable_jti")
    with pytest.raises(AttributeError):
        _ = config.jax_nothing
    with pytest.raises(AttributeError, match=r"call config.update\('enable_x64', True\)"):
        config.enable_x64 = True
    assert config.enable_x64 is False


@pytest.mark.parametrize(
    ("manager", "name", "value"),
    [
        (module.enable_x64, "enable_x64", True),
        (module.disable_jit, "disable_jit", True),
        (module.debug_nans, "debug_nans", True),
        (module.numpy_dtype_promotion, "numpy_dtype_promotion", "strict"),
        (module.numpy_rank_promotion, "numpy_rank_promotion", "raise"),
        (module.default_matmul_precision, "default_matmul_precision", "highest"),
        (module.threefry_partitionable, "threefry_partitionable", False),
        (module.default_prng_impl, "default_prng_impl", "rbg"),
        (module.default_device, "default_device", "cpu"),
        (module.debug_infs, "debug_infs", True),
        (module.check_tracer_leaks, "check_tracer_leaks", True),
        (module.checking_leaks, "check_tracer_leaks", True),
        (module.enable_checks, "enable_checks", True),
        (module.log_compiles, "log_compiles", True),
        (module.explain_cache_misses, "explain_cache_misses", True),
        (module.no_tracing, "no_tracing", True),
        (module.no_execution, "no_execution", True),
        (module.transfer_guard, "transfer_guard", "disallow"),
        (module.transfer_guard, "transfer_guard_device_to_device", "log"),
        (module.transfer_guard_host_to_device, "transfer_guard_host_to_device", "disallow"),
        (module.transfer_guard_device_to_host, "transfer_guard_device_to_host", "disallow_explicit"),
        (module.transfer_guard_device_to_device, "transfer_guard_device_to_device", "log_explicit"),
    ],
)
def test_managers_override_this_thread_only_and_restore(manager, name, value):
    before = config.read(name)
    assert before != value
    with pytest.raises(KeyError), manager(value):
        assert getattr(config, name) == getattr(config, f"jax_{name}") == value
        assert in_thread(lambda: config.read(name)) == before
        with manager(before):
            assert config.read(name) == before
        assert manager.__doc__
        assert config.read(name) == value
        raise KeyError
    assert getattr(config, name) == getattr(config, f"jax_{name}") == before


@pytest.mark.parametrize("option", [o for o in OPTIONS.values() if o.only_default], ids=lambda o: o.name)
def test_options_for_what_is_not_here_refuse_with_the_reason(option):
    other = not option.default if option.kind == "bool" else "warn"
    with pytest.raises(ValueError, match=re.escape(option.only_default)):
        config.update(option.name, other)
    with pytest.raises(ValueError, match="leave it at"):
        getattr(module, option.name)(other)
    with getattr(module, option.name)(option.default):
        config.update("jax_" + option.name, option.default)


def test_options_without_effect_are_kept_and_documented():
    with xjax.softmax_custom_jvp(), xjax.array_garbage_collection_guard("fatal"):
        assert config.softmax_custom_jvp and config.array_garbage_collection_guard == "fatal"
    config.update("jax_pgle_profiling_runs", 5)
    assert config.pgle_profiling_runs == config.jax_pgle_profiling_runs == 5
    page = as_markdown()
    for option in OPTIONS.values():
        assert f"`{option.name}`" in page
        assert option.unused in page


def test_what_an_option_does_is_installed_at_its_first_use_in_any_thread():
    calls = []
    config.on_first_use("captured_constants_warn_bytes", lambda: calls.append(config.captured_constants_warn_bytes))
    config.update("captured_constants_warn_bytes", 2_000_000_000)
    assert not calls
    config.update("captured_constants_warn_bytes", 7)
    config.update("captured_constants_warn_bytes", 8)
    assert calls == [2_000_000_000]
    config.on_first_use("captured_constants_warn_bytes", lambda: calls.append("late"))
    assert calls[1:] == ["late"]            # the option is already in use


def test_the_transfer_guard_is_three_options():
    config.update("jax_transfer_guard", "log")
    assert config.transfer_guard_device_to_host == config.jax_transfer_guard_host_to_device == "log"
    with module.transfer_guard_device_to_host("allow"):
        assert config.transfer_guard_device_to_host == "allow"
        assert config.transfer_guard_device_to_device == "log"
    config.update("transfer_guard", None)
    assert config.transfer_guard_device_to_device is None


def test_manager_checks_at_once():
    with pytest.raises(ValueError, match="numpy_rank_promotion"):
        module.numpy_rank_promotion("never")
    with pytest.raises(TypeError, match="enable_x64"):
        module.enable_x64("yes")


def test_manager_as_decorator():
    @module.enable_x64()
    def f(depth):
        return [config.enable_x64] + (f(depth - 1) if depth else [])

    assert f(2) == [True, True, True]
    assert config.enable_x64 is False
    assert f.__name__ == "f"


def test_one_manager_entered_twice():
    strict = module.numpy_dtype_promotion("strict")
    with strict:
        with strict:
            pass
        assert config.numpy_dtype_promotion == "strict"
    assert config.numpy_dtype_promotion == "standard"


def test_an_update_inside_a_block_shows_after_it():
    with module.enable_x64(False):
        config.update("enable_x64", True)
        assert config.enable_x64 is False
    assert config.enable_x64 is True


def test_trace_key_follows_every_traced_option():
    changes = {
        "enable_x64": True,
        "allow_f16_reductions": False,
        "default_matmul_precision": "high",
        "numpy_rank_promotion": "warn",
        "numpy_dtype_promotion": "strict",
        "explicit_x64_dtypes": "error",
        "threefry_partitionable": False,
        "default_prng_impl": "rbg",
        "enable_custom_prng": True,
        "legacy_prng_key": "warn",
        "default_device": "cpu",
        "disable_jit": True,
        "debug_nans": True,
        "debug_infs": True,
        "check": "nan",
        "no_execution": True,
        "disable_most_optimizations": True,
        "high_dynamic_range_gumbel": True,
        "random_seed_offset": 1,
    }
    assert {option.name for option in OPTIONS.values() if option.traced} == set(changes)
    start = config.trace_key()
    assert config.trace_key() is start
    seen = {start}
    for name, value in changes.items():
        old = config.read(name)
        with module.Override(name, value):
            inside = config.trace_key()
            assert inside not in seen
            seen.add(inside)
            assert in_thread(config.trace_key) is start
        assert config.trace_key() is start
        config.update(name, value)
        assert config.trace_key() is inside
        config.update(name, old)
        assert config.trace_key() is start
    with module.log_compiles():
        assert config.trace_key() is start


def test_jax_platform_name_is_an_alias():
    assert config.read("jax_platform_name") == config.read("jax_platforms")


def test_trace_key_in_a_block_sees_an_update_by_another_thread():
    with module.enable_x64():
        first = config.trace_key()
        in_thread(lambda: config.update("numpy_rank_promotion", "raise"))
        second = config.trace_key()
    assert first != second
    assert config.trace_key() not in (first, second)
    with module.enable_x64():
        assert config.trace_key() is second


def test_nested_blocks_have_the_keys_of_their_values():
    keys = {}
    for x64, rank in itertools.product((False, True), ("allow", "raise")):
        with module.enable_x64(x64):
            config.trace_key()
            with module.numpy_rank_promotion(rank):
                keys[x64, rank] = config.trace_key()
        with module.numpy_rank_promotion(rank), module.enable_x64(x64):
            assert config.trace_key() is keys[x64, rank]
    assert len(set(keys.values())) == 4


def test_blocks_that_end_in_another_order_or_thread_leave_the_keys_of_their_values():
    """This is possible with blocks in generators."""
    process = config.trace_key()
    with module.default_matmul_precision("highest"):
        of_second = config.trace_key()
    first, second = module.enable_x64(not config.enable_x64), module.default_matmul_precision("highest")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert config.trace_key() is of_second is not process
    second.__exit__(None, None, None)
    assert config.trace_key() is process

    def begin():
        first.__enter__()
        key = config.trace_key()
        assert in_thread(end_and_begin_again) == [process, key, key]
        assert config.trace_key() is key

    def end_and_begin_again():
        first.__exit__(None, None, None)
        keys = [config.trace_key()]
        with module.enable_x64(not config.enable_x64):
            keys.append(config.trace_key())
            with module.default_matmul_precision("highest"):
                pass
            keys.append(config.trace_key())
        return keys

    in_thread(begin)
    assert config.trace_key() is process


def test_hooks_see_changes_and_can_refuse():
    seen = []

    def hook(old, new):
        seen.append((old, new))
        if new == "tpu":
            raise RuntimeError("too late")

    old = config.compilation_cache_dir
    config.on_update("jax_compilation_cache_dir", hook)
    try:
        config.update("jax_compilation_cache_dir", "here")
        config.update("compilation_cache_dir", "here")
        with pytest.raises(RuntimeError, match="too late"):
            config.update("jax_compilation_cache_dir", "tpu")
        assert config.compilation_cache_dir == "here"
        assert seen == [(old, "here"), ("here", "tpu")]
    finally:
        config.update("jax_compilation_cache_dir", old)
    with pytest.raises(AttributeError, match="did you mean"):
        config.on_update("jax_platfroms", hook)


@pytest.mark.parametrize(
    ("environ", "name", "value"),
    [
        ({"JAX_ENABLE_X64": "1"}, "enable_x64", True),
        ({"JAX_ENABLE_X64": "True", "XJAX_ENABLE_X64": "off"}, "enable_x64", False),
        ({"JAX_NUM_CPU_DEVICES": " 8 "}, "num_cpu_devices", 8),
        ({"JAX_PLATFORMS": "cuda,cpu"}, "platforms", "cuda,cpu"),
        ({"JAX_PLATFORMS": ""}, "platforms", None),
        ({"JAX_NUMPY_DTYPE_PROMOTION": "strict"}, "numpy_dtype_promotion", "strict"),
        ({"JAX_DEFAULT_DEVICE": "cpu"}, "default_device", "cpu"),
        ({}, "threefry_partitionable", True),
        ({"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5"}, "persistent_cache_min_compile_time_secs", 0.5),
        ({"JAX_PGLE_PROFILING_RUNS": "4"}, "pgle_profiling_runs", 4),
        ({"JAX_MOCK_GPU_TOPOLOGY": "2x2"}, "mock_gpu_topology", "2x2"),
        ({"JAX_TRANSFER_GUARD": "log"}, "transfer_guard", "log"),
    ],
)
def test_environment(environ, name, value):
    assert module._from_environment(OPTIONS[name], environ) == value


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("JAX_ENABLE_X64", "maybe", "'maybe' is not True or False"),
        ("XJAX_NUM_CPU_DEVICES", "two", "digits only"),
        ("JAX_NUMPY_RANK_PROMOTION", "warns", "did you mean 'warn'"),
        ("JAX_DEBUG_KEY_REUSE", "1", "does it"),
    ],
)
def test_wrong_environment_stops_the_import_and_names_the_variable(variable, text, message):
    done = subprocess.run(
        [sys.executable, "-c", "import xjax.core.config"],
        env={variable: text, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"environment variable {variable}" in done.stderr
    assert message in done.stderr


def test_options_of_the_environment_act_from_the_start():
    program = ("import xjax, numpy as np\nx = xjax.numpy.ones(2)\n"
               "print(xjax.config.transfer_guard_device_to_device, xjax.config.transfer_guard_host_to_device)\n"
               "try:\n    x / 0\nexcept FloatingPointError as error:\n    print(error)\n"
               "try:\n    np.asarray(x)\nexcept RuntimeError as error:\n    print(error)\n")
    names = {"JAX_DEBUG_INFS": "1", "XJAX_TRANSFER_GUARD": "disallow", "JAX_TRANSFER_GUARD_HOST_TO_DEVICE": "allow"}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**names, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("disallow allow\ndiv: made an infinity")
    assert "disallowed implicit device-to-host transfer" in done.stdout


def test_cpu_device_count(monkeypatch):
    flag = "--xla_force_host_platform_device_count"
    count = module.cpu_device_count
    assert count({}) == 1
    assert count({"XLA_FLAGS": f"--a=1 {flag}=2 {flag}=4"}) == 4
    with pytest.raises(ValueError, match="XLA_FLAGS: requests 0"):
        count({"XLA_FLAGS": f"{flag}=0"})
    monkeypatch.setattr(module.Config, "num_cpu_devices", 3)      # an update is refused once a backend runs
    assert count({"XLA_FLAGS": f"{flag}=4"}) == 3
    monkeypatch.setattr(module.Config, "num_cpu_devices", 0)
    with pytest.raises(ValueError, match="jax_num_cpu_devices: requests 0"):
        count({})
