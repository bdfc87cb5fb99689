"""The wheel and the source distribution: built from the tree, and the wheel installed in a new environment."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from xjax.version import __version__

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow       # pip downloads all dependencies of recipes


def run(*command, cwd, **env):
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the sdist, built from a copy of the files that git tracks."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in run("git", "ls-files", "-z", cwd=ROOT).split("\0"):
        if name and (ROOT / name).exists():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                target.symlink_to(os.readlink(ROOT / name))
            else:
                shutil.copy2(ROOT / name, target)
    run(sys.executable, "-m", "venv", out / "builder", cwd=out)
    python = out / "builder" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "build", cwd=out)
    run(python, "-m", "build", "--outdir", out, source, cwd=out)
    return out


def test_contents(built):
    wheel, sdist = next(built.glob("*.whl")), next(built.glob("*.tar.gz"))
    assert wheel.name == f"xjax-{__version__}-py3-none-any.whl" and sdist.name == f"xjax-{__version__}.tar.gz"
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert tops == {"xjax", "xnn", "recipes", f"xjax-{__version__}.dist-info"}
    for path in ROOT.glob("configs/*.yaml"):
        assert f"recipes/configs/{path.name}" in names
    assert {f"{package}/py.typed" for package in ("xjax", "xnn", "recipes")} <= names
    assert not [name for name in names if "test" in Path(name).parts or name.endswith(".pyc")]
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "xjax/__init__.py", "recipes/configs/gcn.yaml"} <= inside


def test_a_new_environment(built, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "new", cwd=tmp_path)
    python, wheel = tmp_path / "new" / "bin" / "python", next(built.glob("*.whl"))
    run(python, "-m", "pip", "install", "-q", f"{wheel}[recipes]", cwd=tmp_path)
    where = {"PYTHONPATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    code = "import xjax, xnn; print(xjax.__version__, xjax.numpy.ones(3).sum())"
    assert run(python, "-c", code, cwd=tmp_path, **where).split() == [__version__, "3.0"]
    command = tmp_path / "new" / "bin" / "xjax-recipes"
    out = run(command, "train", "--config", "gcn.yaml", "steps=20", cwd=tmp_path, **where)
    assert "gcn" in out and (tmp_path / "runs").is_dir()
