"""What all polynomials of a degree explain together: noise nothing, many weak units much."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.certify.residual_form import NOT_CHANCE, correlation, hermite_terms, joint_dependence
from provenet.common.typing import Array


def inputs(n: int, features: int, seed: int) -> tuple[Array, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, features)), rng


def without_linear(Z: Array, left: Array) -> Array:
    """What a constant and the inputs leave: a model with output weights leaves no more."""
    basis = np.column_stack([np.ones(len(Z)), Z])
    return np.asarray(left - basis @ np.linalg.lstsq(basis, left, rcond=None)[0])


def weak_units(Z: Array, rng: np.random.Generator, units: int = 40) -> Array:
    """A sum of so many tanh units in random directions, of mean 0 and size 1, nothing linear."""
    W = rng.standard_normal((units, Z.shape[1])) / np.sqrt(Z.shape[1])
    left = without_linear(Z, np.tanh(3 * Z @ W.T + 1.0) @ rng.choice([-1.0, 1.0], units))
    return np.asarray(left / left.std())


def test_noise_in_many_features_is_about_standard_normal() -> None:
    """50 seeds: the larger of two numbers of size 1, its own known to a tenth."""
    found = []
    for seed in range(50):
        Z, rng = inputs(2000, 60, seed)
        found.append(joint_dependence(Z, rng.standard_normal(2000)))
    assert 0.8 < np.sqrt(np.mean(np.square(found))) < 1.2
    assert max(found) < NOT_CHANCE


@pytest.mark.parametrize("features", [1, 2, 5])
def test_noise_in_few_features_is_no_dependence(features: int) -> None:
    """A few squares are no normal number: what a fit takes away leaves less than 1, and of 1,500
    seeds one was above 5."""
    found = []
    for seed in range(50):
        Z, rng = inputs(300, features, seed)
        found.append(joint_dependence(Z, without_linear(Z, rng.standard_normal(300))))
    assert 0.5 < np.sqrt(np.mean(np.square(found))) < 1.0
    assert max(found) < NOT_CHANCE


@pytest.mark.parametrize("seed", range(3))
def test_many_weak_units_are_no_noise(seed: int) -> None:
    """In 60 features polynomials that there is room for are linear, and say nothing; no unit's own
    bend is above chance by much, as each has a fortieth. All pairs together show it, also beside as
    much noise as half of them; the same residuals at other inputs are noise."""
    Z, rng = inputs(4000, 60, seed)
    left = weak_units(Z, rng)
    terms = hermite_terms(Z)
    assert correlation(terms, left[: terms.shape[1]]) < 1e-9
    assert joint_dependence(Z, left) > NOT_CHANCE
    assert joint_dependence(Z, left + 0.5 * rng.standard_normal(len(left))) > NOT_CHANCE
    assert joint_dependence(Z, rng.permutation(left)) < 3


@pytest.mark.parametrize("seed", range(5))
def test_noise_whose_size_depends_on_the_inputs_is_noise(seed: int) -> None:
    """Signs are random, whatever the sizes are; so it is with heavy tails."""
    Z, rng = inputs(2000, 8, seed)
    uneven = rng.standard_normal(2000) * np.exp(Z[:, 0])
    assert joint_dependence(Z, uneven) < NOT_CHANCE
    assert joint_dependence(Z, rng.standard_t(2, 2000)) < NOT_CHANCE


@pytest.mark.parametrize("power", [2, 3])
def test_each_degree_is_looked_at(power: int) -> None:
    """A Hermite polynomial of one direction, a third of the noise in size."""
    Z, rng = inputs(3000, 5, 0)
    z = Z @ rng.standard_normal(5)
    z /= z.std()
    term = {2: z**2 - 1, 3: z**3 - 3 * z}[power]
    left = 0.33 * term / term.std() + rng.standard_normal(len(Z))
    assert joint_dependence(Z, left) > NOT_CHANCE


def test_the_size_of_residuals_and_their_sign_do_not_count() -> None:
    Z, rng = inputs(500, 5, 0)
    left = rng.standard_normal(500)
    found = joint_dependence(Z, left)
    assert joint_dependence(Z, 1e-12 * left) == pytest.approx(found, rel=1e-3)
    assert joint_dependence(Z, -left) == pytest.approx(found, rel=1e-3)
    assert joint_dependence(Z, np.zeros(500)) == 0.0


def test_of_several_outputs_the_one_that_shows_most_counts() -> None:
    rng = np.random.default_rng(6)
    Z, left = rng.standard_normal((700, 5)), rng.standard_normal((700, 3))
    left[:, 1] += 0.3 * Z[:, 0] * Z[:, 1]
    alone = [joint_dependence(Z, column) for column in left.T]
    assert np.argmax(alone) == 1
    assert joint_dependence(Z, left) == pytest.approx(alone[1], rel=1e-4)  # single precision


def test_pairs_are_those_of_the_definition() -> None:
    """More samples than are paired at once, against the sums over all pairs in full precision."""
    rng = np.random.default_rng(7)
    Z = rng.standard_normal((600, 4))
    left = without_linear(Z, rng.standard_normal(600))
    G = Z @ Z.T
    np.fill_diagonal(G, 0.0)
    sigmas = [left @ G**k @ left / np.sqrt(2 * (left**2 @ G ** (2 * k) @ left**2)) for k in (2, 3)]
    assert joint_dependence(Z, left) == pytest.approx(max(sigmas), rel=1e-3)
