"""The model that least squares fits, at any depth, and its derivatives.

    z_l = W_l h_(l-1) + b_l,   h_l = sigma(z_l),   h_0 = x,    f = beta^T phi,   phi = [h_L, (x), 1]

Layer l is one matrix theta_l = [W_l, b_l], one unit a row, that acts on [h_(l-1), 1]. The output
layer is one matrix beta, a column an output (or a vector), that acts on the features phi; its rows
are the output weights A of the units, then the linear part. Only one hidden layer has x in phi.

*Linearisation.* With the sensitivities of a combination of outputs c^T f,

    delta_L = (A c) * sigma'(z_L),      delta_l = (W_(l+1)^T delta_(l+1)) * sigma'(z_l),

the derivative by theta_l at a sample is the outer product of delta_l and [h_(l-1), 1]: J is a
row-wise Khatri-Rao product. Products with J need no sensitivities an output: `J v` is one pass
forwards for all outputs, `J^T r` one pass backwards.

All parameters in one vector: theta_1, ..., theta_L, flat, and then beta, one output after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import Activation
from provenet.networks.network import DeepNetwork, Network


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

    def ravel(self) -> Array:
        """All parameters in one vector."""
        return np.concatenate([*(layer.ravel() for layer in self.layers), self.beta.T.ravel()])

    def unravel(self, flat: Array) -> Parameters:
        """The model of this shape with these parameters."""
        zeros = self.moved(self.ravel()[: self.nonlinear], self.beta)
        beta = flat[self.nonlinear :].reshape(self.beta.T.shape).T
        return zeros.moved(-flat[: self.nonlinear], -beta)

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

    @property
    def columns(self) -> Array:
        """beta, one column an output also for one."""
        return self.beta.reshape(len(self.beta), -1)

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

    def deep_network(self, activation: Activation) -> DeepNetwork:
        """The model as a network of several hidden layers; it has no linear term."""
        matrices = (*self.layers, self.columns.T)
        weights, biases = zip(*((M[:, :-1], M[:, -1]) for M in matrices), strict=True)
        outputs = None if self.beta.ndim == 1 else self.beta.shape[1]
        return DeepNetwork(weights, biases, activation, outputs=outputs)

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
        """The parameters of a network of any depth."""
        *maps, (A, c) = network.affine_maps
        linear = [] if network.linear is None else [np.atleast_2d(network.linear).T]
        beta = np.concatenate([A.T, *linear, c[None]])
        layers = tuple(np.column_stack(pair) for pair in maps)
        return cls(layers[-1], beta[:, 0] if network.outputs is None else beta, layers[:-1])


def with_ones(h: Array) -> Array:
    """[h, 1]."""
    folded = np.ones((len(h), h.shape[1] + 1), h.dtype)
    folded[:, :-1] = h
    return folded


@dataclass(frozen=True)
class Linearisation:
    """A model at some samples: its features, and what derivatives need."""

    parameters: Parameters
    activation: Activation
    inputs: tuple[Array, ...]
    """[h_(l-1), 1] of every hidden layer, the lowest first."""
    arguments: tuple[Array, ...]
    """z_l of every hidden layer."""
    top: Array
    """h_L: the first columns of phi."""
    tail: Array
    """The other columns of phi, [x, 1] or [1]."""

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # a step that overflows is not taken
    def at(cls, parameters: Parameters, activation: Activation, X1: Array) -> Linearisation:
        """Evaluate the layers on samples [x, 1]."""
        inputs, arguments, h = [X1], list[Array](), X1[:, :-1]
        for theta in parameters.layers:
            if arguments:
                inputs.append(with_ones(h))
            arguments.append(inputs[-1] @ theta.T)
            h = activation(arguments[-1])
        tail = X1 if parameters.has_linear else X1[:, -1:]
        return cls(parameters, activation, tuple(inputs), tuple(arguments), h, tail)

    @classmethod
    def of(cls, parameters: Parameters, activation: Activation, X: Array) -> Linearisation:
        """The same on samples x."""
        return cls.at(parameters, activation, with_ones(X))

    def astype(self, dtype: type[np.floating], X1: Array | None = None) -> Linearisation:
        """Features, inputs and slopes in another precision, in which X1 may be there already."""
        first = self.inputs[0].astype(dtype, copy=False) if X1 is None else X1
        inputs = (first, *(h.astype(dtype, copy=False) for h in self.inputs[1:]))
        tail = first if self.parameters.has_linear else first[:, -1:]
        return replace(self, inputs=inputs, top=self.top.astype(dtype, copy=False), tail=tail)

    @cached_property
    def slopes(self) -> tuple[Array, ...]:
        """sigma'(z_l) of every hidden layer."""
        slopes = (self.activation.derivative(z) for z in self.arguments)
        return tuple(slope.astype(self.top.dtype, copy=False) for slope in slopes)

    @cached_property
    def features(self) -> Array:
        """phi, one row a sample."""
        return np.hstack([self.top, self.tail])

    @cached_property
    def values(self) -> Array:
        """f, (samples, outputs)."""
        return self.combined(self.parameters.columns)

    def combined(self, coefficients: Array) -> Array:
        """Phi times coefficients of its columns."""
        m = self.top.shape[1]
        return np.asarray(self.top @ coefficients[:m] + self.tail @ coefficients[m:])

    def overlap(self, columns: Array) -> Array:
        """Phi^T times columns of numbers, one row a sample."""
        return np.concatenate([self.top.T @ columns, self.tail.T @ columns])

    def forward(self, step: Array) -> Array:
        """`J v`: how the outputs change with a flat step of the hidden layers."""
        return np.asarray(self.top_change(step) @ self.parameters.output_weights.T)

    def backward(self, R: Array) -> Array:
        """`J^T r` of residuals (samples, outputs), summed over samples, by the hidden layers."""
        return self.pulled_back(R @ self.parameters.output_weights)

    def top_change(self, step: Array) -> Array:
        """How h_L changes with a flat step of the hidden layers."""
        change, end = self.top[:, :0], 0
        for theta, h, slope in zip(self.parameters.layers, self.inputs, self.slopes, strict=True):
            begin, end = end, end + theta.size
            moved = h @ step[begin:end].reshape(theta.shape).T
            if begin:
                moved += change @ theta[:, :-1].T.astype(step.dtype, copy=False)
            moved *= slope
            change = moved
        return change

    def pulled_back(self, fed: Array) -> Array:
        """Derivatives of a combination of outputs by the hidden layers, summed over samples."""
        pairs = zip(self.sensitivities(fed), self.inputs, strict=True)
        return np.concatenate([(delta.T @ h).ravel() for delta, h in pairs])

    def sensitivities(self, fed: Array) -> list[Array]:
        """The delta_l, the lowest first; `fed` is how a combination of outputs changes with h_L."""
        deltas, layers = list[Array](), self.parameters.layers
        for theta, slope in zip(layers[::-1], self.slopes[::-1], strict=True):
            deltas.insert(0, fed * slope)
            if len(deltas) < len(layers):
                fed = deltas[0] @ theta[:, :-1].astype(slope.dtype, copy=False)
        return deltas

    def jacobians(
        self, root: Array | None = None, weights: Array | None = None
    ) -> Iterator[tuple[Array, AnyArray]]:
        """For each output its derivatives, one row a sample, and by which parameters they are.

        With `root`, (samples, k, outputs), for each of the k combinations of outputs, by all;
        `weights` may be given in place of the output weights.
        """
        A = self.parameters.output_weights if weights is None else weights
        A, phi, n = A.astype(self.top.dtype, copy=False), self.features, len(self.top)
        thetas, rows = self.parameters.nonlinear, phi.shape[1]
        each = np.eye(len(A)) if root is None else np.moveaxis(root, 1, 0)
        for q, R in enumerate(each.astype(A.dtype, copy=False)):
            deltas = self.sensitivities(np.broadcast_to(R @ A, self.top.shape))
            pairs = zip(deltas, self.inputs, strict=True)
            by_theta = [(delta[:, :, None] * h[:, None, :]).reshape(n, -1) for delta, h in pairs]
            if root is None:
                own = np.r_[:thetas, thetas + q * rows : thetas + (q + 1) * rows]
                yield np.hstack([*by_theta, phi]), own
            else:
                by_beta = (R[:, :, None] * phi[:, None, :]).reshape(n, -1)
                yield np.hstack([*by_theta, by_beta]), np.arange(thetas + rows * len(A))


def model_features(parameters: Parameters, activation: Activation, X: Array) -> tuple[Array, Array]:
    """z_L and phi."""
    at = Linearisation.of(parameters, activation, X)
    return at.arguments[-1], at.features


def layer_inputs(parameters: Parameters, activation: Activation, X: Array) -> list[Array]:
    """h_0, ..., h_(L-1)."""
    return [h[:, :-1] for h in Linearisation.of(parameters, activation, X).inputs]
