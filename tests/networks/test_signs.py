"""The signs of the units from the linear part of the function."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import exact_tensors, run_script, special_network
from provenet.networks.conversions import as_absolute
from provenet.networks.signs import fix_signs, signs_from_linear_part, slope_from_linear_part

signs_of_six = st.lists(st.sampled_from([-1.0, 1.0]), min_size=6, max_size=6).map(np.array)


@pytest.mark.parametrize("seed", [0, 91, 392])
def test_a_slope_below_zero_is_less_than_one_whatever_the_linear_part(seed: int) -> None:
    """Signs of dependent units may come out all reversed: of these seeds all do."""
    rng = np.random.default_rng(seed)
    a, W, v = rng.standard_normal(4), rng.standard_normal((4, 2)), rng.standard_normal(2)
    assert -1 <= slope_from_linear_part(a, W, v) < 1


@pytest.mark.parametrize("slope", [-0.5, 0.0, 0.3])
def test_the_slope_that_all_units_share(slope: float) -> None:
    """`leaky(z) = (1 - s) |z| / 2 + (1 + s) z / 2`."""
    rng = np.random.default_rng(1)
    a, W = rng.standard_normal(3), rng.standard_normal((3, 5))
    v = (1 + slope) / (1 - slope) * (a * [1.0, -1.0, 1.0]) @ W
    assert slope_from_linear_part(a, W, v) == pytest.approx(slope, abs=1e-13)


@pytest.mark.parametrize("alike", [False, True])
def test_many_units_of_which_few_depend_on_the_others(alike: bool) -> None:
    """45 units in 40 features; `alike`: four whose terms cancel may all be reversed."""
    rng = np.random.default_rng(0)
    W, a = rng.standard_normal((45, 40)), rng.standard_normal(45)
    xi = np.where(rng.random(45) < 0.5, -1.0, 1.0)
    if alike:
        xi[:4] = 1.0
        W[3] = -(a[:3] @ W[:3]) / a[3]
    found = signs_from_linear_part(a, W, (xi * a) @ W / 2)
    assert found.complete and len(found.alternatives) == alike
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    patterns = [found.signs, *found.alternatives]
    assert any(np.array_equal(pattern, xi) for pattern in patterns)
    np.testing.assert_array_equal(patterns[-1][4:], xi[4:])


def test_signs_that_were_not_all_tried_are_said_to_be_so() -> None:
    rng = np.random.default_rng(0)
    W, a = rng.standard_normal((60, 10)), rng.standard_normal(60)
    assert not signs_from_linear_part(a, W, a @ W / 2).complete


@given(st.integers(0, 10**6), signs_of_six, st.sampled_from([6, 9]))
def test_first_moments_fix_the_signs(seed: int, hidden: np.ndarray, features: int) -> None:
    """ATV21, Algorithm 3: the solution is `xi_i Phi(b_i)`, never zero."""
    net = special_network(seed, features)
    found = fix_signs(exact_tensors(net)[1], net.output_weights, net.weights * hidden[:, None])
    np.testing.assert_array_equal(found, hidden)


def linear_part(net: pn.Network) -> np.ndarray:
    return as_absolute(net).linear


@given(st.integers(0, 10**6), signs_of_six)
def test_independent_units(seed: int, hidden: np.ndarray) -> None:
    net = special_network(seed, 8)
    found = signs_from_linear_part(
        net.output_weights, net.weights * hidden[:, None], linear_part(net)
    )
    np.testing.assert_array_equal(found.signs, hidden)
    np.testing.assert_allclose(found.remainder, 0.0, rtol=0, atol=1e-13)  # rounding
    assert found.alternatives == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_linear_term_is_what_the_signs_leave(seed: int) -> None:
    net = special_network(seed, 8)
    outside = np.linalg.svd(net.weights)[2][6]  # orthogonal to all units
    found = signs_from_linear_part(net.output_weights, net.weights, linear_part(net) + 2 * outside)
    np.testing.assert_array_equal(found.signs, 1.0)
    np.testing.assert_allclose(found.remainder, 2 * outside, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_more_units_than_features_by_trying_all(seed: int) -> None:
    net = pn.random_network(8, 3, rng=seed)
    hidden = np.random.default_rng(seed).choice([-1.0, 1.0], 8)
    found = signs_from_linear_part(
        net.output_weights, net.weights * hidden[:, None], linear_part(net)
    )
    np.testing.assert_array_equal(found.signs, hidden)
    np.testing.assert_allclose(found.remainder, 0.0, rtol=0, atol=1e-13)
    assert found.alternatives == ()


def test_signs_that_the_function_does_not_tell_are_all_listed() -> None:
    """ATV21, Claim 4.8: three units in a plane sum to zero, so all of them may be reversed."""
    angle = 2 * np.pi * np.arange(3) / 3
    W = np.column_stack([np.cos(angle), np.sin(angle)])
    net = pn.Network(W, np.zeros(3))
    found = signs_from_linear_part(net.output_weights, W, linear_part(net))
    patterns = {tuple(found.signs), *(tuple(other) for other in found.alternatives)}
    assert patterns == {(1.0, 1.0, 1.0), (-1.0, -1.0, -1.0)}
    x = np.random.default_rng(0).standard_normal((20, 2))
    np.testing.assert_allclose(net.replace(weights=-W)(x), net(x), rtol=0, atol=1e-14)


def test_the_best_of_all_when_none_is_right() -> None:
    rng = np.random.default_rng(0)
    a, W, v = rng.standard_normal(5), rng.standard_normal((5, 2)), rng.standard_normal(2)
    found = signs_from_linear_part(a, W, v)
    misfits = [np.linalg.norm(v - (xi * a) @ W / 2) for xi in product((1, -1), repeat=5)]
    assert np.linalg.norm(found.remainder) == pytest.approx(min(misfits), rel=1e-12)
    np.testing.assert_allclose(found.remainder, v - (found.signs * a) @ W / 2, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_many_dependent_units_by_local_search(seed: int) -> None:
    """More than can be tried one by one: no single or double reversal does better."""
    rng = np.random.default_rng(seed)
    net = pn.random_network(20, 15, rng=seed)
    hidden = rng.choice([-1.0, 1.0], 20)
    a, W, v = net.output_weights, net.weights * hidden[:, None], linear_part(net)
    found = signs_from_linear_part(a, W, v)
    M = (a[:, None] * W).T / 2
    size = np.linalg.norm(found.remainder)
    np.testing.assert_allclose(found.remainder, v - M @ found.signs, rtol=0, atol=1e-13)
    for i, j in product(range(20), repeat=2):
        xi = found.signs.copy()
        xi[[i, j]] *= -1
        assert np.linalg.norm(v - M @ xi) >= size - 1e-9


def test_the_local_search_ends() -> None:
    """With nothing to explain, rounding alone looks like a gain, there and back again."""
    run_script("""
import numpy as np
from provenet.networks.signs import signs_from_linear_part
for seed in range(100):
    W = np.random.default_rng(seed).standard_normal((9, 3))
    signs_from_linear_part(np.ones(18), np.vstack([W, W]), np.zeros(3))
""")


@pytest.mark.parametrize("units", [0, 1])
def test_hardly_any_units(units: int) -> None:
    a, W, v = np.full(units, 2.0), np.eye(3)[:units], np.array([-1.0, 0.0, 0.5])
    found = signs_from_linear_part(a, W, v)
    assert found.signs.tolist() == [-1.0] * units
    np.testing.assert_allclose(found.remainder, [0.0 if units else -1.0, 0.0, 0.5])
