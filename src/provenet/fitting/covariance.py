"""How well the samples determine the parameters: their covariance, standard errors, bounds.

At a least-squares or maximum likelihood network the estimate's covariance, for noise of size one,
is the inverse of the information

    M = sum_n J_n^T R_n^T R_n J_n,

J_n being the derivatives of the outputs by all parameters and R_n the root of the information of
the outputs themselves (`losses`; 1 for squares).

*Gauge directions* n change no value: a positively homogeneous unit may be scaled, softmax may add
one number to all outputs. With N orthonormal rows that span them where the diagonal of M is one,
`(M + N^T N)^-1` differs from the pseudo-inverse along N only. Canonical parameters fix a linear
function s of each, `s.n = 1` (the norm of a unit's weights, the mean of the outputs), so an error e
of the parameters is an error `e - (s.e) n` of the canonical ones (delta method, in the user's
coordinates). Any further null vector is a direction that the samples do not determine.

*Heteroscedastic noise* (White 1980) gives the covariance `M^-1 (sum_n g_n g_n^T) M^-1`, g_n being
the gradient of sample n.

*Many parameters.* A matrix of p parameters and its inverse take 16 p^2 bytes and some p^3
operations. One hidden layer can do with a bound: with S the information of the units, the output
layer eliminated, and D^2 the diagonal of M, `S^-1 <= D^-2 / lambda`, where lambda is the smallest
eigenvalue of `D^-1 S D^-1` off the gauge directions. It takes some tens of products with S.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.sparse.linalg import LinearOperator, lobpcg

from provenet.common.typing import EPS, TINY, AnyArray, Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation
from provenet.fitting.least_squares import Products, Samples, fisher_information
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import Activation
from provenet.networks.network import Network

# ---------------------------------------------------------------- errors, in shapes of parameters


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
        parts: list[Any] = [getattr(network, field.name) for field in fields(cls)]
        zeros: list[Any] = [None if part is None else np.zeros_like(part) for part in parts]
        return cls(*zeros)

    def scaled(self, outputs: Array | float, units: float = 1.0) -> StandardErrors:
        """The errors multiplied by numbers: those of each output, and those of the units."""
        return StandardErrors(
            self.weights * units,
            self.biases * units,
            (self.output_weights.T * outputs).T,
            self.output_bias * outputs,
            None if self.linear is None else (self.linear.T * outputs).T,
        )


@dataclass(frozen=True)
class DeepErrors:
    """Standard errors of a canonical deep network's parameters, in the shapes of its own."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

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
class Covariance:
    """Of canonical parameters, in the user's coordinates, for noise of size one."""

    variances: Parameters
    """Stored as parameters."""
    units: Array
    """For each unit of the highest layer: covariance of its weights, bias and output weights."""
    rank_deficiency: int
    """Number of directions, besides gauge directions, that the samples do not determine."""
    shared: Array
    """How far an error of size one moves the parameters, flat, that all labels share where the
    highest of several layers is inactive: there the network is constant, and so is rounding."""
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
        """Of any number of layers, for independent noise and for an error that labels share."""
        flat = np.hypot(noise * np.sqrt(self.variances.ravel()), shared * self.shared)
        errors = self.variances.unravel(flat)
        matrices = (*errors.layers, errors.columns.T)
        return DeepErrors(tuple(m[:, :-1] for m in matrices), tuple(m[:, -1] for m in matrices))

    def times(self, factor: float) -> Covariance:
        """Multiplied by a number, such as the share of all samples that gave it."""
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
    heteroscedastic: bool = False,
    largest: int = 3000,
) -> Covariance:
    """At a network on standardised inputs, or on the user's where there is no standardisation.

    For noise of size one; if `heteroscedastic`, for noise as large as the residuals. A singular
    matrix of one hidden layer with more than `largest` weights, whose eigenvectors would take
    minutes, is replaced by a bound.
    """
    activation, parameters = network.activation, Parameters.of(network)
    large = parameters.theta.size > largest and not parameters.lower
    found = invert_information(
        _information(source, parameters, activation, loss),
        gauge_directions(parameters, activation, loss.link),
        np.inf if not large else 0,
    )
    if found is None:
        bound = covariance_bound(source, network, standardisation)
        return replace(bound, rank_deficiency=max(bound.rank_deficiency, 1))
    inverse, free = found
    if heteroscedastic:
        rows = int(np.clip(4e6 / (8 * len(inverse)), 128, 512))  # a processor's cache
        scores = source.total(partial(_scores_term, parameters, activation), rows)
        scores *= source.labels / max(source.labels - len(inverse), 1)
        inverse = inverse @ scores @ inverse
    shown = in_user_coordinates(inverse, parameters, activation, standardisation, loss.link)
    off = (
        source.total(partial(_inactive_samples, parameters, activation)) if parameters.lower else 0
    )
    return replace(shown, rank_deficiency=free, shared=off * shown.shared)


def _information(
    source: Source, parameters: Parameters, activation: Activation, loss: Loss
) -> Array:
    """M. Of squares and one layer the derivatives of output q are those of the units times A_q."""
    if loss is not SQUARES or parameters.lower:
        return fisher_information(source, parameters, activation, loss)
    A, t, (m, width) = parameters.output_weights, parameters.nonlinear, parameters.theta.shape
    K = fisher_information(source, parameters, activation, loss, np.ones((1, m)))
    M = np.zeros(2 * (len(parameters.ravel()),))
    by_unit = K[:t, :t].reshape(m, width, m, width) * (A.T @ A)[:, None, :, None]
    M[:t, :t] = by_unit.reshape(t, t)
    for q, own in enumerate(_places(parameters)[1].T):
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


def _inactive_samples(parameters: Parameters, activation: Activation, X: Array, y: Array) -> int:
    """The number of samples on which the highest layer is off."""
    at = Linearisation.of(parameters, activation, X)
    return int(np.sum(~np.any(at.top, axis=1)))


def invert_information(M: Array, gauge: Array, largest: float = np.inf) -> tuple[Array, int] | None:
    """The inverse with gauge directions (rows) added, and the number of further null directions.

    M is overwritten. If there are any, the pseudo-inverse; None if M has more than `largest` rows.
    """
    scale = _positive(np.sqrt(np.diag(M)))
    M /= scale
    M /= scale[:, None]
    N = np.linalg.qr((gauge * scale).T)[0]
    M += N @ N.T
    inverse, free = _inverse_of_regular(M), 0
    if inverse is None and len(M) > largest:
        return None
    if inverse is None:
        inverse, free = _pseudo_inverse(M)
    inverse /= scale
    inverse /= scale[:, None]
    return inverse, free


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


def _positive(scale: Array) -> Array:
    return np.where(scale > 0, scale, 1.0)


# ---------------------------------------------------------------- canonical parameters


def _places(parameters: Parameters) -> tuple[list[AnyArray], AnyArray]:
    """Indices of all parameters in one vector: of each layer, and of beta (rows, outputs)."""
    flat, t = np.arange(len(parameters.ravel())), parameters.nonlinear
    ends = np.cumsum([layer.size for layer in parameters.layers])
    pairs = zip(np.split(flat[:t], ends[:-1]), parameters.layers, strict=True)
    layers = [own.reshape(layer.shape) for own, layer in pairs]
    return layers, flat[t:].reshape(-1, len(parameters.beta)).T


def _gauges(parameters: Parameters, activation: Activation, link: str) -> list[tuple[Array, Array]]:
    """Gauge directions n and functions s that fix them, one a row: of each layer, and of softmax.

    A layer's come after those of the layers below, which move it.
    """
    flat, found = parameters.ravel(), list[tuple[Array, Array]]()
    layers, columns = _places(parameters)
    if activation.degree is not None:
        fed = [*(above[:, :-1].T for above in layers[1:]), columns[: parameters.units]]
        for own, on in zip(layers, fed, strict=True):
            unit, (N, S) = np.arange(len(own))[:, None], np.zeros((2, len(own), len(flat)))
            N[unit, own], N[unit, on] = flat[own], -activation.degree * flat[on]
            S[unit, own[:, :-1]] = flat[own[:, :-1]]
            found.append((N, S))
    if link == "softmax":
        N = np.zeros((len(columns), len(flat)))
        N[np.arange(len(N))[:, None], columns] = 1
        found.append((N, N / columns.shape[1]))
    return found


def gauge_directions(
    parameters: Parameters, activation: Activation, link: str = "identity"
) -> Array:
    """Changes of all parameters, one a row, that change no value of the network."""
    found = [N for N, _ in _gauges(parameters, activation, link)]
    return np.vstack([np.empty((0, len(parameters.ravel()))), *found])


def in_user_coordinates(
    matrix: Array,
    parameters: Parameters,
    activation: Activation,
    standardisation: Standardisation | None = None,
    link: str = "identity",
) -> Covariance:
    """The covariance of all parameters as that of the canonical ones; the matrix is overwritten.

    The derivative of canonical parameters is a product of three: weights and biases that act on
    standardised inputs become those that act on the user's, parameters are divided by the norms of
    units, and gauge directions are taken out.
    """
    user, (layers, columns) = parameters, _places(parameters)
    d, m = layers[0].shape[1] - 1, user.units
    moved = [*layers[0], *(columns[m:].T if user.has_linear else ())]
    T = np.eye(d + 1)
    if standardisation is not None:
        T[:d, :d] = standardisation.whiten.T
        T[d, :d] = -standardisation.whiten @ standardisation.mean
        flat = user.ravel()
        for own in moved:
            flat[own] = T @ flat[own]
        user = user.unravel(flat)
    by, shown = _normalising_factors(user, activation.degree), user.normalised(activation)
    for C in (matrix, matrix.T):
        for own in moved:
            C[own] = T @ C[own]
        C *= by[:, None]
        for N, S in _gauges(shown, activation, link):
            C -= N.T @ (S @ C)
    units = np.hstack([layers[-1], columns[:m]])
    return Covariance(
        user.unravel(np.maximum(np.diag(matrix), 0.0)),
        matrix[units[:, :, None], units[:, None]],
        0,
        np.linalg.norm(matrix[:, columns[-1]], axis=1),
    )


def _normalising_factors(user: Parameters, degree: float | None) -> Array:
    """What multiplies each parameter where weights of homogeneous units get norm 1."""
    if degree is None:
        return np.ones(len(user.ravel()))
    factors, incoming = list[Array](), np.ones(user.layers[0].shape[1] - 1)
    for layer in user.layers:
        norm = _positive(np.linalg.norm(layer[:, :-1] * incoming, axis=1))
        factors.append((np.append(incoming, 1.0) / norm[:, None]).ravel())
        incoming = norm**degree
    beta = np.append(incoming, np.ones(len(user.beta) - user.units))
    return np.concatenate([*factors, np.tile(beta, len(user.output_weights))])


# ---------------------------------------------------------------- a bound for many parameters


def covariance_of_exact(
    source: Source, network: Network, standardisation: Standardisation, largest: int = 3000
) -> Covariance:
    """Of an exact answer: a bound is enough, and faster from 500 weights on.

    Not with few samples, where any combination of units may be undetermined, nor for smooth units,
    for which the bound is too loose. If it finds undetermined directions the matrix decides, unless
    it is too large.
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

    An eigenvalue below `zero` counts as zero. The bound on the output layer follows from that on
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
    own = sums.blocks - follow @ sums.cross.transpose(0, 2, 1)
    own *= np.sum(A**2, axis=0)[:, None, None]
    smallest = _smallest_eigenvalue(curvature, scale, null, own, zero)
    theta = 1 / (max(smallest, zero) * scale**2).reshape(shape)
    beta = np.diag(gram)[:, None] + np.einsum("mwr,mw,qm->rq", follow**2, theta, A**2)
    found, tail = [], np.arange(parameters.units, len(beta))
    for i in range(parameters.units):  # the bound does not couple units
        rows = np.append(i, tail)
        one = Parameters(parameters.theta[i : i + 1], parameters.beta[rows])
        bound = np.diag(2 * np.append(theta[i], beta[rows].T))
        found.append(in_user_coordinates(bound, one, activation, standardisation))
    variances = Parameters(
        np.vstack([unit.variances.theta for unit in found]),
        np.concatenate([*(unit.variances.beta[:1] for unit in found), found[-1].variances.linear]),
    )
    blocks, free = np.concatenate([unit.units for unit in found]), int(smallest <= zero)
    return Covariance(variances, blocks, free + dependent, found[-1].shared, True)


def _smallest_eigenvalue(
    curvature: Products, scale: Array, null: Array, blocks: Array, zero: float
) -> float:
    """Of `D^-1 S D^-1` off its gauge directions, to a digit; 0 if it is at most `zero`.

    By LOBPCG (Knyazev 2001), a few products at a time, until these lower it by less than 1%. The
    preconditioner misses units with few samples on one side: most of their directions are
    determined well, and some not at all. So the start combines the least determined directions of
    each unit by itself, from its own block of S.
    """
    shape, precondition = null.shape, curvature.preconditioner(1e-3)

    def image(v: Array) -> Array:
        own = null * np.einsum("mw,mw->m", null, v.reshape(shape))[:, None]
        return np.asarray(curvature.product(v.ravel() / scale) / scale + own.ravel())

    def inverse(v: Array) -> Array:
        return scale * precondition(scale * v.ravel())

    D = scale.reshape(shape)
    own = blocks / D[:, :, None] / D[:, None, :] + null[:, :, None] * null[:, None, :]
    values, vectors = np.linalg.eigh(own)
    weights = np.random.default_rng(0).standard_normal(shape) / np.maximum(values, zero)
    x = np.einsum("mwk,mk->mw", vectors, weights).reshape(-1, 1)
    A, M = (LinearOperator((len(x), len(x)), f, dtype=float) for f in (image, inverse))
    lowest = np.inf
    for _ in range(50):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a few products need not be enough
            values, x = lobpcg(A, x, M=M, maxiter=6, largest=False)
        before, lowest = lowest, float(values[0])
        if lowest <= zero or before - lowest <= 0.01 * lowest:
            break
    return lowest
