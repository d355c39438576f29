"""Tables fit the screen and say what the networks say; JSON is always valid."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from provenet import Network, random_network
from provenet.certify.checks import Status
from provenet.certify.own_labels import SetAside
from provenet.certify.result import Recovery
from provenet.fitting.covariance import StandardErrors
from provenet.report.console import (
    certificate_table,
    describe,
    to_json,
    why_infinite,
)
from provenet.report.tables import network_table, number, side_by_side, small


def render(table: object, width: int = 80) -> list[str]:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def pair(estimate: Network, truth: Network, width: int = 80) -> list[str]:
    console = Console(width=width)
    return render(side_by_side(console, estimate, truth, ("truth", "estimate")), width)


def shuffled(network: Network) -> Network:
    order = np.random.default_rng(1).permutation(network.units)
    return network.keep(order)


@pytest.mark.parametrize("width", [80, 60, 120])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_side_by_side_fits_the_screen_whole(width: int, scale: float) -> None:
    truth = random_network(12, 20, bias_scale=3, rng=0)
    truth = truth.replace(output_weights=scale * truth.output_weights, output_bias=-2.5)
    lines = pair(shuffled(truth), truth, width)
    units = [line.split() for line in lines if line.split() and line.split()[0].isdigit()][:12]
    assert [row[0] for row in units] == [str(i) for i in range(12)]  # no row is broken in two
    assert max(map(len, lines)) <= width
    columns = (len(units[0]) - 2) // 2
    assert columns >= (3 if width >= 80 else 2)
    assert all(row[1 : 1 + columns] == row[1 + columns : -1] for row in units)
    assert all(float(row[-1]) <= 1e-12 * scale for row in units)


def test_side_by_side_shows_the_values_and_the_error_of_each_unit() -> None:
    truth = Network([[1.0, 0.0], [0.0, 1.0]], [0.5, -0.25], [2.0, -1.0], 0.75)
    estimate = Network([[0.0, 1.0], [1.0, 0.0]], [-0.25, 0.5], [-1.0, 2.001], 0.7)
    lines = [" ".join(line.split()) for line in pair(estimate, truth)]
    assert "0 2.0000 0.5000 1.0000 0.0000 2.0010 0.5000 1.0000 0.0000 1.0e-03" in lines
    assert "1 -1.0000 -0.2500 0.0000 1.0000 -1.0000 -0.2500 0.0000 1.0000 0" in lines
    assert "Output bias: 0.7500 truth, 0.7000 estimate, error 0.05" in lines


@pytest.mark.parametrize(("found", "hidden"), [(2, 3), (3, 2)])
def test_units_without_a_partner_are_shown(found: int, hidden: int) -> None:
    wide = random_network(3, 4, rng=0)
    lines = pair(wide.keep(np.arange(found)), wide.keep(np.arange(hidden)))
    assert sum("no match" in line for line in lines) == 1
    assert sum(line.strip()[:1].isdigit() for line in lines) >= 3


def test_a_linear_term_is_told() -> None:
    truth = random_network(2, 3, rng=0)
    assert "norm 5.0000" in " ".join(pair(truth.replace(linear=[3.0, 4.0, 0.0]), truth))


def rows(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines if line.split() and line.split()[0].isdigit()]


def several(outputs: int) -> Network:
    network = random_network(4, 20, outputs=outputs, rng=0).canonical()
    return network.replace(output_bias=np.arange(float(outputs)))


def test_few_outputs_are_all_shown() -> None:
    network = several(2)
    A = network.output_weights
    beside, alone = pair(shuffled(network), network, 90), render(network_table(Console(), network))
    for lines, decimals in ((beside, 4), (alone, 6)):
        assert any("out1 out2 bias w1" in " ".join(line.split()) for line in lines)
        for i, row in enumerate(rows(lines)[:4]):
            assert row[1:3] == [f"{A[0, i]:.{decimals}f}", f"{A[1, i]:.{decimals}f}"]
    assert "Output bias: 0.000000  1.000000" in alone


def test_on_a_wide_screen_many_outputs_leave_room_for_the_weights() -> None:
    lines = render(network_table(Console(width=300), several(6)), 300)
    assert lines[0].split() == ["unit", "|out|", "bias", *(f"w{i}" for i in range(1, 9))]


@pytest.mark.parametrize("outputs", [5, 6, 60])
def test_many_outputs_are_shown_by_their_norm(outputs: int) -> None:
    network = several(outputs)
    norm = np.linalg.norm(network.output_weights, axis=0)
    beside, alone = pair(shuffled(network), network), render(network_table(Console(), network))
    for lines, decimals in ((beside, 4), (alone, 6)):
        assert max(map(len, lines)) <= 80
        assert [row[1] for row in rows(lines)[:4]] == [f"{a:.{decimals}f}" for a in norm]
        assert any(line.endswith(f"|out| is the norm over {outputs} outputs") for line in lines)
        assert len(lines) <= 10  # no row and no note is broken in two
    assert f"Output bias, {outputs} outputs: error 0" in beside
    assert any(line.endswith(f"3.000000  and {outputs - 4} more") for line in alone)


def test_one_output_in_a_row_of_its_own() -> None:
    network = several(1)
    assert pair(network, network) and "out1" in " ".join(render(network_table(Console(), network)))
    assert describe(network) == "20 features, 4 ReLU units, 1 output"


@pytest.mark.parametrize("outputs", [2, 6])
def test_standard_errors_of_several_outputs(outputs: int) -> None:
    network = several(outputs)
    errors = StandardErrors(
        np.full((4, 20), 0.02),
        np.full(4, 0.03),
        np.full((outputs, 4), 0.04),
        np.full(outputs, 0.05),
        None,
    )
    lines = render(network_table(Console(width=80), network, errors))
    error = 0.04 if outputs == 2 else 0.04 * math.sqrt(outputs)
    assert max(map(len, lines)) <= 80
    assert rows(lines)[0][2:4] == ["±", f"{error:.3f}"]
    assert "0.000 ± 0.050  1.000 ± 0.050" in " ".join(lines)


def test_a_slope_is_told_and_compared() -> None:
    truth = random_network(3, 4, activation="leaky_relu(0.2)", rng=0)
    estimate = truth.replace(activation="leaky_relu(0.20001)")
    assert describe(truth) == "4 features, 3 leaky ReLU units of slope 0.2"
    assert "Slope below zero: 0.2000 truth, 0.2000 estimate, error 1.0e-05" in pair(estimate, truth)
    assert "Slope" not in " ".join(pair(truth.replace(activation="relu"), truth))


def test_why_an_error_is_infinite() -> None:
    truth = random_network(3, 4, rng=0)
    leaky = truth.replace(activation="leaky_relu(0.0)")
    assert why_infinite(truth, truth) == ""
    assert why_infinite(None, truth) == " (0 units found, 3 in the truth)"
    assert why_infinite(truth.keep(np.array([0])), truth) == " (1 unit found, 3 in the truth)"
    assert why_infinite(leaky, truth) == " (leaky_relu found, relu in the truth)"


def test_corrupted_labels_are_counted() -> None:
    mask = np.zeros((100, 5), dtype=bool)
    mask[:20, 1] = True
    found = Recovery(None, Status.FAILED, "", "sparse-noise", details=SetAside(mask))
    assert found.corrupted is mask
    assert "20 of 500 labels (4.00%) set aside" in " ".join(render(certificate_table(found)))
    none = Recovery(None, Status.FAILED, "", "auto")
    assert "labels" not in " ".join(render(certificate_table(none)))


def test_standard_errors_stand_beside_the_values() -> None:
    network = Network([[1.0, 0.0]], [0.5], [2.0], 0.25)
    errors = StandardErrors(
        np.array([[0.011, 0.012]]), np.array([0.013]), np.array([math.nan]), 0.014, None
    )
    text = " ".join(render(network_table(Console(width=100), network, errors)))
    for shown in ("2.000 ± ?", "0.500 ± 0.013", "1.000 ± 0.011", "0.250 ± 0.014"):
        assert shown in text


def test_standard_errors_too_small_to_be_seen_are_left_out() -> None:
    network = random_network(2, 3, rng=0)
    tiny = StandardErrors(np.full((2, 3), 1e-16), np.full(2, 1e-16), np.full(2, 1e-16), 0.0, None)
    assert "±" not in " ".join(render(network_table(Console(width=80), network, tiny)))


def test_numbers() -> None:
    assert number(-0.00001) == "0.0000"
    assert number(-12.34567) == "-12.3457"
    assert number(-123456.0) == "-1.23e+05"
    assert small(0.0) == "0"
    assert small(3.14e-15) == "3.1e-15"
    assert small(math.inf) == "infinite"
    assert small(math.nan) == "unknown"


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Thing:
    values: np.ndarray
    bound: float
    colour: Colour


def test_json_has_no_numbers_that_are_not_finite() -> None:
    thing = Thing(np.array([1.0, np.nan, -np.inf]), np.float64(np.inf), Colour.RED)
    value = {
        "thing": thing,
        "path": Path("a"),
        "n": np.int64(3),
        "ok": np.bool_(True),
        "none": None,
    }
    assert json.loads(to_json(value)) == {
        "thing": {"values": [1.0, None, None], "bound": None, "colour": "red"},
        "path": "a",
        "n": 3,
        "ok": True,
        "none": None,
    }


def test_json_of_a_network_is_the_network() -> None:
    network = random_network(3, 4, rng=0)
    back = json.loads(to_json(network))
    assert np.array_equal(back["weights"], network.weights)
    assert back["activation"] == "relu" and back["linear"] is None
