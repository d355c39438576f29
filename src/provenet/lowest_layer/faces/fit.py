"""ReLU units by least squares, all at once: their bands cannot be made as thin as those of steps.

The model is that of `faces.model`. It is linear but for directions and thresholds, for which
Levenberg-Marquardt is run on what the linear part leaves (variable projection). Starts need only be
within some 15 degrees. If the top is a polynomial of low degree the minimum is zero, at the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from provenet.common.typing import Array
from provenet.lowest_layer.faces.model import (
    EXPLAINED,
    WIDTH,
    FaceModel,
    Inputs,
    Unit,
    solved,
)
from provenet.lowest_layer.faces.thin_bands import Peak
from provenet.lowest_layer.faces.tolerances import (
    DAMPING_TRIALS,
    FACE_FIT_ITERATIONS,
    FIT_CONVERGED,
    FIT_ROWS,
    LARGEST_STEP,
    MOST_FIT_ROWS,
)
from provenet.moments.subspace import complement

_USELESS = 1.02
"""A unit is dropped if the sum of squares without it is at most this much larger."""


class FaceFit:
    """A model with its linear part fitted."""

    def __init__(self, model: FaceModel, inputs: Inputs, y: Array) -> None:
        """Solve the normal equations."""
        self.model, self.inputs, self.y = model, inputs, y
        self.M = model.rows(inputs)
        self.G, self.b = self.M @ self.M.T, self.M @ y
        self.c = solved(self.G, self.b)
        self.residual = y - self.c @ self.M
        self.rss = float(self.residual @ self.residual)

    def negligible(self, rss: float) -> bool:
        """Whether a sum of squares is nothing beside that of the labels."""
        return bool(rss < (EXPLAINED * np.std(self.y)) ** 2 * len(self.y))

    def equations(self) -> tuple[Array, Array]:
        """Gauss-Newton for directions and thresholds: curvature and right-hand side.

        Variable projection: what the linear part can follow is taken off the Jacobian.
        """
        J = self._jacobian()
        MJ = self.M @ J.T
        return J @ J.T - MJ.T @ solved(self.G, MJ), J @ self.residual

    def _jacobian(self) -> Array:
        model, X = self.model, self.inputs.X
        parts = []
        for i, w in enumerate(model.W):
            slope = model.slope(i, self.inputs, self.c) * (X @ w > model.T[i])
            parts += [slope * (complement(w) @ X.T), -slope[None]]
        return np.concatenate(parts)

    def rss_without(self, i: int) -> float:
        """The sum of squares without unit i, the rest refitted linearly."""
        rest = ~self.model.owned(i)
        c = solved(self.G[np.ix_(rest, rest)], self.b[rest])
        residual = self.y - c @ self.M[rest]
        return float(residual @ residual)

    def units(self) -> list[Unit]:
        """The units with their standard errors."""
        if len(self.model.W) == 0:
            return []
        covariance = np.linalg.pinv(self.equations()[0]) * self.rss / len(self.y)
        errors = np.sqrt(np.maximum(np.diag(covariance), 0)).reshape(self.model.W.shape)
        return [
            Unit(Peak(w, t, 0.0, 1.0, WIDTH[2]), float(np.linalg.norm(e[:-1])), float(e[-1]))
            for w, t, e in zip(self.model.W, self.model.T.tolist(), errors, strict=True)
        ]


def _moved(model: FaceModel, step: Array) -> FaceModel:
    largest = np.maximum(np.max(np.abs(step), axis=1, keepdims=True), LARGEST_STEP)
    step = step * (LARGEST_STEP / largest)
    W = np.array([w + s[:-1] @ complement(w) for w, s in zip(model.W, step, strict=True)])
    norm = np.linalg.norm(W, axis=1)
    return replace(model, W=W / norm[:, None], T=(model.T + step[:, -1]) / norm)


def _least_squares(model: FaceModel, X: Array, y: Array, over: Callable[[], bool]) -> FaceFit:
    """Levenberg-Marquardt on directions and thresholds."""
    inputs = Inputs.of(X, model.degree)
    fit, damping = FaceFit(model, inputs, y), 1e-3
    for _ in range(FACE_FIT_ITERATIONS if len(model.W) else 0):
        curvature, right = fit.equations()
        before = fit.rss
        for _ in range(DAMPING_TRIALS):
            damped = curvature + np.diag(damping * np.diag(curvature) + np.finfo(float).tiny)
            step = np.asarray(np.linalg.solve(damped, right)).reshape(model.W.shape)
            trial = FaceFit(_moved(fit.model, step), inputs, y)
            if trial.rss < before:
                fit, damping = trial, max(damping / 10, 1e-9)
                break
            damping *= 10
        settled = fit.rss > (1 - FIT_CONVERGED) * before or fit.negligible(1e4 * fit.rss)
        if settled or over():
            break
    return fit


def fitted_relus(units: list[Unit], X: Array, y: Array, over: Callable[[], bool]) -> list[Unit]:
    """All units by least squares; those that explain nothing are dropped."""
    some = slice(FIT_ROWS)
    fit = _least_squares(FaceModel.of(units, X.shape[1], 2), X[some], y[some], over)
    while len(fit.model.W) and not over():
        without = [fit.rss_without(i) for i in range(len(fit.model.W))]
        i = int(np.argmin(without))
        if without[i] > _USELESS * fit.rss and not fit.negligible(without[i]):
            break
        fit = _least_squares(fit.model.without(i), X[some], y[some], over)
    if len(fit.model.W) and len(X) > FIT_ROWS and not fit.negligible(fit.rss):
        fit = _least_squares(fit.model, X[:MOST_FIT_ROWS], y[:MOST_FIT_ROWS], over)
    return fit.units()
