"""Directions from noisy signs, bounded labels, and the guesses of BJW19 Algorithm 8."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.fitting.noisy_signs import (
    SignDirections,
    all_row_guesses,
    best_units,
    learn_directions,
    responses,
    span_from_bounded_labels,
    surest_directions,
)


def one_unit(seed: int, n: int, features: int = 5) -> tuple[Array, Array, Array]:
    """Standard normal inputs, a direction, and `relu(w.x)` without noise."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(features)
    w /= np.linalg.norm(w)
    X = rng.standard_normal((n, features))
    return X, w, np.maximum(X @ w, 0)


def test_expected_response_is_the_mean_of_signs() -> None:
    values = np.array([-3.0, -0.5, 0.0, 0.2, 1.0, 10.0])
    rng = np.random.default_rng(0)
    draws = responses(np.tile(values, (200_000, 1)), 1.5, rng)
    assert set(np.unique(draws)) == {-1.0, 1.0}
    # Five standard errors of a mean of signs.
    np.testing.assert_allclose(
        draws.mean(axis=0), responses(values, 1.5), atol=5 / np.sqrt(len(draws))
    )


@pytest.mark.parametrize("with_draws", [True, False])
@pytest.mark.parametrize("noise", ["cauchy", "always large"])
def test_direction_within_its_standard_error(noise: str, with_draws: bool) -> None:
    """Theorem 12: whatever the noise is, as long as it does not depend on the inputs."""
    squares = []
    for seed in range(20):
        X, w, values = one_unit(seed, 20_000)
        rng = np.random.default_rng(1000 + seed)
        e = (
            rng.standard_cauchy(len(X))
            if noise == "cauchy"
            else 4 * rng.choice([-1.0, 1.0], len(X)) + rng.uniform(-1, 1, len(X))
        )
        found = learn_directions(
            X, (values + e)[:, None], 3.0, np.random.default_rng(seed) if with_draws else None
        )
        error = np.linalg.norm(found.directions[0] - w)
        assert found.standard_errors[0] < 0.35
        squares.append((error / found.standard_errors[0]) ** 2)
    # The mean of 20 times a chi square of 4 degrees over 4: 1 +- 0.16, four deviations allowed.
    assert 0.37 < np.mean(squares) < 1.63


def test_standard_error_is_that_of_the_mean_across_the_direction() -> None:
    X, _, values = one_unit(2, 3000)
    found = learn_directions(X, values[:, None], 1.0)
    products = responses(values, 1.0)[:, None] * X
    across = np.eye(5) - np.outer(found.directions[0], found.directions[0])
    variance = np.trace(across @ np.cov(products.T, bias=True) @ across) / len(X)
    expected = np.sqrt(variance) / np.linalg.norm(products.mean(axis=0))
    assert found.standard_errors[0] == pytest.approx(expected, rel=1e-10)


def test_strength_is_the_closed_form() -> None:
    """lambda is 1 / (smear sqrt(2 pi)) when the smear is large beside the values."""
    X, _, values = one_unit(3, 400_000)
    smear = 30.0
    found = learn_directions(X, values[:, None], smear)
    # Sampling error 0.0001 of 0.0133; the next term is of order 1 / smear^2.
    assert found.strengths[0] == pytest.approx(1 / (smear * np.sqrt(2 * np.pi)), rel=0.01)


def test_without_added_noise_large_noise_hides_everything() -> None:
    X, _, values = one_unit(4, 5000)
    e = 100 * np.random.default_rng(5).choice([-1.0, 1.0], len(X))
    found = learn_directions(X, (values + e)[:, None], 1e-3)
    assert found.standard_errors[0] > 0.5


def test_the_mean_costs_less_variance_than_a_draw() -> None:
    X, _, values = one_unit(6, 5000)
    rng = np.random.default_rng(7)
    drawn = learn_directions(X, values[:, None], 2.0, rng)
    expected = learn_directions(X, values[:, None], 2.0)
    assert expected.standard_errors[0] < 0.7 * drawn.standard_errors[0]


def test_span_under_noise_without_variance() -> None:
    """As many dimensions as there are units, or as are asked for; none in labels of no network."""
    network = pn.random_network(3, 8, outputs=4, bias_scale=0.0, rng=10)
    rng = np.random.default_rng(11)
    X = rng.standard_normal((20_000, 8))
    noise = rng.standard_cauchy((len(X), 4))
    span, narrow, nothing = (
        span_from_bounded_labels(X, Y, most, np.random.default_rng(12))
        for Y, most in ((network(X) + noise, None), (network(X) + noise, 2), (noise, 2))
    )
    assert span.dimensions == 3 and span.margin > 1.15 and nothing.dimensions == 0
    outside = network.weights - network.weights @ span.basis.T @ span.basis
    # 0.04 to 0.15 over 20 seeds; a random direction has 0.8.
    assert np.linalg.norm(outside, axis=1).max() < 0.25
    np.testing.assert_array_equal(span.basis[:2], narrow.basis)
    assert narrow.slices.shape[1:] == (2, 2)


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_each_guess_once(entries: int) -> None:
    """All directions with entries 0 and +-2^-i up to sign and scale, by brute force."""
    finest = 3
    levels, batches = zip(*all_row_guesses(entries, finest), strict=True)
    rows = np.vstack(batches)
    assert list(levels) == sorted(levels)  # from coarse to fine
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    values = [0.0, *(sign * 0.5**i for i in range(finest) for sign in (1, -1))]
    wanted = {
        tuple(np.round(np.array(v) / np.linalg.norm(v), 9) + 0.0)
        for v in product(values, repeat=entries)
        if max(map(abs, v)) == 1 and next(x for x in v if x) > 0
    }
    found = [tuple(np.round(row, 9) + 0.0) for row in rows]
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_distinct_directions_keep_the_surest() -> None:
    w = np.array([[1.0, 0.0], [-1.0, 0.001], [0.0, 1.0], [0.6, 0.8]])
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    learned = [
        SignDirections(w[:2], np.ones(2), np.array([0.02, 0.01])),
        SignDirections(w[2:], np.ones(2), np.array([0.03, 0.9])),
    ]
    # The second is the first again, reversed and surer; the last is too unsure to mean anything.
    np.testing.assert_array_equal(surest_directions(learned), w[[1, 2]])


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_best_units_are_those_of_all_regressions(units: int, seed: int) -> None:
    rng = np.random.default_rng(14 + seed)
    X = rng.standard_normal((200, 3))
    Y = pn.random_network(4, 3, outputs=2, rng=100 + seed)(X)
    directions = rng.standard_normal((6, 3))
    both = np.vstack([directions, -directions])

    def loss(chosen: tuple[int, ...]) -> float:
        Phi = np.column_stack([np.maximum(X @ both[list(chosen)].T, 0), np.ones(len(X))])
        return float(np.linalg.norm(Y - Phi @ np.linalg.lstsq(Phi, Y, rcond=None)[0]))

    best = min(combinations(range(len(both)), units), key=loss)
    found = best_units(X, Y, directions, units)
    assert {tuple(w) for w in found} == {tuple(both[i]) for i in best}
