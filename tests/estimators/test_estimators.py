"""The scikit-learn estimators: its checks, recovery through them, honesty where that fails."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_circles, make_friedman1, make_moons
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import provenet as pn
from helpers import direction_error, is_a_sentence, run_script
from provenet.data.standardisation import LinearSums

# As in test_recover: the project's definition of exact recovery.
EXACT = 1e-8
TRUTH = pn.random_network(4, 6, rng=1).replace(output_bias=0.4)
X, Y = pn.sample(TRUTH, 300, rng=2)


# The search is over before it begins: with more time, how far it gets depends on what else the
# machine does, and some checks compare two fits of noise to the last digits. One unit is given,
# to save time: the choice of a width is tested below.
@parametrize_with_checks(
    [
        pn.NetworkRegressor(units=1, budget=1e-9, random_state=0),
        pn.NetworkClassifier(units=1, random_state=0),
        pn.HalfspaceClassifier(units=1, random_state=0),
    ]
)
def test_all_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_estimators_are_imported_only_when_asked_for():
    run_script(
        "import sys, provenet\n"
        "assert 'provenet.estimators' not in sys.modules\n"
        "provenet.NetworkRegressor, provenet.HalfspaceClassifier\n"
        "assert 'provenet.estimators' in sys.modules\n"
        "assert not hasattr(provenet, 'Regressor')"
    )


# ---------------------------------------------------------------- NetworkRegressor


def regressor(**options):
    return pn.NetworkRegressor(random_state=0, **options)


def as_perceptron(model):
    """scikit-learn's own network with the estimator's weights in place of its own."""
    hidden, features = model.coefs_[0].shape[1], model.n_features_in_
    labels = np.zeros((features, model.n_outputs_)) if model.n_outputs_ > 1 else np.zeros(features)
    rival = MLPRegressor(hidden_layer_sizes=(max(hidden, 1),), max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has no time to converge
        rival.fit(np.eye(features), labels)
    rival.coefs_, rival.intercepts_ = model.coefs_, model.intercepts_
    return rival


def assert_same_as_perceptron(model, inputs):
    expected = as_perceptron(model).predict(inputs).reshape(len(inputs), -1)
    found = model.predict(inputs).reshape(len(inputs), -1)
    # The same sums in another order: rounding only.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * (1 + np.abs(expected).max()))


def test_a_hidden_network_is_recovered_exactly():
    model = regressor().fit(X, Y)
    assert model.recovery_.status == "exact" and not model.fitted_only_
    assert pn.parameter_error(model.network_, TRUTH) < EXACT
    assert model.score(X, Y) > 1 - 1e-12
    assert model.message_ == model.recovery_.message
    assert_same_as_perceptron(model, X)


def test_several_outputs():
    truth = pn.random_network(4, 6, outputs=5, rng=3)
    inputs, labels = pn.sample(truth, 200, rng=4)
    model = regressor().fit(inputs, labels)
    assert pn.parameter_error(model.network_, truth) < EXACT
    assert model.predict(inputs).shape == (200, 5) and model.n_outputs_ == 5
    assert_same_as_perceptron(model, inputs)


def test_constant_and_dependent_columns_get_no_weight():
    wide = np.column_stack([X[:, :3], np.full(len(X), 7.0), X[:, 3:], X[:, 0] - 2 * X[:, 1]])
    model = regressor().fit(wide, Y)
    assert model.recovery_.status == "exact"
    unused = np.setdiff1d(np.arange(8), model.used_features_)
    assert len(unused) == 2 and 3 in unused
    assert np.all(model.network_.weights[:, unused] == 0)
    assert np.abs(model.predict(wide) - Y).max() < EXACT


def test_constant_labels_are_an_output_bias():
    model = regressor().fit(X, np.full(len(X), 2.5))
    assert model.network_.units == 0 and model.network_.linear is None
    assert np.all(model.predict(X) == 2.5)
    assert model.fitted_only_ and "y is constant" in model.message_


def test_linear_labels_are_predicted_although_no_unit_is_recovered():
    labels = X @ np.arange(1.0, 7.0) - 3
    model = regressor().fit(X, labels)
    assert model.recovery_.status == "partial"
    assert np.abs(model.predict(X) - labels).max() < EXACT
    assert_same_as_perceptron(model, X)


def test_real_data_are_fitted_and_it_says_so():
    inputs, labels = load_diabetes(return_X_y=True)
    seen, unseen = slice(0, 300), slice(300, None)
    model = regressor(budget=20).fit(inputs[seen], labels[seen])
    assert model.fitted_only_ and not model.recovery_.success
    assert model.message_.startswith("Nothing was recovered, only fitted: ")
    assert model.recovery_.message.partition(". ")[0] in model.message_
    assert f": {model.network_.units} units, the mean of networks of " in model.message_
    asked = regressor(method="fit", units=2).fit(inputs[seen], labels[seen])
    assert ": 2 units, as asked for." in asked.message_
    plain = LinearRegression().fit(inputs[seen], labels[seen])
    # Linear regression is a candidate; the choice itself, by noisy errors, may cost a little.
    assert (
        model.score(inputs[unseen], labels[unseen])
        > plain.score(inputs[unseen], labels[unseen]) - 0.02
    )
    assert_same_as_perceptron(model, inputs)


def test_curved_data_are_fitted_far_better_than_by_linear_regression():
    inputs, labels = make_friedman1(400, noise=1.0, random_state=0)
    model = regressor(method="fit").fit(inputs[:200], labels[:200])
    plain = LinearRegression().fit(inputs[:200], labels[:200])
    left, linear_left = (1 - m.score(inputs[200:], labels[200:]) for m in (model, plain))
    # Noise alone leaves 0.04 of the variance, linear regression about 0.25.
    assert left < linear_left / 2
    assert 'method="fit"' in model.message_


@pytest.mark.parametrize("activation", ["leaky_relu(0.3)", "sigmoid"])
def test_a_fit_keeps_the_activation(activation):
    labels = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(len(X))
    model = regressor(method="fit", activation=activation, units=3).fit(X, labels)
    assert model.network_.activation.name == activation and model.network_.units == 3
    assert model.score(X, labels) > 0.5


def test_units_can_be_searched_by_cross_validation():
    labels = Y + 0.05 * np.random.default_rng(5).standard_normal(len(Y))
    search = GridSearchCV(regressor(method="fit"), {"units": [1, 4]}, cv=2)
    search.fit(X[:200], labels[:200])
    assert search.best_params_ == {"units": 4}
    assert search.best_estimator_.network_.units == 4


def test_pipeline_clone_and_pickle():
    model = make_pipeline(StandardScaler(), clone(regressor())).fit(3 * X + 1, Y)
    assert model[-1].recovery_.status == "exact"
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again[-1].recovery_.message == model[-1].recovery_.message
    assert repr(again[-1].recovery_.certificate) == repr(model[-1].recovery_.certificate)


def test_pandas_columns_are_kept_by_name():
    pandas = pytest.importorskip("pandas")
    names = [f"x{i}" for i in range(6)]
    frame = pandas.DataFrame(X, columns=names)
    model = regressor().fit(frame, pandas.Series(Y))
    assert list(model.feature_names_in_) == names
    assert np.array_equal(model.predict(frame), model.network_(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "halfspaces"}, ("lowest layer", "HalfspaceClassifier")),
        ({"method": "magic"}, ("unknown", "fit", "expand-prune")),
        ({"units": 0}, ("units",)),
        ({"budget": 0}, ("budget",)),
        ({"reservoir": 0}, ("reservoir",)),
        ({"activation": "mish"}, ("mish",)),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(pn.InvalidInput) as error:
        regressor(**options).fit(X, Y)
    is_a_sentence(error, *words)


def test_values_that_overflow_are_refused():
    for inputs, labels in ((X * 1e80, Y), (X, Y * 1e80)):
        with pytest.raises(pn.InvalidInput) as error:
            regressor().fit(inputs, labels)
        is_a_sentence(error, "rescale")


def test_words_are_refused():
    with pytest.raises(pn.InvalidInput) as error:
        regressor().fit(X, np.where(Y > 0, "high", "low"))
    is_a_sentence(error, "NetworkClassifier")


def test_recovery_within_noise_does_not_claim_too_much():
    labels = Y + 0.01 * np.random.default_rng(7).standard_normal(len(Y))
    model = regressor(units=4).fit(X, labels)
    assert model.recovery_.status == "within noise" and not model.fitted_only_
    assert "not that one made them" in model.message_
    # Errors of parameters are about noise / sqrt(samples a unit) times their condition.
    assert pn.parameter_error(model.network_, TRUTH) < 0.1


# ---------------------------------------------------------------- partial_fit


@pytest.mark.parametrize("cuts", [(100,), (40, 50, 250)])
def test_batches_merge_to_the_moments_of_one_pass(cuts):
    model = regressor(method="fit", units=1)
    shifted = X + 1e4  # so that moments about zero would lose digits
    for inputs, labels in zip(np.split(shifted, cuts), np.split(Y, cuts), strict=True):
        model.partial_fit(inputs, labels)
    stream = model.stream_
    whole = LinearSums.of(shifted, Y, stream.origin, stream.label_origin)
    assert stream.seen == whole.n == 300
    for name in ("x", "xx", "y", "yy", "xy"):
        expected = getattr(whole, name)
        np.testing.assert_allclose(
            getattr(stream.sums, name), expected, rtol=0, atol=1e-10 * np.abs(expected).max()
        )


def test_partial_fit_recovers_and_keeps_an_exact_network():
    model = regressor().partial_fit(X[:200], Y[:200])
    before = model.network_
    model.partial_fit(X[200:], Y[200:])
    assert model.recovery_.status == "exact"
    assert pn.parameter_error(model.network_, TRUTH) < EXACT
    assert model.network_ is before  # the second batch agrees with it
    model.set_params(budget=1e-9).partial_fit(X, Y + 9.0)
    assert model.fitted_only_  # a batch that contradicts it
    assert model.stream_.seen == 600 and model.fit(X, Y).stream_ is None


def test_partial_fit_refuses_other_outputs():
    model = regressor(method="fit", units=1).partial_fit(X, Y)
    with pytest.raises(pn.InvalidInput) as error:
        model.partial_fit(X, np.column_stack([Y, Y]))
    is_a_sentence(error, "same outputs")


# ---------------------------------------------------------------- HalfspaceClassifier


def halfspace_labels(inputs, normals, thresholds, kind):
    inside = inputs @ normals.T > thresholds
    return inside.any(axis=1) if kind == "union" else inside.all(axis=1)


@pytest.mark.parametrize("kind", ["union", "intersection"])
def test_halfspaces_are_recovered(kind):
    rng = np.random.default_rng(6)
    normals = np.linalg.qr(rng.standard_normal((4, 4)))[0][:2]
    thresholds = np.array([1.0, 0.6]) * (1 if kind == "union" else -1)
    inputs = rng.standard_normal((3000, 4))
    fired = halfspace_labels(inputs, normals, thresholds, kind)
    model = pn.HalfspaceClassifier(random_state=0).fit(inputs, np.where(fired, "yes", "no"))
    assert list(model.classes_) == ["no", "yes"]
    assert model.recovery_.success and not model.fitted_only_
    assert model.intersection_ == (kind == "intersection")
    # 3000 labels pin a face down to about 4 / 3000 of the spread a parameter; 0.05 is generous.
    assert direction_error(model.halfspaces_.layer.weights, normals) < 0.05
    fresh = rng.standard_normal((2000, 4))
    truth = halfspace_labels(fresh, normals, thresholds, kind)
    assert np.mean((model.decision_function(fresh) > 0) == truth) > 0.98
    assert np.array_equal(model.predict(fresh) == "yes", model.decision_function(fresh) > 0)
    assert np.array_equal(model.decision_function(fresh) > 0, model.halfspaces_(fresh) > 0.5)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(fresh), model.predict(fresh))
    other = clone(model).set_params(intersection=kind == "union").fit(inputs, fired)
    assert other.fitted_only_ and other.intersection_ == (kind == "union")


@pytest.mark.parametrize("seed", [0, 2])
def test_what_is_recovered_in_part_is_not_called_recovered(seed):
    inputs, labels = make_moons(300, noise=0.2, random_state=seed)
    model = pn.HalfspaceClassifier(random_state=0, budget=3.0).fit(inputs, labels)
    assert not model.recovery_.success and model.fitted_only_
    assert model.message_.startswith("Nothing was recovered")


def test_classes_of_another_shape_are_fitted_and_it_says_so():
    inputs, labels = make_circles(400, noise=0.1, factor=0.6, random_state=0)
    model = pn.HalfspaceClassifier(random_state=0).fit(inputs[:200], labels[:200])
    assert model.fitted_only_ and not model.recovery_.success
    assert model.message_.startswith("Nothing was recovered, only fitted: ")
    straight = LogisticRegression().fit(inputs[:200], labels[:200])
    unseen = inputs[200:], labels[200:]
    # No line tells a ring from what is inside it; a polygon does, but for the noise.
    assert straight.score(*unseen) < 0.7 < 0.9 < model.score(*unseen)


@pytest.mark.parametrize(
    ("options", "labels", "words"),
    [
        ({}, np.zeros(300), ("one class",)),
        ({}, np.arange(300) % 3, ("Only binary classification",)),
        ({"intersection": "both"}, np.arange(300) % 2, ("intersection",)),
        ({"units": 0}, np.arange(300) % 2, ("units",)),
    ],
)
def test_what_a_classifier_cannot_use(options, labels, words):
    with pytest.raises(pn.InvalidInput) as error:
        pn.HalfspaceClassifier(**options).fit(X, labels)
    for word in words:
        assert word in str(error.value)
