"""The output weights and the signs of units, given their directions (GLM17, appendix B)."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.landscape.tolerances import ODD_PART
from provenet.networks.activations import Activation


def output_weights(
    T1: Array, T2: Array, B: Array, activation: Activation, *, orthogonal: bool = False
) -> tuple[Array, Array]:
    """Positive output weights, and the rows of B (norm 1) with their signs settled.

    Algorithm 1 (`orthogonal`): `a'_i = E[y <x, b_i>] / c_1`, for ReLU `c_1 = 1/2`. Algorithm 2:
    `a' = (B B^T)^{-1}` times that. The sign of `a'_i` is the unit's: a is positive. An even
    activation has no first moment and no signs: its output weights come from `T_2` alike.
    """
    c_1 = float(activation.hermite(1, 0.0))
    if abs(c_1) < ODD_PART:
        u = np.einsum("md,de,me->m", B, T2, B, optimize=True) / float(activation.hermite(2, 0.0))
        gram = (B @ B.T) ** 2
    else:
        u, gram = B @ T1 / c_1, B @ B.T
    a = u if orthogonal else np.linalg.lstsq(gram, u, rcond=None)[0]
    signs = np.where(a < 0, -1.0, 1.0)
    return np.abs(a), np.asarray(B * signs[:, None])
