"""The moment route: ATV21 as it stands on a population, and the default road."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.methods.stages.moment_units import algorithm_4
from provenet.moments.hermite import MomentRequest, estimate_moments


def network_with_special_biases(units, features, seed):
    """Biases exactly 0 (kills T_3) and exactly +-1 (kills T_4) among ordinary ones."""
    network = pn.random_network(units, features, bias_scale=1.5, rng=seed)
    biases = network.biases.copy()
    biases[:3] = 0.0, 1.0, -1.0
    return network.replace(biases=biases, output_bias=-0.4)


@pytest.mark.parametrize(("units", "features"), [(3, 3), (4, 6), (8, 8), (10, 20)])
@pytest.mark.parametrize("seed", range(3))
def test_faithful_road_is_exact_on_a_population(units, features, seed):
    truth = network_with_special_biases(units, features, seed)
    result = pn.recover(
        pn.PopulationSource(truth, rng=0), method="biased-relu", faithful=True, refine=False, rng=0
    )
    assert pn.parameter_error(result.network, truth) < 1e-8


def test_each_tensor_alone_misses_the_units_it_cannot_see():
    truth = network_with_special_biases(5, 7, seed=0)
    source = pn.PopulationSource(truth, rng=0)
    moments = estimate_moments(source, MomentRequest(source.standardisation(), order=4))
    _, evidence = algorithm_4(moments, None, np.random.default_rng(0))
    assert "T_3 has rank 4 and T_4 rank 3" in evidence
    assert "5 directions" in evidence


def test_default_road_on_a_population_needs_no_samples_for_its_moments():
    truth = network_with_special_biases(5, 7, seed=1)
    result = pn.recover(
        pn.PopulationSource(truth, rng=0), method="biased-relu", refine=False, rng=0
    )
    # L-BFGS stops where the risk no longer changes in double precision: half of the digits.
    assert pn.parameter_error(result.network, truth) < 1e-5


# Orthonormal weights, every coefficient of T_3 and T_4 far from zero: a benign network, so that
# what is seen is sampling error and not conditioning.
BENIGN = pn.Network(np.eye(5)[:3], [0.5, -0.6, 0.4], [1.0, -1.0, 1.2], 1.0)


def faithful(n, seed, **options):
    X, y = pn.sample(BENIGN, n, rng=seed)
    return pn.recover(X, y, method="biased-relu", faithful=True, rng=0, **options)


def test_faithful_road_on_samples_is_near_and_the_refinement_makes_it_exact():
    rough = faithful(200_000, seed=1, refine=False)
    assert rough.network.units == 3
    # The sampling error of T_4 at this size is a few percent a term.
    assert 1e-3 < pn.parameter_error(rough.network, BENIGN) < 0.4
    assert not rough.success
    result = faithful(200_000, seed=1, refine=True)
    assert result.status == "exact"
    assert pn.parameter_error(result.network, BENIGN) < 1e-8


def test_faithful_error_falls_with_the_root_of_the_samples():
    few, many = (
        np.median(
            [
                pn.parameter_error(faithful(n, seed, refine=False).network, BENIGN)
                for seed in range(9)
            ]
        )
        for n in (20_000, 320_000)
    )
    # Sixteen times the samples, a quarter of the error; medians of nine differ by less than 1.7.
    assert few / 7 < many < few / 2.3


def test_nothing_above_the_noise_is_said_so():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 5)), rng.standard_normal(400)
    result = pn.recover(X, y, method="biased-relu", rng=0)
    assert result.status == "failed"
    assert result.network is None
    assert "expand-prune" in result.message


def test_a_paper_s_answer_is_polished_and_not_searched_on_from(monkeypatch):
    """With noise the default goes on to rivals; the paper's road with refine=True does not."""

    def searched(*_):
        raise AssertionError("a search of ours")

    monkeypatch.setattr("provenet.certify.rivals.improve", searched)
    X, y = pn.sample(BENIGN, 50_000, noise=0.1, rng=1)
    options = {"units": 3, "method": "biased-relu", "refine": True, "rng": 0}
    result = pn.recover(X, y, faithful=True, **options)
    # p parameters cost noise sqrt(p / n) = 0.002 in all, and each of the four a unit some of that.
    assert pn.parameter_error(result.network, BENIGN) < 0.02
    assert "refine" in result.timings and "search" not in result.timings
    with pytest.raises(AssertionError, match="a search of ours"):
        pn.recover(X, y, **options)
