"""Hermite tensors: `<He_k(x), w^(x)k> = He_k(w.x)` for every unit vector w.

A function's k-th Hermite moment is `T_k = E[f(x) He_k(x)]`, a symmetric tensor of order k.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array


def norm_polynomial(k: int, d: int) -> tuple[float, ...]:
    """Coefficients, by rising power of `|x|^2`, of `||He_k(x)||^2` (Frobenius), for k up to 4.

    The sampling error of a moment needs only this: `E||T_k - E T_k||^2` is
    `(E[y^2 ||He_k(x)||^2] - ||T_k||^2) / n`.
    """
    known = (
        (1,),
        (0, 1),
        (d, -2, 1),
        (0, 3 * d + 6, -6, 1),
        (3 * d * (d + 2), -12 * d - 24, 6 * d + 36, -12, 1),
    )
    if k >= len(known):
        raise ValueError(f"the norm of He_{k} is known for k <= 4 only")
    return known[k]


def tensor_norm_squared(k: int, squared_norm: Array, d: int) -> Array:
    """`||He_k(x)||^2` from `|x|^2` alone."""
    return np.asarray(np.polynomial.polynomial.polyval(squared_norm, norm_polynomial(k, d)))
