"""All parameters at once, on all that was asked in the space of the first layer's rows.

Rows are found one by one, each as well as its place allows; least squares on all answers makes the
best of them together (`near_exact`), and its covariance says how far rounding lets each
be off. Answers outside of the row space are left out, since they depend on what lies outside of it
too, and so are those far out, where rounding is larger. Where the answers so far leave a unit known
too poorly, further ones are asked first, those that tell it best (`telling`) of many points: near
ones, others about the units' own kinks, and such where units are on whose rows are known poorly. Of
a large network all of these are asked: to choose would cost more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array, row_blocks
from provenet.extraction.aiming import Aim, aimed, best_starts
from provenet.extraction.box import Box
from provenet.extraction.layers.known import Frame, KnownLayers
from provenet.extraction.layers.near_exact import NearlyExact, Newton, WeightedSamples
from provenet.extraction.layers.telling import most_telling
from provenet.extraction.layers.tolerances import (
    AIMED_WEIGHTS,
    AROUND_A_PLACE,
    ASKED_A_ROUND,
    FITTED_ANSWERS,
    FITTED_OF_LARGE,
    GRADIENT_OFF,
    HIGHEST_LEVEL,
    LARGE,
    LEAST_SLOPE,
    MANY_ANSWERS,
    MOST_POLISHED,
    POLISH_ROUNDING,
    POLISH_ROUNDS,
    POLISHED_TO,
    POLISHED_WELL,
    POLISHED_WITHIN,
    POOL,
    POOL_A_PLACE,
    POOL_A_ROW,
    POOL_OF_ROWS,
    SCALES,
    SPARE_ANSWERS,
    USUAL_LEVEL,
)
from provenet.extraction.layers.top import weights_far_out
from provenet.extraction.questions import most_rows
from provenet.extraction.tolerances import AIM_STARTS
from provenet.networks.network import DeepNetwork
from provenet.networks.piecewise import inputs_of_units


@dataclass(frozen=True)
class PolishedLayers:
    """A network in coordinates, and how far rounding lets a row be off: a standard error."""

    network: DeepNetwork
    error: float


def polished(
    frame: Frame,
    network: DeepNetwork,
    places: Array,
    unsure: float,
    rng: np.random.Generator,
    below: KnownLayers | None = None,
    wanted: float = POLISHED_TO,
) -> PolishedLayers | None:
    """The network that fits the answers best; None where it is too large for that.

    `places` are on the units' kinks, `unsure` is about what rows are off by. With layers `below`,
    which stay as they are, it is the network above these. What standard error is `wanted`, further
    answers are asked for.
    """
    below = KnownLayers(frame.coordinates) if below is None else below
    if too_large(network):
        return None
    size, large = _size(network) / len(network.weights[-1]), _size(network) > LARGE
    _ask_enough(frame, int(np.ceil((MANY_ANSWERS if large else SPARE_ANSWERS) * size)), rng)
    most = int(np.ceil((FITTED_OF_LARGE if large else FITTED_ANSWERS) * size))
    samples = _samples(frame, below, most, rng, close=not large)
    terms = float(np.sqrt(len(frame.base) / frame.coordinates))
    noise = POLISH_ROUNDING * terms * float(np.abs(samples.weights[:, None] * samples.Y).max())
    if not large:
        slopes = list(_slopes(frame, below, network, noise, min(GRADIENT_OFF, unsure)))
        samples = sum(slopes[: most // frame.coordinates], samples)
    stalled = HIGHEST_LEVEL if below.layers else 10.0  # layers below are off, too
    single = large and size == _size(network)  # with several outputs answers leave too much open
    fits = Newton(network, samples, unsure, noise, frame.check_time, stalled=stalled, single=single)
    level = USUAL_LEVEL * noise
    for _ in range(POLISH_ROUNDS):
        more = _telling(frame, below, fits.as_it_is(), wanted / level, places, rng)
        if len(more):
            fits.add(_weighted(below, more, frame(more)))
        fit = fits.fitted()
        found = PolishedLayers(fit.network, max(fit.rms, noise) * fit.errors.largest)
        before, level = level, float(np.clip(fit.rms, noise, HIGHEST_LEVEL * noise))
        del fit  # the next is as large
        if found.error <= wanted or (len(more) == 0 and level <= before):
            break
    return found


def too_large(network: DeepNetwork) -> bool:
    """Whether it has more parameters than are polished at once."""
    return _size(network) > MOST_POLISHED


def _size(network: DeepNetwork) -> int:
    return sum(W.size + len(b) for W, b in network.affine_maps)


def _ask_enough(frame: Frame, number: int, rng: np.random.Generator) -> None:
    """As many answers as that in the space of the rows, beside those close to others."""
    U, _ = frame.in_space(close=False)
    scales = np.resize(SCALES, max(0, number - int(np.sum(_near(U)))))
    more = frame.inside(scales[:, None] * rng.standard_normal((len(scales), U.shape[1])))
    for block in row_blocks(len(more), most_rows(len(more), len(frame.base))):
        frame(more[block])


def _samples(
    frame: Frame, below: KnownLayers, most: int, rng: np.random.Generator, *, close: bool
) -> WeightedSamples:
    """What was asked in the space of the rows, not too far out; some of it where that is enough."""
    U, Y = frame.in_space(close=close)
    chosen = np.sort(rng.permutation(np.flatnonzero(_near(U)))[:most])
    return _weighted(below, U[chosen], Y[chosen])


def _slopes(
    frame: Frame, below: KnownLayers, network: DeepNetwork, noise: float, unsure: float
) -> Iterator[WeightedSamples]:
    """What the gradients along the inputs' axes say in the space of the rows, the best first.

    The answers themselves depend on what lies outside of it; the gradients there do not. Those that
    are off by more than the network is unsure by were measured over a kink.
    """
    Q, n = frame.Q, frame.coordinates
    for gradient in sorted(frame.gradients, key=lambda gradient: gradient.error):
        error = min(1.0, frame.level) * gradient.error
        if Q is None or not 0 < error <= noise / LEAST_SLOPE:
            continue
        state = below.state(frame.coordinates_of(gradient.x[None]))
        own = WeightedSamples(
            np.repeat(state.h, n, axis=0),
            (gradient.along @ Q).T,
            np.full(n, min(1.0, noise / error)),
            np.column_stack([state.J[0].T, np.zeros(n)]),
        )
        off = np.abs(own.residuals(own.linearised(network))).max() / own.weights[0]
        if off <= unsure * np.abs(gradient.along).max():
            yield own


def _near(U: Array) -> AnyArray:
    return np.asarray(np.linalg.norm(U, axis=1) <= POLISHED_WITHIN * np.sqrt(U.shape[1]))


def _weighted(below: KnownLayers, U: Array, Y: Array) -> WeightedSamples:
    return WeightedSamples.values(below.h(U), Y, weights_far_out(U)[:, 0])


def _telling(
    frame: Frame,
    below: KnownLayers,
    fit: NearlyExact,
    wanted: float,
    places: Array,
    rng: np.random.Generator,
) -> Array:
    """Points that tell what is known worse than wanted; of a large network, not the fewest."""
    if fit.errors.largest <= wanted:
        return np.empty((0, frame.coordinates))
    pool = _pool(frame, below, fit, wanted, places, rng)
    most = int(ASKED_A_ROUND * fit.covariance.rank / fit.network.affine_maps[-1][0].shape[0]) + 1
    if _size(fit.network) > LARGE:
        return np.asarray(pool[::-1][:most])
    weights, goal = weights_far_out(pool)[:, 0], POLISHED_WELL * wanted
    chosen = most_telling(fit, below.h(pool), weights, goal, most, rng, frame.check_time)
    return np.asarray(pool[chosen])


def _pool(
    frame: Frame,
    below: KnownLayers,
    fit: NearlyExact,
    wanted: float,
    places: Array,
    rng: np.random.Generator,
) -> Array:
    """Random points, near and about the units' own kinks, and where what is known poorly shows."""
    around = np.repeat(places, POOL_A_PLACE, axis=0)
    spread = np.exp(rng.uniform(np.log(AROUND_A_PLACE), 0.0, len(around)))
    many = np.vstack([s * rng.standard_normal((POOL_OF_ROWS, frame.coordinates)) for s in SCALES])
    near = many[rng.permutation(len(many))[: POOL * len(SCALES)]]
    U = np.vstack([near, around + spread[:, None] * rng.standard_normal(around.shape)])
    aimed_at = [_where_rows_are_on(below, fit, wanted, many)]
    for points in _where_they_show(below, fit, wanted, U):
        frame.check_time()
        aimed_at.append(points)
    return frame.inside(np.vstack([U, *aimed_at]))


def _where_rows_are_on(below: KnownLayers, fit: NearlyExact, wanted: float, U: Array) -> Array:
    """Some of the points for each row known worse than wanted, where its unit is on."""
    z = np.hstack(inputs_of_units(fit.network, below.h(U)))
    poor = fit.errors.of_rows[: z.shape[1]] > wanted
    chosen = [np.flatnonzero(own > 0)[:POOL_A_ROW] for own in z[:, poor].T]
    return np.asarray(U[np.unique(np.concatenate([np.empty(0, dtype=int), *chosen]))])


def _where_they_show(
    below: KnownLayers, fit: NearlyExact, wanted: float, U: Array
) -> Iterator[Array]:
    """Points where both units of a weight are on that is known worse than wanted, worst first."""
    box, network = Box.of(None, None, U.shape[1]), below.under(fit.network)
    poor = [
        (-errors[j, i], layer, j, i)
        for layer, errors in enumerate(fit.errors.weights[:-1], start=len(below.layers))
        if layer
        for j, i in np.argwhere(errors > wanted)
    ]
    for _, layer, j, i in sorted(poor)[:AIMED_WEIGHTS]:
        aims = [Aim(layer - 1, i), Aim(layer, j)]
        yield aimed(network, aims, best_starts(network, aims, U, AIM_STARTS), box)
