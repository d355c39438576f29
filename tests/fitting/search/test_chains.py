"""Chains of expanding and pruning: what they yield, and what they say of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import provenet as pn
from provenet.common.ended import Ended
from provenet.data.sources import ArraySource
from provenet.fitting.parameters import Parameters
from provenet.fitting.search.chains import _evidence, chains
from provenet.fitting.workspace import Wishes, Workspace, prepare
from provenet.networks.conversions import as_absolute

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
