"""Networks as models of scikit-learn and PyTorch, which predict the same, and back."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor
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


def test_a_regressor_holds_copies_and_can_be_cloned() -> None:
    net = network("relu", 4, None, False)
    regressor = net.to_mlp_regressor()
    regressor.coefs_[0][:] = 0.0
    assert net.weights.any()
    fresh = clone(regressor)
    assert not hasattr(fresh, "coefs_") and fresh.hidden_layer_sizes == (4,)


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


# ---- Classifiers

LINKED = {"logit": (4, None), "softmax": (4, 3), "deep logit": ((4, 3), None),
    "deep softmax": ((4, 3), 3)}  # fmt: skip
ROUNDING = 1e-14
"""Of probabilities whose logits are below 100."""


def classifier(name: str, activation: str = "relu") -> Any:
    size, outputs = LINKED[name]
    net: Any = pn.random_network(size, 5, outputs=outputs, activation=activation, rng=3)  # type: ignore[arg-type]
    return net.replace(link=name.split()[-1])


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("activation", ["relu", "tanh", "abs"])
def test_an_mlp_classifier_predicts_the_same_and_comes_back(name: str, activation: str) -> None:
    net = classifier(name, activation)
    model, p = net.to_mlp_classifier(), net.predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), p, rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
    back = type(net).from_mlp_classifier(model)
    np.testing.assert_allclose(back.predict_proba(X), p, rtol=0, atol=ROUNDING)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("classes", [2, 3])
def test_a_fitted_mlp_classifier_is_a_network(classes: int) -> None:
    labels = np.arange(len(X)) % classes
    model = MLPClassifier((4, 3), max_iter=3, random_state=0).fit(X, labels)
    net = pn.DeepNetwork.from_mlp_classifier(model)
    assert net.link == ("logit" if classes == 2 else "softmax")
    # scikit-learn computes `1 - p`.
    np.testing.assert_allclose(net.predict_proba(X), model.predict_proba(X), atol=ROUNDING)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda net: net.replace(link="identity").to_mlp_classifier(), ("MLPClassifier",)),
        (lambda net: pn.Network.from_mlp_regressor(net.to_mlp_classifier()), ("'logistic'",)),
        (lambda net: pn.Network.from_mlp_classifier(MLPClassifier()), ("not been fitted",)),
    ],
)
def test_what_a_network_cannot_be(change: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        change(classifier("logit"))
    is_a_sentence(error, *words)


# ---- PyTorch


@pytest.mark.parametrize("name", LINKED)
def test_torch_predicts_the_probabilities(name: str) -> None:
    torch = pytest.importorskip("torch")
    net = classifier(name)
    with torch.no_grad():
        found = net.to_torch()(torch.tensor(X)).numpy()
    wanted = net.predict_proba(X)[:, -found.shape[1] :]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ROUNDING)


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
