"""What lies above a known layer."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neural_network import MLPRegressor

import provenet as pn
from helpers import is_a_sentence
from provenet.datasets import conditioned_rows, random_layered
from provenet.lowest_layer.top import sparse_polynomial
from provenet.networks.layered import LayeredNetwork, lowest_layer, union, unit_values


def samples(network: LayeredNetwork, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng([seed, 2]).standard_normal((n, network.features))
    return X, network(X)


def test_a_polynomial_top_is_found_exactly() -> None:
    network = random_layered(4, 5, threshold=1.0, rng=0)
    X, y = samples(network, 30_000, 0)
    learned = pn.learn_top(X, y, network.layer, degree=2, rng=1)
    assert learned.r2 == pytest.approx(1.0, abs=1e-12)
    assert set(learned.network.top.terms) == set(network.top.terms)
    for term, c in network.top.terms.items():
        assert learned.network.top.terms[term] == pytest.approx(c, abs=1e-9)
    fresh, labels = samples(network, 1000, 7)
    np.testing.assert_allclose(learned(fresh), labels, atol=1e-9)


def test_terms_that_are_not_there_are_left_out_under_noise() -> None:
    network = random_layered(4, 5, threshold=0.5, products=0.0, rng=2)
    X, y = samples(network, 40_000, 2)
    noisy = y + 0.05 * np.random.default_rng(3).standard_normal(len(y))
    learned = pn.learn_top(X, noisy, network.layer, degree=2, rng=4)
    linear = {(i,) for i in range(4)}
    assert linear <= set(learned.network.top.terms)
    # Six pairs, four squares and the constant at four standard errors: one by chance in 1500.
    assert len(learned.network.top.terms) <= 5


def test_the_union_is_a_polynomial_of_steps() -> None:
    layer = lowest_layer(conditioned_rows(3, 4, 1.0, np.random.default_rng(5)), 0.7, "step")
    network = LayeredNetwork(layer, union)
    X, y = samples(network, 20_000, 5)
    learned = pn.learn_top(X, y, layer, degree=3, rng=6)
    assert learned.r2 == pytest.approx(1.0, abs=1e-12)
    assert learned.network.top.terms[(0, 1, 2)] == pytest.approx(1.0, abs=1e-9)
    assert learned.network.top.terms[(0, 1)] == pytest.approx(-1.0, abs=1e-9)


def test_any_regressor_serves_as_a_top() -> None:
    """A network of three layers: its lowest layer known, the rest learned."""
    rng = np.random.default_rng(8)
    layer = lowest_layer(conditioned_rows(4, 6, 2.0, rng), 1.0)
    upper = pn.random_network(3, 4, rng=9)
    network = LayeredNetwork(layer, upper)
    X, y = samples(network, 20_000, 8)
    regressor = MLPRegressor(
        hidden_layer_sizes=(32,), max_iter=60, random_state=0, early_stopping=True
    )
    learned = pn.learn_top(X, y, layer, top=regressor, rng=10)
    assert learned.r2 >= 0.99


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"top": "spline"}, "polynomial"),
        ({"top": 3}, "fit"),
        ({"X": np.ones((10, 3))}, "features"),
        ({"y": np.ones((10, 2))}, "output"),
    ],
)
def test_bad_input_gets_a_sentence(change: dict[str, object], word: str) -> None:
    layer = lowest_layer(np.eye(2), 1.0)
    rng = np.random.default_rng(0)
    values = {"X": rng.standard_normal((10, 2)), "y": rng.random(10), "top": "polynomial"}
    with pytest.raises(pn.InvalidInput) as error:
        pn.learn_top(layer=layer, **{**values, **change})
    is_a_sentence(error, word)


def test_too_many_monomials_are_refused() -> None:
    H = np.abs(np.random.default_rng(0).standard_normal((100, 30)))
    with pytest.raises(pn.InvalidInput) as error:
        sparse_polynomial(H, H.sum(axis=1), 3)
    is_a_sentence(error)


def test_unit_values_feed_the_regressor() -> None:
    seen = {}

    class Recorder:
        def fit(self, H: np.ndarray, y: np.ndarray) -> Recorder:
            seen["H"] = H
            return self

        def predict(self, H: np.ndarray) -> np.ndarray:
            return np.zeros(len(H))

    layer = lowest_layer(np.eye(2), 0.0)
    X = np.random.default_rng(1).standard_normal((50, 2))
    learned = pn.learn_top(X, X[:, 0], layer, top=Recorder(), rng=0)
    values = {tuple(row) for row in unit_values(layer, X).round(12)}
    assert all(tuple(row) in values for row in seen["H"].round(12))
    assert learned.r2 <= 0  # predicts nothing
