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

import numpy as np

from provenet.certify.candidate import Candidate, Repaired
from provenet.common.ended import Ended
from provenet.common.exceptions import NoAnswer
from provenet.data.sources import ArraySource
from provenet.fitting.robust.low_rank import RobustPCA, Separation, robust_pca
from provenet.fitting.workspace import Workspace
from provenet.methods.stages.several_outputs import from_second_moments
from provenet.methods.tolerances import MOST_CORRUPTED_LABELS

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
            repaired=Repaired(repaired, most_are_exact=True),
        )


def _check(parts: RobustPCA) -> None:
    if parts.status is not Separation.SEPARATED and parts.ended is Ended.OUT_OF_TIME:
        raise NoAnswer("The budget was used up before the labels were taken apart: give budget=.")
    if parts.status is not Separation.SEPARATED:
        raise NoAnswer(_REASONS[parts.status])
    share = float(parts.corrupted.mean())
    if share > MOST_CORRUPTED_LABELS:
        raise NoAnswer(
            f"{100 * share:.0f}% of the labels look corrupted: what explains so few of them proves "
            'nothing. Use method="arbitrary-noise".'
        )
