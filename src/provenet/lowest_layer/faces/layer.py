"""Units found by faces with a polynomial top (GP19, appendix E), on standardised inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.data.sources import ArraySource, Source
from provenet.lowest_layer.faces.model import EXPLAINED, SURE
from provenet.lowest_layer.faces.search import FaceUnits
from provenet.lowest_layer.faces.tolerances import (
    LEAST_ERROR,
    TOP_DEGREE,
    TOP_FEWEST_CLEAR,
    TOP_MOST_UNITS,
)
from provenet.lowest_layer.fit import fit_monomials
from provenet.lowest_layer.top import fit_top
from provenet.lowest_layer.user_layer import with_unit_rows
from provenet.networks.activations import Activation
from provenet.networks.layered import LayeredNetwork, Polynomial, unit_values
from provenet.networks.network import Network


@dataclass(frozen=True)
class FaceLayer:
    """Units on standardised inputs with the top above them, None if none was fitted."""

    faces: FaceUnits
    activation: Activation
    top: Polynomial | None = None

    @property
    def network(self) -> Network:
        """The units alone."""
        return Network(self.faces.weights, -self.faces.thresholds, activation=self.activation)

    @property
    def layered(self) -> LayeredNetwork | None:
        """The units with their top."""
        return None if self.top is None else LayeredNetwork(self.network, self.top)

    @property
    def steps(self) -> bool:
        """Whether units are steps."""
        return self.activation.degree == 0

    def rest(self, X: Array, y: Array) -> Array | None:
        """Labels less the prediction."""
        return None if self.layered is None else y - self.layered(X)

    def within(self, X: Array, least: float) -> AnyArray:
        """Samples (n, units) within a width of a face, or so near that their side is not sure."""
        faces, far = self.faces, np.linalg.norm(X, axis=1)[:, None]
        unsure = SURE * (faces.threshold_errors + far * faces.angle_errors)
        distance = np.abs(X @ faces.weights.T - faces.thresholds)
        return np.asarray(distance < np.maximum(unsure, least))

    def clear(self, X: Array) -> AnyArray:
        """Samples on which the units' values are sure; a ReLU's nearly are everywhere."""
        if not self.steps:
            return np.ones(len(X), dtype=bool)
        return np.asarray(~self.within(X, 0.0).any(axis=1))


def with_top(
    faces: FaceUnits, activation: Activation, fitted: Source, rng: np.random.Generator
) -> FaceLayer:
    """The units with their best sparse polynomial; every function of steps is one.

    Units that are in none of its terms are dropped.
    """
    layer = FaceLayer(faces, activation)
    X, y = fitted.rows(0, fitted.size)
    clear = layer.clear(X)
    if faces.units > TOP_MOST_UNITS or clear.sum() < TOP_FEWEST_CLEAR:
        return layer
    degree = faces.units if layer.steps else TOP_DEGREE
    sure = ArraySource(X[clear], y[clear])
    learned = fit_top(sure, layer.network, "polynomial", degree, rng)
    top = learned.network.top
    if not isinstance(top, Polynomial):
        return layer
    used = sorted({i for monomial in top.terms for i in monomial})
    if 0 < len(used) < faces.units:
        return with_top(faces.keep(np.array(used)), activation, fitted, rng)
    return replace(layer, top=top)


def with_polish(layer: FaceLayer, fitted: Source) -> FaceLayer:
    """ReLU units and those terms of their top that matter, fitted together."""
    faces, top = layer.faces, layer.top
    if top is None:
        return layer
    X, y = fitted.rows(0, fitted.size)
    U, least = unit_values(layer.network, X), EXPLAINED * float(np.std(y))
    terms = {
        m: c
        for m, c in top.terms.items()
        if abs(c) * np.sqrt(np.mean(np.prod(U[:, list(m)], axis=1) ** 2)) > least
    }
    if not terms:
        return layer
    found = fit_monomials(X, y, layer.network, list(terms))
    unit = with_unit_rows(found.network)
    moved = replace(
        faces,
        weights=unit.layer.weights,
        thresholds=-unit.layer.biases,
        angle_errors=np.maximum(found.angle_errors, LEAST_ERROR),
        threshold_errors=np.maximum(found.threshold_errors, LEAST_ERROR),
    )
    assert isinstance(unit.top, Polynomial)
    return replace(layer, faces=moved, top=unit.top)
