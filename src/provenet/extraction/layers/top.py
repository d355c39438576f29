"""The last hidden layer and the outputs, by least squares on all answers.

If rows r_j, of any signs, are the last hidden layer, `f = A relu(z) + L h + c` with z = R h + b:
reversing unit j adds a linear part, so `L = - sum of A_j r_j over the units that are reversed`,
linear in zeros and ones. What is left of L belongs to units that are always on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.tolerances import (
    ABSOLUTE_FIRST,
    ANSWERS_A_COLUMN,
    ERRORS_LEFT,
    LEFT_OF_LINEAR,
    MOST_ANSWERS,
    NEAR,
    NEEDLESS,
    NEEDLESS_GROWTH,
    NEEDLESS_TRIED,
    PART_OF_MEDIAN,
    RANK_OF_SIGNS,
    RANK_OF_TOP,
    REWEIGHTED,
    TOP_EXPLAINS,
)
from provenet.extraction.tolerances import (
    TINIEST,
)
from provenet.networks.network import DeepNetwork


@dataclass(frozen=True)
class Top:
    """The last hidden layer, its signs, and the outputs (outputs, units)."""

    W: Array
    b: Array
    A: Array
    c: Array
    kept: AnyArray
    """Which of the rows are needed, as numbers: the others explain nothing."""
    allowed: float
    """What may be left, as well as the rows are known."""
    always_on: int = 0
    """Units, last, of which only the span is known: they never switch."""


@dataclass(frozen=True)
class TopFit:
    """The top of the network, if it was found; else which answers it would explain."""

    top: Top | None
    explained: AnyArray
    """Which of the answers are."""
    A: Array
    """(units, outputs), as L and c with the rows turned as they were given."""
    L: Array
    c: Array
    R: Array
    """The rows, as given, and their biases."""
    b: Array

    @property
    def share(self) -> float:
        """Of the answers that are explained."""
        return float(np.mean(self.explained)) if len(self.explained) else 0.0

    def by_inputs(self, span: Array) -> TopFit:
        """The same, if it was found in the coordinates of orthonormal rows."""
        top = None if self.top is None else replace(self.top, W=self.top.W @ span)
        return replace(self, top=top, L=span.T @ self.L, R=self.R @ span)


def last_layer(
    known: KnownLayers,
    R: Array,
    b: Array,
    U: Array,
    Y: Array,
    error: float,
    before: TopFit | None = None,
    between: Callable[[], None] = lambda: None,
) -> TopFit:
    """The top of the network if these rows, known to a relative error, are its last hidden layer.

    If a few of its units are missing, most answers are explained by the others. Lines that were led
    to the missing ones make more that are not: a fit `before` says which answers to trust.
    `between` is called before each fit: it may raise.
    """
    allowed = float(np.clip(ERRORS_LEFT * error, *TOP_EXPLAINS))
    answers = _WeightedAnswers.of(known, U, Y)
    if len(U) < len(R) + answers.H.shape[1] + 2:
        nothing = np.zeros((len(R), Y.shape[1])), np.zeros((R.shape[1], Y.shape[1]))
        return TopFit(None, np.zeros(len(U), dtype=bool), *nothing, np.zeros(Y.shape[1]), R, b)
    trust, share, first = np.ones(len(U)), -1.0, 0
    if before is not None:
        off, first = answers.left(before.A, before.L, before.c, before.R, before.b), ABSOLUTE_FIRST
        trust = _trusted(off, allowed, -1.0)
    for turn in range(first, REWEIGHTED):
        between()
        fit = answers.fitted(R, b, trust)
        off = answers.left(*fit, R, b)
        explained = off <= allowed
        settled = MOST_ANSWERS < explained.mean() <= share
        if explained.all() or settled:
            break
        share = float(explained.mean())
        trust = _trusted(off, allowed, -0.5 if turn < ABSOLUTE_FIRST else -1.0)
    top = _top(answers, R, b, allowed) if explained.all() else None
    return TopFit(top, explained, *fit, R, b)


def _trusted(off: Array, allowed: float, power: float) -> Array:
    """How much to trust answers by their errors."""
    least = max(PART_OF_MEDIAN * float(np.median(off)), allowed)
    return np.asarray((off + least) ** power)


def outputs(known: KnownLayers, W: Array, b: Array, U: Array, Y: Array) -> tuple[Array, Array]:
    """Output weights (units, outputs) and biases for a last hidden layer."""
    A, _, c = _WeightedAnswers.of(known, U, Y).fitted(W, b, linear=False)
    return A, c


def left_of(network: DeepNetwork, base: Array, answers: Iterable[tuple[Array, Array]]) -> float:
    """The largest error, weighted by the distance from a point, beside the largest answer.

    Answers come in parts: at once they may be large.
    """
    off = size = TINIEST
    for X, Y in answers:
        weights = weights_far_out(X - base)
        off = max(off, float(np.abs(weights * (network(X).reshape(Y.shape) - Y)).max(initial=0.0)))
        size = max(size, float(np.abs(weights * Y).max(initial=0.0)))
    return off / size


def weights_far_out(U: Array) -> Array:
    """Far out everything is larger, rounding too: one over the distance there."""
    far = np.linalg.norm(U, axis=1) / (NEAR * np.sqrt(U.shape[1]))
    return np.asarray(1 / np.maximum(1.0, far)[:, None])


def _top(answers: _WeightedAnswers, R: Array, b: Array, allowed: float) -> Top | None:
    """Signs from what is linear in h, where the rows explain everything."""
    kept = _needed(answers, R, b, np.arange(len(R)))
    R, b = R[kept], b[kept]
    A, L, _ = answers.fitted(R, b)
    turn, rest = _reversed(A, R, L)
    signs = np.where(turn > 0.5, -1.0, 1.0)
    W, b = R * signs[:, None], b * signs
    more = 0
    if np.abs(rest).max() > max(LEFT_OF_LINEAR, allowed) * max(np.abs(L).max(), np.abs(A).max()):
        rows = _span(rest)
        more = len(rows)
        W, b = np.vstack([W, rows]), np.append(b, 1.0 - (answers.H @ rows.T).min(axis=0))
    A, _, c = answers.fitted(W, b, linear=False)
    off = float(answers.left(A, np.zeros((W.shape[1], A.shape[1])), c, W, b).max())
    return None if off > allowed else Top(W, b, A.T, c, kept, allowed, more)


@dataclass(frozen=True)
class _WeightedAnswers:
    """What the known layers say at all points, the answers there, and weights."""

    H: Array
    Y: Array
    weights: Array

    @classmethod
    def of(cls, known: KnownLayers, U: Array, Y: Array) -> _WeightedAnswers:
        return cls(known.h(U), Y, weights_far_out(U))

    def fitted(
        self, R: Array, b: Array, trust: Array | None = None, *, linear: bool = True
    ) -> tuple[Array, Array, Array]:
        """A, L and c by least squares on some of the answers, perhaps not trusting all alike."""
        columns = len(R) + 1 + (self.H.shape[1] if linear else 0)
        some = slice(None, None, max(1, len(self.Y) // (ANSWERS_A_COLUMN * columns)))
        answers = _WeightedAnswers(self.H[some], self.Y[some], self.weights[some])
        features, Y = answers.features(R, b, linear), answers.weights * answers.Y
        if trust is not None:
            features, Y = features * trust[some, None], Y * trust[some, None]
        scale = np.linalg.norm(features, axis=0)
        scale[scale == 0] = 1.0
        fit = np.linalg.lstsq(features / scale, Y, rcond=RANK_OF_TOP)[0] / scale[:, None]
        return fit[: len(R)], fit[len(R) : -1], fit[-1]

    def features(self, R: Array, b: Array, linear: bool) -> Array:
        """Units, h and 1, weighted."""
        one = np.ones((len(self.H), 1))
        parts = [np.maximum(self.H @ R.T + b, 0.0), *([self.H] if linear else []), one]
        return np.asarray(self.weights * np.hstack(parts))

    def left(self, A: Array, L: Array, c: Array, R: Array, b: Array) -> Array:
        """The weighted error of every answer, beside the largest answer."""
        values = np.maximum(self.H @ R.T + b, 0.0) @ A + self.H @ L + c
        off = np.abs(self.weights * (values - self.Y)).max(axis=1)
        return np.asarray(off / max(float(np.abs(self.weights * self.Y).max()), TINIEST))


def _needed(answers: _WeightedAnswers, R: Array, b: Array, kept: AnyArray) -> AnyArray:
    """Without rows that nothing needs."""
    A, L, c = answers.fitted(R[kept], b[kept])
    off = answers.left(A, L, c, R[kept], b[kept]).max()
    size = np.linalg.norm(A, axis=1)
    for j in np.argsort(size)[:NEEDLESS_TRIED]:
        if len(kept) < 2:
            break
        few = np.delete(kept, j)
        left = answers.left(*answers.fitted(R[few], b[few]), R[few], b[few]).max()
        if left < NEEDLESS_GROWTH * off + NEEDLESS:
            return _needed(answers, R, b, few)
    return kept


def _reversed(A: Array, R: Array, L: Array) -> tuple[Array, Array]:
    """Which units are reversed (about 0 or 1), and what is left of the linear part."""
    system = np.einsum("jo,jh->hoj", A, R).reshape(-1, len(R))
    turn = np.linalg.lstsq(system, -L.reshape(-1), rcond=RANK_OF_SIGNS)[0]
    rest = L + np.einsum("jo,jh->ho", A * (turn > 0.5)[:, None], R)
    return turn, rest


def _span(rest: Array) -> Array:
    """Rows that span a linear part: (h, outputs)."""
    rows, size, _ = np.linalg.svd(rest, full_matrices=False)
    return np.asarray(rows[:, size > LEFT_OF_LINEAR * size[0]].T)
