"""Noise that is like that of the sample before, as in series of measurements.

Inputs that do not follow each other leave the errors of weights as they are, but the mean of such
noise, and with it the output bias, is off by far more than independent noise would be: by

    sqrt(1 + 2 sum_k rho_k)

times as much, rho_k being the correlation with the k-th sample before. Errors are widened by that.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources import Source
from provenet.fitting.tolerances import SERIAL_ROWS, SERIAL_SIGMAS
from provenet.networks.network import Network


def serial_factor(source: Source, user: Network) -> float:
    """By how much errors are larger than independent noise gives; 1 where it is independent."""
    if not source.fixed:
        return 1.0
    X, y = source.rows(0, min(source.size, SERIAL_ROWS))
    left = (y - user(X)).reshape(len(X), -1)
    return max(_of_one_output(column - column.mean()) for column in left.T)


def _of_one_output(left: Array) -> float:
    """Correlations summed under a triangle (Newey and West 1987), where the first stands out."""
    n, power = len(left), float(left @ left)
    lags = int(2 * np.cbrt(n))
    if n <= 2 * lags or power == 0:
        return 1.0
    rho = np.array([float(left[k:] @ left[:-k]) / power for k in range(1, lags + 1)])
    if rho[0] * np.sqrt(n) < SERIAL_SIGMAS:
        return 1.0
    weights = 1 - np.arange(1, lags + 1) / (lags + 1)
    return float(np.sqrt(max(1 + 2 * float(weights @ rho), 1.0)))
