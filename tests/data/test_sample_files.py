"""Sample files: what is written is read back, and every bad file is one clear sentence."""

from __future__ import annotations

import os
import pickle
import sys
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import provenet as pn
from helpers import assert_same_draw, is_a_sentence
from provenet import InvalidInput
from provenet.common.files import load_npz
from provenet.data.files import open_samples, save_mask, save_samples
from provenet.data.sources import ArraySource, Source

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 4)), RNG.standard_normal(30)
SEVERAL = RNG.standard_normal((30, 3))
ALONE = ["s.npz", "s.csv", "s.tsv", "s.CSV", "s.h5", "s.hdf5", "s.parquet", "s.zarr", "s.zip"]
NAMES = [*((name,) for name in ALONE), ("X.npy", "y.npy")]


def everything(source: Source) -> tuple[np.ndarray, np.ndarray]:
    return source.rows(0, source.size)


def refused(path: Path, *words: str, **options: Any) -> None:
    """The file cannot be used, and the sentence names it and says these words."""
    with pytest.raises(InvalidInput) as error:
        open_samples(path, **options)
    is_a_sentence(error, path.name, *words)


# ---------------------------------------------------------------- every format


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("labels", [Y, Y[:, None], SEVERAL], ids=["one", "column", "several"])
def test_what_is_saved_is_read_back_to_the_last_digit(
    tmp_path: Path, names: tuple[str, ...], labels: np.ndarray
) -> None:
    paths, single = [tmp_path / name for name in names], X.astype(np.float32)
    for inputs in (X, single):
        save_samples(paths[0], inputs, labels, *paths[1:])
        source = open_samples(*paths, outputs=labels.reshape(30, -1).shape[1])
        found = everything(source)
        assert found[0].dtype == found[1].dtype == np.float64
        wanted = ArraySource(inputs, Y if labels.size == 30 else labels)
        np.testing.assert_array_equal(found[0], inputs)
        np.testing.assert_array_equal(found[1], wanted.y)
        assert_same_draw(*(s.draw(9, np.random.default_rng(0)) for s in (source, wanted)))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    kept = getattr(source.X, "dataset", source.X)  # type: ignore[attr-defined]
    assert kept.dtype == (
        np.float64 if ".csv" in names[0].lower() or ".tsv" in names[0] else np.float32
    )
    if labels.size > 30:
        with pytest.raises(InvalidInput) as error:
            open_samples(*paths, outputs=2)
        is_a_sentence(error, names[-1], "3 outputs", "not 2")


@pytest.mark.parametrize("names", [("s.h5",), ("s.zarr",), ("s.zip",), ("X.npy", "y.npy")])
def test_large_files_are_read_by_parts_and_travel_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    inputs = RNG.standard_normal((60_000, 5)).astype(np.float32)
    labels = inputs @ np.arange(5)
    monkeypatch.chdir(tmp_path)
    save_samples(names[0], inputs, labels, *names[1:])
    source, wanted = open_samples(*names), ArraySource(inputs, labels)
    packed = pickle.dumps(source)
    assert len(packed) < 1000  # the samples are a megabyte
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for found in (source, pickle.loads(packed)):
        for start, stop in ((0, 60_000), (100, 200), (52_000, 53_000), (26_000, 60_000)):
            for a, b in zip(found.rows(start, stop), wanted.rows(start, stop), strict=True):
                np.testing.assert_array_equal(a, b)
        for n in (3, 500, 60_000):
            assert_same_draw(*(s.draw(n, np.random.default_rng(1)) for s in (found, wanted)))
        np.testing.assert_array_equal(
            found.standardisation().whiten, wanted.standardisation().whiten
        )


@pytest.mark.parametrize("name", ["s.npz", "s.zarr"])
def test_a_network_is_recovered_from_files_as_from_arrays(tmp_path: Path, name: str) -> None:
    truth = pn.random_network(3, 5, rng=1)
    inputs, labels = pn.sample(truth, 2000, rng=2)
    save_samples(tmp_path / name, inputs, labels)
    found, wanted = (
        pn.recover(*s, rng=0) for s in ((open_samples(tmp_path / name),), (inputs, labels))
    )
    assert found.status is pn.Status.EXACT and pn.parameter_error(found.network, truth) < 1e-8
    np.testing.assert_array_equal(found.network.weights, wanted.network.weights)
    inputs[1123, 3] = np.nan
    save_samples(tmp_path / name, inputs, labels)
    with pytest.raises(InvalidInput, match="row 1123"):
        pn.recover(open_samples(tmp_path / name))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["f8", ">f4", "?"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_however_arrays_lie_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Any, order: Any, kind: str
) -> None:
    """Members of odd lengths before X and y, so that these lie anywhere."""
    path, stored = tmp_path / "s.npz", np.asarray(10 * X, order=order).astype(kind)
    save(path, a=np.zeros(3, np.int8), X=stored, y=Y[:, None], Z=np.ones(5))
    for memory in (2**40, 1000):
        monkeypatch.setattr("provenet.data.files.available_memory", partial(int, memory))
        if memory == 1000 and save is np.savez_compressed:
            refused(path, "needs", "1 kB are available", "write .npy")
            continue
        source = open_samples(path)
        assert isinstance(source, ArraySource) and source.outputs is None
        assert isinstance(source.X, np.memmap) == (memory == 1000)
        inputs, labels = everything(source)
        assert inputs.flags.aligned and labels.flags.aligned
        np.testing.assert_array_equal(inputs, stored.astype(float))
        np.testing.assert_array_equal(labels, Y)


@pytest.mark.parametrize("name", ["s.csv", "s.parquet", "s.h5"])
def test_what_does_not_fit_into_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    save_samples(tmp_path / name, X, Y)
    if name == "s.h5":
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("X", data=X, chunks=(30, 4))
            file["y"] = Y
    monkeypatch.setattr("provenet.data.files.available_memory", lambda: 3000)
    refused(tmp_path / name, "of memory as a whole", "3 kB are available", "HDF5 or Zarr")


def break_halfway(file: Any, *args: object, **options: object) -> None:
    file.write_bytes(b"half") if isinstance(file, Path) else file.write(b"half")
    raise KeyboardInterrupt


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("names", NAMES)
def test_an_interrupted_write_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    paths = [tmp_path / name for name in names]
    save_samples(paths[0], X, Y, *paths[1:])
    before = contents(tmp_path)
    for writer in ("savetxt", "savez", "save"):
        monkeypatch.setattr(np, writer, break_halfway)
    impossible = np.array([object()] * 30)  # found out only once the inputs are written
    with pytest.raises((KeyboardInterrupt, TypeError, ValueError)):
        save_samples(paths[0], X + 1, impossible, *paths[1:])
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["mask.npy", "mask.npz"])
def test_masks(tmp_path: Path, name: str) -> None:
    save_mask(tmp_path / name, SEVERAL > 0)
    found = (
        np.load(tmp_path / name) if name == "mask.npy" else load_npz(tmp_path / name)["corrupted"]
    )
    np.testing.assert_array_equal(found, SEVERAL > 0)
    with pytest.raises(InvalidInput) as error:
        save_mask(tmp_path / "mask.csv", SEVERAL > 0)
    is_a_sentence(error, "mask.csv", ".npy")


# ---------------------------------------------------------------- names of files


@pytest.mark.parametrize(
    ("path", "labels", "words"),
    [
        ("none.npz", None, ["none.npz", "does not exist"]),
        ("X.npy", "none.npy", ["none.npy", "does not exist"]),
        ("X.npy", None, ["X.npy", "second .npy"]),
        ("s.npz", "y.npy", ["s.npz", "leave out", "y.npy"]),
        ("X.npy", "s.npz", ["s.npz", ".npy"]),
        ("samples.txt", None, ["samples.txt", "extension", ".npz", ".csv", ".h5", ".zarr"]),
        ("folder.npz", None, ["folder.npz", "folder"]),
        ("X.npy", "short.npy", ["X.npy has 30", "short.npy has 29"]),
        ("X.npy", "objects.npy", ["objects.npy", "Python objects"]),
        ("photos.zarr", None, ["photos.zarr", "not a Zarr group"]),
    ],
)
def test_names_that_do_not_fit(
    tmp_path: Path, path: str, labels: str | None, words: list[str]
) -> None:
    save_samples(tmp_path / "s.npz", X, Y)
    save_samples(tmp_path / "X.npy", X, Y, labels=tmp_path / "y.npy")
    np.save(tmp_path / "short.npy", Y[:-1])
    np.save(tmp_path / "objects.npy", np.array([[None, {}]]), allow_pickle=True)
    for folder in ("folder.npz", "photos.zarr"):
        (tmp_path / folder).mkdir()
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / path, None if labels is None else tmp_path / labels)
    is_a_sentence(error, *words)


@pytest.mark.parametrize(
    ("path", "labels"),
    [("s.txt", None), ("X.npy", None), ("X.npy", "X.npy"), ("no/s.npz", None), ("s.csv", "y.npy")],
)
def test_saving_to_names_that_do_not_fit(tmp_path: Path, path: str, labels: str | None) -> None:
    for name in (path, "photos.zarr"):
        (tmp_path / "photos.zarr").mkdir(exist_ok=True)
        with pytest.raises(InvalidInput):
            save_samples(tmp_path / name, X, Y, None if labels is None else tmp_path / labels)
    assert [file.name for file in tmp_path.iterdir()] == ["photos.zarr"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    save_samples(tmp_path / "s.npz", X, Y)
    (tmp_path / "s.npz").chmod(0)
    refused(tmp_path / "s.npz", "permissions")


@pytest.mark.parametrize(
    ("name", "needed"), [("s.h5", "h5py"), ("s.zip", "zarr"), ("s.parquet", "pyarrow")]
)
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, needed: str
) -> None:
    save_samples(tmp_path / name, X, Y)
    monkeypatch.setitem(sys.modules, needed, None)
    refused(tmp_path / name, needed, 'pip install "provenet[files]"')
    with pytest.raises(InvalidInput, match=needed):
        save_samples(tmp_path / f"new_{name}", X, Y)


# ---------------------------------------------------------------- bad content


@pytest.mark.parametrize(
    "name", ["s.npz", "packed.npz", "X.npy", "y.npy", "s.h5", "s.zip", "s.parquet"]
)
@pytest.mark.parametrize("how", ["empty", "half", "few bytes", "text", "flipped"])
def test_damaged_files(tmp_path: Path, name: str, how: str) -> None:
    path, labels = tmp_path / name, None
    if name.endswith(".npy"):
        path, labels = tmp_path / "X.npy", tmp_path / "y.npy"
    if name == "packed.npz":
        np.savez_compressed(path, X=np.round(X), y=Y)
    else:
        save_samples(path, X, Y, labels)
    content = (tmp_path / name).read_bytes()
    third = len(content) // 3
    flipped = bytes(byte ^ 0xFF for byte in content[third : third + 40])
    ways = {"empty": b"", "half": content[: len(content) // 2], "few bytes": content[:8]}
    ways["flipped"] = content[:third] + flipped + content[third + 40 :]
    if how == "flipped" and not name.endswith(".npz"):
        return  # nothing there compares a checksum
    (tmp_path / name).write_bytes(ways.get(how, b"hello, world\n"))
    with pytest.raises(InvalidInput) as error:
        open_samples(path, labels)
    is_a_sentence(error, name)


def write_group(path: Path, arrays: dict[str, Any]) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    else:
        group = zarr.open_group(path, mode="w")
        for name, array in arrays.items():
            group.create_array(name, data=array, config={"write_empty_chunks": True})
    return path


@pytest.mark.parametrize("name", ["s.npz", "s.h5", "s.zarr"])
@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": X}, ["holds X,", "not X and y"]),
        ({"inputs": X, "targets": Y}, ["not X and y", "inputs, targets"]),
        ({"X": X, "y": Y[:-1]}, ["30 samples", "has 29"]),
        ({"X": X, "y": SEVERAL.T}, ["y in", "has 3:"]),
        ({"X": X[0], "y": Y}, ["X in", "two dimensions", "not 1"]),
        ({"X": X, "y": SEVERAL[None]}, ["y in", "(samples, outputs)", "(1, 30, 3)"]),
        ({"X": X, "y": Y + 1j}, ["y in", "numbers", "complex"]),
        ({"X": X[:0], "y": Y[:0]}, ["X in", "nothing to learn from"]),
        ({"X": X, "y": SEVERAL[:, :0]}, ["y in", "nothing to learn from"]),
    ],
)
def test_wrong_arrays(tmp_path: Path, name: str, arrays: dict[str, Any], words: list[str]) -> None:
    refused(write_group(tmp_path / name, arrays), *words)


def test_groups_that_are_not_whole(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    group.create_array("X", data=X, chunks=(10, 4))
    group.create_array("y", data=Y)
    np.testing.assert_array_equal(everything(open_samples(tmp_path / "s.zarr"))[0], X)
    (tmp_path / "s.zarr" / "X" / "c" / "1" / "0").unlink()
    refused(tmp_path / "s.zarr", "X in", "lacks 1 of its 3 chunks")
    save_samples(tmp_path / "zeros.zarr", X, np.zeros(30))
    assert not everything(open_samples(tmp_path / "zeros.zarr"))[1].any()
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file["X"], file["data/y"] = X, Y
        file.create_group("y")
    refused(tmp_path / "g.h5", "holds X,")


# ---------------------------------------------------------------- tables


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("header", "options", "labels"),
    [
        ("", {}, 1),
        ("", {"outputs": 3}, 3),
        ("a,b,c,d,e\n", {"outputs": 2}, 2),
        ("0,1,2,3,4\n", {"outputs": 4}, 4),
        ("x1,x2,x3,x4,y1\n", {}, 1),
        ("# x1, x2, x3, y1, y2\n", {}, 2),
        ("a,b,c,y1,y2\n", {"outputs": 1}, 1),
        ("y1,y2,y3,y4,y5\n", {"outputs": 2}, 2),
        ("a,b,c,y1,y2\n", {}, ["y1 to y2", "--outputs"]),
        ("a,b,c,y[0],Y[1]\n", {}, ["y[0] to Y[1]", "--outputs"]),
        ("y1,y2,y3,y4,y5\n", {}, ["y1 to y5", "--outputs"]),
        ("x1,x2,x3,y1,y2\n", {"outputs": 1}, ["2 outputs", "not 1"]),
        ("", {"outputs": 5}, ["5 columns", "5 outputs"]),
        ("", {"outputs": 0}, ["5 columns", "0 outputs"]),
        ("a,b,c,d,e\n", {"target": "cost"}, ["its columns are a, b, c, d, e"]),
        ("a,b,c,d,e\n", {"target": list("abcde")}, ["5 columns", "5 outputs"]),
        ("", {"target": "a"}, ["no column 'a'", "without names"]),
    ],
)
def test_labels_are_known_columns_and_not_guessed(
    tmp_path: Path, header: str, options: dict[str, Any], labels: int | list[str]
) -> None:
    path = write(tmp_path / "s.csv", f"{header}1,2,3,4,5\n6,7,8,9,10\n")
    if isinstance(labels, list):
        refused(path, *labels, **options)
        return
    inputs, y = everything(open_samples(path, **options))
    assert np.array_equal(y.reshape(2, -1), np.reshape(range(1, 11), (2, 5))[:, 5 - labels :])
    assert inputs.shape == (2, 5 - labels) and y.ndim == (1 if labels == 1 else 2)


@pytest.mark.parametrize(
    ("name", "mark", "decimal"),
    [("a.csv", ",", "."), ("a.csv", ";", ","), ("a.csv", "\t", "."), ("a.tsv", "\t", ".")],
)
def test_labels_by_name_whatever_separates_the_cells(
    tmp_path: Path, name: str, mark: str, decimal: str
) -> None:
    text = "age,price,dose\n1.5,7.0,2.0\n3.0,8.5,4.25\n".replace(",", mark).replace(".", decimal)
    source = open_samples(write(tmp_path / name, text), target="price")
    assert [part.tolist() for part in everything(source)] == [[[1.5, 2.0], [3.0, 4.25]], [7.0, 8.5]]
    assert source.feature_names == ("age", "dose")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("# a,b,y\r\n1,2,3\r\n4,5,6", 2),
        ("\ufeffa,b,y\n1,2,3\n", 1),
        ('"a","b","y"\n"1","2","3"\n', 1),
        ("\n\na,b,y\n\n1,2,3\n\n", 1),
        ("0,1,2\n1,2,3\n", 1),  # the column numbers that pandas writes
        ("0,1\n1,2\n", 2),
        (" 1 , 2 , 3 \n", 1),
        ("1e0,-2.5E-3,.5\n", 1),
    ],
)
def test_tables_with_and_without_a_header(tmp_path: Path, text: str, rows: int) -> None:
    inputs, labels = everything(open_samples(write(tmp_path / "s.csv", text)))
    assert len(inputs) == len(labels) == rows
    assert inputs.shape[1] == text.strip().splitlines()[0].count(",")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\xff\xfea\x00,\x00", ["comma-separated text"]),
        (bytes(range(256)), ["comma-separated text"]),
        (b"\x00,\x01\n\x02", []),
        ("\n \n", []),
        ("a,b,y\n", ["no samples"]),
        ("1,2,3\n4,five,6\n", ["line 2", "column 2", "'five'"]),
        ("a,b,y\n1,2,3\n4,5,\n", ["line 3", "column 3:", "''"]),
        ("a,b,y\n1,m,3\n", ["line 2", "column 2:", "'m'", "leave the column out"]),
        ("a,b,y\n1,2,red\n", ["'red'", "NetworkClassifier", "0 and 1"]),
        ("a,b,y\n" + "1,2,3\n" * 20_000 + "\n4,5\n", ["line 20003", "2 columns", "have 3"]),
        ("1,2,3\n4,5,6,7\n", ["line 2", "4 columns", "have 3"]),
        ("1\n2\n", ["1 column ", "commas"]),
        ("1+2j,3,4\n1,2,3\n", ["line 1", "column 1:", "'1+2j'"]),
    ],
)
def test_bad_tables_name_the_place(tmp_path: Path, text: Any, words: list[str]) -> None:
    path = tmp_path / "s.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(path, *words)


def test_parquet_keeps_types_and_leaves_out_row_labels_of_pandas(tmp_path: Path) -> None:
    columns = {"a": X[:, 0].astype(np.float32), "b": np.arange(30, dtype=np.int16), "c": Y > 0}
    index = {"__index_level_0__": [f"row {i}" for i in range(30)]}
    pq.write_table(pa.table({**columns, "label": Y, **index}), tmp_path / "s.parquet")
    source = open_samples(tmp_path / "s.parquet")
    assert isinstance(source, ArraySource) and source.feature_names == ("a", "b", "c")
    assert source.X.dtype == np.float32
    np.testing.assert_array_equal(source.X, np.column_stack(list(columns.values())))
    named = open_samples(tmp_path / "s.parquet", target=["label", "a"])
    np.testing.assert_array_equal(everything(named)[1], np.column_stack([Y, columns["a"]]))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": X[:, 0], "name": ["n"] * 30, "y": Y}, ["not numbers", "name: string", "leave"]),
        ({"a": X[:, 0], "y": ["n"] * 30}, ["not numbers", "y: string", "NetworkClassifier"]),
        ({"a": [[1.0, 2.0]] * 30, "y": Y}, ["not numbers", "a: list"]),
        ({"a": X[:, 0], "y": [True, None] * 15}, ["y in", "real numbers", "object"]),
        ({"y": Y}, ["1 column "]),
        ({"a": X[:0, 0], "y": Y[:0]}, ["no samples"]),
    ],
)
def test_parquet_that_cannot_be_used(
    tmp_path: Path, columns: dict[str, Any], words: list[str]
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    refused(tmp_path / "s.parquet", *words)


def test_names_of_a_frame_are_in_the_result_and_its_text() -> None:
    pandas = pytest.importorskip("pandas")
    names = ["age", "dose", "weight"]
    inputs, labels = pn.sample(pn.random_network(2, 3, rng=0), 200, rng=1)
    result = pn.recover(pandas.DataFrame(inputs, columns=names), labels, rng=0)
    assert result.success and result.feature_names == tuple(names)
    head = next(line for line in str(result).splitlines() if "unit  output" in line)
    assert head.split()[-3:] == names
    assert pn.recover(inputs, labels, rng=0).feature_names == ()
