"""From traced units to a candidate: their signs, and the points that may confirm it.

Nothing is judged here: `certify.asked` does that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from provenet.certify.asked import Answered, TracedCandidate, allowed_at_kinks
from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.kinks import Traced
from provenet.extraction.tolerances import BOUND, CLEARLY, KINK_TRIES, NO_LINEAR, TINIEST
from provenet.extraction.units import Units, binary_scale
from provenet.fitting.parameters import Parameters
from provenet.networks.conversions import as_absolute, as_rectified
from provenet.networks.network import Network
from provenet.networks.signs import signs_from_linear_part

Answer = Callable[[Array], Array]
"""The model's answers to points: (n,) or (n, outputs)."""


def confirmed(
    traced: Traced,
    answer: Answer,
    fresh: Array,
    box: Box,
    rng: np.random.Generator,
    *,
    asked: int,
    wanted: int | None,
) -> TracedCandidate:
    """The units found, with the model's answers to fresh points and to points at their kinks."""
    fresh_points = Answered(fresh, answer(fresh))
    signed = _signed(traced.units, one=fresh_points.y.ndim == 1)
    allowed = allowed_at_kinks(fresh_points, _error_bound(traced))
    X, kink_of = points_at_kinks(signed.network, allowed, box, rng)
    at_kinks = Answered(X, answer(X))
    return _candidate(traced, signed, fresh_points, at_kinks, kink_of, asked, wanted)


def unconfirmed(traced: Traced, *, one: bool, asked: int, stopped: str) -> TracedCandidate:
    """The units found before the search was stopped; `one` where answers are single numbers."""
    signed = _signed(traced.units, one=one)
    features, outputs = traced.units.W.shape[1], len(traced.units.constant)
    nothing = Answered(np.empty((0, features)), np.empty(0 if one else (0, outputs)))
    nobody = np.empty(0, dtype=int)
    return _candidate(traced, signed, nothing, nothing, nobody, asked, None, stopped)


def _candidate(
    traced: Traced,
    signed: Signed,
    fresh: Answered,
    at_kinks: Answered,
    kink_of: AnyArray,
    asked: int,
    wanted: int | None,
    stopped: str = "",
) -> TracedCandidate:
    return TracedCandidate(
        network=signed.network,
        guides=traced.guides,
        fresh=fresh,
        at_kinks=at_kinks,
        kink_of=kink_of,
        error_bound=_error_bound(traced),
        kinks=traced.kinks,
        complete=traced.complete,
        asked=asked,
        alternatives=signed.alternatives,
        all_signs=signed.all_tried,
        wanted=wanted,
        stopped=stopped,
    )


def _error_bound(traced: Traced) -> float:
    """How far rounding lets a unit be off, relatively."""
    return BOUND * float(np.max(traced.errors, initial=0.0))


# ---------------------------------------------------------------- points at kinks


def points_at_kinks(
    network: Network, allowed: Array, box: Box, rng: np.random.Generator
) -> tuple[Array, AnyArray]:
    """Points on the hyperplane of every unit and on both sides, in the box; and whose they are.

    Those beside it are as far as makes a unit that is not there show clearly, beyond the error
    allowed, in one output at least.
    """
    slopes = np.abs(np.atleast_2d(network.output_weights))
    with np.errstate(divide="ignore"):
        beside = CLEARLY * np.min((allowed + TINIEST)[:, None] / slopes, axis=0)
    points, units = [np.empty((0, network.features))], []
    for i, (w, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        X = _on_hyperplane(w, b, box, rng)
        for offset in (0.0, -beside[i], beside[i]):
            moved = X + offset * w
            inside = moved[box.contains(moved)][:1]
            points.append(inside)
            units += [i] * len(inside)
    return np.vstack(points), np.array(units, dtype=int)


def _on_hyperplane(w: Array, b: float, box: Box, rng: np.random.Generator) -> Array:
    """Points of a hyperplane near random ones in the box; in the box, if that can be had.

    Going from the box to the hyperplane and back again ends where they meet.
    """
    X = box.sample(KINK_TRIES, rng)
    for _ in range(KINK_TRIES):
        X = X - np.outer(X @ w + b, w)
        if box.contains(X).any():
            break
        X = box.nearest(X)
    return X


# ---------------------------------------------------------------- signs


@dataclass(frozen=True)
class Signed:
    """A network whose units have signs, and a linear term if no signs explain it."""

    network: Network
    alternatives: int
    """How many other signs explain the linear part as well."""
    all_tried: bool
    """Whether no signs were left untried."""


def _signed(found: Units, *, one: bool) -> Signed:
    """Signs from the linear part, every output being as large as the others."""
    sizes = np.linalg.norm(found.A, axis=1) + np.linalg.norm(found.linear, axis=1)
    scale = binary_scale(sizes)
    plain = _network(found.scaled(1 / scale))
    absolute = as_absolute(plain)
    parameters = Parameters.of(absolute)
    m = parameters.units
    terms = 2 * parameters.beta[:m].T, parameters.theta[:, :-1], parameters.beta[m:-1].T
    signs = signs_from_linear_part(*terms)
    size = float(np.linalg.norm(sizes / scale))
    if np.linalg.norm(signs.remainder) > NO_LINEAR * size:
        return Signed(_of_outputs(plain, scale, one), 0, signs.complete)
    network = as_rectified(absolute, signs.signs).replace(linear=None)
    return Signed(_of_outputs(network, scale, one), len(signs.alternatives), signs.complete)


def _network(found: Units) -> Network:
    return Network(found.W, found.b, found.A, found.constant, linear=found.linear)


def _of_outputs(network: Network, scale: Array, one: bool) -> Network:
    """The network with outputs of their own size, or one number for an output."""
    A, c = scale[:, None] * network.output_weights, scale * network.output_bias
    linear = None if network.linear is None else scale[:, None] * network.linear
    if one:
        A, c, linear = A[0], c[0], None if linear is None else linear[0]
    return network.replace(output_weights=A, output_bias=c, linear=linear).canonical()
