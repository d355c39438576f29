"""Networks with a link in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

import provenet as pn
from helpers import is_a_sentence

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("safetensors")

X = np.random.default_rng(0).standard_normal((40, 5))
LINKED: dict[str, tuple[str, Any, int | None]] = {
    "logit": ("logit", 4, None),
    "softmax": ("softmax", 4, 3),
    "deep logit": ("logit", (4, 3), None),
    "deep softmax": ("softmax", (4, 3), 3),
    "several logits": ("logit", (4, 3), 3),
    "a logit in rows": ("logit", 4, 1),
}
ROUNDING = 1e-14
"""Of probabilities whose logits are below 100."""


def classifier(name: str, activation: str = "relu") -> Any:
    link, units, outputs = LINKED[name]
    return pn.random_network(units, 5, outputs=outputs, activation=activation, rng=3).replace(
        link=link
    )


@pytest.mark.parametrize("extension", [".npz", ".safetensors", ".onnx"])
@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_files_keep_the_link(tmp_path: Path, extension: str, name: str, activation: str) -> None:
    net, path = classifier(name, activation), tmp_path / f"net{extension}"
    net.save(path)
    loaded: Any = pn.load_network(path)
    assert type(loaded) is type(net) and loaded.link == net.link and loaded.outputs == net.outputs
    np.testing.assert_array_equal(loaded.predict_proba(X), net.predict_proba(X))


def test_a_linear_term_comes_before_the_link(tmp_path: Path) -> None:
    net = classifier("softmax").replace(linear=np.eye(3, 5))
    net.save(tmp_path / "net.onnx")
    loaded = pn.load_network(tmp_path / "net.onnx")
    np.testing.assert_array_equal(loaded.predict_proba(X), net.predict_proba(X))


@pytest.mark.parametrize("name", LINKED)
def test_onnxruntime_predicts_the_probabilities(name: str) -> None:
    net = classifier(name)
    session = onnxruntime.InferenceSession(
        net.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"x": X})
    wanted = net.predict_proba(X)[:, -found.shape[1] :]  # of one logit the column of class 1
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("name", LINKED)
def test_torch_predicts_the_probabilities(name: str) -> None:
    torch = pytest.importorskip("torch")
    net = classifier(name)
    with torch.no_grad():
        found = net.to_torch()(torch.tensor(X)).numpy()
    wanted = net.predict_proba(X)[:, -found.shape[1] :]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("name", ["logit", "softmax", "deep logit", "deep softmax"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "abs"])
def test_an_mlp_classifier_predicts_the_same_and_comes_back(name: str, activation: str) -> None:
    net = classifier(name, activation)
    model = net.to_mlp_classifier()
    p = net.predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), p, rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
    back = type(net).from_mlp_classifier(model)
    np.testing.assert_allclose(back.predict_proba(X), p, rtol=0, atol=ROUNDING)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("classes", [2, 3])
def test_a_fitted_mlp_classifier_is_a_network(classes: int) -> None:
    assert ConvergenceWarning  # three steps do not converge, and need not
    labels = np.arange(len(X)) % classes
    model = MLPClassifier((4, 3), max_iter=3, random_state=0).fit(X, labels)
    net = pn.DeepNetwork.from_mlp_classifier(model)
    assert net.link == ("logit" if classes == 2 else "softmax")
    # scikit-learn computes `1 - p`.
    np.testing.assert_allclose(net.predict_proba(X), model.predict_proba(X), atol=ROUNDING)


def sklearn_graph(net: pn.Network, zipmap: bool) -> Any:
    """As skl2onnx writes an MLPClassifier: label and probabilities, these perhaps as a map."""
    helper = onnx.helper
    made = net.to_onnx("float32")
    del made.metadata_props[:]
    graph, table = made.graph, "y"
    if net.link == "logit":
        one = onnx.numpy_helper.from_array(np.array([1.0], dtype="float32"), "unity")
        graph.initializer.append(one)
        graph.node.append(helper.make_node("Sub", ["unity", "y"], ["other"]))
        graph.node.append(helper.make_node("Concat", ["other", "y"], ["both"], axis=1))
        table = "both"
    graph.node.append(helper.make_node("ArgMax", [table], ["label"], axis=1, keepdims=0))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("label", 7, ["N"]))
    if zipmap:
        names = list(range(max(net.outputs or 1, 2)))
        node = helper.make_node(
            "ZipMap", [table], ["map"], domain="ai.onnx.ml", classlabels_int64s=names
        )
        graph.node.append(node)
        entry = helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, []))
        sequence = helper.make_sequence_type_proto(entry)
        graph.output.append(helper.make_value_info("map", sequence))
    else:
        graph.node.append(helper.make_node("Identity", [table], ["probabilities"]))
        graph.output.append(helper.make_tensor_value_info("probabilities", 1, ["N", "K"]))
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return made


@pytest.mark.parametrize("zipmap", [False, True])
@pytest.mark.parametrize("name", ["logit", "softmax", "deep logit", "deep softmax"])
def test_classifiers_of_scikit_learn_are_read(tmp_path: Path, name: str, zipmap: bool) -> None:
    net = classifier(name)
    path = tmp_path / "model.onnx"
    path.write_bytes(sklearn_graph(net, zipmap).SerializeToString())
    loaded = pn.load_network(path)
    assert loaded.link == net.link
    # Weights were written in single precision.
    np.testing.assert_allclose(loaded.predict_proba(X), net.predict_proba(X), atol=1e-5)


def test_a_classifier_that_predicts_otherwise_is_not_read(tmp_path: Path) -> None:
    """The columns the other way round are no logit of class 1."""
    made = sklearn_graph(classifier("logit"), zipmap=False)
    concat = next(node for node in made.graph.node if node.op_type == "Concat")
    concat.input[:] = concat.input[::-1]
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(pn.InvalidInput) as error:
        pn.load_network(tmp_path / "model.onnx")
    is_a_sentence(error, "no activation")


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
