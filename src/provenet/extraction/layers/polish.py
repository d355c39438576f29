"""All parameters at once on the answers that are kept, where these are few.

Rows are measured one by one (`remeasure`), each as well as its place allows; least squares on all
answers makes the best of them together. It is the refinement that samples have, too, and its
covariance says how far rounding lets a row be off. Answers far out are left out: rounding is larger
there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources.arrays import ArraySource
from provenet.extraction.tolerances import (
    MOST_POLISHED,
    NEAR,
    POLISH_ROUNDING,
    POLISH_STEPS,
    SPARE_ANSWERS,
)
from provenet.fitting.layered_covariance import deep_covariance
from provenet.fitting.levenberg_marquardt import refine
from provenet.fitting.parameters import Parameters
from provenet.networks.deep_network import DeepNetwork


@dataclass(frozen=True)
class Polished:
    """A network in coordinates, and how far rounding lets a row be off."""

    network: DeepNetwork
    error: float


def polished(network: DeepNetwork, U: Array, Y: Array) -> Polished | None:
    """The network that fits the answers best; None where they are too few, or it is too large."""
    near = np.linalg.norm(U, axis=1) <= NEAR * np.sqrt(U.shape[1])
    U, Y = U[near], Y[near]
    parameters = network.free_parameters
    if parameters > MOST_POLISHED or Y.size < SPARE_ANSWERS * parameters:
        return None
    samples, spread = ArraySource(U, Y), float(np.std(Y))
    start = Parameters.of_deep(network)
    fit = refine(
        samples, start, network.activation, spread=spread, iterations=POLISH_STEPS, tolerance=1e-3
    )
    found = fit.parameters.deep_network(network.activation).normalised()
    if found.widths != network.widths:
        return None
    covariance = deep_covariance(samples, found)
    if covariance.rank_deficiency:
        return None
    level = max(fit.rms, POLISH_ROUNDING * float(np.abs(Y).max()))
    return Polished(found, level * covariance.errors.largest)
