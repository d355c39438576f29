"""The checks on a network that was read off a model's answers: each breaks on its own problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.certify.answered import AGREES, Answered, most_off
from provenet.certify.asked import conclude_traced
from provenet.certify.asked_again import AcrossKinks, FartherOut, judged_again, stopped_early
from provenet.certify.traced import TracedCandidate
from provenet.common.typing import Array

FEATURES, UNITS = 6, 4
NET = pn.random_network(UNITS, FEATURES, rng=0).replace(output_bias=0.3).canonical()
NETS = {
    "one output": NET,
    "two outputs": pn.random_network(UNITS, FEATURES, outputs=2, rng=1).canonical(),
}
X = np.random.default_rng(0).standard_normal((200, FEATURES))
GUIDES, FRESH, SEARCHED = slice(0, 30), slice(30, 180), slice(180, 200)


def at_kinks(net: pn.Network) -> tuple[Array, Array]:
    """One point on the hyperplane of each unit and one to either side, and whose they are."""
    x = X[: net.units]
    on = x - (np.sum(net.weights * x, axis=1) + net.biases)[:, None] * net.weights
    points = np.vstack([on, on + 1e-8 * net.weights, on - 1e-8 * net.weights])
    return points, np.tile(np.arange(net.units), 3)


def honest(net: pn.Network = NET, f: Callable[[Array], Array] | None = None) -> TracedCandidate:
    """A candidate whose network is the model's own, or so it claims of another model `f`."""
    f = f or net
    Z, kink_of = at_kinks(net)
    return TracedCandidate(
        network=net,
        guides=Answered(X[GUIDES], f(X[GUIDES])),
        fresh=Answered(X[FRESH], f(X[FRESH])),
        inputs="standard normal inputs",
        searched=Answered(X[SEARCHED], f(X[SEARCHED])),
        again=Answered(X[:5], f(X[:5])),
        at_kinks=Answered(Z, f(Z)),
        kink_of=kink_of,
        error_bound=1e-11,
        kinks=(net.units,),
        complete=True,
        asked=100,
    )


def failed(candidate: TracedCandidate) -> list[str]:
    return [check.name for check in conclude_traced(candidate).checks if not check.holds]


@pytest.mark.parametrize("name", NETS)
def test_an_honest_answer_is_exact(name: str) -> None:
    candidate = honest(NETS[name])
    result = conclude_traced(replace(candidate, wanted=UNITS))
    assert result.status is pn.Status.EXACT and all(check.holds for check in result.checks)
    assert len(result.checks) == 13 and result.ambiguities == ()
    room = "at most 2.0% of standard normal inputs are off, at 95%"  # 1 - 0.05 ** (1 / 150)
    assert room in result.message and room in str(result)
    assert result.certificate is not None
    assert result.certificate.parameter_error_bound == candidate.error_bound


def off_at(rows: Any, size: float) -> Callable[[Array], Array]:
    """The network, but for a few points."""
    wrong = X[rows]
    return lambda points: NET(points) + size * (points[:, None] == wrong).all(axis=2).any(axis=1)


LINEAR = NET.replace(linear=np.ones(FEATURES))
NOTHING = pn.Network(np.empty((0, FEATURES)), output_weights=np.empty(0), output_bias=2.0)
PARTIAL, FAILED = pn.Status.PARTIAL, pn.Status.FAILED
BROKEN: dict[str, tuple[TracedCandidate, str, pn.Status, str]] = {
    "a fresh point": (
        honest(f=off_at([41], 1e-6)),
        "fresh points are predicted",
        FAILED,
        "149 of 150 fresh points are explained, 1 are off",
    ),
    "a point at an extreme": (
        honest(f=off_at([190], 1e-6)),
        "points at extremes and on fresh lines are predicted",
        FAILED,
        "19 of 20 points at extremes and on fresh lines are explained",
    ),
    "a model that changes": (
        replace(honest(), again=Answered(X[:5], 1.001 * NET(X[:5]))),
        "the same questions get the same answers",
        FAILED,
        "changes while it is asked",
    ),
    "few fresh points": (
        replace(honest(), fresh=Answered(X[30:90], NET(X[30:90]))),
        "little can be off",
        PARTIAL,
        "at most 4.9% of standard normal inputs are off, at 95%",
    ),
    "a point that led the search": (
        honest(f=off_at([7], 1e-6)),
        "points that led the search are explained",
        FAILED,
        "29 of 30 points that led the search",
    ),
    "a line that was given up": (
        replace(honest(), complete=False),
        "the function was traced",
        FAILED,
        "one hidden layer",
    ),
    "rounding": (
        replace(honest(), error_bound=2e-9),
        "rounding leaves the units known",
        PARTIAL,
        "2e-09",
    ),
    "an error that is not known": (
        replace(honest(), error_bound=np.nan),
        "rounding leaves the units known",
        PARTIAL,
        "could not be measured",
    ),
    "a linear term": (honest(LINEAR), "no linear term is left", PARTIAL, "and a linear term"),
    "a constant": (
        honest(NOTHING),
        "a unit shows",
        PARTIAL,
        "constant at all 250 points asked",
    ),
    "other signs": (
        replace(honest(), alternatives=1, open_signs=3),
        "signs are determined",
        PARTIAL,
        "The function is exact; 3 signs of units are open",
    ),
    "signs that were not tried": (
        replace(honest(), open_signs=4, untried="ask an oracle."),
        "signs are determined",
        PARTIAL,
        "The function is exact; 4 signs of units are open",
    ),
    "more units than there are": (
        replace(honest(), wanted=UNITS + 1),
        "there are as many units as were asked for",
        PARTIAL,
        "4 units, not 5",
    ),
    "fewer units than there are": (
        replace(honest(), wanted=UNITS - 1),
        "there are as many units as were asked for",
        PARTIAL,
        "4 units, not 3",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_each_check_fails_on_what_it_is_for(what: str) -> None:
    candidate, name, status, words = BROKEN[what]
    result = conclude_traced(candidate)
    assert failed(candidate) == [name]
    assert result.status is status and words in result.message and not result.success


def test_two_units_with_almost_one_hyperplane_show_at_the_kink() -> None:
    """One unit was taken for two: only points beside the kink can tell."""
    two = pn.Network(
        np.vstack([NET.weights, NET.weights[2]]),
        np.append(NET.biases, NET.biases[2] + 1e-7),
        np.append(NET.output_weights, 0.5 * NET.output_weights[2]),
        NET.output_bias,
    )
    one = NET.replace(output_weights=NET.output_weights * np.where(np.arange(4) == 2, 1.5, 1.0))
    shifted = NET.biases + np.where(np.arange(4) == 2, 1e-7 / 3, 0.0)  # the mean of the two
    candidate = honest(one.replace(biases=shifted), two)
    assert failed(candidate) == ["points beside every kink are predicted"]
    result = conclude_traced(candidate)
    assert result.status is pn.Status.PARTIAL and "kinks of units [2]" in result.message


def test_what_rounding_leaves_everywhere_is_no_pair_of_units_at_a_kink() -> None:
    """As in a box far from zero, where the constant is off by what all weights are."""
    result = conclude_traced(honest(f=lambda points: NET(points) + 5e-11))
    assert result.status is PARTIAL and "as much there as elsewhere" in result.message


def test_a_kink_that_could_not_be_asked_is_not_confirmed() -> None:
    candidate = honest()
    seen = candidate.kink_of != 1
    points = Answered(candidate.at_kinks.X[seen], candidate.at_kinks.y[seen])
    candidate = replace(candidate, at_kinks=points, kink_of=candidate.kink_of[seen])
    assert failed(candidate) == ["points beside every kink are predicted"]
    assert "kinks of units [1] could be asked" in conclude_traced(candidate).message


@pytest.mark.parametrize("part", ["guides", "fresh", "at_kinks", "searched"])
def test_a_check_on_no_points_has_failed(part: str) -> None:
    nothing = {part: Answered(X[:0], NET(X[:0]))}
    if part == "at_kinks":
        nothing["kink_of"] = np.empty(0, dtype=int)  # type: ignore[assignment]
    candidate = replace(honest(), **nothing)  # type: ignore[arg-type]
    assert len(failed(candidate)) == 1 and not conclude_traced(candidate).success


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_each_output_is_judged_by_its_own_size(size: float) -> None:
    scales = np.array([1.0, size])
    net = NETS["two outputs"]
    net = net.replace(
        output_weights=scales[:, None] * net.output_weights, output_bias=scales * net.output_bias
    )
    assert conclude_traced(honest(net)).success

    def curved(points: Array) -> Array:
        return np.asarray(net(points) + 1e-3 * scales * np.tanh(points[:, :1]) * [0.0, 1.0])

    assert "fresh points are predicted" in failed(
        replace(honest(net, curved), guides=honest(net).guides)
    )


def test_a_small_unit_on_a_large_constant_is_not_overlooked() -> None:
    f = NET.replace(output_weights=1e-9 * NET.output_weights, output_bias=3.0)
    assert not conclude_traced(honest(NOTHING.replace(output_bias=3.0), f)).success
    assert failed(honest(NOTHING.replace(output_bias=3.0), f))[0].startswith("points that led")


def test_errors_up_to_what_is_allowed_agree() -> None:
    y = NET(X)
    size = np.abs(y - y.mean()).max()
    for times, holds in ((0.5, True), (2.0, False)):
        points = Answered(X, y + times * AGREES * size * (np.arange(len(X)) == 3))
        agree = points.explained_by(NET, Answered(X, y).allowed(AGREES))
        assert agree.all() == holds and agree[np.arange(len(X)) != 3].all()


@pytest.mark.parametrize(
    "opened", [{"alternatives": 2}, {"untried": "too many."}, {"network": LINEAR}]
)
def test_no_error_bound_is_stated_where_signs_are_open(opened: dict[str, Any]) -> None:
    result = conclude_traced(replace(honest(), **opened))
    if "network" in opened:
        result = conclude_traced(honest(LINEAR))
    # Beside a linear term it is said whose it may be, too.
    assert result.certificate is not None
    assert len(result.ambiguities) == (2 if "network" in opened else 1)
    assert result.certificate.parameter_error_bound == np.inf


def test_the_error_bound_covers_what_fresh_points_leave() -> None:
    """What is missing, 2e-10 of the whole, may have moved the weights."""
    f = NET.replace(output_weights=NET.output_weights * (1 + 2e-10))
    result = conclude_traced(honest(f=f))
    assert result.certificate is not None
    bound = result.certificate.parameter_error_bound
    assert pn.parameter_error(f, NET) < bound < 1e-8  # ten times what is left


def test_the_weights_of_an_output_are_known_as_its_own_answers_tell_them() -> None:
    """Beside a mean of 1e8 rounding leaves 1e-8 of a unit's share, whatever other outputs tell."""
    net = NETS["two outputs"].replace(output_bias=[0.3, 1e8])
    off = net.output_weights * (1 + np.array([[0.0], [1e-7]]))
    result = conclude_traced(honest(net, net.replace(output_weights=off)))
    assert result.status is PARTIAL and "rounding lets some be off" in result.message
    assert result.certificate is not None
    assert result.certificate.parameter_error_bound > np.abs(off - net.output_weights).max()


def test_an_output_that_is_constant_tells_of_no_weight() -> None:
    """Its answers differ by their rounding alone, which is no part of anything."""
    net = NETS["two outputs"]
    net = net.replace(output_weights=net.output_weights * [[1.0], [0.0]], output_bias=[0.3, 0.7])

    def rounded(points: Array) -> Array:
        return np.asarray(net(points) + [0.0, 2e-16] * (points[:, :1] > 0))

    assert conclude_traced(honest(net, rounded)).success


def test_a_search_that_was_stopped_is_partial_and_says_so() -> None:
    nothing = Answered(X[:0], NET(X[:0]))
    candidate = replace(
        honest(f=off_at([7], 1e-6)),
        fresh=nothing,
        at_kinks=nothing,
        kink_of=np.empty(0, dtype=int),
        stopped="Time is over: give more.",
    )
    result = conclude_traced(candidate)
    assert result.status is pn.Status.PARTIAL and result.certificate is None
    assert result.message.startswith("Time is over: give more. The 4 units found so far are not")
    assert "29 of 30 points are explained" in result.message
    assert failed(candidate)[0] == "the search came to its end"


def test_an_answer_of_a_search_that_was_stopped_keeps_its_words() -> None:
    result = stopped_early(conclude_traced(honest()), "Time is over.")
    assert result.status is pn.Status.PARTIAL and result.message.endswith("Time is over.")
    assert result.message.startswith("Recovered") and not result.checks[-1].holds


def test_the_bound_is_the_largest_part_that_so_many_points_would_miss_once_in_twenty() -> None:
    rng = np.random.default_rng(0)
    for points in (20, 60, 300):
        missed = np.mean((rng.random((20_000, points)) > most_off(points)).all(axis=1))
        assert missed == pytest.approx(0.05, abs=0.005)  # three deviations of 20,000 tosses
    assert most_off(300) < 0.01 and most_off(0) == 1.0
    assert most_off(300, looks=2) == pytest.approx(1 - 0.025 ** (1 / 300))


WHERE: dict[str, Callable[[Array], Array]] = {
    "never fall below 0.1": lambda Z: np.maximum(NET(Z), 0.1),
    "never exceed 1": lambda Z: np.minimum(NET(Z), 1.0),
    "where feature 2 is": lambda Z: NET(Z) + (Z[:, 2] > 1.5),
    "One that is off is (": lambda Z: NET(Z) + (np.abs(Z[:, 0]) > 1.5),
}


@pytest.mark.parametrize("words", WHERE)
def test_where_points_are_off_is_said(words: str) -> None:
    f = WHERE[words]
    candidate = honest(f=f)
    guides = candidate.guides[f(X[GUIDES]) == NET(X[GUIDES])]
    result = conclude_traced(replace(candidate, guides=guides, again=guides[np.arange(3)]))
    assert result.status is FAILED and words in result.message
    off = int(np.sum(f(X[FRESH]) != NET(X[FRESH])))
    assert f"{150 - off} of 150 fresh points are explained, {off} are off" in result.message
    assert f"{off} of them are off" in str(result) and "at 95%" not in str(result)


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_a_sampled_model_that_changes_is_seen_at_the_end(noise: float) -> None:
    y = NET(X) + noise * np.random.default_rng(1).standard_normal(len(X))
    result = conclude_traced(honest())
    if noise:
        result = replace(result, status=pn.Status.WITHIN_NOISE)
    again = Answered(X[:8], NET(X[:8]) + noise * np.random.default_rng(2).standard_normal(8))
    assert judged_again(result, Answered(X, y), again).success
    moved = Answered(X[:8], again.y + 10 * noise + 1e-6)
    assert judged_again(result, Answered(X, y), moved).status is FAILED


def test_a_sampled_model_that_is_another_beyond_is_seen_at_the_end() -> None:
    result, sampled = conclude_traced(honest()), Answered(X, NET(X))
    again, far = Answered(X[:8], NET(X[:8])), 3 * X[:20]
    assert judged_again(result, sampled, again, Answered(far, NET(far))).success
    other = Answered(far, np.minimum(NET(far), NET(far).max() - 0.1))
    assert not judged_again(result, sampled, again, other).success


@pytest.mark.parametrize(("off", "status"), [(1, pn.Status.EXACT), (2, pn.Status.PARTIAL)])
def test_two_units_in_one_are_seen_on_its_kink(off: int, status: pn.Status) -> None:
    """Noise may be far off at one of a unit's points; at two, there is something between units."""
    result, sampled = conclude_traced(honest()), Answered(X, NET(X))
    again, canonical = Answered(X[:8], NET(X[:8])), NET.canonical()
    w, b = canonical.weights[1], canonical.biases[1]
    on = X[:3] - np.outer(X[:3] @ w + b, w)
    kinks = Answered(on, NET(on) + 1e-3 * (np.arange(3) < off))
    judged = judged_again(result, sampled, again, on_kinks=kinks)
    assert judged.status is status
    assert ("units [1]" in judged.message) is (status is pn.Status.PARTIAL)


def test_fresh_answers_that_are_all_alike_have_no_spread_to_compare_with() -> None:
    """Units far out: what is left, a rounding, was divided by nothing."""
    net = NET.replace(biases=np.full(UNITS, -50.0))
    model = net.replace(output_bias=float(np.nextafter(0.3, 1.0)))
    result = conclude_traced(honest(net, model))
    assert result.success and "predicted to 6e-17: " in result.message


@pytest.mark.parametrize(("bump", "status"), [(0.0, pn.Status.EXACT), (1e-3, pn.Status.PARTIAL)])
def test_a_unit_that_no_usual_input_switches_is_seen_farther_out(
    bump: float, status: pn.Status
) -> None:
    """Points ten times as far out are off by what a unit adds that no usual input switches."""
    result, sampled = conclude_traced(honest()), Answered(X, NET(X))
    again, far = Answered(X[:8], NET(X[:8])), 10 * X[:20]
    points = Answered(far, NET(far) + bump * (np.arange(20) < 3))
    farther = FartherOut.of(points, np.zeros(X.shape[1]), np.ones(X.shape[1]))
    judged = judged_again(result, sampled, again, farther=farther)
    assert judged.status is status
    assert ("3 of 20 points that lie farther out" in judged.message) is (bump > 0)


@pytest.mark.parametrize(("size", "predicted"), [(3e-7, True), (3e-3, False)])
def test_far_out_rounding_of_weights_is_no_unit(size: float, predicted: bool) -> None:
    """A thousand times as far out, where answers may cancel: 1e-9 of their usual size there."""
    far = 1000 * X[:10]
    cancelled = NET.replace(output_weights=np.zeros(UNITS), output_bias=0.0)
    candidate = replace(honest(), network=cancelled, showing=Answered(far, np.full((10, 1), size)))
    assert candidate.rare_are_predicted.all() == predicted


@pytest.mark.parametrize("shift", [0.0, 1e-4])
@pytest.mark.parametrize("apart", [0.0, 1e-3])
def test_two_units_in_one_leave_more_than_one_kink_does(apart: float, shift: float) -> None:
    """Whichever way its kink is a little off, which is no second unit."""
    result, sampled = conclude_traced(honest()), Answered(X, NET(X))
    canonical = NET.canonical()
    w, b, a = canonical.weights[1], canonical.biases[1], canonical.output_weights[1]
    t = np.array([-1e-1, -1e-2, -1e-3, -1e-4, 0.0, 1e-4, 1e-3, 1e-2, 1e-1])
    on = X[0] - (X[0] @ w + b) * w + t[:, None] * w
    halves = np.maximum(t - shift - apart / 2, 0) / 2 + np.maximum(t - shift + apart / 2, 0) / 2
    across = AcrossKinks(Answered(on, 5.0 + 2.0 * t + a * halves), np.ones(len(t), dtype=int), 1.0)
    judged = judged_again(result, sampled, Answered(X[:8], NET(X[:8])), across=across)
    assert judged.status is (pn.Status.PARTIAL if apart else pn.Status.EXACT)
    assert ("units [1]" in judged.message) is (apart > 0)
    assert "may be found as one" in judged.ambiguities[-1]
