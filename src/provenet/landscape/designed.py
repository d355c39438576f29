"""The designed objectives: P', G and F (GLM17, sections 2.2 and 3.2, appendix A).

With `t(u, v) = sum_i a_i <b_i, u>^2 <b_i, v>^2` over the true units, all of them are

    interference sum_{j != k} t(b_j, b_k)  -  attraction sum_j t(b_j, b_j)
      + penalty sum_j (b_j^T N b_j - 1)^2  +  ridge/2 |B|^2
      + decorrelation sum_{j != k} (b_j^T N b_k)^2.

The first term keeps rows off each other's units, the second draws each row to a single unit, the
third holds the rows' size: N is the identity for G (orthogonal units) and `sum_i a_i b_i b_i^T` for
F, in whose norm independent units are orthogonal. The ridge is for fewer units than features.
t comes from `T_4` and N from `T_2`.

The last term is not in the paper. From samples t carries noise, and as a form on `S = sum b b^T` it
is then no longer positive: beyond some width it is lowest where all rows collapse to one direction
(from 1e5 samples at 50 units it always is). Rows are orthogonal in the norm of N at the truth, and
N is known far better than t, so a multiple of the overlaps as large as the sampling error undoes
this and leaves the truth where it is. It vanishes for a population: there the paper's theorems hold
as they stand.

The constants are those of ERRATA (GLM17 1, 3 and 4):
`sqrt(6) |sigma_4| = |c_4| / 2` and `mu |sigma_4| / sqrt(24) = mu |c_4| / 24`.

Letters of the paper: its B, B*, a* are our B, W and A; its sigma_k is `c_k / sqrt(k!)`.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.landscape.constants import Constants
from provenet.landscape.objective import Objective, remember_last
from provenet.landscape.statistics import BatchStatistics, Statistics


class Design(Objective):
    """An objective of this family, from estimates of `sum a b b^T` and `sum a b^(x)4`."""

    def __init__(
        self,
        statistics: Statistics | BatchStatistics,
        constants: Constants,
        units: int,
        *,
        euclidean: bool = False,
        unit_rows: bool = False,
    ) -> None:
        """`euclidean` takes the identity for N."""
        self.statistics, self.constants, self.units = statistics, constants, units
        self.features, self.unit_rows = statistics.features, unit_rows
        self.theorem = constants.theorem
        self.magnitude = constants.penalty * units
        self.fourth, self.euclidean = statistics.fourth, euclidean
        self.norms = (np.eye(self.features),) * 2 if euclidean else statistics.norms

    def value(self, B: Array) -> float:
        """The objective at B."""
        weight = self.constants
        turned, cubes = self._fourth_at(B)
        own = float(np.sum(cubes * B))
        total = weight.interference * (float(np.sum(turned * B)) - own)
        total += weight.ridge / 2 * float(np.sum(B * B)) - weight.attraction * own
        (_, excess), (_, other) = self._sizes(B)
        total += weight.penalty * float(excess @ other)
        return float(total + weight.decorrelation * np.sum(self._overlaps(B) ** 2))

    def gradient(self, B: Array) -> Array:
        """Its gradient."""
        weight = self.constants
        turned, cubes = self._fourth_at(B)
        g = 4 * weight.interference * turned + weight.ridge * B
        g -= 4 * (weight.interference + weight.attraction) * cubes
        (first, excess), (second, other) = self._sizes(B)
        g += 2 * weight.penalty * (other[:, None] * first + excess[:, None] * second)
        return np.asarray(g + 4 * weight.decorrelation * self._overlaps(B) @ first)

    def hessian_product(self, B: Array, V: Array) -> Array:
        """Its Hessian applied to V."""
        weight = self.constants
        change = B.T @ V
        turned = V @ self.fourth.matrix(B.T @ B) + B @ self.fourth.matrix(change + change.T)
        h = 4 * weight.interference * turned + weight.ridge * V
        h -= 12 * (weight.interference + weight.attraction) * self.fourth.cubes(B, V)
        (first, excess), (second, other) = self._sizes(B)
        moved, also_moved = (V @ N for N in self.norms)
        grows, other_grows = (2 * np.sum(part * V, axis=1) for part in (first, second))
        h += 2 * weight.penalty * (other[:, None] * moved + excess[:, None] * also_moved)
        h += 2 * weight.penalty * (other_grows[:, None] * first + grows[:, None] * second)
        tilt = V @ first.T
        tilted = _without_diagonal(tilt + tilt.T) @ first + self._overlaps(B) @ moved
        return np.asarray(h + 4 * weight.decorrelation * tilted)

    def sampling_error(self, B: Array) -> float:
        """From the largest eigenvalues of pure sampling error in the two moments."""
        weight = self.constants.interference + self.constants.attraction
        length = float(np.linalg.norm(B, 2))
        fourth = 4 * weight * self.statistics.error * float(np.linalg.norm(B.T @ B)) * length
        if self.euclidean:
            return fourth
        (image, excess), _ = self._sizes(B)
        squares = np.sum(B * B, axis=1)
        a_row = squares * np.linalg.norm(image, axis=1) + np.abs(excess) * np.sqrt(squares)
        norm = 4 * self.constants.penalty * self.statistics.second_error * np.linalg.norm(a_row)
        return fourth + float(norm)

    @remember_last
    def _fourth_at(self, B: Array) -> tuple[Array, Array]:
        """Rows `T(B^T B, b_j, .)` and `T(b_j, b_j, b_j, .)`."""
        return self.fourth.at(B)

    def _overlaps(self, B: Array) -> Array:
        """`b_j^T N b_k` for j != k, zero on the diagonal."""
        return _without_diagonal(B @ self.norms[0] @ B.T)

    def _sizes(self, B: Array) -> list[tuple[Array, Array]]:
        """For both estimates of N: the rows `N b_j`, and `b_j^T N b_j - 1`."""
        images = [B @ N for N in self.norms]
        return [(image, np.sum(image * B, axis=1) - 1) for image in images]


def _without_diagonal(A: Array) -> Array:
    return np.asarray(A - np.diag(np.diag(A)))


def interference(statistics: Statistics | BatchStatistics, units: int) -> Design:
    """P' of section 3.2 on rows of norm 1: the first term alone, which has bad minima."""
    return Design(statistics, Constants(interference=1.0), units, euclidean=True, unit_rows=True)
