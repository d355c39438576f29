"""`"lowest-layer"`: units of high threshold under a top that is not known (GP19, section 2).

Step 1, from moments in one pass: directions to a few degrees (`layer_directions`; `faithful=True`
minimises the paper's objective one by one). Step 2, for ReLU units: where one of them fires alone
the labels are linear in the inputs, so they are exact to machine precision (`exclusive`), whether
the top is monotone or not. Other activations end with step 1.

The top itself is left open; `learn_top` fits it once the layer is known. The network returned has
the linear part of the top for its output weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial

import numpy as np

from provenet.exclusive import Exclusive, exclusive_units
from provenet.layer_directions import Directions, directions
from provenet.layer_evidence import LayerEvidence
from provenet.moments import MomentRequest, Moments
from provenet.networks import Network, row_blocks
from provenet.result import Recovery, Status
from provenet.scalars import coefficients_of
from provenet.sources import BiasedSource, Source, StandardisedSource
from provenet.subspace import Span, span_of_units
from provenet.typing import Array
from provenet.workspace import NoAnswer, Workspace

_MOST_FIRING = 400_000
_MOSTLY = 0.5
_ROUNDING = 1e-8
_FIRES_CLEARLY = 1e-9


def lowest_layer(workspace: Workspace) -> Iterator[Recovery]:
    """One answer, judged by itself."""
    kept_by_labels = isinstance(workspace.source, BiasedSource)
    silent = None if kept_by_labels else silent_label(workspace.problem.samples.y)
    if silent is None and not kept_by_labels and workspace.activation.degree is not None:
        raise NoAnswer(
            "Labels have no common value where no unit fires, so thresholds are too low for this "
            'method, or labels have noise: use method="expand-prune" if the top is a sum.'
        )
    span = _span(workspace)
    with workspace.stage("moments", f"orders 3 and 4 in {span.rank} dimensions"):
        moments = workspace.source.moments(
            MomentRequest(workspace.standardisation, 4, span.basis, span.quadratic)
        )
    with workspace.stage("decompose"):
        way = "one-by-one" if workspace.faithful else "decomposition"
        inside = directions(moments, workspace.activation, workspace.threshold, workspace.rng, way)
        start = Directions(inside.weights @ span.basis, inside.thresholds)
        angles = angle_errors(moments, inside.weights)
    refined = None
    if silent is not None and workspace.refine:
        with workspace.stage("refine"):
            refined = _refined(workspace, start, silent)
    yield refined or _approximate(workspace, start, angles, silent)


def silent_label(y: Array) -> float | None:
    """The label where no unit fires: what most samples have, exactly; None if there is none."""
    value = float(np.median(y))
    return value if np.mean(y == value) > _MOSTLY else None


def _span(workspace: Workspace) -> Span:
    """The span of the units, from `T_2`."""
    with workspace.stage("moments", "order 2"):
        full = workspace.source.moments(MomentRequest(workspace.standardisation, order=2))
    span = span_of_units(full.tensors[2], full.errors[2], workspace.units)
    strongest, level = float(np.abs(span.eigenvalues[0])), span.noise_level
    if span.rank and np.abs(span.eigenvalues[span.rank - 1]) > level:
        return span
    asked = 1 if workspace.units is None else workspace.units
    weakest = strongest if workspace.units is None else np.abs(span.eigenvalues[asked - 1])
    needed = workspace.source.size * (2 * level / max(float(weakest), 1e-300)) ** 2
    raise NoAnswer(
        f"{int(np.sum(np.abs(span.eigenvalues) > level))} of {asked} units stand above the "
        "sampling error of the second moment: thresholds are too high for this many samples. About "
        f"{needed:.0e} samples would be needed."
    )


def angle_errors(moments: Moments, W: Array) -> Array:
    """Radians by which sampling alone turns each direction, from the order that sees it best.

    `T_k(w, .., w, .)` is off by `sqrt((k - 1)!)` times what an entry is in each direction.
    """
    per_order = []
    for k in (3, 4):
        size = np.maximum(np.abs(coefficients_of(moments.tensors[k], W)), 1e-300)
        error = moments.errors[k] * np.sqrt(factorial(k - 1) * W.shape[1])
        per_order.append(error / size)
    return np.asarray(np.min(per_order, axis=0))


def _approximate(
    workspace: Workspace, start: Directions, angles: Array, silent: float | None
) -> Recovery:
    """Step 1 alone: what products of units add to the moments is not known, so no success."""
    network = _network(workspace, start, silent or 0.0)
    worst = np.degrees(float(angles.max()))
    if not workspace.refine:
        reason = "This is step 1 alone, not refined."
    elif silent is None:
        reason = "No sample is known to be silent, so there is nothing to refine on."
    else:
        reason = "No line explains the samples on which one unit fires alone, as ReLU units need."
    nothing = np.full(len(angles), np.nan)
    return Recovery(
        network=network,
        status=Status.PARTIAL,
        message=(
            f"{len(angles)} directions, each within about {worst:.2g} degrees by sampling error; "
            f"products of units in the top may turn them further (GP19, Lemma 2). {reason}"
        ),
        method="lowest-layer",
        layer=LayerEvidence(angles, nothing, np.zeros(len(angles), int), False, np.nan, "moments"),
    )


def _network(
    workspace: Workspace, units: Directions, silent: float, slopes: Array | None = None
) -> Network:
    """The units on the user's inputs; without slopes the top's linear part is left at 1."""
    a = np.ones(len(units.weights)) if slopes is None else slopes
    own = Network(units.weights, -units.thresholds, a, silent, workspace.activation)
    return workspace.standardisation.network_to_user(own).canonical()


# ---------------------------------------------------------------- step 2


def _refined(workspace: Workspace, start: Directions, silent: float) -> Recovery | None:
    """ReLU units where they fire alone; None where no line explains most of these samples."""
    source = StandardisedSource(workspace.source, workspace.standardisation)
    X, y = firing_samples(source, silent)
    if workspace.activation.slope == 0.0:
        units = exclusive_units(X, y, start.weights, start.thresholds)
        if units.exact.all():
            return _exact(workspace, units, silent)
    return None


def firing_samples(source: Source, silent: float) -> tuple[Array, Array]:
    """Samples that fire, with labels less the silent one; as many as fit the limit."""
    inputs, labels, count = [], [], 0
    for block in row_blocks(source.size):
        X, y = source.rows(block.start, block.stop)
        fires = y != silent
        inputs.append(X[fires])
        labels.append(y[fires] - silent)
        count += int(fires.sum())
        if count > _MOST_FIRING:
            break
    return np.concatenate(inputs), np.concatenate(labels)


def _exact(workspace: Workspace, units: Exclusive, silent: float) -> Recovery:
    """Judge exact units on samples that no fit saw."""
    held = workspace.held_out
    X, y = workspace.standardisation.apply(held.X), held.y - silent
    wrong, alone = contradictions(units, X, y)
    found = Directions(units.weights, units.thresholds)
    network = _network(workspace, found, silent, units.coefficients)
    k = len(units.weights)
    evidence = LayerEvidence(
        np.zeros(k), np.zeros(k), units.explained, wrong == 0, 0.0, "labels of one unit alone"
    )
    if wrong:
        status = Status.PARTIAL
        message = (
            f"{k} units explain the samples on which they fire alone to rounding, but {wrong} of "
            f"{len(y)} samples that were not fitted contradict them: some unit is missing, or the "
            "labels are not those of a lowest layer of ReLU units. Give units=, or more samples."
        )
    else:
        status = Status.EXACT
        message = (
            f"All {k} units of the lowest layer that show in the samples are recovered to machine "
            f"precision: of {len(y)} samples that were not fitted every one fires where they do, "
            f"and the {alone} on which one fires alone are predicted exactly. What lies above them "
            "is open: learn_top fits it."
        )
    return Recovery(network, status, message, "lowest-layer", layer=evidence)


def contradictions(units: Exclusive, X: Array, y: Array) -> tuple[int, int]:
    """Samples that contradict the units, and those on which a single unit fires.

    A sample within rounding of a threshold may be taken either way.
    """
    margins = X @ units.weights.T - units.thresholds
    fires = margins > _FIRES_CLEARLY
    count = fires.sum(axis=1)
    unclear = np.any(np.abs(margins) <= _FIRES_CLEARLY, axis=1)
    predicted = np.maximum(margins, 0.0) @ units.coefficients
    off = np.abs(predicted - y) > _ROUNDING * max(float(np.abs(y).max(initial=0.0)), 1e-300)
    wrong = ((count == 0) & (y != 0)) | ((count == 1) & off)
    return int(np.sum(wrong & ~unclear)), int(np.sum(count == 1))
