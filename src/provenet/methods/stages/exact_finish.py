"""The exact finish: from approximate directions to the network itself, without iteration.

BJW19, Algorithm 5 and steps 4 to 8 of Algorithm 3; its V* is our W, its U* our A, its A our Y
transposed. Labels without noise are `y = A h + c`, and with independent columns of A there is one
vector u_i, up to scale, for which `u_i.y + const` vanishes on every sample where unit i is off: it
is `h_i`. An approximate direction says, up to sign, where the unit surely is off; the null vector
is one singular value decomposition, only one of the two signs has one, and where `h_i > 0` the
unit's weights and bias solve a linear system. A ratio of singular values decides what is a null
vector (ERRATA, BJW19 11).

With noise, signs come from regression instead (Algorithm 6, `signs_by_projection`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.data.sources import Source
from provenet.fitting.linear import (
    fit_linear_part,
    linear_part,
    with_output_layer,
    without_each_unit,
)
from provenet.fitting.model import Parameters
from provenet.networks.activations import RELU, Activation
from provenet.networks.network import Network


def exact_finish(
    X: Array,
    Y: Array,
    W: Array,
    b: Array | None = None,
    activation: Activation = RELU,
    most: int = 20_000,
) -> Network:
    """From approximate directions (rows of W, up to sign) and biases to the exact network.

    `activation` must be rectified: zero below zero, and with an inverse above. At most so many
    samples are used: many times what linear systems without noise need. Raises `NoAnswer` when a
    unit has no null vector with either sign.
    """
    X, Y = X[:most], Y[:most].reshape(min(len(Y), most), -1)
    H = _label_coordinates(Y, len(W))
    side = X @ W.T + (0.0 if b is None else b)
    inputs = np.column_stack([X, np.ones(len(X))])
    theta = np.array([_unit_behind(inputs, _unit_values(H, z), activation) for z in side.T])
    return with_output_layer(X, Y, theta[:, :-1], theta[:, -1], activation)


def _label_coordinates(Y: Array, rank: int) -> Array:
    """The labels in their `rank` principal coordinates, of spread 1, and a constant."""
    centred = Y - Y.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    if len(sizes) < rank or sizes[rank - 1] <= 1e-10 * sizes[0]:
        raise NoAnswer(
            f"The labels have rank {int(np.sum(sizes > 1e-10 * sizes[0]))}, fewer than {rank} "
            "units: some units have dependent output weights, or there are too few outputs. Use "
            'method="expand-prune", or "rank-deficient".'
        )
    return np.column_stack([left[:, :rank] * np.sqrt(len(Y)), np.ones(len(Y))])


def _unit_values(H: Array, z: Array) -> Array:
    """A positive multiple of the unit's values, from where it surely is off (Algorithm 5, 2-4).

    Margins rise: far from the kink an error of the direction does no harm, but too far other units
    are off as well and have null vectors too. Values that are on where the unit is decide. A ratio
    of singular values below 1e-7 is a null vector's; true ones reach 1e-14.
    """
    smallest, best, values = np.inf, np.inf, np.empty(0)
    for off, on in _sides(z, 2 * H.shape[1]):
        vector, ratio = _null_vector(H[off])
        smallest = min(smallest, ratio)
        h = H @ vector
        h *= np.sign(h.sum())
        if ratio < min(1e-7, best) and np.mean(_is_on(h)[on]) > 0.9:
            best, values = ratio, h
        if best < 1e-12:
            break
    if best < np.inf:
        return values
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


def _is_on(h: Array) -> AnyArray:
    """Where a unit's values are not zero to rounding."""
    return np.asarray(h > 1e-6 * h.max())


def _sides(
    z: Array, fewest: int, margins: Sequence[float] = (0.05, 0.15, 0.3, 0.5, 0.7)
) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Samples on one side of the kink, those nearest to it left out, and the other side's.

    Margins are quantiles of the distance from the kink.
    """
    for margin in margins:
        for side in (z, -z):
            far, other = (np.sort(s[s > 0]) for s in (side, -side))
            start = int(margin * len(far))
            if len(far) - start >= fewest and len(other):
                opposite = np.flatnonzero(-side >= other[int(margin * len(other))])
                yield np.flatnonzero(side >= far[start]), opposite


def _null_vector(H: Array) -> tuple[Array, float]:
    """The vector nearest to a null vector, and the ratio of the two smallest singular values.

    A ratio that the normal equations, good to 1e-7, show to be no zero is not computed to the last
    digits. Where another unit is off on all of these samples too there are two null vectors, and
    the ratio of two roundings says nothing: it is infinite here.
    """
    values, vectors = np.linalg.eigh(H.T @ H)
    rough = float(np.sqrt(max(values[0], 0.0) / max(values[1], np.finfo(float).tiny)))
    if rough > 1e-5:
        return vectors[:, 0], rough
    _, sizes, rows = np.linalg.svd(H, full_matrices=False)
    if sizes[-2] <= 1e-10 * sizes[0]:
        return rows[-1], np.inf
    return rows[-1], float(sizes[-1] / sizes[-2])


def _unit_behind(inputs: Array, h: Array, activation: Activation) -> Array:
    """Weights and bias with `activation(w.x + b)` proportional to h, from samples that are on."""
    on = _is_on(h)
    rows, values = inputs[on], h[on]
    if len(values) < inputs.shape[1]:
        raise NoAnswer(
            f"A unit is on in {len(values)} samples, fewer than its {inputs.shape[1]} weights and "
            "bias: take more samples."
        )
    assert activation.inverse is not None
    if activation.degree is None:
        return _unit_of_unknown_scale(rows, values, activation, activation.inverse)
    return np.asarray(np.linalg.lstsq(rows, activation.inverse(values), rcond=None)[0])


def _unit_of_unknown_scale(
    rows: Array, values: Array, activation: Activation, inverse: Callable[[Array], Array]
) -> Array:
    """The same where scales do not commute with the activation: `activation(rows theta) = s h`.

    s is the scale on a grid at which `inverse(s h)` is most nearly linear in the inputs, then
    Gauss-Newton steps in (theta, log s). Values that overflow explain nothing.
    """
    best, log_scale, theta = np.inf, 0.0, np.zeros(rows.shape[1])
    for trial in np.linspace(-6, 6, 49) - np.log(np.median(values)):
        with np.errstate(all="ignore"):
            z = np.asarray(inverse(values * np.exp(trial)), dtype=float)
            size = np.linalg.norm(z)
        if not 0 < size < np.inf:
            continue
        found = np.linalg.lstsq(rows, z, rcond=None)[0]
        misfit = float(np.linalg.norm(rows @ found - z) / size)
        if misfit < best:
            best, log_scale, theta = misfit, float(trial), found
    for _ in range(8):  # each doubles the digits
        scaled, z = values * np.exp(log_scale), rows @ theta
        system = np.column_stack([activation.derivative(z)[:, None] * rows, -scaled])
        if not np.all(np.isfinite(system)):
            break
        step = np.linalg.lstsq(system, scaled - activation(z), rcond=None)[0]
        theta, log_scale = theta + step[:-1], log_scale + float(step[-1])
    return theta


def signs_by_projection(source: Source, W: Array, b: Array, activation: Activation = RELU) -> Array:
    """BJW19, Algorithm 6: for each unit, the sign without which the labels are explained worse.

    All `relu(z_j), relu(-z_j)` are regressors (of another rectified activation alike); the paper's
    `a_i^+ - a_i^-` is the difference of what the residual sum of squares gains without
    `relu(-z_i)` and without `relu(z_i)`.
    """
    both = Parameters(
        np.column_stack([np.vstack([W, -W]), np.append(b, -b)]),
        np.zeros((2 * len(W) + 1, *source.label_shape)),
    )
    fitted, _ = fit_linear_part(source, both, activation)
    loss = without_each_unit(linear_part(source, fitted, activation), fitted)
    return np.where(loss[len(W) :] > loss[: len(W)], -1.0, 1.0)
