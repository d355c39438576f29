"""Points that may refute a network that was read off a model.

*Random points* say what part of all inputs can be off (`certify.answered`). *Points at kinks* show
two units that were taken for one. *Searched points* lie where a function that agrees almost
everywhere differs most easily: a limit on the answers shows at the network's own extremes, one on
the inputs at theirs, a further unit or layer beyond the others, and on a line from end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from provenet.certify.shown import WeightsShown, showing
from provenet.common.typing import AnyArray, Array, row_blocks
from provenet.extraction.aiming import Aim, aimed, alone, best_starts
from provenet.extraction.beside import points_beside_kinks
from provenet.extraction.box import Box
from provenet.extraction.questions import most_rows
from provenet.extraction.segments import random_line
from provenet.extraction.tolerances import (
    AIM_STARTS,
    ALONE_FARTHER,
    ALONG_A_LINE,
    BESIDE_A_KINK,
    BESIDE_EITHER_SIDE,
    CELLS_A_KINK,
    CLEARLY,
    CLIMBS,
    CORNERS,
    EXTREME_UNITS,
    FAR_OUT,
    FAR_POINTS,
    FARTHEST_BESIDE_A_KINK,
    FEWEST_FRESH,
    FRESH,
    FRESH_LINES,
    KINK_TRIES,
    MOST_AIMED,
    MOST_COMPARED,
    ON_A_KINK,
    POINTS_A_KINK,
    ROUNDED_CORNERS,
    ROUNDED_FAR_POINTS,
    SAFE,
    SHOWING,
    TINIEST,
    TYPICAL,
    WIDER,
)
from provenet.networks.network import Network
from provenet.networks.piecewise import gradient, inputs_of_units, kinks_along


def number_of_fresh(remaining: int | None, others: int, looks: int) -> int:
    """Random points to ask: as many as wanted, or as a budget leaves beside other points."""
    most = looks * FRESH
    if remaining is None:
        return most
    return int(np.clip(remaining - others, FEWEST_FRESH, most))


# ---------------------------------------------------------------- searched points


def searched_points(network: Network, box: Box, rng: np.random.Generator) -> Array:
    """Extremes of answers, inputs and units, and points along fresh lines, in random order."""
    X = _extremes(network, box, rng)
    corners = box.corners(CORNERS, rng), _against_linear(network, box)
    parts = [X, _climbed(network, X, box), _on_lines(network, box, rng), *corners]
    return np.asarray(rng.permutation(np.unique(np.vstack(parts), axis=0)))


def few_searched_points(network: Network, box: Box, rng: np.random.Generator, number: int) -> Array:
    """So many of them: its own extreme answers first, where a limit on the answers shows."""
    first = rng.permutation(_climbed(network, _extremes(network, box, rng), box))
    return np.vstack([first, searched_points(network, box, rng)])[:number]


def _extremes(network: Network, box: Box, rng: np.random.Generator) -> Array:
    """Of many random points those that are extreme: in answers, features, units, distance."""
    outputs, features, units = (
        rng.choice(number, min(number, EXTREME_UNITS), replace=False)
        for number in (network.outputs or 1, network.features, network.units)
    )
    X = np.empty((0, network.features))
    for block in row_blocks(MOST_COMPARED, most_rows(MOST_COMPARED, network.features)):
        X = np.vstack([X, box.sample(block.stop - block.start, rng)])
        y = network(X).reshape(len(X), -1)[:, outputs]
        z = np.hstack(inputs_of_units(network, X))[:, units]
        distance = np.linalg.norm((X - box.centre) / box.width, axis=1)
        measures = np.column_stack([y, X[:, features], z, distance])
        X = X[np.unique([measures.argmin(axis=0), measures.argmax(axis=0)])]
    return X


def _climbed(network: Network, X: Array, box: Box) -> Array:
    """From the lowest and the highest answers on, along the gradients, to the box's corners."""
    values = network(X).reshape(len(X), -1)[:, :EXTREME_UNITS]
    ends = []
    for output, y in enumerate(values.T):
        for sign in (-1.0, 1.0):
            path = [X[int(np.argmax(sign * y))]]
            for _ in range(CLIMBS):
                uphill = sign * gradient(network, path[-1], output)
                path.append(_further_up(network, path[-1], uphill, box))
            reached = sign * network(np.array(path)).reshape(len(path), -1)[:, output]
            ends.append(path[int(np.argmax(reached))])  # a smooth unit may be past its height
    return np.vstack(ends)


def _further_up(network: Network, x: Array, uphill: Array, box: Box) -> Array:
    """To the corner that a gradient points to; smooth and deep ones climb by steps without one."""
    corner = np.where(uphill > 0, box.high, np.where(uphill < 0, box.low, x))
    step = box.width * uphill / max(float(np.abs(uphill).max()), TINIEST)
    beside = x + step if network.activation.smooth or network.layers > 1 else x
    return np.asarray(box.nearest(np.where(np.isfinite(corner), corner, beside)[None])[0])


def _against_linear(network: Network, box: Box) -> Array:
    """Corners of the box at which a linear term is extreme, but for what units may have of it.

    There units switch, if any do, that seem to be always on elsewhere.
    """
    linear = network.linear
    if linear is None or box.unlimited:
        return np.empty((0, network.features))
    rows = np.atleast_2d(linear)[:EXTREME_UNITS]
    ours = np.linalg.lstsq(network.weights.T, rows.T, rcond=None)[0]
    rest = rows - ours.T @ network.weights
    corners = np.where(np.vstack([rest, -rest]) > 0, box.high, box.low)
    return box.nearest(np.where(np.isfinite(corners), corners, box.centre))


def _on_lines(network: Network, box: Box, rng: np.random.Generator) -> Array:
    """On random lines from end to end: between the kinks, and evenly."""
    return np.vstack([_on_line(network, box, rng) for _ in range(FRESH_LINES)])


def _on_line(network: Network, box: Box, rng: np.random.Generator) -> Array:
    line = random_line(box, rng, box.sample(1, rng)[0])
    far = TYPICAL * np.sqrt(len(line.origin)) * float(box.width.max())
    low, high = max(line.reach[0], -far), min(line.reach[1], far)
    kinks = kinks_along(network, line.origin, line.direction, low, high).places
    edges = np.concatenate([[low], kinks, [high]])
    between = rng.permutation((edges[1:] + edges[:-1]) / 2)[: ALONG_A_LINE // 2]
    evenly = np.linspace(low, high, ALONG_A_LINE - len(between))
    return box.nearest(line.origin + np.append(between, evenly)[:, None] * line.direction)


# ---------------------------------------------------------------- points that show weights


def showing_points(
    network: Network,
    asked: Array,
    allowed: Array,
    box: Box,
    rng: np.random.Generator,
    between: Callable[[], None] = lambda: None,
) -> Array:
    """Points at which weights between layers show that do not at those asked so far.

    `between` is called before each is aimed at: it may raise.
    """
    allowed = np.maximum(allowed, TINIEST)
    shown = WeightsShown(network, asked, allowed)
    if shown.number_hidden == 0:
        return np.empty((0, network.features))
    near = box.sample(most_rows(MOST_COMPARED, network.features), rng)
    X = np.vstack([box.nearest(box.centre + times * (near - box.centre)) for times in WIDER])
    some = WeightsShown(network, X, allowed)
    left = [own & other for own, other in zip(shown.hidden, some.hidden, strict=True)]
    X = np.vstack([X, *_aimed_at(network, left, X, box, between)])
    chosen = showing(shown, WeightsShown(network, X, allowed))
    return np.asarray(X[rng.permutation(chosen)[:SHOWING]])


def far_points(network: Network, box: Box, rng: np.random.Generator) -> Array:
    """Points beyond usual inputs, where there is no limit: rare units are on there.

    Random ones, and those where single units are on alone, some farther out: there any unit is on
    that such a one feeds, however little.
    """
    if not box.unlimited:
        return np.empty((0, network.features))
    near = box.sample(most_rows(MOST_COMPARED, network.features), rng)
    wider = [times * near[:FAR_POINTS] for times in FAR_OUT]
    single = alone(network, max(FAR_OUT) * near)
    return np.vstack([*wider, single, ALONE_FARTHER * single])


def _aimed_at(
    network: Network,
    hidden: list[AnyArray],
    X: Array,
    box: Box,
    between: Callable[[], None],
) -> Iterator[Array]:
    """Inputs where the two units are on between which a weight does not show so far."""
    pairs = [(k, j, i) for k, own in enumerate(hidden) for j, i in np.argwhere(own)]
    for k, j, i in pairs[:MOST_AIMED]:
        between()
        aims = [Aim(k, i), Aim(k + 1, j)]
        yield aimed(network, aims, best_starts(network, aims, X, AIM_STARTS), box)


# ---------------------------------------------------------------- points at kinks


def points_about_kinks(network: Network) -> int:
    """How many `points_at_kinks` are, at most."""
    return POINTS_A_KINK * network.units * (1 if network.layers == 1 else CELLS_A_KINK)


def points_at_kinks(
    network: Network,
    allowed: Array,
    box: Box,
    rng: np.random.Generator,
    between: Callable[[], None] = lambda: None,
) -> tuple[Array, AnyArray]:
    """Points on the hyperplane of every unit and on both sides, in the box; and whose they are.

    Those beside it are as far as makes a unit that is not there show clearly, beyond the error
    allowed, in one output at least. The surfaces of a deep network are bent (`beside`).
    """
    if network.layers > 1:
        return points_beside_kinks(network, allowed, box, rng, between)
    (weights, biases), (A, _) = network.affine_maps
    slopes = np.abs(A)
    with np.errstate(divide="ignore"):
        beside = CLEARLY * np.min((allowed + TINIEST)[:, None] / slopes, axis=0)
    points, units = [np.empty((0, network.features))], []
    for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
        X = _on_hyperplane(w, b, box, rng)
        for offset in (0.0, -beside[i], beside[i]):
            moved = X + offset * w
            inside = moved[box.contains(moved)][:1]
            points.append(inside)
            units += [i] * len(inside)
    return np.vstack(points), np.array(units, dtype=int)


def points_on_kinks(network: Network, box: Box, rng: np.random.Generator) -> Array:
    """Several points on the hyperplane of every unit, in the box, where they can be had."""
    found = [np.empty((0, network.features))]
    for w, b in _hyperplanes(network):
        X = _on_hyperplane(w, b, box, rng)
        found.append(X[box.contains(X)][:ON_A_KINK])
    return np.vstack(found)


def points_across_kinks(
    network: Network, allowed: Array, box: Box, rng: np.random.Generator, times: float
) -> tuple[Array, AnyArray]:
    """A point on the hyperplane of every unit and on both sides at several distances, in the box.

    And whose they are. Two close units of one sign are off where their kink as one is. Two of
    opposite signs are not: `a relu(z) - b relu(z - e)` is far out one unit that switches elsewhere,
    at `-b e / (a - b)`, and off between there and e. Somewhere among distances of a fixed ratio
    that shows, unless it is less than what answers may be off by. The place on the hyperplane,
    `times` as far from the centre as usual inputs are, is that with most room between the others.
    """
    found, units = [np.empty((0, network.features))], []
    slopes = np.abs(np.atleast_2d(network.output_weights)) * np.linalg.norm(network.weights, axis=1)
    with np.errstate(divide="ignore"):
        least = np.min(allowed[:, None] / slopes, axis=0)
    planes = _hyperplanes(network)
    for i, ((w, b), near) in enumerate(zip(planes, least, strict=True)):
        X = _on_hyperplane(w, b, box, rng, times)
        X = X[box.contains(X)]
        if len(X) == 0:
            continue
        rooms = _rooms_along(X, i, planes)
        far = FARTHEST_BESIDE_A_KINK * float(np.linalg.norm(w * box.width))
        distances = far * BESIDE_A_KINK ** -np.arange(BESIDE_EITHER_SIDE)
        distances = distances[(distances > near) & (distances < SAFE * rooms.max())]
        offsets = np.concatenate([-distances, [0.0], distances])
        moved = X[int(np.argmax(rooms))] + offsets[:, None] * w
        inside = moved[box.contains(moved)]
        found.append(inside)
        units += [i] * len(inside)
    return np.vstack(found), np.array(units, dtype=int)


def _rooms_along(X: Array, own: int, planes: list[tuple[Array, float]]) -> Array:
    """How far from every point, along the normal of its hyperplane, the nearest other one is."""
    W, b = (np.array(part) for part in zip(*planes, strict=True))
    away, towards = np.abs(X @ W.T + b), np.abs(W @ W[own])
    others = np.arange(len(b)) != own
    return np.asarray((away / (towards + TINIEST))[:, others].min(axis=1, initial=np.inf))


def points_farther_out(box: Box, rng: np.random.Generator) -> Array:
    """Inputs beyond usual ones, or corners of the box: rare units are on there."""
    if not box.unlimited:
        return box.corners(ROUNDED_CORNERS, rng)
    return np.vstack([times * box.sample(ROUNDED_FAR_POINTS, rng) for times in FAR_OUT])


def _hyperplanes(network: Network) -> list[tuple[Array, float]]:
    """Weights of norm 1 and bias of every unit."""
    sizes = np.linalg.norm(network.weights, axis=1)
    rows = network.weights / sizes[:, None], network.biases / sizes
    return list(zip(*rows, strict=True))


def _on_hyperplane(
    w: Array, b: float, box: Box, rng: np.random.Generator, times: float = 1.0
) -> Array:
    """Points of a hyperplane near random ones in the box; in the box, if that can be had.

    Going from the box to the hyperplane and back again ends where they meet.
    """
    X = times * box.sample(KINK_TRIES, rng)
    for _ in range(KINK_TRIES):
        X = X - np.outer(X @ w + b, w)
        if box.contains(X).any():
            break
        X = box.nearest(X)
    return X
