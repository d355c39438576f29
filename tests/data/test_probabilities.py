"""Probabilities as outputs before the link: what each label tells, and what cannot be one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax

import provenet as pn
from helpers import is_a_sentence
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.probabilities import before_link, check_probabilities, possible_links
from provenet.data.sources import ArraySource
from provenet.data.sources.linked import LinkedSource

RNG = np.random.default_rng(0)
U = np.sort(RNG.normal(0.0, 6.0, 4000))
UK = RNG.normal(0.0, 4.0, (2000, 4))
CENTRED = UK - UK.mean(axis=1, keepdims=True)


def rounded(p: Array, how: str) -> Array:
    if how in ("float64", "float32"):
        return p.astype(how).astype(float)
    return np.round(p, int(how))


@pytest.mark.parametrize("how", ["float64", "float32", "6", "3", "2"])
@pytest.mark.parametrize("columns", [1, 2])
def test_every_logit_lies_in_the_interval_that_is_stated(how: str, columns: int) -> None:
    p = rounded(expit(U), how)
    y = p if columns == 1 else np.column_stack([rounded(1 - p, how), p])
    found = before_link(y, "logit")
    off = np.abs(found.u - U[found.kept])
    assert np.all(off <= found.precision.widths / 2 * (1 + 1e-6))
    # Not needlessly wide: roundings reach a third of the way to the ends, and far.
    assert np.max(off / found.precision.widths) > 0.1
    assert found.kept.sum() > 0.3 * len(U)
    # What is left out says little: a thousand times less than the best.
    assert not found.kept[np.abs(U) > 30].any()


@pytest.mark.parametrize("how", ["float64", "float32", "4"])
def test_classes_by_their_logarithms(how: str) -> None:
    p = rounded(softmax(UK, axis=1), how)
    found = before_link(p, "softmax")
    off = np.abs(found.u - CENTRED[found.kept])
    # Rounding of the logarithm itself, of numbers below 40, beside that of p.
    assert np.all(off <= found.precision.widths + 1e-14)
    np.testing.assert_allclose(found.u.sum(axis=1), 0, atol=1e-13)
    assert found.kept.sum() > 0.1 * len(UK)


def test_small_probabilities_of_classes_keep_their_digits() -> None:
    """A softmax rounds each probability relatively to itself: none is left out."""
    u = RNG.normal(0.0, 20.0, (500, 3))
    assert before_link(softmax(u, axis=1), "softmax").kept.all()


def test_which_links_labels_may_have_come_by() -> None:
    p = expit(U)
    two = np.column_stack([1 - p, p])
    assert possible_links(p) == ("logit", "identity")
    assert possible_links(two) == ("logit",)
    assert possible_links(np.round(two, 3)) == ("logit",)
    assert possible_links(softmax(UK, axis=1)) == ("softmax",)
    assert possible_links(expit(UK)) == ("identity",)  # rows do not sum to 1
    assert possible_links(2 * p) == ("identity",)
    assert possible_links(p - 0.1) == ("identity",)
    assert possible_links((p > 0.5).astype(float)) == ("identity",)
    scaled = (U - U.min()) / np.ptp(U)
    assert possible_links(scaled) == ("identity", "logit")


BAD = {
    "above": (np.append(expit(U), 1.5), "logit", ("1.5", "row 4000", "1 row like it")),
    "below": (np.array([0.5, -0.25, 0.5]), "logit", ("-0.25", "row 1", "link='identity'")),
    "sums": (np.array([[0.5, 0.3], [0.4, 0.6]]), "logit", ("Row 0", "sums to 0.8", "0.2")),
    "classes": (np.array([[0.5, 0.3, 0.1]] * 5), "softmax", ("Row 0", "5 rows off", "0.1")),
    "numbers": (np.array([0.0, 1, 2, 2, 1, 0]), "softmax", ("0 to 2", "np.eye(3)[y]")),
    "one column": (expit(U), "softmax", ("a column for every class", "logit")),
    "a gap": (np.array([0.5, np.nan]), "logit", ("not finite", "row 1")),
    "0 and 1": (np.array([0.0, 1.0, 1.0]), "logit", ("classes", "probabilities")),
    "one class": (np.ones(5), "logit", ("All labels are of class 1",)),
    "one of three": (np.array([[0.0, 1.0, 0.0]] * 4), "softmax", ("All labels are of class 1",)),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_probability(name: str) -> None:
    y, link, words = BAD[name]
    with pytest.raises(pn.InvalidInput) as error:
        check_probabilities(y, link)
    is_a_sentence(error, *words)


def test_a_draw_knows_the_precision_of_its_labels() -> None:
    source = LinkedSource(ArraySource(U[:, None], np.round(expit(U), 3)), "logit")
    drawn = source.draw(50, np.random.default_rng(1))
    assert drawn.precision is not None and drawn.rows is not None
    np.testing.assert_array_equal(drawn.precision.widths, source.precision.widths[drawn.rows])
    assert source.saturated == len(U) - source.size > 0


def test_nothing_is_learned_from_saturated_labels() -> None:
    y = np.where(U > 0, 1.0, 0.0)
    y[0] = 0.5
    with pytest.raises(NoAnswer, match="near 0 or 1"):
        LinkedSource(ArraySource(U[:, None], y), "logit")


def test_a_class_that_no_sample_has_is_named() -> None:
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = np.eye(4)[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(X, y, link="softmax", rng=0)
    is_a_sentence(error, "class 3", "Leave its column out")
