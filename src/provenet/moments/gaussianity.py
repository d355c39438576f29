"""Do the inputs look Gaussian, as the theorems of the moment route assume?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import Array
from provenet.data.standardisation import Standardisation
from provenet.moments.tolerances import SIGNIFICANT

_NUMBERS_AT_ONCE = 2**22
"""Convention: of some inputs of all samples, of which each statistic makes a few copies."""


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
    blocks = (standardisation.apply(X[rows]) for rows in row_blocks(len(X)))
    return _check(X, np.concatenate([_squared_norms(z) for z in blocks]))


def check_standardised(X: Array, z: Array) -> GaussianCheck:
    """The same of inputs X that are z once they are standardised."""
    return _check(X, _squared_norms(z))


def _squared_norms(z: Array) -> Array:
    return np.asarray(np.einsum("nd,nd->n", z, z))


def _check(X: Array, squares: Array) -> GaussianCheck:
    """The same of inputs that have these squared norms once they are standardised."""
    n, d = X.shape
    skewness, kurtosis = _largest_cumulants(X)
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


def _largest_cumulants(X: Array) -> tuple[float, float]:
    """The largest skewness and excess kurtosis of all inputs, a block of them at a time."""
    at_once = max(1, _NUMBERS_AT_ONCE // len(X))
    found = [_cumulants(X[:, columns]) for columns in row_blocks(X.shape[1], at_once)]
    skewness, kurtosis = (np.abs(np.concatenate(each)) for each in zip(*found, strict=True))
    return float(np.max(skewness)), float(np.max(kurtosis))


@np.errstate(divide="ignore", invalid="ignore")  # of an input that does not vary: not a number
def _cumulants(X: Array) -> tuple[Array, Array]:
    """Skewness and excess kurtosis of each input."""
    centred = X - X.mean(axis=0)
    squares = centred**2
    variance = squares.mean(axis=0)
    third = np.einsum("nd,nd->d", squares, centred) / len(X)
    fourth = np.einsum("nd,nd->d", squares, squares) / len(X)
    return third / variance**1.5, fourth / variance**2 - 3
