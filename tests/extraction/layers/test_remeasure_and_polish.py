"""Rows that are known nearly: measured again where there is room, and polished together."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from layered_problems import frame_of, kink_of
from provenet.common.typing import Array
from provenet.extraction.layers.known import Frame, KnownLayer, KnownLayers
from provenet.extraction.layers.polish import ask_for_polish, polished
from provenet.extraction.layers.remeasure import Nearly, remeasured

OFF = 1e-7
"""What the rows are perturbed by, relatively."""
AGAIN = 1e-10
"""What is allowed after: rounding of 1e-15 over steps of about 1e-2 and jumps of 1e-1, stretched by
cells that are not round by up to 100."""
LIVELY = {1: (1, 4, 8, 12, 13), 3: (4, 9, 11, 12, 14)}
"""By outputs: seeds of 6-5-4 networks all of whose units are on for a fair part of all inputs."""
CASES = [(outputs, seed) for outputs, seeds in LIVELY.items() for seed in seeds]


def normalised(net: pn.DeepNetwork) -> pn.DeepNetwork:
    """Rows of norm 1 in the hidden layers, units in the order they had."""
    weights, biases = [W.copy() for W in net.weights], [b.copy() for b in net.biases]
    for number in range(net.layers):
        size = np.linalg.norm(weights[number], axis=1)
        weights[number] /= size[:, None]
        biases[number] /= size
        weights[number + 1] *= size
    return net.replace(weights=weights, biases=biases)


def nearly(net: pn.DeepNetwork, off: float, rng: np.random.Generator) -> tuple[Frame, Nearly]:
    """All rows off by so much, in the coordinates of the first layer as it is known then."""
    frame, layers, places = frame_of(net), list[KnownLayer](), list[Array]()
    for number, (W, b) in enumerate(net.affine_maps[:-1]):
        W = W + off * rng.standard_normal(W.shape) / np.sqrt(W.shape[1])
        layers.append(KnownLayer.of(W, b + off * rng.standard_normal(len(b))))
        places.append(np.array([kink_of(net, number, unit, rng) for unit in range(len(W))]))
    first = layers[0].W
    frame = frame.in_row_space(first)
    layers[0] = KnownLayer.of(first if frame.Q is None else first @ frame.Q, layers[0].b)
    known = KnownLayers(frame.coordinates, tuple(layers))
    errors = tuple(np.full(len(layer.W), off) for layer in layers)
    return frame, Nearly(
        known, first, net.weights[-1], errors, tuple(frame.coordinates_of(U) for U in places)
    )


def largest_off(found: Nearly, net: pn.DeepNetwork) -> float:
    """The largest error of any row, of norm 1, or bias."""
    worst = 0.0
    for number, (W, b) in enumerate(net.affine_maps[:-1]):
        own = found.known.layers[number].W if number else found.first
        size = np.linalg.norm(own, axis=1)
        bias = found.known.layers[number].b / size
        worst = max(worst, np.abs(own / size[:, None] - W).max(), np.abs(bias - b).max())
    return float(worst)


@pytest.mark.parametrize(("outputs", "seed"), CASES)
def test_rows_measured_again_are_better_by_far(outputs: int, seed: int) -> None:
    net, rng = normalised(deep(6, 5, 4, outputs, rng=seed)), np.random.default_rng(seed)
    frame, before = nearly(net, OFF, rng)
    assert largest_off(before, net) > OFF / 10
    frame, after = remeasured(frame, before, rng)
    assert largest_off(after, net) < AGAIN
    assert max(float(errors.max()) for errors in after.errors) < AGAIN
    W = after.known.layers[0].W
    np.testing.assert_allclose(W if frame.Q is None else W @ frame.Q.T, after.first, atol=1e-12)


@pytest.mark.parametrize("seed", LIVELY[1])
def test_stated_errors_are_not_far_below_the_true_ones(seed: int) -> None:
    """A typical error is stated: the largest of thirty weights may be ten times as large."""
    net, rng = normalised(deep(6, 5, 4, 1, rng=seed)), np.random.default_rng(seed)
    _, after = remeasured(*nearly(net, OFF, rng), rng)
    stated = max(float(errors.max()) for errors in after.errors)
    assert stated > largest_off(after, net) / 10


def test_rows_that_are_known_well_are_left_as_they_are() -> None:
    net, rng = normalised(deep(6, 5, 4, 1, rng=1)), np.random.default_rng(0)
    frame, before = nearly(net, 0.0, rng)
    _, after = remeasured(frame, before, rng)
    np.testing.assert_array_equal(after.first, before.first)
    np.testing.assert_array_equal(after.known.layers[1].W, before.known.layers[1].W)
    assert largest_off(after, net) < 1e-12  # biases are measured again all the same


# ---------------------------------------------------------------- polishing


def changed(net: pn.DeepNetwork, off: float, rng: np.random.Generator) -> pn.DeepNetwork:
    """All parameters off by so much, outputs in rows."""
    weights = [W + off * rng.standard_normal(W.shape) for W in net.weights]
    biases = [b + off * rng.standard_normal(b.shape) for b in net.biases]
    return pn.DeepNetwork(weights, biases, outputs=len(weights[-1]))


def rows_of(net: pn.DeepNetwork) -> pn.DeepNetwork:
    """The same with the outputs in rows, also a single one."""
    return pn.DeepNetwork(net.weights, net.biases, outputs=len(net.weights[-1]))


@pytest.mark.parametrize(("outputs", "seed"), CASES)
def test_polishing_finds_the_network_from_nearby(outputs: int, seed: int) -> None:
    net, rng = rows_of(normalised(deep(6, 5, 4, outputs, rng=seed))), np.random.default_rng(seed)
    U = 2 * rng.standard_normal((400, 6))
    found = polished(changed(net, 1e-8, rng), U, net(U))
    assert found is not None and found.below == 0
    off = pn.parameter_error(found.network, net)
    assert off < 1e-12 and found.error > off / 100  # an error of a row; `off` sums three parts


def test_too_few_answers_are_not_polished() -> None:
    net, rng = rows_of(normalised(deep(6, 5, 4, 1, rng=1))), np.random.default_rng(0)
    U = rng.standard_normal((net.free_parameters, 6))
    assert polished(net, U, net(U)) is None


def test_answers_that_leave_a_weight_free_have_no_error() -> None:
    """One unit of the first layer is off at all points: its weights could be any."""
    net, rng = rows_of(normalised(deep(6, 5, 4, 1, rng=1))), np.random.default_rng(0)
    U = 2 * rng.standard_normal((2000, 6))
    U = U[net.values(U, 0)[:, 0] == 0]
    found = polished(net, U, net(U))
    assert found is None or np.isinf(found.error)


def test_every_weight_is_asked_for() -> None:
    """From answers at which one unit is never on: at those asked for it is."""
    net, rng = rows_of(normalised(deep(6, 5, 4, 1, rng=1))), np.random.default_rng(0)
    U = 2 * rng.standard_normal((300, 6))
    frame = frame_of(net)
    frame(U[net.values(U, 0)[:, 0] == 0])
    ask_for_polish(frame, net, np.array([kink_of(net, 0, 0, rng)]), rng)
    assert (net.values(frame.answers()[0], 0)[:, 0] > 0).sum() >= 3
    found = polished(changed(net, 1e-8, rng), *frame.answers())
    assert found is not None and pn.parameter_error(found.network, net) < 1e-11
