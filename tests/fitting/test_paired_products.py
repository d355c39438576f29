"""Sums of pairs are the sums of the Jacobian's own products."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.common.typing import Array
from provenet.fitting import paired_products
from provenet.fitting.paired_products import CurvatureSums, row_pairs

N, UNITS, FEATURES = 40, 3, 4


def _parts() -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.standard_normal((N, FEATURES)), np.ones(N)])
    return rng.standard_normal((N, UNITS)), rng.standard_normal((N, UNITS)), inputs


def _by_the_jacobian(slope: Array, values: Array, inputs: Array, has_linear: bool) -> Array:
    D = (slope[:, :, None] * inputs[:, None]).reshape(N, -1)
    J = np.hstack([D, values, inputs if has_linear else inputs[:, -1:]])
    return np.asarray(J.T @ J)


@pytest.mark.parametrize("has_linear", [True, False])
@pytest.mark.parametrize("at_once", [1, 10**6])
def test_the_matrix_is_that_of_the_jacobian(
    has_linear: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However few pairs are formed at a time; 1e-12: rounding of sums over 40 samples.
    monkeypatch.setattr(paired_products, "PAIRS_AT_ONCE", at_once)
    monkeypatch.setattr(paired_products, "ENTRIES_AT_ONCE", at_once)
    slope, values, inputs = _parts()
    sums = CurvatureSums.of(slope, values, inputs.T, np.float64)
    expected = _by_the_jacobian(slope, values, inputs, has_linear)
    np.testing.assert_allclose(sums.matrix(has_linear), expected, atol=1e-12)


def test_pairs_that_are_known_change_nothing() -> None:
    slope, values, inputs = _parts()
    known = row_pairs(inputs.T)
    sums = CurvatureSums.of(slope, values, inputs.T, np.float64, known)
    other = CurvatureSums.of(slope, values, inputs.T, np.float64)
    np.testing.assert_allclose(sums.matrix(True), other.matrix(True), atol=1e-12)


def test_blocks_of_samples_add_up() -> None:
    slope, values, inputs = _parts()
    halves = (
        CurvatureSums.of(slope[part], values[part], inputs[part].T, np.float64)
        for part in (slice(0, 15), slice(15, N))
    )
    expected = _by_the_jacobian(slope, values, inputs, has_linear=True)
    first, second = halves
    np.testing.assert_allclose((first + second).matrix(True), expected, atol=1e-12)


def test_a_model_without_units_has_the_inputs_sums() -> None:
    _, _, inputs = _parts()
    nothing = np.empty((N, 0))
    sums = CurvatureSums.of(nothing, nothing, inputs.T, np.float64)
    np.testing.assert_allclose(sums.matrix(True), inputs.T @ inputs, atol=1e-12)
