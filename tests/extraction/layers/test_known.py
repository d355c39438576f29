"""Known layers: values, slopes, room, switches and cells, each by a second route."""

from __future__ import annotations

import numpy as np
import pytest

from deep_searches import deep
from layered_problems import Asked, frame_of, kink_of, layers_of
from provenet.common.typing import Array
from provenet.extraction.box import Box
from provenet.extraction.layers import known as known_module
from provenet.extraction.layers.known import Frame, KnownLayer, KnownLayers

SIZES = (4, 7, 5, 3, 1)
NETS = [deep(*SIZES, rng=seed) for seed in range(5)]
ROUNDING = 1e-12
"""Some thousand units in the last place: sums of tens of numbers near 1, three layers deep."""


def all_inputs(known: KnownLayers, U: Array) -> Array:
    """What every unit of every layer gets, side by side."""
    z = []
    for number, layer in enumerate(known.layers):
        z.append(known.below(number).h(U) @ layer.W.T + layer.b)
    return np.hstack(z)


@pytest.mark.parametrize("seed", range(5))
def test_values_are_those_of_the_network(seed: int) -> None:
    net, U = NETS[seed], np.random.default_rng(seed).standard_normal((50, 4))
    for number in (1, 2, 3):
        known = layers_of(net, number)
        assert known.units == SIZES[number]
        np.testing.assert_allclose(known.h(U), net.values(U, number - 1), atol=ROUNDING)
        np.testing.assert_allclose(known.state(U).h, known.h(U), atol=ROUNDING)
    nothing = KnownLayers(4)
    assert nothing.units == 4 and np.isinf(nothing.state(U).room).all()
    np.testing.assert_array_equal(nothing.h(U), U)


@pytest.mark.parametrize("seed", range(5))
def test_slopes_are_finite_differences(seed: int) -> None:
    """Inside a cell h is linear: a difference over half the room is off by rounding alone."""
    known, U = layers_of(NETS[seed], 3), np.random.default_rng(seed).standard_normal((50, 4))
    state = known.state(U)
    for u, J, room in zip(U, state.J, state.room, strict=True):
        steps = 0.5 * room * np.eye(4)
        slopes = (known.h(u + steps) - known.h(u - steps)) / room
        np.testing.assert_allclose(J.T, slopes, atol=1e-14 / room + ROUNDING)


@pytest.mark.parametrize("seed", range(5))
def test_room_is_the_distance_to_the_nearest_switch(seed: int) -> None:
    """No sign changes within it; straight down some unit's slope one does just beyond it."""
    rng, known = np.random.default_rng(seed), layers_of(NETS[seed], 3)
    for u in rng.standard_normal((20, 4)):
        room, signs = known.state(u[None]).room[0], all_inputs(known, u[None]) > 0
        ways = rng.standard_normal((2000, 4))
        ways /= np.linalg.norm(ways, axis=1, keepdims=True)
        assert ((all_inputs(known, u + 0.999 * room * ways) > 0) == signs).all()
        steps = 1e-4 * room * np.eye(4)
        slopes = all_inputs(known, u + steps) - all_inputs(known, u - steps)
        size = np.linalg.norm(slopes, axis=0)
        downhill = (slopes[:, size > 0] / size[size > 0]).T
        beyond = np.vstack([u + 1.001 * room * downhill, u - 1.001 * room * downhill])
        assert ((all_inputs(known, beyond) > 0) != signs).any()


def test_there_is_no_room_where_a_weight_is_not_known() -> None:
    (W, b), (W2, b2), *_ = NETS[0].affine_maps
    told = np.ones(W2.shape, dtype=bool)
    told[1, 3] = False
    known = KnownLayers(4, (KnownLayer.of(W, b), KnownLayer.of(W2, b2, told)))
    U = np.random.default_rng(0).standard_normal((200, 4))
    on = NETS[0].values(U, 0)[:, 3] > 0
    assert 0 < on.sum() < len(on)
    np.testing.assert_array_equal(known.state(U).room == 0, on)


def test_a_unit_on_whose_surface_one_stands_is_forced_and_no_limit() -> None:
    known = layers_of(NETS[1], 3)
    layer = known.layers[1]
    for unit in range(5):
        u = kink_of(NETS[1], 1, unit, np.random.default_rng(unit))
        assert known.state(u[None]).room[0] < ROUNDING
        sides = [known.state(u[None], (1, unit, side)) for side in (False, True)]
        across = layer.W[unit] @ known.below(1).state(u[None]).J[0]
        across /= np.linalg.norm(across)
        for side, sign in zip(sides, (-1, 1), strict=True):
            assert side.room[0] > 1e-6
            there = known.state((u + sign * 0.5 * side.room[0] * across)[None])
            np.testing.assert_allclose(there.J, side.J, atol=ROUNDING)


@pytest.mark.parametrize("seed", range(5))
def test_switches_are_where_signs_change(seed: int) -> None:
    """A scan in steps of 1e-3 brackets each of them; two in one step would be seen as none."""
    rng, known = np.random.default_rng(seed), layers_of(NETS[seed], 3)
    for _ in range(3):
        origin, direction = rng.standard_normal((2, 4))
        t = np.linspace(-6.0, 6.0, 12_001)
        signs = all_inputs(known, origin + t[:, None] * direction) > 0
        steps, units = np.nonzero(signs[1:] != signs[:-1])
        found = known.switches(origin, direction, -6.0, 6.0)
        assert len(found) >= len(units) > 5
        for step in steps:
            assert ((found >= t[step]) & (found <= t[step + 1])).any()
        near = np.abs(all_inputs(known, origin + found[:, None] * direction)).min(axis=1)
        assert near.max() < ROUNDING and (np.diff(found) >= 0).all()


def test_units_that_pass_everything_neither_switch_nor_limit() -> None:
    layer = KnownLayer(np.eye(2), np.zeros(2), np.ones((2, 2), dtype=bool), np.array([True, False]))
    known = KnownLayers(2, (layer,))
    np.testing.assert_array_equal(known.h(np.array([[-3.0, -2.0]])), [[-3.0, 0.0]])
    assert known.state(np.array([[-3.0, -20.0]])).room[0] == 20.0
    direction = np.array([1.0, 1.0])
    found = known.switches(np.array([0.5, 0.0]), direction, -1.0, 1.0)
    np.testing.assert_allclose(found, [0.0], atol=ROUNDING)


@pytest.mark.parametrize("seed", range(5))
def test_a_cell_is_where_its_pattern_is(seed: int) -> None:
    rng, known = np.random.default_rng(seed), layers_of(NETS[seed], 3)
    u, others = rng.standard_normal(4), rng.standard_normal((500, 4))
    pattern = known.patterns(u[None])
    J, c, M, m = known.affine([on[0] for on in pattern])
    others = np.vstack([others, u + 0.2 * others])
    same = np.all(
        [(on == p).all(axis=1) for on, p in zip(known.patterns(others), pattern, strict=True)],
        axis=0,
    )
    np.testing.assert_array_equal((others @ M.T + m > 0).all(axis=1), same)
    assert same.any()
    np.testing.assert_allclose(others[same] @ J.T + c, known.h(others[same]), atol=ROUNDING)


def test_a_frame_turns_coordinates_into_inputs_and_back() -> None:
    net = deep(6, 3, 2, 1, rng=0)
    base, rng = np.arange(6.0), np.random.default_rng(0)
    whole = Frame(Asked(net), base, None, Box.of(None, None, 6))
    frame = whole.in_row_space(net.weights[0])
    assert frame.Q is not None and frame.coordinates == 3
    np.testing.assert_allclose(frame.Q.T @ frame.Q, np.eye(3), atol=ROUNDING)
    X = rng.standard_normal((20, 6))
    U = frame.coordinates_of(X)
    np.testing.assert_allclose(frame(U)[:, 0], net(X), atol=ROUNDING)  # f depends on u alone
    np.testing.assert_allclose(frame.coordinates_of(frame.inputs(U)), U, atol=ROUNDING)
    kept, answers = frame.answers()
    np.testing.assert_allclose(kept, U, atol=ROUNDING)
    np.testing.assert_allclose(answers[:, 0], net(X), atol=ROUNDING)
    frame.beside(U)
    assert len(frame.kept) == 1
    again = frame.in_row_space(net.weights[0] + 1e-7)  # as near as can be to what it was
    assert again.Q is not None and np.abs(again.Q - frame.Q).max() < 1e-5
    assert frame_of(net).in_row_space(np.eye(6)).Q is None


def test_a_frame_stays_in_its_box() -> None:
    net, rng = deep(4, 3, 2, 1, rng=0), np.random.default_rng(0)
    box = Box.of(np.full(4, -2.0), np.full(4, 2.0), 4)
    frame = Frame(Asked(net), box.centre, None, box)
    U = frame.inside(5 * rng.standard_normal((100, 4)))
    assert len(U) == 100 and frame.contains(U).all()
    start = rng.uniform(-1, 1, 4)
    V = frame.inside(start + 5 * rng.standard_normal((100, 4)), start)
    assert frame.contains(V).all() and (np.abs(V).max(axis=1) > 2 - 1e-6).mean() > 0.9
    np.testing.assert_allclose(frame.inside(U / 2), U / 2)  # what lies inside stays
    assert frame.room(np.array([[0.0, 1.5, -1.9, 1.0]])) == pytest.approx([0.1])
    origin, direction = rng.uniform(-1, 1, (2, 4))
    low, high = frame.reach(origin, direction, 100.0)
    ends = frame.inputs(origin + np.array([[low], [high]]) * direction)
    assert box.contains(ends).all()
    np.testing.assert_allclose(np.abs(ends).max(axis=1), 2.0, atol=1e-8)  # less by a hair


def test_of_answers_close_to_others_those_in_the_row_space_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many as there is room for, which others do not take."""
    net, rng = deep(6, 3, 2, 1, rng=0), np.random.default_rng(1)
    W = net.weights[0]
    monkeypatch.setattr(known_module, "MOST_CLOSE", 6 * 5)
    frame = frame_of(net)
    frame.beside(np.vstack([rng.standard_normal((2, 3)) @ W, rng.standard_normal((2, 6))]))
    frame.beside(rng.standard_normal((2, 6)))  # too many
    found = frame.in_row_space(W)
    assert [len(X) for X, _ in frame.close.parts] == [4]
    assert [len(X) for X, _ in found.close.parts] == [2] and found.close.numbers == 12
    found.beside(rng.standard_normal((3, 3)))
    U, Y = found.in_space()
    assert len(U) == 5 and len(frame.close.parts) == 1
    np.testing.assert_allclose(net(found.inputs(U)).reshape(-1, 1), Y, atol=ROUNDING)
