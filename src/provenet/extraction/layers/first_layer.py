"""The first layer's rows from all gradients that were measured along the inputs' axes.

Where the network is known nearly, so is how its outputs depend on what goes into the first layer's
units, `M_k` at place k (outputs by units), and every gradient is `G_k = M_k W`: linear in the rows
W, one small least-squares problem for all columns,

    minimise  sum_k |G_k - M_k W|^2 / sigma_k^2,    C = (sum_k M_k^T M_k / sigma_k^2)^-1,

with sigma_k the rounding of an answer over the step. If M is off, W is so by combinations of the
true rows: their space is as good as the gradients, and in it the rows are polished (`polish`).
Where C leaves a unit known too poorly, further gradients are measured: a place with coefficients M
and error sigma lowers the variance of unit i by `(C M^T)_i^2 / (M C M^T + sigma^2)`, and steps
along an axis may go as far as no unit switches.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.layers.known import AxisGradient, Frame, OutsideTheBox
from provenet.extraction.layers.pieces import axis_gradient
from provenet.extraction.layers.tolerances import (
    AXIS_STEP,
    GRADIENT_OFF,
    LEVEL_MARGIN,
    LONGEST_AXIS_STEP,
    PLACES_FOR_GRADIENTS,
    POLISHED_WELL,
    ROUGH_PRIOR,
    SCALES,
    SPARE_GRADIENTS,
    SPOILT,
    WORTH_A_GRADIENT,
)
from provenet.extraction.tolerances import ROUNDING, TINIEST, TYPICAL_ERROR
from provenet.networks.network import DeepNetwork
from provenet.networks.piecewise import inputs_of_units, slopes


@dataclass(frozen=True)
class FirstLayer:
    """Rows by inputs, and the standard error of each, as a whole."""

    W: Array
    errors: Array
    covariance: Array
    """Of an entry of each unit with those of the others."""
    level: float
    """What gradients are off by, at most, beside what rounding was taken to make of them."""


def rows_from_gradients(frame: Frame, network: DeepNetwork) -> FirstLayer:
    """The rows that explain all gradients best; the network by inputs, nearly right.

    One that was measured over a kink may be near enough not to be refuted, and spoils all rows. It
    shows where gradients are to spare: it is left out.
    """
    found = [one for one in (_equations(network, g) for g in frame.gradients) if one]
    first, left, spare = _explaining(found, network)
    while first.level > SPOILT and spare >= SPARE_GRADIENTS + len(left[0]):
        del found[int(np.argmax([np.mean(one**2) for one in left]))]
        first, left, spare = _explaining(found, network)
    return first


def _explaining(
    found: Sequence[tuple[Array, Array]], network: DeepNetwork
) -> tuple[FirstLayer, list[Array], float]:
    """The rows that explain gradients best, what is left of each, and how many are to spare."""
    units, d = network.widths[0], network.features
    M = np.vstack([np.empty((0, units)), *(one[0] for one in found)])
    G = np.vstack([np.empty((0, d)), *(one[1] for one in found)])
    W = network.weights[0]
    # From where the rows are: what no gradient tells stays.
    _, size, V = np.linalg.svd(np.vstack([M, np.eye(units) / ROUGH_PRIOR]), full_matrices=False)
    C = (V.T / size**2) @ V
    left = G - M @ W
    W = W + C @ (M.T @ left)
    # In the rows' space what is left is what M is off by; across it, what rounding makes.
    left = G - M @ W
    Q = np.linalg.qr(W.T)[0]
    left -= (left @ Q) @ Q.T
    spare = len(M) - float(np.sum((M @ C) * M))
    level = _level(left, spare, d - units)
    errors = level * np.sqrt(d * np.diag(C)) / np.maximum(np.linalg.norm(W, axis=1), TINIEST)
    ends = np.cumsum([len(one[0]) for one in found])[:-1]
    return FirstLayer(W, errors, C, level), np.split(left, ends), spare


def _level(left: Array, spare: float, across: int) -> float:
    """By what is left of gradients in so many directions across the rows' space.

    Without some gradients to spare nothing is left, whatever rounding made.
    """
    level = float(np.sqrt(np.sum(left**2) / (max(1.0, spare) * across)))
    return max(1.0, level) if spare < SPARE_GRADIENTS else LEVEL_MARGIN * level


def _equations(network: DeepNetwork, measured: AxisGradient) -> tuple[Array, Array] | None:
    """M and G of a gradient over its error; None where the network says something else.

    Where all is zero, answers have no error and tell nothing.
    """
    M = _coefficients(network, measured.x[None])[0]
    off = np.abs(measured.along - M @ network.weights[0]).max()
    if off > GRADIENT_OFF * np.abs(measured.along).max():
        return None
    error = measured.error
    return (M / error, measured.along / error) if error > 0 else None


def _coefficients(network: DeepNetwork, X: Array) -> Array:
    """Of the outputs by what goes into the first layer: (n, outputs, units)."""
    z = inputs_of_units(network, X)
    return np.asarray(slopes(network, z)[0] * (z[0] > 0)[:, None, :])


def ask_for_rows(
    frame: Frame,
    network: DeepNetwork,
    first: FirstLayer,
    wanted: float,
    rng: np.random.Generator,
) -> bool:
    """Further gradients for the units that are known worst, while places promise something.

    They end where every row is known to a standard error that is `wanted`.
    """
    C, d, asked = first.level**2 * first.covariance, network.features, False
    X = np.vstack([s * rng.standard_normal((PLACES_FOR_GRADIENTS, d)) for s in SCALES]) + frame.base
    X = X[frame.box.contains(X)] if not frame.box.unlimited else X
    M, errors = _coefficients(network, X), first.level * _errors(network, X)
    for _ in range(2 * len(C)):
        frame.check_time()
        worst = int(np.argmax(np.diag(C)))
        if d * C[worst, worst] <= (POLISHED_WELL * wanted) ** 2:
            break
        moved = M @ C
        noise = np.einsum("koi,koi->ko", moved, M) + errors[:, None] ** 2
        gain = (moved[:, :, worst] ** 2 / noise).sum(axis=1)
        best = int(np.argmax(gain))
        if gain[best] < WORTH_A_GRADIENT * C[worst, worst]:
            break
        told = moved[best]
        noise_of = told @ M[best].T + errors[best] ** 2 * np.eye(len(told))
        C = C - told.T @ np.linalg.solve(noise_of, told)
        with suppress(OutsideTheBox):
            axis_gradient(frame, X[best], _axis_steps(network, X[best]))
            asked = True
    return asked


def _errors(network: DeepNetwork, X: Array) -> Array:
    """What rounding would make of slopes at places: typical steps, beside the size of answers."""
    found = np.empty(len(X))
    for k, x in enumerate(X):
        found[k] = _inverse(_axis_steps(network, x))
    Y = np.abs(network(X)).reshape(len(X), -1).max(axis=1)
    g = np.linalg.norm(_coefficients(network, X) @ network.weights[0], axis=(1, 2))
    size = Y + g * np.linalg.norm(X, axis=1)
    return np.asarray(TYPICAL_ERROR * ROUNDING / 2 * size * found)


def _inverse(steps: Array) -> float:
    """One over the steps, root mean square."""
    return float(np.sqrt(np.mean(np.maximum(np.abs(steps), TINIEST) ** -2)))


def _axis_steps(network: DeepNetwork, x: Array) -> Array:
    """How far one may go along each axis, to the better side, before any unit switches."""
    z = inputs_of_units(network, x[None])
    ahead = behind = np.full(len(x), np.inf)
    J: Array | None = None
    for (W, _), own in zip(network.affine_maps[:-1], z, strict=True):
        J = W if J is None else W @ J
        with np.errstate(divide="ignore", invalid="ignore"):
            t = -own[0][:, None] / J
        ahead = np.minimum(ahead, np.where(t > 0, t, np.inf).min(axis=0))
        behind = np.minimum(behind, np.where(t < 0, -t, np.inf).min(axis=0))
        J = J * (own[0] > 0)[:, None]
    far = np.minimum(AXIS_STEP * np.maximum(ahead, behind), LONGEST_AXIS_STEP)
    return np.asarray(np.where(ahead >= behind, far, -far))
