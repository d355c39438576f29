"""How far a hyperplane is from a face, from the bands about it: a Newton step with errors.

If the face is at `u + theta.chi = 0`, `chi = (1, v)`, u and v the coordinates along and across z,
then to first order `f = A + Q(v) (u_+^(k-1) + theta.chi D u_+^(k-1))`: the means of `f psi(v)` have
a singularity one order lower, of size `E[Q psi chi] theta`, and weights for that order tell theta.
That holds for any psi; `psi = Q chi`, with a quadratic estimate of Q, serves tops whose Q changes
sign. Letters and bands are those of `thin_bands`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.lowest_layer.faces.thin_bands import (
    BANDS,
    NONE,
    PEAK,
    Labels,
    band_weights,
)
from provenet.lowest_layer.faces.tolerances import COEFFICIENT_SIGNIFICANT
from provenet.moments.subspace import complement
from provenet.networks.hermite import hermite_rows

TILT = {1: band_weights(0, (0, 1, 2), (0,)), 2: band_weights(1, (0, 1, 2), (1, 2))}
"""Weights one order lower than `PEAK`, blind to the face itself."""


@dataclass(frozen=True)
class Tilt:
    """How far a hyperplane is from a face: the face is where `u + shift + tilt.v = 0`."""

    shift: float
    tilt: Array
    across: Array
    """Rows: the directions v of the tilt."""
    shift_error: float
    tilt_errors: Array

    @property
    def size(self) -> float:
        """Norm of the correction."""
        return float(np.hypot(self.shift, np.linalg.norm(self.tilt)))

    @property
    def angle_error(self) -> float:
        """Standard error of the direction, radians."""
        return float(np.linalg.norm(self.tilt_errors))

    def applied(self, z: Array, s: float) -> tuple[Array, float]:
        """The corrected direction and offset."""
        w = z + self.tilt @ self.across
        norm = float(np.linalg.norm(w))
        return w / norm, (s - self.shift) / norm


def tilt_from(V: Array, across: Array, peak: Array, tilt: Array) -> Tilt:
    """The Newton step from what each sample adds to the two statistics.

    `peak` and `tilt` (n,) are labels times weights of the two orders, so that their sums are the
    statistics; V (n, features - 1) are the samples' coordinates across z.
    """
    chi = np.column_stack([np.ones(len(V)), V])
    psi = chi * _height_function(V, peak)[:, None]
    inverse = np.linalg.pinv((psi * peak[:, None]).T @ chi)
    terms = psi * tilt[:, None]
    theta = inverse @ terms.sum(axis=0)
    errors = np.sqrt(np.diag(inverse @ (terms.T @ terms) @ inverse.T))
    return Tilt(float(theta[0]), theta[1:], across, float(errors[0]), errors[1:])


def _height_function(V: Array, peak: Array) -> Array:
    """The height of the face as a quadratic function of v: its mean, and what is significant."""
    basis = hermite_rows(V, 2)
    coefficients = basis @ peak
    errors = np.sqrt(basis**2 @ peak**2)
    kept = np.abs(coefficients) > COEFFICIENT_SIGNIFICANT * errors
    kept[0] = True
    return np.asarray(np.where(kept, coefficients, 0.0) @ basis)


def measured_tilt(data: Labels, z: Array, s: float, order: int, h: float) -> Tilt:
    """The Newton step from the samples in the bands about `z.x = s`."""
    data = data.near(z, s, BANDS * h)
    band = np.floor((data.X @ z - s) / h).astype(np.intp) + BANDS
    band = np.clip(band, 0, 2 * BANDS - 1)
    w = np.ones(len(band)) if data.weights is None else data.weights
    inside = np.bincount(band, w, minlength=2 * BANDS)
    a_sample = data.y * w / np.maximum(inside, NONE)[band]
    across = complement(z)
    return tilt_from(
        data.X @ across.T,
        across,
        a_sample * PEAK[order][band] / h ** (order - 1),
        a_sample * TILT[order][band] / h ** (order - 2),
    )


def asked_tilt(
    ask: Callable[[Array], Array],
    z: Array,
    s: float,
    order: int,
    h: float,
    lines: int,
    rng: np.random.Generator,
) -> tuple[Tilt, float, float]:
    """The same from a function: each line across the hyperplane is asked in all bands.

    What varies from line to line cancels in the differences, so h can be as small as one likes.
    Also the statistic and its standard error. `8 lines` queries.
    """
    across = complement(z)
    V = rng.standard_normal((lines, len(z) - 1))
    centres = (np.arange(-BANDS, BANDS) + 0.5) * h
    u = centres + rng.uniform(-h / 2, h / 2, size=(lines, 1))
    X = (V @ across)[:, None, :] + (s + u)[..., None] * z
    y = ask(X.reshape(-1, len(z))).reshape(u.shape)
    peak = y @ PEAK[order] / h ** (order - 1)
    tilt = y @ TILT[order] / h ** (order - 2)
    error = float(np.std(peak) / np.sqrt(lines))
    return tilt_from(V, across, peak / lines, tilt / lines), float(np.mean(peak)), error
