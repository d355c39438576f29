"""`"halfspaces"`: a union of halfspaces from two-valued labels, or an intersection.

GP19, section 2.3 (Theorem 6): the lowest layer is of steps, the top OR; an intersection is the
complement of a union. `lowest_layer.unions` learns it; here the answer is brought to the user's
inputs and judged on samples that were kept from it. `faithful=True` takes the directions that the
paper's proof starts from, of moments, as they are.

Every offset is estimated: `threshold=` serves `faithful=True` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtrc

from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.data.sources import StandardisedSource
from provenet.fitting.workspace import Workspace
from provenet.lowest_layer.directions import angle_errors, directions, layer_span
from provenet.lowest_layer.evidence import LayerEvidence
from provenet.lowest_layer.unions.halfspace_set import HalfspaceSet
from provenet.lowest_layer.unions.learn import label_values, learn_union
from provenet.lowest_layer.user_layer import on_user_inputs
from provenet.moments.estimation import moments_in_span
from provenet.moments.scalars import coefficients_of
from provenet.moments.sums import Moments
from provenet.networks.activations import get_activation
from provenet.networks.layered import LayeredNetwork, intersection, union
from provenet.networks.network import Network

_METHOD = "halfspaces"
_STEP = get_activation("step")
_MOST_SENTENCES = 3
_NO_CHANCE = 1e-3
_FEWEST_UNSEEN = 20


def halfspaces(workspace: Workspace) -> Iterator[Recovery]:
    """One answer, judged by itself."""
    low, high = label_values(workspace.source)
    yield (_from_moments if workspace.faithful else _learned)(workspace, low, high)


def _learned(workspace: Workspace, low: float, high: float) -> Recovery:
    level = (low + high) / 2
    found = learn_union(
        StandardisedSource(workspace.source, workspace.standardisation),
        workspace.units,
        rng=workspace.rng,
        above=level,
        hidden=workspace.held_out_rows,
        stage=workspace.stage,
    )
    user = on_user_inputs(
        found.network, workspace.standardisation, found.angle_errors, found.threshold_errors
    )
    evidence = LayerEvidence(
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=found.exclusive[user.order],
        exact=False,
        way="labels near the faces",
    )
    accuracy = _accuracy(workspace, user.network, level)
    problems = found.problems or _unconfirmed(workspace, found, accuracy)
    if not problems:
        status = Status.WITHIN_NOISE
    else:
        status = Status.PARTIAL if found.is_union else Status.FAILED
    message = _message(found, problems, evidence, accuracy)
    if workspace.threshold is not None:
        message += " The threshold given was not used: every offset is estimated."
    return Recovery(user.units, status, message, _METHOD, layer=evidence, layered=user.network)


# ---------------------------------------------------------------- what to say


@dataclass(frozen=True)
class Accuracy:
    """How many labels that no fit saw are predicted."""

    right: int
    samples: int

    def __str__(self) -> str:
        """A clause."""
        share = 100 * self.right / max(self.samples, 1)
        return (
            f"of {self.samples} samples that were not fitted {self.right} are predicted "
            f"({share:.4g}%)"
        )


def _accuracy(workspace: Workspace, network: LayeredNetwork, level: float) -> Accuracy:
    held = workspace.held_out
    right = (network(held.X) > 0.5) == (held.y > level)
    return Accuracy(int(right.sum()), len(right))


def _unconfirmed(workspace: Workspace, found: HalfspaceSet, accuracy: Accuracy) -> tuple[str, ...]:
    """What samples that were not fitted say against halfspaces that explain all others."""
    expected = _wrong_share(workspace, found)
    wrong = accuracy.samples - accuracy.right
    if wrong and bdtrc(wrong - 1, accuracy.samples, expected) < _NO_CHANCE:
        return (
            f"More labels that were not fitted are wrong, {100 * wrong / accuracy.samples:.3g}%, "
            f"than flips and the stated errors make, about {100 * expected:.2g}%: the answer "
            "misses something, such as a second halfspace near one of these, or inputs between "
            "the few values that were fitted. Take more samples.",
        )
    if workspace.unseen < _FEWEST_UNSEEN:
        inputs = counted(workspace.unseen, "different input")
        return (
            f"Only {inputs} could be kept from the fit, too few to confirm the answer where "
            f"{_FEWEST_UNSEEN} are asked. Take more samples.",
        )
    return ()


def _wrong_share(workspace: Workspace, found: HalfspaceSet) -> float:
    """The share of new labels to be expected wrong: flips, and samples too near a face to tell."""
    X = workspace.standardisation.apply(workspace.inputs)
    across = X @ found.weights.T
    along = np.sqrt(np.maximum(np.sum(X**2, axis=1)[:, None] - across**2, 0.0))
    errors = np.hypot(found.threshold_errors, found.angle_errors * along)
    unsure = float(np.mean(np.any(np.abs(across - found.thresholds) < errors, axis=1)))
    return min(found.flip_rate + 1 / found.samples + unsure, 1.0)


def _message(
    found: HalfspaceSet, problems: tuple[str, ...], evidence: LayerEvidence, accuracy: Accuracy
) -> str:
    what = "an intersection" if found.intersection else "a union"
    halfspaces = f"{counted(found.units, 'halfspace')} of {what}"
    if problems:
        against = " ".join(problems[:_MOST_SENTENCES])
        return f"{against} Found: {halfspaces}; {accuracy}."
    angle = np.degrees(float(evidence.angle_errors.max()))
    flips = ""
    if found.flip_rate > 0:
        flips = (
            f" Far from all faces {100 * found.flip_rate:.2g}% of the labels are wrong: flipped at "
            "random, or of halfspaces that show too rarely to be found."
        )
    return (
        f"{halfspaces}: normals within about {angle:.2g} degrees and offsets within "
        f"{float(evidence.threshold_errors.max()):.2g} (one standard error of the worst); "
        f"{accuracy}.{flips}"
    )


# ---------------------------------------------------------------- the paper as it stands


def _from_moments(workspace: Workspace, low: float, high: float) -> Recovery:
    """Step 1 of the paper, with thresholds from the same moments if none is given."""
    level = (low + high) / 2
    mostly = bool(workspace.standardisation.label_mean > level)
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
    nothing = np.full(len(angles), np.nan)
    user = on_user_inputs(own, workspace.standardisation, angles, nothing)
    evidence = LayerEvidence(
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=np.zeros(len(angles), int),
        exact=False,
        way="moments",
    )
    message = (
        f"{counted(len(angles), 'direction')} from moments as the paper has them, each within "
        f"about {np.degrees(float(angles.max())):.2g} degrees by sampling error, and turned "
        "further where halfspaces overlap (GP19, Lemma 2): not refined. "
        f"{str(_accuracy(workspace, user.network, level)).capitalize()}. Leave out faithful=True "
        "for more."
    )
    return Recovery(
        user.units, Status.PARTIAL, message, _METHOD, layer=evidence, layered=user.network
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
