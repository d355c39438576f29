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

Its derivatives. If the face is at `u + theta.chi = 0`, `chi = (1, v)`, v the coordinates across z,
then to first order `f = A + Q(v) (u_+^(k-1) + theta.chi D u_+^(k-1))`: the means of `f psi(v)` have
a singularity one order lower, of size `E[Q psi chi] theta`, and weights for that order tell theta.
That holds for any psi; `psi = Q chi`, with a quadratic estimate of Q, serves tops whose Q changes
sign. This is a Newton step on (z, s), with errors.

All offsets of a direction at once: projections go to bins of width `h / per` (a counting sort), and
cumulative sums over bins are the exact sums over every band that starts at a bin's edge. O(n) a
direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from provenet.typing import Array

BANDS = 4
"""Bands on each side."""
_FEWEST_IN_BAND = 10
_COEFFICIENT_SIGNIFICANT = 3.0
_MOST_MOVES = 200
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
TILT = {1: band_weights(0, (0, 1, 2), (0,)), 2: band_weights(1, (0, 1, 2), (1, 2))}
"""One order lower, blind to the face itself: how far (z, s) is off."""


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
class Profile:
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


def band_profile(
    projections: Array,
    labels: Array,
    order: int,
    h: float,
    low: float,
    high: float,
    *,
    per: int = 2,
    variance: float | None = None,
) -> Profile:
    """The statistic at all offsets from `low` to `high`, `h / per` apart.

    `variance` is that of all labels if these are a selection; bands in which labels happen to be
    constant get the error that one different label would make.
    """
    variance = float(np.var(labels)) if variance is None else variance
    reach, bins = BANDS * per, round((high - low) / h * per) + 2 * BANDS * per
    place = np.floor((projections - (low - BANDS * h)) * (per / h)).astype(np.intp)
    inside = (place >= 0) & (place < bins)
    if not inside.all():
        place, labels = place[inside], labels[inside]
    sums = np.zeros((3, bins + 1))
    for row, weights in zip(sums, (None, labels, labels**2), strict=True):
        np.cumsum(np.bincount(place, weights, minlength=bins), out=row[1:])
    edge = np.arange(reach, bins - reach + 1)
    n, total, squares = sums[:, edge + reach] - sums[:, edge - reach]
    n = np.maximum(n, 1)
    spread = np.maximum(squares / n - (total / n) ** 2, 0) + variance / n
    heights, variances = np.zeros(len(edge)), np.zeros(len(edge))
    fewest = np.full(len(edge), np.inf)
    for j, weight in enumerate(PEAK[order] / h ** (order - 1)):
        start = edge + (j - BANDS) * per
        n, total = sums[:2, start + per] - sums[:2, start]
        fewest = np.minimum(fewest, n)
        n = np.maximum(n, 1)
        heights += weight * total / n
        variances += weight**2 / n
    heights[fewest < _FEWEST_IN_BAND] = 0
    return Profile(low + (edge - reach) * (h / per), heights, np.sqrt(variances * spread))


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


def peak_at(
    X: Array, labels: Array, z: Array, s: float, order: int, h: float, slack: float, variance: float
) -> Peak:
    """The strongest offset within `slack` of s along z."""
    p = band_profile(X @ z, labels, order, h, s - slack, s + slack, per=4, variance=variance)
    j = int(np.argmax(np.abs(p.significance)))
    return Peak(z, float(p.offsets[j]), float(p.heights[j]), float(p.errors[j]), h)


def climb(X: Array, labels: Array, start: Peak, order: int, h: float, step: float) -> Peak:
    """Pattern search for a local maximum of the significance over directions and offsets.

    Only samples that the search can reach are looked at.
    """
    variance = float(np.var(labels))
    near = np.abs(X @ start.direction - start.offset) < (BANDS + 3) * h + 8 * step
    X, labels = X[near], labels[near]
    best = peak_at(X, labels, start.direction, start.offset, order, h, 2 * h, variance)
    for _ in range(_MOST_MOVES):
        across = complement(best.direction)
        for e in np.concatenate([across, -across]):
            z = _unit(best.direction + step * e)
            trial = peak_at(X, labels, z, best.offset, order, h, h, variance)
            if trial.significance > best.significance:
                best = trial
                break
        else:
            step /= 2
            if step < _FINEST_STEP * h:
                break
    return best


@dataclass(frozen=True)
class Tilt:
    """How far a hyperplane is from a face: the face is where `u + shift + tilt.v = 0`."""

    shift: float
    tilt: Array
    across: Array
    """Rows: the directions v of the tilt."""
    shift_error: float
    tilt_errors: Array

    @property
    def size(self) -> float:
        """Norm of the correction."""
        return float(np.hypot(self.shift, np.linalg.norm(self.tilt)))

    @property
    def angle_error(self) -> float:
        """Standard error of the direction, radians."""
        return float(np.linalg.norm(self.tilt_errors))

    def applied(self, z: Array, s: float) -> tuple[Array, float]:
        """The corrected direction and offset."""
        w = z + self.tilt @ self.across
        norm = float(np.linalg.norm(w))
        return w / norm, (s - self.shift) / norm


def tilt_from(V: Array, across: Array, peak: Array, tilt: Array) -> Tilt:
    """The Newton step from what each sample adds to the two statistics.

    `peak` and `tilt` (n,) are labels times weights of the two orders, so that their sums are the
    statistics; V (n, features - 1) are the samples' coordinates across z.
    """
    chi = np.column_stack([np.ones(len(V)), V])
    psi = chi * _height_function(V, peak)[:, None]
    inverse = np.linalg.pinv((psi * peak[:, None]).T @ chi)
    terms = psi * tilt[:, None]
    theta = inverse @ terms.sum(axis=0)
    errors = np.sqrt(np.diag(inverse @ (terms.T @ terms) @ inverse.T))
    return Tilt(float(theta[0]), theta[1:], across, float(errors[0]), errors[1:])


def _height_function(V: Array, peak: Array) -> Array:
    """The height of the face as a quadratic function of v: its mean, and what is significant."""
    basis = hermite_columns(V, 2)
    coefficients = peak @ basis
    errors = np.sqrt(peak**2 @ basis**2)
    kept = np.abs(coefficients) > _COEFFICIENT_SIGNIFICANT * errors
    kept[0] = True
    return np.asarray(basis @ np.where(kept, coefficients, 0.0))


def measured_tilt(X: Array, labels: Array, z: Array, s: float, order: int, h: float) -> Tilt:
    """The Newton step from the samples in the bands about `z.x = s`."""
    u = X @ z - s
    inside = np.abs(u) < BANDS * h
    X, labels = X[inside], labels[inside]
    band = np.clip(np.floor(u[inside] / h).astype(np.intp) + BANDS, 0, 2 * BANDS - 1)
    a_sample = labels / np.maximum(np.bincount(band, minlength=2 * BANDS), 1)[band]
    across = complement(z)
    return tilt_from(
        X @ across.T,
        across,
        a_sample * PEAK[order][band] / h ** (order - 1),
        a_sample * TILT[order][band] / h ** (order - 2),
    )


def asked_tilt(
    ask: Callable[[Array], Array],
    z: Array,
    s: float,
    order: int,
    h: float,
    lines: int,
    rng: np.random.Generator,
) -> tuple[Tilt, float, float]:
    """The same from a function: each line across the hyperplane is asked in all bands.

    What varies from line to line cancels in the differences, so h can be as small as one likes.
    Also the statistic and its standard error. `8 lines` queries.
    """
    across = complement(z)
    V = rng.standard_normal((lines, len(z) - 1))
    centres = (np.arange(-BANDS, BANDS) + 0.5) * h
    u = centres + rng.uniform(-h / 2, h / 2, size=(lines, 1))
    X = (V @ across)[:, None, :] + (s + u)[..., None] * z
    y = ask(X.reshape(-1, len(z))).reshape(u.shape)
    peak = y @ PEAK[order] / h ** (order - 1)
    tilt = y @ TILT[order] / h ** (order - 2)
    error = float(np.std(peak) / np.sqrt(lines))
    return tilt_from(V, across, peak / lines, tilt / lines), float(np.mean(peak)), error


def complement(z: Array) -> Array:
    """Orthonormal rows across a unit vector."""
    return np.asarray(np.linalg.qr(np.column_stack([z, np.eye(len(z))]))[0][:, 1 : len(z)].T)


def _unit(z: Array) -> Array:
    return np.asarray(z / np.linalg.norm(z))


def hermite_columns(X: Array, degree: int) -> Array:
    """Products of orthonormal Hermite polynomials of the coordinates, total degree up to `degree`.

    The constant comes first.
    """
    n, d = X.shape
    tables = []
    for x in X.T:
        table = [np.ones(n), x]
        for k in range(2, degree + 1):
            table.append((x * table[-1] - np.sqrt(k - 1) * table[-2]) / np.sqrt(k))
        tables.append(table)
    found = [(np.ones(n), degree)]
    for i in range(d):
        found = [
            (column * tables[i][k] if k else column, left - k)
            for column, left in found
            for k in range(left + 1)
        ]
    return np.column_stack([column for column, _ in found])
