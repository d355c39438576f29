"""A network from its kinks: for functions that may be asked anywhere and answer exactly.

Along a random line f is piecewise linear with one kink a unit (`lines`). In each piece the gradient
is measured by `features + 2` questions close to each other (`gradients`); across a kink it jumps by
`a_i w_i`, up to the sign of the unit, and where the two linear pieces agree is the unit's
hyperplane. What is left of all kinks on the line is linear; `sum_i` of the units that are reversed
explains it, or it stays as a linear term (units without a kink in reach).

In a box a line meets few of the hyperplanes, and beside narrow pieces nothing is known. So units
are all taken to be off where one gradient was measured well: what known units leave of f is zero
there, and wherever all others are off. Guiding points, in a box many of its corners, show where it
is not. A line from a point that is explained to one that is not meets kinks of missing units; each
costs one more gradient, since on the near side nothing is left. Lines go on while they explain
more. Units found twice are one, and those beside a narrow piece are measured again where there is
room (`sharpen`). Fresh points then confirm the network, or guide further lines.

Where the function may be deeper, that shows at once: units do not switch elsewhere on their
hyperplanes (`recurring`). Then the lines end, and `layers` goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from provenet.certify.answered import AGREES, Answered
from provenet.common.exceptions import Spent
from provenet.common.progress import Stages
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.extraction.box import Box
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.gradients import (
    pieces_at,
    pieces_between,
    pieces_of_rest,
    places_between,
    units_of,
)
from provenet.extraction.lines import FollowedLine, trace_line
from provenet.extraction.questions import Ask
from provenet.extraction.recurring import recurs
from provenet.extraction.segments import Segment, random_line
from provenet.extraction.sharpen import Sharpened, sharpened
from provenet.extraction.tolerances import (
    BESIDE_CENTRE,
    CERTAIN,
    LINES,
    REACH_OF_REST,
    ROUGHLY,
    ROUNDING,
    ROUNDING_OF_REST,
    TESTED_FIRST,
    TESTED_LATER,
    TINIEST,
)
from provenet.extraction.units import Pieces, Units, binary_scale


@dataclass(frozen=True)
class Traced:
    """Units of a function, and the points that led to them."""

    units: Units
    errors: Array
    """Of each unit, relatively, as far as rounding explains them."""
    guides: Answered
    """Points that led the lines, and the function's values there."""
    kinks: tuple[int, ...]
    """How many each line met."""
    complete: bool
    """Whether some line could be followed, and measured in a piece at least."""
    spent: Spent | None = None
    """What ended the search too early."""

    @property
    def left(self) -> Array:
        """What the units leave unexplained at the guiding points: (n, outputs)."""
        return np.asarray(self.guides.values - self.units(self.guides.X))

    @property
    def deviations(self) -> Array:
        """What is left at each guiding point, beside the size of the output."""
        allowed = self.guides.allowed(AGREES) + TINIEST
        return np.asarray(AGREES * (np.abs(self.left) / allowed).max(axis=1))

    @property
    def deviation(self) -> float:
        """The worst."""
        return float(self.deviations.max())

    @property
    def share(self) -> float:
        """Of the guiding points that are explained."""
        return float(np.mean(self.deviations <= AGREES)) if self.complete else 0.0

    @property
    def explained(self) -> bool:
        """Whether all guiding points are."""
        return self.complete and self.deviation <= AGREES


def start_tracing(
    ask: Ask, guides: Array, box: Box, rng: np.random.Generator, *, may_be_deep: bool = False
) -> Tracing:
    """Nothing is known yet but how large each output is; scaled, all are of one size."""
    answers = ask(guides)
    scale = binary_scale(np.abs(answers).max(axis=0))
    tracing = Tracing(lambda X: ask(X) / scale, guides, answers / scale, scale, box, rng)
    tracing.may_be_deep = may_be_deep
    return tracing


@dataclass
class Tracing:
    """What is known while lines are followed one after the other."""

    ask: Ask
    """The function, every output over its scale."""
    checks: Array
    answers: Array
    scale: Array
    box: Box
    rng: np.random.Generator
    found: Sharpened = field(init=False)
    start: Array = field(init=False)
    other_rng: np.random.Generator = field(init=False)
    """For what is asked only where the function may be deep: lines are the same without it."""
    pieces: Pieces | None = None
    """All that was measured, first where all units are off; None until a line could be measured."""
    kinks: list[int] = field(default_factory=list)
    first: FollowedLine | None = None
    may_be_deep: bool = False
    """Whether the lines are to end where units do not recur."""
    deeper: bool = False
    """Whether they do not."""

    def __post_init__(self) -> None:
        """Nothing is known."""
        (self.other_rng,) = self.rng.spawn(1)
        features = self.checks.shape[1]
        self.found = Sharpened.of(Units.none(features, self.answers.shape[1]))
        beside = BESIDE_CENTRE * self.rng.standard_normal(features)
        self.start = self.box.centre + beside * self.box.width

    def run(
        self,
        spare: Callable[[int], int],
        stages: Stages,
        deadline: Deadline = NEVER,
        lines: int = LINES,
    ) -> Traced:
        """Follow lines until the guides are explained, or so many have explained no more."""
        most, without = -1, 0
        try:
            while without < lines:
                with stages.stage("trace", f"line {len(self.kinks) + 1}"):
                    self.follow(self.next_line())
                with stages.stage("sharpen", counted(len(self.found.units), "unit")):
                    self.sharpen(spare, deadline)
                if self.deeper or self.traced().explained:
                    break
                explained = int(np.sum(self.about_explained))
                without = without + 1 if explained <= most else 0
                most = max(most, explained)
        except Spent as spent:
            return self.traced(spent)
        return self.traced()

    def as_one_layer(self) -> None:
        """Follow further lines whether units recur or not."""
        self.may_be_deep = self.deeper = False

    def guided_by(self, points: Answered) -> None:
        """Further guides, which are not explained so far, where all others were."""
        self.may_be_deep = False
        self.checks = np.vstack([self.checks, points.X])
        self.answers = np.vstack([self.answers, points.values / self.scale])

    @property
    def known(self) -> float:
        """How far the worst unit may be off, relatively."""
        return float(np.clip(self.found.errors.max(initial=0.0), *ROUNDING_OF_REST))

    @property
    def about_explained(self) -> AnyArray:
        """Which guides are, as far as units are known."""
        deviations = self.traced().deviations
        return np.asarray(deviations <= max(AGREES, CERTAIN * self.known))

    def next_line(self) -> Segment:
        """Near the centre; later from a point that is explained to one that is not.

        A kink lies between the two: any that is off, and the nearest that is not.
        """
        if self.pieces is None:
            return random_line(self.box, self.rng, self.start)
        explained = self.about_explained
        if explained.all():
            explained = self.traced().deviations <= AGREES
        if explained.all():  # by the pieces, if not by the network that was made of them
            return random_line(self.box, self.rng, self.box.sample(1, self.rng)[0])
        off = self.checks[self.rng.choice(np.flatnonzero(~explained))]
        known = np.vstack([self.pieces.X[:1], self.checks[explained]])
        apart = np.linalg.norm((known - off) / self.box.width, axis=1)
        return random_line(self.box, self.rng, known[int(np.argmin(apart))], off)

    def follow(self, line: Segment) -> None:
        """Add the units whose kinks the line meets."""
        if self.pieces is None:
            self._add(line, self._kinks(self.ask, line, ROUNDING))
            return
        if self.may_be_deep and self._few_recur():
            self.deeper = True
            return
        near = replace(line, reach=_near(line))
        rest = _beside(self.ask, self.found.units)
        least = self.known * float(np.abs(self.answers).max())
        self._add_rest(near, self._kinks(rest, near, self.known, least))

    def _kinks(self, ask: Ask, line: Segment, rounding: float, least: float = 0.0) -> Array:
        along = line.origin, line.direction, line.reach, line.scale
        trace = trace_line(ask, *along, rounding, least)
        self.first = self.first or FollowedLine(line, trace)
        self.kinks.append(len(trace.kinks))
        if self.may_be_deep and self.pieces is None:
            self.deeper = self._none_recurs(line, trace.kinks)
        return trace.kinks

    def _add(self, line: Segment, kinks: Array) -> None:
        """The units of a first line, and the linear part of the piece that is known best."""
        if self.deeper:
            return
        pieces = pieces_between(self.ask, line, kinks, self.box)
        if not pieces.believed.any():
            return
        base = int(np.argmin(np.where(pieces.believed, pieces.errors, np.inf)))
        units = units_of(pieces, line, kinks, base)
        order = np.append(base, np.delete(np.arange(len(pieces.X)), base))
        self.pieces = (pieces[order])[pieces.believed[order]]
        self.found = Sharpened.as_measured(units, self.pieces)

    def _add_rest(self, line: Segment, kinks: Array) -> None:
        """The units of a later line, which begins where the known ones leave nothing."""
        assert self.pieces is not None, "a first line was measured"
        if len(kinks) == 0:
            return
        known, base = self.found.units, int(np.searchsorted(kinks, 0.0))
        pieces = pieces_of_rest(self.ask, line, kinks, self.box, known, base)
        units = known + units_of(pieces.without(known), line, kinks, base)
        own = pieces.believed & (np.arange(len(pieces.X)) != base)
        self.pieces = self.pieces + pieces[own]
        self.found = Sharpened.as_measured(units, self.pieces)

    def _none_recurs(self, line: Segment, kinks: Array) -> bool:
        """Whether of the kinks with most room some were tested, and none is elsewhere, too.

        Pieces are measured as they would be anyway.
        """
        places, distances = places_between(kinks, line)
        room = np.minimum(distances[:-1], distances[1:])
        tested = False
        for k in np.argsort(-room)[:TESTED_FIRST]:
            both = slice(k, k + 2)
            beside = pieces_at(self.ask, line, places[both], distances[both], self.box)
            if not beside.believed.all():
                continue
            unit = units_of(beside, line, kinks[k : k + 1], 0)
            if len(unit) == 0:
                continue
            error = np.sqrt(len(line.origin)) * beside.errors.sum() / np.linalg.norm(unit.A)
            seen = recurs(self.ask, unit, 0, float(error), self.box, self.other_rng)
            if seen:
                return False
            tested |= seen is False
        return tested

    def _few_recur(self) -> bool:
        """The same after later lines, for the largest of all units: whether fewer than half do."""
        units, errors = self.found.units, self.found.errors
        known = np.where(np.isfinite(errors), errors, 0.0)
        none = 0
        for i in np.argsort(-np.linalg.norm(units.A, axis=0))[:TESTED_LATER]:
            seen = recurs(self.ask, units, int(i), float(known[i]), self.box, self.other_rng)
            none += 0 if seen is None else 1 - 2 * seen
        return none > 0

    def sharpen(self, spare: Callable[[int], int], deadline: Deadline) -> None:
        """Measure the units again, unless one is missing."""
        if self.pieces is None or self.traced().deviation > ROUGHLY:
            return
        self.found, self.pieces = sharpened(
            self.ask, self.found.units, self.pieces, self.box, spare, self.rng, deadline
        )

    def traced(self, spent: Spent | None = None) -> Traced:
        """What is known by now."""
        return Traced(
            units=self.found.units.scaled(self.scale),
            errors=self.found.errors,
            guides=Answered(self.checks, self.scale * self.answers),
            kinks=tuple(self.kinks),
            complete=self.pieces is not None,
            spent=spent,
        )


def _beside(ask: Ask, known: Units) -> Ask:
    return lambda X: ask(X) - known(X)


def _near(line: Segment) -> tuple[float, float]:
    """What earlier lines left is small: far out it is rounding."""
    near = REACH_OF_REST * np.sqrt(len(line.origin))
    return max(line.reach[0], -near), min(line.reach[1], near)
