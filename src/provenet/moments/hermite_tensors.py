"""Hermite tensors: `<He_k(x), w^(x)k> = He_k(w.x)` for every unit vector w.

A function's k-th Hermite moment is `T_k = E[f(x) He_k(x)]`, a symmetric tensor of order k.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from provenet.common.typing import Array


def hermite_tensor(k: int, x: Array) -> Array:
    """The Hermite tensor `He_k(x)` of one point, as a dense array of shape `(d,) * k`.

    `He_k(x) = sum_j (-1)^j sum over j disjoint pairs of the k places of I on the pairs and x on the
    rest`. For tests and small sizes; sums over samples are made by `moments.MomentSums`.
    """
    d = len(x)
    total = np.zeros((d,) * k)
    for pairs in _pairings(tuple(range(k))):
        rest = [i for i in range(k) if all(i not in p for p in pairs)]
        term = np.ones(())
        for _ in pairs:
            term = np.multiply.outer(term, np.eye(d))
        for _ in rest:
            term = np.multiply.outer(term, x)
        places = [i for p in pairs for i in p] + rest
        total += (-1) ** len(pairs) * np.transpose(term, np.argsort(places))
    return total


def _pairings(places: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    """All sets of disjoint pairs of `places`, the empty set included."""
    found: list[tuple[tuple[int, int], ...]] = [()]
    for a, b in combinations(places, 2):
        later = tuple(p for p in places if p > a and p != b)
        found += [((a, b), *more) for more in _pairings(later)]
    return found


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
