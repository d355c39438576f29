"""Samples on a real cluster: worker processes that talk over TCP, some of which are killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import provenet as pn
from helpers import assert_same_draw
from provenet.common.exceptions import ClusterLost, InvalidInput
from provenet.common.typing import Array
from provenet.data.checkpoint import Checkpoint
from provenet.data.passes import Watch, one_blas_thread, watched
from provenet.data.sources import ArraySource, Job, StandardisedSource
from provenet.data.standardisation import LinearSums
from provenet.moments.hermite import MomentRequest, estimate_moments

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
from provenet.data.dask import DaskArrays, DaskFiles, DaskSource, cluster  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("dask"),
]

TRUTH = pn.random_network(4, 8, bias_scale=1.0, rng=0)
X, Y = pn.sample(TRUTH, 20_000, noise=0.05, rng=1)
TERM = partial(LinearSums.of, origin=np.zeros(8), label_origin=np.zeros(()))


def on_dask(x: Array = X, y: Array = Y, rows: int = 7001) -> tuple[object, object]:
    return da.from_array(x, chunks=(rows, -1)), da.from_array(y, chunks=(rows, *y.shape[1:]))


@pytest.fixture(scope="module")
def workers() -> Iterator[distributed.LocalCluster]:
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address=":0",
            silence_logs=50,
        ) as running,
        distributed.Client(running),
    ):
        yield running


@pytest.fixture
def on_threads() -> Iterator[None]:
    """Dask's own threads, whatever client there may be."""
    with dask.config.set(scheduler="threads"):
        yield


def columns_and_labels(x: Array, y: Array) -> Array:
    return np.append(x.sum(axis=0), y.sum())


@pytest.mark.usefixtures("on_threads")
class TestOnThreads:
    @pytest.mark.parametrize("rows", [1000, 19_999, 50_000])
    def test_sums_rows_and_draws_are_those_of_the_arrays(self, rows: int) -> None:
        for labels in (Y, np.column_stack([Y, -Y, Y**2])):
            source = DaskArrays(*on_dask(y=labels, rows=rows), block=4096)
            plain = ArraySource(X, labels)
            assert (source.size, source.features, source.outputs) == (20_000, 8, plain.outputs)
            s = plain.standardisation()
            on, here = (StandardisedSource(of, s, 2.0) for of in (source, plain))
            total, same = (of.total(columns_and_labels, 512) for of in (on, here))
            np.testing.assert_allclose(total, same, rtol=0, atol=1e-10)  # rounding of sums near 1e4
            found = source.partial_total(columns_and_labels, 1500, 13_700, 512)
            expected = columns_and_labels(X[1500:13_700], labels[1500:13_700])
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
            for a, b in zip(source.rows(990, 8200), plain.rows(990, 8200), strict=True):
                np.testing.assert_array_equal(a, b)
            draws = (of.draw(500, np.random.default_rng(3)) for of in (source, plain))
            assert_same_draw(*draws)

    @pytest.mark.parametrize(
        ("lengths", "whole"),
        [
            ((7001, 7001, 5998), (16384, 3616)),
            ((16384, 16384, 1), (16384, 16384, 1)),
            ((100_000, 100_000), (98_304, 101_696)),
            ((10, 0, 20), (30,)),
            ((9000,) * 3, (16_384, 10_616)),
        ],
    )
    def test_chunks_end_where_blocks_do(
        self, lengths: tuple[int, ...], whole: tuple[int, ...]
    ) -> None:
        n = sum(lengths)
        x = da.from_array(np.arange(2.0 * n).reshape(n, 2), chunks=(lengths, 1))
        source = DaskArrays(x, x[:, 0])
        edges = [*np.cumsum(whole)]
        source.chunks_per_stretch = 1
        assert [s.stop for s in source.stretches(4096)] == edges
        source.chunks_per_stretch = 2
        assert [s.stop for s in source.stretches(4096)] == sorted({*edges[1::2], n})
        assert source.total(columns_and_labels)[1] == n**2

    @pytest.mark.parametrize(
        ("x", "y", "problem"),
        [
            (da.from_array(X)[da.from_array(X)[:, 0] > 0], Y, "chunks of unknown size"),
            (da.from_array(X), None, "Labels y are missing"),
            (da.from_array(X[:, 0]), Y, "two dimensions"),
            (da.from_array(np.where(np.arange(20_000) == 15_001, np.nan, X.T).T), Y, "row 15001"),
        ],
    )
    def test_bad_arrays_are_named(self, x: object, y: object, problem: str) -> None:
        with pytest.raises(InvalidInput, match=re.escape(problem)):
            pn.recover(x, y)


@pytest.mark.usefixtures("workers")
def test_a_recovery_on_the_cluster_is_that_in_memory() -> None:
    """Whatever the chunks, sums are of the same blocks: only the order of additions differs."""
    found = pn.recover(*on_dask(), method="biased-relu", units=4, rng=0)
    here = pn.recover(X, Y, method="biased-relu", units=4, rng=0)
    assert found.status is here.status is pn.Status.WITHIN_NOISE
    # The last fit ends within a small part of a standard error, 1e-3, and rounding decides where.
    assert pn.parameter_error(found.network, here.network) < 1e-6
    assert found.certificate is not None and here.certificate is not None
    assert found.certificate.noise == pytest.approx(here.certificate.noise, rel=1e-8)
    exact = pn.recover(*on_dask(y=TRUTH(X)), method="biased-relu", rng=0)
    assert exact.status is pn.Status.EXACT
    assert pn.parameter_error(exact.network, TRUTH) < 1e-10


def process(wanted: object, number: int) -> tuple[int, int]:
    return number, os.getpid()


@pytest.mark.usefixtures("workers")
def test_jobs_run_on_the_workers_in_their_order() -> None:
    source = DaskArrays(*on_dask())
    assert source.jobs_at_once == 2
    jobs: list[Job[tuple[int, int]]] = [partial(process, number=k) for k in range(4)]
    done = list(source.side_by_side(jobs))
    assert [number for number, _ in done] == [0, 1, 2, 3]
    assert os.getpid() not in {pid for _, pid in done}


class SharedFiles(ArraySource):
    """Travels as two file names."""

    def __init__(self, *paths: Path) -> None:
        super().__init__(*(np.load(path, mmap_mode="r") for path in paths))
        self.paths = paths

    def stretches(self, rows: int) -> list[slice]:
        return [slice(0, 16384), slice(16384, 20_000)]

    def __reduce__(self) -> tuple[type, tuple[Path, ...]]:
        return SharedFiles, self.paths


@pytest.mark.usefixtures("workers")
def test_of_files_only_sums_travel(tmp_path: Path) -> None:
    """What workers send each other for moments of order 4 is sums alone."""
    paths = tmp_path / "X.npy", tmp_path / "y.npy"
    for path, array in zip(paths, (X, Y), strict=True):
        np.save(path, array)
    local = SharedFiles(*paths)
    source = DaskFiles(local)
    client = distributed.get_client()
    client.run(lambda dask_worker: dask_worker.transfer_outgoing_log.clear())
    request = MomentRequest(local.standardisation(), 4)
    with one_blas_thread():  # as the workers: threads split single-precision products otherwise
        here = estimate_moments(local, request)
    found = estimate_moments(source, request)
    logs = client.run(lambda dask_worker: [t["keys"] for t in dask_worker.transfer_outgoing_log])
    moved = {str(key).partition("-")[0] for log in logs.values() for keys in log for key in keys}
    assert moved <= {"_sum_of_chunk", "reduce", "_Shipped", "SharedFiles"}
    for a, b in zip(found.tensors, here.tensors, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


def slowly(x: Array, y: Array) -> Array:
    threading.Event().wait(0.01)
    return columns_and_labels(x, y)


def patiently(ready: object, problem: str) -> None:
    """Until something is ready: a busy machine starts processes slowly."""
    for _ in range(1200):
        if ready():  # type: ignore[operator]
            return
        threading.Event().wait(0.05)
    pytest.fail(f"{problem} in a minute")


def test_a_worker_killed_in_the_middle_of_a_pass_costs_nothing_but_time(
    workers: distributed.LocalCluster,
) -> None:
    source = DaskArrays(*on_dask(rows=250), block=250)
    victim = next(iter(workers.workers.values())).pid
    timer = threading.Timer(0.2, os.kill, (victim, signal.SIGKILL))
    timer.start()
    total = source.total(slowly, 512)
    timer.join()
    patiently(
        lambda: next(iter(workers.workers.values())).pid not in (victim, None), "no new worker came"
    )
    np.testing.assert_allclose(total, columns_and_labels(X, Y), rtol=0, atol=1e-10)


@contextmanager
def scheduler_and_worker() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler and a worker as processes of their own, as a user would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = f"tcp://127.0.0.1:{port}"
    start = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [*start, "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"], **quiet
    )
    worker = subprocess.Popen(
        [*start, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"], **quiet
    )

    def listening() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", int(port))) == 0

    try:
        patiently(listening, f"nothing listened at port {port}")
        yield address, scheduler
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()


def test_a_cluster_that_goes_away_is_said_and_the_checkpoint_is_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DaskSource, "chunks_per_stretch", 4)
    path, source = tmp_path / "sums", DaskArrays(*on_dask(rows=500), block=500)
    lost = pytest.raises(ClusterLost, match="start it again")
    # So long the client waits for the scheduler's return.
    with scheduler_and_worker() as (address, scheduler), cluster(address, timeout="5s"):
        kept = Checkpoint(path, source, seconds=0)

        def kill(fraction: float, message: str) -> None:
            if fraction > 0.3:
                scheduler.kill()

        with watched(Watch(source, kill, kept)), lost:
            source.total(TERM, 512)
    told: list[float] = []
    with dask.config.set(scheduler="threads"):
        kept = Checkpoint(path, source, seconds=0)
        with watched(Watch(source, lambda f, m: told.append(f), kept)):
            total = source.total(TERM, 512)
    assert told[0] > 0.3  # the first part was not added up again
    np.testing.assert_allclose(total.x, X.sum(axis=0), rtol=0, atol=1e-10)


def test_an_address_without_a_scheduler_is_named() -> None:
    for address, words in (
        ("tcp://127.0.0.1:9", r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"),
        ("nonsense://1", "nonsense"),
    ):
        with pytest.raises(InvalidInput, match=words), cluster(address, timeout="1s"):
            pass
