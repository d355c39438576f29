"""Hermite moments of a source's labels: known, or added up in one pass over its samples."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources.base import LARGEST_BLOCK, Source
from provenet.data.standardisation import Standardisation
from provenet.data.tolerances import ROWS_AT_ONCE
from provenet.moments.population import population_moments
from provenet.moments.subspace import Span
from provenet.moments.sums import MomentRequest, Moments, MomentSums

_MANY_FEATURES = 128
"""Up to so many the factors of a large block fit into the cache."""


def estimate_moments(source: Source, request: MomentRequest) -> Moments:
    """The moments that are asked for, without sampling error where the population is known."""
    if source.population is not None:
        return population_moments(source.population, request)
    if source.kept_by_labels:
        return _of_kept_inputs(source, request)
    return sampled_moments(source, request)


def moments_in_span(source: Source, standardisation: Standardisation, span: Span) -> Moments:
    """Orders up to 4 inside the span of the units, what order 2 explains taken off the labels."""
    request = MomentRequest(standardisation, 4, span.basis, span.quadratic)
    return estimate_moments(source, request)


def sampled_moments(source: Source, request: MomentRequest) -> Moments:
    """The moments of the samples, in one pass."""
    rows = LARGEST_BLOCK if source.features <= _MANY_FEATURES else ROWS_AT_ONCE
    return source.total(partial(MomentSums.of, request), rows).finish(request)


def _of_kept_inputs(source: Source, request: MomentRequest) -> Moments:
    """Moments of the labels over their mean, from inputs kept by their labels (GP19, B.6).

    Without control variates: under this distribution Hermite polynomials are not orthogonal.
    """
    found = sampled_moments(source, replace(request, quadratic=None))
    mean = source.total(_inputs) / source.size
    first = mean if request.basis is None else mean @ request.basis.T
    return replace(found, tensors=(np.ones(()), first, *found.tensors[2:]))


def _inputs(X: Array, y: Array) -> Array:
    return np.asarray(X.sum(axis=0))
