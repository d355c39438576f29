"""Least squares for a lowest layer and a polynomial above it, jointly.

    f(x) = sum_S c_S prod_{i in S} u(w_i.x - t_i)

Moments, bands and cliques give directions to some degrees, or weights up to their length; from
there the labels themselves pin everything down, to machine precision where they have no noise.
Levenberg-Marquardt over (W, t, c) on a sample of bounded size; monomials are added, degree by
degree, as long as labels are not explained. With k units there are `binomial(k, m)` products of m,
and a step costs their number squared times the samples: `affordable_tops` says how far it goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement

import numpy as np
from scipy.optimize import least_squares

from provenet.common.typing import Array
from provenet.lowest_layer.tolerances import (
    FIT_DEGREE,
    FIT_EVALUATIONS,
    FIT_EXPLAINED,
    FIT_FEWEST_A_PARAMETER,
    FIT_FEWEST_SEEN,
    FIT_MOST_ENTRIES,
    FIT_MOST_OF_HIGH_DEGREE,
    FIT_MOST_PARAMETERS,
    FIT_SAMPLES_A_PARAMETER,
    FIT_SINGULAR,
    NO_EFFECT,
    WORTH_MONOMIALS,
)
from provenet.networks.layered import (
    LayeredNetwork,
    Polynomial,
    UnitProducts,
    slopes_of,
    unit_values,
)
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


def fit_layer(X: Array, y: Array, layer: Network, degree: int = FIT_DEGREE) -> LayerFit | None:
    """The best fit near a layer, with the fewest monomials that serve; None for too few samples.

    Products go up to `degree` units, as far as there are samples and room for their coefficients
    (`affordable_tops`). Labels that it does not explain may have noise, so then all samples count
    that memory allows.
    """
    best: LayerFit | None = None
    tops = list(affordable_tops(layer, len(y), degree))
    for monomials in tops if degree <= FIT_DEGREE else tops[_first_serving(X, y, layer, tops) :]:
        starts = [layer] if best is None else [best.network.layer, layer]
        # Too few monomials may have led a fit astray: the layer given may be the better start.
        problems = [_problem(X, y, start, monomials) for start in starts]
        whole = min(problems, key=lambda problem: problem.top_at_start[1])
        enough = np.inf if best is None else WORTH_MONOMIALS * best.residual
        if degree_of(monomials) > FIT_DEGREE and whole.top_at_start[1] >= enough:
            continue  # these are many, and do not help before the units move
        few = whole.first(FIT_SAMPLES_A_PARAMETER * parameters_of(layer, monomials))
        fitted = few.solve() if few.monomials == whole.monomials else None
        if fitted is None or not whole.explained_by(fitted):
            fitted = whole.solve()
        if best is None or fitted.residual < enough:
            best = fitted
        if best.explains:
            break
    return best


def _first_serving(X: Array, y: Array, layer: Network, tops: list[Monomials]) -> int:
    """The first top than which no later one explains clearly more before the units move."""
    left = [_problem(X, y, layer, monomials).top_at_start[1] for monomials in tops]
    serve = (i for i in range(len(tops)) if WORTH_MONOMIALS * left[i] <= min(left[i:]))
    return next(serve, 0)


def fit_monomials(X: Array, y: Array, layer: Network, monomials: Monomials) -> LayerFit:
    """The fit near a layer with these monomials, on as many samples as memory allows."""
    return _problem(X, y, layer, monomials).solve()


def _problem(X: Array, y: Array, layer: Network, monomials: Monomials) -> _LayerProblem:
    parameters = parameters_of(layer, monomials)
    most = max(FIT_MOST_ENTRIES // parameters, FIT_FEWEST_A_PARAMETER * parameters)
    return _LayerProblem(X[:most], y[:most], layer, monomials)


def affordable_tops(layer: Network, samples: int, degree: int) -> Iterator[Monomials]:
    """Products of up to two units, of three, .., that samples and time allow; then powers too."""
    for monomials in _tops(layer.units, degree):
        parameters = parameters_of(layer, monomials)
        low = degree_of(monomials) <= FIT_DEGREE
        most = FIT_MOST_PARAMETERS if low else FIT_MOST_OF_HIGH_DEGREE
        if FIT_FEWEST_A_PARAMETER * parameters <= samples and parameters <= most:
            yield monomials


def parameters_of(layer: Network, monomials: Monomials) -> int:
    """How many numbers there are to fit."""
    return layer.units * (layer.features + 1) + len(monomials)


def degree_of(monomials: Monomials) -> int:
    """The largest number of factors."""
    return max(map(len, monomials))


def _tops(units: int, degree: int) -> Iterator[Monomials]:
    squarefree: Monomials = []
    for size in range(min(units, degree) + 1):
        squarefree += combinations(range(units), size)
        if size >= min(2, units):
            yield list(squarefree)
    powers = [
        m for d in range(FIT_DEGREE + 1) for m in combinations_with_replacement(range(units), d)
    ]
    if len(powers) > len([m for m in squarefree if len(m) <= FIT_DEGREE]):
        yield powers


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

    @cached_property
    def top_at_start(self) -> tuple[Array, float]:
        """Coefficients for the units as they are, and the root mean square of what is left."""
        columns = self._columns(unit_values(self.start, self.X))
        c = np.linalg.lstsq(columns, self.y, rcond=1e-12)[0]
        free = max(len(self.y) - columns.shape[1], 1)
        left = float(np.linalg.norm(self.y - columns @ c))
        return np.asarray(c, dtype=float), left / float(np.sqrt(free))

    def solve(self) -> LayerFit:
        """Levenberg and Marquardt's minimum from the start."""
        units = np.column_stack([self.start.weights, -self.start.biases])
        c, _ = self.top_at_start
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
        units, c = self._split(parameters)
        H = self.start.activation(self._margins(units))
        off = (self._columns(H) @ c - self.y) / self.spread
        return np.asarray(np.where(np.isfinite(off), off, 1e100))

    def jacobian(self, parameters: Array) -> Array:
        """Derivatives: `dP/dX_i u'(w_i.x - t_i) (x, -1)` by unit, then the monomials."""
        units, c = self._split(parameters)
        z = self._margins(units)
        products = UnitProducts(self.start.activation(z))
        terms = dict(zip(self.monomials, c.tolist(), strict=True))
        pull = slopes_of(terms, products) * self.start.activation.derivative(z)
        by_unit = (pull[:, :, None] * self.extended[:, None, :]).reshape(len(self.X), -1)
        columns = [products[monomial] for monomial in self.monomials]
        return np.column_stack([by_unit, *columns]) / self.spread

    def _margins(self, units: Array) -> Array:
        return np.asarray(self.X @ units[:, :-1].T - units[:, -1])

    def _columns(self, H: Array) -> Array:
        products = UnitProducts(H)
        return np.stack([products[monomial] for monomial in self.monomials]).T

    def _split(self, parameters: Array) -> tuple[Array, Array]:
        """(W, t), a row a unit, and c."""
        split = self.shape[0] * self.shape[1]
        return parameters[:split].reshape(self.shape), parameters[split:]

    def _unpacked(self, parameters: Array) -> tuple[Network, Polynomial]:
        units, c = self._split(parameters)
        layer = Network(units[:, :-1], -units[:, -1], activation=self.start.activation)
        return layer, Polynomial(self.shape[0], dict(zip(self.monomials, c.tolist(), strict=True)))

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
