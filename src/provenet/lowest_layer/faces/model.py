"""What a set of units explains of the labels: `p(x) + sum_i u_i q_i(x) + products of the u_i`.

p and q_i are polynomials, `u_i = u(w_i.x - t_i)`. The model has faces where its units have them and
nowhere else, so on labels less the model all other faces stay as they are, while the labels vary
less. Any (w, t) may be replaced by (-w, -t) in it: orientation is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from provenet.common.typing import AnyArray, Array, row_blocks
from provenet.lowest_layer.faces.thin_bands import BANDS, Labels, Peak
from provenet.lowest_layer.faces.tolerances import (
    CONTROL_DEGREE,
    CONTROL_ROWS,
    FIT_DEGREE,
    FIT_ROWS,
    MODEL_RIDGE,
    MODEL_ROUNDING,
    MOST_IN_ALL_PRODUCTS,
    SAME_ANGLE,
    UNIT_DEGREE,
)
from provenet.networks.hermite import hermite_rows

WIDTH = {1: 0.125, 2: 0.2}
"""Bands of the scan, by order: 1 for steps, 2 for ReLUs."""
EXPLAINED = 1e-6
"""Labels that vary this little, over their own spread, are explained."""
SURE = 4.0
"""Standard errors."""

_LOW = 0.05
"""Part of its largest height below which a face is not looked at."""
_FAR_OUT = 2.0
"""Norm of a sample across a direction."""


def control_terms(features: int) -> int:
    """Terms of the polynomial that stands for the labels before any unit is known."""
    return comb(CONTROL_DEGREE[features] + features, features)


@dataclass(frozen=True)
class Unit:
    """A face, with standard errors of its direction (radians) and its threshold."""

    peak: Peak
    angle_error: float = np.nan
    threshold_error: float = np.nan
    significance: float = 0.0
    """Standard errors by which it stands out, also where its height changes sign along the face."""

    @property
    def w(self) -> Array:
        """Its direction, of norm 1."""
        return self.peak.direction

    @property
    def t(self) -> float:
        """Its threshold."""
        return self.peak.offset

    @property
    def sharp(self) -> bool:
        """Whether it is known better than to the widest bands."""
        return max(self.angle_error, self.threshold_error) < WIDTH[1]

    @property
    def margin(self) -> float:
        """Samples further from the face than this are surely on the side that they seem to be."""
        return min(SURE * (self.threshold_error + _FAR_OUT * self.angle_error), WIDTH[1])

    def same_as(self, other: Unit, h: float, angle: float = SAME_ANGLE) -> bool:
        """Whether directions are within an angle, and thresholds within two bands."""
        c = float(self.w @ other.w)
        return abs(c) > float(np.cos(angle)) and abs(self.t - other.t * c / abs(c)) < 2 * h


@dataclass(frozen=True)
class Inputs:
    """Inputs with their polynomials."""

    X: Array
    P: Array
    """Rows: the terms of p."""
    L: Array
    """Rows: the terms of a q_i."""

    @classmethod
    def of(cls, X: Array, degree: int) -> Inputs:
        """With those for p, up to this degree, and those for the q_i."""
        return cls(X, hermite_rows(X, degree), hermite_rows(X, UNIT_DEGREE))


@dataclass(frozen=True)
class FaceModel:
    """`p(x) + sum_i u_i q_i(x) + products of the u_i`, u_i = u(w_i.x - t_i), linear in all else."""

    W: Array
    T: Array
    order: int
    degree: int

    @classmethod
    def of(cls, units: list[Unit], features: int, order: int) -> FaceModel:
        """The model of these units; without units, p alone."""
        W = np.array([unit.w for unit in units]).reshape(-1, features)
        degrees = FIT_DEGREE if units else CONTROL_DEGREE
        return cls(W, np.array([unit.t for unit in units]), order, degrees[features])

    @property
    def products(self) -> list[tuple[int, ...]]:
        """Products of units, as the units in them."""
        k = len(self.W)
        most = k if k <= MOST_IN_ALL_PRODUCTS else 2
        squares = [(i, i) for i in range(k)] if self.order == 2 else []
        return squares + [c for m in range(2, most + 1) for c in combinations(range(k), m)]

    def values(self, X: Array) -> Array:
        """The u_i at each input, (units, n)."""
        U = self.W @ X.T - self.T[:, None]
        return (U > 0).astype(float) if self.order == 1 else np.maximum(U, 0)

    def rows(self, inputs: Inputs) -> Array:
        """The terms of the model at each input, (terms, n)."""
        U = self.values(inputs.X)
        parts = [inputs.P, *(inputs.L * u for u in U)]
        parts += [np.prod(U[list(c)], axis=0)[None] for c in self.products]
        return np.concatenate(parts)

    def owned(self, i: int) -> AnyArray:
        """Which terms have unit i in them."""
        d, k = self.W.shape[1], len(self.W)
        polynomial = np.zeros(comb(self.degree + d, d), dtype=bool)
        own = np.repeat(np.arange(k) == i, comb(UNIT_DEGREE + d, d))
        return np.concatenate([polynomial, own, np.array([i in c for c in self.products], bool)])

    def slope(self, i: int, inputs: Inputs, c: Array) -> Array:
        """The derivative by `u_i` of the model with coefficients c."""
        U, L, k = self.values(inputs.X), inputs.L, len(self.W)
        first = len(c) - len(self.products)
        slope = c[first - k * len(L) : first].reshape(k, -1)[i] @ L
        for coefficient, units in zip(c[first:], self.products, strict=True):
            if i in units:
                rest = list(units)
                rest.remove(i)
                slope += coefficient * units.count(i) * np.prod(U[rest], axis=0)
        return np.asarray(slope)

    def without(self, i: int) -> FaceModel:
        """The model of all units but one."""
        rest = np.arange(len(self.W)) != i
        return replace(self, W=self.W[rest], T=self.T[rest])

    def blocks(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """`rows` for some inputs at a time."""
        for rows in row_blocks(len(X)):
            yield rows, self.rows(Inputs.of(X[rows], self.degree))


def solved(G: Array, b: Array) -> Array:
    """`G^-1 b`; terms that are zero, or the same as others, do no harm."""
    size = np.sqrt(np.maximum(np.diag(G), np.finfo(float).tiny))
    scaled = G / np.outer(size, size) + MODEL_RIDGE * np.eye(len(G))
    size = size.reshape(-1, *[1] * (b.ndim - 1))
    return np.asarray(np.linalg.solve(scaled, b / size) / size)


class Controlled:
    """Samples, and their labels less what a model of some units explains."""

    def __init__(self, X: Array, y: Array, units: list[Unit], order: int) -> None:
        """Fit the model; samples that may be on either side of a jump are left out."""
        self.units, self.model = units, FaceModel.of(units, X.shape[1], order)
        W, T = self.model.W, self.model.T
        margins = np.array([unit.margin if order == 1 else 0.0 for unit in units])
        self.all, self.beside = (X, y), np.abs(W @ X.T - T[:, None]) < margins[:, None]
        clear = ~self.beside.any(axis=0)
        self.X, self.y = X[clear], y[clear]
        self.spread = float(np.std(y) + MODEL_ROUNDING * np.max(np.abs(y)))
        self.G, self.b = np.zeros(()), np.zeros(())
        for rows, M in self.model.blocks(self.X[:CONTROL_ROWS]):
            self.G, self.b = self.G + M @ M.T, self.b + M @ self.y[rows]
        left = self._less(self.X, self.y, np.ones(len(self.b), dtype=bool))
        self.labels = Labels.of(self.X, left)

    def _less(self, X: Array, y: Array, terms: AnyArray) -> Array:
        """Labels less the least-squares fit by some of the terms."""
        c = solved(self.G[np.ix_(terms, terms)], self.b[terms])
        left = np.zeros(len(X))
        for rows, M in self.model.blocks(X):
            left[rows] = y[rows] - c @ M[terms]
        left[np.abs(left) < MODEL_ROUNDING * self.spread] = 0
        return left

    @property
    def unexplained(self) -> float:
        """Share of the variance that is left."""
        return float(self.labels.variance / max(self.spread, np.finfo(float).tiny) ** 2)

    @property
    def explained(self) -> bool:
        """Whether nothing is left but rounding."""
        return self.unexplained < EXPLAINED**2

    def explained_without(self, i: int) -> bool:
        """Whether the others explain all without unit i."""
        left = self._less(self.X[:FIT_ROWS], self.y[:FIT_ROWS], ~self.model.owned(i))
        return bool(np.std(left) < EXPLAINED * self.spread)

    def about(self, i: int) -> Labels:
        """Samples near the face of unit i, and their labels less what all others explain."""
        X, y = self.all
        h = WIDTH[self.model.order]
        near = np.abs(X @ self.model.W[i] - self.model.T[i]) < 2 * BANDS * h
        near &= ~np.delete(self.beside, i, axis=0).any(axis=0)
        return Labels.of(X[near], self._less(X[near], y[near], ~self.model.owned(i)))

    def in_heights(self, i: int, labels: Labels) -> Labels:
        """Labels over the height that the face of unit i has there by the model.

        They count by its square: parts of the face where labels do not jump add noise only.
        """
        c = solved(self.G, self.b)
        inputs = (Inputs.of(labels.X[rows], 0) for rows in row_blocks(len(labels.X)))
        Q = np.concatenate([np.ones(0), *(self.model.slope(i, part, c) for part in inputs)])
        high = np.abs(Q) > _LOW * np.max(np.abs(Q), initial=0.0)
        Q, y = Q[high], labels.y[high]
        variance = float(y @ y / max(Q @ Q, np.finfo(float).tiny))
        return Labels(labels.X[high], y / Q, variance, Q**2)
