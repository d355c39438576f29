"""What to make of faces that were found: evidence for them, and problems in one sentence each.

Labels that are wrong far from all faces are flips, if they know nothing of the inputs; else they
come from something that is no union of these halfspaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import bdtrc, chdtrc, gammainc

from provenet.common.typing import AnyArray, Array
from provenet.data.sums import Sums
from provenet.lowest_layer.unions.faces import Flags, two_largest
from provenet.lowest_layer.unions.finish import Found
from provenet.lowest_layer.unions.halfspace_set import HalfspaceSet
from provenet.lowest_layer.unions.noisy_or import NEAR
from provenet.lowest_layer.unions.samples import Samples
from provenet.lowest_layer.unions.search import fewest_positives

NEEDED = 6
"""Positives that a halfspace needs to be known well, over its number of unknowns."""
_FAR = 0.25
"""A label that is wrong at this distance from all faces is not wrong because of their errors."""
_CLEARLY_APART = 3.0
_HARDLY_KNOWN = 0.25
"""An angle error, in radians, beyond which a halfspace is not known."""
_NO_CHANCE, _NO_FLIPS = 1e-3, 1e-6
_TOO_MANY_WRONG = 0.4
_FEW_FLIPS, _HARDLY_FLIPS = 2, 0.01
"""Wrong labels far from all faces, below which those near them are not taken for flips, and the
chance of so many near them, below which they are not either."""
_FEATURES_WRONG, _SIGMAS = 2.0, 5.0


def too_rare(samples: Samples, count: float, what: str) -> str:
    """What to say of a halfspace with too few positives."""
    needed = NEEDED * (samples.features + 1)
    return (
        f"{what}, and a halfspace needs about {needed} to be known well: thresholds are too high "
        f"for {samples.size} samples. About {samples.size * needed / count:.0e} would be needed."
    )


@dataclass(frozen=True)
class Region(Sums):
    """Sums over samples far from all faces: of features `f = (x, |x|^2)`, of all and the wrong."""

    n: int
    f: Array
    ff: Array
    wrong: int
    wrong_f: Array

    @classmethod
    def of(cls, X: Array, wrong: Flags) -> Region:
        """The sums over one block."""
        f = np.column_stack([X, np.einsum("nd,nd->n", X, X)])
        return cls(len(X), f.sum(axis=0), f.T @ f, int(wrong.sum()), f[wrong].sum(axis=0))

    @property
    def chance(self) -> float:
        """Of wrong labels as unlike the others as these, if they are flips at random."""
        if self.wrong in (0, self.n):
            return 1.0
        mean = self.f / self.n
        covariance = self.ff / self.n - np.outer(mean, mean)
        difference = self.wrong_f / self.wrong - mean
        squared = self.wrong * difference @ np.linalg.pinv(covariance) @ difference
        return float(chdtrc(len(mean), squared / (1 - self.wrong / self.n)))


@dataclass(frozen=True)
class Tally(Sums):
    """Counts over all samples, near and far from the faces."""

    outside: Region
    """Far from all faces and claimed by none."""
    inside: Region
    wrong: AnyArray
    """A number a face, like the next two: samples on the wrong side."""
    near: AnyArray
    alone: AnyArray
    fired: int

    @property
    def flip_rate(self) -> float:
        """Share of labels that are wrong far from all faces."""
        wrong, far = self.outside.wrong + self.inside.wrong, self.outside.n + self.inside.n
        return wrong / max(far, 1)


def _tally(samples: Samples, found: Found) -> Tally:
    faces, sharpness = found.faces, found.blur.sharpness
    blunt = np.minimum(sharpness, NEAR / _FAR)

    def count(X: Array, fired: Flags) -> Tally:
        M = faces.margins(X)
        far = np.max(M * blunt, axis=1)
        outside, inside = far < -NEAR, far > NEAR
        top, first, second = two_largest(M * sharpness)
        sets = (fired != (first > 0), np.abs(first) < NEAR, fired & (first > 0) & (second < 0))
        wrong, near, alone = (np.bincount(top[one], minlength=len(faces)) for one in sets)
        return Tally(
            Region.of(X[outside], fired[outside]),
            Region.of(X[inside], ~fired[inside]),
            wrong,
            near,
            alone,
            int(fired.sum()),
        )

    return samples.over(count)


def judged(samples: Samples, found: Found, units: int | None) -> HalfspaceSet:
    """The faces as halfspaces, with what speaks for them and against."""
    tally = _tally(samples, found)
    rare = tally.outside.wrong < NEEDED * (samples.features + 1)
    no_union, hide_two = _no_union(samples, found, tally, rare), _hide_two(found, tally)
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
        is_union=not no_union,
        evidence=_evidence(samples, found, tally),
        problems=(
            *no_union,
            *_too_few(samples, tally, rare),
            *_too_close(found, tally, hide_two),
            *_unexplained(samples, found, tally, hide_two),
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
            f"Far from all faces {100 * tally.flip_rate:.2g}% of the labels are wrong: flipped at "
            "random, which the fit allows for, or of halfspaces that show too rarely to be found."
        )
    return tuple(sentences)


def _no_union(samples: Samples, found: Found, tally: Tally, rare: bool) -> list[str]:
    """Flips know nothing of the inputs: wrong labels that do come from something else."""
    if tally.flip_rate > _TOO_MANY_WRONG:
        return [
            f"{100 * tally.flip_rate:.0f}% of the labels far from all faces are wrong: this is no "
            "union of halfspaces, nor an intersection."
        ]
    sentences = []
    if tally.outside.chance < _NO_FLIPS and not rare:
        sentences.append(
            f"{tally.outside.wrong} labels differ from the rest where no halfspace was found, and "
            "where they do depends on the inputs: this is no union of halfspaces, nor an "
            "intersection, or there are more of them than were found."
        )
    if tally.inside.chance < _NO_FLIPS:
        sentences.append(
            f"{_contradict(tally.inside.wrong, ' inside the halfspaces that were found')} them, "
            "and where that is depends on the inputs: this is no union of halfspaces, nor an "
            "intersection."
        )
    if found.flipped and _not_flat(samples, tally):
        sentences.append(
            "More labels are wrong near the faces than flips would make, which are rarer away from "
            "them: the faces are not flat, so this is no union of few halfspaces, nor an "
            "intersection; or some halfspaces are too close to each other to be told apart."
        )
    return sentences


def _not_flat(samples: Samples, tally: Tally) -> bool:
    """Whether wrong labels at the faces exceed flips and what errors of a fitted face make.

    A face that is off by its standard error has about as many samples on the wrong side as there
    are features.
    """
    far = tally.outside.n + tally.inside.n
    near = samples.size - far
    wrong = int(tally.wrong.sum()) - tally.outside.wrong - tally.inside.wrong
    expected = tally.flip_rate * near
    slack = _FEATURES_WRONG * len(tally.wrong) * (samples.features + 1)
    return bool(
        wrong - expected - slack > _SIGMAS * np.sqrt(1 + expected * (1 + near / max(far, 1)))
    )


def _too_few(samples: Samples, tally: Tally, rare: bool) -> list[str]:
    if tally.outside.chance >= _NO_FLIPS or not rare:
        return []
    count = tally.outside.wrong
    return [too_rare(samples, count, f"Samples that fire beyond no halfspace found: {count}")]


def _hide_two(found: Found, tally: Tally) -> Flags:
    """Faces with more contradictions among the labels near them than a few flips would make.

    The chance of c or more flips where f are expected is that of a Poisson variable.
    """
    expected = (tally.flip_rate + 1 / max(tally.outside.n, 1)) * tally.near
    chance = gammainc(np.maximum(found.contradicted, 1), expected)
    return np.asarray((found.contradicted > 0) & (chance < _NO_CHANCE) & (not found.flipped))


def _contradict(labels: int, where: str = "") -> str:
    return f"1 label{where} contradicts" if labels == 1 else f"{labels} labels{where} contradict"


def _too_close(found: Found, tally: Tally, hide_two: Flags) -> list[str]:
    sentences = [
        f"{_contradict(int(found.contradicted[i]), f' near halfspace {i}')} the rest: it stands "
        "for two halfspaces that are too close to each other to be told apart. Take more samples."
        for i in np.flatnonzero(hide_two)
    ]
    W, errors = found.faces.weights, found.angle_errors
    for i in np.flatnonzero(errors > _HARDLY_KNOWN):
        sentences.append(
            f"Halfspace {i} is known to {min(np.degrees(errors[i]), 90):.0f} degrees only: "
            f"samples that speak for it alone: {tally.alone[i]}. Take more samples."
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


def _unexplained(samples: Samples, found: Found, tally: Tally, hide_two: Flags) -> list[str]:
    """What else the samples near the faces say against them, where nothing was said so far."""
    if hide_two.any() or found.flipped:
        return []
    far = tally.outside.wrong + tally.inside.wrong
    near = int(tally.wrong.sum()) - far
    share = 1 - (tally.outside.n + tally.inside.n) / samples.size
    if near and (far < _FEW_FLIPS or bdtrc(near - 1, near + far, share) < _HARDLY_FLIPS):
        return [
            f"{_contradict(near)} the answer near its faces and {far or 'none'} away from them, "
            "where flips would be as common: a halfspace may stand for two that are too close to "
            "each other to be told apart. Take more samples."
        ]
    return [
        f"The samples leave far less room to halfspace {i} than chance does: it may stand for two "
        "that are too close to each other to be told apart. Take more samples."
        for i in np.flatnonzero(found.collapsed)
    ]


def _wrong_number(found: int, units: int | None) -> list[str]:
    if units is None or units == found:
        return []
    if found > units:
        return [f"The labels need {found} halfspaces, more than the {units} asked for."]
    return [
        f"Halfspaces found: {found}, fewer than the {units} asked for; the others fire too rarely, "
        "are covered by these or are too close to them for the samples to tell."
    ]
