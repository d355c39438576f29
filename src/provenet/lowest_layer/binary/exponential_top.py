"""The polynomial above exponential units `exp(rho w_p.x)` of known weights, and their rho.

Labels spread over many orders of magnitude, so least squares is relative to their size; labels that
are not all positive have noise, which is not. Only rho is searched for; the coefficients follow
(variable projection).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from scipy.optimize import minimize_scalar

from provenet.certify.layer import LayerCandidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.lowest_layer.fit import LayerFit
from provenet.lowest_layer.tolerances import (
    EXPONENTIAL_MOST_MONOMIALS,
    EXPONENTIAL_MOST_SAMPLES,
    RHO_GRID_SAMPLES,
    RHO_SAMPLES,
    RHO_SHARPENINGS,
)
from provenet.lowest_layer.user_layer import on_user_inputs, open_top
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer

AMBIGUITIES = (
    "Units that occur only together are one, and sums over overlapping sets of features are "
    "products over disjoint ones.",
)
EXPLAINED = 1e-6
"""Relative error with which a polynomial explains labels that it made."""
_RHO_WITHIN = 1.0
"""How far off the rho to start from may be, in its logarithm."""


@dataclass(frozen=True)
class ExponentialTop:
    """Labels as a polynomial of exponential units."""

    X: Array
    y: Array
    weights: Array

    @property
    def scale(self) -> Array:
        """What errors are relative to: the labels, if they are all positive."""
        if np.all(self.y > 0):
            return self.y
        return np.full(len(self.y), np.sqrt(np.mean(self.y**2)))

    def solved(self, rho: float, rows: int = RHO_SAMPLES) -> tuple[Array, float]:
        """The monomials' coefficients, and the relative error they leave."""
        sums = self._sums(rows)
        design, largest = self._design(rho, sums)
        target = (self.y / self.scale)[:rows]
        c = np.linalg.lstsq(design, target, rcond=1e-13)[0]
        error = float(np.sqrt(np.mean((target - design @ c) ** 2)))
        return np.asarray(c * np.exp(-largest)), error

    def best_rho(self, start: float) -> float:
        """The rho near a start whose units explain the labels best: a grid, then Gauss-Newton."""
        grid = start * np.exp(np.linspace(-_RHO_WITHIN, _RHO_WITHIN, 81))
        errors = [self.solved(float(rho), RHO_GRID_SAMPLES)[1] for rho in grid]
        i = int(np.argmin(errors))
        bounds = (grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)])
        found = minimize_scalar(lambda rho: self.solved(rho)[1], bounds=bounds, method="bounded")
        rho = float(found.x)
        for _ in range(RHO_SHARPENINGS):  # the search sees the square root of rounding only
            rho += self._newton_step(rho)
        return rho

    def _newton_step(self, rho: float) -> float:
        """What least squares with the slope in rho beside the monomials asks for."""
        sums, target = self._sums(RHO_SAMPLES), (self.y / self.scale)[:RHO_SAMPLES]
        design, _ = self._design(rho, sums)
        c = np.linalg.lstsq(design, target, rcond=1e-13)[0]
        both = np.column_stack([design, (design * sums) @ c])
        return float(np.linalg.lstsq(both, target - design @ c, rcond=1e-13)[0][-1])

    def _sums(self, rows: int) -> Array:
        """`w.x` of every monomial."""
        return np.asarray(self.X[:rows] @ self.weights.T @ monomials(len(self.weights)).T)

    def _design(self, rho: float, sums: Array) -> tuple[Array, Array]:
        """Monomials relative to the labels, each divided by its largest; the logarithm of that."""
        powers = rho * sums - np.log(self.scale[: len(sums)])[:, None]
        largest = powers.max(axis=0)
        return np.exp(powers - largest), largest

    def fit(self, rho: float) -> LayerFit:
        """The network at this rho: weights are whole numbers, so there is nothing to refine."""
        c, _ = self.solved(rho, EXPONENTIAL_MOST_SAMPLES)
        units = len(self.weights)
        terms = {
            tuple(np.flatnonzero(m).tolist()): float(b)
            for m, b in zip(monomials(units), c, strict=True)
        }
        layer = lowest_layer(rho * self.weights, 0.0, "exp")
        network = LayeredNetwork(layer, Polynomial(units, terms))
        spread = max(float(np.std(self.y)), 1e-300)
        left = (self.y - network(self.X))[:EXPONENTIAL_MOST_SAMPLES]
        return LayerFit(
            network=network,
            residual=float(np.sqrt(np.mean(left**2))),
            spread=spread,
            weight_errors=np.zeros_like(self.weights),
            threshold_errors=np.zeros(units),
            samples=min(len(self.y), EXPONENTIAL_MOST_SAMPLES),
            determined=True,
        )


def monomials(units: int) -> Array:
    """0/1 rows, the units in each monomial: the constant, single ones, pairs, as room allows."""
    chosen: list[tuple[int, ...]] = []
    for degree in range(units + 1):
        if degree > 1 and len(chosen) + comb(units, degree) > EXPONENTIAL_MOST_MONOMIALS:
            break
        chosen += combinations(range(units), degree)
    return np.array([[float(p in m) for p in range(units)] for m in chosen])


def units_alone(
    context: Context, weights: Array, way: str, notes: tuple[str, ...]
) -> LayerCandidate:
    """Units without a polynomial above them, which no label confirms."""
    layer = open_top(lowest_layer(weights, 0.0, "exp"))
    user = on_user_inputs(layer, None, np.zeros(len(weights)), np.zeros(len(weights)))
    what = counted(len(weights), "unit")
    return LayerCandidate(
        network=user.units,
        what=what,
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=np.full(len(weights), context.source.size),
        way=way,
        unrefined=f"{what} on sets of features; no polynomial was fitted above them.",
        notes=(*notes, context.gaussian.message),
        ambiguities=AMBIGUITIES,
    )


def refuse_other_number(found: int, asked: int | None) -> None:
    """Raise if there are not as many units as were asked for."""
    if asked is not None and found != asked:
        raise NoAnswer(
            f"{found} sets of features show in the samples, not {asked}: leave units= out, or take "
            "more samples."
        )
