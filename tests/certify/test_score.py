"""The score test: against dense projection, its level under noise of any law, its power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import provenet as pn
from provenet.certify.score import Features, Scores, features_of, score_test
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import refine
from provenet.fitting.losses import SQUARES, Loss, loss_of_classes
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.network import Network

LAWS = ("Gaussian", "heavy", "skewed", "uneven")


def noise_of(law: str, X: Array, rng: np.random.Generator) -> Array:
    """Mean zero at every input, size about one."""
    n = len(X)
    return {
        "Gaussian": rng.standard_normal(n),
        "heavy": rng.standard_t(3, n) / np.sqrt(3),
        "skewed": rng.exponential(1, n) - 1,
        "uneven": rng.standard_normal(n) * np.abs(X[:, 0]),
    }[law]


def scores_of(net: Network, X: Array, y: Array, loss: Loss = SQUARES, seed: int = 0) -> Scores:
    """The score test of the fit from a network."""
    spread = float(np.std(y))
    fit = refine(
        ArraySource(X, y),
        Parameters.of(net),
        net.activation,
        spread=spread,
        tolerance=1e-9,
        loss=loss,
    )
    rng = np.random.default_rng(seed)
    own = fit.parameters.network(net.activation)
    return score_test(
        fit.parameters, net.activation, X, y, features_of(own, X, rng), rng, 0.01, loss=loss
    )


def test_scores_are_those_of_a_dense_projection() -> None:
    """z of one feature by the pseudo-inverse of J, beside the sums over blocks: to 1e-6, for the
    blocks solve normal equations."""
    net = pn.random_network(3, 4, rng=0)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 4))
    y = net(X) + 0.1 * rng.standard_normal(200) + 0.03 * X[:, 0] * X[:, 1]
    fit = refine(ArraySource(X, y), Parameters.of(net), net.activation, spread=1.0, tolerance=1e-12)
    at = Linearisation.of(fit.parameters, net.activation, X)
    ((J, _),) = at.jacobians()
    h = X[:, 0] * X[:, 1]
    projection = J @ np.linalg.pinv(J, rcond=1e-10)
    g, r = h - projection @ h, at.values[:, 0] - y
    t = g * r
    z = t.sum() / np.sqrt(np.sum(t**2 / (1 - np.diag(projection))))
    found = score_test(fit.parameters, net.activation, X, y, Features(["h"], h[:, None]), rng, 0.01)
    assert found.feature == "h" and found.tested == 2  # the feature, and pairs
    assert np.isclose(found.p_value, min(4 * norm.sf(abs(z)), 1.0), rtol=1e-6)


def test_what_lies_in_the_model_is_not_tested() -> None:
    net = pn.random_network(3, 4, rng=0)
    X = np.random.default_rng(1).standard_normal((200, 4))
    y = net(X) + 0.1 * np.random.default_rng(2).standard_normal(200)
    h = net.values(X, 0)
    rng = np.random.default_rng(0)
    found = score_test(Parameters.of(net), net.activation, X, y, Features(["a"] * 3, h), rng, 0.01)
    assert found.tested == 1  # pairs


@pytest.mark.parametrize("law", LAWS)
def test_noise_is_hardly_ever_refused(law: str) -> None:
    """At the level of 1% more than 3 of 30 are refused once in 4,000 runs."""
    refused = 0
    for seed in range(30):
        net, rng = pn.random_network(4, 5, rng=seed), np.random.default_rng(seed)
        X = rng.standard_normal((500, 5))
        refused += scores_of(net, X, net(X) + 0.1 * noise_of(law, X, rng)).p_value < 0.01
    assert refused <= 3


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("what", ["product", "sine"])
def test_departures_are_found(law: str, what: str) -> None:
    """A product is found in 53 to 97% of 30 other seeds, a sine in 93 to 100%, by law."""
    found = 0
    for seed in range(20):
        net, rng = pn.random_network(4, 5, rng=seed), np.random.default_rng(seed)
        X = rng.standard_normal((500, 5))
        off = 0.05 * X[:, 0] * X[:, 1] if what == "product" else 0.06 * np.sin(3 * X[:, 0])
        found += scores_of(net, X, net(X) + off + 0.1 * noise_of(law, X, rng)).p_value < 0.01
    assert found >= (14 if law != "uneven" else 6)


def test_many_weak_units_add_up() -> None:
    """Each of 40 units bends by a fortieth of the residual; all pairs of samples show them."""
    net, rng = pn.random_network(2, 60, rng=0), np.random.default_rng(3)
    X = rng.standard_normal((4000, 60))
    W = rng.standard_normal((40, 60)) / np.sqrt(60)
    weak = np.tanh(3 * X @ W.T + 1.0) @ rng.choice([-1.0, 1.0], 40)
    y = net(X) + weak / weak.std()
    assert scores_of(net, X, y).p_value < 0.01


def test_class_labels_of_a_network_are_noise_about_it() -> None:
    """30 seeds at a level of 1%, as above."""
    refused = 0
    for seed in range(30):
        net, rng = pn.random_network(2, 3, rng=seed), np.random.default_rng(seed)
        X = rng.standard_normal((1000, 3))
        y = (rng.random(1000) < expit(2 * net(X))).astype(float)
        doubled = net.replace(output_weights=2 * net.output_weights)
        refused += scores_of(doubled, X, y, loss_of_classes(y)).p_value < 0.01
    assert refused <= 3
