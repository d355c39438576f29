"""How sure the parameters are: covariance of the least-squares estimate, standard errors, bounds.

At a least-squares solution the estimate's covariance is `noise^2 (J^T J)^-1`. A unit's scale is not
determined by the data ((w, b, a) and (s w, s b, a/s) are one function), so `J^T J` has one null
direction a unit; the canonical parameters do not see it, and neither do the errors given here
(delta method, in the user's coordinates).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import LinearOperator, eigsh

from provenet.moments import Standardisation
from provenet.networks import Network
from provenet.refine import IterativeStep, Parameters, normal_equations
from provenet.sources.base import Source
from provenet.typing import AnyArray, Array

_SINGULAR = 1e-12
_LANCZOS_ZERO = 1e-5


@dataclass(frozen=True)
class StandardErrors:
    """Standard errors of a canonical network's parameters, in the shapes of the network's own."""

    weights: Array
    biases: Array
    output_weights: Array
    output_bias: float
    linear: Array | None


@dataclass(frozen=True)
class Covariance:
    """Covariance, for noise of size one, of each unit's canonical (w, b, a), and of c, v."""

    units: Array
    """(units, features + 2, features + 2)."""
    linear: Array
    """Of the linear part (v, c) or (c,), in the user's coordinates."""
    rank_deficiency: int
    """How many directions, other than the units' scales, the data do not determine."""

    def standard_errors(self, noise: float) -> StandardErrors:
        """Standard errors for noise of the given size."""
        errors = noise * np.sqrt(np.maximum(np.diagonal(self.units, axis1=1, axis2=2), 0.0))
        linear = noise * np.sqrt(np.maximum(np.diag(self.linear), 0.0))
        return StandardErrors(
            weights=errors[:, :-2],
            biases=errors[:, -2],
            output_weights=errors[:, -1],
            output_bias=float(linear[-1]),
            linear=linear[:-1] if len(linear) > 1 else None,
        )

    def error_bound(self, network: Network, residual_norm: float) -> float:
        """Largest error of a unit that a residual of this norm allows, to first order.

        Of the weights' direction, of the bias relative to `1 + |b|`, of the output weight relative
        to its size.
        """
        if network.units == 0:
            return 0.0
        scale = np.ones(self.units.shape[:2])
        scale[:, -2] = 1 / (1 + np.abs(network.biases))
        scale[:, -1] = 1 / np.maximum(np.abs(network.output_weights), 1e-300)
        largest = np.linalg.eigvalsh(self.units * scale[:, :, None] * scale[:, None, :])[:, -1]
        return float(residual_norm * np.sqrt(max(largest.max(), 0.0)))


def covariance(source: Source, network: Network, standardisation: Standardisation) -> Covariance:
    """Covariance of the least-squares estimate at a network on standardised inputs."""
    parameters = Parameters.of(network)
    H = normal_equations(source, parameters, network.activation).hessian
    inverse, free = _inverse_up_to_scales(H, parameters)
    return _in_user_coordinates(inverse, free, parameters, standardisation)


def covariance_bound(
    source: Source, network: Network, standardisation: Standardisation
) -> Covariance:
    """An upper bound for many parameters, without a p x p matrix: `H^-1 <= S^-2 / lambda_min`.

    S^2 is the diagonal of H and lambda_min the smallest eigenvalue of `S^-1 H S^-1` (Lanczos).
    """
    parameters = Parameters.of(network)
    size = parameters.theta.size + len(parameters.beta)
    products = IterativeStep(source, parameters, network.activation, np.zeros(size))
    scale = np.sqrt(products.diagonal)
    scales = _scale_directions(parameters, scale)

    # ARPACK moves its start into the range of the operator, where a null space has no part.
    shift = 1e-2

    def apply(v: Array) -> Array:
        v = v.ravel()
        return np.asarray(products.product(v / scale) / scale + scales.T @ (scales @ v) + shift * v)

    operator = LinearOperator((size, size), matvec=apply, dtype=float)
    start = np.random.default_rng(0).standard_normal(size)
    smallest = float(eigsh(operator, 1, which="SA", v0=start, tol=1e-4, ncv=30)[0][0]) - shift
    determined = smallest > _LANCZOS_ZERO
    inverse = sparse.diags_array(1 / (max(smallest, _LANCZOS_ZERO) * scale**2)).tocsr()
    return _in_user_coordinates(inverse, int(not determined), parameters, standardisation)


def _in_user_coordinates(
    inverse: Any, free: int, parameters: Parameters, standardisation: Standardisation
) -> Covariance:
    """Blocks of the inverse of H, moved to canonical parameters on the user's inputs."""
    m, width = parameters.theta.shape
    blocks = np.empty((m, width + 1, width + 1))
    for i in range(m):
        own = _unit_indices(i, m, width)
        D = _to_canonical(parameters.theta[i], parameters.beta[i], standardisation)
        blocks[i] = D @ _block(inverse, own) @ D.T
    linear = _block(inverse, np.arange(m * width + m, inverse.shape[0]))
    if parameters.has_linear:
        D = np.eye(len(linear))
        D[:-1, :-1] = standardisation.whiten.T
        D[-1, :-1] = -standardisation.whiten @ standardisation.mean
        linear = D @ linear @ D.T
    return Covariance(blocks, linear, free)


def _block(matrix: Any, indices: AnyArray) -> Array:
    block = matrix[indices][:, indices]
    return np.asarray(block.toarray() if sparse.issparse(block) else block)


def _unit_indices(i: int, units: int, width: int) -> AnyArray:
    """Where the weights, the bias and the output weight of unit i stand among all parameters."""
    return np.append(np.arange(i * width, (i + 1) * width), units * width + i)


def _scale_directions(parameters: Parameters, scale: Array) -> Any:
    """Unit null vectors of the scaled normal equations (sparse rows), one a unit: its scale."""
    m, width = parameters.theta.shape
    rows = sparse.lil_array((m, len(scale)))
    for i in range(m):
        own = _unit_indices(i, m, width)
        null = np.append(parameters.theta[i], -parameters.beta[i]) * scale[own]
        rows[[i], own] = null / np.linalg.norm(null)
    return rows.tocsr()


def _inverse_up_to_scales(H: Array, parameters: Parameters) -> tuple[Array, int]:
    """An inverse of H but for the units' scales, and how many other directions are free.

    Each unit's scale direction `(w, b, -a)` is a null vector of H. Adding its outer product makes H
    regular and changes the inverse along that direction only, which canonical parameters ignore.
    """
    scale = np.sqrt(np.diag(H))
    scale[scale == 0] = 1.0
    scales = _scale_directions(parameters, scale).toarray()
    A = H / scale / scale[:, None] + scales.T @ scales
    factor, failed = lapack.dpotrf(A, lower=True)
    if not failed and lapack.dpocon(factor, np.abs(A).sum(axis=0).max(), uplo="L")[0] > _SINGULAR:
        inverse = lapack.dpotri(factor, lower=True)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        return inverse / scale / scale[:, None], 0
    values, vectors = np.linalg.eigh(A)
    keep = values > _SINGULAR * values[-1]
    root = vectors[:, keep] / np.sqrt(values[keep]) / scale[:, None]
    return root @ root.T, int(np.sum(~keep))


def _to_canonical(theta: Array, a: float, standardisation: Standardisation) -> Array:
    """Derivative of a unit's canonical (w, b, a) in the user's coordinates by its own (w, b, a)."""
    w, d = theta[:-1], len(theta) - 1
    to_user = np.eye(d + 2)
    to_user[:d, :d] = standardisation.whiten.T
    to_user[d, :d] = -standardisation.whiten @ standardisation.mean
    u = standardisation.whiten.T @ w
    b = theta[-1] - u @ standardisation.mean
    s = np.linalg.norm(u)
    direction = u / s
    D = np.zeros((d + 2, d + 2))
    D[:d, :d] = (np.eye(d) - np.outer(direction, direction)) / s
    D[d, :d] = -b * direction / s**2
    D[d, d] = 1 / s
    D[d + 1, :d] = a * direction
    D[d + 1, d + 1] = s
    return D @ to_user
