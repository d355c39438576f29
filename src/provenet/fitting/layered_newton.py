"""Gauss-Newton steps for a deep network that is nearly right, and how sure its parameters are.

So near to the answer the Jacobian D hardly changes any more: it is formed once, a block of samples
at a time, and

    H = D^T Omega D + sum over hidden units w w^T / n^2 + sigma^2 / e^2,    theta <- theta - H^-1 g,

g exact at every step, so that what H lacks in precision costs a step, not accuracy. Omega are
weights of the samples. The second term holds the norm of every hidden unit's weights, which is a
convention, and the third keeps what the samples leave open where it was measured before, to e:
without it rounding would decide. `sigma^2 H^-1` is the covariance.

The letters are those of `layered_equations`; beta is not eliminated, but a part of theta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import Array
from provenet.fitting.layered_covariance import DeepErrors
from provenet.fitting.layered_equations import LayeredPoint
from provenet.fitting.normal_equations import inverse_root, rows_of_jacobian
from provenet.fitting.parameters import Parameters
from provenet.fitting.tolerances import NEWTON_GAIN, NEWTON_RIDGE, NEWTON_STEPS
from provenet.networks.deep_network import DeepNetwork


@dataclass(frozen=True)
class WeightedSamples:
    """Inputs, answers (n, outputs), and the weight of each sample's residual."""

    X: Array
    Y: Array
    weights: Array

    def __add__(self, more: WeightedSamples) -> WeightedSamples:
        """These and more of them."""
        pairs = ((self.X, more.X), (self.Y, more.Y), (self.weights, more.weights))
        return WeightedSamples(*(np.concatenate(pair) for pair in pairs))

    def residuals(self, network: DeepNetwork) -> Array:
        """Of every answer, weighted."""
        return np.asarray(self.weights[:, None] * (_values(network, self.X) - self.Y))


@dataclass(frozen=True)
class NearlyExact:
    """A network, and R with `R^T R = H^-1` for noise of size one."""

    network: DeepNetwork
    rms: float
    """Of the weighted residuals, over the answers that parameters leave."""
    root: Array

    @property
    def errors(self) -> DeepErrors:
        """Standard errors for noise of size one."""
        flat = np.sqrt(np.sum(self.root**2, axis=0))
        return _in_shape(self.network, flat)

    def leverages(self, X: Array) -> Array:
        """`D R^T` at inputs, (n, outputs, parameters): answers are unsure by their norms."""
        return np.stack([D @ self.root.T for D in _jacobians(self.network, X)], axis=1)


@dataclass
class Newton:
    """Fits of a network that is nearly right, to more and more samples."""

    network: DeepNetwork
    unsure: float
    """How far its parameters are off, about."""
    noise: float
    """What answers are off by, weighted."""

    def __post_init__(self) -> None:
        """Nothing is fitted."""
        self.start = self.network = _normalised(self.network)
        self.held = (self.noise / self.unsure) ** 2
        self.H: Array | None = None

    def fitted(self, samples: WeightedSamples, new: WeightedSamples) -> NearlyExact:
        """The network that fits the samples best, of which some are new since the last fit."""
        more = _matrix(self.network, new)
        self.H = _held(self.network, more, self.held) if self.H is None else self.H + more
        root = inverse_root(self.H, NEWTON_RIDGE)
        network, before = self.network, np.inf
        for _ in range(NEWTON_STEPS):
            r = samples.residuals(network)
            size = float(np.sum(r**2))
            if not size < NEWTON_GAIN * before:
                break
            before, self.network = size, network
            gradient = _gradient(network, samples, r)
            gradient += self.held * (_flat(network) - _flat(self.start))
            network = _moved(network, root.T @ (root @ gradient))
        left = max(1, samples.Y.size - len(root))
        return NearlyExact(_normalised(self.network), float(np.sqrt(before / left)), root)


def _held(network: DeepNetwork, H: Array, held: float) -> Array:
    """With everything held a little, and the norms of the units' weights as much as these are."""
    H[np.diag_indices(len(H))] += held
    first = 0
    for W, _ in network.affine_maps[:-1]:
        for row in W:
            own = slice(first, first + len(row))
            H[own, own] += float(np.mean(np.diag(H)[own])) * np.outer(row, row)
            first += len(row) + 1
    return H


def _matrix(network: DeepNetwork, samples: WeightedSamples) -> Array:
    """`D^T Omega D` of weighted samples."""
    size = _flat(network).size
    H = np.zeros((size, size))
    for block in row_blocks(len(samples.X), rows_of_jacobian(size, np.float64)):
        for D in _jacobians(network, samples.X[block]):
            D *= samples.weights[block, None]
            H += D.T @ D
    return H


def _jacobians(network: DeepNetwork, X: Array) -> Iterator[Array]:
    """For each output its derivatives by all parameters, those of other outputs zero."""
    parameters = Parameters.of_deep(network)
    point = LayeredPoint.at(parameters, network.activation, X)
    A, width = parameters.output_weights, point.phi.shape[1]
    for q, weights in enumerate(A):
        by_layers = point.jacobian(np.broadcast_to(weights, (len(X), len(weights))))
        D = np.zeros((len(X), by_layers.shape[1] + width * len(A)))
        D[:, : by_layers.shape[1]] = by_layers
        D[:, by_layers.shape[1] + q * width :][:, :width] = point.phi
        yield D


def _gradient(network: DeepNetwork, samples: WeightedSamples, r: Array) -> Array:
    """`D^T Omega r` of weighted residuals."""
    parameters = Parameters.of_deep(network)
    point = LayeredPoint.at(parameters, network.activation, samples.X)
    r = samples.weights[:, None] * r
    layers = point.pulled_back(r @ parameters.output_weights)
    return np.concatenate([layers, (r.T @ point.phi).ravel()])


def _normalised(network: DeepNetwork) -> DeepNetwork:
    """Weights of hidden units of norm 1; units without any stay."""
    activation = network.activation
    normalised = Parameters.of_deep(network).normalised(activation).deep_network(activation)
    return network.replace(weights=normalised.weights, biases=normalised.biases)


def _values(network: DeepNetwork, X: Array) -> Array:
    return network(X).reshape(len(X), -1)


def _flat(network: DeepNetwork) -> Array:
    """All parameters, layer after layer, the bias of a unit after its weights."""
    return np.concatenate([np.column_stack([W, b]).ravel() for W, b in network.affine_maps])


def _moved(network: DeepNetwork, step: Array) -> DeepNetwork:
    """With a step taken off all parameters."""
    parts = _in_shape(network, _flat(network) - step)
    return network.replace(weights=parts.weights, biases=parts.biases)


def _in_shape(network: DeepNetwork, flat: Array) -> DeepErrors:
    """Flat numbers as weights and biases."""
    sizes = [W.size + len(b) for W, b in network.affine_maps]
    parts = [
        part.reshape(len(b), -1)
        for part, (_, b) in zip(
            np.split(flat, np.cumsum(sizes)[:-1]), network.affine_maps, strict=True
        )
    ]
    return DeepErrors(tuple(part[:, :-1] for part in parts), tuple(part[:, -1] for part in parts))
