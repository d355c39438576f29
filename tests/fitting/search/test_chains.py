"""Chains of expanding and pruning: what they yield, and what they say of it."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.data.passes import working_time
from provenet.data.sources import ArraySource, Job, Result
from provenet.fitting.least_squares import Ended, Fit
from provenet.fitting.model import Parameters
from provenet.fitting.search.chains import (
    _evidence,
    _pruned_from_the_end,
    _Unwanted,
    _worth_pruning,
    chains,
)
from provenet.fitting.search.problem import Problem
from provenet.fitting.workspace import Wishes, Workspace, prepare
from provenet.networks.piecewise import as_absolute

TRUTH = pn.random_network(4, 6, bias_scale=1.0, rng=0)


def workspace(deadline: float = np.inf, units: int | None = None) -> Workspace:
    source = ArraySource(*pn.sample(TRUTH, 800, rng=1))
    return prepare(
        source,
        Wishes(units=units),
        source.standardisation(),
        rng=np.random.default_rng(0),
        progress=lambda *_: None,
        deadline=deadline,
    )


def test_a_chain_ends_at_the_true_width_and_says_what_one_unit_fewer_costs() -> None:
    prepared = workspace()
    chain = next(c for c in chains(prepared) if prepared.problem.is_zero(c.fit))
    assert chain.fit.parameters.units == TRUTH.units
    assert "were pruned to 4; with 3, refined, the residual is" in chain.evidence


def test_known_units_are_where_the_first_chain_starts() -> None:
    prepared = workspace(units=4)
    inside = prepared.standardisation.network_from_user(TRUTH)
    chain = next(chains(prepared, Parameters.of(as_absolute(inside)).theta))
    assert prepared.problem.is_zero(chain.fit) and chain.evidence.startswith("4 units were pruned")


def test_without_time_there_is_no_chain() -> None:
    assert list(chains(workspace(deadline=-np.inf))) == []


def test_a_narrower_fit_that_time_cut_short_is_no_evidence() -> None:
    prepared = workspace()
    chain = next(chains(prepared))
    unfinished = replace(chain.fit, ended=Ended.OUT_OF_TIME)
    words = _evidence(prepared, chain.fit, chain.fit, unfinished)
    assert "time was over" in words and "residual" not in words


def deep_problem(network: pn.DeepNetwork, noise: float = 0.0) -> Problem:
    X, y = pn.sample(network, 800, noise=noise, rng=1)
    return Problem(ArraySource(X, y), float(y.std()), activation=network.activation, layers=2)


def test_what_crawls_to_zero_is_pruned_from_there() -> None:
    """One unit too many goes, and what one fewer leaves is known."""
    truth = pn.random_network((3, 2), 4, activation="sigmoid", rng=0)
    W, b = list(truth.weights), list(truth.biases)
    W[0], b[0] = np.vstack([W[0], W[0][:1]]), np.append(b[0], b[0][0])
    W[1] = np.column_stack([W[1], 0.5 * W[1][:, :1]])
    W[1][:, 0] *= 0.5
    near = truth.replace(weights=[w + 1e-4 for w in W], biases=b)
    problem = deep_problem(truth)
    crawling = problem.refine(Parameters.of(near), 0, 1.0)
    assert problem.crawls(crawling)
    fit, rejected = _pruned_from_the_end(problem, crawling, None)
    assert fit.parameters.widths == truth.widths and problem.is_zero(fit)
    assert rejected is not None and rejected.rms > 1e-4 * problem.spread


def test_what_does_not_get_to_zero_stays_as_it_is() -> None:
    truth = pn.random_network((3, 2), 4, activation="tanh", rng=0)
    problem = deep_problem(truth, noise=1e-3)
    noisy = problem.refine(Parameters.of(truth), 5, 1e-3)
    assert problem.crawls(noisy)
    fit, rejected = _pruned_from_the_end(problem, noisy, None)
    assert fit is noisy and rejected is None


def fit_of(problem: Problem, widths: tuple[int, ...], size: float, labels: int) -> Fit:
    network = pn.random_network(widths, 4, activation="tanh", rng=0)
    rss = (size * problem.spread) ** 2 * labels
    return Fit(Parameters.of(network), rss, labels, 0, Ended.CONVERGED)


def test_layers_that_learned_by_heart_are_not_what_is_pruned() -> None:
    """800 samples: 20 and 20 units have some 540 parameters, each worth 0.4% of a variance."""
    problem = deep_problem(pn.random_network((3, 2), 4, activation="tanh", rng=0))
    narrow, wide = (
        fit_of(problem, widths, size, 800) for widths, size in (((4, 3), 0.2), ((20, 20), 0.1))
    )
    part = fit_of(problem, (3, 3), 0.01, 100)
    assert _worth_pruning(problem, wide, [part, narrow, wide]) is narrow
    near = fit_of(problem, (20, 20), 1e-3, 800)
    assert _worth_pruning(problem, near, [narrow, near]) is near
    assert _worth_pruning(replace(problem, layers=1), wide, [narrow, wide]) is wide
    assert _worth_pruning(problem, part, [part]) is part


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


def test_all_chains_but_the_first_run_side_by_side_where_the_samples_are() -> None:
    """Each by itself, by the clock there; those that nobody waits for end."""
    source = SeveralAtOnce(*pn.sample(TRUTH, 800, rng=1))
    prepared = replace(workspace(working_time() + 60), source=source)
    found = chains(prepared)
    first, second, third = (next(found) for _ in range(3))
    assert source.dropped == 0
    found.close()
    assert source.dropped == 1
    alone = next(chains(workspace()))
    np.testing.assert_array_equal(first.fit.parameters.theta, alone.fit.parameters.theta)
    assert all(prepared.problem.is_zero(chain.fit) for chain in (first, second, third))
    assert not np.array_equal(second.fit.parameters.theta, third.fit.parameters.theta)
