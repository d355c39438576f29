"""The sums of a step of the last fit, of a great many samples, in one pass.

The letters are those of `normal_equations`. All samples give the gradient, every so-manieth the
curvature. With c a centred input and W what whitens it, `w.(W c) = (w W).c`: the units are put
before the whitening, sums are over c, and `sum s r (W c) = W sum s r c` is put right at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import Array
from provenet.data.sources.base import LARGEST_BLOCK
from provenet.data.sources.mapped import StandardisedSource, Standardising
from provenet.data.sums import Sums
from provenet.data.tolerances import ROWS_AT_ONCE
from provenet.fitting.model import Parameters, model_features
from provenet.fitting.normal_equations import LinearPart, with_input_gram
from provenet.fitting.paired_products import CurvatureSums
from provenet.networks.activations import Activation


@dataclass(frozen=True)
class GradientSums(LinearPart):
    """Sums for the best beta at given units, and the gradient by theta."""

    theta_gradient: Array


@dataclass(frozen=True)
class SumsOfMany(Sums):
    """Those of all samples, and the curvature of some of them."""

    all: GradientSums
    curvature: CurvatureSums
    some: int


def sums_of_many(
    source: StandardisedSource,
    parameters: Parameters,
    activation: Activation,
    inputs: Array,
    every: int,
) -> tuple[GradientSums, Array]:
    """One pass: the sums that determine beta, the gradient, and the matrix of the Gauss-Newton
    system from every so-manieth sample, scaled up. `inputs` is `input_gram`.

    The gradient costs p operations a sample, the matrix p^2. From some hundreds of samples a
    parameter it is known to a few per cent, which is as good for a step; the gradient alone, of all
    samples, decides where the iteration ends.
    """
    term = partial(_many_term, parameters, activation, every, source.change)
    sums = source.source.total(term, LARGEST_BLOCK)
    found = _on_standardised(sums.all, parameters, source.change.whiten)
    found = replace(found, gram=with_input_gram(found.gram, inputs))
    return found, sums.curvature.matrix(parameters.has_linear) * (source.size / sums.some)


def _many_term(
    parameters: Parameters,
    activation: Activation,
    every: int,
    change: Standardising,
    X: Array,
    y: Array,
) -> SumsOfMany:
    """Whitening is left to the units' weights: it would cost as much as their values."""
    own = _on_centred(parameters, change.whiten)
    parts = (
        _gradient_term(own, activation, *change.centred(X[few], y[few]))
        for few in row_blocks(len(X), ROWS_AT_ONCE)
    )
    some, _ = change(X[::every], y[::every])
    z, phi = model_features(parameters, activation, some)
    columns = np.vstack([some.T, np.ones(len(some))])
    slope, values = activation.derivative(z), phi[:, : parameters.units]
    curvature = CurvatureSums.of(slope, values, columns, np.float32)
    return SumsOfMany(reduce(add, parts), curvature, len(some))


def _on_centred(parameters: Parameters, whiten: Array) -> Parameters:
    """The same function of inputs that are not whitened yet."""
    theta, beta, m = parameters.theta, parameters.beta.copy(), parameters.units
    if parameters.has_linear:
        beta[m:-1] = whiten.T @ beta[m:-1]
    theta = np.column_stack([theta[:, :-1] @ whiten, theta[:, -1]])
    return replace(parameters, theta=theta, beta=beta)


def _on_standardised(sums: GradientSums, parameters: Parameters, whiten: Array) -> GradientSums:
    """Sums over whitened inputs from those over inputs that are not."""
    m, theta = parameters.units, sums.theta_gradient.reshape(parameters.theta.shape).copy()
    theta[:, :-1] = theta[:, :-1] @ whiten.T
    gram, gradient = sums.gram.copy(), sums.gradient.copy()
    if parameters.has_linear:
        gram[:, m:-1] = gram[:, m:-1] @ whiten.T
        gradient[m:-1] = whiten @ gradient[m:-1]
    return GradientSums(gram, gradient, sums.rss, theta.ravel())


def _gradient_term(
    parameters: Parameters, activation: Activation, X: Array, y: Array
) -> GradientSums:
    """Unit by unit in memory, not sample by sample: long rows are fast."""
    m, beta, A = parameters.units, parameters.beta, parameters.output_weights
    z = parameters.theta[:, :-1] @ X.T
    z += parameters.theta[:, -1:]
    with_one = np.ones((m + 1, len(X)))
    with_one[:m] = activation(z)
    values = with_one[:m]
    r = (np.concatenate([beta[:m], beta[-1:]]).T @ with_one).T - y
    if parameters.has_linear:
        r += X @ beta[m:-1]
    back = r if r.ndim == 1 else A.T @ r.T
    weighted = np.multiply(activation.derivative(z), back, out=z)
    by_theta = np.column_stack([weighted @ X, weighted.sum(axis=1)])
    if r.ndim == 1:
        by_theta *= A.T
    gram, gradient = values @ with_one.T, with_one @ r
    if parameters.has_linear:
        gram = np.insert(gram, [m], values @ X, axis=1)
        gradient = np.insert(gradient, m, X.T @ r, axis=0)
    return GradientSums(gram, gradient, float(np.vdot(r, r)), by_theta.ravel())
