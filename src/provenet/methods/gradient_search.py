"""`"gradient-search"`: units of any threshold under a top without linear terms (GP19, 3 and C.1).

`f(x) = P(u(w_1.x - t_1), ..., u(w_k.x - t_k))`, x standard normal, u a step or a ReLU. A unit shows
in the means of f on the hyperplanes `z.x = s`: at its own direction and threshold they jump (step)
or bend (ReLU) by

    E[dP/dX_i | w_i.x = t_i]                                             (Theorem 7, Corollary 1)

and nowhere else (`thin_bands` has the statistic). *The condition is that this does not vanish*: of
`X_1 X_2 - X_1 / 2` with steps through the origin across each other only the second unit shows. All
directions have to be looked at, `(1 / resolution)^(features - 1)` of them: the theorem is about the
number of samples, not about time, and four features are the most that is accepted.

1. *Control.* A polynomial of the inputs is fitted and taken off the labels. It has no faces, so all
   faces stay; the labels vary less, those of ReLUs several times less.
2. *Scan.* The statistic at all offsets of each direction of a net. Claim 5 links the net to the
   bands: a face is seen from an angle of about their width. Peaks above the noise are candidates.
3. *Sharpen.* Steps: climb to the peak in ever thinner bands as long as it stands above the noise,
   then make a Newton step. ReLUs: their bands cannot be made that thin, so least squares for all
   candidates at once, `p(x) + sum_i u_i q_i(x) + products of the u_i` with polynomials p and q_i.
   Any (w, t) may be replaced by (-w, -t) in that model, and candidates need only be within some
   15 degrees. If the top is a polynomial of low degree the minimum is zero, at the truth.
4. *Again*, on the labels less what the units so far explain, until nothing new shows or nothing is
   left. Samples that may be on either side of a jump are left out.
5. *Evidence.* Each unit's statistic on labels from which the other units are taken off. It must
   stand above its noise and stay as high in thinner bands: that of smooth functions does not.

A function that may be asked is asked in the bands about each unit: Newton steps in bands of about
the width of the last error reach any angle.

Orientation. With steps, `X_i` and `1 - X_i` serve equally well under a suitable top: (w, t) and
(-w, -t) are the same unit, and the one with t > 0 is returned. With ReLUs the right one is told by
polynomials of the units alone. `oriented` says of which units this was clear.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import comb

import numpy as np

from provenet.activations import Activation, get_activation
from provenet.exceptions import InvalidInput
from provenet.networks import row_blocks
from provenet.sources.base import Source
from provenet.sources.queries import QuerySource
from provenet.thin_bands import (
    BANDS,
    SIGNIFICANT,
    WORTH_THINNER,
    Labels,
    Peak,
    asked_tilt,
    climb,
    complement,
    hermite_rows,
    is_face,
    measured_tilt,
    net_size,
    peak_at,
    scan,
    sphere_net,
    thinner_and_thinner,
)
from provenet.typing import AnyArray, Array, Seed

MOST_FEATURES = 4

_WIDTH = {1: 0.125, 2: 0.2}
"""Bands of the scan, by order: 1 for steps, 2 for ReLUs."""
_STEP = {1: 0.25, 2: 0.3}
"""Angle between neighbours in the net."""
_CONTROL_DEGREE = (0, 10, 10, 8, 6)
"""By number of features; with units in the model the next one."""
_FIT_DEGREE = (0, 8, 8, 6, 4)
_UNIT_DEGREE = 2
_MOST_IN_ALL_PRODUCTS = 4
_RIDGE = 1e-11
_CONTROL_ROWS = 100_000
_FIT_ROWS = 20_000
_MOST_FIT_ROWS = 100_000

_ROUNDS = 6
_PATIENCE = 2
_SCAN_SHARE = 0.7
"""The part of the time left that a scan may take."""
_CANDIDATES = {1: 12, 2: 6}
_WEAKEST = 0.25
"""Candidates for least squares, of the strongest."""
_SAME_ANGLE = 0.1
_SURE = 4.0
_LOW = 0.05
"""Part of its largest height below which a face is not looked at."""
_FAR_OUT = 2.0
"""Norm of a sample across a direction."""
_EXPLAINED = 1e-6
_ROUNDING = 1e-7

_FIT_ITERATIONS = 25
_TRIALS = 8
_LARGEST_STEP = 0.2
_CONVERGED = 1e-4
_USELESS = 1.02

_ORIENTATION_ROWS = 50_000
_MOST_ORIENTED = 6
_CLEARLY_POSITIVE = 3.0
_CLEAR = 6.0

_ANGLE = 1e-6
_LINES = 400
_ASKED_WIDTH = 4.0
"""Bands to ask in, over the error before."""


@dataclass(frozen=True)
class GradientSearch:
    """Units found by their faces, the clearest first."""

    weights: Array
    """Rows of norm 1."""
    thresholds: Array
    heights: Array
    """`E[dP/dX_i | w_i.x = t_i]` as measured."""
    significances: Array
    """Heights in standard errors."""
    angle_errors: Array
    """Standard errors of the directions, radians."""
    threshold_errors: Array
    oriented: AnyArray
    """Whether (w, t) could be told from (-w, -t); for steps, whether t is clearly above 0."""
    unexplained: float
    """Share of the labels' variance that the units and a polynomial of the inputs leave over."""
    directions: int
    """How many directions were looked at."""
    queries: int
    complete: bool
    """Whether the search came to its end before the deadline."""

    @property
    def units(self) -> int:
        """How many units were found."""
        return len(self.weights)


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
        """Samples further from the face than this are surely on the side that they seem to be."""
        return min(_SURE * (self.threshold_error + _FAR_OUT * self.angle_error), _WIDTH[1])

    def same_as(self, other: _Unit, h: float) -> bool:
        c = float(self.w @ other.w)
        return abs(c) > float(np.cos(_SAME_ANGLE)) and abs(self.t - other.t * c / abs(c)) < 2 * h


class _Clock:
    def __init__(self, deadline: float, progress: Callable[[float], None] | None) -> None:
        self.deadline, self.progress, self.done = deadline, progress, 0.0

    @property
    def over(self) -> bool:
        return time.monotonic() > self.deadline

    def scan_part(self, round_: int) -> Callable[[float], bool]:
        """Tells of progress within a round's scan, and whether time for it is left."""
        now = time.monotonic()
        until = now + _SCAN_SHARE * (self.deadline - now)
        low, high = 1 - 0.5**round_, 1 - 0.5 ** (round_ + 1)

        def look(fraction: float) -> bool:
            self.tell(low + fraction * (high - low))
            return time.monotonic() <= until

        return look

    def tell(self, fraction: float) -> None:
        self.done = max(self.done, fraction)
        if self.progress is not None:
            self.progress(self.done)


def order_of(activation: str | Activation) -> int:
    """Which derivative of delta shows a unit: 1 for a jump, 2 for a kink."""
    activation = get_activation(activation)
    if activation.name == "step":
        return 1
    if activation.slope is not None:
        return 2
    raise InvalidInput(
        f'method="gradient-search" looks for jumps and kinks of the labels, and {activation.name} '
        "units make none: it takes step, relu, leaky_relu and abs units."
    )


def check_features(features: int, step: float) -> None:
    """Refuse more features than can be searched, and say what the search would cost."""
    if features > MOST_FEATURES:
        raise InvalidInput(
            f'{features} features are too many for method="gradient-search": it looks at every '
            "direction, about (1 / resolution)^(features - 1) of them, here "
            f"{net_size(features, step):.1e} at {np.degrees(step):.0f} degrees. Use at most "
            f"{MOST_FEATURES}: keep those, or those combinations, that the labels depend on."
        )


# ---------------------------------------------------------------- 1. what is explained already


@dataclass(frozen=True)
class _Inputs:
    """Inputs with their polynomials."""

    X: Array
    P: Array
    L: Array

    @classmethod
    def of(cls, X: Array, degree: int) -> _Inputs:
        return cls(X, hermite_rows(X, degree), hermite_rows(X, _UNIT_DEGREE))


@dataclass(frozen=True)
class _Model:
    """`p(x) + sum_i u_i q_i(x) + products of the u_i`, u_i = u(w_i.x - t_i), linear in all else."""

    W: Array
    T: Array
    order: int
    degree: int

    @classmethod
    def of(cls, units: list[_Unit], features: int, order: int) -> _Model:
        W = np.array([unit.w for unit in units]).reshape(-1, features)
        degrees = _FIT_DEGREE if units else _CONTROL_DEGREE
        return cls(W, np.array([unit.t for unit in units]), order, degrees[features])

    @property
    def products(self) -> list[tuple[int, ...]]:
        """Products of units, as the units in them."""
        k = len(self.W)
        most = k if k <= _MOST_IN_ALL_PRODUCTS else 2
        squares = [(i, i) for i in range(k)] if self.order == 2 else []
        return squares + [c for m in range(2, most + 1) for c in combinations(range(k), m)]

    def values(self, X: Array) -> Array:
        U = self.W @ X.T - self.T[:, None]
        return (U > 0).astype(float) if self.order == 1 else np.maximum(U, 0)

    def rows(self, inputs: _Inputs) -> Array:
        """The terms of the model at each input, (terms, n)."""
        U = self.values(inputs.X)
        parts = [inputs.P, *(inputs.L * u for u in U)]
        parts += [np.prod(U[list(c)], axis=0)[None] for c in self.products]
        return np.concatenate(parts)

    def owned(self, i: int) -> AnyArray:
        """Which terms have unit i in them."""
        d, k = self.W.shape[1], len(self.W)
        polynomial = np.zeros(comb(self.degree + d, d), dtype=bool)
        own = np.repeat(np.arange(k) == i, comb(_UNIT_DEGREE + d, d))
        return np.concatenate([polynomial, own, np.array([i in c for c in self.products], bool)])

    def slope(self, i: int, inputs: _Inputs, c: Array) -> Array:
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

    def without(self, i: int) -> _Model:
        rest = np.arange(len(self.W)) != i
        return replace(self, W=self.W[rest], T=self.T[rest])

    def blocks(self, X: Array) -> Iterator[tuple[slice, Array]]:
        for rows in row_blocks(len(X)):
            yield rows, self.rows(_Inputs.of(X[rows], self.degree))


def _solved(G: Array, b: Array) -> Array:
    """`G^-1 b`; terms that are zero, or the same as others, do no harm."""
    size = np.sqrt(np.maximum(np.diag(G), np.finfo(float).tiny))
    scaled = G / np.outer(size, size) + _RIDGE * np.eye(len(G))
    size = size.reshape(-1, *[1] * (b.ndim - 1))
    return np.asarray(np.linalg.solve(scaled, b / size) / size)


class _Controlled:
    """Samples, and their labels less what a model of some units explains."""

    def __init__(self, X: Array, y: Array, units: list[_Unit], order: int) -> None:
        self.units, self.model = units, _Model.of(units, X.shape[1], order)
        W, T = self.model.W, self.model.T
        margins = np.array([unit.margin if order == 1 else 0.0 for unit in units])
        self.all, self.beside = (X, y), np.abs(W @ X.T - T[:, None]) < margins[:, None]
        clear = ~self.beside.any(axis=0)
        self.X, self.y = X[clear], y[clear]
        self.spread = float(np.std(y) + _ROUNDING * np.max(np.abs(y)))
        self.G, self.b = np.zeros(()), np.zeros(())
        for rows, M in self.model.blocks(self.X[:_CONTROL_ROWS]):
            self.G, self.b = self.G + M @ M.T, self.b + M @ self.y[rows]
        left = self._less(self.X, self.y, np.ones(len(self.b), dtype=bool))
        self.labels = Labels.of(self.X, left)

    def _less(self, X: Array, y: Array, terms: AnyArray) -> Array:
        """Labels less the least-squares fit by some of the terms."""
        c = _solved(self.G[np.ix_(terms, terms)], self.b[terms])
        left = np.zeros(len(X))
        for rows, M in self.model.blocks(X):
            left[rows] = y[rows] - c @ M[terms]
        left[np.abs(left) < _ROUNDING * self.spread] = 0
        return left

    @property
    def unexplained(self) -> float:
        """Share of the variance that is left."""
        return float(self.labels.variance / max(self.spread, np.finfo(float).tiny) ** 2)

    @property
    def explained(self) -> bool:
        return self.unexplained < _EXPLAINED**2

    def explained_without(self, i: int) -> bool:
        left = self._less(self.X[:_FIT_ROWS], self.y[:_FIT_ROWS], ~self.model.owned(i))
        return bool(np.std(left) < _EXPLAINED * self.spread)

    def about(self, i: int) -> Labels:
        """Samples near the face of unit i, and their labels less what all others explain."""
        X, y = self.all
        h = _WIDTH[self.model.order]
        near = np.abs(X @ self.model.W[i] - self.model.T[i]) < 2 * BANDS * h
        near &= ~np.delete(self.beside, i, axis=0).any(axis=0)
        return Labels.of(X[near], self._less(X[near], y[near], ~self.model.owned(i)))

    def in_heights(self, i: int, labels: Labels) -> Labels:
        """Labels over the height that the face of unit i has there by the model.

        They count by its square: parts of the face where labels do not jump add noise only.
        """
        c = _solved(self.G, self.b)
        inputs = (_Inputs.of(labels.X[rows], 0) for rows in row_blocks(len(labels.X)))
        Q = np.concatenate([np.ones(0), *(self.model.slope(i, part, c) for part in inputs)])
        high = np.abs(Q) > _LOW * np.max(np.abs(Q), initial=0.0)
        Q, y = Q[high], labels.y[high]
        variance = float(y @ y / max(Q @ Q, np.finfo(float).tiny))
        return Labels(labels.X[high], y / Q, variance, Q**2)


# ---------------------------------------------------------------- 3. sharpen: steps


def _sharpened(data: Labels, start: Peak, h: float, step: float) -> _Unit | None:
    """The jump near a candidate; None if there is none."""
    levels = thinner_and_thinner(data, start, 1, h, step)
    if not is_face(levels, 1):
        return None
    peak = next((p for p in reversed(levels) if p.significance > WORTH_THINNER), levels[0])
    w, t = peak.direction, peak.offset
    for _ in range(2):
        tilt = measured_tilt(data, w, t, 1, peak.h)
        if tilt.size > peak.h:
            break
        w, t = tilt.applied(w, t)
    errors = (min(e, peak.h) for e in (tilt.angle_error, tilt.shift_error))
    return _Unit(replace(peak, direction=w, offset=t), *errors)


# ---------------------------------------------------------------- 3. sharpen: ReLUs


class _Fit:
    """A model with its linear part fitted."""

    def __init__(self, model: _Model, inputs: _Inputs, y: Array) -> None:
        self.model, self.inputs, self.y = model, inputs, y
        self.M = model.rows(inputs)
        self.G, self.b = self.M @ self.M.T, self.M @ y
        self.c = _solved(self.G, self.b)
        self.residual = y - self.c @ self.M
        self.rss = float(self.residual @ self.residual)

    def negligible(self, rss: float) -> bool:
        return bool(rss < (_EXPLAINED * np.std(self.y)) ** 2 * len(self.y))

    def equations(self) -> tuple[Array, Array]:
        """Gauss-Newton for directions and thresholds: curvature and right-hand side.

        Variable projection: what the linear part can follow is taken off the Jacobian.
        """
        J = self._jacobian()
        MJ = self.M @ J.T
        return J @ J.T - MJ.T @ _solved(self.G, MJ), J @ self.residual

    def _jacobian(self) -> Array:
        model, X = self.model, self.inputs.X
        parts = []
        for i, w in enumerate(model.W):
            slope = model.slope(i, self.inputs, self.c) * (X @ w > model.T[i])
            parts += [slope * (complement(w) @ X.T), -slope[None]]
        return np.concatenate(parts)

    def rss_without(self, i: int) -> float:
        """The sum of squares without unit i, the rest refitted linearly."""
        rest = ~self.model.owned(i)
        c = _solved(self.G[np.ix_(rest, rest)], self.b[rest])
        residual = self.y - c @ self.M[rest]
        return float(residual @ residual)

    def units(self) -> list[_Unit]:
        """The units with their standard errors."""
        if len(self.model.W) == 0:
            return []
        covariance = np.linalg.pinv(self.equations()[0]) * self.rss / len(self.y)
        errors = np.sqrt(np.maximum(np.diag(covariance), 0)).reshape(self.model.W.shape)
        return [
            _Unit(Peak(w, t, 0.0, 1.0, _WIDTH[2]), float(np.linalg.norm(e[:-1])), float(e[-1]))
            for w, t, e in zip(self.model.W, self.model.T.tolist(), errors, strict=True)
        ]


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
        before = fit.rss
        for _ in range(_TRIALS):
            damped = curvature + np.diag(damping * np.diag(curvature) + np.finfo(float).tiny)
            step = np.asarray(np.linalg.solve(damped, right)).reshape(model.W.shape)
            trial = _Fit(_moved(fit.model, step), inputs, y)
            if trial.rss < before:
                fit, damping = trial, max(damping / 10, 1e-9)
                break
            damping *= 10
        settled = fit.rss > (1 - _CONVERGED) * before or fit.negligible(1e4 * fit.rss)
        if settled or clock.over:
            break
    return fit


def _fitted(units: list[_Unit], X: Array, y: Array, clock: _Clock) -> list[_Unit]:
    """All units by least squares; those that explain nothing are dropped."""
    some = slice(_FIT_ROWS)
    fit = _least_squares(_Model.of(units, X.shape[1], 2), X[some], y[some], clock)
    while len(fit.model.W) and not clock.over:
        without = [fit.rss_without(i) for i in range(len(fit.model.W))]
        i = int(np.argmin(without))
        if without[i] > _USELESS * fit.rss and not fit.negligible(without[i]):
            break
        fit = _least_squares(fit.model.without(i), X[some], y[some], clock)
    if len(fit.model.W) and len(X) > _FIT_ROWS and not fit.negligible(fit.rss):
        fit = _least_squares(fit.model, X[:_MOST_FIT_ROWS], y[:_MOST_FIT_ROWS], clock)
    return fit.units()


# ---------------------------------------------------------------- 4. rounds, and 5. evidence


def _new_units(data: _Controlled, peaks: list[Peak], order: int, clock: _Clock) -> list[_Unit]:
    """Units near the strongest candidates."""
    new: list[_Unit] = []
    h, step = _WIDTH[order], _STEP[order] / 2
    for peak in peaks[: _CANDIDATES[order]]:
        if clock.over or (order == 2 and peak.significance < _WEAKEST * peaks[0].significance):
            break
        unit = (
            _sharpened(data.labels, peak, h, step)
            if order == 1
            else _Unit(climb(data.labels, peak, order, h, step))
        )
        new += [unit] if unit is not None else []
    return _distinct(data.units + new, h)[len(data.units) :]


def _distinct(units: list[_Unit], h: float) -> list[_Unit]:
    """Without those that are the same as an earlier one."""
    kept: list[_Unit] = []
    for unit in units:
        if not any(unit.same_as(other, h) for other in kept):
            kept.append(unit)
    return kept


def _standing_steps(
    X: Array, y: Array, units: list[_Unit], clock: _Clock
) -> tuple[list[_Unit], _Controlled]:
    """Units whose jumps stand on labels from which the others are taken off, sharpened anew."""
    data = _Controlled(X, y, units, 1)
    standing = []
    for i, unit in enumerate(units):
        labels, h = data.about(i), min(16 * unit.peak.h, _WIDTH[1])
        sharper = _sharpened(data.in_heights(i, labels), unit.peak, h, h / 4)
        if sharper is not None:
            plain = peak_at(labels, sharper.w, sharper.t, 1, _WIDTH[1])
            peak = replace(sharper.peak, height=plain.height, error=plain.error)
            standing.append(replace(sharper, peak=peak))
        if clock.over:
            standing += units[i + 1 :]
            break
    standing, data = _needed(X, y, standing)
    if len(standing) < len(units) and not clock.over:
        return _standing_steps(X, y, standing, clock)
    return standing, data


def _needed(X: Array, y: Array, units: list[_Unit]) -> tuple[list[_Unit], _Controlled]:
    """Steps without those that do not show on average, or without which all is explained as well.

    If labels are explained to rounding, all units that this takes are there.
    """
    data = _Controlled(X, y, units, 1)
    weakest = min(range(len(units)), key=lambda i: units[i].peak.significance, default=0)
    if data.explained:
        drop = [i for i in range(len(units)) if data.explained_without(i)][:1]
    else:
        drop = [weakest] if units and units[weakest].peak.significance < SIGNIFICANT else []
    if not drop:
        return units, data
    return _needed(X, y, [unit for i, unit in enumerate(units) if i not in drop])


def _standing_relus(
    X: Array, y: Array, units: list[_Unit], clock: _Clock
) -> tuple[list[_Unit], _Controlled]:
    """Units by least squares whose kinks stand on labels from which the others are taken off.

    If labels are explained to rounding, all units that this takes are there.
    """
    units = _distinct(_fitted(units, X, y, clock), _WIDTH[2])
    data = _Controlled(X, y, units, 2)
    levels = [_kink_levels(data.about(i), unit) for i, unit in enumerate(units)]
    faces = [data.explained or is_face(peaks, 2) for peaks in levels]
    measured = [replace(u, peak=peaks[0]) for u, peaks in zip(units, levels, strict=True)]
    standing = [unit for unit, face in zip(measured, faces, strict=True) if face]
    if all(faces) or not standing or clock.over:
        return standing, data
    return _standing_relus(X, y, standing, clock)


def _kink_levels(labels: Labels, unit: _Unit) -> list[Peak]:
    """The statistic where least squares put a unit, in thinner bands while it is significant."""
    levels: list[Peak] = []
    h = _WIDTH[2]
    while len(levels) < 2 or levels[-1].significance > SIGNIFICANT:
        levels.append(peak_at(labels, unit.w, unit.t, 2, h))
        h *= 0.5**0.5
    return levels if len(levels) == 2 else levels[:-1]


def gradient_search(
    source: Source,
    activation: str | Activation = "step",
    *,
    units: int | None = None,
    angle: float = _ANGLE,
    deadline: float = np.inf,
    progress: Callable[[float], None] | None = None,
    rng: Seed = None,
) -> GradientSearch:
    """Units whose faces show in the labels of a source with standard normal inputs.

    At most `units` of them. `deadline` is a time of `time.monotonic`: what was found until then is
    returned, with `complete` False. If the source can be asked (`QuerySource`), directions are
    sharpened by further questions until their error is `angle`. All samples are held in memory.
    """
    order, rng = order_of(activation), np.random.default_rng(rng)
    check_features(source.features, _STEP[order])
    clock = _Clock(deadline, progress)
    X, y = source.rows(0, source.size)
    found, looked, complete = _search(X, y, order, clock, rng)
    found, queries = sorted(found, key=lambda unit: -unit.peak.significance)[:units], 0
    if isinstance(source, QuerySource):
        found = [_asked(source, unit, order, angle, clock, rng) for unit in found]
        queries = source.queries
    result = _result(X, y, found, get_activation(activation), order)
    complete = complete and not clock.over
    clock.tell(1.0)
    return replace(result, directions=looked, queries=queries, complete=complete)


def _search(
    X: Array, y: Array, order: int, clock: _Clock, rng: np.random.Generator
) -> tuple[list[_Unit], int, bool]:
    """The units, how many directions were looked at, and whether the search came to its end."""
    # In random order, so that any part of the net is spread over all directions.
    Z = rng.permutation(sphere_net(X.shape[1], _STEP[order]))
    standing: list[_Unit] = []
    data = _Controlled(X, y, standing, order)
    in_vain = looked = 0
    for round_ in range(_ROUNDS):
        look = clock.scan_part(round_)
        peaks, seen = scan(data.labels, Z, _STEP[order], order, _WIDTH[order], look)
        looked = max(looked, seen)
        new = _new_units(data, peaks, order, clock)
        if not new:
            return standing, looked, seen == len(Z)
        sharpen = _standing_steps if order == 1 else _standing_relus
        before = len(standing)
        standing, data = sharpen(X, y, data.units + new, clock)
        in_vain = 0 if len(standing) > before else in_vain + 1
        if data.explained or in_vain == _PATIENCE or clock.over:
            return standing, looked, seen == len(Z)
    return standing, looked, False


def _asked(
    source: QuerySource,
    unit: _Unit,
    order: int,
    angle: float,
    clock: _Clock,
    rng: np.random.Generator,
) -> _Unit:
    """Newton steps in bands of about the width of the last error, from questions in the bands."""
    while max(unit.angle_error, unit.threshold_error) > angle and not clock.over:
        h = _ASKED_WIDTH * max(unit.angle_error, unit.threshold_error)
        tilt, height, error = asked_tilt(source.ask, unit.w, unit.t, order, h, _LINES, rng)
        if abs(height) < SIGNIFICANT * error or tilt.size > h:
            break
        peak = Peak(*tilt.applied(unit.w, unit.t), height, error, h)
        sharper = _Unit(peak, tilt.angle_error, tilt.shift_error)
        worthwhile = sharper.margin < 0.9 * unit.margin
        unit = sharper
        if not worthwhile:
            break
    return unit


# ---------------------------------------------------------------- the answer, and its orientation


def _result(
    X: Array, y: Array, units: list[_Unit], activation: Activation, order: int
) -> GradientSearch:
    model = _Model.of(units, X.shape[1], order)
    heights = np.array([unit.peak.height for unit in units])
    errors = np.array([unit.threshold_error for unit in units])
    if order == 1:
        oriented = np.abs(model.T) > _CLEARLY_POSITIVE * errors
        sign = np.where(oriented, np.sign(model.T), np.sign(heights))
        heights = heights * sign
    else:
        sign, oriented = _orientation(X, y, model, activation)
    return GradientSearch(
        weights=model.W * sign[:, None],
        thresholds=model.T * sign,
        heights=heights,
        significances=np.array([unit.peak.significance for unit in units]),
        angle_errors=np.array([unit.angle_error for unit in units]),
        threshold_errors=errors,
        oriented=oriented,
        unexplained=_Controlled(X, y, units, order).unexplained,
        directions=0,
        queries=0,
        complete=True,
    )


def _orientation(
    X: Array, y: Array, model: _Model, activation: Activation
) -> tuple[Array, AnyArray]:
    """Signs of the units for which a polynomial of their values alone explains the labels best."""
    k = len(model.W)
    sign, oriented = np.where(model.T < 0, -1.0, 1.0), np.zeros(k, dtype=bool)
    if k == 0 or k > _MOST_ORIENTED:
        return sign, oriented
    U, y = X[:_ORIENTATION_ROWS] @ model.W.T - model.T, y[:_ORIENTATION_ROWS]
    squares = {
        signs: _top_residual(activation(U * np.array(signs)), y) ** 2
        for signs in product((1.0, -1.0), repeat=k)
    }
    means = {signs: float(np.mean(square)) for signs, square in squares.items()}
    best = min(means, key=lambda signs: means[signs])
    for i in range(k):
        other = min((s for s in means if s[i] != best[i]), key=lambda signs: means[signs])
        error = float(np.std(squares[other] - squares[best])) / np.sqrt(len(y))
        clear = means[other] - means[best] > _CLEAR * error or means[best] < 1e-6 * means[other]
        oriented[i] = clear and means[best] < 0.9 * means[other]
    return np.where(oriented, best, sign), oriented


def _top_residual(U: Array, y: Array) -> Array:
    M = hermite_rows(U, min(max(U.shape[1], 3), 4))
    return np.asarray(y - _solved(M @ M.T, M @ y) @ M)
