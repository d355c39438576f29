"""The model that least squares fits: `y = sum_i beta_i sigma(w_i.h + b_i) + linear part`.

With several outputs every row of beta is a vector, one number an output; the units are shared. With
one hidden layer h is x. With several, h is what the layers below say, `h_l = sigma(W_l h_(l-1) +
b_l)` from `h_0 = x`, and the linear part is a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import Activation
from provenet.networks.deep_network import DeepNetwork
from provenet.networks.network import Network
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class Parameters:
    """Units and linear part of a model on standardised inputs."""

    theta: Array
    """(units, features + 1): weights and, last, the bias."""
    beta: Array
    """Output weights of the units, then the linear part (v, c) or (c,); one column an output."""
    lower: tuple[Array, ...] = ()
    """The layers below these units, each as theta is, the lowest first."""

    @property
    def units(self) -> int:
        """Number of units, of the highest layer where there are several."""
        return len(self.theta)

    @property
    def layers(self) -> tuple[Array, ...]:
        """Weights and biases of every hidden layer, the lowest first."""
        return (*self.lower, self.theta)

    @property
    def widths(self) -> tuple[int, ...]:
        """Units of every hidden layer."""
        return tuple(len(layer) for layer in self.layers)

    @property
    def nonlinear(self) -> int:
        """How many numbers the hidden layers have."""
        return sum(layer.size for layer in self.layers)

    def with_layers(self, layers: tuple[Array, ...]) -> Parameters:
        """The same output layer above others."""
        return replace(self, theta=layers[-1], lower=tuple(layers[:-1]))

    def moved(self, step: Array, beta_step: Array | float = 0.0) -> Parameters:
        """With a flat step taken off all hidden layers, the lowest first, and one off beta."""
        ends = np.cumsum([layer.size for layer in self.layers])
        layers = tuple(
            layer - step[end - layer.size : end].reshape(layer.shape)
            for layer, end in zip(self.layers, ends, strict=True)
        )
        return replace(self.with_layers(layers), beta=self.beta - beta_step)

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
        beta = np.concatenate([kept, self.linear])
        return replace(self, theta=self.theta[units], beta=beta)

    def widened(self, theta: Array) -> Parameters:
        """With further units of output weight zero."""
        m = self.units
        nothing = np.zeros((len(theta), *self.beta.shape[1:]))
        beta = np.concatenate([self.beta[:m], nothing, self.linear])
        return replace(self, theta=np.vstack([self.theta, theta]), beta=beta)

    def normalised(self, activation: Activation) -> Parameters:
        """Weights of norm 1, where the activation is positively homogeneous; none stay none."""
        if activation.degree is None:
            return self
        layers, beta = list(self.layers), self.beta.copy()
        for k, layer in enumerate(layers):
            norm = np.linalg.norm(layer[:, :-1], axis=1)
            norm[norm == 0] = 1.0
            layers[k] = layer / norm[:, None]
            if k + 1 < len(layers):
                scale = np.append(norm**activation.degree, 1.0)
                layers[k + 1] = layers[k + 1] * scale
            else:
                beta[: self.units] = (beta[: self.units].T * norm**activation.degree).T
        return Parameters(layers[-1], beta, tuple(layers[:-1]))

    def capped(self, activation: Activation, largest: float) -> Parameters:
        """Units of norm at most `largest`, their kinks where they are; homogeneous ones stay."""
        if activation.degree is not None or not np.isfinite(largest):
            return self
        return self.with_layers(tuple(_capped(layer, largest) for layer in self.layers))

    def deep_network(self, activation: Activation) -> DeepNetwork:
        """The model as a network of several hidden layers; it has no linear term."""
        last = np.atleast_2d(self.beta.T)
        matrices = (*self.layers, last)
        return DeepNetwork(
            [matrix[:, :-1] for matrix in matrices],
            [matrix[:, -1] for matrix in matrices],
            activation,
            outputs=None if self.beta.ndim == 1 else len(last),
        )

    @classmethod
    def of_deep(cls, network: DeepNetwork) -> Parameters:
        """The parameters of a network of several hidden layers."""
        *layers, last = (np.column_stack([W, b]) for W, b in network.affine_maps)
        beta = last[0] if network.outputs is None else last.T
        return cls(layers[-1], beta, tuple(layers[:-1]))

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


def _capped(theta: Array, largest: float) -> Array:
    norm = np.linalg.norm(theta[:, :-1], axis=1)
    shrunk = np.minimum(1.0, largest / np.maximum(norm, TINY))
    return np.asarray(theta * shrunk[:, None])


def layer_inputs(parameters: Parameters, activation: Activation, X: Array) -> list[Array]:
    """What each hidden layer is given, the lowest first: X, then the values of the layer below."""
    inputs = [X]
    for theta in parameters.lower:
        inputs.append(activation(inputs[-1] @ theta[:, :-1].T + theta[:, -1]))
    return inputs


def model_features(parameters: Parameters, activation: Activation, X: Array) -> tuple[Array, Array]:
    """`z = w.h + b` and `Phi = [sigma(z), x, 1]` (without x when there is no linear term)."""
    theta = parameters.theta
    z = layer_inputs(parameters, activation, X)[-1] @ theta[:, :-1].T
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
