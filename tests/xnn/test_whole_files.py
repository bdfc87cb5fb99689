"""A file is written completely, or stays as it was before."""

import os
from pathlib import Path

import pytest

from xnn.whole_files import whole_file


def test_the_file_is_written_and_nothing_else_is_left(tmp_path):
    with whole_file(tmp_path / "a") as out:
        out.write(b"new")
        assert not (tmp_path / "a").exists()
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_what_fails_leaves_the_file_that_was_there(tmp_path, monkeypatch, where, error):
    def fail(*_):
        raise error

    (tmp_path / "a").write_bytes(b"old")
    if where != "write":
        monkeypatch.setattr(os, where, fail)
    with pytest.raises(type(error)), whole_file(tmp_path / "a") as out:
        out.write(b"new")
        if where == "write":
            fail()
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"old"


def test_a_folder_that_is_not_there_is_told():
    with pytest.raises(FileNotFoundError), whole_file(Path("/there/is/no/such/folder/a")):
        pass
