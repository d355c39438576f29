"""Signs of many units in few features: found, or said to be open."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from provenet.common.typing import Array
from provenet.networks import lattice_signs
from provenet.networks.lattice_signs import equation_bits, signs_by_lattice
from provenet.networks.signs import unit_terms

UNITS, FEATURES = 60, 10


def problem(
    seed: int, units: int = UNITS, features: int = FEATURES, cancelling: int = 0
) -> tuple[Array, Array, Array, Array, float]:
    """Output weights, weights, their linear part, the signs, and the error of the linear part.

    The terms of the first units, all of one sign, cancel each other if any are to.
    """
    rng = np.random.default_rng(seed)
    W, a = rng.standard_normal((units, features)), rng.standard_normal(units)
    xi = rng.choice([-1.0, 1.0], units)
    if cancelling:
        xi[:cancelling] = 1.0
        W[cancelling - 1] = -(a[: cancelling - 1] @ W[: cancelling - 1]) / a[cancelling - 1]
    error = 1e-11 * float(np.linalg.norm(unit_terms(a, W) / 2))
    v = (xi * a) @ W / 2 + error * rng.standard_normal(features) / np.sqrt(features) / 2
    return a, W, v, xi, error


@pytest.mark.parametrize("seed", range(3))
def test_sixty_signs_in_ten_features(seed: int) -> None:
    pytest.importorskip("flint")
    a, W, v, xi, error = problem(seed)
    np.testing.assert_array_equal(signs_by_lattice(a, W, v, error).signs, xi)


def test_several_outputs_are_as_many_equations() -> None:
    pytest.importorskip("flint")
    rng = np.random.default_rng(0)
    A, W = rng.standard_normal((4, 45)), rng.standard_normal((45, 3))
    xi = rng.choice([-1.0, 1.0], 45)
    found = signs_by_lattice(A, W, (xi * A) @ W / 2, 1e-10)
    np.testing.assert_array_equal(found.signs, xi)


@pytest.mark.parametrize("cancelling", [4, 9])
def test_units_that_may_be_reversed_together_are_open(cancelling: int) -> None:
    """The bits say that chance leaves one pattern; the weights were not drawn by chance."""
    pytest.importorskip("flint")
    a, W, v, xi, error = problem(0, cancelling=cancelling)
    other = xi * np.where(np.arange(UNITS) < cancelling, -1.0, 1.0)
    assert np.linalg.norm((other * a) @ W / 2 - v) <= error
    found = signs_by_lattice(a, W, v, error)
    assert found.signs is None and found.reason.endswith("explain it.")


def test_a_linear_part_that_no_signs_explain_has_none() -> None:
    pytest.importorskip("flint")
    a, W, v, _, error = problem(0)
    assert signs_by_lattice(a, W, v + 1e-6, error).signs is None


def test_signs_must_solve_the_equations_that_did_not_find_them() -> None:
    """The first four of ten directions are enough to find the signs; the last shows a slope."""
    pytest.importorskip("flint")
    a, W, v, xi, error = problem(0)
    last = np.linalg.svd(unit_terms(a, W))[0][:, -1]
    np.testing.assert_array_equal(signs_by_lattice(a, W, v + 0.1 * error * last, error).signs, xi)
    assert signs_by_lattice(a, W, v + 1e4 * error * last, error).signs is None


REASONS = {
    "bits, too few": problem(0, features=1),
    "no search finds so many": problem(0, units=160),
}


@pytest.mark.parametrize("words", REASONS)
def test_signs_that_cannot_be_had_are_open_for_a_reason(words: str) -> None:
    a, W, v, _, error = REASONS[words]
    found = signs_by_lattice(a, W, v, error)
    assert found.signs is None and words in found.reason


def test_without_the_library_the_reason_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice_signs, "find_spec", lambda name: None)
    a, W, v, _, error = problem(0)
    assert "install provenet[lattice]" in signs_by_lattice(a, W, v, error).reason


def test_time_that_is_over_is_a_reason() -> None:
    pytest.importorskip("flint")
    a, W, v, _, error = problem(0)
    assert "give more time" in signs_by_lattice(a, W, v, error, lambda: True).reason


@pytest.mark.parametrize("features", [1, 2])
def test_bits_count_the_patterns_that_chance_leaves(features: int) -> None:
    """All 65,536 patterns of 16 units: as many are within an error of zero as the bits say."""
    rng = np.random.default_rng(features)
    M = rng.standard_normal((features, 16))
    patterns = np.array(list(product((1.0, -1.0), repeat=16)))
    near = np.sum(np.linalg.norm(patterns @ M.T, axis=1) <= 0.5)
    expected = 2.0 ** (16 - equation_bits(M, 0.5))
    assert near == pytest.approx(expected, rel=0.2)  # thousands of patterns, not quite normal
