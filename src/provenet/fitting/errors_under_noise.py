"""Standard errors under noise: linearised, unless what is left or the refits speak against that."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.bent_errors import may_be_bent, widened
from provenet.fitting.covariance import StandardErrors
from provenet.fitting.refit import scale_outputs
from provenet.fitting.serial_noise import serial_factor
from provenet.fitting.tolerances import TOLD_WIDER
from provenet.fitting.uneven_noise import is_uneven, uneven_errors
from provenet.fitting.workspace import Workspace
from provenet.networks.network import Network


@dataclass(frozen=True)
class ErrorsUnderNoise:
    """Standard errors of outputs over their scale, and what is to be said of them."""

    errors: StandardErrors
    warnings: tuple[str, ...] = ()
    uneven: bool = False
    """Whether the size of the noise depends on the inputs."""


def errors_under_noise(
    workspace: Workspace, network: Network, scale: Array, linearised: StandardErrors
) -> ErrorsUnderNoise:
    """For a least-squares network on standardised inputs, its outputs divided by `scale`."""
    drawn = workspace.drawn
    samples = ArraySource(drawn.X, drawn.y / scale)
    scaled = scale_outputs(network, 1 / scale)
    uneven = _for_uneven_noise(workspace, samples, scaled)
    found = _for_serial_noise(workspace, network, uneven or ErrorsUnderNoise(linearised))
    if samples.size < workspace.source.size:  # the last fit had more, so errors are smaller
        return found
    return _for_a_bent_model(workspace, samples, scaled, found)


def _for_uneven_noise(
    workspace: Workspace, samples: ArraySource, network: Network
) -> ErrorsUnderNoise | None:
    if not is_uneven(samples, network):
        return None
    errors = uneven_errors(samples, network, workspace.standardisation)
    if errors is None:
        return None
    share = float(np.sqrt(samples.size / max(workspace.source.size, samples.size)))
    told = (
        "The noise is not of the same size everywhere; standard errors take that into account "
        "(White 1980)."
    )
    return ErrorsUnderNoise(errors.times(share), (told,), uneven=True)


def _for_serial_noise(
    workspace: Workspace, network: Network, found: ErrorsUnderNoise
) -> ErrorsUnderNoise:
    user = workspace.standardisation.network_to_user(network)
    factor = serial_factor(workspace.source, user)
    if factor == 1.0:
        return found
    told = (
        "The noise of a sample is like that of the one before; standard errors are widened by "
        f"{factor:.1f}, which the output bias needs most."
    )
    return replace(found, errors=found.errors.times(factor), warnings=(*found.warnings, told))


def _for_a_bent_model(
    workspace: Workspace, samples: ArraySource, network: Network, found: ErrorsUnderNoise
) -> ErrorsUnderNoise:
    user = workspace.standardisation.network_to_user(network).normalised()
    if not may_be_bent(user, found.errors):
        return found
    wider = widened(samples, network, workspace.standardisation, found.errors, workspace.rng)
    if wider is None:
        return found
    warnings = found.warnings
    if wider.units.max() > TOLD_WIDER:
        told = np.flatnonzero(wider.units > TOLD_WIDER).tolist()
        warnings += (
            f"Linearised errors of units {told} are too small: refits of labels made anew from the "
            f"answer scatter up to {wider.units.max():.1f} times as far. Standard errors are "
            "widened by that.",
        )
    return replace(found, errors=wider.errors, warnings=warnings)
