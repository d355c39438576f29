"""A classifier that answers with probabilities, asked as the network before its link.

Log-odds (or logarithms of the classes' probabilities, less their mean) are piecewise linear where
the outputs are, and everything that traces those serves. But a probability next to 0 or 1 tells
nothing of the output behind it. So inputs are kept to a box in which none is *saturated*: around
the middle of the inputs, or, where the model is saturated there, around a point of the boundary
between two classes, found by bisection; and half as wide as before until its corners and random
points of it tell their outputs. Where inputs have no limits it is wider than most inputs at first,
since units may have their kinks there. What is found is then judged on inputs of that box.

How much p tells of u: rounding of p is that of p itself, but of 1 where p was computed as `1 - q`,
which shows in p being a multiple of the last bit of numbers next to 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.data.labels import possible_links, sum_to_one
from provenet.data.sources import ArraySource, LinkedSource
from provenet.extraction.asked_through import AskedThrough
from provenet.extraction.box import Box
from provenet.extraction.oracle import Oracle
from provenet.extraction.tolerances import (
    BISECTIONS,
    BOUNDARY,
    DOUBTED,
    LEAST_ODDS,
    LEAST_PROBABILITY,
    MOST_HALVINGS,
    SATURATION_POINTS,
    TOLD_OUTPUTS,
    WIDE_ENOUGH,
    WIDER_AT_FIRST,
)


class LinkedOracle(AskedThrough):
    """Outputs before the link, in a box where probabilities tell them."""

    def __init__(self, oracle: Oracle, link: str, box: Box) -> None:
        """Nothing is asked yet."""
        dtype = oracle.input_dtype
        low, high = (limit.astype(dtype).astype(float) for limit in (box.low, box.high))
        super().__init__(oracle, low, high)
        self.link = link

    @property
    def outputs(self) -> int | None:
        """Before the link: of two classes one."""
        return None if self.link == "logit" else self._inner.outputs

    def ask(self, X: Any, *, fresh: bool = False) -> Array:
        """Outputs of the rows of X; of a probability that is 0 or 1, the largest that it can be."""
        return outputs_of(self._inner.ask(X, fresh=fresh), self.link)

    def doubt(self, X: Array) -> Array | None:
        """Outputs far from the boundary are known less well; these answers are kept."""
        return DOUBTED * _rounding(self._inner.ask(X), self._inner)[:, None]

    def samples(self, X: Array, y: Array) -> ArraySource:
        """With the precision of every label; the model has answered these before."""
        return LinkedSource(ArraySource(X, self._inner.ask(X)), self.link)


def link_of(
    p: Array, oracle: Oracle, link: str, *, exact: bool, box: Box, rng: np.random.Generator
) -> str:
    """The link to take for some first answers; exact answers on lines are a network's own."""
    if link != "auto":
        return _checked(p, link)
    if p.shape[1] == 1:
        seems = not exact and "logit" in possible_links(p[:, 0])
        return "logit" if seems and _always_between(oracle, box, rng) else "identity"
    if not sum_to_one(p).all() or p.min() < 0 or p.max() > 1:
        return "identity"
    return "logit" if p.shape[1] == 2 else "softmax"


def _always_between(oracle: Oracle, box: Box, rng: np.random.Generator) -> bool:
    """Whether answers lie between 0 and 1 at more points than the first few."""
    p = oracle.ask(box.sample(SATURATION_POINTS, rng))
    return bool(np.all((p >= 0) & (p <= 1)))


def _checked(p: Array, link: str) -> str:
    if link == "identity":
        return link
    off = (p < 0) | (p > 1)
    if off.any():
        raise InvalidInput(
            f"The model answered {p[off][0]:.6g}, and a probability is from 0 to 1: give "
            "link='identity'."
        )
    columns = p.shape[1]
    if (link == "softmax") != (columns > 2) or (link == "logit" and columns > 2):
        raise InvalidInput(
            f"The model answers with {columns} numbers: link={link!r} is for "
            f"{'three classes or more' if link == 'softmax' else 'one probability, or two'}."
        )
    sums = p.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    if columns > 1 and not sum_to_one(p).all():
        raise InvalidInput(
            f"The model answered with probabilities that sum to {sums[worst]:.6g}, not 1: give "
            "link='identity', or check its output."
        )
    return link


def outputs_of(p: Array, link: str) -> Array:
    """Before the link."""
    q = np.clip(p, LEAST_ODDS, 1.0)
    if link == "softmax":
        u = np.log(q)
        return np.asarray(u - u.mean(axis=1, keepdims=True))
    if p.ndim == 2 and p.shape[1] == 2:
        return np.asarray(np.log(q[:, 1]) - np.log(q[:, 0]))
    one = q.reshape(len(q))
    return np.asarray(np.log(one) - np.log(np.maximum(1 - one, np.finfo(float).epsneg)))


def unsaturated_box(oracle: Oracle, box: Box, rng: np.random.Generator) -> Box | None:
    """Inputs at which the model tells its outputs; None if none are found."""
    centre = box.centre
    half = (WIDER_AT_FIRST if box.unlimited else 1.0) * box.half_widths
    for halvings in range(MOST_HALVINGS):
        signs = rng.choice([-1.0, 1.0], (SATURATION_POINTS, oracle.features))
        places = np.vstack([signs, rng.uniform(-1, 1, signs.shape)])
        points = _inside(centre + places * half, box)
        p = oracle.ask(np.vstack([points, centre]))
        if _told(p, oracle).all():
            small = Box(_inside(centre - half, box), _inside(centre + half, box))
            return box if halvings == 0 and not box.unlimited else small
        if halvings == 0 and not _told(p[-1:], oracle)[0]:
            between = _on_boundary(oracle, points, p[:-1])
            if between is None:
                return None
            centre = between
        half = half / 2
    return None


def asked_within(box: Box) -> str:
    """What is open outside of a box that was chosen here."""
    low, high = float(box.low.min()), float(box.high.max())
    return (
        f"Inputs were asked from {low:.3g} to {high:.3g}, where the model is not saturated: units "
        "that have no kink there would not show."
    )


def is_wide(small: Box, box: Box) -> bool:
    """Whether a box within another is large enough to trace a network in."""
    return bool(np.all(small.half_widths >= WIDE_ENOUGH * box.half_widths))


def _inside(X: Array, box: Box) -> Array:
    return np.asarray(np.clip(X, box.low, box.high))


def _told(p: Array, oracle: Oracle) -> Array:
    """Whether each row tells its outputs to enough digits."""
    eps = float(np.finfo(oracle.answer_dtype).eps)
    double, single = TOLD_OUTPUTS
    most = single if eps > np.finfo(float).eps else double
    enough = _rounding(p, oracle) <= most * eps
    return np.asarray(enough & (_columns(p).min(axis=1) > LEAST_PROBABILITY))


def _rounding(p: Array, oracle: Oracle) -> Array:
    """How far off rounding of each row may leave its outputs."""
    eps = float(np.finfo(oracle.answer_dtype).eps)
    columns = _columns(p)
    of_one = np.rint(2 * columns / eps) * eps / 2 == columns  # may have been `1 - q`
    rounding = np.where(of_one, eps, eps * columns)
    with np.errstate(divide="ignore"):
        return np.asarray(np.max(rounding / columns, axis=1))


def _on_boundary(oracle: Oracle, X: Array, p: Array) -> Array | None:
    """A point between two that are of different classes, about as much of one as of the other."""
    classes = _classes(p)
    other = np.flatnonzero(classes != classes[0])
    if not len(other):
        return None
    a, b = X[0], X[other[0]]
    for _ in range(BISECTIONS):
        middle = (a + b) / 2
        answer = oracle.ask(middle[None])
        if np.sort(_columns(answer)[0])[-2] > BOUNDARY:
            return np.asarray(middle)
        a, b = (middle, b) if _classes(answer)[0] == classes[0] else (a, middle)
    return None


def _columns(p: Array) -> Array:
    columns = p[:, None] if p.ndim == 1 else p
    return np.hstack([1 - columns, columns]) if columns.shape[1] == 1 else columns


def _classes(p: Array) -> Array:
    return np.asarray(np.argmax(_columns(p), axis=1))
