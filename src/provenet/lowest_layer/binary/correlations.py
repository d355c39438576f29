"""Correlations of labels with the features and their products: `E[l x]`, `E[l (x x^T - I)]`.

By least squares on all linear and quadratic terms, whose residual is small, with standard errors;
for a label or a function of it, such as its logarithm, which has no heavy tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.common.typing import Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.lowest_layer.tolerances import REGRESSION_ITERATIONS, REGRESSION_TOLERANCE
from provenet.networks.layered import LayeredNetwork, Polynomial

_FEWEST_SAMPLES = 3
"""Samples for every coefficient of the regression."""


@dataclass(frozen=True)
class Correlations:
    """`E[l]`, `T = E[l x]` and `M = E[l (x x^T - I)]` of labels l, with standard errors."""

    mean: float
    linear: Array
    matrix: Array
    linear_errors: Array
    """Of `T_p`."""
    errors: Array
    """Of `M_pq`."""
    linear_difference_errors: Array
    """Of `T_p - T_q`."""
    difference_errors: Array
    """Of `M_pp + M_qq - 2 M_pq`."""
    samples: int | None
    """None: the population."""


@dataclass(frozen=True)
class _Quadratic(Sums):
    """`c + T.x + <M, x x^T - I> / 2`, or sums of a label against the same functions."""

    constant: float
    linear: Array
    matrix: Array

    def __call__(self, X: Array) -> Array:
        quadratic = np.einsum("ni,ni->n", X @ self.matrix, X) - np.trace(self.matrix)
        return np.asarray(self.constant + X @ self.linear + quadratic / 2)

    @classmethod
    def against(cls, X: Array, r: Array) -> _Quadratic:
        total = float(r.sum())
        return cls(total, X.T @ r, (X * r[:, None]).T @ X - total * np.eye(X.shape[1]))

    def scaled(self, s: float) -> _Quadratic:
        return _Quadratic(s * self.constant, s * self.linear, s * self.matrix)

    def size(self) -> float:
        """The mean square of the function on standard normal inputs."""
        return float(
            self.constant**2 + self.linear @ self.linear + np.sum(self.matrix * self.matrix) / 2
        )


def correlations(source: Source, transform: Callable[[Array], Array] | None = None) -> Correlations:
    """By least squares on the linear and quadratic terms: unbiased, and far less variance.

    On standard normal inputs these terms are orthogonal, so the coefficients are the correlations.
    """
    n, p = source.size, source.features
    terms = (p + 1) * (p + 2) // 2
    if n < _FEWEST_SAMPLES * terms:
        raise NoAnswer(
            f"Correlations with all pairs of {p} features need at least "
            f"{_FEWEST_SAMPLES * terms} samples, and there are {n}: take more samples."
        )
    label = (lambda y: y) if transform is None else transform
    fit = _regression(source, label)
    errors = source.total(
        lambda X, y: _ErrorSums.of(X, (label(y) - fit(X)) / np.sqrt(1 - _leverage(X, n)))
    )
    return errors.finish(fit, n, terms)


def _leverage(X: Array, n: int) -> Array:
    """How much of its own residual each sample hides by pulling the fit, at most 0.9."""
    s, p = np.einsum("ni,ni->n", X, X), X.shape[1]
    return np.asarray(np.minimum((1 + s + (s**2 - 2 * s + p) / 2) / n, 0.9))


def _regression(source: Source, label: Callable[[Array], Array]) -> _Quadratic:
    """Conjugate gradients on the normal equations; one pass over the samples an iteration."""
    n = source.size
    nothing = _Quadratic(0.0, np.zeros(source.features), np.zeros((source.features,) * 2))
    fit = nothing
    rest = step = source.total(lambda X, y: _Quadratic.against(X, label(y))).scaled(1 / n)
    size = first = rest.size()
    for _ in range(REGRESSION_ITERATIONS):
        if size <= REGRESSION_TOLERANCE**2 * first:
            return fit
        image = source.total(lambda X, y, v=step: _Quadratic.against(X, v(X))).scaled(1 / n)  # type: ignore[misc]
        along = size / _inner(step, image)
        fit, rest = fit + step.scaled(along), rest + image.scaled(-along)
        size, before = rest.size(), size
        step = rest + step.scaled(size / before)
    raise NoAnswer(
        "The regression on all pairs of features did not settle: the inputs are not standard "
        "normal, or there are too few samples."
    )


def _inner(a: _Quadratic, b: _Quadratic) -> float:
    """The mean of the product of two functions on standard normal inputs."""
    return float(a.constant * b.constant + a.linear @ b.linear + np.sum(a.matrix * b.matrix) / 2)


@dataclass(frozen=True)
class _ErrorSums(Sums):
    """Sums of `r^2 x_p^a x_q^b`, r the residual: what the errors of all coefficients need."""

    square: float
    second: Array
    fourth: Array
    cross11: Array
    cross22: Array
    cross31: Array

    @classmethod
    def of(cls, X: Array, r: Array) -> _ErrorSums:
        w, X2 = r**2, X**2
        wX, wX2 = X * w[:, None], X2 * w[:, None]
        return cls(float(w.sum()), X2.T @ w, (X2**2).T @ w, wX.T @ X, wX2.T @ X2, (wX2 * X).T @ X)

    def finish(self, fit: _Quadratic, n: int, terms: int) -> Correlations:
        """Standard errors; `n - terms` for what the regression itself took out."""
        s2, s4, one = self.second, self.fourth, self.square
        linear_difference = s2[:, None] + s2 - 2 * self.cross11
        fourth_power = s4[:, None] + s4 - 4 * (self.cross31 + self.cross31.T) + 6 * self.cross22
        difference = fourth_power - 4 * linear_difference + 4 * one
        entries = self.cross22.copy()
        np.fill_diagonal(entries, s4 - 2 * s2 + one)
        np.fill_diagonal(difference, 0.0)

        def error(squares: Array) -> Array:
            return np.sqrt(np.maximum(squares, 0.0)) / (n - terms)

        return Correlations(
            fit.constant,
            fit.linear,
            fit.matrix,
            error(s2),
            error(entries),
            error(linear_difference),
            error(difference),
            n,
        )


def exact_correlations(network: LayeredNetwork) -> Correlations:
    """The population's: `E[exp(v.x) He_k(x)] = exp(|v|^2/2) v^(x)k` for every monomial."""
    c, V = exponentials(network)
    none, nowhere = np.zeros(network.features), np.zeros((network.features,) * 2)
    mean, linear, matrix = float(c.sum()), c @ V, (V.T * c) @ V
    return Correlations(mean, linear, matrix, none, nowhere, nowhere, nowhere, None)


def exponentials(network: LayeredNetwork) -> tuple[Array, Array]:
    """`E[f(x + z)] = sum_S c_S exp(v_S.z)` of exponential units under a polynomial: c and V."""
    if network.layer.activation.name != "exp" or not isinstance(network.top, Polynomial):
        raise InvalidInput(
            "The exact form is known for exp units under a Polynomial only: give samples instead."
        )
    monomials = list(network.top.terms)
    V = np.array([network.layer.weights[list(m)].sum(axis=0) for m in monomials])
    b = np.array([network.layer.biases[list(m)].sum() for m in monomials])
    c = np.array([network.top.terms[m] for m in monomials])
    return c * np.exp(b + np.sum(V**2, axis=1) / 2), V


def correlations_of(data: Source | LayeredNetwork) -> Correlations:
    """Of the labels: exact for a network's population."""
    return exact_correlations(data) if isinstance(data, LayeredNetwork) else correlations(data)
