"""Units that bands told, as a candidate: on the user's inputs, with what they say of labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from provenet.certify.checks import Check, Status
from provenet.certify.layer import FirstStep, LayerCandidate
from provenet.certify.statements import FaceErrors, Fires
from provenet.data.standardisation import Standardisation
from provenet.lowest_layer.bands.descent import Refinement
from provenet.lowest_layer.step_one import StepOne
from provenet.lowest_layer.tolerances import SAME_UNIT
from provenet.lowest_layer.user_layer import errors_on_user_inputs, on_user_inputs
from provenet.networks.activations import Activation, get_activation
from provenet.networks.layered import LayeredNetwork, Polynomial, union
from provenet.networks.network import Network

_STEP = get_activation("step")


def layer_of(found: Sequence[Refinement], activation: Activation, sign: float = 1.0) -> Network:
    """The units that were searched for; `sign` -1 for the halfspaces of an intersection."""
    W = np.array([r.direction for r in found])
    t = np.array([r.threshold for r in found])
    return Network(sign * W, -sign * t, activation=activation)


def from_bands(
    found: Sequence[Refinement],
    own: LayeredNetwork,
    level: float,
    what: str,
    *,
    standardisation: Standardisation | None = None,
    first: FirstStep | None = None,
) -> LayerCandidate:
    """Units under their top on the inputs that were searched on: standardised ones, or the user's.

    Labels fire above `level`. `first` is in the order of `found`.
    """
    errors = np.array([r.angle for r in found]), np.array([r.threshold_error for r in found])
    user = on_user_inputs(own, standardisation, *errors)
    of_sets = not isinstance(own.top, Polynomial)
    steps = LayeredNetwork(user.network.layer.replace(activation=_STEP), union)
    faces = FaceErrors(own.layer.weights, -own.layer.biases, *errors, standardisation)
    queries, inputs = (np.array([getattr(r, n) for r in found]) for n in ("queries", "inputs"))
    asked = bool(queries.any())
    return LayerCandidate(
        network=user.units,
        what=what,
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=(queries if asked else inputs)[user.order],
        way=f"thin bands of {'inputs made for them' if asked else 'samples'} across each direction",
        statement=Fires(user.network if of_sets else steps, faces, level),
        layered=user.network if of_sets else None,
        parameters=own.layer.weights.size,
        findings=tuple(_findings([found[i] for i in user.order])),
        first=None if first is None else first.with_last(user.network.layer.weights, user.order),
        remark=f" Directions were refined by {queries.max():,} queries a unit at most."
        if asked
        else "",
    )


def first_step(start: StepOne, standardisation: Standardisation, sign: float = 1.0) -> FirstStep:
    """What step 1 gave, on the user's inputs, in its own order."""
    layer = Network(sign * start.units.weights, -sign * start.units.thresholds, activation=_STEP)
    unknown = np.full(layer.units, np.nan)
    errors, _ = errors_on_user_inputs(layer, standardisation, start.angle_errors, unknown)
    user = standardisation.network_to_user(layer)
    lengths = np.linalg.norm(user.weights, axis=1)
    return FirstStep(user.weights / lengths[:, None], -user.biases / lengths, errors)


def _findings(found: list[Refinement]) -> Iterator[Check]:
    """What the bands about each unit say."""
    for i, r in enumerate(found):
        yield Check(
            f"unit {i} is a single one",
            r.evidence.one_unit,
            r.evidence.figures,
            "the rise of one unit",
            f"Unit {i}: {r.evidence.message}",
            Status.PARTIAL,
        )
        near = [j for j, other in enumerate(found) if j != i and _same(r, other)]
        yield Check(
            f"unit {i} is apart from the others",
            not near,
            f"as unit {near[0]}" if near else "apart",
            "apart",
            f"Units {i} and {near[0] if near else i} came out as one: two units are too close to "
            "each other to separate, or one was missed by the moments. Take more samples.",
            Status.PARTIAL,
        )
        yield Check(
            f"unit {i} reached the angle asked for",
            r.reached,
            f"{np.degrees(r.angle):.2g} degrees",
            "the angle asked for, surely",
            _why_coarse(i, r),
            Status.PARTIAL,
            samples=r.inputs,
        )


def _why_coarse(i: int, r: Refinement) -> str:
    """Why the angle asked for was not reached, and what would help."""
    angle = f"about {np.degrees(r.angle):.2g} degrees"
    if r.reason == "statistics":
        return (
            f"Unit {i} is known to {angle} only, which is coarse: Algorithm 1 gains no more from "
            f"the {r.inputs} samples near its threshold. Take more samples, or give a QuerySource."
        )
    if r.reason == "steps":
        return (
            f"Unit {i} ended at {angle}, before the search was done: give more time (budget=), or "
            "take fewer units at once."
        )
    return (
        f"Unit {i} ended at {angle} without reaching the asked one: take more samples, or start "
        "nearer."
    )


def _same(a: Refinement, b: Refinement) -> bool:
    apart = float(np.linalg.norm(a.direction - b.direction))
    return apart < SAME_UNIT * (a.angle + b.angle)
