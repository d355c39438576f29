"""The kind of a model's answers, from networks that are known."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.extraction.box import Box
from provenet.extraction.oracle import open_oracle
from provenet.extraction.probing import AnswerKind, probe

SEEDS = range(20)


def kinds(net: pn.Network) -> list[AnswerKind]:
    """What some seeds say."""
    oracle = open_oracle(net, net.features)
    box = Box.of(oracle.low, oracle.high, net.features)
    return [probe(oracle, box, np.random.default_rng(seed)).kind for seed in SEEDS]


def steep(activation: str, norm: float) -> pn.Network:
    net = pn.random_network(5, 6, activation=activation, rng=0)
    return net.replace(
        weights=net.weights * (norm / np.linalg.norm(net.weights, axis=1))[:, None],
        biases=net.biases * norm,
    )


@pytest.mark.parametrize("activation", ["tanh", "gelu", "elu"])
def test_smooth_units_bend(activation: str) -> None:
    assert set(kinds(steep(activation, 2.0))) == {AnswerKind.SMOOTH}


def test_steep_units_are_seen_though_most_segments_are_flat() -> None:
    """Norms of 100: 19 of 20 seeds see it, 9 of 20 by the median of the segments."""
    assert kinds(steep("tanh", 100.0)).count(AnswerKind.SMOOTH) >= 17


@pytest.mark.parametrize("units", [5, 300])
def test_kinks_are_no_bends(units: int) -> None:
    assert set(kinds(pn.random_network(units, 6, rng=1))) == {AnswerKind.EXACT}
