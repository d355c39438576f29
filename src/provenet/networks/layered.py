"""A lowest layer of units under any top: `f(x) = P(u(w_1.x - t_1), ..., u(w_k.x - t_k))` (GP19).

The layer is a `Network` of which only the units count (weights `w_i`, biases `-t_i`, activation u);
the top P is a function of their values (samples, units). Letters of the paper: its W, t, u, P, and
`c_r` for the coefficients of a polynomial P.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from scipy.special import expit

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array, row_blocks
from provenet.common.words import counted
from provenet.networks.activations import Activation
from provenet.networks.network import Network

Top = Callable[[Array], Array]
"""From the units' values (n, units) to labels (n,)."""


@dataclass(frozen=True)
class LayeredNetwork:
    """`x -> top(units of layer at x)`."""

    layer: Network
    top: Top

    @property
    def units(self) -> int:
        """Number of units in the lowest layer."""
        return self.layer.units

    @property
    def features(self) -> int:
        """Number of inputs."""
        return self.layer.features

    @property
    def thresholds(self) -> Array:
        """`t_i`: a unit is active where `w_i.x > t_i`."""
        return -self.layer.biases

    @property
    def top_in_words(self) -> str:
        """What lies above the layer."""
        if not isinstance(self.top, Polynomial):
            return getattr(self.top, "__name__", "learned")
        degree = max((len(monomial) for monomial in self.top.terms), default=0)
        return f"a polynomial of degree {degree} with {counted(len(self.top.terms), 'term')}"

    def __call__(self, X: Array) -> Array:
        """Labels of the rows of X, a block at a time."""
        X = np.asarray(X, dtype=float)
        parts = [self.top(unit_values(self.layer, X[rows])) for rows in row_blocks(len(X))]
        return np.concatenate(parts) if parts else np.empty(0)


def lowest_layer(weights: Any, thresholds: Any, activation: str | Activation = "relu") -> Network:
    """Units `u(w_i.x - t_i)`; one threshold for all, or one each."""
    W = np.asarray(weights, dtype=float)
    t = np.broadcast_to(np.asarray(thresholds, dtype=float), (len(W),))
    return Network(W, -t, activation=activation)


def unit_values(layer: Network, X: Array) -> Array:
    """Values of the units at the rows of X, (n, units)."""
    return layer.activation(X @ layer.weights.T + layer.biases)


class UnitProducts(dict[tuple[int, ...], Array]):
    """Products of the columns of H by their numbers; each is formed once, from a shorter one."""

    def __init__(self, H: Array) -> None:
        """Start with the empty product and the columns."""
        super().__init__({(i,): column for i, column in enumerate(np.ascontiguousarray(H.T))})
        self[()], self.shape = np.ones(len(H)), H.shape

    def __missing__(self, monomial: tuple[int, ...]) -> Array:
        """Multiply by the last factor."""
        self[monomial] = self[monomial[:-1]] * self[monomial[-1:]]
        return self[monomial]


def slopes_of(terms: Mapping[tuple[int, ...], float], products: UnitProducts) -> Array:
    """Derivatives of a sum of monomials by every unit's value, (n, units)."""
    slopes = np.zeros(products.shape[::-1])
    for monomial, c in terms.items():
        for at, i in enumerate(monomial):
            slopes[i] += c * products[monomial[:at] + monomial[at + 1 :]]
    return slopes.T


class Polynomial:
    """A multivariate polynomial of the units' values, as monomials.

    `terms` maps the units in a monomial to its coefficient: `{(0,): 1.0, (0, 2): 0.5, (1, 1): 2.0}`
    is `X_0 + X_0 X_2 / 2 + 2 X_1^2`; `()` is the constant.
    """

    def __init__(self, units: int, terms: Mapping[tuple[int, ...], float]) -> None:
        """Check that the monomials are of these units."""
        for monomial in terms:
            if any(not 0 <= i < units for i in monomial):
                raise InvalidInput(
                    f"The monomial {monomial} has an unknown unit: units are numbered from 0 to "
                    f"{units - 1}."
                )
        self.units = units
        self.terms = {tuple(sorted(key)): float(c) for key, c in terms.items()}

    def __call__(self, H: Array) -> Array:
        """Values at the rows of H (n, units)."""
        products = UnitProducts(H)
        return sum((c * products[key] for key, c in self.terms.items()), np.zeros(len(H)))

    def gradient(self, H: Array) -> Array:
        """Derivatives by every unit's value at the rows of H, (n, units)."""
        return slopes_of(self.terms, UnitProducts(H))

    def reflected(self, i: int) -> Polynomial:
        """The polynomial with `1 - X_i` in place of `X_i`."""
        terms: dict[tuple[int, ...], float] = {}
        for monomial, c in self.terms.items():
            power, others = monomial.count(i), [j for j in monomial if j != i]
            for p in range(power + 1):
                key = tuple(sorted([*others, *[i] * p]))
                terms[key] = terms.get(key, 0.0) + c * comb(power, p) * (-1.0) ** p
        return Polynomial(self.units, terms)

    @property
    def linear(self) -> Array:
        """Coefficients of the linear terms."""
        return np.array([self.terms.get((i,), 0.0) for i in range(self.units)])


def union(H: Array) -> Array:
    """OR: `1 - prod(1 - X_i)`, 1 where any unit of a layer of steps is active."""
    return np.asarray(1 - np.prod(1 - H, axis=1))


def intersection(H: Array) -> Array:
    """AND: `prod X_i`."""
    return np.asarray(np.prod(H, axis=1))


def sigmoid_of_sum(weights: Any, bias: float = 0.0) -> Top:
    """`1 / (1 + exp(-(v.X - bias)))`, less its value where no unit is active."""
    v = np.asarray(weights, dtype=float)
    return lambda H: np.asarray(expit(H @ v - bias) - expit(-bias))
