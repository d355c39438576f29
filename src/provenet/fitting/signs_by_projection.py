"""The signs of the units by regression (BJW19, Algorithm 6).

Which of `relu(z_i)` and `relu(-z_i)` could the labels more easily do without?
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources import Source
from provenet.fitting.model import Parameters
from provenet.fitting.output_layer import fit_linear_part, linear_part, without_each_unit
from provenet.networks.activations import RELU, Activation


def signs_by_projection(source: Source, W: Array, b: Array, activation: Activation = RELU) -> Array:
    """BJW19, Algorithm 6: for each unit, the sign without which the labels are explained worse.

    All `relu(z_j), relu(-z_j)` are regressors (of another rectified activation alike); the paper's
    `a_i^+ - a_i^-` is the difference of what the residual sum of squares gains without
    `relu(-z_i)` and without `relu(z_i)`.
    """
    both = Parameters(
        np.column_stack([np.vstack([W, -W]), np.append(b, -b)]),
        np.zeros((2 * len(W) + 1, *source.label_shape)),
    )
    fitted, _ = fit_linear_part(source, both, activation)
    loss = without_each_unit(linear_part(source, fitted, activation), fitted)
    return np.where(loss[len(W) :] > loss[: len(W)], -1.0, 1.0)
