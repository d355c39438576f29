"""A network as a fitted scikit-learn `MLPRegressor`, which predicts the same, and back.

What an `MLPClassifier` has in common with it is here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provenet.common.exceptions import InvalidInput
from provenet.common.words import counted
from provenet.networks.conversions import in_relu_units
from provenet.networks.formats.names import activation_name
from provenet.networks.network import DeepNetwork, Network

_NAMES = {"relu": "relu", "sigmoid": "logistic", "tanh": "tanh"}
"""What scikit-learn calls activations that it has."""


def to_mlp_regressor(network: Network) -> Any:
    """An `MLPRegressor` in the state that `fit` leaves it in; it predicts outputs before a link."""
    from sklearn.neural_network import MLPRegressor  # slow to import

    return filled(MLPRegressor, in_their_units(network, "An MLPRegressor"), "identity")


def from_mlp_regressor(model: Any) -> DeepNetwork:
    """The network that a fitted `MLPRegressor` with hidden layers is."""
    return from_fitted(model, "MLPRegressor", {"identity": "identity"})


def one_layer_from_mlp_regressor(model: Any) -> Network:
    """The network that a fitted `MLPRegressor` with one hidden layer is."""
    return as_one_layer(from_mlp_regressor(model), model, "DeepNetwork.from_mlp_regressor")


def in_their_units(network: Network, where: str) -> Network:
    """The same function in units that scikit-learn has."""
    activation_name(network, where)
    has_name = network.activation.name in _NAMES and network.linear is None
    same = network if has_name else in_relu_units(network)
    if same is None:
        linear = " with a linear term" if network.linear is not None else ""
        raise InvalidInput(
            f"{where} has no units {network.activation.name}{linear}: it takes relu, "
            "leaky_relu and abs, or sigmoid and tanh without a linear term; write an .onnx file "
            "instead."
        )
    return same


def filled(kind: type[Any], network: Network, out_activation: str) -> Any:
    """A model with the network's weights, as `fit` with the solver lbfgs leaves it.

    No data were seen, so there is no loss to tell.
    """
    name = _NAMES[network.activation.name]
    model = kind(hidden_layer_sizes=network.widths, activation=name, solver="lbfgs")
    maps = network.affine_maps
    model.coefs_ = [matrix.T.copy() for matrix, _ in maps]
    model.intercepts_ = [vector.copy() for _, vector in maps]
    model.n_features_in_ = network.features
    model.n_layers_ = len(maps) + 1
    model.n_outputs_ = network.outputs or 1
    model.out_activation_ = out_activation
    model.n_iter_, model.t_, model.loss_ = 0, 0, float("nan")
    return model


def from_fitted(model: Any, kind: str, links: Mapping[str, str]) -> DeepNetwork:
    """The network that a fitted model is, with our link for its output activation."""
    weights, biases = getattr(model, "coefs_", None), getattr(model, "intercepts_", None)
    if weights is None or biases is None:
        raise InvalidInput(
            f"A {type(model).__name__} that has not been fitted is no network: give an "
            f"{kind} after fit."
        )
    names = {theirs: ours for ours, theirs in _NAMES.items()}
    if len(weights) < 2 or model.activation not in names or model.out_activation_ not in links:
        outputs = " or ".join(repr(name) for name in links)
        raise InvalidInput(
            f"The {type(model).__name__} has {_hidden(len(weights) - 1)} of units "
            f"{model.activation!r} and the output {model.out_activation_!r}: give an {kind} with "
            f"hidden layers of {', '.join(names)} units and the output {outputs}."
        )
    matrices, link = [matrix.T for matrix in weights], links[model.out_activation_]
    return DeepNetwork(matrices, biases, names[model.activation], link=link)


def as_one_layer(network: DeepNetwork, model: Any, otherwise: str) -> Network:
    """The network, if it has a single hidden layer."""
    if network.layers != 1:
        raise InvalidInput(
            f"The {type(model).__name__} has {_hidden(network.layers)}: give one with a single "
            f"hidden layer, or use {otherwise}."
        )
    return network.as_one_layer()


def _hidden(layers: int) -> str:
    return counted(layers, "hidden layer")
