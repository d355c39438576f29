"""`"lowest-layer"`: units of high threshold under a top that is not known (GP19, section 2).

Step 1, from moments in one pass: directions to a few degrees (`lowest_layer.directions`;
`faithful=True` minimises the paper's objective one by one). Step 2 (`lowest_layer.refinement`):
ReLU and smooth units come out exactly, steps as well as samples or queries allow.

The top itself is left open; `learn_top` fits it once the layer is known. The network returned has
the linear part of the top for its output weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.layer import LayerCandidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.fitting.workspace import Workspace
from provenet.lowest_layer.directions import Directions, angle_errors, directions, layer_span
from provenet.lowest_layer.refinement import refined
from provenet.lowest_layer.tolerances import MOSTLY_SILENT
from provenet.lowest_layer.user_layer import on_user_inputs, open_top
from provenet.moments.estimation import moments_in_span
from provenet.networks.network import Network


def lowest_layer(workspace: Workspace) -> Iterator[LayerCandidate]:
    """What step 2 finds, the strongest way first; then step 1."""
    kept_by_labels = workspace.source.kept_by_labels
    silent = None if kept_by_labels else silent_label(workspace.problem.samples.y)
    start, angles = _step_one(workspace)
    reason = "This is step 1 alone, not refined."
    if kept_by_labels:
        reason = "Samples that were kept by their labels have none to refine on."
    elif workspace.refine:
        reason = "Step 2 found nothing that explains the labels."
        try:
            yield from _in_stage(workspace, refined(workspace, start, silent))
        except NoAnswer as why:
            reason = str(why)
        if silent is None and workspace.activation.degree is not None:
            raise NoAnswer(
                "Labels have no common value where no unit fires, so thresholds are too low for "
                'this method, or labels have noise: use method="expand-prune" if the top is a sum.'
            )
    yield _approximate(workspace, start, angles, silent, reason)


def _step_one(workspace: Workspace) -> tuple[Directions, Array]:
    """Directions from moments, and their errors by sampling."""
    span = layer_span(workspace)
    with workspace.stage("moments", f"orders 3 and 4 in {span.rank} dimensions"):
        moments = moments_in_span(workspace.source, workspace.standardisation, span)
    with workspace.stage("decompose"):
        way = "one-by-one" if workspace.faithful else "decomposition"
        inside = directions(moments, workspace.activation, workspace.threshold, workspace.rng, way)
    start = Directions(inside.weights @ span.basis, inside.thresholds)
    return start, angle_errors(moments, inside.weights)


def _in_stage(
    workspace: Workspace, candidates: Iterator[LayerCandidate]
) -> Iterator[LayerCandidate]:
    """Candidates, the time that each takes counted as refinement."""
    while True:
        with workspace.stage("refine"):
            candidate = next(candidates, None)
        if candidate is None:
            return
        yield candidate


def silent_label(y: Array) -> float | None:
    """The label where no unit fires: what most samples have, exactly; None if there is none."""
    value = float(np.median(y))
    return value if np.mean(y == value) > MOSTLY_SILENT else None


def _approximate(
    workspace: Workspace, start: Directions, angles: Array, silent: float | None, reason: str
) -> LayerCandidate:
    """Step 1 alone: what products of units add to the moments is not known."""
    layer = Network(start.weights, -start.thresholds, activation=workspace.activation)
    user = on_user_inputs(
        open_top(layer, silent=silent or 0.0),
        workspace.standardisation,
        angles,
        np.full(len(angles), np.nan),
    )
    worst = min(float(np.degrees(user.angle_errors.max())), 90.0)
    units = counted(len(angles), "unit")
    return LayerCandidate(
        network=user.units,
        what=units,
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=np.zeros(len(angles), int),
        way="moments",
        unrefined=(
            f"{units}, directions within about {worst:.2g} degrees by sampling error; products of "
            f"units in the top may turn them further (GP19, Lemma 2). {reason}"
        ),
    )
