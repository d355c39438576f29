"""`NetworkRegressor`: a hidden network recovered, or, where there is none, a network fitted.

Samples of a network give the network back (`provenet.recover`). Real data are no network's: then a
network is fitted (`fit_width`), and the estimator says so.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.common.words import WORDS_ARE_CLASSES, check_whole, counted
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource
from provenet.data.standardisation import label_variance
from provenet.estimators.columns import check_size, on_all_columns, usable_columns
from provenet.estimators.deadlines import fit_deadline, search_budget
from provenet.estimators.fit_width import WidthFit, fit_width
from provenet.estimators.reservoir import ReservoirSource
from provenet.estimators.tolerances import MOST_ROWS_TO_FIT, STILL_EXACT
from provenet.fitting.context import Options
from provenet.methods import METHODS
from provenet.networks.activations import RELU, Activation
from provenet.networks.network import Network
from provenet.networks.piecewise import linear_as_units
from provenet.recover import recover
from provenet.validation import check_options, read_activation

FIT_ONLY = "fit"
"""The method that does not look for a hidden network."""


class NetworkRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by a network with one hidden layer, recovered where one made the labels.

    `fit` first looks for the network behind the samples. If all of it is found, predictions are
    its values. If not, as with most real data, a network is fitted: its width and a penalty on its
    weights are chosen by held-out error, and `fitted_only_` and `message_` say that nothing was
    recovered. With noise "recovered" means that the samples do not contradict such a network.

    Parameters
    ----------
    method
        One of `provenet.METHODS` that find a whole network; "auto" chooses; "fit" does not look
        for a hidden network at all, which saves the time where there is none.
    units
        Number of hidden units; found, or chosen, when left out.
    activation
        Of the units: a name such as "relu", a `provenet.Activation`, or "auto": it is found.
    noise
        Standard deviation of the label noise, if known.
    budget
        Seconds for all of `fit`. The search for a hidden network has half of them and ends before
        that where it is hopeless; a fit, where one follows, has what is left. Only a step that is
        under way is finished after that.
    reservoir
        Samples that `partial_fit` keeps.
    random_state
        Seed; the same seed gives the same answer, unless time runs out.

    Attributes
    ----------
    network_
        The `provenet.Network` behind the predictions.
    recovery_
        What the search for a hidden network found, with its certificate. Where inputs are constant
        or depend on others it speaks of the columns `used_features_` alone.
    fitted_only_
        True when the network was fitted and not recovered.
    message_
        What happened, in words.
    width_fit_
        How the width was chosen; None when the network was recovered.
    coefs_, intercepts_
        Weights and biases of the two layers, as `sklearn.neural_network.MLPRegressor` names and
        shapes them. A linear term of `network_` is there as one unit and its opposite an output;
        beside absolute values it cannot be, and is in `network_` alone.
    used_features_
        Numbers of the columns that the search used.
    stream_
        What `partial_fit` keeps: sums over all samples seen and the reservoir; None after `fit`.
    n_features_in_, feature_names_in_, n_outputs_
        As everywhere in scikit-learn.
    """

    def __init__(
        self,
        method: str = "auto",
        units: int | None = None,
        *,
        activation: str | Activation = "relu",
        noise: float | None = None,
        budget: float = 10.0,
        reservoir: int = 20_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        """Store the options; they are checked by `fit`."""
        self.method = method
        self.units = units
        self.activation = activation
        self.noise = noise
        self.budget = budget
        self.reservoir = reservoir
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Recover or fit a network from inputs (n, features), labels (n,) or (n, outputs).

        `sample_weight` (n,) is what each sample counts in a fit. A recovery takes all samples alike
        that have a weight: a network that made them is the same whatever they count.
        """
        X, y = self._checked(X, y, first=True)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
            if not len(X):
                raise InvalidInput("No sample has a weight above zero: nothing is left to fit.")
        self.stream_: ReservoirSource | None = None
        return self._learn(ArraySource(X, y), self._seeds(), weights)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Take in one more batch, and recover or fit anew from all that has come.

        Means, covariances and the linear regression are those of all samples, by sums that merge.
        The search, the fit and the certificate use a uniform draw of `reservoir` samples, all of
        them while they are no more. An exact network that predicts the new batch exactly is kept
        as it is; otherwise every call searches again, so give large batches. After `fit` the first
        batch starts anew. Memory: `reservoir` samples, and the square of the features.
        """
        before: ReservoirSource | None = getattr(self, "stream_", None)
        X, y = self._checked(X, y, first=before is None)
        if before is None:
            self._seeds_of_stream = self._seeds()
        rng = np.random.default_rng([self._seeds_of_stream[2], before.seen if before else 0])
        if before is None:
            self.stream_ = ReservoirSource.of(X, y, self.reservoir, rng)
            return self._learn(self.stream_, self._seeds_of_stream)
        if y.shape[1:] != before.label_shape:
            raise InvalidInput(
                f"y has outputs of shape {y.shape[1:]} and had {before.label_shape} before: "
                "all batches must have the same outputs."
            )
        self.stream_ = before.merged(X, y, rng)
        if self._is_exact_on(X, y):
            return self
        return self._learn(self.stream_, self._seeds_of_stream)

    def predict(self, X: Any) -> Array:
        """Labels (n,) or (n, outputs) for inputs (n, features)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        network: Network = self.network_
        return network(X)

    # ------------------------------------------------------------ input

    def _checked(self, X: Any, y: Any, first: bool) -> tuple[Array, Array]:
        self._check_options()
        X, y = validate_data(
            self,
            X,
            y,
            reset=first,
            multi_output=True,
            y_numeric=True,
            dtype=(np.float64, np.float32),
        )
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        if y.dtype.kind not in "fiub":
            raise InvalidInput(f"y must hold numbers, not {y.dtype}: {WORDS_ARE_CLASSES}.")
        check_size(X, y)
        return X, np.asarray(y, dtype=float)

    def _check_options(self) -> None:
        fit_only = self.method == FIT_ONLY
        activation, is_open = read_activation(self.activation)
        if fit_only and is_open:
            raise InvalidInput(
                f'method="{FIT_ONLY}" looks for no network, and so for no activation: name one in '
                f'place of "auto".'
            )
        options = Options(
            self.units, self.noise, RELU if fit_only else activation, open_activation=is_open
        )
        if not fit_only and self.method not in METHODS:
            names = ", ".join(name for name, method in METHODS.items() if not method.lowest_layer)
            raise InvalidInput(f"The method {self.method!r} is unknown: use {FIT_ONLY}, {names}.")
        method, _ = check_options("auto" if fit_only else self.method, options, self.budget)
        if method.lowest_layer:
            raise InvalidInput(
                f"The method {self.method!r} finds the lowest layer of a deeper network, not a "
                "regressor: use provenet.recover, or HalfspaceClassifier for two classes."
            )
        check_whole("reservoir", self.reservoir, 1)

    def _seeds(self) -> tuple[int, int, int]:
        """For the search, the fit and the reservoir: how long one takes must not move another."""
        first, second, third = check_random_state(self.random_state).randint(2**31, size=3)
        return int(first), int(second), int(third)

    # ------------------------------------------------------------ the work

    def _learn(
        self, source: ArraySource, seeds: tuple[int, int, int], weights: Array | None = None
    ) -> Self:
        self.n_outputs_ = source.outputs or 1
        self.used_features_ = usable_columns(source.linear_sums()[0])
        source.feature_names = tuple(getattr(self, "feature_names_in_", ()))
        started = working_time()
        self.recovery_ = self._recovered(source, seeds[0])
        network, self.width_fit_ = self.recovery_.network, None
        self.fitted_only_ = network is None or not _explains(self.recovery_)
        if network is None or self.fitted_only_:
            deadline = fit_deadline(started, self.budget)
            self.width_fit_ = self._fitted(source, weights, seeds[1], deadline)
            self.network_ = self.width_fit_.network
            self.message_ = _fit_message(self.recovery_, self.width_fit_)
        else:
            self.network_ = on_all_columns(network, self.used_features_, source.features)
            self.message_ = _recovery_message(self.recovery_)
        self.coefs_, self.intercepts_ = layers_of(self.network_)
        return self

    def _recovered(self, source: ArraySource, seed: int) -> Recovery:
        if self.method == FIT_ONLY:
            message = 'No hidden network was looked for (method="fit").'
            return Recovery.nothing(FIT_ONLY, message)
        if not len(self.used_features_):
            return Recovery.nothing(self.method, "All columns of X are constant.")
        if len(self.used_features_) < source.features:
            source = source.columns(self.used_features_)
        try:
            return recover(
                source,
                units=self.units,
                method=self.method,
                activation=self.activation,
                noise=self.noise,
                budget=search_budget(self.budget),
                link="identity",  # what is predicted is y as it is
                rng=seed,
            )
        except InvalidInput as why:  # the options are checked: these samples show no network
            return Recovery.nothing(self.method, str(why))

    def _fitted(
        self, source: ArraySource, weights: Array | None, seed: int, deadline: float
    ) -> WidthFit:
        to_draw, rng = np.random.default_rng(seed).spawn(2)
        drawn = source.draw(min(source.size, MOST_ROWS_TO_FIT), to_draw)
        return fit_width(
            drawn.X,
            drawn.y,
            activation=self._activation_to_fit(),
            units=self.units,
            rng=rng,
            deadline=deadline,
            weights=None if weights is None else weights[drawn.rows],
        )

    def _activation_to_fit(self) -> Activation:
        """The one that was named, or that of the best network found, if any."""
        named, is_open = read_activation(self.activation)
        found = self.recovery_.network
        return found.activation if is_open and found is not None else named

    def _is_exact_on(self, X: Array, y: Array) -> bool:
        """Whether the network is known to be exact and a new batch agrees."""
        if self.recovery_.status is not Status.EXACT:
            return False
        assert self.stream_ is not None
        spread = float(np.sqrt(np.mean(label_variance(self.stream_.sums))))
        return bool(np.abs(self.network_(X) - y).max() <= STILL_EXACT * spread)


def _explains(recovery: Recovery) -> bool:
    """Whether its network predicts samples that were not fitted as well as noise allows.

    Where units are missing or undetermined, that is known only without noise.
    """
    exact = recovery.certificate is not None and recovery.certificate.noise == 0
    return recovery.success or (recovery.status is Status.PARTIAL and exact)


def _recovery_message(recovery: Recovery) -> str:
    if recovery.status is not Status.WITHIN_NOISE:
        return recovery.message
    return (
        f"{recovery.message} This says that the samples do not contradict such a network, not that "
        "one made them."
    )


def _fit_message(recovery: Recovery, fit: WidthFit) -> str:
    return (
        f"Nothing was recovered, only fitted: {_size_in_words(fit)}. It leaves {fit.error:.3g} of "
        f"the variance of labels that were not fitted; linear regression leaves "
        f"{fit.linear_error:.3g}. {_of_the_search(recovery)}"
    )


def _size_in_words(fit: WidthFit) -> str:
    """Units of the network, and whence they come."""
    units = counted(fit.network.units, "unit")
    if not fit.chosen:
        return f"{units}, as asked for"
    if fit.width == 0:
        return "a linear model, as no unit lowers the held-out error"
    if fit.network.units == fit.width:
        return f"{units}, a number chosen by held-out error"
    return f"{units}, the mean of networks of {fit.width}, a number chosen by held-out error"


def _of_the_search(recovery: Recovery) -> str:
    """What it found, without its advice: a fit has followed it."""
    if recovery.method == FIT_ONLY:
        return recovery.message
    return f"Of the search for a hidden network: {recovery.message.partition('. ')[0]}."


def layers_of(network: Network) -> tuple[list[Array], list[Array]]:
    """Weights and biases of the two layers as MLPRegressor has them; see `NetworkRegressor`."""
    network = linear_as_units(network)
    A = np.atleast_2d(network.output_weights)
    c = np.broadcast_to(np.atleast_1d(network.output_bias), len(A))
    return [network.weights.T.copy(), A.T.copy()], [network.biases.copy(), c.copy()]
