"""The command line on network files of every format."""

from __future__ import annotations

import sys
from pathlib import Path

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
