"""What a network leaves of the labels, and what rounding alone would leave."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.networks.network import DeepNetwork, Network
from provenet.networks.tolerances import EPS


def rounding_level(network: Network, X: Array) -> Array:
    """Root mean square rounding error of the network's own evaluation at the rows of X, an output.

    Rounding of z is worth its size times the activation's slope there. A homogeneous activation has
    its values of the same size; others round their own. In a deep network what a layer rounds is
    passed on by the weights above it.
    """
    if isinstance(network, DeepNetwork):
        return _rounding_through_layers(network, X)
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


def _rounding_through_layers(network: DeepNetwork, X: Array) -> Array:
    h, error = np.asarray(X, float), np.zeros(np.shape(X))
    *hidden, (A, c) = network.affine_maps
    for W, b in hidden:
        z = h @ W.T + b
        moved = error @ np.abs(W).T + EPS * (np.abs(h) @ np.abs(W).T + np.abs(b))
        h = network.activation(z)
        error = np.abs(network.activation.derivative(z)) * moved + EPS * np.abs(h)
    total = error @ np.abs(A).T + EPS * (np.abs(h) @ np.abs(A).T + np.abs(c))
    level = np.sqrt(np.mean(total**2, axis=0))
    return np.asarray(level[0] if network.outputs is None else level)


def residual_on(samples: ArraySource, network: Network) -> float:
    """Root mean square residual of a network on samples."""
    return float(np.sqrt(np.mean((network(samples.X) - samples.y) ** 2)))
