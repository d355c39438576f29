"""Contractions of packed tensors against the dense ones."""

from __future__ import annotations

import numpy as np

from provenet.moments.decomposition.contraction import Contractions
from provenet.moments.population import symmetric_tensor


def test_contractions_are_those_of_the_dense_tensors() -> None:
    rng = np.random.default_rng(0)
    a, W = rng.standard_normal(7), rng.standard_normal((7, 5))
    T3, T4 = (symmetric_tensor(a, W, k) for k in (3, 4))
    V = rng.standard_normal((3, 5))
    found = Contractions(T3, T4)
    # Sums of 25 and 125 terms: rounding alone.
    third = np.einsum("ijk,si,sj->sk", T3, V, V)
    fourth = np.einsum("ijkl,si,sj,sk->sl", T4, V, V, V)
    np.testing.assert_allclose(found.third(V), third, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.fourth(V), fourth, rtol=1e-11, atol=1e-11)
