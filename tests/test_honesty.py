"""Some hundred problems of the honesty benchmark, and its scoring, which must be able to fail."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import honesty
import provenet as pn
from honesty_families import FAMILIES
from honesty_families.case import Case, Family, gaussian, network, recovery
from honesty_families.scoring import schwarz, scored
from provenet.certify.layer import LayerDetails, LayerEvidence
from provenet.fitting.covariance import StandardErrors
from provenet.networks.layered import union
from trials import fitted_from

TRUTH = network(np.random.default_rng(1), 4, 3)

# ---------------------------------------------------------------- scoring


def case(noise: float = 0.0, truth: pn.Network = TRUTH, samples: int = 500) -> Case:
    rng = np.random.default_rng(2)
    X, fresh = gaussian(rng, truth, samples)
    y = truth(X) + noise * rng.standard_normal(samples)
    return recovery(truth, X, y, fresh, seed=0)


def said(found: pn.Network, status: pn.Status = pn.Status.EXACT, **evidence: Any) -> pn.Recovery:
    return pn.Recovery.judged(found, [], status, "", method="none", **evidence)


def same_error(found: pn.Network, size: float) -> StandardErrors:
    """The same standard error for every parameter."""
    none = StandardErrors.none(found)
    return StandardErrors(
        none.weights + size, none.biases + size, none.output_weights + size, size, None
    )


def within_noise(found: pn.Network, size: float, **evidence: Any) -> pn.Recovery:
    errors = same_error(found, size)
    return said(found, pn.Status.WITHIN_NOISE, standard_errors=errors, **evidence)


def moved_bias(by: float) -> pn.Network:
    biases = TRUTH.biases.copy()
    biases[1] += by
    return TRUTH.replace(biases=biases)


def test_a_permuted_and_rescaled_truth_is_right() -> None:
    order = np.array([2, 0, 1])
    scale = np.array([3.0, 0.2, 7.0])
    same = TRUTH.keep(order).replace(
        weights=TRUTH.weights[order] * scale[:, None],
        biases=TRUTH.biases[order] * scale,
        output_weights=TRUTH.output_weights[order] / scale,
    )
    assert scored(case(), said(same)).wrong == ""
    score = scored(case(), within_noise(same, 1e-3))
    assert score.wrong == "" and score.covered == score.intervals == 19  # 3 (4 + 1 + 1) + 1


def test_units_far_from_zero_are_matched_by_what_they_do() -> None:
    """Weights off by 1e-4 exchange biases of about -1e6: those do not tell which unit is which."""
    sums = 1e6 + np.array([0.0, 20.0, -20.0])
    centre = np.linalg.lstsq(TRUTH.weights, sums)[0]
    far = TRUTH.replace(biases=TRUTH.biases - sums)
    X, fresh = (inputs + centre for inputs in gaussian(np.random.default_rng(2), far, 500))
    exchanged = np.roll(far.biases, 1)
    turned = TRUTH.weights + np.outer(far.biases - exchanged, centre) / (centre @ centre)
    assert np.abs(turned - TRUTH.weights).max() < 1e-4
    found = TRUTH.replace(weights=turned, biases=exchanged)  # the same function but for 1e-4
    errors = replace(same_error(found, 1e-4), biases=np.full(3, 100.0))
    result = said(found, pn.Status.WITHIN_NOISE, standard_errors=errors)
    assert scored(recovery(far, X, far(X), fresh, seed=0), result).wrong == ""


def test_turned_smooth_units_and_logistic_ones_are_the_same() -> None:
    waves = pn.random_network(3, 4, activation="sin", rng=0)
    same = waves.replace(
        weights=-waves.weights, biases=5 * np.pi - waves.biases, output_weights=waves.output_weights
    )
    assert scored(case(truth=waves), said(same)).wrong == ""
    assert scored(case(truth=waves), said(same.replace(biases=same.biases + 1e-3))).wrong
    logistic = pn.random_network(3, 4, activation="sigmoid", rng=0)
    A = logistic.output_weights / 2
    odd = pn.Network(logistic.weights / 2, logistic.biases / 2, A, A.sum(), "tanh")
    assert scored(case(truth=logistic), said(odd)).wrong == ""
    assert scored(case(truth=odd), said(logistic)).wrong == ""
    assert "units of erf" in scored(case(truth=odd), said(odd.replace(activation="erf"))).wrong


def test_smooth_units_that_merge_are_not_asked_for() -> None:
    """Two waves of one length and direction are one."""
    wave = pn.random_network(1, 4, activation="sin", rng=0)
    two = pn.Network(
        np.vstack([wave.weights, wave.weights]), np.append(wave.biases, wave.biases + 2 * np.pi),
        np.append(0.4 * wave.output_weights, 0.6 * wave.output_weights), 0.0, "sin",
    )  # fmt: skip
    assert scored(case(truth=two), said(wave)).undecided
    assert "2 units" in scored(case(truth=wave), said(two)).wrong


def test_a_wrong_network_is_wrong() -> None:
    assert scored(case(), said(moved_bias(1e-8))).wrong == ""
    assert "off by 1.0e-05" in scored(case(), said(moved_bias(1e-5))).wrong
    assert "2 units" in scored(case(), said(TRUTH.keep(np.array([0, 1])))).wrong
    flipped = TRUTH.replace(weights=-TRUTH.weights, biases=-TRUTH.biases)
    assert scored(case(), said(flipped)).wrong
    assert scored(case(), replace(said(flipped), status=pn.Status.PARTIAL)).wrong == ""


def test_six_stated_errors_are_too_many() -> None:
    assert scored(case(), within_noise(moved_bias(0.05), 0.01)).wrong == ""
    score = scored(case(0.1), within_noise(moved_bias(0.2), 0.01))
    assert "20.0 stated standard errors" in score.wrong
    assert (score.covered, score.intervals) == (18, 19)


def test_what_is_stated_to_be_open_is_not_compared() -> None:
    shifted = TRUTH.replace(output_bias=TRUTH.output_bias + 1.0)
    assert scored(case(0.1), within_noise(shifted, 0.01)).wrong
    stated = within_noise(shifted, 0.01, ambiguities=("The output bias is not determined.",))
    assert scored(case(0.1), stated).wrong == ""
    assert scored(case(0.1), stated).intervals == 18
    # Signs: the function is compared instead, which is not the same for these.
    other = TRUTH.replace(weights=-TRUTH.weights, biases=-TRUTH.biases)
    open_signs = {"ambiguities": ("Some units may have the opposite sign.",)}
    assert scored(case(), said(other, **open_signs)).wrong
    assert scored(case(), said(TRUTH, **open_signs)).wrong == ""


def test_a_unit_that_samples_do_not_show_is_not_asked_for() -> None:
    never_on = TRUTH.replace(biases=np.append(TRUTH.biases[:2], -50.0))
    two = never_on.keep(np.array([0, 1]))
    score = scored(case(truth=never_on), said(two))
    assert score.wrong == score.undecided == ""
    assert scored(case(), said(TRUTH.keep(np.array([0, 1])))).wrong


def test_schwarz_decides_between_widths() -> None:
    """A unit 0.05 high under noise 0.5: 300 samples do not tell, 30 times as many of 0.001 do."""
    weak = TRUTH.replace(output_weights=np.append(TRUTH.output_weights[:2], 0.05))
    two = weak.keep(np.array([0, 1]))
    for noise, undecided in ((0.5, True), (0.001, False)):
        problem = case(noise, weak, 300)
        assert problem.X is not None and problem.y is not None
        found = fitted_from(two, problem.X, problem.y)
        score = scored(problem, within_noise(found, 1.0))
        assert bool(score.undecided) is undecided and bool(score.wrong) is not undecided
        best = fitted_from(weak, problem.X, problem.y)
        better = schwarz(found, problem.X, problem.y) < schwarz(best, problem.X, problem.y)
        assert better is undecided


def test_rounded_labels_are_decided_by_their_intervals() -> None:
    rng = np.random.default_rng(3)
    weak = TRUTH.replace(output_weights=np.append(TRUTH.output_weights[:2], 1e-4))
    X, fresh = gaussian(rng, weak, 300)
    two = weak.keep(np.array([0, 1]))
    y = np.round(two(X), 2)
    rounded = recovery(weak, X, y, fresh, 0, step=0.01)
    assert scored(rounded, within_noise(two, 1.0)).undecided
    invented = recovery(two, X, y, fresh, 0, step=0.01)
    assert "3 units" in scored(invented, within_noise(weak, 1.0)).wrong
    larger = two.replace(output_weights=1.01 * two.output_weights)  # out of many intervals
    assert scored(rounded, within_noise(larger, 1.0)).wrong


def test_where_there_is_no_network_values_decide() -> None:
    problem = replace(case(), truth=None)
    assert scored(problem, said(TRUTH)).wrong == ""
    assert "of values are off" in scored(problem, said(moved_bias(1e-3))).wrong
    # 500 samples are likely to miss a region of less than 1% of the inputs, and none of 3%.
    low = float(np.quantile(problem.fresh[:, 0], 0.03))

    def cut(X: Any) -> Any:
        return TRUTH(X) + (X[:, 0] < low)

    assert "3.0% of values are off" in scored(replace(problem, mean=cut), said(TRUTH)).wrong
    asked = replace(problem, X=None, y=None, mean=cut)  # a model, of which nobody knows what it saw
    assert "3.0% of values are off" in scored(asked, said(TRUTH)).wrong
    low = float(np.quantile(problem.fresh[:, 0], 0.005))
    assert scored(asked, said(TRUTH)).undecided


def test_a_layer_is_compared_by_angles_and_thresholds() -> None:
    W = np.eye(2, 3)
    layer = pn.Network(W, np.array([-1.0, -1.2]), activation="step")
    truth = pn.LayeredNetwork(layer, union)
    rng = np.random.default_rng(4)
    X, fresh = gaussian(rng, truth, 500)
    problem = recovery(truth, X, truth(X), fresh, 0)

    def found(by: float, stated: float) -> pn.Recovery:
        moved = layer.replace(biases=layer.biases + by)
        errors = np.full(2, stated)
        evidence = LayerEvidence(errors, errors, np.full(2, 500), exact=False, way="")
        details = LayerDetails(evidence, pn.LayeredNetwork(moved, union))
        return said(moved, pn.Status.WITHIN_NOISE, claim=pn.Claim.LAYER, details=details)

    assert scored(problem, found(0.05, 0.01)).wrong == ""
    assert "10.0 stated errors" in scored(problem, found(0.1, 0.01)).wrong
    # A halfspace within another shows on no sample.
    hidden = pn.LayeredNetwork(
        layer.replace(weights=W[[0, 0]], biases=np.array([-1.0, -2.0])), union
    )
    one = found(0.0, 0.01)
    assert one.network is not None
    alone = pn.LayeredNetwork(one.network.keep(np.array([0])), union)
    evidence = replace(one.details.layer, angle_errors=np.ones(1), threshold_errors=np.ones(1))
    less = replace(one, network=alone.layer, details=LayerDetails(evidence, alone))
    assert scored(recovery(hidden, X, hidden(X), fresh, 0), less).undecided
    assert "1 units" in scored(problem, less).wrong
    nothing = replace(problem, truth=None, mean=lambda Z: (np.abs(Z[:, 0]) > 1).astype(float))
    assert "there is none" in scored(nothing, found(0.0, 0.01)).wrong


# ---------------------------------------------------------------- the run


def test_a_crash_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises() -> pn.Recovery:
        raise ZeroDivisionError("by design")

    monkeypatch.setitem(
        FAMILIES, "crash", Family("crash", lambda rng, seed: replace(case(), ask=raises), "")
    )
    outcome = honesty.verdict("crash", 0)
    assert outcome.status == "crashed" and "by design" in outcome.message
    assert list(honesty.faults([outcome])) == [
        "- crash, seed 0: crashed; ZeroDivisionError: by design"
    ]


def outcome(**changes: Any) -> honesty.Verdict:
    return replace(honesty.Verdict("plain", 0, "within noise", "", 0.5, 0.0), **changes)


def test_the_table_counts() -> None:
    outcomes = [
        outcome(covered=18, intervals=20),
        outcome(seed=1, status="exact", wrong="off", covered=2, intervals=5),
        outcome(seed=2, status="failed", expected=True, beyond=1.25),
        outcome(seed=3, status="partial", undecided="no", expected=False),
    ]
    row = honesty.table(outcomes).splitlines()[2]
    counts = [cell.strip() for cell in row.split("|")[3:-1]]
    assert counts == ["4", "1", "1", "1", "1", "0", "1", "1", "1 of 1", "1.2", "80.0%"]


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    plan = honesty.planned(["plain"], 2, seed=5)
    assert plan == [("plain", 5), ("plain", 6)]
    kept = tmp_path / "outcomes.jsonl"
    first = honesty.run(plan[:1], 1, kept)
    with kept.open("a") as file:
        file.write('\n{"family": "pla')  # killed while writing
    both = honesty.run(plan, 1, kept)
    assert both[0] == first[0]  # with its seconds: it was not run again
    assert list(honesty.read(kept)) == both


def test_the_table_is_written_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "honesty.md"
    page.write_text(f"before\n{honesty.BEGIN}\nold\n{honesty.END}\nafter\n")
    for _ in range(2):
        honesty.write("| new |", page)
    assert page.read_text() == f"before\n{honesty.BEGIN}\n\n| new |\n\n{honesty.END}\nafter\n"
    assert honesty.DOCS.read_text().count(honesty.BEGIN) == 1


def test_there_are_enough_families() -> None:
    assert len(FAMILIES) >= 45
    assert [method for method in pn.METHODS if not any(method in name for name in FAMILIES)] == []


def test_the_same_seed_gives_the_same_problem() -> None:
    for name in ("plain noise", "integers", "clusters"):
        first, second = (FAMILIES[name].case(3) for _ in range(2))
        assert first.X is not None and second.X is not None
        assert np.array_equal(first.X, second.X) and np.array_equal(first.y, second.y)  # type: ignore[arg-type]


# ---------------------------------------------------------------- problems

QUICK = {
    "plain": 5,
    "plain noise": 2,
    "units told": 3,
    "uniform noise": 3,
    "noise of 1e-14": 3,
    "noise of 1e-10": 3,
    "noise of 1e-6": 3,
    "units told too few": 1,
    "units told too many": 1,
    "linear": 3,
    "constant": 2,
    "scaled labels": 3,
    "large offset": 3,
    "sphere": 3,
    "plane": 3,
    "almost a plane": 3,
    "one-hot": 3,
    "mixed scale": 3,
    "far from zero": 3,
    "clusters": 2,
    "repeats": 2,
    "few levels": 2,
    "heavy-tailed inputs": 2,
    "almost equal features": 1,
    "constant feature": 3,
    "walk": 3,
    "by lifting": 3,
    "by rectified": 3,
    "by rank-deficient": 3,
    "by symmetric-inputs": 3,
    "by binary-cliques on no layer": 3,
    "by exponential on no layer": 3,
    "lifting as it should be": 5,
    "arbitrary-noise, one label": 3,
    "model": 5,
    "model of three outputs": 5,
    "nan somewhere": 3,
    "answers of no use": 3,
    "integers": 2,
    "2 decimals": 2,
    "3 to 6 decimals": 3,
    "floored": 3,
    "float16": 3,
    "float32": 3,
    "correlated noise": 2,
    "corner": 1,
    "clipped region": 1,
    "many units": 2,
    "cache of another model": 3,
    "smooth": 3,
    "smooth, reversible": 1,
    "smooth, noise": 3,
    "smooth, rounded labels": 1,
    "smooth, scaled": 1,
    "smooth, too few told": 2,
    "smooth, dead output": 2,
    "deep, one second": 1,
    "deep, three outputs": 2,
}
"""Families whose problems take a tenth of a second or so, and how many of each: fewer where one of
them takes a second."""
DUE = 0.9
"""Share of the successes that must come, over all of these families."""


def test_no_success_is_wrong(clock: Any) -> None:
    clock.tick = 0.002  # seconds that pass with a look at the clock: the same on any machine
    outcomes = [honesty.verdict(name, seed) for name, n in QUICK.items() for seed in range(n)]
    assert len(outcomes) > 150
    assert list(honesty.faults(outcomes)) == []
    expected = [one for one in outcomes if one.expected]
    assert len(expected) > 30
    assert np.mean([one.success for one in expected]) >= DUE
    # What calls nothing a success is never wrong either: most of these are one.
    assert np.mean([one.success for one in outcomes]) > 0.4
