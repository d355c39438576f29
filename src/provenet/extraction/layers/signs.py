"""The signs of a layer's units, from gradients.

A gradient in h is a sum over the units that are on: `g = sum_k beta_k r_k`. Where the rows are
independent in the columns that are on, its coordinates tell which units are on: those that do not
vanish. Where there are a few more rows than columns, they are one of the sums that make g; with as
many rows left out as there are too many, by chance no others vanish, and where several do the sum
is the true one. Else a choice of signs is refuted if g is not in the span of the rows that would be
on; of all choices the one that explains the most and is refuted least is taken.

No layer is believed while gradients are left that its rows do not explain: a unit is missing then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, zip_longest
from math import comb

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.pieces import Piece
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    EXPLAINED,
    FLAT,
    INDEPENDENT,
    MOST_GRADIENTS,
    MOST_OPEN_SIGNS,
    MOST_SUMS,
    NOT_ZERO,
    REFUTED_BY,
    RIGHT_A_WRONG,
    SAME_CELL,
    SUMS_SEARCHED,
    SURE_VOTES,
    TOGETHER,
    VANISHING,
    VOTING_ROUNDS,
)


@dataclass(frozen=True)
class LayerSigns:
    """Signs of rows, and how many of the gradients that could refute them they explain."""

    signs: Array
    voted: AnyArray
    """Units whose sign some gradient tells."""
    explained: int
    asked: int
    places: Array
    """Where the gradients are, and which of them are explained."""
    good: AnyArray

    @property
    def unexplained(self) -> int:
        """Gradients that no sum over units that are on makes."""
        return self.asked - self.explained


@dataclass(frozen=True)
class Seen:
    """A gradient, over its size, and the rows, both in the coordinates of a cell."""

    u: Array
    on_if_positive: AnyArray
    B: Array
    """(rank, units), columns of norm 1."""
    G: Array
    """(rank, outputs)."""
    E: Array
    """(rank, units below): what turns rows into these coordinates."""
    error: float


def layer_signs(
    rows: Sequence[Row],
    pieces: Sequence[Piece],
) -> LayerSigns:
    """The signs that explain the most gradients."""
    groups = _together(_seen(rows, pieces, in_few=True))
    seen = _of_all_cells(groups)
    votes = _votes([_as_one(group) for group in groups[:MOST_GRADIENTS]], len(rows))
    signs = np.where(votes < 0, -1.0, 1.0)
    open_, told = np.flatnonzero(votes == 0), votes != 0
    if 0 < len(open_) <= MOST_OPEN_SIGNS:
        signs, told[open_] = _best_signs(seen, signs, open_)
    judged = [(one.u, _explains(one, signs)) for one in seen]
    asked = [(u, good) for u, good in judged if good is not None]
    places, good = (
        np.array([u for u, _ in asked]),
        np.array([good for _, good in asked], dtype=bool),
    )
    return LayerSigns(signs, told, int(good.sum()), len(asked), places, good)


def seen_gradients(rows: Sequence[Row], pieces: Sequence[Piece]) -> list[Seen]:
    """Some gradients of each cell."""
    return _of_all_cells(_together(_seen(rows, pieces, in_few=False)))


def _seen(rows: Sequence[Row], pieces: Sequence[Piece], *, in_few: bool) -> list[Seen]:
    """Gradients that are not zero, where all rows are known; in the span of few rows, if wanted."""
    sizes = np.array([np.linalg.norm(piece.g) for piece in pieces])
    typical = np.median(sizes) if len(sizes) else 0.0
    cols = np.array([row.cols for row in rows])
    R = np.array([row.v for row in rows])
    basis = np.linalg.qr(R[:, :-1].T)[0] if in_few and cols.shape[0] + 1 < cols.shape[1] else None
    seen = []
    for piece, size in zip(pieces, sizes, strict=True):
        if size <= FLAT * typical or (piece.on & ~cols.all(axis=0)).any():
            continue
        E = np.eye(len(piece.on))[piece.on]
        B, G = E @ R[:, :-1].T, piece.g.T / size
        if basis is not None and piece.span is None and piece.on.all():
            B, G = _in_few_rows(basis, B, G)
        if piece.span is not None:
            B, G, E = piece.span.T @ B, piece.span.T @ G, piece.span.T @ E
        B = B / (np.linalg.norm(B, axis=0) + 1e-300)
        z = R[:, :-1] @ piece.h + R[:, -1]
        seen.append(Seen(piece.u, z > 0, B, G, E, piece.error / size))
    seen.sort(key=lambda one: -len(one.B))
    return seen


def _together(seen: Sequence[Seen]) -> list[list[Seen]]:
    """Gradients of the same cell where the layer's own units are in the same states, too."""
    groups = dict[bytes, list[Seen]]()
    for one in seen:
        key = one.on_if_positive.tobytes() + np.round(one.B, SAME_CELL).tobytes()
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _as_one(group: Sequence[Seen]) -> Seen:
    """What the units that are on make together: all of them show in one gradient or another."""
    G = np.hstack([one.G for one in group[:TOGETHER]])
    return replace(group[0], G=G, error=max(one.error for one in group[:TOGETHER]))


def _of_all_cells(groups: Sequence[Sequence[Seen]]) -> list[Seen]:
    """Some gradients of each cell: as many of every one as there are places."""
    turns = zip_longest(*groups)
    return [one for turn in turns for one in turn if one is not None][:MOST_GRADIENTS]


def _in_few_rows(basis: Array, B: Array, G: Array) -> tuple[Array, Array]:
    """The same in the coordinates of the rows' span, and one more for all that lies outside."""
    inside = basis.T @ G
    outside = np.linalg.norm(G - basis @ inside, axis=0)
    return np.vstack([basis.T @ B, np.zeros(B.shape[1])]), np.vstack([inside, outside])


def _votes(seen: Sequence[Seen], units: int) -> Array:
    """How often each unit is told to be on where it is positive, less how often where negative.

    What is told already leaves fewer units out of which a gradient may be made.
    """
    votes, searched, open_ = np.zeros(units), 0, list(seen)
    for _ in range(VOTING_ROUNDS):
        left = list[Seen]()
        for one in open_:
            sure = np.abs(votes) >= SURE_VOTES
            possible = np.flatnonzero(~sure | (one.on_if_positive == (votes > 0)))
            rank, number, some = len(one.B), len(possible), replace(one, B=one.B[:, possible])
            if number == 0:  # nothing makes a gradient that is not zero: no vote
                continue
            if rank >= number:
                on = _coordinates(some)
            elif comb(number, number - rank) <= MOST_SUMS and searched < SUMS_SEARCHED:
                on, searched = _sparse_coordinates(some), searched + 1
            else:
                left.append(one)
                continue
            if on is not None:
                signs = np.where(one.on_if_positive[possible], 1, -1)
                votes[possible] += np.where(on, signs, 0)
        if len(left) == len(open_):
            break
        open_ = left
    return votes


def _coordinates(one: Seen) -> AnyArray | None:
    """Which rows a gradient is made of; None if they depend on each other, or it is not."""
    outer, size, inner = np.linalg.svd(one.B, full_matrices=False)
    if size[0] > INDEPENDENT * size[-1]:
        return None
    coordinates = inner.T @ ((outer.T @ one.G) / size[:, None])
    if np.linalg.norm(one.G - one.B @ coordinates) > EXPLAINED + 100 * one.error:
        return None
    return np.asarray(np.abs(coordinates).max(axis=1) > NOT_ZERO + 100 * one.error)


def _sparse_coordinates(one: Seen) -> AnyArray | None:
    """The same of more rows than columns: those of the sum in which the most vanish; None if few.

    As many rows as there are too many are left out, in all ways.
    """
    rank, units = one.B.shape
    kept = np.array(list(combinations(range(units), rank)))
    systems = one.B.T[kept].transpose(0, 2, 1)
    good = np.linalg.cond(systems) <= INDEPENDENT
    if not good.any():
        return None
    kept = kept[good]
    coordinates = np.linalg.solve(systems[good], np.broadcast_to(one.G, (len(kept), *one.G.shape)))
    some = np.abs(coordinates).max(axis=2) > NOT_ZERO + 100 * one.error
    few = int(np.argmin(some.sum(axis=1)))
    if some[few].sum() > rank - VANISHING:
        return None
    on = np.zeros(units, dtype=bool)
    on[kept[few]] = some[few]
    return on


def _explains(one: Seen, signs: Array) -> bool | None:
    """Whether the rows that are on explain a gradient; None if they would explain any."""
    on = one.on_if_positive == (signs > 0)
    B = one.B[:, on]
    if B.shape[1] >= len(B):
        return None
    if not on.any():
        return False
    left = one.G - B @ np.linalg.lstsq(B, one.G, rcond=1e-9)[0]
    return bool(np.linalg.norm(left) < EXPLAINED + 100 * one.error)


def _best_signs(seen: Sequence[Seen], signs: Array, open_: AnyArray) -> tuple[Array, AnyArray]:
    """Of all choices of the open signs that which explains the most gradients and is refuted least.

    And for each whether its flip would be refuted clearly.
    """
    bits = (np.arange(2 ** len(open_))[:, None] >> np.arange(len(open_))) & 1
    choices = np.tile(signs, (len(bits), 1))
    choices[:, open_] = np.where(bits == 1, 1.0, -1.0)
    right, wrong = np.zeros(len(choices)), np.zeros(len(choices))
    for one in seen:
        asked, good = _explained_by(one, one.on_if_positive == (choices > 0))
        right += asked & good
        wrong += asked & ~good
    best = int(np.argmax(right - RIGHT_A_WRONG * wrong))
    flips = wrong[best ^ (1 << np.arange(len(open_)))]
    return choices[best], np.asarray(flips - wrong[best] >= REFUTED_BY)


def _explained_by(one: Seen, patterns: AnyArray) -> tuple[AnyArray, AnyArray]:
    """For patterns of rows that are on: whether they might not explain a gradient, and do."""
    number, rank = patterns.sum(axis=1), len(one.B)
    asked, good = number < rank, np.zeros(len(patterns), dtype=bool)
    for m in range(1, rank):
        own = np.flatnonzero(number == m)
        if len(own) == 0:
            continue
        rows = np.nonzero(patterns[own])[1].reshape(len(own), m)
        Q = np.linalg.qr(one.B.T[rows].transpose(0, 2, 1))[0]
        left = one.G - Q @ (Q.transpose(0, 2, 1) @ one.G)
        good[own] = np.linalg.norm(left, axis=(1, 2)) < EXPLAINED + 100 * one.error
    return asked, good
