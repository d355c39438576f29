"""Output weights and biases from directions and moments: ATV21, Algorithm 2 (RecoverScalars).

With the directions known up to sign, `T_j = sum_i zeta_j(i) w_i^(x)j` is linear in the scalars
`zeta_j = (-1)^j a phi(b) He_{j-2}(b)`, and the recurrence of the Hermite polynomials turns these
into b and a (Lemma 4.5, with the index shifted by two as it must be: ERRATA, ATV21 6).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.moments.tolerances import CUT_OFF, LARGEST_BIAS, TINY
from provenet.networks.hermite import he, normal_density


def coefficients_of(T: Array, W: Array) -> Array:
    """Least-squares `zeta` with `T = sum_i zeta_i w_i^(x)j`, in j-th powers of inner products.

    The normal equations need no tensor: `<w^(x)j, v^(x)j> = <w, v>^j`.
    """
    j = T.ndim
    rhs = T
    for _ in range(1, j):
        rhs = rhs @ W.T if rhs is T else np.einsum("...im,mi->...m", rhs, W)
    rhs = np.einsum("im,mi->m", rhs, W)
    gram = (W @ W.T) ** j
    return np.asarray(np.linalg.lstsq(gram, rhs, rcond=CUT_OFF)[0])


def recover_scalars(tensors: tuple[Array, ...], W: Array, order: int = 1) -> tuple[Array, Array]:
    """`(a, b)` for the rows of W, from `T_2, T_3` (order 1) or `T_order .. T_order+3`."""
    return scalars_by(lambda j: coefficients_of(tensors[j], W), order)


def scalars_by(zeta: Callable[[int], Array], order: int) -> tuple[Array, Array]:
    """The same from `zeta_j` of all units as a function of j."""
    if order == 1:
        second, third = zeta(2), zeta(3)
        b = np.clip(-third / _away_from_zero(second), -LARGEST_BIAS, LARGEST_BIAS)
        return second / normal_density(b), b
    return scalars_from_coefficients(np.array([zeta(j) for j in range(order, order + 4)]), order)


def scalars_from_coefficients(zeta: Array, order: int) -> tuple[Array, Array]:
    """`(a, b)` from `zeta_j`, j = order .. order + 3 (rows), by the three-term recurrence."""
    units = np.arange(zeta.shape[1])
    q = order + 1 + np.argmax(np.abs(zeta[1:3]), axis=0)
    row = q - order
    here, below, above = (_pick(zeta, row + shift, units) for shift in (0, -1, 1))
    b = -(above + (q - 2) * below) / _away_from_zero(here)
    b = np.clip(b, -LARGEST_BIAS, LARGEST_BIAS)
    hermite = np.array([he(int(k) - 2, bias) for k, bias in zip(q, b, strict=True)])
    return (-1.0) ** q * here / (normal_density(b) * _away_from_zero(hermite)), b


def _pick(zeta: Array, rows: AnyArray, units: AnyArray) -> Array:
    return np.asarray(zeta[rows, units])


def _away_from_zero(x: Array) -> Array:
    return np.where(x == 0, TINY, x)
