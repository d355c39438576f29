"""The profile of what fires across a threshold: one Gaussian step, two, or none."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import near, parity
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.lowest_layer.bands.profile import fit_profile, lowest_share_past, measure_profile
from provenet.lowest_layer.bands.queries import QueriedBands, SampleBands
from provenet.networks.hermite import normal_cdf
from provenet.networks.layered import LayeredNetwork, lowest_layer, union

D = 5


def stepped(
    n: int, floor: float, offset: float, width: float, seed: int, reach: float = 4.0
) -> tuple[Array, Array]:
    """Offsets spread evenly about a Gaussian step, and what fires on it."""
    rng = np.random.default_rng(seed)
    s = offset + width * reach * rng.uniform(-1, 1, n)
    p = floor + (1 - floor) * normal_cdf((s - offset) / width)
    return s, (rng.random(n) < p).astype(float)


def union_of(W: Array, threshold: float) -> LayeredNetwork:
    return LayeredNetwork(lowest_layer(W, threshold, "step"), union)


@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_fit_within_its_standard_errors(floor: float) -> None:
    """Scores over 50 seeds have a root mean square of one, which strays by 0.1."""
    offset, width = 2.1, 0.05
    places, widths, floors, tests = [], [], [], []
    for seed in range(50):
        s, fired = stepped(800, floor, offset, width, seed)
        # A guess that is off by as much as the search may make it.
        found = fit_profile(s, fired, offset + 0.7 * width, 1.4 * width)
        places.append((found.offset - offset) / found.offset_error)
        widths.append((found.width - width) / found.width_error)
        floors.append(found.floor - floor)
        tests.append(found.p_value)
        assert found.one_step
        assert found.width_error / found.width < 0.2
    for scores in (places, widths):
        assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.3
    assert abs(np.mean(floors)) < 0.02  # shares of some 200 inputs, 50 times: 0.005
    # Under one step small p-values are as rare as they say: 5 of 50 below 0.1, give or take 2.
    assert np.mean(np.array(tests) < 0.1) < 0.3
    np.testing.assert_allclose(
        found.probability(np.array([offset - 1, offset + 1])), [found.floor, 1], atol=1e-9
    )


def test_levels_alone_tell_the_width_less_well() -> None:
    """As many inputs in all as two bands of Algorithm 2, with a smaller error."""
    s, fired = stepped(1000, 0.0, 2.0, 0.1, 0)
    found = fit_profile(s, fired, 2.0, 0.1)
    assert found.width_error / found.width < 0.6 * 3.54 / np.sqrt(500)


def test_two_steps_are_not_one() -> None:
    """The mean of two steps four widths apart bends by 0.1 at most; 4000 inputs show it."""
    for seed in range(10):
        first, second = (stepped(2000, 0.0, 2.0 + side, 0.05, seed) for side in (-0.1, 0.1))
        s = np.concatenate([first[0], second[0]])
        fired = np.concatenate([first[1], second[1]])
        found = fit_profile(s, fired, 2.0, 0.1)
        assert not found.one_step
        assert found.misfit > 0.03 and found.p_value < 1e-4


def test_one_stray_label_changes_little() -> None:
    s, fired = stepped(2000, 0.0, 2.0, 0.1, 3)
    clean = fit_profile(s, fired, 2.0, 0.1)
    stray = fit_profile(np.append(s, 2.39), np.append(fired, 0.0), 2.0, 0.1)
    assert abs(stray.width - clean.width) < clean.width_error


@pytest.mark.parametrize("guess", [(2.0, 1 / 30), (2.02, 8.0), (1.9, 2.0)])
def test_the_window_finds_the_step(guess: tuple[float, float]) -> None:
    """Guesses of the width that are wrong by 30 and by 8, and one of the place."""
    rng = np.random.default_rng(4)
    w = np.eye(D)[0]
    oracle = QueriedBands(union_of(w[None], 2.0), D, rng=1)
    angle = 0.03
    z = near(w, angle, rng)
    found = measure_profile(oracle, z, guess[0], guess[1] * angle, 1000, 2)
    assert found.width == pytest.approx(np.tan(angle), abs=4 * found.width_error)
    assert found.offset == pytest.approx(2 / np.cos(angle), abs=4 * found.offset_error)
    assert found.width_error < 0.15 * found.width


def test_too_few_samples_name_how_many_would_do() -> None:
    rng = np.random.default_rng(5)
    w = np.eye(D)[0]
    X = rng.standard_normal((2000, D))
    oracle = SampleBands(ArraySource(X, union_of(w[None], 2.0)(X)))
    with pytest.raises(NoAnswer, match=r"samples lie near the threshold.*times as many samples\.$"):
        measure_profile(oracle, w, 2.0, 0.01, 100, 0)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_no_step_has_no_answer(label: float) -> None:
    oracle = QueriedBands(lambda X: np.full(len(X), label), D, silent=0.0)
    with pytest.raises(NoAnswer, match=r"no threshold along this direction.*\.$"):
        measure_profile(oracle, np.eye(D)[0], 2.0, 0.1, 500, 0)


def test_past_a_threshold_a_monotone_top_always_fires() -> None:
    rng = np.random.default_rng(6)
    W = np.linalg.qr(rng.standard_normal((D, D)))[0]
    z = near(W[0], 0.05, rng)
    monotone = QueriedBands(union_of(W, 1.0), D, rng=1)
    profile = measure_profile(monotone, z, 1.0, 0.05, 2000, 2)
    assert lowest_share_past(monotone, z, profile, 2000, 3) > 0.999  # Phi^c(4) of 8000 do not
    # Of four others at t = 1 an odd number fires on 39 percent, and takes the label back to zero.
    other = QueriedBands(LayeredNetwork(lowest_layer(W, 1.0, "step"), parity), D, silent=0.0)
    with pytest.raises(NoAnswer, match=r"only \d\d% .*monotone P.*gradient-search.*\.$"):
        lowest_share_past(other, z, profile, 2000, 3)
