"""`"lowest-layer"`: units of high threshold under a top that is not known (GP19, section 2).

Step 1, from moments in one pass: directions to a few degrees (`lowest_layer.step_one`). Step 2
(`lowest_layer.refinement`): ReLU and smooth units come out exactly, steps as well as samples or
queries allow.

`faithful=True` is the paper's algorithm and nothing after it. Step 1 minimises its objective, one
by one (section 2.1) or for all directions at once (`objective="simultaneous"`, appendix B.4). Step
2 is Algorithms 1 and 2 (`lowest_layer.step_two`; Theorem 5), on the samples or, of a source that
may be asked, on inputs made for it. It is for units that are silent below a threshold, under a
monotone top; for others (sigmoid, exp) the paper stops after step 1, and so does this.
`refine=True` beside it goes on from that answer by least squares for the layer and a polynomial
above it, and by nothing else; steps have no slope that it could follow.

The top itself is left open; `learn_top` fits it once the layer is known. The network returned has
the linear part of the top for its output weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from provenet.certify.layer import LayerCandidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.lowest_layer.bands.queries import label_rounding
from provenet.lowest_layer.directions import Directions, unit_rows
from provenet.lowest_layer.from_bands import first_step, from_bands, layer_of
from provenet.lowest_layer.refinement import by_least_squares, refined
from provenet.lowest_layer.step_one import StepOne, step_one
from provenet.lowest_layer.step_two import step_two
from provenet.lowest_layer.tolerances import MOSTLY_SILENT
from provenet.lowest_layer.user_layer import on_user_inputs, open_top
from provenet.networks.network import Network


def lowest_layer(context: Context) -> Iterator[LayerCandidate]:
    """What step 2 finds, the strongest way first; then step 1. The paper's answer if faithful."""
    inputs_alone = context.source.inputs_alone
    silent = None if inputs_alone else silent_label(context.problem.samples.y)
    start = step_one(context, context.activation)
    if context.faithful:
        printed = _as_printed(context, start, silent)
        yield _onward(context, printed) if context.refine else printed
        return
    reason = "This is step 1 alone, not refined."
    if inputs_alone:
        reason = _NO_LABELS
    elif context.refine:
        reason = "Step 2 found nothing that explains the labels."
        try:
            yield from _in_stage(context, refined(context, start.units, silent))
        except NoAnswer as why:
            reason = str(why)
        if silent is None and context.activation.degree is not None:
            raise NoAnswer(
                "Labels have no common value where no unit fires, so thresholds are too low for "
                'this method, or labels have noise: use method="expand-prune" if the top is a sum.'
            )
    yield _approximate(context, start, silent, reason)


_NO_LABELS = "Samples that were kept by their labels have none to refine on."


def _as_printed(context: Context, start: StepOne, silent: float | None) -> LayerCandidate:
    """Both steps of the paper; step 1 with the reason where its step 2 does not go."""
    try:
        if context.source.inputs_alone:
            raise NoAnswer(_NO_LABELS)
        if silent is None:
            raise NoAnswer(
                "Step 2 reads off labels where units fire (GP19, Theorem 5), and these have no "
                "common value where none does: units are not silent below a threshold, thresholds "
                "are too low, or labels have noise. Leave out faithful=True for more."
            )
        level = silent + label_rounding(context.problem.samples.y)
        found = step_two(context, start, level)
    except NoAnswer as why:
        return _approximate(context, start, silent, str(why))
    layer = layer_of(found.units, context.activation)
    return from_bands(
        found.units,
        open_top(layer, silent=silent),
        level,
        counted(layer.units, "unit"),
        standardisation=found.standardisation,
        first=first_step(start, context.standardisation),
    )


def _onward(context: Context, printed: LayerCandidate) -> LayerCandidate:
    """Least squares from the paper's answer; that answer, and why, where it leads no further."""
    if context.source.inputs_alone:
        return printed
    if context.activation.degree == 0:
        return _with_remark(printed, "Steps have no slope for least squares to follow.")
    own = context.standardisation.network_from_user(printed.network)
    near = Directions(own.weights, -own.biases)
    for fitted in _in_stage(context, by_least_squares(context, near)):
        return replace(fitted, notes=(*fitted.notes, _turned(printed, fitted)))
    return _with_remark(printed, "Least squares from there does not explain the labels.")


def _with_remark(candidate: LayerCandidate, remark: str) -> LayerCandidate:
    return replace(candidate, remark=f"{candidate.remark} {remark}")


def _turned(printed: LayerCandidate, fitted: LayerCandidate) -> str:
    """What least squares made of the paper's answer."""
    before, after = (unit_rows(found.network.weights) for found in (printed, fitted))
    apart = np.linalg.norm(after[:, None] - before[None], axis=2).min(axis=1).max()
    stated, turned = np.degrees(printed.angle_errors.max()), np.degrees(2 * np.arcsin(apart / 2))
    return (
        f"The paper's own answer was within {stated:.3g} degrees (one standard error); least "
        f"squares turned it by {turned:.3g}."
    )


def _in_stage(context: Context, candidates: Iterator[LayerCandidate]) -> Iterator[LayerCandidate]:
    """Candidates, the time that each takes counted as refinement."""
    while True:
        with context.stage("refine"):
            candidate = next(candidates, None)
        if candidate is None:
            return
        yield candidate


def silent_label(y: Array) -> float | None:
    """The label where no unit fires: what most samples have, exactly; None if there is none."""
    value = float(np.median(y))
    return value if np.mean(y == value) > MOSTLY_SILENT else None


def _approximate(
    context: Context, start: StepOne, silent: float | None, reason: str
) -> LayerCandidate:
    """Step 1 alone: what products of units add to the moments is not known."""
    units, angles = start.units, start.angle_errors
    layer = Network(units.weights, -units.thresholds, activation=context.activation)
    user = on_user_inputs(
        open_top(layer, silent=silent or 0.0),
        context.standardisation,
        angles,
        np.full(len(angles), np.nan),
    )
    worst = min(float(np.degrees(user.angle_errors.max())), 90.0)
    what = counted(len(angles), "unit")
    return LayerCandidate(
        network=user.units,
        what=what,
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=np.zeros(len(angles), int),
        way="moments",
        unrefined=(
            f"{what}, directions within about {worst:.2g} degrees by sampling error; products of "
            f"units in the top may turn them further (GP19, Lemma 2). {reason}"
        ),
    )
