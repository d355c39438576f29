"""Passes over samples on disk and on a cluster, against the same pass in memory.

    python benchmarks/scaling.py [--samples N] [--folder DIR]
    python benchmarks/scaling.py --recovery --samples 100000000 --folder DIR

The pass is the most expensive one of the moment route: order 4 in the span of 10 units, 20
features, inputs in float32. Files are written first and then read from wherever the system keeps
them: files of this size are in its cache after the first pass, so what is measured is what reading
and decompressing cost, not the disk. Clusters of 1, 2 and 4 worker processes, one thread each, read
the same file. All is measured in processor time, of the workers too, so that a busy machine
disturbs it little: `million samples/s` is what one core does.

From the rate of a core follows how long a recovery would take with more samples and more cores: it
makes four passes with exact labels (standardisation, order 2, order 4, judgement). `forecast`
says so for 1e9 and 1e12.

`--recovery` writes so many samples with noise (88 bytes each) and recovers the network from them:
in how many seconds, of the clock and of the processor, and with how much memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

import provenet as pn
from common import Record, machine, markdown_head, markdown_row, measured
from provenet.common.typing import Array, row_blocks
from provenet.common.words import duration
from provenet.data.checkpoint import Checkpoint
from provenet.data.files import open_samples, save_samples
from provenet.data.passes import Watch, one_blas_thread, watched
from provenet.data.standardisation import LinearSums
from provenet.moments.hermite import MomentRequest, estimate_moments
from provenet.moments.subspace import span_of_units

FEATURES, UNITS = 20, 10
FORMATS = (".npy", ".npz", ".h5", ".zarr", ".parquet")
CORES = (2, 64, 1024)
SAMPLES = (10**9, 10**12)
PROCESSES = (1, 2, 4)
NOISE, WRITTEN_AT_ONCE = 0.1, 500_000
Clock = Callable[[], float]


def make(samples: int) -> pn.ArraySource:
    """Samples in memory, inputs in float32."""
    rng = np.random.default_rng(0)
    network = pn.random_network(UNITS, FEATURES, bias_scale=1.5, rng=rng)
    X = rng.standard_normal((samples, FEATURES), dtype=np.float32)
    return pn.ArraySource(X, network(X))


def request(source: pn.Source) -> MomentRequest:
    """Order 4 in the span of the units."""
    s = source.standardisation()
    second = estimate_moments(source, MomentRequest(s, 2))
    span = span_of_units(second.tensors[2], second.errors[2], UNITS)
    return MomentRequest(s, 4, span.basis, span.quadratic)


def rate(
    source: pn.Source,
    run: Callable[[pn.Source], object],
    clock: Callable[[], float] = time.process_time,
    repeats: int = 3,
) -> float:
    """Samples a processor second of a pass, its best of several turns."""
    best = np.inf
    for _ in range(repeats):
        begin = clock()
        with one_blas_thread():
            run(source)
        best = min(best, clock() - begin)
    return source.size / best


def reading(source: pn.Source) -> object:
    """The least that a pass can do with samples."""
    return source.total(_labels)


def _labels(X: Array, y: Array) -> float:
    return float(X[:, 0].sum() + y.sum())


def on_disk(folder: Path, memory: pn.ArraySource) -> Iterator[tuple[str, pn.Source]]:
    """The same samples in every format."""
    for suffix in FORMATS:
        path = folder / f"samples{suffix}"
        labels = folder / "labels.npy" if suffix == ".npy" else None
        save_samples(path, memory.X, memory.y, labels)
        yield suffix, open_samples(path, labels)


@contextmanager
def on_cluster(source: pn.Source, processes: int) -> Iterator[tuple[pn.Source, Clock]]:
    """A file's samples on a cluster of this machine, and the processor time of all of it."""
    from distributed import LocalCluster, get_client

    from provenet.data.dask import DaskFiles, cluster

    with (
        LocalCluster(
            n_workers=processes,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
        ) as running,
        cluster(running.scheduler_address),
    ):
        client = get_client()
        yield (
            DaskFiles(source),
            lambda: time.process_time() + sum(client.run(time.process_time).values()),
        )


def with_checkpoint(source: pn.Source, path: Path) -> Callable[[], object]:
    """A pass that is written down after every stretch."""
    s = source.standardisation()
    term = partial(LinearSums.of, origin=s.mean, label_origin=s.label_mean)

    def run() -> object:
        path.unlink(missing_ok=True)
        with watched(Watch(source, lambda *_: None, Checkpoint(path, source, seconds=0))):
            return source.total(term)

    return run


def records(samples: int, folder: Path) -> Iterator[Record]:
    """Rates on disk and on the cluster beside that in memory, and the memory of a pass."""
    memory = make(samples)
    wanted = partial(estimate_moments, request=request(memory))
    here = rate(memory, wanted)
    size, unit = f"{FEATURES}, {UNITS}, {samples:.0e}", "million samples/s"
    for suffix, source in on_disk(folder, memory):
        found = rate(source, wanted)
        yield Record(f"{size}, {suffix}", found / 1e6, unit, "memory", here / 1e6)
    mapped = open_samples(folder / "samples.npy", folder / "labels.npy")
    yield Record(
        f"{size}, .npy, against reading alone",
        rate(mapped, wanted) / 1e6,
        unit,
        "reading",
        rate(mapped, reading) / 1e6,
    )
    for processes in PROCESSES:
        with on_cluster(mapped, processes) as (source, clock):
            rate(source, wanted, clock, 1)  # workers import what they need
            found = rate(source, wanted, clock)
        name = f"{size}, cluster of {processes}"
        yield Record(name, found / 1e6, unit, "memory", here / 1e6)
    yield from _costs(size, mapped, folder)


def _costs(size: str, mapped: pn.Source, folder: Path) -> Iterator[Record]:
    plain, kept = (
        min(measured(run)[1].seconds for _ in range(3))
        for run in (mapped.standardisation, with_checkpoint(mapped, folder / "checkpoint"))
    )
    yield Record(f"{size}, checkpoint after every stretch", kept, "s", "without", plain)
    _, cost = measured(lambda: estimate_moments(mapped, request(mapped)))
    if cost.memory is not None:
        bytes_on_disk = sum(f.stat().st_size for f in folder.glob("*.npy"))
        yield Record(
            f"{size}, memory of three passes", cost.memory, "MB", "file", bytes_on_disk / 1e6
        )


def run(quick: bool) -> list[Record]:
    """For the suite."""
    with tempfile.TemporaryDirectory() as folder:
        return list(records(5_000_000 if quick else 10_000_000, Path(folder)))


def forecast(rate_of_a_core: float) -> Iterator[str]:
    """Rows of a table: cores, and the time of four passes over 1e9 and 1e12 samples."""
    yield markdown_head(("cores", *(f"{n:.0e} samples" for n in SAMPLES)))
    for cores in CORES:
        times = (duration(4 * n / (cores * rate_of_a_core)) for n in SAMPLES)
        yield markdown_row((f"{cores:,}", *times))


def write_noisy(folder: Path, samples: int, seed: int) -> tuple[pn.Network, pn.Source]:
    """A network, and a file of its labels with noise."""
    rng = np.random.default_rng(seed)
    network = pn.random_network(UNITS, FEATURES, bias_scale=1.5, rng=rng)
    X = open_memmap(folder / "X.npy", "w+", np.float32, (samples, FEATURES))
    y = open_memmap(folder / "y.npy", "w+", np.float64, (samples,))
    for rows in row_blocks(samples, WRITTEN_AT_ONCE):
        X[rows] = rng.standard_normal((rows.stop - rows.start, FEATURES), dtype=np.float32)
        y[rows] = network(X[rows]) + NOISE * rng.standard_normal(rows.stop - rows.start)
    X.flush()
    y.flush()
    return network, open_samples(folder / "X.npy", folder / "y.npy")


def recovery(folder: Path, samples: int, seed: int) -> str:
    """One recovery from a file, in words."""
    network, source = write_noisy(folder, samples, seed)
    begin = time.process_time()
    result, cost = measured(lambda: pn.recover(source, rng=0))
    processor = time.process_time() - begin
    error = pn.parameter_error(result.network, network)
    memory = "" if cost.memory is None else f", {cost.memory:.0f} MB"
    return (
        f"{samples:.0e} samples, noise {NOISE}, seed {seed}: {result.status}, "
        f"{cost.seconds:.1f} s, {processor:.1f} s of the processor{memory}, "
        f"error {error:.1e}\n{result.timings}"
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where files are written, and removed")
    parser.add_argument("--recovery", action="store_true", help="from a file, with noise")
    parser.add_argument("--seed", type=int, default=0, help="of the network that is recovered")
    args = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    if args.recovery:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            print(recovery(Path(folder), args.samples, args.seed))
        return
    print(markdown_head(("pass", "value", "unit", "reference", "its value", "ratio")))
    here = None
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for found in records(args.samples, Path(folder)):
            figures = (f"{x:.3g}" for x in (found.value, found.reference_value, found.ratio))
            value, reference, ratio = figures
            cells = (found.name, value, found.unit, found.reference, reference, ratio)
            print(markdown_row(cells), flush=True)
            here = here or found.reference_value
    if here is not None:
        print("\n" + "\n".join(forecast(1e6 * here)))


if __name__ == "__main__":
    main()
