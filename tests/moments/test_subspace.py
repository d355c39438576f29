"""The span of the units against its noise, whatever the covariance of the inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import exact_tensors, special_network
from provenet.common.exceptions import NoAnswer
from provenet.moments.hermite import MomentRequest, estimate_moments
from provenet.moments.subspace import noise_edge, possible_widths, span_of_units

# ---------------------------------------------------------------- whitening


@given(st.integers(0, 10**6))
def test_an_affine_change_of_inputs_changes_nothing_that_matters(seed: int) -> None:
    """Inputs `M x + mu`: the moments are the same up to a rotation, and so is the network."""
    rng = np.random.default_rng(seed)
    M, mu = np.eye(3) + 0.3 * rng.standard_normal((3, 3)), rng.standard_normal(3)
    net = pn.random_network(2, 3, rng=rng)
    X, y = pn.sample(net, 200, rng=rng)
    plain, moved = pn.ArraySource(X, y), pn.ArraySource(X @ M.T + mu, y)
    s, t = plain.standardisation(), moved.standardisation()
    # z' = R z with R orthogonal, exactly: tolerance is rounding times the condition of M.
    tolerance = 1e-13 * np.linalg.cond(M) ** 2 * 10
    R = t.whiten @ M @ np.linalg.inv(s.whiten)
    np.testing.assert_allclose(R @ R.T, np.eye(3), rtol=0, atol=tolerance)
    np.testing.assert_allclose(t.apply(moved.X), s.apply(X) @ R.T, rtol=0, atol=10 * tolerance)
    np.testing.assert_allclose(t.linear, R @ s.linear, rtol=0, atol=10 * tolerance)
    T = estimate_moments(plain, MomentRequest(s, 3)).tensors
    U = estimate_moments(moved, MomentRequest(t, 3)).tensors
    np.testing.assert_allclose(U[2], R @ T[2] @ R.T, rtol=0, atol=100 * tolerance)
    rotated = np.einsum("abc,ia,jb,kc->ijk", T[3], R, R, R)
    np.testing.assert_allclose(U[3], rotated, rtol=0, atol=1000 * tolerance)
    # A network found on standardised inputs, mapped back to either user's, is one function.
    own = s.network_from_user(net)
    turned = own.replace(weights=own.weights @ R.T)
    answers = t.network_to_user(turned)(moved.X)
    np.testing.assert_allclose(answers, y, rtol=0, atol=100 * tolerance)


# ---------------------------------------------------------------- the span of the units


@pytest.mark.parametrize("seed", range(5))
def test_the_span_of_the_population(seed: int) -> None:
    net = special_network(seed, features=9)
    T2 = exact_tensors(net)[2]
    span = span_of_units(T2, 0.0)
    assert span.rank == 6
    np.testing.assert_allclose(span.basis @ span.basis.T, np.eye(6), rtol=0, atol=1e-13)
    # Every unit lies in the span: rounding over the smallest eigenvalue (above 1e-3 here).
    inside = net.weights @ span.basis.T @ span.basis
    np.testing.assert_allclose(inside, net.weights, rtol=0, atol=1e-12)
    quadratic = span.basis @ T2 @ span.basis.T
    np.testing.assert_allclose(span.quadratic, quadratic, rtol=0, atol=1e-13)
    sizes = np.abs(span.eigenvalues)
    assert (np.diff(sizes) <= 0).all() and len(sizes) == 9
    assert span.gap > 1e8 and span.noise_level < 1e-11
    # Signs of the output weights are those of the eigenvalues (Sylvester's law of inertia).
    assert np.sum(span.eigenvalues[:6] > 0) == np.sum(net.output_weights > 0)


def test_gap_is_relative_to_the_noise_or_the_next_eigenvalue() -> None:
    assert span_of_units(np.zeros((4, 4)), 0.0).basis.shape == (0, 4)
    assert span_of_units(np.eye(4), 100.0).gap == 0.0
    T2 = np.diag([-8.0, 4.0, 1.0, 0.1])
    assert span_of_units(T2, 0.0, rank=2).gap == pytest.approx(4.0)
    level = span_of_units(T2, 0.02)
    assert level.noise_level == pytest.approx(noise_edge(0.02, 4))
    assert level.rank == 3 and level.gap == pytest.approx(1.0 / max(noise_edge(0.02, 4), 0.1))


@pytest.mark.parametrize("d", [5, 20, 60])
def test_pure_error_stays_below_the_edge_but_near_it(d: int) -> None:
    rng = np.random.default_rng(0)
    largest = []
    for _ in range(50):
        E = rng.standard_normal((d, d))
        E = (E + E.T) / np.sqrt(2)  # entries of variance 1, on the diagonal 2
        error = np.sqrt((d + 1) / d)  # root mean square over all entries
        largest.append(np.abs(np.linalg.eigvalsh(E)).max() / noise_edge(error, d))
    # Of 10^4 draws at each d the largest was 1.02, and fewer than ten were above 1. The edge is not
    # so wide either that it would hide signals: the means are 0.51, 0.75 and 0.87.
    assert max(largest) < 1.0 and np.mean(largest) > 0.45


@pytest.mark.parametrize("seed", range(4))
def test_the_number_of_units_from_samples(seed: int) -> None:
    net = pn.random_network(3, 10, bias_scale=0.8, rng=seed)
    X, y = pn.sample(net, 40_000, noise=0.2, rng=seed + 100)
    source = pn.ArraySource(X, y)
    moments = estimate_moments(source, MomentRequest(source.standardisation(), 2))
    # Strong units, many samples: right for each of 50 seeds.
    assert span_of_units(moments.tensors[2], moments.errors[2]).rank == 3
    noise = pn.ArraySource(X, np.random.default_rng(seed).standard_normal(len(X)))
    moments = estimate_moments(noise, MomentRequest(noise.standardisation(), 2))
    assert span_of_units(moments.tensors[2], moments.errors[2]).rank == 0


def test_how_many_units_the_labels_may_have() -> None:
    rounding, noise, full = ([3.0, 2.0, 1e-12], [3.0, 2.0, 0.1, 0.09], [3.0, 2.0, 1.0])
    expected = ((rounding, [2]), (noise, [2, 4]), (full, [3]), ([3.0], [1]))
    for sizes, widths in expected:
        assert possible_widths(np.array(sizes), None) == widths
    assert possible_widths(np.array(full), 2) == [2]
    with pytest.raises(NoAnswer, match="2 dimensions, fewer than 3"):
        possible_widths(np.array(rounding), 3)
