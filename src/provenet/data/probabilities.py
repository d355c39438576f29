"""Labels that are probabilities, turned into the outputs of the network before its link.

A logit is `u = log(p / (1 - p))`, softmax's outputs are `u_k = log p_k` less their mean over the
classes (see `networks.links`). What p tells of u depends on p: a probability known to h is a logit
known to `h / (p (1 - p))`, and near 0 and 1 next to nothing is left. So every label becomes the
interval in which u lies: the two ends of the interval of p, turned. Its middle is the new label,
its width belongs to the label's precision. Labels known far worse than the best are left out, and
so are those of which the interval reaches 0 or 1: *saturated* ones.

How well p is known: labels of few digits are known to half a step (`label_precision`), others to
rounding of numbers next to 1, because p may have been computed as `1 - q`. But three classes and
more come out of a softmax, which rounds each relatively to itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.label_precision import LabelPrecision, label_precision
from provenet.data.tolerances import (
    COARSELY_TOLD,
    LEAST_TOLD,
    ROUNDED_PROBABILITY,
    SUM_OF_PROBABILITIES,
)
from provenet.networks.tolerances import EPS, TINY


@dataclass(frozen=True)
class BeforeLink:
    """Outputs before the link, of the labels that tell them."""

    u: Array
    """(kept,), or (kept, classes)."""
    precision: LabelPrecision
    """Of these."""
    kept: AnyArray
    """Which labels those are, a mask."""


def are_classes(y: Array) -> bool:
    """Whether labels are only 0 and 1: classes, not probabilities."""
    return bool(np.all((y == 0) | (y == 1)))


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
    if np.max(np.abs(y.sum(axis=1) - 1)) > SUM_OF_PROBABILITIES:
        return ("identity",)
    return ("logit",) if y.shape[1] == 2 else ("softmax",)


def check_probabilities(y: Array, link: str) -> None:
    """Raise unless labels are probabilities that this link can have given."""
    finite = np.isfinite(y.reshape(len(y), -1)).all(axis=1)
    if not finite.all():
        raise InvalidInput(
            f"y is not finite in row {int(np.argmin(finite))}: remove or repair such rows."
        )
    if _are_numbers_of_classes(y):
        number = int(y.max()) + 1
        raise InvalidInput(
            f"y holds numbers of classes, 0 to {number - 1}, where a column for each is needed: "
            f"give np.eye({number})[y] with link='softmax', or use provenet.NetworkClassifier."
        )
    outside = (y.reshape(len(y), -1) < 0) | (y.reshape(len(y), -1) > 1)
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        value = y.reshape(len(y), -1)[row, column]
        raise InvalidInput(
            f"y is {value:.6g} in row {row}, and a probability is from 0 to 1 "
            f"({counted(int(outside.any(axis=1).sum()), 'row')} like it): repair them, or give "
            "link='identity'."
        )
    if link == "softmax" and y.ndim == 1:
        raise InvalidInput(
            "link='softmax' needs a column for every class, and y has one: give link='logit'."
        )
    if y.ndim == 2 and (link == "softmax" or y.shape[1] == 2):
        _check_sums(y)
    if are_classes(y):
        raise InvalidInput(_one_class(y) or _only_classes(link))


def _are_numbers_of_classes(y: Array) -> bool:
    """Whether labels are whole numbers from 0 on, each of them many times."""
    one_column = y.ndim == 1 or y.shape[1] == 1
    found, times = np.unique(y, return_counts=True)
    counted_up = len(found) > 2 and np.array_equal(found, np.arange(len(found)))
    return bool(one_column and counted_up and times.min() > 1)


def _check_sums(y: Array) -> None:
    off = y.sum(axis=1) - 1
    wrong = np.abs(off) > SUM_OF_PROBABILITIES
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"Row {row} of y sums to {1 + off[row]:.6g}, and probabilities of classes sum to 1 "
            f"({counted(int(wrong.sum()), 'row')} off, by up to {np.abs(off).max():.2g}): repair "
            "them, or give link='identity'."
        )


def _one_class(y: Array) -> str | None:
    if np.ptp(y, axis=0).any():
        return None
    number = int(y[0]) if y.ndim == 1 else int(np.argmax(y[0]))
    return f"All labels are of class {number}: there is nothing to tell it from."


def _only_classes(link: str) -> str:
    return (
        f"y holds classes, 0 and 1, and link={link!r} of samples needs probabilities between them: "
        "give those that the model answers with."
    )


def before_link(y: Array, link: str) -> BeforeLink:
    """Outputs before a link that is not the identity, of probabilities that were checked."""
    p, h = y, _known_to(y)
    if link == "logit" and y.ndim == 2 and y.shape[1] == 2:
        p, h = y[:, 1], h.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (_outputs(np.clip(q, 0.0, 1.0), link) for q in (p - h / 2, p + h / 2))
        widths = high - low if link == "logit" else _widths_of_classes(p, h)
        u = (low + high) / 2 if link == "logit" else _outputs(p, link)
    worst = widths if widths.ndim == 1 else widths.max(axis=1)
    told = np.isfinite(worst) & np.isfinite(u.reshape(len(u), -1)).all(axis=1)
    kept = told & (np.where(told, worst, np.inf) <= _widest(worst[told], _written(y).known))
    words = f"probabilities {_written(y).words}".rstrip()
    return BeforeLink(u[kept], LabelPrecision(words, widths[kept]), kept)


def _widest(widths: Array, coarse: bool) -> float:
    """Up to which width labels are kept; of those of few digits about the better half."""
    if not len(widths):
        return 0.0
    best = float(widths.min())
    if not coarse:
        return LEAST_TOLD * best
    half = float(np.median(widths))
    return min(LEAST_TOLD * best, max(COARSELY_TOLD * best, half))


def _outputs(p: Array, link: str) -> Array:
    if link == "logit":
        return np.asarray(logit(p))
    u = np.log(p)
    return np.asarray(u - u.mean(axis=1, keepdims=True))


def _widths_of_classes(p: Array, h: Array) -> Array:
    """Of a class's logarithm less the mean of all of them; infinite where p may be 0."""
    own = np.where(p > h, h / p, np.inf)
    return np.asarray(own + own.mean(axis=1, keepdims=True))


def _written(y: Array) -> LabelPrecision:
    """How finely probabilities are written; a 0 or a 1 does not say how many digits it has."""
    between = (y > 0) & (y < 1)
    if y.ndim == 2:
        between = np.broadcast_to(between.all(axis=1, keepdims=True), y.shape)
    inside = label_precision(y[between].reshape(-1, *y.shape[1:]))
    widths = np.full(y.shape, np.max(inside.widths, initial=0.0))
    widths[between] = inside.widths.ravel()
    return LabelPrecision(inside.words, widths)


def _known_to(y: Array) -> Array:
    """The width of the interval that each probability stands for."""
    found = _written(y)
    several = y.ndim == 2 and y.shape[1] > 2
    rounding = ROUNDED_PROBABILITY * (np.maximum(y, TINY) if several else 1.0)
    size = EPS if not found.known else 0.0
    if "single" in found.words or "half" in found.words:
        kind = np.float32 if "single" in found.words else np.float16
        size = float(np.finfo(kind).eps)
    return np.asarray(np.maximum(found.widths, size * rounding))
