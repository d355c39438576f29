"""What a network leaves of the labels, and what rounding alone would leave."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources.arrays import ArraySource
from provenet.networks.network import Network
from provenet.networks.tolerances import EPS


def rounding_level(network: Network, X: Array) -> Array:
    """Root mean square rounding error of the network's own evaluation at the rows of X, an output.

    Rounding of z is worth its size times the activation's slope there. A homogeneous activation has
    its values of the same size; others round their own.
    """
    size, sigma = np.abs(X) @ np.abs(network.weights).T + np.abs(network.biases), network.activation
    if sigma.degree is not None:
        worth = size * np.abs(sigma.derivative(size))
    else:
        z = X @ network.weights.T + network.biases
        worth = size * np.abs(sigma.derivative(z)) + np.abs(sigma(z))
    total = worth @ np.abs(network.output_weights).T + np.abs(network.output_bias)
    if network.linear is not None:
        total += np.abs(X) @ np.abs(network.linear).T
    return np.asarray(EPS * np.sqrt(np.mean(total**2, axis=0)))


def residual_on(samples: ArraySource, network: Network) -> float:
    """Root mean square residual of a network on samples."""
    return float(np.sqrt(np.mean((network(samples.X) - samples.y) ** 2)))
