"""The last fit with noise: every sample counts, outputs weighted by their noise.

One noisy output must not spoil the others, so labels are divided by the noise of their output. Of a
great many samples those drawn give the curvature, and all give the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.ended import Ended
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, Source, StandardisedSource
from provenet.fitting.covariance import Covariance, covariance, covariance_bound
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.fitting.residuals import scale_outputs
from provenet.fitting.robust.tolerances import WEIGHTINGS
from provenet.fitting.tolerances import (
    DENSE_LIMIT,
    LARGEST_COVARIANCE,
    LEAST_NOISE,
    MANY_SAMPLES,
    POLISH_DAMPING,
    POLISH_LAST_STEPS,
    REFIT_TOLERANCE,
)
from provenet.fitting.workspace import Workspace
from provenet.networks.network import Network
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class Refit:
    """Least squares on all samples, on standardised inputs."""

    network: Network
    scale: Array
    """The noise of every output before this fit: what labels were divided by."""
    noise: float
    """Standard deviation of what is left, over `scale`."""
    ended: Ended

    @property
    def pooled_noise(self) -> float:
        """Standard deviation of the noise, its root mean square over the outputs."""
        return self.noise * float(np.sqrt(np.mean(self.scale**2)))


def refit_on_all(workspace: Workspace, network: Network) -> Refit:
    """Weighted least squares from a network that explains the samples up to noise."""
    noise, scale, ended = 1.0, np.ones(()), Ended.OUT_OF_STEPS
    for _ in range(1 if workspace.source.outputs is None else WEIGHTINGS):
        scale = _noise_by_output(workspace, network)
        network, noise, ended = _weighted_fit(workspace, network, scale)
    return Refit(network, scale, noise, ended)


def covariance_of_all(workspace: Workspace, network: Network, scale: Array) -> Covariance:
    """From all samples; of a great many from those that were drawn, if these leave nothing open.

    For outputs over `scale`. Of very many parameters, or many and no time for them, it is a bound.
    """
    scaled, standardisation = scale_outputs(network, 1 / scale), workspace.standardisation
    source, part = _scaled_samples(workspace, scale)
    if network.weights.size > (DENSE_LIMIT if workspace.out_of_time else LARGEST_COVARIANCE):
        drawn = part or _scaled_drawn(workspace, scale)
        found = covariance_bound(drawn, scaled, standardisation)
        return found.times(drawn.size / source.size)
    if part is not None:
        found = covariance(part, scaled, standardisation)
        if not found.rank_deficiency:
            return found.times(part.size / source.size)
    return covariance(source, scaled, standardisation)


def _scaled_samples(workspace: Workspace, scale: Array) -> tuple[Source, ArraySource | None]:
    """All samples, labels divided by `scale`, and those drawn if they are far fewer."""
    source = StandardisedSource(workspace.source, workspace.standardisation, scale)
    many = source.size > MANY_SAMPLES * workspace.problem.samples.size
    return source, _scaled_drawn(workspace, scale) if many else None


def _scaled_drawn(workspace: Workspace, scale: Array) -> ArraySource:
    drawn = workspace.problem.samples
    return ArraySource(drawn.X, drawn.y / scale)


def _weighted_fit(
    workspace: Workspace, network: Network, scale: Array
) -> tuple[Network, float, Ended]:
    """Least squares on all samples, outputs divided by `scale`, and the noise in these units."""
    source, part = _scaled_samples(workspace, scale)
    if part is None and not workspace.source.in_memory:
        part = _scaled_drawn(workspace, scale)
    fit = refine(
        source,
        Parameters.of(scale_outputs(network, 1 / scale)),
        network.activation,
        spread=workspace.spread / float(np.min(scale)),
        iterations=POLISH_LAST_STEPS,
        tolerance=REFIT_TOLERANCE,
        damping=POLISH_DAMPING,
        deadline=workspace.problem.deadline,
        some=part,
    )
    spare = max(source.labels - network.free_parameters, 1)
    found = scale_outputs(fit.parameters.network(network.activation), scale)
    return found, float(np.sqrt(fit.rss / spare)), fit.ended


def _noise_by_output(workspace: Workspace, network: Network) -> Array:
    """Root mean square residual of every output, none much smaller than the largest."""
    samples = workspace.problem.samples
    squares = np.mean((network(samples.X) - samples.y) ** 2, axis=0)
    least = LEAST_NOISE**2 * np.max(squares) + TINY
    return np.asarray(np.sqrt(np.maximum(squares, least)))
