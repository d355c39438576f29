"""The squared loss of a network of other units (GLM17, sections 2.1, 4.1 and 4.2).

    L(a, B) = E (y - sum_i a_i gamma(b_i.x))^2 = a^T G(B) a - 2 a^T c(B) + E[y^2]

with `G_ij = E[gamma(b_i.x) gamma(b_j.x)]` and `c_i = E[y gamma(b_i.x)]`. For
`y = sum_j a*_j sigma(b*_j.x)` and unit vectors, both are kernels of inner products (Theorem 4.4 in
the form of Claim 4.3). `gamma = sigma` is the plain loss (Theorem 2.1), which has bad minima;
`gamma = sigma_2 h_2 + sigma_4 h_4` decomposes the second and fourth moment (Theorem 2.2), and
`gamma(z) = |z| / 2` (footnote 12) all the even ones.

Output weights are held fixed, or at their best for the B at hand, `a(B) = argmin_a L(a, B)`. Then
`L(B) = min_a L(a, B)` has the gradient `L_B` (its change through a is zero at the minimum) and the
Hessian

    H[V] = L_BB[V] + L_Ba[w],   w = -L_aa^{-1} L_aB[V]   (how a moves).

A ridge of `LOSS_RIDGE` times the trace of G is then part of the loss, so equal rows do no harm.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array, row_blocks
from provenet.landscape.kernels import Kernel, Shape, even_kernel, kernel
from provenet.landscape.objective import Objective, remember_last
from provenet.landscape.statistics import Statistics, coefficients
from provenet.landscape.tolerances import LOSS_RIDGE, ROWS_OF_A_BATCH, UNIT_NORM
from provenet.networks.activations import Activation
from provenet.networks.network import Network


class LeastSquares(Objective):
    """`L(a, B)` with the output weights a held fixed, or at their best for each B (None)."""

    unit_rows = True
    constant: float
    """`E[y^2]`, or 0 where it is not known."""

    def __init__(self, units: int, features: int, output_weights: Array | None) -> None:
        """Sizes of B, and the output weights if they are held fixed."""
        if output_weights is not None and np.shape(output_weights) != (units,):
            raise InvalidInput(
                f"output_weights has shape {np.shape(output_weights)}: give one number for each of "
                f"the {units} units."
            )
        self.units, self.features, self.output_weights = units, features, output_weights

    @abstractmethod
    def normal_equations(self, B: Array) -> tuple[Array, Array]:
        """G and c at B."""

    @abstractmethod
    def loss_and_partial(self, a: Array, B: Array) -> tuple[float, Array]:
        """`L(a, B)` and `L_B`, its gradient in B alone."""

    @abstractmethod
    def change_of_weights_slope(self, a: Array, B: Array, V: Array) -> Array:
        """`L_aB[V]`: how the gradient in a changes as B moves along V."""

    @abstractmethod
    def change_of_partial(self, a: Array, B: Array, w: Array, V: Array) -> Array:
        """`L_Ba[w] + L_BB[V]`: how `L_B` changes as (a, B) moves along (w, V)."""

    def output_weights_at(self, B: Array) -> Array:
        """The output weights that go with B."""
        fixed = self.output_weights
        return np.array(self._best(B)[0] if fixed is None else fixed)

    def value(self, B: Array) -> float:
        """The loss at B."""
        if self.output_weights is None:
            return self._best(B)[1]
        return self._at(B)[0]

    def gradient(self, B: Array) -> Array:
        """Its gradient."""
        return self._at(B)[1]

    def hessian_product(self, B: Array, V: Array) -> Array:
        """Its Hessian at B applied to V, the change of the output weights included."""
        if self.output_weights is not None:
            still = np.zeros(self.units)
            return self.change_of_partial(self.output_weights, B, still, V)
        a, _, factor = self._best(B)
        w = -cho_solve(factor, self.change_of_weights_slope(a, B, V)) / 2
        return self.change_of_partial(a, B, w, V)

    @remember_last
    def _at(self, B: Array) -> tuple[float, Array]:
        """`L` and `L_B` with the output weights that go with B."""
        return self.loss_and_partial(self.output_weights_at(B), B)

    @remember_last
    def _best(self, B: Array) -> tuple[Array, float, Any]:
        """The best output weights, the loss at them, and the factor of G with its ridge."""
        G, c = self.normal_equations(B)
        ridge = max(LOSS_RIDGE * float(np.trace(G)), float(np.finfo(float).tiny))
        factor = cho_factor(G + ridge * np.eye(len(G)))
        a = cho_solve(factor, c)
        return a, self.constant - float(c @ a), factor


class KernelLoss(LeastSquares):
    """`G_ij = K(b_i.b_j)`, and `c_i` a function of `b_i` alone.

    The diagonal of G is held at `K(1)`: on unit rows it does not move, and a kink would make its
    second derivative infinite. Along the spheres nothing changes by that.
    """

    def __init__(
        self, kernel: Kernel, units: int, features: int, output_weights: Array | None
    ) -> None:
        """The kernel of gamma with itself, and what every such loss needs."""
        super().__init__(units, features, output_weights)
        self.kernel = kernel

    @abstractmethod
    def correlation(self, B: Array) -> tuple[Array, Array]:
        """`c_i` and its gradients, one a row."""

    @abstractmethod
    def change_of_correlation(self, B: Array, V: Array) -> Array:
        """The Hessians of `c_i` applied to `v_i`, one a row."""

    def normal_equations(self, B: Array) -> tuple[Array, Array]:
        """G and c at B."""
        return self._gram(B @ B.T), self.correlation(B)[0]

    def loss_and_partial(self, a: Array, B: Array) -> tuple[float, Array]:
        """`L(a, B)` and `L_B`."""
        rho, (c, slope) = B @ B.T, self.correlation(B)
        loss = a @ self._gram(rho) @ a - 2 * a @ c + self.constant
        K1 = _off_diagonal(self.kernel.first(rho))
        return float(loss), 2 * a[:, None] * ((K1 * a) @ B - slope)

    def change_of_weights_slope(self, a: Array, B: Array, V: Array) -> Array:
        """`L_aB[V]`, where `L_a = 2 (G a - c)`."""
        K1 = _off_diagonal(self.kernel.first(B @ B.T))
        along = np.einsum("md,md->m", self.correlation(B)[1], V)
        return np.asarray(2 * ((K1 * _change_of_products(B, V)) @ a - along))

    def change_of_partial(self, a: Array, B: Array, w: Array, V: Array) -> Array:
        """`L_Ba[w] + L_BB[V]`, where `L_B = 2 (a a^T o K') B - 2 a o c'`."""
        rho = B @ B.T
        K1 = _off_diagonal(self.kernel.first(rho))
        K2 = _off_diagonal(self.kernel.second(rho))
        aa, wa = np.outer(a, a), np.outer(w, a)
        gram = ((wa + wa.T) * K1 + aa * K2 * _change_of_products(B, V)) @ B + (aa * K1) @ V
        slope, turn = self.correlation(B)[1], self.change_of_correlation(B, V)
        return np.asarray(2 * (gram - w[:, None] * slope - a[:, None] * turn))

    def _gram(self, rho: Array) -> Array:
        G = self.kernel.value(rho)
        np.fill_diagonal(G, self.kernel.value(np.ones(1)))
        return G


class PopulationLoss(KernelLoss):
    """The loss at a known network: `c_i = sum_j a*_j K(b_i.b*_j)` with a second kernel.

    `self_kernel` is that of gamma with itself, `cross_kernel` of gamma with the truth's activation.
    """

    def __init__(
        self,
        truth: Network,
        self_kernel: Kernel,
        cross_kernel: Kernel,
        output_weights: Array | None = None,
        units: int | None = None,
    ) -> None:
        """`units` is as many as there are output weights, or as the truth has."""
        truth = without_biases(truth)
        if truth.linear is not None or np.any(truth.output_bias):
            raise InvalidInput(
                "The loss is that of a sum of units alone: the network must have neither a linear "
                "term nor an output bias."
            )
        if units is None:
            units = truth.units if output_weights is None else len(output_weights)
        super().__init__(self_kernel, units, truth.features, output_weights)
        self.cross_kernel = cross_kernel
        self.truth = truth
        self.constant = self.magnitude = _second_moment(truth)

    @remember_last
    def correlation(self, B: Array) -> tuple[Array, Array]:
        """`c_i` and its gradients."""
        rho, a = B @ self.truth.weights.T, self.truth.output_weights
        slope = (self.cross_kernel.first(rho) * a) @ self.truth.weights
        return self.cross_kernel.value(rho) @ a, slope

    def change_of_correlation(self, B: Array, V: Array) -> Array:
        """The Hessians of `c_i` applied to `v_i`."""
        W = self.truth.weights
        turn = self.cross_kernel.second(B @ W.T) * (V @ W.T)
        return np.asarray((turn * self.truth.output_weights) @ W)


class MomentLoss(KernelLoss):
    """`sigma_2^2 f_2 + sigma_4^2 f_4` less its constant, from the moments `T_2` and `T_4` alone.

    With `gamma = c_2 He_2 / 2 + c_4 He_4 / 24`, `c_i = sum_k c_k / k! T_k(b_i, .., b_i)`, and the
    statistics are `T_k / c_k`.
    """

    constant = 0.0

    def __init__(
        self,
        statistics: Statistics,
        activation: Activation,
        units: int,
        output_weights: Array | None = None,
    ) -> None:
        """Statistics of the labels on standardised inputs, and the activation behind them."""
        super().__init__(even_kernel(activation), units, statistics.features, output_weights)
        self.second, self.fourth = statistics.norms[0], statistics.fourth
        c_2, c_4 = coefficients(activation)
        self.weights = c_2**2, c_4**2 / 6

    @remember_last
    def correlation(self, B: Array) -> tuple[Array, Array]:
        """`c_i` and its gradients."""
        second = self.weights[0] * B @ self.second
        fourth = self.weights[1] * self.fourth.cubes(B, B)
        return np.einsum("md,md->m", second / 2 + fourth / 4, B), second + fourth

    def change_of_correlation(self, B: Array, V: Array) -> Array:
        """The Hessians of `c_i` applied to `v_i`."""
        return self.weights[0] * V @ self.second + 3 * self.weights[1] * self.fourth.cubes(B, V)


class SampleLoss(LeastSquares):
    """The mean of `(y - sum_i a_i gamma(b_i.x))^2` over given samples.

    Everything goes through the residuals `r = sum_i a_i gamma(b_i.x) - y`, block by block. Loss and
    gradient are computed in the precision of the samples, and summed over blocks in double.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        gamma: Shape,
        units: int,
        output_weights: Array | None = None,
        unit_rows: bool = True,
    ) -> None:
        """Samples, one a row; `unit_rows` says whether B is meant on the spheres."""
        super().__init__(units, X.shape[1], output_weights)
        y = y.astype(X.dtype, copy=False)
        self.X, self.y, self.gamma, self.unit_rows = X, y, gamma, unit_rows
        self.constant = self.magnitude = float(y @ y) / len(y)

    def normal_equations(self, B: Array) -> tuple[Array, Array]:
        """G and c at B, means over the samples."""
        G, c = np.zeros((len(B), len(B))), np.zeros(len(B))
        for x, y in self._blocks():
            unit = self.gamma.function(x @ B.T)
            G += unit.T @ unit
            c += y @ unit
        return G / len(self.y), c / len(self.y)

    def loss_and_partial(self, a: Array, B: Array) -> tuple[float, Array]:
        """`L(a, B)` and `L_B`: two products of the size of the samples."""
        loss, _, partial = self.loss_and_partials(a, B)
        return loss, partial

    def loss_and_partials(self, a: Array, B: Array) -> tuple[float, Array, Array]:
        """`L(a, B)`, `L_a` and `L_B`."""
        loss, for_a, for_B = 0.0, np.zeros(len(B)), np.zeros(B.shape)
        rows, weights = (M.astype(self.X.dtype, copy=False) for M in (B.T, a))
        for x, y in self._blocks():
            z = x @ rows
            unit = self.gamma.function(z)
            r = unit @ weights - y
            slope = self.gamma.first(z)
            slope *= r[:, None]
            loss += float(r @ r)
            for_a += r @ unit
            for_B += slope.T @ x
        n = len(self.y)
        return loss / n, 2 / n * for_a, 2 / n * a[:, None] * for_B

    def change_of_weights_slope(self, a: Array, B: Array, V: Array) -> Array:
        """`L_aB[V]`, where `L_a = 2 E[r gamma]`."""
        change = np.zeros(len(B))
        for x, y in self._blocks():
            z = x @ B.T
            unit, moved = self.gamma.function(z), self.gamma.first(z) * (x @ V.T)
            change += (unit @ a - y) @ moved + (moved @ a) @ unit
        return 2 / len(self.y) * change

    def change_of_partial(self, a: Array, B: Array, w: Array, V: Array) -> Array:
        """`L_Ba[w] + L_BB[V]`, where `L_B = 2 a_i E[r gamma' x]`."""
        change = np.zeros(B.shape)
        for x, y in self._blocks():
            z, move = x @ B.T, x @ V.T
            unit, first = self.gamma.function(z), self.gamma.first(z)
            r = unit @ a - y
            dr = unit @ w + (first * move) @ a
            turn = first * (dr[:, None] * a + r[:, None] * w)
            turn += self.gamma.second(z) * move * (r[:, None] * a)
            change += turn.T @ x
        return 2 / len(self.y) * change

    def _blocks(self) -> Iterator[tuple[Array, Array]]:
        return ((self.X[rows], self.y[rows]) for rows in row_blocks(len(self.y), ROWS_OF_A_BATCH))


def squared_loss(network: Network, other: Network) -> float:
    """`E (network(x) - other(x))^2` on standard normal inputs, in closed form (Theorem 2.1).

    Networks have one output and no biases, and the same activation; rows of any norm where it is
    positively homogeneous. Losses below about 1e-15 of the networks' own size are rounding.
    """
    f, g = without_biases(network), without_biases(other)
    if f.features != g.features:
        raise InvalidInput(
            f"The networks have {f.features} and {g.features} inputs: compare two with the same."
        )
    if not _same(f.activation, g.activation):
        raise InvalidInput(
            f"The networks have the activations {f.activation.name} and {g.activation.name}: "
            "compare two with the same."
        )
    difference = Network(
        np.vstack([f.weights, g.weights]),
        output_weights=np.concatenate([f.output_weights, -g.output_weights]),
        output_bias=f.output_bias - g.output_bias,
        activation=f.activation,
        linear=_linear(f) - _linear(g),
    )
    return max(_second_moment(difference), 0.0)


def _second_moment(network: Network) -> float:
    """`E f(x)^2` for unit rows and no biases.

    Beside the kernel: a unit's mean is `c_0`, and `E[sigma(u.x) v.x] = c_1 u.v`.
    """
    a, W, bias = network.output_weights, network.weights, float(network.output_bias)
    c0, c1 = (float(network.activation.hermite(k, 0.0)) for k in (0, 1))
    v = _linear(network)
    units = a @ kernel(network.activation).value(W @ W.T) @ a
    return float(units + 2 * bias * c0 * a.sum() + bias**2 + 2 * c1 * a @ W @ v + v @ v)


def _linear(network: Network) -> Array:
    return np.zeros(network.features) if network.linear is None else network.linear


def without_biases(network: Network) -> Network:
    """The network with unit rows, if a closed form is known for it."""
    if network.outputs is not None:
        raise InvalidInput("The loss is known in closed form for one output: take one at a time.")
    if np.any(network.biases):
        raise InvalidInput(
            "The loss is known in closed form without biases: set them to 0, or use samples."
        )
    plain = network.canonical()
    norms = np.linalg.norm(plain.weights, axis=1)
    if np.any(np.abs(norms - 1) > UNIT_NORM):
        raise InvalidInput(
            f"The activation {network.activation.name} is not positively homogeneous: the rows of "
            "weights must have norm 1."
        )
    return plain


def _same(activation: Activation, other: Activation) -> bool:
    """Equal, or `z if z > 0 else slope * z` with the same slope under two names."""
    return activation == other or (activation.slope is not None and activation.slope == other.slope)


def _change_of_products(B: Array, V: Array) -> Array:
    """How `B B^T` changes along V."""
    product = V @ B.T
    return product + product.T


def _off_diagonal(M: Array) -> Array:
    np.fill_diagonal(M, 0.0)
    return M
