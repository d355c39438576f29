"""Rows that are known nearly: measured again where there is room, and polished together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from layered_problems import frame_of, kink_of
from provenet.common.exceptions import TimeSpent
from provenet.common.typing import Array
from provenet.extraction import deadline
from provenet.extraction.deadline import OVER, Deadline
from provenet.extraction.layers import polish
from provenet.extraction.layers.first_layer import ask_for_rows, rows_from_gradients
from provenet.extraction.layers.known import Frame, KnownLayer, KnownLayers
from provenet.extraction.layers.near_exact import NearlyExact, Newton, WeightedSamples
from provenet.extraction.layers.pieces import Measuring, axis_gradient
from provenet.extraction.layers.polish import polished
from provenet.extraction.layers.remeasure import Nearly, remeasured
from provenet.extraction.layers.settling import SettledLayers, settled
from provenet.extraction.layers.telling import most_telling
from provenet.extraction.layers.tolerances import LAYERS_BOUND, MANY_ANSWERS, POLISHED_TO

OFF = 1e-7
"""What the rows are perturbed by, relatively."""
AGAIN = 1e-10
"""What is allowed after: rounding of 1e-15 over steps of about 1e-2 and jumps of 1e-1, stretched by
cells that are not round by up to 100."""
LIVELY = {1: (1, 4, 8, 12, 13), 3: (4, 9, 11, 12, 14)}
"""By outputs: seeds of 6-5-4 networks all of whose units are on for a fair part of all inputs."""
LIVELY_IN_12 = (0, 1, 2)
"""Seeds of such 12-5-4-1 networks."""
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


def nearly(
    net: pn.DeepNetwork, off: float, rng: np.random.Generator, *, outside: bool = False
) -> tuple[Frame, Nearly]:
    """All rows off by so much; those of the first layer in the space they span, unless said."""
    frame, layers, places = frame_of(net), list[KnownLayer](), list[Array]()
    for number, (W, b) in enumerate(net.affine_maps[:-1]):
        W = W + off * rng.standard_normal(W.shape) / np.sqrt(W.shape[1])
        layers.append(KnownLayer.of(W, b + off * rng.standard_normal(len(b))))
        places.append(np.array([kink_of(net, number, unit, rng) for unit in range(len(W))]))
    first = layers[0].W
    frame = frame.in_row_space(first if outside else net.weights[0])
    if frame.Q is not None:
        first = first @ frame.Q @ frame.Q.T
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
    after = remeasured(frame, before, rng)
    assert largest_off(after, net) < AGAIN
    assert max(float(errors.max()) for errors in after.errors) < AGAIN
    W = after.known.layers[0].W
    np.testing.assert_allclose(W if frame.Q is None else W @ frame.Q.T, after.first, atol=1e-12)


@pytest.mark.parametrize("seed", LIVELY[1])
def test_stated_errors_are_not_far_below_the_true_ones(seed: int) -> None:
    """A typical error is stated: the largest of thirty weights may be ten times as large."""
    net, rng = normalised(deep(6, 5, 4, 1, rng=seed)), np.random.default_rng(seed)
    after = remeasured(*nearly(net, OFF, rng), rng)
    stated = max(float(errors.max()) for errors in after.errors)
    assert stated > largest_off(after, net) / 10


def test_rows_that_are_known_well_are_left_as_they_are() -> None:
    net, rng = normalised(deep(6, 5, 4, 1, rng=1)), np.random.default_rng(0)
    frame, before = nearly(net, 0.0, rng)
    after = remeasured(frame, before, rng)
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


def kinks_of(net: pn.DeepNetwork, rng: np.random.Generator) -> Array:
    """A place on the kink of every unit."""
    return np.array(
        [
            kink_of(net, number, unit, rng)
            for number, width in enumerate(net.widths)
            for unit in range(width)
        ]
    )


@pytest.mark.parametrize(("outputs", "seed"), CASES)
def test_polishing_finds_the_network_from_nearby(outputs: int, seed: int) -> None:
    """What it lacks it asks for; its stated error is one deviation, so true ones are near it."""
    net, rng = rows_of(normalised(deep(6, 5, 4, outputs, rng=seed))), np.random.default_rng(seed)
    frame = frame_of(net)
    frame(2 * rng.standard_normal((50, 6)))
    found = polished(frame, changed(net, 1e-8, rng), kinks_of(net, rng), 1e-7, rng)
    assert found is not None
    off = pn.parameter_error(found.network, net)
    assert off < 1e-11 and off / 10 < found.error <= POLISHED_TO


def asked_to_polish(net: pn.DeepNetwork, gradients: int, seed: int) -> tuple[int, float]:
    """How many answers polishing asks for, and the error that it leaves, in the row space."""
    rng = np.random.default_rng(seed)
    frame = frame_of(net).in_row_space(net.weights[0])
    assert frame.Q is not None
    own = net.replace(weights=(net.weights[0] @ frame.Q, *net.weights[1:]))
    frame(2 * rng.standard_normal((20, frame.coordinates)))
    for x in rng.standard_normal((gradients, net.features)):
        axis_gradient(frame, x, np.full(net.features, 1e-2))
    before = sum(len(X) for X, _ in frame.kept)
    places = frame.coordinates_of(kinks_of(net, rng))
    found = polished(frame, changed(own, 1e-8, rng), places, 1e-7, rng)
    assert found is not None
    return sum(len(X) for X, _ in frame.kept) - before, pn.parameter_error(found.network, own)


@pytest.mark.parametrize("seed", LIVELY_IN_12)
def test_gradients_outside_of_the_row_space_spare_answers_in_it(seed: int) -> None:
    net = rows_of(normalised(deep(12, 5, 4, 1, rng=seed)))
    (without, _), (beside, off) = (asked_to_polish(net, number, seed) for number in (0, 30))
    assert beside < without / 2 and off < 1e-10


def test_a_weight_that_no_answer_tells_has_the_error_that_it_had() -> None:
    """A unit that feeds no other: its weights could be any."""
    net, rng = rows_of(normalised(deep(6, 5, 4, 1, rng=1))), np.random.default_rng(0)
    weights = [W.copy() for W in net.weights]
    weights[1][:, 0] = 0.0
    net = net.replace(weights=weights)
    frame = frame_of(net)
    frame(rng.standard_normal((20, 6)))
    found = polished(frame, net, np.zeros((1, 6)), 1e-7, rng)
    assert found is not None and found.error > 1e-8


@pytest.mark.parametrize(("outputs", "seed"), CASES[1:])  # of the first a unit shows nowhere
def test_the_most_telling_points_make_all_rows_known(outputs: int, seed: int) -> None:
    """By the matrix with their answers, which is not formed there; as many by chance do not.

    Three times the error that all points together would leave is wanted. A choice may miss it, for
    it estimates by a few random steps: as in `polished` there is another round then (in half of the
    choices; three were always enough on 80).
    """
    net, rng = rows_of(normalised(deep(6, 5, 4, outputs, rng=seed))), np.random.default_rng(0)
    X, pool = rng.standard_normal((30, 6)), 2 * rng.standard_normal((400, 6))

    def known_by(points: Array) -> NearlyExact:
        samples = WeightedSamples.values(points, net(points), np.ones(len(points)))
        return Newton(net, samples, 1e-8, 1e-12).as_it_is()

    wanted = 3 * known_by(np.vstack([X, pool])).errors.largest
    chosen, choice = list[int](), np.random.default_rng(1)
    for _ in range(3):
        known = known_by(np.vstack([X, pool[chosen]]))
        found = most_telling(known, pool, np.ones(400), wanted, 200, choice)
        assert len(found) == len(set(found))
        chosen += found
    assert len(chosen) < 200
    assert known_by(np.vstack([X, pool[chosen]])).errors.largest <= wanted
    assert known_by(np.vstack([X, pool[: len(chosen)]])).errors.largest > 1.5 * wanted


def test_rows_that_no_point_tells_end_the_choice() -> None:
    """A unit that is off at all points: the others are served, and it is left."""
    net, rng = rows_of(normalised(deep(6, 5, 4, 1, rng=1))), np.random.default_rng(0)
    biases = [net.biases[0] - np.array([1e3, 0, 0, 0, 0]), *net.biases[1:]]
    net = net.replace(biases=biases)
    X, pool = rng.standard_normal((30, 6)), rng.standard_normal((100, 6))
    fits = Newton(net, WeightedSamples.values(X, net(X), np.ones(30)), 1e-3, 1e-12)
    assert len(most_telling(fits.as_it_is(), pool, np.ones(100), 1e-3, 90, rng)) < 90


@pytest.mark.parametrize(("outputs", "seed"), CASES)
def test_large_networks_are_polished_on_many_answers_and_none_is_chosen(
    outputs: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several outputs at few inputs may leave something open: then the stated error says so."""
    net, rng = rows_of(normalised(deep(6, 5, 4, outputs, rng=seed))), np.random.default_rng(seed)
    monkeypatch.setattr(polish, "LARGE", 10)
    monkeypatch.setattr(polish, "most_telling", None)
    frame = frame_of(net)
    frame(2 * rng.standard_normal((5, 6)))
    found = polished(frame, changed(net, 1e-8, rng), kinks_of(net, rng), 1e-7, rng)
    assert found is not None and (found.error <= POLISHED_TO or outputs > 1)
    assert pn.parameter_error(found.network, net) <= LAYERS_BOUND * found.error
    asked = sum(len(X) for X, _ in frame.kept)
    assert outputs * asked >= MANY_ANSWERS * sum(W.size + len(b) for W, b in net.affine_maps)


def test_networks_that_are_too_large_are_not_polished() -> None:
    net = rows_of(normalised(deep(90, 80, 30, 1, rng=0)))
    found = polished(frame_of(net), net, np.zeros((1, 90)), 1e-7, np.random.default_rng(0))
    assert found is None


# ---------------------------------------------------------------- the first layer and the whole


def settled_from_gradients(seed: int, off: float) -> tuple[pn.DeepNetwork, SettledLayers]:
    """A 12-5-4-1 network, known nearly and by two gradients a unit of the first layer."""
    net, rng = normalised(deep(12, 5, 4, 1, rng=seed)), np.random.default_rng(seed)
    frame, before = nearly(net, off, rng, outside=True)
    for x in rng.standard_normal((10, 12)):
        axis_gradient(frame, x, np.full(12, 1e-4))
    return net, settled(frame, before, net.biases[-1], rng)


@pytest.mark.parametrize("seed", LIVELY_IN_12)
def test_the_whole_is_settled_in_the_row_space_and_across_it(seed: int) -> None:
    """Rows are off by 1e-7 in all directions, those across the row space too."""
    net, found = settled_from_gradients(seed, OFF)
    assert found.frame.Q is not None
    off = pn.parameter_error(found.network, net)
    assert off < 1e-10 and off / 10 < found.error < 1e-10


@pytest.mark.parametrize("seed", LIVELY_IN_12)
@pytest.mark.parametrize("known", [True, False])
def test_of_large_networks_the_layers_above_a_known_first_are_polished(
    monkeypatch: pytest.MonkeyPatch, seed: int, known: bool
) -> None:
    """59 parameters in the row space, 29 of them above the first layer."""
    monkeypatch.setattr(polish, "MOST_POLISHED", 40)
    net, rng = normalised(deep(12, 5, 4, 1, rng=seed)), np.random.default_rng(seed)
    frame, before = nearly(net, 0.0, rng)
    for x in rng.standard_normal((10, 12)):
        axis_gradient(frame, x, np.full(12, 1e-3))
    below, above = before.known.layers
    W = above.W + OFF * rng.standard_normal(above.W.shape)
    layers = KnownLayers(5, (below, KnownLayer.of(W, above.b)))
    errors = np.full(5, 1e-12 if known else OFF), np.full(4, OFF)
    nearly_all = replace(before, known=layers, errors=errors)
    found = settled(frame, nearly_all, net.biases[-1], np.random.default_rng(1))
    off = pn.parameter_error(found.network, net)
    assert found.polished == known and (off < 1e-10) == known
    assert off / 10 < found.error and (found.error < 1e-10) == known


def test_gradients_tell_the_rows_where_the_layers_above_are_known() -> None:
    net, rng = normalised(deep(12, 5, 4, 1, rng=LIVELY_IN_12[0])), np.random.default_rng(0)
    frame = frame_of(net)
    for x in rng.standard_normal((20, 12)):
        axis_gradient(frame, x, np.full(12, 1e-4))
    W = net.weights[0] + OFF * rng.standard_normal(net.weights[0].shape)
    found = rows_from_gradients(frame, net.replace(weights=(W, *net.weights[1:])))
    off = np.linalg.norm(found.W - net.weights[0], axis=1)
    assert (off < 10 * found.errors).all() and off.max() < OFF / 100


def test_a_gradient_measured_over_a_kink_spoils_no_row() -> None:
    """It is off by 1e-5: too little to be refuted, and far more than what rounding makes."""
    net, rng = normalised(deep(12, 5, 4, 1, rng=LIVELY_IN_12[0])), np.random.default_rng(0)
    frame = frame_of(net)
    for x in rng.standard_normal((20, 12)):
        axis_gradient(frame, x, np.full(12, 1e-4))
    true = rows_from_gradients(frame, net)
    bad = frame.gradients[3]
    bump = 1e-5 * np.abs(bad.along).max() * rng.uniform(-1, 1, bad.along.shape)
    frame.gradients[3] = replace(bad, along=bad.along + bump)
    found = rows_from_gradients(frame, net)
    assert np.abs(found.W - true.W).max() < AGAIN and found.level < 10 * true.level


@pytest.mark.parametrize(("gradients", "measured"), [(6, False), (20, True)])
def test_gradients_to_spare_tell_how_large_rounding_is(gradients: int, measured: bool) -> None:
    """Of 12 inputs and 5 units; it is less than was taken for granted, and rows are known by it."""
    net, rng = normalised(deep(12, 5, 4, 1, rng=LIVELY_IN_12[0])), np.random.default_rng(1)
    frame = frame_of(net)
    for x in rng.standard_normal((gradients, 12)):
        axis_gradient(frame, x, np.full(12, 1e-4))
    assert (rows_from_gradients(frame, net).level < 1) == measured


def test_gradients_in_the_span_of_others_cost_only_its_directions() -> None:
    """Of 20 pieces of a line, some five tell the span of five rows in 30 inputs."""
    net, rng = normalised(deep(30, 5, 4, 1, rng=1)), np.random.default_rng(1)
    frame, asked = frame_of(net), 0
    measuring = Measuring(frame, KnownLayers(30), rng)
    for x in rng.standard_normal((20, 30)):
        piece = measuring.at(x, 0.05)
        if piece is not None:
            asked += 1
            on = net.values(x[None], 0)[0] > 0
            above = net.values(x[None], 1)[0] > 0
            g = (net.weights[2] * above) @ (net.weights[1] * on) @ net.weights[0]
            assert np.abs(piece.g - g).max() < 1e-9
    assert asked > 15 and len(measuring.span.rows) == 5 and len(frame.gradients) < 10


# ---------------------------------------------------------------- time


def test_no_long_loop_goes_on_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two questions: every look at the clock takes a second, and nothing else does."""
    looks = iter(range(1000))
    monkeypatch.setattr(deadline, "now", lambda: float(next(looks)))
    net, rng = rows_of(normalised(deep(6, 5, 4, 1, rng=1))), np.random.default_rng(0)
    frame = frame_of(net)
    frame(2 * rng.standard_normal((200, 6)))
    frame.deadline = Deadline(4.5, 4.5)
    with pytest.raises(TimeSpent):
        polished(frame, changed(net, 1e-8, rng), kinks_of(net, rng), 1e-7, rng)
    assert next(looks) == 6  # once over, nothing looked again


def test_after_the_deadline_nothing_is_measured_again() -> None:
    net, rng = normalised(deep(12, 5, 4, 1, rng=1)), np.random.default_rng(0)
    frame, before = nearly(net, OFF, rng)
    axis_gradient(frame, rng.standard_normal(12), np.full(12, 1e-4))
    frame.deadline, kept = OVER, len(frame.kept)
    with pytest.raises(TimeSpent):
        remeasured(frame, before, rng)
    with pytest.raises(TimeSpent):
        ask_for_rows(frame, net, rows_from_gradients(frame, net), 1e-10, rng)
    assert len(frame.kept) == kept
