"""The squared loss as a function of output weights and rows together: f(a, B) of (2.2) and (2.6).

Section 6 of GLM17 descends in both. A point is the matrix `[B | a]`, its last column the output
weights; rows of B are held at norm 1, output weights are free.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.landscape.losses import SampleLoss
from provenet.landscape.objective import Objective, remember_last


class JointLoss(Objective):
    """`L(a, B)` on given samples: a value and its gradient take two products over them."""

    def __init__(self, loss: SampleLoss) -> None:
        """The loss of B whose output weights are set free."""
        self.loss, self.units, self.features = loss, loss.units, loss.features + 1
        self.magnitude = loss.magnitude

    def value(self, C: Array) -> float:
        """The loss at `[B | a]`."""
        return self._at(C)[0]

    def gradient(self, C: Array) -> Array:
        """`[L_B | L_a]`."""
        _, for_a, for_B = self._at(C)
        return np.column_stack([for_B, for_a])

    def hessian_product(self, C: Array, V: Array) -> Array:
        """The Hessian of (a, B) applied to `[V | w]`."""
        (B, a), (V, w) = _parts(C), _parts(V)
        G = self._gram(C)
        turned = self.loss.change_of_partial(a, B, w, V)
        return np.column_stack([turned, 2 * G @ w + self.loss.change_of_weights_slope(a, B, V)])

    def retract(self, C: Array) -> Array:
        """Rows of B back to norm 1."""
        B, a = _parts(C)
        return np.column_stack([B / np.linalg.norm(B, axis=1, keepdims=True), a])

    def tangent(self, C: Array, V: Array) -> Array:
        """The part of V along which rows stay at norm 1."""
        (B, _), (V, w) = _parts(C), _parts(V)
        return np.column_stack([V - np.sum(V * B, axis=1, keepdims=True) * B, w])

    def curvature(self, C: Array, V: Array, gradient: Array) -> Array:
        """The Hessian along the spheres: the gradient's part along b_j counts against v_j."""
        (B, _), (slope, _), (moved, _) = _parts(C), _parts(gradient), _parts(V)
        bend = np.sum(slope * B, axis=1, keepdims=True) * moved
        product = self.tangent(C, self.hessian_product(C, V))
        product[:, :-1] -= bend
        return product

    @remember_last
    def _gram(self, C: Array) -> Array:
        return self.loss.normal_equations(_parts(C)[0])[0]

    @remember_last
    def _at(self, C: Array) -> tuple[float, Array, Array]:
        B, a = _parts(C)
        return self.loss.loss_and_partials(a, B)


def _parts(C: Array) -> tuple[Array, Array]:
    """B and a."""
    return C[:, :-1], C[:, -1]
