"""Objectives by name, from whatever is known of the network: `objective(name, source)`.

| name | function | rows of B | proved |
| --- | --- | --- | --- |
| `"l2"` | squared loss of the same activation (2.2) | norm 1 | has bad minima |
| `"f2f4"` | squared loss of sigma_2 h_2 + sigma_4 h_4 (2.6) | norm 1 | nothing |
| `"abs"` | squared loss of abs(z) / 2 (footnote 12) | norm 1 | nothing |
| `"P'"` | interference alone (3.4) | norm 1 | has bad minima |
| `"G"` | (2.8), orthogonal units | free | Theorem 5.1 |
| `"F"` | (A.2), as many independent units as features | free | Theorem A.4 |
| `"F-undercomplete"` | (A.5), fewer | free | Theorem A.5 |

All of them are functions of B alone: output weights of the losses are given, or at their best for
each B. Inputs are taken as standardised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.data.sources import Source
from provenet.landscape.constants import Constants, constants_for_F, constants_for_G
from provenet.landscape.designed import Design, interference
from provenet.landscape.kernels import ABS_HALF, Shape, even_kernel, hermite_shape, kernel
from provenet.landscape.losses import MomentLoss, PopulationLoss, SampleLoss, without_biases
from provenet.landscape.objective import Objective
from provenet.landscape.statistics import (
    BatchStatistics,
    Statistics,
    coefficients,
    population_statistics,
    sample_statistics,
)
from provenet.landscape.tolerances import (
    DIFFERENCE,
    MOST_OBJECTIVE_SAMPLES,
    SPECTRUM_ROUNDING,
    VANISHING,
    VISIBLE,
)
from provenet.networks.activations import ABS, Activation, get_activation
from provenet.networks.hermite import quadrature_coefficient
from provenet.networks.network import Network

DESIGNED = ("G", "F", "F-undercomplete")
LOSSES = ("l2", "f2f4", "abs")
OBJECTIVES = (*LOSSES, "P'", *DESIGNED)


def designed(
    name: str, statistics: Statistics, units: int, activation: Activation, mu: float | None = None
) -> Design:
    """P', G or F with constants chosen from the data, within the theorem's ranges."""
    if name == "P'":
        return interference(statistics, units)
    constants = choose_constants(name, statistics, units, activation, mu)
    return Design(statistics, constants, units, euclidean=name == "G")


def choose_constants(
    name: str, statistics: Statistics, units: int, activation: Activation, mu: float | None = None
) -> Constants:
    """mu, lambda and delta for an objective, from the spectrum of `sum a b b^T`."""
    if mu is not None and not (np.isfinite(mu) and mu > 0):
        raise InvalidInput(f"mu must be a positive number, not {mu!r}; left out, it is chosen.")
    spectrum, c_4 = statistics.spectrum[-units:], coefficients(activation)[1]
    least = max(VISIBLE * statistics.second_error, SPECTRUM_ROUNDING * float(spectrum[-1]))
    if len(spectrum) < units or spectrum[0] <= least:
        raise InvalidInput(
            f"The objective {name!r} needs {units} units with positive output weights, and the "
            f"second moment shows {int(np.sum(spectrum > least))}: give fewer units or more "
            "samples, or use a method that needs no sign."
        )
    d, error = statistics.features, statistics.error
    if name == "G":
        found = constants_for_G(spectrum, c_4, d, error, mu)
        return found if units == d else replace(found, theorem=None)
    fewer = name == "F-undercomplete"
    found = constants_for_F(spectrum, c_4, d, error, mu, undercomplete=fewer)
    return found if fewer or units == d else replace(found, theorem=None)


def population_objective(
    name: str,
    network: Network,
    units: int,
    *,
    output_weights: Array | None = None,
    mu: float | None = None,
) -> Objective:
    """The exact objective of a known network without biases."""
    network, activation = without_biases(network), network.activation
    check_activation(activation, name)
    if name not in LOSSES:
        found = designed(name, population_statistics(network), units, activation, mu)
        if not in_the_theorem(name, network, units):
            found.theorem = None
        return found
    if name == "l2":
        own = kernel(activation)
    elif name == "f2f4":
        own = even_kernel(activation)
    else:
        own = kernel(ABS).scaled(_even_size(activation) ** 2 / 4)
    return PopulationLoss(network, own, own, output_weights, units)


def in_the_theorem(name: str, network: Network, units: int) -> bool:
    """Whether the network is of the kind that the objective's theorem speaks of."""
    W = network.weights
    if units != network.units or np.any(network.output_weights <= 0) or np.any(network.biases):
        return False
    return name != "G" or bool(np.allclose(W @ W.T, np.eye(len(W)), atol=SPECTRUM_ROUNDING))


def moment_objective(
    name: str,
    statistics: Statistics,
    units: int,
    activation: Activation,
    *,
    output_weights: Array | None = None,
    mu: float | None = None,
) -> Objective:
    """An objective that sees the data through `T_2` and `T_4` alone: any but "l2" and "abs"."""
    if name == "f2f4":
        return MomentLoss(statistics, activation, units, output_weights)
    return designed(name, statistics, units, activation, mu)


def sample_objective(
    name: str,
    X: Array,
    y: Array,
    units: int,
    activation: Activation,
    *,
    output_weights: Array | None = None,
    constants: Constants | None = None,
    centred: bool = False,
) -> Objective:
    """An objective on these samples alone, such as a fresh batch.

    `constants` are for G and F: a batch is too small to choose them from. `centred` takes its mean
    off each unit of a loss, so that labels may have theirs taken off, and with it an output bias.
    """
    if name in LOSSES:
        return SampleLoss(X, y, _shape(name, activation, centred), units, output_weights)
    if name not in OBJECTIVES:
        raise InvalidInput(_unknown(name))
    statistics = BatchStatistics(X, y, activation)
    if name == "P'":
        return interference(statistics, units)
    if constants is None:
        raise InvalidInput(f"The objective {name!r} on a batch needs its constants: give them.")
    return Design(statistics, constants, units, euclidean=name == "G")


def objective(
    name: str,
    source: Source | Network,
    *,
    units: int | None = None,
    activation: str | Activation = "relu",
    output_weights: Array | None = None,
    mu: float | None = None,
) -> Objective:
    """The objective of that name on standardised inputs.

    Parameters
    ----------
    name
        One of `OBJECTIVES`.
    source
        A network (or its `PopulationSource`): the exact objective of its population. Any other
        source: one pass over its samples for `T_2` and `T_4`, after which no data are needed; for
        "l2" and "abs", which see all orders, its samples themselves (the first 100,000).
    units
        Rows of B; as many as the network has, or as there are features.
    activation
        Of the network behind the samples.
    output_weights
        For the losses: held at these. Left out, they are at their best for each B.
    mu
        Weight of the term that draws each row to one unit; chosen from the data if left out.

    "l2" and "abs" on samples take the mean off labels and units, as an output bias would: away from
    the truth they differ from those of the population, which has none.
    """
    if name not in OBJECTIVES:
        raise InvalidInput(_unknown(name))
    if isinstance(source, Network):
        m = units or source.units
        return population_objective(name, source, m, output_weights=output_weights, mu=mu)
    if source.population is not None:
        return objective(name, source.population, units=units, output_weights=output_weights, mu=mu)
    own, m = get_activation(activation), units or source.features
    check_activation(own, name)
    s = source.standardisation()
    if name in ("l2", "abs"):
        X, y = source.rows(0, min(source.size, MOST_OBJECTIVE_SAMPLES))
        y = y - s.label_mean
        return sample_objective(
            name, s.apply(X), y, m, own, output_weights=output_weights, centred=True
        )
    statistics = sample_statistics(source, s, own)
    return moment_objective(name, statistics, m, own, output_weights=output_weights, mu=mu)


def check_activation(activation: Activation, name: str) -> None:
    """Whether the objectives see units of this activation at all."""
    for k in (2, 4):
        if abs(float(activation.hermite(k, 0.0))) < VANISHING:
            raise InvalidInput(
                "The objectives see units through their Hermite coefficients of orders 2 and 4, "
                f"and that of order {k} of {activation.name!r} is 0: use a method "
                "that serves them (provenet.METHODS)."
            )
    if name == "abs" and activation.slope is None:
        raise InvalidInput(
            f'The objective "abs" is for ReLU and its leaky kin, not {activation.name!r}: use '
            '"f2f4".'
        )


def _unknown(name: str) -> str:
    return f"The objective {name!r} is unknown: use one of {', '.join(OBJECTIVES)}."


@lru_cache
def _shape(name: str, activation: Activation, centred: bool) -> Shape:
    """The function gamma of a loss; if `centred`, less its mean over standard normal inputs."""
    if name == "f2f4":
        return hermite_shape(activation)  # of mean 0 as it is
    if name == "l2":
        gamma = Shape(activation.function, activation.derivative, _second_derivative(activation))
    else:
        size = _even_size(activation)
        gamma = Shape(
            lambda z: size * ABS_HALF.function(z), lambda z: size * ABS_HALF.first(z), np.zeros_like
        )
    if not centred:
        return gamma
    mean = quadrature_coefficient(gamma.function, 0, (0.0,))
    return Shape(lambda z: gamma.function(z) - mean, gamma.first, gamma.second)


def _second_derivative(activation: Activation) -> Callable[[Array], Array]:
    """By central differences; zero for piecewise linear units, whose kink no sample lies on."""
    if activation.slope is not None:
        return np.zeros_like
    slope, h = activation.derivative, DIFFERENCE
    return lambda z: np.asarray((slope(z + h) - slope(z - h)) / (2 * h))


def _even_size(activation: Activation) -> float:
    """`1 - slope`: the even part of a leaky ReLU is that times `|z| / 2`."""
    check_activation(activation, "abs")
    return 1 - (activation.slope or 0.0)
