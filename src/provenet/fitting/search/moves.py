"""Moves of the search, on networks of any depth: each proposes starts of least squares.

- *grow*: new units; in the highest layer the best of a random pool, by greedy selection (orthogonal
  matching pursuit) for the residual; below it random ones that feed the next layer weakly, for
  without weight they would leave it nothing to learn from;
- *swap*: a few of the least useful units make room for new ones;
- *drop*: all units that cost little at once, or one. A layer that changes is replaced by
  regression: the values of its old units on those of its new ones go into the layer that it feeds;
- *flip*: where a reversed unit differs from the unit by something linear, a deep network that took
  one for the other carries the difference in further units, of which none can be dropped alone. So
  layers are freed of units that are linear on the samples, all at once (`without_linear_units`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from provenet.common.typing import EPS, TINY, AnyArray, Array
from provenet.fitting.least_squares import Fit
from provenet.fitting.linear import dropped_in_turn, solve_scaled, without_each_unit
from provenet.fitting.losses import SQUARES, working_labels
from provenet.fitting.model import Parameters, layer_inputs, model_features
from provenet.fitting.search.problem import Problem
from provenet.networks.activations import Activation, Symmetry

# ---------------------------------------------------------------- new units


def random_units(
    inputs: Array,
    count: int,
    rng: np.random.Generator,
    *,
    spreads: tuple[float, float] = (0.3, 3.0),
) -> Array:
    """Random directions; arguments of random spread that are zero at random samples.

    Inputs that are constant up to rounding, as of dead units, get no weight.
    """
    spread, largest = inputs.std(axis=0), np.abs(inputs).max(axis=0, initial=0.0)
    varies = spread > np.sqrt(EPS) * largest
    w = rng.standard_normal((count, inputs.shape[1])) / np.where(varies, spread, np.inf)
    low, high = np.log(spreads)
    size = np.exp(rng.uniform(low, high, count))
    w *= (size / np.maximum(np.linalg.norm(w * spread, axis=1), TINY))[:, None]
    through = inputs[rng.choice(len(inputs), count)]
    return np.column_stack([w, -np.einsum("ud,ud->u", w, through)])


@np.errstate(over="ignore", invalid="ignore")  # units that overflow are not chosen
def promising_units(
    problem: Problem,
    parameters: Parameters,
    units: int,
    rng: np.random.Generator,
    rows: int = 3000,
    *,
    pool: int = 400,
) -> Array:
    """Of a random pool, the units of the highest layer that lower the residual most, chosen one
    after another.

    Where a unit and its opposite differ, the opposites of the present units belong to the pool.
    """
    few = problem.head(rows)
    X, Y = few.samples.X, few.samples.y.reshape(few.samples.size, -1)
    _, Phi = model_features(parameters, problem.activation, X)
    root, Y = working_labels(problem.loss, Phi @ parameters.beta.reshape(Phi.shape[1], -1), Y)
    Phi *= root
    gram = Phi.T @ Phi
    if not np.isfinite(gram).all():  # the model overflows: any units will do
        return random_units(layer_inputs(parameters, problem.activation, X)[-1], units, rng)
    residual = Y - Phi @ solve_scaled(gram, Phi.T @ Y, 1e-10)
    inputs = layer_inputs(parameters, problem.activation, X)[-1]
    theta = random_units(inputs, pool, rng)
    if problem.layers == 1 and problem.activation.symmetry is Symmetry.NONE:
        theta = np.vstack([theta, -parameters.theta])
    if problem.homogeneous:
        theta /= np.linalg.norm(theta[:, :-1], axis=1, keepdims=True) + TINY
    F = problem.activation(inputs @ theta[:, :-1].T + theta[:, -1]) * root
    return theta[greedy_selection(F, Phi, residual, units)]


def greedy_selection(F: Array, Phi: Array, residual: Array, count: int) -> list[int]:
    """Columns of F that lower the residual most, one after another, beside Phi.

    A Cholesky factorisation of F^T F, Phi eliminated, that pivots on the gain. In single precision:
    a few digits are enough.
    """
    F = F.astype(np.float32)
    single = Phi.astype(np.float32)
    overlap = solve_scaled(Phi.T @ Phi, (single.T @ F).astype(float), 1e-10)
    F -= single @ overlap.astype(np.float32)
    energy = np.einsum("nf,nf->f", F, F).astype(float)
    finite = np.isfinite(energy)
    F, energy = np.where(finite, F, np.float32(0)), np.where(finite, energy, 0.0)
    match = (residual.T.astype(np.float32) @ F).astype(float)
    # What others leave of a unit below this is rounding of sums over thousands of samples.
    least = 1e-5 * energy.max(initial=0.0) + TINY
    factor, chosen = np.empty((0, F.shape[1])), list[int]()
    for _ in range(min(count, F.shape[1])):
        gain = np.sum(match**2, axis=0) / np.maximum(energy, least)
        gain[energy <= least] = -1.0
        gain[chosen] = -2.0
        best = int(np.argmax(gain))
        pivot = np.sqrt(max(energy[best], least))
        column = ((F[:, best] @ F).astype(float) - factor[:, best] @ factor) / pivot
        match = match - np.outer(match[:, best] / pivot, column)
        energy = energy - column**2
        factor = np.vstack([factor, column])
        chosen.append(best)
    return chosen


def widened(
    problem: Problem,
    parameters: Parameters,
    counts: tuple[int, ...],
    rng: np.random.Generator,
    *,
    feed: float = 0.3,
) -> Parameters:
    """With so many new units a layer."""
    few, layers, fresh = problem.head(2000), list[Array](), 0
    inputs = few.samples.X
    for old, count in zip(parameters.lower, counts, strict=False):
        weak = feed * rng.standard_normal((len(old), fresh))
        old = np.column_stack([old[:, :-1], weak, old[:, -1]])
        layers.append(np.vstack([old, random_units(inputs, count, rng)]))
        inputs = problem.activation(inputs @ layers[-1][:, :-1].T + layers[-1][:, -1])
        fresh = count
    top = parameters.theta
    weak = feed * rng.standard_normal((len(top), fresh))
    top = np.column_stack([top[:, :-1], weak, top[:, -1]])
    wider = replace(parameters, theta=top, lower=tuple(layers))
    return wider.widened(promising_units(problem, wider, counts[-1], rng))


def random_start(problem: Problem, widths: tuple[int, ...], rng: np.random.Generator) -> Parameters:
    """A random network, its output weights unknown."""
    first = np.empty((0, problem.samples.features + 1))
    nothing = problem.with_no_output(first, *[np.empty((0, 1))] * (len(widths) - 1))
    return widened(problem, nothing, widths, rng)


def swapped(
    problem: Problem, parameters: Parameters, failures: int, rng: np.random.Generator
) -> Parameters:
    """A few of the least useful units of every layer exchanged; the more failures, the wider the
    choice."""
    fewest = 2 if problem.layers == 1 else 1
    counts = tuple(min(w - (problem.layers > 1), max(fewest, w // 8)) for w in parameters.widths)
    for k, count in enumerate(counts):
        cheap = np.argsort(costs_without_each(problem, parameters, k))[: 2 * count + failures]
        parameters = without(problem, parameters, k, rng.permutation(cheap)[:count])
    return widened(problem, parameters, counts, rng)


# ---------------------------------------------------------------- fewer units


def with_layer(
    parameters: Parameters, k: int, theta: Array, activation: Activation, X: Array
) -> Parameters:
    """With another layer k, the values of the old one regressed on its own."""
    layers, inputs = list(parameters.layers), layer_inputs(parameters, activation, X)[k]
    old, new = (
        np.column_stack([activation(inputs @ own[:, :-1].T + own[:, -1]), np.ones(len(X))])
        for own in (layers[k], theta)
    )
    C = solve_scaled(new.T @ new, new.T @ old, 1e-12)
    layers[k] = theta
    if k == len(layers) - 1:
        return replace(parameters, beta=C @ parameters.beta).with_layers(tuple(layers))
    layers[k + 1] = layers[k + 1] @ C.T
    return parameters.with_layers(tuple(layers))


def without(problem: Problem, parameters: Parameters, k: int, units: AnyArray) -> Parameters:
    """Without some units of layer k."""
    kept = np.ones(parameters.widths[k], dtype=bool)
    kept[units] = False
    if problem.layers == 1:
        return parameters.keep(kept)
    theta, X = parameters.layers[k][kept], problem.head(2000).samples.X
    return with_layer(parameters, k, theta, problem.activation, X)


def costs_without_each(problem: Problem, parameters: Parameters, k: int) -> Array:
    """By how much the loss grows without each unit of layer k, the output layer refitted."""
    if problem.layers == 1:
        return without_each_unit(problem.linear_part(parameters), parameters)
    few = problem.head(2000)
    before = _loss(few, parameters)
    losses = [
        _loss(few, without(few, parameters, k, np.array([i])))
        if parameters.widths[k] > 1
        else np.inf
        for i in range(parameters.widths[k])
    ]
    return (np.array(losses) - before) * problem.samples.size / few.samples.size


def ranked_drops(problem: Problem, parameters: Parameters) -> list[tuple[float, int, int]]:
    """What each unit is worth, its layer and its number, the cheapest first; of several layers each
    keeps a unit."""
    return sorted(
        (float(cost), k, i)
        for k, width in enumerate(parameters.widths)
        if width > 1 or problem.layers == 1
        for i, cost in enumerate(costs_without_each(problem, parameters, k))
    )


def without_cheapest(problem: Problem, parameters: Parameters) -> Parameters:
    """Without the unit that is worth least."""
    _, k, i = ranked_drops(problem, parameters)[0]
    return without(problem, parameters, k, np.array([i]))


def _loss(problem: Problem, parameters: Parameters) -> float:
    """With the best output layer; what overflows is worth nothing."""
    with np.errstate(all="ignore"):
        loss = problem.best_linear_part(parameters)[1]
    return loss if np.isfinite(loss) else np.inf


def drops(
    problem: Problem, fit: Fit, *, near: float = 2e-2, candidates: tuple[int, int] = (3, 8)
) -> Iterator[Parameters]:
    """With fewer units, the most promising first.

    What may be spared at once costs no more than a multiple of what is left, first a large one,
    where little is left: there units are told apart by what they are worth. Else BIC's price.
    """
    parameters, few = fit.parameters, fit.rms > near * problem.spread
    close = problem.loss is SQUARES and not few
    flips = problem.layers > 1 and problem.activation.symmetry is Symmetry.MIRROR and close
    if flips:
        # Without a residual the narrowest that are as good come last: only zero is as good.
        ways = list(_without_linear_units(problem, fit))
        yield from ways[::-1] if problem.is_zero(fit) else ways
    ranked = ranked_drops(problem, parameters)
    seen = {sum(parameters.widths), sum(parameters.widths) - 1}
    for limit in _limits(problem, fit, close):
        narrower = _without_spare(problem, parameters, ranked, limit)
        if sum(narrower.widths) not in seen:
            seen.add(sum(narrower.widths))
            yield narrower
    tried = dict.fromkeys(range(problem.layers), 0)
    for _, k, i in ranked:
        tried[k] += 1
        if tried[k] <= candidates[close and problem.layers > 1]:
            yield without(problem, parameters, k, np.array([i]))


def _limits(problem: Problem, fit: Fit, close: bool) -> list[float]:
    """What units that go at once may cost in all."""
    n = problem.samples.labels
    if close:
        # Of equal units the ridge of a linear fit leaves up to some 1e-6.
        return [n * (k * max(fit.rms, 1e-7 * problem.spread)) ** 2 for k in (30, 3)]
    price = problem.a_unit * np.log(n)
    several = fit.parameters.units / 2
    if problem.loss is SQUARES:
        return [fit.rss * np.expm1(price * k / n) for k in (several, 1)]
    return [price * several, price]


def _without_spare(
    problem: Problem, parameters: Parameters, ranked: list[tuple[float, int, int]], limit: float
) -> Parameters:
    """Without the units that go one after the other, the rest refitted; of several layers without
    half of those that may go alone."""
    if problem.layers == 1:
        spare = dropped_in_turn(problem.linear_part(parameters), parameters, limit)
        return without(problem, parameters, 0, spare)
    spared = [way for way in ranked if way[0] < limit]
    spared = spared[: len(spared) // 2]
    for k, width in enumerate(parameters.widths):
        drop = np.array([i for _, layer, i in spared if layer == k][: width - 1], dtype=int)
        if len(drop):
            parameters = without(problem, parameters, k, drop)
    return parameters


# ---------------------------------------------------------------- flips


def _without_linear_units(problem: Problem, fit: Fit) -> Iterator[Parameters]:
    """From as good as the fit to ever coarser, each of other widths; but for a tenth of what is
    left, which nobody notices."""
    few, seen = problem.head(4000), {fit.parameters.widths}
    finest = 0.0 if problem.is_zero(fit) else 0.1 * fit.rms
    # Of fits that leave 1e-12 to 5e-3 each of these but the first was the right one somewhere.
    for share in (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2):
        if share * problem.spread >= finest:
            simpler = without_linear_units(
                fit.parameters, problem.activation, few.samples.X, share * problem.spread
            )
            if simpler.widths not in seen:
                seen.add(simpler.widths)
                yield simpler


def without_linear_units(
    parameters: Parameters, activation: Activation, X: Array, within: float
) -> Parameters:
    """Without the units that carry what reversed ones lack, root mean square errors of so much
    allowed in each layer.

    Of a layer h are the inputs, F = sigma(z) the values, T what it feeds (the arguments of the
    layer above, each weighted by how much the output changes with it; the output itself for the
    highest). Everything is centred.

    1. *What is needed if the inputs may pass by.* T lies in the span of F. Regressed on F and h
       together a unit that is linear on the samples, one of a pair `sigma(z) - sigma(-z)` and one
       of two equal ones cost nothing: without unit i the sum of squares grows by
       `|C_i|^2 / (G^-1)_ii`, G the Gram matrix of what remains and C the coefficients. The cheapest
       is dropped while all that were dropped cost less than a limit. Then `T = F U + h V`.
    2. *Which are reversed.* With unit i reversed `F_i = sigma(-z_i) + z_i`, so that the inputs pass
       by with `h V + sum_i s_i z_i U_i`, s_i = 1 for those reversed. The right s make it vanish:
       least squares, `(U U^T o z^T z) s = -diag(U (h V)^T z)`. Rounded to 0 or 1.
    3. The layer of the units that remain, reversed so, replaces the old one by regression.

    The highest layer comes first: then what the lower ones feed has no units of its own that are
    linear, which may carry anything that cancels in their sum.
    """
    for k in reversed(range(len(parameters.layers))):
        inputs = layer_inputs(parameters, activation, X)
        own, above = parameters.layers[k], _weights_above(parameters, activation, inputs, k)
        z = inputs[k] @ own[:, :-1].T
        F = activation(z + own[:, -1])
        h, z, F, T = (a - a.mean(axis=0) for a in (inputs[k], z, F, F @ above))
        kept, U, V = _needed_units(F, h, T, within**2 * len(X))
        z = z[:, kept]
        pull = -np.sum(U * (z.T @ (h @ V)), axis=1)
        reverse = solve_scaled((U @ U.T) * (z.T @ z), pull, 1e-12) > 0.5
        theta = own[kept] * np.where(reverse, -1.0, 1.0)[:, None]
        parameters = with_layer(parameters, k, theta, activation, X)
    return parameters


def _weights_above(
    parameters: Parameters, activation: Activation, inputs: list[Array], k: int
) -> Array:
    """(units, fed): the output weights, or those of the layer above times how much each counts."""
    if k == len(parameters.layers) - 1:
        return np.asarray(parameters.output_weights.T)
    counts = np.zeros(parameters.widths[k + 1])
    for back in parameters.output_weights:
        for h, theta in zip(inputs[:k:-1], parameters.layers[:k:-1], strict=True):
            delta = back * activation.derivative(h @ theta[:, :-1].T + theta[:, -1])
            back = delta @ theta[:, :-1]
        counts += np.mean(delta**2, axis=0)
    return np.asarray((np.sqrt(counts)[:, None] * parameters.layers[k + 1][:, :-1]).T)


def _needed_units(F: Array, h: Array, T: Array, limit: float) -> tuple[AnyArray, Array, Array]:
    """The units that are needed where the inputs pass by, their coefficients and the inputs'."""
    features = np.hstack([F, h])
    gram, match = features.T @ features, features.T @ T
    kept, spent = np.arange(features.shape[1]), 0.0
    while True:
        inverse = solve_scaled(gram[np.ix_(kept, kept)], np.eye(len(kept)), 1e-13)
        coefficients = inverse @ match[kept]
        width = int(np.sum(kept < F.shape[1]))
        cost = np.sum(coefficients[:width] ** 2, axis=1) / np.diag(inverse)[:width]
        spent += cost.min()
        if width == 1 or spent > limit:
            return kept[:width], coefficients[:width], coefficients[width:]
        kept = np.delete(kept, np.argmin(cost))
