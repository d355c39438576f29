"""A network as a fitted scikit-learn `MLPRegressor`, which predicts the same, and back."""

from __future__ import annotations

from typing import Any

from provenet.common.exceptions import InvalidInput
from provenet.common.words import counted
from provenet.networks.any_network import AnyNetwork
from provenet.networks.conversions import in_relu_units
from provenet.networks.deep_network import DeepNetwork
from provenet.networks.formats.names import activation_name
from provenet.networks.network import Network

_NAMES = {"relu": "relu", "sigmoid": "logistic", "tanh": "tanh"}
"""What scikit-learn calls activations that it has."""


def to_mlp_regressor(network: AnyNetwork) -> Any:
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
    model = MLPRegressor(hidden_layer_sizes=same.widths, activation=name, solver="lbfgs")
    for attribute, value in _fitted(same).items():
        setattr(model, attribute, value)
    return model


def from_mlp_regressor(model: Any) -> DeepNetwork:
    """The network that a fitted `MLPRegressor` with hidden layers is."""
    weights, biases = getattr(model, "coefs_", None), getattr(model, "intercepts_", None)
    if weights is None or biases is None:
        raise InvalidInput(
            f"A {type(model).__name__} that has not been fitted is no network: give an "
            "MLPRegressor after fit."
        )
    names = {theirs: ours for ours, theirs in _NAMES.items()}
    if len(weights) < 2 or model.activation not in names or model.out_activation_ != "identity":
        raise InvalidInput(
            f"The {type(model).__name__} has {_hidden(len(weights) - 1)} of units "
            f"{model.activation!r} and the output {model.out_activation_!r}: give one with hidden "
            f"layers of {', '.join(names)} units and the output 'identity'."
        )
    return DeepNetwork([matrix.T for matrix in weights], biases, names[model.activation])


def one_layer_from_mlp_regressor(model: Any) -> Network:
    """The network that a fitted `MLPRegressor` with one hidden layer is."""
    network = from_mlp_regressor(model)
    if network.layers != 1:
        raise InvalidInput(
            f"The {type(model).__name__} has {_hidden(network.layers)}: give one with a single "
            "hidden layer, or use DeepNetwork.from_mlp_regressor."
        )
    return network.as_one_layer()


def _hidden(layers: int) -> str:
    return counted(layers, "hidden layer")


def _fitted(network: AnyNetwork) -> dict[str, Any]:
    """What `fit` with the solver lbfgs sets; no data were seen, so there is no loss to tell."""
    maps = network.affine_maps
    return {
        "coefs_": [matrix.T.copy() for matrix, _ in maps],
        "intercepts_": [vector.copy() for _, vector in maps],
        "n_features_in_": network.features,
        "n_layers_": len(maps) + 1,
        "n_outputs_": network.outputs or 1,
        "out_activation_": "identity",
        "n_iter_": 0,
        "t_": 0,
        "loss_": float("nan"),
    }
