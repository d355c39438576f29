"""Changed samples are added up where the source's own are."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.data.fingerprint import fingerprint
from provenet.data.sources import ArraySource, MappedSource, StandardisedSource

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((9000, 3)), RNG.standard_normal((9000, 2))


def halved(x: Array, y: Array) -> tuple[Array, Array]:
    return x[:, :2] / 2, y + 1


def gram(x: Array, y: Array) -> Array:
    return y.T @ x


class Told(ArraySource):
    """Remembers which terms it was asked to add up."""

    terms: tuple[object, ...] = ()

    def total(self, term, rows=4096):  # type: ignore[no-untyped-def]
        self.terms = (*self.terms, term)
        return super().total(term, rows)


def test_rows_draws_and_sums_are_changed() -> None:
    source = Told(X, Y)
    mapped = MappedSource(source, halved, 2)
    assert (mapped.size, mapped.features, mapped.outputs) == (9000, 2, 2)
    x, y = mapped.rows(5, 9)
    np.testing.assert_array_equal(x, X[5:9, :2] / 2)
    np.testing.assert_array_equal(y, Y[5:9] + 1)
    expected = (Y + 1).T @ (X[:, :2] / 2)
    np.testing.assert_allclose(mapped.total(gram), expected, rtol=0, atol=1e-10)
    some = (Y[10:5000] + 1).T @ (X[10:5000, :2] / 2)
    np.testing.assert_allclose(mapped.partial_total(gram, 10, 5000, 512), some, rtol=0, atol=1e-10)
    drawn, plain = (s.draw(7, np.random.default_rng(1)) for s in (mapped, source))
    np.testing.assert_array_equal(drawn.X, plain.X[:, :2] / 2)
    np.testing.assert_array_equal(drawn.X, X[drawn.rows, :2] / 2)


def test_the_source_itself_adds_up_a_term_that_tells_how_samples_are_changed() -> None:
    source = Told(X, Y)
    s = source.standardisation()
    source.terms = ()
    for scale in (1.0, 2.0):
        StandardisedSource(source, s, scale).total(gram)
    assert len({fingerprint(term) for term in source.terms}) == 2
