"""The folder of the tests' compiled programs stays bounded."""

import os

from tests.caches import folder, trim


def test_what_was_written_first_is_deleted_first(tmp_path):
    for k in range(5):
        (tmp_path / f"{k}").write_bytes(bytes(100))
        os.utime(tmp_path / f"{k}", (k, k))
    trim(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]
    trim(tmp_path, 250)
    trim(tmp_path / "absent")
    assert len(list(tmp_path.iterdir())) == 2


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder().is_dir() and folder().parent == tmp_path / "xjax-tests"
    assert folder().stat().st_mode & 0o077 == 0


def test_without_a_home_it_is_in_the_checkout(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert ".pytest_cache" in folder().parts
