"""A pass that was killed goes on, and gives the same digits as one that was not."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import provenet as pn
from helpers import FakeClock
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.data.checkpoint import Checkpoint
from provenet.data.checksum import checksum
from provenet.data.passes import Watch, watched, working_time
from provenet.data.sample_files.door import open_samples, save_samples
from provenet.data.sources import ArraySource, QuerySource, Source
from provenet.moments.sums import MomentRequest, MomentSums
from provenet.validation import as_source

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((20_000, 3)), RNG.standard_normal(20_000)


class Short(ArraySource):
    """Stretches of 4096 samples, so that few of them make a long pass."""

    interrupted_at: int | None = None

    def stretches(self, rows: int) -> list[slice]:
        edges = [*range(0, self.size, 4096), self.size]
        return [slice(a, b) for a, b in pairwise(edges)]

    def partial_total(self, term, start, stop, rows):  # type: ignore[no-untyped-def]
        if self.interrupted_at is not None and start >= self.interrupted_at:
            raise KeyboardInterrupt
        return super().partial_total(term, start, stop, rows)


def term() -> partial[MomentSums]:
    return partial(MomentSums.of, MomentRequest(ArraySource(X, Y).standardisation(), 3))


def digits(sums: MomentSums) -> Array:
    return np.concatenate([[sums.n], *(np.ravel(part) for part in sums.raw), sums.squares])


def run(source: Short, path: Path | None, told: list[tuple[float, str]] | None = None) -> Array:
    checkpoint = None if path is None else Checkpoint(path, source, seconds=0)
    report = (lambda *a: None) if told is None else (lambda *a: told.append(a))
    with watched(Watch(source, report, checkpoint)):
        return digits(source.total(term()))


@pytest.mark.parametrize("at", [4096, 8192, 16384])
def test_an_interrupted_pass_gives_the_same_digits(tmp_path: Path, at: int) -> None:
    whole = run(Short(X, Y), None)
    source, path = Short(X, Y), tmp_path / "sums"
    source.interrupted_at = at
    with pytest.raises(KeyboardInterrupt):
        run(source, path)
    rest: list[tuple[float, str]] = []
    np.testing.assert_array_equal(run(Short(X, Y), path, rest), whole)
    assert len(rest) == 5 - at // 4096  # only the stretches that were missing
    again: list[tuple[float, str]] = []
    np.testing.assert_array_equal(run(Short(X, Y), path, again), whole)
    assert again == []  # a finished pass is read, not run


def test_progress_tells_the_fraction_the_rate_and_the_time_left() -> None:
    told: list[tuple[float, str]] = []
    run(Short(X, Y), None, told)
    assert [fraction for fraction, _ in told] == pytest.approx([0.2048, 0.4096, 0.6144, 0.8192, 1])
    assert all("samples a second" in text and text.endswith("left") for _, text in told)


def test_budgets_do_not_count_long_passes(clock: FakeClock) -> None:
    source = Short(X, Y)
    with watched(Watch(source, lambda *_: clock.sleep(20.0))):
        before, wall = working_time(), clock.now
        source.total(term())
        # Five stretches, each told to someone who takes 20 s.
        assert working_time() == before and clock.now == wall + 100
        ArraySource(X, Y).total(lambda x, y: clock.sleep(30.0) or 0)
        assert working_time() >= before + 30  # other sources count


def test_only_the_watched_source_is_told(tmp_path: Path) -> None:
    source, other = Short(X, Y), Short(X, -Y)
    told: list[float] = []
    checkpoint = Checkpoint(tmp_path / "sums", source)
    with watched(Watch(source, lambda f, m: told.append(f), checkpoint)):
        other.total(term())
    assert told == [] and not (tmp_path / "sums").exists()


def test_a_pass_without_a_lasting_name_runs_again(tmp_path: Path) -> None:
    source = Short(X, Y)
    with watched(Watch(source, lambda *a: None, Checkpoint(tmp_path / "sums", source))):
        assert source.total(lambda x, y: len(y)) == 20_000
        assert source.total(lambda x, y: 2 * len(y)) == 40_000
    assert not (tmp_path / "sums").exists()


def test_other_data_and_other_versions_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sums"
    run(Short(X, Y), path)
    before = path.read_bytes()
    changed = Y.copy()
    changed[-1] += 1e-9
    with pytest.raises(InvalidInput, match="checkpoint of other samples: give another name"):
        Checkpoint(path, Short(X, changed))
    own = re.escape(pn.__version__)
    monkeypatch.setattr("provenet.data.checkpoint.__version__", "0.0.9")
    with pytest.raises(InvalidInput, match=rf"written by provenet {own}, and this is 0\.0\.9"):
        Checkpoint(path, Short(X, Y))
    assert path.read_bytes() == before


@pytest.mark.parametrize("row", [0, 4095, 4096, 7777, 19_998])
def test_one_changed_label_is_refused_wherever_it_is(tmp_path: Path, row: int) -> None:
    """By the last bit, in rows that the quick look at a few places does not see."""
    path = tmp_path / "sums"
    run(Short(X, Y), path)
    changed = Y.copy()
    changed[row] = np.nextafter(changed[row], np.inf)
    with pytest.raises(InvalidInput, match=r"other samples|are not those that .* was written for"):
        Checkpoint(path, Short(X, changed))
    if row in (4095, 7777):
        first = row - row % 4096
        with pytest.raises(InvalidInput, match=f"^Samples {first} to {first + 4095} are not"):
            Checkpoint(path, Short(X, changed))


def test_changes_beyond_what_was_summed_do_no_harm(tmp_path: Path) -> None:
    """The rest of the pass reads what is there now, as a pass from the start would."""
    source, path = Short(X, Y), tmp_path / "sums"
    source.interrupted_at = 8192
    with pytest.raises(KeyboardInterrupt):
        run(source, path)
    changed = Y.copy()
    changed[9000] += 1  # not among the few rows that are looked at first
    told: list[tuple[float, str]] = []
    Checkpoint(path, Short(X, changed), report=lambda *a: told.append(a))
    assert [fraction for fraction, _ in told] == [0.5, 1.0]  # two stretches were compared
    np.testing.assert_array_equal(run(Short(X, changed), path), run(Short(X, changed), None))
    changed[8000] += 1
    with pytest.raises(InvalidInput, match="Samples 4096 to 8191 are not"):
        run(Short(X, changed), path)


def test_samples_are_checked_once_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later passes go without, and their sums are kept all the same."""
    rows: list[int] = []

    def counted(X: Array, y: Array) -> Array:
        rows.append(len(X))
        return checksum(X, y)

    monkeypatch.setattr("provenet.data.checksum.checksum", counted)
    source = Short(X, Y)
    checkpoint = Checkpoint(tmp_path / "sums", source, seconds=0)
    with watched(Watch(source, lambda *a: None, checkpoint)):
        source.standardisation()
        source.total(term())
    assert sum(rows) == 20_000 and len(checkpoint._passes) == 2


@pytest.mark.parametrize("kind", ["npz", "h5", "parquet", "zarr", "dask"])
def test_every_source_is_compared(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provenet.data.sources.base.STRETCH_BYTES", 2**10)
    monkeypatch.setattr("provenet.data.sources.base._BLOCKS_A_THREAD", 1)
    monkeypatch.setattr("provenet.data.sources.base.LARGEST_BLOCK", 4096)
    if kind == "dask":
        monkeypatch.setattr("provenet.data.sources.dask._CHUNKS_A_STRETCH", 2)
        monkeypatch.setattr("provenet.data.sources.dask.LARGEST_BLOCK", 4096)
        # A client that another test closed may have left its name behind.
        monkeypatch.setitem(pytest.importorskip("dask").config.config, "scheduler", "sync")
    checkpoint = tmp_path / "sums"
    source = as_source_of(tmp_path / "before", kind, Y)
    kept = Checkpoint(checkpoint, source, seconds=0)
    with watched(Watch(source, lambda *a: None, kept)):
        whole = digits(source.total(term()))
    assert kept.checked == 20_000
    source = as_source_of(tmp_path / "again", kind, Y)
    told: list[float] = []
    with watched(Watch(source, lambda f, m: told.append(f), Checkpoint(checkpoint, source))):
        np.testing.assert_array_equal(digits(source.total(term())), whole)
    assert told == []  # the pass was read, not run
    changed = Y.copy()
    changed[7777] += 1e-9
    source = as_source_of(tmp_path / "after", kind, changed)
    with pytest.raises(InvalidInput, match=r"Samples .* are not those"):
        Checkpoint(checkpoint, source)


def as_source_of(path: Path, kind: str, labels: Array) -> Source:
    if kind == "dask":
        da = pytest.importorskip("dask.array")
        return as_source(da.from_array(X, chunks=(3000, 3)), da.from_array(labels, chunks=3000))
    path.mkdir()
    save_samples(path / f"samples.{kind}", X, labels)
    return open_samples(path / f"samples.{kind}")


def test_the_checksum_does_not_depend_on_blocks_and_layout() -> None:
    parts = [checksum(X[a:b], Y[a:b]) for a, b in ((0, 7), (7, 5000), (5000, 20_000))]
    np.testing.assert_array_equal(sum(parts[1:], parts[0]), checksum(X, Y))
    np.testing.assert_array_equal(checksum(np.asfortranarray(X), Y), checksum(X, Y))
    assert checksum(X, Y) != checksum(X, Y[::-1])  # labels of other rows
    assert checksum(X[:, :2], X[:, 2]) == checksum(X[:, :1], X[:, 1:])  # the same numbers


def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "net.npz"
    pn.random_network(2, 3, rng=0).save(path)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="not a checkpoint of provenet"):
        Checkpoint(path, Short(X, Y))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidInput, match="text"):
        Checkpoint(tmp_path / "text", Short(X, Y))
    with pytest.raises(InvalidInput, match="does not exist"):
        Checkpoint(tmp_path / "nowhere" / "sums", Short(X, Y))
    assert path.read_bytes() == before


def test_a_queried_function_has_no_checkpoint(tmp_path: Path) -> None:
    source = QuerySource(pn.random_network(2, 3, rng=0), 3, 100, rng=0)
    with pytest.raises(InvalidInput, match="makes its own"):
        pn.recover(source, checkpoint=tmp_path / "sums")
    assert source.queries == 0


def test_sums_too_large_to_write_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provenet.data.checkpoint._LARGEST", 100)
    run(Short(X, Y), tmp_path / "sums")
    assert Checkpoint(tmp_path / "sums", Short(X, Y))._passes == {}


SCRIPT = """
import os, signal, sys, numpy as np, provenet as pn
X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2], mmap_mode="r")
import provenet.data.checkpoint as c, provenet.data.sources.base as base
base.STRETCH_BYTES, base._BLOCKS_A_THREAD = 0, 1
c.Checkpoint.__init__.__defaults__ = (0.0,)
written, write = 0, c.Checkpoint._write
def counted(checkpoint):
    global written
    write(checkpoint)
    written += 1
    if written == int(sys.argv[5]):
        os.kill(os.getpid(), signal.SIGKILL)
c.Checkpoint._write = counted
r = pn.recover(X, y, method="biased-relu", refine=False, rng=0, checkpoint=sys.argv[3])
np.save(sys.argv[4], np.column_stack([r.network.weights, r.network.biases]))
"""


def test_a_recovery_that_was_killed_ends_with_the_same_digits(tmp_path: Path) -> None:
    """The process kills itself outright once its checkpoint has been written a few times."""
    truth = pn.random_network(3, 6, bias_scale=1.0, rng=1)
    inputs, labels = pn.sample(truth, 60_000, noise=0.1, rng=2)
    np.save(tmp_path / "X.npy", inputs)
    np.save(tmp_path / "y.npy", labels)

    def ended(checkpoint: str, out: str, killed_after: int = 0) -> int:
        names = [tmp_path / name for name in ("X.npy", "y.npy", checkpoint, out)]
        command = [sys.executable, "-c", SCRIPT, *map(str, names), str(killed_after)]
        return subprocess.run(command, timeout=300).returncode

    assert ended("whole", "whole.npy") == 0
    assert ended("killed", "killed.npy", killed_after=3) == -signal.SIGKILL
    assert (tmp_path / "killed").exists() and not (tmp_path / "killed.npy").exists()
    assert ended("killed", "killed.npy") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "killed.npy"), np.load(tmp_path / "whole.npy"))
