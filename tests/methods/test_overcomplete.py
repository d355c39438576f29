"""More units than features: the paper's algorithm on populations, the search on samples."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.methods.applicability import normalised_rows, smallest_singular_value
from provenet.methods.stages.moment_units import smallest_order
from provenet.moments.symmetric import count, powers

ROOTS = [0.0, 1.0, -1.0, np.sqrt(3), -np.sqrt(3)]
"""Of He_1, He_2 and He_3: biases at which some moments do not see a unit."""


def special_network(units: int, features: int, seed: int) -> pn.Network:
    """Random, with biases at the roots of Hermite polynomials among them."""
    net = pn.random_network(units, features, rng=seed)
    b = net.biases.copy()
    b[: len(ROOTS)] = ROOTS[:units]
    return net.replace(biases=b)


@pytest.mark.parametrize(
    "features, units, order",
    [(6, 15, 2), (4, 14, 3), (5, 4, 1), (3, 5, 2), (8, 30, 2), (5, 5, 1), (4, 10, 2), (3, 10, 3)],
)
def test_a_population_is_recovered_by_moments_alone(features: int, units: int, order: int) -> None:
    """The last three fill the room that Theorem 3.2 gives the order."""
    net = special_network(units, features, seed=units)
    source = pn.PopulationSource(net, 4000, rng=0)
    result = pn.recover(
        source, units=units, method="overcomplete", order=order, refine=False, rng=1
    )
    assert result.network is not None
    # rounding, amplified by the condition of the powers of the weights
    assert pn.parameter_error(result.network, net) < 1e-9


@pytest.mark.parametrize("features, units, samples", [(8, 12, 2000), (4, 10, 1500)])
def test_samples_are_recovered_exactly(features: int, units: int, samples: int) -> None:
    net = pn.random_network(units, features, rng=5)
    X = np.random.default_rng(6).standard_normal((samples, features))
    result = pn.recover(X, net(X), method="overcomplete", rng=7)
    assert result.status == "exact" and result.network is not None
    assert pn.parameter_error(result.network, net) < 1e-9


def test_both_networks_of_an_ambiguous_pair_are_named() -> None:
    """Claim 4.8: dependent weights, two networks, one function."""
    first, second = pn.datasets.sign_ambiguous_network(6, 3, rng=1)
    X = np.random.default_rng(2).standard_normal((1500, 3))
    np.testing.assert_allclose(first(X), second(X), atol=1e-12)
    assert pn.parameter_error(first, second) > 0.1
    result = pn.recover(X, first(X), method="overcomplete", rng=3)
    assert result.network is not None and len(result.ambiguities) == 1
    assert min(pn.parameter_error(result.network, net) for net in (first, second)) < 1e-8
    assert "opposite sign" in result.ambiguities[0]


def test_the_papers_road_on_samples_is_rough_and_says_so() -> None:
    net = pn.random_network(6, 4, bias_scale=0.5, rng=3)
    X = np.random.default_rng(0).standard_normal((400_000, 4))
    result = pn.recover(
        X, net(X), units=6, method="overcomplete", order=2, faithful=True, refine=False, rng=1
    )
    assert not result.success and "not refined" in result.message


def test_the_order_that_has_room() -> None:
    """Theorem 3.2's `binomial(d + l - 1, l)`, without Corollary 3.3's factor 0.99."""
    assert smallest_order(6, 6) == 1 and smallest_order(6, 7) == 2
    assert smallest_order(6, 21) == 2 and smallest_order(6, 22) == 3
    assert smallest_order(4, 10) == 2 and smallest_order(4, 11) == 3
    assert smallest_order(1, 9) == 1


def test_order_1_is_algorithm_6_of_biased_relu() -> None:
    """Two routes: moments by distinct entries and dense ones; as many units as features."""
    net = special_network(5, 5, seed=1)
    source = pn.PopulationSource(net, 4000, rng=0)
    roads = ({"method": "overcomplete", "order": 1}, {"method": "biased-relu"})
    found = [
        pn.recover(source, units=5, faithful=True, refine=False, rng=1, **road).network  # type: ignore[arg-type]
        for road in roads
    ]
    assert found[0] is not None and found[1] is not None
    assert pn.parameter_error(*found) < 1e-9  # rounding, amplified by the condition of the weights


def of_one_direction(units: int, features: int, tau: float, seed: int) -> pn.Network:
    """The hardest weights, all of one direction, and `N(0, tau^2 / features)` on each of them."""
    net = pn.random_network(units, features, rng=seed)
    noise = np.random.default_rng(seed).standard_normal(net.weights.shape) / np.sqrt(features)
    W = normalised_rows(net.weights[0] + tau * noise)
    return net.replace(weights=W, biases=np.linspace(-0.8, 0.8, units))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_perturbation_gives_the_powers_the_singular_value_of_the_corollary(order: int) -> None:
    """Corollary 3.3: s_min in proportion to tau^l with 0.99 of the room taken.

    Up to a factor of `1 + O(tau)`: over 50 seeds the slope of a decade below 0.01 was off by 0.006,
    0.03 and 0.05 at most.
    """
    units = int(0.99 * count(4, order))
    for seed in range(3):
        nets = [of_one_direction(units, 4, tau, seed) for tau in (1e-3, 1e-2)]
        low, high = (smallest_singular_value(powers(net.weights, order)) for net in nets)
        assert np.log10(high / low) == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_perturbed_network_is_recovered_from_its_population(order: int) -> None:
    """Rounding, amplified as s_min falls: over 20 seeds 4e-13 (order 1) and 3e-10 (2) at most.

    Of order 3 two of 20 seeds have an s_min too small for rounding; the others reach 4e-7.
    """
    units = int(0.99 * count(4, order))
    net = of_one_direction(units, 4, 0.3, seed=0)
    with pytest.raises(pn.InvalidInput, match="parallel"):
        recovered_by(of_one_direction(units, 4, 0.0, seed=0), order)
    assert pn.parameter_error(recovered_by(net, order), net) < 1e-6


def recovered_by(net: pn.Network, order: int) -> pn.Network:
    source = pn.PopulationSource(net, 2000, rng=0)
    result = pn.recover(
        source, units=net.units, method="overcomplete", order=order, faithful=True, refine=False
    )
    assert result.network is not None
    return result.network


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"units": 30, "order": 2}, ("room for 10 units", "order=4")),
        ({"order": 0}, ("order", "from 1 on")),
        ({"order": 40}, ("GB", "lower order=")),
    ],
)
def test_orders_that_do_not_serve(options: dict[str, int], words: tuple[str, ...]) -> None:
    X = np.random.default_rng(0).standard_normal((300, 4))
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(X, X[:, 0], method="overcomplete", faithful=True, **options)  # type: ignore[arg-type]
    is_a_sentence(error, *words)
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(X, X[:, 0], method="biased-relu", order=2)
    is_a_sentence(error, "overcomplete")


def test_parallel_units_are_named_and_the_budget_is_kept() -> None:
    net = pn.random_network(4, 3, rng=0)
    W = net.weights.copy()
    W[2] = -W[0]
    source = pn.PopulationSource(net.replace(weights=W), 1000, rng=0)
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(source, method="overcomplete", order=2)
    is_a_sentence(error, "parallel", "expand-prune")
    X = np.random.default_rng(0).standard_normal((20_000, 3))
    late = pn.recover(X, net(X), method="overcomplete", faithful=True, budget=1e-6)
    assert late.status == "failed" and "budget" in late.message


def test_auto_leaves_the_moments_out_where_units_exceed_features() -> None:
    net = pn.random_network(12, 8, rng=8)
    X = np.random.default_rng(9).standard_normal((2000, 8))
    result = pn.recover(X, net(X), units=12, rng=10)
    assert result.status == "exact" and result.method == "expand-prune"
    assert "moments" not in result.timings
