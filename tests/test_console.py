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
from provenet.console import network_table, number, side_by_side, small, to_json
from provenet.covariance import StandardErrors


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
    assert [row[0] for row in units] == [str(i) for i in range(1, 13)]  # no row is broken in two
    assert max(map(len, lines)) <= width
    columns = (len(units[0]) - 2) // 2
    assert columns >= (3 if width >= 80 else 2)
    assert all(row[1 : 1 + columns] == row[1 + columns : -1] for row in units)
    assert all(float(row[-1]) <= 1e-12 * scale for row in units)


def test_side_by_side_shows_the_values_and_the_error_of_each_unit() -> None:
    truth = Network([[1.0, 0.0], [0.0, 1.0]], [0.5, -0.25], [2.0, -1.0], 0.75)
    estimate = Network([[0.0, 1.0], [1.0, 0.0]], [-0.25, 0.5], [-1.0, 2.001], 0.7)
    lines = [" ".join(line.split()) for line in pair(estimate, truth)]
    assert "1 2.0000 0.5000 1.0000 0.0000 2.0010 0.5000 1.0000 0.0000 1.0e-03" in lines
    assert "2 -1.0000 -0.2500 0.0000 1.0000 -1.0000 -0.2500 0.0000 1.0000 0" in lines
    assert "Output bias: 0.7500 truth, 0.7000 estimate, error 5.0e-02" in lines


@pytest.mark.parametrize(("found", "hidden"), [(2, 3), (3, 2)])
def test_units_without_a_partner_are_shown(found: int, hidden: int) -> None:
    wide = random_network(3, 4, rng=0)
    lines = pair(wide.keep(np.arange(found)), wide.keep(np.arange(hidden)))
    assert sum("no match" in line for line in lines) == 1
    assert sum(line.strip()[:1].isdigit() for line in lines) >= 3


def test_a_linear_term_is_told() -> None:
    truth = random_network(2, 3, rng=0)
    assert "norm 5.0000" in " ".join(pair(truth.replace(linear=[3.0, 4.0, 0.0]), truth))


def test_several_outputs_are_shown_by_their_norm() -> None:
    network = Network([[1.0, 0.0]], [0.5], [[3.0], [4.0]], [1.0, 2.0])
    assert "5.0000" in " ".join(pair(network, network))
    assert "5.000000" in " ".join(render(network_table(Console(width=80), network)))


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
