"""The population risk `E |f(x) - g(x)|^2` of two networks over standard normal inputs.

*By orders* (ATV21, Proposition B.1). Hermite polynomials are orthogonal, so with the moments
`T_k = sum_i a_i c_k(b_i) w_i^(x)k`, rows of W of norm 1,

    E (f - g)^2 = sum_k |T_k(f) - T_k(g)|^2 / k!.

No tensor is built: `<w^(x)k, v^(x)k> = <w, v>^k`, so one order is a quadratic form in the
coefficients of the units of both networks.

*Without truncation*, for piecewise linear units. Each is an absolute value and a linear function.
For standard normal X, Y of correlation rho, with `r = sqrt(1 - rho^2)`, `s = (h - rho k) / r`,
`t = (k - rho h) / r`,

    E |X + h| |Y + k| = (rho + h k) P + 2 h phi(k) erf(s / sqrt 2) + 2 k phi(h) erf(t / sqrt 2)
                        + 4 r phi(h) phi(t),
    P = E sgn(X + h) sgn(Y + k) = 1 - 4 T(h, t / h) - 4 T(k, s / k) - 2 [h and k differ in sign],

with Owen's function T (Owen 1956 for P; the rest is integration by parts). It loses no digits for
nearly parallel units if `1 - rho = |u - v|^2 / 2` is taken from the difference of the unit vectors.

The result is a difference of terms of the size of `E f^2`: its error is rounding of that size, so
a risk below 1e-15 of `E f^2` cannot be distinguished from zero.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.common.words import is_whole
from provenet.networks.activations import ABS, Activation
from provenet.networks.hermite import normal_density
from provenet.networks.network import Network
from provenet.networks.piecewise import as_absolute

Combination = tuple[tuple[float, Network], ...]
"""Networks in canonical form and the factors with which they are added."""


def population_risk(f: Network, g: Network, order: int | None = None) -> float:
    """`E |f(x) - g(x)|^2` for standard normal x, summed over several outputs.

    `order` is the last order of Proposition B.1 that counts; the result is less than the risk by
    `truncation_bound` at most. Without it, for piecewise linear units, all of them in closed form.
    """
    difference = _difference(f, g)
    if order is None:
        return max(float(np.trace(second_moment(difference))), 0.0)
    _check_order(order)
    total = sum(np.trace(order_part(difference, k)) for k in range(order + 1))
    return max(float(total), 0.0)


def truncation_bound(f: Network, g: Network, order: int) -> float:
    """The most that `population_risk(f, g, order)` can be below the risk.

    By the triangle inequality: the orders above are at most `sum_i |a_i| t_i` in norm, t_i the norm
    of the same orders of unit i alone.
    """
    _check_order(order)
    difference = _difference(f, g)
    size = np.zeros(f.outputs or 1)
    for _, net in difference:
        norm, sigma = np.linalg.norm(net.weights, axis=1), net.activation
        above = _squared(sigma).hermite_by_quadrature(0, net.biases, norm) - sum(
            sigma.hermite(k, net.biases, norm) ** 2 / math.factorial(k) for k in range(order + 1)
        )
        size += np.abs(np.atleast_2d(net.output_weights)) @ np.sqrt(np.maximum(above, 0.0))
    if order == 0:
        size += np.linalg.norm(_affine_part(difference)[0], axis=1)
    return float(size @ size)


def _squared(sigma: Activation) -> Activation:
    return replace(sigma, function=lambda z: sigma(z) ** 2)


def order_part(combination: Combination, k: int) -> Array:
    """`<T_k, T_k'> / k!` for all pairs of outputs (outputs, outputs) of a sum of networks."""
    V, c = _affine_part(combination)
    weights, directions = [], []
    for factor, net in combination:
        norm = np.linalg.norm(net.weights, axis=1)
        coefficients = net.activation.hermite(k, net.biases, norm) / math.sqrt(math.factorial(k))
        weights.append(factor * np.atleast_2d(net.output_weights) * coefficients)
        directions.append(net.weights / norm[:, None])
    A, W = np.hstack(weights), np.vstack(directions)
    if k > 1:
        return np.asarray(A @ (W @ W.T) ** k @ A.T)
    T = A @ W + V if k else A.sum(axis=1, keepdims=True) + c[:, None]
    return np.asarray(T @ T.T)


def second_moment(combination: Combination) -> Array:
    """`E f(x) f(x)^T` (outputs, outputs) of a sum of networks with piecewise linear units."""
    for _, net in combination:
        if net.activation.slope is None:
            raise InvalidInput(
                f"The risk in closed form is for piecewise linear units, not "
                f"{net.activation.name!r}: give an order."
            )
    parts = tuple((factor, as_absolute(net)) for factor, net in combination)
    A = np.hstack([factor * np.atleast_2d(net.output_weights) for factor, net in parts])
    h = np.concatenate([net.biases for _, net in parts])
    directions = np.vstack([net.weights for _, net in parts])
    V, c = _affine_part(parts)
    mean = ABS.hermite(0, h)
    cross = A @ (np.outer(mean, c) + ABS.hermite(1, h)[:, None] * (directions @ V.T))
    return np.asarray(
        A @ _absolute_products(directions, h) @ A.T + cross + cross.T + V @ V.T + np.outer(c, c)
    )


def _absolute_products(U: Array, h: Array) -> Array:
    """`E |u_i.x + h_i| |u_j.x + h_j|` for all pairs of unit vectors, rows of U."""
    apart, opposed = cdist(U, U), cdist(U, -U)
    r = apart * opposed / 2
    rho = np.where(apart < opposed, 1 - apart**2 / 2, opposed**2 / 2 - 1)
    i, j = h[:, None], h[None, :]
    # k - rho h, from the difference or the sum of the biases for (nearly) parallel units
    rest = np.where(apart < opposed, (j - i) + apart**2 / 2 * i, (j + i) - opposed**2 / 2 * i)
    t = _ratio(rest, r)
    s = t.T
    P = 1 - 4 * _owen(i, t, apart, r) - 4 * _owen(j, s, apart, r) - 2 * ((i < 0) != (j < 0))
    edges = i * normal_density(j) * special.erf(s / math.sqrt(2))
    corner = r * normal_density(i) * normal_density(t)
    return np.asarray((rho + i * j) * P + 2 * (edges + edges.T) + 2 * (corner + corner.T))


def _owen(h: Array, t: Array, apart: Array, r: Array) -> Array:
    """Owen's `T(h, t / h)`; where h = 0 its limit from above, along h = k if both are 0."""
    at_zero = np.where(t == 0, _ratio(apart**2 / 2, r), np.copysign(np.inf, t))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(h == 0, at_zero, t / h)
    return np.asarray(special.owens_t(h, slope))


def _ratio(x: Array, r: Array) -> Array:
    """`x / r`, and 0 for 0 / 0: the same unit twice, where all terms with it cancel."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x == 0, 0.0, x / r)


def _affine_part(combination: Combination) -> tuple[Array, Array]:
    """The linear term (outputs, features) and the output bias (outputs,) of the sum."""
    first = combination[0][1]
    V, c = np.zeros((first.outputs or 1, first.features)), np.zeros(first.outputs or 1)
    for factor, net in combination:
        V += 0.0 if net.linear is None else factor * np.atleast_2d(net.linear)
        c += factor * np.ravel(net.output_bias)
    return V, c


def _difference(f: Network, g: Network) -> Combination:
    f, g = (network.as_one_layer("The population risk") for network in (f, g))
    sizes = [(network.features, network.outputs or 1) for network in (f, g)]
    if sizes[0] != sizes[1]:
        raise InvalidInput(
            f"The networks have {sizes[0]} and {sizes[1]} features and outputs: give two networks "
            "of the same sizes."
        )
    return ((1.0, f.canonical()), (-1.0, g.canonical()))


def _check_order(order: int) -> None:
    most = 150  # beyond it He_k and k! leave the range of floating point numbers
    if not (is_whole(order) and 0 <= order <= most):
        raise InvalidInput(f"The order must be a whole number from 0 to {most}, not {order!r}.")
