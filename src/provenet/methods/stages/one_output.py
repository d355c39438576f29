"""Candidates for one output from Hermite moments (ATV21), and a search from the best of them."""

from __future__ import annotations

from collections.abc import Iterator

from provenet.certify.candidate import Candidate
from provenet.fitting.context import Context
from provenet.fitting.least_squares import Fit
from provenet.fitting.model import Parameters
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


def from_moments(context: Context) -> Iterator[Candidate]:
    """Candidates from the moments; then units that the moments could not show are searched for."""
    if context.faithful:
        yield from _algorithm_6(context)
        return
    span = find_span(context)
    if span.rank > 0:
        yield from from_span(context, span)


def from_span(context: Context, span: Span) -> Iterator[Candidate]:
    """Candidates by decomposition inside a span, then by search from the best of them."""
    moments = projected_moments(context, span)
    part = context.problem.for_width(span.rank)
    fits: list[Fit] = []
    for attempt in range(MOMENT_FIT_ATTEMPTS):
        with context.stage("decompose"):
            found = moment_fit(context, moments, random=attempt == MOMENT_FIT_ATTEMPTS - 1)
            network = network_of(context, found, span.basis)
        if not context.refine:
            yield Candidate(network, spectrum_evidence(span))
            return
        with context.stage("refine"):
            fits.append(part.refine(Parameters.of(as_absolute(network)), 30, 1e-3))
        if part.is_zero(fits[-1]):
            yield Candidate(fits[-1].parameters.network(ABS), spectrum_evidence(span))
            break
    best = min(fits, key=lambda fit: fit.rss)
    yield from searched(context, best.parameters.theta)


def _algorithm_6(context: Context) -> Iterator[Candidate]:
    """ATV21, Algorithm 6, on moments in all of the space."""
    moments, W, evidence = faithful_directions(context)
    if len(W) == 0:
        return
    a, b = recover_scalars(moments.symmetric, W)
    signs = fix_signs(moments.tensors[1], a, W)
    W, b = W * signs[:, None], b * signs
    c = moments.tensors[0] - a @ RELU.hermite(0, b)
    yield Candidate(Network(W, b, a, c), evidence)
