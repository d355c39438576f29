"""What the benchmarks share: problems with known answers, fresh processes, time and memory."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import scipy
import sklearn

import provenet as pn
from provenet.certify.certificate import rarer_side
from provenet.certify.deep import switching_sides
from provenet.common.typing import AnyArray, Array
from provenet.data.passes import workers
from provenet.fitting.covariance import covariance
from provenet.fitting.least_squares import Dense, Samples
from provenet.fitting.model import Parameters

P = ParamSpec("P")
T = TypeVar("T")

BIAS_SCALE = 1.5
_PLENTY = 20
"""So many samples a parameter determine every parameter."""
_SINGULAR = 1e-12

INPUTS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "gauss": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-1.5, 1.5, shape),
    "student-t": lambda rng, shape: rng.standard_t(4, shape),
    "integers": lambda rng, shape: rng.integers(-2, 3, shape).astype(float),
    "cube": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "student-t3": lambda rng, shape: rng.standard_t(3, shape),
    "lumpy": lambda rng, shape: rng.integers(-3, 6, shape) * rng.choice([1.0, 20.0], (shape[0], 1)),
}
"""Kinds of inputs by name. Those of "lumpy" are neither centred nor alike, and often parallel."""


@dataclass(frozen=True)
class Problem:
    """A hidden network, samples of it, and fresh samples that no solver sees."""

    truth: pn.Network | Any
    """A `Network`, or a `DeepNetwork`."""
    X: Array
    y: Array
    fresh: Array
    spoilt: AnyArray | None = None
    """Which labels are not those of the network, where that is not all or none of them."""

    def relative_residual(self, network: pn.Network | pn.DeepNetwork) -> float:
        """Root mean square error on the fresh samples over the spread of their labels."""
        labels = self.truth(self.fresh)
        return float(np.sqrt(np.mean((network(self.fresh) - labels) ** 2)) / np.std(labels))

    @property
    def identifiable(self) -> bool:
        """Whether every unit has more samples than features on both sides of its kink, if any."""
        if self.truth.activation.smooth:
            return True
        if isinstance(self.truth, pn.DeepNetwork):
            sides = switching_sides(self.truth.normalised(), self.X)
            widths = (self.truth.features, *self.truth.widths)
            return all(np.all(side > below) for side, below in zip(sides, widths, strict=False))
        return bool(np.all(rarer_side(self.truth, self.X) > self.truth.features))

    @property
    def determined(self) -> bool:
        """Whether no other networks near the truth fit the samples: a Jacobian of full rank.

        Weaker than `identifiable`: a single unit that is hardly ever off is known by what the
        others leave of the linear part.
        """
        if isinstance(self.truth, pn.DeepNetwork):
            samples = pn.ArraySource(self.X, self.y)
            return covariance(samples, self.truth.normalised()).rank_deficiency == 0
        truth = Parameters.of(self.truth)
        units = truth.units
        if len(self.y) > _PLENTY * (truth.theta.size + 1):
            return True
        source = pn.ArraySource(self.X, self.y)
        point = Samples.of(source, truth, self.truth.activation).linearised(truth)
        at_truth = Dense(point, point.gradient, None, single=False)
        scale = np.sqrt(at_truth.D)
        values = np.linalg.eigvalsh(at_truth.S / scale / scale[:, None])
        # The scale of a homogeneous unit is a convention, not a parameter.
        conventions = 0 if self.truth.activation.degree is None else units
        return bool(np.sum(values > _SINGULAR * values[-1]) >= truth.theta.size - conventions)


def random_problem(
    features: int, units: int, samples: int, inputs: str, noise: float, seed: int
) -> Problem:
    """A network of the table: unit weights, |a| in [0.5, 1.5], b in [-1.5, 1.5], output bias."""
    network = pn.random_network(units, features, bias_scale=BIAS_SCALE, rng=seed)
    rng = np.random.default_rng([seed, features, units, samples])
    truth = network.replace(output_bias=rng.uniform(-1.0, 1.0))
    X = INPUTS[inputs](rng, (samples, features))
    y = truth(X)
    if noise:
        y += noise * rng.standard_normal(samples)
    return Problem(truth, X, y, INPUTS[inputs](rng, (5000, features)))


@dataclass(frozen=True)
class Cost:
    """Seconds, and memory in MB beyond what was held before (None where it cannot be measured)."""

    seconds: float
    memory: float | None


def measured(call: Callable[[], T]) -> tuple[T, Cost]:
    """Run `call`; its peak memory is the high-water mark, reset before, less the memory held then.

    Exact only in a fresh process: a used heap hides what is taken from it again.
    """
    before = _reset_high_water()
    begin = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - begin
    after = _process_memory("VmHWM")
    known = before is not None and after is not None
    return result, Cost(seconds, after - before if known else None)  # type: ignore[operator]


def _reset_high_water() -> float | None:
    """Set the kernel's peak-memory mark of this process to its present memory (Linux), in MB."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _process_memory("VmRSS")


def _process_memory(field: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), None)


def in_fresh_process(task: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a module-level function in a new process and return its result.

    The process is forked from one that has only imported provenet, so its memory starts small.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["provenet"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(task, *args, **kwargs).result()


@dataclass(frozen=True)
class Record:
    """One figure of a benchmark beside a reference that was measured in the same run."""

    name: str
    value: float | None
    """None: infinite, such as the time that a solver needs which never succeeds."""
    unit: str
    reference: str
    reference_value: float | None
    details: Mapping[str, Any] = field(default_factory=dict)
    """What pictures need to know."""

    @property
    def ratio(self) -> float | None:
        """The figure over its reference, where both are finite and the reference is not zero."""
        if self.value is None or not self.reference_value:
            return None
        return self.value / self.reference_value

    def content(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "ratio": self.ratio}

    def __post_init__(self) -> None:
        """Refuse what JSON cannot hold."""
        for value in (self.value, self.reference_value):
            if value is not None and not np.isfinite(value):
                raise ValueError(f"{self.name}: {value} is no figure (see `finite`).")


@dataclass(frozen=True)
class Line:
    """A row of a table that a part of the suite has of its own."""

    titles: tuple[str, ...]
    cells: tuple[str, ...]


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return float(value) if np.isfinite(value) else None


def markdown_row(cells: Iterable[object]) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def markdown_head(titles: Iterable[str]) -> str:
    """The two first lines of a Markdown table."""
    titles = list(titles)
    return f"{markdown_row(titles)}\n{markdown_row('---' for _ in titles)}"


def machine() -> dict[str, Any]:
    """Where a result was measured."""
    return {
        "processor": _processor(),
        "cores": workers(),
        "load at start": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "provenet": pn.__version__,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
