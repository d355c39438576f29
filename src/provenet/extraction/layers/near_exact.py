"""Gauss-Newton steps for a deep network that is nearly right, and the covariance of its parameters.

So near to the answer the Jacobian D hardly changes: it is formed once, a block of samples at a time
(anew where the steps end far above the noise), and with weights Omega of the samples

    H = Z^T (D^T Omega^2 D + sigma^2 / e^2) Z,      theta <- theta - Z H^-1 Z^T g.

The gradient g is exact at every step: what H lacks in precision costs a step, not accuracy, so that
of a large network it may be formed in single precision. The second term keeps what the samples do
not determine where it was measured before, to e. Columns of Z are the changes that keep the norm of
every hidden unit's weights, for that norm is a convention. `sigma^2 Z H^-1 Z^T` is the covariance.

H and its inverse share one square, 8 p^2 bytes for p parameters (4 in single precision): H stands
in the lower half, R = T^-1 in the upper half, where `S H S = T^T T`, S makes the diagonal one, and
`H^-1 = S R R^T S`. Both diagonals are kept apart.

The Cholesky factor needs a ridge of some roundings. What that lets H say of a direction which no
sample determines is wrong; there the second term alone gives the variance. A few more rows D in H
turn the covariance C into `C - U^T U`, `U = (1 + Lambda)^-1/2 V^T D C`, `D C D^T = V Lambda V^T`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from provenet.common.typing import TINY, AnyArray, Array, row_blocks
from provenet.fitting.covariance import DeepErrors
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.network import DeepNetwork

_BLOCK = 256  # rows at a time: with half as many matrix products are a sixth slower


@dataclass(frozen=True)
class WeightedSamples:
    """Measurements of a piecewise linear network, and a weight for each.

    Near x the network is linear in (x, 1). A value is this linear function of (x, 1), a slope along
    v is that of (v, 0): `of` says which was measured.
    """

    X: Array
    Y: Array
    """(n, outputs)."""
    weights: Array
    of: Array
    """(n, features + 1)."""

    @classmethod
    def values(cls, X: Array, Y: Array, weights: Array) -> WeightedSamples:
        """Of the network itself."""
        return cls(X, Y, weights, np.column_stack([X, np.ones(len(X))]))

    def __add__(self, more: WeightedSamples) -> WeightedSamples:
        """These and more of them."""
        pairs = ((getattr(self, f.name), getattr(more, f.name)) for f in fields(self))
        return WeightedSamples(*map(np.concatenate, pairs))

    def __getitem__(self, rows: slice) -> WeightedSamples:
        """Some of them."""
        return WeightedSamples(*(getattr(self, f.name)[rows] for f in fields(self)))

    def linearised(self, network: DeepNetwork) -> Linearisation:
        """At the inputs, but with what each layer passes on of the measured vectors."""
        parameters, h = Parameters.of(network), self.X
        passed, arguments = [self.of], list[Array]()
        for theta in parameters.layers:
            arguments.append(h @ theta[:, :-1].T + theta[:, -1])
            h, slope = (
                network.activation(arguments[-1]),
                network.activation.derivative(arguments[-1]),
            )
            passed.append(np.column_stack([slope * (passed[-1] @ theta.T), self.of[:, -1]]))
        *inputs, top = passed
        return Linearisation(
            parameters,
            network.activation,
            tuple(inputs),
            tuple(arguments),
            top[:, :-1],
            top[:, -1:],
        )

    def residuals(self, at: Linearisation) -> Array:
        """Of a linearised network, weighted, (n, outputs)."""
        return np.asarray(self.weights[:, None] * (at.values - self.Y))

    def gradient(self, network: DeepNetwork) -> tuple[Array, float]:
        """`D^T Omega r` of the weighted residuals r, and their sum of squares."""
        at = self.linearised(network)
        r = self.residuals(at)
        pulled = self.weights[:, None] * r
        flat = np.concatenate([at.backward(pulled), at.overlap(pulled).T.ravel()])
        return flat, float(np.vdot(r, r))


def norms_kept(network: DeepNetwork) -> list[Array]:
    """Z, a block (fan-in + 1, fan-in) for every hidden unit: its weights turn, its bias is free."""
    blocks = []
    for W, b in network.affine_maps[:-1]:
        Z = np.zeros((len(b), W.shape[1] + 1, W.shape[1]))
        Z[:, :-1, :-1] = np.linalg.qr(W[:, :, None], mode="complete")[0][:, :, 1:]
        Z[:, -1, -1] = 1.0
        blocks.append(Z)
    return blocks


def _times(rows: AnyArray, blocks: Iterable[Array]) -> AnyArray:
    """Rows times a block diagonal matrix, which ends in the identity."""
    parts, first = [], 0
    for B in blocks:
        units, width, new = B.shape
        own = rows[:, first : first + units * width].reshape(len(rows), units, width)
        moved = own.transpose(1, 0, 2) @ B.astype(rows.dtype)
        parts.append(moved.transpose(1, 0, 2).reshape(len(rows), units * new))
        first += units * width
    return np.hstack([*parts, rows[:, first:]])


def _times_transposed(rows: AnyArray, blocks: list[Array]) -> AnyArray:
    return _times(rows, (B.transpose(0, 2, 1) for B in blocks))


class PackedMatrix:
    """H for p parameters, `held` times the identity at first, and its inverse beside it."""

    def __init__(
        self, p: int, Z: list[Array], held: float, dtype: type[np.floating] = np.float64
    ) -> None:
        """Nothing is added yet."""
        rank = p - sum(map(len, Z))
        self.p, self.Z, self.held, self.dtype = p, Z, held, dtype
        self.square = np.zeros((rank, rank), dtype, order="F")
        self.diagonal = np.full(rank, held)

    def add(self, D: AnyArray) -> None:
        """`Z^T D^T D Z`; a covariance that was formed before stays what it is."""
        np.fill_diagonal(self.square, self.diagonal)
        D = _times(D, self.Z).astype(self.dtype, copy=False)
        syrk = get_blas_funcs("syrk", (self.square,))
        syrk(1.0, D.T, beta=1.0, c=self.square, lower=1, overwrite_c=1)
        self.diagonal = np.diag(self.square).astype(float)

    def covariance(self, ridge: float) -> PackedCovariance:
        """`Z H^-1 Z^T`, with the least multiple of the ridge that makes S H S definite."""
        A, scale = self.square, 1 / np.sqrt(np.where(self.diagonal > 0, self.diagonal, 1.0))
        potrf, trtri = get_lapack_funcs(("potrf", "trtri"), (A,))
        for added in ridge * 1e3 ** np.arange(6):
            for rows in row_blocks(len(A), _BLOCK):
                upper = (A[rows, : rows.stop] * scale[rows, None] * scale[: rows.stop]).T
                A[: rows.start, rows] = upper[: rows.start]
                A[rows, rows] = np.triu(upper[rows.start :]) + np.tril(A[rows, rows], -1)
            np.fill_diagonal(A, 1 + added)
            if potrf(A, lower=0, clean=0, overwrite_a=1)[1] == 0:
                break
        else:
            raise np.linalg.LinAlgError("no multiple of the identity makes the matrix definite")
        trtri(A, lower=0, overwrite_c=1)
        variances = np.zeros(self.p)
        for rows in row_blocks(len(A), _BLOCK):
            root = np.zeros((rows.stop - rows.start, len(A)))
            root[:, : rows.stop] = np.triu(A[: rows.stop, rows], -rows.start).T
            variances += np.sum(_times_transposed(root * scale, self.Z) ** 2, axis=0)
        G = np.empty((0, self.p))
        found = PackedCovariance(self.Z, A, np.diag(A).astype(float), scale, variances, G)
        return found.with_hidden(self.held, float(added))


@dataclass(frozen=True)
class PackedCovariance:
    """`C + G^T G - U^T U` with `C = Z S R R^T S Z^T`, until the matrix is inverted again."""

    Z: list[Array]
    square: AnyArray
    """R in the upper half."""
    diagonal: Array
    """Of R."""
    scale: Array
    """Of S."""
    variances: Array
    """The covariance's diagonal."""
    hidden: Array
    """G: directions whose variance the ridge hides."""
    less: tuple[Array, ...] = ()
    """U, a part for all rows that came together."""

    @property
    def rank(self) -> int:
        """Number of directions."""
        return len(self.scale)

    def with_hidden(self, held: float, ridge: float, few: int = 8) -> PackedCovariance:
        """With the variance, `1 / held`, of directions that no sample determines.

        They are among the largest of C (subspace iteration), where the ridge sets the variance.
        """
        Q = np.random.default_rng(0).standard_normal((min(few, self.rank), self.rank))
        for _ in range(6):
            Q = np.linalg.qr(Q.T)[0].T
            half = self._times_root(Q, transposed=True)
            Q, before = self._times_root(half), Q
        size, V = np.linalg.eigh(half @ half.T)
        D = V.T @ before * self.scale
        true = 1 / np.maximum(held * np.sum(D**2, axis=1), TINY)
        more = np.where(ridge * size > 0.3, np.maximum(true - size, 0.0), 0.0)
        G = _times_transposed(np.sqrt(more[more > 0])[:, None] * D[more > 0], self.Z)
        return replace(self, hidden=G, variances=self.variances + np.sum(G**2, axis=0))

    def times(self, rows: Array) -> Array:
        """Rows times the covariance."""
        return self.damped(rows) + rows @ self.hidden.T @ self.hidden

    def damped(self, rows: Array) -> Array:
        """The same without what the ridge hides: a step there would be rounding."""
        half = self._times_root(_times(rows, self.Z) * self.scale, transposed=True)
        found = _times_transposed(self._times_root(half) * self.scale, self.Z)
        for U in self.less:
            found -= rows @ U.T @ U
        return np.asarray(found)

    def draws(self, normals: Array) -> Array:
        """Rows with covariance `C + G^T G` from rows of p independent standard normal numbers."""
        few = normals[:, ::-1][:, : len(self.hidden)]  # as good as independent of the others
        found = self._times_root(normals[:, : self.rank]) * self.scale
        return _times_transposed(found, self.Z) + few @ self.hidden

    def with_rows(self, D: Array, rounding: float = 1e-12) -> PackedCovariance:
        """With more rows in H, those left out that only rounding tells from others.

        What is left of a variance after twelve orders of magnitude is rounding: it stays there.
        """
        moved = self.times(D)
        size, V = np.linalg.eigh(moved @ D.T)
        new = size > rounding * max(float(size.max(initial=0.0)), TINY)
        if not new.any():
            return self
        U = (V.T[new] @ moved) / np.sqrt(1 + size[new])[:, None]
        variances = np.maximum(self.variances - np.sum(U**2, axis=0), rounding * self.variances)
        return replace(self, variances=variances, less=(*self.less, U))

    def _times_root(self, rows: Array, transposed: bool = False) -> Array:
        """Rows times R^T, or R; their sizes may be beyond single precision."""
        np.fill_diagonal(self.square, self.diagonal)
        size = np.ldexp(1.0, np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1])[:, None]
        trmm = get_blas_funcs("trmm", (self.square,))
        return np.asarray(size * trmm(1.0, self.square, (rows / size).T, trans_a=transposed).T)


@dataclass(frozen=True)
class NearlyExact:
    """A network, and its covariance for noise of size one (until another is formed)."""

    network: DeepNetwork
    rms: float
    """Of the weighted residuals, over the measurements less the parameters."""
    covariance: PackedCovariance

    @property
    def errors(self) -> DeepErrors:
        """Standard errors for noise of size one."""
        return _in_shape(self.network, np.sqrt(self.covariance.variances))

    @property
    def rows(self) -> AnyArray:
        """For every parameter the number of the unit, or output, whose weight or bias it is."""
        sizes = [W.shape[1] + 1 for W, b in self.network.affine_maps for _ in b]
        return np.repeat(np.arange(len(sizes)), sizes)

    def derivatives(self, X: Array) -> Array:
        """Of the outputs at inputs by all parameters, (n, outputs, parameters)."""
        at = self._at(X)
        root = np.tile(np.eye(at.values.shape[1]), (len(X), 1, 1))
        return np.stack([D for D, _ in at.jacobians(root)], axis=1)

    def changes(self, X: Array, steps: Array, dtype: type[np.floating] = np.float64) -> AnyArray:
        """How the outputs change along steps of all parameters, (steps, n, outputs)."""
        at = self._at(X).astype(dtype)
        own = at.parameters
        found = [
            at.forward(step[: own.nonlinear])
            + at.combined(step[own.nonlinear :].reshape(-1, len(own.beta)).T)
            for step in steps.astype(dtype)
        ]
        return np.array(found)

    def _at(self, X: Array) -> Linearisation:
        parameters = Parameters.of(self.network)
        return Linearisation.of(parameters, self.network.activation, X)


class Newton:
    """Fits of a network that is nearly right to more and more samples.

    Its parameters are off by about `unsure`, weighted samples by `noise`. `between` is called
    between blocks of samples and steps: it may raise, to end the fit. Where steps end above
    `stalled` times the noise the matrix is formed anew. `single` precision gives way to double
    where it hides a direction.
    """

    def __init__(
        self,
        network: DeepNetwork,
        samples: WeightedSamples,
        unsure: float,
        noise: float,
        between: Callable[[], None] = lambda: None,
        *,
        stalled: float = 10.0,
        single: bool = False,
    ) -> None:
        """With the matrix of the first samples."""
        self.start = self.network = _normalised(network)
        self.samples, self.noise, self.between = samples, noise, between
        self.held, self.stalled, self.single = (noise / unsure) ** 2, stalled, single
        self._form()

    def _form(self) -> None:
        """The matrix of all samples at the present network."""
        dtype, p = np.float32 if self.single else np.float64, len(_flat(self.network))
        self.matrix = PackedMatrix(p, norms_kept(self.network), self.held, dtype)
        self.covariance: PackedCovariance | None = None
        self._take(self.samples)

    def add(self, new: WeightedSamples) -> None:
        """More samples to be fitted."""
        self.samples = self.samples + new
        self._take(new)

    def _take(self, new: WeightedSamples) -> None:
        """Few rows are cheaper added to the covariance than the matrix inverted again.

        Where the ridge hides something, though, they may determine it far better than rounding.
        """
        known = self.covariance
        if known is not None:
            rows = new.Y.size + sum(map(len, known.less))
            known = None if len(known.hidden) or rows > 0.15 * known.rank else known
        for part in row_blocks(len(new.X), _BLOCK):
            block, dtype = new[part], self.matrix.dtype
            at = block.linearised(self.network).astype(dtype)
            root = block.weights[:, None, None] * np.eye(new.Y.shape[1])
            for D, _ in at.jacobians(root.astype(dtype)):
                self.between()
                self.matrix.add(D)
                known = None if known is None else known.with_rows(D)
        self.covariance = known

    def as_it_is(self) -> NearlyExact:
        """How well the parameters are determined once the samples are fitted."""
        if self.covariance is None:
            # In single precision sums of thousands are good to some fifty roundings.
            self.covariance = self.matrix.covariance(3e-6 if self.single else 1e-15)
        if self.single and len(self.covariance.hidden):
            self.single = False
            self._form()
            return self.as_it_is()
        return NearlyExact(self.network, self.noise, self.covariance)

    def fitted(self, matrices: int = 4) -> NearlyExact:
        """The network that fits the samples best, the matrix formed so often at most."""
        fit = self._stepped()
        for _ in range(matrices - 1):
            if fit.rms <= self.stalled * self.noise:
                break
            before = fit.rms
            self._form()
            fit = self._stepped()
            if fit.rms > 0.9 * before:
                break
        return fit

    def _stepped(self) -> NearlyExact:
        """Steps with one matrix while each leaves clearly less; the last that did is kept."""
        covariance, network, before = self.as_it_is().covariance, self.network, np.inf
        for _ in range(30 if self.single else 8):  # a step costs a hundredth of the matrix
            self.between()
            gradient, size = self.samples.gradient(network)
            if not size < 0.9 * before:
                break
            before, self.network = size, network
            gradient += self.held * (_flat(network) - _flat(self.start))
            moved = _in_shape(network, _flat(network) - covariance.damped(gradient[None])[0])
            network = network.replace(weights=moved.weights, biases=moved.biases)
        # Rounding of the values is left of every sample, however many parameters there are.
        number = self.samples.Y.size
        left = max(0.2 * number, number - covariance.rank)
        return NearlyExact(_normalised(self.network), float(np.sqrt(before / left)), covariance)


def _normalised(network: DeepNetwork) -> DeepNetwork:
    """Weights of hidden units of norm 1; units without any stay."""
    activation = network.activation
    other = Parameters.of(network).normalised(activation).deep_network(activation)
    return network.replace(weights=other.weights, biases=other.biases)


def _flat(network: DeepNetwork) -> Array:
    return Parameters.of(network).ravel()


def _in_shape(network: DeepNetwork, flat: Array) -> DeepErrors:
    """All parameters, flat, as weights and biases."""
    found = Parameters.of(network).unravel(flat)
    matrices = (*found.layers, np.atleast_2d(found.beta.T))
    return DeepErrors(
        tuple(matrix[:, :-1] for matrix in matrices), tuple(matrix[:, -1] for matrix in matrices)
    )
