"""Each question fails on an answer that is wrong in just that, and holds on an honest one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.certify.candidate import Candidate
from provenet.certify.checks import Status, asked
from provenet.certify.conclude import conclude
from provenet.certify.evidence import gather
from provenet.certify.network_checks import network_checks
from provenet.data.sources import ArraySource
from provenet.fitting.context import Options, prepare
from provenet.fitting.final_fit import Polished, polish
from provenet.fitting.least_squares import Ended
from provenet.fitting.search.alternatives import Comparison, Kind

FEATURES, UNITS, SAMPLES = 6, 4, 1200


def context_of(truth, sigma=0.0, n=SAMPLES, seed=1, **options):
    X, y = pn.sample(truth, n, noise=sigma, rng=seed)
    source = ArraySource(X, y)
    return prepare(
        source,
        Options(**options),
        source.standardisation(),
        rng=np.random.default_rng(0),
        progress=lambda *told: None,
        deadline=np.inf,
    )


@pytest.fixture(scope="module")
def truth():
    return pn.random_network(UNITS, FEATURES, rng=3)


def candidate_of(context, network):
    return Candidate(context.standardisation.network_from_user(network), "Known.")


def evidence_of(context, network):
    candidate = candidate_of(context, network)
    return gather(context, candidate, polish(context, candidate.network))


def failed(context, evidence):
    return {check.name for check in asked(network_checks(context, evidence)) if not check.holds}


def test_what_was_fitted_to_all_samples_is_unconfirmed(truth):
    """Even the truth: no sample is left to confirm it. What does not explain them has failed."""
    context = context_of(truth, refine=False)
    held_out = context.held_out.size
    for network, status, words in (
        (truth, Status.PARTIAL, "unconfirmed"),
        (truth.replace(biases=truth.biases + 0.1), Status.FAILED, "all of which were fitted"),
    ):
        candidate = replace(candidate_of(context, network), fitted_all=True)
        result = conclude(context, candidate, "any")
        assert result.status is status and words in result.message and not result.success
        assert result.certificate.samples_fitted == SAMPLES
        assert result.certificate.samples_held_out == 0 < held_out
        assert not result.checks[0].holds and result.checks[0].samples == 0


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_truth_passes_every_question(truth, noise):
    context = context_of(truth, noise)
    evidence = evidence_of(context, truth)
    assert failed(context, evidence) == set()
    result = conclude(context, candidate_of(context, truth), "known")
    assert result.status is (Status.EXACT if noise == 0 else Status.WITHIN_NOISE)
    assert {check.name for check in result.checks} >= {"every unit is needed", "a unit shows"}


BROKEN = {
    "every unit is needed": {"weakest_margin": 1.0},
    "no two units are alike": {"closest_pair": (0, 2, FEATURES + 2)},
    "all parameters are determined": {"undetermined": 1},
    "rounding leaves the units known": {"parameter_error_bound": 1e-6},
    "different inputs are enough": {"distinct_inputs": UNITS * (FEATURES + 1) + 5},
}


@pytest.mark.parametrize("name", BROKEN)
def test_one_number_that_is_wrong_fails_one_check(truth, name):
    context = context_of(truth)
    evidence = evidence_of(context, truth)
    certificate = replace(evidence.certificate, **BROKEN[name])
    assert failed(context, replace(evidence, certificate=certificate)) == {name}


@pytest.mark.parametrize("name", ["no two units are alike", "all parameters are determined"])
@pytest.mark.parametrize(("distinct", "more"), [(SAMPLES, "samples"), (500, "different inputs")])
def test_more_of_the_same_inputs_is_no_advice(truth, name, distinct, more):
    """Where inputs repeat each other, further samples of them would tell nothing new."""
    context = context_of(truth)
    evidence = evidence_of(context, truth)
    certificate = replace(evidence.certificate, **BROKEN[name], distinct_inputs=distinct)
    checks = network_checks(context, replace(evidence, certificate=certificate))
    (advice,) = (check.advice for check in checks if check.name == name)
    assert advice.endswith(f"take more {more}.")


def test_a_unit_that_is_not_pinned_down_is_named(truth):
    context = context_of(truth)
    evidence = replace(evidence_of(context, truth), unresolved=np.array([2]))
    checks = {check.name: check for check in network_checks(context, evidence)}
    assert not checks["every unit is pinned down"].holds
    assert "[2]" in checks["every unit is pinned down"].advice


def test_a_missing_unit_fails(truth):
    # The weakest unit makes some tenths of the labels' spread; noise is a tenth of it.
    context = context_of(truth, 0.1, units=UNITS - 1)
    small = truth.canonical().keep(np.arange(UNITS - 1))
    result = conclude(context, candidate_of(context, small), "known")
    assert result.status is Status.FAILED
    names = {check.name for check in result.checks if not check.holds}
    assert names <= {
        "unseen samples are predicted",
        "further units explain nothing of what is left",
    }


def test_a_missing_unit_is_found_where_the_number_of_units_is_open(truth):
    context = context_of(truth, 0.1)
    small = truth.canonical().keep(np.arange(UNITS - 1))
    result = conclude(context, candidate_of(context, small), "known")
    assert result.status is Status.WITHIN_NOISE and result.network.units == UNITS
    asked_of_rivals = [check for check in result.checks if "rivals" in check.figure]
    assert len(asked_of_rivals) == 4 and all(check.holds for check in asked_of_rivals)


def test_a_unit_split_in_two_is_made_one(truth):
    context = context_of(truth, 0.3)
    own = truth.canonical()
    rng = np.random.default_rng(5)
    twin = own.weights[0] + 0.02 * rng.standard_normal(FEATURES)
    half = np.array([0.5, *np.ones(UNITS - 1), 0.5])
    split = own.replace(
        weights=np.vstack([own.weights, twin]),
        biases=np.append(own.biases, own.biases[0]),
        output_weights=np.append(own.output_weights, own.output_weights[0]) * half,
    )
    result = conclude(context, candidate_of(context, split), "known")
    assert result.success and result.network.units == UNITS


def test_more_noise_than_was_given_is_no_noise(truth):
    context = context_of(truth, 0.1, noise=0.05)
    assert failed(context, evidence_of(context, truth)) == {"noise is as large as was given"}


def test_units_that_were_asked_for_and_do_not_show(truth):
    context = context_of(truth, units=UNITS + 1)
    assert failed(context, evidence_of(context, truth)) == {"all units that were asked for show"}


def test_labels_that_are_linear_show_no_unit():
    # All kinks are far from the samples: the function is linear where they are.
    far = pn.random_network(2, 3, rng=0).canonical()
    far = far.replace(biases=np.array([30.0, 30.0]))
    context = context_of(far, n=200)
    result = conclude(context, candidate_of(context, far), "known")
    assert result.status is Status.PARTIAL


def test_too_few_samples_to_tell_noise_from_units(truth):
    context = context_of(truth, 0.5, n=40)
    missing = failed(context, evidence_of(context, truth))
    assert "labels are enough for the parameters" in missing


@pytest.mark.parametrize(("error", "status"), [(1e-13, Status.EXACT), (0.05, Status.FAILED)])
def test_an_answer_without_refinement_is_judged_by_the_same_questions(truth, error, status):
    context = context_of(truth, refine=False)
    rng = np.random.default_rng(0)
    near = truth.replace(weights=truth.weights + error * rng.standard_normal(truth.weights.shape))
    result = conclude(context, candidate_of(context, near), "known")
    assert result.status is status


def test_an_answer_without_refinement_under_noise_must_be_the_least_squares_one(truth):
    # Off by many standard errors (0.1 / sqrt(1200) is 0.003), yet hidden below the noise.
    noisy = context_of(truth, 0.1, refine=False)
    rng = np.random.default_rng(0)
    near = truth.replace(weights=truth.weights + 0.02 * rng.standard_normal(truth.weights.shape))
    result = conclude(noisy, candidate_of(noisy, near), "known")
    assert not result.success and "refine=True" in result.message
    fitted = conclude(context_of(truth, 0.1), candidate_of(noisy, truth), "known")
    again = conclude(noisy, candidate_of(noisy, fitted.network), "known")
    assert again.status is Status.WITHIN_NOISE


@pytest.mark.parametrize("outputs", [None, 3])
def test_the_certificate_speaks_of_the_network_that_is_returned(outputs):
    for seed in range(2):
        hidden = pn.random_network(5, 6, outputs=outputs, rng=seed)
        X, y = pn.sample(hidden, 1500, noise=0.2, rng=seed + 100)
        result = pn.recover(X, y, units=5, rng=seed, budget=20)
        network, certificate = result.network, result.certificate
        on = X @ network.weights.T + network.biases > 0
        rarer = np.minimum(on.sum(axis=0), len(X) - on.sum(axis=0))
        np.testing.assert_array_equal(certificate.rarer_side, rarer)
        i, j, between = certificate.closest_pair
        differ = int(np.sum(on[:, i] != on[:, j]))
        assert between == min(differ, len(X) - differ)
        assert certificate.samples_refitted in (0, len(X))
        again = network.canonical()
        np.testing.assert_allclose(again.weights, network.weights, rtol=0, atol=1e-14)


def test_a_last_fit_that_time_cut_short_is_no_success(truth):
    context = context_of(truth, 0.1)
    evidence = replace(evidence_of(context, truth), ended=Ended.OUT_OF_TIME)
    assert failed(context, evidence) == {"the last fit was finished"}


def test_polished_networks_that_stopped_early_are_not_called_exact(truth):
    context = context_of(truth)
    own = candidate_of(context, truth)
    off = own.network.replace(output_bias=float(own.network.output_bias) + 1e-6)
    r = off(context.problem.samples.X) - context.problem.samples.y
    evidence = gather(context, own, Polished(off, float(r @ r)))
    assert not evidence.exact


def test_rivals_that_were_cut_short_prove_nothing(truth):
    context = context_of(truth, 0.1)
    evidence = evidence_of(context, truth)
    gains = dict.fromkeys(Kind, -10.0)
    for in_time, words in ((True, set()), (False, {"rivals were tried in time"})):
        last = Comparison(5, gains, (), in_time)
        assert failed(context, replace(evidence, last_round=last)) == words
