"""Hermite moments of a source's labels: known, or added up in one pass over its samples."""

from __future__ import annotations

from provenet.data.sources.base import Source
from provenet.data.standardisation import Standardisation
from provenet.moments.kept import moments_of_kept
from provenet.moments.population import population_moments
from provenet.moments.subspace import Span
from provenet.moments.sums import MomentRequest, Moments, sampled_moments


def estimate_moments(source: Source, request: MomentRequest) -> Moments:
    """The moments that are asked for, without sampling error where the population is known."""
    if source.population is not None:
        return population_moments(source.population, request)
    if source.biased:
        return moments_of_kept(source, request)
    return sampled_moments(source, request)


def moments_in_span(source: Source, standardisation: Standardisation, span: Span) -> Moments:
    """Orders up to 4 inside the span of the units, what order 2 explains taken off the labels."""
    request = MomentRequest(standardisation, 4, span.basis, span.quadratic)
    return estimate_moments(source, request)
