"""Random networks and samples from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_random_network_is_what_it_says(activation: str) -> None:
    net = pn.random_network(500, 4, bias_scale=1.5, activation=activation, rng=0)
    sizes, norms = np.abs(net.output_weights), np.linalg.norm(net.weights, axis=1)
    # Ranges are filled and signs and directions balanced: five standard errors of a mean of 500.
    assert 0.5 <= sizes.min() < 0.52 and 1.48 < sizes.max() <= 1.5
    assert 1.45 < np.abs(net.biases).max() <= 1.5
    assert abs(np.sign(net.output_weights).mean()) < 5 / np.sqrt(500)
    assert np.abs((net.weights / norms[:, None]).mean(axis=0)).max() < 5 / np.sqrt(500 * 4)
    assert net.output_bias == 0.0 and net.linear is None
    if activation == "relu":
        np.testing.assert_allclose(norms, 1.0, rtol=1e-14)
    else:
        assert 0.5 <= norms.min() < 0.52 and 2.98 < norms.max() <= 3.0


def test_a_deep_random_network_is_what_it_says() -> None:
    net = pn.random_network((500, 400), 4, outputs=300, activation="tanh", rng=0)
    assert isinstance(net, pn.DeepNetwork) and net.activation.name == "tanh"
    assert (net.features, net.widths, net.outputs) == (4, (500, 400), 300)
    for W, b in net.affine_maps:
        norms = np.linalg.norm(W, axis=1)
        assert 0.8 <= norms.min() < 0.82 and 2.48 < norms.max() <= 2.5
        assert np.abs(b).max() <= 0.5 and b.min() < -0.48 and b.max() > 0.48
        assert np.abs(W.mean(axis=0)).max() < 5 * 2.5 / np.sqrt(W.size)
    single = pn.random_network((5,), 3, rng=0)
    assert isinstance(single, pn.DeepNetwork) and (single.widths, single.outputs) == ((5,), None)
    assert not isinstance(pn.random_network(np.int64(5), 3, rng=0), pn.DeepNetwork)


@pytest.mark.parametrize("units", [3, (5, 4)])
@pytest.mark.parametrize("outputs", [None, 2])
def test_the_same_seed_gives_the_same_network_and_samples(units: Any, outputs: int | None) -> None:
    def draw() -> tuple[Any, Any, Any]:
        rng = np.random.default_rng(3)
        net = pn.random_network(units, 4, outputs=outputs, rng=rng)
        return (net, *pn.sample(net, 10, rng=rng))

    (net, X, y), (_, again_X, again_y) = draw(), draw()
    np.testing.assert_array_equal(X, again_X)
    np.testing.assert_array_equal(y, again_y)
    np.testing.assert_array_equal(y, net(X))
    assert y.shape == ((10,) if outputs is None else (10, 2))


def test_noise_and_covariance() -> None:
    net = pn.random_network(3, 3, rng=0)
    C = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.5]])
    n = 40_000
    X, y = pn.sample(net, n, noise=0.25, covariance=C, rng=1)
    # Five standard errors: sqrt((C_ii C_jj + C_ij^2) / n), sqrt(C_ii / n) and 0.25 / sqrt(2 n).
    error = np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / n)
    assert (np.abs(X.T @ X / n - C) < 5 * error).all()
    assert (np.abs(X.mean(axis=0)) < 5 * np.sqrt(np.diag(C) / n)).all()
    assert abs((y - net(X)).std() - 0.25) < 5 * 0.25 / np.sqrt(2 * n)


@pytest.mark.parametrize("units", [0, -1, (), (3, 0)])
def test_sizes_that_make_no_network(units: Any) -> None:
    for sizes, options in (((units, 3), {}), ((3, 0), {}), ((3, 3), {"outputs": 0})):
        with pytest.raises(pn.InvalidInput) as error:
            pn.random_network(*sizes, **options)
        is_a_sentence(error, "at least one unit")


@pytest.mark.parametrize(
    ("n", "options", "word"),
    [
        (0, {}, "at least 1"),
        (5, {"noise": np.nan}, "standard deviation"),
        (5, {"covariance": np.eye(2)}, "3 x 3"),
        (5, {"covariance": np.triu(np.ones((3, 3)))}, "symmetric"),
        (5, {"covariance": np.ones((3, 3))}, "positive definite"),
    ],
)
def test_samples_that_cannot_be_drawn(n: int, options: dict[str, Any], word: str) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.sample(pn.random_network(2, 3, rng=0), n, **options)
    is_a_sentence(error, word)
