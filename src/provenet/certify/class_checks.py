"""What is asked of a network whose log-odds are said to be behind class labels.

The claim "network" is made where the likelihood determines all weights: labels overlap, and tell
enough; unseen ones come as often as they were said to; what is left knows nothing of the inputs;
every unit is pinned down, signs too, and further units gain nothing. Labels that the network tells
apart without error have no noise to measure its log-odds by: the boundary may be right, its scale
is open. Where anything fails, what is left is a predictor, and is called partial.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from math import comb

import numpy as np

from provenet.certify.certificate import clearness, unresolved_units
from provenet.certify.checks import Check, Status
from provenet.certify.class_labels import ClassEvidence, class_matrix
from provenet.certify.evidence import fewest_to_confirm
from provenet.certify.noise_checks import residual_is_noise
from provenet.certify.tolerances import (
    CLASS_GAIN,
    CLASS_SIGMAS,
    ERROR_SIGMAS,
    FLIPS_A_PARAMETER,
    FURTHER_TRIES,
    MOST_OF_DEGREE_TWO,
    POLYNOMIAL_RIDGE,
    RIVAL_STEPS,
    TOLD_APART,
)
from provenet.common.typing import TINY, Array
from provenet.fitting.context import Context
from provenet.fitting.model import Parameters
from provenet.fitting.search.moves import promising_units
from provenet.fitting.search.problem import Problem
from provenet.networks.hermite import hermite_rows
from provenet.networks.network import probabilities


def class_checks(context: Context, evidence: ClassEvidence) -> Iterator[Check]:
    """All questions, in order."""
    yield _some_unit(evidence)
    yield _unseen_labels(evidence)
    yield _not_separated(evidence)
    yield _labels_are_enough(evidence)
    yield from _as_asked(context, evidence)
    yield _no_linear_term(evidence)
    yield _signs_are_determined(evidence)
    yield _every_unit_is_clear(evidence)
    yield _every_parameter_is_determined(evidence)
    own = evidence.own.parameters.network(evidence.network.activation)
    yield residual_is_noise(context, own, "The labels are explained")
    yield from _no_polynomial(context, evidence)
    yield _further_units_gain_nothing(context, evidence)


def _some_unit(evidence: ClassEvidence) -> Check:
    straight = evidence.details.dependent
    return Check(
        "a unit stands above chance",
        evidence.network.units > 0,
        evidence.network.units,
        "at least 1",
        "The labels are explained by a linear function of the inputs as well as by any units: "
        "logistic regression says as much."
        if straight
        else "Nothing in the labels depends on the inputs beyond chance: take more samples.",
        Status.PARTIAL if straight else Status.FAILED,
    )


def _unseen_labels(evidence: ClassEvidence) -> Check:
    unseen = evidence.unseen
    return Check(
        "unseen labels come as often as was said",
        unseen.sigmas <= ERROR_SIGMAS,
        f"log-loss {unseen.log_loss:.3g} where {unseen.expected:.3g} is expected, "
        f"{unseen.sigmas:.2g} standard errors",
        f"at most {ERROR_SIGMAS:g}",
        f"Labels that no fit saw have a log-loss of {unseen.log_loss:.3g}, where the network says "
        f"{unseen.expected:.3g}: its probabilities are not theirs. Take more samples, or ask for "
        "fewer units.",
        samples=unseen.samples,
    )


def _not_separated(evidence: ClassEvidence) -> Check:
    return Check(
        "labels overlap",
        not evidence.details.separated,
        "none is on the wrong side" if evidence.details.separated else "some on the wrong side",
        "some on the wrong side",
        "The network tells all labels apart without error: they have no noise, so the scale of its "
        "log-odds is open (it was kept bounded), and its boundary is one of many. If one class is "
        'a union or an intersection of halfspaces, method="halfspaces" finds them; where '
        "probabilities can be had, recover from those.",
        Status.PARTIAL,
    )


def _labels_are_enough(evidence: ClassEvidence) -> Check:
    told, p = evidence.details.informative, evidence.certificate.parameters
    distinct = min(told, evidence.certificate.distinct_inputs)
    return Check(
        "labels are enough for the parameters",
        distinct >= FLIPS_A_PARAMETER * p,
        f"{told:,.0f} coin flips' worth at {evidence.certificate.distinct_inputs:,} inputs",
        f"at least {FLIPS_A_PARAMETER * p:,} of each",
        f"The labels tell as much as {told:,.0f} coin flips, too little for {p:,} parameters: take "
        "more samples, or samples where the classes are less sure.",
        Status.PARTIAL,
    )


def _as_asked(context: Context, evidence: ClassEvidence) -> Iterator[Check]:
    wanted = context.units
    if wanted is None:
        return
    yield Check(
        "there are as many units as were asked for",
        evidence.network.units == wanted,
        evidence.network.units,
        str(wanted),
        "The labels do not tell so many units apart: take more samples, or leave units= out.",
        Status.PARTIAL,
    )


def _no_linear_term(evidence: ClassEvidence) -> Check:
    return Check(
        "no linear term is left",
        evidence.network.linear is None,
        "none" if evidence.network.linear is None else "one",
        "none",
        "A linear term is needed beside the units: others are missing, or switch where hardly any "
        "sample is. Take more samples.",
        Status.PARTIAL,
    )


def _signs_are_determined(evidence: ClassEvidence) -> Check:
    open_signs = len(evidence.ambiguities)
    return Check(
        "signs are determined",
        not open_signs,
        f"{open_signs} other choices are as likely",
        "none",
        "Some units may as well have the opposite sign (result.ambiguities names them): take more "
        "samples.",
        Status.PARTIAL,
    )


def _every_unit_is_clear(evidence: ClassEvidence) -> Check:
    network, errors = evidence.network, evidence.standard_errors
    sides = evidence.certificate.rarer_side
    loose = unresolved_units(network, errors, sides, fewest_to_confirm(network))
    A, unsure = np.atleast_2d(network.output_weights), np.atleast_2d(errors.output_weights)
    felt = np.max(np.abs(A) / np.maximum(unsure, np.finfo(float).tiny), axis=0, initial=0.0)
    clear = np.minimum(felt, clearness(network, errors)) if network.units else np.zeros(0)
    least = float(clear.min(initial=np.inf))
    return Check(
        "every unit is pinned down",
        not len(loose) and least >= CLASS_SIGMAS,
        f"{len(loose)} of unknown direction or on one side only; the least clear one "
        f"{least:.3g} standard errors from none",
        f"none, and at least {CLASS_SIGMAS:g}",
        "The labels do not pin every unit down: take more samples.",
        Status.PARTIAL,
    )


def _every_parameter_is_determined(evidence: ClassEvidence) -> Check:
    free = evidence.certificate.undetermined
    return Check(
        "the samples determine every parameter",
        free == 0,
        f"{free} directions are free",
        "none",
        f"Other networks nearby explain the labels as well: {free} directions of the parameters "
        "are free. Take more samples, or ask for fewer units.",
        Status.PARTIAL,
    )


# ---------------------------------------------------------------- what is left


def _no_polynomial(context: Context, evidence: ClassEvidence) -> Iterator[Check]:
    """Is a polynomial of degree two ruled out? Not asked where it has too many terms to fit."""
    network, drawn = evidence.network, context.drawn
    p = probabilities(network(context.standardisation.undo(drawn.X)), network.link)
    behind = polynomial_behind(drawn.X, class_matrix(drawn.y), p, network.free_parameters)
    if np.isinf(behind):
        return
    yield Check(
        "no polynomial explains the labels as well",
        behind > TOLD_APART,
        f"Schwarz's criterion {behind:.3g} higher with one of degree two",
        f"more than {TOLD_APART:g} higher",
        "Log-odds that are a polynomial of degree two explain the labels as well as units do: they "
        "may not be those of a network. Take more samples.",
        Status.PARTIAL,
        len(drawn.X),
    )


def _further_units_gain_nothing(context: Context, evidence: ClassEvidence) -> Check:
    """Does a further unit gain no more than chance gives the best of a pool?"""
    problem, own = context.problem, evidence.own.parameters
    activation = evidence.network.activation
    samples = context.drawn
    problem = Problem(samples, problem.spread, problem.deadline, activation, loss=problem.loss)
    before = problem.refine(own, 1, 1e-9).rss
    price = evidence.network.parameters_a_unit * np.log(samples.size)
    gains = []
    for _ in range(FURTHER_TRIES):
        wider = own.widened(promising_units(problem, own, 1, context.rng))
        gains.append(before - _refined(problem, wider))
    gain = max(gains) / price
    return Check(
        "further units gain nothing",
        gain < CLASS_GAIN and not problem.out_of_time,
        f"{gain:.2g} of Schwarz's price",
        f"less than {CLASS_GAIN:g}, in time",
        "Further units may explain more of the labels: give more time with budget=, or take more "
        "samples.",
        Status.PARTIAL,
    )


def _refined(problem: Problem, wider: Parameters) -> float:
    return problem.refine(wider, 30, 1e-9).rss


# ---------------------------------------------------------------- log-odds of degree two


def polynomial_behind(Z: Array, labels: Array, p: Array, parameters: int) -> float:
    """By how much the criterion of degree two is higher than that of the network.

    `labels` has a one in the column of the class, `p` the network's probabilities. Infinite where
    there are too many terms to be worth their price, or a single class.
    """
    terms, seen = comb(Z.shape[1] + 2, 2), labels.any(axis=0)
    if terms > MOST_OF_DEGREE_TWO or seen.sum() < 2:
        return float("inf")
    price = np.log(len(Z)) * (terms * (labels.shape[1] - 1) - parameters)
    rival = _of_degree_two(Z, np.argmax(labels, axis=1))
    return float(_deviance(rival, labels[:, seen]) - _deviance(p, labels) + price)


def _of_degree_two(Z: Array, classes: Array) -> Array:
    """The most likely probabilities whose log-odds are polynomials of degree two."""
    from sklearn.exceptions import ConvergenceWarning  # slow to import
    from sklearn.linear_model import LogisticRegression

    rows = hermite_rows(Z, 2).T
    fit = LogisticRegression(C=1 / POLYNOMIAL_RIDGE, max_iter=RIVAL_STEPS)
    with warnings.catch_warnings():  # log-odds that still grow tell all labels apart
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(fit.fit(rows, classes).predict_proba(rows))


def _deviance(p: Array, labels: Array) -> float:
    return float(-2 * np.log(np.maximum(np.sum(p * labels, axis=1), TINY)).sum())
