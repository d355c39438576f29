"""Step 2, sharpen: all faces at once, the blur falling by stages to what the samples allow.

At every stage a face that claims next to nothing alone is dropped, one that hides two is split, and
positives that nobody claims start a new one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.lowest_layer.unions.faces import Faces, Flags, two_largest
from provenet.lowest_layer.unions.noisy_or import (
    MISSED,
    NEAR,
    Blur,
    fit_faces,
    log_likelihood,
    split_face,
)
from provenet.lowest_layer.unions.samples import SampleRows, Samples
from provenet.lowest_layer.unions.search import COARSE, fewest_positives, new_face, unclaimed
from provenet.lowest_layer.unions.tolerances import HARDLY_ANY_FLIPS, MOST_CHANGES, MOST_ROWS

_SHARPER = 4.0
"""Growth of the sharpness from one stage to the next."""
_SAMPLES_A_BLUR = 2.0
"""Over the number of features, at a face in the last stage, when more than few are flipped."""


@dataclass(frozen=True)
class UnionFit:
    """Faces fitted at some sharpness, with the samples near them."""

    faces: Faces
    blur: Blur
    near: SampleRows
    flip_rate: float

    @property
    def density(self) -> Array:
        """Samples a unit of margin at each face, where no other face claims them; if none, one."""
        top = np.argmax(self.faces.margins(self.near.X) * self.blur.sharpness, axis=1)
        count = self.near.stride * np.bincount(top, minlength=len(self.faces))
        return np.asarray(np.maximum(count, 1) * self.blur.sharpness / (2 * NEAR))


def sharpen(
    samples: Samples, faces: Faces, positives: SampleRows, rng: np.random.Generator
) -> UnionFit:
    """Faces as sharp as the samples at each of them allow."""
    finest, level = np.full(len(faces), np.inf), COARSE
    while True:
        fit = _fit(samples, faces, np.minimum(level, finest))
        for _ in range(MOST_CHANGES):
            changed = _repaired(samples, fit, positives, rng)
            if changed is None:
                break
            fit = _fit(samples, changed, np.full(len(changed), level))
        faces, finest = fit.faces, _finest(samples, fit)
        if np.all(finest <= level):
            return fit
        level *= _SHARPER


def _finest(samples: Samples, fit: UnionFit) -> Array:
    """Sharpness at which about as many samples are within the blur of a face as features."""
    samples_a_blur = 1.0 if fit.flip_rate <= HARDLY_ANY_FLIPS else _SAMPLES_A_BLUR
    return np.maximum(fit.density / (samples_a_blur * samples.features), COARSE)


def _fit(samples: Samples, faces: Faces, sharpness: Array) -> UnionFit:
    near = samples.gather(lambda X, _: np.abs(faces.deepest(X, sharpness)) < NEAR, MOST_ROWS)
    wrong, away = _away_from_faces(samples, faces, sharpness, near.stride)
    blur = Blur.of(sharpness, *(wrong / np.maximum(away, 1)))
    rate = float(wrong.sum() / max(away.sum(), 1))
    return UnionFit(fit_faces(near.X, near.fired, faces, blur), blur, near, rate)


def _away_from_faces(
    samples: Samples, faces: Faces, sharpness: Array, stride: int
) -> tuple[AnyArray, AnyArray]:
    """How many labels are wrong away from the faces, of how many: outside all, and inside one."""

    def count(X: Array, fired: Flags) -> AnyArray:
        deep = faces.deepest(X, sharpness)
        outside, inside = deep < -NEAR, deep > NEAR
        wrong = np.sum(outside & fired), np.sum(inside & ~fired)
        return np.array([wrong, (outside.sum(), inside.sum())])

    wrong, away = samples.over(count, stride)
    return wrong, away


def _repaired(
    samples: Samples, fit: UnionFit, positives: SampleRows, rng: np.random.Generator
) -> Faces | None:
    """Idle faces dropped, or one split in two, or one added; None when all is well."""
    faces, sharpness = fit.faces, fit.blur.sharpness
    fewest = fewest_positives(samples, fit.blur.false_positives)
    needed = _needed(positives, faces, sharpness, fewest)
    if not needed.all():
        return faces.keep(needed)
    left = unclaimed(positives, faces, sharpness)
    if left.count < fewest:
        return None
    two = _split(samples, fit, left, fewest)
    if two is not None:
        return two
    new = new_face(samples, faces, sharpness, left, rng)
    return None if new is None else faces + new


def _needed(positives: SampleRows, faces: Faces, sharpness: Array, fewest: float) -> Flags:
    """The faces that claim at least so many positives alone, the others dropped one by one."""
    margins = faces.margins(positives.X) * sharpness
    kept = np.arange(len(faces))
    while len(kept) > 1:
        top, first, second = two_largest(margins[:, kept])
        alone = (first > 0) & (second < -MISSED)
        count = np.bincount(top[alone], minlength=len(kept))
        if positives.stride * count.min() >= fewest:
            break
        kept = np.delete(kept, np.argmin(count))
    needed: Flags = np.isin(np.arange(len(faces)), kept)
    return needed


def _split(samples: Samples, fit: UnionFit, left: SampleRows, fewest: float) -> Faces | None:
    """Two faces in place of the one that misses most positives, if the labels gain by it."""
    if samples.features == 1:  # a point cannot be tilted
        return None
    faces, blur = fit.faces, fit.blur
    top, deep, _ = two_largest(faces.margins(left.X) * blur.sharpness)
    close = deep > -2 * NEAR
    count = np.bincount(top[close], minlength=len(faces))
    face = int(np.argmax(count))
    if left.stride * count[face] < fewest:
        return None
    missed = left.X[close & (top == face)]
    # All samples near, whatever their labels: a choice by label would be taken for a face.
    sharpness = blur.sharpness
    rows = samples.gather(lambda X, _: np.abs(faces.deepest(X, sharpness)) < 2 * NEAR, MOST_ROWS)
    one = fit_faces(rows.X, rows.fired, faces, blur)
    two, wider = split_face(rows.X, rows.fired, faces, face, missed, blur)
    gain = log_likelihood(rows.X, rows.fired, two, wider) - log_likelihood(
        rows.X, rows.fired, one, blur
    )
    return two if rows.stride * gain > samples.price else None
