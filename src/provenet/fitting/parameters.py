"""The model that least squares fits: `y = sum_i beta_i sigma(w_i.x + b_i) + linear part`.

With several outputs every row of beta is a vector, one number an output; the units are shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import Activation
from provenet.networks.network import Network
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class Parameters:
    """Units and linear part of a model on standardised inputs."""

    theta: Array
    """(units, features + 1): weights and, last, the bias."""
    beta: Array
    """Output weights of the units, then the linear part (v, c) or (c,); one column an output."""

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.theta)

    @property
    def has_linear(self) -> bool:
        """Whether the linear part has weights beside its constant."""
        return len(self.beta) > self.units + 1

    @property
    def linear(self) -> Array:
        """The linear part (v, c) or (c,)."""
        return self.beta[self.units :]

    @property
    def output_weights(self) -> Array:
        """(outputs, units), also for one output."""
        return np.atleast_2d(self.beta[: self.units].T)

    def keep(self, units: AnyArray) -> Parameters:
        """Only the units of a mask; the linear part stays."""
        kept = self.beta[: self.units][units]
        return Parameters(self.theta[units], np.concatenate([kept, self.linear]))

    def widened(self, theta: Array) -> Parameters:
        """With further units of output weight zero."""
        m = self.units
        nothing = np.zeros((len(theta), *self.beta.shape[1:]))
        beta = np.concatenate([self.beta[:m], nothing, self.linear])
        return Parameters(np.vstack([self.theta, theta]), beta)

    def normalised(self, activation: Activation) -> Parameters:
        """Weights of norm 1, where the activation is positively homogeneous."""
        if activation.degree is None:
            return self
        norm = np.linalg.norm(self.theta[:, :-1], axis=1)
        beta = self.beta.copy()
        beta[: self.units] = (beta[: self.units].T * norm**activation.degree).T
        return Parameters(self.theta / norm[:, None], beta)

    def capped(self, activation: Activation, largest: float) -> Parameters:
        """Units of norm at most `largest`, their kinks where they are; homogeneous ones stay."""
        if activation.degree is not None or not np.isfinite(largest):
            return self
        norm = np.linalg.norm(self.theta[:, :-1], axis=1)
        shrunk = np.minimum(1.0, largest / np.maximum(norm, TINY))
        return Parameters(self.theta * shrunk[:, None], self.beta)

    def network(self, activation: Activation) -> Network:
        """The model as a network."""
        m = self.units
        return Network(
            self.theta[:, :-1],
            self.theta[:, -1],
            self.beta[:m].T,
            self.beta[-1],
            activation,
            linear=self.beta[m:-1].T if self.has_linear else None,
        )

    @classmethod
    def of(cls, network: Network) -> Parameters:
        """The parameters of a network."""
        A = network.output_weights.T
        constant = np.broadcast_to(network.output_bias, A.shape[1:])[None]
        linear = constant[:0] if network.linear is None else network.linear.T
        theta = np.column_stack([network.weights, network.biases])
        return cls(theta, np.concatenate([A, linear, constant]))


def model_features(parameters: Parameters, activation: Activation, X: Array) -> tuple[Array, Array]:
    """`z = w.x + b` and `Phi = [sigma(z), x, 1]` (without x when there is no linear term)."""
    theta = parameters.theta
    z = X @ theta[:, :-1].T
    z += theta[:, -1]
    n, m = z.shape
    phi = np.empty((n, len(parameters.beta)))
    phi[:, :m] = activation(z)
    if parameters.has_linear:
        phi[:, m:-1] = X
    phi[:, -1] = 1.0
    return z, phi


def jacobians(parameters: Parameters, activation: Activation, X: Array) -> Iterator[Array]:
    """For each output its derivatives by theta and by its own beta, one row a sample."""
    z, phi = model_features(parameters, activation, X)
    slope, inputs = activation.derivative(z), np.column_stack([X, np.ones(len(X))])
    for weights in parameters.output_weights:
        by_theta = (slope * weights)[:, :, None] * inputs[:, None, :]
        yield np.hstack([by_theta.reshape(len(X), -1), phi])


def columns_by_output(parameters: Parameters) -> list[AnyArray]:
    """Which of all parameters, theta and then beta by outputs, each output depends on."""
    thetas, rows = parameters.theta.size, len(parameters.beta)
    outputs = len(parameters.output_weights)
    return [np.r_[:thetas, thetas + q * rows : thetas + (q + 1) * rows] for q in range(outputs)]
