"""When is an answer beyond doubt? With noise: when independent searches end at the same network.

Without noise a residual of zero on unseen samples speaks for itself, unless smooth units are so
much alike that others might leave as little; so does one that is hardly more, as single precision
leaves it. With noise and few samples a parameter, many different networks may explain the samples
equally well, and none of them need be the one that made them. Least squares has one best network
when the samples do come from a network: then searches from different starts meet there. Searches
that end in different places say that the samples come from something else, or are too few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from provenet.certify.checks import Check, Claim, Status
from provenet.certify.class_labels import ClassDetails
from provenet.certify.hopeless import certificates_of, is_hopeless, is_narrow
from provenet.certify.noise_checks import RESIDUAL_IS_NOISE
from provenet.certify.residual_checks import few_stand_out
from provenet.certify.result import Recovery
from provenet.certify.tolerances import (
    CLOSE,
    FEW_SEARCHES,
    HARDLY_NOISE,
    LARGEST_EXACT_ERROR,
    MANY_SAMPLES_A_PARAMETER,
    MOST_PREDICTORS,
    MOST_SEARCHES,
    NO_ERROR,
    SAME_ERROR,
    SECOND_LOOK,
    SMALL_RESIDUAL,
    WELL_KNOWN,
)
from provenet.fitting.covariance import DeepErrors
from provenet.networks.canonical import align_to, match_units, parameter_error


def best_of(results: Sequence[Recovery]) -> Recovery:
    """The first of the best: by status, then by what is left and at what price."""
    return max(results, key=_value)


def _value(result: Recovery) -> tuple[int, float, int]:
    """Better status first; with noise, then the lower value of Schwarz's criterion."""
    certificate, rank = result.certificate, result.status.rank
    if result.claim is Claim.LAYER:  # of equal ones that of which most is confirmed
        return rank, float(sum(check.holds for check in result.checks)), 0
    if certificate is None:
        return rank, -np.inf, 0
    n, p = certificate.samples_fitted, certificate.parameters
    if isinstance(result.details, ClassDetails):
        return rank, -result.details.criterion, -p
    if result.claim is Claim.PREDICTOR:
        return rank, -max(certificate.relative_residual, NO_ERROR), -p
    if result.status in (Status.EXACT, Status.FAILED):
        return rank, -certificate.residual, -p
    return rank, -(2 * n * np.log(certificate.noise + 1e-300) + p * np.log(n)), -p


def is_settled(best: Recovery, results: Sequence[Recovery]) -> bool:
    """Whether no further search is needed, or none would help."""
    if best.claim is Claim.LAYER:  # all samples were asked
        return best.success
    if best.claim is Claim.PREDICTOR:
        return _predictors_have_met(results)
    if best.status is Status.FAILED:
        return is_hopeless(results)
    if best.status is Status.PARTIAL and _leaves_nothing(best):
        return len(results) >= SECOND_LOOK
    return not _needs_a_second_search(best) or _met(best, results)


def _leaves_nothing(best: Recovery) -> bool:
    """Whether one layer explains labels to their last digits: fewer units may do it as well."""
    certificate = best.certificate
    one = best.network is not None and best.network.layers == 1
    return one and certificate is not None and certificate.noise == 0


def _needs_a_second_search(best: Recovery) -> bool:
    certificate = best.certificate
    assert certificate is not None
    if best.network is not None and best.network.layers > 1:
        return _deep_is_in_doubt(best)
    if isinstance(best.details, ClassDetails):  # each label tells little
        return True
    fine = certificate.relative_residual <= SMALL_RESIDUAL
    if certificate.noise == 0:
        return _hardly_known(best)
    if certificate.rounded and fine:
        return False
    if best.success and _speaks_for_itself(best):
        return False
    enough = MANY_SAMPLES_A_PARAMETER * certificate.parameters
    return not best.success or certificate.labels_fitted < enough


def _speaks_for_itself(best: Recovery) -> bool:
    """Whether kinked units leave hardly anything of labels that were not fitted."""
    assert best.certificate is not None and best.network is not None
    return best.network.activation.kinked and best.certificate.relative_residual <= HARDLY_NOISE


def _deep_is_in_doubt(best: Recovery) -> bool:
    """Kinked layers may be made for single samples, and noise has room for many deep networks."""
    assert best.certificate is not None
    if best.network.activation.kinked or best.certificate.noise > 0:
        return True
    return not best.success or _hardly_known(best)


def deepest_needed(results: Sequence[Recovery]) -> Recovery:
    """Of the answers with one layer, two and so on: the last if it is a success, or the best.

    A success says what fewer layers came to.
    """
    last = results[-1]
    if not last.success:
        return max(results, key=lambda result: result.status.rank)
    if len(results) == 1:
        return last
    shallower = ", ".join(f"{k + 1}: {other.status}" for k, other in enumerate(results[:-1]))
    return last.with_checks(
        Check(
            "no answer of fewer layers is a success",
            True,
            f"layers {shallower}",
            "none is a success",
        )
    )


def _hardly_known(best: Recovery) -> bool:
    """Whether smooth units leave nothing, but are so much alike that others might do the same."""
    assert best.certificate is not None and best.network is not None
    loose = best.certificate.parameter_error_bound > WELL_KNOWN
    return best.success and loose and best.network.activation.smooth


def _met(best: Recovery, results: Sequence[Recovery]) -> bool:
    if any(check.name == RESIDUAL_IS_NOISE and not check.holds for check in best.checks):
        return len(results) >= MOST_SEARCHES  # that they agree does not make it noise
    if any(agree(best, other) for other in results if other is not best):
        return True
    return best.status is Status.PARTIAL and len(results) >= _searches_that_do(best, results)


def _searches_that_do(best: Recovery, results: Sequence[Recovery]) -> int:
    """After how many a partial answer is not searched for again: fewer where others learn noise."""
    assert best.certificate is not None
    narrow = is_narrow(best.certificate, certificates_of(results))
    return FEW_SEARCHES if narrow else MOST_SEARCHES


def _predictors_have_met(results: Sequence[Recovery]) -> bool:
    """Whether the last is a success that leaves nothing to look at, or the next would be no better.

    Bad minima differ.
    """
    last = [found.details.error for found in results[-2:]]
    certificate = results[-1].certificate
    done = results[-1].success and certificate is not None and not few_stand_out(certificate)
    same = len(last) == 2 and abs(last[1] / max(last[0], 1e-300) - 1) < SAME_ERROR
    return done or same or len(results) == MOST_PREDICTORS


def agree(first: Recovery, second: Recovery) -> bool:
    """Whether two recoveries found the same network, up to a fraction of the noise or rounding."""
    a, b, errors = first.network, second.network, first.standard_errors
    if a is None or b is None or errors is None or a.widths != b.widths:
        return False
    if a.activation.family != b.activation.family:
        return False
    if (a.linear is None) != (b.linear is None) or second.status is Status.FAILED:
        return False
    if a.linear is not None:  # signs of units are a convention then, so only widths compare
        return True
    if isinstance(errors, DeepErrors):
        known = CLOSE * errors.largest
        rounding = LARGEST_EXACT_ERROR if first.status is Status.EXACT else 0.0
        return parameter_error(a, b) <= known + rounding
    mine, theirs = match_units(a, b)
    b = align_to(b, a)
    pairs = (
        (a.weights[mine], b.weights[theirs], errors.weights[mine]),
        (a.biases[mine], b.biases[theirs], errors.biases[mine]),
        (
            a.output_weights[..., mine],
            b.output_weights[..., theirs],
            errors.output_weights[..., mine],
        ),
    )
    rounding = LARGEST_EXACT_ERROR if first.status is Status.EXACT else 0.0
    return all(
        bool(np.all(np.abs(x - y) <= CLOSE * error + rounding * np.abs(x).max(initial=1.0)))
        for x, y, error in pairs
    )


def searches_agree(best: Recovery, results: Sequence[Recovery]) -> Iterator[Check]:
    """Did independent searches end at the same network, where the samples alone leave doubts?"""
    if not _needs_a_second_search(best):
        return
    number, how = len(results), "exactly" if best.status is Status.EXACT else "up to noise"
    if number > 1:
        advice = (
            f"{number} searches ended in different networks that all explain the samples {how}; "
            "this is the simplest. The samples do not determine the network, or come from "
            "something else: take more samples."
        )
    else:
        advice = (
            f"The samples are explained {how}, but time ran out before a second search could "
            "confirm the network: give more time with budget=, or take more samples."
        )
    yield Check(
        "independent searches agree",
        is_settled(best, results),
        f"{number} {'search' if number == 1 else 'searches'}",
        "two that agree, or more samples that leave no doubt",
        advice,
        Status.PARTIAL,
    )
