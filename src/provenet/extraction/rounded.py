"""A start for least squares where answers are rounded: units read off lines, roughly.

Rounded answers show kinks along a line as exact ones do (`lines`). The gradients on both sides of
one differ by its unit's weights, to a percent or so, since steps are as long as there is room for;
where the kink lies tells the bias. On later lines kinks that a known unit explains are not measured
again, so that a line costs a few questions a kink. Lines go on until the units, their output
weights fitted, leave little of random answers, or nothing new is met.

Least squares on the random answers then goes the rest of the way (`rounded_fit`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.gradients import measured_pieces, places_between
from provenet.extraction.lines import trace_line
from provenet.extraction.probing import Probe
from provenet.extraction.questions import Ask
from provenet.extraction.segments import Segment, random_line
from provenet.extraction.tolerances import (
    BESIDE_CENTRE,
    GRADIENT_STEP,
    REACH_OF_REST,
    ROUGH_SHORTER,
    ROUGH_TRIES,
    ROUGHLY_KNOWN,
    ROUNDED_STEPS,
    ROUNDING,
    SAME_KINK,
    SAME_ROUGHLY,
)
from provenet.extraction.units import Pieces, factored


@dataclass
class RoughUnits:
    """Units met on lines, each known roughly: where it switches, `W x + b = 0`."""

    ask: Ask
    box: Box
    rng: np.random.Generator
    rounding: Probe
    W: Array = field(init=False)
    b: Array = field(init=False)
    lines: int = 0
    most_met: int = 0
    """Kinks on a line: so many units there are, at least."""

    def __post_init__(self) -> None:
        """None is known."""
        self.W, self.b = np.empty((0, len(self.box.centre))), np.empty(0)

    def follow_a_line(self) -> int:
        """Add the units that a line meets; how many of its kinks no unit explained before."""
        line = self._next_line()
        error, step = self.rounding.level, self.rounding.step
        trace = trace_line(
            self.ask,
            line.origin,
            line.direction,
            line.reach,
            line.scale,
            rounding=ROUNDING if step else error,
            least=step / 2,
            coarse=error,
        )
        self.lines += 1
        self.most_met = max(self.most_met, len(trace.kinks))
        kinks, known = trace.kinks, self._kinks_of_known(line)
        new = _unmatched(kinks, known, line)
        if new.any():
            others = known[_unmatched(known, kinks, line)]
            self._add(line, kinks[new], np.sort(np.concatenate([kinks, others])))
        return int(new.sum())

    def _next_line(self) -> Segment:
        """Near the centre, as far as kinks are usual."""
        beside = BESIDE_CENTRE if self.lines == 0 else 1.0
        away = beside * (self.box.sample(1, self.rng)[0] - self.box.centre)
        line = random_line(self.box, self.rng, self.box.centre + away)
        far = REACH_OF_REST * np.sqrt(len(away))
        return replace(line, reach=(max(line.reach[0], -far), min(line.reach[1], far)))

    def _kinks_of_known(self, line: Segment) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            places = -(self.W @ line.origin + self.b) / (self.W @ line.direction)
        low, high = line.reach
        return np.asarray(places[(places > low) & (places < high)])

    def _add(self, line: Segment, new: Array, edges: Array) -> None:
        """Measure the gradients beside new kinks, all that are known being edges of the pieces."""
        place = np.searchsorted(edges, new)
        needed = np.unique(np.concatenate([place, place + 1]))
        pieces = self._measured(line, edges, needed)
        for t, k in zip(new, place, strict=True):
            before, after = np.searchsorted(needed, [k, k + 1])
            self._add_unit(line, t, pieces[np.array([before, after])])

    def _measured(self, line: Segment, edges: Array, needed: AnyArray) -> Pieces:
        """Gradients in some pieces; those that are not believed again with shorter steps."""
        places, distances = (part[needed] for part in places_between(edges, line))
        X = line.origin + places[:, None] * line.direction
        part = GRADIENT_STEP * (self.rounding.level / ROUNDING) ** ROUNDED_STEPS
        steps = part * distances
        found = measured_pieces(self.ask, line, X, steps, self.box, self.rounding.level)
        for _ in range(ROUGH_TRIES):
            bad = np.flatnonzero(~found.believed)
            if len(bad) == 0:
                break
            steps[bad] *= ROUGH_SHORTER
            again = measured_pieces(
                self.ask, line, X[bad], steps[bad], self.box, self.rounding.level
            )
            order = np.arange(len(X))
            order[bad] = len(X) + np.arange(len(bad))
            found = (found + again)[order]
        return found

    def _add_unit(self, line: Segment, t: float, beside: Pieces) -> None:
        """The unit of a kink, unless it is known, or gradients beside it are known too badly."""
        jump = beside.gradients[1] - beside.gradients[0]
        error = float(beside.errors.sum()) * np.sqrt(jump.size)
        if not beside.believed.all() or error > ROUGHLY_KNOWN * float(np.linalg.norm(jump)):
            return
        w = factored(jump, np.zeros(len(jump)), line.direction)[0]
        b = -float(w @ (line.origin + t * line.direction))
        row, rows = np.append(w * self.box.width, b + w @ self.box.centre), self.theta
        apart = [np.linalg.norm(row - sign * rows, axis=1) for sign in (1, -1)]
        if np.min(apart, initial=np.inf) > SAME_ROUGHLY * np.linalg.norm(row):
            self.W, self.b = np.vstack([self.W, w]), np.append(self.b, b)

    @property
    def theta(self) -> Array:
        """Weights and biases on inputs in units of the box, `(x - centre) / width`."""
        return np.column_stack([self.W * self.box.width, self.b + self.W @ self.box.centre])


def _unmatched(kinks: Array, others: Array, line: Segment) -> AnyArray:
    """Which kinks have none of the others beside them."""
    apart = np.abs(kinks[:, None] - others).min(axis=1, initial=np.inf)
    return np.asarray(apart > SAME_KINK * (line.scale + np.abs(kinks)))
