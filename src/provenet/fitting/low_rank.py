"""Labels of low rank with arbitrary errors in a few entries: finding and repairing these entries.

`Y = L + S` with `L` of low rank and `S` sparse (BJW19, section 8: its `A` is our `Y^T`). Theorem 14
obtains both by principal component pursuit (the weight is missing in the paper: ERRATA 12),

    min |L|_* + |S|_1 / sqrt(max(Y.shape))   subject to   L + S = Y.

That is exact only for incoherent labels of a rank far below the number of outputs, and it shrinks
L; so here it only gives the rank and a first column space (of outputs). The rest is exact wherever
the clean entries determine the answer:

1. *Screening.* Entries ten times the usual size of their output are missing, not wrong.
2. *Column space.* From a basis V (outputs, rank): z of every row and then V by weighted least
   squares, in turn, with weights that make it the fit of least absolute residuals, or without the
   largest residuals (heavy tails need that); at the rank that explains the labels.
3. *Decoding.* Given V, a row `y = V z + s` with sparse s is reweighted least squares: first for
   `|s|_1`, then for `sum log |s|`, whose minimum is at the sparsest s.
4. *Completion.* Entries whose residual stands above rounding (with noise: above 5 standard
   deviations) are corrupted; V and z are least squares on all others.

All rows at once: one product with the rank^2 products of V's columns, one batch of small solves.
The column space comes from a few thousand rows, all others are only decoded. Cost: n outputs rank^2
a round of decoding; memory: a few copies of Y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from provenet.common.typing import EPS, TINY, AnyArray, Array, row_blocks
from provenet.fitting.least_squares import Ended

SPACE_ROUNDING = 1e-11
"""Rounding of residuals and of moves of a space, in units of an output's usual size: sums over
thousands of rows."""
ROUNDING = 1e-9
"""Residuals below this, in the same units, are not noise."""


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
    """Labels as a part of low rank, corrupted entries and noise.

    In a row that is not `determined` every entry counts as corrupted, and `low_rank` is a guess.
    """

    low_rank: Array
    rank: int
    status: Separation
    ended: Ended
    """How the iteration for the column space ended."""
    corrupted: AnyArray
    """Boolean (n, outputs)."""
    determined: AnyArray
    """Boolean (n,): rows whose clean entries determine the others."""
    noise: Array
    """Standard deviation, an output, of what is neither of low rank nor sparse; 0 for rounding."""
    gap: float
    """The smallest singular value kept over the largest of the residual on clean entries."""


def robust_pca(
    Y: Array,
    rng: np.random.Generator,
    out_of_time: Callable[[], bool] = lambda: False,
    gross: float = 10.0,
    rows_for_space: int = 3000,
) -> RobustPCA:
    """Separate labels (n, outputs) with at least three outputs.

    Entries above `gross` times the usual size of their output, the median of its non-zero labels,
    are missing. A rank is low if singular values fall to a third, half of the rows are determined,
    and a twentieth of every output's entries is clean.
    """
    size = np.where(Y == 0, np.nan, np.abs(Y))
    size[0, (Y == 0).all(axis=0)] = 1.0
    size = np.nanmedian(size, axis=0)
    scaled = Y / size
    usable = np.abs(scaled) <= gross
    some = np.sort(rng.permutation(len(Y))[:rows_for_space])
    pursuit = principal_component_pursuit(scaled[some], usable[some], out_of_time)
    rank = min(pursuit.rank, Y.shape[1] - 2)
    first = np.linalg.eigh(pursuit.low_rank.T @ pursuit.low_rank)[1][:, -rank:]
    V = column_space(scaled[some], usable[some], first, out_of_time)
    V, noise, ended = complete_space(scaled[some], usable[some], V, out_of_time)
    L, clean, determined = np.empty_like(Y), np.empty(Y.shape, bool), np.empty(len(Y), bool)
    for rows in row_blocks(len(Y), max(64, 2**22 // (len(V) + V.shape[1] ** 2))):
        Z, clean[rows] = complete_rows(scaled[rows], usable[rows], V, noise)
        L[rows] = Z @ V.T
        determined[rows] = _is_determined(clean[rows], V)
    usual = determined & (np.abs(L).max(axis=1) <= gross)
    gap = _gap(L[usual], np.where(clean, scaled - L, 0.0)[usual], V.shape[1])
    fewest = max(0.05 * len(Y), V.shape[1] + 2)
    status = Separation.SEPARATED
    if gap < 3:
        status = Separation.NO_LOW_RANK
    elif determined.mean() < 0.5:
        status = Separation.TOO_CORRUPTED
    elif np.any((np.sum(V**2, axis=1) > 1 - 1e-6) | (clean.sum(axis=0) < fewest)):
        status = Separation.UNCHECKED_OUTPUT
    corrupted = ~(clean & determined[:, None])
    return RobustPCA(L * size, V.shape[1], status, ended, corrupted, determined, noise * size, gap)


def _gap(L: Array, residual: Array, rank: int) -> float:
    """The smallest of `rank` singular values of L over the largest of the residual."""
    if len(L) == 0:
        return 0.0
    kept = np.sqrt(max(np.linalg.eigvalsh(L.T @ L)[-rank], 0.0))
    lost = np.sqrt(max(np.linalg.eigvalsh(residual.T @ residual)[-1], 0.0))
    return float(kept / max(lost, SPACE_ROUNDING * np.linalg.norm(L), TINY))


# ------------------------------------------------------------------ principal component pursuit


@dataclass(frozen=True)
class Pursuit:
    """The result of principal component pursuit."""

    low_rank: Array
    sparse: Array
    ended: Ended

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
    ended = Ended.OUT_OF_STEPS
    for _ in range(steps):
        L = _shrink_singular_values(Y - S + multiplier / penalty, 1 / penalty)
        T = Y - L + multiplier / penalty
        S = T - np.clip(T, -weight / penalty, weight / penalty)
        residual = Y - L - S
        multiplier += penalty * residual
        penalty *= 1.2
        if np.linalg.norm(residual) <= tolerance * size:
            ended = Ended.CONVERGED
        elif out_of_time():
            ended = Ended.OUT_OF_TIME
        if ended is not Ended.OUT_OF_STEPS:
            break
    return Pursuit(L, S, ended)


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


def column_space(
    Y: Array, usable: AnyArray, first: Array, out_of_time: Callable[[], bool] = lambda: False
) -> Array:
    """The best basis at the rank of `first`, or at a somewhat larger one that explains far more.

    The pursuit shrinks singular values, so it may lose the smallest of them.
    """
    V, least = _best_fit(Y, usable, first)
    best, in_vain = V, 0
    while least > ROUNDING and in_vain < 2 and V.shape[1] + 2 < Y.shape[1] and not out_of_time():
        R = np.where(usable, Y - decode(Y, usable, V) @ V.T, 0.0)
        level = 3 * np.median(np.abs(R[usable])) + SPACE_ROUNDING
        R = np.clip(R, -level, level)
        R -= (R @ V) @ V.T
        wider = np.column_stack([V, np.linalg.eigh(R.T @ R)[1][:, -1]])
        V, residual = _best_fit(Y, usable, wider)
        in_vain += 1
        if residual < 0.5 * least:
            best, least, in_vain = V, residual, 0
    return best


def _best_fit(Y: Array, usable: AnyArray, V: Array) -> tuple[Array, float]:
    """Least absolute residuals; if not exact, trimmed fits too, until two agree. With its residual.

    That is the median residual of a row, in all but the worst 15% of rows.
    """
    best, least = V, np.inf
    for trimmed in (0.0, 0.02, 0.1, 0.25):
        found = _alternate(Y, usable, V, trimmed)
        R = np.abs(Y - decode(Y, usable, found) @ found.T)
        residual = float(np.quantile(_row_levels(R, usable, V.shape[1], 0.5), 0.85))
        agree = abs(residual - least) <= 0.1 * least < np.inf
        if residual < least:
            best, least = found, residual
        if agree or least <= ROUNDING:
            break
    return best, least


def _alternate(Y: Array, usable: AnyArray, V: Array, trimmed: float) -> Array:
    """V and z in turn by weighted least squares, until the residual falls no more.

    Without the largest residuals, a share `trimmed` of them; or, if that is 0, with weights
    `1 / |residual|`, which level off at each row's usual residual.
    """
    weights, levels = usable.astype(float), list[float]()
    for _ in range(150):
        Z = weighted_rows(Y, weights, V)
        R = np.abs(Y - Z @ V.T)
        levels.append(float(np.median(R[usable])))
        if len(levels) > 5 and levels[-1] > 0.97 * levels[-6]:
            break
        if trimmed:
            weights = (usable & (np.quantile(R[usable], 1 - trimmed) >= R)).astype(float)
        else:
            usual = _row_levels(R, usable, V.shape[1], 0.5) + SPACE_ROUNDING
            weights = usable / np.hypot(R, usual)
        before, V = V, _column_step(Y, weights, weighted_rows(Y, weights, V))
        if _distance(before, V) <= SPACE_ROUNDING:
            break
    return V


def _column_step(Y: Array, weights: Array, Z: Array) -> Array:
    """Orthonormal basis of the column space: each output regressed on z (whitened first)."""
    values, vectors = np.linalg.eigh(Z.T @ Z)
    Q = Z @ (vectors / np.sqrt(np.maximum(values, 1e-30 * values[-1] + TINY)))
    return np.asarray(np.linalg.qr(weighted_rows(Y.T, weights.T, Q))[0])


def _distance(before: Array, V: Array) -> float:
    return float(np.linalg.norm(V - before @ (before.T @ V)))


# ------------------------------------------------------------------ completion on clean entries


def complete_rows(Y: Array, usable: AnyArray, V: Array, noise: Array) -> tuple[Array, AnyArray]:
    """z of every row, and its clean entries: decoded, then least squares on the clean ones."""
    Z = decode(Y, _enough(usable, V.shape[1]), V)
    clean = _is_clean(Y, Z @ V.T, noise)
    for _ in range(3):
        Z = weighted_rows(Y, clean.astype(float), V)
        clean = _is_clean(Y, Z @ V.T, noise)
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
        if _distance(before, V) <= SPACE_ROUNDING + 3e-3 * noise.max():
            return V, noise, Ended.CONVERGED
        if out_of_time():
            return V, noise, Ended.OUT_OF_TIME
    return V, noise, Ended.OUT_OF_STEPS


def _least_squares_space(Y: Array, clean: AnyArray, V: Array, Z: Array) -> Array:
    """V and z in turn on the clean entries of rows that these determine, to the last digit."""
    rows = _is_determined(clean, V)
    Y, weights, Z = Y[rows], clean[rows].astype(float), Z[rows]
    for _ in range(150 if rows.any() else 0):
        before, V = V, _column_step(Y, weights, Z)
        Z = weighted_rows(Y, weights, V)
        if _distance(before, V) <= SPACE_ROUNDING / 1000:
            break
    return V


def _is_clean(Y: Array, L: Array, noise: Array) -> AnyArray:
    """Entries whose residual is rounding, or noise of the given standard deviations."""
    rounding = ROUNDING * np.maximum(1.0, np.abs(L).max(axis=1, keepdims=True))
    return np.asarray(np.abs(Y - L) <= np.maximum(rounding, 5 * noise))


def _noise(R: Array, clean: AnyArray, V: Array) -> Array:
    """Standard deviation of each output's residual on clean entries, the freedom of z corrected.

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


def _is_determined(clean: AnyArray, V: Array) -> AnyArray:
    """Rows with a spare clean entry, whose clean entries see every direction of the space."""
    least = np.linalg.eigvalsh(_grams(clean.astype(float), V))[:, 0]
    return np.asarray((clean.sum(axis=1) > V.shape[1]) & (least > 1e-6))
