"""Programs written for JAX that run with xjax as jax: each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments, code=None, folder=None, **env):
    """A finished process of this Python. Args: code: a program for -c."""
    command = [sys.executable, "-W", "error", *arguments, *(["-c", textwrap.dedent(code)] if code else [])]
    return subprocess.run(command, cwd=folder or ROOT, text=True, capture_output=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **env})


def output(*arguments, **options):
    process = run(*arguments, **options)
    assert process.returncode == 0, process.stderr
    return process.stdout


def installed(code, **options):
    return output(code="import xjax\nxjax.install_as_jax()\n" + textwrap.dedent(code), **options)


def test_modules_and_names_are_those_of_xjax():
    installed("""
        import jax, jax.numpy as jnp, sys
        from jax import lax, grad
        from jax.scipy.special import erf
        import jax.numpy.linalg
        pairs = [(jnp.sin, xjax.numpy.sin), (grad, xjax.grad), (lax.add, xjax.lax.add), (jax.numpy, jnp),
                 (jax.numpy.linalg.inv, xjax.numpy.linalg.inv), (jax.Array, xjax.Array),
                 (erf, xjax.scipy.special.erf)]
        assert all(ours is theirs for ours, theirs in pairs)
        assert isinstance(jax.tree_util, type(jax)) and jax.tree_util.__name__ == "jax.tree_util"
        assert not any(name.startswith("jax.") and "xjax" not in type(module).__module__
                       for name, module in sys.modules.items())
        assert float(jax.jit(jax.grad(lambda x: jnp.sum(x ** 2)))(3.0)) == 6
    """)


def test_the_version_is_that_of_jaxlib_or_as_asked():
    assert installed("""
        import importlib.metadata, jax, jaxlib
        assert jax.__version__ == jaxlib.__version__ == importlib.metadata.version("jax")
        assert jax.__version_info__[:2] >= (0, 10)
        print("same")
    """) == "same\n"
    code = "import xjax; xjax.install_as_jax(version='0.9.1'); import jax; print(jax.__version__, jax.__version_info__)"
    assert output(code=code) == "0.9.1 (0, 9, 1)\n"


def test_names_that_are_missing():
    out = installed("""
        import jax, jax.numpy as jnp
        assert not hasattr(jnp, "no_such_name") and getattr(jax.lax, "no_such_name", 3) == 3
        try:
            jax.nn.no_such_name
        except AttributeError as error:
            print(error)
        try:
            from jax.nn import no_such_name
        except ImportError as error:
            print(error.name)
        try:
            import jax.no_such_module
        except ModuleNotFoundError as error:
            print(error.name)
        print([(asked.module, asked.name) for asked in xjax.compat.installed().missing])
    """)
    assert "asked by" in out and "__main__" in out and "no_such_name" in out
    assert "jax.no_such_module" in out
    assert "('jax.nn', 'no_such_name')" in out


def test_attributes_that_a_library_sets_stay_on_the_module_of_jax():
    installed("""
        import jax.numpy as jnp
        original = jnp.sin
        jnp.sin = jnp.cos
        jnp.of_library = 1
        assert jnp.sin is xjax.numpy.cos and jnp.of_library == 1
        assert xjax.numpy.sin is original and not hasattr(xjax.numpy, "of_library")
    """)


def test_jax_that_is_already_imported_is_refused(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("")
    process = run(code="import jax, xjax; xjax.install_as_jax()", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert process.returncode == 1
    assert "already imported" in process.stderr and str(tmp_path) in process.stderr and "fix:" in process.stderr


def test_a_second_installation():
    installed("""
        assert xjax.install_as_jax() == xjax.install_as_jax(xjax.compat.installed().version)
        try:
            xjax.install_as_jax("0.1")
        except RuntimeError as error:
            assert "already installed" in str(error)
        else:
            raise AssertionError
    """)


def test_the_installation_hides_a_jax_that_is_installed(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "jax" / "of_real_jax.py").write_text("")
    (tmp_path / "jax-1.2.3.dist-info").mkdir()
    (tmp_path / "jax-1.2.3.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: jax\nVersion: 1.2.3\n")
    installed("""
        import importlib.metadata, importlib.util, jax
        assert xjax.compat.installed().real == "1.2.3"
        assert importlib.metadata.version("jax") == jax.__version__ != "1.2.3"
        assert importlib.util.find_spec("jax") is jax.__spec__
        assert importlib.util.find_spec("jax.of_real_jax") is None
    """, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")


def test_threads_that_import_at_once():
    installed("""
        import importlib, threading
        names = ["jax", "jax.numpy", "jax.lax", "jax.nn", "jax.scipy.special", "jax.tree_util"]
        found, start = [], threading.Barrier(12)
        def work(name):
            start.wait()
            found.append((name, importlib.import_module(name)))
        threads = [threading.Thread(target=work, args=(name,)) for name in names * 2]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert len(found) == 12 and len({id(module) for _, module in found}) == len(names)
    """)


def test_pickles_of_arrays_pass_between_programs(tmp_path):
    installed(f"""
        import jax.numpy as jnp, pickle
        pickle.dump((jnp.arange(3), jnp.sin), open(r"{tmp_path / 'x'}", "wb"))
    """)
    out = output(code=f"import pickle; x, f = pickle.load(open(r'{tmp_path / 'x'}', 'rb')); print(x, f(0.0))")
    assert out == "[0 1 2] 0.0\n"


PROGRAM = """
import sys, jax, jax.numpy as jnp
print(jax.Array.__module__.partition(".")[0], sys.argv[1:], __name__)
"""


@pytest.mark.parametrize("form", ["file", "-m", "-c"])
def test_python_m_xjax(form, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    arguments = {"file": ["program.py"], "-m": ["-m", "program"], "-c": ["-c", PROGRAM]}[form]
    assert output("-m", "xjax", *arguments, "--flag", "1", folder=tmp_path) == "xjax ['--flag', '1'] __main__\n"


def test_exit_codes_and_tracebacks_are_those_of_the_program(tmp_path):
    (tmp_path / "program.py").write_text("import jax\nraise SystemExit(3)")
    assert run("-m", "xjax", "program.py", folder=tmp_path).returncode == 3
    (tmp_path / "program.py").write_text("import jax\n1 / 0")
    process = run("-m", "xjax", "program.py", folder=tmp_path)
    assert process.returncode == 1 and 'program.py", line 2' in process.stderr


def test_processes_that_a_program_starts_run_on_xjax_too(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import multiprocessing, subprocess, sys
        import jax

        def library(_):
            import jax
            return jax.Array.__module__.partition(".")[0]

        if __name__ == "__main__":
            for code in ("import jax; print(jax.jit.__module__)", "import sys; print('xjax' in sys.modules)",
                         "import importlib.metadata as m; print(m.metadata('jax')['Summary'])"):
                print(subprocess.check_output([sys.executable, "-c", code], text=True))
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(library, [0]))
    """))
    lines = output("-m", "xjax", "program.py", folder=tmp_path).split()
    assert lines[0].startswith("xjax") and lines[1:3] == ["False", "xjax"] and lines[4:] == ["['xjax']"]


def test_the_extension_of_notebooks():
    assert output(code="""
        import subprocess, sys, xjax
        xjax.load_ipython_extension(None)
        import jax
        code = "import jax; print(jax.jit.__module__)"
        assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == jax.jit.__module__
        print(jax.jit is xjax.jit)
    """) == "True\n"


def test_optax_of_xnn_runs_on_xjax():
    pytest.importorskip("optax")
    installed("""
        import numpy as np
        from xnn import optim
        import jax, jax.numpy as jnp, optax
        assert optim.adam is optax.adam
        tx = optim.chain(optim.clip(1.0), optim.adam(0.1))
        w = {"a": jnp.ones(3)}
        state = tx.init(w)
        updates, state = jax.jit(tx.update)(w, state, w)
        assert np.allclose(optim.apply_updates(w, updates)["a"], 0.9)
    """)


def test_recipes_run_with_optax_and_orbax_directly(tmp_path):
    pytest.importorskip("orbax.checkpoint")
    pytest.importorskip("yaml")
    code = """
        import runpy, sys
        sys.argv = ["recipes.train", "--config", "gcn.yaml", *{options}]
        runpy.run_module("recipes.train", run_name="__main__", alter_sys=True)
        import jax, optax, orbax.checkpoint
        assert optax.adam.__module__.startswith("optax") and jax.jit is xjax.jit
        real = [name for name, module in sys.modules.items() if name.split(".")[0] == "jax"
                and not (getattr(module, "__file__", None) or "xjax").startswith(str(xjax.__path__[0]))]
        assert not real, real
    """
    installed(code.format(options=["steps=4"]), folder=tmp_path)
    out = installed(code.format(options=["--resume", "--extend", "6"]), folder=tmp_path)
    assert "resumed at step 4 of 6" in out and "step 6 " in out


def test_the_bridge_has_nothing_to_do():
    installed("""
        from xjax import interop
        import jax, sys
        assert interop.from_jax(jax.numpy.sin) is jax.numpy.sin
        assert isinstance(interop.to_jax_array(3.0), jax.Array)
        assert interop.from_jax_array(jax.numpy.ones(2)).shape == (2,)
        assert not any(name.startswith("jax._src") for name in sys.modules)
    """)


def test_advice_about_speed_is_logged_where_xjax_is_jax():
    program = """
        import logging, sys, warnings
        import xjax
        from xjax.core.errors import advise
        xjax.install_as_jax()
        warnings.simplefilter("error")
        logging.basicConfig(stream=sys.stdout, format="%(name)s %(message)s")
        advise("compiled again")
    """
    assert output(code=program) == "xjax compiled again\n"


def test_names_of_checkpointers_that_flax_imports():
    program = """
        import xjax
        xjax.install_as_jax()
        from jax.experimental.array_serialization.serialization import (
            GlobalAsyncCheckpointManager, get_tensorstore_spec)
        for call in (GlobalAsyncCheckpointManager, lambda: get_tensorstore_spec("/tmp")):
            try:
                call()
            except NotImplementedError as error:
                print("orbax" in str(error))
    """
    assert output(code=program) == "True\nTrue\n"
