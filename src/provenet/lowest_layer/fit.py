"""Least squares for a lowest layer and a polynomial above it, jointly.

    f(x) = sum_S c_S prod_{i in S} u(w_i.x - t_i)

Moments, bands and cliques give directions to some degrees, or weights up to their length; from
there the labels themselves pin everything down, to machine precision where they have no noise.
Levenberg-Marquardt over (W, t, c) on a sample of bounded size; monomials are added, degree by
degree, as long as labels are not explained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from math import comb

import numpy as np
from scipy.optimize import least_squares

from provenet.common.typing import Array
from provenet.lowest_layer.tolerances import (
    FIT_EVALUATIONS,
    FIT_EXPLAINED,
    FIT_FEWEST_A_PARAMETER,
    FIT_FEWEST_SEEN,
    FIT_MOST_ENTRIES,
    FIT_MOST_PARAMETERS,
    FIT_SAMPLES_A_PARAMETER,
    FIT_SINGULAR,
    NO_EFFECT,
    WORTH_MONOMIALS,
)
from provenet.networks.layered import LayeredNetwork, Polynomial, unit_values
from provenet.networks.network import Network

Monomials = list[tuple[int, ...]]


@dataclass(frozen=True)
class LayerFit:
    """A layer under a polynomial, fitted to labels."""

    network: LayeredNetwork
    residual: float
    """Root mean square of what is left of the labels, corrected for the parameters fitted."""
    spread: float
    """Standard deviation of the labels."""
    weight_errors: Array
    """(units, features): standard errors, if what is left is noise."""
    threshold_errors: Array
    samples: int
    determined: bool
    """Whether the labels determine every parameter, but for lengths that move into the top."""

    @property
    def explains(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.residual <= FIT_EXPLAINED * self.spread

    @property
    def angle_errors(self) -> Array:
        """Radians, one standard error, by which noise turns each unit."""
        lengths = np.linalg.norm(self.network.layer.weights, axis=1)
        return np.asarray(np.linalg.norm(self.weight_errors, axis=1) / lengths)


def fit_layer(X: Array, y: Array, layer: Network) -> LayerFit | None:
    """The best fit near a layer, with the fewest monomials that serve; None for too few samples.

    Labels that it does not explain may have noise, so then all samples count that memory allows.
    """
    best: LayerFit | None = None
    for monomials in _tops(layer.units):
        parameters = layer.units * (layer.features + 1) + len(monomials)
        if len(y) < FIT_FEWEST_A_PARAMETER * parameters or parameters > FIT_MOST_PARAMETERS:
            break
        start = layer if best is None else best.network.layer
        most = max(FIT_MOST_ENTRIES // parameters, FIT_FEWEST_A_PARAMETER * parameters)
        whole = _LayerProblem(X[:most], y[:most], start, monomials)
        few = whole.first(FIT_SAMPLES_A_PARAMETER * parameters)
        fitted = few.solve() if few.monomials == whole.monomials else None
        if fitted is None or not whole.explained_by(fitted):
            fitted = whole.solve()
        if best is None or fitted.residual < WORTH_MONOMIALS * best.residual:
            best = fitted
        if best.explains:
            break
    return best


def fit_monomials(X: Array, y: Array, layer: Network, monomials: Monomials) -> LayerFit:
    """The fit near a layer with these monomials, on as many samples as memory allows."""
    parameters = layer.units * (layer.features + 1) + len(monomials)
    most = max(FIT_MOST_ENTRIES // parameters, FIT_FEWEST_A_PARAMETER * parameters)
    return _LayerProblem(X[:most], y[:most], layer, monomials).solve()


def _tops(units: int) -> Iterator[Monomials]:
    """Sets of monomials, each in the next: products of two, of three; then powers as well."""
    squarefree: Monomials = []
    for degree in range(min(units, 3) + 1):
        squarefree += combinations(range(units), degree)
        if degree >= min(2, units):
            yield list(squarefree)
    if comb(units + 3, 3) > len(squarefree):
        yield [m for d in range(4) for m in combinations_with_replacement(range(units), d)]


def _seen(H: Array, monomial: tuple[int, ...]) -> bool:
    """Whether enough samples have all its units fire."""
    return int(np.count_nonzero(np.all(H[:, list(monomial)] != 0, axis=1))) >= FIT_FEWEST_SEEN


class _LayerProblem:
    """Residuals and their Jacobian in the parameters (W, t, c), one after the other."""

    def __init__(self, X: Array, y: Array, layer: Network, monomials: Monomials) -> None:
        self.X, self.y, self.start = X, y, layer
        H = unit_values(layer, X)
        self.monomials = [m for m in monomials if _seen(H, m)]
        self.extended = np.column_stack([X, -np.ones(len(X))])
        self.shape = (layer.units, layer.features + 1)
        self.spread = max(float(np.std(y)), 1e-300)

    def first(self, rows: int) -> _LayerProblem:
        """The same with fewer samples."""
        return _LayerProblem(self.X[:rows], self.y[:rows], self.start, self.monomials)

    def explained_by(self, fit: LayerFit) -> bool:
        """Whether a fit to fewer samples explains all of these."""
        left = fit.network(self.X) - self.y
        return bool(np.sqrt(np.mean(left**2)) <= FIT_EXPLAINED * self.spread)

    def solve(self) -> LayerFit:
        """Levenberg and Marquardt's minimum from the start."""
        units = np.column_stack([self.start.weights, -self.start.biases])
        columns = self._columns(unit_values(self.start, self.X))
        c = np.linalg.lstsq(columns, self.y, rcond=1e-12)[0]
        with np.errstate(over="ignore", invalid="ignore"):
            found = least_squares(
                self.residuals,
                np.concatenate([units.ravel(), c]),
                jac=self.jacobian,
                method="lm",
                x_scale="jac",
                xtol=1e-15,
                ftol=1e-15,
                gtol=1e-15,
                max_nfev=FIT_EVALUATIONS,
            )
        return self._fit(found.x, found.fun * self.spread, found.jac * self.spread)

    def residuals(self, parameters: Array) -> Array:
        """Predictions less labels, in units of the labels' spread."""
        layer, top = self._unpacked(parameters)
        off = (top(unit_values(layer, self.X)) - self.y) / self.spread
        return np.asarray(np.where(np.isfinite(off), off, 1e100))

    def jacobian(self, parameters: Array) -> Array:
        """Derivatives: `dP/dX_i u'(w_i.x - t_i) (x, -1)` by unit, then the monomials."""
        layer, top = self._unpacked(parameters)
        z = self.X @ layer.weights.T + layer.biases
        H = layer.activation(z)
        pull = top.gradient(H) * layer.activation.derivative(z)
        by_unit = (pull[:, :, None] * self.extended[:, None, :]).reshape(len(self.X), -1)
        return np.column_stack([by_unit, self._columns(H)]) / self.spread

    def _columns(self, H: Array) -> Array:
        return np.column_stack([np.prod(H[:, list(m)], axis=1) for m in self.monomials])

    def _unpacked(self, parameters: Array) -> tuple[Network, Polynomial]:
        split = self.shape[0] * self.shape[1]
        units = parameters[:split].reshape(self.shape)
        layer = Network(units[:, :-1], -units[:, -1], activation=self.start.activation)
        terms = dict(zip(self.monomials, parameters[split:].tolist(), strict=True))
        return layer, Polynomial(self.shape[0], terms)

    def _fit(self, parameters: Array, left: Array, jacobian: Array) -> LayerFit:
        free = max(len(left) - len(parameters), 1)
        residual = float(np.sqrt(left @ left / free))
        # Columns are scaled, but not those of a unit without effect: they must show as zero.
        least = NO_EFFECT * self.spread * np.sqrt(len(left))
        size = np.maximum(np.linalg.norm(jacobian, axis=0), least)
        _, s, V = np.linalg.svd(jacobian / size, full_matrices=False)
        seen = s > FIT_SINGULAR * s[0]
        # Where lengths are free the least-norm inverse leaves them out of the errors.
        scaled = np.sqrt(np.sum((V[seen] / s[seen, None]) ** 2, axis=0)) / size
        errors = (residual * scaled[: self.shape[0] * self.shape[1]]).reshape(self.shape)
        return LayerFit(
            network=LayeredNetwork(*self._unpacked(parameters)),
            residual=residual,
            spread=self.spread,
            weight_errors=errors[:, :-1],
            threshold_errors=errors[:, -1],
            samples=len(left),
            determined=int(np.sum(~seen)) <= self._free_lengths,
        )

    @property
    def _free_lengths(self) -> int:
        """A homogeneous unit's length, or the threshold of an exponential, is a factor in c."""
        activation = self.start.activation
        free = activation.degree is not None or activation.family == "exp"
        return self.start.units if free else 0
