"""Levenberg-Marquardt against scipy, and the exact finish against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

import provenet as pn
from helpers import NET, NETS, moved, samples
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting import levenberg_marquardt as module
from provenet.fitting.levenberg_marquardt import exact_finish, fit_linear_part, refine
from provenet.fitting.parameters import Parameters
from provenet.networks.activations import ABS, RELU
from provenet.networks.network import as_absolute

# ---------------------------------------------------------------- the iteration


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
        assert fit.reason in ("zero", "stuck")
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
    assert fit.reason in ("converged", "stuck")
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


def test_reasons() -> None:
    source = samples(300, noise=0.1)
    start = Parameters.of(moved(NET, 0.2))

    def reason(**options: float) -> str:
        return refine(source, start, RELU, spread=1.0, **options).reason

    assert reason(tolerance=1e-3) == "converged"
    assert reason(tolerance=1e-9, iterations=2) == "iterations"
    assert reason(tolerance=1e-9, deadline=-np.inf) == "time"
    assert reason(zero=0.5) == "zero"
    best = refine(source, start, RELU, spread=1.0, tolerance=0.0, iterations=300)
    assert best.reason == "stuck"


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


# ---------------------------------------------------------------- the exact finish

SOFT = pn.Activation(
    "expm1",
    lambda z: np.expm1(np.maximum(z, 0.0)),
    lambda z: np.where(z > 0, np.exp(np.maximum(z, 0.0)), 0.0),
    inverse=np.log1p,
)


def near_directions(net: pn.Network, angle: float, seed: int) -> Array:
    """Rows of the weights turned by about `angle`, with random signs."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(net.weights.shape) / np.sqrt(net.features)
    return (net.weights + angle * noise) * rng.choice([-1.0, 1.0], net.units)[:, None]


@pytest.mark.parametrize("name", ["relu", "relu2", "relu3"])
@pytest.mark.parametrize("seed", range(4))
def test_linear_solves_finish_from_directions_that_are_a_tenth_off(name: str, seed: int) -> None:
    truth = pn.random_network(5, 10, outputs=7, bias_scale=0.0, activation=name, rng=seed)
    truth = truth.replace(output_bias=np.arange(7.0))
    X, Y = pn.sample(truth, 4000, rng=100 + seed)
    found = exact_finish(X, Y, near_directions(truth, 0.1, 200 + seed), activation=truth.activation)
    # Over 50 seeds: at most 2e-12 (cube roots near zero); null vectors of ratio 1e-14.
    assert pn.parameter_error(found.network, truth) < 1e-10
    assert found.margins.max() < 1e-12


def test_the_finish_takes_approximate_biases() -> None:
    truth = pn.random_network(4, 6, outputs=5, bias_scale=0.8, rng=1)
    X, Y = pn.sample(truth, 4000, rng=2)
    W = near_directions(truth, 0.05, 3)
    signs = np.sign(np.sum(W * truth.weights, axis=1))
    found = exact_finish(X, Y, W, signs * (truth.biases + 0.05))
    assert pn.parameter_error(found.network, truth) < 1e-11


def test_an_activation_without_degree_is_finished_by_its_inverse() -> None:
    truth = pn.random_network(4, 6, outputs=6, bias_scale=0.0, activation=SOFT, rng=0)
    X, Y = pn.sample(truth, 5000, rng=7)
    found = exact_finish(X, Y, near_directions(truth, 0.1, 8), activation=SOFT)
    # The scale is found by a scalar search, to the square root of rounding.
    assert pn.parameter_error(found.network, truth) < 1e-6


@pytest.mark.parametrize(
    ("outputs", "noise", "angle", "words"),
    [
        (3, 0.0, 0.05, "rank 3, fewer than 4"),
        (6, 0.01, 0.05, "vanishes"),
        (6, 0.0, 3.0, "vanishes"),
    ],
)
def test_the_finish_says_what_it_lacks(
    outputs: int, noise: float, angle: float, words: str
) -> None:
    truth = pn.random_network(4, 6, outputs=outputs, bias_scale=0.0, rng=3)
    X, Y = pn.sample(truth, 2000, noise=noise, rng=4)
    with pytest.raises(NoAnswer, match=words):
        exact_finish(X, Y, near_directions(truth, angle, 5))


def test_dependent_output_weights_have_no_finish() -> None:
    truth = pn.random_network(4, 6, outputs=6, bias_scale=0.0, rng=3)
    A = truth.output_weights.copy()
    A[:, 3] = A[:, 0] - 2 * A[:, 1]
    X, Y = pn.sample(truth.replace(output_weights=A), 2000, rng=4)
    with pytest.raises(NoAnswer, match="dependent"):
        exact_finish(X, Y, truth.weights)


def test_curvature_of_a_part_leads_to_the_same_minimum() -> None:
    """The gradient is that of all samples, so the matrix changes the road and not its end."""
    truth = pn.random_network(3, 6, bias_scale=1.0, rng=0)
    X, y = pn.sample(truth, 40_000, noise=0.1, rng=1)
    start = Parameters.of(truth.replace(weights=truth.weights + 0.02))
    source, part = ArraySource(X, y), ArraySource(X[::20], y[::20])
    whole, rough = (
        refine(source, start, RELU, spread=1.0, tolerance=1e-11, part=p) for p in (None, part)
    )
    assert rough.reason in ("converged", "stuck") and rough.rss <= whole.rss * (1 + 1e-8)
    # Standard errors are some 2e-3; kinks between samples make minima a hundredth of that apart.
    apart = pn.parameter_error(rough.parameters.network(RELU), whole.parameters.network(RELU))
    assert apart < 2e-4
