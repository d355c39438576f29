"""Symmetric tensors of order 3 and 4 times a vector in all places but one.

Of the products `v_i v_j` only those with i <= j are formed, those with i < j counted twice: at
order 4 a quarter of the dense work.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.moments.sums import pair_products


class Contractions:
    """`T_3(v, v, .)` and `T_4(v, v, v, .)` for many v."""

    def __init__(self, T3: Array, T4: Array) -> None:
        """Keep the distinct entries."""
        d = len(T3)
        rows, columns = np.triu_indices(d)
        self.times = np.where(rows == columns, 1.0, 2.0)
        self.packed3 = T3[rows, columns]
        self.packed4 = T4[rows, columns][:, rows, columns]
        self.place = np.empty((d, d), dtype=np.intp)
        self.place[rows, columns] = self.place[columns, rows] = np.arange(len(rows))

    def third(self, V: Array) -> Array:
        """`T_3(v, v, .)` for every row v."""
        return np.asarray((pair_products(V) * self.times) @ self.packed3)

    def fourth(self, V: Array) -> Array:
        """`T_4(v, v, v, .)` for every row v."""
        matrices = ((pair_products(V) * self.times) @ self.packed4)[:, self.place]
        return np.asarray(np.einsum("sij,sj->si", matrices, V))
