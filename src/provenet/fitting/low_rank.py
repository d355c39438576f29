"""Labels of low rank with arbitrary errors in a few entries: which entries, and what was there.

`Y = L + S` with `L` of low rank and `S` sparse (BJW19, section 8: its `A` is our `Y^T`). Theorem 14
takes both from principal component pursuit (the weight is missing in the paper: ERRATA 12),

    min |L|_* + |S|_1 / sqrt(max(Y.shape))   subject to   L + S = Y.

That is exact only for incoherent labels of
a rank far below the outputs, and it shrinks what it finds; so here it only gives the rank and a
first column space (of outputs). What follows is exact wherever the clean entries determine the
answer:

1. *Screening.* Entries ten times the usual size of their output count as missing, not as wrong.
2. *Column space.* From a basis V (outputs, rank): z of every row and then V by weighted least
   squares, in turn, with weights that make it the fit of least absolute residuals; or with the
   largest residuals trimmed. The best of these fits is kept, at the rank that explains the labels.
3. *Decoding.* Given V, a row `y = V z + s` with sparse s is reweighted least squares: first for
   `|s|_1`, then for `sum log |s|`, whose minimum is at the sparsest s.
4. *Completion.* Entries whose residual stands above rounding (with noise: above 5 standard
   deviations) are corrupted; V and z are least squares on all others.

All rows at once: one product with the rank^2 products of V's columns, one batch of small solves.
The column space is taken from a few thousand rows, all others are only decoded. Cost: n outputs
rank^2 a round of decoding; memory: a few copies of Y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import EPS, TINY, AnyArray, Array
from provenet.fitting.least_squares import Ended

SPACE_ROUNDING = 1e-11
"""What rounding leaves of residuals and of moves of a space, in units of an output's usual size:
sums over thousands of rows."""
ROUNDING = 1e-9
"""Residuals below this, in the same units, are no noise."""


class Separation(StrEnum):
    """How the separation of the labels ended."""

    SEPARATED = "separated"
    NO_LOW_RANK = "no low rank"
    """No rank below the outputs explains most entries."""
    TOO_CORRUPTED = "too corrupted"
    """Fewer than half of the rows keep enough clean entries to determine the others."""
    UNCHECKED_OUTPUT = "unchecked output"
    """An output has too few clean entries, or varies in a way that no other output shares."""


@dataclass(frozen=True)
class RobustPCA:
    """Labels taken apart; the same fields whatever the status.

    Labels are `low_rank + sparse` and noise; `sparse` is zero but for the corrupted entries. In a
    row that is not `determined` every entry counts as corrupted, and `low_rank` is a guess.
    """

    low_rank: Array
    sparse: Array
    rank: int
    status: Separation
    ended: Ended
    """How the column space came to rest; the pursuit before it only gives a start."""
    corrupted: AnyArray
    """Boolean (n, outputs)."""
    determined: AnyArray
    """Boolean (n,): rows whose clean entries determine the others."""
    noise: Array
    """Standard deviation, an output, of what is neither of low rank nor sparse; 0 for rounding."""
    gap: float
    """The smallest singular value kept over the largest of what is left on clean entries."""
    unchecked: AnyArray
    """Boolean (outputs,): outputs in which corruption cannot be told."""


@dataclass(frozen=True)
class _Space:
    """An orthonormal basis (outputs, rank) of a column space, and what it leaves in most rows."""

    basis: Array
    residual: float

    @property
    def exact(self) -> bool:
        return self.residual <= ROUNDING


# ------------------------------------------------------------------ principal component pursuit


@dataclass(frozen=True)
class Pursuit:
    """What principal component pursuit gave."""

    low_rank: Array
    sparse: Array
    ended: Ended
    iterations: int

    @property
    def rank(self) -> int:
        """Where the singular values fall most steeply, below the number of columns."""
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(self.low_rank.T @ self.low_rank)[::-1], 0.0))
        values = np.maximum(values, 5e-3 * values[0] + TINY)
        return int(np.argmax(values[:-1] / values[1:])) + 1


def principal_component_pursuit(
    Y: Array,
    usable: AnyArray | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    tolerance: float = 1e-7,
    steps: int = 300,
) -> Pursuit:
    """`min |L|_* + |S|_1 / sqrt(max(Y.shape))`; entries that are not `usable` cost nothing in S.

    By the inexact augmented Lagrangian method: L is a shrinkage of singular values, through the
    small Gram matrix of a tall Y, S a shrinkage of entries. It ends when `L + S` is `Y` up to
    `tolerance` of its norm.
    """
    weight = np.full(Y.shape, 1 / np.sqrt(max(Y.shape)))
    if usable is not None:
        weight, Y = weight * usable, np.where(usable, Y, 0.0)
    size = float(np.linalg.norm(Y))
    largest = np.sqrt(max(np.linalg.eigvalsh(Y.T @ Y)[-1], TINY))
    S, penalty = np.zeros_like(Y), 1.25 / largest  # as Lin, Chen and Ma (2010) begin
    multiplier = Y / max(largest, np.abs(Y).max() * np.sqrt(max(Y.shape)))  # dual feasible
    for iteration in range(1, steps + 1):
        L = _shrink_singular_values(Y - S + multiplier / penalty, 1 / penalty)
        T = Y - L + multiplier / penalty
        S = T - np.clip(T, -weight / penalty, weight / penalty)
        left = Y - L - S
        multiplier += penalty * left
        penalty *= 1.2
        if np.linalg.norm(left) <= tolerance * size:
            return Pursuit(L, S, Ended.CONVERGED, iteration)
        if out_of_time():
            return Pursuit(L, S, Ended.OUT_OF_TIME, iteration)
    return Pursuit(L, S, Ended.OUT_OF_STEPS, steps)


def _shrink_singular_values(M: Array, threshold: float) -> Array:
    squares, V = np.linalg.eigh(M.T @ M)
    values = np.sqrt(np.maximum(squares, 0.0))
    kept = values > threshold
    V, values = V[:, kept], values[kept]
    return np.asarray((M @ (V * (1 - threshold / values))) @ V.T)


# ------------------------------------------------------------------ rows, given the column space


def weighted_rows(Y: Array, weights: Array, V: Array) -> Array:
    """For each row the z that minimises `sum_j weights_j (y_j - V_j . z)^2`."""
    gram = _grams(weights, V)
    trace = np.einsum("nii->n", gram)
    # Keeps rows with too little weight solvable; below the rounding of all others.
    gram += (4.5 * EPS * trace + TINY)[:, None, None] * np.eye(V.shape[1])
    right = ((weights * Y) @ V)[:, :, None]
    try:
        return np.asarray(np.linalg.solve(gram, right)[:, :, 0])
    except np.linalg.LinAlgError:  # rows whose weights leave a part of z free: the smallest z
        return np.asarray((np.linalg.pinv(gram, hermitian=True) @ right)[:, :, 0])


def _grams(weights: Array, V: Array) -> Array:
    rank = V.shape[1]
    products = (V[:, :, None] * V[:, None, :]).reshape(len(V), rank * rank)
    return np.asarray((weights @ products).reshape(-1, rank, rank))


def _row_levels(R: Array, usable: AnyArray, rank: int, share: float) -> Array:
    """A quantile a row of the residuals beyond the `rank` smallest, which any z can make vanish."""
    count = usable.sum(axis=1)
    at = np.minimum(rank + share * np.maximum(count - rank, 0), np.maximum(count - 1, 0))
    ordered = np.sort(np.where(usable, R, np.inf), axis=1)
    levels = np.take_along_axis(ordered, at.astype(np.intp)[:, None], axis=1)
    return np.where(np.isfinite(levels), levels, 0.0)


def decode(Y: Array, usable: AnyArray, V: Array) -> Array:
    """z of rows `y = V z + s` with sparse s: by `|s|_1` first, then by `sum log |s|`."""
    Z = weighted_rows(Y, usable.astype(float), V)
    R = np.abs(Y - Z @ V.T)
    floor = np.full((len(Y), 1), np.inf)
    for step in range(30):
        floor = np.minimum(floor, _row_levels(R, usable, V.shape[1], 0.0)) + SPACE_ROUNDING
        weights = usable * floor / np.hypot(R, floor)
        Z = weighted_rows(Y, weights if step < 10 else weights**2, V)
        R = np.abs(Y - Z @ V.T)
    return Z


# ------------------------------------------------------------------ the column space


def _column_step(Y: Array, weights: Array, Z: Array) -> Array:
    """Orthonormal basis of the column space: each output regressed on z (whitened first)."""
    values, vectors = np.linalg.eigh(Z.T @ Z)
    Q = Z @ (vectors / np.sqrt(np.maximum(values, 1e-30 * values[-1] + TINY)))
    return np.asarray(np.linalg.qr(weighted_rows(Y.T, weights.T, Q))[0])


def _alternate(
    Y: Array, usable: AnyArray, V: Array, weights: Callable[[Array, AnyArray, int], Array]
) -> Array:
    """V and z in turn by least squares, weighted by what is left, until that falls no more.

    Where it is stopped is judged by what it leaves.
    """
    Z = weighted_rows(Y, usable.astype(float), V)
    levels: list[float] = []
    for _ in range(150):
        R = np.abs(Y - Z @ V.T)
        levels.append(float(np.median(R[usable])))
        if len(levels) > 5 and levels[-1] > 0.97 * levels[-6]:
            break
        w = weights(R, usable, V.shape[1])
        Z = weighted_rows(Y, w, V)
        before, V = V, _column_step(Y, w, Z)
        Z = weighted_rows(Y, w, V)
        if np.linalg.norm(V - before @ (before.T @ V)) <= SPACE_ROUNDING:
            break
    return V


def _absolute_weights(R: Array, usable: AnyArray, rank: int) -> Array:
    """`1 / |residual|`, levelled off at each row's usual one: the least absolute residuals."""
    return np.asarray(usable / np.hypot(R, _row_levels(R, usable, rank, 0.5) + SPACE_ROUNDING))


def _trimmed_weights(share: float, R: Array, usable: AnyArray, rank: int) -> Array:
    """Least squares without a given share of the residuals, the largest."""
    return np.asarray((usable & (np.quantile(R[usable], 1 - share) >= R)).astype(float))


def _judged(Y: Array, usable: AnyArray, V: Array) -> _Space:
    """What a basis leaves: the usual residual of a row, in all but the worst 15% of rows."""
    Z = decode(Y, usable, V)
    left = np.quantile(_row_levels(np.abs(Y - Z @ V.T), usable, V.shape[1], 0.5), 0.85)
    return _Space(V, float(left))


def _best_fit(Y: Array, usable: AnyArray, V: Array) -> _Space:
    """Least absolute residuals; if they leave anything, trimmed fits beside it until two agree."""
    best = _judged(Y, usable, _alternate(Y, usable, V, _absolute_weights))
    for share in (0.02, 0.1, 0.25):
        if best.exact:
            break
        space = _judged(Y, usable, _alternate(Y, usable, V, partial(_trimmed_weights, share)))
        agree = abs(space.residual - best.residual) <= 0.1 * best.residual
        best = min(best, space, key=lambda space: space.residual)
        if agree:
            break
    return best


def column_space(
    Y: Array, usable: AnyArray, first: Array, out_of_time: Callable[[], bool] = lambda: False
) -> _Space:
    """The best space at the rank of `first`, or at a somewhat larger one that explains far more.

    The pursuit shrinks singular values, so it may lose the smallest of them.
    """
    best = latest = _best_fit(Y, usable, first)
    in_vain = 0
    for _ in range(4):
        enough = best.exact or in_vain == 2 or latest.basis.shape[1] + 2 >= Y.shape[1]
        if enough or out_of_time():
            break
        latest = _best_fit(Y, usable, _one_more(Y, usable, latest.basis))
        in_vain += 1
        if latest.residual < 0.5 * best.residual:
            best, in_vain = latest, 0
    return best


def _one_more(Y: Array, usable: AnyArray, V: Array) -> Array:
    """V and the direction of most of what it leaves, large residuals cut off."""
    R = np.where(usable, Y - decode(Y, usable, V) @ V.T, 0.0)
    level = 3 * np.median(np.abs(R[usable])) + SPACE_ROUNDING
    R = np.clip(R, -level, level)
    R -= (R @ V) @ V.T
    return np.column_stack([V, np.linalg.eigh(R.T @ R)[1][:, -1]])


# ------------------------------------------------------------------ completion on clean entries


def _is_clean(R: Array, L: Array, noise: Array) -> AnyArray:
    """Entries whose residual is rounding, or noise of the given standard deviations."""
    rounding = ROUNDING * np.maximum(1.0, np.abs(L).max(axis=1, keepdims=True))
    return np.asarray(np.abs(R) <= np.maximum(rounding, 5 * noise))


def _noise(R: Array, clean: AnyArray, V: Array) -> Array:
    """Standard deviation of each output's residual on clean entries, the freedom of z allowed for.

    Medians: a few corrupted entries that passed for clean do not count.
    """
    sizes = np.where(clean, np.abs(R), np.nan)
    sizes[0, ~clean.any(axis=0)] = 0.0
    freedom = np.sqrt(np.maximum(1 - np.sum(V**2, axis=1), 1 / len(V)))
    found = np.nanmedian(sizes, axis=0) / (0.6745 * freedom)
    return np.where(found > ROUNDING, found, 0.0)


def _enough(usable: AnyArray, rank: int) -> AnyArray:
    """Usable entries; all of a row that would keep too few of them."""
    return np.asarray(usable | (usable.sum(axis=1, keepdims=True) < rank + 2))


def complete_rows(Y: Array, usable: AnyArray, V: Array, noise: Array) -> tuple[Array, AnyArray]:
    """z of every row, and its clean entries: decoded, then least squares on the clean ones."""
    Z = decode(Y, _enough(usable, V.shape[1]), V)
    clean = _is_clean(Y - Z @ V.T, Z @ V.T, noise)
    for _ in range(3):
        Z = weighted_rows(Y, clean.astype(float), V)
        clean = _is_clean(Y - Z @ V.T, Z @ V.T, noise)
    return Z, clean


def complete_space(
    Y: Array, usable: AnyArray, V: Array, out_of_time: Callable[[], bool] = lambda: False
) -> tuple[Array, Array, Ended]:
    """The column space by least squares on clean entries only, and the noise of each output."""
    Z = decode(Y, _enough(usable, V.shape[1]), V)
    noise = _noise(Y - Z @ V.T, usable, V)
    for _ in range(20):
        Z, clean = complete_rows(Y, usable, V, noise)
        before, V = V, _least_squares_space(Y, clean, V, Z)
        noise = _noise(Y - weighted_rows(Y, clean.astype(float), V) @ V.T, clean, V)
        if np.linalg.norm(V - before @ (before.T @ V)) <= SPACE_ROUNDING + 3e-3 * noise.max():
            return V, noise, Ended.CONVERGED
        if out_of_time():
            return V, noise, Ended.OUT_OF_TIME
    return V, noise, Ended.OUT_OF_STEPS


def _least_squares_space(Y: Array, clean: AnyArray, V: Array, Z: Array) -> Array:
    """V and z in turn on the clean entries of rows that these determine."""
    rows = _is_determined(clean, V)
    if not rows.any():
        return V
    Y, weights, Z = Y[rows], clean[rows].astype(float), Z[rows]
    for _ in range(150):
        before, V = V, _column_step(Y, weights, Z)
        Z = weighted_rows(Y, weights, V)
        if np.linalg.norm(V - before @ (before.T @ V)) <= SPACE_ROUNDING / 1000:
            break
    return V


def _is_determined(clean: AnyArray, V: Array) -> AnyArray:
    """Rows with a spare clean entry, whose clean entries see every direction of the space."""
    least = np.linalg.eigvalsh(_grams(clean.astype(float), V))[:, 0]
    return np.asarray((clean.sum(axis=1) > V.shape[1]) & (least > 1e-6))


# ------------------------------------------------------------------ the recipe


def usual_sizes(Y: Array) -> Array:
    """Median size of each output's non-zero labels; 1 where there are none."""
    sizes = np.where(Y == 0, np.nan, np.abs(Y))
    sizes[0, (Y == 0).all(axis=0)] = 1.0
    return np.asarray(np.nanmedian(sizes, axis=0))


def robust_pca(
    Y: Array,
    rng: np.random.Generator,
    out_of_time: Callable[[], bool] = lambda: False,
    gross: float = 10.0,
    rows_for_space: int = 3000,
) -> RobustPCA:
    """Take labels (n, outputs) with at least three outputs apart.

    Entries above `gross` times the usual size of their output are missing. A rank is low if
    singular values fall to a third, half of the rows are determined, and a twentieth of every
    output's entries is clean.
    """
    sizes = usual_sizes(Y)
    scaled = Y / sizes
    usable = np.abs(scaled) <= gross
    some = np.sort(rng.permutation(len(Y))[:rows_for_space])
    pursuit = principal_component_pursuit(scaled[some], usable[some], out_of_time)
    rank = min(pursuit.rank, Y.shape[1] - 2)
    first = np.linalg.eigh(pursuit.low_rank.T @ pursuit.low_rank)[1][:, -rank:]
    space = column_space(scaled[some], usable[some], first, out_of_time)
    V, noise, ended = complete_space(scaled[some], usable[some], space.basis, out_of_time)
    L, clean, determined = _complete_all(scaled, usable, V, noise)
    corrupted = ~(clean & determined[:, None])
    usual = determined & (np.abs(L).max(axis=1) <= gross)
    gap = _gap(L[usual], np.where(clean, scaled - L, 0.0)[usual], V.shape[1])
    fewest = max(0.05 * len(Y), V.shape[1] + 2)
    unchecked = (np.sum(V**2, axis=1) > 1 - 1e-6) | (clean.sum(axis=0) < fewest)
    return RobustPCA(
        low_rank=L * sizes,
        sparse=np.where(corrupted, Y - L * sizes, 0.0),
        rank=V.shape[1],
        status=_status(determined, gap, unchecked),
        ended=ended,
        corrupted=corrupted,
        determined=determined,
        noise=noise * sizes,
        gap=gap,
        unchecked=unchecked,
    )


def _complete_all(
    Y: Array, usable: AnyArray, V: Array, noise: Array
) -> tuple[Array, AnyArray, AnyArray]:
    L, clean, determined = np.empty_like(Y), np.empty(Y.shape, bool), np.empty(len(Y), bool)
    for rows in row_blocks(len(Y), max(64, 2**22 // (len(V) + V.shape[1] ** 2))):
        Z, clean[rows] = complete_rows(Y[rows], usable[rows], V, noise)
        L[rows] = Z @ V.T
        determined[rows] = _is_determined(clean[rows], V)
    return L, clean, determined


def _gap(L: Array, left: Array, rank: int) -> float:
    """The smallest of `rank` singular values of L over the largest of what is left."""
    if len(L) == 0:
        return 0.0
    kept = np.sqrt(max(np.linalg.eigvalsh(L.T @ L)[-rank], 0.0))
    lost = np.sqrt(max(np.linalg.eigvalsh(left.T @ left)[-1], 0.0))
    return float(kept / max(lost, SPACE_ROUNDING * np.linalg.norm(L), TINY))


def _status(determined: AnyArray, gap: float, unchecked: AnyArray) -> Separation:
    if gap < 3:
        return Separation.NO_LOW_RANK
    if determined.mean() < 0.5:
        return Separation.TOO_CORRUPTED
    return Separation.UNCHECKED_OUTPUT if unchecked.any() else Separation.SEPARATED
