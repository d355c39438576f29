"""The recipe: labels are checked and read, then search, sharpen, finish and describe.

An intersection, `w_i.x > t_i` for all i, is the complement of the union of `-w_i.x > -t_i`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import entr

from provenet.certify.checks import Check, Status
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import TINY, AnyArray, Seed
from provenet.data.passes import one_blas_thread
from provenet.data.sources import Source
from provenet.lowest_layer.unions.faces import Faces
from provenet.lowest_layer.unions.findings import NEEDED, described, too_rare
from provenet.lowest_layer.unions.finish import finish
from provenet.lowest_layer.unions.halfspace_set import HalfspaceSet
from provenet.lowest_layer.unions.samples import SampleRows, Samples
from provenet.lowest_layer.unions.search import search
from provenet.lowest_layer.unions.sharpen import sharpen
from provenet.lowest_layer.unions.tolerances import (
    AGREEING_SEARCHES,
    AS_GOOD,
    CLEARLY_APART,
    MOST_FACES,
    MOST_POSITIVES,
    MOST_SEARCHES,
    SEARCHED_AGAIN,
    SPLIT_TILT,
)

Stage = Callable[[str, str], AbstractContextManager[Any]]

_FULL = "no union of few halfspaces, and no intersection, or too many labels are flipped"


def learn_union(
    source: Source,
    units: int | None = None,
    *,
    rng: Seed = None,
    intersection: bool | None = None,
    above: float | None = None,
    hidden: AnyArray | None = None,
    stage: Stage = lambda name, message: nullcontext(),
) -> HalfspaceSet:
    """Normals and offsets of a union (or intersection) of halfspaces from its 0/1 labels.

    Inputs should have mean 0 and variance 1. `units` is how many halfspaces there should be, None
    if unknown: at least so many are looked for. Without `intersection` the rarer label is taken
    for the union's, so mostly 1 means an intersection; if the labels contradict that, the other way
    is tried. Labels fire above `above`, by default half way between their two values. Samples
    numbered in `hidden` are not looked at. `stage` is told what goes on. Raises `NoAnswer` when
    there is nothing to return.
    """
    generator = np.random.default_rng(rng)
    with one_blas_thread():
        level = sum(label_values(source)) / 2 if above is None else above
        unseen = np.empty(0, int) if hidden is None else np.sort(hidden)
        samples = Samples(source, level, hidden=unseen)
        mostly = _mostly_fires(samples)
        if intersection is not None:
            return _learn(replace(samples, complement=intersection), units, generator, stage)
        return _either(replace(samples, complement=mostly), units, generator, stage)


def _either(
    likely: Samples, units: int | None, rng: np.random.Generator, stage: Stage
) -> HalfspaceSet:
    """The labels as they are read; or the other way, if only so they are a union."""
    found = _attempt(likely, units, rng, stage)
    if isinstance(found, HalfspaceSet) and found.is_union:
        return found
    other = _attempt(replace(likely, complement=not likely.complement), units, rng, stage)
    if isinstance(other, HalfspaceSet) and other.is_union:
        return other
    if isinstance(found, NoAnswer):
        raise found
    return found


def _attempt(
    samples: Samples, units: int | None, rng: np.random.Generator, stage: Stage
) -> HalfspaceSet | NoAnswer:
    try:
        return _learn(samples, units, rng, stage)
    except NoAnswer as why:
        return why


def _learn(
    samples: Samples, units: int | None, rng: np.random.Generator, stage: Stage
) -> HalfspaceSet:
    """The best of several searches; with it, whether another is as good and elsewhere.

    Wrong labels are flips, or what a search missed that took two faces for one; from other starts
    it may find both. Few samples may be explained in two ways: then neither is known.
    """
    most = max(MOST_FACES, 2 * (units or 0))
    with stage("search", "positives that no halfspace claims"):
        positives = samples.gather(lambda X, fired: fired, MOST_POSITIVES)
        faces = search(samples, positives, most, rng)
        _check_found(samples, positives, len(faces), most, units)
    criterion = partial(_criterion, samples)
    tried = [_finished(samples, faces, positives, rng, stage)]
    for again in range(min(MOST_SEARCHES, SEARCHED_AGAIN // samples.size)):
        best = min(tried, key=criterion)
        if best.training_errors == 0 and again >= AGREEING_SEARCHES:
            break
        start = search(samples, positives, most, rng) if again % 2 else _split(best, rng)
        if 0 < len(start) < most:
            tried.append(_finished(samples, start, positives, rng, stage))
    best = min(tried, key=criterion)
    as_good = [other for other in tried if criterion(other) < criterion(best) + AS_GOOD]
    return replace(best, findings=(*best.findings, _only_answer(best, as_good)))


def _only_answer(best: HalfspaceSet, as_good: list[HalfspaceSet]) -> Check:
    """Are all answers that explain the labels as well the same, within their errors?"""
    furthest = max(best.sigmas_to(other) for other in as_good)
    return Check(
        "no other halfspaces explain the labels as well",
        furthest < CLEARLY_APART,
        f"{len(as_good)} as good, {furthest:.2g} standard errors apart",
        f"less than {CLEARLY_APART:g} standard errors apart",
        "Another search ended at other halfspaces that explain the labels as well, so these are "
        "not known: take more samples.",
        Status.PARTIAL,
    )


def _split(found: HalfspaceSet, rng: np.random.Generator) -> Faces:
    """Its faces, one of them, any, as two that are tilted to either side along any axis."""
    sign = -1.0 if found.intersection else 1.0
    faces = Faces(sign * found.weights, sign * found.thresholds)
    i = int(rng.integers(len(faces)))
    axis = rng.standard_normal(faces.weights.shape[1])
    axis -= (axis @ faces.weights[i]) * faces.weights[i]
    tilt = SPLIT_TILT * axis / max(np.linalg.norm(axis), TINY)
    pair = (faces[i].moved(np.append(side * tilt, 0.0)[None]) for side in (1.0, -1.0))
    return Faces.of([faces.keep(np.arange(len(faces)) != i), *pair])


def _criterion(samples: Samples, found: HalfspaceSet) -> float:
    """Log likelihood lost to wrong labels as flips, and the price of the faces."""
    n, wrong = samples.size, found.training_errors
    return float(n * (entr(wrong / n) + entr(1 - wrong / n)) + found.units * samples.price)


def _finished(
    samples: Samples,
    faces: Faces,
    positives: SampleRows,
    rng: np.random.Generator,
    stage: Stage,
) -> HalfspaceSet:
    with stage("sharpen", _faces(len(faces))):
        fit = sharpen(samples, faces, positives, rng)
    with stage("finish", _faces(len(fit.faces))):
        return described(samples, finish(samples, fit, rng))


def _faces(number: int) -> str:
    return "1 face" if number == 1 else f"{number} faces"


def label_values(source: Source) -> tuple[float, float]:
    """The two values of the labels, the lower first."""
    parts = source.total(lambda X, y: [np.unique(y)[:3]])
    values = np.unique(np.concatenate(parts))
    if len(values) > 2:
        raise NoAnswer(
            "Labels take more than two values, and a union or intersection of halfspaces has only "
            "two, such as 0 and 1: make them so first, for instance as y > level."
        )
    if len(values) == 1:
        how, where = ("always", "lower than") if values[0] == 1 else ("never", "higher than")
        raise NoAnswer(
            f"The labels {how} fire, as all are {values[0]:g}: thresholds are {where} "
            f"{source.size} samples reach. Take more samples, or check the labels."
        )
    return float(values[0]), float(values[1])


def _mostly_fires(samples: Samples) -> bool:
    """Whether more labels are 1 than 0, after a check that there are enough of both."""
    n, d = samples.size, samples.features
    count = int(samples.over(lambda X, fired: int(fired.sum())))
    rarer = min(count, n - count)
    if rarer <= d:
        what = f"The rarer label has {rarer} of {n} samples"
        raise NoAnswer(too_rare(samples, max(rarer, 1), what))
    return count > n - count


def _check_found(
    samples: Samples, positives: SampleRows, found: int, most: int, units: int | None
) -> None:
    if found == most:
        raise NoAnswer(f"{most} halfspaces do not account for the labels: they are {_FULL}.")
    if found:
        return
    share = positives.count / (units or 1)
    if share < NEEDED * (samples.features + 1):
        raise NoAnswer(too_rare(samples, share, f"Samples a halfspace: {share:.0f}"))
    raise NoAnswer(
        f"No halfspace holds more of the {positives.count} samples that fire than chance allows: "
        "they are spread over too many halfspaces (take more samples), or the labels are "
        f"{_FULL}."
    )
