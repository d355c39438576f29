"""Signs of units: all solutions against trying all; lattices, slopes, flips."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import exact_tensors, is_a_sentence, special_network
from provenet.common.typing import Array
from provenet.datasets import sign_ambiguous_network
from provenet.networks.activations import ABS, get_activation
from provenet.networks.signs import (
    equation_bits,
    fix_signs,
    flip_sets,
    flipped,
    is_one_slope,
    odd_slope,
    one_slope,
    sign_solutions,
    signs_from_linear_part,
    slope_from_linear_part,
    unit_terms,
)

signs_of_six = st.lists(st.sampled_from([-1.0, 1.0]), min_size=6, max_size=6).map(np.array)


def drawn(units: int, features: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Output weights, weights and signs."""
    rng = np.random.default_rng(seed)
    W, a = rng.standard_normal((units, features)), rng.standard_normal(units)
    return a, W, rng.choice([-1.0, 1.0], units)


@given(st.integers(0, 10**6), signs_of_six, st.sampled_from([6, 9]))
def test_first_moments_fix_the_signs(seed: int, hidden: Array, features: int) -> None:
    """ATV21, Algorithm 3: the solution is `xi_i Phi(b_i)`, never zero."""
    net = special_network(seed, features)
    found = fix_signs(exact_tensors(net)[1], net.output_weights, net.weights * hidden[:, None])
    np.testing.assert_array_equal(found, hidden)


# Independent, tried one by one, by null vectors, by a lattice, by null vectors of many.
SIZES = [(0, 3), (1, 3), (6, 8), (8, 3), (30, 22), (30, 8), (40, 12), (45, 40)]


@pytest.mark.parametrize("units, features", SIZES)
def test_the_linear_part_determines_the_signs(units: int, features: int) -> None:
    a, W, xi = drawn(units, features)
    found = signs_from_linear_part(a, W, (xi * a) @ W / 2)
    np.testing.assert_array_equal(found.signs, xi)
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    assert found.alternatives == () and not found.untried


@pytest.mark.parametrize("units, features", [(5, 2), (9, 4)])
def test_without_a_solution_no_reversal_of_one_or_two_does_better(
    units: int, features: int
) -> None:
    a, W, _ = drawn(units, features)
    v = np.random.default_rng(1).standard_normal(features)
    found, M = signs_from_linear_part(a, W, v), unit_terms(a, W) / 2
    np.testing.assert_allclose(found.remainder, v - M @ found.signs, rtol=0, atol=1e-13)
    for i, j in product(range(units), repeat=2):
        xi = found.signs.copy()
        xi[[i, j]] *= -1
        assert np.linalg.norm(v - M @ xi) >= np.linalg.norm(found.remainder) - 1e-9


@pytest.mark.parametrize("units, features", [(7, 2), (11, 2), (12, 8)])
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_all_solutions_in_whole_numbers_are_found(units: int, features: int, offset: float) -> None:
    """Of whole numbers many sums coincide. With an offset there is no solution."""
    M = np.random.default_rng(units).integers(-2, 3, (features, units)).astype(float)
    v = M @ np.where(np.arange(units) % 3 == 0, -1.0, 1.0) + offset
    every = np.array(list(product((1.0, -1.0), repeat=units)))
    expected = every[np.abs(every @ M.T - v).max(axis=1) < 1e-9]
    found, complete = sign_solutions(M, v, 1e-9)
    assert complete and {tuple(xi) for xi in found} == {tuple(xi) for xi in expected}
    some, complete = sign_solutions(M, v, 1e-9, most=1)
    assert len(some) == min(len(expected), 1) and complete == (len(expected) <= 1)


# ---- Lattices


def precise(seed: int, units: int = 60, features: int = 10) -> tuple[Array, Array, Array, Array]:
    """Output weights, weights, their linear part, the signs."""
    a, W, xi = drawn(units, features, seed)
    return a, W, (xi * a) @ W / 2, xi


def error_of(a: Array, W: Array) -> float:
    return 1e-11 * float(np.linalg.norm(unit_terms(a, W) / 2))


@pytest.mark.parametrize("outputs", [None, 4])
def test_a_lattice_determines_the_signs_of_many_units(outputs: int | None) -> None:
    rng = np.random.default_rng(0)
    a, W = rng.standard_normal((outputs or 1, 60)), rng.standard_normal((60, 10 // (outputs or 1)))
    xi = rng.choice([-1.0, 1.0], 60)
    v = (xi * a) @ W / 2
    v += error_of(a, W) * rng.standard_normal(v.shape) / np.sqrt(v.size) / 2
    for error in (error_of(a, W), None):
        found = signs_from_linear_part(a, W, v, error)
        np.testing.assert_array_equal(found.signs, xi)
        assert not found.untried


def test_units_that_may_be_reversed_together_are_open() -> None:
    """The bits say that chance leaves one pattern; the weights were not drawn by chance."""
    a, W, _, xi = precise(0)
    xi[:4] = 1.0
    W[3] = -(a[:3] @ W[:3]) / a[3]
    found = signs_from_linear_part(a, W, (xi * a) @ W / 2, error_of(a, W))
    assert found.untried.endswith("explain it.")


def test_signs_must_solve_the_equations_that_did_not_find_them() -> None:
    """The first four of ten directions are enough to find the signs; the last shows a slope."""
    a, W, v, xi = precise(0)
    error, last = error_of(a, W), np.linalg.svd(unit_terms(a, W))[0][:, -1]
    near = signs_from_linear_part(a, W, v + 0.1 * error * last, error)
    np.testing.assert_array_equal(near.signs, xi)
    assert signs_from_linear_part(a, W, v + 1e4 * error * last, error).untried


REASONS = {
    "bits, too few": (precise(0, features=1), False),
    "no search finds so many": (precise(0, units=160), False),
    "give more time": (precise(0), True),
}


@pytest.mark.parametrize("words", REASONS)
def test_signs_that_cannot_be_had_are_open_for_a_reason(words: str) -> None:
    (a, W, v, _), stopped = REASONS[words]
    assert words in signs_from_linear_part(a, W, v, error_of(a, W), lambda: stopped).untried


@pytest.mark.parametrize("features", [1, 2])
def test_bits_count_the_patterns_that_chance_leaves(features: int) -> None:
    """All 65,536 patterns of 16 units: as many are within an error of zero as the bits say."""
    M = np.random.default_rng(features).standard_normal((features, 16))
    patterns = np.array(list(product((1.0, -1.0), repeat=16)))
    near = np.sum(np.linalg.norm(patterns @ M.T, axis=1) <= 0.5)
    expected = 2.0 ** (16 - equation_bits(M, 0.5))
    assert near == pytest.approx(expected, rel=0.2)  # thousands of patterns, not quite normal


# ---- One slope of all units

ERROR, ALLOWED = 1e-13, 1e-10  # of terms of size one, known to rounding


@pytest.mark.parametrize("slope", [0.1, 0.9, -0.5, -0.99])
@pytest.mark.parametrize("units, features", [(2, 2), (5, 8), (12, 3), (42, 6)])
def test_a_slope_and_signs_are_found(units: int, features: int, slope: float) -> None:
    """`leaky(z) = (1 - s) |z| / 2 + (1 + s) z / 2`."""
    alpha, W, xi = drawn(units, features)
    v = (1 + slope) / (1 - slope) * (xi * alpha) @ W
    found = one_slope(alpha, W, v, ERROR, ALLOWED)
    assert found is not None and found.activation.slope == pytest.approx(slope, abs=1e-10)
    np.testing.assert_array_equal(found.signs.signs, xi)
    assert found.signs.alternatives == () and found.spare_bits > 20
    if units <= features:
        assert slope_from_linear_part(alpha, W, v) == pytest.approx(slope, abs=1e-12)
        assert is_one_slope(alpha, W, v) and not is_one_slope(alpha, W, v + 0.1)


def test_no_linear_part_is_the_absolute_value() -> None:
    alpha, W, _ = drawn(3, 5)
    found = one_slope(alpha, W, np.zeros(5), ERROR, ALLOWED)
    assert found is not None and found.activation is ABS and found.spare_bits > 100


@pytest.mark.parametrize("units, features", [(1, 3), (2, 2), (5, 8), (8, 2), (12, 3)])
def test_other_linear_terms_are_no_slope(units: int, features: int) -> None:
    """One unit, and noise: a slope that explains them has no equations to spare."""
    for seed in range(10):
        alpha, W, xi = drawn(units, features, seed)
        M, rng = unit_terms(alpha, W), np.random.default_rng(1000 + seed)
        each = 1.2 + 0.1 * (np.arange(units) == 0)  # one unit has a slope of its own
        linear_parts = rng.standard_normal(units), each * xi
        for v in (M @ xi + rng.standard_normal(features), *(M @ z for z in linear_parts)):
            found = one_slope(alpha, W, v, ERROR, ALLOWED)
            assert found is None or found.spare_bits < 0, (seed, found)


def test_signs_beside_a_slope_may_be_open() -> None:
    """Two units of one direction and size may be reversed together with opposite signs."""
    alpha, W, _ = drawn(4, 5)
    W[1], alpha[1] = W[0], alpha[0]
    xi = np.array([1.0, -1.0, 1.0, 1.0])
    found = one_slope(alpha, W, 1.2 * (xi * alpha) @ W, ERROR, ALLOWED)
    assert found is not None and len(found.signs.alternatives) == 1


# ---- Units that may be flipped


def integer_network(seed: int, units: int, features: int, outputs: int | None = None) -> pn.Network:
    """Small whole weights: many sums vanish exactly."""
    rng = np.random.default_rng(seed)
    W = rng.integers(-1, 2, size=(units, features)).astype(float)
    W[~W.any(axis=1)] = 1.0
    shape = units if outputs is None else (outputs, units)
    return pn.Network(W, rng.standard_normal(units), rng.choice([-1.0, 1.0, 2.0], shape))


@pytest.mark.parametrize(
    ("seed", "units", "features", "outputs"),
    [(0, 8, 2, None), (1, 12, 3, None), (2, 12, 2, 2), (3, 9, 1, None)],
)
def test_minimal_sets_agree_with_trying_all(
    seed: int, units: int, features: int, outputs: int | None
) -> None:
    net = integer_network(seed, units, features, outputs)
    M, minimal = unit_terms(net.output_weights, net.weights), list[frozenset[int]]()
    for size in range(1, units + 1):
        for some in map(frozenset, combinations(range(units), size)):
            sums_to_zero = np.allclose(M[:, sorted(some)].sum(axis=1), 0)
            if sums_to_zero and not any(old <= some for old in minimal):
                minimal.append(some)
    found = flip_sets(net)
    expected = {tuple(sorted(s)) for s in minimal}
    exchanges = expected - set(found.sets)
    assert found.complete and found.sets and set(found.sets) <= expected
    assert all(pn.parameter_error(flipped(net, units), net) < 1e-6 for units in exchanges)


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.2)"])
def test_flips_give_the_same_outputs(outputs: int | None, activation: str) -> None:
    net = pn.random_network(7, 4, outputs=outputs, activation=activation, rng=0)
    W, A = net.weights.copy(), net.output_weights.copy()
    # Two sets: units 0, 1, 2 in a plane with one vector of output weights, and units 3, 4, 5.
    for i, j, k in ((0, 1, 2), (3, 4, 5)):
        A[..., j] = A[..., k] = A[..., i]
        W[k] = -W[i] - W[j]
    net = net.replace(weights=W, output_weights=A)
    assert flip_sets(net) == pn.FlipSets(((0, 1, 2), (3, 4, 5)), True)
    X = np.random.default_rng(0).standard_normal((1000, 4))
    for units in (*flip_sets(net).sets, (0, 1, 2, 3, 4, 5)):
        np.testing.assert_allclose(flipped(net, units)(X), net(X), rtol=0, atol=1e-13)
        assert pn.parameter_error(flipped(net, units), net) > 0.1
    assert np.abs(flipped(net, (0, 1))(X) - net(X)).max() > 0.1


@pytest.mark.parametrize("units, features", [(5, 8), (12, 8), (30, 10), (60, 45)])
def test_the_set_is_found_among_many_units(units: int, features: int) -> None:
    first, second = sign_ambiguous_network(units, features, rng=1)
    reversed_ = tuple(np.flatnonzero((first.weights != second.weights).any(axis=1)))
    assert flip_sets(first) == pn.FlipSets((reversed_,), True)


def test_a_search_that_cannot_be_complete_says_so() -> None:
    assert not flip_sets(pn.random_network(60, 3, rng=0)).complete


def test_units_without_effect_and_mere_exchanges_are_left_out() -> None:
    W = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    network = pn.Network(W, [0.5, -0.5, 0.1, 1.0], [1.0, 1.0, 0.0, 1.0])
    assert flip_sets(network).sets == ()
    other = network.replace(biases=[0.5, 0.3, 0.1, 1.0])  # now a flip gives another pair of units
    assert flip_sets(other).sets == ((0, 1),)


def test_nearly_is_a_matter_of_tolerance() -> None:
    network, _ = sign_ambiguous_network(6, 4, rng=0)
    moved = network.replace(weights=network.weights + 1e-5, linear=np.ones(4))
    assert not flip_sets(moved).sets
    assert flip_sets(moved, tolerance=1e-4).sets == flip_sets(network).sets


def test_slope_of_the_odd_part() -> None:
    own = pn.Activation("own", lambda z: np.logaddexp(0, z), np.tanh, kinked=False)
    slopes = {"relu": 1.0, "leaky_relu(0.2)": 1.2, "abs": 0.0, "softplus": 1.0, own: 1.0}
    for activation, slope in slopes.items():
        assert odd_slope(get_activation(activation)) == pytest.approx(slope)
    for name in ("relu2", "sigmoid", "step", "exp", "tanh", "elu"):
        assert odd_slope(get_activation(name)) is None
    network, _ = sign_ambiguous_network(6, 4, rng=0)
    for name in ("abs", "relu2"):
        assert flip_sets(network.replace(activation=name)).sets == ()


def test_bad_input() -> None:
    network = pn.random_network(3, 3, rng=0)
    with pytest.raises(pn.InvalidInput) as error:
        flip_sets(network, tolerance=-1.0)
    is_a_sentence(error, "at least 0")
    with pytest.raises(pn.InvalidInput) as error:
        flipped(network.replace(activation="relu2"), [0])
    is_a_sentence(error, "linear")
