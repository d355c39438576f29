"""From traced units to a candidate: their signs, and the points that may confirm it.

Nothing is judged here: `certify.asked` does that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.traced import TracedCandidate, allowed_at_kinks
from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.confirming import number_of_fresh, points_at_kinks, searched_points
from provenet.extraction.deadline import OVER, Deadline
from provenet.extraction.kinks import Traced
from provenet.extraction.oracle import Oracle
from provenet.extraction.tolerances import (
    ASKED_AGAIN,
    BOUND,
    NO_LINEAR,
    POINTS_A_KINK,
    SEARCHED_PART,
)
from provenet.extraction.units import Units, binary_scale
from provenet.fitting.parameters import Parameters
from provenet.networks.conversions import as_absolute, as_rectified
from provenet.networks.lattice_signs import signs_by_lattice
from provenet.networks.network import Network
from provenet.networks.signs import Signs, signs_from_linear_part, unit_terms


def confirmed(
    traced: Traced,
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    *,
    looks: int,
    wanted: int | None,
) -> TracedCandidate:
    """The units found, with the model's answers to points that may refute them.

    `looks` counts the networks that were found, this one and those that were refuted before.
    """
    asked = oracle.used
    signed = _signed(traced, one=oracle.outputs is None, deadline=oracle.deadline)
    network = signed.network
    X = searched_points(network, box, rng)
    if oracle.remaining is not None:
        X = X[: oracle.remaining // SEARCHED_PART]
    others = len(X) + POINTS_A_KINK * network.units + ASKED_AGAIN
    number = number_of_fresh(oracle.remaining, others, looks)
    fresh = _answered(oracle, box.sample(number, rng))
    searched = _answered(oracle, X)
    allowed = allowed_at_kinks(fresh, _error_bound(traced))
    X, kink_of = points_at_kinks(network, allowed, box, rng)
    at_kinks = _answered(oracle, X)
    first = traced.guides.X[:ASKED_AGAIN]
    again = Answered(first, oracle.ask(first[::-1], fresh=True)[::-1])
    points = _Points(box.inputs, fresh, searched, at_kinks, kink_of, again)
    return replace(_candidate(traced, signed, points, asked), looks=looks, wanted=wanted)


def _answered(oracle: Oracle, X: Array) -> Answered:
    return Answered(X, oracle.ask(X))


@dataclass(frozen=True)
class _Points:
    """What may refute a network, as in `TracedCandidate`."""

    inputs: str
    fresh: Answered
    searched: Answered
    at_kinks: Answered
    kink_of: AnyArray
    again: Answered


def unconfirmed(traced: Traced, *, one: bool, asked: int, stopped: str) -> TracedCandidate:
    """The units found before the search was stopped; `one` where answers are single numbers."""
    signed = _signed(traced, one=one, deadline=OVER)
    features, outputs = traced.units.W.shape[1], len(traced.units.constant)
    nothing = Answered(np.empty((0, features)), np.empty(0 if one else (0, outputs)))
    nobody = np.empty(0, dtype=int)
    points = _Points("inputs", nothing, nothing, nothing, nobody, nothing)
    return replace(_candidate(traced, signed, points, asked), stopped=stopped)


def _candidate(
    traced: Traced,
    signed: Signed,
    points: _Points,
    asked: int,
) -> TracedCandidate:
    return TracedCandidate(
        network=signed.network,
        guides=traced.guides,
        fresh=points.fresh,
        inputs=points.inputs,
        searched=points.searched,
        again=points.again,
        at_kinks=points.at_kinks,
        kink_of=points.kink_of,
        error_bound=_error_bound(traced),
        kinks=traced.kinks,
        complete=traced.complete,
        asked=asked,
        alternatives=signed.alternatives,
        open_signs=signed.open_signs,
        untried=signed.untried,
    )


def _error_bound(traced: Traced) -> float:
    """How far rounding lets a unit be off, relatively."""
    return BOUND * float(np.max(traced.errors, initial=0.0))


# ---------------------------------------------------------------- signs


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


def _signed(traced: Traced, *, one: bool, deadline: Deadline) -> Signed:
    """Signs from the linear part, every output being as large as the others."""
    found = traced.units
    sizes = np.linalg.norm(found.A, axis=1) + np.linalg.norm(found.linear, axis=1)
    scale = binary_scale(sizes)
    plain = _network(found.scaled(1 / scale))
    absolute = as_absolute(plain)
    parameters = Parameters.of(absolute)
    m = parameters.units
    terms = 2 * parameters.beta[:m].T, parameters.theta[:, :-1], parameters.beta[m:-1].T
    signs, untried = _signs(*terms, _error_bound(traced), deadline)
    size = float(np.linalg.norm(sizes / scale))
    left = np.linalg.norm(signs.remainder) > NO_LINEAR * size
    network = plain if left else as_rectified(absolute, signs.signs).replace(linear=None)
    network = _of_outputs(network, scale, one)
    if untried:
        return Signed(network, open_signs=m, untried=untried)
    others = () if left else signs.alternatives
    different = np.any([signs.signs != other for other in others], axis=0)
    return Signed(network, len(others), int(np.sum(different)))


def _signs(
    a: Array, W: Array, v: Array, relative_error: float, deadline: Deadline
) -> tuple[Signs, str]:
    """The signs that explain a linear part; why some were left untried, if some were."""
    signs = signs_from_linear_part(a, W, v)
    if signs.complete:
        return signs, ""
    M = unit_terms(a, W) / 2
    error = min(relative_error, NO_LINEAR) * float(np.linalg.norm(M))
    found = signs_by_lattice(a, W, v, error, lambda: deadline.passed)
    if found.signs is None:
        return signs, found.reason
    return Signs(found.signs, v.ravel() - M @ found.signs), ""


def _network(found: Units) -> Network:
    return Network(found.W, found.b, found.A, found.constant, linear=found.linear)


def _of_outputs(network: Network, scale: Array, one: bool) -> Network:
    """The network with outputs of their own size, or one number for an output."""
    A, c = scale[:, None] * network.output_weights, scale * network.output_bias
    linear = None if network.linear is None else scale[:, None] * network.linear
    if one:
        A, c, linear = A[0], c[0], None if linear is None else linear[0]
    return network.replace(output_weights=A, output_bias=c, linear=linear).canonical()
