"""`link=` through the door: networks out of probabilities, and which link it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import provenet as pn
from helpers import is_a_sentence
from provenet.certify.checks import Status
from provenet.certify.found_link import ByLink, best_by_link
from provenet.cli.app import app

X = np.random.default_rng(5).standard_normal((800, 6))
LOGIT = pn.random_network(3, 6, rng=1).replace(link="logit")
SOFTMAX = pn.random_network(3, 6, outputs=3, rng=2).replace(link="softmax")


def labels(net: pn.Network, kind: str) -> Any:
    p = net.predict_proba(X)
    if kind == "one column":
        return p[:, 1]
    return {"single": p.astype("float32"), "six digits": np.round(p, 6)}.get(kind, p)


@pytest.mark.parametrize(
    ("net", "kind", "allowed"),
    [
        (LOGIT, "one column", 1e-13),
        (LOGIT, "two columns", 1e-13),
        (LOGIT, "single", 1e-6),
        (LOGIT, "six digits", 1e-5),
        (SOFTMAX, "classes", 1e-13),
        (SOFTMAX, "single", 1e-6),
    ],
)
def test_probabilities_tell_the_network(net: pn.Network, kind: str, allowed: float) -> None:
    """To the digits that the labels have: some hundred times their rounding."""
    result = pn.recover(X, labels(net, kind), rng=0)
    assert result.success and result.network.link == net.link
    assert (result.status == "exact") == (allowed == 1e-13)
    assert pn.parameter_error(result.network, net) < allowed
    assert "taken for probabilities" in result.message
    p = net.predict_proba(X)
    np.testing.assert_allclose(result.network.predict_proba(X), p, rtol=0, atol=allowed)


def test_saturated_labels_are_left_out() -> None:
    net = LOGIT.replace(output_weights=30 * LOGIT.output_weights)
    Z = np.random.default_rng(5).standard_normal((2000, 6))
    assert np.mean(np.abs(net(Z)) > 40) > 0.2
    result = pn.recover(Z, net.predict_proba(Z), rng=0)
    assert result.status == "exact"
    assert pn.parameter_error(result.network, net) < 1e-11  # of numbers near 30


def test_outputs_between_0_and_1_are_not_taken_for_probabilities() -> None:
    Z = np.random.default_rng(0).uniform(-1, 1, (600, 3))
    net = pn.random_network(2, 3, rng=3)
    y = net(Z)
    net = net.replace(
        output_weights=net.output_weights / (2 * np.ptp(y)),
        output_bias=0.2 - y.min() / 2 / np.ptp(y),
    )
    result = pn.recover(Z, net(Z), rng=0, budget=8.0)
    assert result.status == "exact" and result.network.link == "identity"
    assert pn.parameter_error(result.network, net) < 1e-13
    (told,) = [check for check in result.checks if check.name == "the link is told"]
    assert told.holds and "with logit failed" in str(told.measured)


def test_labels_of_one_digit_do_not_tell_the_link() -> None:
    """Nearly linear between 0.3 and 0.7, a logit is as good as none: that is no success."""
    Z = np.random.default_rng(0).standard_normal((120, 2))
    net = pn.Network([[1.0, 0.5]], [0.2], [0.3], -0.2, link="logit")
    result = pn.recover(Z, np.round(net.predict_proba(Z)[:, 1], 1), rng=0, budget=6.0)
    assert not result.success


def test_a_link_whose_answer_is_no_success_is_not_ruled_out_by_that() -> None:
    """Its search may have been too short: what counts is how well it explains the labels."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((200, 1))
    net = pn.Network([[1.0]], [0.2], [0.8], -0.4, link="logit")
    y = net.predict_proba(Z)[:, 1] + 0.03 * rng.standard_normal(200)
    other = pn.recover(Z, y, link="identity", rng=0)
    assert other.success
    own = replace(other, network=net, status=Status.PARTIAL)
    found = best_by_link([ByLink("logit", own), ByLink("identity", other)], Z, y)
    assert found.status == "partial" and "with logit as well" in found.message


def test_a_link_by_name() -> None:
    p = expit_of_both = LOGIT.predict_proba(X)[:, 1]
    result = pn.recover(X, np.column_stack([p, 1 - expit_of_both]), link="logit", rng=0)
    assert result.network.link == "logit"  # 1 - p is the column of class 1
    both = pn.random_network(3, 6, outputs=2, rng=7).replace(link="logit")
    y = np.column_stack([both.predict_proba(X), np.full(len(X), 0.5)])[:, :2]
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(X, y, link="logit")
    is_a_sentence(error, "sums to")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"link": "probit"}, ("identity, logit, softmax", "'probit'")),
        ({"link": "softmax"}, ("column for every class",)),
        ({"link": "logit", "method": "halfspaces"}, ("halfspaces", "link='identity'")),
    ],
)
def test_links_that_cannot_be(options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(X, labels(LOGIT, "one column"), **options)
    is_a_sentence(error, *words)


def test_a_function_that_makes_its_samples_has_no_link() -> None:
    source = pn.QuerySource(lambda Z: LOGIT.predict_proba(Z)[:, 1], 6, rng=0)
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(source, link="logit")
    is_a_sentence(error, "provenet.extract")


def test_the_command_line(tmp_path: Path) -> None:
    samples, truth, out = (tmp_path / name for name in ("s.npz", "truth.npz", "found.onnx"))
    np.savez(samples, X=X, y=LOGIT.predict_proba(X))
    LOGIT.save(truth)
    words = ["recover", str(samples), "--truth", str(truth), "--out", str(out), "--link", "logit"]
    ran = CliRunner().invoke(app, [*words, "--report", str(tmp_path / "page.html")])
    assert ran.exit_code == 0, ran.output
    assert pn.load_network(out).link == "logit"
    assert "probabilities" in ran.output
