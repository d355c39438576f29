"""What a recovery is given: samples to fit, and samples that no fit sees."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.exceptions import NoAnswer
from provenet.data.sources import Source
from provenet.fitting.context import Context, Options, prepare, row_keys, samples_to_draw

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3000, 2))
NETWORK = pn.Network(np.eye(2), [0.1, -0.2])


def prepared(source: Source) -> Context:
    return prepare(
        source,
        Options(),
        source.standardisation(),
        rng=np.random.default_rng(1),
        progress=lambda stage, fraction, message: None,
        deadline=np.inf,
    )


def test_held_out_rows_are_the_numbers_of_the_samples_held_out() -> None:
    context = prepared(pn.ArraySource(X, NETWORK(X)))
    rows = context.held_out_rows
    assert len(rows) == len(set(rows)) == context.held_out.size == 300
    np.testing.assert_array_equal(X[rows], context.held_out.X)
    np.testing.assert_array_equal(NETWORK(X[rows]), context.held_out.y)


@pytest.mark.parametrize(
    ("features", "samples"), [(10, 20_000), (200, 100_000), (500, 40_000), (2000, 100_000)]
)
def test_many_features_are_given_samples_for_half_as_many_units(
    features: int, samples: int
) -> None:
    """Five a weight, as far as memory goes, and always some for each feature."""
    assert samples_to_draw(features) == samples


def test_repeated_inputs_are_held_out_together() -> None:
    twice = np.repeat(X, 2, axis=0)
    context = prepared(pn.ArraySource(twice, NETWORK(twice)))
    rows = np.sort(context.held_out_rows)
    assert context.unseen == 300 and len(rows) == 600
    np.testing.assert_array_equal(rows[::2] + 1, rows[1::2])
    np.testing.assert_array_equal(rows[::2] % 2, 0)


def test_samples_made_afresh_have_no_numbers() -> None:
    context = prepared(pn.QuerySource(NETWORK, 2, 3000, rng=0))
    assert context.held_out.size > 0 and context.held_out_rows.shape == (0,)


def test_twins_that_were_not_drawn_are_hidden_too() -> None:
    """Each input twenty times, three times as many samples as are drawn."""
    many = np.tile(X, (20, 1))
    context = prepared(pn.ArraySource(many, NETWORK(many)))
    held_out = {tuple(x) for x in context.held_out.X}
    hidden = context.hidden_rows
    assert len(hidden) == 20 * context.unseen > len(context.held_out_rows)
    assert {tuple(x) for x in many[hidden]} == held_out


def test_repaired_labels_that_are_all_the_same_are_no_problem_to_fit() -> None:
    context = prepared(pn.ArraySource(X, NETWORK(X)))
    with pytest.raises(NoAnswer, match="nothing is left to explain"):
        context.on(pn.ArraySource(X, np.full(len(X), 2.0)))


def test_a_row_has_the_same_key_wherever_it_stands() -> None:
    X = np.random.default_rng(0).standard_normal((20_000, 7))
    order = np.random.default_rng(1).permutation(len(X))
    keys = row_keys(X)
    assert len(set(keys)) == len(X)
    np.testing.assert_array_equal(row_keys(X[order]), keys[order])


def test_repeated_inputs_are_there_once_and_others_are_not_copied() -> None:
    X = np.random.default_rng(0).standard_normal((3000, 2))
    different = prepared(pn.ArraySource(X, NETWORK(X)))
    repeated = np.concatenate([X, X])
    once = prepared(pn.ArraySource(repeated, NETWORK(repeated)))
    assert len(different.inputs) == len(once.inputs) == 3000
    np.testing.assert_array_equal(np.sort(once.inputs[:, 0]), np.sort(X[:, 0]))
