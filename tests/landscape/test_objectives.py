"""Objectives by name, from a network, from its population, from samples."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, PopulationSource
from provenet.landscape import OBJECTIVES, objective, sample_objective
from provenet.landscape.designed import Design
from provenet.landscape.losses import MomentLoss, PopulationLoss, SampleLoss
from provenet.landscape.objective import Objective
from provenet.landscape.objectives import choose_constants
from provenet.landscape.statistics import population_statistics

UNITS, FEATURES = 3, 4
by_name = pytest.mark.parametrize("name", OBJECTIVES)
ON_SPHERES = ("l2", "f2f4", "abs", "P'")


def a_truth(seed: int = 0, activation: str = "relu", features: int = FEATURES) -> pn.Network:
    """Unit rows, no biases, positive output weights."""
    rng = np.random.default_rng([seed, 1])
    net = pn.random_network(UNITS, features, bias_scale=0.0, rng=rng)
    return net.replace(output_weights=np.abs(net.output_weights), activation=activation)


def some_point(f: Objective, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, 2])
    return f.retract(rng.standard_normal((f.units, f.features)) / np.sqrt(f.features))


def test_the_names() -> None:
    assert set(OBJECTIVES) == {"l2", "f2f4", "abs", "P'", "G", "F", "F-undercomplete"}


@by_name
def test_a_network_and_its_population_are_the_same(name: str) -> None:
    truth = a_truth()
    one, other = objective(name, truth), objective(name, PopulationSource(truth, rng=0))
    assert (one.units, one.features) == (other.units, other.features) == (UNITS, FEATURES)
    assert one.unit_rows == other.unit_rows == (name in ON_SPHERES)
    # Rows are not orthogonal and fewer than features: only one theorem speaks of such networks.
    assert (one.theorem is not None) == (name == "F-undercomplete")
    B = some_point(one)
    assert one.value(B) == pytest.approx(other.value(B), rel=1e-12)
    np.testing.assert_allclose(one.gradient(B), other.gradient(B), rtol=0, atol=1e-11)


def slopes(name: str, seed: int) -> tuple[Array, Array]:
    """From samples with an output bias and from the population, at the same point."""
    truth = a_truth(seed)
    X, y = pn.sample(truth, 100_000, rng=np.random.default_rng([seed, 3]))
    sampled = objective(name, ArraySource(X, y + 5.0), units=UNITS)
    exact = objective(name, truth)
    if isinstance(sampled, Design) and isinstance(exact, Design):
        exact = Design(
            exact.statistics,
            sampled.constants,
            UNITS,
            euclidean=exact.euclidean,
            unit_rows=exact.unit_rows,
        )
    B = some_point(exact, seed)
    return sampled.slope(B), exact.slope(B)


# Sampling error over the slope's norm: over 30 seeds at most half of this. Most of the slope of G
# is its penalty, which has none.
ALLOWED = {"f2f4": 0.15, "P'": 0.4, "G": 0.005, "F": 0.15, "F-undercomplete": 0.15}


@pytest.mark.parametrize("name", list(ALLOWED))
def test_many_samples_have_nearly_the_population_objective(name: str) -> None:
    found, expected = slopes(name, 0)
    off = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert 1e-6 < off < ALLOWED[name]  # near, but not the population itself


@pytest.mark.parametrize("name", ["l2", "abs"])
def test_the_truth_is_nearly_a_minimum_of_the_losses_on_samples(name: str) -> None:
    """They have an output bias of their own, so they are not quite the population's."""
    truth = a_truth()
    X, y = pn.sample(truth, 100_000, rng=np.random.default_rng([0, 3]))
    f = objective(name, ArraySource(X, y + 5.0), units=UNITS)
    here, there = (np.linalg.norm(f.slope(B)) for B in (truth.weights, some_point(f)))
    assert here < 0.1 * there  # the linear part is noise to "abs"
    assert f.value(truth.weights) < y.var()  # the mean of the labels does not count
    np.testing.assert_allclose(
        f.output_weights_at(truth.weights),
        truth.output_weights,
        rtol=0,
        atol=0.05,
    )


def test_the_kinds_of_objectives() -> None:
    truth = a_truth()
    samples = ArraySource(*pn.sample(truth, 50_000, rng=np.random.default_rng([0, 4])))
    kinds = {
        name: (objective(name, truth), objective(name, samples, units=UNITS)) for name in OBJECTIVES
    }
    for name in ("l2", "abs"):
        assert isinstance(kinds[name][0], PopulationLoss)
        assert isinstance(kinds[name][1], SampleLoss)
    assert isinstance(kinds["f2f4"][1], MomentLoss)  # no samples are needed again
    for name in ("P'", "G", "F", "F-undercomplete"):
        for f in kinds[name]:
            assert isinstance(f, Design)
    assert kinds["G"][0].constants.ridge == 0.0
    assert kinds["F-undercomplete"][0].constants.ridge > 0.0
    # The safeguard is for samples alone.
    assert kinds["F"][0].constants.decorrelation == 0.0
    assert kinds["F"][1].constants.decorrelation > 0.0


def test_units_default_to_the_networks_or_the_features() -> None:
    truth = a_truth(features=3)
    assert objective("f2f4", truth).units == UNITS
    samples = ArraySource(*pn.sample(truth, 2000, rng=np.random.default_rng([0, 5])))
    assert objective("f2f4", samples).units == 3
    assert objective("f2f4", samples, units=2).units == 2
    assert objective("f2f4", truth, units=2).units == 2


def test_inputs_of_samples_are_standardised_first() -> None:
    """A linear map of the inputs, undone in the weights, changes nothing."""
    truth = a_truth(features=3)
    rng = np.random.default_rng([0, 6])
    X, y = pn.sample(truth, 50_000, rng=rng)
    L = np.tril(rng.standard_normal((3, 3))) + 2 * np.eye(3)
    for name in OBJECTIVES:
        one, other = (objective(name, ArraySource(Z, y)) for Z in (X, X @ L.T + 1.0))
        B = some_point(one)
        assert one.value(B) == pytest.approx(other.value(B), rel=1e-8)


def test_mu_and_output_weights_are_passed_on() -> None:
    truth = a_truth()
    f = objective("G", truth, mu=1e-3)
    assert isinstance(f, Design) and f.constants.mu == 1e-3
    a = np.array([1.0, 2.0, 3.0])
    for name in ("l2", "f2f4", "abs"):
        fixed = objective(name, truth, output_weights=a)
        np.testing.assert_array_equal(fixed.output_weights_at(truth.weights), a)


@pytest.mark.parametrize("activation", ["leaky_relu(0.1)", "abs", "relu"])
def test_the_abs_objective_takes_the_even_part_of_leaky_units(activation: str) -> None:
    """At the truth with its own output weights nothing even is left: the gradient vanishes."""
    truth = a_truth(activation=activation)
    f = objective("abs", truth, output_weights=truth.output_weights)
    np.testing.assert_allclose(f.slope(truth.weights), 0.0, rtol=0, atol=1e-12)
    odd = float(truth.activation.hermite(1, 0.0)) * truth.output_weights @ truth.weights
    assert f.value(truth.weights) == pytest.approx(odd @ odd, abs=1e-12)
    X, y = pn.sample(truth, 50, rng=np.random.default_rng([0, 7]))
    even = (y + truth(-X)) / 2
    own = sample_objective(
        "abs", X, even, UNITS, truth.activation, output_weights=truth.output_weights
    )
    assert own.value(truth.weights) == pytest.approx(0.0, abs=1e-25)


@by_name
def test_a_batch(name: str) -> None:
    """Of G and F with given constants; the others need none."""
    truth = a_truth()
    X, y = pn.sample(truth, 300, rng=np.random.default_rng([0, 8]))
    constants = None
    if name in ("G", "F", "F-undercomplete"):
        constants = choose_constants(name, population_statistics(truth), UNITS, truth.activation)
        with pytest.raises(pn.InvalidInput) as error:
            sample_objective(name, X, y, UNITS, truth.activation)
        is_a_sentence(error, "constants", repr(name))
    f = sample_objective(name, X, y, UNITS, truth.activation, constants=constants)
    assert (f.units, f.features) == (UNITS, FEATURES)
    assert f.unit_rows == (name in ON_SPHERES)
    if isinstance(f, Design) and constants is not None:
        assert f.constants is constants and f.euclidean == (name == "G")


def test_centred_units_do_not_see_an_output_bias() -> None:
    truth = a_truth()
    X, y = pn.sample(truth, 20_000, rng=np.random.default_rng([0, 9]))
    mean = float(truth.output_weights.sum() / np.sqrt(2 * np.pi))
    a = truth.output_weights
    plain = sample_objective("l2", X, y, UNITS, truth.activation, output_weights=a)
    centred = sample_objective(
        "l2", X, y - mean, UNITS, truth.activation, output_weights=a, centred=True
    )
    B = some_point(plain)
    assert centred.value(B) == pytest.approx(plain.value(B), rel=1e-10)
    np.testing.assert_allclose(centred.gradient(B), plain.gradient(B), rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", ["exp", "relu3", "relu"])
def test_the_loss_on_samples_has_the_hessian_of_its_units(activation: str) -> None:
    """The second derivative of smooth units counts: away from the truth it is not small."""
    truth = a_truth(activation=activation)
    X, y = pn.sample(truth, 200, rng=np.random.default_rng([0, 10]))
    f = sample_objective("l2", X, y, UNITS, truth.activation, output_weights=np.ones(UNITS))
    B, V = some_point(f), np.random.default_rng([0, 11]).standard_normal((UNITS, FEATURES))
    step = 1e-7 if activation == "relu" else 1e-5  # crosses no kink
    numerical = (f.gradient(B + step * V) - f.gradient(B - step * V)) / (2 * step)
    found = f.hessian_product(B, V)
    np.testing.assert_allclose(found, numerical, rtol=0, atol=1e-6 * np.abs(found).max())


# Which theorem speaks of it


def rows(kind: str, units: int, features: int) -> Array:
    rng = np.random.default_rng([0, 12])
    W = np.linalg.qr(rng.standard_normal((features, features)))[0][:units]
    W = W if kind == "orthonormal" else W + 0.2 * rng.standard_normal(W.shape)
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("name", "kind", "shape", "units", "theorem"),
    [
        ("G", "orthonormal", (4, 4), None, "Theorem 5.1"),
        ("G", "tilted", (4, 4), None, None),
        ("G", "orthonormal", (3, 4), None, None),
        ("G", "orthonormal", (4, 4), 3, None),
        ("F", "tilted", (4, 4), None, "Theorem A.4"),
        ("F", "tilted", (3, 4), None, None),
        ("F", "tilted", (4, 4), 3, None),
        ("F-undercomplete", "tilted", (3, 4), None, "Theorem A.5"),
        ("F-undercomplete", "tilted", (3, 4), 2, None),
        ("P'", "orthonormal", (4, 4), None, None),
        ("f2f4", "orthonormal", (4, 4), None, None),
    ],
)
def test_a_theorem_is_claimed_only_for_networks_that_it_speaks_of(
    name: str, kind: str, shape: tuple[int, int], units: int | None, theorem: str | None
) -> None:
    truth = pn.Network(rows(kind, *shape), output_weights=np.linspace(0.7, 1.3, shape[0]))
    found = objective(name, truth, units=units).theorem
    assert (None if found is None else found.name) == theorem


def test_no_theorem_for_a_mu_beyond_its_range() -> None:
    truth = pn.Network(np.eye(4))
    own = objective("G", truth)
    assert isinstance(own, Design) and own.theorem is not None
    mu = own.constants.mu
    assert objective("G", truth, mu=mu / 2).theorem is not None
    assert objective("G", truth, mu=2 * mu).theorem is None


# What is refused


@pytest.mark.parametrize("name", ["", "f", "g", "auto", "l3", None, 4])
def test_unknown_names(name: str) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        objective(name, a_truth())
    is_a_sentence(error, "unknown", "F-undercomplete")


class Unread(ArraySource):
    """A source that must not be read."""

    def __init__(self, features: int) -> None:
        super().__init__(np.zeros((10, features)), np.zeros(10))

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        raise AssertionError("the samples were read")


@by_name
@pytest.mark.parametrize("activation", ["step", "relu2", "sigmoid"])
def test_activations_that_the_objectives_do_not_see(name: str, activation: str) -> None:
    """c_2 or c_4 is 0: refused before a sample is read."""
    for source in (Unread(3), a_truth(activation=activation)):
        with pytest.raises(pn.InvalidInput) as error:
            objective(name, source, activation=activation)
        is_a_sentence(error, activation, "order", "method")


@pytest.mark.parametrize("activation", ["relu3", "exp"])
def test_the_abs_objective_is_for_leaky_units(activation: str) -> None:
    for source in (Unread(3), a_truth(activation=activation)):
        with pytest.raises(pn.InvalidInput) as error:
            objective("abs", source, activation=activation)
        is_a_sentence(error, activation, "f2f4")


@pytest.mark.parametrize("name", ["G", "F", "F-undercomplete"])
def test_a_negative_output_weight(name: str) -> None:
    truth = a_truth().replace(output_weights=[1.0, -1.0, 1.0])
    with pytest.raises(pn.InvalidInput) as error:
        objective(name, truth)
    is_a_sentence(error, "positive output weights", "method")


@pytest.mark.parametrize("units", [4, 5])
@pytest.mark.parametrize("name", ["G", "F", "F-undercomplete"])
def test_more_units_than_the_second_moment_shows(name: str, units: int) -> None:
    """Its fourth eigenvalue is rounding, of either sign; a fifth there is not."""
    with pytest.raises(pn.InvalidInput) as error:
        objective(name, a_truth(), units=units)
    is_a_sentence(error, f"{units} units", "shows 3", "fewer units")


@by_name
@pytest.mark.parametrize(
    ("network", "word"),
    [
        (pn.Network(np.eye(3), biases=[0.0, 0.1, 0.0]), "biases"),
        (pn.Network(np.eye(3), output_weights=np.ones((2, 3))), "output"),
        (pn.Network(2 * np.eye(3), activation="exp"), "norm 1"),
    ],
)
def test_networks_without_a_closed_form(name: str, network: pn.Network, word: str) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        objective(name, network)
    is_a_sentence(error, word)


@pytest.mark.parametrize("mu", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("name", ["G", "F", "F-undercomplete"])
def test_a_mu_that_is_no_weight(name: str, mu: float) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        objective(name, a_truth(), mu=mu)
    is_a_sentence(error, "mu", "positive")


@pytest.mark.parametrize("name", ["l2", "f2f4", "abs"])
def test_output_weights_of_another_length(name: str) -> None:
    for output_weights in (np.ones(2), np.ones((1, UNITS))):
        with pytest.raises(pn.InvalidInput) as error:
            objective(name, a_truth(), output_weights=output_weights)
        is_a_sentence(error, "output_weights", "3 units")


def test_a_batch_of_an_unknown_name() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        sample_objective("H", np.eye(3), np.ones(3), 3, a_truth().activation)
    is_a_sentence(error, "unknown", "F-undercomplete")
