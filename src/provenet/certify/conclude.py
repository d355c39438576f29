"""From a method's answer to a Recovery: polish, certify, judge.

Every method ends here, so every answer is judged by the same evidence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.certify.certificate import (
    Certificate,
    closest_pair,
    condition_number,
    rarer_side,
    residual_kurtosis,
    unresolved_units,
    weakest_unit,
)
from provenet.certify.judgement import Evidence, fewest_to_confirm, judge
from provenet.certify.result import Recovery, Status
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, Source, StandardisedSource
from provenet.fitting.covariance import (
    Covariance,
    StandardErrors,
    covariance,
    covariance_bound,
)
from provenet.fitting.levenberg_marquardt import refine
from provenet.fitting.parameters import Parameters
from provenet.fitting.polish import Polished, polish
from provenet.fitting.residuals import rounding_level
from provenet.fitting.tolerances import DENSE_LIMIT
from provenet.fitting.workspace import Workspace
from provenet.networks.network import Network

_ROUNDING_MARGIN = 10.0
_LEAST_NOISE = 1e-6
_WEIGHTINGS = 2
_MANY = 10
"""Times as many samples as were drawn: from there on the drawn ones give the curvature."""


def conclude(workspace: Workspace, candidate: Candidate, method: str) -> Recovery:
    """Polish a candidate, gather the evidence, and say what it is worth."""
    workspace = candidate.workspace or workspace
    if workspace.refine:
        with workspace.stage("refine"):
            polished = polish(workspace, candidate.network)
    else:
        network = candidate.network
        values = network(workspace.problem.samples.X) - workspace.problem.samples.y
        polished = Polished(network, float(np.vdot(values, values)))
    with workspace.stage("certify"):
        recovery = _certify(workspace, candidate, polished, method)
    return recovery if candidate.restore is None else candidate.restore(recovery)


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
        corrupted=candidate.corrupted,
        landscape=candidate.landscape,
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
    spare = max(samples.labels - parameters, 1)
    by_output, held_out = _unseen_residuals(workspace, network, polished)
    roundings = rounding_level(network, workspace.held_out.X)
    residual, rounding = (_root_mean_square(x) for x in (by_output, roundings))
    fitted = np.sqrt(polished.rss / samples.labels)
    exact = np.isfinite(rounding) and bool(
        fitted <= _ROUNDING_MARGIN * rounding and np.all(by_output <= _ROUNDING_MARGIN * roundings)
    )
    noise = 0.0 if exact else float(np.sqrt(polished.rss / spare))
    spread = _covariance_of_fit(workspace, own, exact)
    sides = rarer_side(network, workspace.inputs)
    weakest, margin, without = weakest_unit(samples, own, max(noise, rounding))
    certificate = Certificate(
        residual=residual,
        relative_residual=residual / workspace.spread,
        rounding=rounding,
        noise=noise,
        label_rounding=problem.label_rounding,
        outputs=problem.outputs,
        samples_fitted=samples.size,
        distinct_inputs=len(workspace.inputs),
        samples_held_out=held_out,
        parameters=parameters,
        condition=condition_number(network),
        parameter_error_bound=spread.error_bound(
            network, np.sqrt(samples.labels) * max(fitted, rounding) if exact else noise
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
    estimate = covariance_bound if exact and network.weights.size > DENSE_LIMIT else covariance
    part = problem.for_width(network.units)
    found = estimate(part.samples, network, workspace.standardisation)
    if part is problem:
        return found
    if found.rank_deficiency:
        return estimate(problem.samples, network, workspace.standardisation)
    return _of_more_samples(found, part.samples.size / problem.samples.size)


def _of_more_samples(found: Covariance, share: float) -> Covariance:
    """What a share of the samples tells of the covariance that all of them give."""
    return replace(found, units=found.units * share, linear=found.linear * share)


def _root_mean_square(x: Array) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _unseen_residuals(
    workspace: Workspace, network: Network, polished: Polished
) -> tuple[Array, int]:
    """Residual, an output, on samples not fitted: those held out, or all the others there are."""
    source, samples = workspace.source, workspace.problem.samples
    held_out = workspace.held_out

    squares = partial(_squares, network)
    if source.size <= samples.size + held_out.size or not source.fixed:
        return np.sqrt(held_out.total(squares) / held_out.size), held_out.size
    fitted = squares(workspace.standardisation.undo(samples.X), samples.y)
    unseen = source.size - samples.size
    return np.sqrt(np.maximum(source.total(squares) - fitted, 0.0) / unseen), unseen


def _squares(network: Network, X: Array, y: Array) -> Array:
    return np.asarray(np.sum((network(X) - y) ** 2, axis=0))


def _finish_on_all(
    workspace: Workspace, network: Network, certificate: Certificate
) -> tuple[Network, Certificate, StandardErrors]:
    """With noise every sample counts: least squares on all of them, and standard errors.

    Outputs are weighted by their noise, so that one noisy output does not spoil the others.
    """
    noise = 1.0
    scale = _noise_by_output(workspace, network)
    if network.units and workspace.refine:
        for _ in range(1 if workspace.source.outputs is None else _WEIGHTINGS):
            scale = _noise_by_output(workspace, network)
            network, noise = _weighted_fit(workspace, network, scale)
        pooled = noise * float(np.sqrt(np.mean(scale**2)))
        certificate = replace(certificate, noise=pooled)
    network = _canonical_order(workspace, network)
    spread = _covariance_of_all(workspace, _scale_outputs(network, 1 / scale), scale)
    user = workspace.standardisation.network_to_user(network).canonical()
    return user, certificate, spread.standard_errors(noise).scaled(scale)


def _covariance_of_all(workspace: Workspace, network: Network, scale: Array) -> Covariance:
    """From all samples; of a great many from those that were drawn, if these leave nothing open."""
    source, part = _scaled_samples(workspace, scale)
    if part is not None:
        found = covariance(part, network, workspace.standardisation)
        if not found.rank_deficiency:
            return _of_more_samples(found, part.size / source.size)
    return covariance(source, network, workspace.standardisation)


def _scaled_samples(workspace: Workspace, scale: Array) -> tuple[Source, Source | None]:
    """All samples, labels divided by `scale`, and those drawn if they are far fewer."""
    drawn = workspace.problem.samples
    source = StandardisedSource(workspace.source, workspace.standardisation, scale)
    many = source.size > _MANY * drawn.size
    return source, ArraySource(drawn.X, drawn.y / scale) if many else None


def _weighted_fit(workspace: Workspace, network: Network, scale: Array) -> tuple[Network, float]:
    """Least squares on all samples, outputs divided by `scale`, and the noise in these units."""
    source, part = _scaled_samples(workspace, scale)
    fit = refine(
        source,
        Parameters.of(_scale_outputs(network, 1 / scale)),
        network.activation,
        spread=workspace.spread / float(np.min(scale)),
        iterations=20,
        tolerance=1e-8,
        damping=1e-6,
        deadline=workspace.problem.deadline,
        part=part,
    )
    spare = max(source.labels - network.free_parameters, 1)
    found = _scale_outputs(fit.parameters.network(network.activation), scale)
    return found, float(np.sqrt(fit.rss / spare))


def _noise_by_output(workspace: Workspace, network: Network) -> Array:
    """Root mean square residual of every output, none much smaller than the largest."""
    samples = workspace.problem.samples
    squares = np.mean((network(samples.X) - samples.y) ** 2, axis=0)
    least = _LEAST_NOISE**2 * np.max(squares) + 1e-300
    return np.asarray(np.sqrt(np.maximum(squares, least)))


def _scale_outputs(network: Network, scale: Array) -> Network:
    """The network with each output multiplied by a number."""
    return network.replace(
        output_weights=(network.output_weights.T * scale).T,
        output_bias=network.output_bias * scale,
        linear=None if network.linear is None else (network.linear.T * scale).T,
    )
