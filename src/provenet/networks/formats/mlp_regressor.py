"""A network as a fitted scikit-learn `MLPRegressor`, which predicts the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.networks.conversions import in_relu_units
from provenet.networks.formats.names import activation_name
from provenet.networks.network import Network


def to_mlp_regressor(network: Network) -> Any:
    """An `MLPRegressor` in the state that `fit` leaves it in."""
    from sklearn.neural_network import MLPRegressor  # slow to import

    activation_name(network, "An MLPRegressor")
    same = network if _is_logistic(network) else in_relu_units(network)
    if same is None:
        linear = " with a linear term" if network.linear is not None else ""
        raise InvalidInput(
            f"An MLPRegressor has no units {network.activation.name}{linear}: it takes relu, "
            "leaky_relu and abs, or sigmoid without a linear term; write an .onnx file instead."
        )
    name = "logistic" if _is_logistic(network) else "relu"
    model = MLPRegressor(hidden_layer_sizes=(same.units,), activation=name, solver="lbfgs")
    for attribute, value in _fitted(same).items():
        setattr(model, attribute, value)
    return model


def _is_logistic(network: Network) -> bool:
    return network.activation.name == "sigmoid" and network.linear is None


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
