"""From an answer that is a unit, a sign or a split away the search goes on to the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting.context import Options, prepare
from provenet.fitting.final_fit import Polished, polish
from provenet.fitting.search.alternatives import Comparison, Kind, bic_of, improve, refitted
from provenet.networks.canonical import match_units

FEATURES, UNITS = 4, 3


def context_of(truth, noise, n=2500, seed=0, **options):
    X = np.random.default_rng(seed).standard_normal((n, truth.features))
    clean = truth(X)
    y = clean + noise * clean.std() * np.random.default_rng(seed + 100).standard_normal(n)
    source = ArraySource(X, y)
    return prepare(
        source,
        Options(**options),
        source.standardisation(),
        rng=np.random.default_rng(seed),
        progress=lambda *told: None,
        deadline=np.inf,
    )


def went_on(context, network):
    own = context.standardisation.network_from_user(network)
    return improve(context, polish(context, own))


def scored(context, network):
    """BIC of a network's least-squares fit on all samples."""
    everything = context.with_held_out()
    own = everything.standardisation.network_from_user(network)
    return bic_of(everything, refitted(everything, Polished(own, np.inf)))


def beats(context, answer, truth):
    """The answer is as good as the truth by BIC, but for where least squares rests."""
    everything = context.with_held_out()
    return bic_of(everything, refitted(everything, answer)) <= scored(context, truth) + 2.0


@pytest.mark.parametrize("seed", range(3))
def test_a_unit_that_was_missed_is_found(seed):
    # Output weights are at least 0.5 of a spread of about 1, noise is half of it: BIC
    # prefers the truth by tens (asserted through `beats`).
    truth = pn.random_network(UNITS, FEATURES, bias_scale=0.5, rng=seed).canonical()
    context = context_of(truth, 0.5, seed=seed)
    found, last = went_on(context, truth.keep(np.arange(UNITS - 1)))
    assert found.network.units == UNITS
    assert beats(context, found, truth)
    assert max(last.gains.values()) <= Comparison.least and last.tried > 10


def close_pair(seed, angle=0.5):
    """Two units a small angle apart, of output weights of one sign, and a third."""
    truth = pn.random_network(UNITS, FEATURES, bias_scale=0.5, rng=seed)
    w, a = truth.weights.copy(), np.abs(truth.output_weights)
    aside = np.eye(FEATURES)[seed % FEATURES]
    aside = aside - (aside @ w[0]) * w[0]
    w[1] = np.cos(angle) * w[0] + np.sin(angle) * aside / np.linalg.norm(aside)
    biases = truth.biases.copy()
    biases[1] = biases[0]
    return truth.replace(weights=w, biases=biases, output_weights=a)


@pytest.mark.parametrize("seed", range(3))
def test_two_close_units_are_not_taken_for_one(seed):
    truth = close_pair(seed)
    weights = np.array([truth.output_weights[0] + truth.output_weights[1], truth.output_weights[2]])
    merged = truth.keep(np.array([0, 2])).replace(output_weights=weights)
    context = context_of(truth, 0.1, seed=seed)
    assert scored(context, truth) < scored(context, merged) - 15.0  # it can be told
    found, _ = went_on(context, merged)
    assert found.network.units == UNITS and beats(context, found, truth)


def test_a_unit_that_stands_for_two_of_one_is_dropped():
    truth = pn.random_network(UNITS, FEATURES, rng=0).canonical()
    twin = truth.weights[:1] + 0.02 * np.random.default_rng(1).standard_normal((1, FEATURES))
    split = truth.replace(
        weights=np.vstack([truth.weights, twin]),
        biases=np.append(truth.biases, truth.biases[0]),
        output_weights=np.append(truth.output_weights, truth.output_weights[0])
        * np.array([0.5, 1.0, 1.0, 0.5]),
    )
    found, _ = went_on(context_of(truth, 0.3), split)
    assert found.network.units == UNITS


def test_the_width_that_was_asked_for_is_kept_and_said_to_be_too_small():
    truth = pn.random_network(UNITS, FEATURES, bias_scale=0.5, rng=1).canonical()
    context = context_of(truth, 0.3, seed=1, units=UNITS - 1)
    found, last = went_on(context, truth.keep(np.arange(UNITS - 1)))
    assert found.network.units == UNITS - 1
    assert last.gains[Kind.FURTHER] > 15.0


def test_a_sign_that_is_wrong_is_turned():
    truth = pn.random_network(UNITS, FEATURES, bias_scale=0.5, rng=2).canonical()
    context = context_of(truth, 0.3, seed=2)
    sign = np.array([-1.0, 1.0, 1.0])
    wrong = truth.replace(weights=truth.weights * sign[:, None], biases=truth.biases * sign)
    own = context.standardisation.network_from_user(wrong)
    start = refitted(context, Polished(own, np.inf))
    found, _ = improve(context, start)
    assert beats(context, found, truth)
    user = context.standardisation.network_to_user(found.network).canonical()
    mine, theirs = match_units(user, truth)
    assert np.all(np.sum(user.weights[mine] * truth.weights[theirs], axis=1) > 0.9)


def test_time_that_is_over_leaves_what_a_round_gained_to_the_checks():
    truth = pn.random_network(UNITS, FEATURES, bias_scale=0.5, rng=1).canonical()
    context = context_of(truth, 0.3, seed=1)
    own = context.standardisation.network_from_user(truth.keep(np.arange(UNITS - 1)))
    start = refitted(context, Polished(own, np.inf))
    over = replace(context, problem=replace(context.problem, deadline=-np.inf))
    found, last = improve(over, start)
    assert found.network.units == UNITS - 1 and max(last.gains.values()) > Comparison.least
