"""Units that were found up to their signs, as a network: the linear part tells the signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.deadline import Deadline
from provenet.extraction.tolerances import NO_LINEAR
from provenet.extraction.units import Units, binary_scale
from provenet.fitting.model import Parameters
from provenet.networks.activations import LEAKY_RELU, RELU, Activation
from provenet.networks.network import Network
from provenet.networks.piecewise import as_absolute, as_rectified
from provenet.networks.signs import OneSlope, one_slope, signs_from_linear_part, unit_terms


@dataclass(frozen=True)
class Signed:
    """A network whose units have signs, and a linear term if no signs explain it."""

    network: Network
    alternatives: int = 0
    """How many other signs explain the linear part as well."""
    open_signs: int = 0
    """How many units have more than one sign in these, or in patterns that were not tried."""
    untried: str = ""
    """Why signs were left untried, as a clause; empty if none were."""
    spare_bits: float = np.inf
    """Of a slope that was found: what the equations tell beyond a bit a sign (`one_slope`)."""


def signed_units(
    found: Units,
    error_bound: float,
    *,
    one: bool,
    deadline: Deadline,
    activation: Activation | None = RELU,
) -> Signed:
    """Signs from the linear part, every output being as large as the others.

    Units of another slope below zero than 0 are looked for where ReLU does not explain it, unless
    ReLU was asked for.
    """
    sizes = np.linalg.norm(found.A, axis=1) + np.linalg.norm(found.linear, axis=1)
    scale = binary_scale(sizes)
    plain = _network(found.scaled(1 / scale))
    absolute = as_absolute(plain)
    parameters = Parameters.of(absolute)
    m = parameters.units
    terms = 2 * parameters.beta[:m].T, parameters.theta[:, :-1], parameters.beta[m:-1].T
    allowed = NO_LINEAR * float(np.linalg.norm(sizes / scale))
    own, spare_bits = RELU, np.inf
    error = min(error_bound, NO_LINEAR) * float(np.linalg.norm(unit_terms(terms[0] / 2, terms[1])))
    signs = signs_from_linear_part(*terms, error, lambda: deadline.passed)
    if np.linalg.norm(signs.remainder) > allowed and activation is not RELU:
        sloped = _sloped(*terms, error, allowed, deadline, activation)
        if sloped is not None:
            own, signs = sloped.activation, sloped.signs
            spare_bits = sloped.spare_bits if activation is None else np.inf
    left = np.linalg.norm(signs.remainder) > allowed
    network = plain if left else as_rectified(absolute, signs.signs, own).replace(linear=None)
    network = _of_outputs(network, scale, one)
    if signs.untried:
        return Signed(network, open_signs=m, untried=signs.untried)
    others = () if left else signs.alternatives
    different = np.any([signs.signs != other for other in others], axis=0)
    return Signed(network, len(others), int(np.sum(different)), spare_bits=spare_bits)


def _sloped(
    a: Array,
    W: Array,
    v: Array,
    error: float,
    allowed: float,
    deadline: Deadline,
    activation: Activation | None,
) -> OneSlope | None:
    """Units of one slope that explain a linear part: of the activation asked for, if one was.

    Without equations to spare a slope is told by nothing, so it must be asked for.
    """
    found = one_slope(a / 2, W, v, error, allowed, lambda: deadline.passed)
    if found is None or (activation is None and found.spare_bits <= 0):
        return None
    slope = found.activation.slope
    wanted = None if activation in (None, LEAKY_RELU) else activation
    if wanted is not None and (wanted.slope is None or not _same_slope(slope, wanted.slope)):
        return None
    return found


def _same_slope(found: float | None, wanted: float) -> bool:
    return found is not None and abs(found - wanted) <= NO_LINEAR


def _network(found: Units) -> Network:
    return Network(found.W, found.b, found.A, found.constant, linear=found.linear)


def _of_outputs(network: Network, scale: Array, one: bool) -> Network:
    """The network with outputs of their own size, or one number for an output."""
    A, c = scale[:, None] * network.output_weights, scale * network.output_bias
    linear = None if network.linear is None else scale[:, None] * network.linear
    if one:
        A, c, linear = A[0], c[0], None if linear is None else linear[0]
    return network.replace(output_weights=A, output_bias=c, linear=linear).canonical()
