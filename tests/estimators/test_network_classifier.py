"""`NetworkClassifier`: probabilities, several classes, weights, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_wine, make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import provenet as pn


def classifier(**options):
    return pn.NetworkClassifier(random_state=0, budget=1e3, **options)


def rings(n, seed):
    """Class 1 is likely in a disc: no line tells it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    p = expit(4 * (1.3 - np.linalg.norm(X, axis=1)))
    return X, (rng.random(n) < p).astype(int), p


def test_probabilities_are_calibrated_where_lines_fail():
    X, y, _ = rings(400, 0)
    unseen, labels, p = rings(4000, 1)
    model = classifier(units=6).fit(X, y)
    found = model.predict_proba(unseen)
    best = log_loss(labels, p)
    straight = log_loss(labels, LogisticRegression().fit(X, y).predict_proba(unseen))
    # 400 labels and 20 parameters or so: some 5% above the best, where lines lose 50%.
    assert log_loss(labels, found) < best + 0.25 * (straight - best)
    assert found[:, 1].mean() == pytest.approx(p.mean(), abs=0.05)
    assert model.network_.link == "logit"
    np.testing.assert_array_equal(model.predict(unseen), (found[:, 1] > 0.5).astype(int))


def test_width_and_penalty_are_found():
    X, y = make_circles(120, noise=0.1, factor=0.4, random_state=0)
    model = classifier().fit(X, y)
    assert model.width_fit_.width >= 2 and model.score(X, y) > 0.95
    assert model.width_fit_.error < 0.5 * model.width_fit_.linear_error
    assert "chosen by held-out log-loss" in model.message_


def test_several_classes_with_names():
    X, y = load_wine(return_X_y=True)
    names = np.array(["barolo", "grignolino", "barbera"])[y]
    model = classifier(units=2).fit(X[::2], names[::2])
    np.testing.assert_array_equal(model.classes_, sorted(set(names)))
    assert model.message_.startswith("A network with 2 units, as asked for")
    assert model.fitted_only_ and model.recovery_ is None
    p = model.predict_proba(X[1::2])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert model.network_.link == "softmax" and model.network_.outputs == 3
    # Scores sum to zero, as softmax leaves their sum open.
    np.testing.assert_allclose(model.decision_function(X).sum(axis=1), 0.0, rtol=0, atol=1e-9)
    assert model.score(X[1::2], names[1::2]) > 0.9


def test_class_weight_moves_the_rare_class():
    X, y, _ = rings(300, 2)
    rare = np.flatnonzero(y == 1)[10:]
    X, y = np.delete(X, rare, axis=0), np.delete(y, rare)
    plain = classifier(units=1).fit(X, y).predict_proba(X)[:, 1].mean()
    even = classifier(units=1, class_weight="balanced").fit(X, y).predict_proba(X)[:, 1].mean()
    assert plain == pytest.approx(y.mean(), abs=0.02) and even > 3 * plain


def test_a_weight_of_two_is_a_sample_given_twice():
    X, y, _ = rings(60, 3)
    weights = np.tile([0, 1, 2], 20)
    weighted = classifier(units=1).fit(X, y, sample_weight=weights)
    repeated = classifier(units=1).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-9
    )


def test_weights_of_a_regressor_count():
    """Two lines, and the weight decides which is fitted."""
    x = np.linspace(-1, 1, 40)[:, None]
    X, y = np.vstack([x, x]), np.concatenate([x[:, 0], -x[:, 0]])
    for sign, weights in ((1, (1.0, 1e-3)), (-1, (1e-3, 1.0))):
        model = pn.NetworkRegressor(method="fit", units=1, random_state=0)
        model.fit(X, y, sample_weight=np.repeat(weights, 40))
        assert np.corrcoef(model.predict(x), sign * x[:, 0])[0, 1] > 0.99


@pytest.mark.parametrize(
    ("options", "weights", "named"),
    [
        ({"activation": "auto"}, None, "name one"),
        ({"units": 0}, None, "units"),
        ({}, np.r_[np.ones(10), np.zeros(10)], "two classes"),
    ],
)
def test_what_is_refused(options, weights, named):
    X, y = np.random.default_rng(0).standard_normal((20, 2)), np.repeat([0, 1], 10)
    with pytest.raises(pn.InvalidInput, match=named):
        classifier(**options).fit(X, y, sample_weight=weights)


def test_one_class_is_refused():
    with pytest.raises(pn.InvalidInput, match="one class"):
        classifier().fit(np.eye(4), np.ones(4))


def test_it_goes_through_a_pipeline_and_is_as_good_as_logistic_regression_without_units():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 3))
    y = (rng.random(300) < expit(X[:, 0] - X[:, 1])).astype(int)
    model = make_pipeline(StandardScaler(), classifier()).fit(X, y)
    rival = LogisticRegression().fit(X, y)
    difference = np.abs(model.predict_proba(X) - rival.predict_proba(X)).mean()
    assert difference < 0.05  # half a standard error of a probability from 300 labels, or so
