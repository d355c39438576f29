"""What is asked of a network of several hidden layers of which all weights are claimed.

- *exact* asks for a residual at the level of rounding on samples that no fit saw. Of kinked units
  that is no proof: pieces that hold a sample each are fitted by units of their own, and most fresh
  samples miss them. So every unit must switch, where the output shows it, on more samples than it
  has parameters, and samples must lie around a place where its kink bends or crosses another: else
  it may belong to another layer. The samples must determine every parameter and sign, and no fewer
  units explain them.
- *within noise* asks that unseen samples are predicted no worse than fitted ones, that every unit
  stands clear of nothing, and that further units gain nothing.

Whether two searches agree is asked at the end (`agreement`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.checks import Check, Status
from provenet.certify.deep import DeepEvidence
from provenet.certify.noise_checks import noise_checks
from provenet.certify.residual_checks import unseen_are_predicted
from provenet.certify.smooth_checks import no_other_waves
from provenet.certify.tolerances import (
    DEEP_LABELS_A_PARAMETER,
    DEEP_SIGMAS,
    FEWER_LEAVE,
    FURTHER_TRIES,
    LARGEST_EXACT_ERROR,
    MORE_THAN_GIVEN,
    SPARE_ON_A_PIECE,
    SPARE_SAMPLES,
)
from provenet.common.typing import TINY
from provenet.fitting.context import Context
from provenet.fitting.search.moves import widened
from provenet.networks.activations import Symmetry

SWITCHES = "every unit switches on enough samples"
PLACED = "the samples tell the layer of every unit"
DETERMINED = "the samples determine every parameter"
NO_FEWER = "no fewer units explain them"
WIDTHS = "every layer has as many units as were asked for"
"""Names of checks that may fail for what lies above the lowest layer alone."""


def deep_checks(context: Context, evidence: DeepEvidence) -> Iterator[Check]:
    """All questions, in order."""
    yield unseen_are_predicted(context, evidence.certificate, evidence.unseen)
    yield _labels_are_enough(evidence)
    yield from _as_asked(context, evidence)
    if evidence.network.activation.kinked:
        yield _every_unit_switches(evidence)
        yield _layers_are_told(evidence)
    if evidence.network.activation.symmetry is Symmetry.MIRROR:
        yield _signs_are_determined(evidence)
    if evidence.network.activation.period is not None:
        yield no_other_waves(context, evidence.network, _found(evidence))
    yield _every_parameter_is_determined(evidence)
    if evidence.exact:
        yield _known_to_rounding(evidence)
        yield _no_fewer_do(context, evidence)
    else:
        yield from _noise(context, evidence)


def _found(evidence: DeepEvidence) -> str:
    return f"The samples are explained {'exactly' if evidence.exact else 'up to noise'}"


def _labels_are_enough(evidence: DeepEvidence) -> Check:
    certificate, p = evidence.certificate, evidence.certificate.parameters
    distinct = min(certificate.samples_fitted, certificate.distinct_inputs) * certificate.outputs
    fewest = p + SPARE_SAMPLES if evidence.exact else DEEP_LABELS_A_PARAMETER * p
    return Check(
        "labels are enough for the parameters",
        distinct >= fewest,
        distinct,
        f"at least {fewest:,}",
        f"{_found(evidence)}, but {distinct:,} different labels cannot confirm {p:,} parameters: "
        "take more samples.",
        Status.PARTIAL,
    )


def _as_asked(context: Context, evidence: DeepEvidence) -> Iterator[Check]:
    """Are there as many units in every layer as were asked for?"""
    asked = context.options.units
    if not isinstance(asked, tuple):
        return
    yield Check(
        WIDTHS,
        evidence.network.widths == asked,
        ", ".join(map(str, evidence.network.widths)),
        ", ".join(map(str, asked)),
        f"{_found(evidence)} by a network of other widths than were asked for: leave units= out, "
        "or take more samples.",
        Status.PARTIAL,
    )


def _every_unit_switches(evidence: DeepEvidence) -> Check:
    """Has each unit more samples than parameters on both sides of its kink, where it shows?"""
    network = evidence.network
    needed = [W.shape[1] + SPARE_ON_A_PIECE for W, _ in network.affine_maps[:-1]]
    margins = [sides - fewest for sides, fewest in zip(evidence.sides, needed, strict=True)]
    layer = int(np.argmin([margin.min(initial=0) for margin in margins]))
    unit = int(np.argmin(margins[layer])) if len(margins[layer]) else 0
    rare = sum(int(np.sum(margin < 0)) for margin in margins)
    seen = evidence.sides[layer][unit] if len(evidence.sides[layer]) else 0
    return Check(
        SWITCHES,
        rare == 0,
        f"unit {unit} of layer {layer + 1}: {seen} on the rarer side",
        f"at least {needed[layer]}",
        f"{_found(evidence)}, but {rare} of {network.units} units hardly ever switch where the "
        "output shows it, and may be made for a few samples: take more samples, or samples "
        "further out.",
        Status.PARTIAL,
    )


def _layers_are_told(evidence: DeepEvidence) -> Check:
    """Do samples lie all around a place where each unit's kink bends, or crosses another's?"""
    fewest = [crossed.min(initial=SPARE_ON_A_PIECE) for crossed in evidence.crossed]
    layer = int(np.argmin(fewest))
    return Check(
        PLACED,
        fewest[layer] >= SPARE_ON_A_PIECE,
        f"layer {layer + 1}: {fewest[layer]} in the emptiest part",
        f"at least {SPARE_ON_A_PIECE}",
        f"{_found(evidence)}, but a unit of layer {layer + 1} switches on one side only of the "
        "kinks around it: it may belong to another layer. Take more samples.",
        Status.PARTIAL,
    )


def _signs_are_determined(evidence: DeepEvidence) -> Check:
    return Check(
        "signs are determined",
        not evidence.reversals,
        f"{len(evidence.reversals)} sets of units may be reversed",
        "none",
        f"{_found(evidence)}, but some units may as well have the opposite sign "
        "(result.ambiguities names them): the function is known, and these signs are not.",
        Status.PARTIAL,
    )


def _every_parameter_is_determined(evidence: DeepEvidence) -> Check:
    free = evidence.certificate.undetermined
    return Check(
        DETERMINED,
        free == 0,
        f"{free} directions are free",
        "none",
        f"{_found(evidence)}, but other networks nearby explain them as well: {free} directions "
        "of the parameters are free. Take more samples, or ask for fewer units.",
        Status.PARTIAL,
    )


def _known_to_rounding(evidence: DeepEvidence) -> Check:
    bound = evidence.certificate.parameter_error_bound
    return Check(
        "parameters are known to rounding",
        bound <= LARGEST_EXACT_ERROR,
        bound,
        f"at most {LARGEST_EXACT_ERROR:g}",
        f"{_found(evidence)}, but rounding leaves parameters open by {bound:.2g}: take more "
        "samples, or samples further out.",
        Status.PARTIAL,
    )


def _no_fewer_do(context: Context, evidence: DeepEvidence) -> Check:
    """Was one unit less tried, and does it leave more than nothing?"""
    problem = context.problem
    limit, left = FEWER_LEAVE * problem.zero, evidence.narrower
    tried = np.isfinite(left) or evidence.network.units == evidence.network.layers
    return Check(
        NO_FEWER,
        bool(tried and left > limit),
        f"one fewer leaves {left / context.spread:.2g} of the labels' spread",
        f"more than {limit / context.spread:.2g}",
        f"{_found(evidence)}, but fewer units may explain them as well: give more time with "
        "budget=, or take more samples.",
        Status.PARTIAL,
    )


# ---------------------------------------------------------------- noise


def _noise(context: Context, evidence: DeepEvidence) -> Iterator[Check]:
    """Is what is left noise, and are the units those that made the labels?"""
    given, noise = context.noise, evidence.certificate.noise
    if given is not None:
        yield Check(
            "noise is as large as was given",
            noise <= MORE_THAN_GIVEN * given,
            noise,
            f"at most {MORE_THAN_GIVEN * given:.3g}",
            f"Noise of {noise:.3g} is left where {given:.3g} was given: there are more units, or "
            "the activation is another one.",
        )
    own = evidence.own.parameters.deep_network(evidence.network.activation)
    yield from noise_checks(context, own, _found(evidence))
    yield _every_unit_is_clear(evidence)
    yield _further_units_gain_nothing(context, evidence)


def _every_unit_is_clear(evidence: DeepEvidence) -> Check:
    """Does each unit's largest weight, and each by which it feeds others, stand above its error?"""
    network, errors = evidence.network, evidence.standard_errors
    clear = []
    for k in range(network.layers):
        given = np.abs(network.weights[k]) / np.maximum(errors.weights[k], TINY)
        fed = np.abs(network.weights[k + 1]) / np.maximum(errors.weights[k + 1], TINY)
        clear.append(np.minimum(given.max(axis=1), fed.max(axis=0)).min(initial=np.inf))
    layer = int(np.argmin(clear))
    return Check(
        "every unit is pinned down",
        clear[layer] >= DEEP_SIGMAS,
        f"layer {layer + 1}: {clear[layer]:.3g} standard errors from none",
        f"at least {DEEP_SIGMAS:g}",
        f"{_found(evidence)}, but a unit of layer {layer + 1} is not pinned down by them: take "
        "more samples.",
        Status.PARTIAL,
    )


def _further_units_gain_nothing(context: Context, evidence: DeepEvidence) -> Check:
    """Do further units, one a layer, lower Schwarz's criterion?"""
    problem = context.problem
    before = problem.refine(evidence.own.parameters, 1, 1e-9)
    one_a_layer, own = (1,) * problem.layers, evidence.own.parameters
    starts = [widened(problem, own, one_a_layer, context.rng) for _ in range(FURTHER_TRIES)]
    wider = [problem.refine_in_steps(start, 30, 1e-3, 30) for start in starts]
    gain = problem.bic(before) - min(problem.bic(trial) for trial in wider)
    return Check(
        "further units gain nothing",
        gain <= 0 and not problem.out_of_time,
        f"a gain of {gain:.3g} by Schwarz's criterion",
        "at most 0, in time",
        f"{_found(evidence)}, but further units may explain more of them: give more time with "
        "budget=, or ask for more units.",
        Status.PARTIAL,
    )
