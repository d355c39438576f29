"""How well the samples determine the parameters: their covariance, standard errors, bounds.

At a least-squares or most likely network the estimate's covariance, for noise of size one, is the
inverse of the information

    M = sum_n J_n^T R_n^T R_n J_n,

J_n being the derivatives of the outputs by all parameters and R_n the root of the information of
the outputs themselves (`losses`; 1 for squares). Some directions N change no value: a positively
homogeneous unit may be scaled, softmax may add one number to all outputs. With N orthonormal where
the diagonal of M is one, `(M + N N^T)^-1` differs from the pseudo-inverse along N only. Canonical
parameters, which have weights of norm 1, do not see that, and neither do the errors given here
(delta method, in the user's coordinates). Any further null vector is a direction that the samples
do not determine.

*Noise of any sizes* (White 1980) has covariance `M^-1 (sum_n g_n g_n^T) M^-1`, g_n being the
gradient of sample n.

*Many parameters.* A matrix of p parameters and its inverse take 16 p^2 bytes and some p^3
operations. One hidden layer can do with a bound: with S the information of the units, the output
layer eliminated, and D^2 the diagonal of M, `S^-1 <= D^-2 / lambda`, where lambda is the smallest
eigenvalue of `D^-1 S D^-1`, the null directions apart. It takes some tens of products with S.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, eigh, lapack

from provenet.common.typing import EPS, TINY, Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation
from provenet.fitting.least_squares import Products, Samples, fisher_information
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import Activation
from provenet.networks.network import Network


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
        linear = None if network.linear is None else np.zeros_like(network.linear)
        names = ("weights", "biases", "output_weights", "output_bias")
        zeros: dict[str, Any] = {name: np.zeros_like(getattr(network, name)) for name in names}
        return cls(**zeros, linear=linear)

    def times(self, factor: float) -> StandardErrors:
        """All errors multiplied by a number."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: part * factor for k, part in parts.items() if part is not None})

    def scaled(self, scale: Array) -> StandardErrors:
        """The errors when each output is multiplied by a number."""
        return replace(
            self,
            output_weights=(self.output_weights.T * scale).T,
            output_bias=self.output_bias * scale,
            linear=None if self.linear is None else (self.linear.T * scale).T,
        )


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

    @property
    def largest(self) -> float:
        """The largest error of a unit's weights and bias together."""
        return float(self.of_rows.max(initial=0.0))

    @property
    def of_rows(self) -> Array:
        """Of every unit's weights and bias together, layer after layer, then of the outputs."""
        pairs = zip(self.weights, self.biases, strict=True)
        return np.concatenate([np.sqrt(np.sum(W**2, axis=1) + b**2) for W, b in pairs])

    @classmethod
    def of(cls, parameters: Parameters) -> DeepErrors:
        """Errors in the place of parameters."""
        matrices = (*parameters.layers, np.atleast_2d(parameters.beta.T))
        return cls(tuple(m[:, :-1] for m in matrices), tuple(m[:, -1] for m in matrices))


@dataclass(frozen=True)
class Covariance:
    """Of canonical parameters, in the user's coordinates, for noise of size one."""

    variances: Parameters
    """In the place of the parameters."""
    units: Array
    """For each unit of the highest layer the covariance of its weights, bias, output weights."""
    rank_deficiency: int
    """How many directions, other than those that change no value, the samples do not determine."""
    shared: Array
    """How far an error of size one moves the parameters, flat, that all labels share where the
    highest of several layers is off: there the network is constant, and rounding is alike."""
    bounds: bool = False
    """Whether these are upper bounds."""

    def standard_errors(self, noise: float) -> StandardErrors:
        """Of one hidden layer, for noise of the given size."""
        m, beta = self.variances.units, noise * np.sqrt(self.variances.beta)
        theta = noise * np.sqrt(self.variances.theta)
        return StandardErrors(
            theta[:, :-1],
            theta[:, -1],
            beta[:m].T,
            float(beta[-1]) if beta.ndim == 1 else beta[-1],
            beta[m:-1].T if self.variances.has_linear else None,
        )

    def deep_errors(self, noise: float, shared: float = 0.0) -> DeepErrors:
        """Of any number of layers, for noise and for an error that labels share."""
        flat = np.hypot(noise * np.sqrt(self.variances.ravel()), shared * self.shared)
        return DeepErrors.of(self.variances.unravel(flat))

    def times(self, factor: float) -> Covariance:
        """Multiplied by a number, as a share of the samples tells of that of all."""
        variances = self.variances.unravel(factor * self.variances.ravel())
        return replace(self, variances=variances, units=factor * self.units)

    def error_bound(self, network: Network, residual_norm: float) -> float:
        """Largest error of a unit that a residual of this norm allows, to first order.

        Of the weights relative to their norm, 1 where it is a convention, of the bias relative to
        that and `|b|`, of the output weights relative to their size.
        """
        if network.units == 0:
            return 0.0
        norm, d = np.linalg.norm(network.weights, axis=1)[:, None], network.features
        bias = norm + np.abs(network.biases)[:, None]
        size = np.linalg.norm(np.atleast_2d(network.output_weights), axis=0)[:, None]
        outputs = self.units.shape[1] - d - 1
        scale = 1 / np.maximum(np.hstack([norm] * d + [bias] + [size] * outputs), TINY)
        largest = np.linalg.eigvalsh(self.units * scale[:, :, None] * scale[:, None, :])[:, -1]
        return float(residual_norm * np.sqrt(max(largest.max(), 0.0)))


# ---------------------------------------------------------------- the matrix


def covariance(
    source: Source,
    network: Network,
    standardisation: Standardisation | None = None,
    *,
    loss: Loss = SQUARES,
    uneven: bool = False,
    largest: int = 3000,
) -> Covariance:
    """At a network on standardised inputs, or on the user's where there is no standardisation.

    With `uneven` noise, which is that of the residuals, errors are for noise of size one. Where
    rank is deficient eigenvectors count it; of more than `largest` weights of one hidden layer, for
    which they would take minutes, there is a bound.
    """
    activation = network.activation
    parameters = Parameters.of(network)
    by_unit = loss is SQUARES and not parameters.lower  # the same for all outputs
    weights = np.ones((1, parameters.units)) if by_unit else None
    M = fisher_information(source, parameters, activation, loss, weights)
    M = _with_output_weights(M, parameters) if by_unit else M
    scale = _positive(np.sqrt(np.diag(M)))
    M /= scale
    M /= scale[:, None]
    N = np.linalg.qr((null_directions(parameters, activation, loss.link) * scale).T)[0]
    M += N @ N.T
    inverse, free = _inverse_of_regular(M), 0
    if inverse is None and parameters.theta.size > largest and not parameters.lower:
        bound = covariance_bound(source, network, standardisation)
        return replace(bound, rank_deficiency=max(bound.rank_deficiency, 1))
    if inverse is None:
        inverse, free = _pseudo_inverse(M)
    inverse /= scale
    inverse /= scale[:, None]
    if uneven:
        spread = source.total(partial(_scores_term, parameters, activation), _rows(len(M)))
        spread *= source.labels / max(source.labels - len(M), 1)
        inverse = inverse @ spread @ inverse
    found = in_user_coordinates(inverse, parameters, activation, standardisation, loss.link)
    off = source.total(partial(_samples_off, parameters, activation)) if parameters.lower else 0
    return replace(found, rank_deficiency=free, shared=off * found.shared)


def _rows(p: int) -> int:
    """Samples whose derivatives by p parameters fill a processor's cache."""
    return int(np.clip(4e6 / (8 * p), 128, 512))


def _with_output_weights(K: Array, parameters: Parameters) -> Array:
    """M of one hidden layer: the derivatives of output q are those of the units times A_q."""
    A, t, (m, width) = parameters.output_weights, parameters.nonlinear, parameters.theta.shape
    M = np.zeros(2 * (len(parameters.ravel()),))
    by_unit = K[:t, :t].reshape(m, width, m, width) * (A.T @ A)[:, None, :, None]
    M[:t, :t] = by_unit.reshape(t, t)
    for q, own in enumerate(np.arange(t, len(M)).reshape(len(A), -1)):
        M[:t, own] = K[:t, t:] * np.repeat(A[q], width)[:, None]
        M[own, :t] = M[:t, own].T
        M[np.ix_(own, own)] = K[t:, t:]
    return M


def _scores_term(parameters: Parameters, activation: Activation, X: Array, y: Array) -> Array:
    """Outer products of the samples' gradients."""
    at = Linearisation.of(parameters, activation, X)
    r, scores = at.values - y.reshape(at.values.shape), np.zeros((len(X), len(parameters.ravel())))
    for q, (J, own) in enumerate(at.jacobians()):
        scores[:, own] += J * r[:, q, None]
    return np.asarray(scores.T @ scores)


def _samples_off(parameters: Parameters, activation: Activation, X: Array, y: Array) -> int:
    """On how many samples the highest layer is off."""
    at = Linearisation.of(parameters, activation, X)
    return int(np.sum(~np.any(at.top, axis=1)))


def _outgoing(parameters: Parameters) -> list[list[slice]]:
    """For every hidden unit, layer by layer, which of all parameters its values are fed to."""
    found, first = list[list[slice]](), 0
    for layer in parameters.layers:
        first += layer.size
        above = len(layer) == parameters.units and layer is parameters.theta
        step = len(parameters.beta) if above else len(layer) + 1
        end = None if above else first + step * len(parameters.layers[len(found) + 1])
        found.append([slice(first + i, end, step) for i in range(len(layer))])
    return found


def null_directions(
    parameters: Parameters, activation: Activation, link: str = "identity"
) -> Array:
    """One a row: scales of homogeneous units, and what softmax adds to all outputs alike."""
    flat, found, first = parameters.ravel(), list[Array](), 0
    for layer, outgoing in zip(parameters.layers, _outgoing(parameters), strict=True):
        for fed in outgoing if activation.degree is not None else []:
            own = slice(first, first + layer.shape[1])
            direction = np.zeros(len(flat))
            direction[own], direction[fed] = flat[own], -(activation.degree or 0) * flat[fed]
            found.append(direction)
            first += layer.shape[1]
    if link == "softmax":
        rows, outputs = len(parameters.beta), len(parameters.output_weights)
        alike = np.zeros((rows, len(flat)))
        alike[:, parameters.nonlinear :] = np.tile(np.eye(rows), outputs)
        found += list(alike)
    return np.array(found).reshape(-1, len(flat))


def _positive(scale: Array) -> Array:
    return np.where(scale > 0, scale, 1.0)


def _inverse_of_regular(H: Array) -> Array | None:
    """Of a scaled positive definite matrix, in one more of its size; None if it is singular."""
    if not H.size:
        return H
    norm = max(float(np.abs(row).sum()) for row in H)
    factor, failed = lapack.dpotrf(H.T, lower=True)  # the transpose, as LAPACK stores it
    if failed or lapack.dpocon(factor, norm, uplo="L")[0] <= _rounding(H):
        return None
    inverse = lapack.dpotri(factor, lower=True, overwrite_c=True)[0]
    for i in range(len(inverse)):
        inverse[i, i + 1 :] = inverse[i + 1 :, i]
    return np.asarray(inverse)


def _pseudo_inverse(H: Array) -> tuple[Array, int]:
    """Of a scaled positive semidefinite matrix, and its rank deficiency."""
    values, vectors = np.linalg.eigh(H)
    keep = values > _rounding(H) * values[-1]
    root = vectors[:, keep] / np.sqrt(values[keep])
    return root @ root.T, int(np.sum(~keep))


def _rounding(H: Array) -> float:
    """Eigenvalues of a sum of products that are rounding, over the largest."""
    return 4 * EPS * len(H)


# ---------------------------------------------------------------- canonical parameters


def in_user_coordinates(
    matrix: Array,
    parameters: Parameters,
    activation: Activation,
    standardisation: Standardisation | None = None,
    link: str = "identity",
) -> Covariance:
    """The covariance of all parameters as that of the canonical ones; the matrix is overwritten.

    First the weights and biases that act on standardised inputs are those that act on the user's.
    Then the parameters are divided by the norms that canonical ones have not, and a change of a
    unit's norm moves on to what its value is fed to.
    """
    user, degree = parameters, activation.degree
    d = parameters.layers[0].shape[1] - 1
    T = np.eye(d + 1)
    if standardisation is not None:
        T[:d, :d] = standardisation.whiten.T
        T[d, :d] = -standardisation.whiten @ standardisation.mean
        beta = user.beta.copy()
        if user.has_linear:
            beta[user.units :] = T @ user.linear
        user = replace(user.with_layers((user.layers[0] @ T.T, *user.layers[1:])), beta=beta)
    by = _factors(user, degree)
    shown = user.unravel(by * user.ravel())
    moved = [slice(i, i + d + 1) for i in range(0, user.layers[0].size, d + 1)]
    rows, outputs = len(user.beta), len(user.output_weights)
    if user.has_linear:
        starts = [user.nonlinear + user.units + rows * q for q in range(outputs)]
        moved += [slice(i, i + d + 1) for i in starts]
    for C in (matrix, matrix.T):
        for own in moved:
            C[own] = T @ C[own]
        C *= by[:, None]
        if degree is not None:
            _keep_norms(C, shown, degree)
        if link == "softmax":
            beta = C[user.nonlinear :].reshape(outputs, rows, -1)
            C[user.nonlinear :] = (beta - beta.mean(axis=0)).reshape(-1, len(C))
    (m, width), first = user.theta.shape, user.nonlinear - user.theta.size
    units = np.empty((m, width + outputs, width + outputs))
    for i in range(m):
        start = first + i * width
        own = np.r_[start : start + width, user.nonlinear + i + rows * np.arange(outputs)]
        units[i] = matrix[np.ix_(own, own)]
    constants = matrix[:, user.nonlinear + rows * np.arange(1, outputs + 1) - 1]
    variances = user.unravel(np.maximum(np.diag(matrix), 0.0))
    return Covariance(variances, units, 0, np.linalg.norm(constants, axis=1))


def _factors(user: Parameters, degree: float | None) -> Array:
    """What parameters are multiplied by so that weights of homogeneous units have norm 1."""
    factors = user.unravel(np.ones(len(user.ravel())))
    if degree is None:
        return factors.ravel()
    layers, beta = list(factors.layers), factors.beta
    for k, layer in enumerate(user.layers):
        norm = _positive(np.linalg.norm((layer * layers[k])[:, :-1], axis=1))
        layers[k] = layers[k] / norm[:, None]
        if layer is user.theta:
            beta[: user.units] = (beta[: user.units].T * norm**degree).T
        else:
            layers[k + 1][:, :-1] *= norm**degree
    return replace(factors.with_layers(tuple(layers)), beta=beta).ravel()


def _keep_norms(C: Array, shown: Parameters, degree: float) -> None:
    """Rows of C: what changes a unit's norm changes what its value is fed to, instead."""
    flat, first = shown.ravel(), 0
    for layer, outgoing in zip(shown.layers, _outgoing(shown), strict=True):
        for fed in outgoing:
            own = slice(first, first + layer.shape[1])
            stretch = flat[own][:-1] @ C[own][:-1]
            C[own] -= np.outer(flat[own], stretch)
            C[fed] += degree * np.outer(flat[fed], stretch)
            first += layer.shape[1]


# ---------------------------------------------------------------- a bound for many parameters


def covariance_of_exact(
    source: Source, network: Network, standardisation: Standardisation, largest: int = 3000
) -> Covariance:
    """Of an answer that leaves nothing: a bound does, and is faster from 500 weights on.

    Not with few samples, where any combination of units may be open, nor of smooth units, of which
    a loose bound would say that they are hardly known. Where it leaves something open the matrix
    decides, if it is not too large.
    """
    few = source.labels < 3 * network.free_parameters
    size = network.weights.size
    if size > (largest if few or network.activation.slope is None else 500):
        found = covariance_bound(source, network, standardisation)
        if size > largest or not found.rank_deficiency:
            return found
    return covariance(source, network, standardisation)


@dataclass(frozen=True)
class _BoundSums(Sums):
    """`Phi^T Phi`, `D^T Phi` and each unit's own block of `D^T D`."""

    gram: Array
    cross: Array
    blocks: Array


def _bound_term(parameters: Parameters, activation: Activation, X: Array, y: Array) -> _BoundSums:
    at = Linearisation.of(parameters, activation, X)
    D = [slope[:, None] * at.inputs[0] for slope in at.slopes[0].T]
    phi = at.features
    return _BoundSums(phi.T @ phi, np.array([d.T @ phi for d in D]), np.array([d.T @ d for d in D]))


def covariance_bound(
    source: Source,
    network: Network,
    standardisation: Standardisation | None,
    zero: float = 5e-5,
) -> Covariance:
    """An upper bound for one hidden layer of many units, without a p x p matrix.

    An eigenvalue below `zero` counts as none. The bound on the output layer follows from that on
    the units; twice the two bounds is one on both together.
    """
    parameters, activation = Parameters.of(network), network.activation
    point = Samples.of(source, parameters, activation).linearised(parameters)
    curvature = Products(point, np.zeros(parameters.nonlinear), None, single=True)
    sums = source.total(partial(_bound_term, parameters, activation))
    root = _positive(np.sqrt(np.diag(sums.gram)))
    gram, dependent = _pseudo_inverse(sums.gram / root / root[:, None])
    gram = gram / root / root[:, None]
    A, shape, scale = parameters.output_weights, parameters.theta.shape, np.sqrt(curvature.D)
    null = parameters.theta * scale.reshape(shape) * float(activation.degree is not None)
    null /= _positive(np.linalg.norm(null, axis=1, keepdims=True))
    follow = sums.cross @ gram
    own = (sums.blocks - follow @ sums.cross.transpose(0, 2, 1)) * np.sum(A**2, axis=0)[
        :, None, None
    ]
    smallest = _smallest_eigenvalue(curvature, scale, null, own, zero)
    theta = 1 / (max(smallest, zero) * scale**2).reshape(shape)
    beta = np.diag(gram)[:, None] + np.einsum("mwr,mw,qm->rq", follow**2, theta, A**2)
    units, tail = [], np.arange(parameters.units, len(beta))
    for i in range(parameters.units):  # units do not meet in the bound
        rows = np.append(i, tail)
        one = Parameters(parameters.theta[i : i + 1], parameters.beta[rows])
        bound = np.diag(2 * np.append(theta[i], beta[rows].T))
        units.append(in_user_coordinates(bound, one, activation, standardisation))
    last = units[-1].variances
    variances = Parameters(
        np.vstack([unit.variances.theta for unit in units]),
        np.concatenate([*(unit.variances.beta[:1] for unit in units), last.beta[1:]]),
    )
    blocks = np.concatenate([unit.units for unit in units])
    return Covariance(variances, blocks, int(smallest <= zero) + dependent, units[-1].shared, True)


def _smallest_eigenvalue(
    curvature: Products,
    scale: Array,
    null: Array,
    blocks: Array,
    zero: float,
    products: int = 300,
) -> float:
    """Of `D^-1 S D^-1`, its null directions apart, to a digit; 0 where it is at most `zero`.

    Rayleigh's quotient is lowered in the span of a vector, its preconditioned residual and the last
    move (LOBPCG, Knyazev 2001), until three products in a row take off less than 0.3% each. What
    the preconditioner is not close to is a unit of which one side has few samples: most of its
    directions are determined well, and some not at all. So the start is made of what is least
    determined of each unit by itself, by its own block of S.
    """
    shape, precondition = null.shape, curvature.preconditioner(1e-3)

    def image(v: Array) -> Array:
        own = null * np.einsum("mw,mw->m", null, v.reshape(shape))[:, None]
        return np.asarray(curvature.product(v / scale) / scale + own.ravel())

    D = scale.reshape(shape)
    own = blocks / D[:, :, None] / D[:, None, :] + null[:, :, None] * null[:, None, :]
    values, vectors = np.linalg.eigh(own)
    weights = np.random.default_rng(0).standard_normal(shape) / np.maximum(values, zero)
    x = np.einsum("mwk,mk->mw", vectors, weights).ravel()
    V = (x / np.linalg.norm(x))[:, None]
    AV = image(V[:, 0])[:, None]
    lowest, still = float(V[:, 0] @ AV[:, 0]), 0
    for _ in range(products):
        if lowest <= zero or still == 3:
            return max(lowest, 0.0)
        residual = scale * precondition(scale * (AV[:, 0] - lowest * V[:, 0]))
        new = residual / max(float(np.linalg.norm(residual)), TINY)
        V, AV = np.column_stack([V, new]), np.column_stack([AV, image(new)])
        try:
            values, vectors = eigh(V.T @ AV, V.T @ V, subset_by_index=[0, 0])
        except LinAlgError:  # the last move is as good as parallel to the rest
            V, AV = V[:, [0, -1]], AV[:, [0, -1]]
            values, vectors = eigh(V.T @ AV, V.T @ V, subset_by_index=[0, 0])
        c = vectors[:, 0]
        both = np.column_stack([c, np.append(0.0, c[1:])])  # the vector, and the move to it
        both /= np.linalg.norm(V @ both, axis=0)
        V, AV = V @ both, AV @ both
        before, lowest = lowest, float(values[0])
        still = still + 1 if before - lowest <= 3e-3 * before else 0
    return 0.0
