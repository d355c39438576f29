"""`"sparse-noise"`: a few labels replaced by anything, of any size (BJW19, section 8).

Labels without noise have the rank of the units (with an output bias, one more), far below the
number of outputs; robust PCA finds that part and the entries that are not of it (`robust_pca` says
how). Those entries are replaced by what the clean ones of the same sample determine, samples
that keep too few clean entries are left out, and `"rectified"` recovers the network from the
repaired samples. The corrupted entries are returned beside it.

Needs all labels in memory, and clearly more outputs than units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.certify.result import Recovery, Status
from provenet.common.ended import Ended
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.data.sources import ArraySource
from provenet.fitting.robust.low_rank import RobustPCA, Separation, robust_pca
from provenet.fitting.workspace import Workspace
from provenet.methods.stages.several_outputs import from_second_moments

_MOST_CORRUPTED = 0.4
_ROUNDING = 1e-8
_SIGMAS = 5.0
_DEPENDENT = 6.0
"""Standard deviations at which corruption is not independent of the units."""

_REASONS = {
    Separation.NO_LOW_RANK: (
        "No rank clearly below the number of outputs explains most labels: there are nearly as "
        "many units as outputs, or noise in all labels. Use "
        'method="arbitrary-noise", or "rectified" if no labels are corrupted.'
    ),
    Separation.TOO_CORRUPTED: (
        "More than half of the samples have too few clean labels to determine the others: "
        'corruption must be rarer, or the outputs more. Use method="arbitrary-noise".'
    ),
    Separation.UNCHECKED_OUTPUT: (
        "An output varies in a way that no other output shares, so its corruption cannot be told: "
        'leave that output out, or use method="arbitrary-noise".'
    ),
}


def sparse_noise(workspace: Workspace) -> Iterator[Candidate]:
    """Repair the labels, then recover from what is repaired."""
    source = workspace.source
    if not source.fixed:
        raise NoAnswer("Robust PCA needs all labels at once: give arrays in place of this source.")
    with workspace.stage("repair", "robust PCA of the labels"):
        X, Y = source.rows(0, source.size)
        parts = robust_pca(Y, workspace.rng, lambda: workspace.out_of_time)
        _check(parts)
        kept = parts.determined
        clean = np.where(parts.corrupted, parts.low_rank, Y)
        repaired = workspace.on(ArraySource(X[kept], clean[kept]))
    share = parts.corrupted[kept].mean()
    rest = "" if parts.ended.at_rest else "; their span had not come to rest"
    for candidate in from_second_moments(repaired):
        evidence = (
            f"{100 * share:.1f}% of the labels were set aside as corrupted; the rest have rank "
            f"{parts.rank} (gap {parts.gap:.0e}{rest}), and the certificate refers to these. "
        )
        yield replace(
            candidate,
            width_evidence=evidence + candidate.width_evidence,
            workspace=repaired,
            corrupted=parts.corrupted,
            restore=partial(_mark_by_network, X=X, Y=Y),
        )


def _mark_by_network(recovery: Recovery, X: Array, Y: Array) -> Recovery:
    """A network that is recovered says what each label should be, also in samples left out."""
    network = recovery.network
    if not recovery.success or network is None or recovery.certificate is None:
        return recovery
    expected = network(X)
    rounding = _ROUNDING * expected.std(axis=0)
    corrupted = np.abs(Y - expected) > np.maximum(rounding, _SIGMAS * recovery.certificate.noise)
    recovery = replace(recovery, corrupted=corrupted)
    on = X @ network.weights.T + network.biases > 0
    output, unit, sigmas = most_dependent(corrupted, on)
    if corrupted.mean(axis=0).max() <= _MOST_CORRUPTED and sigmas < _DEPENDENT:
        return recovery
    message = (
        f"{100 * corrupted[:, output].mean():.0f}% of the labels of output {output} are not what "
        f"the network says, and they depend on whether unit {unit} is on ({sigmas:.0f} sigma): its "
        "weight there is wrong, or corruption depends on the inputs. Leave that output out, or "
        "take more outputs."
    )
    return replace(recovery, status=Status.PARTIAL, message=message)


def most_dependent(corrupted: AnyArray, on: AnyArray) -> tuple[int, int, float]:
    """The output and the unit whose activity tells most about corruption, and its significance.

    Corruption at random entries knows nothing of the units. A wrong output weight makes right
    labels look corrupted, but only where the unit is on.
    """
    n, active = len(on), on.sum(axis=0)
    share = corrupted.mean(axis=0)[:, None]
    together = corrupted.T.astype(float) @ on
    difference = together / np.maximum(active, 1) - (n * share - together) / np.maximum(
        n - active, 1
    )
    spread = np.maximum(share * (1 - share), 1 / n) * n / np.maximum(active * (n - active), 1)
    z = np.abs(difference) / np.sqrt(spread)
    output, unit = np.unravel_index(np.argmax(z), z.shape)
    return int(output), int(unit), float(z[output, unit])


def _check(parts: RobustPCA) -> None:
    if parts.status is not Separation.SEPARATED and parts.ended is Ended.OUT_OF_TIME:
        raise NoAnswer("The budget was used up before the labels were taken apart: give budget=.")
    if parts.status is not Separation.SEPARATED:
        raise NoAnswer(_REASONS[parts.status])
    share = float(parts.corrupted.mean())
    if share > _MOST_CORRUPTED:
        raise NoAnswer(
            f"{100 * share:.0f}% of the labels look corrupted: what explains so few of them proves "
            'nothing. Use method="arbitrary-noise".'
        )
