"""Least squares on samples: Levenberg-Marquardt with the linear parameters eliminated.

The equations stand in `normal_equations`; with many parameters a step is found by conjugate
gradients (`iterative_step`). Everything the data contribute is a sum over samples, so the same code
runs on any source. The matrix is summed in float32 while the residual is large: the gradient, in
float64, alone decides where the iteration ends.

Corrections of beta are always computed from the current residual, never beta itself anew: that is
why, without noise, the residual ends at machine precision although normal equations are solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.damped_steps import Damping, damped_steps
from provenet.common.ended import Ended
from provenet.common.typing import Array
from provenet.data.passes import working_time
from provenet.data.sources.base import Source
from provenet.fitting.iterative_step import IterativeStep
from provenet.fitting.normal_equations import (
    DenseStep,
    input_gram,
    normal_equations,
    with_curvature_of,
)
from provenet.fitting.output_layer import fit_linear_part
from provenet.fitting.parameters import Parameters
from provenet.fitting.tolerances import (
    ACCURACIES,
    FLOAT32_ABOVE,
    ITERATIVE_ABOVE,
    RIDGE_DOUBLE,
    RIDGE_SINGLE,
    ROUNDING_ZERO,
    STEPS,
    TOLERANCE,
)
from provenet.networks.activations import Activation


@dataclass(frozen=True)
class Fit:
    """Where a refinement ended."""

    parameters: Parameters
    rss: float
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
    tolerance: float = TOLERANCE,
    zero: float = ROUNDING_ZERO,
    damping: float = Damping.first,
    deadline: float = np.inf,
    part: Source | None = None,
) -> Fit:
    """Levenberg-Marquardt from the given parameters.

    `part` are samples drawn from the source from which curvature is estimated; all by default.

    Ends when the residual is below `zero * spread`, when an iteration lowers the sum of squares by
    less than the fraction `tolerance`, when no step lowers it, or when iterations or time are over.
    """
    start = parameters.normalised(activation)
    model = _Model(source, activation, spread, input_gram(source, start), part)

    def settled(before: float, point: _FitPoint) -> Ended | None:
        if np.sqrt(point.value / source.labels) <= zero * spread:
            return Ended.ZERO
        if before - point.value <= tolerance * before < np.inf:
            return point.solved
        return Ended.OUT_OF_TIME if working_time() > deadline else None

    fitted, rss = model.best_output_layer(start, passes=2)
    point = _FitPoint(model, fitted, rss)
    walk = damped_steps(point, settled, iterations - 1, Damping(first=damping))
    found = walk.point
    return Fit(found.parameters, found.value, source.labels, walk.steps + 1, walk.ended)


@dataclass(frozen=True)
class _Model:
    """What is the same at every point of an iteration."""

    source: Source
    activation: Activation
    spread: float
    inputs: Array
    """`input_gram` of the source."""
    part: Source | None

    def best_output_layer(
        self, parameters: Parameters, passes: int = 1
    ) -> tuple[Parameters, float]:
        return fit_linear_part(self.source, parameters, self.activation, passes, self.inputs)

    def step_from(self, current: Parameters, rss: float) -> tuple[DenseStep | IterativeStep, float]:
        """What a step needs at a point, and the sum of squares there, computed afresh."""
        source, activation, part = self.source, self.activation, self.part
        if current.theta.size > ITERATIVE_ABOVE:
            iterative = IterativeStep(source, current, activation, inputs=self.inputs)
            return iterative, iterative.rss
        if part is not None:
            equations = with_curvature_of(part, source, current, activation)
            return DenseStep(equations, current, RIDGE_SINGLE), equations.rss
        single = np.sqrt(rss / source.labels) > FLOAT32_ABOVE * self.spread
        dtype, ridge = (np.float32, RIDGE_SINGLE) if single else (np.float64, RIDGE_DOUBLE)
        equations = normal_equations(source, current, activation, dtype)
        return DenseStep(equations, current, ridge), equations.rss


@dataclass(frozen=True)
class _FitPoint:
    """Parameters and their sum of squares, on the way down."""

    model: _Model
    parameters: Parameters
    value: float
    before: float = np.inf
    """The sum of squares one step before."""
    solved: Ended = Ended.CONVERGED
    """Whether the step that led here was solved: after one that was not, a small gain is no end."""
    step: DenseStep | IterativeStep | None = None

    def arrived(self) -> _FitPoint:
        step, rss = self.model.step_from(self.parameters, self.value)
        return replace(self, value=rss, step=step)

    def attempt(self, damping: float) -> _FitPoint | None:
        assert self.step is not None
        fallen = self.value / self.before if self.before < np.inf else 1.0
        found = self.step.solve(damping, float(np.clip(fallen, *ACCURACIES)))
        if found is None:
            return None
        theta = self.parameters.theta - found.move.reshape(self.parameters.theta.shape)
        moved = Parameters(theta, self.parameters.beta).normalised(self.model.activation)
        fitted, rss = self.model.best_output_layer(moved)
        return _FitPoint(self.model, fitted, rss, self.value, found.ended)
