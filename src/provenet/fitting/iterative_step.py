"""Steps of least squares by conjugate gradients, for models whose normal equations are too large.

The letters are those of `normal_equations`. A product with S, the matrix with beta eliminated, is
two passes over the samples: `U = D v A^T` with its overlap `Phi^T U`, then
`D^T (U - Phi G^-1 Phi^T U) A`, `units features` operations a sample each. On standardised inputs
block (i, j) of S is close to a multiple of the identity, `K_ij` times the mean squares of (x, 1):
K is what the slopes of units i and j share beyond the linear part, which is eliminated. The inverse
of K, units by units, is the preconditioner, so that units much alike, or in vain, do not slow the
iteration down. A step of one digit, which is all that Levenberg-Marquardt needs far from the
answer, takes about five products.

Samples in memory are kept with their values and slopes (`linearised`); those that lie elsewhere are
read again for every product, and only the diagonal of S is the preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from provenet.common.ended import Ended
from provenet.common.typing import Array
from provenet.data.sources.base import Source
from provenet.data.sums import Sums
from provenet.fitting.linearised import KeptSamples, Linearised
from provenet.fitting.model import Parameters, model_features
from provenet.fitting.normal_equations import (
    DampedStep,
    floored,
    input_gram,
    promised,
    solver_scaled,
    with_input_gram,
)
from provenet.fitting.tolerances import LEAST_DAMPING, MOST_PRODUCTS, RIDGE, STEP_ACCURACY
from provenet.networks.activations import Activation


class Curvature(Protocol):
    """S as products with vectors, its size along each parameter, and the gradient."""

    rhs: Array
    diagonal: Array

    def product(self, v: Array) -> Array:
        """S times a vector."""
        ...

    def preconditioner(self, damping: float) -> Callable[[Array], Array]:
        """About the inverse of S with so much of its diagonal added."""
        ...


def curvature_at(
    source: Source,
    parameters: Parameters,
    activation: Activation,
    dtype: type[np.floating] = np.float32,
) -> Curvature:
    """At any parameters: from samples that are kept, or else from passes over them."""
    kept = KeptSamples.of(source, parameters, dtype)
    if kept is None:
        return PassCurvature(source, parameters, activation)
    at = Linearised.at(kept, parameters, activation, passes=0)
    return at.without_explained().curvature(LEAST_DAMPING)


class IterativeStep:
    """Damped steps from one point."""

    def __init__(self, curvature: Curvature) -> None:
        """Nothing is computed yet."""
        self.curvature = curvature

    @np.errstate(invalid="ignore")  # BLAS raises flags of lanes that hold no numbers
    def solve(self, damping: float, accuracy: float = STEP_ACCURACY) -> DampedStep:
        """The damped step, to a relative residual of `accuracy`.

        Conjugate gradients that end early still give a direction of descent; `ended` says so.
        """
        rhs, diagonal = self.curvature.rhs, self.curvature.diagonal
        extra = damping * diagonal
        precondition = self.curvature.preconditioner(damping)
        move, r = np.zeros_like(rhs), rhs
        direction = precondition(r)
        size = first = float(r @ direction)
        ended = Ended.OUT_OF_STEPS
        for _ in range(MOST_PRODUCTS):
            if size <= accuracy**2 * first:
                ended = Ended.CONVERGED
                break
            image = self.curvature.product(direction) + extra * direction
            bend = float(direction @ image)
            if bend <= 0:  # rounding: S is positive semidefinite
                break
            move = move + size / bend * direction
            r = r - size / bend * image
            scaled = precondition(r)
            size, before = float(r @ scaled), size
            direction = scaled + size / before * direction
        return DampedStep(move, ended, promised(move, rhs, extra))


@dataclass(frozen=True)
class _PointSums(Sums):
    """The gradient by theta, `diag H` a unit, the units' rows of `G`, and `Phi^T r`."""

    theta_gradient: Array
    diagonal: Array
    gram: Array
    gradient: Array
    rss: float


class PassCurvature:
    """Products with S, each two passes over the samples."""

    def __init__(
        self,
        source: Source,
        parameters: Parameters,
        activation: Activation,
        inputs: Array | None = None,
        floor: float = LEAST_DAMPING,
    ) -> None:
        """One pass for the sums at the point; `inputs` is the samples' `input_gram`."""
        self.source, self._at = source, (parameters, activation)
        self.shape = parameters.theta.shape
        sums = source.total(partial(_point_term, *self._at))
        inputs = input_gram(source, parameters) if inputs is None else inputs
        self.rss, self.gram = sums.rss, with_input_gram(sums.gram, inputs)
        self.best_linear_part = solver_scaled(self.gram, RIDGE * len(self.gram))
        size = np.sum(parameters.output_weights**2, axis=0)[:, None]
        self.diagonal = floored(sums.diagonal * size, floor).ravel()
        # What a better beta takes off the gradient, nearly nothing.
        better = self.best_linear_part(sums.gradient)
        self.rhs = (
            sums.theta_gradient - source.total(partial(_explained, *self._at, better))
        ).ravel()

    def preconditioner(self, damping: float) -> Callable[[Array], Array]:
        """The diagonal: what units share would be one more pass."""
        weights = self.diagonal * (1 + damping)
        return lambda r: np.asarray(r / weights)

    def product(self, v: Array) -> Array:
        """S times a vector."""
        V = v.reshape(self.shape)
        g = self.best_linear_part(self.source.total(partial(_overlap, *self._at, V)))
        return self.source.total(partial(_pulled_back, *self._at, V, g)).ravel()


def _slope(parameters: Parameters, activation: Activation, X: Array) -> tuple[Array, Array]:
    """Slopes of the units, and Phi."""
    z, phi = model_features(parameters, activation, X)
    return activation.derivative(z), phi


def _change(parameters: Parameters, slope: Array, X: Array, V: Array) -> Array:
    """`U`: how the labels change with theta."""
    moved = (X @ V[:, :-1].T + V[:, -1]) * slope
    return np.asarray(moved @ parameters.output_weights.T)


def _pulled(parameters: Parameters, slope: Array, X: Array, R: Array) -> Array:
    """`D^T` of residuals, one row a unit."""
    weighted = (R @ parameters.output_weights) * slope
    return np.column_stack([weighted.T @ X, weighted.sum(axis=0)])


def _point_term(parameters: Parameters, activation: Activation, X: Array, y: Array) -> _PointSums:
    slope, phi = _slope(parameters, activation, X)
    r = (phi @ parameters.beta - y).reshape(len(y), -1)
    squares = slope**2
    return _PointSums(
        _pulled(parameters, slope, X, r),
        np.column_stack([squares.T @ X**2, squares.sum(axis=0)]),
        phi[:, : parameters.units].T @ phi,
        phi.T @ r,
        float(np.vdot(r, r)),
    )


def _explained(
    parameters: Parameters, activation: Activation, g: Array, X: Array, y: Array
) -> Array:
    slope, phi = _slope(parameters, activation, X)
    return _pulled(parameters, slope, X, phi @ g)


def _overlap(parameters: Parameters, activation: Activation, V: Array, X: Array, y: Array) -> Array:
    slope, phi = _slope(parameters, activation, X)
    return np.asarray(phi.T @ _change(parameters, slope, X, V))


def _pulled_back(
    parameters: Parameters, activation: Activation, V: Array, g: Array, X: Array, y: Array
) -> Array:
    slope, phi = _slope(parameters, activation, X)
    return _pulled(parameters, slope, X, _change(parameters, slope, X, V) - phi @ g)
