"""Gradients between the kinks on a line, and the units that their jumps are.

A gradient is believed if it also predicts a step along the line: a step that crossed another
hyperplane does not, and shorter ones are tried.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.box import Box
from provenet.extraction.questions import Ask, ask_gradients
from provenet.extraction.segments import Segment
from provenet.extraction.tolerances import (
    BELIEVED,
    FROM_EDGE,
    FROM_FAR_EDGE,
    GRADIENT_STEP,
    GRADIENT_TRIES,
    SHORTER,
    TINIEST,
    TYPICAL_ERROR,
)
from provenet.extraction.units import Pieces, Units, factored


def pieces_between(
    ask: Ask, line: Segment, kinks: Array, box: Box, rounding: float, least: float
) -> Pieces | None:
    """The gradients between the kinks on a line; None where pieces are too short to be measured.

    `rounding` is the relative error of the values, `least` an absolute one: what an earlier answer
    left is known less exactly.
    """
    places, distances = places_between(kinks, line)
    pieces = pieces_at(ask, line, places, distances, box, (rounding, least))
    return pieces if pieces.believed.all() else None


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
    rounding: tuple[float, float],
) -> Pieces:
    """Gradients in all pieces; those that are not believed again with shorter steps."""
    steps = GRADIENT_STEP * distances
    X = line.origin + places[:, None] * line.direction
    found = measured_pieces(ask, line, X, steps, box, rounding)
    for _ in range(GRADIENT_TRIES):
        bad = np.flatnonzero(~found.believed)
        if len(bad) == 0:
            break
        steps[bad] *= SHORTER
        again = measured_pieces(ask, line, X[bad], steps[bad], box, rounding)
        for own, new in zip(
            (found.gradients, found.constants, found.errors, found.believed),
            (again.gradients, again.constants, again.errors, again.believed),
            strict=True,
        ):
            own[bad] = new
    return found


def measured_pieces(
    ask: Ask, line: Segment, X: Array, steps: Array, box: Box, relative: tuple[float, float]
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
    rounding = relative[0] * (np.abs(values).max(axis=(1, 2)) + far * steepness) + relative[1]
    allowed = rounding * np.sqrt(d) + BELIEVED * np.abs(rises).max(axis=(1, 2))
    believed = np.abs(predicted - rises[:, d]).max(axis=1) <= allowed
    constants = values[:, 0] - np.einsum("nod,nd->no", gradients, X)
    # The constant is off by the gradient's error over this distance.
    errors = TYPICAL_ERROR * rounding / steps * np.maximum(1.0, far / np.sqrt(d)) + TINIEST
    return Pieces(X, gradients, constants, errors, believed)


def units_of(pieces: Pieces, line: Segment) -> Units:
    """A unit a jump: off before its kink, on after it."""
    first = pieces.gradients[0], pieces.constants[0]
    jumps = np.diff(pieces.gradients, axis=0)
    offsets = np.diff(pieces.constants, axis=0)
    found = [factored(J, c, line.direction) for J, c in zip(jumps, offsets, strict=True)]
    if not found:
        nothing = Units.none(*pieces.gradients.shape[:0:-1])
        return Units(nothing.W, nothing.b, nothing.A, *first)
    W, b, A = (np.array(part) for part in zip(*found, strict=True))
    return Units(W, b, A.T, *first)
