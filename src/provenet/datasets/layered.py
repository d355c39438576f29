"""Random lowest layers under a polynomial top, as GP19 studies them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array, Seed
from provenet.networks.activations import Activation
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer


def random_layered(
    units: int,
    features: int,
    *,
    threshold: Any = 2.0,
    condition: float = 1.0,
    products: float = 1.0,
    activation: str | Activation = "relu",
    rng: Seed = None,
) -> LayeredNetwork:
    """Units under `P = sum X_i + sum c_ij X_i X_j`, each c_ij uniform up to `products` in size.

    The weights have rows of norm 1; before that their singular values fall geometrically by a
    factor of `condition` (1: orthonormal rows).
    """
    if units > features:
        raise InvalidInput(
            f"Independent units are at most as many as features, and {units} > {features}."
        )
    generator = np.random.default_rng(rng)
    W = conditioned_rows(units, features, condition, generator)
    terms: dict[tuple[int, ...], float] = {(i,): 1.0 for i in range(units)}
    for pair in combinations(range(units), 2):
        terms[pair] = float(generator.uniform(-products, products))
    return LayeredNetwork(lowest_layer(W, threshold, activation), Polynomial(units, terms))


def conditioned_rows(
    units: int, features: int, condition: float, rng: np.random.Generator
) -> Array:
    """Random rows of norm 1 from a matrix of that condition number."""
    U, _, V = np.linalg.svd(rng.standard_normal((units, features)), full_matrices=False)
    W = (U * np.geomspace(1.0, condition, units)) @ V
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))
