"""A bad local minimum of P', the objective that has interference alone (GLM17, appendix D).

For units `b*_i = e_i` in d = 4 dimensions with `a = (1, r, r, r)`, `r = 2 + delta`, the rows

    b_1 = b_2 = e_1,    b_3 = e_2,    b_4 = (e_3 + e_4) / sqrt(2)

are a local minimum of `P'(B) = sum_i a_i sum_{j != k} <b*_i, b_j>^2 <b*_i, b_k>^2` on rows of norm
1, with the value 2 (the paper counts a pair once, and has 1) where the truth has 0. Two rows share
the cheapest unit; a third one spreads over two others, and so keeps them away from both.

Along the spheres its Hessian is diagonal:

| row | towards | eigenvalue |
| --- | --- | --- |
| b_1, b_2 | e_2 | 4 (r - 1) |
| b_1, b_2 | e_3, e_4 | 2 (r - 2) |
| b_3 | e_1 | 8 |
| b_3 | e_3, e_4 | 2 r |
| b_4 | e_1 | 8 |
| b_4 | e_2 | 4 r |
| b_4 | e_3 - e_4 | 0 |

The last is no accident: b_4 may turn in the plane of e_3 and e_4 and P' does not change. While
`r min(cos^2, sin^2) > 1` of its angle, every other eigenvalue stays positive, so the minimum is an
arc, strict in all directions across it. At r <= 2 none is left.

In general (not in the paper), for orthogonal units, as many as features, P' has a bad minimum if
and only if

    1 / a_min  >  1 / a' + 1 / a'',        a' and a'' the two largest.

So max a > 2 min a is needed; it is enough where the two largest are equal, but not in general. The
proof, in `p_ji = <b*_i, b_j>^2`, whose rows sum to 1:

1. For row j, unit i costs `a_i sum_{k != j} p_ki`, and at a minimum it lies on its cheapest units
   only: with the others held P' is a quadratic form on the sphere.
2. A row on several units may shift between them, P' does not change, and what it shifts to is a
   minimum too. By 1 two such rows then share no unit.
3. Let P' > 0. Some units carry no row that lies on them alone, or all would carry exactly one.
   None of these is empty, or every row would move there; so by 2 each carries one row, which
   lies on several units and pays nothing: all of its units are of this kind. These rows are fewer
   than their units, so the others are more than theirs, and one of them pays at least a_min.
4. That row does not move to the units l of a row of 3: their loads are at least `a_min / a_l`, and
   more, because by 2 they may shift. The loads of one row sum to 1.

Conversely, two rows on the cheapest unit, one on the two dearest with loads in proportion to
`1 / a_l`, and every other row on a unit of its own are a minimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.networks.network import Network


@dataclass(frozen=True, eq=False)
class SpuriousMinimum:
    """A network, and a matrix that is a bad local minimum of its P'."""

    network: Network
    B: Array
    """One unit a row, rows of norm 1; a local minimum, strict but for an arc it lies on."""


def spurious_minimum(delta: float = 0.5) -> SpuriousMinimum:
    """The example of GLM17, appendix D: output weights 1 and three times `2 + delta`."""
    number = isinstance(delta, Real) and not isinstance(delta, bool)
    if not (number and math.isfinite(delta) and delta > 0):
        raise InvalidInput(
            f"delta must be a positive number, not {delta!r}: from 0 down the matrix is no local "
            "minimum of P'."
        )
    a = np.array([1.0, 2 + delta, 2 + delta, 2 + delta])
    B = np.zeros((4, 4))
    B[0, 0] = B[1, 0] = B[2, 1] = 1.0
    B[3, 2:] = np.sqrt(0.5)
    B.setflags(write=False)
    return SpuriousMinimum(Network(np.eye(4), output_weights=a), B)
