"""Do the inputs look Gaussian, as the theorems of the moment route assume?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from provenet.common.blocks import row_blocks
from provenet.common.typing import Array
from provenet.data.standardisation import Standardisation
from provenet.moments.tolerances import SIGNIFICANT

_INPUTS_AT_ONCE = 1024
"""Convention: each statistic makes a few copies of its inputs."""


@dataclass(frozen=True)
class GaussianCheck:
    """Whether the inputs look Gaussian, as the theorems of the moment route assume."""

    ok: bool
    message: str
    skewness: float
    """Largest over the inputs."""
    excess_kurtosis: float
    """Largest over the inputs."""
    radial_kurtosis: float
    """Mardia's kurtosis of all inputs together, over its Gaussian value, less 1."""


def check_gaussian(X: Array, standardisation: Standardisation) -> GaussianCheck:
    """Skewness and kurtosis of each input, and Mardia's kurtosis of all together."""
    return check_standardised(X, standardisation.apply(X))


def check_standardised(X: Array, z: Array) -> GaussianCheck:
    """The same of inputs X that are z once they are standardised."""
    n, d = X.shape
    skewness = _largest(scipy.stats.skew, X)
    kurtosis = _largest(scipy.stats.kurtosis, X)
    squares = np.einsum("nd,nd->n", z, z)
    # Over the square of its own mean: the inputs may be a draw from those that were standardised.
    radial = float(np.mean(squares**2) / np.mean(squares) ** 2 * d / (d + 2) - 1)
    deviations = {
        "skewed": skewness / np.sqrt(6 / n),
        "heavier or lighter in their tails": kurtosis / np.sqrt(24 / n),
        "spread unevenly about their centre": abs(radial) / np.sqrt(8 / (n * d * (d + 2))),
    }
    worst = max(deviations, key=lambda name: deviations[name])
    ok = deviations[worst] < SIGNIFICANT
    message = (
        f"The inputs look Gaussian (largest deviation {deviations[worst]:.1f} sigma)."
        if ok
        else f"The inputs do not look Gaussian: they are {worst} ({deviations[worst]:.0f} sigma)."
    )
    return GaussianCheck(bool(ok), message, skewness, kurtosis, radial)


def _largest(statistic: Callable[..., Array], X: Array) -> float:
    """The largest of all inputs, a block of them at a time."""
    blocks = (X[:, columns] for columns in row_blocks(X.shape[1], _INPUTS_AT_ONCE))
    return float(max(np.max(np.abs(statistic(block, axis=0))) for block in blocks))
