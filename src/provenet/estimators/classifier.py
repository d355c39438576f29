"""`HalfspaceClassifier`: two classes told apart by a union of halfspaces, or an intersection.

Labels of such a set give its halfspaces back (`provenet.recover` with the method "halfspaces").
Other data are fitted (`fit_halfspaces`), and the estimator says so.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource
from provenet.estimators.columns import check_size, on_all_columns, usable_columns
from provenet.estimators.deadlines import fit_deadline, search_budget
from provenet.estimators.fit_halfspaces import FittedHalfspaces, fit_halfspaces, margin
from provenet.estimators.tolerances import FIRES, MOST_ROWS_TO_FIT
from provenet.fitting.context import Options
from provenet.lowest_layer.unions.faces import Flags
from provenet.networks.layered import LayeredNetwork, intersection, lowest_layer, union
from provenet.recover import recover
from provenet.validation import check_options

_METHOD = "halfspaces"


class HalfspaceClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two classes: the second fires in a union of halfspaces `w.x > t`, or in an intersection.

    `fit` looks for halfspaces that explain the labels. If they are not all found, as with classes
    of another shape, halfspaces are fitted: how many, and of which kind, is chosen by held-out
    loss, and `fitted_only_` and `message_` say that nothing was recovered.

    Parameters
    ----------
    units
        Number of halfspaces; found, or chosen, when left out.
    intersection
        True for an intersection, False for a union, "auto" for whichever explains the labels.
    budget
        Seconds for all of `fit`. The search for halfspaces has half of them; a fit, where one
        follows, has what is left. Only a step that is under way is finished after that.
    random_state
        Seed; the same seed gives the same answer.

    Attributes
    ----------
    classes_
        The two labels; the second is the one that fires.
    halfspaces_
        A `LayeredNetwork`: its `layer` holds the halfspaces, its `top` is OR, or AND.
    intersection_
        Whether it is an intersection.
    recovery_
        What the search found. Where inputs are constant or depend on others it speaks of the
        columns `used_features_` alone.
    fitted_only_
        True unless the search was a success: halfspaces that it found in part, or that were fitted,
        are not those behind the labels.
    message_
        What happened, in words.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    """

    def __init__(
        self,
        units: int | None = None,
        intersection: bool | str = "auto",
        *,
        budget: float = 10.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        """Store the options; they are checked by `fit`."""
        self.units = units
        self.intersection = intersection
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Recover or fit halfspaces from inputs (n, features) and labels of two values (n,)."""
        self._check_options()
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        fired = self._fired(y)
        check_size(X, fired)
        seeds = check_random_state(self.random_state).randint(2**31, size=2)
        source = ArraySource(X, fired.astype(float))
        self.used_features_ = usable_columns(source.linear_sums()[0])
        started = working_time()
        self.recovery_ = self._recovered(source, int(seeds[0]))
        found = self._usable(self.recovery_)
        if found is None or not self.recovery_.success:
            deadline = fit_deadline(started, self.budget)
            fitted = self._fitted(X, fired, int(seeds[1]), deadline)
            if found is None or _wrong(fitted, X, fired) < _wrong(found, X, fired):
                return self._settle(_layered(fitted), _fit_message(fitted, self.recovery_), True)
        partly = "" if self.recovery_.success else _PARTLY
        return self._settle(found, partly + self.recovery_.message, not self.recovery_.success)

    def decision_function(self, X: Any) -> Array:
        """How far inside the union, or the intersection, inputs are; negative outside."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        found: LayeredNetwork = self.halfspaces_
        return margin(
            np.asarray(X, float), found.layer.weights, found.thresholds, self.intersection_
        )

    def predict(self, X: Any) -> AnyArray:
        """The class of each input."""
        inside = self.decision_function(X) > 0
        return np.asarray(self.classes_[inside.astype(int)])

    def __sklearn_tags__(self) -> Any:
        """Two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    # ------------------------------------------------------------ input

    def _check_options(self) -> None:
        check_options(_METHOD, Options(self.units), self.budget)
        if self.intersection not in (True, False, "auto"):
            raise InvalidInput(
                f'intersection must be True, False or "auto", not {self.intersection!r}.'
            )

    def _fired(self, y: AnyArray) -> Flags:
        """Which labels are of the second class."""
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind != "binary":
            raise InvalidInput(
                f"Only binary classification is supported. The type of the target is {kind}: "
                "leave two classes."
            )
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInput("y has samples of one class only: there is no other to tell from.")
        return np.asarray(codes == 1)

    # ------------------------------------------------------------ the work

    def _recovered(self, source: ArraySource, seed: int) -> Recovery:
        if not len(self.used_features_):
            return Recovery.nothing(_METHOD, "All columns of X are constant.")
        try:
            return recover(
                ArraySource(source.X[:, self.used_features_], source.y),
                units=self.units,
                method=_METHOD,
                budget=search_budget(self.budget),
                rng=seed,
            )
        except InvalidInput as why:  # the options are checked: these samples show no halfspaces
            return Recovery.nothing(_METHOD, str(why))

    def _usable(self, recovery: Recovery) -> LayeredNetwork | None:
        """What was recovered, in full or in part, on all inputs, if it is of the kind asked for."""
        found = recovery.layered
        if found is None or recovery.status is Status.FAILED:
            return None
        if found.units > 1 and self.intersection not in ("auto", found.top is intersection):
            return None
        layer = on_all_columns(found.layer, self.used_features_, self.n_features_in_)
        return LayeredNetwork(layer, found.top)

    def _settle(self, found: LayeredNetwork, message: str, fitted_only: bool) -> Self:
        self.halfspaces_, self.intersection_ = found, found.top is intersection
        self.message_, self.fitted_only_ = message, fitted_only
        return self

    def _fitted(self, X: Array, fired: Flags, seed: int, deadline: float) -> FittedHalfspaces:
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(X))[:MOST_ROWS_TO_FIT]
        kind = None if self.intersection == "auto" else bool(self.intersection)
        X, fired = np.asarray(X[rows], float), fired[rows]
        return fit_halfspaces(
            X, fired, units=self.units, intersection=kind, rng=rng, deadline=deadline
        )


_PARTLY = (
    "Nothing was recovered for sure: these are the halfspaces of the search, which predict better "
    "than fitted ones. "
)


def _wrong(found: LayeredNetwork | FittedHalfspaces, X: Array, fired: Flags) -> int:
    return int(np.sum((found(X) > FIRES) != fired))


def _layered(fitted: FittedHalfspaces) -> LayeredNetwork:
    top = intersection if fitted.intersection else union
    return LayeredNetwork(lowest_layer(fitted.weights, fitted.thresholds, "step"), top)


def _fit_message(fitted: FittedHalfspaces, recovery: Recovery) -> str:
    kind = "an intersection" if fitted.intersection else "a union"
    unseen = "too few samples to hold any out"
    if np.isfinite(fitted.error):
        unseen = f"{100 * fitted.error:.3g}% of held-out samples wrong"
    return (
        f"Nothing was recovered, only fitted: {kind} of "
        f"{counted(len(fitted.thresholds), 'halfspace')}, {unseen}. Of the search for halfspaces: "
        f"{recovery.message}"
    )
