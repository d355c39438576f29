"""Standard errors where the model is not straight within them: refits of labels made anew.

Linearised errors take the network for linear in its parameters as far as these are uncertain. A
kink that may be here or there, two units that may nearly be one, are not like that. So labels are
made anew from the answer, `f(x) + r v` with r what is left and signs v at random (the wild
bootstrap: it keeps noise as uneven as it is), and the answer is refitted to them. Where the refits
scatter more than errors say, these are widened by that ratio (root mean square), that of the
parameter or that of its unit, whichever is larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.data.standardisation import Standardisation
from provenet.fitting.covariance import StandardErrors
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.fitting.tolerances import (
    BENT,
    BENT_TOLERANCE,
    MOST_BENT,
    POLISH_DAMPING,
    REFIT_STEPS,
    REFIT_WORK,
    REFITS,
)
from provenet.networks.canonical import align_in_place
from provenet.networks.network import Network
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class Wider:
    """Standard errors widened to what refits scatter by."""

    errors: StandardErrors
    units: Array
    """For each unit by how much at most."""


def may_be_bent(user: Network, errors: StandardErrors) -> bool:
    """Whether a unit's direction is so unsure, in itself or against its neighbours."""
    unsure = np.linalg.norm(errors.weights, axis=1)
    w = user.weights / np.maximum(np.linalg.norm(user.weights, axis=1, keepdims=True), TINY)
    apart = np.linalg.norm(w[:, None] - w, axis=2) + np.abs(user.biases[:, None] - user.biases)
    np.fill_diagonal(apart, 1.0)
    return bool(np.any(unsure > BENT * np.minimum(apart.min(axis=1), 1.0)))


def widened(
    samples: ArraySource,
    network: Network,
    standardisation: Standardisation,
    errors: StandardErrors,
    rng: np.random.Generator,
) -> Wider | None:
    """Errors at least as large as the scatter of refits; None where these take too long."""
    start = Parameters.of(network)
    steps = REFITS * REFIT_STEPS * samples.size
    if steps * (start.theta.size + len(start.beta)) ** 2 > REFIT_WORK:
        return None
    fitted = network(samples.X)
    left = samples.y - fitted
    left *= np.sqrt(samples.labels / max(samples.labels - network.free_parameters, 1))
    user = standardisation.network_to_user(network).normalised()
    squares, last = [], []
    for _ in range(REFITS):
        v = rng.choice([-1.0, 1.0], size=samples.size)
        labels = fitted + (left.T * v).T
        fit = refine(
            ArraySource(samples.X, labels),
            start,
            network.activation,
            spread=float(np.std(labels)),
            iterations=REFIT_STEPS,
            tolerance=BENT_TOLERANCE,
            damping=POLISH_DAMPING,
        )
        found = fit.parameters.network(network.activation)
        other = align_in_place(standardisation.network_to_user(found).normalised(), user)
        squares.append(_squared_ratios(other, user, errors))
        off = (other.output_bias - user.output_bias) / np.maximum(errors.output_bias, TINY)
        last.append(np.mean(np.minimum(off**2, MOST_BENT)))
    by_parameter = np.mean(squares, axis=0)
    factor = np.sqrt(np.maximum(np.maximum(by_parameter, by_parameter.mean(axis=0)), 1.0))
    bias = float(np.sqrt(max(np.mean(last), 1.0)))
    return Wider(_times(errors, factor, bias), factor.max(axis=0))


def _squared_ratios(network: Network, other: Network, errors: StandardErrors) -> Array:
    """Squared differences over squared errors, (weights, bias and output weights, units)."""
    pairs = (
        (network.weights.T, other.weights.T, errors.weights.T),
        (network.biases[None], other.biases[None], errors.biases[None]),
        (
            np.atleast_2d(network.output_weights),
            np.atleast_2d(other.output_weights),
            np.atleast_2d(errors.output_weights),
        ),
    )
    with np.errstate(over="ignore"):  # of an error of zero: the least of both is kept
        ratios = [((a - b) / np.maximum(e, TINY)) ** 2 for a, b, e in pairs]
    return np.minimum(np.vstack(ratios), MOST_BENT)


def _times(errors: StandardErrors, factor: Array, bias: float) -> StandardErrors:
    """Errors of every unit's parameters multiplied by numbers in the shape of squared ratios."""
    d = errors.weights.shape[1]
    outputs = factor[d + 1 :].reshape(errors.output_weights.shape)
    return replace(
        errors,
        weights=errors.weights * factor[:d].T,
        biases=errors.biases * factor[d],
        output_weights=errors.output_weights * outputs,
        output_bias=errors.output_bias * bias,
    )
