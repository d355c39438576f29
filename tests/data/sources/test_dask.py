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
from provenet.data.parallel import one_blas_thread
from provenet.data.passes import Watch, watched
from provenet.data.sources import ArraySource, StandardisedSource, base
from provenet.data.standardisation import LinearSums
from provenet.fitting.search.chains import chains
from provenet.fitting.workspace import Wishes, prepare
from provenet.moments.estimation import estimate_moments
from provenet.moments.sums import MomentRequest

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
from provenet.data.sources import dask as dask_source  # noqa: E402
from provenet.data.sources.dask import DaskArrays, DaskFiles, cluster  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("dask"),
]

TRUTH = pn.random_network(4, 8, bias_scale=1.0, rng=0)
X, Y = pn.sample(TRUTH, 20_000, noise=0.05, rng=1)
ROWS = 16384


def on_dask(x: Array = X, y: Array = Y, rows: int = ROWS) -> tuple[object, object]:
    return da.from_array(x, chunks=(rows, -1)), da.from_array(y, chunks=(rows, *y.shape[1:]))


def local_cluster() -> distributed.LocalCluster:
    return distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def workers() -> Iterator[distributed.LocalCluster]:
    with local_cluster() as running, distributed.Client(running):
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
    @pytest.mark.parametrize("rows", [1000, 4096, 19_999, 50_000])
    def test_sums_rows_and_draws_are_those_of_the_arrays(self, rows: int) -> None:
        source, plain = DaskArrays(*on_dask(rows=rows)), ArraySource(X, Y)
        assert (source.size, source.features, source.outputs) == (20_000, 8, None)
        total, same = (s.total(columns_and_labels, 512) for s in (source, plain))
        np.testing.assert_allclose(total, same, rtol=0, atol=1e-10)  # rounding of sums near 1e4
        for a, b in zip(source.rows(990, 8200), plain.rows(990, 8200), strict=True):
            np.testing.assert_array_equal(a, b)
        draws = (s.draw(500, np.random.default_rng(3)) for s in (source, plain))
        assert_same_draw(*draws)

    @pytest.mark.parametrize(
        ("lengths", "whole"),
        [
            ((7001, 7001, 5998), (16384, 3616)),
            ((16384, 16384, 1), (16384, 16384, 1)),
            ((100_000, 100_000), (98_304, 101_696)),
            ((10, 0, 20), (30,)),
            ((16_000, 9000), (16_384, 8616)),
            ((9000,) * 3, (16_384, 10_616)),
        ],
    )
    def test_chunks_end_where_blocks_do(
        self, lengths: tuple[int, ...], whole: tuple[int, ...]
    ) -> None:
        n = sum(lengths)
        x = da.from_array(np.arange(2.0 * n).reshape(n, 2), chunks=(lengths, 1))
        source = DaskArrays(x, x[:, 0])
        assert tuple(c.stop - c.start for c in source._chunks) == whole
        assert source.total(columns_and_labels)[1] == n**2

    def test_part_of_the_samples_may_begin_and_end_within_a_chunk(self) -> None:
        source = DaskArrays(*on_dask(rows=1000))
        found = source.partial_total(columns_and_labels, 1500, 3700, 512)
        np.testing.assert_allclose(
            found, columns_and_labels(X[1500:3700], Y[1500:3700]), atol=1e-11
        )

    def test_several_outputs_and_changed_samples(self) -> None:
        several = np.column_stack([Y, -Y, Y**2])
        source = DaskArrays(*on_dask(y=several))
        assert source.outputs == 3
        s = ArraySource(X, several).standardisation()
        on = StandardisedSource(source, s, np.array([1.0, 2.0, 3.0]))
        local = StandardisedSource(ArraySource(X, several), s, np.array([1.0, 2.0, 3.0]))
        total, same = (s.total(lambda x, y: y.T @ x) for s in (on, local))
        np.testing.assert_allclose(total, same, rtol=0, atol=1e-9)

    def test_chunks_are_grouped_so_that_a_pass_can_be_told(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dask_source, "_CHUNKS_A_STRETCH", 3)
        monkeypatch.setattr(dask_source, "LARGEST_BLOCK", 4096)
        source = DaskArrays(*on_dask(rows=4096))
        assert [s.stop for s in source.stretches(512)] == [12288, 20_000]

    @pytest.mark.parametrize(
        ("x", "y", "problem"),
        [
            (da.from_array(X)[da.from_array(X)[:, 0] > 0], Y, "chunks of unknown size"),
            (da.from_array(X), Y[:-1], "19999"),
            (da.from_array(X), None, "Labels y are missing"),
            (da.from_array(X[:, 0]), Y, "two dimensions"),
            (da.from_array(X.astype(str)), Y, "must hold real numbers"),
            (da.from_array(X), Y[:, None, None], "shape"),
        ],
    )
    def test_bad_arrays_are_named(self, x: object, y: object, problem: str) -> None:
        with pytest.raises(InvalidInput, match=re.escape(problem)):
            pn.recover(x, y)

    def test_a_sample_that_is_not_finite_is_named_by_its_row(self) -> None:
        bad = X.copy()
        bad[15_001, 2] = np.nan
        with pytest.raises(InvalidInput, match="X is not finite in row 15001"):
            pn.recover(*on_dask(x=bad))


def test_a_recovery_on_the_cluster_is_that_in_memory(workers: distributed.LocalCluster) -> None:
    """Whatever the chunks, sums are of the same blocks: only the order of additions differs."""
    found = pn.recover(*on_dask(rows=7001), method="biased-relu", units=4, rng=0)
    here = pn.recover(X, Y, method="biased-relu", units=4, rng=0)
    assert found.status is here.status is pn.Status.WITHIN_NOISE
    # Over 8 recoveries: 5e-16; 3e-12 to 9e-11 when sums were of other blocks.
    assert pn.parameter_error(found.network, here.network) < 1e-13
    assert found.certificate is not None and here.certificate is not None
    assert found.certificate.noise == pytest.approx(here.certificate.noise, rel=1e-10)


def test_exact_labels_end_at_rounding_whatever_the_chunks(
    workers: distributed.LocalCluster,
) -> None:
    found = pn.recover(*on_dask(y=TRUTH(X), rows=7001), method="biased-relu", rng=0)
    assert found.status is pn.Status.EXACT
    assert pn.parameter_error(found.network, TRUTH) < 1e-10


class TwoAtOnce(ArraySource):
    """Two jobs at once, as two workers have, but here."""

    jobs_at_once = 2


def test_chains_after_the_first_run_on_the_cluster(workers: distributed.LocalCluster) -> None:
    """With the samples that were drawn and random numbers of their own: as they would run here."""
    few, labels = X[:600], TRUTH(X[:600])
    thetas = []
    for source in (DaskArrays(*on_dask(few, labels)), TwoAtOnce(few, labels)):
        rng, standardisation = np.random.default_rng(0), source.standardisation()
        prepared = prepare(
            source, Wishes(), standardisation, rng=rng, progress=lambda *_: None, deadline=np.inf
        )
        assert source.jobs_at_once == 2
        found = chains(prepared)
        thetas.append([next(found).fit.parameters.theta for _ in range(3)])
        found.close()
    for there, here in zip(*thetas, strict=True):
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-6)  # the same but for rounding


class SharedFiles(ArraySource):
    """Travels as two file names."""

    def __init__(self, *paths: Path) -> None:
        super().__init__(*(np.load(path, mmap_mode="r") for path in paths))
        self.paths = paths

    def __reduce__(self) -> tuple[type, tuple[Path, ...]]:
        return SharedFiles, self.paths


def test_of_files_only_sums_travel(
    tmp_path: Path, workers: distributed.LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What workers send each other for moments of order 4 is sums alone."""
    monkeypatch.setattr(base, "STRETCH_BYTES", 0)
    monkeypatch.setattr(base, "_BLOCKS_A_THREAD", 1)
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
    assert moved <= {"_sum_of_chunk", "_merged", "_Shipped", "SharedFiles"}
    for a, b in zip(found.tensors, here.tensors, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


def slowly(x: Array, y: Array) -> Array:
    threading.Event().wait(0.01)
    return columns_and_labels(x, y)


def test_a_worker_killed_in_the_middle_of_a_pass_costs_nothing_but_time(
    workers: distributed.LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_source, "LARGEST_BLOCK", 250)
    source = DaskArrays(*on_dask(rows=250))
    victim = next(iter(workers.workers.values())).pid
    timer = threading.Timer(0.2, os.kill, (victim, signal.SIGKILL))
    timer.start()
    total = source.total(slowly, 512)
    timer.join()
    patience = threading.Event()
    for _ in range(1200):  # a busy machine starts processes slowly
        if next(iter(workers.workers.values())).pid not in (victim, None):
            break
        patience.wait(0.05)
    else:
        pytest.fail("no new worker came in a minute: it did not die, or was not replaced")
    np.testing.assert_allclose(total, columns_and_labels(X, Y), rtol=0, atol=1e-10)


def wait_for(port: int) -> None:
    """Until something listens there: a busy machine starts processes slowly."""
    patience = threading.Event()
    for _ in range(1200):
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        patience.wait(0.05)
    pytest.fail(f"nothing listened at port {port} in a minute")


@contextmanager
def scheduler_and_worker() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler and a worker as processes of their own, as a user would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    dask_cli = [sys.executable, "-m", "dask"]
    port = address.rpartition(":")[2]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [*dask_cli, "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"], **quiet
    )
    worker = subprocess.Popen(
        [*dask_cli, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"], **quiet
    )
    try:
        wait_for(int(port))
        yield address, scheduler
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()


def test_a_cluster_that_goes_away_is_said_and_the_checkpoint_is_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_source, "_CHUNKS_A_STRETCH", 4)
    monkeypatch.setattr(dask_source, "LARGEST_BLOCK", 500)
    monkeypatch.setattr(dask_source, "_PATIENCE", "5s")  # so long the client waits for its return
    path = tmp_path / "sums"
    term = partial(LinearSums.of, origin=np.zeros(8), label_origin=np.zeros(()))
    source = DaskArrays(*on_dask(rows=500))
    lost = pytest.raises(ClusterLost, match="start it again")
    with scheduler_and_worker() as (address, scheduler), cluster(address):
        kept = Checkpoint(path, source, seconds=0)

        def kill(fraction: float, message: str) -> None:
            if fraction > 0.3:
                scheduler.kill()

        with watched(Watch(source, kill, kept)), lost:
            source.total(term, 512)
    told: list[float] = []
    with dask.config.set(scheduler="threads"):
        kept = Checkpoint(path, source, seconds=0)
        with watched(Watch(source, lambda f, m: told.append(f), kept)):
            total = source.total(term, 512)
    assert told[0] > 0.3  # the first part was not added up again
    np.testing.assert_allclose(total.x, X.sum(axis=0), rtol=0, atol=1e-10)


def test_an_address_without_a_scheduler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_source, "_PATIENCE", "1s")
    with (
        pytest.raises(InvalidInput, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"),
        cluster("tcp://127.0.0.1:9"),
    ):
        pass
    with pytest.raises(InvalidInput, match="nonsense"), cluster("nonsense://1"):
        pass
