"""Sums on threads; passes that are watched, killed and resumed with the same digits."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

import provenet as pn
from helpers import FakeClock, run_script
from provenet.common.typing import Array, row_blocks
from provenet.data import passes
from provenet.data.checkpoint import (
    Checkpoint,
    Nameless,
    checksum,
    fingerprint,
)
from provenet.data.files import save_samples
from provenet.data.passes import (
    Watch,
    available_memory,
    one_blas_thread,
    sum_over,
    watched,
    working_time,
)
from provenet.data.sources import ArraySource, Source
from provenet.data.standardisation import LinearSums
from provenet.moments.hermite import MomentRequest, MomentSums
from provenet.networks.activations import RELU, leaky_relu

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((20_000, 3)), RNG.standard_normal(20_000)


# ---------------------------------------------------------------- threads and memory


@given(st.integers(1, 100), st.integers(1, 30), st.integers(1, 3))
def test_the_sum_is_the_sum(n: int, rows: int, threads: int) -> None:
    numbers, blocks = np.arange(n), list(row_blocks(n, rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "workers", lambda: threads)
        assert sum_over(blocks, lambda block: int(numbers[block].sum())) == n * (n - 1) // 2
        x = RNG.standard_normal(n)
        first, second = (sum_over(blocks, lambda block: x[block].sum()) for _ in "ab")
    assert first == second  # the same threads give the same digits


def test_errors_come_through_and_sums_of_several_callers_do_not_mix() -> None:
    def term(block: slice) -> int:
        if block.start == 30:
            raise ZeroDivisionError("in block 30")
        return 1

    with pytest.raises(ZeroDivisionError, match="block 30"):
        sum_over(list(row_blocks(100, 10)), term)
    found: dict[int, int] = {}

    def call(i: int) -> None:
        found[i] = sum_over(list(row_blocks(200, 10)), lambda block: i)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == {i: 20 * i for i in range(8)}


def test_one_blas_thread_and_then_as_before() -> None:
    def blas_threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas_threads()
    with one_blas_thread():
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before


@pytest.mark.parametrize(
    ("files", "available"),
    [
        ({}, 2000 * 1024),
        ({"cgroup": "0::/a/b\n", "a/memory.max": "1000000\n"}, 1_000_000),
        ({"cgroup": "0::/a/b\n", "a/b/memory.max": "max\n"}, 2000 * 1024),
        ({"cgroup": "5:cpu:/a\n4:x,memory:/a\n", "memory/a/memory.limit_in_bytes": "7000"}, 7000),
    ],
)
def test_available_memory_is_what_is_free_and_allowed(
    tmp_path: Path, files: dict[str, str], available: int
) -> None:
    texts = {"proc/meminfo": "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    2000 kB\n"}
    for name, text in files.items():
        texts["proc/self/cgroup" if name == "cgroup" else f"sys/fs/cgroup/{name}"] = text
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_memory(tmp_path) == available
    assert available_memory() > 2**20  # here


def test_a_forked_process_has_threads_of_its_own() -> None:
    """The child inherits the pool but not its threads: it would wait for them for ever."""
    printed = run_script("""
import os, sys, time, warnings
from provenet.data import passes
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork with threads
passes.workers = lambda: 2
blocks = [slice(i, i + 1) for i in range(10)]
assert passes.sum_over(blocks, lambda block: time.sleep(0.01) or 1) == 10  # both threads start
if not hasattr(os, "fork"):
    print("child 10")
    sys.exit()
child = os.fork()
if child == 0:
    import signal
    signal.alarm(10)  # a child that hangs must not outlive the test
    print("child", passes.sum_over(blocks, lambda block: time.sleep(0.01) or 1), flush=True)
    os._exit(0)
os.waitpid(child, 0)
""")
    assert printed.split() == ["child", "10"]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
@pytest.mark.parametrize("on_worker", [False, True])
def test_the_memory_of_a_block_serves_the_next(
    monkeypatch: pytest.MonkeyPatch, on_worker: bool
) -> None:
    """Else 50 blocks of 5 MB are mapped 50 times, also with the setting that Dask gives workers."""
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    if on_worker:
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    script = """
import resource
import numpy as np
from provenet.data import passes
passes.workers = lambda: 1

def term(block):  # several arrays, all of them freed at its end
    arrays = [np.empty(80_000) for _ in range(8)]
    for array in arrays:
        array[:] = block.start
    return 1

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    passes.sum_over([slice(i, i + 1) for i in range(50)], term)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

reuse, passes.reuse_freed_memory = passes.reuse_freed_memory, lambda: None
plain = faults()
passes.reuse_freed_memory = reuse
faults()
print(plain, faults())
"""
    plain, reused = map(int, run_script(script).split())
    assert reused <= plain / 5


# ---------------------------------------------------------------- passes


class Short(ArraySource):
    """Stretches of 4096 samples, so that few of them make a long pass."""

    interrupted_at: int | None = None

    def stretches(self, rows: int) -> list[slice]:
        return [slice(a, b) for a, b in pairwise([*range(0, self.size, 4096), self.size])]

    def partial_total(self, term, start, stop, rows):  # type: ignore[no-untyped-def]
        if self.interrupted_at is not None and start >= self.interrupted_at:
            raise KeyboardInterrupt
        return super().partial_total(term, start, stop, rows)


TERM = partial(MomentSums.of, MomentRequest(ArraySource(X, Y).standardisation(), 3))


def digits(sums: MomentSums) -> Array:
    return np.concatenate([[sums.n], *(np.ravel(part) for part in sums.raw), sums.squares])


def run(source: Source, path: Path | None, told: list[tuple[float, str]] | None = None) -> Array:
    """The digits of a pass with a checkpoint; `told` collects its reports."""
    reports = [] if told is None else told
    checkpoint = None if path is None else Checkpoint(path, source, seconds=0)
    with watched(Watch(source, lambda *a: reports.append(a), checkpoint)):
        return digits(source.total(TERM))


def interrupted(path: Path, at: int) -> None:
    source = Short(X, Y)
    source.interrupted_at = at
    with pytest.raises(KeyboardInterrupt):
        run(source, path)


@pytest.mark.parametrize("at", [4096, 16384])
def test_an_interrupted_pass_gives_the_same_digits(tmp_path: Path, at: int) -> None:
    whole, path = run(Short(X, Y), None), tmp_path / "sums"
    interrupted(path, at)
    rest: list[tuple[float, str]] = []
    np.testing.assert_array_equal(run(Short(X, Y), path, rest), whole)
    assert len(rest) == 5 - at // 4096  # only the stretches that were missing
    assert all("samples a second" in text and text.endswith("left") for _, text in rest)
    again: list[tuple[float, str]] = []
    np.testing.assert_array_equal(run(Short(X, Y), path, again), whole)
    assert again == []  # a finished pass is read, not run


def test_budgets_do_not_count_long_passes_of_the_watched_source(clock: FakeClock) -> None:
    source = Short(X, Y)
    with watched(Watch(source, lambda *_: clock.sleep(20.0))):
        before, wall = working_time(), clock.now
        source.total(TERM)
        # Five stretches, each reported to someone who takes 20 s.
        assert working_time() == before and clock.now == wall + 100
        ArraySource(X, Y).total(lambda x, y: clock.sleep(30.0) or 0)
        assert working_time() >= before + 30


def test_other_sources_and_passes_without_a_lasting_name_are_not_kept(tmp_path: Path) -> None:
    source, reports = Short(X, Y), []
    checkpoint = Checkpoint(tmp_path / "sums", source, seconds=0)
    with watched(Watch(source, lambda *a: reports.append(a), checkpoint)):
        Short(X, -Y).total(TERM)
        assert reports == []
        assert source.total(lambda x, y: len(y)) == 20_000
        assert source.total(lambda x, y: 2 * len(y)) == 40_000
    assert not (tmp_path / "sums").exists()


# ---------------------------------------------------------------- what a checkpoint belongs to


@pytest.mark.parametrize("row", [0, 7777, 19_998])
def test_one_changed_label_is_refused_wherever_it_is(tmp_path: Path, row: int) -> None:
    """By the last bit."""
    path = tmp_path / "sums"
    run(Short(X, Y), path)
    changed = Y.copy()
    changed[row] = np.nextafter(changed[row], np.inf)
    message = f"^Samples {row // 4096 * 4096} to .* are not those"
    with pytest.raises(pn.InvalidInput, match=message):
        Checkpoint(path, Short(X, changed))


def test_changes_beyond_what_was_summed_do_no_harm(tmp_path: Path) -> None:
    """The rest of the pass reads what is there now, as a pass from the start would."""
    path, changed = tmp_path / "sums", Y.copy()
    interrupted(path, 8192)
    changed[9000] += 1  # not among the few rows that are compared first
    compared: list[tuple[float, str]] = []
    Checkpoint(path, Short(X, changed), report=lambda *a: compared.append(a))
    assert [fraction for fraction, _ in compared] == [0.5, 1.0]  # two stretches
    np.testing.assert_array_equal(run(Short(X, changed), path), run(Short(X, changed), None))


def test_files_that_are_no_checkpoint_of_these_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, source = tmp_path / "sums", Short(X, Y)
    run(source, path)
    with pytest.raises(pn.InvalidInput, match="checkpoint of other samples: give another name"):
        Checkpoint(path, Short(X[:-1], Y[:-1]))
    before, own = path.read_bytes(), re.escape(pn.__version__)
    with monkeypatch.context() as patch:
        patch.setattr("provenet.data.checkpoint.__version__", "0.0.9")
        with pytest.raises(pn.InvalidInput, match=rf"provenet {own}, and this is 0\.0\.9"):
            Checkpoint(path, source)
    assert path.read_bytes() == before
    pn.random_network(2, 3, rng=0).save(tmp_path / "net.npz")
    (tmp_path / "text").write_text("hello")
    for name, words in (("net.npz", "not a checkpoint"), ("text", "text"), ("no/s", "not exist")):
        with pytest.raises(pn.InvalidInput, match=words):
            Checkpoint(tmp_path / name, source)
    queries = pn.QuerySource(pn.random_network(2, 3, rng=0), 3, 100, rng=0)
    with pytest.raises(pn.InvalidInput, match="makes its own"):
        pn.recover(queries, checkpoint=tmp_path / "new")
    assert queries.queries == 0


def test_the_checksum_does_not_depend_on_blocks_and_layout() -> None:
    parts = [checksum(X[a:b], Y[a:b]) for a, b in ((0, 7), (7, 5000), (5000, 20_000))]
    np.testing.assert_array_equal(sum(parts[1:], parts[0]), checksum(X, Y))
    np.testing.assert_array_equal(checksum(np.asfortranarray(X), Y), checksum(X, Y))
    assert checksum(X, Y) != checksum(X, Y[::-1])  # labels of other rows
    assert checksum(X[:, :2], X[:, 2]) == checksum(X[:, :1], X[:, 1:])  # the same numbers


NET = pn.Network(np.eye(2), [0.1, 0.2])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0),
        ("1", 1),
        ((1, (2, 3)), ((1, 2), 3)),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        (np.array([0.0]), np.array([5e-324])),
        (RELU, leaky_relu(0.1)),
        (leaky_relu(0.1), leaky_relu(0.2)),
        (TERM, partial(LinearSums.of, TERM.args[0])),
        (NET, NET.replace(biases=[0.1, 0.3])),
    ],
)
def test_fingerprints_of_different_things_differ(a: object, b: object) -> None:
    assert fingerprint(a) != fingerprint(b)
    assert fingerprint(a) == fingerprint(a)


def test_fingerprints_hold_in_other_processes_and_need_lasting_names() -> None:
    assert fingerprint(pn.Network(np.eye(2), [0.1, 0.2])) == fingerprint(NET)
    printed = run_script(
        "from provenet.data.checkpoint import fingerprint as f; from functools import partial;"
        "from provenet.moments.hermite import MomentSums; import numpy as np;"
        "print(f(partial(MomentSums.of, np.arange(3.0), k='a')))"
    )
    assert printed.strip() == fingerprint(partial(MomentSums.of, np.arange(3.0), k="a"))
    for thing in (lambda X: X, object(), partial(lambda X: X, 1)):
        with pytest.raises(Nameless):
            fingerprint(thing)


SCRIPT = """
import os, signal, sys, numpy as np, provenet as pn
X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2], mmap_mode="r")
from provenet.data.checkpoint import Checkpoint
from provenet.data.sources import Source
Source.stretches = lambda source, rows: [
    slice(a, min(a + 16384, source.size)) for a in range(0, source.size, 16384)]
Checkpoint.__init__.__kwdefaults__["seconds"] = 0.0
written, write = 0, Checkpoint._write
def counted(checkpoint):
    global written
    write(checkpoint)
    written += 1
    if written == int(sys.argv[5]):
        os.kill(os.getpid(), signal.SIGKILL)
Checkpoint._write = counted
r = pn.recover(X, y, method="biased-relu", refine=False, rng=0, checkpoint=sys.argv[3])
np.save(sys.argv[4], np.column_stack([r.network.weights, r.network.biases]))
"""


def test_a_recovery_that_was_killed_ends_with_the_same_digits(tmp_path: Path) -> None:
    """The process kills itself outright once its checkpoint has been written a few times."""
    truth = pn.random_network(3, 6, bias_scale=1.0, rng=1)
    inputs, labels = pn.sample(truth, 60_000, noise=0.1, rng=2)
    save_samples(tmp_path / "X.npy", inputs, labels, tmp_path / "y.npy")

    def ended(checkpoint: str, out: str, killed_after: int = 0) -> int:
        names = [tmp_path / name for name in ("X.npy", "y.npy", checkpoint, out)]
        command = [sys.executable, "-c", SCRIPT, *map(str, names), str(killed_after)]
        return subprocess.run(command, timeout=300).returncode

    assert ended("whole", "whole.npy") == 0
    assert ended("killed", "killed.npy", killed_after=3) == -signal.SIGKILL
    assert (tmp_path / "killed").exists() and not (tmp_path / "killed.npy").exists()
    assert ended("killed", "killed.npy") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "killed.npy"), np.load(tmp_path / "whole.npy"))
