"""Datasets on disk: the same rows, draws and sums as arrays, without ever reading them all."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import provenet as pn
from helpers import assert_same_draw
from provenet.data.sample_files.door import open_samples, save_samples
from provenet.data.sources import ArraySource, FileSource
from provenet.data.sources.base import Source

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((20_000, 7)), RNG.standard_normal((20_000, 2))


class Numbers:
    """A dataset whose row i holds i, as long as one likes; it counts what is read of it."""

    dtype = np.dtype(np.float64)

    def __init__(self, shape: tuple[int, ...], chunks: tuple[int, ...] | None = None) -> None:
        self.shape, self.chunks = shape, chunks
        self.reads, self.rows_read = 0, 0

    def __getitem__(self, rows: slice) -> np.ndarray:
        index = np.arange(rows.start, min(rows.stop, self.shape[0]), dtype=float)
        self.reads += 1
        self.rows_read += len(index)
        return np.broadcast_to(
            index.reshape(-1, *(1 for _ in self.shape[1:])), (len(index), *self.shape[1:])
        )


def unused() -> Source:
    raise AssertionError("not opened again here")


def layout(path: Path, kind: str) -> Path:
    """The same samples, laid out on disk in different ways."""
    if kind.startswith("zarr"):
        group = zarr.open_group(path / "s.zarr", mode="w")
        shards = (10_000, 7) if kind == "zarr sharded" else None
        group.create_array("X", data=X, chunks=(1000, 7), shards=shards)
        group.create_array("y", data=Y, chunks=(3000, 1))
        return path / "s.zarr"
    with h5py.File(path / "s.h5", "w") as file:
        options = {
            "contiguous": {},
            "chunked": {"chunks": (1500, 3)},
            "compressed": {"chunks": (7000, 7), "compression": "gzip"},
            "tiny chunks": {"chunks": (16, 7)},
        }[kind]
        file.create_dataset("X", data=X, **options)
        file.create_dataset("y", data=Y)
    return path / "s.h5"


KINDS = ["contiguous", "chunked", "compressed", "tiny chunks", "zarr", "zarr sharded"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_draws_and_sums_are_those_of_the_arrays(tmp_path: Path, kind: str) -> None:
    source, memory = open_samples(layout(tmp_path, kind)), ArraySource(X, Y)
    assert isinstance(source, FileSource)
    assert (source.size, source.features, source.outputs) == (20_000, 7, 2)
    for start, stop in ((0, 1), (0, 20_000), (1499, 1501), (4096, 8192), (19_999, 20_000)):
        for found, wanted in zip(source.rows(start, stop), memory.rows(start, stop), strict=True):
            np.testing.assert_array_equal(found, wanted)
    for n in (1, 50, 3000, 20_000, 30_000):
        pair = (s.draw(n, np.random.default_rng(n)) for s in (source, memory))
        assert_same_draw(*pair)
    # The same blocks in the same order: not a digit may differ.
    np.testing.assert_array_equal(source.standardisation().whiten, memory.standardisation().whiten)


def test_a_chunk_is_read_once_a_pass_though_blocks_are_shorter() -> None:
    X = Numbers((300_000, 1), chunks=(50_000, 1))
    y = Numbers((300_000,))
    source = FileSource(X, y, unused)
    total = source.total(lambda x, y: float(x.sum() + y.sum()), rows=1000)
    assert total == 300_000 * 299_999  # whole numbers below 2^53: exact
    # Three chunks a band of X (a band is a megabyte at least), 131,072 rows a band of y.
    assert (X.reads, X.rows_read, y.reads) == (2, 300_000, 3)


def test_what_is_kept_in_memory_is_bounded() -> None:
    X, y = Numbers((10_000_000, 10)), Numbers((10_000_000,))
    source = FileSource(X, y, unused)
    tracemalloc.start()
    for start in range(0, 3_000_000, 10_000):
        source.rows(start, start + 10_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6  # eight bands of a megabyte and a few blocks; all rows would be 264 MB


def test_a_draw_from_many_rows_reads_and_remembers_few() -> None:
    X, y = Numbers((10**8, 2), chunks=(100, 2)), Numbers((10**8,))
    source = FileSource(X, y, unused)
    tracemalloc.start()
    drawn = source.draw(2000, np.random.default_rng(0))
    inputs, labels = drawn.X, drawn.y
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6 and X.rows_read < 2000 * 4096  # a list of all rows would be 800 MB
    assert len(set(labels)) == 2000
    np.testing.assert_array_equal(inputs, labels[:, None] + np.zeros(2))
    # Uniform on 0 .. 1e8: the mean is off by five standard deviations at most, and unsorted.
    assert abs(labels.mean() - 5e7) < 5 * 1e8 / np.sqrt(12 * 2000)
    assert abs(np.corrcoef(labels, np.arange(2000))[0, 1]) < 5 / np.sqrt(2000)


def test_arrays_of_many_rows_are_drawn_from_without_a_list_of_them() -> None:
    X = np.broadcast_to(np.float32(1.0), (10**8, 3))
    tracemalloc.start()
    inputs = ArraySource(X, X[:, 0]).draw(1000, np.random.default_rng(0)).X
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert inputs.shape == (1000, 3) and peak < 1e6


@pytest.mark.parametrize(
    "names", [("s.h5",), ("s.zarr",), ("s.zip",), ("s.npz",), ("X.npy", "y.npy")]
)
def test_sources_travel_by_the_names_of_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_samples(names[0], X, Y, *names[1:])
    source = open_samples(*names)
    packed = pickle.dumps(source)
    assert len(packed) < 1000  # the samples are a megabyte
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again: Any = pickle.loads(packed)
    assert type(again) is type(source)
    np.testing.assert_array_equal(again.rows(100, 200)[0], X[100:200])
    assert len(pickle.dumps(again)) == len(packed)


@pytest.mark.parametrize("name", ["s.h5", "s.zarr"])
def test_a_network_is_recovered_from_files_as_from_arrays(tmp_path: Path, name: str) -> None:
    truth = pn.random_network(3, 5, rng=1)
    inputs, labels = pn.sample(truth, 2000, rng=2)
    save_samples(tmp_path / name, inputs, labels)
    found = pn.recover(open_samples(tmp_path / name), rng=0)
    wanted = pn.recover(inputs, labels, rng=0)
    assert found.status is pn.Status.EXACT and pn.parameter_error(found.network, truth) < 1e-8
    np.testing.assert_array_equal(found.network.weights, wanted.network.weights)


@pytest.mark.parametrize("name", ["s.h5", "s.zarr"])
def test_what_is_not_finite_is_found_in_files_too(tmp_path: Path, name: str) -> None:
    inputs = X[:9000].copy()
    inputs[7123, 3] = np.nan
    save_samples(tmp_path / name, inputs, Y[:9000])
    with pytest.raises(pn.InvalidInput, match="row 7123"):
        pn.recover(open_samples(tmp_path / name))
