"""Whether plain smoothers predict what a predictor leaves: then that is not noise.

The residuals of half of the samples are given to smoothers that know nothing of networks: nearest
neighbours, kernel ridge regression (Nystroem's features); and to two that also see the inputs along
the directions of the predictor's units, where what it does wrong mostly lies: splines, added up,
and trees. What they make of the other half's inputs, r^, is independent of the noise there, so
under noise alone

    z = sum r r^ / sqrt(sum r^2 r^^2)

is about standard normal, whatever the noise's size and wherever it is larger. Repeated inputs are
taken once: twins in both halves would be known by heart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.certify.tolerances import (
    KERNEL_FEATURES,
    KERNEL_WIDTH,
    MOST_SMOOTHED,
    NEIGHBOURS,
    PENALTIES,
    SMALLEST_LEAF,
    SPLINE_KNOTS,
    TREES,
)
from provenet.common.typing import TINY, AnyArray, Array


@dataclass(frozen=True)
class Smoothed:
    """The smoother that predicts most of what is left."""

    name: str
    sigmas: float
    """z above: standard errors by which its predictions agree with what is left."""
    explained: float
    """Root mean square of the part that it predicts, in the units of the labels."""
    samples: int
    """On which that was measured; the smoothers were given as many others."""


def best_smoother(X: Array, directions: Array, residuals: Array) -> Smoothed:
    """The most significant of the smoothers, on standardised inputs and one output's residuals.

    `directions` has a row for every direction of these inputs that is looked along.
    """
    rng = np.random.default_rng(0)
    _, first = np.unique(X, axis=0, return_index=True)
    rows = rng.permutation(first)[:MOST_SMOOTHED]
    half = len(rows) // 2
    given, judged = rows[:half], rows[half:]
    left = residuals[judged]
    found = [
        _measured(name, left, predicted)
        for name, predicted in _predictions(X, directions, residuals, given, judged)
    ]
    return max(found, key=lambda smoothed: smoothed.sigmas)


def _measured(name: str, left: Array, predicted: Array) -> Smoothed:
    products = left * predicted
    sigmas = float(products.sum() / (np.linalg.norm(products) + TINY))
    along = float(products.mean() / (np.sqrt(np.mean(predicted**2)) + TINY))
    return Smoothed(name, sigmas, max(along, 0.0), len(left))


def _predictions(
    X: Array, directions: Array, residuals: Array, given: AnyArray, judged: AnyArray
) -> Iterator[tuple[str, Array]]:
    """Each smoother's name and its predictions for the samples that are judged."""
    from sklearn.ensemble import ExtraTreesRegressor  # slow to import
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeCV
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    count, features = len(given), X.shape[1]
    along = np.column_stack([X, X @ directions.T])
    kernel = Nystroem(
        gamma=KERNEL_WIDTH / features, n_components=min(KERNEL_FEATURES, count), random_state=0
    )
    splines = SplineTransformer(SPLINE_KNOTS, knots="quantile")
    trees = ExtraTreesRegressor(TREES, min_samples_leaf=SMALLEST_LEAF, random_state=0)
    for name, smoother, inputs in (
        ("nearest neighbours", KNeighborsRegressor(min(NEIGHBOURS, count)), X),
        ("kernel ridge regression", make_pipeline(kernel, RidgeCV(PENALTIES, gcv_mode="svd")), X),
        ("splines", make_pipeline(splines, RidgeCV(PENALTIES, gcv_mode="svd")), along),
        ("trees", trees, along),
    ):
        yield name, smoother.fit(inputs[given], residuals[given]).predict(inputs[judged])
