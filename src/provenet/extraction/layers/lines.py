"""Lines through the cells of known layers: their kinks, and whose they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import Frame, KnownLayers
from provenet.extraction.layers.tolerances import CROWDED, SAME_PLACE
from provenet.extraction.lines import FollowedLine, Trace, trace_line
from provenet.extraction.segments import Segment
from provenet.extraction.tolerances import FROM_EDGE, FROM_FAR_EDGE, ROUNDING


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

    def is_crowded(self, t: float) -> bool:
        """Whether kinks lie so close together at a place that one of them may be misplaced."""
        apart = np.sort(np.abs(self.edges - t))
        return bool(apart[1] < CROWDED * (abs(t) + self.scale))

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
