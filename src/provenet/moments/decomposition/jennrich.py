"""Jennrich's algorithm (Harshman 1970; ATV21, Claim 4.4 and Theorem A.5).

For `T = sum_i alpha_i u_i (x) u_i (x) x_i` with independent u_i, two random contractions of the
last mode are `M = U D U^T` and `M' = U D' U^T`: the u_i are the eigenvectors of `M M'^+` that have
non-zero eigenvalues, and the eigenvalues `D_i / D'_i` are distinct with probability one.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.moments.tolerances import NOT_REAL, PENCIL_DRAWS, TINY


def jennrich(T: Array, rank: int, rng: np.random.Generator) -> Array:
    """Unit vectors u_i (rows) of the rank-one terms of T, shape (d, d, q), symmetric in two modes.

    Of several random pairs of slices the one with the best separated real eigenvalues is used. When
    noise makes eigenvalues complex the real parts of the eigenvectors are returned.
    """
    if rank == 0:
        return np.empty((0, T.shape[0]))
    left, _, _ = np.linalg.svd(T.reshape(len(T), -1), full_matrices=False)
    basis = left[:, :rank]
    core = np.einsum("ia,ijk,jb->abk", basis, T, basis, optimize=True)
    best_gap, best = -1.0, np.zeros((rank, rank))
    for _ in range(PENCIL_DRAWS):
        x, y = rng.standard_normal((2, T.shape[2]))
        try:
            values, vectors = np.linalg.eig(np.linalg.solve((core @ y).T, (core @ x).T).T)
        except np.linalg.LinAlgError:
            continue
        gap = _separation(values)
        if gap > best_gap:
            best_gap, best = gap, vectors.real.T
    directions = best @ basis.T
    norms = np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions / np.where(norms == 0, 1.0, norms))


def _separation(values: Array) -> float:
    """Smallest relative distance between eigenvalues; zero when some are complex."""
    if np.abs(values.imag).max() > NOT_REAL * np.abs(values).max():
        return 0.0
    if len(values) == 1:
        return 1.0
    real = np.sort(values.real)
    return float(np.diff(real).min() / (np.abs(real).max() + TINY))
