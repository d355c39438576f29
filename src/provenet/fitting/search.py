"""Search for units by expanding, swapping and pruning: no theorem, but any inputs and few samples.

The model is `sum_i beta_i |w_i.x + b_i| + v.x + c`, with several outputs beta_i, v and c one an
output. With absolute values and a free linear part a
unit and its opposite are the same thing, which removes the sign barrier of ordinary training; a few
units more than needed remove most bad minima of the rest. What bad minima remain are left by
swapping: the least useful units make room for those that best explain what is left (chosen from a
random pool by the drop of the residual that each would bring), and Levenberg-Marquardt runs again.

A chain starts narrow and swaps; when swaps no longer help it grows by about a third. It ends with a
residual of zero, and is then pruned to the smallest width that keeps it zero; or, with noise, where
more units no longer lower Schwarz's criterion `n log(rss) + p log(n)`, its second term taken at
three quarters, and is pruned by the same criterion. (The plain F-test is too mild here: a new unit
is the best of many that were tried.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.data.passes import working_time
from provenet.data.sources.arrays import ArraySource
from provenet.fitting.levenberg_marquardt import Fit, fit_linear_part, refine
from provenet.fitting.normal_equations import linear_part, solve_scaled, without_each_unit
from provenet.fitting.parameters import Parameters, model_features
from provenet.fitting.residuals import ROUNDED
from provenet.networks.activations import ABS, Activation

ZERO = 1e-9
"""A residual below this fraction of the labels' spread counts as zero during the search."""
_NEAR_ZERO = 1e-4
_PRICE_OF_GROWTH = 0.75
"""Share of Schwarz's price of a parameter that growth must earn: one of many units explains little
as long as the others are missing."""
_POOL = 400
_POOL_ROWS = 3000
_SWAP_TOLERANCE = 1e-3
_SWAP_ITERATIONS = 30
_WORTHWHILE = 0.8
_FEWEST_ROWS = 300
_ROWS_A_FEATURE = 15
_ROWS_A_PARAMETER = 5
_PRUNE_ITERATIONS = 8
_PRUNE_CANDIDATES = 3


@dataclass(frozen=True)
class Problem:
    """Standardised samples in memory and the limits of the search."""

    samples: ArraySource
    spread: float
    deadline: float = np.inf
    activation: Activation = ABS
    """Of the model that is fitted; absolute values stand for every piecewise linear one."""
    label_rounding: float = 0.0
    """Root mean square rounding error of labels in single precision; 0 in double."""

    @property
    def zero(self) -> float:
        """A root mean square residual below this counts as zero."""
        return max(ZERO * self.spread, ROUNDED * self.label_rounding)

    @property
    def outputs(self) -> int:
        """Number of outputs, 1 for plain labels."""
        return self.samples.outputs or 1

    @property
    def widest(self) -> int:
        """The most units whose parameters the samples determine with something to spare."""
        n, d, o = self.samples.size, self.samples.features, self.outputs
        return max(1, min(int((0.75 * n - d - 1) * o / (d + o)), n // 2 - d - 1))

    def parameters(self, units: int) -> int:
        """Free parameters: direction, bias and weights of each unit, and the linear part."""
        d, o = self.samples.features, self.outputs
        return units * (d + o) + (d + 1) * o

    def criterion(self, fit: Fit, price: float = 1.0) -> float:
        """Schwarz's criterion, its price of a parameter multiplied by `price`."""
        n = self.samples.labels
        floor = (1e-15 * self.spread) ** 2 * n
        p = self.parameters(fit.parameters.units)
        return float(n * np.log(max(fit.rss, floor)) + price * p * np.log(n))

    def is_zero(self, fit: Fit) -> bool:
        """Whether a fit leaves nothing."""
        return fit.rms <= self.zero

    def is_near_zero(self, fit: Fit) -> bool:
        """Whether a fit is on its way to zero, but not there: bad minima leave far more."""
        return self.zero < fit.rms <= _NEAR_ZERO * self.spread

    def for_width(self, units: int) -> Problem:
        """The same problem on as many samples as a model of this width needs."""
        d = self.samples.features
        # Each linear piece of the function needs its own samples, however many the outputs.
        a_piece = _ROWS_A_FEATURE * (d + 1) if self.outputs > 1 else 0
        wanted = _ROWS_A_PARAMETER * self.parameters(units) // self.outputs
        rows = max(_FEWEST_ROWS, wanted, a_piece, _ROWS_A_PARAMETER * (units + d + 1))
        if rows >= self.samples.size:
            return self
        return replace(self, samples=ArraySource(self.samples.X[:rows], self.samples.y[:rows]))

    @property
    def out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return working_time() > self.deadline

    def refine(self, parameters: Parameters, iterations: int, tolerance: float) -> Fit:
        """Levenberg-Marquardt within the deadline; without units the linear part alone."""
        if parameters.units == 0:
            fitted, rss = fit_linear_part(self.samples, parameters, self.activation, passes=2)
            return Fit(fitted, rss, self.samples.labels, 0, "converged")
        return refine(
            self.samples,
            parameters,
            self.activation,
            spread=self.spread,
            iterations=iterations,
            tolerance=tolerance,
            deadline=self.deadline,
        )

    def refine_in_steps(
        self, parameters: Parameters, iterations: int, tolerance: float, last: int
    ) -> Fit:
        """Refine on as many samples as the width needs, then by `last` iterations on all."""
        part = self.for_width(parameters.units)
        fit = part.refine(parameters, iterations, tolerance)
        return fit if part is self else self.refine(fit.parameters, last, tolerance)


def random_units(
    X: Array, units: int, rng: np.random.Generator, chances: Array | None = None
) -> Array:
    """Units with random directions whose kinks pass through random samples."""
    weights = rng.standard_normal((units, X.shape[1]))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    through = X[rng.choice(len(X), size=units, p=chances)]
    return np.column_stack([weights, -np.einsum("ud,ud->u", weights, through)])


def promising_units(
    problem: Problem, parameters: Parameters, units: int, rng: np.random.Generator
) -> Array:
    """Of a random pool, the units that would lower the residual most, chosen one after another."""
    X, y = problem.samples.rows(0, min(_POOL_ROWS, problem.samples.size))
    _, Phi = model_features(parameters, problem.activation, X)
    gram = Phi.T @ Phi
    Y = y.reshape(len(y), -1)
    left = np.sum((Y - Phi @ solve_scaled(gram, Phi.T @ Y, 1e-10)) ** 2, axis=1)
    # Half of the kinks through any samples, half through those that are explained worst.
    pool = np.vstack(
        [
            random_units(X, _POOL // 2, rng),
            random_units(X, _POOL // 2, rng, left / left.sum() if left.sum() > 0 else None),
        ]
    )
    F = problem.activation(X @ pool[:, :-1].T + pool[:, -1])
    target = np.column_stack([F, Y])
    target -= Phi @ solve_scaled(gram, Phi.T @ target, 1e-10)
    F, r = target[:, :_POOL], target[:, _POOL:]
    chosen: list[int] = []
    for _ in range(units):
        energy = np.einsum("nf,nf->f", F, F)
        gain = np.sum((r.T @ F) ** 2, axis=0) / (energy + 1e-9 * energy.max() + 1e-300)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        unit = F[:, best] / np.sqrt(energy[best] + 1e-300)
        F = F - np.outer(unit, unit @ F)
        r = r - np.outer(unit, unit @ r)
    return pool[chosen]


def start(problem: Problem, theta: Array) -> Fit:
    """Refine from the given units, the linear part unknown."""
    rows = len(theta) + problem.samples.features + 1
    beta = np.zeros((rows, *problem.samples.label_shape))
    return problem.refine(Parameters(theta, beta), _SWAP_ITERATIONS, _SWAP_TOLERANCE)


def usefulness(problem: Problem, parameters: Parameters) -> Array:
    """How much the sum of squares would grow without each unit, the rest refitted linearly."""
    return without_each_unit(
        linear_part(problem.samples, parameters, problem.activation), parameters
    )


def with_new_units(
    problem: Problem, fit: Fit, drop: AnyArray, add: int, rng: np.random.Generator
) -> Fit:
    """Drop some units, add promising ones, refine."""
    kept = np.ones(fit.parameters.units, dtype=bool)
    kept[drop] = False
    old = fit.parameters.keep(kept)
    widened = old.widened(promising_units(problem, old, add, rng))
    return problem.refine(widened, _SWAP_ITERATIONS, _SWAP_TOLERANCE)


def swap(problem: Problem, fit: Fit, failures: int, rng: np.random.Generator) -> Fit:
    """Exchange a few of the least useful units; the more failures, the wider the choice."""
    m = fit.parameters.units
    count = min(m, max(2, m // 8))
    order = np.argsort(usefulness(problem, fit.parameters))
    drop = rng.permutation(order[: min(m, 2 * count + failures)])[:count]
    return with_new_units(problem, fit, drop, count, rng)


def expand(
    problem: Problem, fit: Fit, swaps: int, widest: int, rng: np.random.Generator
) -> Iterator[Fit]:
    """Swap and grow until the residual is zero, more units no longer pay, or time is over.

    Yields the best fit so far after each step; the last one is the result.
    """
    scores: dict[int, float] = {}
    while True:
        width = fit.parameters.units
        part = problem.for_width(width)
        failures = 0
        while not part.is_zero(fit) and failures < swaps and not problem.out_of_time:
            trial = swap(part, fit, failures, rng)
            failures = 0 if trial.rss < _WORTHWHILE * fit.rss else failures + 1
            fit = min(fit, trial, key=lambda f: f.rss)
            yield fit
        if part is not problem:
            last = part.is_zero(fit)
            fit = problem.refine(fit.parameters, _SWAP_ITERATIONS if last else 1, _SWAP_TOLERANCE)
        scores[width] = problem.criterion(fit, _PRICE_OF_GROWTH)
        yield fit
        best_width = min(scores, key=lambda w: scores[w])
        pays = width <= 1.4 * best_width + 1
        if problem.is_zero(fit) or problem.out_of_time or not pays or width >= widest:
            return
        add = min(1 + width // 3, widest - width)
        nothing = np.empty(0, dtype=int)
        fit = with_new_units(problem.for_width(width + add), fit, nothing, add, rng)


def prune(problem: Problem, fit: Fit, most: int | None = None) -> tuple[Fit, Fit | None]:
    """Drop units while that costs nothing, and until at most `most` are left, refining in between.

    Returns the narrowest good fit, and the best fit with one unit fewer that was rejected.
    """
    # A redundant unit leaves a residual near zero behind after a few steps, or never.
    iterations = _PRUNE_ITERATIONS if problem.is_zero(fit) else _SWAP_ITERATIONS
    while fit.parameters.units > 0:
        too_many = most is not None and fit.parameters.units > most
        best: Fit | None = None
        for drop in _choices_to_drop(problem, fit):
            kept = np.ones(fit.parameters.units, dtype=bool)
            kept[drop] = False
            trial = problem.refine_in_steps(
                fit.parameters.keep(kept), iterations, _SWAP_TOLERANCE / 10, last=4
            )
            if problem.is_zero(fit) and problem.is_near_zero(trial):
                trial = problem.refine(trial.parameters, _SWAP_ITERATIONS, _SWAP_TOLERANCE)
            if _as_good(problem, trial, fit):
                best = trial
                break
            if len(drop) == 1 and (best is None or trial.rss < best.rss):
                best = trial
        if best is None or not (too_many or _as_good(problem, best, fit)):
            return fit, best
        fit = best
    return fit, None


def _choices_to_drop(problem: Problem, fit: Fit) -> Iterator[AnyArray]:
    """Half of the units that look useless, all at once; then the least useful ones singly."""
    cost = usefulness(problem, fit.parameters)
    order = np.argsort(cost)
    n, a_unit = problem.samples.labels, problem.samples.features + problem.outputs
    if problem.is_zero(fit):
        useless = cost < n * problem.zero**2
    else:
        useless = n * np.log1p(cost / fit.rss) < a_unit * np.log(n)
    several = int(useless.sum()) // 2
    if several > 1:
        yield order[:several]
    for j in order[:_PRUNE_CANDIDATES]:
        yield np.array([j])


def _as_good(problem: Problem, narrower: Fit, fit: Fit) -> bool:
    if problem.is_zero(fit):
        return problem.is_zero(narrower)
    return problem.criterion(narrower) < problem.criterion(fit)
