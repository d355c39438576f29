"""Networks as models of scikit-learn and PyTorch, which predict the same."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.utils.validation import check_is_fitted

import provenet as pn
from helpers import is_a_sentence

X = np.random.default_rng(0).standard_normal((60, 5)) * 3
PIECEWISE = ("relu", "abs", "leaky_relu", "leaky_relu(0.3)", "leaky_relu(-0.5)")
MIRRORED = ("gelu", "gelu_tanh", "silu", "softplus")
NOWHERE = ("exp", "relu2", "relu3", "step", "erf", "sin")


def represented(*alone: str, beside: tuple[str, ...]) -> list[tuple[str, int | None, bool]]:
    """Activations that a model has alone, and those that it also has beside a linear term."""
    return [
        (activation, outputs, linear)
        for activation in (*alone, *beside)
        for outputs in (None, 1, 3)
        for linear in ((False, True) if activation in beside else (False,))
    ]


REPRESENTED = represented("sigmoid", "tanh", beside=PIECEWISE)
REFUSED = [
    *(("sigmoid", True), ("tanh", True)),
    *((name, False) for name in (*NOWHERE, *MIRRORED, "elu")),
]
IN_TORCH = represented("sigmoid", "tanh", "elu", beside=(*PIECEWISE, *MIRRORED))
NOT_IN_TORCH = [*((name, False) for name in NOWHERE), ("sigmoid", True), ("elu", True)]


def network(activation: str, outputs: int | None, linear: bool) -> pn.Network:
    rng = np.random.default_rng(5)
    shape = (5,) if outputs is None else (outputs, 5)
    return pn.random_network(4, 5, outputs=outputs, activation=activation, rng=rng).replace(
        output_bias=rng.standard_normal(outputs),
        linear=rng.standard_normal(shape) if linear else None,
    )


def assert_predicts(found: Any, net: pn.Network) -> None:
    expected = net(X)
    # Rounding: outputs are below 100.
    np.testing.assert_allclose(
        np.asarray(found).reshape(expected.shape), expected, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(("activation", "outputs", "linear"), REPRESENTED)
def test_an_mlp_regressor_predicts_the_same(
    activation: str, outputs: int | None, linear: bool
) -> None:
    net = network(activation, outputs, linear)
    regressor = net.to_mlp_regressor()
    check_is_fitted(regressor)
    assert regressor.predict(X).shape == ((60, 3) if outputs == 3 else (60,))
    assert_predicts(regressor.predict(X), net)
    assert regressor.score(X, net(X)) == pytest.approx(1.0, abs=1e-12)
    assert_predicts(pickle.loads(pickle.dumps(regressor)).predict(X), net)


def test_an_mlp_regressor_has_the_units_of_the_network_where_it_can() -> None:
    net = network("relu", None, False)
    regressor = net.to_mlp_regressor()
    assert (regressor.activation, regressor.hidden_layer_sizes) == ("relu", (4,))
    np.testing.assert_array_equal(regressor.coefs_[0], net.weights.T)
    np.testing.assert_array_equal(regressor.intercepts_[0], net.biases)
    np.testing.assert_array_equal(regressor.coefs_[1][:, 0], net.output_weights)
    assert regressor.intercepts_[1] == net.output_bias
    regressor.coefs_[0][:] = 0.0  # copies: the network does not change
    assert net.weights.any()
    wide = network("abs", 3, True).to_mlp_regressor()
    assert wide.hidden_layer_sizes == (2 * 4 + 2 * 3,)


def test_a_clone_is_not_fitted_and_can_be() -> None:
    """It has the parameters of a regressor of that width, and starts anew."""
    fresh = clone(network("relu", None, False).to_mlp_regressor())
    assert not hasattr(fresh, "coefs_") and fresh.hidden_layer_sizes == (4,)
    fresh.set_params(max_iter=5000, random_state=0).fit(X, X[:, 0])
    assert fresh.score(X, X[:, 0]) > 0.9  # a linear function is easy


@pytest.mark.parametrize(("activation", "linear"), REFUSED)
def test_units_that_an_mlp_regressor_does_not_have(activation: str, linear: bool) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        network(activation, None, linear).to_mlp_regressor()
    is_a_sentence(error, "MLPRegressor", activation, ".onnx")
    assert ("with a linear term:" in str(error.value)) == linear


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("outputs", [None, 3])
def test_an_mlp_regressor_comes_back(activation: str, outputs: int | None) -> None:
    net = network(activation, outputs, False)
    back = pn.Network.from_mlp_regressor(net.to_mlp_regressor())
    assert back.activation is net.activation and back.outputs == net.outputs
    for name in ("weights", "biases", "output_weights", "output_bias"):
        np.testing.assert_array_equal(getattr(back, name), getattr(net, name))


def test_a_trained_mlp_regressor_is_a_network() -> None:
    y = np.column_stack([X[:, 0], X[:, 1] * X[:, 2]])
    regressor = MLPRegressor(
        hidden_layer_sizes=7, activation="tanh", solver="lbfgs", max_iter=20, random_state=0
    )
    with pytest.warns(ConvergenceWarning):
        regressor.fit(X, y)
    assert_predicts(regressor.predict(X), pn.Network.from_mlp_regressor(regressor))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"hidden_layer_sizes": (3, 3)},
            ("2 hidden layers", "single", "DeepNetwork.from_mlp_regressor"),
        ),
        ({"hidden_layer_sizes": ()}, ("0 hidden layers", "'identity'")),
        ({"activation": "identity"}, ("'identity'", "relu, logistic, tanh")),
        (None, ("not been fitted", "after fit")),
    ],
)
def test_other_regressors_are_no_network(
    options: dict[str, Any] | None, words: tuple[str, ...]
) -> None:
    regressor = MLPRegressor(solver="lbfgs", max_iter=1000, **(options or {}))
    if options is not None:
        regressor.fit(X, X[:, 0])
    with pytest.raises(pn.InvalidInput) as error:
        pn.Network.from_mlp_regressor(regressor)
    is_a_sentence(error, "MLPRegressor", *words)


# ---------------------------------------------------------------- PyTorch


@pytest.mark.parametrize(("activation", "outputs", "linear"), IN_TORCH)
def test_a_sequential_predicts_the_same(activation: str, outputs: int | None, linear: bool) -> None:
    torch = pytest.importorskip("torch")
    net = network(activation, outputs, linear)
    module = net.to_torch()
    assert isinstance(module, torch.nn.Sequential) and len(module) == 3
    with torch.no_grad():
        found = module(torch.tensor(X))
    assert found.dtype == torch.float64 and found.shape == (60, outputs or 1)
    assert_predicts(found.numpy(), net)
    assert net.to_torch(torch.float32)[0].weight.dtype == torch.float32


@pytest.mark.parametrize(("activation", "linear"), NOT_IN_TORCH)
def test_units_that_torch_does_not_have(activation: str, linear: bool) -> None:
    pytest.importorskip("torch")
    with pytest.raises(pn.InvalidInput) as error:
        network(activation, None, linear).to_torch()
    is_a_sentence(error, "torch.nn", activation, ".onnx")
