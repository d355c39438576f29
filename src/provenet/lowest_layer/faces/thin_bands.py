"""Where the mean of a label across a direction jumps or bends: differences of thin bands (GP19, 3).

On the hyperplane `z.x = s`, z of norm 1 and x standard normal, write `g(s) = E[f | z.x = s]`. Then
`E[f delta(z.x - s)] = g(s) phi(s)` (Claim 3), and correlating with derivatives of delta asks how
fast that changes (Claim 4). At `z = w_i`, `s = t_i` the function g has

    a jump of size                E[dP/dX_i | w_i.x = t_i]    for step units      (order 1, delta'),
    a change of slope of size     E[dP/dX_i | w_i.x = t_i]    for ReLU units      (order 2, delta'')

(Lemmas 8 and 19; the terms of Lemma 19 with other units and with `phi'` are the same on both sides
of the face, so they cancel). At an angle alpha it is a smooth rise of width `tan alpha`.

The statistic. Means of the label in eight bands of width h, four on each side of s, are combined by
weights that give 1 on `u_+^(order - 1)`, `u = z.x - s`, and 0 on low powers of u: the coefficient
of a least-squares fit. C_2 of the text is the same with one band on each side and weights -1, 1;
there every slope of g counts as a jump. What is left of a smooth g falls as h^3, while a face stays
as it is: so bands of several widths tell the two apart. The statistic is a difference of means and
its sampling error is known.

All offsets of a direction at once: projections go to bins of width `h / per` (a counting sort), and
cumulative sums over bins are the exact sums over every band that starts at a bin's edge. O(n) a
direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from scipy.ndimage import maximum_filter1d

from provenet.common.typing import AnyArray, Array
from provenet.lowest_layer.faces.tolerances import (
    FEWEST_IN_FACE_BAND,
    MOST_MOVES,
    SCAN_REACH,
    STILL_THERE,
    WORTH_THINNER,
)
from provenet.moments.subspace import complement

BANDS = 4
"""Bands on each side."""
CANDIDATE = 4.5
"""Standard errors above which a peak of a scan is looked at."""
SIGNIFICANT = 6.0
"""Standard errors that a face has: a normal variable exceeds them once in 5e8 places."""
NONE = 1e-100
"""Stands for the weight of an empty band, so that one may divide by it."""
_FINEST_STEP = 1 / 8
"""A climb ends at this part of the bands' width."""


def band_weights(order: int, both: Sequence[int], right: Sequence[int] = ()) -> Array:
    """Weights of band means, h = 1, that tell the coefficient of `u_+^(order - 1)` (0: of delta).

    They are blind to `u^k`, k in `both`, and to `u_+^k`, k in `right`; among such weights they have
    the least variance. For another h divide by `h^(order - 1)`.
    """
    edges = np.arange(-BANDS, BANDS + 1.0)
    rectified = np.maximum(edges, 0)

    def means(x: Array, k: int) -> Array:
        return np.asarray(np.diff(x ** (k + 1)) / (k + 1))

    wanted = np.zeros(2 * BANDS)
    if order:
        wanted = means(rectified, order - 1)
    else:
        wanted[BANDS - 1 : BANDS + 1] = 0.5
    columns = [means(edges, k) for k in both] + [means(rectified, k) for k in right] + [wanted]
    return np.asarray(np.linalg.pinv(np.column_stack(columns))[-1])


PEAK = {1: band_weights(1, (0, 1, 2)), 2: band_weights(2, (0, 1, 2, 3))}
"""The statistic for step units (1) and ReLU units (2)."""
PLAIN = {
    1: np.array([0.0, 0, 0, -1, 1, 0, 0, 0]),
    2: np.array([0.0, 0, 1, -1, -1, 1, 0, 0]),
}
"""C_2 and C_3 of the text: a difference of two bands, and one of two differences."""


def sphere_net(features: int, step: float) -> Array:
    """Unit vectors, one of each pair of opposite ones: every direction is near one of them.

    On each face of a cube a grid of equal angles at most `step` apart: no direction is further than
    `step sqrt(features - 1) / 2` from the net. `net_size` vectors.
    """
    across = _across(step)
    angles = (np.arange(across) + 0.5) / across * (np.pi / 2) - np.pi / 4
    grid = np.array(list(product(np.tan(angles), repeat=features - 1)))
    Z = np.concatenate([np.insert(grid, i, 1.0, axis=1) for i in range(features)])
    return np.asarray(Z / np.linalg.norm(Z, axis=1, keepdims=True))


def net_size(features: int, step: float) -> int:
    """How many directions `sphere_net` has: exponential in the number of features."""
    return int(features * _across(step) ** (features - 1))


def _across(step: float) -> int:
    return int(np.ceil(np.pi / 2 / step))


@dataclass(frozen=True)
class Labels:
    """Samples with labels, and how much each counts."""

    X: Array
    y: Array
    variance: float
    """Of all labels, also where these are a selection."""
    weights: Array | None = None
    statistic: Mapping[int, Array] = field(default_factory=lambda: PEAK)
    """Weights of band means, by order."""

    @classmethod
    def of(cls, X: Array, y: Array) -> Labels:
        """Samples that all count the same."""
        return cls(X, y, float(np.var(y)))

    def near(self, z: Array, s: float, width: float) -> Labels:
        """Those with `|z.x - s| < width`."""
        near = np.abs(self.X @ z - s) < width
        weights = None if self.weights is None else self.weights[near]
        return replace(self, X=self.X[near], y=self.y[near], weights=weights)


@dataclass(frozen=True)
class HeightProfile:
    """The statistic along one direction."""

    offsets: Array
    heights: Array
    """Zero where a band has too few samples."""
    errors: Array
    """Standard errors of the heights."""

    @property
    def significance(self) -> Array:
        """Heights in standard errors."""
        return self.heights / self.errors

    def peak(self, z: Array, j: int, h: float) -> Peak:
        """The place with index j; the profile is along z, its bands are h wide."""
        s, height, error = (float(a[j]) for a in (self.offsets, self.heights, self.errors))
        return Peak(z, s, height, error, h)


def band_profile(
    data: Labels, z: Array, order: int, h: float, low: float, high: float, per: int = 2
) -> HeightProfile:
    """The statistic along z at all offsets from `low` to `high`, `h / per` apart.

    Its error comes from the variance within the bands. Where labels happen to be constant it is the
    error that one different label would make.
    """
    bins = round((high - low) / h * per) + 2 * BANDS * per
    sums = _cumulative(data, z, low - BANDS * h, h / per, bins)
    edge = np.arange(BANDS * per, bins - BANDS * per + 1)
    heights, factor, within, total = np.zeros((4, len(edge)))
    most, fewest = np.zeros(len(edge)), np.full(len(edge), np.inf)
    for j, weight in enumerate(data.statistic[order] / h ** (order - 1)):
        start = edge + (j - BANDS) * per
        n, wy, wyy, w, ww = sums[:, start + per] - sums[:, start]
        fewest, w = np.minimum(fewest, n), np.maximum(w, NONE)
        heights += weight * wy / w
        factor += weight**2 * ww / w**2
        within += wyy - wy**2 / w
        total, most = total + w, most + ww
    spread = np.maximum(within, 0) / total + data.variance * most / total**2
    heights[fewest < FEWEST_IN_FACE_BAND] = 0
    offsets = np.asarray(low + (edge - BANDS * per) * (h / per), dtype=float)
    return HeightProfile(offsets, heights, np.sqrt(factor * spread + np.finfo(float).tiny))


def _cumulative(data: Labels, z: Array, start: float, width: float, bins: int) -> Array:
    """Sums of 1, w y, w y^2, w and w^2 over the first so many bins."""
    place = np.floor((data.X @ z - start) / width).astype(np.intp)
    inside = (place >= 0) & (place < bins)
    place, y = place[inside], data.y[inside]
    terms: list[Array | None] = [None, y, y**2]
    if data.weights is not None:
        w = data.weights[inside]
        terms = [None, w * y, w * y**2, w, w**2]
    sums = np.zeros((len(terms), bins + 1))
    for row, term in zip(sums, terms, strict=True):
        np.cumsum(np.bincount(place, term, minlength=bins), out=row[1:])
    return sums if data.weights is not None else sums[[0, 1, 2, 0, 0]]


@dataclass(frozen=True)
class Peak:
    """A hyperplane `direction.x = offset` and the statistic there."""

    direction: Array
    offset: float
    height: float
    error: float
    h: float
    """Width of the bands."""

    @property
    def significance(self) -> float:
        """Height in standard errors, without its sign."""
        return abs(self.height) / self.error


def peak_at(data: Labels, z: Array, s: float, order: int, h: float, slack: float = 0.0) -> Peak:
    """The strongest offset within `slack` of s along z."""
    p = band_profile(data, z, order, h, s - slack, s + slack, per=4)
    return p.peak(z, int(np.argmax(np.abs(p.significance))), h)


def climb(data: Labels, start: Peak, order: int, h: float, step: float) -> Peak:
    """Pattern search for a local maximum of the significance over directions and offsets.

    Only samples that the search can reach are looked at.
    """
    data = data.near(start.direction, start.offset, (BANDS + 3) * h + 8 * step)
    best = peak_at(data, start.direction, start.offset, order, h, 2 * h)
    for _ in range(MOST_MOVES):
        across = complement(best.direction)
        for e in np.concatenate([across, -across]):
            trial = peak_at(data, _unit(best.direction + step * e), best.offset, order, h, h)
            if trial.significance > best.significance:
                best = trial
                break
        else:
            step /= 2
            if step < _FINEST_STEP * h:
                break
    return best


def scan(
    data: Labels, Z: Array, step: float, order: int, h: float, look: Callable[[float], bool]
) -> tuple[list[Peak], int]:
    """Local maxima of the statistic over a net of directions and all offsets, strongest first.

    `step` is the angle between neighbours in the net Z. Also how many directions were looked at:
    `look` is told before each which part is done, and says whether to go on.
    """
    profiles: list[HeightProfile] = []
    for i, z in enumerate(Z):
        if not look(i / len(Z)):
            break
        profiles.append(band_profile(data, z, order, h, -SCAN_REACH, SCAN_REACH))
    if not profiles:
        return [], 0
    significance = np.array([p.significance for p in profiles])
    best = _strongest_nearby(Z[: len(profiles)], significance, 1.5 * step)
    peaks = [profiles[i].peak(Z[i], int(j), h) for i, j in zip(*np.nonzero(best), strict=True)]
    return sorted(peaks, key=lambda peak: -peak.significance), len(profiles)


def _strongest_nearby(Z: Array, significance: Array, angle: float) -> AnyArray:
    """Where no neighbour in direction and offset is higher, and noise is rarely as high."""
    a = np.abs(significance)
    highest = maximum_filter1d(a, 4 * BANDS + 1, axis=1, mode="constant")
    best = (a >= highest) & (a > CANDIDATE)
    G = Z @ Z.T
    np.fill_diagonal(G, 0.0)
    near = np.cos(angle)
    for i in np.flatnonzero(best.any(axis=1)):
        others = np.concatenate([highest[near <= G[i]], highest[-near >= G[i], ::-1]])
        best[i] &= a[i] > np.max(others, axis=0, initial=0.0)
    return np.asarray(best)


def thinner_and_thinner(data: Labels, start: Peak, order: int, h: float, step: float) -> list[Peak]:
    """The peak near a start in bands of width h, h / 2, ..., while it stands above the noise."""
    levels: list[Peak] = []
    peak = start
    while True:
        peak = climb(data, peak, order, h, step)
        levels.append(peak)
        h = step = h / 2
        enough = WORTH_THINNER if len(levels) > 1 else STILL_THERE
        inside = len(data.near(peak.direction, peak.offset, BANDS * h).y)
        if peak.significance < enough or inside < 2 * BANDS * 2 * FEWEST_IN_FACE_BAND:
            return levels


def is_face(levels: Sequence[Peak], order: int) -> bool:
    """Whether a peak is that of a face: high, and as high in thinner bands.

    A face keeps its height, while what a smooth function adds falls as h^3. What a kink adds to a
    jump falls as h, and what a jump adds to a kink rises as 1 / h. Lines are drawn in between, one
    standard error off.
    """
    first, last = levels[max(len(levels) - 3, 0)], levels[-1]
    if len(levels) < 2 or levels[0].significance < SIGNIFICANT:
        return False
    ratio, thinner = last.height / first.height, last.h / first.h
    error = last.error / abs(first.height)
    if order == 1:
        return bool(ratio + error > thinner**0.5 and ratio > STILL_THERE * error)
    return bool(max(thinner - error, 0.0) < ratio < thinner**-0.5 + error)


def _unit(z: Array) -> Array:
    return np.asarray(z / np.linalg.norm(z))
