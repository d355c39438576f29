"""Cells of networks: derivatives and kinks against differences of values."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from provenet.networks.network import Network
from provenet.networks.piecewise import (
    gradient,
    inputs_of_units,
    kinks_along,
    row_gradients,
    slopes,
)

NETS: dict[str, Network] = {
    "one layer": pn.random_network(5, 4, rng=0),
    "a linear term": pn.random_network(5, 4, rng=0).replace(linear=np.arange(4.0)),
    "two layers": deep(4, 6, 5, 1),
    "four layers, outputs": deep(4, 6, 5, 7, 3, 2),
}
STEP = 1e-7
X = np.random.default_rng(1).standard_normal((6, 4))


@pytest.mark.parametrize("name", NETS)
def test_gradients_are_differences(name: str) -> None:
    net = NETS[name]
    for x in X:
        moved = net(x + STEP * np.eye(4)).reshape(4, -1) - net(x[None]).reshape(1, -1)
        for output in range(moved.shape[1]):
            own = gradient(net, x, output)
            np.testing.assert_allclose(own, moved[:, output] / STEP, atol=1e-6)  # eps / STEP


@pytest.mark.parametrize("name", NETS)
def test_row_gradients_are_differences_of_what_goes_into_units(name: str) -> None:
    net = NETS[name]
    z = inputs_of_units(net, X)
    for layer, width in enumerate(net.widths):
        for unit in range(width):
            rows = row_gradients(net, z, layer, unit)
            for x, own, at in zip(X, rows, z[layer][:, unit], strict=True):
                moved = inputs_of_units(net, x + STEP * np.eye(4))[layer][:, unit]
                np.testing.assert_allclose(own, (moved - at) / STEP, atol=1e-6)


def test_slopes_say_what_a_unit_is_worth() -> None:
    """A bias of a unit that is on moves the outputs by the slope."""
    net = deep(4, 6, 5, 7, 3, 2)
    z = inputs_of_units(net, X)
    for layer, by_units in enumerate(slopes(net, z)):
        for unit in range(net.widths[layer]):
            biases = [b.copy() for b in net.biases]
            biases[layer][unit] += STEP
            moved = (net.replace(biases=biases)(X) - net(X)) / STEP
            on = z[layer][:, unit, None] > 0
            np.testing.assert_allclose(moved, by_units[:, :, unit] * on, atol=1e-6)


@pytest.mark.parametrize("name", NETS)
def test_between_kinks_every_unit_stays_as_it_is(name: str) -> None:
    net = NETS[name]
    rng = np.random.default_rng(0)
    for _ in range(5):
        origin, direction = rng.standard_normal((2, 4))
        kinks = kinks_along(net, origin, direction, -5.0, 5.0)
        dense = np.linspace(-5, 5, 20_001)
        z = inputs_of_units(net, origin + dense[:, None] * direction)
        patterns = np.hstack(z) > 0
        changes = np.flatnonzero((patterns[1:] != patterns[:-1]).any(axis=1))
        between = [np.searchsorted(dense, t) - 1 for t in kinks.places]
        assert set(changes) <= set(between)  # no switch is missed
        first = np.cumsum([0, *net.widths])
        at = inputs_of_units(net, origin + kinks.places[:, None] * direction)
        own = np.hstack(at)[np.arange(len(kinks)), first[kinks.layers] + kinks.units]
        assert len(kinks) and np.abs(own).max() < 1e-12  # each is where its unit is zero


def test_a_line_of_no_length_has_no_kinks() -> None:
    assert len(kinks_along(NETS["two layers"], X[0], X[1], 1.0, 1.0)) == 0
