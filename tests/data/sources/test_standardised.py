"""A source seen in standardised coordinates."""

from __future__ import annotations

import numpy as np

import provenet as pn
from helpers import random_standardisation
from provenet.data.sources import ArraySource, StandardisedSource
from provenet.data.standardisation import LinearSums

NET = pn.random_network(2, 3, rng=0)
X, Y = pn.sample(NET, 9000, covariance=np.diag([1.0, 4.0, 0.1]), rng=1)
X += np.array([0.0, 5.0, -2.0])


def test_rows_and_draws_are_standardised_and_labels_are_not() -> None:
    s = random_standardisation(3, np.random.default_rng(2))
    inner = ArraySource(X, Y)
    source = StandardisedSource(inner, s)
    assert (source.size, source.features, source.outputs) == (9000, 3, None)
    Z, y = source.rows(4000, 6000)
    np.testing.assert_array_equal(Z, s.apply(X[4000:6000]))
    np.testing.assert_array_equal(y, Y[4000:6000])
    drawn, same = (t.draw(50, np.random.default_rng(3)) for t in (source, inner))
    np.testing.assert_array_equal(drawn.X, s.apply(same.X))
    np.testing.assert_array_equal(drawn.y, same.y)
    np.testing.assert_array_equal(drawn.rows, same.rows)


def test_its_own_standardisation_makes_it_white() -> None:
    inner = ArraySource(X, Y)
    source = StandardisedSource(inner, inner.standardisation())
    sums = source.total(lambda z, y: LinearSums.of(z, y, np.zeros(3), 0.0))
    # Rounding of sums over 9000 samples, block by block.
    np.testing.assert_allclose(sums.x / 9000, 0.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sums.xx / 9000, np.eye(3), rtol=0, atol=1e-11)
    again = source.standardisation()
    np.testing.assert_allclose(again.whiten, np.eye(3), rtol=0, atol=1e-11)
    np.testing.assert_allclose(again.linear, inner.standardisation().linear, rtol=0, atol=1e-11)
