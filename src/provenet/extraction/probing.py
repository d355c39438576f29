"""What kind of answers a model gives, from a few questions.

The same point asked again shows noise. On a short segment a network is linear, unless a kink lies
on it, which most of a few segments hardly ever have: second differences of the answers are
rounding, whose size tells the precision; so do the last digits of the answers. Where they grow with
the square of the length, the function is smooth and no network of ReLU units. Steep units are flat
on most segments: one that bends so, where no other bends otherwise, is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from provenet.common.typing import Array
from provenet.data.labels import in_digits, in_floats
from provenet.extraction.box import Box
from provenet.extraction.oracle import Oracle
from provenet.extraction.tolerances import (
    ASKED_TWICE,
    CURVED,
    DIFFERENT,
    DIGITS,
    DIGITS_OFF,
    DOUBLE,
    EPS,
    LONGER,
    MIDDLE,
    SEGMENTS,
    SHORT,
    SINGLE,
    TINIEST,
)


class AnswerKind(StrEnum):
    """How the answers are to be read."""

    EXACT = "exact"
    ROUNDED = "rounded"
    NOISY = "noisy"
    SMOOTH = "smooth"


@dataclass(frozen=True)
class Probe:
    """The kind of answers, and how large their errors are beside the answers."""

    kind: AnswerKind
    level: float
    step: float = 0.0
    """Of answers that are decimals: the same for all of them, whatever their size."""
    first: Array = field(default_factory=lambda: np.empty((0, 1)), compare=False, repr=False)
    """The answers to a few random inputs, in rows."""

    @property
    def single(self) -> bool:
        """Whether answers are those of single precision."""
        return self.kind is AnswerKind.ROUNDED and bool(np.isclose(self.level, SINGLE))

    def __str__(self) -> str:
        """In a message."""
        return {
            AnswerKind.EXACT: "The answers are exact to double precision",
            AnswerKind.ROUNDED: f"The answers are rounded (about {self.level:.0e} of their size)",
            AnswerKind.NOISY: f"The answers are noisy (about {self.level:.0e} of their size)",
            AnswerKind.SMOOTH: "The answers bend on the shortest segments, as no ReLU network's do",
        }[self.kind]


def probe(oracle: Oracle, box: Box, rng: np.random.Generator) -> Probe:
    """Ask a few points and tell the kind of answers."""
    X = box.sample(ASKED_TWICE, rng)
    first, second = (oracle.ask(X, fresh=True).reshape(len(X), -1) for _ in range(2))
    return replace(_kind(oracle, box, rng, first, second), first=first)


def _kind(oracle: Oracle, box: Box, rng: np.random.Generator, first: Array, second: Array) -> Probe:
    """What kind of answers there are, two to each of the same points among them."""
    again = float(np.sqrt(np.mean((first - second) ** 2) / 2))
    size = float(np.abs(first).max()) + TINIEST
    if again > 0:
        return Probe(AnswerKind.NOISY, again / size)
    if oracle.input_dtype != np.float64 or oracle.answer_dtype != np.float64:
        coarser = min(oracle.input_dtype, oracle.answer_dtype, key=lambda dtype: dtype.itemsize)
        return Probe(AnswerKind.ROUNDED, float(np.finfo(coarser).eps))
    y, short, longer = _bends(oracle, box, rng)
    grid = grid_of(y)
    if grid.rounding > 0:
        return Probe(AnswerKind.ROUNDED, grid.rounding / size, grid.step)
    level = float(max(np.median(short), np.median(longer))) / size
    if level <= DOUBLE:
        bent = longer > DOUBLE * size
        smooth = bent.any() and bool(np.all(_is_curve(short[bent], longer[bent])))
        return Probe(AnswerKind.SMOOTH if smooth else AnswerKind.EXACT, level)
    grows = np.median(longer) > CURVED * LONGER**2 * max(np.median(short), EPS * size)
    return Probe(AnswerKind.SMOOTH if grows else AnswerKind.ROUNDED, level)


def _is_curve(short: Array, longer: Array) -> Array:
    """Whether bends grow with the square of the length, neither as a kink's do nor from nothing."""
    square = LONGER**2 * short
    return np.asarray((longer > CURVED * square) & (CURVED * longer < square))


def _bends(oracle: Oracle, box: Box, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Answers, and second differences a segment: over short ones and longer ones."""
    X = box.centre + MIDDLE * (box.sample(SEGMENTS, rng) - box.centre)
    direction = rng.standard_normal(X.shape) * box.width
    step = SHORT * direction / np.linalg.norm(direction / box.width, axis=1, keepdims=True)
    places = (-LONGER, -1.0, 0.0, 1.0, LONGER)
    y = oracle.ask(np.concatenate([X + t * step for t in places]))
    values = y.reshape(len(places), SEGMENTS, -1)
    short = _second_difference(values[1], values[2], values[3])
    longer = _second_difference(values[0], values[2], values[4])
    return y, short, longer


class Grid(NamedTuple):
    """How coarse answers of few digits, of half or of single precision are; 0 for any others."""

    rounding: float = 0.0
    step: float = 0.0
    """Of decimals, which all answers share."""


def grid_of(y: Array) -> Grid:
    """What the digits of some answers tell."""
    if len(np.unique(y)) < DIFFERENT:
        return Grid()  # a constant has few digits too
    size, largest = float(np.abs(y).max()), int(np.abs(y).argmax())
    written = (*in_floats(y.ravel()), *in_digits(y.ravel()))
    floats = max((float(found.widths[largest]) for found in written), default=0.0)
    step = _decimal_step(y, size)
    if step >= floats:
        return Grid(step, step)
    return Grid(max(floats, SINGLE * size))  # steps of single precision at their largest


def _decimal_step(y: Array, size: float) -> float:
    """Of answers with so many decimals, the fewest that suffice; 0 for any others."""
    for digits in range(DIGITS):
        unit = 10.0 ** (np.ceil(np.log10(size)) - digits)
        if np.allclose(np.round(y / unit) * unit, y, rtol=0, atol=DIGITS_OFF * size):
            return float(unit)
    return 0.0


def _second_difference(before: Array, here: Array, after: Array) -> Array:
    """The largest over the outputs, one a segment."""
    return np.asarray(np.abs(before - 2 * here + after).max(axis=1))
