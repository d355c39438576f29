"""Gauss-Newton steps for a deep network that is nearly right, and how sure its parameters are.

So near to the answer the Jacobian D hardly changes any more: it is formed once, a block of samples
at a time (anew where steps end far above the noise), and

    H = D^T Omega D + sigma^2 / e^2,    theta <- theta - H^-1 g,

g exact at every step, so that what H lacks in precision costs a step, not accuracy: of a large
network it may be formed in single precision. Omega are weights of the samples. The second term
keeps what the samples leave open where it was measured before, to e: without it rounding would
decide. The norm of a hidden unit's weights is a convention, so H is inverted at right angles to
them (`large_inverse`); `sigma^2 H^-1` is the covariance.

The letters are those of `layered_equations`; beta is not eliminated, but a part of theta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.fitting.large_inverse import LargeInverse, LargeMatrix, Reflection, reflection
from provenet.fitting.layered_covariance import DeepErrors
from provenet.fitting.layered_equations import LayeredPoint
from provenet.fitting.model import Parameters
from provenet.fitting.tolerances import (
    MIRRORED_ROWS,
    NEWTON_GAIN,
    NEWTON_MATRICES,
    NEWTON_RIDGE,
    NEWTON_SPARE,
    NEWTON_STALLED,
    NEWTON_STEPS,
    SINGLE_RIDGE,
    SINGLE_STEPS,
)
from provenet.networks.network import DeepNetwork


@dataclass(frozen=True)
class WeightedSamples:
    """Inputs, answers (n, outputs), and the weight of each sample's residual.

    In the piece of an input x a network is linear in (x, 1). What was measured may be another value
    of the same linear function: a slope along v is that of (v, 0).
    """

    X: Array
    Y: Array
    weights: Array
    of: Array | None = None
    """(n, features + 1): what the linear function was measured of; None for (x, 1) everywhere."""

    def __add__(self, more: WeightedSamples) -> WeightedSamples:
        """These and more of them."""
        pairs = ((self.X, more.X), (self.Y, more.Y), (self.weights, more.weights))
        X, Y, weights = (np.concatenate(pair) for pair in pairs)
        both = None if self.of is None and more.of is None else np.vstack([self._of, more._of])
        return WeightedSamples(X, Y, weights, both)

    def __getitem__(self, rows: slice) -> WeightedSamples:
        """Some of them."""
        of = None if self.of is None else self.of[rows]
        return WeightedSamples(self.X[rows], self.Y[rows], self.weights[rows], of)

    @property
    def _of(self) -> Array:
        return np.column_stack([self.X, np.ones(len(self.X))]) if self.of is None else self.of

    def at(self, network: DeepNetwork) -> LayeredPoint:
        """What every layer is given by these, its slopes, and the features of the output."""
        parameters, activation = Parameters.of_deep(network), network.activation
        if self.of is None:
            return LayeredPoint.at(parameters, activation, self.X)
        h, inputs, slopes = self.X, [self.of], list[Array]()
        for theta in parameters.layers:
            z = h @ theta[:, :-1].T + theta[:, -1]
            slopes.append(activation.derivative(z))
            h = activation(z)
            inputs.append(np.column_stack([slopes[-1] * (inputs[-1] @ theta.T), self.of[:, -1]]))
        return LayeredPoint(parameters, inputs[:-1], slopes, inputs[-1])

    def residuals(self, network: DeepNetwork) -> Array:
        """Of every answer, weighted."""
        if self.of is None:
            values = network(self.X).reshape(len(self.X), -1)
        else:
            A, c = network.affine_maps[-1]
            values = self.at(network).phi @ np.column_stack([A, c]).T
        return np.asarray(self.weights[:, None] * (values - self.Y))


@dataclass(frozen=True)
class NearlyExact:
    """A network, and its covariance `H^-1` for noise of size one."""

    network: DeepNetwork
    rms: float
    """Of the weighted residuals, over the answers that parameters leave."""
    covariance: LargeInverse
    """Until another is formed."""

    @property
    def errors(self) -> DeepErrors:
        """Standard errors for noise of size one."""
        return _in_shape(self.network, np.sqrt(self.covariance.variances))

    @property
    def rows(self) -> AnyArray:
        """For every parameter the number of the unit, or output, whose weight or bias it is."""
        sizes = [W.shape[1] + 1 for W, b in self.network.affine_maps for _ in b]
        return np.repeat(np.arange(len(sizes)), sizes)

    def derivatives(self, X: Array) -> Array:
        """Of the outputs at inputs by all parameters, (n, outputs, parameters)."""
        points = WeightedSamples(X, np.empty((len(X), 0)), np.ones(len(X)))
        return np.stack(list(_jacobians(self.network, points)), axis=1)

    def changes(self, X: Array, steps: Array, dtype: type[np.floating] = np.float64) -> AnyArray:
        """How answers change along steps of all parameters, (steps, n, outputs)."""
        network, number = self.network, len(steps)
        h, steps = X.astype(dtype), steps.astype(dtype)
        dh, first = np.zeros((number, *X.shape), dtype), 0
        for W, b in ((W.astype(dtype), b.astype(dtype)) for W, b in network.affine_maps):
            by = steps[:, first : first + W.size + len(b)].reshape(number, *W.shape[:1], -1)
            first += W.size + len(b)
            dz = h @ by[:, :, :-1].transpose(0, 2, 1) + by[:, None, :, -1] + dh @ W.T
            z = h @ W.T + b
            h, dh = network.activation(z), network.activation.derivative(z) * dz
        return np.asarray(dz)


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
    stalled: float = NEWTON_STALLED
    """Times the noise above which the steps' end is not the network."""
    single: bool = False
    """Whether the matrix is formed in single precision: directions that this hides are unsure."""

    def __post_init__(self) -> None:
        """Nothing is fitted."""
        self.start = self.network = _normalised(self.network)
        self.held = (self.noise / self.unsure) ** 2
        self.matrix: LargeMatrix | None = None
        self.inverse: LargeInverse | None = None

    def add(self, new: WeightedSamples) -> None:
        """More samples to be fitted."""
        if self.matrix is None:
            held = np.full(_flat(self.network).size, self.held)
            self.matrix = LargeMatrix(held, np.float32 if self.single else np.float64)
            self.inverse = None
        inverse = self.inverse
        few = inverse is not None and inverse.takes(new.Y.size)
        for D in _weighted_jacobians(self.network, new, self.matrix.dtype):
            self.between()
            self.matrix.add(D)
            inverse = inverse.with_rows(D) if inverse is not None and few else None
        self.inverse = inverse

    @property
    def hides(self) -> bool:
        """Whether rounding of the matrix hides how sure some direction is."""
        return len(self._inverse().hidden) > 0

    def in_double(self, samples: WeightedSamples) -> None:
        """The matrix of the samples again, which are all that were added, in double precision."""
        self.single, self.matrix, self.inverse = False, None, None
        self.add(samples)

    def as_it_is(self) -> NearlyExact:
        """How sure the parameters will be once the samples are fitted."""
        return NearlyExact(self.network, self.noise, self._inverse())

    def fitted(self, samples: WeightedSamples) -> NearlyExact:
        """The network that fits the samples best, which are all that were added.

        Where steps end far above the noise, the matrix was formed too far away: it is formed anew.
        """
        fit = self._stepped(samples)
        for _ in range(NEWTON_MATRICES - 1):
            if fit.rms <= self.stalled * self.noise:
                break
            before, self.matrix = fit.rms, None
            self.add(samples)
            fit = self._stepped(samples)
            if fit.rms > NEWTON_GAIN * before:
                break
        return fit

    def _inverse(self) -> LargeInverse:
        assert self.matrix is not None, "samples are added first"
        if self.inverse is None:
            ridge = SINGLE_RIDGE if self.single else NEWTON_RIDGE
            self.inverse = self.matrix.inverse(list(_reflections(self.network)), ridge)
        return self.inverse

    def _stepped(self, samples: WeightedSamples) -> NearlyExact:
        """Steps with one matrix while each leaves less; the last that did is kept."""
        inverse, network, before = self._inverse(), self.network, np.inf
        for _ in range(SINGLE_STEPS if self.single else NEWTON_STEPS):
            self.between()
            r = samples.residuals(network)
            size = float(np.sum(r**2))
            if not size < NEWTON_GAIN * before:
                break
            before, self.network = size, network
            gradient = _gradient(network, samples, r)
            gradient += self.held * (_flat(network) - _flat(self.start))
            network = _moved(network, inverse.damped(gradient[:, None])[:, 0])
        left = max(NEWTON_SPARE * samples.Y.size, samples.Y.size - inverse.rank)
        rms = float(np.sqrt(before / left))
        return NearlyExact(_normalised(self.network), rms, inverse)


def _reflections(network: DeepNetwork) -> Iterator[Reflection]:
    """Of the weights of every hidden unit."""
    first = 0
    for W, _ in network.affine_maps[:-1]:
        for row in W:
            yield reflection(first, row)
            first += len(row) + 1


def _weighted_jacobians(
    network: DeepNetwork, samples: WeightedSamples, dtype: type[np.floating]
) -> Iterator[AnyArray]:
    """The weighted derivatives, some rows at a time."""
    for block in row_blocks(len(samples.X), MIRRORED_ROWS):
        for D in _jacobians(network, samples[block], dtype):
            D *= samples.weights[block, None].astype(dtype)
            yield D


def _jacobians(
    network: DeepNetwork, samples: WeightedSamples, dtype: type[np.floating] = np.float64
) -> Iterator[AnyArray]:
    """For each output its derivatives by all parameters, those of other outputs zero."""
    point, n = samples.at(network), len(samples.X)
    A, width = point.parameters.output_weights, point.phi.shape[1]
    for q, weights in enumerate(A):
        by_layers = point.jacobian(np.broadcast_to(weights, (n, len(weights))), dtype)
        D = np.zeros((n, by_layers.shape[1] + width * len(A)), dtype)
        D[:, : by_layers.shape[1]] = by_layers
        D[:, by_layers.shape[1] + q * width :][:, :width] = point.phi
        yield D


def _gradient(network: DeepNetwork, samples: WeightedSamples, r: Array) -> Array:
    """`D^T Omega r` of weighted residuals."""
    point = samples.at(network)
    r = samples.weights[:, None] * r
    layers = point.pulled_back(r @ point.parameters.output_weights)
    return np.concatenate([layers, (r.T @ point.phi).ravel()])


def _normalised(network: DeepNetwork) -> DeepNetwork:
    """Weights of hidden units of norm 1; units without any stay."""
    activation = network.activation
    normalised = Parameters.of_deep(network).normalised(activation).deep_network(activation)
    return network.replace(weights=normalised.weights, biases=normalised.biases)


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
