"""Candidates for one output from Hermite moments (ATV21), and a search from the best of them."""

from __future__ import annotations

from collections.abc import Iterator

from provenet.certify.candidate import Candidate
from provenet.fitting.least_squares import Fit
from provenet.fitting.model import Parameters
from provenet.fitting.workspace import Workspace
from provenet.methods.stages.moment_units import (
    faithful_directions,
    find_span,
    moment_fit,
    network_of,
    projected_moments,
    spectrum_evidence,
)
from provenet.methods.stages.searched import searched
from provenet.methods.tolerances import MOMENT_FIT_ATTEMPTS
from provenet.moments.decomposition import recover_scalars
from provenet.moments.subspace import Span
from provenet.networks.activations import ABS, RELU
from provenet.networks.network import Network
from provenet.networks.piecewise import as_absolute
from provenet.networks.signs import fix_signs


def from_moments(workspace: Workspace) -> Iterator[Candidate]:
    """Candidates from the moments; then units that the moments could not show are searched for."""
    if workspace.faithful:
        yield from _algorithm_6(workspace)
        return
    span = find_span(workspace)
    if span.rank > 0:
        yield from from_span(workspace, span)


def from_span(workspace: Workspace, span: Span) -> Iterator[Candidate]:
    """Candidates by decomposition inside a span, then by search from the best of them."""
    moments = projected_moments(workspace, span)
    part = workspace.problem.for_width(span.rank)
    fits: list[Fit] = []
    for attempt in range(MOMENT_FIT_ATTEMPTS):
        with workspace.stage("decompose"):
            found = moment_fit(workspace, moments, random=attempt == MOMENT_FIT_ATTEMPTS - 1)
            network = network_of(workspace, found, span.basis)
        if not workspace.refine:
            yield Candidate(network, spectrum_evidence(span))
            return
        with workspace.stage("refine"):
            fits.append(part.refine(Parameters.of(as_absolute(network)), 30, 1e-3))
        if part.is_zero(fits[-1]):
            yield Candidate(fits[-1].parameters.network(ABS), spectrum_evidence(span))
            break
    best = min(fits, key=lambda fit: fit.rss)
    yield from searched(workspace, best.parameters.theta)


def _algorithm_6(workspace: Workspace) -> Iterator[Candidate]:
    """ATV21, Algorithm 6, on moments in all of the space."""
    moments, W, evidence = faithful_directions(workspace)
    if len(W) == 0:
        return
    a, b = recover_scalars(moments.tensors, W)
    signs = fix_signs(moments.tensors[1], a, W)
    W, b = W * signs[:, None], b * signs
    c = moments.tensors[0] - a @ RELU.hermite(0, b)
    yield Candidate(Network(W, b, a, c), evidence)
