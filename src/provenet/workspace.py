"""What every method is given: the samples in the forms it needs, limits, and a line to the user."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from provenet.certificate import GaussianCheck, check_gaussian
from provenet.moments import Standardisation
from provenet.networks import Network
from provenet.result import Progress
from provenet.search import Problem
from provenet.sources import ArraySource, Source
from provenet.typing import Array

_MOST_DRAWN = 20_000
_DRAWN_A_FEATURE = 50
_MOST_HELD_OUT = 20_000


@dataclass(frozen=True)
class Candidate:
    """A method's own answer: a network on standardised inputs, and why it has that many units."""

    network: Network
    width_evidence: str


@dataclass(frozen=True)
class Workspace:
    """One recovery: its data, its wishes and its clock."""

    source: Source
    standardisation: Standardisation
    problem: Problem
    """The samples to fit, standardised, in random order."""
    held_out: ArraySource
    """Samples that no fit sees, in the user's coordinates."""
    inputs: Array
    """All inputs drawn, in the user's coordinates, each once however often it is repeated."""
    unseen: int
    """How many different inputs are held out."""
    gaussian: GaussianCheck
    units: int | None
    noise: float | None
    refine: bool
    faithful: bool
    rng: np.random.Generator
    progress: Progress
    started: float
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def spread(self) -> float:
        """Standard deviation of the labels."""
        return self.standardisation.label_spread

    @property
    def out_of_time(self) -> bool:
        """Whether the budget is used up."""
        return self.problem.out_of_time

    @property
    def budget_used(self) -> float:
        """Fraction of the time budget that has passed."""
        total = self.problem.deadline - self.started
        return float(np.clip((time.monotonic() - self.started) / total, 0.0, 1.0))

    @contextmanager
    def stage(self, name: str, message: str = "") -> Iterator[None]:
        """Time a stage and tell the user that it has begun."""
        self.progress(name, -1.0, message)
        begin = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.monotonic() - begin


def row_keys(X: Array) -> Array:
    """A number a row, equal for equal rows and, but for chance, for these only.

    Not a matrix product, which rounds the same row differently in different places.
    """
    return np.asarray((X * np.random.default_rng(0).standard_normal(X.shape[1])).sum(axis=1))


def prepare(
    source: Source,
    *,
    units: int | None,
    noise: float | None,
    refine: bool,
    faithful: bool,
    rng: np.random.Generator,
    progress: Progress,
    budget: float,
    standardisation: Standardisation,
) -> Workspace:
    """Draw samples to fit and samples to hold out, and look at the inputs."""
    started = time.monotonic()
    n = min(source.size, max(_MOST_DRAWN, _DRAWN_A_FEATURE * source.features))
    X, y = source.draw(n, rng)
    _, first, group = np.unique(row_keys(X), return_index=True, return_inverse=True)
    # Repeated inputs are held out together: a sample that was fitted tells nothing about its twin.
    distinct = len(first)
    count = int(np.clip(distinct // 10, min(10, distinct // 3), _MOST_HELD_OUT))
    held = np.isin(group, rng.permutation(distinct)[:count])
    samples = ArraySource(standardisation.apply(X[~held]), y[~held])
    return Workspace(
        source=source,
        standardisation=standardisation,
        problem=Problem(samples, standardisation.label_spread, started + budget),
        held_out=ArraySource(X[held], y[held]),
        inputs=X[first],
        unseen=count,
        gaussian=check_gaussian(X, standardisation),
        units=units,
        noise=noise,
        refine=refine,
        faithful=faithful,
        rng=rng,
        progress=progress,
        started=started,
    )
