"""One slope of all units from the linear part, and what does not tell one."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.common.typing import Array
from provenet.networks.activations import ABS
from provenet.networks.one_slope import one_slope
from provenet.networks.signs import unit_terms

ERROR, ALLOWED = 1e-13, 1e-10  # of terms of size one, known to rounding


def terms(units: int, features: int, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((units, features))
    return rng.standard_normal(units), W, rng.choice([-1.0, 1.0], units)


@pytest.mark.parametrize("slope", [0.1, 0.9, -0.5, -0.99])
@pytest.mark.parametrize("units, features", [(2, 2), (5, 8), (12, 3)])
def test_a_slope_and_signs_are_found(units: int, features: int, slope: float) -> None:
    check_found(units, features, slope)


def test_a_lattice_tells_the_signs_of_many_units() -> None:
    pytest.importorskip("flint")
    check_found(40, 6, 0.1)


def check_found(units: int, features: int, slope: float) -> None:
    alpha, W, xi = terms(units, features, 0)
    v = (1 + slope) / (1 - slope) * (xi * alpha) @ W
    found = one_slope(alpha, W, v, ERROR, ALLOWED)
    assert found is not None and found.activation.slope == pytest.approx(slope, abs=1e-10)
    np.testing.assert_array_equal(found.signs.signs, xi)
    assert found.signs.alternatives == () and found.spare_bits > 20


def test_no_linear_part_is_the_absolute_value() -> None:
    alpha, W, _ = terms(3, 5, 0)
    found = one_slope(alpha, W, np.zeros(5), ERROR, ALLOWED)
    assert found is not None and found.activation is ABS and found.spare_bits > 100


@pytest.mark.parametrize("units, features", [(2, 2), (3, 3), (5, 8), (8, 2), (12, 3)])
def test_other_linear_terms_are_no_slope(units: int, features: int) -> None:
    for seed in range(20):
        alpha, W, xi = terms(units, features, seed)
        rng = np.random.default_rng(1000 + seed)
        M = unit_terms(alpha, W)
        each = 1.2 + 0.1 * (np.arange(units) == 0)  # one unit has a slope of its own
        for v in (M @ xi + rng.standard_normal(features), M @ rng.standard_normal(units)):
            found = one_slope(alpha, W, v, ERROR, ALLOWED)
            assert found is None or found.spare_bits < 0, (seed, found)
        found = one_slope(alpha, W, M @ (each * xi), ERROR, ALLOWED)
        assert found is None or found.spare_bits < 0, (seed, found)


def test_one_unit_and_parallel_units_have_nothing_to_spare() -> None:
    """A slope explains the linear part there, and so would anything."""
    w = np.array([[1.0, 2.0, 3.0]])
    for alpha, W in ((np.array([2.0]), w), (np.array([2.0, -1.0, 0.7]), np.vstack([w, 2 * w, -w]))):
        found = one_slope(alpha, W, 1.37 * w[0], ERROR, ALLOWED)
        assert found is None or found.spare_bits < 0


def test_signs_that_are_open_are_counted() -> None:
    """Two units of one direction and size may be reversed together with opposite signs."""
    alpha, W, _ = terms(4, 5, 0)
    W[1], alpha[1] = W[0], alpha[0]
    xi = np.array([1.0, -1.0, 1.0, 1.0])
    found = one_slope(alpha, W, 1.2 * (xi * alpha) @ W, ERROR, ALLOWED)
    assert found is not None and len(found.signs.alternatives) == 1
