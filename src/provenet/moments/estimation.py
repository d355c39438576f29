"""Hermite moments of a source's labels: known, or added up in one pass over its samples."""

from __future__ import annotations

from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation
from provenet.moments.kept import moments_of_kept, shares_of_kept
from provenet.moments.population import population_moments
from provenet.moments.subspace import Span
from provenet.moments.sums import MomentRequest, Moments, Shares, sampled_moments


def estimate_moments(source: Source, request: MomentRequest) -> Moments:
    """The moments that are asked for, without sampling error where the population is known."""
    if source.population is not None:
        return population_moments(source.population, request)
    if source.biased:
        return moments_of_kept(source, request)
    return sampled_moments(source, request)


def shares(source: Source, request: MomentRequest) -> Shares:
    """Each sample's own share in the moment of the highest order, as `estimate_moments` has it."""
    return shares_of_kept(source, request) if source.biased else request.residual


def moments_in_span(source: Source, standardisation: Standardisation, span: Span) -> Moments:
    """Orders up to 4 inside the span of the units, what order 2 explains taken off the labels."""
    return estimate_moments(source, request_in_span(standardisation, span))


def request_in_span(standardisation: Standardisation, span: Span) -> MomentRequest:
    """For what `moments_in_span` gives."""
    return MomentRequest(standardisation, 4, span.basis, span.quadratic)
