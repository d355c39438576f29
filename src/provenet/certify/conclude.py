"""From a candidate to a Recovery: polish, settle, measure, ask, judge.

Every answer of every method ends here, and is judged by the same questions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.certify.checks import Check, Claim, Status, asked, judge
from provenet.certify.class_checks import class_checks
from provenet.certify.class_labels import ClassCandidate, gather_classes
from provenet.certify.deep import DeepCandidate, DeepEvidence, gather_deep
from provenet.certify.deep_checks import deep_checks
from provenet.certify.evidence import Evidence, gather
from provenet.certify.layer import LayerCandidate
from provenet.certify.layer_checks import LayerQuestions
from provenet.certify.network_checks import network_checks
from provenet.certify.own_labels import OwnLabels, SetAside
from provenet.certify.predictor import predictor
from provenet.certify.result import Recovery
from provenet.certify.rivals import named_signs, searched_on
from provenet.certify.summary import units_in_words
from provenet.fitting.context import Context
from provenet.fitting.covariance import StandardErrors
from provenet.fitting.final_fit import Polished, polish


def conclude(
    context: Context,
    candidate: Candidate | ClassCandidate | DeepCandidate | LayerCandidate,
    method: str,
) -> Recovery:
    """What a candidate of a method is worth."""
    if isinstance(candidate, ClassCandidate):
        with context.stage("certify"):
            return _classes(context.with_problem(loss=candidate.loss), candidate, method)
    if isinstance(candidate, DeepCandidate):
        with context.stage("certify"):
            return _deep(context, candidate, method)
    if isinstance(candidate, LayerCandidate):
        with context.stage("certify"):
            return _layer(context, candidate, method)
    found, repaired = candidate.found, candidate.repaired
    context = context if found is None else context.with_activation(found.activation)
    fitted = context if repaired is None else repaired.context
    if candidate.fitted_all:
        fitted = replace(fitted.with_problem(samples=fitted.drawn), unseen=0)
    polished = _polished(fitted, candidate)
    with context.stage("certify"):
        polished, last = searched_on(fitted, candidate, polished)
        evidence = gather(fitted, candidate, polished, last)
        if candidate.claim is Claim.PREDICTOR:
            return predictor(fitted, evidence, candidate.method or method)
        evidence = named_signs(fitted, evidence)
        own = None if repaired is None else OwnLabels.of(context, evidence)
        return Recovery.judged(
            evidence.network,
            asked(_questions(fitted, candidate, evidence, own)),
            Status.EXACT if evidence.exact else Status.WITHIN_NOISE,
            _praise(evidence) if found is None else f"{_praise(evidence)} {found.praise}",
            method=candidate.method or method,
            claim=candidate.claim,
            certificate=evidence.certificate,
            standard_errors=_errors(candidate, evidence, own),
            ambiguities=_ambiguities(candidate, evidence),
            details=_details(candidate, own),
        )


def _classes(context: Context, candidate: ClassCandidate, method: str) -> Recovery:
    """What a network of class labels is worth: all weights, or its probabilities alone."""
    evidence = gather_classes(context, candidate)
    checks = asked(class_checks(context, evidence))
    determined = all(check.holds for check in checks)
    return Recovery.judged(
        evidence.network,
        checks,
        Status.WITHIN_NOISE,
        f"The most likely network with {units_in_words(evidence.network)}: labels that no fit saw "
        f"have a log-loss of {evidence.unseen.log_loss:.4g} where it says "
        f"{evidence.unseen.expected:.4g}.",
        method=method,
        claim=Claim.NETWORK if determined else Claim.PREDICTOR,
        certificate=evidence.certificate,
        standard_errors=evidence.standard_errors if determined else None,
        ambiguities=evidence.ambiguities,
        details=evidence.details,
    )


def _deep(context: Context, candidate: DeepCandidate, method: str) -> Recovery:
    """What a network of several hidden layers is worth."""
    evidence = gather_deep(context, candidate)
    return Recovery.judged(
        evidence.network,
        asked(deep_checks(context, evidence)),
        Status.EXACT if evidence.exact else Status.WITHIN_NOISE,
        _praise(evidence),
        method=method,
        certificate=evidence.certificate,
        standard_errors=evidence.standard_errors,
        ambiguities=evidence.ambiguities,
    )


def _ambiguities(candidate: Candidate, evidence: Evidence) -> tuple[str, ...]:
    of_activation = () if candidate.found is None else candidate.found.ambiguities
    return (*evidence.ambiguities, *evidence.remarks, *candidate.ambiguities, *of_activation)


def _errors(candidate: Candidate, evidence: Evidence, own: OwnLabels | None) -> StandardErrors:
    """Those of the fit, and what no fit of noise of any law can tell of the output bias."""
    if own is None or candidate.repaired is None or candidate.repaired.most_are_exact:
        return evidence.standard_errors
    return own.widened(evidence.standard_errors)


def _details(candidate: Candidate, own: OwnLabels | None) -> Any:
    """The method's own evidence; which labels were set aside, where most are taken to be exact."""
    if own is None or candidate.repaired is None or not candidate.repaired.most_are_exact:
        return candidate.details
    return SetAside(own.corrupted)


def _layer(context: Context, candidate: LayerCandidate, method: str) -> Recovery:
    """What a lowest layer is worth: it is judged as it was found."""
    questions = LayerQuestions(context, candidate)
    checks = asked(questions.checks())
    status, _ = judge(checks, questions.best, "")
    return Recovery.judged(
        candidate.network,
        checks,
        questions.best,
        questions.praise,
        method=method,
        claim=Claim.LAYER,
        ambiguities=candidate.ambiguities,
        details=candidate.evidence(exact=status is Status.EXACT),
    )


def _polished(context: Context, candidate: Candidate) -> Polished:
    """Least squares from the candidate's network, or that network as it is."""
    if context.refine:
        with context.stage("refine"):
            return polish(context, candidate.network)
    samples = context.problem.samples
    left = candidate.network(samples.X) - samples.y
    return Polished(candidate.network, float(np.vdot(left, left)))


def _questions(
    context: Context, candidate: Candidate, evidence: Evidence, own: OwnLabels | None
) -> Iterator[Check]:
    yield from network_checks(context, evidence)
    if own is not None and candidate.repaired is not None:
        yield from own.checks(candidate.repaired, evidence)
    yield from candidate.findings
    if candidate.found is not None:
        yield candidate.found.no_other_does()


def _praise(evidence: Evidence | DeepEvidence) -> str:
    """What to say if nothing speaks against it."""
    certificate, number = evidence.certificate, evidence.network.units
    units = units_in_words(evidence.network)
    if evidence.exact:
        all_units = "The 1 unit that shows" if number == 1 else f"All {number} units that show"
        return (
            f"{all_units} in the samples {'is' if number == 1 else 'are'} recovered to machine "
            f"precision: {certificate.samples_held_out} samples that were not fitted are predicted "
            f"to {certificate.relative_residual:.0e} of the labels' spread."
        )
    if certificate.rounded:
        return (
            f"A network of {units} explains the samples to the last digit of their labels, which "
            f"are {certificate.label_precision}. Labels of more digits would tell more."
        )
    return (
        f"A network of {units} explains the samples up to noise of size {certificate.noise:.3g}; "
        "its parameters are known up to their standard errors. Take more samples to make these "
        "smaller."
    )
