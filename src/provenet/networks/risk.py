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
a risk below 1e-15 of `E f^2` cannot be told from zero.
"""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.networks.activations import ABS
from provenet.networks.hermite import normal_density, quadrature_coefficient
from provenet.networks.network import Network
from provenet.networks.piecewise import as_absolute

Combination = tuple[tuple[float, Network], ...]
"""Networks in canonical form and the factors with which they are added."""


def population_risk(f: Network, g: Network, order: int | None = None) -> float:
    """`E |f(x) - g(x)|^2` for standard normal x, summed over several outputs.

    Parameters
    ----------
    f, g
        Networks with as many features and outputs; weights of any norm.
    order
        The last order of Proposition B.1 that counts: less than the risk by `truncation_bound` at
        most. None, for piecewise linear units: all of them, in closed form.

    Raises
    ------
    InvalidInput
        If the networks do not compare, or for units that are not piecewise linear without an order.
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
    for _, network in difference:
        size += np.abs(np.atleast_2d(network.output_weights)) @ _tails(network, order)
    if order == 0:
        size += np.linalg.norm(_linear(difference), axis=1)
    return float(size @ size)


def order_part(combination: Combination, k: int) -> Array:
    """`<T_k, T_k'> / k!` for all pairs of outputs (outputs, outputs) of a sum of networks."""
    coefficients = np.hstack([factor * _coefficients(net, k) for factor, net in combination])
    if k == 0:
        T = coefficients.sum(axis=1) + _constant(combination)
        return np.outer(T, T)
    directions = np.vstack([_directions(net) for _, net in combination])
    if k == 1:
        T = coefficients @ directions + _linear(combination)
        return np.asarray(T @ T.T)
    return np.asarray(coefficients @ (directions @ directions.T) ** k @ coefficients.T)


def second_moment(combination: Combination) -> Array:
    """`E f(x) f(x)^T` (outputs, outputs) of a sum of networks with piecewise linear units."""
    parts = tuple((factor, _absolute(network)) for factor, network in combination)
    A = np.hstack([factor * np.atleast_2d(net.output_weights) for factor, net in parts])
    h = np.concatenate([net.biases for _, net in parts])
    directions = np.vstack([net.weights for _, net in parts])
    V, c = _linear(parts), _constant(parts)
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
    """`x / r`, and 0 for 0 / 0: the same unit twice, where every term it stands in cancels."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x == 0, 0.0, x / r)


def _tails(network: Network, order: int) -> Array:
    """For each unit the norm of its orders above `order`: what the lower leave of `E sigma^2`."""
    norm = np.linalg.norm(network.weights, axis=1)
    seen = sum(
        network.activation.hermite(k, network.biases, norm) ** 2 / math.factorial(k)
        for k in range(order + 1)
    )
    squares = [
        _mean_square(network, float(b), float(s)) for b, s in zip(network.biases, norm, strict=True)
    ]
    return np.sqrt(np.maximum(np.array(squares) - seen, 0.0))


def _mean_square(network: Network, bias: float, scale: float) -> float:
    zero = (-bias / scale,)
    return quadrature_coefficient(lambda x: network.activation(scale * x + bias) ** 2, 0, zero)


def _coefficients(network: Network, k: int) -> Array:
    """`a_i c_k(b_i) / sqrt(k!)` (outputs, units)."""
    norm = np.linalg.norm(network.weights, axis=1)
    c = network.activation.hermite(k, network.biases, norm) / math.sqrt(math.factorial(k))
    return np.atleast_2d(network.output_weights) * c


def _directions(network: Network) -> Array:
    return np.asarray(network.weights / np.linalg.norm(network.weights, axis=1, keepdims=True))


def _constant(combination: Combination) -> Array:
    """The output bias of the sum (outputs,)."""
    outputs = combination[0][1].outputs or 1
    biases = [factor * np.ravel(network.output_bias) for factor, network in combination]
    return np.asarray(sum(biases, np.zeros(outputs)))


def _linear(combination: Combination) -> Array:
    """The linear term of the sum (outputs, features)."""
    first = combination[0][1]
    terms = [f * np.atleast_2d(net.linear) for f, net in combination if net.linear is not None]
    return np.asarray(sum(terms, np.zeros((first.outputs or 1, first.features))))


def _absolute(network: Network) -> Network:
    if network.activation.slope is None:
        raise InvalidInput(
            f"The risk in closed form is for piecewise linear units, not "
            f"{network.activation.name!r}: give an order."
        )
    return as_absolute(network)


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
    whole = isinstance(order, Integral) and not isinstance(order, bool)
    if not (whole and 0 <= order <= most):
        raise InvalidInput(f"The order must be a whole number from 0 to {most}: {order!r}.")
