"""Inputs that a recovery can use: of finite size, none constant or a repetition of others."""

from __future__ import annotations

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray
from provenet.data.standardisation import LinearSums, dependent_columns
from provenet.estimators.tolerances import LARGEST_VALUE
from provenet.networks.network import Network


def check_size(X: AnyArray, y: AnyArray) -> None:
    """Raise for values that no fit can work with."""
    if max(float(np.abs(X).max()), float(np.abs(y).max())) > LARGEST_VALUE:
        raise InvalidInput(
            f"X or y holds values beyond {LARGEST_VALUE:.0e}, whose squares overflow: rescale them."
        )


def usable_columns(sums: LinearSums) -> AnyArray:
    """Numbers, rising, of inputs of which none is a linear combination of the others."""
    used = np.arange(len(sums.x))
    while len(used):  # constant columns are named first, dependent ones only without them
        part = LinearSums(
            sums.n, sums.x[used], sums.xx[np.ix_(used, used)], sums.y, sums.yy, sums.xy[..., used]
        )
        dependent = dependent_columns(part)
        if not dependent:
            break
        used = np.delete(used, dependent)
    return used


def on_all_columns(network: Network, used: AnyArray, features: int) -> Network:
    """The same network on all inputs: those that were not used have no weight."""
    if len(used) == features:
        return network
    weights = np.zeros((network.units, features))
    weights[:, used] = network.weights
    if network.linear is None:
        return network.replace(weights=weights)
    linear = np.zeros((*network.linear.shape[:-1], features))
    linear[..., used] = network.linear
    return network.replace(weights=weights, linear=linear)
