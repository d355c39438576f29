"""The precision of labels, and labels that are probabilities.

*Precision.* A label rounded to steps of h stands for an interval of width h. Where the network
varies by less than a step, the rounding errors of many labels are one constant, not noise, and no
average over them comes closer to the truth: such labels give intervals, not a variance.

*Probabilities* are turned into the outputs of the network before its link: a logit is
`u = log(p / (1 - p))`, softmax's outputs are `u_k = log p_k` less their mean over the classes (see
`networks.network`). A probability known to h is a logit known to `h / (p (1 - p))`, so next to
nothing is known near 0 and 1. Every label becomes the interval in which u lies: the transformed
ends of the interval of p. Its middle is the new label, its width the label's precision. Labels
known far worse than the best are left out, and so are *saturated* ones, whose interval reaches 0 or
1. Labels of few digits are known to half a step, others to rounding of numbers next to 1, because p
may have been computed as `1 - q`; but a softmax of three classes or more rounds each probability
relatively to itself.
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
    """Whether labels may have been truncated instead: steps of one size do not determine it."""

    @property
    def rms(self) -> float:
        """Root mean square rounding error."""
        return float(np.sqrt(np.mean(self.widths**2) / 12))

    @property
    def known(self) -> bool:
        """Whether labels are coarser than double precision."""
        return bool(np.any(self.widths > 0))

    def of(self, rows: AnyArray) -> LabelPrecision:
        """The precision of some of the labels."""
        return LabelPrecision(self.words, self.widths[rows], self.cut_off)


def label_precision(y: Array) -> LabelPrecision:
    """The coarsest rounding that all labels of an output fit; each output has its own."""
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

    A later kind of rounding is only preferred if it is clearly coarser, by a tenth.
    """
    found, different = LabelPrecision("", np.zeros(len(y))), len(np.unique(y))
    if different >= 2 and max(different, len(y) - different) >= fewest:
        for rounded in (*_in_steps(y), *in_floats(y), *in_digits(y)):
            if rounded.rms > 1.1 * found.rms:
                found = rounded
    return found


def in_floats(y: Array) -> Iterator[LabelPrecision]:
    """Half or single precision, if all labels have it."""
    for dtype, words in ((np.float16, "of half precision"), (np.float32, "of single precision")):
        with np.errstate(over="ignore"):
            rounded = y.astype(dtype)
        if np.array_equal(rounded, y):
            yield LabelPrecision(words, np.spacing(np.abs(rounded)).astype(float))


def in_digits(y: Array) -> Iterator[LabelPrecision]:
    """The fewest significant digits that suffice, if at most nine do."""
    size = np.floor(np.log10(np.maximum(np.abs(y), _TINY)))
    for digits in range(1, 10):
        unit = 10.0 ** (size - (digits - 1))
        if np.all(np.abs(y - np.round(y / unit) * unit) <= 4 * _EPS * np.abs(y)):
            widths = np.where(y == 0, np.min(unit[y != 0]), unit)
            yield LabelPrecision(f"of {digits} significant digits", widths)
            return


def _in_steps(y: Array) -> Iterator[LabelPrecision]:
    """The largest step of which all differences are multiples, up to rounding.

    A step is at least 10^4 roundings of the largest label: all labels of double precision are
    multiples of their last bit, and a step found by chance is not much larger. Candidates come from
    Euclid's algorithm on the 64 narrowest gaps (wide ones lose digits) and are powers of ten;
    the digits that a step from a short distance lacks come from longer and longer distances.
    """
    above = np.unique(y) - np.min(y)
    rounding = 4 * _EPS * float(np.max(np.abs(y)))
    least, gaps = 1e4 * rounding, np.sort(np.diff(above))
    distances = np.sort(np.append(gaps, above[1:]))
    some = distances[np.unique(np.geomspace(1, len(distances), 100).astype(int)) - 1]
    steps, step, narrow, lost = list[float](), float(gaps[0]), gaps[:64], rounding
    while least < step < np.inf:
        steps.append(step)
        for distance in some:
            steps[-1] = float(distance / max(np.round(distance / steps[-1]), 1.0))
        times = np.round(narrow / step)
        remainder = np.abs(narrow - times * step)
        lost = rounding + lost * float(np.max(times))
        step = float(np.min(remainder[remainder > lost], initial=np.inf))
    lowest, highest = (int(np.floor(np.log10(max(x, _TINY)))) for x in (least, above[-1]))
    for step in (*steps, *(10.0**exponent for exponent in range(highest, lowest, -1))):
        if np.all(np.abs(above - np.round(above / step) * step) <= rounding):
            yield LabelPrecision(f"rounded to {step:.4g}", np.full(len(y), step), True)
            return


# ---------------------------------------------------------------- probabilities


def are_classes(y: Array) -> bool:
    """Whether labels are only 0 and 1: classes, not probabilities."""
    return bool(np.all((y == 0) | (y == 1)))


def sum_to_one(y: Array) -> AnyArray:
    """Which rows sum to one, to 1e-3: ten probabilities rounded to four digits miss by 5e-4."""
    return np.asarray(np.abs(y.sum(axis=1) - 1) <= 1e-3)


def possible_links(y: Array) -> tuple[str, ...]:
    """The possible links of these labels, the most likely first.

    Rows that sum to 1 are probabilities. Numbers between 0 and 1 may also be an output's own
    values; those with a single 0 and a single 1 were most likely scaled to this range.
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

    def check(right: AnyArray, found: Array, problem: str) -> None:
        if not right.all():
            row = int(np.argmin(right))
            raise InvalidInput(
                f"y {problem.format(found[row])} in row {row} "
                f"({counted(int(np.sum(~right)), 'row')} like it): remove or repair such rows, or "
                "give link='identity'."
            )

    Y = y.reshape(len(y), -1)
    worst = Y[np.arange(len(Y)), np.argmax(np.abs(Y - 0.5), axis=1)]
    check(np.isfinite(worst), worst, "is not finite")
    if np.array_equal(y, np.round(y)):
        raise InvalidInput(
            f"y holds classes, and link={link!r} needs probabilities: give those of the model, "
            f"np.eye({int(y.max()) + 1})[y] with link='softmax', or use provenet.NetworkClassifier."
        )
    check(np.abs(worst - 0.5) <= 0.5, worst, "is {:.6g}, not a probability from 0 to 1,")
    if link == "softmax" and y.ndim == 1:
        raise InvalidInput("link='softmax' needs a column for every class: give link='logit'.")
    if y.ndim == 2 and (link == "softmax" or y.shape[1] == 2):
        check(sum_to_one(y), y.sum(axis=1), "sums to {:.6g}, not to 1 as probabilities do,")


def before_link(y: Array, link: str) -> tuple[Array, LabelPrecision, AnyArray]:
    """Outputs before a link that is not the identity, of the probabilities that determine them,
    their precision, and a mask of those probabilities."""
    rounding = _rounding(y)
    p, h = y, _uncertainty(y, rounding)
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
    # A thousand times the best, logits up to 7 in double precision, can all be fitted to the last
    # digits with equal weights. With few digits the worst label would determine the error: twenty
    # times the best, logits up to 4, unless more than half of them are wider.
    best = np.min(worst, initial=np.inf, where=known)
    widest = 1e3 * best
    if rounding.known and known.any():
        widest = min(widest, max(20 * best, np.median(worst[known])))
    kept = known & (worst <= widest)
    words = f"probabilities {rounding.words}".rstrip()
    return u[kept], LabelPrecision(words, widths[kept]), kept


def _rounding(y: Array) -> LabelPrecision:
    """What probabilities were rounded to; a 0 or a 1 does not show its number of digits."""
    between = (y > 0) & (y < 1)
    if y.ndim == 2:
        between = np.broadcast_to(between.all(axis=1, keepdims=True), y.shape)
    inside = label_precision(y[between].reshape(-1, *y.shape[1:]))
    widths = np.full(y.shape, np.max(inside.widths, initial=0.0))
    widths[between] = inside.widths.ravel()
    return LabelPrecision(inside.words, widths)


def _uncertainty(y: Array, rounding: LabelPrecision) -> Array:
    """The width of the interval that each probability stands for: that of its digits, and at least
    the rounding errors of itself and of the exponential together."""
    eps = 0.0 if rounding.known else _EPS
    for word, kind in (("single", np.float32), ("half", np.float16)):
        eps = float(np.finfo(kind).eps) if word in rounding.words else eps
    size = np.maximum(y, _TINY) if y.ndim == 2 and y.shape[1] > 2 else 1.0
    return np.asarray(np.maximum(rounding.widths, 2 * eps * size))
