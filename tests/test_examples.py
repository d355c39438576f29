"""The examples run: a small version of each."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provenet as pn

EXAMPLES = Path(__file__).parent.parent / "examples"


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


def test_a_classifier_gives_its_weights_away(tmp_path: Path) -> None:
    example = run("extract_classifier", tmp_path)
    model = example["fitted_model"](4)
    truth = pn.Network.from_mlp_classifier(model)
    result = pn.extract(model, rng=1)
    # Traced logits are known to some 1e-12; the worst of four models was extracted to 7e-11.
    assert result.success and pn.parameter_error(result.network, truth) < 1e-8


def test_a_fitted_model_gives_its_weights_away(tmp_path: Path) -> None:
    example = run("extract_black_box", tmp_path)
    model = example["fitted_model"](np.random.default_rng(1))
    truth = example["own_weights"](model)
    result = pn.extract(model.predict, truth.features, rng=1)
    X = np.random.default_rng(2).standard_normal((50, truth.features))
    np.testing.assert_allclose(truth(X), model.predict(X), atol=1e-12)  # these are its weights
    # Of eight models the worst was extracted to 2e-12.
    assert result.success and pn.parameter_error(result.network, truth) < 1e-8


def test_a_fitted_model_of_tanh_units_gives_its_weights_away(tmp_path: Path) -> None:
    example = run("extract_smooth_units", tmp_path)
    model = example["fitted_model"](1)
    truth = pn.Network.from_mlp_regressor(model)
    result = pn.extract(model.predict, truth.features, activation="tanh", rng=1)
    assert result.success and pn.parameter_error(result.network, truth) < 1e-8


def test_a_trained_network_of_two_layers_is_given_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("two_hidden_layers", tmp_path, "--widths", "4", "2")
    said, error, _ = capsys.readouterr().out.splitlines()
    assert "to machine precision" in said and float(error.split()[-1]) < 1e-8


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


def test_the_notebook_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """Cell by cell, as Jupyter runs it, without Jupyter."""
    cells = json.loads((EXAMPLES / "first_steps.ipynb").read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
            shown = "".join(line for output in cell["outputs"] for line in output["text"])
            assert capsys.readouterr().out == shown, cell["id"]
