"""`"halfspaces"`: a union of halfspaces from two-valued labels, or an intersection.

GP19, section 2.3 (Theorem 6): the lowest layer is of steps, the top OR; an intersection is the
complement of a union. `lowest_layer.unions` learns it, without the samples that are to judge it;
here the answer is brought to the user's inputs.

`faithful=True` is the proof of Theorem 6 as it stands, and nothing after it: labels of an
intersection are complemented, step 1 takes directions from moments (`lowest_layer.step_one`;
`objective=` says by which objective), step 2 refines each by Algorithm 1 (`lowest_layer.step_two`),
on the samples or by questions.

Every offset is estimated: `threshold=` and `objective=` serve `faithful=True` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from provenet.certify.layer import LayerCandidate
from provenet.certify.statements import FaceErrors, Fires
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import TINY, Array
from provenet.common.words import counted
from provenet.data.sources import StandardisedSource
from provenet.fitting.context import Context
from provenet.lowest_layer.from_bands import first_step, from_bands, layer_of
from provenet.lowest_layer.step_one import StepOne, step_one
from provenet.lowest_layer.step_two import step_two
from provenet.lowest_layer.unions.halfspace_set import HalfspaceSet
from provenet.lowest_layer.unions.learn import label_values, learn_union
from provenet.lowest_layer.user_layer import on_user_inputs
from provenet.moments.hermite import Moments
from provenet.networks.activations import get_activation
from provenet.networks.layered import LayeredNetwork, intersection, union
from provenet.networks.network import Network

_STEP = get_activation("step")


def halfspaces(context: Context) -> Iterator[LayerCandidate]:
    """One candidate."""
    low, high = label_values(context.source)
    yield (_as_printed if context.faithful else _learned)(context, low, high)


def _learned(context: Context, low: float, high: float) -> LayerCandidate:
    level = (low + high) / 2
    found = learn_union(
        StandardisedSource(context.source, context.standardisation),
        context.units,
        rng=context.rng,
        above=level,
        hidden=context.hidden_rows,
        stage=context.stage,
    )
    user = on_user_inputs(
        found.network, context.standardisation, found.angle_errors, found.threshold_errors
    )
    return LayerCandidate(
        network=user.units,
        what=_what(found.units, found.intersection),
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=found.exclusive[user.order],
        way="labels near the faces",
        statement=Fires(user.network, found.face_errors(context.standardisation), level),
        layered=user.network,
        parameters=found.weights.size,
        flip_rate=found.flip_rate,
        findings=found.findings,
        remark=_remark(context, found),
    )


def _what(halfspaces: int, of_intersection: bool) -> str:
    kind = "an intersection" if of_intersection else "a union"
    return f"{counted(halfspaces, 'halfspace')} of {kind}"


def _remark(context: Context, found: HalfspaceSet) -> str:
    remark = ""
    if found.flip_rate > 0:
        remark += (
            f" Far from all faces {100 * found.flip_rate:.2g}% of the labels are wrong: flipped at "
            "random, or of halfspaces that show too rarely to be found."
        )
    if context.options.threshold is not None:
        remark += " The threshold given was not used: every offset is estimated."
    if context.options.objective != "auto":
        remark += " The objective given was not used: it is one of faithful=True."
    return remark


# ---------------------------------------------------------------- the paper as it stands


def _as_printed(context: Context, low: float, high: float) -> LayerCandidate:
    """Theorem 6: both steps of the paper on the labels of the union, or of the complement."""
    mostly = bool(context.standardisation.label_mean > (low + high) / 2)
    start = step_one(context, _STEP, (low - high) if mostly else high - low)
    if context.options.threshold is None:
        units = replace(start.units, thresholds=_thresholds(start.moments, start.inside))
        start = replace(start, units=units)
    level, sign, top = (low + high) / 2, -1.0 if mostly else 1.0, intersection if mostly else union
    try:
        found = step_two(context, start, level, turned=mostly)
    except NoAnswer as why:
        return _from_moments(context, start, LayeredNetwork(_layer(start, sign), top), level, why)
    layer = layer_of(found.units, _STEP, sign)
    return from_bands(
        found.units,
        LayeredNetwork(layer, top),
        level,
        _what(layer.units, mostly),
        standardisation=found.standardisation,
        first=first_step(start, context.standardisation, sign),
    )


def _layer(start: StepOne, sign: float) -> Network:
    return Network(sign * start.units.weights, -sign * start.units.thresholds, activation=_STEP)


def _from_moments(
    context: Context, start: StepOne, own: LayeredNetwork, level: float, why: NoAnswer
) -> LayerCandidate:
    """Step 1 alone, and why step 2 did not go on."""
    angles, layer = start.angle_errors, own.layer
    user = on_user_inputs(own, context.standardisation, angles, np.full(len(angles), np.nan))
    faces = FaceErrors(
        layer.weights, -layer.biases, angles, np.zeros(len(angles)), context.standardisation
    )
    return LayerCandidate(
        network=user.units,
        what=_what(len(angles), own.top is intersection),
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=np.zeros(len(angles), int),
        way="moments",
        statement=Fires(user.network, faces, level),
        layered=user.network,
        unrefined=(
            f"{counted(len(angles), 'direction')} from moments as the paper has them, each within "
            f"about {np.degrees(float(angles.max())):.2g} degrees by sampling error, and turned "
            f"further where halfspaces overlap (GP19, Lemma 2): not refined. {why} Leave out "
            "faithful=True for more."
        ),
    )


def _thresholds(moments: Moments, W: Array) -> Array:
    """`u_3 / u_2 = (t^2 - 1) / t` of a step, solved for t."""
    second, third = (moments.symmetric[k].coefficients(W) for k in (2, 3))
    ratio = third / np.where(second == 0, TINY, second)
    return np.asarray((ratio + np.sqrt(ratio**2 + 4)) / 2)
