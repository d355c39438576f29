"""A fit with a penalty on the weights, for labels that no network made.

With `h = sigma(W x + b)` and labels of spread 1 it minimises, over all of W, b, A, v and c,

    |y - A h - v.x - c|^2 / (2 n) + (ridge / 2) (|W|^2 + |A|^2 + |v|^2)

by L-BFGS; of class labels the deviance stands in place of the square (`fitting.losses`). Samples
may count unequally: n is the sum of their weights then. Biases are free. Where sigma is positively
homogeneous of degree 1 the scale of a unit is free as well, and at the minimum its penalty is
`ridge |w_i| |a_i|`: units that do not pay vanish, as coefficients of a lasso do. Piecewise linear
units are fitted as absolute values beside a linear part, as in `search`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from provenet.common.typing import Array
from provenet.estimators.deadlines import stop_after
from provenet.estimators.tolerances import FLAT, LEAST_SCALE, MEMORY, OUTPUT_ITERATIONS
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import Activation


@dataclass(frozen=True)
class Penalised:
    """Samples of spread 1 (labels one column an output), and the penalty."""

    X: Array
    Y: Array
    ridge: float
    activation: Activation
    loss: Loss = SQUARES
    weights: Array | None = None
    """What each sample counts, of mean 1; all alike if left out."""

    def linear_fit(self, linear: bool) -> Parameters:
        """The best model without units, with a linear part or a constant alone."""
        d, outputs = self.X.shape[1], self.Y.shape[1]
        rows = d + 1 if linear else 1
        return self.outputs_fitted(Parameters(np.empty((0, d + 1)), np.zeros((rows, outputs))))

    def outputs_fitted(self, parameters: Parameters) -> Parameters:
        """The best output layer for given units, their scale shared with their output weights."""
        m, theta = parameters.units, parameters.theta
        phi = Linearisation.of(parameters, self.activation, self.X).features
        if self.loss is SQUARES:
            beta = self._least_squares(phi)
        else:
            beta = self._most_likely(phi, parameters.beta, m)
        if self.activation.degree == 1 and m:
            weights = np.linalg.norm(theta[:, :-1], axis=1)
            scale = np.sqrt(
                (np.linalg.norm(beta[:m], axis=1) + LEAST_SCALE**2) / (weights + LEAST_SCALE**2)
            )
            theta, beta[:m] = theta * scale[:, None], beta[:m] / scale[:, None]
        return Parameters(theta, beta)

    def _least_squares(self, phi: Array) -> Array:
        penalty = np.full(phi.shape[1], np.sqrt(len(phi) * self.ridge))
        penalty[-1] = 0.0
        nothing = np.zeros((len(penalty), self.Y.shape[1]))
        root = np.ones((len(phi), 1)) if self.weights is None else np.sqrt(self.weights)[:, None]
        stacked = np.vstack([root * phi, np.diag(penalty)])
        labels = np.vstack([root * self.Y, nothing])
        return np.asarray(np.linalg.lstsq(stacked, labels, rcond=None)[0])

    def _most_likely(self, phi: Array, start: Array, units: int) -> Array:
        """L-BFGS on beta alone."""

        def value_and_gradient(flat: Array) -> tuple[float, Array]:
            beta = flat.reshape(start.shape)
            value, r = self._misfit(phi @ beta)
            penalised = beta.copy()
            penalised[-1] = 0.0
            value += self.ridge * float(np.vdot(penalised, penalised)) / 2
            return value, (phi.T @ r / len(phi) + self.ridge * penalised).ravel()

        iterations = OUTPUT_ITERATIONS[int(units > 0)]
        options = {"maxiter": iterations, "maxcor": MEMORY, "gtol": FLAT}
        found = minimize(
            value_and_gradient, start.ravel(), jac=True, method="L-BFGS-B", options=options
        )
        return np.asarray(found.x).reshape(start.shape)

    def _misfit(self, F: Array) -> tuple[float, Array]:
        """Half the mean deviance, and the samples' own part in its gradient by F, times n."""
        deviance, r = self.loss.deviance(F, self.Y), self.loss.excess(F, self.Y)
        if self.weights is not None:
            deviance, r = deviance * self.weights, r * self.weights[:, None]
        return float(deviance.sum()) / (2 * len(F)), r

    def minimise(
        self, start: Parameters, iterations: int, tolerance: float, deadline: float = np.inf
    ) -> Parameters:
        """From the given units, with the best output layer for them, downhill until a deadline."""
        first = self.outputs_fitted(start)
        if first.units == 0:
            return first
        found = minimize(
            self._value_and_gradient,
            np.concatenate([first.theta.ravel(), first.beta.ravel()]),
            args=(first,),
            jac=True,
            method="L-BFGS-B",
            callback=stop_after(deadline),
            options={"maxiter": iterations, "maxcor": MEMORY, "ftol": tolerance, "gtol": FLAT},
        )
        return _unpacked(np.asarray(found.x), first)

    def _value_and_gradient(self, packed: Array, like: Parameters) -> tuple[float, Array]:
        parameters = _unpacked(packed, like)
        at = Linearisation.of(parameters, self.activation, self.X)
        misfit, r = self._misfit(at.values)
        penalised = _penalised(parameters)
        gradient = np.concatenate([at.backward(r), at.overlap(r).ravel()])
        value = misfit + self.ridge * float(np.vdot(penalised, penalised)) / 2
        return value, gradient / len(self.X) + self.ridge * penalised


def _unpacked(packed: Array, like: Parameters) -> Parameters:
    size = like.theta.size
    return Parameters(
        packed[:size].reshape(like.theta.shape), packed[size:].reshape(like.beta.shape)
    )


def _penalised(parameters: Parameters) -> Array:
    """The packed parameters, with zeros for the biases."""
    theta, beta = parameters.theta.copy(), parameters.beta.copy()
    theta[:, -1], beta[-1] = 0.0, 0.0
    return np.concatenate([theta.ravel(), beta.ravel()])
