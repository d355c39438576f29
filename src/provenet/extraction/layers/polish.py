"""All parameters at once, on all that was asked in the space of the first layer's rows.

Rows are found one by one, each as well as its place allows; least squares on all answers makes the
best of them together (`fitting.layered_newton`), and its covariance says how far rounding lets each
be off. Answers outside of the row space are left out, since they depend on what lies outside of it
too, and so are those far out, where rounding is larger. Where the answers so far leave a unit known
too poorly, further ones are asked: of many random points, near and about the units' own kinks, the
one whose answer is the least sure by what is known, then the next, as if it had been asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.aiming import Wish, aimed, best_starts
from provenet.extraction.box import Box
from provenet.extraction.layers.known import Frame, KnownLayers
from provenet.extraction.layers.tolerances import (
    AIMED_WEIGHTS,
    AROUND_A_PLACE,
    ASKED_A_ROUND,
    FITTED_ANSWERS,
    LEAST_UNSURE_ANSWER,
    MOST_POLISHED,
    POLISH_ROUNDING,
    POLISH_ROUNDS,
    POLISHED_TO,
    POLISHED_WITHIN,
    POOL,
    POOL_A_PLACE,
    SCALES,
    SPARE_ANSWERS,
)
from provenet.extraction.layers.top import weights_far_out
from provenet.extraction.tolerances import AIM_STARTS
from provenet.fitting.layered_newton import NearlyExact, Newton, WeightedSamples
from provenet.networks.deep_network import DeepNetwork


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
) -> PolishedLayers | None:
    """The network that fits the answers best; None where it is too large for that.

    `places` are on the units' kinks, `unsure` is about what rows are off by. With layers `below`,
    which stay as they are, it is the network above these.
    """
    below = KnownLayers(frame.coordinates) if below is None else below
    size: float = sum(W.size + len(b) for W, b in network.affine_maps)
    if size > MOST_POLISHED:
        return None
    size /= len(network.weights[-1])
    _ask_enough(frame, int(np.ceil(SPARE_ANSWERS * size)), rng)
    samples = new = _samples(frame, below, int(np.ceil(FITTED_ANSWERS * size)), rng)
    noise = POLISH_ROUNDING * float(np.abs(samples.weights[:, None] * samples.Y).max())
    fits = Newton(network, unsure, noise, frame.check_time)
    for _ in range(POLISH_ROUNDS):
        fit = fits.fitted(samples, new)
        level = max(fit.rms, noise)
        error = level * fit.errors.largest
        if error <= POLISHED_TO:
            break
        pool = _pool(frame, below, fit, POLISHED_TO / level, places, rng)
        more = _most_telling(frame, below, fit, pool)
        if len(more) == 0:
            break
        new = _weighted(below, more, frame(more))
        samples = samples + new
    return PolishedLayers(fit.network, error)


def _ask_enough(frame: Frame, number: int, rng: np.random.Generator) -> None:
    """As many answers as that in the space of the rows, beside those close to others."""
    U, _ = frame.in_space(close=False)
    scales = np.resize(SCALES, max(0, number - int(np.sum(_near(U)))))
    more = frame.inside(scales[:, None] * rng.standard_normal((len(scales), U.shape[1])))
    if len(more):
        frame(more)


def _samples(
    frame: Frame, below: KnownLayers, most: int, rng: np.random.Generator
) -> WeightedSamples:
    """What was asked in the space of the rows, not too far out; some of it where that is enough."""
    U, Y = frame.in_space()
    chosen = np.sort(rng.permutation(np.flatnonzero(_near(U)))[:most])
    return _weighted(below, U[chosen], Y[chosen])


def _near(U: Array) -> AnyArray:
    return np.asarray(np.linalg.norm(U, axis=1) <= POLISHED_WITHIN * np.sqrt(U.shape[1]))


def _weighted(below: KnownLayers, U: Array, Y: Array) -> WeightedSamples:
    return WeightedSamples(below.h(U), Y, weights_far_out(U)[:, 0])


def _pool(
    frame: Frame,
    below: KnownLayers,
    fit: NearlyExact,
    wanted: float,
    places: Array,
    rng: np.random.Generator,
) -> Array:
    """Random points, near and about the units' own kinks, and some where poor weights show."""
    around = np.repeat(places, POOL_A_PLACE, axis=0)
    spread = np.exp(rng.uniform(np.log(AROUND_A_PLACE), 0.0, len(around)))
    near = [s * rng.standard_normal((POOL, frame.coordinates)) for s in SCALES]
    near.append(around + spread[:, None] * rng.standard_normal(around.shape))
    U = np.vstack(near)
    aimed_at = list[Array]()
    for points in _where_they_show(below, fit, wanted, U):
        frame.check_time()
        aimed_at.append(points)
    return frame.inside(np.vstack([U, *aimed_at]))


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
        wishes = [Wish(layer - 1, i), Wish(layer, j)]
        yield aimed(network, wishes, best_starts(network, wishes, U, AIM_STARTS), box)


def _most_telling(frame: Frame, below: KnownLayers, fit: NearlyExact, pool: Array) -> Array:
    """Points of a pool, the least sure first, each as if those before had been asked.

    With L the rows of `leverages`, `L L^T` is the covariance of the answers; what is left of it
    once an answer is known, with noise of size one, is a step of Cholesky's method: `L L^T - C C^T`
    with one more column of C for every answer. Only its diagonal is kept, and rows as they are
    needed.
    """
    L = fit.leverages(below.h(pool)) * weights_far_out(pool)[:, :, None]
    L = L.reshape(-1, len(fit.root))
    chosen, outputs = list[int](), len(L) // len(pool)
    most = int(ASKED_A_ROUND * len(fit.root) / outputs) + 1
    C, known = np.empty((len(L), most * outputs)), 0
    left = np.einsum("ij,ij->i", L, L)
    for _ in range(most):
        frame.check_time()
        own = left.reshape(-1, outputs).sum(axis=1)
        best = int(np.argmax(own))
        if own[best] < LEAST_UNSURE_ANSWER:
            break
        chosen.append(best)
        asked = slice(outputs * best, outputs * (best + 1))
        rest = L @ L[asked].T - C[:, :known] @ C[asked, :known].T
        G = np.linalg.cholesky(np.eye(outputs) + rest[asked])
        added = np.linalg.solve(G, rest.T).T
        C[:, known : known + outputs] = added
        left -= np.sum(added**2, axis=1)
        known += outputs
    return np.asarray(pool[np.unique(chosen)] if chosen else pool[:0])
