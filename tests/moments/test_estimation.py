"""Moments of any source are means of what each sample shares in them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import eval_hermitenorm

import provenet as pn
from provenet.data.sources import Source
from provenet.moments.estimation import estimate_moments, shares
from provenet.moments.sums import MomentRequest

_SAMPLES = 900
"""Fewer than are summed in single precision."""


def source_of(kind: str) -> Source:
    X = np.random.default_rng(0).standard_normal((_SAMPLES, 3))
    y = 1 / (1 + np.exp(1 - X[:, 0])) + 1 / (1 + np.exp(1 - X[:, 1]))
    if kind == "arrays":
        return pn.ArraySource(X, y)
    kept = np.random.default_rng(1).random(_SAMPLES) < y / y.max()
    return pn.BiasedSource(X[kept], y[kept] if kind == "kept, with labels" else None)


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("kind", ["arrays", "kept, with labels", "kept, inputs alone"])
def test_a_moment_is_the_mean_of_shares(kind: str, order: int) -> None:
    """`T_k(z, .., z) = mean of r He_k(z.u)`, for a unit vector z, to rounding."""
    source = source_of(kind)
    basis = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 2)))[0].T
    quadratic = np.diag([0.3, -0.2]) if order == 4 else None
    request = MomentRequest(source.standardisation(), order, basis, quadratic)
    T = estimate_moments(source, request).tensors[order]
    u, r = shares(source, request)(*source.rows(0, source.size))
    z = np.array([0.6, 0.8])
    for _ in range(order):
        T = T @ z
    assert float(T) == pytest.approx(np.mean(r * eval_hermitenorm(order, u @ z)), rel=1e-9)
