"""Lines through the cells of known layers: their kinks, and the gradients between these.

The gradient is measured along an orthonormal basis V of the row space of J alone (`rank J + 2`
questions: the point, a step along each column of V, one more that must be predicted): along all
other directions the known layers do not change. By the inputs themselves all gradients lie in the
span of the first layer's rows: once they span it, it is enough to measure along that.

Steps are short against the distance to the next kink on the line over the root of the rank: a
hyperplane that the line meets at random is nearer by about that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import AxisGradient, Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.tolerances import (
    DEEP_GRADIENT_STEP,
    DEEP_GRADIENT_TRIES,
    DEEP_SHORTER,
    PREDICTED,
    RANK,
    SAME_PLACE,
    SCREENED,
    SCREENED_FAR,
    SCREENED_SHORTER,
    SCREENED_STEP,
    SCREENED_WAYS,
    SCREENINGS,
    SPAN_KNOWN,
    SPAN_PROBES,
)
from provenet.extraction.lines import FollowedLine, Trace, trace_line
from provenet.extraction.questions import ask_gradients
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


def traced(
    frame: Frame,
    known: KnownLayers,
    segment: Segment,
    given: FollowedLine | None = None,
    expected: Callable[[Line], Array] | None = None,
) -> Line:
    """The line with its kinks, those of known units told apart; or one that was followed before.

    Those of known units are expected, and what else is said of a line without kinks.
    """
    if given is not None:
        origin = frame.coordinates_of(given.segment.origin[None])[0]
        return _line(known, replace(given.segment, origin=origin), given.trace)
    rounding = ROUNDING * (1 + len(known.layers))
    first = len(frame.kept)
    along = segment.origin, segment.direction, segment.reach, segment.scale
    nothing = _line(known, segment, Trace(np.empty(0), False))
    more = np.empty(0) if expected is None else expected(nothing)
    places = np.append(nothing.switches, more)
    trace = trace_line(frame, *along, rounding, expected=places)
    return replace(_line(known, segment, trace), flat=_flat(frame, segment, trace.kinks, first))


def _line(known: KnownLayers, segment: Segment, trace: Trace) -> Line:
    start, direction, scale = segment.origin, segment.direction, segment.scale
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

    def at(self, u: Array, distance: float) -> Piece | None:
        """The gradient at a point with so much room; None if it cannot be measured there."""
        try:
            return self._at(u, distance)
        except OutsideTheBox:
            return None

    def _at(self, u: Array, distance: float) -> Piece | None:
        """The same, if the point's cell is clean."""
        if not self.known.layers:
            return self._at_inputs(u, distance)
        state = self.known.state(u[None])
        h, J = state.h[0], state.J[0]
        on = h > 0
        if not 0 < on.sum() <= len(u) or state.room[0] <= 0:
            return None
        _, size, V = np.linalg.svd(J[on], full_matrices=False)
        if size[-1] <= RANK * size[0]:
            return None
        return self._gradient(u, h, on, (J[on], V), min(distance, float(state.room[0])))

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
