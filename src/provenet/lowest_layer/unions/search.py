"""Step 1, search: faces one by one from the positives that none claims yet.

A halfspace counts when the samples that it alone explains could not be so by chance: of the
`samples^(features + 1)` ways to cut the samples by a hyperplane, the best would gain as much as
`(features + 1) log(samples)` in log likelihood. Without flips that is a few positives more than
features.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.lowest_layer.unions.candidates import candidate_face
from provenet.lowest_layer.unions.faces import Faces, Flags
from provenet.lowest_layer.unions.noisy_or import MISSED, NEAR, Blur, fit_faces
from provenet.lowest_layer.unions.samples import SampleRows, Samples
from provenet.lowest_layer.unions.tolerances import FLIPS_IN_SEARCH, MOST_SEARCHED, SEARCH_ATTEMPTS

COARSE = 16.0
"""Sharpness at the end of the search."""
_FIRST = 4.0
"""The same at its start."""


def search(samples: Samples, positives: SampleRows, most: int, rng: np.random.Generator) -> Faces:
    """Faces one by one from what is left unclaimed; each is rough, and a few may be too many."""
    faces = Faces.none(samples.features)
    while len(faces) < most:
        sharpness = np.full(len(faces), COARSE)
        left = unclaimed(positives, faces, sharpness)
        new = new_face(samples, faces, sharpness, left, rng)
        if new is None:
            break
        faces = faces + new
    return faces


def unclaimed(positives: SampleRows, faces: Faces, sharpness: Array) -> SampleRows:
    """The positives that are short of every face."""
    return positives.keep(faces.deepest(positives.X, sharpness) < -MISSED)


def new_face(
    samples: Samples, faces: Faces, sharpness: Array, left: SampleRows, rng: np.random.Generator
) -> Faces | None:
    """A face that some of the unclaimed positives have beyond chance; None if there is none."""
    background = left.count / samples.size
    if not _beyond_chance(samples, left.count, 0, background):
        return None
    for _ in range(SEARCH_ATTEMPTS):
        start = candidate_face(left.X, samples.size / left.stride, rng)
        new, beyond = _fitted_alone(samples, start, faces, sharpness, background)
        fired, silent = (beyond.stride * int(np.sum(beyond.fired == v)) for v in (True, False))
        if _beyond_chance(samples, fired, silent, background):
            return new
    return None


def _fitted_alone(
    samples: Samples, new: Faces, faces: Faces, sharpness: Array, background: float
) -> tuple[Faces, SampleRows]:
    """A face fitted by itself, from a wide blur to a narrow one, and the samples beyond it.

    Positives that another face claims say nothing about this one.
    """
    finest = np.max(sharpness, initial=COARSE)
    false_positives, false_negatives = background, FLIPS_IN_SEARCH
    for beta in np.geomspace(_FIRST, finest, 1 + round(np.log2(finest / _FIRST))):

        def near(X: Array, fired: Flags, face: Faces = new, reach: float = NEAR / beta) -> Flags:
            which: Flags = face.margins(X)[:, 0] > -reach
            which[which] &= ~fired[which] | (faces.deepest(X[which], sharpness) < -MISSED)
            return which

        rows = samples.gather(near, MOST_SEARCHED)
        new = fit_faces(
            rows.X, rows.fired, new, Blur.of(np.array([beta]), false_positives, false_negatives)
        )
        margins = beta * new.margins(rows.X)[:, 0]
        false_positives = _share(rows.fired[margins < -MISSED])
        false_negatives = _share(~rows.fired[margins > MISSED])
    return new, rows.keep(new.margins(rows.X)[:, 0] > 0)


def _share(flags: Flags) -> float:
    return float(flags.mean()) if len(flags) else 0.0


def fewest_positives(samples: Samples, background: float) -> float:
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
