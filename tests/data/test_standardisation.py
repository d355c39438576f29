"""Whitened inputs, the linear part of the labels, and columns that depend on others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from provenet.common.typing import Array
from provenet.data.standardisation import LinearSums, dependent_columns, standardisation_from


def sums_of(X: Array, y: Array | None = None, origin: Array | None = None) -> LinearSums:
    labels = np.zeros(len(X)) if y is None else y
    return LinearSums.of(X, labels, X.mean(axis=0) if origin is None else origin, 0.0)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e4]))
def test_standardised_inputs_have_mean_0_and_covariance_1(seed: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    M = np.eye(3) + 0.3 * rng.standard_normal((3, 3))
    X = rng.standard_normal((50, 3)) @ M.T * [1.0, 1e3, 1e-3] + offset
    y = rng.standard_normal(50) + offset
    s = standardisation_from(sums_of(X, y, X[0]), X[0], 0.0)
    Z = s.apply(X)
    # Rounding; with the offset that of the mean, 1e-12, over the least of the spreads, 1e-3.
    tolerance = (1e-8 if offset else 1e-11) * np.linalg.cond(M)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, rtol=0, atol=tolerance)
    np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(3), rtol=0, atol=tolerance)
    assert s.label_mean == pytest.approx(y.mean(), rel=1e-12)
    assert s.label_spread == pytest.approx(y.std(), rel=1e-12 + 1e-15 * offset**2)
    assert s.samples == 50


def test_the_linear_part_is_the_regression() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)) * [1, 2, 3] + 5, rng.standard_normal(40)
    s = standardisation_from(sums_of(X, y, X[0]), X[0], 0.0)
    design = np.column_stack([s.apply(X), np.ones(40)])
    coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(s.linear, coefficients[:3], rtol=0, atol=1e-12)
    assert s.label_mean == pytest.approx(coefficients[3], abs=1e-12)


def test_independent_inputs_pass() -> None:
    X = np.random.default_rng(0).standard_normal((50, 4)) * [1, 1e-6, 1e6, 1] + [0, 5, 1e8, -3]
    assert dependent_columns(sums_of(X)) == []


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_exactly_as_many_columns_are_named_as_there_are_too_many(
    seed: int, free: int, extra: int, copies: bool
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, free))
    mix = (
        np.eye(free)[rng.integers(free, size=extra)] if copies else rng.uniform(1, 2, (extra, free))
    )
    X = np.column_stack([X, X @ mix.T])[:, rng.permutation(free + extra)] * rng.uniform(1, 9) + 3
    named = dependent_columns(sums_of(X))
    assert len(named) == extra and named == sorted(named)
    rest = np.delete(X, named, axis=1)
    assert dependent_columns(sums_of(rest)) == []


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1 / 3, 1e6 + 0.1, 1e-20])
def test_constant_columns_are_named(value: float) -> None:
    X = np.random.default_rng(0).standard_normal((1000, 3))
    X[:, [0, 2]] = value
    assert dependent_columns(sums_of(X)) == [0, 2]


@pytest.mark.parametrize("units", [3, (3, 2)])
def test_networks_go_to_standardised_inputs_and_back(units: int | tuple[int, ...]) -> None:
    network = pn.random_network(units, 4, activation="tanh", rng=0)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 4)) + 3.0
    found = pn.ArraySource(X, network(X)).standardisation()
    own = found.network_from_user(network)
    # Rounding, times the condition of a random 4 x 4 matrix.
    np.testing.assert_allclose(own(found.apply(X)), network(X), atol=1e-11)
    np.testing.assert_allclose(found.network_to_user(own)(X), network(X), atol=1e-11)
