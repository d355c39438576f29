"""The examples run: a small version of each."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.datasets import differing_share

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def plt() -> Iterator[Any]:
    """pyplot, drawing into files only."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    yield pyplot
    pyplot.close("all")


def test_the_lower_bound_grows_with_the_condition(tmp_path: Path, plt: Any) -> None:
    example = runpy.run_path(str(EXAMPLES / "lower_bound.py"))
    values = [0.5, 0.125]
    rows = list(example["measure"](values, 301, 1, np.random.default_rng(0)))
    for a, differ, recover in rows:
        # The median of a geometric waiting time; that of 301 draws is within a quarter, or one.
        expected = np.log(0.5) / np.log1p(-differing_share(a))
        assert abs(differ - expected) <= max(1.0, 0.25 * expected)
        assert recover > differ
    picture = tmp_path / "bound.png"
    example["draw"](plt, rows, picture)
    assert picture.stat().st_size > 10_000


def test_the_bad_minimum_shows_on_interference_alone(tmp_path: Path, plt: Any) -> None:
    example = runpy.run_path(str(EXAMPLES / "spurious_minimum.py"))
    for ratio in (1.5, 2.0, 3.0):
        of_P, of_G = example["curvatures"](ratio)
        assert of_P == pytest.approx(2 * (ratio - 2), abs=1e-12)  # the closed form
        assert of_G < -0.03  # 4 mu beta r over the interference is 0.04, or lower
    # At r = 30 a quarter of the descents on P' end badly: none of 20 has a chance of 0.3%.
    shares = list(example["measure"]([1.5, 30.0], 4, 20, np.random.default_rng(0)))
    bad = {(share.objective, share.ratio): share.bad for share in shares}
    assert bad[("P'", 1.5)] == bad[("G", 1.5)] == bad[("G", 30.0)] == 0
    assert bad[("P'", 30.0)] > 0
    low, high = shares[2].interval
    assert low < shares[2].bad / 20 < high
    picture = tmp_path / "minimum.png"
    example["draw"](plt, shares, picture)
    assert picture.stat().st_size > 10_000


def test_descent_finds_the_units_on_f2f4_and_not_on_the_squared_loss(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    example = runpy.run_path(str(EXAMPLES / "landscape_figures.py"))
    plain, tensors, _ = example["settings"](quick=True)
    stuck, found = example["run"](plain, 0, 0), example["run"](tensors, 0, 0)
    # Of 50 seeds: the squared loss always ends at 0.022 or above, the greater term at 0.7 or above;
    # f2f4 starts at 0.48 or above and ends at 0.005 or below.
    assert stuck.loss[-1] > 0.02 and stuck.strict[-1] > 0.5
    assert found.strict[0] > 0.3 and found.strict[-1] < 0.02
    for curve in (stuck, found):  # a fresh batch estimates the closed form: 2 at most of 50 seeds
        error = curve.estimate - curve.loss
        assert abs(error.mean()) < 5 * error.std() / np.sqrt(len(error))
    assert example["main"](["--quick", "--figure", "2", "--runs", "1", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "landscape_figure_2.png").stat().st_size > 10_000


def test_refinement_reaches_small_angles_in_few_steps(tmp_path: Path, plt: Any) -> None:
    example = runpy.run_path(str(EXAMPLES / "refinement_curve.py"))
    random, descent = example["random_search"], example["descend"]
    runs = {
        ("random search", 3): example["run"](random, 3, 0.04, 0),
        ("descent", 3): example["run"](descent, 3, 1e-5, 0),
    }
    for (name, _), asked, most in zip(runs, (0.04, 1e-5), (150, 15), strict=True):
        found, angles = runs[name, 3]
        assert found.reached and angles[-1] <= asked
        assert len(angles) == len(found.path) <= most
        assert angles[0] == pytest.approx(np.radians(5.0))
    picture = tmp_path / "curve.png"
    example["draw"](plt, runs, picture)
    assert picture.stat().st_size > 10_000


def test_a_perturbation_makes_nearly_parallel_units_easy(tmp_path: Path, plt: Any) -> None:
    example = runpy.run_path(str(EXAMPLES / "smoothed_analysis.py"))
    points = list(example["measure"](np.array([0.01, 1.0]), 1, 0))
    hard, easy = points
    assert hard.least[0] < 0.02 and easy.least[0] > 0.05
    # The moments miss the nearly parallel pair; least squares has no noise, so it is exact.
    assert hard.errors["biased-relu"][0] > 3 * easy.errors["biased-relu"][0]
    assert max(point.errors["expand-prune"][0] for point in points) < 1e-8
    picture = tmp_path / "smoothed.png"
    example["draw"](plt, points, picture)
    assert picture.stat().st_size > 10_000


def test_moments_need_thresholds_that_are_neither_low_nor_high(tmp_path: Path, plt: Any) -> None:
    example = runpy.run_path(str(EXAMPLES / "threshold_sweep.py"))
    points = [example["measure"](4, t, 40_000, 0) for t in (0.5, 2.0)]
    low, high = points
    # What is not linear falls with the threshold, and with it what it does to step 1.
    assert low.nonlinear > 5 * high.nonlinear
    assert high.step_1 < 10 and high.step_2 <= example["EXACT"]
    picture = tmp_path / "sweep.png"
    example["draw"](plt, {4: points}, 40_000, picture)
    assert picture.stat().st_size > 10_000


def test_the_default_succeeds_where_the_paper_has_too_few_samples(tmp_path: Path, plt: Any) -> None:
    example = runpy.run_path(str(EXAMPLES / "success_rates.py"))
    setting = example["Setting"](features=5, units=3, samples=1000)
    assert example["rates"]([setting], 2, faithful=True) == [0.0]
    assert example["rates"]([setting], 2, faithful=False) == [1.0]
    picture = tmp_path / "rates.png"
    rows = {"default": [1.0], "paper": [0.0]}
    curves = {name: ([1000.0], rows) for name in ("samples", "units", "largest |b|")}
    example["draw"](plt, curves, setting, 2, picture)
    assert picture.stat().st_size > 10_000


def run(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """Run an example as a user would; its picture must be there."""
    pytest.importorskip("matplotlib")
    example = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert example["main"](["--out", str(folder), *arguments]) == 0
    assert (folder / f"{name}.png").stat().st_size > 10_000
    return example


def test_five_lines_are_exact(tmp_path: Path) -> None:
    example = run("five_lines", tmp_path)
    hidden, result = example["five_lines"](3)
    assert pn.parameter_error(result.network, hidden) < 1e-10


def test_a_fitted_model_gives_its_weights_away(tmp_path: Path) -> None:
    example = run("extract_black_box", tmp_path)
    model = example["fitted_model"](np.random.default_rng(1))
    truth = example["own_weights"](model)
    result = pn.extract(model.predict, truth.features, rng=1)
    X = np.random.default_rng(2).standard_normal((50, truth.features))
    np.testing.assert_allclose(truth(X), model.predict(X), atol=1e-12)  # these are its weights
    # Of eight models the worst was extracted to 2e-12.
    assert result.success and pn.parameter_error(result.network, truth) < 1e-8


def test_bad_minima_are_those_of_the_squared_loss_and_of_interference() -> None:
    pytest.importorskip("matplotlib")
    example = runpy.run_path(str(EXAMPLES / "bad_minima.py"))
    starts = example["random_rows"](12, np.random.default_rng(0))
    bad = {}
    for name in ("l2", "P'", "f2f4"):
        runs = example["descents"](name, starts)
        assert all(descent.converged for descent in runs)
        paths = example["excesses"](runs)
        assert all(path[-1] > 1e-3 or path[-1] < 1e-9 for path in paths)  # no end in between
        bad[name] = example["bad_ends"](paths)
    # Of 30 starts a third end badly on l2 and an eighth on P': some of these twelve do.
    assert bad["l2"] > 0 and bad["P'"] > 0 and bad["f2f4"] == 0


def test_the_picture_of_bad_minima(tmp_path: Path) -> None:
    run("bad_minima", tmp_path, "--starts", "2")


def test_halfspaces_in_the_plane_are_found(tmp_path: Path) -> None:
    example = run("halfspaces_in_the_plane", tmp_path, "--samples", "4000")
    X, y = example["labelled_points"](10_000, 0.02, np.random.default_rng(1))
    found = pn.recover(X, y, method="halfspaces", rng=0).network
    # Faces are told to about 1 / (samples near them): the worst of ten seeds was a fifth of this.
    assert found.units == 3 and example["worst_angle"](found) < 1.0


def test_the_lowest_layer_is_exact_after_step_2(tmp_path: Path) -> None:
    example = run("lowest_layer_of_a_deep_network", tmp_path, "--samples", "30000")
    rng = np.random.default_rng(1)
    (rough,), (exact,) = example["measure"](example["deep_network"](rng), [60_000], rng).values()
    assert 0.1 < rough.max() < 15 and exact.max() < 1e-10


def test_recovery_against_samples_falls_at_once_without_noise(tmp_path: Path) -> None:
    example = run("recovery_against_samples", tmp_path, "--quick", "--seeds", "1")
    assert example["error"](40, 0.0, 1) > 0.1  # hardly more samples than the 37 parameters
    assert example["error"](300, 0.0, 1) < 1e-10
    assert 1e-3 < example["error"](1000, 0.1, 1) < 0.3
