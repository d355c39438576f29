"""What every method is given: the options, the samples to fit and to hold out, limits, a progress
line."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from provenet.common.exceptions import NoAnswer
from provenet.common.progress import Stages
from provenet.common.typing import AnyArray, Array, Progress, row_blocks
from provenet.data.labels import LabelPrecision, label_precision
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource, Source
from provenet.data.standardisation import Standardisation
from provenet.fitting.search.problem import Problem, fitted_form
from provenet.moments.hermite import GaussianCheck, check_gaussian
from provenet.networks.activations import RELU, Activation


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    units: int | tuple[int, ...] | None = None
    """In all, or for each layer."""
    noise: float | None = None
    activation: Activation = RELU
    refine: bool | None = None
    """Whether to finish with least squares; None: unless faithful."""
    faithful: bool = False
    """Whether to run the paper's algorithm and nothing after it."""
    objective: str = "auto"
    threshold: float | None = None
    """Of the lowest layer's units."""
    order: int | None = None
    """l of ATV21: moments up to 2l + 2."""
    open_activation: bool = False
    """Whether the activation is to be found; `activation` is only the first to try then."""
    layers: int = 1
    """Number of hidden layers."""

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
    """Samples that no fit uses, in the user's coordinates."""
    held_out_rows: AnyArray
    """Their row numbers in the source; none if they were generated."""
    precision: LabelPrecision
    """How finely the labels drawn are written: those to fit, then those held out."""
    inputs: Array
    """All distinct inputs that were drawn, in the user's coordinates."""
    unseen: int
    """Number of distinct inputs that are held out."""
    gaussian: GaussianCheck
    options: Options
    rng: np.random.Generator
    progress: Progress
    started: float
    timings: dict[str, float] = field(default_factory=dict)

    # ---- options

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
    def faithful(self) -> bool:
        """Whether to run the paper's algorithm and nothing after it."""
        return self.options.faithful

    @property
    def refine(self) -> bool:
        """Whether to finish with least squares."""
        return not self.faithful if self.options.refine is None else self.options.refine

    # ---- samples

    @property
    def fitted_samples(self) -> ArraySource:
        """The samples to fit, in the user's coordinates."""
        samples = self.problem.samples
        return ArraySource(self.standardisation.undo(samples.X), samples.y)

    @property
    def drawn(self) -> ArraySource:
        """All samples drawn, standardised: those to fit, then those held out."""
        samples, held_out = self.problem.samples, self.held_out
        if self.unseen == 0:
            return samples
        X = np.concatenate([samples.X, self.standardisation.apply(held_out.X)])
        return ArraySource(X, np.concatenate([samples.y, held_out.y]))

    @cached_property
    def hidden_rows(self) -> AnyArray:
        """Row numbers of all samples whose inputs are held out, drawn or not."""
        source, held_out = self.source, row_keys(self.held_out.X)
        if not len(self.held_out_rows) or source.size == len(held_out) + self.problem.samples.size:
            return self.held_out_rows
        blocks = row_blocks(source.size)
        found = (np.isin(row_keys(source.rows(b.start, b.stop)[0]), held_out) for b in blocks)
        return np.flatnonzero(np.concatenate(list(found)))

    @property
    def spread(self) -> float:
        """Standard deviation of the labels."""
        return self.standardisation.label_spread

    # ---- the clock

    @property
    def out_of_time(self) -> bool:
        """Whether the budget is exhausted."""
        return self.problem.out_of_time

    @property
    def budget_used(self) -> float:
        """Fraction of the time budget that has passed."""
        total = self.problem.deadline - self.started
        return float(np.clip((working_time() - self.started) / total, 0.0, 1.0))

    def stage(self, name: str, message: str = "") -> AbstractContextManager[None]:
        """Time a stage, and report that it has begun."""
        return Stages(self.progress, self.timings).stage(name, message)

    # ---- the same recovery, but for something

    def with_options(self, **options: Any) -> Context:
        """With other options."""
        return replace(self, options=replace(self.options, **options))

    def with_problem(self, **changes: Any) -> Context:
        """With a problem that differs in something."""
        return replace(self, problem=replace(self.problem, **changes))

    def with_activation(self, activation: Activation) -> Context:
        """With units of a known activation, by the same clock."""
        fitted = fitted_form(activation, self.options.layers)
        known = self.with_options(activation=activation, open_activation=False)
        return known.with_problem(activation=fitted)

    def with_seconds(self, seconds: float = 3.0) -> Context:
        """With so much time at least, for the certificate, unless even that would be too late."""
        later = max(self.problem.deadline, working_time() + seconds)
        return self.with_problem(deadline=min(later, self.problem.latest))

    def with_held_out(self) -> Context:
        """With all samples that were drawn to fit, and some time."""
        return self.with_seconds().with_problem(samples=self.drawn)

    def within(self, seconds: float) -> Context:
        """With so much time from now on."""
        now = working_time()
        return replace(self.with_problem(deadline=now + seconds), started=now)

    def travelling(self, rng: np.random.Generator) -> Context:
        """What a search on another machine needs: the samples drawn and its own random numbers."""
        return replace(self, source=self.problem.samples, progress=_silent, timings={}, rng=rng)

    def on(self, source: Source) -> Context:
        """On other samples, such as repaired ones, by the same clock."""
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


def _silent(stage: str, fraction: float, message: str) -> None:
    """Progress that nobody follows."""


def row_keys(X: Array) -> Array:
    """A number for each row: equal for equal rows and, almost surely, only for these.

    Not a matrix product, which rounds the same row differently in different places.
    """
    factors = np.random.default_rng(0).standard_normal(X.shape[1])
    keys = np.empty(len(X))
    for rows in row_blocks(len(X)):
        keys[rows] = (X[rows] * factors).sum(axis=1)
    return keys


def samples_to_draw(features: int) -> int:
    """Samples for some hundred parameters, 50 a feature, and where units are as many as features
    five for each of their `features^2 / 2` weights, up to 160 MB."""
    of_many_units = min(2.5 * features**2, 2e7 / features)
    return max(20_000, 50 * features, int(of_many_units))


def prepare(
    source: Source,
    options: Options,
    standardisation: Standardisation,
    *,
    rng: np.random.Generator,
    progress: Progress,
    deadline: float,
    latest: float = np.inf,
    most_held_out: int = 20_000,
) -> Context:
    """Draw samples; fit nine tenths of the distinct inputs and hold out the rest."""
    started = working_time()
    drawn = source.draw(min(source.size, samples_to_draw(source.features)), rng)
    X, y = drawn.X, drawn.y
    _, first, group = np.unique(row_keys(X), return_index=True, return_inverse=True)
    # Repeated inputs are held out together: one that was fitted tells nothing about its copy.
    distinct = len(first)
    fewest = max(1, min(10, distinct // 3))
    count = int(np.clip(distinct // 10, fewest, most_held_out))
    held = np.isin(group, rng.permutation(distinct)[:count])
    precision = drawn.precision or label_precision(y)
    spread = standardisation.label_spread
    # No bad minimum leaves so little; coarser rounding is noise to the search.
    fine = precision.rms <= 1e-3 * spread
    problem = Problem(
        ArraySource(standardisation.apply(X[~held]), y[~held]),
        spread,
        deadline,
        fitted_form(options.activation, options.layers),
        precision.rms if fine else 0.0,
        layers=options.layers,
        latest=latest,
    )
    return Context(
        source=source,
        standardisation=standardisation,
        problem=problem,
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
