"""`"exponential"`: exponential units on disjoint sets of features (GP19, Theorem 9, appendix D.2).

    f(x) = sum_S c_S prod_{i in S} exp(w_i.x),   w_i in {0, 1}^n with disjoint supports, c_S >= 0

Letters: n features, `S_i` the support of unit i, `C_p` the sum of `c_S exp(|support of S| / 2)`
over the S that hold feature p's unit, `C_pq` the same over those that hold both p's and q's.

*The default* uses that f, and so any function of it, sees a unit's features only through their sum:
features are sorted into classes by the second moments of log f (`alike_features`), where some
thousand samples do while moments of f itself ask for a hundred thousand. With the supports known
the polynomial follows by least squares (`exponential_top`).

*The paper's objective* (`faithful=True`, which gives the units without a polynomial) is built on
`g(z) = exp(-|z|^2/2) E[f exp(z.x)] = E[f(x + z)] = sum_S c_S prod_p exp(1/2 + z_p)`. With the
penalty as printed, `g - lambda |z|_1 - gamma |z|_2^2` has no maximum on a single support: for P =
sum X_i it is a sum of one function a support, so equally strong supports are all in a maximum or
none, and in Lemma 21's range of gamma it is convex along the lemma's coordinates of all units but
the weakest. But the proofs of Lemmas 21 and 22 only move mass from one coordinate to another, so
they hold word for word where |z|_1 cannot change, on `z >= 0, |z|_1 = R`; Lemma 23 is then not
needed, and lambda is the constraint's multiplier. There every local maximum divides R evenly among
the features of one unit if `4 gamma < C_p + C_q - 2 C_pq` for features p of that unit and q of
others, which the second moments give. The way to `projection of grad g(z) / (2 gamma)` leads
uphill, all of it for a convex g. The strongest unit comes first; its features are then taken out.
The mass is even only to the error of grad g over 2 gamma, and the weights exp(z.x) add to that
error, so R is small, and even so two units of 2 features take 2e5 samples (47 of 50 seeds; the
others are refused) where the default takes a few thousand for four units of 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from provenet.certify.layer import LayerCandidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.data.sources import Source
from provenet.fitting.context import Context
from provenet.lowest_layer.binary.alike import (
    CLEAR,
    ROUNDING,
    alike_features,
    chance_level,
    differences,
)
from provenet.lowest_layer.binary.correlations import Correlations, correlations_of, exponentials
from provenet.lowest_layer.binary.exponential_top import (
    AMBIGUITIES,
    ExponentialTop,
    refuse_other_number,
    units_alone,
)
from provenet.lowest_layer.candidates import from_fit
from provenet.methods.tolerances import (
    EXPONENTIAL_SETTLED,
    EXPONENTIAL_STEPS,
    LEAST_EVENNESS,
    STEP_HALVINGS,
)
from provenet.networks.layered import LayeredNetwork

_GAMMA = 0.2
"""Lemma 21 allows 1/4."""


@dataclass(frozen=True)
class Supports:
    """Disjoint 0/1 weights."""

    weights: Array
    """(units, features), one unit a row, in the order of their first features."""
    evidence: str


class Transform(Protocol):
    """`g(z) = E[f(x + z)]`."""

    def at(self, z: Array) -> tuple[float, Array]:
        """g and its gradient at z."""


@dataclass(frozen=True)
class ExactTransform:
    """g of a known network: `sum_S c_S exp(v_S.z)`."""

    coefficients: Array
    exponents: Array

    def at(self, z: Array) -> tuple[float, Array]:
        """g and its gradient at z."""
        terms = self.coefficients * np.exp(self.exponents @ z)
        return float(terms.sum()), np.asarray(terms @ self.exponents)


@dataclass(frozen=True)
class SampleTransform:
    """g from samples: the mean of `f(x) exp(z.x - |z|^2/2)`."""

    source: Source

    def at(self, z: Array) -> tuple[float, Array]:
        """g and its gradient at z."""

        def term(X: Array, y: Array) -> Array:
            weighted = y * np.exp(X @ z - z @ z / 2)
            return np.append((X - z).T @ weighted, weighted.sum())

        mean = self.source.total(term) / self.source.size
        return float(mean[-1]), mean[:-1]


def simplex_projection(v: Array, total: float) -> Array:
    """The nearest point with `z >= 0` and `sum z = total`; only differences within v count."""
    v = v - v.max()  # so that a total far below v is not lost in rounding
    falling = np.sort(v)[::-1]
    shift = (np.cumsum(falling) - total) / np.arange(1, len(v) + 1)
    return np.asarray(np.maximum(v - shift[np.flatnonzero(falling > shift)[-1]], 0.0))


def ascend(transform: Transform, start: Array, free: AnyArray, gamma: float) -> Array:
    """A local maximum of `h = g - gamma |z|^2` with the |z|_1 of the start, on free features."""
    z, total = start, float(start.sum())
    g, slope = transform.at(z)
    for _ in range(EXPONENTIAL_STEPS):
        step = np.zeros_like(z)
        step[free] = simplex_projection(slope[free] / (2 * gamma), total) - z[free]
        rise = float((slope - 2 * gamma * z) @ step)
        if np.abs(step).max() <= EXPONENTIAL_SETTLED * total:
            return z
        for halvings in range(STEP_HALVINGS):
            moved = z + step / 2**halvings
            g_moved, slope_moved = transform.at(moved)
            gain = g_moved - g - gamma * (moved @ moved - z @ z)
            if gain >= 1e-4 * rise / 2**halvings:
                break
        else:
            return z  # nothing left to gain but rounding
        z, g, slope = moved, g_moved, slope_moved
    raise NoAnswer(
        f"The ascent of g did not settle in {EXPONENTIAL_STEPS} steps: the sampling error of g is "
        "too large for its maxima to show; take more samples, or leave faithful out."
    )


def by_objective(transform: Transform, c: Correlations, reach: float) -> Supports:
    """Supports as local maxima on `|z|_1 = reach`, the strongest unit first."""
    noise = chance_level(len(c.linear)) * c.linear_errors
    used = c.linear > np.maximum(noise, ROUNDING * np.abs(c.linear).max())
    if not used.any():
        raise NoAnswer(
            "No E[f x_p] stands above its sampling error: take more samples, or look whether the "
            "labels depend on these features at all."
        )
    free = np.ones(len(used), dtype=bool)
    found: list[AnyArray] = []
    evenness = 1.0
    while np.any(free & used):
        gamma = _gamma(c, int(np.argmax(np.where(free, c.linear, -np.inf))))
        start = np.zeros(len(used))
        start[free] = simplex_projection(c.linear[free] / (2 * gamma), reach)
        z = ascend(transform, start, free, gamma)
        support = z > z.max() / 2
        evenness = min(evenness, _evenness(z, support))
        found.append(support)
        free &= ~support
    _refuse_uneven(evenness)
    weights = np.array(sorted(found, key=lambda s: int(np.argmax(s))), dtype=float)
    _refuse_contradicted(c, weights)
    evidence = (
        f"{len(weights)} local maxima of g(z) - gamma |z|^2 on |z|_1 = {reach:g}, each with its "
        f"mass on some features evenly (evenness {evenness:.2f} of 1)."
    )
    return Supports(weights, evidence)


def _gamma(c: Correlations, p: int) -> float:
    """Within Lemma 21's range for the unit of feature p: `4 gamma < C_p + C_q - 2 C_pq`."""
    D, errors = differences(c, logarithms=False)
    D, errors = D[p, :-1], errors[p, :-1]
    apart = D[D / errors > chance_level(len(D)) + CLEAR]
    return _GAMMA * float(apart.min() if len(apart) else max(c.matrix[p, p], errors[p]))


def _evenness(z: Array, support: AnyArray) -> float:
    """How far the mass of every feature is from the limit of one half, 1 at best."""
    share = z / z.max()
    inside = 2 * share[support].min() - 1
    return float(min(inside, 1 - 2 * share[~support].max(initial=0.0)))


def _refuse_uneven(evenness: float) -> None:
    if evenness < LEAST_EVENNESS:
        raise NoAnswer(
            "A maximum of g does not divide its mass evenly among some features and leave the "
            f"others without (Lemmas 21 and 22; evenness {evenness:.2f}, {LEAST_EVENNESS} is asked "
            "for): the weights are not disjoint 0/1 vectors, a coefficient of P is negative, or "
            "samples are too few; leave faithful out."
        )


def _refuse_contradicted(c: Correlations, weights: Array) -> None:
    """Maxima of a noisy g may look even by chance; the second moments must not gainsay them."""
    D, errors = differences(c, logarithms=False)
    used = np.flatnonzero(weights.sum(axis=0))
    z = (np.abs(D) / errors)[np.ix_(used, used)]
    unlike = z > chance_level(len(used) * (len(used) - 1) // 2)
    together = (weights.T @ weights)[np.ix_(used, used)] > 0
    if np.any(unlike == together):
        raise NoAnswer(
            f"The maxima of g would be {len(weights)} units, but the second moments do not tell "
            "their features apart, or tell features of one apart: the sampling error of g is too "
            "large; take more samples, or leave faithful out."
        )


def exponential(context: Context) -> Iterator[LayerCandidate]:
    """One candidate: the units, and their polynomial if that is to be fitted."""
    with context.stage("supports"):
        found = find_supports(context.source, faithful=context.faithful)
    refuse_other_number(len(found.weights), context.units)
    if not context.refine:
        way = "local maxima of the objective" if context.faithful else "features that act alike"
        yield units_alone(context, found.weights, way, (found.evidence,))
        return
    with context.stage("top"):
        samples = context.fitted_samples
        fit = ExponentialTop(samples.X, samples.y, found.weights).fit(rho=1.0)
    notes = (found.evidence, context.gaussian.message)
    yield from_fit(context, fit, lambda network: notes, AMBIGUITIES, standardised=False)


def find_supports(
    data: Source | LayeredNetwork, *, faithful: bool = False, reach: float = 0.5
) -> Supports:
    """The supports of exponential units, from standard normal samples or a network's population.

    `reach` is the R of the paper's objective, for `faithful=True` only.
    """
    if faithful:
        transform: Transform
        if isinstance(data, LayeredNetwork):
            transform = ExactTransform(*exponentials(data))
        else:
            transform = SampleTransform(data)
        return by_objective(transform, correlations_of(data), reach)
    alike = alike_features(data)
    return Supports(alike.weights, alike.evidence)
