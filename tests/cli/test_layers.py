"""Several hidden layers on the command line: recovered, compared, written, and refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import provenet as pn
from provenet.cli.app import app
from provenet.cli.shared import EXACT

SIZE = ("--features", "6", "--units", "3,2", "--activation", "tanh")


def run(*args: str) -> Result:
    return CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(app, list(args))


def words(ended: Result) -> str:
    return " ".join(ended.output.replace("│", " ").split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ended = run("simulate", "s.npz", *SIZE, "--samples", "500", "--truth", "truth.npz")
    assert ended.exit_code == 0, ended.output
    return tmp_path


TOLD = (("--layers", "2"), ("--units", "3,2"), ("--units", "3,2", "--layers", "2"))


@pytest.mark.parametrize("told", TOLD, ids=" ".join)
def test_the_error_against_a_deep_truth_is_that_of_the_package(
    folder: Path, told: tuple[str, ...]
) -> None:
    given = ("--activation", "tanh", *told, "--truth", "truth.npz", "--out", "o.npz", "--json")
    answer = json.loads(run("recover", "s.npz", *given, "--quiet").output)
    assert answer["status"] == "exact" and answer["method"] == "deep"
    found, truth = pn.load_network("o.npz"), pn.load_network("truth.npz")
    assert isinstance(found, pn.DeepNetwork) and found.widths == (3, 2)
    assert answer["parameter_error"] == pn.parameter_error(found, truth) <= EXACT
    for name in ("weights", "biases"):
        for mine, theirs in zip(answer["network"][name], getattr(found, name), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        shapes = [np.shape(matrix) for matrix in answer["standard_errors"][name]]
        assert shapes == [matrix.shape for matrix in getattr(found, name)]


@pytest.mark.parametrize("name", ["o.npz", "o.safetensors", "o.onnx"])
def test_what_was_found_is_written_in_every_format(folder: Path, name: str) -> None:
    pytest.importorskip({"o.onnx": "onnx"}.get(name, "safetensors"))
    given = ("--activation", "tanh", "--layers", "2", "--out", name, "--quiet")
    assert run("recover", "s.npz", *given).exit_code == 0
    ended = run("compare", name, "truth.npz")
    assert ended.exit_code == 0 and "within 1e-08" in ended.output
    assert "Layer 1: 3 units on 6 features" in ended.output
    assert "Layer 2: 2 units on layer 1" in ended.output


def test_one_layer_is_tried_before_two(folder: Path) -> None:
    given = ("--activation", "tanh", "--layers", "auto", "--truth", "truth.npz")
    ended = run("recover", "s.npz", *given, "--budget", "5")
    assert ended.exit_code == 0, ended.output
    assert "Network: 6 features, 3 and 2 tanh units in 2 layers, by deep" in words(ended)
    assert "Layer 2: 2 units on layer 1" in ended.output


def test_one_layer_compared_with_two_says_why_it_is_infinitely_far(folder: Path) -> None:
    given = ("--activation", "tanh", "--units", "2", "--budget", "1", "--truth", "truth.npz")
    ended = run("recover", "s.npz", *given)
    assert ended.exit_code == 3
    assert "infinite (2 units found, 3 and 2 units in 2 layers in the truth)" in words(ended)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (("--layers", "0"), "'0' is not a number of layers from 1 on, or auto."),
        (("--layers", "two"), "'two' is not a number of layers from 1 on, or auto."),
        (("--layers", "1.5"), "'1.5' is not a number of layers"),
        (("--units", "3,x"), "'3,x' is not a number of units, or several between commas"),
        (("--units", "3,2", "--layers", "3"), "the widths of 2 layers, not of 3"),
        (("--layers", "2", "--method", "ica"), "does not serve 2 hidden layers"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_bad_numbers_of_layers_and_units(
    folder: Path, told: tuple[str, ...], sentence: str
) -> None:
    ended = run("recover", "s.npz", *told, "--out", "o.npz")
    assert ended.exit_code == 2 and sentence in words(ended)
    assert not Path("o.npz").exists()


def test_a_deep_truth_of_other_sizes_is_refused(folder: Path) -> None:
    pn.random_network((3, 2), 5, activation="tanh", rng=0).save("other.npz")
    ended = run("recover", "s.npz", "--layers", "2", "--truth", "other.npz")
    assert ended.exit_code == 2 and "other.npz has 5 features and 1 output" in words(ended)


def test_the_method_is_listed() -> None:
    assert "deep" in run("methods", "--quiet").output.split()
    (deep,) = (m for m in json.loads(run("methods", "--json").output) if m["name"] == "deep")
    assert deep["deep"] is True
