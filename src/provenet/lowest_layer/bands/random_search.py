"""Algorithm 1 of GP19, RefineEstimate: from a near direction to the unit (Theorem 5).

Perturb z by `0.1 sin(alpha) / d` times a Gaussian vector across it, and accept when the angle that
Algorithm 2 estimates (`queries.estimate_tan_alpha`) shrinks enough, `alpha' <= (1 - 0.01 / d)
alpha` (ERRATA 16; the printed test `alpha' <= 0.01 alpha / d` would hardly ever accept).
O(d log(1/angle)) accepted steps. Both angles of a comparison come from the same draws, so that most
of their errors cancel; after a few comparisons on them, new ones are made.

*By questions* a draw is made anew, as large as a comparison needs: any angle is reached.

*From samples*, as in the paper, a draw is one half of the samples near the face, taken at random
(`near.NearBands`), and bands are counted on them. They are `2 tan(alpha)` wide: wider ones show the
angle less, narrower ones hold fewer. Of N samples about `tan(alpha) phi(t) N / 2` are in a band of
a draw, so its relative error grows as the angle shrinks. The search ends ("statistics") where that
error is `AT_SAMPLING_ERROR`, or where looks at all samples show no smaller angle. What it ended
at is told by samples that the search never saw (`judge`): those that chose a direction flatter it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import numpy as np

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array, Seed
from provenet.lowest_layer.bands.descent import (
    DirectionStep,
    Look,
    Refinement,
    inputs_per_band,
    look_at,
    refinement,
)
from provenet.lowest_layer.bands.near import Halves, NearBands
from provenet.lowest_layer.bands.profile import lowest_share_past
from provenet.lowest_layer.bands.queries import BandOracle, TanAlpha, estimate_tan_alpha
from provenet.lowest_layer.bands.tolerances import (
    ANGLE_SHRINKS,
    AT_SAMPLING_ERROR,
    BAND_WIDTHS,
    CONTRACTION,
    FEWEST_IN_BAND,
    LOOKS_AT_ERROR,
    LOOKS_WITHOUT_GAIN,
    TRIALS_A_DRAW,
    TRIALS_A_LOOK,
)

_COMPARABLE = 0.22
"""Over d^(3/4): standard error of angles whose difference, on the same draws, shows a step of
`0.1 / d` well enough. Convention: by trial."""
_FINE = 0.02
"""Over d: bisection ends at this part of an angle, a fifth of such a step; of samples, which tell
no more, at this part itself."""
_TRIALS = 200
"""Times `d log(1/angle)`: several times what Algorithm 1 takes."""

Stop = Callable[[], bool]


def _never() -> bool:
    return False


class _Search:
    """Where Algorithm 1 stands."""

    def __init__(self, oracle: BandOracle, z: Array, eps: float, rng: np.random.Generator) -> None:
        self.oracle, self.eps, self.rng = oracle, eps, rng
        self.z = z / np.linalg.norm(z)
        self.asked, self.trials = oracle.queries, 0
        self.now = self.angle_of(self.z, None, int(rng.integers(2**62)))
        self.path = [DirectionStep(self.z, self.now.angle, self.queries)]

    @property
    def queries(self) -> int:
        return self.oracle.queries - self.asked

    def angle_of(self, z: Array, start: TanAlpha | None, seed: int) -> TanAlpha:
        """Algorithm 2, as exactly as a comparison with the angle of a perturbed direction needs."""
        d = self.oracle.features
        return estimate_tan_alpha(
            self.oracle,
            z,
            self.eps,
            relative=_COMPARABLE / d**0.75,
            tolerance=_FINE / d if self.oracle.makes_inputs else _FINE,
            floor=None if start is None else start.floor,
            start=start,
            rng=seed,
        )

    def draw(self) -> None:
        """A few perturbations on one draw; the first that brings z near enough is taken."""
        d, seed = self.oracle.features, int(self.rng.integers(2**62))
        self.now = self.angle_of(self.z, self.now, seed)
        for _ in range(TRIALS_A_DRAW):
            self.trials += 1
            new = _perturbed(self.z, 0.1 * np.sin(self.now.angle) / d, self.rng)
            there = self.angle_of(new, self.now, seed)
            if there.angle <= (1 - 0.01 / d) * self.now.angle:
                self.z, self.now = new, there
                self.path.append(DirectionStep(self.z, self.now.angle, self.queries))
                return

    def most_trials(self, angle: float) -> int:
        """Several times as many as Theorem 5 lets expect."""
        d = self.oracle.features
        return ceil(_TRIALS * d * (1 + max(float(np.log(self.now.angle / angle)), 0.0)))


def _perturbed(z: Array, size: float, rng: np.random.Generator) -> Array:
    """z moved by a Gaussian vector across it."""
    g = rng.standard_normal(len(z))
    moved = z + size * (g - (g @ z) * z)
    return np.asarray(moved / np.linalg.norm(moved))


# ---------------------------------------------------------------- by questions


def random_search(
    oracle: BandOracle,
    z: Array,
    angle: float,
    *,
    most_trials: int | None = None,
    stop: Stop = _never,
    rng: Seed = None,
) -> Refinement:
    """Algorithm 1 by questions, from z until the angle is surely below `angle`.

    By default the trials end at several times as many as Theorem 5 lets expect; `stop` says when
    there is no more time.
    """
    rng = np.random.default_rng(rng)
    n = inputs_per_band(oracle.features, CONTRACTION / 2)
    search = _Search(oracle, z, 0.0, rng)
    look = look_at(oracle, search.z, search.now.offset, search.now.tan_alpha, n, rng)
    past = lowest_share_past(oracle, search.z, look.profile, n, rng)
    most = search.most_trials(angle) if most_trials is None else most_trials
    while not (reached := look.surely_within(angle)) and search.trials < most and not stop():
        search.draw()
        now = search.now
        if now.angle <= max(angle, look.angle / 2):
            look = look_at(oracle, search.z, now.offset, now.tan_alpha, n, rng)
            search.now = replace(now, floor=look.profile.floor)
    reason = "reached" if reached else "steps"
    return refinement(look, past, reason, search.queries, search.path)


# ---------------------------------------------------------------- from samples


def search_samples(
    halves: Halves, z: Array, eps: float, angle: float, *, stop: Stop = _never, rng: Seed = None
) -> Refinement:
    """Algorithm 1 on the samples near a face, from bands of width `eps`, to its sampling error.

    Raises `NoAnswer` where bands hold too few samples, or the label is not that of a monotone P.
    """
    rng = np.random.default_rng(rng)
    search = _Search(halves.search, z, eps, rng)
    _enough(search)
    most = search.most_trials(angle)
    _, past = _judged(halves.judge, search, rng)
    looks = [_whole(halves.search, search)]
    while (reason := _reason_to_end(looks, angle)) is None:
        if search.trials >= most or stop():
            reason = "steps"
            break
        for _ in range(ceil(TRIALS_A_LOOK * search.oracle.features / TRIALS_A_DRAW)):
            search.draw()
        looks.append(_whole(halves.search, search))
    look, _ = _judged(halves.judge, search, rng)
    if look.surely_within(angle) or halves.search.features == 1:  # a line has no other direction
        reason = "reached"
    found = refinement(look, past, reason, 0, search.path)
    # One standard error must hold the angle where that is hardly known itself.
    known = float(np.hypot(look.tan_alpha, look.profile.width_error))
    # Where the threshold lies across z depends on a mean of v.x that these samples tell, too.
    offset = known / float(np.sqrt(max(found.inputs, 1)))
    return replace(
        found,
        angle=float(np.arctan(known)),
        threshold_error=float(np.hypot(found.threshold_error, offset)),
    )


def _enough(search: _Search) -> None:
    """Raise unless a band at the threshold holds samples enough to be compared."""
    middle = search.now.offset
    count = search.oracle.share(search.z, middle - search.eps / 2, middle + search.eps / 2, 0, None)
    if count[1] < FEWEST_IN_BAND:
        raise NoAnswer(
            f"A band of {search.eps:.2g} at the threshold holds {count[1]} samples, too few to "
            "tell a better direction from a worse one (GP19, Algorithm 1): take more samples, or "
            "give a QuerySource."
        )


def _whole(samples: NearBands, search: _Search) -> TanAlpha:
    """Algorithm 2 on all samples of the search, which then goes on with those that are near."""
    now, width = search.now, search.eps / BAND_WIDTHS
    search.oracle = samples.about(search.z, now.offset, max(now.tan_alpha, width))
    found = estimate_tan_alpha(search.oracle.all, search.z, search.eps, floor=now.floor, start=now)
    # One look does not tell much less than half of the width of its bands.
    search.eps = max(BAND_WIDTHS * found.tan_alpha, search.eps / 2)
    return found


def _reason_to_end(looks: list[TanAlpha], angle: float) -> str | None:
    """Single looks err, by a third where the angle is hardly resolved: several must agree."""
    last = looks[-LOOKS_AT_ERROR:]
    if len(last) == LOOKS_AT_ERROR and all(
        look.standard_error >= AT_SAMPLING_ERROR * look.tan_alpha or look.angle <= angle / 2
        for look in last
    ):
        return "statistics"
    angles, n = [look.angle for look in looks], LOOKS_WITHOUT_GAIN
    if len(angles) < 2 * n:
        return None
    return (
        "statistics"
        if np.mean(angles[-n:]) > ANGLE_SHRINKS * np.mean(angles[-2 * n : -n])
        else None
    )


def _judged(judge: NearBands, search: _Search, rng: np.random.Generator) -> tuple[Look, float]:
    """What samples that were not searched on say of where the search stands."""
    n, offset = 0, search.now.offset
    # From wide to narrow: few samples in a narrow window may look like any narrower step.
    look = look_at(judge, search.z, offset, BAND_WIDTHS * search.eps, n, rng)
    return look, lowest_share_past(judge, search.z, look.profile, n, rng)
