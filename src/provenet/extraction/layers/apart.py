"""Weights that no kink tells: the unit keeps its state wherever the other one is on.

Where unit j below is about to switch on, at `z_j = 0`, the state of a row that lacks the weight r_j
is known. If it is the same at all such places the row's surface does not go on to where j is on.
With the row's sign it is known then whether the unit is off there, or on:

- off, any weight that keeps it off does. It is free: chosen, not told, so that the search goes on
  above, and an answer with such a weight is never exact;
- on, gradients tell it: where j is on, `g = sum_k beta_k r_k` over the units that are on, and what
  rows without the weight leave of g is `beta_i r_ij` in column j. Two and more rows that lack it
  are told together, one equation a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import Frame, KnownLayers
from provenet.extraction.layers.pieces import Piece
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    APART_BEYOND,
    APART_MARGIN,
    APART_PLACES,
    APART_SPARE,
    APART_STARTS,
    CROSSED,
    EXPLAINED,
    INDEPENDENT,
    ON_SURFACE,
    SCALES,
    SURFACE_STEPS,
    VALUES_AGREE,
)
from provenet.extraction.tolerances import FAR_OUT, TINIEST


def with_weights_apart(
    frame: Frame,
    known: KnownLayers,
    rows: Sequence[Row],
    signs: Array,
    pieces: Sequence[Piece],
    rng: np.random.Generator,
) -> list[Row]:
    """The rows with weights that no kink tells; others that are missing stay so."""
    rows = list(rows)
    for j in map(int, np.flatnonzero(~np.all([row.cols for row in rows], axis=0))):
        edge, on = edge_of(frame, known, j, rng), list[int]()
        for i, row in enumerate(rows):
            side = 0.0 if row.cols[j] else _side(row, j, edge)
            if side * signs[i] < 0:
                rows[i] = _with_weight(row, j, _keeps_off(row, j, side, edge), 0.0, free=True)
            elif side != 0:
                on.append(i)
        told = _by_gradients(rows, signs, j, on, pieces) if on else None
        if told is not None:
            for i, w in zip(on, told[0], strict=True):
                rows[i] = _with_weight(rows[i], j, float(w), told[1], free=False)
    return rows


def _with_weight(row: Row, j: int, weight: float, error: float, *, free: bool) -> Row:
    v, cols, errors = row.v.copy(), row.cols.copy(), row.errors.copy()
    v[j], cols[j], errors[j] = weight, True, error
    chosen = row.free | {j} if free else row.free
    return replace(row, v=v, cols=cols, errors=errors, apart=row.apart | {j}, free=chosen)


@dataclass(frozen=True)
class Edge:
    """Where a unit of the last known layer is about to switch on, and points beyond."""

    h: Array
    """What the layer says there, without the unit."""
    beyond: Array
    """The same where the unit is on."""


def edge_of(frame: Frame, known: KnownLayers, j: int, rng: np.random.Generator) -> Edge:
    """Places at which unit j is about to switch on: Newton's method, from where it is small."""
    number = len(known.layers) - 1
    top, below = known.layers[-1], known.below(number)
    U = _near_edge(frame, below, top.W[j], float(top.b[j]), rng)
    for _ in range(SURFACE_STEPS):
        inner = below.state(U)
        slope = top.W[j] @ inner.J
        z, steep = inner.h @ top.W[j] + top.b[j], (slope**2).sum(axis=1)
        U = U - np.divide(z, steep, out=np.zeros_like(z), where=steep > 0)[:, None] * slope
    h = below.h(U)
    there = np.abs(h @ top.W[j] + top.b[j]) <= CROSSED * (np.abs(h) @ np.abs(top.W[j]) + 1)
    there &= (steep > 0) & frame.contains(U)
    U, slope = U[there], slope[there] / np.sqrt(steep[there])[:, None]
    far = APART_BEYOND * (1 + np.linalg.norm(U, axis=1)) * rng.exponential(size=len(U))
    beyond = known.h(frame.inside(U + far[:, None] * slope))
    return Edge(known.state(U, (number, j, False)).h, beyond[beyond[:, j] > 0])


def _near_edge(
    frame: Frame, below: KnownLayers, w: Array, b: float, rng: np.random.Generator
) -> Array:
    """Random points, near and far: those with the smallest values of a unit, and others."""
    scales = np.repeat((*SCALES, *FAR_OUT), APART_STARTS)[:, None]
    U = frame.inside(scales * rng.standard_normal((len(scales), below.coordinates)))
    value = np.abs(below.h(U) @ w + b) / (1 + np.linalg.norm(U, axis=1))
    others = np.arange(0, len(U), max(1, len(U) // APART_PLACES))
    return np.asarray(U[np.union1d(np.argsort(value)[:APART_PLACES], others)])


def _side(row: Row, j: int, edge: Edge) -> float:
    """On which side of its surface a row is all along an edge; 0 if on both, or not known."""
    h = edge.h[_told_but(row, j, edge.h)]
    if len(h) < APART_PLACES // 4 or not _told_but(row, j, edge.beyond).any():
        return 0.0
    value, size = row.values(h), np.abs(h) @ np.abs(row.v[:-1]) + abs(row.v[-1])
    side = float(np.sign(value[0]))
    return side if (side * value > ON_SURFACE * size).all() else 0.0


def _told_but(row: Row, j: int, h: Array) -> AnyArray:
    """Where a row is known but for one weight."""
    others = ~row.cols
    others[j] = False
    return np.asarray(~((h > 0) & others).any(axis=1))


def _keeps_off(row: Row, j: int, side: float, edge: Edge) -> float:
    """A weight that keeps a row on its side beyond an edge."""
    h = edge.beyond[_told_but(row, j, edge.beyond)]
    others = row.v.copy()
    others[j] = 0.0
    least = float((-side * (h @ others[:-1] + others[-1]) / h[:, j]).max())
    usual = float(np.linalg.norm(row.v[:-1])) / float(np.sqrt(row.cols.sum()))
    return side * (APART_MARGIN * max(0.0, least) + usual)


def _by_gradients(
    rows: Sequence[Row], signs: Array, j: int, lacking: list[int], pieces: Sequence[Piece]
) -> tuple[Array, float] | None:
    """The weights j of rows that are on where that unit is, and their error; None if not told."""
    told = np.array([row.cols for row in rows])
    told[lacking, j] = True
    R = np.array([row.v for row in rows])
    R[lacking, j] = 0.0
    system, sides = list[Array](), list[float]()
    for piece in pieces:
        if piece.on[j] and not (piece.on & ~told.all(axis=0)).any():
            shares = _shares(R, signs, j, lacking, piece)
            for share, rest in () if shares is None else zip(*shares, strict=True):
                size = float(np.linalg.norm(share)) + abs(rest) + TINIEST
                system.append(share / size)
                sides.append(rest / size)
    if len(system) < len(lacking) + APART_SPARE:
        return None
    A, y = np.array(system), np.array(sides)
    size = np.linalg.svd(A, compute_uv=False)
    if size[-1] * INDEPENDENT < size[0]:
        return None
    weights = np.linalg.lstsq(A, y, rcond=None)[0]
    left = np.abs(A @ weights - y)
    good = left <= max(VALUES_AGREE, float(np.median(left)) * 10)
    return (weights, float(left.max() / size[-1])) if good.all() else None


def _shares(
    R: Array, signs: Array, j: int, lacking: list[int], piece: Piece
) -> tuple[Array, Array] | None:
    """What rows that lack weight j have in a gradient, and what column j has beside all rows.

    One of each for every output; None where the rows that are on do not tell.
    """
    on = signs * (R[:, :-1] @ piece.h + R[:, -1]) > 0
    on[lacking] = True
    S = np.eye(int(piece.on.sum())) if piece.span is None else piece.span
    own = (np.flatnonzero(piece.on) == j).astype(float)
    A = S.T @ np.column_stack([R[on][:, :-1][:, piece.on].T, own])
    if A.shape[1] > A.shape[0] or np.linalg.cond(A) > INDEPENDENT:
        return None
    G = S.T @ piece.g.T
    X = np.linalg.lstsq(A, G, rcond=None)[0]
    size = float(np.linalg.norm(G))
    if np.linalg.norm(A @ X - G) > (EXPLAINED * size + 100 * piece.error) or size == 0:
        return None
    shares = np.zeros((len(R), G.shape[1]))
    shares[on] = X[:-1]
    return shares[lacking].T / size, X[-1] / size
