"""Samples kept by their labels."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.data.sources import BiasedSource, biased
from provenet.moments.estimation import estimate_moments
from provenet.moments.population import population_moments
from provenet.moments.sums import MomentRequest


def positive_network() -> pn.Network:
    return pn.Network(np.eye(3)[:2], [-1.0, -1.5], [1.0, 2.0], activation="sigmoid")


def test_moments_are_those_of_the_labels_over_their_mean() -> None:
    network = positive_network()
    population = pn.PopulationSource(network, rng=0)
    X = np.random.default_rng(1).standard_normal((400_000, 3))
    source = biased(pn.ArraySource(X, network(X)), rng=2)
    assert 1000 < source.size < len(X)
    found = estimate_moments(source, MomentRequest(source.standardisation(), 4))
    exact = population_moments(network, MomentRequest(population.standardisation(), 4))
    mean = exact.tensors[0]
    for k in (1, 2, 3, 4):
        error = np.abs(found.tensors[k] - exact.tensors[k] / mean).max()
        scale = np.sqrt(24) / np.sqrt(source.size)  # an entry of He_4 has variance up to 24
        assert error < 6 * scale, k


def test_labels_take_most_of_the_noise_off_the_higher_moments() -> None:
    """At 5e4 samples T_4 errs by 0.19 to 0.32 of what plain means do over 50 seeds, T_3 by more."""
    network = positive_network()
    exact = population_moments(
        network, MomentRequest(pn.PopulationSource(network).standardisation(), 4)
    )
    X = np.random.default_rng(6).standard_normal((200_000, 3))
    source = biased(pn.ArraySource(X, network(X)), rng=7)
    request = MomentRequest(source.standardisation(), 4)
    found = estimate_moments(source, request)
    plain = estimate_moments(BiasedSource(source.X), request)
    for k, share in ((2, 0.9), (3, 0.6), (4, 0.5)):
        truth = exact.tensors[k] / exact.tensors[0]
        errors = [np.sqrt(np.mean((m.tensors[k] - truth) ** 2)) for m in (found, plain)]
        assert errors[0] < share * errors[1], k
        assert found.errors[k] < share * plain.errors[k]
        assert errors[0] < 3 * found.errors[k]


def test_labels_that_vanish_somewhere_leave_plain_means() -> None:
    """ReLUs are silent on half of the space, where one over the label does not reach."""
    network = pn.Network(np.eye(3)[:2], [-1.0, -1.5], [1.0, 2.0])
    X = np.random.default_rng(8).standard_normal((100_000, 3))
    source = biased(pn.ArraySource(X, network(X)), rng=9)
    request = MomentRequest(source.standardisation(), 4)
    found, plain = (estimate_moments(s, request) for s in (source, BiasedSource(source.X)))
    for k in range(5):
        np.testing.assert_array_equal(found.tensors[k], plain.tensors[k])


def test_a_basis_projects_every_order() -> None:
    X = np.random.default_rng(3).standard_normal((500, 4)) + 0.3
    source = BiasedSource(X)
    basis = np.linalg.qr(np.random.default_rng(4).standard_normal((4, 4)))[0][:2]
    s = source.standardisation()
    whole, part = (estimate_moments(source, MomentRequest(s, 3, b)) for b in (None, basis))
    np.testing.assert_allclose(part.tensors[1], basis @ whole.tensors[1], atol=1e-12)
    projected = np.einsum("abc,ia,jb,kc->ijk", whole.tensors[3], basis, basis, basis)
    np.testing.assert_allclose(part.tensors[3], projected, atol=1e-10)


def test_negative_labels_and_bad_inputs_are_refused() -> None:
    X = np.random.default_rng(5).standard_normal((50, 2))
    with pytest.raises(pn.InvalidInput) as error:
        biased(pn.ArraySource(X, X[:, 0]))
    is_a_sentence(error)
    with pytest.raises(pn.InvalidInput) as error:
        BiasedSource(np.array([[1.0, np.nan]]))
    is_a_sentence(error)
    for y in (np.zeros(50), X[:, 0], np.ones(49), np.full(50, np.inf), np.ones((50, 2))):
        with pytest.raises(pn.InvalidInput) as error:
            BiasedSource(X, y)
        is_a_sentence(error, "above 0")
