"""Is the residual of a network noise? Outliers, labels that end at a limit, the score test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from provenet.certify.checks import Check, Status
from provenet.certify.cut_off import ends_like_noise
from provenet.certify.score import features_of, score_test
from provenet.common.typing import TINY, Array
from provenet.fitting.context import Context
from provenet.fitting.losses import SQUARES
from provenet.fitting.model import Parameters
from provenet.fitting.residuals import outlier_ratio
from provenet.networks.network import Network

RESIDUAL_IS_NOISE = "the residual is noise"
"""The name of a check: where it fails there is more to be found."""


def noise_checks(context: Context, own: Network, found: str) -> Iterator[Check]:
    """Of a network on standardised inputs; `found` begins the advice."""
    drawn = context.drawn
    predicted = own(drawn.X)
    yield no_outliers(drawn.y - predicted, found)
    yield ends_like_noise(drawn.y, predicted, found)
    yield residual_is_noise(context, own, found)


def no_outliers(residual: Array, found: str, most: float = 100.0) -> Check:
    """Are all samples explained about as well as the median?"""
    ratio = outlier_ratio(residual)
    return Check(
        "no outliers",
        ratio <= most,
        f"the largest residual is {ratio:.3g} times the median",
        f"at most {most:g}",
        f"{found}, but most are explained far better than a few: these may be outliers, or two "
        "units close to each other that were taken for one. Look at the largest residuals.",
        Status.PARTIAL,
        len(residual),
    )


def residual_is_noise(
    context: Context, own: Network, found: str, level: float = 0.01, most: int = 10_000
) -> Check:
    """The score test; outputs are weighted by their noise.

    On at most so many samples, and on fewer where derivatives or features would take seconds.
    """
    loss, drawn = context.problem.loss, context.drawn
    parameters, spread = Parameters.of(own), np.ones(())
    derivatives = len(parameters.ravel()) * (own.outputs or 1)
    most = int(min(most, 5e8 / derivatives, 4e6 / own.features))
    X, y = drawn.X[:most], drawn.y[:most]
    if loss is SQUARES:
        spread = np.maximum(np.std(y - own(X), axis=0), TINY)
        parameters, y = replace(parameters, beta=parameters.beta / spread), y / spread
    rng = np.random.default_rng(0)
    features = features_of(own, X, rng)
    tested = score_test(parameters, own.activation, X, y, features, rng, level, loss=loss)
    limit = tested.detection_limit * float(np.sqrt(np.mean(spread**2)))
    return Check(
        RESIDUAL_IS_NOISE,
        tested.p_value >= level,
        f"adjusted p = {tested.p_value:.2g} of {tested.tested} features",
        f"at least {level:g}; departures of {limit:.2g} would be found",
        f"{found}, but {tested.feature} explains part of the residual (adjusted p = "
        f"{tested.p_value:.1g}): the labels come from more units, or not from such a network. Take "
        "more samples, or name another activation.",
        Status.PARTIAL,
        len(X),
    )
