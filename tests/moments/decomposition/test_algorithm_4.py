"""ATV21, Algorithm 4: which terms of two noisy tensors are units."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import direction_error, symmetrised
from provenet.common.typing import Array
from provenet.moments.decomposition.algorithm_4 import unit_directions
from provenet.moments.population import symmetric_tensor
from provenet.moments.symmetric import SymmetricTensor

FEATURES, NOISE = 8, 1e-3
"""Entries of the tensors are off by this much."""


def noisy_tensors(
    third: list[float], fourth: list[float], seed: int
) -> tuple[Array, tuple[SymmetricTensor, SymmetricTensor], tuple[float, float]]:
    """Orthonormal directions, `T_3` and `T_4` with these coefficients and noise, and its size."""
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.standard_normal((FEATURES, len(third))))[0].T
    tensors, errors = [], []
    for k, zeta in ((3, third), (4, fourth)):
        noise = NOISE * symmetrised(rng.standard_normal((FEATURES,) * k))
        tensors.append(SymmetricTensor.of_dense(symmetric_tensor(np.array(zeta), W, k) + noise))
        errors.append(float(np.sqrt(np.mean(noise**2))))
    return W, (tensors[0], tensors[1]), (errors[0], errors[1])


@pytest.mark.parametrize("seed", range(5))
def test_the_rank_is_what_stands_above_the_noise(seed: int) -> None:
    """Each tensor misses one unit; together they have all, up to errors of the noise.

    Jennrich's contractions multiply the noise, sqrt(features) times its size over the smallest
    coefficient, 0.006, by a factor that differs from draw to draw: over 50 seeds at most 0.25, with
    these at most 0.06.
    """
    W, tensors, errors = noisy_tensors([1.0, -0.7, 0.5, 0.0], [0.0, 0.6, -0.8, 1.0], seed)
    found, words = unit_directions(tensors, errors, 1, None, np.random.default_rng(0))
    assert words.startswith("T_3 has rank 3 and T_4 rank 3 above the noise;")
    nearest = np.abs(W @ found.T).max(axis=1)
    assert np.all(np.arccos(np.minimum(nearest, 1.0)) < 0.15)


@pytest.mark.parametrize("seed", range(5))
def test_a_term_below_the_noise_is_left_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A direction that Jennrich gives and no term of the tensor has: eta_2 takes it out."""
    W, tensors, errors = noisy_tensors([1.0, -0.7, 0.5], [0.9, 0.6, -0.8], seed)
    nothing = np.linalg.svd(W)[2][3]

    def with_one_more(T: Array, rank: int, rng: np.random.Generator) -> Array:
        return np.vstack([W, nothing])

    monkeypatch.setattr("provenet.moments.decomposition.algorithm_4.jennrich", with_one_more)
    found, _ = unit_directions(tensors, errors, 1, None, np.random.default_rng(0))
    assert direction_error(found, W) < 1e-12  # those that were given, up to rounding
    _, noise, errors = noisy_tensors([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], seed)
    found, _ = unit_directions(noise, errors, 1, None, np.random.default_rng(0))
    assert len(found) == 0
