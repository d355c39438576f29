"""Units measured again where there is room.

Every unit is the linear function `u_i(x) = a_i (w_i.x + b_i)` where it is on, and u_0 is the linear
part. Where the units S are on, the gradient that is measured (with the constant) is
`u_0 + sum_{i in S} u_i`, with the error `rounding |f| / step`. So all that was measured is linear
in the u, known with weights, and least squares gives the u and their covariance C:

    minimise  sum_j |G_j - s_j.u|^2 / sigma_j^2,    C = (sum_j s_j s_j^T / sigma_j^2)^-1.

s_j (0 and 1: what is on) is known once the units are known roughly. A new place x with pattern s
and error sigma lowers the variance of unit i by `(C s)_i^2 / (s.C s + sigma^2)`: for the worst unit
in turn, the best of many random places is taken, until all units are known well or the questions
are used up. A place needs `features + 1` of them, with steps as long as the hyperplanes allow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr, solve_triangular

from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.questions import Ask, ask_gradients, most_rows
from provenet.extraction.tolerances import (
    CERTAIN,
    FEWEST_MET,
    LONGEST,
    MET_MARGIN,
    PLACES,
    PLACES_A_UNIT,
    PRIOR,
    ROUNDING_MET,
    SAFE,
    SHARPENINGS,
    SIGNIFICANT,
    STRANGE,
    TINIEST,
    TINY,
    TYPICAL_ROUNDING,
    WELL_KNOWN,
    WORTH_IT,
)
from provenet.extraction.units import Pieces, Units


@dataclass(frozen=True)
class Sharpened:
    """Units, and how far rounding lets them be off, relatively."""

    units: Units
    errors: Array

    @classmethod
    def of(cls, units: Units) -> Sharpened:
        """Nothing is known of the errors."""
        return cls(units, np.full(len(units), np.inf))

    @classmethod
    def as_measured(cls, units: Units, pieces: Pieces) -> Sharpened:
        """Units as they are, with the errors of what was measured."""
        S, weights = units.pattern(pieces.X), 1 / pieces.errors
        _, C = _least_squares(S, weights, np.zeros((len(S), 0)), _prior(units))
        return cls(units, _relative_errors(units, C))


@dataclass(frozen=True)
class _Places:
    """Candidates for measurements."""

    X: Array
    steps: Array
    """Along every axis."""
    patterns: Array
    errors: Array
    lengths: Array
    """As of `Pieces`."""

    def __getitem__(self, chosen: AnyArray) -> _Places:
        parts = self.X, self.steps, self.patterns, self.errors, self.lengths
        return _Places(*(part[chosen] for part in parts))


def sharpened(
    ask: Ask,
    units: Units,
    pieces: Pieces,
    box: Box,
    spare: Callable[[int], int],
    rng: np.random.Generator,
    deadline: Deadline = NEVER,
) -> tuple[Sharpened, Pieces]:
    """Least squares on what was measured, and on more until all units are known well.

    `spare` says how many questions so many units may still take. At the deadline the design of
    further measurements ends; asking for them does, too.
    """
    features = units.W.shape[1]
    pieces = _without_strangers(pieces, units)
    found = _without_nothing(_fitted(units, pieces), pieces)
    rounding = _rounding_met(found.units, pieces)
    pieces = _with_rounding(pieces, found.units, rounding)
    found = _fitted(found.units, pieces)
    for _ in range(SHARPENINGS):
        most = spare(len(found.units)) // (features + 1)
        if len(found.units) == 0 or most == 0 or found.errors.max() <= WELL_KNOWN:
            break
        places = _places(found, box, rng, rounding)
        chosen = _design(found.units, pieces, places, most, deadline)
        if len(chosen) == 0:
            break
        pieces = pieces + _measured(ask, places[np.array(chosen)])
        found = _without_nothing(_fitted(found.units, pieces), pieces)
    return found, pieces


def _without_strangers(pieces: Pieces, units: Units) -> Pieces:
    """Without gradients that units make otherwise: one whose step met a kink would spoil all."""
    sizes = np.linalg.norm(units.A, axis=0)
    known = float(Sharpened.as_measured(units, pieces).errors @ sizes)
    off = np.linalg.norm(pieces.without(units).gradients, axis=(1, 2))
    ours = off <= STRANGE * sizes.min(initial=np.inf) + CERTAIN * known
    return pieces[ours] if ours.any() else pieces


def _rounding_met(units: Units, pieces: Pieces) -> float:
    """Error of a value beside its size, as steps along lines show it; typical where few do."""
    met = pieces[np.isfinite(pieces.missed)]
    if len(met.X) < FEWEST_MET:
        return TYPICAL_ROUNDING
    relative = met.missed / (units.sizes(met.X) + TINIEST)
    return float(np.clip(MET_MARGIN * np.sqrt(np.mean(relative**2)), *ROUNDING_MET))


def _with_rounding(pieces: Pieces, units: Units, rounding: float) -> Pieces:
    """The same pieces with the errors that rounding of this size makes."""
    errors = rounding * units.sizes(pieces.X) / pieces.lengths + TINIEST
    return replace(pieces, errors=errors)


def _without_nothing(found: Sharpened, pieces: Pieces) -> Sharpened:
    """Without units that are tiny and no larger than their error: rounding taken for a kink."""
    sizes = np.linalg.norm(found.units.A, axis=0)
    real = (found.errors < SIGNIFICANT) | (sizes > TINY * sizes.max(initial=0.0))
    return found if real.all() else _fitted(found.units.keep(real), pieces)


def _fitted(units: Units, pieces: Pieces) -> Sharpened:
    """The least-squares units; changes are solved for, since what is known is known relatively."""
    S, weights = units.pattern(pieces.X), 1 / pieces.errors
    left = pieces.affine - np.einsum("nm,mod->nod", S, units.affine)
    change, C = _least_squares(S, weights, left.reshape(len(S), -1), _prior(units))
    better = units.with_affine(units.affine + change.reshape(units.affine.shape))
    return Sharpened(better, _relative_errors(better, C))


def _prior(units: Units) -> Array:
    """How far the linear functions may be off before anything is measured."""
    return np.asarray(PRIOR * (np.linalg.norm(units.affine, axis=(1, 2)) + TINIEST))


def _least_squares(S: Array, weights: Array, targets: Array, prior: Array) -> tuple[Array, Array]:
    """Weighted least squares about zero, and the covariance."""
    rows = np.vstack([S * weights[:, None], np.diag(1 / prior)])
    sides = np.vstack([targets * weights[:, None], np.zeros((len(prior), targets.shape[1]))])
    # Heavy rows first: QR is stable then although weights differ by many orders of magnitude.
    order = np.argsort(-np.abs(rows).max(axis=1))
    Q, R, columns = qr(rows[order], mode="economic", pivoting=True)
    inverse = np.empty_like(R)
    inverse[columns] = solve_triangular(R, np.eye(len(R)))
    return inverse @ (Q.T @ sides[order]), inverse @ inverse.T


def _relative_errors(units: Units, C: Array) -> Array:
    """Norm of a unit's error over that of its weights."""
    deviations = np.sqrt(np.diag(C)[1:] * units.W.shape[1])
    with np.errstate(divide="ignore"):
        return np.asarray(deviations / np.linalg.norm(units.A, axis=0))


def _places(found: Sharpened, box: Box, rng: np.random.Generator, rounding: float) -> _Places:
    """Random places, many of them about the hyperplane of a unit, whose pattern is certain."""
    units = found.units
    m, features = units.W.shape
    a_unit = most_rows(PLACES_A_UNIT * m, features) // m
    near = [_about(box, w, float(b), a_unit, rng) for w, b in zip(units.W, units.b, strict=True)]
    X = np.vstack([box.sample(most_rows(PLACES, features), rng), *near])
    z = np.abs(units.z(X))
    reach = np.linalg.norm(X, axis=1, keepdims=True) / np.sqrt(X.shape[1]) + 1
    X, z = _rows((z > CERTAIN * found.errors * reach).all(axis=1), X, z)
    steps = np.minimum(SAFE * _room(z, units.W), LONGEST * box.width)
    lengths = 1 / np.sqrt(np.mean(1 / steps**2, axis=1))
    steps = box.steps(X, steps)
    inside = box.contains(X + np.minimum(steps, 0)) & box.contains(X + np.maximum(steps, 0))
    errors = rounding * units.sizes(X) / lengths + TINIEST
    return _Places(X, steps, units.pattern(X), errors, lengths)[inside]


def _about(box: Box, w: Array, b: float, number: int, rng: np.random.Generator) -> Array:
    """Random places of the box about a hyperplane: as far from it as typical inputs are spread."""
    X, typical = box.sample(number, rng), float(np.linalg.norm(w * box.width))
    return box.moved(X, w, typical * rng.standard_normal(number) - (X @ w + b))


def _rows(kept: AnyArray, *arrays: Array) -> tuple[Array, ...]:
    return tuple(array[kept] for array in arrays)


def _room(z: Array, W: Array) -> Array:
    """How far along each axis the nearest hyperplane is: (n, features)."""
    room = np.full((len(z), W.shape[1]), np.inf)
    for own, w in zip(z.T, np.abs(W), strict=True):
        np.minimum(room, own[:, None] / (w + TINIEST), out=room)
    return room


def _design(
    units: Units, pieces: Pieces, places: _Places, most: int, deadline: Deadline
) -> list[int]:
    """Places to measure, one after the other the best for the worst unit."""
    if len(places.X) == 0:
        return []
    S, weights = units.pattern(pieces.X), 1 / pieces.errors
    chosen: list[int] = []
    for _ in range(min(most, 2 * len(units) + 1)):
        if deadline.passed:
            break
        rows = np.vstack([S, places.patterns[chosen]])
        all_weights = np.append(weights, 1 / places.errors[chosen])
        _, C = _least_squares(rows, all_weights, np.zeros((len(rows), 0)), _prior(units))
        errors = _relative_errors(units, C)
        worst = int(np.argmax(errors))
        if errors[worst] <= WELL_KNOWN:
            break
        spread = places.patterns @ C
        variance = np.einsum("nm,nm->n", spread, places.patterns) + places.errors**2
        gain = spread[:, worst + 1] ** 2 / variance
        best = int(np.argmax(gain))
        if gain[best] < WORTH_IT * C[worst + 1, worst + 1]:
            break
        chosen.append(best)
    return chosen


def _measured(ask: Ask, places: _Places) -> Pieces:
    """`features + 1` questions a place: itself, and a step along every axis."""
    X = places.X
    values = ask_gradients(ask, X, places.steps)
    taken = (X + places.steps) - X  # as rounded
    gradients = np.swapaxes((values[:, 1:] - values[:, :1]) / taken[:, :, None], 1, 2)
    constants = values[:, 0] - np.einsum("nod,nd->no", gradients, X)
    believed, missed = np.ones(len(X), dtype=bool), np.full(len(X), np.nan)
    return Pieces(X, gradients, constants, places.errors, believed, places.lengths, missed)
