"""`"gradient-search"`: units of any threshold under a top without linear terms (GP19, 3 and C.1).

`f(x) = P(u(w_1.x - t_1), ..., u(w_k.x - t_k))`, x standard normal, u a step or a ReLU. A unit shows
in the mean of f on the hyperplanes `z.x = s`: at its own direction and threshold that mean jumps
(step) or bends (ReLU) by

    E[dP/dX_i | w_i.x = t_i]                                             (Theorem 7, Corollary 1)

and nowhere else (`thin_bands` has the statistic). *The condition is that this does not vanish*: not
so for `X_1 X_2 - X_1 / 2` with steps through the origin, of which only the second unit shows. All
directions have to be looked at, `(1 / resolution)^(features - 1)` of them: the theorem is about the
number of samples, not about time, and four features are the most that is accepted.

1. *Control.* A polynomial of the inputs is fitted and taken off the labels. It has no jumps, so all
   faces stay; the labels vary less, ReLU labels several times less.
2. *Scan.* The statistic at all offsets of each direction of a net (Claim 5 links the net to the
   bands: a face is seen from an angle of about the width of the bands). Peaks above their noise are
   candidates.
3. *Sharpen.* Steps: climb to the peak in ever thinner bands, as long as it stands above the noise.
   ReLUs: least squares for all candidates at once, `p(x) + sum_i u_i q_i(x) + products of the u_i`
   with polynomials p, q_i; its minimum is exact if the top is a polynomial of low degree in each
   unit, and candidates need only be within some 15 degrees.
4. *Again*, on the labels less what the units found explain, until nothing new shows.
5. *Evidence.* Each unit's statistic on labels from which the other units are taken off. It must
   stand above its noise and stay as high in thinner bands: smooth functions do not.

A function that may be asked is asked in the bands about each unit: Newton steps with bands of the
width of the last error reach any angle.

Orientation. With steps, `X_i` and `1 - X_i` serve equally under a suitable top, so (w, t) and
(-w, -t) are the same unit; the one with t >= 0 is returned. With ReLUs the right one is told by
polynomials of the units alone. `oriented` says of which units this was clear.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import comb

import numpy as np
from scipy.ndimage import maximum_filter1d

from provenet.activations import Activation, get_activation
from provenet.exceptions import InvalidInput
from provenet.networks import row_blocks
from provenet.sources.base import Source
from provenet.sources.queries import QuerySource
from provenet.thin_bands import (
    BANDS,
    Peak,
    asked_tilt,
    band_profile,
    climb,
    complement,
    hermite_columns,
    measured_tilt,
    net_size,
    peak_at,
    sphere_net,
)
from provenet.typing import AnyArray, Array, Seed

MOST_FEATURES = 4

_WIDTH = {1: 0.125, 2: 0.2}
"""Bands of the scan, by order."""
_STEP = {1: 0.25, 2: 0.3}
"""Angle between neighbours in the net."""
_SHRINK = {1: 0.5, 2: 0.5**0.5}
_REACH = 2.5
_CONTROL_DEGREE = (0, 10, 10, 8, 6)
"""By number of features."""
_FIT_DEGREE = (0, 6, 6, 4, 4)
_UNIT_DEGREE = 2
_CONTROL_ROWS = 100_000
_FIT_ROWS = 20_000
_MOST_FIT_ROWS = 100_000

_FAR_OUT = 2.0
"""Norm of a sample across a direction."""
_CANDIDATE = 4.5
_SIGNIFICANT = 6.0
"""Standard errors. Pure noise reaches 5 or so over the 1e5 places of a scan and the climb from the highest."""
_WORTH_THINNER = 12.0
_STILL_THERE = 3.0
_ROUNDS = 5
_CANDIDATES = {1: 12, 2: 6}
_WEAKEST = 0.25
"""Candidates for least squares, of the strongest."""
_SAME_ANGLE = 0.1
_SCAN_SHARE = 0.7
_EXPLAINED = 1e-6

_FIT_ITERATIONS = 25
_TRIALS = 8
_LARGEST_STEP = 0.2
_CONVERGED = 1e-4
_USELESS = 1.02
_RIDGE = 1e-10
_MOST_IN_ALL_PRODUCTS = 4

_ORIENTATION_ROWS = 20_000
_ORIENTATION_DEGREE = 3
_MOST_ORIENTED = 6
_CLEAR = 6.0

_LINES = 400
_ASKING_SHRINK = 4.0
_ASKED_ANGLE = 1e-6


@dataclass(frozen=True)
class GradientSearch:
    """Units found by their faces, strongest first."""

    weights: Array
    """Unit rows."""
    thresholds: Array
    heights: Array
    """`E[dP/dX_i | w_i.x = t_i]` as measured."""
    significances: Array
    """Heights in standard errors."""
    angle_errors: Array
    """Standard errors of the directions, radians."""
    threshold_errors: Array
    oriented: AnyArray
    """Whether (w, t) could be told from (-w, -t), or t is clearly positive."""
    unexplained: float
    """Share of the labels' variance that the units and a polynomial of the inputs leave over."""
    directions: int
    """How many directions were looked at."""
    queries: int
    complete: bool
    """Whether the search ended by itself, and not by the deadline."""

    @property
    def units(self) -> int:
        """How many units were found."""
        return len(self.weights)

    @property
    def condition(self) -> str:
        """What a unit needs to be found, in words."""
        return (
            "A unit shows only if the mean of dP/dX_i over its face w_i.x = t_i is not zero (GP19, "
            "Theorem 7), and a step or ReLU only: smooth activations have no face."
        )


@dataclass(frozen=True)
class _Unit:
    peak: Peak
    angle_error: float = np.nan
    threshold_error: float = np.nan

    @property
    def w(self) -> Array:
        return self.peak.direction

    @property
    def t(self) -> float:
        return self.peak.offset

    @property
    def margin(self) -> float:
        """Samples further than this from the face are surely on the side that they seem to be."""
        return 4 * (self.threshold_error + _FAR_OUT * self.angle_error)


def order_of(activation: str | Activation) -> int:
    """Which derivative of delta shows a unit: 1 for a jump, 2 for a kink."""
    activation = get_activation(activation)
    if activation.name == "step":
        return 1
    if activation.slope is not None:
        return 2
    raise InvalidInput(
        f'method="gradient-search" looks for jumps and kinks, and {activation.name} units have '
        "none of either at their threshold: it takes step, relu, leaky_relu and abs units (with "
        'high thresholds and linear terms use method="lowest-layer").'
    )


def check_features(features: int, step: float) -> None:
    """Refuse more features than can be searched, and say what the search would cost."""
    if features > MOST_FEATURES:
        raise InvalidInput(
            f"{features} features are too many for gradient-search: it looks at every direction, "
            f"about (1 / resolution)^(features - 1) of them, here {net_size(features, step):.1e} "
            f"for a resolution of {np.degrees(step):.0f} degrees. Use at most {MOST_FEATURES}, for "
            "example by projecting the inputs on the few directions that the labels depend on."
        )


# ---------------------------------------------------------------- 1. what is explained already


@dataclass(frozen=True)
class _Inputs:
    """Inputs, with the polynomials that the model multiplies."""

    X: Array
    P: Array
    L: Array

    @classmethod
    def of(cls, X: Array, degree: int) -> _Inputs:
        return cls(X, hermite_columns(X, degree), hermite_columns(X, _UNIT_DEGREE))


@dataclass(frozen=True)
class _Model:
    """`p(x) + sum_i u_i q_i(x) + products of the u_i`, u_i = u(w_i.x - t_i), linear in all else."""

    W: Array
    T: Array
    order: int
    degree: int

    @property
    def products(self) -> list[tuple[int, ...]]:
        """Products of units, as the units in them."""
        k = len(self.W)
        most = k if k <= _MOST_IN_ALL_PRODUCTS else 2
        squares = [(i, i) for i in range(k)] if self.order == 2 else []
        return squares + [c for m in range(2, most + 1) for c in combinations(range(k), m)]

    def values(self, X: Array) -> Array:
        U = X @ self.W.T - self.T
        return (U > 0).astype(float) if self.order == 1 else np.maximum(U, 0)

    def columns(self, inputs: _Inputs) -> Array:
        U = self.values(inputs.X)
        parts = [inputs.P, *(inputs.L * u[:, None] for u in U.T)]
        parts += [np.prod(U[:, list(c)], axis=1, keepdims=True) for c in self.products]
        return np.concatenate(parts, axis=1)

    def owned(self, i: int) -> AnyArray:
        """Which columns have unit i in them."""
        d, k = self.W.shape[1], len(self.W)
        p, q = comb(self.degree + d, d), comb(_UNIT_DEGREE + d, d)
        own = np.repeat(np.arange(k) == i, q)
        return np.concatenate([np.zeros(p, bool), own, [i in c for c in self.products]]).astype(
            bool
        )

    def without(self, i: int) -> _Model:
        rest = np.arange(len(self.W)) != i
        return replace(self, W=self.W[rest], T=self.T[rest])

    def blocks(self, X: Array) -> Iterator[tuple[slice, Array]]:
        for rows in row_blocks(len(X)):
            yield rows, self.columns(_Inputs.of(X[rows], self.degree))

    def fitted(self, X: Array, y: Array) -> Array:
        """Coefficients by least squares."""
        G, b = np.zeros(()), np.zeros(())
        for rows, M in self.blocks(X):
            G, b = G + M.T @ M, b + M.T @ y[rows]
        return _solved(G, b)

    def residual(self, X: Array, y: Array, coefficients: Array) -> Array:
        return np.concatenate([y[rows] - M @ coefficients for rows, M in self.blocks(X)])


def _solved(G: Array, b: Array) -> Array:
    """`G^-1 b`; columns that are zero or the same as others do no harm."""
    size = np.sqrt(np.maximum(np.diag(G), np.finfo(float).tiny))
    scaled = G / np.outer(size, size) + _RIDGE * np.eye(len(G))
    size = size.reshape(-1, *[1] * (b.ndim - 1))
    return np.asarray(np.linalg.solve(scaled, b / size) / size)


def _model(units: list[_Unit], features: int, order: int, degrees: tuple[int, ...]) -> _Model:
    W = np.array([unit.w for unit in units]).reshape(-1, features)
    return _Model(W, np.array([unit.t for unit in units]), order, degrees[features])


class _Controlled:
    """Samples, and their labels less what a model of some units explains.

    Samples so close to the jump of a unit that they may be on either side of it are left out.
    """

    def __init__(self, X: Array, y: Array, units: list[_Unit], order: int) -> None:
        self.model = _model(units, X.shape[1], order, _CONTROL_DEGREE)
        margins = np.array([unit.margin if order == 1 else 0.0 for unit in units])
        self.beside = np.abs(X @ self.model.W.T - self.model.T) < margins
        self.all = X, y
        clear = ~self.beside.any(axis=1)
        self.X, self.y = X[clear], y[clear]
        self.labels = self.model.residual(self.X, self.y, self._fitted(self.model))

    def _fitted(self, model: _Model) -> Array:
        return model.fitted(self.X[:_CONTROL_ROWS], self.y[:_CONTROL_ROWS])

    @property
    def unexplained(self) -> float:
        return float(np.var(self.labels) / max(np.var(self.y), np.finfo(float).tiny))

    def about(self, i: int, width: float) -> tuple[Array, Array]:
        """Samples within `width` of the face of unit i; labels keep what this unit does."""
        model = self.model.without(i)
        X, y = self.all
        near = np.abs(X @ self.model.W[i] - self.model.T[i]) < width
        near &= ~np.delete(self.beside, i, axis=1).any(axis=1)
        return X[near], model.residual(X[near], y[near], self._fitted(model))


# ---------------------------------------------------------------- 2. the scan


class _Clock:
    def __init__(self, deadline: float, progress: Callable[[float], None] | None) -> None:
        self.deadline, self.progress, self.done = deadline, progress, 0.0

    @property
    def over(self) -> bool:
        return time.monotonic() > self.deadline

    def at(self, fraction: float) -> None:
        self.done = max(self.done, min(fraction, 1.0))
        if self.progress is not None:
            self.progress(self.done)


def _scan(
    data: _Controlled, Z: Array, order: int, h: float, until: float, tick: Callable[[float], None]
) -> tuple[list[Peak], int]:
    """Local maxima of the statistic over the net, strongest first, and how many were looked at."""
    variance = float(np.var(data.labels))
    found: list[AnyArray] = []
    for i, z in enumerate(Z):
        if time.monotonic() > until:
            break
        p = band_profile(data.X @ z, data.labels, order, h, -_REACH, _REACH, variance=variance)
        found.append(np.stack([p.heights, p.errors]))
        tick((i + 1) / len(Z))
    if not found:
        return [], 0
    heights, errors = np.stack(found, axis=1)
    best = _strongest_nearby(Z[: len(found)], heights / errors, order)
    places = [
        Peak(Z[i], float(p.offsets[j]), float(heights[i, j]), float(errors[i, j]), h)
        for i, j in zip(*np.nonzero(best), strict=True)
    ]
    return sorted(places, key=lambda peak: -peak.significance), len(found)


def _strongest_nearby(Z: Array, significance: Array, order: int) -> AnyArray:
    """Where no neighbour in direction and offset is higher, and noise is not as high."""
    a = np.abs(significance)
    widest = maximum_filter1d(a, 2 * 2 * BANDS + 1, axis=1, mode="constant")
    best = (a >= widest) & (a > _CANDIDATE)
    near = np.cos(1.5 * _STEP[order])
    G = Z @ Z.T
    for i in np.flatnonzero(best.any(axis=1)):
        same, opposite = np.flatnonzero(near < G[i]), np.flatnonzero(-near > G[i])
        others = np.concatenate([widest[same[same != i]], widest[opposite, ::-1]])
        best[i] &= a[i] > others.max(axis=0, initial=0.0)
    return np.asarray(best)


# ---------------------------------------------------------------- 3. sharpen: steps


def _stays(levels: list[Peak], order: int) -> bool:
    """Whether a peak is that of a face: high, and as high in thinner bands.

    From bands of a width h to thinner ones, a face keeps its height; what a kink adds to a jump
    falls as h, what a smooth function adds falls as h^3. The line is drawn at sqrt(h).
    """
    last = levels[-1]
    first = levels[max(len(levels) - 3, 0)]
    ratio = last.height / first.height if first.height else 0.0
    return (
        len(levels) > 1
        and levels[0].significance > _SIGNIFICANT
        and last.significance > _STILL_THERE
        and ratio > (last.h / first.h) ** (0.5 if order == 1 else 1.0)
    )


def _thinner(X: Array, labels: Array, start: Peak, order: int, h: float, step: float) -> list[Peak]:
    """The peak in thinner and thinner bands, as long as it stands above the noise."""
    levels: list[Peak] = []
    peak = start
    while True:
        peak = climb(X, labels, peak, order, h, step)
        levels.append(peak)
        weak = peak.significance < _WORTH_THINNER
        if (weak and len(levels) > 1) or peak.significance < _STILL_THERE:
            return levels
        h *= _SHRINK[order]
        step = h
        if np.sum(np.abs(X @ peak.direction - peak.offset) < BANDS * h) < 20 * 2 * BANDS:
            return levels


def _sharpened(
    X: Array, labels: Array, start: Peak, order: int, h: float, step: float
) -> _Unit | None:
    """A unit of a layer of steps near a candidate; None if there is no face."""
    levels = _thinner(X, labels, start, order, h, step)
    if not _stays(levels, order):
        return None
    peak = next((p for p in reversed(levels) if p.significance > _WORTH_THINNER), levels[0])
    w, t = peak.direction, peak.offset
    for _ in range(2):
        tilt = measured_tilt(X, labels, w, t, order, peak.h)
        if tilt.size > peak.h:
            break
        w, t = tilt.applied(w, t)
    error = min(tilt.angle_error, peak.h)
    return _Unit(replace(peak, direction=w, offset=t), error, min(tilt.shift_error, peak.h))


def _is_new(unit: _Unit, others: list[_Unit], h: float) -> bool:
    for other in others:
        cosine = float(unit.w @ other.w)
        if abs(cosine) > np.cos(_SAME_ANGLE) and abs(np.sign(cosine) * unit.t - other.t) < 2 * h:
            return False
    return True


# ---------------------------------------------------------------- 3. sharpen: ReLUs


class _Fit:
    """A model with its linear part fitted."""

    def __init__(self, model: _Model, inputs: _Inputs, y: Array) -> None:
        self.model, self.inputs, self.y = model, inputs, y
        self.M = model.columns(inputs)
        self.G, self.b = self.M.T @ self.M, self.M.T @ y
        self.c = _solved(self.G, self.b)
        self.residual = y - self.M @ self.c
        self.rss = float(self.residual @ self.residual)

    @property
    def zero(self) -> bool:
        return _negligible(self.rss, self.y)

    def equations(self) -> tuple[Array, Array]:
        """Gauss-Newton for directions and thresholds: curvature and right-hand side.

        Variable projection: what the linear part can follow is taken off the Jacobian.
        """
        J = self._jacobian()
        MJ = self.M.T @ J
        return J.T @ J - MJ.T @ _solved(self.G, MJ), J.T @ self.residual

    def _jacobian(self) -> Array:
        model, X, L = self.model, self.inputs.X, self.inputs.L
        U, k = model.values(X), len(model.W)
        first = len(self.c) - len(model.products)
        own = self.c[first - k * L.shape[1] : first].reshape(k, -1)
        parts = []
        for i, w in enumerate(model.W):
            slope = L @ own[i]
            for coefficient, units in zip(self.c[first:], model.products, strict=True):
                if i in units:
                    rest = list(units)
                    rest.remove(i)
                    slope += coefficient * units.count(i) * np.prod(U[:, rest], axis=1)
            slope *= U[:, i] > 0
            parts.append(slope[:, None] * np.column_stack([X @ complement(w).T, -np.ones(len(X))]))
        return np.concatenate(parts, axis=1)

    def rss_without(self, i: int) -> float:
        """The sum of squares without unit i, the rest refitted linearly."""
        rest = ~self.model.owned(i)
        c = _solved(self.G[np.ix_(rest, rest)], self.b[rest])
        return float(self.y @ self.y - 2 * self.b[rest] @ c + c @ self.G[np.ix_(rest, rest)] @ c)

    def errors(self) -> Array:
        """Standard errors, (units, features): the tilts of a unit, then its threshold."""
        covariance = np.linalg.pinv(self.equations()[0]) * self.rss / len(self.y)
        return np.sqrt(np.maximum(np.diag(covariance), 0)).reshape(self.model.W.shape)


def _moved(model: _Model, step: Array) -> _Model:
    largest = np.maximum(np.max(np.abs(step), axis=1, keepdims=True), _LARGEST_STEP)
    step = step * (_LARGEST_STEP / largest)
    W = np.array([w + s[:-1] @ complement(w) for w, s in zip(model.W, step, strict=True)])
    norm = np.linalg.norm(W, axis=1)
    return replace(model, W=W / norm[:, None], T=(model.T + step[:, -1]) / norm)


def _least_squares(model: _Model, X: Array, y: Array, clock: _Clock) -> _Fit:
    """Levenberg-Marquardt on directions and thresholds."""
    inputs = _Inputs.of(X, model.degree)
    fit, damping = _Fit(model, inputs, y), 1e-3
    for _ in range(_FIT_ITERATIONS if len(model.W) else 0):
        curvature, right = fit.equations()
        before = fit
        for _ in range(_TRIALS):
            damped = curvature + np.diag(damping * np.diag(curvature) + np.finfo(float).tiny)
            step = np.linalg.solve(damped, right).reshape(fit.model.W.shape)
            trial = _Fit(_moved(fit.model, step), inputs, y)
            if trial.rss < fit.rss:
                fit, damping = trial, max(damping / 10, 1e-9)
                break
            damping *= 10
        if fit.rss > (1 - _CONVERGED) * before.rss or _negligible(1e4 * fit.rss, y) or clock.over:
            break
    return fit


def _fitted(units: list[_Unit], X: Array, y: Array, clock: _Clock) -> list[_Unit]:
    """All units by least squares; those that explain nothing are dropped."""
    model = _model(units, X.shape[1], 2, _FIT_DEGREE)
    some = slice(_FIT_ROWS)
    fit = _least_squares(model, X[some], y[some], clock)
    while len(fit.model.W) and not clock.over:
        without = [fit.rss_without(i) for i in range(len(fit.model.W))]
        i = int(np.argmin(without))
        if without[i] > _USELESS * fit.rss and not _negligible(without[i], fit.y):
            break
        fit = _least_squares(fit.model.without(i), X[some], y[some], clock)
    if not fit.zero and len(X) > _FIT_ROWS:
        fit = _least_squares(fit.model, X[:_MOST_FIT_ROWS], y[:_MOST_FIT_ROWS], clock)
    return [
        _Unit(Peak(w, t, np.nan, np.nan, _WIDTH[2]), float(np.linalg.norm(e[:-1])), float(e[-1]))
        for w, t, e in zip(fit.model.W, fit.model.T.tolist(), fit.errors(), strict=True)
    ]


def _negligible(rss: float, y: Array) -> bool:
    return bool(rss < (_EXPLAINED * np.std(y)) ** 2 * len(y))


# ---------------------------------------------------------------- 4. rounds, and 5. evidence


def _new_units(
    data: _Controlled, peaks: list[Peak], units: list[_Unit], order: int, clock: _Clock
) -> list[_Unit]:
    """Units near the strongest candidates."""
    new: list[_Unit] = []
    h = _WIDTH[order]
    least = _WEAKEST * peaks[0].significance if peaks and order == 2 else 0.0
    for peak in peaks[: _CANDIDATES[order]]:
        if clock.over or peak.significance < least:
            break
        if order == 1:
            unit = _sharpened(data.X, data.labels, peak, order, h, _STEP[order] / 2)
        else:
            unit = _Unit(climb(data.X, data.labels, peak, order, h, _STEP[order] / 2))
        if unit is not None and _is_new(unit, units + new, h):
            new.append(unit)
    return new


def _evidence(data: _Controlled, units: list[_Unit], order: int, clock: _Clock) -> list[_Unit]:
    """Units whose faces stand on labels from which the other units are taken off."""
    kept = []
    for i, unit in enumerate(units):
        if clock.over and not np.isnan(unit.peak.height):
            kept.append(unit)
            continue
        h = _WIDTH[order]
        X, labels = data.about(i, (BANDS + 4) * h)
        if order == 1:
            start = min(16 * unit.peak.h, h)
            better = _sharpened(X, labels, unit.peak, order, start, start / 4)
        else:
            better = _standing(X, labels, unit)
        if better is not None:
            kept.append(better)
    return kept


def _standing(X: Array, labels: Array, unit: _Unit) -> _Unit | None:
    """A ReLU's statistic where least squares put it, in thinner and thinner bands."""
    levels: list[Peak] = []
    variance, h = float(np.var(labels)), _WIDTH[2]
    while not levels or len(levels) == 1 or levels[-1].significance > _SIGNIFICANT:
        levels.append(peak_at(X, labels, unit.w, unit.t, 2, h, 0.0, variance))
        h *= _SHRINK[2]
    if len(levels) > 2:
        levels.pop()
    if not _stays(levels, 2):
        return None
    return replace(unit, peak=levels[0])


def gradient_search(
    source: Source,
    activation: str | Activation = "step",
    *,
    units: int | None = None,
    angle: float = _ASKED_ANGLE,
    deadline: float = np.inf,
    progress: Callable[[float], None] | None = None,
    rng: Seed = None,
) -> GradientSearch:
    """Units whose faces show in the labels of a source with standard normal inputs.

    At most `units` of them. `deadline` is a time of `time.monotonic`: what was found until then is
    returned, with `complete` False. If the source can be asked (`QuerySource`), directions are
    sharpened by further questions until their error is `angle`. All samples are held in memory.
    """
    order = order_of(activation)
    d = source.features
    check_features(d, _STEP[order])
    X, y = source.rows(0, source.size)
    clock = _Clock(deadline, progress)
    Z = sphere_net(d, _STEP[order])
    Z = Z[np.random.default_rng(rng).permutation(len(Z))]  # so that any part of it is spread out
    found: list[_Unit] = []
    looked, complete = 0, False
    for share in _shares(_ROUNDS):
        data = _Controlled(X, y, found, order)
        if data.unexplained < _EXPLAINED**2:
            complete = True
            break
        left = deadline - time.monotonic()
        until = time.monotonic() + _SCAN_SHARE * left if np.isfinite(left) else np.inf
        tick = _ticks(clock, share)
        peaks, seen = _scan(data, Z, order, _WIDTH[order], until, tick)
        looked = max(looked, seen)
        new = _new_units(data, peaks, found, order, clock)
        if not new:
            complete = seen == len(Z) and not clock.over
            break
        before = len(found)
        found = found + new
        if order == 2:
            found = _fitted(found, X, y, clock)
            if len(found) <= before:
                complete = seen == len(Z) and not clock.over
                break
        if clock.over:
            break
    data = _Controlled(X, y, found, order)
    kept = _evidence(data, found, order, clock)
    kept.sort(key=lambda unit: -unit.peak.significance)
    kept = kept[:units]
    if isinstance(source, QuerySource):
        kept = [_asked(source, unit, order, angle, clock, rng) for unit in kept]
    result = _result(X, y, kept, get_activation(activation), order)
    clock.at(1.0)
    return replace(
        result,
        directions=looked,
        queries=source.queries if isinstance(source, QuerySource) else 0,
        complete=complete and not clock.over,
    )


def _shares(rounds: int) -> Iterator[tuple[float, float]]:
    """Which part of all the work a round's scan is taken to be: half of what is left."""
    done = 0.0
    for _ in range(rounds):
        yield done, done + 0.6 * (1 - done)
        done += 0.6 * (1 - done)


def _ticks(clock: _Clock, share: tuple[float, float]) -> Callable[[float], None]:
    return lambda fraction: clock.at(share[0] + fraction * (share[1] - share[0]))


def _asked(
    source: QuerySource, unit: _Unit, order: int, angle: float, clock: _Clock, rng: Seed
) -> _Unit:
    """Newton steps with bands as wide as the last error, from questions in the bands."""
    rng = np.random.default_rng(rng)
    h = 4 * max(unit.angle_error, unit.threshold_error, angle)
    while not clock.over:
        tilt, height, error = asked_tilt(source.ask, unit.w, unit.t, order, h, _LINES, rng)
        if abs(height) < _SIGNIFICANT * error or tilt.size > h:
            break
        w, t = tilt.applied(unit.w, unit.t)
        unit = _Unit(Peak(w, t, height, error, h), tilt.angle_error, tilt.shift_error)
        if h <= 4 * angle and tilt.angle_error <= angle:
            break
        h = max(h / _ASKING_SHRINK, angle)
    return unit


# ---------------------------------------------------------------- orientation


def _result(
    X: Array, y: Array, units: list[_Unit], activation: Activation, order: int
) -> GradientSearch:
    d = X.shape[1]
    W = np.array([unit.w for unit in units]).reshape(-1, d)
    T = np.array([unit.t for unit in units])
    heights = np.array([unit.peak.height for unit in units])
    errors = np.array([unit.threshold_error for unit in units])
    if order == 1:
        oriented = np.abs(T) > 3 * errors
        sign = np.where(oriented, np.sign(T), np.sign(heights))
        heights = heights * sign
    else:
        sign, oriented = _orientation(X, y, W, T, activation)
    data = _Controlled(X, y, units, order)
    return GradientSearch(
        weights=W * sign[:, None],
        thresholds=T * sign,
        heights=heights,
        significances=np.array([unit.peak.significance for unit in units]),
        angle_errors=np.array([unit.angle_error for unit in units]),
        threshold_errors=errors,
        oriented=oriented,
        unexplained=data.unexplained,
        directions=0,
        queries=0,
        complete=True,
    )


def _orientation(
    X: Array, y: Array, W: Array, T: Array, activation: Activation
) -> tuple[Array, AnyArray]:
    """Signs of the units for which a polynomial of their values alone explains the labels best."""
    k = len(W)
    positive = np.where(T < 0, -1.0, 1.0)
    if k == 0 or k > _MOST_ORIENTED:
        return positive, np.zeros(k, dtype=bool)
    rows = slice(_ORIENTATION_ROWS)
    U, y = X[rows] @ W.T - T, y[rows]
    squares = {
        signs: _top_residual(activation(U * np.array(signs)), y) ** 2
        for signs in product((1.0, -1.0), repeat=k)
    }
    best = min(squares, key=lambda signs: float(np.mean(squares[signs])))
    sign, oriented = np.array(best), np.zeros(k, dtype=bool)
    for i in range(k):
        flipped = [s for s in squares if s[i] != best[i]]
        other = min(flipped, key=lambda signs: float(np.mean(squares[signs])))
        gain = squares[other] - squares[best]
        spread = np.std(gain) / np.sqrt(len(gain))
        oriented[i] = np.mean(gain) > _CLEAR * spread and np.mean(squares[other]) > 1.1 * np.mean(
            squares[best]
        )
    return np.where(oriented, sign, positive), oriented


def _top_residual(U: Array, y: Array) -> Array:
    M = hermite_columns(U, _ORIENTATION_DEGREE)
    return np.asarray(y - M @ np.linalg.lstsq(M, y, rcond=None)[0])
