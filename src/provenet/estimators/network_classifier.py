"""`NetworkClassifier`: classes by a network whose values are log-odds, fitted by its likelihood.

The width and a penalty on the weights are found by the log-loss of held-out samples (`fit_width`),
so the probabilities are those that unseen samples want.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.passes import working_time
from provenet.estimators.columns import check_size
from provenet.estimators.fit_width import WidthFit, fit_width
from provenet.estimators.regressor import layers_of
from provenet.estimators.tolerances import MOST_ROWS_TO_FIT
from provenet.fitting.context import Options
from provenet.fitting.losses import LOGISTIC, SOFTMAX, Loss
from provenet.networks.activations import Activation
from provenet.validation import check_options, read_activation


class NetworkClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two or more classes by a network with one hidden layer, fitted by maximum likelihood.

    Its values are log-odds (two classes) or scores whose softmax is the probabilities. The width
    and a penalty on the weights are found by held-out log-loss; without units it is logistic
    regression, and is that where units do not pay. Nothing is recovered here: `provenet.recover`
    with `link="logit"` looks for the network behind labels of two classes.

    Parameters
    ----------
    units
        Number of hidden units; chosen when left out.
    activation
        Of the units: a name such as "relu", or a `provenet.Activation`.
    class_weight
        What each class counts: a dict, "balanced", or None for all alike.
    budget
        Seconds after which no further step is begun.
    random_state
        Seed; the same seed gives the same answer, unless time runs out.

    Attributes
    ----------
    classes_
        The classes, sorted.
    network_
        The `provenet.Network` behind the probabilities; its link is "logit" or "softmax".
    width_fit_
        How the width was chosen.
    recovery_, fitted_only_
        As in `NetworkRegressor`: None and True, since nothing is recovered here.
    message_
        What happened, in words.
    coefs_, intercepts_
        Weights and biases of the two layers, as `sklearn.neural_network.MLPClassifier` names and
        shapes them; see `NetworkRegressor`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    """

    def __init__(
        self,
        units: int | None = None,
        *,
        activation: str | Activation = "relu",
        class_weight: dict[Any, float] | str | None = None,
        budget: float = 30.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        """Store the options; they are checked by `fit`."""
        self.units = units
        self.activation = activation
        self.class_weight = class_weight
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit inputs (n, features) and classes (n,); `sample_weight` (n,) is what each counts."""
        activation, deadline = self._checked_activation(), working_time() + self.budget
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        codes = self._codes(y)
        check_size(X, codes)
        weights = self._weights(X, y, codes, sample_weight)
        rng = np.random.default_rng(int(check_random_state(self.random_state).randint(2**31)))
        rows = (
            rng.permutation(len(X))[:MOST_ROWS_TO_FIT] if len(X) > MOST_ROWS_TO_FIT else slice(None)
        )
        loss, labels = self._labels(codes)
        self.width_fit_ = fit_width(
            np.asarray(X[rows], float),
            labels[rows],
            activation=activation,
            units=self.units,
            rng=rng,
            deadline=deadline,
            loss=loss,
            weights=None if weights is None else weights[rows],
        )
        self.network_ = self.width_fit_.network.replace(link=loss.link).canonical()
        self.message_ = _message(self.width_fit_, self.units is not None)
        self.recovery_, self.fitted_only_ = None, True
        self.coefs_, self.intercepts_ = layers_of(self.network_)
        return self

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class (n,), or scores (n, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        return np.asarray(self.network_(X))

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, (n, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        return np.asarray(self.network_.predict_proba(X))

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of each class's probability, (n, classes)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> AnyArray:
        """The likeliest class of each input."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    # ------------------------------------------------------------ input

    def _checked_activation(self) -> Activation:
        activation, is_open = read_activation(self.activation)
        if is_open:
            raise InvalidInput(
                'A classifier looks for no activation: name one in place of "auto", such as "relu".'
            )
        check_options("auto", Options(self.units), self.budget)
        return activation

    def _codes(self, y: AnyArray) -> AnyArray:
        """The number of each label's class."""
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInput("y has samples of one class only: there is no other to tell from.")
        return codes

    def _weights(self, X: Array, y: AnyArray, codes: AnyArray, given: Any) -> Array | None:
        """What each sample counts; None where all count alike."""
        if given is None and self.class_weight is None:
            return None
        weights = _check_sample_weight(given, X, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            own = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            weights = weights * own[codes]
        if len(np.unique(codes[weights > 0])) < 2:
            raise InvalidInput(
                "Samples of two classes at least must have a weight above zero: there is no other "
                "class to tell from."
            )
        return np.asarray(weights)

    def _labels(self, codes: AnyArray) -> tuple[Loss, Array]:
        """0 and 1, or a one in the column of the class."""
        if len(self.classes_) == 2:
            return LOGISTIC, codes.astype(float)
        return SOFTMAX, np.eye(len(self.classes_))[codes]


def _message(fit: WidthFit, given: bool) -> str:
    if fit.width == 0 and not given:
        return f"Logistic regression: no unit lowers the held-out log-loss of {fit.error / 2:.3g}."
    chosen = "as asked for, and a held-out log-loss of" if given else "chosen by held-out log-loss,"
    return (
        f"A network with {counted(fit.width, 'unit')}, {chosen} {fit.error / 2:.3g} where logistic "
        f"regression leaves {fit.linear_error / 2:.3g}."
    )
