"""`"sparse-noise"`: a few labels replaced by anything, of any size (BJW19, section 8).

Labels without noise have the rank of the units (with an output bias, one more), far below the
number of outputs; robust PCA finds that part and the entries that are not of it (`robust_pca` says
how). Those entries are replaced by what the clean ones of the same sample determine, samples
that keep too few clean entries are left out, and `"rectified"` recovers the network from the
repaired samples. The corrupted entries are returned beside it.

`faithful=True` is section 8 as printed, with the weight of ERRATA 12, and nothing after it: Theorem
14's convex program on all labels, whose low rank part stands for the labels, then Corollary 8, the
exact algorithms of section 4 (4 and 5) on that part. It is exact where the theorem holds, at units
far below `outputs / log(samples)^2` and labels that no few entries carry; elsewhere its low rank
part is biased, and the answer no better.

Needs all labels in memory, and clearly more outputs than units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from provenet.certify.candidate import Candidate, Repaired
from provenet.common.exceptions import NoAnswer
from provenet.data.sources import ArraySource
from provenet.fitting.context import Context
from provenet.fitting.least_squares import Ended
from provenet.fitting.low_rank import (
    RobustPCA,
    Separation,
    principal_component_pursuit,
    robust_pca,
)
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
_OUT_OF_TIME = "The budget was used up before the labels were taken apart: give budget=."


def sparse_noise(context: Context) -> Iterator[Candidate]:
    """Repair the labels, then recover from what is repaired."""
    source = context.source
    if not source.fixed:
        raise NoAnswer("Robust PCA needs all labels at once: give arrays in place of this source.")
    if context.faithful:
        yield from _corollary_8(context)
        return
    with context.stage("repair", "robust PCA of the labels"):
        X, Y = source.rows(0, source.size)
        parts = robust_pca(Y, context.rng, lambda: context.out_of_time)
        _check(parts)
        kept = parts.determined
        clean = np.where(parts.corrupted, parts.low_rank, Y)
        repaired = context.on(ArraySource(X[kept], clean[kept]))
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


def _corollary_8(context: Context) -> Iterator[Candidate]:
    """Theorem 14, then section 4 on the part of low rank."""
    X, Y = context.source.rows(0, context.source.size)
    with context.stage("repair", "principal component pursuit of the labels"):
        parts = principal_component_pursuit(
            Y, out_of_time=lambda: context.out_of_time, tolerance=1e-14
        )
        if parts.ended is Ended.OUT_OF_TIME:
            raise NoAnswer(_OUT_OF_TIME)
        # The parts add up to the labels: where nothing is sparse the labels are of low rank.
        clean = np.where(parts.sparse == 0, Y, parts.low_rank)
        repaired = context.on(ArraySource(X, clean))
    rest = "" if parts.ended.at_rest else ", which did not come to rest"
    evidence = (
        f"Principal component pursuit{rest} took {100 * np.mean(parts.sparse != 0):.1f}% of the "
        f"labels for corrupted; its part of low rank has rank {parts.rank}, and the certificate "
        "refers to it. "
    )
    for candidate in from_second_moments(repaired):
        yield replace(
            candidate,
            width_evidence=evidence + candidate.width_evidence,
            repaired=Repaired(repaired, most_are_exact=True),
        )


def _check(parts: RobustPCA) -> None:
    if parts.status is not Separation.SEPARATED and parts.ended is Ended.OUT_OF_TIME:
        raise NoAnswer(_OUT_OF_TIME)
    if parts.status is not Separation.SEPARATED:
        raise NoAnswer(_REASONS[parts.status])
    share = float(parts.corrupted.mean())
    if share > MOST_CORRUPTED_LABELS:
        raise NoAnswer(
            f"{100 * share:.0f}% of the labels look corrupted: what explains so few of them proves "
            'nothing. Use method="arbitrary-noise".'
        )
