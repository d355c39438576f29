"""The driver: what it accepts, where it ends, and restarts on a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource, Job, Result
from provenet.fitting.context import Context, Options, prepare
from provenet.fitting.least_squares import Ended, Fit
from provenet.fitting.model import Parameters
from provenet.fitting.search.driver import (
    _evidence,
    _Unwanted,
    growth,
    local_search,
    lowers_bic,
    prune,
    restarts,
    signal_span,
)
from provenet.fitting.search.moves import drops, random_start, random_units, swapped
from provenet.fitting.search.problem import Problem
from provenet.networks.piecewise import as_absolute

TRUTH = pn.random_network(4, 6, bias_scale=1.0, rng=0).replace(output_bias=0.5)


def problem_of(truth: pn.Network = TRUTH, n: int = 600, noise: float = 0.0) -> Problem:
    X, y = pn.sample(truth, n, noise=noise, rng=1)
    activation = truth.activation
    if truth.layers == 1:
        return Problem(ArraySource(X, y), float(y.std()))
    return Problem(ArraySource(X, y), float(y.std()), np.inf, activation, layers=truth.layers)


def context_of(truth: pn.Network = TRUTH, n: int = 800, noise: float = 0.0, **options) -> Context:
    source = ArraySource(*pn.sample(truth, n, noise=noise, rng=1))
    return prepare(
        source,
        Options(units=options.get("units")),
        source.standardisation(),
        rng=np.random.default_rng(0),
        progress=lambda *_: None,
        deadline=options.get("deadline", np.inf),
    )


def true_units() -> Parameters:
    return Parameters.of(as_absolute(TRUTH))


# ---------------------------------------------------------------- the driver


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_no_worse_criterion_is_ever_accepted(noise: float) -> None:
    """Drops and swaps from many units: BIC falls with each fit that is yielded."""
    problem, rng = problem_of(noise=noise), np.random.default_rng(0)
    fit = problem.refine(random_start(problem, (12,), rng), 8, 1e-3)

    def moves(fit: Fit, failures: int) -> Generator[Parameters]:
        yield from drops(problem, fit)
        yield swapped(problem, fit.parameters, failures, rng)

    def refine(start: Parameters) -> Fit:
        return problem.refine(start, 10, 1e-3)

    values = [problem.bic(fit)]
    for better in local_search(problem, fit, moves, refine, lowers_bic(problem), patience=2):
        values.append(problem.bic(better))
    assert len(values) > 1 and np.all(np.diff(values) < 0)


def test_residuals_below_zero_are_equal() -> None:
    """Then BIC counts parameters alone; above it counts both."""
    problem = problem_of()
    fit = problem.refine(true_units(), 3, 1e-6)
    assert problem.is_zero(fit)
    smaller = replace(fit, rss=fit.rss / 100)
    assert problem.bic(fit) == problem.bic(smaller)
    larger = replace(fit, rss=fit.labels * (10 * problem.zero) ** 2)
    assert problem.bic(larger) == pytest.approx(problem.bic(fit) + fit.labels * np.log(100))


@pytest.mark.parametrize("seed", range(3))
def test_growth_comes_near_the_network(seed: int) -> None:
    problem, rng = problem_of(), np.random.default_rng(seed)
    fits = list(growth(problem, random_start(problem, (3,), rng), problem.widest // 2, rng, 2))
    assert min(fit.rms for fit in fits) < 1e-2 * problem.spread


def test_a_deadline_that_has_passed_stops_the_search() -> None:
    late, rng = replace(problem_of(), deadline=0.0), np.random.default_rng(0)
    assert len(list(growth(late, random_start(late, (2,), rng), 50, rng, 100))) == 1


# ---------------------------------------------------------------- pruning


def test_pruning_finds_the_true_width_and_what_one_fewer_costs() -> None:
    problem = problem_of()
    extra = random_units(problem.samples.X, 3, np.random.default_rng(4))
    fit, narrower = prune(problem, problem.refine(true_units().widened(extra), 5, 1e-3))
    assert fit.parameters.units == 4 and problem.is_zero(fit)
    assert narrower is not None and narrower.rms > 1e-3 * problem.spread


def test_pruning_to_fewer_than_needed_when_asked() -> None:
    problem = problem_of()
    narrow, _ = prune(problem, problem.refine(true_units(), 5, 1e-3), most=2)
    assert narrow.parameters.units == 2


def test_of_twins_that_share_a_unit_one_goes() -> None:
    """Either of two equal units is useless while the other is there: both must not go."""
    problem, own = problem_of(), true_units()
    twins = own.widened(own.theta[:2])
    beta = twins.beta.copy()
    beta[:2] /= 2
    beta[4:6] = beta[:2]
    first = next(drops(problem, problem.refine(replace(twins, beta=beta), 0, 1e-3)))
    assert first.units == 4 and problem.is_zero(problem.refine(first, 0, 1e-3))


@pytest.mark.parametrize(("activation", "n"), [("tanh", 500), ("relu", 1500)])
def test_layers_are_pruned_to_their_widths(activation: str, n: int) -> None:
    truth = pn.random_network((3, 2), 5, activation=activation, rng=0)
    problem, rng = problem_of(truth, n), np.random.default_rng(0)
    own = Parameters.of(truth)
    first = np.vstack([own.layers[0], own.layers[0][:1]])
    top = np.insert(own.theta, -1, 0.5 * own.theta[:, 0], axis=1)
    top[:, 0] *= 0.5
    wide = problem.refine(
        own.with_layers((first, top)).widened(random_units(top[:, :-1], 1, rng)), 0, 1.0
    )
    assert problem.is_zero(wide) and wide.parameters.widths == (4, 3)
    narrow, rejected = prune(problem, wide)
    assert narrow.parameters.widths == truth.widths and problem.is_zero(narrow)
    assert rejected is not None and rejected.rms > 1e-4 * problem.spread


# ---------------------------------------------------------------- restarts


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_restart_ends_at_the_true_width_and_says_what_one_unit_fewer_costs(noise) -> None:
    prepared = context_of(n=2000, noise=noise)
    end = next(restarts(prepared))
    assert end.fit.parameters.units == TRUTH.units
    assert "were pruned to 4; with 3, refined, the residual is" in end.evidence
    assert end.narrower > 1.1 * end.fit.rms
    assert noise == 0 or prepared.problem.variance(end.fit) ** 0.5 == pytest.approx(noise, rel=0.1)


def test_known_units_are_where_the_first_restart_starts() -> None:
    prepared = context_of(units=4)
    inside = prepared.standardisation.network_from_user(TRUTH)
    end = next(restarts(prepared, Parameters.of(as_absolute(inside)).theta))
    assert prepared.problem.is_zero(end.fit) and end.evidence.startswith("4 units were pruned")


def test_without_time_there_is_no_restart() -> None:
    assert list(restarts(context_of(deadline=-np.inf))) == []


def test_a_narrower_fit_that_time_cut_short_is_no_evidence() -> None:
    prepared = context_of()
    end = next(restarts(prepared))
    unfinished = replace(end.fit, ended=Ended.OUT_OF_TIME)
    words = _evidence(prepared, end.fit, end.fit, unfinished)
    assert "time was over" in words and "residual" not in words


def test_the_span_of_many_features_holds_the_units() -> None:
    truth = pn.random_network(3, 90, bias_scale=0.5, rng=0)
    problem = problem_of(truth, 9000)
    basis, residual = signal_span(problem)
    assert basis.shape == (3, 90) and residual.shape == (9000,)
    # Chance moves each direction by sqrt(features / samples) of the signal.
    assert np.linalg.norm(truth.weights @ basis.T, axis=1) == pytest.approx(1.0, abs=0.1)


class SeveralAtOnce(ArraySource):
    """Runs jobs as a cluster does, after a journey, one by one as they are taken."""

    jobs_at_once = 3
    dropped = 0

    def side_by_side(self, jobs: Sequence[Job[Result]]) -> Generator[Result]:
        arrived = [pickle.loads(pickle.dumps(job)) for job in jobs]
        while arrived:
            try:
                yield arrived.pop(0)(lambda: True)
            except GeneratorExit:
                for job in arrived:
                    with pytest.raises(_Unwanted):
                        job(lambda: False)
                    self.dropped += 1
                return


def test_all_restarts_but_the_first_run_side_by_side_where_the_samples_are() -> None:
    """Each by itself, by the clock there; those that nobody waits for end."""
    X, y = pn.sample(TRUTH, 800, rng=1)
    source = SeveralAtOnce(X, y)
    prepared = replace(context_of(deadline=working_time() + 60), source=source)
    found = restarts(prepared)
    first, second, third = (next(found) for _ in range(3))
    assert source.dropped == 0
    found.close()
    assert source.dropped == 1
    alone = next(restarts(context_of()))
    np.testing.assert_array_equal(first.fit.parameters.theta, alone.fit.parameters.theta)
    assert all(prepared.problem.is_zero(end.fit) for end in (first, second, third))
    assert not np.array_equal(second.fit.parameters.theta, third.fit.parameters.theta)


# ---------------------------------------------------------------- widths, through the public API


@pytest.mark.parametrize(
    ("widths", "features", "n", "activation", "noise"),
    [
        ((5,), 10, 300, "relu", 0.0),
        ((5,), 10, 3000, "relu", 0.1),
        ((12,), 8, 2000, "relu", 0.0),
        ((6,), 10, 800, "tanh", 0.0),
        ((6,), 10, 800, "elu", 0.0),
        ((4, 3), 6, 1000, "tanh", 0.0),
        ((4, 2), 6, 2000, "relu", 0.0),
    ],
)
def test_widths_are_found(widths, features, n, activation, noise) -> None:
    """Exactly without noise; with noise within a few standard errors, sigma sqrt(p / n)."""
    units = widths[0] if len(widths) == 1 else widths
    truth = pn.random_network(units, features, bias_scale=1.0, activation=activation, rng=1)
    X, y = pn.sample(truth, n, noise=noise, rng=2)
    result = pn.recover(X, y, layers=len(widths), activation=activation, rng=0)
    assert result.success and result.network.widths == widths
    fresh: Array = np.random.default_rng(3).standard_normal((4000, features))
    error = np.sqrt(np.mean((result.network(fresh) - truth(fresh)) ** 2))
    assert error < max(1e-9, 2 * noise * np.sqrt(truth.free_parameters / n))
