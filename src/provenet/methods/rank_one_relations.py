"""Matrices of rank one in a space of matrices: the units among more relations than units.

A unit's relation (`lifting`) has `[P, Q] = u [u, q]^T`, of rank one. If two units are never on
together, `h_i h_j = 0` on all samples; if unit i is on only where unit j is, `h_i (h_j - z_j) = 0`
(and with a slope below zero `(h_i - z_i)(h_j - z_j) = 0` for two that are never off together).
These are relations too: `[P, Q] = u_i [u_j, ..]^T + u_j [u_i, ..]^T`, of rank two. Their null space
is spanned by both kinds, and P alone does not tell them apart: with `u_i u_i^T`, `u_j u_j^T` and
`u_i u_j^T + u_j u_i^T` it holds the square of every `a u_i + b u_j`. Q does: `h = a h_i + b h_j`
has `h^2 = a^2 h_i z_i + b^2 h_j z_j`, no multiple of h. So the units are the elements of rank one.

They are found by alternating projections (Nakatsukasa, Soma and Uschmajew 2017): of an element the
nearest matrix of rank one, of that the nearest element; and, once near, by Gauss-Newton steps on
`sum_s c_s N_s = u g^T`. Starts are random elements, of what is orthogonal to those found.
"""

from __future__ import annotations

import numpy as np

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.methods.tolerances import (
    NEW_UNIT,
    RANK_ONE,
    RANK_ONE_NEWTON,
    RANK_ONE_PROJECTIONS,
    RANK_ONE_STARTS,
)


def rank_one_elements(matrices: Array, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """`count` elements of rank one of the span of matrices, with different column spaces.

    Returns the unit vectors u (rows) and the coefficients of the elements (rows).
    """
    spanned = matrices.reshape(len(matrices), -1)
    left, sizes, rows = np.linalg.svd(spanned, full_matrices=False)
    N = rows.reshape(-1, *matrices.shape[1:])
    U, found = np.empty((0, N.shape[1])), np.empty((0, len(N)))
    for _ in range(RANK_ONE_STARTS * count):
        c = _new_start(found, len(N), rng)
        u, c = _newton(N, _projected(N, c))
        if _share_beyond_rank_one(N, c) > RANK_ONE or _is_known(U, u):
            continue
        U, found = np.vstack([U, u]), np.vstack([found, c])
        if len(U) == count:
            return U, np.asarray(found @ (left / sizes).T)
    raise NoAnswer(
        f"The labels obey {len(N)} quadratic relations, more than the {count} units explain, and "
        f"only {len(U)} of them are a single unit's: the inputs are not in general position, or a "
        "unit is on, or off, on fewer samples than labels and inputs have dimensions. Take more, "
        'or use "expand-prune".'
    )


def _new_start(found: Array, dimension: int, rng: np.random.Generator) -> Array:
    """A random element orthogonal to those found, of norm 1."""
    basis = np.linalg.qr(found.T)[0]
    c = rng.standard_normal(dimension)
    if len(found) < dimension:
        c -= basis @ (basis.T @ c)
    return np.asarray(c / np.linalg.norm(c))


def _projected(N: Array, c: Array) -> Array:
    """Alternating projections from an element: nearest matrix of rank one, nearest element."""
    for _ in range(RANK_ONE_PROJECTIONS):
        u, g = _leading(N, c)
        c = np.einsum("sab,a,b->s", N, u, g, optimize=True)
        c /= np.linalg.norm(c)
    return c


def _leading(N: Array, c: Array) -> tuple[Array, Array]:
    """The leading singular pair of an element, the second with the singular value."""
    left, sizes, right = np.linalg.svd(np.tensordot(c, N, 1), full_matrices=False)
    return left[:, 0], sizes[0] * right[0]


def _newton(N: Array, c: Array) -> tuple[Array, Array]:
    """Gauss-Newton steps on `sum_s c_s N_s - u g^T = 0`, each from the best u and g of its c."""
    s, k, D = N.shape
    along_c = N.reshape(s, -1).T
    for _ in range(RANK_ONE_NEWTON):
        u, g = _leading(N, c)
        along_u = np.einsum("ab,c->acb", np.eye(k), g).reshape(k * D, k)
        along_g = np.einsum("a,bc->abc", u, np.eye(D)).reshape(k * D, D)
        jacobian = np.hstack([along_c, -along_u, -along_g])
        rest = along_c @ c - np.outer(u, g).ravel()
        step = np.linalg.lstsq(jacobian, -rest, rcond=None)[0][:s]
        c = (c + step) / np.linalg.norm(c + step)
    return _leading(N, c)[0], c


def _share_beyond_rank_one(N: Array, c: Array) -> float:
    sizes = np.linalg.svd(np.tensordot(c, N, 1), compute_uv=False)
    return float(np.linalg.norm(sizes[1:]) / sizes[0])


def _is_known(U: Array, u: Array) -> bool:
    """Whether a unit vector is one of those found, up to sign, or a combination of them."""
    if not len(U):
        return False
    basis = np.linalg.qr(U.T)[0]
    return bool(np.linalg.norm(u - basis @ (basis.T @ u)) < NEW_UNIT)
