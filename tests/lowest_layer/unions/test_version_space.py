"""What samples without noise leave of one face."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.common.typing import Array
from provenet.lowest_layer.unions.faces import Faces, Flags
from provenet.lowest_layer.unions.version_space import (
    Cell,
    Contradiction,
    least_errors,
    usual_errors,
    version_space,
)

W, T = np.array([2.0, -1.0, 2.0]) / 3, 0.4


def band(n: int, seed: int) -> tuple[Array, Flags]:
    """Samples within 0.3 of the face."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20 * n, 3))
    X = X[np.abs(X @ W - T) < 0.3][:n]
    return X, X @ W > T


def start() -> Faces:
    return Faces(W[None], np.array([T])).moved(np.array([[0.01, 0.02, 0.0, 0.01]]))


def test_on_a_line_it_is_the_gap_between_the_samples() -> None:
    """Uniform between the nearest samples: the middle, and the width over sqrt(12).

    A walk in one dimension draws independent points, 1200 of them: 3% of the spread.
    """
    X = np.array([[0.1], [0.5], [0.8], [1.3]])
    face = Faces(np.ones((1, 1)), np.array([0.6]))
    cell = version_space(X, X[:, 0] > 0.6, face, 1.0, 0.0, np.random.default_rng(0))
    assert isinstance(cell, Cell) and cell.contradicted == 0
    spread = 0.3 / np.sqrt(12)
    assert cell.face.thresholds[0] == pytest.approx(0.65, abs=4 * spread / np.sqrt(1200))
    assert cell.threshold_error == pytest.approx(spread, rel=0.1)
    assert cell.angle_error == 0


@pytest.mark.parametrize("n", [100, 1000])
def test_the_spread_is_the_error(n: int) -> None:
    """In the root mean square over 20 draws, itself right to some 15%; three times that."""
    ratios = []
    for seed in range(20):
        X, beyond = band(n, seed)
        cell = version_space(X, beyond, start(), 0.3, 0.0, np.random.default_rng(seed))
        assert isinstance(cell, Cell)
        assert np.all((cell.face.margins(X)[:, 0] > 0) == beyond)
        off = np.linalg.norm(cell.face.weights[0] - W)
        ratios.append(
            (off / cell.angle_error, (cell.face.thresholds[0] - T) / cell.threshold_error)
        )
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(ratios), axis=0)), 1.0, atol=0.45)


def test_errors_fall_with_the_number_of_samples() -> None:
    """As one over it, not over its root: ten times the samples, a tenth of the error."""
    errors = []
    for n in (200, 2000):
        X, beyond = band(n, 7)
        cell = version_space(X, beyond, start(), 0.3, 0.0, np.random.default_rng(7))
        assert isinstance(cell, Cell)
        errors.append(cell.angle_error)
    assert 5 < errors[0] / errors[1] < 20


def test_a_flip_is_set_aside() -> None:
    X, beyond = band(500, 3)
    clear = int(np.argmax(np.abs(X @ W - T)))
    beyond[clear] = ~beyond[clear]
    cell = version_space(X, beyond, start(), 0.3, 1e-3, np.random.default_rng(3))
    assert isinstance(cell, Cell) and cell.contradicted == 1
    assert np.linalg.norm(cell.face.weights[0] - W) < 4 * cell.angle_error


def test_two_faces_in_one_contradict_it() -> None:
    X, beyond = band(2000, 4)
    tilted = W + np.array([0.0, 0.2, 0.1])
    beyond |= X @ tilted > T * np.linalg.norm(tilted)
    cell = version_space(X, beyond, start(), 0.3, 0.0, np.random.default_rng(4))
    assert isinstance(cell, Contradiction) and cell.contradicted > 2
    assert 0.001 < cell.tilt < 0.3  # of the order of the angle between them, 0.2


@pytest.mark.parametrize("features", [2, 5])
def test_the_usual_errors_are_those_of_version_spaces(features: int) -> None:
    """Geometric means over 30 draws: spreads of a factor 2 leave 13%, and 0.5 stands for 0.6."""
    ratios, w = [], np.eye(features)[0]
    for seed in range(30):
        rng = np.random.default_rng([seed, features])
        X = rng.standard_normal((400, features))
        X[:, 0] = rng.uniform(-0.5, 0.5, 400)
        face = Faces(w[None], np.zeros(1))
        cell = version_space(X, X[:, 0] > 0, face, 0.5, 0.0, rng)
        assert isinstance(cell, Cell)
        usual = [errors[0] for errors in usual_errors(features, np.array([400.0]))]
        assert not cell.far_below(*usual)
        ratios.append((cell.angle_error / usual[0], cell.threshold_error / usual[1]))
    np.testing.assert_allclose(np.exp(np.mean(np.log(ratios), axis=0)), 1.1, atol=0.4)


def test_a_version_space_may_be_too_small() -> None:
    """Two faces that leave just one between them: a small one in all directions."""
    face = Faces(np.array([[1.0, 0.0]]), np.zeros(1))
    usual = (0.01, 0.01)
    assert Cell(face, 0.0005, 0.0005, 0).far_below(*usual)
    assert not Cell(face, 0.0005, 0.005, 0).far_below(*usual)
    assert not Cell(face, 0.005, 0.0005, 0).far_below(*usual)
    line = Faces(np.ones((1, 1)), np.zeros(1))  # a gap 20 times narrower is common here
    assert not Cell(line, 0.0, 0.0005, 0).far_below(0.0, 0.01)
    assert Cell(line, 0.0, 0.0002, 0).far_below(0.0, 0.01)


def test_no_error_is_stated_below_that_of_an_unseen_pair() -> None:
    """It matters in few dimensions, and not in one, where there are no angles."""
    for features in (1, 2, 3, 16):
        usual, least = (f(features, np.array([100.0])) for f in (usual_errors, least_errors))
        assert np.all(np.greater_equal(least, usual))
        assert np.array_equal(least, usual) == (features in (1, 16))
