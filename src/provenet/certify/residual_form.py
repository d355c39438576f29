"""Is what is left of the labels noise? Noise knows nothing of inputs, units and faces.

Five looks at the residuals: do units and lengths of inputs explain any of them (F-test)? Do
polynomials of the inputs? Are residuals of neighbours alike, or of those next to each other along a
unit? Are they larger at the face of a unit than beside it, as where one unit stands for two at a
small angle?
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import bdtrc, fdtrc
from scipy.stats import mannwhitneyu

from provenet.certify.statements import Predicts
from provenet.certify.tolerances import (
    FEWEST_WITHIN,
    MOST_POLYNOMIALS,
    MOST_TESTED,
    NEAREST_SAMPLES,
    NEIGHBOURS_AMONG,
)
from provenet.common.typing import Array
from provenet.fitting.context import Context
from provenet.networks.hermite import hermite_rows
from provenet.networks.layered import unit_values

UNLIKELY = 1e-4
"""A convention: a chance below which what is left has form."""
NOT_CHANCE = 5.0
"""Standard errors. Derived: what is left may correlate with any of a thousand polynomials, of which
the best is above 4.4 by chance once in a hundred."""

_HIGHEST_DEGREE = 4
"""Of polynomials: a convention."""
_MOST_ENTRIES = 14_000_000
"""Samples times polynomials: some 110 MB. A convention."""
_NEIGHBOURS_IN = 4
"""Features: in more, samples are no neighbours of each other."""
_WIDTHS = 0.5 ** np.arange(3, 9)
"""Distances from a face, in standard deviations of the inputs across it."""
_MOST_OF_IT = 0.95
"""Share of the sum of squares that the largest residuals make."""
_NO_NOISE = 1e-6
"""A chance. Derived: with up to 10 units there are 6 widths and 2 tests each."""
_TIMES_CHANCE, _MOSTLY_LARGER = 1.5, 0.6
"""A convention: what noise whose size depends on the inputs should not reach in so narrow a
band."""


@dataclass(frozen=True)
class Residuals:
    """What a network leaves of labels, on inputs that are standardised as well."""

    X: Array
    Z: Array
    left: Array

    @classmethod
    def of(cls, context: Context, statement: Predicts, X: Array, y: Array) -> Residuals:
        """On the samples of which anything is said."""
        left = y - statement.values(X)
        said = np.isfinite(left)
        return cls(X[said], context.standardisation.apply(X[said]), left[said])

    @property
    def size(self) -> float:
        """Root mean square."""
        return float(np.sqrt(np.mean(self.left**2))) if len(self.left) else np.inf

    @property
    def samples(self) -> int:
        """How many they are."""
        return len(self.left)


def chance_of_form(statement: Predicts, held: Residuals) -> float:
    """P-value (F-test) of what units, inputs and their squares explain of unseen residuals."""
    Z, H = held.Z, unit_values(statement.network.layer, held.X)
    length = np.einsum("nd,nd->n", Z, Z)
    terms = np.column_stack([np.ones(len(Z)), length, H, Z, Z**2])
    # As many terms as leave half of the samples to tell noise by.
    terms = terms[:, np.isfinite(terms).all(axis=0)][:, : len(Z) // 2]
    fitted = terms @ np.linalg.lstsq(terms, held.left, rcond=1e-10)[0]
    p, free = terms.shape[1], len(Z) - terms.shape[1]
    if p < 1 or free < 1:
        return 0.0
    explained, rest = float(fitted @ fitted), float(np.sum((held.left - fitted) ** 2))
    return float(fdtrc(p, free, (explained / p) / max(rest / free, 1e-300)))


def dependence(held: Residuals, fitted: Residuals, tested: Residuals) -> float:
    """By how many standard errors residuals depend on the inputs.

    Those of all tested samples on polynomials; unseen ones on those of their fitted neighbours.
    """
    rows = hermite_terms(tested.Z)
    found = correlation(rows, tested.left[: rows.shape[1]])
    if held.Z.shape[1] > _NEIGHBOURS_IN or min(fitted.samples, held.samples) < NEAREST_SAMPLES:
        return found
    tree = cKDTree(fitted.Z[:NEIGHBOURS_AMONG])
    nearest = tree.query(held.Z, k=NEAREST_SAMPLES)[1]
    return max(found, correlation(fitted.left[nearest].mean(axis=1)[None], held.left))


def along_units(statement: Predicts, tested: Residuals, rounding: float) -> float:
    """By how many standard errors residuals are like those of the next samples along a unit.

    A top of another form leaves what changes with one unit, in a band too thin for polynomials; or
    it leaves nothing but rounding where the unit is off, and far more where it is on.
    """
    layer = statement.network.layer
    none_left = (np.abs(tested.left) <= rounding).astype(float)
    looks = (tested.left, none_left - none_left.mean())
    orders = np.argsort(tested.X @ layer.weights.T, axis=0).T
    return max((like_the_next(look[order]) for look in looks for order in orders), default=0.0)


def like_the_next(left: Array) -> float:
    """Correlation of a row of residuals with the sums of the next ones, in standard errors."""
    if len(left) <= NEAREST_SAMPLES:
        return 0.0
    total = np.concatenate([[0.0], np.cumsum(left)])
    after = total[NEAREST_SAMPLES + 1 :] - total[1:-NEAREST_SAMPLES]
    return correlation(after[None], left[: len(after)])


def hermite_terms(Z: Array) -> Array:
    """Polynomials of inputs, one a row, of as high a degree as room allows."""
    d = Z.shape[1]
    fits = (k for k in range(_HIGHEST_DEGREE, 1, -1) if comb(k + d, d) <= MOST_POLYNOMIALS)
    degree = next(fits, 1)
    return hermite_rows(Z[: _MOST_ENTRIES // comb(degree + d, d)], degree)


def correlation(H: Array, left: Array) -> float:
    """The largest of the rows' correlations with residuals, in standard errors."""
    size = np.sqrt(H**2 @ left**2)
    return float(np.max(np.abs(H @ left) / np.maximum(size, np.finfo(float).tiny)))


def unit_with_spikes(statement: Predicts, tested: Residuals) -> int | None:
    """The first unit at whose face residuals are larger than beside it; None if there is none."""
    layer = statement.network.layer
    if not layer.activation.kinked:
        return None
    margins = tested.X @ layer.weights.T + layer.biases
    distances = np.abs(margins) / np.maximum(margins.std(axis=0), 1e-300)
    spiked = (i for i, d in enumerate(distances.T) if at_the_face(d, tested.left))
    return next(spiked, None)


def at_the_face(distance: Array, left: Array) -> bool:
    """Whether residuals are larger within some width of a face than farther, up to four widths.

    Two units at a small angle differ from one in a thin wedge only. Noise of any law does not know
    of the face; one whose size depends on the inputs hardly changes in so narrow a band.
    """
    return any(_larger_within(distance, np.abs(left), h) for h in _WIDTHS)


def _larger_within(distance: Array, size: Array, h: float) -> bool:
    zone = distance < 4 * h
    size, within = size[zone], distance[zone] < h
    if min(within.sum(), (~within).sum()) < FEWEST_WITHIN:
        return False
    # Of the largest, that make most of the squares, so many or more would be within by chance.
    order = np.argsort(-size)
    squares = np.cumsum(size[order] ** 2)
    largest = within[order[: 1 + np.searchsorted(squares, _MOST_OF_IT * squares[-1])]]
    k, share = int(largest.sum()), float(within.mean())
    if k > _TIMES_CHANCE * share * len(largest) and bdtrc(k - 1, len(largest), share) < _NO_NOISE:
        return True
    ranks = mannwhitneyu(size[within], size[~within], alternative="greater")
    larger = ranks.statistic / (within.sum() * (~within).sum())
    return bool(larger > _MOSTLY_LARGER and ranks.pvalue < _NO_NOISE)


def tested_samples(context: Context, statement: Predicts) -> Residuals:
    """What is left of the first samples of the source, as many as are looked at."""
    source = context.source
    most = min(source.size, MOST_TESTED, _MOST_ENTRIES // source.features)
    return Residuals.of(context, statement, *source.rows(0, most))
