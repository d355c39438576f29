"""Files are written whole or not at all, and archives are read without unpickling."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.common.files import check_writable, load_npz, write_atomically, write_npz


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "n": np.asarray("relu"), "s": np.asarray(2.5)}
    write_npz(tmp_path / "file.npz", arrays)
    found = load_npz(tmp_path / "file.npz")
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert names(tmp_path) == ["file.npz"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")

    def half(file: IO[bytes]) -> None:
        file.write(b"new, but")
        file.flush()
        raise error

    with pytest.raises(error):
        write_atomically(path, half)
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file.bin"]
    with pytest.raises(error):
        write_atomically(tmp_path / "another.bin", half)
    assert names(tmp_path) == ["file.bin"]


def test_the_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    write_atomically(path, lambda file: (file.write(b"x"), path.exists() or file.write(b"y")))
    assert path.read_bytes() == b"xy"


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_the_users_mask_decides_who_may_read(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file.bin", lambda file: file.write(b"x"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "file.bin").stat().st_mode) == 0o640


def test_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        check_writable(tmp_path)
    is_a_sentence(error, str(tmp_path), "folder", "name of a file")
    with pytest.raises(pn.InvalidInput) as error:
        write_npz(tmp_path / "missing" / "file.npz", {})
    is_a_sentence(error, "missing", "does not exist", "make it")
    assert names(tmp_path) == []
    monkeypatch.setattr(os, "access", lambda *_: False)  # tests may run as a user who may all
    with pytest.raises(pn.InvalidInput) as error:
        check_writable(tmp_path / "file.npz")
    is_a_sentence(error, str(tmp_path), "cannot be written", "choose another")


def test_archives_that_cannot_be_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", a=np.arange(1000.0))
    content = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "truncated.npz").write_bytes(content[:-100])
    (tmp_path / "text.npz").write_text("X,y\n1,2\n")
    np.save(tmp_path / "array.npy", np.ones(3))
    damaged = bytearray(content)
    damaged[200:240] = bytes(40)
    (tmp_path / "damaged.npz").write_bytes(bytes(damaged))
    for name in ("empty.npz", "truncated.npz", "text.npz", "array.npy", "damaged.npz"):
        with pytest.raises(pn.InvalidInput) as error:
            load_npz(tmp_path / name)
        is_a_sentence(error, name, "numpy.savez")
    with pytest.raises(pn.InvalidInput) as error:
        load_npz(tmp_path / "nowhere.npz")
    is_a_sentence(error, "nowhere.npz", "does not exist", "check the name")
    with pytest.raises(pn.InvalidInput):
        load_npz(tmp_path)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", a=np.array([{"run": "me"}], dtype=object))
    with pytest.raises(pn.InvalidInput) as error:
        load_npz(tmp_path / "objects.npz")
    assert "objects.npz" in str(error.value)
