"""Gradients between the kinks of lines through the cells of known layers.

The gradient is measured along an orthonormal basis V of the row space of J alone (`rank J + 2`
questions: the point, a step along each column of V, one more that must be predicted): along all
other directions the known layers do not change. By the inputs themselves all gradients lie in the
span of the first layer's rows: once they span it, it is enough to measure along that.

Steps are short against the distance to the next kink on the line over the root of the rank: a
hyperplane that the line meets at random is nearer by about that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import AxisGradient, Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.lines import Line
from provenet.extraction.layers.tolerances import (
    DEEP_GRADIENT_STEP,
    DEEP_GRADIENT_TRIES,
    DEEP_SHORTER,
    PREDICTED,
    RANK,
    SCREENED,
    SCREENED_FAR,
    SCREENED_SHORTER,
    SCREENED_STEP,
    SCREENED_WAYS,
    SCREENINGS,
    SPAN_KNOWN,
    SPAN_PROBES,
)
from provenet.extraction.questions import ask_gradients
from provenet.extraction.tolerances import (
    ROUNDING,
    TINIEST,
    TYPICAL_ERROR,
)


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
    span: Array | None = None
    """Orthonormal columns in which alone g is told; None where all units that are on are."""


def seen_above(
    piece: Piece | None, below: KnownLayers, known: KnownLayers, Q: Array | None
) -> Piece | None:
    """A piece that was measured before, in the units of one more layer; None if not clean there."""
    if piece is None:
        return None
    u = piece.u if Q is None else piece.u @ Q
    cell = _clean_cell(known, u)
    if cell is None:
        return None
    back = np.linalg.pinv(cell.J[cell.on])
    along, size = piece.g, 1.0
    if below.layers:
        J = below.state(piece.u[None]).J[0][piece.on]
        along, size = piece.g @ J, float(np.linalg.norm(J, 2))
    g = (along if Q is None else along @ Q) @ back
    error = piece.error * size * float(np.linalg.norm(back, 2))
    k = piece.k + piece.g @ piece.h[piece.on] - g @ cell.h[cell.on]
    return Piece(u, cell.h, cell.on, g, k, error)


@dataclass(frozen=True)
class _CellAt:
    """The cell at a point; clean if the units that are on do not depend on each other."""

    h: Array
    J: Array
    on: AnyArray
    V: Array
    """Orthonormal rows that span those of J."""
    room: float
    span: Array
    """Orthonormal columns that span those of J, in the units that are on."""

    @property
    def clean(self) -> bool:
        return len(self.V) == int(self.on.sum())


def _cell(known: KnownLayers, u: Array) -> _CellAt | None:
    """The cell of a point, if its weights are known."""
    state = known.state(u[None])
    h, J, room = state.h[0], state.J[0], float(state.room[0])
    on = h > 0
    if not on.any() or room <= 0:
        return None
    outer, size, V = np.linalg.svd(J[on], full_matrices=False)
    rank = int((size > RANK * size[0]).sum())
    return _CellAt(h, J, on, V[:rank], room, outer[:, :rank])


def _clean_cell(known: KnownLayers, u: Array) -> _CellAt | None:
    """The cell of a point, if it is clean and its weights are known."""
    cell = _cell(known, u)
    return cell if cell is not None and cell.clean else None


@dataclass(frozen=True)
class GradientSpan:
    """What gradients by the inputs span: that of the first layer's rows once all were on.

    A gradient that is the sum of c_k times those of the span is off it, by what these are off, by
    the norm of the c_k times their errors.
    """

    rows: Array
    """Orthonormal."""
    gradients: Array
    """That span it, each over its error."""
    size: float = 0.0
    """The largest of them."""

    @classmethod
    def nothing(cls, features: int) -> GradientSpan:
        """Before any gradient is known."""
        return cls(np.empty((0, features)), np.empty((0, features)))

    @cached_property
    def _inverse(self) -> Array:
        return np.asarray(np.linalg.pinv(self.gradients), dtype=float)

    def unsure(self, g: Array) -> float:
        """How far gradients (outputs, features) in the span may lie outside."""
        return float(np.linalg.norm(g @ self._inverse, axis=1).max())

    def with_rows(self, gradients: Array, error: float) -> GradientSpan:
        """With gradients (outputs, features) that are known to an error in every entry."""
        span = self
        for g in gradients:
            outside = g - (g @ span.rows.T) @ span.rows
            outside -= (outside @ span.rows.T) @ span.rows
            size, own = float(np.linalg.norm(outside)), error * float(np.sqrt(len(g)))
            if own + span.unsure(g[None]) >= SPAN_KNOWN * size:  # rounding, or known too poorly
                continue
            rows = np.vstack([span.rows, outside / size])
            largest = max(span.size, float(np.linalg.norm(g)))
            span = GradientSpan(rows, np.vstack([span.gradients, g / own]), largest)
        return span


@dataclass
class Measuring:
    """Gradients, each measured once."""

    frame: Frame
    known: KnownLayers
    rng: np.random.Generator
    pieces: dict[tuple[int, int], Piece | None] = field(default_factory=dict)
    unclean: dict[tuple[int, int], Piece | None] = field(default_factory=dict)
    """In cells whose units depend on each other; None, too, where there are others."""
    span: GradientSpan = field(init=False)

    def __post_init__(self) -> None:
        """No gradient is known."""
        self.span = GradientSpan.nothing(self.frame.coordinates)

    def roomiest_first(self, number: int, line: Line, pieces: AnyArray) -> None:
        """Measure some pieces of a line: those with the most room tell the span best."""
        _, distance = line.places()
        for i in sorted(pieces.tolist(), key=lambda i: -distance[i]):
            self.piece(number, line, i)

    def piece(self, number: int, line: Line, i: int) -> Piece | None:
        """Piece i of a line; None where it cannot be measured."""
        key = number, i
        if key not in self.pieces:
            t, distance = (values[i] for values in line.places())
            self.pieces[key] = self.at(line.at(t), float(distance))
        return self.pieces[key]

    def piece_in_any_cell(self, number: int, line: Line, i: int) -> Piece | None:
        """Piece i of a line in a cell that need not be clean; None where it cannot be measured."""
        key = number, i
        if key not in self.unclean:
            t, distance = (values[i] for values in line.places())
            self.unclean[key] = self.in_any_cell(line.at(t), float(distance))
        return self.unclean[key]

    def in_any_cell(self, u: Array, distance: float) -> Piece | None:
        """The gradient at a point with so much room, clean or not; None if it cannot be had."""
        cell = _cell(self.known, u)
        try:
            room = min(distance, float(self.frame.room(u[None])[0]))
            return None if cell is None else self._in_cell(u, cell, room)
        except OutsideTheBox:
            return None

    def at(self, u: Array, distance: float) -> Piece | None:
        """The gradient at a point with so much room; None if it cannot be measured there."""
        try:
            return self._at(u, min(distance, float(self.frame.room(u[None])[0])))
        except OutsideTheBox:
            return None

    def _at(self, u: Array, distance: float) -> Piece | None:
        """The same, if the point's cell is clean."""
        if not self.known.layers:
            return self._at_inputs(u, distance)
        cell = _clean_cell(self.known, u)
        return None if cell is None else self._in_cell(u, cell, distance)

    def _in_cell(self, u: Array, cell: _CellAt, distance: float) -> Piece | None:
        """The gradient in a cell; in one that is not clean, in the span of its units alone."""
        at = cell.J[cell.on], cell.V
        piece = self._gradient(u, cell.h, cell.on, at, min(distance, cell.room))
        return None if piece is None else replace(piece, span=None if cell.clean else cell.span)

    def _at_inputs(self, u: Array, distance: float) -> Piece | None:
        """The gradient by the inputs: in the span of those before, if it lies there."""
        everything, d = np.ones(len(u), dtype=bool), len(u)
        if d < SCREENED or len(self.span.rows) + SPAN_PROBES >= d:
            return self._gradient(u, u, everything, None, distance)
        step, inside = self._step(u, None, d, distance), True
        for _ in range(DEEP_GRADIENT_TRIES):
            inside = inside and not self._leaves_span(u, step)
            found = self._slopes(u, self.span.rows if inside else None, step)
            if found is not None:
                break
            step *= DEEP_SHORTER
        else:
            return None
        along, value, error = found
        if inside:
            along = along @ self.span.rows
            error += self.span.unsure(along) / float(np.sqrt(d))
        else:
            self.span = self.span.with_rows(along, error)
        return Piece(u, u, everything, along, value - along @ u, error)

    def _leaves_span(self, u: Array, step: float) -> bool:
        """Whether answers change across the span of the gradients so far."""
        rows = self.span.rows
        if len(rows) == 0:
            return True
        ways = self.rng.standard_normal((SPAN_PROBES, len(u)))
        ways -= (ways @ rows.T) @ rows
        ways *= SCREENED_FAR * step / np.linalg.norm(ways, axis=1, keepdims=True)
        seen = self.frame.beside(np.vstack([u, u + ways]))
        size = self.span.size * (float(np.linalg.norm(u)) + SCREENED_FAR * step)
        rounding = ROUNDING * (float(np.abs(seen).max()) + size)
        unsure = self.span.unsure(self.span.rows) * self.span.size * SCREENED_FAR * step
        return bool(np.abs(seen[1:] - seen[0]).max() > PREDICTED * (rounding + unsure))

    def _gradient(
        self, u: Array, h: Array, on: AnyArray, cell: tuple[Array, Array] | None, distance: float
    ) -> Piece | None:
        rank = int(on.sum()) if cell is None else len(cell[1])
        step = self._step(u, None if cell is None else cell[1], rank, distance)
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
            back = np.linalg.pinv(J @ V.T)
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
    if V is None:
        found = axis_gradient(frame, frame.inputs(u[None])[0], np.full(len(frame.base), step))
        return Slopes(found.along, found.value, found.rounding)
    value = frame(u[None])[0]
    points = u + step * V
    taken = np.einsum("ij,ij->i", points - u, V)
    along = (frame.beside(points) - value).T / taken
    return Slopes(along, value, _rounding(value, along, frame.inputs(u[None])[0], step))


def axis_gradient(frame: Frame, x: Array, steps: Array) -> AxisGradient:
    """Slopes at an input by a step along each axis; kept."""
    value, *ends = ask_gradients(frame.answered, x[None], steps[None])[0]
    taken = (x + steps) - x
    along = (np.array(ends) - value).T / taken
    rounding = _rounding(value, along, x, float(np.abs(steps).max()))
    found = AxisGradient(x, value, along, taken, rounding)
    frame.kept.append((x[None], value[None]))
    frame.gradients.append(found)
    return found


def _rounding(value: Array, along: Array, x: Array, step: float) -> float:
    """How far rounding lets a value be off, of the answer and of what the inputs' makes of it."""
    steep = float(np.linalg.norm(along))
    return ROUNDING / 2 * (float(np.abs(value).max()) + steep * (float(np.linalg.norm(x)) + step))
