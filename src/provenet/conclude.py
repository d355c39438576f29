"""From a method's answer to a Recovery: polish, certify, judge.

Every method ends here, so every answer is judged by the same evidence.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from provenet.activations import RELU
from provenet.certificate import (
    Certificate,
    closest_pair,
    condition_number,
    rarer_side,
    residual_kurtosis,
    residual_on,
    rounding_level,
    unresolved_units,
    weakest_unit,
)
from provenet.covariance import Covariance, StandardErrors, covariance, covariance_bound
from provenet.judgement import Evidence, fewest_to_confirm, judge
from provenet.networks import Network
from provenet.polish import Polished, polish
from provenet.refine import DENSE_LIMIT, Parameters, refine
from provenet.result import Recovery, Status
from provenet.sources import ArraySource, StandardisedSource
from provenet.workspace import Candidate, Workspace

_ROUNDING_MARGIN = 10.0


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
    spread = _covariance_of_fit(workspace, own, exact)
    sides = rarer_side(network, workspace.inputs)
    weakest, margin, without = weakest_unit(samples, own, max(noise, rounding))
    certificate = Certificate(
        residual=residual,
        relative_residual=residual / workspace.spread,
        rounding=rounding,
        noise=noise,
        samples_fitted=samples.size,
        distinct_inputs=len(workspace.inputs),
        samples_held_out=held_out,
        parameters=parameters,
        condition=condition_number(network),
        parameter_error_bound=spread.error_bound(
            network, np.sqrt(samples.size) * max(fitted, rounding) if exact else noise
        ),
        undetermined=spread.rank_deficiency,
        weakest_unit=weakest,
        weakest_margin=margin,
        closest_pair=closest_pair(network, workspace.inputs),
        residual_kurtosis=residual_kurtosis(samples, own),
        rarer_side=sides,
        width_evidence=(
            f"{candidate.width_evidence} Without its weakest unit the residual would be "
            f"{without / workspace.spread:.1e} of the labels' spread."
        ),
        gaussian=workspace.gaussian,
        warnings=() if workspace.gaussian.ok else (workspace.gaussian.message,),
    )
    unresolved = unresolved_units(spread, noise, sides, fewest_to_confirm(network))
    return Evidence(network, certificate, spread, unresolved, bool(exact))


def _covariance_of_fit(workspace: Workspace, network: Network, exact: bool) -> Covariance:
    """From as many samples as the width needs; from all of them if those leave anything open.

    An exact answer needs only a bound, which is far cheaper for many parameters.
    """
    problem = workspace.problem
    if exact and network.weights.size > DENSE_LIMIT:
        return covariance_bound(problem.samples, network, workspace.standardisation)
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
