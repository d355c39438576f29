"""`extract` as a whole: both roads, and what it says where there is no answer."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import provenet as pn
from provenet.common.typing import Array
from provenet.extraction import deadline, sharpen

FEATURES = 8
NET = pn.random_network(5, FEATURES, bias_scale=1.5, rng=3).replace(output_bias=0.3)


@pytest.mark.parametrize(("features", "units"), [(10, 5), (20, 10), (50, 20)])
@pytest.mark.parametrize("seed", range(3))
def test_exact_answers(features: int, units: int, seed: int) -> None:
    net = pn.random_network(units, features, bias_scale=1.5, rng=seed).replace(output_bias=0.3)
    result = pn.extract(net, features, rng=seed)
    assert result.status is pn.Status.EXACT
    error = pn.parameter_error(result.network, net)
    assert error < 1e-10  # about 1e-12, rounding over the distance of the hyperplanes
    assert result.certificate is not None
    assert error < result.certificate.parameter_error_bound < 1e-9
    assert result.queries is not None and result.queries <= 2 * net.free_parameters + 600


def test_a_file_of_a_trained_network_is_exact(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((300, FEATURES))
    fit = MLPRegressor(hidden_layer_sizes=(6,), max_iter=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # trained a little is enough
        fit.fit(X, NET(X))
    (W, A), (b, c) = fit.coefs_, fit.intercepts_
    net = pn.Network(W.T, b, A[:, 0], c[0])
    net.save(tmp_path / "trained.onnx")
    result = pn.extract(tmp_path / "trained.onnx", rng=0)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, net) < 1e-10  # about 1e-12
    X = np.random.default_rng(1).standard_normal((50, FEATURES))
    np.testing.assert_allclose(result.network(X), fit.predict(X), atol=1e-10)


def test_several_outputs() -> None:
    A = np.random.default_rng(0).standard_normal((3, 5))
    net = NET.replace(output_weights=A, output_bias=np.zeros(3))
    result = pn.extract(net, FEATURES, rng=0)
    assert result.status is pn.Status.EXACT and pn.parameter_error(result.network, net) < 1e-10


def test_more_units_than_features() -> None:
    net = pn.random_network(12, 5, bias_scale=1.0, rng=3)
    result = pn.extract(net, 5, rng=0)
    assert result.status is pn.Status.EXACT and pn.parameter_error(result.network, net) < 1e-10


def test_more_units_than_can_be_searched_pairwise() -> None:
    """Signs of 45 units in 40 features are determined: five depend on the others."""
    net = pn.random_network(45, 40, bias_scale=1.0, rng=1)
    result = pn.extract(net, 40, rng=0)
    assert result.status is pn.Status.EXACT and pn.parameter_error(result.network, net) < 1e-9


def test_far_more_units_than_features_are_signed_by_a_lattice() -> None:
    net = pn.random_network(60, 10, bias_scale=1.0, rng=1)
    result = pn.extract(net, 10, rng=0)
    assert result.status is pn.Status.EXACT and result.certificate is not None
    error = pn.parameter_error(result.network, net)
    assert error < result.certificate.parameter_error_bound < 1e-9  # about 3e-11


def test_signs_that_are_not_determined_are_open() -> None:
    """42 signs from two equations of some 36 bits."""
    net = pn.random_network(42, 2, bias_scale=1.0, rng=1)
    result = pn.extract(net, 2, rng=0)
    assert result.status is pn.Status.PARTIAL and "bits, too few" in result.message
    assert result.ambiguities[0].startswith("The function is exact; 42 signs of units are open")
    assert result.certificate is not None
    assert result.certificate.parameter_error_bound == np.inf and result.network is not None
    X = np.random.default_rng(0).standard_normal((100, 2))
    np.testing.assert_allclose(result.network(X), net(X), atol=1e-8)  # the function is known


def quantile(part: float) -> float:
    """Answers in the box from -2 to 2 are below it so often."""
    X = np.random.default_rng(0).uniform(-2, 2, (20_000, FEATURES))
    return float(np.quantile(NET(X), part))


LIMITED: dict[str, Any] = {
    "never fall below": lambda X: np.maximum(NET(X), quantile(0.02)),
    "never exceed": lambda X: np.minimum(NET(X), quantile(0.97)),
    "feature 2 is": lambda X: NET(X) + (X[:, 2] > 1.9),
    "are off": lambda X: np.where((X[:, :2] > 1.5).all(axis=1), 0.0, NET(X)),
}


@pytest.mark.parametrize("words", LIMITED)
def test_a_network_that_is_another_in_a_corner_of_the_box_is_none(words: str) -> None:
    """In 2, 3, 2.5 and 1.6% of it; one with one hidden layer, that is."""
    for seed in range(2):
        result = pn.extract(LIMITED[words], FEATURES, low=-2.0, high=2.0, layers=1, rng=seed)
        assert result.status is pn.Status.FAILED and words in result.message


@pytest.mark.parametrize("words", LIMITED)
def test_a_network_that_is_limited_is_called_exact_only_as_the_deeper_one_it_is(words: str) -> None:
    """`max(f, c) = relu(f - c) + c` has a second layer of one unit; a jump is in no network."""
    X = np.random.default_rng(1).uniform(-2, 2, (2000, FEATURES))
    result = pn.extract(LIMITED[words], FEATURES, low=-2.0, high=2.0, budget=2500, rng=0)
    if result.success:
        assert result.network is not None and result.network.widths == (NET.units, 1)
        np.testing.assert_allclose(result.network(X), LIMITED[words](X), atol=1e-8)


def test_what_fresh_points_leave_is_said_of_the_inputs_they_were_drawn_from() -> None:
    for box, words in (
        ({}, "standard normal inputs"),
        ({"low": -2.0, "high": 2.0}, "inputs uniform in the box"),
        ({"low": -2.0}, "inputs (uniform in features with a limit, else standard normal)"),
    ):
        result = pn.extract(NET, FEATURES, rng=0, **box)
        assert f"at most 1.0% of {words} are off, at 95%" in result.message


def test_a_small_budget_states_the_bound_that_it_leaves() -> None:
    result = pn.extract(NET, FEATURES, budget=300, rng=0)
    assert result.status is pn.Status.PARTIAL
    found = re.search(r"at most (\d+\.\d)% of standard normal inputs", result.message)
    assert found is not None and 2 < float(found[1]) < 14
    assert result.queries is not None and result.queries <= 300


def test_a_unit_that_only_fires_in_a_corner_of_the_box_is_found_by_what_refutes() -> None:
    """Where x_0 + x_1 > 3.6, in 0.5% of the box: these lines do not meet it."""
    corner = np.zeros((1, FEATURES))
    corner[0, :2] = 1.0
    net = pn.Network(
        np.vstack([NET.weights, corner]),
        np.append(NET.biases, -3.6),
        np.append(NET.output_weights, 2.0),
        NET.output_bias,
    )
    for seed in range(1, 5):
        result = pn.extract(net, FEATURES, low=-2.0, high=2.0, rng=seed)
        assert result.status is pn.Status.EXACT
        assert pn.parameter_error(result.network, net) < 1e-9  # the bound of what is exact


class Changing:
    """A model that is another after so many questions."""

    def __init__(self, after: int) -> None:
        self.after, self.asked = after, 0

    def __call__(self, X: Array) -> Array:
        self.asked += len(X)
        return NET(X) if self.asked <= self.after else 1.001 * NET(X)


def test_a_model_that_changes_is_never_exact() -> None:
    alone = pn.extract(NET, FEATURES, rng=0).queries
    assert alone is not None
    for after in (150, 300, 500, alone - 1):
        result = pn.extract(Changing(after), FEATURES, seconds=0.5, rng=0)
        assert not result.success


def test_the_first_guides_are_asked_again_at_the_end() -> None:
    asked: list[Array] = []
    pn.extract(lambda X: (asked.append(X.copy()), NET(X))[1], FEATURES, rng=0)
    earlier = {x.tobytes() for X in asked[:-1] for x in X}
    assert len(asked[-1]) == 8 and all(x.tobytes() in earlier for x in asked[-1])


def test_a_model_that_changes_from_call_to_call_is_no_network() -> None:
    calls = iter(range(10**6))
    result = pn.extract(lambda X: NET(X) * (1 + 1e-6 * next(calls)), FEATURES, rng=0)
    assert result.status is pn.Status.FAILED and "changes while it is asked" in result.message


def test_no_question_leaves_the_box() -> None:
    def checked(X: Array) -> Array:
        assert np.abs(X).max() <= 2.0
        return NET(X)

    result = pn.extract(checked, FEATURES, low=-2.0, high=2.0, rng=0)
    assert result.status is pn.Status.EXACT and pn.parameter_error(result.network, NET) < 1e-10


def test_a_unit_that_is_always_on_in_the_box_leaves_a_linear_term() -> None:
    net = NET.replace(biases=np.array([0.1, -0.2, 0.3, 0.0, 30.0]))
    result = pn.extract(net, FEATURES, low=-2.0, high=2.0, rng=1)
    assert result.status is pn.Status.PARTIAL and "linear term" in result.message
    assert result.network is not None and result.network.units == 4
    X = np.random.default_rng(0).uniform(-2, 2, (100, FEATURES))
    np.testing.assert_allclose(result.network(X), net(X), atol=1e-9)


def two_layers(X: Array) -> Array:
    rng = np.random.default_rng(0)
    W, V = rng.standard_normal((6, FEATURES)), rng.standard_normal((4, 6))
    return np.asarray(np.maximum(np.maximum(X @ W.T + 0.3, 0) @ V.T - 0.2, 0).sum(axis=1))


NOT_NETWORKS: dict[str, Any] = {
    "one hidden layer": two_layers,
    "not a network": lambda X: np.max(X, axis=1),
    "explained": lambda X: (X[:, 0] > 0.1) * 1.0 + (X[:, 1] > 0.2),
}


@pytest.mark.parametrize("words", NOT_NETWORKS)
def test_what_is_no_such_network_fails_in_words(words: str) -> None:
    for seed in range(3):
        result = pn.extract(NOT_NETWORKS[words], FEATURES, layers=1, rng=seed)
        assert result.status is pn.Status.FAILED and words in result.message


def test_two_hidden_layers_are_found_by_themselves() -> None:
    result = pn.extract(two_layers, FEATURES, rng=0)
    assert result.status is pn.Status.EXACT and result.network is not None
    assert result.network.widths == (6, 4)
    X = np.random.default_rng(1).standard_normal((500, FEATURES))
    np.testing.assert_allclose(result.network(X), two_layers(X), atol=1e-8)  # known to 1e-9


def test_a_linear_function_is_partial() -> None:
    result = pn.extract(lambda X: X @ np.arange(1.0, 9.0) + 1, FEATURES, rng=0)
    assert result.status is pn.Status.PARTIAL and "linear term" in result.message


def test_a_constant_is_never_exact() -> None:
    for f in (lambda X: np.full(len(X), 2.5), lambda X: np.maximum(X[:, 0] - 1e9, 0.0)):
        result = pn.extract(f, FEATURES, rng=0)
        assert result.status is pn.Status.PARTIAL and "constant at all" in result.message


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_outputs_of_very_different_size_are_judged_each_by_its_own(size: float) -> None:
    A = np.random.default_rng(0).standard_normal((2, 5)) * [[1.0], [size]]
    net = NET.replace(output_weights=A, output_bias=[0.3, 0.0])
    result = pn.extract(net, FEATURES, rng=0)
    assert result.status is pn.Status.EXACT and result.network is not None
    found, own = result.network.output_weights, net.canonical().output_weights
    np.testing.assert_allclose(np.sort(found[1]), np.sort(own[1]), rtol=1e-9)  # `KNOWN`
    curved = pn.extract(
        lambda X: net(X) + np.tanh(X[:, :1]) * [0.0, size],
        FEATURES,
        activation="relu",
        budget=300,
        rng=0,
    )
    assert curved.status is pn.Status.FAILED


def test_an_output_that_is_zero_stays_zero() -> None:
    net = NET.replace(output_weights=np.vstack([NET.output_weights, 0 * NET.output_weights]))
    net = net.replace(output_bias=[0.3, 0.0])
    result = pn.extract(net, FEATURES, rng=0)
    assert result.status is pn.Status.EXACT and result.network is not None
    assert not result.network.output_weights[1].any() and result.network.output_bias[1] == 0


def test_signs_that_no_answer_can_tell_are_open() -> None:
    """`relu(z) + relu(-z + 1)` and the like: weights of one feature that cancel each other."""
    W = np.array([[1.0], [1.0], [1.0], [1.0]])
    net = pn.Network(W, [-1.0, -0.5, 0.5, 1.2], [1.0, 1.0, -1.0, -1.0])
    result = pn.extract(net, 1, rng=0)
    assert result.status is pn.Status.PARTIAL and len(result.ambiguities) == 1
    assert result.certificate is not None
    assert result.certificate.parameter_error_bound == np.inf
    X = np.linspace(-3, 3, 50)[:, None]
    np.testing.assert_allclose(result.network(X), net(X), atol=1e-9)  # the function is known


def test_every_answer_carries_its_checks() -> None:
    result = pn.extract(NET, FEATURES, rng=0)
    assert len(result.checks) == 12 and all(check.holds for check in result.checks)
    for budget in (3, 130, 170):
        result = pn.extract(NET, FEATURES, budget=budget, rng=0)
        assert not result.checks[0].holds and result.message.startswith(result.checks[0].advice)


@pytest.mark.parametrize("budget", [3, 30, 90])
def test_a_budget_is_kept(budget: int) -> None:
    result = pn.extract(NET, FEATURES, budget=budget, rng=0)
    assert result.status is pn.Status.FAILED and "raise budget" in result.message
    assert result.queries is not None and result.queries <= budget


def test_a_budget_spent_before_units_are_measured_says_what_would_do() -> None:
    result = pn.extract(NET, FEATURES, budget=130, rng=0)
    assert result.status is pn.Status.FAILED and result.network is None
    enough = 2 * NET.free_parameters + 600
    assert f"About {enough} would do for 5 units" in result.message
    assert pn.extract(NET, FEATURES, budget=enough, rng=0).status is pn.Status.EXACT


def test_a_budget_spent_before_the_check_gives_what_was_found() -> None:
    result = pn.extract(NET, FEATURES, budget=170, rng=0)
    assert result.status is pn.Status.PARTIAL and result.network is not None
    assert f"{result.queries} of 170 queries" in result.message
    assert "5 units found so far are not confirmed" in result.message
    assert pn.parameter_error(result.network, NET) < 1e-9  # measured on one line only


@pytest.mark.parametrize("budget", [250, 400, 500])
def test_a_budget_spent_on_later_lines_is_no_success(budget: int) -> None:
    """Two layers leave points unexplained, so lines follow until nothing may be asked."""
    result = pn.extract(two_layers, FEATURES, budget=budget, layers=1, rng=0)
    assert result.status is pn.Status.PARTIAL and "raise budget" in result.message
    explained = re.search(r"not confirmed: (\d+) of 30 points", result.message)
    assert explained is not None and int(explained[1]) < 15
    assert result.queries is not None and result.queries <= budget


class Clock:
    """Time that passes only when the model is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr(deadline, "now", lambda: self.seconds)

    def slow(self, f: Any) -> Any:
        def answer(X: Array) -> Array:
            self.seconds += 1.0
            return np.asarray(f(X))

        return answer


def test_time_that_is_over_leaves_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after any number of answers: never an exception, never a success before the end."""
    clock = Clock(monkeypatch)
    whole = pn.extract(clock.slow(NET), FEATURES, rng=0)
    assert whole.status is pn.Status.EXACT
    statuses = []
    for seconds in np.arange(0.5, clock.seconds + 1):
        result = pn.extract(clock.slow(NET), FEATURES, seconds=seconds, rng=0)
        statuses.append(result.status)
        if result.status is not pn.Status.EXACT:
            assert not result.checks[0].holds and result.message.startswith(result.checks[0].advice)
            assert f"The {seconds:g} s allowed were over after {result.queries} quer" in (
                result.message
            )
            assert "give more time with seconds=" in result.message
    assert statuses == sorted(statuses, key=lambda status: status.rank)  # more time is no worse
    assert {*statuses} == {pn.Status.FAILED, pn.Status.PARTIAL, pn.Status.EXACT}
    assert result.queries == whole.queries and result.message == whole.message


def test_time_that_is_over_ends_the_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, rng = Clock(monkeypatch), np.random.default_rng(0)

    def no_network(X: Array) -> Array:
        return np.asarray(rng.standard_normal(len(X)))

    for seconds, words in ((2.5, "2.5 s allowed were over after 8"), (3.5, "200 random points")):
        result = pn.extract(clock.slow(no_network), 2, seconds=seconds, rng=0)
        assert not result.success and words in result.message
        assert not all(check.holds for check in result.checks)
        assert "give more time with seconds=" in result.message


def test_time_that_is_over_ends_the_design_of_measurements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two questions: the clock jumps while places are compared."""
    clock = Clock(monkeypatch)
    solve = sharpen._least_squares
    designs = 0

    def slow(*args: Any) -> Any:
        nonlocal designs
        designs += 1
        clock.seconds += 1.0
        return solve(*args)

    monkeypatch.setattr(sharpen, "_least_squares", slow)
    monkeypatch.setattr(sharpen, "WELL_KNOWN", 1e-14)  # so that there is something to design
    assert pn.extract(NET, FEATURES, rng=0).success and designs > 3
    designs = 0
    result = pn.extract(NET, FEATURES, seconds=2.5, rng=0)
    assert not result.success and designs <= 4  # the fit that comes after is not left out


@pytest.mark.parametrize("seconds", [0, -1.0, np.nan, "1", True])
def test_seconds_are_a_positive_number(seconds: Any) -> None:
    with pytest.raises(pn.InvalidInput, match="seconds must be a positive number"):
        pn.extract(NET, FEATURES, seconds=seconds)


def test_every_stage_is_timed() -> None:
    told: list[str] = []
    result = pn.extract(NET, FEATURES, rng=0, progress=lambda stage, *_: told.append(stage))
    *stages, total = result.timings.values()
    assert list(result.timings) == ["probe", "trace", "sharpen", "verify", "total"]
    assert set(told) == set(result.timings) - {"total"}
    assert min(stages) >= 0 and sum(stages) <= total


def test_the_wrong_number_of_units_is_said() -> None:
    result = pn.extract(NET, FEATURES, units=7, rng=1)
    assert result.status is pn.Status.PARTIAL and "5 units, not 7" in result.message


def test_single_precision_is_found_and_treated_as_such() -> None:
    result = pn.extract(lambda X: NET(X).astype(np.float32), FEATURES, rng=1)
    assert result.success and "rounded" in result.message
    assert pn.parameter_error(result.network, NET) < 1e-5  # single precision is 1e-7


def test_noise_is_found_and_sampled() -> None:
    rng = np.random.default_rng(0)
    noise = 1e-4

    def noisy(X: Array) -> Array:
        return np.asarray(NET(X) + noise * rng.standard_normal(len(X)))

    result = pn.extract(noisy, FEATURES, budget=400, rng=1)
    assert result.status is pn.Status.WITHIN_NOISE and "noisy" in result.message
    assert pn.parameter_error(result.network, NET) < 20 * noise
    assert result.queries is not None and result.queries <= 400


def test_the_same_seed_asks_the_same() -> None:
    asked: list[Array] = []

    def kept(X: Array) -> Array:
        asked.append(X.copy())
        return NET(X)

    pn.extract(kept, FEATURES, rng=5)
    half = len(asked)
    pn.extract(kept, FEATURES, rng=5)
    assert np.array_equal(np.vstack(asked[:half]), np.vstack(asked[half:]))


def test_bad_options() -> None:
    with pytest.raises(pn.InvalidInput, match="noise"):
        pn.extract(NET, FEATURES, noise=-1.0)
    with pytest.raises(pn.InvalidInput, match="units"):
        pn.extract(NET, FEATURES, units=0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("gap", [1e-8, 1e-7, 1e-6, 1e-5])
def test_two_units_with_almost_one_hyperplane_are_not_called_exact_as_one(
    sign: float, gap: float
) -> None:
    base = pn.random_network(4, 8, bias_scale=1.0, rng=0)
    hidden = pn.Network(
        np.vstack([base.weights, base.weights[:1]]),
        np.append(base.biases, base.biases[0] + gap),
        np.append(base.output_weights, 0.7 * sign * base.output_weights[0]),
    )
    result = pn.extract(hidden, 8, rng=0)
    assert not result.success


@pytest.mark.parametrize("sign", [1.0, -0.6])
def test_a_close_pair_in_single_precision_is_no_success(sign: float) -> None:
    """Random points hardly ever lie between the two kinks, 1e-3 apart: those on the kink do.

    Of opposite signs the kink of one unit in their place lies outside of both: those beside it do.
    """
    net = pn.random_network(3, 5, rng=1)
    W, b, A = net.weights.copy(), net.biases.copy(), np.abs(net.output_weights)
    W[2], b[2], A[2] = W[1], b[1] + 1e-3, sign * A[1]
    W32, b32, A32 = (part.astype(np.float32) for part in (W, b, A))
    result = pn.extract(lambda X: np.maximum(X.astype(np.float32) @ W32.T + b32, 0) @ A32, 5, rng=1)
    assert result.status is pn.Status.PARTIAL and result.network.units == 2
    assert "almost the same hyperplane" in result.message
