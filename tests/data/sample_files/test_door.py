"""Sample files: what is written is read back, and every bad file is one clear sentence."""

from __future__ import annotations

import os
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from provenet import InvalidInput
from provenet.common.files import load_npz
from provenet.data.sample_files.door import open_samples, save_mask, save_samples
from provenet.data.sources import ArraySource, FileSource, Source

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
Y = RNG.standard_normal(30)
SEVERAL = RNG.standard_normal((30, 3))
ALONE = ["s.npz", "s.csv", "s.CSV", "s.h5", "s.hdf5", "s.parquet", "s.zarr", "s.zip"]
"""Files that hold both inputs and labels."""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def read(
    path: Path, labels: Path | None = None, outputs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    return everything(open_samples(path, labels, outputs))


def everything(source: Source) -> tuple[np.ndarray, np.ndarray]:
    return source.rows(0, source.size)


def sentence(error: pytest.ExceptionInfo[InvalidInput], *words: str) -> None:
    """One line that ends in a full stop and names what it should."""
    message = str(error.value)
    assert "\n" not in message and message.endswith(".") and not message.endswith("..")
    for word in words:
        assert word in message


@pytest.mark.parametrize("name", ALONE)
def test_what_is_saved_is_read_back_to_the_last_digit(tmp_path: Path, name: str) -> None:
    save_samples(tmp_path / name, X, Y)
    inputs, labels = read(tmp_path / name)
    assert np.array_equal(inputs, X) and np.array_equal(labels, Y)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_pair_of_npy_files_is_memory_mapped_and_read_only(tmp_path: Path) -> None:
    save_samples(tmp_path / "X.npy", X, Y, labels=tmp_path / "y.npy")
    source = open_samples(tmp_path / "X.npy", tmp_path / "y.npy")
    assert isinstance(source, ArraySource)
    assert isinstance(source.X, np.memmap) and isinstance(source.y, np.memmap)
    assert np.array_equal(source.X, X) and np.array_equal(source.y, Y)
    for array in (source.X, source.rows(0, 30)[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0


@pytest.mark.parametrize("names", [*((name,) for name in ALONE), ("X.npy", "y.npy")])
def test_single_precision_stays_so_in_files(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Every number is read back as it was, in double precision; only text knows no difference."""
    single, paths = X.astype(np.float32), [tmp_path / name for name in names]
    save_samples(paths[0], single, Y, *paths[1:])
    source = open_samples(*paths)
    inputs, labels = everything(source)
    assert inputs.dtype == labels.dtype == np.float64
    assert np.array_equal(inputs, single) and np.array_equal(labels, Y)
    kept = source.X if isinstance(source, ArraySource) else source._X.dataset  # type: ignore[attr-defined]
    assert kept.dtype == (np.float64 if names[0].lower() == "s.csv" else np.float32)
    assert isinstance(source, FileSource) == (paths[0].suffix in (".h5", ".hdf5", ".zarr", ".zip"))


@pytest.mark.parametrize("names", [*((name,) for name in ALONE), ("X.npy", "y.npy")])
def test_several_outputs_are_read_back(tmp_path: Path, names: tuple[str, ...]) -> None:
    """The file itself says how many there are; saying so again changes nothing."""
    paths = [tmp_path / name for name in names]
    save_samples(paths[0], X, SEVERAL, *paths[1:])
    for outputs in (None, 3):
        inputs, labels = read(*paths, outputs=outputs)
        assert np.array_equal(inputs, X) and np.array_equal(labels, SEVERAL)
    with pytest.raises(InvalidInput) as error:
        open_samples(*paths, outputs=2)
    sentence(error, names[-1], "3 outputs", "not 2")


@pytest.mark.parametrize("names", [*((name,) for name in ALONE), ("X.npy", "y.npy")])
def test_one_output_in_a_column_of_its_own_is_one_label_a_row(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    paths = [tmp_path / name for name in names]
    save_samples(paths[0], X, Y[:, None], *paths[1:])
    source = open_samples(*paths, outputs=1)
    assert source.outputs is None and np.array_equal(everything(source)[1], Y)
    assert np.array_equal(
        source.draw(9, np.random.default_rng(0)).y,
        ArraySource(X, Y).draw(9, np.random.default_rng(0)).y,
    )


@pytest.mark.parametrize(
    ("header", "outputs", "labels"),
    [
        ("", None, 1),
        ("", 1, 1),
        ("", 3, 3),
        ("a,b,c,d,e\n", None, 1),
        ("a,b,c,d,e\n", 2, 2),
        ("0,1,2,3,4\n", 4, 4),
        ("x1,x2,x3,x4,y\n", None, 1),
        ("x1,x2,x3,x4,y1\n", None, 1),
        ("x1,x2,x3,y1,y2\n", None, 2),
        ("# x1, x2, x3, y1, y2\n", None, 2),
        ("a,b,c,y1,y2\n", 2, 2),
        ("a,b,c,y1,y2\n", 1, 1),
        ("y1,y2,y3,y4,y5\n", 2, 2),
    ],
)
def test_which_columns_are_labels(
    tmp_path: Path, header: str, outputs: int | None, labels: int
) -> None:
    path = write(tmp_path / "s.csv", f"{header}1,2,3,4,5\n6,7,8,9,10\n")
    inputs, y = read(path, outputs=outputs)
    assert np.array_equal(y.reshape(2, -1), np.reshape(range(1, 11), (2, 5))[:, 5 - labels :])
    assert inputs.shape == (2, 5 - labels) and y.ndim == (1 if labels == 1 else 2)


@pytest.mark.parametrize(
    ("header", "outputs", "words"),
    [
        ("a,b,c,y1,y2\n", None, ["y1 to y2", "--outputs"]),
        ("a,b,target_0,target_1,target_2\n", None, ["target_0 to target_2", "--outputs"]),
        ("a,b,c,y[0],Y[1]\n", None, ["y[0] to Y[1]", "--outputs"]),
        ("y1,y2,y3,y4,y5\n", None, ["y1 to y5", "--outputs"]),
        ("x1,x2,x3,y1,y2\n", 1, ["2 outputs", "not 1"]),
        ("x1,x2,x3,y1,y2\n", 3, ["2 outputs", "not 3"]),
        ("", 5, ["5 columns", "5 outputs"]),
        ("", 6, ["5 columns", "6 outputs"]),
        ("", 0, ["5 columns", "0 outputs"]),
    ],
)
def test_labels_are_not_guessed(
    tmp_path: Path, header: str, outputs: int | None, words: list[str]
) -> None:
    path = write(tmp_path / "s.csv", f"{header}1,2,3,4,5\n6,7,8,9,10\n")
    with pytest.raises(InvalidInput) as error:
        open_samples(path, outputs=outputs)
    sentence(error, "s.csv", *words)


@pytest.mark.parametrize("name", ["mask.npy", "mask.npz"])
def test_a_mask_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mask = SEVERAL > 0
    save_mask(tmp_path / name, mask)
    path = tmp_path / name
    found = np.load(path) if name == "mask.npy" else load_npz(path)["corrupted"]
    assert found.dtype == bool and np.array_equal(found, mask)
    before = (tmp_path / name).read_bytes()
    monkeypatch.setattr(np, "save" if name == "mask.npy" else "savez", break_halfway)
    with pytest.raises(KeyboardInterrupt):
        save_mask(tmp_path / name, ~mask)
    assert (tmp_path / name).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_mask_needs_a_name_that_can_hold_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        save_mask(tmp_path / "mask.csv", SEVERAL > 0)
    sentence(error, "mask.csv", ".npy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1,2,3\n4,5,6\n", 2),
        ("a,b,y\n1,2,3\n4,5,6\n", 2),
        ("# a,b,y\r\n1,2,3\r\n4,5,6", 2),
        ("\ufeffa,b,y\n1,2,3\n", 1),
        ('"a","b","y"\n"1","2","3"\n', 1),
        ("\n\na,b,y\n\n1,2,3\n\n", 1),
        ("0,1,2\n1,2,3\n", 1),  # the column numbers that pandas writes
        ("0,1,y\n1,2,3\n", 1),
        ("0,1\n1,2\n", 2),
        (" 1 , 2 , 3 \n", 1),
        ("1e0,-2.5E-3,.5\n", 1),
    ],
)
def test_tables_with_and_without_a_header(tmp_path: Path, text: str, rows: int) -> None:
    inputs, labels = read(write(tmp_path / "s.csv", text))
    assert len(inputs) == len(labels) == rows
    assert inputs.shape[1] == text.strip().splitlines()[0].count(",")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is empty"]),
        ("\n \n", ["s.csv"]),
        ("a,b,y\n", ["no samples"]),
        ("1,2,3\n4,five,6\n", ["line 2", "column 2", "'five'"]),
        ("a,b,y\n1,2,3\n4,5,\n", ["line 3", "column 3 (y)", "empty", "leave the line out"]),
        ("a,b,y\n1,m,3\n", ["line 2", "column 2 (b)", "'m'", "leave the column out"]),
        ("a,b,y\n1,2,red\n", ["column 3 (y)", "'red'", "NetworkClassifier", "0 and 1"]),
        ("1,x,3\n4,5,6\n", ["line 1", "column 2", "'x'"]),
        ("a,b,y\n1,2,3\n\n4,5\n", ["line 4", "2 columns", "have 3"]),
        ("1,2,3\n4,5,6,7\n", ["line 2", "4 columns", "have 3"]),
        ("1\n2\n", ["single column", "commas"]),
        ("1+2j,3,4\n1,2,3\n", ["line 1", "column 1"]),
        ("1_000,3,4\n", ["line 1", "column 1"]),
    ],
)
def test_bad_tables_name_the_place(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InvalidInput) as error:
        open_samples(write(tmp_path / "s.csv", text))
    sentence(error, "s.csv", *words)


@pytest.mark.parametrize(
    "content", [b"\xff\xfea\x00,\x00", bytes(range(256)), b"\x00,\x01\n\x02,3"]
)
def test_a_table_that_is_not_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.csv").write_bytes(content)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.csv")
    sentence(error, "s.csv")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": X}, ["lacks", "y", "holds X"]),
        ({"inputs": X, "targets": Y}, ["X and y", "inputs, targets"]),
        ({"X": X, "y": Y[:-1]}, ["30 samples", "29 labels"]),
        ({"X": X[0], "y": Y}, ["X in", "2 dimensions", "not 1"]),
        ({"X": X[None], "y": Y}, ["X in", "2 dimensions", "not 3"]),
        ({"X": X, "y": np.float64(3)}, ["y in", "label"]),
        ({"X": X, "y": SEVERAL[None]}, ["y in", "(samples, outputs)", "(1, 30, 3)"]),
        ({"X": X, "y": SEVERAL.T}, ["y in", "(3, 30)", "transpose"]),
        ({"X": X, "y": SEVERAL[:-1]}, ["30 samples", "29 labels"]),
        ({"X": X, "y": SEVERAL[:, :0]}, ["y in", "no labels"]),
        ({"X": X.astype(str), "y": Y}, ["X in", "numbers"]),
        ({"X": X, "y": Y + 1j}, ["y in", "numbers", "complex"]),
        ({"X": X[:0], "y": Y[:0]}, ["no samples"]),
        ({"X": X[:, :0], "y": Y}, ["no samples"]),
        ({"X": X, "y": np.array([None] * 30)}, ["s.npz", "numbers", "object"]),
    ],
)
def test_archives_with_the_wrong_arrays(
    tmp_path: Path, arrays: dict[str, np.ndarray], words: list[str]
) -> None:
    np.savez(tmp_path / "s.npz", **arrays)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.npz")
    sentence(error, "s.npz", *words)


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "s.npz", "w") as archive:
        archive.writestr("X.npy", "1,2,3")
        archive.writestr("y.npy", "4")
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.npz")
    sentence(error, "s.npz")


def damaged(content: bytes, how: str) -> bytes:
    middle = len(content) // 3
    flipped = bytes(byte ^ 0xFF for byte in content[middle : middle + 40])
    return {
        "empty": b"",
        "half": content[: len(content) // 2],
        "few bytes": content[:8],
        "no end": content[:-30],
        "flipped": content[:middle] + flipped + content[middle + 40 :],
        "text": b"hello, world\n",
        "pickle": b"\x80\x04N.",
    }[how]


@pytest.mark.parametrize(
    "how", ["empty", "half", "few bytes", "no end", "flipped", "text", "pickle"]
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_archives(tmp_path: Path, save: object, how: str) -> None:
    file = tmp_path / "s.npz"
    save(file, X=np.round(X), y=Y)  # type: ignore[operator]
    file.write_bytes(damaged(file.read_bytes(), how))
    with pytest.raises(InvalidInput) as error:
        open_samples(file)
    sentence(error, "s.npz")


def test_an_archive_whose_compressed_bytes_are_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(stream: object, count: int = -1) -> None:
        raise zlib.error("invalid distance too far back")

    np.savez_compressed(tmp_path / "s.npz", X=X, y=Y)
    monkeypatch.setattr(zipfile.ZipExtFile, "read", broken)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.npz")
    sentence(error, "s.npz", "damaged")


@pytest.mark.parametrize("how", ["empty", "half", "few bytes", "no end", "text", "pickle"])
@pytest.mark.parametrize("which", ["X.npy", "y.npy"])
def test_damaged_npy_files(tmp_path: Path, which: str, how: str) -> None:
    save_samples(tmp_path / "X.npy", X, Y, labels=tmp_path / "y.npy")
    file = tmp_path / which
    file.write_bytes(damaged(file.read_bytes(), how))
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "X.npy", tmp_path / "y.npy")
    sentence(error, which)


def test_pickled_arrays_are_never_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.array([[None, {}]]), allow_pickle=True)
    np.save(tmp_path / "y.npy", Y)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "X.npy", tmp_path / "y.npy")
    sentence(error, "X.npy", "Python objects")


@pytest.mark.parametrize(
    ("path", "labels", "words"),
    [
        ("none.npz", None, ["none.npz", "does not exist"]),
        ("none.csv", None, ["none.csv", "does not exist"]),
        ("X.npy", "none.npy", ["none.npy", "does not exist"]),
        ("X.npy", None, ["X.npy", "second .npy"]),
        ("s.npz", "y.npy", ["s.npz", "leave out", "y.npy"]),
        ("X.npy", "s.npz", ["s.npz", ".npy"]),
        ("none.zarr", None, ["none.zarr", "does not exist"]),
        ("s.h5", "y.npy", ["s.h5", "leave out", "y.npy"]),
        ("samples.txt", None, ["samples.txt", "extension", ".npz", ".csv", ".h5", ".zarr"]),
        ("samples", None, ["samples", "extension"]),
        ("folder.npz", None, ["folder.npz", "folder"]),
        ("folder.parquet", None, ["folder.parquet", "folder"]),
        ("X.npy", "short.npy", ["X.npy has 30", "short.npy has 29"]),
    ],
)
def test_names_that_do_not_fit(
    tmp_path: Path, path: str, labels: str | None, words: list[str]
) -> None:
    save_samples(tmp_path / "s.npz", X, Y)
    save_samples(tmp_path / "X.npy", X, Y, labels=tmp_path / "y.npy")
    np.save(tmp_path / "short.npy", Y[:-1])
    (tmp_path / "samples.txt").write_text("1,2,3\n")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / path, None if labels is None else tmp_path / labels)
    sentence(error, *words)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    save_samples(tmp_path / "s.npz", X, Y)
    (tmp_path / "s.npz").chmod(0)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / "s.npz")
    sentence(error, "s.npz", "permissions")


@pytest.mark.parametrize(
    ("path", "labels"),
    [("s.txt", None), ("X.npy", None), ("X.npy", "X.npy"), ("no/s.npz", None), ("s.csv", "y.npy")],
)
def test_saving_to_names_that_do_not_fit(tmp_path: Path, path: str, labels: str | None) -> None:
    with pytest.raises(InvalidInput):
        save_samples(tmp_path / path, X, Y, None if labels is None else tmp_path / labels)
    assert list(tmp_path.iterdir()) == []


def break_halfway(file: object, *args: object, **options: object) -> None:
    file.write(b"half")  # type: ignore[attr-defined]
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("path", "labels", "writer"),
    [("s.csv", None, "savetxt"), ("s.npz", None, "savez"), ("X.npy", "y.npy", "save")],
)
def test_an_interrupted_write_keeps_what_was_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    labels: str | None,
    writer: str,
) -> None:
    second = None if labels is None else tmp_path / labels
    save_samples(tmp_path / path, X, Y, second)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(np, writer, break_halfway)
    with pytest.raises(KeyboardInterrupt):
        save_samples(tmp_path / path, X + 1, Y + 1, second)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("name", ["s.h5", "s.parquet", "s.zarr", "s.zip"])
def test_a_failed_write_keeps_what_was_there(tmp_path: Path, name: str) -> None:
    """Labels that no format can hold, found out only once the inputs are written."""
    impossible = np.array([object()] * 30)
    with pytest.raises((TypeError, ValueError)):
        save_samples(tmp_path / name, X, impossible)
    assert list(tmp_path.iterdir()) == []
    save_samples(tmp_path / name, X, Y)
    before = contents(tmp_path)
    with pytest.raises((TypeError, ValueError)):
        save_samples(tmp_path / name, X + 1, impossible)
    assert contents(tmp_path) == before
    save_samples(tmp_path / name, X + 1, Y)
    assert np.array_equal(read(tmp_path / name)[0], X + 1)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_that_is_not_zarr_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "photos.zarr").mkdir()
    (tmp_path / "photos.zarr" / "one.png").touch()
    with pytest.raises(InvalidInput) as error:
        save_samples(tmp_path / "photos.zarr", X, Y)
    sentence(error, "photos.zarr", "folder")
    assert (tmp_path / "photos.zarr" / "one.png").exists()
    (tmp_path / "s.h5").mkdir()
    (tmp_path / "s.h5" / "zarr.json").touch()
    with pytest.raises(InvalidInput, match="folder"):
        save_samples(tmp_path / "s.h5", X, Y)


@pytest.mark.parametrize(
    ("name", "needed"),
    [("s.h5", "h5py"), ("s.zarr", "zarr"), ("s.zip", "zarr"), ("s.parquet", "pyarrow")],
)
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, needed: str
) -> None:
    save_samples(tmp_path / name, X, Y)
    monkeypatch.setitem(sys.modules, needed, None)
    with pytest.raises(InvalidInput) as error:
        open_samples(tmp_path / name)
    sentence(error, name, needed, 'pip install "provenet[files]"')
    with pytest.raises(InvalidInput) as error:
        save_samples(tmp_path / f"new_{name}", X, Y)
    sentence(error, name, needed)


def test_labels_are_not_left_without_their_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, calls = np.save, []

    def second_fails(file: object, array: np.ndarray, **options: object) -> None:
        calls.append(array)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        save(file, array)  # type: ignore[arg-type]

    monkeypatch.setattr(np, "save", second_fails)
    with pytest.raises(OSError, match="No space"):
        save_samples(tmp_path / "X.npy", X, Y, labels=tmp_path / "y.npy")
    assert len(calls) == 2 and list(tmp_path.iterdir()) == []
