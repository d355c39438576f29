"""Deep networks in files and as models of other programs: the same function, or to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import provenet as pn
from helpers import ACTIVATIONS, is_a_sentence
from provenet.common.typing import Array

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
safetensors_numpy = pytest.importorskip("safetensors.numpy")

EXTENSIONS = (".npz", ".safetensors", ".onnx")
SINGLE = ("gelu", "erf")
"""What onnxruntime evaluates in single precision only."""
X = np.random.default_rng(0).standard_normal((40, 5))


def network(
    activation: str, outputs: int | None = None, widths: tuple[int, ...] = (4, 3, 6)
) -> pn.DeepNetwork:
    """A deep network whose numbers use all their digits, with a zero of either sign among them."""
    net = pn.random_network(widths, 5, outputs=outputs, activation=activation, rng=7)
    weights = [np.array(W) for W in net.weights]
    weights[0][0, :2] = 0.0, -0.0
    weights[1][0, :2] = -0.0, 0.0
    if activation == "exp":  # of exp of exp
        weights = [W / 8 for W in weights]
    return net.replace(weights=weights)


def assert_same_bits(found: Any, truth: pn.DeepNetwork) -> None:
    assert isinstance(found, pn.DeepNetwork)
    assert found.outputs == truth.outputs and found.activation.family == truth.activation.family
    assert found.activation.slope == truth.activation.slope
    for name in ("weights", "biases"):
        for a, b in zip(getattr(found, name), getattr(truth, name), strict=True):
            assert a.shape == b.shape and a.tobytes() == b.tobytes(), name


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_is_saved_is_loaded_bit_for_bit(
    tmp_path: Path, extension: str, activation: str
) -> None:
    for outputs in (None, 1, 3):
        for widths in ((4, 3), (4, 3, 6), (2, 1, 1, 2)):
            net = network(activation, outputs, widths)
            net.save(tmp_path / f"net{extension}")
            assert_same_bits(pn.load_network(tmp_path / f"net{extension}"), net)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_one_hidden_layer_is_loaded_as_a_network(tmp_path: Path, extension: str) -> None:
    for outputs in (None, 1, 2):
        net = pn.random_network((4,), 5, outputs=outputs, rng=0)
        net.save(tmp_path / f"net{extension}")
        loaded = pn.load_network(tmp_path / f"net{extension}")
        assert isinstance(loaded, pn.Network) and loaded.outputs == outputs
        np.testing.assert_array_equal(loaded.weights, net.weights[0])
        np.testing.assert_array_equal(np.atleast_2d(loaded.output_weights), net.weights[1])
        np.testing.assert_array_equal(np.atleast_1d(loaded.output_bias), net.biases[1])
        if extension == ".npz":
            with np.load(tmp_path / "net.npz") as stored:
                assert set(stored) >= {"weights", "biases"}  # the names of a network's own


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_layers_without_units(tmp_path: Path, extension: str) -> None:
    empty = pn.DeepNetwork([np.zeros((2, 5)), np.eye(2), [[1.0, 2.0]]], [[1.0, 2.0], None, None])
    empty = empty.canonical()
    assert empty.widths == (0, 0)
    empty.save(tmp_path / f"net{extension}")
    loaded = pn.load_network(tmp_path / f"net{extension}")
    np.testing.assert_array_equal(loaded(X), np.full(40, 5.0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"biases.1": None}, ("biases.1", "lacks")),
        ({"output_bias": None}, ("output_bias", "lacks")),
        ({"output_bias": np.ones(2)}, ("output_bias", "(2,)", "a number")),
        ({"output_weights": np.ones((1, 1, 6))}, ("output_weights", "(1, 1, 6)")),
        ({"weights.1": np.ones((3, 5))}, ("weights[1]", "4 columns")),
    ],
)
def test_archives_that_are_no_deep_network(
    tmp_path: Path, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    path = tmp_path / "net.npz"
    network("relu").save(path)
    with np.load(path) as stored:
        arrays = {**stored, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(pn.InvalidInput) as error:
        pn.load_network(path)
    is_a_sentence(error, "net.npz", *words)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("widths", [(4, 3), (4, 3, 6)])
def test_a_sequential_of_torch_by_the_names_of_its_tensors(
    tmp_path: Path, biased: bool, widths: tuple[int, ...]
) -> None:
    net = network("tanh", 2, widths)
    if not biased:
        net = net.replace(biases=None)
    tensors: dict[str, Array] = {}
    for i, (W, b) in enumerate(net.affine_maps):
        tensors[f"{2 * i}.weight"] = np.array(W)
        if biased:
            tensors[f"{2 * i}.bias"] = np.array(b)
    path = tmp_path / "net.safetensors"
    path.write_bytes(safetensors_numpy.save(tensors, metadata={"activation": "tanh"}))
    assert_same_bits(pn.load_network(path), net)


# ---------------------------------------------------------------- other programs' own predictions


def predictions(made: Any, inputs: Array) -> Array:
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    ((result),) = session.run(None, {"x": inputs})
    return np.asarray(result, dtype=float)


@pytest.mark.parametrize(
    ("activation", "dtype"),
    [
        (activation, dtype)
        for activation in ACTIVATIONS
        for dtype in ("float64", "float32")
        if (dtype == "float32" or activation not in SINGLE)
        and not (dtype == "float32" and activation == "step")  # one rounding changes sides
    ],
)
def test_a_runtime_predicts_what_the_network_does(activation: str, dtype: str) -> None:
    for outputs in (None, 1, 3):
        net = network(activation, outputs)
        made = net.to_onnx(dtype)
        onnx.checker.check_model(made, full_check=True)
        inputs = X.astype(dtype)
        found, expected = predictions(made, inputs), net(inputs)
        assert found.shape == (40, outputs or 1)
        # Rounding of three layers; cubes of cubes of cubes lose some digits more.
        allowed = 1e-12 if dtype == "float64" else 1e-4
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            found.reshape(expected.shape), expected, rtol=0, atol=allowed * scale
        )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_deep_models_in_single_precision_come_in_again(tmp_path: Path, activation: str) -> None:
    """The comparison with the model leaves room for the rounding of all layers."""
    net = network(activation, 2)
    (tmp_path / "net.onnx").write_bytes(net.to_onnx("float32").SerializeToString())
    loaded = pn.load_network(tmp_path / "net.onnx")
    assert isinstance(loaded, pn.DeepNetwork) and loaded.widths == net.widths
    for found, W in zip(loaded.weights, net.weights, strict=True):
        np.testing.assert_array_equal(found, W.astype("float32"))


def test_rounding_is_carried_from_layer_to_layer(tmp_path: Path) -> None:
    """Differences of numbers near 1e5 in the second layer: what the third is fed is off by 1e-2."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape) for shape in ((4, 5), (4, 4), (3, 4), (1, 3))]
    weights[1] = np.array([[1.0, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]])
    net = pn.DeepNetwork(weights, [np.full(4, 1e5), None, None, None])
    made = net.to_onnx("float32")
    off = np.abs(predictions(made, X.astype("float32"))[:, 0] - net(X))
    assert off.max() > 1e-3
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    assert pn.load_network(tmp_path / "net.onnx").widths == (4, 4, 3)


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "tanh", "abs", "leaky_relu(0.3)"])
@pytest.mark.parametrize("outputs", [None, 3])
def test_an_mlp_regressor_predicts_the_same(activation: str, outputs: int | None) -> None:
    net = network(activation, outputs)
    regressor = net.to_mlp_regressor()
    # Rounding: outputs are below 100.
    np.testing.assert_allclose(regressor.predict(X), net(X), rtol=0, atol=1e-12)
    same = activation in ("relu", "sigmoid", "tanh")
    assert regressor.hidden_layer_sizes == ((4, 3, 6) if same else (8, 6, 12))
    assert regressor.n_layers_ == 5
    if same:
        assert_same_bits(pn.DeepNetwork.from_mlp_regressor(regressor), net)


def test_a_trained_mlp_regressor_is_a_deep_network() -> None:
    y = np.column_stack([X[:, 0], X[:, 1] * X[:, 2]])
    for sizes in ((7,), (7, 4), (6, 5, 4)):
        regressor = MLPRegressor(
            hidden_layer_sizes=sizes, activation="tanh", solver="lbfgs", max_iter=10, random_state=0
        )
        with pytest.warns(ConvergenceWarning):
            regressor.fit(X, y)
        net = pn.DeepNetwork.from_mlp_regressor(regressor)
        assert net.widths == sizes
        np.testing.assert_allclose(net(X), regressor.predict(X), rtol=0, atol=1e-12)


def test_units_that_other_models_do_not_have() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        network("gelu").to_mlp_regressor()
    is_a_sentence(error, "MLPRegressor", "gelu", ".onnx")


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu", "elu", "abs", "leaky_relu(0.3)"])
@pytest.mark.parametrize("outputs", [None, 3])
def test_a_sequential_predicts_the_same(activation: str, outputs: int | None) -> None:
    torch = pytest.importorskip("torch")
    net = network(activation, outputs)
    module = net.to_torch()
    assert isinstance(module, torch.nn.Sequential) and len(module) == 7
    with torch.no_grad():
        found = module(torch.tensor(X)).numpy()
    np.testing.assert_allclose(found.reshape(net(X).shape), net(X), rtol=0, atol=1e-12)
