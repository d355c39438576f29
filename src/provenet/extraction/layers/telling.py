"""Points whose answers tell the parameters that are known worst.

With C the covariance of all parameters, for noise of size one, and d the derivatives of an answer,
asking for it makes C

    C - u u^T,    u = C d / sqrt(1 + d.C d),

so that parameter i, known worst, gains `(d.C e_i)^2 / (1 + d.C d)`. Of many points that with the
most is taken, as if it had been asked, then the next, until every row is known as well as wanted or
no point tells more. The worst parameters of several rows are served at once: with the derivatives D
of their answers C loses `U^T U`, `U = (1 + S)^-1/2 V^T D C`, where `D C D^T = V S V^T`. `d.C e_i`
is how an answer changes along a step of all parameters: no matrix of derivatives is formed. What
answers of all points are unsure by, `d.C d`, is the mean square of their changes along a few random
steps with covariance C; the bound of Cauchy and Schwarz by what parameter i gains mends the chance
in that.
What is left of a variance after too many orders of magnitude is rounding, and counts as nothing:
the next round forms the matrix anew.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.tolerances import (
    CHANCE_STEPS,
    ROUNDED_AWAY,
    ROWS_AT_ONCE,
    SEVERAL_BELOW,
    WORTH_AN_ANSWER,
)
from provenet.extraction.tolerances import TINIEST
from provenet.fitting.layered_newton import NearlyExact


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
    choice = _Choice(fit, X, weights, most, rng)
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
        self, fit: NearlyExact, X: Array, weights: Array, most: int, rng: np.random.Generator
    ) -> None:
        self.fit, self.X, self.weights = fit, X, weights
        self.C = fit.root.T @ fit.root
        self.rows, self.variance = fit.rows, np.diag(self.C).copy()
        self.least = ROUNDED_AWAY * self.variance
        outputs = len(fit.network.affine_maps[-1][0])
        self.U, self.told = np.empty((most * outputs, len(self.variance))), 0
        steps = rng.standard_normal((CHANCE_STEPS, len(fit.root))) @ fit.root
        self.unsure = np.mean(self._changes(steps) ** 2, axis=0)
        self.open = np.ones(int(self.rows.max()) + 1, dtype=bool)
        self.chosen = list[int]()

    def worst(self, wanted: float) -> AnyArray:
        """Of some rows, those known worst, the parameter known worst; none if all are known."""
        rows = np.bincount(self.rows, self.variance) * self.open
        poor = [row for row in np.argsort(-rows)[:ROWS_AT_ONCE] if rows[row] > wanted**2]
        found = [int(np.argmax(np.where(self.rows == row, self.variance, -1.0))) for row in poor]
        return np.array(found, dtype=int)

    def best_for(self, parameters: AnyArray) -> list[int]:
        """The points that tell them best; rows are left where that is too little.

        Where few rows are left and no point tells much of one, several are taken for it at once.
        """
        U, found, several = self.U[: self.told], list[int](), ROWS_AT_ONCE // len(parameters)
        spread = self.C[parameters] - U[:, parameters].T @ U
        for i, changes in zip(parameters, self._changes(spread), strict=True):
            moved, own = changes**2, float(self.variance[i])
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
        D, U = D.reshape(-1, len(self.variance)), self.U[: self.told]
        before = D @ self.C
        spread = before - (D @ U.T) @ U
        new = np.sum(spread * D, axis=1) > ROUNDED_AWAY * np.sum(before * D, axis=1)
        if not new.any():
            return
        size, V = np.linalg.eigh(spread[new] @ D[new].T)
        more = (V.T @ spread[new]) / np.sqrt(1 + np.maximum(size, 0.0))[:, None]
        self.U[self.told : self.told + len(more)], self.told = more, self.told + len(more)
        left = self.variance - np.sum(more**2, axis=0)
        self.variance = np.where(left > self.least, left, 0.0)
        self.unsure = np.maximum(self.unsure - np.sum(self._changes(more) ** 2, axis=0), 0.0)

    def _changes(self, steps: Array) -> Array:
        """Of the answers along some steps, to six digits: (steps, points, outputs)."""
        return np.asarray(self.weights[:, None] * self.fit.changes(self.X, steps, np.float32))
