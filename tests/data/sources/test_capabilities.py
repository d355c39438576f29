"""What a source can do it says itself: no caller looks at its class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources import BiasedSource, MappedSource, Source
from provenet.estimators.reservoir import ReservoirSource

X = np.random.default_rng(0).standard_normal((40, 3))
Y = X[:, 0]
NETWORK = pn.Network(np.eye(3))


@dataclass(frozen=True)
class Can:
    """What a source is expected to be able to do."""

    ask: bool = False
    population: bool = False
    memory: bool = False
    kept: bool = False
    biased: bool = False


KINDS: dict[str, tuple[Source, Can]] = {
    "arrays": (pn.ArraySource(X, Y), Can(memory=True)),
    "reservoir": (ReservoirSource.of(X, Y, 10, np.random.default_rng(0)), Can(memory=True)),
    "queries": (pn.QuerySource(NETWORK, 3, 40), Can(ask=True)),
    "population": (pn.PopulationSource(NETWORK, 40), Can(ask=True, population=True)),
    "biased": (BiasedSource(X, np.exp(Y)), Can(biased=True)),
    "biased inputs": (BiasedSource(X), Can(kept=True, biased=True)),
    "mapped": (MappedSource(pn.QuerySource(NETWORK, 3, 40), lambda X, y: (X, y)), Can()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_capabilities(kind: str) -> None:
    source, can = KINDS[kind]
    assert source.may_be_asked is can.ask
    assert (source.population is not None) is can.population
    assert source.in_memory is can.memory
    assert source.kept_by_labels is can.kept
    assert source.biased is can.biased


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_answers_if_and_only_if_it_says_so(kind: str) -> None:
    source, can = KINDS[kind]
    if can.ask:
        np.testing.assert_array_equal(source.ask(X), NETWORK(X))
    else:
        with pytest.raises(pn.InvalidInput, match="no others can be asked for"):
            source.ask(X)


def test_a_reservoir_has_seen_more_than_it_holds() -> None:
    source, _ = KINDS["reservoir"]
    assert (source.seen, source.size) == (40, 10)
    assert pn.ArraySource(X, Y).seen == 40


@pytest.mark.parametrize("kind", ["arrays", "reservoir"])
def test_columns_of_samples_in_memory(kind: str) -> None:
    source, _ = KINDS[kind]
    assert isinstance(source, pn.ArraySource)
    some = source.columns(np.array([0, 2]))
    np.testing.assert_array_equal(some.X, source.X[:, [0, 2]])
    assert type(some) is type(source)
    assert some.seen == source.seen


@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_tells_which_rows_it_took_unless_it_made_them(kind: str) -> None:
    source, can = KINDS[kind]
    drawn = source.draw(7, np.random.default_rng(3))
    assert drawn.X.shape == (7, 3) and drawn.y.shape == (7,)
    if can.ask or kind == "mapped":  # of queries
        assert drawn.rows is None
    else:
        everything = source.rows(0, source.size)
        assert drawn.rows is not None and len(set(drawn.rows)) == 7
        np.testing.assert_array_equal(drawn.X, everything[0][drawn.rows])
        np.testing.assert_array_equal(drawn.y, everything[1][drawn.rows])
