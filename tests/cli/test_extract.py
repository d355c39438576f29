"""`provenet extract` as its users meet it: options, output, files and exit codes."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

import provenet as pn
from deep_searches import Finds, deep, found_layers
from provenet.cli import app as cli
from provenet.extraction.oracle import Oracle

NET = pn.random_network(2, 3, rng=0).replace(output_bias=0.3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, the network in it, and one that is not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    NET.save("m.onnx")
    NET.save("truth.npz")
    pn.random_network(2, 4, rng=0).save("other.npz")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[Any, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        cli.app(["extract", *args])
    return end.value.code, *capsys.readouterr()


def test_a_model_is_extracted_and_a_second_run_asks_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("m.onnx", "--truth", "truth.npz", "--cache", "answers", "--out", "found.npz")
    code, out, err = run(capsys, *options)
    assert code == 0 and "Wrote found.npz" in err
    line = re.search(r"^([\d,]+) queries for 9 parameters$", out, re.MULTILINE)
    assert line and NET.free_parameters == 9, out
    queries = int(line[1].replace(",", ""))
    assert pn.parameter_error(pn.load_network("found.npz"), NET) < 1e-9
    size = Path("answers").stat().st_size
    code, out, _ = run(capsys, *options)
    assert f"{line[0]} ({line[1]} taken from the cache)" in out
    code, out, _ = run(capsys, *options[:-2], "--json")
    result = json.loads(out)
    assert result["queries"] == result["cached"] == queries and result["parameter_error"] < 1e-9
    assert Path("answers").stat().st_size == size


def test_a_short_answer_is_one_line_and_the_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "m.onnx", "--truth", "truth.npz", "--quiet")
    assert code == 0 and err == ""
    assert len(out.splitlines()) == 2 and "Parameter error" in out


def test_a_report_of_what_was_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.setattr("sys.argv", ["provenet", "extract", "m.onnx"])
    code, out, err = run(capsys, "m.onnx", "--truth", "truth.npz", "--report", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    queries = re.search(r"[\d,]+ queries", out)
    assert code == 0 and "Wrote page.html" in err and queries is not None
    assert f"was found in {queries[0]} by the method kinks" in page
    assert "300 samples that the network drawn was not fitted to" in page
    assert "provenet extract m.onnx" in page and "Spectrum" not in page
    # Nothing is found, and there is a page all the same.
    code, _, _ = run(capsys, "m.onnx", "--budget", "5", "--report", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert code == 3 and "0 features" not in page
    assert re.search(r"No network was found in \d quer", page)


REFUSED: dict[str, tuple[str, ...]] = {
    "other.npz has 4 features and 1 output but m.onnx has 3 features": ("--truth", "other.npz"),
    "m.onnx has 3 features, not 4": ("--features", "4"),
    "m.onnx is also an input": ("--cache", "m.onnx"),
    "m.txt cannot hold a network": ("--out", "m.txt"),
    "The folder missing does not exist": ("--cache", "missing/answers"),
    "truth.npz is also an input": ("--truth", "truth.npz", "--out", "truth.npz"),
    "other.npz is not a file of answers": ("--cache", "other.npz"),
    "timeout must be a positive number of seconds": ("--timeout", "0"),
    "page.txt is no name for a report": ("--report", "page.txt"),
    "low must be below high": ("--low", "1", "--high", "-1"),
    "low must be a number, or one for each of the 3 features": ("--low", "0,1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_one_sentence(
    what: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "m.onnx", *REFUSED[what])
    assert (code, out) == (2, "") and err.startswith("Error: ") and what in err
    assert err.count("\n") == 1 and err.endswith(".\n")


def test_a_box_has_limits_of_its_own_for_every_feature(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes = []

    def without_work(oracle: Oracle, **options: Any) -> pn.Recovery:
        boxes.append((oracle.low, oracle.high))
        return pn.extract(oracle, budget=None, seconds=1e-9, rng=0)

    monkeypatch.setattr("provenet.cli.extract.extract_network", without_work)
    run(capsys, "m.onnx", "--low=-1,-2.5,-300", "--high", "4", "--quiet")
    low, high = boxes[0]
    assert low.tolist() == [-1, -2.5, -300] and high.tolist() == [4, 4, 4]
    code, _, err = run(capsys, "m.onnx", "--low", "0;1")
    assert code == 2 and "'0;1' is not a number" in err and len(boxes) == 1


def test_an_endpoint_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        code, out, err = run(capsys, url, "--features", "3", "--retries", "0", "--quiet")
    assert (code, out) == (3, "")
    assert err.startswith(f"Error: {url} answered 0 queries, then failed once (Connection refused)")
    assert err.endswith(".\n") and not err.endswith("..\n")


def test_several_layers_are_shown_saved_and_compared(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = deep(6, 5, 4, 1)
    net.save("deep.onnx")
    net.save("deep.npz")
    search = Finds(monkeypatch, net)
    options = ("deep.onnx", "--truth", "deep.npz", "--out", "found.npz")
    code, out, err = run(capsys, *options)
    assert code == 0 and "5 and 4 units in 2 layers" in out and "Layer 2" in out
    assert "Wrote found.npz" in err and pn.parameter_error(pn.load_network("found.npz"), net) < 1e-9
    code, out, _ = run(capsys, *options[:-2], "--json", "--layers", "2", "--units", "5,4")
    result = json.loads(out)
    assert code == 0 and search.layers == [None, 2] and result["parameter_error"] < 1e-9
    assert [layer["whole"] for layer in result["layers_found"]] == [True, True]
    code, out, _ = run(capsys, *options[:-2], "--layers", "1", "--quiet")
    assert code == 3 and "one hidden layer" in out and len(search.layers) == 2


def test_first_layers_alone_are_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = deep(12, 5, 4, 3, 1)
    net.save("deep.onnx")
    net.save("deep.npz")
    Finds(monkeypatch, net, layers=found_layers(net)[:2])
    code, out, _ = run(capsys, "deep.onnx", "--truth", "deep.npz", "--out", "found.npz")
    assert code == 3 and out.startswith("Partial. The first 2 layers of the network are known")
    assert "Parameter error: infinite" in out and pn.load_network("found.npz").widths == (5, 4)
    code, out, _ = run(capsys, "deep.onnx", "--json")
    assert json.loads(out)["claim"] == "layer"


@pytest.mark.parametrize("option", [("--layers", "0"), ("--layers", "two"), ("--units", "4,x")])
def test_layers_that_cannot_be_are_refused(
    option: tuple[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "m.onnx", *option)
    assert code == 2 and out == "" and option[1] in err
