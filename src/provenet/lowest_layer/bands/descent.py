"""From approximate to arbitrarily close directions of units under a monotone P (GP19, 2.2, B.5).

A descent from a direction z near a unit's weights w, on what fires in bands across z (`bands`),
beside the paper's own search (`random_search`): it asks a band for the direction of the error too.
On the hyperplane where the unit fires on half of the inputs, and with v the unit vector of w's part
across z,

    w is parallel to  z + tan(alpha) v,        E[x_perp 1(w.x > t)] = phi(0) v.

In a band as wide as the step, `|u| <= h` with `u = (z.x - t / cos alpha) / tan alpha`, the mean is
`m v`, `m` the mean of `phi(u)`. Inputs on which only others fire add
`B(v) = E[x_perp 1(others) 1(v.x_perp < -u)]`; a band below the step, in which only they fire, tells
`B`, and v is the fixed point of `v ~ E[x_perp fired] - B(v)`. The size comes from the profile of
the step (`band_profile`); where the others are silent `v.x_perp` has a mean mu and a deviation
sigma that the same band tells, the profile's width is `sigma tan(alpha)` and its offset
`mu tan(alpha)` too small, and both are put right. With n inputs a band one step leaves about

    sqrt((d - 2) V / n + (error of tan alpha)^2 / tan^2 alpha),    V = 0.2 / m^2 = 1.7 (no others)

of the angle, so `log(1/angle)` steps of O(d) queries reach any angle. From N samples the bands hold
about `2 h tan(alpha) phi(t) N` of them: the search ends where a step would no longer help, at an
angle of the order `d / (phi(t) N)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from provenet.common.typing import Array, Seed
from provenet.lowest_layer.bands.profile import StepProfile, lowest_share_past, measure_profile
from provenet.lowest_layer.bands.queries import BandOracle, estimate_tan_alpha
from provenet.lowest_layer.bands.tolerances import (
    ANGLE_SHRINKS,
    CONTRACTION,
    DESCENT_PATIENCE,
    FEWEST_FOR_DIRECTION,
    FIRST_BAND,
    FIXED_POINT_ROUNDS,
    FIXED_POINT_SETTLED,
    START_RELATIVE_ERROR,
    SURE_OF_ANGLE,
)
from provenet.networks.hermite import normal_cdf

_HALF_WIDTH = 1.0
"""h: half the width of the band that tells the direction, in widths of the step."""
_BELOW = (-4.0, -2.5)
"""The band in which only other units fire, in the same widths."""
_WORTHWHILE = 0.9
"""A step that leaves more of the angle than this is not made."""
_CLEAR = 0.5
"""Where inputs can be made, so many are that a step should leave no more than this."""
_WHOLE = 0.85
"""A smaller strength is not that of a single unit."""
_MORE = (1, 4, 16)
"""Times as many inputs, to be clear."""


@dataclass(frozen=True)
class DirectionStep:
    """A direction on the way."""

    direction: Array
    angle: float
    """Its estimated angle from the unit's weights."""
    queries: int
    """Queries up to here."""


@dataclass(frozen=True)
class BandEvidence:
    """What the bands about the last direction say about the answer."""

    floor: float
    """Share of inputs just below the threshold on which other units fire."""
    lowest_share_past: float
    """Smallest share of inputs that fire past the threshold: 1 for a monotone P."""
    misfit: float
    """Largest difference between the shares that fire and a single Gaussian step."""
    p_value: float
    """How likely such a misfit is with a single unit."""
    strength: float
    """Length of the mean of `x_perp` over its expectation for a single unit, 1; or not a number."""
    one_unit: bool
    """Whether a single unit accounts for the step."""

    @property
    def figures(self) -> str:
        """What tells one unit from two, as it is printed."""
        known = f"strength {self.strength:.2g}"
        strength = known if np.isfinite(self.strength) else "strength not measured"
        return f"shares differ by {self.misfit:.2g}, {strength}"

    @property
    def message(self) -> str:
        """The same in a sentence."""
        others = f"Just below the threshold others fire on {self.floor:.0%} of the inputs"
        if self.one_unit:
            return f"{others}; the rise is that of a single unit."
        return (
            f"{others}; the rise is not that of a single unit ({self.figures}): two units may be "
            "too close to each other to separate, or the start too far from both. Start nearer, or "
            "take more samples."
        )


@dataclass(frozen=True)
class Refinement:
    """Where a search for one unit ended."""

    direction: Array
    """Of norm 1."""
    threshold: float
    """t: the unit fires where `direction.x > t`."""
    angle: float
    """Estimated angle between the direction and the unit's weights."""
    angle_error: float
    """Standard error of that estimate."""
    threshold_error: float
    reason: str
    """Why it ended: "reached", "statistics" (more samples would be needed), "stuck", "steps"."""
    inputs: int
    """Inputs near the face that told the angle."""
    queries: int
    path: tuple[DirectionStep, ...]
    """The start and every accepted step."""
    evidence: BandEvidence

    @property
    def reached(self) -> bool:
        """Whether the asked angle was reached."""
        return self.reason == "reached"


@dataclass(frozen=True)
class ErrorDirection:
    """Which way w lies from z, as a band tells."""

    direction: Array
    """v, of norm 1 and across z."""
    error: float
    """Root mean square distance of v from the truth, by sampling."""
    strength: float
    """Length of the mean over its expectation for a single unit, 1."""
    mean: float
    """Mean of `v.x` where no other unit fires; 0 without others."""
    spread: float
    """Standard deviation of `v.x` where no other unit fires; 1 without others."""


def direction_of_error(
    oracle: BandOracle, z: Array, profile: StepProfile, n: int, rng: Seed = None
) -> ErrorDirection:
    """v from the mean of `x_perp` where the label fires, less what others add to it."""
    rng = np.random.default_rng(rng)
    at, width, h = profile.offset, profile.width, _HALF_WIDTH
    middle = oracle.band(z, at - h * width, at + h * width, n, rng)
    below = oracle.band(z, at + _BELOW[0] * width, at + _BELOW[1] * width, n, rng)
    quiet, others = _across(below.X[~below.fired], z), _across(below.X[below.fired], z)
    if min(len(middle.X), len(quiet)) < FEWEST_FOR_DIRECTION or oracle.features == 1:
        return ErrorDirection(np.zeros_like(z), np.inf, np.nan, 0.0, 1.0)
    # Taking the expected share off changes no expectation and halves the variance.
    excess = middle.fired - profile.probability(middle.X @ z)
    terms = _across(middle.X, z) * excess[:, None]
    v, V = np.zeros_like(z), terms.mean(axis=0)
    for _ in range(FIXED_POINT_ROUNDS):  # a v that has not settled by then still shows the way
        before, v = v, V / np.linalg.norm(V)
        if np.linalg.norm(v - before) <= FIXED_POINT_SETTLED:
            break
        mean, spread = float(np.mean(quiet @ v)), float(np.std(quiet @ v))
        u = np.array([-h, h]) * spread - mean  # where the band really lies
        # Others count only where the unit itself is silent: v.x < -u, u even in its range.
        silent = np.clip((-(others @ v) - u[0]) / (u[1] - u[0]), 0.0, 1.0)
        V = terms.mean(axis=0) - silent @ others / len(below.X)
    size, range_of_u = float(np.linalg.norm(V)), float(u[1] - u[0])
    partly = others[(silent > 0) & (silent < 1)]
    noise = np.vstack([terms / len(terms), silent[:, None] * others / len(below.X)])
    error = _error_of_fixed_point(
        v, z, size, partly.T @ partly / (len(below.X) * range_of_u), noise
    )
    strength = size * range_of_u / float(np.diff(normal_cdf(u))[0])
    return ErrorDirection(v, error, strength, mean, spread)


def _error_of_fixed_point(v: Array, z: Array, size: float, J: Array, noise: Array) -> float:
    """Root mean square error of v across itself and z, by sampling.

    An error e of the means moves v by dv with `size dv = e + J dv`, J being `-dB/dv`.
    """
    P = np.eye(len(v)) - np.outer(v, v) - np.outer(z, z)
    amplified = np.linalg.solve(size * np.eye(len(v)) - P @ J @ P, P @ noise.T)
    return float(np.linalg.norm(amplified))


def _across(X: Array, z: Array) -> Array:
    return X - np.outer(X @ z, z)


def inputs_per_band(features: int, contraction: float) -> int:
    """Inputs a band after which a step leaves about the part `contraction` of the angle.

    The direction's error with others that fire on a quarter of the band, and the width's.
    """
    return ceil((2.5 * max(features - 2, 1) + 11) / contraction**2)


@dataclass(frozen=True)
class Look:
    """All that the bands about a direction say."""

    z: Array
    profile: StepProfile
    error: ErrorDirection
    expected: float
    """The angle that the step to here should have left, where the same samples told the step."""

    @property
    def tan_alpha(self) -> float:
        """The width, where other units leave less than all of `v.x` to see."""
        return self.profile.width / self.error.spread

    @property
    def angle(self) -> float:
        """The angle seen; samples that have told z themselves would show too small a one."""
        return max(float(np.arctan(self.tan_alpha)), self.expected)

    @property
    def relative_error(self) -> float:
        """Standard error of tan alpha over tan alpha."""
        return self.profile.width_error / self.profile.width

    @property
    def threshold(self) -> float:
        """`offset cos alpha`, the offset without the shift by other units."""
        offset = self.profile.offset + self.error.mean * self.tan_alpha
        return offset / float(np.sqrt(1 + self.tan_alpha**2))

    def surely_within(self, angle: float) -> bool:
        """Whether the angle is smaller, by several standard errors."""
        return self.angle * (1 + SURE_OF_ANGLE * self.relative_error) <= angle

    @property
    def left(self) -> float:
        """The part of the angle that a step would leave."""
        return float(np.hypot(self.error.error, self.relative_error))

    def moved(self) -> Array:
        """Where a step leads."""
        w = self.z + self.tan_alpha * self.error.direction
        return np.asarray(w / np.linalg.norm(w))


def look_at(
    oracle: BandOracle,
    z: Array,
    offset: float,
    width: float,
    n: int,
    rng: np.random.Generator,
    expected: float = 0.0,
) -> Look:
    """A look at z; with more inputs, where they can be made, if it does not show the way."""
    for more in _MORE:
        profile = measure_profile(oracle, z, offset, width, more * n, rng)
        error = direction_of_error(oracle, z, profile, more * n, rng)
        look = Look(z, profile, error, expected)
        if look.left <= _CLEAR or not oracle.makes_inputs:
            break
        offset, width = profile.offset, profile.width
    return look


def descend(
    oracle: BandOracle,
    z: Array,
    angle: float,
    *,
    contraction: float = CONTRACTION,
    most_steps: int = 60,
    rng: Seed = None,
) -> Refinement:
    """The descent from z until the estimated angle is surely below `angle`, or no step helps.

    A queried oracle makes as many inputs a band as let a step leave the part `contraction` of the
    angle. Raises `NoAnswer` when the label is not that of a monotone P.
    """
    rng = np.random.default_rng(rng)
    n, asked = inputs_per_band(oracle.features, contraction), oracle.queries
    z = z / np.linalg.norm(z)
    eps = 0.0 if oracle.makes_inputs else FIRST_BAND
    start = estimate_tan_alpha(oracle, z, eps, relative=START_RELATIVE_ERROR, rng=rng)
    look = look_at(oracle, z, start.offset, start.tan_alpha, n, rng)
    past = lowest_share_past(oracle, z, look.profile, n, rng)
    path = [DirectionStep(z, look.angle, oracle.queries - asked)]
    while (reason := _reason_to_end(look, path, angle, most_steps)) is None:
        width = look.tan_alpha * look.left
        expected = 0.0 if oracle.makes_inputs else look.angle * look.left
        look = look_at(oracle, look.moved(), look.threshold, width, n, rng, expected)
        path.append(DirectionStep(look.z, look.angle, oracle.queries - asked))
    if reason == "stuck":  # more inputs, where they can be made, tell why
        at, width = look.profile.offset, look.profile.width
        look = look_at(oracle, look.z, at, width, _MORE[-1] * n, rng, look.expected)
    return refinement(look, past, reason, oracle.queries - asked, path)


def _reason_to_end(
    look: Look, path: list[DirectionStep], angle: float, most_steps: int
) -> str | None:
    angles = [step.angle for step in path]
    if look.surely_within(angle):
        return "reached"
    if look.left > _WORTHWHILE:
        return "statistics"
    before, last = angles[:-DESCENT_PATIENCE], angles[-DESCENT_PATIENCE:]
    if before and min(last) > ANGLE_SHRINKS * min(before):
        return "stuck" if look.left <= _CLEAR else "statistics"
    return "steps" if len(path) > most_steps else None


def refinement(
    look: Look, past: float, reason: str, queries: int, path: list[DirectionStep]
) -> Refinement:
    """Where a search ended, by the last look."""
    profile, strength = look.profile, look.error.strength
    strength_error = strength * look.error.error / max(len(look.z) - 2, 1) ** 0.5
    weak = strength + SURE_OF_ANGLE * strength_error < _WHOLE
    angle_error = min(look.relative_error, 1.0) * np.sin(2 * look.angle) / 2
    # Where the angle is larger than the bands show, so is all that scales with it.
    offset_error = profile.offset_error * look.angle / np.arctan(profile.width)
    threshold_error = np.hypot(offset_error, look.threshold * look.angle * angle_error)
    evidence = BandEvidence(
        floor=profile.floor,
        lowest_share_past=past,
        misfit=profile.misfit,
        p_value=profile.p_value,
        strength=strength,
        one_unit=reason != "stuck" and profile.one_step and not weak,
    )
    return Refinement(
        direction=look.z,
        threshold=look.threshold,
        angle=look.angle,
        angle_error=float(angle_error),
        threshold_error=float(threshold_error),
        reason=reason,
        inputs=profile.inputs,
        queries=queries,
        path=tuple(path),
        evidence=evidence,
    )
