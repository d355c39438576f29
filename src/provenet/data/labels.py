"""How finely labels are written, and labels that are probabilities.

*Precision.* A label written in steps of h stands for an interval of width h. Where the network
varies by less than a step, the rounding errors of many labels are one constant, not noise, and no
average over them comes closer to the truth: such labels say intervals, not a variance.

*Probabilities* are turned into the outputs of the network before its link: a logit is
`u = log(p / (1 - p))`, softmax's outputs are `u_k = log p_k` less their mean over the classes (see
`networks.network`). A probability known to h is a logit known to `h / (p (1 - p))`, so near 0 and 1
next to nothing is left. Every label becomes the interval in which u lies: the two ends of the
interval of p, transformed. Its middle is the new label, its width belongs to the label's precision.
Labels known far worse than the best are left out, and so are *saturated* ones, whose interval
reaches 0 or 1. Labels of few digits are known to half a step, others to rounding of numbers next to
1, because p may have been computed as `1 - q`; but three classes and more come out of a softmax,
which rounds each relatively to itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted

_EPS, _TINY = np.finfo(float).eps, np.finfo(float).tiny


@dataclass(frozen=True)
class LabelPrecision:
    """What labels were rounded to."""

    words: str
    """Such as "rounded to 0.01"."""
    widths: Array
    """Width of the interval that each label stands for, in the labels' shape; 0 if it is exact."""
    cut_off: bool = False
    """Whether labels may as well have been truncated: steps of one size do not say."""

    @property
    def rms(self) -> float:
        """Root mean square rounding error."""
        return float(np.sqrt(np.mean(self.widths**2) / 12))

    @property
    def known(self) -> bool:
        """Whether labels are coarser than double precision."""
        return bool(np.any(self.widths > 0))

    def of(self, rows: AnyArray) -> LabelPrecision:
        """That of some of the labels."""
        return LabelPrecision(self.words, self.widths[rows], self.cut_off)


def label_precision(y: Array) -> LabelPrecision:
    """The coarsest way of writing numbers that all labels of an output fit; each output its own."""
    if y.ndim == 1:
        return _of_one_output(y)
    parts = [_of_one_output(column) for column in y.T]
    words = sorted({part.words for part in parts if part.words})
    widths = np.column_stack([part.widths for part in parts])
    # A constant has no steps of its own: it may be less than half of those of the others.
    widths[:, np.ptp(y, axis=0) == 0] = np.max(widths)
    return LabelPrecision(" or ".join(words), widths, any(part.cut_off for part in parts))


def _of_one_output(y: Array, fewest: int = 8) -> LabelPrecision:
    """`fewest` labels must differ, or repeat others: a few are always multiples of something.

    Digits must be clearly coarser than steps to be what labels were rounded to, by a tenth.
    """
    found, different = LabelPrecision("", np.zeros(len(y))), len(np.unique(y))
    if different >= 2 and max(different, len(y) - different) >= fewest:
        for written in (*_in_steps(y), *in_floats(y), *in_digits(y)):
            if written.rms > 1.1 * found.rms:
                found = written
    return found


def in_floats(y: Array) -> list[LabelPrecision]:
    """Numbers of half or single precision, if all of them are."""
    found = []
    for dtype, words in ((np.float16, "of half precision"), (np.float32, "of single precision")):
        with np.errstate(over="ignore"):
            rounded = y.astype(dtype)
        if np.array_equal(rounded, y):
            found.append(LabelPrecision(words, np.spacing(np.abs(rounded)).astype(float)))
    return found


def in_digits(y: Array) -> list[LabelPrecision]:
    """Numbers of so many significant digits, the fewest that suffice, up to nine."""
    size = np.floor(np.log10(np.maximum(np.abs(y), _TINY)))
    for digits in range(1, 10):
        unit = 10.0 ** (size - (digits - 1))
        if np.all(np.abs(y - np.round(y / unit) * unit) <= 4 * _EPS * np.abs(y)):
            widths = np.where(y == 0, np.min(unit[y != 0]), unit)
            return [LabelPrecision(f"of {digits} significant digits", widths)]
    return []


def _in_steps(y: Array) -> list[LabelPrecision]:
    """The largest step, from an offset, of which all differences are multiples, up to rounding.

    A step is at least 10^4 roundings of the largest label: all labels of double precision are
    multiples of their last bit, and a step found by chance is not much larger.
    """
    above = np.unique(y) - np.min(y)
    blur = 4 * _EPS * float(np.max(np.abs(y)))
    for step in (*_common_measures(above, blur, 1e4 * blur), *_decimals(1e4 * blur, above[-1])):
        if np.all(np.abs(above - np.round(above / step) * step) <= blur):
            return [LabelPrecision(f"rounded to {step:.4g}", np.full(len(y), step), True)]
    return []


def _decimals(least: float, most: float) -> Iterator[float]:
    """Powers of ten, for where labels are so few that no two of them are near each other."""
    lowest, highest = (int(np.floor(np.log10(max(x, _TINY)))) for x in (least, most))
    return (10.0**exponent for exponent in range(highest, lowest, -1))


def _common_measures(above: Array, blur: float, least: float) -> Iterator[float]:
    """What may measure all labels, smaller and smaller, by Euclid's algorithm on narrow gaps.

    A step that comes from the shortest distance has lost digits: longer and longer ones restore
    them. Wide gaps are so many steps that digits are lost, so the 64 narrowest are used.
    """
    gaps = np.sort(np.diff(above))
    distances = np.sort(np.append(gaps, above[1:]))
    some = distances[np.unique(np.geomspace(1, len(distances), 100).astype(int)) - 1]
    step, narrow, lost = float(gaps[0]), gaps[:64], blur
    while least < step < np.inf:
        sharp = step
        for distance in some:
            sharp = float(distance / max(np.round(distance / sharp), 1.0))
        yield sharp
        times = np.round(narrow / step)
        remainder = np.abs(narrow - times * step)
        lost = blur + lost * float(np.max(times))
        step = float(np.min(remainder[remainder > lost], initial=np.inf))


# ---------------------------------------------------------------- probabilities


def are_classes(y: Array) -> bool:
    """Whether labels are only 0 and 1: classes, not probabilities."""
    return bool(np.all((y == 0) | (y == 1)))


def sum_to_one(y: Array) -> AnyArray:
    """Which rows do as probabilities must: ten of them, rounded to four digits, miss by 5e-4."""
    return np.asarray(np.abs(y.sum(axis=1) - 1) <= 1e-3)


def possible_links(y: Array) -> tuple[str, ...]:
    """The links by which these labels may have come, the likeliest first.

    Rows that sum to 1 are probabilities. Numbers between 0 and 1 may as well be an output's own
    values; those with a single 0 and a single 1 were scaled to lie there, most likely.
    """
    if not (np.isfinite(y).all() and y.min() >= 0 and y.max() <= 1) or are_classes(y):
        return ("identity",)
    if y.ndim == 1:
        scaled = np.sum(y == 0) == 1 and np.sum(y == 1) == 1
        return ("identity", "logit") if scaled else ("logit", "identity")
    if not sum_to_one(y).all():
        return ("identity",)
    return ("logit",) if y.shape[1] == 2 else ("softmax",)


def check_probabilities(y: Array, link: str) -> None:
    """Raise unless labels are probabilities that this link can have given."""
    Y = y.reshape(len(y), -1)
    finite = np.isfinite(Y).all(axis=1)
    if not finite.all():
        raise InvalidInput(
            f"y is not finite in row {int(np.argmin(finite))}: remove or repair such rows."
        )
    values, times = np.unique(y, return_counts=True)
    numbers = len(values) > 2 and np.array_equal(values, np.arange(len(values)))
    if Y.shape[1] == 1 and numbers and times.min() > 1:
        raise InvalidInput(
            f"y holds numbers of classes, 0 to {len(values) - 1}, where a column for each is "
            f"needed: give np.eye({len(values)})[y] with link='softmax', or use "
            "provenet.NetworkClassifier."
        )
    outside = (Y < 0) | (Y > 1)
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        raise InvalidInput(
            f"y is {Y[row, column]:.6g} in row {row}, and a probability is from 0 to 1 "
            f"({counted(int(outside.any(axis=1).sum()), 'row')} like it): repair them, or give "
            "link='identity'."
        )
    if link == "softmax" and y.ndim == 1:
        raise InvalidInput(
            "link='softmax' needs a column for every class, and y has one: give link='logit'."
        )
    if y.ndim == 2 and (link == "softmax" or y.shape[1] == 2) and not sum_to_one(y).all():
        wrong, off = ~sum_to_one(y), y.sum(axis=1) - 1
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"Row {row} of y sums to {1 + off[row]:.6g}, and probabilities of classes sum to 1 "
            f"({counted(int(wrong.sum()), 'row')} off, by up to {np.abs(off).max():.2g}): repair "
            "them, or give link='identity'."
        )
    if are_classes(y) and not np.ptp(y, axis=0).any():
        number = int(y[0]) if y.ndim == 1 else int(np.argmax(y[0]))
        raise InvalidInput(
            f"All labels are of class {number}: there is nothing to distinguish it from."
        )
    if are_classes(y):
        raise InvalidInput(
            f"y holds classes, 0 and 1, and link={link!r} of samples needs probabilities between "
            "them: give those that the model answers with."
        )


@dataclass(frozen=True)
class BeforeLink:
    """Outputs before the link, of the labels that determine them."""

    u: Array
    """(kept,), or (kept, classes)."""
    precision: LabelPrecision
    """Of these."""
    kept: AnyArray
    """Which labels those are, a mask."""


def before_link(y: Array, link: str) -> BeforeLink:
    """Outputs before a link that is not the identity, of probabilities that were checked."""
    written = _written(y)
    p, h = y, _uncertainty(y, written)
    if link == "logit" and y.ndim == 2 and y.shape[1] == 2:
        p, h = y[:, 1], h.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if link == "logit":
            low, high = (np.asarray(logit(np.clip(q, 0.0, 1.0))) for q in (p - h / 2, p + h / 2))
            u, widths = (low + high) / 2, high - low
        else:  # a class's logarithm less the mean of all of them; infinite where p may be 0
            u = np.log(p) - np.log(p).mean(axis=1, keepdims=True)
            own = np.where(p > h, h / p, np.inf)
            widths = own + own.mean(axis=1, keepdims=True)
    worst = widths if widths.ndim == 1 else widths.max(axis=1)
    known = np.isfinite(worst) & np.isfinite(u.reshape(len(u), -1)).all(axis=1)
    kept = known & (np.where(known, worst, np.inf) <= _widest(worst[known], written.known))
    words = f"probabilities {written.words}".rstrip()
    return BeforeLink(u[kept], LabelPrecision(words, widths[kept]), kept)


def _widest(widths: Array, coarse: bool) -> float:
    """Up to which width labels are kept: a thousand times the best, logits up to 7 in double
    precision, all of which can be fitted to the last digits with one weight.

    Of labels of few digits the widths count, and one weight for all would let the worst rule the
    search: twenty times the best, logits up to 4, unless more than half of them are wider.
    """
    if not len(widths):
        return 0.0
    best = float(widths.min())
    return min(1e3 * best, max(20 * best, float(np.median(widths)))) if coarse else 1e3 * best


def _written(y: Array) -> LabelPrecision:
    """How finely probabilities are written; a 0 or a 1 does not say how many digits it has."""
    between = (y > 0) & (y < 1)
    if y.ndim == 2:
        between = np.broadcast_to(between.all(axis=1, keepdims=True), y.shape)
    inside = label_precision(y[between].reshape(-1, *y.shape[1:]))
    widths = np.full(y.shape, np.max(inside.widths, initial=0.0))
    widths[between] = inside.widths.ravel()
    return LabelPrecision(inside.words, widths)


def _uncertainty(y: Array, written: LabelPrecision) -> Array:
    """The width of the interval that each probability stands for: that of its digits, and at least
    a rounding to both sides together, of itself and of the exponential."""
    eps = 0.0 if written.known else _EPS
    for word, kind in (("single", np.float32), ("half", np.float16)):
        eps = float(np.finfo(kind).eps) if word in written.words else eps
    size = np.maximum(y, _TINY) if y.ndim == 2 and y.shape[1] > 2 else 1.0
    return np.asarray(np.maximum(written.widths, 2 * eps * size))
