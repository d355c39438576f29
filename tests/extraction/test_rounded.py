"""Rounded answers: units that lines show roughly, and least squares from there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import provenet as pn
from provenet.certify.answered import Answered
from provenet.common.typing import Array
from provenet.extraction import deadline, sampling
from provenet.extraction.box import Box
from provenet.extraction.deadline import NEVER
from provenet.extraction.probing import AnswerKind, Probe
from provenet.extraction.rounded import RoughUnits
from provenet.extraction.rounded_fit import FitOfUnits, network_from_lines

FEATURES, UNITS = 10, 8
NET = pn.random_network(UNITS, FEATURES, rng=3)
BOX = Box.of(None, None, FEATURES)
STEP = 1e-5


def decimals(X: Array) -> Array:
    """The network's answers to five decimals."""
    return np.asarray(np.round(NET(X), 5))


def single(X: Array) -> Array:
    """The network, computed in single precision."""
    W, b, a = (part.astype(np.float32) for part in (NET.weights, NET.biases, NET.output_weights))
    return np.asarray(np.maximum(X.astype(np.float32) @ W.T + b, 0) @ a)


def rough(seed: int = 0) -> RoughUnits:
    rng = np.random.default_rng(seed)
    return RoughUnits(
        lambda X: decimals(X)[:, None], BOX, rng, Probe(AnswerKind.ROUNDED, STEP / 3, STEP)
    )


def random_answers(size: int) -> Answered:
    X = np.random.default_rng(7).standard_normal((size, FEATURES))
    return Answered(X, decimals(X))


def least_squares(size: int) -> FitOfUnits:
    return FitOfUnits.of(random_answers(size), BOX, STEP / 3, NEVER)


def truth() -> Array:
    """Hyperplanes of the hidden units, rows of norm 1."""
    hidden = NET.canonical()
    return np.column_stack([hidden.weights, hidden.biases])


def apart(row: Array) -> float:
    """How far a hyperplane is from the nearest hidden one."""
    return float(min(np.abs(sign * row - truth()).max(axis=1).min() for sign in (1, -1)))


def test_lines_show_units_roughly_and_each_once() -> None:
    units = rough()
    first = units.follow_a_line()
    # Steps of 0.01 and more make 1e-3 of a rounding of 5e-6; two kinks that are one are far off.
    near = [apart(row) for row in units.theta]
    assert first >= UNITS - 2 and np.median(near) < 0.01
    later = [units.follow_a_line() for _ in range(5)]
    assert max(later) < first and len(units.b) < 2 * UNITS


def test_units_of_lines_lead_to_the_network() -> None:
    found = network_from_lines(rough(), random_answers, NEVER)
    assert found is not None and found.units == UNITS
    own = np.column_stack([found.weights, found.biases])
    own /= np.linalg.norm(found.weights, axis=1, keepdims=True)
    # Rounding of 3e-6 over hundreds of answers and units of size 0.3.
    assert max(apart(row) for row in own) < 1e-4


def test_units_that_are_there_twice_or_nowhere_are_dropped() -> None:
    rng = np.random.default_rng(0)
    twice = truth()[:2] + 0.02 * rng.standard_normal((2, FEATURES + 1))
    nowhere = rng.standard_normal((2, FEATURES + 1))
    far = np.append(nowhere[0, :-1] / np.linalg.norm(nowhere[0, :-1]), -4.0)
    start = np.vstack([truth(), twice, nowhere, far])
    found = least_squares(700).network(start)
    assert found is not None and found.units == UNITS


def test_without_a_unit_there_is_no_network() -> None:
    assert least_squares(500).network(truth()[1:]) is None


def test_a_box_far_from_zero_is_one_about_zero() -> None:
    """The network of inputs shifted and scaled, in the box that is."""
    centre, width = 100.0, np.geomspace(0.1, 10.0, FEATURES)
    box = Box.of(centre - 3 * width, centre + 3 * width, FEATURES)
    X = box.sample(500, np.random.default_rng(0))
    y = decimals((X - centre) / width)
    found = FitOfUnits.of(Answered(X, y), box, STEP / 3, NEVER).network(truth())
    assert found is not None
    assert np.abs(found(X) - y).max() < 10 * STEP


@pytest.mark.parametrize("model", [decimals, single])
def test_rounded_models_are_extracted_with_few_questions(
    model: Callable[[Array], Array],
) -> None:
    result = pn.extract(model, FEATURES, rng=0)
    assert result.success and result.network.units == UNITS
    assert result.queries is not None
    assert result.queries <= 10 * NET.free_parameters
    # Least squares averages over the rounding of some hundred answers.
    assert pn.parameter_error(result.network, NET) < 10 * STEP


def test_time_that_is_over_calls_no_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes seconds: what least squares has by then is returned, and not confirmed."""
    now, fewer = [0.0], FitOfUnits.with_fewer_units

    def slow(fits: FitOfUnits, network: pn.Network) -> pn.Network:
        now[0] += 10.0
        return fewer(fits, network)

    monkeypatch.setattr(deadline, "now", lambda: now[0])
    monkeypatch.setattr(FitOfUnits, "with_fewer_units", slow)
    monkeypatch.setattr(sampling, "recover_from", None)
    result = pn.extract(decimals, FEATURES, seconds=5.0, rng=0)
    assert result.status is pn.Status.PARTIAL and "not confirmed" in result.message
    assert "when the 5 s allowed were over: give more time with seconds=" in result.message
    X = np.random.default_rng(1).standard_normal((200, FEATURES))
    assert result.network.activation.name == "relu"
    assert np.abs(result.network(X) - NET(X)).max() < 10 * STEP


def test_lines_leave_most_of_a_budget() -> None:
    result = pn.extract(decimals, FEATURES, budget=150, rng=0)
    assert result.queries is not None and result.queries <= 150
    assert not result.success


def test_two_hyperplanes_in_one_place_are_no_success_where_answers_are_rounded() -> None:
    """A unit and its opposite are one unit and a linear term."""
    W, b = np.vstack([NET.weights, -NET.weights[:1]]), np.append(NET.biases, -NET.biases[0])
    both = pn.Network(W, b, np.append(NET.output_weights, 0.7 * NET.output_weights[0]))
    result = pn.extract(lambda X: np.round(both(X), 5), FEATURES, rng=0)
    assert not result.success


def _with(row: Array, bias: float, output: float) -> pn.Network:
    W, b = np.vstack([NET.weights, row]), np.append(NET.biases, bias)
    return pn.Network(W, b, np.append(NET.output_weights, output))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_close_pair_is_not_called_one_unit_where_answers_are_rounded(seed: int) -> None:
    """1e-3 apart, four decimals: far out along the kink they are 1e-2 apart, a hundred steps."""
    rng = np.random.default_rng(seed)
    w, b, a = NET.weights[0], NET.biases[0], NET.output_weights[0]
    beside = w + 1e-3 * np.linalg.norm(w) * rng.standard_normal(FEATURES)
    pair = _with(beside, b, (0.7 if seed % 2 else -0.6) * a)
    result = pn.extract(lambda X: np.round(pair(X), 4), FEATURES, budget=1200, rng=seed)
    assert not result.success or result.network.units == UNITS + 1


@pytest.mark.parametrize("seed", [1, 2])
def test_a_unit_far_out_is_not_missing_in_a_success_where_answers_are_rounded(seed: int) -> None:
    """Four deviations out it is on at one usual input in 30,000, and at a third of those asked."""
    w = np.random.default_rng(seed).standard_normal(FEATURES)
    far = _with(w, -4.0 * float(np.linalg.norm(w)), 1.0)
    result = pn.extract(lambda X: np.round(far(X), 4), FEATURES, budget=1200, rng=seed)
    assert not result.success or result.network.units == UNITS + 1


@pytest.mark.parametrize("digits", ["half precision", "four significant digits"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_floats_in_plain_numbers(digits: str, seed: int) -> None:
    """Their rounding, eps of 1e-3, is as large as answers are: decimals of all sizes, no steps.

    Of six networks each the worst was off by half of that eps.
    """
    net = pn.random_network(4, 6, rng=seed).replace(output_bias=0.25)

    def half(X: Array) -> Array:
        return net(X).astype(np.float16).astype(float)

    def four_digits(X: Array) -> Array:
        return np.array([float(f"{value:.4g}") for value in net(X)])

    f = half if digits.startswith("half") else four_digits
    result = pn.extract(f, 6, rng=1)
    assert result.success and digits.split()[-1] in result.certificate.label_precision
    assert pn.parameter_error(result.network, net) < 1e-3
    assert result.queries < 1000  # finer answers would be asked for tens of thousands
