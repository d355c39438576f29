"""A network as a fitted scikit-learn `MLPRegressor`, which predicts the same, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.networks.conversions import in_relu_units
from provenet.networks.formats.names import activation_name, plain_if_one
from provenet.networks.network import Network

_NAMES = {"relu": "relu", "sigmoid": "logistic", "tanh": "tanh"}
"""What scikit-learn calls activations that it has."""


def to_mlp_regressor(network: Network) -> Any:
    """An `MLPRegressor` in the state that `fit` leaves it in."""
    from sklearn.neural_network import MLPRegressor  # slow to import

    activation_name(network, "An MLPRegressor")
    has_name = network.activation.name in _NAMES and network.linear is None
    same = network if has_name else in_relu_units(network)
    if same is None:
        linear = " with a linear term" if network.linear is not None else ""
        raise InvalidInput(
            f"An MLPRegressor has no units {network.activation.name}{linear}: it takes relu, "
            "leaky_relu and abs, or sigmoid and tanh without a linear term; write an .onnx file "
            "instead."
        )
    name = _NAMES[same.activation.name]
    model = MLPRegressor(hidden_layer_sizes=(same.units,), activation=name, solver="lbfgs")
    for attribute, value in _fitted(same).items():
        setattr(model, attribute, value)
    return model


def from_mlp_regressor(model: Any) -> Network:
    """The network that a fitted `MLPRegressor` with one hidden layer is."""
    weights, biases = getattr(model, "coefs_", None), getattr(model, "intercepts_", None)
    if weights is None or biases is None:
        raise InvalidInput(
            f"A {type(model).__name__} that has not been fitted is no network: give an "
            "MLPRegressor after fit."
        )
    names = {theirs: ours for ours, theirs in _NAMES.items()}
    if len(weights) != 2 or model.activation not in names or model.out_activation_ != "identity":
        raise InvalidInput(
            f"The {type(model).__name__} has {len(weights) - 1} hidden layers of units "
            f"{model.activation!r} and the output {model.out_activation_!r}: give one with a "
            f"single hidden layer of {', '.join(names)} units and the output 'identity'."
        )
    A, c, _ = plain_if_one(weights[1].T, biases[1], None)
    return Network(weights[0].T, biases[0], A, c, names[model.activation])


def _fitted(network: Network) -> dict[str, Any]:
    """What `fit` with the solver lbfgs sets; no data were seen, so there is no loss to tell."""
    A = np.atleast_2d(network.output_weights)
    c = np.broadcast_to(np.asarray(network.output_bias, dtype=float), (len(A),))
    return {
        "coefs_": [network.weights.T.copy(), A.T.copy()],
        "intercepts_": [network.biases.copy(), c.copy()],
        "n_features_in_": network.features,
        "n_layers_": 3,
        "n_outputs_": len(A),
        "out_activation_": "identity",
        "n_iter_": 0,
        "t_": 0,
        "loss_": float("nan"),
    }
