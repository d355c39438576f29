"""`"halfspaces"`: a union of halfspaces from 0/1 labels, or an intersection (GP19, section 2.3).

The paper takes approximate directions from Hermite moments (step 1, section 2.1), valid when
thresholds are high, and refines each by the share of positives in thin bands (step 2). From samples
a shorter way is as good as the samples allow, at thresholds of any height and for more halfspaces
than features. The building blocks are in `provenet.unions`; the steps are

1. *search*: a candidate from the positives that no halfspace claims yet, fitted by itself to all
   samples near it; again, until what is left is no more than chance.
2. *sharpen*: all faces at once, the blur falling by stages, each on the samples that it can see. At
   every stage a face that no longer claims anything alone is dropped, one that hides two is split,
   and positives that nobody claims start a new one.
3. *finish*: without flips the version space of every face, its mean and its spread.

A halfspace counts when the samples that it alone explains could not be so by chance: of the
`samples^(features + 1)` ways to cut the samples by a hyperplane, the best would gain as much as
`(features + 1) log(samples)` in log likelihood. Without flips that is features + 1 positives.

Nothing but the first guess of a candidate's threshold assumes Gaussian inputs.

An intersection `w_i.x > t_i for all i` is the complement of the union of `-w_i.x > -t_i`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from provenet.exceptions import InvalidInput, NoAnswer
from provenet.layered import LayeredNetwork, intersection, lowest_layer, union
from provenet.moments import Sums
from provenet.networks import row_blocks
from provenet.parallel import one_blas_thread, sum_over
from provenet.sources import Source
from provenet.typing import AnyArray, Array
from provenet.unions import (
    Blur,
    Faces,
    Flags,
    candidate_face,
    fit_faces,
    log_likelihood,
    soft_errors,
    split_face,
    version_space,
)

Sum = TypeVar("Sum")
Stage = Callable[[str, str], AbstractContextManager[Any]]

_BLOCK, _PROBED_BLOCKS = 4096, 8
_MOST_POSITIVES, _MOST_ROWS, _MOST_SEARCHED = 200_000, 60_000, 20_000
_FIRST, _COARSE, _SHARPER = 4.0, 16.0, 4.0
"""Sharpness of the first fit and of the last in the search, and its growth from stage to stage."""
_NEAR = 8.0
"""Margins, in blurs, beyond which a label says nothing about a face."""
_MISSED = 4.0
"""Margins, in blurs, by which a positive must be short of a face not to be claimed by it."""
_FLIPS_IN_SEARCH, _LEAST_FLIPS, _FEW_FLIPS = 0.01, 1e-4, 1e-3
_SAMPLES_A_BLUR = 2.0
"""Over the number of features, at a face, in the last stage when labels are flipped."""
_ATTEMPTS = 3
_MOST_FACES = 64
_CHANGES = 4
_FAR = 0.25
"""A label that is wrong at this distance from all faces is not wrong because of their errors."""
_CLEARLY_APART = 3.0
_NEEDED = 6
"""Positives that a halfspace needs to be found, over its number of unknowns."""


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
    """How many fired samples each halfspace alone accounts for."""
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

    Inputs are expected to be of mean 0 and variance 1. `units` is how many halfspaces there should
    be, None if unknown. With `above`, labels are numbers and fire above it. `stage` is told what is
    going on. Raises `NoAnswer` when there is nothing to return.
    """
    samples = Samples(source, above, intersection)
    with one_blas_thread():
        with stage("search", "positives that no halfspace claims"):
            positives = _positives(samples)
            faces = search(samples, positives, units, rng)
        with stage("sharpen", f"{len(faces)} faces"):
            fit = sharpen(samples, faces, positives, rng)
        with stage("finish", f"version spaces of {len(fit.faces)} faces"):
            found = finish(samples, fit, rng)
        return _judged(samples, found, positives, units)


# ---------------------------------------------------------------- the labels


def _positives(samples: Samples) -> Rows:
    """The samples that fire, after a check of the labels."""
    n, d = samples.size, samples.features
    if samples.above is None:
        y_not = samples.source.total(lambda X, y: np.sum((y != 0) & (y != 1)))
        if y_not:
            raise InvalidInput(
                f"{int(y_not)} of {n} labels are neither 0 nor 1: a union of halfspaces has 0/1 "
                "labels; give above= to say which numbers count as fired."
            )
    count = int(samples.over(lambda X, fired: int(fired.sum())))
    if count in (0, n):
        never, other = ("never", "below") if count == 0 else ("always", "above")
        raise NoAnswer(
            f"The labels {never} fire: all thresholds are {other} what {n} samples reach. Take "
            "more samples, or check which of the two labels stands for fired."
        )
    if count < d + 1:
        raise NoAnswer(
            _too_few(samples, count, "positives are fewer than a halfspace has unknowns")
        )
    return samples.gather(lambda X, fired: fired, _MOST_POSITIVES)


def _too_few(samples: Samples, count: int, what: str) -> str:
    needed = _NEEDED * (samples.features + 1) * samples.size / max(count, 1)
    return (
        f"{count} {what}: thresholds are too high for {samples.size} samples. About "
        f"{needed:.0e} samples are needed."
    )


def _nothing_found(samples: Samples, positives: Rows, units: int | None) -> str:
    if positives.count < _NEEDED * (samples.features + 1) * (units or 1):
        return _too_few(samples, positives.count // (units or 1), "positives a halfspace")
    return (
        f"No halfspace holds more of the {positives.count} positives than chance allows: the "
        "labels are no union of halfspaces, or too many are flipped. Labels of an intersection "
        "need intersection=True."
    )


# ---------------------------------------------------------------- what to make of it


@dataclass(frozen=True)
class Tally(Sums):
    """Counts over all samples."""

    far_outside: int
    far_positives: int
    far_inside: int
    far_negatives: int
    wrong: AnyArray
    """A number a face: samples on the wrong side, counted at the face with the largest margin."""
    near: AnyArray
    alone: AnyArray

    @property
    def flip_rate(self) -> float:
        """Share of labels that are wrong far from all faces."""
        far = self.far_outside + self.far_inside
        return (self.far_positives + self.far_negatives) / max(far, 1)


def _tally(samples: Samples, found: Found) -> Tally:
    faces, sharpness = found.faces, found.blur.sharpness
    blunt = np.minimum(sharpness, _NEAR / _FAR)

    def count(X: Array, fired: Flags) -> Tally:
        M = faces.margins(X)
        far = np.max(M * blunt, axis=1)
        outside, inside = far < -_NEAR, far > _NEAR
        top, first, second = _two_largest(M * sharpness)
        of_each = [
            np.bincount(top[which], minlength=len(faces))
            for which in (
                (first > 0) != fired,
                np.abs(first) < _NEAR,
                fired & (first > 0) & (second < 0),
            )
        ]
        numbers = (outside, outside & fired, inside, inside & ~fired)
        return Tally(*(int(which.sum()) for which in numbers), *of_each)

    return samples.over(count)


def _judged(samples: Samples, found: Found, positives: Rows, units: int | None) -> HalfspaceSet:
    tally = _tally(samples, found)
    sign = -1.0 if samples.complement else 1.0
    return HalfspaceSet(
        weights=sign * found.faces.weights,
        thresholds=sign * found.faces.thresholds,
        angle_errors=found.angle_errors,
        threshold_errors=found.threshold_errors,
        exclusive=tally.alone,
        separated=found.separated,
        training_errors=int(tally.wrong.sum()),
        flip_rate=tally.flip_rate,
        samples=samples.size,
        intersection=samples.complement,
        evidence=_evidence(samples, found, tally),
        problems=(
            *_missing(samples, found, positives, tally),
            *_too_close(found, tally),
            *_wrong_number(len(found.faces), units),
        ),
    )


def _evidence(samples: Samples, found: Found, tally: Tally) -> tuple[str, ...]:
    k, wrong = len(found.faces), int(tally.wrong.sum())
    angle, offset = np.degrees(found.angle_errors.max()), found.threshold_errors.max()
    fewest = int(np.ceil(_fewest_positives(samples, found.blur.false_positives)))
    sentences = [
        f"{k} halfspaces agree with {samples.size - wrong} of {samples.size} labels; each accounts "
        f"alone for {tally.alone.min()} positives or more, where {fewest} are beyond chance.",
        f"Standard errors are at most {angle:.2g} degrees and {offset:.2g} in the offset.",
    ]
    if tally.flip_rate > 0:
        sentences.append(
            f"{100 * tally.flip_rate:.2g}% of the labels far from all faces are wrong: labels are "
            f"flipped, and {k - int(found.separated.sum())} halfspaces are fits of greatest "
            "likelihood."
        )
    return tuple(sentences)


def _missing(samples: Samples, found: Found, positives: Rows, tally: Tally) -> list[str]:
    """Positives that nobody claims are flips only if they have no side and negatives flip too."""
    count, d = tally.far_positives, samples.features
    left = _unclaimed(positives, found.faces, found.blur.sharpness).X
    few = count < 4 * _fewest_positives(samples, found.blur.false_positives)
    one_sided = len(left) and np.sum(left.sum(axis=0) ** 2) / len(left) > d + 4 * np.sqrt(2 * d)
    expected = tally.far_inside * count / max(tally.far_outside, 1)
    if count and ((few and one_sided) or (expected > 10 and tally.far_negatives < expected / 3)):
        return [_too_few(samples, count, "positives are beyond no halfspace that was found")]
    return []


def _too_close(found: Found, tally: Tally) -> list[str]:
    flips_explain = tally.flip_rate * tally.near > 0.05
    sentences = [
        f"{tally.wrong[i]} labels near halfspace {i} contradict any single halfspace: two are too "
        "close to each other there to be told apart. Take more samples."
        for i in np.flatnonzero(~found.separated & ~flips_explain)
    ]
    W, errors = found.faces.weights, found.angle_errors
    for i, j in combinations(range(len(W)), 2):
        angle = 2 * np.arcsin(min(1.0, float(np.linalg.norm(W[i] - W[j])) / 2))
        if angle < _CLEARLY_APART * (errors[i] + errors[j]):
            sentences.append(
                f"Halfspaces {i} and {j} are {np.degrees(angle):.2g} degrees apart with standard "
                f"errors {np.degrees(errors[i]):.2g} and {np.degrees(errors[j]):.2g}: they are too "
                "close to each other to be told apart. Take more samples."
            )
    return sentences


def _wrong_number(found: int, units: int | None) -> list[str]:
    if units is None or units == found:
        return []
    if found > units:
        return [f"The labels need {found} halfspaces, more than the {units} asked for."]
    return [
        f"{found} halfspaces explain the labels as well as the samples can tell, fewer than the "
        f"{units} asked for: the others fire too rarely, are covered by these or too close to them."
    ]
