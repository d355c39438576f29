"""The signs of a layer with more units than its inputs have dimensions, from surfaces above it.

Gradients do not tell such signs: any vector is a sum of some rows. A unit of the next layer does.
Through a kink of it at u_0 goes the surface

    F(u) = r_0.h + b_0 + sum_i c_i relu(s_i z_i(u)) = 0,    s_i = -sign z_i(u_0),

which turns where it meets z_i = 0, by c_i: one number a unit (`filling`), since F is a row above a
layer of the units s_i z_i and of h itself, which passes through. A walk along the surface meets one
unit after the other. With the true signs sigma, `relu(sigma_i z_i)` is `relu(s_i z_i)`, less
`s_i z_i` where they differ; so c are the unit's weights, and

    sum_i sigma_i c_i r_i = 2 r_0 + sum_i c_i s_i r_i:

linear in sigma, as many equations a surface as h has dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.filling import completed
from provenet.extraction.layers.known import Frame, KnownLayer, KnownLayers
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    SIGNS_OFF,
    SURFACE_ROUNDS,
)


@dataclass(frozen=True)
class Surface:
    """A surface all of whose turns are known."""

    r: Array
    b: float
    c: Array
    s: Array
    place: Array
    errors: Array
    """Of c, and of the bias last."""

    def row(self, b: Array, sigma: Array) -> Row:
        """The row of the unit above, once the signs are known."""
        bias = self.b + float((self.c * self.s * b)[sigma != self.s].sum())
        everything = np.ones(len(self.c), dtype=bool)
        return Row(np.append(self.c, bias), everything, self.errors, self.place)


def surface_through(
    frame: Frame, known: KnownLayers, R: Array, b: Array, kink: Row, rng: np.random.Generator
) -> Surface | None:
    """The surface through a kink, followed until all its turns are known; None if that fails."""
    s = -np.sign(R @ known.h(kink.place[None])[0] + b)
    above, row = _above(known, R, b, s, kink)
    width, row = known.units, completed(frame, above, row, rng, SURFACE_ROUNDS)
    if not row.cols.all():
        return None
    errors = row.errors[width:].copy()
    errors[-1] += np.linalg.norm(errors[:-1] * b)
    return Surface(row.v[:width], float(row.v[-1]), row.v[width:-1], s, row.place, errors)


def _above(known: KnownLayers, R: Array, b: Array, s: Array, kink: Row) -> tuple[KnownLayers, Row]:
    """The known layers below one of h itself and the units s z, and the kink's row above it."""
    width = known.units
    W = np.vstack([np.eye(width), s[:, None] * R])
    always = np.arange(len(W)) < width
    layer = KnownLayer(W, np.append(np.zeros(width), s * b), np.ones(W.shape, dtype=bool), always)
    nothing = np.zeros(len(R))
    v, errors = (np.concatenate([a[:-1], nothing, a[-1:]]) for a in (kink.v, kink.errors))
    return known.with_layer(layer), Row(v, always.copy(), errors, kink.place)


def signs_from(surfaces: list[Surface], R: Array) -> Array | None:
    """The signs of the units that all surfaces agree on; None if they are too few or do not."""
    if sum(len(f.r) for f in surfaces) < len(R) + 2:
        return None
    system = np.vstack([(f.c[:, None] * R).T for f in surfaces])
    sides = np.concatenate([2 * f.r + (f.c * f.s) @ R for f in surfaces])
    sigma = np.linalg.lstsq(system, sides, rcond=1e-9)[0]
    if np.abs(np.abs(sigma) - 1).max() > SIGNS_OFF:
        return None
    return np.asarray(np.sign(sigma))


def agreeing(surfaces: list[Surface], R: Array, sigma: Array) -> AnyArray:
    """Which surfaces belong to units above a layer with these signs."""
    return np.array(
        [
            np.linalg.norm((sigma * f.c) @ R - 2 * f.r - (f.c * f.s) @ R)
            < SIGNS_OFF * np.linalg.norm(f.r)
            for f in surfaces
        ],
        dtype=bool,
    )
