"""Least squares on samples: Levenberg-Marquardt with the linear parameters eliminated.

The equations stand in `normal_equations`; with many parameters a step is found by conjugate
gradients (`iterative_step`). Everything the data contribute is a sum over samples, so the same code
runs on any source. The matrix is summed in float32 while the residual is large: the gradient, in
float64, alone decides where the iteration ends.

Corrections of beta are always computed from the current residual, never beta itself anew: that is
why, without noise, the residual ends at machine precision although normal equations are solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from provenet.common.damped_steps import Damping, damped_steps
from provenet.common.ended import Ended
from provenet.common.typing import Array
from provenet.data.passes import working_time
from provenet.data.sources.base import Source
from provenet.data.sources.mapped import StandardisedSource
from provenet.fitting.iterative_step import IterativeStep, PassCurvature
from provenet.fitting.layered_equations import layered_step
from provenet.fitting.linearised import KeptSamples, Linearised
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.many_samples import GradientSums, sums_of_many
from provenet.fitting.model import Parameters
from provenet.fitting.normal_equations import (
    DampedStep,
    DenseStep,
    JointStep,
    NormalEquations,
    input_gram,
    normal_equations,
)
from provenet.fitting.output_layer import corrected, fit_linear_part
from provenet.fitting.scoring import Scoring
from provenet.fitting.tolerances import (
    ACCURACIES,
    BEYOND_THE_END,
    DENSE_IN_PASSES,
    DENSE_NEAR,
    FALLS_WELL,
    FLOAT32_ABOVE,
    ITERATIVE_ABOVE,
    LEAST_DAMPING,
    NEAR_ITERATIVE_ABOVE,
    RIDGE_DOUBLE,
    RIDGE_SINGLE,
    ROUNDING_ZERO,
    SATURATED_DAMPING,
    SMOOTH_ITERATIVE_ABOVE,
    STEPS,
    TOLERANCE,
)
from provenet.networks.activations import Activation
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class Fit:
    """Where a refinement ended."""

    parameters: Parameters
    rss: float
    """The sum of squares, or the deviance."""
    labels: int
    """Samples times outputs."""
    iterations: int
    ended: Ended

    @property
    def rms(self) -> float:
        """Root mean square residual."""
        return float(np.sqrt(self.rss / self.labels))


def refine(
    source: Source,
    parameters: Parameters,
    activation: Activation,
    *,
    spread: float,
    iterations: int = STEPS,
    further: int = 0,
    tolerance: float = TOLERANCE,
    zero: float = ROUNDING_ZERO,
    damping: float = Damping.first,
    largest: float = np.inf,
    deadline: float = np.inf,
    every: int | None = None,
    loss: Loss = SQUARES,
) -> Fit:
    """Levenberg-Marquardt from the given parameters.

    Of a great many standardised samples `every` so-manieth gives the curvature; else all do.
    Weights of a unit that is not positively homogeneous are kept at a norm of at most `largest`.

    Ends when the residual is below `zero * spread`, when an iteration lowers the sum of squares by
    less than the fraction `tolerance` or promises no more, when no step lowers it, or when
    iterations or time are over; after `iterations` there are `further` ones while each still lowers
    the sum well. Of class labels (`loss`) the deviance stands for the sum of squares (`scoring`).
    """
    start = parameters.normalised(activation).capped(activation, largest)
    model: _Model
    if loss is SQUARES:
        model = _model(source, start, activation, spread, every)
    else:
        model = Scoring(source, activation, loss)
    taken = 0

    def settled(before: float, point: _FitPoint) -> Ended | None:
        nonlocal taken
        taken += 1
        if np.sqrt(point.value / source.labels) <= zero * spread:
            return Ended.ZERO
        if before - point.value <= tolerance * before < np.inf:
            return point.solved
        if taken >= iterations and before - point.value <= FALLS_WELL * before:
            return Ended.OUT_OF_STEPS
        return Ended.OUT_OF_TIME if working_time() > deadline else None

    end = (zero * spread) ** 2 * source.labels
    point = _FitPoint(model, model.evaluate(start, passes=2), tolerance, largest, end)
    walk = damped_steps(point, settled, iterations + further - 1, Damping(first=damping))
    found = model.last_correction(walk.point.at, walk.point.value)
    return Fit(found.parameters, found.rss, source.labels, walk.steps + 1, walk.ended)


class _At(Protocol):
    """Units with their best beta, and the sum of squares that these leave, or a forecast of it."""

    @property
    def parameters(self) -> Parameters: ...

    @property
    def rss(self) -> float: ...


class _Steps(Protocol):
    """Damped steps from one point."""

    def solve(self, damping: float, accuracy: float) -> DampedStep | None:
        """The damped step, to a relative residual of `accuracy`; None if there is none."""


@dataclass
class _Deferred:
    """Steps from a point that is prepared when the first of them is asked for: from where an
    iteration ends there is none."""

    prepare: Callable[[], _Steps]

    @cached_property
    def _step(self) -> _Steps:
        return self.prepare()

    def solve(self, damping: float, accuracy: float) -> DampedStep | None:
        return self._step.solve(damping, accuracy)


class _Model(Protocol):
    """What is the same at every point of an iteration."""

    @property
    def activation(self) -> Activation: ...

    def evaluate(self, parameters: Parameters, passes: int = 1) -> _At:
        """The best beta for given units."""

    def step_from(self, at: Any) -> tuple[_Steps, float]:
        """What a step needs at a point, and the sum of squares there."""

    def last_correction(self, at: Any, rss: float) -> _At:
        """Where an iteration ended, its sum of squares known, beta as good as it can be."""


def _model(
    source: Source,
    start: Parameters,
    activation: Activation,
    spread: float,
    every: int | None,
) -> _Model:
    """Samples in memory are evaluated once a point; others are passed over."""
    kept = None
    if every is None and not start.lower:
        # The slopes of piecewise linear units are whole numbers: single precision has them exactly.
        dtype = np.float32 if activation.slope is not None else np.float64
        kept = KeptSamples.of(source, start, dtype)
    large = FLOAT32_ABOVE**2 * source.labels * spread**2
    if kept is not None:
        return _InMemory(kept, activation, large)
    inputs = input_gram(source, start)
    dense = not start.lower and start.theta.size <= DENSE_IN_PASSES
    if every is not None and dense and isinstance(source, StandardisedSource):
        return _OfManySamples(source, activation, inputs, every)
    return _InPasses(source, activation, large, inputs)


def _dense_up_to(activation: Activation, is_near: bool) -> int:
    """Nonlinear parameters up to which steps are dense: smooth units are ill-conditioned.

    Near zero all the more: conjugate gradients would crawl there.
    """
    if activation.slope is not None:
        return ITERATIVE_ABOVE
    return NEAR_ITERATIVE_ABOVE if is_near else SMOOTH_ITERATIVE_ABOVE


def _floor(activation: Activation) -> float:
    """Units that are not homogeneous saturate: they have hardly any effect, and must not run."""
    return LEAST_DAMPING if activation.degree is not None else SATURATED_DAMPING


@dataclass(frozen=True)
class _InMemory:
    """Samples that are kept: one evaluation a point."""

    samples: KeptSamples
    activation: Activation
    large: float
    """Sum of squares above which single precision is enough for a step."""

    def evaluate(self, parameters: Parameters, passes: int = 1) -> Linearised:
        return Linearised.at(self.samples, parameters, self.activation, passes)

    def step_from(self, at: Linearised) -> tuple[_Deferred, float]:
        """Nothing but the sum of squares is computed before a step is asked for."""
        return _Deferred(partial(self._step, at)), at.rss

    def _step(self, at: Linearised) -> DenseStep | IterativeStep:
        floor = _floor(self.activation)
        is_near = at.rss <= DENSE_NEAR**2 * self.large
        if at.parameters.theta.size > _dense_up_to(self.activation, is_near):
            return IterativeStep(at.curvature(floor))
        dtype, ridge = _precision(at.rss, self.large)
        return DenseStep.of(at.equations(dtype), at.parameters, ridge, floor)

    def last_correction(self, at: Linearised, rss: float) -> Linearised:
        """Corrections of beta by values in single precision leave some of it behind, which shows
        where little is left."""
        if rss > self.large:
            return at
        again = self.evaluate(at.parameters)
        return again if again.rss < rss else at


@dataclass(frozen=True)
class _Passed:
    """Units with their best beta from passes over the samples, and a forecast of what is left."""

    parameters: Parameters
    rss: float


@dataclass(frozen=True)
class _InPasses:
    """Samples that lie elsewhere."""

    source: Source
    activation: Activation
    large: float
    inputs: Array
    """`input_gram` of the source."""

    def evaluate(self, parameters: Parameters, passes: int = 1) -> _Passed:
        return _Passed(
            *fit_linear_part(self.source, parameters, self.activation, passes, self.inputs)
        )

    def step_from(self, at: _Passed) -> tuple[_Steps, float]:
        """The sum of squares is computed afresh."""
        source, activation, current = self.source, self.activation, at.parameters
        floor = _floor(activation)
        if current.lower:
            dtype, ridge = _precision(at.rss, self.large)
            return layered_step(source, current, activation, dtype, ridge)
        if current.theta.size > DENSE_IN_PASSES:
            curvature = PassCurvature(source, current, activation, self.inputs, floor)
            return IterativeStep(curvature), curvature.rss
        dtype, ridge = _precision(at.rss, self.large)
        equations = normal_equations(source, current, activation, dtype)
        return DenseStep.of(equations, current, ridge, floor), equations.rss

    def last_correction(self, at: _Passed, rss: float) -> _Passed:
        return _Passed(at.parameters, rss)


@dataclass(frozen=True)
class _Summed(_Passed):
    """The same, with the sums from which it was found and the parameters that these belong to."""

    sums: GradientSums
    hessian: Array
    before: Parameters


@dataclass(frozen=True)
class _OfManySamples:
    """Samples of which some give the curvature: one pass over all of them a point.

    It sums before beta is corrected: the gradient by units at the beta that is best for them would
    take a second pass. Beta is eliminated from it instead, by the matrix of some samples, which is
    off by a few per cent; so beta moves along with the units, and hardly has to be corrected.
    """

    source: StandardisedSource
    activation: Activation
    inputs: Array
    """`input_gram` of the source."""
    every: int

    def evaluate(self, parameters: Parameters, passes: int = 1) -> _Summed:
        """One pass, whatever is asked for: with noise one correction of beta is enough."""
        sums, hessian = sums_of_many(
            self.source, parameters, self.activation, self.inputs, self.every
        )
        return _Summed(*corrected(sums, parameters), sums, hessian, parameters)

    def step_from(self, at: _Summed) -> tuple[JointStep, float]:
        sums, floor = at.sums, _floor(self.activation)
        equations = NormalEquations(at.hessian, sums.theta_gradient, sums.gradient, sums.rss)
        return JointStep.of(equations, at.before, RIDGE_SINGLE, floor), at.rss

    def last_correction(self, at: _Summed, rss: float) -> _Summed:
        return at


def _precision(rss: float, large: float) -> tuple[type[np.floating], float]:
    """In which a Gauss-Newton matrix is summed, and the ridge that goes with it."""
    return (np.float32, RIDGE_SINGLE) if rss > large else (np.float64, RIDGE_DOUBLE)


@dataclass(frozen=True)
class _FitPoint:
    """Where an iteration is, on the way down."""

    model: _Model
    at: _At
    tolerance: float
    largest: float
    end: float
    """The sum of squares at which the iteration ends."""
    value: float = np.inf
    before: float = np.inf
    """The sum of squares one step before."""
    solved: Ended = Ended.CONVERGED
    """Whether the step that led here was solved: after one that was not, a small gain is no end."""
    step: _Steps | None = None

    @property
    def parameters(self) -> Parameters:
        return self.at.parameters

    def arrived(self) -> _FitPoint:
        step, rss = self.model.step_from(self.at)
        return replace(self, value=rss, step=step)

    def attempt(self, damping: float) -> _FitPoint | Ended | None:
        assert self.step is not None
        found = self.step.solve(damping, self._accuracy)
        if found is None:
            return None
        if found.promised <= self.tolerance * self.value:
            return found.ended
        activation = self.model.activation
        moved = self.parameters.moved(found.move, found.beta_move).normalised(activation)
        at = self.model.evaluate(moved.capped(activation, self.largest))
        return replace(self, at=at, value=at.rss, before=self.value, solved=found.ended, step=None)

    @property
    def _accuracy(self) -> float:
        """Of an iterative step: as the sum of squares fell, and no finer than the end asks for."""
        fallen = self.value / self.before if self.before < np.inf else 1.0
        asked = BEYOND_THE_END * np.sqrt(self.end / max(self.value, TINY))
        return float(np.clip(max(fallen, asked), *ACCURACIES))
