"""A network with a link as a fitted scikit-learn `MLPClassifier` that predicts the same, and back.

Its classes are the numbers 0, 1, ... of the outputs: those that a model was fitted with are names,
which a network does not keep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.networks.formats.mlp_regressor import (
    as_one_layer,
    filled,
    from_fitted,
    in_their_units,
)
from provenet.networks.network import DeepNetwork, Network

_LINKS = {"logistic": "logit", "softmax": "softmax"}
"""Ours by scikit-learn's name of the output activation."""


def to_mlp_classifier(network: Network) -> Any:
    """An `MLPClassifier` in the state that `fit` leaves it in."""
    from sklearn.neural_network import MLPClassifier  # slow to import
    from sklearn.preprocessing import LabelBinarizer

    several = (network.outputs or 1) > 1
    if network.link != ("softmax" if several else "logit"):
        raise InvalidInput(
            f"An MLPClassifier has the link 'logit' with one output or 'softmax' with several, and "
            f"this network has {network.link!r} with {network.outputs or 1}: use to_mlp_regressor, "
            "or give it the link with network.replace(link=...)."
        )
    theirs = next(name for name, link in _LINKS.items() if link == network.link)
    model = filled(MLPClassifier, in_their_units(network, "An MLPClassifier"), theirs)
    model.classes_ = np.arange(max(network.outputs or 1, 2))
    model._label_binarizer = LabelBinarizer().fit(model.classes_)
    return model


def from_mlp_classifier(model: Any) -> DeepNetwork:
    """The network that a fitted `MLPClassifier` with hidden layers is."""
    return from_fitted(model, "MLPClassifier", _LINKS)


def one_layer_from_mlp_classifier(model: Any) -> Network:
    """The network that a fitted `MLPClassifier` with one hidden layer is."""
    return as_one_layer(from_mlp_classifier(model), model, "DeepNetwork.from_mlp_classifier")
