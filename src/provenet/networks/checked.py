"""What networks are made of, and what they are given, checked: one sentence for what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array


def checked_array(value: Any, name: str, ndims: tuple[int, ...]) -> Array:
    """A read-only copy, of finite numbers in one of these numbers of dimensions."""
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The network's {name} must be numbers: {error}.") from None
    check(
        array.ndim in ndims,
        f"{name} must have {' or '.join(map(str, ndims))} dimensions, not {array.ndim}",
    )
    check(bool(np.isfinite(array).all()), f"{name} must be finite")
    array.flags.writeable = False
    return array


def check(condition: bool, problem: str) -> None:
    """Raise unless this holds of a network."""
    if not condition:
        raise InvalidInput(f"The network's {problem}.")


def checked_rows(X: Any, features: int) -> AnyArray:
    """Inputs of a network, one a row, of whatever type they are."""
    inputs = np.asarray(X)
    if inputs.ndim != 2 or inputs.shape[1] != features:
        raise InvalidInput(
            f"X must have shape (n, {features}) for this network, not {inputs.shape}."
        )
    return inputs


def check_layer(number: int, layers: int) -> None:
    """Raise unless there is a hidden layer of that number, counted from 0."""
    if not 0 <= number < layers:
        raise InvalidInput(
            f"The network has no hidden layer {number}: they are numbered from 0 to {layers - 1}."
        )
