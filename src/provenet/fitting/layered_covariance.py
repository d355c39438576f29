"""How sure the parameters of a deep network are: the inverse of its normal equations.

The letters are those of `layered_equations`. For noise of size one the layers' parameters have the
covariance `S^-1`, and the output weights of output q `G^-1 + G^-1 C_q^T S^-1 C_q G^-1`. Where the
activation is positively homogeneous the norm of a hidden unit's weights is a convention: with rows
of norm 1 only changes at right angles to them count, so S is inverted there.

Labels that are rounded have errors that count as noise, but for those where a kinked network is
constant, its highest layer off: there all labels are one number, rounded once. An error that m of n
labels share moves the output weights first, by `d = m G^-1 e`, e the constant, then the layers by
`-S^-1 C_q d`, and with them the output weights again: no number of samples makes that smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import block_diag, null_space

from provenet.common.typing import Array
from provenet.data.sources import Source
from provenet.fitting.layered_equations import LayeredPoint, layered_equations
from provenet.fitting.linalg import solver_scaled
from provenet.fitting.model import Parameters
from provenet.fitting.tolerances import LAYERED_RANK, RIDGE_OF_COVARIANCE
from provenet.networks.activations import Activation
from provenet.networks.network import DeepNetwork
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class DeepErrors:
    """Standard errors of a canonical deep network's parameters, in the shapes of its own."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    def times(self, factor: float) -> DeepErrors:
        """All errors multiplied by a number."""
        return DeepErrors(
            tuple(factor * errors for errors in self.weights),
            tuple(factor * errors for errors in self.biases),
        )

    def beside(self, other: DeepErrors) -> DeepErrors:
        """Together with others that are independent of these."""
        return DeepErrors(
            tuple(map(np.hypot, self.weights, other.weights)),
            tuple(map(np.hypot, self.biases, other.biases)),
        )

    @property
    def largest(self) -> float:
        """The largest error of a unit's weights and bias together."""
        return float(self.of_rows.max(initial=0.0))

    @property
    def of_rows(self) -> Array:
        """Of every unit's weights and bias together, layer after layer, then of the outputs."""
        pairs = zip(self.weights, self.biases, strict=True)
        return np.concatenate([np.sqrt(np.sum(W**2, axis=1) + b**2) for W, b in pairs])


@dataclass(frozen=True)
class DeepCovariance:
    """Errors for noise of size one, and how many directions the samples leave free."""

    errors: DeepErrors
    rank_deficiency: int
    shared: DeepErrors
    """By how much an error of size one moves them that all labels share where the network is
    constant."""


def deep_covariance(samples: Source, network: DeepNetwork) -> DeepCovariance:
    """Of a normalised network on these samples, in two passes over them."""
    parameters = Parameters.of_deep(network)
    sums = layered_equations(samples, parameters, network.activation)
    best_linear_part = solver_scaled(sums.gram, RIDGE_OF_COVARIANCE)
    Z = _free_directions(parameters, network.activation.degree is not None)
    S, _ = sums.eliminated(RIDGE_OF_COVARIANCE)
    root, deficiency = _inverse_root(Z.T @ S @ Z, np.diag(Z.T @ sums.hessian @ Z))
    root = Z @ root
    hidden = np.sqrt(np.sum(root**2, axis=1))
    outputs = []
    constant = np.abs(np.diag(best_linear_part(np.eye(len(sums.gram)))))
    for C in sums.cross:
        moved = best_linear_part(C.T @ root)
        outputs.append(np.sqrt(constant + np.sum(moved**2, axis=1)))
    d = best_linear_part(_constant_sum(samples, parameters, network.activation))
    moved, again = _moved_together(sums.cross, root, best_linear_part, d)
    return DeepCovariance(
        _in_shape(parameters, hidden, np.array(outputs)),
        deficiency,
        _in_shape(parameters, moved, again),
    )


def _constant_sum(samples: Source, parameters: Parameters, activation: Activation) -> Array:
    """`m e`: the sum of the features of all samples on which the highest layer is off."""
    off = samples.total(partial(_samples_off, parameters, activation))
    return np.append(np.zeros(len(parameters.beta) - 1), float(off))


def _samples_off(parameters: Parameters, activation: Activation, X: Array, y: Array) -> int:
    return int(np.sum(~np.any(LayeredPoint.at(parameters, activation, X).phi[:, :-1], axis=1)))


def _moved_together(
    cross: Array, root: Array, best_linear_part: Callable[[Array], Array], d: Array
) -> tuple[Array, Array]:
    """Sizes of what the layers, and the weights of each output, move by: each output has an error
    of its own."""
    hidden, outputs = np.zeros(len(root)), np.zeros((len(cross), len(d)))
    for q, C in enumerate(cross):
        moved = -root @ (root.T @ (C @ d))
        hidden += moved**2
        for p, other in enumerate(cross):
            outputs[p] += (float(p == q) * d - best_linear_part(other.T @ moved)) ** 2
    return np.sqrt(hidden), np.sqrt(outputs)


def _free_directions(parameters: Parameters, homogeneous: bool) -> Array:
    """A basis, in columns, of the changes that are no convention."""
    if not homogeneous:
        return np.eye(parameters.nonlinear)
    rows = (row for layer in parameters.layers for row in layer)
    return np.asarray(block_diag(*(null_space(np.append(row[:-1], 0.0)[None]) for row in rows)))


def _inverse_root(matrix: Array, before: Array) -> tuple[Array, int]:
    """R with `R R^T` the inverse, and how many directions have nothing to invert.

    `before` is the diagonal before beta was eliminated: where that leaves nothing, as of the bias
    of a unit that is always on, rounding must not be taken for something.
    """
    left = np.diag(matrix)
    size = np.where(left > LAYERED_RANK * before, left, before)
    scale = np.sqrt(np.where(size > TINY, size, 1.0))
    values, vectors = np.linalg.eigh(matrix / scale / scale[:, None])
    least = LAYERED_RANK * values.max(initial=TINY)
    root = vectors / np.sqrt(np.maximum(values, least)) / scale[:, None]
    return np.asarray(root), int(np.sum(values <= least))


def _in_shape(parameters: Parameters, hidden: Array, outputs: Array) -> DeepErrors:
    """Flat errors of the layers, and rows of those of the outputs, as a network has them."""
    ends = np.cumsum([layer.size for layer in parameters.layers])
    rows = [
        hidden[end - layer.size : end].reshape(layer.shape)
        for layer, end in zip(parameters.layers, ends, strict=True)
    ]
    rows.append(outputs)
    return DeepErrors(tuple(row[:, :-1] for row in rows), tuple(row[:, -1] for row in rows))
