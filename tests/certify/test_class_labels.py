"""Networks behind class labels: found within their errors, and never a success that is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import provenet as pn
from provenet.certify.class_checks import polynomial_behind
from provenet.certify.class_labels import class_matrix, informative_labels
from provenet.certify.tolerances import TOLD_APART
from provenet.data.sources import ArraySource
from provenet.data.standardisation import Standardisation
from provenet.fitting.covariance import covariance
from provenet.fitting.least_squares import refine
from provenet.fitting.losses import LOGISTIC, SOFTMAX
from provenet.fitting.model import Parameters
from provenet.networks.canonical import match_units

TRUTH = pn.Network([[0.6, 0.8], [-0.8, 0.6]], [0.2, -0.1], [3.0, -3.0], 0.3, link="logit")


def labelled(network, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, network.features))
    p = network.predict_proba(X)
    drawn = (rng.random((n, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return X, drawn.astype(float) if p.shape[1] == 2 else np.eye(p.shape[1])[drawn]


def as_it_is(features):
    """Inputs that are taken as they come."""
    return Standardisation(
        np.zeros(features), np.eye(features), np.zeros(1), 1.0, np.zeros((1, features)), 1
    )


def recovered(X, y, **options):
    return pn.recover(X, y, **{"link": "logit", "rng": 0, "budget": 1e3, **options})


def test_a_network_is_found_within_its_errors():
    X, y = labelled(TRUTH, 3000, 0)
    result = recovered(X, y)
    assert result.status == "within noise" and result.claim == "network"
    assert result.method == "likelihood" and result.network.link == "logit"
    mine, theirs = match_units(result.network, TRUTH)
    truth, errors = TRUTH.canonical(), result.standard_errors
    # Four standard errors of seven parameters: missed once in two thousand times.
    for name in ("weights", "biases", "output_weights"):
        off = getattr(result.network, name)[mine] - getattr(truth, name)[theirs]
        assert (np.abs(off) <= 4 * getattr(errors, name)[mine]).all()
    assert "log-loss" in str(result)


@pytest.mark.parametrize(
    ("network", "loss"),
    [
        (pn.Network([[1.0, -0.5]], [0.3], [2.5], -0.4, "relu", link="logit"), LOGISTIC),
        (
            pn.Network(
                [[1.2, -0.5]],
                [0.3],
                [[1.5], [0.5], [-2.0]],
                [0.2, 0.1, -0.3],
                "tanh",
                link="softmax",
            ),
            SOFTMAX,
        ),
    ],
    ids=["logit", "softmax"],
)
def test_standard_errors_cover(network, loss):
    """Fits of labels drawn anew: errors over their standard errors are normal."""
    truth, z = network.canonical(), []
    for seed in range(40):
        source = ArraySource(*labelled(truth, 1000, seed))
        fit = refine(
            source, Parameters.of(truth), truth.activation, spread=1.0, iterations=40, loss=loss
        )
        found = fit.parameters.network(truth.activation).replace(link=loss.link).canonical()
        known = covariance(source, found, loss=loss).standard_errors(1.0)
        for name in ("weights", "biases", "output_weights", "output_bias"):
            off = np.asarray(getattr(found, name)) - getattr(truth, name)
            z.append(np.ravel(off / getattr(known, name)))
    z = np.concatenate(z)
    # 200 numbers and more, five or more dependent a fit: 95% within 1.96, up to 5%.
    assert 0.9 <= np.mean(np.abs(z) < 1.96) <= 0.995
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25


def test_labels_without_noise_are_no_success():
    """A network cut at a threshold: the boundary shows, the scale does not."""
    X = np.random.default_rng(1).standard_normal((150, 2))
    result = recovered(X, (TRUTH(X) > 0).astype(float))
    assert result.status == "partial" and result.claim == "predictor"
    assert not next(c for c in result.checks if c.name == "labels overlap").holds
    assert "halfspaces" in result.message
    assert np.abs(result.network(X)).max() < 1e3


def test_labels_that_know_nothing_of_the_inputs():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((400, 2)), (rng.random(400) < 0.3).astype(float)
    result = recovered(X, y)
    assert result.status == "failed" and result.network.units == 0
    assert "Nothing in the labels" in result.message


def test_contrary_labels_of_twins_are_chance():
    X = np.random.default_rng(3).standard_normal((200, 2))
    result = recovered(np.vstack([X, X]), np.repeat([0.0, 1.0], 200))
    assert not result.success


def test_few_labels_and_a_linear_function_are_no_network():
    X, y = labelled(TRUTH, 40, 4)
    assert not recovered(X, y).success
    rng = np.random.default_rng(5)
    X = rng.standard_normal((400, 2))
    result = recovered(X, (rng.random(400) < expit(X[:, 0] - X[:, 1])).astype(float))
    assert result.status == "partial" and "logistic regression" in result.message


def test_a_tree_is_no_network():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((1000, 2))
    likely = np.where(X[:, 0] > 0, X[:, 1] > 0.3, X[:, 1] < -0.5)
    y = (rng.random(1000) < np.where(likely, 0.9, 0.1)).astype(float)
    assert not recovered(X, y).success


@pytest.mark.parametrize("seed", [1, 13])
def test_a_parabola_is_no_network(seed):
    """Two units are as likely as labels tell, and a parabola is likelier still."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((3000, 1))
    p = expit(X[:, 0] ** 2 - 1)
    y = (rng.random(3000) < p).astype(float)
    units = pn.Network([[1.0], [-1.0]], [-0.3, -0.3], [1.7, 1.7], -0.9, link="logit")
    odds = units.predict_proba(X)
    assert polynomial_behind(X, class_matrix(y), odds, units.free_parameters) < -TOLD_APART
    own = np.column_stack([1 - p, p])
    assert abs(polynomial_behind(X, class_matrix(y), own, 3)) < TOLD_APART
    assert polynomial_behind(np.ones((9, 40)), np.eye(2)[[0] * 9], own[:9], 3) == np.inf


def test_a_polynomial_that_tells_all_labels_apart_is_no_warning():
    Z = np.random.default_rng(0).standard_t(1.5, (3000, 4))
    labels = class_matrix((Z[:, 0] > 0).astype(float))
    assert polynomial_behind(Z, labels, np.full((3000, 2), 0.5), 3) < 0


def test_what_labels_tell():
    assert informative_labels(np.full((10, 2), 0.5)) == pytest.approx(10)
    assert informative_labels(np.full((9, 3), 1 / 3)) == pytest.approx(9)
    assert informative_labels(np.eye(3)) == 0
    np.testing.assert_array_equal(class_matrix(np.array([0.0, 1.0])), np.eye(2))


# ---------------------------------------------------------------- the door


def test_a_method_that_serves_no_classes_is_refused():
    X, y = labelled(TRUTH, 50, 7)
    with pytest.raises(pn.InvalidInput, match="'likelihood'"):
        recovered(X, y, method="biased-relu")


def test_labels_that_are_no_classes_are_told_so():
    X, y = labelled(TRUTH, 50, 8)
    result = pn.recover(X, y + 0.5, method="likelihood", link="identity")
    assert result.status == "failed" and "no classes" in result.message
