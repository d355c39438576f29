"""Functions of a unit, and how two units agree on standard normal inputs (GLM17, Claim 4.3).

For unit vectors u, v with inner product rho,

    K(rho) = E[sigma(u.x) sigma(v.x)] = sum_k c_k^2 rho^k / k!,   c_k = E[sigma(g) He_k(g)].

Differentiating the series, or integrating by parts, `K'(rho) = E[sigma'(u.x) sigma'(v.x)]`: the
kernel of the derivative. So step, ReLU and its powers have closed forms that are each other's
derivatives (with theta = arccos rho, the arc-cosine kernels of Cho and Saul, 2009):

    step    pi - theta
    relu    sin theta + (pi - theta) cos theta
    relu2   3 sin theta cos theta + (pi - theta) (1 + 2 cos^2 theta)
    relu3   15 sin theta - 11 sin^3 theta + (pi - theta) (9 cos theta + 6 cos^3 theta)

all over 2 pi; and `sigma(z) = (1 - s) relu(z) + s z` has `(1 - s)^2 K_relu + s rho`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import factorial, pi

import numpy as np
from numpy.polynomial import Polynomial

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.landscape.tolerances import ENERGY_LEFT_OUT, LEAST_SQUARED_SINE, LONGEST_SERIES
from provenet.networks.activations import Activation, get_activation
from provenet.networks.hermite import quadrature_coefficient

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Shape:
    """The function gamma of a unit and its first two derivatives, elementwise."""

    function: Function
    first: Function
    second: Function


RELU_SHAPE = Shape(lambda z: np.maximum(z, 0.0), lambda z: (z > 0).astype(z.dtype), np.zeros_like)
"""The kink has no second derivative: samples do not lie on it."""
ABS_HALF = Shape(lambda z: np.abs(z) / 2, lambda z: np.sign(z) / 2, np.zeros_like)
"""`|z| / 2`, the even part of ReLU (GLM17, footnote 12)."""


def hermite_shape(activation: Activation) -> Shape:
    """`sigma_2 h_2 + sigma_4 h_4 = c_2 He_2 / 2 + c_4 He_4 / 24` (GLM17, below 2.5)."""
    alpha, beta = float(activation.hermite(2, 0.0)) / 2, float(activation.hermite(4, 0.0)) / 24
    middle, last = alpha - 6 * beta, 3 * beta - alpha  # beta z^4 + middle z^2 + last

    def function(z: Array) -> Array:
        square = z * z
        total = beta * square
        total += middle
        total *= square
        total += last
        return total

    def first(z: Array) -> Array:
        total = z * z
        total *= 4 * beta
        total += 2 * middle
        total *= z
        return total

    def second(z: Array) -> Array:
        return np.asarray(12 * beta * z**2 + 2 * middle)

    return Shape(function, first, second)


@dataclass(frozen=True)
class Kernel:
    """`E[gamma(u.x) tau(v.x)]` as a function of `rho = u.v`, and its first two derivatives."""

    value: Function
    first: Function
    second: Function

    def scaled(self, factor: float, linear: float = 0.0) -> Kernel:
        """`factor K(rho) + linear rho`: of `sqrt(factor) sigma` where linear is 0."""
        return Kernel(
            lambda rho: factor * self.value(rho) + linear * rho,
            lambda rho: factor * self.first(rho) + linear,
            lambda rho: factor * self.second(rho),
        )


def kernel(activation: Activation) -> Kernel:
    """The kernel of an activation with itself: in closed form, or its series where that is short.

    The series of a function with a kink or jump is long; only those named above are known closed.
    """
    if activation.slope is not None:
        return _RELU.scaled((1 - activation.slope) ** 2, linear=activation.slope)
    closed = _CLOSED.get(activation)
    return _series(activation) if closed is None else closed


def even_kernel(activation: Activation, orders: Iterable[int] = (2, 4)) -> Kernel:
    """`sum_k c_k^2 rho^k / k!` over the orders k.

    With orders 2 and 4 it is the kernel of `gamma = sigma_2 h_2 + sigma_4 h_4` (GLM17, below 2.5)
    with itself, and of gamma with the activation: the two share these coefficients.
    """
    kept = set(orders)
    return _polynomial([_energy(activation, k) if k in kept else 0.0 for k in range(max(kept) + 1)])


def _energy(activation: Activation, k: int) -> float:
    """`c_k^2 / k!`, what order k adds to `E[sigma(g)^2]`."""
    return float(activation.hermite(k, 0.0)) ** 2 / factorial(k)


def _series(activation: Activation) -> Kernel:
    """The series up to the order that leaves next to nothing of `E[sigma(g)^2]`."""
    total = quadrature_coefficient(lambda g: activation(g) ** 2, 0, (0.0,))
    energies: list[float] = []
    while total - sum(energies) > ENERGY_LEFT_OUT * total:
        if len(energies) > LONGEST_SERIES:
            raise InvalidInput(
                f"The Hermite series of the activation {activation.name} is too long to be summed: "
                "use a smooth one, or one of relu, leaky_relu, abs, relu2, relu3 and step."
            )
        energies.append(_energy(activation, len(energies)))
    return _polynomial(energies)


def _polynomial(coefficients: list[float]) -> Kernel:
    p = Polynomial(coefficients)
    return Kernel(p, p.deriv(), p.deriv(2))


def _sine_and_rest(rho: Array) -> tuple[Array, Array]:
    """`sin theta` and `pi - theta`; rounding may have put rho beyond 1."""
    rho = np.clip(rho, -1.0, 1.0)
    return np.sqrt((1 - rho) * (1 + rho)), pi - np.arccos(rho)


def _squared_sine(rho: Array) -> Array:
    return np.asarray(np.maximum((1 - rho) * (1 + rho), LEAST_SQUARED_SINE))


def _step(rho: Array) -> Array:
    return _sine_and_rest(rho)[1] / (2 * pi)


def _step_first(rho: Array) -> Array:
    return np.asarray(_squared_sine(rho) ** -0.5 / (2 * pi))


def _step_second(rho: Array) -> Array:
    return np.asarray(rho * _squared_sine(rho) ** -1.5 / (2 * pi))


def _relu(rho: Array) -> Array:
    sine, rest = _sine_and_rest(rho)
    return (sine + rho * rest) / (2 * pi)


def _relu2(rho: Array) -> Array:
    sine, rest = _sine_and_rest(rho)
    return (3 * sine * rho + rest * (1 + 2 * rho**2)) / (2 * pi)


def _relu3(rho: Array) -> Array:
    sine, rest = _sine_and_rest(rho)
    return (15 * sine - 11 * sine**3 + rest * (9 * rho + 6 * rho**3)) / (2 * pi)


_RELU = Kernel(_relu, _step, _step_first)
_CLOSED = {
    get_activation("step"): Kernel(_step, _step_first, _step_second),
    get_activation("relu2"): Kernel(_relu2, lambda r: 4 * _relu(r), lambda r: 4 * _step(r)),
    get_activation("relu3"): Kernel(_relu3, lambda r: 9 * _relu2(r), lambda r: 36 * _relu(r)),
}
