"""Files that are read from the first row to the last: in memory if small, else in a spool."""

from __future__ import annotations

import gc
import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence, run_script
from provenet import InvalidInput
from provenet.data.sample_files import checks, comma_separated, parquet, spool
from provenet.data.sample_files import npz as npz_format
from provenet.data.sample_files.door import open_samples, save_samples
from provenet.data.sources import FileArrays

TRUTH = pn.random_network(3, 5, rng=1)
X, Y = pn.sample(TRUTH, 2000, rng=2)
X = X.astype(np.float32).astype(float)
Y = TRUTH(X)

SEQUENTIAL = ["s.csv", "s.parquet", "s.npz"]


@pytest.fixture
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for spools, and so little memory that everything goes there, in small blocks."""
    folder = tmp_path / "spools"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(checks, "memory_at_hand", lambda: 10_000)
    monkeypatch.setattr(comma_separated, "CSV_LINES_AT_ONCE", 300)
    monkeypatch.setattr(parquet, "PARQUET_ROWS_AT_ONCE", 300)
    monkeypatch.setattr(npz_format, "NPZ_BLOCK_BYTES", 10_000)
    return folder


def write(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    if path.suffix == ".npz":
        np.savez_compressed(path, X=X, y=y)
    else:
        save_samples(path, X, y)
    return path


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_large_files_are_spooled_and_give_the_same_answer(
    tmp_path: Path, spools: Path, name: str
) -> None:
    source = open_samples(write(tmp_path / name, X.astype(np.float32), Y))
    assert isinstance(source, FileArrays) and isinstance(source.X, np.memmap)
    assert source.X.dtype == (np.float64 if name == "s.csv" else np.float32)
    assert np.array_equal(source.X, X) and np.array_equal(source.y, Y)
    found, wanted = pn.recover(source, rng=0), pn.recover(X, Y, rng=0)
    assert found.status is pn.Status.EXACT
    np.testing.assert_array_equal(found.network.weights, wanted.network.weights)
    assert len(list(spools.iterdir())) == 1
    del source, found
    gc.collect()
    assert list(spools.iterdir()) == []


@pytest.mark.parametrize("name", SEQUENTIAL)
@pytest.mark.parametrize("outputs", [1, 2])
def test_several_outputs_are_spooled_too(
    tmp_path: Path, spools: Path, name: str, outputs: int
) -> None:
    y = np.column_stack([Y, -Y])[:, :outputs]
    source = open_samples(write(tmp_path / name, X, y))
    assert isinstance(source, FileArrays)
    assert np.array_equal(source.X, X) and np.array_equal(source.y.reshape(2000, -1), y)
    assert source.outputs == (None if outputs == 1 else 2)


def test_small_files_are_held_in_memory(
    tmp_path: Path, spools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 96,000 bytes of samples; in memory up to a quarter of what is at hand.
    monkeypatch.setattr(checks, "memory_at_hand", lambda: 4 * 96_000)
    for name in ("s.parquet", "s.npz"):
        assert not isinstance(open_samples(write(tmp_path / name, X, Y)), FileArrays)
    monkeypatch.setattr(checks, "memory_at_hand", lambda: 4 * 96_000 - 1)
    for name in ("s.parquet", "s.npz"):
        assert isinstance(open_samples(tmp_path / name), FileArrays)


def test_the_rows_of_a_table_are_estimated_from_a_few_looks(tmp_path: Path) -> None:
    """Lines of two lengths: the looks here and there see both."""
    with open(tmp_path / "s.csv", "w") as file:
        file.writelines("0.12345678901234567,1\n" for _ in range(100_000))
        file.writelines("0,1\n" for _ in range(300_000))
    found = comma_separated._estimated_rows(tmp_path / "s.csv")
    assert 0.8 * 400_000 < found < 1.2 * 400_000  # one look of 16 is 6% of the file
    (tmp_path / "t.csv").write_text("1,2\n" * 10)
    assert comma_separated._estimated_rows(tmp_path / "t.csv") in (10, 11)


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_a_disk_that_is_too_small_is_said_before_any_work(
    tmp_path: Path, spools: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(tmp_path / name, X, Y)
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 5000, 5000))
    monkeypatch.setattr(spool, "_spooled", None)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / name)
    needed = "kB of temporary space" if name == "s.csv" else "96 kB of temporary space"
    is_a_sentence(error, name, needed, "has 5 kB", str(spools), "TMPDIR")
    assert list(spools.iterdir()) == []


class Full:
    """A file on a disk that is full after a while."""

    def __init__(self, file: Any) -> None:
        self.file, self.left = file, 20_000

    def write(self, content: Any) -> int:
        self.left -= memoryview(content).nbytes
        if self.left < 0:
            raise OSError(28, "No space left on device")
        return int(self.file.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_a_disk_that_fills_up_is_not_blamed_on_the_file(
    tmp_path: Path, spools: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(tmp_path / name, X, Y)
    growing = spool._GrowingArray
    monkeypatch.setattr(spool, "_GrowingArray", lambda file: growing(Full(file)))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / name)
    is_a_sentence(error, str(spools), "No space left", "TMPDIR")
    assert list(spools.iterdir()) == []


class Spoilt(NamedTuple):
    line: int
    text: str
    words: tuple[str, ...]


@pytest.mark.parametrize(
    "case",
    [
        Spoilt(1500, "1,2,3,4,five,6\n", ("line 1500, column 5", "'five'")),
        Spoilt(1500, "1,2,3,4,5\n", ("line 1500 has 5 columns", "earlier lines have 6")),
        Spoilt(302, "\n1,2,3,4,5\n", ("line 303 has 5 columns",)),  # first of its block but one
        Spoilt(2001, "1,2,3,4,,6\n", ("line 2001, column 5", "empty")),
    ],
)
def test_the_place_of_a_mistake_is_named_in_later_blocks_too(
    tmp_path: Path, spools: Path, case: Spoilt
) -> None:
    save_samples(tmp_path / "s.csv", X, Y)
    lines = (tmp_path / "s.csv").read_text().splitlines(keepends=True)
    lines[case.line - 1] = case.text
    (tmp_path / "s.csv").write_text("".join(lines))
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.csv")
    is_a_sentence(error, "s.csv", *case.words)
    assert list(spools.iterdir()) == []


def test_a_block_that_is_narrower_as_a_whole_is_a_mistake(tmp_path: Path, spools: Path) -> None:
    rows = ["1,2,3\n"] * 300 + ["1,2\n"] * 300
    (tmp_path / "s.csv").write_text("".join(rows))
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.csv")
    is_a_sentence(error, "s.csv", "line 301 has 2 columns", "earlier lines have 3")


def test_blank_lines_may_fill_whole_blocks(tmp_path: Path, spools: Path) -> None:
    (tmp_path / "s.csv").write_text("a,y\n" + "\n" * 700 + "1,2\n" + "\n" * 700 + "3,4\n")
    X, y = open_samples(tmp_path / "s.csv").rows(0, 2)
    assert X.tolist() == [[1.0], [3.0]] and y.tolist() == [2.0, 4.0]


def test_a_spool_is_opened_again_by_its_name(tmp_path: Path, spools: Path) -> None:
    source = open_samples(write(tmp_path / "s.npz", X, Y))
    packed = pickle.dumps(source)
    assert len(packed) < 1000
    again = pickle.loads(packed)
    assert np.array_equal(again.X, X)
    del again  # it does not own the files
    gc.collect()
    assert len(list(spools.iterdir())) == 1
    del source
    gc.collect()
    with pytest.raises(InvalidInput) as error:
        pickle.loads(packed)
    is_a_sentence(error, str(spools), "gone or on another machine")


def test_nothing_is_left_when_the_process_ends(tmp_path: Path, spools: Path) -> None:
    write(tmp_path / "s.npz", X, Y)
    printed = run_script(f"""
import os, tempfile
from provenet import open_samples
from provenet.data.sample_files import checks
tempfile.tempdir = {str(spools)!r}
checks.memory_at_hand = lambda: 1000
source = open_samples({str(tmp_path / "s.npz")!r})
print(len(os.listdir(tempfile.tempdir)))
""")
    assert printed == "1\n" and list(spools.iterdir()) == []


def test_nothing_is_left_when_it_ends_at_once(tmp_path: Path, spools: Path) -> None:
    sources = [open_samples(write(tmp_path / name, X, Y)) for name in SEQUENTIAL]
    assert len(list(spools.iterdir())) == len(sources) == 3
    spool.remove_spools()
    assert list(spools.iterdir()) == []
