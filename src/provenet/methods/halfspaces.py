"""`"halfspaces"`: a union of halfspaces from 0/1 labels, or an intersection (GP19, section 2.3).

The paper takes approximate directions from Hermite moments (step 1, section 2.1), valid when
thresholds are high, and refines each by the share of positives in thin bands (step 2). From samples
a shorter way is as good as the samples allow, at thresholds of any height and for more halfspaces
than features. Its parts are in `provenet.unions`:

1. *search*: a candidate from the positives that no halfspace claims yet, fitted by itself to all
   samples near it; again, until what is left is no more than chance.
2. *sharpen*: all faces at once, the blur falling by stages, each on the samples that it can see. At
   every stage a face that claims next to nothing alone is dropped, one that hides two is split, and
   positives that nobody claims start a new one.
3. *finish*: the version space of every face, its mean and its spread. With many flipped labels the
   soft fit stands, with its standard errors.

A halfspace counts when the samples that it alone explains could not be so by chance: of the
`samples^(features + 1)` ways to cut the samples by a hyperplane, the best would gain as much as
`(features + 1) log(samples)` in log likelihood. Without flips that is a few positives more than
features.

Nothing but the first guess of a candidate's threshold assumes Gaussian inputs.

An intersection, `w_i.x > t_i` for all i, is the complement of the union of `-w_i.x > -t_i`.

Cost: some passes over the samples, about one a halfspace and three to five a stage. Memory: the
positives (up to 200,000) and the samples near the faces (up to 60,000).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import gammainc

from provenet.exceptions import InvalidInput, NoAnswer
from provenet.layered import LayeredNetwork, intersection, lowest_layer, union
from provenet.moments import Sums
from provenet.parallel import one_blas_thread
from provenet.sources import Source
from provenet.typing import AnyArray, Array
from provenet.unions import (
    NEAR,
    Flags,
    Found,
    Rows,
    Samples,
    fewest_positives,
    finish,
    search,
    sharpen,
    two_largest,
    unclaimed,
)

Stage = Callable[[str, str], AbstractContextManager[Any]]

_MOST_POSITIVES = 200_000
_MOST_FACES = 64
_NEEDED = 6
"""Positives that a halfspace needs to be found, over its number of unknowns."""
_FAR = 0.25
"""A label that is wrong at this distance from all faces is not wrong because of their errors."""
_CLEARLY_APART = 3.0
_HARDLY_KNOWN = 0.25
"""An angle error, in radians, beyond which a halfspace is not known."""
_NO_CHANCE = 1e-3
_SIGMAS = 4.0


@dataclass(frozen=True)
class HalfspaceSet:
    """A union of halfspaces `weights_i . x > thresholds_i`, or their intersection."""

    weights: Array
    """(units, features), rows of norm 1."""
    thresholds: Array
    angle_errors: Array
    """Root mean square angle to the truth to be expected, in radians."""
    threshold_errors: Array
    exclusive: AnyArray
    """How many samples each halfspace alone accounts for: those inside it and no other (of an
    intersection: outside it and no other)."""
    separated: Flags
    """Which halfspaces agree with every label near them."""
    training_errors: int
    flip_rate: float
    """Share of labels that are wrong far from every face: 0 for labels without noise."""
    samples: int
    intersection: bool
    evidence: tuple[str, ...]
    """What was found and how far to trust it."""
    problems: tuple[str, ...]
    """What stands against it, one sentence each; none for a full success."""

    @property
    def units(self) -> int:
        """Number of halfspaces."""
        return len(self.thresholds)

    @property
    def success(self) -> bool:
        """Whether nothing stands against the answer."""
        return not self.problems

    @property
    def network(self) -> LayeredNetwork:
        """The same as steps under OR, or AND."""
        layer = lowest_layer(self.weights, self.thresholds, "step")
        return LayeredNetwork(layer, intersection if self.intersection else union)

    def __call__(self, X: Array) -> Array:
        """Predicted labels, 0 or 1."""
        return self.network(X)


def learn_union(
    source: Source,
    units: int | None = None,
    *,
    rng: np.random.Generator,
    intersection: bool = False,
    above: float | None = None,
    stage: Stage = lambda name, message: nullcontext(),
) -> HalfspaceSet:
    """Normals and offsets of a union (or intersection) of halfspaces from its 0/1 labels.

    Inputs should have mean 0 and variance 1. `units` is how many halfspaces there should be, None
    if unknown: it is compared with what is found. With `above`, labels are numbers and fire above
    it. `stage` is told what goes on. Raises `NoAnswer` when there is nothing to return.
    """
    samples = Samples(source, above, intersection)
    most = max(_MOST_FACES, 2 * (units or 0))
    with one_blas_thread():
        with stage("search", "positives that no halfspace claims"):
            positives = _positives(samples)
            faces = search(samples, positives, most, rng)
            _check_found(samples, positives, len(faces), most, units)
        with stage("sharpen", f"{len(faces)} faces"):
            fit = sharpen(samples, faces, positives, rng)
        with stage("finish", f"{len(fit.faces)} faces"):
            found = finish(samples, fit, rng)
            return _judged(samples, found, positives, units)


# ---------------------------------------------------------------- conditions on the labels


def _positives(samples: Samples) -> Rows:
    """The samples that fire, after a check of the labels."""
    n, d = samples.size, samples.features
    if samples.above is None:
        other = int(samples.source.total(lambda X, y: np.sum((y != 0) & (y != 1))))
        if other:
            raise InvalidInput(
                f"{other} of {n} labels are neither 0 nor 1, and a union of halfspaces has no "
                "others: give above= to say which numbers count as fired."
            )
    count = int(samples.over(lambda X, fired: int(fired.sum())))
    if count in (0, n):
        how, where = ("never", "higher than") if count == 0 else ("always", "lower than")
        raise NoAnswer(
            f"The labels {how} fire: some threshold is {where} {n} samples reach. Take more "
            "samples, or check which of the two labels stands for fired."
        )
    if count <= d:
        raise NoAnswer(_too_rare(samples, count, f"{count} samples fire"))
    return samples.gather(lambda X, fired: fired, _MOST_POSITIVES)


def _too_rare(samples: Samples, count: float, what: str) -> str:
    needed = _NEEDED * (samples.features + 1)
    return (
        f"{what}, and a halfspace needs about {needed} to be found: thresholds are too high for "
        f"{samples.size} samples. About {samples.size * needed / count:.0e} would be needed."
    )


def _check_found(
    samples: Samples, positives: Rows, found: int, most: int, units: int | None
) -> None:
    if found == most:
        raise NoAnswer(
            f"{most} halfspaces do not account for the labels: they are no union of few "
            "halfspaces. Labels of an intersection need intersection=True."
        )
    if found:
        return
    share = positives.count / (units or 1)
    if share < _NEEDED * (samples.features + 1):
        raise NoAnswer(_too_rare(samples, share, f"{share:.0f} samples a halfspace fire"))
    raise NoAnswer(
        f"No halfspace holds more of the {positives.count} samples that fire than chance allows: "
        "they are spread over too many halfspaces (take more samples), or too many labels are "
        "flipped, or this is no union of halfspaces. An intersection needs intersection=True."
    )


# ---------------------------------------------------------------- what to make of the answer


@dataclass(frozen=True)
class Tally(Sums):
    """Counts over all samples, near and far from the faces."""

    outside: int
    """Far from all faces and claimed by none."""
    positives_outside: int
    inside: int
    negatives_inside: int
    wrong: AnyArray
    """A number a face, like the next two: samples on the wrong side."""
    near: AnyArray
    alone: AnyArray

    @property
    def flip_rate(self) -> float:
        """Share of labels that are wrong far from all faces."""
        wrong = self.positives_outside + self.negatives_inside
        return wrong / max(self.outside + self.inside, 1)


def _tally(samples: Samples, found: Found) -> Tally:
    faces, sharpness = found.faces, found.blur.sharpness
    blunt = np.minimum(sharpness, NEAR / _FAR)

    def count(X: Array, fired: Flags) -> Tally:
        M = faces.margins(X)
        far = np.max(M * blunt, axis=1)
        outside, inside = far < -NEAR, far > NEAR
        top, first, second = two_largest(M * sharpness)
        sets = (fired != (first > 0), np.abs(first) < NEAR, fired & (first > 0) & (second < 0))
        return Tally(
            int(outside.sum()),
            int(np.sum(outside & fired)),
            int(inside.sum()),
            int(np.sum(inside & ~fired)),
            *(np.bincount(top[which], minlength=len(faces)) for which in sets),
        )

    return samples.over(count)


def _judged(samples: Samples, found: Found, positives: Rows, units: int | None) -> HalfspaceSet:
    tally = _tally(samples, found)
    hide_two = _hide_two(found, tally)
    sign = -1.0 if samples.complement else 1.0
    return HalfspaceSet(
        weights=sign * found.faces.weights,
        thresholds=sign * found.faces.thresholds,
        angle_errors=np.where(
            hide_two, np.maximum(found.angle_errors, found.tilts), found.angle_errors
        ),
        threshold_errors=found.threshold_errors,
        exclusive=tally.alone,
        separated=found.contradicted == 0,
        training_errors=int(tally.wrong.sum()),
        flip_rate=tally.flip_rate,
        samples=samples.size,
        intersection=samples.complement,
        evidence=_evidence(samples, found, tally),
        problems=(
            *_missing(samples, found, positives, tally),
            *_too_close(found, tally, hide_two),
            *_wrong_number(len(found.faces), units),
        ),
    )


def _evidence(samples: Samples, found: Found, tally: Tally) -> tuple[str, ...]:
    k, n = len(found.faces), samples.size
    fewest = int(np.ceil(fewest_positives(samples, found.blur.false_positives)))
    angle, offset = np.degrees(found.angle_errors.max()), found.threshold_errors.max()
    sentences = [
        f"Halfspaces found: {k}. They agree with {n - int(tally.wrong.sum())} of {n} labels, and "
        f"each alone accounts for {tally.alone.min()} or more, where {fewest} are beyond chance.",
        f"Standard errors are at most {angle:.2g} degrees and {offset:.2g} in the offset.",
    ]
    if tally.flip_rate > 0:
        sentences.append(
            f"Far from all faces {100 * tally.flip_rate:.2g}% of the labels are wrong: labels are "
            "flipped at about this rate, and the fit allows for it."
        )
    return tuple(sentences)


def _missing(samples: Samples, found: Found, positives: Rows, tally: Tally) -> list[str]:
    """Positives far from all faces are flips if they have no direction and negatives flip too."""
    count, d = tally.positives_outside, samples.features
    if count == 0:
        return []
    X = unclaimed(positives, found.faces, found.blur.sharpness).X
    few = count < 4 * fewest_positives(samples, found.blur.false_positives)
    # The squared length of a sum of m standard normal vectors is m times a chi square.
    directed = np.sum(X.sum(axis=0) ** 2) > len(X) * (d + _SIGMAS * np.sqrt(2 * d))
    flips = tally.inside * count / max(tally.outside, 1)
    lopsided = flips > 10 and tally.negatives_inside < flips / 3
    if (few and directed) or lopsided:
        what = f"{count} samples fire beyond no halfspace that was found"
        return [_too_rare(samples, count, what)]
    return []


def _hide_two(found: Found, tally: Tally) -> Flags:
    """Faces with more contradictions among the labels near them than a few flips would make.

    The chance of c or more flips where f are expected is that of a Poisson variable.
    """
    expected = (tally.flip_rate + 1 / max(tally.outside, 1)) * tally.near
    chance = gammainc(np.maximum(found.contradicted, 1), expected)
    return np.asarray((found.contradicted > 0) & (chance < _NO_CHANCE) & (not found.flipped))


def _too_close(found: Found, tally: Tally, hide_two: Flags) -> list[str]:
    sentences = [
        f"{found.contradicted[i]} labels near halfspace {i} contradict the rest: it stands for two "
        "halfspaces that are too close to each other to be told apart. Take more samples."
        for i in np.flatnonzero(hide_two)
    ]
    W, errors = found.faces.weights, found.angle_errors
    for i in np.flatnonzero(errors > _HARDLY_KNOWN):
        sentences.append(
            f"Halfspace {i} is known to {np.degrees(errors[i]):.0f} degrees only: {tally.alone[i]} "
            "samples alone speak for it. Take more samples."
        )
    for i, j in combinations(np.flatnonzero(errors <= _HARDLY_KNOWN), 2):
        angle = 2 * np.arcsin(min(1.0, float(np.linalg.norm(W[i] - W[j])) / 2))
        if angle < _CLEARLY_APART * (errors[i] + errors[j]):
            sentences.append(
                f"Halfspaces {i} and {j} are {np.degrees(angle):.2g} degrees apart, with standard "
                f"errors of {np.degrees(errors[i]):.2g} and {np.degrees(errors[j]):.2g}: too close "
                "to each other to be told apart. Take more samples."
            )
    return sentences


def _wrong_number(found: int, units: int | None) -> list[str]:
    if units is None or units == found:
        return []
    if found > units:
        return [f"The labels need {found} halfspaces, more than the {units} asked for."]
    return [
        f"Halfspaces found: {found}, fewer than the {units} asked for; the others fire too rarely, "
        "are covered by these or are too close to them for the samples to tell."
    ]
