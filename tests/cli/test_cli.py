"""The command line as its users meet it: a process with arguments, output and an exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import provenet as pn
from provenet.certify.checks import Status
from provenet.certify.own_labels import SetAside
from provenet.certify.result import Recovery
from provenet.cli import app as cli
from provenet.cli import demo as cli_demo
from provenet.cli import recover as cli_recover
from provenet.common.files import load_npz
from provenet.data.files import open_samples, save_samples
from provenet.datasets import random_layered

ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "80", "NO_COLOR": "1"}
SMALL = ("--features", "5", "--units", "2", "--samples", "300")


class Ended(NamedTuple):
    returncode: Any
    stdout: str
    stderr: str


def run(*args: object, cwd: Path | None = None) -> Ended:
    """`python -m provenet` as a process of its own."""
    process = subprocess.run(
        [sys.executable, "-m", "provenet", *map(str, args)],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    return Ended(process.returncode, process.stdout, process.stderr)


def invoke(capsys: pytest.CaptureFixture[str], args: list[str]) -> Ended:
    """The same in this process: no start-up time, and what it calls can be replaced."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        cli.app(args)
    return Ended(end.value.code, *capsys.readouterr())


def refused(ended: Ended, *words: str) -> None:
    """Exit code 2, nothing on stdout, one sentence and no traceback on stderr."""
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.startswith("Error: ")
    assert ended.stderr.count("\n") == 1 and ended.stderr.endswith(".\n")
    for word in words:
        assert word in ended.stderr


def samples_in(*paths: Path) -> tuple[np.ndarray, np.ndarray]:
    source = open_samples(*paths)
    return source.rows(0, source.size)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of one small network, in files of every kind, and the network itself."""
    path = tmp_path_factory.mktemp("samples")
    ended = run("simulate", "s.npz", *SMALL, "--seed", 3, "--truth", "truth.npz", cwd=path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "" and "s.npz, truth.npz" in ended.stderr
    X, y = samples_in(path / "s.npz")
    for name in ("s.csv", "s.h5", "s.parquet", "s.zarr", "s.zip"):
        save_samples(path / name, X, y)
    save_samples(path / "X.npy", X, y, labels=path / "y.npy")
    return path


# Success


def test_version_and_help() -> None:
    assert run("--version").stdout == f"provenet {pn.__version__}\n"
    shown = run("--help")
    assert shown.returncode == 0
    for name in ("demo", "simulate", "recover", "compare", "methods"):
        assert name in shown.stdout


def test_demo_shows_both_networks_and_the_error() -> None:
    ended = run("demo", *SMALL)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert max(map(len, ended.stdout.splitlines())) <= 80
    for word in ("hidden", "found", "Exact.", "5 features, 2 ReLU units"):
        assert word in ended.stdout
    assert "\x1b" not in ended.stdout


def test_demo_is_the_same_for_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (
        json.loads(invoke(capsys, ["demo", *SMALL, "--json", "--seed", seed]).stdout)
        for seed in ("1", "1", "2")
    )
    assert first["network"] == again["network"] != other["network"]
    assert first["parameter_error"] <= 1e-8 and other["parameter_error"] <= 1e-8
    assert first["truth"]["output_bias"] != 0


def test_demo_with_noise_gives_standard_errors(capsys: pytest.CaptureFixture[str]) -> None:
    ended = invoke(capsys, ["demo", *SMALL[:-1], "2000", "--noise", "0.1", "--json"])
    answer = json.loads(ended.stdout)
    assert ended.returncode == 0 and answer["status"] == "within noise"
    errors = np.array(answer["standard_errors"]["biases"])
    assert errors.shape == (2,) and (errors > 0).all()
    assert answer["parameter_error"] < 0.1
    assert 0.08 < answer["certificate"]["noise"] < 0.12


@pytest.mark.parametrize(
    "files",
    [
        *(("s.npz",), ("s.csv",), ("X.npy", "y.npy")),
        *(("s.h5",), ("s.parquet",), ("s.zarr",), ("s.zip",)),
    ],
)
def test_recover_from_every_kind_of_file(
    folder: Path,
    files: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    ended = invoke(capsys, ["recover", *files, "--truth", "truth.npz", "--json", "--quiet"])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    answer = json.loads(ended.stdout)
    assert answer["status"] == "exact" and answer["success"] is True
    assert np.shape(answer["network"]["weights"]) == (2, 5)
    assert answer["parameter_error"] <= 1e-8


def test_recover_tells_everything_and_writes_the_network(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.npz"
    ended = run("recover", "s.npz", "--truth", "truth.npz", "--out", out, cwd=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert max(map(len, ended.stdout.splitlines())) <= 80
    for word in ("Exact.", "Checks", "unseen samples", "condition", "Parameter error"):
        assert word in ended.stdout
    assert f"Wrote {out}" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["net.npz"]
    truth = pn.load_network(folder / "truth.npz")
    assert pn.parameter_error(pn.load_network(out), truth) <= 1e-8


def test_quiet_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = invoke(capsys, ["recover", str(folder / "s.npz"), "--quiet"])
    assert ended.returncode == 0 and ended.stderr == ""
    assert ended.stdout.startswith("Exact.") and ended.stdout.count("\n") == 1


def test_simulate_is_the_same_for_the_same_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = ("a.npz", "b.csv", "d.zarr", "e.h5", "f.parquet")
    for name, seed in (*((name, 1) for name in same), ("c.npz", 2)):
        args = ["simulate", str(tmp_path / name), *SMALL, "--seed", str(seed), "--quiet"]
        assert invoke(capsys, args) == (0, "", "")
    X, y = samples_in(tmp_path / "a.npz")
    for name in same:
        again = samples_in(tmp_path / name)
        assert np.array_equal(X, again[0]) and np.array_equal(y, again[1])
    assert not np.array_equal(X, samples_in(tmp_path / "c.npz")[0])


@pytest.mark.parametrize("activation", ["tanh", "gelu", "sin"])
def test_simulate_smooth_units(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, activation: str
) -> None:
    samples, truth = tmp_path / "s.npz", tmp_path / "net.npz"
    args = ["simulate", str(samples), *SMALL, "--activation", activation]
    assert invoke(capsys, [*args, "--truth", str(truth)]).returncode == 0
    (X, y), network = samples_in(samples), pn.load_network(truth)
    assert network.activation.name == activation
    np.testing.assert_array_equal(network(X), y)


def test_simulate_a_pair_of_files_and_the_truth(tmp_path: Path) -> None:
    ended = run(
        *("simulate", "X.npy", "--labels", "y.npy", "--truth", "net.npz", *SMALL),
        *("--bias-scale", 0.5, "--json"),
        cwd=tmp_path,
    )
    assert json.loads(ended.stdout) == {"samples": "X.npy", "labels": "y.npy", "truth": "net.npz"}
    X, y = samples_in(tmp_path / "X.npy", tmp_path / "y.npy")
    network = pn.load_network(tmp_path / "net.npz")
    assert X.shape == (300, 5) and np.allclose(network(X), y, atol=1e-12)
    assert np.abs(network.biases).max() <= 0.5


def test_compare(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = pn.load_network(folder / "truth.npz")
    true, near, narrow = (
        str(path / f"{name}.npz")
        for path, name in ((folder, "truth"), (tmp_path, "near"), (tmp_path, "narrow"))
    )
    truth.replace(biases=truth.biases + 1e-4).save(near)
    truth.keep(np.array([0])).save(narrow)
    same = invoke(capsys, ["compare", true, true])
    assert same.returncode == 0 and "Parameter error: 0, within 1e-08" in same.stdout
    far = invoke(capsys, ["compare", near, true, "--json"])
    answer = json.loads(far.stdout)
    assert far.returncode == 3 and answer["within_tolerance"] is False
    assert 0.9e-4 < answer["parameter_error"] < 1.1e-4
    assert invoke(capsys, ["compare", near, true, "--tolerance", "1e-3"]).returncode == 0
    fewer = invoke(capsys, ["compare", narrow, true])
    assert fewer.returncode == 3 and "no match" in fewer.stdout and "infinite" in fewer.stdout
    lone = invoke(capsys, ["compare", narrow, true, "--json"])
    assert json.loads(lone.stdout)["parameter_error"] is None


SEVERAL = (*SMALL, "--outputs", "3")


def test_demo_with_several_outputs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ended = invoke(capsys, ["demo", *SEVERAL])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert max(map(len, ended.stdout.splitlines())) <= 80
    for word in ("5 features, 2 ReLU units, 3 outputs", "Exact.", "hidden.npz --outputs 3"):
        assert word in ended.stdout
    answer = json.loads(invoke(capsys, ["demo", *SEVERAL, "--json"]).stdout)
    assert answer["parameter_error"] <= 1e-8 and answer["corrupted"] is None
    assert np.shape(answer["network"]["output_weights"]) == (3, 2)
    assert np.shape(answer["truth"]["output_bias"]) == (3,) and all(answer["truth"]["output_bias"])


@pytest.mark.parametrize(
    ("files", "options"),
    [
        (("s.npz",), ()),
        (("s.npz",), ("--outputs", "3")),
        (("s.csv",), ()),
        (("plain.csv",), ("--outputs", "3")),
        (("X.npy", "y.npy"), ()),
    ],
)
def test_several_outputs_from_every_kind_of_file(
    several: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: tuple[str, ...],
    options: tuple[str, ...],
) -> None:
    monkeypatch.chdir(several)
    ended = invoke(capsys, ["recover", *files, *options, "--truth", "truth.npz", "--json"])
    answer = json.loads(ended.stdout)
    assert ended.returncode == 0 and answer["status"] == "exact", ended.stderr
    assert answer["parameter_error"] <= 1e-8 and answer["certificate"]["outputs"] == 3
    assert np.shape(answer["standard_errors"]["output_weights"]) == (3, 2)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of a network with three outputs, in files of every kind, and the network itself."""
    path = tmp_path_factory.mktemp("several")
    ended = run("simulate", "s.csv", *SEVERAL, "--seed", 4, "--truth", "truth.npz", cwd=path)
    assert ended.returncode == 0 and "3 outputs: s.csv, truth.npz" in ended.stderr, ended.stderr
    X, y = samples_in(path / "s.csv")
    assert X.shape == (300, 5) and y.shape == (300, 3)
    np.savetxt(path / "plain.csv", np.hstack([X, y]), delimiter=",", fmt="%.17g")
    save_samples(path / "s.npz", X, y)
    save_samples(path / "X.npy", X, y, labels=path / "y.npy")
    return path


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["plain.csv", "--truth", "truth.npz"], ["3 outputs", "7 and 1", "--outputs 3"]),
        (["s.npz", "--truth", "one.npz"], ["one.npz", "5 features and 1 output", "5 and 3"]),
        (["s.npz", "--outputs", "2"], ["y in s.npz", "3 outputs", "not 2"]),
        (["s.csv", "--outputs", "1"], ["s.csv", "3 outputs", "not 1"]),
        (["plain.csv", "--outputs", "8"], ["8 columns", "8 outputs"]),
        (["s.npz", "--method", "biased-relu"], ["biased-relu", "one output", "3"]),
        (["s.npz", "--activation", "softmax"], ["softmax", "leaky_relu"]),
        (["s.npz", "--activation", "relu2"], ["relu2", "auto"]),
        (["s.npz", "--corrupted", "mask.txt"], ["mask.txt", ".npy"]),
        (["s.npz", "--corrupted", "s.npz"], ["s.npz", "input"]),
        (["s.npz", "--corrupted", "new.npz", "--out", "new.npz"], ["same name"]),
        (["s.npz", "--truth", "own.npz"], ["own.npz", "'mine'", "unknown"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_several_outputs_that_do_not_fit(
    several: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    words: list[str],
) -> None:
    monkeypatch.chdir(several)
    one = pn.random_network(2, 5, rng=0)
    one.save("one.npz")
    np.savez("own.npz", **{**load_npz("one.npz"), "activation": np.asarray("mine")})
    before = sorted(several.iterdir())
    refused(invoke(capsys, ["recover", *args]), *words)
    assert sorted(several.iterdir()) == before


def test_a_leaky_network_from_samples_to_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    leaky = ["--activation", "leaky_relu(0.2)", "--truth", "truth.npz"]
    assert invoke(capsys, ["simulate", "s.npz", *SEVERAL, *leaky]).returncode == 0
    found = ["--activation", "leaky_relu", "--truth", "truth.npz", "--out", "net.npz"]
    ended = invoke(capsys, ["recover", "s.npz", *found])
    assert ended.returncode == 0 and "units of slope 0.2" in ended.stdout, ended.stdout
    ended = invoke(capsys, ["compare", "net.npz", "truth.npz"])
    assert ended.returncode == 0 and "Slope below zero" in ended.stdout
    truth = pn.load_network("truth.npz")
    truth.replace(activation="leaky_relu(0.3)").save("steeper.npz")
    far = json.loads(invoke(capsys, ["compare", "steeper.npz", "truth.npz", "--json"]).stdout)
    assert abs(far["parameter_error"] - 0.1) < 1e-12
    assert far["activations"] == ["leaky_relu(0.3)", "leaky_relu(0.2)"]
    truth.replace(activation="relu").save("relu.npz")
    refused(invoke(capsys, ["compare", "relu.npz", "truth.npz"]), "activation", "leaky_relu")
    truth.replace(output_weights=truth.output_weights[:2], output_bias=0.0).save("fewer.npz")
    refused(invoke(capsys, ["compare", "fewer.npz", "truth.npz"]), "outputs (2 and 3)")


def test_one_output_in_a_row_of_its_own_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A network with output weights (1, units) is the same as one with (units,)."""
    plain = pn.random_network(2, 3, rng=0).replace(output_bias=0.5, linear=[1.0, 2.0, 3.0])
    A, V = plain.output_weights[None], [[1.0, 2.0, 3.0]]
    row = pn.Network(plain.weights, plain.biases, A, [0.5], linear=V)
    plain.save(tmp_path / "plain.npz")
    row.save(tmp_path / "row.npz")
    ended = invoke(capsys, ["compare", str(tmp_path / "row.npz"), str(tmp_path / "plain.npz")])
    assert ended.returncode == 0 and "Parameter error: 0" in ended.stdout, ended.stderr


@pytest.mark.parametrize("name", ["mask.npy", "mask.npz"])
def test_corrupted_labels_are_counted_and_written(
    several: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    mask = np.zeros((300, 3), dtype=bool)
    mask[5, 1] = mask[7] = True
    network = pn.load_network(several / "truth.npz")
    found = Recovery(network, Status.EXACT, "well", "sparse-noise", details=SetAside(mask))
    pretend(monkeypatch, found)
    args = ["recover", str(several / "s.npz"), "--corrupted", str(tmp_path / name)]
    ended = invoke(capsys, [*args, "--json"])
    assert ended.returncode == 0 and json.loads(ended.stdout)["corrupted"] == 4
    assert f"Wrote {tmp_path / name}" in ended.stderr
    found = load_npz(tmp_path / name)["corrupted"] if name[-1] == "z" else np.load(tmp_path / name)
    assert np.array_equal(found, mask)
    assert "4 of 900 labels" in invoke(capsys, args).stdout


@pytest.mark.parametrize("status", [Status.EXACT, Status.FAILED])
def test_without_corrupted_labels_no_mask_is_written(
    several: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: Status,
) -> None:
    network = pn.load_network(several / "truth.npz")
    mask = None if status is Status.EXACT else np.ones((300, 3), dtype=bool)
    details = None if mask is None else SetAside(mask)
    pretend(monkeypatch, Recovery(network, status, "so it went", "auto", details=details))
    args = ["recover", str(several / "s.npz"), "--corrupted", str(tmp_path / "mask.npy")]
    ended = invoke(capsys, args)
    assert "mask.npy was not written" in ended.stderr and list(tmp_path.iterdir()) == []


def test_methods(capsys: pytest.CaptureFixture[str]) -> None:
    shown = invoke(capsys, ["methods"])
    assert shown.returncode == 0 and shown.stderr == ""
    listed = json.loads(invoke(capsys, ["methods", "--json"]).stdout)
    names = [method["name"] for method in listed]
    assert {"biased-relu", "expand-prune"} <= set(names)
    assert all(method["summary"] and method["needs"] for method in listed)
    assert all(name in shown.stdout for name in names)


# Not recovered


def test_not_recovered_is_exit_code_3(folder: Path) -> None:
    """One unit cannot explain two, and noise is ruled out."""
    ended = run(
        *("recover", "s.npz", "--units", 1, "--noise", 0, "--budget", 0.2, "--json"), cwd=folder
    )
    assert ended.returncode == 3, ended.stderr
    answer = json.loads(ended.stdout)
    assert answer["success"] is False and answer["status"] in ("partial", "failed")


def pretend(monkeypatch: pytest.MonkeyPatch, result: Recovery) -> None:
    for module in (cli_demo, cli_recover):
        monkeypatch.setattr(module, "recover_network", lambda *args, **options: result)


@pytest.mark.parametrize(
    ("status", "known", "written"),
    [
        (Status.EXACT, True, True),
        (Status.PARTIAL, True, True),
        (Status.FAILED, True, False),
        (Status.FAILED, False, False),
    ],
)
def test_a_network_is_written_only_if_there_is_one(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: Status,
    known: bool,
    written: bool,
) -> None:
    network = pn.load_network(folder / "truth.npz") if known else None
    pretend(monkeypatch, Recovery(network, status, "so it went", "auto"))
    out = tmp_path / "net.npz"
    for options in ([], ["--json"], ["--quiet"]):
        args = ["recover", str(folder / "s.npz"), "--out", str(out), *options]
        ended = invoke(capsys, args)
        assert ended.returncode == (0 if status is Status.EXACT else 3), ended.stderr
        assert out.exists() is written
        assert "so it went" in ended.stdout
        assert ("not written" in ended.stderr) is (not written and "--quiet" not in options)


def test_demo_does_not_believe_a_wrong_certificate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = pn.random_network(2, 5, rng=99)
    pretend(monkeypatch, Recovery(wrong, Status.EXACT, "all is well", "auto"))
    ended = invoke(capsys, ["demo", *SMALL])
    assert ended.returncode == 3 and "all is well" in ended.stdout


# Bad input


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["recover"], ["SAMPLES"]),
        (["recover", "s.npz", "--units", "0"], ["--units"]),
        (["recover", "s.npz", "--units", "two"], ["--units"]),
        (["recover", "s.npz", "--noise", "-1"], ["--noise"]),
        (["recover", "s.npz", "--noise", "nan"], ["--noise"]),
        (["recover", "s.npz", "--noise", "inf"], ["--noise"]),
        (["recover", "s.npz", "--seed", "-1"], ["--seed"]),
        (["recover", "s.npz", "--nonsense"], ["--nonsense"]),
        (["nonsense"], ["nonsense"]),
        (["demo", "--samples", "0"], ["--samples"]),
        (["compare", "truth.npz"], ["TRUTH"]),
    ],
)
def test_wrong_usage_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], args: list[str], words: list[str]
) -> None:
    ended = invoke(capsys, args)
    assert ended.returncode == 2 and ended.stdout == "" and "Traceback" not in ended.stderr
    for word in words:
        assert word in ended.stderr


def test_wrong_usage_of_a_process() -> None:
    ended = run("recover", "--units", "0", "s.npz")
    assert ended.returncode == 2 and ended.stdout == "" and "--units" in ended.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["recover", "none.npz"], ["none.npz", "does not exist"]),
        (["recover", "X.npy"], ["X.npy", "second .npy"]),
        (["recover", "s.npz", "y.npy"], ["s.npz", "leave out"]),
        (["recover", "half.npz"], ["half.npz", "truncated"]),
        (["recover", "empty.csv"], ["empty.csv", "empty"]),
        (["recover", "words.csv"], ["words.csv", "line 2", "column 6"]),
        (["recover", "notes.txt"], ["notes.txt", "extension"]),
        (["recover", "truth.npz"], ["truth.npz", "not X and y"]),
        (["recover", "nan.npz"], ["finite"]),
        (["recover", "constant.npz"], ["constant"]),
        (["recover", "twice.npz"], ["Columns [", "4]"]),
        (["recover", "few.npz"], ["samples"]),
        (["recover", "s.npz", "--method", "magic"], ["magic", "biased-relu", "expand-prune"]),
        (["recover", "s.npz", "--units", "9", "--method", "biased-relu"], ["expand-prune"]),
        (["recover", "s.npz", "--out", "no/net.npz"], ["no", "does not exist"]),
        (["recover", "s.npz", "--out", "net.txt"], ["net.txt", ".npz"]),
        (["recover", "s.npz", "--out", "s.npz"], ["s.npz", "input"]),
        (["recover", "s.npz", "--truth", "none.npz"], ["none.npz", "does not exist"]),
        (["recover", "s.npz", "--truth", "other.npz"], ["other.npz", "4 features"]),
        (["recover", "s.npz", "--truth", "s.npz"], ["s.npz", "not a network"]),
        (["compare", "truth.npz", "other.npz"], ["features", "5 and 4"]),
        (["compare", "truth.npz", "s.npz"], ["s.npz", "not a network"]),
        (["compare", "half.npz", "truth.npz"], ["half.npz"]),
        (["compare", "X.npy", "truth.npz"], ["X.npy", ".npz"]),
        (["compare", "truth.npz", "notes.txt"], ["notes.txt", ".npz"]),
        (["simulate", "s.txt"], ["s.txt", "extension"]),
        (["simulate", "new.npy"], ["new.npy", "second .npy"]),
        (["simulate", "new.npz", "--truth", "new.npz"], ["same name"]),
        (["simulate", "no/new.npz"], ["no", "does not exist"]),
        (["simulate", "new.npz", "--truth", "net.txt"], ["net.txt", ".npz"]),
        (["simulate", "new.npz", "--samples", "1000000000000"], ["memory"]),
        (["demo", "--samples", "20", "--quiet"], ["samples"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_one_sentence(
    bad: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    words: list[str],
) -> None:
    monkeypatch.chdir(bad)
    before = sorted(bad.iterdir())
    refused(invoke(capsys, args), *words)
    assert sorted(bad.iterdir()) == before


def test_bad_input_to_a_process(bad: Path) -> None:
    before = sorted(bad.iterdir())
    refused(run("recover", "nan.npz", "--out", "net.npz", cwd=bad), "finite")
    assert sorted(bad.iterdir()) == before


@pytest.fixture(scope="module")
def bad(folder: Path) -> Path:
    """Files that cannot be used, each for a reason of its own."""
    X, y = samples_in(folder / "s.npz")
    hole, whole = X.copy(), (folder / "s.npz").read_bytes()
    hole[7, 2] = np.nan
    (folder / "half.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.csv").touch()
    (folder / "words.csv").write_text("1,2,3,4,5,6\n1,2,3,4,5,six\n")
    (folder / "notes.txt").write_text("1,2,3\n")
    np.savez(folder / "nan.npz", X=hole, y=y)
    np.savez(folder / "constant.npz", X=X, y=np.ones(len(y)))
    np.savez(folder / "twice.npz", X=X[:, [0, 1, 2, 3, 1]], y=y)
    np.savez(folder / "few.npz", X=X[:6], y=y[:6])
    pn.random_network(2, 4, rng=0).save(folder / "other.npz")
    return folder


def test_a_full_disk_is_one_sentence_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    ended = invoke(capsys, ["simulate", str(tmp_path / "s.npz"), *SMALL])
    refused(ended, "No space left on device.")
    assert list(tmp_path.iterdir()) == []


# Ctrl-C


def test_interrupting_leaves_nothing_behind(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 40))
    np.savez(tmp_path / "s.npz", X=X, y=pn.random_network(40, 40, bias_scale=1.5, rng=0)(X))
    # A shell may start its jobs with SIGINT ignored, and that is inherited: undo it first.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from provenet.cli.app import main; main()"
    )
    args = ["recover", "s.npz", "--out", "net.npz", "--budget", "100"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *args],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    guard = threading.Timer(60, process.kill)
    guard.start()
    assert process.stderr is not None
    stage = process.stderr.readline()  # printed once the recovery has run for a second
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    guard.cancel()
    assert stage.strip() and process.returncode == 130, stage + stderr
    assert stdout == "" and "Interrupted" in stderr and "Traceback" not in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]


def test_layers_and_their_tops_are_in_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = random_layered(2, 3, threshold=1.0, activation="sigmoid", rng=0)
    X = np.random.default_rng(1).standard_normal((5000, 3))
    np.savez(tmp_path / "data.npz", X=X, y=hidden(X))
    fires = (X[:, 0] > 1).astype(float)
    np.savez(tmp_path / "union.npz", X=X, y=fires)
    smooth = ["--method", "lowest-layer", "--activation", "sigmoid", "--units", "2"]
    args = ["recover", str(tmp_path / "data.npz"), *smooth, "--threshold", "1", "--json"]
    told = json.loads(invoke(capsys, args).stdout)
    assert told["status"] == "exact" and told["layer"]["exact"]
    terms = {tuple(t["units"]): t["coefficient"] for t in told["layered"]["top"]["terms"]}
    assert terms[(0,)] == pytest.approx(1.0) and terms[(1,)] == pytest.approx(1.0)
    args = ["recover", str(tmp_path / "union.npz"), "--method", "halfspaces", "--json"]
    told = json.loads(invoke(capsys, args).stdout)
    assert told["layered"]["top"] == "union" and len(told["layer"]["angle_errors"]) == 1


def test_identify_says_what_samples_can_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = pn.datasets.sign_ambiguous_network(6, 3, rng=1)
    first.save(tmp_path / "net.npz")
    plain = invoke(capsys, ["identify", str(tmp_path / "net.npz"), "--samples", "10000"])
    assert plain.returncode == 0 and "different parameters give the same function" in plain.stdout
    told = json.loads(invoke(capsys, ["identify", str(tmp_path / "net.npz"), "--json"]).stdout)
    assert told["identifiable"] is False
    missing = invoke(capsys, ["identify", str(tmp_path / "none.npz")])
    assert missing.returncode == 2 and "does not exist" in missing.stderr
