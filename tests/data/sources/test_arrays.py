"""Samples in arrays: rows, draws and sums, in memory or memory-mapped."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenet.data.sources import ArraySource
from provenet.moments.estimation import estimate_moments
from provenet.moments.sums import MomentRequest

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((10_000, 3)), RNG.standard_normal(10_000)


def test_rows_are_float64_and_not_copied_if_they_are_that_already() -> None:
    x, y = ArraySource(X, Y).rows(10, 20)
    assert np.shares_memory(x, X) and np.shares_memory(y, Y)
    x, y = ArraySource((10 * X).astype(np.int8), Y > 0).rows(10, 20)
    assert x.dtype == y.dtype == np.float64
    np.testing.assert_array_equal(x, (10 * X[10:20]).astype(np.int8))


@given(st.integers(1, 12), st.integers(1, 15), st.integers(0, 100))
def test_a_draw_is_rows_of_the_data_none_twice(size: int, n: int, seed: int) -> None:
    index = np.arange(size)
    source = ArraySource(np.column_stack([index, 2 * index]), -index)
    drawn = source.draw(n, np.random.default_rng(seed))
    x, y = drawn.X, drawn.y
    assert len(x) == len(y) == min(n, size) == len(set(y))
    np.testing.assert_array_equal(x, np.column_stack([-y, -2 * y]))
    np.testing.assert_array_equal(drawn.rows, -y)
    np.testing.assert_array_equal(y, source.draw(n, np.random.default_rng(seed)).y)


def test_draws_are_in_random_order_and_all_rows_have_the_same_chance() -> None:
    source = ArraySource(np.arange(10.0)[:, None], np.arange(10.0))
    rng = np.random.default_rng(0)
    first = np.array([source.draw(3, rng).y for _ in range(4000)])
    # Each row in each place 400 times: five standard deviations sqrt(400 * 0.9).
    for place in range(3):
        counts = np.bincount(first[:, place].astype(int), minlength=10)
        assert np.abs(counts - 400).max() < 5 * np.sqrt(360)


@pytest.mark.parametrize("rows", [1000, 4096, 10_000, 20_000])
def test_sums_do_not_depend_on_the_blocks(rows: int) -> None:
    total = ArraySource(X, Y).total(lambda x, y: y @ x, rows)
    np.testing.assert_allclose(total, Y @ X, rtol=0, atol=1e-10)  # rounding of sums near 100


def test_memory_mapped_files_are_arrays_like_others(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", Y)
    mapped = ArraySource(
        np.load(tmp_path / "X.npy", mmap_mode="r"), np.load(tmp_path / "y.npy", mmap_mode="r")
    )
    memory = ArraySource(X.astype(np.float32), Y)
    s = memory.standardisation()
    np.testing.assert_array_equal(mapped.standardisation().whiten, s.whiten)
    request = MomentRequest(s, 3)
    for a, b in zip(
        estimate_moments(mapped, request).tensors,
        estimate_moments(memory, request).tensors,
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    drawn = mapped.draw(5, np.random.default_rng(0))
    assert type(drawn.X) is np.ndarray and drawn.X.dtype == np.float64


def test_a_far_origin_costs_no_digits() -> None:
    near, far = ArraySource(X, Y), ArraySource(X + 2.0**20, Y + 2.0**20)
    s, t = near.standardisation(), far.standardisation()
    # The shift rounds inputs at 2^20 eps = 2e-10; sums about the origin would lose 2^40 eps = 2e-4.
    np.testing.assert_allclose(t.whiten, s.whiten, rtol=0, atol=1e-9)
    np.testing.assert_allclose(t.linear, s.linear, rtol=0, atol=1e-9)
    np.testing.assert_allclose(t.mean - 2.0**20, s.mean, rtol=0, atol=1e-9)
    assert t.label_spread == pytest.approx(s.label_spread, abs=1e-9)


def test_sizes() -> None:
    source = ArraySource(X, np.column_stack([Y, Y]))
    assert (source.size, source.features, source.outputs) == (10_000, 3, 2)
    assert ArraySource(X, Y).outputs is None


def test_lists_are_taken_as_arrays() -> None:
    source = ArraySource([[1, 2], [3, 4]], [5, 6])  # type: ignore[arg-type]
    X, y = source.rows(0, 2)
    assert X.dtype == float and y.tolist() == [5.0, 6.0] and source.outputs is None


def resident(path: Path) -> int:
    """Bytes of a mapped file that are in this process's memory (Linux)."""
    text = Path("/proc/self/smaps").read_text()
    entries = re.findall(rf"{re.escape(str(path))}\n(?:.*\n)*?Rss:\s+(\d+) kB", text)
    return 1024 * sum(map(int, entries))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads Linux's memory map")
def test_a_pass_over_a_mapped_file_leaves_nothing_of_it_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "X.npy"
    np.save(path, RNG.standard_normal((200_000, 5)))
    mapped = np.load(path, mmap_mode="r")
    source, expected = ArraySource(mapped, np.zeros(200_000)), mapped.sum(axis=0)
    assert resident(path) > 0.9 * mapped.nbytes  # as numpy leaves it
    total = source.total(lambda x, y: x.sum(axis=0))
    assert resident(path) < 0.01 * mapped.nbytes
    source.draw(5000, np.random.default_rng(0))
    assert resident(path) < 0.2 * mapped.nbytes
    np.testing.assert_allclose(total, expected, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(source.X[:7], np.load(path)[:7])  # it is read again if needed
