"""The population of a known network: exact moments that samples approach."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import provenet as pn
from helpers import exact_tensors, identity_standardisation, special_network
from provenet.moments.estimation import estimate_moments, sampled_moments
from provenet.moments.sums import MomentRequest
from provenet.networks.hermite import quadrature_coefficient


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_moments_are_exact_whatever_the_scale_of_the_units(scale: float) -> None:
    net = special_network(0)
    source = pn.PopulationSource(
        net.replace(
            weights=scale * net.weights,
            biases=scale * net.biases,
            output_weights=net.output_weights / scale,
        ),
        1000,
    )
    s = source.standardisation()
    moments = estimate_moments(source, MomentRequest(s, 4))
    for T, expected in zip(moments.tensors, exact_tensors(net), strict=True):
        np.testing.assert_allclose(T, expected, rtol=0, atol=1e-13)  # rounding of numbers near 1
    assert moments.samples is None and set(moments.errors) == {0.0}


def test_the_standardisation_is_the_identity_and_its_regression_exact() -> None:
    net = special_network(1).replace(linear=np.ones(6))
    source = pn.PopulationSource(net, 20_000, rng=0)
    s = source.standardisation()
    T = exact_tensors(net)
    np.testing.assert_array_equal(s.whiten, np.eye(6))
    np.testing.assert_array_equal(s.mean, np.zeros(6))
    np.testing.assert_allclose(s.linear, T[1], rtol=0, atol=1e-14)
    assert s.label_mean == pytest.approx(float(T[0]), abs=1e-14) and s.samples is None
    # The spread of 10,000 labels, which are near Gaussian, has a relative error of 0.7%.
    labels = pn.sample(net, 200_000, rng=1)[1]
    assert s.label_spread == pytest.approx(labels.std(), rel=0.05)


def test_samples_of_the_population_have_its_moments() -> None:
    """Two routes: the closed form, and the same source's own rows summed as samples."""
    net = pn.random_network(3, 4, rng=2).replace(output_bias=0.5)
    source = pn.PopulationSource(net, 100_000, rng=3)
    request = MomentRequest(source.standardisation(), 4)
    exact, sampled = estimate_moments(source, request), sampled_moments(source, request)
    for k in (2, 3, 4):
        off = np.sqrt(np.mean((sampled.tensors[k] - exact.tensors[k]) ** 2))
        # The root mean square error against its prediction: over 50 seeds 0.44 to 1.44.
        assert 0.3 < off / sampled.errors[k] < 2.2


def test_rows_and_draws_are_samples_of_the_network() -> None:
    net = special_network(3)
    source = pn.PopulationSource(net, 500, rng=0)
    drawn = source.draw(300, np.random.default_rng(0))
    for X, y in (source.rows(0, 500), (drawn.X, drawn.y)):
        np.testing.assert_allclose(y, net(X), rtol=0, atol=1e-13)
    assert source.size == 500 and source.features == 6 and source.queries == 800


def test_units_of_any_norm_for_an_activation_without_scale() -> None:
    net = pn.Network([[2.0]], [0.3], activation="sigmoid")
    source = pn.PopulationSource(net, 100)
    tensors = estimate_moments(source, MomentRequest(identity_standardisation(1), 2)).tensors
    for k, T in enumerate(tensors):
        expected = quadrature_coefficient(lambda g: special.expit(2 * g + 0.3), k)
        assert T.item() == pytest.approx(expected, abs=1e-10)
