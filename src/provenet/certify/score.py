"""Is the residual of a fitted network noise? One score test for any features of the inputs.

Under the hypothesis the labels are a network's values and noise, `E[noise | x] = 0`; nothing is
assumed of the law of the noise, nor that it is the same everywhere. With e_i half the gradient of
the loss by the values at sample i (squares: the residual), J_i the derivatives of the values by all
parameters and W_i the curvature of the loss (squares: 1), a feature h of the inputs has the scores

    t_i = h_i e_i - b^T J_i^T e_i,      b = A^-1 sum_i J_i^T W_i h_i,    A = sum_i J_i^T W_i J_i:

its part outside the range of J, since a fit has removed what is inside (Rao 1948). Without this
projection the variance after a fit is overestimated, and the test loses most of its power. With
White's variance in the correction HC2, l_i being the leverage of a sample,

    z = sum_i t_i / sqrt(sum_i t_i^2 / (1 - l_i))

is standard normal in large samples. With several outputs a sample is one term: its noise may be
correlated between outputs. The p-values of all features are adjusted together (Bonferroni), so that
a true network is refused with at most the stated probability, however many features are tested.

*Pairs.* Many weak departures, none of which is significant, add up in `sum_ij r_i r_j k(x_i, x_j)`:
k is a sum of the second and third Hermite polynomials of `x_i.x_j / sqrt(features)`, r the residual
with the output layer projected off. Under the hypothesis its distribution is that with random signs
of the r_i, which are drawn.

The *detection limit* is the root mean square of a departure along a feature that would be refused
with probability 95%, in the median over all features.

*Feature maps.* Polynomials and waves are smooth departures of any kind; random units are what a
missing unit looks like; bumps along units show another activation or a jump, and along predictions
clipped labels; bumps near kinks show two units that were taken for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.stats import norm

from provenet.common.typing import TINY, AnyArray, Array, row_blocks
from provenet.fitting.linear import solver_scaled
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import Activation
from provenet.networks.hermite import hermite_rows
from provenet.networks.network import Network


@dataclass(frozen=True)
class Features:
    """Functions of the inputs at the samples, in columns, and the departure that each shows."""

    names: list[str]
    values: Array

    @classmethod
    def joined(cls, parts: list[Features]) -> Features:
        """Of several maps."""
        names = [name for part in parts for name in part.names]
        return cls(names, np.column_stack([part.values for part in parts]))


@dataclass(frozen=True)
class Scores:
    """The most significant of all features, or of all pairs of samples."""

    feature: str
    p_value: float
    """Adjusted for everything that was tested."""
    tested: int
    detection_limit: float
    """In units of the outputs before the link."""


def score_test(
    parameters: Parameters,
    activation: Activation,
    X: Array,
    y: Array,
    features: Features,
    rng: np.random.Generator,
    level: float,
    *,
    loss: Loss = SQUARES,
) -> Scores:
    """Test that the residuals of a fit to samples on standardised inputs are noise."""
    model = _Model(parameters, activation, loss, X, y.reshape(len(y), -1))
    H = features.values / np.maximum(np.sqrt(np.mean(features.values**2, axis=0)), TINY)
    total, variance, size = _scores(model, H)
    outside = size > 1e-8 * len(X)  # others lie in the range of J
    z = np.where(outside, total / np.sqrt(np.maximum(variance, TINY)), 0.0)
    tested = int(outside.sum())
    worst = int(np.argmax(np.abs(z)))
    p = min(2 * float(norm.sf(abs(z[worst]))) * tested, 1.0)
    output, column = divmod(worst, H.shape[1])
    name = features.names[column] + (f" (output {output})" if model.Y.shape[1] > 1 else "")
    power = float(norm.isf(level / (4 * max(tested, 1))) + norm.isf(0.05))
    limits = power * np.sqrt(variance[outside]) / size[outside]
    pairs = _pairs(model, rng)
    if pairs < p:
        p, name = pairs, "many features together"
    return Scores(name, min(2 * p, 1.0), tested + 1, float(np.median(limits)) if tested else np.inf)


@dataclass(frozen=True)
class _Model:
    """A network at its samples, block by block."""

    parameters: Parameters
    activation: Activation
    loss: Loss
    X: Array
    Y: Array

    def columns(self, work: float = 2e10) -> AnyArray:
        """The parameters to project off: all, or fewer to save time: conservative then."""
        p, n = len(self.parameters.ravel()), self.Y.size
        for first in (0, self.parameters.nonlinear):
            if n * (p - first) ** 2 <= work and n > p - first:
                return np.arange(first, p)
        return np.arange(p - 1, p)

    def blocks(self) -> Iterator[tuple[slice, Linearisation]]:
        """Samples whose derivatives take some 30 MB."""
        rows = int(np.clip(4e6 / (len(self.parameters.ravel()) * self.Y.shape[1]), 16, 4096))
        for block in row_blocks(len(self.X), rows):
            yield block, Linearisation.of(self.parameters, self.activation, self.X[block])

    def jacobians(self, at: Linearisation, which: AnyArray) -> Iterator[Array]:
        """The derivatives of each output by some of the parameters."""
        for J, own in at.jacobians():
            whole = np.zeros((len(J), len(self.parameters.ravel())))
            whole[:, own] = J
            yield whole[:, which]

    def weights(self, at: Linearisation) -> Array:
        """W, (samples, outputs, outputs)."""
        root, k = self.loss.root(at.values), self.Y.shape[1]
        if root is None:
            return np.broadcast_to(np.eye(k), (len(at.values), k, k))
        return np.asarray(np.einsum("nkq,nkp->nqp", root, root))


def _scores(model: _Model, H: Array) -> tuple[Array, Array, Array]:
    """Of each output and feature the sum of t, its variance, and the square of what is tested."""
    which, K, outputs = model.columns(), H.shape[1], model.Y.shape[1]
    A, B = np.zeros((len(which), len(which))), np.zeros((len(which), outputs, K))
    own = np.zeros((outputs, K))
    for block, at in model.blocks():
        W, J = model.weights(at), list(model.jacobians(at, which))
        for q in range(outputs):
            own[q] += W[:, q, q] @ H[block] ** 2
            for p in range(outputs):
                if q == p or model.loss is not SQUARES:
                    WJ = J[p] if model.loss is SQUARES else W[:, q, p, None] * J[p]
                    A += J[q].T @ WJ
                    B[:, q] += WJ.T @ H[block]
    solve = solver_scaled(A, 1e-12)
    b = solve(B.reshape(len(A), -1))
    size = own.ravel() - np.einsum("pk,pk->k", B.reshape(len(A), -1), b)
    total, variance = np.zeros((2, outputs * K))
    for block, at in model.blocks():
        e = model.loss.excess(at.values, model.Y[block])
        J, W = list(model.jacobians(at, which)), model.weights(at)
        S = np.sum([J[q] * e[:, q, None] for q in range(outputs)], axis=0)
        t = (e[:, :, None] * H[block][:, None, :]).reshape(len(S), -1) - S @ b
        shares = [W[:, q, q] * np.einsum("np,np->n", J[q], solve(J[q].T).T) for q in range(outputs)]
        leverage = np.clip(np.mean(shares, axis=0), 0, 1 - 1e-3)
        total += t.sum(axis=0)
        variance += (1 / (1 - leverage)) @ t**2
    return total, variance, size


def _pairs(model: _Model, rng: np.random.Generator, *, most: int = 2500, draws: int = 299) -> float:
    """The p-value of residuals that are alike where inputs point the same way."""
    X, Y = model.X[:most], model.Y[:most]
    at = Linearisation.of(model.parameters, model.activation, X)
    e = model.loss.excess(at.values, Y)
    linear = np.column_stack([X, at.features])
    e = e - linear @ np.linalg.lstsq(linear, e, rcond=1e-10)[0]
    e = (e / np.maximum(np.sqrt(np.mean(e**2, axis=0)), TINY)).astype(np.float32)
    x = (X / X.shape[1] ** 0.25).astype(np.float32)
    alike = x @ x.T
    squares = alike * alike
    kernel = (squares - 1) * np.float32(2**-0.5) + (squares - 3) * alike * np.float32(6**-0.5)
    np.fill_diagonal(kernel, 0)
    signs = np.ones((len(X), draws + 1), np.float32)
    signs[:, 1:] = 2 * rng.integers(2, size=(len(X), draws), dtype=np.int8) - 1
    total = np.zeros(draws + 1)
    for column in e.T:
        signed = column[:, None] * signs
        total += np.einsum("nd,nd->d", signed, kernel @ signed)
    return float(np.mean(total >= total[0]))


# ---------------------------------------------------------------- feature maps


def features_of(network: Network, X: Array, rng: np.random.Generator) -> Features:
    """All maps of a network on standardised inputs: 100 to 1000 features, more of many inputs."""
    most = int(np.clip(2e6 / len(X), 20, 200))
    maps: list[Callable[[Network, Array, np.random.Generator, int], Features]]
    maps = [polynomials, waves, random_units, along_units, near_kinks, linear_regions, places]
    return Features.joined([of(network, X, rng, most) for of in maps])


def polynomials(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """Hermite polynomials of as high a degree as that allows, of many inputs some products."""
    d = X.shape[1]
    degree = max((k for k in (2, 3) if comb(k + d, d) <= most), default=1)
    rows = hermite_rows(X, degree)[1:].T
    parts = [Features([f"a polynomial of degree {degree}"] * rows.shape[1], rows)]
    if degree == 1:
        first, second = rng.integers(d, size=(2, most))
        product = X[:, first] * X[:, second]
        parts += [Features([f"x{i} x{j}" for i, j in zip(first, second, strict=True)], product)]
        parts += [Features([f"x{i}^2" for i in range(d)], X**2)]
    if degree < 3:
        parts.append(Features([f"x{i}^3" for i in range(d)], X**3))
    return Features.joined(parts)


def waves(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """Two frequencies of each input."""
    which = rng.permutation(X.shape[1])[: max(1, most // 4)]
    parts = [
        Features([f"{wave.__name__}({k} x{i})" for i in which], wave(k * X[:, which]))
        for wave in (np.sin, np.cos)
        for k in (2, 4)
    ]
    return Features.joined(parts)


def random_units(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """ReLU units in random directions, with their critical points at random samples."""
    count = max(1, most // 5)
    W = rng.standard_normal((count, X.shape[1]))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    b = -np.einsum("kd,kd->k", W, X[rng.integers(len(X), size=count)])
    return Features(["a further unit"] * count, np.maximum(X @ W.T + b, 0))


def along_units(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """Bumps at seven quantiles of each unit's argument, and of the predictions; their tails."""
    some = _arguments(network, X, rng, max(1, most // 8))
    columns = {f"along unit {name}": z for name, z in some}
    values = network(X).reshape(len(X), -1)
    columns |= {f"along the predictions of output {q}": v for q, v in enumerate(values.T)}
    names, parts = list[str](), list[Array]()
    for name, z in columns.items():
        size = max(float(z.std()), TINY)
        for quantile in np.quantile(z, (0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99)):
            names.append(name)
            parts.append(np.exp(-0.5 * ((z - quantile) / (0.4 * size)) ** 2))
        for tail in (z <= np.quantile(z, 0.02), z >= np.quantile(z, 0.98)):
            names.append(name)
            parts.append(tail.astype(float))
    return Features(names, np.column_stack(parts))


def near_kinks(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """Bumps of two widths at each critical point, and the wider times each input."""
    if not network.activation.kinked:
        return Features([], np.empty((len(X), 0)))
    names, parts = list[str](), list[Array]()
    for name, z in _arguments(network, X, rng, max(1, most // (X.shape[1] + 2))):
        size = max(float(z.std()), TINY)
        wide, narrow = (np.exp(-0.5 * (z / (width * size)) ** 2) for width in (0.3, 0.05))
        names += [f"near the kink of unit {name}"] * (X.shape[1] + 2)
        parts += [wide[:, None], narrow[:, None], wide[:, None] * X]
    return Features(names, np.column_stack([np.empty((len(X), 0)), *parts]))


def linear_regions(
    network: Network, X: Array, rng: np.random.Generator, most: int, fewest: int = 16
) -> Features:
    """The largest regions in which the network is linear."""
    if not (network.activation.kinked and network.units):
        return Features([], np.empty((len(X), 0)))
    Z = np.column_stack([z for _, z in _arguments(network, X, rng, network.units)])
    _, region, count = np.unique(Z > 0, axis=0, return_inverse=True, return_counts=True)
    large = [k for k in np.argsort(-count)[: most // 4] if count[k] >= fewest]
    members = region.ravel()[:, None] == np.array(large, dtype=int)
    return Features(["a linear region"] * len(large), members.astype(float))


def places(
    network: Network, X: Array, rng: np.random.Generator, most: int, dimensions: int = 4
) -> Features:
    """Bumps at random samples, in few dimensions."""
    count = most // 5
    if X.shape[1] > dimensions:
        return Features([], np.empty((len(X), 0)))
    centres = X[rng.integers(len(X), size=count)]
    squares = np.sum((X[:, None] - centres) ** 2, axis=2)
    return Features(["a neighbourhood"] * count, np.exp(-0.5 * squares / 0.4**2))


def _arguments(
    network: Network, X: Array, rng: np.random.Generator, most: int
) -> list[tuple[str, AnyArray]]:
    """Arguments of some units of every layer, with their names."""
    found: list[tuple[str, AnyArray]] = []
    for number in range(network.layers):
        h = X if number == 0 else network.values(X, number - 1)
        W, b = network.affine_maps[number]
        layer = f" of layer {number + 1}" if network.layers > 1 else ""
        found += [(f"{i}{layer}", z) for i, z in enumerate((h @ W.T + b).T)]
    chosen = rng.permutation(len(found))[:most]
    return [found[i] for i in sorted(chosen)]
