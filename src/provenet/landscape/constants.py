"""mu, lambda and delta from the data, within the ranges of the theorems, and what these promise.

Theorem 5.1 speaks of `sum_i alpha_i sum_{j != k} ..  -  mu sum_i beta_i ..`. For G,
`alpha_i = sqrt(6) |sigma_4| a_i` and `beta_i = |sigma_4| a_i / sqrt(24)` (ERRATA, GLM17 3); for F
in the norm of `M = sum a b b^T`, the same with `1 / a_i` for `a_i` (Theorem A.2). The a_i
themselves are not known yet, but M bounds them: they are its eigenvalues where units are
orthogonal, and lie between its smallest and its largest in general, because
`b_i^T M^{-1} b_i = 1 / a_i`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.landscape.objective import Theorem
from provenet.landscape.tolerances import AMPLE, MU_ROUNDING, SAFEGUARD

SMALL = 0.01
"""The universal constant c of the theorems."""


@dataclass(frozen=True)
class Constants:
    """The weights of a designed objective's terms."""

    interference: float
    """`sqrt(6) |sigma_4|`."""
    attraction: float = 0.0
    """`mu |sigma_4| / sqrt(24)`."""
    penalty: float = 0.0
    """lambda."""
    ridge: float = 0.0
    """delta."""
    decorrelation: float = 0.0
    """Not in the paper: as large as the sampling error, so 0 for a population."""
    mu: float = 0.0
    theorem: Theorem | None = None


def constants_for_G(
    weights: Array, c_4: float, features: int, error: float = 0.0, mu: float | None = None
) -> Constants:
    """Theorem 5.1 for orthogonal units; `weights` holds the least and the largest of the a_i.

    They are the eigenvalues of `sum a b b^T`, rising.
    """
    smallest, largest = float(weights[0]), float(weights[-1])
    return _within_ranges("Theorem 5.1", smallest, largest, c_4, features, error, mu)


def constants_for_F(
    spectrum: Array,
    c_4: float,
    features: int,
    error: float = 0.0,
    mu: float | None = None,
    *,
    undercomplete: bool = False,
) -> Constants:
    """Theorem A.4 for independent units, A.5 with its l2 term for fewer units than features.

    `spectrum` is that of `M = sum a b b^T`, rising. In the norm of M the objective is G with
    weights `1 / a_i`; gradient and curvature shrink by `sigma_min(M)^(1/2)` and `sigma_min(M)` on
    the way back (Theorem A.1).
    """
    smallest, largest = float(spectrum[0]), float(spectrum[-1])
    name = "Theorem A.5" if undercomplete else "Theorem A.4"
    own = _within_ranges(name, 1 / largest, 1 / smallest, c_4, features, error / smallest**2, mu)
    tau = SMALL * min(own.attraction / (largest / smallest * features * largest), own.penalty)
    tau *= smallest
    delta = tau / 2 if undercomplete else 0.0
    if own.theorem is None:
        return replace(own, ridge=delta)
    slope = own.theorem.slope * float(np.sqrt(smallest))
    if undercomplete:
        slope = min(slope, _slope_of_a5(own, spectrum, c_4, features, delta))
    return replace(own, ridge=delta, theorem=Theorem(name, slope, tau - delta))


def constants_for_whitened_F(
    weights: Array, c_4: float, features: int, error: float = 0.0, mu: float | None = None
) -> Constants:
    """Corollary A.3: F in the norm of M; `weights` holds the least and the largest `1 / a_i`."""
    smallest, largest = float(weights[0]), float(weights[-1])
    return _within_ranges("Corollary A.3", smallest, largest, c_4, features, error, mu)


def _slope_of_a5(own: Constants, spectrum: Array, c_4: float, features: int, delta: float) -> float:
    """epsilon of Theorem A.5, for the accuracy that the l2 term's weight delta allows."""
    smallest, largest = float(spectrum[0]), float(spectrum[-1])
    hardness = largest * len(spectrum) * np.sqrt(features * largest / smallest)
    accuracy = delta * hardness / (SMALL * abs(c_4) / np.sqrt(24))
    bounds = (
        own.penalty * np.sqrt(smallest),
        SMALL * delta / np.sqrt(largest),
        SMALL * accuracy * delta * smallest,
    )
    return float(min(bounds))


def _within_ranges(
    name: str,
    smallest: float,
    largest: float,
    c_4: float,
    features: int,
    error: float,
    mu: float | None,
) -> Constants:
    """For weights between two numbers; no theorem where a given mu is beyond its range."""
    interference, beta = abs(c_4) / 2, abs(c_4) / 24
    ratio = largest / smallest
    most = SMALL * interference / beta / ratio
    within = mu is None or 0 < mu <= most * (1 + MU_ROUNDING)
    mu = most if mu is None else mu
    drawn = mu * beta
    penalty = AMPLE * 4 * largest * max(drawn, interference)
    curvature = SMALL * min(drawn * smallest / (ratio * features), penalty)
    slope = SMALL * interference * smallest
    if drawn > 0:  # Proposition 5.6, with mu beta for its beta
        slope = min(slope, SMALL * float(np.sqrt(curvature**3 / (drawn * smallest))))
    return Constants(
        interference=interference,
        attraction=drawn,
        penalty=penalty,
        decorrelation=SAFEGUARD * interference * error,
        mu=mu,
        theorem=Theorem(name, slope, curvature) if within else None,
    )
