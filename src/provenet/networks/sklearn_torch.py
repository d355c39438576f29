"""Networks as models of scikit-learn and PyTorch that predict the same, and back.

The models are fitted `MLPRegressor`s and `MLPClassifier`s, and `torch.nn.Sequential`s of PyTorch's
own modules, which load anywhere. Piecewise linear units and a linear term are rewritten as units
that the model has. The classes of a classifier are the outputs' numbers 0, 1, ...: a network does
not keep the names that a model was fitted with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import package
from provenet.common.words import counted
from provenet.networks.formats import check_has_name
from provenet.networks.network import DeepNetwork, Network
from provenet.networks.piecewise import in_relu_units, linear_as_units

_SKLEARN_UNITS = {"relu": "relu", "sigmoid": "logistic", "tanh": "tanh"}
_SKLEARN_LINKS = {
    "regressor": {"identity": "identity"},
    "classifier": {"logistic": "logit", "softmax": "softmax"},
}
_TORCH_UNITS: dict[str, Callable[[Any, float | None], Any]] = {
    "relu": lambda nn, slope: nn.ReLU(),
    "leaky_relu": lambda nn, slope: nn.LeakyReLU(slope),
    "sigmoid": lambda nn, slope: nn.Sigmoid(),
    "tanh": lambda nn, slope: nn.Tanh(),
    "gelu": lambda nn, slope: nn.GELU(),
    "gelu_tanh": lambda nn, slope: nn.GELU(approximate="tanh"),
    "silu": lambda nn, slope: nn.SiLU(),
    # From 40 on log(1 + exp(z)) is z in double precision; PyTorch's own 20 leaves 2e-9.
    "softplus": lambda nn, slope: nn.Softplus(threshold=40.0),
    "elu": lambda nn, slope: nn.ELU(),
}


def to_mlp_regressor(network: Network) -> Any:
    """A fitted `MLPRegressor`; it predicts the outputs before a link."""
    from sklearn.neural_network import MLPRegressor  # slow to import

    return _fitted(MLPRegressor, network, "identity")


def to_mlp_classifier(network: Network) -> Any:
    """A fitted `MLPClassifier` of the classes 0, 1, ..."""
    from sklearn.neural_network import MLPClassifier  # slow to import
    from sklearn.preprocessing import LabelBinarizer

    outputs = network.outputs or 1
    if network.link != ("softmax" if outputs > 1 else "logit"):
        raise InvalidInput(
            f"An MLPClassifier has the link 'logit' with one output or 'softmax' with several, and "
            f"this network has {network.link!r} with {outputs}: use to_mlp_regressor, or give it "
            "the link with network.replace(link=...)."
        )
    model = _fitted(MLPClassifier, network, "softmax" if outputs > 1 else "logistic")
    model.classes_ = np.arange(max(outputs, 2))
    model._label_binarizer = LabelBinarizer().fit(model.classes_)
    return model


def from_mlp(model: Any, kind: str, cls: type[Network]) -> Network:
    """The network of a fitted MLP "regressor" or "classifier" (the kind), as this class."""
    weights, biases = getattr(model, "coefs_", None), getattr(model, "intercepts_", None)
    name = f"MLP{kind.capitalize()}"
    if weights is None or biases is None:
        raise InvalidInput(
            f"A {type(model).__name__} that has not been fitted is no network: give an "
            f"{name} after fit."
        )
    units = {theirs: ours for ours, theirs in _SKLEARN_UNITS.items()}
    links = _SKLEARN_LINKS[kind]
    if len(weights) < 2 or model.activation not in units or model.out_activation_ not in links:
        raise InvalidInput(
            f"The {type(model).__name__} has {counted(len(weights) - 1, 'hidden layer')} of units "
            f"{model.activation!r} and the output {model.out_activation_!r}: give an {name} with "
            f"hidden layers of {', '.join(units)} units and the output "
            f"{' or '.join(map(repr, links))}."
        )
    matrices, link = [W.T for W in weights], links[model.out_activation_]
    network = DeepNetwork(matrices, biases, units[model.activation], link=link)
    return network if cls is DeepNetwork else network.as_one_layer(f"Network.from_mlp_{kind}")


def to_torch(network: Network, dtype: Any = None) -> Any:
    """`Sequential(Linear, activation, .., Linear)`, and `Sigmoid` or `Softmax` for a link.

    Doubles unless a torch dtype is given.
    """
    torch = package("torch", "Network.to_torch", "torch")
    same = _in_units_of(network, "A torch.nn.Sequential", _TORCH_UNITS)
    modules: list[Any] = []
    for number, (W, b) in enumerate(same.affine_maps):
        # skip_init draws no random numbers: the caller's random state stays as it is.
        linear = torch.nn.utils.skip_init(
            torch.nn.Linear, *W.shape[::-1], dtype=dtype or torch.float64
        )
        with torch.no_grad():  # copies: torch would write into arrays that it shares
            linear.weight.copy_(torch.tensor(np.array(W)))
            linear.bias.copy_(torch.tensor(np.array(b)))
        if number:
            sigma = same.activation
            modules.append(_TORCH_UNITS[sigma.family](torch.nn, sigma.slope))
        modules.append(linear)
    link = {"logit": [torch.nn.Sigmoid()], "softmax": [torch.nn.Softmax(dim=1)]}
    return torch.nn.Sequential(*modules, *link.get(network.link, []))


def _fitted(kind: type[Any], network: Network, out_activation: str) -> Any:
    """A model in the state that `fit` with the solver lbfgs leaves it in; its loss is unknown."""
    same = _in_units_of(network, f"An {kind.__name__}", _SKLEARN_UNITS)
    name = _SKLEARN_UNITS[same.activation.name]
    model = kind(hidden_layer_sizes=same.widths, activation=name, solver="lbfgs")
    model.coefs_ = [W.T.copy() for W, _ in same.affine_maps]
    model.intercepts_ = [b.copy() for _, b in same.affine_maps]
    model.n_features_in_, model.n_outputs_ = same.features, same.outputs or 1
    model.n_layers_, model.out_activation_ = len(model.coefs_) + 1, out_activation
    model.n_iter_, model.t_, model.loss_ = 0, 0, float("nan")
    return model


def _in_units_of(network: Network, what: str, units: Collection[str]) -> Network:
    """The same function in units that the model has, without a linear term."""
    check_has_name(network, what)
    own = linear_as_units(network)
    if own.linear is None and own.activation.family in units:
        return own
    same = in_relu_units(network)
    if same is None:
        linear = " with a linear term" if network.linear is not None else ""
        raise InvalidInput(
            f"{what} has no units {network.activation.name}{linear}: it takes "
            f"{', '.join(sorted({*units, 'abs', 'leaky_relu'}))} (a linear term not with sigmoid, "
            "tanh and elu); write an .onnx file instead."
        )
    return same
