"""From a layer that was found to a candidate: on the user's inputs, with what it says of labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from provenet.certify.layer import LayerCandidate
from provenet.certify.statements import Predicts
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.lowest_layer.fit import LayerFit
from provenet.lowest_layer.tolerances import AT_THE_NOISE, AT_THE_ROUNDING
from provenet.lowest_layer.user_layer import on_user_inputs
from provenet.networks.layered import LayeredNetwork, Polynomial

Notes = Callable[[LayeredNetwork], tuple[str, ...]]

_AMBIGUITIES = {
    "exp": "Thresholds of exponential units are factors in the top, and are set to 0.",
    "sigmoid": "A sigmoid unit and one less its mirror image are the same: thresholds are taken "
    "to be at least 0.",
}


def from_fit(
    context: Context,
    fit: LayerFit,
    notes: Notes = lambda network: (),
    ambiguities: tuple[str, ...] = (),
    *,
    standardised: bool = True,
) -> LayerCandidate:
    """A layer and its polynomial, which predict every label.

    `notes` says what else there is to say of the network; `standardised`, whether it was fitted on
    standardised inputs.
    """
    standardisation = context.standardisation if standardised else None
    user = on_user_inputs(fit.network, standardisation, fit.angle_errors, fit.threshold_errors)
    family = user.network.layer.activation.family
    own = (_AMBIGUITIES[family],) if family in _AMBIGUITIES else ()
    return LayerCandidate(
        network=user.units,
        what=f"{counted(user.network.units, 'unit')} and the polynomial above",
        angle_errors=user.angle_errors,
        threshold_errors=user.threshold_errors,
        samples=np.full(user.network.units, fit.samples),
        way="least squares for the layer and a polynomial above it",
        statement=Predicts(user.network),
        layered=user.network,
        determined=fit.determined,
        parameters=parameters_of(fit.network),
        notes=notes(user.network),
        ambiguities=(*own, *ambiguities),
    )


def parameters_of(network: LayeredNetwork) -> int:
    """How many there are in units and polynomial."""
    terms = len(network.top.terms) if isinstance(network.top, Polynomial) else 0
    return network.units * (network.features + 1) + terms


def may_explain(context: Context, fit: LayerFit) -> bool:
    """Whether a fit leaves rounding, or the noise given, of the labels that it was fitted to.

    One that leaves more is a bad minimum, and not worth a judge.
    """
    rounding = AT_THE_ROUNDING * context.problem.label_rounding
    noise = AT_THE_NOISE * (context.noise or 0.0)
    return fit.explains or fit.residual <= max(rounding, noise)
