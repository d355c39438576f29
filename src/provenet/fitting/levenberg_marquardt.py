"""Least squares on samples: Levenberg-Marquardt with the linear parameters eliminated.

The equations stand in `normal_equations`; with many parameters a step is found by conjugate
gradients (`iterative_step`). Everything the data contribute is a sum over samples, so the same code
runs on any source. The matrix is summed in float32 while the residual is large: the gradient, in
float64, alone decides where the iteration ends.

Corrections of beta are always computed from the current residual, never beta itself anew: that is
why, without noise, the residual ends at machine precision although normal equations are solved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
from provenet.networks.activations import Activation

_FLOAT32_ABOVE = 1e-3
_ACCURACIES = (1e-4, 0.1)
"""Of an iterative step: as the sum of squares fell in the last one (Eisenstat and Walker 1996)."""
ITERATIVE_ABOVE = 600
"""With more nonlinear parameters than this, steps are found by conjugate gradients."""


@dataclass(frozen=True)
class Fit:
    """Where a refinement ended."""

    parameters: Parameters
    rss: float
    labels: int
    """Samples times outputs."""
    iterations: int
    reason: str
    """Why it ended: "zero", "converged", "stuck", "iterations" or "time"."""

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
    iterations: int = 60,
    tolerance: float = 1e-6,
    zero: float = 1e-15,
    damping: float = 1e-2,
    deadline: float = np.inf,
    part: Source | None = None,
) -> Fit:
    """Levenberg-Marquardt from the given parameters.

    `part` are samples drawn from the source from which curvature is estimated; all by default.

    Ends when the residual is below `zero * spread`, when an iteration lowers the sum of squares by
    less than the fraction `tolerance`, when no step lowers it, or when iterations or time are over.
    """
    n = source.labels
    start = parameters.normalised(activation)
    inputs = input_gram(source, start)
    current, rss = fit_linear_part(source, start, activation, passes=2, inputs=inputs)
    best = Fit(current, np.inf, n, 0, "iterations")
    for iteration in range(1, iterations + 1):
        step, new_rss = _prepare_step(source, current, activation, rss, spread, inputs, part)
        previous = best
        if new_rss >= previous.rss:
            return _ended(previous, iteration, "stuck")
        best = Fit(current, new_rss, n, iteration, "iterations")
        if best.rms <= zero * spread:
            return _ended(best, iteration, "zero")
        if previous.rss - new_rss <= tolerance * previous.rss < np.inf:
            return _ended(best, iteration, "converged")
        if working_time() > deadline:
            return _ended(best, iteration, "time")
        fallen = new_rss / previous.rss if iteration > 1 else 1.0
        accuracy = float(np.clip(fallen, *_ACCURACIES))
        trial, rss, damping = _try_steps(
            source, current, activation, step, new_rss, damping, accuracy, inputs
        )
        if trial is None:
            return _ended(best, iteration, "stuck")
        current = trial
    return best


def _prepare_step(
    source: Source,
    current: Parameters,
    activation: Activation,
    rss: float,
    spread: float,
    inputs: Array,
    part: Source | None,
) -> tuple[DenseStep | IterativeStep, float]:
    """What a step needs at the current point, and the sum of squares there, computed afresh."""
    if part is not None and current.theta.size <= ITERATIVE_ABOVE:
        equations = with_curvature_of(part, source, current, activation)
        return DenseStep(equations, current, 1e-6), equations.rss
    if current.theta.size > ITERATIVE_ABOVE:
        iterative = IterativeStep(source, current, activation, inputs=inputs)
        return iterative, iterative.rss
    single = np.sqrt(rss / source.labels) > _FLOAT32_ABOVE * spread
    equations = normal_equations(source, current, activation, np.float32 if single else np.float64)
    return DenseStep(equations, current, 1e-6 if single else 1e-12), equations.rss


def _ended(fit: Fit, iterations: int, reason: str) -> Fit:
    return Fit(fit.parameters, fit.rss, fit.labels, iterations, reason)


def _try_steps(
    source: Source,
    current: Parameters,
    activation: Activation,
    step: DenseStep | IterativeStep,
    rss: float,
    damping: float,
    accuracy: float,
    inputs: Array,
    attempts: int = 10,
) -> tuple[Parameters | None, float, float]:
    """The first damped step that lowers the sum of squares, its value, and the next damping."""
    for _ in range(attempts):
        move = step.solve(damping, accuracy)
        if move is not None:
            theta = current.theta - move.reshape(current.theta.shape)
            trial = Parameters(theta, current.beta).normalised(activation)
            trial, trial_rss = fit_linear_part(source, trial, activation, inputs=inputs)
            if trial_rss < rss:
                return trial, trial_rss, max(damping / 5, 1e-13)
        damping *= 4
    return None, rss, damping
