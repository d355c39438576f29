"""Step 1 for a lowest layer: directions from moments in one pass, and their errors (GP19, 2.1).

`faithful=True` minimises the paper's objective, `objective="one-by-one"` (section 2.1, the default)
or `"simultaneous"` (appendix B.4); otherwise the decomposition of the main job is used, unless an
objective is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.lowest_layer.direction_errors import sampling_angles
from provenet.lowest_layer.directions import (
    Directions,
    angle_errors,
    directions,
    hermite_coefficients,
    layer_span,
    sensitivity,
)
from provenet.moments.hermite import MomentRequest, Moments, estimate_moments
from provenet.networks.activations import Activation


@dataclass(frozen=True)
class StepOne:
    """Units on standardised inputs, as moments have them."""

    units: Directions
    angle_errors: Array
    """Radians, one standard error, by sampling; products of units may turn them further."""
    inside: Array
    """Their directions in the coordinates of `moments`."""
    moments: Moments
    """Those inside the span of the units."""


def step_one(context: Context, activation: Activation, size: float = 1.0) -> StepOne:
    """Directions of units whose labels are `size` times those of the layer."""
    source, t, way = context.source, context.options.threshold, _way(context)
    span = layer_span(context)
    with context.stage("moments", f"orders 3 and 4 in {counted(span.rank, 'dimension')}"):
        request = MomentRequest(context.standardisation, 4, span.basis, span.quadratic)
        found = estimate_moments(source, request)
        moments = _over(found, size)
    with context.stage("decompose"):
        inside = directions(moments, activation, t, context.rng, way)
        W = inside.weights
        if way == "decomposition":
            errors = angle_errors(moments, W)
        else:
            at = sensitivity(moments, activation, t, W, way)
            products = at.turned_by_products(moments, hermite_coefficients(activation, t))
            at = replace(at, u=(at.u[0] * size, at.u[1] * size))
            errors = sampling_angles(source, context.standardisation, span, at)
            errors = np.minimum(np.hypot(errors, products), np.pi / 2)
    units = Directions(W @ span.basis, inside.thresholds)
    return StepOne(units, errors, W, moments)


def _way(context: Context) -> str:
    if context.options.objective != "auto":
        return context.options.objective
    return "one-by-one" if context.faithful else "decomposition"


def _over(moments: Moments, size: float) -> Moments:
    """Moments of labels over `size`; complemented where it is negative."""
    return replace(
        moments,
        symmetric=tuple(replace(T, entries=T.entries / size) for T in moments.symmetric),
        errors=tuple(error / abs(size) for error in moments.errors),
    )
