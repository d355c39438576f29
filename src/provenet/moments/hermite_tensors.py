"""Hermite tensors: `<He_k(x), w^(x)k> = He_k(w.x)` for every unit vector w.

A function's k-th Hermite moment is `T_k = E[f(x) He_k(x)]`, a symmetric tensor of order k.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array


def tensor_norm_squared(k: int, squared_norm: Array, d: int) -> Array:
    """`||He_k(x)||^2` (Frobenius) from `|x|^2` alone, for k up to 4.

    The sampling error of a moment needs only this: `E||T_k - E T_k||^2` is
    `(E[y^2 ||He_k(x)||^2] - ||T_k||^2) / n`.
    """
    s = squared_norm
    if k == 0:
        return np.ones_like(s)
    if k == 1:
        return s
    if k == 2:
        return s**2 - 2 * s + d
    if k == 3:
        return s**3 - 6 * s**2 + (3 * d + 6) * s
    if k == 4:
        return s**4 - 12 * s**3 + (6 * d + 36) * s**2 - (12 * d + 24) * s + 3 * d * (d + 2)
    raise ValueError(f"the norm of He_{k} is known for k <= 4 only")
