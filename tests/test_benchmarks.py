"""The benchmarks themselves: few samples suffice, 90% points, and the suite that runs them all."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import activations
import calls
import compare
import decomposition
import samples
import suite
import telling
from common import Line, Record
from peers import PEERS as RIVALS
from trials import Outcome, peer_trial, provenet_trial


def test_four_samples_a_parameter_suffice() -> None:
    problem = samples.row(5, 4, "expand-prune")
    assert problem.samples == 224 == 4 * problem.problem(0).truth.free_parameters
    for seed in (0, 1, 2):
        outcome = provenet_trial(problem, seed, budget=60.0)
        assert outcome.status == "exact" and outcome.recovered and outcome.determined
        assert outcome.error < 1e-12  # rounding: 2e-14 at most with these seeds


@pytest.mark.parametrize("activation", ["tanh", "elu"])
def test_smooth_units_are_recovered_from_few_samples(activation: str) -> None:
    row = activations.line(activation, (4, 2, 150), 1, "all")
    assert row.name == f"{activation}:4,2,150"
    done = provenet_trial(row, 0, budget=30.0)
    assert done.status == "exact" and done.recovered and done.determined and done.identifiable
    assert done.error < 1e-10  # 1e-14 or so


def test_rows_of_smooth_units_are_as_they_say() -> None:
    row = activations.line("gelu", (6, 3, 100), 1, "", norms=(3.0, 4.0), outputs=2, is_told=False)
    problem = row.problem(0)
    norms = np.linalg.norm(problem.truth.weights, axis=1)
    assert (norms >= 3).all() and (norms <= 4).all() and problem.y.shape == (100, 2)
    assert row.told == "auto" and not any(map(row.for_peer, activations.PEERS))
    told = activations.line("sigmoid", (6, 3, 100), 1, "")
    assert told.told == "sigmoid" and all(map(told.for_peer, activations.PEERS))
    truth = told.problem(0).truth
    same = activations.as_tanh(truth)
    X = problem.X
    np.testing.assert_allclose(same(X), truth(X), atol=1e-12)
    assert told.error(same, truth) < 1e-12 and told.error(None, truth) == np.inf
    assert told.error(same.replace(biases=same.biases + 0.1), truth) > 0.01


@pytest.mark.parametrize("name", ["MLPRegressor lbfgs", "Levenberg-Marquardt"])
def test_rivals_know_smooth_units(name: str) -> None:
    assert name in RIVALS
    done = peer_trial(activations.line("sigmoid", (3, 1, 60), 1, ""), 0, name, 0.1)
    assert done.units == 1 and done.residual < 0.3  # a plain fit: of ReLU units it would be more


def outcome(recovered: bool, claimed: bool, determined: bool = True) -> Outcome:
    error = 1e-15 if recovered else 1.0
    status = "exact" if claimed else "failed"
    truths = {"identifiable": True, "determined": determined}
    return Outcome(
        "row", "provenet", 0, recovered, claimed, status, "", {}, 5, error, None, error, 2.0, None,
        **truths,
    )  # fmt: skip


def point(
    ratio: float, recovered: int, of: int = 10, solver: str = "expand-prune"
) -> samples.Point:
    done = tuple(outcome(k < recovered, k < recovered) for k in range(of))
    return samples.Point(5, ratio, solver, done)


def test_the_point_of_90_per_cent() -> None:
    line = [point(2, 1), point(3, 8), point(4, 10), point(5, 10)]
    # From 0.8 at 3 to 1.0 at 4: half way.
    assert samples.sufficient(line).point == pytest.approx(3.5)
    # A later fall counts: the rate has to stay there.
    assert samples.crossing([2, 3, 4, 5], [0.5, 1.0, 0.8, 1.0]) == pytest.approx(4.5)
    assert samples.crossing([2, 3], [0.9, 1.0]) == 2
    assert samples.crossing([2, 3], [1.0, 0.89]) == np.inf
    found = samples.sufficient(line)
    assert found.low < found.point < found.high == np.inf  # 10 of 10 may be 72 per cent


def test_wilson_interval() -> None:
    """Against the closed form."""
    k, n, z = 8, 10, 1.959964
    centre, spread = k / n + z**2 / (2 * n), np.sqrt(k / n * (1 - k / n) / n + z**2 / (4 * n**2))
    expected = (centre + z * np.array([-spread, spread])) / (1 + z**2 / n)
    np.testing.assert_allclose(point(3, k, n).interval, expected, atol=1e-6)


def test_wrong_successes_and_undetermined_problems_are_counted() -> None:
    done = (outcome(True, True), outcome(False, True), outcome(False, False, determined=False))
    found = samples.Point(5, 3.0, "expand-prune", done)
    assert found.wrong == 1 and found.rate == pytest.approx(1 / 3)
    assert samples.share_of_determined(found) == 0.5


def test_points_of_several_runs_are_kept_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run measures what is missing, and a rival's time is that of the same seed."""
    monkeypatch.setattr(samples, "in_fresh_process", lambda trial, *of: trial(*of))
    path, told = tmp_path / "samples.json", "Levenberg-Marquardt"
    first = samples.Plan(2, 12.0, ("expand-prune",), 1, 20.0)
    (done,) = samples.all_measured([first], path)
    assert done == samples.kept(path) and done[2, 12.0, "expand-prune"].recovered == 1
    assert first.missing(done) == []
    both = samples.Plan(2, 12.0, samples.SUITE, 1, 20.0)
    assert both.missing(done) == [told]
    (more,) = samples.all_measured([both], path)
    assert more[2, 12.0, "expand-prune"] == done[2, 12.0, "expand-prune"]
    (line,) = samples.suite_lines(samples.kept(path))
    # 11 parameters; two kinks of four features, and 132 samples to see both sides of them
    assert line.cells[:4] == ("2", "12", "132", "1 of 1") and line.cells[7] == "0"


def test_enough_samples_in_words() -> None:
    def line(units: int, ratio: float, found: int) -> tuple[str, ...]:
        return (str(units), f"{ratio:g}", "", f"{found} of 20", "0 of 20", "", "", "0", "")

    lines = [line(5, 2, 19), line(5, 3, 17), line(5, 4, 18), line(10, 2, 0), line(10, 3, 17)]
    text = telling.told("few samples", {"records": [], "lines": [[(), one] for one in lines]})
    assert "from 4 at 5 units on; wrong successes: 0." in next(text)


def all_points() -> list[samples.Point]:
    solvers = (*samples.METHODS, *samples.PEERS)
    return [
        point(ratio, recovered, solver=solver)
        for solver, rates in zip(solvers, ((9, 10), (2, 10), (0, 0), (4, 10)), strict=True)
        for ratio, recovered in zip((3.0, 5.0), rates, strict=True)
    ]


def test_the_picture_of_sample_counts(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    samples.draw(samples.curves(all_points()), tmp_path / "samples.png")
    assert (tmp_path / "samples.png").stat().st_size > 10_000


def failing(quick: bool) -> list[Record]:
    raise ZeroDivisionError("the machine is on fire")


def missing(quick: bool) -> list[Record]:
    raise ModuleNotFoundError("TensorLy is not installed")


def working(quick: bool) -> list[Record | Line]:
    speed = Record("speed", 3.0, "GFLOP/s", "dgemm", 6.0)
    return [
        speed,
        Line(("row", "recovered"), ("10,5", "3 of 3")),
        Record("t", None, "s", "it", 2.0),
    ]


def test_parts_measured_apart_are_put_together_in_the_order_of_the_suite() -> None:
    first, last, *_ = suite.PARTS
    part = {"failure": None, "records": [], "lines": []}
    later = {**part, "failure": "later"}
    one, two = {"cores": 1, "python": "3.11"}, {"cores": 2, "python": "3.12", "dask": "1.0"}
    found = suite.put_together(
        [
            {"date": "2026-11-18", "machine": one, "quick": False, "parts": {last: part}},
            {"date": "", "machine": two, "quick": True, "parts": {last: later, first: part}},
        ]
    )
    assert found["machine"] == {"cores": 2, "python": "3.11", "dask": "1.0"}
    assert list(found["parts"]) == [first, last] and not found["quick"]
    assert found["parts"][last]["failure"] == "later"
    text = "\n".join(suite.tables(found))
    assert text.count("Few seeds and small sizes") == 2


def test_the_suite_goes_on_after_a_failure(tmp_path: Path, monkeypatch: Any) -> None:
    parts = {"bad": failing, "absent": missing, "good": working}
    monkeypatch.setattr(suite, "PARTS", parts)
    suite.run_parts(None, True, tmp_path)
    (results,) = tmp_path.glob("*-quick.json")
    content = json.loads(results.read_text())
    assert "on fire" in content["parts"]["bad"]["failure"]
    assert content["parts"]["good"]["records"][0]["ratio"] == 0.5
    assert content["machine"]["numpy"] == np.__version__
    table = results.with_suffix(".md").read_text()
    assert "Failed: ZeroDivisionError: the machine is on fire." in table
    assert "Skipped: TensorLy is not installed." in table
    assert "| speed | 3 | GFLOP/s | dgemm | 6 | 0.5 |" in table
    assert "| t | infinite | s | it | 2 | - |" in table
    assert "| row | recovered |\n| --- | --- |\n| 10,5 | 3 of 3 |" in table
    # One part again: the others are kept.
    monkeypatch.setattr(suite, "PARTS", parts | {"bad": working})
    again = suite.run_parts(["bad"], True, tmp_path)
    assert set(again["parts"]) == set(parts) and again["parts"]["bad"]["failure"] is None


def timed(factor: float) -> dict[str, Any]:
    """Results of twenty seeds whose times scatter by a fifth between runs, and of a rate."""
    noise = np.random.default_rng(int(10 * factor)).normal(0.0, 0.2, 20)
    by_seed = list(factor * np.geomspace(1, 30, 20) * np.exp(noise))
    call = Record(
        "10, 5, 300, relu: time", float(np.mean(by_seed)), "s", "it", 1.0, {"by_seed": by_seed}
    )
    rate = Record("pass", 3.0 / factor, "GFLOP/s", "dgemm", 6.0)
    error = Record("error", factor, "", "it", 1.0)
    records = [one.content() for one in (call, rate, error)]
    return {"parts": {"calls": {"records": records, "lines": []}}}


def test_what_became_slower_is_told_with_its_standard_errors() -> None:
    same, slow = (compare.changes(timed(1.0), timed(f)) for f in (1.02, 1.5))
    call, rate = sorted(slow, key=lambda change: change.name)
    # A mean of twenty differences of two figures that scatter by 0.2: 0.06.
    assert call.slower == pytest.approx(1.5, rel=0.2) and call.verdict == "slower"
    assert call.errors == pytest.approx(np.log(1.5) / 0.063, rel=0.5)
    assert rate.slower == pytest.approx(1.5) and rate.errors is None
    assert all(change.verdict == "" for change in same)
    assert "2 of 2 figures became slower." in list(compare.told(slow))
    back = compare.changes(timed(1.5), timed(1.0))
    assert {change.verdict for change in back} == {"faster"}


def test_calls_are_measured_seed_by_seed() -> None:
    times, recovered = calls.run(quick=True, calls=[calls.Call(4, 2, 200)], most=2)
    assert len(times.details["by_seed"]) == 2 and min(times.details["by_seed"]) > 0
    assert recovered.value == 1.0 and times.ratio is not None


def test_the_documentation_is_made_of_results(tmp_path: Path) -> None:
    times = [Record(f"order {k}", 1.0 + k, "s", "dgemm", 2.0) for k in (2, 4)]
    parts = {
        name: {
            "failure": None,
            "seconds": 1.0,
            "records": [r.content() for r in records],
            "lines": [],
        }
        for name, records in (("moment pass", times),)
    }
    content = {"date": "2000-01-01", "quick": True, "machine": {"cores": 2}, "parts": parts}
    suite.write_docs(content, tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert "order 4" in text and "2000-01-01" in text


def test_words_are_made_from_the_figures() -> None:
    """A sentence for every part, none for a part without words."""
    assert set(telling.WORDS) == set(suite.PARTS)
    shares = [Record(f"{ratio}, cluster of 1", ratio, "/s", "memory", 1.0) for ratio in (0.5, 0.75)]
    part = {"records": [one.content() for one in shares], "lines": []}
    assert "on a cluster at 0.5 to 0.75" in next(telling.told("disk and cluster", part))
    cells = [["10,5", "provenet", "3 of 4 (1 beyond)", "4", "3", "1"], ["10,5", "rival", "0 of 2"]]
    part = {"records": [], "lines": [[[], row] for row in cells]}
    (text,) = telling.told("recovery, one output", part)
    assert "recovered 3 of 4, with 1 wrong successes; its rivals, told the width, 0 of 2." in text
    assert not list(telling.told("no such part", part))


def test_every_figure_is_finite_or_left_out() -> None:
    with pytest.raises(ValueError, match="no figure"):
        Record("time", float("inf"), "s", "it", 1.0)


def test_directions_from_the_moments_of_samples() -> None:
    tensors = decomposition.moments_of(6, 3, 50_000, seed=0)
    solvers = decomposition.solvers()
    for name in ("moment fit", "joint diagonalisation"):
        found = solvers[name](tensors, np.random.default_rng(0))
        # 1.8 and 1.7 degrees here; a random set of directions is off by tens.
        assert decomposition.worst_angle(found, tensors.directions) < 3
    if "CP of all" in solvers:
        found = solvers["CP of all"](tensors, np.random.default_rng(0))
        assert decomposition.worst_angle(found, tensors.directions) < 3
