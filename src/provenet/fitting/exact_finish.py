"""The exact finish: from approximate directions to the network itself, without iteration.

BJW19, Algorithm 5 and steps 4 to 8 of Algorithm 3; its V* is our W, its U* our A, its A our Y
transposed. Labels without noise are `y = A h + c`, and with independent columns of A there is one
vector u_i, up to scale, for which `u_i.y + const` vanishes on every sample where unit i is off: it
is `h_i`. An approximate direction says, up to sign, where the unit surely is off; the null vector
is one singular value decomposition, only one of the two signs has one, and where `h_i > 0` the
unit's weights and bias solve a linear system. A ratio of singular values decides what is a null
vector (ERRATA, BJW19 11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import TINY, AnyArray, Array
from provenet.fitting.output_layer import with_output_layer
from provenet.fitting.tolerances import (
    FINISH_ROWS,
    LABEL_RANK,
    MOSTLY,
    NOT_NULL,
    NULL,
    POSITIVE,
    SCALE_ACCURACY,
    SCALE_GRID,
    SCALE_REACH,
    SCALE_STEPS,
    SURELY_NULL,
    SURELY_OFF,
)
from provenet.networks.activations import RELU, Activation
from provenet.networks.network import Network

Inverse = Callable[[Array], Array]


@dataclass(frozen=True)
class Finish:
    """A network found by linear solves alone."""

    network: Network
    margins: Array
    """For each unit, how far from zero the ratio of singular values was: small is sure."""


def exact_finish(
    X: Array, Y: Array, W: Array, b: Array | None = None, activation: Activation = RELU
) -> Finish:
    """From approximate directions (rows of W, up to sign) and biases to the exact network.

    `activation` must be rectified: zero below zero, and with an inverse above. Raises `NoAnswer`
    when a unit has no null vector with either sign.
    """
    X, Y = X[:FINISH_ROWS], Y[:FINISH_ROWS].reshape(min(len(Y), FINISH_ROWS), -1)
    H = _label_coordinates(Y, len(W))
    side = X @ W.T + (0.0 if b is None else b)
    inputs = np.column_stack([X, np.ones(len(X))])
    theta, margins = np.empty((len(W), inputs.shape[1])), np.empty(len(W))
    for i, z in enumerate(side.T):
        h, margins[i] = _unit_values(H, z)
        theta[i] = _unit_behind(inputs, h, activation)
    return Finish(with_output_layer(X, Y, theta[:, :-1], theta[:, -1], activation), margins)


def _label_coordinates(Y: Array, rank: int) -> Array:
    """The labels in their `rank` principal coordinates, of spread 1, and a constant."""
    centred = Y - Y.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    if len(sizes) < rank or sizes[rank - 1] <= LABEL_RANK * sizes[0]:
        raise NoAnswer(
            f"The labels have rank {int(np.sum(sizes > LABEL_RANK * sizes[0]))}, fewer than {rank} "
            "units: some units have dependent output weights, or there are too few outputs. Use "
            'method="expand-prune", or "rank-deficient".'
        )
    return np.column_stack([left[:, :rank] * np.sqrt(len(Y)), np.ones(len(Y))])


def _unit_values(H: Array, z: Array) -> tuple[Array, float]:
    """A positive multiple of the unit's values, from where it surely is off (Algorithm 5, 2-4).

    Margins rise: far from the kink an error of the direction does no harm, but too far other units
    are off as well and have null vectors too. Values that are on where the unit is decide.
    """
    smallest, best = np.inf, (np.empty(0), np.inf)
    for off, on in _sides(z, 2 * H.shape[1]):
        vector, ratio = _null_vector(H[off])
        smallest = min(smallest, ratio)
        h = H @ vector
        h *= np.sign(h.sum())
        if ratio < min(NULL, best[1]) and np.mean(h[on] > POSITIVE * h.max()) > MOSTLY:
            best = h, ratio
        if best[1] < SURELY_NULL:
            break
    if best[1] < np.inf:
        return best
    if smallest == np.inf:
        raise NoAnswer(
            "A unit is off on too few samples for the exact finish: take more samples, or use "
            'method="expand-prune".'
        )
    raise NoAnswer(
        "For one of the units no combination of the labels vanishes where it is off (ratio of "
        f"singular values {smallest:.0e}): its direction is too far off, the labels have noise, "
        'or output weights are dependent. Take more samples, or use method="expand-prune".'
    )


def _sides(z: Array, fewest: int) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Samples on one side of the kink, those nearest to it left out, and the other side's."""
    for margin in SURELY_OFF:
        for side in (z, -z):
            far, other = (np.sort(s[s > 0]) for s in (side, -side))
            start = int(margin * len(far))
            if len(far) - start >= fewest and len(other):
                opposite = np.flatnonzero(-side >= other[int(margin * len(other))])
                yield np.flatnonzero(side >= far[start]), opposite


def _null_vector(H: Array) -> tuple[Array, float]:
    """The vector nearest to a null vector, and the ratio of the two smallest singular values.

    A ratio that the normal equations show to be no zero is not computed to the last digits. Where
    another unit is off on all of these samples too there are two null vectors, and none is told
    from the other: the ratio of two roundings says nothing, and is infinite here.
    """
    values, vectors = np.linalg.eigh(H.T @ H)
    rough = float(np.sqrt(max(values[0], 0.0) / max(values[1], TINY)))
    if rough > NOT_NULL:
        return vectors[:, 0], rough
    _, sizes, rows = np.linalg.svd(H, full_matrices=False)
    if sizes[-2] <= LABEL_RANK * sizes[0]:
        return rows[-1], np.inf
    return rows[-1], float(sizes[-1] / sizes[-2])


def _unit_behind(inputs: Array, h: Array, activation: Activation) -> Array:
    """Weights and bias with `activation(w.x + b)` proportional to h, from samples that are on."""
    on = h > POSITIVE * h.max()
    rows, values = inputs[on], h[on]
    if len(values) < inputs.shape[1]:
        raise NoAnswer(
            f"A unit is on in {len(values)} samples, fewer than its {inputs.shape[1]} weights and "
            "bias: take more samples."
        )
    assert activation.inverse is not None
    if activation.degree is not None:
        return np.asarray(np.linalg.lstsq(rows, activation.inverse(values), rcond=None)[0])
    log_scale, theta = _unit_of_unknown_scale(rows, values, activation.inverse)
    return _sharpened(rows, values, activation, log_scale, theta)


def _sharpened(
    rows: Array, values: Array, activation: Activation, log_scale: float, theta: Array
) -> Array:
    """Gauss-Newton steps of `activation(rows theta) = scale values`: the last digits of the scale.

    The misfit is flat at its minimum, which shows half of them only.
    """
    for _ in range(SCALE_STEPS):
        scaled, z = values * np.exp(log_scale), rows @ theta
        slopes = activation.derivative(z)[:, None] * rows
        system = np.column_stack([slopes, -scaled])
        if not np.all(np.isfinite(system)):
            break
        step = np.linalg.lstsq(system, scaled - activation(z), rcond=None)[0]
        theta, log_scale = theta + step[:-1], log_scale + float(step[-1])
    return theta


def _unit_of_unknown_scale(rows: Array, values: Array, inverse: Inverse) -> tuple[float, Array]:
    """The same when scales do not commute with the activation: the scale makes `inverse` linear.

    A scale at which values overflow, or leave what the activation reaches, explains nothing of
    them: the misfit is 1, the largest that least squares leave.
    """

    def solve(log_scale: float) -> tuple[Array, float]:
        with np.errstate(all="ignore"):
            z = np.asarray(inverse(values * np.exp(log_scale)), dtype=float)
            size = np.linalg.norm(z)
        if not 0 < size < np.inf:
            return np.zeros(rows.shape[1]), 1.0
        theta, *_ = np.linalg.lstsq(rows, z, rcond=None)
        return np.asarray(theta, float), float(np.linalg.norm(rows @ theta - z) / size)

    middle = -np.log(np.median(values))
    grid = middle + np.linspace(-SCALE_REACH, SCALE_REACH, SCALE_GRID)
    i = int(np.argmin([solve(s)[1] for s in grid]))
    around = (grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)])
    found = minimize_scalar(
        lambda s: solve(s)[1], bounds=around, method="bounded", options={"xatol": SCALE_ACCURACY}
    )
    if not found.success:
        raise NoAnswer("The scale of a unit could not be found: take more samples.")
    return float(found.x), solve(float(found.x))[0]
