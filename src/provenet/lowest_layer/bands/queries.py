"""What a label does in thin bands across a direction, and the angle that it tells (GP19, 2.2).

For a monotone P with positive linear terms and P(0) = 0 the sign of `f = P(u(w_1.x - t_1), ...)` is
the union of the halfspaces `w_i.x > t_i` (Lemma 5). On the hyperplane `z.x = s`, z of norm 1 at the
angle alpha from w_1, standard normal inputs fire the first unit with probability

    p(s) = Phi^c((t - s cos alpha) / sin alpha) = Phi((s - t / cos alpha) / tan alpha)   (Lemma 4)

so p is a Gaussian step of width `tan alpha` about `t / cos alpha`, and `EstimateTanAlpha` reads its
width off two levels (Algorithm 2; missing in the text, ERRATA 15): bisection finds the offsets `t1`
and `t2` where the label fires on shares 0.4 and 0.6 of a band, and

    tan alpha = (t2 - t1) / (Phi^-1(0.6) - Phi^-1(0.4)).

(So `t1 < t / cos alpha < t2`; Lemma 6 puts both on the left of it.) The other units fire too, on a
share b of the band that hardly depends on s, the `d exp(-Omega(t^2))` of Lemma 5: then
`p = b + (1 - b) Phi(...)`. With ten units at t = 2 this *floor* b is no small number (0.2 and
more), so it is measured below the step, and the levels are taken between it and 1.

Statistical error. With n inputs a band the relative error of tan alpha is `2.04 / sqrt(n)` at b = 0
if all bands are made of the same draws (their errors then nearly cancel in t2 - t1), and
`3.54 / sqrt(n)` with samples of its own in each band; `relative_error` has both for any b.

A *band oracle* gives the inputs of a band with what fired: by asking a function, or from samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, sqrt

import numpy as np
from scipy import special

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array, Seed, row_blocks
from provenet.data.sources import Source
from provenet.lowest_layer.bands.tolerances import (
    COMMON_LABEL,
    FEWEST_BEYOND,
    FEWEST_IN_BAND,
    FLOOR_ROUNDS,
    FLOOR_SETTLED,
    FLOOR_TOLERANCE,
    LABEL_ROUNDING,
    LEVELS,
    LEVELS_WIDTH,
    MOST_PROBES,
    QUERY_REACH,
    REFERENCE_DRAWS,
    SCAN_STEP,
    UNRESOLVED,
)
from provenet.networks.hermite import normal_density

Rate = Callable[[float], float]
"""The share of a band that fires, as a function of its offset."""
_HIGHEST_FLOOR = 0.7
"""Where other units fire on more of a band than this, the step of one of them is not looked for."""
_FLOOR_BELOW = 4.0
"""The floor is measured this many widths of the step below it."""
_FIRST_STEP = 1 / 64
"""First step of bisection about a guess, over tan alpha."""


@dataclass(frozen=True)
class Band:
    """Inputs of a band, and on which of them the label fires."""

    X: Array
    fired: AnyArray


class BandOracle(ABC):
    """Inputs with `low <= z.x <= high` and standard normal components across z."""

    features: int
    makes_inputs: bool
    """Whether inputs are made for each band: as many as asked, the same across z for a seed."""
    reach: float
    """The largest offset that can be looked at."""
    queries: int = 0
    """How many answers of a function have been used."""

    @abstractmethod
    def band(self, z: Array, low: float, high: float, n: int, rng: Seed) -> Band:
        """The inputs of a band; `n` of them if the oracle can make as many as it likes."""

    @abstractmethod
    def offsets(self, z: Array, low: float, high: float, n: int, rng: Seed) -> tuple[Array, Array]:
        """The offsets `z.x` of the same inputs and 1 where the label fires, else 0."""

    def share(self, z: Array, low: float, high: float, n: int, rng: Seed) -> tuple[float, int]:
        """The share of these inputs on which the label fires (0 of none), and their number."""
        fired = self.offsets(z, low, high, n, rng)[1]
        return (float(np.mean(fired)) if len(fired) else 0.0), len(fired)


def silent_value(y: Array) -> float:
    """The label where no unit fires, `c_0`: with high thresholds its median (footnote 5).

    With many units or lower thresholds most inputs fire; under a monotone P it still is the least
    label, if a fair share of the inputs have exactly that.
    """
    values, counts = np.unique(y, return_counts=True)
    common = values[counts >= COMMON_LABEL * len(y)]
    return float(common[0] if len(common) else np.median(y))


def label_rounding(y: Array) -> float:
    """A label this much above the silent one may be the same with another last digit."""
    return LABEL_ROUNDING * max(float(np.max(np.abs(y), initial=0.0)), np.finfo(float).tiny)


class QueriedBands(BandOracle):
    """Bands of inputs made for the purpose, and what a function answers to them.

    The label fires where it is above `silent` (the label where no unit fires; by default from
    standard normal inputs, see `silent_value`) by more than `margin`.
    """

    makes_inputs = True
    reach = QUERY_REACH

    def __init__(
        self,
        ask: Callable[[Array], Array],
        features: int,
        *,
        silent: float | None = None,
        margin: float = 0.0,
        rng: Seed = None,
    ) -> None:
        """`ask` answers rows of inputs (n, features) with labels (n,), as `QuerySource.query`."""
        self.ask, self.features, self.queries = ask, features, 0
        y = self._answers(np.random.default_rng(rng).standard_normal((REFERENCE_DRAWS, features)))
        self.silent = silent_value(y) if silent is None else silent
        self.margin = max(margin, label_rounding(y))
        self._kept: tuple[tuple[int, int], tuple[Array, Array]] | None = None

    def band(self, z: Array, low: float, high: float, n: int, rng: Seed) -> Band:
        """`n` inputs, evenly spread over the offsets; an integer `rng` gives the same ones again.

        Those of two directions differ by no more than the directions do.
        """
        across, along = self._draws(n, rng)
        X = across + np.outer(low + (high - low) * along - across @ z, z)
        return Band(X, self._answers(X) > self.silent + self.margin)

    def offsets(self, z: Array, low: float, high: float, n: int, rng: Seed) -> tuple[Array, Array]:
        """The offsets of the inputs that `band` makes, and where the label fires."""
        band = self.band(z, low, high, n, rng)
        return band.X @ z, band.fired.astype(float)

    def _draws(self, n: int, rng: Seed) -> tuple[Array, Array]:
        """Components across a direction and places along it; those of the last seed are kept."""
        if not isinstance(rng, int):
            rng = np.random.default_rng(rng)
            return rng.standard_normal((n, self.features)), rng.random(n)
        if self._kept is None or self._kept[0] != (n, rng):
            self._kept = (n, rng), self._draws(n, np.random.default_rng(rng))
        return self._kept[1]

    def _answers(self, X: Array) -> Array:
        self.queries += len(X)
        return np.concatenate([np.asarray(self.ask(X[rows]), float) for rows in row_blocks(len(X))])


class SampleBands(BandOracle):
    """Bands of the samples of a source with standard normal inputs.

    Holds a label's sign and a projection a sample; a direction costs one pass over the samples.
    """

    makes_inputs = False

    def __init__(self, source: Source, *, silent: float | None = None, margin: float = 0.0) -> None:
        """The label fires where it is above `silent` (see `silent_value`) by over `margin`."""
        y = np.empty(source.size)
        for rows in row_blocks(source.size):
            y[rows] = source.rows(rows.start, rows.stop)[1]
        silent = silent_value(y) if silent is None else silent
        self.source, self.features = source, source.features
        self._fired = y > silent + max(margin, label_rounding(y))
        self.reach = float(-special.ndtri(min(0.5, FEWEST_BEYOND / source.size)))
        self._direction = np.zeros(source.features)
        self._projections = np.zeros(source.size)

    def band(self, z: Array, low: float, high: float, n: int, rng: Seed) -> Band:
        """All samples of the band."""
        inside = self._inside(z, low, high)
        X = np.empty((len(inside), self.features))
        done = 0
        for rows in row_blocks(self.source.size):
            stop = int(np.searchsorted(inside, rows.stop))
            if stop > done:
                block = self.source.rows(rows.start, rows.stop)[0]
                X[done:stop] = block[inside[done:stop] - rows.start]
            done = stop
        return Band(X, self._fired[inside])

    def offsets(self, z: Array, low: float, high: float, n: int, rng: Seed) -> tuple[Array, Array]:
        """The offsets of all samples of the band, and where the label fires."""
        inside = self._inside(z, low, high)
        return self._projections[inside], self._fired[inside].astype(float)

    def _inside(self, z: Array, low: float, high: float) -> AnyArray:
        if not np.array_equal(z, self._direction):
            for rows in row_blocks(self.source.size):
                self._projections[rows] = self.source.rows(rows.start, rows.stop)[0] @ z
            self._direction = z.copy()
        return np.flatnonzero((self._projections >= low) & (self._projections <= high))


@dataclass(frozen=True)
class TanAlpha:
    """What Algorithm 2 says about a direction."""

    tan_alpha: float
    standard_error: float
    offset: float
    """`t / cos(alpha)`, where the unit fires on half of the hyperplane."""
    offset_error: float
    """Standard error of the offset."""
    floor: float
    """Share of the inputs just below the step on which other units fire."""

    @property
    def angle(self) -> float:
        """Angle between the direction and the unit's weights."""
        return float(np.arctan(self.tan_alpha))

    @property
    def threshold(self) -> float:
        """The unit's threshold t."""
        return float(self.offset * np.cos(self.angle))


def relative_error(n: float, common_draws: bool, floor: float = 0.0) -> float:
    """Standard error of Algorithm 2's tan alpha over tan alpha, with `n` inputs in each band."""
    return _level_errors(n, float(common_draws), floor)[0]


def inputs_for(relative: float, common_draws: bool = True, floor: float = 0.0) -> int:
    """Inputs a band for a relative standard error of tan alpha."""
    return ceil((relative_error(1, common_draws, floor) / relative) ** 2)


def _level_errors(n: float, common: float, floor: float) -> tuple[float, float]:
    """Standard errors of `(t2 - t1) / LEVELS_WIDTH` and of `(t1 + t2) / 2`, over tan alpha.

    Errors of sample quantiles: `p_i (1 - p_j) / (n p'_i p'_j)` for i <= j, between different bands
    times the share of the inputs that they have in common.
    """
    p1, p2 = _shares(floor)
    slope = (1 - floor) * float(normal_density(special.ndtri(LEVELS[0])))
    own = (p1 * (1 - p1) + p2 * (1 - p2)) / slope**2
    shared = 2 * min(common, 1.0) * p1 * (1 - p2) / slope**2
    spread = float(np.sqrt((own - shared) / n)) / LEVELS_WIDTH
    return spread, float(np.sqrt((own + shared) / n)) / 2


def _shares(floor: float) -> tuple[float, float]:
    """The shares of a band at the two levels of the step above the floor."""
    return floor + (1 - floor) * LEVELS[0], floor + (1 - floor) * LEVELS[1]


def estimate_tan_alpha(
    oracle: BandOracle,
    z: Array,
    eps: float = 0.0,
    *,
    relative: float = 0.05,
    tolerance: float = 1e-3,
    floor: float | None = None,
    start: TanAlpha | None = None,
    rng: Seed = None,
) -> TanAlpha:
    """Algorithm 2, EstimateTanAlpha(z, eps): the angle from bands `z.x in [s - eps, s]`.

    A queried oracle makes as many inputs a band as give the `relative` standard error; from samples
    the band's width decides: twice the angle suits. Bisection goes on until it changes the
    answer by the part `tolerance`. `floor` is measured if not given (0 for the text's own levels);
    `start`, the answer of a nearby direction, saves queries. Raises `NoAnswer` when the label does
    not rise with the offset as it must for a monotone P.
    """
    seed = int(np.random.default_rng(rng).integers(2**62))
    n = max(inputs_for(relative, oracle.makes_inputs, floor or 0.0), FEWEST_IN_BAND)
    counts: list[int] = []

    def rate(s: float) -> float:
        share, count = _share_below(oracle, z, s, eps, n, seed)
        counts.append(count)
        return share

    if floor is None:
        floor, start = _measured_floor(rate, oracle.reach, eps, start)
    t1, t2 = _crossings(rate, oracle.reach, floor, start, tolerance)
    rough = _from_crossings(t1, t2, eps, floor)
    common = 1.0
    if not oracle.makes_inputs:  # only those of the bands at which bisection ended count
        counts = [oracle.share(z, t - eps, t, n, seed)[1] for t in (t1, t2)]
        common = max(0.0, 1 - (t2 - t1) / eps) if eps > 0 else 0.0
    spread, shift = _level_errors(max(min(counts), 1), common, floor)
    seen = (t2 - t1) / LEVELS_WIDTH
    return replace(
        rough,
        standard_error=spread * seen * seen / rough.tan_alpha if seen else 0.0,
        offset_error=shift * seen,
    )


def _share_below(
    oracle: BandOracle, z: Array, s: float, eps: float, n: int, seed: int
) -> tuple[float, int]:
    """The share that fires in the band `[s - eps, s]`, or a wider one if it is all but empty."""
    share, count = oracle.share(z, s - eps, s, n, seed)
    while count < FEWEST_IN_BAND and eps < 1:
        eps = max(2 * eps, 1e-4)
        share, count = oracle.share(z, s - eps, s, n, seed)
    return share, count


def _from_crossings(t1: float, t2: float, eps: float, floor: float) -> TanAlpha:
    """Lemma 3; a band `[s - eps, s]` stands for its middle.

    Its offsets vary by `eps^2 / 12`, by which the square of the step's width is too large (the
    O(eps) of the lemma).
    """
    width = sqrt(max(((t2 - t1) / LEVELS_WIDTH) ** 2 - eps**2 / 12, (UNRESOLVED * eps) ** 2))
    return TanAlpha(width, 0.0, (t1 + t2 - eps) / 2, 0.0, floor)


def _measured_floor(
    rate: Rate, reach: float, eps: float, start: TanAlpha | None
) -> tuple[float, TanAlpha]:
    """The share that fires well below the step, and what the levels above it say.

    From above: levels close to 1 are in the step of this unit whatever the others do, and tell
    about how far down to look; each round does so with the floor of the one before.
    """
    floor = _HIGHEST_FLOOR
    for _ in range(FLOOR_ROUNDS):
        t1, t2 = _crossings(rate, reach, floor, start, FLOOR_TOLERANCE)
        rough = _from_crossings(t1, t2, eps, floor)
        below = rate(rough.offset - _FLOOR_BELOW * rough.tan_alpha - eps)
        before, floor, start = floor, min(below, _HIGHEST_FLOOR), rough
        if abs(floor - before) < FLOOR_SETTLED:
            break
    return floor, rough


def _crossings(
    rate: Rate,
    reach: float,
    floor: float,
    start: TanAlpha | None,
    tolerance: float,
) -> tuple[float, float]:
    """The offsets `t1 <= t2` at which the rate passes its two levels, by bisection.

    A probe for one level serves the other as well.
    """
    shares = _shares(floor)
    near = None if start is None else _near(rate, reach, shares, start)
    brackets = near or _anywhere(rate, reach, shares)
    for _ in range(MOST_PROBES):
        t1, t2 = (low + (high - low) / 2 for low, high in brackets)
        widest = max(brackets, key=lambda bracket: bracket[1] - bracket[0])
        width = widest[1] - widest[0]
        if width <= max(tolerance / 2 * (t2 - t1), 4 * np.spacing(reach)):
            return t1, t2
        s = widest[0] + width / 2
        share = rate(s)
        brackets = [_narrowed(*b, s, share < p) for b, p in zip(brackets, shares, strict=True)]
    raise NoAnswer(
        f"The shares of a band on which the label fires do not settle near offset {s:.3g}: take "
        "more inputs a band, or keep the answer of step 1."
    )


def _narrowed(low: float, high: float, s: float, below: bool) -> tuple[float, float]:
    if not low < s < high:
        return low, high
    return (s, high) if below else (low, s)


def _near(
    rate: Rate, reach: float, shares: tuple[float, float], start: TanAlpha
) -> list[tuple[float, float]] | None:
    """Brackets of both levels about where a nearby direction has them."""
    half, step = LEVELS_WIDTH / 2 * start.tan_alpha, _FIRST_STEP * start.tan_alpha
    if step <= 0:
        return None
    first = _bracket(rate, start.offset - half, step, shares[0], reach)
    second = _bracket(rate, start.offset + half, step, shares[1], reach)
    return None if first is None or second is None else [first, second]


def _bracket(
    rate: Rate, s: float, step: float, share: float, reach: float
) -> tuple[float, float] | None:
    """Widening steps from s, downhill or uphill, until the rate passes the share."""
    below = rate(s) < share
    while 0 <= s <= reach:
        other = s + step if below else s - step
        if (rate(other) < share) != below:
            return min(s, other), max(s, other)
        s, step = other, 2 * step
    return None


def _anywhere(rate: Rate, reach: float, shares: tuple[float, float]) -> list[tuple[float, float]]:
    """A bracket of both levels from offset 0 to the first offset where most inputs fire."""
    first = highest = rate(0.0)
    for s in np.arange(SCAN_STEP, reach + SCAN_STEP, SCAN_STEP):
        share = rate(float(s))
        if first < shares[0] and share > shares[1]:
            return [(0.0, float(s))] * 2
        highest = max(highest, share)
    raise NoAnswer(
        f"Along this direction the label fires on {first:.0%} of the inputs at offset 0 and on at "
        f"most {highest:.0%} up to offset {reach:.1f}, where it should rise from under 40% to all "
        "of them about a threshold: refinement needs a monotone P with positive linear terms, "
        "high thresholds and, from samples, some beyond the threshold. Keep the answer of step 1, "
        'or use method="gradient-search".'
    )
