"""The smallest eigenvalue of the scaled S, to a digit, from a few products.

The letters are those of `least_squares`, and D^2 is the diagonal of S. `B = D^-1 S D^-1` has each
unit's own scale as a null direction; its outer product is added, which moves it out of the way.
Rayleigh's quotient is lowered within the span of a vector, its residual times the preconditioner of
conjugate gradients, and the last move (LOBPCG, Knyazev 2001, with one vector). The preconditioner
is what S is close to, so that tens of products do where Lanczos' method takes hundreds.

What it is not close to is a unit of which one side has few samples: most of its directions are as
sure as any, and some not at all. A random vector would meet them late. So the start is made of what
is least sure of each unit by itself, the eigenvectors of its own block of B.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, eigh

from provenet.common.typing import Array
from provenet.fitting.least_squares import Products
from provenet.fitting.tolerances import (
    ALIKE,
    EIGEN_PATIENCE,
    EIGEN_PRODUCTS,
    EIGEN_STILL,
    EIGEN_ZERO,
)


def smallest_eigenvalue(curvature: Products, scale: Array, scales: Array, blocks: Array) -> float:
    """Of the scaled S, its null directions left out; 0 where nothing is known of it.

    `scale` is D, `scales` the null directions, a row a unit, and `blocks` each unit's block of S.
    """

    def image(v: Array) -> Array:
        own = scales * np.einsum("mw,mw->m", scales, v.reshape(scales.shape))[:, None]
        return np.asarray(curvature.product(v / scale) / scale + own.ravel())

    precondition = curvature.preconditioner(ALIKE)
    x = least_sure(blocks, scale.reshape(scales.shape), scales)
    basis, images = [x], [image(x)]
    lowest, still = float(x @ images[0]), 0
    for _ in range(EIGEN_PRODUCTS):
        if lowest <= EIGEN_ZERO or still == EIGEN_PATIENCE:
            return max(lowest, 0.0)
        further = scale * precondition(scale * (images[0] - lowest * basis[0]))
        size = np.linalg.norm(further)
        if size == 0:
            return lowest
        basis.append(further / size)
        images.append(image(basis[-1]))
        before, (lowest, basis, images) = lowest, _lowered(basis, images)
        still = still + 1 if before - lowest <= EIGEN_STILL * before else 0
    return 0.0


def least_sure(blocks: Array, scale: Array, scales: Array) -> Array:
    """What is least sure of each unit by itself, the least sure most; and some of everything."""
    own = blocks / scale[:, :, None] / scale[:, None, :] + scales[:, :, None] * scales[:, None, :]
    values, vectors = np.linalg.eigh(own)
    weights = 1 / np.maximum(values, EIGEN_ZERO)
    signs = np.random.default_rng(0).standard_normal(values.shape)
    x = np.einsum("mwk,mk->mw", vectors, weights * signs).ravel()
    return np.asarray(x / np.linalg.norm(x))


def _lowered(basis: list[Array], images: list[Array]) -> tuple[float, list[Array], list[Array]]:
    """The least of Rayleigh's quotient in a span, its vector, and the move that led to it."""
    V, AV = np.column_stack(basis), np.column_stack(images)
    try:
        values, vectors = eigh(V.T @ AV, V.T @ V, subset_by_index=[0, 0])
    except LinAlgError:  # the last move is as good as parallel to the rest
        V, AV = V[:, [0, -1]], AV[:, [0, -1]]
        values, vectors = eigh(V.T @ AV, V.T @ V, subset_by_index=[0, 0])
    c = vectors[:, 0]
    x, move = V @ c, V[:, 1:] @ c[1:]
    Ax, Amove = AV @ c, AV[:, 1:] @ c[1:]
    length, size = np.linalg.norm(x), np.linalg.norm(move)
    return float(values[0]), [x / length, move / size], [Ax / length, Amove / size]
