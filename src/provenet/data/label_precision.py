"""How finely labels are written: in half or single precision, with so many digits, in steps.

A label that is written in steps of h stands for an interval of width h. Where the network varies by
less than a step, the rounding errors of many labels are one constant, not noise, and no average
over them comes closer to the truth; so the intervals, not a variance, are what such labels tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.data.tolerances import (
    CLEARLY_COARSER,
    COARSE,
    FEWEST_STEPPED,
    MOST_DIGITS,
    NARROW_GAPS,
    SAME_STEP,
)
from provenet.networks.tolerances import EPS, TINY


@dataclass(frozen=True)
class LabelPrecision:
    """What labels were rounded to."""

    words: str
    """Such as "rounded to 0.01"."""
    widths: Array
    """Width of the interval that each label stands for, in the labels' shape; 0 if it is exact."""
    cut_off: bool = False
    """Whether labels may as well have been cut off: steps of one size do not tell."""

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


def _of_one_output(y: Array) -> LabelPrecision:
    exact = LabelPrecision("", np.zeros(len(y)))
    different = len(np.unique(y))
    if different < 2 or max(different, len(y) - different) < FEWEST_STEPPED:
        return exact
    found = exact
    for written in (*_in_steps(y), *in_floats(y), *in_digits(y)):
        if written.rms > CLEARLY_COARSER * found.rms:
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
    """Numbers of so many significant digits, the fewest that suffice."""
    size = np.floor(np.log10(np.maximum(np.abs(y), TINY)))
    for digits in range(1, MOST_DIGITS + 1):
        unit = 10.0 ** (size - (digits - 1))
        if _are_multiples(y, unit):
            widths = np.where(y == 0, np.min(unit[y != 0]), unit)
            return [LabelPrecision(f"of {digits} significant digits", widths)]
    return []


def _in_steps(y: Array) -> list[LabelPrecision]:
    """The largest step, from an offset, of which all differences are multiples."""
    above = np.unique(y) - np.min(y)
    blur = SAME_STEP * EPS * float(np.max(np.abs(y)))
    for step in (*_common_measures(above, blur), *_decimals(blur, above[-1])):
        if np.all(np.abs(above - np.round(above / step) * step) <= blur):
            return [LabelPrecision(f"rounded to {step:.4g}", np.full(len(y), step), True)]
    return []


def _decimals(blur: float, most: float) -> Iterator[float]:
    """Powers of ten, for where labels are so few that no two of them are near each other."""
    lowest, highest = (
        int(np.floor(np.log10(max(x, np.finfo(float).tiny)))) for x in (COARSE * blur, most)
    )
    for exponent in range(highest, lowest, -1):
        yield 10.0**exponent


def _common_measures(above: Array, blur: float) -> Iterator[float]:
    """What may measure all labels, smaller and smaller, as Euclid finds it."""
    gaps = np.sort(np.diff(above))
    distances = np.sort(np.append(gaps, above[1:]))
    step, narrow, lost = float(gaps[0]), gaps[:NARROW_GAPS], blur
    while step > COARSE * blur:
        yield _sharpened(step, distances)
        times = np.round(narrow / step)
        remainder = np.abs(narrow - times * step)
        lost = blur + lost * float(np.max(times))
        step = float(np.min(remainder[remainder > lost], initial=np.inf))
        if not np.isfinite(step):
            return


def _sharpened(step: float, distances: Array) -> float:
    """The step from longer and longer distances: the shortest has lost digits."""
    for distance in distances[np.unique(np.geomspace(1, len(distances), 100).astype(int)) - 1]:
        step = distance / max(np.round(distance / step), 1.0)
    return float(step)


def _are_multiples(y: Array, unit: Array) -> bool:
    blur = SAME_STEP * EPS * np.abs(y)
    return bool(np.all(np.abs(y - np.round(y / unit) * unit) <= blur))
