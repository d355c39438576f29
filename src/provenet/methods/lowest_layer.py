"""`"lowest-layer"`: units of high threshold under a top that is not known (GP19, section 2).

Step 1, from moments in one pass: directions to a few degrees (`layer_directions`; `faithful=True`
minimises the paper's objective one by one). Step 2 (`layer_refinement`): ReLU and smooth units come
out exactly, steps as well as samples or queries allow.

The top itself is left open; `learn_top` fits it once the layer is known. The network returned has
the linear part of the top for its output weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.fitting.workspace import Workspace
from provenet.lowest_layer.directions import Directions, angle_errors, directions, layer_span
from provenet.lowest_layer.evidence import LayerEvidence
from provenet.lowest_layer.refinement import METHOD, refined
from provenet.lowest_layer.user_layer import on_user_inputs, open_top
from provenet.moments.estimation import moments_in_span
from provenet.networks.network import Network

_MOSTLY = 0.5


def lowest_layer(workspace: Workspace) -> Iterator[Recovery]:
    """One answer, judged by itself."""
    kept_by_labels = workspace.source.kept_by_labels
    silent = None if kept_by_labels else silent_label(workspace.problem.samples.y)
    span = layer_span(workspace)
    with workspace.stage("moments", f"orders 3 and 4 in {span.rank} dimensions"):
        moments = moments_in_span(workspace.source, workspace.standardisation, span)
    with workspace.stage("decompose"):
        way = "one-by-one" if workspace.faithful else "decomposition"
        inside = directions(moments, workspace.activation, workspace.threshold, workspace.rng, way)
        start = Directions(inside.weights @ span.basis, inside.thresholds)
        angles = angle_errors(moments, inside.weights)
    reason, found = "This is step 1 alone, not refined.", None
    if kept_by_labels:
        reason = "Samples that were kept by their labels have none to refine on."
    elif workspace.refine:
        reason = "Step 2 found nothing that explains the labels."
        try:
            with workspace.stage("refine"):
                found = refined(workspace, start, silent)
        except NoAnswer as why:
            reason = str(why)
        if found is None and silent is None and workspace.activation.degree is not None:
            raise NoAnswer(
                "Labels have no common value where no unit fires, so thresholds are too low for "
                'this method, or labels have noise: use method="expand-prune" if the top is a sum.'
            )
    yield found or _approximate(workspace, start, angles, silent, reason)


def silent_label(y: Array) -> float | None:
    """The label where no unit fires: what most samples have, exactly; None if there is none."""
    value = float(np.median(y))
    return value if np.mean(y == value) > _MOSTLY else None


def _approximate(
    workspace: Workspace, start: Directions, angles: Array, silent: float | None, reason: str
) -> Recovery:
    """Step 1 alone: what products of units add to the moments is not known, so no success."""
    layer = Network(start.weights, -start.thresholds, activation=workspace.activation)
    user = on_user_inputs(
        open_top(layer, silent=silent or 0.0),
        workspace.standardisation,
        angles,
        np.full(len(angles), np.nan),
    )
    worst = min(float(np.degrees(user.angle_errors.max())), 90.0)
    return Recovery(
        network=user.units,
        status=Status.PARTIAL,
        message=(
            f"{counted(len(angles), 'unit')}, directions within about {worst:.2g} degrees by "
            "sampling error; products of units in the top may turn them further (GP19, Lemma 2). "
            f"{reason}"
        ),
        method=METHOD,
        layer=LayerEvidence(
            user.angle_errors,
            user.threshold_errors,
            np.zeros(len(angles), int),
            False,
            "moments",
        ),
    )
