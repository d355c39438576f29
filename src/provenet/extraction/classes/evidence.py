"""Points that may refute a network that was read off classes: beside its boundary and its bends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.certify.answered import Answered
from provenet.common.typing import AnyArray, Array
from provenet.extraction.classes.sides import Sides
from provenet.extraction.classes.tolerances import (
    BEND_TRIES,
    BENDS_A_UNIT,
    BESIDE_BOUNDARY,
    FROM_BEND,
    NEWTON,
    ON_BOTH,
    PREDICTED_HALVINGS,
)
from provenet.extraction.tolerances import TINIEST
from provenet.networks.network import Network


@dataclass(frozen=True)
class Predicted:
    """A network's outputs in the coordinates of the search."""

    network: Network
    sides: Sides

    def __call__(self, X: Array) -> Array:
        """Its outputs."""
        return np.asarray(self.network(self.sides.inputs(X)))

    def z(self, X: Array) -> Array:
        """What goes into the units."""
        inputs = self.sides.inputs(X)
        return np.asarray(inputs @ self.network.weights.T + self.network.biases)

    @property
    def rows(self) -> Array:
        """The units' weights."""
        return np.asarray(self.network.weights * self._slope)

    @property
    def _slope(self) -> Array:
        return self.sides.inputs(np.ones(self.sides.features)) - self.sides.inputs(
            np.zeros(self.sides.features)
        )

    def gradients(self, X: Array) -> Array:
        """By the coordinates, one row a point."""
        slopes = self.network.activation.derivative(self.z(X)) * self.network.output_weights
        linear = 0.0 if self.network.linear is None else self.network.linear * self._slope
        return np.asarray(slopes @ self.rows + linear)

    def distances(self, X: Array, *beside: Array) -> Array:
        """How far points are from the boundary, to first order: as steep as beside them."""
        steep = [np.linalg.norm(self.gradients(near), axis=1) for near in beside or (X,)]
        return np.asarray(np.abs(self(X)) / (np.max(steep, axis=0) + TINIEST))

    def between(self, A: Array, B: Array) -> Array:
        """Points of the boundary on segments from negative to positive outputs; of others none."""
        apart = (self(A) <= 0) & (self(B) > 0)
        A, B = A[apart], B[apart]
        low, high = np.zeros(len(A)), np.ones(len(A))
        for _ in range(PREDICTED_HALVINGS):
            middle = (low + high) / 2
            above = self(A + middle[:, None] * (B - A)) > 0
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.asarray(A + high[:, None] * (B - A))

    def beside(self, X: Array, apart: float) -> Array:
        """Points on both sides of some that are on the boundary."""
        G = self.gradients(X)
        size = np.linalg.norm(G, axis=1)[:, None]
        step = apart * G / np.where(size > 0, size, 1.0)
        return np.asarray(np.vstack([X - step, X + step])[np.tile(size[:, 0] > 0, 2)])

    def bends(self, unit: int, X: Array) -> Array:
        """Points at which a unit switches and the boundary passes, by Newton's method from X."""
        row = self.rows[unit]
        X = X.copy()
        for _ in range(NEWTON):
            X = X - _least_steps(self.gradients(X), row, self(X), self.z(X)[:, unit])
        size = np.linalg.norm(row) * (1 + np.abs(X).max(axis=1))
        near = (np.abs(self.z(X)[:, unit]) <= ON_BOTH * size) & (
            self.distances(X) <= ON_BOTH * (1 + np.abs(X).max(axis=1))
        )
        inside = ((self.sides.low <= X) & (self.sides.high >= X)).all(axis=1)
        return np.asarray(X[near & inside])

    def about_bend(self, unit: int, X: Array) -> Array:
        """Points of the boundary before and after a bend."""
        row = self.rows[unit] / np.linalg.norm(self.rows[unit])
        moved = np.vstack([X - FROM_BEND * row, X + FROM_BEND * row])
        G = self.gradients(moved)
        size = np.sum(G**2, axis=1) + TINIEST
        return np.asarray(moved - (self(moved) / size)[:, None] * G)


def _least_steps(G: Array, row: Array, f: Array, z: Array) -> Array:
    """The shortest step for each point with `g.step = f` and `row.step = z`."""
    gg, gr, rr = np.sum(G**2, axis=1), G @ row, float(row @ row)
    determinant = gg * rr - gr**2
    determinant = np.where(np.abs(determinant) > TINIEST, determinant, np.inf)
    of_g, of_row = (rr * f - gr * z) / determinant, (gg * z - gr * f) / determinant
    return np.asarray(of_g[:, None] * G + of_row[:, None] * row)


@dataclass(frozen=True)
class Beside:
    """Answers beside the boundary, and beside the bends of units."""

    boundary: Answered
    starts: AnyArray
    """The points of the boundary that were predicted, in coordinates of the search."""
    bends: Answered
    bend_of: AnyArray


def asked_beside(
    predicted: Predicted, negatives: Array, positives: Array, rng: np.random.Generator
) -> Beside:
    """Answers next to the boundary on segments between inputs of both classes, and at bends."""
    sides = predicted.sides
    X = predicted.between(negatives, positives)
    boundary = answered(sides, predicted.beside(X, BESIDE_BOUNDARY))
    points, units = [np.empty((0, sides.features))], [np.empty(0, dtype=int)]
    for unit in range(predicted.network.units if len(X) else 0):
        starts = X[rng.integers(len(X), size=BEND_TRIES)]
        found = predicted.bends(unit, starts)[:BENDS_A_UNIT]
        both = predicted.beside(predicted.about_bend(unit, found), BESIDE_BOUNDARY)
        points.append(both)
        units.append(np.full(len(both), unit))
    at_bends, bend_of = np.vstack(points), np.concatenate(units)
    inside = ((sides.low <= at_bends) & (sides.high >= at_bends)).all(axis=1)
    return Beside(boundary, X, answered(sides, at_bends[inside]), bend_of[inside])


def answered(sides: Sides, X: Array) -> Answered:
    """The classes of points of the search, with the model's own inputs."""
    X = X[((sides.low <= X) & (sides.high >= X)).all(axis=1)]
    return Answered(sides.inputs(X), sides(X).astype(float))
