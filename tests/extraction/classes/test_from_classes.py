"""Networks out of models that answer with two classes only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import provenet as pn
from helpers import is_a_sentence
from provenet.certify.checks import Claim, Status
from provenet.cli.app import app
from provenet.common.typing import Array
from provenet.extract import extract
from provenet.extraction.oracle import open_oracle

KNOWN = 1e-9
"""Errors of all parameters: pieces are known to some 1e-12, short ones to 1e-10."""


def two_sided(units: int, features: int, seed: int = 0) -> pn.Network:
    """A random network that is positive at half of all inputs, up to a factor."""
    net = pn.random_network(units, features, rng=seed)
    values = net(np.random.default_rng(99).standard_normal((2001, features)))
    cut = np.mean(np.quantile(values, (0.4, 0.6)))
    return of_norm_one(net.replace(output_bias=net.output_bias - cut))


def of_norm_one(net: pn.Network) -> pn.Network:
    """With the factor that classes leave open as it is by convention."""
    net = net.canonical()
    factor = 1 / np.linalg.norm(net.output_weights)
    return net.replace(
        output_weights=factor * net.output_weights, output_bias=factor * net.output_bias
    )


def same(result: pn.Recovery, net: pn.Network) -> bool:
    return pn.parameter_error(result.network, net.replace(link="logit")) < KNOWN


ANSWERS: dict[str, Callable[[Array], Any]] = {
    "numbers": lambda u: (u > 0).astype(int),
    "yes and no": lambda u: u > 0,
    "plus and minus": np.sign,
    "names": lambda u: np.where(u > 0, "yes", "no"),
    "columns": lambda u: np.column_stack([u <= 0, u > 0]).astype(float),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_network_from_its_classes(kind: str) -> None:
    net = two_sided(4, 6)
    result = extract(lambda X: ANSWERS[kind](net(X)), 6, rng=0)
    assert result.status is Status.EXACT and result.claim is Claim.NETWORK
    assert same(result, net) and result.network.link == "logit"
    assert result.certificate.parameter_error_bound < KNOWN
    assert any("positive factor" in text for text in result.ambiguities)
    assert "'yes'" in result.message if kind == "names" else "positive where" in result.message


def test_many_features_cost_a_normal_a_unit() -> None:
    net = two_sided(4, 64)
    result = extract(lambda X: (net(X) > 0).astype(int), 64, rng=0)
    assert result.status is Status.EXACT and same(result, net)
    assert result.queries < 55 * 64 * 4 + 16_000  # four normals, and what they lead to


def test_in_a_box() -> None:
    net = two_sided(4, 6)
    low, high = np.full(6, -4.0), np.full(6, 5.0)
    asked = []

    def f(X: Array) -> Array:
        asked.append(X)
        return np.asarray(net(X) > 0)

    result = extract(f, 6, low=low, high=high, rng=0)
    X = np.vstack(asked)
    assert X.min() >= -4 and X.max() <= 5
    assert result.status is Status.EXACT and same(result, net)


@pytest.mark.parametrize("zero_is_positive", [False, True])
def test_without_an_output_bias_the_boundary_runs_along_units(zero_is_positive: bool) -> None:
    """Outputs are zero wherever no unit is on: a class of its own, if zero has the one or other."""
    net = of_norm_one(pn.random_network(4, 6, rng=1))
    f = lambda X: net(X) >= 0 if zero_is_positive else net(X) > 0  # noqa: E731
    X = np.random.default_rng(0).standard_normal((2000, 6))
    assert np.sum(net(X) == 0) > 0
    result = extract(f, 6, rng=0)
    assert result.status is Status.EXACT and same(result, net)


def test_two_units_bend_the_boundary_once_each_so_their_number_must_be_told() -> None:
    net = of_norm_one(pn.Network([[1, 0, 1.0], [0, 1, -1]], [0.3, 0.2], [1, 2.0], -1.0))
    f = lambda X: (net(X) > 0).astype(int)  # noqa: E731
    open_number, told = extract(f, 3, rng=0), extract(f, 3, units=2, rng=0)
    assert open_number.status is Status.PARTIAL and open_number.claim is Claim.BOUNDARY
    assert "units=2" in open_number.message
    assert told.status is Status.EXACT and same(told, net)


def test_what_is_linear_on_all_of_the_boundary_is_no_unit() -> None:
    net = two_sided(4, 6).replace(linear=np.arange(6.0) / 6)
    result = extract(lambda X: net(X) > 0, 6, rng=0)
    assert result.status is Status.PARTIAL and result.claim is Claim.BOUNDARY
    X = 3 * np.random.default_rng(0).standard_normal((5000, 6))
    assert ((result.network(X) > 0) == (net(X) > 0)).all()


def test_a_straight_boundary() -> None:
    X = np.random.default_rng(0).standard_normal((200, 3))
    model = LinearSVC(random_state=0).fit(X, np.where(X @ [1, 2, 3] > 0.5, "b", "a"))
    result = extract(model, rng=0)
    assert result.status is Status.PARTIAL and "one hyperplane" in result.message
    ratio = result.network.linear / model.coef_[0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


FEATURES = 4


def curved(seed: int) -> Callable[[Array], Array]:
    rng = np.random.default_rng(seed)
    W, b, a = rng.standard_normal((3, FEATURES)), rng.standard_normal(3), rng.standard_normal(3)
    return lambda X: np.tanh(X @ W.T + b) @ a


OTHERS: dict[str, Callable[[Array], Array]] = {
    "tanh": curved(0),
    "a quadratic": lambda X: np.sum(X[:, :2] ** 2, axis=1) + X[:, 2] - 1,
    "two hidden layers": pn.random_network((3, 3), FEATURES, rng=1),
    "a largest of several": lambda X: np.max(X[:, :3], axis=1) - 0.5,
    "halfspaces": lambda X: np.min(X + 0.7, axis=1),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_such_network_is_no_success(kind: str) -> None:
    values = OTHERS[kind](np.random.default_rng(5).standard_normal((501, FEATURES)))
    cut = np.mean(np.quantile(values, (0.4, 0.6)))
    result = extract(lambda X: OTHERS[kind](X) > cut, FEATURES, rng=0)
    assert not result.success


def test_a_tree_is_no_success() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, X[:, 0] + X[:, 1] > 0)
    assert not extract(tree.predict, 2, rng=0).success


def test_noise_on_the_classes_is_no_success() -> None:
    net = two_sided(3, 4)
    result = extract(lambda X: (net(X) > 0) ^ (np.sin(1e7 * X.sum(axis=1)) > 0.995), 4, rng=0)
    assert not result.success


def test_one_class_is_told() -> None:
    result = extract(lambda X: np.full(len(X), "always"), 3, rng=0)
    assert result.status is Status.FAILED and "the same class" in result.message


def test_more_classes_than_two_are_named() -> None:
    names = np.array(["a", "b", "c"])
    with pytest.raises(pn.InvalidInput) as error:
        extract(lambda X: names[np.clip(X[:, 0].round().astype(int) + 1, 0, 2)], 2, rng=0)
    is_a_sentence(error, "'a'", "two classes")


def test_names_are_not_kept_in_a_cache(tmp_path: Path) -> None:
    oracle = open_oracle(lambda X: np.full(len(X), "a"), 2, cache=tmp_path / "answers")
    with pytest.raises(pn.InvalidInput) as error:
        oracle.ask([[0.0, 1.0]])
    is_a_sentence(error, "leave cache out")


def test_a_budget_that_is_too_small_says_how_far_it_came() -> None:
    net = two_sided(4, 6)
    result = extract(lambda X: net(X) > 0, 6, budget=3000, rng=0)
    assert result.status is Status.FAILED and result.queries <= 3000
    assert "raise budget" in result.message and "of the boundary" in result.message


def test_a_cache_answers_the_second_time(tmp_path: Path) -> None:
    net, asked = two_sided(1, 2), []

    def f(X: Array) -> Array:
        asked.append(len(X))
        return (net(X) > 0).astype(int)

    options = {"rng": 0, "cache": tmp_path / "answers"}
    first = extract(f, 2, **options)
    number = sum(asked)
    again = extract(f, 2, **options)
    assert number > 100 and sum(asked) - number == 8  # it is asked whether it is the same model
    assert again.queries == first.queries + 8


def test_numbers_that_are_mostly_two_are_no_classes() -> None:
    """A limited function is 0 or 1 at most inputs; the numbers between show that it is none."""
    result = extract(lambda X: np.clip(1000 * X[:, 0] + 0.5, 0, 1), 2, rng=0)
    assert result.method != "boundary"


def saved_as_classes(net: pn.Network, path: Path) -> Path:
    """An ONNX model that answers with whole numbers: 1 where the network is positive."""
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node
    arrays = {"W": net.weights.T, "b": net.biases, "a": net.output_weights[:, None]}
    arrays["c"] = np.array([-float(net.output_bias)])
    graph = onnx.helper.make_graph(
        [
            node("MatMul", ["x", "W"], ["w"]),
            node("Add", ["w", "b"], ["z"]),
            node("Relu", ["z"], ["h"]),
            node("MatMul", ["h", "a"], ["u"]),
            node("Greater", ["u", "c"], ["yes"]),
            node("Cast", ["yes"], ["label"], to=onnx.TensorProto.INT64),
        ],
        "classes",
        [value("x", onnx.TensorProto.DOUBLE, ["n", net.features])],
        [value("label", onnx.TensorProto.INT64, ["n", 1])],
        [onnx.numpy_helper.from_array(array.copy(), name) for name, array in arrays.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)
    return path


def test_an_onnx_model_that_answers_with_classes_on_the_command_line(tmp_path: Path) -> None:
    path = saved_as_classes(two_sided(3, 4), tmp_path / "model.onnx")
    found = CliRunner().invoke(app, ["extract", str(path), "--budget", "1500", "--json"])
    answer = json.loads(found.stdout)
    assert found.exit_code == 3 and answer["method"] == "boundary"
    assert answer["claim"] == "boundary" and "of the boundary" in answer["message"]
