"""From a method's answer to a Recovery: polish, settle the signs, certify, judge.

Every method ends here, so every answer is judged by the same evidence:

- *exact* asks for a residual at the level of rounding on samples that no fit saw, for every unit to
  have more samples than it has parameters on both sides of its kink, and for a Jacobian of full
  rank: otherwise other networks fit the samples as well;
- *within noise* asks that unseen samples are predicted no worse than fitted ones, and that no
  further unit explains anything of what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from provenet.activations import RELU
from provenet.certificate import (
    Certificate,
    condition_number,
    rarer_side,
    residual_on,
    rounding_level,
    unresolved_units,
    weakest_unit,
)
from provenet.networks import Network, as_absolute
from provenet.refine import (
    Covariance,
    Fit,
    Parameters,
    StandardErrors,
    covariance,
    fit_linear_part,
    refine,
)
from provenet.result import Recovery, Status
from provenet.search import with_new_units
from provenet.signs import Signs, signs_from_linear_part
from provenet.sources import ArraySource, StandardisedSource
from provenet.typing import AnyArray, Array
from provenet.workspace import Candidate, Workspace, user_samples

_ROUNDING_MARGIN = 10.0
_UNLIKELY = 1e-4
"""Level of the tests for what is not noise."""
_SPARE_SAMPLES = 5
_VISIBLE = 0.2
_SMALL_RESIDUAL = 1e-3


@dataclass(frozen=True)
class Polished:
    """A refined network on standardised inputs."""

    network: Network
    rss: float
    """Residual sum of squares on the samples that were fitted."""
    ambiguities: tuple[str, ...] = ()


def conclude(workspace: Workspace, candidate: Candidate, method: str) -> Recovery:
    """Polish a candidate, gather the evidence, and say what it is worth."""
    if workspace.refine:
        with workspace.stage("refine"):
            polished = polish(workspace, candidate.network)
    else:
        network = candidate.network
        values = network(workspace.problem.samples.X) - workspace.problem.samples.y
        polished = Polished(network, float(values @ values))
    with workspace.stage("certify"):
        return _certify(workspace, candidate, polished, method)


# ---------------------------------------------------------------- polishing


def polish(workspace: Workspace, network: Network) -> Polished:
    """Least squares from a candidate: first up to signs, then with the signs settled."""
    problem = workspace.problem
    start = Parameters.of(as_absolute(network))
    free = problem.refine_in_steps(start, 100, 1e-5, last=20)
    if free.parameters.units == 0:
        return Polished(free.parameters.network(RELU), free.rss)
    unsettled = as_rectified(free.parameters, _signs(free.parameters).signs)
    if not problem.is_zero(free) and _excess_on_unseen(workspace, unsettled, free.rss) is not None:
        return Polished(unsettled, free.rss)  # a bad minimum: no need to go on
    settled, ambiguities = settle_signs(workspace, free)
    if _linear_term_needed(workspace, free, settled):
        return Polished(unsettled, free.rss, (*ambiguities, *_sign_ambiguity(unsettled)))
    return Polished(settled.parameters.network(RELU), settled.rss, ambiguities)


def as_rectified(parameters: Parameters, signs: Array) -> Network:
    """The inverse of `as_absolute` for given signs; what they do not explain stays linear."""
    m = parameters.units
    a = 2 * parameters.beta[:m]
    theta = parameters.theta * signs[:, None]
    explained = a / 2 @ theta
    return Network(
        theta[:, :-1],
        theta[:, -1],
        a,
        parameters.beta[-1] - explained[-1],
        RELU,
        linear=parameters.beta[m:-1] - explained[:-1],
    )


def _signs(parameters: Parameters) -> Signs:
    m = parameters.units
    return signs_from_linear_part(
        2 * parameters.beta[:m], parameters.theta[:, :-1], parameters.beta[m:-1]
    )


def settle_signs(workspace: Workspace, free: Fit) -> tuple[Fit, tuple[str, ...]]:
    """The best fit without a linear term, from the signs that the linear part asks for."""
    problem = workspace.problem
    found = _signs(free.parameters)
    signs = found.signs
    if not problem.is_zero(free):
        signs = _flip_while_better(workspace, free.parameters, signs)
    ambiguities = tuple(
        f"The signs of units {np.flatnonzero(other != signs).tolist()} could all be reversed."
        for other in found.alternatives
    )
    fit = refine(
        problem.samples,
        _without_linear(free.parameters, signs),
        RELU,
        spread=problem.spread,
        iterations=100,
        tolerance=1e-9,
        damping=1e-6,
        deadline=problem.deadline,
    )
    return fit, ambiguities


def _without_linear(parameters: Parameters, signs: Array) -> Parameters:
    return Parameters.of(as_rectified(parameters, signs).replace(linear=None))


def _flip_while_better(workspace: Workspace, parameters: Parameters, signs: Array) -> Array:
    """With noise the linear part may mislead: flip single signs while that lowers the residual."""
    samples = workspace.problem.for_width(parameters.units).samples

    def misfit(xi: Array) -> float:
        return fit_linear_part(samples, _without_linear(parameters, xi), RELU)[1]

    best = misfit(signs)
    while True:
        flips = [signs * np.where(np.arange(len(signs)) == i, -1.0, 1.0) for i in range(len(signs))]
        values = [misfit(xi) for xi in flips]
        i = int(np.argmin(values))
        if values[i] >= best:
            return signs
        signs, best = flips[i], values[i]


def _linear_term_needed(workspace: Workspace, free: Fit, settled: Fit) -> bool:
    """Whether the fit with a linear term is better than chance allows (F-test)."""
    problem = workspace.problem
    if problem.is_zero(free):
        return not problem.is_zero(settled)
    n, d = problem.samples.size, problem.samples.features
    spare = n - problem.parameters(free.parameters.units)
    if spare <= 0:
        return False
    F = (settled.rss - free.rss) / d / (free.rss / spare)
    return bool(stats.f.sf(F, d, spare) < _UNLIKELY)


def _sign_ambiguity(network: Network) -> tuple[str, ...]:
    if network.units == 0:
        return ()
    return (
        "The network has a linear term, so the sign of each unit is a convention: "
        "reversing it changes only the linear term.",
    )


# ---------------------------------------------------------------- evidence


@dataclass(frozen=True)
class Evidence:
    """A polished network in the user's coordinates with everything that was measured of it."""

    network: Network
    certificate: Certificate
    covariance: Covariance
    unresolved: AnyArray
    exact: bool


def _certify(
    workspace: Workspace, candidate: Candidate, polished: Polished, method: str
) -> Recovery:
    evidence = _gather(workspace, candidate, polished)
    status, message = judge(workspace, evidence, polished)
    network, certificate = evidence.network, evidence.certificate
    errors = evidence.covariance.standard_errors(certificate.noise)
    if status is Status.WITHIN_NOISE or (status is Status.PARTIAL and not evidence.exact):
        network, certificate, errors = _finish_on_all(workspace, polished.network, certificate)
    return Recovery(
        network=network,
        status=status,
        message=message,
        method=method,
        certificate=certificate,
        standard_errors=errors,
        ambiguities=polished.ambiguities,
    )


def _canonical_order(workspace: Workspace, network: Network) -> Network:
    """The same network on standardised inputs, its units in the user's canonical order."""
    user = workspace.standardisation.network_to_user(network).canonical()
    return workspace.standardisation.network_from_user(user)


def _gather(workspace: Workspace, candidate: Candidate, polished: Polished) -> Evidence:
    problem, s = workspace.problem, workspace.standardisation
    samples = problem.samples
    own = _canonical_order(workspace, polished.network)
    network = s.network_to_user(own).canonical()
    parameters = network.free_parameters
    spare = max(samples.size - parameters, 1)
    residual, held_out = _unseen_residual(workspace, network, polished)
    rounding = rounding_level(network, workspace.held_out.X)
    fitted = np.sqrt(polished.rss / samples.size)
    exact = max(residual, fitted) <= _ROUNDING_MARGIN * rounding
    noise = 0.0 if exact else float(np.sqrt(polished.rss / spare))
    spread = _covariance_of_fit(workspace, own)
    sides = rarer_side(network, np.vstack([user_samples(workspace), workspace.held_out.X]))
    weakest, margin, without = weakest_unit(samples, own, max(noise, rounding))
    certificate = Certificate(
        residual=residual,
        relative_residual=residual / workspace.spread,
        rounding=rounding,
        noise=noise,
        samples_fitted=samples.size,
        samples_held_out=held_out,
        parameters=parameters,
        condition=condition_number(network),
        parameter_error_bound=spread.error_bound(
            np.sqrt(samples.size) * max(fitted, rounding) if exact else noise
        ),
        undetermined=spread.rank_deficiency,
        weakest_unit=weakest,
        weakest_margin=margin,
        rarer_side=sides,
        width_evidence=(
            f"{candidate.width_evidence} Without its weakest unit the residual would be "
            f"{without / workspace.spread:.1e} of the labels' spread."
        ),
        gaussian=workspace.gaussian,
        warnings=() if workspace.gaussian.ok else (workspace.gaussian.message,),
    )
    unresolved = unresolved_units(spread, noise, sides, network.features + 1)
    return Evidence(network, certificate, spread, unresolved, bool(exact))


def _covariance_of_fit(workspace: Workspace, network: Network) -> Covariance:
    """From as many samples as the width needs; from all of them if those leave anything open."""
    problem = workspace.problem
    part = problem.for_width(network.units)
    found = covariance(part.samples, network, workspace.standardisation)
    if part is problem:
        return found
    if found.rank_deficiency:
        return covariance(problem.samples, network, workspace.standardisation)
    share = part.samples.size / problem.samples.size
    return replace(found, units=found.units * share, linear=found.linear * share)


def _unseen_residual(
    workspace: Workspace, network: Network, polished: Polished
) -> tuple[float, int]:
    """Residual on samples that the fit did not use: those held out, or all the others there are."""
    source, fitted = workspace.source, workspace.problem.samples.size
    if source.size <= fitted + workspace.held_out.size or not isinstance(source, ArraySource):
        return residual_on(workspace.held_out, network), workspace.held_out.size
    rss = source.total(lambda X, y: float(np.sum((network(X) - y) ** 2)))
    unseen = source.size - fitted
    return float(np.sqrt(max(rss - polished.rss, 0.0) / unseen)), unseen


def _finish_on_all(
    workspace: Workspace, network: Network, certificate: Certificate
) -> tuple[Network, Certificate, StandardErrors]:
    """With noise every sample counts: least squares and standard errors from all of them."""
    source = StandardisedSource(workspace.source, workspace.standardisation)
    if network.units and workspace.refine:
        fit = refine(
            source,
            Parameters.of(network),
            RELU,
            spread=workspace.spread,
            iterations=20,
            tolerance=1e-8,
            damping=1e-6,
            deadline=workspace.problem.deadline,
        )
        network = fit.parameters.network(RELU)
        certificate = replace(
            certificate,
            noise=float(np.sqrt(fit.rss / max(source.size - certificate.parameters, 1))),
        )
    own = _canonical_order(workspace, network)
    spread = covariance(source, own, workspace.standardisation)
    user = workspace.standardisation.network_to_user(own).canonical()
    return user, certificate, spread.standard_errors(certificate.noise)


# ---------------------------------------------------------------- judgement


def judge(workspace: Workspace, evidence: Evidence, polished: Polished) -> tuple[Status, str]:
    """The status and a message that says what happened and what to try next."""
    failure = None if evidence.exact else _not_noise(workspace, evidence, polished)
    if failure is not None:
        return Status.FAILED, failure
    gap = _what_is_missing(workspace, evidence)
    if gap is not None:
        return Status.PARTIAL, gap
    certificate, units = evidence.certificate, evidence.network.units
    if evidence.exact:
        return Status.EXACT, (
            f"All {units} units recovered to machine precision: {certificate.samples_held_out} "
            f"samples that were not fitted are predicted to {certificate.relative_residual:.0e} "
            "of the labels' spread."
        )
    return Status.WITHIN_NOISE, (
        f"All {units} units recovered as well as noise of size {certificate.noise:.3g} allows; "
        "see the standard errors, and take more samples to make them smaller."
    )


def _not_noise(workspace: Workspace, evidence: Evidence, polished: Polished) -> str | None:
    """Why what is left cannot be noise, or None."""
    certificate = evidence.certificate
    left = f"A residual of {certificate.relative_residual:.1e} of the labels' spread is left"
    if not workspace.refine:
        return (
            f"This is the method's own answer, not refined. {left}: use refine=True to finish it."
        )
    fitted = certificate.samples_fitted
    if fitted < 1.2 * certificate.parameters + _SPARE_SAMPLES:
        return (
            f"{left}, and {fitted} samples are too few to tell whether {certificate.parameters} "
            "parameters explain them or merely fit them: take more samples."
        )
    if _too_few_to_see_units(certificate, evidence.network.features):
        return (
            f"{left}, and {fitted} samples are too few to tell noise from further units: "
            "take more samples."
        )
    excess = _excess_on_unseen(workspace, polished.network, polished.rss)
    if excess is not None:
        return (
            f"{left} on samples that were not fitted, {excess:.1f} times what noise would "
            "leave: this is not yet the network. Take more samples, or give more time with budget=."
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
    n = certificate.samples_fitted
    visible = (features + 1) * np.log(n) < _VISIBLE * n
    return certificate.relative_residual > _SMALL_RESIDUAL and not visible


def _excess_on_unseen(workspace: Workspace, network: Network, rss: float) -> float | None:
    """How much larger the residual is on held-out samples than noise explains, or None (F-test)."""
    held_out, fitted = workspace.held_out, workspace.problem.samples.size
    spare = max(fitted - network.free_parameters, 1)
    user = workspace.standardisation.network_to_user(network)
    expected = rss / spare * (1 + network.free_parameters / spare)
    F = residual_on(held_out, user) ** 2 / max(expected, 1e-300)
    return float(np.sqrt(F)) if stats.f.sf(F, held_out.size, spare) < _UNLIKELY else None


def _more_units_help(workspace: Workspace, polished: Polished) -> bool:
    """Whether two more units, the best of many, lower Schwarz's criterion.

    This is part of the certificate, so it is done even when the budget is used up.
    """
    parameters = Parameters.of(as_absolute(polished.network))
    part = replace(workspace.problem.for_width(parameters.units + 2), deadline=np.inf)
    fit = part.refine(parameters, 5, 1e-3)
    wider = with_new_units(part, fit, np.empty(0, dtype=int), 2, workspace.rng)
    return part.criterion(wider) < part.criterion(fit)


def _weakest_stands_out(evidence: Evidence) -> bool:
    """Whether even the weakest unit is worth its parameters (Schwarz's criterion)."""
    certificate, features = evidence.certificate, evidence.network.features
    if evidence.exact:
        return certificate.weakest_margin > 100 * np.sqrt(certificate.samples_fitted)
    needed = (features + 1) * np.log(certificate.samples_fitted)
    return bool(certificate.weakest_margin**2 > needed)


def _what_is_missing(workspace: Workspace, evidence: Evidence) -> str | None:
    """Which units are not recovered although the samples are explained, or None."""
    network, certificate = evidence.network, evidence.certificate
    found = "explained exactly" if evidence.exact else "explained up to noise"
    if network.units == 0:
        return (
            "The labels are a linear function of the inputs: no unit has its kink within reach of "
            "the samples. Take samples further out."
        )
    if certificate.samples_fitted < certificate.parameters + _SPARE_SAMPLES:
        return (
            f"The samples are {found}, but {certificate.samples_fitted} of them cannot confirm "
            f"{certificate.parameters} parameters: take more samples."
        )
    if not _weakest_stands_out(evidence):
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
    if certificate.undetermined:
        return (
            f"The samples are {found}, but they leave {certificate.undetermined} directions of the "
            "parameters free (units too close to each other to tell apart): take more samples."
        )
    if network.linear is not None:
        return (
            f"The samples are {found} by {network.units} units and a linear term: one or more "
            "units have no kink within reach of the samples. Take more samples, or samples further "
            "out, to tell them apart."
        )
    if workspace.units is not None and workspace.units > network.units:
        return (
            f"The samples are {found} by {network.units} units, not {workspace.units}: the others "
            "show no kink in these samples. Take more samples, or ask for fewer units."
        )
    return None
