"""The moments of a known network: the sum over its units, and its projections."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import (
    assert_symmetric,
    exact_tensors,
    identity_standardisation,
    special_network,
)
from provenet.moments.population import population_moments, symmetric_tensor
from provenet.moments.sums import (
    MomentRequest,
)


@pytest.mark.parametrize("k", range(5))
def test_population_moments_are_the_sum_over_units(k: int) -> None:
    """ATV21, Lemma 3.5, on a network with units to rescale, a linear term and a constant."""
    net = special_network(1).replace(linear=np.arange(6.0))
    canonical = net.replace(weights=2 * net.weights, biases=2 * net.biases).canonical()
    tensor = exact_tensors(canonical, 4)[k]
    expected = np.zeros((6,) * k)
    for w, b, a in zip(net.weights, net.biases, 2 * net.output_weights, strict=True):
        power = np.ones(())
        for _ in range(k):
            power = np.multiply.outer(power, w)
        expected += a * net.activation.hermite(k, b) * power
    expected += {0: 0.3, 1: np.arange(6.0)}.get(k, 0.0)
    np.testing.assert_allclose(tensor, expected, rtol=0, atol=1e-13)  # rounding of numbers near 5


def test_population_inside_a_subspace_is_the_projection() -> None:
    net = special_network(2).replace(linear=np.ones(6)).canonical()
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))[0].T
    request = MomentRequest(identity_standardisation(6), 4, basis)
    inside, full = population_moments(net, request), exact_tensors(net)
    for T, whole in zip(inside.tensors, full, strict=True):
        projected = whole
        for axis in range(whole.ndim):
            projected = np.moveaxis(np.tensordot(basis, projected, axes=(1, axis)), 0, axis)
        np.testing.assert_allclose(T, projected, rtol=0, atol=1e-13)
    assert inside.errors == (0.0,) * 5 and inside.samples is None


@pytest.mark.parametrize("k", range(1, 7))
def test_symmetric_tensor(k: int) -> None:
    rng = np.random.default_rng(k)
    coefficients, V = rng.standard_normal(3), rng.standard_normal((3, 2))
    T = symmetric_tensor(coefficients, V, k)
    assert_symmetric(T)
    x = rng.standard_normal(2)
    contracted = T
    for _ in range(k):
        contracted = contracted @ x
    assert contracted == pytest.approx(coefficients @ (V @ x) ** k, rel=1e-11)
