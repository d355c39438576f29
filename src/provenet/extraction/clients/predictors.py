"""A fitted model object that is asked by its `predict`: of scikit-learn, of Keras, or like these.

Classifiers of scikit-learn are asked for probabilities where they give them. An estimator that was
fitted to named columns gets a table with these names, which a pipeline may need. Keras computes in
the precision of its own inputs, so questions are rounded to that first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import package
from provenet.common.typing import AnyArray
from provenet.extraction.clients.base import agreed, comes_from, known_features
from provenet.extraction.clients.callables import CallableClient, named_by

_KERAS = ("keras", "tf_keras", "tensorflow")


def is_predictor(model: Any) -> bool:
    """Whether an object is asked by its `predict` rather than called."""
    has_one = callable(getattr(model, "predict", None)) and not isinstance(model, type)
    return has_one and (not callable(model) or comes_from(model, *_KERAS))


class PredictorClient(CallableClient):
    """A `predict` as a function of arrays, with what the object tells of its inputs."""

    kind = "a model object"

    def __init__(
        self,
        model: Any,
        features: int | None = None,
        outputs: int | None = None,
        output: str | int | None = None,
    ) -> None:
        """Nothing is asked yet; raises if the object is not fitted or has other inputs."""
        self.name = type(model).__name__
        keras = comes_from(model, *_KERAS)
        told = _keras_features(model) if keras else _estimator_features(self.name, model)
        ask = _keras_answers(model) if keras else _estimator_answers(model)
        known = known_features(self.name, agreed(self.name, "feature", told, features))
        super().__init__(ask, known, outputs, output)
        self.identity = named_by(type(model))
        self.input_dtype = _keras_precision(model) if keras else np.dtype(np.float64)


# ---------------------------------------------------------------- scikit-learn


def _estimator_features(name: str, model: Any) -> int | None:
    """What fitting has left; estimators that cannot tell are told."""
    if hasattr(model, "get_params") and not _is_fitted(model):
        raise InvalidInput(f"{name} is not fitted: fit it first, or give one that is.")
    try:
        return int(model.n_features_in_)
    except (AttributeError, TypeError):  # of a pipeline, where its first step cannot tell
        return None


def _is_fitted(model: Any) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    except TypeError:  # like an estimator, but without tags or a `fit`
        return True
    return True


def _estimator_answers(model: Any) -> Callable[[AnyArray], Any]:
    probabilities = getattr(model, "predict_proba", None) if _is_classifier(model) else None
    answer: Callable[[Any], Any] = probabilities or model.predict
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return answer
    pandas = package("pandas", f"{type(model).__name__}, fitted to named columns,", "pandas")
    return lambda X: answer(pandas.DataFrame(X, columns=list(names)))


def _is_classifier(model: Any) -> bool:
    return getattr(model, "classes_", None) is not None


# ---------------------------------------------------------------- Keras


def _keras_answers(model: Any) -> Callable[[AnyArray], Any]:
    return lambda X: model.predict(X, verbose=0)


def _keras_features(model: Any) -> int | None:
    """Of one input (rows, features); None before a model is built."""
    shape = getattr(model, "input_shape", None)
    if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[1], int):
        return shape[1]
    return None


def _keras_precision(model: Any) -> np.dtype[Any]:
    """That of its first input; single where it has none, as everywhere in Keras."""
    first = next(iter(getattr(model, "inputs", None) or ()), None)
    dtype = getattr(first, "dtype", "float32")
    name = getattr(dtype, "name", dtype)
    return np.dtype(np.float64 if name == "float64" else np.float32)
