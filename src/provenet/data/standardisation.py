"""Inputs of mean 0 and covariance I, from the first and second moments of the samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.linalg import qr, solve_triangular

from provenet.common.typing import Array, row_blocks
from provenet.data.passes import Sums
from provenet.networks.network import DeepNetwork, Network

AnyNetwork = TypeVar("AnyNetwork", bound=Network)


@dataclass(frozen=True)
class Standardisation:
    """`z = whiten (x - mean)`, so that z has mean 0 and covariance I; `y = T_0 + <T_1, z> + r`."""

    mean: Array
    whiten: Array
    label_mean: Array
    """`T_0`: a number, or one an output."""
    label_spread: float
    """Standard deviation of the labels, its root mean square over several outputs."""
    linear: Array
    """`T_1` in standardised coordinates, the regression of y on z; one row an output."""
    samples: int | None
    """None: the population, no sampling error."""

    @property
    def features(self) -> int:
        """Number of inputs."""
        return len(self.mean)

    @property
    def linear_residual(self) -> float:
        """Root mean square residual of linear regression on new labels, over their spread: fitted
        samples have a smaller one, so degrees of freedom are subtracted."""
        explained = np.sum(np.atleast_2d(self.linear) ** 2, axis=1) / self.label_spread**2
        left = max(1.0 - float(np.mean(explained)), 0.0)
        if self.samples is not None:
            left *= (self.samples - 1) / max(self.samples - self.features - 1, 1)
        return float(np.sqrt(min(left, 1.0)))

    def apply(self, X: Array) -> Array:
        """Standardised inputs; centred copies are of 64 MB at most."""
        Z = np.empty((len(X), len(self.whiten)))
        for rows in row_blocks(len(X), max(1, 2**23 // X.shape[1])):
            Z[rows] = (X[rows] - self.mean) @ self.whiten.T
        return Z

    def undo(self, Z: Array) -> Array:
        """The inputs behind standardised ones."""
        return np.asarray(np.linalg.solve(self.whiten, Z.T).T + self.mean)

    def units_to_user(self, weights: Array, biases: Array) -> tuple[Array, Array]:
        """Units `(w, b)` on standardised inputs as units on the user's: `w.z + b = w'.x + b'`."""
        user = weights @ self.whiten
        return user, biases - user @ self.mean

    def units_from_user(self, weights: Array, biases: Array) -> tuple[Array, Array]:
        """The inverse of `units_to_user`."""
        own = np.asarray(np.linalg.solve(self.whiten.T, weights.T).T, dtype=float)
        return own, biases + weights @ self.mean

    def network_to_user(self, network: AnyNetwork) -> AnyNetwork:
        """A network on standardised inputs as one on the user's inputs."""
        return _with_units(network, self.units_to_user)

    def network_from_user(self, network: AnyNetwork) -> AnyNetwork:
        """The inverse of `network_to_user`."""
        return _with_units(network, self.units_from_user)


def _with_units(
    network: AnyNetwork, units: Callable[[Array, Array], tuple[Array, Array]]
) -> AnyNetwork:
    """The network with other units in its lowest layer; a linear term is a unit as well."""
    if isinstance(network, DeepNetwork):
        W, b = units(network.weights[0], network.biases[0])
        return network.replace(weights=(W, *network.weights[1:]), biases=(b, *network.biases[1:]))
    W, b = units(network.weights, network.biases)
    if network.linear is None:
        return network.replace(weights=W, biases=b)
    linear, constant = units(network.linear, np.asarray(network.output_bias))
    return network.replace(weights=W, biases=b, linear=linear, output_bias=constant)


@dataclass(frozen=True)
class LinearSums(Sums):
    """First and second moments of (x, y), shifted by a fixed origin so that no digits are lost."""

    n: int
    x: Array
    xx: Array
    y: Array
    yy: Array
    xy: Array

    @classmethod
    def of(cls, X: Array, y: Array, origin: Array, label_origin: Array) -> LinearSums:
        """The sums over one block of samples; they tell whether all of these are finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            x, v = X - origin, y - label_origin
            first = np.ones(len(x)) @ x  # a product is faster than a sum over samples
            return cls(len(x), first, x.T @ x, v.sum(axis=0), np.sum(v**2, axis=0), v.T @ x)


def standardisation_from(sums: LinearSums, origin: Array, label_origin: Array) -> Standardisation:
    """Mean, whitening and linear regression from the first and second moments of (x, y)."""
    mean, label_mean = sums.x / sums.n, sums.y / sums.n
    covariance = sums.xx / sums.n - np.outer(mean, mean)
    cross = sums.xy / sums.n - np.multiply.outer(label_mean, mean)
    spread = np.sqrt(np.mean(label_variance(sums)))
    scale = np.sqrt(np.diag(covariance))
    factor = np.linalg.cholesky(covariance / np.outer(scale, scale))
    whiten = solve_triangular(factor, np.diag(1 / scale), lower=True)
    centre, label_centre = origin + mean, label_origin + label_mean
    return Standardisation(centre, whiten, label_centre, float(spread), cross @ whiten.T, sums.n)


def label_variance(sums: LinearSums) -> Array:
    """Variance of the labels: a number, or one an output."""
    return np.maximum(sums.yy / sums.n - (sums.y / sums.n) ** 2, 0.0)


def dependent_columns(sums: LinearSums, rounding: float = 1e-10) -> list[int]:
    """Inputs that are constant or linear combinations of the others, up to a residual of `rounding`
    times their size: some 10^5 eps, because correlations square the errors of the inputs."""
    mean = sums.x / sums.n
    covariance = sums.xx / sums.n - np.outer(mean, mean)
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    constant = scale <= rounding * np.sqrt(np.diag(sums.xx) / sums.n)
    if constant.any():
        return [int(i) for i in np.flatnonzero(constant)]
    _, R, pivot = qr(covariance / np.outer(scale, scale), pivoting=True)
    dependent = np.abs(np.diag(R)) <= rounding * abs(R[0, 0])
    return sorted(int(i) for i in pivot[dependent])
