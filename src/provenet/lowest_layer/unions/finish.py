"""Step 3, finish: the version space of every face; with many flips the soft fit and its errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.lowest_layer.unions.faces import Faces, Flags, two_largest
from provenet.lowest_layer.unions.noisy_or import NEAR, Blur, soft_errors
from provenet.lowest_layer.unions.samples import SampleRows, Samples
from provenet.lowest_layer.unions.sharpen import UnionFit
from provenet.lowest_layer.unions.tolerances import FINISH_ROUNDS, MANY_FLIPS, MOST_ROWS
from provenet.lowest_layer.unions.version_space import (
    Cell,
    Contradiction,
    least_errors,
    usual_errors,
    version_space,
)


@dataclass(frozen=True)
class FinishedFaces:
    """The faces with the errors to be expected of them, one number a face."""

    faces: Faces
    blur: Blur
    angle_errors: Array
    threshold_errors: Array
    contradicted: AnyArray
    """Samples near a face that cannot be on their side of it together with the rest."""
    tilts: Array
    """The angle by which a face would have to turn to please the worst of these."""
    flipped: bool
    """Whether so many labels are flipped that there are no version spaces."""
    usual: tuple[Array, Array]
    """Errors of angle and threshold that version spaces have where so many samples are near."""
    least: tuple[Array, Array]
    """The smallest such errors that are stated."""
    collapsed: Flags
    """Faces whose version space is far smaller than chance makes them."""

    def revised(self, face: int, space: Cell | Contradiction) -> FinishedFaces:
        """With what a version space says of one face."""
        one = np.arange(len(self.faces)) == face
        contradicted = np.where(one, space.contradicted, self.contradicted)
        if isinstance(space, Contradiction):
            tilts = np.where(one, space.tilt, self.tilts)
            return replace(self, contradicted=contradicted, tilts=tilts)
        angle, threshold = (float(errors[face]) for errors in self.least)
        usual = (float(errors[face]) for errors in self.usual)
        parts = [space.face if here else self.faces[i] for i, here in enumerate(one)]
        return replace(
            self,
            faces=Faces.of(parts),
            angle_errors=np.where(one, max(space.angle_error, angle), self.angle_errors),
            threshold_errors=np.where(
                one, max(space.threshold_error, threshold), self.threshold_errors
            ),
            contradicted=contradicted,
            collapsed=np.where(one, space.far_below(*usual), self.collapsed),
        )


def finish(samples: Samples, fit: UnionFit, rng: np.random.Generator) -> FinishedFaces:
    """The version space of each face; where samples contradict it, the soft fit and its errors.

    No error is stated below `least_errors`: a version space is small by luck, or because its face
    stands for two, and the samples do not always tell which.

    A positive near two faces does not say which of them claims it. It is left out, and if in the
    end neither does, given to the nearest.
    """
    k, sharpness = len(fit.faces), fit.blur.sharpness
    found = _softly_finished(samples, fit)
    X, fired, says = fit.near.X, fit.near.fired, _about_faces(fit)
    stale = np.full(k, not found.flipped)
    for _ in range(FINISH_ROUNDS):
        for i in map(int, np.flatnonzero(stale)):
            rows, reach = says[:, i], NEAR / sharpness[i]
            space = version_space(X[rows], fired[rows], fit.faces[i], reach, fit.flip_rate, rng)
            found = found.revised(i, space)
        wrong, blamed = _wrong(samples, found.faces, sharpness)
        stale = (found.contradicted == 0) & blamed.any(axis=0)
        if not stale.any():
            break
        X, fired = np.vstack([X, wrong.X]), np.concatenate([fired, wrong.fired])
        says = np.vstack([says, blamed])
    else:  # faces that do not settle contradict what they blame each other for
        found = replace(found, contradicted=np.where(stale, blamed.sum(axis=0), found.contradicted))
    return found


def _softly_finished(samples: Samples, fit: UnionFit) -> FinishedFaces:
    angles, thresholds = soft_errors(fit.near.X, fit.near.fired, fit.faces, fit.blur)
    wrong = _wrong(samples, fit.faces, fit.blur.sharpness)[1].sum(axis=0)
    flipped = fit.flip_rate > MANY_FLIPS
    return FinishedFaces(
        faces=fit.faces,
        blur=fit.blur,
        angle_errors=angles,
        threshold_errors=thresholds,
        contradicted=wrong,
        tilts=np.zeros(len(wrong)),
        flipped=flipped,
        usual=usual_errors(samples.features, fit.density),
        least=least_errors(samples.features, fit.density),
        collapsed=np.zeros(len(wrong), bool),
    )


def _about_faces(fit: UnionFit) -> Flags:
    """Which samples (rows) say on which side of which face (columns) they are."""
    near = fit.faces.margins(fit.near.X) * fit.blur.sharpness
    top, first, second = two_largest(near)
    own = top[:, None] == np.arange(len(fit.faces))
    others = np.where(own, second[:, None], first[:, None])
    return np.asarray(np.abs(near) < NEAR) & (~fit.near.fired[:, None] | (others < -NEAR))


def _wrong(samples: Samples, faces: Faces, sharpness: Array) -> tuple[SampleRows, Flags]:
    """The samples on the wrong side, but not far from it, and the faces that each speaks against.

    A negative speaks against all that claim it, a positive against the nearest.
    """

    def choose(X: Array, fired: Flags) -> Flags:
        deep = faces.deepest(X, sharpness)
        wrong: Flags = ((deep > 0) != fired) & (np.abs(deep) < 2 * NEAR)
        return wrong

    rows = samples.gather(choose, MOST_ROWS)
    M = faces.margins(rows.X) * sharpness
    nearest = np.argmax(M, axis=1)[:, None] == np.arange(len(faces))
    return rows, np.where(rows.fired[:, None], nearest, M > 0)
