"""The evidence for an answer: what it leaves unexplained, and whether the data can tell at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.certify.tolerances import SMOOTH_SIGMAS, UNKNOWN_DIRECTION
from provenet.common.typing import TINY, AnyArray, Array
from provenet.data.sources import Source
from provenet.fitting.covariance import StandardErrors
from provenet.fitting.linear import linear_part, without_each_unit
from provenet.fitting.model import Parameters
from provenet.moments.hermite import GaussianCheck
from provenet.networks.network import Network


@dataclass(frozen=True)
class Certificate:
    """The evidence behind a status."""

    residual: float
    """Root mean square residual on samples not used in the fit."""
    relative_residual: float
    """The same over the standard deviation of the labels."""
    rounding: float
    """The residual that floating point alone would leave."""
    noise: float
    """Estimated standard deviation of the label noise; 0 when the fit is exact."""
    label_rounding: float
    """Rounding error of the labels themselves, root mean square; 0 if they are exact."""
    label_precision: str
    """What labels were rounded to, in words; empty if they are exact."""
    rounded: bool
    """Whether that rounding alone explains every label."""
    outputs: int
    """Numbers a label: 1 for plain labels."""
    samples_fitted: int
    distinct_inputs: int
    """Of the inputs fitted and held out, how many differ; repeated ones tell nothing new."""
    samples_held_out: int
    """Samples that no fit saw when the residual was measured."""
    samples_refitted: int
    """Samples of the last fit, those held out among them; 0 if there was none after these judged.
    """
    parameters: int
    condition: float
    """Condition number of the weights, rows of norm 1."""
    parameter_error_bound: float
    """How far the residual lets a unit be from the truth, relatively and to first order."""
    undetermined: int
    """Directions in the space of the parameters that the samples leave free."""
    weakest_unit: int | None
    """The unit (row of the network's weights) that the fit could most easily do without."""
    weakest_margin: float
    """By how many standard deviations of the noise (or of rounding) it stands out."""
    closest_pair: tuple[int, int, int] | None
    """The two kinked units that fewest samples lie between, and how many do."""
    residual_kurtosis: float
    """Excess kurtosis of what the fit leaves; 0 for Gaussian noise."""
    rarer_side: AnyArray
    """For each unit, how many samples lie on the rarer side of its kink, where it has one; else of
    its zero."""
    width_evidence: str
    """How sure the number of units is, in words."""
    gaussian: GaussianCheck
    own_residual: float | None = None
    """What the paper's own answer left of the labels fitted, over their standard deviation, before
    least squares; None where it is the answer, or none was asked for."""
    linear_residual: float = float("nan")
    """What linear regression leaves of new labels, over their standard deviation; nan where it was
    not looked at."""
    coverage: str = ""
    """What the unseen samples say of all inputs, in words, where they were drawn for that."""
    warnings: tuple[str, ...] = ()

    @property
    def labels_fitted(self) -> int:
        """How many numbers were fitted: samples times outputs."""
        return self.samples_fitted * self.outputs


def rarer_side(network: Network, X: Array) -> AnyArray:
    """For each unit, the number of samples on the rarer side of its kink."""
    active = np.sum(X @ network.weights.T + network.biases > 0, axis=0)
    return np.asarray(np.minimum(active, len(X) - active))


def closest_pair(network: Network, X: Array) -> tuple[int, int, int] | None:
    """The two units whose kinks fewest samples lie between: their indices and that number.

    Samples on which one is on and the other off, or, for opposite units, both on or both off. None
    for a single unit, and for smooth ones.
    """
    if network.units < 2 or not network.activation.kinked:
        return None
    active = (X @ network.weights.T + network.biases > 0).astype(float)
    both = active.T @ active
    alone = both.diagonal()
    differ = alone[:, None] + alone - 2 * both
    between = np.minimum(differ, len(X) - differ)
    np.fill_diagonal(between, np.inf)
    i, j = sorted(np.unravel_index(np.argmin(between), between.shape))
    return int(i), int(j), int(between[i, j])


def residual_kurtosis(samples: Source, network: Network) -> float:
    """Excess kurtosis of the residual: 0 for Gaussian noise, large when few samples stand out.

    The largest over the outputs, which may have noise of different size.
    """

    def powers(X: Array, y: Array) -> Array:
        r = (network(X) - y).reshape(len(y), -1)
        return np.array([np.sum(r**2, axis=0), np.sum(r**4, axis=0)])

    second, fourth = samples.total(powers)
    return float(np.max(samples.size * fourth / np.maximum(second**2, 1e-300)) - 3)


def weakest_unit(
    samples: Source, network: Network, noise: float
) -> tuple[int | None, float, float]:
    """The unit whose loss costs least: index, margin over the noise, and the residual then."""
    if network.units == 0:
        return None, 0.0, float("nan")
    parameters = Parameters.of(network)
    sums = linear_part(samples, parameters, network.activation)
    cost = without_each_unit(sums, parameters)
    i = int(np.argmin(cost))
    residual = np.sqrt((sums.rss + cost[i]) / samples.labels)
    return i, float(np.sqrt(cost[i]) / max(noise, 1e-300)), float(residual)


def condition_number(network: Network) -> float:
    """Condition number of the weights, rows of norm 1; infinite when they are dependent."""
    if network.units == 0:
        return float("nan")
    if network.units > network.features:
        return float("inf")
    rows = network.weights / np.linalg.norm(network.weights, axis=1, keepdims=True)
    return float(np.linalg.cond(rows))


def direction_errors(network: Network, errors: StandardErrors) -> Array:
    """Standard errors of the weights of each unit over their norm."""
    norm = np.linalg.norm(network.weights, axis=1)
    return np.asarray(np.linalg.norm(errors.weights, axis=1) / np.maximum(norm, TINY))


def unresolved_units(
    network: Network, errors: StandardErrors, sides: AnyArray, fewest: int
) -> AnyArray:
    """Units that the samples do not pin down: of unknown direction, or hardly ever on one side.

    A smooth unit shows on either side, if it differs from nothing and from others.
    """
    unknown = direction_errors(network, errors) > UNKNOWN_DIRECTION
    if not network.activation.kinked:
        return np.flatnonzero(unknown | (clearness(network, errors) < SMOOTH_SIGMAS))
    return np.flatnonzero(unknown | (sides < fewest))


def clearness(network: Network, errors: StandardErrors) -> Array:
    """Standard errors by which a unit differs from one without weights, and from any other unit.

    By the parameter that tells most; a reversed unit is no other. Infinite without errors.
    """
    own = np.max(np.abs(network.weights) / np.maximum(errors.weights, TINY), axis=1)
    if network.units < 2:
        return np.asarray(own)
    theta = np.column_stack([network.weights, network.biases])
    unsure = np.column_stack([errors.weights, errors.biases])
    both = np.maximum(unsure[:, None] + unsure, TINY)
    apart = (np.max(np.abs(theta[:, None] - sign * theta) / both, axis=2) for sign in (1, -1))
    nearest = np.minimum(*apart)
    np.fill_diagonal(nearest, np.inf)
    return np.asarray(np.minimum(own, nearest.min(axis=1)))
