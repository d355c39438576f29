"""The population risk: closed form = quadrature = series = Monte Carlo (ATV21, Proposition B.1)."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

import provenet as pn
from helpers import exact_tensors, is_a_sentence
from provenet.networks.risk import (
    _absolute_products,
    population_risk,
    truncation_bound,
)

F = pn.random_network(6, 4, rng=1).replace(output_bias=0.3, linear=[0.5, 0.0, -1.0, 0.2])
G = pn.random_network(5, 4, rng=2).replace(output_bias=-0.2)


def rescaled(network: pn.Network, seed: int = 0) -> pn.Network:
    """The same function: other norms of the weights, other order of the units."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.1, 10, network.units)
    order = rng.permutation(network.units)
    return network.replace(
        weights=(network.weights * s[:, None])[order],
        biases=(network.biases * s)[order],
        output_weights=(network.output_weights / s)[..., order],
    )


def by_quadrature(h: float, k: float, rho: float) -> float:
    """`E |X + h| |Y + k|`: Y given X in closed form, then X by adaptive quadrature."""
    r = math.sqrt((1 - rho) * (1 + rho))

    def given_x(x: float) -> float:
        m = rho * x + k
        inner = 2 * r * stats.norm.pdf(m / r) + m * special.erf(m / r / math.sqrt(2))
        return float(abs(x + h) * inner * stats.norm.pdf(x))

    near = [-k / rho + shift for shift in (-20 * r, 0.0, 20 * r)] if rho else []
    edges = [-12.0, *sorted(p for p in (-h, *near) if -12 < p < 12), 12.0]
    return sum(
        integrate.quad(given_x, a, b, epsabs=1e-14, epsrel=1e-13, limit=400)[0]
        for a, b in pairwise(edges)
    )


@pytest.mark.parametrize("rho", [0.0, 0.3, -0.9, 0.999999, -1 + 1e-9])
@pytest.mark.parametrize(("h", "k"), [(0, 0), (0, 1.3), (-0.7, 0), (0.4, 0.4001), (-3, 2), (1, 1)])
def test_products_of_absolute_values(h: float, k: float, rho: float) -> None:
    U = np.array([[1.0, 0.0], [rho, math.sqrt((1 - rho) * (1 + rho))]])
    K = _absolute_products(U, np.array([h, k], dtype=float))
    # Values up to 10, and the two routes round differently.
    assert K[0, 1] == pytest.approx(by_quadrature(h, k, rho), abs=1e-12)
    np.testing.assert_allclose(np.diag(K), [1 + h * h, 1 + k * k], rtol=1e-14)


@pytest.mark.parametrize("h", [0.0, 0.8, -2.0, 30.0])
def test_parallel_and_opposite_units(h: float) -> None:
    """`E z^2 = 1 + h^2`, whichever way the two look."""
    K = _absolute_products(np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), np.array([h, h, -h]))
    np.testing.assert_allclose(K, 1 + h * h, rtol=1e-14)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.3)", "abs"])
def test_risk_is_what_samples_show(activation: str) -> None:
    f, g = F.replace(activation=activation), rescaled(G)
    X = np.random.default_rng(3).standard_normal((200_000, 4))
    squares = (f(X) - g(X)) ** 2
    error = squares.std() / math.sqrt(len(X))
    assert abs(population_risk(f, g) - squares.mean()) < 5 * error
    assert error < 0.01 * squares.mean()


def test_risk_of_several_outputs() -> None:
    f, g = (pn.random_network(4, 3, outputs=2, rng=seed) for seed in (0, 1))
    f = f.replace(output_bias=[0.5, -1.0], linear=np.ones((2, 3)))
    alone = sum(population_risk(*(_output(network, q) for network in (f, g))) for q in range(2))
    assert population_risk(f, g) == pytest.approx(alone, rel=1e-13)


def _output(network: pn.Network, q: int) -> pn.Network:
    return network.replace(
        output_weights=network.output_weights[q],
        output_bias=np.broadcast_to(network.output_bias, 2)[q],
        linear=None if network.linear is None else network.linear[q],
    )


def test_orders_are_norms_of_moment_differences() -> None:
    """No tensor is built, and these are the tensors."""
    ours, theirs = exact_tensors(F, 6), exact_tensors(G, 6)
    total = 0.0
    for k in range(7):
        total += float(np.sum((ours[k] - theirs[k]) ** 2)) / math.factorial(k)
        assert population_risk(F, G, order=k) == pytest.approx(total, rel=1e-12)


def test_series_rises_to_the_closed_form_within_its_bound() -> None:
    exact = population_risk(F, G)
    values = [population_risk(F, G, order) for order in (0, 1, 2, 5, 20, 80, 150)]
    assert np.all(np.diff(values) > 0)
    for value, order in zip(values, (0, 1, 2, 5, 20, 80, 150), strict=True):
        assert 0 < exact - value <= truncation_bound(F, G, order)
    # c_k^2 / k! of a ReLU falls as k^(-5/2): what is left as order^(-3/2), here 3e-4 of 11.6.
    assert exact - values[-1] < 1e-3


@pytest.mark.parametrize("activation", ["sigmoid", "relu2", "exp", "step"])
def test_series_for_other_units(activation: str) -> None:
    f = pn.random_network(3, 3, activation=activation, rng=0)
    g = pn.random_network(2, 3, activation="relu", rng=1)
    X = np.random.default_rng(4).standard_normal((200_000, 3))
    squares = (f(X) - g(X)) ** 2
    order = 60
    low = population_risk(f, g, order)
    margin = 5 * squares.std() / math.sqrt(len(X))
    assert low - margin < squares.mean() < low + truncation_bound(f, g, order) + margin
    with pytest.raises(pn.InvalidInput) as error:
        population_risk(f, g)
    is_a_sentence(error, "order")


def test_the_bound_holds_for_other_units() -> None:
    """Exponential units: `c_k^2 / k!` sums to `exp(2b + 2)`, so the rest is known."""
    f = pn.Network([[1.0, 0.0]], [0.3], activation="exp")
    g = f.replace(output_weights=[0.0])
    for order in (0, 2, 6):
        rest = math.exp(0.6 + 1) * (math.e - sum(1 / math.factorial(k) for k in range(order + 1)))
        # Mean squares by quadrature over 12 deviations, where exp(2x) has lost nothing yet.
        assert truncation_bound(f, g, order) == pytest.approx(rest, rel=1e-9)


def test_the_bound_counts_a_linear_term() -> None:
    plain = pn.Network(np.eye(2), output_weights=[0.0, 0.0])
    f = plain.replace(linear=[3.0, 4.0])
    assert population_risk(f, plain) == pytest.approx(25.0)
    assert population_risk(f, plain, order=0) == 0
    assert truncation_bound(f, plain, 0) == pytest.approx(25.0)
    assert truncation_bound(f, plain, 1) == 0


@pytest.mark.parametrize("seed", range(3))
def test_no_risk_for_the_same_network_in_another_form(seed: int) -> None:
    # Rounding of terms of the size of E f^2, below 20.
    assert population_risk(F, rescaled(F, seed)) < 1e-13
    assert population_risk(F, rescaled(F, seed), order=30) < 1e-13
    flipped = pn.Network(
        -F.weights,
        -F.biases,
        F.output_weights,
        F.output_bias + F.output_weights @ F.biases,
        linear=F.linear + F.output_weights @ F.weights,
    )
    assert population_risk(F, flipped) < 1e-13


def test_bad_input() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        population_risk(F, pn.random_network(2, 3, rng=0))
    is_a_sentence(error, "same sizes")
    for order in (-1, 151, 2.5, True):
        with pytest.raises(pn.InvalidInput) as error:
            population_risk(F, G, order)  # type: ignore[arg-type]
        is_a_sentence(error, "from 0 to 150")
