"""`"halfspaces"`: a union of halfspaces from two-valued labels, or an intersection.

GP19, section 2.3 (Theorem 6): the lowest layer is of steps, the top OR; an intersection is the
complement of a union. `lowest_layer.unions` learns it, without the samples that are to judge it;
here the answer is brought to the user's inputs. `faithful=True` takes the directions that the
paper's proof starts from, of moments, as they are.

Every offset is estimated: `threshold=` serves `faithful=True` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from provenet.certify.layer import LayerCandidate
from provenet.certify.statements import FaceErrors, Fires
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.data.sources import StandardisedSource
from provenet.fitting.workspace import Workspace
from provenet.lowest_layer.directions import angle_errors, directions, layer_span
from provenet.lowest_layer.unions.halfspace_set import HalfspaceSet
from provenet.lowest_layer.unions.learn import label_values, learn_union
from provenet.lowest_layer.user_layer import on_user_inputs
from provenet.moments.estimation import moments_in_span
from provenet.moments.scalars import coefficients_of
from provenet.moments.sums import Moments
from provenet.networks.activations import get_activation
from provenet.networks.layered import LayeredNetwork, intersection, union
from provenet.networks.network import Network

_STEP = get_activation("step")


def halfspaces(workspace: Workspace) -> Iterator[LayerCandidate]:
    """One candidate."""
    low, high = label_values(workspace.source)
    yield (_from_moments if workspace.faithful else _learned)(workspace, low, high)


def _learned(workspace: Workspace, low: float, high: float) -> LayerCandidate:
    level = (low + high) / 2
    found = learn_union(
        StandardisedSource(workspace.source, workspace.standardisation),
        workspace.units,
        rng=workspace.rng,
        above=level,
        hidden=workspace.hidden_rows,
        stage=workspace.stage,
    )
    user = on_user_inputs(
        found.network, workspace.standardisation, found.angle_errors, found.threshold_errors
    )
    return LayerCandidate(
        network=user.units,
        what=_what(found.units, found.intersection),
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=found.exclusive[user.order],
        way="labels near the faces",
        statement=Fires(user.network, found.face_errors(workspace.standardisation), level),
        layered=user.network,
        parameters=found.weights.size,
        flip_rate=found.flip_rate,
        findings=found.findings,
        remark=_remark(workspace, found),
    )


def _what(halfspaces: int, of_intersection: bool) -> str:
    kind = "an intersection" if of_intersection else "a union"
    return f"{counted(halfspaces, 'halfspace')} of {kind}"


def _remark(workspace: Workspace, found: HalfspaceSet) -> str:
    remark = ""
    if found.flip_rate > 0:
        remark += (
            f" Far from all faces {100 * found.flip_rate:.2g}% of the labels are wrong: flipped at "
            "random, or of halfspaces that show too rarely to be found."
        )
    if workspace.threshold is not None:
        remark += " The threshold given was not used: every offset is estimated."
    return remark


# ---------------------------------------------------------------- the paper as it stands


def _from_moments(workspace: Workspace, low: float, high: float) -> LayerCandidate:
    """Step 1 of the paper, with thresholds from the same moments if none is given."""
    mostly = bool(workspace.standardisation.label_mean > (low + high) / 2)
    span = layer_span(workspace)
    with workspace.stage("moments", f"orders 3 and 4 in {counted(span.rank, 'dimension')}"):
        found = moments_in_span(workspace.source, workspace.standardisation, span)
        moments = _scaled(found, (low - high) if mostly else high - low)
    with workspace.stage("decompose"):
        t = workspace.threshold
        units = directions(moments, _STEP, t, workspace.rng, "one-by-one")
        thresholds = _thresholds(moments, units.weights) if t is None else units.thresholds
    sign = -1.0 if mostly else 1.0
    layer = Network(sign * units.weights @ span.basis, -sign * thresholds, activation=_STEP)
    own = LayeredNetwork(layer, intersection if mostly else union)
    angles = angle_errors(moments, units.weights)
    unknown = np.full(len(angles), np.nan)
    user = on_user_inputs(own, workspace.standardisation, angles, unknown)
    faces = FaceErrors(
        layer.weights, -layer.biases, angles, np.zeros(len(angles)), workspace.standardisation
    )
    return LayerCandidate(
        network=user.units,
        what=_what(len(angles), mostly),
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=np.zeros(len(angles), int),
        way="moments",
        statement=Fires(user.network, faces, (low + high) / 2),
        layered=user.network,
        unrefined=(
            f"{counted(len(angles), 'direction')} from moments as the paper has them, each within "
            f"about {np.degrees(float(angles.max())):.2g} degrees by sampling error, and turned "
            "further where halfspaces overlap (GP19, Lemma 2): not refined. Leave out "
            "faithful=True for more."
        ),
    )


def _scaled(moments: Moments, size: float) -> Moments:
    """Moments of labels over `size`: 0 and 1, and complemented where it is negative."""
    return replace(
        moments,
        tensors=tuple(T / size for T in moments.tensors),
        errors=tuple(error / abs(size) for error in moments.errors),
    )


def _thresholds(moments: Moments, W: Array) -> Array:
    """`u_3 / u_2 = (t^2 - 1) / t` of a step, solved for t."""
    second, third = (coefficients_of(moments.tensors[k], W) for k in (2, 3))
    ratio = third / np.where(second == 0, 1e-300, second)
    return np.asarray((ratio + np.sqrt(ratio**2 + 4)) / 2)
