"""Standard errors where noise is not of the same size everywhere.

To first order the estimate is off by `H^-1 sum_n J_n^T e_n`, H being the sum of `J_n^T J_n` and e_n
the noise. Noise of one size has covariance `noise^2 H^-1`; noise of any sizes has

    H^-1 (sum_n J_n^T r_n r_n^T J_n) H^-1

to be estimated from what is left, r (White 1980). With few samples that is less sure, so it is used
where squares of what is left depend on the inputs: they are regressed on `z_i^2` and `|z_i|` of
every unit, on the inputs, their length and the network's values.
"""

from __future__ import annotations

import numpy as np
import scipy

from provenet.common.blocks import row_blocks
from provenet.data.sources import ArraySource
from provenet.data.standardisation import Standardisation
from provenet.fitting.covariance import (
    ParameterCovariance,
    StandardErrors,
    in_user_coordinates,
)
from provenet.fitting.model import Parameters, columns_by_output, jacobians
from provenet.fitting.tolerances import BLOCK_ROWS, MOST_DENSE, SINGULAR, UNEVEN_NOISE, UNEVEN_ROWS
from provenet.networks.network import Network
from provenet.networks.tolerances import TINY


def is_uneven(samples: ArraySource, network: Network) -> bool:
    """Whether the size of what is left depends on the inputs (F-test)."""
    X, y = samples.rows(0, min(UNEVEN_ROWS, samples.size))
    value = network(X).reshape(len(X), -1)
    left = (y.reshape(len(y), -1) - value) ** 2
    z = np.abs(X @ network.weights.T + network.biases)
    A = np.column_stack([np.ones(len(X)), z, z**2, X, np.sum(X**2, axis=1), value, value**2])
    spare = len(X) - A.shape[1]
    if spare <= A.shape[1]:
        return False
    q = np.linalg.qr(A)[0]
    total = np.sum((left - left.mean(axis=0)) ** 2, axis=0)
    unexplained = np.sum((left - q @ (q.T @ left)) ** 2, axis=0)
    more = q.shape[1] - 1
    F = (total - unexplained) / more / np.maximum(unexplained / spare, TINY)
    return bool(np.min(scipy.stats.f.sf(F, more, spare)) < UNEVEN_NOISE / len(F))


def uneven_errors(
    samples: ArraySource, network: Network, standardisation: Standardisation
) -> StandardErrors | None:
    """Standard errors for noise of any sizes; None where there are too many parameters."""
    parameters = Parameters.of(network)
    outputs = len(parameters.output_weights)
    p = parameters.theta.size + parameters.beta.size
    if p > MOST_DENSE or samples.labels <= p:
        return None
    H, M = np.zeros((p, p)), np.zeros((p, p))
    columns = columns_by_output(parameters)
    for rows in row_blocks(samples.size, BLOCK_ROWS[1]):
        X, y = samples.X[rows], samples.y[rows]
        left, pull = (network(X) - y).reshape(len(X), outputs), np.zeros((len(X), p))
        for q, J in enumerate(jacobians(parameters, network.activation, X)):
            H[np.ix_(columns[q], columns[q])] += J.T @ J
            pull[:, columns[q]] += J * left[:, q, None]
        M += pull.T @ pull
    scale = np.sqrt(np.maximum(np.diag(H), TINY))
    inverse = np.linalg.pinv(H / scale / scale[:, None], rcond=SINGULAR, hermitian=True)
    inverse = inverse / scale / scale[:, None]
    found = inverse @ M @ inverse * (samples.labels / (samples.labels - p))
    covariance = ParameterCovariance(found, parameters)
    user = in_user_coordinates(covariance, 0, parameters, standardisation, network.activation)
    return user.standard_errors(1.0)
