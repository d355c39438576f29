"""What labels were rounded to, and probabilities as outputs before the link."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax

import provenet as pn
from helpers import is_a_sentence
from provenet.common.typing import Array
from provenet.data.labels import (
    before_link,
    check_probabilities,
    label_precision,
    possible_links,
)

RNG = np.random.default_rng(0)
Y = 3 * np.random.default_rng(0).standard_normal(500) + 1


@pytest.mark.parametrize("n", [30, 500])
@pytest.mark.parametrize("step", [1.0, 1 / 3, 1e-2, 2**-16 / 3, 1e-6, 1e-8])
@pytest.mark.parametrize("offset", [0.0, 0.137])
def test_steps_are_found_with_any_offset(n, step, offset):
    found = label_precision(np.round(Y[:n] / step) * step + offset)
    # The step is read from a span of labels: it is known to their last digits.
    assert found.widths == pytest.approx(np.full(n, step), rel=1e-9)
    assert found.words == f"rounded to {step:.4g}" and found.cut_off


@pytest.mark.parametrize(("dtype", "words"), [(np.float16, "half"), (np.float32, "single")])
def test_floats_of_few_bits_are_known(dtype, words):
    y = Y.astype(dtype)
    found = label_precision(y.astype(float))
    assert words in found.words and not found.cut_off
    assert np.all(np.abs(y.astype(float) - Y) <= found.widths / 2)  # rounding to the nearest
    assert found.rms == pytest.approx(np.sqrt(np.mean((y - Y) ** 2)), rel=0.15)


def test_significant_digits_are_known():
    found = label_precision(np.array([float(f"{v:.4g}") for v in Y]))
    assert "4 significant digits" in found.words
    size = 10.0 ** np.floor(np.log10(np.abs(Y)))
    assert found.widths == pytest.approx(size / 1000, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_double_precision_has_no_steps(seed):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(rng.integers(10, 2000)) * 10 ** rng.uniform(-5, 5)
    found = label_precision(y + 10 ** rng.uniform(-5, 5))
    assert not found.known and found.rms == 0.0 and found.words == ""


def test_each_output_has_its_own():
    found = label_precision(np.column_stack([np.round(Y, 2), Y, np.round(Y)]))
    assert np.ptp(found.widths, axis=0) == pytest.approx(0)
    assert found.widths[0] == pytest.approx([0.01, 0.0, 1.0])


def test_a_constant_beside_steps_may_have_been_rounded_to_them():
    found = label_precision(np.column_stack([np.round(0.1 * np.sin(Y)), np.round(Y)]))
    assert found.widths[0] == pytest.approx([1.0, 1.0])


def test_few_labels_tell_nothing():
    assert not label_precision(np.array([1.0, 2.0, 4.0])).known
    assert not label_precision(np.ones(50)).known
    assert label_precision(np.array([0.0, 1.0] * 20)).widths[0] == 1.0


# ---------------------------------------------------------------- probabilities

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
    u, precision, kept = before_link(y, "logit")
    off = np.abs(u - U[kept])
    assert np.all(off <= precision.widths / 2 * (1 + 1e-6))
    # Not needlessly wide: roundings reach a third of the way to the ends, and far.
    assert np.max(off / precision.widths) > 0.1
    assert kept.sum() > 0.3 * len(U)
    # What is left out says little: a thousand times less than the best.
    assert not kept[np.abs(U) > 30].any()


@pytest.mark.parametrize("how", ["float64", "float32", "4"])
def test_classes_by_their_logarithms(how: str) -> None:
    p = rounded(softmax(UK, axis=1), how)
    u, precision, kept = before_link(p, "softmax")
    off = np.abs(u - CENTRED[kept])
    # Rounding of the logarithm itself, of numbers below 40, beside that of p.
    assert np.all(off <= precision.widths + 1e-14)
    np.testing.assert_allclose(u.sum(axis=1), 0, atol=1e-13)
    assert kept.sum() > 0.1 * len(UK)


def test_small_probabilities_of_classes_keep_their_digits() -> None:
    """A softmax rounds each probability relatively to itself: none is left out."""
    u = RNG.normal(0.0, 20.0, (500, 3))
    assert before_link(softmax(u, axis=1), "softmax")[2].all()


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
    "sums": (np.array([[0.5, 0.3], [0.4, 0.6]]), "logit", ("row 0", "sums to 0.8", "1 row ")),
    "classes": (np.array([[0.5, 0.3, 0.1]] * 5), "softmax", ("row 0", "sums to 0.9", "5 rows")),
    "numbers": (np.array([0.0, 1, 2, 2, 1, 0]), "softmax", ("classes", "np.eye(3)[y]")),
    "one column": (expit(U), "softmax", ("a column for every class", "logit")),
    "a gap": (np.array([0.5, np.nan]), "logit", ("not finite", "row 1")),
    "0 and 1": (np.array([0.0, 1.0, 1.0]), "logit", ("classes", "probabilities")),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_probability(name: str) -> None:
    y, link, words = BAD[name]
    with pytest.raises(pn.InvalidInput) as error:
        check_probabilities(y, link)
    is_a_sentence(error, *words)


def test_a_class_that_no_sample_has_is_named() -> None:
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = np.eye(4)[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(X, y, link="softmax", rng=0)
    is_a_sentence(error, "class 3", "leave its column out")
