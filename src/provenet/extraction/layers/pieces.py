"""Lines through the cells of known layers: their kinks, and the gradients between these.

The gradient is measured along an orthonormal basis V of the row space of J alone (`rank J + 2`
questions: the point, a step along each column of V, one more that must be predicted): along all
other directions the known layers do not change. Steps are short against the distance to the next
kink on the line over the root of the rank: a hyperplane that the line meets at random is nearer by
about that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.tolerances import (
    DEEP_GRADIENT_STEP,
    DEEP_GRADIENT_TRIES,
    DEEP_SHORTER,
    NUMBERS_A_BLOCK,
    PREDICTED,
    RANK,
    SAME_PLACE,
    SCREENED,
    SCREENED_FAR,
    SCREENED_SHORTER,
    SCREENED_STEP,
    SCREENED_WAYS,
    SCREENINGS,
)
from provenet.extraction.lines import trace_line
from provenet.extraction.segments import Segment
from provenet.extraction.tolerances import (
    FROM_EDGE,
    FROM_FAR_EDGE,
    ROUNDING,
    TINIEST,
    TYPICAL_ERROR,
)


@dataclass(eq=False)
class Line:
    """A line, all its kinks in order, and whose they are."""

    origin: Array
    direction: Array
    low: float
    high: float
    scale: float
    """Distance of a typical kink."""
    switches: Array
    """Where known units switch."""
    kinks: Array
    old: AnyArray
    """Which of the kinks are those of known units."""
    owner: AnyArray
    """The row that predicts a kink; -1 while none does."""
    complete: bool
    flat: AnyArray = field(default_factory=lambda: np.empty(0, dtype=bool))
    """Pieces where all answers are the same: what lies below has no kink there to be seen."""

    def is_flat(self, t: float) -> bool:
        """Whether a place is known to lie in such a piece."""
        return len(self.flat) > 0 and bool(self.flat[np.searchsorted(self.kinks, t)])

    def at(self, t: Array | float) -> Array:
        """Points of the line."""
        return np.asarray(self.origin + np.multiply.outer(t, self.direction))

    @property
    def edges(self) -> Array:
        """The ends, and all kinks: where pieces begin and end."""
        return np.concatenate([[self.low], self.kinks, [self.high]])

    @property
    def open_kinks(self) -> AnyArray:
        """Numbers of the kinks that nothing explains."""
        return np.flatnonzero((self.owner < 0) & ~self.old)

    def places(self) -> tuple[Array, Array]:
        """A place in every piece, near the middle but not far out, and its distance to the ends."""
        edges = self.edges
        margin = FROM_EDGE * self.scale + FROM_FAR_EDGE * np.abs(edges)
        half = np.diff(edges) / 2
        low = edges[:-1] + np.minimum(half, margin[:-1])
        high = edges[1:] - np.minimum(half, margin[1:])
        t = np.clip(0.0, low, np.maximum(low, high))
        distance = np.minimum(t - edges[:-1], edges[1:] - t)
        return t, np.minimum(distance, FROM_EDGE * self.scale + np.abs(t))


def traced(frame: Frame, known: KnownLayers, segment: Segment) -> Line:
    """The line with its kinks, those of known units told apart."""
    start, direction, scale = segment.origin, segment.direction, segment.scale
    rounding = ROUNDING * (1 + len(known.layers))
    first = len(frame.kept)
    trace = trace_line(frame, start, direction, segment.reach, scale, rounding)
    switches = known.switches(start, direction, *segment.reach)
    old, nobody = _near(trace.kinks, switches, scale), np.full(len(trace.kinks), -1)
    return Line(
        start,
        direction,
        *segment.reach,
        scale,
        switches,
        trace.kinks,
        old,
        nobody,
        trace.complete,
        _flat(frame, segment, trace.kinks, first),
    )


def _flat(frame: Frame, segment: Segment, kinks: Array, first: int) -> AnyArray:
    """Pieces of a line between whose kinks all answers, from a first on, are the same."""
    X, Y = (np.vstack(part) for part in zip(*frame.kept[first:], strict=True))
    way = segment.direction
    t = (frame.coordinates_of(X) - segment.origin) @ way / (way @ way)
    piece, allowed = np.searchsorted(kinks, t), 2 * ROUNDING * float(np.abs(Y).max())
    answers = [Y[piece == i] for i in range(len(kinks) + 1)]
    return np.array([len(y) > 1 and bool((np.ptp(y, axis=0) <= allowed).all()) for y in answers])


def seen_from(line: Line, known: KnownLayers, Q: Array | None) -> Line:
    """A line that was traced before, in the coordinates and above the layers that are known now."""
    start, direction = (
        (line.origin, line.direction) if Q is None else (line.origin @ Q, line.direction @ Q)
    )
    switches = known.switches(start, direction, line.low, line.high)
    return replace(
        line,
        origin=start,
        direction=direction,
        switches=switches,
        old=_near(line.kinks, switches, line.scale),
        owner=np.full(len(line.kinks), -1),
    )


def _near(places: Array, others: Array, scale: float) -> AnyArray:
    """Which places are among others."""
    if len(others) == 0:
        return np.zeros(len(places), dtype=bool)
    apart = np.abs(places[:, None] - others[None]).min(axis=1)
    return np.asarray(apart <= SAME_PLACE * (np.abs(places) + scale))


@dataclass(frozen=True)
class Piece:
    """Near u, `f = g h + k`; g in the units that are on, of the last known layer."""

    u: Array
    h: Array
    on: AnyArray
    """Units that are; as many as J has rank."""
    g: Array
    """(outputs, units that are on)."""
    k: Array
    error: float
    """Of an entry of g."""


@dataclass
class Measuring:
    """Gradients, each measured once."""

    frame: Frame
    known: KnownLayers
    rng: np.random.Generator
    pieces: dict[tuple[int, int], Piece | None] = field(default_factory=dict)

    def piece(self, number: int, line: Line, i: int) -> Piece | None:
        """Piece i of a line; None where it cannot be measured."""
        key = number, i
        if key not in self.pieces:
            t, distance = (values[i] for values in line.places())
            self.pieces[key] = self.at(line.at(t), float(distance))
        return self.pieces[key]

    def at(self, u: Array, distance: float) -> Piece | None:
        """The gradient at a point with so much room; None if it cannot be measured there."""
        try:
            return self._at(u, distance)
        except OutsideTheBox:
            return None

    def _at(self, u: Array, distance: float) -> Piece | None:
        """The same, if the point's cell is clean."""
        if not self.known.layers:
            return self._gradient(u, u, np.ones(len(u), dtype=bool), None, distance)
        state = self.known.state(u[None])
        h, J = state.h[0], state.J[0]
        on = h > 0
        if not 0 < on.sum() <= len(u) or state.room[0] <= 0:
            return None
        _, size, V = np.linalg.svd(J[on], full_matrices=False)
        if size[-1] < RANK * size[0]:
            return None
        return self._gradient(u, h, on, (J[on], V), min(distance, float(state.room[0])))

    def _gradient(
        self, u: Array, h: Array, on: AnyArray, cell: tuple[Array, Array] | None, distance: float
    ) -> Piece | None:
        step = self._step(u, None if cell is None else cell[1], int(on.sum()), distance)
        for _ in range(DEEP_GRADIENT_TRIES):
            found = self._slopes(u, None if cell is None else cell[1], step)
            if found is not None:
                slopes, value, error = found
                break
            step *= DEEP_SHORTER
        else:
            return None
        if cell is not None:  # from slopes along V to slopes in h
            J, V = cell
            back = np.linalg.inv(J @ V.T)
            slopes, error = slopes @ back, error * float(np.linalg.norm(back, 2))
        return Piece(u, h, on, slopes, value - slopes @ h[on], error)

    def _step(self, u: Array, V: Array | None, rank: int, distance: float) -> float:
        """How far to go: as far as f is straight along random directions, if asking that pays."""
        if rank < SCREENED:
            return DEEP_GRADIENT_STEP * distance / float(np.sqrt(rank))
        step, value = SCREENED_STEP * distance, self.frame(u[None])[0]
        for _ in range(SCREENINGS):
            ways = self.rng.standard_normal((SCREENED_WAYS, rank))
            ways *= SCREENED_FAR * step / np.linalg.norm(ways, axis=1, keepdims=True)
            far = ways if V is None else ways @ V
            rises = self.frame.beside(np.vstack([u + far, u - far])) - value
            bend = float(np.abs(rises[:SCREENED_WAYS] + rises[SCREENED_WAYS:]).max())
            rise = float(np.abs(rises).max())
            steep = rise / (SCREENED_FAR * step) * np.sqrt(rank)
            size = float(np.abs(value).max()) + steep * float(np.linalg.norm(u))
            if bend <= 2 * ROUNDING * size:
                break
            step *= SCREENED_SHORTER
        return step

    def _slopes(self, u: Array, V: Array | None, step: float) -> tuple[Array, Array, float] | None:
        """Slopes along the rows of V, the value and the slopes' error; None if not linear there."""
        found = slopes(self.frame, u, V, step)
        rank = found.along.shape[1]
        signs = self.rng.choice([-1.0, 1.0], rank) / np.sqrt(rank)
        along = signs if V is None else signs @ V
        seen = self.frame.beside((u - step * along)[None])[0] - found.value
        off = float(np.abs(seen + step * found.along @ signs).max())
        if off > PREDICTED * found.rounding * np.sqrt(rank):
            return None
        return found.along, found.value, TYPICAL_ERROR * found.rounding / step + TINIEST


@dataclass(frozen=True)
class Slopes:
    """Slopes (outputs, directions), the value, and how far rounding lets a value be off."""

    along: Array
    value: Array
    rounding: float


def slopes(frame: Frame, u: Array, V: Array | None, step: float) -> Slopes:
    """Slopes along the rows of V, by one step each; without V along the inputs' own axes."""
    value, x = frame(u[None])[0], frame.inputs(u[None])[0]
    rank = len(x) if V is None else len(V)
    along = np.empty((len(value), rank))
    block = max(1, NUMBERS_A_BLOCK // len(x))
    for first in range(0, rank, block):
        rows = np.arange(first, min(rank, first + block))
        if V is None:
            points = np.repeat(x[None], len(rows), axis=0)
            points[np.arange(len(rows)), rows] += step
            taken = points[np.arange(len(rows)), rows] - x[rows]
            answers = frame.answered(points)
        else:
            points = u + step * V[rows]
            taken = np.einsum("ij,ij->i", points - u, V[rows])
            answers = frame.beside(points)
        along[:, rows] = (answers - value).T / taken
    steep = float(np.linalg.norm(along))
    size = float(np.abs(value).max()) + steep * (float(np.linalg.norm(x)) + step)
    return Slopes(along, value, ROUNDING / 2 * size)
