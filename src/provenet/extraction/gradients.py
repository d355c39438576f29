"""Gradients between the kinks on a line, and the units that their jumps are.

A gradient is believed if it also predicts a step along the line: a step that crossed another
hyperplane does not, and shorter ones are tried.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.questions import Ask, ask_gradients
from provenet.extraction.segments import Segment
from provenet.extraction.tolerances import (
    ALONG_A_PIECE,
    BELIEVED,
    CERTAIN,
    FROM_EDGE,
    FROM_FAR_EDGE,
    GRADIENT_STEP,
    GRADIENT_TRIES,
    ONE_UNIT,
    POORLY,
    ROUNDING,
    SAFE,
    SHORTER,
    TINIEST,
    TYPICAL_ERROR,
)
from provenet.extraction.units import Pieces, Units, factored


def pieces_between(ask: Ask, line: Segment, kinks: Array, box: Box) -> Pieces:
    """The gradients between the kinks on a line; those of pieces too short are not believed."""
    places, distances = places_between(kinks, line)
    return pieces_at(ask, line, places, distances, box)


def pieces_of_rest(
    ask: Ask, line: Segment, kinks: Array, box: Box, known: Units, zero: int
) -> Pieces:
    """The same between the kinks of what known units leave of a function.

    In the piece `zero`, that of the line's origin, they leave nothing: it is not asked. Others are
    measured where the known hyperplanes leave room for it. (Measured on what is left, known kinks
    would not matter, but all errors of known units would be divided by the steps, as rounding is.)
    """
    edges = np.concatenate([[line.reach[0]], kinks, [line.reach[1]]])
    asked = np.delete(np.arange(len(edges) - 1), zero)
    among = edges[asked, None] + np.diff(edges)[asked, None] * ALONG_A_PIECE
    X = line.origin + among[:, :, None] * line.direction
    distance = np.minimum(among - edges[asked, None], edges[asked + 1, None] - among)
    own = np.minimum(GRADIENT_STEP * distance, SAFE * _room(X, known)) / GRADIENT_STEP
    best = np.argmax(own, axis=1)[:, None]
    places, distances = (np.take_along_axis(part, best, 1)[:, 0] for part in (among, own))
    found = pieces_at(ask, line, places, distances, box)
    return found[:zero] + Pieces.known_at(line.origin, known) + found[zero:]


def _room(X: Array, known: Units) -> Array:
    """How far the nearest hyperplane is, for steps along axes and for a step of the same length."""
    return np.asarray(np.abs(X @ known.W.T + known.b).min(axis=-1, initial=np.inf))


def places_between(kinks: Array, line: Segment) -> tuple[Array, Array]:
    """A place in every piece, near the middle but not far out, and its distance to the kinks."""
    edges = np.concatenate([[line.reach[0]], kinks, [line.reach[1]]])
    # A kink far out is that of a unit almost parallel to the line: its hyperplane is still near.
    margin = FROM_EDGE * line.scale + FROM_FAR_EDGE * np.abs(edges)
    low = edges[:-1] + np.minimum(np.diff(edges) / 2, margin[:-1])
    high = edges[1:] - np.minimum(np.diff(edges) / 2, margin[1:])
    places = np.clip(0.0, low, np.maximum(low, high))
    distance = np.minimum(places - edges[:-1], edges[1:] - places)
    return places, np.minimum(distance, FROM_EDGE * line.scale)


def pieces_at(
    ask: Ask,
    line: Segment,
    places: Array,
    distances: Array,
    box: Box,
) -> Pieces:
    """Gradients in all pieces; those that are not believed again with shorter steps."""
    steps = GRADIENT_STEP * distances
    X = line.origin + places[:, None] * line.direction
    found = measured_pieces(ask, line, X, steps, box)
    for _ in range(GRADIENT_TRIES):
        bad = np.flatnonzero(~found.believed)
        if len(bad) == 0:
            break
        steps[bad] *= SHORTER
        again = measured_pieces(ask, line, X[bad], steps[bad], box)
        order = np.arange(len(X))
        order[bad] = len(X) + np.arange(len(bad))
        found = (found + again)[order]
    return found


def measured_pieces(
    ask: Ask, line: Segment, X: Array, steps: Array, box: Box, relative: float = ROUNDING
) -> Pieces:
    """`features + 2` questions at every point: itself, along the axes, and along the line."""
    d = X.shape[1]
    axes = box.steps(X, np.broadcast_to(steps[:, None], X.shape))
    along = steps[:, None] * line.direction
    values = ask_gradients(ask, X, axes, along)
    rises = values[:, 1:] - values[:, :1]
    taken = (X + axes) - X, (X + along) - X  # as rounded
    with np.errstate(divide="ignore", invalid="ignore"):  # a step too short to be one
        gradients = np.swapaxes(rises[:, :d] / taken[0][:, :, None], 1, 2)
    predicted = np.einsum("nod,nd->no", gradients, taken[1])
    far = np.linalg.norm(X, axis=1)
    steepness = np.linalg.norm(gradients, axis=(1, 2))  # inputs are rounded too
    rounding = relative * (np.abs(values).max(axis=(1, 2)) + far * steepness)
    allowed = rounding * np.sqrt(d) + BELIEVED * np.abs(rises).max(axis=(1, 2))
    off = np.abs(predicted - rises[:, d]).max(axis=1)
    # Of values with errors alike: the last, those of the gradient, and the first in all of these.
    missed = off / np.sqrt(2 + (1 - line.direction.sum()) ** 2)
    constants = values[:, 0] - np.einsum("nod,nd->no", gradients, X)
    # The constant is off by the gradient's error over this distance.
    shortest = np.minimum(steps, np.abs(axes).min(axis=1))
    lengths = shortest / np.maximum(1.0, far / np.sqrt(d))
    errors = TYPICAL_ERROR * rounding / lengths + TINIEST
    return Pieces(X, gradients, constants, errors, off <= allowed, lengths, missed)


def units_of(pieces: Pieces, line: Segment, kinks: Array, base: int) -> Units:
    """A unit a jump between two pieces that are believed: off on the side of the piece `base`.

    So the function near there is the linear part alone, whatever jumps are not known. Not known are
    those beside pieces too short for it, and jumps of two units: these do not vanish at the kink.
    """
    J, c = np.diff(pieces.gradients, axis=0), np.diff(pieces.constants, axis=0)
    both = pieces.believed[:-1] & pieces.believed[1:] & _vanish_at(J, c, line, kinks, pieces)
    errors = (pieces.errors[:-1] + pieces.errors[1:]) * np.sqrt(J.shape[2])
    both &= errors <= POORLY * np.linalg.norm(J, axis=(1, 2))
    found = []
    for k in np.flatnonzero(both):
        sign = 1.0 if k >= base else -1.0
        found.append(factored(sign * J[k], sign * c[k], sign * line.direction))
    first = pieces.gradients[base], pieces.constants[base]
    if not found:
        nothing = Units.none(*pieces.gradients.shape[:0:-1])
        return Units(nothing.W, nothing.b, nothing.A, *first)
    W, b, A = (np.array(part) for part in zip(*found, strict=True))
    return Units(W, b, A.T, *first)


def _vanish_at(J: Array, c: Array, line: Segment, kinks: Array, pieces: Pieces) -> AnyArray:
    """Whether the jump at every kink is zero there, as that of a single unit is."""
    at = line.origin + kinks[:, None] * line.direction
    value = np.abs(np.einsum("nod,nd->no", J, at) + c).max(axis=1)
    apart = np.linalg.norm(pieces.X[1:] - pieces.X[:-1], axis=1)
    slope = np.abs(J @ line.direction).max(axis=1)
    errors = (pieces.errors[1:] + pieces.errors[:-1]) * np.sqrt(J.shape[2]) * apart
    return np.asarray(value <= ONE_UNIT * slope * apart + CERTAIN * errors)
