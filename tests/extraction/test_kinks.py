"""Units from kinks, and units measured again where there is room."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.progress import Stages
from provenet.common.typing import Array
from provenet.extraction.box import Box
from provenet.extraction.gradients import measured_pieces
from provenet.extraction.kinks import start_tracing
from provenet.extraction.segments import Segment
from provenet.extraction.sharpen import sharpened
from provenet.extraction.tolerances import BOUND, EPS
from provenet.extraction.units import Pieces, Units


def network(seed: int, features: int = 12, units: int = 6) -> pn.Network:
    return pn.random_network(units, features, bias_scale=1.5, rng=seed).replace(output_bias=0.3)


def as_units(net: pn.Network) -> Units:
    nothing = np.zeros((1, net.features))
    constant = np.array([net.output_bias])
    return Units(net.weights, net.biases, net.output_weights[None], nothing, constant)


def hyperplanes(W: Array, b: Array) -> Array:
    """Sorted, whatever the signs of the units."""
    sign = np.where(W[:, :1] < 0, -1.0, 1.0)
    planes = np.column_stack([W, b]) * sign
    return np.asarray(planes[np.argsort(planes[:, 0])])


@pytest.mark.parametrize("seed", range(4))
def test_units_have_the_hyperplanes_of_the_network(seed: int) -> None:
    net, rng = network(seed), np.random.default_rng(seed)
    box = Box.of(None, None, net.features)
    checks = box.sample(30, rng)
    tracing = start_tracing(lambda X: net(X)[:, None], checks, box, rng)
    traced = tracing.run(lambda m: 10**9, Stages())
    own, found = (hyperplanes(n.W, n.b) for n in (as_units(net), traced.units))
    np.testing.assert_allclose(
        found, own, atol=1e-10
    )  # sharpened to 1e-10 a unit, by an estimate that is some times the error
    assert traced.errors.max() < 1e-10 and np.abs(traced.left).max() < 1e-10


def test_errors_are_not_underestimated() -> None:
    """Without room for more questions: `BOUND` times the estimate must cover the true error."""
    for seed in range(10):
        net, rng = network(seed, 20, 10), np.random.default_rng(seed)
        box = Box.of(None, None, net.features)
        checks = box.sample(5, rng)
        tracing = start_tracing(lambda X, net=net: net(X)[:, None], checks, box, rng)
        traced = tracing.run(lambda m: 0, Stages(), lines=1)
        if len(traced.units) != net.units or not traced.complete:
            continue
        own, found = (hyperplanes(n.W, n.b) for n in (as_units(net), traced.units))
        assert np.abs(found - own).max() < BOUND * traced.errors.max()


@pytest.mark.parametrize("times", [1.0, 16.0])
def test_errors_are_those_of_the_rounding_that_is_met(times: float) -> None:
    """Coarser answers are seen by what steps along lines miss; estimates follow, near the truth."""
    net, rng = network(0, 60, 12), np.random.default_rng(0)
    noise, box = np.random.default_rng(1), Box.of(None, None, net.features)

    def f(X: Array) -> Array:
        y = net(X)[:, None]
        return y * (1 + times * EPS * noise.standard_normal(y.shape))

    traced = start_tracing(f, box.sample(5, rng), box, rng).run(lambda m: 0, Stages(), lines=1)
    own, found = (hyperplanes(n.W, n.b) for n in (as_units(net), traced.units))
    true = np.abs(found - own).max()
    assert len(own) == len(found)
    # Over 40 seeds the bound is 1.8 to 300 times the largest entry that is off, 12 in the median.
    assert true < BOUND * traced.errors.max() < 600 * true


def test_large_networks_take_little_more_than_a_question_a_parameter() -> None:
    """Of 200 features and 16 units: 17 gradients, few of them twice, and some 600 fixed ones."""
    net = pn.random_network(16, 200, rng=0)
    result = pn.extract(net, 200, rng=0)
    assert result.success and pn.parameter_error(result.network, net) < 1e-9
    assert result.queries is not None and result.queries < 1.35 * net.free_parameters + 600


def test_the_same_unit_met_twice_is_one() -> None:
    units = as_units(network(0))
    X = np.random.default_rng(0).standard_normal((50, 12))
    reversed_ = Units(-units.W, -units.b, units.A, units.linear, units.constant)
    both = units + reversed_
    assert len(both) == len(units)
    np.testing.assert_allclose(both(X), units(X) + reversed_(X), atol=1e-12)
    minus = Units(units.W, units.b, -units.A, units.linear, -units.constant)
    assert len(units + minus) == 0


def test_affine_functions_and_patterns_are_the_function() -> None:
    units = as_units(network(1))
    X = np.random.default_rng(1).standard_normal((20, 12))
    pieces = np.einsum("nm,mod->nod", units.pattern(X), units.affine)
    values = np.einsum("nod,nd->no", pieces[:, :, :-1], X) + pieces[:, :, -1]
    np.testing.assert_allclose(values, units(X), atol=1e-12)
    again = units.with_affine(units.affine)
    np.testing.assert_allclose(again(X), units(X), atol=1e-12)


def test_rounding_taken_for_a_unit_earns_no_questions() -> None:
    """What may be asked is counted for the units that are left once it is dropped."""
    net, rng = network(2), np.random.default_rng(2)
    units, box = as_units(net), Box.of(None, None, net.features)
    X = box.sample(80, rng)
    affine = np.einsum("nm,mod->nod", units.pattern(X), units.affine)
    believed = np.ones(len(X), dtype=bool)
    each, none = np.full(len(X), 1e-12), np.full(len(X), np.nan)
    pieces = Pieces(X, affine[:, :, :-1], affine[:, :, -1], each, believed, np.ones(len(X)), none)
    nothing = Units(
        np.eye(1, net.features), np.zeros(1), np.array([[1e-13]]), units.linear, np.zeros(1)
    )
    counted: list[int] = []

    def spare(number: int) -> int:
        counted.append(number)
        return 0

    both = units + nothing
    found, _ = sharpened(lambda X: net(X)[:, None], both, pieces, box, spare, rng)
    assert len(both) == net.units + 1 and len(found.units) == net.units
    assert counted == [net.units]


def test_a_gradient_whose_steps_cross_a_kink_is_measured_again() -> None:
    """A kink 0.005 from the point is crossed by a first step along an axis, a hundredth long."""

    def f(X: Array) -> Array:
        return (np.maximum(X[:, 0], 0) + 3 * np.maximum(X[:, 1] - 0.005, 0))[:, None]

    line = Segment(np.zeros(2), np.array([1.0, 1.0]) / np.sqrt(2), (-1.0, 1.0), 1.0)
    place, box = np.array([[1.0, 0.0]]), Box.of(None, None, 2)
    first = measured_pieces(f, line, place, np.array([0.01]), box)
    assert not first.believed[0]
    assert abs(first.gradients[0, 0, 1] - 1.5) < 1e-9  # half of the step is beyond the kink
    shorter = measured_pieces(f, line, place, np.array([0.001]), box)
    assert shorter.believed[0]
    np.testing.assert_allclose(shorter.gradients[0, 0], [1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("half", [0.5, 1.0])
def test_in_a_box_lines_go_on_while_they_explain_more(half: float) -> None:
    """No line in it meets all units: 6 or more are followed, each for units that are missing."""
    net = pn.random_network(10, 20, rng=3)
    result = pn.extract(net, 20, low=-half, high=half, layers=1, rng=3)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, net) < 1e-8  # each unit relatively to 1e-9


def test_a_gradient_measured_over_a_kink_spoils_no_units() -> None:
    """One of 22 is off by a third of the smallest unit: least squares with it explained nothing."""
    net = pn.random_network(16, 30, rng=0)
    result = pn.extract(net, 30, low=-2.0, high=2.0, layers=1, rng=0)
    assert result.status is pn.Status.EXACT and pn.parameter_error(result.network, net) < 1e-9


def test_units_without_a_kink_in_the_box_are_a_linear_term() -> None:
    """Of 16 units some are always on, others off: the function is exact, and that is said."""
    net = pn.random_network(16, 30, rng=1)
    half = 0.05
    result = pn.extract(net, 30, low=-half, high=half, layers=1, rng=1)
    X = np.random.default_rng(0).uniform(-half, half, (2000, 30))
    assert result.status is pn.Status.PARTIAL and "the function is exact" in result.message
    assert any("without a kink" in open_ for open_ in result.ambiguities)
    assert np.abs(result.network(X) - net(X)).max() < 1e-9 * np.ptp(net(X))


def test_steps_stay_in_a_box_of_uneven_sides() -> None:
    """As the ranges of real data are: a step that suits one feature leaves another."""
    box = Box(np.array([0.0, -1e-3, 100.0]), np.array([1.0, 1e-3, 4e3]))
    X = box.sample(200, np.random.default_rng(0))
    for size in (1e-4, 0.3, 50.0):
        steps = box.steps(X, np.full(X.shape, size))
        assert box.contains(X + steps).all() and (steps != 0).all()
        inside = (X + size <= box.high) | (X - size >= box.low)
        np.testing.assert_array_equal(np.abs(steps[inside]), size)


def test_a_box_of_uneven_sides_is_no_exception() -> None:
    low, high = np.array([0.0, -1e-3, 100.0]), np.array([1.0, 1e-3, 4e3])
    net = pn.random_network(4, 3, rng=0)
    W = net.weights / (high - low)
    net = net.replace(weights=W, biases=net.biases - W @ (low + high) / 2)
    result = pn.extract(net, low=low, high=high, rng=0, seconds=20)
    X = Box(low, high).sample(1000, np.random.default_rng(1))
    assert not result.success or np.abs(result.network(X) - net(X)).max() < 1e-8 * net(X).std()
