"""Is what a network leaves of the labels noise? Noise knows nothing of inputs, units and pieces.

Least squares makes residuals small on the whole. Where labels are those of a network up to noise,
their mean is zero everywhere else as well: on every linear piece, where predictions are highest and
lowest, far out, and for every polynomial of the inputs. The size of noise may differ from place to
place. And labels end as noise does (`cut_off`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtr

from provenet.certify.checks import Check, Status
from provenet.certify.cut_off import ends_like_noise
from provenet.certify.residual_form import (
    NOT_CHANCE,
    UNLIKELY,
    Residuals,
    at_the_face,
    dependence,
    joint_dependence,
    like_the_next,
)
from provenet.certify.tolerances import FEWEST_IN_A_GROUP, LOUDEST, MOST_PIECES, SURE_OF_SPREAD
from provenet.common.typing import AnyArray, Array
from provenet.fitting.context import Context
from provenet.networks.network import Network

NO_DEPENDENCE = "what is left does not depend on the inputs"
"""The name of a check: where it fails there is more to be found."""


def noise_checks(context: Context, own: Network, found: str) -> Iterator[Check]:
    """Of a network on standardised inputs; `found` begins the advice."""
    drawn, fitted = context.drawn, context.problem.samples.size
    predicted = own(drawn.X)
    yield ends_like_noise(drawn.y, predicted, found)
    left = (drawn.y - predicted).reshape(drawn.size, -1)
    groups = _groups(own, drawn.X)
    worst = min(
        (_least_likely(groups, column) for column in left.T), key=lambda place: place.chance
    )
    yield Check(
        "what is left has mean zero everywhere",
        worst.chance >= UNLIKELY,
        f"chance {worst.chance:.2g} {worst.where}",
        f"at least {UNLIKELY:g}, in {len(groups.names)} places",
        f"{found}, but {worst.where} they are {worst.mean:+.2g} off in the mean: labels there "
        "come from something else, as when they are clipped, or a unit is missing.",
        Status.PARTIAL,
        drawn.size,
    )
    each = (_dependence(own, drawn.X, column, fitted) for column in left.T)
    sigmas = max(*each, joint_dependence(drawn.X, left))
    yield Check(
        NO_DEPENDENCE,
        sigmas <= NOT_CHANCE,
        f"{sigmas:.2g} standard errors",
        f"at most {NOT_CHANCE:g}",
        f"{found}, but what is left is predicted by the inputs ({sigmas:.0f} standard errors): the "
        "labels come from more units, or not from such a network.",
        Status.PARTIAL,
        drawn.size,
    )
    unit = _spiked(own, drawn.X, left)
    yield Check(
        "what is left is no larger at a kink",
        unit is None,
        "alike" if unit is None else f"larger at unit {unit}",
        "alike",
        f"{found}, but labels are explained worse next to the kink of unit {unit} than beside it: "
        "it may stand for two units. Take more samples.",
        Status.PARTIAL,
        drawn.size,
    )


def _dependence(own: Network, Z: Array, left: Array, fitted: int) -> float:
    """By how many standard errors residuals depend on polynomials, on neighbours, along a unit."""
    everything = Residuals(Z, Z, left)
    seen = Residuals(Z[:fitted], Z[:fitted], left[:fitted])
    unseen = Residuals(Z[fitted:], Z[fitted:], left[fitted:])
    orders = np.argsort(Z @ own.weights.T, axis=0).T
    along = max((like_the_next(left[order]) for order in orders), default=0.0)
    return max(along, dependence(unseen, seen, everything))


def _spiked(own: Network, Z: Array, left: Array) -> int | None:
    """The first unit at whose kink residuals are larger than beside it."""
    if not own.activation.kinked:
        return None
    distance = np.abs(Z @ own.weights.T + own.biases) / np.linalg.norm(own.weights, axis=1)
    size = np.linalg.norm(left / np.maximum(left.std(axis=0), np.finfo(float).tiny), axis=1)
    spiked = (i for i, column in enumerate(distance.T) if at_the_face(column, size))
    return next(spiked, None)


# ---------------------------------------------------------------- places


@dataclass(frozen=True)
class _Groups:
    """Places, each with the samples that lie there."""

    names: list[str]
    members: list[AnyArray]


@dataclass(frozen=True)
class _Place:
    """A place, what is left there in the mean, and the chance of that, all places counted."""

    where: str
    mean: float
    chance: float


def _groups(own: Network, Z: Array) -> _Groups:
    """Linear pieces; tails of the predictions, of the units and of the inputs' lengths."""
    names, members = [], []
    values = own(Z).reshape(len(Z), -1)
    lengths = np.einsum("nd,nd->n", Z, Z)
    units = Z @ own.weights.T + own.biases
    for q, column in enumerate(values.T):
        of = f" of output {q}" if values.shape[1] > 1 else ""
        order = np.argsort(column)
        for size in _sizes(len(Z)):
            names += [f"at the {size} lowest predictions{of}", f"at the {size} highest{of}"]
            members += [order[:size], order[-size:]]
    middle = "kink" if own.activation.kinked else "middle"
    far = {f"beyond the {middle} of unit {i}": z for i, z in enumerate(units.T)}
    for where, column in {"from the mean": lengths, **far}.items():
        order = np.argsort(column)
        for size in _sizes(len(Z)):
            names.append(f"at the {size} inputs farthest {where}")
            members.append(order[-size:])
    patterns, piece, count = np.unique(units > 0, axis=0, return_inverse=True, return_counts=True)
    for k in np.argsort(-count)[:MOST_PIECES]:
        if count[k] >= FEWEST_IN_A_GROUP:
            on = np.flatnonzero(patterns[k]).tolist()
            names.append(f"where units {on} are on" if on else "where all units are off")
            members.append(np.flatnonzero(piece.ravel() == k))
    return _Groups(names, members)


def _sizes(n: int) -> Iterator[int]:
    """Sizes of tails: few samples, and up to a quarter of all."""
    size = FEWEST_IN_A_GROUP
    while size <= n // 4:
        yield size
        size *= 2


def _least_likely(groups: _Groups, left: Array) -> _Place:
    """The place whose mean chance explains least, as many as there are places.

    By Student's test with the spread in the place, at least half of that of all, for residuals may
    happen to be alike; and with a spread several times that of all, which no place should have.
    """
    overall = max(float(np.std(left)), np.finfo(float).tiny)
    places = []
    for name, rows in zip(groups.names, groups.members, strict=True):
        part = left[rows]
        size = abs(part.mean()) * np.sqrt(len(part))
        spread = max(float(np.std(part, ddof=1)), SURE_OF_SPREAD * overall)
        alone = stdtr(len(part) - 1, -size / spread)
        chance = 2 * min(alone, ndtr(-size / (LOUDEST * overall))) * len(groups.names)
        places.append(_Place(name, float(part.mean()), float(min(chance, 1.0))))
    return min(places, key=lambda place: place.chance)
