"""The best output layer for given units: a linear least-squares problem.

From sums over the samples of any source, by corrections of what is there: computed from the current
residual they end at machine precision although normal equations are solved. Or from arrays, at
once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources.base import Source
from provenet.fitting.model import Parameters
from provenet.fitting.normal_equations import LinearPart, input_gram, linear_part, solve_scaled
from provenet.fitting.tolerances import RIDGE
from provenet.networks.activations import RELU, Activation
from provenet.networks.network import Network


def fit_linear_part(
    source: Source,
    parameters: Parameters,
    activation: Activation,
    passes: int = 1,
    inputs: Array | None = None,
) -> tuple[Parameters, float]:
    """The best beta for the given units, by corrections, and the residual sum of squares."""
    inputs = input_gram(source, parameters) if inputs is None else inputs
    for _ in range(passes):
        sums = linear_part(source, parameters, activation, inputs)
        parameters, rss = corrected(sums, parameters)
    return parameters, rss


def corrected(sums: LinearPart, parameters: Parameters) -> tuple[Parameters, float]:
    """The best beta from sums at another one, and the sum of squares then."""
    correction = solve_scaled(sums.gram, sums.gradient, RIDGE * len(sums.gram))
    rss = sums.rss - float(np.vdot(sums.gradient, correction))
    return replace(parameters, beta=parameters.beta - correction), max(rss, 0.0)


def with_output_layer(
    X: Array, Y: Array, W: Array, b: Array, activation: Activation = RELU
) -> Network:
    """The network of given units whose output weights and bias fit labels (n, outputs) best."""
    Phi = np.column_stack([activation(X @ W.T + b), np.ones(len(X))])
    A = np.linalg.lstsq(Phi, Y, rcond=None)[0]
    return Network(W, b, A[:-1].T, A[-1], activation)
