"""Sums on several threads."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from helpers import run_script
from provenet.common.blocks import row_blocks
from provenet.data import parallel
from provenet.data.parallel import memory_at_hand, one_blas_thread, sum_over, workers


@given(st.integers(1, 100), st.integers(1, 30))
def test_the_sum_is_the_sum(n: int, rows: int) -> None:
    numbers = np.arange(n)
    blocks = list(row_blocks(n, rows))
    assert sum_over(blocks, lambda block: int(numbers[block].sum())) == n * (n - 1) // 2


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_whatever_the_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "workers", lambda: threads)
    x = np.random.default_rng(0).standard_normal(10_000)
    blocks = list(row_blocks(len(x), 100))
    first, second = (sum_over(blocks, lambda block: x[block].sum()) for _ in "ab")
    assert first == second  # the same threads give the same digits
    assert first == pytest.approx(x.sum(), abs=1e-11)  # the order of additions differs
    seen = sum_over(blocks, lambda block: {block.start} and [block.start])
    assert sorted(seen) == list(range(0, 10_000, 100))


def test_an_error_of_a_term_comes_through() -> None:
    def term(block: slice) -> int:
        if block.start == 30:
            raise ZeroDivisionError("in block 30")
        return 1

    with pytest.raises(ZeroDivisionError, match="block 30"):
        sum_over(list(row_blocks(100, 10)), term)
    assert sum_over(list(row_blocks(100, 10)), lambda block: 1) == 10  # and the threads live on


def test_sums_of_several_callers_do_not_mix() -> None:
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


def test_workers_are_the_cores_of_this_process() -> None:
    assert workers() >= 1


def described(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> int:
    """What memory is at hand to a system that describes itself by these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(parallel, "_MEMINFO", folder / "meminfo")
    monkeypatch.setattr(parallel, "_OWN_GROUPS", folder / "cgroup")
    monkeypatch.setattr(parallel, "_GROUPS", folder / "groups")
    return memory_at_hand()


MEMINFO = "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    2000 kB\n"


@pytest.mark.parametrize(
    ("files", "at_hand"),
    [
        ({}, 2000 * 1024),
        ({"cgroup": "0::/a/b\n", "groups/a/memory.max": "1000000\n"}, 1_000_000),
        ({"cgroup": "0::/a/b\n", "groups/a/b/memory.max": "max\n"}, 2000 * 1024),
        ({"cgroup": "0::/\n", "groups/memory.max": "9000\n"}, 9000),
        ({"cgroup": "0::/a\n", "groups/b/memory.max": "9000\n"}, 2000 * 1024),
        (
            {
                "cgroup": "5:cpu:/a\n4:blkio,memory:/a\n",
                "groups/memory/a/memory.limit_in_bytes": "7000\n",
                "groups/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            7000,
        ),
    ],
)
def test_memory_at_hand_is_what_is_free_and_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], at_hand: int
) -> None:
    assert described(tmp_path, monkeypatch, {"meminfo": MEMINFO, **files}) == at_hand


def test_memory_at_hand_where_the_system_tells_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory_at_hand() > 2**20  # here
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 50, "SC_PAGE_SIZE": 4096}.get)
    assert described(tmp_path, monkeypatch, {}) == 50 * 4096
    monkeypatch.delattr("os.sysconf")
    assert described(tmp_path, monkeypatch, {}) == 2**63


def test_a_forked_process_has_threads_of_its_own() -> None:
    """The child inherits the pool but not its threads: it would wait for them for ever."""
    printed = run_script("""
import os, sys, time, warnings
from provenet.data import parallel
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork with threads
parallel.workers = lambda: 2
blocks = [slice(i, i + 1) for i in range(10)]
assert parallel.sum_over(blocks, lambda block: time.sleep(0.01) or 1) == 10  # both threads start
if not hasattr(os, "fork"):
    print("child 10")
    sys.exit()
child = os.fork()
if child == 0:
    import signal
    signal.alarm(10)  # a child that hangs must not outlive the test
    print("child", parallel.sum_over(blocks, lambda block: time.sleep(0.01) or 1), flush=True)
    os._exit(0)
os.waitpid(child, 0)
""")
    assert printed.split() == ["child", "10"]


_FAULTS = """
import resource
import numpy as np
from contextlib import nullcontext
from provenet.data import parallel

def faults(context):
    with context:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(50):
            np.ones(2**18)  # 2 MB: 512 pages, if they are mapped afresh
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

plain, kept = faults(nullcontext()), faults(parallel.memory_kept())
print(plain, kept, faults(nullcontext()))
"""


@pytest.mark.skipif(parallel._malloc() is None, reason="another library gives memory")
def test_on_a_worker_memory_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask's setting maps each of 50 arrays afresh; inside the context one mapping serves them."""
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    plain, kept, after = map(int, run_script(_FAULTS).split())
    # Huge pages, where the system gives them, make fewer faults of each array: always one or more.
    assert kept <= plain / 5 and after >= plain / 2


_BLOCKS = """
import resource
import numpy as np
from provenet.data import parallel
parallel.workers = lambda: 1

def term(block):  # as a block of the last fit: several arrays, all of them freed at its end
    arrays = [np.empty(80_000) for _ in range(8)]
    for array in arrays:
        array[:] = block.start
    return 1

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    parallel.sum_over([slice(i, i + 1) for i in range(50)], term)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if told:
    faults()
else:
    parallel.reuse_freed_memory = lambda: None
print(faults())
"""


@pytest.mark.skipif(parallel._malloc() is None, reason="another library gives memory")
def test_the_memory_of_a_block_serves_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without glibc's having learnt, 50 blocks of 5 MB are mapped 50 times."""
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    told, untold = (int(run_script(f"told = {told}\n{_BLOCKS}")) for told in (True, False))
    assert told <= untold / 5
