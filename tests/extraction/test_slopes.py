"""Units that are not zero below their kink: leaky ReLU and absolute values, found as such."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.certify.asked import conclude_traced
from provenet.common.typing import Array
from provenet.extraction import candidate as candidates


@pytest.mark.parametrize("slope", ["leaky_relu(0.1)", "leaky_relu(-0.4)", "abs"])
@pytest.mark.parametrize("units, features, outputs", [(5, 10, None), (9, 3, None), (6, 3, 2)])
def test_a_slope_is_found(slope: str, units: int, features: int, outputs: Any) -> None:
    net = pn.random_network(units, features, outputs=outputs, activation=slope, rng=0)
    result = pn.extract(net, rng=0)
    assert result.status is pn.Status.EXACT, result.message
    assert pn.parameter_error(result.network, net) < 1e-9  # of what is called exact
    assert result.network.activation.slope == pytest.approx(net.activation.slope, abs=1e-9)
    assert "below zero" in result.message
    assert "one slope of all units explains the linear part" in [c.name for c in result.checks]


def with_skip(units: int, features: int, seed: int) -> list[pn.Network]:
    """ReLU units beside a linear term: any, one made of the units, one slope but for one unit."""
    net = pn.random_network(units, features, rng=seed)
    rng = np.random.default_rng(seed)
    terms = net.output_weights[:, None] * net.weights
    linear: list[Array] = [
        rng.standard_normal(features),
        rng.standard_normal(units) @ terms,
        0.1 * terms[1:].sum(axis=0),
    ]
    return [net.replace(linear=term) for term in linear]


@pytest.mark.parametrize("units, features", [(2, 2), (3, 6), (6, 3)])
def test_a_linear_term_is_no_slope(units: int, features: int) -> None:
    for net in with_skip(units, features, seed=0):
        result = pn.extract(net, rng=0)
        assert result.status is pn.Status.PARTIAL, result.message
        assert result.network.activation.name == "relu" and result.network.linear is not None


def test_one_unit_tells_no_slope_unless_its_kind_is_known() -> None:
    """Two ReLU units on one hyperplane are the same function for any slope."""
    net = pn.random_network(1, 5, activation="leaky_relu(0.3)", rng=0)
    for told, status in (
        ("auto", pn.Status.PARTIAL),
        ("relu", pn.Status.PARTIAL),
        ("leaky_relu(0.2)", pn.Status.PARTIAL),
        ("leaky_relu", pn.Status.EXACT),
        ("leaky_relu(0.3)", pn.Status.EXACT),
    ):
        result = pn.extract(net, activation=told, rng=0)
        assert result.status is status, (told, result.message)
        if status is pn.Status.PARTIAL:
            assert 'activation="leaky_relu"' in result.message
        else:
            assert pn.parameter_error(result.network, net) < 1e-9


@pytest.mark.parametrize("slope", [1e-8, 1e-9])
def test_a_slope_at_the_edge_of_what_is_rounding_is_no_success(slope: float) -> None:
    """It is too small for a linear term and too large for the points that may refute ReLU."""
    net = pn.random_network(4, 6, activation=f"leaky_relu({slope})", rng=1)
    result = pn.extract(net, rng=0)
    assert not result.success or pn.parameter_error(result.network, net) < 1e-8


def test_a_slope_that_few_equations_tell_is_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge believes a slope only with bits to spare."""
    found: list[Any] = []
    own = candidates._candidate

    def kept(*given: Any) -> Any:
        found.append(own(*given))
        return found[-1]

    monkeypatch.setattr(candidates, "_candidate", kept)
    net = pn.random_network(4, 6, activation="leaky_relu(0.1)", rng=0)
    assert pn.extract(net, rng=0).status is pn.Status.EXACT
    doubtful = found[-1].__class__(**{**vars(found[-1]), "spare_bits": 5.0})
    result = conclude_traced(doubtful)
    assert result.status is pn.Status.PARTIAL and "might do as well" in result.message
