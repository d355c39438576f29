"""The normal equations of a model with several hidden layers, as sums over samples.

The letters are those of `normal_equations`, beta is eliminated as there. What differs is D: the
derivatives of output q by the layers' parameters,

    D_q = [delta_1 (x) (h_0, 1), ..., delta_L (x) (h_(L-1), 1)],
    delta_L = A_q o sigma'(z_L),   delta_l = (delta_(l+1) W_(l+1)) o sigma'(z_l),

depend on the output through every layer, so that they are formed an output at a time,

    S = sum_q D_q^T D_q - C_q G^-1 C_q^T,   C_q = D_q^T Phi,
    rhs = sum_q D_q^T r_q - C_q G^-1 Phi^T r_q.

No n x p matrix exists: D_q is formed for a block of samples at a time. The gradient, `sum_q D_q^T
r_q`, is one pass backwards for all outputs, in float64 whatever the matrix is summed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from provenet.common.typing import Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.fitting.linalg import solver_scaled
from provenet.fitting.model import Parameters, layer_inputs
from provenet.networks.activations import Activation


@dataclass(frozen=True)
class LayeredEquations(Sums):
    """`sum_q D_q^T D_q`, the C_q, G, the gradients by the layers and by beta, and `|r|^2`."""

    hessian: Array
    cross: Array
    """(outputs, parameters of the layers, rows of beta)."""
    gram: Array
    layer_gradient: Array
    gradient: Array
    """(rows of beta, outputs)."""
    rss: float

    def eliminated(self, ridge: float) -> tuple[Array, Array]:
        """S and the right-hand side."""
        best_linear_part = solver_scaled(self.gram, ridge)
        matrix, rhs = self.hessian.copy(), self.layer_gradient.copy()
        for C, gradient in zip(self.cross, self.gradient.T, strict=True):
            matrix -= C @ best_linear_part(C.T)
            rhs -= C @ best_linear_part(gradient)
        return matrix, rhs


def layered_equations(
    source: Source,
    parameters: Parameters,
    activation: Activation,
    dtype: type[np.floating] = np.float64,
) -> LayeredEquations:
    """One pass: the Gauss-Newton system, its matrix summed in `dtype`."""
    return source.total(partial(_term, parameters, activation, dtype), 256)


@np.errstate(over="ignore", invalid="ignore")  # a step that overflows is not taken
def _term(
    parameters: Parameters,
    activation: Activation,
    dtype: type[np.floating],
    X: Array,
    y: Array,
) -> LayeredEquations:
    """The sums over a block of samples."""
    point = LayeredPoint.at(parameters, activation, X)
    r = (point.phi @ parameters.beta - y).reshape(len(y), -1)
    hessian, cross, phi = np.zeros(2 * (parameters.nonlinear,), dtype), [], point.phi.astype(dtype)
    for weights in parameters.output_weights:
        D = point.jacobian(np.broadcast_to(weights, (len(X), len(weights))), dtype)
        hessian += D.T @ D
        cross.append((D.T @ phi).astype(float))
    return LayeredEquations(
        hessian.astype(float),
        np.array(cross),
        point.phi.T @ point.phi,
        point.pulled_back(r @ parameters.output_weights),
        point.phi.T @ r,
        float(np.vdot(r, r)),
    )


@dataclass(frozen=True)
class LayeredPoint:
    """Inputs and slopes of every layer at some samples, and the features of the output."""

    parameters: Parameters
    inputs: list[Array]
    """Of each layer, a one in the last column."""
    slopes: list[Array]
    phi: Array

    @classmethod
    def at(cls, parameters: Parameters, activation: Activation, X: Array) -> LayeredPoint:
        """Evaluate the layers."""
        ones = np.ones((len(X), 1))
        inputs = [np.hstack([h, ones]) for h in layer_inputs(parameters, activation, X)]
        z = [h @ theta.T for h, theta in zip(inputs, parameters.layers, strict=True)]
        phi = np.hstack([activation(z[-1]), ones])
        return cls(parameters, inputs, [activation.derivative(values) for values in z], phi)

    def deltas(self, top: Array) -> Iterator[Array]:
        """From the highest layer down: how the output changes with each z.

        `top` is how it changes with the values of the highest layer, (samples, units).
        """
        for theta, slope in zip(self.parameters.layers[::-1], self.slopes[::-1], strict=True):
            delta = top * slope
            yield delta
            top = delta @ theta[:, :-1]

    def jacobian(self, top: Array, dtype: type[np.floating] = np.float64) -> Array:
        """Derivatives by all layers' parameters, one row a sample, the lowest layer first."""
        n, pieces = len(top), []
        for delta, inputs in zip(self.deltas(top), self.inputs[::-1], strict=True):
            product = delta.astype(dtype)[:, :, None] * inputs.astype(dtype)[:, None, :]
            pieces.append(product.reshape(n, -1))
        return np.hstack(pieces[::-1])

    def pulled_back(self, top: Array) -> Array:
        """The same derivatives summed over samples."""
        sums = [
            (delta.T @ inputs).ravel()
            for delta, inputs in zip(self.deltas(top), self.inputs[::-1], strict=True)
        ]
        return np.concatenate(sums[::-1])
