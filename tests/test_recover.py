"""The front door, end to end: from samples of a hidden network back to its weights."""

from __future__ import annotations

import gc
import pickle
import tracemalloc

import numpy as np
import pytest
from joblib import Parallel, delayed

import provenet as pn
from provenet.data.passes import one_blas_thread
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.networks.activations import RELU
from provenet.networks.canonical import match_units

# A refinement that ends at a residual of rounding size leaves parameters with errors of rounding
# size times the condition of the problem; 1e-8 is the project's definition of exact recovery.
EXACT = 1e-8


def hidden_network(units, features, seed, bias_scale=1.5):
    network = pn.random_network(units, features, bias_scale=bias_scale, rng=seed)
    return network.replace(output_bias=0.7).canonical()


def inputs(kind, n, features, rng):
    return {
        "gauss": lambda: rng.standard_normal((n, features)),
        "uniform": lambda: rng.uniform(-1.5, 1.5, (n, features)),
        "student": lambda: rng.standard_t(4, (n, features)),
        "integers": lambda: rng.integers(-2, 3, (n, features)).astype(float),
    }[kind]()


@pytest.mark.parametrize(
    ("features", "units", "n", "kind", "method"),
    [
        (10, 5, 300, "gauss", "auto"),
        (10, 5, 300, "uniform", "auto"),
        (10, 5, 400, "student", "auto"),
        (10, 5, 400, "integers", "auto"),
        (20, 10, 1000, "gauss", "auto"),
        (4, 10, 1500, "gauss", "auto"),
        (10, 5, 100_000, "gauss", "biased-relu"),
        (12, 8, 2000, "gauss", "biased-relu"),  # the spectrum of T_2 shows fewer units
    ],
)
def test_exact_recovery_without_being_told_the_width(features, units, n, kind, method):
    truth = hidden_network(units, features, seed=11)
    X = inputs(kind, n, features, np.random.default_rng(12))
    result = pn.recover(X, truth(X), method=method, rng=0)
    assert result.status == "exact"
    assert result.network.units == units
    assert pn.parameter_error(result.network, truth) < EXACT
    assert result.certificate.parameter_error_bound < EXACT


def test_moments_alone_are_near_and_no_success():
    truth = hidden_network(5, 10, seed=3, bias_scale=1.0)
    X, y = pn.sample(truth, 100_000, rng=4)
    rough = pn.recover(X, y, method="biased-relu", refine=False, rng=0)
    # Sampling error of the moments: a few percent at this size, far from exact, far from nothing.
    assert EXACT < pn.parameter_error(rough.network, truth) < 0.5
    assert not rough.success


@pytest.mark.parametrize("method", ["auto", "biased-relu"])
def test_correlated_inputs_with_a_mean_are_reported_in_the_users_coordinates(method):
    rng = np.random.default_rng(0)
    mixing, mean = rng.standard_normal((6, 6)), rng.normal(0, 3, 6)
    truth = hidden_network(4, 6, seed=1, bias_scale=0.5)
    truth = truth.replace(biases=truth.biases - truth.weights @ mean)
    X = rng.standard_normal((20_000, 6)) @ mixing.T + mean
    result = pn.recover(X, truth(X), method=method, rng=0)
    assert result.status == "exact"
    assert pn.parameter_error(result.network, truth) < EXACT


def test_the_same_seed_gives_the_same_answer():
    truth = hidden_network(4, 6, seed=2)
    X, y = pn.sample(truth, 1000, noise=0.1, rng=3)
    first, second = (pn.recover(X, y, rng=9) for _ in range(2))
    assert first.message == second.message
    assert np.array_equal(first.network.weights, second.network.weights)


def test_queried_function_counts_its_queries():
    truth = hidden_network(4, 6, seed=1)
    asked = 0

    def oracle(X):
        nonlocal asked
        asked += len(X)
        return truth(X)

    source = pn.QuerySource(oracle, 6, samples=5000, rng=0)
    result = pn.recover(source, method="biased-relu", rng=0)
    assert result.status == "exact"
    assert pn.parameter_error(result.network, truth) < EXACT
    assert source.queries == asked


# ---------------------------------------------------------------- noise


def test_with_noise_the_estimate_is_the_least_squares_one():
    truth = hidden_network(5, 10, seed=21)
    X, y = pn.sample(truth, 3000, noise=0.1, rng=22)
    result = pn.recover(X, y, rng=0)
    assert result.status == "within noise"
    assert result.network.units == 5
    # 3000 samples know a standard deviation to 1.3%; 5% is four of these.
    assert result.certificate.noise == pytest.approx(0.1, rel=0.05)
    with one_blas_thread():
        ideal = refine(
            ArraySource(X, y), Parameters.of(truth), RELU, spread=y.std(), tolerance=1e-10
        )
    # Least squares has many neighbouring minima (a sample crosses a kink); they differ by a small
    # part of the standard error, so the errors of the two agree within 20% (50 seeds: 0.9 to 1.1).
    ideal_error = pn.parameter_error(ideal.parameters.network(RELU), truth)
    assert pn.parameter_error(result.network, truth) < 1.2 * ideal_error


def test_confidence_intervals_hold_the_truth():
    """Nominal 95% intervals over 50 units (and their 8 parameters each)."""
    covered, units = [], 0
    for seed in range(13):
        truth = hidden_network(4, 6, seed=100 + seed, bias_scale=1.0)
        X, y = pn.sample(truth, 1000, noise=0.1, rng=1000 + seed)
        result = pn.recover(X, y, rng=seed)
        assert result.status == "within noise"
        mine, theirs = match_units(result.network, truth)
        errors, network = result.standard_errors, result.network
        units += len(mine)
        for name in ("weights", "biases", "output_weights"):
            difference = getattr(network, name)[mine] - getattr(truth, name)[theirs]
            covered.append((np.abs(difference) < 1.96 * getattr(errors, name)[mine]).ravel())
    assert units >= 50
    assert 0.90 <= np.mean(np.concatenate(covered)) <= 0.99


def test_noise_given_too_small_is_not_a_success():
    truth = hidden_network(3, 5, seed=1)
    X, y = pn.sample(truth, 1000, noise=0.2, rng=2)
    result = pn.recover(X, y, noise=0.05, rng=0, budget=0.5)
    assert result.status == "failed"
    assert "0.05" in result.message


# ---------------------------------------------------------------- partial answers


@pytest.mark.parametrize("method", ["auto", "biased-relu"])
def test_a_unit_without_a_kink_goes_into_a_linear_term(method):
    truth = hidden_network(4, 6, seed=0)
    biases = truth.biases.copy()
    biases[0] = 7.0  # always on: P(kink within reach) is 1e-12 a sample
    truth = truth.replace(biases=biases)
    X, y = pn.sample(truth, 2000, rng=1)
    result = pn.recover(X, y, method=method, rng=0)
    assert result.status == "partial"
    assert not result.success
    assert result.network.units == 3
    fresh, labels = pn.sample(truth, 1000, rng=2)
    # The function is known to rounding although one unit is not.
    assert np.abs(result.network(fresh) - labels).max() < 1e-10
    # The three others are recovered up to their signs, which the linear term leaves open.
    for w in truth.weights[1:]:
        assert np.abs(result.network.weights @ w).max() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    ("asked", "status", "words"), [(5, "partial", "3 units, not 5"), (2, "failed", "more units")]
)
def test_more_or_fewer_units_asked_for_than_there_are(asked, status, words):
    truth = hidden_network(3, 5, seed=3)
    X, y = pn.sample(truth, 500, rng=4)
    result = pn.recover(X, y, units=asked, rng=0, budget=2)
    assert result.status == status and words in result.message
    assert result.network.units == min(asked, 3)
    assert asked < 3 or pn.parameter_error(result.network, truth) < EXACT


def test_the_library_is_silent_and_tells_those_who_listen(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    X, y = pn.sample(pn.random_network(2, 4, rng=0), 200, rng=1)
    told: list[tuple[str, float, str]] = []
    with caplog.at_level("DEBUG", logger="provenet"):
        result = pn.recover(X, y, rng=0, progress=lambda *news: told.append(news))
    assert capfd.readouterr() == ("", "")
    stages = {stage for stage, _, _ in told}
    assert {"search", "certify"} <= stages <= set(result.timings)
    logged = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("search: ") for line in logged)
    assert logged[-1].startswith(f"{result.status} after") and result.message in logged[-1]


@pytest.mark.parametrize("method", ["auto", "expand-prune", "symmetric-inputs", "lifting"])
def test_two_different_inputs_are_no_success_and_no_exception(method: str) -> None:
    X = np.random.default_rng(0).choice([-1.0, 1.0], (40, 1))
    truth = pn.random_network(1, 1, outputs=3, rng=0)
    assert not pn.recover(X, truth(X), method=method, rng=0, budget=2.0).success


def test_many_calls_leave_no_memory_behind():
    X, y = pn.sample(pn.random_network(2, 4, bias_scale=0.5, rng=0), 150, rng=1)
    tracemalloc.start()
    try:
        held = []
        for calls in (3, 10):  # the first ones fill caches
            for seed in range(calls):
                assert pn.recover(X, y, rng=seed).success
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # Samples and answer of a single call are 20 kilobytes; ten calls that kept theirs would be 200.
    assert held[1] - held[0] < 50_000, held


def test_many_problems_at_once_have_the_answers_that_they_have_one_by_one():
    problems = [
        pn.sample(pn.random_network(2, 4, bias_scale=0.5, rng=s), 150, rng=s) for s in (0, 1)
    ]
    at_once = Parallel(n_jobs=2, backend="threading")(
        delayed(pn.recover)(X, y, rng=0) for X, y in problems
    )
    for (X, y), found in zip(problems, at_once, strict=True):
        alone = pn.recover(X, y, rng=0)
        assert found.status == alone.status == "exact"
        np.testing.assert_array_equal(found.network.weights, alone.network.weights)
        # So that processes can send it back.
        assert pickle.loads(pickle.dumps(found)).status == alone.status
