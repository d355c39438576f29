"""Classifiers that may be asked: their networks, with the link, where they are not saturated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier
from typer.testing import CliRunner

import provenet as pn
from helpers import is_a_sentence
from provenet.certify.checks import Status
from provenet.cli.app import app
from provenet.common.typing import Array
from provenet.extract import extract
from provenet.extraction.box import Box
from provenet.extraction.linked import LinkedOracle, link_of, outputs_of, unsaturated_box
from provenet.extraction.oracle import open_oracle
from provenet.extraction.unsaturated import beyond_the_box

TRACED = 1e-10
"""Errors of units traced in double precision, of logits known to some 1e-12."""


def logits(units: int = 4, features: int = 6, scale: float = 1.0, seed: int = 0) -> pn.Network:
    net = pn.random_network(units, features, rng=seed)
    return net.replace(output_weights=scale * net.output_weights, link="logit")


def one(net: Any) -> Any:
    return lambda X: net.predict_proba(X)[:, 1]


def subtracted(net: Any) -> Any:
    """As scikit-learn has it: the first column is `1 - p`."""
    return lambda X: np.column_stack([1 - net.predict_proba(X)[:, 1], net.predict_proba(X)[:, 1]])


@pytest.mark.parametrize("answers", [one, subtracted, lambda net: net.predict_proba])
@pytest.mark.parametrize("seed", [0, 1])
def test_two_classes(answers: Any, seed: int) -> None:
    net = logits(seed=seed)
    result = extract(answers(net), 6, rng=0)
    assert result.status is Status.EXACT and result.network.link == "logit"
    assert pn.parameter_error(result.network, net) < TRACED
    assert "probabilities of other inputs are predicted" in {c.name for c in result.checks}
    assert any("where the model is not saturated" in text for text in result.ambiguities)


def test_a_few_answers_between_0_and_1_are_no_probabilities() -> None:
    """Later ones lie beyond: that was taken for wrong input."""
    oracle, rng = open_oracle(lambda X: X[:, 0] ** 2 / 2, 1), np.random.default_rng(0)
    first, box = oracle.ask([[0.1], [0.5], [1.2]])[:, None], Box.of(None, None, 1)
    assert link_of(first, oracle, "auto", exact=False, box=box, rng=rng) == "identity"


def test_three_classes_and_a_deep_network() -> None:
    net = pn.random_network(4, 6, outputs=3, rng=2).replace(link="softmax")
    result = extract(net.predict_proba, 6, rng=0)
    assert result.status is Status.EXACT and pn.parameter_error(result.network, net) < TRACED
    deep = pn.random_network((5, 3), 6, rng=0).replace(link="logit")
    result = extract(deep.predict_proba, 6, rng=0)
    assert result.status is Status.EXACT and pn.parameter_error(result.network, deep) < TRACED


def test_single_precision() -> None:
    net = pn.random_network(3, 5, outputs=3, rng=2).replace(link="softmax")
    result = extract(lambda X: net.predict_proba(X).astype("float32"), 5, rng=0)
    assert result.status is Status.WITHIN_NOISE
    assert pn.parameter_error(result.network, net) < 1e-5  # a hundred roundings


def test_a_classifier_of_scikit_learn_that_is_mostly_saturated() -> None:
    """Its units cannot all be seen in one box: random inputs that are not saturated are fitted."""
    net = logits(scale=20.0, seed=3)
    model = net.to_mlp_classifier()
    Z = np.random.default_rng(0).standard_normal((1000, 6))
    assert np.mean(np.abs(net(Z)) > 9) > 0.5
    assert isinstance(model, MLPClassifier)
    result = extract(model, rng=0)
    assert result.status is Status.EXACT
    assert pn.parameter_error(result.network, net) < 1e-9  # of output weights near 20


def test_a_unit_that_is_off_in_all_of_the_box_is_missed_by_a_check() -> None:
    net = logits()
    missing = net.keep(np.arange(3))
    oracle, box = open_oracle(one(net), 6), Box.of(None, None, 6)
    found = extract(missing.predict_proba, 6, rng=0)
    assert found.success
    result = beyond_the_box(found, oracle, box, np.random.default_rng(0))
    assert result.status is Status.PARTIAL and "kinks lie elsewhere" in result.message
    spent = open_oracle(one(net), 6, budget=5)
    assert not beyond_the_box(found, spent, box, np.random.default_rng(0)).success


def test_outputs_between_0_and_1_that_are_no_probabilities() -> None:
    net = pn.Network([[1.0, 0.5, 0.0], [0.0, 1.0, 2.0]], [0.1, -0.2], [0.01, -0.02], 0.5)
    result = extract(net, 3, rng=0)
    assert result.status is Status.EXACT and result.network.link == "identity"


def test_the_box_is_where_probabilities_tell_the_outputs() -> None:
    """Around the boundary, if the model is saturated in the middle: small p keep their digits."""
    net = pn.Network([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0], [40.0, -40.0], 80.0, link="logit")
    oracle = open_oracle(subtracted(net), 2)
    box = unsaturated_box(oracle, Box.of(None, None, 2), np.random.default_rng(0))
    assert box is not None
    corners = np.array(
        [[x, y] for x in (box.low[0], box.high[0]) for y in (box.low[1], box.high[1])]
    )
    assert net(corners).max() < 10 and box.low[0] < -2 < box.high[0]
    asked = LinkedOracle(oracle, "logit", box)
    np.testing.assert_allclose(asked.ask(corners), net(corners), rtol=0, atol=1e-11)
    assert asked.used == oracle.used and asked.outputs is None
    flat = open_oracle(lambda X: np.full(len(X), 1.0), 2)
    assert unsaturated_box(flat, Box.of(None, None, 2), np.random.default_rng(0)) is None


def test_a_model_that_is_saturated_everywhere() -> None:
    result = extract(lambda X: np.tile([0.0, 1.0], (len(X), 1)), 2, rng=0)
    assert result.status is Status.FAILED and "0 or 1" in result.message


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_outputs_of_probabilities(columns: int) -> None:
    u = np.random.default_rng(0).normal(0, 3, (50, max(columns, 1)))
    if columns == 3:
        p: Array = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(
            outputs_of(p, "softmax"), u - u.mean(axis=1, keepdims=True), atol=1e-13
        )
        return
    p = 1 / (1 + np.exp(-u[:, 0]))
    given = p if columns == 1 else np.column_stack([1 - p, p])
    np.testing.assert_allclose(outputs_of(given, "logit"), u[:, 0], atol=1e-11)


@pytest.mark.parametrize(
    ("answers", "link", "words"),
    [
        (lambda X: X[:, 0], "logit", ("from 0 to 1", "identity")),
        (lambda X: np.full((len(X), 2), 0.7), "logit", ("sum to 1.4",)),
        (lambda X: np.full((len(X), 2), 0.5), "softmax", ("three classes",)),
        (lambda X: np.full((len(X), 3), 1 / 3), "logit", ("3 numbers", "logit")),
        (lambda X: X[:, 0], "probit", ("identity, logit, softmax",)),
    ],
)
def test_answers_that_are_no_probabilities(answers: Any, link: str, words: Any) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        extract(answers, 3, link=link, rng=0)
    is_a_sentence(error, *words)


def test_the_command_line_asks_a_classifier(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    net = logits(3, 4)
    model, out = tmp_path / "model.onnx", tmp_path / "found.npz"
    net.save(model)
    ran = CliRunner().invoke(app, ["extract", str(model), "--out", str(out), "--link", "logit"])
    assert ran.exit_code == 0, ran.output
    assert pn.parameter_error(pn.load_network(out), net) < TRACED


def test_units_beyond_typical_inputs_are_met_where_the_model_is_not_saturated() -> None:
    net = pn.Network([[1.0, 0.5], [-0.3, 1.0], [1.0, -0.2]], [0.2, -0.4, -7.0], [0.3, -0.4, 0.2])
    net = net.replace(link="logit", output_bias=0.1)
    result = extract(net.predict_proba, 2, rng=0)
    assert result.success and result.network.units == 3
    assert pn.parameter_error(result.network, net) < TRACED
