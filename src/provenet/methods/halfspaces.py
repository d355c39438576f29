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
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from provenet.exceptions import InvalidInput, NoAnswer
from provenet.layered import LayeredNetwork, intersection, lowest_layer, union
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
_SAMPLES_A_BLUR = 4.0
"""Over the number of features, at a face, in the last stage when labels are flipped."""
_ATTEMPTS = 3
_MOST_FACES = 64
_CHANGES = 4
_FAR = 0.25
"""A label that is wrong at this distance from all faces is not wrong because of their errors."""
_CLEARLY_APART = 3.0
_NEEDED = 4
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
            found = finish(fit, rng)
        return _judged(samples, found, positives, units)


# ---------------------------------------------------------------- samples


@dataclass(frozen=True)
class Rows:
    """Some samples: every so-manieth of those that were asked for."""

    X: Array
    fired: Flags
    stride: int

    @property
    def count(self) -> int:
        """How many samples these stand for."""
        return self.stride * len(self.X)

    def keep(self, which: Flags) -> Rows:
        """Some of them."""
        return Rows(self.X[which], self.fired[which], self.stride)


@dataclass(frozen=True)
class Samples:
    """A source whose labels are read as fired or not."""

    source: Source
    above: float | None = None
    complement: bool = False

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.source.size

    @property
    def features(self) -> int:
        """Number of inputs."""
        return self.source.features

    @property
    def price(self) -> float:
        """The log likelihood that one face more gains by chance."""
        return float((self.features + 1) * np.log(self.size))

    def over(self, term: Callable[[Array, Flags], Sum], stride: int = 1) -> Sum:
        """The sum of `term(X, fired)` over every `stride`-th block of samples."""
        blocks = list(row_blocks(self.size, _BLOCK))[::stride]
        level = 0.5 if self.above is None else self.above

        def of(block: slice) -> Sum:
            X, y = self.source.rows(block.start, block.stop)
            return term(X, (y > level) != self.complement)

        return sum_over(blocks, of)

    def gather(self, choose: Callable[[Array, Flags], Flags], most: int) -> Rows:
        """The samples that `choose` marks, or about `most` of them, from blocks evenly spread."""
        probe = max(1, -(-self.size // _BLOCK) // _PROBED_BLOCKS)
        seen, marked = self.over(lambda X, f: np.array([len(f), choose(X, f).sum()]), probe)
        stride = min(probe, max(1, int(np.ceil(self.size * marked / seen / most))))

        def chosen(X: Array, fired: Flags) -> list[tuple[Array, Flags]]:
            which = choose(X, fired)
            return [(X[which], fired[which])]

        parts = self.over(chosen, stride)
        X, fired = (np.concatenate([part[i] for part in parts]) for i in range(2))
        return Rows(X, fired, stride)


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
        raise NoAnswer(_too_few(samples, count, "positives are fewer than a halfspace has unknowns"))
    return samples.gather(lambda X, fired: fired, _MOST_POSITIVES)


def _too_few(samples: Samples, count: int, what: str) -> str:
    needed = _NEEDED * (samples.features + 1) * samples.size / max(count, 1)
    return (
        f"{count} {what}: thresholds are too high for {samples.size} samples. About "
        f"{needed:.0e} samples are needed."
    )


def _nothing_found(samples: Samples, positives: Rows) -> str:
    return 'nothing'

# ---------------------------------------------------------------- step 1: search


def search(
    samples: Samples, positives: Rows, units: int | None, rng: np.random.Generator
) -> Faces:
    """Faces one by one from what is left unclaimed; perhaps too many, and each rough."""
    faces = Faces.none(samples.features)
    most = max(_MOST_FACES, 2 * (units or 0))
    while len(faces) < most:
        sharpness = np.full(len(faces), _COARSE)
        left = _unclaimed(positives, faces, sharpness)
        new = _new_face(samples, faces, sharpness, left, rng)
        if new is None:
            break
        faces = faces + new
    else:
        raise NoAnswer(
            f"{most} halfspaces leave {left.count} positives unclaimed: the labels "
            "are no union of few halfspaces. Give units= if there are more, or intersection=True "
            "if the labels are those of an intersection."
        )
    if len(faces) == 0:
        raise NoAnswer(_nothing_found(samples, positives))
    return faces


def _unclaimed(positives: Rows, faces: Faces, sharpness: Array) -> Rows:
    return positives.keep(faces.deepest(positives.X, sharpness) < -_MISSED)


def _new_face(
    samples: Samples, faces: Faces, sharpness: Array, left: Rows, rng: np.random.Generator
) -> Faces | None:
    """A face that some of the unclaimed positives have beyond chance; None if there is none."""
    background = left.count / samples.size
    if not _beyond_chance(samples, left.count, 0, background):
        return None
    for _ in range(_ATTEMPTS):
        start = candidate_face(left.X, samples.size / left.stride, rng)
        new, beyond = _fitted_alone(samples, start, faces, sharpness, background)
        fired, silent = (beyond.stride * int(np.sum(beyond.fired == v)) for v in (True, False))
        if _beyond_chance(samples, fired, silent, background):
            return new
    return None


def _fitted_alone(
    samples: Samples, new: Faces, faces: Faces, sharpness: Array, background: float
) -> tuple[Faces, Rows]:
    """A face fitted by itself, from a wide blur to a narrow one, and the samples beyond it.

    Positives that another face claims say nothing about this one.
    """
    finest = np.max(sharpness, initial=_COARSE)
    for beta in np.geomspace(_FIRST, finest, 1 + round(np.log2(finest / _FIRST))):

        def near(X: Array, fired: Flags, face: Faces = new, reach: float = _NEAR / beta) -> Flags:
            which: Flags = face.margins(X)[:, 0] > -reach
            which[which] &= ~fired[which] | (faces.deepest(X[which], sharpness) < -_MISSED)
            return which

        rows = samples.gather(near, _MOST_SEARCHED)
        blur = Blur(np.array([beta]), max(background, _FLIPS_IN_SEARCH), _FLIPS_IN_SEARCH)
        new = fit_faces(rows.X, rows.fired, new, blur)
    return new, rows.keep(new.margins(rows.X)[:, 0] > 0)


def _fewest_positives(samples: Samples, background: float) -> float:
    """How many samples that fire, and no others, make a halfspace beyond chance."""
    return float(samples.price / -np.log(max(background, 1 / samples.size)))


def _beyond_chance(samples: Samples, fired: int, silent: int, background: float) -> bool:
    """Whether a halfspace of mostly fired samples is more than the best of chance."""
    purity = fired / max(fired + silent, 1)
    if purity <= max(0.5, background):
        return False
    background = max(background, 1 / samples.size)
    gain = fired * np.log(purity / background)
    if silent:
        gain += silent * np.log((1 - purity) / (1 - background))
    return bool(gain > samples.price)


# ---------------------------------------------------------------- step 2: sharpen


@dataclass(frozen=True)
class Fit:
    """Faces fitted at some sharpness, with the samples near them."""

    faces: Faces
    blur: Blur
    near: Rows

    @property
    def density(self) -> Array:
        """Samples a unit of margin at each face, where no other face claims them."""
        top = np.argmax(self.faces.margins(self.near.X) * self.blur.sharpness, axis=1)
        count = self.near.stride * np.bincount(top, minlength=len(self.faces))
        return np.asarray(count * self.blur.sharpness / (2 * _NEAR))


def sharpen(samples: Samples, faces: Faces, positives: Rows, rng: np.random.Generator) -> Fit:
    """Faces as sharp as the samples at each of them allow."""
    finest, level = np.full(len(faces), np.inf), _COARSE
    while True:
        fit = _fit(samples, faces, np.minimum(level, finest))
        for _ in range(_CHANGES):
            changed = _repaired(samples, fit, positives, rng)
            if changed is None:
                break
            fit = _fit(samples, changed, np.full(len(changed), level))
        faces, finest = fit.faces, _finest(samples, fit)
        if np.all(finest <= level):
            return fit
        level *= _SHARPER


def _finest(samples: Samples, fit: Fit) -> Array:
    """Sharpness at which about as many samples are within the blur of a face as features."""
    flips = fit.blur.false_positives, fit.blur.false_negatives
    samples_a_blur = 1.0 if max(flips) <= _FEW_FLIPS else _SAMPLES_A_BLUR
    return np.maximum(fit.density / (samples_a_blur * samples.features), _COARSE)


def _fit(samples: Samples, faces: Faces, sharpness: Array) -> Fit:
    near = samples.gather(lambda X, _: np.abs(faces.deepest(X, sharpness)) < _NEAR, _MOST_ROWS)
    rates = _flip_rates(samples, faces, sharpness, near.stride)
    blur = Blur(sharpness, *np.maximum(rates, _LEAST_FLIPS))
    return Fit(fit_faces(near.X, near.fired, faces, blur), blur, near)


def _flip_rates(samples: Samples, faces: Faces, sharpness: Array, stride: int) -> Array:
    """How often labels away from the faces fire where no face is, and do not where one is."""

    def count(X: Array, fired: Flags) -> AnyArray:
        deep = faces.deepest(X, sharpness)
        outside, inside = deep < -_NEAR, deep > _NEAR
        return np.array(
            [[np.sum(outside & fired), outside.sum()], [np.sum(inside & ~fired), inside.sum()]]
        )

    wrong, all_of_them = samples.over(count, stride).T
    return np.asarray(wrong / np.maximum(all_of_them, 1))


def _repaired(
    samples: Samples, fit: Fit, positives: Rows, rng: np.random.Generator
) -> Faces | None:
    """Idle faces dropped, or one split in two, or one added; None when all is well."""
    faces, sharpness = fit.faces, fit.blur.sharpness
    fewest = _fewest_positives(samples, fit.blur.false_positives)
    needed = _needed(positives, faces, sharpness, fewest)
    if not needed.all():
        return faces.keep(needed)
    left = _unclaimed(positives, faces, sharpness)
    if left.count < fewest:
        return None
    two = _split(samples, fit, left, fewest)
    if two is not None:
        return two
    new = _new_face(samples, faces, sharpness, left, rng)
    return None if new is None else faces + new


def _needed(positives: Rows, faces: Faces, sharpness: Array, fewest: float) -> Flags:
    """The faces that claim at least so many positives alone, the others dropped one by one."""
    margins = faces.margins(positives.X) * sharpness
    kept = np.arange(len(faces))
    while len(kept) > 1:
        part = np.column_stack([margins[:, kept], np.full(len(margins), -np.inf)])
        second, first = np.partition(part, -2, axis=1)[:, -2:].T
        alone = (first > 0) & (second < -_MISSED)
        count = np.bincount(np.argmax(part[alone], axis=1), minlength=len(kept))
        if positives.stride * count.min() >= fewest:
            break
        kept = np.delete(kept, np.argmin(count))
    return np.isin(np.arange(len(faces)), kept)


def _split(samples: Samples, fit: Fit, left: Rows, fewest: float) -> Faces | None:
    """Two faces in place of the one that misses most positives, if the labels gain by it."""
    faces, blur = fit.faces, fit.blur
    nearest = np.argmax(faces.margins(left.X) * blur.sharpness, axis=1)
    count = np.bincount(nearest, minlength=len(faces))
    face = int(np.argmax(count))
    if left.stride * count[face] < fewest:
        return None

    def seen(X: Array, fired: Flags) -> Flags:
        deep = faces.deepest(X, blur.sharpness)
        return (np.abs(deep) < _NEAR) | (fired != (deep > 0))

    rows = samples.gather(seen, _MOST_ROWS)
    one = log_likelihood(rows.X, rows.fired, fit_faces(rows.X, rows.fired, faces, blur), blur)
    pair, wider = split_face(rows.X, rows.fired, faces, face, left.X[nearest == face], blur)
    gain = log_likelihood(rows.X, rows.fired, pair, wider) - one
    return pair if rows.stride * gain > samples.price else None


# ---------------------------------------------------------------- step 3: finish


@dataclass(frozen=True)
class Found:
    """The faces with the errors to be expected of them."""

    faces: Faces
    blur: Blur
    angle_errors: Array
    threshold_errors: Array
    separated: Flags


def finish(fit: Fit, rng: np.random.Generator) -> Found:
    """The version space of each face; where flips leave none, the soft fit and its errors.

    A positive that two faces may claim is left out, and given to the nearest if none claims it.
    """
    X, fired, sharpness = fit.near.X, fit.near.fired, fit.blur.sharpness
    k = len(fit.faces)
    near = fit.faces.margins(X) * sharpness
    others = np.stack([np.delete(near, i, 1).max(axis=1, initial=-np.inf) for i in range(k)], 1)
    use = (np.abs(near) < _NEAR) & (~fired[:, None] | (others < -_NEAR))
    angles, offsets = soft_errors(X, fired, fit.faces, fit.blur)
    faces, separated, stale = fit.faces, np.zeros(k, bool), np.ones(k, bool)
    for _ in range(_CHANGES):
        for i in np.flatnonzero(stale):
            one = np.arange(k) == i
            rows = use[:, i]
            reach = _NEAR / sharpness[i]
            cell = version_space(X[rows], fired[rows], fit.faces.keep(one), reach, rng)
            separated[i] = cell is not None
            if cell is not None:
                faces = faces.replaced(i, cell.face)
                angles[i], offsets[i] = cell.angle_error, cell.threshold_error
        now = faces.margins(X) * sharpness
        missed = fired & (now.max(axis=1) < 0)
        given = missed[:, None] & (np.arange(k) == np.argmax(now, axis=1)[:, None]) & ~use
        stale = given.any(axis=0) & separated
        use |= given
        if not stale.any():
            break
    return Found(faces, fit.blur, angles, offsets, separated)
