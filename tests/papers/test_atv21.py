"""The figures of ATV21: what they measure shows what they claim."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "papers"))

import atv21
import atv21_errors
import atv21_smoothed
import atv21_success
import figures


def test_the_turned_unit_sets_the_least_singular_value() -> None:
    first, second = (atv21_errors.ROADS[0].network(seed, 0.2) for seed in (0, 1))
    # Two unit vectors at an angle have the singular values sqrt(1 +- cos), powers cos^l instead.
    for order in (1, 2, 3):
        expected = np.sqrt(1 - np.cos(0.2) ** order)
        for network in (first, second):
            found = atv21_errors.s_min(network.weights, order)
            assert found == pytest.approx(expected, rel=1e-9)


def test_the_limit_constant_is_that_of_many_samples() -> None:
    road, n = atv21_errors.ROADS[0], 100_000
    ratios = []
    for seed in range(3):
        network = road.network(seed)
        error, limit = (
            road.recovered(network, n, seed),
            atv21_errors.limit_constant(road, network, 30_000, seed),
        )
        assert error is not None and limit is not None
        ratios.append(error * np.sqrt(n) / limit)
    # Other samples and another contraction: of 30 seeds two had a ratio above 4, none one below.
    assert 0.25 < np.median(ratios) < 4


def test_the_limit_is_linear_in_the_sampling_error(monkeypatch: pytest.MonkeyPatch) -> None:
    road = atv21_errors.ROADS[1]
    network = road.network(0)
    found = []
    for scale in (1e-5, 1e-6):
        monkeypatch.setattr(atv21_errors, "SCALED", scale)
        found.append(atv21_errors.limit_constant(road, network, 20_000, 0))
    assert found[0] == pytest.approx(found[1], rel=1e-2)  # second order is 1e-5 of it, and rounding


@pytest.mark.parametrize("order", [1, 2, 3])
def test_powers_of_parallel_units_come_apart_as_powers_of_tau(order: int) -> None:
    taus = np.array([0.01, 0.1])
    networks = [atv21_smoothed.all_parallel(order, tau, 0) for tau in taus]
    least = [atv21_errors.s_min(network.weights, order) for network in networks]
    # The next power of tau is a tenth: 0.37 at most for 50 seeds.
    assert figures.slope(taus, least) == pytest.approx(order, abs=0.4)


def test_exact_moments_tell_perturbed_units_apart() -> None:
    errors = [
        atv21_smoothed.population_error(atv21_smoothed.all_parallel(2, tau, 0), 2, 0)
        for tau in (0.1, 1.0)
    ]
    assert errors[0] is not None and errors[1] is not None
    # Rounding over s_min squared: up to four powers of tau; 270 to 8.5e4 for 30 seeds.
    assert errors[1] < 1e-10 and 100 < errors[0] / errors[1] < 2e5


def test_the_default_succeeds_where_the_paper_has_too_few_samples() -> None:
    setting = atv21_success.Setting(features=5, units=3, samples=1000)
    assert [atv21_success.succeeds(setting, 0, faithful) for faithful in (True, False)] == [0, 1]


def test_every_figure_is_drawn_from_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = {
        "errors": [
            {"part": "n", "road": road.label, "n": n, "seed": 0, "error": n**-0.5}
            for road in atv21_errors.ROADS
            for n in (100, 10_000)
        ]
        + [
            {"part": "limit", "road": road.label, "s_min": s, "constant": s**-2}
            for road in atv21_errors.ROADS
            for s in (0.5, 0.1)
        ],
        "smoothed": [
            {"order": order, "tau": tau, "seed": 0, "s_min": tau**order, "error": None}
            for order in (1, 2, 3)
            for tau in (0.1, 1.0)
        ]
        + [
            {"order": 1, "method": m, "tau": tau, "seed": 0, "s_min": tau, "error": 0.1}
            for m in atv21_smoothed.OF_SAMPLES
            for tau in (0.1, 1.0)
        ],
        "success": [
            {"along": name, "value": 3, "faithful": faithful, "recovered": 1, "of": 2}
            for name in atv21_success.AXES
            for faithful in (True, False)
        ],
    }
    for figure in atv21.FIGURES:
        path = tmp_path / f"{figure.name}.png"
        figures.draw(figure, {"rows": rows[figure.name]}, path)
        assert path.stat().st_size > 10_000
