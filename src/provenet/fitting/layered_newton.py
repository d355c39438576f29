"""Gauss-Newton steps for a deep network that is nearly right, and how sure its parameters are.

So near to the answer the Jacobian D hardly changes any more: it is formed once, a block of samples
at a time (anew where steps end far above the noise), and

    H = D^T Omega D + sigma^2 / e^2,    theta <- theta - H^-1 g,

g exact at every step, so that what H lacks in precision costs a step, not accuracy. Omega are
weights of the samples. The second term keeps what the samples leave open where it was measured
before, to e: without it rounding would decide. The norm of a hidden unit's weights is a convention,
so H is inverted at right angles to them; `sigma^2 H^-1` is the covariance.

The letters are those of `layered_equations`; beta is not eliminated, but a part of theta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import Array
from provenet.fitting.layered_covariance import DeepErrors
from provenet.fitting.layered_equations import LayeredPoint
from provenet.fitting.normal_equations import inverse_root, rows_of_jacobian
from provenet.fitting.parameters import Parameters
from provenet.fitting.tolerances import (
    NEWTON_GAIN,
    NEWTON_MATRICES,
    NEWTON_RIDGE,
    NEWTON_STALLED,
    NEWTON_STEPS,
)
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
    between: Callable[[], None] = lambda: None
    """Called between blocks of samples and steps: it may raise, to end the fit there."""

    def __post_init__(self) -> None:
        """Nothing is fitted."""
        self.start = self.network = _normalised(self.network)
        self.held = (self.noise / self.unsure) ** 2
        self.H: Array | None = None

    def fitted(self, samples: WeightedSamples, new: WeightedSamples) -> NearlyExact:
        """The network that fits the samples best, of which some are new since the last fit.

        Where steps end far above the noise, the matrix was formed too far away: it is formed anew.
        """
        self._add(new)
        fit = self._stepped(samples)
        for _ in range(NEWTON_MATRICES - 1):
            if fit.rms <= NEWTON_STALLED * self.noise:
                break
            before, self.H = fit.rms, None
            self._add(samples)
            fit = self._stepped(samples)
            if fit.rms > NEWTON_GAIN * before:
                break
        return fit

    def _add(self, new: WeightedSamples) -> None:
        more = _matrix(self.network, new, self.between)
        if self.H is None:
            more[np.diag_indices(len(more))] += self.held
        self.H = more if self.H is None else self.H + more

    def _stepped(self, samples: WeightedSamples) -> NearlyExact:
        """Steps with one matrix while each leaves less; the last that did is kept."""
        assert self.H is not None, "a matrix is formed first"
        root = _inverse_root(self.network, self.H)
        network, before = self.network, np.inf
        for _ in range(NEWTON_STEPS):
            self.between()
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


def _inverse_root(network: DeepNetwork, H: Array) -> Array:
    """R with `R^T R = H^-1` at right angles to the weights of every hidden unit.

    Reflections turn these into axes, which are left out.
    """
    H, blocks = H.copy(), list(_reflections(network))
    for own, v in blocks:
        H[own] -= 2 * np.outer(v, v @ H[own])
        H[:, own] -= 2 * np.outer(H[:, own] @ v, v)
    free = np.ones(len(H), dtype=bool)
    free[[own.start for own, _ in blocks]] = False
    root = np.zeros((int(free.sum()), len(H)))
    root[:, free] = inverse_root(H[np.ix_(free, free)], NEWTON_RIDGE)
    for own, v in blocks:
        root[:, own] -= 2 * np.outer(root[:, own] @ v, v)
    return root


def _reflections(network: DeepNetwork) -> Iterator[tuple[slice, Array]]:
    """For every hidden unit its weights' places, and v: `1 - 2 v v^T` turns them into an axis."""
    first = 0
    for W, _ in network.affine_maps[:-1]:
        for row in W:
            v = row.copy()
            v[0] += np.copysign(np.linalg.norm(row), row[0])
            size = float(np.linalg.norm(v))
            yield slice(first, first + len(row)), v / size if size else v
            first += len(row) + 1


def _matrix(network: DeepNetwork, samples: WeightedSamples, between: Callable[[], None]) -> Array:
    """`D^T Omega D` of weighted samples."""
    size = _flat(network).size
    H = np.zeros((size, size))
    for block in row_blocks(len(samples.X), rows_of_jacobian(size, np.float64)):
        for D in _jacobians(network, samples.X[block]):
            between()
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
