"""Fit a network to its moments: the truncated population risk.

    F(a, b, W) = sum_k 1/k! || T_k - sum_i a_i c_k(b_i) w_i^(x)k ||^2,   |w_i| = 1, k = 2, 3, 4

With all orders this is E(f - g)^2 (ATV21, Proposition B.1; GLM17, Theorem 2.2 with the third order
added), and 1/k! is also one over the variance that sampling gives `T_k`. Order 1 is left out, so
signs of units play no part: (w, b) and (-w, -b) have the same moments of order 2 and up.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np
from scipy.optimize import minimize

from provenet.common.typing import Array
from provenet.moments.decomposition.contraction import Contractions
from provenet.moments.tolerances import FIT_DECREASE, FIT_RIDGE, FIT_SLOPE
from provenet.networks.activations import Activation

ORDERS = (2, 3, 4)
"""Derived: the orders of the risk above: lower ones have signs, higher ones are not estimated."""


@dataclass(frozen=True)
class MomentFit:
    """Units (up to sign) in the coordinates of the moments, and the risk that is left."""

    a: Array
    b: Array
    W: Array
    risk: float


class _Risk:
    """Value and gradient of the risk at (a, b, W), rows of W of any length."""

    def __init__(self, tensors: tuple[Array, ...], activation: Activation, units: int) -> None:
        self.activation, self.m, self.d = activation, units, len(tensors[2])
        self.T2, self.higher = tensors[2], Contractions(tensors[3], tensors[4])
        self.constant = sum(float(np.sum(tensors[k] ** 2)) / factorial(k) for k in ORDERS)

    def contractions(self, V: Array) -> list[Array]:
        """`T_k(v, .., v, .)` for every row v, k = 2, 3, 4."""
        return [V @ self.T2, self.higher.third(V), self.higher.fourth(V)]

    def best_output_weights(self, b: Array, V: Array) -> Array:
        """The a that minimises the risk at given units: a linear problem."""
        gram, rhs = np.zeros((len(b), len(b))), np.zeros(len(b))
        inner = V @ V.T
        for k, TV in zip(ORDERS, self.contractions(V), strict=True):
            c = self.activation.hermite(k, b)
            gram += np.outer(c, c) * inner**k / factorial(k)
            rhs += c * np.einsum("md,md->m", TV, V) / factorial(k)
        ridge = FIT_RIDGE * np.trace(gram) * np.eye(len(b))
        return np.linalg.solve(gram + ridge, rhs)

    def __call__(self, x: Array) -> tuple[float, Array]:
        m = self.m
        a, b, W = x[:m], x[m : 2 * m], x[2 * m :].reshape(m, self.d)
        norm = np.linalg.norm(W, axis=1, keepdims=True)
        V = W / norm
        inner = V @ V.T
        value, grad_a, grad_b, grad_V = self.constant, np.zeros(m), np.zeros(m), np.zeros_like(V)
        for k, TV in zip(ORDERS, self.contractions(V), strict=True):
            weight = 1 / factorial(k)
            unit, slope = self.activation.hermite(k, b), self.activation.hermite(k + 1, b)
            c = a * unit
            power = inner ** (k - 1)
            along = np.einsum("md,md->m", TV, V)
            value += weight * float(c @ (power * inner) @ c - 2 * c @ along)
            grad_c = 2 * weight * ((power * inner) @ c - along)
            grad_a += grad_c * unit
            grad_b += grad_c * a * slope
            grad_V += 2 * k * weight * c[:, None] * ((power * c) @ V - TV)
        grad_W = (grad_V - np.einsum("md,md->m", grad_V, V)[:, None] * V) / norm
        return value, np.concatenate([grad_a, grad_b, grad_W.ravel()])


def fit_moments(
    tensors: tuple[Array, ...], activation: Activation, W: Array, b: Array, iterations: int = 400
) -> MomentFit:
    """L-BFGS from the given directions and biases; the output weights start at their best."""
    scale = float(np.linalg.norm(tensors[2]))  # L-BFGS stops at absolute sizes: make them relative
    risk = _Risk(tuple(T / scale for T in tensors), activation, len(W))
    V = W / np.linalg.norm(W, axis=1, keepdims=True)
    x = np.concatenate([risk.best_output_weights(b, V), b, V.ravel()])
    options = {"maxiter": iterations, "maxcor": 20, "ftol": FIT_DECREASE, "gtol": FIT_SLOPE}
    found = minimize(risk, x, jac=True, method="L-BFGS-B", options=options)
    m = len(W)
    W = found.x[2 * m :].reshape(m, -1)
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    return MomentFit(scale * found.x[:m], found.x[m : 2 * m], W, scale**2 * float(found.fun))
