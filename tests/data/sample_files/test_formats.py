"""Each format's own ways to lie on disk, and its own ways to be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from helpers import is_a_sentence
from provenet import InvalidInput
from provenet.data.sample_files import checks, npz, parquet
from provenet.data.sample_files.door import open_samples, save_samples
from provenet.data.sources import ArraySource, FileSource, Source

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
Y = RNG.standard_normal(30)
SEVERAL = RNG.standard_normal((30, 3))


def everything(source: Source) -> tuple[np.ndarray, np.ndarray]:
    return source.rows(0, source.size)


# .npz


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["f8", ">f8", "f4", "i2", "?"])
def test_what_is_stored_in_an_archive_is_mapped_in_place(
    tmp_path: Path, order: Any, kind: str
) -> None:
    """Members of odd lengths before X and y, so that these lie anywhere."""
    stored = np.asarray(10 * X, order=order).astype(kind)
    np.savez(tmp_path / "s.npz", a=np.zeros(3, np.int8), X=stored, y=SEVERAL, Z=np.ones(5))
    source = open_samples(tmp_path / "s.npz")
    assert isinstance(source, ArraySource)
    assert isinstance(source.X, np.memmap) and isinstance(source.y, np.memmap)
    assert source.X.dtype == np.dtype(kind) and np.array_equal(source.X, stored)
    assert not source.X.flags.aligned or np.dtype(kind).itemsize == 1
    inputs, labels = everything(source)
    assert inputs.flags.aligned and labels.flags.aligned
    assert np.array_equal(inputs, stored.astype(float)) and np.array_equal(labels, SEVERAL)


@pytest.mark.parametrize("order", ["C", "F"])
def test_what_is_packed_in_an_archive_is_unpacked(tmp_path: Path, order: Any) -> None:
    packed = np.asarray(X, order=order)
    np.savez_compressed(tmp_path / "s.npz", X=packed, y=Y[:, None], Z=np.zeros(10**6))
    source = open_samples(tmp_path / "s.npz")
    assert isinstance(source, ArraySource) and source.outputs is None
    assert np.array_equal(source.X, X) and np.array_equal(source.y, Y)


def test_large_archives_are_not_read_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small ones are compared with their checksums, so a flipped bit is found."""
    X = RNG.standard_normal((2000, 4))
    np.savez(tmp_path / "s.npz", X=X, y=X[:, 0])
    content = bytearray((tmp_path / "s.npz").read_bytes())
    content[content.index(X.tobytes()) + 50_000] ^= 1
    (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.npz")
    is_a_sentence(error, "s.npz", "damaged", "CRC")
    monkeypatch.setattr(npz, "_MOST_VERIFIED", 100)
    assert (everything(open_samples(tmp_path / "s.npz"))[0] != X).sum() == 1


def test_columns_packed_one_after_the_other_need_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "s.npz", X=np.asfortranarray(X), y=Y)
    for module in (checks, npz):
        monkeypatch.setattr(module, "memory_at_hand", lambda: 4000)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.npz")
    # 30 rows of 4 inputs and a label, 8 bytes each
    is_a_sentence(error, "s.npz", "1.2 kB", "4 kB", "column by column", "ascontiguousarray")


# .h5 and .zarr


def write_group(path: Path, arrays: dict[str, Any]) -> Path:
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    else:
        group = zarr.open_group(path, mode="w")
        for name, array in arrays.items():
            group.create_array(name, data=array, config={"write_empty_chunks": True})
    return path


@pytest.mark.parametrize("name", ["s.h5", "s.zarr"])
@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": X}, ["lacks y", "holds X"]),
        ({"inputs": X, "targets": Y}, ["lacks X and y", "inputs, targets"]),
        ({}, ["lacks X and y", "nothing"]),
        ({"X": X, "y": Y[:-1]}, ["30 samples", "29 labels"]),
        ({"X": X, "y": SEVERAL.T}, ["y in", "(3, 30)", "transpose"]),
        ({"X": X[0], "y": Y}, ["X in", "2 dimensions", "not 1"]),
        ({"X": X, "y": SEVERAL[None]}, ["y in", "(1, 30, 3)"]),
        ({"X": X, "y": Y + 1j}, ["y in", "numbers", "complex"]),
        ({"X": X[:0], "y": Y[:0]}, ["no samples"]),
    ],
)
def test_groups_with_the_wrong_arrays(
    tmp_path: Path, name: str, arrays: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(InvalidInput) as error:
        open_samples(write_group(tmp_path / name, arrays))
    is_a_sentence(error, name, *words)


def test_datasets_that_are_not_numbers(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["X"], file["y"] = X, Y.astype("S5")
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.h5")
    is_a_sentence(error, "y in", "s.h5", "numbers")
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file["X"], file["data/y"] = X, Y
        file.create_group("y")
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "g.h5")
    is_a_sentence(error, "g.h5", "lacks y", "X, data/y")


@pytest.mark.parametrize("name", ["s.h5", "s.zip", "s.parquet"])
@pytest.mark.parametrize("how", ["empty", "half", "few bytes", "text"])
def test_damaged_files(tmp_path: Path, name: str, how: str) -> None:
    save_samples(tmp_path / name, X, Y)
    content = (tmp_path / name).read_bytes()
    ways = {"empty": b"", "half": content[: len(content) // 2], "few bytes": content[:8]}
    (tmp_path / name).write_bytes(ways.get(how, b"hello, world\n"))
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / name)
    is_a_sentence(error, name, "empty" if how == "empty" else "truncated")


def test_a_folder_that_is_not_zarr(tmp_path: Path) -> None:
    (tmp_path / "s.zarr").mkdir()
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.zarr")
    is_a_sentence(error, "s.zarr", "not a Zarr group")


def test_missing_chunks_are_not_taken_for_zeros(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    group.create_array("X", data=X, chunks=(10, 4))
    group.create_array("y", data=Y)
    assert np.array_equal(everything(open_samples(tmp_path / "s.zarr"))[0], X)
    (tmp_path / "s.zarr" / "X" / "c" / "1" / "0").unlink()
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.zarr")
    is_a_sentence(error, "X in", "s.zarr", "lacks 1 of its 3 chunks")
    save_samples(tmp_path / "zeros.zarr", X, np.zeros(30))
    assert not everything(open_samples(tmp_path / "zeros.zarr"))[1].any()


@pytest.mark.parametrize("name", ["s.h5", "s.zarr"])
def test_a_chunk_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "s.h5":
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("X", data=X, chunks=(30, 4))
            file["y"] = Y
    else:
        save_samples(tmp_path / name, X, Y)
    assert isinstance(open_samples(tmp_path / name), FileSource)
    monkeypatch.setattr(checks, "memory_at_hand", lambda: 3000)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / name)
    is_a_sentence(error, "X in", name, "30 rows", "960 bytes", "3 kB", "smaller chunks")


# .parquet


def write_parquet(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize("rows_a_group", [7, 1000])
def test_tables_of_mixed_columns(tmp_path: Path, rows_a_group: int) -> None:
    columns = {"a": X[:, 0].astype(np.float32), "b": np.arange(30, dtype=np.int16), "c": Y > 0}
    path = write_parquet(
        tmp_path / "s.parquet", {**columns, "label": Y}, row_group_size=rows_a_group
    )
    source = open_samples(path)
    assert isinstance(source, ArraySource)
    assert source.X.dtype == np.float32 and source.y.dtype == np.float64
    assert np.array_equal(source.X, np.column_stack(list(columns.values())))
    assert np.array_equal(source.y, Y)
    assert open_samples(path, outputs=2).outputs == 2


def test_row_labels_of_pandas_are_no_samples(tmp_path: Path) -> None:
    columns = {"a": X[:, 0], "y": Y, "__index_level_0__": [f"row {i}" for i in range(30)]}
    source = open_samples(write_parquet(tmp_path / "s.parquet", columns))
    assert np.array_equal(everything(source)[1], Y) and source.features == 1


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": X[:, 0], "name": ["n"] * 30, "y": Y}, ["not numbers", "name: string", "leave"]),
        ({"a": X[:, 0], "y": ["n"] * 30}, ["not numbers", "y: string", "NetworkClassifier"]),
        ({"a": [[1.0, 2.0]] * 30, "y": Y}, ["not numbers", "a: list"]),
        ({"a": X[:, 0], "y": [*Y[:-1], None]}, ["row 29", "column y", "empty"]),
        ({"y": Y}, ["single column"]),
        ({"a": X[:0, 0], "y": Y[:0]}, ["no samples"]),
        ({"a": Y, "y1": Y, "y2": Y}, ["y1 to y2", "--outputs"]),
    ],
)
def test_tables_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], words: list[str]
) -> None:
    monkeypatch.setattr(parquet, "PARQUET_ROWS_AT_ONCE", 8)
    with pytest.raises(InvalidInput) as error:
        open_samples(write_parquet(tmp_path / "s.parquet", columns))
    is_a_sentence(error, "s.parquet", *words)
