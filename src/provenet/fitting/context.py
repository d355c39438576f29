"""What every method is given: the samples in the forms it needs, limits, and a line to the user."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.exceptions import NoAnswer
from provenet.common.progress import Stages
from provenet.common.typing import AnyArray, Array, Progress
from provenet.data.labels import LabelPrecision, label_precision
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource, Source
from provenet.data.standardisation import Standardisation
from provenet.fitting.losses import Loss
from provenet.fitting.search.problem import Problem, fitted_form
from provenet.fitting.tolerances import (
    DRAWN_A_FEATURE,
    DRAWN_A_SQUARE,
    FINE,
    MOST_HELD_OUT,
    MOST_NUMBERS_DRAWN,
    SAMPLES_DRAWN,
)
from provenet.moments.hermite import GaussianCheck, check_gaussian
from provenet.networks.activations import RELU, Activation


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    units: int | tuple[int, ...] | None = None
    """In all, or a layer."""
    noise: float | None = None
    activation: Activation = RELU
    refine: bool | None = None
    """None: unless faithful."""
    faithful: bool = False
    objective: str = "auto"
    threshold: float | None = None
    order: int | None = None
    open_activation: bool = False
    """Whether the activation is to be found; `activation` is only the first to try then."""
    layers: int = 1
    """Hidden layers."""

    @property
    def total_units(self) -> int | None:
        """Number of units of all layers."""
        return sum(self.units) if isinstance(self.units, tuple) else self.units


@dataclass(frozen=True)
class Context:
    """One recovery: its data, its options and its clock."""

    source: Source
    standardisation: Standardisation
    problem: Problem
    """The samples to fit, standardised, in random order."""
    held_out: ArraySource
    """Samples that no fit sees, in the user's coordinates."""
    held_out_rows: AnyArray
    """Their numbers in the source; none if they were made afresh."""
    precision: LabelPrecision
    """How finely the labels drawn are written: those to fit, then those held out."""
    inputs: Array
    """All inputs drawn, in the user's coordinates, each once however often it is repeated."""
    unseen: int
    """How many different inputs no fit sees."""
    gaussian: GaussianCheck
    options: Options
    rng: np.random.Generator
    progress: Progress
    started: float
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def units(self) -> int | None:
        """Number of units that was asked for, of all layers."""
        return self.options.total_units

    @property
    def noise(self) -> float | None:
        """Standard deviation of the label noise, if it was given."""
        return self.options.noise

    @property
    def activation(self) -> Activation:
        """Activation of the units."""
        return self.options.activation

    @property
    def refine(self) -> bool:
        """Whether to finish with least squares: as asked, or unless the paper's answer is."""
        return not self.faithful if self.options.refine is None else self.options.refine

    @property
    def faithful(self) -> bool:
        """Whether the paper's algorithm is to run, and nothing of ours in its place."""
        return self.options.faithful

    @property
    def objective(self) -> str:
        """Name of the objective to minimise."""
        return self.options.objective

    @property
    def threshold(self) -> float | None:
        """Threshold of the lowest layer's units, if it was given."""
        return self.options.threshold

    @property
    def order(self) -> int | None:
        """Order l of the decomposition of moments, if it was given."""
        return self.options.order

    @property
    def fitted_samples(self) -> ArraySource:
        """The samples to fit, in the user's coordinates."""
        samples = self.problem.samples
        return ArraySource(self.standardisation.undo(samples.X), samples.y)

    @cached_property
    def hidden_rows(self) -> AnyArray:
        """Numbers of all samples whose inputs are held out, their twins that were not drawn too."""
        source, held_out = self.source, row_keys(self.held_out.X)
        if not len(self.held_out_rows) or source.size == len(held_out) + self.problem.samples.size:
            return self.held_out_rows
        blocks = row_blocks(source.size)
        found = (np.isin(row_keys(source.rows(b.start, b.stop)[0]), held_out) for b in blocks)
        return np.flatnonzero(np.concatenate(list(found)))

    @property
    def drawn(self) -> ArraySource:
        """All samples drawn, standardised: those to fit, then those held out."""
        samples, held_out = self.problem.samples, self.held_out
        if self.unseen == 0:
            return samples
        X = np.concatenate([samples.X, self.standardisation.apply(held_out.X)])
        return ArraySource(X, np.concatenate([samples.y, held_out.y]))

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
        return float(np.clip((working_time() - self.started) / total, 0.0, 1.0))

    def with_options(self, **options: Any) -> Context:
        """The same recovery with other options."""
        return replace(self, options=replace(self.options, **options))

    def with_activation(self, activation: Activation) -> Context:
        """The same recovery, by the same clock, of units whose activation is this one."""
        fitted = fitted_form(activation, self.options.layers)
        problem = replace(self.problem, activation=fitted)
        known = self.with_options(activation=activation, open_activation=False)
        return replace(known, problem=problem)

    def with_loss(self, loss: Loss) -> Context:
        """The same recovery of labels that are told by another loss."""
        return replace(self, problem=replace(self.problem, loss=loss))

    def with_seconds(self, seconds: float = 3.0) -> Context:
        """The same recovery with so much time at least, unless even that would be too late.

        For what is part of the certificate.
        """
        later = max(self.problem.deadline, working_time() + seconds)
        return replace(
            self, problem=replace(self.problem, deadline=min(later, self.problem.latest))
        )

    def with_held_out(self) -> Context:
        """The same recovery, its samples to fit being all that were drawn; it has some time."""
        some = self.with_seconds()
        return replace(some, problem=replace(some.problem, samples=self.drawn))

    def fitting_all(self) -> Context:
        """The same recovery, all samples being there to fit: none is unseen."""
        return replace(self, problem=replace(self.problem, samples=self.drawn), unseen=0)

    def on(self, source: Source) -> Context:
        """The same recovery on other samples, such as repaired ones, by the same clock."""
        standardisation = source.standardisation()
        if standardisation.label_spread == 0:
            raise NoAnswer(
                "Most labels are the same, and without the others nothing is left to explain: take "
                "samples on which more of them differ."
            )
        other = prepare(
            source,
            self.options,
            standardisation,
            rng=self.rng,
            progress=self.progress,
            deadline=self.problem.deadline,
        )
        return replace(other, started=self.started, timings=self.timings)

    def travelling(self, rng: np.random.Generator) -> Context:
        """What a search elsewhere needs: the samples drawn, and random numbers of its own.

        Its clock is the one there: `within` sets it.
        """
        return replace(self, source=self.problem.samples, progress=_unheard, timings={}, rng=rng)

    @property
    def seconds_left(self) -> float:
        """Until the budget is used up."""
        return self.problem.deadline - working_time()

    def within(self, seconds: float) -> Context:
        """The same recovery with so much time from now on."""
        now = working_time()
        return replace(self, problem=replace(self.problem, deadline=now + seconds), started=now)

    def stage(self, name: str, message: str = "") -> AbstractContextManager[None]:
        """Time a stage and tell the user that it has begun."""
        return Stages(self.progress, self.timings).stage(name, message)


def _unheard(stage: str, fraction: float, message: str) -> None:
    """Progress where there is nobody to be told."""


def row_keys(X: Array) -> Array:
    """A number a row, equal for equal rows and, but for chance, for these only.

    Not a matrix product, which rounds the same row differently in different places.
    """
    by = np.random.default_rng(0).standard_normal(X.shape[1])
    keys = np.empty(len(X))
    for rows in row_blocks(len(X)):
        keys[rows] = (X[rows] * by).sum(axis=1)
    return keys


def _enough(features: int) -> int:
    """Samples that are drawn, if there are so many."""
    of_many_units = min(DRAWN_A_SQUARE * features**2, MOST_NUMBERS_DRAWN / features)
    return max(SAMPLES_DRAWN, DRAWN_A_FEATURE * features, int(of_many_units))


def prepare(
    source: Source,
    options: Options,
    standardisation: Standardisation,
    *,
    rng: np.random.Generator,
    progress: Progress,
    deadline: float,
    latest: float = np.inf,
) -> Context:
    """Draw samples to fit and samples to hold out, and look at the inputs."""
    started = working_time()
    drawn = source.draw(min(source.size, _enough(source.features)), rng)
    X, y = drawn.X, drawn.y
    _, first, group = np.unique(row_keys(X), return_index=True, return_inverse=True)
    # Repeated inputs are held out together: a sample that was fitted tells nothing about its twin.
    distinct = len(first)
    fewest = max(1, min(10, distinct // 3))  # a check needs a sample
    count = int(np.clip(distinct // 10, fewest, MOST_HELD_OUT))
    held = np.isin(group, rng.permutation(distinct)[:count])
    samples = ArraySource(standardisation.apply(X[~held]), y[~held])
    fitted = fitted_form(options.activation, options.layers)
    precision = drawn.precision or label_precision(y)
    spread = standardisation.label_spread
    rounding = precision.rms
    fine = rounding <= FINE * spread
    return Context(
        source=source,
        standardisation=standardisation,
        problem=Problem(
            samples,
            spread,
            deadline,
            fitted,
            rounding if fine else 0.0,
            layers=options.layers,
            latest=latest,
        ),
        held_out=ArraySource(X[held], y[held]),
        held_out_rows=np.empty(0, int) if drawn.rows is None else drawn.rows[held],
        precision=precision.of(np.argsort(held, kind="stable")),
        inputs=X if distinct == len(X) else X[first],
        unseen=count,
        gaussian=check_gaussian(X, standardisation),
        options=options,
        rng=rng,
        progress=progress,
        started=started,
    )
