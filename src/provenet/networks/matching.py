"""Which unit of one network is which unit of another, and how far apart they are."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from provenet.common.typing import AnyArray, Array
from provenet.networks.network import Network


def unit_distances(first: Network, second: Network) -> Array:
    """`|w-w'| + |a-a'| + |b-b'|` for every pair of units of two canonical networks."""
    weights = np.linalg.norm(first.weights[:, None] - second.weights[None], axis=2)
    a, b = np.atleast_2d(first.output_weights), np.atleast_2d(second.output_weights)
    outputs = np.linalg.norm(a[:, :, None] - b[:, None, :], axis=0)
    return np.asarray(weights + outputs + np.abs(first.biases[:, None] - second.biases))


def match_units(estimate: Network, truth: Network) -> tuple[AnyArray, AnyArray]:
    """Indices into both canonical networks that pair their units with the least total distance."""
    rows, columns = linear_sum_assignment(unit_distances(estimate.canonical(), truth.canonical()))
    return rows, columns


def parameter_error(estimate: Network, truth: Network) -> float:
    """Largest `|w-w'| + |a-a'| + |b-b'|` over matched units of the canonical forms.

    Infinite when the networks differ in shape or activation. The output bias and a linear term
    count too: their own error is taken if it is larger.
    """
    estimate, truth = estimate.canonical(), truth.canonical()
    if _kind(estimate) != _kind(truth):
        return float("inf")
    distance = unit_distances(estimate, truth)
    rows, columns = linear_sum_assignment(distance)
    errors = [
        *distance[rows, columns],
        np.linalg.norm(np.asarray(estimate.output_bias) - truth.output_bias),
        np.linalg.norm(_linear(estimate) - _linear(truth)),
        abs((estimate.activation.slope or 0.0) - (truth.activation.slope or 0.0)),
    ]
    return float(max(errors))


def permutation_error(B: Array, truth: Array) -> float:
    """How far B is from a permutation of the true weights, up to signs (GLM17, equation 6.1).

    With `Q = B pinv(truth)`, rows of norm 1: `1 - |Q_ij|` for the worst row's best j, or the worst
    column's best i, whichever is less.
    """
    Q = np.abs(B @ np.linalg.pinv(truth))
    Q /= np.linalg.norm(Q, axis=1, keepdims=True)
    return float(1 - max(Q.max(axis=1).min(), Q.max(axis=0).min()))


def _kind(network: Network) -> tuple[object, ...]:
    """Shape and activation; a ReLU is a leaky one of slope 0, one output is a plain number."""
    family = network.activation.family
    return (
        network.weights.shape,
        network.outputs or 1,
        "relu" if family == "leaky_relu" else family,
    )


def _linear(network: Network) -> Array:
    return np.zeros(1) if network.linear is None else network.linear
