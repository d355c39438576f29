"""Sigmoid units from samples that were kept by their labels (GP19, appendix B.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import provenet as pn
from helpers import is_a_sentence
from provenet.certify.result import Recovery
from provenet.common.typing import Array
from provenet.datasets import conditioned_rows
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer

THRESHOLD = 4.0


def sum_of_sigmoids(seed: int) -> LayeredNetwork:
    layer = lowest_layer(
        conditioned_rows(3, 4, 1.0, np.random.default_rng(seed)), THRESHOLD, "sigmoid"
    )
    return LayeredNetwork(layer, Polynomial(3, {(i,): 1.0 for i in range(3)}))


def kept(network: LayeredNetwork, n: int, seed: int) -> tuple[Array, Array]:
    """What B.6's oracle returns, without drawing the many inputs that it throws away.

    `sigmoid(a) < exp(a)`, and standard normal inputs kept by `exp(w.x)` are normal about w.
    """
    rng = np.random.default_rng(seed)
    W = network.layer.weights
    X = rng.standard_normal((2 * n, W.shape[1])) + W[rng.integers(len(W), size=2 * n)]
    y = network(X)
    keep = rng.random(2 * n) * np.exp(X @ W.T - THRESHOLD).sum(axis=1) < y
    assert keep.sum() >= n
    return X[keep][:n], y[keep][:n]


def recovered(source: pn.Source, **options: Any) -> Recovery:
    return pn.recover(
        source,
        units=3,
        method="lowest-layer",
        activation="sigmoid",
        threshold=THRESHOLD,
        rng=18,
        **options,
    )


def degrees_off(result: Recovery, network: LayeredNetwork) -> float:
    assert result.network is not None
    W = result.network.weights
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    cosines = (W @ network.layer.weights.T).max(axis=0)
    return float(np.degrees(np.arccos(np.clip(cosines, -1, 1)).max()))


def test_the_labels_that_kept_them_make_them_exact() -> None:
    """50 of 50 seeds were exact from 5000 samples."""
    network = sum_of_sigmoids(16)
    result = recovered(pn.BiasedSource(*kept(network, 5000, 17)))
    assert result.status == "exact"
    assert degrees_off(result, network) < 1e-5


def test_the_papers_objective_is_within_five_degrees() -> None:
    """At most 3.7 degrees over 50 seeds; plain means were 5 to 80 degrees off at 60,000 samples."""
    network = sum_of_sigmoids(16)
    source = pn.BiasedSource(*kept(network, 150_000, 17))
    result = recovered(source, faithful=True, refine=False)
    assert result.status == "partial"
    assert degrees_off(result, network) < 5


def test_inputs_alone_are_within_five_degrees_and_no_success() -> None:
    """At most 3.6 degrees over 50 seeds."""
    network = sum_of_sigmoids(16)
    result = recovered(pn.BiasedSource(kept(network, 200_000, 17)[0]))
    assert result.status == "partial" and "kept by their labels" in result.message
    assert degrees_off(result, network) < 5


@pytest.mark.parametrize(("samples", "labels"), [(200_000, False), (60_000, True)])
def test_the_errors_stated_for_the_papers_objective(samples: int, labels: bool) -> None:
    """Actual over stated, root mean square over 4 seeds of 3 units: 0.6 to 1.5 in 2000 draws of 30.

    It was 2.4 without labels, where the best of orders 3 and 4 was stated though the objective has
    2 and 4, and 0.12 with them, where plain means were taken for what each sample shares.
    """
    scores: list[float] = []
    for seed in range(4):
        network = sum_of_sigmoids(seed)
        X, y = kept(network, samples, 1000 + seed)
        result = recovered(pn.BiasedSource(X, y if labels else None), faithful=True)
        assert result.network is not None and result.layer is not None
        W = result.network.weights / np.linalg.norm(result.network.weights, axis=1, keepdims=True)
        rows, columns = linear_sum_assignment(-(W @ network.layer.weights.T))
        off = np.linalg.norm(W[rows] - network.layer.weights[columns], axis=1)
        scores.extend(off / result.layer.angle_errors[rows])
    assert 0.55 < np.sqrt(np.mean(np.square(scores))) < 1.6


@pytest.mark.parametrize("method", ["auto", "regression", "even", "halfspaces"])
def test_methods_that_fit_labels_refuse_inputs_alone(method: str) -> None:
    """All labels read 1: a constant would fit them."""
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(pn.BiasedSource(np.ones((50, 3)) * np.arange(50)[:, None]), method=method)
    is_a_sentence(error, "needs the labels")


def test_samples_that_no_label_kept_give_no_success() -> None:
    network = sum_of_sigmoids(3)
    X = np.random.default_rng(4).standard_normal((20_000, 4))
    assert not recovered(pn.BiasedSource(X, network(X)), refine=False).success
