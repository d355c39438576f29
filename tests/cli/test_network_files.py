"""The command line on network files of every format."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import provenet as pn
from provenet.cli.app import app

pytest.importorskip("onnx")
pytest.importorskip("safetensors")


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def test_from_samples_to_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    size = ("--features", "3", "--units", "2", "--samples", "200")
    assert run("simulate", "s.npz", *size, "--truth", "truth.onnx").exit_code == 0
    found = ("--truth", "truth.onnx", "--out", "found.safetensors", "--quiet")
    ended = run("recover", "s.npz", *found)
    assert ended.exit_code == 0, ended.output
    ended = run("compare", "found.safetensors", "truth.onnx", "--quiet")
    assert ended.exit_code == 0 and "within 1e-08" in ended.output
    pn.load_network("truth.onnx").replace(output_bias=9.0).save("other.npz")
    assert run("compare", "found.safetensors", "other.npz", "--quiet").exit_code == 3


def test_a_format_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    ended = run("simulate", "s.npz", "--truth", "truth.onnx")
    assert ended.exit_code == 2 and "provenet[onnx]" in ended.output
    assert not list(tmp_path.iterdir())


def test_deep_networks_are_simulated_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    size = ("--features", "4", "--units", "6,3", "--samples", "50", "--seed", "2")
    ended = run("simulate", "s.npz", *size, "--truth", "truth.onnx")
    assert ended.exit_code == 0 and "6 and 3 ReLU units in 2 layers" in ended.output
    truth = pn.load_network("truth.onnx")
    assert isinstance(truth, pn.DeepNetwork) and truth.widths == (6, 3)
    with np.load("s.npz") as samples:
        # onnx is written in double precision, so labels are the network's own.
        np.testing.assert_array_equal(truth(samples["X"]), samples["y"])
    truth.canonical().replace(outputs=1).save("other.npz")
    ended = run("compare", "other.npz", "truth.onnx")
    assert ended.exit_code == 0 and "within 1e-08" in ended.output
    told = json.loads(run("compare", "other.npz", "truth.onnx", "--json").output)
    assert told["within_tolerance"] and told["units"] == [[6, 3], [6, 3]]
    assert (
        run("simulate", "t.npz", *size[:2], "--units", "6,4", "--truth", "wider.npz").exit_code == 0
    )
    ended = run("compare", "wider.npz", "truth.onnx")
    assert ended.exit_code == 3 and "6 and 4 units in 2 layers found" in " ".join(
        ended.output.split()
    )


def test_commands_for_one_hidden_layer_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    size = ("--features", "4", "--units", "6,3", "--samples", "50")
    assert run("simulate", "s.npz", *size, "--truth", "deep.npz").exit_code == 0
    ended = run("identify", "deep.npz")
    assert ended.exit_code == 2 and "deep.npz has 2 hidden layers" in ended.output


@pytest.mark.parametrize("units", ["0", "5,0", "5,", "x", "5,-1", "2.5", ""])
def test_widths_that_are_none(units: str) -> None:
    ended = run("simulate", "s.npz", "--units", units)
    assert ended.exit_code == 2 and "--units" in ended.output
