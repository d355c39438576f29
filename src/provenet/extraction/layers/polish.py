"""All parameters at once on the answers that are kept; of large networks those of the last layer.

Rows are measured one by one (`remeasure`), each as well as its place allows; least squares on all
answers makes the best of them together. It is the refinement that samples have, too, and its
covariance says how far rounding lets a row be off. Answers far out are left out: rounding is larger
there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.data.sources.arrays import ArraySource
from provenet.extraction.layers.known import Frame
from provenet.extraction.layers.tolerances import (
    AROUND_A_PLACE,
    MOST_POLISHED,
    POLISH_DAMPING,
    POLISH_GAIN,
    POLISH_ROUNDING,
    POLISH_STEPS,
    POLISHED_WITHIN,
    POOL,
    POOL_A_PLACE,
    SCALES,
    SHOWN_AT,
    SPARE_ANSWERS,
)
from provenet.fitting.layered_covariance import deep_covariance
from provenet.fitting.levenberg_marquardt import refine
from provenet.fitting.parameters import Parameters
from provenet.networks.cells import inputs_of_units, slopes
from provenet.networks.deep_network import DeepNetwork


@dataclass(frozen=True)
class PolishedLayers:
    """A network in coordinates, and how far rounding lets a row be off."""

    network: DeepNetwork
    error: float
    """Infinite where the answers leave directions of the parameters free."""
    below: int = 0
    """Hidden layers that were left as they are."""


def ask_for_polish(
    frame: Frame, network: DeepNetwork, places: Array, rng: np.random.Generator
) -> None:
    """Answers that polishing needs beside those that are kept: some for every weight.

    They are chosen among random points, near and about the units' own kinks (`places`): where two
    units are on together and the output depends on the upper one, it tells the weight between.
    """
    part = polished_layers(network)
    if part == 0:
        return
    U, Y = frame.answers()
    around = np.repeat(places, POOL_A_PLACE, axis=0)
    spread = np.exp(rng.uniform(np.log(AROUND_A_PLACE), 0.0, len(around)))
    pool = [s * rng.standard_normal((POOL, network.features)) for s in SCALES]
    pool.append(around + spread[:, None] * rng.standard_normal(around.shape))
    candidates = frame.inside(np.vstack(pool))
    kept = _needed_for_weights(network, part, U[_near(U)], candidates, rng)
    missing = int(np.ceil(SPARE_ANSWERS * _upper(network, part).free_parameters / Y.shape[1]))
    missing -= int(np.sum(_near(U))) + len(kept)
    more = frame.sample(max(0, missing), rng)
    if len(kept) + len(more):
        frame(np.vstack([candidates[kept], more]))


def _needed_for_weights(
    network: DeepNetwork, part: int, U: Array, candidates: Array, rng: np.random.Generator
) -> AnyArray:
    """Candidates such that every weight of the last layers shows at a few points, if it can be."""
    seen, offered = _activity(network, U)[-part:], _activity(network, candidates)[-part:]
    chosen = list[int]()
    for (on, below), (new_on, new_below) in zip(seen, offered, strict=True):
        counts = on.T.astype(float) @ below
        for k, j in zip(*np.nonzero(counts < SHOWN_AT), strict=True):
            fits = np.flatnonzero(new_on[:, k] & new_below[:, j])
            lacking = int(SHOWN_AT - counts[k, j])
            chosen += rng.permutation(fits)[:lacking].tolist()
    return np.unique(np.array(chosen, dtype=int))


def _activity(network: DeepNetwork, U: Array) -> list[tuple[AnyArray, AnyArray]]:
    """Of every layer: which units are on and matter to the output, and which below are on."""
    z = inputs_of_units(network, U)
    matter = slopes(network, z)
    found = []
    for number, (own, slope) in enumerate(zip(z, matter, strict=True)):
        on = (own > 0) & (np.abs(slope).max(axis=1) > 0)
        below = z[number - 1] > 0 if number else np.ones((len(U), 1), dtype=bool)
        found.append((on, below))
    return found


def _near(U: Array) -> AnyArray:
    return np.asarray(np.linalg.norm(U, axis=1) <= POLISHED_WITHIN * np.sqrt(U.shape[1]))


def polished_layers(network: DeepNetwork) -> int:
    """How many hidden layers, the last ones, are polished: all, or the last, or none."""
    for part in (network.layers, 1):
        if _upper(network, part).free_parameters <= MOST_POLISHED:
            return part
    return 0


def _upper(network: DeepNetwork, part: int) -> DeepNetwork:
    """The last hidden layers with the outputs, as a network of what feeds them."""
    kept = slice(network.layers - part, None)
    return DeepNetwork(network.weights[kept], network.biases[kept], outputs=network.outputs)


def polished(network: DeepNetwork, U: Array, Y: Array) -> PolishedLayers | None:
    """The network that fits the answers best; None where they are too few, or it is too large."""
    part = polished_layers(network)
    U, Y = U[_near(U)], Y[_near(U)]
    if part == 0 or Y.size < SPARE_ANSWERS * _upper(network, part).free_parameters:
        return None
    below = network.layers - part
    H = network.values(U, below - 1) if below else U
    found = _fitted(_upper(network, part), H, Y)
    if found is None:
        return None
    weights = (*network.weights[:below], *found.network.weights)
    biases = (*network.biases[:below], *found.network.biases)
    whole = network.replace(weights=weights, biases=biases)
    return PolishedLayers(whole, found.error, below)


def _fitted(network: DeepNetwork, H: Array, Y: Array) -> PolishedLayers | None:
    """Least squares from where the network is."""
    samples, spread = ArraySource(H, Y), float(np.std(Y))
    fit = refine(
        samples,
        Parameters.of_deep(network),
        network.activation,
        spread=spread,
        iterations=POLISH_STEPS,
        tolerance=POLISH_GAIN,
        damping=POLISH_DAMPING,
    )
    found = fit.parameters.deep_network(network.activation).normalised()
    if found.widths != network.widths:
        return None
    covariance = deep_covariance(samples, found)
    if covariance.rank_deficiency:  # in these directions the rows stay as they were measured
        return PolishedLayers(found, np.inf)
    level = max(fit.rms, POLISH_ROUNDING * float(np.abs(Y).max()))
    return PolishedLayers(found, level * covariance.errors.largest)
