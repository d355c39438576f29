"""How sure the parameters are: covariance of the least-squares estimate, standard errors, bounds.

At a least-squares solution the estimate's covariance is `noise^2 (J^T J)^-1`. A unit's scale is not
determined by the data ((w, b, a) and (s w, s b, a/s) are one function), so `J^T J` has one null
direction a unit; the canonical parameters do not see it, and neither do the errors given here
(delta method, in the user's coordinates).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from provenet.common.typing import AnyArray, Array
from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation
from provenet.fitting.least_squares import Products, Samples, fisher_information
from provenet.fitting.linalg import solve_scaled
from provenet.fitting.model import Linearisation, Parameters, columns_by_output
from provenet.fitting.output_layer import linear_part
from provenet.fitting.smallest_eigenvalue import smallest_eigenvalue
from provenet.fitting.tolerances import (
    BOUND_ABOVE,
    BOUND_SAMPLES,
    DENSE_LIMIT,
    EIGEN_ZERO,
    RIDGE_OF_COVARIANCE,
    SINGULAR,
)
from provenet.networks.activations import Activation
from provenet.networks.network import Network
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class StandardErrors:
    """Standard errors of a canonical network's parameters, in the shapes of the network's own."""

    weights: Array
    biases: Array
    output_weights: Array
    output_bias: Array | float
    linear: Array | None

    @classmethod
    def none(cls, network: Network) -> StandardErrors:
        """No errors, in the shapes of a network's parameters."""
        return cls(
            np.zeros_like(network.weights),
            np.zeros_like(network.biases),
            np.zeros_like(network.output_weights),
            np.zeros_like(network.output_bias),
            None if network.linear is None else np.zeros_like(network.linear),
        )

    def times(self, factor: float) -> StandardErrors:
        """All errors multiplied by a number."""
        return StandardErrors(
            self.weights * factor,
            self.biases * factor,
            self.output_weights * factor,
            self.output_bias * factor,
            None if self.linear is None else self.linear * factor,
        )

    def scaled(self, scale: Array) -> StandardErrors:
        """The errors when each output is multiplied by a number."""
        return StandardErrors(
            self.weights,
            self.biases,
            (self.output_weights.T * scale).T,
            self.output_bias * scale,
            None if self.linear is None else (self.linear.T * scale).T,
        )


@dataclass(frozen=True)
class Covariance:
    """Covariance, for noise of size one, of each unit's canonical (w, b, a), and of c, v."""

    units: Array
    """(units, features + 1 + outputs, features + 1 + outputs)."""
    linear: Array
    """Variances of the linear part (v, c) or (c,), in the user's coordinates, one row each."""
    plain: bool
    """Whether labels are plain numbers."""
    rank_deficiency: int
    """How many directions, other than the units' scales, the data do not determine."""
    bounds: bool = False
    """Whether these are upper bounds."""

    def standard_errors(self, noise: float) -> StandardErrors:
        """Standard errors for noise of the given size."""
        units = noise**2 * np.diagonal(self.units, axis1=1, axis2=2)
        return errors_of(units, noise**2 * self.linear, self.features, self.plain)

    @property
    def features(self) -> int:
        """Number of inputs."""
        return int(self.units.shape[1] - 1 - self.linear[0].size)

    def error_bound(self, network: Network, residual_norm: float) -> float:
        """Largest error of a unit that a residual of this norm allows, to first order.

        Of the weights relative to their norm, 1 where it is a convention, of the bias relative to
        that and `|b|`, of the output weights relative to their size.
        """
        if network.units == 0:
            return 0.0
        scale = np.empty(self.units.shape[:2])
        d = self.features
        norm = np.linalg.norm(network.weights, axis=1)
        scale[:, :d] = 1 / norm[:, None]
        scale[:, d] = 1 / (norm + np.abs(network.biases))
        size = np.linalg.norm(np.atleast_2d(network.output_weights), axis=0)
        scale[:, d + 1 :] = 1 / np.maximum(size, TINY)[:, None]
        largest = np.linalg.eigvalsh(self.units * scale[:, :, None] * scale[:, None, :])[:, -1]
        return float(residual_norm * np.sqrt(max(largest.max(), 0.0)))


def errors_of(units: Array, linear: Array, features: int, plain: bool) -> StandardErrors:
    """Standard errors from variances of each unit's (w, b, a), and of the linear part."""
    errors, last = np.sqrt(np.maximum(units, 0.0)), np.sqrt(np.maximum(linear, 0.0))
    return StandardErrors(
        weights=errors[:, :features],
        biases=errors[:, features],
        output_weights=errors[:, -1] if plain else errors[:, features + 1 :].T,
        output_bias=float(last[-1]) if plain else last[-1],
        linear=last[:-1].T if len(last) > 1 else None,
    )


def covariance(source: Source, network: Network, standardisation: Standardisation) -> Covariance:
    """Covariance of the least-squares estimate at a network on standardised inputs.

    With beta eliminated (see `normal_equations`) theta has covariance `S^-1`; beta follows it:
    `cov(theta, beta_q) = -S^-1 C_q G^-1`, `cov(beta_p, beta_q) = G^-1 [p = q] + G^-1 C_p^T S^-1 C_q
    G^-1` with `C_q` the rows of C times the output weights of output q.
    """
    parameters = Parameters.of(network)
    thetas, A = parameters.theta.size, parameters.output_weights
    plain = np.ones((1, parameters.units))  # the derivatives of the units' values
    M = fisher_information(source, parameters, network.activation, weights=plain)
    eliminated = solve_scaled(M[thetas:, thetas:], M[thetas:, :thetas], RIDGE_OF_COVARIANCE)
    S = M[:thetas, :thetas] - M[:thetas, thetas:] @ eliminated
    S.reshape(2 * parameters.theta.shape)[:] *= (A.T @ A)[:, None, :, None]
    diagonal = np.diag(M)
    size = np.repeat(np.sum(parameters.output_weights**2, axis=0), parameters.theta.shape[1])
    scale = _positive(np.sqrt(diagonal[:thetas] * size))
    _scale(S, 1 / scale)
    _add_scale_projector(S, _scale_directions(parameters, scale, network.activation))
    if thetas <= DENSE_LIMIT:
        inverse, free = inverse_of_scaled(S)
    elif (regular := _inverse_of_regular(S)) is not None:
        inverse, free = regular, 0
    else:  # which directions are open would take minutes
        bound = covariance_bound(source, network, standardisation)
        return replace(bound, rank_deficiency=max(bound.rank_deficiency, 1))
    _scale(inverse, 1 / scale)
    G_inverse, dependent = _scaled_inverse(M[thetas:, thetas:])
    follow = _Follow(inverse, eliminated, G_inverse, parameters)
    return in_user_coordinates(
        follow, free + dependent, parameters, standardisation, network.activation
    )


@dataclass(frozen=True)
class _Follow:
    """The covariance of all parameters from that of theta, in parts."""

    theta: Array
    """`S^-1`."""
    cross: Array
    """`G^-1 C^T`, (rows of beta, theta)."""
    gram_inverse: Array
    parameters: Parameters

    def _moved(self, rows: AnyArray, output: int) -> Array:
        """`G^-1 C_q^T`: how rows of beta of one output follow theta, up to sign."""
        width = self.parameters.theta.shape[1]
        weights = np.repeat(self.parameters.output_weights[output], width)
        return np.asarray(self.cross[rows] * weights)

    def unit(self, i: int) -> Array:
        """Covariance of a unit's weights, bias and output weights."""
        width = self.parameters.theta.shape[1]
        own = np.arange(i * width, (i + 1) * width)
        outputs = range(len(self.parameters.output_weights))
        J = np.vstack([self._moved(np.array([i]), q) for q in outputs])
        JV = J @ self.theta
        weights = self.gram_inverse[i, i] * np.eye(len(J)) + JV @ J.T
        return np.block([[self.theta[np.ix_(own, own)], -JV[:, own].T], [-JV[:, own], weights]])

    def linear(self, D: Array) -> Array:
        """Variances of `D beta` for the linear part, (rows, outputs)."""
        rows = np.arange(self.parameters.units, len(self.parameters.beta))
        own = self.gram_inverse[np.ix_(rows, rows)]
        variances = []
        for q in range(len(self.parameters.output_weights)):
            J = self._moved(rows, q)
            variances.append(np.diag(D @ (own + J @ self.theta @ J.T) @ D.T))
        return np.asarray(np.column_stack(variances), float)


@dataclass(frozen=True)
class _Bound:
    """A diagonal bound on the covariance of all parameters."""

    theta: Array
    beta: Array
    """(rows, outputs)."""

    def unit(self, i: int) -> Array:
        """The bound for a unit's weights, bias and output weights."""
        return np.diag(np.append(self.theta[i], self.beta[i]))

    def linear(self, D: Array) -> Array:
        """The bound for `D beta` of the linear part, (rows, outputs)."""
        return np.asarray(D**2 @ self.beta[len(self.theta) :])


def covariance_bound(
    source: Source, network: Network, standardisation: Standardisation
) -> Covariance:
    """An upper bound for many parameters, without a p x p matrix: `S^-1 <= D^-2 / lambda_min`.

    D^2 is the diagonal of H (theta alone) and lambda_min the smallest eigenvalue of `D^-1 S D^-1`
    (`smallest_eigenvalue`), the scales of units apart. The bound on beta follows as in
    `covariance`; twice the two bounds is one on both together.
    """
    parameters, activation = Parameters.of(network), network.activation
    point = Samples.of(source, parameters, activation).linearised(parameters)
    curvature = Products(point, np.zeros(parameters.nonlinear), None, single=True)
    scale = np.sqrt(curvature.D)
    G_inverse, dependent = _scaled_inverse(linear_part(source, parameters, activation).gram)
    cross = cross_products(source, parameters, activation)
    follow = cross @ G_inverse
    own = unit_blocks(source, parameters, activation) - follow @ cross.transpose(0, 2, 1)
    size = np.sum(parameters.output_weights**2, axis=0)[:, None, None]
    scales = _scale_directions(parameters, scale, activation)
    smallest = smallest_eigenvalue(curvature, scale, scales, own * size)
    theta = 1 / (max(smallest, EIGEN_ZERO) * scale**2).reshape(parameters.theta.shape)
    moved = np.einsum("mwr,mw->mr", follow**2, theta)
    beta = np.diag(G_inverse)[:, None] + moved.T @ parameters.output_weights.T**2
    undetermined = int(smallest <= EIGEN_ZERO) + dependent
    found = in_user_coordinates(
        _Bound(2 * theta, 2 * beta), undetermined, parameters, standardisation, activation
    )
    return replace(found, bounds=True)


def cross_products(source: Source, parameters: Parameters, activation: Activation) -> Array:
    """`C`, (units, features + 1, rows of beta)."""
    return source.total(partial(_cross_term, parameters, activation))


def _cross_term(parameters: Parameters, activation: Activation, X: Array, y: Array) -> Array:
    at = Linearisation.of(parameters, activation, X)
    return np.array([(at.inputs[0] * s[:, None]).T @ at.features for s in at.slopes[0].T])


def unit_blocks(source: Source, parameters: Parameters, activation: Activation) -> Array:
    """Each unit's own block of `H`, (units, features + 1, features + 1), in single precision."""
    return source.total(partial(_blocks_term, parameters, activation))


def _blocks_term(parameters: Parameters, activation: Activation, X: Array, y: Array) -> Array:
    at = Linearisation.of(parameters, activation, X).astype(np.float32)
    inputs, squares = at.inputs[0], at.slopes[0] ** 2
    return np.array([(inputs * s[:, None]).T @ inputs for s in squares.T], float)


def covariance_of_exact(
    source: Source, network: Network, standardisation: Standardisation
) -> Covariance:
    """Of an answer that leaves nothing: a bound does, and is cheaper for many parameters.

    The matrix is asked, if it is not too large, where the bound leaves something open, where
    samples are few, and of smooth units: a loose bound would say that they are hardly known.
    """
    size = network.weights.size
    few = source.labels < BOUND_SAMPLES * network.free_parameters
    most = DENSE_LIMIT if few or network.activation.slope is None else BOUND_ABOVE
    if size > most:
        found = covariance_bound(source, network, standardisation)
        if size > DENSE_LIMIT or not found.rank_deficiency:
            return found
    return covariance(source, network, standardisation)


class Inverse(Protocol):
    """The covariance of all parameters, in the parts that are asked for."""

    def unit(self, i: int) -> Array:
        """Of a unit's weights, bias and output weights."""
        ...

    def linear(self, D: Array) -> Array:
        """Variances of `D beta` for the linear part, (rows, outputs)."""
        ...


@dataclass(frozen=True)
class ParameterCovariance:
    """The covariance of all parameters, theta and then beta by outputs, as one matrix."""

    matrix: Array
    parameters: Parameters

    def unit(self, i: int) -> Array:
        """Of a unit's weights, bias and output weights."""
        m, width = self.parameters.theta.shape
        rows, outputs = len(self.parameters.beta), len(self.parameters.output_weights)
        own = np.r_[i * width : (i + 1) * width, m * width + i + rows * np.arange(outputs)]
        return np.asarray(self.matrix[np.ix_(own, own)])

    def linear(self, D: Array) -> Array:
        """Variances of `D beta` for the linear part, (rows, outputs)."""
        first = self.parameters.theta.size + self.parameters.units
        parts = [own[first:] for own in columns_by_output(self.parameters)]
        return np.column_stack([np.diag(D @ self.matrix[np.ix_(own, own)] @ D.T) for own in parts])


def in_user_coordinates(
    inverse: Inverse,
    free: int,
    parameters: Parameters,
    standardisation: Standardisation,
    activation: Activation,
) -> Covariance:
    """Blocks of the inverse of H, moved to canonical parameters on the user's inputs."""
    m, width = parameters.theta.shape
    A = parameters.output_weights
    blocks = np.empty((m, width + len(A), width + len(A)))
    for i in range(m):
        D = to_canonical(parameters.theta[i], A[:, i], standardisation, activation.degree)
        blocks[i] = D @ inverse.unit(i) @ D.T
    linear = inverse.linear(linear_to_user(parameters, standardisation))
    linear = linear.reshape(-1, *parameters.beta.shape[1:])
    return Covariance(blocks, linear, parameters.beta.ndim == 1, free)


def linear_to_user(parameters: Parameters, standardisation: Standardisation) -> Array:
    """The linear part on the user's inputs as a matrix times that on standardised ones."""
    D = np.eye(len(parameters.linear))
    if parameters.has_linear:
        D[:-1, :-1] = standardisation.whiten.T
        D[-1, :-1] = -standardisation.whiten @ standardisation.mean
    return D


def _scale_directions(parameters: Parameters, scale: Array, activation: Activation) -> Array:
    """For each unit the unit null vector of the scaled S within its own block: its scale.

    A unit whose activation is not homogeneous has none: zeros.
    """
    if activation.degree is None:
        return np.zeros(parameters.theta.shape)
    null = parameters.theta * scale.reshape(parameters.theta.shape)
    return np.asarray(null / np.linalg.norm(null, axis=1, keepdims=True))


def _positive(scale: Array) -> Array:
    return np.where(scale > 0, scale, 1.0)


def _scale(matrix: Array, scale: Array) -> None:
    """Rows and columns multiplied in place, for the matrix may be large."""
    matrix *= scale
    matrix *= scale[:, None]


def _add_scale_projector(S: Array, null: Array) -> None:
    """Add outer products of the null directions of the scaled S, each of the rows of a unit.

    That makes S regular and changes its inverse along these directions only, which canonical
    parameters ignore.
    """
    width = null.shape[1]
    for i, direction in enumerate(null):
        own = slice(i * width, (i + 1) * width)
        S[own, own] += np.outer(direction, direction)


def _scaled_inverse(G: Array) -> tuple[Array, int]:
    """Inverse of a positive semidefinite matrix of any scales, and its rank deficiency."""
    scale = _positive(np.sqrt(np.diag(G)))
    inverse, deficiency = inverse_of_scaled(G / scale / scale[:, None])
    return inverse / scale / scale[:, None], deficiency


def inverse_of_scaled(H: Array) -> tuple[Array, int]:
    """Inverse of a scaled positive semidefinite matrix, and its rank deficiency."""
    if H.size == 0:
        return H, 0
    regular = _inverse_of_regular(H)
    if regular is not None:
        return regular, 0
    values, vectors = np.linalg.eigh(H)
    keep = values > SINGULAR * values[-1]
    root = vectors[:, keep] / np.sqrt(values[keep])
    return root @ root.T, int(np.sum(~keep))


def _inverse_of_regular(H: Array) -> Array | None:
    """The same, in one more matrix of its size; None if the rank is deficient."""
    norm = max(float(np.abs(row).sum()) for row in H)
    factor, failed = lapack.dpotrf(H.T, lower=True)  # the transpose, as LAPACK stores it
    if failed or lapack.dpocon(factor, norm, uplo="L")[0] <= SINGULAR:
        return None
    inverse = lapack.dpotri(factor, lower=True, overwrite_c=True)[0]
    for i in range(len(inverse)):
        inverse[i, i + 1 :] = inverse[i + 1 :, i]
    return np.asarray(inverse)


def to_canonical(
    theta: Array, a: Array, standardisation: Standardisation, degree: float | None
) -> Array:
    """Derivative of a unit's canonical (w, b, a) in the user's coordinates by its own (w, b, a)."""
    w, d, o = theta[:-1], len(theta) - 1, len(a)
    to_user = np.eye(d + 1 + o)
    to_user[:d, :d] = standardisation.whiten.T
    to_user[d, :d] = -standardisation.whiten @ standardisation.mean
    if degree is None:
        return to_user
    u = standardisation.whiten.T @ w
    b = theta[-1] - u @ standardisation.mean
    s = np.linalg.norm(u)
    direction = u / s
    D = np.zeros((d + 1 + o, d + 1 + o))
    D[:d, :d] = (np.eye(d) - np.outer(direction, direction)) / s
    D[d, :d] = -b * direction / s**2
    D[d, d] = 1 / s
    D[d + 1 :, :d] = degree * s ** (degree - 1) * np.outer(a, direction)
    D[d + 1 :, d + 1 :] = s**degree * np.eye(o)
    return D @ to_user
