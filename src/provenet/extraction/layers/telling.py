"""Points whose answers tell the parameters that are known worst.

With C the covariance of all parameters, for noise of size one, and d the derivatives of an answer,
asking for it makes C

    C - u u^T,    u = C d / sqrt(1 + d.C d),

so that parameter i, known worst, gains `(d.C e_i)^2 / (1 + d.C d)`. Of many points that with the
most is taken, as if it had been asked, then the next, until every row is known as well as wanted or
no point tells more. The worst parameters of several rows are served at once. `d.C e_i`
is how an answer changes along a step of all parameters: no matrix of derivatives is formed. What
answers of all points are unsure by, `d.C d`, is the mean square of their changes along a few random
steps with covariance C; the bound of Cauchy and Schwarz by what parameter i gains mends the chance
in that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.near_exact import NearlyExact
from provenet.extraction.layers.tolerances import (
    CHANCE_STEPS,
    PARAMETERS_A_ROW,
    ROWS_AT_ONCE,
    SEVERAL_BELOW,
    WORTH_AN_ANSWER,
)
from provenet.extraction.tolerances import TINIEST


def most_telling(
    fit: NearlyExact,
    X: Array,
    weights: Array,
    wanted: float,
    most: int,
    rng: np.random.Generator,
    between: Callable[[], None] = lambda: None,
) -> list[int]:
    """Numbers of inputs to be asked, at most so many, for rows that are known worse than wanted.

    `weights` are those of their answers; `between` is called before each: it may raise.
    """
    choice = _Choice(fit, X, weights, rng)
    while len(choice.chosen) < most:
        between()
        worst = choice.worst(wanted)[: most - len(choice.chosen)]
        if len(worst) == 0:
            break
        choice.ask(choice.best_for(worst)[: most - len(choice.chosen)])
    return choice.chosen


class _Choice:
    """What is known once the points chosen so far are asked."""

    def __init__(
        self, fit: NearlyExact, X: Array, weights: Array, rng: np.random.Generator
    ) -> None:
        self.fit, self.X, self.weights = fit, X, weights
        self.covariance, self.rows = fit.covariance, fit.rows
        normals = rng.standard_normal((CHANCE_STEPS, len(self.rows)))
        self.unsure = np.mean(self._changes(self.covariance.draws(normals)) ** 2, axis=0)
        self.at_once = max(ROWS_AT_ONCE, len(self.rows) // PARAMETERS_A_ROW)
        self.open = np.ones(int(self.rows.max()) + 1, dtype=bool)
        self.chosen = list[int]()

    def worst(self, wanted: float) -> AnyArray:
        """Of some rows, those known worst, the parameter known worst; none if all are known."""
        variances = self.covariance.variances
        rows = np.bincount(self.rows, variances) * self.open
        poor = [row for row in np.argsort(-rows)[: self.at_once] if rows[row] > wanted**2]
        found = [int(np.argmax(np.where(self.rows == row, variances, -1.0))) for row in poor]
        return np.array(found, dtype=int)

    def best_for(self, parameters: AnyArray) -> list[int]:
        """The points that tell them best; rows are left where that is too little.

        Where few rows are left and no point tells much of one, several are taken for it at once.
        """
        found, several = list[int](), self.at_once // len(parameters)
        axes = np.zeros((len(parameters), len(self.rows)))
        axes[np.arange(len(parameters)), parameters] = 1.0
        steps = self.covariance.times(axes)
        for i, changes in zip(parameters, self._changes(steps), strict=True):
            moved, own = changes**2, float(self.covariance.variances[i])
            gain = (moved / (1 + np.maximum(self.unsure, moved / (own + TINIEST)))).sum(axis=1)
            gain[[*self.chosen, *found]] = 0.0
            best = np.argsort(-gain)[:several]
            best = best[:1] if gain[best[0]] > SEVERAL_BELOW * own else best
            found += best[gain[best] >= WORTH_AN_ANSWER * own].tolist()
            if gain[best[0]] < WORTH_AN_ANSWER * own:
                self.open[self.rows[i]] = False
        return found

    def ask(self, numbers: list[int]) -> None:
        """As if these points had been asked."""
        self.chosen += numbers
        if not numbers:
            return
        D = self.weights[numbers, None, None] * self.fit.derivatives(self.X[numbers])
        before = len(self.covariance.less)
        self.covariance = self.covariance.with_rows(D.reshape(-1, len(self.rows)))
        for told in self.covariance.less[before:]:
            less = np.sum(self._changes(told) ** 2, axis=0)
            self.unsure = np.maximum(self.unsure - less, 0.0)

    def _changes(self, steps: Array) -> Array:
        """Of the answers along some steps, to six digits: (steps, points, outputs)."""
        return np.asarray(self.weights[:, None] * self.fit.changes(self.X, steps, np.float32))
