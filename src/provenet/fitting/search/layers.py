"""Several hidden layers: random ones, wider and narrower ones, and what each unit is worth.

Layers are searched together, from a few units each. *Growing* gives every layer new units, random
in what they are given, weak in what they feed: zero would leave the units above nothing to learn
from. A unit that is dropped is folded into the others of its layer (`folding`), and its cost is
what the output then leaves, output weights refitted.

Where a reversed unit differs from the unit by something linear (ReLU, GELU, softplus), a search
that took one for the other carries the difference in further units, of which none can be dropped
alone. So layers are untangled first (`untangling`), and a drop is also tried together with a unit
of the same layer reversed, both folded at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from provenet.common.typing import EPS, AnyArray, Array
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import Fit
from provenet.fitting.model import Parameters
from provenet.fitting.output_layer import fit_linear_part
from provenet.fitting.search.folding import folded
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.tolerances import (
    FOLD_ROWS,
    LAYER_CANDIDATES,
    LAYER_SPREADS,
    NEAR_SHARE,
    NEW_FEED,
    PRUNE_CANDIDATES,
    REVERSED_WITH,
    SMALL_SHARE,
    THRESHOLDS_WITHIN,
    USELESS,
)
from provenet.fitting.search.untangling import untangled
from provenet.networks.activations import Symmetry


class SeveralLayers:
    """How a search moves among models of several hidden layers."""

    def start(self, problem: Problem, units: int, rng: np.random.Generator) -> Parameters:
        """Random layers of one width, the lower ones wider where it does not come out even."""
        layers, values = [], problem.samples.X
        for width in _shared_out(units, problem.layers):
            theta = random_layer(values, max(width, 1), rng)
            layers.append(theta)
            values = problem.activation(values @ theta[:, :-1].T + theta[:, -1])
        beta = np.zeros((len(layers[-1]) + 1, *problem.samples.label_shape))
        return Parameters(layers[-1], beta, tuple(layers[:-1]))

    def grown(
        self, problem: Problem, parameters: Parameters, add: int, rng: np.random.Generator
    ) -> Parameters:
        """With further units in every layer."""
        return _widened(problem, parameters, _shared_out(add, problem.layers), rng)

    def swapped(
        self, problem: Problem, parameters: Parameters, failures: int, rng: np.random.Generator
    ) -> Parameters:
        """With new units in place of a few of the least useful of every layer."""
        counts = [max(1, width // 8) if width > 1 else 0 for width in parameters.widths]
        for k, count in enumerate(counts):
            order = np.argsort(_costs_without(problem, parameters, k))
            drop = rng.permutation(order[: 2 * count + failures])[:count]
            parameters = without(problem, parameters, k, drop)
        return _widened(problem, parameters, counts, rng)

    def narrower(self, problem: Problem, fit: Fit) -> Iterator[Parameters]:
        """Untangled; without half of the units that look useless, or one; or one and another
        reversed."""
        parameters, few = fit.parameters, _few(problem)
        # Where much is left the chain ended in a bad minimum, or in noise: few ways are worth it.
        close = fit.rms <= problem.policy.little * problem.spread
        if close and problem.activation.symmetry is Symmetry.MIRROR:
            yield from _untangled(problem, fit)
        ranked = sorted(
            (cost, k, i)
            for k, width in enumerate(parameters.widths)
            if width > 1
            for i, cost in enumerate(_costs_without(problem, parameters, k))
        )
        useless = [way for way in ranked if way[0] < _useless(problem, fit, few.samples.labels)]
        if len(useless) > 3:
            yield _without_several(problem, parameters, useless[: len(useless) // 2])
        tried = dict.fromkeys(range(problem.layers), 0)
        for _, k, i in ranked:
            tried[k] += 1
            if tried[k] <= (LAYER_CANDIDATES if close else PRUNE_CANDIDATES):
                yield without(problem, parameters, k, np.array([i]))
        if close and problem.activation.symmetry is Symmetry.MIRROR:
            yield from _with_one_reversed(problem, parameters)


def _shared_out(units: int, layers: int) -> list[int]:
    """So many units over the layers, the lower ones first."""
    return [units // layers + int(k < units % layers) for k in range(layers)]


def random_layer(inputs: Array, units: int, rng: np.random.Generator) -> Array:
    """Random directions, arguments of spread about one, thresholds inside the inputs given.

    Inputs that are constant up to rounding, as of units that are saturated or dead, get no weight.
    """
    weights = rng.standard_normal((units, inputs.shape[1])) / _spreads(inputs, np.inf)
    z = inputs @ weights.T
    size = rng.uniform(*LAYER_SPREADS, units) / _spreads(z, 1.0)
    through = z[rng.integers(len(inputs), size=units), np.arange(units)] * size
    return np.column_stack([weights * size[:, None], -THRESHOLDS_WITHIN * through])


def _spreads(values: Array, of_none: float) -> Array:
    """Of each column; `of_none` where it is constant up to rounding."""
    spreads, largest = values.std(axis=0), np.abs(values).max(axis=0)
    return np.asarray(np.where(spreads > np.sqrt(EPS) * largest, spreads, of_none))


def _widened(
    problem: Problem, parameters: Parameters, add: list[int], rng: np.random.Generator
) -> Parameters:
    """With so many new units a layer: random in what they are given, weak in what they feed."""
    layers, values, fresh = [], problem.samples.X[:FOLD_ROWS], 0
    for old, count in zip(parameters.layers, add, strict=True):
        feed = NEW_FEED * rng.standard_normal((len(old), fresh))
        old = np.column_stack([old[:, :-1], feed, old[:, -1]])
        layers.append(np.vstack([old, random_layer(values, count, rng)]))
        values, fresh = problem.activation(values @ layers[-1][:, :-1].T + layers[-1][:, -1]), count
    nothing = np.zeros((fresh, *parameters.beta.shape[1:]))
    beta = np.concatenate([parameters.beta[:-1], nothing, parameters.beta[-1:]])
    return Parameters(layers[-1], beta, tuple(layers[:-1]))


# ---------------------------------------------------------------- folding


def without(problem: Problem, parameters: Parameters, layer: int, drop: AnyArray) -> Parameters:
    """Without some units of a layer, folded into the others."""
    theta = np.delete(parameters.layers[layer], drop, axis=0)
    return folded(parameters, layer, theta, problem.activation, problem.samples.X[:FOLD_ROWS])


def _without_several(
    problem: Problem, parameters: Parameters, ways: list[tuple[float, int, int]]
) -> Parameters:
    """Without units of several layers, of each at least one staying."""
    for k, width in enumerate(parameters.widths):
        drop = np.array([i for _, layer, i in ways if layer == k][: width - 1], dtype=int)
        if len(drop):
            parameters = without(problem, parameters, k, drop)
    return parameters


# ---------------------------------------------------------------- what a unit is worth


def _few(problem: Problem) -> Problem:
    """On as many samples as starting points are compared on."""
    samples = problem.samples
    if samples.size <= FOLD_ROWS:
        return problem
    return replace(problem, samples=ArraySource(samples.X[:FOLD_ROWS], samples.y[:FOLD_ROWS]))


def _cost(few: Problem, parameters: Parameters) -> float:
    """What a model leaves, output weights refitted."""
    with np.errstate(all="ignore"):  # what overflows is worth nothing
        rss = fit_linear_part(few.samples, parameters, few.activation)[1]
    return rss if np.isfinite(rss) else np.inf


def _costs_without(problem: Problem, parameters: Parameters, layer: int) -> Array:
    """What is left without each unit of a layer, folded into the others."""
    few, width = _few(problem), parameters.widths[layer]
    if width == 1:
        return np.array([np.inf])
    drops = (without(few, parameters, layer, np.array([i])) for i in range(width))
    return np.array([_cost(few, narrower) for narrower in drops])


def _useless(problem: Problem, fit: Fit, labels: int) -> float:
    """What a model of fewer units may leave of so many labels if these are to look useless."""
    if problem.is_zero(fit):
        return labels * (USELESS * problem.spread) ** 2
    near = NEAR_SHARE * problem.policy.near_zero * problem.spread
    return labels * max(1.5 * fit.rms**2, near**2)


def _untangled(problem: Problem, fit: Fit) -> Iterator[Parameters]:
    """Without units that carry what reversed ones lack.

    Where nothing is left the fewest come first, for only zero is as good. Else the most, for one
    too few may leave less for a while; but what is dropped may cost a part of what is left.
    """
    nothing = problem.is_zero(fit)
    finest = 0.0 if nothing else SMALL_SHARE * fit.rms
    ways = list(
        untangled(fit.parameters, problem.activation, problem.samples.X, problem.spread, finest)
    )
    yield from ways[::-1] if nothing else ways


def _with_one_reversed(problem: Problem, parameters: Parameters) -> Iterator[Parameters]:
    """Without one unit and with another of its layer reversed: the ways that leave least."""
    few = _few(problem)
    ways: list[tuple[float, Parameters]] = []
    X = few.samples.X
    for k, theta in enumerate(parameters.layers):
        for i in range(len(theta) if len(theta) > 1 else 0):
            for j in range(len(theta)):
                if problem.out_of_time:
                    return
                if i != j:
                    signs = np.where(np.arange(len(theta)) == j, -1.0, 1.0)
                    turned = np.delete(theta * signs[:, None], i, axis=0)
                    way = folded(parameters, k, turned, problem.activation, X)
                    ways.append((_cost(few, way), way))
    for _, way in sorted(ways, key=lambda way: way[0])[:REVERSED_WITH]:
        yield way
