"""What is asked of an answer that claims values, not weights (ATV21, Theorem 3.2).

Units that change sides on fewer samples than they have parameters are taken as linear (Claim D.14):
the samples do not tell, and predictions hardly do. (A paper's own answer stands as it is: moments
of a population tell far more.) It is a success ("within noise") when the error
beyond noise, as far as so many samples tell, is at most 1e-3 of the labels' spread; noise is what
was given or, left out, what is left if it has neither heavy tails nor anything that further units
explain; and when plain smoothers, which need no network, do not predict what is left from the
inputs (`smoothers`): if they do, it is not noise, and the answer is partial. Up to a tenth of the
spread it is partial, beyond that failed. It is never "exact": the weights need not be those of the
network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.certificate import (
    Certificate,
    closest_pair,
    condition_number,
    rarer_side,
)
from provenet.certify.checks import Check, Claim, Status, asked
from provenet.certify.evidence import Evidence, fewest_to_confirm
from provenet.certify.residual_checks import few_stand_out, what_is_left
from provenet.certify.result import Recovery
from provenet.certify.smoothers import best_smoother
from provenet.certify.tolerances import (
    ERROR_SIGMAS,
    FEWEST_SMOOTHED,
    LARGE_ERROR,
    MOST_DIRECTIONS,
    MUCH_LARGER,
    ROUNDINGS,
    SMALL_ERROR,
    SMOOTHER_SIGMAS,
)
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.fitting.residuals import residual_on
from provenet.networks.network import Network
from provenet.networks.piecewise import linear_as_units, merge_linear_units

_MERGED = (
    "Units of large bias, which the samples do not tell from a linear function, are merged into a "
    "linear part: the last two units are its two signs. The sign of each other unit is a "
    "convention then, as reversing it changes only the linear part."
)


@dataclass(frozen=True)
class PredictorDetails:
    """What a predictor's values are worth."""

    error: float
    """Root mean square error on samples held out or fitted, the larger."""


def predictor(context: Context, evidence: Evidence, method: str) -> Recovery:
    """The predictor that a network gives, and what its predictions are worth."""
    kept = evidence.network
    if context.refine or not context.faithful:
        kept = merge_linear_units(kept, context.inputs, fewest_to_confirm(kept))
    network = linear_as_units(kept)
    certificate = _certificate(context, evidence, kept, network)
    error = max(certificate.residual, residual_on(context.fitted_samples, kept))
    said = _message(certificate, network.units, error)
    checks = asked(_questions(context, certificate, _noise(context, evidence), error, said))
    if all(check.holds for check in checks):
        checks += asked(_nothing_left(context, kept, said))
    return Recovery.judged(
        network,
        checks,
        Status.WITHIN_NOISE,
        said,
        method=method,
        claim=Claim.PREDICTOR,
        certificate=certificate,
        ambiguities=evidence.ambiguities if kept.linear is None else (_MERGED,),
        details=PredictorDetails(error),
    )


def _noise(context: Context, evidence: Evidence) -> float:
    """The noise given; or what is left, if it looks like noise."""
    if context.noise is not None:
        return context.noise
    is_noise = all(check.holds for check in asked(what_is_left(context, evidence)))
    some = evidence.exact or evidence.network.units > 0
    if is_noise and some and not few_stand_out(evidence.certificate):
        return evidence.certificate.noise
    return 0.0


def _questions(
    context: Context, certificate: Certificate, noise: float, error: float, said: str
) -> Iterator[Check]:
    spread, beyond = context.spread, _beyond_the_paper(context)
    chance = ERROR_SIGMAS * np.sqrt(2 / certificate.samples_held_out)
    overfit = certificate.parameters / certificate.samples_fitted
    harmless = float(np.hypot(noise * np.sqrt(1 + chance + overfit), SMALL_ERROR * spread))
    useless = float(np.hypot(noise, LARGE_ERROR * spread))
    yield Check(
        "samples are predicted",
        error <= max(useless, harmless),
        error / spread,
        f"at most {max(useless, harmless) / spread:.2g} of the labels' spread",
        f"{said} An error above {LARGE_ERROR} of the spread is no prediction: units were not "
        "resolved, or labels are not those of such a network. Take more samples, give noise= if it "
        f"is known, or more time with budget={beyond}.",
        samples=certificate.samples_held_out,
    )
    yield Check(
        "samples are predicted up to noise",
        error <= harmless,
        error / spread,
        f"at most {harmless / spread:.2g} of the labels' spread",
        f"{said} What is left is noise, or units that were not resolved: give noise= if it is "
        f"known, or take more samples{beyond}.",
        Status.PARTIAL,
        samples=certificate.samples_held_out,
    )


def _nothing_left(context: Context, kept: Network, said: str) -> Iterator[Check]:
    """Whether plain smoothers predict what is left, beyond chance and by an amount that matters."""
    fitted, unseen = context.fitted_samples, context.held_out
    X, y = np.concatenate([fitted.X, unseen.X]), np.concatenate([fitted.y, unseen.y])
    if len(X) < FEWEST_SMOOTHED:
        return
    Z, residuals = context.standardisation.apply(X), (y - kept(X)).reshape(len(y))
    smoothed = best_smoother(Z, _directions(context, kept), residuals)
    share = smoothed.explained / context.spread
    yield Check(
        "nothing of what is left is predicted by plain smoothers",
        smoothed.sigmas <= SMOOTHER_SIGMAS or share <= SMALL_ERROR,
        f"{share:.2g} of the spread, at {smoothed.sigmas:.2g} standard errors",
        f"at most {SMALL_ERROR:g} of the labels' spread, or {SMOOTHER_SIGMAS:g} standard errors",
        f"{said} What is left is not noise: {smoothed.name}, given the residuals of other samples, "
        f"predicts {share:.2g} of the labels' spread of it ({smoothed.sigmas:.2g} standard errors, "
        f"{smoothed.samples} samples). The labels are not those of such a network, or units were "
        f"not resolved: take more samples{_beyond_the_paper(context)}, or use a smoother.",
        Status.PARTIAL,
        samples=smoothed.samples,
    )


def _directions(context: Context, network: Network) -> Array:
    """Along which the largest units look, on standardised inputs, of norm 1."""
    W = network.weights @ np.linalg.inv(context.standardisation.whiten)
    size = np.linalg.norm(W, axis=1)
    largest = np.argsort(-size * np.abs(network.output_weights), kind="stable")[:MOST_DIRECTIONS]
    return np.asarray(W[largest] / size[largest, None])


def _beyond_the_paper(context: Context) -> str:
    return ", or leave out faithful= and refine=" if not context.refine else ""


def _certificate(
    context: Context, evidence: Evidence, kept: Network, network: Network
) -> Certificate:
    """The certificate of the predictor that is returned."""
    certificate = evidence.certificate
    if kept.units == evidence.network.units and kept.linear is None:
        return certificate
    residual = residual_on(context.held_out, kept)
    if certificate.samples_refitted:  # these were fitted since
        residual = max(residual, certificate.residual)
    return replace(
        certificate,
        residual=residual,
        relative_residual=residual / context.spread,
        samples_held_out=context.held_out.size,
        parameters=kept.free_parameters,
        condition=condition_number(kept),
        weakest_unit=None,
        closest_pair=closest_pair(kept, context.inputs),
        rarer_side=rarer_side(network, context.inputs),
    )


def _message(certificate: Certificate, units: int, error: float) -> str:
    message = (
        f"A predictor with {counted(units, 'unit')}: root mean square error "
        f"{certificate.residual:.3g} on {certificate.samples_held_out} samples that were not "
        f"fitted, {certificate.relative_residual:.2g} of their spread; its weights need not be "
        "those of the network."
    )
    if error <= max(MUCH_LARGER * certificate.residual, ROUNDINGS * certificate.rounding):
        return message
    return message + (
        f" On the samples given for the fit it is {error:.3g}: a few of them stand out, as they do "
        "beyond the kink of a unit that is taken as linear."
    )
