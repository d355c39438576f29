"""The certificate of a network that was read off a model's answers."""

from __future__ import annotations

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.certificate import (
    Certificate,
    closest_pair,
    condition_number,
    rarer_side,
    residual_kurtosis,
)
from provenet.certify.deep import switching_sides
from provenet.certify.traced import TracedCandidate
from provenet.common.typing import AnyArray
from provenet.data.sources import ArraySource
from provenet.fitting.residuals import rounding_level
from provenet.moments.hermite import check_gaussian
from provenet.networks.network import DeepNetwork, Network


def certificate_of(candidate: TracedCandidate) -> Certificate:
    """What was measured at fresh points."""
    network, fresh = candidate.network, candidate.fresh
    left = network(fresh.X) - fresh.y
    residual = float(np.sqrt(np.mean(left**2)))
    rounding = float(np.sqrt(np.mean(rounding_level(network, fresh.X) ** 2)))
    sizes = np.linalg.norm(network.affine_maps[-1][0], axis=0)
    one = network.layer(0) if network.layers == 1 else None
    layers = [network.layer(number) for number in range(network.layers)]
    return Certificate(
        residual=residual,
        relative_residual=residual / fresh.spread,
        rounding=rounding,
        noise=0.0,
        label_rounding=0.0,
        label_precision="",
        rounded=False,
        outputs=network.outputs or 1,
        samples_fitted=candidate.asked,
        distinct_inputs=candidate.asked + len(fresh),
        samples_held_out=len(fresh),
        samples_refitted=0,
        parameters=network.free_parameters,
        condition=max(map(condition_number, layers)),
        parameter_error_bound=np.inf if candidate.signs_are_open else candidate.error,
        undetermined=0,
        weakest_unit=int(np.argmin(sizes)) if one is not None and len(sizes) else None,
        weakest_margin=float(sizes.min() / max(residual, rounding, 1e-300)) if len(sizes) else 0.0,
        closest_pair=None if one is None else closest_pair(one, fresh.X),
        residual_kurtosis=residual_kurtosis(ArraySource(fresh.X, fresh.y), network),
        rarer_side=_rarer_side(network, fresh),
        width_evidence=candidate.lines,
        coverage=candidate.coverage,
        gaussian=check_gaussian(fresh.X),
    )


def _rarer_side(network: Network, fresh: Answered) -> AnyArray:
    if isinstance(network, DeepNetwork):
        return np.concatenate(switching_sides(network, fresh.X))
    return rarer_side(network, fresh.X)
