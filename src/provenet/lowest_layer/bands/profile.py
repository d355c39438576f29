"""The share of inputs that fire, as a function of the offset: one Gaussian step, or not.

Near the threshold of a unit the label fires on the hyperplane `z.x = s` with probability

    p(s) = b + (1 - b) Phi((s - offset) / width),    offset = t / cos alpha,    width = tan alpha

(GP19, Lemmas 4 and 5; see `bands`). Algorithm 2 reads the width off two levels; here all inputs
between four widths below the step and four above it serve, by maximum likelihood in
`(b, offset, log width)`, Fisher scoring. For the same number of inputs in all, that tells the width
several times as exactly.

The same inputs say whether there is one step at all. Shares between the levels 0.1, 0.3, 0.5, 0.7,
0.9 of the step are compared with the fitted ones (chi-squared): a second unit whose own step lies
within the band bends the profile. And past a threshold a monotone P fires always.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array, Seed
from provenet.lowest_layer.bands.queries import BandOracle
from provenet.lowest_layer.bands.tolerances import (
    BENT_STEP,
    FEWEST_IN_WINDOW,
    FIRES_PAST,
    INNER_LEVELS,
    LIKELIHOOD_CLIP,
    MOST_WINDOWS,
    PAST_THRESHOLD,
    PROFILE_LOWER,
    PROFILE_PARAMETERS,
    PROFILE_UPPER,
    SCORING_HALVINGS,
    SCORING_RIDGE,
    SCORING_STEPS,
    SURELY_FALLS,
    UNLIKELY_STEP,
)
from provenet.networks.hermite import normal_cdf, normal_density

WINDOW = 4.0
"""Widths of the step to look at on each side of it."""
_CONVERGED = 1e-4
"""Gain in log likelihood that no longer counts: far below that of one standard error, 1/2."""
_HIGHEST_FLOOR = 0.9
"""A smaller rise than from here to 1 is none."""


@dataclass(frozen=True)
class StepProfile:
    """A Gaussian step fitted to what fires in a band."""

    floor: float
    offset: float
    width: float
    offset_error: float
    width_error: float
    inputs: int
    misfit: float
    """Largest difference between a measured share and the fitted one."""
    p_value: float
    """How likely a misfit as large is if there is one Gaussian step."""

    @property
    def one_step(self) -> bool:
        """Whether the profile may be that of a single unit."""
        return self.p_value > UNLIKELY_STEP or self.misfit < BENT_STEP

    def probability(self, offsets: Array) -> Array:
        """The fitted share at each offset."""
        return self.floor + (1 - self.floor) * normal_cdf((offsets - self.offset) / self.width)


def fit_profile(offsets: Array, fired: Array, offset: float, width: float) -> StepProfile:
    """Maximum likelihood from a guess of the step's place and width; `fired` is 0 or 1."""
    u = (offsets - offset) / width
    theta = np.array([0.5 * _share(fired[u < -2], 0.0), 0.0, 0.0])
    likelihood = _log_likelihood(u, fired, *theta)
    for _ in range(SCORING_STEPS):
        score, information = _scoring(u, fired, *theta)
        step = np.linalg.solve(information, score)
        step *= min(1.0, 1.0 / max(float(np.max(np.abs(step))), _CONVERGED))
        step[1] *= np.exp(theta[2])
        before = likelihood
        for halved in 0.5 ** np.arange(SCORING_HALVINGS):
            trial = np.clip(theta + halved * step, PROFILE_LOWER, PROFILE_UPPER)
            value = _log_likelihood(u, fired, *trial)
            if value > likelihood:
                theta, likelihood = trial, value
                break
        if likelihood - before < _CONVERGED:
            break
    else:
        raise NoAnswer(
            f"No Gaussian step fits what fires about the offset {offset:.3g}, within {width:.2g}: "
            "take more inputs, or keep the answer of step 1."
        )
    b, m, k = theta[0], theta[1], np.exp(theta[2])
    errors = width * k * np.sqrt(np.diag(np.linalg.inv(information)))
    misfit, p_value = _misfit((u - m) / k, fired, b)
    return StepProfile(
        floor=float(b),
        offset=float(offset + width * m),
        width=float(width * k),
        offset_error=float(errors[1]),
        width_error=float(errors[2]),
        inputs=len(u),
        misfit=misfit,
        p_value=p_value,
    )


def _share(fired: Array, nothing: float) -> float:
    return float(np.mean(fired)) if len(fired) else nothing


def _shares(e: Array, b: float) -> Array:
    return np.clip(b + (1 - b) * normal_cdf(e), LIKELIHOOD_CLIP, 1 - LIKELIHOOD_CLIP)


def _log_likelihood(u: Array, fired: Array, b: float, m: float, log_k: float) -> float:
    p = _shares((u - m) / np.exp(log_k), b)
    return float(np.sum(np.log(np.where(fired > 0, p, 1 - p))))


def _scoring(u: Array, fired: Array, b: float, m: float, log_k: float) -> tuple[Array, Array]:
    """Gradient of the log likelihood in (b, m / k, log k), and its Fisher information."""
    e = (u - m) / np.exp(log_k)
    slope, p = (1 - b) * normal_density(e), _shares(e, b)
    D = np.column_stack([normal_cdf(-e), -slope, -slope * e])
    weighted = D / (p * (1 - p))[:, None]
    return weighted.T @ (fired - p), weighted.T @ D + SCORING_RIDGE * np.eye(PROFILE_PARAMETERS)


def _misfit(e: Array, fired: Array, floor: float) -> tuple[float, float]:
    """Largest difference of shares between inner levels of the step, and its chi-squared test."""
    edges = special.ndtri(INNER_LEVELS)
    p = floor + (1 - floor) * normal_cdf(e)
    place = np.digitize(e, edges)
    bins = len(edges) + 1
    inside = np.maximum(np.bincount(place, minlength=bins), 1)
    excess = np.bincount(place, fired - p, minlength=bins)
    variance = np.bincount(place, p * (1 - p), minlength=bins)
    chi2 = float(np.sum(excess**2 / np.maximum(variance, 0.25)))
    return float(np.max(np.abs(excess / inside))), float(
        special.chdtrc(bins - PROFILE_PARAMETERS, chi2)
    )


def measure_profile(
    oracle: BandOracle, z: Array, offset: float, width: float, n: int, rng: Seed = None
) -> StepProfile:
    """The profile about a guess, in a window that is adapted until it suits the step found in it.

    Samples may be too few for a narrower window: then `width_error` says how little is known.
    """
    rng = np.random.default_rng(rng)
    profile: StepProfile | None = None
    for _ in range(MOST_WINDOWS):
        s, fired = oracle.offsets(z, offset - WINDOW * width, offset + WINDOW * width, n, rng)
        if len(s) < FEWEST_IN_WINDOW:
            break
        profile = fit_profile(s, fired, offset, width)
        placed = abs(profile.offset - offset) <= width and 0.5 <= profile.width / width <= 1.5
        if placed and profile.floor < _HIGHEST_FLOOR:
            return profile
        offset += float(np.clip(profile.offset - offset, -WINDOW * width, WINDOW * width))
        width = float(np.clip(profile.width, width / 8, 8 * width))
    else:
        raise NoAnswer(
            f"The share of inputs that fire shows no threshold along this direction (looked for to "
            f"offset {offset:.3g}): refinement needs a monotone P and a start near one of its "
            'units. Keep the answer of step 1, or use method="gradient-search".'
        )
    if profile is None:
        raise NoAnswer(
            f"Only {len(s)} samples lie near the threshold at offset {offset:.3g} along this "
            f"direction, and {FEWEST_IN_WINDOW} are needed to see where it is: take "
            f"{FEWEST_IN_WINDOW / max(len(s), 1):.2g} times as many samples."
        )
    return profile


def lowest_share_past(
    oracle: BandOracle, z: Array, profile: StepProfile, n: int, rng: Seed = None
) -> float:
    """The smallest share of inputs that fire in bands past a threshold: 1 for a monotone P.

    Raises `NoAnswer` where it is clearly below 0.9.
    """
    rng = np.random.default_rng(rng)
    lowest = 1.0
    for past in (0.0, *PAST_THRESHOLD):
        low = profile.offset + WINDOW * profile.width + past
        if low > oracle.reach:
            break
        _, fired = oracle.offsets(z, low, low + profile.width, n, rng)
        share = _share(fired, 1.0)
        lowest = min(lowest, share)
        error = np.sqrt(FIRES_PAST * (1 - FIRES_PAST) / max(len(fired), 1))
        if share < FIRES_PAST - SURELY_FALLS * error:
            raise NoAnswer(
                f"The label fires on only {share:.0%} of the inputs at offset {low:.3g}, past the "
                f"threshold at {profile.offset:.3g}: refinement needs a monotone P, under which a "
                "unit that fires is never outweighed. Keep the answer of step 1, or use "
                'method="gradient-search".'
            )
    return lowest
