"""A first guess of one halfspace from the positives alone."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.lowest_layer.unions.candidates import candidate_face


@pytest.mark.parametrize("seed", range(3))
def test_a_candidate_is_near_one_of_the_halfspaces(seed: int) -> None:
    """Within 15 degrees: far less than the 90 between units, and what the fit after it needs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40_000, 10))
    W, t = np.eye(10)[:4], 2.0
    positives = X[(X @ W.T).max(axis=1) > t]
    face = candidate_face(positives, len(X), rng)
    assert np.linalg.norm(face.weights) == pytest.approx(1)
    assert float((W @ face.weights[0]).max()) > np.cos(np.radians(15))
    assert abs(face.thresholds[0] - t) < 0.5
