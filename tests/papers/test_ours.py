"""The figures of what no theorem covers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "papers"))

import figures
import ours
import ours_samples
import ours_width
import provenet as pn


def test_samples_allow_more_with_more_of_them() -> None:
    few, many = (ours_samples.limit(3, ratio, 10) for ratio in (1.5, 10.0))
    assert few["both sides"] <= few["determined"] < 10
    assert many["both sides"] == many["determined"] == 10


def test_little_noise_tells_the_width_and_much_does_not() -> None:
    for noise, told in ((0.01, True), (2.0, False)):
        problem = ours_width.noisy_problem(noise, 0, samples=300)
        truth = ours_width.fitted(problem.truth, problem.X, problem.y)
        smaller = ours_width.less_one(truth.network, problem.X, problem.y)
        price = (ours_width.FEATURES + 1) * np.log(len(problem.y))
        ratio = len(problem.y) * np.log(smaller["without"].rss / truth.rss)
        assert (ratio > price) == told
        # More parameters fit no worse, up to where least squares stops.
        assert smaller["with"].rss < smaller["without"].rss * (1 + 1e-6)


def test_units_that_the_samples_do_not_tell_are_dropped() -> None:
    """Labels of two units with noise, fitted by three: the third only fits noise."""
    rng = np.random.default_rng(0)
    wide = pn.Network(np.eye(3), [0.3, -0.4, 0.2], [1.0, -1.2, 0.0])
    X = rng.standard_normal((300, 3))
    y = wide(X) + 0.05 * rng.standard_normal(300)
    start = wide.replace(output_weights=[1.0, -1.2, 0.1])
    assert ours_width.told(ours_width.fitted(start, X, y), X, y).network.units == 2


def test_the_expected_ratio_is_that_of_normal_errors() -> None:
    n, misfit, price = ours_width.SAMPLES, 0.2, 62.0
    rows = [
        {"noise": s, "ratio without": n * np.log1p((misfit / s) ** 2), "price without": price}
        for s in (0.01, 0.1, 1.0)
    ]
    expected = [row["ratio without"] / price for row in rows]
    found = ours_width.expected_ratio(figures.by(rows, "noise"))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_every_figure_is_drawn_from_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    limit = {"solver": "limit", "units": 5, "determined": 3, "both sides": 2, "of": 4}
    trial = {"units": 5, "seed": 0, "recovered": True}
    width = {"seed": 0, "width": 5, "told": 4, "ratio without": 80.0, "price without": 62.0}
    rows = {
        "samples": [{**limit, "ratio": ratio} for ratio in (2.0, 4.0)]
        + [
            {**trial, "solver": solver, "ratio": ratio}
            for solver in ours_samples.STYLES
            for ratio in (2.0, 4.0)
        ],
        "width": [{**width, "noise": noise} for noise in (0.01, 1.0)],
    }
    for figure in ours.FIGURES:
        path = tmp_path / f"{figure.name}.png"
        figures.draw(figure, {"rows": rows[figure.name]}, path)
        assert path.stat().st_size > 10_000
