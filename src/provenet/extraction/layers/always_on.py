"""A unit that is on everywhere: its row without a kink, from gradients.

Where units that switch are known, gradients are sums over those that are on and the row l of one
that always is: l lies in the span of a gradient and the rows that are on, wherever that is less
than the cell. With wrong signs no vector does so everywhere. So for all choices of the signs

    sum over gradients of |what of l is perpendicular to g and the rows that are on|^2 = l M l,

and l is the eigenvector of the choice whose smallest eigenvalue vanishes, if the next does not. (A
unit that never switched at the gradients would do so, too: it is known already.)

If `l.h` is the same at several kinks that nothing explains, the unit does switch, there. Else it
passes on `l.h`: its bias is chosen so that it is on wherever f is asked, and those of rows above
make up for it. An answer with such a unit is never exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.pieces import Piece
from provenet.extraction.layers.rows import Always, Row
from provenet.extraction.layers.signs import Seen, seen_gradients
from provenet.extraction.layers.tolerances import (
    ALWAYS_AGREES,
    ALWAYS_GRADIENTS,
    ALWAYS_LOW,
    ALWAYS_POINTS,
    ALWAYS_TELLS,
    ALWAYS_TRIED,
    HITS,
    MOST_OPEN_SIGNS,
    SAME_PLACE,
    SCALES,
    UNSURE_PLACE,
)
from provenet.extraction.tolerances import FAR_OUT, TINIEST


def always_on(
    known: KnownLayers, rows: Sequence[Row], pieces: Sequence[Piece], rng: np.random.Generator
) -> Row | None:
    """The row that explains gradients beside others, of whatever signs; None if none does."""
    seen = seen_gradients(rows, pieces)[:ALWAYS_GRADIENTS]
    if not 0 < len(rows) < MOST_OPEN_SIGNS or not seen:
        return None
    size, vectors = np.linalg.eigh(_perpendicular(seen, len(rows)))
    unlike = np.sqrt(np.maximum(size[:, 0], 0.0) / (size[:, 1] + TINIEST))
    R = np.array([row.v[:-1] / np.linalg.norm(row.v[:-1]) for row in rows])
    another = np.abs(vectors[:, :, 0] @ R.T).max(axis=1) < 1 - ALWAYS_AGREES
    good = another & (size[:, 1] >= ALWAYS_TELLS * len(seen)) & (unlike <= ALWAYS_AGREES)
    best = int(np.argmax(np.where(good, size[:, 1], -np.inf)))
    if not good[best]:
        return None
    return _row(known, vectors[best, :, 0], float(unlike[best]), rng)


def may_switch(known: KnownLayers, unit: Row, U: Array) -> list[Row]:
    """The unit as one that does switch, at some kinks: at all of its own `l.h` is the same.

    Where it is so at the most of them first, then where it is lowest, since it is hardly ever off.
    """
    h = known.h(U)
    values, unsure = h @ unit.v[:-1], UNSURE_PLACE * unit.error * np.linalg.norm(h, axis=1)
    order = np.argsort(values)
    values, unsure = values[order], (unsure + SAME_PLACE * (1 + np.abs(values)))[order]
    same = np.searchsorted(values, values + unsure, side="right") - np.arange(len(values))
    chosen = [*np.argsort(-same, kind="stable")[:1], *range(min(len(values), ALWAYS_TRIED))]
    found = []
    for i in map(int, chosen):
        v, errors = unit.v.copy(), unit.errors.copy()
        v[-1], errors[-1] = -values[i], errors[-1] + unsure[i]
        own = replace(unit, v=v, errors=errors, place=U[order[i]], hits=1, always=Always.NOT)
        found.append(own)
    return found


def _perpendicular(seen: Sequence[Seen], units: int) -> Array:
    """The matrix M of each choice of signs, numbered by bits: whether a unit is on if positive."""
    choices = np.arange(2**units)
    on = ((choices[:, None] >> np.arange(units)) & 1).astype(bool)
    number, columns = on.sum(axis=1), seen[0].E.shape[1]
    M = np.zeros((len(choices), columns, columns))
    for one in seen:
        of_pattern = _left(one, on, number)
        negative = int((~one.on_if_positive) @ (1 << np.arange(units)))
        M += of_pattern[choices ^ negative]
    return M


def _left(one: Seen, on: AnyArray, number: AnyArray) -> Array:
    """For each set of rows that are on: the projection across these and the gradient."""
    columns, rank = one.E.shape[1], len(one.E)
    found = np.zeros((len(on), columns, columns))
    for m in range(rank - one.G.shape[1]):
        own = np.flatnonzero(number == m)
        rows = np.nonzero(on[own])[1].reshape(len(own), m)
        B = one.B.T[rows].transpose(0, 2, 1)
        G = np.broadcast_to(one.G, (len(own), *one.G.shape))
        Q = np.linalg.qr(np.concatenate([B, G], axis=2))[0].transpose(0, 2, 1) @ one.E
        found[own] = one.E.T @ one.E - Q.transpose(0, 2, 1) @ Q
    return found


def _row(known: KnownLayers, v: Array, error: float, rng: np.random.Generator) -> Row:
    """The row, turned so that it is on far out, with a bias that keeps it on."""
    scales = np.repeat((*SCALES, *FAR_OUT), ALWAYS_POINTS)[:, None]
    U = scales * rng.standard_normal((len(scales), known.coordinates))
    values = known.h(U) @ v
    if -values.min() > values.max():
        v, values = -v, -values
    low, high = -min(0.0, float(values.min())), float(values.max())
    bias = 1.0 + 2 * low
    everything, errors = np.ones(len(v), dtype=bool), np.full(len(v) + 1, error)
    nowhere = np.zeros(known.coordinates)
    always = Always.IS if low <= ALWAYS_LOW * high else Always.SEEMS
    return Row(np.append(v, bias), everything, errors, nowhere, hits=HITS, always=always)
