"""What speaks for faces that were found and against them: one finding a question.

Labels that are wrong far from all faces are flips, if they know nothing of the inputs; else they
come from something that is no union of these halfspaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import bdtrc, chdtrc, gammainc

from provenet.certify.checks import Check, Status
from provenet.common.typing import AnyArray, Array
from provenet.data.passes import Sums
from provenet.lowest_layer.unions.faces import Flags, two_largest
from provenet.lowest_layer.unions.finish import FinishedFaces
from provenet.lowest_layer.unions.halfspace_set import HalfspaceSet
from provenet.lowest_layer.unions.noisy_or import NEAR
from provenet.lowest_layer.unions.samples import Samples
from provenet.lowest_layer.unions.search import fewest_positives
from provenet.lowest_layer.unions.tolerances import (
    CLEARLY_APART,
    FEATURES_WRONG,
    FLAT_SIGMAS,
    HARDLY_FLIPS,
    NO_CHANCE_FLIPS,
    NO_FLIPS,
    TOO_MANY_WRONG,
)

NEEDED = 6
"""Positives that a halfspace needs to be known well, over its number of unknowns."""
_FAR = 0.25
"""A label that is wrong at this distance from all faces is not wrong because of their errors."""
_HARDLY_KNOWN = 0.25
"""An angle error, in radians, beyond which a halfspace is not known."""
_FEW_FLIPS, _HARDLY_FLIPS = 2, 0.01
"""Wrong labels far from all faces, below which those near them are not taken for flips, and the
chance of so many near them, below which they are not either."""
_MOST_SENTENCES = 3
"""Of one kind, to be read: a convention."""


def too_rare(samples: Samples, count: float, what: str) -> str:
    """What to say of a halfspace with too few positives."""
    needed = NEEDED * (samples.features + 1)
    return (
        f"{what}, and a halfspace needs about {needed} to be known well: thresholds are too high "
        f"for {samples.size} samples. About {samples.size * needed / count:.0e} would be needed."
    )


@dataclass(frozen=True)
class FarRegion(Sums):
    """Sums over samples far from all faces: of features `f = (x, |x|^2)`, of all and the wrong."""

    n: int
    f: Array
    ff: Array
    wrong: int
    wrong_f: Array

    @classmethod
    def of(cls, X: Array, wrong: Flags) -> FarRegion:
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

    outside: FarRegion
    """Far from all faces and claimed by none."""
    inside: FarRegion
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


def _tally(samples: Samples, found: FinishedFaces) -> Tally:
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
            FarRegion.of(X[outside], fired[outside]),
            FarRegion.of(X[inside], ~fired[inside]),
            wrong,
            near,
            alone,
            int(fired.sum()),
        )

    return samples.over(count)


def described(samples: Samples, found: FinishedFaces) -> HalfspaceSet:
    """The faces as halfspaces, with what speaks for them and against."""
    about = _UnionQuestions(samples, found, _tally(samples, found))
    sign = -1.0 if samples.complement else 1.0
    return HalfspaceSet(
        weights=sign * found.faces.weights,
        thresholds=sign * found.faces.thresholds,
        angle_errors=np.where(
            about.hide_two, np.maximum(found.angle_errors, found.tilts), found.angle_errors
        ),
        threshold_errors=found.threshold_errors,
        exclusive=about.tally.alone,
        separated=found.contradicted == 0,
        training_errors=int(about.tally.wrong.sum()),
        flip_rate=about.tally.flip_rate,
        samples=samples.size,
        intersection=samples.complement,
        evidence=about.evidence(),
        findings=(*about.is_union(), *about.enough_samples(), *about.apart(), *about.near()),
    )


def _contradict(labels: int, where: str = "") -> str:
    return f"1 label{where} contradicts" if labels == 1 else f"{labels} labels{where} contradict"


@dataclass(frozen=True)
class _Pair:
    """Two halfspaces, their angle and its standard errors."""

    first: int
    second: int
    angle: float
    first_error: float
    second_error: float

    @property
    def apart(self) -> float:
        """The angle in standard errors."""
        return self.angle / max(self.first_error + self.second_error, 1e-300)

    def __str__(self) -> str:
        """What to say of two that are not apart."""
        return (
            f"Halfspaces {self.first} and {self.second} are {np.degrees(self.angle):.2g} degrees "
            f"apart, with standard errors of {np.degrees(self.first_error):.2g} and "
            f"{np.degrees(self.second_error):.2g}: too close to each other to be told apart."
        )


@dataclass(frozen=True)
class _UnionQuestions:
    """The questions to the faces of one union."""

    samples: Samples
    found: FinishedFaces
    tally: Tally

    @property
    def hide_two(self) -> Flags:
        """Faces with more contradictions among the labels near them than a few flips would make.

        The chance of c or more flips where f are expected is that of a Poisson variable.
        """
        found, tally = self.found, self.tally
        expected = (tally.flip_rate + 1 / max(tally.outside.n, 1)) * tally.near
        chance = gammainc(np.maximum(found.contradicted, 1), expected)
        return np.asarray(
            (found.contradicted > 0) & (chance < NO_CHANCE_FLIPS) & (not found.flipped)
        )

    @property
    def rare(self) -> bool:
        """Whether labels that fire beyond no face are too few for a halfspace of their own."""
        return bool(self.tally.outside.wrong < NEEDED * (self.samples.features + 1))

    def evidence(self) -> tuple[str, ...]:
        """What was found and how far to trust it."""
        found, tally, n = self.found, self.tally, self.samples.size
        fewest = int(np.ceil(fewest_positives(self.samples, found.blur.false_positives)))
        angle, offset = np.degrees(found.angle_errors.max()), found.threshold_errors.max()
        sentences = [
            f"Halfspaces found: {len(found.faces)}. They agree with {n - int(tally.wrong.sum())} "
            f"of {n} labels, and each alone accounts for {tally.alone.min()} or more, where "
            f"{fewest} are beyond chance.",
            f"Standard errors are at most {angle:.2g} degrees and {offset:.2g} in the offset.",
        ]
        if tally.flip_rate > 0:
            sentences.append(
                f"Far from all faces {100 * tally.flip_rate:.2g}% of the labels are wrong: flipped "
                "at random, which the fit allows for, or of halfspaces that show too rarely to be "
                "found."
            )
        return tuple(sentences)

    # ------------------------------------------------------------ is it a union at all?

    def is_union(self) -> Iterator[Check]:
        """Flips know nothing of the inputs: wrong labels that do come from something else."""
        tally, rate = self.tally, self.tally.flip_rate
        yield Check(
            "most labels far from all faces agree",
            rate <= TOO_MANY_WRONG,
            f"{100 * rate:.2g}% wrong",
            f"at most {100 * TOO_MANY_WRONG:.0f}%",
            f"{100 * rate:.0f}% of the labels far from all faces are wrong: this is no union of "
            "halfspaces, nor an intersection.",
        )
        if rate > TOO_MANY_WRONG:
            return
        yield Check(
            "labels that differ outside are flips",
            tally.outside.chance >= NO_FLIPS or self.rare,
            f"chance {tally.outside.chance:.2g}",
            f"at least {NO_FLIPS:g}",
            f"{tally.outside.wrong} labels differ from the rest where no halfspace was found, and "
            "where they do depends on the inputs: this is no union of halfspaces, nor an "
            "intersection, or there are more of them than were found.",
        )
        yield Check(
            "labels that differ inside are flips",
            tally.inside.chance >= NO_FLIPS,
            f"chance {tally.inside.chance:.2g}",
            f"at least {NO_FLIPS:g}",
            f"{_contradict(tally.inside.wrong, ' inside the halfspaces that were found')} them, "
            "and where that is depends on the inputs: this is no union of halfspaces, nor an "
            "intersection.",
        )
        if self.found.flipped:
            yield self._flat()

    def _flat(self) -> Check:
        """Do wrong labels at the faces exceed flips and what errors of a fitted face make?

        A face that is off by its standard error has about as many samples on the wrong side as
        there are features.
        """
        tally, samples = self.tally, self.samples
        far = tally.outside.n + tally.inside.n
        near = samples.size - far
        wrong = int(tally.wrong.sum()) - tally.outside.wrong - tally.inside.wrong
        expected = tally.flip_rate * near
        slack = FEATURES_WRONG * len(tally.wrong) * (samples.features + 1)
        chance = FLAT_SIGMAS * np.sqrt(1 + expected * (1 + near / max(far, 1)))
        return Check(
            "faces are flat",
            bool(wrong - expected - slack <= chance),
            f"{wrong} labels near them are wrong",
            f"at most {expected + slack + chance:.0f}",
            "More labels are wrong near the faces than flips would make, which are rarer away from "
            "them: the faces are not flat, so this is no union of few halfspaces, nor an "
            "intersection; or some halfspaces are too close to each other to be told apart.",
        )

    # ------------------------------------------------------------ is each halfspace known?

    def enough_samples(self) -> Iterator[Check]:
        """Does every label that fires have a halfspace, and fires what a halfspace has?"""
        count, chance = self.tally.outside.wrong, self.tally.outside.chance
        what = f"Samples that fire beyond no halfspace found: {count}"
        yield Check(
            "labels that fire have a halfspace",
            chance >= HARDLY_FLIPS,
            f"{count} have none, chance {chance:.2g}",
            f"none, or flips (chance at least {HARDLY_FLIPS:g})",
            too_rare(self.samples, max(count, 1), what),
            Status.PARTIAL,
        )
        inside = self.tally.inside
        yield Check(
            "labels beyond a halfspace fire",
            inside.chance >= HARDLY_FLIPS,
            f"{inside.wrong} do not, chance {inside.chance:.2g}",
            f"all, or flips (chance at least {HARDLY_FLIPS:g})",
            f"{_contradict(inside.wrong, ' inside the halfspaces that were found')} them, and "
            "where that is depends on the inputs: a halfspace may stand for two. Take more "
            "samples.",
            Status.PARTIAL,
        )

    def apart(self) -> Iterator[Check]:
        """Does each stand for itself?"""
        found, errors = self.found, self.found.angle_errors
        pairs = [
            f"{_contradict(int(found.contradicted[i]), f' near halfspace {i}')} the rest: it "
            "stands for two halfspaces that are too close to each other to be told apart."
            for i in np.flatnonzero(self.hide_two)
        ]
        contradicted = f"{int(found.contradicted.sum())} labels near the faces contradict the rest"
        yield _none("no halfspace stands for two", pairs, contradicted)
        unknown = [
            f"Halfspace {i} is known to {min(np.degrees(errors[i]), 90):.0f} degrees only: "
            f"samples that speak for it alone: {self.tally.alone[i]}."
            for i in np.flatnonzero(errors > _HARDLY_KNOWN)
        ]
        worst = min(float(np.degrees(errors.max())), 90.0)
        yield _none("every halfspace is known", unknown, f"the worst to {worst:.2g} degrees")
        close = [pair for pair in self._pairs() if pair.apart < CLEARLY_APART]
        yield _none("halfspaces are told apart", [str(pair) for pair in close], f"{len(close)} not")

    def _pairs(self) -> Iterator[_Pair]:
        W, errors = self.found.faces.weights, self.found.angle_errors
        for i, j in combinations(np.flatnonzero(errors <= _HARDLY_KNOWN), 2):
            angle = 2 * np.arcsin(min(1.0, float(np.linalg.norm(W[i] - W[j])) / 2))
            yield _Pair(int(i), int(j), angle, float(errors[i]), float(errors[j]))

    def near(self) -> Iterator[Check]:
        """What else do samples near the faces say, where nothing was said so far?"""
        if self.hide_two.any() or self.found.flipped:
            return
        tally = self.tally
        far = tally.outside.wrong + tally.inside.wrong
        near = int(tally.wrong.sum()) - far
        share = 1 - (tally.outside.n + tally.inside.n) / self.samples.size
        flips = far >= _FEW_FLIPS and bdtrc(near - 1, near + far, share) >= _HARDLY_FLIPS
        against = [
            f"{_contradict(near)} the answer near its faces and {far or 'none'} away from them, "
            "where flips would be as common: a halfspace may stand for two that are too close to "
            "each other to be told apart."
        ]
        wrong = bool(near and not flips)
        yield _none("labels near the faces agree", against[:wrong], f"{near} do not")
        small = [
            f"The samples leave far less room to halfspace {i} than chance does: it may stand for "
            "two that are too close to each other to be told apart."
            for i in np.flatnonzero(self.found.collapsed & (not wrong))
        ]
        yield _none("version spaces are as large as usual", small, f"{len(small)} are far smaller")


def _none(name: str, problems: list[str], measured: str) -> Check:
    """A finding that holds if there is no problem of its kind."""
    advice = " ".join([*problems[:_MOST_SENTENCES], "Take more samples."])
    return Check(name, not problems, measured, "none", advice, Status.PARTIAL)
