"""From the evidence to a status, and to a message that says what to try next.

- *exact* asks for a residual at the level of rounding on samples that no fit saw, for every unit to
  have more samples than it has parameters on both sides of its kink, and for a Jacobian of full
  rank: otherwise other networks fit the samples as well;
- *within noise* asks that unseen samples are predicted no worse than fitted ones, and that no
  further unit explains anything of what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.certificate import Certificate
from provenet.certify.result import Status
from provenet.common.typing import AnyArray
from provenet.fitting.covariance import Covariance
from provenet.fitting.parameters import Parameters
from provenet.fitting.polish import Polished, excess_on_unseen
from provenet.fitting.search.swaps import with_new_units
from provenet.fitting.workspace import Workspace
from provenet.networks.conversions import as_absolute
from provenet.networks.network import Network
from provenet.networks.signs import is_one_slope

SPARE_SAMPLES = 5
"""Different inputs beyond the parameters that confirm a fit."""
_VISIBLE = 0.2
_SMALL_RESIDUAL = 1e-3
_FEWEST_UNSEEN = 5
_LARGEST_EXACT_ERROR = 1e-7
_HEAVY_TAILS = 4.0
_NEIGHBOURS = 0.9
"""Cosine of the angle between units above which they may be one."""


@dataclass(frozen=True)
class Evidence:
    """A polished network in the user's coordinates with everything that was measured of it."""

    network: Network
    certificate: Certificate
    covariance: Covariance
    unresolved: AnyArray
    exact: bool


def judge(workspace: Workspace, evidence: Evidence, polished: Polished) -> tuple[Status, str]:
    """The status and a message that says what happened and what to try next."""
    failure = None if evidence.exact else _not_noise(workspace, evidence, polished)
    if failure is not None:
        return Status.FAILED, failure
    gap = _what_is_missing(workspace, evidence, polished)
    if gap is not None:
        return Status.PARTIAL, gap
    certificate, units = evidence.certificate, evidence.network.units
    if evidence.exact:
        return Status.EXACT, (
            f"{_all_units(units)} in the samples {_are(units)} recovered to machine precision: "
            f"{certificate.samples_held_out} samples that were not fitted are predicted to "
            f"{certificate.relative_residual:.0e} of the labels' spread."
        )
    if certificate.rounded:
        return Status.WITHIN_NOISE, (
            f"A network of {_units(units)} explains the samples to the last digit of their labels, "
            "which are of single precision. Labels of double precision would tell more."
        )
    return Status.WITHIN_NOISE, (
        f"A network of {_units(units)} explains the samples up to noise of size "
        f"{certificate.noise:.3g}; its parameters are known up to their standard errors. "
        "Take more samples to make these smaller."
    )


def _units(number: int) -> str:
    return "1 unit" if number == 1 else f"{number} units"


def _all_units(number: int) -> str:
    return "The 1 unit that shows" if number == 1 else f"All {number} units that show"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _not_noise(workspace: Workspace, evidence: Evidence, polished: Polished) -> str | None:
    """Why what is left cannot be noise, or None."""
    certificate = evidence.certificate
    left = f"A residual of {certificate.relative_residual:.1e} of the labels' spread is left"
    if not workspace.refine:
        return (
            f"This is the method's own answer, not refined. {left}: use refine=True to finish it."
        )
    fitted = certificate.samples_fitted
    if certificate.labels_fitted < 1.2 * certificate.parameters + SPARE_SAMPLES:
        return (
            f"{left}, and {fitted} samples are too few to tell whether {certificate.parameters} "
            "parameters explain them or merely fit them: take more samples."
        )
    if _too_few_to_see_units(certificate, evidence.network.features):
        return (
            f"{left}, and {fitted} samples are too few to tell noise from further units: "
            "take more samples."
        )
    if certificate.rounded:
        return None
    excess = excess_on_unseen(workspace, polished.network, polished.rss)
    if excess is not None:
        return (
            f"{left} on samples that were not fitted, {excess:.1f} times what noise would "
            "leave: this is not yet the network. Take more samples, give more time with budget=, "
            "or ask for more units."
        )
    if workspace.noise is not None and certificate.noise > 1.25 * workspace.noise:
        return (
            f"{left}, noise of {certificate.noise:.3g} where {workspace.noise:.3g} was given: "
            "there are more units, or the activation is another one."
        )
    if evidence.network.units == 0:
        return (
            "No unit stands above the noise of the labels: take more samples, or check that the "
            "labels belong to these inputs."
        )
    if _more_units_help(workspace, polished):
        return (
            f"{left} that further units explain in part: the labels come from more units than "
            f"{evidence.network.units}, or not from such a network. Leave units out to find their "
            "number, take more samples, give more time with budget=, or name another activation."
        )
    return None


def _too_few_to_see_units(certificate: Certificate, features: int) -> bool:
    """Whether a unit that makes a fifth of the residual would go unseen by Schwarz's criterion.

    A residual of less than a thousandth of the labels is not asked: no unit hides there by chance.
    """
    n = certificate.outputs * min(certificate.samples_fitted, certificate.distinct_inputs)
    visible = (features + certificate.outputs) * np.log(n) < _VISIBLE * n
    return certificate.relative_residual > _SMALL_RESIDUAL and not visible


def _more_units_help(workspace: Workspace, polished: Polished) -> bool:
    """Whether one or two more units, the best of many, lower Schwarz's criterion.

    This is part of the certificate, so it is done even when the budget is used up.
    """
    network = polished.network
    if network.activation.slope is not None:
        network = as_absolute(network)
    parameters = Parameters.of(network)
    part = replace(workspace.problem.for_width(parameters.units + 2), deadline=np.inf)
    fit = part.refine(parameters, 5, 1e-3)
    wider = (
        with_new_units(part, fit, np.empty(0, dtype=int), units, workspace.rng) for units in (1, 2)
    )
    return any(part.criterion(more) < part.criterion(fit) for more in wider)


def _one_unit_in_two(workspace: Workspace, polished: Polished) -> bool:
    """Whether one unit, refined, does as well as the two that are most alike (Schwarz).

    Part of the certificate, too.
    """
    problem = replace(workspace.problem, deadline=np.inf)
    network = polished.network
    if network.units < 2 or network.activation.slope is None:
        return False
    parameters = Parameters.of(as_absolute(network))
    theta = parameters.theta / np.linalg.norm(parameters.theta, axis=1, keepdims=True)
    alike = np.abs(theta @ theta.T) - np.eye(len(theta))
    i, j = (int(k) for k in np.unravel_index(np.argmax(alike), alike.shape))
    if alike[i, j] < _NEIGHBOURS:
        return False
    both = problem.criterion(problem.refine(parameters, 5, 1e-3))
    others = (parameters.keep(np.arange(network.units) != drop) for drop in (i, j))
    return any(problem.criterion(problem.refine(fewer, 20, 1e-3)) < both for fewer in others)


def _another_slope(network: Network) -> bool:
    """Whether units of another slope below zero explain the samples without a linear term."""
    if network.activation.slope is None or network.units == 0:
        return False
    own = Parameters.of(as_absolute(network))
    m = own.units
    return is_one_slope(own.beta[:m].T, own.theta[:, :-1], own.beta[m:-1].T)


def fewest_to_confirm(network: Network) -> int:
    """Samples a linear piece of the function needs: its parameters, and two to confirm them."""
    return network.features + 3


def _few_stand_out(certificate: Certificate) -> bool:
    """Whether the residual has much heavier tails than noise, which is Gaussian or nearly so."""
    chance = 6 * np.sqrt(24 / certificate.samples_fitted)
    return bool(certificate.residual_kurtosis > max(chance, _HEAVY_TAILS))


def margin_needed(certificate: Certificate, features: int) -> float:
    """The margin at which the weakest unit is worth its parameters (Schwarz's criterion)."""
    if certificate.noise == 0:
        return float(100 * np.sqrt(certificate.labels_fitted))
    return float(np.sqrt((features + certificate.outputs) * np.log(certificate.labels_fitted)))


def _what_is_missing(workspace: Workspace, evidence: Evidence, polished: Polished) -> str | None:
    """What is not recovered although the samples are explained, or None."""
    if evidence.network.units == 0:
        return (
            "The labels are a linear function of the inputs: no unit has its kink within reach of "
            "the samples. Take samples further out."
        )
    doubts = (_too_few_inputs, _units_not_seen, _units_too_alike, _units_not_settled)
    found = "explained exactly" if evidence.exact else "explained up to noise"
    for doubt in doubts:
        reason = doubt(workspace, evidence, polished, found)
        if reason is not None:
            return reason
    return None


def _too_few_inputs(
    workspace: Workspace, evidence: Evidence, polished: Polished, found: str
) -> str | None:
    """Whether too few different inputs confirm the fit."""
    certificate = evidence.certificate
    distinct = min(certificate.samples_fitted, certificate.distinct_inputs)
    if distinct * certificate.outputs < certificate.parameters + SPARE_SAMPLES:
        return (
            f"The samples are {found}, but {distinct} different inputs cannot confirm "
            f"{certificate.parameters} parameters: take more samples."
        )
    if workspace.unseen < _FEWEST_UNSEEN and evidence.exact:
        return (
            f"The samples are {found}, but the inputs repeat each other so much that none is left "
            "to confirm it: other networks may agree on these. Take samples with other inputs."
        )
    return None


def _units_not_seen(
    workspace: Workspace, evidence: Evidence, polished: Polished, found: str
) -> str | None:
    """Whether the samples show each unit, on both sides of its kink and apart from the others."""
    network, certificate = evidence.network, evidence.certificate
    if not certificate.weakest_margin > margin_needed(certificate, network.features):
        return (
            f"The samples are {found}, but unit {certificate.weakest_unit} hardly contributes: it "
            "cannot be told from nothing. Ask for fewer units, or take more samples."
        )
    if len(evidence.unresolved):
        return (
            f"The samples are {found}, but units {evidence.unresolved.tolist()} are not pinned "
            "down by them (too few samples on one side of the kink, or too much noise): "
            "take more samples."
        )
    pair = certificate.closest_pair
    if pair is not None and pair[2] < fewest_to_confirm(network):
        return (
            f"The samples are {found}, but only {pair[2]} of them lie between the kinks of units "
            f"{pair[0]} and {pair[1]}, too few to tell the two apart: take more samples."
        )
    return None


def _units_too_alike(
    workspace: Workspace, evidence: Evidence, polished: Polished, found: str
) -> str | None:
    """Whether other units, or fewer, might explain the samples as well."""
    network, certificate = evidence.network, evidence.certificate
    if not (evidence.exact or certificate.rounded) and _few_stand_out(certificate):
        return (
            f"The samples are {found}, but most are explained far better than a few (excess "
            f"kurtosis {certificate.residual_kurtosis:.0f}): these may be outliers, or two units "
            "close to each other that were taken for one. Look at the largest residuals."
        )
    if not evidence.exact and _one_unit_in_two(workspace, polished):
        return (
            f"The samples are {found}, but one unit in place of two that are much alike does as "
            f"well: ask for {_units(network.units - 1)}, or take more samples."
        )
    if certificate.undetermined:
        return (
            f"The samples are {found}, but they leave {certificate.undetermined} directions of the "
            "parameters free (units too close to each other to tell apart): take more samples."
        )
    if evidence.exact and certificate.parameter_error_bound > _LARGEST_EXACT_ERROR:
        return (
            f"The samples are {found}, but they hardly determine the units: relative errors up to "
            f"{certificate.parameter_error_bound:.0e} would not show. Take more samples, centre "
            "inputs that are far from zero, or remove nearly dependent ones."
        )
    return None


def _units_not_settled(
    workspace: Workspace, evidence: Evidence, polished: Polished, found: str
) -> str | None:
    """Whether a linear term, signs that remain open, or fewer units than asked for are left."""
    network = evidence.network
    if network.linear is not None and _another_slope(polished.network):
        return (
            f"The samples are {found} by {_units(network.units)} and a linear term that one slope "
            'of all units below zero explains: name activation="leaky_relu", or "abs".'
        )
    if network.linear is not None:
        return (
            f"The samples are {found} by {_units(network.units)} and a linear term: one or more "
            "units have no kink within reach of the samples. Take more samples, or samples further "
            "out, to tell them apart."
        )
    if polished.ambiguities:
        return (
            f"The samples are {found}, but the signs of some units cannot be known from any "
            "samples: see the ambiguities."
        )
    if workspace.units is not None and workspace.units > network.units:
        return (
            f"The samples are {found} by {_units(network.units)}, not {workspace.units}: the "
            "others show no kink in these samples. Take more samples, or ask for fewer units."
        )
    return None
