"""Levenberg-Marquardt against scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

import provenet as pn
from helpers import NET, NETS, identity_standardisation, moved, samples
from provenet.common.ended import Ended
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, StandardisedSource
from provenet.fitting import iterative_step
from provenet.fitting import levenberg_marquardt as module
from provenet.fitting.levenberg_marquardt import refine
from provenet.fitting.model import Parameters
from provenet.fitting.output_layer import fit_linear_part
from provenet.networks.activations import ABS, RELU
from provenet.networks.conversions import as_absolute


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("form", ["relu", "abs"])
def test_without_noise_it_ends_at_machine_precision(
    form: str, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not dense:
        monkeypatch.setattr(module, "ITERATIVE_ABOVE", 0)
    source = samples(600)
    near = moved(NET, 0.05)
    start = Parameters.of(near if form == "relu" else as_absolute(near))
    fit = refine(
        source, start, RELU if form == "relu" else ABS, spread=float(source.y.std()), tolerance=1e-9
    )
    assert fit.rms < 1e-13 * source.y.std() and fit.labels == 600
    found = fit.parameters.network(RELU if form == "relu" else ABS)
    truth = NET if form == "relu" else as_absolute(NET)
    # Rounding of the labels times the condition of the problem.
    assert abs(found.output_bias - truth.output_bias) < 1e-11
    if form == "relu":
        assert fit.ended in (Ended.ZERO, Ended.STUCK)
        assert pn.parameter_error(found, truth) < 1e-11


def test_with_noise_it_ends_where_scipy_ends() -> None:
    source = samples(800, noise=0.2)
    start = moved(NET, 0.05)

    def residual(x: Array) -> Array:
        theta = x[:16].reshape(4, 4)
        return np.maximum(source.X @ theta[:, :3].T + theta[:, 3], 0) @ x[16:20] + x[20] - source.y

    x = np.append(Parameters.of(start).theta.ravel(), Parameters.of(start).beta)
    scipy_fit = least_squares(residual, x, method="lm", xtol=1e-12, ftol=1e-12, gtol=1e-12)
    fit = refine(source, Parameters.of(start), RELU, spread=1.0, tolerance=1e-10)
    # Both are minima of the same function; kinks at samples leave ends that differ by a little.
    assert fit.rss == pytest.approx(2 * scipy_fit.cost, rel=1e-4)
    assert fit.ended in (Ended.CONVERGED, Ended.STUCK)
    residuals = fit.parameters.network(RELU)(source.X) - source.y
    assert fit.rss == pytest.approx(residuals @ residuals, rel=1e-10)
    # The noise's own sum of squares, less one for each of 17 free parameters: 5 deviations.
    assert fit.rms == pytest.approx(0.2 * np.sqrt(1 - 17 / 800), rel=5 / np.sqrt(2 * 800))


@given(st.integers(0, 10**6))
@settings(max_examples=15)
def test_it_never_ends_worse_than_the_best_linear_fit_at_its_start(seed: int) -> None:
    source = samples(200, noise=0.1)
    start = Parameters.of(pn.random_network(3, 3, rng=seed))
    first = fit_linear_part(source, start, RELU, passes=2)[1]
    fit = refine(source, start, RELU, spread=1.0, iterations=8)
    # At one iteration the sum of squares is only computed anew: equal to rounding.
    assert fit.rss <= first * (1 + 1e-9)
    np.testing.assert_allclose(np.linalg.norm(fit.parameters.theta[:, :-1], axis=1), 1.0)


def test_how_it_ends() -> None:
    source = samples(300, noise=0.1)
    start = Parameters.of(moved(NET, 0.2))

    def ended(**options: float) -> Ended:
        return refine(source, start, RELU, spread=1.0, **options).ended

    assert ended(tolerance=1e-3) is Ended.CONVERGED
    assert ended(tolerance=1e-9, iterations=2) is Ended.OUT_OF_STEPS
    assert ended(tolerance=1e-9, deadline=-np.inf) is Ended.OUT_OF_TIME
    assert ended(zero=0.5) is Ended.ZERO
    assert ended(tolerance=0.0, iterations=300) is Ended.STUCK


def test_a_small_gain_of_a_step_that_was_not_solved_is_no_convergence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = samples(300, noise=0.1)
    start = Parameters.of(moved(NET, 0.2))
    monkeypatch.setattr(module, "ITERATIVE_ABOVE", 0)
    solved = refine(source, start, RELU, spread=1.0, tolerance=0.5)
    monkeypatch.setattr(iterative_step, "MOST_PRODUCTS", 1)
    unsolved = refine(source, start, RELU, spread=1.0, tolerance=0.5)
    assert solved.ended is Ended.CONVERGED and unsolved.ended is Ended.OUT_OF_STEPS


def test_the_same_samples_give_the_same_digits() -> None:
    source = samples(3000, noise=0.1)
    first, second = (
        refine(source, Parameters.of(moved(NET, 0.1)), RELU, spread=1.0).parameters for _ in "ab"
    )
    np.testing.assert_array_equal(first.theta, second.theta)
    np.testing.assert_array_equal(first.beta, second.beta)


@pytest.mark.parametrize("form", ["relu", "abs"])
def test_several_outputs_end_at_machine_precision(form: str) -> None:
    truth = NETS["three outputs"]
    source = samples(600, net=truth)
    near, activation = moved(truth, 0.05), RELU
    if form == "abs":
        near, activation = as_absolute(near), ABS
    fit = refine(source, Parameters.of(near), activation, spread=1.0, tolerance=1e-9)
    assert fit.labels == 1800 and fit.rms < 1e-13
    if form == "relu":
        assert pn.parameter_error(fit.parameters.network(RELU), truth) < 1e-11


@pytest.mark.parametrize("name", ["relu2", "relu3"])
def test_powers_of_relu_are_refined_as_they_are(name: str) -> None:
    truth = pn.random_network(3, 4, outputs=2, activation=name, rng=5)
    source = samples(800, net=truth)
    fit = refine(
        source, Parameters.of(moved(truth, 0.02)), truth.activation, spread=1.0, tolerance=1e-9
    )
    assert pn.parameter_error(fit.parameters.network(truth.activation), truth) < 1e-10


def test_curvature_of_some_samples_leads_to_the_same_minimum() -> None:
    """The gradient is that of all samples, so the matrix changes the road and not its end."""
    truth = pn.random_network(3, 6, bias_scale=1.0, rng=0)
    X, y = pn.sample(truth, 40_000, noise=0.1, rng=1)
    start = Parameters.of(truth.replace(weights=truth.weights + 0.02))
    source = StandardisedSource(ArraySource(X, y), identity_standardisation(6))
    whole, rough = (
        refine(source, start, RELU, spread=1.0, tolerance=1e-11, every=e) for e in (None, 20)
    )
    assert rough.ended in (Ended.CONVERGED, Ended.STUCK) and rough.rss <= whole.rss * (1 + 1e-8)
    # Standard errors are some 2e-3; kinks between samples make minima a hundredth of that apart.
    apart = pn.parameter_error(rough.parameters.network(RELU), whole.parameters.network(RELU))
    assert apart < 2e-4


class CountedSource(ArraySource):
    """Samples that count how often all of them were passed over."""

    passes = 0

    def total(self, term: Any, rows: int | None = None) -> Any:
        self.passes += 1
        return super().total(term) if rows is None else super().total(term, rows)


def test_of_many_samples_a_point_takes_one_pass() -> None:
    """Of 50 seeds all took one a point; with two it would be twice as many."""
    truth = pn.random_network(3, 6, bias_scale=1.0, rng=0)
    X, y = pn.sample(truth, 40_000, noise=0.1, rng=1)
    start = Parameters.of(truth.replace(weights=truth.weights + 0.02))
    source = CountedSource(X, y)
    own = StandardisedSource(source, identity_standardisation(6))
    fit = refine(own, start, RELU, spread=1.0, tolerance=1e-5, every=4)
    assert source.passes == fit.iterations > 2
