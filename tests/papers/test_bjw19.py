"""The figures of BJW19: what is predicted is right, what is measured is what it says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks" / "papers"))

import bjw19
import bjw19_exact as exact
import bjw19_noise as noise
import bjw19_samples as samples
import figures
from bjw19_common import quartiles
from provenet.datasets import condition_pair, differing_share


def test_two_networks_are_told_apart_as_often_as_the_closed_form_says() -> None:
    a, n = 1 / 16, 20
    hits = sum(samples.they_differ(a, n, seed) for seed in range(400))
    expected = 1 - (1 - differing_share(a)) ** n
    # Four standard deviations of a binomial share.
    assert abs(hits / 400 - expected) < 4 * np.sqrt(expected * (1 - expected) / 400)


def test_ill_conditioned_weights_are_recovered_from_many_samples_and_not_from_few() -> None:
    # Of 20 seeds none succeeds where half a sample in the mean shows a, all where 24 do.
    few, many = (round(mean / differing_share(1 / 32)) for mean in (0.5, 24))
    assert not samples.recovered_from(1 / 32, few, 0)
    assert samples.recovered_from(1 / 32, many, 0)
    one, other = condition_pair(1 / 32)
    assert not samples.is_right(other, one) and samples.is_right(one, one)


@pytest.mark.parametrize("units", [2, 3])
def test_the_unit_between_the_others_is_rarely_alone(units: int) -> None:
    near, far = (samples.hidden_between(units, kappa) for kappa in (20.0, 40.0))
    assert np.linalg.cond(near) == pytest.approx(20.0) and np.linalg.cond(far) == pytest.approx(40)
    shares = [samples.alone_share(W, units - 1) for W in (near, far)]
    # The power is reached in the limit; the integration is accurate to 1e-5, too little for four.
    assert np.log2(shares[0] / shares[1]) == pytest.approx(units - 1, abs=0.1)
    X = np.random.default_rng(units).standard_normal((100_000, samples.FEATURES)) @ near.T > 0
    alone = np.mean(X[:, 0] & (X.sum(axis=1) == 1))
    expected = samples.alone_share(near, 0)
    assert abs(alone - expected) < 5 * np.sqrt(expected / 100_000) + 1e-4


def test_subtraction_needs_fewer_samples_than_algorithm_7() -> None:
    truth = samples.two_outputs(samples.hidden_between(3, 8.0))
    needed = [samples.samples_needed(road, truth, 20_000, 0) for road in samples.ROADS.values()]
    as_printed, ours = (n or np.inf for n in needed)
    # The last unit is alone on 0.5% of the samples, and 9 are needed. Least ratio of 30 seeds: 13.
    assert ours < as_printed / 6 < np.inf
    assert samples.samples_needed(samples.printed, truth, 64, 0) is None


def test_programs_are_few_and_patterns_within_the_bound() -> None:
    for seed in range(3):
        row = exact.patterns_and_programs(2, 20, seed)
        assert row["found"] == 2 and row["kept"] <= row["patterns"] <= row["bound"]
        assert row["programs"] < row["bound"]


def test_weights_of_a_condition_number() -> None:
    W = exact.conditioned(4, 8, 5.0, np.random.default_rng(0))
    assert np.linalg.cond(W) == pytest.approx(5.0)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1.0)


def test_exact_without_noise_and_near_with_it() -> None:
    clean, noisy = (exact.gaussian_trial(30_000, 1.0, size, 0) for size in (0.0, 1.0))
    # All of 30 seeds: 2e-14 at most without noise.
    assert clean is not None and clean < 1e-12
    assert noisy is not None and 0.01 < noisy < 2.0


def test_labels_are_corrupted_and_repaired() -> None:
    clean, Y = noise.sparse_labels(6, 0.2, 0)
    assert np.mean(clean != Y) == pytest.approx(0.2, abs=0.02)  # of 9000: 0.004 is a deviation
    assert noise.by_robust_pca(Y, clean, 0) == (True, False)
    assert noise.by_pursuit(Y, clean, 0) == (False, False)
    assert noise.by_pursuit(clean, clean, 0) == (True, False)


def test_losses_are_measured_against_the_truth() -> None:
    rows = {row["what"]: row for row in noise.noise_trial("common to all outputs", 0.3, 500, 0)}
    # The least of Huber's losses is near that of the noise, but not the least of squares.
    assert rows["default"]["loss"] == pytest.approx(1.0, abs=0.05)
    assert rows["no network"]["loss"] > rows["bound"]["loss"] > 1
    assert rows["default"]["function"] < rows["Algorithm 8"]["function"] < 0.5


def test_the_sign_step_learns_the_direction() -> None:
    errors = [noise.direction_error("Student t, 1.5 degrees", n, 0) for n in (300, 100_000)]
    # Of 30 seeds: 0.16 at most from 100,000 samples, and always 3.8 times less than from 300.
    assert errors[1] < 0.25 and errors[1] < errors[0] / 2


def test_a_quartile_that_was_not_reached_is_none() -> None:
    row = quartiles([3.0, None, 1.0, 2.0, None])
    assert (row["low"], row["median"], row["high"]) == (2.0, 3.0, None)
    assert (row["found"], row["of"]) == (3, 5)


@pytest.mark.parametrize("figure", bjw19.FIGURES, ids=lambda figure: figure.name)
def test_pictures_are_drawn_from_the_numbers_kept(figure: figures.Figure, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    name = f"bjw19_{figure.name}"
    kept = json.loads((figures.DOCS / f"{name}.json").read_text())
    assert kept["claim"] == figure.claim and not kept["quick"]
    (tmp_path / f"{name}.json").write_text(json.dumps(kept))
    assert figures.main("bjw19", [figure], ["--redraw", "--out", str(tmp_path)]) == 0
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_the_page_shows_every_figure() -> None:
    page = (figures.DOCS / "bjw19.md").read_text()
    assert all(f"(bjw19_{figure.name}.png)" in page for figure in bjw19.FIGURES)
