"""Networks as models of scikit-learn and PyTorch, which predict the same, and back."""

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
SHAPES: list[tuple[Any, int | None, bool]] = [
    *((4, outputs, linear) for outputs in (None, 1, 3) for linear in (False, True)),
    *(((4, 3, 6), outputs, False) for outputs in (None, 3)),
]


def network(activation: str, units: Any, outputs: int | None, linear: bool) -> Any:
    net = pn.random_network(units, 5, outputs=outputs, activation=activation, rng=5)
    if not linear:
        return net
    return net.replace(output_bias=0.3, linear=np.ones(5 if outputs is None else (outputs, 5)))


def assert_predicts(found: Any, net: pn.Network) -> None:
    expected = net(X)
    # Rounding: outputs are below 100.
    np.testing.assert_allclose(
        np.asarray(found).reshape(expected.shape), expected, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", *PIECEWISE])
def test_an_mlp_regressor_predicts_the_same_and_comes_back(activation: str) -> None:
    for units, outputs, linear in SHAPES:
        if linear and activation not in PIECEWISE:
            continue
        net = network(activation, units, outputs, linear)
        regressor = net.to_mlp_regressor()
        check_is_fitted(regressor)
        assert regressor.predict(X).shape == ((60, 3) if outputs == 3 else (60,))
        assert_predicts(pickle.loads(pickle.dumps(regressor)).predict(X), net)
        back = pn.DeepNetwork.from_mlp_regressor(regressor)
        assert_predicts(back(X), net)
        if activation in ("relu", "sigmoid", "tanh") and not linear:
            assert back.widths == net.widths
            for (W, b), (W0, b0) in zip(back.affine_maps, net.affine_maps, strict=True):
                np.testing.assert_array_equal(W, W0)
                np.testing.assert_array_equal(b, b0)


def test_a_regressor_holds_copies_and_its_clone_can_be_fitted() -> None:
    net = network("relu", 4, None, False)
    regressor = net.to_mlp_regressor()
    regressor.coefs_[0][:] = 0.0
    assert net.weights.any()
    fresh = clone(regressor)
    assert not hasattr(fresh, "coefs_") and fresh.hidden_layer_sizes == (4,)
    fresh.set_params(max_iter=5000, random_state=0).fit(X, X[:, 0])
    assert fresh.score(X, X[:, 0]) > 0.9  # a linear function is easy


def test_a_trained_mlp_regressor_is_a_network() -> None:
    y = np.column_stack([X[:, 0], X[:, 1] * X[:, 2]])
    for sizes in ((7,), (6, 5, 4)):
        regressor = MLPRegressor(
            hidden_layer_sizes=sizes, activation="tanh", solver="lbfgs", max_iter=10
        )
        with pytest.warns(ConvergenceWarning):
            regressor.fit(X, y)
        net = pn.DeepNetwork.from_mlp_regressor(regressor)
        assert net.widths == sizes
        assert_predicts(regressor.predict(X), net)
    with pytest.raises(pn.InvalidInput) as error:
        pn.Network.from_mlp_regressor(regressor)
    is_a_sentence(error, "Network.from_mlp_regressor", "3 hidden layers")


@pytest.mark.parametrize(
    ("options", "words"),
    [
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


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "elu", *PIECEWISE, *MIRRORED])
def test_a_sequential_of_torch_predicts_the_same(activation: str) -> None:
    torch = pytest.importorskip("torch")
    for units, outputs, linear in SHAPES:
        if linear and activation not in (*PIECEWISE, *MIRRORED):
            continue
        net = network(activation, units, outputs, linear)
        module = net.to_torch()
        assert isinstance(module, torch.nn.Sequential) and len(module) == 2 * net.layers + 1
        with torch.no_grad():
            found = module(torch.tensor(X))
        assert found.dtype == torch.float64 and found.shape == (60, outputs or 1)
        assert_predicts(found.numpy(), net)
        assert net.to_torch(torch.float32)[0].weight.dtype == torch.float32


@pytest.mark.parametrize("activation", ["exp", "relu2", "step", "erf", "sin", "sigmoid", "elu"])
def test_units_that_other_models_do_not_have(activation: str) -> None:
    linear = activation in ("sigmoid", "elu")  # which have units alone, in torch at least
    net = network(activation, 4, None, linear)
    for model, convert in (("MLPRegressor", net.to_mlp_regressor), ("torch", net.to_torch)):
        if model == "torch":
            pytest.importorskip("torch")
        with pytest.raises(pn.InvalidInput) as error:
            convert()
        is_a_sentence(error, model, activation, ".onnx")
        assert ("with a linear term:" in str(error.value)) == linear
