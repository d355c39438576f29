"""The moments of a known network on standard normal inputs, exactly (ATV21, Lemma 3.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.common.typing import Array
from provenet.moments.sums import MomentRequest, Moments
from provenet.networks.network import Network


def population_moments(network: Network, request: MomentRequest) -> Moments:
    """Exact moments of a network on standard normal inputs (ATV21, Lemma 3.5)."""
    basis = np.eye(network.features) if request.basis is None else request.basis
    norm = np.linalg.norm(network.weights, axis=1)
    W = network.weights / norm[:, None] @ basis.T
    tensors: list[Array] = []
    for k in range(request.order + 1):
        coefficient = network.activation.hermite(k, network.biases, norm)
        tensors.append(symmetric_tensor(network.output_weights * coefficient, W, k))
    tensors[0] = tensors[0] + network.output_bias
    if network.linear is not None:
        tensors[1] = tensors[1] + network.linear @ basis.T
    return Moments(tuple(tensors), (0.0,) * len(tensors), None)


def symmetric_tensor(coefficients: Array, vectors: Array, k: int) -> Array:
    """`sum_i coefficients_i v_i^(x)k` as a dense array, for k up to 6.

    Coefficients (outputs, terms) give one tensor an output, stacked in front.
    """
    letters = "abcdef"[:k]
    if k == 0:
        return np.asarray(coefficients.sum(axis=-1))
    operands: list[Any] = [coefficients, *[vectors] * k]
    terms = ",".join(["...z", *(f"z{letter}" for letter in letters)])
    return np.asarray(np.einsum(f"{terms}->...{letters}", *operands, optimize=True))
