"""Deep answers: each question fails on one that is wrong in just that, and holds on the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.certify.agreement import agree, deepest_needed, is_settled, searches_agree
from provenet.certify.checks import Claim, Status
from provenet.certify.conclude import conclude
from provenet.certify.deep import DeepCandidate, DeepEvidence, gather_deep, switching_sides
from provenet.certify.deep_checks import deep_checks
from provenet.certify.noise_checks import RESIDUAL_IS_NOISE
from provenet.certify.result import Recovery
from provenet.certify.shared_layer import shared_layer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.context import Context, Options, prepare
from provenet.fitting.model import Parameters

FEATURES, WIDTHS = 4, (3, 2)
GAIN = "further units gain nothing"
LEFT = 0.05
"""What a unit fewer left, as a search would say of needed ones."""


def context_of(
    X: Array, y: Array, activation: str = "tanh", deadline: float = np.inf, **options: Any
) -> Context:
    source = ArraySource(X, y)
    sigma = pn.random_network(1, 1, activation=activation).activation
    return prepare(
        source,
        Options(activation=sigma, layers=2, **options),
        source.standardisation(),
        rng=np.random.default_rng(0),
        progress=lambda *told: None,
        deadline=deadline,
    )


def candidate_of(
    context: Context, network: pn.DeepNetwork, narrower: float = LEFT
) -> DeepCandidate:
    """A network in the user's coordinates as a method would have found it."""
    W, b = context.standardisation.units_from_user(network.weights[0], network.biases[0])
    own = network.replace(weights=(W, *network.weights[1:]), biases=(b, *network.biases[1:]))
    return DeepCandidate(Parameters.of(own), "Known.", narrower)


def evidence_of(context: Context, network: pn.DeepNetwork, narrower: float = LEFT) -> DeepEvidence:
    return gather_deep(context, candidate_of(context, network, narrower))


def failed(context: Context, evidence: DeepEvidence) -> set[str]:
    return {check.name for check in deep_checks(context, evidence) if not check.holds}


def problem(
    activation: str = "tanh", n: int = 800, noise: float = 0.0, **options: Any
) -> tuple[pn.DeepNetwork, Context]:
    truth = pn.random_network(WIDTHS, FEATURES, activation=activation, rng=0)
    X, y = pn.sample(truth, n, noise=noise, rng=1)
    return truth, context_of(X, y, activation, **options)


def with_unit(
    network: pn.DeepNetwork, layer: int, weights: Array, bias: float, fed: Array
) -> pn.DeepNetwork:
    """A further unit of a layer, and what it feeds."""
    W, b = list(network.weights), list(network.biases)
    W[layer], b[layer] = np.vstack([W[layer], weights]), np.append(b[layer], bias)
    W[layer + 1] = np.column_stack([W[layer + 1], fed])
    return network.replace(weights=W, biases=b)


# ---------------------------------------------------------------- honest answers


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_truth_is_exact(activation: str, outputs: int | None) -> None:
    truth = pn.random_network(WIDTHS, FEATURES, outputs=outputs, activation=activation, rng=0)
    X, _ = pn.sample(truth, 4000, covariance=np.diag([1.0, 4.0, 9.0, 1.0]), rng=1)
    context = context_of(X + 1.0, truth(X + 1.0), activation)
    evidence = evidence_of(context, truth)
    assert evidence.exact and not failed(context, evidence)
    assert not evidence.ambiguities and evidence.certificate.undetermined == 0
    assert evidence.certificate.parameters == truth.free_parameters
    assert pn.parameter_error(evidence.network, truth) < 1e-11
    assert evidence.certificate.parameter_error_bound < 1e-9


def test_the_truth_of_noisy_labels_is_within_noise() -> None:
    """The noise is known to `sqrt(1/2n)`, some 2%; what a fit is off by, to four errors."""
    truth, context = problem(n=1500, noise=0.02)
    evidence = evidence_of(context, truth)
    assert not evidence.exact and not failed(context, evidence)
    assert evidence.certificate.noise == pytest.approx(0.02, rel=0.1)
    assert evidence.certificate.samples_refitted == 1500
    W, own = evidence.network.weights[0], truth.canonical().weights[0]
    errors = evidence.standard_errors.weights[0]
    assert np.all(np.abs(W - own) < 4 * errors) and np.all(errors < 0.3)


def test_a_start_near_the_truth_is_finished() -> None:
    truth, context = problem()
    near = truth.replace(weights=[W + 1e-3 for W in truth.weights])
    evidence = evidence_of(context, near)
    assert evidence.exact and pn.parameter_error(evidence.network, truth) < 1e-11


# ---------------------------------------------------------------- wrong in one thing


def test_wrong_predictions_of_unseen_samples() -> None:
    """The labels held out come from elsewhere."""
    truth, context = problem()
    held = context.held_out
    other = replace(context, held_out=ArraySource(held.X, held.y + 1.0))
    assert "unseen samples are predicted" in failed(other, evidence_of(other, truth))
    assert conclude(other, candidate_of(other, truth), "deep").status is Status.FAILED


@pytest.mark.parametrize("layer", [0, 1])
def test_a_unit_too_many(layer: int) -> None:
    """A copy that shares what the unit feeds: directions are free, and one fewer leaves nothing."""
    truth, context = problem()
    A = truth.weights[layer + 1]
    W, b = truth.affine_maps[layer]
    twice = with_unit(truth, layer, W[0], b[0], 0.3 * A[:, 0])
    weights = [matrix.copy() for matrix in twice.weights]
    weights[layer + 1][:, 0] *= 0.7
    evidence = evidence_of(context, twice.replace(weights=weights), narrower=1e-13)
    names = failed(context, evidence)
    assert evidence.exact and evidence.certificate.undetermined > 0
    assert {"the samples determine every parameter", "no fewer units explain them"} <= names
    candidate = candidate_of(context, twice.replace(weights=weights), 1e-13)
    assert conclude(context, candidate, "deep").status is Status.PARTIAL


@pytest.mark.parametrize("narrower", [np.inf, 1e-12])
def test_one_unit_less_must_have_been_tried_and_leave_something(narrower: float) -> None:
    truth, context = problem()
    assert failed(context, evidence_of(context, truth, narrower)) == {"no fewer units explain them"}


def test_one_unit_a_layer_cannot_be_fewer() -> None:
    truth = pn.random_network((1, 1), FEATURES, activation="tanh", rng=0)
    context = context_of(*pn.sample(truth, 300, rng=1))
    assert not failed(context, evidence_of(context, truth, np.inf))


@pytest.mark.parametrize("bias", [-50.0, 50.0])
@pytest.mark.parametrize("layer", [0, 1])
def test_a_unit_that_never_switches(layer: int, bias: float) -> None:
    """Dead, or on for all samples: the labels are those of the network with it."""
    truth, _ = problem("relu")
    fed = np.linspace(0.5, 1.0, len(truth.weights[layer + 1]))
    direction = np.linspace(-1.0, 1.0, truth.weights[layer].shape[1])
    odd = with_unit(truth, layer, direction, bias, fed)
    if layer == 0 and bias > 0:  # the units above keep their kinks in reach
        odd = odd.replace(biases=[odd.biases[0], odd.biases[1] - bias * fed, odd.biases[2]])
    X = np.random.default_rng(1).standard_normal((1500, FEATURES))
    context = context_of(X, odd(X), "relu")
    evidence = evidence_of(context, odd)
    names = failed(context, evidence)
    assert "every unit switches on enough samples" in names
    assert "unseen samples are predicted" not in names
    assert len(evidence.ambiguities) == 1 and f"layer {layer + 1}" in evidence.ambiguities[0]
    assert "does not switch" in evidence.ambiguities[0]


def test_smooth_units_need_not_switch() -> None:
    truth, context = problem()
    names = {check.name for check in deep_checks(context, evidence_of(context, truth))}
    assert "every unit switches on enough samples" not in names


def test_too_few_labels() -> None:
    """Exact ones must be five more than the parameters; noisy ones five times as many."""
    truth, _ = problem()
    p = truth.free_parameters
    X, y = pn.sample(truth, p + 6, rng=1)  # of which a tenth is held out
    few = context_of(X, y)
    assert "labels are enough for the parameters" in failed(few, evidence_of(few, truth))
    _, noisy = problem(n=5 * p, noise=0.01)
    assert failed(noisy, evidence_of(noisy, truth)) == {"labels are enough for the parameters"}
    _, enough = problem(n=8 * p, noise=0.01)
    assert not failed(enough, evidence_of(enough, truth))


def test_repeated_inputs_are_no_further_labels() -> None:
    truth, _ = problem()
    X, _ = pn.sample(truth, truth.free_parameters, rng=1)
    X = np.tile(X, (20, 1))
    context = context_of(X, truth(X))
    assert "labels are enough for the parameters" in failed(context, evidence_of(context, truth))


@pytest.mark.parametrize(("units", "holds"), [((3, 2), True), ((2, 3), False), (5, True)])
def test_other_widths_than_asked_for(units: Any, holds: bool) -> None:
    """A number of all units, not of each layer, asks for no widths."""
    truth, context = problem(units=units)
    name = "every layer has as many units as were asked for"
    assert (name not in failed(context, evidence_of(context, truth))) is holds


def test_parameters_that_rounding_leaves_open() -> None:
    """A unit that feeds a billionth: exact labels know it to nine digits fewer than the others."""
    truth, _ = problem()
    faint = truth.replace(weights=[*truth.weights[:2], truth.weights[2] * [[1.0, 1e-9]]])
    X, _ = pn.sample(faint, 800, rng=1)
    context = context_of(X, faint(X))
    evidence = evidence_of(context, faint)
    assert evidence.exact and failed(context, evidence) == {"parameters are known to rounding"}


# ---------------------------------------------------------------- wrong under noise


def test_rounding_that_labels_share_is_in_the_errors() -> None:
    """Where the highest layer is off all labels are the output bias, 0.4 of a step off: errors of
    independent rounding, which shrink with the samples, would be a tenth of that."""
    truth = pn.random_network(WIDTHS, FEATURES, activation="relu", rng=0).canonical()
    (b, c, _), step = truth.biases, 1e-3
    truth = truth.replace(biases=[b, c - 0.4, np.array([0.5 + 0.4 * step])])
    X, y = pn.sample(truth, 3000, rng=1)
    assert 0.2 < np.mean(y == 0.5 + 0.4 * step) < 0.9
    context = context_of(X, np.round(y, 3), "relu")
    evidence = evidence_of(context, truth)
    off = abs(evidence.network.biases[-1][0] - truth.canonical().biases[-1][0])
    assert 0.2 * step < off < 3 * evidence.standard_errors.biases[-1][0]
    noisy = context_of(
        X, np.round(y + 0.01 * np.random.default_rng(2).normal(size=3000), 3), "relu"
    )
    assert evidence_of(noisy, truth).standard_errors.biases[-1][0] < 0.1 * 0.01


def test_more_noise_than_was_given() -> None:
    truth, context = problem(n=1500, noise=0.02)
    given = replace(context, options=replace(context.options, noise=0.01))
    assert "noise is as large as was given" in failed(given, evidence_of(given, truth))
    given = replace(context, options=replace(context.options, noise=0.02))
    assert not failed(given, evidence_of(given, truth))


def test_a_unit_too_few_under_noise() -> None:
    """The best without one unit leaves what inputs predict, and further units gain."""
    truth, context = problem(n=1500, noise=0.02)
    fewer = truth.replace(
        weights=[truth.weights[0][:2], truth.weights[1][:, :2], truth.weights[2]],
        biases=[truth.biases[0][:2], *truth.biases[1:]],
    )
    assert failed(context, evidence_of(context, fewer)) == {RESIDUAL_IS_NOISE, GAIN}


def test_labels_that_are_cut_off_with_their_noise() -> None:
    truth, _ = problem()
    X, y = pn.sample(truth, 1500, noise=0.05, rng=1)
    context = context_of(X, np.minimum(y, np.quantile(y, 0.9)))
    assert "labels end as noise does" in failed(context, evidence_of(context, truth))


def test_a_unit_that_noise_hides() -> None:
    truth, _ = problem()
    faint = truth.replace(weights=[*truth.weights[:2], truth.weights[2] * [[1.0, 1e-3]]])
    context = context_of(*pn.sample(faint, 1500, noise=0.02, rng=1))
    assert failed(context, evidence_of(context, faint)) == {"every unit is pinned down"}


def test_time_that_is_over_settles_nothing() -> None:
    truth, context = problem(n=1500, noise=0.02, deadline=-np.inf)
    evidence = evidence_of(context, truth)
    assert not evidence.own.ended.at_rest
    assert failed(context, evidence) == {GAIN}


# ---------------------------------------------------------------- sides


def test_only_samples_on_which_a_unit_shows_count() -> None:
    """`relu(relu(x) - 1)`: the lower unit switches at 0, where the one above it is off."""
    hidden = pn.DeepNetwork([[[1.0]], [[1.0]], [[1.0]]], [[0.0], [-1.0], [0.0]])
    X = np.linspace(-3.0, 3.0, 61)[:, None] + 0.01
    below, above = switching_sides(hidden, X)
    assert below[0] == 0
    assert above[0] == np.sum(X > 1.0)
    shown = pn.DeepNetwork([[[1.0]], [[1.0]], [[1.0]]], [[0.0], [1.0], [0.0]])
    below, above = switching_sides(shown, X)
    assert below[0] == min(np.sum(X > 0), np.sum(X <= 0)) and above[0] == 0


def test_a_unit_shows_where_any_output_shows_it() -> None:
    W = [[[1.0]], [[1.0], [1.0]], [[1.0, 0.0], [0.0, 1.0]]]
    network = pn.DeepNetwork(W, [[0.0], [-1.0, 1.0], [0.0, 0.0]])
    X = np.linspace(-3.0, 3.0, 61)[:, None] + 0.01
    assert switching_sides(network, X)[0][0] == min(np.sum(X > 0), np.sum(X <= 0))


# ---------------------------------------------------------------- two searches


def concluded(activation: str, noise: float = 0.0) -> Recovery:
    truth, context = problem(activation, n=1500, noise=noise)
    return conclude(context, candidate_of(context, truth), "deep")


def moved(result: Recovery, by: float) -> Recovery:
    weights = [matrix.copy() for matrix in result.network.weights]
    weights[1][0, 0] += by
    return replace(result, network=result.network.replace(weights=weights))


def test_exact_smooth_layers_need_one_search() -> None:
    found = concluded("tanh")
    assert found.status is Status.EXACT and is_settled(found, [found])
    assert not list(searches_agree(found, [found]))


@pytest.mark.parametrize(("activation", "noise"), [("relu", 0.0), ("tanh", 0.02)])
def test_kinks_and_noise_need_two_that_agree(activation: str, noise: float) -> None:
    found = concluded(activation, noise)
    assert found.success and not is_settled(found, [found])
    (check,) = searches_agree(found, [found])
    assert not check.holds and check.otherwise is Status.PARTIAL and "budget" in check.advice
    apart = moved(found, 0.5)
    assert not is_settled(found, [found, apart])
    (check,) = searches_agree(found, [found, apart])
    assert not check.holds and "different networks" in check.advice
    again = replace(found)
    assert is_settled(found, [found, apart, again])
    (check,) = searches_agree(found, [found, again])
    assert check.holds


def test_deep_networks_agree_up_to_their_errors() -> None:
    exact, noisy = concluded("relu"), concluded("tanh", 0.02)
    assert agree(exact, moved(exact, 1e-9)) and not agree(exact, moved(exact, 1e-4))
    assert noisy.standard_errors is not None
    largest = noisy.standard_errors.largest
    assert agree(noisy, moved(noisy, 0.01 * largest)) and not agree(
        noisy, moved(noisy, 3 * largest)
    )
    assert not agree(exact, noisy)


def test_the_order_of_units_is_no_difference() -> None:
    found = concluded("relu")
    (W, b), (A, c), last = found.network.affine_maps
    turned = found.network.replace(
        weights=[W[::-1], A[:, ::-1], last[0]], biases=[b[::-1], c, last[1]]
    )
    assert agree(found, replace(found, network=turned))


# ---------------------------------------------------------------- how many layers


def test_the_first_number_of_layers_that_succeeds_is_taken() -> None:
    found = concluded("tanh")
    none = Recovery.nothing("auto", "Nothing.")
    assert deepest_needed([found]) is found
    answer = deepest_needed([none, found])
    assert answer.network is found.network and answer.status is found.status
    check = answer.checks[-1]
    assert check.name == "no answer of fewer layers is a success" and check.holds
    assert "1: failed" in check.figure


def test_without_a_success_the_best_is_taken() -> None:
    found, none = concluded("tanh"), Recovery.nothing("auto", "Nothing.")
    partial = replace(found, status=Status.PARTIAL)
    assert deepest_needed([none, partial, none]) is partial
    assert deepest_needed([partial, partial, none]) is partial


# ---------------------------------------------------------------- the lowest layer alone


def split_above(network: pn.DeepNetwork) -> pn.DeepNetwork:
    """The same function, a unit of the second layer in two equal halves."""
    W, b = network.affine_maps[1]
    fed = network.weights[2][:, 0]
    wider = with_unit(network, 1, W[0], b[0], fed / 2)
    weights = [matrix.copy() for matrix in wider.weights]
    weights[2][:, 0] = fed / 2
    return wider.replace(weights=weights)


def with_idle_unit(network: pn.DeepNetwork, seed: int) -> pn.DeepNetwork:
    """The same function, a further unit of the lowest layer that feeds nothing."""
    w = np.random.default_rng(seed).standard_normal(network.features)
    return with_unit(network, 0, w, 0.1, np.zeros(network.widths[1]))


def in_doubt(context: Context, *networks: pn.DeepNetwork) -> list[Recovery]:
    """Networks of which nobody knows whether fewer units would do: none is a success."""
    candidates = (candidate_of(context, network, narrower=np.inf) for network in networks)
    results = [conclude(context, candidate, "deep") for candidate in candidates]
    assert not any(result.success for result in results)
    return results


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_lowest_layer_that_two_searches_share(activation: str) -> None:
    truth, context = problem(activation, n=4000)
    answer = shared_layer(context, in_doubt(context, truth, split_above(truth)))
    assert answer is not None and answer.claim is Claim.LAYER and answer.status is Status.EXACT
    own = truth.canonical().layer(0)
    assert np.allclose(answer.network.weights, own.weights, rtol=0, atol=1e-9)
    assert np.allclose(answer.network.biases, own.biases, rtol=0, atol=1e-9)
    X = context.held_out.X
    assert np.allclose(answer.layered(X), truth(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_unit_of_one_search_alone_is_no_layer(activation: str) -> None:
    """Both have a unit too many in the lowest layer, each another."""
    truth, context = problem(activation, n=4000)
    idle = [with_idle_unit(truth, seed) for seed in (1, 2)]
    assert shared_layer(context, in_doubt(context, *idle)) is None
    assert shared_layer(context, in_doubt(context, truth, idle[0])) is None


def test_a_unit_of_the_lowest_layer_that_never_switches_is_no_layer() -> None:
    """Both searches have it: a linear map, or nothing, which others may carry as well."""
    truth, context = problem("relu", n=4000)
    U = truth.weights[1]
    weights = (truth.weights[0], np.column_stack([U[:, :-1], U[:, -1]]), truth.weights[2])
    biases = (np.append(truth.biases[0][:-1], 50.0), truth.biases[1] - 50 * U[:, -1])
    straight = truth.replace(weights=weights, biases=(*biases, truth.biases[2]))
    X = np.random.default_rng(3).standard_normal((4000, FEATURES))
    context = context_of(X, straight(X), "relu")
    found = in_doubt(context, straight, split_above(straight))
    assert shared_layer(context, found) is None


def test_one_search_or_noise_or_another_width_is_no_layer() -> None:
    truth, context = problem("relu", n=4000)
    assert shared_layer(context, in_doubt(context, truth)) is None
    truth, context = problem("relu", n=4000, units=(WIDTHS[0] + 1, WIDTHS[1]))
    assert shared_layer(context, in_doubt(context, truth, split_above(truth))) is None
    truth, context = problem("relu", n=4000)
    found = in_doubt(context, truth, split_above(truth))
    noisy = [replace(one, certificate=replace(one.certificate, noise=0.1)) for one in found]
    assert shared_layer(context, found) is not None
    assert shared_layer(context, noisy) is None
